"""Uses of names: what a code object does with the things that it finds under each attribute, global or outer name.

Start reading at ``uses``.  A run's effect on a place can be replayed where nobody reads the place otherwise: a counter
that is only counted up, an attribute that is only assigned, a list that is only appended to.  That is a question about
bytecode alone: which instruction takes the loaded value from the stack, and what becomes of its result.  Whatever is
not recognised is a ``READ``.
"""

from __future__ import annotations

import dis
from collections import defaultdict
from collections.abc import Hashable
from types import CodeType
from typing import NamedTuple

from ...tracer.bytecode.instructions import plain_instructions

READ, STORE = "read", "store"
COUNT = "count"  # += or -= of a value, by whatever else
APPEND, UPDATE, ADD, ITEM = "append", "update", "add", "item"  # of a container: methods that tell nothing, x[k] = v
GROWS = {"append": APPEND, "extend": APPEND, "update": UPDATE, "add": ADD}

Place = tuple[str, str]  # ("attr", name), ("global", name), ("outer", name), ("param", name)


class ItemCount(NamedTuple):
    """``x[key] += value``, of the container x."""

    key: Hashable


Uses = dict[Place, set[Hashable]]

_SILENT = {"CACHE", "NOP", "EXTENDED_ARG", "RESUME", "PRECALL", "KW_NAMES", "MAKE_CELL", "COPY_FREE_VARS"}
_PLACE_OF = {
    "LOAD_ATTR": "attr", "LOAD_METHOD": "attr", "STORE_ATTR": "attr", "LOAD_GLOBAL": "global", "STORE_GLOBAL": "global",
    "LOAD_DEREF": "outer", "STORE_DEREF": "outer", "LOAD_FAST": "param",
}  # fmt: skip
_STORE_OF = {"attr": "STORE_ATTR", "global": "STORE_GLOBAL", "outer": "STORE_DEREF"}
_POPS = {
    "LOAD_CONST": 0, "LOAD_FAST": 0,
    "LOAD_DEREF": 0, "LOAD_GLOBAL": 0, "PUSH_NULL": 0, "LOAD_ATTR": 1, "LOAD_METHOD": 1, "BINARY_OP": 2,
    "BINARY_SUBSCR": 2, "COMPARE_OP": 2, "IS_OP": 2, "CONTAINS_OP": 2, "UNARY_NEGATIVE": 1, "UNARY_NOT": 1,
    "UNARY_INVERT": 1, "UNARY_POSITIVE": 1, "STORE_FAST": 1, "STORE_GLOBAL": 1, "STORE_DEREF": 1, "STORE_ATTR": 2,
    "STORE_SUBSCR": 3, "POP_TOP": 1, "RETURN_VALUE": 1, "FORMAT_SIMPLE": 1, "FORMAT_WITH_SPEC": 2,
    "CONVERT_VALUE": 1, "TO_BOOL": 1,
}  # fmt: skip
_BY_NAME = {"getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller"}
_SUMS = {"+", "-", "+=", "-="}


def uses(code: CodeType) -> Uses:
    """The uses of names in *code*; not those of the code nested in it."""
    found: Uses = defaultdict(set)
    instructions: list[dis.Instruction] = []
    offsets: dict[int, int] = {}
    for ins in plain_instructions(code):
        offsets[ins.offset] = len(instructions)
        if ins.opname not in _SILENT:
            instructions.append(ins)
    reader = _Reader(instructions, offsets)
    for index, ins in enumerate(instructions):
        kind = _PLACE_OF.get(ins.opname)
        if kind is None:
            if ins.opname.startswith(("LOAD_", "STORE_", "DELETE_", "IMPORT_")) and ins.opname not in _POPS:
                for name in ins.argval if isinstance(ins.argval, tuple) else (ins.argval,):
                    for place in ("attr", "global", "outer", "param"):
                        found[place, str(name)].add(READ)
            elif ins.opname == "STORE_FAST":
                found["param", ins.argval].add(READ)
        elif ins.opname.startswith("STORE_"):
            if index not in reader.counted:
                found[kind, ins.argval].add(STORE)
        else:
            found[kind, ins.argval].add(reader.use(index, kind))
    for name in code.co_cellvars:  # an inner function may do anything
        found["param", name].add(READ)
    if not _BY_NAME.isdisjoint(code.co_names):
        for name in [c for c in code.co_consts if isinstance(c, str)]:
            found["attr", name].add(READ)
    return dict(found)


class _Reader:
    def __init__(self, instructions: list[dis.Instruction], offsets: dict[int, int]) -> None:
        self.code, self.offsets = instructions, offsets
        self.counted: set[int] = set()  # stores that belong to `+=`

    def use(self, index: int, kind: str) -> Hashable:
        """The use of what the instruction at *index* loads from a place of this *kind*."""
        if _pushes(self.code[index]) != 1:  # to be called
            return READ
        at, depth = self.taken(index, 0)
        ins = self.at(at)
        if ins is None:
            return READ
        if ins.opname == "BINARY_OP" and ins.argrepr in _SUMS and (depth == 1 or ins.argrepr == "+"):
            return COUNT if self._stored_back(index, at, kind) else READ
        if depth == 0 and ins.opname in ("LOAD_METHOD", "LOAD_ATTR") and ins.argval in GROWS and _pushes(ins) == 2:
            call, _ = self.taken(at, 1)
            after = self.at(call + 1)
            if self.opname(call) == "CALL" and after is not None and after.opname == "POP_TOP":
                return GROWS[ins.argval]
        if ins.opname == "STORE_SUBSCR" and depth == 1:
            return ITEM
        return self._item_count(index)

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
            pops = _pops(ins)
            if pops is None:
                return -1, 0
            if pops > depth:
                return at, depth
            depth += _pushes(ins) - pops
        return -1, 0

    def _stored_back(self, load: int, operation: int, kind: str) -> bool:
        """Whether the result of the *operation* goes where its operand was loaded from."""
        name, store = self.code[load].argval, operation + 1
        if kind == "attr":
            if self.opname(load - 1) == "COPY":
                store += self.opname(store) == "SWAP"
            else:  # x.n = x.n + 1
                owner = 1
                while self.opname(load - owner) == "LOAD_ATTR":
                    owner += 1
                one = [(i.opname, i.argval) for i in self.code[load - owner : load]]
                other = [(i.opname, i.argval) for i in self.code[store : store + owner]]
                if one != other or not one[0][0].startswith(("LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF")):
                    return False
                store += owner
        ins = self.at(store)
        if ins is None or ins.opname != _STORE_OF.get(kind) or ins.argval != name:
            return False
        self.counted.add(store)
        return True

    def _item_count(self, load: int) -> Hashable:
        names = [self.opname(load + k) for k in range(1, 5)]
        if names != ["LOAD_CONST", "COPY", "COPY", "BINARY_SUBSCR"]:
            return READ
        at, depth = self.taken(load + 4, 0)
        ins = self.at(at)
        if ins is None or ins.opname != "BINARY_OP" or ins.argrepr not in _SUMS or depth != 1:
            return READ
        if [self.opname(at + k) for k in range(1, 4)] != ["SWAP", "SWAP", "STORE_SUBSCR"]:
            return READ
        key = self.code[load + 1].argval
        return ItemCount(key) if type(key) in (str, int) else READ


def _pops(ins: dis.Instruction) -> int | None:
    known = _POPS.get(ins.opname)
    if known is not None:
        return known
    arg = ins.arg or 0
    if ins.opname.startswith(("POP_JUMP", "JUMP_IF")) and "BACKWARD" not in ins.opname:
        return 1
    if ins.opname == "CALL":
        return arg + 2
    if ins.opname == "FORMAT_VALUE":
        return 2 if arg & 4 else 1
    if ins.opname in ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET", "BUILD_STRING", "BUILD_SLICE"):
        return arg
    if ins.opname == "BUILD_MAP":
        return 2 * arg
    if ins.opname == "BUILD_CONST_KEY_MAP":
        return arg + 1
    return None


def _pushes(ins: dis.Instruction) -> int:
    if ins.opname.startswith(("STORE_", "POP_", "JUMP")):
        return 0
    called = ins.opname == "LOAD_METHOD" or (ins.opname in ("LOAD_GLOBAL", "LOAD_ATTR") and "NULL" in ins.argrepr)
    return 2 if called else 1


__all__ = ["ADD", "APPEND", "COUNT", "ITEM", "READ", "STORE", "UPDATE", "ItemCount", "Place", "Uses", "uses"]
