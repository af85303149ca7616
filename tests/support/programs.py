"""Random whole programs over the primitives, a judge for each tier, and a shrinker for what fails.

    python tests/support/programs.py 2000             # hunt, in child processes: a crash is a finding
    python tests/support/programs.py 1 --start 4711   # one seed again, with its graph and what it shrinks to

A program is grown step by step beside its values, so that every step can stay inside its domain (no logarithm of a
negative number, no near tie that two correct tiers may decide differently).  ``test_programs.py`` runs a fixed set of
seeds.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from support import BOOL, F64, I64, TIERS, directional, dot_graph, evaluate, float_inputs, grad_graph, jvp_graph

from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.check import check_graph
from tracegrad.tracer.ir.errors import ShapeError
from tracegrad.tracer.ir.evaluate import run_nodes
from tracegrad.tracer.ir.graph import Atom, Builder, Graph, Lit, Var, bind, building, literal, live_nodes
from tracegrad.tracer.ir.primitive import PRIMITIVES
from tracegrad.tracer.ir.text import print_graph
from tracegrad.tracer.ops.elementwise import CAST, F
from tracegrad.tracer.ops.indexing import gather, take_along_last
from tracegrad.tracer.ops.product import contract_last, matmul
from tracegrad.tracer.ops.reduce import cumprod, cumsum, expand, linrec, reduce
from tracegrad.tracer.ops.shape import concat, full, iota, reshape, slice_axis, take_slice, transpose

MOST = 3000  # elements of the largest intermediate


@dataclass(slots=True)
class Case:
    """A program and the arrays to run it on."""

    graph: Graph
    inputs: list[np.ndarray]

    def __str__(self) -> str:
        with np.printoptions(threshold=200, linewidth=110, floatmode="unique"):
            arrays = "\n".join(f"  input {i}: {x!r}" for i, x in enumerate(self.inputs))
        return f"{print_graph(self.graph)}{arrays}"


# ---- growing a program -----------------------------------------------------------------------------------------


class Generator:
    """Grows one program from a seed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.builder = Builder()
        self.inputs: list[Var] = []
        self.values: list[np.ndarray] = []
        self.env: dict[Var, np.ndarray] = {}
        self.pool: list[Var] = []
        self.conditions: list[Var] = []
        self.done = 0
        self.with_empty = self.chance(0.08)  # a size 0 spreads to most of a program: few have one
        self.with_long = self.chance(0.35)

    # -- choices

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[self.integer(0, len(options) - 1)]

    def size(self) -> int:
        if self.with_empty and self.chance(0.2):
            return 0
        if self.chance(0.1):
            return 1
        if self.with_long and self.chance(0.3):
            return self.one_of([7, 8, 9, 16, 17, 19, 33, 40])
        return self.integer(2, 6)

    def shape(self) -> tuple[int, ...]:
        return tuple(self.size() for _ in range(self.one_of([0, 1, 1, 1, 2, 2, 2, 2, 3, 3])))

    def constant(self) -> Lit:
        return literal(self.one_of([0.5, 2.0, -1.0, 0.25, 1.5, -0.75, 3.0, round(float(self.rng.normal()), 3)]))

    # -- values

    def new_input(self, shape: tuple[int, ...], dtype: np.dtype = F64, high: int = 1) -> Var:
        var = Var(Aval(dtype, shape))
        if dtype == F64:
            value = self.rng.uniform(-2, 2, shape)
        elif dtype == BOOL:
            value = self.rng.random(shape) < 0.5
        else:
            value = self.rng.integers(0, high, shape)
        self.inputs.append(var)
        self.values.append(np.asarray(value, dtype))
        self.env[var] = self.values[-1]
        if dtype == F64:
            self.pool.append(var)
        return var

    def value(self, atom: Atom) -> np.ndarray:
        """What *atom* is at the inputs."""
        if self.done < len(self.builder.nodes):
            run_nodes(self.builder.nodes[self.done :], self.env)
            self.done = len(self.builder.nodes)
        return np.asarray(atom.value if isinstance(atom, Lit) else self.env[atom])

    def reach(self, atom: Atom) -> float:
        value = self.value(atom)
        return float(np.max(np.abs(value))) if value.size else 0.0

    def least(self, atom: Atom) -> float:
        value = self.value(atom)
        return float(np.min(value)) if value.size else 1.0

    def any(self, *, ndim: int = 0, exactly: bool = False) -> Var:
        """A float value of at least (or exactly) *ndim* dimensions, recent ones more often."""
        fits = [v for v in self.pool if v.ndim == ndim or (v.ndim > ndim and not exactly)]
        if not fits:
            return self.new_input(tuple(self.size() for _ in range(max(ndim, 1) if not exactly else ndim)))
        if self.chance(0.6):
            fits = fits[-3:]
        return self.one_of(fits)

    def partner(self, x: Var) -> Atom:
        """Something to combine with *x*: another value that broadcasts, a constant, or a new input that does."""
        fits = [v for v in self.pool if _broadcasts(v.shape, x.shape)]
        if fits and self.chance(0.75):
            return self.one_of(fits)
        if self.chance(0.3):
            return self.constant()
        kept = [n if self.chance(0.7) else 1 for n in x.shape]
        return self.new_input(tuple(kept[self.integer(0, len(kept)) :] if self.chance(0.4) else kept))

    def tame(self, x: Atom) -> Atom:
        """x kept to a range in which derivatives stay tame."""
        if isinstance(x, Lit):
            return full(x, ())
        if self.reach(x) > 30:
            return self.one_of([F.sin, F.tanh, F.arctan])(F.mul(x, literal(0.05)))
        return x

    # -- steps: each returns a new value, or None where it does not apply

    def unary(self) -> Any:
        x = self.any()
        anywhere: list[Callable[..., Any]] = [
            F.sin, F.cos, F.tanh, F.expit, F.arctan, F.arcsinh, F.erf, F.ndtr, F.neg, F.square, F.abs, F.sin, F.tanh,
            lambda v: F.arccosh(1.5 + F.square(v)), lambda v: F.logit(F.expit(v)), lambda v: F.ndtri(F.ndtr(F.sin(v))),
            lambda v: F.sqrt(1 + F.square(v)), lambda v: F.log1p(F.square(v)), lambda v: 1 / (1 + v * v),
            lambda v: F.exp(F.neg(F.square(v))), lambda v: F.logaddexp(v, 0.0), lambda v: F.maximum(v, 0.0),
            lambda v: F.minimum(F.maximum(v, -1.0), 1.0), lambda v: F.mul(v, self.constant()),
            lambda v: F.integer_pow(F.tanh(v), n=3), lambda v: F.pow(F.square(v) + 1, 1.3), F.erfc,
        ]  # fmt: skip
        options = list(anywhere)
        reach, least = self.reach(x), self.least(x)
        if reach < 3:
            options += [F.exp, F.expm1, F.sinh, F.cosh, F.exp2]
        if least > 0.1:
            options += [F.log, F.sqrt, F.reciprocal, F.log2, F.cbrt, F.gammaln, F.psi, F.log10] * 2
        if reach < 0.9:
            options += [F.arcsin, F.arctanh, F.tan, F.erfinv, F.arccos]
        if self.chance(0.05):
            options = [F.floor, F.sign, F.rint, F.ceil, F.trunc]
            options += [lambda v: F.remainder(v, 0.7), lambda v: F.fmod(v, 0.7)]
        return self.one_of(options)(x)

    def binary(self) -> Any:
        x = self.any()
        y = self.partner(x)
        options: list[Callable[..., Any]] = [F.add, F.sub, F.mul, F.add, F.mul]
        options += [lambda a, b: F.div(a, F.square(b) + 1), lambda a, b: F.hypot(a, F.square(b) + 1), F.logaddexp]
        options += [lambda a, b: F.arctan2(a, F.square(b) + 0.5), lambda a, b: F.mul(F.sin(a), b), F.mulz]
        options += [lambda a, b: F.xlogy(F.sin(a), F.square(b) + 0.5), lambda a, b: F.xlog1py(a, F.square(b))]
        if self.distinct(x, y):
            options += [F.maximum, F.minimum, F.fmax, F.fmin]
            options += [lambda a, b: F.copysign(a, F.sub(a, b))] if self.chance(0.2) else []
        return self.one_of(options)(*((x, y) if self.chance(0.5) or isinstance(y, Lit) else (y, x)))

    def distinct(self, x: Atom, y: Atom) -> bool:
        """No two elements to be compared differ by so little that rounding might decide."""
        gap = np.abs(self.value(x) - self.value(y))
        return not bool(np.any(gap < 1e-6)) or x is y

    def compare(self) -> Any:
        x = self.any()
        y = self.partner(x)
        if not self.distinct(x, y):
            y = literal(round(float(self.rng.normal()), 2))
            if not self.distinct(x, y):
                return None
        condition = self.one_of([F.gt, F.lt, F.ge, F.le])(x, y)
        if self.conditions and self.chance(0.3):
            other = self.one_of(self.conditions)
            if _broadcasts(other.shape, condition.shape):
                condition = self.one_of([F.logical_and, F.logical_or, F.logical_xor])(condition, other)
        if condition.ndim and self.chance(0.2) and all(condition.shape):
            axes = self.axes(condition.ndim)
            condition = reduce(self.one_of(["any", "all"]), condition, axes, self.chance(0.5))
        self.conditions.append(condition)
        return bind(CAST, condition, dtype=F64) if self.chance(0.2) else self.where()

    def where(self) -> Any:
        if not self.conditions:
            return self.compare()
        condition = self.one_of(self.conditions[-3:])
        x = self.any()
        y = self.partner(x)
        if not _broadcasts(condition.shape, x.shape):
            x, y = self.constant(), self.new_input(condition.shape)
        shapes = (condition.shape, x.shape, y.shape)
        if _cells(shapes) > MOST:
            return None
        if self.chance(0.4):  # what is not chosen may be infinite or NaN
            inside = F.gt(x, literal(0.05))
            x = F.select(inside, self.one_of([F.sqrt, F.log, F.reciprocal])(x), self.one_of([x, literal(0.5)]))
        return F.select(condition, x, y) if self.chance(0.5) else F.select(condition, y, x)

    def axes(self, ndim: int) -> tuple[int, ...]:
        if self.chance(0.25):
            return tuple(range(ndim))
        if self.chance(0.5):
            return (self.one_of([0, ndim - 1]),)
        return tuple(a for a in range(ndim) if self.chance(0.5)) or (self.integer(0, ndim - 1),)

    def reduction(self) -> Any:
        x = self.any(ndim=1)
        axes = self.axes(x.ndim)
        name = self.one_of(["sum", "sum", "sum", "mean", "max", "min", "prod"])
        if name in ("max", "min") and not self.clear_winner(x, axes):
            name = "sum"
        if name == "prod" and math.prod(x.shape[a] for a in axes) > 12:
            name = "sum"
        if name == "mean":
            count = math.prod(x.shape[a] for a in axes)
            return F.div(reduce("sum", x, axes, self.chance(0.3)), Lit(max(count, 1), F64))
        result = reduce(name, x, axes, self.chance(0.3))
        if self.chance(0.35):  # read back beside what was reduced
            kept = reduce(name, x, axes, True)
            return self.one_of([F.sub, F.mul, lambda a, b: F.div(a, 1 + F.square(b))])(x, kept)
        return result

    def clear_winner(self, x: Var, axes: tuple[int, ...]) -> bool:
        if not all(x.shape[a] for a in axes):
            return False
        value = np.moveaxis(self.value(x), axes, range(len(axes)))
        rows = np.sort(value.reshape(math.prod(value.shape[: len(axes)]), -1), axis=0)
        return not bool(np.any(np.diff(rows, axis=0) < 1e-6))

    def softmax(self) -> Any:
        x = self.any(ndim=1)
        axes = self.axes(x.ndim) if self.chance(0.3) else (x.ndim - 1,)
        if self.clear_winner(x, axes):
            x = F.sub(x, reduce("max", x, axes, True))
        elif self.reach(x) > 5:
            return None
        e = F.exp(x)
        total = reduce("sum", e, axes, True)
        if not self.value(total).all():
            return None
        kind = self.integer(0, 2)
        return F.div(e, total) if kind == 0 else F.sub(x, F.log(total)) if kind == 1 else F.log(total)

    def normalise(self) -> Any:
        x = self.any(ndim=1)
        axes = self.axes(x.ndim)
        count = Lit(max(math.prod(x.shape[a] for a in axes), 1), F64)
        centred = F.sub(x, F.div(reduce("sum", x, axes, True), count))
        variance = F.div(reduce("sum", F.square(centred), axes, True), count)
        return F.div(centred, F.sqrt(F.add(variance, literal(0.1))))

    def slices(self) -> Any:
        x = self.any(ndim=1)
        start, step, shape = [], [], []
        for n in x.shape:
            length = n if self.chance(0.4) else self.integer(0 if self.chance(0.1) else min(1, n), n)
            most = (n - 1) // (length - 1) if length > 1 else 1
            stride = self.integer(1, max(1, min(most, 3)))
            first = self.integer(0, max(0, n - 1 - stride * (length - 1))) if length else 0
            if length > 1 and self.chance(0.3):
                first, stride = first + stride * (length - 1), -stride
            start.append(first), step.append(stride), shape.append(length)
        return take_slice(x, tuple(start), tuple(step), tuple(shape))

    def pad(self) -> Any:
        x = self.any(ndim=1)
        start, step, shape = [], [], []
        for n in x.shape:
            stride = self.one_of([1, 1, 1, 2]) if n > 1 else 1
            span = stride * (n - 1) + 1 if n else 0
            before, after = (0, 0) if self.chance(0.4) else (self.integer(0, 2), self.integer(0, 2))
            if n > 1 and self.chance(0.2):
                start.append(before + span - 1), step.append(-stride)
            else:
                start.append(before), step.append(stride)
            shape.append(before + span + after)
        if math.prod(shape) > MOST:
            return None
        return bind(PRIMITIVES["pad"], x, start=tuple(start), step=tuple(step), shape=tuple(shape))

    def update(self) -> Any:
        x = self.any(ndim=1)
        part = tuple(self.integer(0 if self.chance(0.1) else min(1, n), n) for n in x.shape)
        start = tuple(self.integer(0, n - m) for n, m in zip(x.shape, part, strict=True))
        fits = [v for v in self.pool if v.shape == part]
        v = self.one_of(fits) if fits and self.chance(0.7) else self.new_input(part)
        return bind(PRIMITIVES["update"], x, v, start=start, step=(1,) * x.ndim)

    def stencil(self) -> Any:
        x = self.any(ndim=1)
        axis = self.integer(0, x.ndim - 1)
        n = x.shape[axis]
        if n < 3:
            return None
        low, high = slice_axis(x, axis, 0, n - 1), slice_axis(x, axis, 1, n - 1)
        kind = self.integer(0, 3)
        if kind == 0:
            return F.sub(high, low)
        if kind == 1:
            return F.add(F.square(high - F.square(low)), F.square(F.sub(literal(1.0), low)))
        if kind == 2:
            middle = slice_axis(x, axis, 1, n - 2)
            return slice_axis(x, axis, 0, n - 2) - 2 * middle + slice_axis(x, axis, 2, n - 2)
        cut = self.integer(1, n - 1)
        return concat([slice_axis(x, axis, cut, n - cut), slice_axis(x, axis, 0, cut)], axis)  # a roll

    def join(self) -> Any:
        x = self.any(ndim=1)
        axis = self.integer(0, x.ndim - 1)
        fits = [v for v in self.pool if v.ndim == x.ndim and _equal_but(v.shape, x.shape, axis)]
        parts = [x, *[self.one_of(fits) for _ in range(self.integer(1, 2))]]
        self.rng.shuffle(parts)  # type: ignore[arg-type]
        if _cells([p.shape for p in parts]) * len(parts) > MOST:
            return None
        return concat(list(parts), axis)

    def stack(self) -> Any:
        x = self.any()
        fits = [v for v in self.pool if v.shape == x.shape]
        axis = self.integer(0, x.ndim)
        parts = [self.one_of(fits) for _ in range(self.integer(1, 3))]
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        if x.ndim > 2 or math.prod(shape) * len(parts) > MOST:
            return None
        return concat([reshape(p, shape) for p in parts], axis)

    def refold(self) -> Any:
        x = self.any()
        count = math.prod(x.shape)
        if not count:
            return reshape(x, (0, self.integer(1, 3)))
        shape, rest = [], count
        for _ in range(self.integer(0, 2)):
            divisors = [d for d in range(1, rest + 1) if rest % d == 0]
            shape.append(self.one_of(divisors))
            rest //= shape[-1]
        if rest > 1 or not shape:
            shape.append(rest)
        return reshape(x, tuple(shape))

    def turn(self) -> Any:
        x = self.any(ndim=2)
        return transpose(x, tuple(int(p) for p in self.rng.permutation(x.ndim)))

    def spread(self) -> Any:
        x = self.any()
        if x.ndim > 2:
            return None
        axis, n = self.integer(0, x.ndim), self.size()
        shape = (*x.shape[:axis], n, *x.shape[axis:])
        if math.prod(shape) > MOST:
            return None
        return expand(x, shape, (axis,))

    def outer(self) -> Any:
        x, y = self.any(ndim=1, exactly=True), self.any(ndim=1, exactly=True)
        n, m = x.shape[0], y.shape[0]
        if n * m > MOST:
            return None
        wide, tall = expand(x, (n, m), (1,)), expand(y, (n, m), (0,))
        return self.one_of([F.mul, F.sub, F.add, lambda a, b: F.exp(F.neg(F.square(a - b)))])(wide, tall)

    def product(self) -> Any:
        x = self.any(ndim=2)
        ta, tb = self.chance(0.3), self.chance(0.3)
        if x.ndim == 2 and self.chance(0.3):
            return contract_last(x, self.new_input((x.shape[1],)))
        if self.chance(0.3):
            return matmul(x, x, ta, not ta)
        inner = x.shape[-2] if ta else x.shape[-1]
        fits = [v for v in self.pool if v.ndim == x.ndim and v.shape[:-2] == x.shape[:-2]]
        fits = [v for v in fits if v.shape[-1 if tb else -2] == inner]
        if fits and self.chance(0.7):
            y = self.one_of(fits)
        else:
            columns = self.integer(1, 5)
            y = self.new_input((*x.shape[:-2], *((columns, inner) if tb else (inner, columns))))
        return matmul(x, y, ta, tb)

    def recur(self) -> Any:
        x = self.any(ndim=1)
        axis, reverse = self.integer(0, x.ndim - 1), self.chance(0.3)
        kind = self.integer(0, 2)
        if kind == 0 and self.reach(x) < 10:
            return cumsum(x, axis, reverse)
        if kind == 1:
            return cumprod(F.tanh(x) if self.reach(x) > 1.5 else x, axis, reverse)
        fits = [v for v in self.pool if v.shape == x.shape]
        return linrec(F.tanh(self.one_of(fits)), x, reverse)

    def pick(self) -> Any:
        x = self.any(ndim=1)
        n = x.shape[0]
        shape = self.one_of([(3,), (1,), (7,), (2, 3), (), (0,), (20,)])
        if n == 0 or math.prod(shape) * math.prod(x.shape[1:]) > MOST:
            return None
        index = self.new_input(shape, I64, n)
        if self.chance(0.6):
            return gather(x, index)
        v = self.new_input((*shape, *x.shape[1:]))
        return bind(PRIMITIVES[self.one_of(["scatter_add", "scatter"])], x, index, v)

    def sort(self) -> Any:
        x = self.any(ndim=1)
        if not self.clear_winner(x, (x.ndim - 1,)):
            return None
        return take_along_last(x, bind(PRIMITIVES["argsort"], x, stable=True))

    def best(self) -> Any:
        x = self.any(ndim=1)
        axis = x.ndim - 1
        if not self.clear_winner(x, (axis,)):
            return None
        best = bind(PRIMITIVES[self.one_of(["argmax", "argmin"])], x, axes=(axis,))
        here = F.eq(expand(best, x.shape, (axis,)), expand(iota(x.shape[axis]), x.shape, tuple(range(axis))))
        return F.select(here, F.square(x), literal(0.0))

    def triangle(self) -> Any:
        x = self.any(ndim=2)
        axis = x.ndim - 2
        others = tuple(range(axis))
        rows = expand(iota(x.shape[axis]), x.shape, (*others, axis + 1))
        columns = expand(iota(x.shape[axis + 1]), x.shape, (*others, axis))
        return F.select(self.one_of([F.ge, F.lt, F.eq])(rows, columns), x, self.constant())

    STEPS: tuple[tuple[str, int], ...] = (
        ("unary", 9), ("binary", 9), ("reduction", 7), ("softmax", 2), ("normalise", 2), ("slices", 3), ("pad", 2),
        ("update", 2), ("stencil", 3), ("join", 2), ("stack", 1), ("refold", 2), ("turn", 3), ("spread", 2),
        ("outer", 2), ("product", 3), ("recur", 2), ("pick", 2), ("sort", 1), ("best", 1), ("triangle", 1),
        ("compare", 2), ("where", 2),
    )  # fmt: skip

    def grow(self, steps: int) -> Case:
        names = [name for name, weight in self.STEPS for _ in range(weight)]
        with building(self.builder):
            for _ in range(self.integer(1, 2)):
                self.new_input(self.shape())
            attempts = 4 * steps
            while steps > 0 and attempts > 0:
                attempts -= 1
                before = len(self.builder.nodes)
                try:
                    result = getattr(self, self.one_of(names))()
                except ShapeError:
                    result = None
                if result is None:
                    continue
                result = self.tame(result)
                fresh = [out for node in self.builder.nodes[before:] for out in node.outs]
                bad = max([0, *[v.aval.size for v in fresh]]) > MOST or not np.all(np.isfinite(self.value(result)))
                if result.aval.dtype == F64 and not bad and result.ndim <= 3:
                    self.pool.append(result)
                    steps -= 1
            read = {a for node in self.builder.nodes for a in node.inputs}
            leaves = [v for v in self.pool if v not in read and v not in self.inputs] or self.pool[-1:]
            outputs: list[Atom] = list(leaves[-self.one_of([1, 2, 3, 4]) :])
            outputs += [self.one_of(self.pool) for _ in range(self.one_of([0, 0, 0, 1, 1, 2]))]
            if self.chance(0.2):
                outputs.append(self.one_of(self.conditions) if self.conditions else self.constant())
        nodes = live_nodes(self.builder.nodes, outputs)
        graph = Graph(list(self.inputs), nodes, outputs)
        case = without_unused_inputs(Case(graph, list(self.values)))
        check_graph(case.graph)
        return case


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(n == m or 1 in (n, m) for n, m in zip(a[::-1], b[::-1], strict=False)) and _cells((a, b)) <= MOST


def _cells(shapes: Sequence[tuple[int, ...]]) -> int:
    """How many elements *shapes* broadcast to, at most."""
    longest = max(len(s) for s in shapes)
    aligned = [(1,) * (longest - len(s)) + s for s in shapes]
    return math.prod(max(dims) for dims in zip(*aligned, strict=True))


def _equal_but(a: tuple[int, ...], b: tuple[int, ...], axis: int) -> bool:
    return all(n == m for i, (n, m) in enumerate(zip(a, b, strict=True)) if i != axis)


def program(seed: int) -> Case:
    """The program of *seed*."""
    generator = Generator(seed)
    return generator.grow(generator.one_of([2, 4, 6, 9, 12, 16]))


# ---- judging ---------------------------------------------------------------------------------------------------


def gradient_case(case: Case, seed: int = 0) -> Case | None:
    """Value and gradients of the weighted sum of the float outputs; None where nothing can be differentiated."""
    if not float_inputs(case.graph) or not any(o.aval.is_float and isinstance(o, Var) for o in case.graph.outputs):
        return None
    scalar = dot_graph(case.graph)
    rng = np.random.default_rng(seed)
    weights = [rng.uniform(-1, 1, v.aval.shape) for v in scalar.inputs[len(case.inputs) :]]
    return Case(grad_graph(scalar, with_value=True), [*case.inputs, *weights])


def second_order_case(case: Case, seed: int = 0) -> Case | None:
    """Gradients of a weighted sum of the gradients."""
    first = gradient_case(case, seed)
    if first is None:
        return None
    return gradient_case(first, seed + 1)


def judge_derivatives(case: Case) -> str:
    """What is wrong with the derivatives of *case*, by forward mode and finite differences; empty if they are right."""
    if gradient_case(case) is None:
        return ""
    if not all(np.all(np.isfinite(v)) for v in [*case.inputs, *evaluate(case.graph, case.inputs)]):
        return ""
    scalar = dot_graph(case.graph)
    rng = np.random.default_rng(1)
    point = [*case.inputs, *[rng.uniform(-1, 1, v.aval.shape) for v in scalar.inputs[len(case.inputs) :]]]
    gradients = evaluate(grad_graph(scalar), point)
    for g in gradients:
        if not np.all(np.isfinite(g)):
            return f"a gradient is not finite: {g}"
    which = float_inputs(scalar)
    tangents = [rng.uniform(-1, 1, point[i].shape) for i in which]
    pulled = sum(float(np.sum(g * t)) for g, t in zip(gradients, tangents, strict=True))
    (pushed,) = evaluate(jvp_graph(scalar), [*point, *tangents])
    scale = 1 + max([0.0, *[float(np.sum(np.abs(g * t))) for g, t in zip(gradients, tangents, strict=True)]])
    if not abs(pulled - pushed) <= 1e-9 * scale:
        return f"vjp gives {pulled}, jvp gives {pushed}"
    directions: list[Any] = [None] * len(point)
    for i, t in zip(which, tangents, strict=True):
        directions[i] = t
    fine, coarse = (
        float(directional(lambda *xs: evaluate(scalar, xs)[0], point, directions, step)) for step in (1e-4, 2.1e-4)
    )
    if not abs(fine - coarse) <= 1e-6 * scale:
        return ""  # a kink, or a jump, lies between
    if not abs(pulled - fine) <= 2e-6 * scale:
        return f"vjp gives {pulled}, finite differences {fine} and {coarse}"
    return ""


def judge_tier(case: Case, run: Callable[[Graph, Sequence[Any]], list[np.ndarray]]) -> str:
    """Where *run* differs from the interpreter on *case*; nothing if it does not."""
    env: dict[Var, Any] = dict(zip(case.graph.inputs, case.inputs, strict=True))
    run_nodes(case.graph.nodes, env)
    magnitudes = [np.abs(v[np.isfinite(v)]) for v in map(np.asarray, env.values()) if v.dtype.kind == "f"]
    scale = max([1.0, *[float(np.max(m)) for m in magnitudes if m.size]])
    expected = [np.asarray(o.value if isinstance(o, Lit) else env[o]) for o in case.graph.outputs]
    before = [x.copy() for x in case.inputs]
    found = run(case.graph, case.inputs)
    for x, kept in zip(case.inputs, before, strict=True):
        if x.tobytes() != kept.tobytes():
            return "an input was written to"
    if len(found) != len(expected):
        return f"{len(found)} outputs instead of {len(expected)}"
    for position, (a, b) in enumerate(zip(map(np.asarray, found), expected, strict=True)):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"output {position} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"
        if b.dtype.kind != "f":
            wrong = a != b
        else:
            with np.errstate(all="ignore"):
                near = np.abs(a - b) <= 1e-11 * scale + 1e-10 * np.abs(b)
            wrong = ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
        if np.any(wrong):
            count = f"{int(np.sum(wrong))} of {wrong.size} elements"
            return f"output {position} differs in {count}:\n{a!r}\nexpected\n{b!r}"
    return ""


def with_special_values(case: Case, seed: int) -> Case:
    """The same program on inputs some of which are NaN, infinite or zero."""
    rng = np.random.default_rng(seed)
    inputs = []
    for x in case.inputs:
        if x.dtype == F64:
            x = np.where(rng.random(x.shape) < 0.15, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], x.shape), x)
        inputs.append(np.asarray(x))
    return Case(case.graph, inputs)


# ---- shrinking -------------------------------------------------------------------------------------------------


def without_unused_inputs(case: Case) -> Case:
    used = {a for n in case.graph.nodes for a in n.inputs if isinstance(a, Var)} | set(case.graph.outputs)
    kept = [i for i, v in enumerate(case.graph.inputs) if v in used]
    graph = Graph([case.graph.inputs[i] for i in kept], case.graph.nodes, case.graph.outputs)
    return Case(graph, [case.inputs[i] for i in kept])


def _smaller(case: Case) -> list[Callable[[], Case]]:
    """Ways to make *case* smaller, the boldest first."""
    graph = case.graph

    def keep_outputs(outputs: list[Atom]) -> Case:
        return without_unused_inputs(Case(Graph(graph.inputs, live_nodes(graph.nodes, outputs), outputs), case.inputs))

    def cut(position: int) -> Case:
        env: dict[Var, Any] = dict(zip(graph.inputs, case.inputs, strict=True))
        run_nodes(graph.nodes[: position + 1], env)
        new = graph.nodes[position].outs
        rest = [n for i, n in enumerate(graph.nodes) if i != position]
        smaller = Graph([*graph.inputs, *new], live_nodes(rest, graph.outputs), graph.outputs)
        return without_unused_inputs(Case(smaller, [*case.inputs, *[np.array(env[v]) for v in new]]))

    ways: list[Callable[[], Case]] = []
    if len(graph.outputs) > 1:
        outputs = graph.outputs
        ways += [lambda o=o: keep_outputs([o]) for o in outputs]
        ways += [lambda i=i: keep_outputs(outputs[:i] + outputs[i + 1 :]) for i in range(len(outputs))]
    ways += [lambda n=n: keep_outputs([n.out]) for n in graph.nodes[:-1] if graph.outputs != [n.out]]
    ways += [lambda i=i: cut(i) for i in reversed(range(len(graph.nodes)))]
    return ways


def delicate(case: Case) -> bool:
    """Whether a comparison is decided by rounding, so that two correct tiers may differ.

    ``x == max(x)`` must hold in each tier; where shrinking made its right side an input, it no longer has to.
    """
    env: dict[Var, Any] = dict(zip(case.graph.inputs, case.inputs, strict=True))
    run_nodes(case.graph.nodes, env)
    above: dict[Var, set[Var]] = {v: set() for v in case.graph.inputs}
    for node in case.graph.nodes:
        sources = [a for a in node.inputs if isinstance(a, Var)]
        above[node.out] = set(sources).union(*[above[a] for a in sources])
        if node.prim.name in ("eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum") and len(sources) == 2:
            a, b = sources
            related = a is b or a in above[b] or b in above[a] or (a in case.graph.inputs and b in case.graph.inputs)
            if a.aval.is_float and not related:
                with np.errstate(all="ignore"):
                    gap = np.abs(env[a] - env[b]) <= 1e-9 * (1 + np.abs(env[a]))
                if np.any(gap & (env[a] != 0)):
                    return True
    return False


def _measure(case: Case) -> tuple[int, int]:
    return len(case.graph.nodes), len(case.graph.outputs)


def shrink(case: Case, fails: Callable[[Case], bool], budget: int = 400) -> Case:
    """A smaller case that still fails: outputs dropped, prefixes cut off and given as inputs."""
    progress = True
    while progress and budget > 0:
        progress = False
        for way in _smaller(case):
            budget -= 1
            if budget <= 0:
                break
            smaller = way()
            if _measure(smaller) < _measure(case) and not delicate(smaller) and fails(smaller):
                case, progress = smaller, True
                break
    return case


# ---- hunting ---------------------------------------------------------------------------------------------------


def cases_of(seed: int) -> dict[str, Case]:
    """What the kernel tier is asked to run for *seed*."""
    case = program(seed)
    found = {"value": case, "gradient": gradient_case(case, seed), "special values": with_special_values(case, seed)}
    if seed % 4 == 0 and len(case.graph.nodes) < 25:
        found["second order"] = second_order_case(case, seed)
    return {name: c for name, c in found.items() if c is not None}


def judge_kernel(case: Case) -> str:
    try:
        return judge_tier(case, TIERS["kernel"])
    except Exception:
        return traceback.format_exc(limit=-3)


def in_child(case: Case) -> str:
    """``judge_kernel`` in a child process; a crash is a verdict too."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as stream:
            stream.write(judge_kernel(case))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        verdict = stream.read()
    _, status = os.waitpid(child, 0)
    return verdict if status == 0 else f"crashed with status {status}"


def main() -> int:
    parser = argparse.ArgumentParser(description="hunt for programs that the kernel tier gets wrong")
    parser.add_argument("count", type=int)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--derivatives", action="store_true", help="judge the derivative rules instead of the kernels")
    parser.add_argument("--stop", type=int, default=5, help="after so many findings of different kinds")
    options = parser.parse_args()
    judge = judge_derivatives if options.derivatives else in_child
    findings = 0
    seen: dict[tuple[str, ...], int] = {}
    for seed in range(options.start, options.start + options.count):
        for name, case in ({"": program(seed)} if options.derivatives else cases_of(seed)).items():
            verdict = judge(case)
            if not verdict:
                continue
            findings += 1
            small = shrink(case, lambda c: bool(judge(c)))
            kind = tuple(sorted({node.prim.name for node in small.graph.nodes}))
            seen[kind] = seen.get(kind, 0) + 1
            if seen[kind] == 1:
                print(f"seed {seed}, {name}: {verdict}\nshrunk: {judge(small)}\n{small}\n", flush=True)
        if len(seen) >= options.stop:
            break
    print(f"{findings} findings in seeds {options.start} to {seed}, by the primitives left after shrinking:")
    for kind, count in seen.items():
        print(f"  {count:4} {', '.join(kind)}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
