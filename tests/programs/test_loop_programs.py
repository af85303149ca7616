"""Random Python programs with loops: values against plain NumPy, gradients against dual numbers, call after call.

``loop_grammar.py`` writes them, ``loop_programs.py`` judges and shrinks them, and hunts from the command line.  The
seeds here are fixed, and divided over the ways in which loops are rolled.
"""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest
from agreement import numerical_gradient
from dual import Dual, numpy_for_duals
from loop_grammar import TRIPS, program
from loop_programs import (
    OTHER_TRIPS,
    SAME,
    argnums,
    arguments,
    by_duals,
    judge,
    like,
    namespace,
    plainly,
    report,
    shrink,
)
from selection import seeds

from tracegrad import compile_grad

BLOCK = 5


@pytest.mark.parametrize("start", seeds(20, quick=5, block=BLOCK))
def test_loop_programs(start):
    configuration = ("eager", "as_is")[start // BLOCK % 2]
    for seed in range(start, start + BLOCK):
        verdict = judge(program(seed), configuration=configuration)
        if verdict.found:
            pytest.fail(report(seed, verdict, configuration), pytrace=False)


# ---- the tools themselves ----------------------------------------------------------------------------------------


def test_a_seed_is_a_program():
    assert program(3).source == program(3).source != program(4).source
    for a, b in zip(arguments(program(3), SAME), arguments(program(3), SAME), strict=True):
        np.testing.assert_array_equal(a, b)


def test_programs_are_varied():
    cases = [program(seed) for seed in range(300)]
    text = "\n".join(case.source[case.source.index("def f(") :] for case in cases)
    assert {case.trips for case in cases} == set(TRIPS)
    wanted = [
        "break",
        "continue",
        r"return np.sum\(a\)",
        "while ",
        "else:",
        "elif ",
        r"range\(i\d+\):",
        r"ys\.append\(",
        "zip",
        "enumerate",
    ]
    wanted += [
        r"out\[i\d+\] =",
        r"a, b = b",
        r"out\[i\d+ - 1\]",
        r"\.items\(\)",
        "rows_of",
        "descend",
        "nonlocal",
        r"0\.5\*\*",
        "w @",
    ]
    wanted += [
        r"for i\d+ in range\(n - 1, -1, -1\)",
        r"xs\[n - 1 - i\d+\]",
        r"ps\[i\d+",
        r"ids\[i\d+",
        r"i\d+ == 10",
        r"ys\.pop\(",
    ]
    for pattern in wanted:
        assert len(re.findall(pattern, text)) >= 2, pattern


def test_programs_run():
    """Nearly all of them to the end, with finite values, and with other values where a loop runs more or less often."""
    ran = differ = 0
    for seed in range(100):
        case = program(seed)
        f = namespace(case, "plain")["f"]
        first, other = (plainly(f, arguments(case, variant)) for variant in (SAME, OTHER_TRIPS))
        ran += first.error is None and bool(np.isfinite(first.value))
        differ += first.value != other.value
    assert ran > 90
    assert differ > 90


def slope_by_differences(f, args, nums, directions, step):
    """Central differences along a direction; None where the function raises."""
    ends = []
    for way in (step, -step):
        moved = list(args)
        for i, v in zip(nums, directions, strict=True):
            if isinstance(args[i], list):
                moved[i] = [a + way * b for a, b in zip(args[i], v, strict=True)]
            else:
                moved[i] = args[i] + way * v
        ends.append(plainly(f, moved))
    return None if ends[0].error or ends[1].error else (ends[0].value - ends[1].value) / (2 * step)


def test_dual_numbers_against_finite_differences():
    compared = 0
    for seed in range(60):
        case = program(seed)
        args, nums = arguments(case, SAME), argnums(case)
        draw = np.random.default_rng(seed).normal
        directions = [like(args[i], lambda a: draw(size=np.shape(a))) for i in nums]  # noqa: B023
        exact = by_duals(namespace(case, "dual")["f"], args, nums, directions)
        f = namespace(case, "plain")["f"]
        here = plainly(f, args)
        if here.error is not None:
            assert type(exact.error) is type(here.error)
            continue
        assert exact.value == pytest.approx(here.value, rel=1e-12)
        slope, closer = (slope_by_differences(f, args, nums, directions, step) for step in (1e-6, 5e-7))
        if abs(slope - closer) < 1e-6 * (1 + abs(slope)):  # no branch in between
            assert exact.slope == pytest.approx(slope, rel=1e-5, abs=1e-6)
            compared += 1
    assert compared > 45


def test_dual_numbers_follow_views_and_writes():
    def run(np, x, out):
        row = out[1]
        out[0] = x
        row += np.tanh(x) * x[0]
        row[1:] *= out[0][:-1]
        y = out[1]
        y -= np.where(x > 0.2, x * x, 0.5)
        return np.sum(np.sin(out) @ x) + out[1, 0] ** 2

    x, v = np.array([0.3, -0.4, 0.7]), np.array([1.0, 2.0, -0.5])
    exact = run(numpy_for_duals, Dual(x.copy(), v.copy()), Dual(np.zeros((2, 3)), np.zeros((2, 3))))
    gradient = numerical_gradient(lambda x: run(np, x, np.zeros((2, 3))), (x,))
    assert exact.value == run(np, x, np.zeros((2, 3)))
    assert exact.tangent == pytest.approx(gradient @ v, rel=1e-8)


class Wrong:
    """A compiler that is wrong in the gradients of programs that call ``descend``."""

    def __init__(self, fn, argnums):
        self.right, self.wrong = compile_grad(fn, argnums=argnums), "descend" in fn.__code__.co_names

    def value_and_grad(self, *args):
        value, gradient = self.right.value_and_grad(*args)
        return value, tuple(like(g, lambda x: x * 1.001) for g in gradient) if self.wrong else gradient

    def __call__(self, *args):
        return self.right(*args)


@pytest.mark.slow
def test_a_wrong_compiler_is_found():
    kinds = {}
    for seed in range(26):
        case = program(seed)
        if case.trips <= 5:
            reads = "descend" in case.source[case.source.index("def f(") :]
            kinds.setdefault(reads, set()).add(judge(case, Wrong).kind)
    assert kinds[False] == {""}
    assert "gradient" in kinds[True]


@pytest.mark.slow
def test_programs_are_shrunk():
    """To what still fails: here, to run and to call ``descend``."""

    def fails(case):
        try:
            f = namespace(case, "plain")["f"]
        except Exception:
            return False
        return "descend" in f.__code__.co_names and plainly(f, arguments(case, SAME)).error is None

    case = next(c for c in map(program, range(1000)) if fails(c) and c.source.count("for ") > 3)
    small = shrink(case, fails, budget=2000)
    body = ast.parse(small.source).body[-1].body
    assert len(body) < 8
    assert any("descend" in ast.unparse(statement) for statement in body)
