"""The schedule: which loops are shared, what is stored, what is refused, and that the numbers are right."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys

import numpy as np
import pytest
from compiled_graph import CompiledGraph, compile_graph, execute
from tracing import Traced

from tracegrad import compile_grad
from tracegrad.codegen.cpu import jit
from tracegrad.codegen.derive.adjoint import vjp
from tracegrad.codegen.evaluate.interpreter import evaluate
from tracegrad.codegen.lower.canonical import canonicalise
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.codegen.schedule.loop_tree import Loop, ScheduleItem
from tracegrad.tracer.ir.graph import Graph, bind, literal, structural
from tracegrad.tracer.ir.primitive import PRIMITIVES
from tracegrad.tracer.ir.refusals import Refusal
from tracegrad.tracer.ops import product, reduce, shape
from tracegrad.tracer.ops.elementwise import F, broadcast_to
from tracegrad.tracer.record.recorder import Recorder, recording

RNG = np.random.default_rng(0)


def program(fn, *arrays, wrt=None) -> Graph:
    """The joint graph of a scalar function of Vars: its value, then its gradients."""
    recorder = Recorder()
    with recording(recorder):
        inputs = [recorder.add_input(a, f"a{k}") for k, a in enumerate(arrays)]
        out = fn(*inputs)
        wanted = range(len(inputs)) if wrt is None else wrt
        gradients = vjp(list(recorder.nodes), out, structural(1), [inputs[k] for k in wanted])
        return recorder.finish([out, *gradients])


def compiled(fn, *arrays, wrt=None) -> CompiledGraph:
    """Compiled, run, and compared with the interpreter."""
    graph = program(fn, *arrays, wrt=wrt)
    result = compile_graph(graph)
    for ours, theirs in zip(result.run(arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    return result


def outline(item: ScheduleItem) -> object:
    """A loop as the list of what is in it, a statement or call as its primitive's name."""
    return [outline(i) for i in item.body] if isinstance(item, Loop) else item.op.prim.name


def black_scholes(s, k, t):
    root = F.sqrt(t)
    d1 = (F.log(s / k) + literal(0.065) * t) / (literal(0.3) * root)
    d2 = d1 - literal(0.3) * root
    return reduce.reduce("sum", s * F.ndtr(d1) - k * F.exp(literal(-0.02) * t) * F.ndtr(d2), (0,))


def logistic(w, x, y):
    margins = y * product.contract_last(x, w)
    return reduce.reduce("sum", F.log1p(F.exp(-margins)), (0,)) + literal(1e-3) * reduce.reduce("sum", w * w, (0,))


def softmax_loss(x, y):
    m = reduce.reduce("max", x, (1,), True)
    logs = F.log(reduce.reduce("sum", F.exp(x - m), (1,)))
    return reduce.reduce("sum", logs - reduce.reduce("sum", (x - m) * y, (1,)), (0,))


def rosenbrock(x):
    n = x.shape[0]
    a, b = shape.slice_axis(x, 0, 1, n - 1), shape.slice_axis(x, 0, 0, n - 1)
    return reduce.reduce("sum", literal(100.0) * F.square(a - F.square(b)) + F.square(literal(1.0) - b), (0,))


def test_an_elementwise_loss_and_its_gradients_are_one_pass_and_store_nothing_else():
    n = 5000
    found = compiled(black_scholes, RNG.uniform(80, 120, n), RNG.uniform(80, 120, n), RNG.uniform(0.5, 2, n))
    (loop,) = found.program.schedule.body
    assert isinstance(loop, Loop)
    assert sorted(outline(loop)) == ["add", "add", "add", "reduce_sum"]
    assert found.program.temporaries == []


def test_a_product_and_its_transpose_share_one_pass_over_the_matrix():
    found = compiled(
        logistic, RNG.standard_normal(20), RNG.standard_normal((300, 20)), np.sign(RNG.standard_normal(300)), wrt=[0]
    )
    loops = [
        item
        for item in found.program.schedule.body
        if isinstance(item, Loop) and any(isinstance(i, Loop) for i in item.body)
    ]
    assert len(loops) == 1, "X is read by one loop nest"
    assert loops[0].segments, "the exponentials of a tile of rows are vectorised"


def test_softmax_shares_the_row_loop():
    found = compiled(softmax_loss, RNG.standard_normal((200, 30)), RNG.random((200, 30)), wrt=[0])
    assert len([item for item in found.program.schedule.body if isinstance(item, Loop)]) == 1
    large = [t for t in found.program.temporaries if t.nbytes(found.canonical.sizes) >= 200 * 30 * 8]
    assert large == [], "rows are kept a tile at a time"


def test_what_is_read_again_and_again_across_its_rows_is_transposed_first():
    def distances(x, centres):
        columns = shape.reshape(shape.transpose(x, (1, 0)), (1, 3, 40))
        away = columns - shape.reshape(centres, (20, 3, 1))
        return reduce.reduce("sum", F.sqrt(reduce.reduce("sum", away * away, (1,))), (0, 1))

    def once(x, y):
        return reduce.reduce("sum", shape.transpose(x, (1, 0)) * y, (0, 1))

    found = compiled(distances, RNG.random((40, 3)), RNG.random((20, 3)))
    assert outline(found.program.schedule.body[0]) == [["transpose"]]
    found = compiled(once, RNG.random((40, 30)), RNG.random((30, 40)), wrt=[])
    assert [outline(item) for item in found.program.schedule.body] == [[["reduce_sum"]]]


def test_a_stencil_and_its_gradient_are_one_pass():
    found = compiled(rosenbrock, RNG.random(5000))
    assert [sorted(outline(item)) for item in found.program.schedule.body] == [["add", "reduce_sum"]]


@pytest.mark.parametrize("first", [True, False])
def test_distances_are_one_pass_wherever_the_coordinates_are(first):
    def energy(x):
        axis = 0 if first else 2
        pair = [shape.reshape(x, (*[3] * first, *n, *[3] * (not first))) for n in ((50, 1), (1, 50))]
        away = F.sub(*[broadcast_to(p, (3, 50, 50) if first else (50, 50, 3)) for p in pair])
        return reduce.reduce("sum", F.exp(F.neg(reduce.reduce("sum", F.square(away), (axis,)))), (0, 1))

    found = compiled(energy, RNG.random((3, 50) if first else (50, 3)))
    assert not [t for t in found.program.temporaries if t.nbytes(found.canonical.sizes) >= 50 * 50 * 8]
    turned = found.program.schedule.turned
    assert turned and all(found.program.canonical.static[sym.dims[-1]] == 3 for sym in turned)


def test_a_number_of_the_program_is_the_one_of_a_rule():
    """The 1 of ``1 / x`` is that of the derivative, 1 / x as well."""
    graph = simplify(program(lambda x: reduce.reduce("sum", F.div(literal(1.0), x), (0,)), RNG.random(9) + 1))
    assert sum(node.prim.name == "div" for node in graph.nodes) == 1


def test_stencils_with_edges_of_different_widths_do_not_share_a_key():
    def key(n, width):
        def padded(x):
            outer = [bind(PRIMITIVES["pad"], x, start=(1,), step=(1,), shape=(n + k,)) for k in (2, width)]
            return reduce.reduce("sum", F.square(outer[0]), (0,)) + reduce.reduce("sum", F.exp(outer[1]), (0,))

        return canonicalise(program(padded, RNG.random(n), wrt=[])).key

    assert key(40, 2) != key(40, 3)
    assert key(40, 2) == key(50, 2)


@pytest.mark.parametrize("n", [2, 3, 10, 1024, 1025, 5000])
def test_a_stencil_is_right_at_every_size(n):
    compiled(rosenbrock, RNG.random(n))


FUNCTIONS = (F.exp, F.sin, F.tanh, F.square)


def of_parts(*cuts):
    """A function of slices along the last axis, given by (start, length): its gradient is put together from theirs."""

    def fn(x):
        total = literal(0.0)
        for k, (start, length) in enumerate(cuts):
            part = FUNCTIONS[k % 4](shape.slice_axis(x, x.aval.ndim - 1, start, length))
            total = total + literal(k + 1.0) * reduce.reduce("sum", part, tuple(range(x.aval.ndim)))
        return total

    return fn


PARTS = {
    "a gap before and after": [(20, 40)],
    "side by side": [(0, 20), (20, 25), (45, 15)],
    "backwards, with gaps": [(70, 20), (25, 20), (0, 20)],
    "overlapping": [(0, 40), (20, 50), (30, 9)],
    "one inside the other": [(0, 90), (40, 20)],
    "equal": [(30, 30), (30, 30)],
    "single elements": [(0, 1), (44, 1), (89, 1)],
    "empty": [(20, 0), (40, 20)],
    "as many as have loops of their own": [(5 * k, 5) for k in range(16)],
    "more": [(5 * k, 5) for k in range(18)],
    "more than a word has bits": [(k, 1) for k in range(90)],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_what_is_put_together_from_parts_is_right(name):
    compiled(of_parts(*PARTS[name]), RNG.random(90))
    compiled(of_parts(*PARTS[name]), RNG.random((3, 90)))


def test_what_is_put_together_for_other_sizes_is_right():
    """The same kernel, though the parts, some of which overlap, come in another order or leave gaps."""
    x = RNG.random(120)
    kernel = compile_graph(program(of_parts((20, 30), (45, 30), (70, 30)), x))
    for cuts in ([(75, 30), (50, 30), (25, 30)], [(40, 30), (25, 30), (22, 30)], [(22, 30), (70, 30), (24, 30)]):
        graph = program(of_parts(*cuts), x)
        simplified = simplify(graph)
        other = canonicalise(simplified)
        failed, results = execute(kernel.program, simplified, other, [x])
        assert other.key == kernel.canonical.key and failed < 0
        for ours, theirs in zip(results, evaluate(graph, [x]), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_a_concatenation_is_right_at_every_boundary():
    for sizes in ([30, 1, 40], [25, 25, 25, 25], [1, 50], [3] * 20):
        arrays = [RNG.random((2, n)) for n in sizes]

        def fn(*xs):
            whole = F.exp(shape.concat(list(xs), 1))
            return reduce.reduce("sum", whole * F.sin(whole), (0, 1))

        compiled(fn, *arrays)


def test_each_part_has_a_loop_of_its_own(monkeypatch):
    """It computes that part only, in one basic block: no condition is looked at."""
    texts = []
    real = jit.compile_text
    monkeypatch.setattr(jit, "compile_text", lambda text, name: texts.append(text) or real(text, name))

    def fn(x):
        parts = [F.exp(shape.slice_axis(x, 0, 0, 20)), F.tanh(shape.slice_axis(x, 0, 20, 30))]
        parts.append(F.erf(shape.slice_axis(x, 0, 50, 40)))
        return shape.concat(parts, 0)

    x = RNG.random(90)
    recorder = Recorder()
    with recording(recorder):
        compile_graph(recorder.finish([fn(recorder.add_input(x, "x"))]))
    blocks = re.findall(r"^(\S+):\n((?:  .*\n)+)", texts[-1], re.MULTILINE)
    loops = [body for label, body in blocks if f'label %"{label}"' in body]
    called = {tuple(re.findall(r'call double @"(?:tg_vec_)?(\w+)"', body)) for body in loops}
    assert called == {("exp",), ("tanh",), ("erf",)}


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 130])
def test_tiles_are_right_at_every_number_of_rows(rows):
    compiled(
        logistic, RNG.standard_normal(7), RNG.standard_normal((rows, 7)), np.sign(RNG.standard_normal(rows)), wrt=[0]
    )
    if rows:
        compiled(softmax_loss, RNG.standard_normal((rows, 5)), RNG.random((rows, 5)))


def test_a_reverse_recurrence_does_not_share_the_loop_that_makes_what_it_reads():
    """Found by the program generator: the recurrence read from the end what the loop had stored from the start."""

    def loss(a, b):
        factor = F.tanh(a)
        shifted = shape.concat([shape.slice_axis(factor, 1, 1, 8), shape.zeros((1, 1), np.dtype(float))], 1)
        first = reduce.linrec(shifted, F.sinh(b), True)
        second = reduce.linrec(shifted, first * F.exp(shifted), True)
        return reduce.reduce("sum", first * second, (0, 1))

    compiled(loss, RNG.standard_normal((1, 9)), RNG.standard_normal((1, 9)))


def test_refusals_are_named():
    def twice(x):
        centred = x - reduce.reduce("sum", x, (0,))
        return reduce.reduce("sum", F.exp(centred), (0,))

    found = compiled(twice, RNG.standard_normal(50))
    assert Refusal.FUSE_FINISHED in [note.code for note in found.program.schedule.notes]


def test_numbers_are_not_in_the_key():
    def key(n, c):
        return canonicalise(
            simplify(program(lambda x: reduce.reduce("sum", F.sin(x) * literal(c), (0,)), RNG.random(n)))
        ).key

    assert len({key(n, c) for n in (3, 10, 17, 1000) for c in (0.5, 1.0, 2.0, -3.0, np.nan)}) == 1
    assert key(1, 0.5) != key(2, 0.5), "a size of 1 broadcasts: it is another program"


def test_equal_sizes_by_accident_are_not_in_the_key():
    def key(rows, columns):
        arrays = RNG.random((rows, columns)), RNG.random(columns)
        return canonicalise(program(lambda x, w: reduce.reduce("sum", product.contract_last(x, w), (0,)), *arrays)).key

    assert key(40, 30) == key(30, 30) == key(500, 30)


def test_sums_do_not_depend_on_where_an_array_lies():
    graph = program(lambda x: reduce.reduce("sum", F.exp(x), (0,)), RNG.standard_normal(10_001))
    kernel = compile_graph(graph)
    x = RNG.standard_normal(10_001)
    results = set()
    for offset in range(8):
        raw = np.empty(10_001 + 8)
        view = raw[offset : offset + 10_001]
        view[:] = x
        results.add(kernel.run([view])[0].tobytes())
    assert len(results) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exp", "log1p", "sin", "tanh", "erf", "expit", "logaddexp"])
def test_an_element_has_one_value_wherever_it_lies(name):
    """Vector lanes and the last few elements of a loop give the same bits: recomputed values are equal."""

    def function(x):
        return F.logaddexp(x, F.square(x)) if name == "logaddexp" else getattr(F, name)(x)

    def run(x):
        recorder = Recorder()
        with recording(recorder):
            return compile_graph(recorder.finish([function(recorder.add_input(x, "x"))])).run([x])[0]

    x = RNG.uniform(0.1, 2.0, 100)
    whole = run(x)
    for length in (1, 2, 7, 8, 9, 31, 99):
        np.testing.assert_array_equal(run(x[:length].copy()), whole[:length])
        np.testing.assert_array_equal(run(x[-length:].copy()), whole[-length:])
    np.testing.assert_array_equal(run(x.reshape(10, 10).T.copy()), whole.reshape(10, 10).T)


# ---- values under conditions ----------------------------------------------------------------------------------------


def fenced(values):
    """A copy of *values* right behind a page that must not be read."""
    values = np.asarray(values)
    memory = mmap.mmap(-1, mmap.PAGESIZE + values.nbytes)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), mmap.PAGESIZE, 0) == 0
    copy = np.frombuffer(memory, values.dtype, values.size, mmap.PAGESIZE)
    copy[:] = values
    return copy


def ends_well(run):
    """Does *run* return in a child process?"""
    child = os.fork()
    if child == 0:
        try:
            run()
        finally:
            os._exit(1 if sys.exc_info()[0] else 0)
    return os.waitpid(child, 0)[1] == 0


def joined(a, b, c, order):
    return np.sum(np.sin(np.concatenate([a, b * 2.0, c])))


def written_and_gathered(a, b, c, order):
    rows = b.copy()
    rows[3:6] = c[:3]
    return np.sum(np.concatenate([a, rows[order], a]) ** 2)


@pytest.mark.parametrize("function", [joined, written_and_gathered])
def test_nothing_is_read_where_a_condition_does_not_hold(function):
    a, b, c = (fenced(RNG.normal(size=50)) for _ in range(3))
    order = fenced(RNG.integers(0, 50, size=50))
    compiled = compile_grad(function, argnums=(0, 1, 2))

    def run():
        for _ in range(3):
            np.testing.assert_allclose(compiled(a, b, c, order), function(a, b, c, order))
            np.testing.assert_allclose(compiled.value_and_grad(a, b, c, order)[0], function(a, b, c, order))

    assert ends_well(run)


def shifted(b):
    return np.concatenate([b[1:], np.sin(b[:1])])


def rotated(b):
    return np.concatenate([b[1:], b[:1]]) * 0.5 + b


def windowed(b):
    return np.concatenate([b[:1], b[2:] - b[:-2], b[-1:]]) if len(b) > 1 else b


@pytest.mark.slow
@pytest.mark.parametrize("step", [shifted, rotated, windowed])
@pytest.mark.parametrize("size", [1, 4, 30])
def test_code_grows_with_the_number_of_steps(monkeypatch, step, size):
    """Each step asks for the one before at several positions and under several conditions: 2 ** steps paths."""
    lengths = []
    real = jit.compile_text

    def compiled(text, name):
        found = real(text, name)
        lengths.append(len(found.code))
        return found

    monkeypatch.setattr(jit, "compile_text", compiled)

    def kernel(steps):
        def chain(b):
            for _ in range(steps):
                b = step(b)
            return np.sum(b * b)

        x = RNG.normal(size=size)
        traced = Traced(chain, [x], [np.array(1.0)])
        graph = compile_graph(traced.graph)
        np.testing.assert_allclose(graph.run([x])[1], traced.grads[0], rtol=1e-12, atol=1e-12)
        looked_at = sum(len(r.inlined) for r in graph.program.schedule.reads.values())
        return lengths[-1], looked_at

    (few_bytes, few), (many_bytes, many) = kernel(6), kernel(12)
    assert many < 5 * few
    assert many_bytes < 5 * few_bytes


@pytest.mark.slow
def test_scalars_are_not_computed_again_in_every_function(monkeypatch):
    """Each step continues a chain of scalars, and its loop nests and products are functions of their own."""
    texts = []
    real = jit.compile_text
    monkeypatch.setattr(jit, "compile_text", lambda text, name: (texts.append(text), real(text, name))[1])

    def calls(steps):
        def chain(b):
            t = np.sum(b) * 0.1
            v = b
            for _ in range(steps):
                for _ in range(6):
                    t = np.sin(t + 0.3)
                v = np.tanh(matrix @ v) * t
            return np.sum(v * v) + t

        x = RNG.normal(size=20)
        traced = Traced(chain, [x], [np.array(1.0)])
        graph = compile_graph(traced.graph)
        np.testing.assert_allclose(graph.run([x])[1], traced.grads[0], rtol=1e-12, atol=1e-12)
        return len(re.findall(r"call double @\"?(?:sin|cos)\"?\(", texts[-1]))

    matrix = RNG.normal(size=(20, 20)) / 5
    few, many = calls(6), calls(24)
    assert 0 < many < 6 * few, (few, many)
