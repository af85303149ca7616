"""Arms of branches that no run takes: what only they read is no part of the outside state.

A function whose state can't all be compared may have what is to blame in an arm that is never taken: ``if plot:
plt.figure()``, ``if USE_JAX: return lax...``.  Whatever decides about the branch is read before it, and so is compared
in each call.  Start reading at ``without_arms``: code in which the first instruction of each arm raises, so that the
scan (``code_scan.py``) need not look further.  A run is made by that code, and one that gets there is made again, by
code that has the arm (``StatePlan.follow``).
"""

from __future__ import annotations

import dis
from collections.abc import Collection, Iterable
from functools import lru_cache
from types import CodeType
from typing import Any

from ...tracer.bytecode.control_flow import Flow, flow_of
from ...tracer.bytecode.versions import PYTHON
from ...tracer.ir.errors import UnsupportedError
from ...tracer.record.recorder import current_recorder
from ...tracer.record.retry import Options, Retry

Arm = tuple[int, int]  # (id of a code, offset of the first instruction); of the code as a whole, (id, ALL_ARMS)
ALL_ARMS = -1
_LIMIT = 4096
_LAST = 255  # index of a constant that needs no EXTENDED_ARG
_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_ATTR", "LOAD_METHOD", "IMPORT_NAME", "LOAD_SUPER")
_made: dict[tuple[int, frozenset[int]], tuple[CodeType, CodeType | None]] = {}
# Id of code without arms -> it, the offsets within them, the whole code.
_left_out: dict[int, tuple[CodeType, frozenset[int], CodeType]] = {}


def _trap(arm: Arm) -> type[Retry]:
    """The class that a run raises which has come to an *arm* that its code was made without."""

    def taken(retry: Retry) -> None:
        note = "an arm of a branch that no run had taken: the run is made again"
        error = UnsupportedError.here("this run takes an arm of a branch that none has taken before")
        Retry.__init__(retry, Options(note, arms=frozenset([arm])), error)
        recorder = current_recorder()
        if recorder is not None:
            recorder.again(retry)

    return type(Retry.__name__, (Retry,), {"__init__": taken})


def without_arms(code: CodeType, taken: Iterable[Arm]) -> CodeType | None:
    """*code* without the arms that are not among those *taken*; None where none is left out."""
    mine = frozenset(offset for owner, offset in taken if owner == id(code))
    if ALL_ARMS in mine or PYTHON is None:
        return None
    key = id(code), mine
    if key not in _made:
        if len(_made) >= _LIMIT:
            _made.clear()
            _left_out.clear()
        _made[key] = code, _trapped(code, mine)
    return _made[key][1]


def left_out(code: CodeType) -> frozenset[int]:
    """The offsets of the instructions that *code* was made without."""
    found = _left_out.get(id(code))
    return frozenset() if found is None else found[1]


def original_of(code: CodeType) -> CodeType:
    """The code that *code* was made of, or itself."""
    found = _left_out.get(id(code))
    return code if found is None else found[2]


def _trapped(code: CodeType, taken: frozenset[int]) -> CodeType | None:
    if len(code.co_consts) > _LAST or not any(i.opname.startswith(_READS) for i in flow_of(code).code):
        return None
    found = _arms(code)
    wanted = {offset: arm for offset, arm in found.items() if offset not in taken}
    outer = {o: arm for o, arm in wanted.items() if not any(o in other for k, other in wanted.items() if k != o)}
    outer = dict(list(outer.items())[: _LAST - len(code.co_consts)])
    if not outer:
        return None
    text, constants = bytearray(code.co_code), list(code.co_consts)
    for offset in outer:
        text[offset : offset + 4] = bytes(
            (dis.opmap["LOAD_CONST"], len(constants), dis.opmap["RAISE_VARARGS"], 1)
        )  # of the class, so that making the exception tells the recorder
        constants.append(_trap((id(code), offset)))
    absent = frozenset().union(*outer.values())
    made = code.replace(
        co_code=bytes(text), co_consts=tuple(constants), co_stacksize=code.co_stacksize + 1,
        co_exceptiontable=_handlers_but(code, absent),
    )  # fmt: skip
    _left_out[id(made)] = made, absent, code
    return made


def _handlers_but(code: CodeType, absent: Collection[int]) -> bytes:
    """The table of exceptions of *code* without the handlers at the offsets that are *absent*: a ``try`` with which an
    arm begins would let its ``finally`` run.  (Its format: Objects/exception_handling_notes.txt in CPython's source.)
    """
    table = bytearray()
    for entry in flow_of(code).exceptions:
        if entry.target not in absent:
            size = (entry.end - entry.start) // 2
            for k, number in enumerate((entry.start // 2, size, entry.target // 2, entry.depth * 2 + entry.lasti)):
                digits = [number & 63]
                while number := number >> 6:
                    digits.insert(0, number & 63 | 64)
                digits[0] |= 0 if k else 128
                table += bytes(digits)
    return bytes(table)


@lru_cache(1024)
def _arms(code: CodeType) -> dict[int, frozenset[int]]:
    """The arms of the branches of *code* that read something outside: the offset of the first instruction -> those of
    all that are only reached through it."""
    flow = flow_of(code)
    every, found = _reached(flow, None), {}
    for k, ins in enumerate(flow.code):
        if not ins.opname.startswith(("POP_JUMP", "JUMP_IF")) or k not in every:
            continue
        for n in flow.following[k]:
            if flow.before[n] != [k] or n + 1 >= len(flow.code):
                continue
            arm = every - _reached(flow, n)
            first, second = flow.code[n].offset, flow.code[n + 1].offset
            room = second >= first + 4 or n + 1 in arm
            if room and any(flow.code[i].opname.startswith(_READS) for i in arm):
                found[first] = frozenset([flow.code[i].offset for i in arm])
    return found


def _reached(flow: Flow, without: int | None) -> set[int]:
    """The instructions that are reached on ways that don't pass one, through handlers of exceptions, too."""
    seen: set[int] = set()
    todo: list[int] = [0]
    handlers: list[Any] = list(flow.exceptions)
    while todo:
        k = todo.pop()
        if k in seen or k == without:
            continue
        seen.add(k)
        todo += flow.following[k]
        offset = flow.code[k].offset
        todo += [flow.place[e.target] for e in handlers if e.start <= offset < e.end]
    return seen
