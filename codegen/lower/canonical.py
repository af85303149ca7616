"""From a recorded graph to its canonical form: the program without its numbers.

Three data structures: a ``Sym`` is a value with a dtype and symbolic dims; an ``CanonicalOp`` applies a primitive; a
``Canonical`` is the program, the ``key`` that names its kernel, and the numbers that were lifted out of it (sizes,
constants).

A *dim* is an index into a table of sizes.  Two axes share a dim where the operations force them to be equal
(``equal_axes.py``), never because two numbers happen to coincide: batch 10 and 10 features stay apart, so a new batch
size finds the same kernel.  Dim 0 is the size 1.  Small sizes of inner axes are static: they are part of the key, and
loops over them are unrolled.  Code generation sees only ``Canonical``, so nothing about a particular run can leak into
a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ...tracer.ir.axes import Axes
from ...tracer.ir.check import check_graph
from ...tracer.ir.graph import Graph, Lit, Node, Var
from ...tracer.ir.primitive import ELEMENTWISE, LOOP, Primitive
from ...tracer.ir.settings import checks
from ...tracer.ir.site import Site
from ...tracer.ops.control import split_body
from ...tracer.ops.elementwise import infer_predicate, infer_same
from .equal_axes import EqualAxes, Place, is_edge_pad, size_of

STATIC_LIMIT = 16  # inner sizes up to this are part of the key
SMALL_START = 8  # slice starts up to this are part of the key

Dim: TypeAlias = int
ONE: Dim = 0


class Sym:
    """A value of the canonical program."""

    __slots__ = ("dims", "dtype", "number")

    def __init__(self, number: int, dtype: np.dtype, dims: tuple[Dim, ...]):
        self.number, self.dtype, self.dims = number, dtype, dims

    def __repr__(self) -> str:
        return f"v{self.number}"

    @property
    def wide(self) -> bool:
        """Whether it may have more than one element."""
        return any(d != ONE for d in self.dims)


class Const:
    """A scalar constant: ``value`` where it is structural, else ``slot``, its place among the run-time constants."""

    __slots__ = ("dtype", "slot", "value")
    dims: tuple[Dim, ...] = ()

    def __init__(self, dtype: np.dtype, value: Any, slot: int | None):
        self.dtype, self.value, self.slot = dtype, value, slot

    def __repr__(self) -> str:
        return f"c{self.slot}" if self.slot is not None else repr(self.value)


Operand: TypeAlias = Sym | Const


@dataclass(slots=True, eq=False)
class CanonicalOp:
    """``out = prim(*ins, **params)``; sizes among the params are dims, starts are ints (small) or ``("s", dim)``."""

    prim: Primitive
    ins: tuple[Operand, ...]
    params: dict[str, Any]
    out: Sym
    site: Site | None
    more: tuple[Sym, ...] = ()  # a loop may have several results, and a call of Python's

    @property
    def outs(self) -> tuple[Sym, ...]:
        return (self.out, *self.more)

    @property
    def axes(self) -> Axes:
        """The correspondence of operand axes to axes of ``out``, independent of sizes."""
        lengths = [[1 if d == ONE else -d for d in x.dims] for x in (*self.ins, self.out)]
        return self.prim.axes(lengths[:-1], lengths[-1], self.params)


@dataclass(slots=True, eq=False)
class Body:
    """The body of a loop.  Its sizes and constants follow those of the program around it, from these places on."""

    program: Canonical
    sizes_at: int
    consts_at: int
    graph: Graph  # this run's, for the interpreter


@dataclass(slots=True)
class Canonical:
    inputs: list[Sym]  # the graph's inputs, then its const arrays
    ops: list[CanonicalOp]
    outputs: list[Operand]  # results, then one bool per guard
    results: int  # how many of the outputs are results
    static: dict[Dim, int]  # dims whose size is part of the program
    key: tuple
    sizes: np.ndarray  # this run's sizes, by dim
    consts: np.ndarray  # this run's constants, 8 bytes each
    producers: dict[Sym, CanonicalOp] = field(default_factory=dict)


def _body_of(node: Node) -> Canonical:
    """The canonical body of a loop; the condition of one that stops is computed first, so that it can exit there."""
    body = node.params["body"]
    if not node.params.get("stops"):
        return canonicalise(body, body=True)
    asking, working = split_body(body)
    return canonicalise(Graph(body.inputs, [*asking, *working], body.outputs), body=True, first=True)


def canonicalise(graph: Graph, *, body: bool = False, first: bool = False) -> Canonical:
    """The canonical form of *graph*.  Graphs that differ only in numbers get equal keys.

    In the *body* of a loop small sizes of all axes are static: what is small and carried is kept in registers.
    *first*: whatever the first output does not depend on is ordered after it.
    """
    if checks.every_graph and not body:
        check_graph(graph, weak=False)
    making = _Making(graph, body)
    for node in graph.nodes:
        ins = tuple([making.operand(x) for x in node.inputs])
        making.ops.append((making.loop if node.prim.kind == LOOP else making.op)(node, ins))
    for atom in graph.outputs:
        making.output(atom, first)
    results = len(making.outputs)
    for guard in graph.guards:
        making.guard(guard)
    return making.canonical(results)


class _Making:
    """A canonical form that is being made, as its signature is (``tokens``)."""

    def __init__(self, graph: Graph, body: bool) -> None:
        self.bodies = {node: _body_of(node) for node in graph.nodes if node.prim.kind == LOOP}
        dims = {n: ([x.dims for x in b.inputs], [x.dims for x in b.outputs]) for n, b in self.bodies.items()}
        self.axes = EqualAxes(graph, dims)
        self._inner: set[Any] = set()  # axes whose small sizes are static
        for places in self.axes.places.values():
            for place in places if body else places[1:]:
                if 2 <= size_of(place) <= STATIC_LIMIT:
                    self._inner.add(self.axes.find(place))
        self.sizes: list[int] = [1]
        self.static: dict[Dim, int] = {ONE: 1}
        self.consts: list[bytes] = []
        self.ops: list[CanonicalOp] = []
        self.outputs: list[Operand] = []
        self._dims: dict[Any, Dim] = {}
        self._starts: dict[int, Dim] = {}
        self._numbers: dict[Var, Sym] = {}
        self.inputs = [self.define(v) for v in (*graph.inputs, *[v for v, _ in graph.consts])]
        self._taken: set[Operand] = set(self.inputs)
        self.tokens: list[Any] = [tuple([(s.dtype.char, s.dims) for s in self.inputs])]

    def dim(self, place: Place) -> Dim:
        size = size_of(place)
        if size == 1:
            return ONE
        root = self.axes.find(place)
        found = self._dims.get(root)
        if found is None:
            found = self._dims[root] = len(self.sizes)
            self.sizes.append(size)
            if root in self._inner:
                self.static[found] = size
        return found

    def define(self, var: Var) -> Sym:
        sym = Sym(len(self._numbers), var.aval.dtype, tuple([self.dim(p) for p in self.axes.places[var]]))
        self._numbers[var] = sym
        return sym

    def operand(self, atom: Any) -> Operand:
        if isinstance(atom, Var):
            return self._numbers[atom]
        if atom.structural:
            return Const(atom.aval.dtype, atom.value, None)
        self.consts.append(np.asarray(atom.value).tobytes().ljust(8, b"\0"))
        return Const(atom.aval.dtype, None, len(self.consts) - 1)

    def start_of(self, value: int) -> Any:
        if -SMALL_START <= value <= SMALL_START:
            return value
        if value not in self._starts:
            self._starts[value] = len(self.sizes)
            self.sizes.append(value)
        return ("s", self._starts[value])

    def loop(self, node: Node, ins: tuple[Operand, ...]) -> CanonicalOp:
        part = self.bodies[node]
        place = Body(part, len(self.sizes), len(self.consts), node.params["body"])
        self.sizes.extend(int(n) for n in part.sizes)
        self.consts.extend(part.consts[k : k + 1].tobytes() for k in range(len(part.consts)))
        outs = tuple([self.define(v) for v in node.outs])
        rest = {name: node.params.get(name, False) for name in ("consts", "carries", "reverse", "counted", "stops")}
        length = self.dim(self.axes.lengths[node])
        shown = (part.key, place.sizes_at, place.consts_at, length, *rest.values())
        self.tokens.append((node.prim.name, tuple(map(_token, ins)), shown, tuple([s.dims for s in outs])))
        return CanonicalOp(node.prim, ins, {"body": place, "length": length, **rest}, outs[0], node.site, outs[1:])

    def op(self, node: Node, ins: tuple[Operand, ...]) -> CanonicalOp:
        outs = tuple([self.define(v) for v in node.outs])
        params = {}
        for name, value in node.params.items():
            if name in ("shape", "size", "count"):
                continue  # the dims of the result say it
            params[name] = tuple([self.start_of(v) for v in value]) if name == "start" else value
        if node.prim.name in ("pad", "update"):
            placed = node.inputs[0 if node.prim.name == "pad" else 1].aval.shape
            params["edge"] = is_edge_pad(placed, node.out.aval.shape)
        elif node.prim.name == "concat":
            parts = [(x.aval.size, is_edge_pad(x.aval.shape, node.out.aval.shape)) for x in node.inputs]
            params["edge"] = tuple([k for k, (n, most) in enumerate(parts) if most and 2 * n > node.out.aval.size])
        shown = tuple([str(v) if isinstance(v, np.dtype) else v for v in params.values()])
        made = [(s.dtype.char, s.dims) for s in outs]
        self.tokens.append((node.prim.name, tuple(map(_token, ins)), shown, *made))
        return CanonicalOp(node.prim, ins, params, outs[0], node.site, outs[1:])

    def output(self, atom: Any, first: bool) -> None:
        x = self.operand(atom)
        self.tokens.append(("out", _token(x)))
        if isinstance(x, Const) or x in self._taken:  # each result has a buffer of its own
            copy = self._further(x.dtype, x.dims)
            at = 0 if first and not self.outputs else len(self.ops)
            self.ops.insert(at, CanonicalOp(COPY, (x,), {}, copy, None))
            x = copy
        self._taken.add(x)
        self.outputs.append(x)

    def guard(self, guard: Any) -> None:
        op = _guard_op(guard, self.operand, self._further(np.dtype(bool), ()))
        self.ops.append(op)
        self.outputs.append(op.out)
        self.tokens.append(("guard", _token(op.ins[0]), _token(op.ins[1])))

    def _further(self, dtype: np.dtype, dims: tuple[Dim, ...]) -> Sym:
        """A value that the graph has not."""
        return Sym(len(self._numbers) + len(self.ops), dtype, dims)

    def canonical(self, results: int) -> Canonical:
        key = (*self.tokens, tuple(sorted(self.static.items())))
        consts = np.frombuffer(b"".join(self.consts), np.int64).copy()
        sizes = np.array(self.sizes, np.int64)
        producers = {out: op for op in self.ops for out in op.outs}
        return Canonical(
            self.inputs, self.ops, self.outputs, results, self.static, key, sizes, consts, producers
        )  # fmt: skip


def _token(x: Operand) -> Any:
    if isinstance(x, Sym):
        return x.number
    return ("c", x.dtype.char) if x.slot is not None else ("k", x.dtype.char, np.asarray(x.value).tobytes())


def _guard_op(guard: Any, operand: Any, out: Sym) -> CanonicalOp:
    """``atom has the bits of expected``, as an op of its own kind."""
    dtype = guard.atom.aval.dtype
    expected = Lit(guard.expected, dtype, structural=dtype.kind == "b")
    return CanonicalOp(SAME_BITS, (operand(guard.atom), operand(expected)), {}, out, guard.site)


# pseudo-primitives: a guard's equality of bit patterns (nan is equal to nan, and 0.0 is not -0.0), and a result that is
# an input, a constant or another result
SAME_BITS = Primitive(
    "same_bits", ELEMENTWISE, lambda x, y: np.asarray(x).tobytes() == np.asarray(y).tobytes(), infer_predicate,
    lower=lambda s, x, y: s.same_bits(x, y),
)  # fmt: skip
COPY = Primitive("copy", ELEMENTWISE, np.array, infer_same, lower=lambda s, x: x, cost=0)
