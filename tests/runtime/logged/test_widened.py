"""Kinds of programs whose runs are closed: as plain Python, call after call, and a change of what was read is seen."""

# ruff: noqa: E501  (a row of a table is a line)
from __future__ import annotations

import contextlib
import functools
import io
import logging

import numpy as np
import pytest
from closed_kinds import check

import tracegrad
from tracegrad.runtime.launch.kernel_cache import kernels

# what is outside, what the function does with it, and changes between calls: (world, body, changes)
KINDS = {
    "a partial": (
        "def g(a, x, b=2.0): return np.sum(a * x * b)\np = functools.partial(g, 3.0, b=1.5)",
        "s = s * p(x)", ["p = functools.partial(g, 2.0)"]),
    "a partial that gets its parts": (
        "def g(a, x, b=2.0): return np.sum(a * x * b)\np = functools.partial(g, np.ones(3))",
        "s = s * p(x)", ["p.args[0][:] = 2.0", "p.__setstate__((g, (4.0,), {'b': 3.0}, {}))"]),
    "a namespace": (
        "ns = types.SimpleNamespace(a=2.0, n=0, w=np.ones(3))",
        "ns.n += 1\nns.last = s\ns = s + np.sum(ns.w * ns.a) * ns.n", ["ns.a = 3.0", "del ns.a\nns.a = 4.0"]),
    "a namespace of the run": ("", "ns = types.SimpleNamespace(a=s)\nns.b = 2.0\ns = ns.a * ns.b", []),
    "a dict with defaults": (
        "d = collections.defaultdict(list, a=[1.0])",
        "d['a'].append(1.0)\nd[int(len(d['a']) > 2)].append(s)\ns = s * len(d)", ["del d['a']", "d['q'] = []"]),
    "defaults of the user's": (
        "def make(): return [1.5]\nd = collections.defaultdict(make)", "s = s * d['a'][0]", ["d['a'][0] = 2.5"]),
    "no defaults": (
        "d = collections.defaultdict(None, a=2.0)",
        "try: s = s * d['b']\nexcept KeyError: s = s * d['a']", ["d['b'] = 3.0"]),
    "a counter": (
        "d = collections.Counter('aab')", "d['c'] += 1\ns = s * d['a'] + d['q']", ["d['a'] = 7", "d.update('q')"]),
    "a dict by objects": (
        "class K: pass\nk, j = K(), K()\nd = {k: 2.0}", "s = s * d[k] + (j in d)", ["d[j] = 1.0", "d[k] = 3.0\nk, j = j, k"]),
    "a dict by members": (
        "class K(enum.Enum):\n    A = 1\n    B = 2\nd = {K.A: 2.0, K.B: 3.0}",
        "s = s * d[K.A]", ["d[K.A] = 3.0", "del d[K.B]"]),
    "methods of members": (
        "class K(enum.Enum):\n    A = 1\n    def twice(self): return self.value * rate\nrate = 2.0",
        "s = s * K.A.twice()", ["rate = 3.0"]),
    "a cache": (
        "@functools.lru_cache(None)\ndef w(n): return np.arange(n) * rate\nrate = 2.0",
        "s = s + np.sum(x * w(3))", ["rate = 3.0", "w.cache_clear()"]),
    "a cache of traced numbers": (
        "@functools.lru_cache(None)\ndef w(n): return n * rate\nrate = 2.0", "t = float(x[0])\ns = s * w(t) * w(t)", []),
    "a cache of a method": (
        "class A:\n    v = 2.0\n    @functools.lru_cache\n    def w(self, n): return n * self.v\na = A()",
        "s = s * a.w(3)", ["A.w.cache_clear()\na.v = 3.0"]),
    "a context": (
        "class C:\n    n = 0\n    def __enter__(self):\n        self.n += 1\n        return self\n"
        "    def __exit__(self, *given):\n        self.n -= 1\n        return given[0] is KeyError\nc = C()",
        "with c as held:\n    s = s * held.n\n    {}['q']", ["c.n = 1"]),
    "a context that ends by a return": (
        "class C:\n    def __enter__(self): return 2.0\n    def __exit__(self, *given): ends.append(given)\nends = []",
        "def g(x):\n    with C() as two: return x * two\ns = g(s)", []),
    "an error state": ("", "with np.errstate(all='ignore'): s = s * 2.0", []),
    "quiet warnings": ("", "with warnings.catch_warnings():\n    warnings.simplefilter('ignore')\n    s = s * 2.0", []),
    "a data class": (
        "@dataclasses.dataclass\nclass P:\n    a: object\n    b: float = 2.0\n    c: list = dataclasses.field(default_factory=list)\n"
        "    def __post_init__(self): self.c.append(self.a * rate)\nrate = 2.0",
        "p = P(s)\ns = p.c[0] * p.b", ["rate = 3.0"]),
    "a frozen data class": (
        "@dataclasses.dataclass(frozen=True)\nclass P:\n    a: object\n    b: dataclasses.InitVar[float] = 2.0\n"
        "    def __post_init__(self, b): object.__setattr__(self, 'q', self.a * b)",
        "s = P(s).q * P(s, 3.0).q", []),
    "data classes that are compared": (
        "@dataclasses.dataclass(order=True)\nclass P:\n    a: float\n    b: float = dataclasses.field(default=0.0, compare=False)\np = P(1.0)",
        "s = s * 2.0 if p == P(1.0, 5.0) else s\ns = s * 3.0 if p < P(2.0) else s", ["p.a = 2.0", "p.b = 1.0"]),
    "a named tuple": (
        "class P(collections.namedtuple('P', 'a b')):\n    def total(self): return self.a + self.b * rate\nrate = 2.0",
        "s = s * P(s, 1.0).total()", ["rate = 3.0"]),
    "`__setattr__` of the user's": (
        "class C:\n    n = 0\n    def __setattr__(self, k, v):\n        self.__dict__['n'] = 1\n        object.__setattr__(self, k, v)\n"
        "class D:\n    def __setattr__(self, k, v): super().__setattr__('_' + k, v)\nd = D()",
        "d.a = s\ns = s * d._a\nc = C()\nc.a = s\ns = c.a * c.n", ["D.__setattr__ = object.__setattr__\nd._a = 2.0"]),
    "`setattr` and `delattr`": (
        "class C: pass\nc = C()\nc.q = 1.5",
        "for k in ('r', 't'): setattr(c, k, s * c.q)\ns = s * c.r\ndelattr(c, 't')", ["c.q = 2.5", "c.t = 1.0"]),
    "an attribute that comes and goes": (
        "class C: pass\nc = C()", "c.t = s\ns = s * c.t\ndel c.t\ns = s * (2.0 if hasattr(c, 't') else 3.0)", ["c.t = 1.0"]),
    "attributes as a dict": (
        "class C:\n    def __init__(self): self.a, self.b = 2.0, np.ones(3)\nc = C()",
        "s = s * c.__dict__['a'] + np.sum(vars(c)['b']) * len(vars(c))", ["c.a = 3.0", "c.q = 3.0"]),
    "attributes of the run's as a dict": (
        "class C:\n    def __init__(self, **given): self.__dict__.update(given)", "c = C(a=s)\ns = s * c.a", []),
    "a cached property": (
        "class C:\n    a = 2.0\n    @functools.cached_property\n    def w(self): return self.a * rate\nc, rate = C(), 1.5",
        "s = s * c.w", ["rate = 2.5", "del c.w", "c.w = 5.0"]),
    "a cached property of the run's": (
        "class C:\n    @functools.cached_property\n    def w(self): return self.a * rate\nrate = 1.5",
        "c = C()\nc.a = s\ns = c.w * c.w", ["rate = 2.5"]),
    "descriptors": (
        "class D:\n    def __set_name__(self, o, n): self.n = '_' + n\n    def __get__(self, o, c=None): return getattr(o, self.n) * rate\n"
        "    def __set__(self, o, v): setattr(o, self.n, v)\nclass E:\n    def __get__(self, o, c=None): return rate\n"
        "class C:\n    d, e = D(), E()\nrate, c = 2.0, C()\nc.d = 2.0",
        "n = C()\nn.d = s\ns = n.d * c.d * c.e * C.e\nc.d = 2.0", ["rate = 3.0", "c._d = 5.0", "C.e = 2.0"]),
    "mappings of Python's own": (
        "u = collections.UserDict(a=2.0)\nc = collections.ChainMap({'b': 3.0}, u)",
        "s = s * u['a'] + c['b'] + c['a']\nu['n'] = s", ["u['a'] = 3.0", "c.maps[0]['a'] = 9.0"]),
    "an order that is completed": (
        "@functools.total_ordering\nclass A:\n    def __init__(self, v): self.v = v\n    def __lt__(self, o): return self.v < o.v\n"
        "    def __eq__(self, o): return self.v == o.v\na, b = A(1), A(2)",
        "s = s * 2.0 if b >= a else s", ["b.v = 0"]),
    "local names": ("q = 2.0\ndef make(r):\n    def g(x):\n        b = 2.0\n        return x * locals()['b'] * locals()['r'] + r\n    return g\ng = make(3.0)",
        "s = g(s) * locals()['x'][0]", ["g = make(4.0)"]),
    "elements of a set": (
        "class A: pass\nclass B: pass\nkinds = {A, int}\na = A()", "s = s * 2.0 if type(a) in kinds else s", ["kinds.discard(A)"]),
    "a function that a library calls": (
        "from scipy.optimize import brentq\ndef g(t): return t * t - level\nlevel = 2.0",
        "s = s * brentq(g, 0.0, 3.0) * np.sum(np.apply_along_axis(lambda r: r * level, 0, x))", ["level = 3.0"]),
    "a spline": (
        "from scipy import interpolate\nt = np.linspace(0.0, 3.0, 9)\np = interpolate.CubicSpline(t, np.sin(t))\nb = interpolate.make_interp_spline(t, t * t)",
        "s = s * np.sum(p(x) * b(x))", ["p = interpolate.CubicSpline(t, np.cos(t))", "b.c[:] = 0.5"]),
    "an interpolation": (
        "from scipy import interpolate\nt = np.linspace(0.0, 3.0, 8)\np = interpolate.interp1d(t, np.sin(t))",
        "s = s * np.sum(p(x))", ["p = interpolate.interp1d(t, np.cos(t))"]),
    "a sparse matrix": (
        "from scipy import sparse\nA = sparse.csr_matrix(np.diag([1.0, 2.0, 3.0]))\nB = sparse.coo_matrix(np.eye(3))",
        "s = s * np.sum(A @ x) + np.sum(A.T.dot(x) * (B @ x)) + A.shape[0]",
        ["A.data[:] = 2.0", "A = sparse.csr_matrix(np.ones((3, 3)))", "A.indices[:] = [1, 2, 0, 1, 2, 0, 1, 2, 0]"]),
    "a frozen distribution": (
        "from scipy import stats\nd = stats.norm(0.5, 2.0)\nm = stats.multivariate_normal(np.zeros(3), np.eye(3))",
        "s = s * np.sum(d.logpdf(x)) + m.logpdf(x)", ["d = stats.norm(0.5, 3.0)", "d.args = (0.25, 1.0)"]),
    "the environment": (
        "import os\nos.environ['A_NAME_OF_THIS_TEST'] = '2'",
        "s = s * float(os.environ['A_NAME_OF_THIS_TEST']) * ('A_NAME_OF_THIS_TEST' in os.environ) + len(os.environ.get('ANOTHER', 'abc'))",
        ["os.environ['A_NAME_OF_THIS_TEST'] = '3'"]),
    "arrays in another byte order": (
        "w, n = np.arange(3.0).astype('>f8'), np.arange(9).astype('>i4')[::3]\nclass A: pass\na = A()\na.w = w",
        "s = s + np.sum(w * x) * n[1] + np.sum(a.w) + w.shape[0]", ["w[1] = 7.0", "w = np.ones(3)", "n[3] = 5\na.w = np.arange(3.0).astype('>f4')"]),
    "a memory map": (
        "import tempfile\nfile = tempfile.TemporaryFile()\nnp.arange(6.0).tofile(file)\nw = np.memmap(file, dtype=float, mode='r+', shape=(2, 3))",
        "s = s + np.sum(w[1] * x) * w.T.shape[0]", ["w[1, 1] = 9.0", "w = np.ones((2, 3))"]),
    "an object that gives an array": (
        "class W:\n    def __init__(self, v): self.v = v\n    def __array__(self, dtype=None, copy=None): return self.v * rate\nrate, w = 2.0, W(np.arange(3.0))",
        "s = s + np.sum(np.asarray(w) * x) + np.dot(w, w.v) + np.sum(np.multiply(W(x), x))", ["rate = 3.0", "w.v[0] = 4.0", "w = W(np.ones(3))"]),
    "context variables": (
        "import contextvars\nclass A: w = 2.0\nrate, a, arr = contextvars.ContextVar('rate', default=2.0), contextvars.ContextVar('a'), contextvars.ContextVar('arr', default=np.ones(3))",
        "s = s * rate.get() + a.get(A).w + np.sum(arr.get() * x)\ntry: s = s * a.get().w\nexcept LookupError: s = -s",
        ["rate.set(3.0)\narr.get()[0] = 2.0", "b = A()\na.set(b)\nb.w = 5.0", "b.w = 7.0\nrate = contextvars.ContextVar('r', default=1.0)"]),
    "the environment as a dict": (
        "import os\nos.environ['A_NAME_OF_THIS_TEST'] = '2'", "s = s * float(dict(os.environ)['A_NAME_OF_THIS_TEST'])", ["os.environ['A_NAME_OF_THIS_TEST'] = '3'"]),
    "fields of a data class": (
        "@dataclasses.dataclass(frozen=True)\nclass P:\n    a: object\n    b: float = 2.0\np = P(1.0)",
        "q = dataclasses.replace(p, a=s)\ns = q.a * q.b", ["p = P(1.0, 3.0)"]),
    "a dict of parts": (
        "L = [1.0]\nd = {'a': L}", "e = dict(d, b=L)\ne['a'].append(s)\ns = s * len(e['b']) + len(dict([('a', L)])['a'])", []),
    "`super` with arguments": (
        "class A:\n    def g(self): return rate\nclass B(A):\n    def g(self): return super(B, self).g() * 2.0\nb, rate = B(), 2.0",
        "s = s * b.g()", ["rate = 3.0"]),
    "the shape of an array": ("", "y = np.array([1.0, 2.0, 3.0]) * x\ny.shape = 3, 1\nz = np.ones(3)\nz.shape = 1, 3\ns = s * np.sum(z @ y)", []),
    "a list beside an array": ("", "s = s * np.sum([x[0], x[1], x[2]] - np.ones(3))", []),
    "methods of arrays with arguments": ("n = 3", "s = s * np.sum(x.reshape(n, -1) * x.sum(axis=n - 3))", []),
    "draws of a seed": ("n = 3", "s = s * np.sum(np.random.default_rng(n).normal(size=3) * x)", ["n = 4"]),
    "getters": (
        "import operator\nclass A: pass\na = A()\na.b = A()\na.b.c = 2.0\na.g = lambda k: k * rate\nrate, L = 2.0, [1.0, 2.0]\n"
        "first, deep, go = operator.itemgetter(0, 1), operator.attrgetter('b.c'), operator.methodcaller('g', 3.0)",
        "s = s * sum(first(L)) * deep(a) * go(a)", ["L[0] = 3.0", "a.b.c = 3.0", "rate = 4.0"]),
    "copies": (
        "import copy\nclass A: pass\na = A()\na.l, a.d = [1.0, [2.0]], {'k': np.ones(3)}\na.me = a\nns = types.SimpleNamespace(l=a.l)",
        "b, c = copy.deepcopy(a), copy.copy(a)\nb.l[1][0] = s\nb.d['k'][0] = 5.0\nc.q = 1.0\nc.l[0] = s\n"
        "s = s * b.l[1][0] + b.me.l[0] + c.l[1][0] + np.sum(b.d['k'] * copy.copy(ns).l[1])", ["a.l[1][0] = 3.0", "A.__copy__ = lambda self: types.SimpleNamespace(l=self.l)"]),
    "`__new__`": (
        "class A:\n    def __new__(cls, v):\n        made = super().__new__(cls)\n        made.w = v * rate\n        return made\n"
        "class P(collections.namedtuple('P', 'a b')):\n    def __new__(cls, a): return super().__new__(cls, a, rate)\nrate = 2.0",
        "s = s * A(s).w + P(s).b * P(s)._replace(a=3.0).a", ["rate = 3.0"]),
    "questions about kinds": ("import inspect\ndef g(x): return x\nh = g", "s = s * 2.0 if inspect.isfunction(h) else s", ["h = len"]),
    "lists outside in a list of a loop": (
        "t = {'l': [[1.0], [2.0]]}\npair = (t['l'], 0.5)",
        "for k in range(3): t['l'] = t['l'][::-1]\nq = pair\nfor k in range(3): q, s = (pair[0], q[1] * 2.0), s + q[1]\ns = s * t['l'][0][0]",
        ["t['l'][0][0] = 3.0", "pair = (t['l'], 1.5)"]),
    "texts of values that are kept": (
        "class A: pass\na, L, d = A(), [], {}",
        "a.text = f'{s:.3f} of {x[0]!r}'\nL.append('so ' + a.text)\nd['t'] = str(s)\nd['u'] = f'{len(L)} {x.shape}'\ns = s * 2.0 if a.text else s", []),
    "a text that is looked at": ("seen = {}", "t = f'{s:.1f}'\nif s > 100.0: seen[t] = len(t)", []),
    "a cache that does more": (
        "class A:\n    n = 0\n    @functools.lru_cache(None)\n    def w(self, k): return k * 2.0\na = A()",
        "s = s * (a.w(3) + 1.0)\na.n += 1", ["A.w.cache_clear()"]),
    "fields of named tuples": (
        "class P(collections.namedtuple('P', 'a b')): pass\np = P(1.5, 2.0)",
        "s = s * p.a + p.b", ["P.__getitem__ = lambda self, k: 3.0"]),
    "named tuples backwards": (
        "class P(collections.namedtuple('P', 'a b')): pass\np = P(1.5, 2.0)",
        "s = s * next(reversed(p))", ["P.__reversed__ = lambda self: iter([0.5])"]),
    "a match": (
        "class A: pass\n@dataclasses.dataclass\nclass P:\n    a: object\n    b: float = 2.0\np, d, L, a = P(1.5), {'kind': 'mul', 'by': 2.0, 'of': 1}, [1.0, 2.0, 3.0], A()",
        "match d:\n    case {'kind': 'mul', 'by': by, **rest}: s = s * by + len(rest)\n    case {'kind': 'add', 'by': by}: s = s + by\n"
        "match L:\n    case [first, *_, last] if last > first: s = s * first + last\n    case [only]: s = s * only\n"
        "match p:\n    case P(1.5, b=b): s = s * b\n    case A(): s = -s\nmatch (x[0], a):\n    case (y, A()): s = s * y\n    case (y, _): s = s + y",
        ["d['kind'] = 'add'\nL[0] = 5.0", "p.b = 3.0\nd['new'] = 1\nL[:] = [4.0]", "p = a\na = 1"]),
    "a match of what is registered": (
        "import collections.abc\nclass A:\n    def __len__(self): return 1\n    def get(self, k, d): return rate\n    def __iter__(self): return iter([rate])\na, rate = A(), 2.0",
        "match a:\n    case {'k': v}: s = s * v\n    case [v]: s = s + v\n    case _: s = -s", ["collections.abc.Sequence.register(A)", "rate = 3.0", "class A(A): pass\ncollections.abc.Mapping.register(A)\na = A()"]),
    "a match in a loop": (
        "ops = [('mul', 2.0), ('add', 1.0), 'neg', ('mul', 3.0)]",
        "for op in ops:\n    match op:\n        case ('mul', k): s = s * k\n        case ('add', k): s = s + k\n        case _: s = -s", ["ops[0] = 'neg'", "ops.append(('add', 5.0))"]),
    "a number that is needed as it is": (
        "d = {'n': 0}\nL = [1.0, 2.0, 3.0]", "for _ in range(2):\n    s = s * L[d['n'] % 3]\n    d['n'] += 1", []),
}  # fmt: skip

CUBE = "rate = 2.0\ndef cube(x): return np.sum(x**3) * rate\ndef wave(x): return np.sin(x) * rate\n"
RULE = "    return np.sum(np.sin(x)) * rate\n"

# our own functions of functions, outside and of the run's; all read what changes
TRANSFORMS = {
    "a gradient": ("g = autograd.grad(cube)", "s = s * np.sum(g(x))"),
    "a gradient in the function": ("", "s = s * np.sum(autograd.grad(lambda x: cube(x) * rate)(x))"),
    "a compiled function": ("g = tg.compile_grad(cube)", "s = s * g(x)"),
    "a compiled method": (
        "class A:\n    v = 2.0\n    @tg.compile_grad\n    def g(self, x): return cube(x) * self.v\na = A()", "s = s * a.g(x)"),
    "rows": ("g = autograd.vmap(wave)", "s = s * np.sum(g(x))"),
    "a Jacobian": ("", "s = s * np.sum(autograd.jacfwd(wave)(x))"),
    "a custom rule": (
        f"@tg.custom_vjp\ndef g(x):\n{RULE}g.defvjp(lambda x: (np.sum(np.sin(x)) * rate, x), lambda r, c: (np.cos(r) * c * rate,))",
        "s = s * g(x)"),
    "a custom rule forward": (
        f"@tg.custom_jvp\ndef g(x):\n{RULE}@g.defjvp\ndef _(p, t): return g(*p), np.sum(np.cos(p[0]) * t[0]) * rate", "s = s * g(x)"),
    "host code": (
        "def host(x): return np.sin(x) * rate\n@tg.custom_vjp\ndef g(x): return tg.pure_callback(host, x, x)\n"
        "g.defvjp(lambda x: (g(x), x), lambda r, c: (np.cos(r) * c * rate,))",
        "s = s * np.sum(g(x))"),
    "a scan": ("def step(c, x): return c * 0.9 + x * rate, c", "c, ys = tg.scan(step, 0.0, x)\ns = s * c + np.sum(ys)"),
    "a choice": ("", "s = tg.cond(s > 0.0, lambda x: np.sum(x) * rate, lambda x: np.sum(x * x), x)"),
    "a checkpoint": ("g = tg.checkpoint(wave)", "s = s * np.sum(g(x))"),
    "a tree": ("", "s = s * np.sum(tg.tree.map(lambda a: a * rate, {'a': x, 'b': [x, x]})['b'][1])"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def fresh():
    yield
    kernels.clear()


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_that_is_closed(name):
    check(*KINDS[name])


@pytest.mark.parametrize("name", TRANSFORMS)
def test_our_own_functions_of_functions(name):
    world, body = TRANSFORMS[name]
    check(CUBE + world, body, ["rate = 3.0"])


def test_host_code_reads_what_is_there_when_it_runs():
    made = {"seen": [], "rate": 2.0}

    def host(x):
        made["seen"].append(float(x[0]))
        return x * made["rate"] if x[0] < 5.0 else x * made["other"]

    @tracegrad.custom_vjp
    def doubled(x):
        return tracegrad.pure_callback(host, x, x)

    doubled.defvjp(lambda x: (doubled(x), None), lambda r, c: (c * 2.0,))

    def f(x):
        return np.sum(doubled(x))

    g = tracegrad.compile_grad(f)
    x = np.ones(3)
    for k in range(3):
        assert g(x + k) == 6.0 * (k + 1)
    made["rate"], made["other"] = 4.0, 5.0
    assert g(x) == 12.0 and g(x * 7.0) == 105.0
    assert made["seen"][-2:] == [1.0, 7.0]


def _told(capsys, caplog, run):
    with caplog.at_level(logging.DEBUG):
        value = run()
    told = (
        capsys.readouterr().out,
        [(r.name, r.levelname, r.getMessage(), r.lineno) for r in caplog.records if "tracegrad" not in r.name],
    )
    caplog.clear()
    return value, told


def test_what_is_printed_and_logged_is_that_of_each_call(capsys, caplog):
    logger, told = logging.getLogger("a logger of this test"), []

    def f(x):
        loss = np.sum(x * x)
        print("{loss}", loss, f"{loss:.2f}", x, end="{!}\n")
        logger.info("at %s, %d", loss, 3)
        told.append(f"{loss:.3e}")
        logging.debug(f"{loss}")
        return loss

    g = tracegrad.compile_grad(f)
    for k in range(4):
        x = np.arange(3.0) + 0.5 * k
        assert _told(capsys, caplog, lambda x=x: float(f(x))) == _told(capsys, caplog, lambda x=x: float(g(x)))
        assert told[-1] == told[-2]
    assert g.stats.traces == 1 and not g.stats.live


def test_a_cache_whose_function_changes_something_is_asked_once():
    class Counted:
        n = 0

        @functools.lru_cache(None)  # noqa: B019
        def kept(self, n):
            self.n += 1
            return n * 2.0

    def make():
        held = Counted()
        return held, lambda x: np.sum(x) + held.kept(held.n)

    (mine, f), (theirs, plain) = make(), make()
    g = tracegrad.compile_grad(f)
    for _ in range(4):
        assert g(np.ones(3)) == plain(np.ones(3)) and mine.n == theirs.n


def test_a_file_that_the_first_call_reads_is_of_no_concern_to_the_next_one(tmp_path):
    np.savetxt(tmp_path / "data", np.arange(3.0))
    kept = {}

    def f(x):
        if "data" not in kept:
            kept["data"] = np.loadtxt(tmp_path / "data")
        return np.sum((x - kept["data"]) ** 2)

    g = tracegrad.compile_grad(f)
    for k in range(5):
        before = g.stats.traces
        assert g(np.ones(3) * k) == np.sum((np.ones(3) * k - np.arange(3.0)) ** 2)
    assert g.stats.traces == before and not g.stats.live and not g._dispatcher.logged.refused


@pytest.mark.parametrize(
    "read", [np.loadtxt, np.genfromtxt, lambda path: float(path.read_text().split()[0]) * np.ones(3)]
)
def test_a_file_that_each_call_reads_is_read_again(tmp_path, read):
    path = tmp_path / "data"

    def f(x):
        return np.sum(x * read(path))

    np.savetxt(path, np.ones(3))
    g = tracegrad.compile_grad(f)
    for _ in range(3):
        assert g(np.ones(3)) == 3.0
    np.savetxt(path, np.ones(3) * 2.0)
    assert g(np.ones(3)) == 6.0


def test_what_is_printed_elsewhere_is_printed_there(capsys):
    def f(x):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            print("here", x[0])
        return np.sum(x) * len(text.getvalue())

    g = tracegrad.compile_grad(f)
    for _ in range(3):
        assert g(np.ones(3)) == f(np.ones(3)) and capsys.readouterr().out == ""
