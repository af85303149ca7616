"""Calls for several sizes: a program for each, recorded with it, of which a native function chooses one.

A free size would need a proof that the function's Python does the same for all sizes, and there is none: a shape is a
plain int while Python runs, so ``if len(x) > 100`` and ``range(len(x) // 2)`` leave nothing behind that could be looked
at.  So the sizes are listed, and others are an error.  Programs that differ in nothing but numbers share their code
(``codegen/lower/canonical.py``): another size of that kind is some hundred bytes more.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ...tracer.ir.errors import UnsupportedError
from ...tracer.ir.graph import Graph
from .fixed import FixedCall

Size: TypeAlias = int | str  # a length, or a sum like ``2*n - 1`` of a size that is given with a call


@dataclass(frozen=True, eq=False)
class SizedCall:
    """Calls for each of several sizes; *names*: those of the sizes.  They are of one kind: the same arguments and
    results, but for lengths of axes."""

    names: tuple[str, ...]
    calls: dict[tuple[int, ...], FixedCall]

    @property
    def first(self) -> FixedCall:
        return next(iter(self.calls.values()))

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def mode(self) -> str:
        return self.first.mode

    @property
    def plain_name(self) -> str:
        return self.first.plain_name

    @property
    def graph(self) -> Graph:
        return self.first.graph

    @property
    def missed(self) -> tuple[str, ...]:
        """A message for the number of each guard that may fail, which may stand for others with other sizes."""
        every = itertools.zip_longest(*[x.missed for x in self.calls.values()], fillvalue="")
        found = [{*messages} - {""} for messages in every]
        other = f"{self.name}: these values take another way through its branches than those that it was compiled with"
        return tuple([messages.pop() if len(messages) == 1 else other for messages in found])

    def shape(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Size, ...]:
        """The one shape that stands for *shapes*, one for each call, by names of the sizes."""
        return tuple([self._size(lengths) for lengths in zip(*shapes, strict=True)])

    def _size(self, lengths: Sequence[int]) -> Size:
        """A number, or a sum like ``2*n + m - 1``, that gives all of these *lengths*."""
        if len({*lengths}) == 1:
            return lengths[0]
        columns = [k for k, sizes in enumerate(zip(*self.calls, strict=True)) if len({*sizes}) > 1]
        table = np.array([[*[row[k] for k in columns], 1] for row in self.calls])
        factors = np.rint(np.linalg.lstsq(table.astype(float), np.array(lengths, float), rcond=None)[0]).astype(int)
        if not np.array_equal(table @ factors, lengths):
            raise UnsupportedError(
                f"{self.name}: an axis of an argument or a result has the lengths {[*lengths]} for the sizes "
                f"{[*self.calls]}, which is no sum of these"
            )
        *counts, start = factors.tolist()
        parts = [(x, self.names[k]) for x, k in zip(counts, columns, strict=True) if x]
        text = " + ".join([name if x == 1 else f"{x}*{name}" for x, name in parts])
        return f"{text} {'-' if start < 0 else '+'} {abs(start)}" if start else text

    @property
    def listing(self) -> str:
        """The sizes as text."""
        columns = zip(self.names, zip(*self.calls, strict=True), strict=True)
        return "; ".join([f"{name} = {', '.join(map(str, dict.fromkeys(sizes)))}" for name, sizes in columns])
