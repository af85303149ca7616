"""Effects of training steps on the outside: what a user's loop keeps, counts, prints and schedules is what the plain
loop does, in every call, and the step is replayed all the same."""

import copy
import math

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
    assert not step.stats.live and step.stats.traces == 2


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
