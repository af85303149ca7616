"""Caches keyed by objects around arrays: ``lru_cache``, cached properties, caches of one's own."""

import dataclasses
import functools
import time

import numpy as np
import pytest

from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X, W = np.arange(5.0) + 1, np.array([1.0, 2.0, 3.0, 4.0, 5.0])
fixed = np.array([0, 2])


class Key:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return np.array_equal(self.value, other.value)

    def __hash__(self):
        return hash(self.value.tobytes())


class KeyByText(Key):
    def __hash__(self):
        return hash(repr(self.value))


class KeyByShape(Key):
    def __hash__(self):
        return hash(self.value.shape)


class SlottedKey:
    __slots__ = ("hash", "value")

    def __init__(self, value):
        self.value, self.hash = value, hash((value.shape, value.tobytes()))

    def __eq__(self, other):
        return self.hash == other.hash

    def __hash__(self):
        return self.hash


@dataclasses.dataclass(frozen=True, eq=False)
class DataKey:
    value: np.ndarray

    def __eq__(self, other):
        return np.array_equal(self.value, other.value)

    def __hash__(self):
        return hash(self.value.tobytes())


def places(free, fixed):
    order = np.concatenate([free, fixed])
    place = np.zeros(len(order), int)
    place[order] = np.arange(len(order))
    return place


@functools.lru_cache(2)
def table(free, fixed):
    return places(free.value, fixed.value)


@functools.cache
def of_pair(pair):
    return places(pair[0].value, pair[1].value)


@functools.lru_cache
def powers(n, key):
    return np.vander(key.value * 1.0, n)


def by_bytes(function):
    kept = {}

    @functools.wraps(function)
    def call(*arrays):
        key = tuple(array.tobytes() for array in arrays)
        if key not in kept:
            kept[key] = function(*arrays)
        return kept[key]

    return call


def by_object(function):
    kept = {}

    def call(*arrays):
        key = tuple(Key(array) for array in arrays)
        if key not in kept:
            kept[key] = function(*arrays)
        return kept[key]

    return call


def by_identity(function):
    kept = {}

    def call(*arrays):
        key = tuple(id(array) for array in arrays)
        if key not in kept:
            kept[key] = function(*arrays), arrays
        return kept[key][0]

    return call


class Model:
    def __init__(self, free):
        self.free, self.memo = free, {}

    @functools.cache  # noqa: B019
    def table(self, key):
        return places(key.value, fixed)

    @functools.cached_property
    def place(self):
        return places(self.free, fixed)

    @functools.cached_property
    def key(self):
        return Key(self.free)

    def own(self):
        key = self.free.tobytes()
        if key not in self.memo:
            self.memo[key] = places(self.free, fixed)
        return self.memo[key]


def with_key(kind):
    return lambda free: lambda x: np.sum(x[table(kind(free), kind(fixed))] ** 2 * W)


def with_function(decorate):
    def make(free):
        found = decorate(places)
        return lambda x: np.sum(x[found(free, fixed)] ** 2 * W)

    return make


def of_model(index):
    def make(free):
        model = Model(free)
        return lambda x: np.sum(x[index(model)] ** 2 * W)

    return make


PROGRAMS = {
    **{kind.__name__: with_key(kind) for kind in (Key, KeyByText, KeyByShape, SlottedKey, DataKey)},
    **{decorate.__name__: with_function(decorate) for decorate in (by_bytes, by_object, by_identity)},
    "pair": lambda free: lambda x: np.sum(x[of_pair((Key(free), Key(fixed)))] ** 2 * W),
    "number too": lambda free: lambda x: np.sum(powers(3, Key(free)) @ x[:3] ** 2),
    "method": of_model(lambda m: m.table(Key(m.free))),
    "method of a kept key": of_model(lambda m: m.table(m.key)),
    "property": of_model(lambda m: m.place),
    "own": of_model(lambda m: m.own()),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_a_table_from_a_cache(name, warm):
    for cached in (table, of_pair, powers, Model.table):
        cached.cache_clear()
    free = np.array([3, 1, 4])
    f = PROGRAMS[name](free)
    if warm:
        f(X)
    g = compile_grad(f)
    for k in range(4):
        slopes = [(f(X + k + e) - f(X + k - e)) / 2e-6 for e in 1e-6 * np.eye(5)]
        assert np.allclose(g.grad(X + k), slopes, atol=1e-4)
    if name in ("Key", "KeyByShape", "DataKey", "pair", "number too", "method", "own", "by_bytes", "SlottedKey"):
        for order in ([1, 4, 3], [1, 4, 3], [3, 1, 4]):
            free[:] = order
            fresh = PROGRAMS[name](free.copy())
            if name in ("SlottedKey", "own", "by_bytes"):  # of which no key has changed in the cache
                assert np.allclose(g(X), fresh(X))


def test_a_key_of_arguments_goes_past_the_cache():
    @functools.lru_cache
    def doubled(key):
        return key.value * 2

    def f(x):
        return np.sum(doubled(KeyByShape(x)) * doubled(KeyByShape(x)))

    g = compile_grad(f)
    for k in range(4):
        assert np.allclose(g.grad(X + k), 8 * (X + k))
    assert "keeps its results" in g.stats.live and f(X) == g(X)


def test_no_traced_array_stays_in_a_cache_where_python_runs():
    @functools.lru_cache
    def doubled(key):
        return key.value * 2

    @functools.lru_cache
    def counted(key):
        return len(key.value)

    def f(x):
        time.time()
        return np.sum(doubled(KeyByShape(x)) * x) * counted(KeyByShape(x))

    g = compile_grad(f)
    for k in range(3):
        assert np.allclose(g.grad(X + k), 20 * (X + k))
        assert f(X + k) == g(X + k)
    assert g.stats.live
