"""Slots: the fast path of a call, as a function generated for one structure of arguments, one outside state and one
family of paths.

A slot takes ``(args, kwargs)`` and answers with the result, or with None where anything has changed: then the slow
path takes over. It costs a fraction of a microsecond: the structure is checked in straight-line Python, the
outside state by its own checker, dtypes and shapes by the native launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import optree

from ...tracer.random.stream import DEFAULT
from ...tracer.record.autocast import SETTING, USE
from ..record.call_key import OBJECT, VALUE, Call, same, unwrap
from ..record.identity import partition
from ..record.trees import Source, make_function, unpacking, unpacking_sequence
from ..stats import Stats
from .family import Family

Slot = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def make_slot(call: Call, family: Family, stats: Stats) -> Slot:
    """The slot of *family* for calls of the form of *call*, which *stats* count."""
    source = Source()
    variant, path = family.variant, family.members[0]
    source.names.update(missed=family.miss, number_missed=family.number_miss, stats=stats)
    source.names.update(read=variant.snapshot.read, launch=family.launch)
    if USE.begun:
        source.names.update(SETTING=SETTING)
        source.give_up_if(f"SETTING.dtype is not {source.constant(SETTING.dtype)}")
    data, objects = _arguments(source, call)
    state = f"read({', '.join(objects)})"
    if variant.snapshot.array_names:
        source.lines.append(f"arrays = {state}")
        source.give_up_if("arrays is None")
        data.append("*arrays")
    else:
        source.give_up_if(f"{state} is None")
    if variant.same is not None:
        given = f"({', '.join(data)},)"
        source.give_up_if(f"{source.constant(partition)}({given}) != {source.constant(variant.same)}")
    if path.recording.draws:  # from the stream as it is now; it moves on when the call has succeeded
        source.names.update(stream=DEFAULT, advance=DEFAULT.advance)
        source.lines.append("state = stream.state")
        data.append("state")
    _results(source, family, f"launch({', '.join(data)})")
    return make_function("def slot(args, kwargs):", source)


def _arguments(source: Source, call: Call) -> tuple[list[str], list[str]]:
    """(texts of the data, texts of the objects): the statements before make sure that the rest is as in *call*."""
    positional, keywords = optree.treespec_children(call.tree)
    simple = all(optree.treespec_is_leaf(s) for s in call.positional) and not keywords.num_leaves
    if simple and not {OBJECT, VALUE} & set(call.kinds):
        source.give_up_if("kwargs")
        return ["*args"], []
    data: list[str] = []
    objects: list[str] = []
    texts = _leaves(source, positional, keywords)
    for leaf, kind, text in zip(call.leaves, call.kinds, texts, strict=True):
        if kind == VALUE:
            check_value(source, text, unwrap(leaf))
        elif kind == OBJECT:
            objects.append(text)
        else:
            data.append(text)
    return data, objects


def call_leaves(source: Source, call: Call) -> Iterator[str]:
    """The text of each leaf of a call; the statements before make sure that its structure is that of *call*."""
    positional, keywords = optree.treespec_children(call.tree)
    return _leaves(source, positional, keywords)


def _leaves(source: Source, positional: Any, keywords: Any) -> Iterator[str]:
    children = positional.children()
    source.give_up_if(f"len(args) != {len(children)}")
    yield from unpacking_sequence(source, children, "args")
    if keywords.num_children:
        yield from unpacking(source, keywords, "kwargs")
    else:
        source.give_up_if("kwargs")


def check_value(source: Source, text: str, value: Any) -> None:
    known = source.constant(value)
    if value is None or type(value) is bool:
        source.give_up_if(f"{text} is not {known}")
    elif type(value) in (int, str):
        source.give_up_if(f"type({text}) is not {source.constant(type(value))} or {text} != {known}")
    else:
        source.give_up_if(f"{text} is not {known} and not {source.constant(same)}({text}, {known})")


def _results(source: Source, family: Family, launch: str) -> None:
    path = family.members[0]  # the others give the same
    output = path.recording.output
    guarded = any(member.recording.graph.guards for member in family.members)
    draws = path.recording.draws
    if output.text is None and not guarded and not draws:
        source.lines.append(f"return {launch}")
        return
    source.lines.append(f"r = {launch}")
    if guarded:
        source.lines.append("if type(r) is int: return missed(stats.calls, r)")
    if output.text is None:
        if draws:
            source.give_up_if(f"r is None or not advance(state, {draws})")
        source.lines.append("return r")
        return
    source.give_up_if("r is None")
    first = len(path.recording.graph.outputs) - len(path.numbers)
    for k, expected in enumerate(path.numbers):
        bits = f"r[{first + k}].tobytes()"
        source.lines.append(f"if {bits} != {source.constant(expected)}: return number_missed(stats.calls, {k})")
    if draws:
        source.give_up_if(f"not advance(state, {draws})")
    source.names.update(output.names)
    source.lines.append(f"return {output.text}")
