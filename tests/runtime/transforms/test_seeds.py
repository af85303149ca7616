"""Forward Jacobians push inputs that are read late by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import autograd

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(60, 3)), RNG.normal(size=(40, 60))


def long_way(angles):
    """Many numbers of three."""
    return np.sin(np.exp(-np.tanh(A @ np.cos(angles))) @ B.T)


def late(x):
    return long_way(x[40:43]) * x[:40]


def with_gaps(x):
    """Reads that overlap, elements that nobody reads, two parts that go the long way."""
    angles = x[45:48] + x[46:49] * x[50]
    return long_way(angles) * x[2:42] + x[3:43], x[4] * 2.0


def several(p, x):
    return long_way(p["angles"]) * x


def check(f, *args, batches, **options):
    jacobian = autograd.jacfwd(f, **options)
    found, expected = jacobian(*args), autograd.jacrev(f, **options)(*args)
    for got, want in zip(autograd_leaves(found), autograd_leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    told = "inputs that are read late by themselves" in jacobian.explain(*args)
    assert told == batches


def autograd_leaves(tree):
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in autograd_leaves(tree[key])]
    return [leaf for item in tree for leaf in autograd_leaves(item)] if isinstance(tree, tuple) else [tree]


def test_unknowns_that_are_read_late_have_a_batch_of_their_own():
    check(late, RNG.normal(size=43), batches=True)


@pytest.mark.slow
def test_parts_that_overlap_and_elements_that_nobody_reads():
    check(with_gaps, RNG.normal(size=60), batches=True)


def test_arguments_are_parts():
    check(several, {"angles": RNG.normal(size=3)}, RNG.normal(size=40), argnums=(0, 1), batches=True)


def test_a_small_function_has_one_batch():
    check(lambda x: x[:2] * np.sin(x[2:]), np.array([1.0, 2.0, 3.0, 4.0]), batches=False)


def test_a_vector_that_is_read_whole_has_one_batch():
    check(lambda x: late(x) * np.sum(x), RNG.normal(size=43), batches=False)
