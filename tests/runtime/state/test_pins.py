"""Pins: what has changed is noticed, by the native comparison and without it, and nothing else."""

from __future__ import annotations

import abc
import concurrent.futures
import contextvars
import importlib
import types

import numpy as np
import pytest

import tracegrad
from tracegrad.codegen.cpu.cpython import fault
from tracegrad.runtime.state import pins
from tracegrad.runtime.state.pins import Pins
from tracegrad.runtime.state.trust import Trust


@pytest.fixture(params=["native", "in Python"])
def ready(request, monkeypatch):
    native = request.param == "native"
    if native and fault() is not None:
        pytest.skip("objects of this interpreter are laid out in another way")
    assert pins.has_versions() or not native
    if not native:
        monkeypatch.setattr(pins, "has_versions", lambda: False)
    return native


def made(names=(), classes=(), stores=(), lists=(), abstract=False, functions=()):
    found = Pins(set(names), Trust(), classes, stores, lists, abstract, functions)
    assert found.settle() and found.settle()  # from the second time on there is compiled code
    return found


def holds(pinned):
    return pinned.same() or pinned.settle()


class Base:
    pass


def classes():
    low = type("Low", (), {"rate": 1.0, "other": 1.0})
    return low, type("High", (low,), {})


CHANGES = {
    "a name that counts": lambda low, high: setattr(high, "rate", 1.0),
    "one less": lambda low, high: delattr(low, "rate"),
    "a special method": lambda low, high: setattr(low, "__len__", lambda self: 1),
    "a hook": lambda low, high: setattr(high, "__getattr__", lambda self, name: 1),
    "a descriptor": lambda low, high: setattr(low, "rate", property(lambda self: 1.0)),
    "a base": lambda low, high: setattr(high, "__bases__", (type("L", (Base,), {}),)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_classes(ready, change):
    low, high = classes()
    pinned = made({"rate"}, [high])
    assert holds(pinned)
    assert pinned.same() is ready
    CHANGES[change](low, high)
    assert not pinned.same()
    assert not pinned.settle()


def test_the_first_comparison_is_made_in_python(ready):
    low, high = classes()
    pinned = Pins({"rate"}, Trust(), [high], [], [], False)
    assert not pinned.same() and pinned.settle()
    assert not pinned.same() and pinned.settle()
    assert pinned.same() is ready
    del low.rate
    assert not pinned.same() and not pinned.settle()


def test_where_it_does_not_compile_all_is_compared_in_python(monkeypatch):
    monkeypatch.setattr(pins, "comparer", lambda: 1 / 0)
    low, high = classes()
    pinned = made({"rate"}, [high])
    for _ in range(3):
        assert not pinned.same() and pinned.settle()
    del low.rate
    assert not pinned.settle()


def test_what_does_not_count(ready):
    low, high = classes()
    pinned = made({"rate"}, [high])
    for k in range(3):
        low.other = high.unknown = k
        assert not pinned.same()
        assert pinned.settle()
        assert pinned.same() is ready  # until the next change


def test_stores(ready):
    class Owner:
        pass

    owner = Owner()
    owner.a, owner.b = 1.5, [1]
    whole, absent = made(stores=[(owner, owner.__dict__, None)]), made(stores=[(owner, owner.__dict__, frozenset("x"))])
    assert holds(whole)
    owner.a = float("1.5")  # equal
    assert not whole.same()
    assert whole.settle()
    owner.c = 1
    assert not holds(whole)
    assert holds(absent)
    owner.x = 1
    assert not holds(absent)
    del owner.c, owner.x
    assert holds(whole)
    owner.b = [1]  # another list
    assert not holds(whole)
    assert holds(absent)
    owner.__dict__ = dict(owner.__dict__)
    assert not holds(absent)


def test_another_class_of_an_owner(ready):
    class A:
        pass

    class B:
        pass

    a = A()
    pinned = made(stores=[(a, a.__dict__, None)])
    a.__class__ = B
    assert not holds(pinned)


def test_lists(ready):
    items = [[], 1.0]
    pinned = made(lists=[items])
    assert holds(pinned)
    items[0].append(1)
    assert holds(pinned)
    items.append(2)
    assert not holds(pinned)
    items.pop()
    assert holds(pinned)
    items[0] = []
    assert not holds(pinned)


def plain(x):
    return x


def with_defaults(x, y=1.0, *, z=None):
    return x, y, z


def with_keyword(x, *, z):
    return x, z


PARTS = {
    "code": (plain, "__code__", (lambda x: 2.0).__code__),
    "code beside defaults": (with_defaults, "__code__", (lambda x, y, *, z: 2.0).__code__),
    "defaults": (with_defaults, "__defaults__", (2.0,)),
    "no defaults": (with_defaults, "__defaults__", None),
    "a default for a keyword": (with_keyword, "__kwdefaults__", {"z": 1.0}),
}


@pytest.mark.parametrize("part", PARTS)
def test_functions(ready, part):
    function, name, value = PARTS[part]
    before = getattr(function, name)
    pinned = made(functions=[plain, function])
    assert holds(pinned)
    setattr(function, name, value)
    try:
        assert not holds(pinned)
    finally:
        setattr(function, name, before)
    assert holds(pinned)


def test_settings_of_floating_point_errors(ready):
    pinned = made()
    assert pinned.same() is ready
    for _ in range(2):
        with np.errstate(divide="ignore"):  # an object of its own, which raises nothing
            assert not pinned.same()
            assert pinned.settle()
            assert pinned.same() is ready
            with np.errstate(over="raise"):
                assert not holds(pinned)
            assert holds(pinned)
        with np.errstate(invalid="call", call=lambda *_: None):
            assert not holds(pinned)
        assert holds(pinned)
        assert pinned.same() is ready


def test_settings_in_another_thread_and_context(ready):
    pinned = made()
    with np.errstate(all="raise"):
        inside = contextvars.copy_context()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert pool.submit(holds, pinned).result()  # in a context of its own
            assert not pool.submit(inside.copy().run, holds, pinned).result()
    assert holds(pinned)
    assert not inside.run(holds, pinned)
    assert holds(pinned)


def test_registrations():
    class Abstract(abc.ABC):  # noqa: B024
        pass

    asks, does_not = made(classes=[Base], abstract=True), made(classes=[Base])
    Abstract.register(Base)
    assert not asks.settle()
    assert does_not.settle()


def test_keys_by_identity_and_order(ready):
    store = {"a": 1, "b": 2}
    pinned = made(stores=[(None, store, None)])
    store["a"] = store.pop("a")
    assert not holds(pinned)


def module():
    """The dict of a module, and a function of its own in it."""
    store = vars(types.ModuleType("tools"))
    store.update(act=lambda x: x, rate=float("0.25"), count=3, **{f"other_{k}": k for k in range(40)})
    return store


def of_module(store):
    entries = [(store, "act", store["act"], False), (store, "rate", store["rate"], True)]
    found = Pins(set(), Trust(), [], [], [], False, entries=entries)
    assert all(found.has_entry(store, name) for name in ("act", "rate"))
    assert not found.has_entry(store, "count") and not found.has_entry({}, "act")
    assert found.settle() and found.settle() and found.same()
    return found


ENTRIES = {
    "another value": lambda store: store.update(act=len),
    "another number": lambda store: store.update(rate=float("0.5")),
    "one less": lambda store: store.pop("act"),
    "none at all": lambda store: store.clear(),
    "one less, and room for others": lambda store: (
        store.pop("rate"),
        store.update({f"new_{k}": k for k in range(99)}),
    ),
    "another value, in another place": lambda store: (store.pop("act"), store.update(act=len)),
}


@pytest.fixture
def laid_out():
    if not pins.has_entries():
        pytest.skip("dicts of this interpreter are laid out in another way")


@pytest.mark.parametrize("change", ENTRIES)
def test_an_entry_of_a_module_is_another_one(laid_out, change):
    pinned = of_module(store := module())
    ENTRIES[change](store)
    assert not pinned.same() and not pinned.settle() and not pinned.same()


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.update(count=4),
        lambda store: store.update(rate=float("0.25")),  # another object
        lambda store: store.update({f"new_{k}": k for k in range(99)}),  # a larger table
        lambda store: store.update(act=store.pop("act")),
        lambda store: [store.pop(f"other_{k}") for k in range(40)],
    ],
)
def test_entries_of_a_module_that_are_as_they_were(laid_out, change):
    pinned = of_module(store := module())
    change(store)
    assert holds(pinned) and pinned.same()
    store["act"] = len
    assert not holds(pinned)


def test_values_of_entries_are_no_others_at_the_same_address(laid_out):
    pinned = of_module(store := module())
    for _ in range(50):
        store["rate"] = None  # frees the number before, whose memory the next one takes
        store["rate"] = float("0.25")
        assert holds(pinned)
        store["rate"] = None
        store["rate"] = float("0.75")
        assert not holds(pinned)
        store["rate"] = float("0.25")


def test_the_table_of_a_dict_that_was_shared_is_left_to_others(laid_out):
    class Plain:
        def __init__(self):
            self.act, self.rate = len, 1.0

    store = vars(Plain())
    found = Pins(set(), Trust(), [], [], [], False, entries=[(store, "act", store["act"], False)])
    assert holds(found)
    store["act"] = max
    assert not found.has_entry(store, "act") or not holds(found)


def test_functions_of_numpy_and_of_helpers_are_compared_in_the_call_of_the_pins(laid_out, monkeypatch, tmp_path):
    (tmp_path / "pinned_helpers.py").write_text(
        "import numpy as np\ndef damp(x):\n    return scale(x) * 0.5\ndef scale(x):\n    return np.tanh(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    helpers = importlib.import_module("pinned_helpers")

    def loss(x):
        return np.sum(helpers.damp(x)) + np.sum(np.sin(x))

    compiled, x = tracegrad.compile_grad(loss), np.linspace(0.1, 1.0, 5)
    value = [compiled(x) for _ in range(4)][-1]
    slot = compiled._value.first
    assert not {"sin", "sum", "tanh", "scale", "damp"} & {*slot.__code__.co_consts}  # it reads none of them itself
    monkeypatch.setattr(np, "a_name_to_come", 1.0, raising=False)
    assert compiled(x) == value == pytest.approx(loss(x)) and compiled.stats.traces == 1
    for module, name, other in ((np, "sin", np.cos), (helpers, "scale", lambda x: x), (np, "tanh", np.cosh)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, other)
            assert compiled(x) == pytest.approx(loss(x)) and compiled(x) != value
        assert compiled(x) == value
