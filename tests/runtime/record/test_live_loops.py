"""Loops over symbols in live runs: a marked iteration that would do more than compute is made again as it is, so values
and state are those of plain Python."""

import contextlib
import io
import time
import types
from functools import lru_cache

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

X = np.array([0.4, -0.7, 1.1])
ROWS = np.cos(np.arange(75.0)).reshape(25, 3)
PLAIN = list(ROWS)


def helper(h, k):
    return np.tanh(h * 0.9 + 0.01 * k)


def noting(state, h):
    state.seen.append(float(np.sum(h)))
    return h * 0.5


@lru_cache
def cached(k):
    return k * 0.5


def fails_at(k):
    if k == 7:
        raise ValueError(k)
    return 1.0


def carried(x, state):
    h = x
    for t in range(25):
        h = np.tanh(h * 0.9 + ROWS[t])
    return np.sum(h)


def two_deep(x, state):
    h = x
    for t in range(20):
        for k in range(16):
            h = helper(h, k) + 0.01 * ROWS[t]
    return np.sum(h)


def zipped(x, state):
    h, total = x, 0.0
    for row, other in zip(ROWS, ROWS[::-1], strict=True):
        h = np.sin(h * 0.7 + row * other)
        total += np.sum(h) * 0.1
    return total


def rows_written(x, state):
    made = np.zeros((25, 3))
    made[0] = x
    for t in range(1, 25):
        made[t] = np.tanh(made[t - 1] * 0.8 + ROWS[t])
    return np.sum(made * made)


def counts(x, state):
    n, h = 0, x
    for _ in range(25):
        n += 2
        h = h * 0.9 + n * 0.01
    state.n = n
    return np.sum(h)


def of_a_list(x, state):
    h = x
    for t in range(25):
        h = np.tanh(h * 0.8 + PLAIN[t])
    return np.sum(h)


def by_branches(x, state):
    h = x
    for t in range(25):
        h = h * 0.9 if t < 12 else np.sin(h)
    return np.sum(h)


def by_data(x, state):
    h = x
    for t in range(25):
        h = np.sin(h + ROWS[t]) if np.sum(h) > 0 else h * 0.5 + 0.3
    return np.sum(h)


PURE = [carried, two_deep, zipped, rows_written, counts, of_a_list, by_branches, by_data]


def appends(x, state):
    h, kept = x, []
    for t in range(25):
        h = np.tanh(h * 0.9 + ROWS[t])
        kept.append(h)
    return np.sum(kept[3]) + np.sum(kept[-1]) + len(kept)


def attributes(x, state):
    state.h = x
    for t in range(25):
        state.h = np.tanh(state.h * 0.9 + ROWS[t])
        state.count += 1
    return np.sum(state.h)


def late_attribute(x, state):
    h = x
    for t in range(25):
        h = np.tanh(h * 0.9 + ROWS[t])
        state.last = h
    return np.sum(h)


def prints(x, state):
    h = x
    for t in range(25):
        h = h * 0.9
        print(t, np.round(np.sum(h), 3))
    return np.sum(h)


def dictionaries(x, state):
    h, table = x, {}
    for t in range(25):
        h = h * 0.9
        table[t % 5] = np.sum(h)
    return sum(table.values())


def plain_arrays(x, state):
    h = x
    for t in range(25):
        h = h * 0.9
        state.array[t % 3] += t
    return np.sum(h * state.array)


def iterators(x, state):
    h, items = x, iter(range(100))
    for _ in range(25):
        h = h * 0.9 + 0.001 * next(items)
    state.rest = next(items)
    return np.sum(h)


def iterators_of_others(x, state):
    h, items = x, iter(PLAIN * 2)
    for _ in range(20):
        for row, _ in zip(items, range(2), strict=False):
            h = np.tanh(h + row)
    return np.sum(h)


def clocks(x, state):
    h = x
    for _ in range(25):
        h = h * (0.9 if time.time() > 0 else 0.1)
    return np.sum(h)


def effects_within(x, state):
    h = x
    for _ in range(25):
        h = noting(state, h) + 0.1
    return np.sum(h)


def caches(x, state):
    h = x
    for t in range(25):
        h = h * 0.9 + 0.01 * cached(t)
    return np.sum(h)


def texts(x, state):
    h, made = x, ""
    for t in range(25):
        h = h * 0.9
        made = made + f"{t},"
    state.text = made
    return np.sum(h)


def keys(x, state):
    h, table = x, {k: 0.01 * k for k in range(25)}
    for t in range(25):
        h = h * 0.9 + table[t]
    return np.sum(h)


def integers_of_c(x, state):
    h = x
    for t in range(25):
        h = h * 0.9 + (1 << t) * 1e-8 + divmod(t, 3)[1] * 0.01
    return np.sum(h)


def raises(x, state):
    h = x
    for t in range(25):
        h = h * fails_at(t)
    return np.sum(h)


def raises_and_goes_on(x, state):
    h = x
    try:
        for t in range(25):
            h = h * 0.9 * fails_at(t)
    except ValueError:
        state.failed = True
    return np.sum(h)


def draws(x, state):
    h = x
    for _ in range(25):
        h = h * 0.9 + state.rng.normal() * 0.1
    return np.sum(h)


def identities(x, state):
    h, before = x, None
    for _ in range(25):
        now = h * 0.9
        state_same = before is now
        before, h = now, now + 0.1 * state_same
    return np.sum(h)


def swaps(x, state):
    a, b = np.zeros(3), np.ones(3)
    for t in range(25):
        a[t % 3] = np.sum(b * x) * 0.1
        a, b = b, a
    return np.sum(a) + 2 * np.sum(b)


def names_outside(x, state):
    global OUTSIDE
    h, n = x, 0

    def more():
        nonlocal n
        n += 1
        return n

    for t in range(25):
        h = h * 0.9 + 0.01 * more()
        OUTSIDE = t
    state.n, state.outside = n, OUTSIDE
    return np.sum(h)


def halves(x, state):
    """Half an iteration has run, and written, when something is done outside."""
    buffer, h = np.zeros(4), x
    for t in range(25):
        h = h + 0.1
        buffer[t % 4] = buffer[t % 4] + np.sum(h)
        state.seen.append(t)
        h = h * buffer[t % 4] * 0.01
    return np.sum(h) + np.sum(buffer)


def inner_acts(x, state):
    h = x
    for t in range(20):
        h = h * 0.9
        for k in range(16):
            h = np.sin(h + 0.1 * k)
        state.seen.append(t)
    return np.sum(h)


def trees(x, state):
    done = [x]
    for k in range(24):
        done.append(np.tanh(done[k // 2] * 0.9 + ROWS[k]))
    return np.sum(done[-1]) + np.sum(done[5]) + len(done)


def tables(x, state):
    table = [[0.0] * 6 for _ in range(20)]
    for j in range(6):
        table[0][j] = x[j % 3]
    for t in range(1, 20):
        for j in range(6):
            table[t][j] = np.sin(table[t - 1][j]) + 0.1 * table[t - 1][(j + 1) % 6]
    return sum(table[19]) + sum(table[3])


def rings(x, state):
    ring, total = [x[0], x[1], x[2]], 0.0
    for t in range(24):
        total = total + ring[t % 3] ** 2
        ring[t % 3] = np.sin(ring[t % 3])
    return total + ring[0]


def pops(x, state):
    items, h = [1.0 * k for k in range(30)], x
    for _ in range(24):
        h = h * 0.9 + items.pop() * 0.01
    return np.sum(h) + len(items)


def lists_that_grow_in_place(x, state):
    made, h = [], x
    alias = made
    for t in range(20):
        h = np.sin(h + t)
        made += [np.sum(h)]
    return sum(made) + len(alias)


def taken_apart(x, state):
    numbers, h = iter(range(100)), x
    for _ in range(20):
        a, *rest = [*zip(range(3), numbers, strict=False)]
        h = np.sin(h + 0.01 * a[1] + 0.001 * len(rest))
    return np.sum(h)


def views_written(x, state):
    m = np.zeros((24, 3)) + x
    for j in range(20):
        w = m[j + 1]
        w[-1] *= 0.5
    return w.sum() * 0.1 + m.sum()


def caught(x, state):
    """Code of the user's catches whatever ends an iteration."""
    h = x
    for t in range(25):
        h = noted_if_it_can_be(state, h * 0.9, t)
    return np.sum(h)


def noted_if_it_can_be(state, h, t):
    try:
        state.seen.append(t)
    except:  # noqa: E722
        h = h * 2
    finally:
        h = h + 0.01
    return h


def written_by_functions(x, state):
    h, made = x, np.zeros(3)
    for t in range(25):
        h = h * 0.9
        np.add(made, 0.1 * t, made)
        np.multiply.at(made, [0], 1.01)
        made.__setitem__(1, t)
    state.array = made
    return np.sum(h * made)


def zipped_within(x, state):
    h = x
    for _ in range(20):
        for k, (row, other) in enumerate(zip(ROWS, ROWS[::-1], strict=True)):
            h = np.tanh(h * 0.9 + row * other + 0.01 * k)
    return np.sum(h)


UNSEEN = eval("lambda state, h: (state.seen.append(1), h * 0.9)[1]", {})


def without_source(x, state):
    h = x
    for _ in range(25):
        h = UNSEEN(state, h)
    return np.sum(h)


def in_an_iterator(x, state):
    h, numbers = x, iter(range(100))
    for t in range(20):
        h = np.sin(h + (0.1 if 3 * t in numbers else 0.2))
    return np.sum(h)


def rows_of_what_is_written_later(x, state):
    h = x
    for t in range(25):
        h = np.tanh(h + state.rows[t])
    state.rows[0] += 1.0
    return np.sum(h) + state.rows[0, 1]


def row_that_stays(x, state):
    h, last, before = x, state.rows[0], state.rows[1]
    for t in range(25):
        before = last
        last = state.rows[t]
        h = np.tanh(h + last + before)
    state.rows += 1.0
    return np.sum(h) + np.sum(last) + 2 * np.sum(before)


ACTING = [
    appends, attributes, late_attribute, prints, dictionaries, plain_arrays, iterators, iterators_of_others, clocks,
    effects_within, caches, texts, keys, integers_of_c, raises, raises_and_goes_on, draws, identities, swaps,
    names_outside, halves, inner_acts, trees, tables, rings, pops, lists_that_grow_in_place, taken_apart, views_written,
    caught, written_by_functions, zipped_within, without_source, in_an_iterator,
    rows_of_what_is_written_later, row_that_stays,
]  # fmt: skip


def state():
    return types.SimpleNamespace(
        seen=[],
        count=0,
        array=np.ones(3),
        rng=np.random.default_rng(3),
        text="",
        n=0,
        rest=0,
        failed=False,
        rows=np.array(ROWS),
    )


def ran(fn, x, given):
    """(the result or the error, the state without its generator, what was printed)"""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            found = fn(x, given)
    except ValueError as error:
        found = repr(error)
    left = {name: value for name, value in vars(given).items() if name != "rng"}
    return found, left, out.getvalue()


def same(ours, theirs):
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def live(fn):
    """*fn*, which is live for the clock that it reads."""

    def reads_the_clock(x, given):
        time.time()
        return fn(x, given)

    return compile_grad(reads_the_clock)


@pytest.mark.parametrize("fn", [*PURE, *ACTING], ids=lambda fn: fn.__name__)
def test_values_and_state_are_those_of_python(fn):
    compiled = live(fn)
    for k in range(3):
        x = X + 0.1 * k
        ours, theirs = ran(compiled, x, state()), ran(fn, x, state())
        same(ours[0], theirs[0])
        assert ours[2] == theirs[2]
        assert ours[1].keys() == theirs[1].keys()
        for name, value in theirs[1].items():
            if isinstance(value, str):
                assert ours[1][name] == value
            else:
                np.testing.assert_allclose(ours[1][name], value, rtol=1e-12)
    assert compiled.stats.live or fn is raises


@pytest.mark.parametrize("fn", [f for f in (*PURE, *ACTING) if f is not raises], ids=lambda fn: fn.__name__)
def test_gradients_are_right(fn):
    compiled = live(fn)
    with contextlib.redirect_stdout(io.StringIO()):
        for k in range(2):
            x = X + 0.1 * k
            _, gradient = compiled.value_and_grad(x, state())
            expected = numerical_gradient(lambda v: fn(v, state()), (x,))
            np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "fn", [carried, two_deep, zipped, rows_written, counts, zipped_within], ids=lambda fn: fn.__name__
)
def test_iterations_that_compute_are_one_node(fn):
    compiled = live(fn)
    compiled.value_and_grad(X, state())
    assert "rolled: the loop" in compiled.explain(X, state(), level="all")
