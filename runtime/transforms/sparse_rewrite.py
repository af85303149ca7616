"""The rules of sparse Jacobians and Hessians (``sparse.py``).

The pattern is found while the function is recorded, and belongs to the recording; a call computes the entries alone
(``codegen/derive/compressed.py``).  Where positions that are data decide it (``x[index]``), a guard holds the call to
the same positions; others are another path, with a pattern of its own.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from ...codegen.cpu import greedy_colors as _greedy_colors  # noqa: F401  (the colouring in machine code)
from ...codegen.derive.adjoint import vjp
from ...codegen.derive.compressed import (
    LARGEST,
    SparseProgram,
    dense_program,
    hessian_program,
    jacobian_program,
)
from ...codegen.derive.compressed_products import emit, in_full
from ...tracer.ir.errors import DifferentiationError
from ...tracer.ir.graph import Atom, Node, Var, live_nodes, structural
from ...tracer.ir.trees import NAMESPACE
from ...tracer.ops.elementwise import F
from ...tracer.ops.reduce import reduce
from ...tracer.record.array import wrap_array
from ...tracer.record.recorder import Recorder
from ..mode import GRAD, Mode
from ..record.differentiable import loss_of
from ..record.inner import InnerRun
from ..record.sparse_arrays import Structure, csr_array, over
from .inner_run import run_along
from .sparse import SparseHessian, SparseJacobian
from .transform import rewrites
from .values import numbers_of

FEWER = 2  # times as many products are needed without compression, from which on it pays
SMALL = 8  # rows and columns, below which it does not


@functools.cache
def _recorded() -> Any:
    """The class of sparse arrays in a recording, which is a tree over the entries."""
    recorded: Any = type("RecordedSparse", (csr_array(),), {})

    def unflatten(structure: Any, children: Any) -> Any:
        return over(csr_array(), structure.shape, structure.indices, structure.indptr, children[0])

    def flatten(array: Any) -> Any:
        return (array.data,), Structure(array.shape, array.indices, array.indptr), None

    optree.register_pytree_node(recorded, flatten, unflatten, namespace=NAMESPACE)
    return recorded


@dataclass(frozen=True)
class SamePositions:
    """A premise of a recording: that it is one for these positions, whose contents a guard looks at.  Recordings for
    others are of other programs, with the same answer to that guard."""

    in_kernel: bytes  # a hash of them, by which plans on disk know it

    def holds(self) -> bool:
        return True


class Fixed:
    """Values of a recording that do not depend on floating-point inputs: integers and what is made of them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        consts = {var for var, _ in recorder.consts}
        self.free = self._reached({var for var in recorder.inputs if var.aval.is_float})
        made = {out for node in recorder.nodes for out in node.outs}
        self._known = (made | consts | set(recorder.inputs)) - self.free
        self._given = self._reached(set(recorder.inputs) - self.free)

    def _reached(self, sources: set[Var]) -> set[Var]:
        """*sources*, and all values of the recording that are made of one."""
        for node in self._recorder.nodes:
            if not sources.isdisjoint(node.inputs):
                sources.update(node.outs)
        return sources

    def value(self, var: Var) -> np.ndarray | None:
        """The value of *var* in this run, if it does not depend on floats."""
        return self._recorder.value(var) if var in self._known else None

    def of_arguments(self, values: Iterable[Var]) -> bool:
        """Whether one of *values* is made of an argument, so that it may be another one in each call."""
        recorder = self._recorder
        arguments = {var for var in recorder.inputs if var not in recorder.outside and not var.aval.is_float}
        return not self._reached(arguments).isdisjoint(values)

    def rely_on(self, values: dict[Var, np.ndarray]) -> None:
        """Let the recording hold for these *values* alone, or for those of the inputs that they are made of."""
        asked = {var: value for var, value in values.items() if var in self._given}
        inputs = self._inputs_of(asked)
        if sum(var.aval.size for var in inputs) <= sum(var.aval.size for var in asked):
            asked = {var: self._recorder.value(var) for var in inputs}
        for var, value in asked.items():
            if value.size:
                self._recorder.answered.questions.append(SamePositions(hashlib.sha256(value.tobytes()).digest()))
                same = F.eq(var, self._recorder.const(np.ascontiguousarray(value)))
                self._recorder.guard(reduce("all", same, tuple(range(value.ndim))) if value.ndim else same, "bool")

    def _inputs_of(self, values: Iterable[Var]) -> list[Var]:
        """The inputs that *values* are made of."""
        needed = set(values)
        for node in reversed(self._recorder.nodes):
            if not needed.isdisjoint(node.outs):
                needed.update(x for x in node.inputs if isinstance(x, Var))
        return [var for var in self._recorder.inputs if var in needed]


@rewrites(SparseJacobian)
def _sparse_jacobian(
    rule: SparseJacobian, fn: Callable[..., Any], recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    run = run_along(rule.name, fn, recorder, args, kwargs, Mode(GRAD, rule.argnums))
    results = numbers_of(fn, run.out, rule.name)
    if any(x.aval.is_complex for x in (*run.variables, *results.atoms)):
        raise DifferentiationError.here(
            f"{rule.name} is for real numbers: take it of np.real(z) and np.imag(z), as two results"
        )
    fixed = Fixed(recorder)
    nodes = live_nodes(run.nodes, results.atoms)
    program = jacobian_program(nodes, results.atoms, run.lanes, fixed.value)
    return _matrix(rule.name, fixed, program, nodes, results.atoms, run, recorder)


@rewrites(SparseHessian)
def _sparse_hessian(
    rule: SparseHessian, fn: Callable[..., Any], recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    run = run_along(rule.name, fn, recorder, args, kwargs, Mode(GRAD, rule.argnums))
    _, loss = loss_of(fn, run.out, Mode(GRAD, rule.argnums))
    if any(x.aval.is_complex for x in run.variables):
        raise DifferentiationError.here(f"{rule.name} is for real numbers: take it of real and imaginary parts")
    gradients = vjp(run.nodes, loss, structural(1, loss.aval.dtype), run.lanes)
    fixed = Fixed(recorder)
    nodes = live_nodes(run.nodes, gradients)
    program = hessian_program(nodes, gradients, run.lanes, fixed.value)
    return _matrix(rule.name, fixed, program, nodes, gradients, run, recorder)


def _matrix(
    name: str, fixed: Fixed, program: SparseProgram | None, nodes: Sequence[Node], outputs: Sequence[Atom],
    run: InnerRun, recorder: Recorder,
) -> Any:  # fmt: skip
    if program is None:
        rows, columns = (sum([x.aval.size for x in xs]) for xs in (outputs, run.lanes))
        if rows * columns > LARGEST:
            raise DifferentiationError.here(
                f"{name}: the matrix of {rows} x {columns} has no pattern of zeros that is known: each result may "
                "depend on each input; write autograd.jacobian or autograd.hessian, or products with it (jvp, hvp)"
            )
        program = dense_program(nodes, outputs, run.lanes)
    fixed.rely_on(program.pattern.relies_on)
    recorder.notes.append(str(program))
    pattern = program.pattern
    return over(_recorded(), pattern.shape, pattern.indices, pattern.indptr, wrap_array(emit(program, recorder.const)))


def compressed(
    nodes: Sequence[Node], outputs: Sequence[Atom], wrt: Sequence[Var], recorder: Recorder, *, symmetric: bool
) -> Atom | None:
    """The Jacobian of *outputs*, a row for each of their elements and a column for each of *wrt*, as an array by
    compressed products; None where these are not much fewer than those of the dense one, or where an argument decides
    which entries there are.  *symmetric*: it is a Hessian, of which *outputs* are the gradients."""
    rows, columns = (sum([x.aval.size for x in xs]) for xs in (outputs, wrt))
    most = (rows if rows < columns else columns) // FEWER
    if most < 1 or max(rows, columns) < SMALL:
        return None
    fixed = Fixed(recorder)
    nodes = live_nodes(nodes, outputs)
    find = hessian_program if symmetric else jacobian_program
    program = find(nodes, outputs, wrt, fixed.value, most)
    if program is None or program.pattern.nnz * FEWER > rows * columns or fixed.of_arguments(program.pattern.relies_on):
        return None
    fixed.rely_on(program.pattern.relies_on)
    recorder.notes.append(str(program))
    return in_full(program, recorder.const)
