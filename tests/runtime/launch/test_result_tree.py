"""Results in trees, whose arrays are written again: never one that anybody can still see, nor one that was changed."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import os
import random
import sys
import threading
import tracemalloc
import weakref
from collections import Counter, namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest

from tracegrad import autograd, compile_grad, pure_callback, stop_gradient
from tracegrad.runtime.launch import bind, result_tree

pytestmark = pytest.mark.skipif(not bind.NATIVE, reason="results are put together in Python here")

LAYERS = 3
SETS = result_tree.KEPT + 2  # calls after which a tree that was dropped has been written again


def parameters(seed: int = 0, layers: int = LAYERS) -> dict:
    rng = np.random.default_rng(seed)
    return {f"layer {k}": {"W": rng.normal(size=(2, 3)), "b": rng.normal(size=3)} for k in range(layers)}


class Pair(namedtuple("Pair", "W b")):
    __slots__ = ()


class Typed(NamedTuple):
    W: np.ndarray
    b: np.ndarray


@dataclass
class Layer:
    W: np.ndarray
    b: np.ndarray


@dataclass(frozen=True)
class Frozen:
    W: np.ndarray
    b: np.ndarray


@dataclass(slots=True)
class Slotted:
    b: np.ndarray
    W: np.ndarray


class Own:
    """In slots, its own and those of a base, and beside them."""

    class Base:
        __slots__ = ("W", "__weakref__")

    class Both(Base):
        __slots__ = ("__dict__",)

        def __init__(self, W, b):
            self.W, self.b = W, b


class Noted(namedtuple("Noted", "W b")):
    """One that may hold more than its items."""


class Doubling(namedtuple("Doubling", "W b")):
    __slots__ = ()

    def __new__(cls, W, b):
        return super().__new__(cls, W, np.negative(b) if type(b) is np.ndarray else b)


class Ending:
    ended = 0

    def __init__(self, W, b):
        self.W, self.b = W, b

    def __del__(self):
        Ending.ended += 1


CLASSES = [Pair, Typed, Layer, Frozen, Slotted, Own.Both, SimpleNamespace, Noted, Ending]


def parts_of(p):
    """The parts of a container or an object, in the order of their names where it is an object."""
    if isinstance(p, dict):
        return list(p.values())
    if isinstance(p, list | tuple):
        return list(p)
    return [p.W, p.b] if hasattr(p, "W") else None


def loss(p):
    parts = parts_of(p)
    return np.sum(p * p) if parts is None else sum([loss(part) for part in parts])


def compiled(*args, **kwargs):
    """A function whose calls the launcher answers."""
    f = compile_grad(loss, **kwargs)
    for _ in range(4):
        f.value_and_grad(*args)
    return f


def leaves(tree):
    parts = parts_of(tree)
    return [tree] if parts is None else [a for part in parts for a in leaves(part)]


def check(gradient, p):
    """*gradient* is what it has to be, in fresh arrays like any others."""
    found, given = leaves(gradient), leaves(p)
    assert len(found) == len(given)
    for g, x in zip(found, given, strict=True):
        if type(x) is float:
            assert type(g) is np.float64 and g == 2 * x
            continue
        assert type(g) is np.ndarray and g.base is None and g.dtype == x.dtype and g.strides == x.strides
        assert g.flags.writeable and g.flags.owndata and g.flags.c_contiguous and g.flags.aligned
        assert g.tobytes() == (2 * x).tobytes()


def arrays_of(tree):
    return [a for a in leaves(tree) if type(a) is np.ndarray]


def addresses(tree):
    return [a.__array_interface__["data"][0] for a in arrays_of(tree)]


def calls(f, p, count=SETS):
    """The gradient is right in each of some more calls, whose arguments differ."""
    for k in range(count):
        for x in arrays_of(p):
            x += 1.0 + k
        check(f.value_and_grad(p)[1], p)


TREES = {
    "dicts": parameters(),
    "list of dicts": list(parameters().values()),
    "tuples": tuple([tuple(layer.values()) for layer in parameters().values()]),
    "lists": [list(layer.values()) for layer in parameters().values()],
    "with nothing": {**parameters(), "empty": {}, "none": [], "nothing": ()},
    "one dtype each": [{"a": np.ones(2, np.float32), "b": np.ones((1, 3))}, [np.ones((3, 1)), np.ones((1, 1, 2))]],
    "empty arrays": [[np.ones(0), np.ones((3, 0))], [np.ones((0, 3)), np.ones(4)]],
}


FLAT = dict(zip("abcd", leaves(parameters()), strict=False))
NUMBERS = {
    "in a dict": {"rate": 0.5, **FLAT, "scale": 0.25},
    "in a list": [0.5, *FLAT.values(), 0.25],
    "in a tuple": (0.5, *FLAT.values(), 0.25),
    "in a pair": [*FLAT.values(), Pair(0.5, FLAT["a"])],
    "alone in a pair": [*FLAT.values(), Pair(0.5, 0.25), (1.5, 2.5)],
    "in objects": [
        *FLAT.values(),
        Layer(0.5, FLAT["a"]),
        Slotted(FLAT["b"], 1.5),
        SimpleNamespace(W=FLAT["c"], b=0.25),
    ],
    "everywhere": {"one": 1.0, "two": [2.0, {"three": (FLAT["a"], 3.0), "four": Layer(4.0, [FLAT["b"], 5.0])}], **FLAT},
}
TREES |= {f"numbers {name}": tree for name, tree in NUMBERS.items()}
TREES |= {cls.__name__: [cls(**layer) for layer in parameters().values()] for cls in CLASSES}
TREES |= {f"{cls.__name__} outside": cls(**dict(zip("Wb", TREES["lists"], strict=False))) for cls in CLASSES}


@pytest.mark.parametrize("p", TREES.values(), ids=TREES)
def test_dropped_trees_are_written_again(p):
    f = compiled(p)
    seen = Counter()
    for _ in range(20):
        v, g = f.value_and_grad(p)
        check(g, p)
        seen[id(g)] += 1
        assert type(g) is type(p) and v == f(p)
        if isinstance(p, dict | list | tuple):
            assert repr(g) == repr(autograd.grad(loss)(p)) or type(g[0]) in (Own.Both, Ending)
    whole = not {type(p), *map(type, parts_of(p))} & {Noted, Ending}  # objects of these may be more than they show
    whole = whole and not (result_tree.HASHES and p is NUMBERS["alone in a pair"])
    assert not whole or len(seen) <= result_tree.KEPT  # and not twenty
    calls(f, p)


@pytest.mark.parametrize("p", NUMBERS.values(), ids=NUMBERS)
def test_numbers_in_a_tree_are_new_ones(p):
    p = copy.deepcopy(p)
    f = compile_grad(lambda p, t: t * loss(p))
    known, kept = repr(autograd.grad(loss)(p)), []
    for k in range(24):
        scale = float(2 ** (k % 3))
        v, g = f.value_and_grad(p, scale)
        expected = [2 * scale * x for x in leaves(p)]
        assert all(np.array_equal(a, b) for a, b in zip(leaves(g), expected, strict=True))
        assert scale > 1 or repr(g) == known
        kept.append((v, [x for x in leaves(g) if type(x) is np.float64], repr(v), repr(g)))
        hash(g[-1]) if type(g) is list and type(g[-1]) is tuple else None
        if k % 4 == 0:
            kept.append((g, [], repr(g), repr(g)))
        elif k % 4 == 1 and type(g) is not tuple:
            g[0 if type(g) is list else "a"] = FLAT
    for held, numbers, shown, _ in kept:
        assert repr(held) == shown and all(type(x) is np.float64 for x in numbers)


@pytest.mark.parametrize("hashes", [result_tree.HASHES, True])
def test_a_tuple_of_numbers_that_was_hashed(hashes, monkeypatch):
    monkeypatch.setattr(result_tree, "HASHES", hashes)
    p = [*FLAT.values(), (0.5, 0.25)]
    f = compile_grad(lambda p, t: t * loss(p))
    for k in range(12):
        g = f.grad(p, 1.0 + k)
        assert g[-1] == (1.0 + k, 0.5 + 0.5 * k) and hash(g[-1]) == hash((1.0 + k, 0.5 + 0.5 * k))
        del g


def test_what_stands_in_the_place_of_a_number():
    """It is dropped when a number is put there, and may call the function in its end."""
    p = NUMBERS["in a list"]
    f, seen = compile_grad(loss), []

    class Noisy:
        def __del__(self):
            seen.append(f.grad(p))

    for k in range(20):
        g = f.grad(p)
        check(g, p)
        g[k % 2 * 5] = Noisy()
        del g
    calls(f, p)
    assert len(seen) > 10 and all([type(x) for x in g] == [np.float64, *[np.ndarray] * 4, np.float64] for g in seen)


def test_results_that_are_kept_stay_as_they_are():
    p = parameters()
    f, kept = compiled(p), []
    rng = random.Random(0)
    for _ in range(200):
        for x in leaves(p):
            x += 1.0
        v, g = f.value_and_grad(p)
        check(g, p)
        kept.append((v, g, copy.deepcopy(g)))
        if rng.random() < 0.6:
            del kept[rng.randrange(len(kept))]
    assert len(kept) > 20
    for _, g, known in kept:
        assert [a.tobytes() for a in leaves(g)] == [a.tobytes() for a in leaves(known)]
    every = [a for _, g, _ in kept for a in addresses(g)]
    assert len(set(every)) == len(every)


#: What somebody may keep of a gradient while all else of it goes; and how it is read later.
HELD = {
    "array": (lambda g: g["layer 1"]["W"], bytes),
    "last array": (lambda g: g["layer 2"]["b"], bytes),
    "inner dict": (lambda g: g["layer 1"], lambda held: bytes(held["b"])),
    "view": (lambda g: g["layer 1"]["W"][1:], lambda held: held.tobytes()),
    "transpose": (lambda g: g["layer 1"]["W"].T, lambda held: held.tobytes()),
    "view of a view": (lambda g: g["layer 1"]["W"].reshape(-1)[::2], lambda held: held.tobytes()),
    "buffer": (lambda g: memoryview(g["layer 1"]["W"]), bytes),
    "cast buffer": (lambda g: memoryview(g["layer 1"]["W"]).cast("B"), bytes),
    "frombuffer": (lambda g: np.frombuffer(g["layer 1"]["b"]), bytes),
    "pointer": (lambda g: g["layer 1"]["b"].ctypes.data_as(ctypes.POINTER(ctypes.c_double)), lambda p: list(p[:3])),
    "ctypes array": (lambda g: (ctypes.c_double * 3).from_buffer(g["layer 1"]["b"]), list),
    "DLPack": (lambda g: np.from_dlpack(g["layer 1"]["W"]), lambda held: held.tobytes()),
    "capsule": (lambda g: (g["layer 1"]["b"].__dlpack__(), addresses(g)[3]), lambda p: ctypes.string_at(p[1], 24)),
    "iterator": (lambda g: g["layer 1"]["W"].flat, lambda held: bytes(np.array(held))),
    "nditer": (lambda g: np.nditer(g["layer 1"]["W"]), lambda held: bytes(held.operands[0])),
    "stack of arrays": (lambda g: np.lib.stride_tricks.as_strided(g["layer 1"]["b"], (2, 3), (0, 8)), bytes),
    "broadcast": (lambda g: np.broadcast_to(g["layer 1"]["b"], (2, 3)), lambda held: held.tobytes()),
    "items": (lambda g: g["layer 1"].items(), lambda held: bytes(dict(held)["W"])),
    "closure": (lambda g: lambda: bytes(g["layer 1"]["b"]), lambda held: held()),
    "weak reference": (lambda g: weakref.ref(g["layer 1"]["b"]), lambda held: held() is None or bytes(held())),
    "subclass": (lambda g: g["layer 1"]["W"].view(np.recarray), lambda held: held.tobytes()),
    "object array": (lambda g: np.array([g["layer 1"]["b"], None], object), lambda held: bytes(held[0])),
}


@pytest.mark.parametrize("hold, read", HELD.values(), ids=HELD)
def test_an_array_that_anybody_can_see_is_not_written_into(hold, read):
    p = parameters()
    f = compiled(p)
    held = [hold(f.value_and_grad(p)[1])]
    known = read(held[0])
    for x in leaves(p):
        x += 3.0
    for _ in range(SETS):
        check(f.value_and_grad(p)[1], p)
    found = read(held[0])
    assert found == known or (hold is HELD["weak reference"][0] and found is True)
    held.clear()
    calls(f, p)


def put(target, key, value):
    target[key] = value


def as_key(tree):
    part = tree.pop("layer 1")
    tree["layer 1"] = part  # at the end now


def swapped(tree):
    tree["layer 1"], tree["layer 2"] = tree["layer 2"], tree["layer 1"]
    tree["layer 0"]["W"], tree["layer 1"]["W"] = tree["layer 1"]["W"], tree["layer 0"]["W"]


def renamed(tree):
    for key in ("W", "b"):
        tree["layer 1"][f"{key}!"] = tree["layer 1"].pop(key)


#: In-place changes of a gradient that is dropped then.
CHANGES = {
    "values": lambda g: g["layer 1"]["W"].fill(np.nan),
    "shape": lambda g: setattr(g["layer 1"]["W"], "shape", (3, 2)),
    "rank": lambda g: setattr(g["layer 1"]["W"], "shape", (6,)),
    "dtype": lambda g: setattr(g["layer 1"]["W"], "dtype", np.int64),
    "read-only": lambda g: g["layer 1"]["W"].setflags(write=False),
    "writeable flag": lambda g: setattr(g["layer 2"]["b"].flags, "writeable", False),
    "not aligned": lambda g: g["layer 2"]["b"].setflags(align=False),
    "longer": lambda g: g["layer 1"]["W"].resize((5, 7), refcheck=False),
    "shorter": lambda g: g["layer 1"]["W"].resize((1, 3), refcheck=False),
    "longer and back": lambda g: [g["layer 1"]["W"].resize(s, refcheck=False) for s in ((5000, 7), (2, 3))],
    "state": lambda g: g["layer 1"]["W"].__setstate__((1, (2,), np.dtype("f4"), False, b"\0" * 8)),
    "state alike": lambda g: g["layer 1"]["b"].__setstate__(np.ones(3).__reduce__()[2]),
    "byte order": lambda g: g["layer 1"]["b"].byteswap(inplace=True),
    "item": lambda g: put(g["layer 1"], "W", np.ones((2, 3))),
    "read-only item": lambda g: put(g["layer 1"], "W", np.broadcast_to(1.0, (2, 3))),
    "subclass": lambda g: put(g["layer 1"], "W", np.ones((2, 3)).view(np.matrix)),
    "view": lambda g: put(g["layer 1"], "b", np.ones(4)[1:]),
    "of another": lambda g: put(g["layer 1"], "b", g["layer 2"]["b"]),
    "itself": lambda g: put(g["layer 1"], "b", g),
    "number": lambda g: put(g["layer 1"], "b", 1.0),
    "more": lambda g: put(g, "more", 1),
    "more inside": lambda g: put(g["layer 2"], "more", np.ones(3)),
    "less": lambda g: g["layer 1"].pop("b"),
    "empty": lambda g: g.clear(),
    "key": renamed,
    "order": as_key,
    "swapped": swapped,
    "other dict": lambda g: put(g, "layer 1", type("Own", (dict,), {})(g["layer 1"])),
    "equal key": lambda g: put(g, "".join(["lay", "er 1"]), g.pop("layer 1")),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_tree_that_was_changed_comes_back_as_new(change):
    p = parameters()
    f = compiled(p)
    for _ in range(SETS):  # each of those that are kept
        g = f.value_and_grad(p)[1]
        change(g)
        del g
    calls(f, p)


OBJECT_CHANGES = {
    "attribute": lambda g: object.__setattr__(g[1], "W", np.ones((2, 3))),
    "of another": lambda g: object.__setattr__(g[1], "W", g[2].W),
    "deleted": lambda g: object.__delattr__(g[1], "b"),
    "more": lambda g: g[1].__dict__.update(more=1),
    "other dict": lambda g: object.__setattr__(g[1], "__dict__", {"b": g[1].b, "W": g[1].W}),
    "class": lambda g: object.__setattr__(g[1], "__class__", type("More", (type(g[1]),), {"__slots__": ()})),
    "shape": lambda g: g[1].b.resize(7, refcheck=False),
}


@pytest.mark.parametrize("cls", [Layer, Frozen, Slotted, Own.Both, SimpleNamespace, Pair, Noted])
@pytest.mark.parametrize("change", OBJECT_CHANGES.values(), ids=OBJECT_CHANGES)
def test_objects_that_were_changed_come_back_as_new(cls, change):
    p = [cls(**layer) for layer in parameters().values()]
    f = compiled(p)
    for _ in range(SETS):
        g = f.value_and_grad(p)[1]
        with contextlib.suppress(AttributeError, TypeError):  # what this class does not allow
            change(g)
        del g
    calls(f, p)
    for g in [f.value_and_grad(p)[1] for _ in range(SETS)]:
        assert not getattr(g[1], "more", None) and type(g[1]) is cls


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("hold", [lambda x: x, lambda x: x.b, lambda x: vars(x), lambda x: x.__repr__, weakref.ref])
def test_objects_that_somebody_has(cls, hold):
    p = [cls(**layer) for layer in parameters().values()]
    f = compiled(p)
    try:
        held = hold(f.value_and_grad(p)[1][1])
    except TypeError:
        pytest.skip("this class does not allow it")
    seen = held() if isinstance(held, weakref.ref) else held
    found = [a.tobytes() for a in leaves(seen)] if parts_of(seen) else repr(seen)
    del seen
    calls(f, p)
    if isinstance(held, weakref.ref):
        assert held() is None
    else:
        assert ([a.tobytes() for a in leaves(held)] if parts_of(held) else repr(held)) == found


def test_a_named_tuple_that_makes_something_else_of_its_items():
    p = [Doubling(**layer) for layer in parameters().values()]
    f = compiled(p)
    for _ in range(10):
        g = f.value_and_grad(p)[1]
        for x, y in zip(g, p, strict=True):
            assert np.array_equal(x.W, 2 * y.W) and np.array_equal(x.b, -2 * y.b)


class Registered:
    """A class that is taken apart, and put together, by functions of its own."""

    def __init__(self, *parts):
        self.parts = parts


optree.register_pytree_node(
    Registered, lambda r: (r.parts, None), lambda _, parts: Registered(*parts), namespace="tracegrad"
)


def test_registered_classes():
    """The tuple that such a class is made of may be kept: its arrays are the object's as long as there is one."""

    @compile_grad
    def f(p):
        return sum([np.sum(x * x) for r in p for x in r.parts])

    p, kept = [Registered(*[np.ones(3) for _ in range(n)]) for n in (5, 4, 1)], []
    for k in range(20):
        for r in p:
            for x in r.parts:
                x += 1.0
        g = f.value_and_grad(p)[1]
        for a, b in zip(g, p, strict=True):
            check(list(a.parts), list(b.parts))
        if k % 3 == 0:
            part = g[k % 2].parts[k % 4]
            kept.append((part, part.tobytes()))
        if k % 4 == 0:
            kept.append((g[0].parts, [a.tobytes() for a in g[0].parts]))
    for held, known in kept:
        assert known == (held.tobytes() if isinstance(held, np.ndarray) else [a.tobytes() for a in held])


@pytest.mark.parametrize("package", ["attrs", "pydantic"])
def test_classes_of_packages(package):
    pytest.importorskip(package)
    if package == "attrs":
        import attrs

        @attrs.define
        class Cls:
            W: Any
            b: Any
    else:
        import pydantic

        class Cls(pydantic.BaseModel):
            W: Any
            b: Any

    p, kept = [Cls(**layer) for layer in parameters().values()], []
    f = compiled(p)
    for k in range(15):
        for x in leaves(p):
            x += 1.0
        g = f.value_and_grad(p)[1]
        check(g, p)
        assert all(type(x) is Cls for x in g)
        if k % 3 == 0:
            kept.append((g, [a.tobytes() for a in leaves(g)]))
    assert all([a.tobytes() for a in leaves(g)] == known for g, known in kept)


def test_what_an_end_does_happens_when_an_object_is_dropped():
    p = [Ending(**layer) for layer in parameters().values()]
    f = compiled(p)
    g = f.value_and_grad(p)[1]
    before = Ending.ended
    del g
    assert Ending.ended == before + len(p)


def test_a_constant_that_was_replaced_comes_back():
    p = TREES["with nothing"]
    f = compiled(p)
    for key in ("empty", "none", "nothing"):
        for _ in range(SETS):
            f.value_and_grad(p)[1][key] = "other"
        for _ in range(SETS):
            g = f.value_and_grad(p)[1]
            assert [g["empty"], g["none"], g["nothing"]] == [{}, [], ()]
            check(g, p)


def test_lists_that_were_changed_come_back_as_new():
    p = [list(layer.values()) for layer in parameters().values()]
    f = compiled(p)
    for change in (
        lambda g: g.append(1), lambda g: g.pop(), lambda g: g.reverse(), lambda g: g[1].append(g), lambda g: g.clear(),
        lambda g: put(g, 1, tuple(g[1])), lambda g: put(g[1], 0, None), lambda g: g[1].reverse(),
        lambda g: g.sort(key=id),
    ):  # fmt: skip
        for _ in range(SETS):
            change(f.value_and_grad(p)[1])
        calls(f, p)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_strides_that_say_the_same_are_set_back():
    p = [np.ones((1, 3)) for _ in range(4)]
    f = compile_grad(lambda p: sum([np.sum(x * x) for x in p]))
    for _ in range(4 + SETS):
        f.value_and_grad(p)[1][2].strides = (800, 8)
    calls(f, p)


def test_an_axis_more_where_the_numbers_in_memory_are_the_same():
    p = [np.ones(1) for _ in range(4)]  # the length 1 and the stride 8, as the lengths of (1, 8)
    f = compile_grad(lambda p: sum([np.sum(x * x) for x in p]))
    for _ in range(4 + SETS):
        f.value_and_grad(p)[1][2].resize((1, 8), refcheck=False)
    calls(f, p)


def test_positional_arguments_and_tuples_of_results():
    arrays = [np.arange(1.0, k + 2) for k in range(6)]

    @compile_grad(argnums=tuple(range(6)))
    def f(*xs):
        return sum([np.sum(x * x) for x in xs])

    squares = compile_grad(lambda *xs: tuple([x * x for x in xs]))
    for k in range(12):
        arrays[2] += k
        v, g = f.value_and_grad(*arrays)
        check(g, arrays)
        assert type(g) is tuple and v == f(*arrays)
        check(f.grad(*arrays), arrays)
        found = squares(*arrays)
        assert type(found) is tuple and [a.tobytes() for a in found] == [(x * x).tobytes() for x in arrays]


def test_an_auxiliary_result_beside_the_tree():
    @compile_grad(has_aux=True)
    def f(p):
        return loss(p), {"norm": np.sum(p["layer 0"]["b"]), "twice": 2 * p["layer 1"]["b"], "name": "one", "none": None}

    p = parameters()
    for k in range(12):
        p["layer 1"]["b"] += k
        (v, aux), g = f.value_and_grad(p)
        check(g, p)
        assert v == loss(p) and aux["norm"] == np.sum(p["layer 0"]["b"]) and aux["name"] == "one"
        assert list(aux) == ["norm", "twice", "name", "none"] and np.array_equal(aux["twice"], 2 * p["layer 1"]["b"])


def test_a_guard_that_fails_leaves_what_is_kept_intact():
    @compile_grad
    def f(p):
        return loss(p) if p["layer 0"]["b"][0] > 0 else 3.0 * loss(p)

    p, kept = parameters(), []
    for k in range(60):
        p["layer 0"]["b"][0] = (-1.0) ** (k * k // 3) * (k + 1)
        g = f.value_and_grad(p)[1]
        factor = 1.0 if p["layer 0"]["b"][0] > 0 else 3.0
        for a, x in zip(leaves(g), leaves(p), strict=True):
            np.testing.assert_allclose(a, 2 * factor * x)
        if k % 3 == 0:
            kept.append((g, copy.deepcopy(g)))
    for g, known in kept:
        assert [a.tobytes() for a in leaves(g)] == [a.tobytes() for a in leaves(known)]


def test_a_gradient_as_the_next_argument():
    p = parameters()
    f = compiled(p)
    g = p
    for k in range(12):
        g = f.value_and_grad(g)[1]
        check(g, {key: {n: 2.0**k * a for n, a in layer.items()} for key, layer in p.items()})


def test_modes_and_functions_have_trees_of_their_own():
    p = parameters()
    f, other = compiled(p), compiled(p)
    for _ in range(8):
        a, b, c = f.grad(p), f.value_and_grad(p)[1], other.grad(p)
        for g in (a, b, c):
            check(g, p)
        every = [*addresses(a), *addresses(b), *addresses(c)]
        assert len(set(every)) == len(every)


def test_large_and_few_arrays_are_not_kept():
    few = [np.ones(3), np.ones(2)]
    large = [np.ones(4000) for _ in range(4)]
    for p in (few, large):
        f = compile_grad(lambda p: sum([np.sum(x * x) for x in p]))
        for _ in range(5):
            g = f.value_and_grad(p)[1]
        check(g, p)
        assert all(sys.getrefcount(x) <= 3 for x in g) and gc.get_referrers(g) in ([], [sys._getframe()])


@pytest.mark.parametrize("threads", [2, 4])
def test_threads(threads):
    f, errors = compiled(parameters()), []

    def work(me):
        try:
            p, kept, rng = parameters(me), [], random.Random(me)
            for _ in range(300):
                for x in leaves(p):
                    x += 1.0
                g = f.value_and_grad(p)[1]
                check(g, p)
                kept.append((g, copy.deepcopy(g)))
                if rng.random() < 0.9:
                    del kept[rng.randrange(len(kept))]
            for g, known in kept:
                assert [a.tobytes() for a in leaves(g)] == [a.tobytes() for a in leaves(known)]
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        started = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors


def test_threads_whose_kernels_let_go_of_the_gil():
    """A tree that one call writes into is no other's, though other threads go on meanwhile."""
    f = compile_grad(lambda p, x: loss(p) * np.sum(np.exp(np.sin(x)) * np.tanh(x)))
    x = np.linspace(0.0, 1.0, 300_000)
    inputs = [parameters(k) for k in range(4)]
    known = [[a.tobytes() for a in leaves(f.grad(p, x))] for _ in range(4) for p in inputs][-4:]

    def work(me):
        kept = []
        for k in range(30):
            kept.append(f.grad(inputs[me], x))
            if k % 3:
                del kept[0]
        return all([a.tobytes() for a in leaves(g)] == known[me] for g in kept)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_a_call_within_a_call():
    """A program that calls Python in its midst: the call within it gets another tree."""
    p, inner, begun = parameters(), [], []

    def ones(x):
        if begun and len(inner) < 5:
            inner.append(None)
            place = len(inner) - 1
            g = f.value_and_grad(p)[1]
            inner[place] = (g, copy.deepcopy(g))
        return x * 0.0 + 1.0

    @compile_grad
    def f(p):
        return loss(p) * np.sum(pure_callback(ones, np.empty(3), stop_gradient(p["layer 0"]["b"]))) / 3.0

    for _ in range(12):
        for x in leaves(p):
            x += 1.0
        check(f.value_and_grad(p)[1], p)
    for _ in range(SETS):
        begun.append(1)
        g = f.value_and_grad(p)[1]
        check(g, p)
    assert len(inner) == 5
    for g, known in inner:
        assert [a.tobytes() for a in leaves(g)] == [a.tobytes() for a in leaves(known)]


def test_finalisers_of_what_was_put_into_a_tree():
    """They run when a tree is given up, in the midst of a call, and may call the function."""
    p = parameters()
    f, seen = compiled(p), []

    class Noisy:
        def __del__(self):
            g = f.value_and_grad(p)[1]
            check(g, p)
            seen.append(g)

    for _ in range(SETS):
        f.value_and_grad(p)[1]["layer 1"]["more"] = Noisy()
    calls(f, p)
    assert seen
    with_weak = []
    for k in range(SETS):
        with_weak.append(weakref.ref(f.value_and_grad(p)[1]["layer 0"]["W"], lambda _, k=k: seen.append(f.grad(p))))
    calls(f, p)
    assert all(ref() is None for ref in with_weak)
    for x in leaves(p):
        x += 1.0
    calls(f, p)


def test_what_is_kept_goes_with_the_function():
    p = parameters()
    f = compiled(p)
    watched = []
    for _ in range(3):
        g = f.value_and_grad(p)[1]
        watched.append(weakref.ref(g["layer 0"]["b"]))
        del g
    del f
    gc.collect()
    assert [ref() for ref in watched] == [None] * 3


def test_a_cycle_through_what_is_kept_is_collected():
    class Own:
        pass

    p = parameters()
    f = compiled(p)
    own = Own()
    own.function = f
    for _ in range(SETS):
        f.value_and_grad(p)[1]["own"] = own
    gone = weakref.ref(own)
    del own, f
    gc.collect()
    assert gone() is None


def test_no_reference_is_leaked():
    p = parameters()
    f, key = compiled(p), "layer 1"
    watched = [np.dtype(np.float64), np.ndarray, key, None]
    kept = []

    def work(n):
        for k in range(n):
            g = f.value_and_grad(p)[1]
            if k % 3 == 0:
                kept.append(g)
            if k % 5 == 0:
                kept.clear()
            if k % 7 == 0:
                g["layer 2"]["b"] = None
        kept.clear()
        del g
        for _ in range(SETS):
            f.value_and_grad(p)

    work(100)
    before = [sys.getrefcount(x) for x in watched]
    tracemalloc.start()
    try:
        work(500)
        held = tracemalloc.get_traced_memory()[0]
        work(3000)
        assert tracemalloc.get_traced_memory()[0] - held < 4000
    finally:
        tracemalloc.stop()
    assert all(abs(sys.getrefcount(x) - n) < 100 for x, n in zip(watched, before, strict=True))


def test_every_allocation_may_fail():
    testcapi = pytest.importorskip("_testcapi")
    p = parameters()
    f, seen = compiled(p), Counter()
    for start in range(60):
        held = [f.value_and_grad(p) for _ in range(SETS + 20)]  # empty the free lists, and let nothing be kept
        result = None
        try:
            testcapi.set_nomemory(start, start + 1)
            result = f.value_and_grad(p)
        except MemoryError:
            pass
        finally:
            testcapi.remove_mem_hooks()
        seen[result is None] += 1
        if result is not None:
            check(result[1], p)
        del held
    assert seen[True] > 1 and seen[False] > 1
    calls(f, p)


def test_a_collection_in_the_midst_of_a_call():
    p = parameters()
    f, calls_made = compiled(p), []

    def again(phase, info):
        if len(calls_made) < 50:
            calls_made.append(None)
            g = f.value_and_grad(p)[1]
            calls_made[-1] = (g, copy.deepcopy(g))

    threshold = gc.get_threshold()
    gc.callbacks.append(again)
    try:
        gc.set_threshold(1)
        kept = [f.value_and_grad(p)[1] for _ in range(200)]
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(again)
    assert calls_made
    for g in kept:
        check(g, p)
    for g, known in calls_made:
        assert [a.tobytes() for a in leaves(g)] == [a.tobytes() for a in leaves(known)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_trees_of_its_own():
    p = parameters()
    f = compiled(p)
    g = f.value_and_grad(p)[1]
    child = os.fork()
    if not child:
        try:
            calls(f, p)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    check(g, p)
    calls(f, p)


def test_the_collector_may_have_emptied_the_keeper():
    p = parameters()
    f = compiled(p)
    keepers = [o for o in gc.get_objects() if type(o) is list and len(o) == result_tree.KEPT]
    g = f.value_and_grad(p)[1]
    (keeper,) = [o for o in keepers if any(type(x) is tuple and len(x) == 2 and x[1] is g for x in o)]
    keeper.clear()  # as it does with a list in a cycle
    calls(f, p)
    assert keeper == []


def random_tree(rng: random.Random, depth: int = 0):
    if depth > 2 or (depth and rng.random() < 0.3):
        kind = rng.randrange(8)
        if kind == 0:
            return None
        if kind == 1:
            return rng.random()
        return np.ones([(2,), (1, 3), (2, 2), (), (0, 2)][rng.randrange(5)], rng.choice([np.float64, np.float32]))
    parts = [random_tree(rng, depth + 1) for _ in range(rng.randrange(1, 5))]
    return rng.choice([list, tuple, lambda x: {f"k {i}": v for i, v in enumerate(x)}])(parts)


@pytest.mark.parametrize("seed", range(12))
def test_random_trees(seed):
    rng = random.Random(seed)
    p = random_tree(rng)

    def total(p):
        if p is None:
            return 0.0
        if isinstance(p, dict):
            p = list(p.values())
        return sum([total(x) for x in p]) if isinstance(p, list | tuple) else np.sum(p * p)

    f = compile_grad(lambda p: total(p) + 0.0 * np.sum(np.ones(1)))
    if not any(isinstance(x, float | np.ndarray) for x in leaves(p)):
        return
    known, kept = repr(autograd.grad(total)(p)), []
    for _ in range(15):
        g = f.grad(p)
        assert repr(g) == known
        if rng.random() < 0.3:
            kept.append(g)
    assert all(repr(g) == known for g in kept)
    shared = Counter([id(a) for g in kept for a in leaves(g) if type(a) is np.ndarray])
    assert all(n == 1 for n in shared.values())
