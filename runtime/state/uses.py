"""Uses of names: what a code object does with the things that it finds under each attribute, global or outer name.

Start reading at ``uses``.  A run's effect on a place can be replayed where nobody reads the place otherwise: a counter
that is only counted up, an attribute that is only assigned, a list that is only appended to.  That is a question about
bytecode alone: which instruction takes the loaded value from the stack, and what becomes of its result.  Whatever is
not recognised is a ``READ``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from ...tracer.bytecode.stack_flow import POPS, StackFlow, pushes

READ, STORE, DELETE = "read", "store", "delete"
COUNT = "count"  # += or -= of a value, by whatever else
APPEND, UPDATE, ADD, ITEM = "append", "update", "add", "item"  # of a container: methods that tell nothing, x[k] = v
GROWS = {"append": APPEND, "extend": APPEND, "update": UPDATE, "add": ADD}

Place = tuple[str, str]  # ("attr", name), ("global", name), ("outer", name), ("param", name)


class ItemCount(NamedTuple):
    """``x[key] += value``, of the container x."""

    key: Hashable


class ItemGrowth(NamedTuple):
    """``x[key].append(value)`` and the like, of the container x; *how* is one of the uses above."""

    how: str


Uses = dict[Place, set[Hashable]]

_PLACE_OF = {
    "LOAD_ATTR": "attr", "LOAD_METHOD": "attr", "STORE_ATTR": "attr", "LOAD_GLOBAL": "global", "STORE_GLOBAL": "global",
    "LOAD_DEREF": "outer", "STORE_DEREF": "outer", "LOAD_FAST": "param",
}  # fmt: skip
_STORE_OF = {"attr": "STORE_ATTR", "global": "STORE_GLOBAL", "outer": "STORE_DEREF"}
_BY_NAME = {"getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller"}
_SUMS = {"+", "-", "+=", "-="}


@lru_cache(4096)
def uses(code: CodeType) -> Uses:
    """The uses of names in *code*, not to be changed; not those of the code nested in it."""
    found: Uses = defaultdict(set)
    reader = _Reader(code)
    for index, ins in enumerate(reader.code):
        kind = _PLACE_OF.get(ins.opname)
        if kind is None:
            if ins.opname.startswith(("LOAD_", "STORE_", "DELETE_", "IMPORT_")) and ins.opname not in POPS:
                for name in ins.argval if isinstance(ins.argval, tuple) else (ins.argval,):
                    for place in ("attr", "global", "outer", "param"):
                        found[place, str(name)] |= {READ, DELETE} if ins.opname.startswith("DELETE_") else {READ}
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
        written = {STORE} if "setattr" in code.co_names else set()
        for name in [c for c in code.co_consts if isinstance(c, str)]:
            found["attr", name] |= {READ, *written}
    return dict(found)


class _Reader(StackFlow):
    def __init__(self, code: CodeType) -> None:
        super().__init__(code)
        self.counted: set[int] = set()  # stores that belong to `+=`

    def use(self, index: int, kind: str) -> Hashable:
        """The use of what the instruction at *index* loads from a place of this *kind*."""
        if pushes(self.code[index]) != 1:  # to be called
            return READ
        at, depth = self.taken(index, 0)
        ins = self.at(at)
        if ins is None:
            return READ
        if ins.opname == "BINARY_OP" and ins.argrepr in _SUMS and (depth == 1 or ins.argrepr == "+"):
            return COUNT if self._stored_back(index, at, kind) else READ
        if depth == 0 and (grown := self._growth(at)):
            return grown
        if ins.opname == "BINARY_SUBSCR" and depth == 1:
            taker, below = self.taken(at, 0)
            if self.opname(taker) == "STORE_SUBSCR" and below == 1:
                return ItemGrowth(ITEM)
            return ItemGrowth(grown) if below == 0 and (grown := self._growth(taker)) else READ
        if ins.opname == "STORE_SUBSCR" and depth == 1:
            return ITEM
        return self._item_count(index)

    def _growth(self, index: int) -> str:
        """The value of ``GROWS`` for a call of a method that starts at *index*; else ""."""
        ins = self.at(index)
        if ins is None or ins.opname not in ("LOAD_METHOD", "LOAD_ATTR") or pushes(ins) != 2:
            return ""
        call, _ = self.taken(index, 1)
        return GROWS.get(ins.argval, "") if self.opname(call) == "CALL" else ""  # its result is None

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
