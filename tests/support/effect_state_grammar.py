# ruff: noqa: E501  (a row of a table is a line)
"""The grammar of programs with effects: kinds of state, and how code reads, writes and changes them.

A kind has a set-up, a few lists of expressions, statements, and changes that others make between calls.  In all of them
``NUM``, ``ARR``, ``INT``, ``TEST`` stand for any expression of that type (a number, an array of three, an int of the run,
a question), ``GLOBAL`` for ``global`` or ``nonlocal``, ``MOD`` for the name of a module that is made on the fly,
``LOOP`` for a variable of this loop alone.  Entries
are separated by lines or " | " (``\\|`` is an operator); ``\\n`` begins a new line, ``{0}`` is a block.  ``effect_state_programs.py`` draws from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HEAD = """
import bisect, collections, contextlib, copy, dataclasses, enum, functools, heapq, inspect, itertools, math, operator, sys, types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from functools import partial
from with_source import code_of
class Box:
    def __init__(self, **named): self.__dict__.update(named)
class Bad(Exception):
    pass
Pair = namedtuple("Pair", "loss x")
"""


def entries(text: str) -> list[str]:
    parts = [part.strip() for line in text.strip().splitlines() for part in line.split(" | ")]
    return [part.replace("\\n", "\n").replace("\\|", "|") for part in parts if part]


@dataclass
class Kind:
    setup: str
    names: str  # those that the set-up binds
    rebound: str = ""  # those that statements and changes bind again
    nums: list[str] = field(default_factory=list)
    ints: list[str] = field(default_factory=list)
    arrs: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    only: str = ""  # "arrays", which are no state of steps of tensors, or "tensors", of which only steps have some


def kind(setup: str, names: str, rebound: str = "", only: str = "", **lists: str) -> Kind:
    return Kind(setup.strip("\n"), names, rebound, only=only, **{k: entries(v) for k, v in lists.items()})  # type: ignore[arg-type]


COMMON = kind(
    "",
    "",
    nums="s | t | x[0] | x[INT % 3] | np.sum(ARR) | 0.5 * NUM | np.tanh(NUM) | NUM + NUM | 1.5 | x[-1] * 0.5 | np.sum(y) | float(INT) | NUM - 0.5 | -NUM",
    ints="k | n | j | 2 | INT + 1 | INT % 3 | len(x) | 3 - k | (INT + INT) % 4 | int(TEST) | abs(INT - 2) | INT * 2 % 5",
    arrs="x | y | np.tanh(ARR) | ARR * 0.5 | ARR + NUM | np.ones(3) * NUM | np.where(x > 1, ARR, 0.5) | x + y | y[:] | 1.0 * x",
    tests="s > 2.0 | x[0] > 0.8 | k > 1 | n > 1 | INT % 2 | INT == 2 | NUM > 0.7 | not TEST | TEST and TEST | t < 1.0 | INT in (1, 2) | x[1] < x[2]",
    statements=r"""
s = s + 0.1 * NUM | s = s + 0.1 * np.sum(ARR) | t = NUM | y = ARR | n = INT | n += 1 | s = s * np.tanh(NUM) | y = np.tanh(y) | t = 0.5 * t
s = NUM if TEST else s | s, t = s + 0.1 * t, NUM | n, j = INT, n
""",
)  # fmt: skip

BLOCKS = entries(r"""
if TEST:\n{0} | if TEST:\n{0}\nelse:\n{1} | for j in range(INT % 4):\n{0} | for j, t in enumerate([NUM, NUM]):\n{0} | for j in (2, 0, 1):\n{0}
LOOP = x[0] + 2.0\nwhile LOOP > 0.7:\n    LOOP = LOOP * 0.6\n    n += 1\n{0}\nt = LOOP | LOOP = 0\nwhile LOOP < INT % 5:\n    LOOP += 1\n{0}\nn = LOOP
try:\n{0}\nexcept KeyError:\n{1} | try:\n{0}\nfinally:\n{1} | try:\n{0}\nexcept (KeyError, IndexError, ValueError) as caught:\n    n = len(caught.args)
def inner(v):\n    nonlocal_s = v * 0.5\n    return nonlocal_s + NUM\ns = s + 0.1 * inner(NUM)
for t in [v * 0.5 for v in (NUM, NUM)]:\n{0} | if TEST:\n    raise Bad(f"bad {k}") | if TEST:\n    return s | if TEST:\n    raise Bad(NUM, INT)
if TEST:\n{0}\nelif TEST:\n{1} | for j in range(3):\n    if TEST:\n        break\n{0} | for j in range(4):\n    if TEST:\n        continue\n{0}
""")  # fmt: skip

KINDS: dict[str, Kind] = {
    "names": kind(
        "G, T, LAST, LST = 0, 0.5, None, []\ndef bump(v):\n    GLOBAL G, LAST\n    G += 1\n    LAST = v\n    return G",
        "G T LAST LST bump", "G T LAST LST", nums="T | G * 0.5 | len(LST)", ints="G | len(LST) | bump(NUM)", tests="LAST is None | G > 2 | LST",
        statements="G += 1 | T += NUM | LAST = ARR | LAST = NUM | G, T = G + 1, NUM | T = NUM | G = INT | LAST = [NUM, ARR] | LAST = (INT, NUM) "
        "| bump(NUM) | LST = LST + [NUM] | LST += [INT] | LST.append(ARR); LST = list(LST) | LST.append(NUM); LST = [] | LAST = LST | LST = LST[-2:] | LAST = {INT: NUM} | T = max(T, NUM)",
        changes="G = 0 | T = 1.5 | LAST = None | G = 2 | LST = [] | LST = LAST = [1.5] | T = 2",
    ),
    "module": kind(
        """
m = types.ModuleType("MOD")
sys.modules["MOD"] = m
exec(code_of(inspect.cleandoc('''
import NUMPY as np
W, N, T, H = np.ones(3), 0, {"a": 0.5}, []
def energy(v): return np.sum(W * W * v)
def bump():
    global N
    N += 1
    return N
def store(v):
    global W
    W = v
def get(): return W
def first(): return T["a"]
def add(v): H.append(v); return len(H)
class Unit:
    scale = 0.5
    def run(self, v): return np.sum(W * v) * self.scale
unit = Unit()
'''), 'MOD'), vars(m))
def lookup(name): return getattr(sys.modules["MOD"], name)
me = sys.modules[__name__]
me.SELF = 0.5
""",
        "m lookup me SELF", nums="m.energy(ARR) | m.first() | m.T['a'] | np.sum(m.get()) | m.unit.run(ARR) | np.sum(lookup('W')) | me.SELF | SELF | m.N * 0.5",
        ints="m.N | m.bump() | len(m.H) | m.add(NUM)", arrs="m.W | m.get()", tests="m.N > 1 | m.W is m.get() | hasattr(m, 'EXTRA')",
        statements="m.W = ARR | setattr(m, 'W', ARR) | sys.modules['MOD'].W = ARR | import MOD; MOD.W = ARR | m.__dict__['W'] = ARR | vars(m)['W'] = ARR "
        "| m.store(ARR) | m.N = INT | m.N += 1 | m.T['a'] = NUM | m.T = {'a': NUM} | m.H = [NUM] | m.H.append(NUM); m.H = [] | m.unit.scale = NUM | m.Unit.scale = NUM "
        "| m.W = m.W + ARR * 0.1 | m.EXTRA = NUM | me.SELF = NUM | setattr(me, 'SELF', NUM) | sys.modules[__name__].SELF = NUM | import MOD as mm; mm.T['a'] = NUM; s = s + mm.first() | m.unit = m.Unit() | m.energy = lambda v: np.sum(v) * 0.5 | m.T[INT] = NUM",
        changes="m.W = np.ones(3) * 2 | m.N = 0 | m.T = {'a': 1.5} | m.unit.scale = 2.0 | m.H.clear() | me.SELF = 1.0 | m.energy = lambda v: np.sum(v)",
    ),
    "two ways": kind(
        """
class Params: pass
class Cell:
    def __init__(self, p): self.p, self.h = p, 0.5
    def run(self, v): self.h = np.tanh(np.sum(self.p.w) * v)
class Net:
    def __init__(self, p): self.p, self.cells, self.seen = p, [], []
    def add(self, v):
        self.seen.append(v)
        if len(self.seen) > len(self.cells): self.cells.append(Cell(self.p))
        self.cells[len(self.seen) - 1].run(v)
p = Params()
p.w, p.b, p.l = np.ones(3), 0.5, [1.0]
net = Net(p)
alias, spare, bag = p, Params(), {"p": p, "l": p.l}
spare.w, spare.b, spare.l = np.ones(3) * 0.5, 1.0, p.l
""",
        "p net alias spare bag Params Cell Net", "p alias",
        nums="sum([c.h for c in net.cells], 0.0) | p.b | alias.b | bag['p'].b | np.sum(net.p.w) | bag['l'][0] | p.l[0] | spare.l[0] | spare.b | np.sum(alias.w)",
        ints="len(net.cells) | len(net.seen)", arrs="p.w | alias.w | bag['p'].w | net.p.w", tests="alias is p | net.p is bag['p'] | net.cells | spare.l is p.l",
        statements="p.w = ARR | net.add(NUM) | net.seen = [] | alias.b = NUM | p.b = NUM | bag['p'].w = ARR | net.p.b += NUM | p.l[0] = NUM | spare.l = p.l | p, alias = alias, p "
        "| net.cells[-1].p = spare | net.cells.clear() | bag['l'][0] = NUM | bag['p'] = spare | net.p = bag['p'] | spare.b = p.b; p.b = NUM | setattr(alias, 'w', ARR) | p.l = bag['l'] "
        "| net.add(NUM); net.add(NUM); s = s + sum([c.h for c in net.cells], 0.0); net.seen = [] | net.cells.append(Cell(alias)) | p.me = p | q = copy.copy(p); q.b = NUM; net.p = q "
        "| for c in net.cells: c.p.b = NUM | net.seen.append(p) ; net.seen.pop() | alias.w, p.w = p.w, ARR",
        changes="p.w = np.ones(3) * 1.5 | alias.b = 0.5 | net.cells.clear(); net.seen.clear() | bag['p'] = spare | bag['p'] = p | alias = spare | net.p = p",
    ),
    "buffers": kind(
        "b = Box(cur=[1.0, 2.0, 3.0], prev=[3.0, 4.0, 5.0], now=np.ones(3), old=np.zeros(3), d={'p': 1.0, 'q': 2.0}, e={}, o=Box(r=0.5), held=None)\nwas, wasd = b.cur, b.d",
        "b was wasd", "was wasd", nums="b.cur[0] | b.prev[INT % 3] | sum(b.cur) | was[0] | b.d['p'] | wasd['p'] | b.o.r | np.sum(b.now) | sum(b.d.values())", ints="len(b.d) | len(b.cur)",
        arrs="b.now | b.old", tests="b.cur is was | b.d is wasd | 'a' in b.d | INT in b.e | b.held is None",
        statements="b.cur[INT % 3] = NUM | b.cur, b.prev = b.prev, b.cur | b.now, b.old = b.old, b.now | b.d['p'] = NUM; b.d = dict(b.d, p=NUM) | b.cur[0] = NUM; b.cur = [NUM, 2.0, 3.0] "
        "| b.cur[0] = NUM; b.cur, b.prev = b.prev, b.cur | keep = b.cur; b.cur = list(b.cur); keep[0] = NUM | b.cur[:2] = [NUM, NUM] | b.d, b.e = b.e, b.d | b.d[INT] = NUM | b.old = b.now; b.now = ARR | b.prev = b.cur | b.cur = b.cur[::-1] "
        "| b.o.r = NUM; b.o = Box(r=NUM) | b.d['q'] = NUM; b.d = {'p': NUM} | b.d.pop('q', None); b.e = b.d | b.held = b.o; b.o = Box(r=NUM) | b.held = b.cur; b.cur = [NUM] * 3 | was = b.cur | wasd = b.d | b.cur, was = was, b.cur "
        "| b.d.update(q=NUM); b.d = {**b.d} | b.cur += [NUM]; b.cur = b.cur[-3:] | del b.d['p']; b.d['p'] = NUM | b.d = {'p': NUM}; wasd['p'] = NUM | b.cur.append(NUM); b.cur = b.cur[1:] | b.e[INT] = b.cur; b.cur = [NUM, NUM, NUM] | b.cur.sort() | b.prev[:] = b.cur | b.o, b.held = Box(r=NUM), b.o",
        changes="b.cur = [1.0, 2.0, 3.0] | b.prev = b.cur | b.d = {'p': 0.5} | b.e = b.d | b.o = Box(r=2.0) | was = b.prev | b.e.clear()",
    ),
    "keys": kind(
        "st, seen, ct, dd, od = {}, {1}, Counter(), defaultdict(list), OrderedDict()\nhold = Box(by={}, seen=set(), last=frozenset())",
        "st seen ct dd od hold", "st seen", nums="st.get(INT, 0.5) | ct[INT] | len(dd[INT]) | hold.by.get(INT, 1.0) | sum(st) | max(seen) * 0.1 | len(seen)", ints="len(st) | len(seen) | ct[INT] | min(seen) | sum(hold.seen) % 5 | next(iter(st), 1)",
        tests="INT in st | INT in seen | INT in hold.seen | {INT} <= seen | INT in ct | (INT, 1) in hold.by | INT in hold.last",
        statements="st[INT] = st.get(INT, 0) + 1 | st[INT] = NUM | seen |= {INT} | seen.add(INT) | seen.update([INT, INT]) | ct[INT] += 1 | ct.update([INT, INT]) | dd[INT].append(NUM) | dd[INT].append(INT) | od[INT] = ARR | od[INT] = NUM; od.move_to_end(INT) "
        "| st = {INT: INT} | st = {**st, INT: NUM} | st.setdefault(INT, []) | st.pop(INT, None) | hold.seen = {INT} | hold.seen |= {INT, INT} | hold.by[INT, k] = NUM | hold.by[(INT, 1)] = INT | hold.by[INT] = hold.by.get(INT, 0.0) + NUM | hold.last = frozenset([INT, n]) | hold.last |= {INT} "
        "| seen.discard(INT) | seen = seen.union({INT}) | hold.by.update({INT: NUM}) | st[str(INT)] = NUM | st.update(dict.fromkeys([INT, INT], 0)) | st.update(zip([INT], [NUM])) | hold.by = {v: v + 1 for v in (INT, INT)} | seen ^= {INT} | seen -= {INT} | seen = {INT, *seen} | hold.seen.update(range(INT)) | st[INT, INT] = INT | st[True] = INT | st[float(INT)] = INT | st |= {INT: 1} | st[INT] = st[INT] + 1 | st[-INT] = n",
        changes="st.clear() | seen.add(7) | hold.seen = set() | hold.by = {} | ct.clear() | st[2] = 9 | seen = {0}",
    ),
    "texts": kind(
        "lines, say = [], Box(last='', by={}, n=0)\ndef note(v, form='{:.2f}'): lines.append(form.format(v))",
        "lines say note", "", nums="len(lines) * 0.1 | len(say.last) | say.by.get(f'{INT}', 0.5)", ints="len(lines) | len(say.last) | say.n", tests="say.last == '' | f'{INT}' in say.by | say.last == f'{INT}'",
        statements="lines.append(f'{INT}') | lines.append(f'{NUM:.3f}') | lines.append('%d' % INT) | lines.append(str(INT)) | say.last = f'{INT} {NUM:.2f}' | say.by[f'{INT}'] = NUM | say.by['a%d' % INT] = INT | say.last = repr(INT) | say.last += str(INT) "
        "| note(NUM) | note(INT, '{}') | say.last = '-'.join(str(v) for v in (INT, INT)) | say.last = 'x' * INT | lines.append(f'{INT:03d}') | lines.append(f'{INT!r}') | say.n += 1; lines.append(f'{say.n}') | lines.append('{} {:.1f}'.format(INT, NUM)) | say.last = format(INT, 'b') | say.last = bin(INT) | say.last = chr(97 + INT) "
        "| setattr(say, f'v{INT}', NUM) | setattr(say, 'w%d' % (INT), INT) | lines.append('%s %.2f' % (INT, NUM)) | say.last = 'abcdefgh'[INT % 8] | say.last = 'abcdefgh'[:INT] | say.by[INT] = f'{len(lines)}' | lines.append(('a', INT)) | say.by.setdefault(str(INT), []).append(INT) | lines.append(str(NUM > 1)) | say.last = str([INT, k]) | say.last = str((INT,)) | say.last = f'{[INT]}' | say.last = str(INT).zfill(3)",
        changes="lines.clear() | say.last = '' | say.by = {} | say.n = 0",
    ),
    "makers": kind(
        "mk = Box(fn=None, part=None, rng=range(2), sl=slice(2), gens=[], total=0.5)\ndef plus(a, b=0.5, *, c=1.0): return a + b * c\ndef made(v):\n    def inner(w=1.0): return v + w\n    return inner\nkept = []",
        "mk plus made kept", "", nums="mk.fn(NUM) if mk.fn else 0.5 | mk.part() if mk.part else 1.0 | sum(mk.rng) | sum([1.0, 2.0, 3.0][mk.sl]) | plus(NUM) | kept[-1]() if kept else 0.5",
        ints="len(mk.rng) | mk.sl.stop | len(kept) | mk.fn.__defaults__[0] if mk.fn and mk.fn.__defaults__ else 1", tests="mk.fn is None | mk.part is None | INT in mk.rng | kept",
        statements="mk.rng = range(INT) | mk.rng = range(1, INT + 2) | mk.sl = slice(INT) | mk.sl = slice(0, INT, 1) | mk.fn = lambda v, w=INT: v + w | mk.fn = lambda v, w=NUM: v * 0.5 + w | mk.part = partial(plus, NUM) | mk.part = partial(plus, INT, b=NUM) | mk.part = partial(plus, 1.0, b=INT) | kept.append(made(NUM)) | kept.append(made(INT)) | plus.__defaults__ = (NUM,) | plus.__defaults__ = (INT,) | plus.__kwdefaults__ = {'c': NUM} | plus.__kwdefaults__['c'] = INT "
        "| plus.calls = INT | plus.last = NUM | mk.fn = made(NUM) | mk.fn = partial(made(INT)) | def local(v=INT): return v * 0.5\\nmk.fn = local | def local(v, *, w=INT): return v + w\\nmk.fn = local | kept.append(lambda: n) | kept.append(lambda: NUM) | mk.fn = lambda v: v + NUM | kept.append(lambda v=INT: v + NUM) | kept.append(lambda: s) | kept.append(partial(plus, INT)) | def closed(w=0.0):\\n    return n + w\\nmk.fn = closed | del kept[:-1] | mk.part = partial(mk.part, c=NUM) if mk.part else None | mk.part.keywords['b'] = NUM | mk.rng = mk.rng[1:] | class Local:\\n    rate = INT\\n    def __init__(self): self.v = NUM\\nmk.last = Local() | mk.last = types.SimpleNamespace(n=INT, v=NUM) | mk.fn = operator.itemgetter(INT % 2) and made(INT) | mk.total = NUM; kept.append(lambda: mk.total)",
        changes="mk.fn = None | mk.part = None | mk.rng = range(3) | kept.clear() | plus.__defaults__ = (0.5,) | plus.__kwdefaults__ = {'c': 2.0} | mk.sl = slice(1)",
    ),
    "nan": kind(
        "nan = float('nan')\nnl, nd, nh = [nan], {nan: 1.0}, Box(v=nan, w=float('nan'), l=[nan, 1.0])\nnt = (nan, 2.0)",
        "nan nl nd nh nt", "nan nl nt", nums="1.0 if nan in nl else 2.0 | nl.count(nan) * 0.5 | nd.get(nan, 0.5) | 1.0 if nh.v in nh.l else 3.0 | 1.0 if nl == nh.l[:1] else 2.0 | 2.0 if (nan,) == nt[:1] else 1.0", ints="nl.count(nan) | len(nl) | nl.index(nan) if nan in nl else 2",
        tests="nan in nl | nh.v in nl | nan in nd | nh.v is nan | nl == [nan] | nh.w != nh.w | nt[0] is nan | math.isnan(nh.v)",
        statements="nl.append(nh.v) | nh.v = float('nan') | nh.v = nan | nh.w = nh.v | nl = [nan] | nl.append(nan) | nl.append(NUM) | nd[nan] = NUM | nh.l[0] = nh.w | nt = (nh.v, NUM) | nh.v = math.nan | if nan in nl: nl.remove(nan) | nh.v = nh.v + 1 | nh.v = float('inf') - float('inf')",
        changes="nan = float('nan') | nl = [nan] | nh.v = nan | nh.v = float('nan') | nl[:] = [nan] | nd = {nan: 2.0} | nl.clear() | nl.append(float('nan')) | nt = (nan, 1.0)",
    ),
    "deques": kind(
        "q, q2 = deque([1.5], 3), deque()\nring = Box(q=deque([0.5, 1.0], 2), at=0, l=[0.0] * 3)",
        "q q2 ring", "q q2", nums="sum(q) | q[-1] if q else 0.5 | ring.q[0] | sum(ring.l) | ring.l[ring.at] | len(q2)", ints="len(q) | len(q2) | ring.at | q.maxlen", tests="q | len(q) == q.maxlen | q2 | INT in q2",
        statements="q.append(NUM) | q.appendleft(INT) | q2.append(ARR) | q2.append(INT) | ring.q.append(NUM) | q.rotate() | ring.q.rotate(INT) | ring.l[ring.at] = NUM; ring.at = (ring.at + 1) % 3 | q = deque([NUM], 3) | if q2: q2.popleft() | q, q2 = deque(q2, 3), q | ring.q[0] = NUM | q2.extend([NUM, INT]) | q.extendleft([NUM]) | ring.q = deque(list(ring.q)[::-1], 2) | ring.at = INT % 3 | q2.clear() | ring.l = ring.l[1:] + [NUM] | q2.append((INT, NUM)) | while len(q2) > 2: q2.pop() | ring.l[INT % 3] += NUM",
        changes="q.clear() | q.append(2.0) | q2.clear() | ring.at = 0 | ring.q = deque([1.0, 2.0], 2) | ring.l = [1.0, 2.0, 3.0]",
    ),
    "nested": kind(
        "tree = {'a': {'b': [], 'n': 0.5}, 'c': {}, 'l': [[1.0], [2.0]]}\nbranch = tree['a']\nrows = [[0.5, 1.0], [1.5, 2.0]]",
        "tree branch rows", "branch rows", nums="tree['a']['n'] | branch['n'] | rows[INT % 2][0] | tree['l'][0][0] | sum(rows[0]) | len(tree['a']['b'])", ints="len(tree['a']['b']) | len(tree['c']) | len(tree['l'])", tests="branch is tree['a'] | 'n' in tree['c'] | tree['a']['b'] | rows[0] is rows[1]",
        statements="tree['a']['b'].append(NUM) | tree['a']['n'] = NUM | tree['c'] = tree['a'] | tree['a'] = {'b': [], 'n': NUM} | branch['n'] = NUM; tree['a'] = dict(branch) | rows[INT % 2][1] = NUM | rows[0], rows[1] = rows[1], rows[0] | rows = [list(r) for r in rows] | rows[0] = rows[1] | tree['l'][INT % 2] = [NUM] | tree['l'].append([INT]) | branch['b'].append(INT) "
        "| tree['c'][INT] = {INT: NUM} | tree['l'][0][0] = NUM; tree['l'] = [[NUM], [1.0]] | branch = tree['c'] | del tree['l'][1:]; tree['l'].append([NUM]) | tree['a']['b'] += [ARR] | tree['c'] = {'n': INT, 'b': [NUM]} | tree['c'].setdefault('q', []).append(NUM) | rows[0].append(NUM); rows[0] = rows[0][-2:] | tree['a']['self'] = branch | tree = tree | branch['b'] = branch['b'][-2:] | tree['l'] = tree['l'][::-1] | rows[:] = [[NUM, NUM], rows[0]] | tree['c'] = copy.copy(tree['a']) | (tree['a'])['b'].insert(0, NUM) | rows = rows[1:] + [[NUM, INT]]",
        changes="tree['a'] = branch | tree['c'] = {} | branch = tree['a'] | rows[0] = rows[1] | rows = [[0.5, 1.0], [1.5, 2.0]] | tree['a']['b'] = tree['l'] | branch['n'] = 1.5 | tree['l'] = [[1.0], [2.0]]",
    ),
    "closures": kind(
        "def machine():\n    total, count, past = 0.5, 0, []\n    def add(v):\n        nonlocal total, count\n        total = total * 0.5 + v\n        count += 1\n        return total\n    def read(): return total\n    def counted(): return count\n    def keep(v):\n        past.append(v)\n        return len(past)\n    def reset():\n        nonlocal past, total\n        past, total = [], 0.5\n    return add, read, counted, keep, reset\nadd, read, counted, keep, reset = machine()\ndef default(v, into=[], *, named={'n': 0}):\n    into.append(v)\n    named['n'] += 1\n    return len(into)",
        "add read counted keep reset default", "", nums="add(NUM) | read() | counted() * 0.5 | add(read())", ints="counted() | keep(NUM) | keep(INT) | default(NUM)", tests="counted() > 2 | read() > 1",
        statements="add(NUM) | keep(ARR) | keep(INT) | reset() | default(NUM) | default((INT, NUM)) | add(NUM); reset() | s = s + 0.1 * add(t) | keep(add(NUM)) | keep((counted(), NUM))",
        changes="reset() | add(1.5) | default(0.5) | add(np.float64(0.5))",
    ),
    "classes": kind(
        "class Model:\n    total, count, hist, best = 0.5, 0, [], None\n    def __init__(self): self.w, self._r = 1.0, 0.5\n    def step(self, v):\n        Model.count += 1\n        type(self).total = self.total * 0.5 + v\n        return self.total\n    @classmethod\n    def note(cls, v):\n        cls.best = v\n        cls.hist.append(v)\n    @property\n    def rate(self): return self._r\n    @rate.setter\n    def rate(self, v): self._r = v\n    @functools.cached_property\n    def slow(self): return self.w * 2\n    def __len__(self): return self.count\n    def __getitem__(self, i): return self.hist[i]\nclass Child(Model):\n    def step(self, v): return super().step(v * 0.5)\nmo, ch = Model(), Child()",
        "mo ch Model Child", "", nums="mo.total | ch.total | Model.total | mo.step(NUM) | ch.step(NUM) | mo.rate | mo.slow | mo.w | ch.w | mo[-1] if mo.hist else 0.5", ints="mo.count | len(mo) | Model.count | len(Model.hist) | Child.count", tests="Model.best is None | mo.hist is ch.hist | 'total' in vars(ch) | mo.count > 2",
        statements="mo.total = NUM | Model.total = NUM | Model.total += NUM | mo.count += 1 | Model.count += 1 | ch.count = INT | Child.total = NUM | mo.step(NUM) | ch.step(NUM) | Model.note(NUM) | Child.note(INT) | Model.best = ARR | mo.rate = NUM | ch.rate += NUM | mo.w = NUM; del mo.w; mo.w = NUM | Model.hist = [NUM] | mo.hist = Model.hist | Model.hist.append(NUM); Model.hist = [] | type(mo).extra = INT | setattr(Model, 'best', NUM) | mo.__dict__.pop('slow', None) | mo.__class__.total = NUM | ch.w, mo.w = mo.w, NUM | mo = mo | Model.count = INT | mo.__dict__.pop('total', None) | Model.hist += [INT] | ch.__dict__['total'] = NUM | Child.hist = Child.hist + [NUM]",
        changes="Model.total = 1.0 | Model.count = 0 | Model.best = None | Model.hist = [] | mo.__dict__.pop('total', None) | Child.total = 2.0 | mo.rate = 1.5 | mo.w = 3.0 | ch.hist = Model.hist",
    ),
    "arrays": kind(
        "A, I, F, M, C = np.zeros(3), np.zeros(3, int), np.zeros(3, bool), np.ones((2, 3)), np.ones(3)\nV = M[1]\nar = Box(a=A, v=V, own=np.ones(3), l=[np.ones(3)], c=C)",
        "A I F M V C ar", "C", only="arrays", nums="np.sum(C) | np.sum(ar.own) | ar.own[0] | np.sum(ar.l[-1]) | C[INT % 3] | ar.c[1]", ints="len(ar.l) | len(C) | C.ndim", arrs="C | ar.own | ar.l[-1] | C + ARR | ar.c", tests="ar.c is C | ar.own is C | ar.a is A | C[0] > 0.5",
        statements="A[INT % 3] = NUM | A[INT % 3] = 0.5 | I[INT % 3] = INT | F[INT % 3] = TEST | M[INT % 2, 1] = NUM | V[0] = NUM | V[INT % 3] = INT | ar.own = ARR | ar.own = ar.own * 0.5 + ARR | ar.l.append(ARR) | C = C + ARR | C = ARR | ar.a[1] = NUM | ar.v[INT % 3] = NUM | ar.own, ar.c = ar.c, ar.own | ar.c = C | C = ar.own | ar.l[0] = ARR | ar.c = C.copy() | ar.c = ar.own; ar.own = ARR | ar.l = ar.l[-2:] | A[0] = INT | M[0, INT % 3] = NUM "
        "| C += ARR | M[0] = ARR | A[:] = ARR | ar.own[0] = NUM | A[0], A[1] = NUM, A[0] | I[INT % 3] += 1",  # the last ones may be refused
        changes="A[:] = 0 | I[:] = 0 | A[1] = 2.0 | M[:] = 1 | ar.own = C | ar.own = np.ones(3) | F[:] = True | ar.l[:] = [np.ones(3)] | V[0] = 1.5 | C = np.ones(3) * 2 | C[0] = 3.0 | ar.c = A",
    ),
    "tensors": kind(
        "A, M, C = np.zeros(3), np.ones(2, 3), np.ones(3)\nV = M[1]\nte = Box(a=A, v=V, own=np.ones(3), w=None, l=[np.ones(3)], c=C)",
        "A M V C te", "A C", only="tensors", nums="np.sum(C) | np.sum(te.own) | te.own[0] | te.l[-1][INT % 2] | A[INT % 3] | np.sum(M) | V[1] | 0.5 if te.w is None else te.w[0]", ints="len(te.l) | len(C) | C.ndim", arrs="C | A | V | M[0] | te.own | te.c | te.a * 0.5", tests="te.c is C | te.own is C | te.a is A | C[0] > 0.5 | te.w is None",
        statements="A[INT % 3] = NUM | A.add_(ARR) | A.mul_(0.5) | V.copy_(ARR) | V[INT % 3] = NUM | M[0] = ARR | M[INT % 2, 1] = NUM | M.mul_(0.5) | te.own = ARR | te.own = (ARR).clone() | te.w = te.own[1:] | te.w = te.own[:2] | te.w = te.own | te.own.add_(0.1) | te.own[0] = NUM | te.l.append(te.own[:2]) | te.l = te.l[-2:] | te.l.append((ARR)[1:]) | te.l = list(ARR) and [ARR[:2], ARR[1:]] | te.w = M.t()[0] | te.w = te.own.view(3, 1)[1] | te.own, te.c = te.c, te.own | C = te.own | C = C + ARR "
        "| C = ARR | te.c = C | te.v = M[INT % 2] | te.v.add_(ARR) | te.a = A[:2] | te.a.fill_(0.5) | q = ARR * 1.5; te.w = q[1:]; te.own = q | q = ARR * 1.5; te.w = te.own = q[:] | if te.w is not None: te.w.mul_(0.5) | A = te.own | A, C = C, A | A = A * 0.5 | te.l[0] = te.own[1:] | te.l[-1].mul_(2.0) | te.w = te.own[1] | te.own = te.own.detach()",
        changes="A.fill_(0.5) | M.mul_(0.5) | te.own[0] = 2.0 | te.own = C | V[0] = 1.5 | C = np.ones(3) * 2 | te.w = None | te.l[-1][0] = 0.5 | A = np.zeros(3) | te.c = A[:] | te.a = A",
    ),
    "lists": kind(
        "h, h2, box = [], [0.5], Box(h=[], n=0, best=float('inf'), best_x=None, first=None)\nbox.also = box.h\nput = h.append",
        "h h2 box put", "h h2", nums="h[-1] if h else 0.5 | len(h) | sum(h2) | box.best if box.best < 9 else 1.0 | h2[0] | sum([1.0 for v in h])", ints="len(h) | len(box.h) | box.n", tests="h | len(h) > 3 | box.first is None | h2 is h | box.h is box.also | NUM < box.best",
        statements="h.append(NUM) | h.append(INT) | h2.append(NUM) | h2[0] = NUM | put(NUM) | put((INT, NUM)) | box.h.append(ARR) | box.n += 1 | box.n = INT | if NUM < box.best: box.best = s; box.best_x = ARR | if box.first is None: box.first = ARR | h = h[-3:] | h2 = h2 + [NUM] | del h[:1] | h.clear() | h.insert(0, NUM) | h2[:] = [NUM, 1.5] | h[-1:] = [NUM] | h.extend([NUM, INT]) | h2.reverse() | box.h = h | h = box.h | box.also = h2 | h += [NUM] | h2 *= 1 | box.h.append(NUM); box.h = [] | h2.pop(); h2.append(NUM) | h2 = [v * 0.5 for v in h2] | box.h.append(box.n) | box.h.append([INT, NUM]) | h.append(h2) | box.h.append(lambda: s) | if len(h) > 4: h.pop(0) | box.last = list(h) | h2[-1] += NUM | box.h.append(Box(loss=NUM, n=INT)) | box.h.append(Pair(NUM, ARR)) | box.best = min(box.best, NUM) | h2[0], h2[-1] = NUM, h2[0] | box.h.append({'n': INT, 'v': NUM}) | h2.sort() | h2.append(h2[0] + NUM); del h2[0]",
        changes="h.clear() | h = [] | h2 = [1.5] | h = h2 = [2.0] | box.best = float('inf') | box.h = [] | h.append(7) | box.n = 0 | box.also = box.h | put = h.append",
    ),
    "records": kind(
        "@dataclasses.dataclass\nclass Record:\n    loss: object\n    count: int = 0\nrec, pair, log_of = Record(0.5), Pair(0.5, None), Box(r=Record(1.0), all=[], by={})\n@dataclasses.dataclass(frozen=True)\nclass Fixed:\n    a: object = 0.5\n    n: int = 0\nclass Slots:\n    __slots__ = ('a', 'b')\n    def __init__(self, a): self.a = a\nfixed, sl = Fixed(), Slots(0.5)",
        "rec pair log_of Record Fixed Slots fixed sl", "rec pair fixed", nums="rec.loss | pair.loss | log_of.r.loss | fixed.a | sl.a", ints="rec.count | log_of.r.count | fixed.n | len(log_of.all)", tests="rec is log_of.r | pair.x is None | hasattr(sl, 'b') | rec == log_of.r",
        statements="rec.loss = NUM | rec.count += 1 | rec = Record(NUM, INT) | pair = Pair(NUM, ARR) | pair = pair._replace(loss=NUM) | log_of.r = rec | log_of.r.loss = NUM; log_of.r = Record(NUM) | fixed = dataclasses.replace(fixed, a=NUM) | fixed = Fixed(NUM, INT) | sl.a = NUM | sl.b = INT | log_of.all.append(rec); rec = Record(NUM) | log_of.all.append(Slots(NUM)) | log_of.by[INT] = Record(NUM, INT) | rec.count = INT | del sl.b | rec.extra = ARR | log_of.all.append(copy.copy(rec)) | r2 = rec; r2.loss = NUM; log_of.all = [r2] | log_of.by[INT] = rec | log_of.last = dataclasses.asdict(rec)['count'] | log_of.pairs = [Pair(INT, n)] | log_of.all.append(dataclasses.replace(rec, count=INT))",
        changes="rec = Record(0.5) | rec = log_of.r | log_of.r = Record(1.0) | pair = Pair(0.5, None) | log_of.all.clear() | sl.a = 1.5 | fixed = Fixed() | rec.count = 0",
    ),
    "iterators": kind(
        "it = Box(seq=itertools.cycle([0.5, 1.0, 1.5]), gen=(v * 0.5 for v in range(200)), count=itertools.count(), last=None, l=[1.0, 2.0, 3.0])",
        "it", "", nums="next(it.seq) | next(it.gen) | next(it.last, 0.5) if it.last else 1.0", ints="next(it.count) % 4", tests="it.last is None | next(it.count) % 2",
        statements="it.last = iter([NUM, NUM]) | it.last = (v * 0.5 for v in [NUM, NUM]) | it.last = map(np.tanh, [NUM, NUM]) | it.last = iter(it.l) | next(it.count) | it.last = itertools.chain([NUM], it.l) | it.l.append(NUM); del it.l[0] | it.last = reversed([NUM, NUM]) | it.seq = itertools.cycle([NUM]) | it.last = zip([NUM]) and iter([NUM]) | it.last = filter(None, [INT + 1, NUM]) | it.count = itertools.count(INT)",
        changes="it.last = None | it.count = itertools.count() | it.l[0] = 0.5 | next(it.count)",
    ),
    "ways": kind(
        """
class Meta(type):
    def __call__(cls, *a):
        one = super().__call__(*a)
        cls.last = one
        return one
class Thing(metaclass=Meta):
    last, total = None, 0.5
    def __init__(self, v): self.v = v
class Own:
    def __get__(self, o, t=None): return self if o is None else o.__dict__.get("_own", 0.5)
    def __set__(self, o, v): o.__dict__["_own"] = v
class Odd:
    own = Own()
    def move(self, n, v): setattr(self, n, v); return v
    left, right = functools.partialmethod(move, "l"), functools.partialmethod(move, "r")
    def __init__(self): self.l, self.r = 0.5, 1.0
odd = Odd()
class Borg:
    common = {"v": 0.5}
    def __init__(self): self.__dict__ = self.common
one, two = Borg(), Borg()
space = {}
exec("rate = 0.5\\ndef scaled(v): return v * rate\\ndef faster():\\n    global rate\\n    rate = rate * 0.5 + 1\\n    return rate", space)
""",
        "odd Odd Own Thing Meta one two Borg space", nums="odd.own | odd.left(NUM) | odd.r | Thing.total | Thing(NUM).v | one.v | two.v | Borg.common['v'] | space['scaled'](NUM) | space['rate'] | space['faster']()",
        ints="len(space) % 3 | len(vars(two)) % 3", tests="Thing.last is None | one.v > 1 | hasattr(two, 'w')",
        statements="odd.own = NUM | odd.right(NUM) | Thing.total = NUM | Thing.last = Thing(NUM) | one.v = NUM | Borg.common['v'] = NUM | two.w = NUM | space['rate'] = NUM | space['faster']() | one.v += NUM | space['n'] = INT | Thing.list = [Thing(NUM)]",
        changes="odd.own = 1.5 | Thing.total = 1.0 | one.v = 2.0 | space['rate'] = 1.5 | Thing.last = None",
    ),
    "identity": kind(
        """
MISSING, NIL = object(), dataclasses.MISSING
class Gap:
    none = MISSING
    def __init__(self): self.gap, self.n, self.l = MISSING, 0, [MISSING, 0.5]
    @functools.lru_cache(None)
    def kept(self, n):
        self.n += 1
        return n * 2
    @functools.lru_cache(None)
    def pure(self, n): return n + 0.5
gap, base, dd = Gap(), partial(max, 0.25), defaultdict(int)
""",
        "gap Gap base dd MISSING NIL", "base", nums="gap.kept(INT) | gap.pure(INT) | base(NUM) | partial(base, NUM)(0.5) | dd[INT] | 0.5 if gap.gap in (MISSING, NIL) else gap.gap | gap.l[1]",
        ints="gap.n | len(partial(base, 1).args) | dd['n'] % 3 | gap.l.count(MISSING)", tests="gap.gap is MISSING | gap.gap is NIL | dd.default_factory is int | gap.l[0] is gap.none",
        statements="gap.gap = MISSING | gap.gap = NIL | gap.gap = NUM if gap.gap is MISSING else MISSING | base = partial(base, NUM) if INT == 2 else partial(max, 0.5) | dd.default_factory = None if TEST else int | dd[INT] += 1 | dd['n'] = INT | gap.n += 1 | Gap.kept.cache_clear() | gap.l = [MISSING, NUM] | gap.l[0] = gap.gap | dd[MISSING] = INT | gap.kept(INT) | gap.l.append(Gap.none); gap.l = gap.l[-2:] + [NUM]",
        changes="gap.gap = MISSING | gap.n = 0 | Gap.kept.cache_clear() | dd.clear() | dd.default_factory = int | gap.l = [NIL, 1.5] | base = partial(max, 1.0)",
    ),
    "tools": kind(
        """
heap, ranks, chain = [2.5, 3.0], [0.5, 1.5], collections.ChainMap({'a': 0.5}, {'b': 1.0, 'a': 2.0})
nest = Box(l=[[0.5], {'v': 1.0}], d={'w': [1.0]}, o=Box(r=0.5), saved=None)
class Mode(enum.Enum):
    SLOW, FAST = 1, 2
mode = Box(now=Mode.SLOW, by={Mode.SLOW: 0.5, Mode.FAST: 1.0})
""",
        "heap ranks chain nest Mode mode", "ranks", nums="heap[0] | ranks[-1] | chain['a'] | chain.get('c', 0.5) | nest.l[0][-1] | nest.l[1]['v'] | nest.o.r | mode.by[mode.now] | functools.reduce(operator.add, ranks) | max(heap) | sum(heapq.nsmallest(2, heap)) | sorted(ranks, key=lambda v: -v)[0] | operator.itemgetter(0)(heap) | nest.saved.o.r if nest.saved else 0.5",
        ints="len(heap) | len(chain) | len(chain.maps) | len(nest.l) | mode.now.value | bisect.bisect(ranks, 1.0)", tests="mode.now is Mode.FAST | nest.saved is None | 'c' in chain | nest.saved and nest.saved.l is nest.l | heap[0] < 1.0",
        statements="heapq.heappush(heap, NUM) | heapq.heappop(heap); heapq.heappush(heap, NUM) | heapq.heapreplace(heap, NUM) | bisect.insort(ranks, NUM); ranks = ranks[-4:] | chain['c'] = NUM | chain['a'] = NUM | chain.pop('c', None) | chain.maps[1]['b'] = NUM | chain.maps[0] = {'a': NUM} | nest.saved = copy.deepcopy(nest.o) and Box(o=copy.deepcopy(nest.o), l=nest.l) | nest.l = copy.deepcopy(nest.l) | nest.l[0].append(NUM); nest.l[0] = nest.l[0][-3:] | nest.o = copy.copy(nest.o); nest.o.r = NUM | operator.setitem(nest.d, 'w', [NUM]) | operator.iadd(nest.d['w'], [NUM]); nest.d['w'] = nest.d['w'][-2:] | mode.now = Mode.FAST if TEST else Mode.SLOW | mode.by[Mode.FAST] = NUM | mode.by = dict(mode.by) | ranks.sort(key=lambda v: -v) | heap.sort(); heapq.heapify(heap) | heap[:] = heapq.nlargest(2, heap) | for name in ('r', 'q'): setattr(nest.o, name, NUM) | [setattr(nest.o, n2, v2) for n2, v2 in zip(('r', 'z'), (NUM, INT))] | nest.l[1].update(v=NUM) | nest.l.append({'v': NUM}); del nest.l[2:] | ranks = list(map(lambda v: v * 0.5, ranks)) | ranks[:] = [min(v, NUM) for v in ranks] | mode.last = (mode.now, INT)",
        changes="heap[:] = [1.0, 2.0] | ranks = [0.5] | chain.maps[0].clear(); chain['a'] = 1.5 | nest.o = Box(r=2.0) | mode.now = Mode.FAST | nest.saved = None | nest.l = [[1.0], {'v': 2.0}] | mode.by[Mode.SLOW] = 2.0",
    ),
    "contexts": kind(
        """
class Scope:
    depth, ends = 0, []
    def __init__(self, v, hides=False): self.v, self.hides = v, hides
    def __enter__(self):
        Scope.depth += 1
        return self
    def __exit__(self, kind, error, trace):
        Scope.depth -= 1
        Scope.ends.append((kind is None, self.v))
        del Scope.ends[:-3]
        return self.hides
past = Box(all=[], level=0.5, n=0)
@contextlib.contextmanager
def level(v):
    before, past.level = past.level, v
    try:
        yield before
    finally:
        past.level = before
        past.n += 1
""",
        "Scope past level", nums="past.level | Scope.ends[-1][1] if Scope.ends else 0.5 | len(past.all) * 0.5", ints="past.n | Scope.depth | len(Scope.ends)", tests="Scope.ends | past.n > 2 | past.level > 1.0 | Scope.depth",
        statements="with Scope(NUM): s = s + 0.1 * NUM | with Scope(NUM) as sc: sc.v = NUM | with level(NUM): s = s + 0.1 * past.level | with level(NUM) as was: past.all = [was, past.level] | with contextlib.suppress(KeyError): past.all = [NUM, {}[INT]] | with Scope(NUM, True): raise Bad(INT) | with level(NUM), Scope(INT): past.last = NUM | with contextlib.ExitStack() as stack:\\n    stack.enter_context(level(NUM))\\n    stack.callback(past.all.append, INT)\\n    t = past.level | with Scope(NUM, TEST):\\n    if TEST:\\n        raise Bad(NUM)\\n    past.level = NUM | past.all = past.all[-2:] | past.level = NUM | with level(NUM):\\n    with level(past.level * 0.5): past.deep = past.level | try:\\n    with Scope(NUM): raise KeyError(k)\\nexcept KeyError as caught: past.key = caught.args[0]\\nfinally: past.n += 1",
        changes="past.level = 1.5 | past.n = 0 | Scope.ends.clear() | past.all = []",
    ),
    "arguments": kind(
        "log, cache = [], {}", "log cache", "log cache", nums="log[-1] if log else 0.5 | cache.get('a', 0.5) | cache.get(INT, 1.0) | len(cache)", ints="len(log) | len(cache)", tests="log | 'a' in cache | INT in cache",
        statements="log.append(NUM) | log.append(INT) | cache['a'] = NUM | cache[INT] = INT | cache['n'] = cache.get('n', 0) + 1 | log[-1:] = [NUM] | log.clear() | cache.pop('a', None) | log.insert(0, NUM) | log.extend([NUM, INT]) | cache.update(a=NUM) | if len(log) > 3: del log[0] | cache[INT] = NUM | if log: log[0] = NUM | cache.clear(); cache['a'] = NUM | log.append([NUM]) | log += [NUM] | cache.setdefault('l', []).append(1.5)",
        changes="log.clear() | log.append(1.5) | cache.clear() | cache['a'] = 2.0 | cache = {} | log = []",
    ),
}  # fmt: skip

RESULTS = entries("""
[s, y] | {'a': s, 'n': n} | (s, y, k) | iter([s, y]) | map(lambda v: v * 2, [s, y]) | zip([s, t], [y, y]) | enumerate([s, y]) | {'a': s, 'b': y}.values() | {'a': s, 1: y}.items() | {n: s}.keys()
(v * 2 for v in [s, y]) | reversed([s, y]) | itertools.chain([s], [y]) | filter(None, [n, s]) | partial(np.sum, y) | slice(n) | range(n) | lambda: s | f'{n}' | f'{s:.3f}' | deque([s, n]) | Counter({n: 2})
Pair(s, y) | None | n | {n} | {k: n, 'l': [y, y]} | [y[1:], y, y[:2]] | itertools.islice([s, y, t], 2) | itertools.accumulate([t, t]) | [[s], (y, n)] | y | Box(s=s, n=n) | frozenset([n]) | x | (x, [x]) | n > 1 | str(n)
zip(itertools.count(n), [s]) | itertools.product([s], [n, k]) | itertools.repeat(s, 2) | sorted([s, t]) | OrderedDict(a=s) | defaultdict(list, {n: [s]}) | types.SimpleNamespace(s=s, n=n) | [v for v in (s, t)] | iter((n, k)) | iter({n: s}.items()) | types.MappingProxyType({'a': s}) | memoryview(b'ab') and s
""")  # fmt: skip
STATE_RESULTS = entries("""
h | b.cur | te.own | (te.w, C) | A | (h, h2) | st | seen | mk.fn | mk.rng | box | tree | branch | q | rec | pair | mo | C | [C, ar.c] | ar.own | iter(h) | st.items() | st.keys() | b.d.values() | reversed(h2) | p | p.w | log | cache | [log, h] | m.W | LAST | lines | say.last | list(st)
read | net.cells | {'h': h, 's': s} | (v for v in list(h2)) | map(float, list(h2)) | zip(h2, h2) | nl | nh.v | kept | it.last | Model.hist | ring.q | rows[0] | enumerate(b.cur) | itertools.chain(h2, [s])
""")  # fmt: skip
