"""Optimizers and schedules: against PyTorch where it is installed, against formulas, and in what they promise.

Promises: a step writes into the parameters' own memory, in one launch; a new learning rate compiles nothing.
"""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import optim
from tracegrad.runtime.config import config
from tracegrad.runtime.launch import bind
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.tensors import update
from tracegrad.tensors.tensor import Tensor, from_data, make

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

with_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed: pip install -e '.[oracle]'")

F8, F4 = np.float64, np.float32
SHAPES = [(3, 4), (4,), (1,), (), (0,), (5, 1, 2), (update.BLOCK + 3,)]


def combinations(**options: Any) -> list[dict[str, Any]]:
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        o
        for o in combinations(
            momentum=(0, 0.9),
            dampening=(0, 0.1),
            weight_decay=(0, 0.01),
            nesterov=(False, True),
            maximize=(False, True),
        )
        if not o["nesterov"] or (o["momentum"] and not o["dampening"])
    ],
    "Adam": combinations(
        betas=((0.9, 0.999), (0.3, 0.5)), weight_decay=(0, 0.01), amsgrad=(False, True), maximize=(False, True)
    ),
    "AdamW": combinations(weight_decay=(0, 0.01), amsgrad=(False, True), maximize=(False, True)),
    "RMSprop": combinations(momentum=(0, 0.9), weight_decay=(0, 0.01), centered=(False, True), maximize=(False, True)),
}
CASES = [(name, o) for name, options in OPTIONS.items() for o in options]
NAMES = [f"{name} {' '.join(f'{k}={v}' for k, v in o.items() if v)}" for name, o in CASES]
SIMPLE = [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {"amsgrad": True}), ("RMSprop", {})]


def parameter(array: Any, dtype: Any = F8) -> Tensor:
    return from_data(np.array(array, dtype), requires_grad=True)


def set_grads(params: Any, grads: Any) -> None:
    for p, g in zip(params, grads, strict=True):
        p.grad = None if g is None else make(np.array(g, p.dtype))


def arrays_of(rng: Any, shapes: Any = SHAPES, dtype: Any = F8) -> list[np.ndarray]:
    return [np.asarray(rng.normal(size=s), dtype) for s in shapes]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(params=["native", "python"])
def path(request, monkeypatch):
    """With the native launcher and without."""
    if request.param == "python":
        monkeypatch.setattr(bind, "NATIVE", False)
        update._families.clear()
    yield request.param
    update._families.clear()


# ---- against PyTorch -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@with_torch
@pytest.mark.parametrize(("name", "options"), CASES, ids=NAMES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(F8, 1e-12), (F4, 2e-5)], ids=["float64", "float32"])
def test_twenty_steps_as_torch(rng, name, options, dtype, tolerance):
    start = arrays_of(rng, dtype=dtype)
    ours = [parameter(a, dtype) for a in start]
    theirs = [torch.tensor(a, requires_grad=True) for a in start]
    one = getattr(optim, name)(ours, lr=0.1, **options)
    other = getattr(torch.optim, name)(theirs, lr=0.1, **options)
    for k in range(20):
        grads: list[Any] = arrays_of(rng, dtype=dtype)
        if k in (3, 4):
            grads[1] = None  # it is left out of these steps
        set_grads(ours, grads)
        for q, g in zip(theirs, grads, strict=True):
            q.grad = None if g is None else torch.tensor(g)
        if k == 10:
            one.param_groups[0]["lr"] = other.param_groups[0]["lr"] = 0.03
        assert one.step() is None
        other.step()
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p._data, q.detach().numpy(), rtol=tolerance, atol=tolerance)
    compare_states(one.state_dict(), other.state_dict(), tolerance)


def compare_states(ours: Any, theirs: Any, tolerance: float) -> None:
    assert ours["param_groups"] == theirs["param_groups"]
    assert list(ours["state"]) == list(theirs["state"])
    for k, state in ours["state"].items():
        assert set(state) == set(theirs["state"][k])
        for key, value in state.items():
            want = theirs["state"][k][key]
            assert value.shape == tuple(want.shape)
            if key != "step":  # in the default dtype, which differs
                assert value._data.dtype == want.numpy().dtype
            np.testing.assert_allclose(value._data, want.numpy(), rtol=tolerance, atol=tolerance)


@with_torch
@pytest.mark.parametrize(("name", "options"), SIMPLE)
def test_defaults_and_repr_as_torch(name, options):
    ours = getattr(optim, name)([{"params": [parameter([1.0])]}, {"params": [parameter(2.0)], "lr": 0.5}], **options)
    theirs = getattr(torch.optim, name)(
        [{"params": [torch.ones(1)]}, {"params": [torch.ones(())], "lr": 0.5}], **options
    )
    assert ours.defaults == theirs.defaults
    assert repr(ours) == repr(theirs)
    assert ours.state_dict()["param_groups"] == theirs.state_dict()["param_groups"]


def rosenbrock(x: Any) -> Any:
    return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


@with_torch
@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("options", [{}, {"history_size": 3}, {"max_iter": 5, "max_eval": 7}])
def test_lbfgs_as_torch(search, options):
    start = np.array([-1.2, 1.0, 0.7, -0.4])
    lr = 1.0 if search else 1e-2
    traces = []
    for library, leaf in ((optim, parameter(start)), (torch.optim, torch.tensor(start, requires_grad=True))):
        optimizer = library.LBFGS([leaf], lr=lr, line_search_fn=search, **options)
        calls: list[float] = []

        def closure(optimizer=optimizer, leaf=leaf, calls=calls):
            optimizer.zero_grad()
            loss = rosenbrock(leaf)
            loss.backward()
            calls.append(loss.item())
            return loss

        for _ in range(4):
            optimizer.step(closure)
        state = optimizer.state_dict()["state"][0]
        traces.append((calls, leaf.detach().numpy(), state["func_evals"], state["n_iter"], set(state) - {"al"}))
    (ours, x, *rest), (theirs, y, *others) = traces
    assert rest == others and len(ours) == len(theirs)
    np.testing.assert_allclose(ours[:30], theirs[:30], rtol=1e-9)
    np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-9)


SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "StepLR": ("StepLR", {"step_size": 3, "gamma": 0.5}),
    "MultiStepLR": ("MultiStepLR", {"milestones": [2, 5, 5, 9]}),
    "ExponentialLR": ("ExponentialLR", {"gamma": 0.9}),
    "CosineAnnealingLR": ("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.01}),
    "LambdaLR": ("LambdaLR", {"lr_lambda": lambda epoch: 0.95**epoch}),
    "LambdaLR, two": ("LambdaLR", {"lr_lambda": [lambda epoch: 0.95**epoch, lambda epoch: 1 / (1 + epoch)]}),
    "MultiplicativeLR": ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.95}),
    "LinearLR": ("LinearLR", {"start_factor": 0.25, "end_factor": 0.75, "total_iters": 6}),
    "ConstantLR": ("ConstantLR", {"factor": 0.5, "total_iters": 4}),
    "PolynomialLR": ("PolynomialLR", {"total_iters": 8, "power": 2.0}),
}


def two_groups(library: Any, first: Any, second: Any) -> Any:
    return library.SGD([{"params": [first], "lr": 0.1}, {"params": [second], "lr": 1.0}], lr=0.3)


@with_torch
@pytest.mark.parametrize(("name", "options"), SCHEDULES.values(), ids=SCHEDULES)
def test_schedules_as_torch(name, options):
    one = two_groups(optim, parameter([1.0]), parameter([2.0]))
    other = two_groups(torch.optim, torch.ones(1), torch.ones(1))
    ours = getattr(optim.lr_scheduler, name)(one, **options)
    theirs = getattr(torch.optim.lr_scheduler, name)(other, **options)
    for epoch in range(25):
        assert ours.get_last_lr() == theirs.get_last_lr() == [g["lr"] for g in one.param_groups], epoch
        one.step()
        other.step()
        ours.step()
        theirs.step()
        assert ours.last_epoch == theirs.last_epoch
        if epoch == 12:  # to be continued from what was saved
            saved = ours.state_dict()
            ours = getattr(optim.lr_scheduler, name)(one, **options)
            one.load_state_dict(other_rates(one, other))
            ours.load_state_dict(saved)
    assert {k for k in theirs.state_dict() if k not in ("_get_lr_called_within_step", "_is_initial")} >= {
        k for k in ours.state_dict() if k != "_is_initial"
    }


def other_rates(ours: Any, theirs: Any) -> dict[str, Any]:
    state = ours.state_dict()
    for group, other in zip(state["param_groups"], theirs.param_groups, strict=True):
        group["lr"], group["initial_lr"] = other["lr"], other["initial_lr"]
    return state


@with_torch
@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_plateau_as_torch(rng, mode, threshold_mode):
    one, other = optim.SGD([parameter([1.0])], lr=1.0), torch.optim.SGD([torch.ones(1)], lr=1.0)
    options = {
        "mode": mode, "threshold_mode": threshold_mode, "patience": 2, "cooldown": 1, "min_lr": 1e-3, "threshold": 0.05,
    }  # fmt: skip
    ours = optim.lr_scheduler.ReduceLROnPlateau(one, **options)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(other, **options)
    for metric in rng.normal(size=60):
        ours.step(metric)
        theirs.step(metric)
        assert ours.get_last_lr() == theirs.get_last_lr()
    assert ours.num_bad_epochs == theirs.num_bad_epochs and one.param_groups[0]["lr"] < 1.0


# ---- against formulas ----------------------------------------------------------------------------------------------


def test_sgd_formula(rng, path):
    start, grads = arrays_of(rng), [arrays_of(rng) for _ in range(4)]
    params = [parameter(a) for a in start]
    optimizer = optim.SGD(params, lr=0.25)
    for g in grads:
        set_grads(params, g)
        optimizer.step()
    for k, p in enumerate(params):
        np.testing.assert_allclose(p._data, start[k] - 0.25 * sum(g[k] for g in grads), rtol=1e-13, atol=1e-13)
    assert not optimizer.state


def test_momentum_formula(path):
    (p,) = params = [parameter(1.0)]
    optimizer = optim.SGD(params, lr=1.0, momentum=0.5)
    for _ in range(5):
        set_grads(params, [1.0])
        optimizer.step()
    velocities = [2 - 0.5**k for k in range(5)]  # 1, 1.5, 1.75, ...
    assert float(p._data) == 1 - sum(velocities)


def test_adam_formula(rng, path):
    x, grads = rng.normal(size=5), rng.normal(size=(6, 5))
    (p,) = params = [parameter(x)]
    optimizer = optim.AdamW(params, lr=0.1, weight_decay=0.2)
    m, v = np.zeros(5), np.zeros(5)
    for t, g in enumerate(grads, 1):
        set_grads(params, [g])
        optimizer.step()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x = x * (1 - 0.1 * 0.2) - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(p._data, x, rtol=1e-12)
    state = optimizer.state[p]
    assert state["step"].shape == () and float(state["step"]._data) == 6
    np.testing.assert_allclose(state["exp_avg"]._data, m, rtol=1e-12)


@pytest.mark.parametrize(("name", "options"), SIMPLE)
def test_the_kernel_agrees_with_numpy(rng, name, options, monkeypatch):
    """TRACEGRAD_CHECK: after the first step each is computed in both ways."""
    monkeypatch.setattr(config, "check", True)
    params = [parameter(a) for a in arrays_of(rng)]
    optimizer = getattr(optim, name)(params, lr=0.1, **options)
    for _ in range(4):
        set_grads(params, arrays_of(rng))
        optimizer.step()


def test_lbfgs_finds_the_minimum():
    x = parameter([-1.2, 1.0])
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    np.testing.assert_allclose(x._data, [1.0, 1.0], atol=1e-4)
    assert optimizer.state[x]["func_evals"] > optimizer.state[x]["n_iter"] > 10


def test_lbfgs_goes_on_from_a_state_dict():
    ends = []
    for interrupted in (False, True):
        x = parameter([-1.2, 1.0])
        optimizer = optim.LBFGS([x], max_iter=3, line_search_fn="strong_wolfe")

        def closure(x=x):
            x.grad = None
            loss = rosenbrock(x)
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
            if interrupted:
                saved = copy.deepcopy(optimizer.state_dict())
                optimizer = optim.LBFGS([x], max_iter=3, line_search_fn="strong_wolfe")
                optimizer.load_state_dict(saved)
        ends.append(x._data)
    assert ends[0].tolist() == ends[1].tolist()


def test_schedule_formulas():
    optimizer = optim.SGD([parameter([1.0])], lr=1.0)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    for t in range(1, 11):
        optimizer.step()
        schedule.step()
        assert schedule.get_last_lr() == pytest.approx([(1 + math.cos(math.pi * t / 10)) / 2], abs=1e-12)
    assert schedule.last_epoch == 10


# ---- promises ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), SIMPLE)
def test_a_hundred_learning_rates_compile_once(rng, name, options):
    kernels.clear()
    update._families.clear()
    params = [parameter(a) for a in arrays_of(rng, [(20, 10), (20,), (1, 20), (1,)])]
    optimizer = getattr(optim, name)(params, **options)
    before = kernels.compiles
    for k in range(100):
        optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
        set_grads(params, arrays_of(rng, [(20, 10), (20,), (1, 20), (1,)]))
        optimizer.step()
    assert kernels.compiles == before + 1


def test_other_shapes_share_the_kernel(rng):
    def train(shapes):
        params = [parameter(a) for a in arrays_of(rng, shapes)]
        optimizer = optim.Adam(params)
        for _ in range(3):
            set_grads(params, arrays_of(rng, shapes))
            optimizer.step()

    train([(3, 3), (7,)])
    before = kernels.compiles
    train([(2, 5, 3), (1,), (40000,), (6, 2)])
    assert kernels.compiles == before


@pytest.mark.parametrize(("name", "options"), SIMPLE)
def test_written_in_place(rng, name, options, path):
    params = [parameter(a) for a in arrays_of(rng)]
    views = [p._data for p in params]
    optimizer = getattr(optim, name)(params, lr=0.1, **options)
    set_grads(params, arrays_of(rng))
    optimizer.step()
    held = [value for p in params for value in optimizer.state[p].values()] if optimizer.state else []
    memory = [t._data for t in held]
    for _ in range(3):
        versions = [p._version for p in params]
        before, counts = [v.copy() for v in views], [t._version for t in held]
        optimizer.step()
        assert [p._version for p in params] == [v + 1 for v in versions]
        assert [t._version for t in held] == [c + 1 for c in counts]
        assert all(p._data is v for p, v in zip(params, views, strict=True))
        assert all(t._data is a for t, a in zip(held, memory, strict=True))
        assert all(not np.array_equal(v, b) for v, b in zip(views, before, strict=True) if v.size)


@pytest.mark.parametrize("size", [1, 2, update.BLOCK - 1, update.BLOCK, update.BLOCK + 1, 3 * update.BLOCK])
def test_blocks(rng, size):
    start, g = rng.normal(size=size), rng.normal(size=size)
    (p,) = params = [parameter(start)]
    optimizer = optim.Adam(params)
    for _ in range(3):
        set_grads(params, [g])
        optimizer.step()
    m, v, x = np.zeros(size), np.zeros(size), start
    for t in (1, 2, 3):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x = x - 1e-3 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(p._data, x, rtol=1e-12)
    assert float(optimizer.state[p]["step"]._data) == 3


def test_gradients_in_any_layout(rng):
    (p,) = params = [parameter(rng.normal(size=(4, 6)))]
    start = p._data.copy()
    optimizer = optim.SGD(params, lr=1.0)
    total = np.zeros((4, 6))
    for k in range(4):
        g = rng.normal(size=(6, 4)).T if k % 2 else rng.normal(size=(8, 6))[::2]
        p.grad = make(g)
        total += g
        optimizer.step()
    np.testing.assert_allclose(p._data, start - total, rtol=1e-13, atol=1e-13)


def test_parameters_in_any_layout(rng):
    memory = rng.normal(size=(6, 4))
    start = memory.copy()
    p, q = from_data(memory.T, True), from_data(rng.normal(size=(3, 8))[:, ::2], True)
    optimizer = optim.Adam([p, q], lr=0.1)
    for _ in range(3):
        set_grads([p, q], [np.ones((4, 6)), np.ones((3, 4))])
        optimizer.step()
    np.testing.assert_allclose(memory, start - 0.3, rtol=1e-6, atol=1e-6)


def test_parameters_that_share_memory_are_updated_one_after_the_other(path):
    memory = np.ones(3)
    p, q = from_data(memory, True), from_data(memory, True)
    optimizer = optim.SGD([p, q], lr=1.0, weight_decay=0.5)
    for _ in range(2):
        set_grads([p, q], [np.zeros(3)] * 2)
        optimizer.step()
    assert memory.tolist() == [0.5**4] * 3


def test_the_gradient_may_be_the_parameter(path):
    p = parameter([1.0, 2.0])
    optimizer = optim.SGD([p], lr=0.5)
    for _ in range(3):
        p.grad = make(p._data)
        optimizer.step()
    assert p._data.tolist() == [0.125, 0.25]


def test_read_only_memory_is_refused(path):
    frozen = np.ones(3)
    p, q = parameter([1.0]), from_data(frozen, True)
    optimizer = optim.SGD([p, q], lr=1.0)
    for flag in (True, True, False, False):
        frozen.flags.writeable = flag
        set_grads([p, q], [np.ones(1), np.ones(3)])
        if flag:
            optimizer.step()
            continue
        before = frozen.copy()
        with pytest.raises(ValueError, match=r"shape \[3\].* read-only"):
            optimizer.step()
        assert np.array_equal(frozen, before)


def test_what_is_bound_is_bounded(rng):
    for n in range(update._MAX_MEMBERS + 5):
        params = [parameter(np.ones(n + 1))]
        set_grads(params, [np.ones(n + 1)])
        optim.SGD(params).step()
    assert max(len(f) for f in update._families.values()) == update._MAX_MEMBERS
    assert len(update._families) <= update._MAX_FAMILIES


def test_groups_of_equal_length_keep_their_kernels(rng):
    """Two optimizers whose groups look alike but for the shapes."""
    sets = [[parameter(np.ones((n, 2))), parameter(np.ones(n))] for n in (3, 4)]
    optimizers = [optim.Adam(params, lr=0.1) for params in sets]
    for _ in range(5):
        for params, optimizer in zip(sets, optimizers, strict=True):
            set_grads(params, [np.ones(p.shape) for p in params])
            optimizer.step()
    for params in sets:
        for p in params:
            np.testing.assert_allclose(p._data, 0.5, rtol=1e-6)


# ---- within a compiled step ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), CASES, ids=NAMES)
def test_a_compiled_step_is_an_eager_step(rng, name, options):
    start, grads = arrays_of(rng), [arrays_of(rng) for _ in range(4)]
    ends = []
    for compiled in (False, True):
        params = [parameter(a) for a in start]
        optimizer = getattr(optim, name)(params, lr=0.1, **options)
        step = tracegrad.compile(optimizer.step) if compiled else optimizer.step
        for g in grads:
            set_grads(params, g)
            step()
        ends.append([*[p._data for p in params], *[t._data for s in optimizer.state.values() for t in s.values()]])
    for eager, recorded in zip(*ends, strict=True):
        np.testing.assert_allclose(recorded, eager, rtol=1e-13, atol=1e-15)


# ---- groups, state, hooks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make_it", "error", "message"),
    [
        (lambda p: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
        (lambda p: optim.SGD(p), TypeError, "iterable of Tensors or dicts, but got"),
        (lambda p: optim.SGD([p._data]), TypeError, "optimizer can only optimize Tensors"),
        (lambda p: optim.SGD([p * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda p: optim.SGD([{"params": {p}}]), TypeError, "ordered collections"),
        (lambda p: optim.SGD([{"params": [p]}, {"params": [p]}]), ValueError, "in more than one parameter group"),
        (lambda p: optim.SGD([("w", p), parameter([1.0])]), ValueError, "Some param names are missing"),
        (lambda p: optim.SGD([p], lr=-1.0), ValueError, "Invalid learning rate: -1.0"),
        (lambda p: optim.SGD([p], momentum=-1.0), ValueError, "Invalid momentum value: -1.0"),
        (lambda p: optim.SGD([p], weight_decay=-1.0), ValueError, "Invalid weight_decay value: -1.0"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "requires a momentum and zero dampening"),
        (lambda p: optim.Adam([p], betas=(1.0, 0.9)), ValueError, "Invalid beta parameter at index 0: 1.0"),
        (lambda p: optim.Adam([p], eps=-1.0), ValueError, "Invalid epsilon value: -1.0"),
        (lambda p: optim.RMSprop([p], alpha=-1.0), ValueError, "Invalid alpha value: -1.0"),
        (lambda p: optim.LBFGS([{"params": [p]}, {"params": [parameter(1.0)]}]), ValueError, "parameter groups"),
        (lambda p: optim.Adam([p], differentiable=True), NotImplementedError, "differentiable"),
        (lambda p: optim.Adam([p], fused=True, foreach=True), RuntimeError, "cannot be `True` together"),
    ],
)
def test_errors(make_it, error, message):
    with pytest.raises(error, match=message):
        make_it(parameter([1.0, 2.0]))


def test_groups(path):
    p, q, r = (parameter([1.0]) for _ in range(3))
    optimizer = optim.SGD([{"params": p}, {"params": iter([q]), "lr": 0.5}], lr=0.25)
    optimizer.add_param_group({"params": [r], "weight_decay": 1.0})
    assert [g["lr"] for g in optimizer.param_groups] == [0.25, 0.5, 0.25]
    for _ in range(2):
        set_grads([p, q, r], [[1.0]] * 3)
        optimizer.step()
    assert [float(t._data[0]) for t in (p, q, r)] == [0.5, 0.0, (1 * 0.75 - 0.25) * 0.75 - 0.25]


def test_named_parameters():
    optimizer = optim.SGD([("w", parameter([1.0])), ("b", parameter(0.0))])
    assert optimizer.param_groups[0]["param_names"] == ["w", "b"]
    with pytest.raises(ValueError, match="without names to the optimizer"):
        optimizer.add_param_group({"params": [parameter(1.0)]})


@pytest.mark.parametrize("kind", [int, np.float64, np.float32, make])
def test_numbers_of_other_types(kind):
    p = parameter([1.0])
    optimizer = optim.SGD([p], lr=kind(np.array(2.0)) if kind is make else kind(2))
    for _ in range(3):
        set_grads([p], [[1.0]])
        optimizer.step()
    assert p._data.tolist() == [-5.0]


def test_step_with_closure_returns_its_loss():
    p = parameter([3.0])
    optimizer = optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert float(optimizer.step(closure)) == 9.0 and p._data.tolist() == [0.0]


def test_a_saved_value_that_a_step_overwrites_is_noticed():
    p = parameter([3.0])
    loss = (p * p).sum()
    set_grads([p], [[1.0]])
    optim.SGD([p], lr=0.5).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_zero_grad():
    p, q = parameter([1.0]), parameter([2.0])
    optimizer = optim.SGD([p, q])
    set_grads([p, q], [[1.0], None])
    kept = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is kept and kept._data.tolist() == [0.0] and q.grad is None
    optimizer.zero_grad()
    assert p.grad is None


def test_hooks():
    p = parameter([1.0])
    optimizer = optim.SGD([p], lr=1.0)
    seen = []
    with optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before")):
        after = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
        set_grads([p], [[1.0]])
        optimizer.step()
    after.remove()
    optimizer.step()
    assert seen == ["before", "after"]


@pytest.mark.parametrize(("name", "options"), SIMPLE)
@pytest.mark.parametrize("way", ["state_dict", "pickled state_dict", "deepcopy"])
def test_going_on_from_what_was_saved(rng, name, options, way):
    grads = [arrays_of(rng) for _ in range(6)]
    start = arrays_of(rng)
    ends = []
    for interrupted in (False, True):
        params = [parameter(a) for a in start]
        optimizer = getattr(optim, name)(params, lr=0.1, **options)
        for k, g in enumerate(grads):
            if interrupted and k == 3:
                if way == "deepcopy":
                    both = copy.deepcopy((params, optimizer))
                    assert both[1].param_groups[0]["params"][0] is both[0][0]
                    params, optimizer = both
                else:
                    saved = optimizer.state_dict()
                    if "pickled" in way:
                        saved = pickle.loads(pickle.dumps(saved))
                    optimizer = getattr(optim, name)(params, lr=7.0, **options)
                    optimizer.load_state_dict(saved)
            set_grads(params, g)
            optimizer.step()
        ends.append([p._data for p in params])
    assert all(np.array_equal(a, b) for a, b in zip(*ends, strict=True))


def test_loaded_state_takes_the_dtype_of_its_parameter():
    p, q = parameter([1.0]), parameter([1.0], F4)
    one, other = optim.Adam([p]), optim.Adam([q])
    set_grads([p], [[1.0]])
    one.step()
    other.load_state_dict(one.state_dict())
    state = other.state[q]
    assert state["exp_avg"].dtype == F4 and float(state["step"]._data) == 1
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.Adam([{"params": [q]}, {"params": [parameter(1.0)]}]).load_state_dict(one.state_dict())
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optim.Adam([q, parameter(1.0)]).load_state_dict(one.state_dict())


def test_a_schedule_warns_where_it_is_called_too_early():
    optimizer = optim.SGD([parameter([1.0])], lr=1.0)
    schedule = optim.lr_scheduler.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    optimizer = optim.SGD([parameter([1.0])], lr=1.0)
    schedule = optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


def test_a_schedule_goes_on_after_an_epoch():
    optimizer = optim.SGD([parameter([1.0])], lr=1.0)
    with pytest.raises(KeyError, match="initial_lr"):
        optim.lr_scheduler.StepLR(optimizer, 2, last_epoch=3)
    optimizer.param_groups[0]["initial_lr"] = 1.0
    schedule = optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5, last_epoch=2)
    assert schedule.last_epoch == 3 and schedule.get_last_lr() == [1.0]
    optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.5]


def test_a_schedule_fills_a_learning_rate_that_is_a_tensor():
    rate = make(np.array(1.0))
    optimizer = optim.SGD([parameter([1.0])], lr=rate)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] is rate and float(rate._data) == 0.5


def test_an_optimizer_of_the_users_own():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p._data[...] -= group["lr"] * np.sign(p.grad._data)

    p = parameter([1.0, -1.0])
    optimizer = Sign([p], lr=0.5)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(2):
        set_grads([p], [[3.0, -3.0]])
        optimizer.step()
        schedule.step()
    assert p._data.tolist() == [0.25, -0.25]
