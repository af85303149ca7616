"""``Function`` in functions of arrays: its backward is a program, which goes into loops, batches and transforms."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import autograd, compile_grad
from tracegrad.autograd import Function

X = np.array([0.3, 0.5, -0.7])
MATRIX = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, 0.0, 1.0]])
SHAPE = tg.ShapeDtypeStruct((3,), np.float64)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


class Solve(Function):
    """Opaque both ways."""

    @staticmethod
    def forward(ctx, b):
        return tg.from_numpy(tg.pure_callback(lambda b: np.linalg.solve(MATRIX, b), SHAPE, b.detach().numpy()))

    @staticmethod
    def backward(ctx, g):
        return tg.from_numpy(tg.pure_callback(lambda g: np.linalg.solve(MATRIX.T, g), SHAPE, g.detach().numpy()))


def rolled(cube):
    def program(x):
        for _ in range(20):
            x = cube(x) + 0.5 * x + 0.1
        return np.sum(x)

    return program


def scanned(cube):
    return lambda x: np.sum(tg.scan(lambda c, row: (cube(c * row) + 0.1, cube(c)), x, MATRIX)[1])


@pytest.mark.parametrize("make", [rolled, scanned])
@pytest.mark.slow
def test_in_loops_and_transforms(make) -> None:
    own, plain = make(Cube.apply), make(lambda x: x**3)
    compiled, expected = compile_grad(own), compile_grad(plain)
    np.testing.assert_allclose(compiled.grad(X), expected.grad(X), rtol=1e-9)
    assert "loop[" in compiled.explain(X, level="all")
    v, batch = np.array([1.0, -0.5, 2.0]), np.stack([X, X / 2])
    np.testing.assert_allclose(autograd.jvp(own, (X,), (v,))[1], expected.grad(X) @ v, rtol=1e-9)
    np.testing.assert_allclose(autograd.hessian(own)(X), autograd.hessian(plain)(X), rtol=1e-8, atol=1e-12)
    each = autograd.vmap(autograd.grad(own))(batch)
    np.testing.assert_allclose(each, [expected.grad(x) for x in batch], rtol=1e-9)


def test_gradients_of_each_row_of_a_batch_through_a_loop() -> None:
    program = rolled(lambda x: x**3)
    batch = np.stack([X, X / 2, -X])
    each = autograd.vmap(autograd.grad(program))(batch)
    np.testing.assert_allclose(each, [compile_grad(program).grad(x) for x in batch], rtol=1e-9)


def test_an_opaque_forward() -> None:
    """By ``pure_callback``, in compiled functions and on tensors."""
    expected = 2 * np.linalg.solve(MATRIX.T, np.linalg.solve(MATRIX, X))
    compiled = compile_grad(lambda b: np.sum(Solve.apply(b) ** 2))
    for _ in range(3):
        np.testing.assert_allclose(compiled.grad(X), expected)
    assert not compiled.stats.live
    t = tg.tensor(X, requires_grad=True)
    (Solve.apply(t) ** 2).sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), expected)
