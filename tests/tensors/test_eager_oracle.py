"""The eager layer against PyTorch: the programs of ``eager_programs.py`` run on both, and everything they return is
compared: values and gradients to 1e-10, shapes, dtypes, ``requires_grad``, what was raised.

Each runs once, and three times in a row: the engine compiles what it has seen before, and neither may the results
change then, nor may later runs write into what earlier ones returned.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from eager_programs import PROGRAMS, default_float64, dtype_name

import tracegrad

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[oracle]'")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

TOLERANCE = {"float64": 1e-10, "float32": 1e-5}


# Where we part from PyTorch, knowingly.  Each must go on failing: a change that mends one takes it off the list.
DEVIATIONS = {
    "saved_softmax": "softmax saves its operand too: writing into it before backward is an error here",
    "saved_prod": "prod saves its operand only: writing into the result is no error, the gradient is right",
    "saved_logsumexp": "as prod",
    "saved_gather": "gather needs none of the values it reads: writing into them is no error",
    "twice_two_maximum": "with create_graph the gradient of maximum says requires_grad, though it is constant",
}


@pytest.fixture(autouse=True)
def float64_and_one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with default_float64(torch), default_float64(tracegrad):
        yield
    torch.set_num_threads(threads)


@functools.cache
def expected(name: str) -> Any:
    return PROGRAMS[name](torch)


def differences(want: Any, got: Any, where: str = "result") -> list[str]:
    """What differs between torch's and tracegrad's result, one line for each place."""
    if isinstance(want, torch.Tensor):
        return differing_tensors(want, got, where)
    if isinstance(want, dict):
        if not isinstance(got, dict) or list(want) != list(got):
            return [f"{where}: a dict of {list(want)} in torch, here {list(got) if isinstance(got, dict) else got!r}"]
        return [line for key in want for line in differences(want[key], got[key], f"{where}[{key!r}]")]
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(want) != len(got):
            return [f"{where}: {want!r} in torch, here {got!r}"]
        pairs = enumerate(zip(want, got, strict=True))
        return [line for i, (w, g) in pairs for line in differences(w, g, f"{where}[{i}]")]
    if isinstance(want, float):
        same = isinstance(got, float) and close(np.asarray(want), np.asarray(got), TOLERANCE["float64"])
    else:
        same = type(want) is type(got) and want == got
    return [] if same else [f"{where}: {want!r} in torch, here {got!r}"]


def differing_tensors(want: Any, got: Any, where: str) -> list[str]:
    if not isinstance(got, tracegrad.Tensor):
        return [f"{where}: a tensor in torch, here {got!r}"]
    facts = {
        "dtype": (dtype_name(want.dtype), dtype_name(got.dtype)),
        "shape": (tuple(want.shape), tuple(got.shape)),
        "requires_grad": (want.requires_grad, got.requires_grad),
    }
    lines = [f"{where}.{fact}: {w} in torch, here {g}" for fact, (w, g) in facts.items() if w != g]
    w, g = want.detach().numpy(), got.detach().numpy()
    if w.shape == g.shape and not close(w, g, TOLERANCE.get(dtype_name(want.dtype), 0.0)):
        lines.append(f"{where}: {w.tolist()} in torch, here {g.tolist()}")
    return lines


def close(want: np.ndarray, got: np.ndarray, tolerance: float) -> bool:
    return bool(np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True))


def check(name: str, runs: int) -> None:
    results = [PROGRAMS[name](tracegrad) for _ in range(runs)]
    lines = [line for i, got in enumerate(results) for line in differences(expected(name), got, f"run {i + 1}: result")]
    assert not lines, "\n".join(["", *lines])


def programs() -> list[Any]:
    return [
        pytest.param(n, marks=pytest.mark.xfail(reason=DEVIATIONS[n], strict=True)) if n in DEVIATIONS else n
        for n in PROGRAMS
    ]


@pytest.mark.parametrize("name", programs())
def test_as_in_torch(name):
    check(name, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", programs())
def test_again_and_again(name):
    check(name, 3)
