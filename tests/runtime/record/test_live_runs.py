"""Functions whose Python runs in each call: copies of their code do what Python does, once, and in its order."""

from __future__ import annotations

import abc
import collections.abc
import contextlib
import functools
import heapq
import inspect
import math
import sys
import time
import types
import warnings

import numpy as np
import pytest
from agreement import numerical_gradient

import tracegrad
from tracegrad import compile_grad
from tracegrad.runtime.record.reached import Reached
from tracegrad.runtime.record.unwrap_tracers import Holders
from tracegrad.runtime.record.written_places import WrittenPlaces
from tracegrad.runtime.state.trust import Trust
from tracegrad.tracer.ir.errors import MutationError, UnsupportedError
from tracegrad.tracer.record.shown_names import CALLED

X = np.array([0.7, 1.3, 0.4])


class Number:
    """Its methods ask what only recorded code can answer for a traced value."""

    def __init__(self, v):
        self._v = v

    @property
    def v(self):
        return float(self._v)

    def __add__(self, other):
        z = np.zeros(2)
        z[0], z[1] = self._v, other._v if type(other) is Number else other
        return Number(z.sum())

    def __radd__(self, other):
        return Number(self._v + 2 * other)

    def __mul__(self, other):
        return NotImplemented if isinstance(other, str) else Number(self.v * other)

    def __neg__(self):
        return Number(-self.v)

    def __lt__(self, other):
        return float(self._v) < float(other._v)

    def __getitem__(self, k):
        return float(self._v) * k

    def __len__(self):
        return 3

    def __bool__(self):
        return float(self._v) > 0

    def __call__(self, k=2.0):
        return float(self._v) * k

    def __getattr__(self, name):
        if name == "twice":
            return 2 * float(self._v)
        raise AttributeError(name)

    def __iter__(self):
        return iter([float(self._v), 1.0])

    def __enter__(self):
        return float(self._v)

    def __exit__(self, *error):
        return False

    def __contains__(self, x):
        return float(self._v) < x

    def __format__(self, spec):
        return f"<{spec}>"


class Table(collections.abc.Mapping):
    def __init__(self, a, b):
        self.d = {"a": a, "b": b}

    def __getitem__(self, name):
        found = self.d[name]
        return found * 2.0 if found > 0.6 else found

    def __iter__(self):
        return iter(self.d)

    def __len__(self):
        return len(self.d)


class TableOfDict(dict):
    def __iter__(self):
        return iter(["a"])


class NoIterator(tuple):
    __slots__ = ()

    def __next__(self):
        return 5.0


class Inherits(collections.abc.Iterator):
    def __init__(self, t):
        self.t, self.k = t, 0

    def __next__(self):
        self.k += 1
        if self.k > 2:
            raise StopIteration
        return self.t if self.t > 0.6 else self.t * 2.0


class Steps:
    def __init__(self, t):
        self.t, self.k = t, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.k += 1
        if self.k > 3:
            raise StopIteration
        z = np.zeros(1)
        z[0] = self.t
        return z[0] * self.k


class Named(tuple):
    __slots__ = ()

    def __new__(cls, *parts):
        return tuple.__new__(cls, [float(x) for x in parts])


class Scaled:
    def __set_name__(self, owner, name):
        self.name = f"_{name}"

    def __get__(self, obj, kind=None):
        return self if obj is None else float(getattr(obj, self.name)) * 2

    def __set__(self, obj, value):
        setattr(obj, self.name, float(value) + 1)


class Described:
    d = Scaled()

    @functools.cached_property
    def kept(self):
        return float(self.d) * 3


@contextlib.contextmanager
def scaled(t):
    z = np.zeros(1)
    z[0] = t
    yield float(z[0])


def described(x):
    obj = Described()
    obj.d = x[0]
    return obj.d + obj.kept + obj.kept


def in_context(x):
    with scaled(x[0]) as a, Number(x[1]) as b:
        return a * b


def by_pattern(x):
    match {"a": x[0], "b": 2.0}:
        case {"a": a, **rest}:
            return float(a) * len(rest)


KIND = {"of": type}


def drawn(x):
    z = np.random.default_rng(0).normal(size=3)
    u, v = np.meshgrid([1.0, 2.0], [3.0])
    z[0] = x[0]
    u[0, 0] = x[0]
    return z.sum() + (u * v).sum()


KINDS = {
    "operators": lambda x: (Number(x[0]) + Number(x[1])).v + (Number(x[0]) + 1.0).v + (3.0 + Number(x[1])).v,
    "others": lambda x: (Number(x[0]) * 3.0).v + (-Number(x[1])).v + Number(x[2])[2] + Number(x[0])() + len(Number(1)),
    "in place": lambda x: functools.reduce(lambda a, b: a.__add__(b), map(Number, x)).v,
    "questions": lambda x: x[0] * (2.0 if Number(x[0]) else 1.0) * (3.0 if 5.0 in Number(x[1]) else 1.0),
    "order": lambda x: sorted(map(Number, x), key=lambda n: n.v)[0].v + (x[1] if Number(x[0]) < Number(x[1]) else 0.0),
    "order by C": lambda x: sorted(x, key=float)[0] * 2.0 + max(x, key=abs) + min([x[0], x[1]], key=math.sin),
    "a hook": lambda x: Number(x[0]).twice + getattr(Number(x[1]), "none", 4.0),
    "iterators": lambda x: sum(Steps(x[0])) + max([*Steps(x[1])]) + sum(a * b for a, b in [Number(x[2])]),
    "a method that no iterator has": lambda x: sum(NoIterator(x)) + [*NoIterator(x)][1] + max(NoIterator(x)),
    "an inherited iterator": lambda x: sum(Inherits(x[0])) + sum(v for v in Inherits(x[2])) + max(Inherits(x[1])),
    "an iterator is gone through once": lambda x: (lambda it: sum(sorted(it)) + len(list(it)))(v * 2 for v in x),
    "a dict of a mapping": lambda x: sum(v * k for k, v in enumerate(dict(Table(x[0], x[1]), c=x[2]).values(), 1)),
    "a dict of a dict": lambda x: sum(dict(TableOfDict(a=x[0], b=x[1])).values()) * len(dict(TableOfDict(a=1))),
    "a tuple": lambda x: sum(Named(*x)) + Named(*x)[1],
    "descriptors": described,
    "contexts": in_context,
    "texts": lambda x: x[0] * len(f"{Number(x[0]):>3}") + x[1] * len("{rate}".format(**{0: 1, "rate": 22})),
    "patterns": by_pattern,
    "functions as values": lambda x: sum(map(np.sin, x)) + sum(f(x[0]) for f in (float, abs, np.float64)),
    "type under other names": lambda x, of=type: x[0] * sum(k(v) is np.float64 for k in (of, KIND["of"]) for v in x),
    "eval": lambda x, k=3: eval("x[0] * k") + (lambda: eval("abs(x[1])") + 0 * x[0])(),
    "partials": lambda x: functools.partial(lambda a, b: float(a) * b, x[0])(3.0),
    "numbers of NumPy": lambda x: float.__mul__(float(x[0]), 2.0) + x[1].__float__(),
    "methods of plain arrays": lambda x: np.ones((3, 3)).dot(x).sum() + sum(map(np.arange(3.0).dot, [x, x])),
    "drawn arrays": drawn,
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_values_are_pythons(name):
    function = KINDS[name]

    def f(x):
        time.perf_counter()
        return function(x) * 1.0

    compiled = compile_grad(f)
    for x in (X, X * 1.1):
        value, gradient = compiled.value_and_grad(x)
        assert value == pytest.approx(f(x), rel=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (x,)), rtol=1e-5, atol=1e-7)
    assert "clock" in compiled.stats.live


PLAIN = np.linspace(0.1, 1.2, 12)
TABLE = PLAIN.reshape(4, 3)


def rows(x):
    m = TABLE.copy()
    for row in m:
        row[0] = x[0]
    return m.sum()


def exchanged(x):
    z = PLAIN.copy()
    u = PLAIN * 0.5
    for k in range(4):
        z, u = u, z
        u[k] += x[0]
    return z @ PLAIN + u.sum()


def reversed_view(x):
    z = PLAIN.copy()
    u = z[::-1]
    u[3] = x[0]
    return z @ PLAIN


def set_first(a, value):
    a[0] = value


def by_a_function(x):
    z, m = PLAIN.copy(), TABLE * 2.0
    set_first(z, x[1])
    set_first(value=x[:3], a=m)
    return z.sum() + m.sum()


def in_a_list(x):
    z = PLAIN.copy()
    arrays = [z, PLAIN * 2.0]
    arrays.append(PLAIN + 1.0)
    for a in arrays:
        a[0] = x[0]
    return z.sum() + arrays[1][:2].sum() + arrays[2].sum()


def in_a_dict(x):
    d = {"a": PLAIN.copy()}
    d["b"] = PLAIN * 2.0
    d["a"][0], d["b"][1] = x[0], x[1]
    return d["a"].sum() + d["b"].sum()


def in_an_object(x):
    box = types.SimpleNamespace(h=PLAIN.copy())
    box.h[2] = x[0]
    return box.h.sum()


def a_row(x):
    m = TABLE.copy()
    a = m[2]
    a[0] = x[0]
    m[1][2] = x[1]
    return (m * TABLE).sum()


def in_pairs(x):
    m = TABLE.copy()
    for k, (row, v) in enumerate(zip(m, x, strict=False)):
        row[k] = v
    return (m * TABLE).sum()


def for_out(x):
    z = PLAIN.copy()
    np.multiply(PLAIN, x[0], out=z[:])
    z.sort()
    return z @ PLAIN


WRITTEN = (
    rows, exchanged, reversed_view, by_a_function, in_a_list, in_a_dict, in_an_object, a_row, in_pairs, for_out,
)  # fmt: skip


@pytest.mark.parametrize("function", WRITTEN)
def test_arrays_that_are_written_under_another_name_hold_traced_values(function):
    def f(x):
        time.perf_counter()
        return function(x) * 1.0

    compiled = compile_grad(f)
    value, gradient = compiled.value_and_grad(X)
    assert value == pytest.approx(f(X), rel=1e-12)
    np.testing.assert_allclose(gradient, numerical_gradient(f, (X,)), rtol=1e-5, atol=1e-7)


def test_functions_in_a_queue_stay_themselves():
    done = []

    def first(x):
        return np.sum(x)

    def f(x):
        queue = []
        heapq.heappush(queue, (time.perf_counter(), first))
        table = {"f": first, "g": [first]}
        taken = heapq.heappop(queue)[1]
        done.append(taken)
        assert taken is first and table["g"][0] is first and table == {"f": first, "g": [taken]}
        return taken(x) * 2

    assert compile_grad(f)(X) == pytest.approx(2 * X.sum())
    assert done == [first]


def test_what_libraries_keep_are_the_users_functions():
    """A function that a library's was given, and has kept, is the user's own when the run is over."""
    kept = types.SimpleNamespace()

    def f(x):
        def g(v):
            return v * 2.0

        kept.g, kept.wrapped = g, functools.wraps(g)(lambda v: g(v) + time.perf_counter() * 0)
        kept.mapped = map(g, [1.0, 2.0])
        return np.sum(kept.wrapped(x))

    assert compile_grad(f)(X) == pytest.approx(2 * X.sum())
    assert kept.wrapped.__wrapped__ is kept.g and kept.g(3.0) == 6.0 and list(kept.mapped) == [2.0, 4.0]


def test_frames_are_those_of_the_code():
    """No frame of ours stands between a function and the one that calls it, as warnings and debuggers see them."""
    seen = []

    def called():
        seen.append((sys._getframe(1).f_code.co_name, inspect.stack()[1].function))
        warnings.warn("here", stacklevel=2)

    def f(x):
        called()
        return np.sum(x) + time.perf_counter() * 0

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        compile_grad(f)(X)
    assert seen == [("f", "f")] and found[0].filename == __file__
    assert found[0].lineno == f.__code__.co_firstlineno + 1


def test_errors_are_pythons():
    class Base(abc.ABC):
        @abc.abstractmethod
        def g(self): ...

        def __init__(self):
            self.made = True

    cases = [
        lambda x: Base(), lambda x: Number(x[0]) * "a", lambda x: Number(x[0]) < 1, lambda x: Number(1.0).nothing,
        lambda x: f"{Number}{x[0]:d}", lambda x: Number(), lambda x: next(Steps(x[0]), 1, 2),
    ]  # fmt: skip
    for case in cases:

        def f(x, case=case):
            time.perf_counter()
            case(x)
            return np.sum(x)

        with pytest.raises(Exception) as plain:
            f(X)
        with pytest.raises(type(plain.value)):
            compile_grad(f)(X)


def test_an_array_that_an_object_has_takes_no_traced_values():
    owner = types.SimpleNamespace(z=np.ones(3))

    def f(x):
        time.perf_counter()
        z = owner.z
        z[0] = x[0]
        return np.sum(z)

    for _ in range(2):
        with pytest.raises(MutationError, match=r"z = z\.copy\(\)(.|\n)*test_live_runs\.py.*in f"):
            compile_grad(f)(X)
    assert owner.z.tolist() == [1.0, 1.0, 1.0]


def test_a_generator_goes_on_when_the_run_is_over():
    kept = types.SimpleNamespace()

    def numbers(n):
        for k in range(n):
            yield float(k) + len([*range(k)])

    def f(x):
        kept.it = numbers(4)
        time.perf_counter()
        return np.sum(x) * next(kept.it) + np.sum(x)

    assert compile_grad(f)(X) == pytest.approx(X.sum())
    assert [*kept.it] == [2.0, 4.0, 6.0] and isinstance(kept.it, collections.abc.Generator)


def test_effects_are_done_once():
    """What an operator, a property or an iterator of the user's does is done once."""
    log = []

    class Noted:
        def __mul__(self, other):
            log.append("mul")
            return NotImplemented

        @property
        def p(self):
            log.append("p")
            raise AttributeError("p")

        def __iter__(self):
            log.append("iter")
            return iter(())

    def f(x):
        time.perf_counter()
        obj = Noted()
        for attempt in (lambda: obj * 2, lambda: obj.p, lambda: [*obj], lambda: sum(obj)):
            with contextlib.suppress(TypeError, AttributeError):
                attempt()
        return np.sum(x)

    f(X)
    wanted = [*log]
    log.clear()
    compile_grad(f)(X)
    assert log == wanted


EXECUTED = """
def f(x):
    time.perf_counter()
    z = np.zeros(3)
    z[1] = x[0]
    kept.append(lambda v: v + OFFSET)
    return np.sum(z * x) * (2.0 if type(x[1]) is np.float64 else 3.0) + float(x[1]) + sum(map(abs, x)) + kept[-1](1.0)
"""


def test_code_without_a_source():
    space = {"np": np, "time": time, "kept": [], "OFFSET": 2.0}
    exec(EXECUTED, space)
    compiled = compile_grad(space["f"])
    for x in (X, X * 1.1):
        value, gradient = compiled.value_and_grad(x)
        assert value == pytest.approx(space["f"](x))
        np.testing.assert_allclose(gradient, numerical_gradient(space["f"], (x,)), rtol=1e-5)
    space["OFFSET"] = 5.0
    assert [g(1.0) for g in space["kept"]] == [6.0] * len(space["kept"])


CLASSES = """
class Model:
    def __call__(self, x):
        z = np.zeros(2)
        z[0] = float(x[0]) * (2.0 if type(x[0]) is np.float64 else 3.0)
        return helper(z)

def helper(z):
    return z[0] * 2.0

m = Model()
def f(x):
    time.perf_counter()
    return m(x) * x[1]
"""


def test_classes_without_a_source():
    """Values are Python's.  Methods are found by no name: what they would lose the gradient by is an error."""
    space = {"np": np, "time": time}
    exec(CLASSES, space)
    assert compile_grad(space["f"])(X) == space["f"](X)
    with pytest.raises(UnsupportedError, match="the plain number behind a traced value"):
        compile_grad(space["f"]).grad(X)
    assert sys.getprofile() is None


@tracegrad.custom_vjp
def squared(x):
    return x * x


def _forward(x):
    return x * x, x


def _backward(x, g):
    z = np.zeros(3)
    for k in range(3):
        z[k] = 2.0 * float(x[k]) * g[k] if x[k] > 0 and type(x[k]) is np.float64 else g[k]
    return (z,)


squared.defvjp(_forward, _backward)


def test_rules_of_derivatives_know_traced_values():
    def f(x):
        time.perf_counter()
        return np.sum(squared(x))

    compiled = compile_grad(f)
    for x in (X, -X):
        np.testing.assert_allclose(compiled.grad(x), np.where(x > 0, 2 * x, 1.0))
    assert sys.getprofile() is None


def test_namespaces_that_frames_show_are_left_alone():
    """Those of our frames, too, which stand between the user's: what stands for `type` in them stays there."""
    before = dict(CALLED)

    def looks(x):
        scale = sys._getframe().f_back.f_globals.get("NO_SUCH_NAME", 2.0)
        return np.sum(x) * scale * (2.0 if type(x) is np.ndarray else 1.0)

    compiled = compile_grad(looks)
    for k in range(2):
        assert compiled(X + k) == 4.0 * np.sum(X + k)
    assert compiled.stats.live and before == CALLED


def test_defaults_that_a_run_gives_a_function_are_those_of_its_next_call():
    def plus(a, b=0.5, *, c=1.0):
        return a + b * c

    def f(x):
        time.perf_counter()
        first = plus(x[0])
        plus.__defaults__ = (2.0,)
        second = plus(x[0])
        plus.__kwdefaults__ = {"c": 3.0}
        third = plus(x[0])
        plus.__defaults__, plus.__kwdefaults__ = (0.5,), {"c": 1.0}
        return first + 10 * second + 100 * third

    compiled = compile_grad(f)
    for x in (X, X * 1.1):
        assert compiled(x) == f(x)


class _Started:
    def start(self, n):
        return np.exp(-np.linspace(0.0, 1.0, n))

    def steps(self, k):
        u = self.start(len(k))
        for _ in range(3):
            u[1:-1] = u[1:-1] * k[1:-1]
        return np.sum(u * k)


_started = _Started()


@pytest.mark.parametrize("of", ["global", "argument"])
def test_an_array_of_a_method_takes_traced_values(of):
    """A live run can't be made again: the code of the classes that it reaches shows which arrays are written into."""

    def f(k, owner=None):
        time.perf_counter()
        return (owner or _started).steps(k)

    x, owner = np.linspace(0.1, 0.9, 5), _started if of == "argument" else None
    compiled = compile_grad(f, argnums=0)
    for _ in range(2):
        value, gradient = compiled.value_and_grad(x, owner)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (x,)), rtol=1e-6, atol=1e-8)
    assert compiled.stats.live


class _Scaled:
    factor = 2.0

    def __call__(self, owner, x):
        return owner.factor * x * 4.0


_scaled = _Scaled()
_by_partial = types.MethodType(functools.partial(lambda k, owner, x: owner.factor * x * k, 3.0), _scaled)
_by_object = types.MethodType(_Scaled(), _scaled)


def test_methods_over_callables_without_a_name():
    def f(x):
        time.perf_counter()
        return np.sum(_by_partial(x)) + np.sum(_by_object(x) ** 2)

    compiled, x = compile_grad(f), np.array([0.5, 2.0])
    for _ in range(2):
        value, gradient = compiled.value_and_grad(x)
        assert value == pytest.approx(f(x))
        np.testing.assert_allclose(gradient, 6.0 + 128.0 * x)
    assert compiled.stats.live


class _ByText(collections.UserDict):
    def __setitem__(self, key, value):
        super().__setitem__(str(key), value)


def test_a_run_that_raises_leaves_no_traced_value_in_a_generator():
    def averager():
        total = 0.5
        while True:
            given = yield total
            total = total * 0.5 + given

    average = averager()
    next(average)

    @compile_grad
    def f(x):
        average.send(x[0] * 0.5)
        raise ValueError

    for _ in range(3):
        before = average.gi_frame.f_locals["total"]
        with pytest.raises(ValueError):
            f(X)
        assert average.gi_frame.f_locals["total"] == before * 0.5 + X[0] * 0.5
        assert type(average.gi_frame.f_locals["total"]) is np.float64


def test_a_run_that_raises_leaves_no_traced_value_behind_methods_of_the_library():
    kept = _ByText(a=0.5)

    def f(x):
        np.random.default_rng().normal()  # Python runs in each call
        kept[2] = x[0] + 0.5
        return np.sum(x * np.ones(3))

    compiled = compile_grad(f)
    compiled(X)
    with pytest.raises(ValueError, match="broadcast"):
        compiled(np.append(X, 2.0))
    assert kept.data == {"a": 0.5, "2": X[0] + 0.5} and type(kept.data["2"]) is np.float64


def test_containers_that_are_only_read_are_not_gone_through(monkeypatch):
    """Behind one may be all that there is: the session of a test runner, say."""
    deep = {"a": 1.0}

    def f(x):
        np.random.default_rng().normal()  # Python runs in each call
        return np.sum(x) * deep.get("a") + [deep].count(None)

    compiled = compile_grad(f)
    places, settle = [], WrittenPlaces.settle
    monkeypatch.setattr(WrittenPlaces, "settle", lambda self, plain: places.append(self._places) or settle(self, plain))
    for _ in range(2):
        assert compiled(X) == pytest.approx(np.sum(X))
    assert not any(place is deep for found in places for place in found.values())


def test_what_pytest_makes_of_asserts_leads_nowhere():
    def f(x):
        assert x is not None, "pytest writes this anew, with globals of its own"
        return np.sum(x)

    assert any(not name.isidentifier() for name in f.__code__.co_names)
    assert {code.co_filename for code in Reached(f, Trust())._code()} == {f.__code__.co_filename}


def test_code_that_was_looked_at_for_names_is_not_parsed_in_the_next_run(monkeypatch):
    def f(x, z):
        z[0] = x
        return z

    first = Reached(f, Trust()).names_written
    assert "z" in first
    monkeypatch.setattr("tracegrad.runtime.record.reached.uses", None)
    assert Reached(f, Trust()).names_written == first


def test_items_of_containers_outside_are_what_the_arguments_are():
    """A list among the arguments that other containers hold, too, is one object in the run, whoever goes over them."""

    def made():
        one, two = [0.5, 1.0], [1.0, 2.0]
        grid, table = [one, two, one], {"a": one}

        def fn(x, log):
            time.time()
            log[-1][0] = 1.5
            for row in grid:
                row[0] = one[0] + one[0]
            for row in table.values():
                row[1] = row[1] + 1
            first, _, _ = grid
            first[1] = first[1] * 2
            return np.sum(x) * one[0]

        return fn, one, two

    (plain, *theirs), (fn, *ours) = made(), made()
    compiled = compile_grad(fn)
    for _ in range(3):
        assert compiled(np.ones(2), [ours[0]]) == plain(np.ones(2), [theirs[0]])
        assert ours == theirs
    assert compiled.stats.live


def test_a_special_method_may_be_an_object_that_is_called():
    class Constant:
        def __init__(self, value):
            self.value = value

        def __call__(self, *args):
            return self.value

    class Values:
        __len__ = Constant(2)

        def __iter__(self):
            return iter([1.5, 0.5])

    values = Values()

    @compile_grad
    def fn(x):
        time.time()
        return np.sum(x) * sorted(values)[0] * len(values)

    assert fn(np.ones(2)) == 2.0
    assert fn.stats.live


def test_nobody_is_searched_for_who_holds_what_lists_of_the_run_held(monkeypatch):
    """Neither a builtin that only reads a list nor what the run notes of its own lists makes a walk of the heap."""

    def search(self, plain, out):
        raise AssertionError("the heap is walked")

    def plain(x):
        time.perf_counter()
        rows = [x * 1.0, x * 2.0]
        for k, row in enumerate(rows):
            rows[k] = row * 0.5
        ends = [a + b for a, b in zip(rows, reversed(rows), strict=True)]
        rows.append(ends[0])
        rows.extend(ends)
        return np.sum(rows[-1]) + np.sum(rows[0] * x)

    monkeypatch.setattr(Holders, "settle", search)
    f = compile_grad(plain)
    for _ in range(3):
        value, gradient = f.value_and_grad(X)
        np.testing.assert_allclose(value, plain(X), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (X,)), rtol=1e-6)
    assert "the clock" in f.stats.live
