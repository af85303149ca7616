"""Places in objects that a loop writes: attributes, items of lists and dicts, variables that inner functions bind.  A
place is carried as a name is."""

from __future__ import annotations

from collections.abc import Iterable
from types import CellType, MemberDescriptorType
from typing import Any, NamedTuple

from ..ir.own_attributes import dict_of, in_class
from .values import UNSET


class WrittenPlace(NamedTuple):
    """Attribute or item ``key`` of ``owner``; of a cell the variable of that name."""

    owner: Any
    key: Any

    @property
    def id(self) -> tuple[Any, ...]:
        """The same for each way to name the place: an element of a list from its end, an attribute in the ``vars``."""
        if isinstance(self.owner, list) and type(self.key) is int and self.key < 0:
            return id(self.owner), self.key + len(self.owner)
        attributes = None if self.is_item or isinstance(self.owner, CellType) else dict_of(self.owner)
        return id(self.owner if attributes is None else attributes), self.key

    @property
    def is_item(self) -> bool:
        return isinstance(self.owner, (list, dict))

    @property
    def name(self) -> str:
        kind = type(self.owner).__name__
        shown = repr(self.key) if isinstance(self.key, (int, str, type(None))) else "..."
        return f"{kind}[{shown}]" if self.is_item else f"{kind}.{self.key}"

    def known(self) -> bool:
        """Whether it is one that can be carried."""
        if isinstance(self.owner, list):
            return type(self.key) is int
        if isinstance(self.owner, CellType):
            return self.owner != CellType()  # it has a value
        if isinstance(self.owner, dict):
            return type(self.key) in (int, str, bool, tuple, type(None)) and self.key in self.owner
        if not isinstance(self.key, str):
            return False
        return self.get() is not UNSET if self.slot is not None else self.key in (dict_of(self.owner) or ())

    @property
    def slot(self) -> Any:
        """The descriptor of an attribute that stands in no ``__dict__``; else None."""
        found = None if self.is_item or isinstance(self.owner, CellType) else in_class(type(self.owner), self.key)
        return found if type(found) is MemberDescriptorType else None

    def get(self) -> Any:
        try:
            if isinstance(self.owner, CellType):
                return self.owner.cell_contents
            if (slot := self.slot) is not None:
                return slot.__get__(self.owner)
            return self.owner[self.key] if self.is_item else self.owner.__dict__[self.key]
        except (KeyError, IndexError, ValueError, AttributeError):  # it was deleted
            return UNSET

    def set(self, value: Any) -> None:
        if isinstance(self.owner, CellType):
            self.owner.cell_contents = value
        elif self.is_item:
            self.owner[self.key] = value
        elif (slot := self.slot) is not None:
            slot.__set__(self.owner, value)
        else:
            self.owner.__dict__[self.key] = value


class Element(WrittenPlace):
    """Element ``key`` (negative, from the end) of the list ``owner``, to which each iteration appends.  It is read, and
    written by nothing but that."""

    @property
    def id(self) -> tuple[Any, ...]:
        return id(self.owner), self.key, "element"

    def known(self) -> bool:
        """Whether there is one."""
        return len(self.owner) >= -self.key


def elements_behind(read: Iterable[Element]) -> dict[Any, Element]:
    """The elements *read*, and those between them and the ends of their lists, whose values they take on."""
    found = [Element(e.owner, key) for e in read for key in range(e.key, 0)]
    return {e.id: e for e in found}
