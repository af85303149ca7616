"""tracegrad: compiled values and gradients of plain NumPy code."""

from . import autograd
from .runtime.compiled import CompiledFunction, compile_grad
from .runtime.config import config
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
    "autograd",
    "compile_grad",
    "config",
]
