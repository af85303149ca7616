"""Candidates among the paths of a variant, once some of them have missed.

The paths of a variant are the branches of one deterministic function: as long as two of them have had the same answers,
they were asked the same questions.  So a path that missed at a guard tells of the others without running them:
those that part from it before that guard, or after it, miss as well.  The candidates are the paths that part from it
at that very question, which they answered otherwise.

This is a heuristic: two kernels may compute a number that differs in its last bit, and a branch may hang on that
bit.  A path that is passed over wrongly costs a recording, never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .paths import Path


def candidates(paths: Sequence[Path], misses: list[tuple[Path, int]]) -> Iterator[Path]:
    """The *paths* to try, in order; *misses* grows while they are tried: (path, index of the guard that failed)."""
    missed = {id(path) for path, _ in misses}
    for path in paths:
        if id(path) not in missed and all(possible(path, other, guard) for other, guard in misses):
            yield path


def possible(path: Path, other: Path, guard: int) -> bool:
    """Whether *path* can hold where *guard* of *other* has failed."""
    held = range(guard)  # guards are checked in order
    for mine, (question, answer, index) in zip(path.questions, other.questions, strict=False):
        if mine[0] != question:
            return True  # not the same function of its answers: nothing can be told
        if mine[1] != answer:
            return index not in held  # they part here: at what failed, or at something that was not checked
        if index == guard:
            return False  # both need the answer that was not given
    return True


__all__ = ["candidates", "possible"]
