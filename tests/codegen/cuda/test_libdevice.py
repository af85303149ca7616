"""Every elementwise row on the device: it becomes PTX that keeps to registers, and it gives NumPy's results.

For the second the same IR, in libNVVM's dialect, runs on the CPU with libdevice's own code.  One element per thread;
``ROWS`` are the rows and operand dtypes, ``BOUNDS`` the errors.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import llvmlite.ir as ir
import numpy as np
import pytest
from support import F32, F64, assert_agree, native, operand_avals, operand_values, prims, rng_for
from test_primitives import (
    CANCELLING,
    EDGES,
    TWO_SIGNED_ZEROS,
    _integer_applications,
    tolerance,
)

from tracegrad.codegen.cpu import jit
from tracegrad.codegen.cpu.machine_code import MachineCode
from tracegrad.codegen.cpu.scalar import (
    I32,
    I64,
    PTR,
    Scalars,
    counting,
    declare,
    from_memory,
    lower,
    memory_type,
    to_memory,
)
from tracegrad.tracer.ir.aval import FLOAT_KINDS, REAL, Aval, finfo
from tracegrad.tracer.ir.errors import DeviceError
from tracegrad.tracer.ir.primitive import ELEMENTWISE, PRIMITIVES, Primitive

pytest.importorskip("cuda.bindings.nvvm", reason="numba-cuda is not installed")
import libdevice_cpu

from benchmarks.ptx_report import instruction_mix, resources
from tracegrad.codegen.cuda import libdevice, nvvm_ir, ptx

VOID = ir.VoidType()
# The largest error found in ulp, float64 and float32, of rows that are one function of libdevice.  None is above the
# maximum that the CUDA C++ Programming Guide states for the function.  Rows that are not here are exact, or formulas.
BOUNDS = {
    "cbrt": (1, 1), "exp": (1, 1), "exp2": (1, 0), "expm1": (1, 1), "log": (1, 1), "log2": (1, 1), "log10": (1, 2),
    "log1p": (1, 1), "sin": (1, 1), "cos": (1, 1), "tan": (2, 2), "arcsin": (2, 1), "arccos": (1, 1),
    "arctan": (1, 1), "sinh": (1, 2), "cosh": (1, 2), "tanh": (1, 2), "arcsinh": (2, 1), "arccosh": (2, 1),
    "arctanh": (2, 3), "arctan2": (2, 2), "hypot": (2, 1), "pow": (1, 1), "erf": (1, 1), "erfc": (4, 3),
    "erfinv": (5, 2), "gammaln": (4, 3),
}  # fmt: skip
# the same formula as on the CPU, with another log or exp in it: as far off as there
FORMULAS = set("logaddexp logaddexp2 pseudo_huber rel_entr ndtr ndtri expit logit xlogy xlog1py".split())
# the C library's functions, where SciPy's are 0 for subnormal results, inf for subnormal arguments, or less exact
C_LIBRARY = ctypes.CDLL(ctypes.util.find_library("m"))
REFERENCE = {"erf": C_LIBRARY.erf, "erfc": C_LIBRARY.erfc, "gammaln": C_LIBRARY.lgamma}
for _function in REFERENCE.values():
    _function.restype, _function.argtypes = ctypes.c_double, [ctypes.c_double]
# libdevice's lgamma is good to few ulp but in here, where it crosses zero many times (same source): there, the error
# is so many times the spacing of 1
CROSSING = {F64: (-23.0001, -2.2637, 64), F32: (-10.001, -2.264, 16)}


class Row(NamedTuple):
    prim: Primitive
    dtypes: tuple[np.dtype, ...]
    params: dict[str, Any]

    @property
    def out(self) -> np.dtype:
        return self.prim.infer(*[Aval(d, ()) for d in self.dtypes], **self.params).dtype

    @property
    def id(self) -> str:
        extra = [str(v) for v in self.params.values()]
        return "_".join([self.prim.name, *map(str, dict.fromkeys(self.dtypes)), *extra])


def _rows() -> list[Row]:
    found = []
    for prim in prims(lambda p: p.kind == ELEMENTWISE and p.name != "cast"):
        for dtype in (F64, F32):
            dtypes = tuple(a.dtype for a in operand_avals(prim, dtype))
            found.append(Row(prim, dtypes, prim.test.get("params", {})))
    for name, dtype in _integer_applications():
        prim = PRIMITIVES[name]
        found.append(Row(prim, (dtype,) * len(prim.domain), prim.test.get("params", {})))
    for source, target in itertools.product(sorted(REAL, key=str), repeat=2):
        found.append(Row(PRIMITIVES["cast"], (source,), {"dtype": target}))
    return list({row.id: row for row in found}.values())


EVERY = _rows()
ROWS = [row for row in EVERY if libdevice.has_device_lowering(row.prim, row.dtypes, row.params)]


def rows_module(names: list[str], element: Callable[[ir.IRBuilder, ir.Value, Callable[[ir.Value], None]], None]) -> str:
    """One function for each row: ``void name(operands..., result, count)``; *element* says which elements it does."""
    module = ir.Module("rows")
    for row, name in zip(ROWS, names, strict=True):
        function = ir.Function(module, ir.FunctionType(VOID, [PTR] * (len(row.dtypes) + 1) + [I64]), name)
        *operands, result, count = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))

        def body(i: ir.Value, row=row, b=b, operands=operands, result=result) -> None:
            args = []
            for place, dtype in zip(operands, row.dtypes, strict=True):
                kind = memory_type(dtype)
                args.append(from_memory(b, b.load(b.gep(place, [i], source_etype=kind), typ=kind), dtype))
            dtypes, out = list(row.dtypes), row.out
            value = lower(b, row.prim, args, dtypes, out, True, row.params, libdevice.DeviceScalars)
            b.store(to_memory(b, value, out), b.gep(result, [i], source_etype=memory_type(out)))

        element(b, count, body)
        b.ret_void()
    return str(module)


def one_per_thread(b: ir.IRBuilder, count: ir.Value, body: Callable[[ir.Value], None]) -> None:
    block, threads, thread = (
        b.call(declare(b.module, f"llvm.nvvm.read.ptx.sreg.{name}", I32), []) for name in ("ctaid.x", "ntid.x", "tid.x")
    )
    i = b.zext(b.add(b.mul(block, threads), thread), I64)
    with b.if_then(b.icmp_signed("<", i, count)):
        body(i)


def one_after_another(b: ir.IRBuilder, count: ir.Value, body: Callable[[ir.Value], None]) -> None:
    with counting(b, count) as i:
        body(i)


# ---- on the device ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("cc", [(8, 0), (9, 0)], ids=str)
def test_every_row_becomes_ptx_that_keeps_to_registers(cc):
    names = [f"row{k}" for k in range(len(ROWS))]
    found = ptx.compile_ptx(rows_module(names, one_per_thread), names, cc)
    needs = resources(found, cc)
    assert set(needs) == set(names)
    for name, row in zip(names, ROWS, strict=True):
        assert not needs[name].spill_stores and not needs[name].spill_loads, row.id
        assert needs[name].registers <= 64, row.id
    assert "ld.global" in found and not any(k.endswith(".generic") for k in instruction_mix(found))


def test_what_has_no_device_lowering():
    signed = {f"pow_{kind}" for kind in ("int8", "int32", "int64")}
    without = {
        f"{name}_{dtype}" for name in ("gamma", "psi", "polygamma", "betaln", "nextafter") for dtype in (F64, F32)
    }
    without = {name + ("_1" if name.startswith("polygamma") else "") for name in without}
    assert {row.id for row in EVERY} - {row.id for row in ROWS} == signed | without
    assert not libdevice.has_device_lowering(PRIMITIVES["reduce_sum"], [F64])
    b = ir.IRBuilder(ir.Function(ir.Module(), ir.FunctionType(VOID, []), "f").append_basic_block())
    s = libdevice.DeviceScalars(b, F64, F64)
    for lowering in (lambda: s.call("betainc", s.const(1)), lambda: s.intrinsic("pow", s.const(1))):
        with pytest.raises(DeviceError, match="has no form on the device"):
            lowering()


def test_the_cpu_lowering_is_the_default():
    texts = []
    for extra in ((), (Scalars,), (libdevice.DeviceScalars,)):
        module = ir.Module()
        function = ir.Function(module, ir.FunctionType(VOID, [ir.DoubleType()]), "f")
        b = ir.IRBuilder(function.append_basic_block())
        lower(b, PRIMITIVES["exp"], [function.args[0]], [F64], F64, False, {}, *extra)
        texts.append(str(module))
    assert texts[0] == texts[1] and '@"exp"' in texts[0] and '@"__nv_exp"' in texts[2]


# ---- libdevice's code on the CPU -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_the_cpu() -> dict[str, Callable[..., None]]:
    """Row id -> a function of addresses and a count."""
    libdevice_cpu.install()
    names = [f"row_{k}" for k in range(len(ROWS))]
    text = nvvm_ir.to_nvvm(rows_module(names, one_after_another), [])
    text = text.replace(nvvm_ir.HEAD, "")  # LLVM 22 reads the older dialect, too: only the target is the CPU's
    compiled = jit.compile_text(text, "rows").load()
    found = {}
    for row, name in zip(ROWS, names, strict=True):
        found[row.id] = native(compiled, name, None, *[ctypes.c_void_p] * (len(row.dtypes) + 1), ctypes.c_int64)
    return found


def run(function: Callable[..., None], xs: list[np.ndarray], out: np.dtype) -> np.ndarray:
    result = np.empty(xs[0].shape, out)
    function(*[x.ctypes.data for x in xs], result.ctypes.data, result.size)
    return result


def edges(dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind not in FLOAT_KINDS:
        info = np.iinfo(dtype)
        return np.unique([info.min, info.min + 1, *([-1, -7] if info.min else []), 0, 1, 2, 7, 100, info.max]).astype(
            dtype
        )
    info = finfo(dtype)
    most, tiny = float(info.max), float(info.tiny)
    small = [tiny, tiny / 3, float(info.smallest_subnormal)]
    with np.errstate(all="ignore"):
        return np.array([*EDGES, most, -most, *small, *[-x for x in small], 709.5, -745.0, 88.6, -103.0], dtype)


def operands(row: Row) -> list[np.ndarray]:
    """All combinations of edges, then random values: of the row's domain, of ordinary size, of any size."""
    rng = rng_for(row.id)
    n = 4000
    columns = [list(column) for column in zip(*itertools.product(*map(edges, row.dtypes)), strict=True)]
    domain = operand_values(row.prim, [Aval(d, (n,)) for d in row.dtypes], rng)
    xs = []
    for column, inside, dtype in zip(columns, domain, row.dtypes, strict=True):
        parts = [np.array(column, dtype), inside.astype(dtype)]
        if dtype.kind == "f" and row.prim.name not in FORMULAS:
            ordinary = rng.standard_normal(n) * 10 ** rng.uniform(-3, 3, n)
            bits = rng.integers(0, 2 ** (8 * dtype.itemsize), n, dtype=f"u{dtype.itemsize}")
            parts += [ordinary.astype(dtype), bits.view(dtype)]
        elif dtype.kind in "iu":
            info = np.iinfo(dtype)
            parts.append(rng.integers(info.min, info.max, 2 * n, dtype=dtype, endpoint=True))
        elif dtype.kind == "b":
            parts.append(rng.random(2 * n) < 0.5)
        xs.append(np.concatenate(parts))
    size = min(x.size for x in xs)
    return [x[:size] for x in xs]


def reference(row: Row, xs: list[np.ndarray]) -> np.ndarray:
    """NumPy's result, of more digits than the row has where they can be had, rounded."""
    name = row.prim.name
    with np.errstate(all="ignore"):
        if name in REFERENCE:
            finite = np.isfinite(xs[0])
            found = np.asarray(row.prim.impl(*xs))
            found[finite] = [REFERENCE[name](x) for x in xs[0][finite]]
            return found
        if name in BOUNDS and row.out.kind == "f":
            wide = np.longdouble if row.dtypes[0] == F64 else F64
            if wide == F64 or "g" * len(xs) + "->g" in getattr(row.prim.impl, "types", ()):
                return np.asarray(row.prim.impl(*[x.astype(wide) for x in xs], **row.params)).astype(row.out)
        return np.asarray(row.prim.impl(*xs, **row.params))


def ulps_apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many numbers *y* is from *x*: inf comes after the largest, NaN is NaN, and the two zeros are far apart."""
    kind = f"i{x.itemsize}"
    positions = []
    for bits in (x.view(kind), y.view(kind)):
        positions.append(np.where(bits < 0, np.iinfo(kind).min - bits, bits))
    p, q = positions
    across = np.abs(p.astype(F64)) + np.abs(q.astype(F64))
    result = np.where((p < 0) == (q < 0), np.abs(p - q).astype(F64), across)
    result[(np.isnan(x) != np.isnan(y)) | ((x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y)))] = np.inf
    result[np.isnan(x) & np.isnan(y)] = 0
    return result


@pytest.mark.slow
@pytest.mark.parametrize("row", [r for r in ROWS if r.prim.name != "cast"], ids=lambda r: r.id)
def test_values(on_the_cpu, row):
    xs, name, dtype = operands(row), row.prim.name, row.dtypes[0]
    found, expected = run(on_the_cpu[row.id], xs, row.out), reference(row, xs)
    if name == "gammaln":
        low, high, spacings = CROSSING[dtype]
        crossing = (xs[0] > low) & (xs[0] < high)
        assert_agree(found[crossing], expected[crossing], atol=spacings * float(np.finfo(dtype).eps), what=row.id)
        xs, found, expected = [xs[0][~crossing]], found[~crossing], expected[~crossing]
    if name in BOUNDS and row.out.kind == "f":
        bound = BOUNDS[name][dtype == F32]
        worst = int(np.argmax(apart := ulps_apart(found, expected)))
        assert apart[worst] <= bound, (
            f"{row.id}{tuple(x[worst] for x in xs)}: {found[worst]}, not {expected[worst]}: {apart[worst]} ulp"
        )
        return
    limits = tolerance(row.prim, xs, dtype) if name in FORMULAS else {"ulps": 0}
    assert_agree(found, expected, **limits, signed_zeros=name not in TWO_SIGNED_ZEROS, what=row.id)


@pytest.mark.slow
@pytest.mark.parametrize("source", sorted(REAL, key=str), ids=str)
def test_casts(on_the_cpu, source):
    for row in ROWS:
        if row.prim.name != "cast" or row.dtypes[0] != source:
            continue
        target = row.params["dtype"]
        x = edges(source)
        if source.kind in FLOAT_KINDS and target.kind in "iu":  # elsewhere C leaves the result open
            info = np.iinfo(target)
            with np.errstate(all="ignore"):
                whole_part = np.trunc(x.astype(F64))
                fits = (whole_part >= info.min) & (whole_part < float(info.max))
            whole = target == np.dtype("int64")
            x = x if whole else x[fits]
        with np.errstate(all="ignore"):
            expected = x.astype(target)
        assert_agree(run(on_the_cpu[row.id], [x], target), expected, ulps=0, what=row.id)


def test_the_table_names_rows():
    assert {*BOUNDS, *FORMULAS, *CANCELLING} <= {row.prim.name for row in EVERY}
    assert not BOUNDS.keys() & FORMULAS


# ---- the instructions of a GPU on the CPU ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def instructions() -> MachineCode:
    """The definitions of ``libdevice_cpu`` under names of their own."""
    text = "\n".join(libdevice_cpu._DEFINITIONS.values())
    return jit.compile_text(text.replace("define internal", "define"), "instructions").load()


def instruction(compiled: MachineCode, name: str, result: Any, *args: Any) -> Callable[..., Any]:
    return ctypes.CFUNCTYPE(result, *args)(compiled.address(name))


@pytest.mark.parametrize(("name", "down"), [("tg.nvvm.fma.rz.f", False), ("tg.nvvm.fma.rm.f", True)])
def test_directed_rounding(instructions, name, down):
    fma = instruction(instructions, name, *[ctypes.c_float] * 4)
    rng = rng_for(name)
    values = (rng.standard_normal((3000, 3)) * 10.0 ** rng.integers(-12, 12, (3000, 3))).astype(F32)
    values = np.concatenate([values, rng.integers(-3, 4, (300, 3)).astype(F32), [[1e-30, -1e-30, 0], [1e38, 1e38, 0]]])
    for x, y, z in values.astype(F32):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        found = fma(x, y, z)
        towards = -np.inf if down or exact > 0 else np.inf
        further = float(np.nextafter(F32.type(found), F32.type(-towards)))
        if towards < 0:
            assert Fraction(found) <= exact and (further == np.inf or exact < Fraction(further)), (x, y, z)
        else:
            assert Fraction(found) >= exact and (further == -np.inf or exact > Fraction(further)), (x, y, z)


def test_conversions_and_wide_products(instructions):
    nearest = instruction(instructions, "tg.nvvm.d2i.rn", ctypes.c_int32, ctypes.c_double)
    assert [nearest(x) for x in (2.5, -3.5, 1e300, -1e300, math.nan)] == [2, -4, 2**31 - 1, -(2**31), -(2**31)]
    single = instruction(instructions, "tg.nvvm.f2i.rz", ctypes.c_int32, ctypes.c_float)
    assert [single(x) for x in (2.9, -2.9, 1e30, math.inf, math.nan)] == [2, -2, 2**31 - 1, 2**31 - 1, 0]
    saturated = instruction(instructions, "tg.nvvm.saturate.f", ctypes.c_float, ctypes.c_float)
    assert [saturated(x) for x in (-1.0, 0.25, 7.0, math.nan)] == [0.0, 0.25, 1.0, 0.0]
    shifted = instruction(instructions, "tg.shl.i64", *[ctypes.c_uint64] * 3)
    assert [shifted(3, n) for n in (0, 63, 64, 2**64 - 1)] == [3, 2**63, 0, 0]


def test_the_hardwares_double_approximations_have_20_bits(instructions):
    for name, exact in (("rcp", lambda x: 1 / x), ("rsqrt", lambda x: 1 / math.sqrt(x))):
        f = instruction(instructions, f"tg.nvvm.{name}.approx.ftz.d", ctypes.c_double, ctypes.c_double)
        for x in (1.0, 3.0, 1e-300, 7.7e200, 0.1):
            assert 0 <= abs(f(x) / exact(x) - 1) < 2.0**-19
        assert f(0.0) == math.inf and f(math.inf) == 0.0 and math.isnan(f(math.nan)) and f(5e-324) == math.inf
