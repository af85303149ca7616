"""Int arguments: numbers of the run where Python only computes with them, else part of the program, with the reason."""

from __future__ import annotations

import contextlib
import enum
import io
from typing import Any

import numpy as np
import pytest
from agreement import numerical_gradient
from int_programs import differences, same
from selection import seeds

from tracegrad import autograd, compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")

X = np.linspace(0.5, 2.0, 7)
F = X.astype(np.float32)


def half(n):
    return n / 2


def helped(x, n):
    return np.sum(x) * half(n) + half(n + 1)


def in_a_loop(x, n):
    total = 0.0
    for k in range(4):
        total = total + x[k] * (n + k)
    return total


COMPUTES = {
    "scale": lambda x, n: np.sum(n * x),
    "mean": lambda x, n: np.sum(x) / n,
    "reflected": lambda x, n: np.sum(2.5 / n - x) + 1 / n,
    "power": lambda x, n: np.sum(x ** (n + 10)),
    "polynomial": lambda x, n: np.sum(x) * (n * n - 3 * n + 2) + n**3,
    "division": lambda x, n: np.sum(x) * (n // 7) - n % 7 + divmod(n, 3)[1],
    "float32": lambda x, n: np.sum(F * n) + np.sum(x),
    "functions": lambda x, n: np.sum(x) * np.sqrt(n) + np.log(n) * float(n) + np.float64(n),
    "in place": lambda x, n: np.sum(np.add(x, n)) + abs(-n) + round(n) + int(n),
    "bits": lambda x, n: np.sum(x) * ((n << 2 | 1) + (n >> 1) - (n & 6) + (~n ^ 5)),
    "index": lambda x, n: x[n % 7] * x[-(n % 3)] + np.sum(x[n % 5 :]) if n < 0 else x[n % 7] * x[-(n % 3) - 1],
    "helper": helped,
    "loop": in_a_loop,
    "keyword": lambda x, n=1: np.mean(x) * n,
}


@pytest.mark.parametrize("name", COMPUTES)
def test_ints_that_are_computed_with_are_numbers_of_the_run(name):
    plain, compiled = COMPUTES[name], compile_grad(COMPUTES[name])
    for n in range(1, 61):
        assert np.allclose(compiled(X, n), plain(X, n), rtol=1e-12)
    assert compiled.stats.traces == 2, compiled.stats
    assert compiled.stats.compiles <= 2
    assert "another value of `n`: from now on a number of the run" in compiled.stats.retraces


def characters(w, tokens, targets):
    """One-hot vectors of a recurrent network, in a dict of arrays that are written into."""
    xs, hs, loss = {}, {-1: np.zeros(2)}, 0.0
    for t in range(len(tokens)):
        xs[t] = np.zeros(7)
        xs[t][tokens[t]] = 1
        hs[t] = np.tanh(xs[t][:2] * w[0] + hs[t - 1] * w[1] + xs[t][2:4] * w[2])
        loss -= np.log(np.exp(hs[t][0] * w[3]) / np.sum(np.exp(np.outer(hs[t], w))) + w[targets[t]] ** 2)
    return loss


def labels(w, tokens, targets):
    """Rows of the identity, indices that are gathered in an array, a mask that is written, counts."""
    onehot, chosen, seen, counts = np.eye(7)[tokens], np.zeros(4, int), np.zeros(7), np.zeros(7)
    for k in range(4):
        chosen[k] = targets[k]
        counts[tokens[k]] += 1
    seen[targets] = 1.0
    return (
        np.sum(onehot @ w * w[chosen])
        + np.sum(w[np.array(targets)] ** 2)
        + w @ (seen + counts**2)
        + w[tokens[:2]] @ w[:2]
    )


def pairs(w, tokens, targets):
    total = 0.0
    for i, j in zip(tokens, targets, strict=True):
        total = total + np.log1p(np.exp(-w[i] * w[j]))
    return total / len(tokens)


@pytest.mark.parametrize("plain", [characters, labels, pairs])
def test_lists_of_ints_that_are_indices_are_numbers_of_the_run(plain):
    """Where one of a list varies, all do: they are no recordings for each value, as in training on pieces of a text."""
    compiled, rng = compile_grad(plain), np.random.default_rng(0)
    for _ in range(12):
        given = X, rng.integers(0, 7, 4).tolist(), rng.integers(0, 7, 4).tolist()
        value, gradient = compiled.value_and_grad(*given)
        assert np.isclose(value, plain(*given), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, given), rtol=1e-5, atol=1e-8)
    assert compiled.stats.traces <= 5 and not compiled.stats.live, compiled.stats


def test_small_exponents_have_kernels_of_their_own():
    plain = lambda x, n: np.sum(x**n)  # noqa: E731
    compiled = compile_grad(plain)
    for _ in range(2):
        for n in range(-3, 60):
            value, gradient = compiled.value_and_grad(np.array([0.5, 2.0, 0.0][: 3 if n >= 0 else 2]), n)
            x = np.array([0.5, 2.0, 0.0][: 3 if n >= 0 else 2])
            assert np.isclose(value, plain(x, n), rtol=1e-12)
            assert np.allclose(gradient, n * x ** (n - 1.0) if n else 0 * x, rtol=1e-12), n
    assert compiled.stats.traces <= 20


def test_a_comparison_is_a_branch_and_not_a_value():
    plain = lambda x, n: np.sum(x) * n if n > 30 else -np.sum(x)  # noqa: E731
    compiled = compile_grad(plain)
    assert all(np.isclose(compiled(X, n), plain(X, n)) for n in range(1, 61))
    assert compiled.stats.traces == 3
    assert any(reason.startswith("guard missed: bool() gave another value") for reason in compiled.stats.retraces)


ASKS = {
    "range": lambda x, n: sum(np.sum(x) * i for i in range(n)),
    "index": lambda x, n: [x, 2.0 * x, 3.0 * x, 5.0 * x, x][n][0] * n,
    "slice": lambda x, n: np.sum(x[:n]),
    "shape": lambda x, n: np.sum(np.ones(n)) * x[0],
    "axis": lambda x, n: np.sum(np.sum(np.stack([x, x, x, x]).reshape(2, 2, 7, 1, 1, 1), axis=n % 6)),
    "text": lambda x, n: np.sum(x) * len(f"{n}"),
    "bits by it": lambda x, n: np.sum(x) * (1 << n),
    "method": lambda x, n: np.sum(x) * n.bit_length(),
    "roll": lambda x, n: np.sum(np.roll(x, n)[:2]),
    "repeat": lambda x, n: np.sum(x) * len([0] * n),
    "integer array": lambda x, n: np.sum(x) + np.sum(np.arange(3, dtype=np.int8) + n),
    "too great": lambda x, n: np.sum(x) * (n * 10**17 % 1000003),
}


@pytest.mark.parametrize("name", ASKS)
def test_ints_that_are_asked_for_are_compared_by_value_and_the_reason_says_so(name):
    plain, compiled = ASKS[name], compile_grad(ASKS[name])
    for _ in range(2):
        for n in (1, 2, 3, 4):
            assert np.allclose(plain(X, n), compiled(X, n))
    again = compiled.stats.traces
    assert np.allclose(plain(X, 2), compiled(X, 2))
    assert compiled.stats.traces == again
    reasons = [r for r in compiled.stats.retraces if r.startswith("another value of `n`")]
    assert len(reasons) == 1
    # a text of it is asked for nothing: what is done with the text ends the run
    told = "which is asked for at test_int_arguments.py:" if name != "text" else "which is compared by value"
    assert told in reasons[0]


GIVES = {
    "returned": lambda x, n: (np.sum(x), n + 1),
    "itself": lambda x, n: (n, np.sum(x) / n),
    "alone": lambda x, n: (n * n - 3) // 2,
    "in a dict": lambda x, n: {"step": n + 1, "loss": np.sum(x), "parts": [divmod(n, 7), -n]},
    "of a loop": lambda x, n: (sum(n * k for k in range(9)), np.sum(x)),
    "a number of each kind": lambda x, n: (n / 2, n // 2, n % 5, n > 1, n * 0, n**3, abs(-n), n & 12),
}


@pytest.mark.parametrize("name", GIVES)
def test_ints_that_are_returned_are_computed_by_the_program(name):
    plain, compiled = GIVES[name], compile_grad(GIVES[name])
    for n in [*range(1, 40), 65536, -65536, -7]:
        expected, found = plain(X, n), compiled(X, n)
        assert same(expected, found), (n, expected, found)
    assert compiled.stats.traces <= 5, compiled.stats


def test_results_beyond_their_bounds_are_pythons():
    plain = lambda x, n: (np.sum(x), n**5, n * 10**12, 7 * n)  # noqa: E731
    compiled = compile_grad(plain)
    for n in (1, 2, 3, 65536, -65535, 2**31, 2**31 + 1, 2**40, 2**64, True):
        assert same(plain(X, n), compiled(X, n)), n


def test_other_values_have_their_reason():
    compiled = compile_grad(lambda x, flag, mode: np.sum(x) if flag else np.sum(x) * len(mode))
    compiled(X, True, "a")
    compiled(X, False, "a")
    compiled(X, False, "bc")
    assert compiled.stats.retraces == {
        "first call with arguments of these types and shapes": 1,
        "another value of `flag`, which is compared by value": 1,
        "another value of `flag`, which is compared by value; another value of `mode`, which is compared by value": 1,
    }


class Level(enum.IntEnum):
    LOW = 5
    HIGH = 6


class Own(int):
    def __mul__(self, other: Any) -> Any:
        return other * 100


@pytest.mark.parametrize("value", [True, Level.HIGH, Own(3), np.int64(7), 2**31 + 1, 2**64, -(10**30)])
def test_what_is_no_plain_int_of_moderate_size_is_compared_by_value(value):
    plain = lambda x, n: np.sum(x) * (n * 2) if type(n) is int else np.sum(x) * float(n * 2) + 1  # noqa: E731
    compiled = compile_grad(plain)
    for n in (1, 2, 3, value, 4, value):
        assert np.isclose(compiled(X, n), plain(X, n), rtol=1e-12)


def test_bounds_are_kept():
    plain = lambda x, n: np.sum(x) * 0.0 + (n * n * n * n * n) % 1000  # noqa: E731
    compiled = compile_grad(plain)
    for n in (3, 5, 65536, 65535, 65533, 2**31, 2**31 - 1, -(2**31), 2**40 + 1):
        assert compiled(X, n) == plain(X, n), n


@pytest.mark.parametrize("divide", ["n / m", "n // m", "n % m", "divmod(n, m)[0]", "2.0 / m + n", "m ** -1 + n"])
def test_division_by_zero_raises_as_python_does(divide):
    plain = eval(f"lambda x, n, m: np.sum(x) * ({divide})", {"np": np})
    compiled = compile_grad(plain)
    for n, m in [(1, 2), (2, 3), (3, 4), (4, 0), (-5, 3), (5, -3), (0, 0), (7, 2), (0, -3)]:
        if m:
            assert np.isclose(compiled(X, n, m), plain(X, n, m), rtol=1e-12)
        else:
            with pytest.raises(ZeroDivisionError):
                compiled(X, n, m)


def test_zero_has_no_sign():
    plain = lambda x, n: np.sum(x) + np.arctan2(0.0 * (-n), -1.0) + np.copysign(x[0], n * -3)  # noqa: E731
    compiled = compile_grad(plain)
    for n in (1, 2, 0, -1, 0):
        assert np.isclose(compiled(X, n), plain(X, n)), n


def test_a_loop_that_data_ends_does_not_take_ints_beyond_their_bounds():
    def doubling(x, n):
        c, t = n, np.sum(x)
        while t < 1e9:
            t, c = t * 2.0, c * 2
        return t + c % 1000003

    compiled = compile_grad(doubling)
    for scale in (1.0, 1e-3, 1e3, 1e-12, 1e-16):
        for n in (1, 3, 5, 7):
            assert np.isclose(compiled(X * scale, n), doubling(X * scale, n), rtol=1e-12)


class Counter:
    def __init__(self) -> None:
        self.calls, self.last, self.log = 0, None, []

    def counts(self, x, n):
        self.calls += 1
        return np.sum(x) * n

    def stores(self, x, n):
        self.last = n
        return np.sum(x) * n

    def stores_more(self, x, n):
        self.last = n * 2, {"n": n + 1, "sum": np.sum(x)}
        return np.sum(x) * n

    def appends(self, x, n):
        self.log.extend([n, n - 3])
        self.log.append(n % 4)
        return np.sum(x) * n

    def adds(self, x, n):
        self.calls += n
        return np.sum(x) * n

    def prints(self, x, n):
        print("with", n, f"{2 * n:5d}{n + 1!r}", np.sum(x) > 1)
        return np.sum(x) * n

    def raises(self, x, n):
        self.calls += 1
        if n > 5:
            raise ValueError(f"{n} is too much")
        return np.sum(x) * n

    def counts_and_stores(self, x, n):
        self.calls += 1
        self.last = self.calls * n
        self.log.append((self.calls, self.calls - n))
        return np.sum(x) * n, self.calls + n


METHODS = ["counts", "stores", "stores_more", "appends", "adds", "prints", "counts_and_stores", "raises"]


@pytest.mark.parametrize("method", METHODS)
def test_effects_happen_once(method):
    seen = []
    for make in (lambda f: f, compile_grad):
        owner, output, results = Counter(), io.StringIO(), []
        f = make(getattr(owner, method))
        with contextlib.redirect_stdout(output):
            for n in (1, 2, 3, 4, 5, 6, 7, 8, 5, 1, 2):
                try:
                    results.append(f(X, n))
                except ValueError as error:
                    results.append(str(error))
        seen.append((results, output.getvalue(), vars(owner)))
    assert same(*seen)
    assert method == "raises" or f.stats.traces <= 4, f.stats


def test_gradients_are_those_of_plain_numbers():
    f = lambda x, n: np.sum(np.sin(x * n) / n) + np.sum(x**n) * (n % 5)  # noqa: E731
    compiled = compile_grad(f)
    for n in (4, 5, 6, 7, 8, 9):
        fresh = compile_grad(lambda x, n=n: f(x, n))
        assert np.allclose(compiled.grad(X, n), fresh.grad(X), rtol=1e-12)
    with pytest.raises(Exception, match="cannot differentiate with respect to `n`"):
        autograd.grad(lambda n, x: np.sum(x) * n)(3, X)


def test_nested_compiled_functions_take_them():
    inner = compile_grad(lambda x, n: np.sum(x) * n)
    outer = compile_grad(lambda x, n: inner(x, n) * 2.0 + np.sum(inner.grad(x, n + 1)))
    for n in range(1, 20):
        assert np.isclose(outer(X, n), np.sum(X) * n * 2 + 7 * (n + 1))
    assert outer.stats.traces == 2


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("question", ["n is 5", "5 is n", "n is not 5"])
def test_a_number_that_is_asked_for_by_identity_is_compared_by_value(question):
    space = {"np": np}
    exec(f"def plain(x, n):\n    return np.sum(x) * (100 if {question} else n)", space)
    plain, x = space["plain"], np.ones(2)
    f = compile_grad(plain)
    for n in (1, 2, 3, 5, 4, 5, 1000):
        assert f(x, n) == plain(x, n)


@pytest.mark.slow
@pytest.mark.parametrize("block", seeds(4, quick=1))
def test_random_programs(block):
    with np.errstate(all="ignore"):
        for seed in range(block * 10, block * 10 + 10):
            found, _, text = differences(seed)
            assert not found, f"seed {seed}\n{text}\n" + "\n".join(found)
