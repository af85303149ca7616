"""tracegrad: compiled values and gradients of plain NumPy code."""

from . import autograd
from .runtime.compiled import CompiledFunction, compile_grad
from .runtime.config import config
from .tracer.creation import arange, array, asarray, empty, eye, full, linspace, ones, stack, zeros
from .tracer.errors import (
    BadIndexError,
    DifferentiationError,
    MutationError,
    ShapeError,
    TracegradError,
    UnsupportedError,
)

__version__ = "0.1.0"

__all__ = [
    "BadIndexError",
    "CompiledFunction",
    "DifferentiationError",
    "MutationError",
    "ShapeError",
    "TracegradError",
    "UnsupportedError",
    "arange",
    "array",
    "asarray",
    "autograd",
    "compile_grad",
    "config",
    "empty",
    "eye",
    "full",
    "linspace",
    "ones",
    "stack",
    "zeros",
]
