"""Jacobians and Hessians, and products with Hessians.

A Jacobian in forward mode is one tangent for each input, in reverse mode one cotangent for each result: all at once, as
a batch whose rows are the unit vectors (``record/rows.py``).  A Hessian is the forward Jacobian of the reverse one.
Where most of a matrix is known to be zero, both are compressed (``sparse.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...tracer.ir.aval import COMPLEX, INT
from ...tracer.ir.errors import DifferentiationError
from ...tracer.ir.graph import Atom, Lit, Pair, Var, structural
from ...tracer.ir.trees import tree_unflatten
from ...tracer.ops.elementwise import F, broadcast_to, cast
from ...tracer.ops.shape import iota, move_axis, reshape, slice_axis
from ...tracer.record.array import wrap_array
from ...tracer.record.recorder import Recorder
from ..declare import positions
from ..mode import GRAD, Mode
from ..record.inline import in_arguments
from ..record.inner import InnerRun, renamed
from ..record.rows import all_rows, by_lane, first_row, repeated_rows, rows_by_lane
from .forward import Jvp, tangents_of
from .gradient import grad
from .reverse import Vjp, cotangents_of
from .sparse import compressed
from .transform import Function, Transform, TransformRule, rule_of, run_along, transformed
from .values import Values, lanes_like, numbers_of

FORWARD, REVERSE, CHEAPEST = "forward", "reverse", "cheapest"


@dataclass(frozen=True, eq=False)
class Jacobian(TransformRule):
    """The Jacobian, by forward or by reverse mode, or by what is cheapest."""

    argnums: int | tuple[int, ...]
    mode: str
    has_aux: bool = False
    holomorphic: bool = False

    @property
    def name(self) -> str:
        return {FORWARD: "jacfwd", REVERSE: "jacrev", CHEAPEST: "jacobian"}[self.mode]

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode, run, results = _run(self, fn, recorder, args, kwargs)
        if self.mode == CHEAPEST:
            blocks = _cheapest(self.name, run, results)
        else:
            blocks = (by_columns if self.mode == FORWARD else by_rows)(self.name, run, results.atoms)
        trees = [_in_arguments(run, mode, block) for block in blocks]
        found = tree_unflatten(results.form.structure, trees)
        return (found, run.aux) if self.has_aux else found


@dataclass(frozen=True, eq=False)
class Hessian(TransformRule):
    """The forward Jacobian of the reverse one."""

    argnums: int | tuple[int, ...]
    has_aux: bool = False
    holomorphic: bool = False
    name = "hessian"

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode, run, results = _run(self, fn, recorder, args, kwargs)
        first = by_rows(self.name, run, results.atoms)
        gradients, count = [x for block in first for x in block], len(run.variables)
        matrix = None
        if len(first) == 1 and results.atoms[0].aval.size == 1 and not self.holomorphic:
            matrix = compressed(run.nodes, gradients, run.lanes, recorder, symmetric=True)
        second = by_columns(self.name, run, gradients) if matrix is None else _blocks(matrix, gradients, run.variables)
        rows = [_in_arguments(run, mode, block) for block in second]
        trees = [in_arguments(run.call, mode, rows[k * count : (k + 1) * count]) for k in range(len(first))]
        found = tree_unflatten(results.form.structure, trees)
        return (found, run.aux) if self.has_aux else found


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
        matrix = compressed(run.nodes, results.atoms, run.lanes, recorder, symmetric=False)
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


# ---- what users call ---------------------------------------------------------------------------------------------


def jacobian(
    fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Transform:
    """The Jacobian of *fn* with respect to the arguments *argnums*: arrays of the shape of the result, then of the
    argument, in the structure of the result, then of the arguments.

        jacobian(lambda w, x: np.tanh(w @ x), argnums=(0, 1))(w, x)      # (4, 3), (3,): of shapes (4, 4, 3) and (4, 3)
        least_squares(residuals, x0, jac=jacobian(residuals))

    It is taken by forward or by reverse mode, by what is cheaper for the sizes, or, where most of it is known to be
    zero, by compressed products as :func:`sparse_jacobian` has them; ``explain`` says which.

    :param has_aux: *fn* returns (value, aux); the result is (Jacobian, aux).
    :param holomorphic: the complex derivative of a function of complex numbers.
    :raises DifferentiationError: where an argument or a result is not floating point.
    """
    return transformed(rule_of(Jacobian, positions(argnums), CHEAPEST, has_aux, holomorphic), fn)


def jacfwd(
    fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Transform:
    """As :func:`jacobian`, by forward mode: one tangent for each input."""
    return transformed(rule_of(Jacobian, positions(argnums), FORWARD, has_aux, holomorphic), fn)


def jacrev(
    fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Transform:
    """As :func:`jacobian`, by reverse mode: one cotangent for each result."""
    return transformed(rule_of(Jacobian, positions(argnums), REVERSE, has_aux, holomorphic), fn)


def hessian(
    fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Transform:
    """The second derivatives of *fn*: the forward Jacobian of the reverse one.  Of a scalar function of one array an
    array (*shape, *shape); of trees, or of several *argnums*, a tree of the structure of the arguments in each place of
    such a tree; of a function that returns an array, with the shape of that in front.

        hessian(lambda x: np.sum(x**3))(np.ones(2))                                         # [[6, 0], [0, 6]]
        hessian(lambda p: p["a"] * p["b"])({"a": 1.0, "b": 2.0})["a"]["b"]                                # 1.0

    :param has_aux: *fn* returns (value, aux); the result is (Hessian, aux).
    :raises DifferentiationError: where an argument or a result is not floating point.
    """
    return transformed(rule_of(Hessian, positions(argnums), has_aux, holomorphic), fn)


@dataclass(frozen=True, eq=False)
class HessianProduct(TransformRule):
    """``(x, v, ...) -> H @ v``, the vector after the arguments that are differentiated; *reverse*: ``v @ H``."""

    argnums: int | tuple[int, ...]
    has_aux: bool = False
    reverse: bool = False

    @property
    def name(self) -> str:
        return "vhp" if self.reverse else "hvp"

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode = Mode(GRAD, self.argnums)
        count = len(args) - 1
        if count < 1:
            raise TypeError(f"{self.name}(f)(x, v) takes the vector after the arguments that are differentiated")
        at = max([p % count for p in mode.positions]) + 1
        own, vector = (*args[:at], *args[at + 1 :]), args[at]
        gradient = grad(fn, self.argnums, self.has_aux)
        if self.reverse:
            _, pullback, *aux = rule_of(Vjp, self.has_aux, self.argnums)(gradient, recorder, own, kwargs)
            found = pullback(vector)
        else:
            _, found, *aux = rule_of(Jvp, self.has_aux, self.argnums)(gradient, recorder, (own, vector, kwargs), {})
        return (found, *aux) if self.has_aux else found


def hvp(fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Transform:
    """Products of the Hessian of *fn* with a vector: ``hvp(f)(x, v)`` is ``H(x) @ v``, without H, at the price of a
    few values of *fn*.  The vector stands after the arguments *argnums*, in their structure; others follow it, as in
    ``scipy.optimize.minimize(..., hessp=hvp(f))``.  Forward mode over reverse mode.

    :raises DifferentiationError: where the result is no scalar, or the vector does not fit."""
    return transformed(rule_of(HessianProduct, positions(argnums), has_aux), fn)


def vhp(fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Transform:
    """As :func:`hvp`, ``v @ H(x)``, by reverse mode over reverse mode."""
    return transformed(rule_of(HessianProduct, positions(argnums), has_aux, True), fn)
