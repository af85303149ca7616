"""Buffers and views of traced arrays.

A *storage* holds the newest value of a buffer as an IR atom.  A *view* is a storage and a chain of steps.  Each step
can be applied (read through it) and put (write through it), so that a write through a view reaches its base and, by
the storage's version number, every other view of it, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.errors import MutationError
from ..ir.graph import Atom, Pair, bind
from ..ops.complex import buffer_of, complex_of
from ..ops.elementwise import broadcast_to, whole_lanes
from ..ops.indexing import SCATTER_SET, gather
from ..ops.shape import UPDATE, reshape, take_slice, transpose

Ints = tuple[int, ...]


class Storage:
    """A buffer's newest value.

    ``owner`` names a buffer that the caller can see, which must not be written.  ``c_order`` says that NumPy's array is
    known to be C-contiguous (so that reshapes of it are views); ``array0d`` that a 0-d value is an array and not
    a NumPy scalar (which ``+=`` would replace instead of writing into).
    """

    __slots__ = ("array0d", "atom", "born", "c_order", "home", "owner", "version")

    def __init__(
        self, atom: Atom, owner: str | None = None, *, c_order: bool = False, array0d: bool = False, home: Any = None
    ):
        self.home = home  # the recording in which the buffer was made: the body of a loop must not write into others
        self.born = 0 if home is None else home.iterations  # before which marked iterations it was made
        self.atom = atom
        self.owner = owner
        self.version = 0
        self.c_order = c_order
        self.array0d = array0d


class SliceStep:
    """Basic indexing: a strided slice, then a reshape that drops integer axes and inserts new ones."""

    __slots__ = ("inner", "shape", "start", "step")

    def __init__(self, start: Ints, step: Ints, inner: Ints, shape: Ints):
        self.start, self.step, self.inner, self.shape = start, step, inner, shape

    def apply(self, x: Atom) -> Atom:
        return reshape(take_slice(x, self.start, self.step, self.inner), self.shape)

    def view(self, x: np.ndarray) -> np.ndarray:
        ends = [first + step * n for first, step, n in zip(self.start, self.step, self.inner, strict=True)]
        index = [slice(a, b if b >= 0 else None, c) for a, b, c in zip(self.start, ends, self.step, strict=True)]
        return x[tuple(index)].reshape(self.shape)

    def put(self, x: Atom, v: Atom) -> Atom:
        value = broadcast_to(reshape(v, self.inner) if v.aval.shape else v, self.inner)
        if x.aval.shape == self.inner and all(s == 1 for s in self.step):
            return value
        return bind(UPDATE, broadcast_to(x, x.aval.shape), value, start=self.start, step=self.step)

    def contiguous(self, before: Ints) -> bool:
        """The selected elements lie in one run: whole trailing axes, step 1, after leading single elements."""
        free = [a for a, n in enumerate(self.inner) if n != 1]
        first = free[0] if free else len(before)
        straight = all(s == 1 or n == 1 for s, n in zip(self.step, self.inner, strict=True))
        return straight and self.inner[first + 1 :] == before[first + 1 :]


class ReshapeStep:
    __slots__ = ("before", "shape")

    def __init__(self, before: Ints, shape: Ints):
        self.before, self.shape = before, shape

    def apply(self, x: Atom) -> Atom:
        return reshape(x, self.shape)

    def view(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(self.shape)

    def put(self, x: Atom, v: Atom) -> Atom:
        return reshape(v, self.before)

    def contiguous(self, before: Ints) -> bool:
        return True


class TransposeStep:
    __slots__ = ("perm",)

    def __init__(self, perm: Ints):
        self.perm = perm

    def apply(self, x: Atom) -> Atom:
        return transpose(x, self.perm)

    def view(self, x: np.ndarray) -> np.ndarray:
        return x.transpose(self.perm)

    def put(self, x: Atom, v: Atom) -> Atom:
        return transpose(v, tuple(int(p) for p in np.argsort(self.perm)))

    def contiguous(self, before: Ints) -> bool:
        moved = [p for p in self.perm if before[p] != 1]
        return moved == sorted(moved)


class PickStep:
    """One element along *axis*, at a position that is itself a traced integer (0-d, in bounds)."""

    __slots__ = ("axis", "position")

    def __init__(self, axis: int, position: Atom):
        self.axis, self.position = axis, position

    def _perm(self, ndim: int) -> Ints:
        return (self.axis, *(a for a in range(ndim) if a != self.axis))

    def apply(self, x: Atom) -> Atom:
        moved = transpose(x, self._perm(x.aval.ndim))
        return reshape(gather(moved, reshape(self.position, (1,))), moved.aval.shape[1:])

    def put(self, x: Atom, v: Atom) -> Atom:
        perm = self._perm(x.aval.ndim)
        moved = transpose(x, perm)
        row = (1, *moved.aval.shape[1:])
        written = bind(SCATTER_SET, moved, reshape(self.position, (1,)), broadcast_to(reshape(v, row), row))
        return transpose(written, tuple(int(p) for p in np.argsort(perm)))

    def contiguous(self, before: Ints) -> bool:
        return self.axis == 0


class ReadOnlyStep:
    """A view that NumPy does not let anyone write through (broadcast_to, diagonal)."""

    __slots__ = ("read", "what")

    def __init__(self, what: str, read: Callable[[Atom], Atom]):
        self.what, self.read = what, read

    def apply(self, x: Atom) -> Atom:
        return self.read(x)

    def put(self, x: Atom, v: Atom) -> Atom:
        raise MutationError.here(f"{self.what} gives a read-only view; write into a copy of it: y = y.copy()")

    def contiguous(self, before: Ints) -> bool:
        return False


class LaneStep:
    """The real (0) or imaginary (1) lane of complex numbers."""

    __slots__ = ("lane",)

    def __init__(self, lane: int):
        self.lane = lane

    def apply(self, x: Atom) -> Atom:
        return whole_lanes(x)[self.lane]

    def put(self, x: Atom, v: Atom) -> Atom:
        value = broadcast_to(v, x.aval.shape) if x.aval.shape else v
        re, im = [value if k == self.lane else lane for k, lane in enumerate(whole_lanes(x))]
        return Pair(re, im, x.aval.dtype)

    def contiguous(self, before: Ints) -> bool:
        return False


class BufferStep:
    """The lanes of complex numbers side by side, as numbers of the memory in which they lie."""

    __slots__ = ()

    def apply(self, x: Atom) -> Atom:
        return reshape(buffer_of(x), (*x.aval.shape[:-1], 2 * x.aval.shape[-1]))

    def put(self, x: Atom, v: Atom) -> Atom:
        return complex_of(reshape(v, (*x.aval.shape, 2)), x.aval.dtype)

    def contiguous(self, before: Ints) -> bool:
        return True


class PairsStep:
    """Numbers in twos, as complex numbers of *dtype*: the inverse of a ``BufferStep``."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype

    def apply(self, x: Atom) -> Atom:
        return complex_of(reshape(x, (*x.aval.shape[:-1], x.aval.shape[-1] // 2, 2)), self.dtype)

    def put(self, x: Atom, v: Atom) -> Atom:
        return reshape(buffer_of(v), x.aval.shape)

    def contiguous(self, before: Ints) -> bool:
        return True


ViewStep = SliceStep | ReshapeStep | TransposeStep | PickStep | ReadOnlyStep | LaneStep | BufferStep | PairsStep
