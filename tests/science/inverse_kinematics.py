"""Inverse kinematics of a robot arm with Denavit-Hartenberg parameters."""

from dataclasses import dataclass, field, replace

import numpy as np


@dataclass
class Link:
    d: float
    a: float
    alpha: float
    lower: float = -np.pi
    upper: float = np.pi

    def transform(self, theta: float) -> np.ndarray:
        ct, st = np.cos(theta), np.sin(theta)
        ca, sa = np.cos(self.alpha), np.sin(self.alpha)
        return np.array(
            [
                [ct, -st * ca, st * sa, self.a * ct],
                [st, ct * ca, -ct * sa, self.a * st],
                [0.0, sa, ca, self.d],
                [0.0, 0.0, 0.0, 1.0],
            ]
        )


@dataclass(frozen=True)
class Pose:
    position: np.ndarray
    rotation: np.ndarray

    @classmethod
    def from_matrix(cls, T):
        return cls(position=T[:3, 3], rotation=T[:3, :3])

    def error(self, other: "Pose") -> np.ndarray:
        """Six numbers: of the position, and of the orientation as a vector."""
        R = self.rotation @ other.rotation.T
        orientation = 0.5 * np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
        return np.concatenate([self.position - other.position, orientation])


@dataclass
class Arm:
    links: list[Link] = field(default_factory=list)
    base: np.ndarray | None = None

    def __post_init__(self):
        if self.base is None:
            self.base = np.eye(4)

    def __len__(self):
        return len(self.links)

    def frames(self, q):
        T = self.base
        found = [T]
        for link, angle in zip(self.links, q):
            T = T @ link.transform(angle)
            found.append(T)
        return found

    def forward(self, q) -> Pose:
        return Pose.from_matrix(self.frames(q)[-1])

    def jacobian(self, q):
        """The geometric Jacobian, 6 x n."""
        frames = self.frames(q)
        end = frames[-1][:3, 3]
        J = np.zeros((6, len(self)))
        for i in range(len(self)):
            z = frames[i][:3, 2]
            J[:3, i] = np.cross(z, end - frames[i][:3, 3])
            J[3:, i] = z
        return J


def pose_cost(q, arm, target, weight=0.1):
    """Squared distance of the pose, and a penalty near the limits of the joints."""
    e = target.error(arm.forward(q))
    cost = e[:3] @ e[:3] + weight * e[3:] @ e[3:]
    for angle, link in zip(q, arm.links):
        if angle < link.lower:
            cost += (link.lower - angle) ** 2
        elif angle > link.upper:
            cost += (angle - link.upper) ** 2
    return cost


def manipulability(q, arm):
    J = arm.jacobian(q)
    return np.sqrt(np.linalg.det(J @ J.T))


def solve(arm, target, q0, iterations=20, damping=0.05, tol=1e-6):
    """Damped least squares (Levenberg)."""
    q = q0.copy()
    for _ in range(iterations):
        e = target.error(arm.forward(q))
        if np.linalg.norm(e) < tol:
            break
        J = arm.jacobian(q)
        dq = J.T @ np.linalg.solve(J @ J.T + damping**2 * np.eye(6), e)
        q += np.clip(dq, -0.3, 0.3)
    return q


def reached(shift, arm, target, q0):
    """How far the solution's elbow moves when the target is shifted: differentiated through the iterations."""
    q = solve(arm, replace(target, position=target.position + shift), q0)
    return np.sum(arm.frames(q)[3][:3, 3] ** 2)


def calibration(arm, qs, measured):
    """Of the arm's own parameters: the differences from measured positions of its end."""
    return sum(np.sum((arm.forward(q).position - p) ** 2) for q, p in zip(qs, measured))


def six_axes():
    half = np.pi / 2
    rows = [
        (0.4, 0.025, half),
        (0.0, 0.455, 0.0),
        (0.0, 0.035, half),
        (0.42, 0.0, -half),
        (0.0, 0.0, half),
        (0.08, 0.0, 0.0),
    ]
    return Arm([Link(d, a, alpha, -2.8, 2.8) for d, a, alpha in rows])
