"""The default stream of ``tracegrad.random``: numbers without a key, compiled, replayed, the same as in plain code."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tracegrad
from tracegrad import UnsupportedError, autograd, compile_grad, random
from tracegrad.runtime.config import config
from tracegrad.tracer.random.stream import DEFAULT

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.3, -1.2, 2.0])


@pytest.fixture(autouse=True)
def seeded():
    random.seed(0)


def noisy(x):
    z = random.normal(None, (3,))
    return np.sum((x * z + random.uniform(shape=(3,))) ** 2)


def sequence(*functions, calls=12):
    random.seed(5)
    return [float(functions[k % len(functions)](X)) for k in range(calls)]


def test_compiled_calls_take_the_numbers_that_plain_ones_take():
    f = compile_grad(noisy)
    expected = sequence(noisy)
    assert len(set(expected)) == 12
    assert sequence(f) == pytest.approx(expected)
    assert sequence(f, noisy, f, f) == pytest.approx(expected)
    assert sequence(f) == sequence(f)
    assert f.stats.traces == 1 and f.stats.compiles == 1 and f.stats.live == ""


def test_numbers_are_those_of_keys():
    random.seed(9)
    key = random.key(9)
    for k in range(3):
        np.testing.assert_array_equal(random.next_key(), random.fold_in(key, k))
    random.seed(-1)
    np.testing.assert_array_equal(random.next_key(), random.fold_in(random.key(-1), 0))
    f = compile_grad(lambda: random.normal(None, (1000,)))
    random.seed(3)
    for k in range(4):
        expected = random.normal(random.fold_in(random.key(3), k), (1000,))
        np.testing.assert_allclose(f(), expected, rtol=1e-12)


DRAWS = {
    "bits": lambda: random.bits(shape=(4,)) * 1.0,
    "split": lambda: random.uniform(random.split()[1], (4,)),
    "uniform": lambda: random.uniform(None, (4,)),
    "normal": lambda: random.normal(),
    "truncated": lambda: random.truncated_normal(None, -1.0, 2.0, (4,)),
    "exponential": lambda: random.exponential(key=None, shape=(4,)),
    "bernoulli": lambda: random.bernoulli(None, 0.5, (40,)) * 1.0,
    "randint": lambda: random.randint(None, (4,), 0, 10**9) * 1.0,
    "permutation": lambda: random.permutation(None, 20) * 1.0,
    "choice": lambda: random.choice(None, np.arange(1000.0), (4,)),
    "key": lambda: random.uniform(random.next_key(), (4,)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_every_function_can_go_without_a_key(name):
    def plain(x):
        return x * DRAWS[name]()

    f = compile_grad(plain)
    random.seed(1)
    expected = [plain(2.0) for _ in range(5)]
    random.seed(1)
    for value in expected:
        np.testing.assert_allclose(f(2.0), value, rtol=1e-12)
    assert len({np.asarray(v).tobytes() for v in expected}) == 5 and f.stats.live == "" and f.stats.traces == 1


def test_gradients_and_their_derivatives():
    f = compile_grad(noisy)
    for _ in range(4):
        state = int(DEFAULT.state[1])
        value, gradient = f.value_and_grad(X)
        key = random.key(0)
        z = random.normal(random.fold_in(key, state), (3,))
        u = random.uniform(random.fold_in(key, state + 1), (3,))
        assert value == pytest.approx(np.sum((X * z + u) ** 2)) and int(DEFAULT.state[1]) == state + 2
        np.testing.assert_allclose(gradient, 2 * (X * z + u) * z)
    second = autograd.grad(lambda x: np.sum(f.grad(x) * X))
    state = int(DEFAULT.state[1])
    z = random.normal(random.fold_in(random.key(0), state), (3,))
    np.testing.assert_allclose(second(X), 2 * z * z * X)


def test_branches_on_numbers_drawn():
    """A call takes its numbers once, however many paths it tries."""

    def plain(x):
        z = random.normal()
        return np.sum(x) * z + (random.normal() if x[0] > 0 else 0.0) if z > 0 else np.sum(x * x) * z

    f = compile_grad(plain)
    points = [X if k % 3 else -X for k in range(60)]
    random.seed(4)
    expected = [plain(x) for x in points]
    random.seed(4)
    np.testing.assert_allclose([f(x) for x in points], expected, rtol=1e-10)
    assert f.stats.live == "" and f.stats.traces <= 7  # one tries whether both arms may run


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_where_python_runs_each_time(monkeypatch):
    monkeypatch.setattr(config, "max_paths", 2)

    def plain(x):
        y = x
        for k in range(4):
            y = y * random.normal() if y[k % 3] > 0 else y + random.uniform(None, (3,))
        return np.sum(y)

    f, counter = compile_grad(plain), compile_grad(lambda x: (seen.add(len(seen)), noisy(x))[1])
    seen: set[int] = set()
    random.seed(4)
    expected = [plain(x) for x in [X, -X, 2 * X] * 10] + [noisy(X) for _ in range(4)]
    random.seed(4)
    np.testing.assert_allclose([f(x) for x in [X, -X, 2 * X] * 10] + [counter(X) for _ in range(4)], expected)
    assert "branch outcomes" in f.stats.live and len(seen) == 4
    assert counter.stats.compiles == 1


def test_a_failing_call_takes_nothing():
    def plain(x):
        z = random.normal(None, (3,))
        if x[0] > 100:
            raise ValueError("too large")
        return np.sum(x * z)

    f = compile_grad(plain)
    random.seed(2)
    first = f(X)
    with pytest.raises(ValueError, match="too large"):
        f(1000 * X)
    random.seed(2)
    assert f(X) == pytest.approx(first) and int(DEFAULT.state[1]) == 1


def test_threads_never_get_the_same_numbers():
    f = compile_grad(lambda: random.bits(None, (2,), np.uint64))
    for _ in range(3):
        f()
    found: list[bytes] = []

    def work():
        mine = [f().tobytes() for _ in range(400)]
        mine += [random.bits(None, (2,), np.uint64).tobytes() for _ in range(50)]
        found.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == 1800 and int(DEFAULT.state[1]) == 1803


def test_seeding_within_a_compiled_function_is_refused():
    @compile_grad
    def f(x):
        random.seed(1)
        return x * random.normal()

    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"(?s)call it before.*test_stream\.py"):
            f(2.0)


def test_the_body_of_a_loop_needs_keys():
    def walk(x):
        return tracegrad.scan(lambda c, _: (c + random.normal(), c), x, None, length=5)[0]

    with pytest.raises(UnsupportedError, match=r"(?s)split a key before.*test_stream\.py"):
        compile_grad(walk)(1.0)

    def with_keys(x):
        return tracegrad.scan(lambda c, key: (c + random.normal(key), c), x, random.split(None, 5))[0]

    f = compile_grad(with_keys)
    random.seed(6)
    expected = [with_keys(1.0) for _ in range(4)]
    random.seed(6)
    np.testing.assert_allclose([f(1.0) for _ in range(4)], expected)


def test_a_shape_in_the_place_of_a_key():
    with pytest.raises(UnsupportedError, match=r"not a tuple.*write None for the default stream"):
        random.normal((3,))


def test_check_mode_and_tensors():
    f = compile_grad(noisy)
    expected = sequence(noisy, calls=6)
    config.check = True
    try:
        assert sequence(f, calls=6) == pytest.approx(expected)
    finally:
        config.check = False
    step = tracegrad.compile(lambda t: (t * random.normal()).sum())
    random.seed(8)
    values = [step(tracegrad.ones(2)).item() for _ in range(5)]
    random.seed(8)
    assert values == pytest.approx([2 * random.normal() for _ in range(5)])
    assert "default stream" in step.stats.live
