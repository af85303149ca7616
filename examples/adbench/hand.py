"""Tracking a hand: the distances between a posed hand and points seen by a camera, and their Jacobian.

A skeleton of 22 bones moves the vertices of a mesh (linear blend skinning). 26 numbers pose it: a rotation, a
translation, and four angles for each finger. In the simple problem each point seen belongs to a vertex; in the
complicated one to a place in a triangle, given by two more unknowns for each point.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

DATA = Path(__file__).resolve().parent / "data"


class Model(NamedTuple):
    """A mesh on bones: parents (b,), base_relatives, inverse_base_absolutes (b, 4, 4), positions (v, 4), weights
    (v, b), triangles (t, 3)."""

    parents: tuple[int, ...]
    base_relatives: np.ndarray
    inverse_base_absolutes: np.ndarray
    positions: np.ndarray
    weights: np.ndarray
    triangles: np.ndarray


def pose_of(theta, bones):
    """Rotation, scale and translation of the whole, then three angles for each bone: (3 + bones, 3)."""
    pose = np.zeros((3 + bones, 3))
    pose[0] = theta[:3]
    pose[1] = 1.0
    pose[2] = theta[3:6]
    k, row = 6, 5  # the first two bones, forearm and wrist, stay as they are
    for _ in range(5):
        for joint in range(3):
            pose[row + joint, 0] = theta[k]
            k += 1
            if joint == 0:  # the first joint of a finger moves sideways too
                pose[row, 1] = theta[k]
                k += 1
        row += 4
    return pose


def rotation_of_angles(angles):
    """About x, then y, then z; the angles come in the order x, z, y."""
    x, z, y = angles
    Rx = np.array([[1.0, 0.0, 0.0], [0.0, np.cos(x), -np.sin(x)], [0.0, np.sin(x), np.cos(x)]])
    Ry = np.array([[np.cos(y), 0.0, np.sin(y)], [0.0, 1.0, 0.0], [-np.sin(y), 0.0, np.cos(y)]])
    Rz = np.array([[np.cos(z), -np.sin(z), 0.0], [np.sin(z), np.cos(z), 0.0], [0.0, 0.0, 1.0]])
    return Rz @ Ry @ Rx


def rotation_of_axis(axis):
    """About an axis, by its length (Rodrigues)."""
    angle = np.sqrt(np.sum(axis**2))
    if angle < 1e-4:
        return np.eye(3)
    x, y, z = axis / angle
    s, c = np.sin(angle), np.cos(angle)
    return np.array(
        [
            [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
            [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
            [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c],
        ]
    )


def skinned(pose, model):
    """The vertices, moved by the bones and then by the whole hand's transform: (v, 3)."""
    absolutes = []
    for bone, parent in enumerate(model.parents):
        turn = np.eye(4)
        turn[:3, :3] = rotation_of_angles(pose[3 + bone])
        relative = model.base_relatives[bone] @ turn
        absolutes.append(relative if parent < 0 else absolutes[parent] @ relative)
    transforms = np.stack([a @ inverse for a, inverse in zip(absolutes, model.inverse_base_absolutes, strict=True)])
    moved = np.einsum("bij,vj,vb->vi", transforms[:, :3], model.positions, model.weights)
    return moved @ (rotation_of_axis(pose[0]) * pose[1]).T + pose[2]


def simple(theta, model, correspondences, points):
    """The differences between points and their vertices: (3 points,)."""
    vertices = skinned(pose_of(theta, len(model.parents)), model)
    return (points - vertices[correspondences]).ravel()


def complicated(unknowns, model, correspondences, points):
    """The same with places in triangles: `unknowns` are two barycentric coordinates for each point, then theta."""
    n = len(points)
    us, theta = unknowns[: 2 * n].reshape(n, 2), unknowns[2 * n :]
    vertices = skinned(pose_of(theta, len(model.parents)), model)
    a, b, c = (vertices[corner] for corner in model.triangles[correspondences].T)
    u, v = us[:, :1], us[:, 1:]
    return (points - (u * a + v * b + (1.0 - u - v) * c)).ravel()


def read_model(folder):
    """A model in ADBench's format: bones.txt, vertices.txt and triangles.txt, numbers separated by colons."""
    folder = Path(folder)
    bones = [line.split(":") for line in (folder / "bones.txt").read_text().splitlines()]
    matrices = np.array([[float(x) for x in bone[2:34]] for bone in bones]).reshape(-1, 2, 4, 4)
    vertices = [line.split(":") for line in (folder / "vertices.txt").read_text().splitlines()]
    positions, weights = np.ones((len(vertices), 4)), np.zeros((len(vertices), len(bones)))
    for vertex, line in enumerate(vertices):
        positions[vertex, :3] = [float(x) for x in line[:3]]
        for k in range(int(line[8])):
            weights[vertex, int(line[9 + 2 * k])] = float(line[10 + 2 * k])
    triangles = np.loadtxt(folder / "triangles.txt", int, delimiter=":")
    parents = tuple(int(bone[1]) for bone in bones)
    return Model(parents, matrices[:, 0].copy(), matrices[:, 1].copy(), positions, weights, triangles)


def read(file, model, with_places=False):
    """(unknowns, model, correspondences, points) of an instance in ADBench's format."""
    lines = [line.split() for line in Path(file).read_text().splitlines()]
    n, parameters = int(lines[0][0]), int(lines[0][1])
    correspondences = np.array([int(line[0]) for line in lines[1 : n + 1]])
    points = np.array([[float(x) for x in line[1:]] for line in lines[1 : n + 1]])
    rest = [float(x) for line in lines[n + 1 :] for x in line]
    unknowns = np.array(rest[: parameters + 2 * n * with_places])
    return unknowns, read_model(model), correspondences, points


def main() -> int:
    from tracegrad import autograd  # the objectives themselves are plain NumPy

    good = True
    for objective in (simple, complicated):
        name = objective.__name__
        file = DATA / f"hand_{name}_t26_c10.txt"
        unknowns, *problem = read(file, DATA / "hand_model", with_places=objective is complicated)
        jacobian = autograd.jacobian(objective)

        begin = time.perf_counter()
        found = jacobian(unknowns, *problem)
        first = time.perf_counter() - begin
        jacobian(unknowns, *problem)  # is recorded once more, and compared
        begin = time.perf_counter()
        jacobian(unknowns, *problem)
        cached = time.perf_counter() - begin
        print(f"{name}: a Jacobian of {found.shape}; first call {first:.2f} s, later ones {1e3 * cached:.2f} ms")

        move = np.random.default_rng(0).standard_normal(len(unknowns))
        high, low = (objective(unknowns + h * move, *problem) for h in (1e-6, -1e-6))
        error = np.max(np.abs((high - low) / 2e-6 - found @ move))
        good &= bool(error < 1e-7)
        print(f"{name}: J @ v against a central difference, largest difference {error:.1e}")
    print("OK: the Jacobians are right." if good else "FAILED: the Jacobians are off.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
