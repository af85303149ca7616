"""The registry is the test matrix of CUDA kernels, too: the tests of ``test_primitives.py`` with kernels that the
simulator runs, and then the two targets side by side.

What the simulator runs is the kernels' LLVM IR with libdevice's own code, so bits are those of a GPU but for the
hardware's approximations in float32 (``codegen/cuda/libdevice_cpu.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba.cuda.simulator", reason="kernels are simulated by numba-cuda: pip install 'tracegrad[cuda]'")

from matrix import program_of
from simulated import cuda_tier
from support import TIERS, assert_agree, condition
from test_primitives import (  # noqa: F401  (collected here a second time, with this module's fixtures)
    CANCELLING,
    EXACT,
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
    test_outputs_do_not_alias_inputs,
    test_recurrence,
    test_reductions_of_edges,
    test_reductions_over_all_axes,
    test_slices_and_pads,
    test_sorting_and_searching,
    test_value,
)


@pytest.fixture
def run():
    return cuda_tier


@pytest.fixture
def kernel():
    return cuda_tier


# ---- the two targets side by side --------------------------------------------------------------------------------


def bounds(prim: Any, graph: Any, position: int, expected: np.ndarray) -> dict[str, float]:
    """How far apart the targets may be in output *position*, ulp (or atol).

    What is computed by correctly rounded operations alone has the same bits.  Values of functions are within 4 ulp:
    glibc's vectors and libdevice are each within 2 of the truth.  Derivatives combine several such values, within 8
    ulp; where these cancel, the error is a few times the rounding of what cancels.
    """
    if all(node.prim.name in EXACT for node in graph.nodes):
        return {"ulps": 0}
    eps = float(np.finfo(expected.dtype).eps) * condition(expected)
    if position == 0:
        return {"ulps": 4, "atol": eps if prim.name in CANCELLING else 0.0}
    return {"ulps": 8, "atol": 2 * eps}


@FLOATS
@matrix()
def test_targets_agree(prim, dtype):
    graph, inputs = program_of(prim, dtype)
    found, expected = cuda_tier(graph, inputs), TIERS["kernel"](graph, inputs)
    for position, (a, b) in enumerate(zip(found, expected, strict=True)):
        limits = bounds(prim, graph, position, b) if b.dtype.kind == "f" else {}
        assert_agree(a, b, **limits, what=f"output {position} of {prim.name}")
