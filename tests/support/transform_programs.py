"""Random programs under random compositions of transforms, each level judged against the one below it.

    python tests/support/transform_programs.py 500             # hunt
    python tests/support/transform_programs.py 1 --start 4711  # one seed again, with what it shrinks to

A program is a small function of arrays (loops, branches, gathers, products), or one of ``loop_grammar.py``.  A
composition is a stack of levels: ``vmap``, ``grad``, ``jacfwd`` ...  A level is right if its values, by the
interpreter, are those that follow from the values of the level below: differences of these for a derivative, a call for
each row for ``vmap``.  So no transform is judged by another one, but for second derivatives, which are differences of
first ones.  Derivatives are of the branch that was taken, so the guards are ignored where differences are taken.
"""

from __future__ import annotations

import argparse
import linecache
import random
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import loop_grammar
import loop_programs
import numpy as np

import tracegrad
from tracegrad import autograd, compile_grad, tree
from tracegrad.runtime.inspection import _struct, see
from tracegrad.tracer.ir.errors import TracegradError, UnsupportedError
from tracegrad.tracer.ir.evaluate import run_nodes, stored

Arrays = list[Any]
TOLERANCE = 2e-6
MOST = 60  # elements of all results of a level: beyond, it becomes a scalar first


# ---- programs ------------------------------------------------------------------------------------------------------


class Grower:
    """Grows the source of one function of a vector, a matrix and a number."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.n, self.m = self.random.choice([(3, 2), (2, 3), (3, 3), (1, 2), (4, 2)])
        self.vectors, self.others, self.matrices, self.scalars = ["x"], [], ["A"], ["s"]
        self.lines: list[str] = []
        self.count = 0

    def pick(self, options: Sequence[Any]) -> Any:
        return self.random.choice(list(options))

    def number(self) -> str:
        return str(round(self.random.uniform(-1.2, 1.2), 2))

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def vector(self) -> str:
        return self.pick(self.vectors[-4:])

    def scalar(self) -> str:
        return self.pick(self.scalars[-3:])

    def add(self, line: str, pool: list[str]) -> None:
        name = self.fresh()
        self.lines += line.replace("{}", name).split("\n")
        pool.append(name)

    def step(self) -> None:
        """One more value, by a line or a few."""
        v, w, s, a = self.vector(), self.vector(), self.scalar(), self.pick(self.matrices)
        n, c, d = self.n, self.number(), self.number()
        i, trips = self.random.randrange(n), self.pick([1, 2, 3, 6, 12])
        indices = [self.random.randrange(n) for _ in range(n)]
        vectors = [
            f"np.sin({v} * {c})", f"np.tanh({v} + {s})", f"{v} * {w}", f"np.exp(-{v} * {v})", f"{v} / (1 + {w} ** 2)",
            f"np.log1p({v} * {v})", f"np.sqrt(1.0 + {v} * {w} * {v} * {w})", f"np.cumsum({v}) * 0.3",
            f"{v}[::-1] * {w}", f"{v}[np.array({indices})] - {c} * {w}", f"np.roll({v}, 1)", f"np.sort({v})",
            f"np.tanh({a}).T @ ({a} @ {v})", f"np.where({v} > {c}, np.sin({v}), {w} * {d})", f"inner({v}, {s})",
            f"np.maximum({v}, {w} * {c})", f"np.clip({v}, -0.7, 0.9)", f"np.concatenate([{v}[{i}:], {w}[:{i}]])",
            f"np.mean(np.stack([{v}, {w}, np.cos({v})]), axis=0)", f"np.outer({v}, {w}) @ np.cos({v})",
            f"np.einsum('i,j,ij->j', {v}, {w}, np.outer({w}, {v}))", f"{{'a': {v}, 'b': [{w}]}}['b'][0] + 0.5",
            f"np.linalg.solve(3 * np.eye({n}) + 0.1 * np.outer({v}, {v}), {w})", f"np.where({s} > {c}, {v}, {w})",
            f"np.real(np.fft.ifft(np.fft.fft({v}) * np.fft.fft({w})))", f"np.tanh({s}) * np.ones({n}) + {v}",
            f"np.vectorize(lambda p, q: np.sin(p) * q)({v}, {w})",
            f"np.where({v} > 0, np.sqrt(np.where({v} > 0, {v}, 1.0)), {w})", f"np.where({v} > 0, np.log({v}), {c})",
            f"{v}[np.argsort({w})]", f"np.cumprod(1 + {v} / 7)", f"np.diff({v}, prepend={s})", f"np.abs({v}) ** 1.5",
            f"np.take({v}, np.argmax({w})) * {w}", f"np.real(np.exp(1j * {v}) * ({w} + {s} * 1j))",
            f"np.abs({v} + 1j * {w} + 2)", f"np.angle({v} + 2 + 1j * {w})", f"np.imag(np.conj({v} + 1j * {w}) * {v})",
            f"np.float64(1.5) * np.asarray({v}, np.float64)", f"np.minimum.accumulate({v}) + {w}",
            f"np.flip({v}) @ np.outer({v}, {w})",
            f"np.linalg.inv(2 * np.eye({n}) + 0.2 * np.outer({v}, {w}))[{i}]",
            f"np.linalg.cholesky(np.eye({n}) + np.outer({v}, {v}))[{i}]",
            f"np.linalg.eigvalsh(np.diag(np.arange({n}) * 2.0) + 0.1 * np.outer({v}, {v}))",
            f"np.linalg.qr(np.eye({n}) + 0.3 * np.outer({v}, {w}))[1][{i}]",
            f"np.linalg.svd(np.diag(np.arange({n}) + 1.0) + 0.1 * np.outer({v}, {w}))[1]",
            f"np.real(np.fft.irfft(np.fft.rfft({v}) * {s}, n={n}))", f"np.convolve({v}, {w})[:{n}]",
            f"np.interp({v}, np.linspace(-2, 2, 5), np.arange(5.0) * {s})", f"np.trapezoid(np.outer({v}, {w}), axis=0)",
            f"np.concatenate([{v}, {w}[:0]])", f"np.broadcast_to({s}, ({n},)) * {v}", f"np.sum({a} * {v}, axis=0)",
            f"held(lambda q: q * {s}, {v})", f"cell.step({v})",
            f"np.split(np.concatenate([{v}, {w}]), 2)[1] * TABLE[{i}]",
            f"tracegrad.random.normal(tracegrad.random.key(3), ({n},)) * {v}",
            f"autograd.grad(lambda q: np.sum(np.sin(q * {w}) * {v}))({v})",
            f"autograd.jvp(lambda q: q * np.cos({v} * q), ({w},), ({v},))[1]",
            f"autograd.jacobian(lambda q: np.tanh(q * {s}))({v}) @ {w}",
            f"tracegrad.vmap(lambda q, r: np.sin(q) * r + {s})({v}, {w})",
            f"tracegrad.vmap(lambda q: autograd.grad(lambda r: r * r * q * {s})(q))({v})",
            f"autograd.hvp(lambda q: np.sum(q ** 3 * {w}))({v}, {w})",
            f"squared({v}, {s})", f"damped({v}, {w})", f"root({v} * {v} + 1)", f"called({v}, {w})",
        ]  # fmt: skip
        loops = [
            f"{{}} = np.zeros({n})\n{{}}[{i}] = {s}\n{{}}[:] += {v}",
            f"{{}} = {v}\nfor k in range({trips}):\n    {{}} = np.sin({{}} * {c} + {w}) + 0.1 * k",
            f"{{}} = {v} * 1.0\nfor k in range({n}):\n    {{}}[k] = np.tanh({{}}[k - 1] * {c} + {w}[k])",
            f"{{}} = tracegrad.fori_loop(0, {trips}, lambda k, u: np.sin(u + {w}) * {c}, {v})",
            f"{{}} = tracegrad.scan(lambda u, z: (np.tanh(u + z), u * z), {s}, {v})[1]",
            f"{{}} = tracegrad.cond({s} > {c}, lambda u: np.sin(u) * {d}, lambda u: u * {w}, {v})",
            f"{{}} = tracegrad.while_loop(lambda u: np.sum(u * u) > 0.5, lambda u: 0.7 * u, {v})",
            f"{{}} = {v} * 1.0\nwhile np.sum({{}} * {{}}) > 0.6:\n    {{}} = {{}} * 0.6 + 0.01 * {w}",
            f"{{}} = np.zeros({n})\nfor k in range({n}):\n    for j in range(k + 1):\n"
            f"        {{}}[k] += {v}[j] * {w}[k] * {c}",
            f"{{}} = np.zeros(({n}, {n}))\nfor k in range({n}):\n    {{}}[k, :] = {v} * {w}[k]\n    {{}}[:, "
            f"0] *= {c}\n{{}} = {{}}.sum(0)",
            f"{{}} = {v} if {s} > {c} else {w} * {d}",
            f"{{}} = {v}\nfor k in range({trips}):\n    if np.sum({{}}) > {c}:\n        {{}} = np.sin({{}})\n"
            f"    else:\n        {{}} = {{}} + 0.2",
            f"{{}} = np.array([{v}[{i}], {s}, 1.0, {w}[0], {c}])[:{n}] * 1.0\n{{}}[{i}] += {s}" if n < 6 else "{} = x",
            f"{{}} = {v}.copy()\n{{}}[{{}} > {c}] = {s}",
            f"{{}} = {v}.copy()\nnp.add.at({{}}, np.array({indices}), {w})",
            f"state = {{'q': {v}}}\nfor k in range(3):\n    state['q'] = np.sin(state['q'] + {w}) * {s}\n"
            f"{{}} = state['q']",
            f"{{}} = sum([u * {w} for u in [{v}, {w}, {v} * {s}]])",
            f"{{}} = tracegrad.scan(lambda u, z: (tracegrad.cond(z > {c}, lambda p: np.sin(p) * z, "
            f"lambda p: p * 0.5, u), u + z), {s}, {v})[1]",
            f"{{}} = tracegrad.fori_loop(0, 3, lambda k, u: tracegrad.scan(lambda p, z: (p * 0.5 + z, "
            f"np.sin(p * z)), {s}, u)[1] + {w}, {v})",
            f"{{}} = tracegrad.checkpoint(lambda u: np.sin(u * {w}) * {s})({v})",
            f"{{}} = tracegrad.custom_linear_solve(lambda u: 3 * u + np.sum(u) * 0.1, {v}, lambda mv, "
            f"b: np.linalg.solve(3 * np.eye({n}) + 0.1, b), symmetric=True)",
            f"{{}} = tracegrad.fixed_point(lambda u: 0.3 * np.sin(u) + {v}, {w})",
        ]  # fmt: skip
        scalars = [
            f"np.sum({v} * {w})", f"np.mean(np.cos({v}))", f"{v}[{i}] * {c}", f"{v} @ {w}", f"np.tanh({s} * {c})",
            f"np.log(np.sum(np.exp({v})))", f"np.linalg.norm({v} + 2)", f"np.prod(1 + {v} / 5)",
            f"np.max({v})", f"np.sum({a} * {a})", f"sum(u * u for u in {v})",
            f"np.linalg.slogdet(np.eye({n}) * 2 + 0.1 * np.outer({v}, {v}))[1]", f"np.vdot({w}, {v}) / (1 + {s} * {s})",
            f"np.sum(np.abs(np.fft.fft({v})) ** 2)",
        ]  # fmt: skip
        matrices = [f"np.outer({v}, {w})[:1] * np.cos({a})", f"np.sin({a}) * {v}", f"{a} - np.mean({a}, axis=0)"]
        kind = self.random.random()
        if kind < 0.35:
            self.add(f"{{}} = {self.pick(vectors)}", self.vectors)
        elif kind < 0.65:
            self.add(self.pick(loops), self.vectors)
        elif kind < 0.9:
            self.add(f"{{}} = {self.pick(scalars)}", self.scalars)
        else:
            self.add(f"{{}} = {self.pick(matrices)}", self.matrices)

    def source(self) -> str:
        for _ in range(self.random.randrange(2, 7)):
            self.step()
        v, s, a = self.vectors[-1], self.scalars[-1], self.matrices[-1]
        out = self.pick([
            f"np.sum({v}) + {s}", f"{v} * {s}", f"({v}, {s})", f"{{'v': {v}, 's': [{s}]}}", f"np.mean({v}) * {s}",
            f"{s} * np.sum(np.cos({a}))",
        ])  # fmt: skip
        body = "\n".join(f"    {line}" for line in [*self.lines, f"return {out}"])
        head = (
            HELPERS + "def inner(u, z):\n    for k in range(4):\n        u = np.sin(u) * z + 0.2 * k\n    return u\n\n"
        )
        return f"{head}def f(x, A, s):\n{body}\n"


HELPERS = """TABLE = np.array([0.4, -1.1, 0.7, 2.0])


class Cell:
    gain = 0.8

    def step(self, u):
        return np.tanh(u * self.gain)


cell = Cell()


def held(g, u):
    return g(np.sin(u)) + g(u)


@tracegrad.custom_vjp
def squared(u, r):
    return u * u * r


squared.defvjp(lambda u, r: (squared(u, r), (u, r)), lambda res, g: (2 * res[0] * res[1] * g, np.sum(res[0] ** 2 * g)))


@tracegrad.custom_jvp
def damped(u, w):
    return np.sin(u) * w


@damped.defjvp
def damped_jvp(primals, tangents):
    (u, w), (du, dw) = primals, tangents
    return damped(u, w), np.cos(u) * w * du + np.sin(u) * dw


@tracegrad.implicit_root(lambda x, b: x**3 + x - b, host=False)
def solver(init, b):
    x = init
    for _ in range(40):
        x = x - (x**3 + x - b) / (3 * x**2 + 1)
    return x


def root(b):
    return solver(np.ones(b.shape), b)


@tracegrad.custom_jvp
def called(u, w):
    return tracegrad.pure_callback(lambda u, w: np.sin(u) * w, u, u, w, vmap_method="broadcast_all")


@called.defjvp
def called_jvp(primals, tangents):
    (u, w), (du, dw) = primals, tangents
    return called(u, w), np.cos(u) * w * du + np.sin(u) * dw


"""


@dataclass
class Base:
    """A function, its arguments and its source."""

    fn: Callable[..., Any]
    args: Arrays
    source: str


def _executed(source: str, name: str) -> dict[str, Any]:
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "transform_program", "np": np, "tracegrad": tracegrad, "autograd": autograd}
    exec(compile(source, name, "exec"), space)
    return space


def small_base(seed: int) -> Base:
    grower = Grower(seed)
    source = grower.source()
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=grower.n), rng.normal(size=(grower.m, grower.n)), np.float64(rng.normal())]
    return Base(_executed(source, f"<transformed program {seed}>")["f"], args, source)


def loop_base(seed: int) -> Base:
    case = loop_grammar.program(seed)
    given = dict(zip(case.names, loop_programs.arguments(case, loop_programs.SAME), strict=True))
    case.source = case.source.replace(" zeros(", " np.zeros(").replace("(array(", "(np.array(")  # no tensors
    fn = loop_programs.namespace(case, "compiled")["f"]
    data = [name for name in ("w", "h", "c") if name in given]
    rest = {name: value for name, value in given.items() if name not in data}

    def f(*args: Any) -> Any:
        return fn(**dict(zip(data, args, strict=True)), **rest)

    return Base(f, [np.float64(given[n]) if np.ndim(given[n]) == 0 else given[n] for n in data], case.source)


# ---- evaluation ----------------------------------------------------------------------------------------------------


class Interpreted:
    """A function of arrays by its recorded program, evaluated node by node; results are lists of leaves."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.seen: Any = None
        self.key: Any = None

    def record(self, args: Arrays) -> None:
        self.seen = see(self.fn, tuple(args), {}, as_recorded=False, what="the fuzzer")
        self.key = [np.shape(a) for a in args]

    def __call__(self, args: Arrays, *, guarded: bool = True) -> Arrays:
        if self.seen is None or self.key != [np.shape(a) for a in args]:
            self.record(args)
        found = self._run(args, guarded)
        if found is None:  # another branch
            self.record(args)
            found = self._run(args, False)
        assert found is not None
        return found

    def _run(self, args: Arrays, guarded: bool) -> Arrays | None:
        recording = self.seen.recording
        graph = recording.graph
        values = [*args, *recording.captured]
        env = dict(zip(graph.inputs, map(np.asarray, values), strict=True)) | dict(graph.consts)
        run_nodes(graph.nodes, env)
        if guarded and any(stored(env, g.atom) != g.expected for g in graph.guards):
            return None
        out = (
            recording.output.function()([stored(env, x)[()] for x in graph.outputs], list(args))
            if recording.output.text is not None
            else [stored(env, x)[()] for x in graph.outputs]
        )
        return tree.leaves(out)


class DelicateError(Exception):
    """Differences of two lengths do not agree: they are no judge here."""


def difference(run: Interpreted, args: Arrays, direction: Sequence[Any], step: float = 2e-3) -> Arrays:
    """The derivative of the results along *direction* by differences, to the fourth order.  DelicateError where those
    of half the length are others."""

    def at(t: float) -> Arrays:
        return run([a + t * d for a, d in zip(args, direction, strict=True)], guarded=False)

    points = {t: at(t) for t in (step / 2, -step / 2, step, -step, 2 * step, -2 * step)}

    def along(h: float) -> Arrays:
        parts = zip(points[h], points[-h], points[2 * h], points[-2 * h], strict=True)
        return [np.asarray((8 * (p - m) - (pp - mm)) / (12 * h)) for p, m, pp, mm in parts]

    coarse, fine = along(step), along(step / 2)
    if disagreement(coarse, fine, TOLERANCE / 4):
        raise DelicateError
    return fine


def jacobians(run: Interpreted, args: Arrays, k: int) -> Arrays:
    """For each result its Jacobian with respect to argument *k*."""
    columns = []
    for index in np.ndindex(np.shape(args[k])):
        direction = [np.zeros(np.shape(a)) for a in args]
        direction[k][index] = 1.0
        columns.append(difference(run, args, direction))
    shape = np.shape(args[k])
    stacked = [np.stack(parts, axis=-1) for parts in zip(*columns, strict=True)]
    return [j.reshape((*j.shape[:-1], *shape)) for j in stacked]


# ---- levels --------------------------------------------------------------------------------------------------------


@dataclass
class Level:
    """A function made of the one *below*; *expected* gives its results at *args* from that one's."""

    name: str
    fn: Callable[..., Any]
    args: Arrays
    below: Level | None = None
    expected: Callable[[], Arrays] | None = None
    run: Interpreted = field(init=False)

    def __post_init__(self) -> None:
        self.run = Interpreted(self.fn)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [x.shape for x in tree.leaves(self.out)]

    @property
    def out(self) -> Any:
        """The result with structs in place of arrays."""
        if self.run.seen is None:
            self.run.record(self.args)
        graph = self.run.seen.recording.graph
        return tree.map(_struct, self.run.seen.result([""] * len(graph.inputs), [""] * len(graph.outputs)))

    def __str__(self) -> str:
        return f"{self.name} of {self.below}" if self.below is not None else self.name


class Composer:
    """Draws levels."""

    def __init__(self, seed: int, transforms: Sequence[str]) -> None:
        self.random, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.transforms = list(transforms)
        self.drawn: list[str] = []

    def like(self, x: Any) -> Any:
        drawn = self.rng.normal(size=np.shape(x))
        return np.float64(drawn) if drawn.ndim == 0 else drawn

    def argnums(self, level: Level) -> tuple[int | tuple[int, ...], tuple[int, ...]]:
        """(argnums as given, as a tuple)"""
        count = len(level.args)
        if self.random.random() < 0.6:
            k = self.random.randrange(count)
            return k, (k,)
        chosen = tuple(sorted(self.random.sample(range(count), min(2, count))))
        return chosen, chosen

    def compose(self, base: Base, depth: int) -> list[Level]:
        levels = [Level("f", base.fn, base.args)]
        while len(levels) <= depth:
            name = self.random.choice(self.transforms)
            self.drawn.append(name)
            levels.append(
                getattr(self, name)(self.scalar(levels[-1]) if name in NEED_SCALARS else self.small(levels[-1]))
            )
        return levels

    # -- glue

    def small(self, level: Level) -> Level:
        total = sum(int(np.prod(shape)) for shape in level.shapes)
        return self.loss(level) if total > MOST else level

    def scalar(self, level: Level) -> Level:
        out = level.out
        return level if isinstance(out, tracegrad.ShapeDtypeStruct) and out.shape == () else self.loss(level)

    def loss(self, level: Level) -> Level:
        below = level.fn

        def fn(*args: Any) -> Any:
            return sum(np.sum(np.sin(x * 0.7 + 0.1)) for x in tree.leaves(below(*args)))

        def expected() -> Arrays:
            return [sum(np.sum(np.sin(x * 0.7 + 0.1)) for x in level.run(level.args))]

        return Level("loss", fn, level.args, level, expected)

    # -- transforms

    def compiled(self, level: Level) -> Level:
        below = level.fn
        return Level("compile_grad", compile_grad(below), level.args, level, lambda: level.run(level.args))

    def checkpoint(self, level: Level) -> Level:
        below = level.fn
        return Level("checkpoint", tracegrad.checkpoint(below), level.args, level, lambda: level.run(level.args))

    def custom_vjp(self, level: Level) -> Level:
        below = level.fn
        fn = tracegrad.custom_vjp(lambda *args: below(*args))
        fn.defvjp(lambda *args: (below(*args), args), lambda args, ct: autograd.vjp(below, *args)[1](ct))
        return Level("custom_vjp", lambda *args: fn(*args), level.args, level, lambda: level.run(level.args))

    def custom_jvp(self, level: Level) -> Level:
        below = level.fn
        fn = tracegrad.custom_jvp(lambda *args: below(*args))
        fn.defjvp(lambda primals, tangents: autograd.jvp(below, primals, tangents))
        return Level("custom_jvp", lambda *args: fn(*args), level.args, level, lambda: level.run(level.args))

    def grad(self, level: Level) -> Level:
        below = level.fn
        given, nums = self.argnums(level)
        return Level(
            f"grad(argnums={given})", autograd.grad(below, given), level.args, level,
            lambda: [jacobians(level.run, level.args, k)[0] for k in nums],
        )  # fmt: skip

    def value_and_grad(self, level: Level) -> Level:
        below = level.fn
        given, nums = self.argnums(level)
        return Level(
            f"value_and_grad(argnums={given})", autograd.value_and_grad(below, given), level.args, level,
            lambda: [*level.run(level.args), *[jacobians(level.run, level.args, k)[0] for k in nums]],
        )  # fmt: skip

    def closure(self, level: Level) -> Level:
        """The gradient with respect to one argument, of a function that closes over all."""
        below = level.fn
        k = self.random.randrange(len(level.args))

        def fn(*args: Any) -> Any:
            return autograd.grad(lambda z: below(*args[:k], z, *args[k + 1 :]) * np.sum(np.cos(args[k])))(args[k])

        def expected() -> Arrays:
            return [jacobians(level.run, level.args, k)[0] * np.sum(np.cos(level.args[k]))]

        return Level(f"closure({k})", fn, level.args, level, expected)

    def _jacobian(self, level: Level, name: str) -> Level:
        below = level.fn
        given, nums = self.argnums(level)

        def expected() -> Arrays:
            found = [jacobians(level.run, level.args, k) for k in nums]
            return [j for parts in zip(*found, strict=True) for j in parts]

        return Level(f"{name}(argnums={given})", getattr(autograd, name)(below, given), level.args, level, expected)

    def jacfwd(self, level: Level) -> Level:
        return self._jacobian(level, "jacfwd")

    def jacrev(self, level: Level) -> Level:
        return self._jacobian(level, "jacrev")

    def jacobian(self, level: Level) -> Level:
        return self._jacobian(level, "jacobian")

    def sparse_jacobian(self, level: Level) -> Level:
        below = level.fn
        k = self.random.randrange(len(level.args))

        def fn(*args: Any) -> Any:
            return autograd.sparse_jacobian(below, k)(*args).toarray()

        def expected() -> Arrays:
            size = np.size(level.args[k])
            return [np.concatenate([j.reshape(-1, size) for j in jacobians(level.run, level.args, k)])]

        return Level(f"sparse_jacobian(argnums={k})", fn, level.args, level, expected)

    def hessian(self, level: Level) -> Level:
        below = level.fn
        given, nums = self.argnums(level)

        def expected() -> Arrays:
            gradient = Interpreted(autograd.grad(below, nums))
            found = [jacobians(gradient, level.args, k) for k in nums]
            return [j for parts in zip(*found, strict=True) for j in parts]

        return Level(f"hessian(argnums={given})", autograd.hessian(below, given), level.args, level, expected)

    def _product(self, level: Level, name: str) -> Level:
        below = level.fn
        k = self.random.randrange(len(level.args))
        vector = self.like(level.args[k])
        args = [*level.args[: k + 1], vector, *level.args[k + 1 :]]

        def expected() -> Arrays:
            direction = [vector if j == k else np.zeros(np.shape(a)) for j, a in enumerate(level.args)]
            return difference(Interpreted(autograd.grad(below, k)), level.args, direction)

        return Level(f"{name}(argnums={k})", getattr(autograd, name)(below, k), args, level, expected)

    def hvp(self, level: Level) -> Level:
        return self._product(level, "hvp")

    def vhp(self, level: Level) -> Level:
        return self._product(level, "vhp")

    def jvp(self, level: Level) -> Level:
        below = level.fn
        count, tangents = len(level.args), [self.like(a) for a in level.args]

        def fn(*args: Any) -> Any:
            return autograd.jvp(below, args[:count], args[count:])

        def expected() -> Arrays:
            return [*level.run(level.args), *difference(level.run, level.args, tangents)]

        return Level("jvp", fn, [*level.args, *tangents], level, expected)

    def linearize(self, level: Level) -> Level:
        below = level.fn
        count, tangents = len(level.args), [self.like(a) for a in level.args]

        def fn(*args: Any) -> Any:
            return autograd.linearize(below, *args[:count])[1](*args[count:])

        return Level(
            "linearize", fn, [*level.args, *tangents], level, lambda: difference(level.run, level.args, tangents)
        )

    def vjp(self, level: Level) -> Level:
        below = level.fn
        count, treedef = len(level.args), tree.structure(level.out)
        cotangents = [self.like(np.zeros(shape)) for shape in level.shapes]

        def fn(*args: Any) -> Any:
            return autograd.vjp(below, *args[:count])[1](tree.unflatten(treedef, args[count:]))

        def expected() -> Arrays:
            found = []
            for k in range(count):
                parts = zip(cotangents, jacobians(level.run, level.args, k), strict=True)
                found.append(sum(np.tensordot(ct, j, axes=np.ndim(ct)) for ct, j in parts))
            return found

        return Level("vjp", fn, [*level.args, *cotangents], level, expected)

    def vmap(self, level: Level) -> Level:
        below = level.fn
        size = self.random.choice([1, 2, 3])
        chosen = [k for k in range(len(level.args)) if self.random.random() < 0.7] or [0]
        axes = [
            self.random.randrange(-np.ndim(a) - 1, np.ndim(a) + 1) if k in chosen else None
            for k, a in enumerate(level.args)
        ]
        rows = [[a, *[self.like(a) for _ in range(size - 1)]] for a in level.args]
        args = [a if axis is None else np.stack(r, axis) for a, axis, r in zip(level.args, axes, rows, strict=True)]
        ranks = [len(shape) + 1 for shape in level.shapes]
        out = self.random.choice([0, 0, -1, None])
        if out is None:
            out = tree.unflatten(tree.structure(level.out), [self.random.randrange(-r, r) for r in ranks])
        outs = [out] * len(ranks) if isinstance(out, int) else tree.leaves(out)
        given: Any = tuple(axes) if len(set(axes)) > 1 or self.random.random() < 0.5 else axes[0]

        def expected() -> Arrays:
            found = [
                level.run([a if axis is None else r[i] for a, axis, r in zip(level.args, axes, rows, strict=True)])
                for i in range(size)
            ]
            return [np.stack(parts, axis) for axis, parts in zip(outs, zip(*found, strict=True), strict=True)]

        return Level(f"vmap(in_axes={given}, out_axes={out})", tracegrad.vmap(below, given, out), args, level, expected)


NEED_SCALARS = frozenset(("grad", "value_and_grad", "closure", "hessian", "hvp", "vhp"))
TRANSFORMS = (
    "compiled", "grad", "value_and_grad", "closure", "jacfwd", "jacrev", "jacobian", "hessian", "hvp", "vhp", "jvp",
    "linearize", "vjp", "vmap", "vmap", "vmap", "custom_vjp", "custom_jvp", "sparse_jacobian",
)  # fmt: skip


# ---- judging -------------------------------------------------------------------------------------------------------


@dataclass
class Verdict:
    found: str = ""  # what is wrong
    refused: str = ""  # an error of ours, which may be right
    level: Level | None = None
    compared: int = 0  # levels
    delicate: int = 0


def disagreement(found: Arrays, expected: Arrays, tolerance: float = TOLERANCE) -> str:
    if [np.shape(x) for x in found] != [np.shape(x) for x in expected]:
        return f"shapes {[np.shape(x) for x in found]}, not {[np.shape(x) for x in expected]}"
    scale = max([1.0, *[float(np.max(np.abs(x))) for x in expected if np.size(x)]])
    for k, (x, y) in enumerate(zip(found, expected, strict=True)):
        if not np.allclose(x, y, rtol=tolerance, atol=tolerance * scale):
            return f"result {k}:\n{x}\nnot\n{y}"
    return ""


def judge(base: Base, seed: int, depth: int, transforms: Sequence[str] = TRANSFORMS) -> Verdict:
    """Compose, and compare each level with the one below."""
    composer = Composer(seed, transforms)
    verdict = Verdict()
    try:
        Interpreted(base.fn).record(base.args)
    except UnsupportedError:
        raise
    except Exception:  # a program that raises by itself
        return verdict
    try:
        levels = composer.compose(base, depth)
    except TracegradError as error:
        return Verdict(refused=f"{type(error).__name__}: {error}\n{', '.join(composer.drawn)}")
    chain: list[Level] = []
    top: Level | None = levels[-1]
    while top is not None:
        chain.insert(0, top)
        top = top.below
    for level in chain[1:]:
        verdict.level = level
        assert level.expected is not None
        try:
            expected = level.expected()
        except TracegradError as error:
            verdict.refused = f"{type(error).__name__}: {error}"
            return verdict
        except DelicateError:
            verdict.delicate += 1
            continue
        if (
            not all(np.all(np.isfinite(x)) for x in expected)
            or max([0.0, *[float(np.max(np.abs(x))) for x in expected if np.size(x)]]) > 1e6
        ):
            return verdict
        try:
            found = level.run(level.args)
        except TracegradError as error:
            verdict.refused = f"{type(error).__name__}: {error}"
            return verdict
        verdict.found = disagreement(found, expected)
        verdict.compared += 1
        if verdict.found:
            return verdict
    verdict.level = chain[-1]
    return verdict


def judge_kernel(level: Level) -> str:
    """The kernel of a level against the interpreter: the first calls, and a cached one."""
    compiled = compile_grad(level.fn)
    expected = level.run(level.args)
    for _ in range(3):
        wrong = disagreement(tree.leaves(compiled(*level.args)), expected, 1e-9)
        if wrong:
            return wrong
    return ""


def case(seed: int) -> tuple[Base, int]:
    """(the program, the depth) of a seed."""
    return (loop_base(seed) if seed % 5 == 4 else small_base(seed)), 1 + seed % 4


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--kernel", action="store_true")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    transforms = options.only.split(",") if options.only else TRANSFORMS
    wrong, compared, delicate, refused = 0, 0, 0, dict[str, list[int]]()
    warnings.simplefilter("ignore")
    for seed in range(options.start, options.start + options.count):
        base, depth = case(seed)
        try:
            verdict = judge(base, seed, depth, transforms)
            if options.kernel and not verdict.found and not verdict.refused and verdict.level is not None:
                verdict.found = judge_kernel(verdict.level)
        except Exception:
            verdict = Verdict(found=traceback.format_exc(limit=-6))
        if options.show:
            print(f"seed {seed}: {verdict.level}", flush=True)
        compared, delicate = compared + verdict.compared, delicate + verdict.delicate
        if verdict.refused:
            first = verdict.refused.splitlines()[0][:150]
            refused.setdefault(first, []).append(seed)
        if verdict.found:
            wrong += 1
            print(
                f"==== seed {seed}: {verdict.level}\n{verdict.found}\n{base.source if options.count < 5 else ''}",
                flush=True,
            )
    for text, found in sorted(refused.items(), key=lambda item: -len(item[1])):
        print(f"refused {len(found)} times ({', '.join(map(str, found[:5]))}): {text}")
    print(
        f"{options.count} seeds, {compared} levels, {wrong} wrong, {delicate} delicate, "
        f"{sum(map(len, refused.values()))} refused"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
