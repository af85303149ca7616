"""Functions of Python's, and values with a derivative of their own, for many rows at once.

A function that runs on arrays between kernels (``tracer/ops/host_call.py``) is called for one row after the other,
within one call.  A derivative rule is one of rows: it is run on values that stand for one row, and what it appends is
batched in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from ...tracer.ir.aval import Aval
from ...tracer.ir.data_classes import dataclass
from ...tracer.ir.graph import Atom, Builder, Lit, Node, Var, building, current_builder
from ...tracer.ir.primitive import PRIMITIVES
from ...tracer.ops.custom import custom_vjp
from ...tracer.ops.reduce import reduce
from ...tracer.ops.shape import reshape, slice_axis, zeros
from .batched_rows import StackedRows, in_front


def custom_rows(node: Node, rows: StackedRows) -> Sequence[Atom]:
    count = node.params["count"]
    values, operands = node.inputs[:count], node.inputs[count:]
    given: Any = [rows.whole(v) for v in values]
    pull, push = (node.params[name] for name in ("rule", "push"))
    pull = None if pull is None else RowsRule.of(pull, node.outs, operands, rows)
    push = None if push is None else RowsPush.of(push, node.outs, operands, rows)
    return custom_vjp(given, [_known(x, rows) for x in operands], pull, push)


def _known(x: Atom, rows: StackedRows) -> Atom:
    found = rows.of(x)
    return rows.one(x) if found is None else found


@dataclass(eq=False, slots=True)
class RowsRule:
    """The derivative ``rule`` of one row, as one of all rows at once.

    ``values`` and ``operands`` are avals of one row; ``differ`` says which operands have rows.  Cotangents of the
    others are sums over the rows.  A rule that is a program (``closed``) appends to a builder of its own, one of
    Python's to the recording."""

    rule: Any
    values: tuple[Aval, ...]
    operands: tuple[Aval, ...]
    differ: tuple[bool, ...]
    size: int
    rows: StackedRows

    @classmethod
    def of(cls, rule: Any, values: Sequence[Atom], operands: Sequence[Atom], rows: StackedRows) -> Self:
        kinds, given = tuple([x.aval for x in values]), tuple([x.aval for x in operands])
        return cls(rule, kinds, given, tuple(rows.differ(operands)), rows.size, rows)

    @property
    def closed(self) -> bool:
        return getattr(self.rule, "closed", False)

    def _key(self) -> tuple[Any, ...]:
        return (self.rule, self.values, self.operands, self.differ, self.size)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._key())

    def __call__(self, cotangents: Sequence[Atom | None], outs: Sequence[Var], given: Sequence[Atom]) -> list[Any]:
        inside = self.rows.within({}, {}, None)
        every = [True] * len(self.values)
        rates = self._row(cotangents, self.values, every, inside)
        inner = self._row(given, self.operands, self.differ, inside)
        found = self._entered(lambda: self.rule(rates, self._row(outs, self.values, every, inside), inner), inside)

        def whole(ct: Atom | None, differs: bool) -> Atom | None:
            if ct is None:
                return None
            stacked = inside.whole(ct)
            return stacked if differs else reduce("sum", stacked, (0,))

        def later(ct: Callable[[], Atom | None], differs: bool) -> Callable[[], Atom | None]:
            return lambda: whole(self._entered(ct, inside), differs)

        return [later(ct, d) if callable(ct) else whole(ct, d) for ct, d in zip(found, self.differ, strict=False)]

    def _row(self, xs: Sequence[Atom | None], avals: Any, differ: Sequence[bool], inside: StackedRows) -> list[Any]:
        """Values that stand for one row of each of *xs*, of *avals*, that has rows."""
        one = _stand_in if self.closed else _one_row
        triples = zip(xs, avals, differ, strict=False)
        return [one(x, aval, inside) if differs and x is not None else x for x, aval, differs in triples]

    def _entered(self, rule: Callable[[], Any], inside: StackedRows) -> Any:
        """The result of *rule*, whose nodes become those of all rows."""
        if self.closed:
            with building(Builder()) as aside:
                found = rule()
            inside.enter(aside.nodes, anew=True)
            return found
        builder = current_builder()
        start = len(builder.nodes)
        found = rule()
        inside.enter(builder.nodes[start:])
        return found


class RowsPush(RowsRule):
    """As ``RowsRule``, from tangents of the operands to those of the values."""

    __slots__ = ()

    def __call__(self, tangents: Sequence[Atom | None], outs: Sequence[Var], given: Sequence[Atom]) -> list[Any]:
        inside = self.rows.within({}, {}, None)
        rates = self._row(tangents, self.operands, self.differ, inside)
        inner = self._row(given, self.operands, self.differ, inside)
        values = self._row(outs, self.values, [True] * len(self.values), inside)
        found = self._entered(lambda: self.rule(rates, values, inner), inside)
        return [None if t is None else inside.whole(t) for t in found]


def _stand_in(xs: Atom, aval: Aval, inside: StackedRows) -> Var:
    """A value that stands for one of the rows *xs*, and is computed nowhere."""
    var = Var(Aval(aval.dtype, aval.shape))
    inside.stacked[var] = in_front(xs, inside.size) if isinstance(xs, Lit) else xs
    return var


def _one_row(xs: Atom, aval: Aval, inside: StackedRows) -> Var:
    """A value that stands for one of the rows *xs*: the first, under a name of its own."""
    if isinstance(xs, Lit):
        xs = in_front(xs, inside.size)
    first = reshape(slice_axis(xs, 0, 0, 1), aval.shape) if inside.size else zeros(aval.shape, aval.dtype)
    builder = current_builder()
    var = Var(Aval(aval.dtype, aval.shape))
    builder.append(Node(PRIMITIVES["alias"], (first,), {}, (var,), builder.site()))
    inside.stacked[var] = xs
    return var


def host_rows(node: Node, rows: StackedRows) -> Sequence[Atom | None]:
    function, caught = node.params["function"], node.params["caught"]
    differ = function.by_operand(rows.differ(node.inputs))
    lanes = function.by_lane(differ)
    operands = [rows.whole(x) if d else rows.one(x) for x, d in zip(node.inputs, lanes, strict=True)]
    masked = rows.alive is not None
    if rows.alive is not None:
        operands.append(rows.alive)
    rule = RowsRule.of(function.rule, node.outs[: len(function.results)], node.inputs, rows)
    made = function.for_rows(rows.size, differ, masked, lambda cts, outs, xs: [*rule(cts, outs, xs), *[None] * masked])
    found = current_builder().emit(node.prim, tuple(operands), {"function": made, "caught": caught})
    if caught:
        rows.same[node.outs[-1]] = found[-1]
        return [*found[:-1], None]
    return found
