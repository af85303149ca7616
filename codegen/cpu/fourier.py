"""Fourier transforms inside the kernel, by the inner loops of NumPy's own generalised ufuncs.

An inner loop takes the addresses of its operands (numbers, their factor) and of its result, three lengths (how many
columns, numbers in, numbers out), and strides in bytes: of the three from column to column, then within a column.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import llvmlite.ir as ir
import numpy as np

from ..lower.canonical import CanonicalOp
from .scalar import I64, PTR, cell, declare, outside
from .symbols import ufunc_symbols

pocketfft: Any = importlib.import_module("numpy.fft._pocketfft_umath")


def takes_all(op: CanonicalOp, static: Mapping[int, int]) -> bool:
    """Whether *op* is a transform of matrices of one column, which are taken at once."""
    if op.prim.name not in BY_INNER_LOOPS:
        return False
    return static.get(op.ins[0].dims[-1]) == (1 if op.prim.name == "real_dft" else 2)


def _transform(m: Any, function: Any) -> None:
    """Write *function* of the operand's columns to the result's."""
    signature = function.types[0 if m.wide else 1]
    name, data = ufunc_symbols(function, signature)
    loop = declare(m.b.module, name, ir.VoidType(), PTR, PTR, PTR, PTR)
    factor = cell(m.entry, m.b, m.number(1))
    lengths = [m.size(0, -2), m.calls.size(m.op.out.dims[-2])]
    within = [I64(np.dtype(kind).itemsize) for kind in (signature[0], signature[-1])]
    if takes_all(m.op, m.calls.program.static):
        columns = m.count
        between = [m.b.mul(length, size) for length, size in zip(lengths, within, strict=True)]
    else:
        columns = m.size(0, -1) if signature[0] in "fd" else m.b.udiv(m.size(0, -1), I64(2))
        between, within = within, [m.b.mul(columns, size) for size in within]
    lengths, strides = [columns, *lengths], [between[0], I64(0), between[1], *within]
    m.b.call(
        loop,
        [
            _array(m, PTR, [m.ins[0], factor, m.out]), _array(m, I64, lengths), _array(m, I64, strides),
            outside(m.b.module, data),
        ],
    )  # fmt: skip


def _array(m: Any, kind: ir.Type, values: list[ir.Value]) -> ir.Value:
    """The address of an array of *values* in the kernel's frame."""
    place = m.entry.alloca(kind, len(values))
    for k, value in enumerate(values):
        m.b.store(value, m.b.gep(place, [I64(k)], source_etype=kind))
    return place


def _dft(m: Any) -> None:
    _transform(m, pocketfft.ifft if m.params["inverse"] else pocketfft.fft)


def _real_dft(m: Any) -> None:
    """NumPy has a function for even lengths and one for odd ones."""
    odd = m.b.trunc(m.size(0, -2), ir.IntType(1))
    with m.b.if_else(odd) as (then, otherwise):
        with then:
            _transform(m, pocketfft.rfft_n_odd)
        with otherwise:
            _transform(m, pocketfft.rfft_n_even)


def _real_inverse_dft(m: Any) -> None:
    _transform(m, pocketfft.irfft)


BY_INNER_LOOPS = {"dft": _dft, "real_dft": _real_dft, "real_inverse_dft": _real_inverse_dft}
