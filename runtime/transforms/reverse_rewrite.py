"""The rules of reverse mode (``reverse.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...codegen.derive.adjoint import vjp_seeded
from ...tracer.ir.graph import Atom
from ...tracer.ops.complex import real_atoms
from ...tracer.record.array import wrap
from ...tracer.record.recorder import Recorder
from ..mode import GRAD, Mode
from ..record.inline import in_arguments
from ..record.inner import InnerRun, renamed
from .inner_run import arguments_of, run_along
from .linear_map import split_linear
from .reverse import ElementwiseGrad, Vjp
from .transform import Function, rewrites
from .values import joined, lanes_like, numbers_of, ones_like, values_of


def cotangents_of(
    run: InnerRun, results: Sequence[Atom], cotangents: Sequence[Atom], *, careful: bool = True
) -> list[Atom]:
    """The cotangents of the variables of *run* for the real *cotangents* of the lanes of its *results*."""
    seeds = list(zip(real_atoms(results), cotangents, strict=True))
    found, _ = vjp_seeded(run.nodes, seeds, run.lanes, careful=careful)
    return joined(found, run.variables, -1)


@rewrites(Vjp)
def _vjp(rule: Vjp, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mode = Mode(GRAD, tuple(range(len(args))) if rule.argnums is None else rule.argnums)
    run = run_along(rule.name, fn, recorder, args, kwargs, mode, rule.has_aux)
    results = numbers_of(fn, run.out, "vjp")
    cts = [renamed(x, recorder) for x in results.atoms]
    start = len(recorder.nodes)
    found = cotangents_of(run, results.atoms, lanes_like(cts, -1))
    names = ["the value"] if len(cts) == 1 else [f"result {k}" for k in range(len(cts))]
    linear = split_linear(
        recorder, start, cts, found, values_of(arguments_of(mode, args)), results.form.structure, names,
        "cotangent", "value", single=True,
    )  # fmt: skip
    return (run.out, linear, run.aux) if rule.has_aux else (run.out, linear)


@rewrites(ElementwiseGrad)
def _elementwise_grad(
    rule: ElementwiseGrad, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    mode = Mode(GRAD, rule.argnums)
    run = run_along(rule.name, fn, recorder, args, kwargs, mode)
    results = numbers_of(fn, run.out, rule.name)
    found = cotangents_of(run, results.atoms, ones_like(results.atoms), careful=False)
    return in_arguments(run.call, mode, [wrap(g, recorder) for g in found])
