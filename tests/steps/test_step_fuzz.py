"""Random steps: a compiled step and its eager twin, over the same tensors, stay equal whatever happens between calls.

A *world* is a few tensors (leaves that require gradients, buffers, views, detached aliases; a number and a vector that
are on the host wherever the others are) and Python settings.  A
step is a random program over it: arithmetic, in-place writes, views, branches on settings and on values,
``backward``, ``.grad`` read and cleared.  Between calls the world is changed from outside: values, flags, settings,
memory.  A second kind of program goes through loops, which are rolled where that can be proven.
"""

import random

import numpy as np
import pytest
from selection import seeds
from with_source import code_of

import tracegrad as torch

NAMES = ("w", "v", "buffer", "other")


class World:
    """Tensors and settings; two worlds made from one seed are equal."""

    def __init__(self, seed, device="cpu"):
        rng = np.random.default_rng(seed)
        self.device = device
        self.w = torch.tensor(rng.normal(size=(3, 2)), device=device, requires_grad=True)
        self.v = torch.tensor(rng.normal(size=2), device=device, requires_grad=True)
        self.buffer = torch.tensor(rng.normal(size=(3, 2)), device=device)
        self.other = torch.tensor(rng.normal(size=2), device=device)
        self.view = self.buffer[1:]
        self.alias = self.other.detach()
        self.number, self.vector = torch.tensor(1.5), torch.tensor([0.5, -0.25])
        self.batch = np.array([1.5, -0.5])
        self.flag = True
        self.scale = 1.5
        self.count = 2
        self.items = [0.5, 2.0]

    def state(self):
        found = {}
        for name in (*NAMES, "view", "alias", "number", "vector"):
            t = getattr(self, name)
            found[f"{name}.version"] = t._version
            found[name] = t.detach().cpu().numpy().copy()
            found[f"{name}.grad"] = None if t.grad is None else t.grad.detach().cpu().numpy().copy()
            found[f"{name}.facts"] = t.requires_grad, t.device.type
        return found


def values(choice):
    """Expressions over x, of shape (3, 2) or () or (2,), as text."""
    return choice.choice([
        "world.w * x", "(world.w + world.buffer).tanh()", "world.buffer * world.v", "x @ world.w.t() @ world.w",
        "(world.w * world.w).sum() * x", "world.view.sum() + world.w", "world.alias * world.w",
        "torch.where(x > 0, world.w, world.buffer)", "(world.w * world.scale)", "world.w ** world.count",
        "world.w * world.items[1]", "torch.cat([world.view, world.w[:1]])", "world.w.exp().clamp(max=3.0)",
        "(world.w - world.w.mean(0)) * x", "world.other + world.w * 0.5",
        "world.number * world.w", "world.w / (world.number * world.number + 1.0).exp()",
        "world.vector.to(world.device) * world.w", "torch.tensor(world.batch, device=world.device) * world.w",
    ])  # fmt: skip


def statement(choice, depth=0):
    kind = choice.randrange(15)
    if kind == 0:
        return ["with torch.no_grad():", f"    world.buffer.mul_({choice.uniform(0.5, 1.1):.3f})"]
    if kind == 1:
        return ["with torch.no_grad():", "    world.view.add_(x[1:] * 0.1)"]
    if kind == 2:
        return ["with torch.no_grad():", "    world.alias += x.sum(0) * 0.01"]
    if kind == 3 and depth < 2:
        test = choice.choice(
            [
                "world.flag",
                "x.sum() > 0",
                "world.other[0] > 0",
                "world.w.grad is None",
                "total > 1.0",
                "world.number > 2.0",
            ]
        )
        inner = [f"    {line}" for line in statement(choice, depth + 1)]
        return [f"if {test}:", *inner]
    if kind == 4:
        return ["world.w.grad = None"]
    if kind == 5:
        return ["h = total * 2.0", "h += x.sum()", "total = total + h"]
    if kind == 6:
        return ["with torch.no_grad():", "    if world.w.grad is not None:", "        world.w -= 0.05 * world.w.grad"]
    if kind == 7:
        return ["(total * 0.5 + (world.v * world.v).sum()).backward(retain_graph=True)"]
    if kind == 8:
        return ["y = x * 1.0", "y[1] = world.v", "total = total + (y * y).sum()"]
    if kind == 9:
        return ["with torch.no_grad():", "    world.number.mul_(0.9).add_(0.3)"]
    if kind == 10:
        return [
            "with torch.no_grad():",
            "    world.vector.mul_(world.number)",
            "    world.buffer *= world.number * 0.6",
        ]
    return [f"total = total + ({values(choice)}).sum() * {choice.uniform(0.1, 1.0):.3f}"]


def program(seed):
    choice = random.Random(seed)
    lines = ["total = (world.w * x).sum()"]
    for _ in range(choice.randrange(2, 6)):
        lines += statement(choice)
    if choice.random() < 0.7:
        lines += ["world.w.grad = None"] * (choice.random() < 0.7)
        lines += ["total.backward()"]
        lines += ["with torch.no_grad():", "    world.w -= 0.01 * world.w.grad"] * (choice.random() < 0.7)
    lines += ["return total * 1.0"]
    return "def step(x):\n" + "".join(f"    {line}\n" for line in lines)


TRIPS = (2, 6, 17, 18, 23)


def turn(choice):
    """A statement of a loop's body over the state ``h`` and ``k`` [3, 2], ``seq`` [turns, 3, 2], the turn's number
    ``t``, and lists ``ys`` and ``rows``."""
    gain = f"{choice.uniform(0.2, 0.9):.3f}"
    return choice.choice([
        [f"h = torch.tanh(h @ world.w.t() @ world.w * {gain} + seq[t])"],
        [f"h = torch.sigmoid(h) * world.v + {gain} * seq[t] * k"],
        ["h, k = k * 0.5 + x, h * 0.5"],
        [f"k = torch.where(h > 0, k * {gain}, h.exp().clamp(max=1.5))"],
        ["ys.append(h * k)"],
        ["ys.append(h.detach() * world.w)"],
        ["out[t] = h * 0.5"],
        ["out[t, 1:] = k[1:] * world.v"],
        [f"out = out * {gain} + k"],
        ["total = total + (h * seq[t]).sum() * 0.1"],
        ["rows.append(h[0].sum() + k.sum() * world.scale)"],
        ["with torch.no_grad():", f"    world.buffer.mul_({gain}).add_(h * 0.1)"],
        ["with torch.no_grad():", f"    world.alias.copy_(torch.tanh(world.alias + {gain} * h[0]))"],
        ["with torch.no_grad():", "    k = k * 0.9 + 0.1 * h"],
        ["h = h.detach() + world.w * 0.1"],
        ["h = h.clone()", f"h[1] = torch.tanh(h[2] * {gain} + world.v)"],
        ["k = torch.cat([h[1:], k[:1]]) * 0.7"],
        ["if h.sum() > 0.5:", "    h = h * 0.5"],
        ["if t % 2:", "    k = k * 0.5 + world.other"],
        ["if world.flag:", "    h = h + k * 0.1"],
        ["for s in range(3):", "    k = torch.tanh(k + h[s] * 0.3)"],
        ["(g,) = torch.autograd.grad((k * h * world.w).sum(), world.w, retain_graph=True)", "h = h - 0.05 * g"],
        ["p = torch.tanh(k.detach()).requires_grad_()", "(p * p * world.w).sum().backward()", "k = k - 0.1 * p.grad"],
    ])  # fmt: skip


def looping(seed):
    """As ``program``, with a loop or two."""
    choice = random.Random(seed)
    lines = ["total = (world.w * x).sum()", "ys, rows = [], []", "h, k = x * 1.0, world.buffer * 0.5"]
    for _ in range(choice.choice([1, 1, 2])):
        n = choice.choice(TRIPS)
        positions = choice.choice([f"range({n})", f"range({n})", f"reversed(range({n}))"])
        lines += [f"seq = torch.linspace(0.1, 1.0, {n}).reshape(-1, 1, 1) * world.w + x"]
        lines += [f"out = torch.zeros({n}, 3, 2)", f"for t in {positions}:"]
        lines += ["    h = torch.tanh(h * 0.8 + k * 0.1)"] * (choice.random() < 0.8)
        for _ in range(choice.randrange(1, 5)):
            lines += [f"    {line}" for line in turn(choice)]
        lines += ["total = total + (out * out).sum() + (h * k).sum()"]
    lines += ["if ys:", "    total = total + (torch.stack(ys) ** 2).mean()"]
    lines += ["if rows:", "    total = total + torch.stack(rows).sum() * 0.1"]
    if choice.random() < 0.8:
        lines += ["world.w.grad = None"] * (choice.random() < 0.7)
        lines += ["total.backward()"]
        lines += ["with torch.no_grad():", "    world.w -= 0.01 * world.w.grad"] * (choice.random() < 0.7)
    lines += ["return total * 1.0"]
    return "def step(x):\n" + "".join(f"    {line}\n" for line in lines)


def disturb(choice, worlds):
    """The same change from outside in every world."""
    kind = choice.randrange(14)
    value = choice.uniform(-1.0, 1.0)
    name = choice.choice(NAMES)
    for world in worlds:
        t = getattr(world, name)
        with torch.no_grad():
            if kind == 0:
                t.add_(value)
            elif kind == 1:
                if t is not world.buffer and t is not world.other:
                    t.data = torch.full(t.shape, value, device=world.device)
            elif kind == 2:
                world.flag = not world.flag
            elif kind == 3:
                world.scale = value
            elif kind == 4:
                world.items[1] = value
            elif kind == 5:
                world.count = 3 if world.count == 2 else 2
            elif kind == 6:
                world.w.grad = None
            elif kind == 7:
                world.v.requires_grad_(not world.v.requires_grad)
            elif kind == 8:
                world.v = torch.full((2,), value, device=world.device, requires_grad=True)
            elif kind == 9:
                world.view[0] = value
            elif kind == 10:
                world.w.grad = torch.full((3, 2), value, device=world.device)


def run(seed, program=program, device="cpu"):
    text = program(seed)
    worlds = [World(seed, device), World(seed, device)]
    steps = []
    for world in worlds:
        space = {"world": world, "torch": torch}
        exec(code_of(text, f"step {seed}"), space)
        steps.append(space["step"])
    steps[1] = torch.compile(steps[1])
    choice = random.Random(seed + 1)
    rng = np.random.default_rng(seed)
    batches = [torch.tensor(rng.normal(size=(3, 2)), device=device) for _ in range(3)]
    for call in range(14):
        x = choice.choice(batches)
        outcomes = []
        for step in steps:
            try:
                outcomes.append(step(x).item())
            except Exception as error:
                outcomes.append(type(error).__name__)
        where = f"seed {seed}, call {call}:\n{text}\n{steps[1].stats}"
        if isinstance(outcomes[0], str) or isinstance(outcomes[1], str):
            assert outcomes[0] == outcomes[1], where
        else:
            np.testing.assert_allclose(outcomes[1], outcomes[0], rtol=1e-9, atol=1e-11, err_msg=where)
        states = [world.state() for world in worlds]
        for name, value in states[0].items():
            ours = states[1][name]
            if isinstance(value, np.ndarray) and isinstance(ours, np.ndarray):
                np.testing.assert_allclose(ours, value, rtol=1e-8, atol=1e-10, err_msg=f"{name}, {where}")
            else:
                assert (value is None) == (ours is None) and (value is None or value == ours), f"{name}, {where}"
        if choice.random() < 0.5:
            disturb(choice, worlds)
    return steps[1].stats


@pytest.mark.parametrize("seed", seeds(15, quick=8))
def test_random_steps(seed):
    run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(5, quick=2))
def test_random_steps_with_loops(seed):
    run(seed, looping)


if __name__ == "__main__":
    import sys

    live = replayed = 0
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        stats = run(seed, looping if "loops" in sys.argv else program)
        live += bool(stats.live)
        replayed += stats.traces < stats.calls // 2
    print(f"{live} ran eagerly, {replayed} were mostly replayed")
