"""``match`` statements as ``if`` statements: the questions that a pattern asks, from left to right, are one condition.

A pattern that takes a subject apart asks the frame for the parts (``PatternParts``), and names of the copy hold them.
The variables of a case are bound by the condition, behind its pattern and before its guard, as CPython binds them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from .nodes import LOAD, STORE, Place, constant, name, own_nodes, place_of, walrus

HELD = "@match"  # with what the names begin that hold subjects and parts of them


class PatternParts(ast.expr):
    """A question about a subject, or what it has of it, by a *method* of the frame; of parts None where the subject is
    another one."""

    _fields = ("args",)
    method: str
    args: list[Any]

    def __init__(self, method: str = "", args: Sequence[Any] = (), **at: Any) -> None:
        super().__init__(**at)
        self.method, self.args = method, list(args)


def without_matches(function: Any) -> Any:
    """*function*, a FunctionDef or Lambda, or a copy of it that has ``if`` statements in place of ``match``."""
    nodes = [] if isinstance(function, ast.Lambda) else [n for s in function.body for n in own_nodes(s)]
    if not any(isinstance(n, ast.Match) for n in nodes):
        return function
    made, rewriting = deepcopy(function), _Cases()
    made.body = [new for s in made.body for new in rewriting.statement(s)]
    return made


class _Cases(ast.NodeTransformer):
    def __init__(self) -> None:
        self.count = 0
        self.captures: list[tuple[str, str]] = []  # (variable, the name that holds its value) of the case

    def statement(self, node: Any) -> list[Any]:
        found = self.visit(node)
        return found if isinstance(found, list) else [found]

    def visit_FunctionDef(self, node: Any) -> Any:
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef

    def visit_Match(self, node: Any) -> Any:
        at, subject = place_of(node.subject), self._held()
        made = ast.Assign([ast.Name(subject, STORE, **at)], node.subject, **at)
        below: list[Any] = []
        for case in reversed([self._case(case, subject) for case in node.cases]):
            test, body, where = case
            below = body if test is None else [ast.If(test, body, below, **where)]
        return [made, *below]

    def _case(self, case: Any, subject: str) -> tuple[Any, list[Any], Place]:
        """(the condition, or None; the statements; the place) of a case."""
        at, self.captures = place_of(case.pattern), []
        tests = self._tests(case.pattern, subject)
        if self.captures:
            tests.append(_bound([(text, name(held, at)) for text, held in self.captures], at))
        if case.guard is not None:
            tests.append(case.guard)
        body = [new for s in case.body for new in self.statement(s)]
        return _all(tests, at), body, at

    def _held(self) -> str:
        self.count += 1
        return f"{HELD}{self.count}"

    # ---- patterns

    def _tests(self, pattern: Any, subject: str) -> list[Any]:
        """The questions of a pattern, none of which is asked unless those before it hold."""
        found: list[Any] = getattr(self, "_" + type(pattern).__name__.lower())(pattern, subject, place_of(pattern))
        return found

    def _matchvalue(self, p: Any, subject: str, at: Place) -> list[Any]:
        return [ast.Compare(name(subject, at), [ast.Eq()], [p.value], **at)]

    def _matchsingleton(self, p: Any, subject: str, at: Place) -> list[Any]:
        return [ast.Compare(name(subject, at), [ast.Is()], [constant(p.value, at)], **at)]

    def _matchas(self, p: Any, subject: str, at: Place) -> list[Any]:
        tests = [] if p.pattern is None else self._tests(p.pattern, subject)
        if p.name is not None:
            self.captures.append((p.name, subject))
        return tests

    def _matchor(self, p: Any, subject: str, at: Place) -> list[Any]:
        before, ways, held = self.captures, [], dict[str, str]()
        for pattern in p.patterns:
            self.captures = []
            tests = self._tests(pattern, subject)
            pairs = [
                (held.setdefault(text, held.get(text) or self._held()), name(by, at)) for text, by in self.captures
            ]
            ways.append(_all([*tests, *([_bound(pairs, at)] if pairs else [])], at) or constant(True, at))
        self.captures = [*before, *held.items()]
        return [ast.BoolOp(ast.Or(), ways, **at)]

    def _matchsequence(self, p: Any, subject: str, at: Place) -> list[Any]:
        size = len(p.patterns)
        star = next((k for k, x in enumerate(p.patterns) if isinstance(x, ast.MatchStar)), size)
        args = [name(subject, at), constant(star, at), constant(size - star - 1, at)]
        taken = [k for k, pattern in enumerate(p.patterns) if not _is_wildcard(pattern)]
        if star in taken or (taken and star == size):
            return self._parts("match_sequence", args, p.patterns, at)
        tests: list[Any] = [PatternParts("is_sequence", args, **at)]  # no star has a list: each item is asked for
        for k in taken:
            held, where = self._held(), place_of(p.patterns[k])
            item = PatternParts(
                "sequence_item", [name(subject, where), constant(k - size * (k > star), where)], **where
            )
            tests += [_bound([(held, item)], where), *self._tests(p.patterns[k], held)]
        return tests

    def _matchstar(self, p: Any, subject: str, at: Place) -> list[Any]:
        return self._matchas(ast.MatchAs(None, p.name, **at), subject, at)

    def _matchmapping(self, p: Any, subject: str, at: Place) -> list[Any]:
        keys = ast.Tuple(p.keys, LOAD, **at)
        rest = [] if p.rest is None else [ast.MatchAs(None, p.rest, **at)]
        args = [name(subject, at), keys, constant(bool(rest), at)]
        return self._parts("match_mapping", args, [*p.patterns, *rest], at)

    def _matchclass(self, p: Any, subject: str, at: Place) -> list[Any]:
        args = [name(subject, at), p.cls, constant(len(p.patterns), at), constant(tuple(p.kwd_attrs), at)]
        return self._parts("match_class", args, [*p.patterns, *p.kwd_patterns], at)

    def _parts(self, method: str, args: Sequence[Any], patterns: Sequence[Any], at: Place) -> list[Any]:
        """The questions whether there are such parts, and those of a pattern for each."""
        every = self._held()
        found = walrus(every, PatternParts(method, args, **at), at)
        tests: list[Any] = [ast.Compare(found, [ast.IsNot()], [constant(None, at)], **at)]
        for k, pattern in enumerate(patterns):
            if _is_wildcard(pattern):
                continue
            held, where = self._held(), place_of(pattern)
            part = ast.Subscript(name(every, where), constant(k, where), LOAD, **where)
            tests += [_bound([(held, part)], where), *self._tests(pattern, held)]
        return tests


def _is_wildcard(pattern: Any) -> bool:
    """Whether a pattern asks nothing, and binds nothing."""
    plain = isinstance(pattern, ast.MatchStar) or (isinstance(pattern, ast.MatchAs) and pattern.pattern is None)
    return plain and pattern.name is None


def _bound(pairs: Sequence[tuple[str, Any]], at: Place) -> Any:
    """An expression that is true, and binds these names to these values."""
    return ast.Tuple([walrus(text, value, at) for text, value in pairs], LOAD, **at)


def _all(tests: Sequence[Any], at: Place) -> Any:
    """The condition that all *tests* hold; None where there are none."""
    if len(tests) < 2:
        return tests[0] if tests else None
    return ast.BoolOp(ast.And(), list(tests), **at)
