"""Draws from generators outside: each call makes them again, and leaves the generators as Python does."""

from __future__ import annotations

import contextlib
import random
import threading

import numpy as np
import pytest

import tracegrad
import tracegrad.random
from tracegrad import compile_grad

rng, legacy, python = np.random.default_rng(1), np.random.RandomState(2), random.Random(3)
DATA = np.linspace(-1.0, 1.0, 40).reshape(10, 4)
X = np.linspace(0.1, 1.0, 6)
CALLS = [X, X + 0.1, X + 0.2, np.linspace(-0.5, 1.0, 7), X + 0.3, np.linspace(0.3, 1.0, 7), X - 0.3]


class Dropout:
    def __init__(self):
        self.rng = np.random.RandomState(4)

    def __call__(self, x):
        return x * (self.rng.uniform(size=x.shape) > 0.3)


dropout = Dropout()


def noise(x):
    return np.sum(np.sin(x + rng.normal(size=x.shape)))


def of_the_module(x):
    return np.sum(x * legacy.randn(*x.shape)) + np.random.rand()


def of_python(x):
    return np.sum(x) * random.random() + random.gauss(0, 1) + python.uniform(1, 2)


def a_branch_between(x):
    if rng.random() < 0.5:
        return np.sum(x * rng.normal())
    return np.sum(x**2 * rng.uniform(1, 2))


def a_branch_on_data(x):
    if x[0] > 0:
        return np.sum(x) * rng.random()
    first, _ = rng.normal(size=2)
    return np.sum(x) * first


def positions(x):
    i, j, k = rng.integers(0, 10), np.random.randint(10), random.randrange(10)
    return np.sum(x[:4] * (DATA[i] + 2 * DATA[j] + 3 * DATA[k])) + np.sum(x[rng.permutation(x.size)] * x)


def a_batch(x):
    chosen = rng.integers(0, 10, size=3)
    return np.sum(x[:4] * DATA[chosen]) + np.sum(x[:4] * rng.choice(DATA, 2))


def shuffled(x):
    y, order, rows = x * 1.0, np.arange(x.size), np.outer(x, x)
    rng.shuffle(y)
    legacy.shuffle(order)
    rng.shuffle(rows)
    return np.sum(y * np.arange(x.size)) + np.sum(x[order] * np.arange(x.size)) + rows[0] @ x


def traced_parameters(x):
    drawn = rng.normal(x, 1.0), np.random.normal(loc=x[0], scale=2.0, size=3), rng.lognormal(x[0], 0.2, x.size)
    return sum(map(np.sum, drawn))


def through_objects(x):
    return np.sum(dropout(dropout(x)) ** 2)


def seeded(x):
    np.random.seed(3)
    return np.sum(x * np.random.rand(x.size))


def chosen(x):
    return np.sum(x) * random.choice([1.0, 2.0, 5.0]) + x[random.choice((0, 1, 2))]


def distributions(x):
    of_generator = rng.standard_t(5) + rng.beta(1, 2) + rng.gamma(2.0) + rng.vonmises(0, 1) + rng.dirichlet([1, 2.0])[0]
    counts = rng.poisson(3.0) + rng.binomial(5, 0.3)
    return np.sum(x * rng.standard_normal(x.size, dtype=np.float32)) * of_generator + counts * x[0]


def written(x):
    z = rng.normal(size=3)
    z[0] = 1.0
    z *= 2
    return z @ x[:3]


def ignored(x):
    for _ in range(3):
        np.random.rand()
    return np.sum(x) * np.random.rand()


def masks(x):
    mask = np.random.binomial(1, 0.5, size=x.shape) / 0.5
    return np.sum((x * mask) ** 2) + np.mean(x + np.exp(x) * np.random.standard_normal(x.shape))


def counts(x):
    return np.sum(x[: rng.integers(2, 5)])


def filled(x):
    buffer = np.zeros(3)
    rng.random(out=buffer)
    return buffer @ x[:3]


STRAIGHT = [
    noise, of_the_module, of_python, a_branch_between, a_branch_on_data, positions, a_batch, shuffled,
    traced_parameters, through_objects, seeded, chosen, distributions, written, ignored, masks, counts, filled,
]  # fmt: skip


def scalars(x):
    s = 0.0
    for _ in range(100):
        s = s * 0.9 + x[0] * rng.normal()
    return s


def vectors(x):
    s = np.zeros(2)
    for _ in range(50):
        s = s * 0.9 + x[:2] * rng.normal(size=2) + legacy.rand()
    return s.sum()


def nested(x):
    s = 0.0
    for _ in range(6):
        s = s + legacy.rand()
        for _ in range(20):
            s = s * 0.9 + x[0] * rng.normal()
        s = s + rng.uniform(0, 1)
    return s + rng.random()


def in_some(x):
    s = 0.0
    for t in range(60):
        s = s + (x[0] * rng.normal() if t % 3 == 0 else 0.1)
    return s


def left_early(x):
    s = x[0] * 1.0
    for _ in range(100):
        s = s + rng.random()
        if s > 20:
            break
    return s * rng.random()


def while_it_counts(x):
    n, s = 0, x[0]
    while n < 40:
        s = s * 0.9 + rng.random()
        n += 1
    return s


def a_sum(x):
    return sum(x[0] * rng.normal() for _ in range(40)) + np.sum([rng.normal() * v for v in x])


def a_history(x):
    values, y = [], x[0]
    for _ in range(40):
        y = y + 0.1 * rng.normal()
        values.append(y)
    return np.sum(np.array(values) ** 2)


def moved(y, generator):
    return y * 0.99 + 0.1 * generator.standard_normal(3)


def through_a_function(x):
    y = x[:3]
    for _ in range(64):
        y = moved(y, rng)
    return y @ y


def of_rows(x):
    s = 0.0
    for _ in range(40):
        s = s + x[:4] @ DATA[rng.integers(0, 10)] + np.sum(x[:4] * DATA[rng.permutation(10)[:3]])
    return s


def of_python_rows(x):
    s = 0.0
    for _ in range(40):
        s = s + x[:4] @ DATA[np.random.randint(10)] + random.gauss(0, 1)
    return s


def walk(x):
    y = x[0]
    for _ in range(30):
        if rng.random() < 0.5:
            y = y + rng.normal()
        else:
            y = y * 0.5
    return y


def accepted(x):
    y = x[0]
    for _ in range(30):
        moved = y + rng.normal()
        y = np.where(rng.random() < 0.5, moved, y * 0.5) + 0.1 * rng.normal(y, 0.1)
    return y


def epochs(x):
    s = 0.0
    for _ in range(30):
        order = np.arange(10)
        rng.shuffle(order)
        s = s + x[:4] @ DATA[order[0]]
    return s


LOOPS = [
    scalars, vectors, nested, in_some, left_early, while_it_counts, a_sum, a_history, through_a_function, of_rows,
    of_python_rows, walk, accepted, epochs,
]  # fmt: skip


def begin():
    """Put all generators in the same states."""
    for generator, seed in ((rng, 1), (dropout.rng, 2), (legacy, 3), (np.random, 4), (random, 5), (python, 6)):
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state
        else:
            generator.seed(seed)


def states():
    of_numpy = [repr(g.get_state()) for g in (legacy, dropout.rng, np.random)]
    return [repr(rng.bit_generator.state), *of_numpy, random.getstate(), python.getstate()]


@pytest.fixture(autouse=True)
def _generators_are_left_as_they_were():
    of_numpy, of_python = np.random.get_state(), random.getstate()
    yield
    np.random.set_state(of_numpy)
    random.setstate(of_python)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("plain", [*STRAIGHT, *LOOPS])
@pytest.mark.parametrize("mode", ["value", "value_and_grad"])
def test_numbers_and_what_is_drawn_afterwards_are_pythons(plain, mode):
    begin()
    expected = [plain(x) for x in CALLS]
    left = states()
    f = compile_grad(plain)
    begin()
    found = [f(x) if mode == "value" else f.value_and_grad(x)[0] for x in CALLS]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert states() == left
    ways = plain in (a_branch_between, counts, left_early, walk)  # another one in almost every call
    assert ways or (not f.stats.live and f.stats.traces <= 4)


@pytest.mark.parametrize(
    "name", "normal standard_normal random random_sample uniform exponential laplace lognormal rand randn".split()
)
def test_a_loop_of_one_draw_each(name):
    """Where NumPy gives them so, the numbers are drawn at once."""

    def f(x, generator):
        s = 0.0
        for _ in range(33):
            s = s * 0.9 + x[0] * getattr(generator, name)()
        return s

    for made in (np.random.default_rng, np.random.RandomState, random.Random):
        ours, theirs, g = made(5), made(5), compile_grad(f)
        if not hasattr(ours, name) or (made is random.Random and name == "uniform"):
            continue
        for _ in range(3):
            assert g(X, ours) == pytest.approx(f(X, theirs), rel=1e-12)
            assert getattr(ours, name)() == getattr(theirs, name)()
        assert not g.stats.live


table, weights, shares, covariance = [1.0, 2.0, 3.0], np.array([0.1, 0.2, 0.3, 0.4]), [0.5, 0.5], np.eye(2)
PARAMETERS = {
    "a list": lambda x: np.sum(x) * random.choice(table),
    "probabilities": lambda x: x[rng.choice(4, p=weights)],
    "a list of them": lambda x: np.sum(x) * rng.choice([1.0, 2.0], p=shares),
    "a covariance": lambda x: rng.multivariate_normal(np.zeros(2), covariance) @ x[:2],
    "means": lambda x: np.sum(rng.normal(weights, shares[0], size=4)) * x[0],
    "bounds": lambda x: np.sum(rng.integers(int(table[0]), 10, size=3) * x[:3]),
}


@pytest.mark.parametrize("plain", PARAMETERS.values(), ids=PARAMETERS)
def test_parameters_outside_are_those_of_now(plain):
    def calls(call):
        found = []
        table[:], weights[:], shares[:], covariance[0, 0] = [1.0, 2.0, 3.0], [0.1, 0.2, 0.3, 0.4], [0.5, 0.5], 1.0
        begin()
        for k in range(6):
            if k == 3:
                table[:2], weights[:], shares[:], covariance[0, 0] = [4.0, 9.0], [0.7, 0.1, 0.1, 0.1], [0.1, 0.9], 4.0
                table.append(7.0)
            found.append(float(call(X + 0.01 * k)))
        return found, states()

    f = compile_grad(plain)
    expected, found = calls(plain), calls(f)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    assert found[1] == expected[1] and not f.stats.live and f.stats.traces <= 3


@pytest.mark.parametrize("first", [True, False])
def test_beside_draws_of_the_default_stream(first):
    def plain(x):
        if first:
            return np.sum(x) * rng.normal() * tracegrad.random.normal(shape=())
        return np.sum(x) * tracegrad.random.normal(shape=()) * rng.normal()

    found = []
    for call in (plain, compile_grad(plain)):
        begin()
        tracegrad.random.seed(3)
        found += [[float(call(X)) for _ in range(4)], states()]
    np.testing.assert_allclose(found[2], found[0], rtol=1e-12)
    assert found[3] == found[1]


def test_gradients():
    for plain in (noise, traced_parameters, shuffled, scalars, accepted):
        f = compile_grad(plain)
        for _ in range(2):
            begin()
            gradient = f.grad(X)
        slopes = []
        for step in 1e-6 * np.eye(X.size):
            begin()
            above = plain(X + step)
            begin()
            slopes.append((above - plain(X - step)) / 2e-6)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-7)


def test_a_loop_is_one_whatever_the_number_of_its_iterations():
    def walks(x, n):
        for _ in range(n):
            x = x * 0.99 + 0.1 * rng.normal()
        return x

    f = compile_grad(walks)
    for n in (300, 3000):
        begin()
        expected = walks(0.5, n)
        for _ in range(2):
            begin()
            assert f(0.5, n) == pytest.approx(expected, rel=1e-9)
    assert "rolled: the loop" in f.explain(0.5, 3000)


def test_each_call_may_have_a_generator_of_its_own():
    def f(x, generator):
        return np.sum(x * generator.normal(size=x.size))

    g = compile_grad(f)
    for seed in range(6):
        assert g(X, np.random.default_rng(seed)) == pytest.approx(f(X, np.random.default_rng(seed)))
    assert g.stats.traces == 1


def test_two_names_of_one_generator():
    first, second = np.random.default_rng(1), np.random.default_rng(2)

    def f(x, a, b):
        return x * a.normal() + b.normal()

    g = compile_grad(f)
    for a, b in ((first, second), (first, first), (second, first)):
        kept = [generator.bit_generator.state for generator in (a, b)]
        expected = f(2.0, a, b)
        for generator, state in zip((a, b), kept, strict=True):
            generator.bit_generator.state = state
        assert g(2.0, a, b) == pytest.approx(expected)


def test_two_generators_over_one_stream_in_a_run_that_is_made_again():
    def made():
        one = np.random.default_rng(3)
        other = np.random.Generator(one.bit_generator)

        def f(x):
            s = x
            for i in range(20):
                s = s * 0.9 + (one.normal() if i % 2 else other.normal())
            return s * other.normal() + np.random.RandomState(one.bit_generator).rand()

        return f

    f, g = made(), compile_grad(made())
    for x in (0.5, 0.5, 0.7):
        assert g(x) == pytest.approx(f(x), rel=1e-12)


def test_what_is_looked_at_draws_nothing():
    f = compile_grad(noise)
    begin()
    before = states()
    f.explain(X)
    assert states() == before


def test_a_run_that_raises_leaves_the_generators_as_python_does():
    def raises(x):
        y = x * rng.normal()
        if x[0] > 0.5:
            raise KeyError("no")
        return np.sum(y)

    f = compile_grad(raises)
    for x in (X, X + 1.0, X):
        begin()
        with contextlib.suppress(KeyError):
            raises(x)
        left = states()
        begin()
        with contextlib.suppress(KeyError):
            f(x)
        assert states() == left


class Asks:
    """A generator that is handed to code that is not seen."""

    def __init__(self):
        self.rng = np.random.default_rng(3)


asks = Asks()


@pytest.mark.parametrize(
    "plain",
    [
        lambda x: np.sum(x) * asks.rng.bit_generator.state["state"]["state"] % 7,
        lambda x: np.sum(x) * asks.rng.spawn(1)[0].normal(),
        lambda x: np.sum(x) * len(asks.rng.bytes(3)),
        lambda x: np.sum(x) * sum(python.sample(range(9), 3)),
    ],
)
def test_what_is_more_than_a_draw_is_pythons(plain):
    kept = asks.rng.bit_generator.state, python.getstate()
    expected = plain(X)
    f = compile_grad(plain)
    for _ in range(3):
        asks.rng.bit_generator.state = kept[0]
        python.setstate(kept[1])
        asks.rng.bit_generator.seed_seq.__init__(3)
        f(X)
    asks.rng.bit_generator.state = kept[0]
    python.setstate(kept[1])
    assert f.stats.live
    if plain(X) == expected:  # a spawned one is another one each time
        asks.rng.bit_generator.state = kept[0]
        python.setstate(kept[1])
        assert f(X) == pytest.approx(expected)


def test_threads_that_draw_at_once():
    f = compile_grad(noise)
    f(X)
    found = []
    threads = [threading.Thread(target=lambda: found.extend(f(X) for _ in range(50))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(float, found))) == len(found)
