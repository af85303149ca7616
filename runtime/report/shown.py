"""One recorded program as a report has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...tracer.ir.graph import Graph
from .names import ProgramNames


@dataclass(frozen=True)
class ShownProgram:
    """One recorded program: the parts that are shown of it; ``layout`` is None where CuPy runs it."""

    head: str
    graph: Graph
    inputs: list[str]
    names: ProgramNames
    layout: Any
    sections: dict[str, str]
