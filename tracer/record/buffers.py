"""Buffers and views of traced arrays.

A *storage* holds the newest value of a buffer as an IR atom.  A *view* is a storage and a chain of steps.  Each step
can be applied (read through it) and put (write through it), so that a write through a view reaches its base and, by
the storage's version number, every other view of it, as in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir.aval import INT
from ..ir.errors import MutationError
from ..ir.graph import Atom, Lit, Pair, Var, bind, current_builder
from ..ops.complex import buffer_of, complex_of
from ..ops.elementwise import F, broadcast_to, cast, whole_lanes
from ..ops.indexing import SCATTER_SET, gather
from ..ops.shape import UPDATE, iota, reshape, take_slice, transpose

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
        self.born = 0 if home is None else home.loops.iterations  # before which marked iterations it was made
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


class Spot(NamedTuple):
    """A read or a write of *x* at one position along each of some axes.  ``value``: what was written.  ``inner``: the
    values on the way."""

    x: Atom
    axes: Ints
    positions: tuple[Atom, ...]
    value: Atom | None
    inner: tuple[Atom, ...]


class PickStep:
    """One element along each of *axes*, at positions that are themselves traced integers (0-d, in bounds), or known."""

    __slots__ = ("axes", "positions")

    def __init__(self, axes: Ints, positions: tuple[Atom, ...]):
        self.axes, self.positions = axes, positions

    def _perm(self, ndim: int) -> Ints:
        return (*self.axes, *(a for a in range(ndim) if a not in self.axes))

    def _flat(self, x: Atom) -> tuple[Atom, Atom, Atom]:
        """(*x* with the axes in front, with these as one, the position there)"""
        moved = transpose(x, self._perm(x.aval.ndim))
        shape, count = moved.aval.shape, len(self.axes)
        place: Atom = self.positions[0]
        for size, position in zip(shape[1:count], self.positions[1:], strict=True):
            place = F.add(F.mul(place, Lit(size, INT)), position)
        place = broadcast_to(place, (1,)) if isinstance(place, Lit) else reshape(place, (1,))
        return moved, reshape(moved, (math.prod(shape[:count]), *shape[count:])), place

    def apply(self, x: Atom) -> Atom:
        moved, flat, place = self._flat(x)
        found = gather(flat, place)
        result = reshape(found, flat.aval.shape[1:])
        _note(result, Spot(x, self.axes, self.positions, None, (moved, flat, found)))
        return result

    def put(self, x: Atom, v: Atom) -> Atom:
        moved, flat, place = self._flat(x)
        row = (1, *flat.aval.shape[1:])
        value = broadcast_to(reshape(v, row), row)
        written = bind(SCATTER_SET, flat, place, value)
        back = reshape(written, moved.aval.shape)
        result = transpose(back, tuple(int(p) for p in np.argsort(self._perm(x.aval.ndim))))
        _note(result, Spot(x, self.axes, self.positions, value, (moved, flat, written, back)))
        return result

    def view(self, x: np.ndarray) -> np.ndarray:
        """The same of a plain array, at known positions."""
        index: list[Any] = [slice(None)] * x.ndim
        for axis, position in zip(self.axes, self.positions, strict=True):
            assert isinstance(position, Lit)
            index[axis] = int(position.value)
        return x[tuple(index)]

    def contiguous(self, before: Ints) -> bool:
        return self.axes == tuple(range(len(self.axes)))


class WindowStep:
    """A slice that moves: so many elements along *axis*, *stride* apart, from the position *first* on, which is itself
    a traced integer; all are in bounds.  *places*: their positions."""

    __slots__ = ("axis", "first", "places", "stride")

    def __init__(self, axis: int, first: Atom, places: Atom, stride: int):
        self.axis, self.first, self.places, self.stride = axis, first, places, stride

    @classmethod
    def of(cls, axis: int, first: Atom, count: int, stride: int) -> WindowStep:
        numbers = iota(count) if stride == 1 else F.mul(iota(count), Lit(stride, INT))
        return cls(axis, first, F.add(numbers, cast(first, INT)), stride)

    def _perm(self, ndim: int) -> Ints:
        return (self.axis, *(a for a in range(ndim) if a != self.axis))

    def apply(self, x: Atom) -> Atom:
        perm = self._perm(x.aval.ndim)
        return transpose(gather(transpose(x, perm), self.places), _inverse(perm))

    def put(self, x: Atom, v: Atom) -> Atom:
        perm, shape = self._perm(x.aval.ndim), list(x.aval.shape)
        shape[self.axis] = self.places.aval.shape[0]
        value = transpose(broadcast_to(v, tuple(shape)), perm)
        return transpose(bind(SCATTER_SET, transpose(x, perm), self.places, value), _inverse(perm))

    def at(self, first: Atom, shape: Ints) -> SliceStep | WindowStep:
        """The same of an array of this *shape*, from another position on."""
        count = self.places.aval.shape[0]
        if not isinstance(first, Lit):
            return WindowStep.of(self.axis, first, count, self.stride)
        along = [a == self.axis for a in range(len(shape))]
        inner = tuple([count if here else n for here, n in zip(along, shape, strict=True)])
        start = tuple([int(first.value) * here for here in along])
        return SliceStep(start, tuple([self.stride if here and count > 1 else 1 for here in along]), inner, inner)

    def contiguous(self, before: Ints) -> bool:
        return self.stride == 1 and all(n == 1 for n in before[: self.axis])


def _inverse(perm: Ints) -> Ints:
    return tuple([int(p) for p in np.argsort(perm)])


def positions_of(step: ViewStep) -> tuple[Atom, ...]:
    """The traced positions of a step."""
    return step.positions if isinstance(step, PickStep) else (step.first,) if isinstance(step, WindowStep) else ()


def moved(step: ViewStep, positions: Sequence[Atom], shape: Ints) -> ViewStep:
    """The same step of an array of this *shape*, at other positions."""
    if isinstance(step, PickStep):
        return PickStep(step.axes, tuple(positions))
    return step.at(positions[0], shape) if isinstance(step, WindowStep) else step


def put_through(steps: Sequence[tuple[ViewStep, Ints]], whole: Atom, value: Atom) -> Atom:
    """The array *whole* with *value* written through a chain of steps."""
    atoms = [whole]
    for step, _ in steps[:-1]:
        atoms.append(step.apply(atoms[-1]))
    for (step, _), parent in zip(reversed(steps), reversed(atoms), strict=False):
        value = step.put(parent, value)
    return value


def _note(result: Atom, spot: Spot) -> None:
    """Let the recording know that *result* is *spot*, of which a loop may want to know."""
    loops = getattr(current_builder(), "loops", None)
    if loops is not None and isinstance(result, Var):
        loops.spots[result] = spot


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


ViewStep = (
    SliceStep | ReshapeStep | TransposeStep | PickStep | WindowStep | ReadOnlyStep | LaneStep | BufferStep | PairsStep
)
