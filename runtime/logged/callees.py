"""Kinds of callees: the question that each call of converted code asks first.

A Python function of the user's is converted, and its copy runs.  A function of a library that the table of libraries
(``state/libraries.py``) calls pure runs as it is, and gets what it is given in a form in which nothing of the outside
is left unread (``LoggedRun.handed``).  What neither applies to is not closed.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
import pathlib
import random
import types
from typing import Any

import numpy as np

from ...tracer import numpy_api, scipy_api  # noqa: F401  (fill the tables)
from ...tracer.ir.refusals import Refusal
from ..state.libraries import _GENERATORS, LOCAL_TIME, TIME_ZONE, verdict
from ..state.trust import IMPURE_BUILTINS, impurity, setting_of
from .reads import not_closed

#: builtins whose answer depends on what they are given alone, and that run no code of objects that ``handed`` lets pass
_PURE_BUILTINS = frozenset(
    "abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate filter float frozenset hex "
    "int isinstance issubclass len list map max min oct ord pow range repr reversed round set slice sorted str sum "
    "tuple type zip iter next format property staticmethod classmethod object hash".split()
)
_WITH_CALLBACKS = frozenset((
    "functools", "_functools", "itertools", "operator", "_operator", "heapq", "_heapq", "bisect", "_bisect",
    "contextlib", "collections", "_collections", "builtins", "numpy", "scipy", "pandas", "tracegrad",
))  # fmt: skip
#: modules of Python's own whose functions are converted where they are given objects or functions of the user's
_FOLLOWED = frozenset(("collections", "functools", "dataclasses"))
_REFUSED = frozenset((
    "print", "id", "vars", "dir", "globals", "locals", "eval", "exec", "compile", "open", "input", "breakpoint",
    "__import__", "delattr", "memoryview",
))  # fmt: skip
C_FUNCTIONS = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
    types.ClassMethodDescriptorType, np.ufunc, type(np.sum),
)  # fmt: skip
PURE_METHODS: dict[type, frozenset[str]] = {
    list: frozenset(("copy", "count", "index", "__len__", "__getitem__", "__contains__", "__iter__")),
    tuple: frozenset(("count", "index", "__len__", "__getitem__", "__contains__", "__iter__")),
    dict: frozenset(("get", "items", "keys", "values", "copy", "__len__", "__getitem__", "__contains__", "__iter__")),
    set: frozenset("copy difference intersection isdisjoint issubset issuperset union symmetric_difference".split()),
    frozenset: frozenset("copy difference intersection isdisjoint issubset issuperset union".split()),
}
#: functions in C that only ask a traced value what an operator or a comparison asks
_THROUGH_PROTOCOLS = frozenset(
    "abs divmod pow round sum min max any all callable isinstance issubclass len hasattr getattr type bool complex "
    "float int".split()
)
#: functions of ``math`` that ask for an integer, as `round` does, or that multiply and add whatever they are given
_BY_OPERATORS = (math.floor, math.ceil, math.trunc, math.prod, getattr(math, "sumprod", math.prod))
_REFUSED_IDS = frozenset(id(getattr(builtins, name)) for name in _REFUSED if hasattr(builtins, name))


_REPORTERS = ("logging", "_warnings", "warnings")
_OF_CONTEXTS = frozenset(("getcontext", "setcontext", "localcontext"))


def is_refused(f: Any) -> bool:
    """Whether *f* does, or reads, something outside, or gives what all share."""
    if id(f) in _REFUSED_IDS or getattr(f, "__module__", None) in _REPORTERS:
        return True
    name = getattr(f, "__name__", "")
    return name in _OF_CONTEXTS or (name.startswith("set") and setting_of(f) is not None)


def reason_of(f: Any) -> Refusal:
    """The refusal that says why the log does not hold a call of *f*."""
    return impurity(f) or IMPURE_BUILTINS.get(getattr(f, "__name__", ""), Refusal.LOG_UNSEEN)


def loses_traces(f: Any) -> bool:
    """Whether *f*, a function in C, would take a traced value for a plain number."""
    owner = getattr(f, "__self__", None)
    if isinstance(f, np.ufunc) or type(f) is type(np.sum):
        return False
    if isinstance(f, types.WrapperDescriptorType | types.MethodDescriptorType):
        return True
    module = owner.__name__ if isinstance(owner, types.ModuleType) else getattr(f, "__module__", None) or ""
    if module.partition(".")[0] in ("numpy", "scipy", "operator", "_operator", "itertools", "functools", "_functools"):
        return False
    return not (f in _BY_OPERATORS or (owner is builtins and f.__name__ in _THROUGH_PROTOCOLS))


def takes_callbacks(f: Any) -> bool:
    """Whether functions of the user's may be handed to *f*, which calls them and keeps nothing."""
    module = getattr(f, "__module__", None) or getattr(getattr(f, "__self__", None), "__name__", None)
    return isinstance(module, str) and module.partition(".")[0] in _WITH_CALLBACKS


def is_generator(value: Any) -> bool:
    """Whether *value* is a generator of random numbers."""
    return isinstance(value, np.random.Generator | np.random.RandomState | random.Random)


def gives_draws(value: Any) -> bool:
    """Whether *value* is another one after it has given random numbers, or seeds."""
    return is_generator(value) or isinstance(value, np.random.BitGenerator | np.random.SeedSequence)


def draws_its_seed(f: Any, args: Any, kwargs: Any) -> bool:
    """Whether *f* makes, or seeds, a generator of random numbers that no seed of the user's determines."""
    module = getattr(f, "__module__", None) or getattr(getattr(f, "__self__", None), "__name__", "")
    name = getattr(f, "__name__", "")
    if name not in ("seed", "__init__", "__new__") and f"{module}.{name}" not in _GENERATORS:
        return False
    generators = (name == "seed" or is_generator(getattr(f, "__self__", None))) or f"{module}.{name}" in _GENERATORS
    return generators and all(x is None or is_generator(x) for x in (*args, *kwargs.values()))


def asks_files(f: Any) -> bool:
    """Whether *f*, of ``pathlib``, is no function of texts alone."""
    name = getattr(f, "__name__", "")
    return not isinstance(f, type) and hasattr(pathlib.Path, name) and not hasattr(pathlib.PurePath, name)


def is_followed(f: types.FunctionType) -> bool:
    """Whether *f*, a function of Python's own, is converted where it is given something of the user's."""
    return f.__module__ in _FOLLOWED or f.__globals__.get("__name__") in _FOLLOWED


def check_pure(f: Any, depends: Any, drawn: bool = True) -> None:
    """An error unless the answer of the library's function or class *f* depends on what it is given alone."""
    name = getattr(f, "__name__", "")
    owner = getattr(f, "__self__", None)
    module = getattr(f, "__module__", None)
    if module == "builtins" or (owner is builtins):
        if name in _REFUSED or (owner is builtins and name not in _PURE_BUILTINS):
            raise not_closed(f"{name}()", reason_of(f))
        return
    why = impurity(f)
    if why is Refusal.CALLS_RANDOM and not drawn:  # by a generator of the run's own, whose seed is known
        why = None
    if why is not None:
        raise not_closed(f"{module}.{name}", why)
    if str(module).partition(".")[0] == "pathlib" and asks_files(f):  # in 3.13 a package
        raise not_closed(f"{getattr(f, '__qualname__', name)}(), which asks for files")
    setting = setting_of(f)
    if setting is not None:
        depends(setting)
    if name in LOCAL_TIME:
        depends(TIME_ZONE)
    if isinstance(f, np.ufunc) or type(f) is type(np.sum):
        return
    if isinstance(f, types.MethodDescriptorType | types.WrapperDescriptorType | types.ClassMethodDescriptorType):
        module = f.__objclass__.__module__
    elif owner is not None and not isinstance(owner, types.ModuleType):
        module = (owner if isinstance(owner, type) else type(owner)).__module__
    if not isinstance(module, str):
        module = owner.__name__ if isinstance(owner, types.ModuleType) else type(f).__module__
    if verdict(f"{module}.{name}") is None and module != "builtins":
        raise not_closed(f"{module}.{name}, which is compiled, or of no library that is known")


SINGLES = {operator.attrgetter, operator.itemgetter, operator.methodcaller, functools.partial}
