"""A million options: greeks from one call of value_and_grad, and implied volatilities by Newton.

The pricing formula is plain NumPy. The sum of all prices is differentiated with respect to five arrays at once: since
each option has its own spot, strike, time, rate and volatility, each element of a gradient is one option's greek.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import matplotlib
import numpy as np
from scipy.special import ndtr

from tracegrad import compile_grad

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = Path(__file__).resolve().parent / "out"
COUNT = 1_000_000
GREEKS = ("delta", "dual delta", "theta", "rho", "vega")


def call_price(S, K, T, r, sigma):
    spread = sigma * np.sqrt(T)
    d1 = (np.log(S / K) + (r + 0.5 * sigma**2) * T) / spread
    return S * ndtr(d1) - K * np.exp(-r * T) * ndtr(d1 - spread)


@compile_grad(argnums=(0, 1, 2, 3, 4))
def portfolio(S, K, T, r, sigma):
    return np.sum(call_price(S, K, T, r, sigma))


@compile_grad
def total_price(sigma, S, K, T, r):
    return np.sum(call_price(S, K, T, r, sigma))


def closed_form(S, K, T, r, sigma):
    """Price and greeks from the textbook, each by its own formula."""
    root = np.sqrt(T)
    d1 = (np.log(S / K) + (r + 0.5 * sigma**2) * T) / (sigma * root)
    d2 = d1 - sigma * root
    density = np.exp(-0.5 * d1**2) / np.sqrt(2.0 * np.pi)
    discounted = K * np.exp(-r * T)
    price = S * ndtr(d1) - discounted * ndtr(d2)
    theta = S * density * sigma / (2.0 * root) + r * discounted * ndtr(d2)
    return price, (ndtr(d1), -np.exp(-r * T) * ndtr(d2), theta, T * discounted * ndtr(d2), S * density * root)


def timed(function, *args, repeats=5):
    """The result and the median seconds."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = function(*args)
        seconds.append(time.perf_counter() - begin)
    return result, float(np.median(seconds))


def main() -> int:
    rng = np.random.default_rng(0)
    S, K = rng.uniform(80.0, 120.0, COUNT), rng.uniform(80.0, 120.0, COUNT)
    T, r, sigma = rng.uniform(0.25, 2.0, COUNT), rng.uniform(0.0, 0.05, COUNT), rng.uniform(0.1, 0.6, COUNT)
    options = (S, K, T, r, sigma)
    good = True

    begin = time.perf_counter()
    portfolio.value_and_grad(*options)
    print(f"{COUNT:,} European calls. First call, which compiles: {time.perf_counter() - begin:.2f} s\n")
    (value, greeks), seconds = timed(portfolio.value_and_grad, *options)
    (prices, expected), closed_seconds = timed(closed_form, *options)
    print(f"  sum of prices: {value:,.2f}")
    for name, got, want in zip(GREEKS, greeks, expected, strict=True):
        error = np.max(np.abs(got - want) / np.maximum(np.abs(want), 1e-3 * np.max(np.abs(want))))
        good &= bool(error < 1e-8)
        print(f"  {name:10} mean {np.mean(got):10.5f}   largest relative error against closed form {error:.1e}")
    print(f"\n  price and five greeks: tracegrad {seconds * 1e3:.1f} ms, NumPy by hand {closed_seconds * 1e3:.1f} ms")

    begin = time.perf_counter()
    guess, steps = implied_volatility(prices, S, K, T, r)
    newton = time.perf_counter() - begin
    # Far from the money the price hardly depends on the volatility: compare the prices, and the volatilities elsewhere.
    vega = greeks[4]
    repriced = np.max(np.abs(call_price(S, K, T, r, guess) - prices))
    error = np.max(np.abs(guess - sigma)[vega > 0.1])
    good &= bool(repriced < 1e-8 and error < 1e-6)
    stats = total_price.stats
    print(f"\n  implied volatilities by Newton: {newton:.2f} s, {steps} steps, each on fewer options than the last")
    print(f"  vega: {stats.traces} sizes recorded, {stats.compiles} compiled")
    print(f"  largest mispricing {repriced:.1e}, largest volatility error {error:.1e} (where vega > 0.1)")

    picture(S / K, T, sigma, greeks)
    print("  picture: examples/out/black_scholes.png\n")
    print("OK: the greeks and volatilities are right." if good else "FAILED: the greeks or volatilities are off.")
    return 0 if good else 1


def implied_volatility(quotes, S, K, T, r, tolerance=1e-10):
    """Newton on all options that are not there yet: prices in NumPy, vegas as the gradient of their sum.

    The price is convex in the volatility up to its inflection point and concave beyond: from there Newton goes
    straight to the root. Fewer options are left at each step, and every new size runs the same compiled kernel.
    """
    sigma = np.maximum(np.sqrt(2.0 * np.abs(np.log(S / K) + r * T) / T), 0.01)
    left = np.arange(len(quotes))
    for step in range(50):
        inputs = (S[left], K[left], T[left], r[left])
        mispricing = call_price(*inputs, sigma[left]) - quotes[left]
        open_ = np.abs(mispricing) > tolerance
        if not open_.any():
            return sigma, step
        left, mispricing = left[open_], mispricing[open_]
        _, vega = total_price.value_and_grad(sigma[left], *(array[open_] for array in inputs))
        sigma[left] -= mispricing / vega
    return sigma, step


def picture(moneyness, T, sigma, greeks):
    """Delta and vega against moneyness for a few thousand of the options."""
    shown = slice(0, 6000)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2))
    for axis, name, colour, label in ((axes[0], "delta", sigma, "volatility"), (axes[1], "vega", T, "years to expiry")):
        values = greeks[GREEKS.index(name)]
        points = axis.scatter(moneyness[shown], values[shown], c=colour[shown], s=3, cmap="viridis")
        figure.colorbar(points, ax=axis, label=label)
        axis.set_xlabel("spot / strike")
        axis.set_title(name)
    figure.tight_layout()
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "black_scholes.png", dpi=120)


if __name__ == "__main__":
    sys.exit(main())
