"""Taint analysis of cotangents that may hold exact zeros or infinities, and so are multiplied by ``mulz``.

Exact zeros come from what an operation leaves out (``masking``), infinities from singular points.  A sum of shares is
free of exact zeros where one of the shares is, or where the slices that the shares belong to cover the whole array:
``y[0]`` and ``y[1]`` of a pair leave nothing out together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...tracer.ir.data_classes import NamedTuple
from ...tracer.ir.graph import Node, Var
from ...tracer.ops.shape import python_slices

MAX_COVERED = 4096  # elements up to which the slices of an array are looked at


class Doubt(NamedTuple):
    """Special values that a cotangent may hold."""

    zeros: bool
    infinite: bool

    def __bool__(self) -> bool:
        return self.zeros or self.infinite

    def also(self, other: Doubt) -> Doubt:
        return Doubt(self.zeros or other.zeros, self.infinite or other.infinite)


NONE, ZEROS, EVERY = Doubt(False, False), Doubt(True, False), Doubt(True, True)


class Care:
    """Doubts of the cotangents of one adjoint, from the shares that add up to each."""

    def __init__(self) -> None:
        self._seen: set[Var] = set()
        self._infinite: set[Var] = set()
        self._full: set[Var] = set()  # a share without exact zeros
        self._covered: dict[Var, np.ndarray] = {}  # elements that some slice has given a share

    def add(self, var: Var, doubt: Doubt) -> None:
        """Note a share of the cotangent of *var*."""
        self._seen.add(var)
        if doubt.infinite:
            self._infinite.add(var)
        if not doubt.zeros:
            self._full.add(var)

    def pass_on(self, node: Node, var: Var) -> None:
        """Note the share that *node* gives its operand *var*."""
        zeros, infinite = self.of(node.outs)
        if node.prim.name == "slice" and not zeros and var.aval.size <= MAX_COVERED:
            mask = self._covered.setdefault(var, np.zeros(var.aval.shape, bool))
            mask[python_slices(node.params["start"], node.params["step"], node.params["shape"])] = True
        self.add(var, Doubt(zeros or node.prim.masking, infinite or node.prim.singular))

    def of(self, outs: Sequence[Var]) -> Doubt:
        """The joint doubt of the cotangents of *outs*."""
        zeros = any(o in self._seen and o not in self._full and not self._whole(o) for o in outs)
        return Doubt(zeros, any(o in self._infinite for o in outs))

    def _whole(self, var: Var) -> bool:
        return var in self._covered and bool(self._covered[var].all())
