"""Calls of solvers of scipy.optimize within a recorded function (the solvers themselves: ``optimize.py``).

What the user's functions compute is recorded once (``control/sub_program.py``); the solver runs in each call, on arrays
(``ops/host_call.py``), so solutions, messages and exceptions are SciPy's.  The rule of the derivative is the implicit
function theorem (``implicit.py``).

A call in which nothing is traced is SciPy's own: it goes there first, and turns round where a function of the user's
gives a traced value.  In a recording that has values the solver runs once, which tells what its result holds: every
number and array of it is a result of the node.  In the body of a loop only the solution, its value and the success are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from types import FunctionType
from typing import Any

import numpy as np

from ..control.sub_program import SubProgram
from ..ir.aval import FLOAT, FLOAT32, Aval
from ..numpy_api.assemble import nested_atom
from ..record.array import is_traced
from ..record.recorder import require_recorder
from .optimize_arguments import Operand, Solve, Solver, SolverCall, holds, replaced
from .optimize_results import SolverResults


class TracedValueError(BaseException):
    """A function that was called with plain numbers has given a traced value."""


def _watched(function: Any) -> Any:
    """*function*, which ends the call where it gives a traced value."""
    if not callable(function):
        return function

    @wraps(function, updated=())
    def watched(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if is_traced(found):
            raise TracedValueError
        return found

    return watched


def solve_recorded(
    solver: Solver, original: FunctionType, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a call of *original* in a recording."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return original(*args, **kwargs)  # which raises the error
    if not any(holds(value, is_traced) for value in bound.arguments.values()):
        plain = {k: _watched(v) if k in solver.functions else v for k, v in bound.arguments.items()}
        bound_plain = inspect.BoundArguments(signature, plain)  # type: ignore[arg-type]
        try:
            return original(*bound_plain.args, **bound_plain.kwargs)
        except TracedValueError:
            pass
    passed = {*bound.arguments, solver.full}  # a default may be deprecated
    bound.apply_defaults()
    call = SolverCall(require_recorder(original.__name__), original.__name__, dict(bound.arguments))
    arguments = call.arguments
    if arguments.get("callback") is not None:
        call.refuse("callback=", "it would run Python in each step of the solver")
    if arguments.get("jac") == "cs":
        call.refuse('jac="cs"', "it calls the function with complex numbers; leave it out")
    asked = bool(arguments[solver.full]) if solver.full else True
    if solver.full:
        arguments[solver.full] = True
    if solver.start:
        call.variable = _variable(solver, arguments)
    if solver.prepare is not None:
        solver.prepare(call)
    extra = arguments.pop("args", ())
    extra = extra if isinstance(extra, tuple) else (extra,)
    own = "kwargs" in arguments and signature.parameters["kwargs"].kind is not inspect.Parameter.VAR_KEYWORD
    named = arguments.pop("kwargs") or {} if own else {}
    for key in solver.functions:
        function = arguments.get(key)
        if callable(function) and not isinstance(function, SubProgram):
            applied = partial(_apply, function, extra, named)
            arguments[key] = call.record(key, applied, 2 if key == "hessp" else 1)

    def as_operand(value: Any) -> Operand:
        return Operand(call.operand(nested_atom(value)))

    call.arguments = {k: replaced(v, is_traced, as_operand) for k, v in arguments.items() if k in passed}
    return SolverResults(solver, call, Solve(solver, original, call), asked).emit()


def _variable(solver: Solver, arguments: dict[str, Any]) -> Aval:
    """The kind of the variable that is solved for, by where the solver starts."""
    start = arguments[solver.start]
    like = nested_atom(start).aval if is_traced(start) else np.asarray(start)
    flat = solver.flat(arguments) if callable(solver.flat) else solver.flat
    shape = (int(np.prod(like.shape)),) if flat else like.shape
    return Aval(FLOAT32 if like.dtype == FLOAT32 else FLOAT, shape)


def _apply(function: Callable[..., Any], extra: tuple[Any, ...], named: dict[str, Any], *variables: Any) -> Any:
    return function(*variables, *extra, **named)
