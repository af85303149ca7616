"""What is relied on of CuPy is there: the stand-in against the real module, which can be imported without a device."""

from __future__ import annotations

import inspect

import fake_cupy
import numpy as np
import pytest
from support import F32, F64, I64, of_linear_algebra, operand_avals, prims

from tracegrad.codegen.evaluate.cupy_exceptions import EXCEPTIONS, Modules, device_function
from tracegrad.tracer.ir.primitive import PRIMITIVES

cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install -e '.[cuda]'")
special = pytest.importorskip("cupyx.scipy.special")
REAL = Modules(cupy, special)
FUNCTIONS = {name: f for name, f in fake_cupy.cupy.__dict__.items() if callable(f) and not isinstance(f, type)}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_have_the_parameters_of_the_stand_in(name):
    real, ours = getattr(cupy, name), inspect.signature(FUNCTIONS[name]).parameters
    if isinstance(real, cupy.ufunc):
        assert all(p.kind is p.VAR_POSITIONAL for p in ours.values())
        return
    try:
        parameters = inspect.signature(real).parameters
    except ValueError:  # a builtin, whose text says it: f(a, *, b=None)
        parameters = dict.fromkeys(ours) if all(f"{p}" in real.__doc__.splitlines()[0] for p in ours) else {}
    any_more = any(p.kind is p.VAR_POSITIONAL for p in parameters.values() if p is not None)
    assert any_more or set(ours) <= set(parameters), name


def test_arrays_have_what_the_stand_in_has():
    ours = {n for n in dir(fake_cupy.ndarray) if not n.startswith("_")} - {"new", "over"}
    assert ours <= set(dir(cupy.ndarray))
    for name in "__array_ufunc__ __array_function__ __cuda_array_interface__ __dlpack__ __dlpack_device__".split():
        assert hasattr(cupy.ndarray, name)


def test_the_cuda_part_has_what_the_stand_in_has():
    for name in vars(fake_cupy.cupy.cuda):
        assert hasattr(cupy.cuda, name), name
    for name in vars(fake_cupy.cupy.cuda.runtime):
        assert hasattr(cupy.cuda.runtime, name), name
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)
    for cls in ("Stream", "ExternalStream"):
        assert {"record", "wait_event", "synchronize"} <= set(dir(getattr(cupy.cuda, cls)))
    ours = {n for n in vars(fake_cupy.cupy.cuda.MemoryPointer) if not n.startswith("_")} | {"ptr", "mem"}
    assert ours <= set(dir(cupy.cuda.MemoryPointer))


@pytest.mark.parametrize("prim", prims(lambda p: not of_linear_algebra(p)), ids=lambda p: p.name)
def test_no_primitive_but_linear_algebra_has_to_run_on_the_host(prim):
    assert device_function(REAL, prim) is not None


@pytest.mark.parametrize(
    "prim", prims(lambda p: isinstance(p.impl, np.ufunc) and p.name not in EXCEPTIONS), ids=lambda p: p.name
)
def test_ufuncs_take_the_dtypes_that_the_tests_draw(prim):
    function = device_function(REAL, prim)
    assert isinstance(function, cupy.ufunc)
    dtypes = (F64, F32, I64) if getattr(prim.impl, "types", None) and "ll->l" in prim.impl.types else (F64, F32)
    for dtype in dtypes:
        kinds = [a.dtype for a in operand_avals(prim, dtype)]
        loops = [text.split("->")[0] for text in function.types if "E" not in text]  # E is bfloat16
        assert any(all(np.can_cast(k, c) for k, c in zip(kinds, loop, strict=True)) for loop in loops), (dtype, loops)


def test_exceptions_are_of_primitives_that_there_are():
    assert set(EXCEPTIONS) <= set(PRIMITIVES)
