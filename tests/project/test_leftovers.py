"""The search for what recordings leave outside finds a stand-in wherever it may lie, and nothing in what is clean."""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

import numpy as np
import pytest
from leftovers import leftovers

import tracegrad
from tracegrad import compile_grad
from tracegrad.tracer.record.array import TracedArray

MARK = "<traced (recording: ...) #0>"


class Slotted:
    __slots__ = ("a", "other")

    def __init__(self, a: Any) -> None:
        self.a = a


class OwnDict(dict):
    pass


def generator(value: Any) -> Any:
    kept = value
    yield kept


def with_default(k: Any) -> Any:
    def g(v: Any = k, *, w: Any = None) -> Any:
        return v, w

    return g


def keyword_default(k: Any) -> Any:
    def g(*, w: Any = k) -> Any:
        return w

    return g


def waiting(value: Any) -> Any:
    made = generator(value)
    next(made)
    return made


def remembered(value: Any) -> Any:
    cached = functools.lru_cache(lambda a, b: None)
    cached(1, OwnKey(value))
    return cached


class OwnKey:
    def __init__(self, a: Any) -> None:
        self.a = a


def module(value: Any) -> types.ModuleType:
    made = types.ModuleType("mine")
    made.W = value
    return made


def error(value: Any) -> ValueError:
    made = ValueError("x")
    made.found = value
    return made


def in_array(value: Any) -> np.ndarray:
    made = np.empty(2, object)
    made[1] = value
    return made


PLACES: dict[str, Any] = {
    "item of a list": lambda t: [0, [t]],
    "key": lambda t: {OwnKey(t): 1},
    "part of a key": lambda t: {(1, OwnKey(t)): 1},
    "member": lambda t: {OwnKey(t)},
    "member of a frozen set": lambda t: frozenset([OwnKey(t)]),
    "item of a deque": lambda t: deque([t]),
    "item of a user's dict": lambda t: OwnDict(a=t),
    "attribute of a user's dict": lambda t: vars(made := OwnDict()).update(a=t) or made,
    "factory": lambda t: defaultdict(functools.partial(print, t)),
    "ordered": lambda t: OrderedDict(a=t),
    "slot": Slotted,
    "attribute": lambda t: types.SimpleNamespace(a=types.SimpleNamespace(b=t)),
    "attribute of a class": lambda t: type("C", (), {"a": t, "__module__": "mine"}),
    "attribute of a base": lambda t: type("D", (type("C", (), {"a": t, "__module__": "mine"}),), {}),
    "closure": lambda t: lambda: t,
    "default": with_default,
    "keyword default": keyword_default,
    "partial": lambda t: functools.partial(print, t),
    "method": lambda t: Slotted(t).__init__,
    "method of C": lambda t: [t].append,
    "iterator": lambda t: iter([t]),
    "map": lambda t: map(abs, [t]),
    "view": lambda t: {"a": t}.values(),
    "generator": waiting,
    "cache": remembered,
    "module": module,
    "arguments of an exception": ValueError,
    "attribute of an exception": error,
    "cause": lambda t: error(ValueError(t)),
    "array of objects": in_array,
    "slice": lambda t: slice(0, t),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_stand_in_is_found_wherever_it_lies(place: str) -> None:
    make = PLACES[place]
    assert leftovers({"state": make(TracedArray.__new__(TracedArray))})
    assert not leftovers({"state": make(1.5)})


@pytest.mark.parametrize(
    "text", [MARK, [f"at {MARK}"], {MARK: 1}, types.SimpleNamespace(**{MARK: 1}), f"{7.7316054981402e301:.3f}"]
)
def test_marks_are_found_in_texts(text: Any) -> None:
    assert leftovers({"state": text})


def test_what_a_user_may_keep_is_none() -> None:
    kept = compile_grad(lambda x: np.sum(x * STATE["k"]))
    kept(np.ones(3))
    roots = {
        "np": np,
        "f": kept,
        "t": tracegrad.tensor([1.0]),
        "module": tracegrad,
        "h": tracegrad.autograd.hessian(kept),
    }
    assert not leftovers({**roots, "stats": kept.stats, "functions": [tracegrad.vmap, tracegrad.zeros]})


STATE = {"k": 2.0}
