"""Forward mode: ``jvp``, ``linearize``, ``derivative``, ``make_jvp``.

The tangents of a function's results are nodes beside those of its values (``codegen/derive/adjoint.py``), so the
tangent of a loop is one loop that carries both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...codegen.derive.adjoint import jvp_all
from ...tracer.ir.errors import DifferentiationError
from ...tracer.ir.graph import Atom, Var
from ...tracer.ops.complex import real_atoms
from ...tracer.record.array import to_atom
from ...tracer.record.recorder import Recorder
from ..declare import positions
from ..mode import GRAD, Mode
from ..record.differentiable import differentiated, leaf_names
from ..record.inner import InnerRun, renamed, run_within
from .linear_map import split_linear
from .transform import Function, Transform, TransformRule, arguments_of, call_of, rule_of, run_along, transformed
from .values import described, fitting, joined, lanes_like, ones_like, values_of


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


@dataclass(frozen=True, eq=False)
class Jvp(TransformRule):
    """``(primals, tangents) -> (value, tangent of the value)``; with *argnums* the tangents are those of these
    arguments alone, and others may be passed by name."""

    has_aux: bool = False
    argnums: int | tuple[int, ...] | None = None
    name = "jvp"

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        primals, tangents = _tuple(args[0], "primals", "jvp"), args[1]
        if self.argnums is None:
            tangents = _tuple(tangents, "tangents", "jvp")
        mode = Mode(GRAD, tuple(range(len(primals))) if self.argnums is None else self.argnums)
        call = call_of("jvp", fn, primals, args[2] if len(args) > 2 else {}, mode.positions)
        names = leaf_names(fn, call)
        wrt = differentiated(call, mode, names)
        values = [to_atom(call.leaves[k]) for k in wrt]
        structure = values_of(arguments_of(mode, primals)).form.structure
        shown = [f"`{names[k]}`" for k in wrt]
        given = fitting(tangents, values, structure, shown, "tangent", "primals")
        run = run_within(fn, call, wrt, recorder, has_aux=self.has_aux)
        results = values_of(run.out)
        out = results.form.tree(tangents_of(run, lanes_like(given), results.atoms))
        return (run.out, out, run.aux) if self.has_aux else (run.out, out)


@dataclass(frozen=True, eq=False)
class Linearize(TransformRule):
    """``primals -> (value, the linear map of tangents)``."""

    has_aux: bool = False
    name = "linearize"

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        every = tuple(range(len(args)))
        call = call_of("linearize", fn, args, {}, every)
        names = leaf_names(fn, call)
        wrt = differentiated(call, Mode(GRAD, every), names)
        run = run_within(fn, call, wrt, recorder, has_aux=self.has_aux)
        results = values_of(run.out)
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
        return (run.out, linear, run.aux) if self.has_aux else (run.out, linear)


@dataclass(frozen=True, eq=False)
class Directional(TransformRule):
    """The derivative along ones: of a function of a number its derivative."""

    argnums: int | tuple[int, ...]
    name = "derivative"

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        run = run_along(self.name, fn, recorder, args, kwargs, Mode(GRAD, self.argnums))
        results = values_of(run.out)
        return results.form.tree(tangents_of(run, ones_like(run.variables), results.atoms))


# ---- what users call ---------------------------------------------------------------------------------------------


def jvp(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """``(fn(*primals), J @ tangents)``: the value and its directional derivative, in one forward pass.

        value, tangent = jvp(lambda x: np.sin(x) * x[::-1], (x,), (v,))                # both of the shape of the value

    :param primals: the arguments, a tuple or list: trees of floats and float arrays.
    :param tangents: the direction, in the structure, shapes and dtypes of *primals*.
    :param has_aux: *fn* returns (value, aux); the result is (value, tangent, aux).
    :returns: (value, tangent), the tangent in the structure of the value.
    :raises DifferentiationError: where an argument is no float or a tangent does not fit.
    """
    return transformed(rule_of(Jvp, has_aux), fn, ("primals", "tangents"))(primals, tangents)


def linearize(fn: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(fn(*primals), f_jvp)``, where ``f_jvp(*tangents)`` is the tangent of the value: the linear map at *primals*,
    which may be called many times.  What it needs of the values is kept, and not computed again.

        value, push = linearize(f, x)
        columns = vmap(push, out_axes=1)(np.eye(x.size))                                               # the Jacobian

    With *has_aux*, of a function that returns (value, aux), the result is (value, f_jvp, aux).

    :raises DifferentiationError: where an argument is no float or a tangent does not fit.
    """
    return transformed(rule_of(Linearize, has_aux), fn)(*primals)


def derivative(fn: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Transform:
    """The derivative of *fn* with respect to a number, by forward mode: of the shape of the value.

    Of a function of an array that works element by element it is the array of the derivatives (the derivative along
    ones).
    """
    return transformed(rule_of(Directional, positions(argnums)), fn)


def make_jvp(fn: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """As in HIPS autograd: ``make_jvp(f)(x)(v)`` is ``(f(x), J(x) @ v)``, with J with respect to argument *argnum*."""
    rule = rule_of(Jvp, False, positions(argnum))

    def jvp_maker(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        return lambda v: transformed(rule, fn, ("primals", "tangents", "keywords"))(args, v, kwargs)

    return jvp_maker
