"""Real and complex numbers in the buffers of LAPACK's primitives.

The nodes of a graph are real.  So a primitive that gives LAPACK complex matrices, (..., m, n), has them as rows of
numbers, (..., m, 2 n), the real and the imaginary part one beside the other.  Such primitives come in twos, one for
real and one for complex matrices, with one set of rules: those ``load`` operands, which gives real values or ``Pair``s,
compute with adjoints where the mathematics has them (``linalg.adjoint``, ``times``), and ``store`` the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.aval import COMPLEX as LANES
from ..ir.aval import Aval
from ..ir.data_classes import NamedTuple
from ..ir.errors import GraphError
from ..ir.graph import Atom, Pair, Var
from ..ir.primitive import Primitive
from .complex import buffer_of, complex_of
from .shape import concat, reshape, slice_axis

_OF_LANES = {lane: dtype for dtype, lane in LANES.items()}


class Field(NamedTuple):
    """The numbers that a primitive's matrices have, of *parts* real ones each."""

    prefix: str  # of the primitive's name
    parts: int

    def store(self, x: Atom) -> Atom:
        """The buffer of the matrices *x*."""
        if self.parts == 1:
            return x
        *rows, n = x.aval.shape
        return reshape(buffer_of(x), (*rows, 2 * n))

    def load(self, x: Atom) -> Atom:
        """The matrices in the buffer *x*."""
        return x if self.parts == 1 else from_rows(x)

    def dtype(self, x: Atom) -> np.dtype:
        """The dtype of numbers whose parts have that of *x*."""
        return x.aval.dtype if self.parts == 1 else _OF_LANES[x.aval.dtype]

    def array(self, x: Any) -> np.ndarray:
        """``load`` of arrays."""
        return x if self.parts == 1 else np.ascontiguousarray(x).view(_OF_LANES[x.dtype])

    def raw(self, x: np.ndarray) -> np.ndarray:
        """``store`` of arrays."""
        return x if self.parts == 1 else np.ascontiguousarray(x).view(LANES[x.dtype])

    def shape(self, x: Aval, what: str) -> tuple[int, int]:
        """(m, n) of the matrices in the buffer *x*."""
        if x.ndim < 2 or x.shape[-1] % self.parts:
            raise GraphError(f"{what} of {x}")
        return x.shape[-2], x.shape[-1] // self.parts

    def order(self, x: Aval, what: str) -> int:
        m, n = self.shape(x, what)
        if m != n:
            raise GraphError(f"{what} of {x}")
        return n

    def cut(self, x: Any, *shapes: tuple[int, ...]) -> list[Any]:
        """Matrices of *shapes* that stand one after the other along the last axis of the buffer *x*."""
        found: list[Any] = []
        at, batch = 0, x.shape[:-1]
        for *rows, n in shapes:
            size, whole = math.prod(rows) * n * self.parts, (*batch, *rows, n * self.parts)
            if isinstance(x, Var):
                found.append(self.load(reshape(slice_axis(x, len(batch), at, size), whole)))
            else:
                found.append(self.array(x[..., at : at + size].reshape(whole)))
            at += size
        return found

    def joined(self, *xs: Atom) -> Atom:
        """The buffer of *xs*: the contrary of ``cut``."""
        stored = [self.store(x) for x in xs]
        flat = [reshape(x, (*x.aval.shape[:-2], math.prod(x.aval.shape[-2:]))) for x in stored]
        return concat(flat, flat[0].aval.ndim - 1)


REAL, COMPLEX = Field("", 1), Field("complex_", 2)


def by_numbers(row: Callable[[Field], Primitive]) -> Sequence[Primitive]:
    """The primitives for real and for complex matrices: ``row[x.aval.is_complex]``."""
    return [row(REAL), row(COMPLEX)]


def numbers_of(x: Atom) -> Field:
    return COMPLEX if x.aval.is_complex else REAL


def from_rows(x: Atom) -> Pair:
    """The complex matrices whose numbers' parts stand beside each other in rows."""
    *rows, n = x.aval.shape
    return complex_of(reshape(x, (*rows, n // 2, 2)), _OF_LANES[x.aval.dtype])
