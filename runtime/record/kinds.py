"""Kinds of values, as converted code meets them."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from ...tracer.record.array import STAND_INS, TracedArray
from ...tracer.record.integers import TracedInt
from ...tracer.record.made_arrays import ALONE, MadeArray, references

TRACED = (TracedArray, TracedInt, MadeArray, *STAND_INS)
#: classes whose operators run no code of the user's, and read nothing but the operands
PLAIN = {
    *TRACED, int, float, complex, bool, str, bytes, type(None), np.ndarray, range, slice, type(Ellipsis), np.dtype,
    *{kind for kind in np.sctypeDict.values() if kind is not np.object_},
}  # fmt: skip
BUILT = {list, tuple, dict, set, frozenset}
EAGER: set[type] = set()  # classes of eager tensors, whose operations a capture records (``treat_as_eager``)


def treat_as_eager(*classes: type) -> None:
    """Let tensors of these very classes be values whose operators and methods run as they are."""
    EAGER.update(classes)
    PLAIN.update(classes)


NAMESPACES: set[type] = set()  # classes of ours whose objects have attributes of the user's, too


def treat_as_namespace(cls: type) -> None:
    """Let objects of this class, which are the run's own, take attributes of the user's."""
    NAMESPACES.add(cls)
    PLAIN.add(cls)


def is_held(copies: list[tuple[Any, Any]]) -> bool:
    """Whether anything else has the last of *copies* (and what was in it), which is taken off."""
    return references([copies.pop()[0]], 0) > ALONE


def may_be_written(array: Any) -> bool:
    """Whether all of the memory of *array* is its own."""
    return type(array) is np.ndarray and array.base is None and array.flags.writeable and array.flags.owndata


def is_named_tuple(kind: type) -> bool:
    """Whether objects of *kind* are made by the code of ``namedtuple``, and are their fields."""
    made = getattr(kind, "__new__", None)
    by_code = type(made) is types.FunctionType and made.__code__.co_filename.startswith("<")
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and by_code


def item_key(key: Any) -> Any:
    """The key that a place is told by: of a tensor its identity."""
    return id(key) if type(key) in EAGER else key


def is_number(value: Any) -> bool:
    return type(value) in (int, float, TracedInt, *STAND_INS) or (type(value) is TracedArray and value._atom.aval.weak)


def has_known_text(run: Any, value: Any, depth: int = 0) -> bool:
    """Whether the text of *value* depends on it alone: of a container outside, it depends on what *run* finds there."""
    kind = type(value)
    if kind in (list, tuple, dict) and run.reads.node_of(value) is not None:
        return False
    if kind in (int, float, bool, str, bytes, type(None), complex, type(Ellipsis), range):
        return True
    if kind in (list, tuple) and depth < 10:
        return all(has_known_text(run, x, depth + 1) for x in value)
    if kind is dict and depth < 10:
        return all(has_known_text(run, x, depth + 1) for x in (*value, *value.values()))
    return False


def of_traced(index: Any) -> bool:
    return type(index) is TracedArray or (type(index) is tuple and any(type(x) is TracedArray for x in index))
