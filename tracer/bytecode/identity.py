"""Questions of identity in bytecode: ``x is y``, ``np.shares_memory(x, y)``, ``operator.is_``."""

from __future__ import annotations

import builtins
import dis
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from .concretize import UNKNOWN, Path, found_by, instructions_of
from .versions import PYTHON

IDENTITY_NAMES = frozenset(("shares_memory", "may_share_memory", "is_", "is_not", "id"))
_IS_OP = dis.opmap["IS_OP"]
_VALUES = frozenset(vars(builtins))


@lru_cache(maxsize=4096)
def asks_truth_identity(code: CodeType) -> bool:
    """Whether *code* asks if a value is the object True or False, or NumPy's, or if two that it computes are one."""
    return any(
        all(side is None or side[0][0] == "opaque" for side in sides)
        or any(type(side[0][1]) is bool or side[-1][1] in ("True_", "False_") for side in sides if side is not None)
        for sides in _compared_by_identity(code)
    )


@lru_cache(maxsize=4096)
def asks_int_identity(code: CodeType) -> bool:
    """Whether *code* asks if a value is the object that a whole number in it is (``n is 5``)."""
    return any(
        path is not None and path[0][0] == "const" and type(path[0][1]) is int
        for sides in _compared_by_identity(code)
        for path in sides
    )


def _compared_by_identity(code: CodeType) -> list[list[Path | None]]:
    """The loads of the two sides of each ``is`` in *code*, None where they are not known; not where one side is the
    class of something."""
    if PYTHON is None:
        return [[None, None]]
    if _IS_OP not in code.co_code[::2]:
        return []
    places = [k for k, i in enumerate(instructions_of(code).all) if i.opname == "IS_OP"]
    return [_sides(code, k) for k in places if not any(_is_class(code, k, above) for above in (0, 1))]


def _is_class(code: CodeType, k: int, above: int) -> bool:
    """Whether a side of the ``is`` at instruction *k* is ``type(x)`` or ``x.__class__``."""
    found = instructions_of(code)
    at = found.pushed_by(k, above, 0)
    if at is None or at < 2:
        return False
    if found.all[at].argval == "__class__" and found.all[at].opname == "LOAD_ATTR":
        return True
    first = at - 2 - (found.all[at - 1].opname == "PRECALL")
    name, function = found.all[at], found.all[first]
    return name.opname == "CALL" and name.arg == 1 and (function.opname, function.argval) == ("LOAD_GLOBAL", "type")


@lru_cache(maxsize=4096)
def asks_identity(code: CodeType) -> bool:
    """Whether *code* may ask if two of its values are one object, other than None, a constant or a builtin class."""
    if code.co_name == "__eq__" and code.co_filename == "<string>":  # of a dataclass: a short cut, from 3.13 on
        return False
    if not IDENTITY_NAMES.isdisjoint(code.co_names):
        return True
    return bool(unlike_constants(code))


def unlike_constants(code: CodeType) -> list[list[Path | None]]:
    """The loads of the two sides of each ``is`` in *code* neither of which is None, a constant or a builtin class."""
    return [
        sides
        for sides in _compared_by_identity(code)
        if not any(side is not None and (side[0][0] == "const" or side[0][1] in _VALUES) for side in sides)
    ]


def _sides(code: CodeType, k: int) -> list[Path | None]:
    return [instructions_of(code).loads_below(k, above, 0) for above in (0, 1)]


@lru_cache(maxsize=4096)
def asks_identity_of_parts(code: CodeType, inner: bool = False) -> bool:
    """Whether *code*, or code in it, may ask if a value is a part of something (``x is xs[0]``), or each of them.
    *inner*: it is in other code, which may call it with parts."""
    each = set(code.co_varnames[: code.co_argcount]) if inner else set()
    if _IS_OP in code.co_code[::2]:
        begins = False
        for instruction in instructions_of(code).all:
            stores = instruction.opname.startswith("STORE_")
            begins = instruction.opname.startswith(("FOR_ITER", "UNPACK_")) or (begins and stores)
            if begins and stores:
                each.add(instruction.argval)
    return any(
        not any(side is not None and (side[0][0] == "const" or side[0][1] in _VALUES) for side in sides)
        and any(side is None or side[0][0] == "opaque" or side[0][1] in each for side in sides)
        for sides in _compared_by_identity(code)
    ) or any(asks_identity_of_parts(const, inner=True) for const in code.co_consts if isinstance(const, CodeType))


def compared_numbers(fn: FunctionType) -> dict[str, Any]:
    """The Python floats and truth values outside of *fn* that it may ask for by identity (``x is np.nan``), by their
    names."""
    found: dict[str, Any] = {}
    defaults, code = fn.__defaults__ or (), fn.__code__
    given = dict(zip(code.co_varnames[: code.co_argcount][::-1], defaults[::-1], strict=False))  # decorators leave more
    given |= fn.__kwdefaults__ or {}
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    for path in _compared(fn.__code__):
        (kind, name), *attributes = path
        if kind == "name" and name in cells and not _is_empty(cells[name]):
            value = found_by(attributes, cells[name].cell_contents, plain=True)
        elif kind == "global":
            value = found_by(attributes, fn.__globals__.get(name, UNKNOWN), plain=True)
        else:
            value = found_by(attributes, given.get(name, UNKNOWN), plain=True)
        if type(value) in (float, bool, np.bool_):
            found[".".join([part for _, part in path])] = value
    return found


def _is_empty(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


@lru_cache(maxsize=4096)
def _compared(code: CodeType) -> tuple[Path, ...]:
    """The loads of what *code*, or code in it, compares by identity; of all, where a function compares."""
    if not asks_identity(code):
        paths: list[Path] = []
    elif IDENTITY_NAMES.isdisjoint(code.co_names) and PYTHON is not None:
        paths = [side for sides in _compared_by_identity(code) for side in sides if side is not None]
    else:
        paths = [(("global", name),) for name in code.co_names]
        paths += [(("name", name),) for name in code.co_freevars]
        paths += [(("global", a), ("attr", b)) for a in code.co_names for b in code.co_names]
    for inner in [c for c in code.co_consts if isinstance(c, CodeType)]:
        paths += _compared(inner)
    return tuple(dict.fromkeys(paths))
