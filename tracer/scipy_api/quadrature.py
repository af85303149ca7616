"""Integrals of functions: ``scipy.integrate.quad`` and its relatives on traced values.

The range is mapped to [0, 1] (an infinite one as QUADPACK does), which a loop halves where the error is largest, by
QUADPACK's rules of 21 points, or 15, and its estimate of the error.  The integral is then a sum over the parts that
were found, and its derivative that of the sum: parts and points are constants in [0, 1], so the ends of the range have
derivatives, too.  QUADPACK's extrapolation is not made: an integrand that is infinite at an end takes more parts.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..control.body_recorder import BodyRecorder
from ..control.loop_recording import finish_loop
from ..control.scan import map as each
from ..control.trees import as_result, strong
from ..control.while_loop import while_loop
from ..ir.data_classes import NamedTuple
from ..ir.errors import UnsupportedError
from ..ir.site import at_site
from ..numpy_api.hooks import hook, when_loaded
from ..numpy_api.shape import as_traced
from ..ops.elementwise import F
from ..record.array import TracedArray, to_atom, wrap
from ..record.recorder import current_recorder, recording
from .reads import may_read_traced


class Rule(NamedTuple):
    """Kronrod's extension of one of Gauss's rules: *points* in [-1, 1], their *weights*, and Gauss's (0 elsewhere)."""

    points: np.ndarray
    weights: np.ndarray
    gauss: np.ndarray

    @classmethod
    def of(cls, points: Sequence[float], weights: Sequence[float], gauss: Sequence[float]) -> Rule:
        """From the half of each that belongs to positive points and 0."""
        half = np.zeros(len(points))
        half[1::2] = gauss
        x, v = np.array(points), np.array(weights)
        return cls(np.append(-x, x[-2::-1]), np.append(v, v[-2::-1]), np.append(half, half[-2::-1]))


FINITE = Rule.of(
    (
        0.995657163025808080735527280689003, 0.973906528517171720077964012084452, 0.930157491355708226001207180059508,
        0.865063366688984510732096688423493, 0.780817726586416897063717578345042, 0.679409568299024406234327365114874,
        0.562757134668604683339000099272694, 0.433395394129247190799265943165784, 0.294392862701460198131126603103866,
        0.148874338981631210884826001129720, 0.0,
    ),
    (
        0.011694638867371874278064396062192, 0.032558162307964727478818972459390, 0.054755896574351996031381300244580,
        0.075039674810919952767043140916190, 0.093125454583697605535065465083366, 0.109387158802297641899210590325805,
        0.123491976262065851077958109831074, 0.134709217311473325928054001771707, 0.142775938577060080797094273138717,
        0.147739104901338491374841515972068, 0.149445554002916905664936468389821,
    ),
    (
        0.066671344308688137593568809893332, 0.149451349150580593145776339657697, 0.219086362515982043995534934228163,
        0.269266719309996355091226921569469, 0.295524224714752870173892994651338,
    ),
)  # fmt: skip
INFINITE = Rule.of(
    (
        0.991455371120812639206854697526329, 0.949107912342758524526189684047851, 0.864864423359769072789712788640926,
        0.741531185599394439863864773280788, 0.586087235467691130294144838258730, 0.405845151377397166906606412076961,
        0.207784955007898467600689403773245, 0.0,
    ),
    (
        0.022935322010529224963732008058970, 0.063092092629978553290700663189204, 0.104790010322250183839876322541518,
        0.140653259715525918745189590510238, 0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
        0.204432940075298892414161999234649, 0.209482141084727828012999174891714,
    ),
    (
        0.129484966168869693270611432679082, 0.279705391489276667901467771423780, 0.381830050505118944950369775488975,
        0.417959183673469387755102040816327,
    ),
)  # fmt: skip
_MOST = np.finfo(float).max  # an error; that of a part that is not known yet is infinite
_ROUNDING = 50 * np.finfo(float).eps

Function = Callable[[Any], Any]


def _held(value: Any) -> Any:
    return as_result(F.stop_gradient(strong(value)))


def on_unit(f: Function, a: Any, b: Any) -> tuple[Function, Rule]:
    """The integrand over [0, 1] whose integral is that of *f* from *a* to *b*, and QUADPACK's rule for it."""
    low, high = _infinite(a), _infinite(b)
    if not low and not high:
        width = b - a
        return lambda t: f(a + width * t) * width, FINITE
    if low and high:
        sign = 1.0 if high > low else -1.0 if high < low else 0.0
        return lambda t: sign * (f((1.0 - t) / t) + f(-(1.0 - t) / t)) / (t * t), INFINITE
    end, toward = (b, low) if low else (a, high)
    sign = toward if high else -toward
    return lambda t: sign * f(end + toward * (1.0 - t) / t) / (t * t), INFINITE


def _infinite(x: Any) -> float:
    """The sign of an infinite end, else 0.  One that differs from step to step of a loop is taken for finite."""
    recorder = current_recorder()
    if isinstance(x, TracedArray) and recorder is not None and recorder.parent is not None:
        return 0.0
    return float(np.sign(x)) if np.isinf(x) else 0.0


def _integral(
    f: Function, points: Rule, shape: tuple[int, ...], dtype: Any, epsabs: Any, epsrel: Any, limit: int,
    largest: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(the integral of *f* over [0, 1], an estimate of its error, whether that is small enough)"""
    recorder = current_recorder()
    assert recorder is not None
    ones = (1,) * len(shape)

    def size(x: Any) -> Any:
        x = np.abs(x)
        return x if not shape else np.max(x) if largest else np.sqrt(np.sum(x * x))

    def rule(start: Any, end: Any) -> tuple[Any, Any]:
        """(the integral over a part, its error)"""
        half = 0.5 * (end - start)
        found = each(lambda x: f(start + half * (1.0 + x)), points.points)
        kronrod, gauss = (np.sum(w.reshape(-1, *ones) * found, axis=0) for w in points[1:])
        weights = points.weights.reshape(-1, *ones)
        around = half * size(np.sum(weights * np.abs(found - 0.5 * kronrod), axis=0))
        whole = half * size(np.sum(weights * np.abs(found), axis=0))
        error = half * size(kronrod - gauss)
        known = (around != 0) & (error != 0)
        ratio = 200.0 * error / np.where(known, around, 1.0)
        error = np.where(known, around * np.minimum(1.0, np.where(known, ratio, 1.0) ** 1.5), error)
        return half * kronrod, np.maximum(_ROUNDING * whole, error)

    place = np.arange(limit)

    def missed(c: Any) -> Any:
        return np.sum(c["error"]) > np.maximum(epsabs, epsrel * size(np.sum(c["value"], axis=0)))

    def improve(c: Any) -> Any:
        """The parts after one more is known: one that is new, or the first half of the one with the largest error."""
        k = np.argmax(c["error"])
        here, new = place == k, place == c["count"]
        halves = np.sum(c["error"]) < np.inf
        start, end = (np.sum(np.where(here, c[name], 0.0)) for name in ("start", "end"))
        middle = np.where(halves, 0.5 * (start + end), end)
        second = new & halves
        value, error = rule(start, middle)
        return {
            "start": np.where(second, middle, c["start"]),
            "end": np.where(here, middle, np.where(second, end, c["end"])),
            "value": np.where(here.reshape(-1, *ones), value, c["value"]),
            "error": np.where(here, np.minimum(error, _MOST), np.where(second, np.inf, c["error"])),
            "count": c["count"] + np.where(halves, 1, 0),
        }

    def goes_on(c: Any) -> Any:
        return missed(c) & ((c["count"] < limit) | (np.sum(c["error"]) == np.inf))

    first = np.where(place == 0, 1.0, 0.0)
    differentiates, recorder.differentiates = recorder.differentiates, False  # the search for parts is not
    try:
        parts: Any = while_loop(
            goes_on, improve,
            {
                "start": as_traced(0.0 * first), "end": as_traced(first), "value": np.zeros((limit, *shape), dtype),
                "error": np.where(place == 0, np.inf, 0.0), "count": np.int64(1),
            },
        )  # fmt: skip
    finally:
        recorder.differentiates = differentiates
    error, accurate = _held(np.sum(parts["error"])), np.logical_not(missed(parts))
    if not differentiates:
        return np.sum(parts["value"], axis=0), error, accurate
    starts, ends = _held(parts["start"]), _held(parts["end"])
    body = BodyRecorder(recorder, limit, "quad")
    begin = strong(np.zeros(shape, dtype)[()])
    total = body.fresh(begin.aval)
    with recording(body):
        row = wrap(body.row, body)
        start, half = starts[row], 0.5 * (ends[row] - starts[row])
        found = each(lambda x: f(start + half * (1.0 + x)), points.points)
        after = to_atom(as_result(total) + half * np.sum(points.weights.reshape(-1, *ones) * found, axis=0))
    (value,) = finish_loop(body, [total], [begin], [after], steps=strong(parts["count"]))
    return as_result(value), error, accurate


def _warn(accurate: Any, limit: int) -> None:
    """Warn where an integral is not as accurate as was asked for."""
    recorder = current_recorder()
    if recorder is not None and recorder.parent is None and not accurate:
        warnings.warn(
            f"The maximum number of subdivisions ({limit}) has been achieved.",
            sys.modules["scipy.integrate"].IntegrationWarning, stacklevel=3,
        )  # fmt: skip


def _quad(
    func: Any, a: Any, b: Any, args: Any = (), full_output: Any = 0, epsabs: Any = 1.49e-8, epsrel: Any = 1.49e-8,
    limit: int = 50, points: Any = None, weight: Any = None, wvar: Any = None, wopts: Any = None, maxp1: int = 50,
    limlst: int = 50, complex_func: bool = False,
) -> Any:  # fmt: skip
    if full_output or weight is not None:
        raise UnsupportedError.here(
            "scipy.integrate.quad with weight= or full_output= is not supported in compiled functions: write the "
            "weight into the function"
        )
    if not callable(func):
        raise UnsupportedError.here("scipy.integrate.quad of a LowLevelCallable is not supported in compiled functions")
    args = args if isinstance(args, tuple) else (args,)

    def scalar(part: Callable[[Any], Any]) -> Function:
        def integrand(x: Any) -> Any:
            found = as_traced(func(x, *args))
            if found.size != 1:
                raise ValueError(at_site(f"the integrand of quad returned an array of shape {found.shape}"))
            return part(found.reshape(())[()]).astype(np.float64)

        return integrand

    if complex_func:
        parts = [_pieces(scalar(p), a, b, points, epsabs, epsrel, limit) for p in (np.real, np.imag)]
        return tuple(re + 1j * im for re, im in zip(*parts, strict=True))
    return _pieces(scalar(lambda x: x), a, b, points, epsabs, epsrel, limit)


def _pieces(
    f: Function, a: Any, b: Any, points: Any, epsabs: Any, epsrel: Any, limit: int = 50, warns: bool = True
) -> tuple[Any, Any]:  # fmt: skip
    """(the integral from *a* to *b*, its error); from point to point, where there are *points*."""
    ends = [a, b] if points is None else [a, *np.sort(as_traced(points)), b]
    value, error = 0.0, 0.0
    for low, high in pairwise(ends):
        more, doubt, accurate = _integral(*on_unit(f, low, high), (), np.float64, epsabs, epsrel, limit)
        if warns:  # a question, for which NumPy runs the loops
            _warn(accurate, limit)
        value, error = value + more, error + doubt
    return value, error


def _quad_vec(
    f: Any, a: Any, b: Any, epsabs: Any = 1e-200, epsrel: Any = 1e-8, norm: str = "2", cache_size: float = 100e6,
    limit: int = 10000, workers: int = 1, points: Any = None, quadrature: Any = None, full_output: bool = False, *,
    args: Any = (),
) -> Any:  # fmt: skip
    if points is not None or full_output or norm not in ("2", "max"):
        raise UnsupportedError.here(
            "scipy.integrate.quad_vec with points=, full_output= or a norm beside '2' and 'max' is not supported in "
            "compiled functions"
        )
    args = args if isinstance(args, tuple) else (args,)
    on, rule = on_unit(lambda x: as_traced(f(x, *args)), a, b)
    example = as_traced(on(np.float64(0.5)))
    dtype = np.result_type(example.dtype, np.float64)
    value, error, accurate = _integral(
        lambda t: as_traced(on(t)).astype(dtype),
        rule,
        example.shape,
        dtype,
        epsabs,
        epsrel,
        min(limit, 200),
        norm == "max",
    )
    _warn(accurate, min(limit, 200))
    return value, error


def _dblquad(
    func: Any, a: Any, b: Any, gfun: Any, hfun: Any, args: Any = (), epsabs: Any = 1.49e-8, epsrel: Any = 1.49e-8
) -> Any:
    def inner(x: Any) -> Any:
        low, high = (g(x) if callable(g) else g for g in (gfun, hfun))
        return _quad(lambda y: func(y, x, *args), low, high, (), 0, epsabs, epsrel)[0]

    return _pieces(inner, a, b, None, epsabs, epsrel, warns=False)


def _tplquad(
    func: Any, a: Any, b: Any, gfun: Any, hfun: Any, qfun: Any, rfun: Any, args: Any = (), epsabs: Any = 1.49e-8,
    epsrel: Any = 1.49e-8,
) -> Any:  # fmt: skip
    def inner(y: Any, x: Any) -> Any:
        low, high = (g(x, y) if callable(g) else g for g in (qfun, rfun))
        return _quad(lambda z: func(z, y, x, *args), low, high, (), 0, epsabs, epsrel)[0]

    return _dblquad(inner, a, b, gfun, hfun, (), epsabs, epsrel)


@when_loaded("scipy.integrate", "odeint", "solve_ivp", "quad")
def _install(integrate: Any) -> None:
    for name, implementation in (
        ("quad", _quad), ("quad_vec", _quad_vec), ("dblquad", _dblquad), ("tplquad", _tplquad),
    ):  # fmt: skip
        hook(getattr(integrate, name), implementation, may_read_traced)
