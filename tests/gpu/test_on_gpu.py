"""The test matrix on a GPU: kernels assembled for it, launched through CuPy.  ``pytest -m gpu``; skipped without one.

``make gpu-check`` runs these, the handful once more under NVIDIA's compute-sanitizer, and the benchmarks.
"""

from __future__ import annotations

import numpy as np
import pytest
from device import HANDFUL, device_tier
from matrix import assert_targets_agree, bounds, program_of
from support import TIERS, assert_agree
from test_primitives import (  # noqa: F401  (collected here a second time, with this module's fixtures)
    FLOATS,
    matrix,
    test_casts,
    test_derivatives_in_the_kernel,
    test_edges,
    test_edges_of_the_gradient_in_the_kernel,
    test_elementwise_shapes,
    test_indexing,
    test_integer_edges,
    test_integer_reductions_and_views,
    test_matmul_of_all_kinds,
    test_memory_layout_of_inputs,
    test_recurrence,
    test_reductions_of_edges,
    test_reductions_over_all_axes,
    test_slices_and_pads,
    test_sorting_and_searching,
    test_value,
)

from benchmarks.recorded import recorded
from benchmarks.workloads import SMALL_LOOPS, STRAIGHT
from tracegrad.runtime.cuda.availability import cuda_status

MISSING = cuda_status().missing
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(MISSING), reason=f"no GPU: {MISSING}")]
WORKLOADS = {name: w for name, w in (STRAIGHT | SMALL_LOOPS).items() if not name.endswith(("1e6", "10k_d10_K25"))}


@pytest.fixture
def run():
    return device_tier


@pytest.fixture
def kernel():
    return device_tier


@FLOATS
@matrix()
def test_targets_agree(prim, dtype):
    graph, inputs = program_of(prim, dtype)
    found, expected = device_tier(graph, inputs), TIERS["kernel"](graph, inputs)
    for position, (a, b) in enumerate(zip(found, expected, strict=True)):
        limits = bounds(prim, graph, position, b) if b.dtype.kind == "f" else {}
        assert_agree(a, b, **limits, what=f"output {position} of {prim.name}")


def longest(inputs):
    """The length of the longest axis: how many terms a sum may have."""
    return max(n for x in inputs for n in np.shape(x) or (1,))


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload(name):
    workload = WORKLOADS[name]
    recording, inputs = recorded(workload.fn, workload.make_args(), workload.argnums)
    found, expected = (tier(recording.graph, inputs) for tier in (device_tier, TIERS["kernel"]))
    assert_targets_agree(found, expected, name, longest(inputs))


@pytest.mark.parametrize("name", HANDFUL)
def test_handful(name):
    graph, inputs = HANDFUL[name]()
    assert_targets_agree(device_tier(graph, inputs), TIERS["kernel"](graph, inputs), name, longest(inputs))
