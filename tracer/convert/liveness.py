"""Which local variables may be read in an iteration of a loop before it has assigned them, or after its last one; and
those that may be read after both arms of an ``if``, or in the second one.

Live variables are found backwards through the statements, as sets of bits.  Where an exception may lead elsewhere, what
is read there is live at each point.  Variables that code reads which may run later are live everywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .scopes import COMPREHENSIONS, Bindings, elements


@dataclass(frozen=True, slots=True)
class _Ways:
    """The variables that are live where statements lead to."""

    leave: int = 0  # ``break``
    onward: int = 0  # ``continue``
    out: int = 0  # ``return``
    caught: int = 0  # an exception


class Liveness:
    """The live variables of a function at the start of each loop's body, before its target is assigned."""

    def __init__(self, body: Sequence[Any], bindings: Bindings, all_read: bool) -> None:
        self.bit = {text: 1 << k for k, text in enumerate(bindings.bound)}
        self.walruses = bindings.walruses
        self.always = -1 if all_read else sum(self.bit.get(text, 0) for text in bindings.captured)
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}  # of each loop: those live after it
        self.choices: dict[int, tuple[int, int]] = {}  # of each ``if``: those live before its second arm, and after it
        self._uses: dict[int, int] = {}
        self._block(body, 0, _Ways())

    def carried(self, loop: Any, assigned: Sequence[str]) -> tuple[str, ...]:
        """Those of the *assigned* variables whose value at the start of an iteration counts."""
        live = self.starts[id(loop)] | self.always
        return tuple([text for text in assigned if self.bit.get(text, 0) & live])

    def unread(self, loop: Any, assigned: Sequence[str]) -> tuple[str, ...]:
        """Those of the *assigned* variables that nothing reads after the loop."""
        live = self.ends[id(loop)] | self.always
        return tuple([text for text in assigned if not self.bit.get(text, 0) & live])

    def at_choice(self, choice: Any, first: Sequence[str], both: Sequence[str]) -> tuple[list[str], list[str]]:
        """(those of the *first* arm's variables whose value before it counts in the second one, or after that; those of
        *both* whose value counts after the ``if``)"""
        before, after = [live | self.always for live in self.choices[id(choice)]]
        return (
            [text for text in first if self.bit.get(text, 0) & before],
            [text for text in both if self.bit.get(text, 0) & after],
        )

    # ---- expressions

    def _reads(self, node: Any, out: int) -> int:
        """The variables that are live before *node* is evaluated."""
        return self._before(node, out) if self.walruses else out | self._used(node)

    def _used(self, node: Any) -> int:
        known = self._uses.get(id(node))
        if known is None:
            known = 0
            for n in ast.walk(node):
                if type(n) is ast.Name:
                    known |= self.bit.get(n.id, 0)
            self._uses[id(node)] = known
        return known

    def _before(self, node: Any, out: int) -> int:
        kind = type(node)
        if kind is ast.Name:
            return out | self.bit.get(node.id, 0)
        if kind is ast.Constant:
            return out
        if kind is ast.NamedExpr:
            return self._before(node.value, out & ~self.bit.get(node.target.id, 0))
        if kind is ast.BoolOp or kind is ast.Compare:
            values = node.values if kind is ast.BoolOp else [node.left, *node.comparators]
            live = out
            for k in range(len(values) - 1, -1, -1):
                ends = kind is ast.BoolOp or k > 0
                live = self._before(values[k], live | out if ends else live)
            return live
        if kind is ast.IfExp:
            both = self._before(node.body, out) | self._before(node.orelse, out)
            return self._before(node.test, both)
        if kind is ast.Lambda:
            return out | self._used(node)
        if kind in COMPREHENSIONS:
            for part in (*node.generators[1:], *node.generators[0].ifs, *elements(node)):
                out |= self._used(part)
            return self._before(node.generators[0].iter, out)
        for child in reversed([*ast.iter_child_nodes(node)]):
            out = self._before(child, out)
        return out

    def _stored(self, target: Any, out: int) -> int:
        """The variables that are live before *target* is assigned."""
        if isinstance(target, ast.Name):
            return out & ~self.bit.get(target.id, 0)
        if isinstance(target, ast.Tuple | ast.List):
            for part in reversed(target.elts):
                out = self._stored(part, out)
            return out
        if isinstance(target, ast.Starred):
            return self._stored(target.value, out)
        return self._reads(target, out)

    # ---- statements

    def _block(self, statements: Sequence[Any], out: int, ways: _Ways) -> int:
        for statement in reversed(statements):
            special = getattr(self, "_" + type(statement).__name__.lower(), None)
            out = (self._reads(statement, out) if special is None else special(statement, out, ways)) | ways.caught
        return out

    def _assign(self, s: Any, out: int, ways: _Ways) -> int:
        for target in reversed(s.targets):
            out = self._stored(target, out)
        return self._reads(s.value, out)

    def _annassign(self, s: Any, out: int, ways: _Ways) -> int:
        return out if s.value is None else self._reads(s.value, self._stored(s.target, out))

    def _for(self, s: Any, out: int, ways: _Ways) -> int:
        ended = self._block(s.orelse, out, ways)
        head = ended
        while True:
            body = self._block(s.body, head, replace(ways, leave=out, onward=head))
            start = self._stored(s.target, body)
            if not isinstance(s.target, ast.Name):
                start |= ways.caught  # there may be too few values
            if start | head == head:
                break
            head |= start
        self.starts[id(s)] = start
        self.ends[id(s)] = self.ends.get(id(s), 0) | ended | out | ways.caught
        return self._reads(s.iter, head)

    def _while(self, s: Any, out: int, ways: _Ways) -> int:
        ended = self._block(s.orelse, out, ways)
        head = self._reads(s.test, ended)
        while True:
            body = self._block(s.body, head, replace(ways, leave=out, onward=head))
            start = self._reads(s.test, body | ended) | ways.caught
            if start | head == head:
                break
            head |= start
        self.starts[id(s)] = head
        self.ends[id(s)] = self.ends.get(id(s), 0) | ended | out | ways.caught
        return head

    def _if(self, s: Any, out: int, ways: _Ways) -> int:
        second = self._block(s.orelse, out, ways)
        before, after = self.choices.get(id(s), (0, 0))  # in a loop it is looked at more than once
        self.choices[id(s)] = before | second, after | out | ways.caught
        return self._reads(s.test, self._block(s.body, out, ways) | second)

    def _with(self, s: Any, out: int, ways: _Ways) -> int:
        live = self._block(s.body, out, replace(ways, caught=ways.caught | out))
        for item in reversed(s.items):
            if item.optional_vars is not None:
                live = self._stored(item.optional_vars, live)
            live = self._reads(item.context_expr, live)
        return live

    def _try(self, s: Any, out: int, ways: _Ways) -> int:
        inner = ways
        if s.finalbody:
            after = out | ways.caught | ways.leave | ways.onward | ways.out
            out = self._block(s.finalbody, after, ways)
            inner = _Ways(out, out, out, ways.caught | out)
        caught = inner.caught
        for handler in s.handlers:
            live = self._block(handler.body, out, inner)
            caught |= live if handler.type is None else self._reads(handler.type, live)
        live = self._block(s.orelse, out, inner)
        return self._block(s.body, live, replace(inner, caught=caught))

    _trystar = _try

    def _functiondef(self, s: Any, out: int, ways: _Ways) -> int:
        out &= ~self.bit.get(s.name, 0)
        for node in (s.args, *s.decorator_list):
            out = self._reads(node, out)
        return out

    def _break(self, s: Any, out: int, ways: _Ways) -> int:
        return ways.leave

    def _continue(self, s: Any, out: int, ways: _Ways) -> int:
        return ways.onward

    def _return(self, s: Any, out: int, ways: _Ways) -> int:
        return ways.out if s.value is None else self._reads(s.value, ways.out)

    def _raise(self, s: Any, out: int, ways: _Ways) -> int:
        return self._reads(s, ways.caught)
