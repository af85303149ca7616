"""Offload of operations that no kernel can compute: each becomes a step of the array module."""

from __future__ import annotations

from dataclasses import replace

from ...tracer.ir.primitive import ELEMENTWISE, HOST, LAPACK
from ..lower.canonical import COPY, SAME_BITS, Canonical, CanonicalOp
from .libdevice import has_device_lowering


def for_device(canonical: Canonical) -> Canonical:
    """*canonical* with the operations that libdevice has no function for as steps of their own."""
    ops = [op if has_kernel(op) else replace(op, prim=replace(op.prim, kind=HOST, cost=1)) for op in canonical.ops]
    return replace(canonical, ops=ops, producers={out: op for op in ops for out in op.outs})


def has_kernel(op: CanonicalOp) -> bool:
    if op.prim.kind == LAPACK:
        return False
    if op.prim.kind != ELEMENTWISE or op.prim in (COPY, SAME_BITS):
        return True
    return has_device_lowering(op.prim, [x.dtype for x in op.ins], op.params)
