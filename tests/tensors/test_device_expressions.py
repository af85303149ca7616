"""Every expression of ``eager_expressions.py`` on the device, on the stand-in for CuPy, against the CPU: results,
gradients and the kinds of errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from eager_expressions import ASKS_FOR_THE_HOST, CONSTANTS, EXPRESSIONS, LEAVES, flat
from selection import some

import tracegrad

T: Any = tracegrad

pytestmark = [pytest.mark.usefixtures("cupy"), pytest.mark.filterwarnings("ignore")]


def run(text: str, device: str) -> tuple[list[Any], list[Any]]:
    """(results, gradients of the leaves)"""
    T.set_default_device(device)
    try:
        leaves = {name: T.tensor(value, requires_grad=True) for name, value in LEAVES.items()}
        names: dict[str, Any] = {"T": T, "F": T.nn.functional, "np": np}
        names |= {name: leaf * 1 for name, leaf in leaves.items()}
        names |= {name: T.tensor(value) for name, value in CONSTANTS.items()}
        try:
            results = flat(eval(text, names))
        except SyntaxError:  # a statement, which changes the tensor that it begins with
            exec(text, names)
            results = [names[re.match(r"\w+", text)[0]]]  # type: ignore[index]
        weighted = [
            (r * T.arange(1, r.numel() + 1, dtype=r.dtype).reshape(r.shape)).sum()
            for r in results
            if isinstance(r, T.Tensor) and r.requires_grad
        ]
        if not weighted:
            return results, []
        sum(weighted[1:], weighted[0]).backward()
        return results, [leaf.grad for leaf in leaves.values()]
    finally:
        T.set_default_device(None)


def difference(text: str) -> str:
    outcomes: list[Any] = []
    for device in ("cpu", "cuda"):
        try:
            outcomes.append(run(text, device))
        except Exception as error:
            outcomes.append(error)
    expected, found = outcomes
    if isinstance(expected, Exception) or isinstance(found, Exception):
        return "" if type(expected) is type(found) else f"{text}: {expected!r} on the CPU, {found!r} on the device"
    for a, b in zip([*expected[0], *expected[1]], [*found[0], *found[1]], strict=True):
        if not isinstance(a, T.Tensor):
            if not (a is b or a == b):
                return f"{text}: {a} on the CPU, {b} on the device"
        elif not b.is_cuda:
            return f"{text}: a result is on the host"
        else:
            x, y = a.detach().numpy(), b.detach().cpu().numpy()
            if (x.dtype, x.shape) != (y.dtype, y.shape) or not np.allclose(x, y, 1e-6, 1e-9, equal_nan=True):
                return f"{text}: {x} on the CPU, {y} on the device"
    return ""


@pytest.mark.parametrize("group", some(EXPRESSIONS, quick=2))
def test_expressions(group):
    texts = [text.strip() for text in EXPRESSIONS[group].replace("\n", " ").split(";")]
    texts = [text for text in texts if text and not any(word in text for word in ASKS_FOR_THE_HOST)]
    assert texts
    assert [wrong for wrong in map(difference, texts) if wrong] == []
