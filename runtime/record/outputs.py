"""What the user gets of a kernel's results: an expression over them, from which a function is made.

A result tree is flattened; its data become results of the graph, and what is no data (None, strings, settings) stands
in the expression as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from ...tracer.ir.aval import is_number
from ...tracer.ir.graph import Atom
from ...tracer.record.array import TracedArray, to_atom
from .trees import NAMESPACE, Source, make_function, packing


@dataclass(slots=True)
class Output:
    """What the user gets, as an expression over ``r``, the tuple of a kernel's results.  ``text`` None: the tuple as
    it is."""

    text: str | None
    names: dict[str, Any]
    single: bool  # one result, handed over bare
    statics: tuple[Any, ...]  # parts that are no data, compared when a recording is verified

    def function(self) -> Callable[[Sequence[Any]], Any]:
        source = Source()
        source.names = self.names
        source.lines = [f"return {'r[0]' if self.single else self.text or 'r'}"]
        return make_function("def assemble(r):", source)

    def simplify(self, results: int) -> None:
        """Spare the assembly where the *results* of the graph, that many, are what the user gets."""
        if results == 1 and self.text == "r[0]":
            self.text, self.single = None, True
        elif self.text == "(" + ", ".join([f"r[{k}]" for k in range(results)]) + ",)" and results:
            self.text = None


def packed(out: Any, source: Source, atoms: list[Atom]) -> tuple[str, tuple[Any, ...]]:
    """The expression for a result tree, whose data is appended to *atoms*; and its parts that are no data."""
    leaves, spec = optree.tree_flatten(out, none_is_leaf=True, namespace=NAMESPACE)
    texts, statics = [], []
    for leaf in leaves:
        if isinstance(leaf, TracedArray):
            texts.append(f"r[{len(atoms)}]")
            atoms.append(leaf.atom)
        elif isinstance(leaf, np.ndarray) and is_number(leaf.dtype):
            texts.append(f"r[{len(atoms)}]")
            atoms.append(to_atom(leaf))
        else:
            texts.append(source.constant(leaf))
            statics.append(leaf)
    return packing(source, spec, iter(texts)), (spec, *statics)


__all__ = ["Output", "packed"]
