"""Effects on the outside that only a library of tensors has: tensors that a run leaves somewhere, numbers of optimizers
that it sets, steps of schedulers (``runtime/record/effects.py`` has all others)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from ..nn.module import Module
from ..nn.parameter import Parameter
from ..runtime.record.effects import Expression
from ..runtime.record.trees import Source, made_once
from ..runtime.state.rebuild import leads_to_effects
from ..runtime.state.state_graph import Edge, Leaf, StateNode
from ..runtime.state.state_plan import Snapshot
from ..runtime.state.values import is_leaf, unchanged
from ..runtime.state.watch import unwatched
from ..tensors.capture import Capture, number_at
from ..tensors.inplace import detach, views
from ..tensors.modes import STATE
from ..tensors.tensor import Tensor, make
from ..tracer.ir.aval import FLOAT, Aval
from ..tracer.ir.errors import unrecordable
from ..tracer.ir.graph import Atom, Node, Var, live_nodes, read_vars
from ..tracer.ir.refusals import Reason, Refusal
from ..tracer.record.array import TracedArray
from .state_visitors import named_numbers
from .step_autograd import as_array

Known = tuple[Hashable, Expression]  # (a key that is equal for the same expression, the expression)


@dataclass(slots=True)
class _Number:
    """A number of an optimizer that the user's code names: as it was found, its stand-in, and what the run has left."""

    place: tuple[dict[str, Any], str]
    before: Any
    traced: TracedArray
    after: Any = None


@dataclass(slots=True)
class _ModuleAttribute:
    """An attribute of a module in which the user's code may store something: as it was found, what the run has found,
    and what it has left."""

    owner: StateNode
    edge: Edge
    before: Any
    given: Any
    after: Any = None

    def put(self, value: Any) -> None:
        *stores, name = self.edge.arg
        for store in stores:
            if store is not None:
                store[name] = value


@dataclass(slots=True)
class MadeMemory:
    """The tensors that leave a run and show the memory of one array that it made, all of it or a part."""

    base: TracedArray
    leaving: dict[int, tuple[Tensor, tuple[Any, ...]]]  # by id: a tensor, the operations that lead to it
    owner: int = 0  # the id of the tensor that has the array, if that leaves
    array: Expression | None = None  # for all of it, where two or more leave

    def name(self, t: Tensor, base: str) -> str:
        owner = self.owner or next((key for key, (_, chain) in self.leaving.items() if not chain), 0)
        return base if id(t) == owner else f"{base}v{list(self.leaving).index(id(t))}"

    def text(self, t: Tensor, source: Source, result: str) -> str:
        """The name of one of them over the *result* that is the base: it may be kept outside and returned, too."""
        base = tensor_of(source, result)
        name = self.name(t, base)
        if name != base:
            chain = self.leaving[id(t)][1]
            made = f"{source.constant(views)}({base}, {source.constant(chain)})" if chain else base
            made = made if t._base is not None else f"{source.constant(detach)}({made})"
            made_once(source, name, made)
        return name


class Outside:
    """Tensors, modules, optimizers and schedulers as a run finds and leaves them.  As a context manager, around the
    run: numbers of optimizers that the user's code names (``group["lr"]``), and those in attributes of modules in which
    it stores, are traced ones, and what is put in their place is taken out again."""

    def __init__(self, capture: Capture, snapshot: Snapshot, leaves: Sequence[Any]) -> None:
        self._arrays = [x for x in (*leaves, *snapshot.arrays) if type(x) is np.ndarray]
        self._capture, self._known = capture, set(snapshot.graph.tensors)
        self._nodes = {id(n.obj): n for n in snapshot.graph.nodes}
        self.aliases: dict[int, Tensor] = {}  # others, which show memory from outside
        self.text_of: Callable[[Tensor, Source, Sequence[str]], str]  # the text of a tensor from outside
        self.tensors: dict[int, Tensor] = {}  # those that the run has left somewhere, by id
        self._memories: dict[int, MadeMemory] = {}  # by id of the buffer, or of a tensor that shares none
        self.named = named_numbers(snapshot)
        self.schedulers: list[Any] = []  # those that the run has called
        self.stand_ins: dict[int, Any] = {}  # for numbers of the state, by id of their nodes
        self.varying: dict[Atom, str] = {}  # stand-ins for numbers of the state that vary -> their labels
        self.late: dict[Var, Expression] = {}  # values that are there after such a call, and are no inputs of a kernel
        self._numbers: list[_Number] = []
        self._members: list[_ModuleAttribute] = []
        self._calls: list[tuple[Callable[..., Any], Any, tuple[Any, ...]]] = []

    def __enter__(self) -> Outside:
        self._capture.outside = self
        for group, key in self.named:
            self._numbers.append(_Number((group, key), group[key], self._capture.replace_number(group, key)))
        for node in self._nodes.values():
            for edge in node.edges:
                if edge.how == "member":
                    own, _, name = edge.arg
                    member = _ModuleAttribute(node, edge, own[name], self.stand_ins.get(id(edge.child), own[name]))
                    own[name] = member.given
                    self._members.append(member)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._capture.outside = None
        for number in self._numbers:
            number.after = number_at(number.place)
            _put(number.place, number.before)
        for member in self._members:
            own, registry, name = member.edge.arg
            member.after = own.get(name)
            if name not in own or isinstance(member.after, Parameter | Module) or name not in (registry or own):
                self._capture.refuse(Refusal.REPLAY_CHANGES, name=f"{member.owner.label}.{name}")
                member.after = member.given  # and it stays
            else:
                member.put(member.before)

    def objection(self) -> Reason | None:
        """Why the run can't be recorded: it did what has no recorded form, or reads memory that it writes by another
        tensor or array (a kernel reads everything before it writes)."""
        refused = unrecordable.last()
        if refused is not None:
            return Refusal.STEP_REFUSED(error=refused)
        root = self._capture.check_overlap(self._arrays)
        if root is None:
            return None
        recorder = self._capture.recorder
        return Refusal.STEP_SHARES(name=recorder.input_names[recorder.inputs.index(root.var)])

    # ---- calls of schedulers -------------------------------------------------------------------------------------

    def call(self, method: Callable[..., Any], scheduler: Any, args: tuple[Any, ...]) -> Any:
        """A call of a scheduler's *method*, ``step`` or ``get_last_lr``, which happens now as it will in a replay:
        nothing is recorded, and optimizers have their numbers."""
        node, groups = self._nodes.get(id(scheduler)), scheduler.optimizer.param_groups
        numbers = [n for n in self._numbers if any(n.place[0] is group for group in groups)]
        asks = method.__name__ == "get_last_lr"
        plain = all(type(a) in (int, float, type(None), TracedArray, Tensor) for a in args)
        settled = all(number_at(n.place) is n.traced for n in numbers) and not any(
            isinstance(group["lr"], Tensor) for group in groups
        )
        if node is None or node.kind != "pinned" or leads_to_effects(node) or not (plain and settled):
            self._capture.refuse(Refusal.STEP_SCHEDULER)
            return method(scheduler, *args)
        if asks:
            return self._rates(scheduler)
        own, before = dict(scheduler.__dict__), [dict(group) for group in groups]
        for number in numbers:
            _put(number.place, number.before)

        def undo() -> None:
            scheduler.__dict__.clear()
            scheduler.__dict__.update(own)
            for group, values in zip(groups, before, strict=True):
                group.update(values)

        self._capture.undone.append(undo)
        given = [self._plain(a) for a in args]
        STATE.capture = None
        try:
            with unwatched():  # what it does it does in each replay, too
                method(scheduler, *given)
        finally:
            STATE.capture = self._capture
            for number in numbers:
                number.before = number_at(number.place)
                group, key = number.place
                number.traced = self._later(number.before, _item(group, key))
                _put(number.place, number.traced)
        self._capture.rescheduled.update(map(id, groups))
        self._calls.append((method, scheduler, args))
        self.schedulers += [scheduler] * (scheduler not in self.schedulers)
        return None

    def _rates(self, scheduler: Any) -> list[Any]:
        """``get_last_lr()``, by numbers of the outside."""
        if scheduler not in self.schedulers:
            self._capture.refuse(Refusal.STEP_SCHEDULER)
        return [self._later(rate, _rate(scheduler, k)) for k, rate in enumerate(scheduler._last_lr)]

    def _later(self, value: Any, text: Expression) -> TracedArray:
        var = Var(Aval(FLOAT, (), weak=True))
        self._capture.recorder.env[var] = np.array(float(value))
        self.late[var] = text
        return TracedArray(var, self._capture.recorder)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return make(self._capture.value(self._capture.raw(value)))
        return self._capture.plain(value) if type(value) is TracedArray else value

    # ---- as ``OtherEffects`` in runtime/record/effects.py ----------------------------------------------------------

    def calls(self) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
        for method, scheduler, args in self._calls:
            yield method, (scheduler, *args)

    def places(self) -> Iterator[tuple[StateNode, Edge, Any]]:
        for member in self._members:
            by_value = isinstance(member.edge.child, Leaf) and is_leaf(member.after)
            if member.after is not member.given and not (by_value and unchanged(member.after, member.before)):
                yield member.owner, member.edge, member.after

    def stores(self) -> Iterator[tuple[tuple[Hashable, ...], Expression, Any]]:
        for number in self._numbers:
            group, key = number.place
            if number.after is not number.traced:
                yield (id(group), key), _item(group, key), number.after

    def write_back(self, plain: Callable[[Any], Any]) -> None:
        for number in self._numbers:
            if number.after is not number.traced:
                _put(number.place, plain(number.after))
        for member in self._members:
            if member.after is not member.given:
                member.put(plain(member.after))

    def expression(self, value: Any, result: Callable[[TracedArray], Known]) -> Known | None:
        if type(value) is TracedArray:
            late = self.late.get(value.atom) if isinstance(value.atom, Var) else None
            return None if late is None else (("late", list(self.late).index(value.atom)), late)  # type: ignore[arg-type]
        if not isinstance(value, Tensor):
            known = id(value) in map(id, self.schedulers)
            return (("object", id(value)), lambda source, texts: source.constant(value)) if known else None
        if type(value._data) is not TracedArray:
            known = id(value) in self._known
            return (("object", id(value)), lambda source, texts: source.constant(value)) if known else None
        is_grad = any(value is grad for _, grad in self._capture.grads.values())
        if type(value) is not Tensor or value._grad is not None or is_grad:
            return None
        shown = None if value._base is not None else self.shown(value)
        if shown is not None:
            name, alias = self.named_alias(value, shown)
            return ("memory", id(shown.args[0]), name), alias
        if any(root.traced._storage is value._data._storage for root in self._capture.roots):
            return None
        self.tensors[id(value)] = value
        memory = self.leaves(value)
        if len(memory.leaving) > 1:
            key, array = result(memory.base)
            memory.array = array
            key = (key, list(memory.leaving).index(id(value)))
        else:
            key, array = result(value._data)

        def made(source: Source, texts: Sequence[str]) -> str:
            if memory.array is None:
                return tensor_of(source, array(source, texts))
            return memory.text(value, source, memory.array(source, texts))

        return ("tensor", key), made

    def named_alias(self, t: Tensor, shown: Expression) -> tuple[str, Expression]:
        """(the name of a tensor that shows memory from outside, its expression, which makes it once)."""
        self.aliases[id(t)] = t
        name = f"a{list(self.aliases).index(id(t))}"

        def made(source: Source, texts: Sequence[str]) -> str:
            return made_once(source, name, shown(source, texts))

        return name, made

    def leaves(self, t: Tensor) -> MadeMemory:
        """The memory of a tensor that the run made, which leaves it."""
        alone = t._requires and t._base is not None  # its history is its own
        base, chain = (t._data, ()) if alone else self._capture.shown_by(t)
        memory = self._memories.setdefault(id(t) if alone else id(base._storage), MadeMemory(base, {}))
        memory.leaving[id(t)] = t, chain
        if t._base is None and not self._capture.is_alias(t):
            memory.owner = id(t)
        return memory

    def shown(self, t: Tensor) -> partial[str] | None:
        """The text of *t*, made by the run and without history, where it shows the memory of a tensor from outside."""
        base, chain = self._capture.raw(t if t._base is None else t._base), t._chain
        if self._capture.is_alias(t):
            base, chain = self._capture.shown_by(t)
        root = next((r for r in self._capture.roots if r.traced is base and r.owner is None), None)
        return None if root is None or t._requires else partial(self._shown, root.tensor, chain)

    def _shown(self, t: Tensor, chain: Any, source: Source, texts: Sequence[str]) -> str:
        shown = f"{source.constant(detach)}({self.text_of(t, source, texts)})"
        return f"{source.constant(views)}({shown}, {source.constant(chain)})" if chain else shown

    def behind(self, atoms: Sequence[Atom], nodes: Sequence[Node]) -> set[str]:
        """The numbers of the state that vary, of which these *atoms* are computed by the *nodes*."""
        read = read_vars(live_nodes(nodes, atoms), atoms) if self.varying else set()
        return {label for atom, label in self.varying.items() if atom in read}

    def reads_late(self, atoms: set[Var]) -> bool:
        """Whether a value of after a call is among these."""
        return not self.late.keys().isdisjoint(atoms)


def tensor_of(source: Source, result: str) -> str:
    """The name of the tensor over *result*, which is made once: it may be kept outside and returned, too."""
    name = f"t{result.partition('r[')[2].partition(']')[0]}"
    source.names.update(make=make, asarray=as_array)
    return made_once(source, name, f"make(asarray({result}))")


def _item(group: dict[str, Any], key: str) -> Expression:
    return lambda source, texts: f"{source.constant(group)}[{key!r}]"


def _rate(scheduler: Any, k: int) -> Expression:
    return lambda source, texts: f"{source.constant(scheduler)}._last_lr[{k}]"


def _put(place: Sequence[Any], value: Any) -> None:
    place[0][place[1]] = value
