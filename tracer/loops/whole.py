"""Values of all iterations at once, where they depend on no earlier iteration: operations on whole arrays, which have
the iterations along axis 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir.axes import stacked_params
from ..ir.graph import Atom, Lit, Node, Pair, Var, bind, current_builder
from ..ir.primitive import ELEMENTWISE, REDUCE
from ..ops.elementwise import BROADCAST
from ..ops.indexing import GATHER
from ..ops.shape import CONCAT, RESHAPE, SLICE, TRANSPOSE

_MOVED = frozenset((RESHAPE, BROADCAST, TRANSPOSE, SLICE, CONCAT))  # views whose params say all
MOST_ELEMENTS = 2**24  # of a value in all iterations


class AllIterations:
    """The values of *length* iterations of a body, whose nodes *makers* are.  *rows* gives the array of a value that
    the loop steps through, one of those *stepped*, and None for others.  *carried*: those that are carried."""

    def __init__(
        self, length: int, makers: Mapping[Var, Node], rows: Callable[[Var], Atom | None], carried: set[Var],
        stepped: set[Var],
    ):  # fmt: skip
        self.length, self.makers, self.rows, self.carried, self.stepped = length, makers, rows, carried, stepped
        self.known: dict[Var, Atom | None] = {}

    def possible(self, atom: Atom) -> bool:
        """Whether *atom* can be had of all iterations at once."""
        seen: set[Atom] = set()
        stack = [atom]
        while stack:
            x = stack.pop()
            if x in seen or isinstance(x, Lit):
                continue
            seen.add(x)
            if isinstance(x, Pair) or x in self.carried:
                return False
            node = self.makers.get(x)
            if node is not None:
                if not self._batched(node) or self.length * x.aval.size > MOST_ELEMENTS:
                    return False
                stack += node.inputs
        return True

    def _batched(self, node: Node) -> bool:
        if node.prim is GATHER:
            x = node.inputs[0]
            return x not in self.makers and x not in self.stepped
        return node.prim.kind in (ELEMENTWISE, REDUCE) or node.prim in _MOVED

    def of(self, atom: Atom) -> tuple[Atom, bool]:
        """(*atom* in all iterations, by nodes of the builder in force; whether it has an axis for them)"""
        for var in self._in_order(atom):
            node = self.makers[var]
            self.known[var] = self._made(node)
        return self._operand(atom)

    def _in_order(self, atom: Atom) -> list[Var]:
        """The values to be made for *atom*."""
        order: list[Var] = []
        stack: list[tuple[Atom, bool]] = [(atom, False)]
        seen: set[Atom] = set()
        while stack:
            x, done = stack.pop()
            if done:
                assert isinstance(x, Var)
                order.append(x)
            elif isinstance(x, Var) and x in self.makers and x not in self.known and x not in seen:
                seen.add(x)
                stack.append((x, True))
                stack += [(y, False) for y in self.makers[x].inputs]
        return order

    def _operand(self, x: Atom) -> tuple[Atom, bool]:
        if isinstance(x, Lit):
            return x, False
        found = self.known.get(x)
        if found is None:
            found = self.known[x] = self.rows(x)
        return (x, False) if found is None else (found, True)

    def _made(self, node: Node) -> Atom:
        operands = [self._operand(x) for x in node.inputs]
        builder, length, shape = current_builder(), self.length, (self.length, *node.out.aval.shape)
        if not any(stacked for _, stacked in operands):
            same = builder.emit(node.prim, tuple([x for x, _ in operands]), node.params)[0]
            return bind(BROADCAST, same, shape=shape, dims=tuple(range(1, len(shape))))
        if node.prim is GATHER:
            return builder.emit(GATHER, tuple([x for x, _ in operands]), node.params)[0]
        given: list[Atom] = []
        for (x, stacked), inner in zip(operands, node.inputs, strict=True):
            if node.prim.kind == ELEMENTWISE and isinstance(x, Lit):
                given.append(x)
                continue
            rank = inner.aval.ndim
            target = shape if node.prim.kind == ELEMENTWISE else (length, *inner.aval.shape)
            if x.aval.shape != target:
                first = 0 if stacked else len(target) - rank
                dims = (0, *range(len(target) - rank, len(target))) if stacked else tuple(range(first, len(target)))
                x = bind(BROADCAST, x, shape=target, dims=dims)
            given.append(x)
        return builder.emit(node.prim, tuple(given), stacked_params(node.params, length))[0]
