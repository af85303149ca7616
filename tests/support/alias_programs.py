# ruff: noqa: E501  (a row of a table is a line)
"""Random programs over state in which objects are reached by several ways, are swapped, replaced after they were written
into, and stored in modules.

    python tests/support/alias_programs.py 0 2000          # hunt: each disagreement with plain Python, with its program
    python tests/support/alias_programs.py 4711 1 step     # one seed again, as a compiled step

``program`` writes them: the world that they live in is ``WORLD`` and the module ``MODULE``, and the tables at the top are
the grammar.  ``worlds.py`` judges them.
"""

from __future__ import annotations

import random
import re
import sys
import warnings
from dataclasses import dataclass, field

from worlds import POINTS, World, disagreement

MODULE = """
import numpy as np
W, L, R, n, D = np.array([2.0, 1.0, 0.5]), [0.3, 0.6], 0.2, 0, {"p": 0.5, "q": 0.6}
def energy(x): return np.sum(W ** 2 * x) + R
def lsum(): return L[0] + 2.0 * L[1]
def bump():
    global R
    R = R + 0.125
def setw(w):
    global W
    W = w
"""
WORLD = """
import contextlib, functools, sys, types
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
import numpy as np
ME = sys.modules[__name__]
@dataclass
class Rec:
    v: float
    buf: list = field(default_factory=lambda: [0.25, 0.5])
    w: object = None
    @property
    def first(self): return self.buf[0]
    @first.setter
    def first(self, v): self.buf[0] = v
    def step(self, x): self.v = self.v * 0.5 + np.sum(x); self.buf[1] = self.v; return self.v
class Slots:
    __slots__ = ("buf", "p", "v")
    def __init__(self, v, buf, p): self.v, self.buf, self.p = v, buf, p
class Base:
    shared, level = [0.2, 0.4], 0.3
    def tell(self): return self.level + self.shared[0]
class Kid(Base):
    def __init__(self, r): self.r, self.items = r, {"a": Rec(0.1), "b": Rec(0.2)}
    def __getitem__(self, k): return self.items[k].v
    def __setitem__(self, k, v): self.items[k].v = v
    def swap(self): self.items["a"], self.items["b"] = self.items["b"], self.items["a"]
    def __call__(self, x): return self.r.v * np.sum(x) + self.tell()
Pair = namedtuple("Pair", "a b")
r1, r2 = Rec(0.5, [1.0, 2.0], np.array([0.1, 0.2, 0.3])), Rec(1.5, [3.0, 4.0], np.array([0.3, 0.2, 0.1]))
sl1, sl2, kid, kid2 = Slots(0.6, [0.1, 0.9], r1), Slots(0.4, r1.buf, r2), Kid(Rec(0.7)), Kid(r1)
od, dd, pair = OrderedDict(a=[0.5, 0.6], b=[0.7, 0.8]), defaultdict(list, a=[0.9, 1.1]), Pair([0.15, 0.25], r2)
grid = [[1.0, 2.0], [3.0, 4.0]]
ns = types.SimpleNamespace(a=r1, b=r2, l=grid[0], d={"k": 1.0, "r": r1}, n=0)
dq, hist, recs, log = deque([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], maxlen=3), [], [r1, r2], [{"v": 0.5}]
cb = {"f": r1.step, "g": kid2.__call__, "h": lambda x: r2.v * np.sum(x)}
part = functools.partial(lambda r, x: r.v + r.buf[0], r1)
F, A, G = 0.8, np.array([1.0, 0.5, 0.2]), [0.35, 0.45]
@functools.lru_cache
def get(): return r1
def with_buf(x): return with_buf.scale * np.sum(x)
with_buf.scale, with_buf.buf = 0.5, [0.3, 0.4]
def helper(rec, v): rec.v = v; rec.buf[1] = v * 0.5
def swapper(d, i, j): d[i], d[j] = d[j], d[i]
def of_default(rec=r1, buf=G): return rec.v + buf[0]
def of_keyword(*, buf=ns.l): return buf[0] + buf[1]
def of_global(x): return F * np.sum(A * x)
@contextlib.contextmanager
def at(rec, v):
    before, rec.v = rec.v, v
    try: yield rec
    finally: rec.v = before
def make():
    state, n = [0.5, 1.5], 1.0
    def push(v):
        nonlocal n, state
        state[0] = v; n = n + 0.5
        state = [state[1], state[0]]
    def pull(): return state[0] * n
    return push, pull
push, pull = make()
argd = {"p": 0.55, "q": [0.65, 0.75]}
"""
RECORDS = (
    "r1 r2 sl1.p sl2.p kid.r kid2.r kid.items['a'] kid.items['b'] ns.a ns.b ns.d['r'] recs[0] recs[1] recs[-1]".split()
)
LISTS = "sl1.buf sl2.buf {rec}.buf Base.shared od['a'] od['b'] dd['a'] grid[0] grid[1] ns.l dq[0] dq[2] ad['q'] argd['q'] G m.L".split()
NUMBERS = "{rec}.v {list}[0] {list}[-1] {rec}.v {rec}.first kid.tell() kid2.tell() kid['a'] kid2['b'] kid(x) kid2(x) sl2.v ns.d['k'] ad['p'] argd['p'] with_buf(x) with_buf.buf[0] of_default() of_keyword() of_global(x) F pull() part(x) cb['h'](x) cb['g'](x) log[-1]['v'] log[0]['v'] Base.level float(len(hist)) float(ns.n) sum({list}) m.energy(x) m.lsum() m.R ME.F".split()
ARRAYS = "x A r1.w r2.w (x*0.5) (A*x) m.W ME.A".split()
ARRAY_PLACES = "A r1.w {rec}.w m.W ME.A".split()
NUMBER_PLACES = "Base.level kid.level type(kid).level with_buf.scale with_buf.buf[0] F ME.F m.R ns.d['k'] ad['p'] argd['p'] sl1.v sl2.v m.D['p']".split()
ACTIONS = [
    "{rec}.step(x)", "cb['f'](x)", "helper({rec}, {number})", "kid.swap()", "push({number})", "kid['a'] = {number}",
    "{rec}.first = {number}", "swapper(grid, 0, 1)", "swapper(recs, 0, 1)", "swapper(od, 'a', 'b')", "m.bump()", "m.setw({array})",
    "hist.append({number})", "recs.append({rec})", "log.append({{'v': {number}}})", "log[-1]['v'] = {number}", "dq.rotate(1)",
    "dq.append({newlist})", "dq.appendleft(dq.pop())", "od.move_to_end('a')", "dd['b'].append({number})", "grid.reverse()",
    "recs.reverse()", "grid.insert(0, grid.pop())", "od['c'] = {newlist}", "od.pop('c', None)", "ns.n += 1", "m.n += 1",
    "setattr(m, 'W', {array})", "setattr(m, 'R', {number})", "sys.modules[m.__name__].R = {number}", "vars(m).update(R={number})",
    "globals()['F'] = {number}", "m.__dict__['W'] = {array}", "ns.d = dict(ns.d, k={number})", "ns.d = {{'k': {number}, 'r': r2}}",
    "sl1.v, sl2.v = sl2.v, sl1.v", "setattr({rec}, 'v', {number})",
]  # fmt: skip
CHANGES = [
    "r1.v = 0.9",
    "F = 2.5",
    "sl1.buf = [7.0, 8.0]",
    "grid[0] = [9.0, 9.5]",
    "kid.r = r2",
    "Base.level = 4.5",
    "ns.n = 5",
    "recs[0] = r2",
    "G[0] = 3.5",
    "pair.a[1] = 2.5",
    "m.R = 3.0",
    "m.W = A",
    "kid.level = 0.75",
    "log.append({'v': 2.0})",
]
ARGUMENTS = (
    ["G", "[0.1, 0.2]", "r1.buf", "grid[0]"],
    ["argd", "{'p': 0.1, 'q': [0.2, 0.3]}", "{'p': 0.4, 'q': r1.buf}"],
    ["r1", "r2", "Rec(0.3)"],
)
GLOBALS = "F", "A", "G", "r1", "r2"


@dataclass
class Program:
    seed: int
    source: str
    text: str
    changes: dict[int, str] = field(default_factory=dict)


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.pick = self.rng.choice

    def fill(self, row: str, deep: bool = False) -> str:
        """A row of a table with its names replaced."""
        parts = {name: getattr(self, name) for name in re.findall(r"(?<!\{)\{(\w+)\}", row)}
        return row.format(**{name: make(True) if name == "number" and deep else make() for name, make in parts.items()})

    def rec(self) -> str:
        return self.pick([*RECORDS, "pair.b", "get()", "ar"])

    def list(self) -> str:
        return self.fill(self.pick([*LISTS, "pair.a", "al"]))

    def array(self) -> str:
        return self.pick(ARRAYS)

    def number(self, deep: bool = False) -> str:
        kind = self.rng.random()
        if kind < 0.35:
            return self.pick(["np.sum(x)", "np.sum(x*x)", "x[0]", "x[1]*x[2]", "1.25", "-0.5"])
        found = self.fill(self.pick(NUMBERS))
        return found if deep or kind < 0.7 else f"({found} {self.pick('+-*')} {self.number(True)})"

    def newlist(self) -> str:
        made = ["[{number}, {number}]", "list({list})", "{list}[::-1]", "{list}", "{list}", "{list}[:1] + {list}[1:]"]
        return self.fill(self.pick(made))

    def newrec(self) -> str:
        return self.fill(self.pick(["{rec}", "{rec}", "Rec({number}, {newlist}, {array})"]))

    def place(self) -> str:
        return self.fill(self.pick(LISTS))

    def rebinding(self) -> str:
        kind = self.pick("lllrrra")
        place = {"l": self.place, "r": lambda: self.pick(RECORDS), "a": lambda: self.fill(self.pick(ARRAY_PLACES))}[
            kind
        ]
        if self.rng.random() < 0.5:
            one, other = place(), place()
            return f"{one}, {other} = {other}, {one}"
        return f"{place()} = " + {"l": self.newlist, "r": self.newrec, "a": self.array}[kind]()

    def statement(self, depth: int = 0) -> list[str]:
        kind = self.rng.random()
        if kind < 0.28:
            return [self.rebinding()]
        if kind < 0.42:
            return [f"{self.list()}[{self.pick(['0', '1', '-1'])}] {self.pick(['=', '=', '+='])} {self.number()}"]
        if kind < 0.52:
            return [f"{self.rec()}.v {self.pick(['=', '=', '+='])} {self.number()}"]
        if kind < 0.6:
            return [f"{self.fill(self.pick(NUMBER_PLACES))} = {self.number()}"]
        if kind < 0.64:
            return [f"{self.list()}[:] = {self.newlist()}"]
        if kind < 0.82:
            return [self.fill(self.pick(ACTIONS))]
        if kind < 0.86:
            return [f"t = {self.list()}", f"t[0] = {self.number()}", f"{self.place()} = t"]
        if kind < 0.9:
            return [f"t = {self.rec()}", f"{self.pick(RECORDS)} = {self.newrec()}", f"t.v = {self.number()}"]
        if kind < 0.92:
            return [f"with at({self.rec()}, {self.number()}) as c: {self.list()}[0] = c.v + {self.number()}"]
        if depth:
            return ["pass"]
        heads = ["if np.sum(x) > 2.5:", "for i in range(2):", "for r in list(recs):", "if x[0] > x[1]:"]
        return [self.pick(heads), *["    " + line for line in self.statement(depth + 1)]]


def program(seed: int) -> Program:
    writer = _Writer(seed)
    lines = [line for _ in range(writer.rng.randint(1, 4)) for line in writer.statement()]
    result = " + ".join(["0.1 * np.sum(x * x)", *[writer.number() for _ in range(writer.rng.randint(1, 3))]])
    stored = [n for n in GLOBALS if any(re.search(rf"(^|[ ,(]){n}(, [^=]*)? = ", line) for line in lines)]
    declared = [f"global {', '.join(stored)}"] if stored else []
    body = "\n".join(["    " + line for line in (*declared, *lines, f"return {result}")])
    arguments = ", ".join(map(writer.pick, ARGUMENTS))
    text = f"def f(x, al, ad, ar):\n{body}\nARGS = lambda: ({arguments})\n"
    changes = {writer.rng.randint(1, 5): writer.pick(CHANGES)} if writer.rng.random() < 0.4 else {}
    return Program(seed, WORLD + text, text, changes)


def runs(case: Program) -> bool:
    """Whether plain Python runs the program to the end."""
    with World(case.source, MODULE) as world:
        try:
            for k, x in enumerate(POINTS[:6]):  # as many as are called
                world.do(case.changes.get(k))
                if not abs(float(world.user.f(x.copy(), *world.args))) < 1e8:
                    return False
        except Exception:
            return False
    return True


def judge(case: Program, mode: str = "value_and_grad") -> str | None:
    """The disagreement of a program that runs with plain Python, or None."""
    return disagreement(case.source, MODULE, mode=mode, changes=case.changes) if runs(case) else None


def main(start: int, count: int, mode: str = "value_and_grad") -> None:
    warnings.simplefilter("ignore")
    wrong = 0
    for seed in range(start, start + count):
        case = program(seed)
        try:
            found = judge(case, mode)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found or count == 1:
            wrong += found is not None
            print(f"seed {seed}: {found}\n{case.text}{case.changes}", flush=True)
    print(f"{count} programs, {wrong} wrong")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
