"""The networks of ``training.py``, in PyTorch's names (tracegrad has the same ones) and in JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .workloads.simplenet import BATCH, LAYERS

RATE = 1e-3
Step = Callable[[], Any]


class Task(NamedTuple):
    """A network, its data, and Adam.

    ``in_torch(torch, **options of Adam)``: (train, inputs, targets); ``in_jax()``: a step.  Losses agree to the
    relative ``tolerance``; a sample is of this many ``calls``.
    """

    title: str
    in_torch: Callable[..., tuple[Callable[[Any, Any], Any], Any, Any]]
    in_jax: Callable[[], Step]
    tolerance: float
    calls: int


# ---- a small network, float64


def start(seed: int = 0) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """(weights and biases, as (out, in) and (out,)), inputs, targets: float64."""
    rng = np.random.default_rng(seed)
    parameters = []
    for inner, outer in pairwise(LAYERS):
        parameters += [rng.normal(size=(outer, inner)) / np.sqrt(inner), 0.1 * rng.normal(size=outer)]
    return parameters, rng.normal(size=(BATCH, LAYERS[0])), rng.normal(size=(BATCH, LAYERS[-1]))


def simplenet(torch: Any, **options: Any) -> tuple[Callable[[Any, Any], Any], Any, Any]:
    parameters, inputs, targets = start()
    with _dtype(torch, torch.float64):
        modules: list[Any] = []
        for inner, outer in pairwise(LAYERS):
            modules += [torch.nn.Linear(inner, outer), torch.nn.Tanh()]
        model = torch.nn.Sequential(*modules[:-1])
    return _training(torch, model, parameters, inputs, targets, options)


def simplenet_in_jax() -> Step:
    import jax.numpy as jnp

    parameters, inputs, targets = start()

    def loss(parameters: list[Any], x: Any, y: Any) -> Any:
        h = x
        for k in range(0, len(parameters), 2):
            h = h @ parameters[k].T + parameters[k + 1]
            h = jnp.tanh(h) if k + 2 < len(parameters) else h
        return jnp.mean((h - y) ** 2)

    return _training_in_jax(loss, parameters, inputs, targets)


# ---- a transformer of 4 layers, float32

WIDTH, HEADS, LENGTH, SENTENCES, DEPTH = 64, 4, 64, 8, 4
SHAPES = [(WIDTH,), (WIDTH,), (WIDTH,), (WIDTH,), (3 * WIDTH, WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,),
          (4 * WIDTH, WIDTH), (4 * WIDTH,), (WIDTH, 4 * WIDTH), (WIDTH,)]  # fmt: skip


def transformer_start(seed: int = 0) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """(parameters in the order of the blocks, then of the last norm and the head), inputs, targets: float32."""
    rng = np.random.default_rng(seed)
    shapes = [*SHAPES * DEPTH, (WIDTH,), (WIDTH,), (WIDTH, WIDTH), (WIDTH,)]
    parameters = [rng.normal(size=s) / math.sqrt(s[-1]) for s in shapes]
    data = [rng.normal(size=(SENTENCES, LENGTH, WIDTH)).astype(np.float32) for _ in range(2)]
    return [p.astype(np.float32) for p in parameters], *data


def transformer(torch: Any, **options: Any) -> tuple[Callable[[Any, Any], Any], Any, Any]:
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.inputs, self.mixed = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            n, length, _ = x.shape
            q, k, v = self.inputs(self.norm(x)).reshape(n, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            shares = functional.softmax(q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS), dim=-1)
            x = x + self.mixed((shares @ v).transpose(1, 2).reshape(n, length, WIDTH))
            return x + self.down(functional.gelu(self.up(self.second(x))))

    with _dtype(torch, torch.float32):
        model = nn.Sequential(*[Block() for _ in range(DEPTH)], nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH))
    return _training(torch, model, *transformer_start(), options)


def transformer_in_jax() -> Step:
    import jax
    import jax.numpy as jnp

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        return (x - jnp.mean(x, -1, keepdims=True)) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * scale + shift

    def block(p: list[Any], x: Any) -> Any:
        n, length, _ = x.shape
        inputs = norm(x, p[0], p[1]) @ p[4].T + p[5]
        q, k, v = inputs.reshape(n, length, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
        shares = jax.nn.softmax(q @ k.swapaxes(-2, -1) / math.sqrt(WIDTH // HEADS), axis=-1)
        x = x + (shares @ v).swapaxes(1, 2).reshape(n, length, WIDTH) @ p[6].T + p[7]
        return x + jax.nn.gelu(norm(x, p[2], p[3]) @ p[8].T + p[9], approximate=False) @ p[10].T + p[11]

    def loss(parameters: list[Any], x: Any, y: Any) -> Any:
        for k in range(0, len(SHAPES) * DEPTH, len(SHAPES)):
            x = block(parameters[k : k + len(SHAPES)], x)
        scale, shift, weight, bias = parameters[-4:]
        return jnp.mean((norm(x, scale, shift) @ weight.T + bias - y) ** 2)

    return _training_in_jax(loss, *transformer_start())


# ---- steps with Adam


@contextmanager
def _dtype(torch: Any, dtype: Any) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _training(
    torch: Any, model: Any, parameters: list[np.ndarray], inputs: np.ndarray, targets: np.ndarray, options: Any
) -> tuple[Callable[[Any, Any], Any], Any, Any]:
    """(the step, inputs, targets) in PyTorch or, under the same names, in tracegrad."""
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), parameters, strict=True):
            parameter.copy_(torch.tensor(value))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, **options)
    loss_fn = torch.nn.MSELoss()

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return train, torch.tensor(inputs), torch.tensor(targets)


def _training_in_jax(loss: Any, parameters: list[np.ndarray], inputs: np.ndarray, targets: np.ndarray) -> Step:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    dtype = parameters[0].dtype

    def update(state: Any, x: Any, y: Any) -> Any:
        parameters, first, second, count = state
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        count = count + 1
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients, strict=True)]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(second, gradients, strict=True)]
        rate = RATE / (1.0 - 0.9**count)
        scale = jnp.sqrt(1.0 - 0.999**count)
        parameters = [
            p - rate * m / (jnp.sqrt(v) / scale + 1e-8) for p, m, v in zip(parameters, first, second, strict=True)
        ]
        return (parameters, first, second, count), value

    compiled = jax.jit(update, donate_argnums=0)
    zeros = [jnp.zeros(p.shape, dtype) for p in parameters]
    more = [jnp.zeros(p.shape, dtype) for p in parameters]
    state = ([jnp.asarray(p) for p in parameters], zeros, more, jnp.zeros((), dtype))
    x, y = jnp.asarray(inputs), jnp.asarray(targets)

    def step() -> Any:
        nonlocal state
        state, value = compiled(state, x, y)
        return jax.block_until_ready(value)

    return step


SIMPLENET = Task("SimpleNet 10-50-20-1, batch 32, Adam, float64", simplenet, simplenet_in_jax, 1e-9, 200)
TRANSFORMER = Task(
    "Transformer, 4 layers of 64, 8 sentences of 64, Adam, float32", transformer, transformer_in_jax, 1e-4, 4
)
