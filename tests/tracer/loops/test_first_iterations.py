"""Loops whose names begin with arrays of another kind than iterations leave: no iteration stands beside the loop."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

W = np.random.default_rng(3).random((4, 4)) * 0.3


def from_zeros(w):
    h = np.zeros(4)
    for i in range(20):
        h = np.tanh(w @ h + w[0] + 0.01 * i)
    return np.sum(h)


def from_zeros_with_an_element(w):
    h = np.zeros(4, complex)
    h[0] = 1.0
    for _ in range(20):
        h = (w @ h) * 1j + 0.1
    return np.abs(np.sum(h))


def in_a_nest(w):
    out = 0.0
    for b in range(20):
        h = np.zeros(4)
        for _ in range(20):
            h = np.tanh(w @ h + 0.1 * b)
        out = out + np.sum(h)
    return out


def kept_under_another_name(w):
    h = np.zeros(4)
    first = h
    for _ in range(20):
        h = np.tanh(w @ h + w[0])
    first[0] = 7.0
    return np.sum(h * w[1]) + np.sum(first)


def in_any_order(w):
    h = w * 1.0
    for _ in range(20):
        h = np.tanh(w @ h).T * 0.9
    return np.sum(h * w)


def a_circuit(w, layers=4):
    psi = np.zeros((2, 2, 2), complex)
    psi[0, 0, 0] = 1.0
    for k in range(layers):
        for q in range(3):
            c, s, e = np.cos(w[k, q]), np.sin(w[k, q]), np.exp(-0.5j * w[k, 3])
            gate = np.array([[c * e, -s * e], [s * np.conj(e), c * np.conj(e)]])
            psi = np.moveaxis(np.tensordot(gate, psi, axes=([1], [q])), 0, q)
        psi[1, 1] *= -1
    return np.sum(np.abs(psi[0]) ** 2 * w[0, 0])


@pytest.mark.parametrize(
    ("f", "turns"),
    [(from_zeros, 20), (from_zeros_with_an_element, 20), (in_a_nest, 20), (kept_under_another_name, 20),
     (in_any_order, 20), (a_circuit, 4)],
)  # fmt: skip
def test_the_loop_has_all_iterations(f, turns):
    g = compile_grad(f)
    for w in (W, W * 1.1):
        value, gradient = g.value_and_grad(w)
        np.testing.assert_allclose(value, f(w), rtol=1e-10)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (w,)), rtol=1e-5, atol=1e-7)
    assert not g.stats.live and g.stats.traces == 1
    assert f"{turns} turns" in g.explain(W)


def test_what_is_computed_from_the_array_is_not_computed_in_each_call():
    """An array that a rule makes stays a plain one: what stands before the loop is done once."""

    def f(w):
        x = np.linspace(0.0, 1.0, 4)
        smooth = np.linalg.inv(np.eye(4) + np.exp(-((x[:, None] - x) ** 2)))
        for _ in range(20):
            x = np.tanh(smooth @ x) * w[0]
        return np.sum(x)

    g = compile_grad(f)
    value, gradient = g.value_and_grad(W)
    np.testing.assert_allclose(value, f(W), rtol=1e-10)
    np.testing.assert_allclose(gradient, numerical_gradient(f, (W,)), rtol=1e-5, atol=1e-7)
    assert "inv" not in g.explain(W, level="program") and "19 turns" in g.explain(W)


def test_an_array_that_has_to_be_plain_is_plain_again():
    """The guess that an array of zeros is a traced one is taken back where code needs NumPy's own."""

    def f(w):
        h = np.zeros(4)
        start = memoryview(h)[0]
        for _ in range(20):
            h = np.tanh(w @ h + w[0] + start)
        return np.sum(h)

    g = compile_grad(f)
    value, gradient = g.value_and_grad(W)
    np.testing.assert_allclose(value, f(W), rtol=1e-10)
    np.testing.assert_allclose(gradient, numerical_gradient(f, (W,)), rtol=1e-5, atol=1e-7)
    assert not g.stats.live


def lanes_that_vanish(w):
    z = w[0] + 0j
    for _ in range(20):
        z = np.sin(w @ z.real) + 0j
    return np.abs(np.sum(z))


def lanes_that_begin_as_zero(w):
    z = w[0] * 1j
    for _ in range(20):
        z = np.sin(w @ z.imag) * 1j
    return np.abs(np.sum(z))


def lanes_that_vanish_at_the_end(w):
    z = np.zeros(4, complex) + w[0] * (1 + 1j)
    for _ in range(20):
        z = np.abs(w @ z) + 0j
    return np.abs(np.sum(z))


def lanes_that_are_appended(w):
    h, out = w[0], []
    for _ in range(20):
        h = np.sin(w @ h)
        out.append(h * 1j)
    return np.abs(np.sum(np.array(out)[1:]))


def lanes_of_the_last_iteration(w):
    h, z = w[0], 0j
    for _ in range(20):
        h = np.sin(w @ h)
        z = h * 1j
    return np.abs(np.sum(z))


@pytest.mark.parametrize(
    "f",
    [lanes_that_vanish, lanes_that_begin_as_zero, lanes_that_vanish_at_the_end, lanes_that_are_appended,
     lanes_of_the_last_iteration],
)  # fmt: skip
def test_complex_values_of_which_a_lane_is_zero(f):
    g = compile_grad(f)
    for w in (W, W * 1.1):
        value, gradient = g.value_and_grad(w)
        np.testing.assert_allclose(value, f(w), rtol=1e-10)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (w,)), rtol=1e-5, atol=1e-7)
    assert not g.stats.live and "turns" in g.explain(W)
