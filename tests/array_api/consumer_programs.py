"""Functions of SciPy and scikit-learn on Tensors, with what they read at import: ``SCIPY_ARRAY_API=1``.

A program of its own: ``python consumer_programs.py scipy sklearn compat`` prints what went wrong with each.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np

import tracegrad
from tracegrad import array_api as xp

Call = Callable[[Any], Any]
DATA = np.random.default_rng(0).random((6, 4))


def checked(calls: dict[str, Call], differentiable: bool) -> list[str]:
    """What differs from the same on NumPy's arrays; gradients from central differences."""
    wrong = []
    for name, call in calls.items():
        x = tracegrad.tensor(DATA, requires_grad=differentiable)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, wanted = call(x), np.asarray(call(DATA))
        if not isinstance(found, tracegrad.Tensor):
            wrong.append(f"{name}: a {type(found).__name__}")
        elif not np.allclose(found.detach().numpy(), wanted, equal_nan=True):
            wrong.append(f"{name}: {found} is not {wanted}")
        elif differentiable and not same_gradient(call, found, x):
            wrong.append(f"{name}: its gradient is {x.grad}")
    return wrong


def same_gradient(call: Call, found: Any, x: Any) -> bool:
    found.sum().backward()
    direction = np.cos(np.arange(24.0)).reshape(6, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ends = [np.asarray(call(DATA + s * 1e-6 * direction)).sum() for s in (1, -1)]
    return np.isclose((x.grad.numpy() * direction).sum(), (ends[0] - ends[1]) / 2e-6, 1e-4, 1e-5)


def of_scipy() -> list[str]:
    from scipy import differentiate, integrate, optimize, signal, special, stats
    from scipy.cluster import vq
    from scipy.spatial.transform import Rotation

    with_gradients: dict[str, Call] = {
        "ndtr": special.ndtr,  # first: the tables of scipy.special are made when one of its functions is asked for
        "expit": special.expit,
        "gammaln": special.gammaln,
        "rel_entr": lambda a: special.rel_entr(a, a + 1),
        "xlogy": lambda a: special.xlogy(a, a),
        "stdtrit": lambda a: special.stdtrit(3.0, a),
        "logsumexp": lambda a: special.logsumexp(a, axis=1),
        "softmax": lambda a: special.softmax(a, axis=1) * a,
        "log_softmax": lambda a: special.log_softmax(a, axis=1),
        "zmap": lambda a: stats.zmap(a, a) * a,
        "skew": stats.skew,
        "kurtosis": stats.kurtosis,
        "gmean": stats.gmean,
        "pmean": lambda a: stats.pmean(a, 2),
        "entropy": stats.entropy,
        "pearsonr": lambda a: stats.pearsonr(a[:, 0], a[:, 1]).pvalue,
        "ttest_ind": lambda a: stats.ttest_ind(a, a * a).pvalue,
        "directional_stats": lambda a: stats.directional_stats(a).mean_direction,
        "iqr": stats.iqr,
        "trapezoid": lambda a: integrate.trapezoid(a, axis=0),
        "cumulative_simpson": lambda a: integrate.cumulative_simpson(a, dx=1.0, axis=0),
        "rosen": lambda a: optimize.rosen(a[:, 0]),
        "whiten": lambda a: vq.whiten(a) * a,
        "rotation": lambda a: Rotation.from_rotvec(a[:, :3]).as_matrix(),
        "derivative": lambda a: differentiate.derivative(lambda t: t * t * t, a[0, 0]).df,
    }
    without: dict[str, Call] = {
        "detrend": lambda a: signal.detrend(a, axis=0),
        "lfilter": lambda a: signal.lfilter(a[:3, 0], a[:3, 1], a, axis=0),
        "kmeans": lambda a: vq.kmeans(a, a[:2])[0],
        "rankdata": stats.rankdata,
        "tanhsinh": lambda a: integrate.tanhsinh(lambda t: t * t, a[0, 0] * 0, a[0, 0]).integral,
    }
    wrong = checked(with_gradients, True) + checked(without, False)
    try:
        signal.detrend(tracegrad.ones(4, requires_grad=True))
        wrong.append("detrend loses a gradient")
    except RuntimeError as error:
        wrong += [] if "requires grad" in str(error) else [str(error)]
    f = tracegrad.compile_grad(lambda a: np.sum(special.expit(a) + special.logsumexp(a, axis=1, keepdims=True)))
    a = tracegrad.tensor(DATA, requires_grad=True)
    (special.expit(a) + special.logsumexp(a, axis=1, keepdims=True)).sum().backward()
    return wrong + ["compile_grad"] * (not np.allclose(f.grad(DATA), a.grad.numpy()))


def of_sklearn() -> list[str]:
    from sklearn import config_context
    from sklearn.decomposition import PCA
    from sklearn.linear_model import Ridge
    from sklearn.metrics import mean_squared_error
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    calls: dict[str, Call] = {
        "StandardScaler": lambda a: StandardScaler().fit_transform(a) * a,
        "MinMaxScaler": lambda a: MinMaxScaler().fit_transform(a),
        "PCA": lambda a: PCA(2, svd_solver="covariance_eigh").fit_transform(a) ** 2,
        "Ridge": lambda a: Ridge(solver="svd").fit(a[:, :3], a[:, 3]).predict(a[:, :3]),
        "rbf_kernel": rbf_kernel,
    }
    with config_context(array_api_dispatch=True):
        t = tracegrad.tensor(DATA)
        error = mean_squared_error(t[:, 0], t[:, 1])
        wrong = checked(calls, True)
    return wrong + ["mean_squared_error"] * (error != mean_squared_error(DATA[:, 0], DATA[:, 1]))


def of_compat() -> list[str]:
    import array_api_compat as compat

    t = tracegrad.ones(2, 3)
    facts = {
        "namespace": compat.array_namespace(t, t) is xp,
        "array": compat.is_array_api_obj(t) and not compat.is_numpy_array(t) and not compat.is_torch_array(t),
        "device": compat.to_device(t, compat.device(t)) is t,
        "size": compat.size(t) == 6,
    }
    return [name for name, holds in facts.items() if not holds]


if __name__ == "__main__":
    for which in sys.argv[1:]:
        print(which, *globals()[f"of_{which}"](), sep=" | ")
