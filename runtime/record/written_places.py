"""The places that a live run has written to, so that no traced value stays there.

The copies of a live run (``live_frame.py``) tell of each place before they write to it, as Python does: attributes,
global and free variables, containers whose methods are called, and objects that code in C is given together with
values of the run.  When the run is over, ``settle`` puts plain values in these places.  What code without a source has
written nobody has told of: ``Holders`` (``unwrap_tracers.py``) counts references and finds it.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from ...tracer.ir.own_attributes import dict_of
from ...tracer.ir.site import FOR_THE_USER
from ...tracer.record.made_arrays import ALONE, references
from ..state.pins import home, lookup
from ..state.values import is_leaf
from .held_values import holds_traced
from .kinds import TRACED

_CONTAINERS = (list, dict, set, deque)
_HOLDING = (*TRACED, *_CONTAINERS, tuple)
_PLAIN_KEYS = (str, int, bool, bytes, type(None))  # which are no values of a run
_MISSING, _ALL = object(), object()
_CACHES = type(functools.lru_cache(len))
_OURS = f"{__name__.partition('.')[0]}."


class WrittenPlaces:
    """The places of one run, which *acts* where it writes to one."""

    def __init__(self, acts: Callable[[], None]) -> None:
        self._acts = acts
        self._places: dict[tuple[int, Any], Any] = {}  # by id and name or key: the owner, or a reference to it

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, owner: Any, key: Any = _ALL) -> None:
        """An attribute, or the item of a dict, may be written; or all that *owner* holds: a container, a cell, a
        context variable, a function with a cache.  Objects that the run lets go may end, as they do in Python."""
        self._acts()
        stays = key is _ALL or type(owner) is dict
        self._places[id(owner), key] = owner if stays else _reference(owner)

    def container(self, obj: Any) -> None:
        """All that *obj* holds may be written, if it is a container."""
        if isinstance(obj, _CONTAINERS) and not _is_our_namespace(obj):
            self.add(obj)

    def taking(self, obj: Any, values: Iterable[Any]) -> None:
        """A method of the container *obj* is given *values*, and may put them there."""
        if all(map(is_leaf, values)):
            self._acts()
        else:
            self.container(obj)

    def item(self, obj: Any, key: Any, value: Any) -> None:
        """*value* is put into *obj*: into a dict, which may be that of a program's globals, under *key* alone."""
        if type(obj) is dict and type(key) in _PLAIN_KEYS:
            self.add(obj, key)
        else:
            self.taking(obj, (key, value))

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
            self.add(store)

    def making(self, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
        """An object of a class whose code has no source, which is given values of the run."""
        made = cls(*args, **kwargs)
        self.object(made)
        return made

    def settle(self, plain: Any) -> None:
        """Put the *plain* form (``Settled``) of what the run has left in these places there."""
        keys = [key for _, key in self._places]
        owners = [known() if type(known) is weakref.ref else known for known in self._places.values()]
        for k, key in enumerate(keys):
            if type(owners[k]) in _CONTAINERS and references(owners, k) == ALONE + 1:
                continue  # nobody else has it
            owner = owners[k]
            if key is not _ALL and type(owner) is dict:
                if (value := owner.get(key, _MISSING)) is not _MISSING and (new := plain(value)) is not value:
                    owner[key] = new
            elif key is not _ALL:
                _settle_attribute(owner, key, plain)
            elif type(owner) is ContextVar:
                if (value := owner.get(_MISSING)) is not _MISSING and (new := plain(value)) is not value:
                    owner.set(new)
            elif type(owner) is not _CACHES:
                plain(owner)
        for owner in owners:  # which may keep objects that have plain values by now
            if type(owner) is _CACHES and holds_traced([owner]):
                owner.cache_clear()
        self._places.clear()  # so that lists which nobody else has end here


def _reference(owner: Any) -> Any:
    try:
        return weakref.ref(owner)
    except TypeError:
        return owner


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
