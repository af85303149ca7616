"""The parts that patterns of ``match`` take subjects to: CPython's questions, by the other methods of the frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir.class_flags import MAPPING, MATCH_SELF, SEQUENCE

_FLAGS: dict[type, int] = {Sequence: SEQUENCE, Mapping: MAPPING}
_ABSENT = object()


class Patterns:
    """The part of a frame that has the patterns."""

    call: Any
    call_method: Any
    test: Any
    eq: Any
    ge: Any
    attr: Any
    del_item: Any
    unpack_star: Any

    def is_of(self, x: Any, abstract: type, /) -> bool:
        """Whether *x* is a sequence, or a mapping, to a pattern."""
        flag = _FLAGS[abstract]
        # the class that Python sees is asked second: a traced number has the flags of a traced array
        return bool(type(x).__flags__ & flag and self.call(type, x).__flags__ & flag)

    def match_sequence(self, xs: Any, before: int, after: int, /) -> tuple[Any, ...] | None:
        """The parts of a sequence of so many items; of those between *before* and *after* ones a list (-1: there are to
        be none).  None where *xs* is no such sequence."""
        if not self.is_of(xs, Sequence):
            return None
        count = self.call(len, xs)
        if not self.test(self.eq(count, before) if after < 0 else self.ge(count, before + after)):
            return None
        items = [*self.unpack_star(xs, before, max(after, 0))]
        if after < 0:
            return tuple(items)
        end = len(items) - after
        return (*items[:before], items[before:end], *items[end:])

    def match_mapping(self, x: Any, keys: tuple[Any, ...], rest: bool, /) -> tuple[Any, ...] | None:
        """The values under these keys, and a dict of the others if the *rest* is wanted; None where one is absent."""
        if not self.is_of(x, Mapping) or (keys and not self.test(self.ge(self.call(len, x), len(keys)))):
            return None
        if len({*keys}) < len(keys):
            again = next(key for k, key in enumerate(keys) if key in keys[:k])
            raise ValueError(f"mapping pattern checks duplicate key ({again!r})")
        found = []
        for key in keys:
            found.append(self.call_method(x, "get", key, _ABSENT))
            if found[-1] is _ABSENT:
                return None
        if rest:
            others = self.call(dict, x)
            for key in keys:
                self.del_item(others, key)
            found.append(others)
        return tuple(found)

    def match_class(self, x: Any, cls: Any, count: int, names: tuple[str, ...], /) -> tuple[Any, ...] | None:
        """The attributes of an object of *cls*: *count* by position, and those of these *names*; None where *x* is no
        such object, or lacks one."""
        if not isinstance(cls, type):
            raise TypeError("called match pattern must be a type")
        if not self.test(self.call(isinstance, x, cls)):
            return None
        found: list[Any] = []
        if count:
            known = self.call(getattr, cls, "__match_args__", _ABSENT)
            if known is _ABSENT and count == 1 and cls.__flags__ & MATCH_SELF:
                found.append(x)
            else:
                names = (*_by_position(cls, () if known is _ABSENT else known, count), *names)
        if len({*names}) < len(names):
            again = next(text for k, text in enumerate(names) if text in names[:k])
            raise TypeError(f"{cls.__name__}() got multiple sub-patterns for attribute {again!r}")
        for text in names:
            try:
                found.append(self.attr(x, text))
            except AttributeError:
                return None
        return tuple(found)


def _by_position(cls: Any, known: Any, count: int) -> tuple[str, ...]:
    """The attributes that *count* patterns by position are for."""
    if type(known) is not tuple:
        raise TypeError(f"{cls.__name__}.__match_args__ must be a tuple (got {type(known).__name__})")
    if len(known) < count:
        few = "" if len(known) == 1 else "s"
        raise TypeError(f"{cls.__name__}() accepts {len(known)} positional sub-pattern{few} ({count} given)")
    return known[:count]
