"""Families: paths that share a launch, so that inputs which take turns never come to Python."""

from __future__ import annotations

import functools
import itertools
import threading

import numpy as np
import pytest
from compiled_graph import compile_graph
from ir_parser import parse_graph

import tracegrad
from tracegrad import compile_grad
from tracegrad.runtime.launch import bind
from tracegrad.runtime.paths import family as family_module
from tracegrad.runtime.paths.dispatcher import FunctionDispatcher
from tracegrad.runtime.paths.family import successors
from tracegrad.tracer.ir.refusals import Refusal

N = 20


def plain(w, x):
    z = w * x
    z = np.tanh(z) if np.sum(z) > 0.0 else 0.5 * z * z
    z = z * w if z[0] > z[1] else z + x * w * w
    return np.sum(np.sin(z)) if np.max(z[2:10]) > 0.9 else np.sum(z * z)


def way(w, x):
    z = w * x
    first = bool(np.sum(z) > 0.0)
    z = np.tanh(z) if first else 0.5 * z * z
    second = bool(z[0] > z[1])
    z = z * w if second else z + x * w * w
    return first, second, bool(np.max(z[2:10]) > 0.9)


def by_way(count):
    """Inputs, in turn for each of the eight ways."""
    rng, found = np.random.default_rng(3), {}
    while len(found) < 8 or min(map(len, found.values())) < count:
        args = 1.0 + 0.5 * rng.standard_normal(N), 0.5 * rng.standard_normal(N)
        found.setdefault(way(*args), []).append(args)
    return [[same[k] for same in found.values()] for k in range(count)]


ROUNDS = by_way(4)


def expected(args):
    """By a function of its own for each input, which has one path."""
    return compile_grad(plain).value_and_grad(*args)


def check(found, args):
    value, gradient = expected(args)
    assert found[0] == value and found[1].tobytes() == gradient.tobytes()


def warm(f, inputs):
    for args in [*inputs, *inputs]:
        f.value_and_grad(*args)


@pytest.fixture(params=["native", "python"])
def launcher(request, monkeypatch):
    monkeypatch.setattr(bind, "NATIVE", bind.NATIVE and request.param == "native")


@pytest.fixture
def descents(monkeypatch):
    """The dispatchers that calls came to."""
    seen = []
    real = FunctionDispatcher.dispatch
    monkeypatch.setattr(FunctionDispatcher, "dispatch", lambda *args: (seen.append(args[0]), real(*args))[1])
    return seen


def members(f):
    return [family.members for family in f._both.owners]


@pytest.mark.usefixtures("launcher")
def test_every_way_in_any_order_without_python(descents):
    f = compile_grad(plain)
    warm(f, ROUNDS[0])
    assert f.stats.traces == 8 and [len(paths) for paths in members(f)] == [8]
    descents.clear()
    order = [args for inputs in ROUNDS for args in inputs]
    np.random.default_rng(1).shuffle(order)
    found = [f.value_and_grad(*args) for args in order for _ in range(2)]
    assert f._dispatcher not in descents
    for k, args in enumerate(order):
        check(found[2 * k], args)
        check(found[2 * k + 1], args)
    assert sum(path.runs for path in f.stats.paths) == f.stats.calls == 16 + 2 * len(order)


@pytest.mark.usefixtures("launcher")
def test_each_question_is_answered_anew_at_most_once_a_call():
    f = compile_grad(plain)
    warm(f, ROUNDS[0])
    missed = lambda: sum(sum(path.misses.values()) for path in f.stats.paths)  # noqa: E731
    for args, other in itertools.permutations(ROUNDS[1], 2):
        f.value_and_grad(*args)
        before = missed()
        f.value_and_grad(*other)
        assert 1 <= missed() - before <= 3
        before = missed()
        f.value_and_grad(*other)  # the path that answered last is run first
        assert missed() == before


@pytest.mark.usefixtures("launcher")
def test_a_new_answer_runs_each_member_once_and_is_recorded(descents):
    def power(x):
        return np.sum(x ** int(x[0]))

    f = compile_grad(power)
    for k in (1.0, 2.0, 3.0) * 2:
        f.value_and_grad(np.array([k, 2.0]))
    before = f._both.owners[0].members
    counts = [path.counts.copy() for path in before]
    assert len(counts) == 3
    f.value_and_grad(np.array([4.0, 2.0]))
    after = [path.counts for path in before]
    assert [(b - a).tolist() for a, b in zip(counts, after, strict=True)] == [[0, 1]] * 3
    assert f.value_and_grad(np.array([4.0, 2.0]))[0] == 4.0**4 + 2.0**4
    assert f.stats.traces == 4 and [len(paths) for paths in members(f)] == [4]


def test_successors_go_round_the_answers_to_one_question():
    f = compile_grad(plain)
    warm(f, ROUNDS[0])
    paths = f._both.owners[0].members
    for path, after in zip(paths, successors(paths), strict=True):
        answers = [guard.expected for guard in path.guards]
        for guard, k in enumerate(after):
            other = [guard.expected for guard in paths[k].guards]
            assert other[:guard] == answers[:guard] and other[guard] != answers[guard]


def test_a_path_that_is_dropped_is_not_run_any_more(descents):
    f = compile_grad(plain)
    warm(f, ROUNDS[0])
    ((variant,),) = f._both.variants.values()
    gone = variant.paths[3]
    runs = gone.counts.copy()
    with f._dispatcher.lock:
        f._both.forget(variant, [gone])
    assert not f._both.slots
    for args in (*ROUNDS[1], *ROUNDS[2], *ROUNDS[3]):
        check(f.value_and_grad(*args), args)
    assert (gone.counts == runs).all() and gone not in members(f)[0]
    assert f.stats.traces == 9 and [len(paths) for paths in members(f)] == [8]


def test_a_path_with_too_little_room_is_replaced():
    def grow(x, target):
        if target > 0.0:
            return tracegrad.while_loop(lambda y: y < target, lambda y: y * x, x)
        return x * target

    f = compile_grad(grow)
    for _ in range(3):
        for target in (5.0, -1.0, 1e3, 1e9, -2.0, 1e30):
            value, gradient = f.value_and_grad(1.5, target)
            power = round(np.log(value) / np.log(1.5)) if target > 0 else 1
            assert value == pytest.approx(1.5**power if target > 0 else 1.5 * target)
            assert gradient == pytest.approx(power * 1.5 ** (power - 1) if target > 0 else target)
    assert len(f.stats.paths) == 2


SCALE = 2.0
OFFSET = np.ones(3)


def with_state(x):
    return SCALE * np.sum(x + OFFSET) if x[0] > 0 else SCALE * np.sum(x * OFFSET)


def test_outside_state_and_captured_arrays(monkeypatch):
    f = compile_grad(with_state)
    up, down = np.array([1.0, 2.0, 3.0]), np.array([-1.0, 2.0, 3.0])
    for scale in (2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        for offset in (np.ones(3), np.arange(3.0)):
            monkeypatch.setitem(globals(), "OFFSET", offset)
            for _ in range(3):
                for x in (up, down):
                    assert f(x) == with_state(x)
                offset += 1.0  # in place
                for x in (down, up):
                    assert f(x) == with_state(x)
    assert f.stats.traces == 4  # two paths of two states


def test_results_that_differ_keep_paths_apart():
    def shapes(x):
        return x * 2.0 if x[0] > 0 else x[:2] * 3.0

    def structures(x):
        if x[0] > 0:
            return {"a": x * 2.0, "n": 1000}
        return {"a": x * 3.0, "n": 1000.0 if x[1] > 0 else 1001}

    f, g = compile_grad(shapes), compile_grad(structures)
    for signs in itertools.product((1.0, -1.0), (1.0, -1.0), range(4)):
        x = np.array([*signs[:2], 1.0])
        np.testing.assert_array_equal(f(x), shapes(x))
        found, wanted = g(x), structures(x)
        np.testing.assert_array_equal(found["a"], wanted["a"])
        assert (type(found["n"]), found["n"]) == (type(wanted["n"]), wanted["n"])
    assert [len(family.members) for family in f._value.owners] == [1, 1]
    assert len(g._value.owners) == 3


def test_explain_says_what_shares_a_launch():
    def aux(x):
        return np.sum(x), (x if x[0] > 0 else x[:2])

    f, g = compile_grad(plain), compile_grad(aux, has_aux=True)
    warm(f, ROUNDS[0])
    assert "8 of the paths are tried in one launch" in f.explain(*ROUNDS[0][0], level="all")
    for _ in range(2):
        g.value_and_grad(np.ones(3)), g.value_and_grad(-np.ones(3))
    assert f"not in one launch with others: {Refusal.LAUNCH_RESULTS()}" in g.explain(np.ones(3), level="all")


def test_more_paths_than_a_family_holds(monkeypatch, descents):
    monkeypatch.setattr(family_module, "MAX_FAMILY", 3)
    f = compile_grad(plain)
    for _ in range(3):
        warm(f, ROUNDS[0])
    assert sorted(map(len, members(f))) == [2, 3, 3]
    descents.clear()
    for args in (*ROUNDS[1], *ROUNDS[2]):
        check(f.value_and_grad(*args), args)
    assert f._dispatcher not in descents


def test_other_layouts_go_to_the_dispatcher_and_are_right():
    f = compile_grad(plain)
    warm(f, ROUNDS[0])
    for args in (*ROUNDS[1], *ROUNDS[2]):
        w, x = np.repeat(args[0], 2)[::2], np.repeat(args[1], 2)[::2]
        check(f.value_and_grad(w, x), args)
        check(f.value_and_grad(*args), args)
    assert f.stats.traces == 8


def test_threads():
    f = compile_grad(plain)
    start, wrong = threading.Barrier(4), []
    wanted = [(args, expected(args)) for inputs in ROUNDS for args in inputs]

    def work(seed):
        rng = np.random.default_rng(seed)
        start.wait()
        for k in rng.integers(len(wanted), size=400):
            args, (value, gradient) = wanted[k]
            found = f.value_and_grad(*args)
            if found[0] != value or found[1].tobytes() != gradient.tobytes():
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    # ways that are recorded at the same time know nothing of one another, and may be kept under reads of their own
    assert not wrong and len({path.answers for path in f.stats.paths}) == 8


def ranked(x):
    y = np.sort(x)
    spread = np.cumsum(y * np.arange(x.size))
    return np.sum(y[:3] * 3.0) if spread[-1] > 0.0 else np.sum(np.sort(spread) ** 2)


@pytest.mark.usefixtures("launcher")
def test_programs_with_steps_of_numpys_share_a_launch(descents):
    rng = np.random.default_rng(4)
    points = [sign * rng.random(30) for sign in (1.0, -1.0) * 8]
    wanted = [compile_grad(ranked).value_and_grad(x) for x in points]
    f = compile_grad(ranked)
    for x in points[:2] * 2:
        f.value_and_grad(x)
    (family,) = f._both.owners
    assert len(family.members) == 2
    assert all(len(path.program.steps) > 1 for path in family.members)
    descents.clear()
    wrong = []

    def work(seed):
        for k in np.random.default_rng(seed).integers(len(points), size=60):
            value, gradient = f.value_and_grad(points[k])
            if value != wanted[k][0] or gradient.tobytes() != wanted[k][1].tobytes():
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and f._dispatcher not in descents
    assert isinstance(family.launch, functools.partial) is not bind.NATIVE


def test_members_that_do_not_agree_are_refused():
    f = compile_grad(lambda x: np.sum(x) if x.size > 2 else x * 2.0)
    for n in (2, 3):
        f(np.ones(n)), f(np.ones(n))
    launches = [family.members[0].launch for family in f._value.owners]
    with pytest.raises(ValueError, match="same arguments and results"):
        bind.bind_family(launches, [[], []])
    with pytest.raises(ValueError, match="at most"):
        bind.bind_family(launches[:1] * 63, [[]] * 63)


# ---- guards that are checked early ---------------------------------------------------------------------------------


def deep(w, v, x):
    h = np.tanh(x @ w)
    if np.sum(h) > 0.0:
        h = h @ v
    if h[0, 0] > 0.0:
        h = h * 2.0
    return np.sum(h @ v)


def test_kernels_check_guards_before_they_go_on():
    rng = np.random.default_rng(0)
    f = compile_grad(deep, argnums=(0, 1))
    points = [tuple(rng.standard_normal((20, 20)) for _ in range(3)) for _ in range(12)]
    for args in points * 3:
        value, (dw, dv) = f.value_and_grad(*args)
        assert value == pytest.approx(deep(*args))
        alone = compile_grad(deep, argnums=(0, 1)).value_and_grad(*args)
        assert alone[0] == value and alone[1][0].tobytes() == dw.tobytes() and alone[1][1].tobytes() == dv.tobytes()
    assert len(f.stats.paths) == 4
    assert "2 of 2 guards are checked before other loops run" in f.explain(*points[0], level="all")


def doubled(z, s):
    return z * 2 if s > 0 else np.complex128(z * 2)


def test_each_branch_gives_a_number_of_its_own_class():
    compiled = compile_grad(doubled)
    for s in (1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0):
        found, expected = compiled(1 + 2j, s), doubled(1 + 2j, s)
        assert type(found) is type(expected) and found == expected
    assert compiled.stats.live == ""


GRAPH = """
graph(a:f64[40], b:f64[40]) {
  c:f64[] = reduce_sum[axes=(0,)] a
  d:bool[] = gt c 0.0:f64*
  e:f64[] = reduce_max[axes=(0,)] b
  f:bool[] = gt e 0.0:f64*
  g:i64[40] = argsort[stable=True] a
  h:f64[40] = mul a b
  guard bool d == True
  guard bool f == False
  return g h
}
"""


def test_the_first_guard_that_fails_is_told_whatever_runs_first():
    graph = parse_graph(GRAPH)
    program = compile_graph(graph)
    assert program.program.schedule.checks and len(program.program.steps) > 1
    for a, b, wanted in ((1, -1, -1), (-1, -1, 0), (1, 1, 1), (-1, 1, 0)):
        inputs = [np.full(40, float(a)), np.full(40, float(b))]
        results = program.run(inputs)
        assert program.failed == wanted
        if wanted < 0:
            order, found = results
            np.testing.assert_array_equal(order, np.arange(40))
            np.testing.assert_array_equal(found, inputs[0] * inputs[1])
