"""Expressions for what a run has left somewhere: plain NumPy would have left the same there.

An expression is over the kernel's results, the arguments and constants.  An object that was there before the run is
found by the way on which the run has found it; what the run has made is made anew.
"""

from __future__ import annotations

import abc
import cmath
import math
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...tracer.ir.aval import is_number
from ...tracer.ir.own_attributes import dict_of, slots
from ...tracer.ir.refusals import Reason
from ...tracer.numpy_api.python_builtins import KnownType
from ...tracer.record.array import STAND_INS, TracedArray
from ...tracer.record.integers import TracedInt
from ...tracer.record.made_arrays import MadeArray
from ...tracer.record.shown_names import AsValue, KnownModule
from ...tracer.record.shown_text import Shown, TextOfValues, Texts
from ..record.call_key import OBJECT, Call
from ..record.complex_data import text_of
from ..record.effects import Effects, Expression, Known, OtherValues, OutsideEffect
from ..record.held_values import holds_traced
from ..record.sinks import SINKS
from ..record.trees import Source, made_once
from ..state.objects import keeps_c_state
from ..state.own_items import CONTENTS, OwnItems
from ..state.state_graph import Leaf, StateGraph, StateNode
from ..state.values import is_leaf, is_nan, nans_in, state_token, token

_NANS = math.nan, cmath.nan, cmath.nanj, np.nan
_SHOWN = (AsValue, KnownModule, KnownType)  # in place of what the user's names mean
_MAX_DEPTH = 20


@dataclass(slots=True, frozen=True)
class Route:
    """The way to an object: ``key`` names it, ``text`` is an expression for it.  *fixed*: it gives the same object
    whatever is stored."""

    key: tuple[Hashable, ...]
    text: Expression
    fixed: bool = False


def ways_of(graph: StateGraph, call: Call) -> dict[int, Route]:
    """The ways to the nodes of the graph, by id."""
    ways: dict[int, Route] = {}
    queue: deque[StateNode] = deque()

    def reach(child: Any, way: Route) -> None:
        if isinstance(child, StateNode) and id(child) not in ways:
            ways[id(child)] = way
            queue.append(child)

    root = graph.roots[0]
    if isinstance(root, StateNode):
        reach(root, Route(("fn",), constant_of(root.obj), True))
    places = [k for k, kind in enumerate(call.kinds) if kind == OBJECT]
    for place, object_root in zip(places, graph.roots[1:], strict=True):
        reach(object_root, Route((place,), _leaf(place), True))
    while queue:
        node = queue.popleft()
        for edge in node.edges:
            by_identity = isinstance(edge.child, StateNode) and edge.child.kind in ("class", "pinned")
            if (by_identity or edge.how == "const") and isinstance(edge.child, StateNode):  # it can't change
                step: Route | None = constant_way(edge.child.obj)
            else:
                step = _step(ways[id(node)], edge.how, edge.arg)
            if step is not None:
                reach(edge.child, step)
    return ways


def objects_without_parts(graph: StateGraph) -> dict[int, Route | None]:
    """The ways to what has no parts and is compared by identity (``MISSING = object()``), by id: it is a constant."""
    leaves = [edge.child for node in graph.nodes for edge in node.edges if isinstance(edge.child, Leaf)]
    alone = [leaf.value for leaf in leaves if not (leaf.by_value or is_leaf(leaf.value))]
    return {id(value): constant_way(value) for value in alone}


def constant_way(value: Any) -> Route:
    """The way to an object that is always this one."""
    return Route(("object", id(value)), constant_of(value), True)


def _step(way: Route, how: str, arg: Any) -> Route | None:
    """The way to a part; None where it has no text."""
    if how == "items":
        return way
    if how == CONTENTS:
        return Route((*way.key, how), called(OwnItems, way.text))
    if how == "class":
        cls, name = arg
        return Route(("class", id(cls), name), written(f"{{}}.{name}", constant_of(cls)))
    if how == "global":
        space, name = arg
        return Route(("global", id(space), name), item_of(constant_of(space), name))
    if how == "cell":
        return Route(("cell", id(arg)), contents_of(arg))
    if how == "attr" and arg.isidentifier():
        return Route((*way.key, "." + arg), written(f"{{}}.{arg}", way.text))
    if how in ("item", "key") and type(arg) in (int, str):
        return Route((*way.key, arg), written("{}[{}]", way.text, literal(repr(arg))))
    if how == "key" and not is_leaf(arg):  # a key that is compared by identity
        return Route((*way.key, id(arg)), item_of(way.text, arg))
    return None


def constant_of(value: Any) -> Expression:
    return lambda source, texts: source.constant(value)


def literal(text: str) -> Expression:
    return lambda source, texts: text


def written(form: str, *parts: Expression) -> Expression:
    """*form* with the texts of *parts* in it."""
    return lambda source, texts: form.format(*[part(source, texts) for part in parts])


def called(function: Any, *values: Expression) -> Expression:
    return written(f"{{}}({', '.join(['{}'] * len(values))})", constant_of(function), *values)


def _leaf(place: int) -> Expression:
    return lambda source, texts: f"args[{place}]" if texts[0] == "*args" else texts[place]


def item_of(place: Expression, name: Any) -> Expression:
    return written("{}[{}]", place, constant_of(name))


def contents_of(cell: types.CellType) -> Expression:
    return written("{}.cell_contents", constant_of(cell))


def known_by(names: tuple[Hashable, ...], form: str, *parts: Known | None) -> Known | None:
    """The expression *form* with *parts* in it, whose key begins with *names*; None where a part has no expression."""
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    return (*names, *[key for key, _ in found]), written(form, *[text for _, text in found])


def sequence_of(kind: type, parts: Sequence[Known | None]) -> Known | None:
    form = "{}, " * len(parts)
    return known_by((kind,), f"[{form}]" if kind is list else f"({form})", *parts)


@dataclass(slots=True)
class _Made:
    """An object that the run has made and that is kept in more than one place, if it is *shared*."""

    value: Any
    name: str
    shared: bool = False


#: classes -> what is called with which makes an object like another one
_BUILT_OF: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    OrderedDict: lambda d: (dict(d),), Counter: lambda d: (dict(d),), deque: lambda q: (list(q), q.maxlen),
    defaultdict: lambda d: (d.default_factory, dict(d)), slice: lambda s: (s.start, s.stop, s.step),
}  # fmt: skip


class ValueExpressions:
    """Expressions for values that a run has left somewhere: plain NumPy would have left the same there.

    *found_at*: the ways to the objects that the run has found, by id; None where there is none.  ``taken``: statements
    that take such objects from where they are, before anything else is done."""

    def __init__(
        self, effects: Effects, given: Any, inputs: dict[int, TracedArray], texts: Texts,
        found_at: dict[int, Route | None], others: OtherValues | None, graph: StateGraph,
    ) -> None:  # fmt: skip
        self._graph = graph
        self.known_as: Callable[[Any], Any] = lambda value: value  # gives the array for which one stands
        self.taken_over: Callable[[Any], Any] | None = None  # gives NumPy's form of a result that has another
        self._effects, self._texts, self.others = effects, texts, others
        self._results: dict[int, tuple[TracedArray, int]] = {}  # id of a traced array -> (it, position of its value)
        self._found_at = found_at
        self._made: dict[int, _Made] = {}  # what the run has made, by id
        self._plains: dict[int, tuple[Any, Any]] = {}  # id of an array that the code made -> (it, the plain one)
        self._inputs = {id(one): k for k, one in enumerate(inputs.values())}
        self._leaves = {id(leaf): k for k, leaf in reversed(list(enumerate(given.leaves)))}
        self.originals: dict[int, Any] = dict(given.originals)  # id of a replacement in the run -> the original
        self.taken: list[OutsideEffect] = []

    def refuse(self, reason: Reason) -> None:
        """Something can't be done again."""
        self._effects.refused.append(reason)

    def expression(self, value: Any, depth: int = 0) -> Known | None:
        """(a key that is equal for the same expression, the expression); None where there is none."""
        value = self.known_as(value)
        if (given := self._of_call(value)) is not None:
            return given
        if type(value) is TracedInt:
            value = value.array()
        if type(value) in STAND_INS:
            value = value.decided()
        if type(value) is TracedArray:
            return self._result(value)
        if isinstance(value, MadeArray) or type(value) in _SHOWN:
            value = self._plains.setdefault(id(value), (value, value.plain()))[1]
        if type(value) is str or type(value) is TextOfValues:
            return self.text(value)
        marked = type(value) is tuple and bool(self._texts.shown)
        made = self._made.get(id(value))
        if made is not None:
            made.shared = True
            return ("made", made.name), literal(made.name)
        if is_leaf(value) and not marked:
            if (constant := self.constant(value)) is not None:
                return constant
            if is_nan(value):
                return self._shareable(value, (("nan", token(value)), called(_another, constant_of(value))))
        found = self.found(value)
        if found is not None:
            return found
        if depth < _MAX_DEPTH and id(value) not in self._found_at and id(value) not in self.originals:
            self._found_at[id(value)] = None  # in case it holds itself
            found = self._new(value, depth + 1)
            del self._found_at[id(value)]
            if found is not None:
                return found if isinstance(value, tuple) else self._shareable(value, found)
        return None if self.others is None else self.others.expression(value, self._array)

    def _of_call(self, value: Any) -> Known | None:
        """The same of what the run was given: an argument, or an input from outside."""
        place = self._leaves.get(id(value))
        if place is not None and (type(value) is TracedArray or not is_leaf(value)):
            return ("leaf", place), _leaf(place)
        known = self._inputs.get(id(value))
        if known is None:
            return None
        array = literal(f"arrays[{known}]")
        return ("input", known), called(int, array) if type(value) is TracedInt else array

    @property
    def made(self) -> set[int]:
        """The ids of what the run has made that has an expression."""
        return {*self._made, *[key for key, (_, plain) in self._plains.items() if id(plain) in self._made]}

    def constant(self, value: Any) -> Known | None:
        """The expression for a leaf that is the same in each replay; None where the run has made a NaN in it, which
        containers tell from those of other runs."""
        if (nans := nans_in(value)) and not self._found_nans.issuperset(map(id, nans)):
            return None
        return ("constant", state_token(value)), constant_of(value)

    @cached_property
    def _found_nans(self) -> set[int]:
        """The ids of the NaNs that the run has found outside."""
        children = [edge.child for node in self._graph.nodes for edge in node.edges]
        leaves = [child.value for child in children if isinstance(child, Leaf) and is_leaf(child.value)]
        keys = [node.extra for node in self._graph.nodes if is_leaf(node.extra)]
        return {id(nan) for leaf in [*_NANS, *leaves, *keys] for nan in nans_in(leaf)}

    def found(self, value: Any) -> Known | None:
        """The expression for an object that was there before the run: it is taken from its place at once."""
        original = self.originals.get(id(value), value)
        way = self._found_at.get(id(original))
        return None if way is None else self.taken_from(way)

    def place_of(self, owner: Any) -> Known | None:
        """The expression for what does an effect: an object that was there before the run, or one of ours; None where
        it was found on a way that has no text."""
        known = self.found(owner)
        if known is None and id(owner) not in self._found_at:
            return ("object", id(owner)), constant_of(owner)
        return known

    def way_to(self, value: Any) -> Route:
        """The way to an object that was there before the run."""
        way = self._found_at[id(value)]
        assert way is not None
        return way

    def taken_from(self, way: Route) -> tuple[tuple[Hashable, ...], Expression]:
        """The key and the expression for the object on that way, which is taken from its place at once."""
        if way.fixed:
            return way.key, way.text
        key, name = ("found", way.key), f"found{len(self.taken)}"
        for k, effect in enumerate(self.taken):
            if effect.key == key:
                name = f"found{k}"
                break
        else:
            self.taken.append(OutsideEffect(key, literal(name), way.text, "{} = {}"))
        return key, literal(name)

    def _shareable(self, value: Any, found: Known) -> Known:
        """The expression *found* of a new object, which gives it a name if it is met again."""
        made = self._made[id(value)] = _Made(value, f"made{len(self._made)}")
        key, text = found

        def named(source: Source, texts: Sequence[str]) -> str:
            return f"({made.name} := {text(source, texts)})" if made.shared else text(source, texts)

        return key, named

    def _new(self, value: Any, depth: int) -> Known | None:
        """The expression for an object that the run has made."""
        kind = type(value)
        if kind in (tuple, list) or _is_named_tuple(value):
            joined = sequence_of(list if kind is list else tuple, [self.expression(part, depth) for part in value])
            return joined if kind in (tuple, list) else _made_by(tuple.__new__, kind, joined)
        if kind is dict:
            return self._mapping(value, depth)
        if kind in _BUILT_OF:
            given = self.expression(_BUILT_OF[kind](value), depth)
            return known_by(("built",), "{}(*{})", (id(kind), constant_of(kind)), given)
        if kind is np.ndarray and is_number(value.dtype):
            content = (value.dtype, value.shape, value.tobytes())
            return ("array", content), written("{}.copy()", constant_of(value.copy()))
        if kind is types.BuiltinMethodType and type(value.__self__) in SINKS:
            name = value.__name__
            return known_by(("method", name), f"{{}}.{name}", self.expression(value.__self__, depth))
        if _is_plain_object(value):
            store = self._mapping(dict(dict_of(value) or ()), depth)
            lying = {name: getattr(value, name) for name in slots(kind) if hasattr(value, name)}
            return _made_by(_new_object, kind, store, *([self._mapping(lying, depth)] if lying else []))
        return None

    def _mapping(self, value: dict[Any, Any], depth: int) -> Known | None:
        parts = [self.expression(x, depth) for pair in value.items() for x in pair]
        return known_by(("dict",), "{{" + "{}: {}, " * len(value) + "}}", *parts)

    def text(self, text: str) -> tuple[Hashable, Expression]:
        """The expression for a text with traced arrays in it."""
        pieces = self._texts.pieces(text)
        if len(pieces) == 1:
            return ("constant", token(text)), constant_of(text)
        keys: list[Hashable] = []
        parts: list[Expression] = []
        for piece in pieces:
            if isinstance(piece, str):
                keys.append(piece)
                parts.append(constant_of(piece))
            else:
                key, value = self._result(piece.value)
                keys.append((key, piece.how, piece.spec))
                parts.append(called(Shown(None, piece.how, piece.spec).write, value))
        return ("text", tuple(keys)), written(f"''.join(({'{}, ' * len(parts)}))", *parts)

    def _result(self, value: TracedArray) -> tuple[Hashable, Expression]:
        known = None if self.others is None else self.others.expression(value, self._array)
        if known is not None:
            return known
        key, result = self._array(value)
        if not value.aval.weak:
            return key, result
        if value.aval.is_complex:
            return (key, "number"), result
        number: type = {"f": float, "b": bool}.get(value.aval.dtype.kind, int)
        return (key, "number"), called(number, result)  # (faster than its method `item`)

    def _array(self, value: TracedArray) -> tuple[Hashable, Expression]:
        known = self._results.get(id(value))
        if known is None:
            known = self._results[id(value)] = value, len(self._effects.arrays)
            self._effects.arrays.append(value)
        position, aval, taken_over = known[1], value.aval, self.taken_over

        def text(source: Source, texts: Sequence[str]) -> str:
            place = source.results[position]
            if taken_over is None:
                return text_of(aval, source, f"r[{place}]")
            return text_of(aval, source, made_once(source, f"n{place}", f"{source.constant(taken_over)}(r[{place}])"))

        return ("result", position), text


def _another(nan: Any) -> Any:
    """Another object that is the same NaN."""
    return nan + 0


def _made_by(function: Any, kind: type, *parts: Known | None) -> Known | None:
    """The expression for an object of *kind* that *function* makes of *parts*."""
    known = (function.__name__, constant_of(function)), (id(kind), constant_of(kind))
    return known_by(("object",), f"{{}}({{}}{', {}' * len(parts)})", *known, *parts)


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields") and not dict_of(value)


def _is_plain_object(value: Any) -> bool:
    """Whether all of an object is in its attributes, so that one with equal attributes is like it."""
    kind = type(value)
    if kind is types.SimpleNamespace:
        return True
    if kind.__module__.partition(".")[0] == "tracegrad":
        return False
    if "<locals>" in kind.__qualname__ and holds_traced(
        [part for one in kind.__mro__[:-1] for part in vars(one).values()]
    ):
        return False  # a class of the run's, whose methods read its variables
    plain = type(kind) in (type, abc.ABCMeta) and not keeps_c_state(kind) and not hasattr(kind, "__del__")
    return plain and type(dict_of(value) or {}) is dict and not weakref.getweakrefcount(value)


def _new_object(kind: Any, store: dict[str, Any], others: dict[str, Any] | None = None) -> Any:
    made = kind() if kind is types.SimpleNamespace else object.__new__(kind)
    if store:
        made.__dict__.update(store)
    for name, value in (others or {}).items():
        object.__setattr__(made, name, value)
    return made
