"""Long expressions are cut (codegen/schedule/cuts.py), without a change of any bit."""

from __future__ import annotations

import numpy as np

from tracegrad import compile_grad
from tracegrad.codegen.cpu.assemble import lay_out
from tracegrad.codegen.schedule.cuts import MAX_ARRAYS, MAX_SCALARS
from tracegrad.runtime.launch import kernel_cache


def laid_out(monkeypatch, fn, *args):
    """(the layout of the program of a call, the result)"""
    seen = []
    whole = kernel_cache.KernelCache.get

    def get(self, canonical, arguments):
        seen.append((canonical, arguments))
        return whole(self, canonical, arguments)

    monkeypatch.setattr(kernel_cache.KernelCache, "get", get)
    found = compile_grad(fn)(*args)
    return lay_out(*seen[0]), found


def test_sum_of_many_arrays_reads_few_at_once(monkeypatch):
    arrays = [np.random.default_rng(k).standard_normal(7) for k in range(100)]
    turns = np.random.default_rng(0).integers(0, 2, 100).tolist()

    def f(arrays):
        total = arrays[0]
        for k, a in enumerate(arrays[1:]):
            total = total + a if turns[k] else total * a  # without order, so it is not rolled
        return total

    layout, found = laid_out(monkeypatch, f, arrays)
    assert max(len(reads.stored) for reads in layout.schedule.reads.values()) <= MAX_ARRAYS
    assert np.array_equal(found, f(arrays))


def test_scalars_are_evaluated_piece_by_piece(monkeypatch):
    def f(x):
        values = [x[0], x[1]]
        for k in range(600):
            values.append(values[-1] * values[-2] if (k * k) % 7 < 3 else 1.0 - values[-1] * 0.5)
        return np.array([values[-1], values[300], values[100]])

    x = np.array([0.3, 0.4])
    layout, found = laid_out(monkeypatch, f, x)
    assert max(len(reads.inlined) for reads in layout.schedule.reads.values()) <= MAX_SCALARS + 8
    assert np.array_equal(found, f(x))
