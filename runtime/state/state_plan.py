"""Outside state: values that a callable reads besides its arguments, their guards, and replacement of their arrays.

Two data structures: ``StatePlan`` (one per function and class of its objects; start reading there) and ``Snapshot``
(the state at one moment: a key, the arrays, a fast checker). The parts:

``code_scan.py``     possible reads of a code object, from its bytecode
``values.py``   immutable values: tokens for keys, sameness
``trust.py``    library code, impure functions, objects with hidden state
``state_graph.py``    the state as a graph
``walk.py``     the walk that makes it (``modules.py``, ``objects.py``: its parts)
``pins.py``     classes and dicts, compared by the interpreter's versions and by identity
``readers.py``  functions that read attributes by computed names
``checker.py``    key and checker from the graph
``rebuild.py``  the same callable over other arrays
``watch.py``    the code that really ran

Nothing here knows the tracer: it is plugged in as the callback of ``StatePlan.substitute``.
"""

from __future__ import annotations

import builtins
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...tracer.bytecode.identity import (
    asks_identity,
    asks_identity_of_parts,
    asks_int_identity,
    asks_truth_identity,
    compared_numbers,
)
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.numpy_api.hooks import hook_loaded
from ...tracer.record.float_errors import sets_float_errors
from ...tracer.record.integers import ITEMS
from ...tracer.record.retry import Options
from .checker import REGISTRATIONS, Checker, Digest, digest, is_constant
from .kept_list import LENGTH, WHOLE, Part
from .rebuild import Substitution
from .seeded_draws import may_seed
from .state_graph import Leaf, Names, StateGraph, StateNode
from .trust import Trust
from .uses import READ
from .values import is_nan
from .walk import build, reached
from .watch import Watch

_MAX_LEARNED = 32  # names of what runs change
_BY_NAME = (Refusal.STATE_OPAQUE, Refusal.CALLS_NAMES, Refusal.CALLS_INTERPRETER, Refusal.STATE_COMPUTED)
_HOLDS = frozenset(("cell", "const", "attr", "class", "item", "key"))


class Snapshot:
    """The outside state at one moment.

    ``key`` stands for everything guarded by value; ``arrays`` are read again each call: their dtypes, shapes and
    layouts (C-contiguous, or the strides) are in the key, their contents are not. ``check(*objects)`` is the fast path:
    the arrays as they are now, in the same order, or None if the state is another one. ``read(*objects)`` leaves out
    the test of dtypes, shapes and layouts, for a caller that tests these arrays like its arguments.
    """

    check: Checker
    read: Checker
    __slots__ = (
        "_digest", "_kept", "_trail", "array_names", "arrays", "check", "graph", "inputs", "key", "numbers", "read",
        "reasons",
    )  # fmt: skip

    def __init__(self, made: Digest, inputs: list[StateNode], graph: StateGraph) -> None:
        self._digest = made
        self.graph = graph  # once released, an empty one
        self._kept: list[tuple[StateGraph, list[StateNode]]] = []  # as it was until released, with the inputs
        self._trail = made.trail
        self.key = made.key
        self.inputs = inputs  # the nodes of ``arrays`` (until released)
        self.arrays: tuple[np.ndarray, ...] = tuple([node.obj for node in inputs])
        self.array_names = made.names
        self.reasons: list[Reason] = graph.reasons
        self.numbers = graph.numbers

    @property
    def provable(self) -> bool:
        return not self.reasons

    def __getattr__(self, name: str) -> Checker:
        """``check`` and ``read`` are compiled when they are first asked for."""
        if name == "check":
            self.check = self._digest.checker(self._digest.full)
            return self.check
        if name == "read":
            self.read = self._digest.checker(self._digest.light)
            return self.read
        raise AttributeError(name)

    def reading(self, objects: Sequence[str], otherwise: str) -> list[str]:
        """The statements that do as ``read`` of these texts: they set ``arrays``, if there are any, or return
        *otherwise*.  For a :meth:`function`."""
        digest = self._digest
        given = [f"{name} = {text}" for name, text in zip(digest.parameters, objects, strict=True)]
        found = [f"arrays = {digest.found}"] if self.array_names else []
        return [*given, *digest.reading(digest.light, otherwise), *found]

    def function(self, head: str, lines: list[str], names: dict[str, Any]) -> Callable[..., Any] | None:
        """A function of these *lines*, with :meth:`reading` among them, and of *names*; None if one of these is a name
        that the state is read by."""
        made = self._digest.function(head, lines, names)
        return None if self._digest.hides(made.__code__) else made

    def unchanged(self, objects: Sequence[Any]) -> bool:
        """Whether the state is still this one, with the same arrays and numbers in it."""
        now = self.check(*objects)
        return now is not None and all(
            a is b or (type(b) is int and a == b) for a, b in zip(now, self.arrays, strict=True)
        )

    def release(self) -> None:
        """Let go of the user's arrays and objects; key, names and checker stay, and a graph that holds nothing else
        than what the checker does."""
        graph, self.graph = self.graph, StateGraph()
        if graph.roots and self.provable and is_constant(graph, self.inputs):
            for node in self.inputs:
                node.obj = None
            self._kept.append((graph, self.inputs))
        self.arrays, self.inputs = (), []

    def again(self, names: Names, arrays: Sequence[Any]) -> Snapshot | None:
        """This state with *arrays*, as ``check`` has found it, without a walk by *names*; None where one has to be
        made, and once this has been asked."""
        try:
            graph, inputs = self._kept.pop()
        except IndexError:
            return None
        if graph.names is not names:
            return None
        for node, array in zip(inputs, arrays, strict=True):
            node.obj = array
        found = Snapshot(self._digest, inputs, graph)
        found.check = self.check
        return found


class StatePlan:
    """The outside state of a callable: everything that it can read besides its arguments.

    ``provable`` is False where that can't be known, with ``reasons`` that name the user's lines; then Python must run
    each time. Reasons found by ``watch`` while running stay; reasons found in the state (a generator in a global) go
    when the state does.
    """

    def __init__(
        self, fn: Callable[..., Any], labels: tuple[str, ...] = (), effects: bool = False,
        classes: tuple[type, ...] = (), holders: bool = False,
    ) -> None:  # fmt: skip
        """:param labels: names of the objects among the arguments that are no data.
        :param effects: a change of a place that the function does not read otherwise (``Substitution.effects``) is no
            reason to run its Python in each call.
        :param classes: those of arguments that are taken apart (named tuples).
        :param holders: the caller makes inputs of the tensors in places where the function stores others."""
        self.fn = fn
        self._classes = classes
        self._labels = labels
        self._trust = Trust()
        self._names = Names(effects=effects, holders=holders)
        self._static: list[Reason] = []
        self._found: list[Reason] = []
        self._codes: dict[int, types.CodeType] = {}
        self._caught: set[types.CodeType] = set()
        # Whether the code may ask if two values are one object, if a value is the object that a whole number in it is,
        # or True or False; and whether it may have NumPy raise floating-point errors.
        self.asks_identity = self.asks_int_identity = self.asks_truth_identity = self.sets_float_errors = False
        self.told: set[str] = set()  # warnings that have been given
        self.copied = False  # whether runs are those of copies, which names do not suffice for (record/live_run.py)
        self.trusts = True  # whether no run has met a matrix that has no inverse, or no factors
        self.rows_apart: set[Any] = set()  # code of functions whose batches are run row by row (transforms/vmap.py)
        self.leaves: bool | None = None  # whether some run has left traced arrays in places of the state; None: no run

    @property
    def trust(self) -> Trust:
        """Which code is the user's."""
        return self._trust

    @property
    def replays_effects(self) -> bool:
        return self._names.effects

    @property
    def reasons(self) -> list[Reason]:
        return list(dict.fromkeys(self._static + self._found))

    @property
    def provable(self) -> bool:
        return not self._static and not self._found

    @property
    def writes_by_name(self) -> bool:
        """Whether the code may write under names that are not in it, or in modules that it finds at run time: by
        ``vars()``, ``__dict__``, ``sys.modules`` and the like."""
        return any(reason.code in _BY_NAME for reason in self.reasons)

    @property
    def hides(self) -> bool:
        """Whether the walk over the state ends at something that it can't look into."""
        return any(str(reason.code).startswith("state/") for reason in self.reasons)

    @property
    def codes(self) -> Collection[types.CodeType]:
        """The code that the function may reach."""
        return self._codes.values()

    def floats(self, state: Iterable[StateNode]) -> set[float]:
        """The floats that stand in the code, and in places of the *state*."""
        values = [x for code in self._codes.values() for x in code.co_consts]
        values += [edge.child.value for node in state for edge in node.edges if isinstance(edge.child, Leaf)]
        parts = [part for x in values for part in (x if type(x) in (tuple, frozenset) else (x,))]
        return {float(x) for x in parts if isinstance(x, float)}

    # ---- the state now

    def snapshot(self, objects: tuple[Any, ...] = (), after: Snapshot | None = None) -> Snapshot:
        """The state as it is now, for these objects.  *after*: the state before a run, whose traced arrays have yet to
        be taken out."""
        now = self._names
        names = (now if after is None else after.graph.names).copy()
        hook_loaded()
        graph = build(self.fn, tuple(objects), self._labels_of(objects), self._trust, names, self._classes)
        if graph.codes.keys() != self._codes.keys() and hook_loaded(graph.codes.values()):
            return self.snapshot(objects, after)
        if self._names is now and (after is None or after.graph.names is now):  # another thread may have learned more
            self._names = graph.names
        self._static = [r for r in graph.reasons if not (after is not None and r.code is Refusal.STATE_TRACED)]
        if graph.codes.keys() != self._codes.keys():
            codes = graph.codes.values()
            self.asks_identity = any(map(asks_identity, codes))
            self.asks_int_identity = any(map(asks_int_identity, codes))
            self.asks_truth_identity = any(map(asks_truth_identity, codes))
            self.sets_float_errors = any(map(sets_float_errors, codes))
            self.copied |= _holds_type(graph, self._trust)
        self._codes = graph.codes
        return Snapshot(*digest(graph), graph)

    def _labels_of(self, objects: Sequence[Any]) -> tuple[str, ...]:
        """Names of these objects: those given, or else of the first parameters."""
        if len(self._labels) == len(objects):
            return self._labels
        code = getattr(self.fn, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if isinstance(code, types.CodeType) else ()
        return tuple([names[i] if i < len(names) else f"object {i}" for i in range(len(objects))])

    def again(self, known: Snapshot, arrays: Sequence[Any], objects: tuple[Any, ...] = ()) -> Snapshot:
        """The state as it is now, which is that of a *known* snapshot with these *arrays*."""
        return (None if self.asks_identity else known.again(self._names, arrays)) or self.snapshot(objects)

    def after(self, before: Snapshot, objects: tuple[Any, ...]) -> Snapshot:
        """The state after a run: *before* itself, unless the run has changed what is guarded."""
        if before.provable and before.graph.names is self._names and before.unchanged(objects):
            return before
        return self.snapshot(objects, before)

    def reached(self, objects: tuple[Any, ...] = (), whole: bool = False) -> list[StateNode]:
        """The objects of the state, where no more is asked: the function's Python runs in each call.  Of those inside
        installed packages no more than a few, but for the *whole* of it."""
        names = self._names.copy()
        return reached(self.fn, tuple(objects), self._labels_of(objects), self._trust, names, whole)

    @property
    def known_of_code(self) -> object:
        """The findings of runs about the code: another object after each of them."""
        return self._names

    def _revised(self) -> Names:
        """The names, to be changed: a graph that was made by them before is none of now."""
        self._names = self._names.copy()
        return self._names

    def follow(self, options: Options) -> None:
        """Make further runs by what one has learned."""
        self.trusts &= options.trusts
        self.rows_apart |= options.apart
        self.copied |= options.copies
        if options.contents or options.counters:
            names = self._revised()
            names.contents |= options.contents
            for place in options.counters:
                names.uses.setdefault(place, set()).add(READ)
        if options.refused is not None:
            self.refuse(options.refused)
        if options.grown is not None and not self.learn_grown(options.grown):  # else the next run is as this one
            self.refuse(Refusal.REPLAY_CHANGES(name=next(iter(options.grown), "a list")))

    def keep_contents(self, names: Iterable[str]) -> bool:
        """Take these arrays and numbers for what a run has as they are, guarded by their contents, from now on; whether
        that is new."""
        known = len(self._names.contents)
        self._revised().contents.update(names)
        return len(self._names.contents) > known

    def learn(self, names: Iterable[str]) -> bool:
        """Take what has these names for places that runs change; whether that is new, so that another run may be one
        that can be replayed."""
        known = len(self._names.changed)
        if known < _MAX_LEARNED:
            self._revised().changed.update(names)
        return len(self._names.changed) > known

    def vary(self, known: Iterable[Snapshot], now: Snapshot, objects: tuple[Any, ...]) -> Snapshot:
        """The state as it is *now*, with numbers that were others in *known* states as inputs from now on."""
        then = [(place, value) for snapshot in known for place, value in snapshot.numbers.items()]
        others = [(place, value, now.numbers.get(place, value)) for place, value in then]
        # a NaN stays the object that it is, which containers ask for
        new = {place for place, a, b in others if a != b and not (is_nan(a) or is_nan(b))} - self._names.varying
        if not (new and self._names.varies and self.provable) or self.asks_identity or self.asks_int_identity:
            return now
        self._revised().varying |= new
        return self.snapshot(objects)

    @property
    def takes_items(self) -> bool:
        """Whether elements of integer arrays that Python asks for may be numbers of the run."""
        asks = self.asks_identity or self.asks_int_identity
        return self.provable and not asks and ITEMS not in self._names.contents

    def stop_varying(self) -> bool:
        """Compare such numbers by value from now on; whether there are any."""
        found = bool(self._names.varying) and self.provable
        if found:
            names = self._revised()
            names.varying, names.varies = set(), False
        return found

    def refuse(self, reason: Reason) -> None:
        """Have Python run in each call from now on."""
        self._found.append(reason)

    def learn_grown(self, asked: Mapping[str, set[Part]]) -> bool:
        """Take the lists with these names for ones that only grow, of which no more is read than this and what is
        known; whether that is new."""
        known = self._revised().grown if asked else {}
        new = {label: parts for label, parts in asked.items() if label not in known or not parts <= known[label]}
        for label, parts in new.items():
            known.setdefault(label, set()).update(parts if len(parts) < _MAX_LEARNED else {WHOLE})
            if len(known[label]) > _MAX_LEARNED:
                known[label].add(WHOLE)
        return bool(new)

    # ---- what a run does to the state

    def changes(self, before: Snapshot, after: Snapshot) -> list[Reason]:
        """The guarded differences between two snapshots, one line each."""
        changed: dict[Reason, None] = {}
        if before is after:
            return []
        if before.key != after.key:
            # A token may be mere structure; what is told is the labels of the tokens that have no partner.
            old, new = set(before._trail), set(after._trail)
            others = [t for t in before._trail if t not in new] + [t for t in after._trail if t not in old]
            for label in [label for label, _ in others if label != REGISTRATIONS]:  # (imports register classes)
                changed.setdefault(Refusal.REPLAY_CHANGES(name=label))
            if not others:
                changed.setdefault(Refusal.REPLAY_STRUCTURE())
        for name, a, b in zip(before.array_names, before.inputs, after.inputs, strict=False):
            if a.obj is not b.obj and (a.extra is None or a.extra is not b.extra):
                changed.setdefault(Refusal.REPLAY_REPLACES(name=name))
        return list(changed)

    def watch(self, report: Callable[[Reason], None] = lambda reason: None) -> Watch:
        """Context manager around a recorded run: code that ran without having been analysed becomes a reason, and
        ``report`` is told why this run alone can't be kept."""

        def caught(code: types.CodeType, reason: Reason) -> None:
            self._caught.add(code)
            report(reason)

        lengths = any(LENGTH in parts for parts in self._names.grown.values())
        names, seeds = self._names, may_seed(self._names.attrs)
        return Watch(self._codes, self._trust, self._found.append, caught, names.no_sparing, lengths, seeds)

    def look_again(self) -> None:
        """From now on, analyse where code fails of which an exception was caught."""
        self._revised().no_sparing |= self._caught

    def shown(self) -> Watch:
        """Context manager around code in a run of copies that has none: its frames are shown the builtins of recorded
        code."""
        return Watch(self._codes, self._trust, lambda reason: None)

    # ---- other arrays

    def substitute(
        self, wrap: Callable[[np.ndarray, str], Any], objects: tuple[Any, ...] = (), snap: Snapshot | None = None,
        numbers: Callable[[StateNode], Any] | None = None,
    ) -> Substitution:  # fmt: skip
        """The callable and the objects over ``wrap(array, name)`` in place of each array of the snapshot, and
        ``numbers(node)`` in place of each number among its arrays.

        Where the plan is not provable, they are the originals themselves.
        """
        if snap is None or not snap.graph.nodes:
            snap = self.snapshot(objects)
        found = Substitution(snap.graph, wrap, self.fn, tuple(objects), self.provable, numbers)
        return found


def _code_of(obj: Any) -> Any:
    """The function, class or module that the object is, or its class."""
    return obj if isinstance(obj, types.FunctionType | types.ModuleType | type) else type(obj)


def _holds_type(graph: StateGraph, trust: Trust) -> bool:
    """Whether something holds the builtin `type`, so that it may be called under another name."""
    return any(
        isinstance(edge.child, Leaf) and edge.child.value is type and edge.how in _HOLDS
        for node in graph.nodes if node.obj is not builtins and not trust.package(_code_of(node.obj))
        for edge in node.edges
    )  # fmt: skip


def numbers_elsewhere(snapshot: Snapshot) -> list[str]:
    """The names of the numbers among the inputs that are the very objects which stand elsewhere in the state, too: a
    traced number in the place of one of them is not the other."""
    numbers = _stored_floats(snapshot)
    places = Counter(map(id, [*_floats(snapshot), *[node.obj for node in numbers]]))
    return [node.label for node in numbers if places[id(node.obj)] > 1]


def floats_compared(snapshot: Snapshot) -> tuple[Any, ...]:
    """The floats in a state that its code may ask for by identity: of those that are inputs, whether they are these is
    another question in each call."""
    compared = numbers_compared(snapshot.graph.nodes, float).values()
    return (*compared, *(_floats(snapshot) if _stored_floats(snapshot) else ()))


def _stored_floats(snapshot: Snapshot) -> list[StateNode]:
    """The floats in a state that are inputs."""
    return [node for node in snapshot.inputs if node.kind == "number" and type(node.obj) is not int]


def _floats(snapshot: Snapshot) -> list[Any]:
    """The floats in a state that a run has as they are."""
    children = [edge.child for node in snapshot.graph.nodes for edge in node.edges]
    return [child.value for child in children if isinstance(child, Leaf) and issubclass(type(child.value), float)]


def numbers_compared(state: Iterable[StateNode], *kinds: type) -> dict[str, Any]:
    """The numbers of these *kinds*, Python's floats and truth values, in a *state* that its code may ask for by
    identity, by name."""
    found: dict[str, Any] = {}
    nodes = list(state)
    for function in [node.obj for node in nodes if type(node.obj) is types.FunctionType]:
        found |= compared_numbers(function)
        if asks_identity_of_parts(function.__code__):
            found |= {
                f"{node.label}[{edge.arg!r}]": edge.child.value
                for node in nodes
                for edge in node.edges
                if edge.how in ("item", "key") and isinstance(edge.child, Leaf)
            }
    return {name: value for name, value in found.items() if type(value) in kinds}
