"""The summary of a report: some ten lines on one call, before any program is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...codegen.cpu.library_calls import native
from ...codegen.cpu.loop_plan import LoopPlan
from ...codegen.cpu.program import ProgramLayout
from ...codegen.lower.canonical import Sym
from ...codegen.schedule.loop_tree import LibraryCall, Loop, Statement
from ...tracer.ir.graph import Graph
from ...tracer.ir.primitive import LOOP
from ..disk.report import size_text
from ..stats import Stats
from .names import ProgramNames
from .sections import decisions, placed

MOST = 2  # reasons or inputs of a kind that are told

#: The advice for decisions, by the code of a reason or the part of it before the stroke.
ADVICE = {
    "roll": "let each turn do the same operations on the same shapes, or write tracegrad.scan",
    "while": "tracegrad.while_loop says how the loop ends",
    "code": "let the turns compute only, or write tracegrad.scan",
    "rows": "return the rows and stack them, or write tracegrad.scan",
    "choice": "np.where(condition, a, b) needs no branch",
    "fuse/cost": "nothing to change",
    "fuse": "one more pass over the array, which the order of the computation asks for",
}
_PLACE = re.compile(r"[^\s`]+:\d+")
_CODE = re.compile(r"\(([a-z]+)/([a-z-]+)\)(?:   # .*)?$")


def line(head: str, text: str) -> str:
    return f"{head:<9} {text}"


def summary_of(
    graph: Graph, names: Sequence[str], shown: ProgramNames, layout: Any, notes: Iterable[Any], stats: Stats,
    reasons: Sequence[str], timings: str, outputs: int, device: str = "",
) -> str:  # fmt: skip
    """The summary of a program with these inputs' *names*; *layout*: its schedule, if there is one; *reasons*: why
    Python runs in each call; *device*: how it runs on a CUDA device."""
    lines = [line("reads", _inputs(graph, names)), line("gives", _results(graph, outputs))]
    lines.append(line("program", f"{_count(graph)}, from {_lines(graph)} of your lines"))
    if layout is not None:
        lines += [line("kernel", device or _kernel(layout)), line("memory", _memory(graph, layout, shown))]
    elif device:
        lines.append(line("kernel", device))
    lines.append(line("Python", _python(layout, reasons)))
    told = decisions(layout, shown, notes) if layout is not None else [str(note) for note in notes]
    lines += [line("decided", text) for text in _decided(told)]
    recorded = [f"{count} x {reason}" for reason, count in stats.retraces.most_common(MOST)]
    rest = len(stats.retraces) - len(recorded)
    text = f"{_times(stats.traces)} in {_counted(stats.calls, 'call')}" + (f": {'; '.join(recorded)}" * bool(recorded))
    lines.append(line("recorded", text + (f"; and {rest} other reasons" if rest > 0 else "")))
    if timings:
        lines.append(line("took", timings))
    return "\n".join(lines)


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count:,} times")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def nbytes_of(graph: Graph) -> int:
    """The bytes of the arrays and numbers that a call reads."""
    avals = [var.aval for var in (*graph.inputs, *[v for v, _ in graph.consts])]
    return sum(aval.dtype.itemsize * _elements(aval.shape) for aval in avals)


def _elements(shape: Sequence[int]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


def _inputs(graph: Graph, names: Sequence[str]) -> str:
    sized = sorted(zip(graph.inputs, names, strict=False), key=lambda item: -_elements(item[0].aval.shape))
    shown = [f"{name.removeprefix('the argument ').strip('`')} {var.aval}" for var, name in sized[: MOST + 1]]
    rest = len(graph.inputs) - len(shown)
    more = f" and {rest} more" if rest > 0 else ""
    if graph.consts:
        more += f", {_counted(len(graph.consts), 'array')} that the function makes"
    return f"{', '.join(shown)}{more}: {size_text(nbytes_of(graph))}" if shown or more else "nothing"


def _results(graph: Graph, outputs: int) -> str:
    avals = [x.aval for x in graph.outputs[:outputs]]
    shown = [str(aval) for aval in avals[: MOST + 2]]
    rest = len(avals) - len(shown)
    total = sum(aval.dtype.itemsize * _elements(aval.shape) for aval in avals)
    more = f" and {rest} more" if rest > 0 else ""
    return f"{', '.join(shown)}{more}: {size_text(total)}" if shown else "nothing"


def _bodies(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph.nodes:
        if node.prim.kind == LOOP:
            yield from _bodies(node.params["body"])


def _nodes(graph: Graph) -> list[Any]:
    return [node for body in _bodies(graph) for node in body.nodes]


def _count(graph: Graph) -> str:
    nodes = _nodes(graph)
    adjoint = sum(node.site is not None and node.site.function.endswith("(adjoint)") for node in nodes)
    text = f"{len(nodes)} operations"
    return text + (f", {adjoint} of them the derivative" if adjoint else "")


def _lines(graph: Graph) -> int:
    return len({(node.site.file, node.site.line) for node in _nodes(graph) if node.site is not None})


def _kernel(layout: ProgramLayout) -> str:
    nests = calls = loops = 0
    todo = [(layout.schedule, layout.plans)]
    while todo:
        schedule, plans = todo.pop()
        for item in schedule.body:
            if isinstance(item, LibraryCall):
                inner = plans.get(item.op)
                loops += item.op.prim.kind == LOOP
                calls += item.op.prim.kind != LOOP and native(item.op)
                if isinstance(inner, LoopPlan):
                    todo.append((inner.schedule, inner.nested))
            else:
                nests += isinstance(item, Loop)
    counted = [(nests, "loop nest", "loop nests"), (calls, "library call", "library calls")]
    counted.append((loops, "loop around some of them", "loops around some of them"))
    return ", ".join([f"{n} {one if n == 1 else many}" for n, one, many in counted if n]) or "nothing"


def passes(layout: ProgramLayout, names: ProgramNames) -> tuple[int, int]:
    """(how many times arrays are gone through, the bytes that loop nests and library calls read and write in all)."""
    count = total = 0
    todo: list[tuple[Any, Any, ProgramNames, int]] = [(layout.schedule, layout.plans, names, 1)]
    while todo:
        schedule, plans, mine, times = todo.pop()
        for item in schedule.body:
            inner = plans.get(item.op) if isinstance(item, LibraryCall) else None
            if isinstance(inner, LoopPlan) and isinstance(item, LibraryCall):
                params = item.op.params
                body = mine.body(params["body"], bool(params["stops"]))
                todo.append((inner.schedule, inner.nested, body, times * mine.size(params["length"])))
                continue
            used: Iterable[Sym]
            if isinstance(item, LibraryCall):
                used = {x for x in (*item.op.ins, *item.op.outs) if isinstance(x, Sym)}
            else:
                used = schedule.buffers(item)
            if isinstance(item, Statement):  # without a loop around it
                continue
            count += times
            total += times * sum(mine.nbytes(x, schedule.kept_axes(x)) for x in used)
    return count, total


def _memory(graph: Graph, layout: Any, names: ProgramNames) -> str:
    _, workspace = placed(layout, names)
    written = sum(map(names.nbytes, layout.results))
    text = f"{size_text(nbytes_of(graph))} of inputs, {size_text(written)} of results, workspace {size_text(workspace)}"
    if not isinstance(layout, ProgramLayout):
        return text
    count, moved = passes(layout, names)
    most = "at most " * any(op.prim.kind == LOOP and op.params["stops"] for op in layout.canonical.ops)
    passed = f"; {most}{count:,} pass{'es' * (count != 1)} over arrays, {size_text(moved)} in all"
    return text + passed * bool(count)


def _python(layout: Any, reasons: Sequence[str]) -> str:
    if reasons:
        more = f" (and {len(reasons) - 1} more)" * (len(reasons) > 1)
        return f"runs in each call, because the function {reasons[0]}{more}"
    steps = [
        f"{item.op.prim.name}{f' at {item.op.site}' if item.op.site else ''}"
        for item in (layout.schedule.body if isinstance(layout, ProgramLayout) else ())
        if isinstance(item, LibraryCall) and not native(item.op)
    ]
    if steps:
        return f"between kernels: {', '.join(steps[:MOST])}" + f" and {len(steps) - MOST} more" * (len(steps) > MOST)
    return "does nothing in a call that is replayed"


def _decided(told: Sequence[str]) -> list[str]:
    """The decisions that a user may wish otherwise, what was not rolled first, each with advice."""
    by_code: dict[str, list[str]] = {}
    rolled = {place for text in told if text.startswith("rolled: ") for place in _PLACE.findall(text)}
    for text in told:
        if not text.startswith("rolled: ") and not rolled.isdisjoint(_PLACE.findall(text)[:1]):
            continue  # a question of a loop that has become one
        found = _CODE.search(text)
        by_code.setdefault("/".join(found.groups()) if found else "", []).append(text)
    ordered = sorted(by_code.items(), key=lambda item: (item[0].startswith("fuse"), not item[1][0].startswith("not-")))
    lines = []
    for code, texts in ordered[: MOST + 1]:
        advice = ADVICE.get(code) or ADVICE.get(code.partition("/")[0], "")
        more = f" (and {len(texts) - 1} more like it)" * (len(texts) > 1)
        lines.append(f"{texts[0].replace('   # ', ', at ')}{more}" + (f": {advice}" if advice else ""))
    return lines or ["everything that could be fused or rolled was"]
