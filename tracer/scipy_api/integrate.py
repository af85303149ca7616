"""Initial value problems: ``scipy.integrate.solve_ivp`` and ``odeint`` on traced values.

The right-hand side is recorded as part of the body of one loop (``ode_steps.py``), whose turns are the steps of a
method (``ode_runge_kutta.py``).  What SciPy keeps in Python lists is read from the rows of that loop.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..ir.errors import UnsupportedError
from ..ir.site import at_site
from ..numpy_api.hooks import hook, hook_to_source, when_loaded
from ..numpy_api.shape import as_traced
from ..record.array import TracedArray
from ..record.recorder import current_recorder
from .ode_events import Found, events_of
from .ode_radau import Radau
from .ode_result import Columns, OdeResult, Solution
from .ode_runge_kutta import RungeKutta
from .ode_steps import ENDED, FINISHED, STIFF, TOO_SMALL, Problem, Steps, attempts, held, places
from .reads import may_read_traced

_EXPLICIT = ("RK23", "RK45", "DOP853")
_EVALUATIONS = 6  # of the right-hand side in an attempt
_LSODA = 1.49012e-8  # odeint's tolerances by default
_TIGHT = 1e-10  # from here on down a method of order 8 takes less time than one of order 5


def _wrong(message: str) -> ValueError:
    return ValueError(at_site(message))


def _float(value: Any) -> Any:
    return value.astype(np.float64) if isinstance(value, TracedArray) else float(value)


def _state(y0: Any) -> Any:
    y0 = as_traced(y0)
    y0 = y0.astype(np.complex128 if np.iscomplexobj(y0) else np.float64)
    if y0.ndim != 1:
        raise _wrong("`y0` must be 1-dimensional.")
    recorder = current_recorder()
    if recorder is not None and recorder.parent is None and not np.isfinite(y0).all():
        raise _wrong("All components of the initial state `y0` must be finite.")
    return y0


def _rates(fun: Callable[..., Any], y0: Any, vectorized: bool = False) -> Callable[[Any, Any], Any]:
    """``fun(t, y)`` as an array like *y0*."""

    def rates(t: Any, y: Any) -> Any:
        found = as_traced(fun(t, y[:, None] if vectorized else y))
        found = found.ravel() if vectorized else found
        if np.iscomplexobj(found) and not np.iscomplexobj(y0):
            raise TypeError(at_site("the right-hand side is complex, but `y0` is real: pass y0.astype(complex)"))
        if found.shape not in (y0.shape, (1,), ()):
            raise _wrong(f"the right-hand side has shape {found.shape}, and the state {y0.shape}")
        return np.broadcast_to(found.astype(y0.dtype), y0.shape)

    return rates


def _tolerances(rtol: Any, atol: Any, n: int) -> tuple[Any, Any]:
    if np.any(rtol < 100 * np.finfo(float).eps):
        warnings.warn(
            f"At least one element of `rtol` is too small. Setting `rtol = np.maximum(rtol, {2.220446049250313e-14})`.",
            stacklevel=3,
        )
        rtol = np.maximum(rtol, 100 * np.finfo(float).eps)
    atol = held(atol) if isinstance(atol, TracedArray) else np.asarray(atol)
    if atol.ndim > 0 and atol.shape != (n,):
        raise _wrong("`atol` has wrong shape.")
    if np.any(atol < 0):
        raise _wrong("`atol` must be positive.")
    return rtol, atol


def _solve_ivp(
    fun: Any, t_span: Any, y0: Any, method: Any = "RK45", t_eval: Any = None, dense_output: bool = False,
    events: Any = None, vectorized: bool = False, args: Any = None, **options: Any,
) -> Any:  # fmt: skip
    ivp = sys.modules["scipy.integrate._ivp.ivp"]
    name, known = _solver_class(ivp, method)
    t0, end = map(_float, t_span)
    if args is not None:
        try:
            args = (*args,)
        except TypeError:
            raise TypeError(
                at_site(f"Supplied 'args' cannot be unpacked. Please supply `args` as a tuple (e.g. `args=({args},)`)")
            ) from None
        given = fun
        fun = lambda t, y: given(t, y, *args)  # noqa: E731
    state = _state(y0)
    direction = 1.0 if end >= t0 else -1.0
    if t_eval is not None:
        t_eval = _times(t_eval, t0, end, direction)
    rtol, atol = _tolerances(options.pop("rtol", 1e-3), options.pop("atol", 1e-6), state.size)
    max_step, first = _steps_given(options, np.abs(end - t0))
    jac = None if name in _EXPLICIT else _jacobian(options, args)
    if options:
        names = ", ".join(f"`{x}`" for x in options)
        warnings.warn(f"The following arguments have no effect for a chosen solver: {names}.", stacklevel=3)
    dense = t_eval is not None or dense_output or events is not None
    problem = Problem(
        _rates(fun, state, vectorized), t0, state, end, direction, rtol, atol, max_step, first, dense,
        events_of(events, args), name == "LSODA",
    )  # fmt: skip
    if t0 == end:
        if events is not None or dense_output:
            raise UnsupportedError.here("solve_ivp with events or dense_output over an interval of length 0")
        t = np.stack([t0, end]) if t_eval is None else t_eval
        return OdeResult.of(ivp, known, t, np.tile(state[:, None], (1, len(t))), 1, FINISHED)
    if name == "LSODA":
        scheme, steps, status = _lsoda(problem, "solve_ivp", fun, jac)
    else:
        scheme = RungeKutta(known) if name in _EXPLICIT else Radau(jac)
        steps = _steps(scheme, problem, "solve_ivp", fun)
        status = steps.status()
    found = None if events is None else Found(steps, scheme, problem, status == ENDED)
    evaluations = scheme.count(problem, steps, status)
    last = None if found is None else found.end
    solution = Solution(steps, scheme, problem) if dense_output else None
    if t_eval is None:
        t, y = Columns.of(steps, problem, last)
    else:
        t, y = t_eval, Solution(steps, scheme, problem).at(t_eval).T
        if status != FINISHED:
            until = steps.last["t"] if last is None else last[0]
            reached = int(np.sum(t_eval * direction <= until * direction))
            t, y = t[:reached], y[:, :reached]
    return OdeResult.of(ivp, known, t, y, evaluations, status, solution, found)


def _solver_class(ivp: Any, method: Any) -> tuple[str, Any]:
    """(the name of a solver of SciPy's, its class)."""
    name = method if isinstance(method, str) else getattr(method, "__name__", "")
    known = ivp.METHODS.get(name)
    if known is None or (not isinstance(method, str) and method is not known):
        if isinstance(method, str) or not (inspect.isclass(method) and issubclass(method, ivp.OdeSolver)):
            raise _wrong(f"`method` must be one of {ivp.METHODS} or OdeSolver class.")
        raise UnsupportedError.here(f"solve_ivp with a solver class of one's own ({name}) is not supported")
    return name, known


def _steps_given(options: dict[str, Any], interval: Any) -> tuple[Any, Any]:
    """(the largest step, the first one or None), which are taken out of *options*."""
    max_step, first = options.pop("max_step", np.inf), options.pop("first_step", None)
    if max_step <= 0:
        raise _wrong("`max_step` must be positive.")
    if first is not None and first <= 0:
        raise _wrong("`first_step` must be positive.")
    if first is not None and first > interval:
        raise _wrong("`first_step` exceeds bounds.")
    return max_step, first


def _jacobian(options: dict[str, Any], args: Any) -> Any:
    """The ``jac`` of an implicit solver, which is taken out of *options*, as all that it alone has."""
    for unused in ("jac_sparsity", "lband", "uband", "min_step"):  # of the linear algebra of SciPy's methods
        options.pop(unused, None)
    given = options.pop("jac", None)
    return (lambda t, y: given(t, y, *args)) if callable(given) and args is not None else given


def _times(t_eval: Any, t0: Any, end: Any, direction: float) -> Any:
    times = as_traced(t_eval)
    times = times if times.aval.is_float else times.astype(np.float64)
    if times.ndim != 1:
        raise _wrong("`t_eval` must be 1-dimensional.")
    if np.any((times * direction < t0 * direction) | (times * direction > end * direction)):
        raise _wrong("Values in `t_eval` are not within `t_span`.")
    if np.any(np.diff(times) * direction <= 0):
        raise _wrong("Values in `t_eval` are not properly sorted.")
    return times


def _steps(scheme: Any, problem: Problem, what: str, fun: Any) -> Steps:
    recorder = current_recorder()
    assert recorder is not None
    steps = attempts(recorder, what, fun, lambda c: scheme.attempt(problem, c), scheme.start(problem))
    if problem.dense:
        steps.rows()
    return steps


def _lsoda(problem: Problem, what: str, fun: Any, jac: Any) -> tuple[Any, Steps, int]:
    """LSODA's place: an explicit method, or where stability limits its steps, or none is small enough, Radau's."""
    ivp = sys.modules["scipy.integrate._ivp.ivp"]
    loose = bool(np.all(np.minimum(problem.rtol, problem.atol) >= _TIGHT))
    scheme: Any = RungeKutta(ivp.RK45 if loose else ivp.DOP853)
    steps = _steps(scheme, problem, what, fun)
    status = steps.status()
    if status in (STIFF, TOO_SMALL) and not np.iscomplexobj(problem.y0):
        scheme = Radau(jac)
        steps = _steps(scheme, replace(problem, watched=False), what, fun)
        status = steps.status()
    return scheme, steps, status


def _odeint(
    func: Any, y0: Any, t: Any, args: Any = (), Dfun: Any = None, col_deriv: Any = 0, full_output: Any = 0,
    ml: Any = None, mu: Any = None, rtol: Any = None, atol: Any = None, tcrit: Any = None, h0: Any = 0.0,
    hmax: Any = 0.0, hmin: Any = 0.0, ixpr: Any = 0, mxstep: Any = 0, mxhnil: Any = 0, mxordn: Any = 12,
    mxords: Any = 5, printmessg: Any = 0, tfirst: Any = False,
) -> Any:  # fmt: skip
    """Settings of LSODA's orders and messages have no meaning for the methods that take its place."""
    if type(args) is not tuple:
        raise sys.modules["scipy.integrate._odepack"].error(at_site("Extra arguments must be in a tuple."))
    if tcrit is not None or (type(hmin) not in (int, float) or hmin):
        raise UnsupportedError.here(
            "odeint with tcrit or hmin is not supported: integrate from one critical point to the next, or limit the "
            "step from above (hmax=)"
        )
    state = np.atleast_1d(as_traced(y0)).astype(np.float64)
    if state.ndim != 1:
        raise _wrong("Initial condition y0 must be one-dimensional.")
    times = as_traced(t).astype(np.float64)
    rising, falling = np.all(np.diff(times) >= 0), True
    if not rising:
        falling = bool(np.all(np.diff(times) <= 0))
    if not falling:
        raise _wrong(
            "The values in t must be monotonically increasing or monotonically decreasing; repeated values are allowed."
        )
    if times.size < 2 or times[0] == times[-1]:
        solution = np.tile(state, (times.size, 1))
        return (solution, {"message": "Nothing was done; the integration time was 0."}) if full_output else solution

    def sized(t: Any, y: Any) -> Any:
        found = as_traced(func(t, y, *args) if tfirst else func(y, t, *args)).ravel()
        if found.size != state.size:
            words = f"returned by func ({found.size}) does not match the size of y0 ({state.size})."
            raise RuntimeError(at_site(f"The size of the array {words}"))
        return found

    rates = _rates(sized, state)
    rtol, atol = _tolerances(_LSODA if rtol is None else rtol, _LSODA if atol is None else atol, state.size)
    problem = Problem(
        rates, times[0], state, times[-1], 1.0 if rising else -1.0, rtol, atol, hmax if hmax else np.inf,
        h0 if h0 else None, dense=True, watched=True,
    )  # fmt: skip
    jac = None
    if Dfun is not None:

        def jac(t: Any, y: Any) -> Any:
            found = as_traced(Dfun(t, y, *args) if tfirst else Dfun(y, t, *args))
            return found.T if col_deriv else found

    scheme, steps, status = _lsoda(problem, "odeint", func, jac)
    rows, message = steps.rows(), "Integration successful."
    if status != FINISHED:
        odepack = sys.modules["scipy.integrate._odepack_py"]
        message = odepack._msgs[-1]
        warnings.warn(f"{message} The rows that were not reached are NaN.", odepack.ODEintWarning, stacklevel=3)
    solution = Solution(steps, scheme, problem).at(times)
    if status != FINISHED:
        reached = times * problem.direction <= steps.last["t"] * problem.direction
        solution = np.where(reached[:, None], solution, np.nan)
    if not full_output:
        return solution
    place = places(rows["reached"], times * problem.direction, steps.count)
    counts = place[1:] + 1
    return solution, {
        "hu": np.take(rows["h"], place[1:], mode="clip"), "tcur": np.take(rows["t"], place[1:], mode="clip"),
        "nst": counts, "nfe": 2 + _EVALUATIONS * counts, "nje": 0 * counts, "mused": 0 * counts + 1,
        "message": message,
    }  # fmt: skip


@when_loaded("scipy.integrate", "odeint", "solve_ivp", "quad")
def _install(integrate: Any) -> None:
    hook(integrate.solve_ivp, _solve_ivp, may_read_traced)
    hook(integrate.odeint, _odeint, may_read_traced)
    for name in ("trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson", "romb"):
        hook_to_source(getattr(integrate, name))
