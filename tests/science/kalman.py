"""A Kalman filter: a target that moves in the plane at nearly constant velocity, and whose position is measured."""

import numpy as np
from numpy.linalg import inv


class KalmanFilter:
    def __init__(self, F, H, Q, R, x0, P0):
        self.F = F
        self.H = H
        self.Q = Q
        self.R = R
        self.x = x0
        self.P = P0
        self.log_likelihood = 0.0

    def predict(self):
        self.x = np.dot(self.F, self.x)
        self.P = np.dot(np.dot(self.F, self.P), self.F.T) + self.Q
        return self.x

    def update(self, z):
        y = z - np.dot(self.H, self.x)
        S = self.R + np.dot(self.H, np.dot(self.P, self.H.T))
        K = np.dot(np.dot(self.P, self.H.T), inv(S))
        self.x = self.x + np.dot(K, y)
        I = np.eye(len(self.x))
        self.P = np.dot(I - np.dot(K, self.H), self.P)
        _, logdet = np.linalg.slogdet(S)
        self.log_likelihood += -0.5 * (logdet + y.T @ inv(S) @ y + len(z) * np.log(2 * np.pi))


def constant_velocity(dt, q, r):
    """Matrices of the model: process noise of intensity q, measurement noise of standard deviation r."""
    F = np.array([[1, dt, 0, 0], [0, 1, 0, 0], [0, 0, 1, dt], [0, 0, 0, 1]])
    H = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0]])
    block = q * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
    Q = np.zeros((4, 4))
    Q[:2, :2] = block
    Q[2:, 2:] = block
    R = np.diag([r**2, r**2])
    return F, H, Q, R


def negative_log_likelihood(theta, zs, dt=0.1):
    """theta: the logarithms of q and r."""
    q, r = np.exp(theta)
    F, H, Q, R = constant_velocity(dt, q, r)
    kf = KalmanFilter(F, H, Q, R, x0=np.array([zs[0, 0], 0.0, zs[0, 1], 0.0]), P0=np.diag([1.0, 10.0, 1.0, 10.0]))
    for z in zs:
        kf.predict()
        kf.update(z)
    return -kf.log_likelihood


def rmse(theta, zs, truth, dt=0.1):
    """Of the filtered positions: what one tunes by."""
    q, r = np.exp(theta)
    F, H, Q, R = constant_velocity(dt, q, r)
    x, P = np.array([zs[0, 0], 0.0, zs[0, 1], 0.0]), np.eye(4)
    xs = np.zeros((len(zs), 4))
    for k in range(len(zs)):
        x, P = F @ x, F @ P @ F.T + Q
        K = P @ H.T @ inv(H @ P @ H.T + R)
        x = x + K @ (zs[k] - H @ x)
        P = (np.eye(4) - K @ H) @ P
        xs[k] = x
    return np.sqrt(np.mean(np.sum((xs[:, [0, 2]] - truth) ** 2, axis=1)))


def measurements(n=500, dt=0.1, seed=0):
    rng = np.random.default_rng(seed)
    v = np.cumsum(0.3 * np.sqrt(dt) * rng.normal(size=(n, 2)), axis=0) + [1.0, 0.5]
    truth = np.cumsum(v * dt, axis=0)
    return truth + 0.5 * rng.normal(size=(n, 2)), truth
