"""Partial derivatives of powers at their edges: bases and exponents that are 0, negative, infinite, NaN.

``partials`` is PyTorch's definition (``test_eager_oracle.py`` holds the library itself to it); an infinite exponent is
left to :func:`test_infinite_exponents`, where ours differs.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import warnings

import numpy as np
import pytest

import tracegrad as torch
from tracegrad import autograd, compile_grad

INF, NAN = math.inf, math.nan
BASES = [-INF, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, INF, NAN]
EXPONENTS = [-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, NAN]
GRID = np.array(list(itertools.product(BASES, EXPONENTS)))


def partials(b, e):
    """(d/db, d/de) of b**e."""
    b, e = np.float64(b), np.float64(e)
    with np.errstate(all="ignore"):
        of_base = np.float64(0) if e == 0 else e * np.power(b, e - 1)
        of_exponent = np.float64(0) if b == 0 and e >= 0 else np.power(b, e) * np.log(b)
    return of_base, of_exponent


WANT = np.array([partials(b, e) for b, e in GRID])
POWERS = {
    "**": lambda b, e: b**e, "np.power": np.power, "float_power": np.float_power, "operator": operator.pow,
    "pow()": pow, "in place": lambda b, e: operator.ipow(b * 1.0, e),
    "out of a helper": lambda b, e: (lambda p: p(b, e))(np.power),
}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", POWERS)
def test_both_are_arguments(name):
    power = POWERS[name]
    loss = compile_grad(lambda b, e: np.sum(power(b, e)))
    for _ in range(3):
        found = autograd.grad(lambda b, e: loss(b, e), argnums=(0, 1))(GRID[:, 0], GRID[:, 1])
        np.testing.assert_allclose(np.stack(found, 1), WANT, rtol=1e-12)
    ones, none = np.ones(len(GRID)), np.zeros(len(GRID))
    for tangents, column in (((ones, none), 0), ((none, ones), 1)):
        _, t = autograd.jvp(power, (GRID[:, 0], GRID[:, 1]), tangents)
        np.testing.assert_allclose(t, WANT[:, column], rtol=1e-12)


CONSTANT_BASES = {
    "float": lambda b: functools.partial(operator.pow, b),
    "int": lambda b: functools.partial(operator.pow, int(b)),
    "np.power": lambda b: functools.partial(np.power, b),
    "array": lambda b: lambda e: np.full(e.shape, b) ** e,
    "zeros": lambda b: lambda e: (np.zeros(e.shape) + b) ** e,
    "items": lambda b: lambda e: np.array([b**x for x in e]),
}


@pytest.mark.parametrize("base", [-2.0, -1.0, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("spelling", CONSTANT_BASES)
def test_the_base_is_a_constant(spelling, base):
    power = CONSTANT_BASES[spelling](base)
    e = np.array(EXPONENTS)
    want = [partials(base, x)[1] for x in e]
    np.testing.assert_allclose(autograd.grad(lambda e: np.sum(power(e)))(e), want, rtol=1e-12)
    np.testing.assert_allclose(autograd.jvp(power, (e,), (np.ones_like(e),))[1], want, rtol=1e-12)


@pytest.mark.parametrize("exponent", [-2, -1, 0, 1, 2, 3, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, 3.0, NAN])
def test_the_exponent_is_a_constant(exponent):
    b = np.array(BASES)
    want = [partials(x, exponent)[0] for x in b]
    for power in (lambda b: b**exponent, lambda b: np.power(b, exponent), lambda b: np.array([x**exponent for x in b])):
        np.testing.assert_allclose(autograd.grad(lambda b, p=power: np.sum(p(b)))(b), want, rtol=1e-12)


@pytest.mark.parametrize("base", [0.0, -0.0, 0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zero_to_a_power_of_tensors(base, dtype):
    e = np.array(EXPONENTS, dtype)
    want = [partials(base, x)[1] for x in e]
    for form in (
        lambda e: base**e,
        lambda e: torch.pow(base, e),
        lambda e: torch.full(e.shape, float(base), dtype=e.dtype) ** e,
    ):
        for _ in range(3):
            t = torch.tensor(e, requires_grad=True)
            form(t).sum().backward()
            if math.copysign(1, base) < 0:  # (-0.0)**-1 is -inf, times log(0)
                assert np.isposinf(t.grad.numpy()[1])
            np.testing.assert_array_equal(np.abs(t.grad.numpy()), np.abs(want))


def test_second_derivatives_are_those_of_the_power():
    b, e = np.array([0.5, 1.0, 2.0, 0.5, 2.0]), np.array([0.0, 0.0, 0.0, 1.0, 2.0])
    mixed = autograd.jvp(
        autograd.grad(lambda b, e: np.sum(b**e), argnums=0), (b, e), (np.zeros(5), np.ones(5))
    )[1]  # fmt: skip
    np.testing.assert_allclose(mixed, b ** (e - 1) * (1 + e * np.log(b)), rtol=1e-12)
    twice = autograd.jvp(
        autograd.grad(lambda b, e: np.sum(b**e), argnums=1), (b, e), (np.zeros(5), np.ones(5))
    )[1]  # fmt: skip
    np.testing.assert_allclose(twice, b**e * np.log(b) ** 2, rtol=1e-12)
    third = autograd.grad(autograd.grad(autograd.grad(lambda x: x**3)))
    assert [third(x) for x in (0.0, -1.0)] == [6.0, 6.0]
    assert autograd.grad(autograd.grad(lambda e: 0.0**e))(2.0) == 0.0


def test_infinite_exponents():
    """Where an infinite exponent meets a power that is 0, the derivative is 0, as everywhere next to it."""
    of_base = autograd.grad(lambda b, e: b**e)
    assert [of_base(0.5, INF), of_base(2.0, -INF), of_base(0.0, INF)] == [0.0, 0.0, 0.0]
    of_exponent = autograd.grad(lambda b, e: b**e, argnums=1)
    assert [of_exponent(0.0, INF), of_exponent(0.0, -INF), of_exponent(2.0, -INF)] == [0.0, -INF, 0.0]


@pytest.mark.parametrize(
    ("exponent", "slope"), [(1 + 0j, 1.0), (2 + 0j, 0.0), (2 + 1j, 0.0), (0.5 + 0j, INF), (0j, 0.0), (3.5 + 0j, 0.0)]
)
def test_complex_zero_as_the_base(exponent, slope):
    """The slope of ``z**w`` at 0 is that of the real power: 1 for w = 1, which must not pass for 0."""
    found = autograd.grad(lambda z, w: np.real(z**w))(np.array(0j), np.array(exponent))
    assert np.real(found) == slope
    z, w = (torch.tensor(v, dtype=torch.complex128, requires_grad=True) for v in (0j, exponent))
    (z**w).real.backward()
    assert z.grad.real.item() == slope and w.grad.item() == 0
