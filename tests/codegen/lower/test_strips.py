"""Strips of a long axis: values and gradients as without them, for any number of rows; what has none, and why.

In ``LANES`` are programs without products, whose rows are in the lanes.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special

from tracegrad import compile_grad
from tracegrad.codegen.lower import strips
from tracegrad.runtime.config import config
from tracegrad.runtime.record import derive
from tracegrad.tracer.ir.check import check_graph
from tracegrad.tracer.ir.primitive import LOOP


class Sizes(NamedTuple):
    """What decides about strips, made small."""

    rows: int  # of the data
    fewest: int = 2
    most: int = 4
    chunks: int = 3


#: chunks of strips; a rest after chunks, of one row; strips alone; a rest; more chunks
SIZES = [Sizes(24), Sizes(29, 4, 4), Sizes(12), Sizes(11, 3, 4), Sizes(47, 4, 4), Sizes(64, 2, 8, 5)]


class Seen:
    """What was decided for each graph, and the graphs."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.notes: list[str] = []

    def __call__(self, graph):
        found, notes = strips.in_strips(graph)
        check_graph(found)
        self.graphs.append(found)
        self.notes += map(str, notes)
        return found, notes

    @property
    def loops(self) -> int:
        return sum(node.prim.kind == LOOP for node in self.graphs[-1].nodes)


@pytest.fixture
def seen(monkeypatch):
    found = Seen()
    monkeypatch.setattr(derive, "in_strips", found)
    return found


def use(monkeypatch, sizes: Sizes) -> None:
    monkeypatch.setattr(strips, "FEWEST", sizes.fewest)
    monkeypatch.setattr(strips, "MOST", sizes.most)
    monkeypatch.setattr(strips, "CHUNKS", sizes.chunks)
    monkeypatch.setattr(strips, "CACHE", 1)
    monkeypatch.setattr(strips, "STRIP", 1)
    monkeypatch.setattr(strips, "MAX_ROW", 1 << 20)
    monkeypatch.setattr(strips, "LEAST_WIDE", 1)


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


# ---- programs whose rows go through products: (function, arguments for n rows, what it is differentiated by) ------


def network(W1, b1, W2, b2, X, y):
    h = np.tanh(X @ W1 + b1)
    return np.mean((h @ W2 + b2 - y) ** 2)


def network_args(n):
    r = rng()
    return (
        r.standard_normal((5, 8)), r.standard_normal(8), r.standard_normal((8, 3)), r.standard_normal(3),
        r.standard_normal((n, 5)), r.standard_normal((n, 3)),
    )  # fmt: skip


def classes(W, V, X, labels):
    z = np.maximum(X @ W, 0.0) @ V
    z = z - special.logsumexp(z, axis=1, keepdims=True)
    return -np.sum(z * labels) / len(X)


def classes_args(n):
    r = rng()
    return (
        r.standard_normal((4, 6)),
        r.standard_normal((6, 3)),
        r.standard_normal((n, 4)),
        np.eye(3)[r.integers(0, 3, n)],
    )


def mixture(means, factors, weights, X):
    k, d = means.shape
    scaled = (factors.reshape(k * d, d) @ X.T).reshape(k, d, len(X)) - np.sum(factors * means[:, None], axis=2)[
        :, :, None
    ]
    return np.sum(special.logsumexp(weights[:, None] - 0.5 * np.sum(scaled**2, axis=1), axis=0))


def mixture_args(n):
    r = rng()
    return r.standard_normal((3, 2)), r.standard_normal((3, 2, 2)), r.standard_normal(3), r.standard_normal((n, 2))


def attention(Q, K, V, target):
    scores = Q @ K.T / np.sqrt(Q.shape[1])
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    out = (weights / np.sum(weights, axis=1, keepdims=True)) @ V
    return np.sum((out - target) ** 2)


def attention_args(n):
    r = rng()
    return r.standard_normal((n, 4)), r.standard_normal((7, 4)), r.standard_normal((7, 4)), r.standard_normal((n, 4))


def extremes(W, V, X):
    z = np.sin(X @ W) @ V
    return np.max(z[:, 0]) + np.min(z[:, 1]) + np.sum(z)


def extremes_args(n):
    r = rng()
    return r.standard_normal((4, 6)), r.standard_normal((6, 2)), r.standard_normal((n, 4))


def batches(A, X):
    """A matrix for each row."""
    return np.sum(np.tanh((A @ X[:, :, None])[:, :, 0] @ np.ones((3, 2)) * X[:, :2]) @ np.full((2, 2), 0.5))


def batches_args(n):
    r = rng()
    return r.standard_normal((n, 3, 3)), r.standard_normal((n, 3))


PROGRAMS = {
    "network": (network, network_args, (0, 1, 2, 3)),
    "gradient of rows": (network, network_args, (0, 4, 5)),
    "classes": (classes, classes_args, (0, 1)),
    "mixture": (mixture, mixture_args, (0, 1, 2)),
    "attention": (attention, attention_args, (0, 1, 2)),
    "batches": (batches, batches_args, (0, 1)),
    "extremes": (extremes, extremes_args, (0, 1)),
    "extremes of rows": (extremes, extremes_args, (2,)),
}


def densities(means, log_scales, freedom, weights, X):
    """A mixture of Student's t."""
    z = (X[:, None, :] - means) * np.exp(-log_scales)
    q = np.log1p(np.sum(z * z, axis=2) / freedom) * (freedom + 3) / 2
    return -np.sum(special.logsumexp(weights - np.sum(log_scales, axis=1) - q, axis=1))


def densities_args(n, k=18):
    r = rng()
    return (
        r.standard_normal((k, 3)), 0.1 * r.standard_normal((k, 3)), 1.0 + r.random(k), r.standard_normal(k),
        r.standard_normal((n, 3)),
    )  # fmt: skip


def nearest(centres, X):
    """The distance to the nearest centre, with the number of it."""
    distances = np.sum(np.abs(X[:, None] - centres) ** 1.5, axis=2)
    first = np.argmin(distances, axis=1)
    return np.sum(np.min(distances, axis=1) * (1 + first % 2) + np.max(distances, axis=1) * np.any(X > 1, axis=1))


def nearest_args(n):
    return densities_args(n)[0], densities_args(n)[4]


def waves_of(A, w, phase, t, y):
    """Rows of an operand that are not its first axis, put together and padded ones, and gradients of rows."""
    waves = A * np.sin(t[0][:, None] * w + phase)
    waves = (
        waves[:, ::-1] + np.concatenate([waves[:, 1:], waves[:, :1]], axis=1) + np.pad(waves[:, 2:], [(0, 0), (1, 1)])
    )
    return np.mean((np.sum(waves, axis=1) - y) ** 2) + np.sum(y * np.mean(waves.T, axis=0))


def waves_args(n):
    r = rng()
    return (*[r.standard_normal(20) for _ in range(3)], r.standard_normal((1, n)), r.standard_normal(n))


LANES = {
    "densities": (densities, densities_args, (0, 1, 2, 3)),
    "gradient of densities": (densities, densities_args, (0, 4)),
    "nearest": (nearest, nearest_args, (0, 1)),
    "waves": (waves_of, waves_args, (0, 1, 3, 4)),
}


def cases():
    """Each program with three of the sizes in turn, of which the first is in the quick tier."""
    for k, name in enumerate([*PROGRAMS, *LANES]):
        for j in range(3):
            marks = [pytest.mark.slow] * (j > 0)
            yield pytest.param(name, SIZES[(k + 2 * j) % len(SIZES)], marks=marks, id=f"{name}-{j}")


@pytest.mark.parametrize("name, sizes", list(cases()))
def test_as_without_strips(name, sizes, monkeypatch, seen):
    fn, make, argnums = (PROGRAMS | LANES)[name]
    args = make(sizes.rows)
    expected = compile_grad(fn, argnums=argnums).value_and_grad(*args)
    assert not seen.loops
    use(monkeypatch, sizes)
    f = compile_grad(fn, argnums=argnums)
    for _ in range(3):
        value, gradients = f.value_and_grad(*args)
        assert value == pytest.approx(expected[0], rel=1e-12)
        for found, known in zip(gradients, expected[1], strict=True):
            np.testing.assert_allclose(found, known, rtol=1e-10, atol=1e-12)
    assert seen.loops == 1, seen.notes
    assert ("in the lanes" in seen.notes[-1]) == (name in LANES)
    assert f(*args) == pytest.approx(fn(*args), rel=1e-12)


@pytest.mark.parametrize("name", ["network", "attention", "densities"])
def test_float32(name, monkeypatch, seen):
    fn, make, argnums = (PROGRAMS | LANES)[name]
    args = [a.astype(np.float32) for a in make(24)]
    use(monkeypatch, SIZES[0])
    value, gradients = compile_grad(fn, argnums=argnums).value_and_grad(*args)
    assert seen.loops == 1
    exact = compile_grad(fn, argnums=argnums).value_and_grad(*[a.astype(float) for a in args])
    assert value == pytest.approx(exact[0], rel=1e-4)
    for found, known in zip(gradients, exact[1], strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, known, rtol=1e-3, atol=1e-4)


def test_results_of_rows(monkeypatch, seen):
    """What is returned for each row is put together again, a transposed one too."""

    def fn(W, V, X):
        z = np.tanh(X @ W) @ V
        return np.sum(z), (z, z.T[:, None], np.sum(z, axis=1), X * 2.0)

    args = extremes_args(26)
    use(monkeypatch, Sizes(26, 4, 4))
    f = compile_grad(fn, argnums=(0, 1), has_aux=True)
    for _ in range(3):
        (_, aux), _ = f.value_and_grad(*args)
        for found, known in zip(aux, fn(*args)[1], strict=True):
            np.testing.assert_allclose(found, known, rtol=1e-12)
    assert seen.loops == 1


def test_what_needs_a_total_stands_after_the_strips(monkeypatch, seen):
    def normed(W, V, X):
        h = X @ W
        h = (h - np.mean(h, axis=0)) / np.std(h, axis=0)
        return np.sum(np.tanh(h) @ V)

    args = extremes_args(24)
    expected = compile_grad(normed, argnums=(0, 1)).value_and_grad(*args)
    use(monkeypatch, SIZES[0])
    value, gradients = compile_grad(normed, argnums=(0, 1)).value_and_grad(*args)
    assert value == pytest.approx(expected[0])
    for found, known in zip(gradients, expected[1], strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-10)


@pytest.mark.parametrize(
    "fn",
    [
        lambda W, V, X: np.sum(np.tanh(X @ X.T @ X @ W)),  # rows of all rows
        lambda W, V, X: np.sum(np.tanh(np.cumsum(X @ W, axis=0)) @ V),  # row i of those before it
        lambda W, V, X: np.sum(np.tanh((X @ W)[::-1] * (X @ W)) @ V),  # row i of row n - 1 - i
        lambda W, V, X: np.sum(np.tanh(np.sort(X @ W, axis=0)) @ V),
        lambda W, V, X: np.sum(np.tanh((X @ W)[1:] - (X @ W)[:-1]) @ V),  # of a neighbour
        lambda W, V, X: np.sum(np.tanh(np.arange(len(X))[:, None] * (X @ W)) @ V),  # the number of the row counts
        lambda W, V, X: np.sum(np.tanh(np.roll(X @ W, 1, axis=0)) @ V),
        lambda W, V, X: np.sum(np.tanh(np.concatenate([X @ W, X @ W])) @ V),
        lambda W, V, X: np.sum(np.tanh((X.T.copy().T @ W).reshape(-1, 12)) @ np.ones((12, 2)) @ np.ones((2, 2))),
    ],
)
def test_rows_that_depend_on_others(fn, monkeypatch, seen):
    args = extremes_args(24)
    expected = compile_grad(fn, argnums=(0, 1)).value_and_grad(*args)
    use(monkeypatch, SIZES[0])
    value, gradients = compile_grad(fn, argnums=(0, 1)).value_and_grad(*args)
    assert value == pytest.approx(expected[0])
    for found, known in zip(gradients, expected[1], strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-9, atol=1e-12)


def test_branches_on_totals_and_on_data(monkeypatch, seen):
    def fn(W, V, X):
        z = np.tanh(X @ W) @ V
        if np.sum(z) > 0:
            return np.sum(z * z)
        return np.sum(np.exp(z))

    use(monkeypatch, SIZES[0])
    f = compile_grad(fn, argnums=(0, 1))
    W, V, X = extremes_args(24)
    for sign in (1, -1, 1, -1, 1):
        value, (g, _) = f.value_and_grad(W, sign * V, X)
        assert value == pytest.approx(fn(W, sign * V, X))
        e = np.zeros_like(W)
        e[1, 2] = 1e-6
        assert g[1, 2] == pytest.approx((fn(W + e, sign * V, X) - fn(W - e, sign * V, X)) / 2e-6, rel=1e-6)
    assert seen.loops >= 1


def test_second_derivatives(monkeypatch, seen):
    from tracegrad import autograd

    args = network_args(24)
    direction = rng().standard_normal(args[0].shape)

    def slope(W, *rest):
        return np.sum(autograd.grad(network)(W, *rest) * direction)

    expected = compile_grad(slope).value_and_grad(*args)
    use(monkeypatch, SIZES[0])
    f = compile_grad(slope)
    value, gradient = f.value_and_grad(*args)
    assert seen.loops == 1
    assert value == pytest.approx(expected[0], rel=1e-10)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-9, atol=1e-12)


def test_the_same_bits_for_any_number_of_threads(monkeypatch, seen):
    n = 60_000
    r = rng()
    args = (r.standard_normal((5, 20)), r.standard_normal(20), r.standard_normal((20, 3)), r.standard_normal(3),
            r.standard_normal((n, 5)), r.standard_normal((n, 3)))  # fmt: skip
    f = compile_grad(network, argnums=(0, 1, 2, 3, 4))
    bits = set()
    before = config.num_threads
    try:
        for config.num_threads in (1, 2, 3, 7):
            for _ in range(3):
                value, gradients = f.value_and_grad(*args)
            bits.add(b"".join([np.float64(value).tobytes(), *[g.tobytes() for g in gradients]]))
    finally:
        config.num_threads = before
    assert seen.loops == 1 and len(bits) == 1
    plain = np.tanh(args[4] @ args[0] + args[1]) @ args[2] + args[3] - args[5]
    assert value == pytest.approx(np.mean(plain**2), rel=1e-12)
    np.testing.assert_allclose(gradients[3], 2 * np.sum(plain, axis=0) / plain.size, rtol=1e-9)


def test_sums_over_many_strips_are_as_exact_as_over_all_rows(monkeypatch, seen):
    n = 4096
    use(monkeypatch, Sizes(n, 2, 2, 1))  # all strips in one chunk

    def fn(W, V, X):
        return np.sum(np.abs(X @ W) @ V)

    X = np.full((n, 1), 0.1)
    X[0] = 1e15
    args = np.ones((1, 1)), np.ones((1, 1)), X
    f = compile_grad(fn, argnums=(0, 1))
    value = f.value_and_grad(*args)[0]
    assert seen.loops == 1
    assert value == 1e15 + 0.1 * (n - 1)
    X[5] = np.inf
    assert f.value_and_grad(*args)[0] == np.inf
    X[7] = np.nan
    assert np.isnan(f.value_and_grad(*args)[0])


def test_explain_says_what_was_decided():
    args = network_args(200)
    text = compile_grad(network).explain(*args, level="all")
    assert "(strip/small)" in text
    r = rng()
    shapes = (300, 300), (300,), (300, 300), (300,), (2000, 300), (2000, 300)
    large = [r.standard_normal(shape) for shape in shapes]
    assert "(strip/large)" in compile_grad(network).explain(*large, level="all")
    long = network_args(40_000)
    assert "in strips of" in compile_grad(network).explain(*long, level="all")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gmm_10k_d10_K25", "lennard_jones_1000", "student_2k_K50", "poisson_100000x30"])
def test_memory_is_that_of_a_strip(name):
    """Beside arguments and results less than 2 MB, where a value for all rows takes up to 24."""
    from benchmarks.workloads import ALL

    workload = ALL[name]
    text = compile_grad(workload.fn, argnums=workload.argnums).explain(*workload.make_args(), level="all")
    (workspace,) = re.findall(r"workspace (\d+) bytes", text)
    assert int(workspace) < 2_000_000


def test_strips_leave_no_rows_over_where_a_size_divides_them():
    """Or the body would be compiled twice."""
    for n in (512, 1000, 1024, 2000, 4096, 10_000, 60_000):
        for most in (80, 200, 512, 1024):
            most = min(most, n // 2)
            rows, chunks = strips._borders(n, most, 64)
            assert rows <= most and chunks <= 64
            if any(n % fits == 0 for fits in range(max(strips.FEWEST, most // 2), most + 1)):
                assert n % (rows * chunks) == 0
    assert strips._borders(512, 96, 3) == (64, 2)
