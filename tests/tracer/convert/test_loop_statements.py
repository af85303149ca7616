"""What a copy says of its loops: the variables that they assign, those that count from one iteration to the next."""

from __future__ import annotations

import pytest
from converted import copied

from tracegrad.tracer.convert.copies import convert
from tracegrad.tracer.convert.transparent import PythonFor, Transparent


def sums(xs):
    total = last = 0
    for i, x in enumerate(xs):
        y = x * x
        total += y
        if y > 2:
            last = i
    return total, last


def searches(xs):
    found = None
    for x in xs:
        if x > 2:
            found = x
            break
        z = x
    else:
        return None
    while found > 0:
        found -= 1
        step = found
        if step == 7:
            return step
    return found, z


def nested(n):
    a = b = 0
    for i in range(n):
        c = i
        for j in range(i):
            a += j * c
            d = j
        b = a
        yield d
    return b


def captured(n):
    k = m = 0
    for i in range(n):
        k = i
        m = i
        use = lambda: k  # noqa: B023, E731
    return use, m


def handled(xs):
    x = y = z = None
    for v in xs:
        try:
            x = v
            y = 1 / v
        except ZeroDivisionError:
            continue
        finally:
            z = v
        w = y
    return x, y, z, w


def walruses(xs):
    while (x := next(xs)) > 0 and (y := x):
        pass
    return [(t := v) for v in range(3)], x, y, t


LOOPS = {
    sums: [(("i", "x", "y", "total", "last"), ("total", "last"), ("i", "x"), (False, False, False))],
    searches: [
        (("x", "found", "z"), ("z",), ("x",), (True, False, False)),
        (("found", "step"), ("found",), (), (False, True, False)),
    ],
    nested: [
        (("i", "c", "j", "a", "d", "b"), ("a", "d"), ("i",), (False, False, True)),
        (("j", "a", "d"), ("a",), ("j",), (False, False, False)),
    ],
    captured: [(("i", "k", "m", "use"), ("k",), ("i",), (False, False, False))],
    handled: [(("v", "x", "y", "z", "w"), ("x", "y", "w"), ("v",), (False, False, False))],
    walruses: [
        (("x", "y"), ("y", "x"), (), (False, False, False)),
        (("v", "t"), ("t",), ("v",), (False, False, False)),
    ],
}


@pytest.mark.parametrize("f", LOOPS)
def test_descriptions(f):
    found = convert(f.__code__).loops
    said = [(x.assigned, x.carried, x.target_names, (x.has_break, x.has_return, x.has_yield)) for x in found]
    assert said == LOOPS[f]
    assert all(f.__code__.co_firstlineno < x.line <= x.end_line for x in found)


def writes_in_place(z, h, s, xs):
    for i, x in enumerate(xs):
        z[i] += x
        z[i - 1], s.a = x, x
        h = h * x
        h[0] = x
        s += x
        while i:
            (xs[0])[i] = last = x
            i -= 1
        del z[last]
    return h


def test_names_whose_values_are_changed_in_place():
    outer, inner = convert(writes_in_place.__code__).loops
    assert set(outer.stored) == {"s", "z"}  # h and i are bound to other values, too
    assert inner.stored == ("i",)


class Once(Transparent):
    """A frame whose loops go through their body once, and give results of their own."""

    __slots__ = ()

    def loop(self, number, iterable, /):
        return OneTurn(iterable)


class OneTurn(PythonFor):
    __slots__ = ()
    rebinds, unset = True, None

    def __init__(self, iterable):
        super().__init__(iter([*iterable][:1]))

    def symbols(self):
        return 100, 200  # total, last

    def results(self):
        return "i", "x", "y", "total", "last"


def test_loops_take_variables_over():
    assert copied(sums, Once)([5, 6, 7]) == ("total", "last")


def test_every_construct_goes_through_the_frame():
    seen = []

    class Seeing(Transparent):
        def __getattribute__(self, name):
            seen.append(name)
            return super().__getattribute__(name)

    def f(xs, o):
        with o:
            a = [x + 1 for x in xs if not x]
        b = (o.real < 3 and xs[0]) or f"{a!r:>3}"
        a[0] += 2
        while b is None:
            pass
        (c, *d), o.q = [a, b], {}
        o.method(len(xs), *d)
        return [outer, a[1:], -c, {1: 2}]

    class Obj:
        real, q = 1, 2

        def __enter__(self):
            return self

        def __exit__(self, *e):
            pass

        def method(self, *args):
            pass

    outer = 3
    with pytest.raises(TypeError):
        copied(f, Seeing)([0, 2], Obj())
    expected = "context first_iterable loop made test add call_method attr lt item format iadd set_item while_loop is_"
    assert {*expected.split(), "unpack", "set_attr", "call", "method", "load_global", "call_ex"} <= {*seen}
