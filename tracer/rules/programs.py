"""Rules as programs: Python of the user's that gives cotangents or tangents, recorded once for a call's shapes.

    reverse    operands, results, cotangents of the results -> cotangents of the operands
    forward    operands, results, tangents of the operands  -> tangents of the results

A ``RuleProgram`` is a closed graph.  What the rule reads from outside becomes operands of its node, so the node can
stand in the body of a loop, in a batch, and in a run that is kept for other modes; equal programs are one, so a Python
loop that calls the function is rolled.  Where the rule asks for values (``if x > 0``) it is ``PythonRule`` instead,
which runs in the recording whenever a derivative is taken.  The backward of an ``autograd.Function`` is such a rule.

A rule may call its own function.  Of the same operands that is the result, which is known.  Of others it is a node
with the very program that is being recorded: derivatives of any order unfold it as often as they need.  Of tangents
(``f(t)``, of a linear f) it is the function without a rule, as in JAX: the transpose of its rule would be its own.

Derivatives by way of anything but the operands are errors, as in JAX: a rule says nothing of what the function closes
over.  Constants from outside are operands for that reason, and the values, which depend on no operand: the function
runs on ``stop_gradient`` of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..control.sub_program import FunctionRecorder
from ..ir.aval import COMPLEX, Aval
from ..ir.equality import same_graph
from ..ir.errors import DifferentiationError, UnrecordableError, UnsupportedError, unrecordable
from ..ir.graph import Atom, Graph, Lit, Node, Var, building, current_builder, structural
from ..ir.interrupts import kept
from ..ir.site import Site
from ..ops.closure_conversion import inlined
from ..ops.complex import conjugate, put_together, taken_apart
from ..ops.elementwise import broadcast_to
from ..ops.host_call import HostFunction, host_call
from ..ops.shape import zeros
from ..record.recorder import Recorder, recording, require_recorder

REVERSE, FORWARD = "reverse", "forward"
DEPTH = 2  # programs within programs that are recorded at once
# of operands, results, and cotangents or tangents, to those of the other side; None for zero, or a function that gives
# it, or raises its error, where it is wanted
Apply = Callable[[list[Atom], list[Atom], list[Atom]], Sequence[Any]]


class Layout(NamedTuple):
    """Avals of the operands and of the floating results between which a rule maps."""

    direction: str
    operands: tuple[Aval, ...]
    outs: tuple[Aval, ...]

    @property
    def given(self) -> list[Aval]:
        """Avals of the cotangents or tangents that the rule gets: integers have none."""
        avals = self.outs if self.direction == REVERSE else self.operands
        return [Aval(a.dtype, a.shape) for a in avals if a.is_inexact]

    @property
    def lanes(self) -> int:
        return sum(map(_width, self.operands))


class OwnRule:
    """A rule, or a push, of values that have no other derivative (``ops/custom.py``).

    The operands of its node are the lanes of the function's, the ``consts`` from outside, and the values."""

    closed: bool
    strict = True  # whether a derivative by way of what the rule says nothing of is an error, or zero
    layout: Layout
    label: str
    site: Site | None
    consts: list[Var]

    @property
    def missing(self) -> dict[int, Deferred]:
        """The errors of a forward rule where a tangent is given for what it has none of, by number."""
        return {}

    def __call__(self, given: Sequence[Atom | None], outs: Sequence[Var], atoms: Sequence[Atom]) -> list[Any]:
        layout, lanes = self.layout, self.layout.lanes
        operands, consts = atoms[:lanes], self.own_consts(atoms[lanes : len(atoms) - len(outs)])
        if layout.direction == FORWARD:
            self.refuse_others(given)
            given = [t for t, a in zip(given, operands, strict=False) if a.aval.is_float]
        avals = [lane for aval in layout.given for lane in _lane_avals(aval)]
        whole = [_materialised(x, aval) for x, aval in zip(given, avals, strict=True)]
        found = self.applied(operands, consts, outs, whole)
        if layout.direction == FORWARD:
            for k, error in self.missing.items():
                if given[k] is not None:
                    error()
            return found
        return [*found, *self.of_others(len(atoms) - lanes)]

    def own_consts(self, consts: Sequence[Atom]) -> Sequence[Atom]:
        """Those of the *consts* of a node that are this rule's: there may be another rule with its own."""
        count = len(self.consts)
        return consts[:count] if self.layout.direction == REVERSE else consts[len(consts) - count :]

    def refuse_others(self, tangents: Sequence[Atom | None]) -> None:
        """Raise an error where there are *tangents* by way of what the rule says nothing of, if it is strict."""
        if self.strict and any(t is not None for t in tangents[self.layout.lanes :]):
            self._refuse()

    def of_others(self, count: int) -> list[Any]:
        """The cotangents of *count* values of which the rule says nothing."""
        return [self._refuse if self.strict else None] * count

    def applied(
        self, operands: Sequence[Atom], consts: Sequence[Atom], outs: Sequence[Var], given: Sequence[Atom]
    ) -> list[Atom | None]:
        """The cotangents or tangents, of lanes."""
        raise NotImplementedError

    def _refuse(self) -> NoReturn:
        raise DifferentiationError.here(
            f"a derivative of {self.label} with respect to a value that it closes over, or has by "
            "nondiff_argnums: its rule is one for its other arguments; pass that value as one, or stop_gradient of it",
            self.site,
        )


def _width(aval: Aval) -> int:
    return 2 if aval.is_complex else 1


def _lane_avals(aval: Aval) -> list[Aval]:
    return [Aval(COMPLEX[aval.dtype], aval.shape)] * 2 if aval.is_complex else [aval]


def _materialised(x: Atom | None, aval: Aval) -> Atom:
    if x is None:
        return zeros(aval.shape, aval.dtype) if aval.shape else structural(0, aval.dtype)
    return broadcast_to(x, aval.shape) if isinstance(x, Lit) and aval.shape else x


def _whole(lanes: Sequence[Atom], avals: Sequence[Aval]) -> list[Atom]:
    return put_together(lanes, [Var(aval) for aval in avals])


def _applied(layout: Layout, apply: Apply, operands: Any, outs: Any, given: Any) -> list[Atom | None]:
    """The lanes of what *apply* gives.  Cotangents of complex values are those of JAX: conjugates of the gradients."""
    reverse = layout.direction == REVERSE
    seeds = _whole(given, layout.given)
    seeds = [conjugate(x) if reverse and x.aval.is_complex else x for x in seeds]
    found = apply(_whole(operands, layout.operands), _whole(outs, layout.outs), seeds)
    lanes: list[Atom | None] = []
    for x, aval in zip(found, layout.operands if reverse else layout.outs, strict=True):
        if x is None or not aval.is_inexact:
            lanes += [None] * _width(aval)
        elif not isinstance(x, (Var, Lit)):
            lanes += [x] * _width(aval)
        else:
            lanes += taken_apart([conjugate(x) if reverse and x.aval.is_complex else x])
    return lanes


class Deferred:
    """Raises an *error*, of a part of a rule, where that part is wanted."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        if isinstance(error, UnrecordableError):
            unrecordable.discard(error)

    def __call__(self) -> NoReturn:
        if isinstance(self.error, UnrecordableError):
            unrecordable.add(self.error)
        raise self.error.with_traceback(None)

    def __eq__(self, other: object) -> bool:
        return type(other) is Deferred and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, str]:
        return type(self.error), str(self.error)


@dataclass(eq=False, slots=True)
class PythonRule(OwnRule):
    """A rule that asks for values: it runs in the recording whenever a derivative is taken."""

    label: str
    layout: Layout
    apply: Apply
    site: Site | None
    consts: list[Var] = field(default_factory=list)
    closed = False

    @property
    def missing(self) -> dict[int, Deferred]:
        return getattr(self.apply, "missing", {})

    def applied(
        self, operands: Sequence[Atom], consts: Sequence[Atom], outs: Sequence[Var], given: Sequence[Atom]
    ) -> list[Atom | None]:
        recorder = require_recorder(f"the rule of {self.label}")
        prepares = recorder.outermost().prepares
        apply = self.apply if prepares is None else prepares(self.apply)
        return _applied(self.layout, apply, operands, outs, given)


class LaterRule(PythonRule):
    """A rule within the rule of a rule: a program only where a derivative is taken, since rules may call functions with
    rules without end.  ``key`` tells others apart."""

    __slots__ = ("key",)
    closed = True

    def __init__(self, label: str, layout: Layout, apply: Apply, site: Site | None, key: Any) -> None:
        super().__init__(label, layout, apply, site)
        self.key = key

    def applied(
        self, operands: Sequence[Atom], consts: Sequence[Atom], outs: Sequence[Var], given: Sequence[Atom]
    ) -> list[Atom | None]:
        if not isinstance(current_builder(), Recorder):
            raise DifferentiationError.here(
                f"this takes a derivative of the rule of {self.label} in a batch or in the body of a loop, and the "
                "rule calls functions with rules: take it outside",
                self.site,
            )
        return super().applied(operands, consts, outs, given)

    def __eq__(self, other: object) -> bool:
        return type(other) is LaterRule and (self.layout, self.key) == (other.layout, other.key)

    def __hash__(self) -> int:
        return hash((self.layout, self.key))


@dataclass(eq=False, slots=True)
class FailedRule(OwnRule):
    """A rule that has raised *error* when it was recorded: so does a derivative."""

    label: str
    layout: Layout
    site: Site | None
    error: Deferred
    consts: list[Var] = field(default_factory=list)
    closed = True

    def applied(
        self, operands: Sequence[Atom], consts: Sequence[Atom], outs: Sequence[Var], given: Sequence[Atom]
    ) -> list[Any]:
        self.error()

    def __eq__(self, other: object) -> bool:
        return type(other) is FailedRule and (self.layout, self.error) == (other.layout, other.error)

    def __hash__(self) -> int:
        return hash((self.layout, self.error))


class RuleProgram(OwnRule):
    """A rule as a graph of the lanes of its operands, its consts, the results, and what is given for these."""

    __slots__ = ("_error", "_hash", "_missing", "consts", "graph", "label", "layout", "present", "site")
    closed = True
    graph: Graph

    def __init__(self, label: str, layout: Layout, site: Site | None) -> None:
        self.label, self.layout, self.site, self.consts = label, layout, site, []
        self._hash = hash((label, layout))
        self._error: Callable[[], Exception] | None = None
        self._missing: dict[int, Deferred] = {}
        self.present: list[Any] = []  # True for each that the rule gives, None, or a function that raises its error

    def record(self, parent: Recorder, apply: Apply, opened: Callable[..., Any]) -> None:
        """Record *apply*; *opened*: a context in which that is done, of the recorder, the variables for operands and
        results, and the lanes of those for what is given."""
        body = FunctionRecorder(parent, 0, f"the rule of {self.label}")
        if may_ask(parent) and not parent.stand_ins.rows:
            body.choices = None  # a rule that asks is none of its own; a second run would be made for nothing
        layout = self.layout
        operands, outs, given = (
            [body.fresh(a) if a.is_complex else body.variable(a) for a in avals]
            for avals in (layout.operands, layout.outs, layout.given)
        )
        lanes = [taken_apart(x) for x in (operands, outs, given)]
        with recording(body), opened(body, operands, outs, lanes[2]):
            found = _applied(layout, apply, lanes[0], lanes[1], lanes[2])
            self._missing = getattr(apply, "missing", {})
            outputs = [x for x in found if isinstance(x, (Var, Lit))]
            held, self._error = body.held(f"the rule of {self.label}", self.site)
        with building(parent):
            closed = body.close([v for part in lanes for v in part], {}, [*outputs, *held])  # type: ignore[misc]
        self.present, self.consts = [isinstance(x, (Var, Lit)) or x for x in found], closed.consts
        inside, inputs = closed.graph.inputs[: len(self.consts)], closed.graph.inputs[len(self.consts) :]
        count = len(lanes[0])
        self.graph = Graph([*inputs[:count], *inside, *inputs[count:]], closed.graph.nodes, closed.graph.outputs)
        if inside:
            self._pass_consts(inside)

    @property
    def missing(self) -> dict[int, Deferred]:
        return self._missing

    def _pass_consts(self, consts: Sequence[Var]) -> None:
        """Give the consts to nodes of the graph with this very program, which did not know of them."""
        count, lanes = len(taken_apart([Var(a) for a in self.layout.outs])), self.layout.lanes
        for node in self.graph.nodes:
            if node.params.get(_param(self)) is self:
                place = count + lanes  # before the values, of which there are as many as results
                node.inputs = (*node.inputs[:place], *consts, *node.inputs[place:])
            elif "body" in node.params and _calls(self, node.params["body"].nodes):
                raise UnsupportedError.here(
                    f"the rule of {self.label} calls it within a loop and closes over arrays: pass these as arguments",
                    self.site,
                )

    def applied(
        self, operands: Sequence[Atom], consts: Sequence[Atom], outs: Sequence[Var], given: Sequence[Atom]
    ) -> list[Atom | None]:
        results = inlined(self.graph, [*operands, *consts, *outs, *given])
        if self._error is not None:
            held = results.pop()
            builder = current_builder()
            if isinstance(builder, Recorder):
                builder.rely(held, self._error)
            elif results:
                results[0] = self._checked(held, results[0])
        rest = iter(results)
        return [next(rest) if there is True else there for there in self.present]

    def _checked(self, held: Atom, x: Atom) -> Atom:
        """*x*, which is an error where the rule does not hold what it relies on: in the body of a loop."""
        assert self._error is not None
        error = self._error

        def check(held: np.ndarray, x: np.ndarray) -> np.ndarray:
            if not held:
                raise error()
            return x

        aval = Aval(x.aval.dtype, x.aval.shape)
        function = HostFunction(check, [aval], f"the rule of {self.label}", rule=_last, key=("held", self.label))
        return host_call(function, [held, x], relied=False)[0]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not RuleProgram or (self.label, self.layout) != (other.label, other.layout):
            return False
        mine, its = getattr(self, "graph", None), getattr(other, "graph", None)
        pair = (id(self), id(other))
        if mine is None or its is None or (self.present, self._missing) != (other.present, other._missing):
            return False
        if pair in _compared():  # a program that calls itself
            return True
        _compared().add(pair)
        try:
            return same_graph(mine, its)
        finally:
            _compared().discard(pair)

    def __hash__(self) -> int:
        return self._hash


def may_ask(recorder: Recorder) -> bool:
    """Whether a rule that asks for values can do so, where it is no program."""
    return recorder.parent is None and not recorder.arms


def _param(rule: OwnRule) -> str:
    return "rule" if rule.layout.direction == REVERSE else "push"


def _calls(rule: RuleProgram, nodes: Sequence[Node]) -> bool:
    return any(
        n.params.get(_param(rule)) is rule or ("body" in n.params and _calls(rule, n.params["body"].nodes))
        for n in nodes
    )


def _last(cts: Sequence[Atom | None], outs: Sequence[Var], operands: Sequence[Atom]) -> list[Atom | None]:
    return [None, cts[0]]


_state = threading.local()


def _compared() -> set[tuple[int, int]]:
    """Pairs of programs whose comparison is going on."""
    if not hasattr(_state, "compared"):
        _state.compared = set()
    return _state.compared


kept(lambda: set(_compared()), lambda before: _compared().intersection_update(before))
