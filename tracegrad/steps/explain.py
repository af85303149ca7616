"""``step.explain()``: a report on the recordings of a compiled step."""

from __future__ import annotations

from typing import Any

from ..runtime.paths.family import describe_families
from ..runtime.record.differentiable import name_of
from ..runtime.record.effects import OutsideEffect
from ..runtime.report.explain import FORMATS, LEVELS, Explanation, checked, program_sections
from ..runtime.report.names import ProgramNames, layout_of
from ..runtime.report.sections import describe_graph_guards
from ..runtime.report.shown import ShownProgram
from ..runtime.report.summary import summary_of
from .device_program import StepProgram
from .step_effects import GradAssigned


def explain_step(step: Any, level: str = "summary", form: str = "text") -> str:
    """The report on the recordings of a compiled step so far; runs nothing."""
    checked("level", level, tuple(LEVELS))
    checked("format", form, FORMATS)
    heading = f"{name_of(step.__wrapped__)}: a compiled step"
    paths = step._endpoint.paths
    if not paths and not step.stats.live:
        heading += "\n\nnothing has been recorded yet: the first call of a kind is"
    described = [_described(step, path, f"path {k + 1} of {len(paths)}") for k, path in enumerate(paths)]
    variants = [variant for found in step._endpoint.variants.values() for variant in found]
    families = "\n\n".join(describe_families(variants))
    live = [found.describe() for found in step._endpoint.live.values()]
    tail = {"launches": families, "history": "\n".join([str(step.stats), *dict.fromkeys(live)])}
    report = Explanation(tuple(described), level, heading, {name: body for name, body in tail.items() if body})
    return report if form == "text" else report.html()


def _described(step: Any, path: Any, which: str) -> ShownProgram:
    recording, program = path.recording, path.program
    graph, notes, device = recording.graph, recording.notes, ""
    if isinstance(program, StepProgram):
        layout, notes, device = program.device.program, (), program.describe()
        names = ProgramNames(graph, program.canonical)
    else:
        names = ProgramNames(graph, recording.canonical)
        layout = layout_of(recording.canonical, program.arguments)
    found = program_sections(graph, recording.names, names, layout, notes, device)
    parts = {
        "summary": summary_of(
            graph, recording.names, names, layout, notes, step.stats, [], "", len(graph.outputs),
            device.rpartition("\n")[2],
        ),
        "inputs": found.pop("inputs"),
        "effects": describe_effects(recording),
        **found,
        "guards": describe_graph_guards(graph),
    }  # fmt: skip
    return ShownProgram(f"{which}, which runs without Python", graph, list(recording.names), names, layout, parts)


def describe_effects(recording: Any) -> str:
    """Text on the effects of a step: writes, gradients, results."""
    lines = [f"writes {recording.names[k]} in place" for k in recording.writes]
    results = [effect.result for effect in recording.effects if isinstance(effect, GradAssigned)]
    dropped = results.count(None)
    given = len(results) - dropped
    lines += [f"assigns .grad of {given} tensors"] * bool(given) + [f"drops .grad of {dropped} tensors"] * bool(dropped)
    outside = sum(isinstance(effect, OutsideEffect) for effect in recording.effects)
    lines += [f"{outside} changes of objects outside"] * bool(outside)
    return "\n".join(lines) or "none"
