"""``f.explain(*args)``: a report on a call and its recordings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ..codegen.cpu.loop_plan import LoopPlan
from ..codegen.cpu.program import Program
from ..codegen.lower.canonical import ONE, Canonical, CanonicalOp, Const, Sym
from ..codegen.schedule.loop_tree import LibraryCall, Loop, Schedule, ScheduleItem, Statement
from ..tracer.ir.data_classes import NamedTuple
from ..tracer.ir.errors import DifferentiationError
from ..tracer.ir.graph import Graph
from ..tracer.ir.interrupts import put_back, state
from ..tracer.ir.primitive import HOST, LOOP
from ..tracer.ir.refusals import Reason
from ..tracer.ir.text import print_graph
from ..tracer.record.integers import IntegersAskedError
from ..tracer.record.recorder import RecordAgainError
from .config import config
from .cuda.run import program_of
from .launch.kernel_cache import kernels
from .mode import VALUE, Mode
from .paths.dispatcher import FunctionDispatcher
from .paths.family import describe_families
from .paths.paths import describe_guard
from .record.call_key import Call
from .record.differentiable import name_of
from .record.effects import NotCountersError
from .record.record import record
from .record.recording import Look, Recording
from .state.state_plan import Snapshot, StatePlan

_SHOWN = 24  # names listed before the rest is counted

Notes = Iterable[str | Reason]


class Looked(NamedTuple):
    """A call's program, recorded anew: in the mode that was asked for, or, as the *note* says, of the value alone."""

    call: Call
    mode: Mode
    plan: StatePlan
    snapshot: Snapshot
    recording: Recording
    note: str

    @property
    def reasons(self) -> list[Reason]:
        """Why Python has to run in each call, if it has to."""
        return [*self.plan.reasons, *self.recording.changes]


def recorded(
    dispatcher: FunctionDispatcher, call: Call, mode: Mode, how: Look | None = None
) -> tuple[StatePlan, Snapshot, Recording]:
    """(the analysis of the function, its outside state, a new recording of the *call*); *how* it is to be looked at."""
    while True:
        plan, snapshot = dispatcher.plans.state(call)
        try:
            return (
                plan,
                snapshot,
                record(dispatcher.fn, call, mode, plan, snapshot if plan.provable else None, look=how),
            )
        except (NotCountersError, RecordAgainError):  # the next run knows what this one has found
            continue
        except IntegersAskedError as error:
            if not plan.keep_contents({place for place in error.asked if type(place) is str}):
                raise


def look(dispatcher: FunctionDispatcher, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Looked:
    """Record the call: its Python runs once more."""
    call = dispatcher.flatten(args, kwargs, mode)
    note = ""
    try:
        plan, snapshot, recording = recorded(dispatcher, call, mode)
    except DifferentiationError as error:
        note = f"\nno gradient, so this is its value alone: {str(error).splitlines()[0]}"
        mode = Mode(VALUE, mode.argnums, mode.has_aux)
        plan, snapshot, recording = recorded(dispatcher, call, mode)
    return Looked(call, mode, plan, snapshot, recording, note)


def explain_call(dispatcher: FunctionDispatcher, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Records the call (its Python runs once more) and describes the program, its kernel and the function's history."""
    before = state()
    try:
        looked = look(dispatcher, mode, args, kwargs)
    except BaseException as error:
        put_back(before, error)
        raise
    call, mode, plan, snapshot, recording, note = looked
    compiled, timings = _on_device(recording) if call.device is not None else _on_host(recording)
    parts = [
        f"{name_of(dispatcher.fn)}: {mode.kind}\n{describe_status(dispatcher, mode, call)}{note}",
        section("inputs", describe_inputs(recording)),
        section("recorded program, with your lines", print_graph(recording.graph)),
        *compiled,
        section("guards", describe_guards(recording)),
        *_segments(dispatcher, mode, call),
        section("outside state", describe_state(plan, snapshot, looked.reasons)),
        section("timings", timings),
        section("history", str(dispatcher.stats)),
    ]
    return "\n\n".join(parts) + "\n"


def _on_host(recording: Recording) -> tuple[list[str], str]:
    """(sections on the CPU program, its timings)"""
    known_before = kernels.compiles
    program, _ = kernels.get(recording.canonical, recording.arguments)
    sections = host_sections(program, recording.canonical, recording.notes)
    return sections, describe_timings({**recording.seconds, **program.seconds}, kernels.compiles > known_before)


def host_sections(program: Program, canonical: Canonical, notes: Notes) -> list[str]:
    """Loops, decisions and memory of a program for the CPU."""
    return [section("loops", describe_schedule(program)), *program_sections(program, canonical, notes)]


def _on_device(recording: Recording) -> tuple[list[str], str]:
    """(sections on the CUDA program, its timings)"""
    bound = program_of(recording.graph, recording.canonical, recording.arguments)
    sections = [section("on the CUDA device", bound.describe())]
    sections += program_sections(bound.program, recording.canonical, recording.notes)
    return sections, describe_timings(recording.seconds, not bound.cached)


def program_sections(program: Any, canonical: Canonical, notes: Notes = ()) -> list[str]:
    """Decisions and memory of *program*, if there is one (CuPy has none)."""
    if program is None:
        return []
    return [
        section("decisions", describe_decisions(program, notes)),
        section("memory", describe_memory(program, canonical)),
    ]


def describe_status(dispatcher: FunctionDispatcher, mode: Mode, call: Call) -> str:
    """Cached recordings for calls with this key, and whether they are verified."""
    endpoint = dispatcher.endpoints.get(mode)
    if endpoint is not None and call.key in endpoint.live:
        return endpoint.live[call.key].describe()
    variants = endpoint.variants.get(call.key, ()) if endpoint is not None else ()
    paths = [path for variant in variants for path in variant.paths]
    if not paths:
        return (
            "a call like this has not been made yet: the first one will record it, or derive it from a recording of f"
        )
    ready = sum(path.verified for path in paths)
    plural = "s" * (len(paths) != 1)
    text = f"a call like this has {len(paths)} recorded path{plural}, {ready} of them ready to run without Python"
    origins = Counter([str(path.recording.origin) for path in paths if path.recording.origin is not None])
    derived = [f"{count} of them derived from the recording of {origin}" for origin, count in origins.items()]
    return "\n".join([text, *derived, *describe_families(variants)])


def _segments(dispatcher: FunctionDispatcher, mode: Mode, call: Call) -> list[str]:
    """The section on the cuts between segments, if the call runs in segments."""
    endpoint = dispatcher.endpoints.get(mode)
    live = endpoint.live.get(call.key) if endpoint is not None else None
    if live is None or live.segments is None:
        return []
    return [section("segments", live.segments.answers.describe())]


def describe_inputs(recording: Recording) -> str:
    """The inputs of the printed program, whose letters go in order, by the user's names for them."""
    return describe_named_inputs(recording.graph, recording.names)


def describe_named_inputs(graph: Graph, names: Iterable[str]) -> str:
    head = print_graph(Graph(graph.inputs, [], []))
    letters = re.findall(r"(\w+):", head.partition(")")[0])
    named = zip(letters, names, graph.inputs, strict=True)
    lines = [f"{letter} is {name}, {var.aval}" for letter, name, var in named]
    lines += [f"an array that the function makes, {var.aval}" for var, _ in graph.consts]
    return "\n".join(lines) or "none"


def describe_state(plan: StatePlan, snapshot: Snapshot, reasons: list[Reason]) -> str:
    """The outside state that a replay compares by value, and the arrays that it reads again."""
    if reasons:
        return "\n".join(
            ["Python has to run in each call, because the function", *(f"  {r}" for r in dict.fromkeys(reasons))]
        )
    values, functions = [], []
    for label, token in snapshot._trail:
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


def section(title: str, body: str) -> str:
    return f"--- {title}\n{readable(body.rstrip())}"


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


def describe_schedule(program: Program) -> str:
    """The loop tree, one line for each loop and stored value."""
    lines: list[str] = []
    _describe_items(program, program.schedule, program.canonical, program.plans, 0, lines)
    return "\n".join(lines) or "nothing to compute"


def _describe_items(
    program: Program, schedule: Schedule, canonical: Canonical, plans: dict[CanonicalOp, LoopPlan], depth: int,
    lines: list[str],
) -> None:  # fmt: skip
    pad, kernel = "  " * depth, 0
    for item in schedule.body:
        if isinstance(item, LibraryCall):
            plan = plans.get(item.op)
            between = item.op.prim.kind == HOST or (item.op.prim.kind == LOOP and plan is None)
            where = "NumPy, between kernels" if between else "the kernel steps" if plan else "library"
            outs = ", ".join(map(repr, item.op.outs))
            lines.append(f"{pad}{outs} = {item.op.prim.name} {_operands(item.op)}   ({where})")
            if plan is not None:
                lines.append(f"{pad}  {_steps(item.op, plan)}:")
                _describe_items(program, plan.schedule, plan.program, plan.nested, depth + 2, lines)
        else:
            if isinstance(item, Loop):
                kernel += 1
                lines.append(f"{pad}loop nest {kernel}:")
            _describe(program, canonical, item, depth + isinstance(item, Loop), lines, depth + isinstance(item, Loop))


def _steps(op: CanonicalOp, plan: LoopPlan) -> str:
    """The iteration range of the loop *op*, as text."""
    params = op.params
    text = f"each of n{params['length']} steps"
    if params["counted"]:
        text = f"the first {op.ins[0]} of n{params['length']} steps"
    if params["stops"]:
        text = f"{text if params['counted'] else 'steps'} for as long as {plan.program.outputs[0]}"
    return f"for {text}{' from the last to the first' if params['reverse'] else ''}"


def describe_decisions(program: Any, notes: Notes = ()) -> str:
    """The reasons why values were stored and loops not fused."""
    return "\n".join(map(str, dict.fromkeys([*notes, *program.schedule.notes]))) or "everything that could be fused was"


def _describe(
    program: Program, canonical: Canonical, item: ScheduleItem, depth: int, lines: list[str],
    first: int,
) -> None:  # fmt: skip
    """One item, *depth* levels in; the loop variable of level *first* is i1."""
    pad = "  " * depth
    if isinstance(item, Loop):
        static = canonical.static.get(item.dim)
        number = depth - first + 1
        lines.append(f"{pad}for i{number} in {f'{static} (unrolled)' if static else f'n{item.dim}'}:")
        for inner in item.body:
            _describe(program, canonical, inner, depth + 1, lines, first)
    elif isinstance(item, Statement):
        where = "result" if item.out in program.results else "guard" if item.out in program.guards else "temporary"
        window = program.schedule.windows.get(item.out)
        if window is not None:
            where = f"part of {program.schedule.runs[window.run].whole}"
        if canonical is not program.canonical and item.out in canonical.outputs:
            where = "given by the step"
        site = f"   # {item.op.site}" if item.op.site else ""
        lines.append(f"{pad}{item.out} = {item.op.prim.name} {_operands(item.op)}   ({where}){site}")


def _operands(op: Any) -> str:
    return " ".join(repr(x) for x in op.ins if isinstance(x, (Sym, Const)))


def describe_memory(program: Any, canonical: Canonical) -> str:
    sizes = canonical.sizes
    lines = []
    total = 0
    for sym in program.results:
        nbytes = sym.dtype.itemsize
        for d in sym.dims:
            nbytes *= int(sizes[d]) if d != ONE else 1
        total += nbytes
        lines.append(f"result {sym}: {nbytes} bytes")
    offsets, workspace = program.plan(sizes)
    for temporary, offset in zip(program.temporaries, offsets, strict=True):
        nbytes, needed = temporary.nbytes(sizes), f"items {temporary.first} to {temporary.last}"
        lines.append(f"temporary {temporary.name}: {nbytes} bytes at {offset}, {needed}")
    separate = sum(t.nbytes(sizes) for t in program.temporaries)
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
