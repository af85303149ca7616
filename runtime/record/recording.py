"""Recordings of runs of the user's Python, and their equality.

A ``Recording`` is a run that is ready for a kernel: its graph with the
derivative, the expression for the user's results, and the run's ``Effect`` objects.  ``Pieces`` are a run that is not
yet differentiated.

How a replay reads its inputs and takes effect stands in the methods of a recording as Python text, of which
``paths/fast_path.py`` makes slots.  Those here are for functions of arrays; a library of tensors overrides them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import optree

from ...codegen.lower.canonical import Canonical
from ...tracer.ir.evaluate import Env
from ...tracer.ir.graph import Atom, Graph, Guard, Node, Var
from ...tracer.ir.refusals import Reason
from ...tracer.record.recorder_parts import Answered
from ..mode import VALUE, Mode
from ..state.snapshot import Snapshot
from .arguments import shows_memory
from .call_key import ARRAY, COMPLEX_DATA, DATA, INTEGER, TENSOR, Call
from .complex_data import taker
from .derived import DerivedInputs
from .draws import Draws, put_back, saved
from .effects import OutsideEffect
from .outputs import Output, Whole
from .trees import Source


@dataclass(frozen=True, slots=True)
class Look:
    """How a run is recorded that is to be looked at only.  *abstract*: the leaves of the call that have a shape and a
    dtype, and no value.  *as_recorded*: without rolling and simplification."""

    abstract: frozenset[int] = frozenset()
    as_recorded: bool = False


def are_twins(one: Mode, other: Mode) -> bool:
    """Whether two modes are parts of one program: the gradient alone, and with the value."""
    return one != other and VALUE not in (one.kind, other.kind) and replace(one, kind=other.kind) == other


class Effect(Protocol):
    """Something that a run has done outside.  A replay does it again once its kernel has succeeded, in the order of
    ``Recording.effects``."""

    @property
    def key(self) -> Hashable:
        """Equal for the same effect on the same objects (by id: an effect keeps them alive)."""

    def write(self, source: Source, texts: Sequence[str], recorded: bool) -> None:
        """Append the statements that take effect.  In them ``r`` are the kernel's results, *texts[k]* is leaf k of the
        call.  *recorded*: this very run has been recorded, so what its Python did at once is done."""


@dataclass(slots=True, eq=False)
class Held:
    """A traced array of a run that is over; *given*: the expression for the object of the caller that it stood for."""

    atom: Atom
    given: str | None = None


@dataclass(slots=True, eq=False)
class UserRun:
    """A run of the user's Python: what the recordings of all modes have in common.

    Where it is kept, it is so as it was before its derivative was taken, and holds no values but constants.  *leaves*
    of the result and *arrays* that effects need are ``Held``.  What stands before them is found by the first recording
    that is made of it."""

    arguments: dict[int, Var]  # inputs by the leaves of the call
    draws: int = 0  # draws from the default stream of random numbers
    questions: tuple[Answered, ...] = ()  # put to the outside
    inputs: list[Var] | None = None
    names: list[str] = field(default_factory=list)
    derived: DerivedInputs | None = None
    drawn: Draws | None = None
    nodes: list[Node] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    consts: list[tuple[Var, np.ndarray]] = field(default_factory=list)
    notes: list[str | Reason] = field(default_factory=list)
    capacities: list[int] = field(default_factory=list)  # of rolled loops
    leaves: list[Any] = field(default_factory=list)
    structure: Any = None
    effects: list[OutsideEffect] = field(default_factory=list)
    arrays: list[Held] = field(default_factory=list)
    differentiable: bool = False  # whether it was looked for gradients that the run would have lost


@dataclass(slots=True)
class Recording:
    graph: Graph
    canonical: Canonical
    arguments: int  # graph inputs that are arguments or captured arrays; the rest are constants
    captured: list[np.ndarray]  # values of the captured arrays; emptied when the recording has been used
    output: Output
    numbers: list[Guard]  # guards on floats, by their bits: the last results of the graph
    names: list[str]  # the user's expressions for the graph's inputs
    changes: list[Reason] = field(default_factory=list)
    capacities: tuple[int, ...] = ()  # capacities of its loops
    notes: tuple[str | Reason, ...] = ()  # decisions about its loops
    seconds: dict[str, float] = field(default_factory=dict)
    draws: int = 0  # draws from the default stream of random numbers, whose state is then the last captured array
    effects: Sequence[Effect] = ()
    transient: Reason | None = None  # its effects change what it is kept under
    derived: DerivedInputs | None = None
    drawn: Draws | None = None  # from generators outside; their values are the last inputs
    questions: tuple[Answered, ...] = ()  # put to the outside: they have the same answers in a replay
    run: UserRun | None = None  # from which those of other modes are derived
    origin: Mode | None = None  # the mode from whose recording this one is derived, without running Python
    holds_alike: bool = False  # whether the derivative rests on no value of the run
    bound: list[Any] = field(default_factory=list)  # the path of a live recording, once there is one
    log: Snapshot | None = None  # what a logged run has read, until the recording has been used
    exact: ClassVar[bool] = False  # whether operands are laid out as the recording's, as the kernel writes into them

    def twin(self, captured: list[Any]) -> Recording | None:
        """The same run for the gradient alone where this is for value and gradient, and the other way round, where the
        inputs after the arguments are *captured*."""
        other = self.output.twin
        if other is None:
            return None
        return replace(self, captured=captured, output=replace(other, twin=replace(self.output, twin=None)))

    @property
    def plain(self) -> bool:
        """Whether a replay gives the kernel's results as they are, and does nothing else."""
        return self.output.text is None and not self.effects

    @property
    def relies_on(self) -> Hashable:
        """Where the inputs are read, and the ``premises``."""
        return self.premises

    @property
    def premises(self) -> Sequence[Hashable]:
        """The facts that it relies on beside the call key, the outside state and the guards."""
        made = [part.key for part in (self.derived, self.drawn) if part is not None]
        return (*self.questions, *made)

    def enter(self, source: Source) -> None:
        """Append the conditions that a slot checks before it looks at the arguments.  ``known`` is a list of the
        slot's own that the dispatcher keeps (``Family.known``)."""

    def check(self, source: Source, call: Call, texts: Sequence[str]) -> None:
        """Append the conditions that a slot checks beside the call key, the outside state and the guards; *texts* as in
        :meth:`Effect.write`.  Here: what only grows, so that nobody looks at it, is none of the arguments."""
        sinks = [e.sink for e in self.effects if isinstance(e, OutsideEffect) and e.sink is not None]
        for place, value in enumerate(call.arguments[0] if sinks else ()):
            own = [f"args[{place}]", *[t for t, leaf in zip(texts, call.leaves, strict=False) if leaf is value]]
            for sink in sinks:
                if sink.kind is type(value) and (there := sink.place(source, texts)) not in own:
                    source.give_up_if(f"args[{place}] is {there}")
        shown = [f"args[{k}]" for k in range(len(call.leaves))] if texts == ["*args"] else texts
        for sink in [sink for sink in sinks if sink.kind is np.ndarray]:
            for text, kind in zip(shown, call.kinds, strict=True):
                if kind in (ARRAY, COMPLEX_DATA, TENSOR):
                    source.give_up_if(f"{source.constant(shows_memory)}({text}, {sink.place(source, texts)})")
        for question in self.questions:
            source.give_up_if(f"not {source.constant(question.holds)}()")
        if self.derived is not None:
            source.lines.append(f"arrays = {source.constant(self.derived)}(arrays)")
            source.give_up_if("arrays is None")
        if self.drawn is not None:
            self._draw(source, call, texts, shown)

    def _draw(self, source: Source, call: Call, texts: Sequence[str], shown: Sequence[str]) -> None:
        """Append the statements that draw, once it is known that the kernel takes the arguments."""
        assert self.drawn is not None
        for text, leaf, kind in zip(shown, call.leaves, call.kinds, strict=False):
            if kind == ARRAY:
                source.give_up_if(f"{source.constant(type)}({text}) is not {source.constant(np.ndarray)}")
                shape, dtype = source.constant(leaf.shape), source.constant(leaf.dtype)
                source.give_up_if(f"{text}.shape != {shape} or {text}.dtype != {dtype}")
            elif kind in DATA:
                source.give_up_if(f"{source.constant(type)}({text}) is not {source.constant(type(leaf))}")
        owners = ", ".join([place(source, texts) for place in self.drawn.places])
        known = "arrays" if self.arguments > len(call.data) + len(self.drawn.first) else "()"
        source.names["drawn"] = self.drawn
        source.lines.append(f"owners = {owners},")
        if self._may_undraw:
            source.names["put_back"] = put_back
            source.lines.append(f"before = {source.constant(saved)}(owners)")
        source.lines.append(f"arrays = drawn.drawn({known}, *owners)")
        if self._may_undraw:
            source.lines.append("if arrays is None: put_back(owners, before); return MISS")

    @property
    def _may_undraw(self) -> bool:
        """Whether a replay may find that another recording holds when it has drawn."""
        drawn = self.drawn
        return drawn is not None and bool(self.graph.guards or self.numbers or drawn.may_differ)

    def operands(self, source: Source, call: Call, texts: Sequence[str]) -> list[str]:
        """The texts of the kernel's operands, but for the state of the default stream; ``arrays`` are those of the
        outside state."""
        data = []
        for text, leaf, kind in zip(texts, call.leaves, call.kinds, strict=False):
            if kind == COMPLEX_DATA:
                lanes = source.fresh()
                source.lines.append(f"{lanes} = {source.constant(taker(leaf))}({text})")
                source.give_up_if(f"{lanes} is None")
                data.append(lanes)
            elif kind in DATA or text == "*args":
                data.append(f"{text} + 0.0" if kind == INTEGER else text)
        return [*data, "*arrays"] if self.arguments > len(call.data) + bool(self.draws) else data

    def arrays_among(self, call: Call) -> str:
        """The text of the arrays of the outside state, over ``values``, the kernel's operands."""
        return f"values[{len(call.data)}:]"

    def launch(self, source: Source, statement: str) -> str:
        """Append the *statement* that runs the kernel; returns those that undo a run that misses."""
        source.lines.append(statement)
        return "put_back(owners, before); " if self._may_undraw else ""

    def result(self, source: Source, texts: Sequence[str], operands: Sequence[str]) -> str:
        """The text of the user's result."""
        source.names.update(self.output.names)
        return self.output.over(texts)

    def arrays(self, captured: Sequence[Any]) -> Sequence[Any] | None:
        """The inputs after the arguments, for these arrays of the outside state; None where they are of other types."""
        if not all(question.holds() for question in self.questions):
            return None
        return captured if self.derived is None else self.derived(tuple(captured))

    def values(self, call: Call, arrays: Sequence[Any]) -> list[Any]:
        """The operands as they are now; *arrays* with the state of the stream, if it draws."""
        return [*call.operands, *arrays]

    def release(self) -> None:
        """Release the values of the run."""
        self.captured.clear()
        if self.drawn is not None:
            self.drawn.release()
        self.log = None

    @property
    def facts(self) -> list[tuple[str, bytes]]:
        """The guards that control flow relied on, as comparable (kind, bytes)."""
        return [(g.kind, g.answer) for g in (*self.graph.guards, *self.numbers)]


@dataclass(slots=True, eq=False)
class Pieces:
    """A run of the user's Python, not yet differentiated, for ``segments.py`` to cut."""

    nodes: list[Node]
    guards: list[Guard]  # in the order of the run
    sources: list[Var]  # inputs and constants
    env: Env  # values of the sources, and of whatever Python asked for
    results: list[Atom]
    loss: Atom | None  # the scalar to differentiate, if gradients are wanted
    wrt: list[Var]  # the sources that gradients are taken of
    gradients: list[Var]  # placeholders of the gradients among the results
    output: Output
    changes: list[Reason]  # reasons why it can't be replayed

    def assembled(self, found: tuple[Any, ...], leaves: Sequence[Any]) -> Any:
        """The user's result from the values of the graph's results and the leaves of the call."""
        return self.output.function()(found, leaves)


def equal_statics(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(type(x) is type(y) and _equal(x, y) for x, y in zip(a, b, strict=True))


def _equal(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if isinstance(x, np.ndarray):
        return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()
    if isinstance(x, float):
        return np.float64(x).tobytes() == np.float64(y).tobytes()
    return isinstance(x, (int, str, bytes, bool, np.generic, optree.PyTreeSpec, Whole)) and bool(x == y)
