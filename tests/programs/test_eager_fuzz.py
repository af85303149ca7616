"""Short random programs of views, writes and arithmetic.  Each runs node by node and compiled, which must agree; where
it can be differentiated numerically, with finite differences; and, where PyTorch is installed, on both libraries, with
the same values, flags, errors and gradients.

A program is a list of steps over a growing list of tensors.  A step that raises leaves everything as it was, so the
error is part of what is compared.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from selection import seeds

import tracegrad
from tracegrad.tensors import compiled_backward

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch's

Step = tuple[Any, ...]

ONE = {
    "neg": lambda T, x: -x,
    "exp": lambda T, x: x.clamp(max=3).exp(),
    "sin": lambda T, x: x.sin(),
    "tanh": lambda T, x: x.tanh(),
    "sigmoid": lambda T, x: x.sigmoid(),
    "relu": lambda T, x: x.relu(),
    "abs": lambda T, x: x.abs(),
    "square": lambda T, x: x * x,
    "log": lambda T, x: (x.abs() + 0.1).log(),
    "sqrt": lambda T, x: (x * x + 0.1).sqrt(),
    "clamp": lambda T, x: x.clamp(-0.7, 0.9),
    "clone": lambda T, x: x.clone(),
    "softmax": lambda T, x: x.softmax(-1),
    "cumsum": lambda T, x: x.cumsum(0),
    "mask": lambda T, x: x[x > 0],
    "rows": lambda T, x: x[T.tensor([0, -1])],
    "sum": lambda T, x: x.sum(0),
    "mean": lambda T, x: x.mean(-1, keepdim=True),
    "max": lambda T, x: x.max(0)[0],
    "flip": lambda T, x: x.flip(0),
    "repeat": lambda T, x: x.unsqueeze(0).repeat_interleave(2, 0),
    "plus": lambda T, x: x + 0.5,
    "times": lambda T, x: x * -1.25,
}
TWO = {
    "add": lambda T, x, y: x + y,
    "sub": lambda T, x, y: x - y,
    "mul": lambda T, x, y: x * y,
    "div": lambda T, x, y: x / (y * y + 1),
    "where": lambda T, x, y: T.where(x > 0, x, y),
    "matmul": lambda T, x, y: x @ y,
    "cat": lambda T, x, y: T.cat([x, y]),
    "stack": lambda T, x, y: T.stack([x, y]),
    "maximum": lambda T, x, y: T.maximum(x, y),
}
VIEWS = {
    "row": lambda T, x: x[0],
    "last": lambda T, x: x[-1],
    "slice": lambda T, x: x[1:],
    "step": lambda T, x: x[::2],
    "column": lambda T, x: x[..., 0],
    "t": lambda T, x: x.transpose(0, -1),
    "view": lambda T, x: x.view(-1),
    "reshape": lambda T, x: x.reshape(-1),
    "flatten": lambda T, x: x.flatten(),
    "unsqueeze": lambda T, x: x.unsqueeze(0),
    "squeeze": lambda T, x: x.squeeze(),
    "diagonal": lambda T, x: x.diagonal(),
    "narrow": lambda T, x: x.narrow(0, 0, 1),
    "whole": lambda T, x: x[...],
    "expand": lambda T, x: x.expand(2, *x.shape),
}
WRITE = {
    "sin_": lambda T, x: x.sin_(),
    "tanh_": lambda T, x: x.tanh_(),
    "neg_": lambda T, x: x.neg_(),
    "sigmoid_": lambda T, x: x.sigmoid_(),
    "abs_": lambda T, x: x.abs_(),
    "zero_": lambda T, x: x.zero_(),
    "fill_": lambda T, x: x.fill_(0.5),
    "clamp_": lambda T, x: x.clamp_(-0.7, 0.9),
    "mul_": lambda T, x: x.mul_(-1.5),
    "add_": lambda T, x: x.add_(0.25),
    "square_": lambda T, x: x.pow_(2),
}
WRITE_TWO = {
    "add_": lambda T, x, y: x.add_(y),
    "sub_": lambda T, x, y: x.sub_(y),
    "mul_": lambda T, x, y: x.mul_(y),
    "copy_": lambda T, x, y: x.copy_(y),
    "div_": lambda T, x, y: x.div_(y * y + 1),
    "first": lambda T, x, y: x.__setitem__(0, y),
    "rest": lambda T, x, y: x.__setitem__(slice(1, None), y),
    "every second": lambda T, x, y: x.__setitem__(slice(None, None, 2), y),
    "all": lambda T, x, y: x.__setitem__(slice(None), y),
    "number": lambda T, x, y: x.__setitem__(-1, 0.75),
    "masked": lambda T, x, y: x.__setitem__(x.detach() > 0, 0.5),
}
CUT = {
    "detach": lambda T, x: x.detach(),
    "data": lambda T, x: x.data,
}
TABLES: dict[str, dict[str, Any]] = {
    "one": ONE, "two": TWO, "view": VIEWS, "write": WRITE, "write two": WRITE_TWO, "cut": CUT,
}  # fmt: skip
KINDS = ("one", "two", "view", "view", "write", "write two", "write two")
LEAVES = (0, 1, 2)


def start(T: Any, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=shape) for shape in ((2, 3), (3,), (3, 3), (2, 3), (3, 3))]
    return [T.tensor(a, dtype=T.float64, requires_grad=k in LEAVES) for k, a in enumerate(arrays)]


def draw(rng: random.Random, count: int, kinds: tuple[str, ...]) -> Step:
    kind = rng.choice(kinds)
    first = rng.randrange(count) if rng.random() < 0.5 else count - 1 - rng.randrange(min(count, 3))
    no_grad = "cut" in kinds and "write" in kind and rng.random() < 0.2
    return kind, rng.choice(list(TABLES[kind])), first, rng.randrange(count), no_grad


def take(T: Any, tensors: list[Any], step: Step) -> None:
    kind, name, i, j, no_grad = step
    function = TABLES[kind][name]
    operands = (tensors[i], tensors[j]) if "two" in kind else (tensors[i],)
    if no_grad:
        with T.no_grad():
            result = function(T, *operands)
    else:
        result = function(T, *operands)
    if "write" not in kind:
        tensors.append(result)


def attempt(T: Any, tensors: list[Any], step: Step) -> Exception | None:
    try:
        take(T, tensors, step)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return error
    return None


def program(seed: int, length: int, kinds: tuple[str, ...]) -> list[Step]:
    """Steps of which about half do not raise."""
    rng, tensors, steps = random.Random(seed), start(tracegrad, seed), []
    for _ in range(length):
        step = draw(rng, len(tensors), kinds)
        before = len(tensors)
        if attempt(tracegrad, tensors, step) is None:
            if len(tensors) > before and tensors[-1].numel() > 64:
                del tensors[-1]  # expanded too often
                continue
            steps.append(step)
        if any(t.numel() and float(t.detach().abs().max()) > 1e4 for t in tensors):
            break
    return steps


def roots_of(tensors: list[Any], seed: int) -> list[int]:
    """Where the results are whose sum is differentiated."""
    tracked = [k for k, t in enumerate(tensors) if t.requires_grad and not t.is_leaf]
    return random.Random(seed).sample(tracked, min(len(tracked), 3))


def loss(T: Any, tensors: list[Any], roots: list[int]) -> Any:
    """A sum in which all elements of the results count differently."""
    total = T.zeros((), dtype=T.float64)
    for t in [tensors[k] for k in roots]:
        total = total + (t * T.tensor(0.5 + np.arange(t.numel()).reshape(tuple(t.shape)) % 5, dtype=T.float64)).sum()
    return total


def run(T: Any, steps: list[Step], seed: int, roots: list[int] | None = None) -> list[np.ndarray] | str:
    """The gradients of the leaves; "none" where nothing is tracked, "error" where a saved value was overwritten."""
    tensors = start(T, seed)
    for step in steps:
        attempt(T, tensors, step)
    total = loss(T, tensors, roots_of(tensors, seed) if roots is None else roots)
    if not total.requires_grad:
        return "none"
    try:
        total.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error), error
        return "error"
    grads = [(tensors[k], tensors[k].grad) for k in LEAVES]
    return [np.zeros(tuple(t.shape)) if g is None else np.array(g.numpy()) for t, g in grads]


def same(a: Any, b: Any, tolerance: float) -> None:
    assert type(a) is type(b) and (isinstance(a, list) or a == b)
    for x, y in zip(a, b, strict=True) if isinstance(a, list) else ():
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("block", seeds(5, quick=1))
def test_both_tiers(block):
    compiled = 0
    for seed in range(1000 * block, 1000 * block + 9):
        steps = program(seed, 14, (*KINDS, "cut"))
        compiled_backward.clear()
        first = run(tracegrad, steps, seed)
        for _ in range(2):
            same(run(tracegrad, steps, seed), first, 1e-12)
        compiled += compiled_backward.tapes.compiled
    assert compiled >= 6
    compiled_backward.clear()


def value(arrays: list[np.ndarray], steps: list[Step], seed: int, roots: list[int]) -> float:
    tensors = start(tracegrad, seed)
    with tracegrad.no_grad():
        for k, a in zip(LEAVES, arrays, strict=True):
            tensors[k].copy_(tracegrad.tensor(a))
    for step in steps:
        attempt(tracegrad, tensors, step)
    return loss(tracegrad, tensors, roots).item()


@pytest.mark.parametrize("block", seeds(4, quick=1))
def test_finite_differences(block):
    checked = 0
    for seed in range(1000 * block + 100, 1000 * block + 118):
        steps = program(seed, 10, KINDS)
        compiled_backward.clear()
        grads = run(tracegrad, steps, seed)
        if not isinstance(grads, list) or not np.isfinite(np.concatenate([g.ravel() for g in grads])).all():
            continue
        same(run(tracegrad, steps, seed), grads, 1e-12)
        arrays = [t.detach().numpy() for t in start(tracegrad, seed)[: len(LEAVES)]]
        rng = np.random.default_rng(seed)
        direction = [rng.normal(size=a.shape) for a in arrays]

        tensors = start(tracegrad, seed)
        for step in steps:
            attempt(tracegrad, tensors, step)
        what = steps, seed, roots_of(tensors, seed)

        def slope(h, arrays=arrays, direction=direction, what=what):
            up, down = ([a + s * h * d for a, d in zip(arrays, direction, strict=True)] for s in (1, -1))
            return (value(up, *what) - value(down, *what)) / (2 * h)

        expected = sum(float((g * d).sum()) for g, d in zip(grads, direction, strict=True))
        near, nearer = slope(1e-5), slope(3e-6)
        if abs(near - nearer) > 1e-4 * (1 + abs(near)):  # a kink or a mask lies in between
            continue
        assert abs(nearer - expected) <= 1e-4 * (1 + abs(expected)), (seed, steps)
        checked += 1
    assert checked >= 8
    compiled_backward.clear()


# ---- against PyTorch -----------------------------------------------------------------------------------------------

# Where one library refuses and the other gives the right answer.
STRICTER = (
    "returns multiple views", "refer to a single memory location", "no_grad mode", "refers to a single memory location",
    "is being used in an in-place operation", "view size is not compatible",
)  # fmt: skip


def overlapping(tensors: list[Any], step: Step) -> bool:
    """The step reads memory that it writes, by way of another view."""
    if step[0] != "write two" or step[2] == step[3]:
        return False
    x, y = tensors[step[2]].detach().numpy(), tensors[step[3]].detach().numpy()
    return np.may_share_memory(x, y)


def in_place(tensors: list[Any], step: Step) -> bool:
    """The step's result shows the memory of its operand."""
    return np.may_share_memory(tensors[-1].detach().numpy(), tensors[step[2]].detach().numpy())


def counted(steps: list[Step]) -> list[Step]:
    """The same program, in which writes into the memory of ``.data`` are counted."""
    return [("cut", "detach", *step[2:]) if step[:2] == ("cut", "data") else step for step in steps]


def compare(torch: Any, seed: int) -> bool:
    """Whether gradients were compared."""
    rng, mine, theirs, steps = random.Random(seed), start(tracegrad, seed), start(torch, seed), []
    for _ in range(16):
        step = draw(rng, len(mine), (*KINDS, "cut"))
        if overlapping(mine, step):
            continue
        here, there = attempt(tracegrad, mine, step), attempt(torch, theirs, step)
        if (here is None) != (there is None) and any(text in str(here or there) for text in STRICTER):
            return False
        assert (here is None) == (there is None), (seed, step, here, there)
        if here is not None:
            continue
        # PyTorch says of reshape that one "should not depend on the copying vs. viewing behavior".  It follows from how
        # the operand lies in memory: of operands in C order and not, the sum is in C order in NumPy, in PyTorch as the
        # first is.  A later write would tell a view from a copy.
        if step[1] in ("reshape", "flatten") and in_place(mine, step) != in_place(theirs, step):
            del mine[-1], theirs[-1]
            continue
        if len(mine) == len(theirs) and mine[-1].numel() > 64:
            return False
        steps.append(step)
        if any(t.numel() and float(t.detach().abs().max()) > 1e4 for t in mine):
            return False
    for k, (t, u) in enumerate(zip(mine, theirs, strict=True)):
        found, expected = t.detach().numpy(), u.detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12, err_msg=f"{seed}, tensor {k}")
        assert (t.requires_grad, t.is_leaf) == (u.requires_grad, u.is_leaf), (seed, k, steps)
        assert k > 4 or t._version == u._version, (seed, k, steps)  # of others PyTorch counts its own writes too
    roots = roots_of(mine, seed)
    # A write by way of .data goes unseen into a saved value, and what is saved need not be the same: the gradient of
    # softmax reads its result in PyTorch, its operand too here.  Where writes are counted, that is an error.
    if counted(steps) != steps and any(run(T, counted(steps), seed, roots) == "error" for T in (torch, tracegrad)):
        return False
    grads = run(torch, steps, seed, roots)
    compiled_backward.clear()
    for _ in range(3):
        own = run(tracegrad, steps, seed, roots)
        if grads == "error" or own == "error":  # what is saved need not be the same
            return False
        same(own, grads, 1e-9)
    return isinstance(grads, list)


@pytest.mark.parametrize("block", seeds(5, quick=1))
def test_as_pytorch(block):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[oracle]'")
    compared = sum(compare(torch, seed) for seed in range(1000 * block + 500, 1000 * block + 518))
    assert compared >= 7
    compiled_backward.clear()
