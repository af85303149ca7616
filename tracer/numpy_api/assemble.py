"""New arrays from arrays: concatenate, stack, pad, tile, roll, where, zeros_like, triangles, differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.aval import BFLOAT16, INT
from ..ir.errors import BadIndexError, ShapeError, UnsupportedError
from ..ir.graph import Atom
from ..ops.elementwise import BROADCAST, F, bind, broadcast_to, cast, cast_with_warning, promote
from ..ops.indexing import gather
from ..ops.shape import PAD, concat, move_axis, reshape, slice_axis
from ..record.array import (
    FUNCTIONS,
    MAX_AXES,
    TracedArray,
    constant,
    in_c_order,
    is_traced,
    to_atom,
    wrap,
    wrap_array,
    wrap_as,
)
from ..record.stacked_rows import stack_of
from .registry import along_axis, atom_of, implements, into, one_axis, reject
from .shape import as_traced

# ---- joining ------------------------------------------------------------------------------------------------------


def _listed(arrays: Any, what: str) -> list[Any]:
    if isinstance(arrays, TracedArray):
        if not arrays.ndim:
            raise ShapeError.here(f"{what} needs a sequence of arrays")
        return list(arrays)
    return list(arrays)


def concatenate_atoms(atoms: Sequence[Atom], axis: int, what: str = "np.concatenate") -> Atom:
    """Join atoms of one rank along *axis*; dtypes are promoted."""
    joined = list(promote(*atoms))
    if not joined:
        raise ShapeError.here("need at least one array to concatenate")
    if any(not a.aval.ndim for a in joined):
        raise ShapeError.here(f"{what}: zero-dimensional arrays cannot be concatenated; use np.stack")
    axis = one_axis(axis, joined[0].aval.ndim, what)
    first = joined[0].aval.shape
    for a in joined:
        shape = a.aval.shape
        if len(shape) != len(first) or shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]:
            raise ShapeError.here(
                f"{what}: arrays of shapes {[a.aval.shape for a in joined]} do not fit: all sizes but that of axis "
                f"{axis} must be equal"
            )
    return concat(joined, axis)


def _finish(atom: Atom, dtype: Any, out: Any, parts: Sequence[Any]) -> Any:
    if dtype is not None:
        atom = cast_with_warning(atom, np.dtype(dtype))
    return into(wrap_array(atom, c_order=all(in_c_order(p) for p in parts)), out)


@implements(np.concatenate)
def _concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    parts = _listed(arrays, "np.concatenate")
    atoms = [atom_of(a) for a in parts]
    if axis is None:
        atoms, axis = [reshape(a, (a.aval.size,)) for a in atoms], 0
    return _finish(concatenate_atoms(atoms, axis), dtype, out, parts)


def stack_atoms(atoms: Sequence[Atom], axis: int = 0, what: str = "np.stack") -> Atom:
    """Join atoms of one shape along a new axis."""
    if not atoms:
        raise ShapeError.here(f"{what}: need at least one array to stack")
    shape = atoms[0].aval.shape
    if any(a.aval.shape != shape for a in atoms):
        raise ShapeError.here(f"{what}: all input arrays must have the same shape, not {[a.aval.shape for a in atoms]}")
    axis = one_axis(axis, len(shape) + 1, what)
    wide = (*shape[:axis], 1, *shape[axis:])
    return concatenate_atoms([reshape(a, wide) for a in promote(*atoms)], axis, what)


@implements(np.stack)
def _stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = _listed(arrays, "np.stack")
    found = stack_of(parts, atom_of)
    if found is not None:
        return _finish(move_axis(found, 0, one_axis(axis, found.aval.ndim, "np.stack")), dtype, out, parts)
    return _finish(stack_atoms([atom_of(a) for a in parts], axis), dtype, out, parts)


def nested_atom(value: Any, depth: int = 0) -> Atom:
    """np.array of nested lists that hold traced arrays, as an atom."""
    if not isinstance(value, (list, tuple)):
        return to_atom(value)
    if depth > MAX_AXES:
        raise ValueError(f"setting an array element with a sequence, which is nested in more than {MAX_AXES} others")
    found = _stacked(value, depth)
    if found is not None:
        return found
    atoms = [nested_atom(v, depth + 1) for v in value]
    if not any(a.aval.dtype == BFLOAT16 for a in atoms):  # Python numbers have a dtype of their own in a list
        atoms = [cast(a, a.aval.dtype) for a in atoms]
    return stack_atoms(promote(*atoms), 0, "array of traced values")


def _stacked(value: Sequence[Any], depth: int) -> Atom | None:
    """The array of *value*, where it holds rows of a stack, or lists of one length that do at some place; else None."""
    found = stack_of(value, to_atom)
    if found is not None or not value:
        return found
    if not all(isinstance(row, (list, tuple)) and len(row) == len(value[0]) for row in value):
        return None
    columns = list(zip(*value, strict=True))
    every = [_stacked(column, depth + 1) for column in columns]
    if all(x is None for x in every):
        return None
    atoms = [
        x if x is not None else constant(np.array(column)) if _are_plain(column) else nested_atom(column, depth + 1)
        for x, column in zip(every, columns, strict=True)
    ]
    return stack_atoms(promote(*atoms), 1, "array of traced values")


def _are_plain(numbers: Sequence[Any]) -> bool:
    return all(type(x) in (bool, int, float, complex) for x in numbers)


FUNCTIONS[np.array] = lambda value: wrap_array(nested_atom(value))  # reached from to_atom and tracegrad.array only


def _two_d(value: Any) -> Atom:
    atom = atom_of(value)
    return reshape(atom, (1, atom.aval.size)) if atom.aval.ndim < 2 else atom


@implements(np.vstack)
def _vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = _listed(tup, "np.vstack")
    return _finish(concatenate_atoms([_two_d(a) for a in parts], 0, "np.vstack"), dtype, None, parts)


if getattr(np, "row_stack", np.vstack) is not np.vstack:
    implements(np.row_stack)(_vstack)


@implements(np.hstack)
def _hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = _listed(tup, "np.hstack")
    atoms = [atom_of(a) for a in parts]
    atoms = [reshape(a, (1,)) if not a.aval.ndim else a for a in atoms]
    return _finish(concatenate_atoms(atoms, 0 if atoms[0].aval.ndim == 1 else 1, "np.hstack"), dtype, None, parts)


@implements(np.dstack)
def _dstack(tup: Any) -> Any:
    return _concatenate([np.atleast_3d(as_traced(a)) for a in _listed(tup, "np.dstack")], 2)


@implements(np.column_stack)
def _column_stack(tup: Any) -> Any:
    atoms = [atom_of(a) for a in _listed(tup, "np.column_stack")]
    return wrap(
        concatenate_atoms([reshape(a, (a.aval.size, 1)) if a.aval.ndim < 2 else a for a in atoms], 1, "np.column_stack")
    )


implements(np.append)(lambda arr, values, axis=None: _concatenate((arr, values), axis))


@implements(np.block)
def _block(arrays: Any) -> Any:
    def depth(value: Any) -> int:
        return 1 + max(depth(v) for v in value) if isinstance(value, list) else 0

    levels = depth(arrays)

    def ndim(value: Any) -> int:
        return max(ndim(v) for v in value) if isinstance(value, list) else np.ndim(value)

    def in_order(value: Any) -> bool:
        return all(in_order(v) for v in value) if isinstance(value, list) else in_c_order(value)

    rank = max(levels, ndim(arrays))

    def build(value: Any, level: int) -> Atom:
        if isinstance(value, list):
            return concatenate_atoms([build(v, level + 1) for v in value], rank - levels + level, "np.block")
        atom = atom_of(value)
        return reshape(atom, (*[1] * (rank - atom.aval.ndim), *atom.aval.shape))

    return wrap_array(build(arrays, 0), c_order=in_order(arrays))


# ---- repeating and moving -----------------------------------------------------------------------------------------


@implements(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    x = atom_of(a)
    if axis is None:
        return wrap(reshape(_rolled(reshape(x, (x.aval.size,)), int(shift), 0), x.aval.shape))
    pairs = np.broadcast(np.asarray(shift), np.asarray(axis))
    for amount, where in pairs:
        x = _rolled(x, int(amount), one_axis(int(where), x.aval.ndim, "np.roll"))
    return wrap(x)


def _rolled(x: Atom, shift: int, axis: int) -> Atom:
    size = x.aval.shape[axis]
    shift = shift % size if size else 0
    if not shift:
        return x
    return concat([slice_axis(x, axis, size - shift, shift), slice_axis(x, axis, 0, size - shift)], axis)


@implements(np.tile)
def _tile(A: Any, reps: Any) -> Any:
    x = atom_of(A)
    times = tuple(int(r) for r in reps) if isinstance(reps, (tuple, list, np.ndarray)) else (int(reps),)
    ndim = max(x.aval.ndim, len(times))
    shape = (*[1] * (ndim - x.aval.ndim), *x.aval.shape)
    times = (*[1] * (ndim - len(times)), *times)
    wide = bind(
        BROADCAST,
        reshape(x, shape),
        shape=tuple(n for pair in zip(times, shape, strict=True) for n in pair),
        dims=tuple(range(1, 2 * ndim, 2)),
    )
    tiled = reshape(wide, tuple(t * n for t, n in zip(times, shape, strict=True)))
    return wrap_array(tiled, c_order=in_c_order(A) or any(t != 1 for t in times))


@implements(np.repeat, method="repeat")
def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    x, axis = along_axis(a, axis, "np.repeat")
    if isinstance(repeats, TracedArray):
        raise UnsupportedError.here(
            "np.repeat with traced counts has a size that depends on data; pass the counts as plain integers"
        )
    counts = np.asarray(repeats)
    if counts.size == 1:
        shape, times = x.aval.shape, int(counts.reshape(()))
        wide = (*shape[: axis + 1], times, *shape[axis + 1 :])
        spread = bind(BROADCAST, x, shape=wide, dims=tuple(i if i <= axis else i + 1 for i in range(len(shape))))
        return wrap_array(reshape(spread, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :])))
    if counts.shape != (x.aval.shape[axis],):
        raise ShapeError.here(f"np.repeat: {counts.size} counts for an axis of size {x.aval.shape[axis]}")
    return wrap_array(take_positions(x, np.repeat(np.arange(x.aval.shape[axis]), counts), axis))


def take_positions(x: Atom, positions: np.ndarray, axis: int) -> Atom:
    """x at plain, valid, 1-D *positions* along *axis*."""
    found = gather(move_axis(x, axis, 0), to_atom(np.asarray(positions, INT)))
    return move_axis(found, 0, axis)


def _pairs(value: Any, ndim: int, what: str) -> list[tuple[Any, Any]]:
    """np.pad's ways of writing (before, after) for each axis."""
    if isinstance(value, dict):
        found = [(0, 0)] * ndim
        for axis, pair in value.items():
            found[one_axis(axis, ndim, "np.pad")] = (pair, pair) if isinstance(pair, (int, np.integer)) else tuple(pair)
        return found
    if not isinstance(value, (list, tuple, np.ndarray)) and not np.ndim(value):
        return [(value, value)] * ndim
    items = [list(i) if isinstance(i, TracedArray) and i.ndim else i for i in value]
    if len(items) == 1 and not isinstance(items[0], (list, tuple, np.ndarray)):
        return [(items[0], items[0])] * ndim
    if len(items) == 2 and not any(isinstance(i, (list, tuple, np.ndarray)) for i in items):
        return [(items[0], items[1])] * ndim
    pairs = [tuple(i) if len(i) == 2 else (i[0], i[0]) for i in items]
    if len(pairs) == 1:
        return pairs * ndim
    if len(pairs) != ndim:
        raise ShapeError.here(f"np.pad: {what} {value!r} does not fit an array of {ndim} dimensions")
    return pairs


@implements(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    x = atom_of(array)
    widths = [(int(a), int(b)) for a, b in _pairs(pad_width, x.aval.ndim, "pad_width")]
    if any(a < 0 or b < 0 for a, b in widths):
        raise ShapeError.here("np.pad: index can't contain negative values")
    if mode == "constant":
        values = _pairs(kwargs.pop("constant_values", 0), x.aval.ndim, "constant_values")
        reject("np.pad", "use constant_values", **kwargs)
        return wrap_array(_pad_constant(x, widths, values), c_order=in_c_order(array))
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise UnsupportedError.here(
            f"np.pad with mode={mode!r} is not supported; use constant, edge, reflect, symmetric or wrap, or "
            "np.concatenate"
        )
    reject(
        "np.pad",
        "concatenate the parts yourself",
        reflect_type=None if kwargs.pop("reflect_type", "even") == "even" else "odd",
        **kwargs,
    )
    for axis, (before, after) in enumerate(widths):
        size = x.aval.shape[axis]
        if not size and (before or after):
            raise ShapeError.here(f"np.pad: can't extend empty axis {axis} using modes other than 'constant'")
        if before or after:
            x = _pad_axis(x, axis, before, after, mode)
    return wrap_array(x, c_order=in_c_order(array))


def _pad_constant(x: Atom, widths: list[tuple[int, int]], values: list[tuple[Any, Any]]) -> Atom:
    if all(not isinstance(v, TracedArray) and v == 0 for pair in values for v in pair):
        shape = tuple(n + a + b for n, (a, b) in zip(x.aval.shape, widths, strict=True))
        start, step = tuple(a for a, _ in widths), (1,) * len(widths)
        return x if shape == x.aval.shape else bind(PAD, x, start=start, step=step, shape=shape)
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, values, strict=True)):
        parts = [x]
        for width, value, at in ((before, low, 0), (after, high, len(parts) + 1)):
            if width:
                edge = tuple(width if i == axis else n for i, n in enumerate(x.aval.shape))
                parts.insert(at, broadcast_to(cast(to_atom(value), x.aval.dtype), edge))
        x = concat(parts, axis)
    return x


def _pad_axis(x: Atom, axis: int, before: int, after: int, mode: Any) -> Atom:
    size = x.aval.shape[axis]
    source = np.pad(np.arange(size), (before, after), mode=mode)
    parts = [_run(x, axis, source[:before]), x, _run(x, axis, source[before + size :])]
    return concat([p for p in parts if p is not None], axis)


def _run(x: Atom, axis: int, positions: np.ndarray) -> Atom | None:
    """x at *positions*, as a slice where they are evenly spaced."""
    if not len(positions):
        return None
    steps = np.diff(positions)
    if len(positions) == 1 or (steps == steps[0]).all():
        step = int(steps[0]) if len(steps) else 1
        if step:
            return slice_axis(x, axis, int(positions[0]), len(positions), step)
        edge = slice_axis(x, axis, int(positions[0]), 1)
        shape = tuple(len(positions) if i == axis else n for i, n in enumerate(x.aval.shape))
        return bind(BROADCAST, edge, shape=shape, dims=tuple(range(x.aval.ndim)))
    return take_positions(x, positions, axis)


@implements(np.insert)
def _insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    x, axis = along_axis(arr, axis, "np.insert")
    if not isinstance(obj, (int, np.integer)):
        raise UnsupportedError.here("np.insert at several positions is not supported; use np.concatenate")
    size = x.aval.shape[axis]
    if not -size <= obj <= size:
        raise BadIndexError.here(f"index {obj} is out of bounds for axis {axis} with size {size}")
    at = int(obj) % size if obj < 0 else int(obj)
    v = cast(to_atom(values), x.aval.dtype)
    v = move_axis(reshape(v, (1,) * (x.aval.ndim - v.aval.ndim) + v.aval.shape), 0, axis)
    v = broadcast_to(v, tuple(v.aval.shape[i] if i == axis else n for i, n in enumerate(x.aval.shape)))
    return wrap(concat([slice_axis(x, axis, 0, at), v, slice_axis(x, axis, at, size - at)], axis))


@implements(np.delete)
def _delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    x, axis = along_axis(arr, axis, "np.delete")
    if is_traced(obj):
        raise UnsupportedError.here("np.delete at traced positions is not supported; use np.where or plain positions")
    kept = np.delete(np.arange(x.aval.shape[axis]), obj)
    return wrap(take_positions(x, kept, axis))


# ---- choosing -----------------------------------------------------------------------------------------------------


@implements(np.where)
def _where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None or y is None:
        if x is not None or y is not None:
            raise ShapeError.here("either both or neither of x and y should be given")
        return np.nonzero(condition)
    return wrap_as(F.select(atom_of(condition), *_branches(x, y)), condition, x, y)


def _branches(*values: Any) -> list[Atom]:
    """Branches of one dtype; Python scalars follow their partners."""
    atoms = list(promote(*[to_atom(v) for v in values]))
    return [cast(a, a.aval.dtype) if a.aval.weak else a for a in atoms]


@implements(np.select)
def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ShapeError.here("np.select: list of cases must be same length as list of conditions")
    branches = _branches(*choicelist, default)
    result = branches[-1]
    for condition, choice in zip(reversed(list(condlist)), reversed(branches[:-1]), strict=True):
        result = F.select(atom_of(condition), choice, result)
    return wrap(result)
