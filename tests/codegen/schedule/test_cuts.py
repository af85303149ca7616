"""Long expressions are cut (codegen/schedule/cuts.py), without a change of any bit."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
from one_by_one import reduced

from tracegrad import compile_grad
from tracegrad.codegen.cpu.assemble import lay_out
from tracegrad.codegen.schedule import schedule
from tracegrad.codegen.schedule.cuts import MAX_ARRAYS, MAX_SCALARS, MAX_VALUES
from tracegrad.codegen.schedule.loop_tree import statements_of
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

    def from_there(total, arrays, k):  # without order, and no loop, so it is not rolled
        if k == len(arrays):
            return total
        return from_there(total + arrays[k] if turns[k - 1] else total * arrays[k], arrays, k + 1)

    def f(arrays):
        return from_there(arrays[0], arrays, 1)

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


def lines(count):
    """A function of *count* lines over an array, each with another constant."""
    body = "".join(f"    t = t * {1 + 1e-3 * (k % 7)!r} + np.sin(w * {0.1 * (k % 11)!r})\n" for k in range(count))
    text, space = f"def f(w):\n    t = w\n{body}    return np.sum(t)\n", {"np": np}
    linecache.cache["<lines>"] = len(text), None, text.splitlines(keepends=True), "<lines>"
    exec(compile(text, "<lines>", "exec"), space)
    return space["f"]


def test_long_expressions_over_one_array_are_several_loops(monkeypatch):
    f, w = lines(900), np.linspace(0.1, 0.5, 9)
    layout, found = laid_out(monkeypatch, f, w)
    reads = layout.schedule.reads
    assert max(len(r.inlined) for r in reads.values()) <= MAX_VALUES + 8
    for loop in layout.schedule.body:
        assert sum(len(reads[s.out].inlined) for s in statements_of(loop)) <= 2 * MAX_VALUES
    assert np.allclose(found, f(w), rtol=1e-13)


def unrolled(w, waves):
    """Steps of a wave, none of which is like the one before."""
    u, v = w, np.zeros_like(w)
    for k in waves:
        axis = k % w.ndim
        u = u * 0.99 if k % 3 == 0 else np.concatenate([u[1:], u[:1]]) * 0.5 + u if k % 3 == 1 else u + 0.1 * v
        v = v + 0.1 * (np.roll(u, 1, axis) - 2 * u + np.roll(u, -1, axis)) * w
    return u


@pytest.mark.parametrize("shape", [pytest.param((9,), marks=pytest.mark.slow), (4, 5)])
def test_steps_of_waves_are_stored_before_reads_go_through_all_of_them(monkeypatch, shape):
    w = np.random.default_rng(0).random(shape)
    waves = np.random.default_rng(1).integers(0, 6, 30).tolist()
    layout, found = laid_out(monkeypatch, unrolled, w, waves)
    assert max(sum(map(len, r.inlined.values())) for r in layout.schedule.reads.values()) < 200
    np.testing.assert_allclose(found, unrolled(w, waves), rtol=1e-14)


@pytest.mark.slow
def test_reads_of_a_wave_are_few_from_the_start(monkeypatch):
    """So that the time to place the steps does not depend on how many there are before."""
    seen = []
    real = schedule.reads
    monkeypatch.setattr(schedule, "reads", lambda *args: seen.append(real(*args)) or seen[-1])
    w = np.random.default_rng(0).random(9)
    counts = []
    for steps in (20, 60):
        seen.clear()
        laid_out(monkeypatch, unrolled, w, np.random.default_rng(1).integers(0, 6, steps).tolist())
        counts.append(sum(sum(map(len, r.inlined.values())) for r in seen))
    assert counts[1] < 5 * counts[0]


def evaluated_in_all_attempts(monkeypatch, fn, *args):
    """(evaluations that placing lists in all of its attempts, operations) of the program of a gradient."""
    counts = []
    placed, attempted = schedule.Placer._place, schedule.stable_placement

    def place(self, statement):
        counts[-1][0] += len(self.reads[statement.out].inlined)
        placed(self, statement)

    def attempts(program, *rest, **kept):
        counts.append([0, len(program.ops)])
        return attempted(program, *rest, **kept)

    monkeypatch.setattr(schedule.Placer, "_place", place)
    monkeypatch.setattr(schedule, "stable_placement", attempts)
    compile_grad(fn, argnums=0).value_and_grad(*args)
    return max(counts, key=lambda count: count[1])


def steps_in_a_list(w, count):
    """Leapfrog steps over fields in a list, some of them unlike the others."""

    def step(fields, t):
        u, before = fields[-1], fields[-2]
        inner = 2 * u[1:-1] - before[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        new = np.concatenate([np.zeros(1), inner, np.zeros(1)])
        return [*fields, new * 0.99 + t * 1e-3 if t % 3 == 0 or t % 7 == 2 else new]

    fields = reduced(step, range(count), [w, w])
    return sum(np.sum(u**2) for u in fields)


def scalars(x, count):
    def step(values, k):
        a, b, c = values
        a, b = (a * b + np.sin(c), c) if (k * k) % 7 < 3 else (0.5 * a - b * np.tanh(c), a)
        return a, b, np.cos(c * a) if (k * k) % 5 < 2 else c - b * a

    a, b, c = reduced(step, range(count), (x[0], x[1], x[2]))
    return a + b * c


@pytest.mark.parametrize(("fn", "counts", "most"), [(steps_in_a_list, (50, 100), 40), (scalars, (250, 500), 20)])
def test_placing_takes_time_in_proportion_to_the_program(monkeypatch, fresh_kernels, fn, counts, most):
    for count in counts:
        evaluated, operations = evaluated_in_all_attempts(monkeypatch, fn, np.linspace(0.1, 0.9, 12), count)
        assert evaluated < most * operations
