"""Arguments of libraries' classes, and of registered classes: closed runs, over what they hold in each call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tracegrad import compile_grad, tree

X = np.array([0.5, -1.0, 2.0])
M = sp.random(3, 3, density=0.7, format="csr", random_state=1)


@tree.register_dataclass
@dataclass
class Motion:
    position: Any
    velocity: Any
    name: str = field(default="free", metadata={"static": True})

    def energy(self) -> Any:
        return np.sum(self.velocity**2) * (2.0 if self.name == "free" else 1.0)


@tree.register_pytree_node_class
class Scaled:
    def __init__(self, a: Any) -> None:
        self.a, self.factor = a, FACTOR

    def tree_flatten(self) -> Any:
        return (self.a,), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: Any) -> Scaled:
        return cls(*children)


FACTOR = 1.0


def as_plain(f: Any, x: np.ndarray, *rest: Any) -> None:
    """Value and gradient of compiled *f* are those of its function."""
    plain = f.__wrapped__
    value, gradient = f.value_and_grad(x, *rest)
    slopes = [(plain(x + e, *rest) - plain(x - e, *rest)) / 2e-6 for e in 1e-6 * np.eye(x.size)]
    np.testing.assert_allclose(value, plain(x, *rest), rtol=1e-10)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-7)


def is_closed(f: Any) -> bool:
    return not f._dispatcher.logged.refused and not f.stats.live


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_matrices(form):
    s, f = M.asformat(form), compile_grad(lambda x, s: np.sum((s @ x) ** 2) + np.sum((s.multiply(x) @ x) ** 2))
    for _ in range(3):
        as_plain(f, X, s)
        s.data *= 1.5
    assert f.stats.traces == 1
    as_plain(f, X, 2.0 * s)  # which keeps other facts about its entries
    assert f.stats.traces <= 2 and is_closed(f)


def test_matrices_of_other_structure_and_format():
    f = compile_grad(lambda x, s: np.sum((s @ x) ** 3))
    for s in (M, sp.csr_matrix(np.eye(3)), M.tocsc(), sp.csr_array(M), M):
        for _ in range(2):
            as_plain(f, X, s)
    assert is_closed(f)


def test_one_matrix_in_two_places():
    f = compile_grad(lambda x, s, t: np.sum((s @ x) * (t @ x)) + np.sum(x) * (3.0 if s is t else 1.0))
    other = M.copy()
    for s, t in ((M, M), (M, other), (other, other), (other, M)):
        other.data += 0.5
        as_plain(f, X, s, t)
    assert is_closed(f)


def test_a_matrix_that_is_found_outside_too():
    held = [M.copy()]
    f = compile_grad(lambda x, s: np.sum((s @ x) ** 2) + np.sum(held[0] @ x))
    for s in (held[0], M, held[0]):
        held[0].data += 1.0
        as_plain(f, X, s)
    held[0] = M.copy() * 3.0
    as_plain(f, X, held[0])


def test_registered_objects():
    def loss(x, m):
        return np.sum(x * m.position) + m.energy() * np.sum(x) if m.velocity is not None else np.sum(x)

    f = compile_grad(loss)
    m = Motion(X, np.array([1.0, 2.0, 3.0]))
    for _ in range(3):
        as_plain(f, X, m)
        m.velocity = m.velocity + 1.0
    assert f.stats.traces == 1 and is_closed(f)
    m.name = "held"
    as_plain(f, X, m)
    as_plain(f, X, Motion(X, None))
    assert f.stats.traces == 3 and is_closed(f)


def test_gradients_of_registered_objects():
    f = compile_grad(lambda m: m.energy() + np.sum(m.position))
    for k in range(3):
        gradient = f.grad(Motion(X, X + k))
        np.testing.assert_allclose(gradient.velocity, 4.0 * (X + k))
        np.testing.assert_allclose(gradient.position, 1.0)
    assert f.stats.traces == 1 and is_closed(f)


def test_registered_objects_that_hold_more_than_their_parts():
    f = compile_grad(lambda x, m: np.sum(x * m.a) * m.factor)
    one = Scaled(X)
    as_plain(f, X, one)
    assert not is_closed(f)


def test_registered_objects_that_are_changed_or_given_back():
    def moves(x, m):
        m.position = m.position + x
        return np.sum(m.position**2)

    m = Motion(np.zeros(3), None)
    f = compile_grad(moves)
    for k in range(1, 4):
        assert f.value_and_grad(X, m)[0] == pytest.approx(k * k * np.sum(X**2))
        np.testing.assert_allclose(m.position, k * X)
    g = compile_grad(lambda m: [m, m.position * 2.0])
    for _ in range(3):
        found = g(m)
        assert type(found[0]) is Motion
        np.testing.assert_allclose(found[0].position, m.position)
