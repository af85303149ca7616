"""The SABR smile by Hagan's formula, and its calibration to quoted volatilities, in scalar code."""

from math import exp, log, sqrt, tanh

import numpy as np


def lognormal_vol(k, f, t, alpha, beta, rho, volvol):
    """Hagan's 2002 lognormal volatility for a strike k and a forward f."""
    if k <= 0 or f <= 0:
        return 0.0
    eps = 1e-7
    logfk = log(f / k)
    fkbeta = (f * k) ** (1 - beta)
    a = (1 - beta) ** 2 * alpha**2 / (24 * fkbeta)
    b = 0.25 * rho * beta * volvol * alpha / sqrt(fkbeta)
    c = (2 - 3 * rho**2) * volvol**2 / 24
    d = sqrt(fkbeta)
    v = (1 - beta) ** 2 * logfk**2 / 24
    w = (1 - beta) ** 4 * logfk**4 / 1920
    z = volvol * sqrt(fkbeta) * logfk / alpha
    if abs(z) > eps:
        vz = alpha * z * (1 + (a + b + c) * t) / (d * (1 + v + w) * _x(rho, z))
        return vz
    v0 = alpha * (1 + (a + b + c) * t) / (d * (1 + v + w))
    return v0


def _x(rho, z):
    a = sqrt(1 - 2 * rho * z + z**2) + z - rho
    return log(a / (1 - rho))


def alpha_at_the_money(f, t, beta, rho, volvol, v_atm):
    """The alpha that gives the volatility at the money, by Newton's method on the cubic."""
    f1 = f ** (1 - beta)
    p3 = t * (1 - beta) ** 2 / (24 * f1**3)
    p2 = t * rho * beta * volvol / (4 * f1**2)
    p1 = (1 + t * volvol**2 * (2 - 3 * rho**2) / 24) / f1
    alpha = v_atm * f1
    for _ in range(50):
        value = ((p3 * alpha + p2) * alpha + p1) * alpha - v_atm
        slope = (3 * p3 * alpha + 2 * p2) * alpha + p1
        step = value / slope
        alpha -= step
        if abs(step) < 1e-14:
            break
    return alpha


def objective(x, strikes, vols, f=0.03, t=2.0, beta=0.5):
    """Weighted sum of squares; x are alpha, rho and volvol on the whole line."""
    alpha, rho, volvol = exp(x[0]), tanh(x[1]), exp(x[2])
    total = 0.0
    for k, v in zip(strikes, vols):
        weight = exp(-((log(k / f)) ** 2))
        total += weight * (lognormal_vol(k, f, t, alpha, beta, rho, volvol) - v) ** 2
    return 1e4 * total


def atm_objective(x, strikes, vols, v_atm, f=0.03, t=2.0, beta=0.5):
    """Of rho and volvol only: the smile goes through the quote at the money."""
    rho, volvol = max(min(x[0], 0.99), -0.99), abs(x[1])
    alpha = alpha_at_the_money(f, t, beta, rho, volvol, v_atm)
    errors = [lognormal_vol(k, f, t, alpha, beta, rho, volvol) - v for k, v in zip(strikes, vols)]
    return 1e4 * sum(e * e for e in errors)


def smile(f=0.03):
    strikes = [0.005, 0.01, 0.015, 0.02, 0.025, f, 0.035, 0.04, 0.045, 0.05, 0.07]
    vols = [0.665, 0.516, 0.433, 0.379, 0.344, 0.322, 0.309, 0.303, 0.301, 0.303, 0.315]
    return np.array(strikes), np.array(vols)
