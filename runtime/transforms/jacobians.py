"""Jacobians and Hessians, and products with Hessians.

A Jacobian in forward mode is one tangent for each input, in reverse mode one cotangent for each result: all at once, as
a batch whose rows are the unit vectors (``rows.py``).  A Hessian is the forward Jacobian of the reverse one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...codegen.derive.adjoint import jvp_all
from ...tracer.ir.aval import COMPLEX, INT
from ...tracer.ir.errors import DifferentiationError
from ...tracer.ir.graph import Atom, Lit, Pair, Var, structural
from ...tracer.ir.trees import tree_unflatten
from ...tracer.ops.elementwise import F, broadcast_to, cast
from ...tracer.ops.shape import concat, iota, move_axis, reshape, slice_axis
from ...tracer.record.array import wrap_array
from ...tracer.record.recorder import Recorder
from ..compiled import TRANSFORMS
from ..declare import positions
from ..record.differentiable import differentiated, leaf_names
from ..record.inline import in_arguments
from ..record.inner import InnerRun, renamed, run_within
from ..record.recording import GRAD, Mode
from ..record.rows import all_rows, by_lane, first_row, repeated_rows, rows_by_lane
from .forward import Jvp, tangents_of
from .gradient import grad
from .reverse import Vjp, cotangents_of
from .seeds import InputPart, groups_of
from .transform import Function, Transform, call_of, rule_of, transformed
from .values import Values, joined, lanes_like, numbers_of

FORWARD, REVERSE, CHEAPER = "forward", "reverse", "cheaper"


@dataclass(frozen=True, eq=False)
class Jacobian:
    """The Jacobian, by forward or by reverse mode, or by the cheaper one."""

    argnums: int | tuple[int, ...]
    mode: str
    has_aux: bool = False
    holomorphic: bool = False

    @property
    def name(self) -> str:
        return {FORWARD: "jacfwd", REVERSE: "jacrev", CHEAPER: "jacobian"}[self.mode]

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode = Mode(GRAD, self.argnums, holomorphic=self.holomorphic)
        call = call_of(self.name, fn, args, kwargs, mode.positions)
        run = run_within(fn, call, differentiated(call, mode, leaf_names(fn, call)), recorder, has_aux=self.has_aux)
        results = numbers_of(fn, run.out, self.name)
        self._refuse_complex(run, results)
        columns, rows = _size(run.variables), _size(results.atoms)
        forward = self.mode == FORWARD or (self.mode == CHEAPER and forward_is_cheaper(columns, rows))
        if self.mode == CHEAPER:
            chosen = f"forward mode, {columns} tangents" if forward else f"reverse mode, {rows} cotangents"
            recorder.notes.append(f"jacobian of {rows} results in {columns} inputs: {chosen}")
        blocks = self._by_columns(run, results, recorder) if forward else self._by_rows(run, results, recorder)
        trees = [in_arguments(call, mode, [wrap_array(b) for b in block]) for block in blocks]
        found = tree_unflatten(results.form.structure, trees)
        return (found, run.aux) if self.has_aux else found

    def _by_columns(self, run: InnerRun, results: Values, recorder: Recorder) -> list[list[Atom]]:
        """For each result the blocks of its Jacobian, one for each variable."""
        groups = groups_of(run, results.atoms)
        if len(groups) > 1:
            return self._by_groups(groups, run, results, recorder)
        seeds, count = basis(run.variables), _size(run.variables)
        dots = [renamed(first_row(x), recorder) for x in seeds]
        start, guards = len(recorder.nodes), len(recorder.guards)
        tangents = tangents_of(run, lanes_like(dots), results)
        found = all_rows(recorder, recorder.nodes[start:], guards, rows_by_lane(dots, seeds), count, self.name)
        blocks = []
        for tangent in tangents:
            shape = tangent.aval.shape
            columns = by_lane(move_axis, repeated_rows(tangent, found, count), 0, len(shape))
            parts = zip(_cut(columns, len(shape), run.variables), run.variables, strict=True)
            blocks.append([by_lane(reshape, part, (*shape, *v.aval.shape)) for part, v in parts])
        return blocks

    def _by_groups(
        self, groups: Sequence[Sequence[InputPart]], run: InnerRun, results: Values, recorder: Recorder
    ) -> list[list[Atom]]:
        """As ``_by_columns``, each of *groups* of the inputs by itself."""
        sizes = " and ".join(str(sum(part.size for part in group)) for group in groups)
        recorder.notes.append(f"{self.name}: inputs that are read late by themselves: batches of {sizes} tangents")
        nodes = run.nodes  # without the tangents of a group
        columns: list[dict[tuple[int, int], Atom]] = [{} for _ in results.atoms]  # by variable and first element
        for group in groups:
            count = sum(part.size for part in group)
            seeds: dict[Var, Atom] = {}
            offset = 0
            for part in group:
                for var, start in part.reads:
                    seeds[var] = reshape(_units(count, offset + start - part.start, var), (count, *var.aval.shape))
                offset += part.size
            dots = {var: renamed(first_row(seed), recorder) for var, seed in seeds.items()}
            first, guards = len(recorder.nodes), len(recorder.guards)
            found = jvp_all(nodes, dots, results.lanes)
            tangents = joined([found.get(x) if isinstance(x, Var) else None for x in results.lanes], results.atoms)
            rows_of_seeds = rows_by_lane(list(dots.values()), list(seeds.values()))
            stacked = all_rows(recorder, recorder.nodes[first:], guards, rows_of_seeds, count, self.name)
            for k, tangent in enumerate(tangents):
                rank = tangent.aval.ndim
                rows = by_lane(move_axis, repeated_rows(tangent, stacked, count), 0, rank)
                offset = 0
                for part in group:
                    columns[k][part.variable, part.start] = by_lane(slice_axis, rows, rank, offset, part.size)
                    offset += part.size
        return [
            [self._block(found, n, v, y) for n, v in enumerate(run.variables)]
            for found, y in zip(columns, results.atoms, strict=True)
        ]

    def _block(self, columns: dict[tuple[int, int], Atom], number: int, variable: Var, result: Atom) -> Atom:
        """The block of *result* and variable *number* from its *columns*; those of elements that nobody reads are 0."""
        shape, at = result.aval.shape, 0
        pieces: list[Atom] = []

        def zeros_to(stop: int) -> None:
            if stop > at:
                pieces.append(by_lane(broadcast_to, structural(0, result.aval.dtype), (*shape, stop - at)))

        for (n, start), piece in sorted(columns.items(), key=lambda item: item[0]):
            if n == number:
                zeros_to(start)
                pieces.append(piece)
                at = start + piece.aval.shape[-1]
        zeros_to(variable.aval.size)
        return by_lane(reshape, concat(pieces, len(shape)), (*shape, *variable.aval.shape))

    def _by_rows(self, run: InnerRun, results: Values, recorder: Recorder) -> list[list[Atom]]:
        """As ``_by_columns``, by cotangents."""
        seeds, count = basis(results.atoms), _size(results.atoms)
        if count == 1:
            one = lanes_like([by_lane(reshape, seed, seed.aval.shape[1:]) for seed in seeds], -1)
            found = cotangents_of(run, results, one, careful=False)
            (shape,) = [y.aval.shape for y in results.atoms]
            return [[by_lane(reshape, ct, (*shape, *ct.aval.shape)) for ct in found]]
        cts = [renamed(first_row(x), recorder) for x in seeds]
        start, guards = len(recorder.nodes), len(recorder.guards)
        cotangents = cotangents_of(run, results, lanes_like(cts, -1))
        stacked = all_rows(recorder, recorder.nodes[start:], guards, rows_by_lane(cts, seeds), count, self.name)
        blocks: list[list[Atom]] = [[] for _ in results.atoms]
        for cotangent in cotangents:
            rows = repeated_rows(cotangent, stacked, count)
            parts = zip(blocks, _cut(rows, 0, results.atoms), results.atoms, strict=True)
            for block, part, y in parts:
                block.append(by_lane(reshape, part, (*y.aval.shape, *cotangent.aval.shape)))
        return blocks

    def _refuse_complex(self, run: InnerRun, results: Values) -> None:
        if self.holomorphic:
            return
        if any(x.aval.is_complex for x in (*run.variables, *results.atoms)):
            raise DifferentiationError.here(
                f"{self.name} of a function of complex values: with holomorphic=True it is the complex derivative of "
                "one that takes and returns complex numbers; else take the Jacobian of np.real(z) and np.imag(z)"
            )


@dataclass(frozen=True, eq=False)
class Hessian:
    """The forward Jacobian of the reverse one."""

    argnums: int | tuple[int, ...]
    has_aux: bool = False
    holomorphic: bool = False
    name = "hessian"

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        settings = self.has_aux, self.holomorphic
        first = transformed(rule_of(Jacobian, self.argnums, REVERSE, *settings), fn)
        return rule_of(Jacobian, self.argnums, FORWARD, *settings)(first, recorder, args, kwargs)


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

    It is taken by forward or by reverse mode, by what is cheaper for the sizes; ``explain`` says which.

    :param has_aux: *fn* returns (value, aux); the result is (Jacobian, aux).
    :param holomorphic: the complex derivative of a function of complex numbers.
    :raises DifferentiationError: where an argument or a result is not floating point.
    """
    return transformed(rule_of(Jacobian, positions(argnums), CHEAPER, has_aux, holomorphic), fn)


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
    array (*shape, *shape); of trees a tree of the structure of the arguments in each place of such a tree."""
    return transformed(rule_of(Hessian, positions(argnums), has_aux, holomorphic), fn)


@dataclass(frozen=True, eq=False)
class HessianProduct:
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
    ``scipy.optimize.minimize(..., hessp=hvp(f))``.  Forward mode over reverse mode."""
    return transformed(rule_of(HessianProduct, positions(argnums), has_aux), fn)


def vhp(fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Transform:
    """As :func:`hvp`, ``v @ H(x)``, by reverse mode over reverse mode."""
    return transformed(rule_of(HessianProduct, positions(argnums), has_aux, True), fn)


TRANSFORMS.update(jacobian=jacobian, hessian=hessian, hvp=hvp)
