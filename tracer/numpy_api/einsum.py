"""einsum: contractions of operands whose axes have names.

Two operands at a time, each pair as a batch of matrix products, a product with a vector, or a product and a sum.

"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.aval import BOOL, INT
from ..ir.errors import ShapeError
from ..ir.graph import Atom
from ..ops.elementwise import BROADCAST, F, cast, promote, to_bool
from ..ops.product import contract_last, matmul
from ..ops.reduce import reduce
from ..ops.shape import bind, reshape, take_slice, transpose
from ..record.array import wrap
from ..record.autocast import lowered
from .registry import atom_of, implements, into, reject

# ---- einsum -------------------------------------------------------------------------------------------------------


def contract_pair(x: Atom, names_x: Sequence[Any], y: Atom, names_y: Sequence[Any], keep: Sequence[Any]) -> Atom:
    """Multiply two operands whose axes are named, and sum over the names that are not in *keep*; axes in the order of
    *keep*."""
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
        return reshape(
            moved, (*sized(batch), *[math.prod(sized(group)) for group in groups if group or len(groups) > 1])
        )

    if not batch and not (free_x and free_y):  # a product with a vector
        if free_y:
            rows, vector, free = flat(y, names_y, free_y, summed), flat(x, names_x, summed), free_y
        else:
            rows = flat(x, names_x, free_x, summed) if free_x else flat(x, names_x, summed)
            vector, free = flat(y, names_y, summed), free_x
        return _ordered(reshape(contract_last(rows, vector), sized(free)), free, keep)
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
        raise ShapeError.here(f"np.einsum: {len(terms)} terms in {subscripts!r} for {len(ranks)} operands")
    hidden = max(
        (rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term),
        default=0,
    )
    operands = []
    for term, rank in zip(terms, ranks, strict=True):
        names = list(term.replace("...", ""))
        if "..." in term:
            count = rank - len(names)
            at = term.index("...")
            names[at:at] = [f".{i}" for i in range(hidden - count, hidden)]
        if len(names) != rank or not all(n.isalpha() or (n[0] == "." and len(n) > 1) for n in names):
            raise ShapeError.here(
                f"np.einsum: the term {term!r} of {subscripts!r} does not fit an operand of {rank} dimensions"
            )
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
        raise ShapeError.here(
            f"np.einsum: output {right!r} of {subscripts!r} names an axis twice or one that no operand has"
        )
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
def _einsum(
    *operands: Any, optimize: Any = False, dtype: Any = None, out: Any = None, order: str = "K", casting: str = "safe"
) -> Any:
    reject("np.einsum", "convert the operands before", dtype=dtype)
    subscripts, arrays = (operands[0], list(operands[1:])) if isinstance(operands[0], str) else _from_sublists(operands)
    atoms = list(promote(*lowered([atom_of(a) for a in arrays])))
    logical = atoms[0].aval.dtype == BOOL
    if logical:
        atoms = [cast(a, INT) for a in atoms]
    named, output = parse_einsum(subscripts, [a.aval.ndim for a in atoms])
    sizes = _sizes(subscripts, atoms, named)
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


def _sizes(subscripts: str, atoms: list[Atom], named: list[list[str]]) -> dict[str, int]:
    """The sizes of the axes, by name."""
    sizes: dict[str, int] = {}
    for atom, names in zip(atoms, named, strict=True):
        for name, size in zip(names, atom.aval.shape, strict=True):
            if sizes.setdefault(name, size) != size and 1 not in (size, sizes[name]):
                raise ShapeError.here(f"np.einsum: axis {name!r} of {subscripts!r} has sizes {sizes[name]} and {size}")
            sizes[name] = max(size, sizes[name]) if size and sizes[name] else 0
    return sizes


def _stretched(x: Atom, names: list[str], sizes: dict[str, int]) -> Atom:
    shape = tuple(sizes[n] for n in names)
    return x if x.aval.shape == shape else bind(BROADCAST, x, shape=shape, dims=tuple(range(len(shape))))


def _contraction_order(subscripts: str, work: list[tuple[Atom, list[str]]], count: int) -> list[tuple[int, ...]]:
    """Positions of the operands to contract in each step: a cheap order where there are three or more."""
    if count == 1:
        return []
    if count == 2:
        return [(0, 1)]
    in_turn: list[tuple[int, ...]] = [(0, 1), *((count - 1 - k, 0) for k in range(1, count - 1))]
    stand_ins = [np.broadcast_to(np.float64(0), x.aval.shape) for x, _ in work]
    if (
        any("..." in part for part in subscripts.split(","))
        or any(len(set(n)) != len(n) for _, n in work)
        or len(stand_ins) != count
    ):
        return in_turn
    try:
        path, _ = np.einsum_path(subscripts, *stand_ins, optimize="greedy")
    except ValueError:  # diagonals have been taken already
        return in_turn
    return [tuple(step) for step in path[1:]]
