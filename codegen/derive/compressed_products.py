"""The nodes of a ``SparseProgram``: a product for each colour, and where the entries of the matrix are in them.

Seeds of ones alone are the literal 1, so a product with all rows at once costs what a gradient costs.  Where the
program does the same for each of many rows, cotangents are taken of columns (``columns.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...tracer.ir.aval import INT, Aval
from ...tracer.ir.graph import Atom, Builder, Var, bind, building, current_builder, live_nodes, structural
from ...tracer.ops.closure_conversion import closed
from ...tracer.ops.control import loop
from ...tracer.ops.elementwise import F, broadcast_to, cast
from ...tracer.ops.indexing import SCATTER_SET
from ...tracer.ops.shape import concat, iota, reshape, zeros
from .adjoint import jvp_all, reverse
from .batched_indexing import FEW
from .columns import Columnwise
from .compressed import SparseProgram
from .elements import Const, elements, gathered
from .loop_adjoint import materialise
from .taint import NONE, ZEROS, Doubt

Seed = tuple[Atom, Doubt]
UNROLLED = 12  # products that are nodes of their own; more are the turns of a loop


def emit(program: SparseProgram, const: Const) -> Atom:
    """The entries of the matrix, by nodes that are appended to the builder in force."""
    if not program.pattern.nnz:
        return zeros((0,), _dtype(program))
    found = _products(program, const)
    return _summed(found.arrays, found.places, const)


class _Products(NamedTuple):
    """The products as 1-d arrays, and for each term of each entry of the matrix the place in them, one after the
    other; -1 for none."""

    arrays: Sequence[Atom]
    places: np.ndarray


def _dtype(program: SparseProgram) -> np.dtype:
    dtypes = [x.aval.dtype for x in (*program.outputs, *program.wrt)]
    return np.result_type(*dtypes) if dtypes else np.dtype(float)


def _products(program: SparseProgram, const: Const) -> _Products:
    dtype = _dtype(program)
    if program.mode == "reverse" and program.colors <= UNROLLED:
        found = by_columns(program, dtype, const)
        if found is not None:
            return found
    seeded = program.outputs if program.mode == "reverse" else program.wrt
    product = _cotangents if program.mode == "reverse" else _tangents
    if program.colors <= UNROLLED:
        whole: list[Atom] = []
        for color in range(program.colors):
            seeds = [_seed(x, part, const) for x, part in _parts(seeded, program.coloring.of_column == color)]
            whole += product(program, seeds)
        arrays: list[Atom] = [cast(reshape(x, (x.aval.size,)), dtype) for x in whole]
    else:
        arrays = [_by_loop(program, product, seeded, dtype, const)]
    return _Products(arrays, program.places)


def _summed(arrays: Sequence[Atom], terms: np.ndarray, const: Const, at: Callable[..., Atom] = elements) -> Atom:
    """The sums of the elements of *arrays*, one after the other, at the places of each term, -1 for none."""
    total: Atom | None = None
    for places in terms:
        there = places >= 0
        if there.all():
            term = at(arrays, places, const)
        else:
            mask = const(there.astype(arrays[0].aval.dtype))
            term = F.mulz(mask, gathered(arrays, np.maximum(places, 0), const))
        total = term if total is None else F.add(total, term)
    assert total is not None
    return total


def in_full(program: SparseProgram, const: Const) -> Atom:
    """The matrix as an array."""
    rows, columns = program.pattern.shape
    counts = np.diff(program.pattern.indptr)
    most = int(counts.max(initial=0))
    if 0 < most <= FEW:
        return _by_rows(program, most, const)
    places = program.pattern.rows.astype(np.int64) * columns + program.pattern.indices
    flat = zeros((rows * columns,), _dtype(program))
    if len(places):
        flat = bind(SCATTER_SET, flat, const(places), emit(program, const))
    return reshape(flat, (rows, columns))


def _by_rows(program: SparseProgram, most: int, const: Const) -> Atom:
    """The matrix in one pass, each element of which is compared with the columns of the entries of its row, at *most*
    so many."""
    (rows, columns), pattern = program.pattern.shape, program.pattern
    products = _products(program, const)
    color = program.coloring.of_column[pattern.indices] if program.mode != "reverse" else pattern.indices
    places_of_colors = np.sort(pattern.rows * np.int64(columns) + color)  # np.unique imports numpy.ma in the recording
    different = bool((places_of_colors[1:] != places_of_colors[:-1]).all())
    apart = program.mode != "reverse" and program.colors <= FEW and different
    number = color if apart else np.arange(pattern.nnz) - pattern.indptr[pattern.rows]
    each = len(products.arrays) // program.colors
    found: Atom = zeros((rows, columns), _dtype(program))
    here = broadcast_to(iota(columns), (rows, columns))
    for k in range(program.colors if apart else most):
        entries = np.flatnonzero(number == k)
        column = np.full(rows, -1)
        column[pattern.rows[entries]] = pattern.indices[entries]
        if apart:  # no row has two entries of one colour: they stand in it
            value = concat(list(products.arrays[k * each : (k + 1) * each]), 0)
        else:
            places = np.zeros((len(products.places), rows), np.int64)
            places[:, pattern.rows[entries]] = products.places[:, entries]
            value = _summed(products.arrays, places, const, gathered)
        stretched = [broadcast_to(reshape(x, (rows, 1)), (rows, columns)) for x in (const(column), value)]
        found = F.select(F.eq(here, stretched[0]), stretched[1], found)
    return found


def _parts(values: Sequence[Atom], mask: np.ndarray) -> list[tuple[Atom, np.ndarray]]:
    found, first = [], 0
    for x in values:
        found.append((x, mask[first : first + x.aval.size].reshape(x.aval.shape)))
        first += x.aval.size
    return found


def _seed(x: Atom, mask: np.ndarray, const: Const) -> Seed | None:
    """The seed of *x* that is 1 where *mask* says so, and whether it holds zeros; None where it is zero."""
    if mask.all() and mask.size:
        one = structural(1, x.aval.dtype)
        return broadcast_to(one, x.aval.shape) if x.aval.shape else one, NONE
    return (const(mask.astype(x.aval.dtype)), ZEROS) if mask.any() else None


def _tangents(program: SparseProgram, seeds: Sequence[Seed | None]) -> list[Atom]:
    given = {v: seed[0] for v, seed in zip(program.wrt, seeds, strict=True) if seed is not None}
    known = jvp_all(program.nodes, given)
    return [materialise(known.get(x) if isinstance(x, Var) else None, x) for x in program.outputs]


def _cotangents(program: SparseProgram, seeds: Sequence[Seed | None]) -> list[Atom]:
    given = [(x, *seed) for x, seed in zip(program.outputs, seeds, strict=True) if seed is not None]
    found, _ = reverse(program.nodes, given, program.wrt, inner=False)
    return [materialise(ct, v) for ct, v in zip(found, program.wrt, strict=True)]


def by_columns(program: SparseProgram, dtype: np.dtype, const: Const) -> _Products | None:
    """The products in reverse mode, where what there are copies of, and the results, have the same number of rows, and
    rows do not meet: then cotangents are taken of the columns, each an array over all rows (``columns.py``)."""
    outer = current_builder()
    with building(Builder()) as builder:
        for node in program.nodes:
            builder.know(node)
        apart = Columnwise(program.nodes, program.wrt)
        if not apart.found or not all(x in apart.of for x in program.outputs):
            return None
        rows = apart.rows
        columns = [c for v in program.wrt for c in apart.of[v]]
        results = [(x, column) for x in program.outputs for column in apart.of[x]]
        nodes = list(builder.nodes)
        found: list[Atom | None] = []
        for color in range(program.colors):
            masks: list[np.ndarray] = []
            for _, mask in _parts(program.outputs, program.coloring.of_column == color):
                masks += list(mask.reshape(rows, -1).T)
            seeds = []
            for (_, column), mask in zip(results, masks, strict=True):
                if isinstance(column, Var) and mask.all():
                    seeds.append((column, broadcast_to(structural(1, column.dtype), column.shape), NONE))
                elif isinstance(column, Var) and mask.any():
                    seeds.append((column, const(mask.astype(column.dtype)), ZEROS))
            found += reverse(nodes, seeds, columns, inner=False)[0]  # type: ignore[arg-type]
        parts = [cast(materialise(ct, columns[k % len(columns)]), dtype) for k, ct in enumerate(found)]
    for node in live_nodes(builder.nodes, parts):
        outer.append(node)
    return _Products(parts, _in_columns(program, rows))


def _in_columns(program: SparseProgram, rows: int) -> np.ndarray:
    """The places in the columns of the products, each of *rows* elements, one column after the other."""
    parts, width = list[np.ndarray](), 0
    for v in program.wrt:
        columns = np.arange(width, width + v.aval.size // rows)
        parts.append((columns * rows + np.arange(rows)[:, None]).reshape(-1))
        width += len(columns)
    moved, places = np.concatenate(parts).astype(program.places.dtype), program.places
    color = places // len(moved)  # not np.divmod, which takes some times as long
    found = moved[places - color * len(moved)] + color * len(moved)
    return found if places.min(initial=0) >= 0 else np.where(places >= 0, found, -1)


def _by_loop(
    program: SparseProgram, product: Callable[..., list[Atom]], seeded: Sequence[Atom], dtype: np.dtype, const: Const
) -> Atom:
    """The products one after the other, as the turns of a loop over the colours."""
    outer = current_builder()
    color = Var(Aval(INT, ()))
    colored = [(x, const(part)) for x, part in _parts(seeded, program.coloring.of_column)]
    with building(Builder()) as builder:
        builder.notes = outer.notes
        for node in program.nodes:
            builder.know(node)
        before = {n: len(n.outs) for n in program.nodes}
        whole = product(program, [(cast(F.eq(own, color), x.aval.dtype), ZEROS) for x, own in colored])
        row = concat([cast(reshape(x, (x.aval.size,)), dtype) for x in whole], 0)
    for node, count in before.items():
        outer.claim(node.outs[count:])
    body, consts = closed(live_nodes(builder.nodes, [row]), [row], [color])
    (found,) = loop(body, consts, [], [iota(program.colors)], program.colors)
    return reshape(found, (found.aval.size,))
