"""Recursive filters and correlations inside the kernel, as loops over one signal or image."""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from .scalar import I64, cell, least, ranging

_LOOSE = ("reassoc", "contract")  # a sum in an order that suits the machine, the same in each call
_CLOSE = ("contract",)
_MOST_POLES = 8  # of filters whose last results are in registers
_AT_ONCE = 1024  # numbers of a result that are kept near while all weights are added


def _added(m: Any, total: ir.Value, x: ir.Value, y: ir.Value, flags: tuple[str, ...]) -> None:
    """Add x * y to the number at *total*."""
    product = m.b.fmul(x, y, flags=_CLOSE)
    m.b.store(m.b.fadd(m.load(total), product, flags=flags), total)


def _few_poles(m: Any, order: int) -> None:
    """As ``_all_pole``, with the last results in registers."""
    b, (a, x) = m.b, m.ins
    factors = [m.load(m.at(a, I64(lag))) for lag in range(order)]
    before = [cell(m.entry, b, m.number(0)) for _ in factors]
    with m.each(m.size(1, -1)) as t:
        total, last = m.load(m.at(x, t)), [m.load(place) for place in before]
        for factor, value in reversed([*zip(factors, last, strict=True)]):  # the newest last: it is waited for
            total = b.fsub(total, b.fmul(factor, value, flags=_CLOSE), flags=_CLOSE)
        for place, value in zip(before, [total, *last], strict=False):
            b.store(value, place)
        b.store(total, m.at(m.out, t))


def _all_pole(m: Any) -> None:
    known = m.calls.program.static.get(m.op.ins[0].dims[-1], _MOST_POLES + 1)
    if known <= _MOST_POLES:
        _few_poles(m, known)
        return
    b, (a, x), order, n = m.b, m.ins, m.size(0, -1), m.size(1, -1)
    total = cell(m.entry, b, m.number(0))
    with m.each(n) as t:
        b.store(m.load(m.at(x, t)), total)
        before = m.at(m.out, b.sub(t, I64(1)))
        with m.each(least(m.b, t, order)) as lag:
            factor = b.fneg(m.load(m.at(a, lag)))
            _added(m, total, factor, m.load(m.at(before, b.neg(lag))), _CLOSE)
        b.store(m.load(total), m.at(m.out, t))


def _correlate(m: Any) -> None:
    """The inner loop is over the longer rows, those of the result or those of the weights."""
    b, (x, w) = m.b, m.ins
    width, height, taps = m.size(0, -1), m.size(1, -2), m.size(1, -1)
    rows, columns = (m.calls.size(m.op.out.dims[axis]) for axis in (-2, -1))
    with b.if_else(b.icmp_signed("<", taps, columns)) as (long, short):
        with long, m.each(rows) as s, ranging(b, I64(0), columns, I64(_AT_ONCE)) as first:
            count, place = least(m.b, I64(_AT_ONCE), b.sub(columns, first)), m.at(m.out, s, columns, first)
            m.fill(place, count, 0)
            with m.each(height) as i, m.each(taps) as j:
                weight, start = m.load(m.at(w, i, taps, j)), m.at(x, b.add(s, i), width, b.add(first, j))
                with m.each(count) as t:
                    _added(m, m.at(place, t), weight, m.load(m.at(start, t)), _CLOSE)
        with short:
            total = cell(m.entry, b, m.number(0))
            with m.each(rows) as s, m.each(columns) as t:
                b.store(m.number(0), total)
                with m.each(height) as i:
                    start, weights = m.at(x, b.add(s, i), width, t), m.at(w, b.mul(i, taps))
                    with m.each(taps) as j:
                        _added(m, total, m.load(m.at(start, j)), m.load(m.at(weights, j)), _LOOSE)
                b.store(m.load(total), m.at(m.out, s, columns, t))


BY_LOOPS = {"all_pole": _all_pole, "correlate": _correlate}
