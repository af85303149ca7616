"""A neuron, a flow, a tree of species, lenses, a yield curve and a PID loop, as courses and papers have them."""

import bisect
import math

import numpy as np
from scipy.linalg import expm


class HodgkinHuxley:
    C_m, g_k, g_l = 1.0, 36.0, 0.3
    E_Na, E_K, E_L = 50.0, -77.0, -54.387
    t = np.arange(0.0, 2.0, 0.02)

    def __init__(self, g_Na):
        self.g_Na = g_Na

    def stimulus(self, t):
        return 10 * (t > 0.5) - 10 * (t > 1.0) + 35 * (t > 1.4)

    @staticmethod
    def derivatives(X, t, self):
        V, m, h, n = X
        I_Na = self.g_Na * m**3 * h * (V - self.E_Na)
        dVdt = (self.stimulus(t) - I_Na - self.g_k * n**4 * (V - self.E_K) - self.g_l * (V - self.E_L)) / self.C_m
        dmdt = 0.1 * (V + 40.0) / (1.0 - np.exp(-(V + 40.0) / 10.0)) * (1 - m) - 4.0 * np.exp(-(V + 65) / 18.0) * m
        dhdt = 0.07 * np.exp(-(V + 65.0) / 20.0) * (1 - h) - 1.0 / (1.0 + np.exp(-(V + 35.0) / 10.0)) * h
        dndt = 0.01 * (V + 55.0) / (1.0 - np.exp(-(V + 55.0) / 10.0)) * (1 - n) - 0.125 * np.exp(-(V + 65) / 80.0) * n
        return dVdt, dmdt, dhdt, dndt

    def main(self):
        X = np.zeros((len(self.t), 4))
        X[0] = [-65, 0.05, 0.6, 0.32]
        for i in range(1, len(self.t)):
            dt = self.t[i] - self.t[i - 1]
            X[i] = X[i - 1] + dt * np.array(self.derivatives(X[i - 1], self.t[i - 1], self))
        return X


def neuron(g):
    return np.mean((HodgkinHuxley(g).main()[:, 0] + 60.0) ** 2)


cxs = np.array([0, 0, 1, 1, 1, 0, -1, -1, -1])
cys = np.array([0, 1, 1, 0, -1, -1, -1, 0, 1])
weights = np.array([4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36])


def lattice_boltzmann(tau, F, cylinder, Nt):
    F = F.copy()
    for _ in range(Nt):
        for i, cx, cy in zip(range(9), cxs, cys):
            F[:, :, i] = np.roll(F[:, :, i], cx, axis=1)
            F[:, :, i] = np.roll(F[:, :, i], cy, axis=0)
        bndryF = F[cylinder, :]
        bndryF = bndryF[:, [0, 5, 6, 7, 8, 1, 2, 3, 4]]
        rho = np.sum(F, 2)
        ux = np.sum(F * cxs, 2) / rho
        uy = np.sum(F * cys, 2) / rho
        Feq = np.zeros(F.shape)
        for i, cx, cy, w in zip(range(9), cxs, cys, weights):
            cu = cx * ux + cy * uy
            Feq[:, :, i] = rho * w * (1 + 3 * cu + 9 * cu**2 / 2 - 3 * (ux**2 + uy**2) / 2)
        F += -(1.0 / tau) * (F - Feq)
        F[cylinder, :] = bndryF
    ux[cylinder] = 0
    uy[cylinder] = 0
    return np.sum((np.roll(ux, -1, axis=0) - np.roll(uy, -1, axis=1)) ** 2)


class Node:
    def __init__(self, name=None, left=None, right=None):
        self.name, self.left, self.right, self.index = name, left, right, None

    def leaf(self):
        return self.left is None and self.right is None

    def number(self, k=0):
        for child in (self.left, self.right):
            if child is not None:
                k = child.number(k)
        self.index = k
        return k + 1


def prune(node, Q, t, site, sequences):
    """The likelihood of what is below a node for each of its states (Felsenstein)."""
    if node.leaf():
        L = np.zeros(4)
        L["ACGT".index(sequences[node.name][site])] = 1.0
        return L
    left = expm(Q * t[node.left.index]) @ prune(node.left, Q, t, site, sequences)
    right = expm(Q * t[node.right.index]) @ prune(node.right, Q, t, site, sequences)
    node.L = left * right
    return node.L


def log_likelihood(params, tree, sequences):
    pi = np.exp(params["frequencies"])
    pi = pi / pi.sum()
    k = np.exp(params["kappa"])
    Q = np.array([[0, 1, k, 1], [1, 0, 1, k], [k, 1, 0, 1], [1, k, 1, 0]]) * pi
    for i in range(4):
        Q[i, i] = -Q[i].sum()
    Q = Q / -np.sum(pi * np.diag(Q))
    t = np.exp(params["lengths"])
    return sum(math.log(np.dot(pi, prune(tree, Q, t, site, sequences))) for site in range(len(sequences["human"])))


class Ray:
    def __init__(self, p, k):
        self.__p, self.__k = np.array(p, dtype=float), np.array(k, dtype=float) / np.linalg.norm(k)

    def p(self):
        return self.__p

    def k(self):
        return self.__k

    def append(self, p, k):
        self.__p, self.__k = p, k / np.linalg.norm(k)


class SphericalRefraction:
    def __init__(self, z0, curvature, n1, n2):
        self.z0, self.curv, self.mu = z0, curvature, n1 / n2

    def propagate(self, ray):
        R = 1.0 / self.curv
        r = ray.p() - np.array([0, 0, self.z0 + R])
        rk = np.dot(r, ray.k())
        root = rk**2 - (np.dot(r, r) - R**2)
        if root < 0:
            return
        q = ray.p() + (-rk - np.sqrt(root) if R > 0 else -rk + np.sqrt(root)) * ray.k()
        n = q - np.array([0, 0, self.z0 + R])
        n = n / np.linalg.norm(n) * np.sign(self.curv)
        cosine = -np.dot(n, ray.k())
        ray.append(q, self.mu * ray.k() + (self.mu * cosine - np.sqrt(1 - self.mu**2 * (1 - cosine**2))) * n)


def spot_size(curvatures, z):
    lenses = [SphericalRefraction(10.0, curvatures[0], 1.0, 1.52), SphericalRefraction(15.0, curvatures[1], 1.52, 1.0)]
    spots = []
    for x, y in [(0.0, 0.0), (1.0, 0.5), (-2.0, 1.0), (0.5, -2.5)]:
        ray = Ray([x, y, 0.0], [0.0, 0.0, 1.0])
        for lens in lenses:
            lens.propagate(ray)
        spots.append((ray.p() + (z - ray.p()[2]) / ray.k()[2] * ray.k())[:2])
    return np.sqrt(np.mean(np.sum(np.array(spots) ** 2, axis=1)))


class YieldCurve:
    def __init__(self):
        self.zero_rates, self.instruments = {}, {}

    def add(self, par, T, coupon, price, freq=2):
        self.instruments[T] = (par, coupon, price, freq)

    def bootstrap(self):
        for T, (par, coupon, price, freq) in sorted(self.instruments.items()):
            per = coupon / freq
            for i in range(int(T * freq) - 1):
                t = (i + 1) / float(freq)
                price -= per * np.exp(-self.zero_rates[t] * t)
            self.zero_rates[T] = -np.log(price / (par + per)) / T
        return self

    def rate(self, t):
        ts = sorted(self.zero_rates)
        k = min(max(bisect.bisect_left(ts, t), 1), len(ts) - 1)
        w = (t - ts[k - 1]) / (ts[k] - ts[k - 1])
        return (1 - w) * self.zero_rates[ts[k - 1]] + w * self.zero_rates[ts[k]]


def present_value(prices, cashflows):
    curve = YieldCurve()
    for T, coupon, price in zip((0.5, 1.0, 1.5, 2.0), (0.0, 0.0, 8.0, 12.0), prices):
        curve.add(100, T, coupon, price)
    curve.bootstrap()
    return sum(amount * np.exp(-curve.rate(t) * t) for t, amount in cashflows)


class PID:
    def __init__(self, kp, ki, kd, dt, limits=(None, None)):
        self.kp, self.ki, self.kd, self.dt, (self.low, self.high) = kp, ki, kd, dt, limits
        self.integral, self.last, self.history = 0, None, []

    def __call__(self, setpoint, measured):
        error = setpoint - measured
        self.integral += error * self.dt
        d = 0.0 if self.last is None else -(measured - self.last) / self.dt
        out = self.kp * error + self.ki * self.integral + self.kd * d
        if self.high is not None:
            out = min(out, self.high)
        if self.low is not None:
            out = max(out, self.low)
        self.last = measured
        self.history.append((error, out))
        return out


def control_cost(gains, setpoint, n):
    pid, T, cost = PID(*gains, dt=0.1, limits=(0.0, 100.0)), 20.0, 0.0
    for i in range(n):
        wanted = setpoint if i > 10 else 20.0
        T += 0.1 * (pid(wanted, T) / 4.0 - 0.1 * (T - 20.0))
        cost += abs(wanted - T) * 0.1
    return cost + 1e-4 * sum(u**2 for _, u in pid.history)
