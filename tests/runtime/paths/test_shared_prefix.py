"""What paths have in common runs once in a call: steps are told apart rightly, taken over, and never wrongly."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from branching import check as check_program
from compiled_graph import compile_graph
from ir_parser import parse_graph
from selection import seeds

from tracegrad import compile_grad
from tracegrad.codegen.cpu.value_numbering import products, step_keys
from tracegrad.codegen.schedule.early_exit import steps_before
from tracegrad.runtime.launch import bind
from tracegrad.runtime.launch.plan import KERNEL_TYPE
from tracegrad.runtime.paths.family import successors

native_only = pytest.mark.skipif(not bind.NATIVE, reason=bind.NATIVE_REASON)
N = 20


def dense(w, v, x):
    h = np.tanh(x @ w)
    h = np.tanh(h @ w)
    h = h @ v if np.sum(h) > 0.0 else 2.0 * h
    h = h @ w if h[0, 0] > 0.0 else h
    return np.sum(h * h)


def stepwise(w, v, x):
    h = x
    for _ in range(40):
        h = np.tanh(w * h + 0.01 * v)
    return np.sum(h * x) if h[0, 0] > 0.0 else np.sum(h * h)


def normalised(w, v, x):
    z = x @ w
    p = np.exp(z - np.max(z, axis=1, keepdims=True))
    p = p / np.sum(p, axis=1, keepdims=True)
    entropy = -np.sum(p * np.log(p))
    return entropy if entropy > 55.0 else np.sum((p @ v) ** 2)


def points(count):
    rng = np.random.default_rng(5)
    scales = itertools.cycle((0.02, 1.0))
    return [tuple(next(scales) * rng.standard_normal((N, N)) for _ in range(3)) for _ in range(count)]


def family_of(f):
    (family,) = f._both.owners
    return family


@pytest.mark.slow
@native_only
@pytest.mark.parametrize("fn", [dense, stepwise, normalised])
def test_results_do_not_depend_on_what_ran_before(fn):
    args = points(12)
    wanted = [compile_grad(fn, argnums=(0, 1)).value_and_grad(*point) for point in args]
    f = compile_grad(fn, argnums=(0, 1))
    for point in args * 2:
        f.value_and_grad(*point)
    family = family_of(f)
    assert len(family.members) > 1 and family.merged.shared
    traces = f.stats.traces
    for a, b in itertools.permutations(range(len(args)), 2):
        for k in (a, b):
            value, gradients = f.value_and_grad(*args[k])
            assert value == wanted[k][0]
            assert [g.tobytes() for g in gradients] == [g.tobytes() for g in wanted[k][1]]
    assert f.stats.traces == traces and sum(sum(p.misses.values()) for p in f.stats.paths)


@native_only
@pytest.mark.parametrize(("fn", "names"), [(dense, {"matmul"}), (stepwise, {"loop"}), (normalised, {"matmul"})])
def test_the_dear_steps_in_front_of_a_branch_are_shared(fn, names):
    """Library calls and loops over a body that run before the first branch is decided are done for the next path."""
    f = compile_grad(fn)
    for point in points(12) * 2:
        f.value_and_grad(*point)
    family = family_of(f)
    for path, done in zip(family.members, family.merged.done, strict=True):
        first = path.questions[0][2]
        body = path.program.schedule.body[: steps_before(path.program.schedule, first)]
        dear = [item for item in body if not hasattr(item, "dim") and item.op.prim.name in names]
        assert dear and done[first].bit_count() >= len(dear)


@native_only
def test_steps_that_are_told_to_be_done_are_left_out():
    graph = parse_graph("""
graph(a:f64[40], b:f64[40]) {
  c:f64[] = reduce_sum[axes=(0,)] a
  d:bool[] = gt c 0.0:f64*
  h:f64[40] = mul a b
  guard bool d == True
  return h c
}
""")
    compiled = compile_graph(graph)
    program, numbers = compiled.program, compiled.canonical
    (loop,) = [item for item, made in products(program).items() if made[-1] in program.results]
    offsets, total = program.plan(numbers.sizes)
    space = np.empty(total, np.uint8)
    a, b, h, c = np.ones(40), np.full(40, 3.0), np.full(40, 7.0), np.full(1, 9.0)
    pointers = np.array([*(x.ctypes.data for x in (a, b, h, c)), *(space.ctypes.data + o for o in offsets)])
    kernel = KERNEL_TYPE(program.address)
    where = pointers.ctypes.data, numbers.sizes.ctypes.data, numbers.consts.ctypes.data
    everything = (1 << len(program.bits)) - 1
    assert kernel(*where, 0) == -1 and h[0] == 3.0
    h[:] = 7.0
    assert kernel(*where, 1 << program.bits[loop]) == -1 and h[0] == 7.0
    a[:] = -1.0
    assert kernel(*where, everything) == -1  # the sum is taken to be what it was
    assert kernel(*where, 0) == 0


def keys(*graphs):
    table = {}
    return [step_keys(g.program, g.canonical, [c for _, c in g.graph.consts], table) for g in graphs]


def chain(scale="2.0:f64", axes="(0,)", shape="40", start="x"):
    return compile_graph(
        parse_graph(f"""
graph(x:f64[{shape}], y:f64[{shape}]) {{
  s:f64[] = reduce_sum[axes={axes}] {start}
  t:f64[] = mul s {scale}
  b:f64[{shape}] = broadcast[dims=(), shape=({shape},)] t
  z:f64[{shape}] = mul b x
  d:bool[] = gt s 0.0:f64*
  guard bool d == True
  return z
}}
""")
    )


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({}, (True, True)),
        ({"scale": "3.0:f64"}, (True, False)),  # the constant is another one in what is behind it
        ({"start": "y"}, (False, False)),  # another argument, and what reads the sum
        ({"shape": "41"}, (False, False)),
    ],
)
def test_steps_are_the_same_where_operations_operands_and_numbers_are(other, same):
    one, two = keys(chain(), chain(**other))
    loops = [k for k, item in enumerate(chain().program.schedule.body) if hasattr(item, "dim")]
    assert len(loops) == 2
    assert tuple(one[k] == two[k] for k in loops) == same


def test_a_branch_that_changes_what_follows_shares_only_what_is_before_it():
    def scaled(x, w):
        h = x @ w
        a = 2.0 if h[0, 0] > 0.0 else 3.0
        z = np.tanh(a * h) @ w
        return np.sum(z * z) if np.max(z) > 3.0 else np.sum(z)

    rng = np.random.default_rng(2)
    f = compile_grad(scaled)
    args = [(s * rng.standard_normal((N, N)), rng.standard_normal((N, N))) for s in (0.003, 1.0) * 8]
    for point in args * 3:
        value, gradient = f.value_and_grad(*point)
        alone = compile_grad(scaled).value_and_grad(*point)
        assert value == alone[0] and gradient.tobytes() == alone[1].tobytes()
        assert value == pytest.approx(scaled(*point))
    assert len(f.stats.paths) == 4


@native_only
def test_nothing_else_is_written_where_shared_values_lie():
    f = compile_grad(dense, argnums=(0, 1))
    for point in points(12) * 2:
        f.value_and_grad(*point)
    family = family_of(f)
    shared: set[tuple[int, int]] = set()
    every: list[tuple[int, int]] = []
    for k, (path, offsets) in enumerate(zip(family.members, family.merged.offsets, strict=True)):
        program, sizes = path.program, path.recording.canonical.sizes
        first = len(program.inputs) + len(program.results)
        spans = [(o, o + t.nbytes(sizes)) for o, t in zip(offsets, program.temporaries, strict=True)]
        assert all(0 <= start < end <= family.merged.nbytes for start, end in spans)
        told = [
            word
            for after, words in zip(successors(family.members), family.merged.done, strict=True)
            for target, word in zip(after, words, strict=True)
            if target == k
        ]
        handed = [item for item, bit in program.bits.items() if any(word >> bit & 1 for word in told)]
        made = products(program)
        syms = [sym for item in handed for sym in made[item] if sym not in program.results]
        shared |= {spans[program.buffer_index[sym] - first] for sym in syms}
        every += spans
    assert shared
    for start, end in shared:
        assert {span for span in every if span[0] < end and start < span[1]} == {(start, end)}


def test_explain_says_what_is_shared():
    f = compile_grad(dense)
    for point in points(12) * 2:
        f.value_and_grad(*point)
    text = f.explain(*points(1)[0], level="all")
    found = re.search(r"steps in front of branches that one launch runs once for all paths: (\d+)", text)
    assert found and int(found[1]) >= 3
    assert "steps in front of branches that may run again" in text


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(5, quick=1))
def test_random_programs(seed):
    """Whatever ran before, each input gets the bits that a function of its own gives it."""
    check_program(seed)


def test_without_a_native_launcher_each_path_runs_its_steps(monkeypatch):
    monkeypatch.setattr(bind, "NATIVE", False)
    f = compile_grad(dense)
    for point in points(12) * 2:
        value, gradient = f.value_and_grad(*point)
        alone = compile_grad(dense).value_and_grad(*point)
        assert value == alone[0] and gradient.tobytes() == alone[1].tobytes()
    assert len(f._both.owners) == 1
