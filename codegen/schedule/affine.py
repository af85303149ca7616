"""Affine index expressions: the position in an operand that an iteration reads.

An ``Index`` is affine, ``constant + sum(coefficient * term)``, in canonical form, so that equal positions are equal
objects: the shift of a pad cancels the shift of a slice.  Terms are loop variables ``("i", depth)``, sizes ``("s",
dim)``, and values computed by the program ``("v", sym, indices)`` (a gather).
"""

from __future__ import annotations

from typing import Any

from ...tracer.ir.data_classes import NamedTuple

Term = tuple[Any, ...]


class Index(NamedTuple):
    const: int
    terms: frozenset[tuple[Term, int]]

    def __repr__(self) -> str:
        parts = [f"{'' if c == 1 else c}{''.join(map(str, t))}" for t, c in sorted(self.terms, key=repr)]
        return "+".join([*parts, *([str(self.const)] if self.const or not parts else [])])


def constant(value: int) -> Index:
    return Index(value, frozenset())


def term(t: Term) -> Index:
    return Index(0, frozenset({(t, 1)}))


ZERO = constant(0)


def loop_var(depth: int) -> Index:
    return term(("i", depth))


def start_index(start: Any) -> Index:
    """A slice's start: a small int, or a size."""
    return constant(start) if isinstance(start, int) else term(start)


def add(a: Index, b: Index, scale: int = 1) -> Index:
    """a + scale * b"""
    if not b.terms:
        return Index(a.const + scale * b.const, a.terms)
    total = dict(a.terms)
    for t, c in b.terms:
        c = total.get(t, 0) + scale * c
        if c:
            total[t] = c
        else:
            del total[t]
    return Index(a.const + scale * b.const, frozenset(total.items()))


def scale(a: Index, factor: int) -> Index:
    return Index(a.const * factor, frozenset((t, c * factor) for t, c in a.terms))


def divide(a: Index, divisor: int) -> Index | None:
    """a / divisor where that is exact for every value of the terms, else None."""
    if a.const % divisor or any(c % divisor for _, c in a.terms):
        return None
    return Index(a.const // divisor, frozenset((t, c // divisor) for t, c in a.terms))


def depends_on(a: Index) -> int:
    """One more than the deepest loop whose variable *a* uses (0: none)."""
    depth = 0
    for t, _ in a.terms:
        if t[0] == "i":
            depth = max(depth, t[1] + 1)
        elif t[0] == "v":
            depth = max([depth, *(depends_on(i) for i in t[2])])
        elif t[0] == "d":
            depth = max(depth, depends_on(t[1]))
    return depth
