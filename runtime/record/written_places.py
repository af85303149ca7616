"""The places that a live run has written to, so that no traced value stays there.

The copies of a live run (``live_frame.py``) tell of each place before they write to it, as Python does: attributes,
global and free variables, containers whose methods are called, and objects that code in C is given together with
values of the run.  When the run is over, ``settle`` puts plain values in these places.  What code without a source has
written nobody has told of: ``Holders`` (``unwrap_tracers.py``) counts references and finds it.
"""

from __future__ import annotations

import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from ...tracer.bytecode.records import dict_of
from ...tracer.ir.site import FOR_THE_USER
from ..state.pins import home, lookup
from ..state.values import is_leaf
from .held_values import holds_traced
from .kinds import TRACED

_CONTAINERS = (list, dict, set, deque)
_HOLDING = (*TRACED, *_CONTAINERS, tuple)
_MISSING = object()
_OURS = f"{__name__.partition('.')[0]}."


class WrittenPlaces:
    """The places of one run."""

    def __init__(self) -> None:
        self._containers: dict[int, Any] = {}  # by id
        self._attributes: dict[tuple[int, str], Any] = {}  # by id and name: the object, or a reference to it
        self._items: dict[tuple[int, Any], Any] = {}  # by id and key: a dict
        self._caches: dict[int, Any] = {}
        self._variables: set[ContextVar[Any]] = set()

    def __bool__(self) -> bool:
        return bool(self._containers or self._attributes or self._items or self._caches or self._variables)

    def container(self, obj: Any) -> None:
        """All that a container or cell holds may be written."""
        if isinstance(obj, (*_CONTAINERS, types.CellType)) and not _is_our_namespace(obj):
            self._containers[id(obj)] = obj

    def cache(self, cached: Any) -> None:
        """A function with a cache (``functools.lru_cache``) is called."""
        self._caches[id(cached)] = cached

    def variable(self, variable: ContextVar[Any]) -> None:
        """A context variable may be set."""
        self._variables.add(variable)

    def attribute(self, obj: Any, name: str) -> None:
        """An attribute is to be written; objects that the run lets go may end, as they do in Python."""
        try:
            self._attributes[id(obj), name] = weakref.ref(obj)
        except TypeError:
            self._attributes[id(obj), name] = obj

    def item(self, names: dict[Any, Any], key: Any) -> None:
        """An item of a dict is to be written."""
        self._items[id(names), key] = names

    def handed(self, values: Iterable[Any]) -> bool:
        """Code that is not converted is given these *values*, and may write those of the run into the others; whether
        there are any of the run among them."""
        values = list(values)
        if not any(issubclass(type(x), _HOLDING) for x in values):
            return False
        for value in values:
            self.object(value)
        return True

    def object(self, value: Any) -> None:
        """Any attribute of an object, or part of a container, may be written."""
        if isinstance(value, _CONTAINERS):
            self.container(value)
        elif not is_leaf(value) and type(value) not in TRACED and type(store := dict_of(value)) is dict:
            self._containers[id(store)] = store

    def making(self, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
        """An object of a class whose code has no source, which is given values of the run."""
        made = cls(*args, **kwargs)
        self.object(made)
        return made

    def settle(self, plain: Any) -> None:
        """Put the *plain* form (``Settled``) of what the run has left in these places there."""
        for (_, name), known in [*self._attributes.items()]:
            obj = known() if type(known) is weakref.ref else known
            if obj is not None:
                _settle_attribute(obj, name, plain)
        for (_, key), names in [*self._items.items()]:
            if (value := names.get(key, _MISSING)) is not _MISSING and (new := plain(value)) is not value:
                names[key] = new
        for container in [*self._containers.values()]:
            plain(container)
        for variable in self._variables:
            if (value := variable.get(_MISSING)) is not _MISSING and (new := plain(value)) is not value:
                variable.set(new)
        for cached in self._caches.values():
            if holds_traced([cached]):
                cached.cache_clear()


def _settle_attribute(obj: Any, name: str, plain: Callable[[Any], Any]) -> None:
    """Settle the attribute *name* where it is: in the object, in a slot, or in a class."""
    store = None if issubclass(type(obj), type) else dict_of(obj)
    if type(store) is dict and name in store:
        if (new := plain(store[name])) is not store[name]:
            store[name] = new
    elif not isinstance(obj, type):
        slot = lookup(type(obj), name)
        value = getattr(obj, name, None) if type(slot) is types.MemberDescriptorType else None
        if not is_leaf(value) and (new := plain(value)) is not value:
            object.__setattr__(obj, name, new)
    elif (base := home(obj, name)) is not None:
        value = vars(base)[name]
        if (new := plain(value)) is not value:
            type.__setattr__(base, name, new)


def _is_our_namespace(obj: Any) -> bool:
    """Whether *obj* is the namespace of a module of ours, which frames between the user's show: tables in it hold what
    stands for functions of Python's, in every run."""
    return type(obj) is dict and "__spec__" in obj and str(obj.get("__name__")).startswith(_OURS)


FOR_THE_USER.add(__file__)  # where classes of the user's are called
