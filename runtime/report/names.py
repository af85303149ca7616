"""Names, lines and numbers of values in reports: in loops, decisions and memory they are those of the printed
program.

The kernel of a program has none of them: it may have been compiled for another function, with other sizes.  So the
layout that is shown is made of the recording that is looked at (``layout_of``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...codegen.cpu.assemble import lay_out
from ...codegen.cpu.program import ProgramLayout
from ...codegen.lower.canonical import ONE, Body, Canonical, Const, Sym
from ...codegen.lower.depth import recursion_for
from ...tracer.ir.graph import Graph, Var
from ...tracer.ir.refusals import Reason
from ...tracer.ir.site import Site
from ...tracer.ir.text import print_scalar, printed_names
from ...tracer.ops.control import split_body


def layout_of(canonical: Canonical, arguments: int) -> ProgramLayout:
    """Schedule and places of *canonical*: those of its kernel, with this recording's lines and numbers."""
    with recursion_for(canonical):
        return lay_out(canonical, arguments)


class ProgramNames:
    """Names for the values of one program, or of one body; what its text has no name for keeps its number."""

    def __init__(
        self,
        graph: Graph,
        canonical: Canonical,
        stops: bool = False,
        bodies: Mapping[int, Mapping[Var, str]] | None = None,
    ) -> None:
        letters: Mapping[Var, str]
        if bodies is None:
            letters, bodies = printed_names(graph)
        else:
            letters = bodies[id(graph)]
        self._bodies = bodies
        nodes = graph.nodes
        if stops:  # as its canonical form is numbered
            asking, working = split_body(graph)
            nodes = [*asking, *working]
        order = [*graph.inputs, *[v for v, _ in graph.consts], *[out for node in nodes for out in node.outs]]
        self.canonical = canonical
        self.letters = {k: letters[var] for k, var in enumerate(order)}
        self.sites: dict[str, Site] = {}
        for op in canonical.ops:
            if op.site is not None:
                self.sites.update({self(out): op.site for out in op.outs})

    def body(self, body: Body, stops: bool) -> ProgramNames:
        """The names in the body of a loop of this program."""
        return ProgramNames(body.graph, body.program, stops, self._bodies)

    def __call__(self, x: Any) -> str:
        """The name of a value, or a constant as it is."""
        if isinstance(x, Const):
            return print_scalar(self.constant(x))
        return self.letters.get(x.number, f"v{x.number}")

    def constant(self, x: Const) -> Any:
        if x.slot is None:
            return x.value
        return np.frombuffer(self.canonical.consts[x.slot :].tobytes()[: x.dtype.itemsize], x.dtype)[0]

    def size(self, dim: int) -> int:
        return int(self.canonical.sizes[dim])

    def axis(self, dim: int) -> str:
        """The extent of a loop: its size, with the name of the axis where it is no part of the kernel."""
        if dim in self.canonical.static:
            return f"{self.size(dim)} (unrolled)"
        return f"n{dim}={self.size(dim)}"

    def nbytes(self, x: Sym, dims: Sequence[int] | None = None) -> int:
        """The bytes of *x*, or of its axes *dims*."""
        return x.dtype.itemsize * int(np.prod([self.size(d) for d in (x.dims if dims is None else dims) if d != ONE]))

    def text(self, text: str) -> str:
        """*text*, in which values and axes have numbers, in these names."""
        text = _VALUE.sub(lambda m: self.letters.get(int(m[1]), m[0]), text)
        return _AXIS.sub(self._extent, text)

    def note(self, note: str | Reason) -> str:
        """A decision in these names, with the line of the value that it is about."""
        text = self.text(str(note))
        named = (self.letters.get(int(number), "") for number in _VALUE.findall(str(note)))
        site = next((self.sites[name] for name in named if name in self.sites), None)
        return text if site is None or _SITE.search(text) else f"{text}   # {site}"

    def _extent(self, match: re.Match[str]) -> str:
        dim = int(match[1])
        return f"{match[0]}={self.size(dim)}" if dim < len(self.canonical.sizes) else match[0]


_SITE = re.compile(r" at \S+:\d+ in ")
_VALUE = re.compile(r"\bv(\d+)\b")
_AXIS = re.compile(r"\bn(\d+)\b(?!=)")
