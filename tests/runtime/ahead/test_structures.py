"""Complex numbers, named tuples and objects in arguments and results, ahead of time."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from in_c import results_in_c
from test_lowered import same

import tracegrad
from tracegrad import compile_grad


class Weights(NamedTuple):
    w: np.ndarray
    b: float


@dataclass
class Layer:
    w: np.ndarray
    b: float


@dataclass(frozen=True, slots=True)
class Slotted:
    w: np.ndarray
    b: float


def layer(p, x):
    return np.sum(np.tanh(x @ p.w + p.b))


def transfer(z, c, x):
    return np.sum(np.abs(z * c + x) ** 2)


def rotated(x):
    return {"whole": x * 1j, "first": Weights(np.exp(1j * x[0]), x[0])}


X = np.arange(6.0).reshape(2, 3) / 10
Z = np.array([1 + 2j, -0.5j, 3.0])


@pytest.fixture(params=[Weights, Layer, Slotted])
def cls(request):
    return request.param


def test_named_tuples_and_objects(tmp_path, cls):
    f, p = compile_grad(layer), cls(np.array([1.0, -1.0, 0.5]), 0.5)
    value, gradient = f.value_and_grad(p, X)
    compiled = f.lower(p, X).compile()
    compiled.export(tmp_path / "f.tgz")
    loaded = tracegrad.load(tmp_path / "f.tgz")
    for made in (compiled, loaded):
        found = made.value_and_grad(p, X)
        assert found[0] == value
        assert type(found[1]).__name__ == cls.__name__
        assert found[1].w.tobytes() == gradient.w.tobytes()
        assert found[1].b == gradient.b
    assert type(compiled.grad(p, X)) is cls
    assert type(loaded.grad(p, X)) is type(loaded.grad(p, X))
    with pytest.raises(TypeError, match=rf"are a {cls.__name__} with \w, \w here, not"):
        compiled.value_and_grad((p.w, p.b), X)
    names = "bw" if cls is Slotted else "wb"  # Python sorts slots
    assert ", ".join([f"double *grad_p_{name}" for name in names]) in f.as_native(p, X).declaration


@pytest.mark.parametrize("number", [1 + 2j, np.complex128(1 + 2j), np.float64(2.0)])
def test_complex_arguments(tmp_path, number):
    f, args = compile_grad(transfer, argnums=(0, 1)), (Z, number, X[0])
    compiled = f.lower(*args).compile()
    compiled.export(tmp_path / "f.tgz")
    for made in (compiled, tracegrad.load(tmp_path / "f.tgz")):
        assert same(made.value_and_grad(*args), f.value_and_grad(*args))
        assert same(made.grad(Z[::-1], *args[1:]), f.grad(Z[::-1], *args[1:]))
    with pytest.raises(TypeError, match=r"`z` is an array of complex128 and shape \(3,\) here"):
        compiled(Z.real, *args[1:])


def test_complex_results(tmp_path):
    f = compile_grad(rotated)
    f.export(tmp_path / "f.tgz", X[1])
    found, expected = tracegrad.load(tmp_path / "f.tgz")(X[1]), f(X[1])
    assert same(found["whole"], expected["whole"])
    assert (found["first"].w, found["first"].b) == expected["first"]
    native = f.as_native(X[1], mode="value")
    assert [(p.name, p.dtype, p.shape) for p in native.parameters[1:]] == [
        ("value_whole", complex, (3,)), ("value_first_w", complex, ()), ("value_first_b", float, ()),
    ]  # fmt: skip


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_complex_numbers_in_c(tmp_path):
    f = compile_grad(transfer, argnums=(0, 1))
    value, *gradients = results_in_c(f.lower(Z, 2j, X[0]).compile(), (Z, 2j, X[0]), tmp_path)
    expected = f.value_and_grad(Z, 2j, X[0])
    assert value == expected[0]
    assert [g.tobytes() for g in gradients] == [np.asarray(g).tobytes() for g in expected[1]]
    assert "z: 3 elements, complex: pairs of" in (tmp_path / "exported.h").read_text()


@pytest.mark.slow
def test_complex_numbers_in_numba():
    numba = pytest.importorskip("numba")
    f = compile_grad(transfer, argnums=(0, 1))
    g = f.as_numba(Z, 2j, X[0])

    @numba.njit
    def call(z, c, x):
        slope = np.empty_like(z)
        value, of_c = g(z, c, x, slope)
        return value, (slope, of_c)

    (value, (slope, of_c)), expected = call(Z, 2j, X[0]), f.value_and_grad(Z, 2j, X[0])
    assert (value, of_c) == (expected[0], expected[1][1])
    assert slope.tobytes() == expected[1][0].tobytes()
    with pytest.raises(numba.TypingError, match="array of complex128 with 1 axes"):
        g(Z.real.copy(), 2j, X[0], np.empty(3, complex))


def test_the_order_of_a_dict_is_no_matter():
    f = compile_grad(lambda p: np.sum(p["b"] ** 2) * p["a"])
    compiled = f.lower({"b": np.arange(3.0), "a": 2.0}).compile()
    assert compiled({"a": 3.0, "b": np.ones(3)}) == 9.0
