"""The registry is the test matrix of CUDA kernels, too: the tests of ``test_primitives.py`` with kernels that the
simulator runs.  The two targets side by side: ``test_targets_agree.py``.

What the simulator runs is the kernels' LLVM IR with libdevice's own code, so bits are those of a GPU but for the
hardware's approximations in float32 (``libdevice_cpu.py``).
"""

from __future__ import annotations

import pytest

pytest.importorskip("numba_cuda", reason="libdevice comes with numba-cuda: pip install 'tracegrad[cuda]'")

from selection import TIMES
from simulated import cuda_tier
from support import of_linear_algebra
from test_primitives import (  # noqa: F401  (collected here a second time, with this module's fixtures)
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

pytestmark = pytest.mark.slow


@pytest.fixture
def run():
    return cuda_tier


@pytest.fixture
def kernel():
    return cuda_tier


@pytest.fixture
def twice():
    """Factors are NumPy's here; the arithmetic around them, in second derivatives, is that of other rows."""
    return lambda prim: TIMES > 1 or not (prim.name.startswith("complex_") or of_linear_algebra(prim))
