"""Reading the text of a graph (``tracer/ir/text.py``): tokens, and a parser that descends into them.

Every error names the line of the text and points at the place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.tracer.ir.aval import FLOAT_KINDS, SUPPORTED, Aval, held_dtype, short_name
from tracegrad.tracer.ir.check import check_graph
from tracegrad.tracer.ir.errors import GraphError
from tracegrad.tracer.ir.graph import Atom, Graph, Guard, Lit, Node, Var
from tracegrad.tracer.ir.primitive import PRIMITIVES
from tracegrad.tracer.ir.site import Site

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
_DTYPES = {short_name(dtype): dtype for dtype in SUPPORTED}
_BITS = {8: np.dtype("uint64"), 4: np.dtype("uint32"), 2: np.dtype("uint16")}


def parse_scalar(text: str, dtype: np.dtype) -> Any:
    """The scalar of *dtype* that *text* spells, of which ``print_scalar`` has made it."""
    if dtype.kind == "b":
        return dtype.type({"True": True, "False": False}[text])
    if dtype.kind not in FLOAT_KINDS:
        return dtype.type(int(text))
    if text.startswith("nan("):
        return np.array(int(text[4:-1], 16), _BITS[dtype.itemsize]).view(dtype)[()]
    return dtype.type(float.fromhex(text) if "0x" in text else float(text))


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
            return _DTYPES[self.peek()]
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
