"""Traced arrays seen from outside, and the functions that HIPS autograd's ``tracer`` has for users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tracer.ir.trees import tree_map
from ...tracer.numpy_api.creation import stop_gradient
from ...tracer.record.array import TracedArray
from .primitives import primitive
from .wrap_util import wraps

Box = TracedArray


def isbox(x: Any) -> bool:
    """Whether *x* is traced."""
    return type(x) is TracedArray


def getval(x: Any) -> Any:
    """*x* without its derivative."""
    return tree_map(lambda leaf: stop_gradient(leaf) if isbox(leaf) else leaf, x)


def notrace_primitive(f_raw: Callable[..., Any]) -> Callable[..., Any]:
    """*f_raw* of arguments without their derivatives."""

    @wraps(f_raw)
    def f_wrapped(*args: Any, **kwargs: Any) -> Any:
        return f_raw(*map(getval, args), **kwargs)

    return f_wrapped


def register_notrace(trace_type: Any, primitive_fun: Any) -> None:
    """Comparisons and the like have no derivative as it is."""


__all__ = ["Box", "getval", "isbox", "notrace_primitive", "primitive", "register_notrace"]
