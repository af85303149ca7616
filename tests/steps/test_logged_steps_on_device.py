"""Steps on a device as converted code under a log: each does what the eager step does, wherever its tensors lie by
then, and is replayed from the second call on."""

from __future__ import annotations

from types import SimpleNamespace

import fake_cupy
import numpy as np
import pytest
from device_steps import on_device

import tracegrad as torch
from tracegrad import nn, optim
from tracegrad.tracer.ir.errors import OutOfMemoryError

CALLS = 8
ONCE = [1] * CALLS
PROGRAMS = {}  # name -> (what makes the step, the arguments of call k, what is outside; its recordings after each call)


pytestmark = pytest.mark.usefixtures("way")


def recorded(traces):
    def note(make):
        PROGRAMS[make.__name__] = make, traces
        return make

    return note


def there(*numbers, **options):
    return torch.tensor(list(numbers), device="cuda", **options)


def here(*numbers, **options):
    return torch.tensor(list(numbers), **options)


def given(k):
    return (there(1.0 + k, 2.0),)


@recorded(ONCE)
def losses_and_arguments_are_kept():
    kept, w = SimpleNamespace(losses=[], last=None, count=0), there(1.0, 2.0, requires_grad=True)

    def step(x):
        loss = (w * x).sum()
        loss.backward()
        with torch.no_grad():
            w.sub_(0.1 * w.grad)
        w.grad = None
        kept.losses.append(loss.detach())
        kept.last = x
        kept.count += 1
        return loss.detach()

    return step, given, lambda: (kept, w)


@recorded(ONCE)
def numbers_are_kept():
    kept = SimpleNamespace(total=0.0, best=None)

    def step(x):
        kept.total += x.sum().item()
        kept.best = float(x.max())
        return x * 2

    return step, given, lambda: kept


@recorded(ONCE)
def a_state_of_the_runs_own():
    state = SimpleNamespace(hidden=there(0.0, 0.0))

    def step(x):
        state.hidden = torch.tanh(state.hidden + x)
        return state.hidden * 1.0

    return step, given, lambda: state


@recorded(ONCE)
def two_states_that_swap():
    state = SimpleNamespace(a=there(0.0, 1.0), b=there(2.0, 3.0))

    def step(x):
        state.a.add_(x)
        state.a, state.b = state.b, state.a
        return state.a + state.b * 2

    return step, given, lambda: state


@recorded(ONCE)
def views_of_what_is_written():
    w = there(1.0, 2.0, 3.0)
    view = w[1:]

    def step(x):
        w.mul_(2.0)
        return view + x.sum(), view.detach()

    return step, given, lambda: (w, view)


@recorded(None)
def arguments_that_show_what_is_written():
    w = there(1.0, 2.0, 3.0)

    def step(x):
        w.mul_(2.0)
        return x + 1

    return step, lambda k: (w[:2] if k % 2 else there(1.0, 1.0),), lambda: w


@recorded([1, 2, 2, 2, 2, 2, 2, 2])
def one_argument_twice():
    a, b = there(1.0, 2.0), there(5.0, 6.0)

    def step(x, y):
        y.add_(1.0)
        return x + y

    return step, lambda k: (a, a if k % 2 else b), lambda: (a, b)


@recorded(ONCE)
def arrays_of_numpy():
    scale = np.ones(2)

    def arguments(k):
        scale[0] = k
        return (there(1.0, 2.0),)

    return lambda x: x * torch.as_tensor(scale, device="cuda"), arguments, lambda: ()


@recorded(None)
def rates_by_a_scheduler():
    model = nn.Linear(2, 1).cuda()
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.5)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.detach(), scheduler.get_last_lr()

    return step, given, lambda: (list(model.parameters()), [optimizer.param_groups[0]["lr"]])


@recorded([1, 1, 1, 2, 2, 2, 2, 2])
def a_model_that_moves_with_its_batches():
    model = nn.Linear(2, 1).cuda()
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.5)

    def arguments(k):
        on_host = k in (3, 4)
        (model.cpu if on_host else model.cuda)()
        return ((here if on_host else there)(1.0 + k, 2.0),)

    return lambda x: model(x).sum(), arguments, lambda: list(model.parameters())


@recorded([1, 1, 1, 2, 2, 2, 2, 2])
def data_that_moves():
    w = there(1.0, 2.0)

    def arguments(k):
        w.data = (here if k in (3, 4, 5) else there)(1.0, 2.0 + k)
        return (2.0,)

    return lambda n: (w * n if w.is_cuda else w * 100, w.device.type), arguments, lambda: w


@recorded([1, 1, 1, 2, 2, 2, 3, 3])
def a_parameter_that_is_replaced_elsewhere():
    state = SimpleNamespace(w=there(1.0, 2.0, requires_grad=True))

    def step(n):
        state.w.grad = None
        loss = (state.w * 2 + n).sum()
        loss.backward()
        return loss.detach()

    def arguments(k):
        if k in (3, 6):
            state.w = (here if k == 3 else there)(1.0, 2.0 + k, requires_grad=True)
        return (1.0,)

    return step, arguments, lambda: (state.w, state.w.grad)


@recorded(ONCE)
def tensors_made_there():
    beside = torch.ones(3)
    return lambda n: (torch.zeros(3, device="cuda") + n, beside * 2 + n), lambda k: (float(k),), lambda: ()


@recorded(ONCE)
def tensors_of_the_host_that_go_there():
    beside = torch.ones(3)

    def step(n):
        beside.add_(1.0)
        return beside.cuda() * n

    return step, lambda k: (float(k),), lambda: beside


@recorded(ONCE)
def numbers_beside_tensors_of_the_host():
    beside = torch.ones(3)
    return lambda x, n: (x * n, beside * n + 1, n * beside), lambda k: (there(1.0, k), float(k)), lambda: ()


@recorded([0, 1, 1, 1, 2, 2, 2, 2])
def gradients_that_accumulate():
    w = there(1.0, 2.0, requires_grad=True)

    def step(x):
        (w * x).sum().backward()
        return w.grad.clone()

    def arguments(k):
        if k == 4:
            w.grad = None
        return given(k)

    return step, arguments, lambda: (w, w.grad)


@recorded(ONCE)
def results_that_are_one_object():
    w = there(1.0, 2.0)

    def step(x):
        y = x * w
        return y, y, [y], w, x

    return step, given, lambda: w


@recorded(ONCE)
def random_numbers():
    dropout, w = nn.Dropout(0.5), there(*range(1, 9), dtype=torch.float64)
    return lambda x: dropout(w * x), lambda k: (there(1.0 + k),), lambda: ()


@recorded(ONCE)
def products_in_half_precision():
    w = there([0.5, 0.25], [2.0, 1.0], dtype=torch.float32)

    def step(x):
        with torch.autocast("float16"):
            y = x @ w
        return y, y.float() * 2.0

    return step, lambda k: (there([1.0 + k, 2.0], dtype=torch.float32),), lambda: w


@recorded([0, 1, 1, 1, 1, 2, 2, 2])
def state_that_is_made_when_it_is_needed():
    first, late = there(1.0, 2.0, requires_grad=True), there(1.0, 2.0, requires_grad=True)
    optimizer, joins = optim.Adam([first, late], lr=0.1), [False]

    def step(x):
        optimizer.zero_grad()
        loss = (first * x).sum() + ((late * late).sum() if joins[0] else 0.0)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def arguments(k):
        joins[0] = k > 3
        return given(k)

    return step, arguments, lambda: (first, late)


def shown(value, names):
    """*value* as text-like data; a tensor that comes a second time is the number of the first."""
    if isinstance(value, torch.Tensor):
        if id(value) in names:
            return names[id(value)]
        names[id(value)] = len(names)
        numbers = value.detach().cpu().numpy().copy()
        return type(value).__name__, value.device.type, value.requires_grad, numbers
    if isinstance(value, SimpleNamespace):
        return shown(vars(value), names)
    if isinstance(value, dict):
        return {name: shown(part, names) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [shown(part, names) for part in value]
    return type(value).__name__, value


def followed(make, compiled):
    """(what each call gives, and leaves outside; the recordings after each)."""
    torch.manual_seed(0)
    step, arguments, outside = make()
    step = torch.compile(step) if compiled else step
    found, traces = [], []
    for k in range(CALLS):
        args = arguments(k)
        results = step(*args)
        left = outside()
        parts = (
            left if isinstance(left, tuple) else vars(left).values() if isinstance(left, SimpleNamespace) else [left]
        )
        versions = [t._version for t in parts if isinstance(t, torch.Tensor)]
        found.append(shown((results, left, versions), {}))
        traces.append(step.stats.traces if compiled else 0)
    return found, traces, step


def same(ours, theirs):
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        ours, theirs = list(ours.values()), list(theirs.values())
    if isinstance(theirs, list | tuple):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif isinstance(theirs, float | np.ndarray):
        assert type(ours) is type(theirs)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_logged_step_is_the_eager_one(name):
    make, traces = PROGRAMS[name]
    eager, *_ = followed(make, False)
    compiled, recordings, step = followed(make, True)
    same(compiled, eager)
    if traces is not None:
        assert recordings == traces and not step.stats.live


def test_too_little_memory_in_a_first_run_is_no_reason_to_run_python_later(way):
    (x,) = on_device(np.ones(2000))
    step = torch.compile(lambda x: x * 2 if (x.exp() * x.sin()).sum() > 0 else x)
    fake_cupy.pool.leave(8_000)
    with pytest.raises(OutOfMemoryError, match="nothing has been changed"):
        step(x)
    fake_cupy.pool.set_limit(size=0)
    for _ in range(3):
        step(x)
    assert step.stats.traces == 1 and not step.stats.live


def test_parameters_on_both_sides_are_told():
    (x,) = on_device(np.ones(3))
    w = torch.ones(3, requires_grad=True)
    step = torch.compile(lambda x: (x.sum(), (w * 2.0).sum()))
    for _ in range(3):
        first, second = step(x)
        assert first.is_cuda and not second.is_cuda and second.requires_grad
    assert "requiring gradients, on the host" in step.stats.live


def test_inputs_have_the_names_by_which_they_were_read():
    model = nn.Linear(2, 1).cuda()
    step = torch.compile(lambda x: model(x).sum())
    for _ in range(2):
        step(there(1.0, 2.0))
    text = step.explain(level="all")
    assert "model.weight" in text and "model.bias" in text and "a tensor from outside" not in text
