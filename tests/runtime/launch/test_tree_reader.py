"""Trees read in machine code: the leaves that optree finds, and None for a tree of any other structure."""

from __future__ import annotations

import copy
import functools
import gc
import random
import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import optree
import pytest

from tracegrad import compile_grad
from tracegrad.runtime.launch import bind, tree_reader
from tracegrad.runtime.launch.tree_reader import DICT, LEAF, LIST, NONE, TUPLE, ReaderNode
from tracegrad.runtime.record import plain_objects, trees

pytestmark = pytest.mark.skipif(not bind.NATIVE, reason="no machine code reads objects here")
Pair = namedtuple("Pair", "left right")


class Leaf:
    pass


def random_tree(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randrange(2 if depth > 3 else 6)
    if kind == 0:
        return Leaf()
    if kind == 1:
        return None if rng.random() < 0.3 else Leaf()
    parts = [random_tree(rng, depth + 1) for _ in range(rng.randrange(5))]
    if kind == 2:
        return parts
    if kind == 3:
        return Pair(*parts) if len(parts) == 2 and rng.random() < 0.5 else tuple(parts)
    return {f"key {rng.randrange(1000)} {k}": part for k, part in enumerate(parts)}


def described(tree: object) -> tuple[list, int]:
    structure: list = []
    inner: list = []
    trees._describe(optree.tree_structure(tree, namespace=trees.NAMESPACE), structure, inner)
    return structure, len(inner)


def read_by(tree: object):
    return tree_reader.reader(*described(tree))


def leaves_of(tree: object) -> list:
    return trees.flatten_tree(tree)[0]


def changes(rng: random.Random, tree: object):
    """Trees of another structure."""
    if tree is None:
        yield from (Leaf(), [], ())
    elif isinstance(tree, list):
        yield tuple(tree)
        yield [*tree, Leaf()]
        yield tree[:-1] if tree else None
        yield type("Own", (list,), {})(tree)
    elif isinstance(tree, tuple):
        yield list(tree)
        yield tuple(tree) if isinstance(tree, Pair) else Pair(1, 2)
        yield (*tree, Leaf())
        yield type("Own", (tuple,), {})(tree)
    elif isinstance(tree, dict):
        yield OrderedDict(tree)
        yield {**tree, "more": Leaf()}
        yield {f"{key}!": part for key, part in tree.items()} if tree else {"one": None}
        yield {hash(key): part for key, part in tree.items()} if tree else None
        if len(tree) > 1:
            yield dict(reversed(tree.items()))
    if isinstance(tree, list | tuple | dict) and tree:
        parts = list(tree.values()) if isinstance(tree, dict) else list(tree)
        k = rng.randrange(len(parts))
        for other in changes(rng, parts[k]):
            rest = [*parts[:k], other, *parts[k + 1 :]]
            if isinstance(tree, Pair):
                yield Pair(*rest)
            else:
                yield dict(zip(tree, rest, strict=True)) if isinstance(tree, dict) else type(tree)(rest)


@pytest.mark.parametrize("seed", range(40))
def test_the_leaves_of_random_trees(seed):
    rng = random.Random(seed)
    tree = [random_tree(rng) for _ in range(4)]
    read = read_by(tree)
    assert read(tree) == tuple(leaves_of(tree))
    copied = dict.fromkeys(["".join(["a", "b"])], tree)
    assert read_by(copied)(copied) == tuple(leaves_of(tree))
    for other in changes(rng, tree):
        if optree.tree_structure(other, namespace=trees.NAMESPACE) != optree.tree_structure(
            tree, namespace=trees.NAMESPACE
        ):
            assert read(other) is None


def test_keys_that_are_equal_strings():
    made = ["".join(["w", str(k)]) for k in range(3)]
    again = ["".join(["w", str(k)]) for k in range(3)]
    assert all(a is not b for a, b in zip(made, again, strict=True))
    read = tree_reader.reader([ReaderNode(DICT, dict, keys=tuple(made)), *[ReaderNode(LEAF)] * 3], 3)
    assert read(dict(zip(again, (1, 2, 3), strict=True))) == (1, 2, 3)

    class Liar(str):
        def __eq__(self, other):
            raise AssertionError("the user's code ran")

        __hash__ = str.__hash__

    assert read({Liar("w0"): 1, "w1": 2, "w2": 3}) is None


def test_the_order_of_keys_counts():
    read = tree_reader.reader([ReaderNode(DICT, dict, keys=("a", "b")), ReaderNode(LEAF), ReaderNode(NONE)], 1)
    assert read({"a": 7, "b": None}) == (7,)
    assert read({"b": None, "a": 7}) is None
    assert read({"a": 7, "b": 8}) is None


def test_wide_and_deep_trees():
    wide = {f"p{k}": (k, [k]) for k in range(3000)}
    assert read_by(wide)(wide) == tuple(leaves_of(wide))
    deep: object = 1
    for _ in range(200):
        deep = [deep, None, (2,)]
    assert read_by(deep)(deep) == tuple(leaves_of(deep))


def test_wrong_calls():
    read = tree_reader.reader([ReaderNode(TUPLE, tuple, 1), ReaderNode(LIST, list, 1), ReaderNode(LEAF)], 1)
    assert read(([5],)) == (5,)
    assert read(([5],), 1) is None
    assert read(5) is None and read(None) is None


@dataclass
class Point:
    x: object
    y: object


@dataclass(slots=True)
class Slotted:
    x: object
    y: object


class Mixed(Slotted):
    """Slots and a dict; one slot may be empty."""

    __slots__ = ("__dict__", "z")

    def __init__(self, x, y, **rest):
        super().__init__(x, y)
        for name, value in rest.items():
            setattr(self, name, value)


class Cached(Point):
    @functools.cached_property
    def total(self):
        return [self.x]


def random_objects(rng: random.Random, depth: int = 0) -> object:
    if depth > 3 or (depth and rng.random() < 0.2):
        return rng.random()
    parts = [random_objects(rng, depth + 1) for _ in range(2)]
    kinds = [Point, Slotted, lambda x, y: Mixed(x, y, **{rng.choice("zw"): y}), Mixed, lambda x, y: [x, y], Pair]
    kinds += [lambda x, y: SimpleNamespace(a=x, b=y), lambda x, y: {"x": x, "y": y}, lambda *_: SimpleNamespace()]
    return rng.choice(kinds)(*parts)


def objects_and_leaves(tree: object) -> list:
    """The plain objects in *tree*, each before what is in it, and the leaves."""
    if isinstance(tree, float):
        return [tree]
    if isinstance(tree, dict | list | tuple):
        parts, own = (tree.values() if isinstance(tree, dict) else tree), []
    else:
        parts, own = plain_objects._flatten(tree)[0], [tree]
    return own + [leaf for part in parts for leaf in objects_and_leaves(part)]


def read_objects(tree: object):
    plain_objects.take_apart(tree, ())
    structure: list = []
    inner: list = []
    trees._describe(optree.tree_structure(tree, namespace=plain_objects.OBJECTS), structure, inner)
    return tree_reader.reader(structure, len(inner))


def all_same(found: tuple | None, known: list) -> bool:
    return found is not None and len(found) == len(known) and all(a is b for a, b in zip(found, known, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_random_objects(seed):
    rng = random.Random(seed)
    tree = [random_objects(rng) for _ in range(4)]
    read = read_objects(tree)
    for _ in range(3):
        assert all_same(read(tree), objects_and_leaves(tree))
    assert all_same(read(copied := copy.deepcopy(tree)), objects_and_leaves(copied))
    objects = [x for x in objects_and_leaves(tree) if not isinstance(x, float)]
    for place in objects:
        before = objects_and_leaves(tree)
        for change, back in (
            (lambda x: setattr(x, "more", 1), lambda x: delattr(x, "more")),
            (lambda x: x.__dict__.update({"more": 1}), lambda x: x.__dict__.pop("more")),
            (lambda x: delattr(x, "y"), None),
        ):
            kept = getattr(place, "y", None)
            try:
                change(place)
            except AttributeError:
                continue
            assert read(tree) is None
            if back is None:
                place.y = kept
                moved = list(getattr(place, "__dict__", {})) not in ([], ["y"], ["x", "y"])
                assert moved or all_same(read(tree), before)
            else:
                back(place)
                assert all_same(read(tree), before)


def test_slots_that_are_filled_and_emptied():
    x = Mixed(1.0, 2.0, w=3.0)
    read = read_objects([x, Mixed(1.0, 2.0, z=4.0, w=3.0)])
    assert read([x, Mixed(5.0, 6.0, z=8.0, w=7.0)])[1:4] == (3.0, 1.0, 2.0)
    for first, second in (("z", "z"), ("", "")):
        pair = [
            Mixed(1.0, 2.0, w=3.0, **dict.fromkeys(first, 4.0)),
            Mixed(1.0, 2.0, w=3.0, **dict.fromkeys(second, 4.0)),
        ]
        assert read(pair) is None
    assert read([Point(1.0, 2.0), x]) is None and read([x, type("Other", (Mixed,), {})(1.0, 2.0, z=4.0, w=3.0)]) is None


def test_objects_with_results_that_are_kept_are_left_to_python():
    tree = [Cached(1.0, 2.0) for _ in range(4)]
    assert tree[1].total == [1.0]
    read = read_objects(tree)
    assert all_same(read(tree), tree)  # as leaves

    @compile_grad
    def f(p):
        return sum([q.x * q.x + q.y * q.total[0] for q in p])

    for k in range(6):
        for q in tree:
            q.x = 1.0 + k
            q.__dict__.pop("total", None)
        g = f.grad(tree)
        assert [(q.x, q.y) for q in g] == [(2.0 * (1 + k) + 2.0, 1.0 + k)] * 4


@pytest.mark.parametrize("cls", [Point, Slotted, Mixed, SimpleNamespace])
def test_objects_in_two_places_are_told_apart(cls):
    """One that stands in two places has one gradient, with what comes by both."""

    @compile_grad
    def f(p):
        return sum([np.sum(q.x * q.x) + np.sum(q.y) for q in p])

    def layers(count):
        return [cls(x=np.ones(2), y=np.full(3, 2.0)) for _ in range(count)]

    for _ in range(3):
        apart = layers(6)
        for _ in range(4):
            g = f.grad(apart)
            assert len(set(map(id, g))) == 6 and all(q.x.tolist() == [2.0, 2.0] for q in g)
        first, *rest = layers(5)
        shared = [first, first, *rest]
        for _ in range(4):
            g = f.grad(shared)
            assert g[0].x is g[1].x and g[0].x.tolist() == [4.0, 4.0] and g[2].x.tolist() == [2.0, 2.0]


def test_nothing_leaks():
    leaf, turns = Leaf(), 10_000
    tree = {"a": [leaf, (leaf, None)], "b": leaf}
    read = read_by(tree)
    objects = [Point(1.0, 2.0), Slotted(1.0, 2.0), SimpleNamespace(a=1.0)]
    of_objects, others = read_objects(objects), [*objects[:2], SimpleNamespace(b=1.0)]
    before = [*map(sys.getrefcount, objects), sys.getrefcount(objects[0].__dict__)]
    for _ in range(100):
        assert len(of_objects(objects)) == 8 and of_objects(others) is None
    del others
    objects[2:] = [objects[2]]
    assert [*map(sys.getrefcount, objects), sys.getrefcount(objects[0].__dict__)] == [
        before[0] - 1,
        before[1] - 1,
        *before[2:],
    ]
    counts, none = (sys.getrefcount(leaf), sys.getrefcount(tree), sys.getrefcount("a")), sys.getrefcount(None)
    for _ in range(turns):
        assert len(read(tree)) == 3
        assert read({"a": [leaf, (leaf, 1)], "b": leaf}) is None
    gc.collect()
    assert (sys.getrefcount(leaf), sys.getrefcount(tree), sys.getrefcount("a")) == counts
    assert abs(sys.getrefcount(None) - none) < turns // 2  # other threads have some, too


def test_slots_read_what_python_takes_apart_within():
    """Named tuples and dicts with other keys stand among what is read."""

    @compile_grad
    def loss(p, x):
        total = p["layers"][0].left @ x + p["layers"][1].right @ x
        return total + np.sum(p["by number"][1] * p["by number"][2]) + np.sum(p["scale"] * x)

    def params(k: float) -> dict:
        pair = Pair(np.full(3, k), np.full(3, 2.0 + k))
        return {
            "layers": [pair, Pair(np.ones(3), np.full(3, k))], "by number": {1: np.full(2, k), 2: np.ones(2)},
            "scale": np.full(3, k), "nothing": None, "rate": k,
        }  # fmt: skip

    x = np.arange(3.0)
    for k in (1.0, 2.0, 3.0, 4.0):
        value, g = loss.value_and_grad(params(k), x)
        assert value == pytest.approx(9 * k + 2 * k)
        assert isinstance(g["layers"][0], Pair) and list(g) == list(params(k))
        np.testing.assert_array_equal(g["scale"], x)
    assert loss.stats.traces == 1
    other = params(5.0) | {"nothing": np.ones(3)}
    assert loss.value_and_grad(other, x)[0] == pytest.approx(55.0)
    assert loss.stats.traces == 2
