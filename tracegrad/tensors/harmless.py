"""Functions and methods of tensors that change nothing: a loop that data ends may call them in any number of turns
(``tracer/bytecode/purity.py``)."""

from __future__ import annotations

import inspect
import types
from typing import Any

from ..tracer.bytecode.purity import LIBRARY_FUNCTIONS, LIBRARY_METHODS
from .methods import METHODS

_OPS, _RANDOM, _CREATE = "tracegrad.tensors.ops_", "tracegrad.tensors.ops_random", "tracegrad.tensors.create"
_NAMESPACE = "tracegrad.array_api.rows"
_MADE = frozenset("arange eye full full_like ones ones_like tensor zeros zeros_like".split())
_CHANGES = ("inplace", "training", "out")  # parameters of functions that may


def changes_nothing(value: Any) -> bool:
    """Whether *value* is a function of tensors that only computes; in-place ones end with an underscore."""
    if not isinstance(value, types.FunctionType) or value.__name__.endswith("_"):
        return False
    module, code = value.__module__ or "", inspect.unwrap(value).__code__
    if module == _CREATE:
        return value.__name__ in _MADE
    if module == _NAMESPACE:
        return True
    if module.startswith(_OPS):
        return not module.startswith(_RANDOM)
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return module.startswith("tracegrad.nn.functional.") and not any(name in parameters for name in _CHANGES)


LIBRARY_FUNCTIONS.append(changes_nothing)
LIBRARY_METHODS.update(name for name, method in METHODS.items() if not name.endswith("_") and changes_nothing(method))
