"""Result trees: an expression over a kernel's results, from which a function is made.

A result tree is flattened; its data become results of the graph, and other leaves (None, strings, settings) stand in
the expression as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tracer.ir.aval import is_number
from ...tracer.ir.graph import Atom
from ...tracer.ir.trees import tree_flatten
from ...tracer.record.array import TracedArray, to_atom
from ...tracer.record.integers import TracedInt
from .trees import Source, make_function, packing


@dataclass(slots=True)
class Output:
    """The user's result, as an expression over ``r``, the tuple of a kernel's results.  ``text`` None: the tuple as
    it is."""

    text: str | None
    names: dict[str, Any]
    single: bool  # one result, handed over bare
    statics: tuple[Any, ...]  # parts that are no data, compared when a recording is verified
    twin: Output | None = None  # of a gradient that with the value, of both the gradient alone

    def function(self) -> Callable[[Sequence[Any]], Any]:
        source = Source()
        source.names = self.names
        source.lines = [f"return {'r[0]' if self.single else self.text or 'r'}"]
        return make_function("def assemble(r):", source)

    def simplify(self, results: int) -> None:
        """Drop the expression where it is the tuple of all *results* (a count) of the graph, or the only one."""
        if results == 1 and self.text == "r[0]":
            self.text, self.single = None, True
        elif self.text == "(" + ", ".join([f"r[{k}]" for k in range(results)]) + ",)" and results:
            self.text = None
        if self.twin is not None:
            self.twin.simplify(results)


def data_of(leaf: Any) -> tuple[Atom, str] | None:
    """(the datum of a leaf, the form of its expression over a result); None where it is no data."""
    if type(leaf) is TracedInt:
        leaf = leaf.array()
    if isinstance(leaf, TracedArray):
        number = leaf.aval.weak and leaf.aval.dtype.kind in "ib"  # an int of Python's
        return leaf.atom, "{}.item()" if number else "{}"
    if isinstance(leaf, np.ndarray) and is_number(leaf.dtype):
        return to_atom(leaf), "{}"
    return None


def packed(
    out: Any, source: Source, atoms: list[Atom], places: dict[int, int] | None = None,
    data: Callable[[Any], tuple[Atom, str] | None] = data_of,
) -> tuple[str, tuple[Any, ...]]:  # fmt: skip
    """The expression for a result tree, whose *data* is appended to *atoms*; and its parts that are no data.  *places*
    gets the index of each such leaf, by id."""
    leaves, spec = tree_flatten(out, none_is_leaf=True)
    texts, statics = [], []
    for leaf in leaves:
        found = data(leaf)
        if found is None:
            texts.append(source.constant(leaf))
            statics.append(leaf)
            continue
        atom, form = found
        texts.append(form.format(f"r[{len(atoms)}]"))
        if places is not None:
            places.setdefault(id(leaf.array() if type(leaf) is TracedInt else leaf), len(atoms))
        atoms.append(atom)
    return packing(source, spec, iter(texts)), (spec, *statics)


__all__ = ["Output", "data_of", "packed"]
