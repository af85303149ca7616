"""Every primitive with its derivatives on both targets: CUDA kernels in the simulator give what the CPU's give."""

from __future__ import annotations

import pytest

pytest.importorskip("numba_cuda", reason="libdevice comes with numba-cuda: pip install 'tracegrad[cuda]'")

from matrix import bounds, program_of
from selection import some
from simulated import cuda_tier
from support import F32, F64, TIERS, assert_agree, of_linear_algebra
from test_primitives import matrix


@pytest.mark.parametrize("dtype", some([F64, F32], quick=1), ids=str)
@matrix(lambda p: not of_linear_algebra(p))
def test_targets_agree(prim, dtype):
    graph, inputs = program_of(prim, dtype)
    found, expected = cuda_tier(graph, inputs), TIERS["kernel"](graph, inputs)
    for position, (a, b) in enumerate(zip(found, expected, strict=True)):
        limits = bounds(prim, graph, position, b) if b.dtype.kind == "f" else {}
        assert_agree(a, b, **limits, what=f"output {position} of {prim.name}")
