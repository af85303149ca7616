"""Items of objects of the user's subclasses of ``list`` and ``dict``, apart from what their classes say of them."""

from __future__ import annotations

from typing import Any, Generic

from .trust import Trust

CONTENTS = "contents"  # how an object leads to its items


def base_of_items(kind: type, trust: Trust) -> Any:
    """The builtin class whose items objects of *kind* have, ``list`` or ``dict``, where the other bases are the user's;
    None for others."""
    base = list if issubclass(kind, list) else dict if issubclass(kind, dict) else None
    if base is None or kind is base:
        return None
    known = (base, object, Generic)
    return None if any(trust.cls(cls) for cls in kind.__mro__ if cls not in known) else base


def plain_items(obj: Any) -> Any:
    """A new list or dict with the items of *obj*, whatever methods its class has."""
    return list.copy(obj) if isinstance(obj, list) else dict.copy(obj)


class OwnItems:
    """The items of *owner*, to be changed by the methods of the builtin class."""

    __slots__ = ("_kind", "_owner")

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._kind: Any = list if isinstance(owner, list) else dict

    def __getitem__(self, key: Any) -> Any:
        return self._kind.__getitem__(self._owner, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._kind.__setitem__(self._owner, key, value)

    def __delitem__(self, key: Any) -> None:
        self._kind.__delitem__(self._owner, key)

    def append(self, value: Any) -> None:
        list.append(self._owner, value)

    def extend(self, values: Any) -> None:
        list.extend(self._owner, values)

    def update(self, values: Any) -> None:
        dict.update(self._owner, values)

    def clear(self) -> None:
        self._kind.clear(self._owner)
