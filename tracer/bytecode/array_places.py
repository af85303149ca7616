"""Places of recorded code that make arrays, and those whose items it assigns."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

from ..ir.data_classes import NamedTuple
from ..ir.site import Site
from .concretize import instructions_of, offset_of
from .versions import PYTHON

_MAKERS = ("CALL", "BINARY_", "UNARY_")
_STORES = ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_ATTR")


class CallPlace(NamedTuple):
    """A call: the ``offset`` of its instruction in ``code``, or the name that its result gets there."""

    code: CodeType
    offset: int | str


def place_of(frame: FrameType) -> CallPlace:
    """The call that *frame* is in."""
    return CallPlace(frame.f_code, offset_of(frame))


@lru_cache(maxsize=1024)
def written(code: CodeType) -> frozenset[str]:
    """The names of variables and attributes into which *code* writes: ``z[i] = ...``, ``self.z += ...``."""
    if PYTHON is None:
        return frozenset()
    found = instructions_of(code)
    names: set[str] = set()
    for at, instruction in enumerate(found.all):
        if instruction.opname in ("STORE_SUBSCR", "STORE_SLICE"):
            swaps = 0  # of `z[i] += ...`, before which z lies under its index
            while found.all[at - 1 - swaps].opname == "SWAP":
                swaps += 1
            above = swaps or 1 + (instruction.opname == "STORE_SLICE")
            path = found.loads_below(at - swaps, above, 0)
        elif instruction.opname == "BINARY_OP" and instruction.argrepr.endswith("="):
            path = found.loads_below(at, 1, 0)
        else:
            continue
        names.update(() if path is None else [path[-1][1]])
    for before, after in reversed(list(pairwise(found.all))):  # w = z; w[0] = ...
        if before.opname.startswith("LOAD_") and after.opname in _STORES and after.argval in names:
            names.add(before.argval)
    return frozenset(names)


@lru_cache(maxsize=1024)
def assigned(code: CodeType, elsewhere: frozenset[str] = frozenset()) -> frozenset[int | str]:
    """The calls, by their offsets, whose result gets a name under which *code* writes, and those names, and names of
    results of operators.  *elsewhere*: names of attributes into which other code writes."""
    if PYTHON is None:
        return frozenset()
    found, names = instructions_of(code), written(code)
    result: set[int | str] = set()
    for at, store in enumerate(found.all):
        if store.opname in _STORES and (store.argval in names or store.argval in elsewhere):
            makers = [made for k in _stored(found, at) if (made := found.all[k]).opname.startswith(_MAKERS)]
            result.update([made.offset for made in makers if made.opname.startswith("CALL")])
            result.update([store.argval] if makers else ())
    return frozenset(result)


def _stored(found: Any, at: int) -> list[int]:
    """The instructions that push what the STORE instruction *at* may store; of ``u, v = f(), g()`` all that do."""
    k = at
    while k > 0 and found.all[k].opname.startswith(("STORE_", "LOAD_FAST", "LOAD_DEREF")):
        k -= 1
    if found.all[k].opname in ("SWAP", "UNPACK_SEQUENCE"):
        count = found.all[k].arg
        if found.all[k].opname == "UNPACK_SEQUENCE":
            k -= 1
            if not found.all[k].opname.startswith("BUILD_"):
                return [k]
        return [j for n in range(count) if (j := found.pushed_by(k, n, 0)) is not None]
    j = found.pushed_by(at, int(found.all[at].opname == "STORE_ATTR"), 0)
    return [] if j is None else [j]


@lru_cache(maxsize=1024)
def behind_stores(code: CodeType) -> frozenset[int]:
    """The instructions of *code*, by their offsets, before which a statement ends within a line; where what follows
    is done by the same instruction, the one behind it."""
    found = instructions_of(code).all
    return frozenset(
        found[k + 1 + found[k + 1].offset % 2].offset
        for k, (before, after) in enumerate(pairwise(found))
        if before.opname in _STORES and after.opname not in _STORES and _line(before) == _line(after)
    )


@lru_cache(maxsize=4096)
def loads_pending(code: CodeType, at: int) -> frozenset[str]:
    """The local variables of *code* that may lie on the stack before the instruction at the offset *at*."""
    found = instructions_of(code)
    k = found.at(at)
    pushed = [found.pushed_by(k, above, 0) for above in range(found.before.get(k, 0))]
    if None in pushed:
        return frozenset(code.co_varnames)
    return frozenset(i.argval for i in [found.all[j] for j in pushed if j is not None] if i.opname == "LOAD_FAST")


def _line(instruction: Any) -> int | None:
    return None if instruction.positions is None else instruction.positions.lineno


def name_site(frame: FrameType, name: str) -> Site:
    """The line on which *name* got the value that it has in *frame*."""
    found = instructions_of(frame.f_code)
    stores = [i for i in found.all[: found.at(frame.f_lasti)] if i.opname in _STORES and i.argval == name]
    line = (_line(stores[-1]) if stores else None) or frame.f_lineno
    return Site(frame.f_code.co_filename, line, frame.f_code.co_name)
