"""Steps that are not loop nests of ours: matrix products by BLAS, indexed writes.

BLAS comes from SciPy's Cython bindings, as in numba.  A row-major product C = A B is the column-major C' = B' A'.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.ir as ir
import scipy.linalg.cython_blas as cython_blas

from ..tracer.aval import FLOAT_KINDS
from ..tracer.primitive import LOOP
from . import jit
from .canonical import ONE, Canonical, Dim, Op, Sym
from .cpu import Numbers
from .scalar import I8, I32, I64, PTR, constant, counting, declare, memory_type, to_memory
from .schedule import buffer_of, filled, is_call

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]


def _register_blas() -> None:
    for name in ("dgemm", "sgemm"):
        capsule = cython_blas.__pyx_capi__[name]
        jit.add_symbol(f"tg_{name}", _get_pointer(capsule, _get_name(capsule)))


_register_blas()


def native(op: Op) -> bool:
    """Can the call run inside the kernel?  (Otherwise NumPy does it between kernels.)"""
    if op.prim.name == "matmul":
        return op.out.dtype.kind in FLOAT_KINDS
    if op.prim.kind == LOOP:
        return all(native(inner) for inner in op.params["body"].program.ops if is_call(inner))
    return op.prim.name in ("scatter", "scatter_add") and op.out.dtype.kind in ("i", "u", *FLOAT_KINDS)


class CallEmitter:
    """Writes library steps into the kernel's entry function."""

    def __init__(self, program: Canonical, stored: set[Sym], b: ir.IRBuilder, pointer: Any, numbers: Numbers):
        self.program, self.stored = program, stored
        self.b, self.entry, self.pointer = b, numbers.entry, pointer
        self.size, self.const = numbers.size, numbers.const

    def emit(self, op: Op) -> None:
        {"matmul": self._matmul, "scatter": self._scatter, "scatter_add": self._scatter}[op.prim.name](op)

    def _buffer(self, x: Any) -> ir.Value:
        return self.pointer(buffer_of(self.program, self.stored, x))

    def _count(self, dims: tuple[Dim, ...]) -> ir.Value:
        total: ir.Value = I64(1)
        for d in dims:
            if d != ONE:
                total = self.b.mul(total, self.size(d))
        return total

    def _matmul(self, op: Op) -> None:
        b = self.b
        x, y = op.ins
        ta, tb = op.params["ta"], op.params["tb"]
        rows, inner = (x.dims[-1], x.dims[-2]) if ta else (x.dims[-2], x.dims[-1])
        columns = y.dims[-2] if tb else y.dims[-1]
        m, k, n = self.size(rows), self.size(inner), self.size(columns)
        kind = memory_type(op.out.dtype)
        name = "tg_dgemm" if op.out.dtype.itemsize == 8 else "tg_sgemm"
        gemm = declare(b.module, name, ir.VoidType(), *[PTR] * 13)
        px, py, pc = self._buffer(x), self._buffer(y), self.pointer(op.out)

        def cell(value: ir.Value, kind: ir.Type) -> ir.Value:
            slot = self.entry.alloca(kind)
            b.store(value, slot)
            return slot

        def int_cell(value: ir.Value) -> ir.Value:
            return cell(b.trunc(value, I32), I32)

        def leading(value: ir.Value) -> ir.Value:
            return int_cell(b.select(b.icmp_signed(">", value, I64(1)), value, I64(1)))

        letter_y, letter_x = cell(I8(ord("T" if tb else "N")), I8), cell(I8(ord("T" if ta else "N")), I8)
        one, zero = cell(constant(op.out.dtype, 1), kind), cell(constant(op.out.dtype, 0), kind)
        n_cell, m_cell, k_cell = int_cell(n), int_cell(m), int_cell(k)
        ldy, ldx, ldc = leading(k if tb else n), leading(m if ta else k), leading(n)
        empty = b.icmp_signed("==", b.mul(m, n), I64(0))
        with b.if_then(b.not_(empty)), counting(b, self._count(op.out.dims[:-2])) as batch:
            at_x = b.gep(px, [b.mul(batch, b.mul(m, k))], source_etype=kind)
            at_y = b.gep(py, [b.mul(batch, b.mul(k, n))], source_etype=kind)
            at_c = b.gep(pc, [b.mul(batch, b.mul(m, n))], source_etype=kind)
            b.call(gemm, [letter_y, letter_x, n_cell, m_cell, k_cell, one, at_y, ldy, at_x, ldx, zero, at_c, ldc])

    def _scatter(self, op: Op) -> None:
        b = self.b
        x, index, v = op.ins
        assert isinstance(x, Sym)
        kind = memory_type(op.out.dtype)
        out, positions, values = self.pointer(op.out), self._buffer(index), self._buffer(v)
        total = self._count(x.dims)
        value = filled(self.program, op, 0)
        if value is not None:
            filling = to_memory(b, self.const(value), value.dtype)
            with counting(b, total) as i:
                b.store(filling, b.gep(out, [i], source_etype=kind))
        else:
            source = self._buffer(x)
            with counting(b, total) as i:
                b.store(b.load(b.gep(source, [i], source_etype=kind), typ=kind), b.gep(out, [i], source_etype=kind))
        rows, width = self.size(x.dims[0]), self._count(x.dims[1:])
        with counting(b, self._count(index.dims)) as r:
            position = b.load(b.gep(positions, [r], source_etype=I64), typ=I64)
            # out of bounds only where the guard on it fails: the results are dropped then
            inside = b.icmp_unsigned("<", position, rows)
            with b.if_then(inside), counting(b, width) as c:
                target = b.gep(out, [b.add(b.mul(position, width), c)], source_etype=kind)
                new = b.load(b.gep(values, [b.add(b.mul(r, width), c)], source_etype=kind), typ=kind)
                if op.prim.name == "scatter_add":
                    old = b.load(target, typ=kind)
                    new = b.fadd(old, new) if op.out.dtype.kind in FLOAT_KINDS else b.add(old, new)
                b.store(new, target)
