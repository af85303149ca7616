"""Bundle adjustment: errors of points seen by cameras, and their sparse Jacobian.

A camera has 11 numbers: rotation (3), centre (3), focal length, principal point (2), radial distortion (2). Each of the
p observations is of one point by one camera, with a weight; it depends on 11 + 3 + 1 of all the unknowns.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent / "data"


def rotated(axis, x):
    """Each x about its axis, by the axis' length (Rodrigues): (p, 3)."""
    square = np.sum(axis**2, axis=1, keepdims=True)
    turns = square > 0.0
    angle = np.sqrt(np.where(turns, square, 1.0))
    w = axis / angle
    c, s = np.cos(angle), np.sin(angle)
    turned = x * c + np.cross(w, x) * s + w * (np.sum(w * x, axis=1, keepdims=True) * (1.0 - c))
    return np.where(turns, turned, x + np.cross(axis, x))


def project(camera, x):
    """Where each camera sees its point: (p, 2)."""
    seen = rotated(camera[:, :3], x - camera[:, 3:6])
    place = seen[:, :2] / seen[:, 2:]
    square = np.sum(place**2, axis=1, keepdims=True)
    distortion = 1.0 + camera[:, 9:10] * square + camera[:, 10:] * square**2
    return place * distortion * camera[:, 6:7] + camera[:, 7:9]


def residuals(cameras, points, weights, observed, features):
    """cameras: (n, 11), points: (m, 3), weights: (p,), observed: (p, 2), camera and point of each observation,
    features: (p, 2). Returns the weighted reprojection errors, then those of the weights: (2 p + p,)."""
    error = weights[:, None] * (project(cameras[observed[:, 0]], points[observed[:, 1]]) - features)
    return np.concatenate([error.ravel(), 1.0 - weights**2])


def of_unknowns(unknowns, n, m, observed, features):
    """The same, with all the unknowns in one vector: cameras, points, weights."""
    cameras, points = unknowns[: 11 * n].reshape(n, 11), unknowns[11 * n : 11 * n + 3 * m].reshape(m, 3)
    return residuals(cameras, points, unknowns[11 * n + 3 * m :], observed, features)


def read(file):
    """(cameras, points, weights, observed, features) of a problem in ADBench's format, which has one camera, point and
    observation, to be repeated."""
    lines = [[float(word) for word in line.split()] for line in Path(file).read_text().splitlines()]
    n, m, p = (int(number) for number in lines[0])
    camera, point, weight, feature = (np.array(line) for line in lines[1:5])
    turns = np.arange(p)
    observed = np.stack([turns % n, turns % m], axis=1)
    return np.tile(camera, (n, 1)), np.tile(point, (m, 1)), np.tile(weight, p), observed, np.tile(feature, (p, 1))


def main() -> int:
    from tracegrad import autograd  # the objective itself is plain NumPy

    cameras, points, weights, observed, features = read(DATA / "ba_n4_m12_p36.txt")
    n, m = len(cameras), len(points)
    unknowns = np.concatenate([cameras.ravel(), points.ravel(), weights])
    jacobian = autograd.sparse_jacobian(of_unknowns)

    begin = time.perf_counter()
    found = jacobian(unknowns, n, m, observed, features)
    seconds = time.perf_counter() - begin
    entries = found.shape[0] * found.shape[1]
    print(f"a Jacobian of {found.shape}, {found.nnz} of {entries} entries; first call {seconds:.2f} s")

    move = np.random.default_rng(0).standard_normal(len(unknowns))
    high, low = (of_unknowns(unknowns + h * move, n, m, observed, features) for h in (1e-6, -1e-6))
    expected = (high - low) / 2e-6
    error = np.max(np.abs(expected - found @ move)) / np.max(np.abs(expected))
    print(f"J @ v against a central difference, largest relative difference {error:.1e}")
    good = bool(error < 1e-7) and found.nnz <= 31 * len(weights)
    print("OK: the Jacobian is right." if good else "FAILED: the Jacobian is off.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
