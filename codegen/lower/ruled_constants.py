"""Large constant arrays that follow a rule, as operations in place of numbers in memory.

``np.ones(n)``, ``np.eye(n)`` or ``np.tril(np.ones((n, n)))`` in recorded code are plain arrays, whose numbers the
recording keeps.  A million of them take longer to read than to make up again, and as much memory as an argument.  So
an array that is one number throughout, or one number on a diagonal or below it and another elsewhere, becomes a
broadcast, or a choice by the numbers of its row and column.  What the rule gives has the same bits.

Correctness is the comparison with the whole array; ``worth_it`` is the heuristic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...tracer.ir.aval import INT
from ...tracer.ir.graph import Atom, Builder, Graph, Lit, Var, building, read_vars
from ...tracer.ir.primitive import ELEMENTWISE, REDUCE, VIEW
from ...tracer.ops.elementwise import F
from ...tracer.ops.reduce import expand
from ...tracer.ops.shape import full, iota

LEAST = 4096  # elements of an array that does not fit the nearest cache beside others

Rule = Callable[[], Atom]


def with_rules(graph: Graph) -> Graph:
    """*graph* with operations in place of its constants that follow a rule, or itself where there are none."""
    wanted = worth_it(graph)
    rules = {var: rule for var, array in graph.consts if var in wanted and (rule := rule_of(array)) is not None}
    if not rules:
        return graph
    builder, made = Builder(), dict[Var, Atom]()
    with building(builder):
        for var, rule in rules.items():
            made[var] = rule()
    for node in graph.nodes:
        builder.nodes.append(node.on(tuple([made.get(x, x) if isinstance(x, Var) else x for x in node.inputs])))
    consts = [(var, array) for var, array in graph.consts if var not in rules]
    return Graph(graph.inputs, builder.nodes, graph.outputs, graph.guards, consts)


def worth_it(graph: Graph) -> set[Var]:
    """The constants that are large, and read by loop nests alone: calls of libraries need their numbers in memory."""
    calls = [node for node in graph.nodes if node.prim.kind not in (ELEMENTWISE, REDUCE, VIEW)]
    needed = read_vars(calls, [*graph.outputs, *[g.atom for g in graph.guards]])
    return {var for var, _ in graph.consts if var.aval.size >= LEAST} - needed


def rule_of(array: np.ndarray) -> Rule | None:
    """The rule that gives the bits of *array*, if it follows one."""
    if array.dtype.kind not in "fiub" or not array.flags.c_contiguous or not array.size:
        return None
    bits = array.view(f"u{array.itemsize}")
    corner = bits.flat[-1]
    if array.flat[0].tobytes() == array.flat[-1].tobytes() and bool((bits == corner).all()):
        return lambda: full(_number(array.flat[0]), array.shape)
    if array.ndim != 2 or min(array.shape) < 2:
        return None
    return _diagonal(array, bits) or _triangle(array, bits)


def _diagonal(array: np.ndarray, bits: np.ndarray) -> Rule | None:
    """One number on a diagonal, another elsewhere."""
    n, m = array.shape
    for elsewhere in (bits[0, -1], bits[-1, 0]):
        places = np.flatnonzero(bits != elsewhere)
        if not 0 < len(places) <= min(n, m):
            continue
        rows, columns = places // m, places % m
        k = int(columns[0] - rows[0])
        found = bits.ravel()[places]
        whole = len(places) == max(min(n, m - k) if k >= 0 else min(n + k, m), 0)
        if whole and (columns - rows == k).all() and (found == found[0]).all():
            outside = array[0, -1] if elsewhere == bits[0, -1] else array[-1, 0]
            return lambda: _choice(F.eq, array.shape, k, array[rows[0], columns[0]], outside)
    return None


def _triangle(array: np.ndarray, bits: np.ndarray) -> Rule | None:
    """One number on a diagonal and below it, another above."""
    n, m = array.shape
    k = int(np.count_nonzero(bits[0] == bits[-1, 0])) - 1
    below = np.tri(n, m, k, dtype=bool)
    if not np.array_equal(bits, np.where(below, bits[-1, 0], bits[0, -1])):
        return None
    return lambda: _choice(F.le, array.shape, k, array[-1, 0], array[0, -1])


def _choice(
    compare: Callable[..., Atom], shape: tuple[int, ...], k: int, inside: np.generic, other: np.generic
) -> Atom:
    """*inside* where *compare* holds between the column and the row plus *k*, else *other*."""
    rows, columns = expand(iota(shape[0]), shape, (1,)), expand(iota(shape[1]), shape, (0,))
    chosen = compare(columns, F.add(rows, Lit(k, INT)) if k else rows)
    if inside.dtype == bool:
        return chosen if inside else F.logical_not(chosen)
    return F.select(chosen, _number(inside), _number(other))


def _number(x: np.generic) -> Lit:
    """A constant of the program where it is a 0 or a 1, which operations know to simplify; else data."""
    return Lit(x, x.dtype, structural=bool(x in (0, 1)))
