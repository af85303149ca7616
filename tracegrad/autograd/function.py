"""Custom functions."""

from ..runtime.eager.function import Function, once_differentiable
from ..runtime.eager.function_context import FunctionCtx

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
