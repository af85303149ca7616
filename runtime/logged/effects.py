"""The effects of a closed log: statements that a replay, and the call that was recorded, run once the kernel has.

An owner is taken from its place before anything is written.  A value is an expression over the kernel's results,
the arguments and constants; what the run has made is made anew in each call.
"""

from __future__ import annotations

import types
from dataclasses import replace
from typing import Any

import numpy as np

from ...tracer.bytecode.records import dict_of
from ...tracer.ir.trees import node_functions
from ...tracer.loops.identities import unmarked
from ...tracer.record.array import TracedArray
from ..cuda.arrays import download
from ..record.call_key import Call
from ..record.effects import (
    MAX_RESULTS,
    Effects,
    Expression,
    OtherValues,
    OutsideEffect,
    Sink,
    _attribute,
    _constant,
    _growth,
    _item,
    _named,
    _objects_without_parts,
    _rewriting,
    _text,
    _under,
    _Values,
    _Way,
    _ways,
    printed_effects,
)
from ..record.kinds import EAGER, item_key
from ..record.outputs import whole_containers, with_whole
from ..state.contents import slots
from ..state.state_graph import StateGraph, StateNode
from ..state.values import is_leaf
from ..tensor_library import TENSORS
from .arguments import Given
from .reads import not_closed
from .run import LoggedRun
from .writes import DELETED, Written, WrittenElements, WrittenItems, WrittenNames

_DATA = (TracedArray, np.ndarray, np.generic, float, int, bool, str, bytes, type(None), complex)


def effects_of(
    run: LoggedRun, graph: StateGraph, call: Call, given: Given, inputs: dict[int, Any], out: Any,
    others: OtherValues | None = None, named: bool = True,
) -> Effects:  # fmt: skip
    """The effects of *run*, whose reads are *graph*, with its result *out*; *inputs*: the stand-ins for arrays and
    numbers outside, in the order of the kernel's operands, by the ids of their nodes.  *named*: objects in the result,
    and containers that others may hold, are made, too."""
    found = Effects(out=out)
    objects = _objects_in(run, out) if named else set()
    if (
        not run.writes
        and not objects
        and not run.texts.printed
        and not whole_containers(out, given.places.keys() | run.outside())
    ):
        return found
    ways = _ways(graph, call)
    found_at = _objects_without_parts(graph) | {id(node.obj): ways.get(id(node)) for node in graph.nodes}
    found_at |= {key: _Way(("argument", place), _text(place)) for key, place in given.places.items()}
    values = _Values(found, given, inputs, run.texts, found_at, others, graph, lambda x: x.plain())  # type: ignore[arg-type]
    values.originals.update({key: original for key, (_, original) in run.twins.items()})
    values.known_as = lambda value: unmarked(run.recorder, value)
    if call.device is not None and call.device.stays:  # what is kept outside is NumPy's, as in a run without a kernel
        values.taken_over = on_host
    for entry in run.writes.values():
        _write(run, entry, found, values, graph)
    printed = [*printed_effects(run.texts, values)]
    found.effects += [effect for effect in printed if effect is not None]
    if (
        None in printed
        or any(effect is None for effect in found.effects)
        or found.refused
        or len(found.arrays) > MAX_RESULTS
    ):
        raise not_closed("a value that can't be made again")
    names: dict[int, str] = {}
    outside = given.places.keys() | run.outside()
    shared = whole_containers(out, outside | values.made, values.made) | objects
    if shared and named:
        found.out = with_whole(out, shared, lambda part: _named(part, names, found, values))
    if found.refused:
        raise not_closed("a result that can't be made again")
    found.effects[:0] = values.taken
    return found


def on_host(result: Any) -> Any:
    """A result of a kernel on a device, as NumPy has it."""
    return download(TENSORS.data(result))[()]


def _objects_in(run: LoggedRun, out: Any) -> set[int]:
    """The ids of the objects in a result that are no data, and no containers that results are taken apart to."""
    found, stack = set(), [out]
    while stack:
        value = stack.pop()
        if type(value) in (list, tuple, dict):
            stack += value.values() if type(value) is dict else value
        elif _is_own_node(run, type(value)):
            continue
        elif type(value) not in EAGER and not isinstance(value, _DATA) and type(value).__name__ != "TracedInt":
            found.add(id(value))
    return found


def _is_own_node(run: LoggedRun, kind: type) -> bool:
    """Whether objects of *kind* are trees of ours (sparse matrices), whose leaves are the result's."""
    return run.reads.library(kind) and bool(node_functions(kind))


def _write(run: LoggedRun, entry: Written, found: Effects, values: _Values, graph: StateGraph) -> None:
    owner = entry.owner
    if isinstance(entry, WrittenNames):
        _write_names(run, entry, found, values, graph)
        return
    at = values.found(owner)
    node = run.reads.node_of(owner)
    if at is None or node is None:
        raise not_closed("a container that was found on a way that has no text")
    key: Any = at[0]
    way = _Way(key, at[1])
    made: list[Any]
    found_on = values.way_to(owner)
    if isinstance(entry, WrittenElements):
        made = [_of(found_on, set, _of_set(name, args, way, values), values) for name, args in entry.calls]
    elif entry.whole is not None:
        now = list(entry.whole) if isinstance(entry, WrittenItems) else entry.whole
        made = list(_rewriting(owner, at, (entry.before, now), values))
    elif isinstance(entry, WrittenItems):
        made = [_growth(_sink(owner), entry.tail, found_on, way, values)]
    else:
        made = []
        for key, value in entry.values.items():
            made.append(_of(found_on, dict, _of_key(key, value, at, values), values))
    found.effects += made


def _of_set(name: str, args: tuple[Any, ...], way: _Way, values: _Values) -> OutsideEffect | None:
    given = values.expression(args)
    return given and OutsideEffect(("of a set", way.key, name, given[0]), way.text, given[1], f"{{}}.{name}(*{{}})")


def _of(found_on: _Way, kind: type, effect: OutsideEffect | None, values: _Values) -> OutsideEffect | None:
    """*effect* with the container that is written, where a library above asks whether that is an argument, too."""
    known = effect is None or values.others is None
    return effect if known else replace(effect, sink=Sink(kind, found_on.text))  # type: ignore[type-var]


def _of_key(key: Any, value: Any, at: tuple[Any, Expression], values: _Values) -> OutsideEffect | None:
    stored = values.expression(value)
    by_itself = is_leaf(key) or type(key) in EAGER  # others are found like any object
    known = (item_key(key), _constant(key)) if by_itself else values.expression(key)
    return (
        stored
        and known
        and OutsideEffect(("item", at[0], known[0], stored[0]), _under(at[1], known[1]), stored[1], "{} = {}")
    )


def _sink(owner: Any) -> StateNode:
    return StateNode("sink", owner, "", "")


def _write_names(run: LoggedRun, entry: WrittenNames, found: Effects, values: _Values, graph: StateGraph) -> None:
    owner = entry.owner
    made: list[Any] = found.effects
    if isinstance(owner, types.CellType):
        stored = values.expression(entry.values[""])
        place = lambda source, texts: f"{source.constant(owner)}.cell_contents"  # noqa: E731
        made.append(stored and OutsideEffect(("cell", id(owner), stored[0]), place, stored[1], "{} = {}"))
        return
    if type(owner) is dict:
        for name, value in entry.values.items():
            stored = values.expression(value)
            made.append(
                stored
                and OutsideEffect(
                    ("global", id(owner), name, stored[0]), _item(_constant(owner), name), stored[1], "{} = {}"
                )
            )
        return
    at = values.found(owner)
    if at is None:
        raise not_closed("an object that was found on a way that has no text")
    if isinstance(owner, type):
        for name, value in entry.values.items():
            made.append(_in_class(name, value, at, values))
        return
    plain = dict_of(owner) is not None and entry.values.keys().isdisjoint(slots(type(owner)))
    for name, value in entry.values.items():
        if value is DELETED and name not in owner.__dict__:
            continue
        if value is DELETED or not plain:
            made.append(_attribute(at, name, {} if value is DELETED else {name: value}, values))
            continue
        stored = values.expression(value)
        place = _item(_dict_of(at[1]), name)  # no `__setattr__` is asked: it has run, or is not there
        made.append(stored and OutsideEffect(("attribute", at[0], name, stored[0]), place, stored[1], "{} = {}"))


def _in_class(name: str, value: Any, at: tuple[Any, Expression], values: _Values) -> OutsideEffect | None:
    stored = values.expression(value)
    place = lambda source, texts: f"{at[1](source, texts)}.{name}"  # noqa: E731
    return stored and OutsideEffect(("class", at[0], name, stored[0]), place, stored[1], "{} = {}")


def _dict_of(owner: Expression) -> Expression:
    return lambda source, texts: f"{owner(source, texts)}.__dict__"
