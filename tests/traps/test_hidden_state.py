"""Traps: state that is reached in ways that a look at names and items does not show: through metaclasses,
descriptors and contexts, by a namespace that is a dict as well, by identity, by the end of an object's life, from
within a cache."""

from __future__ import annotations

import pytest
from side_by_side import failure

pytestmark = pytest.mark.usefixtures("fresh_kernels")

# (what stands around `f` and `f` itself, what others change between calls)
#: What a walk does not look into: metaclasses, descriptors, contexts.
BEYOND = {
    "metaclass singleton": (
        r"""
class Single(type):
    inst = {}
    def __call__(cls, *a):
        if cls not in Single.inst: Single.inst[cls] = super().__call__(*a)
        return Single.inst[cls]
class Conf(metaclass=Single):
    def __init__(self): self.v = 1.0
def f(x, k):
    c = Conf()
    c.v = c.v * 0.5 + x[0]
    return c.v * np.sum(x)
""",
        ["Conf().v = 2.0", "Single.inst.clear()"],
    ),
    "metaclass counter": (
        r"""
class Meta(type):
    def __call__(cls, *a):
        o = super().__call__(*a)
        cls.made.append(o)
        return o
class Particle(metaclass=Meta):
    made = []
    def __init__(self, x): self.x = x
def f(x, k):
    p = Particle(x[0] * 2)
    p.y = p.x * k
    return p.y + len(Particle.made)
""",
        ["Particle.made.clear()"],
    ),
    "metaclass attr": (
        r"""
class Meta(type):
    @property
    def total(cls): return cls._total
    @total.setter
    def total(cls, v): cls._total = v
class C(metaclass=Meta):
    _total = 0.5
def f(x, k):
    C.total = C.total * 0.5 + np.sum(x)
    return C.total * k
""",
        ["C.total = 3.0"],
    ),
    "metaclass setattr": (
        r"""
class Meta(type):
    log = []
    def __setattr__(cls, n, v):
        Meta.log.append(n)
        super().__setattr__(n, v)
class C(metaclass=Meta):
    t = 0.5
def f(x, k):
    C.t = C.t * 0.5 + x[0]
    return C.t + len(Meta.log)
""",
        ["C.t = 1.0"],
    ),
    "partialmethod": (
        r"""
class D:
    def __init__(self): self.s = {"a": 0.5, "b": 0.5}
    def move(self, n, v): self.s[n] = self.s[n] + v; return self.s[n]
    a = partialmethod(move, "a")
    b = partialmethod(move, "b")
d = D()
def f(x, k): return d.a(x[0]) * d.b(x[1] * k)
""",
        ['d.s["a"] = 0.0'],
    ),
    "validating descriptor": (
        r"""
class Positive:
    def __set_name__(self, o, n): self.n = "_" + n
    def __get__(self, o, t=None): return self if o is None else getattr(o, self.n)
    def __set__(self, o, v):
        if v < 0: raise ValueError(f"{self.n} negative")
        setattr(o, self.n, v)
class T:
    r = Positive()
    def __init__(self): self.r = 1.0
t = T()
def f(x, k):
    t.r = x[0] - (2.0 if k == 3 else 0)
    return t.r * np.sum(x)
""",
        ["t.r = 4.0"],
    ),
    "ctx kept": (
        r"""
var = contextvars.ContextVar("v", default=0.5)
ctx = contextvars.copy_context()
def inner(v):
    var.set(var.get() * 0.5 + v)
    return var.get()
def f(x, k):
    return ctx.run(inner, x[0]) * x[1]
""",
        [],
    ),
    "ctx kept many": (
        r"""
vs = [contextvars.ContextVar(f"v{i}", default=0.5) for i in range(20)]
ctx = contextvars.copy_context()
def inner(v, k):
    for i in range(20): vs[i].set(v * i)
    return vs[k].get()
def f(x, k):
    return ctx.run(inner, x[0], k) * x[1]
""",
        [],
    ),
    "ctx snapshot kept": (
        r"""
var = contextvars.ContextVar("v", default=0.5)
snaps = []
def f(x, k):
    var.set(x[0] * k)
    snaps.append(contextvars.copy_context())
    return snaps[0].get(var, 0.0) * x[1]
""",
        ["snaps.clear()"],
    ),
    "ctx in object": (
        r"""
class App:
    def __init__(self):
        self.var = contextvars.ContextVar("app", default=None)
        self.ctx = contextvars.copy_context()
    def run(self, v): return self.ctx.run(self._go, v)
    def _go(self, v):
        old = self.var.get()
        self.var.set([v] if old is None else old[-1:] + [v])
        return sum(self.var.get())
app = App()
def f(x, k): return app.run(x[0]) * x[1]
""",
        [],
    ),
    "token kept": (
        r"""
var = contextvars.ContextVar("v", default=0.5)
class C: tok = None
c = C(); c.tok = None
def f(x, k):
    if c.tok is not None and k % 2: var.reset(c.tok); c.tok = None
    else: c.tok = var.set(x[0])
    return var.get() * x[1]
""",
        [],
    ),
}

#: Objects that are asked for by identity, and stored again.
SENTINELS = {
    "sentinel object global": (
        r"""
MISSING = object()
class C:
    def __init__(self): self.v = MISSING
c = C()
def f(x, k):
    if c.v is MISSING: c.v = x[0]
    elif k == 2: c.v = MISSING; return x[1]
    else: c.v = c.v + x[0]
    return c.v * 2
""",
        ["c.v = MISSING"],
    ),
    "sentinel list": (
        r"""
EMPTY = object()
slots = [EMPTY] * 3
def f(x, k):
    i = k % 3
    if slots[i] is EMPTY: slots[i] = x[0]; return x[1]
    v = slots[i]; slots[i] = EMPTY
    return v * x[2]
""",
        ["slots[0] = EMPTY"],
    ),
    "sentinel dict default arg": (
        r"""
_none = object()
d = {"last": _none}
def take(v, dflt=_none):
    old, d["last"] = d["last"], v
    return dflt if old is _none else old
def f(x, k):
    r = take(_none if k == 2 else x[0])
    return x[1] if r is _none else r * x[1]
""",
        ['d["last"] = _none'],
    ),
    "sentinel class attr": (
        r"""
class Cache:
    EMPTY = object()
    def __init__(self): self.val = Cache.EMPTY
    def get(self, fn):
        if self.val is self.EMPTY: self.val = fn()
        return self.val
    def clear(self): self.val = Cache.EMPTY
c = Cache()
def f(x, k):
    if k % 2: c.clear()
    return c.get(lambda: np.sum(x)) * x[0]
""",
        ["c.clear()"],
    ),
    "sentinel closure": (
        r"""
def make():
    UNSET = object()
    state = UNSET
    def step(v, reset):
        nonlocal state
        if reset: state = UNSET
        if state is UNSET: state = v
        else: state = state * 0.5 + v
        return state
    return step
step = make()
def f(x, k): return step(np.sum(x), k == 2) * x[0]
""",
        [],
    ),
    "sentinel named tuple": (
        r"""
NIL = object()
P = namedtuple("P", "head tail")
lst = P(NIL, NIL)
def f(x, k):
    global lst
    if k == 2: lst = P(NIL, NIL)
    lst = P(x[0], lst)
    s, p, n = 0.0, lst, 0
    while p.head is not NIL and n < 3: s, p, n = s + p.head, p.tail, n + 1
    return s * x[1]
""",
        [],
    ),
    "sentinel dataclasses missing": (
        r"""
class C: pass
c = C(); c.v = dataclasses.MISSING
def f(x, k):
    if c.v is dataclasses.MISSING: c.v = x[0]; return x[1]
    r = c.v
    c.v = dataclasses.MISSING
    return r * x[2]
""",
        [],
    ),
    "sentinel ufunc stored": (
        r"""
class C: pass
c = C(); c.fn = np.tanh
def f(x, k):
    r = np.sum(c.fn(x))
    c.fn = np.sin if k % 2 else np.tanh
    return r
""",
        ["c.fn = np.cos"],
    ),
}

#: One namespace, as a dict and as the names of objects or functions.
NAMESPACES = {
    "exec ns without builtins trick": (
        r"""
ns = {"np": np}
exec("total = 0.0\ndef upd(v):\n    global total\n    total = total * 0.5 + v\n    return total", ns)
upd = ns["upd"]
def f(x, k): return upd(x[0] * k) * x[1] + ns["total"]
""",
        ['ns["total"] = 0.0'],
    ),
    "exec ns outside writes item": (
        r"""
ns = {}
exec("total = 0.5\ndef get(v): return total * v", ns)
get = ns["get"]
def f(x, k):
    ns["total"] = ns["total"] * 0.5 + x[0]
    return get(x[1])
""",
        ['ns["total"] = 2.0'],
    ),
    "exec ns writes update": (
        r"""
ns = {}
exec("total = 0.5\ncount = 0\ndef get(v): return total * v + count", ns)
get = ns["get"]
def f(x, k):
    ns.update(total=x[0], count=ns["count"] + 1)
    return get(x[1])
""",
        ['ns["count"] = 0'],
    ),
    "exec ns setdefault": (
        r"""
ns = {}
exec("def get(v): return rate * v", ns)
get = ns["get"]
def f(x, k):
    ns.setdefault("rate", 0.5)
    if k == 2: ns["rate"] = 1.5
    return get(x[1])
""",
        ['ns.pop("rate")'],
    ),
    "FunctionType own globals": (
        r"""
ns = {"w": 0.5, "np": np}
def _g(v):
    global w
    w = w * 0.5 + v
    return w
g = types.FunctionType(_g.__code__, ns)
def f(x, k):
    a = g(x[0])
    return a * ns["w"] + k
""",
        ['ns["w"] = 1.0'],
    ),
    "borg": (
        r"""
class Borg:
    _shared = {"v": 0.5, "n": 0}
    def __init__(self): self.__dict__ = self._shared
    def add(self, v): self.v = self.v * 0.5 + v; self.n += 1
a, b = Borg(), Borg()
def f(x, k):
    a.add(x[0])
    return b.v * x[1] + Borg._shared["n"]
""",
        ["b.v = 2.0"],
    ),
    "vars alias kept": (
        r"""
class P: pass
p = P(); p.v = 0.5
d = vars(p)
def f(x, k):
    p.v = p.v * 0.5 + x[0]
    return d["v"] * x[1]
""",
        ["p.v = 2.0"],
    ),
    "vars alias write": (
        r"""
class P: pass
p = P(); p.v = 0.5
d = p.__dict__
def f(x, k):
    d["v"] = d["v"] * 0.5 + x[0]
    d[f"k{k}"] = x[1]
    return p.v * x[1]
""",
        ["p.v = 2.0"],
    ),
    "function dict alias": (
        r"""
def g(v): return v * g.rate
g.rate = 0.5
d = g.__dict__
def f(x, k):
    d["rate"] = d["rate"] * 0.5 + x[0]
    return g(x[1])
""",
        ["g.rate = 2.0"],
    ),
    "vars alias in object": (
        r"""
class View:
    def __init__(self, o): self.d = o.__dict__
class P: pass
p = P(); p.v = 0.5
view = View(p)
def f(x, k):
    p.v = x[0] * k
    return view.d["v"] * x[1]
""",
        ["p.v = 2.0"],
    ),
    "two instances one dict": (
        r"""
class P: pass
p = P(); p.v = 0.5
q = P(); q.__dict__ = p.__dict__
def f(x, k):
    p.v = p.v * 0.5 + x[0]
    return q.v * x[1]
""",
        ["q.v = 3.0"],
    ),
    "attrdict self dict": (
        r"""
class AttrDict(dict):
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.__dict__ = self
cfg = AttrDict(lr=0.5, n=0)
def f(x, k):
    cfg.lr = cfg["lr"] * 0.5 + x[0]
    cfg["n"] += 1
    return cfg.lr * x[1] * cfg.n
""",
        ["cfg.lr = 2.0", 'cfg["n"] = 0'],
    ),
    "partial keywords alias": (
        r"""
def g(a, b=1.0): return a * b
p = partial(g, b=2.0)
kw = p.keywords
def f(x, k):
    kw["b"] = kw["b"] * 0.5 + x[1]
    return p(x[0]) + p.keywords["b"]
""",
        ['kw["b"] = 5.0'],
    ),
}

#: When nobody holds an object any more.
LIFETIMES = {
    "del counter": (
        r"""
class C:
    live = 0
    def __init__(self, v): C.live += 1; self.v = v
    def __del__(self): C.live -= 1
keep = []
def f(x, k):
    keep.append(C(np.sum(x)))
    if len(keep) > 2: keep.pop(0)
    return keep[-1].v * C.live
""",
        ["keep.clear()"],
    ),
    "del logs": (
        r"""
log = []
class R:
    def __init__(self, n): self.n = n
    def __del__(self): log.append(self.n)
cur = [None]
def f(x, k):
    cur[0] = R(k)
    return x[0] * len(log)
""",
        ["log.clear()"],
    ),
    "del logs traced": (
        r"""
log = []
class R:
    def __init__(self, v): self.v = v
    def __del__(self): log.append(self.v)
cur = [None]
def f(x, k):
    cur[0] = R(x[0] * 2)
    return x[0] * len(log) + (log[-1] if log else 0.0)
""",
        ["log.clear()"],
    ),
    "weakset live": (
        r"""
class Obj:
    def __init__(self, v): self.v = v
alive = weakref.WeakSet()
cur = {"o": None}
def f(x, k):
    cur["o"] = Obj(x[0]); alive.add(cur["o"])
    return cur["o"].v * len(alive)
""",
        [],
    ),
    "weak value len": (
        r"""
class Obj:
    def __init__(self, v): self.v = v
alive = weakref.WeakValueDictionary()
keep = deque(maxlen=2)
def f(x, k):
    o = Obj(x[0]); keep.append(o); alive[len(alive)] = o
    del o
    return sum(v.v for v in alive.values()) * len(alive)
""",
        ["keep.clear()"],
    ),
}

#: Functions with a cache that change something.
CACHES = {
    "cache method reads stored": (
        r"""
class S:
    def __init__(self): self.n, self.m = 0, 1.0
    @lru_cache(None)
    def w(self, j): return self.n * j + self.m
s = S()
def f(x, k):
    s.n += 1
    return x[0] * s.w(k)
""",
        ["S.w.cache_clear()"],
    ),
    "cache method reads list": (
        r"""
class S:
    def __init__(self): self.h = [1.0]
    @lru_cache(None)
    def w(self, n): return sum(self.h) * n
s = S()
def f(x, k):
    s.h.append(2.0)
    return s.w(k) * x[0]
""",
        ["S.w.cache_clear()"],
    ),
    "cache method helper stores": (
        r"""
class S:
    def __init__(self): self.n = 0; self.tab = {}
    def _count(self): self.n += 1
    @property
    def order(self): self._count(); return 2
    @lru_cache(None)
    def w(self, n): return n * self.order
s = S()
def f(x, k): return s.w(k) * x[0] + s.n
""",
        ["S.w.cache_clear()"],
    ),
    "cache function over object arg": (
        r"""
class P:
    def __init__(self): self.v, self.n = 1.5, 0
p = P()
@functools.cache
def scaled(o, j): o.n += 1; return o.v * j
def f(x, k):
    r = scaled(p, k) * x[0]
    return r + p.n
""",
        ["scaled.cache_clear()"],
    ),
    "cache method counter": (
        r"""
class Fib:
    def __init__(self): self.calls = 0
    @lru_cache(maxsize=None)
    def fib(self, n):
        self.calls += 1
        return n if n < 2 else self.fib(n - 1) + self.fib(n - 2)
fb = Fib()
def f(x, k): return x[0] * fb.fib(k + 3) + x[1] * fb.calls
""",
        ["Fib.fib.cache_clear()"],
    ),
    "cache function counter global": (
        r"""
calls = 0
@lru_cache(maxsize=None)
def fib(n):
    global calls
    calls += 1
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def f(x, k): return x[0] * fib(k + 3) + x[1] * calls
""",
        ["fib.cache_clear()"],
    ),
    "cache function counter list": (
        r"""
calls = [0]
@functools.cache
def sq(n):
    calls[0] += 1
    return n * n
def f(x, k): return x[0] * sq(k) + x[1] * calls[0]
""",
        ["sq.cache_clear()"],
    ),
    "cache function log": (
        r"""
log = []
@functools.cache
def sq(n):
    log.append(n)
    return n * n
def f(x, k): return x[0] * sq(k) + x[1] * len(log)
""",
        ["log.clear()"],
    ),
    "cache function attr": (
        r"""
@functools.cache
def sq(n):
    stats.miss += 1
    return n * n
class S: miss = 0
stats = S(); stats.miss = 0
def f(x, k): return x[0] * sq(k) * (stats.miss + 1)
""",
        ["stats.miss = 0"],
    ),
    "cached in class staticmethod": (
        r"""
class T:
    hits = 0
    @staticmethod
    @lru_cache(8)
    def w(n):
        T.hits += 1
        return n + 0.5
def f(x, k): return x[0] * T.w(k) + T.hits
""",
        ["T.hits = 0"],
    ),
}

#: Objects that become those of another class, and classes that change.
CLASSES = {
    "class assign": (
        r"""
class Idle:
    def go(self, v):
        if v > 1: self.__class__ = Busy
        return v
class Busy:
    def go(self, v):
        self.n = getattr(self, "n", 0) + 1
        if self.n > 2: self.__class__ = Idle; self.n = 0
        return v * 2
m = Idle()
def f(x, k): return m.go(x[0]) * x[1]
""",
        ["m.__class__ = Busy"],
    ),
    "class assign helper": (
        r"""
class A:
    def run(self, v): return v
class B(A):
    def run(self, v): return v * 3
items = [A(), A()]
def promote(o): setattr(o, "__class__", B)
def f(x, k):
    if k == 2: promote(items[0])
    return items[0].run(x[0]) + items[1].run(x[1])
""",
        ["items.reverse()"],
    ),
    "class assign object setattr": (
        r"""
class A:
    def run(self, v): return v
class B(A):
    def run(self, v): return v * 3
a = A()
def f(x, k):
    object.__setattr__(a, "__class__", B if k % 2 else A)
    return a.run(x[0])
""",
        [],
    ),
    "class assign setattr computed": (
        r"""
class A:
    def run(self, v): return v
class B(A):
    def run(self, v): return v * 3
a = A()
def f(x, k):
    for n, v in {"__class__": B if k % 2 else A, "z": x[0]}.items(): setattr(a, n, v)
    return a.run(x[0]) * a.z
""",
        [],
    ),
    "class assign dispatch": (
        r"""
class Base:
    def __init__(self): self.n = 0
    def become(self, cls): self.__class__ = cls; self.n += 1
class On(Base):
    def push(self, v): self.become(Off); return v * 2
class Off(Base):
    def push(self, v): self.become(On); return v
sw = {"a": On(), "b": Off()}
def f(x, k): return sw["ab"[k % 2]].push(x[0]) * x[1] + sw["a"].n
""",
        ['sw["a"].__class__ = Off'],
    ),
    "bases assign": (
        r"""
class P:
    def run(self, v): return v
class Q:
    def run(self, v): return v * 3
class C(P): pass
c = C()
def f(x, k):
    C.__bases__ = (Q,) if k % 2 else (P,)
    return c.run(x[0])
""",
        [],
    ),
    "class name attr": (
        r"""
class C: pass
def f(x, k):
    n = len(C.__name__)
    C.__name__ = "C" * (k + 1)
    return x[0] * n
""",
        [],
    ),
}

#: Partials of partials, and what stands in one.
PARTIALS = {
    "partial func attr": (
        r"""
def g(a, b=1.0): return a * b
p = partial(g, b=2.0)
def f(x, k):
    p.keywords["b"] = p.keywords["b"] * 0.5 + k
    p.tag = k
    return p(x[0]) + p.tag
""",
        [],
    ),
    "partial keywords traced": (
        r"""
def g(a, b=1.0): return a * b
p = partial(g, b=2.0)
def f(x, k):
    p.keywords["b"] = x[1]
    return p(x[0])
""",
        [],
    ),
    "partial keywords update": (
        r"""
def g(a, **kw): return a * sum(kw.values())
class C: pass
c = C(); c.p = partial(g, b=2.0)
def f(x, k):
    c.p.keywords.update({f"n{k}": x[1]})
    if k == 3: c.p.keywords.pop("b", None)
    return c.p(x[0]) + len(c.p.keywords)
""",
        ["c.p.keywords.clear()"],
    ),
    "partial nested": (
        r"""
def g(*a): return sum(a)
c = {"p": partial(g, 1.0)}
def f(x, k):
    c["p"] = partial(c["p"], float(k))
    return c["p"](x[0]) * len(c["p"].args)
""",
        ['c["p"] = partial(g, 2.0)'],
    ),
    "partial arg nested": (
        r"""
def g(*a): return sum(a)
base = partial(g, 1.0)
def f(x, k):
    q = partial(base, 2.0)
    seen.append((q.func is g, len(q.args)))
    return q(x[0]) * len(q.args)
seen = []
""",
        [],
    ),
    "partial of partial state": (
        r"""
def g(*a, **k): return sum(a) + sum(k.values())
base = partial(g, 1.0, z=0.5)
c = {"n": 0, "w": 0.5}
def f(x, k):
    q = partial(base, c["w"], y=x[1])
    c["w"] = c["w"] * 0.5 + x[0]
    c["n"] += len(q.args) + len(q.keywords) + (q.func is g)
    return q(x[2]) * c["n"]
""",
        ['c["n"] = 0'],
    ),
    "partial stays flat in a local": (
        r"""
def g(*a): return sum(a)
base = partial(g, 1.0)
c = {"n": 0}
def f(x, k):
    b = base
    q = partial(b, 2.0)
    c["n"] += len(q.args)
    return q(x[0]) * c["n"]
""",
        ["c['n'] = next(iter([1]))"],
    ),
    "partial stays flat in a live run": (
        r"""
import time
def g(*a): return sum(a)
base = partial(g, 1.0)
c = {"n": 0, "l": [base]}
def f(x, k):
    time.time()
    b = c["l"][0]
    c["n"] += len(partial(b, 2.0).args)
    return x[0] * c["n"] + globals()["c"]["n"]
""",
        ["c['l'] = [partial(g, 2.0)]"],
    ),
    "partial stays flat beside a cache": (
        r"""
import functools
base = partial(max, 0.25)
class Gap:
    def __init__(self): self.n = 0
    @functools.lru_cache(None)
    def pure(self, n): return n + 0.5
gap, d = Gap(), {}
def f(x, k):
    d["q"] = None if gap.n == 0 else 1
    return np.sum(x) + gap.pure(len(partial(base, 1).args)) * gap.__dict__["n"]
""",
        ["gap.n = 1"],
    ),
    "partial stays flat in an object": (
        r"""
def g(*a): return sum(a)
class O: pass
o = O(); o.p = partial(g, 1.0); o.made = []
def f(x, k):
    o.made.append(partial(o.p, x[0]))
    o.last = x[1]
    return o.made[-1](x[2]) * len(o.made[-1].args) + len(vars(o))
""",
        ["o.made.clear()"],
    ),
    "partial hasattr then gets": (
        r"""
def g(a): return a * 2
p = partial(g)
def f(x, k): return p(x[0]) * (3 if hasattr(p, "flag") else 1)
""",
        ["p.flag = True", "del p.flag"],
    ),
}

#: Dicts that get another default.
FACTORIES = {
    "factory lambda": (
        r"""
dd = defaultdict(int)
def f(x, k):
    if k == 2: dd.default_factory = float
    if k == 3: dd.default_factory = lambda: 5
    return x[0] * (dd[f"n{k}{len(dd)}"] + 1)
""",
        ["dd.default_factory = lambda: 9"],
    ),
    "factory none": (
        r"""
dd = defaultdict(int)
dd["a"] = 1
def f(x, k):
    dd.default_factory = None if k == 2 else int
    try: return x[0] * (dd[f"n{k}{len(dd)}"] + 1)
    except KeyError: return x[1]
""",
        [],
    ),
    "factory in object": (
        r"""
class C:
    def __init__(self): self.d = defaultdict(list)
    def freeze(self): self.d.default_factory = None
    def thaw(self): self.d.default_factory = list
c = C()
def f(x, k):
    if k == 2: c.freeze()
    if k == 3: c.thaw()
    try: c.d[len(c.d) + k].append(k)
    except KeyError: return x[1] * len(c.d)
    return x[0] * len(c.d)
""",
        ["c.d.clear()"],
    ),
    "factory traced": (
        r"""
dd = defaultdict(lambda: 0.5)
def f(x, k):
    v = dd[f"k{k}{len(dd)}"]
    t = x[0]
    dd.default_factory = lambda: t
    return v * x[1]
""",
        [],
    ),
}

#: Objects that are asked for a number or an array once.
CONVERTED = {
    "array obj": (
        r"""
class Q:
    def __init__(self): self.n = 0
    def __array__(self, dtype=None, copy=None): self.n += 1; return np.array([1.0, 2.0, self.n])
q = Q()
def f(x, k): return np.sum(x * np.asarray(q))
""",
        ["q.n = 0"],
    ),
    "float obj": (
        r"""
class Q:
    def __init__(self): self.n = 0
    def __float__(self): self.n += 1; return float(self.n)
q = Q()
def f(x, k): return np.sum(x) + float(q)
""",
        ["q.n = 0"],
    ),
    "int obj": (
        r"""
class Q:
    def __init__(self): self.n = 0
    def __int__(self): self.n += 1; return self.n
q = Q()
def f(x, k): return np.sum(x) * int(q)
""",
        ["q.n = 0"],
    ),
    "abs round obj": (
        r"""
class Q:
    def __init__(self): self.n = 0
    def __abs__(self): self.n += 1; return self.n
    def __round__(self, d=0): self.n += 1; return self.n * 0.5
    def __neg__(self): self.n += 1; return -self.n
    def __trunc__(self): self.n += 1; return self.n
    def __floor__(self): self.n += 1; return self.n
q = Q()
def f(x, k): return np.sum(x) * abs(q) + round(q, 1) + -q + math.floor(q)
""",
        ["q.n = 0"],
    ),
    "index obj only": (
        r"""
class I:
    def __init__(self): self.i = 0
    def __index__(self): self.i = (self.i + 1) % 3; return self.i
i = I()
def f(x, k): return x[i] * 2 + len(range(i))
""",
        ["i.i = 0"],
    ),
}


#: Keys that are objects, and come and go; modules and functions in containers.
KEYS = {
    "object keys appear": (
        r"""
class Iv:
    def __init__(self, a): self.a = a
    def __hash__(self): return hash(self.a)
    def __eq__(self, o): return isinstance(o, Iv) and self.a == o.a
hits = Counter()
def f(x, k):
    if x[0] > 1: hits[Iv(k)] += 1
    hits["n"] += 1
    return x[1] * sum(hits.values())
""",
        ["hits.clear()"],
    ),
    "object keys dict assigned": (
        r"""
class K:
    def __init__(self, a): self.a = a
a, b = K(1), K(2)
d = {"x": 0.5}
def f(x, k):
    if k == 2: d[a] = x[0]
    if k == 3: d.pop(a, None)
    d["x"] = d["x"] * 0.5 + x[1]
    return sum(d.values())
""",
        ["d.pop(a, None)"],
    ),
    "interval class eq": (
        r"""
class Iv:
    seen = set()
    def __init__(self, a, b): self.a, self.b = a, b; Iv.seen.add((a, b))
    def __contains__(self, v): return self.a <= v <= self.b
    def __hash__(self): return hash((self.a, self.b))
    def __eq__(self, o): return (self.a, self.b) == (o.a, o.b)
hits = Counter()
def f(x, k):
    for iv in (Iv(0, k), Iv(k, k + 2)):
        if x[0] * 2.1 in iv: hits[iv] += 1
    return x[1] * sum(hits.values()) + len(Iv.seen)
""",
        ["hits.clear()"],
    ),
    "function keys appear": (
        r"""
def g(v): return v
def h(v): return v * 2
calls = {}
def f(x, k):
    fn = g if k % 2 else h
    calls[fn] = calls.get(fn, 0) + 1
    return fn(x[0]) * calls[fn] + len(calls)
""",
        ["calls.clear()"],
    ),
    "class keys appear": (
        r"""
class A: pass
class B: pass
reg = defaultdict(list)
def f(x, k):
    reg[A if k % 2 else B].append(x[0])
    reg[type(k)].append(x[1])
    return sum(sum(v) for v in reg.values()) + len(reg)
""",
        ["reg.clear()"],
    ),
    "enum keys appear": (
        r"""
class E(enum.Enum): A = 1; B = 2
c = Counter()
def f(x, k):
    if x[0] > 1: c[E(k % 2 + 1)] += 1
    c[None] += 1
    return x[1] * sum(c.values()) + len(c)
""",
        ["c.clear()"],
    ),
    "frozenset keys appear": (
        r"""
edges = {}
def f(x, k):
    edges[frozenset((k, k + 1))] = x[0]
    edges[(k, frozenset([k]))] = x[1]
    return sum(edges.values()) + len(edges)
""",
        ["edges.clear()"],
    ),
    "module nested places": (
        r"""
c = {"h": []}
def f(x, k):
    c["a"] = {"t": (math, [np])}; c["h"].append((operator, k)); c["s"] = {math, np}
    c["d"] = {math: 1, (np, 1): 2}
    return math.sqrt(2.0) * x[0] * len(c["h"])
""",
        ['c["h"].clear()'],
    ),
}

GROUPS = {
    "beyond": BEYOND,
    "sentinels": SENTINELS,
    "namespaces": NAMESPACES,
    "lifetimes": LIFETIMES,
    "caches": CACHES,
    "classes": CLASSES,
    "partials": PARTIALS,
    "factories": FACTORIES,
    "converted": CONVERTED,
    "keys": KEYS,
}
CASES = [(group, name) for group, cases in GROUPS.items() for name in cases]
REPLAYED = {("sentinels", name) for name in SENTINELS} | {("partials", "partial arg nested")}


@pytest.mark.parametrize(("group", "name"), CASES, ids=lambda part: part)
def test_state_is_plain_pythons(group, name):
    found, live = failure(*GROUPS[group][name])
    assert not found
    assert not (live and (group, name) in REPLAYED)


@pytest.mark.parametrize(("group", "name"), [c for c in CASES if c[0] != "converted"], ids=lambda part: part)
def test_state_of_steps_is_plain_pythons(group, name):
    assert not failure(*GROUPS[group][name], steps=True)[0]


def test_a_namespace_of_exec_that_is_only_read_is_compared():
    source = r"""
space = {}
exec("rates = [0.5, 1.5]\ndef scaled(v, k): return v * rates[k % 2]", space)
def f(x, k): return space["scaled"](x[0], k) * len(space["rates"])
"""
    assert failure(source, ["space['rates'][1] = 3.0"])[0] == ""


def test_a_cache_of_a_method_that_only_reads_is_no_reason():
    source = """
class Solver:
    def __init__(self): self.order = 2.0
    @lru_cache
    def weights(self, n): return np.arange(n) * self.order
s, count = Solver(), {"nfev": 0}
def f(x, k):
    count["nfev"] += 1
    return np.sum(s.weights(3) * x)
"""
    assert failure(source)[0] == ""
