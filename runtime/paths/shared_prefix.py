"""Common steps of the paths of a family, computed once in a call.

A member of a family that misses at a guard has already run the steps in front of it, and the member that is run in
its place begins with many of the same ones.  ``merge`` finds the common steps of members
(``codegen/cpu/value_numbering.py``), gives their results one place in the workspace of the family, apart from all other
temporaries, and lists for each guard of each member the steps of the next one that are done by then.  The launcher
hands that to the next kernel as a word of bits (``bind.bind_family``).

Whole steps are shared: one loop nest, one library call, one loop over a body.  A step that was fused with work of one
path alone is another step; to keep the common part out of it would cost every call a pass over its arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...codegen.cpu.value_numbering import Table, products, step_keys
from ...codegen.lower.canonical import Sym
from ...codegen.schedule.early_exit import steps_before
from ...codegen.schedule.memory import ALIGN, Temporary, plan
from ..launch.bind import SharedSteps
from .paths import Path

Product = tuple[int, int]  # (value number of a step, index among its products)
Place = tuple[str, int]  # ("result", index) or ("temporary", index)


@dataclass(slots=True)
class SharedPrefix(SharedSteps):
    """``shared``: how many different steps are not run again somewhere; ``apart``: how many in front of a branch are
    not, since the path that follows has them in another form, if at all."""

    shared: int
    apart: int


@dataclass(slots=True)
class _PathSteps:
    """A path's steps by value number: position, bit, and the temporaries that each leaves behind."""

    path: Path
    position: dict[int, int] = field(default_factory=dict)
    bit: dict[int, int] = field(default_factory=dict)
    places: dict[int, list[Place]] = field(default_factory=dict)

    def before(self, guard: int) -> set[int]:
        """The steps that have run when *guard* fails."""
        assert self.path.program is not None
        end = steps_before(self.path.program.schedule, guard)
        return {key for key, position in self.position.items() if position < end}


def merge(paths: Sequence[Path], following: Sequence[Sequence[int]], table: Table) -> SharedPrefix:
    """The shared steps of *paths*, of which the launcher runs ``following[k][g]`` where guard g of path k fails.

    *table*: value numbers of the paths of this variant.
    """
    members = [_member(path, table) for path in paths]
    shareable = _shareable(members)
    done: list[list[int]] = []
    used: set[int] = set()
    seen: set[int] = set()
    for member, after in zip(members, following, strict=True):
        row = []
        for guard, k in enumerate(after):
            before = member.before(guard) if k >= 0 else set()
            common = before & members[k].bit.keys() & shareable
            row.append(sum(1 << members[k].bit[key] for key in common))
            used |= common
            seen |= before
        done.append(row)
    home, start = _homes(members, used)
    plans = [_offsets(member, used, home, start) for member in members]
    return SharedPrefix(
        [offsets for offsets, _ in plans], max(total for _, total in plans), done, len(used), len(seen - used)
    )


def _member(path: Path, table: Table) -> _PathSteps:
    program, recording = path.program, path.recording
    assert program is not None
    member = _PathSteps(path)
    if path.steps is None:
        path.steps = step_keys(program, recording.canonical, [a for _, a in recording.graph.consts], table)
    results = {sym: k for k, sym in enumerate(program.results)}
    first = len(program.inputs) + len(results)  # buffer of the first temporary

    def place(sym: Sym) -> Place:
        return ("result", results[sym]) if sym in results else ("temporary", program.buffer_index[sym] - first)

    for position, ((item, made), key) in enumerate(zip(products(program).items(), path.steps, strict=True)):
        if program.schedule.windows.keys().isdisjoint(made) and item in program.bits and key not in member.bit:
            member.position[key], member.bit[key] = position, program.bits[item]
            member.places[key] = [place(sym) for sym in made]
    return member


def _shareable(members: Sequence[_PathSteps]) -> set[int]:
    """The steps that leave behind the same results, or temporaries, in every member that has them."""
    seen: dict[int, Any] = {}
    clash: set[int] = set()
    for member in members:
        for key, places in member.places.items():
            kinds = [place if place[0] == "result" else "temporary" for place in places]
            if seen.setdefault(key, kinds) != kinds:
                clash.add(key)
    return seen.keys() - clash


def _homes(members: Sequence[_PathSteps], used: set[int]) -> tuple[dict[Product, int], int]:
    """(the offset of each temporary that steps in *used* leave behind, where those end)."""
    home: dict[Product, int] = {}
    end = 0
    for member in members:
        for key in sorted(used & member.places.keys()):
            for ordinal, (kind, k) in enumerate(member.places[key]):
                if kind == "temporary" and (key, ordinal) not in home:
                    home[key, ordinal] = end
                    end += _temporaries(member)[k].nbytes(_sizes(member))
    return home, -(-end // ALIGN) * ALIGN


def _offsets(member: _PathSteps, used: set[int], home: dict[Product, int], start: int) -> tuple[list[int], int]:
    """(the offsets of the temporaries of *member*, the bytes that it needs): those of its own from *start* on."""
    pinned = {
        k: home[key, ordinal]
        for key in used & member.places.keys()
        for ordinal, (kind, k) in enumerate(member.places[key])
        if kind == "temporary"
    }
    temporaries = _temporaries(member)
    free = [k for k in range(len(temporaries)) if k not in pinned]
    planned, total = plan([temporaries[k] for k in free], _sizes(member))
    own = {k: start + offset for k, offset in zip(free, planned, strict=True)}
    return [pinned[k] if k in pinned else own[k] for k in range(len(temporaries))], start + total


def _temporaries(member: _PathSteps) -> list[Temporary]:
    assert member.path.program is not None
    return member.path.program.temporaries


def _sizes(member: _PathSteps) -> np.ndarray:
    return member.path.recording.canonical.sizes


def describe_merged(merged: SharedPrefix) -> list[str]:
    """Lines for ``explain()``: the numbers of shared steps, and of those that may run again."""
    lines = []
    if merged.shared:
        lines.append(f"steps in front of branches that one launch runs once for all paths: {merged.shared}")
    if merged.apart:
        lines.append(f"steps in front of branches that may run again: {merged.apart}, fused with work of one path")
    return lines
