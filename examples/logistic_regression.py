"""Logistic regression on scikit-learn's breast-cancer data: tracegrad's gradient, SciPy's L-BFGS-B.

The loss is plain NumPy. `loss.value_and_grad` goes into scipy.optimize.minimize as it is, and the fit must agree
with scikit-learn's own LogisticRegression.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # at 30 features BLAS threads only slow SciPy's optimiser down

import matplotlib
import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

from tracegrad import compile_grad

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = Path(__file__).resolve().parent / "out"
C = 1.0  # inverse strength of the penalty, as scikit-learn counts it


def plain_loss(w, X, y):
    """Logistic loss with an L2 penalty on the weights; w[-1] is the intercept, which is not penalised."""
    margins = y * (X @ w[:-1] + w[-1])
    return C * np.sum(np.logaddexp(0.0, -margins)) + 0.5 * np.sum(w[:-1] ** 2)


loss = compile_grad(plain_loss)


def fit(function, start, *args, jac):
    """Minimise three times; the result and the median seconds."""
    seconds = []
    options = {"maxiter": 10_000, "maxfun": 1_000_000, "ftol": 1e-14, "gtol": 1e-7}
    for _ in range(3):
        begin = time.perf_counter()
        result = minimize(function, start, args=args, jac=jac, method="L-BFGS-B", options=options)
        seconds.append(time.perf_counter() - begin)
    return result, float(np.median(seconds))


def main() -> int:
    data = load_breast_cancer()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    y = np.where(data.target == 1, 1.0, -1.0)
    start = np.zeros(X.shape[1] + 1)

    begin = time.perf_counter()
    loss.value_and_grad(start, X, y)
    first_call = time.perf_counter() - begin
    ours, seconds = fit(loss.value_and_grad, start, X, y, jac=True)
    differences, difference_seconds = fit(plain_loss, start, X, y, jac=None)

    begin = time.perf_counter()
    theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y)
    sklearn_seconds = time.perf_counter() - begin
    expected = np.append(theirs.coef_[0], theirs.intercept_)

    error = np.max(np.abs(ours.x - expected))
    accuracy = np.mean(np.sign(X @ ours.x[:-1] + ours.x[-1]) == y)
    print(f"Breast cancer: {len(y)} samples, {X.shape[1]} features; L-BFGS-B on plain NumPy code.\n")
    print(f"  {'':36}{'seconds':>9}{'evaluations':>13}{'final loss':>14}")
    print(f"  {'tracegrad, first call (compiles)':36}{first_call:9.3f}")
    print(f"  {'tracegrad gradient':36}{seconds:9.4f}{ours.nfev:13d}{ours.fun:14.8f}")
    print(
        f"  {'finite differences, same loss':36}{difference_seconds:9.4f}{differences.nfev:13d}{differences.fun:14.8f}"
    )
    print(f"  {'scikit-learn LogisticRegression':36}{sklearn_seconds:9.4f}\n")
    print(f"  largest difference from scikit-learn's coefficients: {error:.1e} (must be below 1e-3)")
    print(f"  accuracy on the training data: {accuracy:.1%}")
    print(f"  the fit is {difference_seconds / seconds:.0f} times as fast as with finite differences")

    order = np.argsort(expected[:-1])
    figure, axis = plt.subplots(figsize=(7, 8))
    axis.barh(np.arange(order.size), expected[:-1][order], color="lightsteelblue", label="scikit-learn")
    axis.plot(ours.x[:-1][order], np.arange(order.size), "k.", label="tracegrad + L-BFGS-B")
    axis.set_yticks(np.arange(order.size), data.feature_names[order], fontsize=8)
    axis.set_xlabel("coefficient (standardised feature)")
    axis.legend()
    figure.tight_layout()
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "logistic_regression.png", dpi=120)
    print("  picture: examples/out/logistic_regression.png\n")

    agrees = error < 1e-3
    print(
        "OK: same coefficients as scikit-learn." if agrees else "FAILED: the coefficients differ from scikit-learn's."
    )
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
