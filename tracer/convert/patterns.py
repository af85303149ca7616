"""The parts that patterns of ``match`` take subjects to: CPython's questions, by the other methods of the frame."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
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
    sub: Any
    item: Any
    del_item: Any
    unpack_star: Any

    def is_of(self, x: Any, abstract: type, /) -> bool:
        """Whether *x* is a sequence, or a mapping, to a pattern."""
        flag = _FLAGS[abstract]
        # the class that Python sees is asked second: a traced number has the flags of a traced array
        return bool(type(x).__flags__ & flag and self.call(type, x).__flags__ & flag)

    def is_sequence(self, xs: Any, before: int, after: int, /) -> bool:
        """Whether *xs* is a sequence of *before* items, and any number and *after* of them (-1: of no others)."""
        if not self.is_of(xs, Sequence):
            return False
        if before == after == 0:
            return True
        count = self.call(len, xs)
        return bool(self.test(self.eq(count, before) if after < 0 else self.ge(count, before + after)))

    def sequence_item(self, xs: Any, k: int, /) -> Any:
        """An item of a sequence, which need not know places from its end (*k* < 0)."""
        return self.item(xs, k if k >= 0 else self.sub(self.call(len, xs), -k))

    def match_sequence(self, xs: Any, before: int, after: int, /) -> tuple[Any, ...] | None:
        """The parts of such a sequence; of those between *before* and *after* ones a list.  None where *xs* is none."""
        if not self.is_sequence(xs, before, after):
            return None
        return _unpacking(before, after)(self.unpack_star(xs, before, max(after, 0)))

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
            match None:
                case cls():  # which raises, in the words of this version of Python
                    pass
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


@functools.lru_cache(maxsize=64)
def _unpacking(before: int, after: int) -> Callable[[Any], tuple[Any, ...]]:
    """The function that unpacks its argument as Python does, whose errors are Python's."""
    names = [f"x{k}" for k in range(before + 1 + after)]
    targets = [f"*{text}" if k == before else text for k, text in enumerate(names)]
    text = f"lambda xs: [({', '.join(names)},) for ({', '.join(targets)},) in (xs,)][0]"
    made: Callable[[Any], tuple[Any, ...]] = eval(compile(text, __file__, "eval"))
    return made


def _by_position(cls: Any, known: Any, count: int) -> tuple[str, ...]:
    """The attributes that *count* patterns by position are for."""
    if type(known) is not tuple:
        raise TypeError(f"{cls.__name__}.__match_args__ must be a tuple (got {type(known).__name__})")
    if len(known) < count:
        few = "" if len(known) == 1 else "s"
        raise TypeError(f"{cls.__name__}() accepts {len(known)} positional sub-pattern{few} ({count} given)")
    return known[:count]
