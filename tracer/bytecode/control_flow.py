"""Control flow graph of a function's bytecode: successors, loops, liveness of variables."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from .instructions import plain_instructions

_ONWARD = ("JUMP_FORWARD", "JUMP_BACKWARD", "NOP", "EXTENDED_ARG")


class Flow:
    """The instructions of a function and the successors of each."""

    def __init__(self, code: types.CodeType):
        self.code = list(plain_instructions(code))
        self.place = {i.offset: k for k, i in enumerate(self.code)}
        self.exceptions: Sequence[Any] = getattr(dis.Bytecode(code), "exception_entries", ())
        self._live: list[set[str]] | None = None
        self.following: list[list[int]] = []
        self.before: list[list[int]] = [[] for _ in self.code]
        for k, i in enumerate(self.code):
            following = []
            jumps = i.opcode in dis.hasjrel or i.opcode in dis.hasjabs
            if jumps:
                following.append(self.place[i.argval])
            goes_on = not i.opname.startswith(("JUMP_FORWARD", "JUMP_BACKWARD", "RETURN", "RAISE", "RERAISE"))
            if goes_on and k + 1 < len(self.code):
                following.append(k + 1)
            self.following.append(following)
            for n in following:
                self.before[n].append(k)

    def asks(self, offset: int) -> int | None:
        """The conditional jump that the truth value asked for at *offset* decides."""
        k = self.place.get(offset)
        if k is not None and self.code[k].opname == "COMPARE_OP":  # from 3.13 on it may ask for the truth value, too
            k += 1
        while k is not None and k < len(self.code):
            name = self.code[k].opname
            if name.startswith("POP_JUMP"):
                return k
            if name not in ("UNARY_NOT", "TO_BOOL", "NOP", "EXTENDED_ARG"):
                return None
            k += 1
        return None

    def loop_left_at(self, at: int) -> set[int] | None:
        """The innermost loop that the jump *at* belongs to, if one of its ways leaves it."""
        ends: dict[int, list[int]] = {}
        for end, following in enumerate(self.following):
            for head in following:
                if head <= end:
                    ends.setdefault(head, []).append(end)
        best: set[int] | None = None
        for head, every in ends.items():
            loop = self._natural(head, every)
            if at in loop and (best is None or len(loop) < len(best)):
                best = loop
        if best is None or all(n in best for n in self.following[at]):
            return None
        return best

    def _natural(self, head: int, ends: Sequence[int]) -> set[int]:
        """The natural loop of *head*: instructions that reach the backward jumps at *ends* without passing it."""
        loop, todo = {head}, [*ends]
        while todo:
            k = todo.pop()
            if k not in loop:
                loop.add(k)
                todo += self.before[k]
        return loop

    def between(self, head: int, end: int) -> set[int]:
        """Instructions on ways from *head* back to *head* that do not pass *end*."""
        ways = (self.following, self.before)
        found: list[set[int]] = []
        for way in ways:
            seen, todo = {head}, [head]
            while todo:
                for n in way[todo.pop()]:
                    if n not in seen and n != end:
                        seen.add(n)
                        todo.append(n)
            found.append(seen)
        return found[0] & found[1]

    def lists(self, arguments: Sequence[str] = ()) -> frozenset[str]:
        """The local variables that hold lists made right there, and nothing else."""
        made: dict[str, bool] = dict.fromkeys(arguments, False)
        for k, i in enumerate(self.code):
            for name in stores(i):
                made[name] = made.get(name, True) and self.code[k - 1].opname == "BUILD_LIST"
        return frozenset(name for name, new in made.items() if new)

    def closes(self, k: int, loop: set[int]) -> bool:
        """Whether the iterator at *k* ends this loop, not one within it."""
        return any(n not in loop for n in self.following[k])

    def after(self, at: int, loop: set[int]) -> set[int]:
        """Instructions that are reachable once the jump *at* has left the loop."""
        found: set[int] = set()
        todo = [n for n in self.following[at] if n not in loop]
        while todo:
            k = todo.pop()
            if k not in found:
                found.add(k)
                todo += self.following[k]
        return found

    def turn(self, offset: int, answer: bool) -> int | None:
        """The first instruction that does something after a truth value asked for at *offset* that was *answer*."""
        at, k = self.asks(offset), self.place.get(offset)
        if at is None or k is None or not self.code[at].opname.endswith(("IF_TRUE", "IF_FALSE")):
            return None
        for n in range(k, at):
            answer ^= self.code[n].opname == "UNARY_NOT"
        found = self.following[at][0 if answer == self.code[at].opname.endswith("IF_TRUE") else 1]
        seen = set()
        while found not in seen and self.code[found].opname.startswith(_ONWARD):
            seen.add(
                found
            )  # from 3.12 on, the way back from the question at the end of a loop's body is a jump of its own
            found = self.following[found][0]
        return found

    def live(self, k: int) -> frozenset[str]:
        """The local variables that are live at instruction *k*."""
        if self._live is None:
            self._live = [set(loads(i)) for i in self.code]
            changed = True
            while changed:
                changed = False
                for n in range(len(self.code) - 1, -1, -1):
                    out = set().union(*[self._live[m] for m in self.following[n]])
                    new = set(loads(self.code[n])) | (out - set(stores(self.code[n])))
                    if new != self._live[n]:
                        self._live[n], changed = new, True
        return frozenset(self._live[k])

    def handled(self, loop: Iterable[int]) -> bool:
        """Whether an exception in the *loop* is handled, other than by a ``with`` statement around all of it: that ends
        it."""
        offsets = [
            self.code[k].offset for k in loop if not self.code[k].opname.startswith(_ONWARD)
        ]  # which raise nothing
        low, high = min(offsets), max(offsets)
        around = {e.target: [e.start, e.end] for e in self.exceptions}
        for e in self.exceptions:  # what raises nothing is left out of it from 3.14 on
            around[e.target] = [min(around[e.target][0], e.start), max(around[e.target][1], e.end)]
        return any(
            e.start <= o < e.end
            and not (around[e.target][0] <= low and high < around[e.target][1] and self._leaves_a_with(e.target))
            for e in self.exceptions
            for o in offsets
        )

    def _leaves_a_with(self, target: int) -> bool:
        at = next((k for k, i in enumerate(self.code) if i.offset >= target), None)
        return at is not None and "WITH_EXCEPT_START" in [i.opname for i in self.code[at : at + 2]]


@lru_cache(maxsize=256)
def flow_of(code: types.CodeType) -> Flow:
    return Flow(code)


def loads(i: Any) -> tuple[str, ...]:
    return (i.argval,) if i.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "DELETE_FAST")) else ()


def stores(i: Any) -> tuple[str, ...]:
    return (i.argval,) if i.opname == "STORE_FAST" else ()
