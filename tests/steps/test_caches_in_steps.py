"""Functions that keep their results (``functools.lru_cache``) in steps, after what these have written."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tracegrad
from tracegrad import tensor


class Trainer:
    def __init__(self):
        self.w, self.count, self.rates, self.log = tensor(np.ones(3), requires_grad=True), 0, {}, []

        @functools.lru_cache
        def constant(k):
            return 1.0 / k

        @functools.lru_cache
        def table(k):
            return np.arange(3.0) * k

        @functools.lru_cache
        def of_count(k):
            return float(self.count * k)

        @functools.lru_cache
        def of_rates(k):
            return self.rates.get("a", 2.0) * k + len(self.log)

        @functools.lru_cache
        def of_weights(k):
            return self.w.detach()[0].item() * k

        @functools.lru_cache
        def counting(k):
            self.count += 100
            return float(k)

        self.functions = {f.__name__: f for f in (constant, table, of_count, of_rates, of_weights, counting)}


@pytest.mark.parametrize("name", Trainer().functions)
def test_a_cache_in_a_step_is_pythons(name):
    found = []
    for compiled in (True, False):
        t = Trainer()
        cached = t.functions[name]

        def step(x, t=t, cached=cached):
            t.count += 1
            t.rates["a"] = 0.5
            loss = ((t.w * x) ** 2).sum()
            loss.backward()
            with tracegrad.no_grad():
                t.w.sub_(0.1 * t.w.grad)
                t.w.grad = None
            t.log.append(loss.item())
            return (loss * tensor(np.asarray(cached(3)))).sum()

        call = tracegrad.compile(step) if compiled else step
        values = []
        for k in range(8):
            if k == 5:
                cached.cache_clear()
            values.append(call(tensor(np.arange(3.0) / 2)).item())
        found.append([*values, t.count, len(t.log), cached.cache_info().currsize, *t.w.detach().numpy()])
        if compiled and name in ("constant", "table"):
            assert not call.stats.live
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
