"""What a call looks like: its arguments flattened, and the key under which its recordings are kept.

An argument tree is flattened with optree (dicts, lists, tuples, namedtuples, registered dataclasses).  A leaf is data (a
float array, a Python float: traced), a value (int, bool, str, None: part of the key), or an object (``self``, settings,
a function: outside state, guarded by value).
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from ..tracer.array import TracedArray
from ..tracer.aval import SUPPORTED, check_dtype
from ..tracer.errors import UnsupportedError
from ..tracer.site import at_site

ARRAY, FLOAT, SCALAR, VALUE, OBJECT, TRACED = "array", "float", "scalar", "value", "object", "traced"
_VALUE_TYPES = (int, bool, str, bytes, type(None), complex, slice, range, type(Ellipsis), np.dtype, type)


@dataclass(slots=True)
class Call:
    """One call's arguments.  ``tree`` is (args, kwargs); ``owner`` gives the positional argument of each leaf (-1: keyword)."""

    leaves: list[Any]
    tree: Any
    kinds: tuple[str, ...]
    key: tuple[Any, ...]

    @property
    def is_flat(self) -> bool:
        """Positional leaves only, none of them an object or wrapped: a launcher can take the arguments as they come."""
        args, kwargs = optree.treespec_children(self.tree)
        flat = all(optree.treespec_is_leaf(a) for a in optree.treespec_children(args))
        return flat and kwargs.num_leaves == 0 and not any(isinstance(x, Static) for x in self.leaves) and OBJECT not in self.kinds

    @property
    def objects(self) -> tuple[Any, ...]:
        return tuple(x for x, k in zip(self.leaves, self.kinds, strict=True) if k == OBJECT)

    @property
    def has_traced(self) -> bool:
        return TRACED in self.kinds

    def rebuild(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = optree.tree_unflatten(self.tree, leaves)
        return tuple(_unwrap(a) for a in args), {k: _unwrap(v) for k, v in kwargs.items()}


class Static:
    """A static argument: a leaf whatever it is, compared by value."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


def _unwrap(x: Any) -> Any:
    return x.value if isinstance(x, Static) else x


def flatten(args: tuple[Any, ...], kwargs: dict[str, Any], static: frozenset[int | str] = frozenset()) -> Call:
    """Flatten and classify the arguments of a call."""
    if static:
        args = tuple(Static(a) if i in static else a for i, a in enumerate(args))
        kwargs = {k: Static(v) if k in static else v for k, v in kwargs.items()}
    leaves, tree = optree.tree_flatten((args, kwargs))
    kinds, parts = [], []
    for leaf in leaves:
        kind, part = classify(leaf)
        kinds.append(kind)
        parts.append(part)
    return Call(leaves, tree, tuple(kinds), (tree, tuple(parts)))


def classify(leaf: Any) -> tuple[str, Any]:
    """(kind, what of the leaf is part of the call key)."""
    kind = type(leaf)
    if kind is np.ndarray:
        if leaf.dtype not in SUPPORTED or not leaf.dtype.isnative:
            check_dtype(leaf.dtype, "an array argument")
        return ARRAY, (leaf.dtype.char, leaf.shape)
    if kind is float:
        return FLOAT, float
    if kind is TracedArray:
        return TRACED, None
    if kind is Static:
        try:
            hash(leaf.value)
        except TypeError:
            raise UnsupportedError(at_site(f"a static argument must be hashable, not {type(leaf.value).__name__}")) from None
        return VALUE, (type(leaf.value), leaf.value)
    if issubclass(kind, np.floating):
        check_dtype(leaf.dtype, "a scalar argument")
        return SCALAR, leaf.dtype.char
    if issubclass(kind, np.generic):
        check_dtype(leaf.dtype, "a scalar argument")
        return VALUE, (kind, leaf.item())
    if issubclass(kind, _VALUE_TYPES):
        return VALUE, (kind, leaf)
    if issubclass(kind, np.ndarray):
        raise UnsupportedError(at_site(f"a {kind.__name__} argument is not supported; pass a plain array: np.asarray(x)"))
    if not isinstance(leaf, types.FunctionType) and (hasattr(leaf, "__array__") or hasattr(leaf, "__dlpack__")):
        raise UnsupportedError(at_site(f"an argument of type {kind.__module__}.{kind.__name__} is not a NumPy array; pass np.asarray(x)"))
    return OBJECT, kind
