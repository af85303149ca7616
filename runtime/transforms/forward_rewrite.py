"""The rules of forward mode (``forward.py``).

The tangents of a function's results are nodes beside those of its values (``codegen/derive/adjoint.py``), so the
tangent of a loop is one loop that carries both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...codegen.derive.adjoint import jvp_all
from ...tracer.ir.errors import DifferentiationError
from ...tracer.ir.graph import Atom, Var
from ...tracer.ops.complex import real_atoms
from ...tracer.record.array import to_atom
from ...tracer.record.recorder import Recorder
from ..mode import GRAD, Mode
from ..record.differentiable import differentiated, leaf_names
from ..record.inner import InnerRun, renamed, run_within
from .forward import Directional, Jvp, Linearize
from .inner_run import arguments_of, call_of, run_along
from .linear_map import split_linear
from .transform import Function, rewrites
from .values import described, fitting, joined, lanes_like, ones_like, tangible, values_of


def tangents_of(run: InnerRun, tangents: Sequence[Atom], results: Sequence[Atom]) -> list[Atom]:
    """The tangents of the *results* of *run*, for the real *tangents* of its variables' lanes."""
    lanes = real_atoms(results)
    found = jvp_all(run.nodes, dict(zip(run.lanes, tangents, strict=True)), lanes)
    return joined([found.get(x) if isinstance(x, Var) else None for x in lanes], results)


def _tuple(given: Any, what: str, name: str) -> tuple[Any, ...]:
    if isinstance(given, (tuple, list)):
        return tuple(given)
    raise DifferentiationError.here(
        f"{name} takes the {what} as a tuple, one for each argument of the function, but was given {described(given)}: "
        "write (x,)"
    )


@rewrites(Jvp)
def _jvp(rule: Jvp, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    primals, tangents = _tuple(args[0], "primals", "jvp"), args[1]
    if rule.argnums is None:
        tangents = _tuple(tangents, "tangents", "jvp")
    mode = Mode(GRAD, tuple(range(len(primals))) if rule.argnums is None else rule.argnums)
    call = call_of("jvp", fn, primals, args[2] if len(args) > 2 else {}, mode.positions)
    names = leaf_names(fn, call)
    wrt = differentiated(call, mode, names)
    values = [to_atom(call.leaves[k]) for k in wrt]
    structure = values_of(arguments_of(mode, primals)).form.structure
    shown = [f"`{names[k]}`" for k in wrt]
    given = fitting(tangents, values, structure, shown, "tangent", "primals")
    run = run_within(fn, call, wrt, recorder, has_aux=rule.has_aux)
    results = tangible(fn, run.out, "jvp")
    out = results.form.tree(tangents_of(run, lanes_like(given), results.atoms))
    return (run.out, out, run.aux) if rule.has_aux else (run.out, out)


@rewrites(Linearize)
def _linearize(rule: Linearize, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    every = tuple(range(len(args)))
    call = call_of("linearize", fn, args, {}, every)
    names = leaf_names(fn, call)
    wrt = differentiated(call, Mode(GRAD, every), names)
    run = run_within(fn, call, wrt, recorder, has_aux=rule.has_aux)
    results = tangible(fn, run.out, "linearize")
    dots = [renamed(x, recorder) for x in run.variables]
    start = len(recorder.nodes)
    found = tangents_of(run, lanes_like(dots), results.atoms)
    shown = [f"`{names[k]}`" for k in wrt]
    linear = split_linear(
        recorder,
        start,
        dots,
        found,
        results,
        values_of(args).form.structure,
        shown,
        "tangent",
        "arguments",
        single=False,
    )
    return (run.out, linear, run.aux) if rule.has_aux else (run.out, linear)


@rewrites(Directional)
def _directional(
    rule: Directional, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    run = run_along(rule.name, fn, recorder, args, kwargs, Mode(GRAD, rule.argnums))
    results = tangible(fn, run.out, rule.name)
    return results.form.tree(tangents_of(run, ones_like(run.variables), results.atoms))
