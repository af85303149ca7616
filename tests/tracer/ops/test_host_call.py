"""Functions of Python's on arrays as nodes of a program: values, derivatives, what they are held to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from agreement import numerical_gradient
from simulated import cuda_tier
from support import TIERS, make_graph
from tracing import Traced

from tracegrad import compile_grad, scan
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.errors import DifferentiationError, TracegradError, UnsupportedError
from tracegrad.tracer.ops.elementwise import F
from tracegrad.tracer.ops.host_call import HostFunction, host_call
from tracegrad.tracer.record.array import to_atom, wrap_array
from tracegrad.tracer.record.recorder import current_recorder

F64, I64 = np.dtype("float64"), np.dtype("int64")
X = np.array([0.3, -1.2, 2.0])


def call(function: Any, *arrays: Any, results: Sequence[Aval] = (), rule: Any = None, key: Any = None) -> Any:
    """*function* of traced arrays, or of plain ones outside of a recording."""
    if current_recorder() is None:
        return function(*[np.asarray(a) for a in arrays])
    atoms = [to_atom(a) for a in arrays]
    results = results or [Aval(atoms[0].aval.dtype, atoms[0].aval.shape)]
    found = host_call(HostFunction(function, results, function.__name__, rule=rule, key=key), atoms)
    outs = [wrap_array(x) for x in found]
    return outs[0] if len(outs) == 1 else outs


def product_rule(cts: Any, outs: Any, operands: Any) -> Any:
    ct, (x, y) = cts[0], operands
    return [F.mul(ct, F.mul(F.cos(x), y)), F.mul(ct, F.sin(x))]


def product(x: Any, y: Any) -> Any:
    return np.sin(x) * y


CALLS: list[int] = []


def sorted_with_places(x: Any) -> Any:
    CALLS.append(1)
    order = np.argsort(x)
    return x[order], order, np.float32(len(x))


RESULTS = [Aval(F64, (3,)), Aval(I64, (3,)), Aval(np.dtype("float32"), ())]


def sort_rule(cts: Any, outs: Any, operands: Any) -> Any:
    assert cts[1] is None and [o.aval for o in outs] == RESULTS
    return [None if cts[0] is None else F.add(cts[0], cts[0])]  # told apart from a right one


def test_values_are_those_of_each_call() -> None:
    @compile_grad
    def f(x, y):
        z = call(product, x * 2, y, rule=product_rule)
        z = call(product, z, x, rule=product_rule)
        values, order, count = call(sorted_with_places, z, results=RESULTS, rule=sort_rule)
        return (values * np.arange(3.0)).sum() + (x[order] * X).sum() + count

    rng = np.random.default_rng(0)
    for _ in range(4):
        x, y = rng.normal(size=3), rng.normal(size=3)
        before = len(CALLS)
        found = f(x, y)
        assert len(CALLS) > before
        z = product(product(x * 2, y), x)
        order = np.argsort(z)
        np.testing.assert_allclose(found, z[order] @ np.arange(3.0) + x[order] @ X + 3, rtol=1e-14)
        value, grads = f.value_and_grad(x, y)
        assert value == found
        assert all(np.isfinite(g).all() for g in grads)


@pytest.mark.slow
def test_every_tier_calls() -> None:
    graph = make_graph(
        [Aval(F64, (3,))],
        lambda x: [
            F.mul(v, v) for v in host_call(HostFunction(sorted_with_places, RESULTS, "sort"), [F.sin(x)], relied=False)
        ],
    )
    expected = [np.square(x) for x in sorted_with_places(np.sin(X).view())]
    for tier in (*TIERS.values(), cuda_tier):
        for ours, theirs in zip(tier(graph, [X]), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-14)
            assert ours.dtype == theirs.dtype


@pytest.mark.slow
def test_derivatives_of_both_orders_in_loops_too() -> None:
    def f(x, y):
        total = 0.0
        for k in range(6):
            total = total + call(product, x * (k + 1), y, rule=product_rule).sum()

        def step(carry, row):
            z = call(product, carry, row * y, rule=product_rule)
            return z, z.sum()

        last, sums = scan(step, x, np.arange(12.0).reshape(4, 3) / 7)
        return total + (last * X).sum() + (sums**2).sum()

    y = np.array([0.5, 1.5, -0.7])
    compiled = compile_grad(f, argnums=(0, 1))
    for _ in range(3):
        value, grad = compiled.value_and_grad(X, y)
    assert value == pytest.approx(f(X, y), rel=1e-13)
    np.testing.assert_allclose(grad[0], numerical_gradient(f, (X, y)), rtol=1e-7)
    np.testing.assert_allclose(grad[1], numerical_gradient(f, (X, y), argnum=1), rtol=1e-7)
    inner = compile_grad(lambda x: (compiled.grad(x, y)[0] * np.array([1.0, 2.0, 3.0])).sum())
    expected = numerical_gradient(lambda x: compiled.grad(x, y)[0] @ np.array([1.0, 2.0, 3.0]), (X,))
    np.testing.assert_allclose(inner.grad(X), expected, rtol=1e-6)


def test_functions_are_told_apart_by_identity_or_by_key() -> None:
    def scaled(by: float) -> Any:
        def function(x: Any) -> Any:
            return x * by

        return function

    one, two = scaled(2.0), scaled(3.0)

    def apply(function: Any, key: Any = None) -> Any:
        return compile_grad(lambda x: call(function, x, key=key).sum())

    f, g = apply(one), apply(two)
    for _ in range(3):
        assert (f(X), g(X)) == (2 * X.sum(), pytest.approx(3 * X.sum()))
    fresh = compile_grad(lambda x: call(scaled(2.0), x, key=("scaled", 2.0)).sum())
    for _ in range(4):
        assert fresh(X) == 2 * X.sum()


def test_complex_numbers_are_whole() -> None:
    def turned(z: Any, x: Any) -> Any:
        assert z.dtype == complex and x.dtype == np.float32
        return z * 1j + x

    def f(x):
        z = call(turned, x + 2j * x, x.astype(np.float32), results=[Aval(np.dtype(complex), (3,))])
        return np.stack([z.real, z.imag])

    exact = np.array([0.5, 1.0, -2.0])
    np.testing.assert_array_equal(Traced(f, [exact]).values[0], f(exact))
    compiled = compile_grad(f)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(exact), f(exact))


class WrongError(Exception):
    pass


def test_what_goes_wrong_is_told_and_leaves_no_trace() -> None:
    def picky(x: Any) -> Any:
        if x[0] < 0:
            raise WrongError("negative")
        return x * 2

    class Box:
        count = 0
        last = None

    box = Box()

    def f(x):
        box.count += 1
        y = call(picky, x)
        box.last = y[0]
        return y.sum()

    compiled = compile_grad(f)
    for k in range(4):
        assert compiled(abs(X)) == pytest.approx(2 * abs(X).sum())
        assert (box.count, box.last) == (k + 1, 0.6)
    for _ in range(2):
        count = box.count
        with pytest.raises(WrongError, match=r"^negative$"):
            compiled(-abs(X))
        assert box.last == 0.6 and box.count in (count, count + 1)
    assert compiled(abs(X)) == pytest.approx(2 * abs(X).sum())

    def writes(x: Any) -> Any:
        x[0] = 0
        return x

    for function, text in (
        (lambda x: x[:2], r"returned float64\[2\], but float64\[3\] was declared.*test_host_call.py"),
        (lambda x: x.astype(np.float32), r"returned float32\[3\], but float64\[3\]"),
        (lambda x: None, r"returned object\[\], but"),
    ):
        with pytest.raises(TracegradError, match="(?s)" + text):
            compile_grad(lambda x, function=function: call(function, x).sum())(X)
    with pytest.raises(TracegradError, match="2 results were declared"):
        compile_grad(lambda x: call(lambda x: x, x, results=RESULTS[:2])[0].sum())(X)
    with pytest.raises(ValueError, match="read-only"):
        compile_grad(lambda x: call(writes, x).sum())(X)
    with pytest.raises(DifferentiationError, match=r"(?s)product has no derivative.*test_host_call.py"):
        compile_grad(lambda x: call(product, x, x).sum()).grad(X)
    places = compile_grad(lambda x: (x * call(sorted_with_places, x, results=RESULTS)[1]).sum())
    np.testing.assert_array_equal(places.grad(X), [1, 0, 2])
    with pytest.raises(UnsupportedError, match="float32 or float64"):
        compile_grad(lambda x: call(product, x, x).sum())(X.astype(np.float16))


def test_only_the_way_that_is_taken_calls() -> None:
    """No call on the way of a path that does not hold, nor in an arm that plain Python does not take."""

    def root(x: Any) -> Any:
        if x < 0:
            raise WrongError
        return np.sqrt(x)

    def f(x):
        total = 0.0
        for k in range(len(x)):
            if x[k] > 0:
                total = total + call(root, x[k] * 1.0)
            else:
                total = total - x[k]
        return total

    compiled = compile_grad(f)
    rng = np.random.default_rng(1)
    for _ in range(12):
        x = rng.normal(size=6)
        assert compiled(x) == pytest.approx(np.where(x > 0, np.sqrt(abs(x)), -x).sum())


def test_exceptions_are_met_where_the_call_stands() -> None:
    def root(x: Any) -> Any:
        if x < 0:
            raise WrongError(float(x))
        return np.sqrt(x)

    def f(x):
        try:
            y = call(root, x[0] * 1.0)
        except WrongError as error:
            assert error.args[0] < 0
            y = -x[0]
        return y * x[1] + call(root, x[1] * 1.0)

    def plain(x):
        return (np.sqrt(x[0]) if x[0] >= 0 else -x[0]) * x[1] + np.sqrt(x[1])

    compiled = compile_grad(f)
    rng = np.random.default_rng(1)
    for _ in range(10):
        x = np.array([rng.normal(), abs(rng.normal())])
        assert compiled(x) == pytest.approx(plain(x), rel=1e-15)
    with pytest.raises(WrongError):
        compiled(-x)
    with pytest.raises(TracegradError, match=r"(?s)root raised WrongError.*test_host_call.py"):
        compile_grad(lambda x: scan(lambda c, v: (call(root, v * c), v), x[0], x)[0])(X)
