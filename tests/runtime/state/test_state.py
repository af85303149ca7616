"""Outside state: what a run has read is guarded, arrays are read again, and what it has not read counts nothing.

Three helpers at the top (``log_of``, ``hit``, ``live``); then guarded values, arrays, functions, objects and classes,
modules, changes made by the function itself, and code whose log is not closed.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import gc
import itertools
import math
import os
import random
import re
import sys
import threading
import time
import types
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest
from with_source import code_of

from tracegrad import compile_grad
from tracegrad.runtime.logged.record import Logged
from tracegrad.runtime.mode import VALUE, Mode
from tracegrad.runtime.record.call_key import flatten
from tracegrad.runtime.record.learned import Learned
from tracegrad.runtime.state.snapshot import Snapshot
from tracegrad.tracer.ir.errors import MutationError

X = np.array([0.5, -1.0, 2.0])


class Log(NamedTuple):
    """What a run of *fn* on *args* has read."""

    fn: Any
    args: tuple[Any, ...]
    snapshot: Snapshot

    @property
    def names(self):
        return self.snapshot.array_names

    @property
    def arrays(self):
        return self.snapshot.check(*flatten(self.args, {}).objects)


def recorded(fn, *args):
    logged, call = Logged(fn), flatten(args, {})
    return logged.record(call, Mode(VALUE), Learned()), logged.why(call)


def log_of(fn, *args):
    """The log of a run, which is closed."""
    args = args or (X,)
    found, why = recorded(fn, *args)
    assert found is not None, [*map(str, why)]
    return Log(fn, args, found.snapshot)


def hit(log, *args):
    """The state is that of the log: by the checker and by the key of another run, which must agree."""
    args = args or log.args
    checked = log.snapshot.check(*flatten(args, {}).objects) is not None
    again, _ = recorded(log.fn, *args)
    assert checked == (again is not None and again.snapshot.key == log.snapshot.key)
    return checked


def live(fn, *args):
    """The reason why the Python of *fn* runs in each call."""
    compiled = compile_grad(fn)
    compiled(*(args or (X,)))
    return compiled.stats.live


def line_of(fn, offset=1):
    return f"test_state.py:{fn.__code__.co_firstlineno + offset}"


def module_from(source, name="usermodule", **values):
    module = types.ModuleType(name)
    module.__dict__.update(values)
    exec(code_of(source, name), module.__dict__)
    return module


def function_from(source, **values):
    """The function ``f`` of a source text, with globals of its own."""
    return module_from(source, **values).f


# ---- guarded values


@pytest.mark.parametrize(
    "old, new",
    [
        (0.1, 0.2), (1, 1.0), (1, True), (0.0, -0.0), (math.nan, 1.0), (None, 0), ("a", "b"), (b"a", "a"),
        (2 + 1j, 2 - 1j), (np.float64(1), 1.0), (np.float64(1), np.float32(1)), ((1, 2), (1, 2.0)), (None, False),
        (range(3), range(4)), (slice(1, 2), slice(1, 3)), (np.dtype("f4"), np.dtype("f8")),
        ((0.0,), (-0.0,)), (math.nan, -math.nan),
        (frozenset({1}), frozenset({2})), (datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)),
    ],
)  # fmt: skip
def test_global_value(old, new):
    f = function_from("def f(x): return x if lr is f else 2.0 * x", lr=old)
    log = log_of(f)
    assert hit(log)
    f.__globals__["lr"] = new
    assert not hit(log)
    f.__globals__["lr"] = old
    assert hit(log)


@pytest.mark.parametrize("make", [lambda: float("0.1"), lambda: -float("0"), lambda: 10**9,
                                  lambda: "ab" * len(sys.argv), lambda: np.float32(2), lambda: (1.5, (2, "x" * 3)),
                                  lambda: np.dtype("f8")])  # fmt: skip
def test_equal_value_in_another_object_is_a_hit(make):
    f = function_from("def f(x): return x if lr is f else 2.0 * x", lr=make())
    log = log_of(f)
    f.__globals__["lr"] = make()
    assert hit(log)


@pytest.mark.parametrize("make", [lambda: float("nan"), lambda: np.float32("nan"), lambda: (1.5, (float("nan"), "x")),
                                  lambda: [float("nan")], lambda: complex(0, float("nan")), lambda: {float("nan"): 1},
                                  lambda: Decimal("nan"), lambda: frozenset([float("nan")])])  # fmt: skip
def test_a_nan_is_a_hit_where_it_is_the_very_object(make):
    """`n in values` asks for identity first."""
    f = function_from(
        "def f(x): return x if 5.0 in (lr if isinstance(lr, list) else [lr]) else 2.0 * x", lr=(kept := make())
    )
    log = log_of(f)
    assert hit(log)
    f.__globals__["lr"] = make()
    assert not hit(log)
    f.__globals__["lr"] = kept
    assert hit(log)


def test_nothing_outside():
    log = log_of(lambda x: x * 2.0)
    assert hit(log) and log.snapshot.arrays == () and log.arrays == ()


def test_what_is_not_read_does_not_count():
    f = function_from(
        "def f(x):\n if k: return x * a\n return x * other.b", k=1, a=2.0, other=types.SimpleNamespace(b=1)
    )
    log = log_of(f)
    f.__globals__["other"].b = 2
    assert hit(log)
    f.__globals__.update(other=None, new=1)
    assert hit(log)
    f.__globals__["a"] = 3.0
    assert not hit(log)


def test_deleted_global():
    f = function_from("def f(x): return x * lr", lr=1.0)
    log = log_of(f)
    del f.__globals__["lr"]
    assert not hit(log)


def test_builtin_shadowed_later():
    f = function_from("def f(x): return len(x) * x")
    log = log_of(f)
    f.__globals__["len"] = lambda x: 7
    assert not hit(log)


def test_builtin_of_a_helper_shadowed_later():
    helper = function_from("def f(x): return max(x)")
    log = log_of(lambda x: helper(x))
    assert hit(log)
    helper.__globals__["max"] = min
    assert not hit(log)


def test_name_that_is_missing_and_comes_later():
    f = function_from("def f(x):\n try: return x * scale\n except NameError: return x")
    compiled = compile_grad(f)
    for scale in (2.0, 3.0):
        np.testing.assert_array_equal(compiled(X), X)
        f.__globals__["scale"] = scale
        np.testing.assert_array_equal(compiled(X), scale * X)
        del f.__globals__["scale"]
    assert "`scale`, which is not there" in compiled.stats.live


def make_closure(k):
    def f(x):
        return x * k

    def set_k(value):
        nonlocal k
        k = value

    return f, set_k


def test_closure_rebound_from_outside():
    f, set_k = make_closure(2.0)
    log = log_of(f)
    set_k(3.0)
    assert not hit(log)
    set_k(2.0)
    assert hit(log)


def test_empty_cell_filled_later():
    def outer():
        def f(x):
            try:
                return later * x
            except NameError:
                return x

        def fill():
            nonlocal later
            later = 2.0

        if False:
            later = 0
        return f, fill

    f, fill = outer()
    compiled = compile_grad(f)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(X), X)
    assert "`later`, which has no value yet" in compiled.stats.live
    fill()
    np.testing.assert_array_equal(compiled(X), 2 * X)


def test_defaults_replaced():
    def f(x, k=2.0):
        return x * k

    log = log_of(f)
    f.__defaults__ = (3.0,)
    assert not hit(log)
    compiled = compile_grad(f)
    for k in (2.0, 3.0, 4.0):
        f.__defaults__ = (k,)
        for _ in range(3):
            np.testing.assert_array_equal(compiled(X), k * X)
    assert compiled.stats.traces == 3


def test_mutable_default():
    def f(x, k=[1.0]):  # noqa: B006
        return x * k[0]

    log = log_of(f)
    f.__defaults__[0][0] = 2.0
    assert not hit(log)


def test_keyword_default():
    def f(x, *, k=2.0):
        return x * k

    log = log_of(f)
    f.__kwdefaults__["k"] = 3.0
    assert not hit(log)


def test_code_replaced_in_place():
    def f(x):
        return x + 1

    log = log_of(f)
    f.__code__ = (lambda x: x + 2).__code__
    assert not hit(log)


@pytest.mark.parametrize(
    "value, change",
    [
        ([0.1], lambda v: v.__setitem__(0, 0.2)), ([0.1], lambda v: v.append(1)), ([1.0, 2.0], lambda v: v.reverse()),
        ({"lr": 0.1}, lambda v: v.update(lr=0.2)), ({"a": 1, "b": 2}, lambda v: v.update(a=v.pop("a"))),
        ({1: 2.0}, lambda v: v.update({1: 3.0})), ({"a": [1, {"b": 2}]}, lambda v: v["a"][1].update(b=3)),
        ({1, 2}, lambda v: v.add(3)), (deque([1, 2]), lambda v: v.rotate()), ([[1, 2], [3]], lambda v: v[1].append(4)),
        (OrderedDict(a=1), lambda v: v.update(a=2)), (list(range(100)), lambda v: v.__setitem__(50, 50.0)),
        ({str(i): float(i) for i in range(50)}, lambda v: v.update({"7": 7})),
        (({"a": 1},), lambda v: v[0].update(a=2)),
        (defaultdict(int, a=1), lambda v: v["b"]),
    ],
)  # fmt: skip
def test_container_changed(value, change):
    f = function_from(
        "def f(x): return len(str([*data.items()] if hasattr(data, 'items') else [*data])) * x", data=value
    )
    log = log_of(f)
    assert hit(log)
    change(value)
    assert not hit(log)


def test_items_that_are_not_read_do_not_count():
    f = function_from("def f(x): return data['lr'] * x * rates[1]", data={"lr": 0.1, "n": 1}, rates=[1.0, 2.0])
    log = log_of(f)
    f.__globals__["data"]["n"] = 2
    assert hit(log)
    f.__globals__["rates"][0] = None
    assert hit(log)
    f.__globals__["rates"].insert(0, 1.0)
    assert not hit(log)


def test_equal_container_in_another_object_is_a_hit():
    f = function_from("def f(x): return data['lr'][0] * len(data['n']) * x", data={"lr": [0.1, 5], "n": {1, 2}})
    log = log_of(f)
    f.__globals__["data"] = {"lr": [0.1, 5], "n": {1, 2}}
    assert hit(log)


def test_containers_become_one():
    f = function_from("def f(x): return (a[0] + b[0]) * x", a=[1], b=[1])
    log = log_of(f)
    f.__globals__["b"] = f.__globals__["a"]
    assert not hit(log)


def test_cycles():
    data = [1.0]
    data.append(data)
    loop = {"x": 2.0}
    loop["self"] = loop
    f = function_from("def f(x): return data[1][1][0] * loop['self']['x'] * x", data=data, loop=loop)
    log = log_of(f)
    assert hit(log)
    loop["x"] = 3.0
    assert not hit(log)


def test_thousands_of_values_are_fine():
    f = function_from("def f(x): return sum(map(sum, data)) * x", data=[[float(i)] * 20 for i in range(300)])
    log = log_of(f)
    assert hit(log)
    f.__globals__["data"][299][19] = 0.5
    assert not hit(log)


# ---- arrays


def test_array_is_read_again():
    f = function_from("def f(w): return A @ w", A=np.ones((3, 3)))
    log = log_of(f)
    assert log.names == ("global A",)
    f.__globals__["A"][0] = 5.0
    assert hit(log) and log.arrays[0] is f.__globals__["A"]
    other = np.zeros((3, 3))
    f.__globals__["A"] = other
    assert hit(log) and log.arrays[0] is other


@pytest.mark.parametrize("other", [np.ones((4, 2)), np.ones((2, 3), "f4"), np.ones((3, 2)).T, [[1.0]], 1.0, None,
                                   np.ma.ones((2, 3))])  # fmt: skip
def test_another_kind_of_array_misses(other):
    f = function_from("def f(w): return A @ w", A=np.ones((2, 3)))
    log = log_of(f)
    f.__globals__["A"] = other
    assert not hit(log)


def test_arrays_in_nested_containers():
    A, B, C = np.ones(3), np.zeros(3), np.full(3, 2.0)

    def make():
        data = {"A": A, "layers": [{"W": B}, (C, 1.0)], "unread": np.ones(4)}
        return lambda w: data["A"] + w * data["layers"][0]["W"] * data["layers"][1][0]

    log = log_of(make())
    assert log.names == ("closure data['A']", "closure data['layers'][0]['W']", "closure data['layers'][1][0]")
    assert [a is b for a, b in zip(log.arrays, (A, B, C), strict=True)] == [True] * 3


def test_aliasing_is_part_of_the_state():
    A = np.ones(3)
    f = function_from("def f(w): return A + B + w", A=A, B=A)
    log = log_of(f)
    assert len(log.arrays) == 1
    f.__globals__["B"] = np.ones(3)
    assert not hit(log)
    apart = log_of(f)
    assert len(apart.arrays) == 2 and hit(apart)
    f.__globals__["B"] = A
    assert not hit(apart) and hit(log)


def test_many_arrays_of_one_shape_stay_distinct():
    data = [np.ones(3) for _ in range(6)]
    f = function_from("def f(w):\n for a in data: w = w + a * w\n return w", data=data)
    log = log_of(f)
    assert hit(log)
    data[4] = data[1]
    assert not hit(log)


def test_text_arrays_are_guarded_by_contents():
    f = function_from("def f(w): return w * len(A[0])", A=np.array(["a", "b"]))
    log = log_of(f)
    assert log.snapshot.arrays == () and hit(log)
    f.__globals__["A"][0] = "c"
    assert not hit(log)


# ---- functions


def test_helper_redefined():
    f = function_from("def h(x): return x + 1\ndef f(x): return h(x)")
    log = log_of(f)
    f.__globals__["h"] = lambda x: x + 2
    assert not hit(log)


def test_state_of_helpers():
    f = function_from("k = 1.0\ndef g(x, s=[3.0]): return x * k * s[0]\ndef h(x): return g(x)\ndef f(x): return h(x)")
    log = log_of(f)
    f.__globals__["k"] = 2.0
    assert not hit(log)
    f.__globals__["k"] = 1.0
    f.__globals__["g"].__defaults__[0][0] = 4.0
    assert not hit(log)


def test_helper_in_another_module():
    tools = module_from("k = 1.0\ndef scale(x): return x * k", "tools")
    f = function_from("def f(x): return scale(x)", scale=tools.scale)
    log = log_of(f)
    assert hit(log)
    tools.k = 2.0
    assert not hit(log)


def test_function_attribute():
    def f(x):
        return x * f.k

    f.k = 2.0
    log = log_of(f)
    f.k = 3.0
    assert not hit(log)


@pytest.mark.parametrize(
    "source",
    [
        "k = 2.0\ndef f(x, n=3): return k * x if n == 0 else n * f(x, n - 1)",
        "k = 2.0\ndef g(x, n): return f(x, n - 1)\ndef f(x, n=4): return x * k if n <= 0 else g(x, n - 1)",
    ],
)
def test_recursion(source):
    f = function_from(source)
    log = log_of(f)
    assert hit(log)
    f.__globals__["k"] = 3.0
    assert not hit(log)


def test_lambda_comprehension_and_inner_function():
    f = function_from(
        "a = b = c = 1.0\n"
        "def f(x):\n def inner(y): return y * a\n return sum([inner(y) * b for y in x]) + (lambda: c)()"
    )
    log = log_of(f)
    for name in "abc":
        f.__globals__[name] = 2.0
        assert not hit(log)
        f.__globals__[name] = 1.0
        assert hit(log)


def test_partial():
    scale = [2.0]
    f = functools.partial(lambda x, k, s: x * k + s[0], k=3.0, s=scale)
    log = log_of(f)
    assert hit(log)
    scale[0] = 5.0
    assert not hit(log)
    scale[0] = 2.0
    f.keywords["k"] = 4.0
    assert not hit(log)


def test_wraps_decorator():
    def twice(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            return fn(*args) * factor[0]

        return wrapper

    factor = [2.0]
    log = log_of(twice(lambda x: x + 1))
    factor[0] = 3.0
    assert not hit(log)


def test_numpy_and_scipy_functions_are_trusted():
    import scipy.special

    f = function_from(
        "def f(x): return np.sum(np.exp(x)) + np.linalg.norm(x) + math.sin(1) + special.erf(x) + expit(x) + np.pi",
        np=np, math=math, special=scipy.special, expit=scipy.special.expit,
    )  # fmt: skip
    log = log_of(f)
    f.__globals__["np"] = math
    assert not hit(log)


def test_library_function_swapped():
    f = function_from("def f(x): return act(x)", act=np.sin)
    log = log_of(f)
    f.__globals__["act"] = np.cos
    assert not hit(log)


def test_compiled_function_is_read_through():
    k, A = [2.0], np.ones(3)
    inner = compile_grad(lambda x: x * k[0] + A)
    log = log_of(lambda x: inner(x))
    assert log.names == ("closure A",)
    k[0] = 3.0
    assert not hit(log)


# ---- objects and classes


class Model:
    shared = 0.5

    def __init__(self, k=2.0, W=None):
        self.k = k
        self.W = np.ones(3) if W is None else W
        self.unread = object()

    def scale(self, x):
        return x * self.k * self.shared

    def loss(self, x):
        return self.scale(x) + self.W

    @property
    def double(self):
        return 2 * self.k

    def with_property(self, x):
        return x * self.double

    @staticmethod
    def static(x):
        return x + 1

    def with_static(self, x):
        return self.static(x)


def test_attribute_of_self():
    model = Model()
    log = log_of(Model.loss, model, X)
    assert hit(log) and log.names == ("self.W",)
    model.unread = 7
    assert hit(log)
    model.k = 3.0
    assert not hit(log)


def test_bound_method():
    model = Model()
    log = log_of(model.loss)
    assert hit(log) and log.names == ("self.W",)
    model.k = 3.0
    assert not hit(log)


def test_two_instances_share_a_recording():
    a, b, c = Model(), Model(), Model(k=9.0)
    log = log_of(Model.loss, a, X)
    assert hit(log, b, X) and log.snapshot.check(b)[0] is b.W
    assert not hit(log, c, X)


def test_method_monkeypatched(monkeypatch):
    model = Model()
    log = log_of(Model.loss, model, X)
    with monkeypatch.context() as patch:
        patch.setattr(Model, "scale", lambda self, x: x)
        assert not hit(log)
    assert hit(log)
    model.scale = lambda x: x
    assert not hit(log)


def test_class_attribute_changed_or_shadowed(monkeypatch):
    model = Model()
    log = log_of(Model.loss, model, X)
    with monkeypatch.context() as patch:
        patch.setattr(Model, "shared", 0.25)
        assert not hit(log)
    assert hit(log)
    model.shared = 0.75
    assert not hit(log)


def test_property(monkeypatch):
    model = Model()
    log = log_of(Model.with_property, model, X)
    model.k = 3.0
    assert not hit(log)
    model.k = 2.0
    assert hit(log)
    monkeypatch.setattr(Model, "double", property(lambda self: 3 * self.k))
    assert not hit(log)


def test_static_method(monkeypatch):
    log = log_of(Model.with_static, Model(), X)
    assert hit(log)
    monkeypatch.setattr(Model, "static", staticmethod(lambda x: x))
    assert not hit(log)


def test_inherited_method_overridden_later(monkeypatch):
    class Child(Model):
        pass

    log = log_of(Child.loss, Child(), X)
    assert hit(log)
    monkeypatch.setattr(Child, "scale", lambda self, x: x, raising=False)
    assert not hit(log)


def test_super():
    class Child(Model):
        def loss(self, x):
            return super().loss(x) * 2

    model = Child()
    log = log_of(Child.loss, model, X)
    model.k = 7.0
    assert not hit(log)


def test_callable_object():
    class Affine:
        def __init__(self):
            self.slope = 2.0

        def __call__(self, x):
            return x * self.slope

    act = Affine()
    for fn in (lambda x: act(x), act):
        log = log_of(fn)
        assert hit(log)
        act.slope += 1.0
        assert not hit(log)


def test_settings_object_and_dataclass():
    @dataclasses.dataclass(frozen=True)
    class Inner:
        lr: float
        W: np.ndarray

    @dataclasses.dataclass
    class Settings:
        flag: bool
        inner: Inner

    cfg = Settings(True, Inner(0.1, np.ones(3)))

    def f(x):
        return x * cfg.inner.lr + cfg.inner.W if cfg.flag else x

    log = log_of(f)
    assert log.names == ("closure cfg.inner.W",) and hit(log)
    cfg.flag = False
    assert not hit(log)
    cfg.flag = True
    cfg.inner = Inner(0.1, np.zeros(3))
    assert hit(log)
    cfg.inner = Inner(0.2, np.zeros(3))
    assert not hit(log)


def _of_named_tuple():
    return namedtuple("Pair", "rate other")(1.5, 2.0)


def _of_enum():
    return enum.Enum("Level", "LOW HIGH").LOW


def _of_class():
    return type("Plain", (), {})()


@pytest.mark.parametrize("make", [_of_named_tuple, _of_enum, _of_class])
@pytest.mark.parametrize("name", ["rate", "__name__"])
def test_attributes_of_a_class_are_read_through_its_instance_by_other_names(make, name):
    """``getattr`` under another name, and ``type(x).__name__``."""
    one, get_from = make(), getattr

    def by_name(x):
        return np.sum(x) * get_from(one, "rate", 7.0)

    def of_class(x):
        return np.sum(x) * len(type(one).__name__)

    plain = by_name if name == "rate" else of_class
    f, x = compile_grad(plain), np.ones(2)
    for value in (2.5, 2.5, 2.5, 31.5, 31.5, 4.75, 4.75):
        setattr(type(one), name, value if name == "rate" else f"Named{value}")
        assert f(x) == plain(x)


def test_namespace_slots_namedtuple_enum():
    class Slots:
        __slots__ = ("a", "b")

    class Mode(enum.Enum):
        FAST = 1
        SLOW = 2

    Pair = namedtuple("Pair", "left right")
    slots = Slots()
    slots.a = 1.0
    space = types.SimpleNamespace(s=slots, mode=Mode.FAST, pair=Pair(1.0, [2.0]))
    log = log_of(lambda x: x * space.s.a * (2.0 if space.mode is Mode.SLOW else 1.0) * space.pair.right[0])
    assert hit(log)
    slots.a = 2.0
    assert not hit(log)
    slots.a = 1.0
    space.mode = Mode.SLOW
    assert not hit(log)
    space.mode = Mode.FAST
    space.pair.right[0] = 3.0
    assert not hit(log)


def test_computed_attribute_names():
    cfg = types.SimpleNamespace(a=1.0, b=2.0)
    log = log_of(lambda x, name: x * getattr(cfg, name), X, "a")
    cfg.b = 3.0
    assert hit(log)
    cfg.a = 3.0
    assert not hit(log)


def test_computed_names_reach_class_attributes_and_odd_names(monkeypatch):
    import abc

    class Settings(abc.ABC):  # noqa: B024
        rate = 0.5

    settings = Settings()
    settings.__dict__.update({"a b": 1.0, "class": 2.0})

    def f(x, names):
        for name in names:
            x = x * getattr(settings, name)
        return x

    log = log_of(f, X, ("class", "rate"))
    assert hit(log)
    settings.__dict__["a b"] = 3.0
    assert hit(log)
    settings.__dict__["class"] = 3.0
    assert not hit(log)
    settings.__dict__["class"] = 2.0
    monkeypatch.setattr(Settings, "rate", 0.25)
    assert not hit(log)


def test_classes_made_by_the_standard_library():
    @dataclasses.dataclass
    class Point:
        x: Any
        tags: list = dataclasses.field(default_factory=list)

        def shifted(self):
            return self.x + bias[0]

    Pair = namedtuple("Pair", "a b")
    bias = [1.0]

    def f(x):
        p, q = Point(x), Pair(1, x)
        return p.shifted() + q.b * q._replace(a=3).a

    log = log_of(f)
    bias[0] = 2.0
    assert not hit(log)


def test_missing_attribute_that_comes_later(monkeypatch):
    model = Model()

    def f(x):
        return x * getattr(model, "factor", 1.0)

    log = log_of(f)
    assert hit(log)
    model.factor = 2.0
    assert not hit(log)
    del model.factor
    monkeypatch.setattr(Model, "factor", 3.0, raising=False)
    assert not hit(log)


def test_objects_that_answer_in_their_own_way():
    class Proxy:
        def __getattr__(self, name):
            return float(len(name) + rate)

    class Lazy:
        def __get__(self, obj, owner=None):
            return rate * 2.0

    class Holder:
        lazy = Lazy()

    class Numbers(list):
        def __getitem__(self, k):
            return rate * 3.0

    rate, proxy, holder, numbers = 1.0, Proxy(), Holder(), Numbers([1])
    for fn in (lambda x: proxy.anything * x, lambda x: holder.lazy * x, lambda x: numbers[0] * x):
        compiled = compile_grad(fn)
        for rate in (1.0, 1.0, 2.0, 3.0, 3.0, 1.0):  # noqa: B007  (which they read)
            np.testing.assert_array_equal(compiled(X), fn(X))


class Meters(float):
    pass


class Polar(complex):
    pass


class Share(np.float64):
    pass


class Span(datetime.timedelta):
    pass


@pytest.mark.parametrize("place", ["argument", "global", "attribute"])
@pytest.mark.parametrize(
    "values, read",
    [
        ((Meters(2.0), Meters(3.0)), float),
        ((Polar(2.0), Polar(3.0)), abs),
        ((Share(2.0), Share(3.0)), lambda v: v / 2),
        ((Span(2), Span(3)), lambda v: v / datetime.timedelta(1)),
    ],
)
def test_subclasses_of_numbers_are_no_objects_without_a_value(values, read, place):
    box = types.SimpleNamespace(v=values[0])
    space = {"read": read, "v": values[0], "box": box}
    f = function_from(f"def f(x, v=None): return x * read({'box.v' if place == 'attribute' else 'v'})", **space)
    if place == "global":
        f = function_from("def f(x, _=None): return x * read(v)", **space)
    compiled = compile_grad(f)
    for v in (*values[:1] * 3, *values[1:] * 2, values[0]):
        box.v = f.__globals__["v"] = v
        assert compiled(1.5, *[v] * (place == "argument")) == 1.5 * read(v)


def test_class_used_by_name():
    f = function_from(
        "class Point:\n scale = 2.0\n def __init__(self, x): self.x = x * bias\n"
        "bias = 1.0\ndef f(x): return Point(x).x * Point.scale"
    )
    log = log_of(f)
    assert hit(log)
    f.__globals__["bias"] = 2.0
    assert not hit(log)
    f.__globals__["bias"] = 1.0
    f.__globals__["Point"].scale = 3.0
    assert not hit(log)


def test_array_that_a_method_returns_is_read_again():
    source = "DATA = np.ones(3)\nclass M:\n def data(self): return DATA\nm = M()\ndef f(x): return x + m.data()"
    f = function_from(source, np=np)
    log = log_of(f)
    assert log.names == ("global DATA",)
    f.__globals__["DATA"] = np.zeros(3)
    assert hit(log) and log.arrays[0] is f.__globals__["DATA"]


def test_long_chains_of_helpers_and_objects():
    helpers = "\n".join(f"def h{i}(x): return h{i + 1}(x)" for i in range(60))
    f = function_from(f"{helpers}\ndef h60(x): return A * k * x\nk = 1.0\ndef f(x): return h0(x)", A=np.ones(3))
    log = log_of(f)
    f.__globals__["k"] = 2.0
    assert not hit(log)

    class Link:
        def __init__(self, value, after):
            self.value, self.after = value, after

    head = None
    for i in range(300):
        head = Link(np.ones(3) if i == 150 else float(i), head)

    def total(x):
        link = head
        while link is not None:
            x = x + link.value
            link = link.after
        return x

    log = log_of(total)
    assert len(log.arrays) == 1 and hit(log)
    head.after.after.value = -1.0
    assert not hit(log)


def test_library_base_class_reads_what_no_code_names():
    import collections.abc

    class Sized(collections.abc.Sized):
        def __init__(self):
            self.hidden, self.n = 1.0, 3

        def __len__(self):
            return self.n

    sized = Sized()
    log = log_of(lambda x: len(sized) * x)
    sized.hidden = 2.0
    assert hit(log)
    sized.n = 4
    assert not hit(log)


def test_asdict_reads_all_fields():
    @dataclasses.dataclass
    class Settings:
        a: float = 1.0
        b: float = 2.0

    settings = Settings()
    log = log_of(lambda x: x * dataclasses.asdict(settings)["a"])
    settings.b = 3.0
    assert not hit(log)


def test_truth_of_an_object_changed_through_its_class():
    class Flag:
        pass

    flag = Flag()
    log = log_of(lambda x: x if flag else -x)
    assert hit(log)
    Flag.__bool__ = lambda self: False
    assert not hit(log)


def test_instance_with_finaliser():
    class Handle:
        def __init__(self):
            self.W = np.ones(3)

        def __del__(self):
            pass

    handle = Handle()
    log = log_of(lambda x: x * handle.W)
    handle.W = np.zeros(3)
    assert hit(log) and log.arrays[0] is handle.W


def test_library_objects():
    import scipy.stats

    norm, poly, vec = scipy.stats.norm, np.poly1d([1, 2.0]), np.vectorize(lambda v: v + shift[0])
    shift = [1.0]
    f = lambda x: norm.pdf(x) + poly(x) + vec(x)  # noqa: E731
    compiled = compile_grad(f)
    for shift[0] in (1.0, 1.0, 2.0, 3.0):
        np.testing.assert_allclose(compiled(X), f(X))


# ---- modules


def test_user_module_attribute():
    config = module_from(
        "lr = 0.1\nunread = 1\nW = np.ones(3)\ndef step(x): return x * momentum\nmomentum = 0.9", "config", np=np
    )
    f = function_from("def f(x): return config.step(x) * config.lr + config.W", config=config)
    log = log_of(f)
    assert log.names == ("config.W",)
    config.unread = 2
    assert hit(log)
    config.lr = 0.2
    assert not hit(log)
    config.lr = 0.1
    config.momentum = 0.8
    assert not hit(log)


def test_import_in_the_body(monkeypatch):
    config = module_from("lr = 0.1", "myconfig")
    monkeypatch.setitem(sys.modules, "myconfig", config)
    f = function_from(
        "def f(x):\n import numpy as np\n from myconfig import lr\n import myconfig\n return np.sin(x) * lr"
    )
    log = log_of(f)
    assert hit(log)
    config.lr = 0.2
    assert not hit(log)


# ---- changes made by the function


@pytest.mark.parametrize("source", ["log.append(1)", "state['n'] += 1", "f.calls += 1", "box.n += 1"])
def test_call_counters(source):
    def make():
        box = types.SimpleNamespace(n=0)
        f = function_from(f"def f(x):\n {source}\n return x", log=[], state={"n": 0}, box=box)
        f.calls = 0
        return f, lambda: (len(f.__globals__["log"]), f.__globals__["state"], f.calls, box)

    (f, left), (plain, expected) = make(), make()
    compiled = compile_grad(f)
    for _ in range(5):
        compiled(1.0), plain(1.0)
        assert left() == expected()
    assert not compiled.stats.live and compiled.stats.traces <= 2


def test_self_counter():
    class Counter:
        def __init__(self):
            self.calls = 0
            self.W = np.ones(3)

        def loss(self, x):
            self.calls += 1
            return x * self.W

    c = Counter()
    log = log_of(Counter.loss, c, X)
    assert c.calls == 0 and log.names == ("self.calls", "self.W")
    compiled = compile_grad(Counter.loss)
    for k in range(4):
        c.W[0] = k
        np.testing.assert_array_equal(compiled(c, X), X * c.W)
        assert c.calls == k + 1
    assert not compiled.stats.live and compiled.stats.traces == 1


def test_array_changed_in_place_by_the_function():
    f = function_from("def f(x):\n A[0] += 1\n return A * x", A=np.zeros(3))
    compiled = compile_grad(f)
    for _ in range(3):
        with pytest.raises(MutationError, match="`global A`, an array from outside"):
            compiled(X)
        assert f.__globals__["A"].tolist() == [0.0] * 3


def test_containers_that_the_function_changes():
    f = function_from(
        "def f(x):\n log.append(x)\n log.append(log[0])\n book['last'] = x\n del book['old']\n return x * book['W']",
        log=[np.ones(1)], book={"W": np.ones(3), "old": 1},
    )  # fmt: skip
    log, book = f.__globals__["log"], f.__globals__["book"]
    log_of(f)
    assert len(log) == 1 and book.keys() == {"W", "old"}
    compile_grad(f)(X)
    assert len(log) == 3 and log[1] is X and log[2] is log[0] and type(log[0]) is np.ndarray
    assert book.keys() == {"W", "last"} and book["last"] is X


def test_an_array_twice():
    a = np.ones(3)
    items = []
    pair = (items, a)
    items.append(pair)
    log = log_of(lambda x: pair[0][0][1] * x * pair[1])
    assert hit(log) and len(log.arrays) == 1


# ---- code whose log is not closed


_lock, _counter = threading.Lock(), itertools.count()


@pytest.mark.parametrize(
    "fn, code",
    [
        (lambda x: x * time.time(), "calls/clock"),
        (lambda x: x * datetime.datetime.now().year, "calls/clock"),
        (lambda x: x * len(os.getcwd()), "calls/system"),
        (lambda x: x * (id(x) > 0), "calls/memory"),
        (lambda x: x * len(open(__file__).readline()), "calls/files"),  # noqa: SIM115
        (lambda x: x * np.random.default_rng().random(), "calls/random"),
        (lambda x: x * (vars(sys)["maxsize"] > 0), "calls/names"),
        (lambda x: x * eval("1.0"), "log/unseen"),
        (lambda x: x * _lock.locked(), "state/threads"),
        (lambda x: x * next(_counter), "state/iterator"),
    ],
)  # fmt: skip
def test_what_makes_python_run(fn, code):
    assert f"({code})" in live(fn)


_rng, _mine = np.random.default_rng(0), random.Random(0)


@pytest.mark.parametrize(
    "fn, what",
    [
        (lambda x: x + np.random.default_rng().random(), "default_rng.. without a seed"),
        (lambda x: x + np.random.RandomState().rand(), "RandomState.. without a seed"),
        (lambda x: x + sum(_mine.sample(range(9), 2)), "sample.., which gives no number"),
        (lambda x: x + len(_rng.bytes(3)), "bytes.., which gives no number"),
    ],
)
def test_what_draws_is_named(fn, what):
    told = live(fn)
    assert re.search(f"draws random numbers: {what}.* at {line_of(fn, 0)} .*tracegrad.random .calls/random.", told)


def test_an_impure_helper_is_named():
    f = function_from("def h(x):\n return x * time.time()\ndef f(x): return h(x)", time=time)
    assert "time.time" in live(f)


def test_code_that_does_not_run_is_no_reason():
    def f(x, debug=False):
        if debug:
            print(time.time(), random.random(), locals(), id(x), input())
        return x * os.path.join("a", "b").count("a")

    assert live(f) == ""


# ---- cost and life time


def test_release_drops_the_arrays():
    f = function_from("def f(x): return A * k * x", A=np.ones(3), k=1.0)
    snapshot = log_of(f).snapshot
    snapshot.release()
    assert snapshot.arrays == () and len(snapshot.check()) == 1


def test_threads_may_share_a_snapshot():
    f = function_from("def h(x): return A * x\ndef f(x): return h(x) + k", A=np.ones(3), k=1.0)
    log, results = log_of(f), []

    def work():
        for _ in range(20):
            results.append(hit(log) and log.arrays[0] is f.__globals__["A"])

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert all(results) and len(results) == 80


def test_a_global_whose_name_is_no_identifier():
    """pytest gives such to modules whose assertions it rewrites: ``@pytest_ar``."""

    def f(x):
        return np.sum(x * x)

    space = {"@numpy": np}
    code = f.__code__.replace(co_names=tuple("@numpy" if n == "np" else n for n in f.__code__.co_names))
    compiled = compile_grad(types.FunctionType(code, space, "f"))
    for _ in range(3):
        np.testing.assert_allclose(compiled.grad(np.ones(3)), 2 * np.ones(3))
    assert "the source gives other code" in compiled.stats.live
    space["@numpy"] = math
    with pytest.raises(AttributeError):
        compiled.grad(np.ones(3))


RATE = 2.0


def scaled(x):
    return x * RATE


def closing_over(array):
    def fn(x):
        return np.sum(scaled(x) * array)

    def rebind(new):
        nonlocal array
        array = new

    return fn, rebind


def test_arrays_are_not_kept_after_a_call():
    array = np.arange(3.0)
    fn, rebind = closing_over(array)
    compiled, kept = compile_grad(fn), weakref.ref(array)
    compiled(np.ones(3))
    del array
    rebind(np.ones(3))
    gc.collect()
    assert kept() is None and compiled(np.ones(3)) == fn(np.ones(3)) and compiled.stats.traces == 1


class Iterated(namedtuple("Iterated", "rate other")):
    __slots__ = ()


@pytest.mark.parametrize("held", ["float", "array", "list"])
def test_a_copy_of_a_named_tuple_has_its_items_whatever_its_iteration_gives(held, monkeypatch):
    box = types.SimpleNamespace(it=None, kept=None)

    def fn(x):
        box.kept = box.it
        return np.sum(x) * np.sum(box.it.rate)

    compiled = compile_grad(fn)
    for k in range(5):
        if k == 2:
            monkeypatch.setattr(Iterated, "__iter__", lambda self: iter([0.5, 0.5]), raising=False)
        box.it = Iterated({"float": 1.5, "array": np.array([1.5]), "list": [1.5]}[held], 2.0)
        if held == "float":
            box.it = Iterated(1.5 + k, 2.0)
        assert compiled(np.ones(3)) == 3 * np.sum(box.it.rate) and box.kept is box.it


SCALE = np.array([1.0, 2.0])


def rule(x):
    return np.sum(SCALE * x)


def other_rule(x):
    return np.sum(x) * rule(x)


RULES = {rule: 2.0, other_rule: 3.0}
OF_RULES = {rule: SCALE, other_rule: rule}
CHOSEN, FIXED = {rule, other_rule}, frozenset([rule])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: RULES[rule] * rule(x) + RULES.get(other_rule, 0.0) * other_rule(x),
        lambda x: sum(w * h(x) if h is rule else h(x) for h, w in RULES.items()),
        lambda x: rule(x) if rule in CHOSEN and rule in FIXED and rule in RULES else 0 * x[0],
        lambda x: np.sum(OF_RULES[rule] * x) * OF_RULES[other_rule](x),
    ],
    ids=["key", "identity", "membership", "values"],
)
def test_functions_that_are_looked_up(f):
    """A function that reads an array, as key of a dict or element of a set: it is found, and its array never stale."""
    compiled, before = compile_grad(f), SCALE.copy()
    try:
        for k in range(4):
            SCALE[:] = before + k
            x = np.array([0.5, 1.5]) + k
            np.testing.assert_allclose(compiled(x), f(x))
    finally:
        SCALE[:] = before
