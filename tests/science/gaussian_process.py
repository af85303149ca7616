"""Gaussian-process regression after Rasmussen and Williams, Gaussian Processes for Machine Learning."""

import numpy as np


class SquaredExponential:
    """Covariance with one length scale for each input dimension (ARD)."""

    def __init__(self, log_lengthscales, log_signal):
        self.lengthscales = np.exp(log_lengthscales)
        self.variance = np.exp(2 * log_signal)

    def __call__(self, A, B):
        A, B = A / self.lengthscales, B / self.lengthscales
        sqdist = np.sum(A**2, 1).reshape(-1, 1) + np.sum(B**2, 1) - 2 * np.dot(A, B.T)
        return self.variance * np.exp(-0.5 * sqdist)


class Periodic:
    def __init__(self, log_lengthscales, log_signal, period=2.0):
        self.lengthscale = np.exp(log_lengthscales[0])
        self.variance = np.exp(2 * log_signal)
        self.period = period

    def __call__(self, A, B):
        d = np.abs(A[:, None, 0] - B[None, :, 0])
        return self.variance * np.exp(-2 * np.sin(np.pi * d / self.period) ** 2 / self.lengthscale**2)


class GaussianProcess:
    def __init__(self, X, y, kernel=SquaredExponential, jitter=1e-8):
        self.X, self.y = X, y
        self.kernel = kernel
        self.jitter = jitter

    def covariance(self, theta):
        k = self.kernel(theta[:-2], theta[-2])
        K = k(self.X, self.X)
        K[np.diag_indices_from(K)] += np.exp(2 * theta[-1]) + self.jitter
        return K

    def nlml(self, theta):
        """Negative log marginal likelihood, algorithm 2.1: theta holds log length scales, log signal, log noise."""
        n = len(self.y)
        try:
            L = np.linalg.cholesky(self.covariance(theta))
        except np.linalg.LinAlgError:
            return np.inf
        alpha = np.linalg.solve(L.T, np.linalg.solve(L, self.y))
        return 0.5 * np.dot(self.y, alpha) + np.log(np.diag(L)).sum() + 0.5 * n * np.log(2 * np.pi)

    def nlml_by_determinant(self, theta):
        """The same, as one writes it down first."""
        K = self.covariance(theta)
        sign, logdet = np.linalg.slogdet(K)
        if sign <= 0:
            return np.inf
        return 0.5 * self.y @ np.linalg.inv(K) @ self.y + 0.5 * logdet + 0.5 * len(self.y) * np.log(2 * np.pi)

    def predict(self, theta, Xs):
        """Mean and variance at new inputs."""
        k = self.kernel(theta[:-2], theta[-2])
        K = self.covariance(theta)
        Ks = k(self.X, Xs)
        mean = Ks.T @ np.linalg.solve(K, self.y)
        variance = np.diag(k(Xs, Xs)) - np.einsum("ij,ij->j", Ks, np.linalg.solve(K, Ks))
        return mean, variance


def example(n=40, kernel=SquaredExponential):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (n, 2))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)
    return GaussianProcess(X, y, kernel)
