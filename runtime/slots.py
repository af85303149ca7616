"""Slots: the fast path of a call, as a function generated for one structure of arguments, one outside state and one
path.

A slot takes ``(args, kwargs)`` and answers with the result, or with None where anything is not as it was: then the
slow path finds out what. It costs a fraction of a microsecond: the structure is checked in straight-line Python, the
outside state by its own checker, dtypes and shapes by the native launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import optree

from ..tracer.stream import DEFAULT
from .calls import OBJECT, VALUE, Call, same, unwrap
from .paths import Path, Variant
from .stats import Stats
from .trees import Source, make_function, unpacking

Slot = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def make_slot(call: Call, variant: Variant, path: Path, stats: Stats) -> Slot:
    """The slot of *path* for calls of the form of *call*, which *stats* count."""
    source = Source()
    source.names.update(missed=partial(_missed, path, stats), number_missed=partial(_number_missed, path, stats))
    source.names.update(read=variant.snapshot.read, launch=path.launch)
    data, objects = _arguments(source, call)
    state = f"read({', '.join(objects)})"
    if variant.snapshot.array_names:
        source.lines.append(f"arrays = {state}")
        source.give_up_if("arrays is None")
        data.append("*arrays")
    else:
        source.give_up_if(f"{state} is None")
    if path.recording.draws:  # from the stream as it is now; it moves on when the call has succeeded
        source.names.update(stream=DEFAULT, advance=DEFAULT.advance)
        source.lines.append("state = stream.state")
        data.append("state")
    _results(source, path, f"launch({', '.join(data)})")
    return make_function("def slot(args, kwargs):", source)


def _missed(path: Path, stats: Stats, guard: int) -> None:
    """Leave word for the ladder, which need not run this path again in this call."""
    path.missed = (stats.calls, guard)


def _number_missed(path: Path, stats: Stats, k: int) -> None:
    path.missed = (stats.calls, path.number_failed(k))


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
    names = [source.fresh() for _ in children]
    if names:
        source.lines.append(f"({', '.join(names)},) = args")
    for name, child in zip(names, children, strict=True):
        yield from unpacking(source, child, name)
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


def _results(source: Source, path: Path, launch: str) -> None:
    output = path.recording.output
    guarded = bool(path.recording.graph.guards)
    draws = path.recording.draws
    if output.text is None and not guarded and not draws:
        source.lines.append(f"return {launch}")
        return
    source.lines.append(f"r = {launch}")
    if guarded:
        source.lines.append("if type(r) is int: return missed(r)")
    if output.text is None:
        if draws:
            source.give_up_if(f"r is None or not advance(state, {draws})")
        source.lines.append("return r")
        return
    source.give_up_if("r is None")
    first = len(path.program.results) - len(path.numbers)
    for k, expected in enumerate(path.numbers):
        source.lines.append(f"if r[{first + k}].tobytes() != {source.constant(expected)}: return number_missed({k})")
    if draws:
        source.give_up_if(f"not advance(state, {draws})")
    source.names.update(output.names)
    source.lines.append(f"return {output.text}")
