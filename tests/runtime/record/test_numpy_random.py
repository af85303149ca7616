"""Random numbers in compiled functions: drawn anew in each call, and fed to one kernel."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from agreement import numerical_gradient
from numpy.random import normal

from tracegrad import compile_grad
from tracegrad.runtime.config import config

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.3, -1.2, 2.0])
generator = np.random.default_rng(7)


class Model:
    def __init__(self):
        self.rng = np.random.default_rng(1)

    def loss(self, x):
        return np.sum((x + self.rng.normal(size=3)) ** 2)


FUNCTIONS = {
    "legacy": lambda x: np.sum((x + np.random.normal(size=3)) ** 2),
    "legacy scalar": lambda x: np.sum(x * np.random.rand()),
    "imported": lambda x: np.sum(x * normal(size=x.shape)),
    "generator of the module": lambda x: np.sum(x * generator.uniform(size=3)),
    "fresh generator": lambda x: np.sum(x * np.random.default_rng().uniform(size=3)),
    "in self": Model().loss,
    "Python's": lambda x: np.sum(x) * random.random(),
    "positions": lambda x: np.sum(x[np.random.permutation(3)] * np.arange(3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_fresh_numbers_and_one_kernel(name):
    f = compile_grad(FUNCTIONS[name])
    values = {float(f.value_and_grad(X)[0]) for _ in range(30)}
    assert len(values) > (3 if name == "positions" else 28)
    assert f.stats.compiles == 1
    assert f.stats.traces == 1 or name == "fresh generator"


def test_a_generator_without_a_seed_is_a_reason():
    f = compile_grad(FUNCTIONS["fresh generator"])
    f(X)
    for words in ("default_rng", "random numbers", "tracegrad.random", "test_numpy_random.py:"):
        assert words in f.stats.live
    assert "default_rng" in f.explain(X, level="all")


def test_the_stream_is_numpys():
    f = compile_grad(FUNCTIONS["legacy"])
    np.random.seed(3)
    drawn = [np.random.normal(size=3) for _ in range(5)]
    np.random.seed(3)
    for noise in drawn:  # each call draws once, the first included
        value, gradient = f.value_and_grad(X)
        assert value == pytest.approx(np.sum((X + noise) ** 2))
        np.testing.assert_allclose(gradient, 2 * (X + noise))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_branches_on_random_numbers_and_values(monkeypatch):
    monkeypatch.setattr(config, "max_paths", 4)

    def plain(x):
        y = x
        for k in range(6):
            y = np.sin(y) * np.random.rand() if np.random.rand() > 0.5 else y + np.random.normal(size=3)
            if y[k % 3] > 0:
                y = y * 0.5
        return np.sum(y)

    f = compile_grad(plain)
    for seed in range(60):
        np.random.seed(seed)
        value = f(X)
        np.random.seed(seed)
        assert value == pytest.approx(plain(X))
    assert f.stats.live


@pytest.mark.parametrize("reads_the_clock", [False, True])
def test_generators_from_outside_take_parameters_that_are_traced(reads_the_clock):
    def plain(x):
        if reads_the_clock:
            time.time()
        y = x * 2.0
        generator.shuffle(y)
        return np.sum(generator.normal(x) * np.random.normal(x[0], scale=2.0, size=3) * y)

    f = compile_grad(plain)
    for _ in range(3):
        state, legacy = generator.bit_generator.state, np.random.get_state()
        expected = plain(X)
        generator.bit_generator.state = state
        np.random.set_state(legacy)
        assert f.value_and_grad(X)[0] == pytest.approx(expected)
    assert bool(f.stats.live) is reads_the_clock


# ---- generators that the run makes and seeds: each run draws the same ----------------------------------------------


class Layer:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.weights = self.rng.normal(size=(3, 3))

    def __call__(self, x):
        return np.tanh(self.weights @ x) + self.rng.normal(size=3) * x


def _batches(x):
    rng, total = np.random.default_rng(5), 0.0
    for _ in range(8):
        batch = rng.choice(3, size=2, replace=False)
        total = total + np.sum(x[batch]) * rng.normal() if rng.random() < 0.7 else total - x[rng.integers(3)] ** 2
    return total


def _legacy(x):
    rng = np.random.RandomState(42)
    return np.sum(x[rng.permutation(3)] * np.arange(3.0)) + rng.rand() * x[0]


def _of_python(x):
    r, order = random.Random(7), [0, 1, 2]
    r.shuffle(order)
    return sum(r.gauss(0, 1) * x[r.randrange(3)] for _ in range(5)) * x[order[0]]


def _spawned(x):
    return sum(np.random.Generator(np.random.PCG64(s)).normal() * v
               for s, v in zip(np.random.SeedSequence(5).spawn(3), x, strict=True))  # fmt: skip


def _of_argument(x, seed=3):
    return np.sum(np.random.default_rng(seed).normal(size=(4, 3)) @ x) ** 2


def _traced_parameters(x):
    rng, legacy = np.random.default_rng(0), np.random.RandomState(1)
    scale = np.exp(x)
    total = rng.normal(x[0], scale[1]) + np.sum(rng.normal(x, 0.1)) + np.sum(rng.uniform(x, x + scale, (2, 3)))
    total = total + np.sum(legacy.laplace(x) * rng.exponential(scale)) + legacy.gumbel(loc=x[1], scale=2.0)
    total = total + np.sum(rng.lognormal(x, 0.3)) + legacy.logistic(x[2]) + legacy.rayleigh(scale[0])
    y = x * x + rng.multivariate_normal(x, np.eye(3) + 0.5)
    rng.shuffle(y)
    return total * rng.choice(x) + np.sum(rng.permutation(x)[:2] * rng.choice(x, (2, 2), p=[0.2, 0.3, 0.5]) * y[1])


def _numpys(x):
    np.random.seed(3)
    return np.sum(np.random.randn(3) * x) + np.random.uniform(x[0], 1.0)


def _pythons(x):
    random.seed("text")
    np.random.seed(4)
    return random.gauss(0, 1) * x[0] * np.random.randint(5) + random.choice([1.0, 2.0]) * x[1]


def _imports(x):
    import random as r

    import numpy.random as npr
    from numpy import random as nr

    rng, numbers = r.Random(0), list(x)
    rng.shuffle(numbers)
    return npr.default_rng(1).random() * numbers[0] * x[1] + nr.default_rng(2).choice(x) + rng.triangular(0, 1) * x[2]


SEEDED = {
    "constant": lambda x: np.sum((np.random.default_rng(0).normal(size=(5, 3)) @ x) ** 2),
    "in an object": lambda x: np.sum((layer := Layer(3))(layer(x))),
    "batches": _batches, "legacy": _legacy, "of Python": _of_python, "spawned": _spawned, "argument": _of_argument,
    "traced parameters": _traced_parameters, "imports": _imports, "NumPy's own": _numpys, "Python's own": _pythons,
}  # fmt: skip


def _state():
    return tuple(map(str, np.random.get_state())), random.getstate()


@pytest.fixture
def states():
    """The processes' generators are left as they were found."""
    of_numpy, of_python = np.random.get_state(), random.getstate()
    yield
    np.random.set_state(of_numpy)
    random.setstate(of_python)


@pytest.mark.parametrize("name", SEEDED)
def test_what_is_drawn_from_a_generator_of_the_run_is_replayed(name, states):
    fn = SEEDED[name]
    f = compile_grad(fn)
    for k in range(4):
        x = X + 0.1 * k
        np.random.seed(k)
        random.seed(k)
        before = _state()
        expected, left = fn(x), _state()
        np.random.seed(k)
        random.seed(k)
        assert _state() == before
        value, gradient = f.value_and_grad(x)
        assert value == pytest.approx(expected) and _state() == left
        np.testing.assert_allclose(gradient, numerical_gradient(fn, (x,)), rtol=1e-5, atol=1e-6)
    assert f.stats.live == "" or name in ("spawned", "imports", "legacy", "batches")


def test_a_seed_among_the_arguments():
    f = compile_grad(_of_argument)
    for seed in (0, 1, 2, 1, 0, 5):
        assert f(X, seed) == pytest.approx(_of_argument(X, seed))
    assert f.stats.live == "" and f.stats.compiles == 1


kept = {}


def _goes_on(x):
    rng = kept.setdefault("rng", random.Random(0))
    return np.sum(x) * rng.random(), rng


def _drawn_before(x):
    noise = np.random.rand(), random.random()
    np.random.seed(0)
    random.seed(0)
    return np.sum(x) * noise[0] * noise[1] * np.random.rand(), None


def _seeded_on_one_way(x):
    if x[0] > 0.35:
        np.random.seed(0)
    return np.sum(x) * np.random.rand(), None


def _handed_on(x):
    r = np.random
    return np.sum(x) * r.randn() * getattr(r, "rand")(), None  # noqa: B009


def _restored(x):
    state = np.random.get_state()
    noise = np.random.rand()
    np.random.set_state(state)
    return np.sum(x) * noise, None


@pytest.mark.parametrize("fn", [_goes_on, _drawn_before, _seeded_on_one_way, _handed_on, _restored])
def test_a_generator_that_gets_away_or_goes_on(fn, states):
    found = []
    f = compile_grad(fn)
    for call in (fn, f):
        kept.clear()
        np.random.seed(8)
        random.seed(8)
        for k in range(6):
            value, rng = call(X + 0.02 * k)
            found.append((float(value), 0.0 if rng is None else float(rng.random())))
            np.random.seed(k)
    np.testing.assert_allclose(found[:6], found[6:])
    assert bool(f.stats.live) == (fn is _restored)
