"""Random whole programs: derivatives against finite differences, kernels against the interpreter.

``programs.py`` grows, judges and shrinks them, and hunts from the command line (there a crash is caught, too).  The
seeds here are fixed; TRACEGRAD_PROGRAMS=N runs N of them.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from programs import Case, cases_of, judge_derivatives, judge_tier, program, shrink
from support import TIERS, evaluate
from tracegrad.tracer.ir import Graph
from tracegrad.tracer.irtext import parse_graph, print_graph

COUNT = int(os.environ.get("TRACEGRAD_PROGRAMS", "150"))
KERNELS = COUNT if "TRACEGRAD_PROGRAMS" in os.environ else 60  # each compiles three or four of them
BLOCK = 10


def report(seed: int, name: str, verdict: str, small: Case, judged: str) -> str:
    return f"seed {seed}, {name}: {verdict}\n\nshrunk: {judged}\n{small}"


@pytest.mark.parametrize("start", range(0, COUNT, BLOCK))
def test_derivatives(start):
    for seed in range(start, min(start + BLOCK, COUNT)):
        case = program(seed)
        verdict = judge_derivatives(case)
        if verdict:
            small = shrink(case, lambda c: bool(judge_derivatives(c)))
            pytest.fail(report(seed, "derivatives", verdict, small, judge_derivatives(small)), pytrace=False)


@pytest.mark.parametrize("start", range(0, KERNELS, BLOCK))
def test_kernels(kernel, start):
    def judge(case: Case) -> str:
        try:
            return judge_tier(case, kernel)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    for seed in range(start, min(start + BLOCK, COUNT)):
        for name, case in cases_of(seed).items():
            verdict = judge(case)
            if verdict:
                small = shrink(case, lambda c: bool(judge(c)), budget=100)
                pytest.fail(report(seed, name, verdict, small, judge(small)), pytrace=False)


def test_programs_round_trip_as_text():
    for seed in range(40):
        case = program(seed)
        text = print_graph(case.graph)
        again = parse_graph(text)
        assert print_graph(again) == text
        for a, b in zip(evaluate(again, case.inputs), evaluate(case.graph, case.inputs), strict=True):
            assert a.tobytes() == b.tobytes()


# ---- the tools themselves ------------------------------------------------------------------------------------------


def test_a_seed_is_a_program():
    first, second = program(12), program(12)
    assert print_graph(first.graph) == print_graph(second.graph)
    assert all(np.array_equal(a, b) for a, b in zip(first.inputs, second.inputs, strict=True))


def test_programs_are_varied():
    cases = [program(seed) for seed in range(120)]
    names = {node.prim.name for case in cases for node in case.graph.nodes}
    wanted = {"reduce_sum", "reduce_max", "slice", "pad", "update", "transpose", "reshape", "concat", "select"}
    assert wanted | {"gather", "linrec", "broadcast", "exp", "argsort", "matmul"} <= names
    shapes = [node.out.aval.shape for case in cases for node in case.graph.nodes]
    assert any(len(s) == 3 for s in shapes) and any(0 in s for s in shapes) and any(1 in s for s in shapes)
    assert sum(len(case.graph.nodes) >= 20 for case in cases) > 20
    assert sum(len(case.graph.outputs) > 1 for case in cases) > 40


def test_a_wrong_tier_is_found_and_shrunk():
    def broken(graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
        wrong = any(node.prim.name == "tanh" and node.out.aval.size for node in graph.nodes)
        return [x + 1e-3 if wrong and x.dtype.kind == "f" else x for x in evaluate(graph, inputs)]

    found = 0
    for seed in range(60):
        case = program(seed)
        assert not judge_tier(case, TIERS["interpreter"])
        if judge_tier(case, broken):
            found += 1
            small = shrink(case, lambda c: bool(judge_tier(c, broken)))
            assert [node.prim.name for node in small.graph.nodes] == ["tanh"]
    assert found > 5
