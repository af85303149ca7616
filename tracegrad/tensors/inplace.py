"""In-place operations on tensors, and the history of views.

A view shares memory with its base (never itself a view) and knows the chain of operations that leads to it.  Writing
into a tensor computes the new value aside, copies it into the memory, counts the shared version, and moves the history:
of a tensor of its own, to the new value's node; of a view, the *base* gets a ``CopySlices`` node (all of the base, with
this part replaced), and every view of that base makes its history anew from the base when it is next asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tracer.ir.aval import INEXACT_KINDS, can_cast
from ..tracer.ir.refusals import Refusal
from ..tracer.record.array import TracedArray
from . import tensor as core
from .apply import apply, record
from .device import on_cuda
from .dtypes import scalar_name
from .messages import READ_ONLY
from .modes import STATE
from .node import TapeNode, node_class
from .on_device import repeats
from .op import EagerOp, aval_of
from .tensor import Tensor, changed, make, origins, raw

_Chain = tuple[tuple[EagerOp, tuple[Any, ...]], ...]


def follow(base: Any, chain: _Chain) -> Any:
    """The array that a view over *base* shows."""
    for op, statics in chain:
        base = op.fn(base, *statics)
    return base


def _write(base: Any, value: Any, chain: _Chain) -> Any:
    result = base.copy()
    follow(result, chain)[...] = value
    return result


FOLLOW = EagerOp("AsStrided", follow)
WRITE = EagerOp("CopySlices", _write)


def apply_view(op: EagerOp, t: Tensor, statics: tuple[Any, ...] = ()) -> Tensor:
    """The result of a view operation: a tensor over the same memory."""
    data = raw(t)
    capture = STATE.capture
    out = op.fn(data, *statics)
    result = core._new(Tensor)
    result._data = out
    version = result._counter = t._counter
    if t._inference and t._base is None:  # has no history that a view could miss
        result._inference = True
        if capture is not None:
            capture.made(result)
        return result
    result._base = t if t._base is None else t._base
    result._chain = (*t._chain, (op, statics))
    result._attr_version = version[0]
    if t._inference:
        result._inference = True
    if capture is not None:
        capture.made(result)
    made = t._made
    if t._base is not None and t._attr_version != version[0] and (made is None or STATE.grad):
        core.refresh(t)
    if made is not None:
        result._made = (made[0], 0)
    elif not STATE.grad:
        result._made = made = (NO_GRAD, 0)
    if made is not None and made[0] == NO_GRAD and not STATE.grad:
        if t._requires and out.dtype.kind in INEXACT_KINDS:
            result._requires = True  # a leaf, as in PyTorch
        return result
    if STATE.grad and t._requires and out.dtype.kind in INEXACT_KINDS:
        record(op, (t,), statics, (data,), (result,))
    return result


def apply_views(op: EagerOp, t: Tensor, statics: Sequence[tuple[Any, ...]]) -> tuple[Tensor, ...]:
    """The results of a view operation that gives several: none of them may be written while gradients are recorded."""
    views = tuple([apply_view(op, t, s) for s in statics])
    for k, view in enumerate(views):
        if view._made is None or view._made[0] != NO_GRAD:
            view._made = (SEVERAL if view._made is None else view._made[0], k)
    return views


def views(t: Tensor, chain: _Chain) -> Tensor:
    """The view over *t* that these operations lead to."""
    for op, statics in chain:
        t = apply_view(op, t, statics)
    return t


def refresh(view: Tensor) -> None:
    """Make the history of *view* anew from its base."""
    base = view._base
    assert base is not None
    if view._made is not None and (view._requires or base._requires):
        raise RuntimeError(_refusal(view, "its base or another view of its base has been"))
    kept = _taken_retained(view)
    view._attr_version = view._counter[0]
    view._node, view._out, view._requires = None, 0, False
    if base._requires and view._data.dtype.kind in INEXACT_KINDS:
        node = record(FOLLOW, (base,), (view._chain,), (raw(base),), (view,))
        if kept is not None:
            node.retained = {0: kept}


# how views came about whose derivative does not follow from that of their base: they may not be written
NO_GRAD, SEVERAL, CUSTOM = "no_grad", "several", "custom"
_WHY = {
    NO_GRAD: "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by "
    "moving both the view and the inplace either both inside the no_grad block (if you don't want the inplace to be "
    "tracked) or both outside (if you want the inplace to be tracked).",
    SEVERAL: "This view is the output of a function that returns multiple views. Such functions do not allow the "
    "output views to be modified inplace. You should replace the inplace operation by an out-of-place one.",
    CUSTOM: "This view was created inside a custom Function (or because an input was returned as-is) and the "
    "autograd logic to handle view+inplace would override the custom backward associated with the custom Function, "
    "leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom "
    "Function.",
}


def _refusal(view: Tensor, what: str) -> str:
    """PyTorch's text of the error for a view whose memory *what* modified."""
    assert view._made is not None
    kind, number = view._made
    if view._node is None or kind == NO_GRAD:
        found = f"A view was created in no_grad mode and {what} modified inplace with grad mode enabled."
    else:
        name = view._node.label.removesuffix("0").removesuffix("Backward")
        found = f"Output {number} of {name} is a view and {what} modified inplace."
    return f"{found} {_WHY[kind]}"


def check_writable(t: Tensor, others: Sequence[Any] = ()) -> None:
    """Raise where PyTorch would if *t* is written with values that *others* give: leaves that require gradients, views
    of such, views that came about in a way that says nothing of their base's derivative, inference tensors."""
    if t._inference and not STATE.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
            "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
        )
    if not STATE.grad:
        return
    if t._base is not None:
        base = t._base
        if t._made is not None and any(isinstance(x, Tensor) and x._requires for x in (t, base, *others)):
            raise RuntimeError(_refusal(t, "is being"))
        core.refresh(t)
        if (t._requires or base._requires) and base._node is None:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    elif t._requires and t._node is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def inplace(op: EagerOp, t: Tensor, others: tuple[Any, ...] = (), statics: tuple[Any, ...] = ()) -> Tensor:
    """``t`` becomes ``op(t, *others)``."""
    check_writable(t, others)
    new = apply(op, (t, *others), statics)
    have, got = t.dtype, new.dtype
    if have != got and not can_cast(got, have, "same_kind"):
        raise RuntimeError(
            f"result type {scalar_name(got)} can't be cast to the desired output type {scalar_name(have)}"
        )
    if raw(new).shape != raw(t).shape:
        raise RuntimeError(
            f"output with shape {list(raw(t).shape)} doesn't match the broadcast shape {list(raw(new).shape)}"
        )
    _keep_old(new, t)
    return assign(t, new)


def _keep_old(new: Tensor, t: Tensor) -> None:
    """Save a copy of the old value of *t* where the derivative of the in-place operation that made *new* reads it."""
    node = new._node
    if node is None or node.op is None:
        return
    needs = tuple([e is not None for e in node.edges])
    local = node.op.vjp(tuple([aval_of(x) for x in node.inputs]), node.statics, needs, False)
    inputs, versions = list(node.inputs), list(node.versions)
    for k in range(len(inputs)):
        counter = versions[k]
        if counter is None or counter[0] is not t._counter:
            continue
        read = k in local.saved_in or isinstance(inputs[k], TracedArray)
        if read and k == 0:  # any other operand that shares the memory is an error that backward reports
            inputs[k], versions[k] = inputs[k].copy(), None
    node.inputs, node.versions = tuple(inputs), tuple(versions)


def assign(t: Tensor, new: Tensor) -> Tensor:
    """Copy *new* into the memory of *t*, count the version, move the history."""
    capture = STATE.capture
    if capture is not None and capture.tape is not None and capture.tape.wrote_row(t, new):
        return t
    data, value = raw(t), raw(new)
    if on_cuda(data) and repeats(data):
        raise RuntimeError(READ_ONLY)
    try:
        data[...] = value
    except ValueError:
        if type(data) is np.ndarray and not data.flags.writeable:  # expanded, or windows
            raise RuntimeError(READ_ONLY) from None
        raise
    t._counter[0] += 1
    if t._inference or not STATE.grad:
        return t
    if t._base is None:
        if new._requires:
            assert new._node is not None
            _move_retained(t, new._node, new._out)
            if STATE.capture is not None:
                STATE.capture.rewrites(t)
            t._node, t._out, t._requires = new._node, new._out, True
        return t
    base = t._base
    if new._requires or base._requires:
        version = base._counter
        cls = node_class("CopySlices")
        versions = (None, None, (version, version[0]))
        avals = (aval_of(raw(base)), aval_of(value))
        node = cls(WRITE, (t._chain,), *origins((base, new)), avals, avals[:1], versions)
        _move_retained(base, node, 0)
        if STATE.capture is not None:
            STATE.capture.rewrites(base)
        base._node, base._out, base._requires = node, 0, True
    t._attr_version = -1
    if t._node is not None and t._node.retained:
        refresh(t)
    return t


def _taken_retained(t: Tensor) -> Any:
    """The reference by which the node of *t* keeps its ``.grad`` (``retain_grad``), taken from it; None without one."""
    kept = t._node.retained if t._node is not None else None
    if kept is not None and t._out in kept and kept[t._out]() is t:
        return kept.pop(t._out)
    return None


def _move_retained(t: Tensor, node: TapeNode, out: int) -> None:
    """Move ``retain_grad`` to the tensor's new node."""
    kept = _taken_retained(t)
    if kept is not None:
        if node.retained is None:
            node.retained = {}
        node.retained[out] = kept


def set_data(t: Tensor, value: Tensor) -> None:
    """``t.data = value``: other memory, the same history."""
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if t._requires and value.dtype.kind not in INEXACT_KINDS:
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    capture = STATE.capture
    if capture is not None:
        old, new = raw(t), raw(value)
        if new._storage is old._storage and new.shape == old.shape and new.dtype == old.dtype and value._base is None:
            return  # as `t.data -= 1` ends
        capture.refuse(Refusal.STEP_DATA)
        capture.replaces(t, new)
    t._data = value._data
    changed()


def detach(t: Tensor) -> Tensor:
    """The same memory without history; writes are counted for both."""
    result = make(raw(t))
    result._counter = t._counter
    result._inference = t._inference
    if STATE.capture is not None:
        STATE.capture.shows(result, t)
    return result


def detach_(t: Tensor) -> Tensor:
    """Cut this tensor off its history."""
    if t._base is not None:
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    t._node, t._out, t._requires = None, 0, False
    return t


core._ENGINE.update(refresh=refresh, set_data=set_data)
