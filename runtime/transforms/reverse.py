"""Reverse mode of functions of any results: ``vjp``, ``elementwise_grad``, ``make_vjp``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...codegen.derive.adjoint import vjp_seeded
from ...tracer.ir.graph import Atom
from ...tracer.ops.complex import real_atoms
from ...tracer.record.array import wrap
from ...tracer.record.recorder import Recorder
from ..declare import positions
from ..mode import GRAD, Mode
from ..record.inline import in_arguments
from ..record.inner import InnerRun, renamed
from .linear_map import split_linear
from .transform import Function, Transform, TransformRule, arguments_of, rule_of, run_along, transformed
from .values import joined, lanes_like, numbers_of, ones_like, values_of


def cotangents_of(
    run: InnerRun, results: Sequence[Atom], cotangents: Sequence[Atom], *, careful: bool = True
) -> list[Atom]:
    """The cotangents of the variables of *run* for the real *cotangents* of the lanes of its *results*."""
    seeds = list(zip(real_atoms(results), cotangents, strict=True))
    found, _ = vjp_seeded(run.nodes, seeds, run.lanes, careful=careful)
    return joined(found, run.variables, -1)


@dataclass(frozen=True, eq=False)
class Vjp(TransformRule):
    """``primals -> (value, the linear map of cotangents)``; with *argnums* to those of these arguments alone."""

    has_aux: bool = False
    argnums: int | tuple[int, ...] | None = None
    name = "vjp"

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode = Mode(GRAD, tuple(range(len(args))) if self.argnums is None else self.argnums)
        run = run_along(self.name, fn, recorder, args, kwargs, mode, self.has_aux)
        results = numbers_of(fn, run.out, "vjp")
        cts = [renamed(x, recorder) for x in results.atoms]
        start = len(recorder.nodes)
        found = cotangents_of(run, results.atoms, lanes_like(cts, -1))
        names = ["the value"] if len(cts) == 1 else [f"result {k}" for k in range(len(cts))]
        linear = split_linear(
            recorder, start, cts, found, values_of(arguments_of(mode, args)), results.form.structure, names,
            "cotangent", "value", single=True,
        )  # fmt: skip
        return (run.out, linear, run.aux) if self.has_aux else (run.out, linear)


@dataclass(frozen=True, eq=False)
class ElementwiseGrad(TransformRule):
    """The gradient of the sum of the results."""

    argnums: int | tuple[int, ...]
    name = "elementwise_grad"

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode = Mode(GRAD, self.argnums)
        run = run_along(self.name, fn, recorder, args, kwargs, mode)
        results = numbers_of(fn, run.out, self.name)
        found = cotangents_of(run, results.atoms, ones_like(results.atoms), careful=False)
        return in_arguments(run.call, mode, [wrap(g, recorder) for g in found])


# ---- what users call ---------------------------------------------------------------------------------------------


def vjp(fn: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(fn(*primals), vjp_fn)``, where ``vjp_fn(cotangent)`` is the tuple of the cotangents of *primals*.

        value, pull = vjp(f, w, x)
        of_w, of_x = pull(np.ones_like(value))

    The cotangent has the structure, shapes and dtypes of the value.  What the backward pass needs of the forward pass
    is kept; ``vjp_fn`` may be called many times, in compiled functions too.  With *has_aux*, of a function that returns
    (value, aux), the result is (value, vjp_fn, aux).

    :raises DifferentiationError: where an argument or a result is no float.
    """
    return transformed(rule_of(Vjp, has_aux), fn)(*primals)


def elementwise_grad(fn: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Transform:
    """The gradient of the sum of the results of *fn*: where *fn* works element by element the derivatives of all
    elements, by one reverse pass."""
    return transformed(rule_of(ElementwiseGrad, positions(argnums)), fn)


def make_vjp(fn: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """As in HIPS autograd: ``make_vjp(f)(x)`` is ``(vjp_fn, f(x))``, with the cotangent of argument *argnum* alone."""
    rule = rule_of(Vjp, False, positions(argnum))

    def vjp_maker(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        value, pullback = transformed(rule, fn)(*args, **kwargs)
        return pullback, value

    return vjp_maker
