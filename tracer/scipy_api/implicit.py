"""The derivative of a solution by the implicit function theorem, whatever way a solver has gone.

A solution x of F(x, p) = 0 changes by dx = -J⁻¹ (dF/dp) dp, where J = dF/dx.  So the cotangent of p is that of F(x, p)
for the cotangent -u of F, with Jᵀ u = the cotangent of x.  F is the user's function, its difference from x (a fixed
point), or the gradient of what is minimised; where a bound holds a variable fast, its equation is dx = 0.

All this is made of nodes at the solution, so it can be derived again.  A derivative is an error where the solver has
not converged, unless Newton's step from where it stopped shows that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.data_classes import dataclass
from ..ir.equality import same_graph
from ..ir.errors import DifferentiationError
from ..ir.graph import Atom, Builder, Graph, Var, building, structural
from ..ir.site import Site
from ..ops.closure_conversion import inlined
from ..ops.control import loop
from ..ops.elementwise import F, broadcast_to, cast, like
from ..ops.host_call import HostFunction, derivatives, host_call
from ..ops.linalg import lu, lu_solve
from ..ops.linalg_gaps import diagonal_mask
from ..ops.reduce import reduce
from ..ops.shape import reshape

ROOT, FIXED_POINT, MINIMUM, LEAST_SQUARES = "root", "fixed point", "minimum", "least squares"
_CLOSE = 1e-4  # Newton's step, relative to the solution, from where an unsuccessful solver may have stopped


def extended(graph: Graph, tail: Callable[[list[Atom]], Sequence[Atom]]) -> Graph:
    """*graph* whose outputs are *tail* of its own."""
    with building(Builder()) as builder:
        found = list(tail(inlined(graph, graph.inputs)))
    return Graph(graph.inputs, builder.nodes, found)


def total_of(residual: Atom, loss: str = "linear", scale: float = 1.0) -> Atom:
    """The total of a problem of least squares: half the sum of the losses of *residual*."""
    c = like(scale, residual)
    z = F.mul(F.div(residual, c), F.div(residual, c))
    one, two = like(1, z), like(2, z)
    if loss == "soft_l1":
        z = F.mul(two, F.sub(F.sqrt(F.add(one, z)), one))
    elif loss == "huber":
        outside = F.gt(z, one)
        z = F.select(outside, F.sub(F.mul(two, F.sqrt(F.select(outside, z, one))), one), z)
    elif loss != "linear":
        z = {"cauchy": F.log1p, "arctan": F.arctan}[loss](z)
    return F.mul(like(0.5 * scale**2, z), reduce("sum", z, tuple(range(z.aval.ndim))))


@dataclass(eq=False, slots=True)
class Implicit:
    """The rule of a solver's results (``ops/host_call.py``).

    *equation* has one output, F or what is minimised (*kind*), of the operands *reads*, then the solution.  *solution*,
    *success*: their places among the results; *values*: those of results that are values of graphs like *equation* at
    the solution; *names*: how the others are called.  *bounds*: places of lower and upper bounds among the operands.
    *apart*: F is elementwise.
    """

    name: str
    kind: str
    equation: Graph
    reads: Sequence[int]
    solution: int
    success: int | None
    values: dict[int, Graph]
    names: Sequence[str]
    bounds: tuple[int, int] | None
    apart: bool
    site: Site | None
    _made: dict[Any, Graph] = field(default_factory=dict)
    closed = True  # a program (ops/custom.py)

    def _key(self) -> tuple[Any, ...]:
        names = tuple([n.prim.name for n in self.equation.nodes])
        return (self.name, self.kind, tuple(self.reads), self.solution, self.success, self.bounds, self.apart, names)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Implicit or self._key() != other._key() or self.values.keys() != other.values.keys():
            return False
        pairs = [(self.equation, other.equation), *[(graph, other.values[k]) for k, graph in self.values.items()]]
        return all(same_graph(a, b) for a, b in pairs)

    def __hash__(self) -> int:
        return hash(self._key())

    def __call__(
        self, cotangents: Sequence[Atom | None], outs: Sequence[Var], operands: Sequence[Atom]
    ) -> list[Atom | None]:
        found: list[Atom | None] = [None] * len(operands)

        def share(k: int, of: Atom) -> None:
            known = found[k]
            found[k] = of if known is None else F.add(known, of)

        dtype = self.equation.inputs[-1].aval.dtype
        given, x = [operands[k] for k in self.reads], cast(outs[self.solution], dtype)
        limited = {id(g): derivatives[0].limited(g, [*given, x]) for g in (self.equation, *self.values.values())}
        if limited[id(self.equation)] is not self.equation:
            values = {k: limited[id(g)] for k, g in self.values.items()}
            rule = replace(self, equation=limited[id(self.equation)], values=values, _made={})
            return rule(cotangents, outs, operands)
        wrt = [k for k, atom in enumerate(given) if isinstance(atom, Var) and atom.aval.is_float]
        ct = cotangents[self.solution]
        for k, other in enumerate(cotangents):
            if other is None or k == self.solution:
                continue
            if k not in self.values:
                raise DifferentiationError.here(
                    f"{self.names[k]} of {self.name} has no derivative: compute it from the solution", self.site
                )
            *shares, of_x = self._pulled(self.values[k], [*wrt, len(given)], [*given, x], other)
            for place, of in zip(wrt, shares, strict=True):
                share(self.reads[place], of)
            ct = of_x if ct is None else F.add(ct, of_x)
        if ct is None:
            return found
        success = None if self.success is None else outs[self.success]
        bounds = None if self.bounds is None else [operands[k] for k in self.bounds]
        weights, fast = self._weights(ct, x, given, success, bounds)
        for place, of in zip(wrt, self._pulled(self._residual(), wrt, [*given, x], weights), strict=True):
            share(self.reads[place], F.neg(of))
        if self.bounds is not None:
            for k, of in zip(self.bounds, fast, strict=True):
                share(k, of)
        return found

    def _pulled(self, graph: Graph, wrt: Sequence[int], operands: Sequence[Atom], ct: Atom) -> list[Atom]:
        key = (id(graph), tuple(wrt))
        if key not in self._made:
            self._made[key] = derivatives[0].pullback(graph, wrt)
        (output,) = graph.outputs
        ct, shape = cast(ct, output.aval.dtype), output.aval.shape
        ct = reshape(ct, shape) if ct.aval.size == output.aval.size else broadcast_to(ct, shape)
        return inlined(self._made[key], [*operands, ct])

    def _residual(self) -> Graph:
        """F as a graph."""
        if "F" not in self._made:
            graph, x = self.equation, len(self.equation.inputs) - 1
            if self.kind == FIXED_POINT:
                graph = extended(graph, lambda outs: [F.sub(graph.inputs[x], outs[0])])
            elif self.kind != ROOT:
                gradient = derivatives[0].pullback(graph, [x])
                with building(Builder()) as builder:
                    found = inlined(gradient, [*graph.inputs, structural(1, graph.outputs[0].aval.dtype)])
                graph = Graph(graph.inputs, builder.nodes, found)
            self._made["F"] = graph
        return self._made["F"]

    def _weights(
        self, ct: Atom, x: Atom, given: Sequence[Atom], success: Atom | None, bounds: Sequence[Atom] | None
    ) -> tuple[Atom, list[Atom]]:
        """u, with Jᵀ u = *ct*, and the cotangents of *bounds*."""
        residual, size, n = self._residual(), x.aval.size, len(given)
        shape = residual.outputs[0].aval.shape
        at = [*given, x]
        (value,) = inlined(residual, at)
        value, place, ct = (reshape(cast(v, x.aval.dtype), (size,)) for v in (value, x, ct))
        alone = self.apart or size == 1
        if alone:  # the diagonal
            jacobian = reshape(self._pulled(residual, [n], at, like(1, x))[0], (size,))
            diagonal = jacobian
        else:
            key = ("rows", n)
            if key not in self._made:
                self._made[key] = derivatives[0].pullback(residual, [n])
            unit = cast(diagonal_mask((size, size)), x.aval.dtype)
            seeds = cast(reshape(unit, (size, *shape)), residual.outputs[0].aval.dtype)
            rows = loop(self._made[key], at, [], [seeds], size)[0]
            jacobian = reshape(rows, (size, size))
            diagonal = reduce("sum", F.mul(unit, jacobian), (1,))
        held: list[Atom] = []
        if bounds is not None:
            held = _held(place, value, diagonal, bounds)
            fast = F.logical_or(*held)
            value = F.select(fast, like(0, value), value)
            if alone:
                jacobian = F.select(fast, like(1, jacobian), jacobian)
            else:
                jacobian = F.select(broadcast_to(reshape(fast, (size, 1)), (size, size)), unit, jacobian)
        ct = self._converged(ct, x, jacobian, value, success)
        u = F.div(ct, jacobian) if alone else reshape(lu_solve(lu(jacobian), reshape(ct, (size, 1)), True), (size,))
        zero = like(0, u)
        weights = F.select(fast, zero, u) if held else u
        return reshape(weights, shape), [reshape(F.select(h, u, zero), x.aval.shape) for h in held]

    def _converged(self, ct: Atom, x: Atom, jacobian: Atom, value: Atom, success: Atom | None) -> Atom:
        """*ct*, which is an error where the solver has not converged."""
        if success is None:
            return ct
        check = HostFunction(
            _Converged(self.name, self.site), [Aval(ct.aval.dtype, ct.aval.shape)], f"convergence of {self.name}",
            rule=_last, key=("converged", self.name),
        )  # fmt: skip
        return host_call(check, [success, x, jacobian, value, ct], relied=False)[0]


def _held(x: Atom, gradient: Atom, curvature: Atom, bounds: Sequence[Atom]) -> list[Atom]:
    """Whether each variable is held fast by its lower, and by its upper bound: Newton's step leads there."""
    lower, upper = [reshape(b, x.aval.shape) for b in bounds]
    least = F.le(F.mul(F.sub(x, lower), curvature), gradient)
    most = F.le(F.mul(F.sub(upper, x), curvature), F.neg(gradient))
    return [
        F.logical_or(F.le(x, lower), F.logical_and(F.isfinite(lower), least)),
        F.logical_or(F.ge(x, upper), F.logical_and(F.isfinite(upper), most)),
    ]


def _last(cts: Sequence[Atom | None], outs: Sequence[Var], operands: Sequence[Atom]) -> list[Atom | None]:
    return [*[None] * (len(operands) - 1), cts[0]]


@dataclass(frozen=True, slots=True)
class _Converged:
    """The cotangent, where a solver has converged, as it says or as Newton's step shows."""

    name: str
    site: Site | None

    def __call__(
        self, success: np.ndarray, x: np.ndarray, jacobian: np.ndarray, residual: np.ndarray, ct: np.ndarray
    ) -> np.ndarray:
        if not success:
            try:
                step = residual / jacobian if jacobian.ndim < 2 else np.linalg.solve(jacobian, residual)
            except np.linalg.LinAlgError:
                step = np.array(np.nan)
            if not np.all(np.abs(step) <= _CLOSE * (1 + np.max(np.abs(x), initial=0))):
                raise DifferentiationError.here(
                    f"{self.name} has not converged (Newton's step from where it stopped is "
                    f"{np.max(np.abs(step), initial=0):.1e}), so that there is no solution to differentiate: look at "
                    "the result's `success`, and give a better start, more iterations or another method",
                    self.site,
                )
        return ct
