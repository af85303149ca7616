"""NumPy's random generators, as recorded code sees them (``record/shown_names.py``).

One that the code makes is a subclass of NumPy's that draws the same numbers, and takes parameters that are traced: a
distribution that scales and shifts is its standard form, scaled and shifted.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..record.array import TracedArray, is_traced, wrap_array
from ..record.integers import TracedInt
from ..record.recorder import current_recorder
from ..record.shown_names import show_functions
from .assemble import nested_atom
from .hooks import when_loaded


def _shifted(z: Any, loc: Any, scale: Any) -> Any:
    return loc + scale * z


def _scaled(z: Any, scale: Any) -> Any:
    return scale * z


_FILLING = ("random", "standard_normal", "standard_exponential")  # methods that may fill an array
# distribution: (its parameters and their defaults, the draw made of the standard one and these, what is not negative)
_Form = tuple[dict[str, float], Callable[..., Any], str]
_FORMS: dict[str, _Form] = {
    **{name: ({"loc": 0.0, "scale": 1.0}, _shifted, "scale") for name in ("normal", "laplace", "logistic", "gumbel")},
    **{name: ({"scale": 1.0}, _scaled, "scale") for name in ("exponential", "rayleigh")},
    "lognormal": ({"mean": 0.0, "sigma": 1.0}, lambda z, mean, sigma: np.exp(mean + sigma * z), "sigma"),
    "uniform": ({"low": 0.0, "high": 1.0}, lambda z, low, high: low + (high - low) * z, "high - low"),
}


def _located(name: str, form: _Form, plain: Callable[..., Any]) -> Callable[..., Any]:
    """The draw *name* by the *plain* one, with traced parameters."""
    defaults, drawn, least = form
    # the normal numbers of a lognormal one
    source = "normal" if name == "lognormal" else name

    def draw(owner: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_traced((*args, *kwargs.values())):
            return plain(owner, *args, **kwargs)
        given = {**dict(zip((*defaults, "size"), args, strict=False)), **kwargs}
        size = given.pop("size", None)
        unknown = given.keys() - defaults.keys()
        if unknown or len(args) > len(defaults) + 1:
            raise TypeError(f"{name}() got an unexpected argument {min(unknown, default='')!r}")
        values = {key: wrap_array(nested_atom(value)) for key, value in {**defaults, **given}.items()}
        bound = values["high"] - values["low"] if name == "uniform" else values[least]
        if (name != "uniform" or isinstance(owner, np.random.Generator)) and np.any(bound < 0):
            raise ValueError(f"{least} < 0")
        shape = np.broadcast_shapes(*[value.shape for value in values.values()])
        if size is not None:
            wanted = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
            if np.broadcast_shapes(shape, wanted) != wanted:
                raise ValueError(f"Output size {wanted} is not compatible with broadcast dimensions of inputs {shape}.")
            shape = wanted
        standard = getattr(owner, source)(size=shape)
        standard = standard if type(standard) is TracedArray else np.asarray(standard)
        found = drawn(standard, *[value.astype(np.float64, copy=False) for value in values.values()])
        return found.number() if size is None and not shape else found

    return draw


def _choice(owner: Any, a: Any, *args: Any, **kwargs: Any) -> Any:
    if type(a) is not TracedArray:
        return NotImplemented
    axis = kwargs.pop("axis", args[3] if len(args) > 3 else 0)
    return np.take(a, owner.choice(a.shape[axis], *args[:3], **kwargs), axis=axis)


def _permutation(owner: Any, x: Any, axis: int = 0) -> Any:
    return np.take(x, owner.permutation(x.shape[axis]), axis=axis) if type(x) is TracedArray else NotImplemented


def _shuffle(owner: Any, x: Any, axis: int = 0) -> Any:
    if type(x) is not TracedArray:
        return NotImplemented
    x[...] = _permutation(owner, x, axis)
    return None


def _into(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """The draw *name*, which may be given an array to fill (``out``)."""

    def draw(owner: Any, *args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        if type(out) is not TracedArray:
            return plain(owner, *args, **kwargs)
        del kwargs["out"]
        out[...] = getattr(owner, name)(*args, **{"size": out.shape, "dtype": out.dtype, **kwargs})
        return out

    return draw


def _multivariate_normal(owner: Any, mean: Any, cov: Any, *args: Any, **kwargs: Any) -> Any:
    if type(mean) is not TracedArray or is_traced((cov,)):
        return NotImplemented
    return mean + owner.multivariate_normal(np.zeros(mean.shape), cov, *args, **kwargs)


def _taking(ours: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    def draw(owner: Any, *args: Any, **kwargs: Any) -> Any:
        found = ours(owner, *args, **kwargs) if args else NotImplemented
        return plain(owner, *args, **kwargs) if found is NotImplemented else found

    return draw


def _draws(plain: Callable[[str], Callable[..., Any]], fills: bool) -> dict[str, Callable[..., Any]]:
    """The methods of generators that take traced values, over the *plain* ones, by name.  *fills*: some fill arrays."""
    takers: dict[str, Callable[..., Any]] = {
        "choice": _choice,
        "permutation": _permutation,
        "shuffle": _shuffle,
        "multivariate_normal": _multivariate_normal,
    }
    return {
        **{name: _located(name, form, plain(name)) for name, form in _FORMS.items()},
        **{name: _taking(ours, plain(name)) for name, ours in takers.items()},
        **{name: _into(name, plain(name)) for name in _FILLING if fills},
    }


def taking_traced(kind: type) -> dict[str, Callable[..., Any]]:
    """The methods of a class of generators that take traced values: of the generator, and their arguments."""
    module = sys.modules.get("numpy.random")
    if module is None or kind not in (module.Generator, module.RandomState):
        return {}
    return _draws_by_name(kind is module.Generator)


@functools.cache
def _draws_by_name(fills: bool) -> dict[str, Callable[..., Any]]:
    def plain(name: str) -> Callable[..., Any]:
        return lambda owner, *args, **kwargs: getattr(owner, name)(*args, **kwargs)

    return _draws(plain, fills)


def _draws_of(kind: type) -> dict[str, Callable[..., Any]]:
    return _draws(functools.partial(getattr, kind), kind is np.random.Generator)


@functools.cache
def _subclass(kind: Any) -> Any:
    space = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__slots__": ()}
    return type(kind.__name__, (kind,), {**space, **_draws_of(kind)})


def _generator(bit_generator: Any) -> Any:
    made = np.random.Generator(bit_generator)
    return made if current_recorder() is None else _subclass(np.random.Generator)(made.bit_generator)


def _known(seed: Any) -> Any:
    """A seed, of which NumPy has to have the value."""
    return operator.index(seed) if type(seed) is TracedInt else seed


def _default_rng(seed: Any = None) -> Any:
    made = np.random.default_rng(_known(seed))
    return made if made is seed or current_recorder() is None else _subclass(np.random.Generator)(made.bit_generator)


def _random_state(seed: Any = None) -> Any:
    if current_recorder() is None:
        return np.random.RandomState(seed)
    if seed is None or hasattr(seed, "capsule"):
        return _subclass(np.random.RandomState)(seed)
    first = np.random.MT19937(np.random.SeedSequence(0))  # no call of the system's, as by the constructor
    made = _subclass(np.random.RandomState)(first)
    made.seed(_known(seed))
    return made


def _of_module(name: str, method: Callable[..., Any], plain: Any) -> Callable[..., Any]:
    def draw(*args: Any, **kwargs: Any) -> Any:
        if not is_traced((*args, *kwargs.values())):
            return plain(*args, **kwargs)
        return method(plain.__self__, *args, **kwargs)

    return draw


@when_loaded("numpy.random", "default_rng", "Generator", "RandomState", "seed", *_FORMS, sought=True)
def _show_generators(module: ModuleType) -> None:
    """Let calls of the functions of ``np.random`` find these."""
    for kind in (module.Generator, module.RandomState):
        _subclass(kind)
    methods = _draws_of(module.RandomState)
    drawn = {name: _of_module(name, method, getattr(module, name)) for name, method in methods.items()}
    made = {"default_rng": _default_rng, "Generator": _generator, "RandomState": _random_state}
    show_functions(module, {**made, **drawn})
