"""Random programs under random compositions of transforms, up to four deep; ``transform_programs.py`` grows and judges
them, and hunts from the command line.  The seeds here are fixed."""

from __future__ import annotations

import pytest
from selection import seeds
from transform_programs import case, judge, judge_kernel

BLOCK = 10
# What may be refused: a branch on what differs between rows, the reverse mode of a loop that data ends, a rule of a
# function that closes over what is differentiated.
REFUSALS = (
    "differs between the rows", "needs the value of an argument of vmap", "gradient of a while_loop", "closes over",
)  # fmt: skip


def failed(seed: int, source: str, level: object, found: str) -> None:
    pytest.fail(f"seed {seed}: {level}\n{found}\n\n{source}", pytrace=False)


@pytest.mark.parametrize("start", seeds(50, quick=10, block=BLOCK))
@pytest.mark.filterwarnings("ignore:the loss that")
def test_each_level_follows_from_the_one_below(start: int) -> None:
    compared = 0
    for seed in range(start, start + BLOCK):
        base, depth = case(seed)
        verdict = judge(base, seed, depth)
        if verdict.found:
            failed(seed, base.source, verdict.level, verdict.found)
        if verdict.refused and not any(text in verdict.refused for text in REFUSALS):
            failed(seed, base.source, verdict.level, verdict.refused)
        compared += verdict.compared
    assert compared > BLOCK


@pytest.mark.slow
@pytest.mark.parametrize("start", seeds(4, quick=0, block=4))
@pytest.mark.filterwarnings("ignore:the loss that")
def test_kernels(start: int) -> None:
    for seed in range(start + 1000, start + 1004):
        base, depth = case(seed)
        verdict = judge(base, seed, depth)
        if verdict.level is not None and not verdict.refused:
            found = judge_kernel(verdict.level)
            if found:
                failed(seed, base.source, verdict.level, found)
