"""Graphs as text: print, parse, typecheck.

    graph(a:f64[5], b:f64[]) {
      const k:f64[5]                          # an array that travels with the graph; its contents are not printed
      c:f64[5] = sin a                        # model.py:12 in loss
      d:f64[5] = mul c 2.5:f64*               # a literal: data; ``*`` marks a weak (Python) scalar
      e:f64[5] = sub d 1.0!:f64               # ``!`` marks a structural literal
      f:f64[] = reduce_sum[axes=(0,)] e
      g:bool[] = gt f 0!:f64
      guard bool g == True                    # model.py:13 in loss
      return f
    }

The text is exact: ``print_graph(parse_graph(text)) == text`` for a printed text, floats keep every bit (NaN payloads
and -0.0 too), and a line of the user's is read back from its comment.  Params are ints, floats, bools, None, strings,
dtypes by short name, tuples and graphs.  Sibling: ``ir.py`` defines what is printed here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .aval import FLOAT_KINDS, Aval, from_short_name, held_dtype, short_name
from .errors import GraphError
from .ir import Atom, Graph, Guard, Lit, Node, Var
from .primitive import ELEMENTWISE, PRIMITIVES
from .site import Site

_KEYWORDS = frozenset({"const", "guard", "return", "graph", "inf", "nan", "True", "False", "None"})
_COMMENT_COLUMN = 44


# ---- names and scalars -----------------------------------------------------------------------------------------


def _fresh_names() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ..."""
    number = 0
    while True:
        name, rest = "", number
        while True:
            name = chr(ord("a") + rest % 26) + name
            rest = rest // 26 - 1
            if rest < 0:
                break
        if name not in _KEYWORDS:
            yield name
        number += 1


_BITS: dict[int, np.dtype] = {8: np.dtype("uint64"), 4: np.dtype("uint32"), 2: np.dtype("uint16")}


def print_scalar(value: Any) -> str:
    """A NumPy scalar so that :func:`parse_scalar` finds the same bits."""
    value = np.asarray(value)[()]
    if value.dtype.kind not in FLOAT_KINDS:
        return str(value.item())
    if np.isnan(value):
        plain = value.tobytes() == value.dtype.type(np.nan).tobytes()
        return "nan" if plain else f"nan({int(value.view(_BITS[value.dtype.itemsize])):#x})"
    text = repr(float(value)) if value.dtype.itemsize == 8 else str(value)
    return text if value.dtype.type(float(text)) == value else float(value).hex()


def parse_scalar(text: str, dtype: np.dtype) -> Any:
    """The scalar of *dtype* that *text* spells."""
    if dtype.kind == "b":
        return dtype.type({"True": True, "False": False}[text])
    if dtype.kind not in FLOAT_KINDS:
        return dtype.type(int(text))
    if text.startswith("nan("):
        return np.array(int(text[4:-1], 16), _BITS[dtype.itemsize]).view(dtype)[()]
    return dtype.type(float.fromhex(text) if "0x" in text else float(text))


# ---- printing --------------------------------------------------------------------------------------------------


class _Printer:
    def __init__(self) -> None:
        self.names: dict[Var, str] = {}
        self.fresh = _fresh_names()

    def define(self, var: Var) -> str:
        name = self.names.get(var)
        if name is None:
            name = self.names[var] = next(self.fresh)
        return f"{name}:{var.aval}"

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Lit):
            mark = "!" if atom.structural else ""
            return f"{print_scalar(atom.value)}{mark}:{short_name(atom.aval.dtype)}{'*' if atom.aval.weak else ''}"
        return self.names.get(atom, "undefined")

    def param(self, value: Any, indent: int) -> str:
        if isinstance(value, Graph):
            return _Printer().graph(value, indent + 2).lstrip()
        if isinstance(value, np.dtype):
            return short_name(value)
        if isinstance(value, tuple):
            inner = ", ".join(self.param(v, indent) for v in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if value is None or isinstance(value, (bool, str, int)):
            return repr(value)
        if isinstance(value, (np.bool_, np.integer)):
            return repr(value.item())
        if isinstance(value, (float, np.floating)):
            return print_scalar(np.float64(value))
        raise GraphError(f"a param of type {type(value).__name__} has no text form")

    def node(self, node: Node, indent: int) -> str:
        outs = ", ".join(self.define(out) for out in node.outs)
        params = ", ".join(f"{k}={self.param(v, indent)}" for k, v in node.params.items())
        operands = "".join(f" {self.atom(a)}" for a in node.inputs)
        return f"{outs} = {node.prim.name}{f'[{params}]' if params else ''}{operands}"

    def guard(self, guard: Guard) -> str:
        expected = np.asarray(guard.expected)
        suffix = "" if expected.dtype == guard.atom.aval.dtype else f":{short_name(expected.dtype)}"
        return f"guard {guard.kind} {self.atom(guard.atom)} == {print_scalar(expected)}{suffix}"

    def graph(self, graph: Graph, indent: int = 0) -> str:
        margin = " " * indent
        lines = [f"{margin}graph({', '.join(self.define(v) for v in graph.inputs)}) {{"]

        def line(text: str, site: Site | None = None) -> None:
            text = f"{margin}  {text}"
            lines.append(text if site is None else f"{text:<{indent + _COMMENT_COLUMN}}  # {site}")

        for var, _ in graph.consts:
            line(f"const {self.define(var)}")
        for node in graph.nodes:
            line(self.node(node, indent), node.site)
        for guard in graph.guards:
            line(self.guard(guard), guard.site)
        line(" ".join(["return", *[self.atom(a) for a in graph.outputs]]))
        lines.append(f"{margin}}}")
        return "\n".join(lines)


def print_graph(graph: Graph) -> str:
    """*graph* as text; see the module's docstring for the form."""
    return _Printer().graph(graph) + "\n"


# ---- parsing ---------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+)
      | (?P<comment>\#[^\n]*)
      | (?P<newline>\n)
      | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
      | (?P<number>[+-]?(?:0x[0-9a-f]+(?:\.[0-9a-f]*)?p[+-]?\d+|nan\(0x[0-9a-f]+\)
                         |\d+(?:\.\d*)?(?:e[+-]?\d+)?|inf\b|nan\b))
      | (?P<word>[A-Za-z_][A-Za-z_0-9]*)
      | (?P<symbol>==|[()\[\]{},:=!*])
    """,
    re.VERBOSE,
)
_SITE = re.compile(r"#\s*(?P<file>.*):(?P<line>\d+) in (?P<function>.*?)\s*$")


class _Parser:
    def __init__(self, text: str, arrays: Sequence[np.ndarray]) -> None:
        self.text = text
        self.arrays = list(arrays)
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise self._error(position, "no token of the language")
            if found.lastgroup != "space":
                self.tokens.append((found.lastgroup or "", found.group(), position))
            position = found.end()
        self.tokens.append(("end", "", len(text)))
        self.at = 0

    def _error(self, position: int, message: str) -> GraphError:
        line = self.text.count("\n", 0, position) + 1
        begin = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", position)
        shown = self.text[begin : end if end >= 0 else len(self.text)]
        return GraphError(f"line {line} of the IR text: {message}\n  {shown}\n  {' ' * (position - begin)}^")

    def fail(self, message: str) -> GraphError:
        return self._error(self.tokens[self.at][2], message)

    def peek(self) -> str:
        return self.tokens[self.at][1]

    def kind(self) -> str:
        return self.tokens[self.at][0]

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def accept(self, text: str) -> bool:
        if self.peek() == text and self.kind() in ("symbol", "word"):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.fail(f"expected {text!r}, found {self.peek()!r}")

    def word(self, what: str) -> str:
        if self.kind() != "word":
            raise self.fail(f"expected {what}, found {self.peek()!r}")
        return self.take()

    def skip_lines(self) -> None:
        while self.kind() in ("newline", "comment"):
            self.at += 1

    def end_of_line(self) -> Site | None:
        """The user's line in the comment that ends this line, if there is one."""
        site = None
        if self.kind() == "comment":
            found = _SITE.match(self.take())
            if found:
                site = Site(found["file"], int(found["line"]), found["function"])
        if self.kind() not in ("newline", "end"):
            raise self.fail(f"expected the end of the line, found {self.peek()!r}")
        self.skip_lines()
        return site

    def dtype(self) -> np.dtype:
        try:
            return from_short_name(self.peek())
        except KeyError:
            raise self.fail(f"{self.peek()!r} is no dtype") from None
        finally:
            self.at += 1

    def aval(self) -> Aval:
        dtype = self.dtype()
        weak = self.accept("*")
        self.expect("[")
        shape = []
        while not self.accept("]"):
            if not self.peek().isdecimal():
                raise self.fail(f"expected a size, found {self.peek()!r}")
            shape.append(int(self.take()))
            self.accept(",")
        return Aval(dtype, tuple(shape), weak)

    def param(self) -> Any:
        if self.accept("("):
            items = []
            while not self.accept(")"):
                items.append(self.param())
                self.accept(",")
            return tuple(items)
        if self.kind() == "string":
            return ast.literal_eval(self.take())
        if self.kind() == "number":
            text = self.take()
            return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(parse_scalar(text, np.dtype("float64")))
        if self.peek() in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[self.take()]
        if self.peek() == "graph":
            return self.graph()
        return self.dtype()

    def scalar_text(self) -> str:
        if self.kind() == "number" or self.peek() in ("True", "False"):
            return self.take()
        raise self.fail(f"expected a number, found {self.peek()!r}")

    def atom(self, scope: dict[str, Var]) -> Atom:
        if self.kind() == "word" and self.peek() not in ("True", "False"):
            name = self.take()
            if name not in scope:
                self.at -= 1
                raise self.fail(f"{name} is not defined before its use")
            return scope[name]
        text = self.scalar_text()
        is_structural = self.accept("!")
        self.expect(":")
        dtype = self.dtype()
        return Lit(parse_scalar(text, held_dtype(dtype)), dtype, weak=self.accept("*"), structural=is_structural)

    def define(self, scope: dict[str, Var]) -> Var:
        name = self.word("a name")
        if name in scope:
            self.at -= 1
            raise self.fail(f"{name} is defined twice")
        self.expect(":")
        scope[name] = var = Var(self.aval())
        return var

    def node(self, scope: dict[str, Var]) -> Node:
        new: dict[str, Var] = {}
        outs = [self.define_new(scope, new)]
        while self.accept(","):
            outs.append(self.define_new(scope, new))
        self.expect("=")
        name = self.word("a primitive")
        prim = PRIMITIVES.get(name)
        if prim is None:
            self.at -= 1
            raise self.fail(f"{name} is no primitive")
        params: dict[str, Any] = {}
        if self.accept("["):
            while not self.accept("]"):
                key = self.word("the name of a param")
                self.expect("=")
                params[key] = self.param()
                self.accept(",")
        inputs = []
        while self.kind() in ("word", "number"):
            inputs.append(self.atom(scope))
        scope.update(new)
        return Node(prim, tuple(inputs), params, tuple(outs), self.end_of_line())

    def define_new(self, scope: dict[str, Var], new: dict[str, Var]) -> Var:
        if self.peek() in scope:
            raise self.fail(f"{self.peek()} is defined twice")
        return self.define(new)

    def guard(self, scope: dict[str, Var]) -> Guard:
        kind = self.word("the kind of guard")
        atom = self.atom(scope)
        self.expect("==")
        text = self.scalar_text()
        dtype = self.dtype() if self.accept(":") else atom.aval.dtype
        return Guard(atom, parse_scalar(text, dtype), kind, self.end_of_line())

    def graph(self) -> Graph:
        self.expect("graph")
        self.expect("(")
        scope: dict[str, Var] = {}
        graph = Graph([], [], [])
        while not self.accept(")"):
            graph.inputs.append(self.define(scope))
            self.accept(",")
        self.expect("{")
        self.end_of_line()
        while self.peek() != "return":
            if self.accept("const"):
                var = self.define(scope)
                graph.consts.append((var, self.array(var.aval)))
                self.end_of_line()
            elif self.accept("guard"):
                graph.guards.append(self.guard(scope))
            else:
                graph.nodes.append(self.node(scope))
        self.expect("return")
        while self.kind() in ("word", "number"):
            graph.outputs.append(self.atom(scope))
        self.end_of_line()
        self.expect("}")
        return graph

    def array(self, aval: Aval) -> np.ndarray:
        if not self.arrays:
            return np.zeros(aval.shape, aval.dtype)
        array = np.asarray(self.arrays.pop(0))
        if array.shape != aval.shape or array.dtype != aval.dtype:
            raise self.fail(f"the array given for this const is {array.dtype}{list(array.shape)}")
        return array


def parse_graph(text: str, arrays: Sequence[np.ndarray] = ()) -> Graph:
    """The graph that *text* spells, typechecked; *arrays*: the contents of its consts (zeros where missing)."""
    parser = _Parser(text, arrays)
    parser.skip_lines()
    graph = parser.graph()
    parser.skip_lines()
    if parser.kind() != "end":
        raise parser.fail("expected nothing after the graph")
    check_graph(graph)
    return graph


# ---- typechecking ----------------------------------------------------------------------------------------------


def check_graph(graph: Graph, *, weak: bool = True) -> None:
    """Raise GraphError unless *graph* is well-formed.

    Every Var is defined once and before its use, each node's avals are those that its primitive infers (with
    ``weak=False`` up to weakness), outputs and guards refer to what exists, guards are 0-d, and consts hold what they
    declare.
    """
    defined: set[Var] = set()

    def define(var: Var, where: str) -> None:
        if var in defined:
            raise GraphError(f"{where}: a value is defined twice{_show(graph)}")
        defined.add(var)

    def use(atom: Atom, where: str) -> None:
        if isinstance(atom, Lit):
            if atom.aval.shape or atom.value.dtype != held_dtype(atom.aval.dtype):
                raise GraphError(f"{where}: a literal {atom} that is no scalar of its dtype{_show(graph)}")
        elif atom not in defined:
            raise GraphError(f"{where}: an operand ({atom.aval}) is not defined before its use{_show(graph)}")

    for position, var in enumerate(graph.inputs):
        define(var, f"input {position}")
    for position, (var, array) in enumerate(graph.consts):
        define(var, f"const {position}")
        if array.shape != var.aval.shape or array.dtype != var.aval.dtype:
            held = f"{array.dtype}{list(array.shape)}"
            raise GraphError(f"const {position}: declared {var.aval}, holds {held}{_show(graph)}")
    for position, node in enumerate(graph.nodes):
        where = f"node {position} ({node.prim.name})"
        if PRIMITIVES.get(node.prim.name) is not node.prim:
            raise GraphError(f"{where}: not in the registry of primitives{_show(graph)}")
        for atom in node.inputs:
            use(atom, where)
        _check_avals(graph, node, where, weak)
        for value in node.params.values():
            if isinstance(value, Graph):
                check_graph(value, weak=weak)
        for out in node.outs:
            define(out, where)
    for position, atom in enumerate(graph.outputs):
        use(atom, f"output {position}")
    for position, guard in enumerate(graph.guards):
        use(guard.atom, f"guard {position}")
        if guard.atom.aval.shape or np.ndim(guard.expected) != 0:
            raise GraphError(f"guard {position}: {guard.atom.aval} is not 0-d{_show(graph)}")


def _check_avals(graph: Graph, node: Node, where: str, weak: bool) -> None:
    arity = len(node.prim.domain)
    if node.prim.kind == ELEMENTWISE and len(node.inputs) != arity:
        raise GraphError(f"{where}: {len(node.inputs)} operands instead of {arity}{_show(graph)}")
    try:
        inferred = node.prim.infer(*[a.aval for a in node.inputs], **node.params)
    except GraphError as error:
        raise GraphError(f"{where}: {error}{_show(graph)}") from error
    except TypeError as error:
        raise GraphError(f"{where}: operands or params do not fit the primitive: {error}{_show(graph)}") from error
    avals = inferred if isinstance(inferred, tuple) else (inferred,)
    recorded = tuple(out.aval for out in node.outs)
    if not weak:
        avals, recorded = (tuple(Aval(a.dtype, a.shape) for a in group) for group in (avals, recorded))
    if avals != recorded:
        found, declared = (", ".join(map(str, group)) for group in (avals, recorded))
        raise GraphError(f"{where}: declared {declared}, but its operands give {found}{_show(graph)}")


def _show(graph: Graph) -> str:
    try:
        return "\n" + print_graph(graph)
    except GraphError:
        return ""
