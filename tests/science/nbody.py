"""Gravitational N-body simulation by the leapfrog, and an orbit determination with it."""

import numpy as np

G = 6.674e-2


def accelerations(pos, mass, softening):
    """The acceleration of each particle, an N x 3 array."""
    N = pos.shape[0]
    acc = np.zeros((N, 3))
    for i in range(N):
        for j in range(i + 1, N):
            r = pos[j] - pos[i]
            inv_r3 = (r[0] ** 2 + r[1] ** 2 + r[2] ** 2 + softening**2) ** (-1.5)
            acc[i] += G * mass[j] * inv_r3 * r
            acc[j] -= G * mass[i] * inv_r3 * r
    return acc


def energy(pos, vel, mass):
    kinetic = 0.5 * np.sum(mass[:, np.newaxis] * vel**2)
    dx = pos[:, 0] - pos[:, 0][:, np.newaxis]
    dy = pos[:, 1] - pos[:, 1][:, np.newaxis]
    dz = pos[:, 2] - pos[:, 2][:, np.newaxis]
    r = np.sqrt(dx**2 + dy**2 + dz**2 + np.eye(len(mass)))
    potential = -G * np.sum(np.triu(mass * mass[:, np.newaxis] / r, 1))
    return kinetic + potential


def simulate(pos, vel, mass, steps, dt, softening=0.1):
    """The positions at all times, steps + 1 of them, and the energies."""
    pos, vel = pos.copy(), vel.copy()
    vel -= np.mean(mass[:, np.newaxis] * vel, axis=0) / np.mean(mass)
    acc = accelerations(pos, mass, softening)
    trajectory = np.zeros((steps + 1, len(mass), 3))
    energies = np.empty(steps + 1)
    trajectory[0] = pos
    energies[0] = energy(pos, vel, mass)
    for k in range(steps):
        vel += acc * dt / 2.0
        pos += vel * dt
        acc = accelerations(pos, mass, softening)
        vel += acc * dt / 2.0
        trajectory[k + 1] = pos
        energies[k + 1] = energy(pos, vel, mass)
    return trajectory, energies


def misfit(mass, pos, vel, observed, dt=0.01):
    """How far the simulated orbits are from what was seen of them, and how much energy got lost."""
    trajectory, energies = simulate(pos, vel, mass, len(observed) - 1, dt)
    drift = (energies[-1] - energies[0]) / np.abs(energies[0])
    return np.mean((trajectory - observed) ** 2) + drift**2


def cluster(n=4, seed=17):
    rng = np.random.default_rng(seed)
    return rng.uniform(5.0, 20.0, n), rng.normal(size=(n, 3)), 0.3 * rng.normal(size=(n, 3))
