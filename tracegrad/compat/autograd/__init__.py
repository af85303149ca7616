"""HIPS autograd's names over tracegrad: ``import tracegrad.compat.autograd.numpy as np`` and ``from
tracegrad.compat.autograd import grad``.  ``differential_operators.py`` is the first file to read, ``core.py`` the
second.
"""

from . import differential_operators, numpy
from .builtins import dict, isinstance, list, tuple, type
from .differential_operators import *
from .primitives import primitive

__all__ = ["dict", "isinstance", "list", "numpy", "primitive", "tuple", "type", *differential_operators.__all__]
