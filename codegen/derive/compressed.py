"""Sparse derivatives by compressed products: one product with a seed for each colour, and its entries gathered.

A ``SparseProgram`` says how; ``jacobian_program`` and ``hessian_program`` find it for recorded nodes, and ``emit``
appends it to the builder in force: the entries of the matrix, in the order of its pattern.  There are three ways:

- *forward*: tangents of columns of one colour;
- *reverse*: cotangents of rows of one colour.  They are taken of what the program first computes with: an input that is
  only indexed (``cameras[observed]``) has a copy for each reading, and copies are shared by fewer rows.  An entry is
  then the sum of those of its copies;
- *symmetric*: forward on a gradient, with a star colouring.

Seeds of ones alone are the literal 1, so a product with all rows at once costs what a gradient costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...tracer.ir.aval import INT, Aval
from ...tracer.ir.evaluate import params_of
from ...tracer.ir.graph import Atom, Builder, Node, Var, bind, building, current_builder, live_nodes, structural
from ...tracer.ops.closure_conversion import closed
from ...tracer.ops.control import loop
from ...tracer.ops.elementwise import F, broadcast_to, cast
from ...tracer.ops.indexing import SCATTER_SET, gather
from ...tracer.ops.shape import concat, iota, reshape, zeros
from .adjoint import jvp_all, reverse
from .batched_indexing import FEW
from .coloring import Coloring, columns_colored, rows_colored, star_colored, transposed
from .columns import Columnwise
from .elements import elements
from .index_sets import TooLongError, limited
from .loop_adjoint import materialise
from .sparsity import VIEWS, Known, Lookup, Pattern, pattern_of
from .sparsity_loops import loop_sets
from .taint import NONE, ZEROS, Doubt

Const = Callable[[np.ndarray], Var]  # an array that belongs to the program
Seed = tuple[Atom, Doubt]
REVERSE_COST = 1.5  # of a cotangent, where a tangent is 1
_SPREAD = 4  # times as many elements, from which on a broadcast value is one of copies
LARGEST = 1 << 22  # elements of a matrix, from which on one that is half full is none to be compressed
EVERY = 1 << 30  # products: no limit
EFFORT, EFFORT_EACH = 1 << 21, 32  # numbers that may be written to find zeros of a dense matrix, and for each element
UNROLLED = 12  # products that are nodes of their own; more are the turns of a loop


@dataclass(slots=True, eq=False)
class SparseProgram:
    """How the entries of a matrix are computed; ``mode`` is "forward", "reverse" or "symmetric"."""

    pattern: Pattern
    mode: str
    coloring: Coloring
    nodes: Sequence[Node]
    outputs: Sequence[Atom]  # their elements are the rows of the products (forward), or have seeds (reverse)
    wrt: Sequence[Var]  # have seeds (forward), or give the products (reverse)
    places: np.ndarray  # (terms, entries) positions in the products, colour by colour; -1: none

    @property
    def colors(self) -> int:
        return self.coloring.count

    def __str__(self) -> str:
        rows, columns = self.pattern.shape
        size = rows * columns
        share = f", {self.pattern.nnz / size:.2%} of all" if size else ""
        made = {
            "forward": "tangents of columns of one color",
            "reverse": "cotangents of rows of one color",
            "symmetric": "tangents of the gradient, columns of one color of a star coloring",
        }[self.mode]
        return (
            f"sparse {rows} x {columns} matrix: {self.pattern.nnz} entries{share}; {self.colors} colors, {made} "
            f"({self.colors} of {columns if self.mode != 'reverse' else rows} products)"
        )


# ---- how -----------------------------------------------------------------------------------------------------------


def hessian_program(
    nodes: Sequence[Node], gradients: Sequence[Atom], wrt: Sequence[Var], known: Lookup, most: int = EVERY
) -> SparseProgram | None:
    """The Hessian of a scalar whose *gradients* with respect to *wrt* the *nodes* compute; None where it is dense, or
    needs more than *most* products."""
    pattern = _pattern(nodes, gradients, wrt, known, most)
    if pattern is None or is_dense(pattern.nnz, pattern.shape, most):
        return None
    pattern = symmetric(pattern)
    coloring = star_colored(pattern, most)
    if coloring is None:
        return None
    places = coloring.colors * pattern.shape[0] + coloring.rows
    return SparseProgram(pattern, "symmetric", coloring, nodes, gradients, wrt, places[None])


def _pattern(
    nodes: Sequence[Node], outputs: Sequence[Atom], wrt: Sequence[Var], known: Lookup, most: int
) -> Pattern | None:
    """The pattern of the Jacobian; None where it is dense, or takes long to find for a matrix that would do without."""
    if most == EVERY:
        return pattern_of(nodes, outputs, wrt, known, loop_sets)
    rows, columns = (sum([x.aval.size for x in xs]) for xs in (outputs, wrt))
    try:
        with limited(EFFORT + EFFORT_EACH * rows * columns):
            return pattern_of(nodes, outputs, wrt, known, loop_sets)
    except TooLongError:
        return None


def is_dense(entries: int, shape: tuple[int, int], most: int) -> bool:
    """Whether a matrix is half full, and large; or one of any size that is wanted in at *most* so many products."""
    size = shape[0] * shape[1]
    return 2 * entries > size and (size > LARGEST or most < EVERY)


def symmetric(pattern: Pattern) -> Pattern:
    """The pattern with its transpose: what was found of an entry and its mirror image may differ."""
    indptr, indices = transposed(pattern.indptr, pattern.indices, pattern.shape[1])
    if np.array_equal(indptr, pattern.indptr) and np.array_equal(indices, pattern.indices):
        return pattern
    rows, columns = pattern.rows.astype(np.int64), pattern.indices.astype(np.int64)
    size = pattern.shape[0]
    keys = np.sort(np.concatenate([rows * size + columns, columns * size + rows]))
    return _of_keys(keys[_fresh(keys)], pattern.shape, pattern.relies_on)


def _fresh(keys: np.ndarray) -> np.ndarray:
    """Where the sorted *keys* differ from the one before."""
    return np.append(True, keys[1:] != keys[:-1])[: len(keys)]


def _of_keys(keys: np.ndarray, shape: tuple[int, int], relies_on: dict[Var, np.ndarray]) -> Pattern:
    rows = keys // max(shape[1], 1)
    kind = np.int32 if max(len(keys), shape[1]) < 2**31 else np.int64
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))]).astype(kind)
    return Pattern(shape, indptr, (keys - rows * shape[1]).astype(kind), relies_on)


def jacobian_program(
    nodes: Sequence[Node], outputs: Sequence[Atom], wrt: Sequence[Var], known: Lookup, most: int = EVERY
) -> SparseProgram | None:
    """The Jacobian of *outputs* with respect to *wrt*; None where it is dense, or needs more than *most* products."""
    known_values = Known(nodes, known)
    copies = _copies(nodes, outputs, wrt, known_values)
    sources, origin = _sources(nodes, outputs, known_values, {v for v, _ in copies})
    made = {v for v, _ in copies}
    inner = [n for n in nodes if made.isdisjoint(n.outs)]
    inner = live_nodes(inner, sources)
    local = _pattern(inner, sources, [v for v, _ in copies], known, most)
    shape = (len(origin), sum([v.aval.size for v in wrt]))
    if local is None or is_dense(local.nnz, shape, most):
        return None
    columns = np.concatenate([c for _, c in copies]) if copies else np.zeros(0, np.int64)
    # each entry is made of the entries of the local Jacobian: at these rows, in these columns of `wrt`
    terms = _taken(local, origin)
    keep = columns[local.indices[terms.entry]] >= 0
    row, entry = terms.row[keep], terms.entry[keep]
    keys = row * shape[1] + columns[local.indices[entry]]
    order = np.argsort(keys, kind="stable")
    keys, entry = keys[order], entry[order]
    first = _fresh(keys)
    pattern = _of_keys(keys[first], shape, {**known_values.asked, **local.relies_on})
    reverse = rows_colored(local, most)
    limit = most if reverse is None else min(most, int(reverse.count * REVERSE_COST))
    forward = columns_colored(pattern, limit)
    if reverse is not None and forward is None:
        number = np.cumsum(first) - 1  # of the entry that a term belongs to
        turn = np.arange(len(keys)) - np.flatnonzero(first)[number]
        places = np.full((int(turn.max(initial=0)) + 1, pattern.nnz), -1, np.int64)
        places[turn, number] = reverse.colors[entry] * len(columns) + reverse.rows[entry]
        return SparseProgram(pattern, "reverse", reverse, inner, sources, [v for v, _ in copies], places)
    if forward is None:
        return None
    places = forward.colors * shape[0] + forward.rows
    return SparseProgram(pattern, "forward", forward, nodes, outputs, wrt, places[None])


def dense_program(nodes: Sequence[Node], outputs: Sequence[Atom], wrt: Sequence[Var]) -> SparseProgram:
    """The Jacobian of *outputs* in full: a product for each column, or for each row."""
    shape = (sum([x.aval.size for x in outputs]), sum([v.aval.size for v in wrt]))
    indptr = np.arange(shape[0] + 1, dtype=np.int32) * np.int32(shape[1])
    pattern = Pattern(shape, indptr, np.tile(np.arange(shape[1], dtype=np.int32), shape[0]))
    rows, columns = pattern.rows.astype(np.int64), pattern.indices.astype(np.int64)
    if shape[0] * REVERSE_COST < shape[1]:
        coloring = Coloring(shape[0], np.arange(shape[0]), columns, rows)
        return SparseProgram(pattern, "reverse", coloring, nodes, outputs, wrt, (rows * shape[1] + columns)[None])
    coloring = Coloring(shape[1], np.arange(shape[1]), rows, columns)
    return SparseProgram(pattern, "forward", coloring, nodes, outputs, wrt, (columns * shape[0] + rows)[None])


class _Taken(NamedTuple):
    row: np.ndarray
    entry: np.ndarray


def _taken(local: Pattern, origin: np.ndarray) -> _Taken:
    """For each row r the entries of row ``origin[r]`` of *local*; none for -1."""
    counts = np.where(origin >= 0, np.append(np.diff(local.indptr), 0)[origin], 0)
    starts = np.append(local.indptr[:-1], 0)[origin]
    ends = np.cumsum(counts)
    row = np.repeat(np.arange(len(origin)), counts)
    return _Taken(row, np.repeat(starts - (ends - counts), counts) + np.arange(len(row)))


def _numbered(node: Node, known: Known, numbers: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The view *node* of numbers in place of its operands (None: of no interest, 0); None where it is no view, or where
    positions are not known."""
    if node.prim.name not in VIEWS:
        return None
    given: list[np.ndarray] = []
    for k, (x, found) in enumerate(zip(node.inputs, numbers, strict=True)):
        if k == 1 and node.prim.name in ("gather", "scatter"):
            index = known.value(x)
            if index is None:
                return None
            found = index
        given.append(np.zeros(x.aval.shape, np.int64) if found is None else found)
    return np.asarray(node.prim.impl(*given, **params_of(node)))


def _copies(
    nodes: Sequence[Node], outputs: Sequence[Atom], wrt: Sequence[Var], known: Known
) -> list[tuple[Var, np.ndarray]]:
    """The values that cotangents are taken of: *wrt*, or views of them in which elements stand many times, and which
    the program computes with; with the numbers of their elements among those of *wrt*, -1 for none."""
    found: dict[Var, np.ndarray] = {}
    first = 1
    for v in wrt:
        found[v] = np.arange(first, first + v.aval.size).reshape(v.aval.shape)
        first += v.aval.size
    varied = set(wrt)
    views: list[tuple[Var, list[Var], bool]] = []  # (a view, what it is of, whether elements stand in it many times)
    used = [a for a in outputs if isinstance(a, Var)]
    for node in nodes:
        given = [a for a in node.inputs if isinstance(a, Var) and a in varied and a.aval.is_float]
        if not given:
            continue
        varied.update(o for o in node.outs if o.aval.is_float)
        view = _numbered(node, known, [found.get(a) for a in node.inputs]) if all(a in found for a in given) else None  # type: ignore[arg-type]
        if view is None:
            used += given
            continue
        found[node.out] = view
        repeated = view.size > _SPREAD * sum([a.aval.size for a in given])
        if node.prim.name == "gather" and not repeated:
            repeated = bool(np.bincount(view.reshape(-1))[1:].max(initial=0) > 1)
        views.append((node.out, given, repeated))
    used = [a for a in used if a in found]
    roots = _roots(used, wrt, views, parts=False)
    if not roots <= dict.fromkeys(wrt).keys():
        roots = _roots(used, wrt, views, parts=True)
    return [(v, found[v].reshape(-1) - 1) for v in found if v in roots]


def _roots(
    used: Sequence[Var], wrt: Sequence[Var], views: Sequence[tuple[Var, list[Var], bool]], parts: bool
) -> Set[Var]:
    """The values that *used* are views of: *wrt*, or copies; with *parts* the first parts that are read of *wrt*, so
    that it has the length of what is computed."""
    of: dict[Var, dict[Var, None]] = {v: {v: None} for v in wrt}
    for view, given, repeated in views:
        part = parts and len(given) == 1 and view.aval.size < given[0].aval.size and given[0] in wrt
        of[view] = {view: None} if repeated or part else {root: None for a in given for root in of[a]}
    return {root for a in used for root in of[a]}


def _sources(
    nodes: Sequence[Node], outputs: Sequence[Atom], known: Known, stop: set[Var]
) -> tuple[list[Var], np.ndarray]:
    """The values that the elements of *outputs* are copies of, and for each the element that it is a copy of, these
    values one after the other; -1 where it is a constant."""
    producers = {o: n for n in nodes for o in n.outs}
    sources: dict[Var, int] = {}
    size = 0
    found = []
    for out in outputs:
        places = np.arange(out.aval.size)
        result = np.full(out.aval.size, -1, np.int64)
        todo = [(out, places, places)]  # (value, elements of it, elements of `out` that are copies of these)
        while todo:
            value, elements, of = todo.pop()
            if not isinstance(value, Var) or not len(of):
                continue
            node = None if value in stop or value in sources else producers.get(value)
            first, numbers = 1, list[np.ndarray | None]()
            for a in node.inputs if node is not None else ():
                numbers.append(np.arange(first, first + a.aval.size).reshape(a.aval.shape))
                first += a.aval.size
            view = None if node is None else _numbered(node, known, numbers)
            if node is None or view is None:
                if value not in sources:
                    sources[value] = size
                    size += value.aval.size
                result[of] = sources[value] + elements
                continue
            moved = view.reshape(-1)[elements]
            for a, own in zip(node.inputs, numbers, strict=True):
                assert own is not None
                if not own.size or not a.aval.is_float:
                    continue
                start = own.reshape(-1)[0]
                inside = (moved >= start) & (moved < start + own.size)
                todo.append((a, moved[inside] - start, of[inside]))
        found.append(result)
    return list(sources), np.concatenate(found) if found else np.zeros(0, np.int64)


# ---- nodes ---------------------------------------------------------------------------------------------------------


def emit(program: SparseProgram, const: Const) -> Atom:
    """The entries of the matrix, by nodes that are appended to the builder in force."""
    dtypes = [x.aval.dtype for x in (*program.outputs, *program.wrt)]
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(float)
    if not program.pattern.nnz:
        return zeros((0,), dtype)
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
    return _summed(arrays, program.places, dtype, const)


def _summed(arrays: Sequence[Atom], terms: np.ndarray, dtype: np.dtype, const: Const) -> Atom:
    """The sums of the elements of *arrays*, one after the other, at the places of each term, -1 for none."""
    total: Atom | None = None
    for places in terms:
        there = places >= 0
        if there.all():
            term: Atom = elements(arrays, places, const)
        else:
            mask = const(there.astype(dtype))
            term = F.mulz(mask, gather(concat(list(arrays), 0), const(np.maximum(places, 0))))
        total = term if total is None else F.add(total, term)
    assert total is not None
    return total


def in_full(program: SparseProgram, entries: Atom, const: Const) -> Atom:
    """The matrix as an array, from its *entries*."""
    rows, columns = program.pattern.shape
    counts = np.diff(program.pattern.indptr)
    most = int(counts.max(initial=0))
    if 0 < most <= FEW:
        return _by_rows(program, entries, most, const)
    places = program.pattern.rows.astype(np.int64) * columns + program.pattern.indices
    flat = zeros((rows * columns,), entries.aval.dtype)
    if len(places):
        flat = bind(SCATTER_SET, flat, const(places), entries)
    return reshape(flat, (rows, columns))


def _by_rows(program: SparseProgram, entries: Atom, most: int, const: Const) -> Atom:
    """The matrix in one pass, each element of which is compared with the columns of the entries of its row, at *most*
    so many."""
    (rows, columns), indptr = program.pattern.shape, program.pattern.indptr.astype(np.int64)
    found: Atom = zeros((rows, columns), entries.aval.dtype)
    here = broadcast_to(iota(columns), (rows, columns))
    for k in range(most):
        there = indptr[:-1] + k < indptr[1:]
        places = np.where(there, indptr[:-1] + k, 0)
        column = const(np.where(there, program.pattern.indices[places], -1))
        value = gather(entries, const(places))
        stretched = [broadcast_to(reshape(x, (rows, 1)), (rows, columns)) for x in (column, value)]
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


def by_columns(program: SparseProgram, dtype: np.dtype, const: Const) -> Atom | None:
    """As ``emit`` in reverse mode, where what there are copies of, and the results, have the same number of rows, and
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
        entries = _interleaved(program, parts, rows, dtype, const)
    for node in live_nodes(builder.nodes, [entries]):
        outer.append(node)
    return entries


def _interleaved(program: SparseProgram, parts: Sequence[Atom], rows: int, dtype: np.dtype, const: Const) -> Atom:
    """The entries from the columns *parts* of the products: runs of rows of some of them, side by side."""
    sizes = [v.aval.size for v in program.wrt]
    starts, widths = np.concatenate([[0], np.cumsum(sizes)]), np.array([n // rows for n in sizes])
    firsts = np.concatenate([[0], np.cumsum(widths)])
    color, place = np.divmod(program.places, starts[-1])
    which = np.searchsorted(starts, place, side="right") - 1
    row, column = np.divmod(place - starts[which], widths[which])
    part = color * firsts[-1] + firsts[which] + column
    there = program.places >= 0
    return _summed(parts, np.where(there, part * rows + row, -1), dtype, const)


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
