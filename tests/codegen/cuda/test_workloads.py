"""The benchmark workloads and the examples, small, by CUDA kernels in the simulator: they agree with the CPU's.

What a workload records is taken as it is.  Examples run on the CPU, and each program that one asks for is then run by
both targets on random numbers of the right shapes.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="libdevice comes with numba-cuda: pip install 'tracegrad[cuda]'")


from compiled_graph import execute
from matrix import assert_targets_agree
from simulated import cuda_tier, simulated_canonical
from support import TIERS

import tracegrad
from benchmarks.recorded import recorded
from benchmarks.workloads import SMALL_LOOPS, STRAIGHT
from tracegrad.runtime.launch.kernel_cache import KernelCache, kernels
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import Graph, Var

SMALLER = {  # workloads whose arguments are cut to size
    "logistic_10000x100": lambda w, X, y: (w[:20], X[:50, :20], y[:50]),
    "gmm_1k_d2_K5": lambda alphas, means, icf, x: (alphas, means, icf, x[:60]),
    "gmm_1k_d10_K25": lambda alphas, means, icf, x: (alphas, means, icf, x[:30]),
    "mlp_784_256_256_10_f32": lambda layers, X, labels: (
        [(W[:20, :20], b[:20]) for W, b in layers], X[:12, :20], labels[:12],
    ),
    "cholesky_500": lambda a, weights: (a[:20, :20], weights[:20, :20]),
    "solves_100000x3x3": lambda a, b: (a[:50], b[:50]),
    "attention_512x64_f32": lambda *arrays: [a[:24, :16] for a in arrays],
    "student_2k_K50": lambda *args: (*[a[:6] for a in args[:4]], args[4][:40]),
    "poisson_100000x30": lambda w, X, y: (w[:20], X[:50, :20], y[:50]),
    "spline_100000": lambda c, x, y: (c, x[:50], y[:50]),
    "lennard_jones_1000": lambda positions: (positions[:20],),
}  # fmt: skip
TOO_LARGE = {"black_scholes_1e6", "rosenbrock_1e6", "gmm_10k_d10_K25"}  # and others are like them
WORKLOADS = {name: w for name, w in (STRAIGHT | SMALL_LOOPS).items() if name not in TOO_LARGE}
NEEDS = {
    "digits_mlp": ("rich", "sklearn"),
    "logistic_regression": ("sklearn",),
    "eager_digits_cnn": ("rich", "sklearn"),
    "eager_relu_network": ("rich",),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_workload(name):
    workload = WORKLOADS[name]
    args = workload.make_args()
    recording, inputs = recorded(workload.fn, SMALLER[name](*args) if name in SMALLER else args, workload.argnums)
    found, expected = (tier(recording.graph, inputs) for tier in (cuda_tier, TIERS["kernel"]))
    assert_targets_agree(found, expected, name)


# ---- examples ----------------------------------------------------------------------------------------------------


def example(name):
    for module in ("matplotlib", *NEEDS.get(name, ())):
        pytest.importorskip(module, reason=f"needs {module}: pip install '.[examples]'")
    return importlib.import_module(name)


@pytest.fixture
def programs(monkeypatch):
    """The canonical programs that are asked for while the test runs, by signature."""
    asked = {}
    get = KernelCache.get

    def noted(self, canonical, arguments):
        asked[arguments, canonical.key] = canonical
        return get(self, canonical, arguments)

    monkeypatch.setattr(KernelCache, "get", noted)
    return asked


@pytest.fixture
def own_dtype():
    """What an example makes the default dtype is for its own process."""
    before = tracegrad.get_default_dtype()
    yield
    tracegrad.set_default_dtype(before)


def random_inputs(canonical):
    """Positive floats, small whole numbers: no function leaves its domain, and as positions they are inside."""
    rng = np.random.default_rng(7)
    result = []
    for sym in canonical.inputs:
        shape = tuple(int(canonical.sizes[d]) for d in sym.dims)
        values = rng.uniform(0.5, 1.5, shape) if sym.dtype.kind == "f" else rng.integers(0, 2, shape)
        result.append(np.asarray(values).astype(sym.dtype))
    return result


def assert_programs_agree(programs, what):
    assert programs
    for (arguments, _), canonical in programs.items():
        inputs = random_inputs(canonical)
        program, _ = kernels.get(canonical, arguments)
        every = [Var(Aval(x.dtype, x.shape)) for x in inputs]
        consts = list(zip(every[arguments:], inputs[arguments:], strict=True))
        graph = Graph(every[:arguments], [], [], consts=consts)
        _, expected = execute(program, graph, canonical, inputs[:arguments])
        assert_targets_agree(simulated_canonical(canonical, arguments, inputs), expected, what)


@pytest.mark.slow
def test_black_scholes(programs):
    module = example("black_scholes")
    args = [np.linspace(0.5, 1.5, 40) for _ in range(5)]
    module.portfolio.value_and_grad(*args)
    module.total_price.value_and_grad(*args)
    assert_programs_agree(programs, "black_scholes.py")


def test_logistic_regression(programs):
    module = example("logistic_regression")
    module.loss.value_and_grad(np.zeros(6), np.ones((12, 5)), np.ones(12))
    assert_programs_agree(programs, "logistic_regression.py")


@pytest.mark.slow
def test_digits_mlp(programs):
    module = example("digits_mlp")
    params = {name: p[..., :10] if name == "W1" else p for name, p in module.initial(np.random.default_rng(0)).items()}
    params |= {"b1": params["b1"][:10], "W2": params["W2"][:10]}
    module.loss.value_and_grad(params, np.ones((9, 64)), np.arange(9))
    assert_programs_agree(programs, "digits_mlp.py")


# eager_second_derivatives compiles nothing: no operation comes often enough
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["eager_custom_function", "eager_digits_cnn", "eager_linear_regression", "eager_relu_network"]
)
def test_eager_example(name, own_dtype, programs, monkeypatch, tmp_path, capsys):
    module = example(name)
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--out", str(tmp_path)])
    assert module.main() == 0
    assert_programs_agree(programs, f"{name}.py")
