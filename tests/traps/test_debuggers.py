"""Values that are looked at while the function runs, at a debugger's prompt, in a console, by ``breakpoint()``'s hook:
what is typed there neither fails the call nor changes the program."""

import builtins
import code
import io
import pdb
import sys

import numpy as np
import pytest

from tracegrad import UnsupportedError, compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.5, 1.0, 2.0])
EXPRESSIONS = {
    "float(z[0])": "1.648",
    "z": "7.389",
    "z.tolist()": "7.389",
    "np.asarray(z)": "7.389",
    "np.array([z[0], z[1]])": "2.718",
    "int(z[2])": "7",
    "bool(z[0] > 1)": "True",
    "z[0] > 2": "False",
    "z.tobytes()": "Error",
    "z.nosuch": "Error",
    "z[10]": "Error",
    "1 / 0": "Error",
    "np.linalg.inv(z)": "Error",
    "sorted(float(v) for v in z)": "7.389",
    "'%.3f' % z[0]": "1.649",
    "locals().keys()": "z",
    "n + 1": "1",
    "len(z)": "3",
}


def typed(lines):
    """A function at whose prompt the *lines* are typed, and what is shown there."""
    shown = io.StringIO()

    def stop():
        debugger = pdb.Pdb(stdin=io.StringIO("".join(f"{line}\n" for line in lines)), stdout=shown, nosigint=True)
        debugger.use_rawinput = False
        debugger.set_trace(sys._getframe(1))

    def f(x):
        n = 0
        z = np.exp(x)
        stop()
        if n == 0 and z[0] > 1:
            z = z * 2
        return np.sum(z)

    return f, shown


def check(f, factor=2.0):
    g = compile_grad(f)
    assert np.allclose(g.grad(X), factor * np.exp(X))
    return g


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("command", ["p", "pp", "!print(", "n"])
def test_what_is_typed_at_a_prompt(expression, command):
    before = ["n"] if command == "n" else []
    line = f"!print({expression})" if command == "!print(" else f"{'p' if command == 'n' else command} {expression}"
    f, shown = typed([*before, line, line, "w", "c"])
    try:
        if command == "!print(":
            check(f)
        else:
            check(f)
            assert EXPRESSIONS[expression] in shown.getvalue()
    finally:
        sys.settrace(None)


def test_what_is_assigned_at_a_prompt():
    for line, factor in (("!n = 3", 1.0), ("!x = 3", 2.0), ("!z = z * 3", 6.0)):
        f, _ = typed([line, "c"])
        try:
            check(f, factor)
        finally:
            sys.settrace(None)


class Inspector:
    """Hooks of ``breakpoint()`` that evaluate the expressions in the frame that stops."""

    def __init__(self):
        self.seen = []

    def __call__(self, *args, **kwargs):
        self.look(sys._getframe(1))

    def method(self):
        self.look(sys._getframe(1))

    def look(self, frame):
        for expression in EXPRESSIONS:
            try:
                self.seen.append(repr(eval(expression, frame.f_globals, frame.f_locals)))
            except Exception as error:
                self.seen.append(type(error).__name__)


@pytest.mark.parametrize("kind", ["object", "method", "function"])
def test_a_hook_of_breakpoint(kind, monkeypatch):
    inspector = Inspector()

    def function():
        inspector.look(sys._getframe(1))

    monkeypatch.setattr(
        sys, "breakpointhook", {"object": inspector, "method": inspector.method, "function": function}[kind]
    )

    def f(x):
        n = 0
        z = np.exp(x)
        breakpoint()
        return np.sum(z) * (2 + n)

    g = check(f)
    assert all(word in seen for word, seen in zip(EXPRESSIONS.values(), inspector.seen, strict=True))
    for k in range(3):
        assert np.allclose(g.grad(X + k), 2 * np.exp(X + k))
    assert len(inspector.seen) == 4 * len(EXPRESSIONS)


#: but for pytest's loader, through which a search for what was left in a namespace comes to all tests that there are
OWN_NAMES = {name: value for name, value in globals().items() if name not in ("__loader__", "__spec__")}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_console(expression, capsys, monkeypatch):
    monkeypatch.setattr(builtins, "_", None, raising=False)  # where consoles put what they have shown

    def f(x):
        n = 0
        z = np.exp(x)
        console = code.InteractiveConsole({**(OWN_NAMES if expression == "z" else {"np": np}), **locals()})
        console.push(expression)
        return np.sum(z) * (2 + n)

    check(f)
    assert EXPRESSIONS[expression] in "".join(capsys.readouterr())


def test_the_program_itself_is_refused_as_ever(monkeypatch):
    """A hook that is set, and a debugger that has run, change nothing of code that is the function's own."""
    monkeypatch.setattr(sys, "breakpointhook", Inspector())

    def caught(x):
        z = np.exp(x)
        try:
            z.tobytes()
        except TypeError:
            return np.sum(x)
        return np.sum(z)

    def lost(x):
        return np.sum(x) * eval("float(z[0])", {}, {"z": np.exp(x)})

    for f in (caught, lost):
        with pytest.raises(UnsupportedError):
            compile_grad(f).grad(X)

    branches = compile_grad(lambda x: np.sum(x) if x[0] > 0 else np.sum(x * x))
    for x in (X, X, -X, -X, X):
        assert np.allclose(branches.grad(x), 1 if x[0] > 0 else 2 * x)
