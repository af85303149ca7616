# ruff: noqa: UP031
"""Effects of training steps on the outside: what a user's loop keeps, counts, prints and schedules is what the plain
loop does, in every call, and the step is replayed all the same."""

import copy
import math
from collections import deque

import numpy as np
import pytest
from selection import some

import tracegrad as torch
from tracegrad import nn, optim

mse = nn.functional.mse_loss
STEPS = 24


class Task:
    """One training run: a model, its optimizer, batches, and what the idiom keeps in ``seen``."""

    def __init__(self, kind="sgd"):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).double()
        parameters = self.model.parameters()
        self.opt = optim.AdamW(parameters, lr=0.05) if kind == "adamw" else optim.SGD(parameters, lr=0.05, momentum=0.9)
        rng = np.random.default_rng(1)
        self.batches = [(rng.normal(size=(8, 4)), rng.normal(size=(8, 1))) for _ in range(STEPS)]
        self.seen = {}

    def update(self, x, y):
        self.opt.zero_grad()
        loss = mse(self.model(x), y)
        loss.backward()
        self.opt.step()
        return loss


IDIOMS = {}


def idiom(make):
    IDIOMS[make.__name__] = make
    return make


@idiom
def counters(task):
    class Trainer:
        def __init__(self):
            self.steps = 0

        def step(self, x, y):
            loss = task.update(x, y)
            self.steps += 1
            self.samples = x.size(0)
            return loss

    trainer = task.seen["trainer"] = Trainer()
    return trainer.step


@idiom
def histories(task):
    losses, errors, seen = task.seen["losses"], task.seen["errors"], task.seen["last"] = [], [], {}

    def step(x, y):
        task.opt.zero_grad()
        guess = task.model(x)
        loss = mse(guess, y)
        loss.backward()
        task.opt.step()
        losses.append(loss.item())
        errors.append({"mae": (guess - y).abs().mean().item(), "losses": (loss.item(), 1)})
        seen["loss"] = loss.item()

    return step


@idiom
def running_average(task):
    class State:
        average, best = None, math.inf

    state = task.seen["state"] = State()
    state.total = 0.0

    def step(x, y):
        value = task.update(x, y).item()
        state.average = value if state.average is None else 0.9 * state.average + 0.1 * value
        state.best = min(state.best, value)
        state.total += value * x.size(0)

    return step


@idiom
def dict_of_sums(task):
    metrics = task.seen["metrics"] = {"loss": 0.0, "batches": 0}

    def step(x, y):
        loss = task.update(x, y)
        metrics["loss"] += loss.item()
        metrics["batches"] += 1
        return loss

    return step


@idiom
def list_argument(task):
    log = task.seen["log"] = []
    task.batches = [(*batch, log) for batch in task.batches]

    def step(x, y, log):
        loss = task.update(x, y)
        log.append(loss.item())
        return loss

    return step


@idiom
def kept_tensors(task):
    class State:
        pass

    state, outputs = task.seen["state"], task.seen["outputs"] = State(), []

    def step(x, y):
        loss = task.update(x, y)
        last = state.last = loss.detach()
        state.batch = x
        outputs.append((x @ task.model[0].weight.detach().T).mean(0))
        return last

    return step


@idiom
def norms_of_clipping(task):
    norms = task.seen["norms"] = []

    def step(x, y):
        task.opt.zero_grad()
        loss = mse(task.model(x), y)
        loss.backward()
        norms.append(float(nn.utils.clip_grad_norm_(task.model.parameters(), 0.5)))
        task.opt.step()
        return loss

    return step


@idiom
def rates_that_are_multiplied(task):
    class Decay:
        def __init__(self, opt, factor):
            self.opt, self.factor, self.rates = opt, factor, []

        def step(self):
            for group in self.opt.param_groups:
                group["lr"] *= self.factor
                self.rates.append(group["lr"])

    decay = Decay(task.opt, 0.95)
    task.seen["rates"] = decay.rates

    def step(x, y):
        loss = task.update(x, y)
        decay.step()
        return loss

    return step


@idiom
def rates_that_follow_the_loss(task):
    seen = task.seen["metrics"] = {}

    def step(x, y):
        task.opt.zero_grad()
        loss = mse(task.model(x), y)
        loss.backward()
        group = task.opt.param_groups[0]
        before = group["lr"]
        group["lr"] = 0.01 * loss.item()
        task.opt.step()
        group["lr"] = 0.05 if loss.item() > 1.0 else 0.9 * before
        task.opt.step()
        seen["rate"] = group["lr"]

    return step


@idiom
def prints(task):
    class Trainer:
        seen = 0

        def train(self, x, y):
            loss = task.update(x, y)
            self.seen += 1
            print(f"loss {loss.item():.6f}", end=" | ")
            print("half", round(loss.item() / 2, 4))
            if loss.item() > 1.0:
                print("large")
            return loss

    trainer = task.seen["trainer"] = Trainer()
    return trainer.train


@idiom
def scheduler_and_its_rates(task):
    scheduler = optim.lr_scheduler.ExponentialLR(task.opt, 0.9)
    rates = task.seen["rates"] = []

    def step(x, y):
        loss = task.update(x, y)
        scheduler.step()
        rates.append(scheduler.get_last_lr()[0])
        print(f"rate {task.opt.param_groups[0]['lr']:.3e}, {scheduler.get_last_lr()}")
        return loss

    return step


@idiom
def meters(task):
    class Meter:
        def __init__(self):
            self.val = self.avg = self.sum = self.count = 0

        def update(self, val, n=1):
            self.val = val
            self.sum += val * n
            self.count += n
            self.avg = self.sum / self.count

    meter = task.seen["meter"] = Meter()

    def step(x, y):
        loss = task.update(x, y)
        meter.update(loss.item(), x.size(0))
        return loss

    return step


@idiom
def warm_up(task):
    class Trainer:
        steps = 0

        def train(self, x, y):
            self.steps += 1
            for group in task.opt.param_groups:
                group["lr"] = 0.05 * min(1.0, self.steps / 10)
            return task.update(x, y)

    trainer = task.seen["trainer"] = Trainer()
    return trainer.train


@idiom
def inverse_root_schedule(task):
    class Schedule:
        def __init__(self):
            self.count, self.rate = 0, 0.0

        def rate_now(self):
            return 0.3 * min((self.count + 1) ** -0.5, (self.count + 1) * 10**-1.5)

        def step(self):
            self.count += 1
            rate = self.rate_now()
            for group in task.opt.param_groups:
                group["lr"] = rate
            self.rate = rate
            task.opt.step()

    schedule = task.seen["schedule"] = Schedule()

    def step(x, y):
        task.opt.zero_grad()
        loss = mse(task.model(x), y)
        loss.backward()
        schedule.step()
        return loss

    return step


@idiom
def accumulated_gradients(task):
    class Trainer:
        micro = 0

        def train(self, x, y):
            loss = mse(task.model(x), y) / 4
            loss.backward()
            self.micro += 1
            if self.micro % 4 == 0:
                task.opt.step()
                task.opt.zero_grad()
                print(f"updated after {self.micro}")
            return loss.item()

    trainer = task.seen["trainer"] = Trainer()
    return trainer.train


@idiom
def early_stopping(task):
    class EarlyStopping:
        def __init__(self, patience):
            self.patience, self.best, self.bad, self.stop = patience, math.inf, 0, False

        def __call__(self, loss):
            if loss < self.best - 1e-4:
                self.best = loss
                self.bad = 0
            else:
                self.bad += 1
                if self.bad >= self.patience:
                    self.stop = True
            return self.stop

    stopping = task.seen["stopping"] = EarlyStopping(3)

    def step(x, y):
        loss = task.update(x, y)
        return stopping(loss.item())

    return step


@idiom
def losses_that_are_not_finite(task):
    for k in (6, 11, 12, 17):
        task.batches[k] = (task.batches[k][0] * (math.nan if k % 2 else math.inf), task.batches[k][1])

    class Trainer:
        skipped = 0

        def train(self, x, y):
            task.opt.zero_grad()
            loss = mse(task.model(x * 1e200), y)
            value = loss.item()
            if value != value:
                self.skipped += 1
                return None
            if not math.isfinite(loss) or math.isnan(value):
                print("overflow")
                self.skipped += 1
                return "skipped"
            loss.backward()
            task.opt.step()
            return value

    trainer = task.seen["trainer"] = Trainer()
    return trainer.train


@idiom
def clipping_by_the_norm(task):
    def step(x, y):
        task.opt.zero_grad()
        loss = mse(task.model(x), y)
        loss.backward()
        norm = sum((p.grad**2).sum() for p in task.model.parameters()).sqrt()
        clip = min(1.0, 0.5 / (norm.item() + 1e-6))
        for p in task.model.parameters():
            p.grad.mul_(clip)
        task.opt.step()
        return loss.item(), norm.item()

    return step


@idiom
def loss_scale(task):
    class Scaler:
        scale, good = 1024.0, 0

        def step(self, loss):
            (loss * self.scale).backward()
            if all(bool(p.grad.isfinite().all()) for p in task.model.parameters()):
                for p in task.model.parameters():
                    p.grad.div_(self.scale)
                task.opt.step()
                self.good += 1
                if self.good % 6 == 0:
                    self.scale *= 2.0
            else:
                self.scale *= 0.5

    scaler = task.seen["scaler"] = Scaler()
    task.batches[9] = (task.batches[9][0] * math.inf, task.batches[9][1])

    def step(x, y):
        task.opt.zero_grad()
        loss = mse(task.model(x), y)
        scaler.step(loss)
        return loss.detach()

    return step


@idiom
def dropout_and_history(task):
    task.model.insert(2, nn.Dropout(0.5))
    losses = task.seen["losses"] = []

    def step(x, y):
        losses.append(task.update(x, y).item())

    return step


class Carrying(nn.Module):
    """A recurrent cell whose state is carried from one call to the next by *task*."""

    def __init__(self, task):
        super().__init__()
        self.cell, self.out = nn.Linear(10, 6), nn.Linear(6, 1)
        self.double()
        task.model, task.opt = self, optim.SGD(self.parameters(), lr=0.05)

    def forward(self, x, h):
        h = torch.tanh(self.cell(torch.cat([x, h], 1)))
        return self.out(h), h


def trained(task, guess, y):
    task.opt.zero_grad()
    loss = mse(guess, y)
    loss.backward()
    task.opt.step()
    return loss


def zeros():
    return torch.zeros(8, 6, dtype=torch.float64)


@idiom
def hidden_state_in_an_attribute(task):
    cell = Carrying(task)

    class Trainer:
        h = None

        def train(self, x, y):
            guess, h = cell(x, zeros() if self.h is None else self.h)
            loss = trained(task, guess, y)
            self.h = h.detach()
            return loss

    trainer = task.seen["trainer"] = Trainer()
    return trainer.train


@idiom
def hidden_state_in_the_module(task):
    class Stateful(Carrying):
        def __init__(self, task):
            super().__init__(task)
            self.h, self.calls = zeros(), 0

        def forward(self, x):
            guess, h = super().forward(x, self.h)
            self.h = h.detach()
            self.calls += 1
            if self.calls % 9 == 0:
                self.h = 0.5 * self.h
            return guess

    cell = Stateful(task)

    def step(x, y):
        return trained(task, cell(x), y).item(), cell.h, cell.calls

    return step


@idiom
def hidden_state_in_an_outer_variable(task):
    cell, h = Carrying(task), zeros()

    def step(x, y):
        nonlocal h
        h = h.detach()
        guess, h = cell(x, h)
        return trained(task, guess, y).item(), h.detach()

    return step


@idiom
def hidden_states_in_a_tuple(task):
    cell, state = Carrying(task), (zeros(), torch.ones(8, 6, dtype=torch.float64))

    def step(x, y):
        nonlocal state
        h, c = state
        guess, h = cell(x, h * c)
        loss = trained(task, guess, y)
        state = h.detach(), 0.9 * c + 0.1 * h.detach()
        return loss.item(), state

    return step


@idiom
def hidden_states_in_a_list_that_swap(task):
    cell = Carrying(task)
    states = task.seen["states"] = [zeros(), torch.ones(8, 6, dtype=torch.float64)]

    def step(x, y):
        guess, h = cell(x, states[0] - states[1])
        loss = trained(task, guess, y)
        states[0], states[1] = h.detach(), states[0]
        return loss.item()

    return step


@idiom
def weights_averaged_in_a_dict(task):
    class Average:
        def __init__(self, model, decay):
            self.decay, self.count = decay, 0
            self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

        def update(self, model):
            self.count += 1
            decay = min(self.decay, (1 + self.count) / (10 + self.count))
            for name, p in model.named_parameters():
                self.shadow[name] = decay * self.shadow[name] + (1 - decay) * p.detach()

    average = task.seen["average"] = Average(task.model, 0.99)

    def step(x, y):
        loss = task.update(x, y)
        average.update(task.model)
        return loss

    return step


@idiom
def weights_averaged_in_another_model(task):
    other = task.seen["other"] = copy.deepcopy(task.model)

    def step(x, y):
        loss = task.update(x, y)
        with torch.no_grad():
            for mine, theirs in zip(other.parameters(), task.model.parameters(), strict=True):
                mine.mul_(0.99).add_(theirs, alpha=0.01)
        return loss

    return step


@idiom
def statistics_in_buffers(task):
    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(6))
            self.register_buffer("var", torch.ones(6))
            self.seen = 0.0

        def forward(self, x):
            mean, var = x.mean(0), x.var(0)
            self.mean = 0.9 * self.mean + 0.1 * mean.detach()
            self.var = 0.9 * self.var + 0.1 * var.detach()
            self.seen = 0.5 * self.seen + mean.sum().item()
            return (x - mean) / torch.sqrt(var + 1e-5)

    task.model.insert(2, Norm().double())
    norm = task.model[2]

    def step(x, y):
        loss = task.update(x, y)
        return loss.item(), norm.mean, norm.seen, dict(norm.named_buffers())["var"] * 2

    return step


@idiom
def best_loss_and_weights_in_outer_variables(task):
    best, weights, waited = math.inf, None, 0

    def step(x, y):
        nonlocal best, weights, waited
        loss = task.update(x, y)
        if loss.item() < best - 1e-4:
            best, waited = loss.item(), 0
            weights = {name: value.clone() for name, value in task.model.state_dict().items()}
        else:
            waited += 1
        return "stop" if waited >= 3 else best

    return step


@idiom
def smoothed_loss_in_a_global(task):
    global SMOOTHED
    SMOOTHED = 0.0

    def step(x, y):
        global SMOOTHED
        SMOOTHED = 0.98 * SMOOTHED + 0.02 * task.update(x, y).item()
        return SMOOTHED

    return step


@idiom
def tensors_that_are_printed(task):
    def step(x, y):
        loss = task.update(x, y)
        print(loss, task.model[2].bias, f"{loss:.5f} and {loss.item():.4f}")
        print("guess:", task.model(x)[:2].detach().flatten(), (y > 0).sum())
        return loss

    return step


@idiom
def functions_of_math(task):
    seen = task.seen["perplexities"] = []

    def step(x, y):
        loss = task.update(x, y)
        seen.append(math.exp(loss.item()))
        print(f"perplexity {math.exp(loss.item()):.4f}, log {math.log10(loss):.4f}")
        return math.sqrt(loss.item())

    return step


@idiom
def cosine_rate(task):
    class Trainer:
        done = 0

        def train(self, x, y):
            rate = 0.5 * 0.1 * (1 + math.cos(math.pi * self.done / STEPS))
            for group in task.opt.param_groups:
                group["lr"] = rate
            self.done += 1
            return task.update(x, y).item(), rate

    trainer = task.seen["trainer"] = Trainer()
    return trainer.train


@idiom
def losses_in_an_array(task):
    losses = task.seen["losses"] = np.zeros(STEPS)

    class Trainer:
        done = 0

        def train(self, x, y):
            losses[self.done] = task.update(x, y).item()
            self.done += 1

    trainer = task.seen["trainer"] = Trainer()
    return trainer.train


class Meter:
    """An average with a text, as loops of training have them."""

    def __init__(self, name):
        self.name, self.value, self.total, self.count = name, 0.0, 0.0, 0

    def update(self, value, n=1):
        self.value = value
        self.total += value * n
        self.count += n

    def __str__(self):
        return f"{self.name} {self.value:.4f} ({self.total / self.count:.4f})"


@idiom
def meters_that_are_printed(task):
    losses, sizes = task.seen["losses"], task.seen["sizes"] = Meter("loss"), Meter("size")

    def step(x, y):
        loss = task.update(x, y)
        losses.update(loss.item(), x.size(0))
        sizes.update(x.size(0))
        print(losses, sizes, sep=" | ")
        entries = ["epoch"]
        entries += [str(meter) for meter in (losses, sizes)]
        print("\t".join(entries))

    return step


@idiom
def counts_of_correct_guesses(task):
    counts = task.seen["counts"] = {"correct": 0, "seen": 0}

    class Evaluation:
        total, best = 0, -1

    state = task.seen["state"] = Evaluation()
    state.total, state.best = 0, -1

    def step(x, y):
        task.update(x, y)
        guess = (task.model(x) > 0).flatten()
        correct = (guess == (y > 0).flatten()).sum().item()
        counts["correct"] += correct
        counts["seen"] += y.size(0)
        state.total += int((guess != (y > 0).flatten()).sum())
        if correct > state.best:
            state.best = correct
        print("%d/%d (%.1f%%)" % (counts["correct"], counts["seen"], 100.0 * counts["correct"] / counts["seen"]))
        return correct, correct / y.size(0), guess.long().argmax().item()

    return step


@idiom
def average_of_the_last_losses(task):
    losses = task.seen["losses"] = []

    def step(x, y):
        losses.append(task.update(x, y).item())
        return sum(losses[-3:]) / len(losses[-3:])

    return step


@idiom
def texts_by_percent(task):
    lines, last = task.seen["lines"], task.seen["last"] = [], {}

    def step(x, y):
        loss = task.update(x, y)
        norm = sum(p.grad.norm() ** 2 for p in task.model.parameters()) ** 0.5
        lines.append("%.4f" % loss.item())
        last["text"] = "loss %8.3f, norm %.2e" % (loss, norm.item())
        print("[%d] %s: %.3f" % (len(y), "loss", loss))

    return step


@idiom
def texts_by_way_of_helpers(task):
    class Log:
        def __init__(self):
            self.lines, self.count = [], 0

        def write(self, text, level="info"):
            self.count += 1
            line = f"[{self.count:03d}] {level}: {text}"
            self.lines.append(line)
            print(line)

        def row(self, **values):
            self.lines.append(",".join(f"{name}={value:.3e}" for name, value in values.items()))

    log = task.seen["log"] = Log()

    def shortened(value):
        return f"{value:.3f}"

    def step(x, y):
        loss = task.update(x, y)
        log.write("loss " + shortened(loss.item()))
        log.write("square %.3f" % loss.item() ** 2, level="debug")
        log.row(loss=loss.item(), twice=2 * loss.item())

    return step


@idiom
def texts_that_are_returned(task):
    def step(x, y):
        loss = task.update(x, y)
        text = f"loss={loss.item():.4f}"
        return {
            "loss": loss.item(),
            "text": text,
            "both": (text, ["%.2e" % loss, str(x.size(0))]),
        }, f"{loss.item():.1f}!"

    return step


def plain(value):
    """A picture of *value* that later calls do not change."""
    if isinstance(value, torch.Tensor):
        return value.detach().numpy().copy()
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if hasattr(value, "__dict__"):
        return {key: plain(part) for key, part in vars(value).items()}
    return value


def run(make, compiled, capsys, kind="sgd"):
    task = Task(kind)
    step = make(task)
    step = torch.compile(step) if compiled else step
    torch.manual_seed(7)
    states = []
    for x, y, *others in task.batches:
        result = step(torch.tensor(x), torch.tensor(y), *others)
        states.append(copy.deepcopy((plain(result), plain(task.seen), capsys.readouterr().out)))
    parameters = [plain(p) for p in task.model.parameters()]
    gradients = [None if p.grad is None else plain(p.grad) for p in task.model.parameters()]
    return states, (parameters, gradients, plain(task.opt.state_dict())), step


def assert_same(found, expected, at=""):
    assert type(found) is type(expected), at
    if isinstance(found, dict):
        assert list(found) == list(expected), at
        for key in found:
            assert_same(found[key], expected[key], f"{at}[{key!r}]")
    elif isinstance(found, list | tuple):
        assert len(found) == len(expected), at
        for k, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{at}[{k}]")
    elif isinstance(found, float | np.ndarray):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11, err_msg=at)
    else:
        assert found == expected, at


@pytest.mark.parametrize("kind", some(["sgd", "adamw"], quick=1))
@pytest.mark.parametrize("name", some(IDIOMS, quick=12))
def test_what_a_step_keeps_is_what_the_plain_loop_keeps(name, kind, capsys):
    expected, left, _ = run(IDIOMS[name], False, capsys, kind)
    found, also_left, step = run(IDIOMS[name], True, capsys, kind)
    for k, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert_same(one, other, f"call {k}: ")
    assert_same(also_left, left, "in the end: ")
    assert not step.stats.live and step.stats.traces < STEPS / 2


def _halved_after(opt, epochs):
    return optim.lr_scheduler.LambdaLR(opt, lambda epoch: 1.0 if epoch < epochs else 0.5)


class _Subclass(optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        return [base / (1 + self.last_epoch) for base in self.base_lrs]


SCHEDULERS = {
    "LambdaLR": lambda opt: _halved_after(opt, 7),
    "MultiplicativeLR": lambda opt: optim.lr_scheduler.MultiplicativeLR(opt, lambda epoch: 0.9),
    "StepLR": lambda opt: optim.lr_scheduler.StepLR(opt, 5, 0.5),
    "MultiStepLR": lambda opt: optim.lr_scheduler.MultiStepLR(opt, [3, 9], 0.3),
    "ConstantLR": lambda opt: optim.lr_scheduler.ConstantLR(opt, 0.5, 4),
    "LinearLR": lambda opt: optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, 10),
    "ExponentialLR": lambda opt: optim.lr_scheduler.ExponentialLR(opt, 0.9),
    "PolynomialLR": lambda opt: optim.lr_scheduler.PolynomialLR(opt, 15, 2.0),
    "CosineAnnealingLR": lambda opt: optim.lr_scheduler.CosineAnnealingLR(opt, 8),
    "a subclass": _Subclass,
    "two of them": lambda opt: [optim.lr_scheduler.StepLR(opt, 3, 0.5), optim.lr_scheduler.ExponentialLR(opt, 0.95)],
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_steps_of_schedulers(name, capsys):
    def make(task):
        made = SCHEDULERS[name](task.opt)
        schedulers = made if isinstance(made, list) else [made]
        task.seen["rates"] = task.opt.param_groups

        def step(x, y):
            loss = task.update(x, y)
            for scheduler in schedulers:
                scheduler.step()
            return loss

        return step

    expected, left, _ = run(make, False, capsys)
    found, also_left, step = run(make, True, capsys)
    assert_same([s[0] for s in found], [s[0] for s in expected])
    assert_same(also_left, left)
    assert not step.stats.live and step.stats.traces <= 4  # a rate of 0 is a case of its own


def test_a_scheduler_that_follows_the_loss(capsys):
    def make(task):
        scheduler = optim.lr_scheduler.ReduceLROnPlateau(task.opt, patience=1, factor=0.5)

        def step(x, y):
            loss = task.update(x, y)
            scheduler.step(loss.item() if len(losses) % 2 else loss)
            return loss

        task.seen["scheduler"] = vars(scheduler) | {"optimizer": None}
        losses = task.seen["losses"] = []
        return step

    expected, left, _ = run(make, False, capsys)
    found, also_left, step = run(make, True, capsys)
    assert_same([s[0] for s in found], [s[0] for s in expected])
    assert_same(also_left, left)
    assert not step.stats.live and step.stats.traces <= 3


@pytest.mark.parametrize("how", ["patched", "other optimizer", "rate by hand"])
@pytest.mark.filterwarnings("ignore:Detected call")
def test_what_is_done_to_a_scheduler_between_calls_counts(how):
    def make():
        w = torch.ones(2, requires_grad=True)
        opt, other = optim.SGD([w], lr=0.5), optim.SGD([w], lr=0.25)
        scheduler = optim.lr_scheduler.ExponentialLR(opt, 0.9)

        def step():
            scheduler.step()

        return step, opt, other, scheduler

    mine, plain = make(), make()
    compiled = torch.compile(mine[0])
    for k in range(10):
        compiled(), plain[0]()
        for _, opt, other, scheduler in (mine, plain):
            if k == 5 and how == "patched":
                scheduler.step = lambda opt=opt: opt.param_groups[0].update(lr=0.125)
            elif k == 5 and how == "other optimizer":
                scheduler.optimizer = other
            elif how == "rate by hand":
                opt.param_groups[0]["lr"] += 0.01
        rates = [[opt.param_groups[0]["lr"] for opt in made[1:3]] for made in (mine, plain)]
        np.testing.assert_allclose(*rates)


@pytest.mark.parametrize("order", ["before", "between"])
@pytest.mark.filterwarnings("ignore:Detected call")
def test_a_scheduler_before_the_step_of_its_optimizer(order):
    def make():
        w = torch.ones(2, requires_grad=True)
        opt = optim.SGD([w], lr=0.5)
        scheduler = optim.lr_scheduler.ExponentialLR(opt, 0.9)

        def step(x):
            if order == "between":
                opt.step()
            scheduler.step()
            opt.zero_grad()
            (w * x).sum().backward()
            opt.step()

        w.grad = torch.ones(2)
        return step, w

    mine, plain = make(), make()
    compiled = torch.compile(mine[0])
    for k in range(8):
        x = torch.tensor([1.0, 0.1 * k])
        compiled(x), plain[0](x)
        np.testing.assert_allclose(mine[1].detach().numpy(), plain[1].detach().numpy())


@pytest.mark.filterwarnings("ignore:Detected call")
def test_a_run_that_is_made_again_takes_no_step_twice():
    """Code that is found only while running may read what a run's copies lack, so the run is made again."""

    def make():
        w = torch.ones(2, requires_grad=True)
        opt = optim.SGD([w], lr=0.5)
        scheduler = optim.lr_scheduler.StepLR(opt, 2, 0.5)
        history = []
        helpers = {"last": eval("lambda: history[-1]", {"history": history})}

        def step(x):
            loss = (w * x).sum()
            scheduler.step()
            history.append(loss.item())
            return helpers.get("last")()

        return step, opt, history

    mine, plain = make(), make()
    compiled = torch.compile(mine[0])
    for k in range(6):
        x = torch.tensor([1.0, 0.1 * k])
        assert compiled(x) == plain[0](x)
        assert mine[1].param_groups[0]["lr"] == plain[1].param_groups[0]["lr"] and mine[2] == plain[2]


@pytest.mark.parametrize("what", ["an array", "a number", "a count"])
def test_what_a_step_finds_in_its_state_and_keeps_is_what_was_there(what):
    class State:
        def __init__(self):
            self.array, self.number, self.count, self.kept = np.arange(2.0), 0.5, 0, []

    def made(owner, wrap):
        @wrap
        def step(x):
            found = {"an array": owner.array, "a number": owner.number, "a count": owner.count}[what]
            owner.kept.append(found)
            owner.array, owner.number, owner.count = owner.array + 1.0, owner.number * 2.0, owner.count + 1
            return (x * 2.0).sum()

        return step

    mine, plain = State(), State()
    step, expected = made(mine, torch.compile), made(plain, lambda f: f)
    for k in range(6):
        x = torch.tensor([1.0 + k, 2.0, 3.0])
        assert step(x).item() == expected(x).item()
        assert repr(vars(mine)) == repr(vars(plain))


def stepped(make, calls=6):
    """What *make* gives for the plain and the compiled step, call by call, and the compiled step."""
    found = []
    for compiled in (False, True):
        step, see = make()
        step = torch.compile(step) if compiled else step
        seen = []
        for k in range(calls):
            result = step(torch.tensor([1.0, 0.5 * k]))
            seen.append(copy.deepcopy((plain(result), plain(see()))))
        found.append(seen)
    assert_same(found[1], found[0])
    return step


def test_a_kept_tensor_may_be_replaced_from_outside():
    class Trainer:
        h = torch.zeros(2)

    trainers = []

    def make():
        trainer = Trainer()
        trainer.h = torch.zeros(2)
        trainers.append(trainer)

        def step(x):
            before, trainer.h = trainer.h, torch.tanh(trainer.h + x)
            return before

        return step, lambda: trainer.h

    step = stepped(make)
    trainer, traces = trainers[-1], step.stats.traces
    for other in (torch.ones(2), torch.full((2,), 3.0), torch.zeros(2).double(), torch.zeros(2, requires_grad=True)):
        trainer.h = other
        assert step(torch.tensor([1.0, 2.0])) is other
        want = torch.tanh(other.detach() + torch.tensor([1.0, 2.0]))
        np.testing.assert_allclose(trainer.h.detach().numpy(), want.numpy())
        assert trainer.h.dtype is want.dtype and trainer.h.requires_grad == other.requires_grad
        if other.dtype is torch.float32 and not other.requires_grad:
            assert step.stats.traces == traces


@pytest.mark.parametrize("how", ["parameter", "its memory", "argument", "both places", "written"])
def test_a_kept_tensor_that_others_refer_to(how):
    def make():
        w, kept = torch.ones(2), [torch.zeros(2), torch.zeros(2)]
        if how == "parameter":
            kept[0] = w
        elif how == "its memory":
            kept[0] = w.detach()
        elif how == "both places":
            kept[1] = kept[0]

        def step(x):
            w.mul_(0.5)
            out = kept[0] + 10 * kept[1] + 100 * w + 1000 * x
            if how == "written":
                kept[0].add_(x)
            if how == "argument":
                kept[0], kept[1] = x, kept[0]
            else:
                kept[1] = out.detach()
            return out

        return step, lambda: [w, kept]

    stepped(make, 8)


def test_a_kept_tensor_of_the_same_memory_as_an_argument():
    def make():
        kept = [torch.zeros(2), torch.zeros(2)]

        def step(x):
            x.add_(1.0)
            kept[1] = 2.0 * kept[0]
            return kept[1]

        return step, kept

    (mine, mine_kept), (plain_step, plain_kept) = make(), make()
    step = torch.compile(mine)
    for k in range(10):
        results = []
        for one, kept in ((step, mine_kept), (plain_step, plain_kept)):
            x = torch.full((2,), float(k))
            kept[0] = x if k == 7 else x.detach() if k == 8 else torch.full((2,), 0.1 * k)
            results.append(one(x).numpy())
        np.testing.assert_allclose(*results)


def test_attributes_of_modules_are_as_in_the_plain_run():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(2))
            self.calls, self.mode, self.scale = 0, "first", 1.0

        def forward(self, x):
            self.last = self.scale * x + self.last
            self.calls += 1
            self.mode = "later" if self.calls > 3 else "first"
            self.scale = 0.5 * self.scale
            return self.last.sum()

    modules = []

    def make():
        module = Counting()
        modules.append(module)
        return module, lambda: [module.calls, module.mode, module.scale, module.last, module.state_dict()]

    step = stepped(make, 9)
    assert not step.stats.live and modules[1]._buffers["last"] is modules[1].last
    modules[1].last = torch.ones(2)
    modules[1].scale = 2.0
    assert step(torch.tensor([1.0, 1.0])).item() == 6.0 and modules[1].calls == 10
    modules[1]._buffers["last"] = torch.zeros(2)  # past the attribute
    assert step(torch.tensor([1.0, 1.0])).item() == 8.0


def test_outer_variables_that_are_only_stored():
    def make():
        last, first, flag = None, "nothing", False

        def step(x):
            nonlocal last, flag
            last = x.sum().item()
            if last > 2.0:
                flag = True
            return last

        def see():
            nonlocal flag, last
            found, flag, last = (last, first, flag), False, "seen"
            return found

        return step, see

    assert not stepped(make, 9).stats.live


def test_what_a_step_returns_is_the_plain_runs():
    class Log:
        def __init__(self):
            self.count, self.items = 0, []

    def make():
        log = Log()

        def step(x):
            log.count += 1
            log.items.append(x.sum().item())
            return log

        return step, lambda: log

    step = stepped(make)
    assert step(torch.ones(2)) is step(torch.ones(2))

    @torch.compile
    def closure(x):
        value, doubled = x.sum().item(), (2 * x).detach()
        return lambda k: value * k + doubled

    for k in range(6):
        np.testing.assert_allclose(closure(torch.full((2,), float(k)))(3).numpy(), [8.0 * k, 8.0 * k])
    assert closure.stats.live


def test_copies_and_other_data_within_a_step():
    def make():
        kept, w = {}, torch.ones(2)

        def step(x):
            kept["copy"] = copy.deepcopy({"w": w, "x": 2 * x})
            w.data -= 0.1 * x
            w.data = 0.9 * w + x
            return w.clone()

        return step, lambda: [kept, w]

    assert "data" in stepped(make).stats.live


def test_numbers_put_into_arrays():
    def make():
        values, counts, at = np.zeros(5), np.zeros(5, int), [0]

        def step(x):
            values[at[0]] = x.sum().item()
            values[-1] = 7
            counts[2] = at[0]
            at[0] += 1

        def run(x):
            try:
                return step(x)
            except IndexError as error:
                return str(error)

        return step, run, lambda: [values, counts, at]

    (mine, _, see), (_, run, expected) = make(), make()
    step = torch.compile(mine)

    def compiled(x):
        try:
            return step(x)
        except IndexError as error:
            return str(error)

    for k in range(8):
        x = torch.tensor([1.0, 0.5 * k])
        assert_same(plain(compiled(x)), plain(run(x)))
        assert_same(plain(see()), plain(expected()))


# ---- += of a number that is kept with a tensor: as plain Python, the tensor's own operator ---------------------------


class Kept:
    def __init__(self):
        self.v, self.items, self.table, self.recent = 0.5, [0.5, 1.0], {"a": 0.5}, deque([0.5, 1.0], 2)


def into_an_attribute(kept, x):
    kept.v += kept.recent[0]


def into_an_item(kept, x):
    kept.items[0] -= kept.recent[0]


def into_an_entry(kept, x):
    kept.table["a"] *= 0.1 * kept.recent[0]


def into_a_variable(kept, x):
    v = kept.v
    v /= 1.0 + kept.recent[0]
    kept.items[1] = v


def into_a_power(kept, x):
    kept.v **= kept.recent[0] * 0.01


def of_the_steps_own(kept, x):
    kept.v += x.sum()
    kept.items[0] += kept.v


@pytest.mark.parametrize(
    "store", [into_an_attribute, into_an_item, into_an_entry, into_a_variable, into_a_power, of_the_steps_own]
)
def test_a_number_that_becomes_a_tensor(store):
    seen = []
    for wrap in (lambda f: f, torch.compile):
        kept = Kept()

        def step(x, kept=kept):
            total = (x * x).sum()
            store(kept, x)
            kept.recent.append(total)
            return total

        f, states = wrap(step), []
        for k in range(6):
            f(torch.ones(3) * (k + 1))
            states.append(repr([kept.v, kept.items, kept.table, list(kept.recent)]))
        seen.append(states)
    assert seen[0] == seen[1]
