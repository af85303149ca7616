"""The sections of a report, each as text: inputs, program, loops, decisions, memory, guards, state, timings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ...codegen.cpu.library_calls import native
from ...codegen.cpu.loop_plan import LoopPlan
from ...codegen.cpu.program_layout import ProgramLayout
from ...codegen.lower.canonical import CanonicalOp, Const, Sym
from ...codegen.schedule.loop_tree import LibraryCall, Loop, ScheduleItem, Statement
from ...codegen.schedule.memory import plan as place
from ...tracer.ir.graph import Graph
from ...tracer.ir.primitive import LOOP
from ...tracer.ir.refusals import Reason
from ...tracer.ir.text import printed_names
from ..config import config
from ..mode import Mode
from ..paths.dispatcher import FunctionDispatcher
from ..paths.entry import Endpoint
from ..paths.family import describe_families
from ..paths.paths import describe_guard
from ..record.call_key import Call
from ..record.recording import Recording
from ..state.snapshot import Snapshot
from .names import ProgramNames

_SHOWN = 24  # names listed before the rest is counted

Notes = Iterable[str | Reason]


def describe_status(dispatcher: FunctionDispatcher, mode: Mode, call: Call) -> str:
    """Cached recordings for calls with this key."""
    endpoint = dispatcher.endpoints.get(mode)
    refused = dispatcher.refused(call)
    if refused is not None:
        return f"{_status(dispatcher, endpoint, call)}\nits log is not closed: {refused}"
    return _status(dispatcher, endpoint, call)


def _status(dispatcher: FunctionDispatcher, endpoint: Endpoint | None, call: Call) -> str:
    if endpoint is not None and call.key in endpoint.live:
        return endpoint.live[call.key].describe()
    variants = endpoint.variants.get(call.key, ()) if endpoint is not None else ()
    paths = [path for variant in variants for path in variant.paths]
    if not paths:
        return (
            "a call like this has not been made yet: the first one will record it, or derive it from a recording of f"
        )
    plural = "s" * (len(paths) != 1)
    text = f"a call like this has {len(paths)} recorded path{plural}, ready to run without Python"
    origins = Counter([str(path.recording.origin) for path in paths if path.recording.origin is not None])
    derived = [f"{count} of them derived from the recording of {origin}" for origin, count in origins.items()]
    return "\n".join([text, *derived, *describe_families(variants)])


def describe_segments(dispatcher: FunctionDispatcher, mode: Mode, call: Call) -> str:
    """The cuts between segments, if the call runs in segments; else nothing."""
    endpoint = dispatcher.endpoints.get(mode)
    live = endpoint.live.get(call.key) if endpoint is not None else None
    return "" if live is None or live.segments is None else live.segments.answers.describe()


def describe_inputs(graph: Graph, names: Iterable[str]) -> str:
    """The inputs of the printed program by the user's *names* for them."""
    named = zip(printed_names(graph)[0].values(), names, graph.inputs, strict=False)
    lines = [f"{letter} is {name}, {var.aval}" for letter, name, var in named]
    lines += [f"an array that the function makes, {var.aval}" for var, _ in graph.consts]
    return "\n".join(lines) or "none"


def describe_state(snapshot: Snapshot | None, reasons: list[Reason]) -> str:
    """The outside state that a replay compares by value, and the arrays that it reads again."""
    if snapshot is None or reasons:
        return "\n".join(
            ["Python has to run in each call, because the function", *(f"  {r}" for r in dict.fromkeys(reasons))]
        )
    values, functions = [], []
    for label, token in snapshot.trail:
        first = token[0] if isinstance(token, tuple) and token else None
        if first == "function" and label != "the function":
            functions.append(label)
        elif isinstance(first, tuple) and first and isinstance(first[0], type):
            values.append(label)
    lines = [
        f"{what}: {_listed(names)}"
        for what, names in (
            ("compared by value in each call", values),
            ("helpers, whose code is compared and whose state is part of this", functions),
            ("arrays, read again in each call", snapshot.array_names),
        )
        if names
    ]
    return "\n".join(lines) or "the function reads nothing but its arguments"


def _listed(names: Iterable[str]) -> str:
    unique = list(
        dict.fromkeys(n.removeprefix("global ").removeprefix("closure ").removeprefix("name ") for n in names)
    )
    rest = len(unique) - _SHOWN
    return ", ".join(unique[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def section(heading: str, body: str) -> str:
    return f"--- {heading}\n{readable(body.rstrip())}"


_VARYING = re.compile(r"(?<!= )(?<=[ (,])[a-z]{1,4}\b(?![(=\[])|%\d+|(?<![\w.])-?\d[\w.+-]*|(?<=\w)\d+|:\d+ in ")
MOST_ALIKE = 64  # lines of a stretch that is folded where it comes again


def readable(text: str) -> str:
    """*text*, but where it has more than ``config.explain_lines`` lines: stretches that repeat, in all but names and
    numbers, are there once, and so many lines in all."""
    most, lines = config.explain_lines, text.split("\n")
    if not 0 < most < len(lines):
        return text
    known: dict[str, int] = {}
    shapes = [known.setdefault(_VARYING.sub("_", line), len(known)) for line in lines]
    folded, k = [], 0
    while k < len(lines):
        period, times = _repeat(shapes, k)
        folded += lines[k : k + period]
        if times > 1:
            margin = " " * (len(lines[k]) - len(lines[k].lstrip()))
            stretch = "such a line" if period == 1 else f"such {period} lines"
            folded.append(f"{margin}... {stretch} {times - 1:,} more time{'s' * (times > 2)}")
        k += period * times
    if len(folded) > most:
        head = most * 2 // 3
        left = len(folded) - most
        folded[head : head + left] = [f"... {left:,} more lines"]
    return "\n".join([*folded, f"(of {len(lines):,} lines; tracegrad.config.explain_lines = 0 shows all)"])


def _repeat(shapes: Sequence[int], at: int) -> tuple[int, int]:
    """(length of the stretch at *at* whose repeats are most lines, how often it is there); (1, 1) where none is."""
    best = 1, 1
    for period in range(1, MOST_ALIKE + 1):
        if shapes[at : at + period] != shapes[at + period : at + 2 * period]:
            continue
        end = at + period
        while end < len(shapes) and shapes[end] == shapes[end - period]:
            end += 1
        times = (end - at) // period
        if (times - 1) * period > max(3, best[0] * (best[1] - 1)):
            best = period, times
    return best


def describe_schedule(layout: ProgramLayout, names: ProgramNames) -> str:
    """The loop tree, one line for each loop and stored value."""
    return "\n".join(_items(_ShownPart(layout, names, layout.schedule, layout.plans), 0)) or "nothing to compute"


class _ShownPart:
    """A program, or the body of a loop in it (*plan*), to be described."""

    def __init__(
        self, layout: ProgramLayout, names: ProgramNames, schedule: Any, plans: Any, plan: LoopPlan | None = None
    ):
        self.layout, self.names, self.schedule, self.plans, self.plan = layout, names, schedule, plans, plan

    def inner(self, plan: LoopPlan) -> _ShownPart:
        names = self.names.body(plan.op.params["body"], bool(plan.op.params["stops"]))
        return _ShownPart(self.layout, names, plan.schedule, plan.nested, plan)

    def place(self, out: Sym) -> str:
        """Where a value is stored, in a word."""
        window = self.schedule.windows.get(out)
        if window is not None:
            return f"part of {self.names(self.schedule.runs[window.run].whole)}"
        if self.plan is not None:
            return "given by the step" if out in self.plan.program.outputs else "temporary"
        return "result" if out in self.layout.results else "guard" if out in self.layout.guards else "temporary"


def _items(part: _ShownPart, depth: int) -> Iterator[str]:
    pad, kernel, names = "  " * depth, 0, part.names
    for item in part.schedule.body:
        if not isinstance(item, LibraryCall):
            if isinstance(item, Loop):
                kernel += 1
                yield f"{pad}loop nest {kernel}:"
            nested = depth + isinstance(item, Loop)
            yield from _statements(part, item, nested, nested)
            continue
        op, plan = item.op, part.plans.get(item.op)
        between = not native(op) or (op.prim.kind == LOOP and plan is None)
        where = "NumPy, between kernels" if between else "the kernel steps" if plan else "library"
        outs = ", ".join(map(names, op.outs))
        yield f"{pad}{outs} = {op.prim.name} {_operands(names, op)}   ({where}){_site(op)}"
        if plan is not None:
            inner = part.inner(plan)
            yield f"{pad}  {_steps(names, inner, op, plan)}:"
            yield from _items(inner, depth + 2)


def _site(op: CanonicalOp) -> str:
    return f"   # {op.site}" if op.site else ""


def _steps(names: ProgramNames, inner: _ShownPart, op: CanonicalOp, plan: LoopPlan) -> str:
    """The iteration range of the loop *op*, as text."""
    params = op.params
    extent = f"n{params['length']}={names.size(params['length'])}"
    text = f"each of {extent} steps"
    if params["counted"]:
        text = f"the first {names(op.ins[0])} of {extent} steps"
    if params["stops"]:
        text = f"{text if params['counted'] else 'steps'} for as long as {inner.names(plan.program.outputs[0])}"
    return f"for {text}{' from the last to the first' if params['reverse'] else ''}"


def _statements(part: _ShownPart, item: ScheduleItem, depth: int, first: int) -> Iterator[str]:
    """One item, *depth* levels in; the loop variable of level *first* is i1."""
    pad, names = "  " * depth, part.names
    if isinstance(item, Loop):
        yield f"{pad}for i{depth - first + 1} in {names.axis(item.dim)}:"
        for inner in item.body:
            yield from _statements(part, inner, depth + 1, first)
    elif isinstance(item, Statement):
        where = part.place(item.out)
        yield f"{pad}{names(item.out)} = {item.op.prim.name} {_operands(names, item.op)}   ({where}){_site(item.op)}"


def _operands(names: ProgramNames, op: Any) -> str:
    return " ".join([names(x) for x in op.ins if isinstance(x, (Sym, Const))])


def decisions(layout: Any, names: ProgramNames, notes: Notes = ()) -> list[str]:
    """The reasons why values were stored and loops not fused, with lines; *notes* are those of the recording."""
    found = [*map(str, notes), *map(names.note, layout.schedule.notes)]
    parts = [_ShownPart(layout, names, layout.schedule, getattr(layout, "plans", {}))]
    while parts:
        part = parts.pop(0)
        for loop_plan in part.plans.values():
            if isinstance(loop_plan, LoopPlan):
                parts.append(inner := part.inner(loop_plan))
                found += [f"in the loop: {inner.names.note(note)}" for note in loop_plan.schedule.notes]
    return list(dict.fromkeys(found))


def loop_temporaries(layout: Any, names: ProgramNames) -> list[str]:
    """The names of the temporaries that loops of a program have, in the order of its plan."""
    owners: dict[Sym, str] = {}
    parts = [_ShownPart(layout, names, layout.schedule, plans := getattr(layout, "plans", {}))]
    while parts:
        part = parts.pop(0)
        for plan in part.plans.values():
            if isinstance(plan, LoopPlan):
                parts.append(inner := part.inner(plan))
                where = f" at {plan.op.site}" if plan.op.site else ""
                owners.update({work.sym: f"{inner.names(work.sym)} of the loop{where}" for work in plan.work})
    return [owners[sym] for sym in dict.fromkeys(w.sym for plan in plans.values() for w in plan.work)]


class Placed(NamedTuple):
    """A temporary of the memory plan, for these sizes."""

    name: str
    nbytes: int
    offset: int
    first: int
    last: int


def placed(program: Any, names: ProgramNames) -> tuple[list[Placed], int]:
    """(the temporaries of a program or of its layout, bytes of the workspace)"""
    sizes = names.canonical.sizes
    in_loops = iter(loop_temporaries(program, names) if isinstance(program, ProgramLayout) else ())
    own = getattr(program, "plan", None)
    offsets, workspace = own(sizes) if own else place(program.temporaries, sizes)
    found = []
    for t, offset in zip(program.temporaries, offsets, strict=True):
        shown = next(in_loops, t.name) if " " in t.name else names.text(t.name)
        found.append(Placed(shown, t.nbytes(sizes), int(offset), t.first, t.last))
    return found, int(workspace)


def describe_memory(program: Any, names: ProgramNames) -> str:
    """Results and temporaries of a program or of its layout."""
    temporaries, workspace = placed(program, names)
    lines = [f"result {names(sym)}: {names.nbytes(sym)} bytes" for sym in program.results]
    lines += [f"temporary {t.name}: {t.nbytes} bytes at {t.offset}, items {t.first} to {t.last}" for t in temporaries]
    total, separate = sum(map(names.nbytes, program.results)), sum(t.nbytes for t in temporaries)
    lines.append(f"in all: results {total} bytes, workspace {workspace} bytes (pooled; {separate} without reuse)")
    return "\n".join(lines)


def describe_guards(recording: Recording) -> str:
    exact = [describe_guard(g).replace(" at ", ", to the last bit, at ", 1) for g in recording.numbers]
    return (
        "\n".join([describe_graph_guards(recording.graph), *exact])
        if recording.graph.guards or not exact
        else "\n".join(exact)
    )


def describe_graph_guards(graph: Graph) -> str:
    lines = [describe_guard(g) for g in graph.guards]
    return "\n".join(lines) or "none: no value decided the control flow"


def describe_timings(steps: dict[str, float], compiled_now: bool) -> str:
    text = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in steps.items())
    return text + ("" if compiled_now else "  (the kernel was compiled before)")
