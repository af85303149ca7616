"""The rules of Jacobians, Hessians and products with these (``jacobians.py``).

A Jacobian in forward mode is one tangent for each input, in reverse mode one cotangent for each result: all at once, as
a batch whose rows are the unit vectors (``record/rows.py``).  A Hessian is the forward Jacobian of the reverse one.
Where most of a matrix is known to be zero, both are compressed (``sparse_rewrite.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tracer.ir.aval import COMPLEX, INT
from ...tracer.ir.errors import DifferentiationError
from ...tracer.ir.graph import Atom, Lit, Pair, Var, structural
from ...tracer.ir.late_modules import LateModule
from ...tracer.ir.trees import tree_unflatten
from ...tracer.ops.complex import by_lane
from ...tracer.ops.elementwise import F, broadcast_to, cast
from ...tracer.ops.shape import iota, move_axis, reshape, slice_axis
from ...tracer.record.array import wrap_array
from ...tracer.record.recorder import Recorder
from ..mode import GRAD, Mode
from ..record.inline import in_arguments
from ..record.inner import InnerRun, renamed
from ..record.rows import all_rows, first_row, repeated_rows, rows_by_lane
from .forward import Jvp
from .forward_rewrite import tangents_of
from .gradient import grad
from .inner_run import run_along
from .jacobians import CHEAPEST, FORWARD, Hessian, HessianProduct, Jacobian
from .reverse import Vjp
from .reverse_rewrite import cotangents_of
from .transform import Function, rewrites, rule_of
from .values import Values, lanes_like, numbers_of

sparse = LateModule(f"{__package__}.sparse_rewrite")  # which products with Hessians do without


@rewrites(Jacobian)
def _jacobian(rule: Jacobian, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mode, run, results = _run(rule, fn, recorder, args, kwargs)
    if rule.mode == CHEAPEST:
        blocks = _cheapest(rule.name, run, results)
    else:
        blocks = (by_columns if rule.mode == FORWARD else by_rows)(rule.name, run, results.atoms)
    trees = [_in_arguments(run, mode, block) for block in blocks]
    found = tree_unflatten(results.form.structure, trees)
    return (found, run.aux) if rule.has_aux else found


@rewrites(Hessian)
def _hessian(rule: Hessian, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mode, run, results = _run(rule, fn, recorder, args, kwargs)
    first = by_rows(rule.name, run, results.atoms)
    gradients, count = [x for block in first for x in block], len(run.variables)
    matrix = None
    if len(first) == 1 and results.atoms[0].aval.size == 1 and not rule.holomorphic:
        matrix = sparse.compressed(run.nodes, gradients, run.lanes, recorder, symmetric=True)
    second = by_columns(rule.name, run, gradients) if matrix is None else _blocks(matrix, gradients, run.variables)
    rows = [_in_arguments(run, mode, block) for block in second]
    trees = [in_arguments(run.call, mode, rows[k * count : (k + 1) * count]) for k in range(len(first))]
    found = tree_unflatten(results.form.structure, trees)
    return (found, run.aux) if rule.has_aux else found


def _run(
    rule: Jacobian | Hessian, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Mode, InnerRun, Values]:
    """(the arguments that are differentiated, the run of *fn* within *recorder*, its results)."""
    mode = Mode(GRAD, rule.argnums, holomorphic=rule.holomorphic)
    run = run_along(rule.name, fn, recorder, args, kwargs, mode, rule.has_aux)
    results = numbers_of(fn, run.out, rule.name)
    if not rule.holomorphic and any(x.aval.is_complex for x in (*run.variables, *results.atoms)):
        raise DifferentiationError.here(
            f"{rule.name} of a function of complex values: with holomorphic=True it is the complex derivative of one "
            "that takes and returns complex numbers; else take the Jacobian of np.real(z) and np.imag(z)"
        )
    return mode, run, results


def _in_arguments(run: InnerRun, mode: Mode, blocks: Sequence[Atom]) -> Any:
    return in_arguments(run.call, mode, [wrap_array(x) for x in blocks])


# ---- blocks: for each result one for each variable ---------------------------------------------------------------


def _cheapest(name: str, run: InnerRun, results: Values) -> list[list[Atom]]:
    columns, rows, recorder = _size(run.variables), _size(results.atoms), run.recorder
    if not any(x.aval.is_complex for x in (*run.variables, *results.atoms)):
        matrix = sparse.compressed(run.nodes, results.atoms, run.lanes, recorder, symmetric=False)
        if matrix is not None:
            return _blocks(matrix, results.atoms, run.variables)
    forward = forward_is_cheaper(columns, rows)
    chosen = f"forward mode, {columns} tangents" if forward else f"reverse mode, {rows} cotangents"
    recorder.notes.append(f"jacobian of {rows} results in {columns} inputs: {chosen}")
    return (by_columns if forward else by_rows)(name, run, results.atoms)


def by_columns(name: str, run: InnerRun, results: Sequence[Atom]) -> list[list[Atom]]:
    """The blocks of the Jacobian of *results* in the variables of *run*, by tangents."""
    recorder, seeds, count = run.recorder, basis(run.variables), _size(run.variables)
    dots = [renamed(first_row(x), recorder) for x in seeds]
    start, guards = len(recorder.nodes), len(recorder.guards)
    tangents = tangents_of(run, lanes_like(dots), results)
    found = all_rows(recorder, recorder.nodes[start:], guards, rows_by_lane(dots, seeds), count, name)
    blocks = []
    for tangent in tangents:
        shape = tangent.aval.shape
        columns = by_lane(move_axis, repeated_rows(tangent, found, count), 0, len(shape))
        parts = zip(_cut(columns, len(shape), run.variables), run.variables, strict=True)
        blocks.append([by_lane(reshape, part, (*shape, *v.aval.shape)) for part, v in parts])
    return blocks


def by_rows(name: str, run: InnerRun, results: Sequence[Atom]) -> list[list[Atom]]:
    """The blocks of the Jacobian of *results* in the variables of *run*, by cotangents."""
    recorder, seeds, count = run.recorder, basis(results), _size(results)
    if count == 1 and len(results) == 1:
        one = lanes_like([by_lane(reshape, seed, seed.aval.shape[1:]) for seed in seeds], -1)
        found = cotangents_of(run, results, one, careful=False)
        shape = results[0].aval.shape
        return [[by_lane(reshape, ct, (*shape, *ct.aval.shape)) for ct in found]]
    cts = [renamed(first_row(x), recorder) for x in seeds]
    start, guards = len(recorder.nodes), len(recorder.guards)
    cotangents = cotangents_of(run, results, lanes_like(cts, -1))
    stacked = all_rows(recorder, recorder.nodes[start:], guards, rows_by_lane(cts, seeds), count, name)
    blocks: list[list[Atom]] = [[] for _ in results]
    for cotangent in cotangents:
        rows = repeated_rows(cotangent, stacked, count)
        for block, part, y in zip(blocks, _cut(rows, 0, results), results, strict=True):
            block.append(by_lane(reshape, part, (*y.aval.shape, *cotangent.aval.shape)))
    return blocks


def _blocks(matrix: Atom, results: Sequence[Atom], variables: Sequence[Var]) -> list[list[Atom]]:
    """The blocks of a *matrix* with a row for each element of *results* and a column for each of *variables*."""
    return [
        [
            cast(reshape(block, (*y.aval.shape, *v.aval.shape)), y.aval.dtype)
            for block, v in zip(_cut(rows, 1, variables), variables, strict=True)
        ]
        for rows, y in zip(_cut(matrix, 0, results), results, strict=True)
    ]


def forward_is_cheaper(columns: int, rows: int) -> bool:
    """Whether forward mode is the cheaper one for *rows* results of *columns* inputs: a cotangent costs more than a
    tangent, since what it needs of the values is stored."""
    return columns <= 2 * rows


def basis(values: Sequence[Atom]) -> list[Atom]:
    """For each of *values* its part of the unit vectors of all: an array (n, *shape), where n is the size of all."""
    count, offset, found = _size(values), 0, list[Atom]()
    for x in values:
        shape, size = x.aval.shape, x.aval.size
        unit = reshape(_units(count, offset, x), (count, *shape))
        dtype = unit.aval.dtype
        found.append(Pair(unit, structural(0, dtype), x.aval.dtype) if x.aval.is_complex else unit)
        offset += size
    return found


def _units(count: int, offset: int, x: Atom) -> Atom:
    """Unit vectors with the 1 at *offset* and the following places, in the first of *count* rows and the following: as
    many columns as *x* has elements."""
    numbers, size = reshape(iota(count), (count, 1)), x.aval.size
    places = F.add(iota(size), Lit(offset, INT)) if offset else iota(size)
    same = F.eq(broadcast_to(numbers, (count, size)), broadcast_to(places, (count, size)))
    return cast(same, COMPLEX.get(x.aval.dtype, x.aval.dtype))


def _size(values: Sequence[Atom]) -> int:
    return sum(x.aval.size for x in values)


def _cut(x: Atom, axis: int, values: Sequence[Atom]) -> list[Atom]:
    """*x* cut along *axis* into a part for each of *values*."""
    if len(values) == 1:
        return [x]
    parts, start = [], 0
    for v in values:
        parts.append(by_lane(slice_axis, x, axis, start, v.aval.size))
        start += v.aval.size
    return parts


@rewrites(HessianProduct)
def _hessian_product(
    rule: HessianProduct, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    mode = Mode(GRAD, rule.argnums)
    count = len(args) - 1
    if count < 1:
        raise TypeError(f"{rule.name}(f)(x, v) takes the vector after the arguments that are differentiated")
    at = max([p % count for p in mode.positions]) + 1
    own, vector = (*args[:at], *args[at + 1 :]), args[at]
    gradient = grad(fn, rule.argnums, rule.has_aux)
    if rule.reverse:
        _, pullback, *aux = rule_of(Vjp, rule.has_aux, rule.argnums)(gradient, recorder, own, kwargs)
        found = pullback(vector)
    else:
        _, found, *aux = rule_of(Jvp, rule.has_aux, rule.argnums)(gradient, recorder, (own, vector, kwargs), {})
    return (found, *aux) if rule.has_aux else found
