"""If-conversion of the user's code: a function's source, rewritten so that both arms of an ``if`` can run.

``convert`` finds the source of a code object and compiles it again, with every ``if`` statement, conditional
expression and ``and``/``or`` whose arms do nothing but assign taken apart: at run time ``Arms`` (``control/arms.py``),
which lies among the constants of the new code, decides whether one arm runs, as ever, or both, and which values are
merged afterwards.  File, lines, names, globals and cells stay those of the function.

A statement becomes::

    _tg_0 = ARMS.branch(0, test)
    if _tg_0.body(): ...                    # the first arm
    if _tg_0.merges: x, = _tg_0.swap()      # what it has assigned is kept, and is as it was before
    if _tg_0.orelse(): ...                  # the other arm
    if _tg_0.merges: x, y = _tg_0.merge()   # of those that are read afterwards

``return`` and ``continue`` in an arm make the rest of the block the other arm.  Assignments of items and ``x += y`` go
through ``ARMS``, too, since they may be within an arm of a caller's.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any

from ..convert.arms import are_arm, folded, is_no_arm
from .arm_statements import OWN, Plainly, arms_alone, assigned, declared, ends_of, loops_in, renewed
from .control_flow import flow_of, loads, stores
from .function_source import located, parts_of
from .versions import PYTHON

ARMS = "\0arms of the user's code"  # stands for the object of ``control/arms.py`` until the code is complete


@dataclass(slots=True)
class Choice:
    """One choice of the code: the lines of its test, from *line* to *end*; the local variables to set back before the
    second arm, and to merge after it; those that the arms read; the arms alone, as a function to be proven harmless."""

    line: int
    end: int
    resets: tuple[str, ...] = ()
    merges: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    arms: CodeType | None = None
    assigned: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    renewed: frozenset[str] = frozenset()  # variables that the second arm assigns on every way
    again: frozenset[str] = frozenset()  # and those that it reads as they were before


@dataclass(slots=True, eq=False)
class Converted:
    """*code* with its *choices*; *plainly*: the same code without its assignments of items, to be proven harmless."""

    code: CodeType
    plainly: CodeType
    choices: list[Choice] = field(default_factory=list)


def convert(code: CodeType, asked: frozenset[int]) -> Converted | None:
    """*code* by choices; None where its source is not known, or has none.  *asked*: the lines that have asked for
    traced truths; loops that end there stay as they are."""
    known = None if PYTHON is None else located(code)
    if known is None:
        return None
    ends = frozenset(line for loop in loops_in(known.function()) for line in ends_of(loop))
    return _convert(code, asked & ends)


@lru_cache(maxsize=1024)
def _convert(code: CodeType, asked: frozenset[int]) -> Converted | None:
    source = located(code)
    assert source is not None
    shared = frozenset((*code.co_cellvars, *code.co_freevars))
    plainly = source.compiled(lambda function: Plainly(shared).visit_body(function))
    tree = source.function()
    rewriter = _Rewriter(asked, code)
    rewriter.function(tree)
    if plainly is None or not rewriter.used:
        return None
    first = source.compiled(lambda function: _Rewriter(asked, code).function(function))
    if first is None or first.co_freevars != code.co_freevars:
        return None
    choices = rewriter.choices
    for k, choice in enumerate(choices):
        _find_live(first, k, choice)
    again = source.compiled(lambda function: _Rewriter(asked, code, choices).function(function))
    return None if again is None else Converted(again, plainly, choices)


def _find_live(first: CodeType, k: int, choice: Choice) -> None:
    """Set the variables of a choice that count: those that are read before they are assigned again."""
    for code in parts_of(first):
        if f"{OWN}{k}" not in (*code.co_varnames, *code.co_cellvars):
            continue
        flow = flow_of(code)
        always = set(code.co_cellvars) | set(code.co_freevars)
        named = [j for j, i in enumerate(flow.code) if i.opname in ("LOAD_ATTR", "LOAD_METHOD") and _of(flow, j, k)]
        names = tuple(dict.fromkeys(sum(choice.assigned, ())))
        at = next((j for j in named if flow.code[j].argval == "merge"), None)
        if at is None or not names:
            continue
        last = max(next((j for j in range(at, len(flow.code)) if name in _stored(flow.code[j])), at) for name in names)
        live = set(names) if flow.exceptions else flow.live(last + 1) | always
        choice.merges = tuple([name for name in names if name in live])
        again = choice.again | (set(choice.merges) - choice.renewed)
        choice.resets = tuple([name for name in choice.assigned[0] if name in again])


def _of(flow: Any, j: int, k: int) -> bool:
    return bool(j) and f"{OWN}{k}" in loads(flow.code[j - 1])


def _stored(i: Any) -> tuple[str, ...]:
    return (i.argval,) if i.opname in ("STORE_FAST", "STORE_DEREF") else stores(i)


class _Rewriter(ast.NodeTransformer):
    """The rewriting of one function.  *known*: the choices with what counts of their variables."""

    def __init__(self, asked: frozenset[int], code: CodeType, known: Sequence[Choice] = ()) -> None:
        self.asked, self.known = asked, known
        self.choices: list[Choice] = []
        self.names = tuple(dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)))
        self.shared = {*code.co_cellvars, *code.co_freevars}  # variables that other functions may assign
        self.outer = {*code.co_freevars}  # variables of other functions, or global ones
        self.count = 0
        self.used = False
        self.results = 0

    def function(self, node: Any) -> None:
        """Rewrite the body of a function in place."""
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
            return
        self.results += 1
        self.outer |= declared(node)
        node.body = self.block(folded(node.body, ast.Return, f"{OWN}r{self.results}"))

    def block(self, statements: list[Any]) -> list[Any]:
        found: list[Any] = []
        for s in statements:
            made = self.visit(s)
            found += made if isinstance(made, list) else [made]
        return found

    def visit_FunctionDef(self, node: Any) -> Any:
        outer, self.names = self.names, tuple(dict.fromkeys((*self.names, *_locals(node))))
        self.function(node)
        self.names = outer
        return node

    def visit_AsyncFunctionDef(self, node: Any) -> Any:
        return node

    visit_ClassDef = visit_AsyncFunctionDef  # noqa: N815

    def visit_Lambda(self, node: Any) -> Any:
        outer, self.names = self.names, tuple(dict.fromkeys((*self.names, *_locals(node))))
        node.body = self.visit(node.body)
        self.names = outer
        return node

    # ---- statements

    def visit_If(self, node: ast.If) -> Any:
        arms = [*node.body, *node.orelse]
        shared = self._changes_shared(arms) or self.outer.intersection(assigned(arms))
        if not are_arm(arms) or is_no_arm(node.test) or shared:
            node.test = self.truth(node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        k = self._choice(node, arms)
        choice = self.choices[k]
        choice.assigned = of_both = assigned(node.body), assigned(node.orelse)
        if not self.known:
            second = arms_alone(node.orelse, tuple(dict.fromkeys((*self.names, *assigned(arms)))))
            choice.again = frozenset(self.names) if second is None else flow_of(second).live(0)
            choice.renewed = frozenset(renewed(node.orelse))
        resets, merges = of_both[0], tuple(dict.fromkeys(sum(of_both, ())))
        if self.known:
            resets, merges = self.known[k].resets, self.known[k].merges
        name = f"{OWN}{k}"
        begin = ast.Assign([ast.Name(name, ast.Store())], self._call("branch", ast.Constant(k), self.truth(node.test)))
        body, orelse = self.block(node.body), self.block(node.orelse)
        made = [
            begin,
            ast.If(self._own(name, "body"), body or [ast.Pass()], []),
            self._merging(name, "swap", resets),
            ast.If(self._own(name, "orelse"), orelse or [ast.Pass()], []),
            self._merging(name, "merge", merges),
        ]
        return [_located_as(s, node.test) for s in made]

    def _changes_shared(self, arms: list[Any]) -> bool:
        changed = [n.target for s in arms for n in ast.walk(s) if isinstance(n, ast.AugAssign)]
        return any(isinstance(target, ast.Name) and target.id in self.shared for target in changed)

    def visit_For(self, node: Any) -> Any:
        if self.asked.intersection(ends_of(node)):
            return node
        if isinstance(node, ast.For):
            node.iter = self.visit(node.iter)
        node.body = self.block(folded(node.body, ast.Continue, ""))
        node.orelse = self.block(node.orelse)
        return node

    visit_While = visit_For  # noqa: N815

    def visit_Assign(self, node: ast.Assign) -> Any:
        node.value = self.visit(node.value)
        if len(node.targets) > 1 or not isinstance(node.targets[0], ast.Subscript):
            if any(isinstance(t, ast.Subscript) for target in node.targets for t in ast.walk(target)):
                return self._one_by_one(node)
            return node
        target = node.targets[0]
        names = [self._temporary() for _ in range(3)]
        values = node.value, self.visit(target.value), _index(target.slice)
        return [
            *[_located_as(ast.Assign([ast.Name(n, ast.Store())], v), node) for n, v in zip(names, values, strict=True)],
            self._stored(names[0], names[1], names[2], node),
        ]

    def _stored(self, value: str, of: str, index: str, node: Any) -> Any:
        """``of[index] = value``, within an arm by ``ARMS``."""
        self.used = True
        item = ast.Subscript(ast.Name(of, ast.Load()), ast.Name(index, ast.Load()), ast.Store())
        plain = ast.Assign([item], ast.Name(value, ast.Load()))
        chosen = ast.Expr(self._call("store", *[ast.Name(n, ast.Load()) for n in (value, of, index)]))
        return _located_as(ast.If(self._within(), [chosen], [plain]), node)

    def _one_by_one(self, node: ast.Assign) -> Any:
        """Assignments to several targets with items among them: the values first, then one after the other."""
        if any(isinstance(n, ast.Starred | ast.Attribute) for t in node.targets for n in ast.walk(t) if _is_stored(n)):
            return node
        name = self._temporary()
        made: list[Any] = [ast.Assign([ast.Name(name, ast.Store())], node.value)]
        for target in node.targets:
            if isinstance(target, ast.Tuple | ast.List):
                names = [self._temporary() for _ in target.elts]
                spread = ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())
                made.append(ast.Assign([spread], ast.Name(name, ast.Load())))
                for part, n in zip(target.elts, names, strict=True):
                    made.append(ast.Assign([part], ast.Name(n, ast.Load())))
            else:
                made.append(ast.Assign([target], ast.Name(name, ast.Load())))
        found = [_located_as(s, node) for s in made]
        return [found[0], *self.block(found[1:])] if len(found) > 1 else found

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        node.value = self.visit(node.value)
        if isinstance(node.target, ast.Name):
            return node if node.target.id in self.shared else self._changed(node, ast.Name(node.target.id, ast.Load()))
        if not isinstance(node.target, ast.Subscript):
            return node
        of, index, value = self._temporary(), self._temporary(), self._temporary()
        parts = (of, self.visit(node.target.value)), (index, _index(node.target.slice))
        item = ast.Subscript(ast.Name(of, ast.Load()), ast.Name(index, ast.Load()), ast.Load())
        node.target = ast.Name(value, ast.Store())
        made = [
            *[ast.Assign([ast.Name(name, ast.Store())], x) for name, x in parts],
            ast.Assign([ast.Name(value, ast.Store())], item),
        ]
        made = [_located_as(s, node) for s in made]
        return [*made, *self._changed(node, ast.Name(value, ast.Load())), self._stored(value, of, index, node)]

    def _changed(self, node: ast.AugAssign, before: Any) -> list[Any]:
        """``x += y`` of a local variable, within an arm by ``ARMS``."""
        self.used = True
        name = self._temporary()
        by = _located_as(ast.Assign([ast.Name(name, ast.Store())], node.value), node)
        node.value = ast.Name(name, ast.Load())
        changed = self._call("inplace", ast.Constant(type(node.op).__name__), before, ast.Name(name, ast.Load()))
        chosen = ast.Assign([deepcopy(node.target)], changed)
        return [by, _located_as(ast.If(self._within(), [chosen], [node]), node)]

    def _within(self) -> Any:
        return ast.Attribute(ast.Constant(ARMS), "within", ast.Load())

    # ---- expressions

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if is_no_arm(node):
            return self.generic_visit(node)
        k = self._choice(node, [ast.Expr(node.body), ast.Expr(node.orelse)])
        return self._picked(k, self.truth(node.test), self.visit(node.body), self.visit(node.orelse), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if is_no_arm(node):
            return self.generic_visit(node)
        first, *others = node.values
        rest = others[0] if len(others) == 1 else ast.copy_location(ast.BoolOp(node.op, others), others[0])
        k = self._choice(node, [ast.Expr(rest)])
        name = self._temporary()
        test = ast.NamedExpr(ast.Name(name, ast.Store()), self.visit(first))
        value, rest = ast.Name(name, ast.Load()), self.visit(rest)
        body, orelse = (rest, value) if isinstance(node.op, ast.And) else (value, rest)
        return self._picked(k, test, body, orelse, node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1 or is_no_arm(node):
            return self.generic_visit(node)
        return self.visit_BoolOp(self._pairs(node))

    def _pairs(self, node: ast.Compare) -> ast.BoolOp:
        """``a < b < c`` as ``a < (x := b) and x < c``."""
        values, left = [], node.left
        for k, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            following = right
            if k < len(node.ops) - 1:
                name = self._temporary()
                right = ast.NamedExpr(ast.Name(name, ast.Store()), right)
                following = ast.Name(name, ast.Load())
            values.append(_located_as(ast.Compare(left, [op], [right]), node))
            left = following
        made = _located_as(ast.BoolOp(ast.And(), values), node)
        made.own = True  # type: ignore[attr-defined]
        return made

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if not isinstance(node.op, ast.Not):
            return self.generic_visit(node)
        k = self._choice(node, [])
        return _located_as(self._call("no", ast.Constant(k), self.truth(node.operand)), node)

    def truth(self, node: Any) -> Any:
        """*node* where nothing counts but whether it is true."""
        if isinstance(node, ast.Compare) and len(node.ops) > 1 and not is_no_arm(node):
            node = self._pairs(node)
        elif not isinstance(node, ast.BoolOp) or is_no_arm(node):
            return self.visit(node)
        first, *others = node.values
        rest = others[0] if len(others) == 1 else ast.copy_location(ast.BoolOp(node.op, others), others[0])
        k = self._choice(node, [ast.Expr(rest)])
        name, both = f"{OWN}{k}", isinstance(node.op, ast.And)
        test = self.truth(first)
        begun = ast.NamedExpr(ast.Name(name, ast.Store()), self._call("branch", ast.Constant(k), test))
        runs = ast.Call(ast.Attribute(begun, "body" if both else "orelse", ast.Load()), [], [])
        then = ast.IfExp(runs, self.truth(rest), ast.Constant(None))
        found = self._call("both" if both else "either", then, ast.Name(name, ast.Load()))
        return _located_as(found, node)

    def visit_ListComp(self, node: Any) -> Any:
        if isinstance(node, ast.DictComp):
            node.value = self.visit(node.value)
        else:
            node.elt = self.visit(node.elt)
        return node  # what it goes over, and which elements it takes, stays plain

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp  # noqa: N815

    def _picked(self, k: int, test: Any, body: Any, orelse: Any, node: Any) -> Any:
        name = f"{OWN}{k}"
        begun = ast.NamedExpr(ast.Name(name, ast.Store()), self._call("branch", ast.Constant(k), test))
        runs = ast.Call(ast.Attribute(begun, "body", ast.Load()), [], [])
        first = ast.IfExp(runs, body, ast.Constant(None))
        second = ast.IfExp(self._own(name, "orelse"), orelse, ast.Constant(None))
        return _located_as(self._call("pick", first, second, ast.Name(name, ast.Load())), node)

    # ---- parts

    def _choice(self, node: Any, arms: list[Any]) -> int:
        test = getattr(node, "test", node)
        reads = {n.id for s in arms for n in ast.walk(s) if isinstance(n, ast.Name)}
        names = (*self.names, *[n for n in reads if n.startswith(OWN)])
        choice = Choice(test.lineno, test.end_lineno or test.lineno, reads=tuple([n for n in self.names if n in reads]))
        if not self.known:
            choice.arms = arms_alone(arms, tuple(dict.fromkeys((*names, *assigned(arms)))))
        self.choices.append(choice)
        self.used = True
        return len(self.choices) - 1

    def _temporary(self) -> str:
        self.count += 1
        return f"{OWN}v{self.count}"

    def _call(self, method: str, *args: Any) -> Any:
        return ast.Call(ast.Attribute(ast.Constant(ARMS), method, ast.Load()), list(args), [])

    def _own(self, name: str, method: str) -> Any:
        return ast.Call(ast.Attribute(ast.Name(name, ast.Load()), method, ast.Load()), [], [])

    def _merging(self, name: str, method: str, variables: Sequence[str]) -> Any:
        value = self._own(name, method)
        target = ast.Tuple([ast.Name(v, ast.Store()) for v in variables], ast.Store())
        what = ast.Assign([target], value) if variables else ast.Expr(value)
        return ast.If(ast.Attribute(ast.Name(name, ast.Load()), "merges", ast.Load()), [what], [])


def _is_stored(node: Any) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _locals(function: Any) -> list[str]:
    args = function.args
    given = [a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg] if a is not None]
    return [*given, *(() if isinstance(function, ast.Lambda) else assigned(function.body))]


def _index(index: Any) -> Any:
    """The object that ``z[index]`` is asked for."""
    if isinstance(index, ast.Tuple):
        return ast.copy_location(ast.Tuple([_index(i) for i in index.elts], ast.Load()), index)
    if isinstance(index, ast.Slice):
        parts = [part or ast.Constant(None) for part in (index.lower, index.upper, index.step)]
        return ast.copy_location(ast.Call(ast.Attribute(ast.Constant(ARMS), "slice", ast.Load()), parts, []), index)
    return index


def _located_as(node: Any, at: Any) -> Any:
    """*node*, whose new parts stand where *at* does."""
    stack = [node]
    while stack:
        n = stack.pop()
        if "lineno" in n._attributes and getattr(n, "lineno", None) is None:
            ast.copy_location(n, at)
        stack += ast.iter_child_nodes(n)
    return node
