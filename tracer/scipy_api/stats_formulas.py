"""Formulas of scipy.stats' distributions that cannot be recorded as SciPy writes them.

The others are NumPy and scipy.special, and record by themselves.  ``apply_where`` and ``_lazyselect``, by which SciPy
computes each branch of a formula for the elements that need it, are ``where``s here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import scipy.special as sp

from ..ir.errors import UnsupportedError
from ..numpy_api.hooks import hook, hook_to_source, when_loaded
from .stats_distributions import choose

# ---- choices by element ---------------------------------------------------------------------------------------------


def _apply_where(
    cond: Any, args: Any, f1: Callable[..., Any], f2: Any = None, /, *, fill_value: Any = None, xp: Any = None,
    kwargs: Any = None,
) -> Any:  # fmt: skip
    values = args if isinstance(args, tuple) else (args,)
    return np.where(cond, f1(*values), f2(*values) if f2 is not None else fill_value)


def _lazyselect(condlist: Any, choicelist: Any, arrays: Any, default: Any = 0) -> Any:
    return choose(default, *[(c, f(*arrays)) for c, f in zip(condlist, choicelist, strict=False)])


def _lazywhere(cond: Any, arrays: Any, f: Any, fillvalue: Any = None, f2: Any = None) -> Any:
    """``apply_where`` of SciPy 1.15."""
    return _apply_where(cond, tuple(arrays), f, f2, fill_value=fillvalue)


@when_loaded("scipy._lib.array_api_extra", "apply_where")
@when_loaded("scipy._lib._util", "getfullargspec_no_self")
def _hook_choices(module: Any) -> None:
    for implementation in (_apply_where, _lazywhere, _lazyselect):
        hook(getattr(module, implementation.__name__.replace("_apply", "apply"), None), implementation)


# ---- continuous -----------------------------------------------------------------------------------------------------


def _logcdf(self: Any, x: Any, *args: Any) -> Any:
    """From the smaller of both tails."""
    p = self._cdf(x, *args)
    return np.where(p < 0.5, np.log(p), np.log1p(-self._sf(x, *args)))


def _logsf(self: Any, x: Any, *args: Any) -> Any:
    p = self._sf(x, *args)
    return np.where(p < 0.5, np.log(p), np.log1p(-self._cdf(x, *args)))


def _no_formula(name: str, instead: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        raise UnsupportedError.here(f"scipy.stats.{self.name} has no formula for its {name}: {instead}")

    return method


def _cauchy_logpdf(self: Any, x: Any) -> Any:
    size = np.where(x < 0, -x, x)  # differentiable at 0, where it is an even function of this
    near = -math.log(math.pi) - np.log1p(size**2)
    return np.where(size < 1, near, -math.log(math.pi) - (2 * np.log(size) + np.log1p((1 / size) ** 2)))


def _logistic_logpdf(self: Any, x: Any) -> Any:
    y = np.where(x < 0, x, -x)
    return y - 2.0 * np.log1p(np.exp(y))


def _pareto_stats(self: Any, b: Any, moments: str = "mv") -> Any:
    formulas = {
        "m": lambda: np.where(b > 1, b / (b - 1.0), math.inf),
        "v": lambda: np.where(b > 2, b / (b - 2.0) / (b - 1.0) ** 2, math.inf),
        "s": lambda: np.where(b > 3, 2 * (b + 1.0) * np.sqrt(b - 2.0) / ((b - 3.0) * np.sqrt(b)), math.nan),
        "k": lambda: np.where(b > 4, 6.0 * (b**3 + b**2 - 6 * b - 2) / (b * (b - 3.0) * (b - 4.0)), math.nan),
    }
    return [formula() if letter in moments else None for letter, formula in formulas.items()]


def _munp(self: Any, n: Any, *args: Any) -> Any:
    """E[X**n] of a distribution without a formula for it, which SciPy integrates."""
    if type(self).__name__ == "pareto_gen":
        return np.where(args[0] > n, args[0] / (args[0] - n), math.inf)
    return self.generic_moment(n, *args)


def _t_entropy(self: Any, df: Any) -> Any:
    half, half1 = df / 2, (df + 1) / 2
    near = half1 * (sp.digamma(half1) - sp.digamma(half)) + np.log(np.sqrt(df) * sp.beta(half, 0.5))
    normal, r = 0.5 * (math.log(2 * math.pi) + 1), 1 / df
    far = normal + r * (1 + r * (1 / 4 + r * (-1 / 6 + r * (-1 / 8 + r * (3 / 10 + r / 4)))))
    return np.where(df >= 100, far, near)


_GENERIC: dict[str, dict[str, Callable[..., Any]]] = {
    "rv_generic": {"_munp": _munp},
    "rv_continuous": {"_logcdf": _logcdf, "_logsf": _logsf},
}
_CONTINUOUS: dict[str, dict[str, Callable[..., Any]]] = {
    "cauchy_gen": {"_logpdf": _cauchy_logpdf},
    "logistic_gen": {"_logpdf": _logistic_logpdf},
    "pareto_gen": {"_stats": _pareto_stats},
    "t_gen": {"_entropy": _t_entropy},
}
_DISCRETE: dict[str, dict[str, Callable[..., Any]]] = {}


def _replace(module: Any, table: dict[str, dict[str, Callable[..., Any]]]) -> None:
    for name, methods in table.items():
        for method, implementation in methods.items():
            formula = vars(getattr(module, name, object)).get(method)
            if formula is not None:
                hook(formula, implementation)


def record_sources(module: Any, *names: str) -> None:
    """Record the functions and methods of the *module* that use one of these *names*, which give plain arrays, through
    their source."""
    own = [x for x in vars(module).values() if getattr(x, "__module__", None) == module.__name__]
    spaces = [vars(x) for x in own if isinstance(x, type)]
    for function in [*own, *(f for space in spaces for f in space.values())]:
        if isinstance(function, FunctionType) and not set(names).isdisjoint(function.__code__.co_names):
            hook_to_source(function)


@when_loaded("scipy.stats", "norm", "binom")
def _install(stats: Any) -> None:
    _replace(sys.modules["scipy.stats._distn_infrastructure"], _GENERIC)
    for name, table in (("continuous", _CONTINUOUS), ("discrete", _DISCRETE)):
        module = sys.modules[f"scipy.stats._{name}_distns"]
        _replace(module, table)
        record_sources(module, "asarray")
