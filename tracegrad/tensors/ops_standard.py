"""Methods of the Array API standard's array object that PyTorch's tensors have not, or not as operators.

Its namespace is ``tracegrad/array_api``, which is imported when it is asked for.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from .inplace import inplace
from .op import EagerOp
from .ops_basic import FLOOR_DIVIDE, REMAINDER, inplace_method, operators
from .ops_facts import to
from .ops_linear import MM
from .tensor import METHODS, Tensor

SHIFTS = {name: EagerOp(f"Bitwise{name.title()}Shift", getattr(np, f"{name}_shift")) for name in ("left", "right")}
_BITS = {name: EagerOp(f"bitwise_{name}", getattr(np, f"bitwise_{name}")) for name in ("and", "or", "xor")}


def array_namespace(self: Tensor, *, api_version: str | None = None) -> ModuleType:
    """The module whose functions take this tensor: ``tracegrad.array_api``.

    :raises ValueError: for a revision of the standard that it does not follow.
    """
    found = importlib.import_module("..array_api", __package__)
    if api_version not in (None, *found.VERSIONS):
        raise ValueError(f"tracegrad.array_api follows revisions {', '.join(found.VERSIONS)}, not {api_version!r}")
    return found


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """This tensor on *device*: itself if it lies there, else a copy that is connected to it."""
    if stream is not None:
        raise ValueError("to_device(): streams are not supported, pass none")
    return to(self, device)


def _complex(self: Tensor) -> complex:
    return complex(self._only())


def _imatmul(self: Tensor, other: Any) -> Any:
    return inplace(MM, self, (other,)) if isinstance(other, Tensor) else NotImplemented


def install() -> None:
    """Give Tensor these methods."""
    for name, op in SHIFTS.items():
        forward, reflected = operators(op)
        setattr(Tensor, f"__{name[0]}shift__", forward)
        setattr(Tensor, f"__r{name[0]}shift__", reflected)
        METHODS[f"bitwise_{name}_shift"] = forward
    written = {"floordiv": FLOOR_DIVIDE, "mod": REMAINDER, "lshift": SHIFTS["left"], "rshift": SHIFTS["right"]}
    for name, op in {**written, **_BITS}.items():
        setattr(Tensor, f"__i{name}__", inplace_method(op, f"__i{name}__"))
    methods = {"__array_namespace__": array_namespace, "to_device": to_device, "__complex__": _complex}
    for name, method in {**methods, "__imatmul__": _imatmul}.items():
        setattr(Tensor, name, method)


install()
