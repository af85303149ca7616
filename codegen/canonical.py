"""From a recorded graph to its canonical form: the program without its numbers.

Three data structures: a ``Sym`` is a value with a dtype and symbolic dims; an ``Op`` applies a primitive; a
``Canonical`` is the program, the ``key`` that names its kernel, and the numbers that were lifted out of it (sizes,
constants).

A *dim* is an index into a table of sizes.  Two axes share a dim where the operations force them to be equal, never
because two numbers happen to coincide: batch 10 and 10 features stay apart, so a new batch size finds the same
kernel.  Dim 0 is the size 1.  Small sizes of inner axes are static: they are part of the key, and loops over them are
unrolled.  Code generation sees only ``Canonical``, so nothing about a particular run can leak into a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ..tracer.aval import INT, Aval
from ..tracer.ir import Graph, Lit, Node, Var
from ..tracer.ops.control import loop_view, split_body
from ..tracer.primitive import ELEMENTWISE, LOOP, REDUCE
from ..tracer.site import Site

STATIC_LIMIT = 16  # inner sizes up to this are part of the key
MAX_EDGE = 8  # elements of padding along an axis up to which they are an edge, done one by one
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
class Op:
    """``out = prim(*ins, **params)``; sizes among the params are dims, starts are ints (small) or ``("s", dim)``."""

    prim: Any
    ins: tuple[Operand, ...]
    params: dict[str, Any]
    out: Sym
    site: Site | None
    more: tuple[Sym, ...] = ()  # a loop has several results

    @property
    def outs(self) -> tuple[Sym, ...]:
        return (self.out, *self.more)


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
    ops: list[Op]
    outputs: list[Operand]  # results, then one bool per guard
    results: int  # how many of the outputs are results
    static: dict[Dim, int]  # dims whose size is part of the program
    key: tuple
    sizes: np.ndarray  # this run's sizes, by dim
    consts: np.ndarray  # this run's constants, 8 bytes each
    producers: dict[Sym, Op] = field(default_factory=dict)


def is_edge_pad(inner: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    """Is what surrounds *inner* in *outer* only a few elements along each axis?"""
    return all(n - m <= MAX_EDGE for n, m in zip(outer, inner, strict=True))


class _Union:
    """Union-find over (var, axis) positions."""

    def __init__(self) -> None:
        self.parent: dict[Any, Any] = {}

    def find(self, x: Any) -> Any:
        parent = self.parent
        root = x
        while parent.setdefault(root, root) is not root:
            root = parent[root]
        while parent[x] is not root:
            parent[x], x = root, parent[x]
        return root

    def join(self, a: Any, b: Any) -> None:
        a, b = self.find(a), self.find(b)
        if a is not b:
            self.parent[b] = a


def _positions(graph: Graph) -> dict[Var, list[tuple[Var, int]]]:
    every = [*graph.inputs, *(v for v, _ in graph.consts), *(o for n in graph.nodes for o in n.outs)]
    return {v: [(v, a) for a in range(len(v.aval.shape))] for v in every}


def _tie_loop(node: Node, body: Canonical, length: Var, pos: dict[Var, list[tuple[Var, int]]], union: _Union) -> None:
    """Join the axes that the body forces to be equal, and the numbers of rows."""
    view = loop_view(node)
    same: dict[Dim, tuple[Var, int]] = {}

    def tie(x: Any, dims: tuple[Dim, ...], rows: bool) -> None:
        if not isinstance(x, Var):
            return
        places = pos[x]
        if rows:
            union.join(places[0], (length, 0))
            places = places[1:]
        for place, d in zip(places, dims, strict=True):
            if d != ONE:
                union.join(place, same.setdefault(d, place))

    operands = [*view.outer.consts, *view.outer.carries, *view.outer.xs]
    for k, (x, sym) in enumerate(zip(operands, body.inputs, strict=True)):
        tie(x, sym.dims, k >= len(operands) - len(view.outer.xs))
    values = body.outputs[view.go_on is not None :]
    for k, (x, value) in enumerate(zip([*view.finals, *view.stacked], values, strict=True)):
        tie(x, value.dims, k >= len(view.finals))


def _tie_node(node: Node, pos: dict[Var, list[tuple[Var, int]]], union: _Union) -> None:
    """Join the axes that *node* forces to be equal."""
    out = pos[node.out]
    shape = node.out.aval.shape

    def tie(x: Any, pairs: Any) -> None:
        if isinstance(x, Var):
            for a, b in pairs:
                if x.aval.shape[a] == shape[b]:
                    union.join(pos[x][a], out[b])

    name, ins, params = node.prim.name, node.inputs, node.params
    ranks = [len(x.aval.shape) for x in ins]
    if node.prim.kind == ELEMENTWISE or name in ("linrec", "argsort"):
        for x, rank in zip(ins, ranks, strict=True):
            tie(x, zip(range(rank), range(len(shape)), strict=True) if rank else ())
    elif node.prim.kind == REDUCE:
        kept = [a for a in range(ranks[0]) if a not in params["axes"]]
        tie(ins[0], zip(kept, range(len(kept)), strict=True))
    elif name == "broadcast":
        tie(ins[0], enumerate(params["dims"]))
    elif name == "transpose":
        tie(ins[0], ((p, k) for k, p in enumerate(params["perm"])))
    elif name == "reshape":
        tie(ins[0], _reshape_pairs(ins[0].aval.shape, shape))
    elif name in ("slice", "pad"):
        whole = [a for a in range(ranks[0]) if params["start"][a] == 0 and params["step"][a] == 1]
        tie(ins[0], zip(whole, whole, strict=True))
    elif name == "update":
        tie(ins[0], zip(range(ranks[0]), range(ranks[0]), strict=True))
        whole = [a for a in range(ranks[0]) if params["start"][a] == 0 and params["step"][a] == 1]
        tie(ins[1], zip(whole, whole, strict=True))
    elif name == "concat":
        others = [a for a in range(len(shape)) if a != params["axis"]]
        for x in ins:
            tie(x, zip(others, others, strict=True))
    elif name == "gather":
        tie(ins[1], zip(range(ranks[1]), range(ranks[1]), strict=True))
        tie(ins[0], ((a, ranks[1] + a - 1) for a in range(1, ranks[0])))
    elif name in ("scatter", "scatter_add"):
        tie(ins[0], zip(range(ranks[0]), range(ranks[0]), strict=True))
        tie(ins[2], ((ranks[1] + a - 1, a) for a in range(1, ranks[0])))
        if isinstance(ins[1], Var) and isinstance(ins[2], Var):
            for a in range(ranks[1]):
                union.join(pos[ins[1]][a], pos[ins[2]][a])
    elif name == "searchsorted":
        tie(ins[1], zip(range(ranks[1]), range(ranks[1]), strict=True))
    elif name == "matmul":
        batch = len(shape) - 2
        for x in ins:
            tie(x, zip(range(batch), range(batch), strict=True))
        rows, inner = (-1, -2) if params["ta"] else (-2, -1)
        inner2, columns = (-1, -2) if params["tb"] else (-2, -1)
        tie(ins[0], [(rows % ranks[0], batch)])
        tie(ins[1], [(columns % ranks[1], batch + 1)])
        if isinstance(ins[0], Var) and isinstance(ins[1], Var):
            union.join(pos[ins[0]][inner % ranks[0]], pos[ins[1]][inner2 % ranks[1]])


def _tie_edges(graph: Graph, pos: dict[Var, list[tuple[Var, int]]], union: _Union) -> None:
    """Join axes that are equal ones with equally many elements of padding at their edges: a stencil's value and its
    gradient then share a loop (``simplify.widen_sums``)."""
    known: dict[Any, tuple[Var, int]] = {}
    for node in graph.nodes:
        x = node.inputs[0] if node.prim.name == "pad" else None
        if not isinstance(x, Var) or not is_edge_pad(x.aval.shape, node.out.aval.shape):
            continue
        for a, (n, m) in enumerate(zip(x.aval.shape, node.out.aval.shape, strict=True)):
            if n != m and n != 1:
                place = pos[node.out][a]
                union.join(place, known.setdefault((union.find(pos[x][a]), m - n), place))


def _reshape_pairs(before: tuple[int, ...], after: tuple[int, ...]) -> list[tuple[int, int]]:
    """Axes that a reshape leaves alone: equal sizes met from the front, then from the back, sizes of 1 skipped."""
    front, back = _walk(before, after), []
    if len(front) < sum(n != 1 for n in before):
        flipped = _walk(before[::-1], after[::-1])
        back = [(len(before) - 1 - a, len(after) - 1 - b) for a, b in flipped]
        used_a, used_b = {a for a, _ in front}, {b for _, b in front}
        back = [(a, b) for a, b in back if a not in used_a and b not in used_b]
    return front + back


def _walk(before: tuple[int, ...], after: tuple[int, ...]) -> list[tuple[int, int]]:
    a = b = 0
    pairs: list[tuple[int, int]] = []
    while True:
        while a < len(before) and before[a] == 1:
            a += 1
        while b < len(after) and after[b] == 1:
            b += 1
        if a >= len(before) or b >= len(after) or before[a] != after[b]:
            return pairs
        pairs.append((a, b))
        a, b = a + 1, b + 1


def _body_of(node: Node) -> Canonical:
    """The canonical body of a loop; of one that stops, with what it asks in front, so that it can end there."""
    body = node.params["body"]
    if not node.params.get("stops"):
        return canonicalise(body, body=True)
    asking, working = split_body(body)
    return canonicalise(Graph(body.inputs, [*asking, *working], body.outputs), body=True, first=True)


def canonicalise(graph: Graph, *, body: bool = False, first: bool = False) -> Canonical:
    """The canonical form of *graph*.  Graphs that differ only in numbers get equal keys.

    In the *body* of a loop small sizes of all axes are static: what is small and carried is kept in registers.
    *first*: the first output is there before anything is done that it does not depend on.
    """
    pos = _positions(graph)
    union = _Union()
    bodies: dict[Node, Canonical] = {}
    lengths: dict[Node, Var] = {}
    for node in graph.nodes:
        if node.prim.kind == LOOP:
            bodies[node] = _body_of(node)
            length = lengths[node] = Var(Aval(INT, (node.params["length"],)))
            pos[length] = [(length, 0)]
            _tie_loop(node, bodies[node], length, pos, union)
        else:
            _tie_node(node, pos, union)
    _tie_edges(graph, pos, union)

    inner: set[Any] = set()
    for var, places in pos.items():
        for place in places if body else places[1:]:
            if 2 <= var.aval.shape[place[1]] <= STATIC_LIMIT:
                inner.add(union.find(place))

    sizes: list[int] = [1]
    static: dict[Dim, int] = {ONE: 1}
    table: dict[Any, Dim] = {}
    starts: dict[int, Dim] = {}
    tokens: list[Any] = []

    def dim(place: tuple[Var, int]) -> Dim:
        size = place[0].aval.shape[place[1]]
        if size == 1:
            return ONE
        root = union.find(place)
        found = table.get(root)
        if found is None:
            found = table[root] = len(sizes)
            sizes.append(size)
            if root in inner:
                static[found] = size
        return found

    numbers: dict[Var, Sym] = {}

    def define(var: Var) -> Sym:
        sym = Sym(len(numbers), var.aval.dtype, tuple(dim(p) for p in pos[var]))
        numbers[var] = sym
        return sym

    consts: list[bytes] = []

    def operand(atom: Any) -> Operand:
        if isinstance(atom, Var):
            return numbers[atom]
        if atom.structural:
            return Const(atom.aval.dtype, atom.value, None)
        consts.append(np.asarray(atom.value).tobytes().ljust(8, b"\0"))
        return Const(atom.aval.dtype, None, len(consts) - 1)

    def token(x: Operand) -> Any:
        if isinstance(x, Sym):
            return x.number
        return ("c", x.dtype.char) if x.slot is not None else ("k", x.dtype.char, np.asarray(x.value).tobytes())

    def start_of(value: int) -> Any:
        if -SMALL_START <= value <= SMALL_START:
            return value
        if value not in starts:
            starts[value] = len(sizes)
            sizes.append(value)
        return ("s", starts[value])

    inputs = [define(v) for v in graph.inputs] + [define(v) for v, _ in graph.consts]
    tokens.append(tuple((s.dtype.char, s.dims) for s in inputs))

    def loop_op(node: Node, ins: tuple[Operand, ...]) -> Op:
        part = bodies[node]
        place = Body(part, len(sizes), len(consts), node.params["body"])
        sizes.extend(int(n) for n in part.sizes)
        consts.extend(part.consts[k : k + 1].tobytes() for k in range(len(part.consts)))
        outs = tuple(define(v) for v in node.outs)
        rest = {name: node.params.get(name, False) for name in ("consts", "carries", "reverse", "counted", "stops")}
        length = dim((lengths[node], 0))
        shown = (part.key, place.sizes_at, place.consts_at, length, *rest.values())
        tokens.append((node.prim.name, tuple(token(x) for x in ins), shown, tuple(s.dims for s in outs)))
        return Op(node.prim, ins, {"body": place, "length": length, **rest}, outs[0], node.site, outs[1:])

    ops = []
    for node in graph.nodes:
        ins = tuple(operand(a) for a in node.inputs)
        if node.prim.kind == LOOP:
            ops.append(loop_op(node, ins))
            continue
        out = define(node.out)
        params = {}
        for name, value in node.params.items():
            if name in ("shape", "size", "count"):
                continue  # the dims of the result say it
            params[name] = tuple(start_of(v) for v in value) if name == "start" else value
        if node.prim.name in ("pad", "update"):
            placed = node.inputs[0 if node.prim.name == "pad" else 1].aval.shape
            params["edge"] = is_edge_pad(placed, node.out.aval.shape)
        ops.append(Op(node.prim, ins, params, out, node.site))
        shown = tuple(str(v) if isinstance(v, np.dtype) else v for v in params.values())
        tokens.append((node.prim.name, tuple(token(x) for x in ins), shown, out.dtype.char, out.dims))
    outputs: list[Operand] = []
    for atom in graph.outputs:
        x = operand(atom)
        tokens.append(("out", token(x)))
        if isinstance(x, Const) or x in outputs or x in inputs:  # each result has a buffer of its own
            copy = Sym(len(numbers) + len(ops), x.dtype, x.dims)
            ops.insert(0 if first and not outputs else len(ops), Op(COPY, (x,), {}, copy, None))
            x = copy
        outputs.append(x)
    results = len(outputs)
    for guard in graph.guards:
        ops.append(_guard_op(guard, operand, define_bool := Sym(len(numbers) + len(ops), np.dtype(bool), ())))
        outputs.append(define_bool)
        tokens.append(("guard", token(ops[-1].ins[0]), token(ops[-1].ins[1])))
    tokens.append(tuple(sorted(static.items())))
    canonical = Canonical(
        inputs,
        ops,
        outputs,
        results,
        static,
        tuple(tokens),
        np.array(sizes, np.int64),
        np.frombuffer(b"".join(consts), np.int64).copy(),
    )
    canonical.producers = {out: op for op in ops for out in op.outs}
    return canonical


def _guard_op(guard: Any, operand: Any, out: Sym) -> Op:
    """``atom has the bits of expected``, as an op of its own kind."""
    dtype = guard.atom.aval.dtype
    expected = Lit(guard.expected, dtype, structural=dtype.kind == "b")
    return Op(SAME_BITS, (operand(guard.atom), operand(expected)), {}, out, guard.site)


class _SameBits:
    """Pseudo-primitive of guards: equality of bit patterns, so that nan is equal to nan and 0.0 is not -0.0."""

    name = "same_bits"
    kind = ELEMENTWISE
    cost = 1

    @staticmethod
    def impl(x: Any, y: Any) -> Any:
        return np.asarray(x).tobytes() == np.asarray(y).tobytes()

    @staticmethod
    def lower(s: Any, x: Any, y: Any) -> Any:
        return s.same_bits(x, y)


class _Copy:
    """Pseudo-primitive: a result that is an input, a constant or another result."""

    name = "copy"
    kind = ELEMENTWISE
    cost = 0

    @staticmethod
    def impl(x: Any) -> Any:
        return np.array(x)

    @staticmethod
    def lower(s: Any, x: Any) -> Any:
        return x


SAME_BITS = _SameBits()
COPY = _Copy()
