"""``cond`` and ``switch``: branches of which only one runs, against the Python ``if`` that they stand for.

Outside a recording they call the chosen function, so a program called plainly is its own oracle.
"""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, numerical_gradient

import tracegrad as tg
from tracegrad import BadIndexError, ShapeError, UnsupportedError, autograd, compile_grad, config
from tracegrad.codegen.derive.adjoint import jvp
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.tracer.record.array import TracedArray
from tracegrad.tracer.record.recorder import Recorder, recording

pytestmark = pytest.mark.usefixtures("checked")


@pytest.fixture
def checked():
    before, config.check = config.check, True
    kernels.clear()
    yield
    config.check = before


RNG = np.random.default_rng(17)
UP3, UP20 = np.linspace(0.2, 0.9, 3), np.linspace(0.2, 0.9, 20)
UP1000 = np.linspace(0.2, 0.9, 1000)
M20 = RNG.normal(size=(20, 20)) * 0.1

# ---- programs: scalar functions of one float array -------------------------------------------------------------------


def scalars(w):
    return tg.cond(np.sum(w) > 0, lambda x: np.sum(np.sin(x)), lambda x: np.sum(x**3) * 2, w)


def arrays(w):
    y = np.sqrt(np.abs(w))
    return np.sum(tg.cond(w[0] > 0, lambda x, z: x * z, lambda x, z: x + np.exp(z), w, y) ** 2)


def trees(w):
    def left(x):
        return {"a": x * 2, "b": (np.sum(x), 1)}

    def right(x):
        return {"a": x**2, "b": (np.max(x) * 1.0, 2)}

    found = tg.cond(np.sum(w) > 0, left, right, w)
    return np.sum(found["a"]) * found["b"][0] + found["b"][1]


def closures(w):
    a, b = np.cos(w), np.exp(w)
    return np.sum(tg.cond(w[-1] > 0, lambda: a * b, lambda: a - b))


def an_operand_as_it_is(w):
    return np.sum(tg.cond(np.sum(w) > 0, lambda x: x, lambda x: -x, w * 2.0) ** 3)


def numbers_adapt(w):
    return tg.cond(np.sum(w) > 0, lambda: 0.0, lambda: w[0] * w[1]) + tg.cond(w[0] > 0, lambda: w[1], lambda: 1)


def products(w):
    return np.sum(tg.cond(w[0, 0] > 0, lambda x: np.tanh(x @ x.T), lambda x: x @ x, w))


def several(w):
    k = (np.sum(w) * 0.4).astype(int)
    branches = [lambda x: np.sin(x), lambda x: x**2, lambda x: np.exp(x), lambda x: 1.0 - x]
    return np.sum(tg.switch(k, branches, w)) + np.sum(tg.switch(k - 1, branches[:2], w * 3.0))


def one_branch(w):
    return np.sum(tg.switch((np.sum(w) * 0.4).astype(int), [lambda x: x**2], w))


def nested(w):
    def inner(x):
        return tg.cond(x[0] > 0.1, lambda y: np.sin(y) * w, lambda y: y * w[-1], x * 2.0)

    return np.sum(tg.cond(np.sum(w) > 0, lambda x: inner(x) + w, lambda x: inner(-x) * 3.0, w))


def inside_a_scan(w):
    def step(c, x):
        c = tg.cond(np.sum(c) > x[0], lambda c: c * w, lambda c: np.cos(c) * w + x, c)
        return c, tg.switch((x[0] * 3).astype(int), [lambda v: v * w, lambda v: v**2 * w, lambda v: -v], c)

    rows = np.linspace(-1, 2, 7)[:, None] * np.ones(len(w))
    last, ys = tg.scan(step, np.ones(len(w)), rows)
    return np.sum(last) + np.sum(ys**2)


def inside_a_while(w):
    def body(c):
        x, k = c
        return tg.cond(k % 2 == 0, lambda x: np.sin(x) * w, lambda x: x * 0.9 + 0.1 * w, x), k + 1

    return np.sum(tg.while_loop(lambda c: c[1] < 5, body, (w, 0))[0])


def loops_inside(w):
    def left(x):
        return tg.scan(lambda c, r: (c * r + w, c), x, np.array([0.5, 0.8, 0.3]))[0]

    def right(x):
        return tg.while_loop(lambda c: np.sum(c**2) > 0.1, lambda c: c * 0.8 * np.cos(w), x)

    return np.sum(tg.cond(np.sum(w) > 0, left, right, w) ** 2)


def assigns(w):
    def left(x):
        x[0] = x[1] * w[0]
        return x

    return np.sum(tg.cond(np.sum(w) > 0, left, lambda x: x * 2.0, w * w) * w) + w[0]


def counted_rows(w):
    """The step's number, in a branch."""

    def body(i, s):
        return s + tg.cond(w[i] > 0.5, lambda: w[i] * w[i - 1], lambda: np.sin(w[i]))

    return tg.fori_loop(1, len(w), body, 0.0)


def computed_index(w):
    return tg.cond(np.sum(w) > 0, lambda: w[(w[0] * 4).astype(int) + 1] * 2.0, lambda: w[0])


def sorts(w):
    return np.sum(tg.cond(np.sum(w) > 0, lambda x: np.sort(x)[::-1], lambda x: x, w) * np.arange(len(w)))


PROGRAMS = [
    (scalars, UP3), (scalars, -UP20), (arrays, UP3), (arrays, -UP3), (arrays, UP20), (arrays, -UP20), (trees, UP3),
    (trees, -UP20), (closures, UP20), (closures, -UP3), (an_operand_as_it_is, UP20), (an_operand_as_it_is, -UP3),
    (numbers_adapt, UP3), (numbers_adapt, -UP3), (products, M20), (products, -M20), (several, -UP3),
    (several, np.full(3, 0.5)), (several, np.full(3, 1.0)), (several, np.full(3, 2.0)), (several, np.full(20, 0.9)),
    (one_branch, UP3), (nested, UP3), (nested, -UP3), (nested, UP20), (inside_a_scan, UP3), (inside_a_scan, -UP20),
    (inside_a_while, UP3), (inside_a_while, UP20), (loops_inside, UP3), (loops_inside, -UP20), (assigns, UP3),
    (assigns, -UP20), (counted_rows, UP20), (computed_index, UP3), (computed_index, -UP3), (sorts, UP3), (sorts, -UP3),
]  # fmt: skip
EVERY = pytest.mark.parametrize(
    ("program", "point"), PROGRAMS, ids=[f"{f.__name__}-{p.size}-{np.sum(p):.2g}" for f, p in PROGRAMS]
)


@pytest.mark.slow
@EVERY
def test_value_and_gradient(program, point):
    compiled = compile_grad(program)
    agree(compiled, program, point, tol=1e-5)
    agree(compiled, program, point, tol=1e-5)
    assert not compiled.stats.live


@pytest.mark.slow
@EVERY
def test_second_derivative(program, point):
    weights = np.random.default_rng(3).normal(size=point.shape)
    first = compile_grad(program)

    def product(w):
        return np.sum(first.grad(w) * weights)

    expected = numerical_gradient(product, (point,))
    np.testing.assert_allclose(compile_grad(product).grad(point), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("program", "point"), [p for p in PROGRAMS if p[0] is not counted_rows])
def test_forward_mode(program, point, runs):
    direction = np.random.default_rng(5).normal(size=point.shape)
    with recording(Recorder()) as recorder:
        var = recorder.add_input(point, "w")
        tangent = recorder.add_input(direction, "t")
        out = program(TracedArray(var, recorder))
        pushed = jvp(list(recorder.nodes), {var: tangent}, out.atom)
    graph, expected = recorder.finish([pushed]), np.sum(compile_grad(program).grad(point) * direction)
    for run in runs:
        (found,) = run(graph, [point, direction])
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_both_outcomes_are_one_path():
    """No guard: the choice is made in the kernel."""
    f = compile_grad(arrays)
    for point in (UP1000, -UP1000, UP1000, -UP1000, UP1000 * 0.5):
        value, gradient = f.value_and_grad(point)
        assert value == pytest.approx(arrays(point), rel=1e-12)
        # element by element: the programs are too large for finite differences
        y = np.sqrt(np.abs(point))
        dy = np.sign(point) / (2 * y)
        out, slope = (point * y, y + point * dy) if point[0] > 0 else (point + np.exp(y), 1 + np.exp(y) * dy)
        np.testing.assert_allclose(gradient, 2 * out * slope, rtol=1e-9)
    assert f.stats.compiles == 1 and f.stats.guard_misses == 0 and f.stats.traces == 1


def test_the_branch_that_is_not_taken_does_not_run():
    """It would not come to an end, or be right."""

    @compile_grad
    def f(x):
        def forever(x):
            return tg.while_loop(lambda c: c > 0, lambda c: c + 1, x)

        return tg.cond(x > 0, lambda x: np.log(x), forever, np.abs(x)) + tg.cond(x < 0, forever, lambda x: x * x, x)

    config.check = False
    assert f(2.0) == pytest.approx(np.log(2.0) + 4)


@pytest.mark.parametrize("n", [3, 30])
def test_what_is_not_taken_contributes_nothing(n):
    """Infinite derivatives in the other branch, and before it."""

    @compile_grad
    def inside(x):
        return np.sum(tg.cond(np.sum(x) > 0, lambda x: np.sqrt(x), lambda x: x * 2.0, x))

    @compile_grad
    def before(x):
        far = np.exp(x * 1000.0 + 800.0)
        return np.sum(tg.cond(np.sum(x) > 0, lambda x, y: y, lambda x, y: x * 2.0, x, far))

    assert inside.grad(np.zeros(n)).tolist() == [2] * n
    assert before.grad(np.zeros(n)).tolist() == [2] * n


@pytest.mark.slow
def test_float32():
    config.check = False
    for program, point in ((arrays, UP20), (inside_a_while, UP3), (nested, -UP3)):
        value, gradient = compile_grad(program).value_and_grad(point.astype(np.float32))
        assert gradient.dtype == np.float32
        np.testing.assert_allclose(value, program(point), rtol=1e-3)
        np.testing.assert_allclose(gradient, compile_grad(program).grad(point), rtol=2e-3, atol=2e-3)


def test_a_choice_that_is_known_is_a_call():
    calls = []

    def branch(x):
        calls.append(isinstance(x, TracedArray))
        return x * 2

    for choice in (True, np.bool_(True), 1):
        assert tg.cond(choice, branch, None, 3.0) == 6.0
        assert compile_grad(lambda x, c=choice: tg.cond(c, branch, None, x))(3.0) == 6.0
    assert tg.switch(7, [None, branch], 3.0) == tg.switch(-2, [branch, None], 3.0) == 6.0
    assert sum(calls) >= 3


def test_what_a_branch_writes_is_its_own():
    x = np.ones(2)

    def write(x):
        x[0] = 5.0
        return x

    def f(x):
        found = tg.cond(x[1] > 0, write, lambda x: x, x)
        return found + x

    assert f(x).tolist() == [6, 2] == compile_grad(f)(x).tolist() and x.tolist() == [1, 1]


def test_ints_and_bools():
    def f(n):
        a = tg.cond(n > 2, lambda: (n * 2, n > 3), lambda: (n - 1, True))
        return a, tg.switch(n, [lambda: np.arange(3), lambda: np.arange(3) * n])

    for n in (np.array(1), np.array(5)):
        (a, b), c = f(n)
        (a2, b2), c2 = compile_grad(f)(n)
        assert (a, b) == (a2, b2) and c.tolist() == c2.tolist() and a2.dtype == np.int64 and c2.dtype == np.int64


def test_tensors():
    x = tg.tensor([1.0, -2.0], requires_grad=True)
    tg.cond(x[0] > 0, lambda x: x * x, lambda x: x, x).sum().backward()
    assert x.grad.tolist() == [2, -4]


def test_a_gradient_inside_a_branch():
    def inner(x):
        return np.sum(np.sin(x) * x)

    def f(w):
        return np.sum(tg.cond(w[0] > 0, lambda x: autograd.grad(inner)(x), lambda x: x, w))

    assert compile_grad(f).grad(UP3) == pytest.approx(2 * np.cos(UP3) - UP3 * np.sin(UP3))


# ---- what can't be ---------------------------------------------------------------------------------------------------


def refused(error, match, f, *args):
    with pytest.raises(error, match=match) as caught:
        compile_grad(f)(*args)
    assert "test_branches.py" in str(caught.value)


def test_branches_that_differ():
    def differ(a, b):
        return lambda w: tg.cond(w[0] > 0, lambda: a(w), lambda: b(w))

    refused(
        ShapeError, r"the branches of cond .* `result\[1\]` is float64\[3\] in one and float64\[2\] in <lambda>",
        differ(lambda w: (0.0, w), lambda w: (0.0, w[:2])), UP3,
    )  # fmt: skip
    refused(
        ShapeError, r"float64\[\] in one and int64\[\] .*astype\(np.float64\)",
        differ(lambda w: w[0], lambda w: np.argmax(w)), UP3,
    )  # fmt: skip
    refused(UnsupportedError, "the same structure", differ(lambda w: (w, w), lambda w: w), UP3)
    refused(UnsupportedError, "the same structure", differ(lambda w: None, lambda w: w), UP3)


def test_choices_that_are_none():
    refused(ShapeError, "reduce it with np.any", lambda w: tg.cond(w > 0, np.sin, np.cos, w), UP3)
    refused(ShapeError, "one bool, but is NoneType", lambda w: tg.cond(None, np.sin, np.cos, w), UP3)
    refused(ShapeError, "one integer", lambda w: tg.switch(w[0], [np.sin, np.cos], w), UP3)
    refused(tg.TracegradError, "at least one branch", lambda w: tg.switch(0, [], w), UP3)


def test_questions_in_a_branch_are_refused():
    def f(w):
        return tg.cond(w[0] > 0, lambda x: x * 2 if np.sum(x * 3) > 1 else x, lambda x: x, w)

    def g(w):
        return tg.cond(w[0] > 0, lambda x: x * len(range(int(np.sum(x)))), lambda x: x, w)

    refused(UnsupportedError, "a branch of cond, which is recorded whether it is taken or not", g, UP3)
    compiled = compile_grad(f)  # both arms run
    assert [compiled(w)[0] for w in (UP3, 0.01 * UP3, -UP3)] == [2 * UP3[0], 0.01 * UP3[0], -UP3[0]]


def test_indices_out_of_bounds():
    """Only in the branch that is taken."""

    def f(w, n):
        return tg.cond(w[0] > 0, lambda: w[n * 2], lambda: w[0])

    compiled = compile_grad(f)
    assert compiled(UP3, np.array(1)) == UP3[2]
    assert compiled(-UP3, np.array(2)) == -UP3[0]
    with pytest.raises(BadIndexError, match="out of bounds"):
        compiled(UP3, np.array(2))
