"""The tape of loops of which one iteration is recorded, over symbols (``tracer/loops/``).

The tape of that iteration is that of an ordinary one: it begins at *starts*, which lead from the symbols to what they
stand for.  Once a loop node is made of it, the tape of what is left is one node, whose operation is the part of the
recording that gives the results (``LoopOp``): so its derivative is that of the loop node.

A derivative of the recording goes where the tape does, since within iterations what the tape does not connect is
separated by ``stop_gradient`` (``LoopTape.operands``)."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from ..nn.parameter import Parameter
from ..tensors.capture import Capture
from ..tensors.apply import apply
from ..tensors.inplace import apply_views, inplace
from ..tensors.modes import STATE
from ..tensors.node import TapeNode, next_sequence, node_class
from ..tensors.node_vjp import check_versions
from ..tensors.op import EagerOp, aval_of, splice
from ..tensors.ops_index import ALIAS
from ..tensors.ops_join import CAT
from ..tensors.ops_parts import UNBIND
from ..tensors.ops_pick import AT, PUT, picked, refreshed
from ..tensors.rows import TensorRows
from ..tensors.tensor import Tensor, _new, origins, raw, refresh
from ..tracer.ir.graph import Atom, Graph, Lit, Node, Pair, Var
from ..tracer.ir.primitive import PRIMITIVES
from ..tracer.ir.refusals import Reason, Refusal
from ..tracer.loops.holders import HOLDERS, ROW_ITERATORS
from ..tracer.loops.python_ints import in_plain_iterations
from ..tracer.ops.elementwise import CAST, F
from ..tracer.record.array import TracedArray, to_atom, wrap_array
from ..tracer.record.stacked_rows import RowStorage

_ALIAS = PRIMITIVES["alias"]
_FEW = 4  # rows that are not worth a look
_REFUSED = "the tape of a loop is not that of one iteration after another: the run is made again, with that loop so"


ROW = EagerOp("Select", lambda x, k: x[k])


class LoopOp(EagerOp):
    """A part of the recording, as one operation."""

    __slots__ = ()

    def __init__(self, graph: Graph) -> None:
        super().__init__("Loop", lambda *given: tuple(map(wrap_array, splice(graph, list(map(to_atom, given))))))


class GradPlace(NamedTuple):
    """The ``.grad`` of ``owner``, which an iteration replaces, as a place that is carried."""

    owner: Tensor
    capture: Capture
    key: str = "grad"

    @property
    def id(self) -> tuple[int, str]:
        return id(self.owner), "grad"

    @property
    def name(self) -> str:
        return f"{type(self.owner).__name__}.grad"

    def known(self) -> bool:
        return True

    def get(self) -> Any:
        return self.capture.read_grad(self.owner)

    def set(self, value: Any) -> None:
        self.capture.write_grad(self.owner, value)


class Origin(NamedTuple):
    """An edge of the tape, and the version of the tensor that was read there."""

    edge: Any
    out: int
    version: Any

    @property
    def key(self) -> tuple[int, int]:
        return id(self.edge), self.out


class _Known(NamedTuple):
    """A tensor as it was before an iteration."""

    tensor: Tensor
    node: TapeNode | None
    requires: bool
    grad: Tensor | None
    version: int


class TapedIteration:
    """What the tape knows of one marked iteration."""

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


class LoopTape:
    """The tape of the loops in one run of a step; as of ``tracer/loops/holders.py``."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.open: list[TapedIteration] = []
        self.recent: list[TapedIteration] = []  # that are over
        self.ending: TapedIteration | None = None  # the one of which a loop node may be made now
        self.stacks: dict[Atom, Tensor] = {}
        # by id: rows at positions that follow from an iteration, what they are rows of, and where
        self.picked: dict[int, tuple[Tensor, Tensor, Any, tuple[Any, ...]]] = {}

    # ---- operations ------------------------------------------------------------------------------------------------

    def operands(self, operands: Sequence[Any], raws: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arrays of *operands* for an operation, without derivatives where the tape has none."""
        wants = [isinstance(t, Tensor) and t.requires_grad for t in operands]
        if not (STATE.grad and any(wants)):
            return raws
        return tuple([
            x if want or not isinstance(t, Tensor) else self._stopped(x)
            for t, x, want in zip(operands, raws, wants, strict=True)
        ])  # fmt: skip

    def _stopped(self, x: TracedArray) -> TracedArray:
        atom = x.atom
        if isinstance(atom, Lit) or not atom.aval.is_inexact:
            return x
        known = self.open[-1].stopped
        if atom not in known:
            found = known[atom] = wrap_array(F.stop_gradient(atom))
            found._storage.c_order = x.known_c_order()
            self.capture.put(found, self.capture.device_of(x))
        return known[atom]

    # ---- rows at positions that follow from an iteration -------------------------------------------------------------

    def is_row(self, row: Tensor, t: Tensor, code: Any, positions: Sequence[Any]) -> bool:
        """Whether *row* is what ``t[index]`` has given."""
        known = self.picked.get(id(row))
        if known is None or known[1] is not t or known[2] != code:
            return False
        return [x.atom for x in known[3]] == [x.atom for x in positions]

    def wrote_row(self, row: Tensor, new: Tensor) -> bool:
        """Write *new* into *row*, if it is a row of a tensor: into that."""
        known = self.picked.get(id(row))
        if known is None:
            return False
        _, t, code, positions = known
        inplace(PUT, t, (new, *positions), (code,))
        refreshed(row, t, code, positions)
        return True

    def row_of(self, t: Tensor, index: Any) -> Tensor:
        """Row *index* of *t*, which is iterated over."""
        if type(index) is int:
            (row,) = apply_views(UNBIND, t, [(0, index)])
            return row
        if self.open:
            self.open[-1].iterated.append((t, t._counter[0]))
        return picked(t, (AT,), (index,), self)

    # ---- stacks of rows --------------------------------------------------------------------------------------------

    def stack_of(self, tensors: Sequence[Tensor]) -> Tensor | None:
        """The stack of *tensors*, where many of them are the rows of one that a loop has given; else None."""
        parts: list[Tensor] = []
        k = most = 0
        while k < len(tensors):
            whole, start, count = self._rows_from(tensors, k)
            if whole is None:
                parts.append(tensors[k][None])
            else:
                parts.append(whole if count == len(whole) else whole[start : start + count])
            k, most = k + count, max(most, count if whole is not None else 0)
        if most < _FEW:
            return None
        return parts[0] if len(parts) == 1 else apply(CAT, tuple(parts), (0,))

    def _rows_from(self, tensors: Sequence[Tensor], k: int) -> tuple[Tensor | None, int, int]:
        """(the tensor whose rows *tensors* are from *k* on, the first of them, how many)"""
        first = self._row_place(tensors[k])
        if first is None:
            return None, 0, 1
        whole, start = first
        count = 1
        while k + count < len(tensors):
            other = self._row_place(tensors[k + count])
            if other is None or other[0] is not whole or other[1] != start + count:
                break
            count += 1
        return whole, start, count

    def _row_place(self, t: Tensor) -> tuple[Tensor, int] | None:
        storage = t._data._storage if type(t._data) is TracedArray else None
        if type(storage) is not RowStorage or storage.version or t._data._steps or t._counter[0]:
            return None
        whole = self.stacks.get(storage.stack)
        if whole is None or t._base is not None or t._requires != whole._requires:
            return None
        return (whole, storage.k) if not t._requires or (t._node is not None and t._node.op is ROW) else None

    # ---- iterations ------------------------------------------------------------------------------------------------

    def begun(self, iteration: Any) -> None:
        taped = TapedIteration(iteration.marked, self.capture)
        self.open.append(taped)
        self.ending = None
        for t in iteration.learned.holders.values():
            taped.kept[id(t)] = t
            if t._requires and t._node is not None:
                t._node, t._out = self._start(t, raw(t), taped), 0

    def _start(self, t: Tensor, symbol: TracedArray, taped: TapedIteration) -> TapeNode:
        """The node with which the tape of *symbol*, in the place of *t*, begins."""
        before = raw(t)
        versions = (t._counter, t._counter[0])
        node = node_class(t._node.label if t._node is not None else ALIAS.name)(
            ALIAS, ((),), *origins([t]), (before,), (symbol,), (versions, versions)
        )
        taped.starts[node] = symbol.atom
        return node

    def symbol(self, value: Tensor, array: TracedArray) -> Tensor:
        """The tensor over the symbol *array* in the place of *value*."""
        taped, found = self.open[-1], _new(Tensor)
        found._data, found._counter, found._inference = array, value._counter, value._inference
        self.capture.made(found)
        if value._requires:
            found._node, found._requires = self._start(value, array, taped), True
        taped.symbols[id(found)] = found, value
        return found

    def closed(self, marked: Any) -> None:
        while any(taped.marked is marked for taped in self.open):
            self.recent.append(self.open.pop())
        self.ending = next((taped for taped in reversed(self.recent) if taped.marked is marked), None)
        del self.recent[:-64]

    def objection(self, iteration: Any) -> Reason | None:
        """Why no loop node can be made; what was learned goes to the next iteration."""
        taped = self.ending
        assert taped is not None
        reason: Reason | None = None
        if any(t._counter[0] != version for t, version in taped.iterated):
            raise self.capture.log.refuse("a tensor that is changed while it is iterated over")
        for symbol, _ in taped.symbols.values():
            if symbol._node is not None and symbol._node not in taped.starts:
                in_plain_iterations(self.capture.recorder, iteration.loop, _REFUSED)  # it was written, and stands alone
        for t, node, requires, grad, _ in taped.known:
            if t._grad is not grad:
                iteration.learned.places[GradPlace(t, self.capture).id] = GradPlace(t, self.capture)
                reason = reason or self._placed(iteration, t)
            now = t._node
            if t._base is not None:
                t._attr_version = -1 if now is not node else t._attr_version
            elif (now is not node and not (now is not None and id(t) in taped.kept)) or t._requires != requires:
                iteration.learned.holders[id(t)] = t
                reason = reason or Refusal.LOOP_WRITTEN(name="a tensor")
        for key, (t, grad) in self.capture.grads.items():
            if taped.grads.get(key, (t, t._grad))[1] is not grad:
                iteration.learned.places[GradPlace(t, self.capture).id] = GradPlace(t, self.capture)
                reason = reason or self._placed(iteration, t)
        return reason

    def _placed(self, iteration: Any, t: Tensor) -> Reason | None:
        place = GradPlace(t, self.capture)
        return None if place.id in iteration.places else Refusal.LOOP_KIND(name=place.name)

    # ---- what a loop leaves ----------------------------------------------------------------------------------------

    def after(self, value: Tensor, array: TracedArray) -> Tensor:
        """The tensor over *array*, what *value*, of the iteration, is after the last one."""
        taped = self.ending
        assert taped is not None
        if id(value) in taped.symbols:
            before = taped.symbols[id(value)][1]
            if raw(before).atom is array.atom:
                return before
        if id(value) in taped.memo:
            return taped.memo[id(value)][1]
        found = _new(Tensor)
        found._data, found._counter, found._inference = array, [0], value._inference
        self.capture.made(found)
        self.capture.put(array, self.capture.device_of(raw(value)))
        taped.memo[id(value)] = value, found
        if value._requires and value._node is None:
            found._requires = True
        elif value._requires:
            taped.ends.append((found, value))
        return found

    def row_tensors(self, value: Tensor, stack: Atom, arrays: Sequence[TracedArray]) -> list[Tensor]:
        taped, place = self.ending, self.capture.device_of(raw(value))
        assert taped is not None
        found = []
        for array in arrays:
            t = _new(Tensor)
            t._data, t._counter, t._inference = array, [0], value._inference
            self.capture.made(t)
            self.capture.put(array, place)
            found.append(t)
        taped.rows.append((stack, value, found))
        return found

    def ended(self, iteration: Any) -> None:
        taped = self.ending
        assert taped is not None
        self._count(taped, iteration)
        kept = [t for t in taped.kept.values() if t._requires]
        ends = [*[(t, value._node, value._out) for t, value in taped.ends], *[(t, t._node, t._out) for t in kept]]
        stacks: list[tuple[Tensor, Tensor]] = []
        for stack, value, rows in taped.rows:
            whole = self.stacks[stack] = _new(Tensor)
            whole._data, whole._counter = wrap_array(stack), [0]
            self.capture.put(whole._data, self.capture.device_of(raw(value)))
            self.capture.made(whole)
            if value._requires:
                ends.append((whole, value._node, value._out))
            stacks.append((whole, value))
        if ends:
            self._connect(taped, iteration, ends)
        for (stack, value, rows), (whole, _) in zip(taped.rows, stacks, strict=True):
            if value._requires:
                for k, t in enumerate(rows):
                    t._node, t._requires = _row_node(whole, t, k), True

    def _count(self, taped: TapedIteration, iteration: Any) -> None:
        """Count the writes of all iterations that are left."""
        left = 1 if iteration.length is None or iteration.length.constant is None else iteration.length.constant - 1
        counters = {id(t._counter): (t._counter, version) for t, *_, version in taped.known}
        if iteration.taken is not None and any(r.tensor._counter[0] != r.version for r in self.capture.roots):
            in_plain_iterations(self.capture.recorder, iteration.loop, _REFUSED)  # nobody knows how many there are
        for counter, version in counters.values():
            counter[0] += max(left, 0) * (counter[0] - version)

    def _first(self, taped: TapedIteration) -> TapedIteration:
        """The first of the iterations that are part of the loop node."""
        folded = taped.marked.folded
        if not folded:
            return taped
        known = [t for t in self.recent if t.marked.statement is taped.marked.statement and t is not taped]
        return known[-folded]

    def _connect(
        self, taped: TapedIteration, iteration: Any, ends: Sequence[tuple[Tensor, TapeNode | None, int]]
    ) -> None:
        """Have the tensors of *ends*, whose histories in the iteration are given, be results of one node."""
        recorder, first = self.capture.recorder, self._first(taped)
        try:
            found = [self._frontier(first, taped, node) for _, node, _ in ends]
        except _RefusedError:
            in_plain_iterations(recorder, iteration.loop, _REFUSED)
        for (t, made, _), origin in zip(ends, found, strict=True):
            if origin is None:
                t._node, t._out, t._requires = _freed_node(t, made), 0, True
        ends = [end for end, origin in zip(ends, found, strict=True) if origin is not None]
        if not ends:
            return
        outputs = [raw(t).atom for t, *_ in ends]
        canon: dict[Atom, Origin] = {}
        for atom, edge in [pair for origin in found if origin is not None for pair in origin]:
            known = canon.setdefault(self._plain(taped, atom), edge)
            if isinstance(atom, Pair) or known.key != edge.key:
                in_plain_iterations(recorder, iteration.loop, _REFUSED)
        if any(isinstance(x, Pair) for x in outputs):
            in_plain_iterations(recorder, iteration.loop, _REFUSED)
        nodes, inputs = self._part(taped, outputs, canon)
        edges = [canon.get(self._plain(taped, x)) for x in inputs]
        met = {edge.key for edge in edges if edge is not None}
        for atom, edge in canon.items():
            if edge.key not in met and isinstance(atom, Var):
                inputs.append(atom)
                edges.append(edge)
        op = LoopOp(Graph(inputs, nodes, outputs))
        arrays = tuple([TracedArray(x, recorder) for x in inputs])
        results = tuple([raw(t) for t, *_ in ends])
        versions = [None if edge is None else edge.version for edge in edges]
        versions += [(t._counter, t._counter[0]) for t, *_ in ends]
        node = node_class(op.name)(
            op, (), tuple([None if e is None else e.edge for e in edges]),
            tuple([0 if e is None else e.out for e in edges]), arrays, results, tuple(versions),
        )  # fmt: skip
        node.site = taped.marked.site
        for k, (t, made, _) in enumerate(ends):
            label = node.label if made is None else made.label
            t._node = node_class(label)(
                ALIAS, ((),), (node,), (k,), (raw(t),), (raw(t),), (versions[len(inputs) + k],) * 2
            )
            t._node.site = node.site
            t._out, t._requires = 0, True

    def _frontier(
        self, first: TapedIteration, taped: TapedIteration, node: TapeNode | None
    ) -> list[tuple[Atom, Origin]] | None:
        """What the tape of the iterations from *first* to *taped*, which ends with *node*, leads to before them: atoms,
        and their origins.  None where a backward has freed it."""
        assert node is not None
        seen, stack, found = {node}, [node], []
        written = {*first.marked.written, *taped.marked.written}
        while stack:
            node = stack.pop()
            if node in first.starts:
                symbol = first.starts[node]
                before = next((c.before for c in first.marked.carries if c.symbol is symbol), symbol)
                if node.edges[0] is not None:
                    found.append((before, Origin(node.edges[0], node.edge_outs[0], node.versions[0])))
                continue
            if node.freed:
                return None
            if not node.plain or node.op is None:
                raise _RefusedError
            if any(map(node.overwritten, range(len(node.versions)))):
                _check_saved(node)
            for k, edge in enumerate(node.edges):
                if edge is None or (edge in seen if isinstance(edge, TapeNode) else False):
                    continue
                if isinstance(edge, TapeNode) and edge.sequence >= first.since:
                    seen.add(edge)
                    stack.append(edge)
                    continue
                x = node.inputs[k]
                own = not isinstance(edge, TapeNode) and first.is_new(edge, self.capture)
                if type(x) is not TracedArray or id(x._storage) in written or own:
                    raise _RefusedError
                found.append((x.atom, Origin(edge, node.edge_outs[k], node.versions[k])))
        return found

    def _plain(self, taped: TapedIteration, x: Atom) -> Atom:
        """*x* without aliases of it."""
        while (node := taped.marked.node_of(x)) is not None:
            if node.prim is not _ALIAS and not (node.prim is CAST and node.inputs[0].aval.dtype == x.aval.dtype):
                break
            x = node.inputs[0]
        return x

    def _part(
        self, taped: TapedIteration, outputs: Sequence[Atom], frontier: Container[Atom]
    ) -> tuple[list[Node], list[Var]]:
        """(the nodes between *frontier* and *outputs*, what they read).  Those that no iteration makes anew may have
        been recorded before the loop."""
        nodes = self.capture.recorder.nodes
        active = {x for node in nodes for x in (*node.inputs, *node.outs) if self._plain(taped, x) in frontier}
        given = set(active)
        for node in nodes:
            if not active.isdisjoint(node.inputs):
                active.update(node.outs)
        read: dict[Var, None] = {x: None for x in outputs if isinstance(x, Var)}
        found: list[Node] = []
        for node in reversed(nodes):
            if any(x in read and x in active and x not in given for x in node.outs):
                found.append(node)
                read.update((x, None) for x in node.inputs if isinstance(x, Var))
        made = {x for node in found for x in node.outs}
        return found[::-1], [x for x in read if x not in made]


class _RefusedError(Exception):
    """The tape of an iteration is none of which a loop can be made."""


def _check_saved(node: TapeNode) -> None:
    """An error where a value that the derivative of *node* reads was overwritten: iterations one after another are to
    tell of it."""
    assert node.op is not None
    wants = tuple([edge is not None for edge in node.edges])
    try:
        check_versions(node, node.op.vjp(tuple(map(aval_of, node.inputs)), node.statics, wants, False))
    except RuntimeError:
        raise _RefusedError from None


def _freed_node(t: Tensor, made: TapeNode | None) -> TapeNode:
    """The node of *t*, through whose history a backward has gone."""
    assert made is not None
    node = node_class(made.label)(ALIAS, ((),), *origins([t]), (raw(t),), (raw(t),), (None, None))
    node.freed = True
    return node


def _row_node(whole: Tensor, t: Tensor, k: int) -> TapeNode:
    """The node by which *t* is row *k* of *whole*."""
    return node_class(ROW.name)(ROW, (k,), *origins([whole]), (whole._data,), (t._data,), (None, (t._counter, 0)))


class TensorHolder:
    """What loops have to know of tensors; as of ``tracer/loops/holders.py``."""

    def array(self, value: Tensor) -> TracedArray:
        return raw(value)  # type: ignore[no-any-return]

    def facts(self, value: Tensor) -> Any:
        if value._hooks or value._after or value._made is not None:
            return None
        if value._base is not None:
            refresh(value)
        tape: LoopTape = STATE.capture.tape
        if value._requires and value._node is None:
            taped = tape.ending
            if taped is None or value._grad is not None or not taped.is_new(value, tape.capture):
                return None
        return type(value), value._requires, value._node is None, value._inference, value._base is not None

    def begin(self, value: Tensor, array: TracedArray) -> Tensor:
        return STATE.capture.tape.symbol(value, array)  # type: ignore[no-any-return]

    def end(self, value: Tensor, array: TracedArray) -> Tensor:
        return STATE.capture.tape.after(value, array)  # type: ignore[no-any-return]

    def rows(self, value: Tensor, stack: Atom, arrays: Sequence[TracedArray]) -> list[Tensor]:
        return STATE.capture.tape.row_tensors(value, stack, arrays)  # type: ignore[no-any-return]

    def stacked(self, items: Sequence[Tensor]) -> Tensor | None:
        whole, start, count = STATE.capture.tape._rows_from(items, 0)
        return whole[start : start + count] if whole is not None and count == len(items) else None

    def row(self, whole: Tensor, index: Any) -> Tensor:
        return STATE.capture.tape.row_of(whole, index)  # type: ignore[no-any-return]


for _kind in (Tensor, Parameter):
    HOLDERS[_kind] = TensorHolder()
ROW_ITERATORS.append(TensorRows)
