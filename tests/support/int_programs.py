"""Random programs of ints, floats and arrays, called with many ints, compared with plain Python.

    python tests/support/int_programs.py 0 20000    # hunt: every difference is printed with its program
    python tests/support/int_programs.py 4711 1     # one seed again, with its source

A program computes with the ints ``n`` and ``m`` and asks about them: arithmetic, bits, comparisons, types, indices,
lengths, shapes, loops.  What it returns, types of ints included, and whether it raises, must be plain Python's.
"""

from __future__ import annotations

import enum
import linecache
import random
import sys
import warnings
from typing import Any

import numpy as np

from tracegrad import compile_grad
from tracegrad.tracer.ir.errors import TracegradError


class Choice(enum.IntEnum):
    A = 3
    B = 7


class Own(int):
    pass


SMALL = [0, 1, 2, 3, 4, 5, 7, 10, -1, -2, -7, 13, 100, 65535, -65536]
OTHERS = [
    65536, 65537, 2**31, -(2**31), 2**31 + 1, 2**40, 2**53, 2**63, 10**20, -(10**18), True, False, np.int64(4),
    np.int32(-3), Choice.A, Choice.B, Own(6), 1.5, np.float64(2.5),
]  # fmt: skip
SIGNS = ("<", "<=", ">", ">=", "==", "!=")
COMPUTES = "+ - * * // % ** neg ~ abs max min if divmod round int".split()
ASKS = "& | ^ << >> len bool bits".split()
QUESTIONS = (
    "isinstance(n, int)", "type(n) is int", "isinstance(n, float)", "isinstance(m, (int, np.integer))",
    "hasattr(n, 'shape')", "n is None", "isinstance(n, bool)", "np.isscalar(n)", "callable(n)", "n",
)  # fmt: skip
HELPERS = """
def inplace(v, i):
    v = v * 1.0
    v += i
    v[0] = i
    return v
"""


class Program:
    """The text of a program: ``fn(x, n, a, m, f, k, b)`` of arrays x (float64), f (float32), k (int64)."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.asks = self.draw.random() < 0.4
        lines = ["def fn(x, n, a, m, f, k, b):", "    s = a * 1.0"]
        for _ in range(self.draw.randint(1, 3)):
            lines += [f"    {line}" for line in self.statement()]
        results = ["s", "s", "s", "(s, n)", f"(s, {self.integer(2)})", self.number(2)]
        self.text = HELPERS + "\n".join([*lines, f"    return {self.one(results)}"])

    def one(self, choices: Any) -> Any:
        return self.draw.choice(choices)

    def statement(self) -> list[str]:
        kind = self.draw.random()
        if kind < 0.5:
            return [f"s = s + np.sum({self.array(3)})"]
        if kind < 0.65:
            return [f"s = s * {self.number(3)}"]
        if kind < 0.8:
            return [f"if {self.truth(2)}:", f"    s = s + {self.number(2)}", "else:", f"    s = s - {self.number(2)}"]
        if kind < 0.9:
            trips, step = self.one(["3", "4", "abs(n) % 5", "40"]), f"c {self.one('+*-')} {self.one(['n', 'i', '2'])}"
            return [
                f"c = {self.integer(1)}",
                f"for i in range({trips}):",
                f"    c = {step}",
                "    s = s + c * x[i % 3]",
            ]
        step = self.one(["c + 1", "c * 2", "c - n", "c * n"])
        start = ["t = abs(s) + 1.0", "c = n", f"while t < {self.one(['50.0', '1e3', '1e6'])}:"]
        return [*start, "    t = t * 2.0 + 1.0", f"    c = {step}", "s = s + c * 1e-3 * t"]

    def integer(self, depth: int) -> str:
        if depth <= 0 or self.draw.random() < 0.2:
            constants = [0, 1, 2, 3, 5, -1, -4, 10, *([1000, 10**18, 2**53] if self.asks else [])]
            return self.one(["n", "n", "m", "n", str(self.one(constants))])
        kind = self.one(COMPUTES + ASKS if self.asks else COMPUTES)
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        unary = {"neg": f"(-{a})", "~": f"(~{a})", "bits": f"({a}).bit_length()", "len": f"len(range(abs({a}) % 9))"}
        if kind in unary:
            return unary[kind]
        if kind in ("abs", "round", "int"):
            return f"{kind}({a})"
        if kind in ("max", "min"):
            return f"{kind}({a}, {b})"
        if kind == "**":
            return f"({a} ** {self.one([0, 1, 2, 2, 3, 5])})"
        if kind in ("<<", ">>"):
            return f"({a} {kind} {self.one([0, 1, 3])})"
        if kind == "divmod":
            return f"divmod({a}, {b})[{self.one([0, 1])}]"
        if kind == "if":
            return f"({a} if {a} {self.one(SIGNS)} {b} else {b})"
        return f"({self.truth(depth - 1)})" if kind == "bool" else f"({a} {kind} {b})"

    def truth(self, depth: int) -> str:
        kind = self.draw.random()
        if kind < 0.6:
            return f"{self.integer(depth - 1)} {self.one(SIGNS)} {self.integer(depth - 1)}"
        if kind < 0.7 and self.asks:
            return f"{self.integer(depth - 1)} in {self.one(['(1, 2, 3)', '{3, 5}', 'range(4)', '[0, 7]'])}"
        if kind < 0.85:
            return self.one(QUESTIONS)
        return f"{self.number(depth - 1)} < {self.number(depth - 1)}"

    def number(self, depth: int) -> str:
        if depth <= 0 or self.draw.random() < 0.2:
            return self.one(["a", "0.5", "n", "m", "2.0", "b"])
        kind = self.one("+ - * / / // % int int ** float sqrt tanh float64 sum mean".split())
        a, b = self.number(depth - 1), self.number(depth - 1)
        if kind == "int":
            return self.integer(depth)
        if kind in ("sum", "mean"):
            return f"np.{kind}({self.array(depth - 1)})"
        if kind == "**":
            return f"({a} ** {self.one(['2', '-1', '0.5', '(n % 7)', '(m % 5)', '3'])})"
        wrapped = {"float": f"float({a})", "sqrt": f"np.sqrt(abs({a}))"}
        return wrapped.get(kind, f"np.{kind}({a})" if kind.isidentifier() or kind == "float64" else f"({a} {kind} {b})")

    def array(self, depth: int) -> str:
        if depth <= 0 or self.draw.random() < 0.2:
            return self.one(["x", "x", "f", "k", "x[1:]", "np.arange(3.0)", "x[:2]"])
        kinds = "+ - * / ** int int float32 int64 ufunc > where clip maximum in_place".split()
        kind = self.one(kinds + "index roll full zeros ones array axis".split() if self.asks else kinds)
        a, v, i = self.array(depth - 1), self.number(depth - 1), self.integer(depth - 1)
        if kind in ("+", "-", "*", "/"):
            return f"({a} {kind} {v})" if self.draw.random() < 0.5 else f"({v} {kind} {a})"
        names = ["add", "subtract", "multiply", "divide", "minimum", "arctan2", "fmod", "copysign"]
        return {
            "**": lambda: f"(abs({a}) ** {self.one(['n', 'm', '2', '(n + 1)', '(n % 4)'])})",
            "int": lambda: f"({a} {self.one('+-*')} {i})",
            "float32": lambda: f"(f * {i})",
            "int64": lambda: f"(k + {i})",
            "ufunc": lambda: f"np.{self.one(names)}({a}, {i})",
            ">": lambda: f"({a} > {i})",
            "where": lambda: f"np.where({a} > {i}, {a}, {i})",
            "clip": lambda: f"np.clip({a}, {self.one(['0', '-1', 'None'])}, {i})",
            "maximum": lambda: f"np.maximum({a}, {i})",
            "in_place": lambda: f"inplace({a}, {i})",
            "index": lambda: f"x[{i}]",
            "roll": lambda: f"np.roll({a}, {i})",
            "full": lambda: f"np.full_like({a}, {i})",
            "zeros": lambda: f"np.zeros(abs({i}) % 5 + 1)",
            "ones": lambda: f"np.ones((2, abs({i}) % 4 + 1)).ravel()",
            "array": lambda: f"np.array([{v}, {i}, 1.0])",
            "axis": lambda: f"np.sum(np.stack([x, x * {v}]), axis={i})",
        }[kind]()


def answered(fn: Any, args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    try:
        return fn(*args), None
    except Exception as error:
        return None, error


def same(p: Any, q: Any) -> bool:
    """Whether a result is plain Python's, rounding aside; ints have to be ints, and equal."""
    if isinstance(p, tuple) or isinstance(q, tuple):
        return type(p) is type(q) and len(p) == len(q) and all(map(same, p, q))
    if isinstance(p, int):
        return type(p) is type(q) and p == q
    if isinstance(p, complex) or isinstance(q, complex):
        return type(p) is type(q)
    a, b = np.asarray(p, float), np.asarray(q, float)
    limit = 2e-5 if np.asarray(p).dtype == np.float32 else 1e-9
    return a.shape == b.shape and np.allclose(a, b, rtol=limit, atol=1e-9, equal_nan=True)


def differences(seed: int) -> tuple[list[str], Any, str]:
    """(differences from plain Python, the compiled function, its text).  What a first call of a new compiled function
    answers as well, or refuses, is none: no int is a number of the run there."""
    text, draw, name = Program(seed).text, random.Random(-1 - seed), f"<int program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), space)
    fn, found = space["fn"], list[str]()
    compiled = compile_grad(fn)
    x, f, k = np.array([0.5, -1.25, 2.0]), np.array([0.5, 1.5, -2.0], np.float32), np.array([1, -2, 3])
    few = 0.95 if draw.random() < 0.7 else 0.7
    values = [draw.choice(SMALL if draw.random() < few else OTHERS) for _ in range(16)]
    for n in values:
        m = draw.choice(SMALL[:12]) if draw.random() < 0.3 else draw.choice([2, 3])
        args = x, n, draw.choice([0.5, 1.5, -0.75]), m, f, k, 2.5
        expected, raised = answered(fn, args)
        ours, error = answered(compiled, args)
        if (raised is None) == (error is None) and (raised is not None or same(expected, ours)):
            continue
        fresh, refused = answered(compile_grad(fn), args)
        if (refused is None) != (error is None) or (refused is None and not same(fresh, ours)):
            found.append(f"n={n!r} m={m!r}: {raised or expected!r}, not {error or ours!r}")
        elif error is not None and not isinstance(error, TracegradError) and type(error) is not type(refused):
            found.append(f"n={n!r} m={m!r}: raises {error!r}, not {refused!r}")
    if draw.random() < 0.3:
        for n in values[:6]:
            args = x, n, 1.5, 2, f, k, 2.5
            gradient, error = answered(compiled.grad, args)
            if error is None and not same(gradient, answered(compile_grad(fn).grad, args)[0]):
                found.append(f"n={n!r}: the gradient is not {gradient!r}")
    return found, compiled, text


def main() -> None:
    warnings.simplefilter("ignore")
    first, count = int(sys.argv[1]), int(sys.argv[2])
    wrong = numbers = calls = traces = 0
    for seed in range(first, first + count):
        found, compiled, text = differences(seed)
        wrong, numbers = wrong + bool(found), numbers + any("a number of the run" in r for r in compiled.stats.retraces)
        calls, traces = calls + compiled.stats.calls, traces + compiled.stats.traces
        if found or count == 1:
            print(f"seed {seed}", text, *found, compiled.stats, sep="\n")
    print(f"{count} programs, {wrong} of them wrong; ints are numbers in {numbers}; {calls} calls, {traces} traces")


if __name__ == "__main__":
    main()
