"""Hand tracking: a skeleton of 22 bones whose joints turn moves the skin; the residuals of measured points, as in the
benchmark ADBench. Bones and points go through a list (`stack_of`) or through ``tracegrad.map``."""

import numpy as np

import tracegrad as tg

BONES, FINGERS = 22, 5


def stack_of(function, rows):
    return np.stack([function(row) for row in zip(*rows, strict=True)])


def pose_of(theta):
    pose = np.zeros((BONES + 3, 3))
    pose[0, :] = theta[:3]
    pose[1, :] = np.ones(3)
    pose[2, :] = theta[3:6]
    k, bone = 6, 5
    for _ in range(FINGERS):
        for joint in range(3):
            pose[bone, 0] = theta[k]
            k += 1
            if joint == 0:
                pose[bone, 1] = theta[k]
                k += 1
            bone += 1
        bone += 1
    return pose


def turned(angles):
    x, z, y = angles[0], angles[1], angles[2]
    rx, ry, rz = np.eye(3), np.eye(3), np.eye(3)
    for r, angle, i, j in ((rx, x, 1, 2), (ry, y, 0, 2), (rz, z, 0, 1)):
        r[i, i] = np.cos(angle)
        r[j, i] = np.sin(angle)
        r[i, j] = -r[j, i]
        r[j, j] = r[i, i]
    return rz @ ry @ rx


def rotation(axis):
    n = np.sqrt(np.sum(axis**2))
    if n < 1e-4:
        return np.eye(3)
    u, s, c = axis / n, np.sin(n), np.cos(n)
    cross = np.zeros((3, 3))
    cross[0, 1], cross[0, 2], cross[1, 2] = -u[2], u[1], -u[0]
    cross = cross - cross.T
    return c * np.eye(3) + (1 - c) * np.outer(u, u) + s * cross


class Hand:
    """A made-up hand: matrices of the bones, a skin of *size* points, the bones' weights at each."""

    def __init__(self, rng, size=12):
        near = lambda: np.stack([np.eye(4) + 0.05 * rng.normal(size=(4, 4)) for _ in range(BONES)])  # noqa: E731
        self.parents = np.array([-1, *[max(0, k - 1) for k in range(1, BONES)]])
        self.relatives, self.inverses = near(), near()
        self.skin = np.concatenate([rng.normal(size=(size, 3)), np.ones((size, 1))], 1)
        weights = rng.random((size, BONES))
        self.weights = weights / weights.sum(1, keepdims=True)

    def vertices(self, theta, rows):
        def posed(row):
            angles, base = row
            local = np.eye(4)
            local[:3, :3] = turned(angles)
            return base @ local

        pose = pose_of(theta)
        relatives = rows(posed, (pose[3:], self.relatives))
        absolutes = np.zeros((BONES, 4, 4))
        absolutes[-1] = np.eye(4)
        for k, parent in enumerate(self.parents):
            absolutes = absolutes.copy()
            absolutes[k] = absolutes[int(parent)] @ relatives[k]
        moved = rows(lambda row: row[0] @ row[1] @ self.skin.T, (absolutes, self.inverses))
        skin = np.sum(moved.transpose(2, 0, 1) * self.weights[:, :, None], 1)[:, :3]
        return skin @ (rotation(pose[0]) * pose[1]).T + pose[2]

    def residuals(self, theta, points, matches, rows):
        at = self.vertices(theta, rows)
        return rows(lambda row: row[0] - at[row[1]], (points, matches))

    def residuals_on_triangles(self, unknowns, points, matches, triangles, rows):
        """*unknowns*: two coordinates within its triangle for each point, then the angles."""
        count = len(points)
        inside, at = unknowns[: 2 * count].reshape(count, 2), self.vertices(unknowns[2 * count :], rows)

        def residual(row):
            u, point, match = row
            a, b, c = (at[triangles[match][k]] for k in range(3))
            return point - (u[0] * a + u[1] * b + (1.0 - u[0] - u[1]) * c)

        return rows(residual, (inside, points, matches))


ROWS = {"list": stack_of, "map": tg.map}
