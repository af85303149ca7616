"""Colourings tell the entries of a matrix apart: from the compressed products of any values every entry is found."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tracegrad.codegen.cpu import greedy_colors
from tracegrad.codegen.derive import coloring
from tracegrad.codegen.derive.coloring import Coloring, columns_colored, rows_colored, star_colored
from tracegrad.codegen.derive.sparsity import Pattern


@pytest.fixture(params=["machine code", "Python"], autouse=True)
def how(request, monkeypatch):
    known = [(greedy_colors.columns, greedy_colors.stars)] if request.param == "machine code" else []
    monkeypatch.setattr(coloring, "compiled", known)
    monkeypatch.setattr(coloring, "_FEW", 0)


def pattern_of(matrix: np.ndarray) -> Pattern:
    found = sp.csr_array(matrix != 0)
    found.sort_indices()
    return Pattern(matrix.shape, found.indptr, found.indices)


def recovered(pattern: Pattern, products: np.ndarray, found: Coloring) -> np.ndarray:
    result = np.zeros(pattern.shape)
    result[pattern.rows, pattern.indices] = products[found.rows, found.colors]
    return result


def seeds(found: Coloring) -> np.ndarray:
    return np.eye(max(found.count, 1))[found.of_column]


def matrices(symmetric: bool):
    rng = np.random.default_rng(0)
    for _ in range(60):
        rows, columns = rng.integers(0, 14, 2)
        matrix = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < rng.random())
        if symmetric:
            square = rng.standard_normal((rows, rows)) * (rng.random((rows, rows)) < rng.random())
            matrix = square + square.T
        yield matrix


def test_columns_and_rows():
    for matrix in matrices(symmetric=False):
        pattern = pattern_of(matrix)
        forward, reverse = columns_colored(pattern, 100), rows_colored(pattern, 100)
        np.testing.assert_array_equal(recovered(pattern, matrix @ seeds(forward), forward), matrix)
        np.testing.assert_array_equal(recovered(pattern, (seeds(reverse).T @ matrix).T, reverse), matrix)


def test_stars():
    for matrix in matrices(symmetric=True):
        pattern = pattern_of(matrix)
        found = star_colored(pattern, 100)
        np.testing.assert_allclose(recovered(pattern, matrix @ seeds(found), found), matrix, atol=1e-14)


def banded(size: int, width: int) -> np.ndarray:
    at = np.arange(size)
    return (np.abs(at[:, None] - at) <= width).astype(float)


def arrow(size: int) -> np.ndarray:
    matrix = np.eye(size)
    matrix[0] = matrix[:, 0] = 1
    return matrix


def test_counts_of_known_matrices():
    assert star_colored(pattern_of(banded(50, 1)), 100).count == 3
    assert star_colored(pattern_of(banded(50, 2)), 100).count == 5
    assert star_colored(pattern_of(arrow(40)), 100).count == 2  # and 40 by columns
    assert columns_colored(pattern_of(arrow(40)), 100).count == 40
    assert star_colored(pattern_of(np.eye(9)), 100).count == 1
    assert columns_colored(pattern_of(banded(50, 1)), 100).count == 3


def test_more_than_a_word_of_colors():
    dense = np.random.default_rng(0).standard_normal((70, 70))
    dense += dense.T
    pattern = pattern_of(dense)
    for found in (star_colored(pattern, 100), columns_colored(pattern, 100)):
        assert found.count == 70
        np.testing.assert_allclose(recovered(pattern, dense @ seeds(found), found), dense)


def test_none_where_too_many_are_needed():
    pattern = pattern_of(np.ones((5, 5)))
    assert star_colored(pattern, 4) is None
    assert columns_colored(pattern, 4) is None
    assert rows_colored(pattern, 4) is None
