"""Every expression of ``eager_expressions.py`` in a compiled step on the device, on the stand-in for CuPy, against the
same function run eagerly there: results and where they lie, gradients, the kinds of errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from eager_expressions import ASKS_FOR_THE_HOST, CONSTANTS, EXPRESSIONS, LEAVES, flat

import tracegrad

T: Any = tracegrad

pytestmark = [pytest.mark.usefixtures("cupy"), pytest.mark.filterwarnings("ignore")]

STEP = """
def step(*leaves):
    {names} = [leaf * 1 for leaf in leaves]
    {statement}
    results = flat({result})
    weighted = [
        (r * T.arange(1, r.numel() + 1, dtype=r.dtype).reshape(r.shape)).sum()
        for r in results
        if isinstance(r, T.Tensor) and r.requires_grad
    ]
    total = sum(weighted[1:], weighted[0]) if weighted else None
    return results, total
"""


def leaves_of(text: str) -> list[str]:
    """The leaves that the expression names, and one that it does not depend on."""
    named = [name for name in LEAVES if re.search(rf"\b{name}\b", text)]
    return [*named, *[name for name in LEAVES if name not in named][:1]]


def made(text: str) -> Any:
    """A function of its leaves that gives the results of the expression (or statement), and a scalar."""
    try:
        compile(text, "<expression>", "eval")
        parts = {"statement": "pass", "result": text}
    except SyntaxError:
        parts = {"statement": text, "result": re.match(r"\w+", text)[0]}  # type: ignore[index]
    space: dict[str, Any] = {"T": T, "F": T.nn.functional, "np": np, "flat": flat}
    space |= {name: T.tensor(value) for name, value in CONSTANTS.items()}
    exec(STEP.format(names=", ".join(leaves_of(text)), **parts), space)
    return space["step"]


def outcome(function: Any, text: str) -> Any:
    """The kind of the error, or (results, gradients)."""
    T.manual_seed(0)
    leaves = [T.tensor(value, requires_grad=True) for value in map(LEAVES.get, leaves_of(text))]
    try:
        results, total = function(*leaves)
        if total is not None:
            total.backward()
    except Exception as error:
        return type(error)
    return [*results, *[leaf.grad for leaf in leaves]]


def differ(a: Any, b: Any) -> bool:
    if isinstance(a, float | list) and type(a) is type(b):  # numbers of a kernel: as for tensors
        return np.shape(a) != np.shape(b) or not np.allclose(a, b, 1e-6, 1e-9, equal_nan=True)
    if not isinstance(a, T.Tensor):
        return not (a is b or a == b)
    if not isinstance(b, T.Tensor):
        return True
    if (a.device, a.dtype, a.shape, a.requires_grad) != (b.device, b.dtype, b.shape, b.requires_grad):
        return True
    x, y = a.detach().cpu().numpy(), b.detach().cpu().numpy()
    return not np.allclose(x, y, 1e-6, 1e-9, equal_nan=True)


def difference(text: str) -> str:
    eager, compiled = made(text), T.compile(made(text))
    for call in ("eager", "recorded", "verified"):
        expected, found = outcome(eager, text), outcome(compiled, text)
        if isinstance(expected, type) or isinstance(found, type):
            return "" if expected is found else f"{text}, {call}: {expected} eagerly, {found} compiled"
        if any(differ(a, b) for a, b in zip(expected, found, strict=True)):
            return f"{text}, {call}: {expected} eagerly, {found} compiled"
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("group", EXPRESSIONS)
def test_expressions(group):
    texts = [text.strip() for text in EXPRESSIONS[group].replace("\n", " ").split(";")]
    texts = [text for text in texts if text and not any(word in text for word in ASKS_FOR_THE_HOST)]
    T.set_default_device("cuda")
    try:
        assert [wrong for wrong in map(difference, texts) if wrong] == []
    finally:
        T.set_default_device(None)
