"""The derivative of one node of the tape: cotangents of its operands from those of its results.

``node_vjp`` checks the saved values and runs the operation's ``LocalVjp`` (or the Python of a custom node); ``free``
releases them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tracer.ir.aval import INEXACT_KINDS
from ..tracer.ir.settings import AUTOCAST_USE
from ..tracer.record.array import TracedArray
from . import hooks
from .apply import apply, untaped
from .modes import STATE
from .node import TapeNode
from .on_device import filled
from .op import aval_of
from .tensor import Tensor, make, raw

AGAIN = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "tensors after calling backward."
)


def node_vjp(
    node: TapeNode,
    cts: list[Tensor | None],
    wants: tuple[bool, ...],
    careful: set[tuple[TapeNode, int]],
    create_graph: bool,
) -> tuple[Sequence[Tensor | None], Sequence[bool] | None]:
    """(a cotangent for each operand, flags of those that may hold exact zeros or infinities)"""
    grads: Sequence[Tensor | None]
    marks: Sequence[bool] | None = None
    if node.plain:
        grads, marks = _plain_vjp(node, cts, wants, any((node, k) in careful for k in range(len(cts))), create_graph)
    else:
        grads = node.custom_vjp(cts, create_graph)  # type: ignore[attr-defined]
        marks = [True] * len(grads)  # whatever Python did may have made exact zeros
    if STATE.anomaly and STATE.check_nan:
        _check_nan(node, grads)
    if node.hooks:
        grads = hooks.after(node.hooks, grads, cts)
    return grads, marks


def _plain_vjp(
    node: TapeNode, cts: list[Tensor | None], wants: tuple[bool, ...], careful: bool, create_graph: bool
) -> tuple[list[Tensor | None], list[bool]]:
    assert node.op is not None
    inputs, outputs = node.inputs, node.outputs
    if node.freed:  # asked once they are read: another thread may be freeing them
        raise RuntimeError(AGAIN)
    given = next((raw(ct) for ct in cts if ct is not None), None)
    if given is None:  # a pre-hook has taken the gradient away
        return [None] * len(wants), [False] * len(wants)
    avals = node.avals = tuple([aval_of(x) for x in inputs])
    local = node.op.vjp(avals, node.statics, wants, careful)
    check_versions(node, local)
    saved = None
    if not (create_graph or AUTOCAST_USE.begun or STATE.capture is None):
        saved = _traced_values([*[inputs[k] for k in local.saved_in], *[outputs[k] for k in local.saved_out]])
    if saved is None:
        values = [_saved(node, inputs[k], k, create_graph) for k in local.saved_in]
        values += [_saved_result(node, outputs[k], k, create_graph) for k in local.saved_out]
    else:
        values = saved
    for k in local.seeded:
        ct = cts[k]
        if ct is None:
            aval = local.outs[k]
            ct = make(filled(0, aval.shape, aval.dtype, given))
        values.append(ct if saved is None else raw(ct))
    grads: list[Tensor | None] = [None] * len(wants)
    marks = [False] * len(wants)
    if local.gives:
        found = apply(local, tuple(values)) if saved is None else untaped(local, tuple(values))
        for k, g, mark in zip(local.gives, found, local.careful, strict=True):
            grads[k], marks[k] = g, mark
    for k, wanted in enumerate(wants):
        if wanted and grads[k] is None:  # the operation is constant in this operand
            grads[k] = make(filled(0, avals[k].shape, avals[k].dtype, given))
    return grads, marks


def check_versions(node: TapeNode, local: Any) -> None:
    """Raise where a value that the derivative reads was overwritten since it was saved."""
    count = len(node.inputs)
    for k in (*local.saved_in, *[count + j for j in local.saved_out]):
        if node.overwritten(k):
            counter, saved = node.versions[k]
            shape = list(node.saved(k).shape)
            what = f"output {k - count} of {node.label}" if k >= count else "a saved operand"
            edge = node.edges[k] if k < count else None
            if isinstance(edge, TapeNode):
                what = f"output {node.edge_outs[k]} of {edge.label}"
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[tensor of shape {shape}], which is {what}, is at version {counter[0]}; expected version "
                f"{saved} instead. Hint: enable anomaly detection to find the operation that failed to compute its "
                "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
            )


def _traced_values(values: list[Any]) -> list[Any] | None:
    """The saved values that the derivative reads, in a capture, as they are; None where one is not traced."""
    return values if all(type(x) is TracedArray or type(x) is float or type(x) is int for x in values) else None


def _saved(node: TapeNode, data: Any, k: int, create_graph: bool) -> Any:
    """A saved operand, with its history where derivatives of derivatives want it."""
    if type(data) is float or type(data) is int:
        return data
    if not create_graph or node.edges[k] is None:
        return make(data)
    edge = node.edges[k]
    if not isinstance(edge, TapeNode):
        return edge
    return linked(data, edge, node.edge_outs[k], node.versions[k])


def _saved_result(node: TapeNode, data: Any, k: int, create_graph: bool) -> Tensor:
    if not create_graph or data.dtype.kind not in INEXACT_KINDS:
        return make(data)
    return linked(data, node, k, node.versions[len(node.edges) + k])


def linked(data: Any, node: TapeNode, out: int, version: Any = None) -> Tensor:
    """A tensor over saved data that continues an existing history; *version*: the saved version count of its memory."""
    result = make(data)
    if version is not None:
        result._counter = version[0]
    result._node, result._out, result._requires = node, out, True
    return result


def free(node: TapeNode) -> None:
    """Release the saved values.  Nodes that save nothing can run again, as in PyTorch."""
    if not node.plain:
        node.custom_free()  # type: ignore[attr-defined]
        return
    assert node.op is not None
    avals = node.avals or tuple([aval_of(x) for x in node.inputs])
    local = node.op.vjp(avals, node.statics, tuple([e is not None for e in node.edges]), False)
    if local.saved_in or local.saved_out:
        node.freed = True  # before they go: another thread reads them first, then this
        node.inputs, node.outputs = (None,) * len(avals), (None,) * len(local.outs)
    else:
        node.inputs = avals
        node.outputs = local.outs


def _check_nan(node: TapeNode, grads: Sequence[Tensor | None]) -> None:
    for k, g in enumerate(grads):
        if g is not None and not isinstance(raw(g), TracedArray) and np.isnan(raw(g)).any():
            where = "" if node.site is None else f"\n  the forward operation was at {node.site.full()}"
            raise RuntimeError(f"Function '{node.label}' returned nan values in its {k}th output.{where}")
