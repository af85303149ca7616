"""Random whole Python programs with loops and branches, as source text.

A program is a function ``f`` of floats, arrays and the int ``n``, with the helpers and globals that it reads.
``loop_programs.py`` runs, judges and shrinks it.  Values stay bounded (each state is wrapped in something like tanh),
so what two correct implementations find agrees in nearly every digit.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from loop_idioms import HELPERS, idioms

TRIPS = {0: 1, 1: 2, 2: 3, 3: 4, 5: 4, 8: 5, 13: 5, 20: 4, 40: 2}  # with how often each is drawn

PRELUDE = """\
scale = {scale}
gains = [0.5, {gain}, -0.75]
DATA = np.cos(np.arange({rows}.0 * {d}).reshape({rows}, {d}) * 1.7 + 0.3)
perm = [{perm}]

class Cell:
    def __init__(self, gain):
        self.gain = gain
        self.count = 2

    def step(self, v, u):
        return np.tanh(self.gain * v + 0.3 * u)

cell = Cell({cell})

def mix(v, u):
    return np.sin(0.6 * v - u * scale)

def squash(u, k):
    if k % 2 == 1:
        return u / (1.0 + u * u)
    return np.cos(u)

def rows_of(v, k):
    for m in range(k):
        yield np.tanh(v * (0.5 + 0.1 * m))

def descend(v, u, k):
    if k <= 0:
        return v
    return descend(np.tanh(0.5 * v + u / k), u, k - 1)
"""


@dataclass(slots=True)
class Program:
    """Source of ``f`` and what stands around it, and the sizes of what it is called with."""

    seed: int
    source: str
    names: list[str]  # of the arguments, in order
    trips: int
    d: int
    matrix: bool  # w is one


class Writer:
    """Writes one program from a seed."""

    def __init__(self, seed: int):
        self.seed = seed
        self.random = random.Random(seed)
        self.idiom_random = random.Random(-1 - seed)  # of its own: seeds of before have the same programs with more
        self.counter_random = random.Random(-1_000_000 - seed)  # likewise
        self.lines: list[str] = []
        self.depth = 1
        self.d = self.pick([1, 2, 3, 3, 4])
        self.trips = self.random.choices(list(TRIPS), list(TRIPS.values()))[0]
        self.small = self.trips >= 13
        self.forks = 1 if self.small else 2  # branches on data in loops: each outcome is a recording
        self.matrix = self.chance(0.5)
        self.names = ["w", "h", "c", "xs", "n"]
        for name in ("cs", "ps", "ids"):
            if self.chance(0.3):
                self.names.insert(4, name)
        self.vectors = ["h", "a", "b"]
        self.scalars = ["c", "s", "t"]
        self.indices: list[str] = []  # ints in sight; the first runs within 0..n-1
        self.lists: set[str] = set()
        self.loops = 0  # how many are open
        self.used_names = 0

    # -- choices and text

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, options: list[Any]) -> Any:
        return self.random.choice(options)

    def number(self) -> str:
        return str(round(self.random.uniform(-1.2, 1.2), 2))

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, prefix: str) -> str:
        self.used_names += 1
        return f"{prefix}{self.used_names}"

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Lines under *header*; what was in sight before is in sight afterwards."""
        self.emit(header)
        before = len(self.lines)
        kept = (list(self.vectors), list(self.scalars), list(self.indices))
        self.depth += 1
        yield
        if len(self.lines) == before:
            self.emit("pass")
        self.depth -= 1
        self.vectors, self.scalars, self.indices = kept

    # -- expressions

    def rows(self) -> list[str]:
        """Vectors read at the step's number."""
        if not self.indices:
            return []
        i = self.indices[0]
        found = [f"xs[{i}]", f"xs[n - 1 - {i}]", f"xs[{i} - 1]", f"DATA[{i}]", f"xs[min({i} + 1, n - 1)]"]
        found += [
            f"xs[perm[{i} % 4] % n]",
            f"xs[{i}:{i} + 3].sum(axis=0)",
            f"DATA[{i}:{i} + 2].mean(axis=0)",
            f"out[{i}]",
        ]
        found += [f"out[{i} - 1]", f"xs[{i}, ::-1]", f"xs[{i}][:]", f"xs[(3 * {i} + 1) % n]", "xs[k % n]"]
        found += [f"ps[{i}]", f"ps[{i} - 1]"] * ("ps" in self.names)
        found += [f"xs[ids[{i}]]", f"DATA[ids[{i}]]"] * ("ids" in self.names)
        return found

    def elements(self) -> list[str]:
        """Scalars read at the step's number, and numbers made of it."""
        if not self.indices:
            return ["np.sum(out)", "float(len(xs))"]
        i, last = self.indices[0], self.indices[-1]
        found = [f"xs[{i}, 0]", f"xs[{i}][-1]", f"DATA[{i}, 0]", f"0.5**{last}", f"1.0 / ({last} + 1)", f"({last} % 3)"]
        found += [
            f"gains[{last} % 3]",
            "gains[k % 3]",
            f"0.1 * {i}",
            f"np.sum(xs[:{i}])",
            f"float({i} == 2)",
            f"out[{i}, 0]",
        ]
        found += [f"cs[{i}]", f"cs[{i} - 1]"] * ("cs" in self.names)
        return found

    def vector(self, depth: int = 2) -> str:
        leaf = depth == 0 or self.chance(0.3)
        if leaf:
            return self.pick(self.rows()) if self.indices and self.chance(0.5) else self.pick(self.vectors)
        v, u = self.vector(depth - 1), self.scalar(depth - 1)
        kind = self.random.randrange(15)
        if kind < 3:
            return f"{v} {self.pick(['+', '-', '*'])} {self.vector(depth - 1)}"
        if kind == 3:
            return f"w @ ({v})" if self.matrix else f"w * ({v})"
        if kind == 4:
            return f"np.where({self.vector(0)} > {self.number()}, {v}, {self.number()} * {self.vector(0)})"
        if kind == 5:
            return f"np.concatenate([({v})[1:], ({v})[:1]])"
        return [
            f"np.tanh({v})", f"np.sin({v}) * {self.number()}", f"mix({v}, {u})", f"cell.step({v}, {u})", f"act({v})",
            f"({v})[::-1]", f"np.maximum({v}, {self.number()})", f"({v}) * ({u})", f"scale * ({v}) + ({u})",
        ][kind - 6]  # fmt: skip

    def scalar(self, depth: int = 2) -> str:
        leaf = depth == 0 or self.chance(0.3)
        if leaf:
            if self.chance(0.4):
                return self.pick(self.elements())
            return self.pick([*self.scalars, *self.scalars, self.number(), "0.1 * k", "1.0 / (len(ys) + 1)", "gain"])
        u = self.scalar(depth - 1)
        kind = self.random.randrange(9)
        if kind < 2:
            return f"({u}) {self.pick(['+', '-', '*'])} ({self.scalar(depth - 1)})"
        if kind < 4:
            return f"{self.pick(['np.sum', 'np.mean', 'np.max'])}({self.vector(depth - 1)})"
        return [
            f"({self.vector(depth - 1)}) @ {self.vector(0)}", f"np.tanh({u})", f"np.sin({u})",
            f"squash({u}, {self.pick(['k', 'cell.count', *self.indices])})", f"({self.vector(depth - 1)})[0]",
        ][kind - 4]  # fmt: skip

    def condition(self) -> str:
        """What an ``if`` asks: of Python's values, or of data while such branches are left."""
        if self.forks > 0 and self.chance(0.3):
            self.forks -= 1
            number = self.number()
            return self.pick([
                f"s > {number}", f"a[0] > {number}", f"np.sum(a * b) < {number}", f"np.max(b) > {number} and s < 1.0",
                f"xs.sum() > {number}" if not self.indices else f"xs[{self.indices[0]}, 0] > {number}",
            ])  # fmt: skip
        options = ["seen", "not seen", "k == 2", "len(ys) > 2", "not zs", "k % 2"]
        for i in self.indices:
            options += [
                f"{i} == 0",
                f"{i} == n - 1",
                f"{i} % 2 == 0",
                f"{i} < 2",
                f"{i} == 3",
                f"{i} > 1",
                f"{i} in (1, 4)",
            ]
            options += [f"{i} == 10", f"{i} >= n - 2", f"{i} % 5 == 4", f"{i} > 0 and not seen"]
        return self.pick(options)

    # -- statements

    def statement(self) -> None:
        writes = [self.update] * 7 + [self.python_state] * 2 + [self.keep] * 5 + [self.in_place] * 2
        if self.depth < 4:
            writes += [self.branch] * 3
        if self.loops:
            writes += [self.leave]
        self.pick(writes)()

    def update(self) -> None:
        v, u = self.vector(), self.scalar()
        target = self.pick(["a", "a", "b"])
        self.emit(self.pick([
            f"{target} = np.tanh(0.5 * {target} + {v})", f"{target} = np.sin({target} - 0.4 * ({v}))",
            f"a, b = b, np.tanh(0.6 * a + 0.3 * ({v}))", f"a, b = np.tanh({v}), 0.5 * a", f"s = 0.5 * s + np.cos({u})",
            f"s = np.tanh(s - {u})",
                    f"t = t + np.sin({u})", f"t += np.tanh({u}) * {self.number()}", "s, t = np.sin(t), s",
            f"pair = (pair[1], np.tanh({v} - pair[0]))", f"state['v'] = np.tanh(state['v'] * 0.5 + {v})",
            f"state = {{'v': np.sin({v}), 'u': state['u'] * 0.5 + a[0]}}", "a = state['v'] * 0.9 + pair[0]",
        ]))  # fmt: skip

    def python_state(self) -> None:
        self.emit(
            self.pick(
                [
                    "k += 1",
                    "seen = True",
                    "seen = not seen",
                    "k = k * 2 % 7",
                    "k = len(ys)",
                    "k += len(zs) % 2",
                    "gain = gains[k % 3]",
                    "gain = gain * 0.9",
                ]
            )
        )

    def keep(self) -> None:
        """Something for later: in a list, or in an array written row by row."""
        options = [
            f"ys.append({self.pick(['a', 'b', f'np.tanh({self.vector()})'])})",
            f"zs.append({self.pick(['s', 't'])})",
        ]
        options += [
            "b = 0.5 * b + 0.1 * ys[-1] if ys else b",
            "s = 0.3 * s + zs[0] if zs else s",
            "a = ys.pop() * 0.5 if len(ys) > 3 else a",
        ]
        if self.indices:
            i = self.indices[0]
            options += [f"out[{i}] = np.tanh({self.vector()})", f"out[{i}, 0] = s", f"out[{i}] += 0.1 * a"] * 2
            options += [f"out[n - 1 - {i}] = a", f"out[{i}:{i} + 2] *= 0.5", f"s = 0.5 * s + out[{i}, -1]"]
        self.emit(self.pick(options))

    def in_place(self) -> None:
        self.emit(self.pick(["a *= 0.5", "b += 0.1 * a", f"a[0] = {self.scalar(0)}", "a = a.copy()", "b -= 0.1"]))

    def branch(self) -> None:
        with self.block(f"if {self.condition()}:"):
            self.statement()
        if self.chance(0.3):
            with self.block(f"elif {self.condition()}:"):
                self.statement()
        if self.chance(0.4):
            with self.block("else:"):
                self.statement()

    def leave(self) -> None:
        """break, continue or return, under a condition."""
        way = self.pick(["break", "continue", f"return np.sum(a) + {self.scalar()}"])
        with self.block(f"if {self.condition()}:"):
            self.emit(way)

    # -- loops

    def body(self) -> None:
        self.loops += 1
        for _ in range(self.random.randint(1, 3)):
            self.statement()
        if not self.small and self.loops == 1 and self.trips <= 8 and self.chance(0.35):
            self.inner_loop()
        if self.chance(0.5):
            self.update()
        self.loops -= 1

    def inner_loop(self) -> None:
        i, j = (self.indices or ["3"])[0], self.fresh("j")
        u = self.fresh("u")
        header, index, element = self.pick([
            (f"for {j} in range({i}):", j, ""), (f"for {j} in range(2):", "", ""), (f"for {u} in a:", "", u),
            (f"for {j} in range({i}, n):", j, ""), (f"for {j}, {u} in enumerate(b):", "", u),
            (f"for {u} in xs[:3, 0]:", "", u),
        ])  # fmt: skip
        if index.startswith("j") and i == "3":  # no step's number to stay below
            header, index = f"for {j} in range(min(3, n)):", j
        with self.block(header):
            self.indices += [index] if index else []
            self.scalars += [element] if element else []
            self.loops += 1
            for _ in range(self.random.randint(1, 2)):
                self.statement()
            self.loops -= 1

    def loop(self) -> None:
        kind = self.random.randrange(16)
        i, x, y = self.fresh("i"), self.fresh("x"), self.fresh("y")
        if kind <= 8:
            header, index, found = self.pick([
                (f"for {i} in range(n):", i, []), (f"for {i} in range(n):", i, []), (f"for {i} in range(1, n):", i, []),
                (f"for {i} in range(n - 1, -1, -1):", i, []), (f"for {i} in range(0, n, 2):", i, []),
                (f"for {i} in range(len(xs)):", i, []), (f"for {i} in range(xs.shape[0] // 2):", i, []),
                (f"for {x} in xs:", "", [x]), (f"for {x}, {y} in zip(xs, DATA):", "", [x, y]),
                (f"for {x}, {y} in zip(xs, xs[1:]):", "", [x, y]), (f"for {i}, {x} in enumerate(xs):", i, [x]),
                (f"for {i}, ({x}, {y}) in enumerate(zip(DATA, xs)):", i, [x, y]), (f"for {x} in xs[::-1]:", "", [x]),
                (f"for {i} in perm:", "", []), (f"for {i}, {x} in reversed(list(enumerate(xs))):", i, [x]),
                *([(f"for {x} in ps:", "", [x]), (f"for {x}, {y} in zip(ps, xs):", "", [x, y])] * ("ps" in self.names)),
                (f"for {x} in rows_of(a, n):", "", [x]), (f"for {x}, {y} in {{'p': a, 'q': b}}.items():", "", [y]),
            ])  # fmt: skip
            with self.block(header):
                self.indices = [index] if index else []
                self.vectors += found * 2  # drawn more often
                self.body()
            if self.chance(0.15):
                with self.block("else:"):
                    self.emit(f"s = s + {self.number()}")
            if index and self.chance(0.2):
                with self.block("if n > 2:"):
                    self.emit(f"s = s + 0.1 * {index}" if "range(n)" in header else "s = s * 0.9")
        elif kind == 9:
            self.emit(f"{i} = 0")
            with self.block(f"while {i} < n:"):
                self.indices = [i]
                self.emit(f"{i} += 1")
                self.indices = [f"({i} - 1)"]
                self.body()
        elif kind in (10, 11):
            self.while_on_data(i)
        elif kind == 12:
            self.emit(
                f"ys += [np.tanh({x} * 0.5 + a) for {x} in xs if {self.pick(['True', 'len(ys) < 3', 'not seen'])}]"
            )
        elif kind == 13:
            self.indices, before = [i], self.indices
            self.emit(f"s = s + {self.pick(['0.1 * ', ''])}sum(np.sin({self.scalar(1)}) for {i} in range(n))")
            self.indices = before
        elif kind == 14:
            self.emit(f"a = descend(a, {self.pick(self.vectors)}, {self.pick(['n', '3', 'min(n, 5)'])})")
        else:
            with self.block(f"def {self.fresh('inner')}({x}, m):"):
                self.emit("nonlocal k")
                self.emit("k += 1")
                self.emit(f"return {x} * 0.5 + np.tanh(b) * m")
            name = self.lines[-4].split()[1].split("(")[0]
            with self.block(f"for {i} in range(n):"):
                self.emit(f"a = np.sin({name}(a, 0.5**{i}))")

    def while_on_data(self, i: str) -> None:
        """Ends because the state shrinks, or because a count runs out."""
        self.forks = 0
        bound, most = self.pick(["0.2", "0.5", "1.0"]), self.pick(["n", "min(n, 6)", "4"])
        counting = self.counter_random.random() < 0.5
        most = self.counter_random.choice([most, "12", "25"]) if counting else most
        self.emit(f"{i} = 0")
        header = self.pick(
            [f"while np.sum(a * a) > {bound} and {i} < {most}:", f"while {i} < {most} and s < {bound}:", "while True:"]
        )
        with self.block(header):
            self.indices = []
            if header == "while True:":
                with self.block(f"if {i} >= {most} or np.max(np.abs(a)) < {bound}:"):
                    self.emit("break")
            self.emit(f"{i} += 1")
            self.emit(self.pick(["a = 0.8 * a", f"a = 0.7 * np.sin(a) + 0.05 * {self.pick(self.vectors)}"]))
            self.emit(self.pick(["s = s + 0.25", "s = 0.5 * s + np.sum(a)", "t = t + a[0]"]))
            if self.chance(0.3):
                self.python_state()
        if header != "while True:" and self.chance(0.3):
            with self.block("else:"):
                self.emit(f"t = t - {self.number()}")
        if counting:
            self.emit(self.counter_random.choice([
                f"s = s + 0.1 * {i}", f"t = t + a[0] / (1 + {i})", f"s = s * (1.0, 0.9, 1.1)[{i} % 3]", f"k = k + {i}",
                f"t = t + 0.2 if {i} > 2 else t - 0.1 * {i}", f"for _ in range({i}): s = s * 0.9 + 0.1",
            ]))  # fmt: skip

    # -- the whole

    def program(self) -> Program:
        self.emit(f"act = {self.pick(['np.tanh', 'np.sin', 'lambda v: v * c', 'lambda v: np.tanh(v + scale)'])}")
        self.emit("a, b = np.tanh(h), h * 0.5")
        self.emit(
            f"s, t, k, seen = {self.pick(['c * 0.5', '0.0', '0.25'])}, {self.pick(['0', '0.0', 'c * c'])}, 0, False"
        )
        self.emit("gain = scale")
        self.emit("ys, zs, pair, state = [], [], (h * 0.1, a), {'v': b * 0.3, 'u': c}")
        self.emit(
            f"out = {self.pick(['np.zeros_like(xs)', 'zeros((n, ' + str(self.d) + '))', 'np.zeros_like(xs) + 0.1'])}"
        )
        for _ in range(self.pick([0, 0, 1])):
            self.statement()
        for _ in range(1 if self.small else self.pick([1, 1, 2])):
            self.loop()
        if self.seed % 3:
            for line in idioms(self.idiom_random, forks=not self.small):
                self.emit(line)
        for _ in range(self.pick([0, 0, 1])):
            self.statement()
        self.emit("total = np.sum(a * b) + s + t + 0.3 * state['u'] + np.sum(pair[1] * state['v']) + 0.1 * k")
        ends = [
            "np.sum(np.stack(ys))",
            "sum(ys)[0]",
            "np.sum(ys[-1] * ys[0])",
            "np.sum(array(ys)[-1])",
            "np.sum(ys[len(ys) // 2])",
        ]
        self.emit(f"total = total + {self.pick(ends)}" + (" if ys else total" if self.chance(0.95) else ""))
        ends = ["np.sum(array(zs))", "sum(zs)", "zs[-1] * zs[0]", "np.sum(np.stack(zs) ** 2)"]
        self.emit(f"total = total + {self.pick(ends)} if zs else total")
        self.emit(f"return total + {self.pick(['np.sum(out)', 'np.sum(out * out)', 'np.sum(np.sin(out[:2]))'])}")
        prelude = PRELUDE.format(
            scale=self.number(), gain=self.number(), cell=self.number(), d=self.d, rows=self.trips + 3,
            perm=", ".join(map(str, self.random.sample(range(4), 4))),
        )  # fmt: skip
        source = f"{prelude}{HELPERS}\ndef f({', '.join(self.names)}):\n" + "\n".join(self.lines) + "\n"
        return Program(self.seed, source, self.names, self.trips, self.d, self.matrix)


def program(seed: int) -> Program:
    return Writer(seed).program()
