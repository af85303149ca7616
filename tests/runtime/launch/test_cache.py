"""The kernel cache of the process, slots and call keys, looked at from inside."""

from __future__ import annotations

import threading

import numpy as np
import optree
import pytest

from tracegrad import compile_grad, config
from tracegrad.runtime.launch.kernel_cache import KernelCache
from tracegrad.runtime.paths.dispatcher import FunctionDispatcher
from tracegrad.runtime.record.call_key import ARRAY, FLOAT, OBJECT, SCALAR, VALUE, Static, classify, flatten
from tracegrad.runtime.record.trees import Source, flatten_tree, make_function, packing, unpacking

X = np.array([0.3, -1.2, 2.0, 0.7])


# ---- kernels ---------------------------------------------------------------------------------------------------------


class FakeCanonical:
    def __init__(self, key):
        self.key = key
        self.ops = []


@pytest.fixture
def cache():
    compiled = []

    def compile(canonical, arguments):
        compiled.append((canonical.key, arguments))
        return f"program {canonical.key}"

    before = config.max_kernels
    config.max_kernels = 3
    yield KernelCache(compile), compiled
    config.max_kernels = before


def test_least_recently_used_kernels_go_first(cache):
    kernels, compiled = cache
    for key in "abc":
        assert kernels.get(FakeCanonical(key), 1) == (f"program {key}", False)
    assert kernels.get(FakeCanonical("a"), 1) == ("program a", True)
    kernels.get(FakeCanonical("d"), 1)  # drops b
    assert [kernels.get(FakeCanonical(k), 1)[1] for k in "acd"] == [True, True, True]
    assert kernels.get(FakeCanonical("b"), 1)[1] is False
    assert (kernels.hits, kernels.compiles, len(kernels)) == (4, 5, 3)
    kernels.get(FakeCanonical("b"), 2)  # another split into arguments and constants is another kernel
    assert compiled[-1] == ("b", 2)
    kernels.clear()
    assert len(kernels) == 0


def test_two_threads_that_want_one_kernel_compile_it_once(cache, monkeypatch):
    kernels, compiled = cache
    gate = threading.Barrier(4)

    def work():
        gate.wait()
        kernels.get(FakeCanonical("x"), 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert compiled == [("x", 1)]


# ---- call keys -------------------------------------------------------------------------------------------------------


def same_key(a, b, static=frozenset()):
    return flatten((a,), {}, static).key == flatten((b,), {}, static).key


def test_what_is_part_of_the_call_key():
    assert same_key(1.0, 2.0) and not same_key(1.0, 1) and not same_key(1, 2) and not same_key(1, True)
    assert not same_key(1.0, np.float64(1.0)) and not same_key(np.float64(1), np.float32(1))
    assert not same_key(np.int64(1), 1) and same_key(np.int64(1), np.int64(1))
    assert same_key(np.ones(3), np.zeros(3)) and not same_key(np.ones(3), np.ones(4))
    assert not same_key(np.ones(3), np.ones(3, np.float32)) and not same_key(np.ones((2, 3)), np.ones((3, 2)).T)
    assert same_key(np.ones(6)[::2], np.ones(3))
    assert not same_key("a", "b") and same_key("a", "".join(["a"])) and not same_key("a", b"a")
    assert not same_key(None, 0) and not same_key((1.0,), [1.0]) and not same_key({"a": 1.0}, {"b": 1.0})
    assert not same_key({"a": 1.0, "b": 1.0}, {"b": 1.0, "a": 1.0})
    assert (
        not same_key(slice(0, 1), slice(0, 2))
        and same_key(0j, 1j)
        and not same_key(0j, 0.0)
        and not same_key(range(3), range(4))
    )


def test_static_values_in_the_key():
    first = frozenset([0])
    assert not same_key(0.0, -0.0, first) and same_key(0.5, 0.5, first) and same_key(float("nan"), float("nan"), first)
    assert (
        not same_key((1,), (True,), first) and not same_key((1,), (1.0,), first) and same_key((1, "a"), (1, "a"), first)
    )
    assert same_key([1], [2], first)  # can change: guarded as an object, by value, beside the key


def test_kinds():
    kinds = {
        1.5: FLOAT,
        np.float32(1): SCALAR,
        3: VALUE,
        "a": VALUE,
        np.int32(3): VALUE,
        print: OBJECT,
        int: OBJECT,
        Static((1, 2)): VALUE,
        Static(print): OBJECT,
    }
    assert {k: classify(k)[0] for k in kinds} == kinds
    assert classify(X)[0] == ARRAY and classify(Static([1]))[0] == OBJECT


# ---- generated code for trees ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tree",
    [
        1,
        (),
        [],
        {},
        None,
        (1,),
        [1, (2, 3)],
        {"a": 1, "b": [2, None]},
        {1: 2, (3, 4): 5},
        (((((6,),),),),),
        {"x": {"y": {"z": (1, 2)}}},
    ],
    ids=repr,
)
def test_generated_code_takes_trees_apart_and_puts_them_together(tree):
    leaves, spec = flatten_tree(tree)
    source = Source()
    texts = list(unpacking(source, spec, "tree"))
    source.lines.append(f"return [{', '.join(texts)}]")
    take = make_function("def take(tree):", source)
    assert take(tree) == leaves
    for other in (object(), (tree,), [tree], {"a": tree}, "text", None, (1, 2, 3), {"b": [2, None], "a": 1}):
        if not spec.is_prefix(flatten_tree(other)[1]):  # what stands in place of a leaf is for others to check
            assert take(other) is None
    source = Source()
    source.lines = [f"return {packing(source, spec, iter([f'leaves[{k}]' for k in range(len(leaves))]))}"]
    assert make_function("def put(leaves):", source)(leaves) == tree


def test_order_of_keys_counts():
    a, b = {"x": 1, "y": 2}, {"y": 2, "x": 1}
    assert flatten_tree(a)[1] != flatten_tree(b)[1]
    assert optree.tree_structure(a) == optree.tree_structure(b)  # elsewhere optree is left as it was


# ---- slots -----------------------------------------------------------------------------------------------------------


def test_cached_calls_do_not_look_at_the_call(monkeypatch):
    f = compile_grad(lambda x, k, p: np.sum(x * p["w"]) * k if x[0] < 9 else np.sum(x))
    p = {"w": X.copy()}
    for _ in range(3):
        f.value_and_grad(X, 3, p)
    monkeypatch.setattr(FunctionDispatcher, "dispatch", lambda *a: pytest.fail("not answered by a slot"))
    for _ in range(3):
        _value, gradient = f.value_and_grad(X, 3, p)
        np.testing.assert_allclose(gradient, 3 * X)
    assert f.value_and_grad(X * 2, int("3"), {"w": X})[0] == pytest.approx(6 * np.sum(X**2))


def test_several_slots_alternate(monkeypatch):
    f = compile_grad(lambda x: np.sum(x**2) if np.sum(x) > 0 else np.sum(x**3))
    inputs = (X, -X, np.arange(3.0), -np.arange(3.0))
    for _ in range(3):
        for x in inputs:
            f.grad(x)
    descents = []
    real = FunctionDispatcher.dispatch
    monkeypatch.setattr(FunctionDispatcher, "dispatch", lambda *a: descents.append(1) or real(*a))
    for _ in range(3):
        for x in inputs:
            np.testing.assert_allclose(f.grad(x), 2 * x if np.sum(x) > 0 else 3 * x**2)
    assert not descents and len(f._grad.slots) == 2  # one for each shape, with both paths


def test_objects_and_methods_have_slots(monkeypatch):
    class Model:
        def __init__(self):
            self.w = X.copy()
            self.k = 2.0

        @compile_grad
        def loss(self, x, cfg):
            return np.sum(self.w * x) * self.k * cfg.scale

    class Settings:
        scale = 3.0

    model, cfg = Model(), Settings()
    for _ in range(3):
        model.loss.grad(X, cfg)
    monkeypatch.setattr(FunctionDispatcher, "dispatch", lambda *a: pytest.fail("not answered by a slot"))
    model.w[0] = 7.0
    np.testing.assert_allclose(model.loss.grad(X, cfg), model.w * 6)
