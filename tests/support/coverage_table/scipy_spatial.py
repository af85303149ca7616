"""scipy.spatial.distance."""

from __future__ import annotations

import numpy as np
from scipy.spatial import distance

from .case import Case

U, V, W = np.array([0.3, 1.2, 2.1]), np.array([0.7, 1.6, 0.4]), np.array([1.0, 0.5, 2.0])
A = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4], [1.1, 0.2, 0.5], [-0.6, 0.9, 1.4], [0.2, 2.2, 0.8]])
METRICS = "euclidean sqeuclidean cityblock chebyshev cosine correlation canberra braycurtis"


def _between(name: str) -> Case:
    f = getattr(distance, name)
    return Case(f"scipy.spatial.distance.{name}", lambda u, v: f(u, v), [U, V])


CASES = [
    *[_between(name) for name in METRICS.split()],
    *[
        Case("scipy.spatial.distance.cdist", lambda a, b, m=m: distance.cdist(a, b, m), [A, 1.3 * A[:2] + 0.2], label=m)
        for m in (*METRICS.split(), "seuclidean", "mahalanobis")
    ],
    *[
        Case("scipy.spatial.distance.pdist", lambda a, m=m: distance.pdist(a, m), [A], label=m)
        for m in (*METRICS.split(), "seuclidean", "mahalanobis")
    ],
    Case(
        "scipy.spatial.distance.cdist", lambda a, b: distance.cdist(a, b, "minkowski", p=3), [A, A[:2] + 0.3], label="p"
    ),
    Case("scipy.spatial.distance.cdist", lambda a, w: distance.cdist(a, A + 0.3, w=w), [A, W], label="w"),
    Case("scipy.spatial.distance.minkowski", lambda u, v: distance.minkowski(u, v, 3), [U, V]),
    Case("scipy.spatial.distance.seuclidean", lambda u, v, w: distance.seuclidean(u, v, w), [U, V, W]),
    Case("scipy.spatial.distance.mahalanobis", lambda u, v: distance.mahalanobis(u, v, np.diag(W)), [U, V]),
    Case("scipy.spatial.distance.euclidean", lambda u, v, w: distance.euclidean(u, v, w=w), [U, V, W], label="w"),
    Case("scipy.spatial.distance.jensenshannon", distance.jensenshannon, [U, V]),
    Case("scipy.spatial.distance.squareform", lambda a: distance.squareform(distance.pdist(a)), [A]),
    Case("scipy.spatial.distance.squareform", distance.squareform, [np.arange(1.0, 7.0)], label="vector"),
]
