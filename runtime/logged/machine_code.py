"""Calls of functions that numba compiles: through a copy of their source, or as the machine code that they are.

A call of traced values runs the copy (``tracer/control/jitted.py``).  The machine code runs where everything that it is
given is plain, and nothing in the source depends on anything else: numba holds globals and closures as constants.
"""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import numpy as np

from ...tracer.control.jitted import python_of, through_machine_code, through_source
from ...tracer.convert.source import parts_of
from ...tracer.ir.refusals import Refusal
from ...tracer.ir.site import FOR_THE_USER
from ...tracer.record.array import is_traced
from ..record.kinds import PLAIN, TRACED

_DECORATORS = "numba.core.decorators"
_DRAWS = frozenset(("random", "print", "objmode"))
_CONSTANTS = frozenset(PLAIN) - frozenset(TRACED)


def is_decorator(f: types.FunctionType) -> bool:
    """Whether *f* is one of numba's functions that compile others (``njit``), or what such a one has given."""
    return f.__module__ == _DECORATORS


def call_jitted(run: Any, f: Any, source: types.FunctionType, args: Any, kwargs: Any) -> Any:
    """``f(*args, **kwargs)`` of a function that numba has compiled from *source*."""
    node = run.reads.node_of(f)
    if node is not None:
        source = run.reads.read(node, "const", "__wrapped__", source, node.label)
    given = [*args, *kwargs.values()]
    if all(type(x) in PLAIN for x in given) and not is_traced(given) and depends_on_arguments(source):
        return run.handing(_Machine(f), args, kwargs, False)
    if "random" in _names(source):  # of generators of numba's own
        raise run.refuse(f"{source.__name__}(), which numba has compiled", Refusal.CALLS_RANDOM)
    return through_source(f, source, run.copy_of(source), args, kwargs)


class _Machine:
    """The machine code of a compiled function."""

    def __init__(self, f: Any) -> None:
        self._f = f
        self.__name__ = str(getattr(f, "__name__", type(f).__name__))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return through_machine_code(self._f, args, kwargs)


def depends_on_arguments(source: types.FunctionType, met: tuple[Any, ...] = ()) -> bool:
    """Whether a function that numba compiles does nothing but compute from what it is given and from constants."""
    if source in met:
        return True
    names = _names(source)
    if not _DRAWS.isdisjoint(names):
        return False
    values = [source.__globals__[name] for name in names if name in source.__globals__]
    try:
        values += [cell.cell_contents for cell in source.__closure__ or ()]
    except ValueError:  # a variable that has no value yet
        return False
    return all(_is_constant(value, (*met, source)) for value in values)


def _names(source: types.FunctionType) -> list[str]:
    return [name for code in parts_of(source.__code__) for name in code.co_names]


def _is_constant(value: Any, met: tuple[Any, ...]) -> bool:
    if isinstance(value, types.ModuleType):
        return value in (np, math, sys.modules.get("numba"))
    if type(value) in _CONSTANTS:
        return True
    if type(value) is tuple:
        return all(_is_constant(x, met) for x in value)
    source = python_of(value)
    if source is not None:
        return depends_on_arguments(source, met)
    return isinstance(value, np.ufunc) or getattr(math, getattr(value, "__name__", ""), None) is value


FOR_THE_USER.add(__file__)
