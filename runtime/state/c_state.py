"""Classes written in C, whose objects have room for a state that nobody can look at."""

from __future__ import annotations

import types


def keeps_c_state(cls: type) -> bool:
    """Whether instances have room for state beyond ``__dict__``, ``__slots__`` and a list of weak references."""
    if cls.__itemsize__:
        return True
    size = object.__basicsize__ + (8 if cls.__dictoffset__ > 0 else 0) + (8 if cls.__weakrefoffset__ > 0 else 0)
    slots = [v for c in cls.__mro__ if "__slots__" in c.__dict__ for v in c.__dict__.values()]  # not those of C classes
    size += 8 * sum(isinstance(v, types.MemberDescriptorType) for v in slots)
    return cls.__basicsize__ > size
