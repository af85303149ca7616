"""Long expressions in pieces: which inlined values are stored so that no root becomes too long.

A root evaluates all that is inlined into it, so a sum of a thousand arrays would be one loop that reads a thousand
arrays, and each root at the end of a long scalar computation would evaluate all of that computation again.  A
heuristic: what is stored has the same bits.
"""

from __future__ import annotations

from collections.abc import Collection

from ...tracer.ir.primitive import ELEMENTWISE, VIEW
from ..lower.canonical import Canonical, Sym
from .dependences import is_call

MAX_ARRAYS = 24  # arrays streamed by one innermost loop; what it makes itself is at hand
MAX_SCALARS = 192  # values without axes that one root evaluates
MAX_PARTS = 16  # of a concatenation that is evaluated within another one
MAX_VALUES = 512  # values with axes that one root evaluates, and twice as many in one loop: LLVM takes more than twice
# as long for twice as many
MANY_FLOPS = 160  # of a value: evaluating it again costs far more than storing it

# In a program of more than MANY values, with axes or without, these take the places of MAX_SCALARS, MAX_VALUES and
# MANY_FLOPS: roots that overlap would evaluate several hundred each, only to be cut once they have been placed.
MANY = 2048
FEW_SCALARS, FEW_VALUES, FEW_FLOPS = 32, 96, 20


def cuts(program: Canonical, stored: Collection[Sym], most_scalars: int | None = MAX_SCALARS) -> set[Sym]:
    """Values that are to be stored, beside those that are *stored*, so that no root reads more than ``MAX_ARRAYS``
    arrays by elementwise operations alone, or evaluates more than ``MAX_VALUES`` values, and more than *most_scalars*
    without axes."""
    scalar = sum(not op.out.wide for op in program.ops)
    if most_scalars is not None and scalar > MANY:
        most_scalars = min(most_scalars, FEW_SCALARS)
    many = len(program.ops) - scalar > MANY
    apart = _read_apart(program, stored, FEW_FLOPS) if many else set()
    stored = apart.union(stored)
    arrays, values = _Pieces(MAX_ARRAYS, stored), _Pieces(FEW_VALUES if many else MAX_VALUES, stored)
    scalars = _Pieces(most_scalars, stored) if most_scalars is not None else None
    for op in program.ops:
        if is_call(op) or op.prim.kind not in (ELEMENTWISE, VIEW):
            continue
        wide = [x for x in op.ins if isinstance(x, Sym) and x.wide]
        if op.prim.kind == VIEW:
            values.add(op.out, [x for x in wide if x in values.parts], itself=True, view=True)
        elif op.out.wide:
            arrays.add(op.out, wide)
            values.add(op.out, [x for x in wide if x in values.parts], itself=True)
        elif scalars is not None:
            scalars.add(op.out, [x for x in op.ins if isinstance(x, Sym) and x in scalars.parts], itself=True)
    found = arrays.cut | values.cut | (scalars.cut if scalars is not None else set())
    return found | apart | _read_apart(program, found.union(stored))


def _is_long(program: Canonical, x: Sym) -> bool:
    """Whether *x* is put together from many parts."""
    op = program.producers.get(x)
    return op is not None and op.prim.name == "concat" and len(op.ins) > MAX_PARTS


def _read_apart(program: Canonical, stored: Collection[Sym], flops_of_many: int = MANY_FLOPS) -> set[Sym]:
    """Values of many operations that are read at several places, as the steps of a wave are: each root would find its
    way through all the steps before it, at ever more places."""
    places: dict[Sym, set[Sym | None]] = {}  # by value: the views of it, and None for other readers
    for op in program.ops:
        for x in op.ins:
            if isinstance(x, Sym):
                places.setdefault(x, set()).add(op.out if op.prim.kind == VIEW else None)
    cut: set[Sym] = set()
    flops: dict[Sym, int] = {}
    for op in program.ops:
        if op.prim.name == "concat":
            cut.update([x for x in op.ins if isinstance(x, Sym) and x not in stored and _is_long(program, x)])
        if op.prim.kind not in (ELEMENTWISE, VIEW) or op.out in stored:
            continue
        own = op.prim.cost if op.prim.kind == ELEMENTWISE else 0
        found = own + sum([flops.get(x, 0) for x in op.ins if isinstance(x, Sym)])
        works = own or op.prim.name in ("concat", "update")
        apart = works and op.out.wide and len(places.get(op.out, ())) > 1
        if apart and found > flops_of_many:
            cut.add(op.out)
        else:
            flops[op.out] = min(found, flops_of_many + 1)
    return cut


class _Pieces:
    """Expressions by the values that they consist of, at most so many."""

    def __init__(self, most: int, stored: Collection[Sym]) -> None:
        self.most, self.stored = most, stored
        self.parts: dict[Sym, frozenset[Sym]] = {}  # of each value that is inlined; others are a part themselves
        self.cut: set[Sym] = set()
        self.source: dict[Sym, Sym] = {}  # of views, by one of which is cut what it is a view of

    def add(self, x: Sym, operands: list[Sym], itself: bool = False, view: bool = False) -> None:
        """*x*, which is made of *operands*, a *view* of them or not.  *itself*: whether it is a part, too, as all that
        it consists of."""
        made = self._of(operands, itself)
        while len(made) > self.most:
            longest = max(operands, key=lambda y: len(self.parts.get(y, ())))
            if len(self.parts.get(longest, ())) < 2:
                break
            while longest in self.source and longest in self.parts:
                self.parts[longest] = frozenset([longest])
                longest = self.source[longest]
            self.cut.add(longest)
            self.parts.pop(longest, None)
            made = self._of(operands, itself)
        if view and len(operands) == 1:
            self.source[x] = operands[0]
        if x not in self.stored:
            self.parts[x] = made | {x} if itself else made

    def _of(self, operands: list[Sym], itself: bool) -> frozenset[Sym]:
        apart: frozenset[Sym] = frozenset() if itself else frozenset([y for y in operands if y not in self.parts])
        return apart.union(*[self.parts[y] for y in operands if y in self.parts])
