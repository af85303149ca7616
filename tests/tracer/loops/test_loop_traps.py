# ruff: noqa: B006, B007, B023  (mutable defaults, loop variables and late binding are what is tested)
"""Traps in loops: what looks like one repeated step and is not.

Each trap is made twice, from a maker that is given ``np``: compiled, and over dual numbers, which run its Python as it
stands.  Both are called in step, so what a function changes of its own state stays equal, and that is compared too.
Loops are long enough that it would pay to take them for repeated steps.
"""

from __future__ import annotations

import itertools
import types
from collections import deque
from typing import Any

import numpy as np
import pytest
from dual import Dual, numpy_for_duals, value_of, with_tangents

from tracegrad import MutationError, compile_grad

RNG = np.random.default_rng(11)
X = [RNG.normal(size=4) for _ in range(3)]
ORDER = (0, 0, 0, 1, 0, 2, 1, 2, 0)
DATA = RNG.normal(size=(40, 4))
FOUR = np.array([1.0, 2.0, 3.0, 4.0])


def follow(make, *, inputs=X, order=ORDER, extra=lambda call: (), between=lambda call, space: None):
    """Call both, again and again: equal values, derivatives, exceptions, states (``fn.state()``, if there is one)."""
    ours, exact = make(np), make(numpy_for_duals)
    compiled = compile_grad(ours)
    draw = np.random.default_rng(5)
    for call, which in enumerate(order):
        x, more = inputs[which], extra(call)
        for fn in (ours, exact):
            between(call, fn)
        v = draw.normal(size=np.shape(x))
        try:
            wanted = exact(with_tangents(x, v), *more)
        except Exception as error:
            with pytest.raises(type(error)) as raised:
                compiled.value_and_grad(x, *more)
            assert _line(raised.value) == _line(error), "another line of the function"
        else:
            value, gradient = compiled.value_and_grad(x, *more)
            slope = wanted.tangent if isinstance(wanted, Dual) else 0.0
            np.testing.assert_allclose(value, value_of(wanted), rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(np.sum(gradient * v), slope, rtol=1e-8, atol=1e-9)
        if hasattr(ours, "state"):
            np.testing.assert_allclose(ours.state(), value_of(exact.state()), rtol=1e-9, atol=1e-12)
    return compiled


def _line(error):
    """The number of the last line of this file that the exception went through."""
    numbers = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == __file__:
            numbers.append(trace.tb_lineno)
        trace = trace.tb_next
    return numbers[-1]


def with_state(fn, state):
    fn.state = state
    return fn


# ---- state that a loop changes -----------------------------------------------------------------------------------


def test_local_counter_decides_late():
    def make(np):
        def f(x):
            count = 0
            for row in DATA[:30]:
                count += 1
                x = np.tanh(x + row) if count < 25 else 0.5 * x
            return np.sum(x) * count

        return f

    follow(make)


def test_counter_in_an_attribute_goes_on_from_call_to_call():
    def make(np):
        box = types.SimpleNamespace(count=0)

        def f(x):
            for row in DATA[:20]:
                box.count += 1
                x = np.tanh(x + row / box.count)
            return np.sum(x)

        return with_state(f, lambda: [box.count])

    follow(make)


def test_counter_is_the_length_of_an_outside_list():
    def make(np):
        seen = []

        def f(x):
            for i in range(20):
                seen.append(i)
                x = np.sin(x + 1.0 / len(seen))
            return np.sum(x)

        return with_state(f, lambda: [len(seen)])

    follow(make)


@pytest.mark.slow
def test_counter_in_a_closure_cell():
    def make(np):
        count = 0

        def f(x):
            nonlocal count
            for row in DATA[:25]:
                count += 1
                if count % 7 == 3:
                    x = x * 0.5
                x = np.tanh(x + row)
            return np.sum(x)

        return with_state(f, lambda: [count])

    follow(make)


total_steps = 0


def test_counter_in_a_global():
    global total_steps

    def f(x):
        global total_steps
        for row in DATA[:20]:
            total_steps += 1
            x = np.tanh(x * 0.9 + row) * (1.0 + 1.0 / total_steps)
        return np.sum(x)

    compiled = compile_grad(f)
    for which in ORDER:
        before = total_steps
        wanted = f(X[which])
        after, total_steps = total_steps, before
        value, _ = compiled.value_and_grad(X[which])
        assert value == pytest.approx(wanted, rel=1e-12)
        assert total_steps == after == before + 20


def test_mutable_default_collects_over_calls():
    def make(np):
        def f(x, kept=[]):
            for row in DATA[:20]:
                kept.append(1.0)
                x = np.tanh(x + row * len(kept) * 0.01)
            return np.sum(x)

        return with_state(f, lambda: [len(f.__defaults__[0])])

    follow(make)


def test_list_grows_and_shrinks_in_the_loop():
    def make(np):
        def f(x):
            queue = [x, x * 0.5]
            for i in range(30):
                first = queue.pop(0)
                queue.append(np.tanh(first * 0.8 + queue[0] * 0.3))
                if i % 6 == 5:
                    queue.insert(1, first)
            return sum(np.sum(q) * (k + 1) for k, q in enumerate(queue))

        return f

    follow(make)


def test_dict_gets_new_keys_in_the_loop():
    def make(np):
        def f(x):
            found = {"start": x}
            for i in range(24):
                name = "even" if i % 2 == 0 else f"odd {i % 6}"
                found[name] = np.sin(found.get(name, x) + 0.1 * i)
            return sum(np.sum(v) * (k + 1) for k, v in enumerate(found.values())) + len(found)

        return f

    follow(make)


def test_list_of_operands_changed_in_the_loop():
    def make(np):
        def f(x):
            weights = [1.0, 2.0, 3.0]
            for i in range(21):
                x = np.tanh(weights[i % 3] * x)
                weights[i % 3] *= 0.9
            return np.sum(x)

        return f

    follow(make)


# ---- state that changes between calls ------------------------------------------------------------------------------


def test_captured_values_change_between_calls():
    def make(np):
        box = types.SimpleNamespace(rate=0.5, weights=[FOUR / 4, FOUR[::-1] / 5])
        rows = DATA[:20].copy()

        def f(x):
            for i, row in enumerate(rows):
                x = np.tanh(box.rate * x + row * box.weights[i % 2])
            return np.sum(x)

        f.box, f.rows = box, rows
        return f

    def between(call, f):
        if call == 4:
            f.rows[7] += 1.0
        elif call == 5:
            f.box.rate = -0.25
        elif call == 6:
            f.box.weights[1] = FOUR * 0.1
        elif call == 7:
            f.box.weights.reverse()

    follow(make, between=between)


def test_closure_cell_rebound_between_calls():
    def make(np):
        rate, steps = 0.5, 20

        def f(x):
            for i in range(steps):
                x = np.sin(x * rate + 0.1)
            return np.sum(x)

        def rebind(new_rate, new_steps):
            nonlocal rate, steps
            rate, steps = new_rate, new_steps

        f.rebind = rebind
        return f

    def between(call, f):
        if call in (4, 6):
            f.rebind(0.25 * call, 20 + call)

    follow(make, between=between)


def test_trip_count_changed_between_calls():
    def make(np):
        def f(x, n):
            for i in range(n):
                x = np.tanh(x + 0.1 * i)
            return np.sum(x)

        return f

    follow(make, extra=lambda call: ((20, 20, 20, 21, 40, 0, 1, 20, 2)[call],))


def test_length_of_an_array_changed_between_calls():
    def make(np):
        def f(x, rows):
            s = 0.0
            for i in range(len(rows)):
                x = np.tanh(x + rows[i] * (i + 1) / len(rows))
                s += x[0]
            return np.sum(x) + s

        return f

    follow(make, extra=lambda call: (DATA[: (20, 20, 20, 24, 20, 0, 1, 33, 20)[call]],))


# ---- aliases -----------------------------------------------------------------------------------------------------


def test_one_array_passed_twice():
    def make(np):
        def f(x, y):
            for i in range(20):
                x, y = np.tanh(x + y), x * 0.5
            return np.sum(x * y)

        return f

    compiled, exact = compile_grad(make(np)), make(numpy_for_duals)
    v = np.array([1.0, -0.5, 2.0, 0.1])
    other = X[1]
    for x, y in ((X[0], X[0]), (X[0], X[0]), (X[0], other), (other, other[::-1]), (X[0], X[0]), (X[2], X[2].copy())):
        wanted = exact(Dual(x.copy(), v), y)
        value, gradient = compiled.value_and_grad(x, y)
        assert value == pytest.approx(wanted.value, rel=1e-12)
        assert gradient @ v == pytest.approx(wanted.tangent, rel=1e-9)


def test_names_in_the_loop_are_one_array_then_two():
    def make(np):
        def f(x):
            a = x * 1.0
            b = a
            for i in range(24):
                a += 0.1 * np.sin(b)
                if i == 11:
                    b = b.copy()
            return np.sum(a * b)

        return f

    follow(make)


def test_kept_rows_are_one_buffer():
    """A list of the same array, written on: every entry shows the last step."""

    def make(np):
        def f(x):
            h, kept = x * 1.0, []
            for row in DATA[:20]:
                h *= 0.5
                h += np.tanh(row)
                kept.append(h)
            return np.sum(np.stack(kept)) + np.sum(kept[3] * kept[-1])

        return f

    follow(make)


def test_writing_into_a_view_of_the_carried_array():
    def make(np):
        def f(x):
            h = np.zeros_like(x) + x
            tail = h[1:]
            for i in range(22):
                tail *= 0.9
                h[0] = np.sin(h[1]) + 0.1 * i
                tail += h[:-1] * 0.1
            return np.sum(h * h)

        return f

    follow(make)


def test_writing_into_the_argument_is_refused_and_leaves_it_alone():
    def f(x):
        s = 0.0
        for i in range(20):
            s = s + x[i % 4]
            if i == 17:
                x[0] = 1.0
        return s

    x = X[0].copy()
    for _ in range(3):
        with pytest.raises(MutationError):
            compile_grad(f).value_and_grad(x)
        np.testing.assert_array_equal(x, X[0])


# ---- exceptions and early ends -----------------------------------------------------------------------------------


class NegativeError(ValueError):
    pass


def test_exception_in_a_late_iteration():
    def make(np):
        log = []

        def f(x):
            for i, row in enumerate(DATA[:30]):
                x = np.tanh(x * 0.9 + row * 0.2)
                log.append(i)
                if x[0] < -0.45:
                    raise NegativeError(f"at {i}")
            return np.sum(x)

        return with_state(f, lambda: [len(log), *log[-2:]])

    inputs = [*X, np.array([-3.0, 0.0, 1.0, 2.0]), np.array([3.0, 0.0, 1.0, 2.0])]
    follow(make, inputs=inputs, order=(0, 3, 4, 0, 3, 1, 2, 4, 3, 0))


def test_exception_of_python_in_a_late_iteration():
    def make(np):
        def f(x, table):
            for i in range(25):
                x = np.sin(x + table[i])
            return np.sum(x)

        return f

    whole = [0.1 * i for i in range(25)]
    follow(make, extra=lambda call: (whole if call % 3 else whole[:21],))


def test_exception_caught_inside_the_loop():
    def make(np):
        def f(x):
            missed = 0
            for i in range(25):
                try:
                    x = np.tanh(x + {0: 0.5, 1: 0.25, 2: -0.5}[i % 4])
                except KeyError:
                    missed += 1
                finally:
                    x = x * 0.99
            return np.sum(x) * missed

        return f

    follow(make)


def test_early_return_in_the_third_iteration():
    def make(np):
        def f(x):
            for i in range(40):
                x = np.tanh(x + 0.2)
                if i == 2 and x[0] > 0.6:
                    return np.sum(x) * 10.0
            return np.sum(x)

        return f

    follow(make, inputs=[np.full(4, -2.0), np.full(4, 1.5), np.full(4, 0.0)])


def test_break_at_an_iteration_that_data_decides():
    def make(np):
        def f(x):
            for i in range(40):
                x = x * 0.9
                if np.max(x) < 0.5:
                    break
            else:
                i = -1
            return np.sum(x) + 0.1 * i

        return f

    inputs = [np.array([1.0, 0.2, 0.1, 0.0]) * k for k in (1.0, 4.0, 400.0, 0.1)]
    follow(make, inputs=inputs, order=(0, 0, 0, 1, 2, 3, 1, 0, 2, 3))


def test_loop_variable_after_the_loop():
    def make(np):
        def f(x, rows):
            i, row = -1, x
            for i, row in enumerate(rows):
                x = np.tanh(x + row)
            return np.sum(x * row) + i

        return f

    follow(make, extra=lambda call: (DATA[: (20, 20, 20, 1, 0, 30, 20, 0, 20)[call]],))


# ---- special numbers and empty arrays ------------------------------------------------------------------------------


def test_nan_in_a_guard_of_the_loop():
    def make(np):
        def f(x):
            taken = 0
            for row in DATA[:20]:
                if x[0] > row[0]:
                    taken += 1
                if not x[0] <= row[0]:  # true of NaN as well
                    taken += 100
            return np.sum(x[1:]) * taken

        return f

    holes = [np.array([v, 1.0, 2.0, 3.0]) for v in (0.1, np.nan, np.inf, -np.inf)]
    follow(make, inputs=holes, order=(0, 1, 0, 1, 1, 2, 3, 2, 0, 1))


def test_infinity_appears_in_the_loop():
    def make(np):
        def f(x):
            s = 1.0
            for i in range(30):
                s = s * x[0]
                if s > 1e300:
                    return np.sum(x[1:]) * i
            return np.sum(x[1:]) + s

        return f

    follow(make, inputs=[np.array([v, 1.0, 2.0, 3.0]) for v in (0.9, 1e20, np.inf)])


def test_loop_over_an_empty_array():
    def make(np):
        def f(x, rows):
            h = x
            for row in rows:
                h = np.tanh(h + row)
            for i in range(rows.shape[0], rows.shape[0]):
                h = h * np.nan
            return np.sum(h)

        return f

    follow(make, extra=lambda call: (DATA[: (0, 0, 0, 1, 0, 20, 0, 20, 1)[call]],))


# ---- loops that change while they run ------------------------------------------------------------------------------


def test_body_changes_at_iteration_ten():
    def make(np):
        def f(x):
            for i in range(40):
                x = np.tanh(x * 0.9 + 0.1)
                if i == 10:
                    x = np.sin(x) + x[0]
            return np.sum(x)

        return f

    follow(make)


def test_only_a_number_changes_at_iteration_ten():
    def make(np):
        def f(x):
            rate = 0.5
            for i in range(40):
                x = np.tanh(x * rate + 0.1)
                if i == 10:
                    rate = 0.75
            return np.sum(x)

        return f

    follow(make)


def test_last_iteration_differs():
    def make(np):
        def f(x, n):
            for i in range(n):
                x = np.tanh(x + DATA[i])
                if i < n - 1:
                    x = x[::-1]
            return np.sum(x * FOUR)

        return f

    follow(make, extra=lambda call: ((30, 30, 30, 31, 30, 1, 30, 31, 30)[call],))


def test_numbers_that_follow_no_rule():
    """Nearly an arithmetic row of constants: one is off."""

    def make(np):
        steps = [0.1 * i for i in range(30)]
        steps[17] = 1.75

        def f(x):
            for step in steps:
                x = np.sin(x + step)
            return np.sum(x)

        return f

    follow(make)


def test_rows_in_an_order_that_follows_no_rule():
    def make(np):
        order = [*range(12), 14, 13, 12, *range(15, 30), 3]

        def f(x, rows):
            for i in order:
                x = np.tanh(x * 0.8 + rows[i])
            return np.sum(x)

        return f

    follow(make, extra=lambda call: (DATA[::-1] if call % 2 else DATA,))


def test_dtype_changes_in_the_first_iteration():
    def make(np):
        def f(x):
            count, s = 0, 0
            for i in range(20):
                s = s + x[i % 4]
                count = count + (1 if i < 15 else 0.5)
            return s * count

        return f

    follow(make)


def test_float32_becomes_float64_on_the_way():
    def f(x):
        h = np.zeros_like(x).astype(np.float32) + np.float32(0.1)
        for i in range(24):
            h = h * np.float32(0.7) if i < 12 else h + x
        return np.sum(h)

    compiled = compile_grad(f)
    for which in ORDER:
        value, gradient = compiled.value_and_grad(X[which])
        np.testing.assert_allclose(value, f(X[which]), rtol=1e-9)
        np.testing.assert_allclose(gradient, np.full(4, 12.0))
        assert np.asarray(value).dtype == np.float64


def test_shape_grows_in_each_iteration():
    def make(np):
        def f(x, n):
            h = x[:1]
            for i in range(n):
                h = np.append(h, np.sin(h[-1] + x[i % 4]))
            return np.sum(h)

        return f

    follow(make, extra=lambda call: (12 + call // 6,))


def test_two_interleaved_recurrences():
    def make(np):
        def f(x):
            a, b = x, x * 0.5
            for i in range(30):
                if i % 2 == 0:
                    a = np.tanh(a + 0.3 * b)
                else:
                    b = np.sin(b - a)
            return np.sum(a * b)

        return f

    follow(make)


def test_values_two_and_three_steps_back():
    def make(np):
        def f(x):
            a, b, c = x, x[::-1], x * x
            for i in range(31):
                a, b, c = b, c, np.tanh(a - 0.5 * c)
            return np.sum(a) + 2.0 * np.sum(b) + 3.0 * np.sum(c)

        return f

    follow(make)


# ---- iterators, generators, functions in loops ---------------------------------------------------------------------


def test_generator_with_state():
    def make(np):
        def rates(n):
            rate = 1.0
            for i in range(n):
                rate = rate * 0.9 if i % 3 else rate + 0.05
                yield i, rate

        def f(x):
            for i, rate in rates(25):
                x = np.tanh(x * rate + 0.01 * i)
            return np.sum(x)

        return f

    follow(make)


def test_iterator_consumed_from_outside():
    def make(np):
        numbers = itertools.count(1)

        def f(x):
            for i, k in zip(range(20), numbers, strict=False):
                x = np.sin(x + 1.0 / k)
            return np.sum(x)

        return with_state(f, lambda: [int(repr(numbers)[6:-1])])

    follow(make)


def test_generator_resumed_from_outside():
    def make(np):
        def forever():
            k = 0
            while True:
                k += 1
                yield k

        numbers = forever()

        def f(x):
            for i in range(20):
                x = np.sin(x + 1.0 / next(numbers))
            return np.sum(x)

        return with_state(f, lambda: [numbers.gi_frame.f_locals["k"] if numbers.gi_frame.f_locals else 0])

    follow(make)


def test_iterating_over_a_dict():
    def make(np):
        def f(x, rates):
            for name, rate in rates.items():
                x = np.tanh(x * rate) if name.startswith("t") else np.sin(x + rate)
            return np.sum(x)

        return f

    rates = {f"{'t' if i % 5 else 's'}{i}": 1.0 / (i + 1) for i in range(25)}
    backwards = dict(reversed(rates.items()))
    follow(make, extra=lambda call: (backwards if call in (4, 6) else rates,))


def test_recursive_loop():
    def make(np):
        def grow(x, depth):
            for i in range(3):
                x = np.tanh(x + 0.1 * i - 0.2 * depth)
                if depth < 2:
                    x = 0.5 * x + 0.5 * grow(x, depth + 1)
            return x

        return lambda x: np.sum(grow(x, 0))

    follow(make)


def test_lambdas_bind_the_loop_variable_late():
    def make(np):
        def f(x):
            late, early = [], []
            for i in range(20):
                late.append(lambda v: v * i)
                early.append(lambda v, i=i: v * i)
            s = 0.0
            for first, second in zip(late, early, strict=True):
                s = s + np.sum(np.sin(first(x)) + np.cos(second(x)))
            return s

        return f

    follow(make)


def test_function_exchanged_in_the_loop():
    def make(np):
        def f(x):
            act = np.tanh
            for i in range(30):
                x = act(x * 0.9 + 0.05)
                if i == 14:
                    act = np.sin
            return np.sum(x)

        return f

    follow(make)


# ---- guards, while, indices ----------------------------------------------------------------------------------------


def test_guards_inside_nested_loops():
    def make(np):
        def f(x):
            s = 0.0
            for i in range(6):
                for j in range(4):
                    if x[j] > 0.3 * i - 0.6:
                        s = s + x[j] * (i + 1)
                    elif j == 2:
                        break
                else:
                    s = s * 0.5
            return s

        return f

    follow(make)


@pytest.mark.slow
def test_while_whose_side_counter_decides():
    """The data alone would go on: a count of Python's ends it, and changes what a step is."""

    def make(np):
        def f(x, patience):
            left, step = patience, 0
            while np.sum(x * x) > 1e-30 and left > 0:
                x = 0.8 * x
                step += 1
                if step % 8 == 0:
                    left -= 1
                    x = np.sin(x)
            return np.sum(x) * 1e3 + step

        return f

    follow(make, extra=lambda call: ((4, 4, 4, 4, 3, 4, 5, 3, 4)[call],))


def test_while_with_a_flag_set_in_the_body():
    def make(np):
        def f(x):
            running, low = True, False
            while running:
                x = 0.9 * x
                if low:
                    x = x + 0.01
                low = bool(x[0] < 0.5)
                running = bool(np.max(x) > 0.2)
            return np.sum(x)

        return f

    follow(make, inputs=[np.array([0.9, 0.1, 0.2, 0.3]) * k for k in (1.0, 3.0, 0.1)])


def test_while_until_converged():
    def make(np):
        def f(x):
            root, before, rounds = x[0] * x[0] + 1.0, 0.0, 0
            while abs(root - before) > 1e-9:
                before = root
                root = 0.5 * (root + (2.0 + x[1] * x[1]) / root)
                rounds += 1
            return root + x[2] * rounds

        return f

    follow(make, inputs=[*X, np.array([30.0, 0.1, 0.2, 0.3])], order=(0, 3, 0, 3, 3, 1, 2, 0, 3))


def test_reading_the_element_written_before():
    def make(np):
        def f(x, rows):
            out = np.zeros_like(rows)
            for i in range(len(rows)):
                out[i] = np.tanh((out[i - 1] if i else x) + rows[i])
            for i in range(17, len(rows)):
                out[i] += 0.5 * out[i - 2]
            return np.sum(out * out)

        return f

    follow(make, extra=lambda call: (DATA[: 20 + call % 2],))


def test_carry_of_whole_numbers_decides_an_index():
    def make(np):
        def f(x, rows):
            at = 0
            for i in range(30):
                x = np.tanh(x * 0.9 + rows[at])
                at = (at * 5 + 3) % len(rows)
            return np.sum(x)

        return f

    follow(make, extra=lambda call: (DATA[: 20 + call % 2],))


def test_data_decides_an_index():
    def make(np):
        def f(x, rows):
            for i in range(20):
                x = np.tanh(x * 0.9 + rows[int(np.argmax(x)) + i])
            return np.sum(x)

        return f

    follow(make, extra=lambda call: (DATA,))


def test_writing_at_an_index_that_data_decides():
    def make(np):
        def f(x, picks):
            out = np.zeros_like(x)
            for i in range(len(picks)):
                out[picks[i]] = np.sin(x[i % 4]) + out[picks[i] - 1]
            return np.sum(out * out)

        return f

    picks = [np.array(list(itertools.islice(itertools.cycle(row), 21))) for row in ((0, 2, 1), (3, 3, 0, 1), (2,))]
    follow(make, extra=lambda call: (picks[call % 3 if call > 2 else 0],))


def test_element_before_in_a_carried_list():
    def make(np):
        def f(x):
            path = [x]
            for i in range(1, 30):
                path.append(np.tanh(path[i - 1] - 0.5 * path[max(i - 3, 0)]))
            return np.sum(np.stack(path)[::3]) + np.sum(path[-1])

        return f

    follow(make)


def test_sum_of_the_rows_so_far():
    def make(np):
        def f(x):
            total = np.sum(x) * 0.0
            rows = []
            for i in range(24):
                rows.append(np.sin(x + 0.1 * i))
                total = total + 0.1 * np.sum(sum(rows[-3:]))
            return total + len(rows)

        return f

    follow(make)


# ---- lists and deques outside, that a loop appends to and looks at ---------------------------------------------------

FOUND: Any = deque()
LISTED: list[Any] = []


def length_of_a_deque(x):
    s = np.sum(x * x)
    for _ in range(20):
        FOUND.append(s)
        s = s * 0.9 + 0.1 * len(FOUND)
    return s


def length_left_early(x):
    s = np.sum(x * x)
    for j in range(20):
        FOUND.append((j, np.tanh(s)))
        s = s + 0.1 * len(FOUND)
        if j > 11:
            return s
    return s


def truth_of_a_list(x):
    s = np.sum(x * x)
    for _ in range(20):
        LISTED.append(s)
        s = s * 0.9 + 0.1 * (len(LISTED) if LISTED else 3)
    return s


def last_of_a_deque(x):
    s = np.sum(x * x)
    for _ in range(20):
        FOUND.append(s)
        s = s * 0.9 + 0.1 * FOUND[-1] + 0.01 * FOUND[0]
    return s


@pytest.mark.parametrize("f", [length_of_a_deque, length_left_early, truth_of_a_list, last_of_a_deque])
def test_containers_outside_grow_and_are_looked_at(f):
    compiled = compile_grad(f)
    for x in (np.array([0.5, 1.5]), np.array([0.7, 0.2])):
        for _ in range(2):
            left = []
            for call in (f, compiled):
                FOUND.clear()
                LISTED.clear()
                value = float(call(x))
                left.append((value, [np.asarray(item, float).tolist() for item in (*FOUND, *LISTED)]))
            assert left[1][0] == pytest.approx(left[0][0], rel=1e-12)
            assert len(left[0][1]) == len(left[1][1])
            np.testing.assert_allclose(left[1][1], left[0][1])


TABLE = [[0.5, 1.0], [1.5, 2.0]]


def test_a_table_outside_is_left_as_it_was():
    def counted(v, into):
        into.append(v)
        return len(into)

    def f(x, into):
        w = x[0] + 2.0
        while w > 0.7:
            w = w * 0.6
            counted((1, TABLE[counted(1.0, into) % 2][0]), into)
        return w

    compiled = compile_grad(f)
    for _ in range(3):
        plain, found = [], []
        x = np.array([0.5, 1.5])
        assert compiled(x, found) == pytest.approx(f(x, plain))
        assert plain == found and TABLE == [[0.5, 1.0], [1.5, 2.0]]
        assert all(type(item) is float for row in TABLE for item in row)
