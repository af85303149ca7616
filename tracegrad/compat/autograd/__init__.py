"""HIPS autograd's names over tracegrad: ``import tracegrad.compat.autograd.numpy as np`` and ``from
tracegrad.compat.autograd import grad``.  ``differential_operators.py`` is the first file to read, ``core.py`` the
second.
"""

from . import differential_operators, extend, numpy, tracer
from .builtins import dict, isinstance, list, tuple, type
from .differential_operators import *
from .primitives import primitive

__all__ = [
    "dict", "extend", "isinstance", "list", "numpy", "primitive", "tracer", "tuple", "type",
    *differential_operators.__all__,
]  # fmt: skip
