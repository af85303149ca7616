"""The tape of loops of which one iteration is recorded, over symbols (``tracer/loops/``).

The tape of that iteration is that of an ordinary one: it begins at *starts*, which lead from the symbols to what they
stand for.  Once a loop node is made of it, the tape of what is left is one node, whose operation is the part of the
recording that gives the results (``LoopOp``): so its derivative is that of the loop node.

A derivative of the recording goes where the tape does, since within iterations what the tape does not connect is
separated by ``stop_gradient`` (``LoopTape.operands``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..nn.parameter import Parameter
from ..tensors.capture import Capture
from ..tensors.inplace import follow
from ..tensors.modes import STATE
from ..tensors.node import TapeNode, node_class
from ..tensors.ops_index import ALIAS
from ..tensors.rows import TensorRows
from ..tensors.tensor import Tensor, _new, origins, raw, refresh
from ..tracer.ir.graph import Atom, Lit
from ..tracer.ir.refusals import Reason, Refusal
from ..tracer.loops.holders import HOLDERS, ROW_ITERATORS
from ..tracer.loops.python_ints import in_plain_iterations
from ..tracer.ops.elementwise import F
from ..tracer.record.array import TracedArray, wrap_array
from .loop_history import LoopEnd, TapedIteration, UntapedError, connect
from .loop_rows import LoopRows, row_node
from .step_autograd import tensors_in

_REFUSED = "the tape of a loop is not that of one iteration after another: the run is made again, with that loop so"


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


class LoopTape(LoopRows):
    """The tape of the loops in one run of a step; as of ``tracer/loops/holders.py``."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self.capture = capture
        self.recent: list[TapedIteration] = []  # that are over
        self.ending: TapedIteration | None = None  # the one of which a loop node may be made now

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

    def begin(self, value: Tensor, array: TracedArray) -> Tensor:
        """The tensor over the symbol *array* in the place of *value*."""
        taped, found = self.open[-1], self._tensor(array, value._counter, value._inference)
        if value._requires:
            found._node, found._requires = self._start(value, array, taped), True
        taped.symbols[id(found)] = found, value
        loop = taped.marked.statement
        self.capture.recorder.loops.made_anew.update(
            {id(x): (x, loop) for x in (found, value)}
        )  # whose identity is not asked
        return found

    def closed(self, marked: Any) -> None:
        while any(taped.marked is marked for taped in self.open):
            self.recent.append(self.open.pop())
        self.ending = next((taped for taped in reversed(self.recent) if taped.marked is marked), None)
        del self.recent[:-16]

    def objection(self, iteration: Any) -> Reason | None:
        """Why no loop node can be made; what was learned goes to the next iteration."""
        taped = self.ending
        assert taped is not None
        reason: Reason | None = None
        if any(t._counter[0] != version for t, version in taped.iterated):
            raise self.capture.log.refuse("a tensor that is changed while it is iterated over")
        for symbol, value in taped.symbols.values():
            if (symbol._node is not None and symbol._node not in taped.starts) or symbol._requires != value._requires:
                in_plain_iterations(self.capture.recorder, iteration.loop, _REFUSED)  # it was written, and stands alone
        for t, node, requires, grad, _ in taped.known:
            if t._grad is not grad:
                reason = self._placed(iteration, t) or reason
            now = t._node
            if t._base is not None:
                t._attr_version = -1 if now is not node else t._attr_version
            elif (now is not node and not (now is not None and id(t) in taped.kept)) or t._requires != requires:
                iteration.learned.holders[id(t)] = t
                reason = reason or Refusal.LOOP_WRITTEN(name="a tensor")
        for key, (t, grad) in self.capture.grads.items():
            if taped.grads.get(key, (t, t._grad))[1] is not grad:
                reason = self._placed(iteration, t) or reason
        return reason

    def _placed(self, iteration: Any, t: Tensor) -> Reason | None:
        """The reason why there is no loop where a ``.grad`` was replaced that is not carried."""
        place = GradPlace(t, self.capture)
        iteration.learned.places[place.id] = place
        return None if place.id in iteration.places else Refusal.LOOP_KIND(name=place.name)

    def differentiates(self, node: TapeNode) -> None:
        """A backward goes through *node* now."""
        for taped in self.open:
            if node in taped.starts:
                taped.marked.refuse(
                    Refusal.LOOP_SEEN(what="a backward goes on into earlier iterations", site=node.site)
                )

    # ---- what a loop leaves ----------------------------------------------------------------------------------------

    def end(self, value: Tensor, array: TracedArray) -> Tensor:
        """The tensor over *array*, what *value*, of the iteration, is after the last one."""
        taped = self.ending
        assert taped is not None
        for symbol, before in taped.symbols.values():  # one from before the loop, that iterations pass on
            unchanged = symbol is value and raw(before).atom is array.atom
            if unchanged or (raw(before) is array and before._requires == value._requires):
                return before
        if id(value) in taped.memo:
            return taped.memo[id(value)][1]
        found = self._tensor(array, [0], value._inference)
        self.capture.put(array, self.capture.device_of(raw(value)))
        taped.memo[id(value)] = value, found
        if value._requires and value._node is None:
            found._requires = True
        elif value._requires:
            taped.ends.append((found, value))
        return found

    def rows(self, value: Tensor, stack: Atom, arrays: Sequence[TracedArray]) -> list[Tensor]:
        taped, place = self.ending, self.capture.device_of(raw(value))
        assert taped is not None
        found = []
        for array in arrays:
            found.append(self._tensor(array, [0], value._inference))
            self.capture.put(array, place)
        if id(value) in taped.symbols:
            found[0] = taped.symbols[id(value)][1]
        elif id(value) in taped.memo:  # a name or a place has the last one
            last, storage = taped.memo[id(value)][1], arrays[-1]._storage
            storage.atom, last._data._storage = last._data._storage.atom, storage
            self.capture.put(last._data, place)
            found[-1] = last
        taped.rows.append((stack, value, found))
        return found

    def begins(self, value: Tensor) -> bool:
        return self.ending is not None and id(value) in self.ending.symbols

    def ended(self, iteration: Any) -> None:
        taped = self.ending
        assert taped is not None
        if self._shares_memory(taped, iteration.read_after):
            in_plain_iterations(self.capture.recorder, iteration.loop, _REFUSED)
        self._count(taped, iteration)
        kept = [t for t in taped.kept.values() if t._requires]
        ends = [*taped.ends, *[(t, t) for t in kept]]
        stacks = [(self._stack(stack, value), value, rows) for stack, value, rows in taped.rows]
        ends += [(whole, value) for whole, value, _ in stacks if value._requires]
        try:
            made = [LoopEnd(t, value._node, value._out) for t, value in ends if value._node is not None]
            if made and iteration.taken is not None:  # a derivative of it needs room for iterations that nobody knows
                raise UntapedError
            connect(self.capture, self._first(taped), taped, made)
        except UntapedError:
            in_plain_iterations(self.capture.recorder, iteration.loop, _REFUSED)
        stood = {id(before) for _, before in taped.symbols.values()}
        for whole, value, rows in stacks:
            for k, t in enumerate(rows):
                if value._requires and t._node is None and id(t) not in stood:
                    t._node, t._requires = row_node(whole, t, k), True
                self.listed[id(t)] = t, t._node, whole, k

    def _shares_memory(self, taped: TapedIteration, read_after: list[Any]) -> bool:
        """Whether a tensor that the loop leaves shows memory from before the iteration, or that another one shows, and
        somebody may tell: what stands for it has memory of its own.  *read_after*: what names and places have."""
        shown_by = self.capture.shown_by
        read = {id(t) for t in tensors_in(read_after)}
        left = {id(value): value for value, _ in taped.memo.values() if id(value) in read}
        left.update((id(value), value) for _, value, _ in taped.rows)
        shown = [shown_by(value) for key, value in left.items() if key not in taped.symbols]
        before = {id(shown_by(t)[0]._storage) for t, *_ in taped.known if type(t._data) is TracedArray}
        before |= {id(root.traced._storage) for root in self.capture.roots}
        places: dict[int, np.ndarray] = {}  # by id of the memory: how often each of its elements is shown
        for array, chain in shown:
            if id(array._storage) in before:
                return True
            times = places.setdefault(id(array._storage), np.zeros(array._storage.atom.aval.size, int))
            whole = array._storage.atom.aval
            places_in = np.arange(whole.size).reshape(whole.shape)
            times[... if array._steps else np.ravel(follow(places_in, chain))] += 1
        return any(bool((times > 1).any()) for times in places.values())

    def _stack(self, stack: Atom, value: Tensor) -> Tensor:
        """The tensor of which the loop has given the rows."""
        return self._tensor(self.capture.put(wrap_array(stack), self.capture.device_of(raw(value))), [0])

    def _tensor(self, array: TracedArray, counter: list[int], inference: bool = False) -> Tensor:
        """A tensor of the run over *array*."""
        found = _new(Tensor)
        found._data, found._counter, found._inference = array, counter, inference
        self.capture.made(found)
        return found

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


class TensorHolder:
    """The knowledge of loops about tensors, most of which the tape has; as of ``tracer/loops/holders.py``."""

    def array(self, value: Tensor) -> TracedArray:
        return raw(value)  # type: ignore[no-any-return]

    def facts(self, value: Tensor) -> Any:
        capture = STATE.capture
        if capture is None or capture.tape is None or value._hooks or value._after or value._made is not None:
            return None
        if value._base is not None:
            refresh(value)
        tape: LoopTape = capture.tape
        if value._requires and value._node is None:
            taped = tape.ending
            if taped is None or value._grad is not None or not taped.is_new(value, tape.capture):
                return None
        return type(value), value._requires, value._node is None, value._inference, value._base is not None

    def __getattr__(self, name: str) -> Any:
        """The same of the tape of the run."""
        return getattr(STATE.capture.tape, name)


_holder: Any = TensorHolder()
HOLDERS.update(dict.fromkeys((Tensor, Parameter), _holder))
ROW_ITERATORS.append(TensorRows)
