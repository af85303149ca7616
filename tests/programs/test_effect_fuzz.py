"""Random programs with effects: the compiled function does to everything around it what the plain one does.

A program is a method of a few random statements that count, store, append, read and branch; between calls others change
the same places at random.  After every call all that can be reached looks the same on both sides.
"""

from __future__ import annotations

import random
import types
from collections import Counter, defaultdict, deque
from typing import Any, NamedTuple

import numpy as np
import pytest
from selection import seeds

from tracegrad import compile_grad
from tracegrad.runtime.launch.kernel_cache import kernels

PROGRAMS = 60  # 1,500 agreed
CALLS = 8
NAMES = {"np": np, "NamedTuple": NamedTuple, "deque": deque, "Counter": Counter, "defaultdict": defaultdict}
HEAD = """
class Record:
    def __init__(self, loss, **more):
        self.loss, self.more = loss, more

class Pair(NamedTuple):
    loss: float
    x: object

class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a

SEEN, BEST, MEAN = 0, None, 0.0

def seen(value):
    global SEEN, LAST
    SEEN, LAST = SEEN + 1, value

def track(value):
    global BEST, MEAN, SEEN
    MEAN = 0.5 * MEAN + value
    if BEST is None or value < BEST:
        BEST = value
    SEEN += 1

def collect(value, into=[], *, named={"all": []}):
    into.append(value)
    named["last"] = value

class Other:
    def __init__(self):
        self.n, self.h, self.best = 0, [], 1.5

class Model:
    cls = 0
    def __init__(self):
        self.n, self.m, self.t, self.v, self.u = 0, 3, 0.0, np.zeros(3), np.ones(3)
        self.h, self.d, self.d2, self.c, self.l, self.s = [], {}, {"a": 1}, {"n": 0, "f": 0.5}, [1, 2.5], set()
        self.best, self.flag, self.first, self.other, self.spare = np.inf, False, None, Other(), Other()
        self.private, self.p = 1.0, 0
        self.added, self.table, self.best_of, self.ring = [], {}, [np.inf, None], [0.0] * 3
        self.recent, self.counter, self.groups, self.cached = deque([1.5], 2), Counter(), defaultdict(list), None
        self.g = []
        self.nested = {"a": {"b": [], "n": 0.5}, "c": {}}
        self.add, self.each = self.added.append, lambda value: self.added.append(value)
    @property
    def prop(self):
        return self.private
    @prop.setter
    def prop(self, value):
        self.private = value
    def help(self, value):
        self.m += 1
        self.helped = value
    def f(self, x, log, cache):
        loss, y = np.sum(x * x), x * 2
"""
STATEMENTS = """
self.n += 1 | self.n -= len(x) | self.m = self.m + 1 | self.t += loss | self.t = self.t + 0.5 | self.cls += 1
self.last = x | self.last = loss | self.last = None | self.pair = (loss, x * 2) | self.a = self.b = y | self.p = 3
self.v = 0.5 * self.v + x | self.v = x * 3 | self.w = self.v | self.v, self.u = self.u, self.v
self.h.append(loss) | self.h.append((1, loss, y)) | self.h.extend([x, 2]) | self.h2 = self.h | self.q = [y, y]
self.d["k"] = loss | self.d["z"] = x[0] | self.d.update(q=y) | self.d3 = dict(self.d) | self.s.add(4)
del self.d2["a"]; self.d2["a"] = loss | self.q = {"x": x, "n": [loss, 1]} | y = y + 1
self.c["n"] += 1 | self.c["f"] += loss | self.l[0] += 2 | TOTAL["n"] += 1 | LOG.append(loss)
self.best = min(self.best, loss) | if loss < self.best: self.best = loss; self.best_x = x | self.best = 0.0 | self.t = 0
self.flag = not self.flag | if self.first is None: self.first = x.copy() | if self.n > 6: loss = loss * 2
loss = loss + self.t | loss = loss + np.sum(self.v) | loss = loss * len(self.h) | loss = loss + self.l[0]
self.other.n += 1 | self.other.h.append(y) | self.other.best = loss | self.other = self.spare | self.spare.n += 2
log.append(loss) | log.append(x) | cache["a"] = y | cache["n"] = 3 | self.help(loss) | self.n, self.m = self.m, self.n
if x[0] > 2: self.n += 5 | if x[0] > 2: self.h.append(1) | if x[1] > 3: return loss | if x[2] > 4: raise ValueError("x")
self.prop = loss | loss = loss + self.prop | self.part = x[1:] | self.column = x.reshape(3, 1)
self.h.append(Record(loss, x=x)) | self.r = Record(y, n=self.n) | self.r = self.r2 = Record(loss)
self.d["r"] = Pair(loss, x) | self.kept = self.h | self.kept = [self.other, self.d] | self.add = self.h.append
r = Record(loss); self.h.append(r); self.last = r; r.after = 1 | self.h.append(Slots(y)) | self.q = Slots([loss, x])
self.h.insert(0, loss) | self.h[-1:] = [x] | del self.h[:1] | self.h.clear() | loss = loss + len(self.h)
self.h[:] = [loss, 1.5] | self.table["n"] += 1 | self.table["x"] = x | self.table.pop("n", None)
self.table.setdefault("q", []).append(loss) | self.table["n"] = self.table.get("n", 0) + 2 | self.groups["g"].append(x)
loss = loss + self.table.get("f", 0.0) | self.table["f"] = loss * 0.5 | self.best_of = [loss, self.n] | self.groups["n"]
if loss < self.best_of[0]: self.best_of[0] = loss; self.best_of[1] = x | self.best_of.reverse() | self.recent.rotate()
self.recent.append(loss) | loss = loss + sum(self.recent) | self.recent.appendleft(self.n) | self.counter["a"] += 1
self.counter.update("ab") | self.counter["b"] -= len(x) | loss = loss + sum(self.ring)
self.ring = self.ring[1:] + [loss] | ring = self.ring; ring[self.n % 3] = loss; self.n += 1
if self.cached is None: self.cached = x * 2
self.nested["a"]["b"].append(loss) | self.nested["a"]["n"] = loss | self.nested["c"] = self.nested["a"]
self.nested["a"] = {"b": [], "n": loss} | loss = loss + np.sum(self.table.get("w", 2.0))
if "w" not in self.table: self.table["w"] = np.ones(3)
loss = loss + np.sum(self.g[-1]) if self.g else loss | self.g.append(loss) | self.g.append(x) | self.g += [loss, 2.0]
self.g.append((len(self.g), loss)) | loss = loss * (2 if len(self.g) % 3 == 1 else 1) | loss = loss + np.sum(self.g[0])
if len(self.g) > 2: loss = loss - np.sum(self.g[-2]) | if len(self.g) > 4: self.g.pop() | self.last = self.g[-1:]
for row in self.g[:2]: loss = loss + np.sum(row) | self.first = self.g[0] if self.g else None | self.h2 = self.g
self.count = len(self.g) | self.nested["a"]["b"] += [x] | loss = loss + len(self.nested["a"]["b"])
self.last = list(self.g)
seen(loss) | seen([x, loss]) | track(loss) | loss = loss + MEAN | loss = loss * (1 if SEEN < 4 else 2)
self.add(loss) | self.each(loss) | ADD(x) | collect(loss)
"""
CHANGES = """
o.n = 0 | o.n = 2.5 | o.t = 0.0 | o.t = 1 | o.h = [] | o.h.clear() | o.h.append(7) | o.v = np.ones(3) | o.best = np.inf
o.v = np.ones(3, dtype="f4") | o.last = 5 | o.d = {} | o.d["k"] = 9 | o.c = {"n": 5, "f": 1.0} | o.l[0] = 100
o.flag = True | o.other, o.spare = o.spare, o.other | o.first = None | o.m = 10**20 | o.s = set()
o.l = [0, 1] | o.other = o.spare
o.table = {"n": 3} | o.table["f"] = 2 | o.ring[0] = 4 | o.recent.clear() | o.nested["a"]["b"] = o.h | o.counter.clear()
o.best_of = [100.0, 3] | o.ring.append(1.5) | o.table = o.nested["a"] | o.groups.default_factory = None
o.g = [] | o.g = o.h | o.g.append(2.5) | o.g.clear() | o.g = [1, 2.0, 3.5] | o.g[-1:] = [4] | o.g = o.nested["a"]["b"]
g["SEEN"] = 0.5 | g["SEEN"] = 2 | g["BEST"] = None | g["MEAN"] = np.ones(3) | g.pop("LAST", None) | g["LAST"] = g["LOG"]
o.d = o.d2 | o.h = o.other.h | o.pair = 1 | o.__dict__.pop("last", None)
"""


def _parts(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(" | ")]


def _look(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """All that is reached from *value*, as plain data; objects that hold themselves end."""
    if any(value is p for p in path):
        return "again"
    path = (*path, value)
    if isinstance(value, np.ndarray):
        return str(value.dtype), np.round(value, 6).tolist()
    if isinstance(value, float | np.floating):
        return type(value).__name__, float(f"{value:.9g}")
    if isinstance(value, list | tuple | deque):
        return type(value).__name__, [_look(v, path) for v in value]
    store = value if isinstance(value, dict) else getattr(value, "__dict__", None)
    if hasattr(type(value), "__slots__"):
        store = {name: getattr(value, name) for name in type(value).__slots__ if hasattr(value, name)}
    if isinstance(value, types.BuiltinFunctionType | types.FunctionType):
        return type(value).__name__, _look(getattr(value, "__self__", None), path)
    return repr(value) if store is None else [(k, _look(v, path)) for k, v in store.items()]


def _all(side: list[Any]) -> Any:
    *reached, space = side
    collect = space["collect"]
    variables = [space.get(name) for name in ("SEEN", "LAST", "BEST", "MEAN")]
    return _look([reached, variables, collect.__defaults__, collect.__kwdefaults__])


def _outcome(run: Any, *args: Any) -> Any:
    try:
        found = run(*args)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return type(error).__name__
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("seed", seeds(PROGRAMS, quick=15))
def test_effects_of_random_programs(seed):
    choose = random.Random(seed)
    body = [choose.choice(_parts(STATEMENTS)) for _ in range(choose.randint(1, 5))]
    code = compile(HEAD + "".join(f"        {s}\n" for s in body) + "        return loss\n", "a_program.py", "exec")
    mine, plain = ({"__name__": "a_program", **NAMES, "TOTAL": {"n": 0}, "LOG": []} for _ in range(2))
    sides = []
    for space in (mine, plain):
        space["ADD"] = space["LOG"].append
        exec(code, space)
        sides.append([space["Model"](), [], {}, space["TOTAL"], space["LOG"], space])
    f = compile_grad(sides[0][0].f)
    modes = choose.choice([[f], [f.value_and_grad], [f, f.value_and_grad]])
    for _ in range(CALLS):
        x = np.array([choose.randint(0, 4), choose.randint(0, 5), choose.randint(0, 5)], float)
        for place, kind in ((1, list), (2, dict)):
            if choose.random() < 0.25:
                for side in sides:
                    side[place] = kind()
        alias = choose.random()
        outcomes = []
        for side, run in zip(sides, (choose.choice(modes), sides[1][0].f), strict=True):
            model, log, cache, total, everywhere, _ = side
            args = (model.h, cache) if alias < 0.1 else (log, model.d) if alias < 0.2 else (log, cache)
            args = (everywhere, total) if alias > 0.95 else args
            outcomes.append(_outcome(run, x.copy(), *args))
        assert type(outcomes[0]) is type(outcomes[1]), body
        if isinstance(outcomes[0], str):
            assert outcomes[0] == outcomes[1], body
        else:
            np.testing.assert_allclose(*outcomes, err_msg=str(body))
        assert _all(sides[0]) == _all(sides[1]), body
        if choose.random() < 0.3:
            change = choose.choice(_parts(CHANGES))
            for side in sides:
                exec(change, {"o": side[0], "np": np, "g": side[-1]})
    kernels.clear()
