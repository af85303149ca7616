"""Sparse arrays as results: entries over a fixed structure, made without a look at it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...tracer.ir.late_modules import imported


@functools.cache
def csr_array() -> Any:
    """The class of SciPy's, which is loaded when it is asked for."""
    return imported("scipy.sparse").csr_array


class Structure:
    """The places of the entries of a sparse array: ``shape``, ``indices`` and ``indptr`` of the CSR format, shared by
    all results of a recording and read-only.  Equal by contents."""

    __slots__ = ("_hash", "indices", "indptr", "shape")

    def __init__(self, shape: tuple[int, int], indices: np.ndarray, indptr: np.ndarray) -> None:
        self.shape, self.indices, self.indptr = shape, indices, indptr
        self._hash = hash((shape, indices.tobytes(), indptr.tobytes()))
        indices.flags.writeable = indptr.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Structure) or self._hash != other._hash or self.shape != other.shape:
            return False
        return np.array_equal(self.indptr, other.indptr) and np.array_equal(self.indices, other.indices)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.shape[0]} x {self.shape[1]} with {len(self.indices)} entries"


def over(cls: type, shape: tuple[int, int], indices: np.ndarray, indptr: np.ndarray, data: Any) -> Any:
    """The sparse array of *cls* with the entries *data*, past its ``__init__``, which looks at all of the structure."""
    found: Any = object.__new__(cls)
    found.__dict__.update(
        _shape=shape, maxprint=50, indices=indices, indptr=indptr, data=data,
        _has_sorted_indices=True, _has_canonical_format=True,
    )  # fmt: skip
    return found
