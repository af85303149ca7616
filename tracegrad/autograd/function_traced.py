"""``Function`` in functions of NumPy code, which ``compile_grad`` records: arguments are traced arrays there.

The user's methods see tensors over traced arrays (``_Inline``).  ``apply`` records forward, then names its results
anew by ``custom_vjp`` (``tracer/ops/custom.py``) with a rule that runs the user's backward whenever an adjoint is
derived.  The rule finds arguments, results and other saved tensors among its operands, so it can be derived any number
of times, and its own derivative follows from its recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runtime.record.kinds import treat_as_eager, treat_as_namespace
from ..tensors.capture import Capture
from ..tensors.modes import STATE, no_grad
from ..tensors.tensor import Tensor, make, raw
from ..tracer.ir.aval import FLOAT_KINDS, Aval, is_number
from ..tracer.ir.errors import UnsupportedError
from ..tracer.ir.graph import Atom, Lit, Var
from ..tracer.ir.refusals import Refusal
from ..tracer.ir.site import user_site
from ..tracer.ops.custom import custom_vjp
from ..tracer.ops.elementwise import F, broadcast_to
from ..tracer.ops.shape import zeros
from ..tracer.record.array import TracedArray, to_atom, wrap, wrap_array
from ..tracer.record.recorder import Recorder, current_recorder, require_recorder
from ..tracer.rules.known_programs import rule_of
from ..tracer.rules.programs import REVERSE, Layout
from .function_context import FunctionCtx, backward_of, fitted, gradients, run_forward

treat_as_eager(Tensor)
treat_as_namespace(FunctionCtx)

ONCE = "trying to differentiate twice a function that was marked with @once_differentiable"


class _Inline(Capture):
    """Tensors over the traced arrays of a recording that belongs to somebody else."""

    def _lift(self, t: Tensor) -> TracedArray:
        if t._base is not None:
            return super()._lift(t)
        owner = "a tensor from outside the Function"
        data = np.asarray(t._data)
        return TracedArray(to_atom(data) if data.ndim else Lit(data[()], data.dtype), self.recorder, owner=owner)

    def number(self, place: tuple[Any, ...]) -> TracedArray:
        raise NotImplementedError("an optimizer step within a Function")

    def fresh(self, draw: Callable[[], np.ndarray], generator: Any) -> TracedArray:
        self.refuse(Refusal.CALLS_RANDOM, what="in a Function")
        return self.constant(np.asarray(draw()))


@contextmanager
def _tensors(recorder: Recorder) -> Iterator[None]:
    """A context in which the eager layer works on the traced arrays of *recorder*, without its own tape."""
    before = STATE.capture
    if not isinstance(before, _Inline) or before.recorder is not recorder:
        STATE.capture = _Inline(recorder)
    try:
        with no_grad():
            yield
    finally:
        STATE.capture = before


def wanted(args: tuple[Any, ...]) -> bool:
    """Whether the derivative belongs into the recording in progress, not on the tape."""
    if STATE.capture is None:
        if any(type(a) is TracedArray for a in args):
            return True
        return current_recorder() is not None and not any(isinstance(a, Tensor) for a in args)
    return isinstance(STATE.capture, _Inline) and not STATE.grad


@dataclass(eq=False, slots=True)
class _Rule:
    """The user's backward as a rule of the recording."""

    function: Any
    ctx: FunctionCtx
    label: str
    tensors: tuple[bool, ...]  # whether each argument is an array
    results: list[tuple[Aval | None, int | None]]  # (aval, index among the outs) of each result of forward
    saved: list[tuple[str, int] | None]  # place of each saved tensor: ("operand", k) or ("out", k)

    def __call__(self, cts: Sequence[Atom | None], outs: Sequence[Var], atoms: Sequence[Atom]) -> list[Atom | None]:
        recorder = require_recorder("the backward of a Function")
        operands = atoms[: sum(self.tensors)]
        ctx, backward, prepares = self.ctx, backward_of(self.function), recorder.outermost().prepares
        if prepares is not None:
            backward = prepares(backward)
        with _tensors(recorder):
            places = {"operand": atoms, "out": outs}
            before, ctx._given = ctx._given, tuple([
                None if place is None else make(wrap_array(places[place[0]][place[1]])) for place in self.saved
            ])  # fmt: skip
            try:
                result = backward(ctx, *[self._cotangent(cts, *r) for r in self.results])
            finally:
                ctx._given = before
            found: list[Atom | None] = [None] * len(operands)
            for k, (g, operand) in enumerate(zip(gradients(self.label, result, self.tensors), operands, strict=True)):
                if g is not None and operand.aval.is_float:
                    found[k] = to_atom(raw(fitted(self.label, g, operand.aval, k)))
        if getattr(backward, "_tracegrad_once", False):
            found = _last(found, [*[ct for ct in cts if ct is not None], *outs, *atoms])
        return [*found, *[None] * (len(atoms) - len(operands))]

    def _cotangent(self, cts: Sequence[Atom | None], aval: Aval | None, position: int | None) -> Tensor | None:
        ct = None if position is None else cts[position]
        if aval is None or (ct is None and not self.ctx._materialize):
            return None
        atom = zeros(aval.shape, aval.dtype) if ct is None else ct
        return make(wrap_array(broadcast_to(atom, aval.shape) if isinstance(atom, Lit) else atom))


def _last(found: list[Atom | None], sources: Sequence[Atom]) -> list[Atom | None]:
    """Gradients whose own derivative, by way of *sources*, is an error."""

    def refuse(cts: Any, outs: Any, atoms: Any) -> Any:
        raise RuntimeError(ONCE)

    return [custom_vjp([g], sources, refuse)[0] if isinstance(g, Var) else g for g in found]


def apply(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``MyFn.apply`` within a recording; for traced arrays the results are traced arrays."""
    recorder = require_recorder("a Function on traced arrays")
    ctx = FunctionCtx()
    as_tensors = any(isinstance(a, Tensor) for a in args)
    with _tensors(recorder):
        passed = tuple([_argument(a) for a in args])
        tensors = [t for t in passed if isinstance(t, Tensor)]
        operands = [to_atom(raw(t)) for t in tensors]  # before forward, which might write into them
        ctx.needs_input_grad = tuple([isinstance(t, Tensor) and t._requires for t in passed])
        result = run_forward(cls, ctx, passed, kwargs)
        if ctx._dirty:
            raise NotImplementedError(
                "mark_dirty() is not supported in a compiled function: write into a copy (y = x.clone()) and return "
                "that"
            )
        given = [make(r) if type(r) is TracedArray else r for r in (result if isinstance(result, tuple) else (result,))]
        positions = _positions(ctx, given)
        values = [_named(to_atom(raw(r)), recorder) for r, p in zip(given, positions, strict=True) if p is not None]
        outs: tuple[Var, ...] = ()
        if values and operands:
            saved, extra = _places(ctx, tensors, given, positions)
            arguments = tuple([isinstance(t, Tensor) for t in passed])
            results = [(_aval(r), p) for r, p in zip(given, positions, strict=True)]
            rule = _Rule(cls, ctx, f"{cls.__name__}Backward", arguments, results, saved)
            outs = _with_rule(recorder, rule, values, [*operands, *extra])
        ctx._to_save = ctx._non_differentiable = ()
        finished = [
            _finished(r, outs[p] if outs and p is not None else None, as_tensors) if isinstance(r, Tensor) else r
            for r, p in zip(given, positions, strict=True)
        ]
    return tuple(finished) if isinstance(result, tuple) else finished[0]


def _with_rule(recorder: Recorder, rule: _Rule, values: list[Var], operands: list[Atom]) -> tuple[Var, ...]:
    """*values* with the *rule* as a program, which goes into loops and batches; but where the backward is to see which
    cotangents there are."""
    if not rule.ctx._materialize:
        return custom_vjp(values, operands, rule)
    layout = Layout(REVERSE, tuple([x.aval for x in operands]), tuple([x.aval for x in values]))

    def apply(operands: list[Atom], outs: list[Any], cotangents: list[Atom]) -> list[Atom | None]:
        return rule(cotangents, outs, operands)

    program = rule_of(
        recorder, rule.label, layout, (rule.label, id(rule)), [rule], [rule], apply, user_site(), None, strict=False
    )
    return custom_vjp(values, [*operands, *program.consts, *values], program)


def _argument(value: Any) -> Any:
    """The argument of forward: a tensor over a traced array, whatever kind of array was passed."""
    if isinstance(value, Tensor):
        result = make(raw(value))
    elif type(value) is TracedArray or (isinstance(value, np.ndarray) and is_number(value.dtype)):
        result = make(value)
    else:
        return value
    _check_real(result)
    result._requires = raw(result).dtype.kind in FLOAT_KINDS
    return result


def _check_real(t: Tensor) -> None:
    if raw(t).dtype.kind == "c":
        raise UnsupportedError.here(
            "a Function of complex arrays is not supported in NumPy code that is recorded: pass z.real and z.imag, or "
            "write the rule with tracegrad.custom_vjp"
        )


def _positions(ctx: FunctionCtx, given: Sequence[Any]) -> list[int | None]:
    """The index of each result of forward among the differentiable ones."""
    positions: list[int | None] = []
    count = 0
    for r in given:
        if isinstance(r, Tensor):
            _check_real(r)
        known = isinstance(r, Tensor) and raw(r).dtype.kind in FLOAT_KINDS
        known = known and not any(r is n for n in ctx._non_differentiable)
        positions.append(count if known else None)
        count += known
    return positions


def _aval(r: Any) -> Aval | None:
    return Aval(raw(r).dtype, raw(r).shape) if isinstance(r, Tensor) else None


def _finished(r: Tensor, out: Var | None, as_tensors: bool) -> Any:
    """A result as the caller gets it; without a derivative where it has none."""
    data = raw(r)
    atom = to_atom(data) if out is None else out
    if out is None and atom.aval.is_float:
        atom = F.stop_gradient(atom)
    traced = wrap_array(atom, c_order=data.known_c_order()) if data.ndim or as_tensors else wrap(atom)
    return make(traced) if as_tensors else traced


def _named(atom: Atom, recorder: Recorder) -> Var:
    """*atom* as a Var: a constant gets a name."""
    return recorder.const(np.asarray(atom.value)) if isinstance(atom, Lit) else atom


def _places(
    ctx: FunctionCtx, tensors: Sequence[Tensor], given: Sequence[Any], positions: Sequence[int | None]
) -> tuple[list[tuple[str, int] | None], list[Atom]]:
    """(positions of the saved tensors among the rule's operands, further operands).

    A saved tensor that is neither argument nor result is a constant to derivatives of the backward, as on the tape.
    """
    places: list[tuple[str, int] | None] = []
    extra: list[Atom] = []
    for t in ctx._to_save:
        if t is None:
            places.append(None)
            continue
        argument = next((k for k, other in enumerate(tensors) if other is t), None)
        out = next((p for r, p in zip(given, positions, strict=True) if r is t and p is not None), None)
        if out is not None:
            places.append(("out", out))
        elif argument is not None:
            places.append(("operand", argument))
        else:
            places.append(("operand", len(tensors) + len(extra)))
            atom = to_atom(raw(t))
            extra.append(F.stop_gradient(atom) if atom.aval.is_float else atom)
    return places, extra
