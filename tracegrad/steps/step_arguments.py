"""The arguments of a step as its recorded run gets them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from ..runtime.logged.reads import NotClosedError, not_closed
from ..runtime.record.call_key import DATA, INTEGER, TENSOR, Call
from ..runtime.record.record import traced_argument
from ..tensors.capture import Capture
from ..tensors.device import CPU
from ..tensors.hooks import at_leaf
from ..tensors.tensor import Tensor
from ..tracer.ir.refusals import Refusal
from ..tracer.record.integers import Integers
from .step_places import LEAF


def arguments_of(
    capture: Capture, integers: Integers, call: Call, names: Sequence[str], tensors: Collection[int]
) -> tuple[list[Any], dict[int, Tensor]]:
    """(the leaves of the call as a run gets them, the tensors among them that stand for arguments, by position);
    *tensors*: the ids of those that do, while others are the very tensors that a replay has to be given."""
    leaves = list(call.leaves)
    proxies: dict[int, Tensor] = {}
    for k, (leaf, kind) in enumerate(zip(call.leaves, call.kinds, strict=True)):
        if kind in DATA:
            add_input = partial(capture.add_input, LEAF, payload=k)
            _, leaves[k] = traced_argument(integers, leaf, kind, names[k], k, add_input)
            if kind != INTEGER:
                capture.put(leaves[k], CPU)
        elif kind == TENSOR and id(leaf) in tensors:
            leaves[k] = proxies[k] = _argument(capture, leaf, k, names[k])
    return leaves, proxies


def _argument(capture: Capture, t: Tensor, position: int, name: str) -> Tensor:
    """The tensor that stands for an argument in the run; its memory is read where the argument of the call is."""
    proxy = t
    if at_leaf(t):
        raise not_closed(f"`{name}`, an argument with hooks")
    if t._base is not None:
        if t._requires:
            raise NotClosedError(Refusal.STEP_VIEW(name=name))
        proxy = object.__new__(Tensor)
        proxy._data, proxy._counter = t._data, t._counter
        capture.originals[id(proxy)] = t
    known = capture.root_of(proxy)
    if known is None:
        capture.raw(proxy)
        capture.sources[-1] = (LEAF, position)
    return proxy
