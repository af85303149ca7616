"""Transfer of tensors between devices: a copy, whose derivative is the copy back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..runtime.cuda.arrays import download, upload
from ..tracer.record.array import TracedArray
from . import tensor as core
from .device import device, device_of, wanted
from .modes import STATE
from .node import TapeNode
from .op import aval_of
from .tensor import Tensor, make, origins, raw


class TransferNode(TapeNode):
    """A copy from *source*."""

    label = "ToCopyBackward0"
    plain = False
    source: device

    def custom_vjp(self, cts: Sequence[Tensor | None], create_graph: bool) -> list[Tensor | None]:
        """The cotangent, where the operand lies; recorded if gradients are."""
        (ct,) = cts
        return [None if ct is None else to_device(ct, self.source)]

    def custom_free(self) -> None:
        """Nothing was saved."""


def to_device(t: Tensor, place: Any) -> Tensor:
    """*t* on the device *place*: itself if it lies there, else a copy that is connected to it.  A copy to the host
    waits for its contents.

    :raises DeviceError: there is no such device.
    """
    where, data = wanted(place), raw(t)
    here = device_of(data)
    if here.type == where.type:
        return t
    if isinstance(data, TracedArray):
        assert STATE.capture is not None
        result = make(STATE.capture.moved(data, where))
    else:
        result = make(upload(data) if where.type == "cuda" else download(data))
    if t._base is not None:
        core.refresh(t)
    if STATE.grad and t._requires:
        node = TransferNode(None, (), *origins([t]), (aval_of(data),), (aval_of(data),), ())
        node.source = here
        result._node, result._out, result._requires = node, 0, True
    return result
