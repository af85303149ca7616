"""Hot tapes: a backward that comes again runs as a kernel.  What counts as the same, that both tiers give the same
gradients, what stays with the interpreter, and that compiling is bounded.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tracegrad as torch
from tracegrad import autograd, tensor
from tracegrad.autograd import tapes
from tracegrad.runtime.config import config
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.tensors import compiled_backward
from tracegrad.tracer.ir.refusals import Refusal


@pytest.fixture(autouse=True)
def no_tapes():
    compiled_backward.clear()
    yield
    compiled_backward.clear()


@pytest.fixture
def no_kernels():
    kernels.clear()


def leaf(*data):
    return tensor([float(v) for v in data], requires_grad=True)


def normal(*shape, seed=0, dtype=torch.float64):
    return tensor(np.random.default_rng(seed).normal(size=shape), dtype=dtype, requires_grad=True)


def counts():
    return tapes.interpreted, tapes.compiled, tapes.compiles


# ---- what counts as the same ---------------------------------------------------------------------------------------


def test_the_second_time_a_tape_is_compiled(no_kernels):
    w, x = normal(4), tensor(np.arange(12.0).reshape(3, 4))
    expected = [(1, 0, 0), (1, 1, 1), (1, 2, 1), (1, 3, 1)]
    for n, found in enumerate(expected):
        ((x @ w).tanh() ** 2).mean().backward()
        assert counts() == found, n
    assert repr(tapes) == "3 backwards compiled, 1 interpreted; 1 kernels made"
    compiled_backward.clear()
    assert counts() == (0, 0, 0)


@pytest.mark.parametrize(
    "use",
    [
        lambda x, c: x * c, lambda x, c: 1 - c - x, lambda x, c: x / c + c, lambda x, c: x.clamp(-c, c),
        lambda x, c: torch.where(x > c, x, c),
        lambda x, c: (x * 1).add_(c), lambda x, c: x.sub(c),
        lambda x, c: (x * 1).mul_(c), lambda x, c: (x * 1).fill_(c) + x, lambda x, c: x.masked_fill(x > 0, c),
        lambda x, c: x.lerp(x * 2, c), lambda x, c: torch.addcmul(x, x, x, value=c),
        lambda x, c: x * np.float64(c), lambda x, c: x * tensor(c), lambda x, c: x * int(c * 10),
        lambda x, c: np.multiply(x, c), lambda x, c: c**x,
    ],
)  # fmt: skip
def test_python_numbers_are_data(use):
    x = leaf(0.5, -1.5, 2.0)
    for k in range(1, 8):
        c, x.grad = 0.25 * k, None
        y = use(x, c)
        y.sum().backward()
        (expected,) = autograd.grad(use(x, c).sum(), x)
        np.testing.assert_allclose(x.grad.numpy(), expected.numpy(), rtol=1e-13)
    assert tapes.compiled == 6 and tapes.compiles <= 1 and tapes.interpreted == 1 + 7


def test_exponents_are_part_of_the_program(no_kernels):
    x = leaf(0.5, 1.5)
    for k in range(20):
        x.grad = None
        (x ** (1.5 + k)).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), (1.5 + k) * np.array([0.5, 1.5]) ** (0.5 + k))
    assert tapes.compiles == 0
    for _ in range(5):
        (x**2).sum().backward()
    assert tapes.compiles == 1 and tapes.compiled == 4


def test_learning_rates_change_every_time(no_kernels):
    w = leaf(1.0, 2.0)
    for k in range(20):
        loss = (w * w).sum()
        loss.backward()
        with torch.no_grad():
            w -= 0.3 / (k + 1) * w.grad
        w.grad = None
    assert counts() == (1, 19, 1)


def test_values_of_index_tensors_and_masks_are_data(no_kernels):
    x = leaf(1.0, 2.0, 3.0, 4.0)
    for k in range(5):
        x.grad = None
        mask = torch.arange(4) > k - 1
        (x[tensor([k % 4, 3, k % 4])].sum() + torch.where(mask, x * 10, 0.0).sum()).backward()
        expected = 10.0 * (np.arange(4) > k - 1)
        np.add.at(expected, [k % 4, 3, k % 4], 1)
        assert x.grad.tolist() == expected.tolist()
    assert counts() == (1, 4, 1)


DIFFERENT = [
    lambda x, y: x * y + y,
    lambda x, y: x * y + x,
    lambda x, y: y * x + x,
    lambda x, y: x * x + y,
    lambda x, y: x - y,
    lambda x, y: y - x,
    lambda x, y: x.sum(0) + y[0],
    lambda x, y: x.sum(1) + y[0],
    lambda x, y: x.sum(1, keepdim=True) + y[0],
    lambda x, y: x[0] * y[1],
    lambda x, y: x[1] * y[0],
    lambda x, y: x.t() * y,
    lambda x, y: x.clone() * y,
    lambda x, y: x.view(4) * y.view(4),
    lambda x, y: x @ y,
    lambda x, y: y @ x,
    lambda x, y: x.t() @ y,
    lambda x, y: x @ y.detach(),
    lambda x, y: x.detach() @ y,
    lambda x, y: x * 2 + y,
    lambda x, y: x * tensor(2.0) + y,
    lambda x, y: x * tensor([2.0, 2.0]) + y,
    lambda x, y: x * tensor(2.0, dtype=torch.float32) + y,
    lambda x, y: x.float() * 2 + y,
    lambda x, y: torch.cat([x, y])[1:3],
    lambda x, y: torch.cat([y, x])[1:3],
    lambda x, y: torch.cat([x, y], 1)[:, 1:3],
    lambda x, y: torch.stack([x, y])[:, 1],
    lambda x, y: x.max(0)[0] + y.max(1)[0],
    lambda x, y: x.max(1)[0] + y.max(0)[0],
    lambda x, y: x.pow(2) + y,
    lambda x, y: x.pow(3) + y,
    lambda x, y: x.clamp(0, 1) + y,
    lambda x, y: x.clamp(min=0) + y,
    lambda x, y: x.softmax(0) * y,
    lambda x, y: x.softmax(1) * y,
]


def test_tapes_that_look_alike_are_told_apart():
    x, y = normal(2, 2), normal(2, 2, seed=1)

    def gradients(function, run):
        x.grad = y.grad = None
        z = function(x, y)
        run((z * tensor(1.0 + np.arange(z.numel())).view(z.shape)).sum())
        return [None if t.grad is None else t.grad.numpy() for t in (x, y)]

    def interpreted(total):
        for t, g in zip((x, y), autograd.grad(total, (x, y), allow_unused=True), strict=True):
            t.grad = g

    for _ in range(3):
        for k, function in enumerate(DIFFERENT):
            expected, found = gradients(function, interpreted), gradients(function, torch.Tensor.backward)
            for a, b in zip(expected, found, strict=True):
                assert (a is None) == (b is None), k
                if a is not None:
                    np.testing.assert_allclose(b, a, rtol=1e-13, atol=1e-13, err_msg=str(k))
    assert tapes.compiled >= 2 * len(DIFFERENT)  # ``x * y`` looks like ``y * x``, ...


# ---- both tiers agree ----------------------------------------------------------------------------------------------


def _in_place(x, w, v):
    y = x @ w
    y.relu_()
    y[0] = v[:4]
    y[1:].mul_(3)
    return y.exp_()


def _views(x, w, v):
    y = x * 1
    y.t()[1:].view(2, 5).mul_(v[:5])
    return torch.cat([y.view(-1), y.diagonal(), y[::2, None].squeeze().flatten()])


def _loop(x, w, v):
    h = torch.zeros(4)
    for row in x:
        h = torch.tanh(row @ w + h * 0.5 + v[:4])
    return h


def _attention(x, w, v):
    q, k = x @ w, x @ w.flip(1)
    return (q @ k.t() / 2.0).softmax(-1) @ x


GRAPHS = {
    "linear": lambda x, w, v: x @ w + v[:4],
    "mlp": lambda x, w, v: ((x @ w).relu() @ w.t()).sigmoid().log(),
    "broadcasting": lambda x, w, v: x[:, :, None] * w - v[:5].view(5, 1, 1) / (1 + x[0, 0] ** 2),
    "reductions": lambda x, w, v: x.sum(0) * x.mean(1)[:3] + x.prod(0) + x.std(0) + x.norm(dim=0) + x.var(),
    "extremes": lambda x, w, v: x.max(0)[0] + x.min() + x.amax(0) + torch.maximum(x[0], x[1]) + x.median(),
    "order": lambda x, w, v: x.sort(0)[0] * x.topk(2, 1)[0][:, :1] + x.cumsum(1).cumprod(0),
    "index": lambda x, w, v: x[[0, 2, 0]][:, [1, 1]] + x.gather(1, tensor([[0, 2], [1, 1], [2, 0]])),
    "masks": lambda x, w, v: torch.cat([x[x > 0], torch.where(x > 0, x, x.exp())[0], x.masked_fill(x < 0, 2).view(-1)]),
    "shapes": lambda x, w, v: torch.stack([x.t(), x.t().flip(0), x.permute(1, 0).roll(1, 0)]).reshape(-1, 5)[:, 1:],
    "in place": _in_place,
    "views": _views,
    "loop": _loop,
    "attention": _attention,
    "softmax": lambda x, w, v: x.log_softmax(1) + x.softmax(0) + x.logsumexp(0),
    "unused": lambda x, w, v: x.chunk(3)[0] * 2,
    "casts": lambda x, w, v: x.float() * w[:, 0].float().double() + x.double(),
    "scalars": lambda x, w, v: x[0, 0] * x[1, 1] + w.sum() * v.mean() + tensor(2.0) * x[2, 2],
    "empty": lambda x, w, v: torch.cat([x[:0].sum(0), x[0], x[:, :0].flatten()]),
    "powers": lambda x, w, v: x.abs() ** 1.5 + 2.0**x + x.abs() ** w[:, 0] + x**3 + x.abs().sqrt(),
    "products": lambda x, w, v: torch.einsum("ij,jk->ik", x, w) + torch.outer(v[:5], v[:4]) + x @ w @ w.t() @ w,
    "batches": lambda x, w, v: x.view(5, 1, 3) @ w.expand(5, 3, 4) + torch.bmm(x.view(5, 1, 3), w.repeat(5, 1, 1)),
    "NumPy": lambda x, w, v: np.sin(x) @ np.cos(w) + np.concatenate([x, x]).sum() + np.where(x > 0, x, 0).sum(),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", GRAPHS)
def test_both_tiers_agree(name, dtype):
    leaves = [normal(5, 3, dtype=dtype), normal(3, 4, seed=1, dtype=dtype), normal(7, seed=2, dtype=dtype)]

    def total():
        y = GRAPHS[name](*leaves)
        return (y * tensor(1.0 + np.arange(y.numel()) % 7).view(y.shape)).sum()

    expected = autograd.grad(total(), leaves, allow_unused=True)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-4
    for _ in range(3):
        for t in leaves:
            t.grad = None
        total().backward()
        for t, want in zip(leaves, expected, strict=True):
            assert (t.grad is None) == (want is None)
            if want is not None:
                assert t.grad.dtype == t.dtype and t.grad.shape == t.shape and t.grad.numpy().flags.c_contiguous
                np.testing.assert_allclose(t.grad.numpy(), want.numpy(), rtol=tolerance, atol=tolerance)
    assert (tapes.interpreted, tapes.compiled) == (2, 2)  # autograd.grad; interpreted, compiled, compiled


def test_layouts_of_the_operands():
    base = np.random.default_rng(0).normal(size=(6, 8))
    arrays = [base[:3, :4], base[::2, ::2], base[:4, :3].T, np.asfortranarray(base[:3, :4]), base[3:, 4:].copy()]
    assert not arrays[1].flags.c_contiguous and not arrays[2].flags.c_contiguous
    for a in arrays * 2:
        x, y = torch.from_numpy(a).requires_grad_(), torch.from_numpy(a)
        (x.exp() @ y.t() + (x * y).sum()).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.exp(a) * a.sum(0) + 9 * a, rtol=1e-12)
        z = torch.from_numpy(a.T).requires_grad_()
        (z.t().exp() @ y.t() + (z * y.t()).sum()).sum().backward()
        np.testing.assert_allclose(z.grad.numpy(), (np.exp(a) * a.sum(0) + 9 * a).T, rtol=1e-12)
    assert tapes.interpreted == 2


def test_seeds_of_every_layout():
    x = normal(3, 4)
    for seed in (np.ones((3, 4)), np.arange(24.0).reshape(3, 8)[:, ::2], np.arange(12.0).reshape(4, 3).T,
                 np.broadcast_to(2.0, (3, 4)), np.ones((3, 4), np.float32)):  # fmt: skip
        x.grad = None
        (x * x).backward(tensor(np.array(seed)) if seed.flags.writeable else torch.ones(1, 1).expand(3, 4) * 2)
        np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() * seed)
        x.grad = None
        (x * x).backward(torch.from_numpy(np.array(seed)).t().contiguous().t())
        np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() * seed)
    assert tapes.interpreted == 1


def test_several_roots_and_shared_parts(no_kernels):
    for k in range(4):
        x, w = normal(3), normal(3, seed=1)
        h = x * w
        autograd.backward([h.sum(), h.exp(), (h * h).sum(), h.exp()], [None, torch.ones(3) * k, None, torch.ones(3)])
        hn, xn, wn = h.detach().numpy(), x.detach().numpy(), w.detach().numpy()
        g = 1 + (k + 1) * np.exp(hn) + 2 * hn
        np.testing.assert_allclose(x.grad.numpy(), g * wn, rtol=1e-13)
        np.testing.assert_allclose(w.grad.numpy(), g * xn, rtol=1e-13)
    assert counts() == (1, 3, 1)


def test_accumulation_over_tapes():
    w = leaf(1.0, 2.0)
    for n in range(1, 6):
        (w * w).sum().backward()
        (w * 3).sum().backward()
        assert w.grad.tolist() == [5.0 * n, 7.0 * n]


# ---- zero times infinity -------------------------------------------------------------------------------------------

NAN_FREE = {
    "sqrt": (lambda x: torch.where(x > 0, x.sqrt(), 0.0), [0.0, 0.25]),
    "log": (lambda x: torch.where(x > 0, x.log(), 0.0), [0.0, 4.0]),
    "division": (lambda x: torch.where(x > 0, 1 / x, 0.0), [0.0, -16.0]),
    "chain": (lambda x: torch.where(x > 0, (x * 4).sqrt().log() * 2, 0.0), [0.0, 4.0]),
    "power": (lambda x: torch.where(x > 0, x**0.5, 1.0), [0.0, 1.0]),
    "norm": (lambda x: torch.where(x > 0, x.view(2, 1).norm(dim=1), 0.0), [0.0, 1.0]),
    "select": (lambda x: x.sqrt()[1:] * 1, [0.0, 1.0]),
    "mask": (lambda x: x.sqrt()[x > 0], [0.0, 1.0]),
    "masked_fill": (lambda x: x.sqrt().masked_fill(x == 0, 0.0), [0.0, 1.0]),
    "in place": (lambda x: (x.sqrt() * 1).masked_fill_(x == 0, 0.0), [0.0, 1.0]),
    "maximum": (lambda x: torch.maximum(x.sqrt(), tensor([0.125, 0.0])), [0.0, 1.0]),
    "sum of both": (lambda x: torch.where(x > 0, x.sqrt() + x.log(), x * 2), [2.0, 5.0]),
}


@pytest.mark.parametrize("name", NAN_FREE)
def test_what_where_leaves_out_has_gradient_zero(name):
    function, expected = NAN_FREE[name]
    if name == "sqrt":
        expected = [0.0, 1.0]
    for _ in range(3):
        x = leaf(0.0, 0.25)
        function(x).sum().backward()
        assert x.grad.tolist() == expected
    (g,) = autograd.grad(function(x).sum(), x)
    assert g.tolist() == expected and tapes.compiled == 2


# ---- what stays with the interpreter -------------------------------------------------------------------------------


def refused():
    return [reason.code for reason in tapes.refused]


def test_hooks_and_retained_gradients_are_interpreted_and_right():
    x = leaf(1.0, 2.0)
    for _ in range(4):
        x.grad = None
        h = x * 2
        h.register_hook(lambda g: g * 10)
        (h * h).sum().backward()
        assert x.grad.tolist() == [80.0, 160.0]
    assert refused() == [Refusal.BACKWARD_HOOK] and counts() == (4, 0, 0)
    compiled_backward.clear()
    for _ in range(4):
        x.grad = None
        h = x * 2
        h.retain_grad()
        (h * h).sum().backward()
        assert h.grad.tolist() == [4.0, 8.0] and x.grad.tolist() == [8.0, 16.0]
    assert refused() == [Refusal.BACKWARD_RETAIN] and counts() == (4, 0, 0)
    assert repr(tapes) == (
        "0 backwards compiled, 4 interpreted; 0 kernels made\n"
        "  not compiled: 4x retain_grad() on an intermediate result (backward/retain)"
    )


def test_hooks_that_come_and_go():
    x = leaf(1.0, 2.0)
    expected = [2.0, 4.0]
    for k in range(9):
        x.grad = None
        h = x * x
        handles = [h.register_hook(lambda g: g * 10)] if k % 3 == 1 else []
        node = [h.grad_fn.register_hook(lambda i, o: tuple([g * 3 for g in i]))] if k % 3 == 2 else []
        h.sum().backward()
        assert x.grad.tolist() == [v * (10 if handles else 3 if node else 1) for v in expected]
    assert tapes.compiled == 2


def test_hooks_of_leaves_run_after_the_kernel():
    seen = []
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    for n in range(1, 4):
        (x * x).sum().backward()
        assert seen == [[2.0, 4.0], [4.0 * n, 8.0 * n]]
        seen.clear()
    assert tapes.compiled == 2


def test_a_retained_graph_runs_compiled(no_kernels):
    x = leaf(1.0, 2.0)
    y = (x.exp() * x).sum()
    for n in range(1, 6):
        y.backward(retain_graph=True)
        np.testing.assert_allclose(x.grad.numpy(), n * np.exp([1.0, 2.0]) * [2.0, 3.0], rtol=1e-14)
    assert counts() == (1, 4, 1)
    y.backward()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()


def test_long_tapes_are_walked():
    x = leaf(1.0)
    for _ in range(2):
        y = x
        for _ in range(compiled_backward.MAX_NODES + 1):
            y = y * 1.0
        y.backward()
    assert x.grad.tolist() == [2.0] and refused() == [Refusal.BACKWARD_LONG]


def test_custom_functions_are_interpreted():
    class Double(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = leaf(1.0)
    for _ in range(3):
        (Double.apply(x * 3) * 5).sum().backward()
    assert x.grad.tolist() == [90.0] and tapes.compiled == 0
    assert set(refused()) == {Refusal.BACKWARD_PYTHON}


def test_overwritten_values_are_found_in_compiled_tapes():
    for k in range(4):
        x = leaf(1.0, 2.0)
        h = x * 2
        y = (h * h).sum()
        if k % 2:
            h += 1
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward()
            assert x.grad is None
        else:
            y.backward()
            assert x.grad.tolist() == [8.0, 16.0]
    assert tapes.compiled == 1


# ---- compiling is bounded ------------------------------------------------------------------------------------------


def test_shapes_that_never_come_again_are_never_compiled():
    for n in range(1, 200):
        x = torch.ones(n, requires_grad=True)
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0] * n
    assert counts() == (199, 0, 0)


def test_graphs_that_come_twice_use_up_the_credit(no_kernels):
    allowed = int(tapes.credit)
    for n in range(1, allowed + 12):
        for _ in range(2):
            x = leaf(0.5)
            y = x
            for _ in range(n):
                y = y.sin()
            y.backward()
    assert allowed <= tapes.compiles <= allowed + 3  # a compiled backward gives a part of it back
    assert tapes.refused[Refusal.BACKWARD_SHAPES()] >= 8
    for _ in range(20):  # what is compiled stays so, and earns
        x = leaf(0.5)
        x.sin().backward()
    before = tapes.compiles
    for _ in range(2):
        (leaf(0.5) * leaf(0.5)).backward()
    assert tapes.compiles == before + 1


def test_sizes_share_a_kernel(no_kernels):
    for n in (20, 30, 40, 50, 30, 20):
        for _ in range(2):
            x = torch.ones(n, requires_grad=True)
            (x.exp() * x).sum().backward()
    assert tapes.compiles == 1 and tapes.compiled >= 8


def test_the_table_of_tapes_is_bounded(monkeypatch):
    monkeypatch.setattr(config, "max_tapes", 8)
    x = leaf(1.0, 2.0)
    for k in range(30):
        (x ** (2 + k)).sum().backward()
    assert len(compiled_backward._plans) == 8


def test_a_changing_structure_does_not_thrash():
    rng = np.random.default_rng(0)
    for _ in range(60):
        x = leaf(0.5, 0.25)
        y = x
        for step in rng.integers(0, 3, size=6):
            y = (y.sin(), y * 2, y + x)[step]
        y.sum().backward()
    assert tapes.compiles <= 40


def test_threads_share_tapes():
    def work(found, k):
        for n in range(30):
            x = leaf(k, n)
            (x * x.exp()).sum().backward()
            v = np.array([k, n], float)
            found.append(np.allclose(x.grad.numpy(), np.exp(v) * (v + 1)))

    results: list[list[bool]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=work, args=(found, k)) for k, found in enumerate(results)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [[True] * 30] * 4 and tapes.compiles <= 4


def test_ways_of_asking_that_are_not_compiled():
    x = leaf(1.0, 2.0)
    for _ in range(3):
        x.grad = None
        y = (x * x).sum()
        autograd.grad(y, x, retain_graph=True)
        y.backward(inputs=[x], retain_graph=True)
        with autograd.detect_anomaly(check_nan=False):
            y.backward()
        assert x.grad.tolist() == [4.0, 8.0]
        y = (x * x).sum()
        x.grad = None
        y.backward(create_graph=True)
        assert x.grad.tolist() == [2.0, 4.0] and x.grad.requires_grad
    x.grad = None
    ways = ["anomaly detection", "autograd.grad()", "create_graph=True", "inputs="]
    assert tapes.refused == {Refusal.BACKWARD_ASKED(what=way): 3 for way in ways} and counts() == (12, 0, 0)


def test_the_counters_are_public():
    assert torch.autograd.tapes is tapes
