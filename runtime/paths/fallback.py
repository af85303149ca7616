"""The fallback for call keys whose Python runs each time: the reason, and the kernels of its recordings.

As long as the programs are few, each is one kernel.  A kind of call that has shown more than ``max_paths`` programs,
because it goes another way through its branches again and again, is run in segments from then on; so is one whose
first program is the thousand steps of a ``while`` loop.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from ...tracer.ir.graph import Node
from ...tracer.ir.primitive import LOOP
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.ir.site import Site
from ..config import config
from ..record.recording import Pieces, Recording
from .segments import Answers, Segments, at_iterations

LONG = 3000  # operations, adjoint included, from which on a program is compiled in pieces if it can be
LONG_PIECE = 100  # operations of such a piece, on average, at most
RECORDING, RECORDED = 300.0, 15.0  # microseconds of a live run, and of each operation in it, about
LONG_LOOPS = 240  # operations from which on a live run with loops is compiled in pieces

_ADVICE = "choose with np.where(condition, a, b) there, or compute in a loop that stays one (tracegrad.scan)"


@dataclass(eq=False, slots=True)
class Live:
    why: str
    split: bool = False  # whether that is the reason for segments, too
    programs: int = 0  # kernels compiled for whole programs
    segments: Segments | None = None
    plain: bool = False  # whether nothing is recorded, and no kernel used

    def compiled(self) -> None:
        """Count a program that needed a kernel of its own."""
        self.programs += 1
        if too_many_programs(self.programs) and self.segments is None:
            self.segments = Segments()

    def describe(self) -> str:
        """One line for ``explain()``: the kernels used, and the reason."""
        if self.plain:
            return f"a call like this runs Python each time, without a kernel: {self.why}"
        how = "reuses the kernel" if self.segments is None else "reuses the kernels of its segments"
        return f"a call like this runs Python each time and {how}: {self.why}"


def too_many_programs(count: int) -> bool:
    """Whether to run in segments, after *count* programs compiled as a whole.  A heuristic: either way is right."""
    return count > config.max_paths


def too_long(recording: Recording) -> Reason | None:
    """The reason not to compile a first program as a whole: this takes seconds, and its segments, which calls share,
    are short.  None where there is none.  A heuristic, as above."""
    length = len(recording.graph.nodes)
    if length <= LONG:
        return None
    answers = Answers()
    answers.learn(recording.graph.guards)
    pieces = len(answers.cuts(recording.graph.guards)) + 1
    if length > LONG_PIECE * pieces:
        return None
    return Refusal.REPLAY_LONG(count=length, branches=pieces - 1, site=recording.graph.guards[-1].site)


def better_plainly(nodes: Sequence[Node]) -> bool:
    """Whether NumPy is done with what a live run computes before this is recorded and its kernel has run.  A heuristic:
    either way is right."""
    by_kernel = RECORDING + len(nodes) * RECORDED
    by_numpy = sum(map(_by_numpy, nodes))
    return by_numpy < by_kernel


def _by_numpy(node: Node) -> float:
    """The microseconds that NumPy takes for an operation, about."""
    if node.prim.kind == LOOP and "body" in node.params:
        return float(node.params["length"] * sum(map(_by_numpy, node.params["body"].nodes)))
    return 1.0 + sum(math.prod(var.aval.shape) for var in node.outs) / 1000


def in_pieces(nodes: Sequence[Node]) -> bool:
    """Whether a live run is better compiled in pieces, because its loops repeat the same ones.  A heuristic."""
    return len(nodes) >= LONG_LOOPS and len(at_iterations(nodes)) > 1


def branch_outcomes(site: Site | None) -> Reason:
    """The reason for the fallback of a call key with too many paths."""
    return Refusal.REPLAY_BRANCHES(count=config.max_paths, site=site)


def tell(name: str, live: Live, pieces: Pieces) -> None:
    """Warn, at the line of the last branch that cuts the program."""
    guard = None if live.segments is None else live.segments.answers.last(pieces.guards)
    if guard is not None and guard.site is not None:
        message = (
            f"{name}: Python runs in each call, and only what lies between the branches is compiled "
            f"({live.why if live.split else branch_outcomes(guard.site)}); {_ADVICE}"
        )
        warnings.warn_explicit(message, UserWarning, guard.site.file, guard.site.line)
