"""Optimizers of trees of arrays: the numbers of those of tensors, as plain code and inside compiled functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import autograd, compile_grad, optim
from tracegrad.optim import functional as tx

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "betas": (0.4, 0.8), "eps": 1e-3, "weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.2}),
    ("RMSprop", {"lr": 0.1, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True, "alpha": 0.4, "maximize": True}),
]


def trees(seed: int, dtype: str = "float64") -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "w": rng.normal(size=(2, 3)).astype(dtype),
        "rest": (rng.normal(size=4).astype(dtype), np.array(0.5, dtype)),
    }


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name, settings", SETTINGS)
def test_the_numbers_of_the_optimizers_of_tensors(name: str, settings: dict[str, Any], dtype: str) -> None:
    params, opt = trees(0, dtype), getattr(tx, name.lower())(**settings)
    tensors = [tracegrad.tensor(p, requires_grad=True) for p in tracegrad.tree.leaves(params)]
    theirs = getattr(optim, name)(tensors, **settings)
    state = opt.init(params)
    for k in range(4):
        grads = trees(k + 1, dtype)
        updates, state = opt.update(grads, state, params)
        params = tx.apply_updates(params, updates)
        for t, g in zip(tensors, tracegrad.tree.leaves(grads), strict=True):
            t.grad = tracegrad.tensor(g)
        theirs.step()
    for p, t in zip(tracegrad.tree.leaves(params), tensors, strict=True):
        assert p.dtype == dtype and np.shape(p) == t.shape
        rtol = {"float64": 1e-14, "float32": 1e-5, "float16": 1e-2}[dtype]
        np.testing.assert_allclose(p, t.detach().numpy(), rtol=rtol, atol=rtol)
        if dtype == "float64" and name != "AdamW":  # which here adds two changes
            np.testing.assert_array_equal(p, t.detach().numpy())


def loss(params: Any, x: Any) -> Any:
    return np.sum((x @ params["w"] + params["b"]) ** 2)


RATE = 0.1


def decreasing(count: Any) -> Any:
    return RATE / (1.0 + count)


OPT = tx.chain(tx.clip_by_global_norm(1.0), tx.add_decayed_weights(0.01), tx.adam(decreasing))


def step(params: Any, state: Any, x: Any) -> Any:
    value, grads = autograd.value_and_grad(loss)(params, x)
    updates, state = OPT.update(grads, state, params)
    return value, tx.apply_updates(params, updates), state


def test_a_step_is_one_compiled_function(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, x = compile_grad(step), np.random.default_rng(0).normal(size=(5, 3))
    params = {"w": np.ones(3), "b": np.zeros(())}
    ours, plain = (params, OPT.init(params)), (params, OPT.init(params))
    for k in range(6):
        if k == 4:
            monkeypatch.setitem(globals(), "RATE", 0.5)  # what a schedule reads is read anew
        value, *ours = compiled(*ours, x)
        expected, *plain = step(*plain, x)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(ours[0]["w"], plain[0]["w"], rtol=1e-12)
    assert compiled.stats.live == "" and compiled.stats.traces <= 5


def test_saved_in_the_middle(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(5, 3))
    params = {"w": np.ones(3), "b": np.zeros(())}
    _, *now = step(params, OPT.init(params), x)
    tracegrad.save(now, tmp_path / "now.npz")
    for a, b in zip(
        *[tracegrad.tree.leaves(step(*s, x)) for s in (now, tracegrad.load(tmp_path / "now.npz"))], strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_what_gradients_go_through() -> None:
    grads = {"a": np.array([3.0, 0.0]), "b": np.float32(4.0)}
    clipped, state = tx.clip_by_global_norm(1.0).update(grads, ())
    np.testing.assert_allclose(clipped["a"], [0.6, 0.0])
    assert clipped["b"].dtype == np.float32 and state == ()
    same, _ = tx.clip_by_global_norm(10.0).update(grads, ())
    assert same["a"].tolist() == [3.0, 0.0] and same["b"] == 4.0
    assert tx.clip_by_global_norm(1.0).update({"a": np.zeros(2)}, ())[0]["a"].tolist() == [0.0, 0.0]
    assert tx.clip(1.0).update(grads, ())[0]["a"].tolist() == [1.0, 0.0]
    assert tx.scale(-2.0).update(grads, ())[0]["b"] == -8.0
    assert tx.apply_updates({"a": 1.0}, {"a": np.float64(2.0)}) == {"a": 3.0}
    updates, state = tx.adam().update({}, tx.adam().init({}))
    assert updates == {} and state["step"] == 1


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        tx.sgd(-1)
    with pytest.raises(ValueError, match="Invalid beta parameter at index 1"):
        tx.adam(betas=(0.9, 1.0))
    with pytest.raises(ValueError, match="Nesterov"):
        tx.sgd(nesterov=True)
    with pytest.raises(ValueError, match=r"needs the parameters: update\(grads, state, params\)"):
        tx.adamw().update({"a": np.ones(1)}, tx.adamw().init({"a": np.ones(1)}))
    with pytest.raises(ValueError):
        tx.adam().update({"b": np.ones(1)}, tx.adam().init({"a": np.ones(1)}))
