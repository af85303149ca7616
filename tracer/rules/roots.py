"""Derivatives of solutions without those of their solvers: ``implicit_root``, ``custom_root``, ``fixed_point`` and
``custom_linear_solve``.

A solver is any code, and is not differentiated.  The equation that its result solves is recorded once as a program of
the solution (``equations.py``).  Where the user gives no way to solve the linear system of the implicit function
theorem, the rule is that of SciPy's solvers (``scipy_api/implicit.py``), which makes the Jacobian and its factors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..control.sub_program import record_function
from ..control.trees import function_name, structure_text
from ..control.while_loop import while_loop
from ..ir.aval import Aval
from ..ir.errors import ShapeError, TracegradError
from ..ir.graph import Atom, Lit
from ..ir.site import user_site
from ..ir.trees import tree_flatten, tree_leaves, tree_unflatten
from ..numpy_api.creation import stop_gradient
from ..ops.closure_conversion import inlined
from ..ops.custom import custom_vjp as named_anew
from ..ops.elementwise import F, cast
from ..ops.host_call import derivatives
from ..record.array import TracedArray, to_atom
from ..record.recorder import Recorder, current_recorder
from ..scipy_api.implicit import FIXED_POINT, ROOT, Implicit
from .arguments import P, R, Results, RuleArguments, is_data, leaves_like, strong
from .custom_rules import RuleParts, traced, with_rules
from .equations import Equation, Function
from .host_code import HostCode
from .programs import FORWARD, REVERSE, Apply

# ---- implicit_root ---------------------------------------------------------------------------------------------------


def implicit_root(
    optimality: Function, has_aux: bool = False, solve: Function | None = None, host: bool = True
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator for solvers of ``optimality(x, *args) = 0``, whose derivative with respect to *args* is then that of
    the equation, by the implicit function theorem; as jaxopt's ``custom_root``.

        @implicit_root(lambda x, theta: x**3 + x - theta)
        def solver(init, theta):
            return scipy.optimize.newton(lambda x: x**3 + x - theta, init)

    The solver takes a start and *args*, and returns x, a tree of floats like the start (or where that is None any);
    with *has_aux* (x, aux).  It is any code of Python's and SciPy's, and runs on the host in each call; with
    ``host=False`` it is recorded and compiled with the rest.

    :param solve: ``solve(matvec, b)`` solves the linear systems; by default by the factors of the Jacobian.
    """

    def decorate(solver: Function) -> Function:
        code = HostCode(solver) if host else None
        recorded = None if host else solver

        @functools.wraps(solver)
        def wrapped(init: Any, *args: Any, **kwargs: Any) -> Any:
            recorder = current_recorder()
            if recorder is None:
                return solver(init, *args, **kwargs) if code is None else code(init, *args, **kwargs)
            if code is None:
                assert recorded is not None
                found = recorded(init, *args, **kwargs)
            else:
                found = _on_host(code, recorder, init, args, kwargs, has_aux)
            x, aux = found if has_aux else (found, None)

            def equation(x: Any) -> Any:
                return optimality(x, *args, **kwargs)

            name = function_name(solver)
            if solve is None:
                x = with_implicit_rule(recorder, name, ROOT, equation, x)
            else:
                x = custom_root(equation, x, lambda f, x: x, solve)
            return (x, stop_gradient(aux)) if has_aux else x

        return wrapped

    return decorate


def _on_host(
    code: HostCode, recorder: Recorder, init: Any, args: tuple[Any, ...], kwargs: dict[str, Any], has_aux: bool
) -> Any:
    run = code.call((init, *args), kwargs)
    if not run.traced:
        return code(init, *args, **kwargs)
    operands = [to_atom(x) for x in run.data]
    start = tree_leaves(init)
    if has_aux or not start or not all(is_data(x) and to_atom(x).aval.is_float for x in start):
        run.run_once(recorder, operands)
    else:
        run.declare(tree_flatten(init)[1], [strong(to_atom(x).aval) for x in start])
    return run.recorded(operands)


def with_implicit_rule(recorder: Recorder, name: str, kind: str, equation: Function, x: Any) -> Any:
    """*x*, a solution of *equation*, with the derivative of the implicit function theorem."""
    results = Results(name, x)
    if not results.atoms or len(results.atoms) != len(results.leaves):
        raise ShapeError.here(f"{name} gives a solution that is no tree of floats")
    avals = results.avals
    dtype = np.result_type(*[a.dtype for a in avals])
    size = sum(a.size for a in avals)
    one = len(avals) == 1

    def flat(x: Any) -> Any:
        """The equation on one vector; or on the array itself."""
        found = tree_leaves(equation(tree_unflatten(results.structure, [x] if one else _parts(x, avals))))
        shapes = [np.shape(y) for y in found]
        if shapes != [a.shape for a in avals]:
            raise ShapeError.here(
                f"{name}: the equation has values of the shapes {shapes} for a solution of {[a.shape for a in avals]}"
            )
        return found[0] if one else np.concatenate([np.ravel(y) for y in found])

    variable = Aval(dtype, avals[0].shape if one else (size,))
    program, consts = record_function(recorder, name, flat, [variable])
    rule = Implicit(name, kind, program.values, range(len(consts)), 0, None, {}, [name], None, False, user_site())
    whole = results.leaves[0] if one else np.concatenate([np.ravel(leaf) for leaf in results.leaves])
    value = cast(to_atom(whole), dtype)
    if isinstance(value, Lit):
        value = recorder.const(np.asarray(value.value))
    (out,) = named_anew([value], consts, rule)
    parts = [traced(out, results.leaves[0])] if one else _parts(traced(out), avals)
    return tree_unflatten(results.structure, parts)


def _parts(x: Any, avals: Sequence[Aval]) -> list[Any]:
    found, start = [], 0
    for aval in avals:
        found.append(np.reshape(x[start : start + aval.size], aval.shape).astype(aval.dtype))
        start += aval.size
    return found


# ---- fixed_point -----------------------------------------------------------------------------------------------------


def fixed_point(
    f: Function, x0: Any, *args: Any, tol: float = 1e-10, max_steps: int = 1000, solve: Function | None = None
) -> Any:
    """The x to which ``x = f(x, *args)`` converges from *x0*, a tree of floats.

    It iterates until no element changes by more than *tol* times (1 + its size), as one loop of the compiled program.
    The derivative, with respect to *args* and whatever *f* closes over, is that of the equation ``x = f(x, *args)``.

    :param solve: ``solve(matvec, b)`` solves the linear systems of the derivative; by default by factors.
    :raises TracegradError: it has not converged after *max_steps*.
    """
    structure = tree_flatten(x0)[1]

    def step(x: Any) -> Any:
        return tree_unflatten(structure, leaves_like(f(x, *args), structure, f"the result of {function_name(f)}"))

    def close(x: Any, y: Any) -> Any:
        pairs = zip(tree_leaves(x), tree_leaves(y), strict=True)
        return functools.reduce(np.logical_and, [np.all(np.abs(a - b) <= tol * (1 + np.abs(b))) for a, b in pairs])

    start = _floats(x0)
    x, before, _ = while_loop(
        lambda c: np.logical_and(np.logical_not(close(c[1], c[0])), c[2] < max_steps),
        lambda c: (_floats(step(c[0])), c[0], c[2] + 1),
        (_floats(step(start)), start, 1),
    )
    message = f"fixed_point of {function_name(f)} has not converged after {max_steps} steps: give max_steps or tol"
    recorder, converged, site = current_recorder(), close(before, x), user_site()
    if recorder is None or not isinstance(converged, TracedArray):
        if not converged:
            raise TracegradError.here(message)
        return x
    recorder.rely(to_atom(converged), lambda: TracegradError.here(message, site))
    name = f"fixed_point of {function_name(f)}"
    if solve is None:
        return with_implicit_rule(recorder, name, FIXED_POINT, step, x)
    return custom_root(lambda x: _difference(x, step(x)), x, lambda g, x: x, solve)


def _floats(tree: Any) -> Any:
    leaves, structure = tree_flatten(tree)
    return tree_unflatten(structure, [x if isinstance(x, TracedArray) else np.asarray(x, float)[()] for x in leaves])


def _difference(x: Any, y: Any) -> Any:
    structure = tree_flatten(x)[1]
    return tree_unflatten(structure, [a - b for a, b in zip(tree_leaves(x), tree_leaves(y), strict=True)])


# ---- custom_root -----------------------------------------------------------------------------------------------------


def custom_root(
    f: Function, initial_guess: Any, solve: Function, tangent_solve: Function, has_aux: bool = False
) -> Any:
    """``solve(f, initial_guess)``, a root of *f*, with the derivative of the equation ``f(x) = 0`` with respect to the
    values that *f* closes over, as ``jax.lax.custom_root``.

    :param solve: returns the root, a tree of floats like *initial_guess*; with *has_aux* (root, aux).  It is not
    differentiated, whatever it closes over.
    :param tangent_solve: ``tangent_solve(g, y)`` returns the x with ``g(x) = y`` for the linear function g.  Reverse
    mode transposes it; an iteration has a transpose by ``custom_linear_solve``.
    """
    recorder = current_recorder()
    if recorder is None or not _any_traced(recorder, f, initial_guess):
        return solve(f, initial_guess)
    what, initial_guess = "custom_root", stop_gradient(initial_guess)
    equation = Equation(recorder, f, initial_guess, what)
    if [strong(x.aval) for x in equation.graph.outputs] != equation.avals:
        raise ShapeError.here(
            f"{function_name(f)}, the function given to {what}, does not return what it takes: "
            f"{structure_text(equation.structure)} of {[str(a) for a in equation.avals]}"
        )
    count = len(equation.consts)

    def make(args: RuleArguments, results: Results) -> Apply:
        def apply(operands: list[Atom], outs: list[Atom], tangents: list[Atom]) -> list[Any]:
            consts, wrt = operands[:count], [k for k in range(count) if operands[k].aval.is_float]
            at = [*consts, *outs]
            by_consts = derivatives[0].pushforward(equation.graph, wrt)
            by_x = derivatives[0].pushforward(equation.graph, range(count, len(at)))
            b = inlined(by_consts, [*at, *tangents[: len(wrt)]])

            def linear(v: Any) -> Any:
                return equation.tree(inlined(by_x, [*at, *equation.leaves(v, what)]))

            x_dot = tangent_solve(linear, equation.tree([F.neg(x) for x in b]))
            return equation.leaves(x_dot, f"the result of {function_name(tangent_solve)}, the tangent_solve of {what},")

        return apply

    args = RuleArguments(what, ([traced(c) for c in equation.consts], initial_guess), frozenset())
    parts = RuleParts([equation.graph, solve, tangent_solve], make)
    return _solved(recorder, what, equation, solve, has_aux, args, {FORWARD: parts})


class _Aux:
    """A leaf that holds the other results of a solver."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _solved(
    recorder: Recorder, what: str, equation: Equation, solve: Function, has_aux: bool, args: RuleArguments,
    rules: dict[str, RuleParts],
) -> Any:  # fmt: skip
    """The solution of the *equation* by *solve*, with *rules*; *args*: its consts, and the other one of *solve*."""

    def solution(consts: Sequence[Any], given: Any) -> Any:
        found = solve(equation.over([to_atom(c) for c in consts], what), given)
        x, aux = found if has_aux else (found, None)
        x = equation.tree(equation.leaves(x, f"the result of {function_name(solve)}, the solve of {what},"))
        return (x, _Aux(stop_gradient(aux))) if has_aux else x

    found = with_rules(recorder, what, solution, args, rules, strict=False)
    return (found[0], found[1].value) if has_aux else found


def _any_traced(recorder: Recorder, f: Function, guess: Any) -> bool:
    """Whether *f* reads traced values: asked by a call."""
    if any(isinstance(x, TracedArray) for x in tree_leaves(guess)):
        return True
    return any(isinstance(x, TracedArray) for x in tree_leaves(f(guess)))


# ---- custom_linear_solve ---------------------------------------------------------------------------------------------


def custom_linear_solve(
    matvec: Function, b: Any, solve: Function, transpose_solve: Function | None = None, symmetric: bool = False,
    has_aux: bool = False,
) -> Any:  # fmt: skip
    """``solve(matvec, b)``, the x with ``matvec(x) = b``, with the derivative of the equation, as
    ``jax.lax.custom_linear_solve``: with respect to *b* and to the values that *matvec* closes over.

    :param matvec: a linear function of a tree of floats like *b*.
    :param solve: returns x; with *has_aux* (x, aux).  It is not differentiated, whatever it closes over.
    :param transpose_solve: ``transpose_solve(vecmat, b)`` solves with the transpose, for reverse mode; where there is
    none, reverse mode transposes *solve*.
    :param symmetric: *matvec* is its own transpose, so *solve* solves with that, too.
    """
    recorder = current_recorder()
    if recorder is None or not _any_traced(recorder, matvec, b):
        return solve(matvec, b)
    return _linear_solve(recorder, Equation(recorder, matvec, b, "custom_linear_solve"), None, b, solve,
                         solve if symmetric else transpose_solve, symmetric, has_aux)  # fmt: skip


def _linear_solve(
    recorder: Recorder, equation: Equation, given: Sequence[Atom] | None, b: Any, solve: Function,
    transposed: Function | None, symmetric: bool, has_aux: bool = False,
) -> Any:  # fmt: skip
    what = "custom_linear_solve"
    graph, count = equation.graph, len(equation.consts)
    if [strong(x.aval) for x in graph.outputs] != equation.avals:
        raise ShapeError.here(f"the matvec given to {what} does not return what it takes")

    def again(consts: Sequence[Atom], b: Sequence[Atom]) -> list[Atom]:
        inner = current_recorder()
        assert inner is not None
        x = _linear_solve(inner, equation, consts, equation.tree(b), solve, transposed, symmetric)
        return equation.leaves(x, what)

    def forward(args: RuleArguments, results: Results) -> Apply:
        def apply(operands: list[Atom], outs: list[Atom], tangents: list[Atom]) -> list[Any]:
            consts, wrt = operands[:count], [k for k in range(count) if operands[k].aval.is_float]
            moved = inlined(derivatives[0].pushforward(graph, wrt), [*consts, *outs, *tangents[: len(wrt)]])
            return again(consts, [F.sub(x, y) for x, y in zip(tangents[len(wrt) :], moved, strict=True)])

        return apply

    def reverse(args: RuleArguments, results: Results) -> Apply:
        def apply(operands: list[Atom], outs: list[Atom], cotangents: list[Atom]) -> list[Any]:
            consts, wrt = operands[:count], [k for k in range(count) if operands[k].aval.is_float]
            if symmetric:
                weights = again(consts, cotangents)
            else:
                assert transposed is not None
                inner = current_recorder()
                assert inner is not None
                x = _linear_solve(
                    inner, equation.transposed(), consts, equation.tree(cotangents), transposed, solve, False
                )
                weights = equation.leaves(x, what)
            pulled = inlined(derivatives[0].pullback(graph, wrt), [*consts, *outs, *weights])
            found: list[Any] = [None] * count
            for k, ct in zip(wrt, pulled, strict=True):
                found[k] = F.neg(ct)
            return [*found, *weights]

        return apply

    functions = [graph, solve, *([] if transposed is None else [transposed])]
    rules = {FORWARD: RuleParts(functions, forward)}
    if transposed is not None:
        rules[REVERSE] = RuleParts(functions, reverse)
    consts = equation.consts if given is None else given
    args = RuleArguments(what, ([traced(c) for c in consts], b), frozenset())
    return _solved(recorder, what, equation, solve, has_aux, args, rules)


__all__ = ["custom_linear_solve", "custom_root", "fixed_point", "implicit_root"]
