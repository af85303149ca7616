"""The launcher: every way in and out of a bound call, natively and in Python, and that none of them leaks.

The kernels are a few lines of LLVM IR each.  Start reading at ``KERNELS``; ``bind`` is a fixture with both paths.
"""

import ctypes
import functools
import gc
import pickle
import subprocess
import sys
import threading
import timeit
import tracemalloc
import types
import weakref
from collections import Counter

import numpy as np
import pytest
from support import native

from tracegrad import compile_grad
from tracegrad.codegen.cpu import cpython, jit
from tracegrad.codegen.cpu.machine_code import MachineCode, loaded
from tracegrad.runtime.launch import bind as launch
from tracegrad.runtime.launch.bind import ArrayArg, ArrayOut, ConstArg, ScalarArg, ScalarOut
from tracegrad.runtime.memory import fresh_memory

F8, F4, I8, B1 = (np.dtype(name) for name in ("float64", "float32", "int64", "bool"))

# Each is the body of `i64 kernel(ptr %bufs, ptr %sizes, ptr %consts, i64 %told)`.
KERNELS = {
    "nothing": "ret i64 -1",
    # answers the first constant
    "answer": "%a = load i64, ptr %consts\n ret i64 %a",
    # writes two constants to the first buffer
    "fill": """%out = load ptr, ptr %bufs
  %low = load i128, ptr %consts, align 8
  store i128 %low, ptr %out, align 8
  ret i64 -1""",
    # eight bytes from the first buffer to the second
    "copy": """%in = load ptr, ptr %bufs
  %out.at = getelementptr ptr, ptr %bufs, i64 1
  %out = load ptr, ptr %out.at
  %v = load i64, ptr %in
  store i64 %v, ptr %out
  ret i64 -1""",
    # buffer sizes[1] := the addresses of the first sizes[0] buffers
    "spy": """%n = load i64, ptr %sizes
  %w.at = getelementptr i64, ptr %sizes, i64 1
  %w = load i64, ptr %w.at
  %out.at = getelementptr ptr, ptr %bufs, i64 %w
  %out = load ptr, ptr %out.at
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %j, %body ]
  %done = icmp eq i64 %i, %n
  br i1 %done, label %end, label %body
body:
  %b.at = getelementptr ptr, ptr %bufs, i64 %i
  %b = load ptr, ptr %b.at
  %o.at = getelementptr ptr, ptr %out, i64 %i
  store ptr %b, ptr %o.at
  %j = add i64 %i, 1
  br label %head
end:
  ret i64 -1""",
    # buffers: scalar s, array x, sum, s * x, temporary.  The product goes through the temporary.
    "scale": """%n = load i64, ptr %sizes
  %s.at = load ptr, ptr %bufs
  %s = load double, ptr %s.at
  %p1 = getelementptr ptr, ptr %bufs, i64 1
  %x = load ptr, ptr %p1
  %p2 = getelementptr ptr, ptr %bufs, i64 2
  %sum = load ptr, ptr %p2
  %p3 = getelementptr ptr, ptr %bufs, i64 3
  %y = load ptr, ptr %p3
  %p4 = getelementptr ptr, ptr %bufs, i64 4
  %t = load ptr, ptr %p4
  br label %a
a:
  %i = phi i64 [ 0, %0 ], [ %i1, %a.body ]
  %a.done = icmp eq i64 %i, %n
  br i1 %a.done, label %b, label %a.body
a.body:
  %xi.at = getelementptr double, ptr %x, i64 %i
  %xi = load double, ptr %xi.at
  %ti = fmul double %xi, %s
  %ti.at = getelementptr double, ptr %t, i64 %i
  store double %ti, ptr %ti.at
  %i1 = add i64 %i, 1
  br label %a
b:
  %k = phi i64 [ 0, %a ], [ %k1, %b.body ]
  %acc = phi double [ 0.0, %a ], [ %acc1, %b.body ]
  %b.done = icmp eq i64 %k, %n
  br i1 %b.done, label %end, label %b.body
b.body:
  %tk.at = getelementptr double, ptr %t, i64 %k
  %tk = load volatile double, ptr %tk.at
  %yk.at = getelementptr double, ptr %y, i64 %k
  store double %tk, ptr %yk.at
  %acc1 = fadd double %acc, %tk
  %k1 = add i64 %k, 1
  br label %b
end:
  store double %acc, ptr %sum
  ret i64 -1""",
}


native_only = pytest.mark.skipif(not launch.NATIVE, reason=launch.NATIVE_REASON)


@functools.cache
def kernel(name):
    unique = f"launch_{name}"
    text = f"define i64 @{unique}(ptr %bufs, ptr %sizes, ptr %consts, i64 %told) {{\n  {KERNELS[name]}\n}}\n"
    return unique, jit.compile_text(text, unique).load()


def address(name):
    unique, compiled = kernel(name)
    return compiled.address(unique)


@pytest.fixture(params=["native", "python"])
def bind(request):
    """``bind(kernel name, ...)`` on one of the two paths."""
    native = request.param == "native"
    if native and not launch.NATIVE:
        pytest.skip(launch.NATIVE_REASON)

    def bound(name, *args, **kwargs):
        call = launch.bind(address(name), *args, native=native, **kwargs)
        assert isinstance(call, functools.partial) is not native
        return call

    return bound


def scale(bind, n, **kwargs):
    sizes = np.array([n])
    rows = [ScalarArg(F8), ArrayArg(F8, (n,))], [ScalarOut(F8), ArrayOut(F8, (n,))]
    return bind("scale", *rows, temp_offsets=[0], sizes=sizes, arena_bytes=8 * n, **kwargs)


def where(a):
    return a.__array_interface__["data"][0]


# ------------------------------------------------------------------------------------------------ what goes in


@pytest.mark.skipif(sys.platform != "linux" or "t" in sys.abiflags, reason="may fall back elsewhere")
def test_native_here():
    assert launch.NATIVE, launch.NATIVE_REASON


def test_values(bind):
    x = np.arange(5.0)
    total, y = scale(bind, 5)(2.0, x)
    assert type(total) is np.float64 and total == 20.0
    assert type(y) is np.ndarray and y.dtype is F8 and y.flags.c_contiguous and y.flags.owndata and y.flags.writeable
    assert np.array_equal(y, 2 * x)


class Sub(np.ndarray):
    pass


class MyFloat(float):
    pass


class MyFloat64(np.float64):
    pass


def good_array():
    return np.ones((2, 3))


ARRAY_MISMATCHES = {
    "none": None,
    "scalar": 1.0,
    "list": [[1.0, 1, 1], [1, 1, 1]],
    "subclass": good_array().view(Sub),
    "float32": np.ones((2, 3), F4),
    "int64": np.ones((2, 3), I8),
    "swapped bytes": np.ones((2, 3), F8.newbyteorder()),
    "shape": np.ones((3, 2)),
    "first dimension": np.ones((1, 3)),
    "last dimension": np.ones((2, 4)),
    "empty": np.ones((2, 0)),
    "rank 0": np.ones(()),
    "rank 1": np.ones(6),
    "rank 3": np.ones((1, 2, 3)),
    "fortran order": np.ones((3, 2)).T,
    "strided": np.ones((2, 6))[:, ::2],
    "reversed": np.ones((2, 3))[::-1],
    "broadcast": np.broadcast_to(1.0, (2, 3)),
    "unaligned": np.zeros(49, np.uint8)[1:].view(F8).reshape(2, 3),
}


@pytest.mark.parametrize("bad", ARRAY_MISMATCHES.values(), ids=ARRAY_MISMATCHES)
def test_array_mismatch(bind, bad):
    call = bind("nothing", [ArrayArg(F8, (2, 3))] * 2, [])
    good = good_array()
    assert call(good, good) == ()
    assert call(good, bad) is None and call(bad, good) is None


def test_array_match(bind):
    call = bind("nothing", [ArrayArg(F8, (2, 3))], [])
    frozen = good_array()
    frozen.flags.writeable = False
    unpickled = pickle.loads(pickle.dumps(good_array()))
    tagged = good_array().astype(np.dtype(F8, metadata={"unit": "m"}))
    assert tagged.dtype is not F8
    for a in (frozen, unpickled, tagged, np.ones((4, 3))[1:3], np.ones(6).reshape(2, 3)):
        assert call(a) == ()
    loose = bind("nothing", [ArrayArg(F8, (1, 3))], [])  # the stride of a dimension of 1 does not matter
    assert loose(np.ones((4, 3))[::4]) == ()


def test_equal_dtypes_of_different_names(bind):
    call = bind("nothing", [ArrayArg(I8, (3,))], [])
    for name in ("l", "q"):
        a = np.ones(3, name)
        assert (call(a) == ()) is (a.dtype == I8)


@pytest.mark.parametrize(
    "bad", [1, True, None, np.int64(1), 1j, np.ones(()), np.bool_(1), "1", MyFloat(1), MyFloat64(1)]
)
def test_scalar_mismatch(bind, bad):
    for dtype in (F8, F4):
        assert bind("nothing", [ScalarArg(dtype)], [])(bad) is None


@pytest.mark.parametrize("dtype", [F8, F4])
@pytest.mark.parametrize("value", [0.1, np.float64(0.1), np.float32(0.1), 1e300, float("nan"), float("-inf"), -0.0])
def test_scalar_slot(bind, dtype, value):
    call = bind("copy", [ScalarArg(dtype)], [ScalarOut(dtype)], single=True)
    with np.errstate(over="ignore"):
        expected = dtype.type(value)
    got = call(value)
    assert type(got) is dtype.type and got.tobytes() == expected.tobytes()


def test_scalar_accept(bind):
    values = {float: 1.0, np.float64: np.float64(1), np.float32: np.float32(1)}
    for accept in [(float,), (np.float64,), (np.float32,), (float, np.float32), ()]:
        call = bind("nothing", [ScalarArg(F8, accept)], [])
        for kind, value in values.items():
            assert (call(value) == ()) is (kind in accept)


def test_const(bind):
    key = object()
    call = bind("nothing", [ConstArg(None), ConstArg("axis"), ConstArg(key), ConstArg(True), ConstArg(2)], [])
    assert call(None, "axis", key, True, 2) == ()
    good = [None, "axis", key, True, 2]
    for i, bad in enumerate([0, "other", object(), 1, 2.0]):
        assert call(*good[:i], bad, *good[i + 1 :]) is None


def test_const_has_no_buffer(bind):
    sizes = np.array([3, 2])
    call = bind("spy", [ArrayArg(F8, (2,)), ConstArg(None), ArrayArg(F8, (3,))], [ArrayOut(I8, (3,))], sizes=sizes)
    x, y = np.ones(2), np.ones(3)
    (seen,) = call(x, None, y)
    assert seen.tolist() == [where(x), where(y), where(seen)]


def test_number_of_arguments(bind):
    call = bind("nothing", [ConstArg(None)], [])
    assert call(None) == () and call() is None and call(None, None) is None
    with pytest.raises(TypeError):
        call(x=None)
    assert bind("nothing", [], [])() == ()


# ----------------------------------------------------------------------------------------------- what comes out


@pytest.mark.parametrize(
    "name", ["float64", "float32", "float16", "int64", "int32", "uint8", "bool", "complex64", "complex128"]
)
def test_scalar_out(bind, name):
    dtype = np.dtype(name)
    value = np.array([1 if dtype.kind == "b" else 3], dtype)
    consts = np.frombuffer(value.tobytes().ljust(16, b"\0"), np.int64)
    got = bind("fill", [], [ScalarOut(dtype)], consts=consts, single=True)()
    assert type(got) is dtype.type and got == value[0] and type(got) is not int
    (again,) = bind("fill", [], [ScalarOut(dtype)], consts=consts.tobytes())()
    assert again == got
    out = bind("fill", [], [ArrayOut(dtype, (16,))], consts=consts, single=True)()
    assert out.dtype == dtype and out.shape == (16,) and out[0] == got


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4, 5)])
def test_shapes(bind, shape):
    x = np.zeros(shape, F4)
    sizes = np.array([2, 1])
    call = bind(
        "nothing", [ArrayArg(F4, shape)], [ArrayOut(F4, shape), ScalarOut(F8), ArrayOut(B1, shape)], sizes=sizes
    )
    a, _, b = call(x)
    assert type(a) is np.ndarray and (a.shape, a.dtype, b.shape, b.dtype) == (shape, F4, shape, B1)
    assert a.flags.c_contiguous and a.flags.owndata
    assert call(np.zeros((*shape, 1), F4)) is None


def test_outputs_are_fresh(bind):
    call = scale(bind, 4)
    x = np.ones(4)
    _, a = call(1.0, x)
    _, b = call(2.0, x)
    assert where(a) != where(b) and a.tolist() == [1] * 4 and b.tolist() == [2] * 4


def test_guard(bind):
    consts = np.zeros(1, np.int64)
    x = np.ones(3)
    call = bind("answer", [ArrayArg(F8, (3,))], [ScalarOut(I8), ArrayOut(F8, (3,))], consts=consts)
    for index in (0, 1, 7, 300, 2**40):
        consts[0] = index  # constants are read where they stand
        assert call(x) == index and type(call(x)) is int
    consts[0] = -1
    assert type(call(x)) is tuple
    single = bind("answer", [], [ScalarOut(I8)], consts=consts, single=True)
    assert type(single()) is np.int64


def test_order_of_buffers(bind):
    captured = [np.ones(3), np.ones(5)]
    x = np.ones(2)
    n = 8
    call = bind(
        "spy",
        [ScalarArg(F8), ArrayArg(F8, (2,))],
        [ArrayOut(I8, (n,)), ScalarOut(F8)],
        extra=[where(a) for a in captured],
        temp_offsets=[0, 192],
        sizes=np.array([n, 2]),
        keep_alive=captured,
        arena_bytes=1000,
    )
    for _ in range(2):
        seen, _ = call(1.0, x)
        base = launch.ensure_arena(0)
        assert base % 64 == 0
        assert seen[1:3].tolist() == [where(x), where(seen)]
        assert seen[4:].tolist() == [where(captured[0]), where(captured[1]), base, base + 192]
        launch.ensure_arena(launch._arena_bytes + 1)  # the arena may move between calls


@pytest.mark.parametrize("n", [200, 256])
def test_many(bind, n):
    xs = [np.full(i % 7, float(i)) for i in range(n)]
    outs = [ArrayOut(I8, (3 * n,))] + [ArrayOut(F4, (i % 3,)) for i in range(n - 1)]
    call = bind(
        "spy",
        [ArrayArg(F8, x.shape) for x in xs],
        outs,
        temp_offsets=range(0, 64 * n, 64),
        sizes=np.array([3 * n, n]),
        arena_bytes=64 * n,
    )
    result = call(*xs)
    base = launch.ensure_arena(0)
    assert result[0].tolist() == [*map(where, xs), *map(where, result), *range(base, base + 64 * n, 64)]
    assert call(*xs[:-1], xs[0]) is None or xs[0].shape == xs[-1].shape
    assert call(*xs[:-1]) is None


def test_no_outputs_and_no_sizes(bind):
    assert bind("nothing", [], [], sizes=np.zeros(0, np.int64), consts=np.zeros(0))() == ()


# --------------------------------------------------------------------------------------------- nothing is leaked


def references(objects):
    gc.collect()
    return [sys.getrefcount(obj) for obj in objects]


@pytest.mark.slow
def test_references(bind):
    x, key = np.ones(3), object()
    s, dtype = float("0.125"), np.dtype(F8, metadata={"mine": 1})
    consts = np.array([-1])
    args = [ArrayArg(F8, (3,)), ScalarArg(F8), ConstArg(key)]
    outs = [ArrayOut(dtype, (3,)), ScalarOut(dtype), ArrayOut(F8, (2,)), ScalarOut(F4), ScalarOut(B1)]
    call = bind("answer", args, outs, consts=consts)
    (one_array, one_scalar) = (bind("answer", args, [out], consts=consts, single=True) for out in outs[:2])
    other = x.astype(dtype)
    watched = [x, key, s, dtype, F8, F4, B1, other, call, np.float64, np.ndarray]
    before = references(watched)
    for wanted in (-1, 5):
        consts[0] = wanted
        for _ in range(3000):
            call(x, s, key), one_array(x, s, key), one_scalar(x, s, key)
            call(other, s, key), call(x, s, None), call(x, s), call(x, 1, key)
    assert references(watched) == before
    consts[0] = -1
    result = call(x, s, key)
    assert [sys.getrefcount(result[i]) for i in range(4)] == [
        2
    ] * 4  # the tuple's and this call's (True is a singleton)
    single = one_array(x, s, key)
    assert sys.getrefcount(single) == 2 and single.base is None
    del result, single
    assert references(watched) == before
    if sys.version_info < (3, 12):  # later, None is immortal
        none = sys.getrefcount(None)
        for _ in range(3000):
            call()
        assert abs(sys.getrefcount(None) - none) < 100


def test_memory_is_flat(bind):
    x = np.ones(1000)
    consts = np.array([-1])
    call = bind("answer", [ArrayArg(F8, (1000,))], [ArrayOut(F8, (1000,)), ScalarOut(F8)], consts=consts)

    def work():
        for answer in (-1, 3):
            consts[0] = answer
            for _ in range(1000):
                call(x), call(None)

    tracemalloc.start()
    try:
        work()
        before = tracemalloc.get_traced_memory()[0]
        work()
        assert tracemalloc.get_traced_memory()[0] - before < 4000
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_out_of_memory(bind):
    x = np.ones(3)
    outs = [ScalarOut(F8), ArrayOut(F8, (3,)), ArrayOut(F8, (1 << 58,)), ArrayOut(F4, (3,))]
    call = bind("nothing", [ArrayArg(F8, (3,))], outs)
    before = references([x, F8, F4])
    for _ in range(200):
        with pytest.raises(MemoryError):
            call(x)
    assert references([x, F8, F4]) == before


@pytest.mark.slow
@native_only
def test_every_allocation_may_fail():
    testcapi = pytest.importorskip("_testcapi")
    x = np.ones(3)
    outs = [ScalarOut(F8), ArrayOut(F8, (3,)), ScalarOut(F4), ArrayOut(F4, (2, 3))]
    call = launch.bind(address("nothing"), [ArrayArg(F8, (3,))], outs)
    watched = [x, F8, F4]
    call(x)
    before = references(watched)
    seen = Counter()
    for start in range(12):
        result = None
        held = [call(x) for _ in range(30)]  # empty the free lists
        try:
            testcapi.set_nomemory(start, start + 1)
            result = call(x)
        except MemoryError:
            pass
        finally:
            testcapi.remove_mem_hooks()
        seen[result is None] += 1
        del held, result
    assert seen[True] > 1 and seen[False] > 1
    assert references(watched) == before


def test_a_collection_may_call_again(bind):
    """Making the result tuple may start a collection, whose finalizers may run the same binding."""
    call = scale(bind, 6)
    x, calls = np.arange(6.0), []

    def again(phase, info):
        if len(calls) < 50:
            calls.append(None)
            calls[-1] = call(10.0, x)

    pairs = [(i, x) for i in range(2_000)]  # all that Python keeps for reuse: a pair from there starts no collection
    threshold = gc.get_threshold()
    gc.callbacks.append(again)
    try:
        gc.set_threshold(1)
        results = [call(float(i), x) for i in range(200)]
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(again)
    assert calls and pairs
    for i, (total, y) in [*enumerate(results), *((10, result) for result in calls)]:
        assert total == 15 * i and np.array_equal(y, i * x)


@pytest.mark.slow
def test_cycles_are_collected(bind):
    class Holder:
        pass

    holder = Holder()
    holder.call = bind("nothing", [], [], keep_alive=[holder])
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


@pytest.mark.slow
def test_bindings_keep_alive_what_they_use(bind):
    call = bind("answer", [ConstArg(object())], [], consts=np.array([4]), sizes=np.arange(3))
    call2 = bind("answer", [], [], consts=(4).to_bytes(8, "little"))
    gc.collect()
    junk = [np.arange(1) for _ in range(100)]
    assert call2() == 4 and call(None) is None
    del junk


@native_only
def test_nothing_between_a_builtin_and_its_code_is_emptied_by_the_collector():
    """A finaliser may call a builtin of a cycle that is being taken apart: tuples, and what is not tracked, stay."""

    def launchers():
        found = [o for o in gc.get_objects() if type(o) is types.BuiltinFunctionType]
        return {id(o): o for o in found if isinstance(o.__self__, launch.Binding)}

    before, table = launchers(), np.arange(50.0)
    f = compile_grad(lambda x, c: np.sum(np.sin(x) @ (c * table)) if x[0, 0] > 0 else np.sum(x) * 3.5)
    for sign in (1, 1, -1, -1, 1, -1):
        f.value_and_grad(sign * np.ones((50, 50)), np.ones(50))
    made = [call for key, call in launchers().items() if key not in before]
    assert len(made) >= 3  # each path alone, and both as a family
    for call in made:
        seen, ahead = {}, [call]
        while ahead:
            value = ahead.pop()
            if not isinstance(value, (type, launch.Arg, launch.Out)) and id(value) not in seen:
                seen[id(value)] = value
                ahead += gc.get_referents(value)
        codes = [v for v in seen.values() if isinstance(v, MachineCode)]
        assert codes and len(codes) == len(call.__self__.plans)
        assert all(isinstance(v, (tuple, types.BuiltinFunctionType)) for v in seen.values() if gc.is_tracked(v))
        assert all(id(arg.dtype) in seen for arg in call.__self__.plans[0].args)  # the table has its address


def test_code_goes_with_the_last_callable_that_can_run_it():
    before = len(loaded.engines)
    unique = "short_lived"
    text = f"define i64 @{unique}(ptr %b, ptr %s, ptr %c, i64 %t) {{\n  ret i64 -1\n}}\n"
    code = jit.compile_text(text, unique).load()
    calls = [launch.bind(code.address(unique), [], [], keep_alive=[code]) for _ in range(3)]
    calls.append(launch.bind_family(calls[:2], [[], []]))
    function = native(code, unique, ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    del code
    for call in (*calls, function):
        assert len(loaded.engines) == before + 1
        assert call() == () if call is not function else call(None, None, None, 0) == -1
    while calls:
        del call, calls[0]
        call = function
        assert len(loaded.engines) == before + 1
    del call, function
    assert len(loaded.engines) == before


# --------------------------------------------------------------------------------------------- arena and threads


def test_arena_grows(bind):
    small = scale(bind, 3)
    base = launch.ensure_arena(0)
    assert launch.ensure_arena(1) == base  # large enough already
    n = launch._arena_bytes // 8 + 1
    large = scale(bind, n)
    assert launch._arena_bytes >= 8 * n
    assert launch.ensure_arena(0) % 64 == 0
    for call, size in ((small, 3), (large, n), (small, 3)):
        total, y = call(0.5, np.ones(size))
        assert total == size / 2 and (y == 0.5).all()


def test_threads(bind):
    n = 300
    call = scale(bind, n)
    wrong, start = [], threading.Barrier(6)

    def work(me):
        x = np.full(n, float(me))
        start.wait()
        for i in range(400):
            total, y = call(float(i), x)
            if total != n * me * i or (y != me * i).any():
                wrong.append((me, i))
            if me == 0 and i % 50 == 0:
                launch.ensure_arena(launch._arena_bytes + 1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(me,)) for me in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


# ---------------------------------------------------------------------------------------- refusals and fallbacks


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({"kernel_address": 0}, ValueError),
        ({"single": True}, ValueError),
        ({"single": True, "outs": [ScalarOut(F8)] * 2}, ValueError),
        ({"args": [ArrayArg(np.float64, (2,))]}, TypeError),
        ({"args": [ArrayArg(F8.newbyteorder(), (2,))]}, TypeError),
        ({"args": [ScalarArg(I8)]}, TypeError),
        ({"args": [ScalarArg(F8, (int,))]}, TypeError),
        ({"outs": [ArrayOut(np.dtype(object), (2,))]}, TypeError),
        ({"outs": [ScalarOut(np.dtype("S40"))]}, TypeError),
        ({"sizes": np.arange(3.0)}, TypeError),
        ({"sizes": np.arange(6)[::2]}, TypeError),
        ({"consts": np.arange(6)[::2]}, TypeError),
        ({"consts": np.arange(6, dtype=np.int32)}, TypeError),
        ({"temp_offsets": [8]}, ValueError),
        ({"temp_offsets": [-8], "arena_bytes": 64}, ValueError),
    ],
)
def test_refusals(kwargs, error):
    with pytest.raises(error):
        launch.bind(**{"kernel_address": address("nothing"), "args": [], "outs": []} | kwargs)


def test_falls_back_where_not_native(monkeypatch):
    monkeypatch.setattr(launch, "NATIVE", False)
    assert scale(lambda name, *a, **k: launch.bind(address(name), *a, **k), 3).func is launch.call_python


@native_only
def test_falls_back_for_huge_tables():
    x = np.ones(1)
    call = launch.bind(address("answer"), [], [], extra=[where(x)] * launch.MAX_BUFFERS, consts=np.array([2]))
    assert not isinstance(call, functools.partial) and call() == 2
    call = launch.bind(address("answer"), [], [], extra=[where(x)] * (launch.MAX_BUFFERS + 1), consts=np.array([2]))
    assert isinstance(call, functools.partial) and call() == 2


def test_falls_back_where_the_compiler_fails(monkeypatch):
    def fail(*cells):
        raise RuntimeError("no target")

    monkeypatch.setattr(launch, "_builtin", None)
    monkeypatch.setattr(launch, "NATIVE", True)
    monkeypatch.setattr(launch, "NATIVE_REASON", "")
    monkeypatch.setattr(launch.ir, "compile_launcher", fail)
    call = launch.bind(address("nothing"), [], [])
    assert call() == () and isinstance(call, functools.partial)
    assert launch.NATIVE is False and "no target" in launch.NATIVE_REASON


@native_only
@pytest.mark.parametrize("name", cpython.offsets())
@pytest.mark.parametrize("shift", [-8, 8, 64, 4096])
def test_a_moved_field_is_noticed(monkeypatch, name, shift):
    assert cpython.fault() is None
    moved = dict(cpython.offsets())
    moved[name] += shift
    monkeypatch.setattr(cpython, "offsets", lambda: moved)
    assert cpython.fault()


@native_only
def test_a_moved_api_is_noticed(monkeypatch):
    monkeypatch.setitem(cpython._API, "ndarray", 5)
    assert "table" in cpython.fault()


@native_only
def test_numba_is_not_needed():
    code = """
import sys
from tracegrad.runtime.launch import bind
had = "numba" in sys.modules
assert bind._native_builtin() is not None, bind.NATIVE_REASON
assert ("numba" in sys.modules) is had
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@native_only
def test_native_is_worth_it():
    x = np.ones(5)
    rows = [ArrayArg(F8, (5,))] * 5, [ScalarOut(F8), ArrayOut(F8, (5,))]
    calls = [launch.bind(address("nothing"), *rows, native=native) for native in (True, False)]
    native, python = (min(timeit.repeat(lambda c=c: c(x, x, x, x, x), number=500, repeat=7)) for c in calls)
    assert native * 5 < python


@pytest.mark.parametrize("nbytes", [0, 1, 4096, (2 << 20) - 1, 2 << 20, (5 << 20) + 3])
def test_fresh_memory(nbytes):
    found = [fresh_memory(nbytes) for _ in range(3)]
    for k, one in enumerate(found):
        assert (one.dtype, one.shape, one.flags.writeable) == (np.uint8, (nbytes,), True)
        one[:] = k
    assert all((one == k).all() for k, one in enumerate(found))


@pytest.mark.skipif(not native, reason="there is no native launcher")
def test_the_launcher_is_made_with_the_first_recording(monkeypatch):
    """And once for all of them."""
    monkeypatch.setattr(launch, "_builtin", None)
    f, x = compile_grad(lambda x: np.sum(np.sin(x) * 3.0)), np.linspace(0.0, 1.0, 7)
    assert launch._builtin is None
    first = f.value_and_grad(x)
    made = launch._builtin
    assert made is not None
    for _ in range(3):
        again = f.value_and_grad(x)
        assert again[0] == first[0] and (again[1] == first[1]).all()
    compile_grad(lambda x: np.sum(np.cos(x)))(x)
    assert launch._builtin is made
    assert launch.natively(len) is len
