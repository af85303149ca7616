"""Programs with complex numbers, as people write them: signals, circuits, quantum states, iterations of the plane."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np
import pytest
from agreement import complex_gradient, numerical_gradient

import tracegrad
from tracegrad import autograd, compile_grad
from tracegrad.tracer.ir.errors import DifferentiationError

RNG = np.random.default_rng(7)
X = RNG.normal(size=8)
Z = RNG.normal(size=3) + 1j * RNG.normal(size=3)
SX, SY, SZ = np.array([[0, 1], [1, 0]], complex), np.array([[0, -1j], [1j, 0]]), np.diag([1.0 + 0j, -1])


def spectrum_by_sums(x):
    count = len(x)
    spectrum = np.zeros(count, dtype=complex)
    for k in range(count):
        for n in range(count):
            spectrum[k] += x[n] * np.exp(-2j * np.pi * k * n / count)
    return np.sum(np.abs(spectrum) ** 2 * np.arange(count))


def spectrum_by_a_matrix(x):
    n = np.arange(len(x))
    spectrum = np.exp(-2j * np.pi * np.outer(n, n) / len(x)) @ x
    return np.sum(np.abs(spectrum) * n) + np.sum(np.unwrap(np.angle(spectrum)))


def _fft(x):
    if len(x) == 1:
        return x + 0j
    even, odd = _fft(x[0::2]), _fft(x[1::2])
    turned = np.exp(-2j * np.pi * np.arange(len(x) // 2) / len(x)) * odd
    return np.concatenate([even + turned, even - turned])


def spectrum_by_halves(x):
    return np.sum(np.abs(_fft(x)) * np.arange(8))


def analytic_signal(x):
    h = x + 1j * np.roll(x, 2)
    envelope, phase = np.abs(h), np.angle(h, deg=True)
    return np.sum(envelope * np.cos(np.deg2rad(phase))) + np.linalg.norm(h)


def filter_response(b, a):
    w = np.linspace(0.1, 3.0, 6)
    z = np.exp(-1j * w)
    h = (b[0] + b[1] * z + b[2] * z**2) / (1 + a[0] * z + a[1] * z**2)
    return np.sum(20 * np.log10(np.abs(h)))


def power_in_a_resistor(R, L, C, w):
    Z = R + 1j * w * L + 1 / (1j * w * C)
    current = 5 / Z
    return abs(current) ** 2 * R


class Circuit:
    """A ladder of impedances."""

    def __init__(self, frequency):
        self.s = 2j * np.pi * frequency

    def capacitor(self, C):
        return 1 / (self.s * C)

    def input_impedance(self, parts):
        Z = complex(50.0)
        for R, C in parts:
            Y = 1 / Z + 1 / self.capacitor(C)
            Z = R + 1 / Y
        return Z

    def mismatch(self, parts):
        Z = self.input_impedance(parts)
        reflection = (Z - 50) / (Z + 50)
        return abs(reflection) ** 2 + cmath.phase(Z)


def ladder(parts):
    return Circuit(1e-1).mismatch(parts)


def rotations(angles):
    psi = np.array([1, 0], dtype=complex)
    for k in range(len(angles)):
        U = np.cos(angles[k]) * np.eye(2) - 1j * np.sin(angles[k]) * (SX if k % 2 else SY)
        psi = U @ psi
    return np.real(np.vdot(psi, SZ @ psi))


def evolution(steps):
    psi = np.zeros(4, dtype=np.complex128)
    psi[0] = 1.0
    H = np.kron(SX, SZ) + np.kron(SY, np.eye(2))
    for dt in steps:
        psi = psi - 1j * dt * (H @ psi)
        psi /= np.linalg.norm(psi)
    return (psi.conj().T @ H @ psi).real + np.einsum("i,ij,j", psi.conj(), H, psi).real


def schroedinger(w, psi):
    dt = 0.01
    for _ in range(200):
        k1 = -1j * w * psi[::-1]
        k2 = -1j * w * (psi + dt / 2 * k1)[::-1]
        psi = psi + dt * k2
    return np.abs(psi[0]) ** 2


def density_matrix(a):
    rho = np.outer(a, a.conj()) / np.vdot(a, a)
    rho = 0.9 * rho + 0.1 * np.eye(3) / 3
    return np.trace(rho @ rho).real + abs(rho[0, 1])


def escape(c):
    z, n = 0j, 0
    while abs(z) < 2 and n < 40:
        z = z * z + c
        n += 1
    return abs(z)


def julia(c):
    y, x = np.mgrid[-1:1:5j, -1:1:5j]
    z = x + 1j * y
    for _ in range(20):
        z = np.where(np.abs(z) < 2, z * z + c, z)
    return np.sum(np.abs(z))


def complex_step(x):
    def f(z):
        return np.exp(z) / np.sqrt(np.sin(z) ** 3 + np.cos(z) ** 3)

    return np.imag(f(x + 1e-20j)) / 1e-20


def newton(z):
    while abs(z**3 - 1) > 1e-3:
        z = z - (z**3 - 1) / (3 * z**2)
    return z.imag + 2 * z.real


def horner(z):
    total = 0
    for c in (1, 2j, 3 - 1j):
        total = total * z + c
    return np.sum(np.abs(total - np.polyval([1, 2j, 3], z)) ** 2)


def by_parts(a):
    z = np.zeros(4, dtype=complex)
    z.real = a
    z.imag[1:3] = a[1:3] ** 2
    z[0] += 1j * a[0]
    z[3] = complex(a[0], a[1])
    z.real *= 2
    return np.sum(np.abs(z * z + 1) ** 2) + np.sum(z.view(float) ** 2) + np.sum(np.abs(a.view(complex)))


def lists(a):
    zs = [a[k] * np.exp(1j * k) for k in range(3)]
    w = np.array([1j * a[0], a[1], 2.0])
    return (
        abs(sum(zs)) + np.abs(np.stack(zs)).sum() + np.abs(np.array(zs)).prod() + abs(np.sum(a[:3].astype(complex) * w))
    )


def numbers(a, b):
    z = complex(a, b)
    w = z**2 + z.conjugate() / z + 2**z + z**0.5 + cmath.exp(z) * cmath.sqrt(z) + cmath.log(z) + cmath.rect(a, b)
    if isinstance(w, complex) and type(z) is complex and z != 1j:
        w *= 2
    return w.real + w.imag + cmath.phase(z) + cmath.polar(z)[0] + abs(cmath.sin(z))


def branches(z):
    for k in range(6):
        z = z * cmath.exp(0.5j * k) if z.real > 0 else z.conjugate() + 0.1
    return abs(z) ** 2


def tree(p):
    return abs(p["a"] * p["b"][0].sum() + p["b"][1]) ** 2


slow = pytest.mark.slow
PROGRAMS: list[Any] = [
    (power_in_a_resistor, (10.0, 0.1, 0.01, 2.0)),
    (rotations, (X[:6],)),
    (schroedinger, (1.3, np.array([1.0, 0.5j]))),
    (by_parts, (X[:4],)),
    (newton, (0.8 + 0.9j,)),
    *[
        pytest.param(f, args, marks=slow)
        for f, args in (
            (spectrum_by_sums, (X[:4],)), (spectrum_by_a_matrix, (X,)), (spectrum_by_halves, (X,)),
            (analytic_signal, (X,)),
            (filter_response, (X[:3], X[3:5] / 4)), (evolution, (X,)), (density_matrix, (Z,)), (escape, (0.3 + 0.55j,)),
            (julia, (0.1 + 0.2j,)), (complex_step, (0.7,)), (horner, (Z,)), (lists, (X,)), (numbers, (0.6, 0.3)),
            (branches, (0.4 - 0.3j,)), (ladder, ([(10.0, 0.02), (20.0, 0.03)],)),
            (tree, ({"a": 2.0 - 1j, "b": (Z, 0.5)},)),
        )
    ],
]  # fmt: skip


@pytest.mark.parametrize("f, args", PROGRAMS)
def test_value_and_gradient(f: Any, args: tuple[Any, ...]) -> None:
    compiled = compile_grad(f, argnums=tuple(range(len(args))))
    for _ in range(3):  # recorded, verified, replayed
        value, gradients = compiled.value_and_grad(*args)
    assert compiled.stats.live == ""
    np.testing.assert_allclose(value, f(*args), rtol=1e-9)
    for k, (given, gradient) in enumerate(zip(args, gradients, strict=True)):
        if isinstance(given, (list, dict)):
            continue
        assert np.asarray(gradient).dtype == np.asarray(given).dtype
        at = (lambda v, k=k: f(*args[:k], v, *args[k + 1 :])) if np.iscomplexobj(given) else None
        expected = numerical_gradient(f, args, argnum=k) if at is None else complex_gradient(at, given)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
    if f is tree:
        z, w = args[0]["a"], args[0]["b"][0]
        expected = complex_gradient(lambda a: tree({"a": a, "b": args[0]["b"]}), z)
        np.testing.assert_allclose(gradients[0]["a"], expected, rtol=1e-6)
        assert type(gradients[0]["a"]) is complex and gradients[0]["b"][0].shape == w.shape


def test_state_and_results() -> None:
    """Results and what the function keeps are complex arrays; captured ones are read anew in each call."""

    class Keeper:
        def __init__(self) -> None:
            self.A, self.history = np.array([[1, 2j], [3, 4]]), []

        def step(self, z: Any) -> Any:
            w = self.A @ z
            self.history.append(w)
            self.last = w.conj()
            return {"w": w, "parts": (w.real, w[0], 1j)}

    keeper = Keeper()
    step = compile_grad(keeper.step)
    for k in range(4):
        keeper.A[0, 0] = k
        z = np.array([1.0 + 1j, k])
        found = step(z)
        w = keeper.A @ z
        np.testing.assert_allclose(found["w"], w)
        np.testing.assert_allclose(keeper.last, w.conj())
        np.testing.assert_allclose(keeper.history[k], w)
        assert type(found["parts"][1]) is np.complex128 and found["parts"][0].dtype == float and found["parts"][2] == 1j
    identity = compile_grad(lambda z: z)
    assert all(identity(z) is z for _ in range(3))


@slow
def test_arguments_of_other_types_and_layouts() -> None:
    f = compile_grad(lambda z: np.sum(np.abs(z) ** 2 * np.arange(np.size(z)).reshape(np.shape(z))))
    A = np.arange(12).reshape(3, 4) * (1 + 2j)
    for B in (A, A.T, A[:, ::2], A[::-1], A.astype(np.complex64), A[:0], A[0, 0], complex(A[0, 1]), A.real.copy()):
        for _ in range(3):
            value, gradient = f.value_and_grad(B)
            np.testing.assert_allclose(value, np.sum(np.abs(B) ** 2 * np.arange(np.size(B)).reshape(np.shape(B))))
            np.testing.assert_allclose(gradient, 2 * np.conj(B) * np.arange(np.size(B)).reshape(np.shape(B)), rtol=1e-6)
            assert np.asarray(gradient).dtype == np.asarray(B).dtype


@slow
def test_explicit_loops_and_branches() -> None:
    def plain(z: Any) -> Any:
        total, carry = 0.0, 0j
        for x in z:
            total, carry = total + abs(carry * x), carry * 0.5 + x
        w = carry * carry if carry.real > 0 else carry + 1j
        while abs(w) < 100:
            w = w * (1 + 1j)
        return total + abs(carry) + w.real

    def explicit(z: Any) -> Any:
        carry, ys = tracegrad.scan(lambda c, x: (c * 0.5 + x, c * x), 0j, z)
        w = tracegrad.cond(carry.real > 0, lambda c: c * c, lambda c: c + 1j, carry)
        w = tracegrad.while_loop(lambda w: abs(w) < 100, lambda w: w * (1 + 1j), w)
        return np.sum(np.abs(ys)) + abs(carry) + w.real

    compiled = compile_grad(explicit)
    for z in (Z, -Z, Z[::-1].copy()):
        value, gradient = compiled.value_and_grad(z)
        np.testing.assert_allclose(value, plain(z), rtol=1e-12)
        np.testing.assert_allclose(gradient, complex_gradient(plain, z), rtol=1e-5, atol=1e-6)


@slow
def test_python_that_runs_in_each_call() -> None:
    rng = np.random.default_rng(0)

    def g(z: Any) -> Any:
        n = rng.normal()
        w = z * n if (z * n).real.sum() > 0 else z.conj() * n
        return np.sum(np.abs(w) ** 2) / n**2

    compiled = compile_grad(g)
    for _ in range(4):
        np.testing.assert_allclose(compiled.grad(Z), 2 * Z.conj())
    assert compiled.stats.live


@slow
def test_gradients_are_conjugates_of_pytorchs() -> None:
    torch = pytest.importorskip("torch")

    def loss(xp: Any, z: Any) -> Any:
        return (abs(xp.exp(z) / (z + 2j)) + xp.real(xp.tanh(z) * xp.conj(z)) + xp.angle(xp.sqrt(z))).sum()

    t = torch.tensor(Z, requires_grad=True)
    loss(torch, t).backward()
    found = autograd.grad(lambda z: loss(np, z))(Z)
    np.testing.assert_allclose(found, t.grad.numpy().conj(), rtol=1e-12)


def test_holomorphic_derivatives() -> None:
    def f(z: Any) -> Any:
        return np.exp(1j * z) * z**2 / np.sqrt(z + 3)

    first = autograd.grad(f, holomorphic=True)
    second = autograd.value_and_grad(first, holomorphic=True)
    z, h = 0.7 + 0.4j, 1e-5
    for _ in range(3):
        value, slope = second(z)
        np.testing.assert_allclose(value, (f(z + h) - f(z - h)) / (2 * h), rtol=1e-8)
        np.testing.assert_allclose(slope, (f(z + h) - 2 * f(z) + f(z - h)) / h**2, rtol=1e-4)
    gradient = autograd.grad(lambda z: np.sum(f(z)), holomorphic=True)(Z)
    np.testing.assert_allclose(gradient, [first(z) for z in Z], rtol=1e-12)


def test_refusals() -> None:
    for call, words in (
        (lambda: compile_grad(lambda z: z * 1j).grad(1.0), "holomorphic=True"),
        (lambda: autograd.grad(lambda z: abs(z), holomorphic=True)(1j), "complex number"),
        (lambda: autograd.grad(lambda z: z * 1j, holomorphic=True)(1.0), "`z` is not: pass it"),
        (lambda: compile_grad(lambda z: np.sum(z)).grad(Z), "np.abs"),
    ):
        with pytest.raises(DifferentiationError, match=words):
            call()
