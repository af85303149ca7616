"""``step.explain()``: a report on the recordings of a compiled step."""

from __future__ import annotations

from typing import Any

from ..runtime.explain import describe_graph_guards, describe_named_inputs, host_sections, program_sections, section
from ..runtime.paths.family import describe_families
from ..runtime.record.differentiable import name_of
from ..runtime.record.effects import OutsideEffect
from ..tracer.ir.text import print_graph
from .device_program import StepProgram
from .step_recording import GradAssigned


def explain_step(step: Any) -> str:
    """The report on the recordings of a compiled step so far; runs nothing."""
    parts = [f"{name_of(step.__wrapped__)}: a compiled step"]
    paths = step._endpoint.paths
    if not paths and not step.stats.live:
        parts.append("nothing has been recorded yet: the first call of a kind runs eagerly, the second is recorded")
    for k, path in enumerate(paths):
        recording, program = path.recording, path.program
        graph = recording.graph
        state = "runs without Python" if path.verified else "has to be verified by a second recording"
        parts += [
            f"path {k + 1} of {len(paths)}, which {state}",
            section("inputs", describe_named_inputs(graph, recording.names)),
            section("effects", describe_effects(recording)),
            section("recorded program, with your lines", print_graph(graph)),
            *_step_program(program, recording),
            section("guards", describe_graph_guards(graph)),
        ]
    variants = [variant for found in step._endpoint.variants.values() for variant in found]
    parts += describe_families(variants)
    parts.append(section("history", str(step.stats)))
    return "\n\n".join(parts) + "\n"


def _step_program(program: Any, recording: Any) -> list[str]:
    """Text on the program of a path of a step."""
    if isinstance(program, StepProgram):
        on_device = program.device.program
        return [section("on the CUDA device", program.describe()), *program_sections(on_device, program.canonical)]
    return host_sections(program, recording.canonical, recording.notes)


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
