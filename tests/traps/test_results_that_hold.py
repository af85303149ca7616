"""Traps: results that hold arrays where nobody assigns (iterators, views, slices, generators, classes) are those of
plain Python, or refused where they are returned.

They are made while the function is recorded, of traced arrays, which mean nothing to the caller.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import itertools
import operator
import pickle
import time
import types
import weakref
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest
from leftovers import leftovers
from same_state import difference

import tracegrad
from tracegrad import TracegradError, UnsupportedError, autograd, compile_grad
from tracegrad.tracer.record.array import TracedArray
from tracegrad.tracer.record.recorder import Recorder, recording

pytestmark = pytest.mark.usefixtures("fresh_kernels")

W = np.arange(3.0)


class Node:
    def __init__(self, v):
        self.v = v

    def get(self):
        return self.v * 2

    def __iter__(self):
        yield self.v
        yield self.v * 3


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


def numbers(x):
    y = x * 2
    yield y
    for k in range(3):
        yield y + k


def begun(values):
    next(values)
    return values


def class_over(x):
    class Made:
        w = x * 2

        def total(self):
            return self.w + x

    return Made


def in_turn(first, count):
    return lambda it: [next(it) for _ in range(count)][first:]


#: name -> (function of an array, how its result is looked at)
SETTLED = {
    "keys": (lambda x: {"a": x * 2}.keys(), list),
    "values": (lambda x: {"a": x * 2}.values(), list),
    "items": (lambda x: {"a": x * 2}.items(), list),
    "ordered values": (lambda x: OrderedDict(a=x * 2).values(), list),
    "iter(list)": (lambda x: iter([x * 2, x]), list),
    "iter(tuple)": (lambda x: iter((x * 2, x)), list),
    "iter(array)": (lambda x: iter(x * 2), list),
    "iter(argument), begun": (lambda x: begun(iter(x)), list),
    "reversed": (lambda x: reversed([x * 2, x]), list),
    "enumerate": (lambda x: enumerate([x * 2]), list),
    "zip": (lambda x: zip([x * 2], (x,), strict=True), list),
    "map": (lambda x: map(lambda v, u: v * 2 + u + x, [x * 2], [x]), list),
    "map over a global": (lambda x: map(lambda v, u: v * 2 + u + W, [x * 2], [x]), list),
    "filter": (lambda x: filter(lambda v: v.sum() > 0, [x * 2, -x]), list),
    "chain": (lambda x: itertools.chain([x * 2], [x]), list),
    "islice": (lambda x: itertools.islice([x * 2, x], 1), list),
    "accumulate": (lambda x: itertools.accumulate([x * 2, x]), list),
    "accumulate, begun": (lambda x: begun(itertools.accumulate([x * 2, x])), list),
    "product": (lambda x: itertools.product([x * 2, x], [1, 2]), list),
    "product, begun": (lambda x: begun(itertools.product([x * 2, x], (x,))), list),
    "permutations": (lambda x: itertools.permutations((x * 2, x)), list),
    "zip_longest, begun": (lambda x: begun(itertools.zip_longest([x * 2, x], (x,), fillvalue=x * 3)), list),
    "count": (lambda x: itertools.count(x[0], 2), in_turn(0, 3)),
    "count of one value twice": (lambda x: (lambda s: itertools.count(s, s))(x[0] * 2), in_turn(0, 3)),
    "cycle": (lambda x: itertools.cycle([x * 2, x]), in_turn(0, 5)),
    "cycle, begun": (lambda x: begun(itertools.cycle([x * 2, x])), in_turn(0, 5)),
    "repeat": (lambda x: itertools.repeat(x * 2, 3), list),
    "tee": (lambda x: itertools.tee([x * 2, x]), lambda pair: [list(it) for it in pair]),
    "starmap": (lambda x: itertools.starmap(operator.add, [(x, x * 2)]), list),
    "slice": (lambda x: slice(x[0], None, x[1] * 2), repr),
    "slices in a list": (lambda x: [slice(x[0], 2), x * 2], repr),
    "partial": (lambda x: functools.partial(lambda a, b: a + b, b=x * 2), lambda f: f(1.0)),
    "partial over a global": (lambda x: functools.partial(lambda a: a + W, x * 2), lambda f: f()),
    "a method of an array": (lambda x: (x * 2).sum, lambda f: f()),
    "a method of a list": (lambda x: [x * 2].pop, lambda f: f()),
    "a method of an object": (lambda x: Node(x * 2).get, lambda f: f()),
    "methodcaller": (lambda x: operator.methodcaller("__add__", x * 2), lambda f: f(W)),
    "a function over a global": (lambda x: lambda: x * 2 + W, lambda f: f()),
    "a default": (lambda x: lambda y=x * 2: y, lambda f: f()),
    "a class": (lambda x: class_over(x), lambda made: [made.w, made().total()]),
    "its instance": (lambda x: class_over(x)(), lambda one: [one.w, one.total()]),
    "type()": (lambda x: type("T", (), {"a": x * 2, "all": [x]}), lambda made: [made.a, made.all, made.__module__]),
    "iterators in slots": (lambda x: Slotted(iter([x * 2])), lambda one: list(one.a)),
    "deque": (lambda x: deque([x * 2, iter([x])], 3), lambda found: [found[0], list(found[1])]),
    "defaultdict": (lambda x: defaultdict(lambda: x * 2, a=x), lambda found: [found["a"], found["z"]]),
    "Counter": (lambda x: Counter({"a": x[0] * 2}), repr),
    "ChainMap": (lambda x: ChainMap({"a": x * 2}, {"b": x}), lambda found: [found["a"], found["b"]]),
    "MappingProxyType": (lambda x: types.MappingProxyType({"a": x * 2}), lambda found: found["a"]),
    "a weak reference": (lambda x: (lambda one: (weakref.ref(one), one))(Node(x * 2)), lambda found: found[0]().v),
    "property": (lambda x: property(lambda self: x * 2), lambda found: found.fget(None)),
    "staticmethod": (lambda x: staticmethod(lambda: x * 2), lambda found: found()),
    "a context": (lambda x: contextlib.nullcontext(x * 2), lambda found: found.enter_result),
    "a generator over variables": (lambda x: (W * 2 + x for _ in range(2)), list),
    "a generator over an object": (lambda x: iter(Node(x * 2)), list),
    "deep": (lambda x: functools.reduce(lambda v, _: types.SimpleNamespace(a=[v]), range(30), x * 2), repr),
}
#: Those that a replay makes again; of the others Python runs in each call.
MADE_AGAIN = {"a context", "ChainMap", "a method of a list", "Counter", "slice", "slices in a list"}
#: Results whose code reads its variables when it goes on.
WAITING = {
    "generator expression": (lambda x: (v * 2 for v in (x, x + 1)), list),
    "over an array": (lambda x: (v * 2 for v in x), list),
    "generator": (lambda x: numbers(x), list),
    "generator, begun": (lambda x: begun(numbers(x)), list),
    "in a list": (lambda x: [numbers(x), x * 2], lambda found: [list(found[0]), found[1]]),
    "in a dict": (lambda x: {"g": numbers(x)}, lambda found: list(found["g"])),
    "in an object": (lambda x: Node(numbers(x)), lambda found: list(found.v)),
    "in an iterator": (lambda x: enumerate(numbers(x)), list),
}
#: Those that hold what nobody can replace.
LATER = WAITING | {
    "generator, within a loop": (lambda x: begun(v * 2 for v in (x, x + 1)), list),
    "tee, begun": (lambda x: (lambda pair: (begun(pair[0]), pair[1]))(itertools.tee([x, x * 2])), lambda p: list(p[1])),
}


def leaves_traced(value):
    """Whether a traced array can be reached from *value*."""
    seen, stack = set(), [value]
    while stack and len(seen) < 3000:
        one = stack.pop()
        if type(one) is TracedArray:
            return True
        if id(one) not in seen and not isinstance(one, types.ModuleType | types.FrameType) and one is not globals():
            seen.add(id(one))
            stack += [] if isinstance(one, type) and one.__module__ == "builtins" else gc.get_referents(one)
    return False


@pytest.mark.parametrize("name", [*SETTLED, *LATER])
def test_a_value(name):
    function, look = (SETTLED | LATER)[name]
    compiled = compile_grad(function)
    for k in range(4):
        x = np.ones(3) + k
        found = compiled(x)
        assert not leaves_traced(found)
        assert repr(look(found)) == repr(look(function(x)))
    assert (compiled.stats.live == "") == (name in MADE_AGAIN)


@pytest.mark.parametrize("name", [*SETTLED, *WAITING])
def test_beside_a_loss(name):
    function, look = (SETTLED | WAITING)[name]
    compiled = compile_grad(lambda x: (np.sum(x * x), function(x)), has_aux=True)
    for k in range(3):
        x = np.ones(3) + k
        (value, found), gradient = compiled.value_and_grad(x)
        assert (value, gradient.tolist()) == (np.sum(x * x), (2 * x).tolist())
        assert not leaves_traced(found)
        assert repr(look(found)) == repr(look(function(x)))


@pytest.mark.parametrize("name", [name for name in LATER if name not in WAITING])
def test_beside_a_loss_it_is_refused_where_it_is_returned(name):
    function, _ = LATER[name]
    compiled = compile_grad(lambda x: (np.sum(x * x), function(x)), has_aux=True)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"returns a.* (generator|_tee), which holds .*: return a"):
            compiled.value_and_grad(np.ones(3))


@pytest.mark.parametrize("name", ["values", "enumerate", "map over a global", "a class", "generator, begun", "closure"])
def test_of_a_step(name):
    function, look = (SETTLED | LATER | {"closure": (lambda x: lambda: x * 2, lambda f: f())})[name]
    if name == "map over a global":
        t = tracegrad.tensor(W)
        function = lambda x: map(lambda v, u: v * 2 + u + t, [x * 2], [x])  # noqa: E731
    step = tracegrad.compile(function)
    for k in range(5):
        x = tracegrad.ones(3) + k
        found = step(x)
        assert not leaves_traced(found)
        assert repr(look(found)) == repr(look(function(x)))


def test_plain_python_has_its_effects_once():
    calls = []

    @compile_grad
    def f(x):
        calls.append(float(np.sum(x)))
        return (v * 2 for v in x)

    for k in range(4):
        assert list(f(np.ones(2) + k)) == [2.0 * (1 + k)] * 2
        assert calls == [2.0 * (1 + j) for j in range(k + 1)]
    assert "returns a generator, which reads values of the run later" in f.stats.live


def test_of_a_nested_compiled_function():
    inner = compile_grad(lambda x: (v * 2 for v in x))
    outer = compile_grad(lambda x: sum(inner(x)))
    for k in range(3):
        value, gradient = outer.value_and_grad(np.ones(2) + k)
        assert (value, gradient.tolist()) == (4.0 * (1 + k), [2.0, 2.0])


def test_a_memory_view_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"memoryview\(\).*make the view outside"):
        compile_grad(lambda x: memoryview(x * 2))(np.ones(2))


def test_the_error_can_be_pickled():
    compiled = compile_grad(lambda x: (np.sum(x), begun(v for v in (x, x))), has_aux=True)
    with pytest.raises(UnsupportedError) as caught:
        compiled.grad(np.ones(2))
    assert type(pickle.loads(pickle.dumps(caught.value))) is UnsupportedError


USES = {
    "asarray": lambda v: np.asarray(v, float),
    "array": np.array,
    "plain +": lambda v: np.ones(2) + v,
    "plain[0] = ": lambda v: operator.setitem(np.zeros(2), 0, v),
    "plain +=": lambda v: operator.iadd(np.zeros(2), v),
    "index": lambda v: np.arange(5)[v],
    "bool": lambda v: bool(v.sum()),
    "float": lambda v: float(v[0]),
    "compiled": lambda v: compile_grad(np.sum)(v),
    "in a compiled function": lambda v: compile_grad(lambda x: np.sum(x * v))(np.ones(2)),
    "tensor": tracegrad.tensor,
    "deepcopy": lambda v: copy.deepcopy(v) + 1,
}


@pytest.mark.parametrize("use", USES)
def test_a_traced_array_after_its_run_gives_an_ordinary_error(use):
    recorder = Recorder()
    recorder.repeatable = True
    with recording(recorder):
        lost = TracedArray(recorder.add_input(np.ones(2), "x"), recorder)
    with pytest.raises((TracegradError, ValueError)):  # NumPy wraps some
        USES[use](lost)


NOT_KEPT = {"methodcaller", "its instance"}  # whose parts effects do not look into


@pytest.mark.parametrize("name", [name for name in [*SETTLED, *LATER] if name not in NOT_KEPT])
def test_what_is_kept(name):
    function, look = (SETTLED | LATER)[name]
    holder, history = types.SimpleNamespace(last=None), []

    @compile_grad
    def f(x):
        holder.last = function(x)
        history.append(function(x))
        return np.sum(x * x)

    for k in range(3):
        x = np.ones(3) + k
        try:
            assert f(x) == np.sum(x * x)
        except UnsupportedError as error:
            assert "keeps" in str(error)
            continue
        for found in (holder.last, history[-1]):
            assert not leaves_traced(found)
            assert repr(look(found)) == repr(look(function(x)))


# ---- generators that are kept outside, where Python runs in each call -----------------------------------------------


def over_a_display(x):
    return (v * 0.5 for v in [np.sum(x), x[0]])


def over_a_tuple(x):
    s = np.sum(x)
    return (v * s for v in (x[0], 2.0))


def over_a_list(x):
    values = [x[0], x[1] * 2]
    return (v for v in values if v > 0)


def over_a_dict(x):
    return (f"{name}{float(v)}" for name, v in {"a": x[0], "b": np.sum(x)}.items())


def nested(x):
    return (v for u in [(x[0], x[1]), (np.sum(x),)] for v in u)


def with_an_argument(x, scale=2.0):
    def made(v, w=3.0):
        yield v * w
        v = v * scale
        yield v

    return made(np.sum(x), w=x[0])


def of_a_method(x):
    class Owner:
        def __init__(self, v):
            self.v = v

        def __iter__(self):
            yield self.v
            yield self.v * 2

    return iter(Owner(x * 2))


def gone_on(x):
    return begun(with_an_argument(x))


GENERATORS = [over_a_display, over_a_tuple, over_a_list, over_a_dict, nested, with_an_argument, of_a_method, gone_on]


@pytest.mark.parametrize("made", GENERATORS, ids=lambda made: made.__name__)
@pytest.mark.parametrize("where", ["attribute", "list", "dict"])
def test_generators_that_a_live_function_keeps(made, where):
    holder, history, named, turns = types.SimpleNamespace(last=None), [None], {}, itertools.cycle([1.0, 2.0])

    @compile_grad
    def f(x):
        next(turns)  # so that Python runs in each call
        if where == "attribute":
            holder.last = made(x)
        elif where == "list":
            history[0] = made(x)
        else:
            named["g"] = made(x)
        return np.sum(x * x)

    for k in range(3):
        x = np.ones(3) + k
        assert f.grad(x).tolist() == (2 * x).tolist()
        found = {"attribute": holder.last, "list": history[0], "dict": named.get("g")}[where]
        assert not leaves_traced(found)
        assert repr(list(found)) == repr(list(made(x)))


@pytest.mark.parametrize("mode", ["grad", "value_and_grad", "__call__"])
@pytest.mark.parametrize("values", [lambda x: (x, x * 2), lambda x: (np.sum(x), x[0], 1.0)])
def test_a_generator_within_a_loop_over_traced_values_is_refused_and_closed(values, mode):
    holder, turns = types.SimpleNamespace(last=None), itertools.cycle([1.0, 2.0])

    @compile_grad
    def f(x):
        next(turns)
        holder.last = begun(v * 2 for v in values(x))
        return np.sum(x * x)

    for k in range(2):
        try:
            getattr(f, mode)(np.ones(3) + k)
        except UnsupportedError as error:
            assert "keeps a generator" in str(error) and list(holder.last) == []
        else:  # plain Python
            assert mode == "__call__"
            assert repr(list(holder.last)) == repr([v * 2 for v in values(np.ones(3) + k)][1:])
        assert not leaves_traced(holder.last)


def method_over_a_variable(x):
    s = np.sum(x)

    class Local:
        def value(self):
            return s

    return Local()


def init_over_variables(x):
    s = np.sum(x)

    class Local:
        def __init__(self):
            self.v = s + x[0]

        def value(self):
            return self.v

    return Local()


def class_attribute(x):
    class Local:
        rate = np.sum(x)

        def value(self):
            return self.rate

    return Local()


def base_over_a_variable(x):
    class Base:
        def value(self, scale=x[0]):
            return scale * 2

    class Local(Base):
        pass

    return Local()


@pytest.mark.parametrize(
    "made",
    [method_over_a_variable, init_over_variables, class_attribute, base_over_a_variable],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("mode", ["__call__", "grad"])
def test_kept_instances_of_a_class_that_the_run_made(made, mode):
    holder = types.SimpleNamespace(last=None)

    @compile_grad
    def f(x):
        holder.last = made(x)
        return np.sum(x * x)

    for k in range(3):
        x = np.ones(3) + k
        getattr(f, mode)(x)
        assert not leaves_traced([holder.last, type(holder.last).__mro__[:-1]])
        assert repr(holder.last.value()) == repr(made(x).value())


def in_tuples(x):
    part = ([x[0]], 1)
    return [part, part, x]


def counted_rows(x):
    row = deque([x[0], 0.5])
    return {"rows": [row] * 2, "first": row}


def nested_twice(x):
    inner = [np.sum(x)]
    return inner, [inner, {"inner": inner}], 2 * x


def state_in_two_places(x):
    TREE["c"] = TREE["a"]
    return TREE


def state_and_its_copy(x):
    TREE["c"] = copy.copy(TREE["a"])
    TREE["a"]["b"].append(x[0])
    return TREE


TREE = {}


@pytest.mark.parametrize(
    "fn", [in_tuples, counted_rows, nested_twice, state_in_two_places, state_and_its_copy], ids=lambda f: f.__name__
)
def test_a_container_that_stands_twice_in_a_result(fn):
    """It is one object, as of plain Python's."""
    f = compile_grad(fn)
    for k in range(4):
        x, found = np.ones(3) + k, []
        for g in (f, fn):
            TREE.clear()
            TREE.update(a={"b": [], "n": 0.5}, c={})
            found.append(g(x))
        assert difference({"result": found[0]}, {"result": found[1]}) == ""


Pair = namedtuple("Pair", "a b")

#: What a function returns that the state ``s`` or the argument ``log`` has, too.
SHARED = {
    "a list that grows": "s.all.append(np.sum(x))\n    return s.all",
    "beside a value": "s.all.append(np.sum(x))\n    return np.sum(x * x), s.all",
    "as it is": "return s.cur",
    "as it is in a dict": "return {'cur': s.cur, 'sum': np.sum(x)}",
    "an item written": "s.cur[0] = np.sum(x)\n    return s.cur",
    "made and stored": "s.last = {'sum': np.sum(x)}\n    return s.last",
    "made and stored twice": "row = [x[0], 1.0]\n    s.last = row\n    s.all.append(row)\n    return [row, x]",
    "an argument that grows": "log.append(np.sum(x))\n    return log",
    "an argument as it is": "return log",
    "an argument that is stored": "s.by['log'] = log\n    log[:] = [x[0]]\n    return log, s.by",
    "before and after": "s.cur, s.last = [np.sum(x)], s.cur\n    return s.last, s.cur",
    "within what is stored": "s.by['a'] = {'b': [x[0]]}\n    return s.by['a']['b']",
    "an array in a tuple": "s.last = (x[0], x * 2)\n    return s.last",
    "an array in a named tuple": "s.last = Pair(x[0], x * 2)\n    return s.last",
    "an array in nested tuples": "s.last = Pair(0.5, (1, (x * 2, 2)))\n    return [s.last]",
    "an array in tuples within a list": "s.all.append(Pair(x * 2, 0.5))\n    return s.all[-1], s.all",
    "an array of a tuple beside it": "s.last = Pair(x * 2, x[0])\n    return s.last[0], s.last",
    "an array of an object's": "s.last = types.SimpleNamespace(v=x * 2)\n    return s.last.v",
    "what is not traced": "s.last = np.ones(3) * 2\n    return s.last",
    "what is not traced in a list": "s.by['a'] = [np.ones(3) * 2]\n    return s.by",
    "what is not traced in a tuple": "s.last = (np.ones(3) * 2, x)\n    return [s.last]",
    "what is not traced and grows": "s.all += [np.ones(3) * sum(s.cur)]\n    return s.all",
    "what is not traced, twice": "s.last = [np.ones(3)]\n    s.by = {'l': s.last}\n    return s.by, s.last[0]",
    "a view twice": "y = (x * 2)[:]\n    return {'l': [y, y]}",
    "a view twice and stored": "y = (x * 2)[1:]\n    s.last = [y]\n    return {'l': [y, y]}, y",
    "a number of a view that is stored": "s.last = (x * 2)[1:]\n    return s.last[0]",
    "what is not traced twice": "y = np.ones(3) * max(0.25, 0.5)\n    return [y, {'y': y}, x]",
    "what was chosen, twice": "y = np.ones(3) * max(5.0, 0.5 * x[0])\n    return [y, y]",
    "what is complex, twice": "y = x * 1j\n    return [y, y]",
    "a value twice": "y = x * 2\n    return [y, (y, {'y': y})]",
    "a number twice, and text": "y = x[1:] * 2\n    return [y, len(s.all), 'text', y]",
    "nothing of it": "return [list(s.cur), {'sum': np.sum(x)}]",
}


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("steps", [False, True])
def test_a_container_of_the_state_in_a_result(name, live, steps):
    """It is that of the state, in replays, too, and not one like it."""
    sides = []
    for _ in range(2):
        space = {"np": tracegrad if steps else np, "time": time, "types": types, "Pair": Pair, "__name__": "made"}
        space["s"] = types.SimpleNamespace(all=[], cur=[1.0, 2.0, 3.0], last=None, by={})
        exec(f"def f(x, log):\n    {'time.time()' if live else 'pass'}\n    {SHARED[name]}\n", space)
        sides.append((space["f"], {"s": space["s"], "log": [0.5]}))
    (f, mine), (g, plain) = sides
    f = (tracegrad.compile if steps else compile_grad)(f)
    for k in range(5):
        x = tracegrad.ones(3) * (k + 1) if steps else np.ones(3) + k
        mine["result"], plain["result"] = f(x, mine["log"]), g(x, plain["log"])
        assert difference(mine, plain) == "" and not leftovers(mine)


def test_a_container_that_stands_twice_beside_a_loss():
    def fn(x):
        row = [x[0]]
        return np.sum(x * x), [row, row]

    (loss, (a, b)), slope = autograd.value_and_grad(fn, has_aux=True)(np.ones(3))
    assert a is b and a == [1.0] and loss == 3.0 and slope.tolist() == [2.0] * 3


def test_a_reversed_list_that_the_run_has_made_longer():
    values = [0.5]

    def fn(x):
        values[:] = [np.sum(x), 1.5]
        return reversed(values)

    f = compile_grad(fn)
    for k in range(3):
        assert list(f(np.ones(3) + k)) == [1.5, 3.0 * (k + 1)]


#: A step that stores its loss, and returns what computes with it.
HELD = {
    "a function": lambda s: lambda: s * 2,
    "a default": lambda s: lambda v=s: v * 2,
    "nested": lambda s: [lambda: s * 2],
    "in a dict": lambda s: {"f": lambda: s * 2},
}


@pytest.mark.parametrize("name", HELD)
def test_a_step_that_returns_what_it_stores(name):
    losses = {}

    def step(x):
        losses["last"] = loss = (x * x).sum()
        return HELD[name](loss)

    f = tracegrad.compile(step)
    for k in range(4):
        found = f(tracegrad.ones(3) * (k + 1))
        while not callable(found):
            (found,) = found.values() if isinstance(found, dict) else found
        assert float(found()) == 6.0 * (k + 1) ** 2 and not leaves_traced([found, losses])


#: Results that lead to themselves, of a function that keeps a new object in each call.
RINGS = {
    "an object": "p.me = p; return p",
    "an object in a list": "p.me = p; return [p]",
    "a list in an object": "p.all.append(p); return p.all",
    "two objects": "q.other, p.other = p, q; return p, q",
    "a dict": "d['d'] = d; d['p'] = p; return p, list(d)",
}


@pytest.mark.parametrize("name", RINGS)
def test_results_that_lead_to_themselves(name):
    """Where Python runs and what it keeps is searched for, too."""
    space = {"np": np, "time": time, "p": Node(0.5), "q": Node(1.0), "d": {}, "seen": [], "Node": Node}
    space["p"].all = []
    exec(f"def f(x):\n    time.time()\n    seen.append(Node(x[0])); p.v = x[1]\n    {RINGS[name]}\n", space)
    f = compile_grad(space["f"])
    for k in range(3):
        found = f(np.ones(3) + k)
        assert not leftovers({"found": found, "seen": space["seen"], "p": space["p"], "d": space["d"]})
        assert space["p"].v == 1.0 + k and space["seen"][-1].v == 1.0 + k
