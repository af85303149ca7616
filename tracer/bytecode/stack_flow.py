"""Where a value on the interpreter's stack goes: which instruction takes it off again.

One table of what instructions take and leave; an instruction that is not in it ends the search without an answer.
"""

from __future__ import annotations

import dis
from types import CodeType

from .instructions import plain_instructions, pushes_null

_SILENT = {"NOP", "EXTENDED_ARG", "RESUME", "PRECALL", "KW_NAMES", "MAKE_CELL", "COPY_FREE_VARS"}
POPS = {
    "LOAD_CONST": 0, "LOAD_FAST": 0, "LOAD_DEREF": 0, "LOAD_GLOBAL": 0, "PUSH_NULL": 0, "LOAD_ATTR": 1,
    "LOAD_METHOD": 1, "BINARY_OP": 2, "BINARY_SUBSCR": 2, "COMPARE_OP": 2, "IS_OP": 2, "CONTAINS_OP": 2,
    "UNARY_NEGATIVE": 1, "UNARY_NOT": 1, "UNARY_INVERT": 1, "UNARY_POSITIVE": 1, "STORE_FAST": 1, "STORE_GLOBAL": 1,
    "STORE_DEREF": 1, "STORE_ATTR": 2, "STORE_SUBSCR": 3, "POP_TOP": 1, "RETURN_VALUE": 1, "FORMAT_SIMPLE": 1,
    "FORMAT_WITH_SPEC": 2, "CONVERT_VALUE": 1, "TO_BOOL": 1, "YIELD_VALUE": 1, "GET_ITER": 1, "LIST_APPEND": 1,
}  # fmt: skip

_CHANGES = {"DELETE_ATTR": 1, "DELETE_SUBSCR": 2, "BINARY_SLICE": 3, "STORE_SLICE": 4}


class StackFlow:
    """The instructions of a code object, without those that do nothing; ``offsets`` gives the place of each offset,
    ``keywords`` the names of a call's last arguments."""

    def __init__(self, code: CodeType) -> None:
        self.code: list[dis.Instruction] = []
        self.offsets: dict[int, int] = {}
        self.keywords: dict[int, tuple[str, ...]] = {}
        for ins in plain_instructions(code):
            self.offsets[ins.offset] = len(self.code)
            if ins.opname == "KW_NAMES":
                self.keywords[len(self.code)] = ins.argval
            if ins.opname not in _SILENT:
                self.code.append(ins)

    def at(self, index: int) -> dis.Instruction | None:
        return self.code[index] if 0 <= index < len(self.code) else None

    def opname(self, index: int) -> str:
        ins = self.at(index)
        return "" if ins is None else ins.opname

    def taken(self, index: int, depth: int) -> tuple[int, int]:
        """(the instruction that takes a value off the stack, how deep it lies there then), for the value that lies
        *depth* deep after the instruction at *index*; -1 where that can't be told."""
        at = index
        while at + 1 < len(self.code):
            at += 1
            ins = self.code[at]
            if ins.opname == "JUMP_FORWARD":  # behind a conditional expression: both ways lead there
                at = self.offsets[ins.argval] - 1
                continue
            if ins.opname == "SWAP":
                assert ins.arg is not None
                depth = ins.arg - 1 if depth == 0 else 0 if depth == ins.arg - 1 else depth
                continue
            if ins.opname == "COPY":
                if ins.arg == depth + 1:
                    return at, depth
                depth += 1
                continue
            pops = pops_of(ins)
            if pops is None:
                return -1, 0
            if pops > depth:
                return at, depth
            depth += pushes(ins) - pops
        return -1, 0


def pops_of(ins: dis.Instruction) -> int | None:
    known = POPS.get(ins.opname)
    if known is not None:
        return known
    arg = ins.arg or 0
    if ins.opname.startswith(("POP_JUMP", "JUMP_IF")) and "BACKWARD" not in ins.opname:
        return 1
    if ins.opname in _CHANGES:
        return _CHANGES[ins.opname]
    if ins.opname == "CALL":
        return arg + 2
    if ins.opname == "MAKE_FUNCTION":
        return 1 + arg.bit_count()
    if ins.opname == "FORMAT_VALUE":
        return 2 if arg & 4 else 1
    if ins.opname in ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET", "BUILD_STRING", "BUILD_SLICE"):
        return arg
    if ins.opname == "BUILD_MAP":
        return 2 * arg
    if ins.opname == "BUILD_CONST_KEY_MAP":
        return arg + 1
    return None


def pushes(ins: dis.Instruction) -> int:
    if ins.opname.startswith(("STORE_", "DELETE_", "POP_", "JUMP", "LIST_APPEND")):
        return 0
    return 2 if pushes_null(ins) else 1
