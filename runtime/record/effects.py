"""Effects of a recorded run on the outside, which a replay does again once its kernel has succeeded.

Start reading at ``find_effects``.  The run has had copies of the places that it changes and does not read otherwise
(``state/effect_places.py``); each becomes an ``OutsideEffect``: a counter goes up by what it has gone up by, an
attribute gets the value that the program computes, a list grows by what the run has put into an empty one.  A value is
an expression over the kernel's results, the arguments and constants (``_Values``).  An owner is found anew in each
call, by the way on which the function reaches it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ...tracer.ir.aval import is_number
from ...tracer.ir.graph import Atom, Lit, Var
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.record.array import TracedArray, to_atom
from ...tracer.record.integers import TracedInt
from ...tracer.record.reports import Report
from ...tracer.record.shown_text import Shown, Texts
from ..state.effect_places import place_of
from ..state.rebuild import Substitution
from ..state.state_graph import Edge, Leaf, StateGraph, StateNode
from ..state.uses import COUNT
from ..state.values import is_leaf, token
from .arguments import Arguments
from .call_key import OBJECT, Call
from .trees import Source

MAX_RESULTS = 200  # values that effects may add to the results of a program
Expression = Callable[[Source, Sequence[str]], str]  # of the leaves' texts; ``r`` are the kernel's results


class OtherEffects(Protocol):
    """The effects that a library above has beside these, of one run, which happens within this context."""

    def __enter__(self) -> Any: ...
    def __exit__(self, *given: Any) -> None: ...

    def calls(self) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
        """(function, arguments) of calls that have happened already, and happen again in a replay."""

    def stores(self) -> Iterator[tuple[tuple[Hashable, ...], Expression, Any]]:
        """(a key of the place, the expression for it, the value that the run has put there)."""

    def write_back(self, plain: Callable[[Any], Any]) -> None:
        """Do these stores at once; *plain* gives values their final form."""

    def expression(
        self, value: Any, result: Callable[[TracedArray], tuple[Hashable, Expression]]
    ) -> tuple[Hashable, Expression] | None:
        """(a key that is equal for the same expression, the expression) of *value*, if the library knows it; *result*
        gives them for a traced array."""


@dataclass(slots=True, frozen=True)
class OutsideEffect:
    """One statement: *before* ``place`` *between* ``value`` *after*.  ``key`` is equal for the same effect; what it
    names by id is kept alive by ``place``.  *sink*: the class of a container whose contents are not looked at."""

    key: Hashable
    place: Expression
    value: Expression
    form: str
    sink: type | None = None
    again: bool = True

    def write(self, source: Source, texts: Sequence[str], recorded: bool) -> None:
        """Append the statement; *texts[k]* is leaf k of the call.  Where this very run is *recorded*, too, if it is to
        be done *again*: it has had copies."""
        statement = self.form.format(self.place(source, texts), self.value(source, texts))
        if self.again or not recorded:
            source.lines.append(statement)


@dataclass(slots=True)
class Effects:
    """The effects of a run; ``arrays`` are the traced arrays that they need, at ``indices`` of the graph's results.
    ``refused``: changes that can't be done again.  ``transient``: they change what a replay depends on.
    ``write_back`` has them take effect at once, for a run that is not kept."""

    effects: list[OutsideEffect] = field(default_factory=list)
    arrays: list[TracedArray] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    refused: list[Reason] = field(default_factory=list)
    transient: Reason | None = None
    write_back: Callable[[], None] = lambda: None

    def place(self, atoms: list[Atom], returned: dict[int, int]) -> None:
        """Append what is needed to *atoms*; *returned*: the index there of each traced array, by id, that the function
        has returned."""
        for array in self.arrays:
            self.indices.append(returned.get(id(array), len(atoms)))
            if self.indices[-1] == len(atoms):
                atoms.append(to_atom(array))
        self.effects = [replace(effect, key=(effect.key, *self.indices)) for effect in self.effects]


def find_effects(
    call: Call, graph: StateGraph, given: Arguments, substitution: Substitution, inputs: dict[int, TracedArray],
    texts: Texts | None, others: OtherEffects | None = None,
) -> Effects:  # fmt: skip
    """The effects of a run that had the arguments *given* and the copies of *substitution*; *inputs*: the stand-ins for
    the arrays and numbers of the state, in order, by the ids of their nodes; *texts*: those that it has printed."""
    found = Effects()
    known = {id(node.obj) for node in graph.nodes} | given.containers
    values = _Values(found, given, inputs, texts, known, others)
    for function, args in () if others is None else others.calls():
        arguments = values.expression(args)
        assert arguments is not None
        found.effects.append(
            OutsideEffect(
                ("call", id(function), arguments[0]), _constant(function), arguments[1], "{}(*{})", again=False
            )
        )
    ways = _ways(graph, call)
    not_counters: set[tuple[str, str]] = set()
    # an object is replaced last, since what else was done to its parts was done to it
    for owner, edge, value in sorted(substitution.effects(), key=lambda found: _replaces_object(found[1])):
        way, place = ways.get(id(owner)), None if edge is None else place_of(owner, edge)
        counts = edge is not None and isinstance(edge.child, Leaf) and edge.child.effect == COUNT
        if counts and place and type(value) is not int:
            not_counters.add(place)
        made = None if way is None else list(_effects(owner, edge, value, way, values))
        label = owner.label if edge is None or type(edge.arg) is not str else f"{owner.label}.{edge.arg}"
        if made is None or any(effect is None for effect in made) or call.device is not None:
            found.refused.append(Refusal.REPLAY_CHANGES(name=label))
        else:
            found.effects += [effect for effect in made if effect is not None]
            if edge is not None and (
                _replaces_object(edge) or (isinstance(edge.child, Leaf) and not edge.child.effect)
            ):
                found.transient = Refusal.REPLAY_CHANGES(name=label)
    for at, text, value in () if others is None else others.stores():
        stored = values.expression(value)
        if stored is None:
            found.refused.append(Refusal.REPLAY_CHANGES(name=str(at[-1])))
        else:
            found.effects.append(OutsideEffect(("store", at, stored[0]), text, stored[1], "{} = {}"))
    for printed in () if texts is None else texts.printed:
        if isinstance(printed, Report):
            report = _report(printed, values)
            if report is None:
                found.refused.append(Refusal.REPLAY_CHANGES(name=f"{type(printed.owner).__name__}.{printed.name}"))
            else:
                found.effects.append(report)
            continue
        written, as_text = values.text(printed.text)
        rest = f", end={printed.end!r}, flush={printed.flush}"
        found.effects.append(OutsideEffect(("print", written, rest), _constant(print), as_text, f"{{}}({{}}{rest})"))
    if texts is not None and len(found.arrays) > MAX_RESULTS:
        found.refused.append(Refusal.CALLS_PRINT(what=f"{len(texts.printed)} texts", site="its definition"))
    if not_counters:
        raise NotCountersError(not_counters)
    return found


class NotCountersError(Exception):
    """``places`` hold an int, and are counted up by something else: the recording is to be made again, for places that
    are read."""

    def __init__(self, places: set[tuple[str, str]]) -> None:
        self.places = places


def _replaces_object(edge: Edge | None) -> bool:
    """Whether something is stored in place of an object that is compared part by part."""
    return edge is not None and isinstance(edge.child, StateNode) and edge.child.kind not in ("array", "number")


# ---- places --------------------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class _Way:
    """The way to an object: ``key`` names it, ``text`` is an expression for it."""

    key: tuple[Hashable, ...]
    text: Expression


def _ways(graph: StateGraph, call: Call) -> dict[int, _Way]:
    """The ways to the nodes of the graph, by id."""
    ways: dict[int, _Way] = {}
    queue: deque[StateNode] = deque()

    def reach(child: Any, way: _Way) -> None:
        if isinstance(child, StateNode) and id(child) not in ways:
            ways[id(child)] = way
            queue.append(child)

    root = graph.roots[0]
    if isinstance(root, StateNode):
        reach(root, _Way(("fn",), _constant(root.obj)))
    places = [k for k, kind in enumerate(call.kinds) if kind == OBJECT]
    for place, object_root in zip(places, graph.roots[1:], strict=True):
        reach(object_root, _Way((place,), _leaf(place)))
    while queue:
        node = queue.popleft()
        for edge in node.edges:
            if edge.fixed:
                continue
            if edge.how == "const" and isinstance(edge.child, StateNode):  # it can't change
                step: _Way | None = _Way(("object", id(edge.child.obj)), _constant(edge.child.obj))
            else:
                step = _step(ways[id(node)], edge.how, edge.arg)
            if step is not None:
                reach(edge.child, step)
    return ways


def _step(way: _Way, how: str, arg: Any) -> _Way | None:
    """The way to a part; None where it has no text."""
    if how == "global":
        space, name = arg
        return _Way(("global", id(space), name), lambda source, texts: f"{source.constant(space)}[{name!r}]")
    if how == "cell":
        return _Way(("cell", id(arg)), lambda source, texts: f"{source.constant(arg)}.cell_contents")
    if how in ("attr", "store") and arg.isidentifier():
        return _Way((*way.key, "." + arg), lambda source, texts: f"{way.text(source, texts)}.{arg}")
    if how in ("item", "key") and type(arg) in (int, str):
        return _Way((*way.key, arg), lambda source, texts: f"{way.text(source, texts)}[{arg!r}]")
    return None


def _constant(value: Any) -> Expression:
    return lambda source, texts: source.constant(value)


def _text(text: str) -> Expression:
    return lambda source, texts: text


def _called(function: Expression, value: Expression) -> Expression:
    return lambda source, texts: f"{function(source, texts)}({value(source, texts)})"


def _leaf(place: int) -> Expression:
    return lambda source, texts: f"args[{place}]" if texts[0] == "*args" else texts[place]


def _effects(
    owner: StateNode, edge: Edge | None, value: Any, way: _Way, values: _Values
) -> Iterator[OutsideEffect | None]:
    """The effects on one place; None where one can't be done again."""
    if edge is None:
        yield _growth(owner, value, way, values)
        return
    place = _step(way, edge.how, edge.arg)
    counted = values.counted(edge, value)
    if place is None:
        yield None
    elif counted is not None:
        yield OutsideEffect(("count", place.key, counted), place.text, _text(repr(counted)), "{} += {}")
    elif edge.stored or edge.how == "store":
        stored = values.expression(value)
        yield (
            None if stored is None else OutsideEffect(("store", place.key, stored[0]), place.text, stored[1], "{} = {}")
        )
    elif isinstance(edge.child, Leaf) and type(value) is int:
        count = value - edge.child.value
        yield OutsideEffect(("count", place.key, count), place.text, _text(repr(count)), "{} += {}")
    else:
        yield None


def _report(report: Report, values: _Values) -> OutsideEffect | None:
    """The effect of a log record or a warning; None where its arguments can't be made again."""
    args, kwargs = values.expression(report.args), values.expression(report.kwargs)
    if args is None or kwargs is None:
        return None
    key = (report.key, args[0], kwargs[0])
    call: Expression = lambda source, texts: f"{source.constant(report.owner)}.{report.name}"  # noqa: E731
    if report.caller is None:
        return OutsideEffect(key, call, args[1], "{}(*{})")
    given: Expression = lambda s, texts: f"{call(s, texts)}, {args[1](s, texts)}, {kwargs[1](s, texts)}"  # noqa: E731
    return OutsideEffect(key, _constant(report.caller), given, "{}({})")


def _growth(sink: StateNode, contents: Any, way: _Way, values: _Values) -> OutsideEffect | None:
    """The effect of putting *contents* into a container."""
    if isinstance(contents, dict) and len(contents) == 1 and type(name := next(iter(contents))) is str:
        stored = values.expression(contents[name])
        form = f"{{}}[{name!r}] = {{}}"
        return stored and OutsideEffect(("item", way.key, name, stored[0]), way.text, stored[1], form, type(sink.obj))
    found = [values.expression(part) for part in (contents.items() if isinstance(contents, dict) else contents)]
    parts = [one for one in found if one is not None]
    if len(parts) < len(found):
        return None
    key = "grow", way.key, tuple([part for part, _ in parts])
    if isinstance(contents, list | deque) and len(parts) == 1:
        return OutsideEffect(key, way.text, parts[0][1], "{}.append({})", type(sink.obj))
    method = "extend" if isinstance(contents, list | deque) else "update"
    return OutsideEffect(
        key, way.text,
        lambda source, texts: "(" + "".join([f"{text(source, texts)}, " for _, text in parts]) + ")",
        f"{{}}.{method}({{}})", type(sink.obj),
    )  # fmt: skip


# ---- values --------------------------------------------------------------------------------------------------------


class _Values:
    """Expressions for values that a run has left somewhere: plain NumPy would have left the same there."""

    def __init__(
        self, effects: Effects, given: Arguments, inputs: dict[int, TracedArray], texts: Texts | None,
        known: set[int], others: OtherEffects | None,
    ) -> None:  # fmt: skip
        self._effects, self._given, self._texts, self._others = effects, given, texts, others
        self._stand_ins = inputs
        self._results: dict[int, tuple[TracedArray, int]] = {}  # id of a traced array -> (it, position of its value)
        self._known = known  # ids of containers that the run has found, or that have been met
        self._inputs = {id(one): k for k, one in enumerate(inputs.values())}
        self._leaves = {id(leaf): k for k, leaf in reversed(list(enumerate(given.leaves)))}

    def expression(self, value: Any, depth: int = 0) -> tuple[Hashable, Expression] | None:
        """(a key that is equal for the same expression, the expression); None where there is none."""
        place = self._leaves.get(id(value))
        if place is not None and (type(value) is TracedArray or not is_leaf(value)):
            return ("leaf", place), _leaf(place)
        known = self._inputs.get(id(value))
        if known is not None:
            array = _text(f"arrays[{known}]")
            return ("input", known), _called(_constant(int), array) if type(value) is TracedInt else array
        if type(value) is TracedInt:
            value = value.array()
        if type(value) is TracedArray:
            return self._result(value)
        if type(value) is str:
            return self.text(value)
        marked = type(value) is tuple and self._texts is not None and bool(self._texts.shown)
        if is_leaf(value) and not marked:
            return ("constant", token(value)), _constant(value)
        if type(value) in (tuple, list) and depth < 20 and self._is_new(value):
            parts = [self.expression(part, depth + 1) for part in value]
            return _joined(type(value), [part for part in parts if part is not None], len(parts))
        if type(value) is dict and depth < 20 and self._is_new(value) and all(map(is_leaf, value)):
            pairs = self.expression(list(value.items()), depth + 1)
            if pairs is not None:
                return ("dict", pairs[0]), lambda source, texts: f"{source.constant(dict)}({pairs[1](source, texts)})"
        if type(value) is np.ndarray and is_number(value.dtype) and self._is_new(value):
            content = (value.dtype, value.shape, value.tobytes())
            kept = value.copy()
            return ("array", content), lambda source, texts: f"{source.constant(kept)}.copy()"
        return None if self._others is None else self._others.expression(value, self._array)

    def counted(self, edge: Edge, value: Any) -> int | None:
        """The number by which an int that is an input has gone up to *value*; None where that is not all."""
        if not (isinstance(edge.child, StateNode) and edge.child.kind == "number" and type(edge.child.obj) is int):
            return None
        before = self._stand_ins.get(id(edge.child))
        return _increment(value, before) if type(value) is type(before) is TracedInt else None

    def text(self, text: str) -> tuple[Hashable, Expression]:
        """The expression for a text with traced arrays in it."""
        pieces = [text] if self._texts is None else self._texts.pieces(text)
        if len(pieces) == 1:
            return ("constant", token(text)), _constant(text)
        keys: list[Hashable] = []
        parts: list[Expression] = []
        for piece in pieces:
            if isinstance(piece, str):
                keys.append(piece)
                parts.append(_constant(piece))
            else:
                key, value = self._result(piece.value)
                keys.append((key, piece.how, piece.spec))
                parts.append(_called(_constant(Shown(None, piece.how, piece.spec).write), value))
        return (
            "text",
            tuple(keys),
        ), lambda source, texts: f"''.join(({', '.join([p(source, texts) for p in parts])},))"

    def _is_new(self, value: Any) -> bool:
        """Whether *value* was made by this run and is met for the first time, or is a tuple, where nobody can tell."""
        new = type(value) is tuple or (id(value) not in self._known and id(value) not in self._given.originals)
        self._known.add(id(value))
        return new

    def _result(self, value: TracedArray) -> tuple[Hashable, Expression]:
        known = None if self._others is None else self._others.expression(value, self._array)
        if known is not None:
            return known
        key, result = self._array(value)
        if not value.aval.weak:
            return key, result
        return (key, "item"), lambda source, texts: f"{result(source, texts)}.item()"

    def _array(self, value: TracedArray) -> tuple[Hashable, Expression]:
        known = self._results.get(id(value))
        if known is None:
            known = self._results[id(value)] = value, len(self._effects.arrays)
            self._effects.arrays.append(value)
        position, effects = known[1], self._effects
        return ("result", position), lambda source, texts: f"r[{effects.indices[position]}]"


def _increment(value: TracedInt, before: TracedInt) -> int | None:
    """The constant by which *value* is more than *before*; None where it is not known."""
    makers = {out: node for node in value.recorder.nodes for out in node.outs}
    total, atom = 0, value.atom
    while atom is not before.atom:
        node = makers.get(atom) if isinstance(atom, Var) else None
        if node is None or node.prim.name not in ("add", "sub"):
            return None
        x, y = node.inputs
        if isinstance(x, Lit) and node.prim.name == "add":
            x, y = y, x
        if not isinstance(y, Lit):
            return None
        total += int(y.value) if node.prim.name == "add" else -int(y.value)
        atom = x
    return total


def _joined(kind: type, parts: list[tuple[Hashable, Expression]], count: int) -> tuple[Hashable, Expression] | None:
    if len(parts) < count:
        return None
    start, end = ("[", "]") if kind is list else ("(", ")")
    return (
        kind,
        tuple([key for key, _ in parts]),
    ), lambda source, texts: start + "".join([f"{text(source, texts)}, " for _, text in parts]) + end


__all__ = ["Effects", "Expression", "NotCountersError", "OtherEffects", "OutsideEffect", "find_effects"]
