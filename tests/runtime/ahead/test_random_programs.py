"""Random whole programs: as C functions, and after they were bytes, they are what they were."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from programs import Case, cases_of
from selection import seeds

from tracegrad.codegen.cpu import jit
from tracegrad.codegen.cpu.native_entry import NotNativeError, entry_text
from tracegrad.codegen.lower.canonical import canonicalise
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.codegen.lower.strips import in_strips
from tracegrad.runtime.ahead.graph_bytes import graph_of, graph_to_parts
from tracegrad.runtime.disk.encoding import decode, encode
from tracegrad.runtime.launch.binding import array_records, bind_graph
from tracegrad.runtime.launch.kernel_cache import kernels


def judge(case: Case) -> str:
    """The fault of the C function, or of the bytes, of a program; else nothing."""
    graph, _ = in_strips(simplify(case.graph))
    canonical = canonicalise(graph)
    again = canonicalise(graph_of(decode(encode(graph_to_parts(graph)))))
    numbers = canonical.sizes.tobytes(), canonical.consts.tobytes()
    if again.key != canonical.key or (again.sizes.tobytes(), again.consts.tobytes()) != numbers:
        return "another program in the bytes"
    inputs = [np.array(x, order="C") for x in case.inputs]
    program, _ = kernels.get(canonical, len(inputs))
    expected = bind_graph(graph, canonical, program, False, array_records(graph.inputs))(*inputs)
    try:
        native = entry_text(canonical, [False] * len(inputs), [array for _, array in graph.consts], "f")
    except NotNativeError:
        return ""
    code = jit.compile_text(native.text, "f").load()
    results = [np.empty(x.aval.shape, x.aval.dtype) for x in graph.outputs]
    pointers = [x.ctypes.data for x in (*inputs, *results)]
    status = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * len(pointers))(code.address("f"))(*pointers)
    if isinstance(expected, int) or status:
        return "" if status == expected + 1 else f"status {status} in place of {expected}"
    same = [r.tobytes() == np.asarray(e).tobytes() for r, e in zip(results, expected, strict=True)]
    return "" if all(same) else "other bits"


@pytest.mark.parametrize("seed", seeds(6, quick=1))
def test_random_programs(seed):
    for name, case in cases_of(seed).items():
        assert not (fault := judge(case)), f"seed {seed}, {name}: {fault}"
