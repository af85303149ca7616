"""Traps: the ways in which code keeps a record of what it does, each replayed, and each as plain Python does it.

Each program is run compiled in one namespace and as it is in another; after every call both hold the same.
"""

from __future__ import annotations

import sys
import types
from collections import deque

import numpy as np
import pytest
from selection import some
from with_source import code_of

from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")

HEAD = """
import collections, dataclasses, typing
import numpy as np
from types import SimpleNamespace

@dataclasses.dataclass
class Record:
    loss: float
    step: int = 0

class Plain:
    def __init__(self, loss, more): self.loss, self.more = loss, more

class Slots:
    __slots__ = ("loss", "n")
    def __init__(self, loss): self.loss = loss

class Typed(typing.NamedTuple):
    loss: float
    step: int

Named = collections.namedtuple("Named", "loss step")

class Model:
    def __init__(self):
        self.n, self.i, self.history, self.ring, self.best = 0, 0, [], [0.0] * 4, {"loss": np.inf, "x": None}
        self.nested, self.kept, self.last = {"a": {"b": []}}, None, None

model, rows, table, seen, least, count = Model(), [], {}, set(), [np.inf], 0
"""
PROGRAMS = {
    "a dataclass": "rows.append(Record(v, 3))",
    "a dataclass with a count": "model.n += 1; rows.append(Record(v, model.n))",
    "a plain object": "rows.append(Plain(v, [x, {'twice': 2 * v}]))",
    "an object with slots": "rows.append(Slots(v))",
    "named tuples": "rows.append(Named(v, 1)); table['typed'] = Typed(loss=v, step=2)",
    "a namespace": "rows.append(SimpleNamespace(loss=v, x=x))",
    "one object in two places": "r = Record(v); model.last = r; rows.append([r]); r.after = x",
    "a list in two places": "pair = [v, x]; model.last = pair; rows.append(pair); table['pair'] = pair",
    "an object that was there": "model.kept = model.history; table['owner'] = model",
    "the best so far in an object": "if model.last is None or v < model.last.loss: model.last = Record(v, 1)",
    "the best in a list": "if v < least[0]: least[0] = v",
    "the best in a dict": "if v < model.best['loss']: model.best['loss'] = v; model.best['x'] = x.copy()",
    "the best by update": "if v < model.best['loss']: model.best.update(loss=v, x=x)",
    "a tally": "c['f'] += 1; c['g'] -= len(x)",
    "a tally by update": "c.update('ab')",
    "groups": "groups['f'].append(v); groups['g'].append(x)",
    "sums by name": "sums['f'] += v; sums['g'] += 0.5",
    "a bounded deque": "recent.append(v); v = v + sum(recent) / len(recent)",
    "a deque from the left": "recent.appendleft(v)",
    "a bounded list": "rows.insert(0, v)\n if len(rows) > 3: rows.pop()",
    "a list with a lid": "rows.append(v)\n if len(rows) > 3: del rows[0]",
    "a stack": "rows.append(v); v = 2 * rows.pop()",
    "a list made anew": "rows.clear(); rows.append(v); rows[1:] = [2 * v, x]",
    "keys that come and go": "table['a'] = v; table['b'] = table['a'] * 2; del table['a']",
    "the one before": "p = table.pop('before', None); table['before'] = v; v = v if p is None else v - p",
    "counts by get": "table['n'] = table.get('n', 0) + 1; table['s'] = table.get('s', 0.0) + v",
    "lists by setdefault": "table.setdefault('a', []).append(v)",
    "nested lists": "model.nested['a']['b'].append(v)",
    "a ring": "model.ring[model.i % 4] = v; model.i += 1; v = v + sum(model.ring)",
    "the length of a history": "model.history.append(v); v = v + len(model.history)",
    "the length that is kept": "rows.append((len(rows), v))",
    "each third time": "rows.append(v)\n if len(rows) % 3 == 0: table['last'] = v",
    "the item before": "v = v - rows[-1] if rows else v; rows.append(v)",
    "the two before": "rows.append(v)\n if len(rows) > 1 and rows[-1] < rows[-2]: model.n += 1",
    "the last three": "rows.append(v); v = v + sum(rows[-3:]) / len(rows[-3:])",
    "some before the last": "v = v - sum(rows[-3:-1]); rows.append(v)",
    "the first item": "rows.append(v); v = v + rows[0]",
    "a sum of lists": "rows += [v]; model.history += [x, v]",
    "bound beforehand": "add(v); extend([v, x])",
    "a callback of the object": "model.kept(v)",
    "callbacks in a list": "for each in callbacks: each(v)",
    "a set that is filled once": "if len(x) not in seen: seen.add(len(x))",
    "a default that is filled once": "if 'w' not in cache: cache['w'] = np.ones(3)\n v = v + np.sum(cache['w'] * x)",
    "defaults": "into.append(v); cache['last'] = v; counts[0] += 1; named.append(x)",
    "globals": "global count, latest, mean; count += 1; latest = [v]; mean = 0.9 * mean + v",
    "two that count": "helps(v)\n global count; count += 1",
}
SETUP = """
c, groups, sums = collections.Counter(f=1), collections.defaultdict(list), collections.defaultdict(float)
recent, mean, add, extend = collections.deque(maxlen=3), 0.0, rows.append, rows.extend
model.kept = rows.append if CALLBACK else None
callbacks = [rows.append, lambda value: table.update(last=value)]
def helps(value):
    global count, latest
    count, latest = count + 1, value
"""


def _namespace(name):
    module = types.ModuleType("an_idiom")
    body = PROGRAMS[name]
    head = " global rows\n" if "rows +=" in body else ""
    code = f"def f(x, into=[], cache={{}}, counts=[0], *, named=[]):\n{head} v = np.sum(x * x)\n {body}\n return v\n"
    setup = SETUP.replace("CALLBACK", str(name == "a callback of the object"))
    exec(code_of(HEAD + setup + code, name), module.__dict__)
    return module.__dict__


def _picture(value, depth=0):
    """All that is reached from *value*, with the types."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return kind, str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return kind, [(key, _picture(part, depth + 1)) for key, part in value.items()]
    if isinstance(value, list | tuple | deque):
        return kind, [_picture(part, depth + 1) for part in value]
    names = getattr(type(value), "__slots__", ()) or getattr(value, "__dict__", ())
    if type(value).__module__ in ("an_idiom", "types") and depth < 8:
        return kind, [(name, _picture(getattr(value, name), depth + 1)) for name in names if hasattr(value, name)]
    return kind, value if isinstance(value, float | int | str | set | None) else None


def _kept(space):
    names = ["model", "rows", "table", "seen", "least", "count", "c", "groups", "sums", "recent", "mean", "latest"]
    f = space["f0"]
    return [_picture(space.get(name)) for name in names] + [_picture([f.__defaults__, f.__kwdefaults__])]


@pytest.mark.parametrize("name", some(PROGRAMS, quick=10))
@pytest.mark.parametrize("mode", some(["value_and_grad", "__call__"], quick=1))
def test_records_of_what_is_done_are_replayed(name, mode, monkeypatch):
    spaces = []
    monkeypatch.setitem(sys.modules, "an_idiom", types.ModuleType("an_idiom"))
    for _ in range(2):
        spaces.append(_namespace(name))
        spaces[-1]["f0"] = spaces[-1]["f"]
    mine, plain = spaces
    compiled = compile_grad(mine["f"])
    for k in (0, 3, 1, 4, 2, 5, 1, 0.5, 0.25, 6, 7, 8, 0.1, 9):
        x = np.arange(3.0) + k
        found, expected = getattr(compiled, mode)(x), plain["f"](x)
        np.testing.assert_allclose(found[0] if mode == "value_and_grad" else found, expected, rtol=1e-13)
        assert repr(_kept(mine)) == repr(_kept(plain)), k
    assert not compiled.stats.live
    traces = compiled.stats.traces
    for k in (4, 2, 5, 3):
        getattr(compiled, mode)(np.arange(3.0) + k)
    assert compiled.stats.traces - traces < 2


LEARNED = {
    "a length that is kept": "rows.append((len(rows), v))",
    "records with numbers": "rows.append({'i': len(rows), 'v': v}); c['calls'] += 1",
    "sums and a length": "least[0] = min(least[0], 3) + 1; table['n'] = table.get('n', 0) + 1; rows.append(len(rows))",
    "two dicts and a list": "table['s'] = table.get('s', 0.0) + v; model.best['x'] = x; v = v + model.best['loss']; "
    "model.history.append(len(model.history))",
}


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("mode", some(["value_and_grad", "__call__"], quick=1))
def test_all_that_a_function_changes_is_learned_by_its_first_run(name, mode, monkeypatch):
    monkeypatch.setitem(sys.modules, "an_idiom", types.ModuleType("an_idiom"))
    monkeypatch.setitem(PROGRAMS, name, LEARNED[name])
    mine, plain = _namespace(name), _namespace(name)
    mine["f0"], plain["f0"] = mine["f"], plain["f"]
    compiled = compile_grad(mine["f"])
    traces = []
    for k in range(9):
        getattr(compiled, mode)(np.arange(3.0) + k), plain["f"](np.arange(3.0) + k)
        assert repr(_kept(mine)) == repr(_kept(plain)), k
        traces.append(compiled.stats.traces)
    assert traces[2] == traces[-1] <= 3


READS = """
1.0 if type(rows) is list else 2.0 | list.__len__(rows) | rows.__len__() | sum([0.5] + rows) | sum(2 * rows)
rows[len(rows) - 1] | sum(rows[-2:]) | 1.0 if rows == [1] else 2.0 | next(reversed(rows)) | rows.index(rows[0])
(lambda *given: sum(given))(*rows) | sum(rows[k] for k in range(len(rows)))
rows[np.int64(0)] | rows[True] | min(rows) | sum([*rows])
"""


@pytest.mark.parametrize(
    "read", some([part.strip() for line in READS.strip().splitlines() for part in line.split(" | ")], quick=12)
)
@pytest.mark.parametrize("first", some(["read", "append"], quick=1))
def test_histories_that_are_read_in_any_way(read, first):
    mine, plain = ({"np": np, "rows": [3.0, 1.0]} for _ in range(2))
    body = [f"w = {read}", "rows.append(v)"][:: 1 if first == "read" else -1]
    for space in (mine, plain):
        exec(f"def f(x):\n v = np.sum(x * x)\n {body[0]}\n {body[1]}\n return v + w", space)
    compiled = compile_grad(mine["f"])
    for k in range(8):
        x = np.arange(2.0) + k
        np.testing.assert_allclose(compiled(x), plain["f"](x), rtol=1e-13)
        assert _picture(mine["rows"]) == _picture(plain["rows"])


# C code that goes past the methods of a list's class, with another order for each value
STORAGE = [
    "heapq.heappush(rows, v)", "heapq.heappush(rows, v)\n if len(rows) > 3: w = heapq.heappop(rows)",
    "heapq.heappush(rows, v); w = heapq.heappushpop(rows, x[0])", "w = heapq.heapreplace(rows, v); rows.append(w)",
    "rows.append(x[1] - v); heapq.heapify(rows)", "heappush(rows, -v)\n if len(rows) > 2: w = heappop(rows)",
    "heapq.heappush(tasks, (v, 'a'))\n if len(tasks) > 3: w = heapq.heappop(tasks)[0]",
    "push(rows, v)\n if len(rows) > 3: w = owner.pop(rows)", "rows.append(2.0); w = sum(array.array('d', rows))",
    "bisect.insort(rows, v)\n if len(rows) > 4: w = rows.pop(0)",
    "rows.append(v); rows.sort(reverse=True); w = rows[0]",
]  # fmt: skip
STORAGE_HEAD = """
import array, bisect, heapq
from heapq import heappop, heappush
from types import SimpleNamespace
import numpy as np
rows, tasks, push, owner = [1.0, 3.0], [], heapq.heappush, SimpleNamespace(pop=heapq.heappop)
"""


@pytest.mark.parametrize("body", STORAGE)
def test_lists_whose_storage_c_code_orders(body):
    mine, plain = {}, {}
    for space in (mine, plain):
        exec(f"{STORAGE_HEAD}def f(x):\n v = w = np.sum(x * x)\n {body}\n return v + w", space)
    compiled = compile_grad(mine["f"])
    for k in (0, 3, 1, 4, 2, 5, 1, 0.5, 6):
        x = np.arange(2.0) + k
        np.testing.assert_allclose(compiled(x), plain["f"](x), rtol=1e-13)
        assert _picture(mine["rows"]) == _picture(plain["rows"])
        assert repr(mine["tasks"]) == repr(plain["tasks"])
