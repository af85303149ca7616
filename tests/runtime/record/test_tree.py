"""``tracegrad.tree``: JAX's functions of trees, outside and inside of compiled functions."""

from __future__ import annotations

import operator
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracegrad
from tracegrad import compile_grad, tree


class Layer(NamedTuple):
    w: Any
    b: Any


@tree.register_dataclass
@dataclass
class State:
    position: Any
    velocity: Any
    name: str = field(default="free", metadata={"static": True})


@tree.register_pytree_node_class
class Pair:
    def __init__(self, a: Any, b: Any, tag: str) -> None:
        self.a, self.b, self.tag = a, b, tag

    def tree_flatten(self) -> Any:
        return (self.a, self.b), self.tag

    @classmethod
    def tree_unflatten(cls, tag: str, children: Any) -> Pair:
        return cls(*children, tag)


@tree.register_static
@dataclass(frozen=True)
class Setting:
    power: int


def test_taking_apart_and_putting_together() -> None:
    params = {"b": Layer(1, [2, 3]), "a": (None, 4)}
    assert tree.leaves(params) == [1, 2, 3, 4]
    leaves, treedef = tree.flatten(params)
    assert tree.unflatten(treedef, leaves) == params == treedef.unflatten(leaves)
    assert tree.structure(params) == treedef
    assert tree.map(operator.neg, params) == {"b": Layer(-1, [-2, -3]), "a": (None, -4)}
    assert tree.map(operator.add, [1, (2,)], [10, (20,)]) == [11, (22,)]
    assert tree.map(lambda x, rest: (x, rest), [1, 2], [{"k": 3}, 4]) == [(1, {"k": 3}), (2, 4)]
    assert tree.map(len, {"x": [1, 2]}, is_leaf=lambda x: isinstance(x, list)) == {"x": 2}
    assert tree.map(lambda x: x is None, [None, 1], is_leaf=lambda x: x is None) == [True, False]
    assert tree.reduce(operator.add, params) == 10
    assert tree.reduce(operator.add, [None], "start") == "start"
    assert tree.all([True, (1,)]) and not tree.all({"a": 0})
    assert tree.all_leaves([1, "a"]) and not tree.all_leaves([1, (2,)])
    assert tree.treedef_is_leaf(tree.structure(3))
    assert tree.treedef_tuple(tree.treedef_children(tree.structure((1, [2])))) == tree.structure((1, [2]))
    with pytest.raises(ValueError, match=r"[Ee]xpected"):
        tree.map(operator.add, [1, 2], [1, 2, 3])
    with pytest.raises(TypeError):
        tree.reduce(operator.add, ())


def test_transpose() -> None:
    outer, inner = tree.structure([0, 0]), tree.structure({"a": 0, "b": 0})
    given = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert tree.transpose(outer, inner, given) == {"a": [1, 3], "b": [2, 4]} == tree.transpose(outer, None, given)
    with pytest.raises(TypeError):
        tree.transpose(outer, inner, [1, 2])


def test_paths() -> None:
    given = {"layers": [Layer(1, 2)], "state": State(3, {"v": 4}), "pair": Pair(5, 6, "t")}
    found = tree.leaves_with_path(given)
    assert [(tree.keystr(path), leaf) for path, leaf in found] == [
        ("['layers'][0].w", 1), ("['layers'][0].b", 2), ("['state'].position", 3), ("['state'].velocity['v']", 4),
        ("['pair'][<flat index 0>]", 5), ("['pair'][<flat index 1>]", 6),
    ]  # fmt: skip
    assert found[0][0] == (tree.DictKey("layers"), tree.SequenceKey(0), tree.GetAttrKey("w"))
    assert tree.keystr(found[3][0], simple=True, separator="/") == "state/velocity/v"
    assert tree.map_with_path(lambda path, x, y: (path[-1].key, x + y), {"a": 1}, {"a": 2}) == {"a": ("a", 3)}


def test_jaxs_names_for_the_same() -> None:
    for name in "map leaves flatten unflatten structure reduce all transpose map_with_path leaves_with_path".split():
        assert getattr(tree, f"tree_{name}") is getattr(tree, name)


def test_registering_refuses_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="already registered"):
        tree.register_pytree_node(Pair, lambda p: ((), None), lambda aux, parts: Pair(0, 0, ""))
    with pytest.raises(TypeError, match="data_fields"):
        tree.register_dataclass(int)
    with pytest.raises(TypeError, match="both"):
        tree.register_dataclass(State, data_fields=["position"])
    with pytest.raises(TypeError, match="each has to be"):
        tree.register_dataclass(State, data_fields=["position"], meta_fields=[])


def test_ravel_pytree() -> None:
    given = {"w": np.arange(6.0).reshape(2, 3), "n": 7.0, "i": np.array([1, 2], np.int32)}
    flat, unravel = tree.ravel_pytree(given)
    np.testing.assert_array_equal(flat, [0, 1, 2, 3, 4, 5, 7, 1, 2])
    again = unravel(flat * 2)
    assert again["w"].shape == (2, 3) and again["i"].dtype == np.int32 and again["n"] == 14.0
    with pytest.raises(tracegrad.ShapeError, match="9 numbers"):
        unravel(flat[1:])


X, Y = np.array([1.0, 2.0]), np.array([[0.5, -1.0]])


@pytest.mark.parametrize(
    "params",
    [
        {"w": X, "b": [Y, 2.0]},
        Layer(X, {"y": Y}),
        State(X, Layer(Y, 1.0)),
        Pair(X, State(Y, 3.0, "held"), "p"),
        OrderedDict(b=X, a=(Y, None)),
        (Setting(3), X),
        [tree.Partial(np.multiply, X), Y],
    ],
    ids=lambda p: type(p).__name__,
)
def test_in_compiled_functions(params: Any) -> None:
    """Trees as arguments, mapped over inside, and as results."""

    def energy(p: Any, scale: float) -> Any:
        squares = tree.map(lambda x: x * x, p)
        return scale * tree.reduce(operator.add, tree.map(np.sum, squares))

    compiled = compile_grad(energy)
    moved = compile_grad(lambda p, g: tree.map(lambda x, d: x - 0.1 * d, p, g))
    for _ in range(3):
        value, gradient = compiled.value_and_grad(params, 2.0)
        np.testing.assert_allclose(value, energy(params, 2.0))
        assert tree.structure(gradient) == tree.structure(params)
        for x, g in zip(tree.leaves(params), tree.leaves(gradient), strict=True):
            np.testing.assert_allclose(g, 4.0 * np.asarray(x))
        after = moved(params, gradient)
        assert tree.structure(after) == tree.structure(params) and type(after) is type(params)
        for x, y in zip(tree.leaves(params), tree.leaves(after), strict=True):
            np.testing.assert_allclose(y, 0.6 * np.asarray(x))
    assert compiled.stats.compiles <= 1
    if type(params) not in (tuple, list):  # the log does not know of the parts of a Setting and a Partial
        assert not compiled.stats.live and compiled.stats.traces == 1


def test_paths_ravel_and_transpose_in_compiled_functions() -> None:
    @compile_grad
    def f(p: Any) -> Any:
        weights = tree.map_with_path(lambda path, x: x * (3.0 if path[-1].key == "w" else 1.0), p)
        flat, unravel = tree.ravel_pytree(weights)
        both = tree.transpose(tree.structure([0, 0]), tree.structure(p), [p, unravel(flat)])
        return sum(np.sum(a * b) for a, b in both.values())

    p = {"w": X, "b": Y}
    for _ in range(3):
        gradient = f.grad(p)
        np.testing.assert_allclose(gradient["w"], 6 * X)
        np.testing.assert_allclose(gradient["b"], 2 * Y)
    assert f.stats.traces == 1


def test_an_object_that_is_registered_after_a_call() -> None:
    class Late:
        def __init__(self, x: Any) -> None:
            self.x = x

    f = compile_grad(lambda v, x: x * sum(np.sum(leaf) for leaf in tree.leaves(v) if isinstance(leaf, np.ndarray)))
    assert f(Late(X), 2.0) == 0
    tree.register_pytree_node(Late, lambda v: ((v.x,), None), lambda _, parts: Late(*parts))
    for _ in range(3):
        assert f(Late(X), 2.0) == 6.0
