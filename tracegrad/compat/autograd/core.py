"""Products of vectors and Jacobians: HIPS autograd's ``core``.

``make_vjp(fun, x)`` within a recording records *fun* once; each call of ``vjp`` derives an adjoint of that part of
the program.  The operators (``differential_operators.py``) are functions over it that are compiled, so there is a
recording.  Outside of one, where users call it, *fun* runs as it is and ``vjp`` is a compiled function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...codegen.derive.adjoint import vjp_seeded
from ...codegen.derive.loop_adjoint import materialise
from ...runtime.compiled import CompiledFunction
from ...runtime.record.inner import renamed, whole
from ...tracer.ir.errors import DifferentiationError, TracegradError
from ...tracer.ir.graph import Atom, Var, lanes
from ...tracer.ir.trees import tree_flatten, tree_unflatten
from ...tracer.numpy_api.python_builtins import refuse_numbers_of_text
from ...tracer.ops.complex import real_atoms
from ...tracer.ops.elementwise import broadcast_to, cast
from ...tracer.record.array import TracedArray, to_atom, wrap
from ...tracer.record.recorder import Recorder, current_recorder
from ...tracer.reroll.inner_function import InnerFunction
from .primitives import (
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    primitive,
    primitive_jvps,
    primitive_vjps,
)
from .vspace import VSpace, is_number, vspace

Function = Callable[..., Any]

__all__ = [
    "VSpace", "def_linear", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum", "defvjp_argnums",
    "make_jvp", "make_vjp", "primitive", "primitive_jvps", "primitive_vjps", "vspace",
]  # fmt: skip


def make_vjp(fun: Function, x: Any) -> tuple[Function, Any]:
    """(vjp, ``fun(x)``) of a function of one argument, which may be a tree, as may its result."""
    recorder = current_recorder()
    return vjp_of_call(pulled(fun), fun, (x,), {}) if recorder is None else _recorded_vjp(fun, x, recorder)


def make_jvp(fun: Function, x: Any) -> Function:
    """The function of a tangent that gives (``fun(x)``, the derivative along it)."""

    def pushed(x: Any, v: Any) -> tuple[Any, Any]:
        vjp, ans = make_vjp(fun, x)
        transposed, _ = make_vjp(vjp, vspace(ans).zeros())  # of a linear function, so it doesn't matter where
        return ans, transposed(v)

    return functools.partial(pushed if current_recorder() is not None else CompiledFunction(pushed, target="auto"), x)


def pulled(fun: Function, make: Function = make_vjp) -> CompiledFunction:
    """The function of (cotangent, arguments of *fun*) that gives the result of vjp and the value."""

    def pull(g: Any, *args: Any, **kwargs: Any) -> Any:
        vjp, ans = make(fun, *args, **kwargs)
        return vjp(g), ans

    return CompiledFunction(pull, target="auto")


def vjp_of_call(pull: Function, fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Function, Any]:
    """(vjp, value) of a call of *fun* outside of a recording."""
    ans = fun(*args, **kwargs)

    def vjp(g: Any) -> Any:
        found, again = pull(g, *args, **kwargs)
        pairs = zip(tree_flatten(ans)[0], tree_flatten(again)[0], strict=True)
        if not all(_same(a, b) for a, b in pairs):
            raise TracegradError.here(
                f"{getattr(fun, '__name__', fun)} has another value in vjp than in make_vjp (it draws random numbers, "
                "or an array has been written to since); call both in a function that tracegrad.compile_grad decorates"
            )
        return found

    return vjp, ans


def _same(a: Any, b: Any) -> bool:
    if not is_number(a):
        return True
    rough = np.result_type(a).itemsize <= 4
    return np.shape(a) == np.shape(b) and np.allclose(a, b, 1e-2 if rough else 1e-6, 1e-3 if rough else 1e-9, True)


def _recorded_vjp(fun: Function, x: Any, recorder: Recorder) -> tuple[Function, Any]:
    leaves, structure = tree_flatten(x)
    recorder.stay_in_full()
    start = len(recorder.nodes)
    variables: list[Var] = [renamed(_floating(leaf), recorder) for leaf in leaves]
    wanted: Any = real_atoms(variables)
    owner = "an argument of the inner function"
    with recorder.differentiating(wanted), InnerFunction(recorder) as part:
        ans = fun(tree_unflatten(structure, [TracedArray(v, recorder, owner=owner) for v in variables]))
        refuse_numbers_of_text(recorder, ans, start)
    outputs, ans_structure = tree_flatten(ans)
    results = [to_atom(out) if is_number(out) else None for out in outputs]
    nodes = part.rolled([x for x in results if x is not None])

    def vjp(g: Any) -> Any:
        cotangents, found = tree_flatten(g)
        if len(cotangents) != len(results):
            raise TypeError(f"a cotangent of structure {found} for a value of structure {ans_structure}")
        seeds = []
        for out, ct in zip(results, cotangents, strict=True):
            if out is not None:
                re, im = _lanes(to_atom(ct))
                pair = [(out, re)] if not out.aval.is_complex else zip(lanes(out), (re, -im), strict=True)
                seeds += [(lane, broadcast_to(cast(c, lane.aval.dtype), lane.aval.shape)) for lane, c in pair]
        found, _ = vjp_seeded(nodes, seeds, wanted, careful=True)
        full = [materialise(ct, var) for ct, var in zip(found, wanted, strict=True)]
        return tree_unflatten(structure, [wrap(g) for g in whole(full, variables, -1)])

    return vjp, ans


def _lanes(ct: Atom) -> tuple[Atom, Any]:
    """The real and the imaginary part."""
    return lanes(ct) if ct.aval.is_complex else (ct, to_atom(0.0))


def _floating(leaf: Any) -> Atom:
    """A leaf of the argument; integers in arrays count as floats, as in HIPS autograd."""
    if not is_number(leaf):
        if not isinstance(leaf, (np.ndarray, TracedArray)) or leaf.dtype.kind not in "iu":
            raise DifferentiationError.here(f"Can't differentiate w.r.t. type {type(leaf)}")
        leaf = leaf.astype(float)
    return to_atom(leaf)
