"""Traced arrays that a run leaves in the user's own objects, where Python runs in each call."""

import time
import types

import numpy as np
import pytest

from tracegrad import compile_grad
from tracegrad.runtime.record.unwrap_tracers import Settled
from tracegrad.runtime.record.written_places import WrittenPlaces
from tracegrad.tracer.record.array import TracedArray, wrap
from tracegrad.tracer.record.integers import Integers
from tracegrad.tracer.record.recorder import Recorder, recording

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.3, 1.2, 2.0])
kept_global = None


def draws():
    """A number for which Python runs in each call."""
    return 2.0 + 0.0 * time.perf_counter()


def result(keep, x):
    keep.it = np.sum(x) * draws()
    return keep.it


def part_of_the_result(keep, x):
    out = [x * draws(), {"a": x[0] * draws()}]
    keep.it = out[1]["a"]
    return out


def container_of_the_result(keep, x):
    keep.it = out = [np.sum(x) * draws()]
    return out


def inner_container_of_the_result(keep, x):
    keep.it = inner = (np.sum(x) * draws(),)
    return {"a": inner}


def the_argument(keep, x):
    keep.it = x
    return np.sum(x) * draws()


def a_view_of_the_argument(keep, x):
    keep.it = x[1:]
    return np.sum(x) * draws()


def the_argument_returned(keep, x):
    draws()
    keep.it = x
    return x


def something_else(keep, x):
    keep.it = np.exp(x) * draws()
    return np.sum(x)


def in_a_loop(keep, x):
    draws()
    total = 0.0
    while total < 10.0:
        keep.it = total = total + np.sum(x)
    return total


def in_a_list(keep, x):
    keep.items.append(np.sum(x) * draws())
    keep.it = keep.items[-1]
    return keep.it * 2


def in_a_closure(keep, x):
    y = np.sum(x) * draws()
    keep.f = lambda: y
    keep.it = keep.f.__closure__[0].cell_contents
    return y + 1


def under_a_global_name(keep, x):
    global kept_global
    keep.it = kept_global = np.sum(x) * draws()
    return kept_global


def for_the_next_call(keep, x):
    keep.it = np.sum(x) * draws() + (0.0 if keep.it is None else keep.it)
    return keep.it


def and_raises(keep, x):
    keep.it = np.sum(x) * draws()
    raise KeyError("after all")


STORES = [
    result, part_of_the_result, container_of_the_result, inner_container_of_the_result, the_argument,
    a_view_of_the_argument, the_argument_returned, something_else, in_a_loop, in_a_list, in_a_closure,
    under_a_global_name,
    for_the_next_call, and_raises,
]  # fmt: skip


def call(fn, *args):
    try:
        return fn(*args)
    except KeyError:
        return None


def leaves(value):
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


@pytest.mark.parametrize("plain", STORES)
def test_what_a_run_keeps_is_a_number(plain):
    ours, theirs = types.SimpleNamespace(it=None, items=[]), types.SimpleNamespace(it=None, items=[])
    f = compile_grad(lambda x: plain(ours, x))
    for k in range(5):
        found, wanted = call(f, X + k), call(plain, theirs, X + k)
        assert str(found) == str(wanted) or np.allclose(found, wanted)
        assert not any(type(leaf) is TracedArray for leaf in leaves([ours.it, ours.items]))
        for a, b in zip(leaves([ours.it, ours.items]), leaves([theirs.it, theirs.items]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize(
    "plain",
    [
        lambda keep, x: np.sum(x) * draws(), lambda keep, x: [x * draws(), {"a": (x[0] * draws(), 3.0)}],
        lambda keep, x: draws(),
    ],
)  # fmt: skip
def test_where_a_run_keeps_nothing_nothing_is_settled(plain, monkeypatch):
    keep = types.SimpleNamespace(it=None, items=[])
    f = compile_grad(lambda x: plain(keep, x))
    for _ in range(3):
        f(X)
    monkeypatch.setattr(WrittenPlaces, "settle", None)
    f(X + 1)
    assert f.stats.live


def test_the_books_of_a_run_are_not_searched():
    """Variables of our functions hold them, which a debugger may have put into a dict."""
    recorder, plain = Recorder(), Settled(float, {})
    with recording(recorder):
        recorder.handed.append(wrap(recorder.add_input(X, "x"), recorder))
        plain.inside({"recorder": recorder, "integers": Integers(recorder)})
    assert not plain.unsettled and type(recorder.handed[0]) is TracedArray
