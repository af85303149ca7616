"""Rules that ask which tangents and cotangents are zero: ``symbolic_zeros=True`` of ``custom_jvp`` and ``custom_vjp``.

That is known only where a derivative is taken, but rules are recorded as programs before.  Since they are linear, a
rule is the sum of its parts: a tangent of one operand alone, or the cotangent of one operand (alone ``perturbed``) for
that of one result.  Each part is recorded with all others zero, as a program like any rule's, and those are run whose
tangent or cotangent is there, and wanted.  A part that raises an error does so then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.aval import Aval
from ..ir.graph import Atom, Var
from ..ir.site import Site
from ..ops.elementwise import F
from .programs import FORWARD, Layout, OwnRule


class CustomVJPPrimal:
    """An argument of the ``fwd`` of a rule with ``symbolic_zeros=True``: its *value*, and whether it is *perturbed*,
    that is, whether its cotangent is wanted."""

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal({self.value!r}, perturbed={self.perturbed})"


class PartwiseRule(OwnRule):
    """The sum of *parts*, rules of one layout: by the number of an operand, or of an operand and a result."""

    def __init__(self, label: str, layout: Layout, site: Site | None, parts: Mapping[Any, OwnRule]) -> None:
        self.label, self.layout, self.site, self.parts = label, layout, site, parts
        self.consts = [x for rule in parts.values() for x in rule.consts]
        self.closed = all(rule.closed for rule in parts.values())
        self.strict = all(rule.strict for rule in parts.values())

    def __call__(self, given: Sequence[Atom | None], outs: Sequence[Var], atoms: Sequence[Atom]) -> list[Any]:
        layout, lanes = self.layout, self.layout.lanes
        consts = self.own_consts(atoms[lanes : len(atoms) - len(outs)])
        operands: dict[Any, list[Atom]] = {}
        for part, rule in self.parts.items():
            operands[part] = [*atoms[:lanes], *consts[: len(rule.consts)], *outs]
            consts = consts[len(rule.consts) :]

        def run(part: Any, span: slice) -> list[Any]:
            """The result of *part* for those *given* in *span* alone."""
            alone = [x if span.start <= k < span.stop else None for k, x in enumerate(given)]
            if layout.direction == FORWARD:  # of the operands of this part
                alone = [*alone[:lanes], *[None] * (len(operands[part]) - lanes)]
            return self.parts[part](alone, outs, operands[part])

        ins, results = _spans(layout.operands), _spans(layout.outs)
        if layout.direction == FORWARD:
            self.refuse_others(given)
            present = [k for k in self.parts if any(x is not None for x in given[ins[k]])]
            return functools.reduce(_added, [run(k, ins[k]) for k in present], [None] * len(outs))

        @functools.cache
        def cotangents(k: int) -> list[Any]:
            nothing: list[Any] = [None] * (ins[k].stop - ins[k].start)
            present = [j for j, span in enumerate(results) if any(x is not None for x in given[span])]
            found = [[x() if callable(x) else x for x in run((k, j), results[j])[ins[k]]] for j in present]
            return functools.reduce(_added, found, nothing)

        lazy: list[Any] = []
        for k, span in enumerate(ins):
            for lane in range(span.stop - span.start):
                lazy.append(functools.partial(_one, cotangents, k, lane) if (k, 0) in self.parts else None)
        return [*lazy, *self.of_others(len(atoms) - lanes)]

    def __eq__(self, other: object) -> bool:
        return type(other) is PartwiseRule and (self.layout, self.parts) == (other.layout, other.parts)

    def __hash__(self) -> int:
        return hash((PartwiseRule, self.layout))


def by_parts(label: str, layout: Layout, site: Site | None, of: Callable[[Any], OwnRule]) -> PartwiseRule:
    """The rule of the parts that *of* gives by their numbers."""
    moving = [k for k, aval in enumerate(layout.operands) if aval.is_inexact]
    if layout.direction == FORWARD:
        return PartwiseRule(label, layout, site, {k: of(k) for k in moving})
    parts = {(k, j): of((k, j)) for k in moving for j in range(len(layout.outs))}
    return PartwiseRule(label, layout, site, parts)


def _spans(avals: Sequence[Aval]) -> list[slice]:
    """Where the lanes of each value stand among those of all."""
    spans, start = [], 0
    for aval in avals:
        stop = start + (2 if aval.is_complex else 1)
        spans.append(slice(start, stop))
        start = stop
    return spans


def _added(xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
    return [y if x is None else x if y is None else F.add(x, y) for x, y in zip(xs, ys, strict=True)]


def _one(found: Callable[[int], list[Any]], k: int, lane: int) -> Any:
    return found(k)[lane]
