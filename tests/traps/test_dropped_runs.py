"""Traps: a run is made again, or by plain Python, or is refused: what it has done is done once, or not at all."""

from __future__ import annotations

import functools
import types

import numpy as np
import pytest
from leftovers import leftovers
from with_source import code_of

import tracegrad
from tracegrad import TracegradError, compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")

#: What a run changes: (set-up, statement, what shows it)
CHANGES = {
    "an attribute of a class": ("class M: t = 0.5", "M.t = M.t * 0.5 + 0.75", "M.t"),
    "a global": ("T = 0.5\ndef add():\n    global T\n    T = T * 0.5 + 0.75", "add()", "T"),
    "an outer variable": (
        "def make():\n    t = 0.5\n    def add():\n        nonlocal t\n        t = t * 0.5 + 0.75\n"
        "    return add, lambda: t\nadd, get = make()",
        "add()",
        "get()",
    ),
    "an attribute": ("s = types.SimpleNamespace(t=0.5)", "s.t = s.t * 0.5 + 0.75", "s.t"),
    "a slot": (
        "class M: __slots__ = ('t',)\ns = M()\ns.t = 0.5",
        "s.t = s.t * 0.5 + 0.75",
        "s.t",
    ),
    "a key": ("d = {'t': 0.5}", "d['t'] = d['t'] * 0.5 + 0.75", "d"),
    "an item": ("d = [0.5]", "d[0] = d[0] * 0.5 + 0.75", "d"),
    "a list that grows": ("d = [0.5]", "d.append(len(d))", "d"),
    "a list that only grows": ("d = [0.5]", "d.append(1.5)", "d"),
    "objects in a list": ("d = []", "d.append(types.SimpleNamespace(t=0.5))", "len(d)"),
    "a set": ("d = {0}", "d.add(len(d))", "d"),
    "a deque": ("import collections\nd = collections.deque([1.0])", "d.append(d[-1] * 0.5)", "d"),
    "a counter": ("import collections\nd = collections.Counter()", "d[1] += 1", "d"),
    "a module": ("m = types.ModuleType('m')\nm.t = 0.5", "m.t = m.t * 0.5 + 0.75", "m.t"),
    "a default": ("def fn(a=0.5): return a", "fn.__defaults__ = (fn() * 0.5 + 0.75,)", "fn()"),
    "an iterator": ("import itertools\nit, last = itertools.count(), [0]", "last[0] = next(it)", "last, repr(it)"),
}
#: The same of steps alone.
TENSORS = {
    "a tensor in place": ("import tracegrad\nt = tracegrad.zeros(3)", "t.add_(0.75)", "t.tolist()"),
    "an item of a tensor": ("import tracegrad\nt = tracegrad.zeros(3)", "t[1] = t[1] * 0.5 + 0.75", "t.tolist()"),
    "a view of a tensor": ("import tracegrad\nt = tracegrad.zeros(3)\nv = t[1:]", "v.mul_(0.5).add_(1)", "t.tolist()"),
}

#: Why a run is made again: the statements after those that change something.
REASONS = {
    "an exception of C code": "next(iter(st), 1) % 4\n    st[3, int(x[0] > 0.8)] = 1\n    return (x * x).sum()",
    "a result that is read later": "return map(lambda v: v * 2, [(x * x).sum()])",
    "NaNs that are told apart": "l.append(o.m); o.m = nan\n    return (x * x).sum() * l.count(nan)",
    "a key that is no number": "st[len(st), x[0] > 0.8] = [0.5][len(st) % 1]\n    return (x * x).sum()",
}


def spaces(source):
    found = []
    for name in ("plain", "mine"):
        space = {"__name__": name, "types": types}
        exec(code_of(source, name), space)
        found.append(space)
    return found


def outcome(f, x):
    try:
        found = f(x)
    except TypeError as error:
        return str(error)
    return [float(v) for v in found] if hasattr(found, "__next__") else float(found)


@pytest.mark.parametrize(
    ("change", "steps"),
    [*[(change, steps) for change in CHANGES for steps in (False, True)], *[(t, True) for t in TENSORS]],
)
@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("provable", [True, False])
def test_changes_are_made_once(change, reason, steps, provable):
    setup, statement, shown = (CHANGES | TENSORS)[change]
    opaque = "" if provable else "    other.__dict__.pop('none', None)\n"
    plain, mine = spaces(
        f"{setup}\nother, st, nan = types.SimpleNamespace(a=1), {{}}, float('nan')\n"
        "l, o = [], types.SimpleNamespace(m=float('nan'))\n"
        f"def f(x):\n    {statement}\n{opaque}    {REASONS[reason]}\n"
    )
    f = (tracegrad.compile if steps else compile_grad)(mine["f"])
    for value in (0.5, 1.5, 0.5, 0.5):
        x = tracegrad.tensor([value] * 3) if steps else np.full(3, value)
        before, found = repr(eval(shown, mine)), outcome(f, x)
        if "compares two NaNs" in str(found):  # refused, and so has done nothing
            assert repr(eval(shown, mine)) == before
            break
        assert found == outcome(plain["f"], x)
        assert repr(eval(shown, mine)) == repr(eval(shown, plain))


@pytest.mark.parametrize("change", ["an attribute of a class", "a set", "a deque", "a counter"])
def test_the_statistics_say_that_plain_python_has_answered(change):
    """Whether an argument is the very NaN that a list holds only Python can tell."""
    setup, statement, shown = CHANGES[change]
    plain, mine = spaces(
        f"{setup}\nnan = float('nan')\ndef f(x, t):\n    {statement}\n    return (x * x).sum() * [nan].count(t)\n"
    )
    f = compile_grad(mine["f"])
    assert f(np.ones(3), mine["nan"]) == plain["f"](np.ones(3), plain["nan"]) == 3.0
    assert f(np.ones(3), float("nan")) == plain["f"](np.ones(3), float("nan")) == 0.0
    assert repr(eval(shown, mine)) == repr(eval(shown, plain))
    assert any(reason.startswith("plain Python has answered: a container") for reason in f.stats.retraces)


#: Calls that are refused, as they would write into an array of the caller's.
REFUSED = {
    "an item": "A[0] = x[0]\n    A[1] = A[0] * 2",
    "in place": "A += x",
    "two items": "A[0], A[1] = x[0], A[0]",
    "a row": "A[:2] = x[:2]",
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kept", ["s.last = x[0]", "s.last = (v * 0.5 for v in [x[0]])", "s.seen.append(x)"])
def test_a_refused_call_leaves_all_as_it_was(name, kept):
    _, space = spaces(
        "import numpy as np\nA, s = np.zeros(3), types.SimpleNamespace(last=None, seen=[], n=0)\n"
        f"def f(x):\n    global A\n    s.n += 1\n    {kept}\n    {REFUSED[name]}\n    return np.sum(x * A)\n"
    )
    f = compile_grad(space["f"])
    for _ in range(3):
        with pytest.raises(TracegradError):
            f(np.ones(3))
        s = space["s"]
        assert (s.last, s.seen, s.n, space["A"].tolist()) == (None, [], 0, [0.0] * 3)


#: What a run keeps before it raises: it can be read afterwards.
KEPT = {
    "a generator": ("(v * 0.5 for v in [x[0], np.sum(x)])", list),
    "an iterator": ("iter([x[0], x[1]])", list),
    "map": ("map(np.tanh, [x[0], x[1]])", list),
    "a function": ("lambda: x[0] * 2", lambda f: [f()]),
    "a generator within": ("[0, (v for v in [x[0]])]", lambda v: [v[0], *v[1]]),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_was_kept_before_an_exception(name):
    text, read = KEPT[name]
    plain, mine = spaces(
        "import numpy as np\ns = types.SimpleNamespace(last=None)\n"
        f"def f(x):\n    s.last = {text}\n    if x[0] > 0:\n        raise ValueError('mine')\n    return np.sum(x)\n"
    )
    f = compile_grad(mine["f"])
    for k in range(3):
        for g, space in ((f, mine), (plain["f"], plain)):
            with pytest.raises(ValueError, match="mine"):
                g(np.ones(3) + k)
            assert not leftovers({"s": space["s"]})
        assert repr(read(mine["s"].last)) == repr(read(plain["s"].last))


def writes_into_a_new_array(x, s):
    made = np.zeros(3)
    made[0] = np.sum(x)
    return np.sum(made * x)


def counts_otherwise(x, s):
    s.n += 1
    if s.n > 1:
        s.n = int(s.n * 2)
    return np.sum(x) * s.n


def needs_contents(x, s):
    s.scale = s.scale * 1.5
    return np.sum(x) * float(f"{s.scale:.3f}")


@pytest.mark.parametrize("fn", [writes_into_a_new_array, counts_otherwise, needs_contents], ids=lambda f: f.__name__)
def test_dropped_runs_are_counted(fn):
    """Each run that was begun has its reason in ``stats``."""
    mine, plain = [types.SimpleNamespace(flag=False, rows=[1], n=0, scale=1.0) for _ in range(2)]
    f = compile_grad(lambda x: fn(x, mine))
    for k in range(4):
        assert f(np.ones(3) + k) == fn(np.ones(3) + k, plain)
    again = [count for reason, count in f.stats.retraces.items() if "the run is made again" in reason]
    assert (sum(again) > 0) is (fn is writes_into_a_new_array)
    assert f.stats.live or sum(f.stats.retraces.values()) == f.stats.traces + f.stats.retries


@pytest.mark.parametrize("grows", ["self.n += 1", "self.seen.append(n)", "self.by[n] = n"])
def test_what_a_function_with_a_cache_has_done_stays(grows):
    """It does so once: a run that is made again finds its answer in the cache."""
    sides = []
    for name in ("plain", "mine"):
        space = {"np": np, "functools": functools, "__name__": name}
        exec(
            "class Owner:\n    def __init__(self): self.n, self.seen, self.by = 0, [], {}\n"
            f"    @functools.lru_cache(None)\n    def kept(self, n):\n        {grows}\n        return n * 2\n"
            "owner = Owner()\ndef f(x, k):\n    return np.sum(x * x) + 0.1 * owner.kept(3 - k)\n",
            space,
        )
        sides.append(space)
    plain, mine = sides
    f = compile_grad(mine["f"])
    for k in (2, 1, 2, 0, 1):
        assert f(np.ones(3), k) == plain["f"](np.ones(3), k)
        assert vars(mine["owner"]) == vars(plain["owner"])
