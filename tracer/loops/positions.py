"""Positions in loops: integers that are whole multiples of the numbers of iterations, plus a constant.

Such a number has bounds in all iterations, so an index is known to be in bounds, and a comparison may be known to have
one answer, without a question in each iteration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from ..ir.graph import Atom, Lit, Node, Var

_SAME = frozenset({"reshape", "broadcast", "cast", "alias", "stop_gradient"})
_MOST_STEPS = 64  # nodes that are looked through for one position
_NONE: Mapping[Var, int] = MappingProxyType({})


class Affine(NamedTuple):
    """``offset`` and so many times each number."""

    offset: int
    slopes: Mapping[Var, int] = _NONE

    def plus(self, other: Affine, times: int = 1) -> Affine:
        slopes = dict(self.slopes)
        for var, slope in other.slopes.items():
            slopes[var] = slopes.get(var, 0) + times * slope
        return Affine(self.offset + times * other.offset, {var: slope for var, slope in slopes.items() if slope})

    def times(self, factor: int) -> Affine:
        return Affine(0).plus(self, factor)

    def at(self, var: Var, value: Affine) -> Affine:
        """The form with *value* in the place of *var*."""
        slope = self.slopes.get(var, 0)
        return self.plus(value, slope).plus(Affine(0, {var: slope}), -1) if slope else self

    @property
    def constant(self) -> int | None:
        return None if self.slopes else self.offset


class Counted(Protocol):
    """A loop whose iterations are numbered from 0 on by ``number``; it has ``length`` of them, if that is known."""

    number: Var
    length: Affine | None
    integers: Mapping[Any, tuple[int, int]]  # bounds of other integers


class Reader:
    """Reads forms off nodes: *known* are those of symbols, *maker* finds the node of a value."""

    def __init__(self, known: Callable[[Var], Affine | None], maker: Callable[[Var], Node | None]) -> None:
        self.known, self.maker = known, maker
        self.left = _MOST_STEPS

    def form(self, atom: Atom) -> Affine | None:
        if isinstance(atom, Lit):
            return Affine(int(atom.value)) if atom.aval.dtype.kind in "iu" else None
        if atom.aval.dtype.kind not in "iu" or atom.aval.size != 1:
            return None
        found = self.known(atom)
        node = self.maker(atom) if found is None and self.left else None
        if node is None:
            return found
        self.left -= 1
        return self._computed(node.prim.name, node.inputs)

    def _computed(self, name: str, inputs: Sequence[Atom]) -> Affine | None:
        parts: list[Any] = [self.form(x) for x in inputs]
        if not parts or None in parts:
            return None
        if name in _SAME:
            return parts[0]
        if name == "neg":
            return parts[0].times(-1)
        if name in ("add", "sub"):
            return parts[0].plus(parts[1], 1 if name == "add" else -1)
        if name == "mul":
            for a, b in (parts, parts[::-1]):
                if b.constant is not None:
                    return a.times(b.constant)
        return None


def is_of(form: Affine, loops: Sequence[Counted]) -> bool:
    """Whether *form* follows from the numbers of these *loops* alone, and no data is in it."""
    return form.slopes.keys() <= {loop.number for loop in loops}


def bounds(form: Affine, loops: Sequence[Counted]) -> tuple[int | None, int | None]:
    """(least, greatest) value of *form* in *loops*, the innermost last; None where there is no such bound."""
    return _extreme(form, loops, -1), _extreme(form, loops, 1)


def _extreme(form: Affine, loops: Sequence[Counted], sign: int) -> int | None:
    for loop in reversed(loops):
        slope = form.slopes.get(loop.number, 0) * sign
        if slope > 0 and loop.length is None:
            return None
        if slope:
            form = form.at(loop.number, Affine(0) if slope < 0 or loop.length is None else loop.length.plus(Affine(-1)))
    total = form.offset
    for var, slope in form.slopes.items():
        known = loops[-1].integers.get(var) if loops else None
        if known is None:
            return None
        total += slope * known[slope * sign > 0]
    return total


def is_within(form: Affine | None, size: int, loops: Sequence[Counted]) -> bool:
    """Whether *form* is a position among *size* in all iterations."""
    low, high = (None, None) if form is None else bounds(form, loops)
    return low is not None and high is not None and low >= 0 and high < size


def answer(name: str, left: Affine, right: Affine, loops: Sequence[Counted]) -> bool | None:
    """The answer that the comparison *name* gives in all iterations; None where that is not one answer, or not
    known."""
    low, high = bounds(left.plus(right, -1), loops)
    sure = {
        "lt": (high is not None and high < 0, low is not None and low >= 0),
        "le": (high is not None and high <= 0, low is not None and low > 0),
        "gt": (low is not None and low > 0, high is not None and high <= 0),
        "ge": (low is not None and low >= 0, high is not None and high < 0),
        "eq": (low == high == 0, (low is not None and low > 0) or (high is not None and high < 0)),
    }
    yes, no = sure["eq"][::-1] if name == "ne" else sure.get(name, (False, False))
    return True if yes else False if no else None


def answers_alike(name: str, first: int, slope: int) -> tuple[bool, int | None]:
    """(what the comparison of ``first + slope * t`` with 0 gives for t = 0, for how many t from there on it gives that;
    None: for all)"""
    if name in ("gt", "ge"):
        first, slope, name = -first, -slope, {"gt": "lt", "ge": "le"}[name]
    if name == "le":
        first, name = first - 1, "lt"
    if name == "lt":
        if first < 0:
            return True, None if slope <= 0 else -(first // slope)
        return False, None if slope >= 0 else first // -slope + 1
    if first == 0:
        return name == "eq", 1 if slope else None
    meets = slope and first % slope == 0 and -first // slope > 0
    return name == "ne", -first // slope if meets else None


COMPARISONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))
