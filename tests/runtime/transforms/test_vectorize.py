"""``tracegrad.vectorize`` and ``np.vectorize`` in recorded code: NumPy's, as a batch in place of a loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import autograd, compile_grad, make_graph, vectorize

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(4, 3, 2)), RNG.normal(size=(3, 1))
ROWS = RNG.normal(size=(5, 1, 2))

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], dict[str, Any]]] = {
    "broadcast": (lambda a, b: np.sin(a) * b, (A, B), {}, {}),
    "a number": (lambda a, b: np.sin(a) * b, (A, 2.0), {}, {}),
    "numbers alone": (lambda a: a * 2, (3.0,), {}, {}),
    "two results": (lambda a, b: (np.sin(a) * b, a + b), (A, B), {}, {}),
    "by name": (lambda a, b=1.0: a * b, (A,), {"b": B}, {}),
    "core axes": (lambda a, b: a @ b, (A, ROWS[0]), {}, {"signature": "(m,n),(n)->(m)"}),
    "core axes, broadcast": (lambda a, b: a @ b, (A, ROWS), {}, {"signature": "(m, n), (n) -> (m)"}),
    "axes of size 1": (lambda a, b: a @ b, (B.T, np.ones((2, 1, 3))), {}, {"signature": "(n),(n)->()"}),
    "results of two shapes": (lambda a: (np.sum(a), a * 2), (A,), {}, {"signature": "(n)->(),(n)"}),
    "a new core axis": (lambda a, b: np.convolve(a, b), (np.eye(4), B[:, 0]), {}, {"signature": "(n),(m)->(k)"}),
    "otypes": (lambda a: a * 2, (A,), {}, {"otypes": [np.float32]}),
    "size 0": (lambda a: a * 2, (np.zeros((0, 3)),), {}, {"otypes": "d"}),
    "excluded by position": (lambda a, p: a * p[0] + p[1], (A, [2.0, 3.0]), {}, {"excluded": [1]}),
    "excluded by name": (lambda a, p: a * p[0] + p[1], (A,), {"p": [2.0, 3.0]}, {"excluded": ["p"]}),
    "complex": (lambda z: z * 1j, (A,), {}, {}),
    "integers": (lambda k: k * k, (np.arange(6).reshape(2, 3),), {}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_as_numpys(name: str) -> None:
    """The program, by the interpreter; the last case of each kind runs as a kernel, too."""
    f, args, kwargs, options = CASES[name]
    expected = np.vectorize(f, **options)(*args, **kwargs)
    ours = vectorize(f, **options)
    found = ours(*args, **kwargs)
    several = isinstance(expected, tuple)
    assert isinstance(found, tuple) is several
    for a, b in zip(expected if several else [expected], found if several else [found], strict=True):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_it_is_one_object_and_a_decorator() -> None:
    def f(a: Any) -> Any:
        return a * a

    assert vectorize(f) is vectorize(f)
    assert vectorize(f, signature="()->()") is not vectorize(f)

    @vectorize(signature="(n)->()", doc="The squared length.")
    def length(v: Any) -> Any:
        return v @ v

    assert length.__doc__ == "The squared length."
    np.testing.assert_allclose(length(A), np.sum(A * A, axis=-1))
    np.testing.assert_allclose(autograd.grad(lambda x: np.sum(length(x)))(A), 2 * A)
    assert length.stats.compiles >= 1


def clipped(t: Any) -> Any:
    return t if t > 0.5 else t * t


INSIDE: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "elements": (lambda v: np.vectorize(lambda a, b: np.sin(a) * b)(v, v[::-1]), True),
    "math": (lambda v: np.vectorize(lambda a: math.sin(a) + a)(v), True),
    "a signature": (lambda v: np.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(np.outer(v, v), v), True),
    "two results": (lambda v: np.vectorize(lambda a: (a, a * 2))(v)[1], True),
    "excluded": (lambda v: np.vectorize(lambda a, p: a * p[0], excluded={1})(v, [2.0, 1.0]), True),
    "a branch": (lambda v: np.vectorize(clipped)(v), True),
    "a number of each": (lambda v: np.vectorize(math.sin)(v), False),
}


@pytest.mark.parametrize("name", INSIDE)
def test_numpys_own_in_recorded_code(name: str) -> None:
    f, at_once = INSIDE[name]
    compiled = compile_grad(lambda v: np.sum(f(v)))
    v = np.linspace(0.1, 1.3, 6)
    for _ in range(3):
        np.testing.assert_allclose(compiled(v), np.sum(f(v)))
    assert (len(make_graph(compiled)(v).graph.nodes) < 12) is at_once


def error_of(call: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert kind is ValueError or "test_vectorize.py" in text
    return text


def test_errors() -> None:
    three, four, shape = np.ones(3), np.ones(4), tracegrad.ShapeError
    dot = vectorize(lambda a, b: a @ b, signature="(n),(n)->()")
    assert "core axis n" in error_of(lambda: dot(three, four), shape)
    assert "of 2 arguments" in error_of(lambda: dot(three), shape)
    assert "(m,n)" in error_of(lambda: vectorize(lambda a: a, signature="(m,n)->()")(three), shape)
    assert "(), but it has 1" in error_of(lambda: vectorize(lambda a: a, signature="(n)->()")(three), shape)
    assert "has to be a number" in error_of(lambda: vectorize(lambda a: np.array([a, a]))(three), shape)
    assert "returned 2 results" in error_of(lambda: vectorize(lambda a: (a, a), signature="()->()")(three), shape)
    assert "broadcast" in error_of(lambda: vectorize(lambda a, b: a * b)(three, four), shape)
    assert "valid signature" in error_of(lambda: vectorize(np.sin, signature="(n->()"), ValueError)
    assert "np.where" in error_of(lambda: vectorize(clipped)(np.arange(3.0)), tracegrad.UnsupportedError)
