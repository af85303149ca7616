"""Results in the memory of arguments, and tapes of several kernels: the part of the launcher that writes in place.

The kernels are those of ``test_launch.py``; every test runs natively and in Python.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import tracemalloc

import numpy as np
import pytest
from test_launch import F4, F8, address, where

from tracegrad.runtime.launch import bind
from tracegrad.runtime.launch.bind import ArrayArg, ArrayOut, ConstArg, ScalarArg, ScalarOut
from tracegrad.runtime.launch.tape import Tape


@pytest.fixture(params=[True, False], ids=["native", "python"])
def native(request):
    if request.param and not bind.NATIVE:
        pytest.skip(bind.NATIVE_REASON)
    return request.param


def scale(native, n, donated, **kwargs):
    """``(sum of s * x, s * x)`` of arguments s and x, with results donated as asked for."""
    sizes = np.array([n])
    args, outs = [ScalarArg(F8), ArrayArg(F8, (n,))], [ScalarOut(F8), ArrayOut(F8, (n,))]
    call = bind.bind_steps(
        [address("scale")], args, outs, donated, (), [0], sizes, arena_bytes=8 * n, native=native, **kwargs
    )
    assert isinstance(call, functools.partial) is not native
    return call


def test_a_result_takes_the_place_of_an_argument(native):
    call = scale(native, 5, {1: 1})
    x = np.arange(5.0)
    at, kept = where(x), x
    assert call(2.0, x) == (20.0,)
    assert call(3.0, x) == (60.0,)
    assert x is kept and where(x) == at and x.tolist() == [0, 6, 12, 18, 24]


def test_single(native):
    call = scale(native, 2, {1: 1}, single=True)
    x = np.ones(2)
    total = call(2.0, x)
    assert type(total) is np.float64 and total == 4.0


def test_no_results_are_left(native):
    call = bind.bind_steps([address("copy")], [ArrayArg(F8, ())], [ScalarOut(F8)], {0: 0}, native=native)
    x = np.array(1.5)
    assert call(x) == () and x == 1.5


def test_constants_have_no_buffer(native):
    args = [ConstArg(None), ArrayArg(F8, ()), ConstArg("a")]
    call = bind.bind_steps([address("copy")], args, [ScalarOut(F8)], {0: 1}, native=native)
    x = np.array(2.5)
    assert call(None, x, "a") == () and x == 2.5 and call("a", x, None) is None


def test_every_buffer_is_where_the_kernel_expects_it(native):
    """``spy`` writes down the addresses of its buffers: two arguments, two results, extra, temporary."""
    count = 6
    sizes = np.array([count, 3])
    held = np.zeros(4)
    args = [ArrayArg(F8, (2,)), ArrayArg(np.dtype(np.int64), (count,))]
    outs = [ArrayOut(F8, (2,)), ArrayOut(np.dtype(np.int64), (count,))]
    x, seen = np.ones(2), np.zeros(count, np.int64)
    call = bind.bind_steps(
        [address("spy")], args, outs, {1: 1}, [where(held)], [64], sizes, arena_bytes=128, keep_alive=(held,),
        native=native,
    )  # fmt: skip
    (fresh,) = call(x, seen)
    base = bind.ensure_arena(0)
    assert seen.tolist() == [where(x), where(seen), where(fresh), base + 128, where(held), base + 64]


def test_nothing_is_written_where_a_guard_fails(native):
    consts = np.array([-1], np.int64)
    x = np.ones(3)
    args, outs = [ArrayArg(F8, (3,))], [ArrayOut(F8, (3,))]
    call = bind.bind_steps([address("answer")], args, outs, {0: 0}, consts=consts, native=native)
    for guard in (0, 3, 2**40):
        consts[0] = guard
        assert call(x) == guard and type(call(x)) is int
        assert x.tolist() == [1, 1, 1]
    consts[0] = -1
    assert call(x) == ()


def test_read_only_arguments_do_not_match(native):
    call = scale(native, 3, {1: 1})
    x = np.ones(3)
    x.flags.writeable = False
    assert call(2.0, x) is None and x.tolist() == [1, 1, 1]
    plain = scale(native, 3, {})
    assert plain(2.0, x)[0] == 6.0  # where nothing is written into it, it may be read-only


@pytest.mark.parametrize("bad", [np.ones((3, 2)).T, np.ones((2, 6))[:, ::2], np.ones((2, 3), F4), np.ones(6), None])
def test_other_arguments_do_not_match(native, bad):
    args, outs = [ArrayArg(F8, (2, 3))], [ArrayOut(F8, (2, 3))]
    assert bind.bind_steps([address("nothing")], args, outs, {0: 0}, native=native)(bad) is None


def test_mistakes_are_refused():
    two = [ArrayArg(F8, (3,)), ScalarArg(F8)]
    for outs, donated in (
        ([ArrayOut(F8, (4,))], {0: 0}), ([ArrayOut(F4, (3,))], {0: 0}), ([ScalarOut(F8)], {0: 0}),
        ([ScalarOut(F8)], {0: 1}),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="cannot take the place"):
            bind.bind_steps([address("nothing")], two, outs, donated)
    with pytest.raises(ValueError, match="two results"):
        bind.bind_steps([address("nothing")], two, [ArrayOut(F8, (3,))] * 2, {0: 0, 1: 0})


def test_a_tape_of_several_kernels(native):
    """y := x eight bytes at a time, in the order of the tape, up to the guard that fails."""
    x, y = np.arange(3.0), np.zeros(3)
    consts = np.array([7], np.int64)
    for stop in (3, 1):
        tape = Tape(2)
        for k in range(3):
            if k == stop:
                tape.call(address("answer"), 0, where(consts), [])
            tape.call(address("copy"), 0, 0, [(0, 8 * k), (2, 0)])
            tape.copy((2, 0), (1, 8 * k), 8)
        args = [ArrayArg(F8, (3,)), ArrayArg(F8, (3,), True)]
        call = bind.bind_tape(tape, args, keep_alive=(consts,), space=8, native=native)
        y[:] = -1
        assert call(x, y) == (() if stop == 3 else 7)
        assert y.tolist() == ([0, 1, 2] if stop == 3 else [0, -1, -1])


# ---- steps that Python does ----------------------------------------------------------------------------------------


def doubling(native, then, **kwargs):
    """``2 * x`` of a number of eight bytes: copied to a temporary, doubled in there by Python, which calls *then*."""

    def double(table):
        source, target = (ctypes.c_double.from_address(at) for at in (ctypes.c_size_t * 2).from_address(table))
        target.value = 2 * source.value
        then(source.value)

    tape = Tape(2)
    tape.call(address("copy"), 0, 0, [(0, 0), (2, 0)])
    tape.host(double, [(2, 0), (2, 8)])
    tape.call(address("copy"), 0, 0, [(2, 8), (1, 0)])
    return bind.bind_tape(tape, [ScalarArg(F8)], [ScalarOut(F8)], single=True, space=16, native=native, **kwargs)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_step_of_python_may_launch_what_it_likes(native, depth):
    """Each call has a workspace of its own, whatever runs in the middle of it."""
    seen = []

    def nested(value):
        large = scale(native, 1 << 16, {})  # the arena moves
        large(3.0, np.ones(1 << 16))
        if value < depth:
            seen.append((value, call(value + 1.0)))

    call = doubling(native, nested)
    assert call(0.0) == 0.0 and call(0.0) == 0.0
    assert seen == [(k, 2 * k + 2) for k in reversed(range(depth))] * 2


def test_what_a_step_of_python_raises_comes_out(native):
    def refuse(value):
        if value > 2.0:
            raise KeyError(value)

    counts = np.zeros(1, np.int64)
    call = doubling(native, refuse, counts=counts)
    before = sys.getrefcount(F8)
    for _ in range(50):
        assert call(1.0) == 2.0
        with pytest.raises(KeyError, match=r"3\.0"):
            call(3.0)
    assert counts.tolist() == [50] and abs(sys.getrefcount(F8) - before) < 25


def test_a_step_of_python_before_results_are_written(native):
    """Nothing is written where one raises; what they have computed is, once all have run."""
    wrong, x = [True], np.ones(1)

    def compute(table):
        ctypes.c_double.from_address((ctypes.c_size_t * 2).from_address(table)[1]).value = 7.0

    def refuse(table):
        if wrong:
            raise ZeroDivisionError

    args, steps = [ArrayArg(F8, (1,))], [compute, refuse, address("nothing")]
    call = bind.bind_steps(steps, args, [ArrayOut(F8, (1,))], {0: 0}, native=native)
    with pytest.raises(ZeroDivisionError):
        call(x)
    assert x[0] == 1.0
    wrong.clear()
    assert call(x) == () and x[0] == 7.0


def test_a_workspace_is_given_back(native):
    call = doubling(native, lambda value: None)
    call(1.0)
    tracemalloc.start()
    try:
        for _ in range(3):
            call(1.0)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(2000):
            call(1.0)
        assert tracemalloc.get_traced_memory()[0] - before < 2000
    finally:
        tracemalloc.stop()


def test_many_buffers(native):
    count = 500
    arrays = [np.full(2, float(k)) for k in range(count)]
    args = [ArrayArg(F8, (2,)) for _ in range(count)]
    donated = {k: k for k in range(count)}
    call = bind.bind_steps([address("nothing")], args, [ArrayOut(F8, (2,))] * count, donated, native=native)
    assert call(*arrays) == ()
