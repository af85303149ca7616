"""Running an operation: on raw arrays, its result wrapped, and put on the tape where an operand requires gradients.

Start reading at ``apply``, then ``record``.  Of large arrays the tape holds only what the derivative will read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.cuda.availability import IN_USE
from ..tracer.ir.aval import HALF, INEXACT_KINDS
from ..tracer.ir.settings import AUTOCAST, AUTOCAST_USE
from ..tracer.record.array import TracedArray
from ..tracer.record.autocast import off
from .device import on_cuda
from .messages import INFERENCE_SAVED, misfit, not_complex
from .modes import STATE
from .node import TapeNode, node_class
from .on_device import compute
from .op import EagerOp, aval_of
from .tensor import _ENGINE, Tensor, _ndarray, _new, make, refresh

_generic = np.generic  # NumPy's scalars: results of reductions
LARGE = 1 << 13  # elements; smaller arrays are held without asking whether they will be read


def apply(op: EagerOp, operands: tuple[Any, ...], statics: tuple[Any, ...] = ()) -> Any:
    """The result of *op*: a Tensor, or a tuple of Tensors.  Operands are Tensors or Python numbers."""
    if AUTOCAST_USE.begun and AUTOCAST.dtype is not None:
        operands = _ENGINE["autocast"](op, operands, AUTOCAST.dtype)
        with off():
            return apply(op, operands, statics)
    state = STATE
    capture = state.capture
    if capture is None:
        raws = tuple([t._data if isinstance(t, Tensor) else t for t in operands])
        try:
            if IN_USE[0] and any(map(on_cuda, raws)):
                out = compute(op, raws, statics)
            else:
                for x in raws:
                    if type(x) is _ndarray and x.itemsize == 2 and x.dtype in HALF:
                        out = op.in_float32(raws, statics)
                        break
                else:
                    out = op.fn(*raws, *statics)
        except (ValueError, TypeError) as error:
            raise _explained(op, error, raws) from None
    else:
        raws, out = _captured(capture, op, operands, statics)
    if type(out) is tuple:
        return _several(op, operands, statics, raws, out)
    if type(out) is not _ndarray or op.in_rows:
        out = np.asarray(out) if isinstance(out, _generic) else _laid_out(out, op.in_rows)
    result = _new(Tensor)
    result._data = out
    result._counter = [0]
    if capture is not None:
        capture.made(result)
    if state.grad:
        for t in operands:
            if isinstance(t, Tensor) and (t._requires if t._base is None else t.requires_grad):
                if out.dtype.kind in INEXACT_KINDS:
                    record(op, operands, statics, raws, (result,))
                break
    else:
        result._inference = state.inference
    return result


def _explained(op: EagerOp, error: ValueError | TypeError, raws: tuple[Any, ...]) -> Exception:
    return misfit(error, raws) if isinstance(error, ValueError) else not_complex(op, error, raws)


def _captured(
    capture: Any, op: EagerOp, operands: tuple[Any, ...], statics: tuple[Any, ...]
) -> tuple[tuple[Any, ...], Any]:  # fmt: skip
    """(the operands as the capture has them, the result)."""
    raws = tuple([capture.raw(t) if isinstance(t, Tensor) else t for t in operands])
    if capture.tape is not None and capture.tape.open:
        raws = capture.tape.operands(operands, raws)
    out = op.fn(*raws, *statics)
    if capture.places:
        capture.note_place(raws, out)
    return raws, out


def _several(
    op: EagerOp, operands: tuple[Any, ...], statics: tuple[Any, ...], raws: tuple[Any, ...], outs: tuple[Any, ...]
) -> tuple[Tensor, ...]:
    results = tuple([make(_laid_out(r, op.in_rows)) for r in outs])
    if STATE.grad and any(isinstance(t, Tensor) and t.requires_grad for t in operands):
        record(op, operands, statics, raws, results)
    return results


def untaped(op: EagerOp, raws: tuple[Any, ...]) -> Any:
    """The result of *op* over traced arrays, within a capture, which the tape does not get."""
    capture = STATE.capture
    assert capture is not None
    out = op.fn(*raws)
    if capture.places:
        capture.note_place(raws, out)
    return tuple([make(r) for r in out]) if type(out) is tuple else make(out)


def _laid_out(data: Any, in_rows: bool) -> Any:
    """*data* as an array; a NumPy array in C order if *in_rows*."""
    if type(data) is TracedArray or on_cuda(data):
        return data
    array = np.asarray(data)
    return np.ascontiguousarray(array) if in_rows and not array.flags.c_contiguous else array


def _what_is_read(
    op: EagerOp, statics: tuple[Any, ...], edges: list[Any], raws: tuple[Any, ...], kept: tuple[Any, ...]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The operands and results, with avals in place of those that the derivative will not read."""
    avals = tuple([aval_of(x) for x in raws])
    operands, results = op.saves(avals, statics, tuple([e is not None for e in edges]))
    return (
        tuple([x if k in operands else a for k, (x, a) in enumerate(zip(raws, avals, strict=True))]),
        tuple([x if k in results else aval_of(x) for k, x in enumerate(kept)]),
    )


def _check_inference(
    op: EagerOp, operands: tuple[Any, ...], statics: tuple[Any, ...], raws: tuple[Any, ...], edges: list[Any]
) -> None:
    """Raise where the derivative would have to read an inference tensor."""
    local = op.vjp(tuple([aval_of(x) for x in raws]), statics, tuple([e is not None for e in edges]), False)
    if any(isinstance(t := operands[k], Tensor) and t._inference for k in local.saved_in):
        raise RuntimeError(INFERENCE_SAVED)


def record(
    op: EagerOp, operands: tuple[Any, ...], statics: tuple[Any, ...], raws: tuple[Any, ...], results: tuple[Tensor, ...]
) -> TapeNode:
    """Put the operation on the tape and link its floating-point and complex results to it."""
    edges: list[Any] = []
    outs: list[int] = []
    versions: list[Any] = []
    inference = False
    for t in operands:
        if isinstance(t, Tensor):
            if t._base is not None and t._attr_version != t._counter[0]:
                refresh(t)
            inference |= t._inference
            version = t._counter
            versions.append((version, version[0]))
            if t._requires:
                node = t._node
                edges.append(t if node is None else node)
                outs.append(t._out)
                continue
        else:
            versions.append(None)
        edges.append(None)
        outs.append(0)
    if inference:
        _check_inference(op, operands, statics, raws, edges)
    for r in results:
        versions.append((r._counter, r._counter[0]))
    cls = op.node_class
    if cls is None:
        cls = op.node_class = node_class(op.name)
    kept: tuple[Any, ...] = tuple([r._data for r in results])
    if STATE.capture is None and (kept[0].size > LARGE or any(type(x) is _ndarray and x.size > LARGE for x in raws)):
        raws, kept = _what_is_read(op, statics, edges, raws, kept)
    node = cls(op, statics, tuple(edges), tuple(outs), raws, kept, tuple(versions))
    for k, r in enumerate(results):
        if r._data.dtype.kind in INEXACT_KINDS:
            r._node = node
            r._out = k
            r._requires = True
    if STATE.capture is not None:
        node.site = STATE.capture.recorder.site()
    elif STATE.anomaly:
        node.site = _ENGINE["site"]()
    return node
