"""scipy.optimize within a recorded function: a table of solvers.  A call goes through ``optimize_calls.py``, the
derivative is that of ``implicit.py``."""

from __future__ import annotations

import functools
import inspect
import sys
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np

from ..ir.aval import FLOAT, INT, Aval
from ..ir.site import at_site, user_site
from ..numpy_api.assemble import nested_atom
from ..numpy_api.hooks import copy_of, hook, hook_to_source, when_loaded
from ..ops.host_call import HostFunction, host_call
from ..record.array import TracedArray, is_traced, wrap_array
from ..record.recorder import current_recorder
from ..record.shown_names import show_functions
from .implicit import FIXED_POINT, LEAST_SQUARES, MINIMUM, ROOT
from .optimize_arguments import Solver, SolverCall
from .optimize_calls import solve_recorded

_BOUNDED = frozenset("nelder-mead powell l-bfgs-b tnc slsqp trust-constr cobyla cobyqa".split())
_ANY_SHAPE = frozenset("broyden1 broyden2 anderson linearmixing diagbroyden excitingmixing krylov df-sane".split())


# ---- what is special of some --------------------------------------------------------------------------------------


def _set_bounds(call: SolverCall, bounds: Any) -> None:
    """Bounds as ``Bounds(lb, ub)``, or a pair for each variable."""
    if hasattr(bounds, "lb"):
        call.set_bounds(bounds.lb, bounds.ub)
        return
    none = (-np.inf, np.inf)
    pairs = [[none[k] if pair[k] is None else pair[k] for k in (0, 1)] for pair in bounds]
    call.arguments["bounds"] = pairs
    call.set_bounds(*[[pair[k] for pair in pairs] for k in (0, 1)])


def _minimize(call: SolverCall) -> None:
    arguments = call.arguments
    method, constraints, bounds = arguments["method"], arguments["constraints"], arguments["bounds"]
    if callable(method):
        call.refuse("a method= of your own", "use one of SciPy's")
    if not isinstance(constraints, (list, tuple)) or constraints:
        call.refuse("constraints=", "add a penalty to what is minimised, or solve the equations of the optimum by root")
    if bounds is not None and (method or "l-bfgs-b").lower() in _BOUNDED:
        _set_bounds(call, bounds)


def _l_bfgs_b(call: SolverCall) -> None:
    if call.arguments["bounds"] is not None:
        _set_bounds(call, call.arguments["bounds"])


def _fminbound(call: SolverCall) -> None:
    call.set_bounds(call.arguments["x1"], call.arguments["x2"])


def _minimize_scalar(call: SolverCall) -> None:
    if call.arguments["bounds"] is not None:
        call.set_bounds(*call.arguments["bounds"])


def _least_squares(call: SolverCall) -> None:
    bounds = call.arguments["bounds"]
    lower, upper = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    if is_traced((lower, upper)) or np.isfinite(lower).any() or np.isfinite(upper).any():
        call.set_bounds(lower, upper)


def _newton(call: SolverCall) -> None:
    if np.iscomplexobj(call.arguments["x0"]):
        call.refuse("a complex x0", "solve for real and imaginary part by root")


def _curve_fit(call: SolverCall) -> None:
    """Functions of the vector of parameters, and the residuals, of which the sum of squares is minimised."""
    arguments = call.arguments
    f, jac = arguments["f"], arguments["jac"]
    x, y, sigma = (_as_array(arguments[name]) for name in ("xdata", "ydata", "sigma"))
    if arguments["nan_policy"] not in (None, "raise"):
        call.refuse("nan_policy=", "leave out what is NaN before the call")
    p0 = arguments["p0"]
    count = len(inspect.signature(f).parameters) - 1 if p0 is None else int(np.size(p0))
    call.variable = Aval(FLOAT, (count,))

    def applied(function: Any) -> Any:
        return lambda p: function(x, *[p[k] for k in range(count)])

    def residual(p: Any) -> Any:
        r = applied(f)(p) - y
        if sigma is None:
            return r
        return np.linalg.solve(np.linalg.cholesky(sigma), r) if sigma.ndim == 2 else r / sigma

    arguments["f"] = call.record("f", applied(f))
    if callable(jac):
        arguments["jac"] = call.record("jac", applied(jac))
    call.equation = call.record("equation", residual)
    _least_squares(call)


def _as_array(value: Any) -> Any:
    if value is None or isinstance(value, (np.ndarray, TracedArray)):
        return value
    return wrap_array(nested_atom(value)) if is_traced(value) else np.asarray(value, float)


def _of_parameters(function: Any, count: int) -> Any:
    """A function of the vector of *count* parameters as ``curve_fit`` calls it, and counts its parameters."""

    def adapted(xdata: Any, *p: Any) -> Any:
        return function(np.array(p))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    adapted.__signature__ = inspect.Signature([inspect.Parameter(f"p{k}", kind) for k in range(count + 1)])  # type: ignore[attr-defined]
    return adapted


def _linear(call: SolverCall) -> None:
    """A @ x - b with bounds, 0 to infinity where none are given."""
    a, b = _as_array(call.arguments["A"]), _as_array(call.arguments["b"])
    call.variable = Aval(FLOAT, (a.shape[1],))
    call.equation = call.record("equation", lambda x: a @ x - b)
    if "bounds" in call.arguments:
        _least_squares(call)
    else:
        call.set_bounds(0.0, np.inf)


def _assignment(cost_matrix: Any, maximize: Any = False) -> Any:
    """``linear_sum_assignment``: positions, which have no derivative."""
    solve = sys.modules["scipy.optimize"].linear_sum_assignment
    if current_recorder() is None or not is_traced(cost_matrix):
        return solve(cost_matrix, maximize)
    atom = nested_atom(cost_matrix)
    if atom.aval.ndim != 2:
        raise ValueError(at_site(f"expected a matrix (2-D array), got a {atom.aval.ndim} array"))
    maximize = bool(maximize)
    position = Aval(INT, (min(atom.aval.shape),))
    function = HostFunction(
        lambda cost: solve(cost, maximize), [position] * 2, "linear_sum_assignment",
        key=("linear_sum_assignment", maximize), site=user_site(),
    )  # fmt: skip
    return tuple([wrap_array(x) for x in host_call(function, [atom])])


def _becomes_flat(arguments: dict[str, Any]) -> bool:
    return arguments["method"].lower() not in _ANY_SHAPE


def _always(found: Any) -> bool:
    """Of a solver that raises where it does not converge."""
    return True


_ROOT, _SQUARES = Solver(ROOT, ("f",)), Solver(LEAST_SQUARES, ("fun", "jac"))
_VALUE = ((("fun",), "total"),)


def _minimiser(flag: int, *functions: str) -> Solver:
    """A row for one of the older functions, which give a tuple: its item *flag* is 0 where they have converged."""
    return Solver(
        MINIMUM, functions, "x0", solution=(0,), success=lambda r: r[flag] == 0, values=(((1,), "total"),),
        full="full_output",
    )  # fmt: skip


_SOLVERS = {
    "brentq brenth bisect ridder toms748": replace(_ROOT, solution=(0,), success=(1, "converged"), full="full_output"),
    "root_scalar": replace(_ROOT, functions=("f", "fprime", "fprime2"), solution=("root",), success=("converged",)),
    "newton": replace(
        _ROOT, functions=("func", "fprime", "fprime2"), start="x0", flat=False, solution=(0,), full="full_output",
        success=lambda r: getattr(r[1], "converged", r[1]), apart=True, prepare=_newton,
    ),
    "root": replace(_ROOT, functions=("fun", "jac"), start="x0", values=((("fun",), "value"),), flat=_becomes_flat),
    "fsolve": replace(
        _ROOT, functions=("func", "fprime"), start="x0", solution=(0,), success=lambda r: r[2] == 1,
        values=(((1, "fvec"), "value"),), full="full_output", warns=(3,),
    ),
    "fixed_point": Solver(FIXED_POINT, ("func",), "x0", False, (), _always),
    "broyden1 broyden2 anderson linearmixing diagbroyden excitingmixing newton_krylov": Solver(
        ROOT, ("F",), "xin", False, (), _always
    ),
    "minimize": Solver(MINIMUM, ("fun", "jac", "hess", "hessp"), "x0", values=_VALUE, prepare=_minimize),
    "minimize_scalar": Solver(MINIMUM, ("fun",), values=_VALUE, prepare=_minimize_scalar),
    "fmin": _minimiser(4, "func"),
    "fmin_powell": _minimiser(5, "func"),
    "fmin_cg": _minimiser(4, "f", "fprime"),
    "fmin_bfgs": _minimiser(6, "f", "fprime"),
    "fmin_l_bfgs_b": replace(
        _minimiser(2, "func", "fprime"), success=lambda r: r[2]["warnflag"] == 0, full="", prepare=_l_bfgs_b
    ),
    "fminbound": replace(_minimiser(2, "func"), start="", prepare=_fminbound),
    "brent golden": replace(_minimiser(2, "func"), start="", success=_always),
    "least_squares": replace(
        _SQUARES, start="x0", values=((("fun",), "value"), (("cost",), "total")), prepare=_least_squares
    ),
    "leastsq": replace(
        _SQUARES, functions=("func", "Dfun"), start="x0", solution=(0,), success=lambda r: r[4] in (1, 2, 3, 4),
        values=(((2, "fvec"), "value"),), full="full_output", warns=(3,), shown=lambda r: (r[0], r[4]),
    ),
    "curve_fit": replace(
        _SQUARES, functions=("f", "jac"), solution=(0,), success=_always, full="full_output", prepare=_curve_fit,
        shown=lambda r: r[:2], adapted=_of_parameters,
    ),
    "nnls": replace(_SQUARES, functions=(), solution=(0,), success=_always, values=(((1,), "norm"),), prepare=_linear),
    "lsq_linear": replace(_SQUARES, functions=(), values=((("fun",), "value"), (("cost",), "total")), prepare=_linear),
}  # fmt: skip


@when_loaded("scipy.optimize", "linear_sum_assignment", *" ".join(_SOLVERS).split())
def _hook(module: Any) -> None:
    show_functions(sys.modules["scipy"], {})
    show_functions(module, {"linear_sum_assignment": _assignment})
    for name in ("rosen", "rosen_der", "rosen_hess", "rosen_hess_prod"):
        hook_to_source(getattr(module, name))
    for names, solver in _SOLVERS.items():
        for name in names.split():
            function = getattr(module, name)
            if name == "nnls":  # within a wrapper for arguments that are deprecated
                function = getattr(function, "__wrapped__", function)
            if isinstance(function, FunctionType):
                own, signature = copy_of(function), inspect.signature(function)
                hook(function, functools.partial(_solve, solver, own, signature), lambda args, kwargs: True)


def _solve(solver: Solver, original: FunctionType, signature: inspect.Signature, *args: Any, **kwargs: Any) -> Any:
    return solve_recorded(solver, original, signature, args, kwargs)
