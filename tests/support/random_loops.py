"""Random functions of one array with loops, as text: carries, rows, buffers in one and two dimensions, counters, lists,
inner loops with bounds that depend on the outer one, questions on counters and on data, ``while``."""

from __future__ import annotations

import random

N = 20  # elements of the argument


class Program:
    """One random function ``f(x)``."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.floats = ["s", "t"]
        self.buffers = ["z"]
        self.tables: list[str] = []
        self.lists = 0
        self.names = 0

    def text(self) -> str:
        rng = self.rng
        self._add(0, "def f(x):")
        start = rng.choice(["0.0", "0", "x[0]", "x[1] * 0.5"])
        self._add(1, f"s, t = {start}, {rng.choice(['1.0', 'x[2]', '0.5'])}")
        self._add(1, f"z = {rng.choice(['np.zeros_like(x)', 'x * 0.5', 'x.copy()'])}")
        if rng.random() < 0.4:
            self.tables.append("D")
            self._add(1, f"D = np.outer(x, {rng.choice(['x', 'np.ones(20)'])}) * 0.1")
        if rng.random() < 0.4:
            self.floats.append("h")
            self._add(1, "h = x[:4] * 1.0")
        for _ in range(rng.choice([1, 1, 2])):
            self._loop(1, 2)
        result = " + ".join([f"np.sum({v})" for v in [*self.floats, *self.buffers, *self.tables]])
        self._add(1, f"return {result}")
        return "\n".join(self.lines) + "\n"

    def _add(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def _name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    # ---- loops -----------------------------------------------------------------------------------------------------

    def _loop(self, depth: int, left: int, outer: tuple[str, int, int] | None = None) -> None:
        """A loop at *depth*, with so many loops *left* to be nested.  *outer*: a counter, and its bounds."""
        rng = self.rng
        i = "ijk"[2 - left]
        kind = rng.choice(["range", "range", "range", "down", "rows", "enumerate", "zip", "while", "triangle"])
        low, high = 0, N - 1
        rows: list[str] = []
        if kind == "range":
            low, high = rng.choice([(0, 19), (1, 19), (2, 18), (1, 17)])
            self._add(depth, f"for {i} in range({low}, {high + 1}):")
        elif kind == "down":
            low, high = rng.choice([(0, 19), (1, 18)])
            self._add(depth, f"for {i} in range({high}, {low - 1}, -1):")
        elif kind == "rows":
            rows, high = ["a"], -1
            self._add(depth, "for a in x:")
        elif kind == "enumerate":
            rows = ["a"]
            self._add(depth, f"for {i}, a in enumerate(x):")
        elif kind == "zip":
            rows, high = ["a", "b"], -1
            other = rng.choice(["x[::-1]", "z * 1.0", "[0.1 * q for q in range(20)]"])
            self._add(depth, f"for a, b in zip(x, {other}):")
        elif kind == "while" and left == 2:
            low, high = 0, 19
            self._add(depth, f"{i} = 0")
            self._add(depth, f"while {i} < 20:")
        elif kind == "triangle" and outer is not None:
            low, high = 0, outer[2]
            self._add(depth, f"for {i} in range({outer[0]}):")
        else:
            self._add(depth, f"for {i} in range(20):")
        counter = (i, low, high) if high >= 0 else None
        appends = kind != "triangle" and rng.random() < 0.25
        if appends:
            self.lists += 1
            at = len(self.lines) - 1 - (kind == "while" and left == 2)
            first = ["x[0] * 0.5", "x[1] + s", "x[2] * 0.3"][: rng.choice([0, 0, 1, 2, 3])]
            self.lines.insert(at, "    " * depth + f"l{self.lists} = [{', '.join(first)}]")
        mine = self.lists
        if appends and first:
            ends = [rng.randint(1, len(first)) for _ in range(rng.choice([1, 2]))]
            self._add(depth + 1, f"s = s * 0.9 + {' + '.join([f'0.1 * l{mine}[-{k}]' for k in ends])}")
        for _ in range(rng.choice([1, 2, 3])):
            self._statement(depth + 1, counter, rows, outer if kind == "triangle" else None, left)
        if appends:
            self._add(depth + 1, f"l{mine}.append({self._value(counter, rows)})")
        if kind == "while" and left == 2:
            self._add(depth + 1, f"{i} += 1")
        if appends and depth == 1:
            self._add(depth, f"s = s + np.sum(np.stack(l{mine})) * 0.1")

    def _statement(
        self, depth: int, counter: tuple[str, int, int] | None, rows: list[str], outer: object, left: int
    ) -> None:
        rng = self.rng
        kind = rng.choice(["float", "float", "swap", "buffer", "buffer", "table", "if", "loop", "vector", "inplace"])
        if kind == "swap":
            self._add(depth, f"s, t = t * 0.5, s * 0.9 + {self._value(counter, rows)} * 0.1")
        elif kind == "buffer" and counter is not None:
            value = self._value(counter, rows)
            operator = rng.choice(["=", "=", "+="])
            self._add(depth, f"z[{self._index(counter)}] {operator} {value} * 0.5")
        elif kind == "table" and counter is not None and self.tables:
            first, second = self._index(counter), rng.choice([self._index(counter), str(rng.randrange(N))])
            self._add(depth, f"D[{first}, {second}] = {self._value(counter, rows)} * 0.5 + D[{second}, {first}] * 0.1")
        elif kind == "if" and counter is not None:
            question = rng.choice(
                [
                    f"{counter[0]} > {rng.randrange(3)}",
                    f"{counter[0]} >= 0",
                    f"{counter[0]} != 30",
                    "s > -1e6",
                    "t < 0.3",
                ]
            )
            self._add(depth, f"if {question}:")
            self._add(depth + 1, f"t = t * 0.7 + {self._value(counter, rows)} * 0.2")
        elif kind == "loop" and left > 1:
            self._loop(depth, left - 1, counter)
        elif kind == "vector" and "h" in self.floats:
            self._add(depth, f"h = np.tanh(h * 0.7 + {self._value(counter, rows)})")
        elif kind == "inplace" and "h" in self.floats:
            self._add(depth, f"h {rng.choice(['+=', '*='])} {self._value(counter, rows)} * 0.1")
        else:
            target = rng.choice("st")
            self._add(depth, f"{target} = np.sin({target} * 0.5 + {self._value(counter, rows)} * 0.3)")

    # ---- values ----------------------------------------------------------------------------------------------------

    def _index(self, counter: tuple[str, int, int]) -> str:
        name, low, high = counter
        offset = self.rng.randint(max(-2, -low), min(2, N - 1 - high))
        plain = name if not offset else f"{name} {'+' if offset > 0 else '-'} {abs(offset)}"
        return self.rng.choice([plain, plain, plain, f"{low + high} - {name}"])

    def _value(self, counter: tuple[str, int, int] | None, rows: list[str]) -> str:
        rng = self.rng
        options = ["s", "t", "s * t", "x[3]"]
        options += rows + rows
        if counter is not None:
            options += [f"x[{self._index(counter)}]", f"z[{self._index(counter)}]", f"z[{self._index(counter)}]"]
            options += [f"{counter[0]} * 0.01", f"x[{self._index(counter)}] / ({counter[0]} + 3)"]
            if self.tables:
                options += [f"D[{self._index(counter)}, {self._index(counter)}]", f"np.sum(D[{self._index(counter)}])"]
        return rng.choice(options)
