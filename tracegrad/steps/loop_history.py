"""The history of what a loop leaves, as one node of the tape: from what the loop began with, and has read."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..tensors.capture import Capture
from ..tensors.hooks import at_node
from ..tensors.node import TapeNode, next_sequence, node_class
from ..tensors.node_vjp import check_versions
from ..tensors.op import EagerOp, aval_of, splice
from ..tensors.ops_index import ALIAS
from ..tensors.tensor import Tensor, origins, raw
from ..tracer.ir.graph import Atom, Graph, Node, Pair, Var
from ..tracer.ir.primitive import LOOP, PRIMITIVES
from ..tracer.loops.fold import unaliased
from ..tracer.ops.control import loop_view
from ..tracer.record.array import TracedArray, to_atom, wrap_array

_STOP_GRADIENT = PRIMITIVES["stop_gradient"]
_MOST_STEPS = 16  # iterations of a loop whose carries are followed one by one


class _Known(NamedTuple):
    """A tensor as it was before an iteration."""

    tensor: Tensor
    node: TapeNode | None
    requires: bool
    grad: Tensor | None
    version: int


class TapedIteration:
    """The knowledge of the tape about one marked iteration."""

    def __init__(self, marked: Any, capture: Capture) -> None:
        self.marked, self.since, self.made = marked, next_sequence(), len(capture._made)
        self.starts: dict[TapeNode, Atom] = {}  # nodes that begin its tape, and the atoms of what they stand for
        self.symbols: dict[int, tuple[Tensor, Tensor]] = {}  # by id: a tensor over a symbol, the one it stands for
        self.stopped: dict[Atom, TracedArray] = {}
        tensors = [t for t in (r() for r in capture._made) if t is not None]
        outside = [root.tensor for root in capture.roots]
        self.known = [_Known(t, t._node, t._requires, t._grad, t._counter[0]) for t in (*tensors, *outside)]
        self.grads = dict(capture.grads)
        self.kept: dict[int, Tensor] = {}  # tensors that stay what they are, and whose history goes on
        self.ends: list[tuple[Tensor, Tensor]] = []  # tensors after the loop, and those of the iteration
        self.rows: list[tuple[Atom, Tensor, Sequence[Tensor]]] = []  # a stack, a tensor of the iteration, its rows
        self.memo: dict[int, tuple[Tensor, Tensor]] = {}
        self.iterated: list[tuple[Tensor, int]] = []  # what it is a row of, and its version then

    def is_new(self, t: Tensor, capture: Capture) -> bool:
        """Whether the iteration has made *t*."""
        return any(r() is t for r in capture._made[self.made :])


class UntapedError(Exception):
    """The tape of an iteration is none of which a loop can be made."""


class LoopOp(EagerOp):
    """A part of the recording, as one operation."""

    __slots__ = ()

    def __init__(self, graph: Graph) -> None:
        super().__init__("Loop", lambda *given: tuple(map(wrap_array, splice(graph, list(map(to_atom, given))))))


class TapeOrigin(NamedTuple):
    """An edge of the tape, and the version of the tensor that was read there."""

    edge: Any
    out: int
    version: Any

    @property
    def key(self) -> tuple[int, int]:
        return id(self.edge), self.out


class LoopEnd(NamedTuple):
    """A tensor after a loop, and the node of the tape that made it in the iteration, as which of its results."""

    tensor: Tensor
    node: TapeNode
    out: int

    def made_by(self, node: TapeNode, out: int) -> None:
        """Have result *out* of *node* be the origin of the tensor."""
        t, version = self.tensor, (self.tensor._counter, self.tensor._counter[0])
        found = node_class(self.node.label)(ALIAS, ((),), (node,), (out,), (raw(t),), (raw(t),), (version, version))
        found.site = node.site
        t._node, t._out, t._requires = found, 0, True


def connect(capture: Capture, first: TapedIteration, last: TapedIteration, ends: Sequence[LoopEnd]) -> None:
    """Have the tensors of *ends* be results of one node.  *first*, *last*: of the iterations that were recorded, and
    are part of the loop node.

    :raises UntapedError: where the tape is not that of one iteration after another."""
    connected: list[LoopEnd] = []
    direct: list[set[tuple[int, int]]] = []  # for each of them: the origins of what its iteration reads from outside
    edges: dict[Atom, TapeOrigin] = {}  # by the atom that was read
    plain = partial(unaliased, maker=last.marked.node_of)
    for end in ends:
        found = _origins(capture, first, last, end)
        if found is None:
            end.tensor._node, end.tensor._out, end.tensor._requires = _freed_node(end), 0, True
            continue
        connected.append(end)
        direct.append({edge.key for _, edge, read in found if read})
        for atom, edge, _ in found:
            if isinstance(atom, Pair) or edges.setdefault(plain(atom), edge).key != edge.key:
                raise UntapedError
    outputs = [raw(end.tensor).atom for end in connected]
    if any(isinstance(x, Pair) for x in outputs):
        raise UntapedError
    if connected:
        node = _node(capture, edges, outputs, plain, [end.tensor for end in connected], direct)
        node.site = last.marked.site
        for k, end in enumerate(connected):
            end.made_by(node, k)


def _node(
    capture: Capture, edges: Mapping[Atom, TapeOrigin], outputs: Sequence[Atom], plain: Callable[[Atom], Atom],
    results: Sequence[Tensor], direct: Sequence[Container[tuple[int, int]]],
) -> TapeNode:  # fmt: skip
    """The node of the tape that leads from *results*, whose atoms are *outputs*, to *edges*.  *direct*: the keys of
    those edges that each result depends on for certain."""
    nodes, inputs = _part(capture.recorder.nodes, outputs, edges, plain)
    met = {edges[plain(x)].key for x in inputs if plain(x) in edges}
    zeros = {x for x, edge in edges.items() if edge.key not in met and isinstance(x, Var)}  # whose gradient is 0
    inputs += [x for x in edges if x in zeros]
    origins = [edges.get(plain(x), _NOWHERE) for x in inputs]
    reaches: list[set[int]] = []  # for each result: the inputs that it depends on
    for x, keys in zip(outputs, direct, strict=True):
        behind = _behind(nodes, [x]) | zeros
        reaches.append({k for k, y in enumerate(inputs) if y in behind or origins[k].key in keys})
    counts = set[int]().union(*reaches)
    found = [edge if k in counts else _NOWHERE for k, edge in enumerate(origins)]
    op = LoopOp(Graph(inputs, nodes, list(outputs)))
    made = node_class(op.name)(
        op, (), tuple([edge.edge for edge in found]), tuple([edge.out for edge in found]),
        tuple([TracedArray(x, capture.recorder) for x in inputs]), tuple(map(raw, results)),
        (*[edge.version for edge in found], *[(t._counter, t._counter[0]) for t in results]),
    )  # fmt: skip
    made.reaches = reaches
    return made


_NOWHERE = TapeOrigin(None, 0, None)


def _origins(
    capture: Capture, first: TapedIteration, last: TapedIteration, end: LoopEnd
) -> list[tuple[Atom, TapeOrigin, bool]] | None:
    """The atoms to which the tape of the iterations from *first* to *last* leads from *end* before them, with their
    origins, and whether an iteration reads them there: else they are what the loop begins with.  None where a backward
    has freed it."""
    stack, found = [(end.node, end.out)], list[tuple[Atom, TapeOrigin, bool]]()
    seen = {*stack}
    written = {*first.marked.written, *last.marked.written}
    while stack:
        node, result = stack.pop()
        if at_node(node):
            raise UntapedError
        if node in first.starts:
            symbol = first.starts[node]
            before = next((c.before for c in first.marked.carries.values() if c.symbol is symbol), symbol)
            if node.edges[0] is not None:
                found.append((before, TapeOrigin(node.edges[0], node.edge_outs[0], node.versions[0]), False))
            continue
        if node.freed:
            return None
        _check(node)
        for k, edge, out in node.edges_of(result):
            if isinstance(edge, TapeNode) and edge.sequence >= first.since:
                if (edge, out) not in seen:
                    seen.add((edge, out))
                    stack.append((edge, out))
            else:
                x = node.inputs[k]
                own = not isinstance(edge, TapeNode) and first.is_new(edge, capture)
                if type(x) is not TracedArray or id(x._storage) in written or own:
                    raise UntapedError
                found.append((x.atom, TapeOrigin(edge, out, node.versions[k]), True))
    return found


def _check(node: TapeNode) -> None:
    """An error where the derivative of *node* is Python of the user's, or reads what was overwritten, as iterations one
    after another are to tell."""
    if not node.plain or node.op is None:
        raise UntapedError
    if any(map(node.overwritten, range(len(node.versions)))):
        wants = tuple([edge is not None for edge in node.edges])
        try:
            check_versions(node, node.op.vjp(tuple(map(aval_of, node.inputs)), node.statics, wants, False))
        except RuntimeError:
            raise UntapedError from None


def _part(
    nodes: Sequence[Node], outputs: Sequence[Atom], given: Container[Atom], plain: Callable[[Atom], Atom]
) -> tuple[list[Node], list[Var]]:
    """(those of *nodes* between the atoms *given* and *outputs*, what they read).  What no iteration makes anew may
    have been recorded before the loop."""
    starts = {x for node in nodes for x in (*node.inputs, *node.outs) if plain(x) in given}
    active = set(starts)
    for node in nodes:
        if not active.isdisjoint(node.inputs):
            active.update(node.outs)
    read: dict[Var, None] = {x: None for x in outputs if isinstance(x, Var)}
    found: list[Node] = []
    for node in reversed(nodes):
        if any(x in read and x in active and x not in starts for x in node.outs):
            found.append(node)
            read.update((x, None) for x in node.inputs if isinstance(x, Var))
    made = {x for node in found for x in node.outs}
    return found[::-1], [x for x in read if x not in made]


def _behind(nodes: Sequence[Node], outputs: Iterable[Atom]) -> set[Atom]:
    """The values on which *outputs* depend where derivatives go: not the one with which a loop begins what each
    iteration but the first has from elsewhere (`a, b = b, f(row)`)."""
    found = set(outputs)
    for node in reversed(nodes):
        if node.prim is not _STOP_GRADIENT and not found.isdisjoint(node.outs):
            known = node.prim.kind == LOOP and len(node.inputs) == len(node.params["body"].inputs)
            found.update(_behind_loop(node, found) if known else node.inputs)
    return found


def _behind_loop(node: Node, after: Container[Atom]) -> list[Atom]:
    """The operands of a loop on which those of its results that are in *after* depend."""
    view = loop_view(node)
    rows = [row for row, out in zip(view.rows, view.stacked, strict=True) if out in after]
    starts, read = {k for k, out in enumerate(view.finals) if out in after}, set[Atom]()
    for _ in range(min(node.params["length"], _MOST_STEPS)):
        now = _behind(view.body.nodes, [*[view.ends[j] for j in starts], *rows])
        before, starts = starts, {j for j, x in enumerate(view.inner.carries) if x in now}
        read |= now
        if starts == before:
            break
    else:
        if node.params["length"] > _MOST_STEPS:
            return list(node.inputs)
    begin = [x for j, x in enumerate(view.outer.carries) if j in starts]
    inner, outer = [*view.inner.consts, *view.inner.xs], [*view.outer.consts, *view.outer.xs]
    return [*begin, *[x for x, own in zip(outer, inner, strict=True) if own in read]]


def _freed_node(end: LoopEnd) -> TapeNode:
    """The node of a tensor through whose history a backward has gone."""
    t = end.tensor
    node = node_class(end.node.label)(ALIAS, ((),), *origins([t]), (raw(t),), (raw(t),), (None, None))
    node.freed = True
    return node
