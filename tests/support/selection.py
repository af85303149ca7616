"""Which cases run.

    pytest -m "not slow"         the quick tier (make test)
    pytest                       everything (make test-all)
    TRACEGRAD_SEEDS=20 pytest    with twenty times the seeds (make test-long)

A case is ``slow`` where it takes long, and what it is about has quicker cases, too.  Of a test's cases outside the
matrix of primitives, the quick tier has the first of each way to run them (``WAYS``), and every twentieth of the
others; in it, values and derivatives of real rows in kernels stand for those of complex ones, and values of float64 for
those of float32 (of which it has the derivatives).  All that need a GPU are one case, skipped, where there
is none (``--gpu``: they are collected all the same).
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from tracegrad.runtime.cuda.availability import cuda_status

EVERY = 20  # of a test's cases beyond the first, the quick tier has every twentieth
WAYS = ("run", "way")  # fixtures whose values are ways in which the same program runs
MATRIX = "tests/tracer/ops"
AS_OF_REAL = (
    f"{MATRIX}/test_primitives.py::test_derivatives_in_the_kernel[complex_",
    f"{MATRIX}/test_primitives.py::test_value[kernel-complex_",
)
AS_OF_FLOAT64 = (f"{MATRIX}/test_primitives.py::test_value[", f"{MATRIX}/test_primitives.py::test_edges[")
TIMES = int(os.environ.get("TRACEGRAD_SEEDS", "1"))  # as many seeds in each fuzzer


def seeds(count: int, *, quick: int, block: int = 1) -> list[Any]:
    """The first seed of each block of a fuzzer that has *count* seeds; those from *quick* on are slow."""
    every = range(0, count * TIMES, block)
    return [seed if seed < quick else pytest.param(seed, marks=pytest.mark.slow) for seed in every]


#: of tests of what NumPy does that older releases do otherwise; the front end is as the newest ones are
NUMPY_NOW = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy before 2.4 does this in another way"
)


def some(cases: Iterable[Any], *, quick: int) -> list[Any]:
    """The cases of one kind, of which all but *quick* ones are slow."""
    return [case if k < quick else pytest.param(case, marks=pytest.mark.slow) for k, case in enumerate(cases)]


def pairs(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """So many of the combinations of values of the *axes* that any two values of different ones come together in one;
    in ``make test-long`` all."""
    lists = [[*axis] for axis in axes]
    every = [*itertools.product(*map(range, map(len, lists)))]
    if TIMES == 1:
        left = {pair for one in every for pair in _pairs_in(one)}
        found = []
        while left:
            found.append(max(every, key=lambda one: len(left & _pairs_in(one))))
            left -= _pairs_in(found[-1])
        every = sorted(found)
    return [tuple([values[k] for values, k in zip(lists, one, strict=True)]) for one in every]


def _pairs_in(combination: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    return set(itertools.combinations(enumerate(combination), min(2, len(combination))))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="collect what needs a GPU, whether there is one or not")


class WithoutAGpu(pytest.Item):
    """One case in the place of all that need a GPU."""

    reason = ""

    def runtest(self) -> None:
        pytest.skip(self.reason)


def _thin_out(items: list[pytest.Item]) -> None:
    """Mark cases of tests that have several as slow."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for item in items:
        if item.nodeid.startswith(AS_OF_REAL) or (item.nodeid.startswith(AS_OF_FLOAT64) and "float32" in item.nodeid):
            item.add_marker("slow")
        test, _, case = item.nodeid.partition("[")
        if case and not test.startswith(MATRIX) and not item.get_closest_marker("slow"):
            given = item.callspec.params if isinstance(item, pytest.Function) else {}
            key = (test, *[str(given.get(way)) for way in WAYS])
            counts[key] += 1
            if counts[key] > 1 and counts[key] % EVERY:
                item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _thin_out(items)
    missing = cuda_status().missing
    unable = {item for item in items if item.get_closest_marker("gpu")}
    if not missing or not unable or config.getoption("gpu"):
        return
    config.hook.pytest_deselected(items=list(unable))
    items[:] = [item for item in items if item not in unable]
    case = WithoutAGpu.from_parent(next(iter(unable)).session, name="without a GPU")
    case.reason = f"{len(unable)} cases need a GPU: {missing}"
    case.add_marker("gpu")
    items.append(case)
