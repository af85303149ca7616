"""Traps: objects, exceptions and closures that leave a function hold the numbers that plain Python would put there.

They are made while the function is recorded, of traced arrays, which mean nothing to the caller.
"""

from __future__ import annotations

import functools
import itertools
import sys
import time
import types
from collections import deque
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from leftovers import leftovers
from with_source import code_of

import tracegrad
from tracegrad import compile_grad
from tracegrad.runtime.record.unwrap_tracers import Holders
from tracegrad.runtime.record.written_places import WrittenPlaces
from tracegrad.tracer.record.array import TracedArray

pytestmark = pytest.mark.usefixtures("fresh_kernels")


@dataclass
class Result:
    x: object
    fun: object = None
    n: int = 0


class Slotted:
    __slots__ = ("parts",)

    def __init__(self, *parts):
        self.parts = parts


class DivergedError(RuntimeError):
    def __init__(self, loss, history):
        super().__init__(f"loss={loss:.3f} at last", history)
        self.loss = loss


class Estimator:
    def __init__(self):
        self.coef, self.fitted = None, 0

    def fit(self, x):
        self.coef, self.fitted = x / np.sum(x), self.fitted + 1
        return self


def picture(value):
    """*value* in tuples and plain numbers, with the types of all that is no number."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, float | int | str | None):
        return value if isinstance(value, str | None) else float(value)
    if isinstance(value, list | tuple | deque):
        return type(value), [picture(part) for part in value]
    if isinstance(value, dict):
        return {key: picture(part) for key, part in value.items()}
    if isinstance(value, BaseException):
        return type(value), picture(value.args), picture(vars(value)), picture(value.__cause__)
    if isinstance(value, Slotted):
        return picture(value.parts)
    return type(value), picture(vars(value))


def the_object(x):
    return Result(x * 2, np.sum(x), len(x))


def within_containers(x):
    return {"best": Result(np.max(x)), "all": [Result(v, (v * v,)) for v in x]}


def in_slots(x):
    return Slotted(np.sum(x), [x + 1, {"x": x}])


def nested(x):
    return Result(Result(x, [Result(np.prod(x))]), x)


def an_exception(x):
    try:
        raise DivergedError(np.sum(x), [x[0], x])
    except DivergedError as error:
        return error


@pytest.mark.parametrize("function", [the_object, within_containers, in_slots, nested, an_exception])
def test_results_are_objects(function):
    compiled = compile_grad(function)
    for k in range(4):
        x = np.arange(3.0) + k
        assert picture(compiled(x)) == picture(function(x))


def closure(x):
    total = np.sum(x)
    return lambda y, scale=x[0]: total * y + scale


def a_partial(x):
    return partial(np.multiply, np.sum(x))


def nested_closure(x):
    def outer(y):
        return y + inner(y)

    highest = np.max(x)

    def inner(y, *, scale=highest):
        return y * scale

    return outer


@pytest.mark.parametrize("function", [closure, a_partial, nested_closure])
def test_results_are_functions(function):
    compiled = compile_grad(function)
    for k in range(4):
        x = np.arange(3.0) + k
        assert compiled(x)(5.0) == function(x)(5.0)


def test_the_object_itself_is_returned():
    one, other = Estimator(), Estimator()
    one.fit = compile_grad(Estimator.fit)
    for k in range(4):
        for each in (one, other):
            assert one.fit(each, np.arange(3.0) + k) is each
            assert each.coef.tolist() == (np.arange(3.0) + k).__truediv__(np.sum(np.arange(3.0) + k)).tolist()
    assert (one.fitted, other.fitted) == (4, 4)


def test_an_equal_object_in_place_of_the_one_that_is_returned():
    kept = Result(1)

    @compile_grad
    def f(x):
        return kept, np.sum(x)

    for k in range(6):
        if k % 3 == 2:
            kept = Result(1)
        assert f(np.ones(2))[0] is kept


def test_the_auxiliary_result_is_an_object():
    @compile_grad(has_aux=True)
    def f(x, y):
        return np.sum((x - y) ** 2), Result(x - y, n=len(x))

    for k in range(4):
        (loss, info), gradient = f.value_and_grad(np.arange(2.0) + k, np.ones(2))
        assert info.x.tolist() == [k - 1.0, float(k)] and info.n == 2
        assert gradient.tolist() == [2 * k - 2.0, 2.0 * k]
        assert loss == np.sum(info.x**2)


def raises_text(x):
    if np.sum(x) > 4:
        raise ValueError(f"{x[0]} is too much, {np.max(x):.2f} at most; {x!r}")
    return np.sum(x)


def raises_values(x):
    if np.sum(x) > 4:
        raise DivergedError(np.sum(x), {"x": x, "pair": (x[0], [x[1]])})
    return np.sum(x)


def raises_from(x):
    try:
        if np.sum(x) > 4:
            raise KeyError(x[0])
    except KeyError as error:
        raise ValueError(x) from error
    return np.sum(x)


def raises_with_notes(x):
    error = ValueError()
    error.add_note(f"x = {x[1]}")
    error.where = x
    if np.sum(x) > 4:
        raise error
    return np.sum(x)


def asserts(x):
    if not np.sum(x) <= 4:
        raise AssertionError(f"sum is {np.sum(x)}")
    return np.sum(x)


@pytest.mark.parametrize("function", [raises_text, raises_values, raises_from, raises_with_notes, asserts])
@pytest.mark.parametrize("live", [False, True])
def test_exceptions(function, live):
    keep = itertools.count()

    def counted(x):
        next(keep)
        return function(x)

    def outcome(f, x):
        try:
            return f(x)
        except (ValueError, RuntimeError, AssertionError) as error:
            return picture(error)

    compiled = compile_grad(counted if live else function)
    for k in (0, 1, 2, 0, 3, 2, 0):
        x = np.arange(3.0) + k
        assert outcome(compiled, x) == outcome(function, x)
    assert bool(compiled.stats.live) is live


class Bag:
    pass


def by_dict(bag, x):
    bag.__dict__["last"] = np.sum(x)


def by_vars(bag, x):
    vars(bag).update(last=(x, [np.sum(x)]))


def by_two_names(bag, x):
    store = vars(bag)
    store["first"], store["pair"] = x[0], {"sum": np.sum(x)}


@pytest.mark.parametrize("write", [by_dict, by_vars, by_two_names])
def test_written_past_the_attributes(write):
    bag, plain = Bag(), Bag()

    @compile_grad
    def f(x):
        write(bag, x)
        return np.sum(x * x)

    for k in range(4):
        x = np.arange(3.0) + k
        f.grad(x)
        write(plain, x)
        assert picture(bag) == picture(plain)


def test_written_by_the_names_of_the_module():
    @compile_grad
    def f(x):
        globals()["WRITTEN"] = np.sum(x)
        return np.sum(x * x)

    try:
        for k in range(3):
            f(np.arange(3.0) + k)
            assert type(globals()["WRITTEN"]) is np.float64 and globals()["WRITTEN"] == 3.0 + 3 * k
    finally:
        del globals()["WRITTEN"]


def test_of_a_dict_the_item_that_is_written_is_looked_at_alone():
    places, seen, store = WrittenPlaces(lambda: None), [], {"a": [1.0], "all else": [object()]}
    places.item(store, "a", [2.0])
    places.item(store["all else"], 0, object())
    store["a"] = [2.0]

    def plain(value):
        seen.append(value)
        return value

    places.settle(plain)
    assert seen == [[2.0], store["all else"]]


@pytest.mark.parametrize("number", [False, True])
def test_exceptions_of_steps(number):
    w = tracegrad.tensor([1.0, 2.0], requires_grad=True)

    @tracegrad.compile
    def step(x):
        loss = (w * x).sum()
        if loss.item() > 10:
            raise DivergedError(loss.item() if number else 11.0, [loss.detach(), {"x": x}])
        return loss.detach()

    for k in (1.0, 2.0, 5.0, 1.0, 6.0):
        try:
            assert step(tracegrad.tensor([k, k])).item() == 3 * k
        except DivergedError as error:
            loss, inside = error.args[1]
            assert loss.item() == 3 * k > 10 and inside["x"].tolist() == [k, k]
            assert error.loss == (3 * k if number else 11.0)


class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return error[0] is DivergedError


@pytest.mark.parametrize(
    "make", [lambda v, x: {"v": v, "x": [x]}, lambda v, x: Result(x, v), lambda v, x: [v, (x, {1: v})]]
)
def test_what_is_kept_by_a_run_that_is_not_replayed(make):
    keeper, plain, guard = Result(1, n=0), Result(1, n=0), Swallows()
    add = keeper.__dict__.setdefault("seen", []).append

    @compile_grad
    def f(x):
        total = np.sum(x * x)
        keeper.fun = keeper.x
        add(total)
        with guard:
            if total > 3:
                raise DivergedError(1.0, 2)
        keeper.fun = make(total, x)
        return total

    for k in range(5):
        x = np.full(2, float(k))
        f(x)
        plain.fun = make(np.sum(x * x), x)
        assert picture(keeper.fun) == picture(plain.fun)


@pytest.mark.parametrize(
    "keep", [lambda kept, a, b: kept.extend([a, (b,)]), lambda kept, a, b: kept.append({"a": a, "b": b})]
)
def test_containers_that_a_live_function_keeps(keep):
    rng, kept = np.random.default_rng(0), []

    @compile_grad
    def f(x, values, table):
        rng.normal()
        keep(kept, values, table)
        return np.sum(x) * values[0] * table["rate"]

    values, table = [1.0, np.ones(2)], {"rate": 3.0}
    for _ in range(3):
        f(np.ones(2), values, table)
        expected: list[object] = []
        keep(expected, values, table)
        found = kept[-len(expected) :]
        assert picture(found) == picture(expected)
        if type(found[0]) is list:
            assert found[0] is values and found[1][0] is table
        else:
            assert found[0]["a"] is values and found[0]["b"] is table


class Detached:
    def __init__(self):
        self.h, self.d, self.q, self.sub, self.kept, self.rare = [], {"h": []}, deque(), Result(0.0), None, []


def a_list(o, v):
    o.h.insert(0, v)
    o.h = []


def an_entry(o, v):
    o.d["v"] = v, [v * 2.0]
    o.d = {"h": []}


def an_attribute(o, v):
    o.sub.x = {"v": v}
    o.sub = Result(1.0)


def by_pop(o, v):
    inner = o.d.pop("h")
    inner.append(v)
    inner.reverse()


def a_deque(o, v):
    o.q.appendleft(v)
    o.q.rotate(1)
    o.q, o.kept = deque(), o.q
    o.kept = None


def one_of_two_places(o, v):
    o.h.insert(0, v)
    o.h, o.kept = [], v


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("change", [a_list, an_entry, an_attribute, by_pop, a_deque, one_of_two_places])
def test_what_is_detached_by_the_run_that_changes_it(change, live):
    """Somebody else may hold it."""

    def sides():
        o, held = Detached(), []

        def f(x):
            v = np.sum(x * x)
            change(o, v)
            return v + (0.0 * id(x) if live else 0.0)

        def hold():
            o.d["h"] = o.d.get("h", [])
            held.append([o.h, o.d, o.d["h"], o.q, o.sub])

        return f, hold, held

    (f, hold, held), (plain, also_hold, expected) = sides(), sides()
    f = compile_grad(f)
    for k in range(4):
        hold(), also_hold()
        x = np.array([1.0, 2.0 + k])
        assert float(f(x)) == float(plain(x))
        assert picture(held) == picture(expected)


def test_what_is_detached_after_many_runs_that_left_nothing():
    def sides():
        o = Detached()

        def f(x):
            v = np.sum(x * x) + 0.0 * id(x)
            if v > 20.0:
                o.rare.insert(0, (v, [x]))
                o.rare = []
            return v

        return o, f

    (o, f), (other, plain) = sides(), sides()
    f = compile_grad(f)
    for k in (*range(12), 30, 31, 0, 32):
        held, expected, x = o.rare, other.rare, np.array([1.0, k / 3.0])
        assert float(f(x)) == float(plain(x))
        assert picture(held) == picture(expected)


class Fitted:
    """As in scikit-learn: attributes come into being when it is fitted."""

    def fit(self, x, hold):
        self.coef_ = hold(2.0 * x)
        return self


@pytest.mark.parametrize(
    ("hold", "held"),
    [
        (lambda v: v, lambda v: v), (lambda v: [v, v[0]], lambda v: v[0]), (lambda v: {"a": v}, lambda v: v["a"]),
        (Result, lambda v: v.x), (lambda v: [Slotted(v)], lambda v: v[0].parts[0]),
    ],
    ids=["array", "list", "dict", "object", "object in a list"],
)  # fmt: skip
def test_an_attribute_that_the_first_run_makes(hold, held):
    model = Fitted()
    f = compile_grad(lambda x: np.sum(held(model.fit(x, hold).coef_) ** 2))
    for scale in (1.0, 2.0, 2.0, 3.0):
        x = scale * np.arange(3.0)
        value, gradient = f.value_and_grad(x)
        assert value == 4 * np.sum(x**2)
        np.testing.assert_array_equal(gradient, 8 * x)
        assert type(held(model.coef_)) is np.ndarray
        np.testing.assert_array_equal(held(model.coef_), 2 * x)
    assert not f.stats.live


# ---- functions that a run makes and keeps: they read the caller's own variables, later too -------------------------

MADE = """
kept, w, d, n = [], np.ones(3), {"t": 0.0}, 0
box = types.SimpleNamespace(fn=None, total=0.0)
def later():
    return n * 10
def take(value, by=None):
    return value if by is None else by()
def f(x):
    global n
    n += 1
    d["t"], box.total = np.sum(w), x[0]
    y = x * 2.0
{body}
    return np.sum(x)
def change():
    global w, d, n
    w, d, n = np.ones(3) * 5.0, {"t": 9.0}, 100
def read():
    return str([found() for found in [*kept, box.fn, take.__defaults__[0]] if found])
"""
KEEPS = {
    "in a list": "def helper(): return d, w, n, later()\nkept.append(helper)",
    "as an attribute": "box.fn = lambda: (box.total, n, d)",
    "as a default": "take.__defaults__ = (lambda: w.tolist() + [n],)",
    "in a partial": "kept.append(functools.partial(take, None, lambda: (n, w)))",
    "in each other": "def one(k=2): return k * n if k < 1 else one(k - 1)\nbox.fn = lambda: one()\nkept.append(one)",
    "as a method": "class Made:\n    def go(self): return n, d, y.tolist()\nkept.append(Made().go)",
    "in a dict": "kept[:] = [{'go': lambda v=x[1]: (v, w, box.total)}['go']]",
}


@pytest.mark.parametrize("name", KEEPS)
@pytest.mark.parametrize("place", ["globals", "cells"])
def test_functions_that_are_kept(name, place):
    body = "".join(f"    {line}\n" for line in KEEPS[name].split("\n"))
    source = MADE.replace("{body}\n", body)
    if place == "cells":
        inside = source.replace("global ", "nonlocal ") + "return f, change, read\n"
        source = (
            "def make():\n" + "".join(f"    {line}\n" for line in inside.split("\n")) + "f, change, read = make()\n"
        )
    seen = []
    for wrap in (lambda f: f, compile_grad):
        space = {"np": np, "types": types, "functools": functools, "__name__": "kept_functions"}
        exec(source, space)
        f, states = wrap(space["f"]), []
        for k in range(5):
            f(np.arange(3.0) + k)
            states.append(space["read"]())
            if k == 2:
                space["change"]()
                states.append(space["read"]())
        seen.append(states)
    assert seen[0] == seen[1]


def test_a_function_that_is_returned_reads_what_is_there_then():
    scale = np.ones(2)

    def plain(x):
        total = np.sum(x * scale)
        return lambda: (total, scale.tolist())

    for f in (plain, compile_grad(plain)):
        scale = np.ones(2)
        found = f(np.ones(2))
        scale = np.ones(2) * 3.0
        assert found() == (2.0, [3.0, 3.0])


@pytest.mark.parametrize("kept", ["attribute", "list", "object", "generator of a list"])
def test_the_search_for_holders_leaves_alone_what_is_known_of_them(monkeypatch, kept):
    """What has been settled is held by the notes on it, which are no place of the user's."""
    found = []
    settle = Holders.settle

    def seen(self, plain, out):
        settle(self, plain, out)
        found.append([value for value, _ in plain._known.values()])
        assert all(plain._known[id(value)][0] is value for value in found[-1])

    monkeypatch.setattr(Holders, "settle", seen)
    state = types.SimpleNamespace(last=None, all=[])

    space: dict = {"SimpleNamespace": types.SimpleNamespace, "state": state}
    exec(  # which tells nobody of what it does
        "def keep(kept, total, first):\n"
        "    if kept == 'attribute': state.last = (1, total)\n"
        "    elif kept == 'list': state.all.append([total, first])\n"
        "    elif kept == 'object': state.last = SimpleNamespace(total=total)\n"
        "    else: state.last = iter([total, first])\n",
        space,
    )
    keep = space["keep"]

    def f(x):
        time.time()
        total = np.sum(x)
        keep(kept, total, x[0])
        return sorted([total * total, x[0]])

    g = compile_grad(f)
    for k in range(3):
        assert g(np.ones(3) + k) == f(np.ones(3) + k)
    assert any(type(value) is TracedArray for known in found for value in known)


#: Where a live run leaves arrays and traced values that nothing in its code names.
UNNAMED = {
    "a module that is imported": "import holding\n    holding.kept = np.ones(3) * factor",
    "sys.modules": "sys.modules['holding'].kept = np.ones(3) * factor",
    "its namespace": "vars(holding)['kept'] = {'a': [np.ones(3) * factor, x[0]]}",
    "a list there": "getattr(holding, 'ke' + 'pt').append(np.zeros(3) + factor)",
    "an arm": "if x[0] > 2:\n        holding.table['a'] = -x[1]\n        vars(holding)['kept'] = x + x",
}


@pytest.mark.parametrize("name", UNNAMED)
def test_live_runs_leave_nothing_in_unnamed_places(name, monkeypatch):
    sides = []
    for k in range(2):
        module = types.ModuleType("holding")
        module.kept, module.table = [], {}
        space = {"np": np, "sys": sys, "factor": 2.0, "holding": module, "__name__": "made", "time": time}
        exec(f"def f(x):\n    factor * time.time()\n    {UNNAMED[name]}\n    return np.sum(x * x)\n", space)
        sides.append((compile_grad(space["f"]) if k else space["f"], module))
    for k in range(5):
        for f, module in sides:
            monkeypatch.setitem(sys.modules, "holding", module)
            assert f(np.ones(3) + k) == 3.0 * (k + 1) ** 2
        (_, plain), (_, mine) = sides
        assert not leftovers({"module": mine, "kept": mine.kept, "table": mine.table})
        assert repr((mine.kept, mine.table)) == repr((plain.kept, plain.table))


#: Ways to keep what a name means, as a value.
KEPT_AS_VALUES = {
    "in a tuple": "s.a = (NAME, 1)",
    "in a list": "s.a = [NAME]",
    "in a list that grows": "s.l.append((NAME,))",
    "in a dict": "s.a = {'t': NAME}",
    "as a key": "s.a = {NAME: 1}",
    "in a set": "s.a = frozenset([NAME])",
    "as a default": "s.a = lambda q=NAME: q",
    "in a closure": "w = NAME; s.a = lambda: w",
    "in a global": "global T; T = (NAME,)",
    "by an inner function": "h = lambda: (NAME,); s.a = h()",
    "in an object": "s.a = types.SimpleNamespace(t=NAME)",
}


@pytest.mark.parametrize("how", KEPT_AS_VALUES)
@pytest.mark.parametrize("name", ["type", "getattr", "hasattr", "float", "np.sum", "max"])
@pytest.mark.parametrize("live", [False, True])
def test_what_is_shown_in_place_of_a_name_is_not_kept(how, name, live):
    """Of a run that leaves nothing traced, either; and another run keeps the same."""
    space = {"np": np, "types": types, "time": time, "s": types.SimpleNamespace(a=None, l=[]), "T": None}
    text = KEPT_AS_VALUES[how].replace("NAME", name)
    exec(f"def f(x):\n    {text}\n    {'time.time()' if live else 'pass'}\n    return np.sum(x)\n", space)
    f, real = compile_grad(space["f"]), eval(name, {"np": np})
    for _ in range(4):
        f(np.ones(3))
        kept = [space["s"].a, space["s"].l, space["T"]]
        assert not leftovers({"kept": kept}) and id(real) in _ids_within(kept)


def _ids_within(value):
    if isinstance(value, types.FunctionType):
        parts = [value.__defaults__, *[cell.cell_contents for cell in value.__closure__ or ()]]
    elif isinstance(value, dict):
        parts = [*value, *value.values()]
    elif isinstance(value, types.SimpleNamespace):
        parts = [vars(value)]
    else:
        parts = value if isinstance(value, list | tuple | frozenset) else []
    return {id(value), *[number for part in parts for number in _ids_within(part)]}


KEPT_METHODS = {
    "the next of a map": "m = map(twice, x).__next__\n kept.append(m)\n return m()",
    "the next of a list": "kept.append(iter([x[0], x[1]]).__next__)\n return x[1]",
    "the length of a list": "kept.append([x[0]].__len__)\n return x[1]",
    "the sum of tuples": "kept.append((x[0], 1.0).__add__)\n return x[1]",
    "the sum of numbers": "kept.append(x[0].__add__)\n return x[1]",
    "a property": "kept.append(property(lambda self: x[0]))\n return x[1]",
}


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("name", KEPT_METHODS)
def test_methods_in_c_that_are_kept_hold_plain_values(name, live):
    space = {"kept": [], "twice": lambda v: 2 * v, "time": time}
    text = "time.time()\n " if live else ""
    exec(code_of(f"def f(x):\n {text}{KEPT_METHODS[name]}\n", name), space)
    f = compile_grad(space["f"])
    for k in range(3):
        x = np.array([0.5 + k, 2.0])
        assert f.value_and_grad(x)[0] in (2.0, 2 * x[0])
        assert not leftovers({"kept": space["kept"]})
        assert "TracedArray" not in repr(getattr(space["kept"][-1], "__self__", None))


RESULTS = {
    "complex numbers": "np.array([1 + 2j, 3.0])",
    "a complex number": "np.array(1 + 2j)",
    "texts": "np.array(['a', 'b'])",
    "dates": "np.array(['2020-01-01', '2021-01-01'], dtype='M8[D]')",
    "records": "np.array([(1.0, 2), (3.0, 4)], dtype=[('a', float), ('b', int)])",
    "dicts": "np.array([{'a': x[0]}, {'a': x[1]}])",
    "objects": "np.array([Result(x[0]), Result(x[1])])",
    "one dict": "np.array({'a': x[0]})",
}


@pytest.mark.parametrize("name", RESULTS)
def test_each_call_gives_an_array_of_its_own(name):
    space = {"np": np, "Result": Result}
    exec(code_of(f"def f(x):\n return x[0], {RESULTS[name]}\n", name), space)
    f = compile_grad(space["f"])
    for k in range(4):
        x = np.arange(2.0) + k
        found, expected = f(x)[1], space["f"](x)[1]
        assert not leftovers({"found": found})
        assert (repr(found), found.dtype) == (repr(expected), expected.dtype)
        found[...] = found[()] if not found.shape else found[1]
        if found.dtype.kind == "c":
            found += 1


@pytest.mark.parametrize("name", ["complex numbers", "texts"])
def test_each_step_gives_an_array_of_its_own(name):
    space = {"np": np}
    exec(code_of(f"def f(x):\n return x.sum(), {RESULTS[name]}\n", name), space)
    step = tracegrad.compile(space["f"])
    for _ in range(4):
        x = tracegrad.tensor([0.5, 2.0])
        found, expected = step(x)[1], space["f"](x)[1]
        assert repr(found) == repr(expected)
        found[0] = found[1]
