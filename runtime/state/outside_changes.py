"""Whether code changes what others can see: a global or outer variable, an argument, or what one of them leads to.

Start reading at ``changes_outside``. Each load of such an object is followed to the instruction that takes it from the
stack: a store into it, a call of a method that changes its owner, or a local variable, which then is such an object,
too. What code does with objects that it has made itself is its own business.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType

from ...tracer.bytecode.stack_flow import StackFlow

_CHANGERS = frozenset(
    "append extend insert remove pop clear sort reverse add discard update setdefault popitem appendleft extendleft "
    "popleft rotate move_to_end subtract difference_update intersection_update symmetric_difference_update fill put "
    "partition resize setflags __setitem__ __delitem__ __setattr__ __delattr__ __iadd__ write writelines".split()
)
_VARIABLES = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF"))
_REBINDS = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME", "DELETE_NAME"))
_STORES = {"STORE_ATTR": 0, "DELETE_ATTR": 0, "STORE_SUBSCR": 1, "DELETE_SUBSCR": 1, "STORE_SLICE": 2}  # how deep
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


@lru_cache(1024)
def changes_outside(code: CodeType) -> bool:
    """Whether *code*, or a function in it, changes what others can see, as far as its instructions tell."""
    return _changes(code, frozenset(code.co_freevars))


def _changes(code: CodeType, outer: frozenset[str]) -> bool:
    """*outer*: the variables of functions around it that are outside."""
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return _Search(code, {*code.co_varnames[:count]}, outer).run() or any(
        _changes(part, outer.intersection(part.co_freevars)) for part in inner
    )


class _Search:
    """*outside*: local variables that may be objects from outside; arguments, in the beginning."""

    def __init__(self, code: CodeType, outside: set[str], outer: frozenset[str]) -> None:
        self.flow, self.outside, self.outer = StackFlow(code), outside, outer

    def run(self) -> bool:
        known = -1
        while known < len(self.outside):
            known = len(self.outside)
            for index, ins in enumerate(self.flow.code):
                op, name = ins.opname, ins.argval
                if op in _REBINDS or (op in ("STORE_DEREF", "DELETE_DEREF") and name in self.outer):
                    return True
                local = op.startswith("LOAD_FAST") and name in self.outside
                if (local or op in _VARIABLES or (op == "LOAD_DEREF" and name in self.outer)) and self._changed(index):
                    return True
        return False

    def _changed(self, index: int) -> bool:
        """Whether the object that the instruction at *index* leaves on the stack is changed."""
        flow = self.flow
        at, depth = flow.taken(index, 0)
        op = flow.opname(at)
        if _STORES.get(op, -1) == depth:
            return True
        if op in _ATTRIBUTES:
            return flow.code[at].argval in _CHANGERS or self._changed(at)
        if op == "BINARY_SUBSCR" and depth == 1:
            return self._changed(at)
        if op == "COPY" and flow.opname(at - 1) != "COPY":  # else it is the key in `x[key] += 1`
            while flow.opname(at) == "COPY":
                at += 1
            if flow.opname(at) in (*_ATTRIBUTES, "BINARY_SUBSCR"):
                return True  # `x.n += 1`, `x[k] += 1`
        if op == "GET_ITER":
            at += 2  # behind FOR_ITER
        while flow.opname(at) == "STORE_FAST":  # more than one in `a = b = x`
            self.outside.add(flow.code[at].argval)
            at += 1 if op == "COPY" else len(flow.code)
        return False
