"""Random steps: a compiled step and its eager twin, over the same tensors, stay equal whatever happens between calls.

A *world* is a few tensors (leaves that require gradients, buffers, views, detached aliases; a number and a vector that
are on the host wherever the others are) and Python settings.  A
step is a random program over it: arithmetic, in-place writes, views, branches on settings and on values,
``backward``, ``.grad`` read and cleared.  Between calls the world is changed from outside: values, flags, settings,
memory.
"""

import random

import numpy as np
import pytest

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


def run(seed, device="cpu"):
    text = program(seed)
    worlds = [World(seed, device), World(seed, device)]
    steps = []
    for world in worlds:
        space = {"world": world, "torch": torch}
        exec(compile(text, f"<step {seed}>", "exec"), space)
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


@pytest.mark.parametrize("seed", range(40))
def test_random_steps(seed):
    run(seed)


if __name__ == "__main__":
    import sys

    live = replayed = 0
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        stats = run(seed)
        live += bool(stats.live)
        replayed += stats.traces < stats.calls // 2
    print(f"{live} ran eagerly, {replayed} were mostly replayed")
