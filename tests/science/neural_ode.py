"""A neural ODE fitted to a spiral, an epidemic to counts of cases, doses to concentrations; a butterfly's wings."""

from itertools import pairwise

import numpy as np
from scipy.integrate import odeint, quad, simpson, solve_ivp


class MLP:
    """A right-hand side: tanh layers of the cube of the state."""

    def __init__(self, sizes):
        self.shapes = list(pairwise(sizes))
        self.size = sum(n * m + m for n, m in self.shapes)

    def unflatten(self, w):
        layers, i = [], 0
        for n, m in self.shapes:
            W = w[i : i + n * m].reshape(n, m)
            b = w[i + n * m : i + n * m + m]
            layers.append((W, b))
            i += n * m + m
        return layers

    def __call__(self, y, t, layers):
        h = y**3
        for W, b in layers[:-1]:
            h = np.tanh(h @ W + b)
        W, b = layers[-1]
        return h @ W + b


def spiral(y, t):
    A = np.array([[-0.1, 2.0], [-2.0, -0.1]])
    return (y**3) @ A


class NeuralODE:
    def __init__(self, steps=12, end=2.0, hidden=8):
        self.t = np.linspace(0.0, end, steps)
        self.y0 = np.array([2.0, 0.0])
        self.net = MLP([2, hidden, 2])
        self.data = odeint(spiral, self.y0, self.t)

    def start(self, seed=0):
        return 0.1 * np.random.default_rng(seed).normal(size=self.net.size)

    def loss(self, w, tol=None):
        pred = odeint(self.net, self.y0, self.t, args=(self.net.unflatten(w),), rtol=tol, atol=tol)
        return np.mean(np.abs(pred - self.data) ** 2)


def sir(t, y, beta, gamma):
    S, I, R = y
    N = S + I + R
    return -beta * S * I / N, beta * S * I / N - gamma * I, gamma * I


def epidemic(params, days, cases):
    """Sum of squares of new cases a day, for the rates of infection and recovery and the first number of infected."""
    beta, gamma, I0 = params
    sol = solve_ivp(sir, [days[0], days[-1]], [999 - I0, I0, 1.0], t_eval=days, args=(beta, gamma), rtol=1e-8)
    if not sol.success:
        raise RuntimeError(sol.message)
    new = -np.diff(sol.y[0])
    return np.sum((new - cases) ** 2)


class Patient:
    """One compartment with absorption; doses at given times."""

    def __init__(self, theta):
        self.ka, self.ke, self.V = np.exp(theta)

    def rhs(self, t, A, rate, duration):
        infusion = rate if t < duration else 0.0
        gut, blood = A
        return [-self.ka * gut, self.ka * gut - self.ke * blood + infusion]

    def concentrations(self, doses, interval, times):
        """At *times* after each of the doses."""
        A, found = np.zeros(2), []
        for dose in doses:
            A = A + np.array([dose, 0.0])
            sol = solve_ivp(self.rhs, (0, interval), A, t_eval=times, args=(2.0, 100.0), rtol=1e-8, atol=1e-9)
            found.append(sol.y[1] / self.V)
            A = sol.y[:, -1]
        return np.concatenate(found)

    def exposure(self, dose):
        """The area under the curve of a single dose, by integration of the Bateman function."""
        area, _ = quad(lambda t: np.exp(-self.ke * t) - np.exp(-self.ka * t), 0, np.inf)
        return dose * self.ka / (self.V * (self.ka - self.ke)) * area


def dosing(theta, doses, observed):
    patient = Patient(theta)
    times = np.array([0.5, 1.0, 2.0, 4.0])
    residuals = np.log(patient.concentrations(doses, 4.0, times)) - observed
    return 0.5 * residuals @ residuals + 1e-3 * patient.exposure(doses[0])


def lorenz(t, xyz, s, r, b):
    x, y, z = xyz
    x_dot = s * (y - x)
    y_dot = r * x - y - x * z
    z_dot = x * y - b * z
    return np.array([x_dot, y_dot, z_dot])


def wings(start, sigma, rho, beta):
    """The mean height over a short flight from *start*, and where it ends."""
    t = np.linspace(0.0, 0.8, 21)
    sol = solve_ivp(lambda t, X: lorenz(t, X, sigma, rho, beta), t[[0, -1]], start, t_eval=t, rtol=1e-9, atol=1e-9)
    return simpson(sol.y[2], x=t) / t[-1] + sol.y[0, -1]
