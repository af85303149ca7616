"""The intermediate representation: a flat, typed program in static single assignment.

Four data structures: a ``Var`` is a value with an aval; a ``Lit`` is a scalar constant; a ``Node`` applies a
primitive to atoms (Vars or Lits) and defines Vars; a ``Graph`` is inputs, nodes in execution order, outputs.
A ``Builder`` grows a graph.  Start reading at ``Graph``.

Rules (derivatives, NumPy functions) are written as ordinary expressions: ``Var`` has arithmetic operators that
append to the builder in force (``with building(builder):``), as in ``-x * sin(y)``.  Python numbers in them are
structural; a size or a number of the user's is data and has to be a ``Lit`` of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from .aval import COMPLEX, FLOAT, Aval, held_dtype, scalar_aval
from .axes import Axes
from .errors import GraphError
from .interrupts import kept
from .primitive import Primitive
from .refusals import Reason
from .site import Site


class Operators:
    """Arithmetic operators that append nodes.  Operands are promoted and broadcast as in NumPy."""

    __slots__ = ()
    aval: Aval

    def __add__(self, other: Any) -> Any:
        return _apply("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _apply("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _apply("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _apply("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _apply("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _apply("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _apply("div", other, self)

    def __neg__(self) -> Any:
        return _apply("neg", self)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)


class Var(Operators):
    """A value: the result of a node, or an input of a graph.  Identity is its name."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var({self.aval})"


class Pair(Var):
    """A complex value while a function is recorded: two atoms, its real and its imaginary *lane*.

    No node has complex operands or results: an operation on one is taken apart into operations on lanes when it is
    emitted (``ops/complex.py``).  A lane that is a literal stands for an array of it; the other one has the shape."""

    __slots__ = ("im", "re")

    def __init__(self, re: Atom, im: Atom, dtype: np.dtype):
        super().__init__(Aval(dtype, re.aval.shape or im.aval.shape, re.aval.weak and im.aval.weak))
        self.re, self.im = re, im
        pairs_exist.add(True)


class Lit(Operators):
    """A scalar constant.

    ``structural`` literals belong to the program (the 1 that seeds an adjoint); the others are data, and become
    run-time arguments of the kernel, so that a new learning rate finds the same kernel.  The *value* of a literal of
    half precision is a float32 and is not rounded to half: ``x + 1e-8`` adds 1e-8.
    """

    __slots__ = ("aval", "structural", "value")

    def __init__(self, value: Any, dtype: np.dtype, *, weak: bool = False, structural: bool = False):
        self.value = held_dtype(dtype).type(value)
        self.aval = scalar_aval(dtype, weak)
        self.structural = structural
        if dtype.kind == "c":
            pairs_exist.add(True)

    def is_structural(self, value: float) -> bool:
        return self.structural and bool(self.value == value) and not (value == 0 and np.signbit(self.value))

    def __repr__(self) -> str:
        return f"Lit({self.value}: {self.aval})"


Atom: TypeAlias = Var | Lit

pairs_exist: set[bool] = (
    set()
)  # not empty once there has been a complex value, for which alone operations are taken apart
take_apart: list[Any] = []  # (primitive, operands, params) -> the results of an operation on complex values


def any_complex(inputs: Sequence[Atom]) -> bool:
    for x in inputs:  # noqa: SIM110 (a recording asks for each of its operations)
        if x.aval.dtype.kind == "c":
            return True
    return False


def lanes(x: Atom) -> tuple[Atom, Atom]:
    """The real and the imaginary lane of the complex *x*; that of a constant which is zero belongs to the program."""
    if isinstance(x, Pair):
        return x.re, x.im
    assert isinstance(x, Lit)
    dtype, weak = COMPLEX[x.aval.dtype], x.aval.weak
    re, im = (
        Lit(part, dtype, weak=weak, structural=x.structural or bool(part == 0)) for part in (x.value.real, x.value.imag)
    )
    return re, im


def reals(x: Atom) -> tuple[Atom, ...]:
    """The values that programs have for *x*: itself, or the lanes of a complex one."""
    return lanes(x) if x.aval.is_complex else (x,)


def of_reals(x: Atom, found: Sequence[Atom]) -> Any:
    """The value for which programs have those *found*, as they have ``reals`` of *x*."""
    return Pair(found[0], found[1], x.aval.dtype) if x.aval.is_complex else found[0]


class Node:
    """``outs = primitive(*inputs, **params)``; ``site`` is the user's line."""

    __slots__ = ("inputs", "outs", "params", "prim", "site")

    def __init__(
        self,
        prim: Primitive,
        inputs: tuple[Atom, ...],
        params: dict[str, Any],
        outs: tuple[Var, ...],
        site: Site | None,
    ):
        self.prim = prim
        self.inputs = inputs
        self.params = params
        self.outs = outs
        self.site = site

    @property
    def out(self) -> Var:
        return self.outs[0]

    @property
    def axes(self) -> Axes:
        """The correspondence of operand axes to axes of ``out``."""
        return self.prim.axes([x.aval.shape for x in self.inputs], self.outs[0].aval.shape, self.params)

    def on(self, inputs: tuple[Atom, ...]) -> Node:
        """The same node of these *inputs*: itself, where they are its own."""
        return self if inputs == self.inputs else Node(self.prim, inputs, self.params, self.outs, self.site)

    def __repr__(self) -> str:
        return f"Node({self.prim.name}, {self.out.aval})"


@dataclass(slots=True)
class Guard:
    """A fact that Python's control flow relied on: *atom* (0-d) had the value *expected* at *site*, when *position*
    nodes had been recorded.  ``said``: what it means that it holds, and that it does not, where Python was not told
    *expected*.  ``answers``: of one that asks whether questions have the same answers in each iteration, those."""

    atom: Atom
    expected: Any
    kind: str
    site: Site | None
    position: int = field(default=0, compare=False)
    said: tuple[str, str] | None = field(default=None, compare=False)
    answers: bytes = field(default=b"", compare=False)

    @property
    def answer(self) -> bytes:
        """The answer that Python was given, or those of all questions that this stands for."""
        return np.asarray(self.expected).tobytes() + self.answers


def told_value(kind: str, value: Any) -> Any:
    """The plain value that Python was told where it asked by a question of this *kind*."""
    value = value.tolist() if hasattr(value, "tolist") else value
    asked = {"bool": bool, "int": int, "index": int}.get(kind)
    return value if asked is None or value - value != 0 else asked(value)  # (no int is infinite)


def answered(kind: str, value: Any, every: str) -> tuple[str, str]:
    """The words for a guard on the answers to one question in *every* turn, or row, all of which were *value*."""
    value = told_value(kind, value)
    return f"{kind}() gave {value} in each {every}", f"{kind}() gave another value than {value} in some {every}"


@dataclass(slots=True, eq=False)
class Graph:
    """A program.  ``consts`` are inputs whose arrays travel with the graph (arrays made by the user's Python)."""

    inputs: list[Var]
    nodes: list[Node]
    outputs: list[Atom]
    guards: list[Guard] = field(default_factory=list)
    consts: list[tuple[Var, np.ndarray]] = field(default_factory=list)


class Builder:
    """Appends nodes; equal nodes are appended once (hash-consing), so common subexpressions never exist."""

    site_override: Site | None = None  # the line of new nodes; a recording has Python's current one where there is none

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.notes: list[str | Reason] = []  # decisions about these nodes, for explain()
        self._seen: dict[tuple, Node] = {}

    def site(self) -> Site | None:
        return self.site_override

    def emit(self, prim: Primitive, inputs: tuple[Atom, ...], params: dict[str, Any]) -> tuple[Var, ...]:
        """The results of a node that applies *prim*."""
        if pairs_exist and any_complex(inputs):
            return self.emit_apart(prim, inputs, params)
        return self.node(prim, inputs, params).outs

    def emit_apart(self, prim: Primitive, inputs: tuple[Atom, ...], params: dict[str, Any]) -> tuple[Var, ...]:
        """The results of *prim* of complex values, by nodes of their lanes."""
        with building(self):
            return take_apart[0](prim, inputs, params)

    def node(self, prim: Primitive, inputs: tuple[Atom, ...], params: dict[str, Any]) -> Node:
        """A node that applies *prim*: an equal one, or a new one."""
        key = (prim, tuple([identity(a) for a in inputs]), tuple(params.values()))
        found = self._seen.get(key)
        if found is not None:
            return found
        avals = prim.infer(*[a.aval for a in inputs], **params)
        outs = tuple([Var(a) for a in avals]) if isinstance(avals, tuple) else (Var(avals),)
        node = self._seen[key] = Node(prim, inputs, params, outs, self.site())
        self.nodes.append(node)
        return node

    def append(self, node: Node) -> None:
        """Append a node that was made elsewhere, without hash-consing."""
        self.nodes.append(node)
        self.claim(node.outs)

    def claim(self, values: Sequence[Var]) -> None:
        """Take *values* as results of nodes of this builder, though it did not make them."""

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Append *nodes* that were made elsewhere, with hash-consing of later equal ones."""
        for node in nodes:
            self.nodes.append(node)
            self.know(node)

    def know(self, node: Node) -> None:
        """Enter *node*, which is not appended, as the one to use where an equal one is emitted."""
        self._seen.setdefault(self.key(node), node)

    def key(self, node: Node) -> tuple[Any, ...]:
        """The hash-consing key of *node*."""
        return (node.prim, tuple([identity(a) for a in node.inputs]), tuple(node.params.values()))


def identity(atom: Atom) -> Any:
    """The hash-consing key of an operand: by value for structural constants, else the atom itself."""
    if type(atom) is Lit and atom.structural:
        return (atom.value.tobytes(), atom.aval)
    return atom


def by_value(atom: Atom) -> Any:
    """The key of an operand by value for all constants, data too."""
    return (atom.aval.dtype, atom.value.tobytes(), atom.structural) if isinstance(atom, Lit) else atom


def strong(atom: Atom) -> Atom:
    """*atom*; a constant with a dtype of its own."""
    return Lit(atom.value, atom.aval.dtype, structural=atom.structural) if isinstance(atom, Lit) else atom


_ambient = threading.local()


@contextmanager
def building(builder: Builder) -> Iterator[Builder]:
    """Make *builder* the one that operators and ``bind`` append to, in this thread."""
    previous = getattr(_ambient, "builder", None)
    _ambient.builder = builder
    try:
        yield builder
    finally:
        _ambient.builder = previous


kept(lambda: getattr(_ambient, "builder", None), lambda before: setattr(_ambient, "builder", before))


def current_builder() -> Builder:
    builder = getattr(_ambient, "builder", None)
    if builder is None:
        raise GraphError("no builder in force: use `with building(Builder()):`")
    return builder


def bind(prim: Primitive, *inputs: Atom, **params: Any) -> Var:
    """Append one node of a single-output primitive and return its result."""
    return current_builder().emit(prim, inputs, params)[0]


def _apply(name: str, x: Any, *others: Any) -> Any:
    """The result of operator *name*.  A Python number in such an expression is structural, as the 1 in ``1 / x``."""
    return elementwise_by_name[name](_of_program(x), *[_of_program(y) for y in others])


def _of_program(x: Any) -> Any:
    if type(x) is int or type(x) is float:
        return Lit(x, FLOAT if type(x) is float else _INT, weak=True, structural=True)
    return x


_INT, _COMPLEX = np.dtype("int64"), np.dtype("complex128")


elementwise_by_name: dict[str, Any] = {}  # filled by ops/elementwise.py with the promoting functions


def structural(value: Any, dtype: np.dtype = FLOAT) -> Lit:
    """A constant that belongs to the program."""
    return Lit(value, dtype, structural=True)


def literal(value: Any, like: np.dtype | None = None) -> Lit:
    """A Python or NumPy scalar as data: weak for Python's own, unless *like* fixes the dtype."""
    if like is not None:
        return Lit(value, like)
    if isinstance(value, np.generic):
        return Lit(value, value.dtype)
    if isinstance(value, bool):
        return Lit(value, np.dtype(bool), weak=True, structural=True)
    if isinstance(value, int):
        return Lit(value, _INT if value < 2**63 else np.dtype("uint64"), weak=True)
    return Lit(value, _COMPLEX if isinstance(value, complex) else FLOAT, weak=True)


def read_vars(nodes: Sequence[Node], roots: Sequence[Atom]) -> set[Var]:
    """The Vars that *nodes* or *roots* read."""
    read = {a for n in nodes for a in n.inputs if isinstance(a, Var)}
    return read | {a for a in roots if isinstance(a, Var)}


def live_nodes(nodes: Sequence[Node], roots: Sequence[Atom]) -> list[Node]:
    """The nodes that *roots* depend on, in order."""
    needed = {a for a in roots if isinstance(a, Var)}
    kept = []
    for node in reversed(nodes):
        if any(out in needed for out in node.outs):
            kept.append(node)
            needed.update(a for a in node.inputs if isinstance(a, Var))
    kept.reverse()
    return kept


def live_graph(graph: Graph, nodes: Sequence[Node], current: Callable[[Atom], Atom]) -> Graph:
    """*graph* with *nodes* in place of its own, as far as its results and guards need them; *current*: what stands for
    one of its values now."""
    outputs, guards = [*map(current, graph.outputs)], [replace(g, atom=current(g.atom)) for g in graph.guards]
    roots = [*outputs, *[g.atom for g in guards]]
    kept = live_nodes(nodes, roots)
    read = read_vars(kept, roots)
    return Graph(graph.inputs, kept, outputs, guards, [c for c in graph.consts if c[0] in read])
