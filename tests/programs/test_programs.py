"""Random whole programs: derivatives against finite differences, kernels against the interpreter.

``programs.py`` grows, judges and shrinks them, and hunts from the command line (there a crash is caught, too).  The
seeds here are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
from ir_parser import parse_graph
from programs import Case, cases_of, judge_derivatives, judge_tier, program, shrink
from selection import seeds
from support import TIERS, evaluate

from tracegrad.tracer.ir.graph import Graph
from tracegrad.tracer.ir.text import print_graph

BLOCK = 10


def report(seed: int, name: str, verdict: str, small: Case, judged: str) -> str:
    return f"seed {seed}, {name}: {verdict}\n\nshrunk: {judged}\n{small}"


@pytest.mark.parametrize("start", seeds(100, quick=50, block=BLOCK))
def test_derivatives(start):
    for seed in range(start, start + BLOCK):
        case = program(seed)
        verdict = judge_derivatives(case)
        if verdict:
            small = shrink(case, lambda c: bool(judge_derivatives(c)))
            pytest.fail(report(seed, "derivatives", verdict, small, judge_derivatives(small)), pytrace=False)


@pytest.mark.parametrize("start", seeds(30, quick=10, block=BLOCK))
def test_kernels(kernel, start):
    def judge(case: Case) -> str:
        try:
            return judge_tier(case, kernel)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    for seed in range(start, start + BLOCK):
        for name, case in cases_of(seed).items():
            verdict = judge(case)
            if verdict:
                small = shrink(case, lambda c: bool(judge(c)), budget=100)
                pytest.fail(report(seed, name, verdict, small, judge(small)), pytrace=False)


# What the hunt found, shrunk.  Add the graph of each new finding here when it is fixed.
FOUND = {
    "a maximum must equal the element that it came from, however often the element is computed": """
        graph(a:f64[3,6], b:f64[3,6]) {
          c:f64[3,6] = sin b
          d:f64[3,6] = mul c a
          e:f64[3] = reduce_max[axes=(1,)] d
          f:f64[3,6] = broadcast[shape=(3, 6), dims=(0,)] e
          g:bool[3,6] = eq d f
          return g
        }""",
    "a backward recurrence over a reduction": """
        graph(a:f64[2,3], b:f64[2,3,2]) {
          c:f64[2,3] = reduce_sum[axes=(2,)] b
          d:f64[2,3] = linrec[reverse=True] a c
          return d
        }""",
    "a backward recurrence over a value that is an output too": """
        graph(a:f64[3,2], b:f64[3,2], c:bool[3,2], d:f64[1,1]) {
          e:f64[3,2] = pad[start=(0, 1), step=(1, 1), shape=(3, 2)] d
          f:f64[3,2] = select c e b
          g:f64[3,2] = linrec[reverse=True] a f
          return g e
        }""",
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(kernel, name):
    graph = parse_graph(FOUND[name])
    for seed in range(20):
        rng = np.random.default_rng(seed)
        arrays = [rng.standard_normal(v.aval.shape) for v in graph.inputs]
        case = Case(graph, [x > 0 if v.aval.dtype == bool else x for x, v in zip(arrays, graph.inputs, strict=True)])
        verdict = judge_tier(case, kernel)
        assert not verdict, f"{verdict}\n{case}"


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
