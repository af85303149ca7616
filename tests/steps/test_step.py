"""``tracegrad.compile``: whole training steps as one replayable unit, and what sends them back to Python."""

import gc
import subprocess
import sys

import numpy as np
import pytest

import tracegrad as torch
from tracegrad import nn
from tracegrad.runtime.launch.kernel_cache import kernels

RNG = np.random.default_rng(3)
X = RNG.normal(size=(16, 4))
Y = RNG.normal(size=(16, 1))


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def training(make_optimizer, compiled, steps=8, clip=None):
    """(losses, parameters, gradients) of a short training, eager or compiled."""
    model = network()
    optimizer = make_optimizer(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss

    run = torch.compile(step) if compiled else step
    x, y = torch.tensor(X), torch.tensor(Y)
    losses = [run(x, y).item() for _ in range(steps)]
    gradients = [p.grad.numpy().copy() for p in model.parameters()]
    return losses, [p.detach().numpy().copy() for p in model.parameters()], gradients, run


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
}


@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_compiled_training_is_eager_training(name, clip):
    eager = training(OPTIMIZERS[name], False, clip=clip)
    compiled = training(OPTIMIZERS[name], True, clip=clip)
    for ours, theirs in zip(compiled[:3], eager[:3], strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    stats = compiled[3].stats
    assert stats.live == "" and stats.traces <= 2 and stats.compiles <= 1


def test_parameters_are_updated_in_place():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    memory = [p.detach().numpy() for p in model.parameters()]

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.tensor(X)
    for _ in range(5):
        before = [m.copy() for m in memory]
        versions = [p._version for p in model.parameters()]
        step(x)
        assert all((b != m).any() for b, m in zip(before, memory, strict=True))
        assert all(p._version > v for p, v in zip(model.parameters(), versions, strict=True))
    assert step.stats.live == ""


def test_versions_count_every_write():
    def versions(compiled):
        buffer, other = torch.ones(3), torch.ones(3)
        view = buffer[1:]

        def step(x):
            buffer.mul_(x).add_(1.0)
            view.sub_(x[1:])
            other.add_(buffer)

        step = torch.compile(step) if compiled else step
        found = []
        for _ in range(5):
            step(torch.ones(3))
            found.append((buffer._version, view._version, other._version))
        return found

    assert versions(True) == versions(False) == [(3 * k, 3 * k, k) for k in range(1, 6)]


def test_a_hundred_learning_rates_are_one_compile():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    x = torch.tensor(X)
    for _ in range(4):
        step(x)
    compiles, traces = kernels.compiles, step.stats.traces
    weight = model[0].weight
    for k in range(100):
        optimizer.param_groups[0]["lr"] = 1e-3 * (k + 1)
        before = weight.detach().numpy().copy()
        step(x)
        np.testing.assert_allclose(
            before - weight.detach().numpy(), 1e-3 * (k + 1) * weight.grad.numpy(), rtol=1e-9, atol=1e-15
        )
    assert kernels.compiles == compiles and step.stats.traces == traces


def test_schedulers_outside_the_step():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1)
    step = torch.compile(lambda x: _plain_step(model, optimizer, x))
    x = torch.tensor(X)
    for k in range(8):
        before = model[0].bias.detach().numpy().copy()
        step(x)
        rate = 0.5 * 0.1 ** (k // 2)
        np.testing.assert_allclose(
            before - model[0].bias.detach().numpy(), rate * model[0].bias.grad.numpy(), rtol=1e-9, atol=1e-15
        )
        scheduler.step()
    assert step.stats.live == ""


def _plain_step(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss


def test_new_batches_and_new_sizes():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    twin = network()
    other = torch.optim.SGD(twin.parameters(), lr=0.1)
    step = torch.compile(lambda x: _plain_step(model, optimizer, x))
    data = torch.tensor(RNG.normal(size=(64, 4)))
    for k in range(12):
        size = 8 if k % 3 else 16
        batch = data[k : k + size]  # a view, as from a loader
        np.testing.assert_allclose(step(batch).item(), _plain_step(twin, other, batch).item(), rtol=1e-11)
    assert step.stats.live == ""


def test_gradients_accumulate_over_steps():
    model, twin = network(), network()
    step = torch.compile(lambda x: model(x).sum().backward())
    x = torch.tensor(X)
    for _ in range(6):
        step(x)
        twin(x).sum().backward()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-11)
    model.zero_grad()
    step(x)
    np.testing.assert_allclose(model[0].bias.grad.numpy() * 6, twin[0].bias.grad.numpy(), rtol=1e-11)


def test_train_and_eval_are_two_states():
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    forward = torch.compile(lambda x: model(x).sum())
    x = torch.tensor(X)
    with torch.no_grad():
        model.eval()
        quiet = [forward(x).item() for _ in range(5)]
        np.testing.assert_allclose(quiet, quiet[0], rtol=1e-14)
        model.train()
        noisy = [forward(x).item() for _ in range(6)]
        assert len(set(noisy)) == 6
        model.eval()
        assert forward(x).item() == pytest.approx(quiet[0])


def test_dropout_draws_anew_and_is_reproducible():
    def run(compiled):
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = lambda x: _plain_step(model, optimizer, x)  # noqa: E731
        step = torch.compile(step) if compiled else step
        x = torch.tensor(X)
        return [step(x).item() for _ in range(8)], step

    eager, _ = run(False)
    compiled, step = run(True)
    np.testing.assert_allclose(compiled, eager, rtol=1e-11)
    assert step.stats.live == "" and len(set(compiled)) == 8


def test_a_changed_flag_of_a_module_is_seen():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 1)
            self.scale = 1.0
            self.sizes = [1.0]

        def forward(self, x):
            return self.lin(x) * self.scale * self.sizes[0]

    model = Scaled()
    f = torch.compile(lambda x: model(x).sum())
    x = torch.tensor(X)
    with torch.no_grad():
        base, *_ = [f(x).item() for _ in range(5)]
        model.scale = 2.0
        assert f(x).item() == pytest.approx(2 * base)
        model.sizes[0] = 3.0
        assert f(x).item() == pytest.approx(6 * base)
        model.lin.weight.mul_(0.0)
        model.lin.bias.fill_(1.0)
        assert f(x).item() == pytest.approx(6 * 16)
        model.lin = nn.Linear(4, 1)
        assert f(x).item() == pytest.approx(model(x).sum().item())
        model.lin.weight.data = torch.zeros(1, 4)
        assert f(x).item() == pytest.approx(model(x).sum().item())


def test_frozen_parameters_and_new_hooks_are_seen():
    model = network()
    step = torch.compile(lambda x: (model.zero_grad(), model(x).sum().backward())[0])
    x = torch.tensor(X)
    for _ in range(4):
        step(x)
    model[0].weight.requires_grad_(False)
    step(x)
    assert model[0].weight.grad is None and model[0].bias.grad is not None
    seen = []
    model[0].bias.register_hook(lambda g: seen.append(g.shape))
    step(x)
    step(x)
    step(x)
    assert len(seen) == 3


def test_branches_on_values_are_paths():
    w = torch.ones(3, requires_grad=True)

    @torch.compile
    def step(x):
        w.grad = None
        loss = (w * x).sum()
        if loss > 0:
            loss = loss * 2.0
        loss.backward()
        return loss

    plus, minus = torch.ones(3), -torch.ones(3)
    for x, value, slope in [(plus, 6.0, 2.0), (minus, -3.0, -1.0)] * 6:
        assert step(x).item() == value
        assert w.grad.tolist() == [slope] * 3
    assert step.stats.live == "" and step.stats.traces <= 4


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("text", "a text that is made of values"),
        ("list", "`closure history`"),
        ("print", "(step/sees)"),
        ("counter", "`closure seen`, which it reads and changes"),
    ],
)  # fmt: skip
def test_what_cannot_be_replayed_runs_eagerly_and_says_why(what, reason, capsys):
    w = torch.ones(3, requires_grad=True)
    history, seen = [], set()

    @torch.compile
    def step(x):
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        with torch.no_grad():
            w.sub_(0.1 * w.grad)
        if what == "text":
            return f"{loss.item():.6f}".strip()
        if what == "list":
            history.append(loss)
            del history[:-100]
        if what == "print":
            print("loss", len(w.detach().unique()))
        if what == "counter":
            seen.add(len(seen))
        return loss

    x = torch.tensor([1.0, 2.0, 3.0])
    values = [float(step(x)) for _ in range(12)]
    np.testing.assert_allclose(values, 6.0 - 1.4 * np.arange(12), atol=1e-12)
    assert reason in step.stats.live
    if what == "list":
        assert [h.item() for h in history] == values
    if what == "counter":
        assert len(seen) == 12
    if what == "print":
        assert capsys.readouterr().out.count("loss") >= 12


def test_an_error_in_the_step_leaves_what_was_done():
    w = torch.ones(2, requires_grad=True)
    flag = {"fail": False}

    @torch.compile
    def step(x):
        with torch.no_grad():
            w.add_(x)
        if flag["fail"]:
            raise ValueError("stop")
        return w.sum()

    x = torch.ones(2)
    for _ in range(4):
        step(x)
    flag["fail"] = True
    for k in range(3):
        with pytest.raises(ValueError, match="stop"):
            step(x)
        assert w.tolist() == [6.0 + k] * 2
    flag["fail"] = False
    assert step(x).item() == 18.0
    assert torch.is_grad_enabled() and torch.tensor([1.0]).add(1.0).tolist() == [2.0]


def test_views_and_detached_tensors_share_memory_in_a_step():
    base = torch.zeros(4)
    part, alias = base[1:3], base.detach()

    @torch.compile
    def step(x):
        part.add_(x)
        alias.mul_(2.0)
        return base.sum()

    values = [step(torch.tensor(1.0)).item() for _ in range(5)]
    assert values == [4.0, 12.0, 28.0, 60.0, 124.0]
    assert base.tolist() == [0.0, 62.0, 62.0, 0.0]
    assert step.stats.live == ""


@pytest.mark.parametrize("result", [
    lambda x: x.t().clone(), lambda x: x.t().sin(), lambda x: x.t() + x.t(), lambda x: x.t().contiguous(),
    lambda x: torch.autograd.grad(torch.exp(x.t() * x.t()).sum(), x)[0],
])  # fmt: skip
def test_reshape_is_no_view_where_eager_code_copies(result):
    """It is what it is in eager code, or refused where the order in memory is not known."""

    def plain(x):
        y = result(x)
        y.detach().reshape(-1).zero_()
        return y.sum()

    x = torch.tensor(X, requires_grad=True)
    step, expected = torch.compile(plain), plain(x).item()
    for _ in range(3):
        try:
            assert step(x).item() == pytest.approx(expected, rel=1e-12)
        except torch.MutationError:
            assert expected  # of the eager copy: a view would have been set to zeros


def test_under_no_grad_and_with_numpy_arguments():
    model = network()
    f = torch.compile(lambda x: model(torch.as_tensor(x)).sum())
    with torch.no_grad():
        values = [f(X + k).item() for k in range(5)]
        expected = [model(torch.tensor(X + k)).sum().item() for k in range(5)]
    np.testing.assert_allclose(values, expected, rtol=1e-11)


@pytest.mark.slow
def test_steps_do_not_leak():
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    step = torch.compile(lambda x: _plain_step(model, optimizer, x))
    x = torch.tensor(X)
    for _ in range(10):
        step(x)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(500):
        step(x)
    gc.collect()
    assert len(gc.get_objects()) - before < 50


@pytest.mark.slow
def test_no_warnings_of_numpy_reach_the_user():
    script = "import tracegrad as torch; print(torch.log(torch.tensor([0.0, -1.0])) / torch.zeros(2))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "tensor([-inf, nan])\n" and found.stderr == ""


def test_flags_of_tensors_that_only_python_looks_at():
    w, frozen = torch.ones(2, requires_grad=True), torch.ones(2)
    f = torch.compile(lambda: w.sum() * (2.0 if frozen.requires_grad else 1.0) * frozen.shape[0])
    assert [f().item() for _ in range(5)] == [4.0] * 5
    frozen.requires_grad_()
    assert f().item() == 8.0
    frozen.requires_grad_(False)
    frozen.data = torch.ones(3)
    assert f().item() == 6.0
    assert f.stats.live == ""


def test_running_statistics_of_batch_norm():
    def run(compiled):
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            model.train()
            return _plain_step(model, optimizer, x)

        run_step = torch.compile(step) if compiled else step
        for k in range(6):
            run_step(torch.tensor(X + k))
        return [v.numpy().copy() for v in model.state_dict().values()], run_step

    eager, _ = run(False)
    compiled, step = run(True)
    for a, b in zip(compiled, eager, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)
    assert step.stats.live == ""


def test_a_method_and_settings_as_arguments():
    class Trainer:
        def __init__(self):
            self.model = network()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.scale = 1.0
            self.step = torch.compile(self._step)

        def _step(self, x, twice, weight):
            self.optimizer.zero_grad()
            loss = self.model(x).pow(2).mean() * self.scale * weight
            if twice:
                loss = loss * 2.0
            loss.backward()
            self.optimizer.step()
            return {"loss": loss, "twice": twice}

    ours, plain = Trainer(), Trainer()
    x = torch.tensor(X)
    for k in range(16):
        plain.scale = ours.scale = 1.0 + k // 8
        arguments = (x, k % 2 == 0, 0.5 + 0.01 * k)
        a, b = ours.step(*arguments), plain._step(*arguments)
        np.testing.assert_allclose(a["loss"].item(), b["loss"].item(), rtol=1e-10)
        assert a["twice"] is b["twice"]
    assert ours.step.stats.live == ""


def test_explain_shows_program_effects_and_reasons():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch.compile(lambda x: _plain_step(model, optimizer, x))
    assert "nothing has been recorded yet" in step.explain(level="all")
    for _ in range(3):
        step(torch.tensor(X))
    text = step.explain(level="all")
    assert "runs without Python" in text and "in place" in text and "assigns .grad of 4 tensors" in text
    assert "['lr']`" in text and "test_step.py" in text

    eager = torch.compile(lambda x: f"{x.sum().item():.3f}".strip())
    for _ in range(3):
        eager(torch.tensor(X))
    assert "Python runs in every call: the log of the run does not hold a text" in eager.explain(level="all")


@pytest.mark.parametrize(
    ("make", "key", "values"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.05), "momentum", [0.0, 0.9, 0.5, 0.0, 0.9]),
        (lambda p: torch.optim.SGD(p, lr=0.05), "weight_decay", [0.0, 0.1, 0.0, 0.2]),
        (lambda p: torch.optim.Adam(p, lr=0.05), "betas", [(0.9, 0.999), (0.0, 0.9), (0.5, 0.99)]),
        (lambda p: torch.optim.Adam(p, lr=0.05), "eps", [1e-8, 1e-2]),
        (lambda p: torch.optim.RMSprop(p, lr=0.05, momentum=0.5), "momentum", [0.9, 0.0, 0.3]),
    ],
)
def test_settings_of_an_optimizer_may_change_at_any_time(make, key, values):
    def run(compiled):
        model = network()
        optimizer = make(model.parameters())
        step = lambda x: _plain_step(model, optimizer, x)  # noqa: E731
        step = torch.compile(step) if compiled else step
        for value in values:
            optimizer.param_groups[0][key] = value
            for _ in range(4):
                step(torch.tensor(X))
        return [p.detach().numpy().copy() for p in model.parameters()], step

    eager, _ = run(False)
    compiled, step = run(True)
    for a, b in zip(compiled, eager, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert step.stats.live == ""


def test_a_missed_guard_draws_no_random_numbers():
    def run(compiled):
        torch.manual_seed(1)

        def f(x):
            noise = torch.rand(3)
            return (noise * x).sum() if x.sum() > 0 else (noise - x).sum()

        call = torch.compile(f) if compiled else f
        return [call(torch.full((3,), 1.0 if k % 3 else -1.0)).item() for k in range(20)]

    np.testing.assert_allclose(run(True), run(False), rtol=1e-12)


# ---- results that stay connected -----------------------------------------------------------------------------------


def test_a_compiled_model_with_the_rest_of_the_step_outside():
    def run(compiled):
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3))
        torch.manual_seed(0)
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn(*p.shape))
        forward = torch.compile(model) if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        labels = torch.tensor([0, 1, 2, 0] * 4)
        losses = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(forward(torch.tensor(X)), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, forward

    eager, _ = run(False)
    compiled, forward = run(True)
    np.testing.assert_allclose(compiled, eager, rtol=1e-10)
    assert forward.stats.live == "" and forward.stats.traces <= 2


def test_gradients_of_several_results_with_respect_to_arguments_and_captured_tensors():
    w = torch.tensor(RNG.normal(size=(3, 2)), requires_grad=True)
    f = torch.compile(lambda x, h: ((x @ w).tanh(), (h * w).sum(0), x.exp()))

    def check(x):
        for tensor in (x, w):
            tensor.grad = None
        a, b, c = f(x, w * 2.0)  # h depends on w, too: the link counts what lies in the step only
        (a.sum() + (b * b).sum() + c[0].sum()).backward()
        found = x.grad.numpy().copy(), w.grad.numpy().copy()
        for tensor in (x, w):
            tensor.grad = None
        a, b, c = (x @ w).tanh(), (w * 2.0 * w).sum(0), x.exp()
        (a.sum() + (b * b).sum() + c[0].sum()).backward()
        np.testing.assert_allclose(found[0], x.grad.numpy(), rtol=1e-11)
        np.testing.assert_allclose(found[1], w.grad.numpy(), rtol=1e-11)

    for _ in range(5):
        check(torch.tensor(RNG.normal(size=(4, 3)), requires_grad=True))
    assert f.stats.live == ""


def test_operands_overwritten_before_the_backward_are_noticed():
    w = torch.ones(3, requires_grad=True)
    f = torch.compile(lambda x: (x * w).exp())
    for _ in range(4):
        y = f(torch.ones(3))
    with torch.no_grad():
        w.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = f(torch.ones(3))
    y.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.exp(2.0) * np.ones(3))
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_a_result_whose_backward_is_an_error_is_one_when_it_is_asked_for():
    w, buffer = torch.ones(3, requires_grad=True), torch.ones(3)

    @torch.compile
    def step(x):
        loss = (w * buffer * x).sum()
        buffer.mul_(2.0)
        return loss

    for k in range(4):
        loss = step(torch.ones(3))
        assert loss.item() == 3.0 * 2**k
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    assert "whose backward is an error" in step.stats.live


def test_derivatives_of_derivatives_through_a_compiled_forward():
    w = torch.tensor([0.3, 0.7], requires_grad=True)
    f = torch.compile(lambda x: (x * w) ** 3)
    for _ in range(5):
        (g,) = torch.autograd.grad(f(torch.ones(2)).sum(), w, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), w)
        np.testing.assert_allclose(h.numpy(), 6.0 * w.detach().numpy(), rtol=1e-12)


def test_a_compiled_module_is_still_a_module_to_its_user():
    model = network()
    compiled = torch.compile(model)
    assert list(compiled.parameters()) == list(model.parameters())
    compiled.eval()
    assert not model.training and compiled.state_dict().keys() == model.state_dict().keys()


def test_a_smaller_last_batch_draws_the_numbers_that_eager_code_would():
    f = torch.compile(lambda x: x + torch.rand(1))
    for _ in range(3):
        f(torch.ones(4))
    torch.manual_seed(0)
    expected = torch.rand(1).item()
    torch.manual_seed(0)
    assert f(torch.zeros(8))[0].item() == expected


def test_flags_as_arguments_and_updates_on_every_second_call():
    def run(compiled):
        model = network()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def step(x, update):
            loss = model(x).pow(2).mean()
            loss.backward()
            if update:
                optimizer.step()
                optimizer.zero_grad()
            return loss

        step = torch.compile(step) if compiled else step
        return [step(torch.tensor(X), k % 2 == 1).item() for k in range(16)], step

    eager, _ = run(False)
    compiled, step = run(True)
    np.testing.assert_allclose(compiled, eager, rtol=1e-9)
    assert step.stats.live == ""


def test_a_step_that_goes_on_into_a_graph_from_outside():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    f = torch.compile(lambda h: (h * h).sum().backward())
    for k in range(5):
        f(w * 3.0)
        np.testing.assert_allclose(w.grad.numpy(), 18.0 * (k + 1) * w.detach().numpy())
    assert "before the step" in f.stats.live


@pytest.mark.filterwarnings("ignore:Detected call")
def test_a_scheduler_that_the_step_looks_into_is_named():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    epochs = []

    @torch.compile
    def step():
        scheduler.step()
        epochs.append(scheduler.last_epoch)

    for _ in range(4):
        step()
    assert optimizer.param_groups[0]["lr"] == 0.5**5 and epochs == [1, 2, 3, 4]


def test_numpy_functions_of_tensors_and_arrays_together():
    w = torch.tensor([1.0, -2.0], requires_grad=True)
    f = torch.compile(lambda x: (np.where(x.numpy() > 0, w, 0.0) + np.maximum(x.numpy(), w)).sum())
    for _ in range(5):
        x = torch.tensor([0.5, 3.0])
        w.grad = None
        f(x).backward()
        assert w.grad.tolist() == [2.0, 1.0]
    assert f.stats.live == ""


def test_explicit_loops_over_tensors_go_step_by_step():
    w = torch.tensor(0.5, requires_grad=True)
    f = torch.compile(lambda xs: torch.scan(lambda c, x: (c * w + x, c * x), torch.tensor(0.0), xs))
    xs = torch.tensor([1.0, 2.0, 3.0])
    for _ in range(5):
        w.grad = None
        carry, rows = f(xs)
        (carry + rows.sum()).backward()
        assert carry.item() == 4.25 and rows.tolist() == [0.0, 2.0, 7.5]
        assert w.grad.item() == 6.0
    assert f.stats.live == ""
