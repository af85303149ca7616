"""Vector spaces of values: trees of float and complex arrays, of one structure, shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...tracer.ir.aval import INEXACT_KINDS
from ...tracer.ir.trees import tree_flatten, tree_unflatten
from ...tracer.record.array import TracedArray
from .util import subval


def is_number(leaf: Any) -> bool:
    """Whether *leaf* is a float, a complex number or an array of them."""
    return isinstance(leaf, (float, complex)) or (
        isinstance(leaf, (np.ndarray, np.generic, TracedArray)) and leaf.dtype.kind in INEXACT_KINDS
    )


class VSpace:
    """The vector space of *value*.  Complex numbers are vectors over the reals, as in HIPS autograd."""

    def __init__(self, value: Any) -> None:
        leaves, self.structure = tree_flatten(value, none_is_leaf=True)
        for leaf in leaves:
            if not is_number(leaf) and not isinstance(leaf, np.ndarray):
                raise TypeError(f"Can't find vector space for value {leaf} of type {type(leaf)}.")
        self.parts = tuple([(np.shape(leaf), np.dtype(np.result_type(leaf))) for leaf in leaves])

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one array."""
        ((shape, _),) = self.parts
        return shape

    @property
    def dtype(self) -> np.dtype:
        """Of one array."""
        ((_, dtype),) = self.parts
        return dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def iscomplex(self) -> bool:
        return any(dtype.kind == "c" for _, dtype in self.parts)

    @property
    def size(self) -> int:
        """The number of real dimensions."""
        return sum(int(np.prod(shape)) * (2 if dtype.kind == "c" else 1) for shape, dtype in self.parts)

    def _made(self, make: Callable[[Any, Any], Any]) -> Any:
        return tree_unflatten(self.structure, [make(*part) for part in self.parts])

    def _map(self, f: Callable[..., Any], *trees: Any) -> Any:
        columns = [tree_flatten(tree, none_is_leaf=True)[0] for tree in trees]
        return tree_unflatten(self.structure, [f(*row) for row in zip(*columns, strict=True)])

    def zeros(self) -> Any:
        return self._made(np.zeros)

    def ones(self) -> Any:
        return self._made(lambda shape, dtype: np.full(shape, 1 + 1j if dtype.kind == "c" else 1, dtype))

    def randn(self) -> Any:
        def draw(shape: Any, dtype: np.dtype) -> Any:
            real = np.array(np.random.randn(*shape))
            return (real + 1j * np.random.randn(*shape) if dtype.kind == "c" else real).astype(dtype)

        return self._made(draw)

    def standard_basis(self) -> Iterator[Any]:
        zero = [np.zeros(*part) for part in self.parts]
        for k, (shape, dtype) in enumerate(self.parts):
            for place in np.ndindex(*shape):
                for unit in (1.0, 1.0j) if dtype.kind == "c" else (1.0,):
                    vector = np.zeros(shape, dtype)
                    vector[place] = unit
                    yield tree_unflatten(self.structure, subval(zero, k, vector))

    def add(self, x: Any, y: Any) -> Any:
        return self._map(lambda a, b: a + b, x, y)

    mut_add = add

    def scalar_mul(self, x: Any, a: Any) -> Any:
        return self._map(lambda v: v * a, x)

    def inner_prod(self, x: Any, y: Any) -> Any:
        """The inner product over the reals."""
        rows = zip(*[tree_flatten(tree, none_is_leaf=True)[0] for tree in (x, y)], strict=True)
        return sum(np.real(np.dot(np.conj(np.ravel(a)), np.ravel(b))) for a, b in rows)

    def covector(self, x: Any) -> Any:
        return self._map(np.conj, x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VSpace) and (self.structure, self.parts) == (other.structure, other.parts)

    def __hash__(self) -> int:
        return hash((self.structure, self.parts))

    def __repr__(self) -> str:
        return f"VSpace({self._made(lambda shape, dtype: f'{dtype}{list(shape)}')})"


vspace = VSpace
