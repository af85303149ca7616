"""Loops of a copy: the frame gives the iterator, and may take over the variables of the body (``LoopStatement``)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .liveness import Liveness
from .nodes import FUNCTIONS, LOAD, STORE, Place, ask, bind, constant, is_one_item, name, of_own, place_of
from .scopes import COMPREHENSIONS, assigned_in, filled_in, only_summed, written_into
from .targets import Targets
from .transparent import OWN

_ELEMENT, _TURN, _RESULT = OWN + "element", OWN + "turn", OWN + "result"

# whether an object that is no iterable is an error of the loop, not of its own place
PLACE_OF_WHOLE = sys.version_info[:2] < (3, 13)


@dataclass(frozen=True, slots=True)
class LoopStatement:
    """A loop as it is written."""

    assigned: tuple[str, ...]  # local names that the statement may assign
    carried: tuple[str, ...]  # those whose value at the start of an iteration counts
    line: int
    end_line: int
    target_names: tuple[str, ...] = ()
    has_break: bool = False
    has_return: bool = False
    has_yield: bool = False
    stored: tuple[str, ...] = ()  # names whose values the body changes in place
    ends: tuple[int, ...] = ()  # lines of the tests that end it
    binds: tuple[str, ...] = ()  # names that the condition of a `while` assigns
    reads: tuple[str, ...] | None = None  # names that the body, and the condition, read; None where nobody knows
    depth: int = 1  # loops within each other, this one included
    sums: tuple[str, ...] = ()  # names with which the body only adds, subtracts and multiplies
    filled: tuple[tuple[str, int], ...] = ()  # lists that it reads at any position, and how many calls append to them
    unread: tuple[str, ...] = ()  # names that it assigns and that nothing reads after it
    restarts: bool = False  # whether the copy can make an iteration of it again (../loops/restarted.py)


def nested_loops(nodes: Iterable[ast.AST]) -> int:
    """The most loops of *nodes* that stand within each other, but for those of functions that are made in them."""
    found = 0
    for node in nodes:
        if not isinstance(node, FUNCTIONS):
            own = isinstance(node, (ast.For, ast.While)) + len(getattr(node, "generators", ()))
            found = max(found, own + nested_loops(ast.iter_child_nodes(node)))
    return found


class Loops(Targets):
    """The rewriting of loops and of what leaves them."""

    loops: list[Any]
    certain: set[str]
    uncertain: set[str]
    _liveness: Liveness | None = None

    def block(self, statements: Sequence[Any]) -> list[Any]:
        raise NotImplementedError

    def visit_For(self, node: ast.For) -> Any:
        iterable = self.visit(node.iter)
        if is_one_item(node.iter):
            iterable.func.attr = "item_gone_over"
        number, text = self._numbered()
        at = place_of(node)
        assigned = tuple(assigned_in([node.target, *node.body], self.bindings.bound))
        targets = tuple(assigned_in([node.target], self.bindings.bound))
        carried = tuple([text for text in self._carried(node, assigned) if text not in targets])
        ways, stored = _ways_out(node.body), written_into([node.target, *node.body])
        self.loops[number] = LoopStatement(
            assigned, carried, *_lines(node), targets, *ways, tuple(stored), _ends(node),
            reads=read_in(node.body, targets), depth=1 + nested_loops(node.body), sums=only_summed(node.body),
            filled=tuple(filled_in(node.body).items()),
            unread=self._unread(node, assigned), restarts=self.direct and _can_restart(node, ways),
        )  # fmt: skip
        body = self.rebinding(text, "symbols", carried, at)
        target, stores = self.in_place_of(node.target, _ELEMENT)
        body += stores
        certain = set(self.certain)
        self.certain.update(targets)
        body += self._inside(text, node.body)
        self.certain = certain
        ended = [*self.rebinding(text, "results", assigned, at), *self.block(node.orelse)]
        made = self.for_statement(number, text, iterable, target, body, ended, at)
        return [made[0], self._restarted(text, made[1], at)] if self.loops[number].restarts else made

    def _restarted(self, text: str, statement: Any, at: Place) -> Any:
        """The loop *statement*, an iteration of which may be made again."""
        other = ast.UnaryOp(ast.Not(), ast.Call(of_own(text, "again", at), [], [], **at), **at)
        handled: list[Any] = [ast.If(other, [ast.Raise(**at)], [], **at), ast.Continue(**at)]
        caught = ast.ExceptHandler(of_own(text, "interrupted", at), None, handled, **at)
        tried: Any = ast.Try([statement], [caught], [], [], **at)
        return ast.While(constant(True, at), [tried, ast.Break(**at)], [], **at)

    def for_statement(
        self, number: int, text: str, iterable: Any, target: Any, body: list[Any], ended: list[Any], at: Place
    ) -> list[Any]:
        where = at if PLACE_OF_WHOLE else place_of(iterable)
        begun = bind(text, ask("loop", [constant(number, where), iterable], where), where)
        return [begun, ast.For(target, name(text, where), body or [ast.Pass(**at)], ended, None, **at)]

    def visit_While(self, node: ast.While) -> Any:
        number, text = self._numbered()
        at, where = place_of(node), place_of(node.test)
        assigned = tuple(assigned_in([node.test, *node.body], self.bindings.bound))
        binds = tuple(assigned_in([node.test], self.bindings.bound))
        carried = tuple(dict.fromkeys([*self._carried(node, assigned), *binds]))
        self.loops[number] = LoopStatement(
            assigned, carried, *_lines(node), (), *_ways_out([node.test, *node.body]),
            tuple(written_into([node.test, *node.body])), _ends(node), binds, read_in([node.test, *node.body]),
            1 + nested_loops(node.body), only_summed([node.test, *node.body]), unread=self._unread(node, assigned),
        )  # fmt: skip
        asked = ast.Call(of_own(text, "test", where), [self.truth(node.test, unwrapped=True)], [], **where)
        ends = ast.If(ast.UnaryOp(ast.Not(), asked, **where), [ast.Break(**where)], [], **where)
        body = [*self.rebinding(text, "symbols", self.loops[number].carried, at), ends, *self._inside(text, node.body)]
        made: list[Any] = [
            bind(text, ask("while_loop", [constant(number, at)], at), at),
            ast.For(ast.Name(_TURN, STORE, **at), name(text, at), body, [], None, **at),
        ]
        results = [text for text in assigned if text not in binds]  # which the last test has bound
        ended = [*self.rebinding(text, "results", results, at), *self.block(node.orelse)]
        if ended:
            made.append(ast.If(of_own(text, "ended", at), ended, [], **at))
        return made

    def _numbered(self) -> tuple[int, str]:
        number = self.new_loop()
        return number, f"{OWN}loop{number}"

    def new_loop(self) -> int:
        self.loops.append(None)
        return len(self.loops) - 1

    def _carried(self, node: Any, assigned: tuple[str, ...]) -> tuple[str, ...]:
        return self.liveness().carried(node, assigned) if assigned else ()

    def _unread(self, node: Any, assigned: tuple[str, ...]) -> tuple[str, ...]:
        return self.liveness().unread(node, assigned) if assigned else ()

    def liveness(self) -> Liveness:
        """The live variables of the function."""
        if self._liveness is None:
            all_read = not {"locals", "vars", "dir"}.isdisjoint(self.code.co_names)
            self._liveness = Liveness(self.source.node.body, self.bindings, all_read)
        return self._liveness

    def rebinding(self, text: str, method: str, variables: Sequence[str], at: Place) -> list[Any]:
        """The statement that takes variables from the loop, if it says so."""
        if not variables:
            return []
        target = ast.Tuple([ast.Name(v, STORE, **at) for v in variables], STORE, **at)
        made: list[Any] = [ast.Assign([target], ast.Call(of_own(text, method, at), [], [], **at), **at)]
        for variable in variables:
            if variable not in self.certain or variable in self.uncertain:
                unset = ast.Compare(name(variable, at), [ast.Is()], [of_own(text, "unset", at)], **at)
                made.append(ast.If(unset, [ast.Delete([ast.Name(variable, ast.Del(), **at)], **at)], [], **at))
        return [ast.If(of_own(text, "rebinds", at), made, [], **at)]

    def _inside(self, text: str, body: Sequence[Any]) -> list[Any]:
        self.scope.loops.append(text)
        made = self.block(body)
        self.scope.loops.pop()
        return made

    def _left(self, text: str, at: Place) -> Any:
        return ast.Expr(ast.Call(of_own(text, "leave", at), [], [], **at), **at)

    def visit_Break(self, node: ast.Break) -> Any:
        return [self._left(self.scope.loops[-1], place_of(node)), node]

    def visit_Continue(self, node: ast.Continue) -> Any:
        return [node]

    def visit_Return(self, node: ast.Return) -> Any:
        at, loops = place_of(node), self.scope.loops
        value = None if node.value is None else self.visit(node.value)
        left = [self._left(text, at) for text in reversed(loops)]
        if value is not None and not isinstance(value, ast.Constant) and not self.direct:
            value = ask("returned", [value], place_of(node.value))
        if not left or value is None or isinstance(value, ast.Constant):
            return [*left, ast.Return(value, **at)]
        return [bind(_RESULT, value, at), *left, ast.Return(ast.Name(_RESULT, LOAD, **at), **at)]


def _can_restart(node: ast.For, ways: tuple[bool, bool, bool]) -> bool:
    """Whether an iteration of a loop that has ended halfway can be made again: nothing of the user's comes between."""
    within = [n for part in node.body for n in ast.walk(part)]
    between = any(isinstance(n, (ast.Try, ast.With, ast.Delete, ast.Await, *FUNCTIONS)) for n in within)
    return not (between or node.orelse or any(ways))


def read_in(parts: Sequence[Any], but: Sequence[str] = ()) -> tuple[str, ...]:
    """The names that are read in *parts*, but for those of a loop's target."""
    nodes = [node for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)]
    return tuple(dict.fromkeys([n.id for n in nodes if not isinstance(n.ctx, ast.Store) and n.id not in but]))


def _lines(node: Any) -> tuple[int, int]:
    return node.lineno, node.end_lineno


def _ends(loop: Any) -> tuple[int, ...]:
    """The lines of the tests that end a loop."""
    tests = [loop.test] if isinstance(loop, ast.While) else []
    for node in ast.walk(loop):
        if isinstance(node, ast.If) and any(isinstance(n, ast.Break | ast.Return) for n in ast.walk(node)):
            tests.append(node.test)
    return tuple([line for test in tests for line in range(test.lineno, (test.end_lineno or test.lineno) + 1)])


def _ways_out(statements: Sequence[Any]) -> tuple[bool, bool, bool]:
    """Whether statements of a loop break it, return, and yield."""
    breaks = returns = yields = False
    todo = [(s, True) for s in statements]
    while todo:
        node, innermost = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.Lambda, *COMPREHENSIONS)):
            continue
        breaks |= innermost and isinstance(node, ast.Break)
        returns |= isinstance(node, ast.Return)
        yields |= isinstance(node, ast.Yield | ast.YieldFrom)
        if isinstance(node, ast.For | ast.While):
            todo += [(s, innermost) for s in node.orelse]
            head = [node.iter] if isinstance(node, ast.For) else [node.test]
            todo += [(s, False) for s in (*head, *node.body)]
        else:
            todo += [(child, innermost) for child in ast.iter_child_nodes(node)]
    return breaks, returns, yields
