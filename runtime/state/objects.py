"""Objects with a state in C, and of installed libraries: functions, those that a module keeps, what is not read."""

from __future__ import annotations

import sys
import types
from collections.abc import Collection
from typing import Any

DRAWING = frozenset(("rvs", "_rvs", "random_state", "_random_state"))
_VECTORIZED = ("vecentropy", "generic_moment")
OF_DATA = ("scipy.sparse.", "scipy.interpolate.")  # modules with classes of this kind


def keeps_c_state(cls: type) -> bool:
    """Whether instances have room for state beyond ``__dict__``, ``__slots__`` and a list of weak references."""
    if cls.__itemsize__:
        return True
    size = object.__basicsize__ + (8 if cls.__dictoffset__ > 0 else 0) + (8 if cls.__weakrefoffset__ > 0 else 0)
    slots = [v for c in cls.__mro__ if "__slots__" in c.__dict__ for v in c.__dict__.values()]  # not those of C classes
    size += 8 * sum(isinstance(v, types.MemberDescriptorType) for v in slots)
    return cls.__basicsize__ > size


def is_library_function(value: Any) -> bool:
    """Compiled functions of NumPy and SciPy: ufuncs, array-function dispatchers, Cython functions."""
    top = type(value).__module__.partition(".")[0]
    return top in ("numpy", "scipy") and keeps_c_state(type(value))


def is_singleton(value: Any) -> bool:
    """An object that a library keeps in one of its modules (``scipy.stats.norm``, ``np.s_``, typing constructs)."""
    top = type(value).__module__
    if top.partition(".")[0] == "typing":
        return True
    if top.partition(".")[0] not in ("numpy", "scipy"):
        return False
    parts = top.split(".")
    for depth in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:depth]))
        if module is not None and any(v is value for v in list(module.__dict__.values())):
            return True
    return False


def unread(attrs: Collection[str], cls: type, store: dict[str, Any]) -> set[str]:
    """The attributes of a distribution of scipy.stats, a class of SciPy's own, that the code does not read: the
    generator of its samples, and those that it has set up for itself."""
    bases = [base.__name__ for base in cls.__mro__ if base.__module__.startswith("scipy.stats.")]
    if not bases or not DRAWING.isdisjoint(attrs):
        return set()
    set_up = not {"rv_generic", "multi_rv_generic"}.isdisjoint(bases)
    own = {name for name in store if name.startswith("_")} if set_up else set()
    return own | {"_random_state", *(_VECTORIZED if own else ())}
