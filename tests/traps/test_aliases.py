"""Traps: one object that a function reaches by two ways, and containers that are written into before their place gets
another: what happens to the object by one way is seen by the other, at once and in every later call.
"""

from __future__ import annotations

import numpy as np
import pytest
from leftovers import leftovers
from same_state import difference
from worlds import MODES, World, disagreement

import tracegrad
from tracegrad import MutationError, compile_grad

pytestmark = [pytest.mark.usefixtures("fresh_kernels"), pytest.mark.filterwarnings("ignore")]

WORLD = """
import contextlib, functools
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
import numpy as np
class P:
    def __init__(self, w, r): self.w, self.r = w, r
    def energy(self, x): return np.sum(self.w * x) + self.r
class Cell:
    def __init__(self, p): self.p, self.h, self.buf = p, 0.5, [0.25, 0.75]
    def run(self, x): self.h = np.tanh(np.sum(self.p.w * x)); self.buf[0] = self.h
class Net:
    def __init__(self, p): self.p, self.cells, self.seen = p, [Cell(p), Cell(p)], []
    def add(self, x):
        self.seen.append(x)
        if len(self.seen) > len(self.cells): self.cells.append(Cell(self.p))
        self.cells[len(self.seen) - 1].run(x)
class Slots:
    __slots__ = ("buf", "v")
    def __init__(self, buf): self.buf, self.v = buf, 1.0
class S:
    level, table = 0.5, [1.5, 2.5]
    def swap(self): self.cur, self.prev = self.prev, self.cur
    def first(self): return self.prev[0]
class Sub(S): pass
Pair = namedtuple("Pair", "a b")
p, other = P(np.array([0.3, 0.2, 0.1]), 0.4), P(np.array([1.0, 2.0, 3.0]), 1.4)
net, s, sub = Net(p), S(), Sub()
s.cur, s.prev, s.d, s.e = [1.0, 2.0], [3.0, 4.0], {"p": 1.0, "q": 2.0}, {"p": 3.0, "q": 4.0}
s.o, s.r, s.n, s.x, s.y = p, other, 0, np.ones(3), np.zeros(3)
s.ring, s.grid, s.last = [[1.0, 1.5], [2.0, 2.5], [3.0, 3.5]], [[1.0, 2.0], [3.0, 4.0]], None
s.kept, s.alias = s.d, s.cur
slots, pair, queue = Slots(s.cur), Pair(s.cur, p), deque([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], maxlen=3)
named, by_name, od = {"p": p, "buf": s.cur}, {"one": s}, OrderedDict(a=[0.5, 0.6], b=[0.7, 0.8])
G, F, A, B = [0.1, 0.2], 0.7, [1.0], [2.0]
many = [p, other]; log = [{"v": 0.5}]; s.entry = log[0]
bound, energy = s.first, p.energy
@functools.lru_cache
def get(): return p
@functools.lru_cache
def get_state(): return {"p": p}
def of_default(v=s.cur): return v[0] + v[1]
def of_default_global(v=G): return v[0]
def of_keyword(*, v=p): return v.r
def of_global(x): return F * np.sum(x)
def attribute(x): return attribute.buf[0]
attribute.buf = s.cur
part = functools.partial(lambda q, x: q.r + q.w[0], p)
@contextlib.contextmanager
def held(q, v):
    q.r, before = v, q.r
    yield q
    q.r = before
def make():
    c, d = [5.0, 6.0], [7.0, 8.0]
    def turn():
        nonlocal c, d
        c[0] = c[0] + 1.0
        c, d = d, c
    def pull(): return c[0] + 2 * d[1]
    return turn, pull
turn, pull = make()
class Sim:
    def __init__(self): self.cur, self.prev, self.n, self.st = [1.0, 2.0, 3.0], [0.0] * 3, 0, {"u": [1.0], "v": [3.0]}
    def step(self, x):
        for i in range(3): self.cur[i] = self.prev[i] * 0.5 + x[i]
        self.cur, self.prev = self.prev, self.cur
        self.n += 1
    def energy(self): return self.prev[0] + 2 * self.cur[1]
class Node:
    last, seen = None, {}
    def __init__(self, v, nxt=None): self.v, self.nxt = v, nxt
    @classmethod
    def make(cls, v): cls.last = cls.seen["last"] = Node(v); return cls.last
sim, sims, observers, stack = Sim(), [Sim(), Sim()], [], [[1.0]]
c3 = Node(3.0); c2 = Node(2.0, c3); c1 = head = Node(1.0, c2)
sims[1].cur = sims[0].cur; Node.make(0.5)
observers.append(lambda v: s.d.update(p=v)); observers.append(lambda v: s.kept.update(q=s.d["p"] + v))
def push(v): stack.append([v]); stack[-1][0] = v + 1
ARGS = lambda: (ARGUMENTS,)
def f(x, a):
    GLOBALS
    r = 0.0
    BODY
    return 0.1 * np.sum(x * x) + r
"""


def world(body, arguments="0.0"):
    names = [name for name in ("G", "F", "A", "B", "p", "head") if f"{name} = " in body or f"{name}, " in body]
    declared = f"global {', '.join(names)}" if names else "pass"
    return WORLD.replace("GLOBALS", declared).replace("BODY", body).replace("ARGUMENTS", arguments)


TWO_WAYS = {
    "cells in a list that the run fills": (
        "p.w = x; net.add(x); net.add(2 * x); r = sum(np.sum(c.h) for c in net.cells); net.seen = []"
    ),
    "more cells than there were": "p.w = x; [net.add(k * x) for k in (1, 2, 3)]; r = net.cells[2].h; net.seen = []",
    "an object in a list": "many[0].r = np.sum(x); r = p.r + net.p.r",
    "an object in a dict": "named['p'].r = np.sum(x); r = p.energy(x)",
    "a list in a slot": "slots.buf[0] = np.sum(x); r = s.cur[0] + named['buf'][0]",
    "a list in a named tuple": "pair.a[1] = np.sum(x); r = s.cur[1] * 2",
    "an object in a named tuple": "pair.b.w = x * x; r = p.energy(x)",
    "a default": "s.cur[0] = np.sum(x); r = of_default()",
    "a keyword default": "p.r = np.sum(x); r = of_keyword()",
    "a method bound beforehand": "s.prev[0] = np.sum(x); r = bound()",
    "the object of a bound method": "p.w = x; r = energy(x)",
    "a partial": "p.r, p.w = np.sum(x), x; r = part(x)",
    "a function's attribute": "attribute.buf[0] = np.sum(x); r = s.cur[0]",
    "a function with a cache": "get().r = np.sum(x); r = p.r",
    "a cached dict that holds it": "get_state()['p'].r = np.sum(x); r = p.r",
    "a class and its instance": "S.table[0] = np.sum(x); r = s.table[0] + sub.table[0]",
    "a class attribute, by a subclass": "S.level = np.sum(x); r = sub.level",
    "an alias": "s.alias[0] = np.sum(x); r = s.cur[0]; s.cur = [x[0], 1.0]; r = r + s.alias[0]",
    "an entry of a log": "s.entry['v'] = np.sum(x); r = log[-1]['v']; log.append({'v': 0.5})",
    "the last of a log": "log[-1]['v'] = np.sum(x); r = s.entry['v'] + len(log)",
    "a loop over objects": "\n    for q in many: q.r = q.r * 0.5 + np.sum(x)\n    r = p.r - s.r.r",
    "a context": "\n    with held(p, np.sum(x)): r = s.o.r * net.cells[0].p.r",
    "an inner function": "\n    def inside(): p.r = np.sum(x)\n    inside(); r = get().r",
    "globals that become one": "G = s.cur; G[0] = np.sum(x); r = s.cur[0] + of_default()",
    "objects that become one": "s.o = s.r; s.o.r = np.sum(x); r = other.r",
    "objects that part": "net.cells[0].p = P(x, np.sum(x)); p.r = 0.5; r = net.cells[0].p.r + net.cells[1].p.r",
    "what only an untaken branch stores": "\n    if np.sum(x) > 3.5: F = s.cur[0]\n    s.n += 1; r = s.n * 1.0",
    "a default that a global is at times": "G, net.cells[0].buf = net.cells[0].buf, G; r = of_default_global() + G[0]",
}
WITH_ARGUMENT = {  # (body, arguments)
    "a list": ("a[0] = np.sum(x); r = s.cur[0]", "s.cur"),
    "a list, the other way": ("s.cur[0] = np.sum(x); r = a[0]", "s.cur"),
    "a list in a dict": ("a['l'][0] = np.sum(x); r = s.cur[0] + slots.buf[0]", "{'l': s.cur}"),
    "an object": ("a.r = np.sum(x); r = p.energy(x)", "p"),
    "an object, the other way": ("p.w = x; r = a.energy(x) + net.cells[0].p.r", "p"),
    "an object in a list": ("a[0].r = np.sum(x); r = p.r", "[p, other]"),
    "a list that it becomes": ("s.d['l'] = a; s.d['l'][0] = np.sum(x); r = a[0] + s.cur[0]", "s.cur"),
}
ORDER = {
    "a double buffer": "s.cur[0] = np.sum(x); s.cur, s.prev = s.prev, s.cur; r = s.prev[0]",
    "a double buffer, by a method": "s.cur[0] = np.sum(x); s.swap(); s.cur[1] = x[0]",
    "a double buffer that is read": "s.cur[0] = s.prev[1] * 0.5 + np.sum(x); s.swap(); r = s.cur[0]",
    "a slice": "s.cur[:] = [np.sum(x), 2.0]; s.cur = s.cur[::-1]",
    "a dict, then one made of it": "s.d['p'] = 9.0; s.d = dict(s.d, p=5.0)",
    "a dict, then one made of it by a display": "s.d['p'] = np.sum(x); s.d = {**s.d, 'q': 5.0}",
    "a dict, then another": "s.d['p'] = np.sum(x); s.d = {'p': 5.0, 'q': 1.0}",
    "a dict that others keep": "s.d['p'] = np.sum(x); s.d, s.kept = s.kept, s.e; r = s.d['p']",
    "a new key": "s.d['z'] = np.sum(x); s.d, s.e = s.e, s.d",
    "a key that goes": "s.d.pop('q', None); s.d, s.e = s.e, dict(s.d, q=np.sum(x))",
    "an attribute": "s.o.r = np.sum(x); s.o = P(x, 5.0); r = p.r",
    "attributes of two": "s.o.r, s.r.r = np.sum(x), x[0]; s.o, s.r = s.r, s.o; r = s.o.r",
    "an attribute in a slot": "slots.buf[0] = np.sum(x); slots.buf = [5.0, 6.0]",
    "a ring": "s.ring[-1][0] = np.sum(x); s.ring = s.ring[1:] + s.ring[:1]",
    "a ring that turns": "s.ring[-1][0] += s.ring[0][1]; s.ring.append(s.ring.pop(0))",
    "rows": "s.grid[0][0] = np.sum(x); s.grid[0], s.grid[1] = s.grid[1], s.grid[0]; s.grid[0][1] = x[1]",
    "rows of another list": "s.grid[0][0] = np.sum(x); s.grid = [s.grid[1], list(s.grid[0])]",
    "a deque": "queue[0][0] = np.sum(x); queue.rotate(1); queue[0][1] = x[0]",
    "a deque that drops": "queue[-1][0] = np.sum(x); queue.appendleft([x[0], x[1]])",
    "a dict of lists": "od['a'][0] = np.sum(x); od['a'], od['b'] = od['b'], od['a']",
    "a list, through a local": "t = s.cur; t[0] = np.sum(x); s.prev = t; s.cur = [1.0, 2.0]",
    "globals": "A[0] = np.sum(x); A, B = B, A; r = A[0]",
    "outer variables": "turn(); r = pull()",
    "a class attribute": "S.table[0] = np.sum(x); S.table = [5.0, 6.0]",
    "a class attribute and an instance's": "S.table[0] = np.sum(x); S.table, s.cur = s.cur, S.table",
    "arrays": "s.x, s.y = s.y, s.x + x; r = np.sum(s.x * x)",
    "three places": "s.cur[0] = np.sum(x); s.cur, s.prev, G = s.prev, G, s.cur; r = G[0]",
    "a chain": "net.cells[0].buf[0] = np.sum(x); net.cells[0].buf = s.cur; s.cur = [1.0, 2.0]",
    "cells": "net.cells[0].run(x); net.cells[0], net.cells[1] = net.cells[1], net.cells[0]; r = net.cells[0].h",
    "objects that nothing else is read of": "net.cells.reverse()",
    "a cell that is replaced": "net.cells[0].h = np.sum(x); net.cells[0] = Cell(other)",
    "an owner that is replaced": "s.o.w = x; s.o, p = P(x, 1.0), s.o; r = p.energy(x)",
    "in a loop": "\n    for k in range(3): s.cur[0] = s.cur[0] * 0.5 + x[k]; s.cur, s.prev = s.prev, s.cur",
    "in a branch": "s.cur[0] = np.sum(x)\n    if np.sum(x) > 2: s.cur, s.prev = s.prev, s.cur",
}
SIMULATIONS = {
    "a step": "sim.step(x); r = sim.energy()",
    "steps": "\n    for _ in range(3): sim.step(x)\n    r = sim.energy()",
    "two that share a list": "\n    for q in sims: q.step(x)\n    r = sims[0].energy() - sims[1].energy()",
    "two that change places": "sims[0].cur[0] = np.sum(x); r = sims[1].cur[0]; sims[0], sims[1] = sims[1], sims[0]",
    "a state in a dict": "sim.st['u'][0] = np.sum(x); sim.st['u'], sim.st['v'] = sim.st['v'], sim.st['u']",
    "a state in another dict": "sim.st['u'][0] = np.sum(x); sim.st = {'u': sim.st['v'], 'v': sim.st['u']}",
    "an entry that moves": "sim.st['u'][0] = np.sum(x); sim.st['u'], sim.st['v'] = sim.st['v'], sim.st.pop('u')",
    "a copy": "q = sim.cur.copy(); sim.cur[0] = np.sum(x); sim.prev, sim.cur = sim.cur, q",
    "lists made anew": "sim.cur[0] = np.sum(x); sim.cur, sim.prev = list(sim.prev), list(sim.cur)",
    "a slice that grows": "sim.cur += [x[0]]; sim.prev, sim.cur = sim.cur, sim.prev[:3]; r = sim.prev[-1]",
    "an error that is caught": (
        "\n    try: sim.cur[0] = np.sum(x); sim.cur, sim.prev = sim.prev, sim.cur; raise ValueError"
        "\n    except ValueError: r = sim.prev[0]"
    ),
    "an inner function": (
        "\n    def put(v): sim.cur[0] = v; sim.cur, sim.prev = sim.prev, sim.cur"
        "\n    put(np.sum(x)); put(x[0]); r = sim.prev[0]"
    ),
    "a linked list that is reversed": (
        "\n    q, rest = None, head\n    while rest: rest.nxt, q, rest = q, rest, rest.nxt"
        "\n    head = q; head.v = np.sum(x); r = c3.v + c1.v"
    ),
    "a linked list that is walked": "n = head\n    while n: n.v = n.v * 0.5 + np.sum(x); n = n.nxt\n    r = c3.v",
    "the last one made, by its class": "Node.make(np.sum(x)); r = Node.last.v + Node.seen['last'].v",
    "the last one made, replaced": "Node.last.v = np.sum(x); Node.last = Node(1.0); r = Node.seen['last'].v",
    "observers": "\n    for tell in observers: tell(np.sum(x))\n    r = s.d['p'] + s.kept['q']",
    "a stack": "push(np.sum(x)); push(x[0]); r = stack.pop()[0] - stack.pop()[0]",
    "by setattr": "t = sim.cur; t[0] = np.sum(x); setattr(sim, 'cur', sim.prev); setattr(sim, 'prev', t)",
    "by its dict": "sim.cur[0] = np.sum(x); vars(sim).update(cur=sim.prev, prev=sim.cur)",
    "rows of a loop": "\n    for k, row in enumerate(s.grid): row[0] = x[k]; s.grid[k] = list(row)",
}
CHANGES = {3: "s.cur = [7.0, 8.0]", 4: "p.r = 0.9"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TWO_WAYS)
def test_two_ways(name, mode):
    assert disagreement(world(TWO_WAYS[name]), mode=mode) is None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WITH_ARGUMENT)
def test_an_argument_is_one_of_the_ways(name, mode):
    assert disagreement(world(*WITH_ARGUMENT[name]), mode=mode) is None


@pytest.mark.parametrize("live", [False, True], ids=["recorded", "live"])
@pytest.mark.parametrize(
    ("body", "argument"),
    [
        ("a.w = a.w * 2; r = np.sum(p.w ** 2)", "p"),
        ("p.w = p.w * 2; r = np.sum(a.w ** 2)", "p"),
        ("a['l'][0] = np.sum(x); r = s.cur[0] * a['l'][1]", "{'l': s.cur}"),
        ("s.cur[0] = np.sum(x); r = a[0] * 2", "s.cur"),
        ("many[0].r = np.sum(x); r = a[0].r * 2", "[p, other]"),
    ],
)
def test_an_argument_of_which_gradients_are_taken_is_one_of_the_ways(body, argument, live):
    """What is done by one way is seen by the other; where nobody tells of that, it is an error."""
    source = ("vars(s); " if live else "") + body
    with World(world(source, argument)) as ours, World(world(source, argument)) as theirs:
        compiled = compile_grad(ours.user.f, argnums=1)
        for _ in range(2):
            try:
                value, _ = compiled.value_and_grad(np.ones(3), *ours.args)
            except MutationError as error:
                assert "is also found" in str(error)
                continue
            assert value == pytest.approx(theirs.user.f(np.ones(3), *theirs.args))


class Named:
    def __init__(self, **named):
        self.__dict__.update(named)


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("aliases", ["log cache", "log", "cache"])
def test_arguments_that_are_found_one_after_the_other_among_the_state(aliases, steps):
    """What a run of another arm reads is known when that arm has been taken: the second argument after the first."""

    def made():
        space = {"np": tracegrad if steps else np, "Box": Named, "st": {1: 0.5}, "h": [], "kept": []}
        exec(
            "def f(x, log, cache):\n"
            "    if x[1] < x[2]: raise ValueError(len(st))\n"
            "    kept.append(Box(loss=x[0], n=1))\n"
            "    return np.sum(x) + 0.1 * h[-1] if h else x[0]\n",
            space,
        )
        return space

    def called(space, f, point, aliases):
        log = space["h"] if "log" in aliases else [0.5]
        cache = space["st"] if "cache" in aliases else {1: 1.5}
        x = np.array(point)
        try:
            result = float(f(tracegrad.tensor(x) if steps else x, log, cache))
        except ValueError as error:
            result = error.args
        return {"result": result, "given": [log, cache], **{name: space[name] for name in ("h", "st", "kept")}}

    plain, mine = made(), made()
    f = (tracegrad.compile if steps else compile_grad)(mine["f"])
    down, up = [1.5, 1.1, 0.4], [1.2, 0.3, 0.9]
    for point, given in [(down, ""), (up, ""), (down, aliases), (down, aliases), (up, aliases), (down, "")]:
        found, right = called(mine, f, point, given), called(plain, plain["f"], point, given)
        assert difference(found, right) == "" and not leftovers(found)


def test_what_is_only_read_may_be_such_an_argument():
    with World(world("r = np.sum(a.w * x) * p.r", "p")) as ours:
        value, gradient = compile_grad(ours.user.f, argnums=1).value_and_grad(np.ones(3), *ours.args)
        assert np.isclose(value, ours.user.f(np.ones(3), *ours.args)) and np.allclose(gradient.w, 0.4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ORDER)
def test_written_before_its_place_gets_another(name, mode):
    assert disagreement(world(ORDER[name]), mode=mode) is None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SIMULATIONS)
def test_simulations(name, mode):
    assert disagreement(world(SIMULATIONS[name]), mode=mode) is None


@pytest.mark.parametrize("name", [*TWO_WAYS, *ORDER])
def test_others_change_it_in_between(name):
    assert disagreement(world((TWO_WAYS | ORDER)[name]), changes=CHANGES) is None


@pytest.mark.parametrize("name", ["a dict, then another", "attributes of two", "rows", "arrays"])
def test_such_effects_are_replayed(name):
    def look(compiled):
        assert not compiled.stats.live and compiled.stats.traces < compiled.stats.calls

    assert disagreement(world(ORDER[name]), look=look) is None


def test_no_warning_where_the_value_depends_on_the_argument_by_another_way(recwarn):
    with World(world(TWO_WAYS["cells in a list that the run fills"])) as ours:
        compiled = compile_grad(ours.user.f)
        for _ in range(3):
            compiled.value_and_grad(np.ones(3), 0.0)
    assert not recwarn.list
