"""``python -m tracegrad check``: what it says of functions in files that were not written for it."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tracegrad.__main__ import main
from tracegrad.check import comparison
from tracegrad.check.differences import kinks

MODEL = '''
"""A model.

>>> m = Model(3.0)
>>> m.energy(np.ones(2))
6.0
"""
import sys
from dataclasses import dataclass
import numpy as np
from tracegrad import compile_grad

rate = 0.01


def flow(x, steps, verbose=False):
    """
    >>> import numpy as np
    >>> start = np.array([0.5, 1.5])
    >>> flow("no array", 3)
    Traceback (most recent call last):
    TypeError: ...
    >>> float(flow(start, steps=40)) > 0
    True
    """
    u = x
    for _ in range(steps):
        u = u + rate * np.sin(u) * x
    print("a word in each call")
    return np.sum(u) if u.sum() > 3 else np.sum(u * u)


def spectrum(x):
    return inner(x)


def inner(x):
    y = np.log(x)
    return np.sum(y) + len(y.tobytes())


def noisy(x):
    return np.sum(x + np.random.normal(size=3))


def parts(a, b=2.0):
    return {"x": a * b, "y": [b, 1, "text"]}


def defaults(x=2.0, y=3.0, *, n=2):
    return x * y**n


def whole(n):
    return n * 2


def singular(A):
    return np.linalg.inv(A)


def escape(c):
    z = 0j
    for _ in range(5):
        z = z * z + c
    return np.sum(np.abs(z))


def spread(P):
    return np.sum(np.linalg.cholesky(P))


@dataclass
class Model:
    scale: float
    calls = 0

    def energy(self, x):
        self.calls += 1
        return self.scale * np.sum(x**2)

    @staticmethod
    def norm(x):
        return np.sqrt(np.sum(x**2))

    @classmethod
    def unit(cls, x):
        return cls(1.0).energy(x)


@compile_grad(has_aux=True, static_argnames="mode")
def decorated(x, mode):
    return (np.sum(x) if mode == "sum" else np.prod(x)), x


wrong = type("Wrong", (), {})


def impure(x, seen=[]):
    seen.append(1)
    return np.sum(x) * len(seen)


if __name__ == "__main__":
    sys.exit("a program")
'''


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    file = tmp_path_factory.mktemp("models") / "model_to_check.py"
    file.write_text(MODEL)
    return file


@pytest.fixture(autouse=True)
def timed_for_a_moment(monkeypatch):
    """How long a call takes is said, and no test's subject."""
    monkeypatch.setattr(comparison, "_BATCH", 1e-3)


@pytest.fixture(autouse=True)
def imports_put_back(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


@pytest.fixture
def said(model, capsys):
    """``said("function", ...)``: (status, text)"""

    def run(name, *call):
        words = ["check", f"{model}:{name}", *[word for code in call for word in ("--call", code)]]
        status = main(words)
        out = capsys.readouterr()
        return status, out.out + out.err

    return run


def test_a_function_that_records(said):
    status, text = said("flow")
    assert status == 0
    assert "flow (model_to_check.py:16), called as in its doctest\nrecords\n" in text
    assert "rolled: the loop at model_to_check.py:27 in flow, 4 operations a turn, 40 turns" in text
    assert "bool() gave False at model_to_check.py:30 in flow" in text
    assert "compared by value in each call: rate" in text
    assert "the value is NumPy's" in text
    assert "the gradient of x agrees with finite differences to " in text
    assert "cached value" in text
    assert "a word" not in text


def test_what_does_not_record_is_named_with_its_line_and_the_way_there(said, model):
    status, text = said("spectrum", "spectrum(np.ones(3))")
    assert status == 1
    assert f"does not record\n  {model}:34 in spectrum\n      return inner(x)\n  {model}:39 in inner\n" in text
    assert "tobytes" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "call", "words"),
    [
        ("noisy", "noisy(np.ones(3))", ["plain Python gives another value", "cached value"]),
        ("impure", "impure(np.ones(3))", ["another value in each call"]),
        ("parts", "y = [parts(np.ones(3))]; print(y)", ["that of its sum", "gradient of a agrees"]),
        ("defaults", "defaults(x=2.0, n=3)", ["gradient of x agrees"]),
        ("defaults", None, ["in its defaults", "gradient of x, y agrees"]),
        ("spread", "spread(np.array([[2.0, 0.5], [0.5, 1.0]]))", ["gradient of P agrees"]),
        ("escape", "escape(0.2 + 0.3j)", ["gradient of c agrees"]),
        ("escape", "escape(np.array([0.2 + 0.3j, 0.1j]))", ["gradient of c agrees"]),
        ("whole", "whole(3)", ["no gradient: no argument is made of floats"]),
        ("Model.energy", None, ["its doctest", "gradient of x agrees"]),
        ("Model.norm", "Model.norm(np.ones(2))", ["gradient of x agrees"]),
        ("Model.unit", "Model.unit(np.ones(2))", ["gradient of x agrees"]),
        ("decorated", "decorated(np.arange(1., 4.), 'product')", ["gradient of x agrees"]),
    ],
)
def test_kinds_of_functions(said, name, call, words):
    status, text = said(name, *[call] * (call is not None))
    assert status == 0, text
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("name", "call", "words"),
    [
        ("nothing", None, ["has no function 'nothing'", "flow", "Model.energy"]),
        ("", None, ["which function?"]),
        ("spectrum", None, ["which arguments?", '--call "spectrum(x)"']),
        ("Model.unit", None, ['--call "Model.unit(x)"']),
        ("spectrum", "inner('a')", ["fails: ", "TypeError"]),
        ("spectrum", "1 + 1", ["does not call spectrum"]),
        ("spectrum", "spectrum(", ["SyntaxError"]),
        ("singular", "singular(np.zeros((2, 2)))", ["NumPy itself raises", "LinAlgError: Singular matrix"]),
    ],
)
def test_wrong_usage(said, name, call, words):
    status, text = said(name, *[call] * (call is not None))
    assert status == 2, text
    for word in words:
        assert word in text


def test_wrong_values_and_gradients_are_told(said, monkeypatch):
    """Where the recorder itself is wrong, which a row with another derivative stands for."""
    from tracegrad.check import comparison

    plain = comparison.floats
    monkeypatch.setattr(comparison, "floats", lambda result: [1.5 * x for x in plain(result)])
    status, text = said("Model.norm", "Model.norm(np.ones(2))")
    assert status == 1
    assert "records, and is wrong" in text
    assert "WRONG GRADIENT of x? along a random direction" in text


KINKS = {
    "relu": ("np.sum(np.where(x > 0, x, 0.0))", "np.zeros(3)", "x[2] and 2 more"),
    "relu the other way": ("np.sum(np.where(x >= 0, x, 0.0))", "np.array([0.0, 1.0, -2.0])", "x[0], where"),
    "leaky": ("np.sum(np.where(x > 0, x, 0.01 * x) * np.arange(1, 4))", "np.zeros(3)", "x[2]"),
    "largest of equals": ("np.max(x) * 3", "np.ones(3)", "x[2] and 2 more"),
    "sorted equals": ("np.sum(np.sort(x) * np.arange(3))", "np.ones(3)", "kink at x["),
    "median": ("np.median(x)", "np.array([1.0, 1.0, 2.0, 3.0])", "kink at x["),
    "branch": ("np.sum(x) if x[0] > 0 else -np.sum(x)", "np.zeros(3)", "x[0], where"),
    "matrix": ("np.sum(np.where(x > 0, x, 0.0)) + np.sum(x**2)", "np.array([[1.0, 0.0], [2.0, 3.0]])", "x[0, 1]"),
    "number": ("x * 2 if x > 1 else x + 1", "1.0", "kink at x"),
    "builtin": ("max(x[0], 2.0) * 5", "np.array([2.0])", "kink at x[0]"),
}


@pytest.mark.parametrize("name", KINKS)
def test_a_kink_is_not_called_wrong(name, tmp_path, capsys):
    body, argument, place = KINKS[name]
    (file := tmp_path / "bent.py").write_text(f"import numpy as np\ndef f(x): return {body}\n")
    status = main(["check", f"{file}:f", "--call", f"f({argument})"])
    text = capsys.readouterr().out
    assert status == 0 and "can't be compared: a kink at x" in text and place in text, text
    assert "WRONG" not in text


SMOOTH = {
    "abs": ("np.sum(np.abs(x))", "np.zeros(3)", "agrees"),
    "ties halved": ("np.sum(np.maximum(x, 0))", "np.zeros(3)", "agrees"),
    "beside a kink": ("np.sum(np.where(x > 0, x, 0.0))", "np.array([1e-9, -1e-9])", "agrees"),
    "curved": ("np.sum(np.exp(30 * x))", "np.ones(3)", "agrees"),
    "steep": ("np.sum(np.cbrt(x))", "np.zeros(3)", "do not settle"),
    "steps": ("np.sum(np.floor(x))", "np.ones(3)", "do not settle"),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_what_is_no_kink(name, tmp_path, capsys):
    body, argument, word = SMOOTH[name]
    (file := tmp_path / "smooth.py").write_text(f"import numpy as np\ndef f(x): return {body}\n")
    status = main(["check", f"{file}:f", "--call", f"f({argument})"])
    text = capsys.readouterr().out
    assert status == 0 and word in text and "a kink at" not in text, text


@pytest.mark.parametrize("element", [0, 2])
def test_a_wrong_gradient_beside_a_kink_is_told(element):
    """By finite differences themselves, for a gradient with one wrong element."""

    def loss(offset):
        return float(np.sum(np.maximum(offset, 0) + 3 * offset))

    right = np.full(3, 3.0)  # by the convention of where()
    along = np.array([0.5, -0.7, 0.9])
    assert len(kinks(loss, right, along)) == 3
    smooth = lambda offset: float(np.sum(3 * offset + offset**2))  # noqa: E731
    assert kinks(smooth, np.where(np.arange(3) == element, 7.0, 3.0), along) == []
    mixed = lambda offset: float(np.sum(3 * offset + offset**2) + abs(offset[1]))  # noqa: E731
    assert kinks(mixed, np.where(np.arange(3) == element, 7.0, 3.0 + (np.arange(3) == 1)), along) == []


def test_files(tmp_path, capsys):
    package = tmp_path / "pack_to_check" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package.parent / "lengths.py").write_text("import numpy as np\ndef length(x): return np.sqrt(x @ x)\n")
    (package / "model.py").write_text("from ..lengths import length\ndef twice(x): return 2 * length(x)\n")
    (tmp_path / "random.py").write_text("def double(x): return 2 * x\n")
    (tmp_path / "broken.py").write_text("import sys\n\nsys.exit(3)\n")
    for file, name, status, word in [
        (package / "model.py", "twice", 0, "gradient of x agrees"),
        (package.parent / "lengths.py", "length", 0, "gradient of x agrees"),
        (tmp_path / "random.py", "double", 0, "gradient of x agrees"),
        (tmp_path / "broken.py", "double", 2, "broken.py can't be imported: SystemExit: 3 (line 3)"),
        (tmp_path / "missing.py", "double", 2, "there is no file"),
    ]:
        assert main(["check", f"{file}:{name}", "--call", f"{name}(np.ones(3))"]) == status
        out = capsys.readouterr()
        assert word in out.out + out.err


@pytest.mark.slow
def test_as_a_command(model):
    command = [sys.executable, "-m", "tracegrad", "check", f"{model}:flow", "--explain"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "--- recorded program, with your lines" in found.stdout
    assert textwrap.dedent(found.stdout).count("\nrecords\n") == 1
