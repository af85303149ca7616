"""Products: matmul, dot, tensordot, einsum, outer, kron, cross.

Everything comes down to ``matmul`` of equal batch dims, or, where an operand is a vector, to a multiplication and a sum, which fuse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .array import METHODS, UFUNCS, TracedArray, to_atom, wrap
from .aval import BOOL, INT, broadcast_shapes, canonical_axes
from .errors import ShapeError, UnsupportedError
from .ir import Atom
from .npapi_base import atom_of, implements, into, one_axis, reject
from .ops.elementwise import BROADCAST, F, broadcast_to, cast, promote, to_bool
from .ops.product import contract_last, matmul
from .ops.reduce import reduce
from .ops.shape import bind, concat, reshape, slice_axis, take_slice, transpose
from .site import at_site

Ints = tuple[int, ...]


def _mismatch(what: str, x: Ints, y: Ints) -> ShapeError:
    return ShapeError(at_site(f"{what}: shapes {x} and {y} do not fit: the summed axes have different sizes; transpose one of them, e.g. with .T"))


def _product_operands(x: Atom, y: Atom) -> tuple[Atom, Atom, bool]:
    """Operands of one dtype; bools are multiplied as integers and turned back (the third result)."""
    x, y = promote(x, y)
    if x.aval.dtype == BOOL:
        return cast(x, INT), cast(y, INT), True
    return x, y, False


def _swap_last(x: Atom) -> Atom:
    n = x.aval.ndim
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def matmul_of(x: Atom, y: Atom, what: str = "matmul") -> Atom:
    """x @ y for all ranks, as in NumPy."""
    x, y, logical = _product_operands(x, y)
    shape_x, shape_y = x.aval.shape, y.aval.shape
    if not shape_x or not shape_y:
        raise ShapeError(at_site(f"{what}: an operand has no dimensions; use * for products with a number"))
    if shape_x[-1] != shape_y[-2 if len(shape_y) > 1 else 0]:
        raise _mismatch(what, shape_x, shape_y)
    result = _matmul(x, y)
    return to_bool(result) if logical else result


def _matmul(x: Atom, y: Atom) -> Atom:
    shape_x, shape_y = x.aval.shape, y.aval.shape
    if len(shape_y) == 1:
        return contract_last(x, y)
    if len(shape_x) == 1:
        return contract_last(_swap_last(y), x)
    if len(shape_x) == 2 and len(shape_y) == 2:
        return matmul(x, y)
    if len(shape_y) == 2:  # the batch dims of x are rows
        rows = math.prod(shape_x[:-1])
        return reshape(matmul(reshape(x, (rows, shape_x[-1])), y), (*shape_x[:-1], shape_y[-1]))
    batch = broadcast_shapes(shape_x[:-2], shape_y[:-2], what="batch dimensions of matmul")
    return matmul(broadcast_to(x, (*batch, *shape_x[-2:])), broadcast_to(y, (*batch, *shape_y[-2:])))


UFUNCS[np.matmul] = matmul_of


def _vecdot(x: Atom, y: Atom) -> Atom:
    x, y, logical = _product_operands(x, y)
    if not x.aval.ndim or not y.aval.ndim or x.aval.shape[-1] != y.aval.shape[-1]:
        raise _mismatch("np.vecdot", x.aval.shape, y.aval.shape)
    product = F.mul(x, y)
    result = reduce("sum", product, (product.aval.ndim - 1,))
    return to_bool(result) if logical else result


def _matvec(x: Atom, y: Atom) -> Atom:
    return _vecdot(x, reshape(y, (*y.aval.shape[:-1], 1, y.aval.shape[-1])))


if hasattr(np, "vecdot"):
    UFUNCS[np.vecdot] = _vecdot
if hasattr(np, "matvec"):
    UFUNCS[np.matvec] = _matvec
    UFUNCS[np.vecmat] = lambda x, y: _matvec(_swap_last(y), x)


@implements(np.dot, method="dot")
def _dot(a: Any, b: Any, out: Any = None) -> Any:
    return into(wrap(dot_of(to_atom(a), to_atom(b))), out)


def dot_of(x: Atom, y: Atom) -> Atom:
    """np.dot: a product with a number, a matmul, or a sum over the last axis of x and the last but one of y."""
    if not x.aval.ndim or not y.aval.ndim:
        return UFUNCS[np.multiply](x, y)
    if x.aval.ndim <= 2 and y.aval.ndim <= 2:
        return matmul_of(x, y, "dot")
    axis = max(y.aval.ndim - 2, 0)
    return tensordot_of(x, y, (x.aval.ndim - 1,), (axis,), "dot")


@implements(np.vdot)
def _vdot(a: Any, b: Any) -> Any:
    x, y = to_atom(a), to_atom(b)
    return wrap(matmul_of(reshape(x, (x.aval.size,)), reshape(y, (y.aval.size,)), "vdot"))


@implements(np.inner)
def _inner(a: Any, b: Any) -> Any:
    x, y = to_atom(a), to_atom(b)
    if not x.aval.ndim or not y.aval.ndim:
        return wrap(UFUNCS[np.multiply](x, y))
    return wrap(tensordot_of(x, y, (x.aval.ndim - 1,), (y.aval.ndim - 1,), "inner"))


@implements(np.outer)
def _outer(a: Any, b: Any, out: Any = None) -> Any:
    x, y = to_atom(a), to_atom(b)
    return into(wrap(UFUNCS[np.multiply](reshape(x, (x.aval.size, 1)), reshape(y, (1, y.aval.size)))), out)


def tensordot_of(x: Atom, y: Atom, axes_x: Ints, axes_y: Ints, what: str) -> Atom:
    """Sum over axes_x of x and axes_y of y, pairwise."""
    x, y, logical = _product_operands(x, y)
    if len(axes_x) != len(axes_y) or any(x.aval.shape[i] != y.aval.shape[j] for i, j in zip(axes_x, axes_y, strict=True)):
        raise _mismatch(what, x.aval.shape, y.aval.shape)
    free_x = [a for a in range(x.aval.ndim) if a not in axes_x]
    free_y = [a for a in range(y.aval.ndim) if a not in axes_y]
    letters = iter(range(x.aval.ndim + y.aval.ndim))
    names_x, names_y = [0] * x.aval.ndim, [0] * y.aval.ndim
    for i, j in zip(axes_x, axes_y, strict=True):
        names_x[i] = names_y[j] = next(letters)
    for i in free_x:
        names_x[i] = next(letters)
    for j in free_y:
        names_y[j] = next(letters)
    result = contract_pair(x, names_x, y, names_y, [*(names_x[i] for i in free_x), *(names_y[j] for j in free_y)])
    return to_bool(result) if logical else result


@implements(np.tensordot)
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = to_atom(a), to_atom(b)
    if isinstance(axes, (int, np.integer)):
        pair: tuple[Any, Any] = (list(range(x.aval.ndim - int(axes), x.aval.ndim)), list(range(int(axes))))
    else:
        pair = axes
    left, right = ([v] if isinstance(v, (int, np.integer)) else list(v) for v in pair)
    axes_x = tuple(one_axis(i, x.aval.ndim, "np.tensordot") for i in left)
    axes_y = tuple(one_axis(i, y.aval.ndim, "np.tensordot") for i in right)
    return wrap(tensordot_of(x, y, axes_x, axes_y, "tensordot"))


@implements(np.kron)
def _kron(a: Any, b: Any) -> Any:
    x, y = to_atom(a), to_atom(b)
    ndim = max(x.aval.ndim, y.aval.ndim)
    shape_x = (*[1] * (ndim - x.aval.ndim), *x.aval.shape)
    shape_y = (*[1] * (ndim - y.aval.ndim), *y.aval.shape)
    wide_x = reshape(x, tuple(n for d in shape_x for n in (d, 1)))
    wide_y = reshape(y, tuple(n for d in shape_y for n in (1, d)))
    return wrap(reshape(UFUNCS[np.multiply](wide_x, wide_y), tuple(m * n for m, n in zip(shape_x, shape_y, strict=True))))


@implements(np.cross)
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promote(atom_of(a), atom_of(b))
    x = _move_last(x, one_axis(axisa, x.aval.ndim, "np.cross"))
    y = _move_last(y, one_axis(axisb, y.aval.ndim, "np.cross"))
    dims = x.aval.shape[-1], y.aval.shape[-1]
    if not set(dims) <= {2, 3}:
        raise ShapeError(at_site(f"np.cross: incompatible dimensions for cross product (dimension must be 2 or 3), not {dims}"))

    def part(v: Atom, i: int) -> Atom | None:
        return None if i >= v.aval.shape[-1] else reshape(slice_axis(v, v.aval.ndim - 1, i, 1), v.aval.shape[:-1])

    def minus(i: int, j: int) -> Atom:
        left, right = _times(part(x, i), part(y, j)), _times(part(x, j), part(y, i))
        return F.neg(right) if left is None else left if right is None else F.sub(left, right)

    if dims == (2, 2):
        return wrap(minus(0, 1))
    parts = [minus(1, 2), minus(2, 0), minus(0, 1)]
    joined = concat([reshape(p, (*p.aval.shape, 1)) for p in parts], parts[0].aval.ndim)
    back = one_axis(axisc, joined.aval.ndim, "np.cross")
    order = list(range(joined.aval.ndim - 1))
    order.insert(back, joined.aval.ndim - 1)
    return wrap(transpose(joined, tuple(order)))


def _times(x: Atom | None, y: Atom | None) -> Atom | None:
    return None if x is None or y is None else F.mul(x, y)


def _move_last(x: Atom, axis: int) -> Atom:
    return transpose(x, (*(a for a in range(x.aval.ndim) if a != axis), axis))


@implements(np.linalg.multi_dot)
def _multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    result = to_atom(arrays[0])
    for other in arrays[1:]:
        result = dot_of(result, to_atom(other))
    return into(wrap(result), out)


@implements(np.linalg.matrix_power)
def _matrix_power(a: Any, n: int) -> Any:
    if n < 1:
        raise UnsupportedError(at_site("np.linalg.matrix_power of a traced matrix needs n >= 1"))
    result, square = None, to_atom(a)
    while n:
        if n & 1:
            result = square if result is None else matmul_of(result, square)
        n >>= 1
        square = matmul_of(square, square) if n else square
    assert result is not None
    return wrap(result)


# ---- einsum -------------------------------------------------------------------------------------------------------


def contract_pair(x: Atom, names_x: Sequence[Any], y: Atom, names_y: Sequence[Any], keep: Sequence[Any]) -> Atom:
    """Multiply two operands whose axes are named, and sum over the names that are not in *keep*; axes in the order of *keep*."""
    x, names_x = _sum_out(x, names_x, {*keep, *names_y})
    y, names_y = _sum_out(y, names_y, {*keep, *names_x})
    sizes = dict(zip(names_x, x.aval.shape, strict=True)) | dict(zip(names_y, y.aval.shape, strict=True))
    shared = [n for n in names_x if n in names_y]
    batch = [n for n in keep if n in shared]
    summed = [n for n in shared if n not in keep]
    free_x = [n for n in keep if n in names_x and n not in shared]
    free_y = [n for n in keep if n in names_y and n not in shared]
    if not summed or (batch and not (free_x and free_y)):
        order = [*keep, *summed]
        product = F.mul(_spread(x, names_x, order), _spread(y, names_y, order))
        return reduce("sum", product, tuple(range(len(keep), len(order)))) if summed else product

    def sized(names: Sequence[Any]) -> tuple[int, ...]:
        return tuple(sizes[n] for n in names)

    def flat(v: Atom, names: Sequence[Any], *groups: Sequence[Any]) -> Atom:
        moved = transpose(v, tuple(list(names).index(n) for group in (batch, *groups) for n in group))
        return reshape(moved, (*sized(batch), *[math.prod(sized(group)) for group in groups if group or len(groups) > 1]))

    if not batch and not free_y:
        return _ordered(reshape(contract_last(flat(x, names_x, free_x, summed) if free_x else flat(x, names_x, summed), flat(y, names_y, summed)), sized(free_x)), free_x, keep)
    if not batch and not free_x:
        return _ordered(reshape(contract_last(flat(y, names_y, free_y, summed), flat(x, names_x, summed)), sized(free_y)), free_y, keep)
    # as stored, where that is already one of the two orders that BLAS takes
    ta = list(names_x) == [*batch, *summed, *free_x]
    tb = list(names_y) == [*batch, *free_y, *summed]
    left = flat(x, names_x, summed, free_x) if ta else flat(x, names_x, free_x, summed)
    right = flat(y, names_y, free_y, summed) if tb else flat(y, names_y, summed, free_y)
    result = reshape(matmul(left, right, ta, tb), sized([*batch, *free_x, *free_y]))
    return _ordered(result, [*batch, *free_x, *free_y], keep)


def _sum_out(x: Atom, names: Sequence[Any], wanted: set[Any]) -> tuple[Atom, list[Any]]:
    gone = tuple(i for i, n in enumerate(names) if n not in wanted)
    return reduce("sum", x, gone), [n for n in names if n in wanted]


def _ordered(x: Atom, names: Sequence[Any], order: Sequence[Any]) -> Atom:
    return transpose(x, tuple(list(names).index(n) for n in order))


def _spread(x: Atom, names: Sequence[Any], order: Sequence[Any]) -> Atom:
    """*x* with its axes in the order of *order*, size 1 where it has none."""
    moved = _ordered(x, names, [n for n in order if n in names])
    sizes = dict(zip(names, x.aval.shape, strict=True))
    return reshape(moved, tuple(sizes.get(n, 1) for n in order))


def _diagonals(x: Atom, names: list[Any]) -> tuple[Atom, list[Any]]:
    """Repeated names of one operand select a diagonal."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            i = names.index(name)
            j = names.index(name, i + 1)
            size = x.aval.shape[i]
            rest = [a for a in range(x.aval.ndim) if a not in (i, j)]
            moved = transpose(x, (*rest, i, j))
            lead = tuple(x.aval.shape[a] for a in rest)
            flat = reshape(moved, (*lead, size * size))
            steps = (*[1] * len(lead), size + 1)
            x = take_slice(flat, (0,) * flat.aval.ndim, steps, (*lead, size))
            names = [*(names[a] for a in rest), name]
    return x, names


def parse_einsum(subscripts: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """Axis names of each operand and of the result; the axes of an ellipsis get names of their own."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ShapeError(at_site(f"np.einsum: {len(terms)} terms in {subscripts!r} for {len(ranks)} operands"))
    hidden = max((rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term), default=0)
    operands = []
    for term, rank in zip(terms, ranks, strict=True):
        names = list(term.replace("...", ""))
        if "..." in term:
            count = rank - len(names)
            at = term.index("...")
            names[at:at] = [f".{i}" for i in range(hidden - count, hidden)]
        if len(names) != rank or not all(n.isalpha() or n[0] == "." and len(n) > 1 for n in names):
            raise ShapeError(at_site(f"np.einsum: the term {term!r} of {subscripts!r} does not fit an operand of {rank} dimensions"))
        operands.append(names)
    dots = [f".{i}" for i in range(hidden)]
    if arrow:
        at = right.find("...")
        output = list(right.replace("...", ""))
        if at >= 0:
            output[at:at] = dots
    else:
        every = [n for names in operands for n in names]
        output = dots + sorted(n for n in set(every) if not n.startswith(".") and every.count(n) == 1)
    unknown = [n for n in output if not any(n in names for names in operands)]
    if unknown or len(set(output)) != len(output):
        raise ShapeError(at_site(f"np.einsum: output {right!r} of {subscripts!r} names an axis twice or one that no operand has"))
    return operands, output


def _from_sublists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """einsum(x, [0, 1], y, [1, 2], [0, 2]) in the form with letters."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def spelled(sublist: Any) -> str:
        return "".join("..." if i is Ellipsis else letters[int(i)] for i in sublist)

    pairs = len(operands) // 2
    text = ",".join(spelled(operands[2 * k + 1]) for k in range(pairs))
    if len(operands) % 2:
        text += "->" + spelled(operands[-1])
    return text, [operands[2 * k] for k in range(pairs)]


@implements(np.einsum)
def _einsum(*operands: Any, optimize: Any = False, dtype: Any = None, out: Any = None, order: str = "K", casting: str = "safe") -> Any:
    reject("np.einsum", "convert the operands before", dtype=dtype)
    subscripts, arrays = (operands[0], list(operands[1:])) if isinstance(operands[0], str) else _from_sublists(operands)
    atoms = list(promote(*[atom_of(a) for a in arrays]))
    logical = atoms[0].aval.dtype == BOOL
    if logical:
        atoms = [cast(a, INT) for a in atoms]
    named, output = parse_einsum(subscripts, [a.aval.ndim for a in atoms])
    sizes: dict[str, int] = {}
    for atom, names in zip(atoms, named, strict=True):
        for name, size in zip(names, atom.aval.shape, strict=True):
            if sizes.setdefault(name, size) != size and 1 not in (size, sizes[name]):
                raise ShapeError(at_site(f"np.einsum: axis {name!r} of {subscripts!r} has sizes {sizes[name]} and {size}"))
            sizes[name] = max(size, sizes[name]) if size and sizes[name] else 0
    work = [_diagonals(_stretched(a, names, sizes), names) for a, names in zip(atoms, named, strict=True)]
    for group in _contraction_order(subscripts, work, len(atoms)):
        chosen = [work[i] for i in group]
        work = [w for i, w in enumerate(work) if i not in group]
        needed = {*output, *(n for _, names in work for n in names)}
        x, names = chosen[0]
        for k, (y, names_y) in enumerate(chosen[1:], 2):
            later = {n for _, more in chosen[k:] for n in more}
            kept = [n for n in dict.fromkeys([*names, *names_y]) if n in needed or n in later]
            if not work and k == len(chosen):
                kept = output
            x, names = contract_pair(x, names, y, names_y, kept), kept
        work.append((x, list(names)))
    x, names = work[0]
    x, names = _sum_out(x, names, set(output))
    result = _ordered(x, names, output)
    return into(wrap(to_bool(result) if logical else result), out)


def _stretched(x: Atom, names: list[str], sizes: dict[str, int]) -> Atom:
    shape = tuple(sizes[n] for n in names)
    return x if x.aval.shape == shape else bind(BROADCAST, x, shape=shape, dims=tuple(range(len(shape))))


def _contraction_order(subscripts: str, work: list[tuple[Atom, list[str]]], count: int) -> list[tuple[int, ...]]:
    """Which operands to contract together, step by step: a cheap order where there are three or more."""
    if count == 1:
        return []
    if count == 2:
        return [(0, 1)]
    stand_ins = [np.broadcast_to(np.float64(0), x.aval.shape) for x, _ in work]
    if any("..." in part for part in subscripts.split(",")) or any(len(set(n)) != len(n) for _, n in work) or len(stand_ins) != count:
        return [(0, 1)] + [(count - 1 - k, 0) for k in range(1, count - 1)]
    try:
        path, _ = np.einsum_path(subscripts, *stand_ins, optimize="greedy")
    except ValueError:  # diagonals have been taken already
        return [(0, 1)] + [(count - 1 - k, 0) for k in range(1, count - 1)]
    return [tuple(step) for step in path[1:]]


__all__ = ["METHODS", "TracedArray", "canonical_axes", "matmul_of"]
