"""Arrays of lists, tuples and dicts in loops over symbols: what is written into one is written into that array."""

from __future__ import annotations

import numpy as np
import pytest
from along_one_way import check
from with_source import code_of

from tracegrad import compile_grad
from tracegrad.runtime.inspection import see

LOOPS = [  # what an iteration does, and what follows the loop
    ("for v in rs: v += t", ""), ("for v in ts: v += t", ""), ("for v in ts: v[0] = t", ""),
    ("for v in rs: v[0] = t", ""), ("for v in m: v += t", ""), ("for v in m[1:]: v[0] = t", ""),
    ("for v, e in zip(m, z): v += e", ""), ("for k, v in dd.items(): v += t * 0.1", ""),
    ("for v in dd.values(): v[0] = t", ""), ("for a, b in zip(ts, ts[1:]): b += a * 0.01", ""),
    ("for j in range(20): ts[j][0] = t", ""), ("for j in range(20): rs[j][0] = t", ""),
    ("for j in range(20): w = ts[j]; w += t", ""), ("for j in range(20): w = rs[j]; w += 1.0", ""),
    ("for j in range(20): rs[j].fill(2.0)", ""), ("for j in range(20): w = tu[j]; w += t", ""),
    ("for j in range(20): w = ts[j]; ts[j][0] = t; t = t + w[0] * 0.01", ""),
    ("for v in ts: t = t + v[0] * 0.01", "v += 1.0"),
    ("for v in ts: t = t + v[0] * 0.01", "ts[23][0] = 7.0; t = t + v[0]"),
    ("for j in range(20): w = rs[j]", "rs[19][0] = 7.0; t = t + w[0]"),
    ("for j in range(20): w = tu[j]", "w += t"),
]  # fmt: skip


def function(loop, after):
    text = f"""
def f(x):
    rs, ts = [np.ones(3) * k for k in range(24)], [x * k for k in range(24)]
    tu, dd, z = tuple(ts), {{k: x * k for k in range(24)}}, np.linspace(0, 1, 24)
    m, t = np.ones((24, 3)), x[0]
    {loop}
    {after}
    scale = np.sin(np.arange(72.0)).reshape(24, 3)
    return t + np.sum(m * scale) + np.sum((np.stack(rs) + np.stack(ts) * 0.5 + np.stack(list(dd.values()))) * scale)
"""
    space = {"np": np}
    exec(code_of(text, f"items {loop} {after}"), space)
    return space["f"]


@pytest.mark.parametrize("loop, after", LOOPS)
def test_what_is_written_into_an_item_stays_there(loop, after):
    f = function(loop, after)
    compiled = compile_grad(f)
    check(f, compiled, rtol=1e-9, atol=1e-6)
    assert not compiled.stats.live


def test_loops_that_read_items_are_loop_nodes():
    def f(x, layers):
        for w in layers:
            x = np.tanh(w @ x)
        return np.sum(x)

    layers = [np.eye(3) * (1.0 + k / 40) for k in range(40)]
    np.testing.assert_allclose(compile_grad(f)(np.ones(3), layers), f(np.ones(3), layers))
    seen = see(compile_grad(f), (np.ones(3), layers), {}, as_recorded=False, what="a test")
    assert len(seen.recording.graph.nodes) < 80


def test_pairs_of_which_one_part_is_the_same_are_gone_over_backwards():
    def f(x):
        pairs, doubled, same = [(x * k, np.tanh) for k in range(20)], [], [1.0] * 20
        for (v, act), one in zip(reversed(pairs), reversed(same), strict=True):
            doubled.append(act(v) * one)
        return np.sum(np.stack(doubled) * np.arange(60.0).reshape(20, 3))

    compiled = compile_grad(f)
    check(f, compiled, rtol=1e-9, atol=1e-6)
    assert not compiled.stats.live
