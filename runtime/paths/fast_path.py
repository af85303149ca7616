"""Slots: the fast path of a call, as a function generated for one structure of arguments, one outside state and one
family of paths.

A slot takes ``(args, kwargs)`` and answers with the result, or with ``MISS`` where anything has changed: then the slow
path takes over. It costs a fraction of a microsecond: the structure is checked in straight-line Python, the
outside state by its own checker, dtypes and shapes by the native launcher.  What a recording reads and does beside that
it writes itself (``record/recording.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...tracer.ir.settings import AUTOCAST, AUTOCAST_USE
from ...tracer.random.stream import DEFAULT
from ...tracer.record.integers import limit_of
from ..launch.bind import with_tree
from ..launch.binding import normalised
from ..launch.comparisons import distinct_of
from ..launch.result_tree import FEWEST
from ..mode import MISS
from ..profiling import timed_launch, timed_miss
from ..record.call_key import COMPLEX_DATA, INTEGER, OBJECT, TENSOR, VALUE, Call, unwrap
from ..record.recording import Recording
from ..record.trees import Source, make_function, unpacking, unpacking_sequence
from ..state.values import partition, same
from ..stats import Stats
from .family import Family
from .paths import describe_guard

Slot = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def make_slot(call: Call, family: Family, launch: Callable[..., Any], stats: Stats) -> Slot:
    """The slot of *family*, whose *launch* it is, for calls of the form of *call*, which *stats* count."""
    source = Source(otherwise="MISS")
    variant, recording = family.variant, family.members[0].recording  # the others give and do the same
    in_tree = _in_tree(family, launch)
    source.names.update(missed=timed_miss(family, stats.name, describe_guard), stats=stats, MISS=MISS)
    source.names.update(launch=timed_launch(in_tree or launch), known=family.known)
    if AUTOCAST_USE.begun:
        source.names.update(AUTOCAST=AUTOCAST)
        source.give_up_if(f"AUTOCAST.dtype is not {source.constant(AUTOCAST.dtype)}")
    recording.enter(source)
    texts = _arguments(source, call)
    objects = [text for text, kind in zip(texts, call.kinds, strict=False) if kind == OBJECT]
    before = len(source.lines)
    recording.check(source, call, texts)
    operands = recording.operands(source, call, texts)
    if recording.draws:  # from the stream as it is now; it moves on when the call has succeeded
        source.names.update(stream=DEFAULT, advance=DEFAULT.advance)
        source.lines.append("state = stream.state")
        operands.append("state")
    _results(source, family, call, texts, operands, in_tree is not None)
    start, rest = source.lines[:before], source.lines[before:]
    full = recording.drawn is not None  # for nothing is drawn where the kernel does not take the arrays
    reading = variant.snapshot.reading(objects, "MISS", full)
    slot = variant.snapshot.function("slot(args, kwargs)", [*start, *reading, *rest], source.names)
    if slot is None:  # a call more
        source.names["read"] = variant.snapshot.check if full else variant.snapshot.read
        reading = [f"arrays = read({', '.join(objects)})", "if arrays is None: return MISS"]
        source.lines[before:before] = reading
        slot = make_function("def slot(args, kwargs):", source)
    return slot


def _arguments(source: Source, call: Call) -> list[str]:
    """The text of each leaf of a call, or of all of them; the statements before make sure that what is no data is as
    in *call*."""
    simple = call.tree.num_nodes == len(call.leaves) + 3 and len(call.leaves) == len(call.arguments[0])
    if simple and not {OBJECT, VALUE, TENSOR, INTEGER, COMPLEX_DATA} & set(call.kinds):
        source.give_up_if("kwargs")
        return ["*args"]
    keywords, children = call.tree.child(1), call.positional
    source.give_up_if(f"{source.constant(len)}(args) != {len(children)}")
    texts = list(unpacking_sequence(source, children, "args"))
    if keywords.num_children:
        texts += unpacking(source, keywords, "kwargs")
    else:
        source.give_up_if("kwargs")
    if len(source.objects) > 1:  # two that are one have one gradient
        known, objects = partition(call.plain_objects), ", ".join(source.objects)
        if known == tuple(range(len(known))):
            source.give_up_if(f"not {source.constant(distinct_of(len(known)).cell_contents)}({objects})")
        else:
            source.give_up_if(f"{source.constant(partition)}(({objects})) != {source.constant(known)}")
    for leaf, kind, text in zip(call.leaves, call.kinds, texts, strict=True):
        if kind == VALUE:
            _check_value(source, text, unwrap(leaf))
        elif kind == INTEGER:
            limit = limit_of(leaf)
            source.give_up_if(f"type({text}) is not int or not {-limit} <= {text} <= {limit}")
    return texts


def _check_value(source: Source, text: str, value: Any) -> None:
    known = source.constant(value)
    if value is None or type(value) is bool:
        source.give_up_if(f"{text} is not {known}")
    elif type(value) in (int, str):
        source.give_up_if(f"{source.constant(type)}({text}) is not {source.constant(type(value))} or {text} != {known}")
    else:
        source.give_up_if(f"{text} is not {known} and not {source.constant(same)}({text}, {known})")


def _in_tree(family: Family, launch: Callable[..., Any]) -> Callable[..., Any] | None:
    """*launch* with the user's result, where nothing else asks for the kernel's."""
    path = family.members[0]
    recording = path.recording
    if type(recording) is not Recording or recording.effects or path.numbers:
        return None
    count = len(recording.graph.outputs)
    if count < FEWEST:
        return None
    with contextlib.suppress(ValueError):
        return with_tree(launch, recording.output.tree(count))
    return None


def _results(
    source: Source, family: Family, call: Call, texts: Sequence[str], operands: Sequence[str], in_tree: bool
) -> None:
    path = family.members[0]
    recording, draws = path.recording, path.recording.draws
    guarded = any(member.recording.graph.guards for member in family.members)
    launch = f"launch({', '.join(operands)})"
    undo = recording.launch(source, f"r = {launch}")
    again = ""
    if type(recording) is Recording and call.device is None:  # columns, transposes: of the recorded call's layout
        kept = frozenset([k for k, leaf in enumerate(call.operands) if np.ndim(leaf) > 1 and leaf.flags.c_contiguous])
        values = f"{source.constant(partial(normalised, kept=kept))}([{', '.join(operands)}])"
        again = f" and (r := launch(*{values})) is None"
    source.lines.append(f"if r is None{again}: {undo}return MISS")
    if guarded:
        failed = f"{source.constant(type)}(r) is {source.constant(int)}"
        source.lines.append(f"if {failed}: {undo}missed(stats.calls, r); return MISS")
    first = len(recording.graph.outputs) - len(path.numbers)
    for k, expected in enumerate(path.numbers):
        bits = f"r[{first + k}].tobytes()"
        miss = f"{undo}missed(stats.calls, {source.constant(path.number_failed)}({k})); return MISS"
        source.lines.append(f"if {bits} != {source.constant(expected)}: {miss}")
    if draws:
        source.give_up_if(f"not advance(state, {draws})")
    for effect in recording.effects:
        effect.write(source, texts, False)
    source.lines.append("return r" if in_tree else f"return {recording.result(source, texts, operands)}")
