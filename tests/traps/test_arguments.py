"""Traps: what a function does to a list or dict among its arguments is what plain Python would have done to it."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import ClassVar

import numpy as np
import optree
import pytest

from tracegrad import UnsupportedError, compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")

State = namedtuple("State", "rate history")
SEEN: list[object] = []


def append(x, log):
    log.append(np.sum(x))
    return np.sum(x * x)


def append_where_something_is_traced(x, log):
    log.append(float(len(log)))
    return np.sum(x * x) * log[0]


def store(x, cache):
    cache["loss"] = loss = np.sum(x * x)
    cache["n"] = cache.get("n", 0) + 1
    cache.pop("gone", None)
    return loss


def setdefault(x, cache):
    cache.setdefault("all", []).append((np.sum(x), x))
    return np.sum(x)


def sort(x, values):
    values.sort()
    return np.sum(x) * values[0]


def edit(x, values):
    values[0] = x * 2
    values.reverse()
    del values[1:]
    values += [3, x.mean()]
    return x.sum()


def nested(x, state):
    state.history.append(state.rate * 2)
    state.history[0]["x"] = x
    return np.sum(x) * state.rate


def reorder(x, recent):
    recent.move_to_end("a")
    return np.sum(x) * recent["b"]


def rotate(x, window):
    window.append(x[0])
    return np.sum(x) + len(window)


def count(x, counts):
    counts["calls"] += 1.5
    return np.sum(x)


def twice(x, one, other):
    one.append(np.sum(x))
    other.append(1)
    return np.sum(x) + len(one)


def _same_list_twice():
    log = [1.0, 2]
    return log, log


CASES = {
    append: lambda: ([],),
    append_where_something_is_traced: lambda: ([2.0],),
    store: lambda: ({"gone": 1.5},),
    setdefault: lambda: ({},),
    sort: lambda: ([3.0, 1.0, 2.0],),
    edit: lambda: ([np.ones(2), 4.0],),
    nested: lambda: (State(2.0, [{}]),),
    reorder: lambda: (OrderedDict(a=1.0, b=2.0),),
    rotate: lambda: (deque([1.0], maxlen=3),),
    count: lambda: (defaultdict(float, {"x": 1.0}),),
    twice: _same_list_twice,
}


@pytest.mark.parametrize("mode", ["__call__", "value_and_grad"])
@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
def test_changes_of_containers_are_seen_by_the_caller(fn, mode):
    compiled, mine, plain = compile_grad(fn), CASES[fn](), CASES[fn]()
    for k in range(4):
        x = np.arange(3.0) + k
        found = getattr(compiled, mode)(x, *mine)
        np.testing.assert_allclose(found if mode == "__call__" else found[0], fn(x, *plain))
        assert repr(mine) == repr(plain)


class Layer:
    """A layer that keeps what its derivative by hand would need; *state* is the attribute of a slot."""

    __slots__ = ("__dict__", "state")

    def __init__(self, n, m):
        self.W, self.b, self.calls = np.linspace(-1, 1, n * m).reshape(n, m), np.zeros(m), 0
        self.state = None

    def forward(self, x):
        self.x, self.z = x, x @ self.W + self.b
        self.calls += 1
        self.state = (self.calls, [self.z.mean()])
        return np.tanh(self.z)


class Network:
    def __init__(self):
        self.layers = [Layer(3, 2), Layer(2, 1)]

    def loss(self, X, y):
        for layer in self.layers:
            X = layer.forward(X)
        self.last = np.mean((X[:, 0] - y) ** 2)
        return self.last


def forward(cache, X, y):
    cache["A0"] = X
    for k in (1, 2):
        cache[f"Z{k}"] = cache[f"A{k - 1}"] @ np.ones((X.shape[1], X.shape[1]))
        cache[f"A{k}"] = np.maximum(cache[f"Z{k}"], 0)
    cache["same"], cache["zeros"], cache["shape"] = cache["A2"], np.zeros(2), X.shape
    return np.sum((cache["A2"].T - y) ** 2)


def normalize(state, X, y):
    state["mean"] = 0.9 * state["mean"] + 0.1 * X.mean(axis=0)
    state["n"] += 1
    state["steps"][0], state["steps"][1] = state["steps"][1], state["steps"][0] * y[0]
    del state["old"]
    state["old"] = {"y": y, "name": f"step {len(y)}"}
    return np.sum((X - state["mean"]) ** 2) / state["n"]


KEEPERS = {
    Network.loss: Network,
    forward: dict,
    normalize: lambda: {"mean": np.zeros(3), "n": 0, "old": None, "steps": [1.0, 2.0]},
}


@pytest.mark.parametrize("fn", KEEPERS, ids=lambda fn: fn.__name__)
def test_what_is_kept_in_arguments_is_kept_by_replays(fn):
    compiled = compile_grad(fn, argnums=int(fn is not Network.loss))
    mine, plain, rng = KEEPERS[fn](), KEEPERS[fn](), np.random.default_rng(0)
    for k in range(12):
        X, y = rng.normal(size=(4, 3)), rng.normal(size=4)
        found = compiled(mine, X, y) if k % 4 == 2 else compiled.value_and_grad(mine, X, y)[0]
        np.testing.assert_allclose(found, fn(plain, X, y), rtol=1e-12)
        assert_same(mine, plain)
        if fn is forward:
            assert mine["A0"] is X
            assert mine["same"] is mine["A2"]
            assert type(mine["zeros"]) is np.ndarray
    assert compiled.stats.traces <= 7, compiled.stats
    assert not compiled.stats.live


def assert_same(mine, plain):
    assert type(mine) is type(plain) or isinstance(mine, float)
    if isinstance(plain, np.ndarray | float | int):
        np.testing.assert_allclose(mine, plain, rtol=1e-12)
    elif isinstance(plain, dict):
        assert list(mine) == list(plain)
        assert_same(list(mine.values()), list(plain.values()))
    elif isinstance(plain, list | tuple):
        assert len(mine) == len(plain)
        for a, b in zip(mine, plain, strict=True):
            assert_same(a, b)
    elif isinstance(plain, Network | Layer):
        assert_same([getattr(mine, "state", None), vars(mine)], [getattr(plain, "state", None), vars(plain)])
    else:
        assert mine == plain


def test_an_argument_that_is_kept_is_the_callers_own_object():
    def keep(x, held, cache):
        cache["x"], cache["held"], cache["twice"] = x, held, x * 2
        cache["again"] = cache["twice"]
        return np.sum(x) * held[0]

    compiled = compile_grad(keep)
    for _ in range(3):
        x, held, cache = np.ones(3), [2.0], {}
        compiled.grad(x, held, cache)
        assert cache["x"] is x and cache["held"] is held
        assert type(cache["twice"]) is np.ndarray and cache["again"] is cache["twice"]


def test_changes_stay_where_the_function_raises():
    def fails(x, log):
        log.append(np.sum(x))
        raise ValueError("no")

    compiled, log = compile_grad(fails), [1.0]
    for k in range(1, 4):
        with pytest.raises(ValueError, match="no"):
            compiled(np.ones(2), log)
        assert log == [1.0] + [2.0] * k


def test_an_argument_that_is_outside_state_too_is_one_object():
    @compile_grad
    def f(x, log):
        log.append(np.sum(x))
        SEEN.append(2)
        return np.sum(x) * len(log) * (1 if log is SEEN else -1)

    try:
        for k in range(1, 4):
            assert f(np.ones(3), SEEN) == 6 * k
            assert [3.0, 2] * k == SEEN
        assert f(np.ones(3), []) == -3
    finally:
        SEEN.clear()


READS_OF_SEEN = ["len(SEEN)", "SEEN[0]", "SEEN[-1]", "(2.0 if SEEN else 1.0)"]


@pytest.mark.parametrize("read", READS_OF_SEEN)
@pytest.mark.parametrize("before", [0, 1, 4])
def test_an_argument_that_is_a_list_which_grows_outside(read, before):
    def calls(compiled):
        space = {"np": np, "SEEN": [1.0]}
        exec(f"def f(x, log):\n log.append(np.sum(x))\n SEEN.append(2.0)\n return log[-1] * {read} + len(log)", space)
        f, other = compile_grad(space["f"]) if compiled else space["f"], []
        found = [float(f(np.ones(3), log)) for log in [other] * before + [space["SEEN"]] * 3 + [other] * 2]
        return found, other, space["SEEN"]

    assert calls(True) == calls(False)


def test_containers_that_nobody_changes_are_replayed_and_left_alone():
    @compile_grad
    def f(params, x):
        return np.sum(params["w"] * x) + params["more"][0]

    w, more = np.ones(3), [1.0]
    params = {"w": w, "more": more}
    for _ in range(3):
        f.grad(params, np.ones(3))
        assert params == {"w": w, "more": more} and params["w"] is w and params["more"] is more
    assert not f.stats.live and f.stats.traces == 1


def test_one_list_in_two_places_and_then_two_lists():
    @compile_grad
    def f(x, a, b):
        return np.sum(x) * a[0] + b[0]

    one, other = [2.0], [5.0]
    for _ in range(2):
        for a, b in ((one, one), (one, other), (other, one)):
            assert f(np.ones(2), a, b) == 2 * a[0] + b[0]


@optree.register_pytree_node_class(namespace="tracegrad")
class Registered:
    def __init__(self, w):
        self.w = w

    def tree_flatten(self):
        return (self.w,), None, ("w",)

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@pytest.mark.parametrize("mode", ["value", "grad", "both"])
@pytest.mark.parametrize("form", [lambda o: (o,), lambda o: [o], lambda o: {"o": o}])
def test_one_registered_object_in_two_places_and_then_two_objects(form, mode):
    def fn(p, q):
        (p,), (q,) = [tuple(x.values()) if type(x) is dict else x for x in (p, q)]
        return np.sum(p.w * q.w**2)

    f = compile_grad(fn)
    calls = {"value": f, "grad": lambda *a: _number_of(f.grad(*a)), "both": lambda *a: f.value_and_grad(*a)[0]}
    one, two = Registered(np.ones(2)), Registered(np.full(2, 3.0))
    for p, q in ((one, one), (one, two), (two, one), (two, two)):
        for _ in range(3):
            expected = np.sum(q.w**2) if mode == "grad" else fn([p], [q])
            assert calls[mode](form(p), form(q)) == expected


def _number_of(gradient):
    return sum(np.sum(leaf) for leaf in optree.tree_leaves(gradient, namespace="tracegrad"))


def test_parameters_that_threads_share_are_never_seen_traced():
    @compile_grad
    def f(params, x):
        return np.sum(params["w"] * x) ** params["power"]

    params = {"w": np.ones(3), "power": 2.0}
    seen, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            seen.extend({type(v) for v in params.values()} - {np.ndarray, float})

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for n in range(1, 4):
            params["w"] = np.ones(n)
            f.grad(params, np.ones(n))
    finally:
        stop.set()
        watcher.join()
    assert not seen


@pytest.mark.parametrize("kind", ["list", "dict", "nested", "keyword"])
def test_containers_that_hold_themselves_are_named(kind):
    f = compile_grad(lambda x, things, other=None: np.sum(x))
    loop: list[object] = [1.0]
    loop.append({"self": loop} if kind == "dict" else loop)
    with pytest.raises(UnsupportedError, match="`other`" if kind == "keyword" else "`things`"):
        if kind == "keyword":
            f(np.ones(2), 1.0, other=loop)
        else:
            f(np.ones(2), [[loop]] if kind == "nested" else loop)


class ByItem(dict):
    __getattr__ = dict.__getitem__

    def __init__(self):
        super().__init__(rate=2.0)


class Named:
    rate = 2.0

    def __getattr__(self, name):
        raise KeyError(name)


class Counting:
    rate = 2.0
    asked: ClassVar = []

    def __getattr__(self, name):
        self.asked.append(name)
        raise AttributeError(name)


class Answers:
    rate = 2.0

    def __getattr__(self, name):
        return {"shape": (2,)}


@pytest.mark.parametrize("kind", [ByItem, Named, Counting, Answers])
def test_nobody_else_asks_an_argument_for_attributes(kind):
    argument = kind()

    @compile_grad
    def f(x, settings):
        return settings.rate * np.sum(x)

    for _ in range(3):
        assert f.grad(np.ones(2), argument).tolist() == [2.0, 2.0]
    assert Counting.asked == []


CONVERTED = {
    "a mapped file": lambda path: np.memmap(path, dtype=float, shape=3, mode="w+"),
    "another byte order": lambda path: np.arange(3.0).astype(">f8"),
}


@pytest.mark.parametrize("made", CONVERTED)
def test_an_argument_that_is_converted_is_kept_and_returned_as_it_is(made, tmp_path):
    kept = []

    def f(x):
        kept.append(x)
        return np.sum(x), x

    compiled, x = compile_grad(f), CONVERTED[made](tmp_path / "x.bin")
    for _ in range(4):
        total, same = compiled(x)
        assert same is x and kept[-1] is x and total == np.sum(x)
