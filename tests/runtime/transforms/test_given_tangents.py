"""Tangents and cotangents that are plain values, given inside of other transforms: arrays of any kind of number."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import DifferentiationError, autograd, compile_grad

Z = np.array([1 + 2j, 3 - 1j])
X = np.array([0.3, -0.7])
VALUES = {
    "complex": np.array([1j, 2 - 1j]), "int": np.array([1, 2]), "bool": np.array([True, False]),
    "real": np.ones(2) + 0j, "rows": (np.eye(2) * 1j)[0], "reversed": np.array([1j, 2.0])[::-1],
}  # fmt: skip
FUNCTIONS = {
    "sin": np.sin, "product": lambda a: a * a * (1 + 2j), "length": lambda a: np.abs(a) ** 2,
    "constant": lambda a: a * np.array([1j, 2.0]), "parts": lambda a: np.real(a) * np.imag(a) + a,
}  # fmt: skip
INSIDE = {
    "jvp": lambda g: lambda a: autograd.jvp(g, (a,), (np.ones_like(a),))[0],
    "compiled": lambda g: compile_grad(lambda a: g(a)),
    "vmap": lambda g: lambda a: tg.vmap(g)(np.stack([a, 2 * a]))[0],
    "checkpoint": lambda g: lambda a: autograd.jvp(tg.checkpoint(g), (a,), (np.zeros_like(a),))[0],
    "scan": lambda g: lambda a: tg.scan(lambda c, _: (c, g(c)), a, None, length=2)[1][1],
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents(name, kind):
    f, v = FUNCTIONS[name], VALUES[kind]
    want = autograd.jvp(f, (Z,), (v.astype(complex),))[1]
    for transform in INSIDE.values():
        np.testing.assert_allclose(transform(lambda a: autograd.jvp(f, (a,), (v,))[1])(Z), want, rtol=1e-6)
        np.testing.assert_allclose(transform(lambda a: autograd.linearize(f, a)[1](v))(Z), want, rtol=1e-6)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", ["sin", "product", "constant"])
def test_cotangents(name, kind):
    f, v = FUNCTIONS[name], VALUES[kind]
    (want,) = autograd.vjp(f, Z)[1](v.astype(complex))
    for transform in INSIDE.values():
        np.testing.assert_allclose(transform(lambda a: autograd.vjp(f, a)[1](v)[0])(Z), want, rtol=1e-6)


def test_numbers_and_second_derivatives():
    want = autograd.jvp(np.sin, (0.5 + 1j,), (2 - 1j,))[1]
    for v in (2 - 1j, np.complex128(2 - 1j), np.array(2 - 1j)):
        assert compile_grad(lambda a, v=v: autograd.jvp(np.sin, (a,), (v,))[1])(0.5 + 1j) == pytest.approx(want)
    v = VALUES["complex"]
    twice = autograd.jvp(lambda a: autograd.jvp(np.sin, (a,), (v,))[1], (Z,), (v,))[1]
    np.testing.assert_allclose(twice, -np.sin(Z) * v * v)


@pytest.mark.parametrize("v", [np.ones(3) + 0j, [1j, 2.0], "1j", None])
def test_what_does_not_fit_is_an_error(v):
    with pytest.raises(DifferentiationError):
        autograd.jvp(lambda a: autograd.jvp(np.sin, (a,), (v,))[1], (Z,), (Z,))
    with pytest.raises(DifferentiationError, match="has to be so too"):
        autograd.jvp(lambda a: autograd.jvp(np.sin, (a,), (Z,))[1], (X,), (X,))
