"""Python loops in compiled steps: rolled in the forward and in the backward of the tape, with what eager code finds."""

import numpy as np
import pytest

import tracegrad as torch
from tracegrad import nn
from tracegrad.tensors import compiled_backward

FEW, MANY = 20, 50  # turns


@pytest.fixture(autouse=True)
def eager_code_goes_node_by_node(monkeypatch):
    monkeypatch.setattr(compiled_backward, "MAX_NODES", 0)


def array(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape) * 0.4


def tensor(seed, *shape):
    return torch.tensor(array(seed, *shape))


def parameter(seed, *shape):
    return nn.Parameter(tensor(seed, *shape))


def rnn(turns):
    w, u, b, x = parameter(1, 3, 5), parameter(2, 5, 5), parameter(3, 5), tensor(0, turns, 4, 3)
    optimizer = torch.optim.SGD([w, u, b], lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        h = torch.zeros(4, 5, dtype=x.dtype)
        for t in range(turns):
            h = torch.tanh(x[t] @ w + h @ u + b)
        loss = (h * h).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, x, [w, u, b]


class Cell(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.from_input = nn.Linear(inputs, 4 * hidden)
        self.from_state = nn.Linear(hidden, 4 * hidden)
        for seed, p in enumerate(self.parameters()):
            p.data = tensor(seed, *p.shape)

    def forward(self, x, state):
        h, c = state
        i, f, g, o = (self.from_input(x) + self.from_state(h)).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def lstm(turns):
    cell, x = Cell(3, 5), tensor(0, turns, 4, 3)
    optimizer = torch.optim.Adam(cell.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        state = torch.zeros(4, 5, dtype=x.dtype), torch.zeros(4, 5, dtype=x.dtype)
        ys = []
        for t in range(turns):
            state = cell(x[t], state)
            ys.append(state[0])
        loss = (torch.stack(ys) ** 2).mean() + state[1].sum() * 0.1
        loss.backward()
        optimizer.step()
        return loss

    return step, x, list(cell.parameters())


def two_layers(turns):
    w, u, x = parameter(1, 5, 5), parameter(2, 5, 5), tensor(0, turns, 4, 5)

    def step(x):
        w.grad = u.grad = None
        h = g = torch.zeros(4, 5, dtype=x.dtype)
        ys = []
        for row in x:
            h = torch.tanh(h @ w + row)
            ys.append(h)
        for y in ys:
            g = torch.tanh(g @ u + y)
        g.sum().backward()
        return g.detach()

    return step, x, [w, u]


def repeated(turns, *layers):
    """All operations of a turn are asked for at one call."""
    layers = nn.Sequential(*layers)
    for seed, p in enumerate(layers.parameters()):
        p.data = tensor(seed, *p.shape)

    def step(x):
        layers.zero_grad()
        for _ in range(turns):
            x = layers(x)
        x.sum().backward()
        return x.detach()

    return step, tensor(9, 4, 5), list(layers.parameters())


def alike_layers(turns):
    return repeated(turns, nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh())


def unlike_layers(turns):
    return repeated(turns, nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 5), nn.Tanh())


def runge_kutta(turns):
    k, y0, h = parameter(1, 3, 3), tensor(0, 4, 3), 0.05
    optimizer = torch.optim.SGD([k], lr=0.1)

    def slope(y):
        return torch.tanh(y @ k)

    def step(y):
        optimizer.zero_grad()
        for _ in range(turns):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            k4 = slope(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        loss = (y**2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return step, y0, [k]


def initial_state(turns):
    w, x, h0 = parameter(1, 5, 5), tensor(0, turns, 4, 5), tensor(7, 4, 5).requires_grad_()

    def step(x):
        w.grad = h0.grad = None
        h = h0
        for t in range(turns):
            h = torch.tanh(h @ w + x[t])
        h.pow(2).sum().backward()
        return h0.grad.clone()

    return step, x, [w, h0]


def rows_of_what_requires_gradients(turns):
    w, v, x = parameter(1, 5, 5), parameter(2, 5, 5), tensor(0, turns, 4, 5)

    def step(x):
        w.grad = v.grad = None
        rows, h = torch.tanh(x @ v), torch.zeros(4, 5, dtype=x.dtype)
        for t in range(turns):
            h = torch.tanh(h @ w + rows[t]) * torch.sigmoid(rows[t])
        h.sum().backward()
        return h.detach()

    return step, x, [w, v]


def inner_descent(turns):
    w0, a, y = parameter(1, 3), tensor(0, 6, 3), tensor(2, 6)

    def step(a):
        w = w0.detach().clone().requires_grad_()
        for _ in range(turns):
            loss = ((a @ w - y) ** 2).mean()
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
        with torch.no_grad():
            w0.copy_(w)
        return loss.detach()

    return step, a, [w0]


def inner_optimizer(turns):
    w, a, y = parameter(1, 3), tensor(0, 6, 3), tensor(2, 6)
    optimizer = torch.optim.Adam([w], lr=0.05)

    def step(a):
        for _ in range(turns):
            optimizer.zero_grad()
            loss = ((a @ w - y) ** 2).mean()
            loss.backward()
            optimizer.step()
        return loss.detach()

    return step, a, [w]


def through_inner_descent(turns):
    w0, a, y = parameter(1, 3), tensor(0, 6, 3), tensor(2, 6)
    optimizer = torch.optim.SGD([w0], lr=0.05)

    def step(a):
        optimizer.zero_grad()
        w = w0
        for _ in range(turns):
            (g,) = torch.autograd.grad(((torch.tanh(a @ w) - y) ** 2).mean(), w, create_graph=True)
            w = w - 0.1 * g
        loss = ((torch.tanh(a @ w) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, a, [w0]


def without_gradients(turns):
    w, x = parameter(1, 5, 5), tensor(0, turns, 4, 5)

    def step(x):
        with torch.no_grad():
            h = torch.zeros(4, 5, dtype=x.dtype)
            for t in range(turns):
                h = torch.tanh(h @ w + x[t])
        return h

    return step, x, [w]


def cut_within(turns):
    w, x = parameter(1, 5, 5), tensor(0, turns, 4, 5)

    def step(x):
        w.grad = None
        h = mean = torch.zeros(4, 5, dtype=x.dtype)
        total = 0.0
        for t in range(turns):
            h = torch.tanh(h.detach() @ w + x[t])
            with torch.no_grad():
                mean = 0.9 * mean + 0.1 * h
            total = total + ((h - mean) ** 2).sum()
        total.backward()
        return mean

    return step, x, [w]


def in_place(turns):
    w, x, kept = parameter(1, 5, 5), tensor(0, turns, 4, 5), tensor(9, turns, 4, 5)

    def step(x):
        w.grad = None
        h, total = torch.zeros(4, 5, dtype=x.dtype), torch.zeros(4, 5, dtype=x.dtype)
        out = torch.zeros(turns, 4, 5, dtype=x.dtype)
        for t in range(turns):
            h = torch.tanh(h @ w + x[t])
            total += h
            out[t] = h * 0.5
            with torch.no_grad():
                kept[t] = h
        ((total**2).sum() + (out**3).sum()).backward()
        return total.detach()

    return step, x, [w, kept]


CASES = [
    rnn, lstm, two_layers, runge_kutta, initial_state, rows_of_what_requires_gradients,
    inner_descent, inner_optimizer, through_inner_descent, without_gradients, cut_within, in_place,
]  # fmt: skip


def values(tensors):
    return [t.detach().numpy().copy() for t in tensors]


def gradients(tensors):
    return [t.grad.detach().numpy().copy() for t in tensors if t.grad is not None]


def compared(case, turns, calls=4):
    """The compiled step, after a few calls of it and of its eager twin in which they agreed."""
    (eager, x, known), (step, _, ours) = case(turns), case(turns)
    step = torch.compile(step)
    for _ in range(calls):
        found, expected = step(x), eager(x)
        both = [([found], [expected]), (ours, known)]
        for a, b in [*[(values(a), values(b)) for a, b in both], (gradients(ours), gradients(known))]:
            assert len(a) == len(b)
            for one, other in zip(a, b, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert step.stats.live == "" and step.stats.traces <= 2
    return step


def graph_of(step):
    return step._endpoint.paths[0].recording.graph


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_loop_in_a_step_costs_one_kernel_whatever_its_length(case):
    few, many = compared(case, FEW), compared(case, MANY)
    assert many.stats.compiles == 0 and many.stats.kernel_hits == 1
    nodes = graph_of(many).nodes
    assert len(nodes) == len(graph_of(few).nodes)
    assert any(node.prim.kind == "loop" for node in nodes)


@pytest.mark.parametrize("case", [alike_layers, unlike_layers])
def test_layers_of_a_model_are_one_after_the_other(case):
    """Each has weights of its own: to have them in one array costs more than a kernel that is longer."""
    assert not any(node.prim.kind == "loop" for node in graph_of(compared(case, FEW)).nodes)


def test_the_backward_of_a_short_loop_is_a_loop():
    nodes = graph_of(compared(rnn, 17)).nodes
    assert sum(node.prim.kind == "loop" for node in nodes) == 2


def outside_backward(turns, results):
    w, x = parameter(1, 5, 5), tensor(0, turns, 4, 5)

    def step(x):
        h, ys = torch.zeros(4, 5, dtype=x.dtype), []
        for t in range(turns):
            h = torch.tanh(h @ w + x[t])
            ys.append(h)
        return (torch.stack(ys), h)[:results]

    return step, x, w


@pytest.mark.parametrize("results", [1, 2])
def test_the_backward_of_what_a_step_returns_is_rolled_too(results):
    sizes = []
    for turns in (FEW, MANY):
        (eager, x, known), (step, _, ours) = outside_backward(turns, results), outside_backward(turns, results)
        step = torch.compile(step)
        for _ in range(4):
            for run in (eager, step):
                sum((r**2).sum() for r in run(x)).backward()
            np.testing.assert_allclose(ours.grad.numpy(), known.grad.numpy(), rtol=1e-9)
        recording = step._endpoint.paths[0].recording
        sizes.append((len(recording.graph.nodes), len(recording.link.backward.graph.nodes), len(recording.payload)))
        assert step.stats.live == ""
    assert sizes[0] == sizes[1]


@pytest.mark.slow
def test_branches_in_a_loop_are_paths_with_a_guard_for_all_turns():
    w = parameter(1, 5, 5)

    def step(x):
        w.grad = None
        h = torch.zeros(4, 5, dtype=x.dtype)
        for t in range(FEW):
            h = torch.tanh(h @ w + x[t])
            if x[t].sum() > 0:
                h = h * 0.5
        h.sum().backward()
        return h.detach()

    compiled = torch.compile(step)
    up, down = np.abs(array(0, FEW, 4, 5)), -np.abs(array(1, FEW, 4, 5))
    mixed = np.where(np.arange(FEW)[:, None, None] % 3 == 0, up, down)
    for data in (up, down, up, down, mixed, up, mixed, down, mixed, up):
        x = torch.tensor(data)
        found, gradient = compiled(x), w.grad.numpy().copy()
        np.testing.assert_allclose(found.numpy(), step(x).numpy(), rtol=1e-12)
        np.testing.assert_allclose(gradient, w.grad.numpy(), rtol=1e-10)
    assert compiled.stats.live == ""
    assert sorted(len(path.recording.graph.guards) for path in compiled._endpoint.paths)[:2] == [2, 2]


@pytest.mark.slow
def test_a_loop_that_data_ends_is_rolled_for_the_turns_that_were_seen():
    w = parameter(1, 5, 5)

    def step(x):
        w.grad = None
        h = x
        while (h * h).sum() > 1e-12:
            h = torch.tanh(h @ w * 0.5)
        h.sum().backward()
        return h.detach()

    compiled = torch.compile(step)
    small, large = array(0, 4, 5) * 1e-3, array(0, 4, 5)
    for data in (small, small, small, large, large, small, large):
        x = torch.tensor(data)
        found, gradient = compiled(x), w.grad.numpy().copy()
        np.testing.assert_allclose(found.numpy(), step(x).numpy(), rtol=1e-9)
        np.testing.assert_allclose(gradient, w.grad.numpy(), rtol=1e-9)
    assert compiled.stats.live == ""


def test_explain_says_what_was_rolled_and_whose_derivative_a_loop_is():
    text = compared(rnn, FEW).explain(level="all")
    assert text.partition("--- decisions")[2].count("rolled: the loop at test_step_loops.py") > 1
    assert "in step (adjoint)" in text


def test_grad_of_a_tensor_made_in_the_step_is_its_own():
    w = parameter(1, 3)

    def step(a):
        probe = (a * 2.0).detach().requires_grad_()
        (probe * w).sum().backward(inputs=[probe])
        return probe.grad * 1.0

    compiled, a = torch.compile(step), tensor(0, 3)
    for _ in range(4):
        np.testing.assert_allclose(compiled(a).numpy(), step(a).numpy())
    assert compiled.stats.live == "" and w.grad is None


def test_a_tensor_made_in_the_step_is_not_returned_without_its_grad():
    w = parameter(1, 3)

    def step(a):
        probe = (a * 2.0).detach().requires_grad_()
        (probe * w).sum().backward(inputs=[probe])
        return probe

    compiled, a = torch.compile(step), tensor(0, 3)
    for _ in range(4):
        np.testing.assert_allclose(compiled(a).grad.numpy(), w.detach().numpy())
    assert "(step/leaf)" in compiled.stats.live


def test_a_grad_that_is_none_only_at_first_makes_two_paths():
    w, v = parameter(1, 3), parameter(2, 3)

    def step(a):
        w.grad = None
        (a * w * v).sum().backward()
        return v.grad * 1.0

    (eager, compiled), totals = (step, torch.compile(step)), []
    for run in (eager, compiled):
        v.grad = None
        for call in range(8):
            if call == 1:
                v.grad = None
            found = run(tensor(0, 3))
        totals.append(found.numpy())
    np.testing.assert_allclose(totals[1], totals[0])
    assert compiled.stats.live == ""


def _fixed_point(rng):
    w = torch.tensor(rng.normal(size=(3, 3)) * 0.4, requires_grad=True)
    turns = []

    def step(x):
        with torch.no_grad():
            z, err, n = torch.zeros(3, dtype=torch.float64), torch.ones((), dtype=torch.float64), 0
            while err.item() > 1e-8:
                new = torch.tanh(w @ z + x)
                err = (new - z).abs().max()
                z = new
                n += 1
        w.grad = None
        loss = (torch.tanh(w @ z + x) ** 2).sum()
        loss.backward()
        with torch.no_grad():
            w.sub_(0.05 * w.grad)
        turns.append(n)
        return loss.detach(), n

    return step, lambda scale: (torch.tensor(rng.normal(size=3) * scale),), lambda: (w, turns)


def _newton(rng):
    w = torch.zeros(2, dtype=torch.float64, requires_grad=True)

    def step(a):
        with torch.no_grad():
            x, k = a.clone(), torch.zeros((), dtype=torch.float64)
            while True:
                change = (x * x - a) / (2.0 * x)
                x = x - change
                k = k + 1
                if (change / x).abs().max() < 1e-9:
                    break
            w.add_(x)
        return x, k

    return step, lambda scale: (torch.tensor(np.array([1.0, 7.0]) * scale),), lambda: (w, [])


def _power_iteration(rng):
    matrix = torch.tensor(rng.normal(size=(4, 4)))

    def rayleigh(v):
        return (v @ (matrix @ matrix.T) @ v) / (v @ v)

    def step(v):
        old, new = torch.zeros((), dtype=torch.float64), rayleigh(v)
        while (new - old).abs() > 1e-7 * new:
            v = matrix @ (matrix.T @ v)
            v = v / v.norm()
            old, new = new, rayleigh(v)
        return new, v

    return step, lambda scale: (torch.tensor(rng.normal(size=4) * scale),), lambda: (matrix, [])


@pytest.mark.parametrize("make", [_fixed_point, _newton, _power_iteration])
def test_a_loop_that_data_ends_is_one_loop(make):
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    step, batch, left = make(rng)
    plain, same_batch, plainly_left = make(other)
    compiled = torch.compile(step)
    for scale in (1.0, 0.1, 0.5, 3.0, 1e-3, 2.0, 30.0, 0.2, 1e-5, 1.0, 1e3, 5.0):
        for one, two in zip(compiled(*batch(scale)), plain(*same_batch(scale)), strict=True):
            assert type(one) is type(two)
            np.testing.assert_allclose(np.asarray(one), np.asarray(two), rtol=1e-9, atol=1e-12)
    (mine, turns), (theirs, plain_turns) = left(), plainly_left()
    np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-9)
    assert turns == plain_turns and all(type(n) is int for n in turns)
    assert not compiled.stats.live and compiled.stats.traces <= 2
    assert "turns until it stops by itself" in compiled.explain(level="all")


@pytest.mark.parametrize("kind", ["requires gradients", "writes in place", "draws", "keeps"])
def test_a_loop_that_data_ends_and_does_more_is_a_path_for_each_count(kind):
    def make():
        torch.manual_seed(3)
        w = torch.tensor([0.5, 0.25], requires_grad=True)
        total, kept = torch.zeros(2), []

        def step(x):
            w.grad = None
            z = x * w if kind == "requires gradients" else x * 1.0
            while z.sum().item() > 1.0:
                z = z * 0.5
                if kind == "writes in place":
                    total.add_(z)
                if kind == "draws":
                    z = z * torch.rand(2)
                if kind == "keeps":
                    kept.append(z)
            loss = (z * w).sum()
            loss.backward()
            return loss.detach(), len(kept)

        return step, w, total, kept

    mine, plain = make(), make()
    compiled = torch.compile(mine[0])
    for scale in (8.0, 3.0, 20.0, 1.0, 8.0, 3.0, 50.0, 8.0, 0.1, 20.0):
        x = torch.tensor([scale, scale / 2])
        state = torch.get_rng_state() if hasattr(torch, "get_rng_state") else None
        if state is None:
            torch.manual_seed(int(scale * 10))
        found = compiled(x)
        if state is None:
            torch.manual_seed(int(scale * 10))
        else:
            torch.set_rng_state(state)
        expected = plain[0](x)
        assert abs(found[0].item() - expected[0].item()) < 1e-6 and found[1] == expected[1]
        np.testing.assert_allclose(mine[1].grad.numpy(), plain[1].grad.numpy(), rtol=1e-6)
        np.testing.assert_allclose(mine[2].numpy(), plain[2].numpy(), rtol=1e-6)
        assert mine[2]._version == plain[2]._version and len(mine[3]) == len(plain[3])
