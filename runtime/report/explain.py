"""``f.explain(*args)``: a report on a call and its recordings, by level."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ...tracer.ir.graph import Graph
from ...tracer.ir.text import print_graph
from ..cuda.run import program_of
from ..launch.kernel_cache import kernels
from ..mode import Mode
from ..paths.dispatcher import FunctionDispatcher
from ..record.differentiable import name_of
from . import page
from . import sections as text
from .look import look
from .names import ProgramNames, layout_of
from .sections import section
from .shown import ShownProgram
from .summary import summary_of

#: What each level shows, after the head: titles of sections.
LEVELS: Mapping[str, tuple[str, ...]] = {
    "summary": ("summary",),
    "program": ("inputs", "effects", "recorded program, with your lines", "guards", "segments", "outside state"),
    "kernels": ("loops", "on the CUDA device", "decisions", "timings"),
    "memory": ("memory",),
    "all": (),
}
FORMATS = ("text", "html")


class Explanation(str):
    """A report: the text of one level, whose others are ``at(level)``; ``html()`` is all of it as one page."""

    described: tuple[ShownProgram, ...]
    level: str

    def __new__(
        cls, described: tuple[ShownProgram, ...], level: str, heading: str, tail: Mapping[str, str]
    ) -> Explanation:
        made = super().__new__(cls, written(described, level, heading, tail))
        made.described, made.level, made.heading, made.tail = described, level, heading, tail
        return made

    heading: str
    tail: Mapping[str, str]

    def at(self, level: str) -> Explanation:
        """The same report at another level."""
        return Explanation(self.described, checked("level", level, tuple(LEVELS)), self.heading, self.tail)

    def html(self) -> str:
        """One page of HTML that needs nothing else: the source beside the program, and all sections."""
        return page.page_of(self.described, self.heading, self.tail)

    def _repr_html_(self) -> str:
        return page.framed(self.html())

    def __reduce__(self) -> Any:
        return str, (str(self),)


def written(described: tuple[ShownProgram, ...], level: str, heading: str, tail: Mapping[str, str]) -> str:
    """The text of one level."""
    wanted = LEVELS[level]
    parts = [heading] * bool(heading)
    for program in described:
        parts.append(program.head)
        parts += [
            section(name, body) for name, body in program.sections.items() if body and (not wanted or name in wanted)
        ]
    parts += [section(name, body) for name, body in tail.items() if not wanted or name in wanted]
    if level == "summary":
        parts.append(f"more: explain(..., level={', '.join(map(repr, list(LEVELS)[1:]))}), or format='html'")
    return "\n\n".join(parts) + "\n"


def checked(option: str, value: Any, allowed: tuple[str, ...]) -> Any:
    """*value*, which must be one of those that are *allowed*."""
    if value not in allowed:
        raise ValueError(f"explain({option}={value!r}): {option} is one of {', '.join(map(repr, allowed))}")
    return value


def options(fn: Callable[..., Any], kwargs: dict[str, Any]) -> tuple[str, str]:
    """(level, format) among the keyword arguments of ``explain``, which are taken out of *kwargs*; a function that has
    a parameter of such a name, or takes any name, gets it itself."""
    try:
        parameters = dict(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        parameters = {}
    found = {"level": "summary", "format": "text"}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        found.update({name: kwargs.pop(name) for name in found if name in kwargs and name not in parameters})
    return checked("level", found["level"], tuple(LEVELS)), checked("format", found["format"], FORMATS)


def explain_call(dispatcher: FunctionDispatcher, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Records the call (its Python runs once more) and describes the program, its kernel and the function's history."""
    kwargs = dict(kwargs)
    level, form = options(dispatcher.fn, kwargs)
    looked = look(dispatcher, mode, args, kwargs)
    call, mode, recording = looked.call, looked.mode, looked.recording
    names = ProgramNames(recording.graph, recording.canonical)
    on_device = call.device is not None
    compiled_now = False
    if on_device:
        bound = program_of(recording.graph, recording.canonical, recording.arguments)
        layout, seconds = bound.program, recording.seconds
        device = bound.describe()
    else:
        known_before = kernels.compiles
        program, _ = kernels.get(recording.canonical, recording.arguments)
        compiled_now, device = kernels.compiles > known_before, ""
        layout = layout_of(recording.canonical, recording.arguments)
        seconds = {**recording.seconds, **program.seconds}
    timings = text.describe_timings(seconds, compiled_now or on_device)
    reasons = [str(reason) for reason in dict.fromkeys(looked.reasons)]
    found = program_sections(recording.graph, recording.names, names, layout, recording.notes, device)
    outputs = len(recording.graph.outputs) - len(recording.numbers)
    parts = {
        "summary": summary_of(
            recording.graph, recording.names, names, layout, recording.notes, dispatcher.stats, reasons, timings,
            outputs, device.rpartition("\n")[2],
        ),
        **found,
        "guards": text.describe_guards(recording),
        "segments": text.describe_segments(dispatcher, mode, call),
        "outside state": text.describe_state(looked.snapshot, looked.reasons),
        "timings": timings,
    }  # fmt: skip
    head = f"{name_of(dispatcher.fn)}: {mode.kind}\n{text.describe_status(dispatcher, mode, call)}{looked.note}"
    described = ShownProgram(head, recording.graph, recording.names, names, layout, parts)
    report = Explanation((described,), level, "", {"history": str(dispatcher.stats)})
    return report if form == "text" else report.html()


def program_sections(
    graph: Graph, inputs: list[str], names: ProgramNames, layout: Any, notes: Any, device: str = ""
) -> dict[str, str]:
    """Inputs, program, loops, decisions and memory; *device*: how it runs there."""
    found = {
        "inputs": text.describe_inputs(graph, inputs),
        "recorded program, with your lines": print_graph(graph),
    }
    if device:
        found["on the CUDA device"] = names.text(device)
    elif layout is not None:
        found["loops"] = text.describe_schedule(layout, names)
    if layout is not None:  # CuPy has none
        told = text.decisions(layout, names, notes)
        found["decisions"] = "\n".join(told) or "everything that could be fused was"
        found["memory"] = text.describe_memory(layout, names)
    return found
