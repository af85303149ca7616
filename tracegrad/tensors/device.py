"""Devices: ``device("cpu")``, ``device("cuda")``, where data lies, and the default for new tensors.

A tensor's array says where it is: NumPy's on the CPU, CuPy's on a CUDA device.  There is one current CUDA device; an
array on another one is refused (``cuda/arrays.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.cuda.availability import current_device, device_count, require_cuda
from ..tracer.ir.aval import Aval
from ..tracer.record.array import TracedArray
from .modes import STATE


class device:  # noqa: N801
    """``device("cpu")``, ``device("cuda")``, ``device("cuda:0")``, ``device("cuda", 0)``, ``device(0)``.  Equal to its
    name.  Naming a device needs none.

    :raises RuntimeError: for any other kind of device.
    """

    type: str
    index: int | None
    __slots__ = ("index", "type")

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        self.type: str
        self.index: int | None
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
            return
        if isinstance(type, int) and not isinstance(type, bool):
            type, index = "cuda", type
        name = str(getattr(type, "type", type))
        kind, colon, number = name.partition(":")
        if kind not in ("cpu", "cuda"):
            raise RuntimeError(f"Expected one of cpu, cuda device type at start of device string: {name}")
        if colon and not number.isdecimal():
            raise RuntimeError(f"Invalid device string: '{name}'")
        self.type = kind
        self.index = int(number) if number else index

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


CPU = device("cpu")
_default: device = CPU


def device_of(data: Any) -> device:
    """The device of a tensor's array, for a traced array that of the replay."""
    if type(data) is TracedArray:
        return CPU if STATE.capture is None else STATE.capture.device_of(data)
    if type(data) is np.ndarray or data is None:
        return CPU
    return device("cuda", data.device.id)


def on_cuda(data: Any) -> bool:
    """Whether a tensor's array, or a number in its place, is on a CUDA device."""
    return type(data) not in _ON_HOST and hasattr(type(data), "__cuda_array_interface__")


_ON_HOST = frozenset((np.ndarray, TracedArray, float, int, bool, Aval))


def wanted(given: Any) -> device:
    """The device that a ``device=`` argument means: the default one for None.

    :raises DeviceError: it is not there.
    """
    if given is None:
        return _default
    found = given if isinstance(given, device) else device(given)
    if found.type == "cuda":
        require_cuda(f"device {str(found)!r}")
        current = current_device()
        if found.index is not None and found.index != current:
            if not 0 <= found.index < device_count():
                raise RuntimeError(
                    f"CUDA error: invalid device ordinal {found.index}: there are {device_count()} devices"
                )
            raise RuntimeError(
                f"tensors are on the current device, cuda:{current}, and not on {found}: choose another one before the "
                f"process starts, with CUDA_VISIBLE_DEVICES={found.index}"
            )
    return found


def set_default_device(device: Any) -> None:
    """Set the device of tensors made without ``device=``; None: the CPU."""
    global _default
    _default = CPU if device is None else wanted(device)


def get_default_device() -> device:
    """The device of tensors made without ``device=``."""
    return _default
