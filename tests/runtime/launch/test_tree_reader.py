"""Trees read in machine code: the leaves that optree finds, and None for a tree of any other structure."""

from __future__ import annotations

import gc
import random
import sys
from collections import OrderedDict, namedtuple

import numpy as np
import optree
import pytest

from tracegrad import compile_grad
from tracegrad.runtime.launch import bind, tree_reader
from tracegrad.runtime.launch.tree_reader import DICT, LEAF, LIST, NONE, TUPLE
from tracegrad.runtime.record import trees

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
        return tuple(parts)
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
    read = tree_reader.reader([(DICT, tuple(made)), (LEAF, 0), (LEAF, 0), (LEAF, 0)], 3)
    assert read(dict(zip(again, (1, 2, 3), strict=True))) == (1, 2, 3)

    class Liar(str):
        def __eq__(self, other):
            raise AssertionError("the user's code ran")

        __hash__ = str.__hash__

    assert read({Liar("w0"): 1, "w1": 2, "w2": 3}) is None


def test_the_order_of_keys_counts():
    read = tree_reader.reader([(DICT, ("a", "b")), (LEAF, 0), (NONE, 0)], 1)
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
    read = tree_reader.reader([(TUPLE, 1), (LIST, 1), (LEAF, 0)], 1)
    assert read(([5],)) == (5,)
    assert read(([5],), 1) is None
    assert read(5) is None and read(None) is None


def test_nothing_leaks():
    leaf, turns = Leaf(), 10_000
    tree = {"a": [leaf, (leaf, None)], "b": leaf}
    read = read_by(tree)
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
    assert loss.stats.traces == 2
    other = params(5.0) | {"nothing": np.ones(3)}
    assert loss.value_and_grad(other, x)[0] == pytest.approx(55.0)
    assert loss.stats.traces > 2
