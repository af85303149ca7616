"""A function in the form that other libraries' graphs need: of a tuple of arrays to differentiate and of one of all
else, with its float results apart from the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..runtime.transforms.reverse import Vjp
from ..runtime.transforms.transform import rule_of, transformed
from ..tracer.ir.errors import UnsupportedError
from ..tracer.ir.trees import tree_flatten, tree_unflatten

_RULE = rule_of(Vjp, True, (0,))


class FlatCall(NamedTuple):
    """A call of a function, taken apart.

    ``which`` says of each leaf of the arguments whether its place is among ``moved``, which are differentiated, or
    among ``fixed``.
    """

    structure: Any
    which: tuple[bool, ...]
    moved: tuple[Any, ...]
    fixed: tuple[Any, ...]


def taken_apart(leaves: Sequence[Any], structure: Any, which: Sequence[bool]) -> FlatCall:
    moved = tuple([x for x, m in zip(leaves, which, strict=True) if m])
    fixed = tuple([x for x, m in zip(leaves, which, strict=True) if not m])
    return FlatCall(structure, tuple(which), moved, fixed)


class Flattened:
    """The flat forms of one function, by structure of its arguments."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self._forms: dict[Any, Any] = {}

    def form(self, call: FlatCall) -> Callable[..., Any]:
        """``(moved, fixed) -> (floats, rest)``: the float results of the function in order, and what it returned with
        an ellipsis in place of each of them."""
        key = call.structure, call.which
        found = self._forms.get(key)
        if found is None:
            found = self._forms[key] = _flat_form(self.f, *key)
        return found

    def vjp(self, call: FlatCall) -> tuple[tuple[Any, ...], Callable[[Any], tuple[Any, ...]], Any]:
        """(floats, function of their cotangents, rest)."""
        return transformed(_RULE, self.form(call))(call.moved, call.fixed)


def _flat_form(f: Callable[..., Any], structure: Any, which: tuple[bool, ...]) -> Callable[..., Any]:
    @functools.wraps(f, updated=())
    def flat(moved: tuple[Any, ...], fixed: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
        given, others = iter(moved), iter(fixed)
        args, kwargs = tree_unflatten(structure, [next(given if m else others) for m in which])
        leaves, of_results = tree_flatten(f(*args, **kwargs))
        floats = tuple([x for x in leaves if _is_float(x)])
        return floats, tree_unflatten(of_results, [... if _is_float(x) else x for x in leaves])

    del flat.__wrapped__
    return flat


def pulled(f: Callable[..., Any], call: FlatCall) -> Callable[..., Any]:
    """``(moved, fixed, cotangents) -> cotangents of moved``, as a function of its own, which can be differentiated."""
    form = _flat_form(f, call.structure, call.which)

    def pull(moved: tuple[Any, ...], fixed: tuple[Any, ...], cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        return transformed(_RULE, form)(moved, fixed)[1](cotangents)[0]

    return pull


def _is_float(x: Any) -> bool:
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    if kind == "c" or isinstance(x, complex):
        raise UnsupportedError.here("complex results: return their real and imaginary parts")
    return kind == "f" or isinstance(x, float)


def put_together(floats: Iterable[Any], rest: Any, convert: Callable[[Any], Any]) -> Any:
    """The result of the function: *floats* in place of the ellipses, and the others as *convert* gives them."""
    leaves, structure = tree_flatten(rest)
    parts = iter(floats)
    return tree_unflatten(structure, [next(parts) if x is ... else convert(x) for x in leaves])
