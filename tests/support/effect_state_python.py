# ruff: noqa: E501  (a row of a table is a line)
"""More of the grammar in ``effect_state_grammar.py``: what Python's own constructs do to state, and loops that are long
enough to become loop nodes.

``FAMILIES`` has the kinds and blocks that ``effect_state_drawn.drawn`` chooses from, by name.
"""

from __future__ import annotations

from effect_state_grammar import BLOCKS, KINDS, Kind, entries, kind

LONG = entries(r"""
for j in range(17):\n{0} | for j in range(16 + INT):\n{0} | for j, t in enumerate([0.5, 0.25, 1.0, 0.75] * 5):\n{0} | for j in range(18):\n    if j % 3 == 1:\n        continue\n{0} | for j in range(20, 0, -1):\n{0}
for LOOP in np.linspace(0.1, 1.0, 18):\n{0}\n    t = LOOP | for j in range(24):\n    if TEST:\n        break\n{0}\nelse:\n    n += 1 | LOOP = 0\nwhile LOOP < 17:\n    LOOP += 1\n{0}\nn = LOOP | for j in range(17):\n    for i in range(INT % 3):\n        n += 1\n{0}
for j in range(17):\n    if TEST:\n    {0}\n    else:\n    {1} | LOOP = x[0] + 9.0\nwhile LOOP > 0.3:\n    LOOP = LOOP * 0.8\n{0}\nt = LOOP | for j in range(19):\n    try:\n    {0}\n    except (KeyError, IndexError):\n    {1}
for j in range(17):\n    if j == INT:\n    {0} | for j, LOOP in zip(range(18), [x[0], t] * 9):\n    s = s + 0.01 * LOOP\n{0} | s = s + 0.01 * sum([NUM for j in range(17)]) | for j in range(20):\n{0}\n    if j > 10 + k:\n        return s | for j in range(18):\n{0}\n{1}
""")  # fmt: skip

_BLOCKS = entries(r"""
for j in range(4):\n{0}\n    if TEST:\n        break\nelse:\n{1} | LOOP = 0\nwhile LOOP < 3:\n    LOOP += 1\n    if TEST:\n        continue\n{0}\nelse:\n    n += 1 | for j in range(3):\n    for i in range(3):\n        if i == INT:\n            return s\n    {0} | try:\n{0}\n    raise Bad(INT)\nexcept Bad as caught:\n    n = caught.args[0]\nelse:\n    n += 5\nfinally:\n{1}
if (LOOP := NUM) > 0.5:\n{0}\n    s = s + 0.1 * LOOP | def LOOP():\n    nonlocal_s = 0.5\n    def deep():\n        nonlocal nonlocal_s\n        nonlocal_s = nonlocal_s + NUM\n        return nonlocal_s\n    deep()\n    return deep()\ns = s + 0.1 * LOOP() | try:\n    try:\n    {0}\n        raise KeyError(n)\n    finally:\n    {1}\nexcept KeyError as caught:\n    n = caught.args[0]
with contextlib.suppress(KeyError, IndexError, ValueError):\n{0} | if not TEST:\n{0}\nelse:\n{1} | for j in [v for v in range(5) if v != INT]:\n{0} | for LOOP in (lambda v: v * 0.5, lambda v: v + NUM):\n    t = LOOP(t)\n{0} | match INT:\n    case 0 \| 1:\n    {0}\n    case LOOP if LOOP > 2:\n    {1}\n    case _:\n        n += 2
try:\n{0}\n    return s\nfinally:\n{1} | for j in range(3):\n    try:\n        if TEST:\n            continue\n    {0}\n    finally:\n    {1}
""")  # fmt: skip

PYTHON: dict[str, Kind] = {
    "scopes": kind(
        """
Z, total, seen_by, memo = 0.5, 0, {}, {}
def grows(v, into=[], *rest, by={}, **named):
    into.append(v)
    by[len(into)] = rest
    for name in named: by[name] = named[name]
    return len(into)
def fib(m):
    if m in memo: return memo[m]
    memo[m] = m if m < 2 else fib(m - 1) + fib(m - 2)
    return memo[m]
def power(v, m): return 1.0 if m <= 0 else v * power(v, m - 1)
def walk(node, v):
    for part in node:
        if isinstance(part, list): walk(part, v)
        else: seen_by[part] = seen_by.get(part, 0.0) + v
def pair_of(a, b, swap=False): return (b, a) if swap else (a, b)
def first(*args, **named): return args[0] + sum(named.values())
def put_in(place, key, v): place[key] = v; return place
""",
        "Z total seen_by memo grows fib power walk pair_of first put_in", "Z total memo",
        nums="Z | power(NUM, INT % 4) | first(NUM, NUM, a=NUM) | first(*[NUM, t], **{'c': NUM}) | fib(INT) * 0.1 | seen_by.get(INT, 0.5) | memo.get((INT, k), 0.5) | sum(v for v in seen_by.values()) | pair_of(NUM, NUM, TEST)[0] | (lambda v, w=NUM: v * w)(0.5) | [w := NUM, w * 0.5][1] | sum([(w := v) for v in (NUM, t)]) | {v: v * 0.5 for v in (1, 2)}[INT % 2 + 1]",
        ints="fib(INT) | grows(NUM) | grows(NUM, [], INT) | len(memo) | len(seen_by) | total | len(grows.__defaults__[0]) | sum(1 for v in memo if v != INT) | max(memo, default=1)",
        tests="INT in memo | (INT, k) in memo | any(v > 1 for v in seen_by.values()) | all(v < 2 for v in (INT, k)) | 'a' in grows.__kwdefaults__['by'] | (w := INT) > 1 and w < 4",
        statements="memo[INT] = INT | memo[INT, k] = NUM | memo[(INT, (k, 'a'))] = NUM | fib(INT) | grows(NUM) | grows(INT, a=NUM) | grows(NUM, [], INT, NUM) | walk([INT, [INT, [k]]], NUM) | global_total = total; total = global_total + INT | t, n = pair_of(NUM, INT) | s, t = pair_of(s, NUM, TEST) | a2, *b2 = [NUM, NUM, INT]; t = b2[0]; memo['b'] = b2 | *a2, b2 = memo.values() if memo else [0.5]; t = b2 if isinstance(b2, float) else t | (a2, b2), c2 = (NUM, INT), NUM; seen_by[b2 % 3] = a2 | put_in(seen_by, INT, NUM) | put_in(memo, 'x', ARR) | put_in(seen_by, 'me', seen_by) | del_me = NUM; s = s + 0.1 * del_me; del del_me | Z = NUM | Z += NUM | Z = first(NUM, Z) * 0.5 | del Z; Z = NUM | memo = {} | memo = dict(memo) | memo.pop(INT, None) | if INT in memo: del memo[INT] | for key in list(memo): memo[key] = NUM | for key, v in list(seen_by.items()): seen_by[key] = v * 0.5 | for key in memo: seen_by[str(key)] = INT | seen_by.update((j, NUM) for j in range(2)) | q9 = [lambda v=v: v * 0.5 for v in (1, INT)]; n = int(sum(fn() for fn in q9)) | q9 = [lambda: v2 for v2 in (NUM, s)]; s = s + 0.1 * q9[0]() | total = total + 1 if TEST else total | x2 = x; x2 = x2 + 1; y = x2 | for k2, v in zip('ab', (NUM, INT)): memo[k2] = v | power.calls = getattr(power, 'calls', 0) + 1",
        changes="memo.clear() | Z = 1.5 | seen_by.clear() | grows.__defaults__[0].clear() | memo = {1: 5} | total = 3 | del Z | memo[2] = 1 | fib(5)",
    ),
    "iterated": kind(
        """
d_, l_, st_ = {1: 0.5, 2: 1.0}, [0.5, 1.5], {1, 2}
held = Box(it=None, keys=d_.keys(), vals=d_.values(), order=[])
def drain(m):
    out = 0.0
    while m:
        out = out + m.pop()
    return out
""",
        "d_ l_ st_ held drain", "d_ l_ st_", nums="d_.get(INT, 0.5) | sum(d_.values()) | l_[-1] if l_ else 0.5 | sum(held.vals) | next(iter(d_.values()), 1.0) | max(d_.values(), default=0.5) | min(l_, default=0.5) | drain(list(l_)) | sum(v for k2, v in d_.items() if k2 != INT)",
        ints="len(d_) | len(l_) | len(st_) | sum(st_) % 5 | next(iter(d_), 1) | next(reversed(d_), 2) | list(d_)[-1] if d_ else 0 | max(d_, key=d_.get) if d_ else 1 | l_.index(l_[-1]) if l_ else 0 | len(held.order) | len(held.keys)",
        tests="INT in d_ | d_.keys() == {1, 2} | list(d_) == [1, 2] | sorted(d_) == list(d_) | INT in st_ | st_ <= set(d_) | held.keys & st_ | l_ == l_[::-1]",
        statements="for k2 in d_:\\n    if k2 == INT:\\n        d_[k2 + 5] = NUM | for k2 in d_: d_[k2] = NUM | for k2, v in d_.items(): d_[k2] = v * 0.5 | for k2 in list(d_):\\n    if k2 > INT: del d_[k2] | for v in l_:\\n    if len(l_) < 5: l_.append(NUM) | for v in l_:\\n    l_.remove(v) | for i, v in enumerate(l_): l_[i] = v * 0.5 | for v in l_[:]: l_.append(v * NUM); l_ = l_[-4:] | for i in range(len(l_) - 1, -1, -1):\\n    if i == INT: del l_[i] | for e in st_: held.order.append(e) | for e in sorted(st_): held.order = held.order[-4:] + [e] | d_[INT] = d_.pop(INT, NUM) | d_.pop(next(iter(d_), None), None) | if d_: held.order.append(d_.popitem()[0]) | d_ = {k2: v for k2, v in sorted(d_.items(), key=lambda p: -p[0])} | d_ = dict(sorted(d_.items())) | d_ = dict(reversed(d_.items())) | d_ = d_ \\| {INT: NUM} | d_ \\|= {INT: NUM} | d_ = {**{INT: NUM}, **d_} | l_.sort(key=lambda v: -v) | l_.sort(reverse=True) | l_ = sorted(l_, key=lambda v: abs(v - 1)) | l_[1:1] = [NUM, NUM] | l_[:0] = [NUM] | l_[::2] = [NUM for v in l_[::2]] | del l_[::2] | l_[-2:] = [] | l_[len(l_):] = [NUM] | l_ *= 2; l_ = l_[:3] | l_ = l_ * (INT % 3) | st_ = {INT if v == 1 else v for v in st_} | st_ \\|= set(d_) | st_ &= {1, 2, INT} | st_ -= {INT} | held.it = iter(l_) | held.it = iter(d_.items()) | if held.it is not None: held.order.append(next(held.it, None)) | held.keys = d_.keys(); held.vals = d_.values() | while l_ and l_[0] > NUM: l_.pop(0) | l_.insert(INT, NUM) | l_.extend(l_[:1]) | l_ += (NUM,) | l_.extend(d_) | l_[0:2] = l_[1:3] | d_.update(zip(d_, l_)) | d_ = dict.fromkeys(list(d_) + [INT], NUM) | d_.setdefault(INT, NUM) | d_ = dict(zip(l_, l_)) and {1: NUM} | held.order = [*d_, *st_] | held.order = list(d_.items())[-1:]",
        changes="d_.clear(); d_[1] = 0.5; d_[2] = 1.0 | l_[:] = [0.5, 1.5] | st_.clear() | d_[3] = 2.0 | d_[1] = d_.pop(1, 0.5) | l_.append(1.0) | st_.add(4) | held.it = None | held.order.clear()",
    ),
    "suspended": kind(
        """
def averager():
    total, count = 0.5, 0
    while True:
        v = yield total
        if v is not None:
            total, count = total * 0.5 + v, count + 1
def several(m):
    for i in range(m): yield i * 0.5
    return m
def chained(m):
    got = yield from several(m)
    sink.append(got)
sink = []
def guarded():
    try:
        yield 1.0
        yield 2.0
    finally:
        sink.append('closed')
        del sink[:-3]
def numbers(v):
    yield v
    sink.append(len(sink))
    yield v * 0.5
av = averager()
next(av)
co = Box(g=several(100), a=av, last=None)
@contextlib.contextmanager
def opened(v):
    sink.append(v)
    try: yield v
    except Bad: sink.append('bad')
    finally: del sink[:-4]
""",
        "averager several chained sink guarded numbers av co opened", nums="av.send(0.5) | next(co.g) | sum(chained(INT)) | sum(numbers(NUM)) | next(guarded()) | max(numbers(NUM)) | next(v for v in several(5) if v >= INT * 0.5) if INT < 5 else 0.5 | sum(v * 0.5 for v in numbers(NUM))",
        ints="len(sink) | len(list(several(INT))) | sum(1 for v in chained(INT))", tests="sink | 'closed' in sink | any(v > 1 for v in numbers(NUM)) | co.last is None",
        statements="av.send(INT) | av.send(NUM) | co.a.send(1.5) | next(co.g) | g = numbers(NUM); t = next(g); s = s + 0.1 * next(g) | g = averager(); next(g); g.send(NUM); t = g.send(NUM) | g = guarded(); t = next(g); g.close() | g = numbers(NUM); t = next(g); del g | for t in numbers(NUM): sink.append(INT) | a2, b2 = numbers(NUM); s = s + 0.1 * b2 | sink.extend(several(INT % 3)) | sink[:] = list(chained(2)) | co.g = several(50) | co.last = list(numbers(NUM)) | co.last = numbers(NUM) | t = next(co.last, 0.5) if hasattr(co.last, '__next__') else 0.5 | with opened(NUM) as t: s = s + 0.1 * t | with opened(INT): raise Bad(k) | for t in guarded():\\n    break | g = guarded()\\nfor t in g:\\n    if TEST: break | try:\\n    g = guarded(); next(g); g.throw(Bad(INT))\\nexcept Bad: n += 1 | g = (v for v in [NUM, NUM]); t = next(g); n = len(list(g)) | first_of, *others = several(3); n = len(others) | it2 = iter([NUM, NUM]); t = next(it2) + next(it2) | n = sum(map(int, several(3))) | for a2, b2 in zip(several(3), numbers(NUM)): s = s + 0.1 * a2 * b2",
        changes="sink.clear() | av.send(1.0) | next(co.g) | co.last = None | co.g = several(9)",
    ),
    "protocols": kind(
        """
class Open:
    made = 0
    def __init__(self, **named):
        object.__setattr__(self, 'data', dict(named))
        object.__setattr__(self, 'reads', 0)
        type(self).made += 1
    def __getattr__(self, name):
        if name.startswith('_'): raise AttributeError(name)
        try: return self.__dict__['data'][name]
        except KeyError: raise AttributeError(name) from None
    def __setattr__(self, name, v):
        if name == 'reads': object.__setattr__(self, name, v)
        else: self.data[name] = v
    def __delattr__(self, name): del self.data[name]
    def __getitem__(self, name): self.reads += 1; return self.data[name]
    def __setitem__(self, name, v): self.data[name] = v
    def __delitem__(self, name): del self.data[name]
    def __contains__(self, name): return name in self.data
    def __iter__(self): return iter(self.data)
    def __len__(self): return len(self.data)
    def __call__(self, v): self.data['last'] = v; return v * 0.5
    def __bool__(self): return len(self.data) > 1
class Vec:
    def __init__(self, a, b=0.5): self.a, self.b = a, b
    def __add__(self, o): return Vec(self.a + (o.a if isinstance(o, Vec) else o), self.b)
    __radd__ = __add__
    def __iadd__(self, o): self.a = self.a + (o.a if isinstance(o, Vec) else o); return self
    def __mul__(self, o): return Vec(self.a * o, self.b * o)
    def __neg__(self): return Vec(-self.a, -self.b)
    def __eq__(self, o): return isinstance(o, Vec) and self.b == o.b
    def __hash__(self): return hash(self.b)
    def __lt__(self, o): return self.b < o.b
    def __iter__(self): yield self.a; yield self.b
    def __enter__(self): self.b += 1; return self
    def __exit__(self, *error): self.b -= 1; return error[0] is Bad
    @property
    def norm(self): self.seen = getattr(self, 'seen', 0) + 1; return self.a * self.a
    @norm.setter
    def norm(self, v): self.a = v; self.b = self.b + 0.5
op, vec, vec2 = Open(p=0.5, q=1.0), Vec(0.5), Vec(1.0, 2.0)
""",
        "op vec vec2 Open Vec", "vec vec2", nums="op.p | op['q'] | op(NUM) | getattr(op, 'z', NUM) | vec.a | vec.norm | (vec + vec2).a | (vec * NUM).a | (vec + NUM).a | (-vec2).a | sum(vec) | max(vec, vec2).a | vec2.b | sum([vec, vec2], 0.0).a | op.data.get('last', 0.5)",
        ints="len(op) | op.reads | Open.made % 5 | getattr(vec, 'seen', 0) | sum(1 for v in op)", tests="'z' in op | op | hasattr(op, 'z') | vec == vec2 | vec is vec2 | vec < vec2 | vec in [vec2] | not op | bool(op) and op.reads > 2",
        statements="op.p = NUM | op.z = NUM | op['q'] = NUM | op['n'] = INT | op(NUM) | if 'z' in op: del op.z | if 'n' in op: del op['n'] | op.reads += 1 | op.p += NUM | op['q'] *= NUM | vec += NUM | vec += vec2 | vec = vec + vec2 | vec = vec * NUM | vec.norm = NUM | vec2.a = NUM | vec, vec2 = vec2, vec | vec.norm += NUM | vec2 = Vec(NUM, INT) | with vec as v2: v2.a = NUM | with vec2: raise Bad(INT) | t = max(vec, vec2, key=lambda v: v.b).a | t, n2 = vec | for name in op: s = s + 0.1 * (op[name] if isinstance(op[name], float) else 1.0) | op.w = vec | op.w.a = NUM | vec = -vec | vec2 = sorted([vec, vec2])[0] | op.me = op | t = sum(v.a for v in (vec, vec2)) | vec = copy.copy(vec) | op.data = {'p': NUM} | s = s + 0.1 * op(op(NUM)) | {vec: 1}[vec] | setattr(op, 'k' + str(INT % 2), NUM) | op.x = ARR",
        changes="op.p = 1.5 | op.data.clear(); op.p = 0.5; op.q = 1.0 | vec.a = 2.0 | vec = vec2 | vec2 = Vec(1.0, 2.0) | op.reads = 0 | op['z'] = 2.0",
    ),
    "raised": kind(
        """
class Rich(Bad):
    count = 0
    def __init__(self, v, **more):
        super().__init__(v)
        self.v, self.more = v, more
        Rich.count += 1
errs = Box(last=None, n=0, log=[], tries={})
def risky(v, m):
    errs.n += 1
    errs.log.append(m)
    if m > 2: raise Rich(m, n=errs.n)
    errs.log.append(v)
    return v * 0.5
def second(v):
    errs.tries[len(errs.tries) % 3] = v
    if errs.n % 2: raise Bad(errs.n)
    errs.n += 1
    return v
def cleaned(v):
    try:
        errs.log.append(v)
        return risky(v, errs.n % 4)
    finally:
        del errs.log[:-3]
        errs.n += 1
""",
        "errs Rich risky second cleaned", nums="risky(NUM, INT) | second(NUM) | cleaned(NUM) | errs.log[-1] if errs.log else 0.5 | errs.last.args[0] if errs.last else 1.0", ints="errs.n | Rich.count | len(errs.log) | len(errs.tries)", tests="errs.n % 2 | errs.last is None | errs.log",
        statements="try: t = risky(NUM, INT)\\nexcept Rich as e: n = e.v; errs.n = e.more['n'] | try: t = second(NUM)\\nexcept Bad as e: errs.n += 1; n = e.args[0] | try: t = cleaned(NUM)\\nexcept Rich: errs.n = 0\\nelse: errs.n += 1\\nfinally: errs.log.append(INT) | try: risky(NUM, INT)\\nexcept (Rich, KeyError) as e: errs.last = Bad(e.v) | errs.tries[INT] = NUM; errs.tries[INT // (k - 1)] = NUM | errs.log.append(NUM); errs.log[INT + 2] | errs.tries[INT] | try:\\n    errs.n += 1\\n    raise Rich(NUM)\\nexcept Rich as e:\\n    s = s + 0.1 * e.v | try:\\n    raise KeyError(INT)\\nexcept LookupError as e:\\n    errs.n = e.args[0] | try:\\n    try: raise Rich(INT)\\n    except Rich as e: raise Bad(e.v) from e\\nexcept Bad as e: n = e.__cause__.v | if TEST: raise Rich(NUM, a=INT) | assert NUM < 3.0, 'large' | assert INT < 4 | errs.log = errs.log[-3:] | errs.n = INT | for e2 in (KeyError, Bad):\\n    try: raise e2(INT)\\n    except KeyError: errs.n += 1\\n    except Bad as e: errs.n += e.args[0] | float('no') if INT == 3 else 1.0 | [].pop() if TEST else 0 | int(None) if INT == 4 else 0 | x[5] if INT == 3 else x[0] | errs.gone if INT == 3 else errs.n | y + np.ones(4) if INT == 3 else y",
        changes="errs.n = 0 | errs.log.clear() | errs.tries.clear() | errs.last = None | errs.n = 3 | Rich.count = 0",
    ),
    "factories": kind(
        """
@dataclasses.dataclass
class Node_:
    v: float = 0.5
    kids: list = dataclasses.field(default_factory=list)
    by: dict = dataclasses.field(default_factory=dict)
    n: int = dataclasses.field(default=0, compare=False)
    ids = itertools.count()
    def __post_init__(self): self.id = next(Node_.ids)
    def add(self, kid): self.kids.append(kid); self.n += 1; return self
    def total(self): return self.v + sum(kid.total() for kid in self.kids)
    def deep(self): return 1 + max((kid.deep() for kid in self.kids), default=0)
@dataclasses.dataclass(order=True)
class Item:
    rank: int
    v: float = dataclasses.field(default=0.5, compare=False)
class Counted:
    live, all = 0, []
    def __init__(self, v):
        self.v, self.number = v, Counted.live
        Counted.live += 1
        self.all.append(self)
        del self.all[:-3]
    def __init_subclass__(cls, **more): cls.live = 0
    @staticmethod
    def reset(): Counted.live = 0
    @classmethod
    def make(cls, v): return cls(v * 0.5)
class Sub(Counted): pass
root = Node_(1.0)
items, best = [Item(2, 1.0), Item(1)], Item(5)
""",
        "Node_ Item Counted Sub root items best", "root items best", nums="root.total() | root.v | items[0].v | best.v | max(items).v | sum(i.v for i in items) | Counted(NUM).v | Counted.all[-1].v if Counted.all else 0.5 | Sub.make(NUM).v | root.kids[-1].v if root.kids else 0.5 | root.by.get('a', 0.5)",
        ints="root.deep() | root.n | len(root.kids) | Counted.live | Sub.live | items[0].rank | max(items).rank | root.id % 5 | len(items) | Counted(NUM).number | len(Counted.all)",
        tests="root == Node_(1.0) | items[0] < best | items == sorted(items) | root.kids | best in items | Item(INT) == best | dataclasses.is_dataclass(root)",
        statements="root.add(Node_(NUM)) | root.kids.append(Node_(NUM, [Node_(INT)])) | root.kids = root.kids[-2:] | root.v = NUM | root.by['a'] = NUM | root = Node_(NUM, root.kids) | root = Node_(NUM) | root = dataclasses.replace(root, v=NUM) | root.kids.append(root.kids[0]) if root.kids else None | for kid in root.kids: kid.v = NUM | if root.kids: root.kids[0].add(Node_(NUM)); root.kids[0].kids = root.kids[0].kids[-1:] | items.append(Item(INT, NUM)); items = sorted(items)[-3:] | items.sort() | best = max(items) | best = min(best, Item(INT, NUM)) | best.v = NUM | items[0].rank = INT | items.sort(key=lambda i: i.v) | Counted(NUM) | Sub(NUM) | Counted.make(INT) | Counted.reset() | Sub.live = INT | Counted.all = [] | root.last = Counted(NUM) | n = dataclasses.astuple(best)[0] | root.by.update({INT: Item(INT, NUM)}) | a2 = Node_(NUM); b2 = Node_(NUM); a2.kids.append(b2); root.kids = [a2, b2] | items, root.kids = items[:], [*root.kids[:1]] | heapq.heappush(items, Item(INT, NUM)); items = items[:3] | root.n += 1 | root.n = len(dataclasses.fields(root))",
        changes="root = Node_(1.0) | root.kids.clear() | items[:] = [Item(2, 1.0), Item(1)] | best = items[0] | Counted.live = 0 | root.v = 2.0 | Counted.all.clear() | Sub.live = 1",
    ),
    "said": kind(
        "out = Box(n=0, lines=[])\ndef tell(*v, **named): print(*v, **named); out.n += 1; return out.n",
        "out tell", nums="out.n * 0.5 | tell(INT) * 0.5", ints="out.n | tell('a') | len(out.lines)", tests="out.n > 3 | out.lines",
        statements="print(INT) | print('v', INT, sep='-') | print(f'{NUM:.3f}') | print(k, end=' ') | tell(INT, k) | tell('s', end='!') | print(out.n, out.lines) | if TEST: print('yes') | print('%d items' % len(out.lines)) | out.lines.append(f'{INT}'); print(out.lines[-1]) | print(); out.n += 1 | print([INT, 2]) | print({'a': INT}) | print('{:.2f}'.format(NUM), flush=True) | print(*range(INT)) | for j in range(3): print(j, out.n) | print(NUM > 1, INT == 2) | print(round(1.25 * INT, 1)) | sys.stdout.write(f'{INT};') | print(repr('a'), INT, None) | print(out.__class__.__name__) | print(np.round(NUM, 2) if False else 'x') | out.lines = out.lines[-2:] | print(f'{x[0]:.2f} {INT}') | print(f'{y}') | print(s if k > 5 else k)",
        changes="out.n = 0 | out.lines.clear() | out.n = 5",
    ),
    "aliased": kind(
        """
one_, two_ = [0.5, 1.0, 1.5], [1.0, 2.0, 3.0]
grid_, table, owner = [one_, two_, one_], {'a': one_, 'b': two_}, Box(l=one_, d=None, arr=np.ones(3), also=None)
owner.d, owner.also = table, owner
class Holder:
    def __init__(self, l, d): self.l, self.d = l, d
    def push(self, v): self.l.append(v); del self.l[:-4]; return self
    def swap(self, o): self.l, o.l = o.l, self.l
    def take(self, l): self.l = l; self.d['a'] = l
hold_, hold2 = Holder(one_, table), Holder(two_, {'a': two_})
def mix(a, b, v):
    a[0], b[-1] = v, a[0]
    return a[0] + b[-1]
def exchange(place, i, j): place[i], place[j] = place[j], place[i]
def keep_(l, into=[]): into.append(l); del into[:-2]; return into
def closed_():
    mine = one_
    def write(v): mine[1] = v; return mine
    return write
write_ = closed_()
""",
        "one_ two_ grid_ table owner Holder hold_ hold2 mix exchange keep_ write_", "one_ two_",
        nums="one_[0] | two_[-1] | grid_[0][1] | grid_[2][0] | table['a'][0] | owner.l[0] | owner.also.d['b'][0] | hold_.l[-1] | hold2.d['a'][0] | mix(one_, two_, NUM) | mix(grid_[0], grid_[2], NUM) | write_(NUM)[0] | sum(keep_(one_)[0]) | np.sum(owner.arr)",
        ints="len(one_) | len(grid_) | len(hold_.l) | one_ == two_", tests="one_ is two_ | grid_[0] is grid_[2] | owner.l is one_ | hold_.l is hold2.l | table['a'] is hold2.d['a'] | owner.d is hold_.d | owner.also is owner",
        arrs="owner.arr | owner.also.arr",
        statements="one_[0] = NUM | two_[INT % 3] = NUM | grid_[0][1] = NUM | table['a'][0] = NUM | owner.l[0] += NUM | mix(one_, two_, NUM) | mix(one_, owner.l, NUM) | exchange(grid_, 0, 1) | exchange(table, 'a', 'b') | hold_.push(NUM) | hold_.push(NUM).push(INT) | hold_.swap(hold2) | hold2.take(one_) | hold_.take([NUM, NUM, NUM]) | write_(NUM) | keep_(two_)[0][0] = NUM | one_, two_ = two_, one_ | one_[0] = NUM; one_ = [NUM, 1.0, 2.0] | t2 = one_; one_ = list(two_); t2[0] = NUM | grid_[0], grid_[1] = grid_[1], grid_[0]; grid_[0][0] = NUM | grid_[INT % 3] = two_ | owner.l, hold_.l = hold_.l, owner.l | owner.d = {'a': one_, 'b': two_} | owner.d['a'] = owner.l; owner.l = [NUM] * 3 | owner.also.l[1] = NUM | owner.arr = ARR | owner.also.arr = owner.arr * 0.5 | one_[:] = two_ | one_[0], one_[1] = one_[1], one_[0] | one_[0], two_[0] = two_[0], one_[0] | for r in grid_: r[0] = NUM | for r in grid_: r[1] = r[1] * 0.5 | a2, b2 = grid_[0], grid_[1]; a2[0], b2[0] = b2[0], a2[0] | grid_.reverse() | grid_.append(grid_.pop(0)) | grid_.sort(key=lambda r: r[0]) | hold2.d = table | hold2 is hold_ or hold2.push(NUM) | table.update(a=two_) | table['c'] = table['a']; table['c'][0] = NUM | owner.l = owner.also.l = [NUM, NUM, INT] | log.append(one_); log[-1][0] = NUM | cache['a'] = one_; cache['a'][1] = NUM | cache['o'] = owner; cache['o'].l[0] = NUM",
        changes="one_[0] = 0.5 | one_ = two_ | one_ = [0.5, 1.0, 1.5] | grid_[0] = one_ | table['a'] = two_ | owner.l = two_ | hold_.l = hold2.l | owner.also = Box(l=one_, d=table, arr=owner.arr) | owner.arr = np.ones(3) * 2 | hold_.l = [1.0, 1.0, 1.0]",
    ),
    "whole": kind(
        "big, whole = 3, Box(a=7, b=-2, flags=0, total=0, hist=[0] * 5)\ndef gcd(a, b):\n    while b: a, b = b, a % b\n    return a\ndef bits(v): return bin(abs(v)).count('1')",
        "big whole gcd bits", "big", nums="whole.a * 0.25 | big / 3 | float(whole.total % 7) | whole.hist[INT % 5] * 0.5",
        ints="big % 5 | whole.a // 3 | gcd(whole.a, 12) | bits(big) | divmod(whole.a, 4)[1] | whole.b ** 2 % 6 | whole.flags & 3 | (big << 1) % 7 | -7 // (INT + 1) | abs(whole.b) | whole.hist[INT % 5] | max(whole.hist) | round(whole.a / 2) | int(2.7 * INT) | ~INT % 4 | whole.hist.index(max(whole.hist)) | sum(whole.hist) % 6 | len(str(big))",
        tests="big > 10 | whole.a % 2 | whole.flags & 1 | whole.a == big | bool(whole.total) | 0 < whole.b + 3 <= INT",
        statements="big = big * 3 % 101 | big += INT | big = (big * 7 + INT) % 1000 | whole.a, whole.b = whole.b, whole.a + 1 | whole.flags \\|= 1 << (INT % 4) | whole.flags ^= INT | whole.total += INT * k | whole.hist[INT % 5] += 1 | whole.hist[INT % 5] = max(whole.hist) + 1 | whole.a = gcd(whole.a * 6, 4) + INT | whole.b = -whole.b + k | n = whole.a - n | whole.total = whole.total * 2 + (1 if TEST else 0) | big, whole.total = whole.total % 9 + 1, big | whole.hist = whole.hist[1:] + [INT] | whole.hist.sort() | whole.a //= 2; whole.a += 5 | whole.b **= 2; whole.b %= 50 | big = int(str(big % 10) + '1') | whole.rate = 1 / (1 + whole.total % 5) | s = s + 0.1 * whole.a / (1 + abs(whole.b)) | whole.flags = not whole.flags | whole.total = sum(whole.hist) + True | whole.a = min(whole.a, INT) + 2 | big = 2 ** (INT % 5) + big % 3 | whole.total -= -3 | whole.hist[-1], whole.hist[0] = whole.hist[0], whole.hist[-1] + 1",
        changes="big = 3 | whole.a = 7 | whole.hist[:] = [0] * 5 | whole.total = 0 | whole.b = 4 | whole.flags = 0 | whole.hist[2] = 9",
    ),
}  # fmt: skip

EVERY_KIND = {**KINDS, **PYTHON}
#: by name: the kinds of a family, its blocks, and those that stand in others
FAMILIES: dict[str, tuple[dict[str, Kind], list[str], list[str]]] = {
    "": (KINDS, BLOCKS, BLOCKS),
    "long": (KINDS, LONG, BLOCKS),
    "python": (PYTHON, BLOCKS + _BLOCKS, BLOCKS + _BLOCKS),
    "all": (EVERY_KIND, _BLOCKS + LONG, BLOCKS + _BLOCKS),
}
