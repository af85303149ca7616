"""Places of recorded code that make arrays, and those whose items it assigns."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType, FrameType
from typing import NamedTuple

from .concretize import instructions_of, offset_of

_STORES = ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_ATTR")


class CallPlace(NamedTuple):
    """A call: the ``offset`` of its instruction in ``code``."""

    code: CodeType
    offset: int


def place_of(frame: FrameType) -> CallPlace:
    """The call that *frame* is in."""
    return CallPlace(frame.f_code, offset_of(frame))


@lru_cache(maxsize=1024)
def assigned(code: CodeType) -> frozenset[int]:
    """The calls, by their offsets, whose result gets a name in *code* under which it assigns items (``z[i] = ...``)."""
    found = instructions_of(code)
    if not any(i.opname in ("STORE_SUBSCR", "STORE_SLICE") for i in found.all):
        return frozenset()
    names = set()
    for at, instruction in enumerate(found.all):
        if instruction.opname in ("STORE_SUBSCR", "STORE_SLICE"):
            container = found.loads_below(at, 1 + (instruction.opname == "STORE_SLICE"), 0)
            if container is not None:
                names.add(container[-1][1])
    return frozenset(
        before.offset
        for before, after in zip(found.all, found.all[1:], strict=False)
        if before.opname.startswith("CALL") and after.opname in _STORES and after.argval in names
    )
