"""Compiled functions under JAX's transformations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tracegrad import compile_grad
from tracegrad.interop import as_jax_callable

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = pytest.importorskip("jax.numpy")


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def wide(request: pytest.FixtureRequest) -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", request.param)
    yield
    jax.config.update("jax_enable_x64", before)


def model(p: Any, x: Any, k: int = 2) -> Any:
    h = np.tanh(x @ p["w"])
    return {"loss": np.sum(h**k), "h": h, "best": np.argmax(h), "none": None, "text": "t"}


def in_jax(p: Any, x: Any) -> Any:
    return jnp.sum(jnp.tanh(x @ p["w"]) ** 2)


def close(a: Any, b: Any) -> None:
    assert a.dtype == b.dtype
    np.testing.assert_allclose(a, b, rtol=1e-12 if a.dtype == np.float64 else 1e-5)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("compiled", [pytest.param(False, marks=pytest.mark.slow), True])
def test_gradients_of_trees(compiled: bool) -> None:
    f = as_jax_callable(compile_grad(model) if compiled else model)
    p, x = {"w": jnp.ones(3)}, jnp.linspace(0.0, 1.0, 12).reshape(4, 3)

    def loss(p: Any, x: Any) -> Any:
        return f(p, x)["loss"]

    found = f(p, x)
    assert found["none"] is None and found["text"] == "t" and found["best"] == 3
    close(jax.jit(loss)(p, x), in_jax(p, x))
    for wrap in (lambda g: g, jax.jit):
        close(wrap(jax.grad(loss))(p, x)["w"], jax.grad(in_jax)(p, x)["w"])
        close(wrap(jax.grad(loss, argnums=1))(p, x), jax.grad(in_jax, argnums=1)(p, x))
    many = {"w": jnp.stack([jnp.ones(3), jnp.zeros(3)])}
    close(
        jax.vmap(jax.grad(loss), in_axes=(0, None))(many, x)["w"],
        jax.vmap(jax.grad(in_jax), in_axes=(0, None))(many, x)["w"],
    )

    def of_gradient(g: Any) -> Any:
        return lambda p: jnp.sum(jax.grad(g)(p, x)["w"] ** 2)

    close(jax.jit(jax.grad(of_gradient(loss)))(p)["w"], jax.grad(of_gradient(in_jax))(p)["w"])


def test_branches_and_integers() -> None:
    f = as_jax_callable(lambda x, n: x[n] * 2.0 if x[0] > 0 else x[n] * x[n])
    x, n = jnp.array([-2.0, 3.0]), jnp.array([1, 0, 1])
    for sign in (1.0, -1.0):
        close(jax.jit(f)(sign * x, n), (sign * x[n]) ** 2 if sign > 0 else -2.0 * x[n])
    grad = jax.jit(jax.grad(lambda x: jnp.sum(f(x, n))))
    assert grad(x).tolist() == [-4.0, 12.0] and grad(-x).tolist() == [2.0, 4.0]


FACTOR = 1.0


def scaled(x: Any) -> Any:
    return x * FACTOR


def test_numbers_of_the_function_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    f = jax.jit(as_jax_callable(scaled))
    for factor in (2.0, 3.0, 3.0, 4.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert float(f(jnp.float32(1.0))) == factor


def test_what_is_refused() -> None:
    x = jnp.ones(2)
    with pytest.raises(TypeError, match="bfloat16"):
        as_jax_callable(np.sin)(x.astype(jnp.bfloat16))
    with pytest.raises(Exception, match="may not depend on values"):
        jax.jit(lambda x: as_jax_callable(lambda x: (x, "p" if x[0] > 0 else "n"))(x)[0])(x).block_until_ready()
    with pytest.raises(Exception, match="may not depend on values"):
        jax.jit(as_jax_callable(lambda x: x if x[0] > 0 else x[:1]))(-x).block_until_ready()
        jax.jit(as_jax_callable(lambda x: x if x[0] > 0 else x[:1]))(x).block_until_ready()


def test_arrays_at_hand_are_not_recorded_each_time() -> None:
    """Outside of ``jit`` JAX has values, and needs no shapes before."""
    compiled = compile_grad(lambda x: {"loss": np.sum(x**3), "first": int(x[0]), "big": x[x > 1]})
    f = as_jax_callable(compiled)
    x = jnp.array([1.0, 2.0, 3.0])
    for _ in range(4):
        found = f(x)
        assert found["first"] == 1 and found["big"].shape == (2,)
    slope = jax.grad(lambda x: f(x)["loss"])
    for _ in range(3):
        traces = compiled.stats.traces
        np.testing.assert_allclose(slope(x), 3 * np.array(x) ** 2)
        curved = jax.grad(lambda x: jnp.sum(slope(x)))(x)
    np.testing.assert_allclose(curved, 6 * np.array(x))
    assert compiled.stats.traces == traces


def test_results_share_no_memory_with_the_functions_own() -> None:
    kept = np.zeros(3)
    f = as_jax_callable(lambda x: (x, kept))
    _, found = f(jnp.ones(3))
    kept[:] = 1.0
    assert found.tolist() == [0.0, 0.0, 0.0]
