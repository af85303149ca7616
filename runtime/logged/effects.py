"""The effects of a closed log: statements that a replay, and the call that was recorded, run once the kernel has.

An owner is taken from its place before anything is written.  A value is an expression over the kernel's results,
the arguments and constants; what the run has made is made anew in each call.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from ...tracer.ir.own_attributes import dict_of, slots
from ...tracer.ir.refusals import Refusal
from ...tracer.ir.trees import node_functions
from ...tracer.loops.identities import unmarked
from ...tracer.record.array import TracedArray
from ...tracer.record.reports import Report
from ...tracer.record.shown_text import Texts
from ..cuda.arrays import download
from ..record.call_key import Call
from ..record.effects import Effects, Expression, Known, OtherValues, OutsideEffect, Sink
from ..record.kinds import EAGER, item_key
from ..record.outputs import Whole, whole_containers, with_whole
from ..state.contents import set_attribute
from ..state.state_graph import StateGraph
from ..state.values import keys_unchanged
from ..tensor_library import TENSORS
from .arguments import Given
from .expressions import (
    Route,
    ValueExpressions,
    constant_of,
    contents_of,
    item_of,
    literal,
    objects_without_parts,
    sequence_of,
    ways_of,
    written,
)
from .reads import not_closed
from .run import LoggedRun
from .writes import DELETED, Written, WrittenElements, WrittenItems, WrittenNames

MAX_RESULTS = 200  # values that effects may add to the results of a program
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
    ways = ways_of(graph, call)
    found_at = objects_without_parts(graph) | {id(node.obj): ways.get(id(node)) for node in graph.nodes}
    found_at |= {key: Route(("argument", place), literal(place)) for key, place in given.places.items()}
    values = ValueExpressions(found, given, inputs, run.texts, found_at, others, graph)
    values.originals.update({key: original for key, (_, original) in run.twins.items()})
    values.known_as = lambda value: unmarked(run.recorder, value)
    if call.device is not None and call.device.stays:  # what is kept outside is NumPy's, as in a run without a kernel
        values.taken_over = on_host
    made: list[OutsideEffect | None] = []
    for entry in run.writes.values():
        made += _written(run, entry, values)
    made += _printed(run.texts, values)
    found.effects = [effect for effect in made if effect is not None]
    if len(found.effects) < len(made) or found.refused or len(found.arrays) > MAX_RESULTS:
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


def _effect(
    names: tuple[Hashable, ...], place: Expression, value: Known | None, form: str = "{} = {}", sink: Sink | None = None
) -> OutsideEffect | None:
    """The effect *form* on a *place*, whose key begins with *names*; None where the *value* has no expression."""
    return value and OutsideEffect((*names, value[0]), place, value[1], form, sink)


def _written(run: LoggedRun, entry: Written, values: ValueExpressions) -> Iterator[OutsideEffect | None]:
    """The effects of what *run* has written into one object."""
    owner = entry.owner
    if isinstance(entry, WrittenNames):
        yield from _names(entry, values)
        return
    at = values.found(owner)
    if at is None or run.reads.node_of(owner) is None:
        raise not_closed("a container that was found on a way that has no text")
    # where the container is, for a library above that asks whether it is an argument, too
    sink = Sink(type(owner), values.way_to(owner).text)
    known = None if values.others is None else sink
    if isinstance(entry, WrittenElements):
        for name, args in entry.calls:
            call = f"{{}}.{name}(*{{}})"
            yield _effect(("of a set", at[0], name), at[1], values.expression(args), call, known)
    elif entry.whole is not None:
        yield from _rewriting(owner, at, entry.before, entry.whole, values)
    elif isinstance(entry, WrittenItems):
        tail = [values.expression(part) for part in entry.tail]
        method, given = ("append", tail[0]) if len(tail) == 1 else ("extend", sequence_of(tuple, tail))
        yield _effect(("grow", at[0], method), at[1], given, f"{{}}.{method}({{}})", sink)
    else:
        for key, value in entry.values.items():
            yield _item(at, key, value, values, known)


def _item(at: Known, key: Any, value: Any, values: ValueExpressions, sink: Sink | None = None) -> OutsideEffect | None:
    """The effect of ``owner[key] = value``, where the owner is *at* a place."""
    stored = values.expression(value)
    known = (item_key(key), constant_of(key)) if type(key) in EAGER else values.expression(key)
    return known and _effect(("item", at[0], known[0]), written("{}[{}]", at[1], known[1]), stored, sink=sink)


def _names(entry: WrittenNames, values: ValueExpressions) -> Iterator[OutsideEffect | None]:
    """The effects of names that were written: of a cell, a module, a class or an object."""
    owner = entry.owner
    if isinstance(owner, types.CellType):
        yield _effect(("cell", id(owner)), contents_of(owner), values.expression(entry.values[""]))
        return
    if type(owner) is dict:
        for name, value in entry.values.items():
            place = item_of(constant_of(owner), name)
            yield _effect(("global", id(owner), name), place, values.expression(value))
        return
    at = values.found(owner)
    if at is None:
        raise not_closed("an object that was found on a way that has no text")
    in_dict = dict_of(owner) is not None and entry.values.keys().isdisjoint(slots(type(owner)))
    for name, value in entry.values.items():
        if isinstance(owner, type):
            yield _effect(("class", at[0], name), written(f"{{}}.{name}", at[1]), values.expression(value))
        elif value is DELETED and name not in owner.__dict__:
            continue
        elif value is DELETED or not in_dict:
            do, given = (object.__delattr__, []) if value is DELETED else (set_attribute, [values.expression(value)])
            parts = sequence_of(tuple, [at, (name, constant_of(name)), *given])
            yield _effect(("attribute", do.__name__), constant_of(do), parts, "{}(*{})")
        else:  # no `__setattr__` is asked: it has run, or is not there
            place = item_of(written("{}.__dict__", at[1]), name)
            yield _effect(("attribute", at[0], name), place, values.expression(value))


def _printed(texts: Texts, values: ValueExpressions) -> Iterator[OutsideEffect | None]:
    """The effects of what was printed and reported, in order; None where one can't be done again."""
    for printed in texts.printed:
        if isinstance(printed, Report):
            report = _report(printed, values)
            if report is None:
                values.refuse(Refusal.REPLAY_CHANGES(name=f"{type(printed.owner).__name__}.{printed.name}"))
            yield report
            continue
        text_key, as_text = values.text(printed.text)
        rest = f", end={printed.end!r}, flush={printed.flush}"
        key: tuple[Hashable, ...] = "print", text_key, rest
        if printed.file is not None:
            file = values.place_of(printed.file)
            if file is None:
                yield None
                continue
            key, as_text = (*key, file[0]), written("{}, file={}", as_text, file[1])
        yield OutsideEffect(key, constant_of(print), written("{}{}", as_text, literal(rest)), "{}({})")


def _named(container: Any, names: dict[int, str], found: Effects, values: ValueExpressions) -> Whole:
    """The variable that has a container of the result, which others have, too, when the effects are done; it is kept
    in *names*."""
    if id(container) not in names:
        name = names[id(container)] = f"result{len(names)}"
        known = values.expression(container)
        if known is None:
            found.refused.append(Refusal.REPLAY_RETURNS(what=type(container).__name__))
        else:
            found.effects.append(OutsideEffect(("result", name, known[0]), literal(name), known[1], "{} = {}"))
    return Whole(values.originals.get(id(container), container), names[id(container)])


def _report(report: Report, values: ValueExpressions) -> OutsideEffect | None:
    """The effect of a log record, a warning or a call of a file; None where its arguments can't be made again."""
    args, kwargs = values.expression(report.args), values.expression(report.kwargs)
    owner = values.place_of(report.owner)
    if args is None or kwargs is None or owner is None:
        return None
    key = (report.key, owner[0], args[0], kwargs[0])
    call = written(f"{{}}.{report.name}", owner[1])
    if report.caller is None:
        array = type(report.owner) is np.ndarray
        sink = Sink(np.ndarray, values.way_to(report.owner).text) if array else None
        return OutsideEffect(key, call, args[1], "{}(*{})", sink)
    return OutsideEffect(key, constant_of(report.caller), written("{}, {}, {}", call, args[1], kwargs[1]), "{}({})")


def _rewriting(
    container: Any, at: Known, before: Any, now: Any, values: ValueExpressions
) -> Iterator[OutsideEffect | None]:  # fmt: skip
    """The effects that change the contents of a *container*, a list, deque or dict, which were *before* and are *now*
    these."""
    key, place = at

    def all_of(parts: Any, statement: str) -> OutsideEffect | None:
        return _effect(("rewrite", key, statement), place, values.expression(parts), statement)

    if isinstance(container, deque):
        yield all_of(tuple(now), "{0}.clear(); {0}.extend({1})")
        return
    if not isinstance(container, dict):
        start, end, size = 0, 0, min(len(before), len(now))
        while start < size and before[start] is now[start]:
            start += 1
        while end < size - start and before[-1 - end] is now[-1 - end]:
            end += 1
        yield all_of(tuple(now[start : len(now) - end]), f"{{}}[{start}:{len(before) - end}] = {{}}")
        return
    kept = [name for name in before if name in now]
    if not keys_unchanged(kept, tuple(now)[: len(kept)]):
        yield all_of(dict(now), "{0}.clear(); {0}.update({1})")
        return
    for name in before:
        if name not in now:
            yield _effect(("del", key), place, values.expression(name), "del {}[{}]")
    for name, value in now.items():
        if name not in before or before[name] is not value:
            yield _item(at, name, value, values)
