"""Random programs of ints, floats and arrays, called with many ints, compared with plain Python.

    python tests/support/int_programs.py 0 20000    # hunt: every difference is printed with its program
    python tests/support/int_programs.py 4711 1     # one seed again, with its source

A program computes with the ints ``n`` and ``m`` and asks about them: arithmetic, bits, comparisons, types, indices,
lengths, shapes, loops.  What it returns, types of ints included, and whether it raises, must be plain Python's.  Every
other one has an owner ``o``, too: a counter that is read, an int that the caller sets, places where ints are stored,
lists that they are appended to, prints; what is left there must be plain Python's.  Each fourth is a step of tensors.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import io
import linecache
import random
import sys
import warnings
from typing import Any

import numpy as np

import tracegrad
from tracegrad import Tensor, compile_grad, tensor
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
TENSOR_FUNCTIONS = ("where", "clamp", "full_like", "roll", "ones", "tensor")
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
        self.owner, self.steps = seed % 2 == 1, seed % 4 == 3
        lines = ["def fn(x, n, a, m, f, k, b):", "    s = a * 1.0"]
        for _ in range(self.draw.randint(1, 3)):
            lines += [f"    {line}" for line in self.statement()]
            if self.owner and self.draw.random() < 0.8:
                lines += [f"    {line}" for line in self.effect()]
        results = ["s", "s", "s", "(s, n)", f"(s, {self.integer(2)})", self.number(2)]
        if self.owner:
            results += [f"{{'v': s, 'n': {self.integer(1)}}}", f"[{self.integer(1)}, s, ({self.truth(1)})]", "s, o.c"]
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

    def effect(self) -> list[str]:
        value = self.integer(self.one([1, 2]))
        return self.one([
            ["o.c += 1"], ["o.c += 1"], [f"o.c += {value}"], [f"o.c = {value}"], [f"o.last = {value}"],
            [f"o.last = ({value}, s)"], [f"o.log.append({value})"], [f"o.log.append(({value}, s * 1.0))"],
            [f"o.d['v'] = {value}"], ["o.d['n'] += 1"], [f"o.log.append({{'n': {value}, 'm': m}})"],
            [f"print({value}, f'{{n:4d}} {{{value}}}')"], [f"o.best = max(o.best, {value})"],
            [f"if {self.truth(1)}:", f"    o.c, o.last = 0, {value}"],
        ])  # fmt: skip

    def integer(self, depth: int) -> str:
        if self.owner and self.draw.random() < 0.15:
            return self.one(["o.c", "o.c", "o.k", 'o.d["n"]', 'o.d["k"]', "G"])
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
        if self.steps:
            return self.tensor(depth)
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

    def tensor(self, depth: int) -> str:
        if depth <= 0 or self.draw.random() < 0.2:
            return self.one(["x", "x", "f", "k", "x[1:]", "x[:2]"])
        kinds = ["+", "-", "*", "/", "int", "int", "int", "float32", "int64", ">", "where", "clamp", "in_place", "fill"]
        kind = self.one([*kinds, "index", "roll", "0-d", "full", "tensor"] if self.asks else kinds)
        a, v, i = self.array(depth - 1), self.number(depth - 1), self.integer(depth - 1)
        if kind in ("+", "-", "*", "/"):
            return f"({a} {kind} {v})" if self.draw.random() < 0.5 else f"({v} {kind} {a})"
        return {
            "int": lambda: f"({a} {self.one(['+', '-', '*', '/', '**', '%', '//'])} {i})",
            "float32": lambda: f"(f * {i})",
            "int64": lambda: f"({i} - k)",
            ">": lambda: f"({a} > {i})",
            "where": lambda: f"where({a} > {i}, {a}, {i})",
            "clamp": lambda: f"clamp({a}, {self.one(['0', '-1', 'None'])}, {i})",
            "in_place": lambda: f"({a} * 1.0).add_({i})",
            "fill": lambda: f"full_like({a}, {self.one(['n', 'm', 'n + m'])})",
            "index": lambda: f"x[{i}]",
            "roll": lambda: f"roll({a}, {i})",
            "0-d": lambda: f"(f.sum() * {i})",
            "full": lambda: f"ones(abs({i}) % 5 + 1)",
            "tensor": lambda: f"tensor([{i}, 1, n])",
        }[kind]()


class Owner:
    """Where a program counts, stores and reads; ``k`` is set by the caller."""

    def __init__(self) -> None:
        self.c, self.k, self.last, self.best, self.log, self.d = 0, 1, None, -(10**6), [], {"n": 0, "v": None, "k": 2}


def answered(fn: Any, args: tuple[Any, ...]) -> tuple[Any, Exception | None, str]:
    """(its result, what it raises, what it prints)."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            return fn(*args), None, output.getvalue()
        except Exception as error:
            return None, error, output.getvalue()


def same(p: Any, q: Any) -> bool:
    """Whether a result is plain Python's, rounding aside; ints have to be ints, and equal."""
    if isinstance(p, (tuple, list)) or isinstance(q, (tuple, list)):
        return type(p) is type(q) and len(p) == len(q) and all(map(same, p, q))
    if isinstance(p, (dict, Owner)) or isinstance(q, (dict, Owner)):
        a, b = (vars(v) if isinstance(v, Owner) else v for v in (p, q))
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if p is None or isinstance(p, str):
        return type(p) is type(q) and p == q
    if isinstance(p, Tensor) or isinstance(q, Tensor):
        return type(p) is type(q) and p.dtype == q.dtype and same(p.detach().numpy(), q.detach().numpy())
    if isinstance(p, int):
        return type(p) is type(q) and p == q
    if isinstance(p, complex) or isinstance(q, complex):
        return type(p) is type(q)
    a, b = np.asarray(p, float), np.asarray(q, float)
    limit = 2e-5 if np.asarray(p).dtype == np.float32 else 1e-9
    return a.shape == b.shape and np.allclose(a, b, rtol=limit, atol=1e-9, equal_nan=True)


def differences(seed: int) -> tuple[list[str], Any, str]:
    """(differences from plain Python, the compiled function, its text).  What the first recorded call of a new compiled
    function answers as well, or refuses, is none: no int is a number of the run there."""
    program, draw, name = Program(seed), random.Random(-1 - seed), f"<int program {seed}>"
    text = program.text
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    code = compile(text, name, "exec")
    make: Any = tracegrad.compile if program.steps else compile_grad

    def fresh(owner: Owner) -> Any:
        space: dict[str, Any] = {"np": np, "o": owner, "G": 3 if plain is None else plain.__globals__["G"]}
        if program.steps:
            space |= {name: getattr(tracegrad, name) for name in TENSOR_FUNCTIONS}
        exec(code, space)
        return space["fn"]

    mine, theirs, found = Owner(), Owner(), list[str]()
    plain: Any = None
    fn, plain = fresh(mine), fresh(theirs)
    compiled = make(fn)
    x, f, k = np.array([0.5, -1.25, 2.0]), np.array([0.5, 1.5, -2.0], np.float32), np.array([1, -2, 3])
    if program.steps:
        x, f, k = map(tensor, (x, f, k))
    few = 0.95 if draw.random() < 0.7 else 0.7
    values = [draw.choice(SMALL if draw.random() < few else OTHERS) for _ in range(16)]
    for n in values:
        m = draw.choice(SMALL[:12]) if draw.random() < 0.3 else draw.choice([2, 3])
        if draw.random() < 0.4:
            mine.k = theirs.k = draw.choice(SMALL)
        if draw.random() < 0.3:
            mine.d["k"] = theirs.d["k"] = draw.choice(SMALL + OTHERS if draw.random() < 0.1 else SMALL)
        if draw.random() < 0.3:
            fn.__globals__["G"] = plain.__globals__["G"] = draw.choice(SMALL)
        if draw.random() < 0.1:
            mine.c = theirs.c = draw.choice(SMALL + OTHERS)
        args = x, n, draw.choice([0.5, 1.5, -0.75]), m, f, k, 2.5
        before = copy.deepcopy(theirs)
        expected, raised, printed = answered(plain, args)
        ours, error, shown = answered(compiled, args)
        if error is not None and isinstance(error, TracegradError) and raised is None:
            return found, compiled, text  # what it has done before that is done
        agrees = same(theirs, mine) and printed == shown
        if agrees and (raised is None) == (error is None) and (raised is not None or same(expected, ours)):
            continue
        another = make(fresh(before))
        if program.steps:  # whose first call runs eagerly
            kept = copy.deepcopy(vars(before))
            answered(another, args)
            vars(before).update(kept)
        anew, refused, _ = answered(another, args)
        other = (refused is None) != (error is None) or (refused is None and not same(anew, ours))
        if other or not same(before, mine):
            found.append(f"n={n!r} m={m!r}: {raised or expected!r}, not {error or ours!r}")
            found.append(f"{vars(theirs)}, not {vars(mine)}; printed {printed!r}, not {shown!r}")
            break
        if error is not None and not isinstance(error, TracegradError) and type(error) is not type(refused):
            found.append(f"n={n!r} m={m!r}: raises {error!r}, not {refused!r}")
        for name, value in vars(theirs).items():
            setattr(mine, name, copy.deepcopy(value))
    if draw.random() < 0.3 and not program.owner:
        for n in values[:6]:
            args = x, n, 1.5, 2, f, k, 2.5
            gradient, error, _ = answered(compiled.grad, args)
            if error is None and not same(gradient, answered(make(fn).grad, args)[0]):
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
