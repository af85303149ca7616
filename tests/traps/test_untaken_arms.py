"""Arms of branches that are never taken, which name what can't be looked into: the rest is compiled, and a run that
takes one is right all the same."""

import copy
import heapq
import itertools
import sys
import textwrap
import time
import types

import numpy as np
import pytest
from leftovers import leftovers

from tracegrad import autograd, compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.3, 1.2, 2.0])
plots = None  # the module that PACKAGE is the text of
FLAG = False
PACKAGE = """
import os, threading, time, random

lock, shown, rates = threading.Lock(), [], {"rate": 2.0}

class Table(dict):
    def __missing__(self, key):
        return time.time()

settings = Table()

def figure(*args, **kwargs):
    with lock:
        shown.append(("figure", time.time() > 0, settings["x"] is None))

def plot(x, y=None):
    shown.append(("plot", x.shape, settings["x"] is None))

def scaled(x):
    with lock:
        return x * rates["rate"]

class Bar:
    def __new__(cls, items):
        with lock:
            return object.__new__(cls)

    def __init__(self, items):
        self.items, self.start = items, time.time()

    def __iter__(self):
        shown.append(("bar", len(self.items)))
        return iter(self.items)
"""


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_plots.py").write_text(PACKAGE)
    (folder / "never_loaded.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(folder))
    import installed_plots

    monkeypatch.setattr(sys.modules[__name__], "plots", installed_plots)
    yield installed_plots
    for name in ("installed_plots", "never_loaded"):
        sys.modules.pop(name, None)


def by_default(x, plot=False):
    y = np.sin(x) * 2
    if plot:
        plots.figure()
        plots.plot(y)
    return np.sum(y * y)


def by_import(x, plot=False):
    y = np.sin(x) * 2
    if plot:
        import installed_plots as tools

        tools.figure(figsize=(3, 4))
        tools.plot(y)
    return np.sum(y * y)


def by_late_import(x, plot=False):
    if plot:
        from never_loaded import figure

        figure()
    return np.sum(x * x)


def by_class(x, plot=False):
    total = 0.0
    for k in plots.Bar(range(3)) if plot else range(3):
        total = total + np.sum(x) ** k
    return total


def by_ways_around(x, plot=False):
    y = np.cos(x)
    if not plot:
        return np.sum(y)
    plots.figure()
    return np.sum(plots.scaled(y))


def by_and(x, plot=False):
    plot and plots.figure()
    return np.sum(x**3)


def by_level(x, plot=0):
    if plot >= 2:
        plots.plot(x)
    elif plot == 1:
        plots.figure()
    return np.sum(x**3)


def by_clock(x, plot=False):
    if plot:
        plots.shown.append(time.time() > 0)
    return np.sum(x**3)


def by_noise(x, plot=False):
    if plot:
        x = x + 0 * np.random.default_rng().normal(size=x.shape)
    return np.sum(x**3)


def by_file(x, plot=False):
    y = np.sum(x**3)
    if plot:
        with open("/dev/null", "w") as file:
            file.write(str(float(y)))
    return y


def drawn(y):
    plots.figure()
    plots.plot(y)


def by_helper(x, plot=False):
    y = np.exp(x)
    if plot:
        drawn(y)
    return np.sum(y)


def helper_with_arm(y, plot):
    if plot:
        plots.figure()
    return y * 2


def in_helper(x, plot=False):
    return np.sum(helper_with_arm(np.exp(x), plot))


def beside_taken_ones(x, plot=False, norm="l2", shift=None):
    y = x - shift if shift is not None else x
    if norm == "l1":
        y = np.sum(np.abs(y))
    elif norm == "l2":
        y = np.sqrt(np.sum(y * y))
    else:
        y = plots.scaled(y)
    if y > 0:
        y = y * 3
    if plot:
        plots.figure()
    return y


CASES = [
    by_default, by_import, by_late_import, by_class, by_ways_around, by_and, by_level, by_clock, by_noise, by_file,
    by_helper, in_helper, beside_taken_ones,
]  # fmt: skip


def compare(fn, f, x, **options):
    """One call of *f* beside plain Python's: value, gradient, and what is left in the package."""

    def ran(call):
        before = len(plots.shown)
        result, left = call(), plots.shown[before:]
        del plots.shown[before:]
        return result, left

    (value, gradient), left = ran(lambda: f.value_and_grad(x, **options))
    expected, plain = ran(lambda: fn(x, **options))
    ways = [ran(lambda e=e: [fn(x + s * e, **options) for s in (1, -1)]) for e in 1e-6 * np.eye(len(x))]
    assert np.allclose(value, expected) and repr(left) == repr(plain)
    assert np.allclose(gradient, [(up - down) / 2e-6 for (up, down), _ in ways], atol=1e-5)


@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
def test_what_no_run_reaches_does_not_count(fn):
    f = compile_grad(fn)
    for k in range(3):
        compare(fn, f, X + k)
    traces = f.stats.traces
    compare(fn, f, X + 3)
    assert not f.stats.live and f.stats.traces == traces


@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("order", ["0001100", "1100011", "0101010"])
def test_an_arm_that_is_taken_after_all(fn, order):
    f = compile_grad(fn)
    for k, flag in enumerate(order):
        compare(fn, f, X + 0.1 * k, plot=int(flag))
    for k in range(3):
        compare(fn, f, X + k)


def by_global(x):
    if FLAG:
        return np.sum(plots.scaled(x)) ** 2
    return np.sum(np.sin(x))


def test_a_global_that_decides(monkeypatch):
    f = compile_grad(by_global)
    for _ in range(3):
        compare(by_global, f, X)
    assert not f.stats.live
    monkeypatch.setattr(sys.modules[__name__], "FLAG", True)
    for rate in (2.0, 3.0, 3.0, 3.0):
        plots.rates["rate"] = rate
        compare(by_global, f, X)
    monkeypatch.setattr(sys.modules[__name__], "FLAG", False)
    compare(by_global, f, X)


class Model:
    def __init__(self):
        self.verbose, self.calls, self.seen = False, 0, []

    def draw(self, y):
        plots.figure()
        self.seen.append(float(np.sum(y)))

    def loss(self, x):
        self.calls += 1
        y = np.tanh(x)
        if self.verbose:
            self.draw(y)
        return np.sum(y)


def test_a_method_and_what_it_counts():
    model = Model()
    f = compile_grad(model.loss)
    for k in range(4):
        assert np.allclose(f.grad(X + k), 1 / np.cosh(X + k) ** 2)
    assert not f.stats.live and model.calls == 4 and model.seen == []
    model.verbose = True
    for k in range(3):
        assert np.allclose(f.grad(X + k), 1 / np.cosh(X + k) ** 2)
    assert model.calls == 7 and np.allclose(model.seen, [np.sum(np.tanh(X + k)) for k in range(3)])
    assert all(type(v) is float for v in model.seen) and len(plots.shown) == 3
    model.verbose = False
    f.grad(X)
    assert model.calls == 8 and len(model.seen) == 3


def on_data(x):
    y = np.sum(x)
    if y > 5:
        y = np.sum(plots.scaled(x)) * y
    return y * y


def test_data_that_decides():
    f = compile_grad(on_data)
    for x in (X, X, X, X + 5, X, X + 6, X + 6, X):
        compare(on_data, f, x)


def test_what_decides_is_compared():
    """A flag that comes of what would not be seen otherwise: an item of a dict that only the test reads."""
    switches = {"draw": [False]}

    def fn(x):
        if switches["draw"][-1]:
            plots.figure()
            return np.sum(plots.scaled(x))
        return np.sum(x * x)

    f = compile_grad(fn)
    for _ in range(3):
        compare(fn, f, X)
    switches["draw"].append(True)
    for _ in range(3):
        compare(fn, f, X)
    switches["draw"] = [False]
    compare(fn, f, X)


def test_an_arm_within_try():
    def fn(x, plot=False):
        try:
            y = x * 2
            if plot:
                plots.missing(y)
        except AttributeError:
            return np.sum(np.sin(x)) + len(plots.shown)
        except ValueError:
            plots.figure()
        else:
            y = y + 1
        finally:
            z = x * 3
        return np.sum(y * z)

    f = compile_grad(fn)
    for flag in (0, 0, 0, 1, 1, 0, 0):
        compare(fn, f, X, plot=flag)


def test_arms_of_nested_functions_and_transforms():
    def fn(x, plot=False):
        def step(c):
            if plot:
                plots.figure()
            return c * np.sin(c)

        if plot:
            plots.figure()
        return np.sum(step(x))

    hessian = compile_grad(lambda x: np.sum(autograd.grad(fn)(x) ** 2))
    f = compile_grad(fn)
    for flag in (0, 0, 0, 1, 0):
        compare(fn, f, X, plot=flag)
    slopes = [(np.sum(f.grad(X + e) ** 2) - np.sum(f.grad(X - e) ** 2)) / 2e-6 for e in 1e-6 * np.eye(3)]
    assert np.allclose(hessian.grad(X), slopes, atol=1e-5)


def test_no_function_without_arms_leaves():
    kept = []

    def fn(x, plot=False):
        if plot:
            plots.figure()
        kept.append(fn)
        return np.sum(x)

    f = compile_grad(fn)
    for _ in range(4):
        f.grad(X)
    for g in kept:
        assert g is fn and g.__code__ is fn.__code__
    kept[0](X, plot=True)


def test_a_step_of_tensors():
    import tracegrad as tg

    w = tg.tensor(np.ones(3), requires_grad=True)

    def step(x, plot=False):
        loss = tg.sum((w * x) ** 2)
        if plot:
            plots.figure()
        return loss

    compiled = tg.compile(step)
    for flag in (False, False, False, True, False, True):
        shown = len(plots.shown)
        assert np.isclose(float(compiled(tg.tensor(X), flag)), np.sum(X**2))
        assert len(plots.shown) == shown + flag


def test_what_was_changed_before_an_arm():
    """The run that finds an arm has changed containers before, in ways that no one foresees."""
    heap, order, table, seen = [3.0], [1, 2, 3], {"a": 1}, {1}

    def fn(x, heap, order, table, seen, plot=False):
        heapq.heappush(heap, float(len(heap)))
        order.reverse()
        table.pop("a", None)
        table["b"] = len(order)
        seen.symmetric_difference_update({1, 2})
        if x[0] > 0:
            x = x * 2
        if plot:
            plots.figure()
        return np.sum(x) * len(heap)

    state = heap, order, table, seen
    f = compile_grad(lambda x, plot=False: fn(x, *state, plot))
    like = copy.deepcopy(state)
    for sign, flag in ((1, 0), (-1, 0), (1, 0), (1, 1), (-1, 1), (1, 0)):
        plain = fn(sign * X, *like, flag)
        assert np.isclose(f(sign * X, flag), plain) and state == like


#: An arm that begins with what catches exceptions; ``left`` gets a number in each call that takes it, exactly one.
CATCHING = {
    "finally": """
        try:
            y = x * 2
        finally:
            left.append(x[0] + len(left))
    """,
    "except all": """
        try:
            y = x * rates["x"]
        except BaseException:
            left.append(x[0] + len(left))
            y = x * 2
    """,
    "with": """
        with noting(left, x[0]):
            y = x * 2
    """,
    "nested": """
        try:
            try:
                y = x * rates["x"]
            finally:
                left[:] = [[x[1]], *left]
        except KeyError:
            left.append([x[0]])
            y = x * 2
    """,
    "after a loop": """
        for _ in range(2):
            try:
                y = x * next(counts)
            finally:
                left.append(x[0])
    """,
}
AROUND = """
import contextlib, itertools, time
import numpy as np
left, rates, counts = [], {}, itertools.count(1)

@contextlib.contextmanager
def noting(into, value):
    try:
        yield
    finally:
        into.append(value + len(into))

def f(x):
    if x[0] < 0:
        return np.sum(x)
    if x[0] > 1:
ARM
        return np.sum(y) + time.time() * 0
    return np.sum(x * x)
"""


@pytest.mark.parametrize("name", CATCHING)
def test_an_arm_that_begins_with_a_handler(name):
    """What stops a run at an arm is not seen by the handlers in it."""
    arm = textwrap.indent(textwrap.dedent(CATCHING[name]), " " * 8)
    plain, mine = {"__name__": "plain"}, {"__name__": "mine"}
    for space in (plain, mine):
        exec(AROUND.replace("ARM", arm), space)
    f = compile_grad(mine["f"])
    for first in (0.5, 0.6, 2.0, 2.5, -1.0, 3.0):
        x = np.array([first, 1.0])
        assert np.isclose(f(x), plain["f"](x))
        assert repr(mine["left"]) == repr(plain["left"]) and not leftovers({"left": mine["left"]})


#: Arms after which the state can't be compared.
OPAQUE_ARMS = {
    "an iterator": "log.append(next(it))",
    "a descriptor": "odd.own = 1.0",
    "a dict of attributes": "s.__dict__.pop('q', None)",
}


@pytest.mark.parametrize("arm", OPAQUE_ARMS)
@pytest.mark.parametrize("before", ["kept.append(x)", "kept.append(x[0])", "s.n += 1", "s.by[1] = x", "pass"])
def test_an_arm_after_which_python_runs(before, arm):
    """That it has been taken stays known, whatever else the run has taught: no run is made again and again."""
    source = (
        "class Own:\n"
        "    def __get__(self, o, t=None): return self if o is None else o.__dict__.get('_own', 0.5)\n"
        "    def __set__(self, o, v): o.__dict__['_own'] = v\n"
        "class Odd: own = Own()\n"
        "odd, it, kept, s = Odd(), itertools.cycle([0.5, 1.0]), [], types.SimpleNamespace(n=0, by={})\n"
        "def f(x, log):\n"
        f"    {before}\n"
        "    if x[1] < x[2]: return np.sum(x)\n"
        f"    {OPAQUE_ARMS[arm]}\n"
        "    return np.sum(x * x) + odd.own\n"
    )
    sides = []
    for _ in range(2):
        space = {"np": np, "itertools": itertools, "types": types}
        exec(source, space)
        sides.append((space["f"], space, []))
    (mine, ours, ours_log), (plain, theirs, log) = sides
    f = compile_grad(mine)
    for point in ([0.5, 1.0, 1.5], [1.5, 1.1, 0.4], [0.5, 1.0, 1.5], [1.5, 1.1, 0.4], [1.0, 1.1, 0.4]):
        assert np.isclose(f(np.array(point), ours_log), plain(np.array(point), log))
        assert (len(ours["kept"]), vars(ours["s"])["n"], ours_log) == (len(theirs["kept"]), vars(theirs["s"])["n"], log)
    assert f.stats.traces < 20
