"""Programs of control, filtering and mechanics as people write them: linear algebra in loops, in arrays made of
values, and in places of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg as sla
from agreement import agree
from numpy.linalg import det, inv, solve

from tracegrad import compile_grad
from tracegrad.autograd import grad

ys = np.random.default_rng(0).normal(size=(12, 1)).cumsum(0)
zs = np.cos(np.arange(8) * 0.3)
nodes = np.array([[0, 0], [1, 0], [0.5, 1], [1.5, 1.0]])
elems = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]


def lqr(theta):
    A = np.array([[1.0, 0.1], [theta[0], 1.0 + theta[1]]])
    B = np.array([[0.0], [theta[2]]])
    Q = np.diag([1.0, theta[3] ** 2])
    R = np.array([[0.1]])
    P = Q
    Ks = []
    for _ in range(30):
        K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A - B @ K)
        Ks.append(K)
    x = np.array([1.0, 0.0])
    cost = 0.0
    for K in reversed(Ks):
        u = -K @ x
        cost += x @ Q @ x + u @ R @ u
        x = A @ x + B @ u
    return cost + x @ x


def dare(theta):
    A = np.array([[1.0, 0.1], [theta[0], 1.0]])
    B = np.array([[0.0], [theta[1]]])
    Q = np.eye(2)
    R = np.eye(1)
    X = sla.solve_discrete_are(A, B, Q, R)
    Y = sla.solve_continuous_are(A, B, Q, R)
    K = solve(R + B.T @ X @ B, B.T @ X @ A)
    return np.sum(K**2) + np.trace(Y)


def rts(theta):
    dt = 0.1
    F = np.array([[1.0, dt], [0.0, 1.0]])
    H = np.array([[1.0, 0.0]])
    Q = theta[0] ** 2 * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
    R = np.array([[theta[1] ** 2]])
    n = len(ys)
    m = np.zeros(2)
    P = np.eye(2)
    ms = np.zeros((n, 2))
    Ps = np.zeros((n, 2, 2))
    mp = np.zeros((n, 2))
    Pp = np.zeros((n, 2, 2))
    ll = 0.0
    for k in range(n):
        m = F @ m
        P = F @ P @ F.T + Q
        mp[k] = m
        Pp[k] = P
        S = H @ P @ H.T + R
        v = ys[k] - H @ m
        K = P @ H.T @ inv(S)
        ll += -0.5 * (v @ solve(S, v) + np.log(det(2 * np.pi * S)))
        m = m + K @ v
        P = P - K @ S @ K.T
        ms[k] = m
        Ps[k] = P
    for k in range(n - 2, -1, -1):
        G = Ps[k] @ F.T @ inv(Pp[k + 1])
        ms[k] = ms[k] + G @ (ms[k + 1] - mp[k + 1])
        Ps[k] = Ps[k] + G @ (Ps[k + 1] - Pp[k + 1]) @ G.T
    return -ll + np.mean((ms[:, 0] - ys[:, 0]) ** 2)


def ukf(theta):
    n = 2
    lam = 1.0
    W = np.full(2 * n + 1, 1 / (2 * (n + lam)))
    W[0] = lam / (n + lam)
    m = np.array([1.0, 0.0])
    P = np.eye(2) * 0.5
    Q = np.diag(theta[:2] ** 2)
    R = theta[2] ** 2
    nll = 0.0
    for z in zs:
        L = np.linalg.cholesky((n + lam) * P)
        X = np.vstack([m, m + L.T, m - L.T])
        X = np.column_stack([X[:, 0] + 0.1 * X[:, 1], X[:, 1] - 0.1 * np.sin(X[:, 0]) * theta[3]])
        m = W @ X
        D = X - m
        P = (W[:, None] * D).T @ D + Q
        Y = X[:, 0] ** 2 * 0.5 + X[:, 0]
        my = W @ Y
        S = W @ (Y - my) ** 2 + R
        C = (W * (Y - my)) @ D
        K = C / S
        m = m + K * (z - my)
        P = P - np.outer(K, K) * S
        nll += 0.5 * (np.log(S) + (z - my) ** 2 / S)
    return nll


def truss(areas):
    nd = 2 * len(nodes)
    K = np.zeros((nd, nd))
    for e, (i, j) in enumerate(elems):
        d = nodes[j] - nodes[i]
        L = np.sqrt(d @ d)
        c, s = d / L
        T = np.array([[c, s, 0, 0], [0, 0, c, s]])
        ke = areas[e] / L * T.T @ np.array([[1, -1], [-1, 1]]) @ T
        dofs = [2 * i, 2 * i + 1, 2 * j, 2 * j + 1]
        K[np.ix_(dofs, dofs)] += ke
    free = [2, 4, 5, 6, 7]
    f = np.zeros(nd)
    f[7] = -1.0
    u = np.zeros(nd)
    u[free] = np.linalg.solve(K[np.ix_(free, free)], f[free])
    return f @ u + 0.1 * np.sum(areas)


def markov(W):
    P = np.exp(W)
    P = P / P.sum(axis=1, keepdims=True)
    n = len(P)
    A = np.vstack([(P.T - np.eye(n))[:-1], np.ones(n)])
    pi = np.linalg.solve(A, np.append(np.zeros(n - 1), 1.0))
    w, v = np.linalg.eig(P.T)
    s = np.real(v[:, np.argmax(np.real(w))])
    s = s / np.sum(s)
    M = np.linalg.matrix_power(P, 20)
    Z = inv(np.eye(n) - P + np.outer(np.ones(n), pi))
    return pi @ np.arange(n) + s @ np.arange(n) ** 2 + M[0, 1] + np.trace(Z)


PROGRAMS: dict[str, tuple[Any, np.ndarray]] = {
    "LQR": (lqr, np.array([0.1, 0.05, 0.2, 1.0])),
    "Riccati": (dare, np.array([0.1, 1.0])),
    "smoother": (rts, np.array([1.0, 0.7])),
    "unscented filter": (ukf, np.array([0.3, 0.2, 0.5, 1.0])),
    "truss": (truss, np.array([1.0, 1.2, 0.8, 1.1, 0.9])),
    "Markov chain": (markov, np.random.default_rng(0).normal(size=(4, 4))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "LQR")) for n in PROGRAMS])
def test_a_program_is_compiled_as_it_is(name):
    f, x = PROGRAMS[name]
    compiled = compile_grad(f)
    agree(compiled, f, x)
    assert compiled.stats.live == ""
    if name in ("LQR", "truss"):
        direction = np.cos(np.arange(x.size)).reshape(x.shape)
        second = compile_grad(lambda x: np.sum(direction * grad(f)(x))).grad(x)
        along = (compiled.grad(x + 1e-6 * direction) - compiled.grad(x - 1e-6 * direction)) / 2e-6
        np.testing.assert_allclose(second, along, rtol=1e-5, atol=1e-5)
