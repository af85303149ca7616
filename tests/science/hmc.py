"""Hamiltonian Monte Carlo: how does an estimate depend on a parameter of the density?"""

import numpy as np


class LogisticRegression:
    def __init__(self, X, y):
        self.X = X
        self.y = y

    def neg_log_posterior(self, w, tau):
        logits = self.X.dot(w)
        return np.sum(np.logaddexp(0, logits) - self.y * logits) + 0.5 * tau * np.dot(w, w)

    def gradient(self, w, tau):
        p = 1 / (1 + np.exp(-self.X.dot(w)))
        return self.X.T.dot(p - self.y) + tau * w


class Banana:
    """A twisted normal distribution in the plane; tau is how narrow it is."""

    def neg_log_posterior(self, q, tau):
        return 0.5 * (1 - q[0]) ** 2 + 0.5 * tau * (q[1] - q[0] ** 2) ** 2

    def gradient(self, q, tau):
        across = tau * (q[1] - q[0] ** 2)
        return np.array([-(1 - q[0]) - 2 * q[0] * across, across])


def leapfrog(q, p, dVdq, path_len, step_size):
    q, p = np.copy(q), np.copy(p)
    p -= step_size * dVdq(q) / 2
    for _ in range(int(path_len / step_size) - 1):
        q += step_size * p
        p -= step_size * dVdq(q)
    q += step_size * p
    p -= step_size * dVdq(q) / 2
    return q, -p


def hamiltonian_monte_carlo(model, tau, n_samples, initial_position, path_len=0.5, step_size=0.1, seed=0):
    """Samples of the weights of a density with parameter tau, and how many proposals were accepted."""
    rng = np.random.default_rng(seed)
    momenta = rng.normal(size=(n_samples, len(initial_position)))
    uniforms = rng.uniform(size=n_samples)
    samples = [initial_position]
    accepted = 0
    for i in range(n_samples):
        q_new, p_new = leapfrog(samples[-1], momenta[i], lambda w: model.gradient(w, tau), path_len, step_size)
        start_log_p = model.neg_log_posterior(samples[-1], tau) + 0.5 * np.sum(momenta[i] ** 2)
        new_log_p = model.neg_log_posterior(q_new, tau) + 0.5 * np.sum(p_new**2)
        if np.log(uniforms[i]) < start_log_p - new_log_p:
            samples.append(q_new)
            accepted += 1
        else:
            samples.append(np.copy(samples[-1]))
    return np.array(samples[1:]), accepted


def posterior_mean(tau, model, initial_position, n_samples=30, step_size=0.1):
    """The estimated mean of the weights, as a distance from the origin."""
    samples, _ = hamiltonian_monte_carlo(model, tau, n_samples, initial_position, step_size=step_size)
    burn = n_samples // 5
    return np.sqrt(np.sum(samples[burn:].mean(axis=0) ** 2))


def random_walk(scale, model, steps, normals, log_uniforms):
    """Metropolis: the trajectory of a random walk of some scale; what was drawn is given."""
    w = np.zeros(normals.shape[1])
    energy = model.neg_log_posterior(w, 1.0)
    trace = np.zeros((steps, len(w)))
    for i in range(steps):
        proposal = w + scale * normals[i]
        new = model.neg_log_posterior(proposal, 1.0)
        if log_uniforms[i] < energy - new:
            w, energy = proposal, new
        trace[i] = w
    return np.mean(trace**2)


def data(n=60, d=3, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-X @ np.arange(1.0, d + 1)))).astype(float)
    return LogisticRegression(X, y)
