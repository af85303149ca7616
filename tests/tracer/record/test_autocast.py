"""Mixed precision: compiled NumPy code and tensors inside ``autocast``, and ``GradScaler``."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tracegrad
from tracegrad import amp, autocast, compile_grad, nn, optim
from tracegrad.tracer.ir.aval import BFLOAT16, FLOAT16, finfo
from tracegrad.tracer.ir.settings import AUTOCAST

F = nn.functional
F32 = np.dtype("float32")
DTYPES = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
rng = np.random.default_rng(9)
X, Y = rng.normal(size=(40, 7)).astype(F32), rng.normal(size=40).astype(F32)
PARAMETERS = [(rng.normal(size=s) * 0.4).astype(F32) for s in ((7, 16), (16,), (16, 1))]


def mlp(p, X, y):
    hidden = np.tanh(X @ p[0] + p[1])
    return np.mean(((hidden @ p[2])[:, 0] - y) ** 2)


def epsilon(dtype):
    return float(finfo(np.dtype(BFLOAT16 if dtype == "bfloat16" else FLOAT16)).eps)


# ---- compiled NumPy code -------------------------------------------------------------------------------------------


@DTYPES
def test_an_mlp_is_near_the_one_in_float32(dtype):
    f = compile_grad(mlp)
    value, gradients = f.value_and_grad(PARAMETERS, X, Y)
    with autocast(dtype):
        for _ in range(4):  # recorded, verified, launched, from a slot
            mixed, slopes = f.value_and_grad(PARAMETERS, X, Y)
            assert mixed.dtype == F32 and {g.dtype for g in slopes} == {F32}
            assert mixed != value and abs(mixed - value) < 4 * epsilon(dtype) * abs(value)
            for a, b in zip(slopes, gradients, strict=True):
                assert np.max(abs(a - b)) < 4 * epsilon(dtype) * max(1.0, float(np.max(abs(b))))


def test_the_setting_is_part_of_the_call_key():
    f = compile_grad(mlp)
    plain = [f(PARAMETERS, X, Y) for _ in range(4)][-1]
    answers = {}
    for _ in range(3):
        for dtype in ("float16", "bfloat16"):
            with autocast(dtype):
                answers.setdefault(dtype, []).append(f(PARAMETERS, X, Y))
                with autocast(enabled=False):
                    assert f(PARAMETERS, X, Y) == plain
        assert f(PARAMETERS, X, Y) == plain
    assert [len(set(a)) for a in answers.values()] == [1, 1]
    assert len({plain, answers["float16"][0], answers["bfloat16"][0]}) == 3
    assert f.stats.compiles <= 3


def test_a_slot_made_before_the_setting_was_ever_used(tmp_path):
    program = """
import numpy as np, tracegrad
f = tracegrad.compile_grad(lambda w, x: np.sum(np.tanh(x @ w)))
w, x = (np.linspace(-1, 1, 12, dtype=np.float32).reshape(s) for s in ((4, 3), (3, 4)))
plain = [f(w, x) for _ in range(5)][-1]
with tracegrad.autocast("bfloat16"):
    mixed = f(w, x)
assert mixed != plain and f(w, x) == plain, (mixed, plain)
"""
    import subprocess
    import sys

    script = tmp_path / "script.py"
    script.write_text(program)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_inside_the_function_and_as_a_decorator():
    def inner(p, X, y):
        with autocast("float16"):
            hidden = np.tanh(X @ p[0] + p[1]) @ p[2]
        return np.mean((hidden[:, 0] - y) ** 2)

    with autocast("float16"):
        expected = compile_grad(mlp)(PARAMETERS, X, Y)
    for f in (compile_grad(inner), compile_grad(autocast("float16")(mlp)), autocast("float16")(compile_grad(mlp))):
        assert [f(PARAMETERS, X, Y) for _ in range(3)] == [expected] * 3
    assert AUTOCAST.dtype is None


def test_what_runs_in_which_dtype():
    dtypes = {}

    def f(w, x):
        product = x @ w
        dtypes.update(
            matmul=product.dtype, vector=(x @ w[:, 0]).dtype, einsum=np.einsum("ij,jk->ik", x, w).dtype,
            dot=np.dot(x, w).dtype, tensordot=np.tensordot(x, w, 1).dtype, tanh=np.tanh(product).dtype,
            relu=np.maximum(product, 0).dtype, bias=(product + w[0, 0]).dtype, exp=np.exp(product).dtype,
            log=np.log1p(product * product).dtype, power=(product**3).dtype, total=np.sum(product).dtype,
            mean=product.mean().dtype, deviation=product.std(axis=0).dtype, running=np.cumsum(product).dtype,
            norm=np.linalg.norm(product).dtype, doubled=(x.astype(float) @ w).dtype,
        )  # fmt: skip
        return np.sum(product)

    with autocast("float16"):
        compile_grad(f)(np.ones((3, 2), F32), np.ones((4, 3), F32))
    half = {"matmul", "vector", "einsum", "dot", "tensordot", "tanh", "relu"}
    assert {name for name, d in dtypes.items() if d == FLOAT16} == half
    assert dtypes.pop("doubled") == np.float64
    assert {d for name, d in dtypes.items() if name not in half} == {F32}


def test_a_setting_that_changes_within_a_loop():
    def f(w, x):
        total = 0.0
        for t in range(60):
            with autocast("bfloat16", enabled=t % 7 == 0):
                total = total + np.sum(np.tanh(x @ w * (1.0 + t)))
        return total

    def plain(w, x):
        total = 0.0
        for t in range(60):
            product = x @ w
            if t % 7 == 0:
                product = (x.astype(BFLOAT16).astype(F32)) @ (w.astype(BFLOAT16).astype(F32))
            total = total + np.sum(np.tanh(product * (1.0 + t)), dtype=F32)
        return total

    w, x = rng.normal(size=(5, 3)).astype(F32) * F32.type(0.01), rng.normal(size=(4, 5)).astype(F32)
    np.testing.assert_allclose(compile_grad(f)(w, x), plain(w, x), rtol=1e-5)


def test_other_threads_have_their_own_setting():
    seen = []
    with autocast("float16"):
        thread = threading.Thread(target=lambda: seen.append(AUTOCAST.dtype))
        thread.start()
        thread.join()
        assert AUTOCAST.dtype == FLOAT16
    assert seen == [None]


@pytest.mark.parametrize("dtype", ["float32", "int64", "float17"])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(TypeError, match=r"float16 or bfloat16|dtype must be"):
        autocast(dtype)


# ---- tensors -------------------------------------------------------------------------------------------------------


def network():
    tracegrad.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 3)).float()


TARGETS = tracegrad.tensor(rng.integers(0, 3, 40))


@DTYPES
def test_tensors(dtype):
    net, x = network(), tracegrad.tensor(X)
    exact = F.cross_entropy(net(x), TARGETS)
    exact.backward()
    gradients = [p.grad.numpy().copy() for p in net.parameters()]
    for _ in range(4):  # by NumPy, then by a kernel
        net.zero_grad()
        with autocast(dtype):
            out = net(x)
            loss = F.cross_entropy(out, TARGETS)
        loss.backward()
        assert out.dtype == (FLOAT16 if dtype == "float16" else BFLOAT16) and loss.dtype == F32
        assert abs(loss.item() - exact.item()) < 4 * epsilon(dtype)
        for p, expected in zip(net.parameters(), gradients, strict=True):
            assert p.grad.dtype == p.dtype == F32
            np.testing.assert_allclose(p.grad.numpy(), expected, atol=8 * epsilon(dtype))


def test_what_tensors_run_in_which_dtype():
    a, b = tracegrad.ones(4, 4, dtype=F32), tracegrad.ones(4, 4, dtype=F32)
    with autocast("float16"):
        h = a @ b
        assert {t.dtype for t in (h, F.linear(a, b), h.relu(), h.tanh(), tracegrad.einsum("ij,jk->ik", a, b))} == {
            FLOAT16
        }
        wide = (h.exp(), h.log(), h.pow(2), h.sum(), h.mean(), h.softmax(0), h.norm(), h + b, F.mse_loss(h, b))
        assert {t.dtype for t in wide} == {F32}
        assert (a.double() @ b.double()).dtype == np.float64
        assert F.conv2d(tracegrad.ones(1, 1, 4, 4, dtype=F32), tracegrad.ones(1, 1, 2, 2, dtype=F32)).dtype == FLOAT16
    assert (a @ b).dtype == F32
    with pytest.raises(RuntimeError, match="same dtype"):
        h @ b


def test_derivatives_that_were_made_inside_serve_outside():
    x = tracegrad.ones(3, dtype="float16", requires_grad=True)
    with autocast("float16"):
        (x * x).tanh().sum().backward()
    inside, x.grad = x.grad, None
    (x * x).tanh().sum().backward()
    assert x.grad.dtype == inside.dtype == FLOAT16 and tracegrad.equal(x.grad, inside)


def test_a_compiled_step():
    def trained(compiled):
        net = network()
        optimizer = optim.SGD(net.parameters(), lr=0.1)

        def step(x, t):
            optimizer.zero_grad()
            with autocast("bfloat16"):
                loss = F.cross_entropy(net(x), t)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = tracegrad.compile(step) if compiled else step
        return [run(tracegrad.tensor(X), TARGETS).item() for _ in range(6)]

    np.testing.assert_allclose(trained(True), trained(False), rtol=2e-3)


def test_a_compiled_step_under_changing_settings():
    net, x = network(), tracegrad.tensor(X)
    step = tracegrad.compile(lambda x: net(x).sum())
    plain = [step(x).item() for _ in range(4)][-1]
    with autocast("bfloat16"):
        mixed = [step(x).item() for _ in range(4)]
    assert len({round(m, 4) for m in mixed}) <= 2 and abs(mixed[-1] - plain) > 1e-6
    assert step(x).item() == plain


# ---- GradScaler ----------------------------------------------------------------------------------------------------


def test_the_scaler_keeps_small_gradients():
    w = tracegrad.tensor([1.0], dtype="float32", requires_grad=True)
    optimizer, scaler = optim.SGD([w], lr=1.0), amp.GradScaler(init_scale=2.0**14)

    def loss():
        return (w.half() * 1e-8).float().sum()

    loss().backward()
    assert w.grad.item() == 0.0  # too small for float16
    optimizer.zero_grad()
    scaler.scale(loss()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.grad.item() == pytest.approx(1e-8, rel=1e-3)


def test_the_scale_falls_and_grows():
    w = tracegrad.tensor([1.0], dtype="float32", requires_grad=True)
    optimizer = optim.SGD([w], lr=0.5)
    scaler = amp.GradScaler(init_scale=4.0, growth_interval=2)
    for gradient, scale, moved in ((np.inf, 2.0, 0.0), (1.0, 2.0, 0.5), (1.0, 4.0, 0.5), (np.nan, 2.0, 0.0)):
        before = w.item()
        w.grad = tracegrad.tensor([gradient * scaler.get_scale()], dtype="float32")
        scaler.step(optimizer)
        scaler.update()
        assert (scaler.get_scale(), before - w.item()) == (scale, moved)
    other = amp.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and other.get_scale() == 2.0


def test_the_scaler_is_held_to_its_order():
    w = tracegrad.tensor([1.0], dtype="float32", requires_grad=True)
    optimizer, scaler = optim.SGD([w], lr=0.5), amp.GradScaler()
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    assert w.grad.item() == 1.0
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called since"):
        scaler.step(optimizer)
    h = tracegrad.tensor([1.0], dtype="float16", requires_grad=True)
    h.sum().backward()
    with pytest.raises(ValueError, match="FP16 gradients"):
        scaler.unscale_(optim.SGD([h], lr=0.1))
    off = amp.GradScaler(enabled=False)
    assert off.scale(w) is w and off.get_scale() == 1.0 and off.state_dict() == {}
    for wrong in ({"growth_factor": 1.0}, {"backoff_factor": 1.0}):
        with pytest.raises(ValueError, match="factor must be"):
            amp.GradScaler(**wrong)
