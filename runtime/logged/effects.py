"""The effects of a closed log: statements that a replay, and the call that was recorded, run once the kernel has.

An owner is taken from its place before anything is written.  A value is an expression over the kernel's results,
the arguments and constants; what the run has made is made anew in each call.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...tracer.ir.own_attributes import dict_of
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
from ..state.contents import set_attribute, slots
from ..state.state_graph import StateGraph, StateNode
from ..state.values import is_leaf, keys_unchanged
from ..tensor_library import TENSORS
from .arguments import Given
from .expressions import (
    Route,
    ValueExpressions,
    constant_of,
    item_of,
    literal,
    objects_without_parts,
    sequence_of,
    under,
    ways_of,
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
    values = ValueExpressions(found, given, inputs, run.texts, found_at, others, graph, lambda x: x.plain())  # type: ignore[arg-type]
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


def _write(run: LoggedRun, entry: Written, found: Effects, values: ValueExpressions, graph: StateGraph) -> None:
    owner = entry.owner
    if isinstance(entry, WrittenNames):
        _write_names(run, entry, found, values, graph)
        return
    at = values.found(owner)
    node = run.reads.node_of(owner)
    if at is None or node is None:
        raise not_closed("a container that was found on a way that has no text")
    key: Any = at[0]
    way = Route(key, at[1])
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


def _of_set(name: str, args: tuple[Any, ...], way: Route, values: ValueExpressions) -> OutsideEffect | None:
    given = values.expression(args)
    return given and OutsideEffect(("of a set", way.key, name, given[0]), way.text, given[1], f"{{}}.{name}(*{{}})")


def _of(found_on: Route, kind: type, effect: OutsideEffect | None, values: ValueExpressions) -> OutsideEffect | None:
    """*effect* with the container that is written, where a library above asks whether that is an argument, too."""
    known = effect is None or values.others is None
    return effect if known else replace(effect, sink=Sink(kind, found_on.text))  # type: ignore[type-var]


def _of_key(key: Any, value: Any, at: tuple[Any, Expression], values: ValueExpressions) -> OutsideEffect | None:
    stored = values.expression(value)
    by_itself = is_leaf(key) or type(key) in EAGER  # others are found like any object
    known = (item_key(key), constant_of(key)) if by_itself else values.expression(key)
    return (
        stored
        and known
        and OutsideEffect(("item", at[0], known[0], stored[0]), under(at[1], known[1]), stored[1], "{} = {}")
    )


def _sink(owner: Any) -> StateNode:
    return StateNode("sink", owner, "")


def _write_names(
    run: LoggedRun, entry: WrittenNames, found: Effects, values: ValueExpressions, graph: StateGraph
) -> None:
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
                    ("global", id(owner), name, stored[0]), item_of(constant_of(owner), name), stored[1], "{} = {}"
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
        place = item_of(_dict_of(at[1]), name)  # no `__setattr__` is asked: it has run, or is not there
        made.append(stored and OutsideEffect(("attribute", at[0], name, stored[0]), place, stored[1], "{} = {}"))


def _in_class(name: str, value: Any, at: tuple[Any, Expression], values: ValueExpressions) -> OutsideEffect | None:
    stored = values.expression(value)
    place = lambda source, texts: f"{at[1](source, texts)}.{name}"  # noqa: E731
    return stored and OutsideEffect(("class", at[0], name, stored[0]), place, stored[1], "{} = {}")


def _dict_of(owner: Expression) -> Expression:
    return lambda source, texts: f"{owner(source, texts)}.__dict__"


def printed_effects(texts: Texts, values: ValueExpressions) -> Iterator[OutsideEffect | None]:
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
            key, as_text = (*key, file[0]), _into_file(as_text, file[1])
        yield OutsideEffect(key, constant_of(print), as_text, f"{{}}({{}}{rest})")


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


def _into_file(text: Expression, file: Expression) -> Expression:
    return lambda source, texts: f"{text(source, texts)}, file={file(source, texts)}"


def _report(report: Report, values: ValueExpressions) -> OutsideEffect | None:
    """The effect of a log record, a warning or a call of a file; None where its arguments can't be made again."""
    args, kwargs = values.expression(report.args), values.expression(report.kwargs)
    owner = values.place_of(report.owner)
    if args is None or kwargs is None or owner is None:
        return None
    key = (report.key, owner[0], args[0], kwargs[0])
    call: Expression = lambda source, texts: f"{owner[1](source, texts)}.{report.name}"  # noqa: E731
    if report.caller is None:
        array = type(report.owner) is np.ndarray
        sink = Sink(np.ndarray, values.way_to(report.owner).text) if array else None
        return OutsideEffect(key, call, args[1], "{}(*{})", sink)
    given: Expression = lambda s, texts: f"{call(s, texts)}, {args[1](s, texts)}, {kwargs[1](s, texts)}"  # noqa: E731
    return OutsideEffect(key, constant_of(report.caller), given, "{}({})")


def _growth(
    sink: StateNode, contents: Any, found_on: Route, way: Route, values: ValueExpressions
) -> OutsideEffect | None:
    """The effect of putting *contents* into a container, which was *found_on* another way."""
    kind = Sink(type(sink.obj), found_on.text)
    if isinstance(contents, dict) and len(contents) == 1 and type(name := next(iter(contents))) is str:
        stored = values.expression(contents[name])
        form = f"{{}}[{name!r}] = {{}}"
        return stored and OutsideEffect(("item", way.key, name, stored[0]), way.text, stored[1], form, kind)
    found = [values.expression(part) for part in (contents.items() if isinstance(contents, dict) else contents)]
    parts = [one for one in found if one is not None]
    if len(parts) < len(found):
        return None
    key = "grow", way.key, tuple([part for part, _ in parts])
    if sink.kind == "history" and type(sink.obj) is not list:  # whose methods may do more
        joined = sequence_of(list, parts, len(parts))
        return joined and OutsideEffect(key, way.text, joined[1], "{}.__iadd__({})", kind)
    if isinstance(contents, list | deque) and len(parts) == 1:
        return OutsideEffect(key, way.text, parts[0][1], "{}.append({})", kind)
    method = "extend" if isinstance(contents, list | deque) else "update"
    return OutsideEffect(
        key, way.text,
        lambda source, texts: "(" + "".join([f"{text(source, texts)}, " for _, text in parts]) + ")",
        f"{{}}.{method}({{}})", kind,
    )  # fmt: skip


def _rewriting(
    container: Any, at: Known, contents: tuple[Any, Any], values: ValueExpressions
) -> Iterator[OutsideEffect | None]:
    """The effects that change the *contents* of a *container* or of the attributes of an object, before and after."""
    before, now = contents
    key, place = at

    def all_of(parts: Any, statement: str) -> OutsideEffect | None:
        new = values.expression(tuple(parts) if isinstance(now, list) else parts)
        return new and OutsideEffect(("rewrite", key, statement, new[0]), place, new[1], statement)

    if isinstance(now, list):
        start, end, size = 0, 0, min(len(before), len(now))
        while start < size and before[start] is now[start]:
            start += 1
        while end < size - start and before[-1 - end] is now[-1 - end]:
            end += 1
        if isinstance(container, deque):
            yield all_of(now, "{0}.clear(); {0}.extend({1})")
        else:
            yield all_of(now[start : len(now) - end], f"{{}}[{start}:{len(before) - end}] = {{}}")
        return
    if not isinstance(container, dict):
        for name in {**before, **now}:
            if name not in before or name not in now or before[name] is not now[name]:
                yield _attribute(at, name, now, values)
        return
    kept = [name for name in before if name in now]
    if not keys_unchanged(kept, tuple(now)[: len(kept)]):
        yield all_of(dict(now), "{0}.clear(); {0}.update({1})")
        return
    for name in before:
        if name not in now:
            gone = values.expression(name)
            yield gone and OutsideEffect(("del", key, gone[0]), place, gone[1], "del {}[{}]")
    for name, value in now.items():
        if name not in before or before[name] is not value:
            stored, known = values.expression(value), values.expression(name)
            yield (
                known
                and stored
                and OutsideEffect(("item", key, known[0], stored[0]), under(place, known[1]), stored[1], "{} = {}")
            )


def _attribute(at: Known, name: str, now: dict[str, Any], values: ValueExpressions) -> OutsideEffect | None:
    """The effect on one attribute of an object, which is as *now*."""
    parts = [at, (name, constant_of(name)), *([values.expression(now[name])] if name in now else [])]
    given = sequence_of(tuple, [part for part in parts if part is not None], len(parts))
    do = set_attribute if name in now else object.__delattr__
    return given and OutsideEffect(("attribute", do.__name__, given[0]), constant_of(do), given[1], "{}(*{})")
