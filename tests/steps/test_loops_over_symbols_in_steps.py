"""Loops in steps of which one iteration is recorded: results, gradients and states are those of eager code, and what is
recorded does not depend on the number of iterations."""

import numpy as np
import pytest
from selection import seeds, some
from step_loop_programs import compared
from with_source import code_of

import tracegrad as torch
from tracegrad import nn

FEW, MANY = 20, 150


def array(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape) * 0.4


def tensor(seed, *shape, grad=False):
    return torch.tensor(array(seed, *shape), requires_grad=grad)


def rows(n):
    w = tensor(1, 5, 5, grad=True)

    def step(x):
        w.grad, h, loss = None, torch.zeros(4, 5, dtype=x.dtype), 0.0
        for row in x:
            h = torch.tanh(h @ w + row)
            loss = loss + (h * h).mean()
        loss.backward()
        return loss.detach()

    return step, tensor(0, n, 4, 5), [w]


def rows_together(n):
    w, v = tensor(1, 5, 5, grad=True), tensor(2, n, 4, 5)

    def step(x):
        w.grad, h, losses = None, torch.zeros(4, 5, dtype=x.dtype), []
        for t, (a, b) in enumerate(zip(x, v, strict=True)):
            h = torch.tanh(h @ w + a) * (1.0 - t / n)
            losses.append(((h - b) ** 2).mean())
        loss = torch.stack(losses).mean()
        loss.backward()
        return loss.detach(), losses[-1].detach(), losses[3].detach()

    return step, tensor(0, n, 4, 5), [w]


def summed(n):
    w = tensor(1, 5, 5, grad=True)

    def step(x):
        w.grad, h, losses = None, torch.zeros(4, 5, dtype=x.dtype), []
        for t in range(n):
            h = torch.tanh(h @ w + x[t])
            losses.append((h**2).mean())
        loss = sum(losses) / len(losses)
        loss.backward()
        return loss.detach()

    return step, tensor(0, n, 4, 5), [w]


def lists(n):
    w, u = tensor(1, 5, 5, grad=True), tensor(2, 5, 5, grad=True)

    def step(x):
        w.grad = u.grad = None
        h, ys = x[0], []
        for t in range(1, n):
            h = torch.tanh(h @ w + x[t])
            ys.append(h)
        g = x[1]
        for y in reversed(ys):
            g = torch.tanh(g @ u + y)
        loss = (g * g).sum() + torch.cat(ys, 1).mean() + torch.stack(ys, 1).sum() * 0.1 + (ys[-1] * ys[2]).sum()
        loss.backward()
        return g.detach(), ys[-1].detach()

    return step, tensor(0, n, 4, 5), [w, u]


def leapfrog(n):
    w, q0 = tensor(1, 5, 5, grad=True), tensor(2, 5)

    def force(q):
        q = q.detach().requires_grad_()
        energy = (torch.tanh(q @ w) ** 2).sum() + (q * q).sum() * 0.5
        return torch.autograd.grad(energy, q)[0]

    def step(p):
        q = q0
        for _ in range(n):
            p = p - 0.005 * force(q)
            q = q + 0.01 * p
            p = p - 0.005 * force(q)
        return q * 1.0, p

    return step, tensor(0, 5), [w]


def module_with_a_state(n):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(5, 5).to(torch.float64), nn.Linear(5, 5).to(torch.float64)
            self.h = None

        def forward(self, x):
            self.h, found = torch.zeros(4, 5, dtype=x.dtype), []
            for row in x:
                self.h = torch.tanh(self.outer(row) + self.inner(self.h))
                found.append(self.h)
            self.h = self.h.detach()
            return torch.stack(found)

    model = Recurrent()
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(tensor(k, *p.shape))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach(), model.h

    return step, tensor(0, n, 4, 5), [*model.parameters()]


def descent(n):
    w, v = tensor(1, 5, 5, grad=True), tensor(2, n, 4, 5)
    optimizer = torch.optim.Adam([w], lr=0.01)

    def step(x):
        for row, target in zip(x, v, strict=True):
            optimizer.zero_grad()
            loss = ((torch.tanh(row @ w) - target) ** 2).mean()
            loss.backward()
            optimizer.step()
        return loss.detach()

    return step, tensor(0, n, 4, 5), [w]


def written_rows(n):
    w, kept = tensor(1, 5, 5, grad=True), tensor(9, n, 4, 5)

    def step(x):
        w.grad, h = None, x[0]
        out, total = torch.zeros(n, 4, 5, dtype=x.dtype), torch.zeros(4, 5, dtype=x.dtype)
        for t in range(n):
            h = torch.tanh(h @ w + x[t])
            total += h
            out[t] = h * 0.5
            out[t] += x[t]
            with torch.no_grad():
                kept[t] = h
        ((total**2).mean() + (out**3).sum()).backward()
        return total.detach(), out.detach()

    return step, tensor(0, n, 4, 5), [w, kept]


def written_first(n):
    """The first that the run sees of the tensor is in the loop, which writes it."""
    w = tensor(1, 5, 5, grad=True)

    def step(x):
        for t in range(n):
            (g,) = torch.autograd.grad((torch.tanh(x[t] @ w) ** 2).mean(), [w])
            with torch.no_grad():
                w.sub_(g * 0.1)
        return g

    return step, tensor(0, n, 4, 5), [w]


def the_same_in_each(n):
    """What does not depend on the iteration counts as often as there are iterations."""
    w = tensor(1, 5, 5, grad=True)

    def step(x):
        w.grad, loss = None, torch.zeros((), dtype=x.dtype)
        g = torch.tanh(x[0] @ w)
        for _ in range(n):
            loss = loss + g.sum() * 0.5
        loss.backward()
        return loss.detach()

    return step, tensor(0, n, 4, 5), [w]


def detached(n):
    w = tensor(1, 5, 5, grad=True)

    def step(x):
        w.grad, h, mean, total = None, torch.zeros(4, 5, dtype=x.dtype), x[0], 0.0
        for t in range(n):
            with torch.no_grad():
                mean = 0.9 * mean + 0.1 * h @ w
            scale = float(h.mean()) + 1.0
            h = torch.tanh(h.detach() @ w + x[t] * w.detach().mean() - mean) * scale
            total = total + (h**2).mean() + (h * w.data[0]).sum()
        total.backward()
        return mean

    return step, tensor(0, n, 4, 5), [w]


def states_before(n):
    w = tensor(1, 5, 5, grad=True)

    def step(x):
        w.grad, h, before = None, torch.tanh(x[0] @ w), []
        for t in range(n):
            before.append(h)
            h = torch.tanh(h @ w + x[t])
        loss = (torch.stack(before) ** 2).mean() + before[0].sum() + h.sum()
        loss.backward()
        return before[0].detach(), before[2].detach(), h.detach()

    return step, tensor(0, n, 4, 5), [w]


def one_object_in_a_list_and_a_name(n):
    w = tensor(1, 5, 5)

    def step(x):
        h, g, ys, zs = x[0] * 1.0, x[1] * 2.0, [], []
        for t in range(n):
            h = torch.tanh(h @ w + x[t])
            ys.append(h)
            zs.append(h)
        ys[3].mul_(2.0)
        h.add_(1.0)
        return ys[-1] * 1.0, zs[3] * 1.0, torch.stack(ys) + torch.stack(zs), g

    return step, tensor(0, n, 4, 5), [w]


def passed_on(n):
    w = tensor(1, 4, 5, grad=True)

    def step(x):
        w.grad, a, b, total = None, torch.tanh(x[0] * w), torch.sigmoid(x[1] * w), 0.0
        for t in range(n):
            a, b = b, a
            total = total + (a * x[t]).sum() - (b * b).mean()
        (total + (a * 2.0 - b).sum()).backward()
        a.detach().add_(1.0)
        return a.detach() * 1.0, b.detach() * 1.0

    return step, tensor(0, n, 4, 5), [w]


def earlier_iterations(n):
    """A backward in each iteration goes on into those before."""
    w = tensor(1, 5, 5, grad=True)

    def step(x):
        w.grad, h = None, torch.zeros(4, 5, dtype=x.dtype)
        for t in range(n):
            h = torch.tanh(h @ w * 0.5 + x[t])
            (h * h).mean().backward(retain_graph=True)
        return h.detach()

    return step, tensor(0, n, 4, 5), [w]


CASES = [
    rows, rows_together, summed, lists, leapfrog, module_with_a_state, descent, written_rows, written_first,
    the_same_in_each, detached, states_before, one_object_in_a_list_and_a_name, passed_on,
]  # fmt: skip


def plain(found):
    return [t.detach().numpy().copy() for t in (found if isinstance(found, tuple) else (found,))]


def checked(case, n):
    """The program of the compiled step, after some calls that gave and left what the eager one does."""
    (eager, x, known), (step, _, ours) = case(n), case(n)
    step = torch.compile(step)
    for _ in range(4):
        found, expected = plain(step(x)), plain(eager(x))
        for a, b in ((ours, known), ([t.grad for t in ours], [t.grad for t in known])):
            assert [t is None for t in a] == [t is None for t in b]
            found += plain(tuple(t for t in a if t is not None))
            expected += plain(tuple(t for t in b if t is not None))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-11)
    assert step.stats.live == "" and "log is not closed" not in step.explain(level="all")
    return step._endpoint.paths[0].recording.graph.nodes


@pytest.mark.parametrize("case", some(CASES, quick=6))
def test_what_is_recorded_does_not_depend_on_the_number_of_iterations(case):
    few, many = checked(case, FEW), checked(case, MANY)
    assert len(few) == len(many)
    assert any(node.prim.kind == "loop" for node in many) or case is the_same_in_each


@pytest.mark.parametrize("n", [7, 8])
@pytest.mark.parametrize("case", [passed_on, earlier_iterations, states_before, one_object_in_a_list_and_a_name])
def test_any_number_of_iterations(case, n):
    checked(case, n)


@pytest.mark.parametrize("start", seeds(40, quick=2, block=4))
def test_random_steps_with_loops(start):
    for seed in range(start, start + 4):
        agrees, _, text = compared(seed)
        assert agrees, f"seed {seed}:\n{text}"


def test_a_loop_that_writes_and_ends_by_data_is_recorded_for_its_number_of_iterations():
    """The version of a tensor says how often it was written."""

    def make():
        total = torch.zeros(2)

        def step(x):
            while x.sum().item() > 1.0:
                x = x * 0.5
                total.add_(x)
            return x

        return step, total

    (step, total), (eager, known) = make(), make()
    compiled = torch.compile(step)
    for scale in (8.0, 3.0, 20.0, 8.0, 1.0, 3.0):
        x = torch.tensor([scale, scale / 2])
        np.testing.assert_allclose(compiled(x).numpy(), eager(x).numpy())
        assert total._version == known._version
        np.testing.assert_allclose(total.numpy(), known.numpy())


@pytest.mark.parametrize("again", [False, True])
def test_a_graph_is_freed_by_its_backward(again):
    w = tensor(1, 5, 5, grad=True)

    def step(x):
        w.grad, h = None, torch.zeros(4, 5, dtype=x.dtype)
        for row in x:
            h = torch.tanh(h @ w + row)
        loss = (h * h).sum()
        loss.backward(retain_graph=again)
        loss.backward()
        return loss.detach()

    for run in (step, torch.compile(step)):
        for _ in range(2):
            if again:
                run(tensor(0, FEW, 4, 5))
                found = w.grad.numpy().copy()
                continue
            with pytest.raises(RuntimeError, match="second time"):
                run(tensor(0, FEW, 4, 5))
    if again:
        step(tensor(0, FEW, 4, 5))
        np.testing.assert_allclose(found, w.grad.numpy(), rtol=1e-10)


def test_what_is_overwritten_in_a_later_iteration_is_an_error_of_the_backward():
    w = tensor(1, 5, 5, grad=True)

    def step(x):
        total, loss = torch.zeros(4, 5, dtype=x.dtype), 0.0
        for row in x:
            total += row @ w
            loss = loss + (total * total).sum()
        loss.backward()
        return loss.detach()

    for run in (step, torch.compile(step)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run(tensor(0, FEW, 4, 5))


def test_detached_rows_of_a_tensor_from_outside_are_each_its_own():
    def step(x):
        kept = list(x)
        return kept[3].detach(), kept[5].detach(), x[7].detach()

    x = tensor(0, 10, 4)
    compiled = torch.compile(step)
    for _ in range(3):
        for k, row in zip((3, 5, 7), compiled(x), strict=True):
            np.testing.assert_array_equal(row.numpy(), x.numpy()[k])


def test_a_refusal_is_told():
    w = tensor(1, 5, 5, grad=True)

    def step(x):
        w.grad, h = None, x[0]
        for t in range(FEW):
            h = torch.tanh(h @ w + x[t])
            if t % 3 == 0:
                h = h * 0.5
        h.sum().backward()
        return h.detach()

    compiled = torch.compile(step)
    for _ in range(2):
        np.testing.assert_allclose(compiled(tensor(0, FEW, 4, 5)).numpy(), step(tensor(0, FEW, 4, 5)).numpy())
    assert "has other answers in other iterations" in compiled.explain(level="all")


@pytest.mark.parametrize("iterations", [1, 2, 3, 20])
@pytest.mark.parametrize("nested", [False, True])
def test_what_only_the_first_iterations_read_has_no_grad(iterations, nested):
    rng = np.random.default_rng(3)
    x, start = torch.tensor(rng.normal(size=(20, 3, 4))), rng.normal(size=(4, 4))

    def grads(wrap):
        w, v = (torch.tensor(start, requires_grad=True) for _ in range(2))

        def step(x):
            w.grad = v.grad = None
            g, h = torch.tanh(x[0] @ w), x[0]
            for i in range(iterations):
                for row in x[:17] if nested else [x[i]]:
                    h, g = g * 0.3, torch.tanh(row @ v) * 0.3
            ((h * h).sum() + g.sum()).backward()

        run = wrap(step)
        for _ in range(3):
            run(x)
        return [None if t.grad is None else t.grad.numpy() for t in (w, v)]

    for found, wanted in zip(grads(torch.compile), grads(lambda step: step), strict=True):
        assert (found is None) == (wanted is None)
        if wanted is not None:
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


# what the loss does not depend on, though the loop computes it
UNREAD = {
    "dead": "q = torch.tanh(h @ v); h = torch.tanh(h @ w + row)",
    "beside what is detached of it": "q = torch.tanh(h @ v); h = torch.tanh(h @ w + v.detach() + row)",
    "detached": "q = torch.tanh(row @ v); h = torch.tanh(h @ w + q.detach())",
    "a loop": "q = row\n        for other in x[:17]: q, h = torch.tanh(q @ v), torch.tanh(h @ w + other)",
    "rows": "ys.append(torch.tanh(row @ v)); h = torch.tanh(h @ w + row)",
}
READ = {  # what it does depend on, with derivatives of 0
    "power": "q = (q @ v) ** 0; h = torch.tanh(h @ w + row)",
    "angle": "q = torch.angle(row @ v); h = torch.tanh(h @ w + row)",
}


@pytest.mark.parametrize(
    ("body", "loss"), [*[(b, "h.sum()") for b in UNREAD.values()], *[(b, "(h + q).sum()") for b in READ.values()]]
)
def test_what_a_loop_computes_and_no_loss_reads_has_no_grad(body, loss):
    text = f"""
def step(x):
    w.grad = v.grad = None
    h, q, ys = x[0], x[0], []
    for row in x:
        {body.replace("; ", chr(10) + "        ")}
    ({loss}).backward()
    return h.detach()
"""

    def grads(wrap):
        world = {"torch": torch, "w": tensor(1, 4, 4, grad=True), "v": tensor(2, 4, 4, grad=True)}
        exec(code_of(text, "step"), world)
        run = wrap(world["step"])
        for _ in range(3):
            run(tensor(3, FEW, 4, 4))
        return run, [world[name].grad for name in "wv"]

    (compiled, found), (_, wanted) = grads(torch.compile), grads(lambda step: step)
    assert compiled.stats.traces == 1
    assert [t is None for t in found] == [t is None for t in wanted] == [False, body in UNREAD.values()]
    for one, other in zip(found, wanted, strict=True):
        if other is not None:
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


KEPT = {"pair": [[1.0], [2.0]]}


@pytest.mark.parametrize("iterations", [3, 17])
def test_what_a_loop_finds_outside_stays_what_it_is(iterations):
    @torch.compile
    def step(x):
        k = 0
        while k < iterations:
            k += 1
            KEPT["pair"] = [KEPT["pair"][1], KEPT["pair"][0]]
        return x.sum()

    for _ in range(4):
        first, second = KEPT["pair"]
        step(tensor(0, 3))
        assert KEPT["pair"][0] is second
        assert KEPT["pair"][1] is first
