"""Loops of functions whose derivative is taken within a recording: they are loop nodes before that, whatever is read
later.

Each program takes its inner derivative by a function that it is given: recorded, or differences in plain Python.
What is recorded is run by the interpreter, and compared with the same program whose inner loops were left as they were.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from agreement import numerical_gradient

import tracegrad
from tracegrad import autograd, compile_grad, config
from tracegrad.runtime.logged.record import Logged
from tracegrad.runtime.mode import VALUE_AND_GRAD, Mode
from tracegrad.runtime.paths.paths import interpret
from tracegrad.runtime.record.call_key import flatten
from tracegrad.runtime.record.recording import Look
from tracegrad.tracer.ir.primitive import LOOP

X = np.array([0.9, 0.6])


def recorded(fn, *args, unrolled=False):
    """(the recording of *fn* for its value and gradient, what both are by the interpreter)"""
    f = compile_grad(fn)
    call = flatten(args, {}, f._dispatcher.static)
    look = Look(as_recorded=True) if unrolled else None
    recording = Logged(fn).record(call, Mode(VALUE_AND_GRAD), f._dispatcher.learned, look=look).recording
    results = interpret(recording, call, recording.values(call, recording.captured))
    value, gradient = recording.output.function()(results, call.leaves)
    return recording, value, gradient


def plain_grad(fn, has_aux=False):
    def gradient(x):
        found = numerical_gradient((lambda y: fn(y)[0]) if has_aux else fn, (x,))
        return (found, fn(x)[1]) if has_aux else found

    return gradient


def step(t, y):
    return t + 0.05 * np.sin(t * y)


# ---- programs --------------------------------------------------------------------------------------------------------


def plain_loop(x, grad):
    def f(y):
        t = y
        for _ in range(30):
            t = step(t, y)
        return np.sum(t * t)

    return np.sum(grad(f)(x) * x)


def closed_over(x, grad):
    def f(y):
        t = y
        for _ in range(30):
            t = step(t, x)  # constant for the inner derivative
        return np.sum(t * y)

    return np.sum(grad(f)(x))


def asked_before(x, grad):
    """The loop asks again for what was computed before it."""
    scaled = np.sin(x) * x

    def f(y):
        t = y
        for _ in range(30):
            t = t + 0.02 * (np.sin(x) * x) * np.cos(t)
        return np.sum(t * y)

    return np.sum(grad(f)(x) * scaled)


def over_rows(x, grad):
    rows = np.arange(1.0, 41.0).reshape(20, 2) / 40.0

    def f(y):
        s = 0.0
        for row in rows:
            s = s + np.log1p(np.exp(row @ y))
        return s

    return np.sum(grad(f)(x) * x)


def kept_in_a_list(x, grad):
    seen = []

    def f(y):
        seen.clear()
        t = y
        for _ in range(30):
            t = step(t, y)
            seen.append(t)
        return np.sum(t * t)

    first = grad(f)(x)
    f(x)
    return np.sum(first * seen[3]) + np.sum(np.array(seen) ** 2)


def kept_in_attributes(x, grad):
    kept = SimpleNamespace()

    def f(y):
        t = y
        for k in range(30):
            t = step(t, y)
            if k == 11:
                kept.middle = t
        kept.last = t
        return np.sum(t * t)

    found = grad(f)(x)
    f(x)
    return np.sum(found * kept.middle) + np.sum(kept.last)


def auxiliary(x, grad):
    def f(y):
        t, seen = y, []
        for _ in range(30):
            t = step(t, y)
            seen.append(t)
        return np.sum(t * t), (seen[5], t, np.sum(np.array(seen)))

    found, (a, b, c) = grad(f, has_aux=True)(x)
    return np.sum(found * a * b) + c


def trajectory(x, grad):
    def f(y):
        seen = [y]
        for _ in range(30):
            seen.append(step(seen[-1], y))
        return np.sum(np.array(seen) ** 2) + np.sum(seen[7])

    return np.sum(grad(f)(x))


def element_by_element(x, grad):
    def f(y):
        u = np.zeros(30)
        u[0] = y[0]
        for k in range(1, 30):
            u[k] = u[k - 1] * 0.9 + np.sin(y[1] * k)
        return np.sum(u * u)

    return np.sum(grad(f)(x) * x)


def written_outside(x, grad):
    """The inner function writes into an array of the outer one."""
    out = np.zeros(30)

    def f(y):
        t = y[0]
        for k in range(30):
            t = t + 0.1 * np.cos(t * y[1])
            out[k] = t
        return t * t

    found = grad(f)(x)
    f(x)
    return np.sum(found) + np.sum(out * np.arange(30.0))


def nested(x, grad):
    def f(y):
        s = 0.0
        for i in range(8):
            for j in range(7):
                s = s + 0.01 * np.sin(y[0] * i + y[1] * j) * s + y[0]
        return s

    return np.sum(grad(f)(x))


def triangular(x, grad):
    m = np.outer(np.arange(1.0, 7.0), np.cos(np.arange(6.0))) * 0.1 + 5 * np.eye(6)

    def f(y):
        u = m * y[0] + np.eye(6) * y[1]
        for k in range(6):
            for i in range(k + 1, 6):
                r = u[i, k] / u[k, k]
                for j in range(k, 6):
                    u[i, j] = u[i, j] - r * u[k, j]
        return np.log(np.prod(np.diag(u)))

    return np.sum(grad(f)(x) * x)


def branches(x, grad):
    def f(y):
        t = y
        for _ in range(30):
            if t[0] > -50.0:
                t = step(t, y)
            else:
                t = t * 0.5
        return np.sum(t * t)

    return np.sum(grad(f)(x))


def divided(x, grad):
    """Each turn relies on it that it does not divide by zero."""

    def f(y):
        t = y[0].item()
        for k in range(30):
            t = t + 1.0 / (t + y[1].item() + k)
        return t * t

    return np.sum(grad(f)(x))


def in_each_turn(x, grad):
    w = x
    for _ in range(20):

        def f(y):
            s = 0.0
            for k in range(18):
                s = s + 0.1 * np.sin(0.1 * k * y[0] + y[1])
            return s

        w = w - 0.1 * grad(f)(w)
    return np.sum(w * w)


def in_a_scan(x, grad):
    def f(y, z):
        t = y
        for _ in range(20):
            t = step(t, y * z)
        return np.sum(t * t)

    c, zs = x, np.linspace(0.1, 1.0, 6)
    if grad is not autograd.grad:
        for z in zs:
            c = c - 0.05 * grad(lambda y, z=z: f(y, z))(c)
        return np.sum(c)
    c, _ = tracegrad.scan(lambda c, z: (c - 0.05 * grad(lambda y: f(y, z))(c), z), x, zs)
    return np.sum(c)


def twice(x, grad):
    def f(y):
        t = y
        for _ in range(30):
            t = step(t, y)
        return np.sum(t * t)

    return np.sum(grad(f)(x) * grad(f)(2.0 * x)) + f(x)


def loops_in_derivatives(x, grad):
    """A function whose loop takes derivatives of one with a loop."""

    def outer(y):
        def inner(z):
            s = 0.0
            for k in range(20):
                s = s + np.cos(z[0] * k * 0.1) * z[1]
            return s

        v = y
        for _ in range(16):
            v = v - 0.01 * grad(inner)(v)
        return np.sum(v * v)

    return np.sum(grad(outer)(x))


def complex_loop(x, grad):
    def f(y):
        z = y[0] + 1j * y[1]
        for _ in range(30):
            z = z * (0.99 + 0.02j) + 0.01
        return (z * np.conj(z)).real

    return np.sum(grad(f)(x) * x)


PROGRAMS = [
    plain_loop, closed_over, asked_before, over_rows, kept_in_a_list, kept_in_attributes, auxiliary, trajectory,
    element_by_element, written_outside, nested, triangular, branches, divided, in_each_turn, in_a_scan, twice,
    loops_in_derivatives, complex_loop,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_rolled_as_unrolled(program):
    recording, value, gradient = recorded(lambda x: program(x, autograd.grad), X)
    assert any(node.prim.kind == LOOP for node in recording.graph.nodes)
    np.testing.assert_allclose(value, program(X, plain_grad), rtol=1e-4)
    _, expected, slope = recorded(lambda x: program(x, autograd.grad), X, unrolled=True)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-12)


def size(graph):
    """Operations of a program, those in the bodies of loops included."""
    return sum(1 + (size(n.params["body"]) if n.prim.kind == LOOP else 0) for n in graph.nodes)


def of_many_turns(x, grad, turns=30):
    def f(y):
        t = y
        for _ in range(turns):
            t = step(t, y)
        return np.sum(t * t)

    return np.sum(grad(lambda y: np.sum(grad(f)(y)))(x))


def test_second_derivatives_of_a_loop_are_loops():
    """The program does not grow with the number of turns, at any order."""
    few, _, _ = recorded(lambda x: of_many_turns(x, autograd.grad), X)
    many, _, _ = recorded(lambda x: of_many_turns(x, autograd.grad, 90), X)
    assert size(few.graph) == size(many.graph)
    assert not many.graph.guards


def test_what_nobody_reads_leaves_nothing():
    """Values that Python may read of the turns, and does not, cost nothing, and the questions of the turns are none."""
    recording, _, _ = recorded(lambda x: ended(x, autograd.grad), X)
    assert size(recording.graph) < 60


@pytest.mark.slow
def test_turns_of_long_loops_are_read_later():
    def program(x, grad):
        seen = []

        def f(y):
            seen.clear()
            a, v = y[0], y[1]
            for _ in range(2000):
                a = a + 0.001 * v
                v = v - 0.001 * np.sin(a)
                seen.append(a)
            return a * a + v

        found = grad(f)(x)
        kept = list(seen)
        f(x)
        return np.sum(found) + kept[100] * kept[1700] * x[0]

    _, value, gradient = recorded(lambda x: program(x, autograd.grad), X)
    np.testing.assert_allclose(value, program(X, plain_grad), rtol=1e-5)
    direct = numerical_gradient(lambda x: program(x, plain_grad), (X,))
    np.testing.assert_allclose(gradient, direct, rtol=1e-3, atol=1e-3)


# ---- batches -------------------------------------------------------------------------------------------------------

ROWS = np.stack([X, X / 2, -X])


@pytest.mark.parametrize("turns", [40, 4000])
def test_loops_within_batches_run_over_symbols(turns):
    """Those after a batch, too, which a recording knows of to its end."""

    def f(y):
        t = y
        for _ in range(turns):
            t = t + 0.01 * np.sin(t * y)
        return np.sum(t * t)

    recording, value, _ = recorded(lambda x: np.sum(autograd.vmap(autograd.grad(f))(x)) + f(x[0]), ROWS)
    np.testing.assert_allclose(value, sum(np.sum(compile_grad(f).grad(x)) for x in ROWS) + f(X), rtol=1e-9)
    assert len(recording.graph.nodes) < 60


def test_rows_of_a_large_batch_take_other_numbers_of_iterations():
    def f(x):
        t = x * 1.0
        while np.sum(t * t) > 1e-2:
            t = t * 0.8 + 0.01 * np.sin(x)
        return np.sum(t * x)

    rows = np.linspace(1.0, 4.0, 200).reshape(100, 2)
    rows[3] = 0.01  # none
    np.testing.assert_allclose(autograd.vmap(f)(rows), [f(x) for x in rows], rtol=1e-12)


def test_repeats_of_a_row_of_a_batch_are_no_part_of_the_program():
    """A loop of them would be, for what is the same in all rows."""

    def f(y):
        def step(t, left):  # which calls itself: no loop
            t = t + 0.1 * np.sin(t) * y + 0.5
            return step(t, left - 1) if left else np.sum(t)

        return step(y, 20)

    _, value, _ = recorded(lambda x: np.sum(autograd.vmap(autograd.grad(f))(x)), ROWS)
    np.testing.assert_allclose(value, sum(np.sum(numerical_gradient(f, (x,))) for x in ROWS), rtol=1e-6)


# ---- loops that data ends --------------------------------------------------------------------------------------------

POINTS = [X, X * 1.02, X * 2.5, X * 0.3, X * 6.0]


def halving(kept):
    def f(y):
        t, n = y * 1.0, 0
        kept.all = []
        while np.sum(t * t) > 1e-2:
            t = t * 0.8 + 0.01 * np.sin(y)
            n += 1
        kept.last, kept.count = t, n
        return np.sum(t * y)

    return f


def ended(x, grad):
    return np.sum(grad(halving(SimpleNamespace()))(x))


def ended_and_read(x, grad):
    kept = SimpleNamespace()
    f = halving(kept)
    found = grad(f)(x)
    f(x)
    return np.sum(found) * kept.count + np.sum(kept.last)


def ended_and_listed(x, grad):
    """The list tells how many turns there were, so each number of them is a path."""
    seen = []

    def f(y):
        seen.clear()
        t = y * 1.0
        while np.sum(t * t) > 1e-2:
            t = t * 0.8 + 0.01 * np.sin(y)
            seen.append(t)
        return np.sum(t * y)

    found = grad(f)(x)
    f(x)
    return np.sum(found) + np.sum(seen[-1]) + len(seen) * x[0]


def best_so_far(x, grad):
    """In some runs the variable that is read later holds what it held before the loop."""
    kept = SimpleNamespace()

    def f(y):
        t = y * 1.0
        best = y
        while np.sum(t * t) > 1e-2:
            t = t * 0.7 + 0.01 * np.sin(y)
            if t[0] > 2.0:
                best = t
        kept.best = best
        return np.sum(t * y)

    found = grad(f)(x)
    f(x)
    return np.sum(found * kept.best)


def around(x, grad):
    """The loop that data ends is around the derivative of a function with a loop."""

    def f(y):
        t = y
        for _ in range(20):
            t = t * 0.9 + 0.02 * np.sin(y) * t
        return np.sum(t * t) + np.sum(y * y)

    w = x
    slope = grad(f)(w)
    while np.sum(slope * slope) > 1e-4:
        w = w - 0.2 * slope
        slope = grad(f)(w)
    return np.sum(w) * 100.0


def gradient_of(program):
    return compile_grad(lambda x: program(x, autograd.grad))


@pytest.mark.parametrize("program", [ended, ended_and_read], ids=lambda program: program.__name__)
def test_one_path_for_any_number_of_turns(program, monkeypatch):
    monkeypatch.setattr(config, "check", True)
    f = gradient_of(program)
    for x in POINTS:
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, program(x, plain_grad), rtol=1e-6)
        np.testing.assert_allclose(gradient, slope_of(program, x), rtol=1e-3, atol=1e-3)
    assert f.stats.traces == 1


@pytest.mark.slow
@pytest.mark.parametrize("program", [ended_and_listed, best_so_far, around], ids=lambda program: program.__name__)
def test_questions_stay_where_the_turns_are_seen(program, monkeypatch):
    monkeypatch.setattr(config, "check", True)
    f = gradient_of(program)
    for x in [*POINTS, *POINTS]:
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, program(x, plain_grad), rtol=1e-6)
        np.testing.assert_allclose(gradient, slope_of(program, x), rtol=1e-3, atol=2e-3)


def slope_of(program, x):
    """Differences of compiled values of the inner derivative: those of differences would be too rough."""
    return numerical_gradient(lambda y: program(y, autograd.grad), (x,))


@pytest.mark.slow
def test_a_derivative_of_few_turns_has_their_number():
    """Where the turns do not become a node, the derivative is that of this number of turns, and another number is
    another path: also where the derivative reads no value of theirs."""

    def program(x):
        def f(y):
            t = y * 1.0
            while np.sum(t * t) > 1.0:
                t = t * 0.5
            return np.sum(t * y)

        return np.sum(autograd.grad(f)(x))

    f = compile_grad(program)
    for x in [X, X * 1.9, X * 3.0, X * 7.0, X * 16.0, X * 1.9]:
        turns = 0
        while np.sum((x * 0.5**turns) ** 2) > 1.0:
            turns += 1
        np.testing.assert_allclose(f(x), 2 * 0.5**turns * np.sum(x), rtol=1e-12)
        np.testing.assert_allclose(f.grad(x), 2 * 0.5**turns, rtol=1e-12)


@pytest.mark.parametrize("transform", ["jvp", "hessian", "vmap", "vmap of grad"])
def test_transforms_of_a_loop_that_data_ends(transform):
    """Each row of a batch has as many turns as its own data asks for."""

    def f(x):
        t = x * 1.0
        while np.sum(t * t) > 1e-2:
            t = t * 0.8 + 0.01 * np.sin(x)
        return np.sum(t * x)

    if transform == "jvp":
        _, found = autograd.jvp(f, (X,), (np.array([1.0, 0.0]),))
        np.testing.assert_allclose(found, numerical_gradient(f, (X,))[0], rtol=1e-5)
    elif transform == "hessian":
        slopes = [numerical_gradient(lambda y, k=k: autograd.grad(f)(y)[k], (X,)) for k in range(2)]
        np.testing.assert_allclose(autograd.hessian(f)(X), slopes, rtol=1e-4, atol=1e-6)
    elif transform == "vmap":
        np.testing.assert_allclose(autograd.vmap(f)(np.array(POINTS)), [f(x) for x in POINTS], rtol=1e-12)
    else:
        expected = [numerical_gradient(f, (x,)) for x in POINTS]
        np.testing.assert_allclose(autograd.vmap(autograd.grad(f))(np.array(POINTS)), expected, rtol=1e-5, atol=1e-7)
