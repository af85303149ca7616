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
import linecache
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any

from .control_flow import flow_of, loads, stores

ARMS = "\0arms of the user's code"  # stands for the object of ``control/arms.py`` until the code is complete
_OWN = "_tg_"
_READERS = frozenset(("locals", "vars", "dir", "eval", "exec", "globals", "_getframe"))
_ASSIGNS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_MOST_NODES = 20_000


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
    known = _located(code)
    if known is None:
        return None
    ends = frozenset(line for loop in _loops(known.function()) for line in _ends(loop))
    return _convert(code, asked & ends)


@lru_cache(maxsize=1024)
def _convert(code: CodeType, asked: frozenset[int]) -> Converted | None:
    source = _located(code)
    assert source is not None
    shared = frozenset((*code.co_cellvars, *code.co_freevars))
    plainly = source.compiled(lambda function: _Plainly(shared).visit_body(function))
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


def has_handlers(code: CodeType) -> bool:
    """Whether *code* handles exceptions, whose ways its flow does not show."""
    return bool(flow_of(code).exceptions)


def _find_live(first: CodeType, k: int, choice: Choice) -> None:
    """Set the variables of a choice that count: those that are read before they are assigned again."""
    for code in parts_of(first):
        if f"{_OWN}{k}" not in (*code.co_varnames, *code.co_cellvars):
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
    return bool(j) and f"{_OWN}{k}" in loads(flow.code[j - 1])


def _stored(i: Any) -> tuple[str, ...]:
    return (i.argval,) if i.opname in ("STORE_FAST", "STORE_DEREF") else stores(i)


# ---- the source of a code object -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _FunctionSource:
    """The statements of a file that lead to one function."""

    file: str
    tree: ast.Module
    place: tuple[int, int]  # line and column of the function in the file
    code: CodeType
    order: int = 0

    def compiled(self, change: Callable[[Any], Any]) -> CodeType | None:
        """The code of the function after *change* of its tree."""
        tree = deepcopy(self.tree)
        change(_function_at(tree, self.place))
        ast.fix_missing_locations(tree)
        try:
            module = compile(tree, self.file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return None
        return _same_place(module, self.code, self.order)

    def function(self) -> Any:
        return _function_at(deepcopy(self.tree), self.place)


@lru_cache(maxsize=1024)
def _located(code: CodeType) -> _FunctionSource | None:
    """The source of *code*, which gives that very code."""
    lines = linecache.getlines(code.co_filename)
    if not lines or not _READERS.isdisjoint(code.co_names):
        return None
    module = _parsed("".join(lines))
    if module is None:
        return None
    for function in ast.walk(module):
        if isinstance(function, _FUNCTIONS) and _first_line(function) == code.co_firstlineno:
            if getattr(function, "name", "<lambda>") != code.co_name:
                continue
            place = function.lineno, function.col_offset
            tree = ast.Module(_leading_to(deepcopy(module.body), place), [])
            found = _FunctionSource(code.co_filename, tree, place, code)
            try:
                compiled = compile(tree, code.co_filename, "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                continue
            same = [c for c in parts_of(compiled) if _named_alike(c, code)]
            for order, other in enumerate(same):
                if other == code and (len(same) == 1 or _is_at(other, function)):
                    found.order = order
                    return found
    return None


@lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _first_line(function: Any) -> int:
    return min([function.lineno, *[d.lineno for d in getattr(function, "decorator_list", ())]])


def _leading_to(body: list[Any], place: tuple[int, int]) -> list[Any]:
    """The statements of a module, or of a class, that lead to the function at *place*."""
    kept = []
    for statement in body:
        imports = not isinstance(statement, _SCOPES) and any(
            isinstance(n, ast.Import | ast.ImportFrom) for n in ast.walk(statement)
        )
        if imports:
            kept.append(statement)  # calls of imported modules are other instructions
        elif any(isinstance(n, _FUNCTIONS) and (n.lineno, n.col_offset) == place for n in ast.walk(statement)):
            if isinstance(statement, ast.ClassDef):
                statement.body = _leading_to(statement.body, place)
            kept.append(statement)
    return kept


def _function_at(tree: ast.Module, place: tuple[int, int]) -> Any:
    return next(n for n in ast.walk(tree) if isinstance(n, _FUNCTIONS) and (n.lineno, n.col_offset) == place)


def parts_of(code: CodeType) -> Iterator[CodeType]:
    """*code* and those of the functions in it, these very objects."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from parts_of(const)


def _named_alike(code: CodeType, other: CodeType) -> bool:
    return (code.co_qualname, code.co_firstlineno) == (other.co_qualname, other.co_firstlineno)


def _same_place(module: CodeType, code: CodeType, order: int) -> CodeType | None:
    found = [c for c in parts_of(module) if _named_alike(c, code)]
    return found[order] if order < len(found) else None


def _is_at(code: CodeType, function: Any) -> bool:
    """Whether *code* is of the lambda *function*, among others in its line."""
    columns = [c for line, _, c, _ in code.co_positions() if line == function.lineno and c]
    ends = function.end_lineno > function.lineno or function.end_col_offset
    return bool(columns) and min(columns) >= function.col_offset and (ends is True or max(columns) < ends)


# ---- which statements can be arms ------------------------------------------------------------------------------------


def _loops(function: Any) -> list[Any]:
    return [n for n in _own_nodes(function) if isinstance(n, ast.While | ast.For)]


def _ends(loop: Any) -> Iterator[int]:
    """The lines whose truths end a loop."""
    if isinstance(loop, ast.While):
        yield from range(loop.test.lineno, (loop.test.end_lineno or loop.test.lineno) + 1)
    for n in _own_nodes(loop):
        jumps = isinstance(n, ast.If) and any(
            isinstance(x, ast.Break | ast.Return) for s in n.body + n.orelse for x in ast.walk(s)
        )
        if jumps:
            yield from range(n.test.lineno, (n.test.end_lineno or n.test.lineno) + 1)


def _own_nodes(tree: Any) -> Iterator[Any]:
    """The nodes of *tree*, but for those of scopes in it."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _own_nodes(child)


def _never(tree: Any) -> bool:
    """Whether there is something in *tree* that no arm can do: to suspend the frame, or to assign within an
    expression."""
    return any(
        isinstance(n, ast.Yield | ast.YieldFrom | ast.Await)
        or (isinstance(n, ast.NamedExpr) and not n.target.id.startswith(_OWN))
        for n in ast.walk(tree)
    )


def _is_arm(statements: Sequence[Any], within: str = "") -> bool:
    """Whether *statements* do nothing but assign variables and items, as far as that can be seen; *within*: the jump
    (``Return``, ``Continue``) that may end them."""
    return all(_may_stand(s, within) for s in statements)


def _may_stand(s: Any, within: str) -> bool:
    if type(s).__name__ == within:
        return not _never(s)
    if isinstance(s, ast.If):
        return not _never(s.test) and _is_arm([*s.body, *s.orelse], within)
    if isinstance(s, ast.For):
        plain = not s.orelse and _is_target(s.target) and not _never(s.iter)
        return plain and _is_arm(s.body)
    if isinstance(s, ast.Pass):
        return True
    if not isinstance(s, (*_ASSIGNS, ast.Expr)) or _never(s) or any(isinstance(n, _SCOPES) for n in ast.walk(s)):
        return False
    if isinstance(s, ast.Expr):
        return True
    if isinstance(s, ast.AnnAssign) and not isinstance(s.target, ast.Name):
        return False
    return s.value is not None and all(_is_target(t) for t in _targets(s))


def _targets(s: Any) -> list[Any]:
    return s.targets if isinstance(s, ast.Assign) else [s.target]


def _is_target(target: Any) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(_is_target, target.elts))
    return isinstance(target, ast.Name | ast.Subscript)


def _assigned(statements: Sequence[Any]) -> tuple[str, ...]:
    """The local variables that *statements* assign."""
    names = [
        n.id for s in statements for n in [s, *_names_in(s)] if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]
    return tuple(dict.fromkeys(names))


def _names_in(tree: Any) -> Iterator[Any]:
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, (*_SCOPES, *_COMPREHENSIONS)):
            yield child
            yield from _names_in(child)


def _renewed(statements: Sequence[Any]) -> set[str]:
    """The local variables that *statements* assign on every way."""
    found: set[str] = set()
    for s in statements:
        if isinstance(s, ast.If):
            found |= _renewed(s.body) & _renewed(s.orelse)
        elif isinstance(s, _ASSIGNS):
            found.update(_assigned([s]))
    return found


def _always(statements: Sequence[Any], jump: type) -> bool:
    """Whether *statements* end in that jump on every way."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return _always(last.body, jump) and _always(last.orelse, jump)
    return isinstance(last, jump)


def _has(statements: Sequence[Any], jump: type) -> bool:
    def inside(s: Any) -> bool:
        if isinstance(s, jump):
            return True
        return isinstance(s, ast.If) and any(map(inside, [*s.body, *s.orelse]))

    return any(map(inside, statements))


def _folded(block: list[Any], jump: Any, result: str) -> list[Any]:
    """*block* with the rest behind an ``if`` that jumps as its other arm, where both can be arms."""
    for k, s in enumerate(block):
        if not (isinstance(s, ast.If) and _has([s], jump)):
            continue
        rest = deepcopy(block[k + 1 :])
        if _always(s.body, jump):
            body, orelse = s.body, s.orelse if _always(s.orelse, jump) else [*s.orelse, *rest]
        elif _always(s.orelse, jump):
            body, orelse = [*s.body, *rest], s.orelse
        else:
            continue
        if not (_is_arm(body, jump.__name__) and _is_arm(orelse, jump.__name__)):
            continue
        ended = [_without(_folded(arm, jump, result), jump, result) for arm in (body, orelse)]
        if not all(_is_arm(arm) for arm in ended):
            continue
        joined = ast.copy_location(ast.If(s.test, *ended), s)
        value = ast.Name(result, ast.Load())
        after = [] if jump is ast.Continue else [ast.copy_location(ast.Return(ast.copy_location(value, s)), s)]
        return [*block[:k], joined, *after]
    return block


def _without(arm: list[Any], jump: Any, result: str) -> list[Any]:
    """*arm*, with an assignment in place of the ``return`` that ends it, or nothing in place of ``continue``."""
    arm = list(arm)
    last = arm[-1] if arm else None
    if isinstance(last, jump):
        arm.pop()
    if jump is ast.Return and not (isinstance(last, ast.Return) and getattr(last.value, "id", "") == result):
        value = last.value if isinstance(last, ast.Return) and last.value is not None else ast.Constant(None)
        if last is None or not isinstance(last, ast.Return) or last.value is None:
            ast.fix_missing_locations(value)
        target = ast.Name(result, ast.Store())
        at = last or arm
        found = ast.Assign([target], value)
        arm.append(ast.copy_location(found, at) if isinstance(at, ast.AST) else found)
        if isinstance(last, ast.Return):
            ast.copy_location(target, last)
    return arm or [ast.Pass()]


# ---- the code without its assignments of items -----------------------------------------------------------------------


class _Plainly(ast.NodeTransformer):
    """Statements as expressions of what they compute: a proof that they are harmless is one for the arms, whose
    assignments are choices.  *shared*: variables that other functions may assign."""

    def __init__(self, shared: frozenset[str] = frozenset()) -> None:
        self.shared = shared

    def visit_body(self, function: Any) -> None:
        if not isinstance(function, ast.Lambda):
            function.body = [self.visit(s) for s in function.body]

    def visit_Assign(self, node: ast.Assign) -> Any:
        if not any(isinstance(t, ast.Subscript) for target in node.targets for t in ast.walk(target)):
            return node
        parts = [p for t in node.targets for p in _parts(t)]
        return ast.copy_location(ast.Expr(ast.Tuple([node.value, *parts], ast.Load())), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return node
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        read = deepcopy(node.target)
        read.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
        name = node.target
        if isinstance(name, ast.Attribute) or (isinstance(name, ast.Name) and name.id in self.shared):
            return node
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], value), node))

    def visit_FunctionDef(self, node: Any) -> Any:
        outer, self.shared = self.shared, self.shared | _declared(node)
        self.visit_body(node)
        self.shared = outer
        return node

    def visit_ClassDef(self, node: Any) -> Any:
        return node

    visit_AsyncFunctionDef = visit_ClassDef  # noqa: N815


def _declared(function: Any) -> frozenset[str]:
    """The variables of other functions, or of the module, that *function* assigns."""
    found = [n for n in _own_nodes(function) if isinstance(n, ast.Global | ast.Nonlocal)]
    return frozenset(name for n in found for name in n.names)


def _parts(target: Any) -> list[Any]:
    if isinstance(target, ast.Tuple | ast.List):
        return [p for t in target.elts for p in _parts(t)]
    return (
        [target.value, target.slice]
        if isinstance(target, ast.Subscript) and not _sliced(target.slice)
        else ([target.value] if isinstance(target, ast.Subscript) else [])
    )


def _sliced(index: Any) -> bool:
    return any(isinstance(n, ast.Slice) for n in ast.walk(index))


def _arms_alone(statements: list[Any], names: Sequence[str], jump: str = "") -> CodeType | None:
    """The code of a function of the local variables *names* that does as an arm does."""
    body = [_Plainly().visit(deepcopy(s)) for s in statements if not isinstance(s, ast.Continue | ast.Pass)]
    args = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
    function = ast.FunctionDef("arms", args, body or [ast.Pass()], [])
    function.type_params = []  # type: ignore[attr-defined]
    module = ast.fix_missing_locations(ast.Module([function], []))
    try:
        compiled = compile(module, "<arms>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    return next(c for c in compiled.co_consts if isinstance(c, CodeType))


# ---- the new code ----------------------------------------------------------------------------------------------------


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
        self.outer |= _declared(node)
        node.body = self.block(_folded(node.body, ast.Return, f"{_OWN}r{self.results}"))

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
        if (
            not _is_arm(arms)
            or _never(node.test)
            or self._changes_shared(arms)
            or self.outer.intersection(_assigned(arms))
        ):
            node.test = self.truth(node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        k = self._choice(node, arms)
        choice = self.choices[k]
        choice.assigned = assigned = _assigned(node.body), _assigned(node.orelse)
        if not self.known:
            second = _arms_alone(node.orelse, tuple(dict.fromkeys((*self.names, *_assigned(arms)))))
            choice.again = frozenset(self.names) if second is None else flow_of(second).live(0)
            choice.renewed = frozenset(_renewed(node.orelse))
        resets, merges = assigned[0], tuple(dict.fromkeys(sum(assigned, ())))
        if self.known:
            resets, merges = self.known[k].resets, self.known[k].merges
        name = f"{_OWN}{k}"
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
        if self.asked.intersection(_ends(node)):
            return node
        if isinstance(node, ast.For):
            node.iter = self.visit(node.iter)
        node.body = self.block(_folded(node.body, ast.Continue, ""))
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
        if _never(node):
            return self.generic_visit(node)
        k = self._choice(node, [ast.Expr(node.body), ast.Expr(node.orelse)])
        return self._picked(k, self.truth(node.test), self.visit(node.body), self.visit(node.orelse), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if _never(node):
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
        if len(node.ops) == 1 or _never(node):
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
        if isinstance(node, ast.Compare) and len(node.ops) > 1 and not _never(node):
            node = self._pairs(node)
        elif not isinstance(node, ast.BoolOp) or _never(node):
            return self.visit(node)
        first, *others = node.values
        rest = others[0] if len(others) == 1 else ast.copy_location(ast.BoolOp(node.op, others), others[0])
        k = self._choice(node, [ast.Expr(rest)])
        name, both = f"{_OWN}{k}", isinstance(node.op, ast.And)
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
        name = f"{_OWN}{k}"
        begun = ast.NamedExpr(ast.Name(name, ast.Store()), self._call("branch", ast.Constant(k), test))
        runs = ast.Call(ast.Attribute(begun, "body", ast.Load()), [], [])
        first = ast.IfExp(runs, body, ast.Constant(None))
        second = ast.IfExp(self._own(name, "orelse"), orelse, ast.Constant(None))
        return _located_as(self._call("pick", first, second, ast.Name(name, ast.Load())), node)

    # ---- parts

    def _choice(self, node: Any, arms: list[Any]) -> int:
        test = getattr(node, "test", node)
        reads = {n.id for s in arms for n in ast.walk(s) if isinstance(n, ast.Name)}
        names = (*self.names, *[n for n in reads if n.startswith(_OWN)])
        choice = Choice(test.lineno, test.end_lineno or test.lineno, reads=tuple([n for n in self.names if n in reads]))
        if not self.known:
            choice.arms = _arms_alone(arms, tuple(dict.fromkeys((*names, *_assigned(arms)))))
        self.choices.append(choice)
        self.used = True
        return len(self.choices) - 1

    def _temporary(self) -> str:
        self.count += 1
        return f"{_OWN}v{self.count}"

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
    return [*given, *(() if isinstance(function, ast.Lambda) else _assigned(function.body))]


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
