"""Products with sparse matrices that are data."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from .case import Case

V = np.array([0.3, -1.2, 2.1])
M = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4]])
DENSE = np.array([[2.0, 0.0, 0.5], [0.0, 0.0, 1.5], [0.7, 0.0, 0.0]])
FORMATS = "csr csc coo bsr dia"


def _products(name: str) -> Case:
    matrix = getattr(sparse, name)(DENSE)
    return Case(f"scipy.sparse.{name}", lambda x, y: [matrix @ x, y @ matrix, matrix.T @ x, matrix.dot(y.T)], [V, M])


CASES = [
    *[_products(f"{kind}_{form}") for kind in FORMATS.split() for form in ("array", "matrix")],
    Case("scipy.sparse.csr_array", lambda x: sparse.csr_array(DENSE).multiply(x).sum(axis=0), [V], label="multiply"),
]
