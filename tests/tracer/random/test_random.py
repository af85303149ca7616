"""tracegrad.random: known answers, the same bits in NumPy and in kernels, replays, gradients, statistics, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import tracegrad
from tracegrad import compile_grad, random
from tracegrad.tracer.ir.errors import ShapeError, TracegradError, UnsupportedError
from tracegrad.tracer.ops.threefry import BLOCK, threefry2x32

KEY = random.key(20240607)
SHAPES = [(), (5,), (3, 4), (0,), (2, 0, 3), (40, 2, 3), (1, 7), (33, 20)]
FLOATS = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def reference(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds in Python integers, from the paper: independent of the implementation."""
    mask = 2**32 - 1
    schedule = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA]
    x, y = (counter[0] + key[0]) & mask, (counter[1] + key[1]) & mask
    for turn in range(20):
        rotation = (13, 15, 26, 6, 17, 29, 16, 24)[turn % 8]
        x = (x + y) & mask
        y = (((y << rotation) | (y >> (32 - rotation))) & mask) ^ x
        if turn % 4 == 3:
            group = turn // 4 + 1
            x = (x + schedule[group % 3]) & mask
            y = (y + schedule[(group + 1) % 3] + group) & mask
    return x, y


def ulps(found: Any, expected: Any) -> float:
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    return float(np.max(np.abs(found - expected) / np.spacing(np.abs(expected)), initial=0.0))


def replayed(function: Callable[..., Any], *args: Any) -> Any:
    """What the kernel of *function* gives in a replay."""
    compiled = compile_grad(lambda *xs: function(*xs))
    for _ in range(3):
        result = compiled(*args)
    assert compiled.stats.live == "" and compiled.stats.compiles <= 1
    return result


# ---- known answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [  # kat_vectors of Random123, threefry2x32, 20 rounds
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((2**32 - 1, 2**32 - 1), (2**32 - 1, 2**32 - 1), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers_of_random123(key: Any, counter: Any, expected: Any) -> None:
    assert reference(key, counter) == expected
    found = threefry2x32(*[np.uint32(word) for word in (*key, *counter)])
    assert int(found) == expected[0] << 32 | expected[1]


def test_bits_are_the_enciphered_positions() -> None:
    words = (int(KEY[0]), int(KEY[1]))
    blocks = [reference(words, (0, i)) for i in range(60)]
    whole = np.array([x << 32 | y for x, y in blocks], np.uint64)
    mixed = np.array([x ^ y for x, y in blocks], np.uint32)
    np.testing.assert_array_equal(random.bits(KEY, (60,), np.uint64), whole)
    np.testing.assert_array_equal(random.bits(KEY, (3, 4, 5), np.uint32), mixed.reshape(3, 4, 5))
    np.testing.assert_array_equal(random.bits(KEY, 60, np.uint16), mixed.astype(np.uint16))
    np.testing.assert_array_equal(random.bits(KEY, 60, np.uint8), mixed.astype(np.uint8))
    np.testing.assert_array_equal(random.split(KEY, 60), np.array(blocks, np.uint32))
    np.testing.assert_array_equal(random.fold_in(KEY, 59), np.array(blocks[59], np.uint32))
    long = random.bits(KEY, 3 * BLOCK + 1, np.uint64)
    assert int(long[3 * BLOCK]) == int.from_bytes(b"".join(w.to_bytes(4, "big") for w in reference(words, (0, 24576))))


# jax.random 0.10.2 with 64 bits enabled, of PRNGKey(42)
JAX_BITS = [2098992034, 2919706841, 2646866425]
JAX_SPLIT = [[1832780943, 270669613], [64467757, 2916123636]]
JAX_FOLDED = [2547012911, 1371500959]


def test_keys_and_bits_are_those_of_jax() -> None:
    key = random.key(42)
    np.testing.assert_array_equal(key, [0, 42])
    np.testing.assert_array_equal(random.key(2**40 + 7), [256, 7])
    np.testing.assert_array_equal(random.key(-5), [2**32 - 1, 2**32 - 5])
    np.testing.assert_array_equal(random.bits(key, (3,)), JAX_BITS)
    np.testing.assert_array_equal(random.split(key), JAX_SPLIT)
    np.testing.assert_array_equal(random.fold_in(key, 7), JAX_FOLDED)


@pytest.mark.slow  # its import is
def test_jax_itself_agrees() -> None:
    jax = pytest.importorskip("jax")
    key, theirs = random.key(42), jax.random.PRNGKey(42)
    for shape in SHAPES:
        np.testing.assert_array_equal(random.bits(key, shape), jax.random.bits(theirs, shape, "uint32"))
    np.testing.assert_array_equal(random.split(key, (2, 3)), jax.random.split(theirs, (2, 3)))
    np.testing.assert_array_equal(random.fold_in(key, 7), jax.random.fold_in(theirs, 7))


# ---- the same in NumPy and in kernels ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_and_uniforms_are_the_same_in_kernels(shape: Any) -> None:
    def draw(key: Any) -> Any:
        return [
            *[random.bits(key, shape, dtype) for dtype in (np.uint8, np.uint16, np.uint32, np.uint64)],
            random.uniform(key, shape),
            random.uniform(key, shape, np.float32, minval=-1, maxval=3),
            random.randint(key, shape, -3, 1000),
            random.bernoulli(key, 0.3, shape),
        ]

    for found, expected in zip(replayed(draw, KEY), draw(KEY), strict=True):
        assert found.dtype == expected.dtype and found.shape == expected.shape == shape
        np.testing.assert_array_equal(found, expected)


@FLOATS
@pytest.mark.parametrize("shape", [(), (2000,), (20, 30), (0,)], ids=str)
def test_distributions_agree_with_kernels(shape: Any, dtype: Any) -> None:
    draws: list[tuple[Callable[[Any], Any], int]] = [
        (lambda key: random.normal(key, shape, dtype), 8),
        (lambda key: random.normal(key, shape, dtype, loc=8, scale=0.5), 4),
        (lambda key: random.exponential(key, shape, dtype, scale=3), 6),
        (lambda key: random.truncated_normal(key, 3.0, np.inf, shape, dtype), 16),
    ]
    for draw, limit in draws:
        assert ulps(replayed(draw, KEY), draw(KEY)) <= limit


@pytest.mark.slow
def test_integers_of_every_dtype() -> None:
    for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split():
        info = np.iinfo(name)
        for low, high in ((info.min, int(info.max) + 1), (0, 100), (info.max - 1, int(info.max) + 1)):
            drawn = random.randint(KEY, (300,), low, high, name)
            assert drawn.dtype == name and low <= int(drawn.min()) <= int(drawn.max()) < high
            np.testing.assert_array_equal(
                replayed(lambda key, low=low, high=high, name=name: random.randint(key, 300, low, high, name), KEY),
                drawn,
            )
    exact = [-7 + (int(b) * 1000003 >> 64) for b in random.bits(KEY, 50, np.uint64)]
    np.testing.assert_array_equal(random.randint(KEY, 50, -7, 999996), exact)


def test_keys_are_made_inside() -> None:
    def draw(key: Any, seed: Any) -> Any:
        first, second = random.split(key)
        last = random.fold_in(random.fold_in(second, seed[1]), 2**40 + 3)
        return [first, last, random.key(5), random.key(seed[0]), random.split(last, (2, 2)), random.bits(last, 3)]

    seed = np.array([2**33 + 9, 77])
    for found, expected in zip(replayed(draw, KEY, seed), draw(KEY, seed), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_choices_and_permutations_in_kernels() -> None:
    values, p = np.arange(12.0).reshape(4, 3), np.array([0.1, 0.0, 0.6, 0.3])

    def draw(key: Any, values: Any, p: Any) -> Any:
        return [
            random.permutation(key, 10),
            random.permutation(key, values, axis=1),
            random.choice(key, 6, (2, 3)),
            random.choice(key, values, (5,), axis=1),
            random.choice(key, values, (2, 2), p=p),
            random.choice(key, 4, (3,), replace=False),
            random.choice(key, 4, (3,), replace=False, p=p),
        ]

    for found, expected in zip(replayed(draw, KEY, values, p), draw(KEY, values, p), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


# ---- replays -------------------------------------------------------------------------------------------------------


def test_replays_follow_the_key(fresh_kernels: None) -> None:
    @compile_grad
    def loss(x: Any, key: Any) -> Any:
        noise = random.normal(key, x.shape)
        return np.mean((x + noise) ** 2)

    x = np.linspace(-1, 1, 500)
    for seed in range(6):
        key = random.key(seed)
        noise = random.normal(key, x.shape)
        value, gradient = loss.value_and_grad(x, key)
        assert abs(value - np.mean((x + noise) ** 2)) < 1e-12
        np.testing.assert_allclose(gradient, 2 * (x + noise) / 500, rtol=1e-12)
    assert loss.stats.compiles == 1 and loss.stats.traces == 1 and loss.stats.live == ""
    loss.value_and_grad(np.linspace(-1, 1, 700), KEY)  # a new size: a new recording, the same kernel
    assert loss.stats.compiles == 1
    assert "threefry2x32" in loss.explain(x, KEY, level="all")


def test_keys_from_outside_are_read_anew() -> None:
    class Model:
        key = random.key(1)

        @compile_grad
        def loss(self, w: Any) -> Any:
            return np.sum(w * random.uniform(self.key, w.shape))

    model, w = Model(), np.ones(30)
    for seed in (1, 1, 1, 2, 3):
        model.key = random.key(seed)
        np.testing.assert_allclose(model.loss(w), random.uniform(model.key, 30).sum())
    assert model.loss.stats.live == ""


def test_constant_keys_and_seeds_inside() -> None:
    @compile_grad
    def f(w: Any, seed: int) -> Any:
        return np.sum(w * random.uniform(random.key(seed), w.shape))

    w = np.ones(30)
    for seed in (1, 1, 1, 2, 2, 3):
        np.testing.assert_allclose(f(w, seed), random.uniform(random.key(seed), 30).sum())
    assert f.stats.compiles == 1 and f.stats.live == ""


def test_a_loop_that_splits_its_key() -> None:
    def walk(x: Any, key: Any) -> Any:
        for _ in range(3):
            key, now = random.split(key)
            x = x + random.normal(now)
        return x * x

    compiled = compile_grad(walk)
    for seed in range(4):
        key = random.key(seed)
        np.testing.assert_allclose(compiled(0.5, key), walk(0.5, key), rtol=1e-12)
    assert compiled.stats.live == "" and compiled.stats.compiles == 1


def test_noise_is_fused_and_not_stored() -> None:
    f = compile_grad(lambda x, key: np.sum(x * random.uniform(key, x.shape)))
    x = np.ones(100_000)
    f(x, KEY)
    text = f.explain(x, KEY, level="all")
    assert "threefry2x32 is stored" not in text
    assert "no temporaries" in text or "temporary" not in text.split("--- memory")[1].split("---")[0]


def test_second_derivatives_through_noise() -> None:
    second = tracegrad.autograd.grad(tracegrad.autograd.grad(lambda x, key: (x * random.normal(key)) ** 3))
    z = float(random.normal(KEY))
    np.testing.assert_allclose(second(0.7, KEY), 6 * 0.7 * z**3, rtol=1e-12)


def test_steps_of_tensors_replay_with_new_keys() -> None:
    w = tracegrad.ones(3, requires_grad=True)

    @tracegrad.compile
    def step(key: Any) -> Any:
        return (w * tracegrad.as_tensor(random.uniform(key, (3,)))).sum()

    for seed in range(5):
        np.testing.assert_allclose(step(random.key(seed)).item(), random.uniform(random.key(seed), 3).sum())
    assert step.stats.live == "" and step.stats.compiles == 1


# ---- gradients flow to the parameters ------------------------------------------------------------------------------


def test_reparametrised_gradients() -> None:
    def loss(p: Any, key: Any) -> Any:
        keys = random.split(key, 4)
        total = np.sum(random.normal(keys[0], (3, 4), loc=p["loc"], scale=np.exp(p["scale"])) ** 2)
        total = total + np.sum(random.uniform(keys[1], (5,), minval=p["low"], maxval=p["high"]) ** 3)
        total = total + np.sum(np.sqrt(random.exponential(keys[2], (6,), scale=p["high"])))
        return total + np.sum(random.truncated_normal(keys[3], p["low"], p["high"], (7,)) ** 2)

    p = {"loc": np.array([0.3, -1.0, 2.0, 0.1]), "scale": 0.2, "low": -0.4, "high": 1.7}
    gradient = compile_grad(loss).grad(p, KEY)
    step = 1e-6
    for name in ("scale", "low", "high"):
        change = loss(p | {name: p[name] + step}, KEY) - loss(p | {name: p[name] - step}, KEY)
        np.testing.assert_allclose(gradient[name], change / (2 * step), rtol=1e-6)
    z = random.normal(random.split(KEY, 4)[0], (3, 4))
    np.testing.assert_allclose(gradient["loc"], 2 * np.sum(p["loc"] + math.exp(0.2) * z, axis=0), rtol=1e-12)


def test_parameters_keep_float32() -> None:
    f = compile_grad(lambda m, key: np.sum(random.normal(key, (4,), np.float32, loc=m)))
    value, gradient = f.value_and_grad(np.ones(4, np.float32), KEY)
    assert value.dtype == gradient.dtype == np.float32
    wide = compile_grad(lambda m, key: np.sum(random.normal(key, (4,), np.float32, loc=m))).grad(np.ones(4), KEY)
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide, np.ones(4))


def test_shapes_of_parameters() -> None:
    assert random.normal(KEY, loc=np.zeros((3, 1)), scale=np.ones(4)).shape == (3, 4)
    assert random.uniform(KEY, (2, 3), maxval=np.ones(3)).shape == (2, 3)
    assert random.bernoulli(KEY, np.full(5, 0.5)).shape == (5,)
    assert isinstance(random.uniform(KEY), np.float64) and isinstance(random.uniform(KEY, (), np.float32), np.float32)


# ---- statistics ----------------------------------------------------------------------------------------------------

N = 40_000


@FLOATS
def test_distribution_functions(dtype: Any) -> None:
    """Kolmogorov and Smirnov: fixed keys, so no run differs from another."""
    checks = [
        (random.uniform(KEY, N, dtype, minval=-2, maxval=1), st.uniform(-2, 3)),
        (random.normal(KEY, N, dtype, loc=1, scale=2), st.norm(1, 2)),
        (random.exponential(KEY, N, dtype, scale=2), st.expon(scale=2)),
        (random.truncated_normal(KEY, -0.5, 2.0, N, dtype), st.truncnorm(-0.5, 2.0)),
        (random.truncated_normal(KEY, 4.0, np.inf, N, np.float64), st.truncnorm(4.0, np.inf)),
    ]
    for drawn, distribution in checks:
        assert st.kstest(drawn, distribution.cdf).pvalue > 1e-3


def test_counts() -> None:
    drawn = np.bincount(random.randint(KEY, N, 0, 37), minlength=37)
    assert st.chisquare(drawn).pvalue > 1e-3
    p = np.array([0.5, 0.0, 0.2, 0.3])
    counts = np.bincount(random.choice(KEY, 4, (N,), p=p), minlength=4)
    assert counts[1] == 0 and st.chisquare(counts[p > 0], N * p[p > 0]).pvalue > 1e-3
    assert abs(np.mean(random.bernoulli(KEY, 0.3, (N,))) - 0.3) < 0.01
    orders = [tuple(random.permutation(key, 3)) for key in random.split(KEY, 3000)]
    assert st.chisquare(np.unique(orders, axis=0, return_counts=True)[1]).pvalue > 1e-3
    pairs = [tuple(random.choice(key, 3, (2,), replace=False, p=[0.2, 0.3, 0.5])) for key in random.split(KEY, 3000)]
    expected = {
        (i, j): q[i] * q[j] / (1 - q[i]) for q in [[0.2, 0.3, 0.5]] for i in range(3) for j in range(3) if i != j
    }
    observed = [pairs.count(pair) for pair in expected]
    assert sum(observed) == 3000
    assert st.chisquare(observed, [3000 * e for e in expected.values()]).pvalue > 1e-3


def test_every_bit_is_fair() -> None:
    bits = random.bits(KEY, N, np.uint64)
    for position in range(64):
        ones = int(np.sum((bits >> position) & 1))
        assert abs(ones - N / 2) < 4.5 * math.sqrt(N) / 2


def test_split_keys_are_independent() -> None:
    keys = random.split(KEY, 6)
    rows = [random.normal(key, N) for key in [KEY, random.fold_in(KEY, 0), random.fold_in(KEY, 6), *keys[1:]]]
    correlation = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(correlation).max() < 4.5 / math.sqrt(N)
    assert len({tuple(key) for key in [KEY, *random.split(KEY, 1000), *random.split(keys[0], 1000)]}) == 2001


def test_normals_reach_the_tails() -> None:
    z = np.abs(random.normal(KEY, 1_000_000))
    assert 4.5 < z.max() < 7
    assert abs(np.mean(z > 3) - 2 * st.norm.sf(3)) < 2e-4


# ---- errors --------------------------------------------------------------------------------------------------------

ERRORS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda k: random.key(1.5), UnsupportedError, "a seed must be an integer, not 1.5"),
    (lambda k: random.key(True), UnsupportedError, "a seed must be an integer, not True"),
    (lambda k: random.key(2**64), OverflowError, "a seed must fit into 64 bits"),
    (lambda k: random.fold_in(k, 0.5), UnsupportedError, "data must be an integer"),
    (lambda k: random.uniform(42), UnsupportedError, r"not a int; make one with tracegrad.random.key\(seed\)"),
    (lambda k: random.uniform(k.astype(np.int64)), UnsupportedError, r"not an array of int64 of shape \(2,\)"),
    (lambda k: random.uniform(random.split(k, 3)), ShapeError, r"not an array of uint32 of shape \(3, 2\); take one"),
    (lambda k: random.uniform(k[0]), TracegradError, r"a key is a uint32 array of shape \(2,\)"),
    (lambda k: random.uniform(k, (2, -1)), ShapeError, "a shape is an integer of at least 0"),
    (lambda k: random.uniform(k, 2.5), ShapeError, "a shape is an integer of at least 0"),
    (lambda k: random.uniform(k, (2**20, 2**13)), ShapeError, "split the key"),
    (lambda k: random.uniform(k, dtype=int), UnsupportedError, "float64 or float32, not int64"),
    (lambda k: random.bits(k, 3, np.int32), UnsupportedError, "uint8, uint16, uint32 or uint64, not int32"),
    (lambda k: random.normal(k, (3,), loc=np.ones(2)), ShapeError, r"do not broadcast to \(3,\): loc \(2,\)"),
    (lambda k: random.normal(k, loc=np.ones(2), scale=np.ones(3)), ShapeError, "do not broadcast: loc"),
    (lambda k: random.normal(k, loc="1"), UnsupportedError, "loc must be a number"),
    (lambda k: random.randint(k, 3, 5, 5), ValueError, "minval < maxval"),
    (lambda k: random.randint(k, 3, 0, 2.5), UnsupportedError, "maxval must be an integer"),
    (lambda k: random.randint(k, 3, 0, 300, np.uint8), ValueError, "out of bounds for uint8"),
    (lambda k: random.randint(k, 3, 0, 300, float), UnsupportedError, "of an integer dtype"),
    (lambda k: random.choice(k, 3, (4,), replace=False), ValueError, "4 elements cannot be taken of 3, each once"),
    (lambda k: random.choice(k, 0, (4,)), ValueError, "4 elements cannot be taken of 0"),
    (lambda k: random.choice(k, 3, (4,), p=np.ones(2)), ShapeError, "one probability for each of the 3"),
    (lambda k: random.permutation(k, [1, 2, 3]), UnsupportedError, "give an array"),
]


@pytest.mark.parametrize(("draw", "error", "message"), ERRORS)
def test_errors_name_the_line(draw: Any, error: type[Exception], message: str) -> None:
    for call in (lambda: draw(KEY), lambda: compile_grad(lambda key: np.sum(draw(key)))(KEY)):
        with pytest.raises(error, match=message) as caught:
            call()
        assert "test_random.py" in str(caught.value)


def test_the_module_has_its_names() -> None:
    assert tracegrad.random is random
    assert sorted(random.__all__) == random.__all__
    assert all(getattr(random, name).__doc__ for name in random.__all__)
