"""Places of recorded code that make arrays, and those whose items it assigns."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any, NamedTuple

from ..convert.copies import original_code
from .concretize import called_path, instructions_of
from .versions import PYTHON

_STORES = ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_ATTR")
# NumPy's functions that write into their first argument; ufunc.at
_WRITERS = frozenset(("at", "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"))
_NOTHING = (("", ""),)


class CallPlace(NamedTuple):
    """A call or an operator in the user's ``code``: where its text ends."""

    code: CodeType
    end: tuple[int | None, int | None]  # line, column


def place_of(frame: FrameType) -> CallPlace:
    """The call that *frame* is in; of a copy, that of the user's code."""
    return CallPlace(original_code(frame.f_code), _ends(frame.f_code)[frame.f_lasti // 2])


@lru_cache(maxsize=1024)
def _ends(code: CodeType) -> list[tuple[int | None, int | None]]:
    """For each instruction where the text ends that it is of."""
    return [(line, column) for _, line, _, column in code.co_positions()]


@lru_cache(maxsize=1024)
def written(code: CodeType) -> frozenset[str]:
    """The names of variables and attributes into which *code* writes: ``z[i] = ...``, ``self.z += ...``,
    ``np.put(z, ...)``."""
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
        elif instruction.opname == "CALL" and (called_path(code, instruction.offset) or _NOTHING)[-1][1] in _WRITERS:
            path = found.loads_below(at - (found.all[at - 1].opname == "PRECALL"), (instruction.arg or 0) - 1, 0)
        else:
            continue
        names.update(() if path is None else [path[-1][1]])
    for before, after in reversed(list(pairwise(found.all))):  # w = z; w[0] = ...
        if before.opname.startswith("LOAD_") and after.opname in _STORES and after.argval in names:
            names.add(before.argval)
    return frozenset(names)


@lru_cache(maxsize=1024)
def assigned(code: CodeType, elsewhere: frozenset[str] = frozenset()) -> frozenset[tuple[int | None, int | None]]:
    """The ends of the expressions whose values get a name under which *code* writes.  *elsewhere*: names of attributes
    and of results of functions into which other code writes."""
    if PYTHON is None:
        return frozenset()
    found, names, ends = instructions_of(code), written(code), _ends(code)
    result: set[tuple[int | None, int | None]] = set()
    for at, store in enumerate(found.all):
        if store.opname in _STORES and (store.argval in names or store.argval in elsewhere):
            result.update([ends[found.all[k].offset // 2] for k in _stored(found, at)])
        elif store.opname == "RETURN_VALUE" and result_of(code.co_name) in elsewhere:
            k = found.pushed_by(at, 0, 0)
            result.update([] if k is None else [ends[found.all[k].offset // 2]])
    return frozenset(result)


def result_of(name: str) -> str:
    """The name of what functions of this *name* return."""
    return f"{name}()"


@lru_cache(maxsize=1024)
def written_results(code: CodeType) -> frozenset[str]:
    """The names of functions whose results *code* writes into (``result_of``): ``u = f(n)``, then ``u[0] = ...``."""
    if PYTHON is None or not (names := written(code)):
        return frozenset()
    found, result = instructions_of(code), set[str]()
    for at, store in enumerate(found.all):
        for k in _stored(found, at) if store.opname in _STORES and store.argval in names else ():
            path = called_path(code, found.all[k].offset) if found.all[k].opname == "CALL" else None
            result.update([] if path is None else [result_of(str(path[-1][1]))])
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
