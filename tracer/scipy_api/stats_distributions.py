"""Distributions of scipy.stats: the methods that all of them share, on traced values and parameters.

SciPy parses the arguments, moves and scales, masks what lies outside of the support, and asks the distribution's own
formula (``_logpdf``, ``_cdf``) for the rest.  So do these, in the same order.  Masks are ``where``s; the formulas are
SciPy's own, which are plain NumPy and scipy.special (``stats_formulas.py`` has those that are not).  Frozen
distributions, which call these methods, and distributions of the user's own come by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..ir.errors import UnsupportedError
from ..ir.site import at_site
from ..numpy_api.hooks import hook, when_loaded
from ..numpy_api.registry import atom_of
from ..ops.elementwise import broadcast_to, cast
from ..record.array import TracedArray, is_traced, to_atom, wrap

_OF_SCIPY = "scipy.stats._continuous_distns"
Mask = Any  # True or False everywhere, a plain array, or a traced one


# ---- masks ----------------------------------------------------------------------------------------------------------


def _settled(mask: Mask) -> Mask:
    """*mask*, True or False where it is one of these everywhere."""
    if isinstance(mask, TracedArray):
        return mask
    plain = np.asarray(mask, bool)
    return True if plain.all() else plain if plain.any() else False


def _all(*masks: Mask) -> Mask:
    found: Mask = True
    for mask in map(_settled, masks):
        if found is True or mask is False:
            found = mask
        elif mask is not True and found is not False:
            found = found & mask
    return found


def _not(mask: Mask) -> Mask:
    mask = _settled(mask)
    return not mask if isinstance(mask, bool) else ~mask


def choose(default: Any, *cases: tuple[Mask, Any]) -> Any:
    """The last of the values whose mask holds, or the *default*: ``np.place`` in this order."""
    found = default
    for mask, value in cases:
        mask = _settled(mask)
        if mask is not False:
            found = value if mask is True else np.where(mask, value, found)
    return found


# ---- arguments ------------------------------------------------------------------------------------------------------


def plain_or_traced(value: Any) -> Any:
    """``np.asarray(value)``, or a traced array."""
    return wrap(atom_of(value)) if is_traced(value) else np.asarray(value)


def parsed(dist: Any, args: Any, kwds: Any, x: Any = 0.0) -> Any:
    """The arguments of a method of *dist* as arrays, and whether the parameters are valid.

    ``x``: that before the parameters; ``shape``: of the result.
    """
    shapes, loc, scale = dist._parse_args(*args, **kwds)
    found = SimpleNamespace()
    found.x, found.loc, found.scale = map(plain_or_traced, (x, loc, scale))
    found.args = tuple(map(plain_or_traced, shapes))
    given = (found.x, *found.args, found.loc, found.scale)
    found.shape = np.broadcast_shapes(*[x.shape for x in given])
    found.valid = _all(dist._argcheck(*found.args), found.scale > 0)
    return found


def _is(value: Any, number: float) -> bool:
    return not isinstance(value, TracedArray) and not value.ndim and bool(value == number)


def _standard(given: Any) -> Any:
    """(x - loc) / scale as float64."""
    x = given.x if _is(given.loc, 0) else given.x - given.loc
    x = x if _is(given.scale, 1) else x / given.scale
    return wrap(cast(x.atom, np.dtype(float))) if isinstance(x, TracedArray) else np.asarray(x, float)


def _moved(end: Any, given: Any) -> Any:
    """An *end* of the support, moved and scaled; an infinite one stays where it is."""
    return end if not is_traced(end) and np.isinf(end).all() else end * given.scale + given.loc


def result(found: Any, shape: tuple[int, ...]) -> Any:
    """*found*, floats of *shape*; of no axes, a number."""
    atom = cast(to_atom(found), np.dtype(float))
    return wrap(broadcast_to(atom, shape) if shape or atom.aval.weak or atom.aval.shape else atom)


def _finite_probability(p: Any) -> Any:
    """*p* between 0 and 1; the ends keep their derivative."""
    return choose(p, (p < 0, 0.0), (p > 1, 1.0))


# ---- continuous -----------------------------------------------------------------------------------------------------


def _density(log: bool) -> Callable[..., Any]:
    """``pdf`` or ``logpdf``."""

    def method(self: Any, x: Any, *args: Any, **kwds: Any) -> Any:
        given = parsed(self, args, kwds, x)
        whole = _whole(self, given)
        y = _standard(given)
        a, b = self._get_support(*given.args)
        value = (self._logpdf if log else self._pdf)(y, *given.args)
        if not _is(given.scale, 1):
            value = value - np.log(given.scale) if log else value / given.scale
        if whole:
            return result(value, given.shape)
        wrong = [(mask, self.badvalue) for mask in (_not(given.valid), np.isnan(y))]
        inside = _all(given.valid, a <= y, y <= b), value
        return result(choose(-math.inf if log else 0.0, *wrong, inside), given.shape)

    return method


_WHOLE = frozenset("norm_gen t_gen laplace_gen logistic_gen cauchy_gen".split())


def _whole(dist: Any, given: Any) -> bool:
    """Whether the formulas of *dist* hold for all numbers, infinities and NaN among them; then wrong parameters make
    the scale NaN, which costs less than a mask of each element."""
    if type(dist).__name__ not in _WHOLE or type(dist).__module__ != _OF_SCIPY or dist.badvalue == dist.badvalue:
        return False
    if given.valid is not True:
        given.scale = np.where(given.valid, given.scale, math.nan)
    return True


def _cumulative(log: bool, upper: bool) -> Callable[..., Any]:
    """``cdf``, ``logcdf``, ``sf`` or ``logsf``."""
    name = f"_{'log' if log else ''}{'sf' if upper else 'cdf'}"

    def method(self: Any, x: Any, *args: Any, **kwds: Any) -> Any:
        given = parsed(self, args, kwds, x)
        whole = _whole(self, given)
        y = _standard(given)
        a, b = self._get_support(*given.args)
        value = getattr(self, name)(y, *given.args)
        if whole:
            return result(value, given.shape)
        cases = [(_not(given.valid), self.badvalue), (np.isnan(y), self.badvalue)]
        cases += [(_all(given.valid, y <= a if upper else y >= b), 0.0 if log else 1.0)]
        cases += [(_all(given.valid, a < y, y < b), value)]
        return result(choose(-math.inf if log else 0.0, *cases), given.shape)

    return method


def _quantile(upper: bool) -> Callable[..., Any]:
    """``ppf`` or ``isf``."""

    def method(self: Any, q: Any, *args: Any, **kwds: Any) -> Any:
        given = parsed(self, args, kwds, q)
        q, loc, scale = given.x, given.loc, given.scale
        a, b = self._get_support(*given.args)
        valid = _all(given.valid, loc == loc)
        value = (self._isf if upper else self._ppf)(q, *given.args)
        value = value if _is(scale, 1) else value * scale
        value = value if _is(loc, 0) else value + loc
        ends = (_all(valid, q == upper), _moved(a, given)), (_all(valid, q == 1 - upper), _moved(b, given))
        return result(choose(self.badvalue, *ends, (_all(valid, q > 0, q < 1), value)), given.shape)

    return method


# ---- discrete -------------------------------------------------------------------------------------------------------


def _counts(given: Any) -> Any:
    return given.x if _is(given.loc, 0) else given.x - given.loc


def _mass(log: bool) -> Callable[..., Any]:
    """``pmf`` or ``logpmf``."""

    def method(self: Any, k: Any, *args: Any, **kwds: Any) -> Any:
        given = parsed(self, args, kwds, k)
        k = _counts(given)
        a, b = self._get_support(*given.args)
        value = self._logpmf(k, *given.args) if log else _finite_probability(self._pmf(k, *given.args))
        inside = _all(given.valid, k >= a, k <= b, True if hasattr(self, "xk") else self._nonzero(k, *given.args))
        wrong = _not(given.valid), np.isnan(k)
        outside = -math.inf if log else 0.0
        return result(choose(outside, *[(w, self.badvalue) for w in wrong], (inside, value)), given.shape)

    return method


def _discrete_cumulative(log: bool, upper: bool) -> Callable[..., Any]:
    """``cdf``, ``logcdf``, ``sf`` or ``logsf``."""
    name = f"_{'log' if log else ''}{'sf' if upper else 'cdf'}"

    def method(self: Any, k: Any, *args: Any, **kwds: Any) -> Any:
        given = parsed(self, args, kwds, k)
        k = _counts(given)
        a, b = self._get_support(*given.args)
        value = getattr(self, name)(k, *given.args)
        wrong = [(_not(given.valid), self.badvalue), (np.isnan(k), self.badvalue)]
        inside = _all(given.valid, k >= a, k < b, log or np.isfinite(k)), value if log else _finite_probability(value)
        if upper:
            sure = [(_all(given.valid, k < a), 0.0 if log else 1.0)]
        else:
            sure = [(k >= b, 0.0 if log else 1.0)]
        cases = wrong + sure if log or upper else sure + wrong
        return result(choose(-math.inf if log else 0.0, *cases, inside), given.shape)

    return method


def _discrete_quantile(upper: bool) -> Callable[..., Any]:
    """``ppf`` or ``isf``."""

    def method(self: Any, q: Any, *args: Any, **kwds: Any) -> Any:
        given = parsed(self, args, kwds, q)
        q, loc = given.x, given.loc
        a, b = self._get_support(*given.args)
        valid = _all(given.valid, loc == loc)
        value = (self._isf if upper else self._ppf)(q, *given.args) + loc
        ends = (_all(valid, q == upper), a - 1 + loc), (_all(valid, q == 1 - upper), b + loc)
        return result(choose(self.badvalue, *ends, (_all(valid, q > 0, q < 1), value)), given.shape)

    return method


# ---- statistics -----------------------------------------------------------------------------------------------------


def _moments(self: Any, args: Any, letters: str) -> list[Any]:
    """Mean, variance, skew and excess kurtosis by the distribution's own formulas; None for those that it has not."""
    return list(self._stats(*args, **({"moments": letters} if self._stats_has_moments else {})))


def _stats(self: Any, *args: Any, **kwds: Any) -> Any:
    shapes, loc, scale, letters = self._parse_args_stats(*args, **kwds)
    given = parsed(self, (*shapes, loc), {} if _discrete(self) else {"scale": scale})
    mu, mu2, g1, g2 = _moments(self, given.args, letters)
    lacks = {"m": mu, "v": mu2, "s": g1, "k": g2}
    missing = [letter for letter in letters if lacks[letter] is None]
    if missing and mu is None:
        mu = self._munp(1, *given.args)
    if missing != ["m"] and missing and mu2 is None:
        mu2 = np.where(np.isinf(mu), math.inf, self._munp(2, *given.args) - mu * mu)
    if g1 is None and ("s" in missing or "k" in missing):
        g1 = ((-mu * mu - 3 * mu2) * mu + self._munp(3, *given.args)) / np.power(mu2, 1.5)
    if "k" in missing:
        mu3 = g1 * np.power(mu2, 1.5)
        g2 = (((-mu * mu - 6 * mu2) * mu - 4 * mu3) * mu + self._munp(4, *given.args)) / mu2**2.0 - 3.0
    valid = _all(given.valid, given.loc == given.loc)
    found = []
    for letter in "mvsk":
        if letter in letters:
            if letter == "m":
                value = mu * given.scale + given.loc
            else:
                value = mu2 * given.scale * given.scale if letter == "v" else g1 if letter == "s" else g2
            found.append(result(choose(self.badvalue, (valid, value)), given.shape))
    return found[0] if len(found) == 1 else tuple(found)


def _discrete(dist: Any) -> bool:
    return hasattr(dist, "_pmf")


def _entropy(self: Any, *args: Any, **kwds: Any) -> Any:
    given = parsed(self, args, kwds)
    numerical = type(self)._entropy.__qualname__.startswith("rv_")  # of numbers alone
    value = (self.vecentropy if numerical else self._entropy)(*given.args) + np.log(given.scale)
    valid = _all(given.valid, given.loc == given.loc)
    return result(choose(0.0, (_not(valid), self.badvalue), (valid, value)), given.shape)


def _moment(self: Any, order: Any, *args: Any, **kwds: Any) -> Any:
    """The sum of SciPy's binomial expansion, which holds at loc = 0, too."""
    if math.floor(order) != order or order < 0:
        raise ValueError(
            at_site("Moment must be an integer." if math.floor(order) != order else "Moment must be positive.")
        )
    n, given = int(order), parsed(self, args, kwds)
    mu, mu2, g1, g2 = _moments(self, given.args, ("m", "m", "v", "vs", "mvsk")[n]) if 0 < n < 5 else [None] * 4

    def standard(k: int) -> Any:
        from_stats = _raw_moment(k, mu, mu2, g1, g2)
        return self._munp(k, *given.args) if from_stats is None else from_stats

    moved = not _is(given.loc, 0)
    total = given.scale**n * standard(n)
    for k in range(n if moved else 0):
        total = total + math.comb(n, k) * given.loc ** (n - k) * given.scale**k * standard(k)
    return result(choose(0.0, (_not(given.valid), self.badvalue), (given.valid, total)), given.shape)


def _raw_moment(k: int, mu: Any, mu2: Any, g1: Any, g2: Any) -> Any:
    """E[Y**k] from central moments; None where those are missing."""
    needed = ((), (mu,), (mu, mu2), (mu, mu2, g1), (mu, mu2, g1, g2))
    if k >= len(needed) or any(m is None for m in needed[k]):
        return None
    if k < 2:
        return mu if k else 1.0
    if k == 2:
        return mu2 + mu * mu
    mu3 = g1 * np.power(mu2, 1.5)
    if k == 3:
        return mu3 + 3 * mu * mu2 + mu * mu * mu
    return (g2 + 3.0) * mu2**2.0 + 4 * mu * mu3 + 6 * mu * mu * mu2 + mu * mu * mu * mu


def _support(self: Any, *args: Any, **kwds: Any) -> Any:
    given = parsed(self, args, kwds)
    ends = [_moved(e, given) for e in self._get_support(*given.args)]
    if given.valid is True or np.all(given.valid):
        return tuple([np.broadcast_to(e, given.shape)[()] for e in ends])
    return tuple([result(choose(self.badvalue, (given.valid, e)), given.shape) for e in ends])


def _interval(self: Any, confidence: Any, *args: Any, **kwds: Any) -> Any:
    alpha = plain_or_traced(confidence)
    if ((alpha > 1) | (alpha < 0)).any():
        raise ValueError(at_site("alpha must be between 0 and 1 inclusive"))
    return self.ppf((1.0 - alpha) / 2, *args, **kwds), self.ppf((1.0 + alpha) / 2, *args, **kwds)


def _freeze(self: Any, dist: Any, *args: Any, **kwds: Any) -> None:
    """A frozen distribution made in recorded code, of a copy of *dist* where that is SciPy's: SciPy makes, and
    documents, a new one."""
    self.args, self.kwds = args, kwds
    if type(dist).__module__.startswith("scipy."):
        self.dist = object.__new__(type(dist))
        vars(self.dist).update(vars(dist))
    else:  # which may have attributes that a new one has not
        self.dist = dist.__class__(**dist._updated_ctor_param())
    shapes, _, _ = dist._parse_args(*args, **kwds)
    self.a, self.b = dist._get_support(*shapes)


def _argcheck(self: Any, *args: Any) -> Any:
    return _all(*[arg > 0 for arg in args])


def _pair(make: Callable[..., Any], *columns: str) -> dict[str, Any]:
    return {columns[0]: make(False), columns[1]: make(True)}


def _four(make: Callable[..., Any]) -> dict[str, Any]:
    return {f"{'log' * log}{'sf' if upper else 'cdf'}": make(log, upper) for log in (0, 1) for upper in (0, 1)}


CONTINUOUS = {**_pair(_density, "pdf", "logpdf"), **_four(_cumulative), **_pair(_quantile, "ppf", "isf")}
DISCRETE = {**_pair(_mass, "pmf", "logpmf"), **_four(_discrete_cumulative), **_pair(_discrete_quantile, "ppf", "isf")}
GENERIC = {
    "stats": _stats, "entropy": _entropy, "moment": _moment, "support": _support, "interval": _interval,
    "_argcheck": _argcheck,
}  # fmt: skip


@when_loaded("scipy.stats._distn_infrastructure", "rv_sample")
def _install(infrastructure: Any) -> None:
    tables = (("rv_continuous", CONTINUOUS), ("rv_discrete", DISCRETE), ("rv_generic", GENERIC))
    for name, table in tables:
        for method, implementation in table.items():
            hook(vars(getattr(infrastructure, name))[method], implementation)
    hook(infrastructure.rv_frozen.__init__, _freeze, lambda args, kwargs: True)


def _new_style(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        kind = type(self).__name__
        raise UnsupportedError.here(
            f"scipy.stats.{kind}{name} of traced values is not supported: use the distribution of the older kind, as "
            "scipy.stats.norm(mu, sigma) instead of Normal(mu=mu, sigma=sigma)"
        )

    return method


@when_loaded("scipy.stats._distribution_infrastructure", "UnivariateDistribution")
def _refuse_new_style(infrastructure: Any) -> None:
    base = infrastructure.UnivariateDistribution
    hook(vars(base)["__init__"], _new_style(""))
    for name in "pdf logpdf pmf logpmf cdf logcdf ccdf logccdf icdf iccdf ilogcdf ilogccdf".split():
        hook(vars(base).get(name), _new_style(f".{name}"))
