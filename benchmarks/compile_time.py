"""First calls of programs by their size: what grows faster than the program does.

    python -m benchmarks.compile_time                        # every program at every size
    python -m benchmarks.compile_time lines_array 300 1000   # one, at these sizes

Each first call is made in a process of its own, without caches on disk, after something unrelated was compiled.
Seconds are those of the processor; columns are phases, as ``explain()`` has them, and *rest* is all else: the
copy of the code, binding and the run itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (300, 1_000, 3_000)
PHASES = ("record", "roll", "derive", "sign", "schedule", "emit", "llvm")

Program = tuple[
    Callable[..., Any], tuple[Any, ...], tuple[int, ...]
]  # function, arguments, what it is differentiated by


def _module(lines: list[str], **names: Any) -> Any:
    """A module of these *lines*, which are in a file, as a user's are."""
    with tempfile.NamedTemporaryFile("w", suffix=".py", prefix="program_", delete=False) as file:
        file.write("import numpy as np\n" + "\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location(Path(file.name).stem, file.name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    vars(module).update(names)
    spec.loader.exec_module(module)
    return module


def _statements(n: int, elements: list[str], seed: int = 0) -> list[str]:
    """*n* assignments to v0, v1, ..., of one operation each, to values from near and far."""
    rng, lines, known = random.Random(seed), [], list(elements)
    for k in range(n):
        a, b = rng.choice(known[-8:]), rng.choice(known)
        c = round(rng.uniform(0.2, 0.9), 3)
        form = rng.choice(
            ("np.sin({a})", "{a} + {c} * {b}", "{a} * {b} * {c}", "np.tanh({a} - {b})", "{a} - {c} * {b}")
        )
        lines.append(f"    v{k} = " + form.format(a=a, b=b, c=c))
        known.append(f"v{k}")
    return lines


def lines_scalar(n: int) -> Program:
    """Straight-line code over the elements of a short array."""
    body = _statements(n // 2, [f"x[{k}]" for k in range(6)])
    return (
        _module(["def f(x):", *body, f"    return np.tanh(v{n // 2 - 1}) + v{n // 4}"]).f,
        (np.linspace(0.1, 0.6, 6),),
        (0,),
    )


def lines_array(n: int) -> Program:
    """Straight-line code over arrays of 1,000."""
    body = _statements(n // 2, ["x", "y"])
    module = _module(["def f(x, y):", *body, f"    return np.sum(np.tanh(v{n // 2 - 1}) + v{n // 4})"])
    return module.f, (np.linspace(0.1, 0.6, 1_000), np.linspace(0.3, 0.4, 1_000)), (0, 1)


def lines_sums(n: int) -> Program:
    """Straight-line code over arrays in which every fourth statement is a sum."""
    rng, body = random.Random(1), []
    for k in range(n // 4):
        a, b = (f"v{rng.randrange(max(0, k - 9), k)}" if k else "x" for _ in range(2))
        body.append(f"    v{k} = np.sin({a}) * y + {b} / (1.0 + np.sum({a} * {b}) ** 2)")
    module = _module(["def f(x, y):", *body, f"    return np.sum(v{n // 4 - 1})"])
    return module.f, (np.linspace(0.1, 0.6, 100), np.linspace(0.3, 0.4, 100)), (0, 1)


def terms(n: int) -> Program:
    """One expression of many terms over elements of arrays."""
    rng = random.Random(2)
    parts = [
        f"{rng.uniform(-1, 1):.3f} * x[{rng.randrange(40)}] * {rng.choice(('np.sin', 'np.exp', 'np.tanh', 'np.cos'))}"
        f"(y[{rng.randrange(40)}] - {rng.uniform(0, 1):.2f})"
        for _ in range(n // 5)
    ]
    module = _module(["def f(x, y):", "    return (" + "\n        + ".join(parts) + ")"])
    return module.f, (np.linspace(0.1, 0.6, 40), np.linspace(0.3, 0.4, 40)), (0, 1)


def pairs(n: int) -> Program:
    """A loop over a list of pairs of indices, as sums over the bonds of a molecule are written."""
    rng = np.random.default_rng(0)
    bonds = [tuple(pair) for pair in rng.integers(0, 50, (n // 6, 2)).tolist()]

    def f(p: Any) -> Any:
        energy = 0.0
        for i, j in bonds:
            d = p[i] - p[j]
            energy = energy + (np.sqrt(np.sum(d * d) + 0.1) - 1.0) ** 2
        return energy

    return f, (rng.standard_normal((50, 3)),), (0,)


def turns(n: int) -> Program:
    """Turns of a loop which are not alike, so that it is not rolled: straight-line code as far as a compiler sees."""
    rng = random.Random(3)
    kinds = [rng.randrange(5) for _ in range(n // 10)]

    def rate(s: Any, k: Any, kind: int) -> Any:
        if kind == 0:
            return np.array([k[0] * s[0] - k[1] * s[0] * s[1], k[2] * s[0] * s[1] - k[3] * s[1]])
        if kind == 1:
            return np.array([k[0] * s[1], -k[1] * np.sin(s[0])])
        if kind == 2:
            return k[:2] * s - s * s
        if kind == 3:
            return np.stack([s[1] * k[0], (1.0 - s[0] ** 2) * s[1] * k[1] - s[0]])
        return np.tanh(s * k[2]) - k[3] * s

    def f(k: Any, s: Any) -> Any:
        for kind in kinds:
            s = s + 0.01 * rate(s, k, kind)
        return np.sum(s**2)

    return f, (np.array([0.4, 0.3, 0.2, 0.1]), np.array([1.0, 0.5])), (0, 1)


def branches(n: int) -> Program:
    """One `if` on data in every ten operations."""
    rng, lines = random.Random(4), ["def f(x):", "    v = x[0]"]
    for k in range(n // 10):
        i, j = rng.randrange(6), rng.randrange(6)
        lines += [
            f"    u{k} = np.sin(v) * x[{i}] + {rng.uniform(0, 1):.2f}",
            f"    if u{k} > {rng.uniform(-0.2, 0.9):.2f}:",
            f"        v = u{k} * x[{j}] + np.cos(v)",
            "    else:",
            f"        v = u{k} - x[{i}] * np.tanh(v)",
        ]
    return _module([*lines, "    return v"]).f, (np.linspace(0.1, 0.6, 6),), (0,)


def network(n: int) -> Program:
    """A network whose layers have a width each."""
    rng = np.random.default_rng(0)
    widths = [16 + int(k) for k in rng.integers(0, 32, n // 20 + 1)]
    layers = [(0.1 * rng.standard_normal((a, b)), np.zeros(b)) for a, b in pairwise(widths)]
    x = rng.standard_normal((32, widths[0]))

    def f(layers: Any, x: Any) -> Any:
        for w, b in layers:
            x = np.tanh(x @ w + b)
        return np.mean(x**2)

    return f, (layers, x), (0,)


def network_alike(n: int) -> Program:
    """A network whose layers have one width, in a dict."""
    rng = np.random.default_rng(0)
    layers = {f"layer{k}": {"w": 0.2 * rng.standard_normal((24, 24)), "b": np.zeros(24)} for k in range(n // 20)}
    x = rng.standard_normal((32, 24))

    def f(layers: Any, x: Any) -> Any:
        for layer in layers.values():
            x = np.tanh(x @ layer["w"] + layer["b"])
        return np.mean(x**2)

    return f, (layers, x), (0,)


def pytree(n: int) -> Program:
    """A dict of many arrays, of several shapes, to each of which something is done."""
    rng = np.random.default_rng(0)
    params = {f"p{k}": rng.standard_normal([(3,), (4, 2), (), (17,)][k % 4]) for k in range(n // 3)}

    def f(params: Any) -> Any:
        return sum(np.sum(np.sin(p) ** 2) for p in params.values())

    return f, (params,), (0,)


def captures(n: int) -> Program:
    """A function that reads a list of *n* arrays from outside."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(3) for _ in range(n)]

    def f(x: Any) -> Any:
        total = 0.0
        for a in arrays:
            total = total + np.sum(a * x)
        return total

    return f, (np.ones(3),), (0,)


class Link:
    def __init__(self, value: float, after: Link | None) -> None:
        self.value, self.after = value, after


def linked(n: int) -> Program:
    """A linked list of *n* objects."""
    head = None
    for k in range(n):
        head = Link(0.1 * k, head)

    def f(x: Any) -> Any:
        total, link = 0.0, head
        while link is not None:
            total = total + x * link.value
            link = link.after
        return np.sum(total)

    return f, (np.ones(3),), (0,)


def helpers(n: int) -> Program:
    """Functions that call one another: each has two of its own below it."""
    lines, depth = [], max(2, (n // 6).bit_length() - 1)
    for level in range(depth):
        for k in range(2**level):
            c = round(0.1 + 0.8 * random.Random(k * 31 + level).random(), 3)
            down = (
                f"h{level + 1}_{2 * k}(np.sin(x) * {c}, y) + h{level + 1}_{2 * k + 1}(x - {c} * y, x)"
                if level < depth - 1
                else f"np.tanh(x) * {c} + y"
            )
            lines += [f"def h{level}_{k}(x, y):", f"    return {down}", ""]
    module = _module([*lines, "def f(x, y):", "    return np.sum(h0_0(x, y))"])
    return module.f, (np.linspace(0.1, 0.6, 50), np.linspace(0.3, 0.4, 50)), (0, 1)


def arm(n: int) -> Program:
    """Products of small matrices that are made of angles, along a chain of unlike joints."""
    rng = random.Random(5)
    axes = [rng.randrange(3) for _ in range(n // 12)]

    def turn(angle: Any, axis: int) -> Any:
        c, s = np.cos(angle), np.sin(angle)
        rows = [[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]
        order = [(0, 1, 2), (2, 0, 1), (1, 2, 0)][axis]
        return np.array([[rows[i][j] for j in order] for i in order])

    def f(angles: Any) -> Any:
        frame, place = np.eye(3), np.zeros(3)
        for k, axis in enumerate(axes):
            frame = frame @ turn(angles[k], axis)
            place = place + frame @ np.array([0.0, 0.1, 0.0])
        return np.sum((place - 1.0) ** 2)

    return f, (np.linspace(0.1, 0.6, len(axes)),), (0,)


def slices(n: int) -> Program:
    """Pieces of one vector of parameters, put into arrays of their own and worked with."""
    rng, lines, at = random.Random(6), ["def f(w, x):", "    total = 0.0"], 0
    for k in range(n // 8):
        size = rng.randrange(3, 30)
        lines += [
            f"    a{k} = w[{at}:{at + size}]",
            f"    b{k} = np.tanh(a{k} * x[:{size}])",
            f"    total = total + np.sum(b{k} * a{k}) + a{k}[{size - 1}] ** 2",
        ]
        at += size
    return _module([*lines, "    return total"]).f, (np.linspace(0.1, 0.6, at), np.linspace(0.3, 0.4, 40)), (0,)


def elements(n: int) -> Program:
    """Single elements of one vector of parameters, in straight-line code."""
    rng = random.Random(8)
    lines = ["def f(w):", "    total = 0.0"]
    lines += [f"    total = total + np.sin(w[{k}]) * w[{rng.randrange(n // 4)}]" for k in range(n // 4)]
    return _module([*lines, "    return total"]).f, (np.linspace(0.1, 0.6, n // 4),), (0,)


def rows(n: int) -> Program:
    """Rows of one matrix of parameters, which straight-line code reads one by one."""
    rng, lines = random.Random(9), ["def f(w):", "    total = 0.0"]
    for k in range(n // 4):
        c = round(rng.uniform(0.2, 0.9), 3)
        lines.append(f"    total = total + np.sum(np.sin(w[{k}]) * w[{rng.randrange(n // 4)}] * {c})")
    return _module([*lines, "    return total"]).f, (np.linspace(0.1, 0.6, n // 4 * 5).reshape(-1, 5),), (0,)


def unpacked(n: int) -> Program:
    """A network of small layers, whose weights are one vector."""
    rng, lines, at, width = random.Random(10), ["def f(w, x):"], 0, 4
    for k in range(n // 6):
        after = rng.randrange(3, 7)
        middle, end = at + width * after, at + width * after + after
        lines += [
            f"    w{k} = w[{at}:{middle}].reshape({width}, {after})",
            f"    b{k} = w[{middle}:{end}]",
            f"    x = np.tanh(x @ w{k} + b{k})",
        ]
        at, width = end, after
    module = _module([*lines, "    return np.sum(x)"])
    return module.f, (np.linspace(-0.5, 0.6, at), np.full((20, 4), 0.3)), (0,)


def ode(n: int) -> Program:
    """Runge and Kutta's steps in a loop, which is rolled."""

    def rate(s: Any, k: Any) -> Any:
        return np.array([k[0] * s[0] - k[1] * s[0] * s[1], k[2] * s[0] * s[1] - k[3] * s[1]])

    def f(k: Any, s: Any) -> Any:
        for _ in range(n):
            a = rate(s, k)
            b = rate(s + 0.005 * a, k)
            c = rate(s + 0.005 * b, k)
            d = rate(s + 0.01 * c, k)
            s = s + 0.01 / 6.0 * (a + 2.0 * b + 2.0 * c + d)
        return np.sum(s**2)

    return f, (np.array([0.4, 0.3, 0.2, 0.1]), np.array([1.0, 0.5])), (0, 1)


def writes(n: int) -> Program:
    """Elements of an array, written one by one at places without order."""
    rng = random.Random(7)
    places = list(range(n // 5))
    rng.shuffle(places)

    def f(x: Any) -> Any:
        out = np.zeros(len(places))
        for k, at in enumerate(places):
            out[at] = np.sin(x[k % 7]) * x[at % 5] + out[places[k - 1]]
        return np.sum(out**2)

    return f, (np.linspace(0.1, 0.6, 8),), (0,)


def second(n: int) -> Program:
    """The gradient of a gradient, of straight-line code."""
    import tracegrad

    inner, args, _ = lines_array(n // 4)

    def f(x: Any, y: Any) -> Any:
        return np.sum(tracegrad.compile_grad(inner)(x, y) ** 2)

    return f, args, (0, 1)


def gmm(d: int) -> Program:
    """ADBench's mixture of Gaussians, 1,000 points, five components for each two dimensions."""
    from examples.adbench import generate, gmm

    return gmm.objective, generate.gmm(1_000, d, 50 if d == 20 else 5 * d // 2), (0, 1, 2)


def lstm(characters: int) -> Program:
    """ADBench's language model of four layers."""
    from examples.adbench import generate, lstm

    *parameters, text = generate.lstm(4, characters)
    numbers = np.array([ord(c) for c in text])
    bits = (numbers[:, None] >> np.arange(parameters[1].shape[1])[::-1] & 1).astype(float)
    return lstm.objective, (*parameters, bits), (0, 1)


PROGRAMS: dict[str, tuple[Callable[[int], Program], tuple[int, ...]]] = {
    **{
        made.__name__: (made, SIZES)
        for made in (
            lines_scalar, lines_array, lines_sums, terms, pairs, turns, branches, network, network_alike, pytree,
            captures, linked, helpers, arm, slices, elements, rows, unpacked, ode, writes, second,
        )
    },
    "gmm": (gmm, (10, 20)),
    "lstm": (lstm, (1_024, 4_096)),
}  # fmt: skip


def warm(compile_grad: Any) -> None:
    """Load and set up what every first call needs."""

    def f(x: Any) -> Any:
        return np.sum(np.cos(x) * x)

    compiled = compile_grad(f)
    for _ in range(3):
        compiled.value_and_grad(np.linspace(0.0, 1.0, 9))


def child(name: str, size: int) -> None:
    """The first two calls of a program: print one line of JSON."""
    sys.setrecursionlimit(20_000)
    time.perf_counter = time.process_time  # the phases, too, in seconds of the processor
    import tracegrad

    warm(tracegrad.compile_grad)
    fn, args, argnums = PROGRAMS[name][0](size)
    compiled = tracegrad.compile_grad(fn, argnums=argnums)
    found: dict[str, Any] = {}
    for call in ("first", "second", "third"):
        begin, wall = time.process_time(), time.perf_counter()
        value, _ = compiled.value_and_grad(*args)
        found[call], found[f"{call} wall"] = time.process_time() - begin, time.perf_counter() - wall
    found["right"] = bool(np.isclose(value, fn(*args), rtol=1e-8)) if name != "second" else True
    for variants in [e.variants for d in _dispatchers() for e in d.endpoints.values() if d.fn is fn]:
        for variant in [v for known in variants.values() for v in known]:
            for path in variant.paths:
                found["seconds"] = {**path.recording.seconds, **path.program.seconds}
                found["operations"] = len(path.recording.graph.nodes)
    found["live"] = compiled.stats.live
    print(json.dumps(found))


def _dispatchers() -> Any:
    from tracegrad.runtime.paths.dispatcher import _dispatchers

    return list(_dispatchers)


def measure(name: str, size: int, timeout: float = 300.0) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.compile_time", "--child", name, str(size)]
    environment = {**os.environ, "TRACEGRAD_CACHE": "0", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1][:300])
    return json.loads(done.stdout.strip().splitlines()[-1])


def main(names: list[str]) -> None:
    sizes = tuple(int(word) for word in names if word.isdigit())
    chosen = [word for word in names if not word.isdigit()] or list(PROGRAMS)
    print(
        f"{'program':>14} {'size':>6} {'first':>7} {'second':>7} {'nodes':>6}  "
        + " ".join(f"{p:>8}" for p in PHASES)
        + f" {'rest':>8}"
    )
    for name in chosen:
        for size in sizes or PROGRAMS[name][1]:
            try:
                row = measure(name, size)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{name:>14} {size:>6}  {str(error)[:150]}", flush=True)
                continue
            seconds = row.get("seconds", {})
            rest = row["first"] - sum(seconds.values())
            print(
                f"{name:>14} {size:>6} {row['first']:7.2f} {row['second']:7.2f} {row.get('operations', 0):>6}  "
                + " ".join(f"{seconds.get(p, 0.0):8.3f}" for p in PHASES)
                + f" {rest:8.3f}"
                + ("" if row["right"] else "  WRONG")
                + (f"  {row['live'][:80]}" if row["live"] else ""),
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1:])
