"""The column ``axes`` of the primitive table: what it claims of every row, against the implementations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import program
from support import F64, assert_agree, make_graph, operand_avals, operand_values, prims, rng_for

from tracegrad.codegen.lower.canonical import canonicalise
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.axes import Axes, same_axes, stacked_params, unrelated
from tracegrad.tracer.ir.graph import Node, bind
from tracegrad.tracer.ir.primitive import ELEMENTWISE, PRIMITIVES, Primitive

# name: (params, shapes of the operands), besides those of the row itself
MORE: dict[str, list[tuple[dict[str, Any], tuple[tuple[int, ...], ...]]]] = {
    "add": [({}, ((), (3, 4))), ({}, ((3, 4), ())), ({}, ((), ()))],
    "broadcast": [
        ({"shape": (3, 4, 5), "dims": (0, 2)}, ((3, 5),)), ({"shape": (3, 4), "dims": (0, 1)}, ((1, 4),)),
        ({"shape": (2, 3), "dims": ()}, ((),)), ({"shape": (1, 3), "dims": (0,)}, ((1,),)),
    ],
    "reshape": [
        ({"shape": shape}, (before,)) for before, shape in [
            ((3, 4, 5), (3, 20)), ((4, 5, 3), (20, 3)), ((2, 12, 3), (2, 3, 4, 3)), ((2, 3), (2, 1, 3)),
            ((2, 1, 3), (2, 3)), ((1, 6), (1, 2, 3)), ((3, 3), (9,)), ((1, 1), ()), ((), (1,)), ((0, 3), (0, 5)),
            ((2, 2, 6), (2, 3, 4)), ((6, 2), (3, 4)), ((1, 3), (3, 1)),
        ]
    ],
    "transpose": [({"perm": (2, 0, 3, 1)}, ((2, 3, 4, 5),)), ({"perm": ()}, ((),))],
    "slice": [
        ({"start": (0, 1), "step": (1, 1), "shape": (3, 3)}, ((3, 4),)),
        ({"start": (0, 3), "step": (1, -1), "shape": (2, 4)}, ((3, 4),)),
        ({"start": (0, 0), "step": (1, 2), "shape": (3, 2)}, ((3, 4),)),
    ],
    "pad": [
        ({"start": (0, 1), "step": (1, 1), "shape": (3, 6)}, ((3, 4),)),
        ({"start": (0, 3), "step": (1, -1), "shape": (3, 4)}, ((3, 4),)),
    ],
    "update": [
        ({"start": (0, 1), "step": (1, 1)}, ((3, 4), (3, 2))), ({"start": (0, 0), "step": (1, 1)}, ((3, 4), (3, 4))),
        ({"start": (0, 3), "step": (1, -1)}, ((3, 4), (3, 4))),
    ],
    "concat": [({"axis": 0}, ((2, 3, 2), (2, 3, 2), (1, 3, 2))), ({"axis": 2}, ((2, 3, 2), (2, 3, 4)))],
    "gather": [({}, ((4, 2, 3), (3, 5))), ({}, ((4,), (3,))), ({}, ((4, 2), ()))],
    "scatter": [({}, ((4, 2, 3), (3, 5), (3, 5, 2, 3))), ({}, ((4,), (3,), (3,))), ({}, ((4, 2), (), (2,)))],
    "scatter_add": [({}, ((4, 2, 3), (3, 5), (3, 5, 2, 3))), ({}, ((4,), (3,), (3,)))],
    "scatter_max": [({}, ((4, 2, 3), (3, 5), (3, 5, 2, 3))), ({}, ((4,), (3,), (3,)))],
    "scatter_min": [({}, ((4, 2, 3), (3, 5), (3, 5, 2, 3))), ({}, ((4,), (3,), (3,)))],
    "searchsorted": [({"side": "right"}, ((4,), (3, 5)))],
    "argsort": [({"stable": True}, ((5,),)), ({"stable": True}, ((3, 4, 5),))],
    "linrec": [({"reverse": True}, ((2, 3, 5),) * 2), ({"reverse": False}, ((5,),) * 2)],
    "reduce_sum": [({"axes": (0, 2)}, ((2, 3, 4, 5),)), ({"axes": (0, 1)}, ((2, 3),)), ({"axes": ()}, ((2, 3),))],
    "argmax": [({"axes": (0,)}, ((3, 4, 5),)), ({"axes": (1,)}, ((3, 4, 5),))],
    "matmul": [
        ({"ta": ta, "tb": tb}, ((2, 5, *((4, 3) if ta else (3, 4))), (2, 5, *((6, 4) if tb else (4, 6)))))
        for ta in (False, True) for tb in (False, True)
    ],
}  # fmt: skip
MORE["matmulz"] = MORE["matmul"]
OWN = {p.name: [(p.test.get("params", {}), tuple(a.shape for a in operand_avals(p, F64)))] for p in prims()}
CASES = [
    pytest.param(PRIMITIVES[name], params, shapes, id=f"{name}-{number}")
    for name in OWN
    for number, (params, shapes) in enumerate(OWN[name] + MORE.get(name, []))
]
EVERY = pytest.mark.parametrize(("prim", "params", "shapes"), CASES)


def is_elementwise(prim: Primitive) -> bool:
    return prim.kind == ELEMENTWISE


def application(prim, params, shapes):
    """A node that applies *prim* to operands of these shapes, and values for them."""
    avals = operand_avals(prim, F64, shapes)
    (node,) = make_graph(avals, lambda *inputs: bind(prim, *inputs, **params)).nodes
    return node, operand_values(prim, avals, rng_for(prim.name))


def moved(node: Node, xs: list[Any], b: int, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The result for operands taken at the positions *p* of their axis *b*, and the result taken there itself."""
    taken = [x if a is None else np.take(x, p, a) for a, x in zip(node.axes.at(b), xs, strict=True)]
    with np.errstate(all="ignore"):
        found, whole = (np.asarray(node.prim.impl(*v, **node.params)) for v in (taken, xs))
    return found, np.take(whole, p, b)


def positions(length: int) -> list[np.ndarray]:
    """Positions with repeats, of which there are as many as before: what only commutes with permutations does not
    commute with these (``x - x.mean()``)."""
    rng = np.random.default_rng(length)
    return [np.arange(length)[::-1], np.zeros(length, int), *(rng.integers(0, length, length) for _ in range(4))]


def test_every_row_has_a_rule():
    """The default is right for what is elementwise; a loop says nothing, its body does, nor does a call of Python's."""
    assert {p.name for p in PRIMITIVES.values() if p.axes is same_axes} == {
        p.name for p in PRIMITIVES.values() if is_elementwise(p)
    }
    assert {p.name for p in PRIMITIVES.values() if p.axes is unrelated} == {"loop", "host_call"}


@EVERY
def test_numbered_axes_are_equally_long(prim, params, shapes):
    node, _ = application(prim, params, shapes)
    axes, shape = node.axes, node.out.aval.shape
    lengths = dict(enumerate(shape))
    assert set(axes.across) <= set(lengths)
    for numbers, own in zip(axes.operands, shapes, strict=True):
        assert len(numbers) == len(own)
        held = [b for b in numbers if b is not None]
        assert len(set(held)) == len(held)
        for b, n in zip(numbers, own, strict=True):
            assert b is None or lengths.setdefault(b, n) == n


@EVERY
def test_what_is_not_gone_across_commutes_with_taking(prim, params, shapes):
    node, xs = application(prim, params, shapes)
    for b, length in enumerate(node.out.aval.shape):
        if b not in node.axes.across and length:
            for p in positions(length):
                found, expected = moved(node, xs, b, p)
                assert_agree(found, expected, ulps=4, atol=1e-14, what=f"axis {b} at {p}")


@EVERY
def test_what_is_gone_across_does_not(prim, params, shapes):
    node, xs = application(prim, params, shapes)
    for b in node.axes.across if node.out.aval.size else ():
        pairs = [moved(node, xs, b, p) for p in positions(node.out.aval.shape[b])]
        assert not all(np.array_equal(found, expected) for found, expected in pairs), f"axis {b}"


def takes_one_more_axis(prim: Primitive, params: Any, shapes: Any) -> bool:
    """Has it operands, and may they all have one more axis?"""
    return bool(shapes) and not (is_elementwise(prim) and len(set(shapes)) > 1)


NEEDS_A_RULE = {
    "gather",
    "scatter",
    "scatter_add",
    "scatter_max",
    "scatter_min",
    "searchsorted",
    "nonzero",
}  # to be done for many at once


@pytest.mark.parametrize(("prim", "params", "shapes"), [c for c in CASES if takes_one_more_axis(*c.values)])
@pytest.mark.parametrize("length", [1, 3])
def test_an_axis_in_front(prim, params, shapes, length):
    """Where the column says so, the operation with ``stacked_params`` is done for each index of a new axis."""
    rng = rng_for(prim.name)
    each = [operand_values(prim, operand_avals(prim, F64, shapes), rng) for _ in range(length)]
    together = [np.stack(xs) for xs in zip(*each, strict=True)]
    out, _ = application(prim, params, shapes)
    more = stacked_params(params, length)
    axes = prim.axes([x.shape for x in together], (length, *out.out.aval.shape), more)
    carried = axes.at(0) == [0] * len(together) and 0 not in axes.across
    assert carried == (prim.name not in NEEDS_A_RULE)
    if carried:
        (node,) = make_graph([Aval(x.dtype, x.shape) for x in together], lambda *v: bind(prim, *v, **more)).nodes
        with np.errstate(all="ignore"):
            found = np.asarray(prim.impl(*together, **more))
            expected = np.stack([prim.impl(*xs, **params) for xs in each])
        assert node.out.aval.shape == found.shape
        assert_agree(found, expected, ulps=4, atol=1e-13)


def test_dims_say_what_sizes_say():
    """In canonical form, where sizes are dims that may have any size, the column gives what it gave in this run."""
    compared = 0
    for seed in range(60):
        graph = program(seed).graph
        for node, op in zip(graph.nodes, canonicalise(graph).ops, strict=False):
            assert op.prim is node.prim
            assert op.axes == node.axes, f"seed {seed}: {node}"
            compared += 1
    assert compared > 300


@pytest.mark.parametrize(
    ("name", "params", "shapes", "shape", "expected"),
    [
        ("mul", {}, [(2, 3), ()], (2, 3), Axes(((0, 1), ()))),
        ("matmul", {"ta": True, "tb": False}, [(7, 4, 2), (7, 4, 3)], (7, 2, 3), Axes(((0, 3, 1), (0, 3, 2)))),
        ("reduce_max", {"axes": (1,)}, [(2, 3, 4)], (2, 4), Axes(((0, None, 1),))),
        ("gather", {}, [(4, 2), (3, 5)], (3, 5, 2), Axes(((None, 2), (0, 1)))),
        ("scatter", {}, [(4, 2), (3,), (3, 2)], (4, 2), Axes(((0, 1), (2,), (2, 1)), {0: "written"})),
        ("reshape", {}, [(2, 6, 5)], (2, 3, 2, 5), Axes(((0, None, 3),), {1: "split", 2: "split"})),
        ("broadcast", {"dims": (0, 2)}, [(2, 1)], (2, 3, 4), Axes(((0, None),))),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_some_rows(name, params, shapes, shape, expected):
    assert PRIMITIVES[name].axes(shapes, shape, params) == expected
