"""Outside state: what is guarded, what is read again, what is refused, and what a substitution leaves alone.

Three helpers at the top (``plan_of``, ``hit``, ``differs``); then guarded values, arrays, functions, objects and
classes, modules, impure code, changes made by the function itself, substitution, and the run-time watch.
"""

import cProfile
import dataclasses
import datetime
import enum
import functools
import gc
import math
import random
import sys
import threading
import time
import types
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal

import numpy as np
import pytest
from analysed import analyse

from tracegrad import compile_grad
from tracegrad.runtime.state import state_plan
from tracegrad.runtime.state.state_plan import StatePlan
from tracegrad.tracer.ir.refusals import Refusal, listed


def plan_of(fn, *objects):
    plan = analyse(fn, objects)
    assert plan.provable, plan.reasons
    return plan, plan.snapshot(objects)


def hit(plan, snap, *objects):
    """The state is the snapshot's: by the checker and by the key, which must agree."""
    checked = snap.check(*objects) is not None
    assert checked == (plan.snapshot(objects).key == snap.key)
    return checked


def refused(fn, *objects):
    plan = analyse(fn, objects)
    assert not plan.provable
    return listed(plan.reasons)


def line_of(fn, offset=1):
    return f"test_state.py:{fn.__code__.co_firstlineno + offset}"


def module_from(source, name="usermodule", **values):
    module = types.ModuleType(name)
    module.__dict__.update(values)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
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
    f = function_from("def f(x): return x, lr", lr=old)
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    f.__globals__["lr"] = new
    assert not hit(plan, snap)
    f.__globals__["lr"] = old
    assert hit(plan, snap)


@pytest.mark.parametrize("make", [lambda: float("0.1"), lambda: -float("0"), lambda: 10**9,
                                  lambda: "ab" * len(sys.argv), lambda: np.float32(2), lambda: (1.5, (2, "x" * 3)),
                                  lambda: np.dtype("f8")])  # fmt: skip
def test_equal_value_in_another_object_is_a_hit(make):
    f = function_from("def f(x): return x, lr", lr=make())
    plan, snap = plan_of(f)
    f.__globals__["lr"] = make()
    assert hit(plan, snap)


@pytest.mark.parametrize("make", [lambda: float("nan"), lambda: np.float32("nan"), lambda: (1.5, (float("nan"), "x")),
                                  lambda: [float("nan")], lambda: complex(0, float("nan")), lambda: {float("nan"): 1},
                                  lambda: Decimal("nan"), lambda: frozenset([float("nan")])])  # fmt: skip
def test_a_nan_is_a_hit_where_it_is_the_very_object(make):
    """`n in values` asks for identity first."""
    f = function_from("def f(x): return x, lr", lr=(kept := make()))
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    f.__globals__["lr"] = make()
    assert not hit(plan, snap)
    f.__globals__["lr"] = kept
    assert hit(plan, snap)


def test_nothing_outside():
    plan, snap = plan_of(lambda x: x * 2.0)
    assert hit(plan, snap) and snap.arrays == () and snap.check() == ()


def test_deleted_global():
    f = function_from("def f(x): return x * lr", lr=1.0)
    _plan, snap = plan_of(f)
    del f.__globals__["lr"]
    assert snap.check() is None


def test_builtin_shadowed_later():
    f = function_from("def f(x): return len(x)")
    plan, snap = plan_of(f)
    f.__globals__["len"] = lambda x: 7
    assert not hit(plan, snap)


def test_builtin_of_a_helper_shadowed_later():
    helper = function_from("def f(x): return max(x)")
    plan, snap = plan_of(lambda x: helper(x))
    assert hit(plan, snap)
    helper.__globals__["max"] = min
    assert not hit(plan, snap)


def test_name_that_is_missing_and_comes_later():
    f = function_from("def f(x):\n try: return x * scale\n except NameError: return x")
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    f.__globals__["scale"] = 2.0
    assert not hit(plan, snap)


def make_closure(k):
    def f(x):
        return x * k

    def set_k(value):
        nonlocal k
        k = value

    return f, set_k


def test_closure_rebound_from_outside():
    f, set_k = make_closure(2.0)
    plan, snap = plan_of(f)
    set_k(3.0)
    assert not hit(plan, snap)
    set_k(2.0)
    assert hit(plan, snap)


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
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    fill()
    assert not hit(plan, snap)


def test_defaults_replaced():
    def f(x, k=2.0):
        return x * k

    plan, snap = plan_of(f)
    f.__defaults__ = (3.0,)
    assert not hit(plan, snap)


def test_mutable_default():
    def f(x, k=[1.0]):  # noqa: B006
        return x * k[0]

    plan, snap = plan_of(f)
    f.__defaults__[0][0] = 2.0
    assert not hit(plan, snap)


def test_keyword_default():
    def f(x, *, k=2.0):
        return x * k

    plan, snap = plan_of(f)
    f.__kwdefaults__["k"] = 3.0
    assert not hit(plan, snap)


def test_code_replaced_in_place():
    def f(x):
        return x + 1

    plan, snap = plan_of(f)
    f.__code__ = (lambda x: x + 2).__code__
    assert not hit(plan, snap)


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
    f = function_from("def f(x): return data", data=value)
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    change(value)
    assert not hit(plan, snap)


def test_equal_container_in_another_object_is_a_hit():
    f = function_from("def f(x): return data", data={"lr": [0.1, 5], "n": {1, 2}})
    plan, snap = plan_of(f)
    f.__globals__["data"] = {"lr": [0.1, 5], "n": {1, 2}}
    assert hit(plan, snap)


def test_containers_become_one():
    f = function_from("def f(x): return a, b", a=[1], b=[1])
    plan, snap = plan_of(f)
    f.__globals__["b"] = f.__globals__["a"]
    assert not hit(plan, snap)


def test_cycles():
    data = [1.0]
    data.append(data)
    loop = {"x": 2.0}
    loop["self"] = loop
    f = function_from("def f(x): return data, loop", data=data, loop=loop)
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    loop["x"] = 3.0
    assert not hit(plan, snap)


def test_too_many_values():
    f = function_from("def f(x): return data", data=[float(i) for i in range(20_000)])
    assert "(state/large)" in refused(f)


def test_thousands_of_values_are_fine():
    f = function_from("def f(x): return data", data=[[float(i)] * 20 for i in range(300)])
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    f.__globals__["data"][299][19] = 0.5
    assert not hit(plan, snap)


# ---- arrays


def test_array_is_read_again():
    f = function_from("def f(w): return X @ w", X=np.ones((3, 2)))
    plan, snap = plan_of(f)
    assert snap.array_names == ("global X",)
    f.__globals__["X"][0] = 5.0
    assert hit(plan, snap) and snap.check()[0] is f.__globals__["X"]
    other = np.zeros((3, 2))
    f.__globals__["X"] = other
    assert hit(plan, snap) and snap.check()[0] is other


@pytest.mark.parametrize("other", [np.ones((4, 2)), np.ones((3, 2), "f4"), np.ones((2, 3)).T, [[1.0]], 1.0, None,
                                   np.ma.ones((3, 2))])  # fmt: skip
def test_another_kind_of_array_misses(other):
    f = function_from("def f(w): return X @ w", X=np.ones((3, 2)))
    plan, snap = plan_of(f)
    f.__globals__["X"] = other
    assert not hit(plan, snap)


def test_arrays_in_nested_containers():
    A, B, C = np.ones(2), np.zeros(2), np.ones(3)

    def make():
        data = {"A": A, "layers": [{"W": B}, (C, 1.0)]}
        return lambda w: data["A"] + w

    _, snap = plan_of(make())
    assert snap.array_names == ("closure data['A']", "closure data['layers'][0]['W']", "closure data['layers'][1][0]")
    assert [a is b for a, b in zip(snap.arrays, (A, B, C), strict=True)] == [True] * 3


def test_aliasing_is_part_of_the_state():
    X = np.ones(3)
    f = function_from("def f(w): return A + B + w", A=X, B=X)
    plan, snap = plan_of(f)
    assert len(snap.arrays) == 1
    f.__globals__["B"] = np.ones(3)
    assert not hit(plan, snap)
    apart = plan.snapshot()
    assert len(apart.arrays) == 2 and hit(plan, apart)
    f.__globals__["B"] = X
    assert not hit(plan, apart) and hit(plan, snap)


def test_many_arrays_of_one_shape_stay_distinct():
    data = [np.ones(3) for _ in range(6)]
    f = function_from("def f(w): return data", data=data)
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    data[4] = data[1]
    assert not hit(plan, snap)


def test_arrays_that_are_refused():
    assert "(state/objects)" in refused(function_from("def f(w): return X", X=np.array([1, "a"], object)))
    assert "subclass of ndarray" in refused(function_from("def f(w): return X", X=np.ma.ones(3)))


def test_text_arrays_are_guarded_by_contents():
    f = function_from("def f(w): return X", X=np.array(["a", "b"]))
    plan, snap = plan_of(f)
    assert snap.arrays == () and hit(plan, snap)
    f.__globals__["X"][0] = "c"
    assert not hit(plan, snap)


# ---- functions


def test_helper_redefined():
    f = function_from("def h(x): return x + 1\ndef f(x): return h(x)")
    plan, snap = plan_of(f)
    f.__globals__["h"] = lambda x: x + 2
    assert not hit(plan, snap)


def test_state_of_helpers():
    f = function_from("k = 1.0\ndef g(x, s=[3.0]): return x * k\ndef h(x): return g(x)\ndef f(x): return h(x)")
    plan, snap = plan_of(f)
    f.__globals__["k"] = 2.0
    assert not hit(plan, snap)
    f.__globals__["k"] = 1.0
    f.__globals__["g"].__defaults__[0][0] = 4.0
    assert not hit(plan, snap)


def test_helper_in_another_module():
    tools = module_from("k = 1.0\ndef scale(x): return x * k", "tools")
    f = function_from("def f(x): return scale(x)", scale=tools.scale)
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    tools.k = 2.0
    assert not hit(plan, snap)


def test_function_attribute():
    def f(x):
        return x * f.k

    f.k = 2.0
    plan, snap = plan_of(f)
    f.k = 3.0
    assert not hit(plan, snap)


def test_recursion():
    f = function_from("k = 2.0\ndef f(n): return k if n == 0 else n * f(n - 1)")
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    f.__globals__["k"] = 3.0
    assert not hit(plan, snap)


def test_mutual_recursion():
    f = function_from("k = 1\ndef g(n): return n == k or f(n - 1)\ndef f(n): return n != k and g(n - 1)")
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    f.__globals__["k"] = 2
    assert not hit(plan, snap)


def test_lambda_comprehension_and_inner_function():
    f = function_from(
        "a = b = c = 1.0\n"
        "def f(x):\n def inner(y): return y * a\n return sum([inner(y) * b for y in x]) + (lambda: c)()"
    )
    plan, snap = plan_of(f)
    for name in "abc":
        f.__globals__[name] = 2.0
        assert not hit(plan, snap)
        f.__globals__[name] = 1.0
        assert hit(plan, snap)


def test_partial():
    scale = [2.0]
    f = functools.partial(lambda x, k, s: x * k + s[0], k=3.0, s=scale)
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    scale[0] = 5.0
    assert not hit(plan, snap)
    scale[0] = 2.0
    f.keywords["k"] = 4.0
    assert not hit(plan, snap)


def test_wraps_decorator():
    def twice(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            return fn(*args) * factor[0]

        return wrapper

    factor = [2.0]
    plan, snap = plan_of(twice(lambda x: x + 1))
    factor[0] = 3.0
    assert not hit(plan, snap)


def test_numpy_and_scipy_functions_are_trusted():
    import scipy.special

    f = function_from(
        "def f(x): return np.sum(np.exp(x)) + np.linalg.norm(x) + math.sin(1) + special.erf(x) + expit(x) + np.pi",
        np=np, math=math, special=scipy.special, expit=scipy.special.expit,
    )  # fmt: skip
    _plan, snap = plan_of(f)
    f.__globals__["np"] = math
    assert snap.check() is None


def test_library_function_swapped():
    f = function_from("def f(x): return act(x)", act=np.sin)
    plan, snap = plan_of(f)
    f.__globals__["act"] = np.cos
    assert not hit(plan, snap)


class FakeCompiled:
    __module__ = "tracegrad.fake"

    def __init__(self, fn):
        self.__wrapped__ = fn

    def __call__(self, *args):
        return self.__wrapped__(*args)

    def _tracegrad_rebuild(self, fn):
        return FakeCompiled(fn)


def test_compiled_function_is_read_through():
    k = [2.0]
    X = np.ones(2)
    inner = FakeCompiled(lambda x: x * k[0] + X)
    plan, snap = plan_of(lambda x: inner(x))
    assert snap.array_names == ("closure X",)
    sub = plan.substitute(lambda a, name: a * 10)
    assert sub.fn(0.0)[0] == 10.0 and inner(0.0)[0] == 1.0
    k[0] = 3.0
    assert not hit(plan, snap)


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
    plan, snap = plan_of(Model.loss, model)
    assert hit(plan, snap, model) and snap.array_names == ("self.W",)
    model.unread = 7
    assert hit(plan, snap, model)
    model.k = 3.0
    assert not hit(plan, snap, model)


def test_bound_method():
    model = Model()
    plan, snap = plan_of(model.loss)
    assert hit(plan, snap) and snap.array_names == ("self.W",)
    model.k = 3.0
    assert not hit(plan, snap)


def test_two_instances_share_a_plan():
    a, b, c = Model(), Model(), Model(k=9.0)
    plan, snap = plan_of(Model.loss, a)
    assert hit(plan, snap, b) and snap.check(b)[0] is b.W
    assert not hit(plan, snap, c)
    assert plan.snapshot((a,)).key == plan.snapshot((b,)).key


def test_method_monkeypatched(monkeypatch):
    model = Model()
    plan, snap = plan_of(Model.loss, model)
    with monkeypatch.context() as patch:
        patch.setattr(Model, "scale", lambda self, x: x)
        assert not hit(plan, snap, model)
    assert hit(plan, snap, model)
    model.scale = lambda x: x
    assert not hit(plan, snap, model)


def test_class_attribute_changed_or_shadowed(monkeypatch):
    model = Model()
    plan, snap = plan_of(Model.loss, model)
    with monkeypatch.context() as patch:
        patch.setattr(Model, "shared", 0.25)
        assert not hit(plan, snap, model)
    assert hit(plan, snap, model)
    model.shared = 0.75
    assert not hit(plan, snap, model)


def test_property(monkeypatch):
    model = Model()
    plan, snap = plan_of(Model.with_property, model)
    model.k = 3.0
    assert not hit(plan, snap, model)
    model.k = 2.0
    assert hit(plan, snap, model)
    monkeypatch.setattr(Model, "double", property(lambda self: 3 * self.k))
    assert not hit(plan, snap, model)


def test_static_method(monkeypatch):
    model = Model()
    plan, snap = plan_of(Model.with_static, model)
    assert hit(plan, snap, model)
    monkeypatch.setattr(Model, "static", staticmethod(lambda x: x))
    assert not hit(plan, snap, model)


def test_inherited_method_overridden_later(monkeypatch):
    class Child(Model):
        pass

    model = Child()
    plan, snap = plan_of(Child.loss, model)
    assert hit(plan, snap, model)
    monkeypatch.setattr(Child, "scale", lambda self, x: x, raising=False)
    assert not hit(plan, snap, model)


def test_super():
    class Child(Model):
        def loss(self, x):
            return super().loss(x) * 2

    model = Child()
    plan, snap = plan_of(Child.loss, model)
    model.k = 7.0
    assert not hit(plan, snap, model)


def test_callable_object():
    class Affine:
        def __init__(self):
            self.slope = 2.0

        def __call__(self, x):
            return x * self.slope

    act = Affine()
    plan, snap = plan_of(lambda x: act(x))
    act.slope = 3.0
    assert not hit(plan, snap)
    plan, snap = plan_of(act)
    act.slope = 4.0
    assert not hit(plan, snap)


def test_settings_object_and_dataclass():
    @dataclasses.dataclass(frozen=True)
    class Inner:
        lr: float
        W: np.ndarray

    @dataclasses.dataclass
    class Settings:
        flag: bool
        inner: Inner

    cfg = Settings(True, Inner(0.1, np.ones(2)))

    def f(x):
        return x * cfg.inner.lr + cfg.inner.W if cfg.flag else x

    plan, snap = plan_of(f)
    assert snap.array_names == ("cfg.inner.W",) and hit(plan, snap)
    cfg.flag = False
    assert not hit(plan, snap)
    cfg.flag = True
    cfg.inner = Inner(0.1, np.zeros(2))
    assert hit(plan, snap)
    cfg.inner = Inner(0.2, np.zeros(2))
    assert not hit(plan, snap)


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
    plan, snap = plan_of(lambda x: (x * space.s.a, space.mode is Mode.SLOW, space.pair.right))
    assert hit(plan, snap)
    slots.a = 2.0
    assert not hit(plan, snap)
    slots.a = 1.0
    space.mode = Mode.SLOW
    assert not hit(plan, snap)
    space.mode = Mode.FAST
    space.pair.right[0] = 3.0
    assert not hit(plan, snap)


def test_computed_attribute_names():
    cfg = types.SimpleNamespace(a=1.0, b=2.0)

    def f(x, name):
        return x * getattr(cfg, name)

    plan, snap = plan_of(f)
    cfg.b = 3.0
    assert not hit(plan, snap)


def test_computed_names_reach_class_attributes_and_odd_names(monkeypatch):
    import abc

    class Settings(abc.ABC):  # noqa: B024
        rate = 0.5

    settings = Settings()
    settings.__dict__.update({"a b": 1.0, "class": 2.0})
    plan, snap = plan_of(lambda x, name: x * getattr(settings, name))
    assert hit(plan, snap)
    settings.__dict__["class"] = 3.0
    assert not hit(plan, snap)
    settings.__dict__["class"] = 2.0
    monkeypatch.setattr(Settings, "rate", 0.25)
    assert not hit(plan, snap)


def test_classes_made_by_the_standard_library():
    @dataclasses.dataclass
    class Point:
        x: float
        tags: list = dataclasses.field(default_factory=list)

        def shifted(self):
            return self.x + bias[0]

    Pair = namedtuple("Pair", "a b")
    bias = [1.0]

    def f(x):
        p, q = Point(x), Pair(1, x)
        return p.shifted() + q.b if p == Point(x) else q._replace(a=3).a

    plan, snap = plan_of(f)
    with plan.watch():
        f(1.0)
    assert plan.provable, plan.reasons
    bias[0] = 2.0
    assert not hit(plan, snap)


def test_missing_attribute_that_comes_later(monkeypatch):
    model = Model()

    def f(x):
        return x * getattr(model, "factor", 1.0)

    plan, snap = plan_of(f)
    assert hit(plan, snap)
    model.factor = 2.0
    assert not hit(plan, snap)
    del model.factor
    monkeypatch.setattr(Model, "factor", 3.0, raising=False)
    assert not hit(plan, snap)


def test_objects_that_answer_in_their_own_way():
    class Proxy:
        def __getattr__(self, name):
            return 1.0

    class Lazy:
        def __get__(self, obj, owner=None):
            return time.time()

    class Holder:
        lazy = Lazy()

    proxy, holder = Proxy(), Holder()
    assert "__getattr__" in refused(lambda x: proxy.anything * x)
    assert "descriptor" in refused(lambda x: holder.lazy * x)

    class Numbers(list):
        pass

    numbers = Numbers([1])
    assert "subclass of list" in refused(lambda x: numbers[0] * x)


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
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    f.__globals__["bias"] = 2.0
    assert not hit(plan, snap)
    f.__globals__["bias"] = 1.0
    f.__globals__["Point"].scale = 3.0
    assert not hit(plan, snap)


def test_method_array_is_guarded_by_contents():
    source = (
        "DATA = np.ones(4)\nclass M:\n def data(self): return DATA\n"
        "m = M()\ndef f(x): return x + m.data()"
    )  # fmt: skip
    f = function_from(source, np=np)
    plan, snap = plan_of(f)
    assert snap.arrays == () and hit(plan, snap)
    f.__globals__["DATA"][1] = np.nan
    assert not hit(plan, snap)
    snap = plan.snapshot()
    assert hit(plan, snap)
    f.__globals__["DATA"] = np.ones(1 << 20)
    assert "(state/array)" in refused(f)


def test_long_chains_of_helpers_and_objects():
    helpers = "\n".join(f"def h{i}(x): return h{i + 1}(x)" for i in range(600))
    f = function_from(f"{helpers}\ndef h600(x): return A * k\nk = 1.0\ndef f(x): return h0(x)", A=np.ones(2))
    plan, snap = plan_of(f)
    f.__globals__["k"] = 2.0
    assert not hit(plan, snap)

    class Link:
        def __init__(self, value, after):
            self.value, self.after = value, after

    head = None
    for i in range(300):
        head = Link(np.ones(2) if i == 150 else float(i), head)

    def total(x):
        link, result = head, 0.0
        while link is not None:
            result = result + link.value
            link = link.after
        return result

    plan, snap = plan_of(total)
    assert len(snap.arrays) == 1 and hit(plan, snap)
    assert plan.substitute(lambda a, name: a * 2).fn(0)[0] == total(0)[0] + 1
    head.after.after.value = -1.0
    assert not hit(plan, snap)


def test_cycles_through_immutable_objects_can_be_rebuilt():
    items = []
    pair = (items, np.ones(2))
    items.append(pair)
    plan, snap = plan_of(lambda x: pair[0][0][1])
    assert hit(plan, snap) and type(plan.substitute(Tagged).fn(0)) is Tagged
    model = Model()
    model.step = model.loss
    plan, snap = plan_of(model.step)
    assert hit(plan, snap) and plan.substitute(lambda a, name: a * 3).fn(0.0)[0] == 3.0


def test_no_copy_beside_an_original_that_is_reached_too():
    f = function_from(
        "class Box:\n def __init__(self): self.W, self.n = np.ones(2), 0\n def bump(self): box.n += 1\n"
        "box = Box()\ndef f(x):\n box.n += 1\n box.bump()\n return box.n, box.W",
        np=np,
    )
    plan, snap = plan_of(f)
    assert snap.arrays == () and plan.substitute(Tagged).fn(0)[0] == 2


def test_library_base_class_reads_what_no_code_names():
    import collections.abc

    class Sized(collections.abc.Sized):
        def __init__(self):
            self.hidden = 1.0

        def __len__(self):
            return 3

    sized = Sized()
    plan, snap = plan_of(lambda x: len(sized) * x)
    sized.hidden = 2.0
    assert not hit(plan, snap)


def test_asdict_reads_all_fields():
    @dataclasses.dataclass
    class Settings:
        a: float = 1.0
        b: float = 2.0

    settings = Settings()
    plan, snap = plan_of(lambda x: dataclasses.asdict(settings))
    settings.b = 3.0
    assert not hit(plan, snap)


def test_truth_of_an_object_changed_through_its_class():
    class Flag:
        pass

    flag = Flag()
    plan, snap = plan_of(lambda x: x if flag else -x)
    assert hit(plan, snap)
    Flag.__bool__ = lambda self: False
    assert not hit(plan, snap)


def test_constructor_counts_only_where_it_is_called():
    source = "class K:\n def __init__(self): self.W = np.random.rand(3)\ndef f(x): return "
    plan_of(function_from(source + "isinstance(x, K)", np=np))
    assert "random" in refused(function_from(source + "K().W", np=np))


def test_library_objects():
    import scipy.stats

    norm, poly, vec = scipy.stats.norm, np.poly1d([1, 2.0]), np.vectorize(lambda v: v + shift[0])
    shift = [1.0]
    plan, snap = plan_of(lambda x: norm.pdf(x) + poly(x) + vec(x))
    assert hit(plan, snap)
    shift[0] = 2.0
    assert not hit(plan, snap)


# ---- modules


def test_user_module_attribute():
    config = module_from(
        "lr = 0.1\nunread = 1\nW = np.ones(2)\ndef step(x): return x * momentum\nmomentum = 0.9", np=np
    )
    f = function_from("def f(x): return config.step(x) * config.lr + config.W", config=config)
    plan, snap = plan_of(f)
    assert snap.array_names == ("config.W",)
    config.unread = 2
    assert hit(plan, snap)
    config.lr = 0.2
    assert not hit(plan, snap)
    config.lr = 0.1
    config.momentum = 0.8
    assert not hit(plan, snap)


def test_import_in_the_body(monkeypatch):
    config = module_from("lr = 0.1", "myconfig")
    monkeypatch.setitem(sys.modules, "myconfig", config)
    f = function_from(
        "def f(x):\n import numpy as np\n from myconfig import lr\n import myconfig\n return np.sin(x) * lr"
    )
    plan, snap = plan_of(f)
    assert hit(plan, snap)
    config.lr = 0.2
    assert not hit(plan, snap)


# ---- impure code


def test_random_numbers():
    def f(x):
        return x + np.random.rand()

    assert f"draws random numbers: np.random.rand at {line_of(f)}" in refused(f)
    assert "(calls/random)" in refused(lambda x: x + random.random())
    assert "(calls/random)" in refused(function_from("def f(x): return x + rand()", rand=np.random.rand))
    assert "(calls/random)" in refused(function_from("def f(x): return x + r()", r=random.random))
    assert "(calls/random)" in refused(function_from("def f(x, xp): r = xp.random.rand; return r(3)"))


def test_generator_in_closure_and_in_self():
    rng = np.random.default_rng(0)

    def f(x):
        return x + rng.normal()

    told = refused(f)
    assert "`rng` (numpy.random.Generator) has hidden state (it draws random numbers)" in told
    assert "tracegrad.random" in told and f"(read at {line_of(f)})" in told
    model = Model()
    model.rng = rng
    plan_of(Model.loss, model)  # is not read
    assert "(state/random)" in refused(lambda self, x: x + self.rng.normal(), model)
    normal = rng.normal
    assert "(calls/random)" in refused(lambda x: x + normal())
    old = np.random.RandomState(0)
    assert "(state/random)" in refused(lambda x: x + old.rand())
    mine = random.Random(0)
    assert "(state/random)" in refused(lambda x: x + mine.random())


def test_clock_and_system():
    assert "reads the clock: time.time" in refused(lambda x: x * time.time())
    assert "(calls/clock)" in refused(function_from("def f(x): return clock()", clock=time.perf_counter))
    assert "(calls/clock)" in refused(lambda x: datetime.datetime.now().hour * x)
    assert "(calls/files)" in refused(lambda x: open("x"))  # noqa: SIM115
    assert "(calls/memory)" in refused(lambda x: id(x))
    assert "(calls/files)" in refused(lambda x: np.load("x.npy"))
    import os

    assert "(calls/system)" in refused(lambda x: os.getcwd())
    plan_of(lambda x: os.path.join("a", "b"))
    plan_of(lambda x: os.environ["X"])


def test_names_looked_up_while_running():
    model = Model()
    for fn in (
        lambda x: globals()["k"],
        lambda x: vars(model)["k"],
        lambda x: eval("k"),
        lambda x: model.__dict__["k"],
    ):
        told = refused(fn)
        assert "test_state.py:" in told and ("(calls/names)" in told or "(state/opaque)" in told)


def test_hidden_state():
    import itertools

    lock, counter, gen = threading.Lock(), itertools.count(), (i for i in range(3))
    assert "(state/threads)" in refused(lambda x: lock.locked())
    assert "(state/iterator)" in refused(lambda x: next(counter))
    assert "(state/iterator)" in refused(lambda x: next(gen))

    @functools.lru_cache
    def cached(n):
        return n

    assert "(state/cache)" in refused(lambda x: cached(3))


def test_impure_helper_is_named():
    f = function_from("def h(x):\n return x + np.random.randn()\ndef f(x): return h(x)", np=np)
    assert "np.random.randn at usermodule.py:2" in refused(f)


# ---- changes made by the function


def test_writes_are_refused():
    def f(x):
        global _counter
        _counter = x

    assert f"writes the global `_counter` at {line_of(f, 2)}" in refused(f)
    n = 0

    def g(x):
        nonlocal n
        n += 1

    assert "writes the outer variable `n`" in refused(g)

    def fine(x):
        total = 0

        def add(y):
            nonlocal total
            total += y

        add(x)
        return total

    plan_of(fine)


@pytest.mark.parametrize("source", ["log.append(1)", "state['n'] += 1", "f.calls += 1", "box.n += 1"])
def test_call_counters_show_in_the_snapshot(source):
    box = types.SimpleNamespace(n=0)
    f = function_from(f"def f(x):\n {source}\n return x", log=[], state={"n": 0}, box=box)
    f.calls = 0
    plan, snap = plan_of(f)
    f(1.0)
    assert not hit(plan, snap)
    assert plan.changes(snap, plan.snapshot())


def test_self_counter():
    class Counter:
        def __init__(self):
            self.calls = 0
            self.W = np.ones(2)

        def loss(self, x):
            self.calls += 1
            return x * self.W

    c = Counter()
    plan, snap = plan_of(Counter.loss, c)
    sub = plan.substitute(lambda a, name: a * 2, (c,))
    assert sub.fn(*sub.objects, 1.0)[0] == 2.0 and c.calls == 0
    assert sub.changes()
    sub.writeback(lambda v: v)
    assert c.calls == 1 and c.W[0] == 1.0
    assert not hit(plan, snap, c)
    assert "self.calls" in listed(plan.changes(snap, plan.snapshot((c,))))


def test_array_changed_in_place_by_the_function():
    f = function_from("def f(x):\n X[0] += 1\n return X * x", X=np.zeros(3))
    plan, snap = plan_of(f)
    f(1.0)
    assert hit(plan, snap) and snap.check()[0] is f.__globals__["X"] and snap.arrays[0][0] == 1.0


# ---- substitution


class Tagged:
    def __init__(self, array, name):
        self.array, self.name = array, name


def test_substitution_leaves_the_original_alone():
    f = function_from(
        "def h(x): return X, x\ndef f(x): return h(x) + (X, params['W'], other)",
        X=np.ones(2), params={"W": np.zeros(2), "n": 3}, other=[1],
    )  # fmt: skip
    plan, _ = plan_of(f)
    made = []
    before = dict(f.__globals__)

    def wrap(array, name):
        made.append(Tagged(array, name))
        return made[-1]

    sub = plan.substitute(wrap)
    X1, x, X2, W, other = sub.fn(5)
    assert X1 is X2 and X1.name == "global X" and x == 5 and W.name == "global params['W']"
    assert other is f.__globals__["other"] and len(made) == 2
    assert f.__globals__ == before and f(5)[0] is before["X"]


def test_substitution_without_arrays_is_the_function_itself():
    f = function_from("def f(x): return x * lr", lr=0.1)
    plan, _ = plan_of(f)
    assert plan.substitute(Tagged).fn is f


def test_substitution_recursion_and_mutual_recursion():
    f = function_from(
        "def g(n): return A if n == 0 else f(n - 1)\ndef f(n): return A if n == 0 else g(n - 1)", A=np.ones(1)
    )
    plan, _ = plan_of(f)
    assert type(plan.substitute(Tagged).fn(5)) is Tagged

    def make():
        W = np.ones(2)

        def down(n):
            return W if n == 0 else down(n - 1)

        return down

    plan, _ = plan_of(make())
    assert type(plan.substitute(Tagged).fn(4)) is Tagged


def test_substitution_sees_live_globals():
    f = function_from("def f(x): return X, later", X=np.ones(1), later=1)
    plan, _ = plan_of(f)
    sub = plan.substitute(Tagged)
    f.__globals__["later"] = 2
    assert sub.fn(0)[1] == 2


def test_substitution_of_defaults_partials_modules_and_closures():
    W = np.ones(2)
    config = module_from("import numpy as np\nC = np.ones(3)\nlr = 0.5", "config")

    def f(x, b, D=W, *, K=W):
        return x, b, D, K, config.C, config.lr, [W for _ in range(1)], (lambda: W)()

    bound = functools.partial(f, b=np.zeros(2))
    plan, snap = plan_of(bound)
    assert len(snap.arrays) == 3
    _, b, D, K, C, lr, (W1,), W2 = plan.substitute(Tagged).fn(1)
    assert [type(v) for v in (b, D, K, C, W1, W2)] == [Tagged] * 6 and D is K is W1 is W2 and lr == 0.5


def test_substitution_of_instances():
    a, b = Model(), Model()
    a.other = b
    a.pair = namedtuple("Pair", "u v")(a.W, 3)
    plan = analyse(lambda self, x: (self.W, self.other.W, self.pair.u, self), (a,))
    sub = plan.substitute(Tagged, (a,))
    W, other, u, me = sub.fn(*sub.objects, 1)
    assert W is u and W.array is a.W and other.array is b.W and type(me) is Model and me is not a
    assert type(a.W) is np.ndarray and a.other is b


def test_writeback_of_containers():
    f = function_from(
        "def f(x):\n log.append(x)\n log.append(log[0])\n book['last'] = x\n del book['old']\n return log",
        log=[np.ones(1)], book={"W": np.ones(2), "old": 1},
    )  # fmt: skip
    log, book = f.__globals__["log"], f.__globals__["book"]
    plan, _ = plan_of(f)
    sub = plan.substitute(Tagged)
    sub.fn(Tagged("traced", "x"))
    assert len(log) == 1
    assert [reason.code for reason in sub.changes()] == [Refusal.REPLAY_CHANGES] * 2
    sub.writeback(lambda v: sub.originals.get(id(v), "concrete" if isinstance(v, Tagged) else v))
    assert log[1] == "concrete" and log[2] is log[0] and type(log[0]) is np.ndarray
    assert book.keys() == {"W", "last"} and book["last"] == "concrete" and type(book["W"]) is np.ndarray
    assert sub.changes() == []


def test_unprovable_is_not_substituted():
    def f(x):
        return x + np.random.rand() + X

    X = np.ones(2)
    plan = analyse(f)
    assert plan.substitute(Tagged).fn is f


def test_instance_with_finaliser_is_not_copied():
    class Handle:
        def __init__(self):
            self.W = np.ones(2)

        def __del__(self):
            pass

    handle = Handle()
    plan, snap = plan_of(lambda x: x * handle.W)
    assert snap.arrays == () and hit(plan, snap)
    handle.W[0] = 2
    assert not hit(plan, snap)


# ---- the watch


def test_watch_is_quiet_on_what_was_analysed():
    model = Model()
    f = function_from("def h(x): return [np.sum(v) for v in x]\ndef f(x): return h(x), m.loss(x)", np=np, m=model)
    plan, _ = plan_of(f)
    with plan.watch() as seen:
        f(np.ones(3))
    assert seen.reasons == [] and plan.provable


def test_watch_finds_unknown_helpers():
    def f(x, act):
        return act(x)

    def act(x):
        return x + 1

    plan, _ = plan_of(f)
    with plan.watch():
        f(1.0, act)
    assert not plan.provable
    line = act.__code__.co_firstlineno
    assert plan.reasons == [Refusal.CALLS_UNSEEN(what="act", site=f"test_state.py:{line}")]


def test_watch_passes_over_what_the_garbage_collector_calls():
    def timed(phase, info):
        time.perf_counter()

    def fn(x):
        for _ in range(3):
            x = [x]
        gc.collect()
        return x

    plan = analyse(fn)
    gc.collect()  # what other tests have left behind may have finalisers in Python
    gc.callbacks.append(timed)
    try:
        with plan.watch() as seen:
            fn(1.0)
    finally:
        gc.callbacks.remove(timed)
    assert [reason.code for reason in seen.reasons] == [Refusal.CALLS_INTERPRETER]  # gc.collect itself


def test_watch_finds_impure_calls():
    def f(x, fn):
        return fn()

    for fn, code in [
        (time.time, Refusal.CALLS_CLOCK),
        (random.random, Refusal.CALLS_RANDOM),
        (np.random.rand, Refusal.CALLS_NUMPY_RANDOM),
        (np.random.default_rng, Refusal.CALLS_RANDOM),
        (datetime.datetime.now, Refusal.CALLS_CLOCK),
    ]:
        plan, _ = plan_of(f)
        with plan.watch():
            f(1.0, fn)
        assert code in [reason.code for reason in plan.reasons], fn


def test_watch_sees_print():
    def f(x):
        print(x)

    plan, _ = plan_of(f)
    with plan.watch():
        f(1.0)
    assert plan.reasons == [Refusal.CALLS_PRINT(what="print", site=line_of(f))]


def test_watch_restores_the_profiler():
    events = []

    def mine(frame, event, arg):
        events.append(event)

    plan, _ = plan_of(lambda x: x)
    sys.setprofile(mine)
    try:
        with plan.watch():
            plan.fn(1)
        assert sys.getprofile() is mine and "call" in events
    finally:
        sys.setprofile(None)
    profiler = cProfile.Profile()
    profiler.enable()
    with plan.watch():
        plan.fn(1)
    profiler.disable()
    assert plan.provable, plan.reasons


# ---- cost and life time


def test_release_drops_the_arrays():
    f = function_from("def f(x): return X * k", X=np.ones(2), k=1.0)
    _plan, snap = plan_of(f)
    snap.release()
    assert snap.arrays == () and snap.check() is not None and len(snap.check()) == 1


def test_threads_may_share_a_plan():
    f = function_from("def h(x): return X * x\ndef f(x): return h(x) + k", X=np.ones(2), k=1.0)
    plan, snap = plan_of(f)
    results = []

    def work():
        for _ in range(20):
            sub = plan.substitute(lambda a, name: a * 2)
            results.append(sub.fn(1.0)[0] == 3.0 and f(1.0)[0] == 2.0 and snap.check() is not None)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert all(results) and len(results) == 80


def test_plan_is_a_state_plan():
    assert isinstance(analyse(math.sin), StatePlan) and analyse(math.sin).provable


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


def test_a_state_that_a_run_has_left_alone_is_not_walked_after_it():
    owner, rates, array, counts = types.SimpleNamespace(rate=2.0), [0.5], np.ones(3), {"n": 300}

    def f(x):
        return np.sum(x * array) * owner.rate * rates[0] + counts["n"]

    plan, before = plan_of(f)
    assert plan.after(before, ()) is before and plan.changes(before, before) == []
    same = {"rate": owner.rate, "item": rates[0], "n": counts["n"], "array": array}
    changes = {
        "owner.rate": lambda: setattr(owner, "rate", 3.0),
        "rates[0]": lambda: rates.append(1.0),
        "counts['n']": lambda: counts.update(n=301),
        "array": lambda: set_cell(f, "array", np.ones(3)),
    }
    for name, change in changes.items():
        plan, before = plan_of(f)
        change()
        after = plan.after(before, ())
        assert after is not before and plan.changes(before, after), name
        owner.rate, rates[:], counts["n"] = same["rate"], [same["item"]], same["n"]
        set_cell(f, "array", same["array"])


def set_cell(fn, name, value):
    fn.__closure__[fn.__code__.co_freevars.index(name)].cell_contents = value


# ---- the second recording ------------------------------------------------------------------------------------------


RATE, WEIGHTS = 2.0, {"a": 3.0}


def scaled(x):
    return x * RATE


def closing_over(array):
    def fn(x):
        return np.sum(scaled(x) * array)

    def rebind(new):
        nonlocal array
        array = new

    return fn, rebind


def walks(monkeypatch):
    """A list that gets an item for each walk from now on."""
    made, build = [], state_plan.build
    monkeypatch.setattr(state_plan, "build", lambda *args: made.append(args) or build(*args))
    return made


def test_what_others_learn_during_a_run_is_no_change_of_it():
    """Another thread, which has met another value: numbers of the state are inputs from then on."""
    holder = types.SimpleNamespace(rate=1.0)
    plan = StatePlan(lambda x: x * holder.rate, effects=True)
    before = plan.snapshot()
    holder.rate = 2.0
    other = plan.vary([before], plan.snapshot(), ())
    assert [node.label for node in other.inputs] and not before.inputs
    holder.rate = 1.0
    assert plan.changes(before, plan.after(before, ())) == []
    holder.rate = 3.0
    assert [str(reason) for reason in plan.changes(before, plan.after(before, ()))]
    assert plan.snapshot().key == other.key  # which is still known


class Holder:
    def __init__(self, array):
        self.array, self.rate = array, 2.0

    def helped(self, x):
        return x * self.rate

    def fn(self, x):
        return np.sum(self.helped(x) * self.array)


def test_arrays_are_not_kept_between_two_recordings():
    array = np.arange(3.0)
    fn, rebind = closing_over(array)
    compiled, kept = compile_grad(fn), weakref.ref(array)
    compiled(np.ones(3))
    del array
    rebind(np.ones(3))
    gc.collect()
    assert kept() is None and compiled(np.ones(3)) == fn(np.ones(3)) and compiled.stats.traces == 1


def test_a_state_is_walked_once_at_most_where_runs_log_what_they_read(monkeypatch):
    made = walks(monkeypatch)
    fn, rebind = closing_over(np.arange(3.0))
    compiled = compile_grad(fn)
    for k in range(4):
        assert compiled(np.ones(3)) == fn(np.ones(3))
        rebind(np.arange(3.0) + k)
    assert compiled.stats.traces == 1 and len(made) <= 1  # that of a plan, which is made before


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
