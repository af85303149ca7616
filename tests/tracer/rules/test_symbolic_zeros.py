"""Rules that ask what is zero: ``symbolic_zeros=True`` of ``custom_jvp`` and ``custom_vjp``, as in JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import autograd
from tracegrad.autograd import grad, hessian, jacrev, jvp, vmap

XS = np.array([0.3, -1.2, 2.0])


def product() -> tuple[Any, list[Any]]:
    """x * sin(y), whose rule keeps the tangents that it was asked for: "0" for a symbolic zero."""
    asked: list[Any] = []

    @tg.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * np.sin(y)

    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        asked.append("".join("0" if type(t) is tg.SymbolicZero else "1" for t in tangents))
        assert all(t.shape == np.shape(p) and t.dtype == np.float64 for t, p in zip(tangents, primals, strict=True))
        out = f(x, y)
        if type(dx) is tg.SymbolicZero:
            return out, x * np.cos(y) * dy
        return out, dx * np.sin(y) + (0.0 if type(dy) is tg.SymbolicZero else x * np.cos(y) * dy)

    f.defjvp(rule, symbolic_zeros=True)
    return f, asked


def test_tangents_that_are_zero() -> None:
    f, asked = product()
    x, y = np.array(0.7), np.array(0.4)
    np.testing.assert_allclose(jvp(f, (x, y), (np.array(2.0), np.array(3.0)))[1], 2 * np.sin(y) + 3 * x * np.cos(y))
    assert set(asked) == {"10", "01"}
    np.testing.assert_allclose(grad(f, (0, 1))(x, y), (np.sin(y), x * np.cos(y)))
    np.testing.assert_allclose(hessian(lambda v: f(v[0], v[1]))(np.stack([x, y])), [
        [0, np.cos(y)], [np.cos(y), -x * np.sin(y)]
    ])  # fmt: skip


def test_in_loops_and_batches() -> None:
    f, _ = product()

    def scanned(x: Any) -> Any:
        return tg.scan(lambda c, row: (f(c, row), c), x, XS)[0]

    expected = np.prod(np.sin(XS))
    np.testing.assert_allclose(vmap(grad(scanned))(np.array([0.5, 1.0])), [expected, expected])
    np.testing.assert_allclose(vmap(grad(f, 1), (None, 0))(2.0, XS), 2 * np.cos(XS))


def several() -> Any:
    """(x y, x + y), whose rule refuses to be derived with respect to y of the second."""

    @tg.custom_vjp
    def f(p: Any, n: Any) -> Any:
        return p["x"] * p["y"] * n, p["x"] + p["y"]

    def fwd(p: Any, n: Any) -> Any:
        assert n.value == 2 and not n.perturbed
        x, y = p["x"], p["y"]
        return f({"x": x.value, "y": y.value}, 2), (x.value, y.value, y.perturbed)

    def bwd(kept: Any, cts: Any) -> Any:
        x, y, perturbed = kept
        a, b = cts
        given: Any = None
        if type(a) is not tg.SymbolicZero:
            given = {"x": 2 * y * a, "y": 2 * x * a}
        if type(b) is not tg.SymbolicZero:
            if perturbed:
                raise ValueError("no derivative of the sum")
            given = {"x": b, "y": None}
        return given, None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return f


def test_cotangents_that_are_zero() -> None:
    f = several()
    both = lambda x, y: f({"x": x, "y": y}, 2)  # noqa: E731
    np.testing.assert_allclose(grad(lambda x, y: both(x, y)[0], (0, 1))(3.0, 4.0), (8.0, 6.0))
    np.testing.assert_allclose(grad(lambda x: both(x, 4.0)[0] * both(x, 4.0)[1])(3.0), 8 * 7 + 24)
    np.testing.assert_allclose(jacrev(lambda x: np.stack(both(x, 4.0)))(3.0), [8.0, 1.0])
    np.testing.assert_allclose(jvp(lambda x: both(x, 4.0), (3.0,), (1.0,))[1], (8.0, 1.0))
    with pytest.raises(ValueError, match="no derivative of the sum"):
        grad(lambda y: both(3.0, y)[1])(4.0)


def test_complex_operands() -> None:
    @tg.custom_jvp
    def f(z: Any, w: Any) -> Any:
        return z * w

    @lambda rule: f.defjvp(rule, symbolic_zeros=True)
    def _(primals: Any, tangents: Any) -> Any:
        (z, w), (dz, dw) = primals, tangents
        return z * w, z * dw if type(dz) is tg.SymbolicZero else dz * w

    z, w = 1.0 + 2.0j, 0.5 - 1.0j
    value, tangent = jvp(f, (z, w), (1j, 2.0 + 0j))
    np.testing.assert_allclose((value, tangent), (z * w, 1j * w + 2 * z))
    np.testing.assert_allclose(autograd.grad(lambda z: f(z, w), holomorphic=True)(z), w)


# ---- zeros in expressions --------------------------------------------------------------------------------------------

EXPRESSIONS: dict[str, Any] = {
    "times": lambda z, x: z * x, "times, reflected": lambda z, x: x * z, "plus": lambda z, x: z + x,
    "minus": lambda z, x: x - z, "negative": lambda z, x: -z, "positive": lambda z, x: +z, "over": lambda z, x: z / x,
    "number": lambda z, x: 2.0 * z + 1, "power": lambda z, x: z**2 + abs(z), "in place": lambda z, x: iadd(z, x),
    "compared": lambda z, x: np.where(z == 0, x, -x) + np.where(z < x, x, 0.0), "sine": lambda z, x: np.sin(z),
    "where": lambda z, x: np.where(x > 0, z, x), "sum": lambda z, x: np.sum(z) + z.sum() * x,
    "item": lambda z, x: z[0] * x,
    "matrix": lambda z, x: z @ x, "dot": lambda z, x: np.dot(x, z), "stack": lambda z, x: np.stack([x, z]).sum(0),
    "method": lambda z, x: z.reshape(-1).astype(float).T * x, "like": lambda z, x: np.zeros_like(z) + x,
    "python": lambda z, x: sum([z, x, z]) * len(z), "truth": lambda z, x: x if not np.any(z) else z,
    "maximum": lambda z, x: np.maximum(z, x), "einsum": lambda z, x: np.einsum("i,i->i", z, x),
    "concatenate": lambda z, x: np.concatenate([z, x])[:3], "asarray": lambda z, x: np.asarray(z) + x,
}  # fmt: skip


def iadd(z: Any, x: Any) -> Any:
    z += x
    z *= x
    return z


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_zeros_in_expressions(name: str) -> None:
    expression, seen = EXPRESSIONS[name], []

    @tg.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), out = primals, 0.0
        for t, other in zip(tangents, (y, x), strict=True):
            if type(t) is tg.SymbolicZero:
                seen.append(name)
                given, zeros = (expression(z, x) for z in (t, np.zeros(t.shape, t.dtype)))
                out = out + np.sum(given) - np.sum(zeros)
            out = out + t * other
        return f(x, y), out

    f.defjvp(rule, symbolic_zeros=True)
    np.testing.assert_allclose(jvp(lambda x: f(x, 2 * x), (XS,), (np.ones(3),))[1], 4 * XS)
    np.testing.assert_allclose(grad(lambda x: np.sum(f(x, XS)))(XS), XS)
    np.testing.assert_allclose(vmap(grad(lambda x: np.sum(f(x, x))))(np.stack([XS, -XS])), [2 * XS, -2 * XS])
    assert seen


def test_cotangents_can_be_zeros_and_have_dtypes() -> None:
    f = tg.custom_vjp(lambda x, y: (x * y, x + y))
    f.defvjp(
        lambda x, y: (f(x.value, y.value), (x.value, y.value)),
        lambda r, g: (g[0] * r[1] + g[1], r[0] * g[0] + 1.0 * g[1]),
        symbolic_zeros=True,
    )
    for k, want in ((0, (4.0, 3.0)), (1, (1.0, 1.0))):
        assert grad(lambda x, y, k=k: f(x, y)[k], (0, 1))(3.0, 4.0) == want
    low = np.float32([1, 2])
    g = tg.custom_jvp(lambda x, y: x * y)
    g.defjvp(lambda p, t: (g(*p), t[0] * p[1] + p[0] * t[1]), symbolic_zeros=True)
    assert grad(lambda x: np.sum(g(x, 2 * low)))(low).dtype == np.float32
