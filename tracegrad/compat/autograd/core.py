"""Products of vectors and Jacobians: HIPS autograd's ``core``.

``make_vjp(fun, x)`` and ``make_jvp(fun, x)`` within a recording record *fun* once (``Linearized``); each call of what
they return derives an adjoint, or the tangents, of that part of the program.  The operators
(``differential_operators.py``) are functions over it that are compiled, so there is a recording.  Outside of one, where
users call ``make_vjp``, *fun* runs as it is and ``vjp`` is a compiled function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...codegen.derive.adjoint import jvp_all, vjp_seeded
from ...codegen.derive.loop_adjoint import materialise
from ...runtime.compiled import CompiledFunction
from ...runtime.record.inner import renamed
from ...tracer.ir.errors import DifferentiationError, TracegradError
from ...tracer.ir.graph import Atom, Var, lanes
from ...tracer.ir.trees import tree_flatten, tree_unflatten
from ...tracer.numpy_api.python_builtins import refuse_numbers_of_text
from ...tracer.ops.complex import conjugate, put_together, real_atoms
from ...tracer.ops.elementwise import broadcast_to, cast
from ...tracer.record.array import TracedArray, to_atom, wrap
from ...tracer.record.recorder import Recorder, current_recorder
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
    if recorder is None:
        return vjp_of_call(pulled(fun), fun, (x,), {})
    run = Linearized(fun, x, recorder)
    return run.vjp, run.ans


def make_jvp(fun: Function, x: Any) -> Function:
    """The function of a tangent that gives (``fun(x)``, the derivative along it)."""

    recorder = current_recorder()
    if recorder is not None:
        run = Linearized(fun, x, recorder)
        return lambda v: (run.ans, run.jvp(v))
    return functools.partial(CompiledFunction(lambda x, v: make_jvp(fun, x)(v), target="auto"), x)


def make_jvp_reversemode(fun: Function, x: Any) -> Function:
    """As ``make_jvp``, without the value, by reverse mode twice."""
    vjp, ans = make_vjp(fun, x)
    transposed, _ = make_vjp(vjp, vspace(ans).zeros())  # of a linear function, so it doesn't matter where
    return transposed


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


class Linearized:
    """*fun* recorded at *x*, which may be a tree, as may its value *ans*."""

    def __init__(self, fun: Function, x: Any, recorder: Recorder) -> None:
        leaves, self._structure = tree_flatten(x)
        start = len(recorder.nodes)
        self._variables: list[Var] = [renamed(to_atom(floating(leaf)), recorder) for leaf in leaves]
        wanted: Any = real_atoms(self._variables)
        self._wanted: list[Var] = wanted
        owner = "an argument of the inner function"
        first, first_guard = len(recorder.nodes), len(recorder.guards)
        with recorder.differentiating(self._wanted):
            given = [TracedArray(v, recorder, owner=owner) for v in self._variables]
            self.ans = fun(tree_unflatten(self._structure, given))
            refuse_numbers_of_text(recorder, self.ans, start)
        self._outputs, self._ans_structure = tree_flatten(self.ans)
        self._results = [to_atom(out) if is_number(out) else None for out in self._outputs]
        results = real_atoms([x for x in self._results if x is not None])
        self._nodes = recorder.part_behind(results, first, first_guard)

    def vjp(self, g: Any) -> Any:
        """The product of the cotangent *g* and the Jacobian."""
        cotangents, found = tree_flatten(g)
        if len(cotangents) != len(self._results):
            raise TypeError(f"a cotangent of structure {found} for a value of structure {self._ans_structure}")
        seeds: list[tuple[Atom, Atom]] = []
        for out, ct in zip(self._results, cotangents, strict=True):
            if out is not None:
                seeds += zip(real_atoms([out]), _lanes_of(ct, out, -1), strict=True)
        cts, _ = vjp_seeded(self._nodes, seeds, self._wanted, careful=True)
        full = [materialise(ct, var) for ct, var in zip(cts, self._wanted, strict=True)]
        return tree_unflatten(self._structure, [wrap(conjugate(x)) for x in put_together(full, self._variables)])

    def jvp(self, v: Any) -> Any:
        """The product of the Jacobian and the tangent *v*; None where the value has something that is no number."""
        tangents, found = tree_flatten(v)
        if len(tangents) != len(self._variables):
            raise TypeError(f"a tangent of structure {found} for an argument of structure {self._structure}")
        seeds: list[Atom] = []
        for var, t in zip(self._variables, tangents, strict=True):
            seeds += _lanes_of(t, var, 1)
        results = [x for x in self._results if x is not None]
        lanes = real_atoms(results)
        pushed: Any = jvp_all(self._nodes, dict(zip(self._wanted, seeds, strict=True)), lanes)
        full = [materialise(pushed.get(x), x) for x in lanes]
        given = iter([wrap(t) for t in put_together(full, results)])
        return tree_unflatten(self._ans_structure, [None if x is None else next(given) for x in self._results])


def _lanes_of(value: Any, like: Atom, sign: int) -> list[Atom]:
    """The real lanes of a tangent of *like*, or of a cotangent (*sign* -1)."""
    re, im = _lanes(to_atom(value))
    pair = [(re, lane) for lane in real_atoms([like])]
    if like.aval.is_complex:
        pair[1] = (im if sign > 0 else -im), pair[1][1]
    return [broadcast_to(cast(x, lane.aval.dtype), lane.aval.shape) for x, lane in pair]


def _lanes(ct: Atom) -> tuple[Atom, Any]:
    """The real and the imaginary part."""
    return lanes(ct) if ct.aval.is_complex else (ct, to_atom(0.0))


def floating(leaf: Any) -> Any:
    """A leaf of the argument; integers in arrays count as floats, as in HIPS autograd."""
    if is_number(leaf):
        return leaf
    if not isinstance(leaf, (np.ndarray, TracedArray)) or leaf.dtype.kind not in "iu":
        raise DifferentiationError.here(f"Can't differentiate w.r.t. type {type(leaf)}")
    return leaf.astype(float)
