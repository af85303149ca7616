"""Programs taken apart: the host's part and then the device's give what the whole gives."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ir_parser import parse_graph
from selection import seeds
from support import failed_guard

from tracegrad.codegen.evaluate.interpreter import evaluate
from tracegrad.codegen.lower.host_device_split import Divided, divide
from tracegrad.tracer.ir.graph import Graph

ADAM = """\
graph(p:f64[4], g:f64[4], count:f64[], rate:f64*[]) {
  t:f64[] = add count 1.0!:f64
  d:f64[] = sub t 0.5:f64*
  size:f64[] = div rate d
  step:f64[4] = mul g size
  new:f64[4] = sub p step
  late:bool[] = gt t 5.0:f64*
  guard bool late == False
  total:f64[] = reduce_sum[axes=(0,)] new
  large:bool[] = gt total 0.0:f64*
  guard bool large == True
  return new t total
}
"""


def run(parts: Divided, inputs: list, on_host: list[bool]) -> list:
    """The results of the whole, by way of its parts."""
    found = evaluate(parts.host, [inputs[k] for k in parts.host_reads])
    kept = len(found) - len(parts.numbers)
    results = iter(evaluate(parts.device, [*[inputs[k] for k in parts.device_reads], *found[kept:]]))
    ours = iter(found[:kept])
    return [next(ours if here else results) for here in on_host]


def test_numbers_are_the_host_s():
    graph, here = parse_graph(ADAM), [False, True, False]
    parts = divide(graph, [False, False, True, True], here)
    assert [n.prim.name for n in parts.device.nodes] == ["mul", "sub", "reduce_sum", "gt"]
    assert [n.prim.name for n in parts.host.nodes] == ["add", "sub", "div", "gt"]
    assert (parts.host_reads, parts.device_reads) == ((2, 3), (0, 1))
    assert (parts.host_guards, parts.device_guards) == ((0,), (1,))
    (size,) = parts.numbers
    assert size.aval.shape == () and parts.device.inputs[-1] is size
    inputs = [np.arange(4.0), np.ones(4), np.array(2.0), 0.1]
    for ours, theirs in zip(run(parts, inputs, here), evaluate(graph, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert failed_guard(parts.host, [np.array(9.0), 0.1]) == 0
    assert failed_guard(parts.device, [-np.ones(4), np.ones(4), np.array(1.0)]) == 0


def test_what_the_device_computes_cannot_lie_on_the_host():
    graph = parse_graph(ADAM)
    assert divide(graph, [False, False, True, True], [True, True, False]) is None
    assert divide(graph, [False, False, False, True], [False, True, False]) is None


def test_all_on_one_side():
    graph = parse_graph(ADAM)
    device = divide(graph, [False] * 4, [False] * 3)
    assert not device.host.nodes and len(device.device.nodes) == len(graph.nodes)
    host = divide(graph, [True] * 4, [True] * 3)
    assert not host.device.nodes and not host.device.outputs and len(host.host.guards) == 2


def random_graph(choice: random.Random) -> Graph:
    """Scalars and vectors of four inputs."""
    kinds = {f"a{k}": choice.choice(["f64[]", "f64[3]"]) for k in range(4)}
    lines = [f"graph({', '.join(f'{name}:{kind}' for name, kind in kinds.items())}) {{"]
    for k in range(choice.randrange(1, 14)):
        name, x = f"v{k}", choice.choice(list(kinds))
        if kinds[x] == "f64[3]" and choice.random() < 0.4:
            lines.append(f"  {name}:f64[] = reduce_sum[axes=(0,)] {x}")
            kinds[name] = "f64[]"
            continue
        y = choice.choice(list(kinds))
        kinds[name] = min(kinds[x], kinds[y])  # "f64[3]" before "f64[]"
        lines.append(f"  {name}:{kinds[name]} = {choice.choice(['add', 'mul', 'sub'])} {x} {y}")
    results = choice.choices(list(kinds), k=choice.randrange(1, 5))
    return parse_graph("\n".join([*lines, f"  return {' '.join(results)}", "}"]))


@pytest.mark.parametrize("seed", seeds(30, quick=20))
def test_random_programs(seed):
    choice, rng = random.Random(seed), np.random.default_rng(seed)
    graph = random_graph(choice)
    inputs = [rng.normal(size=v.aval.shape) for v in graph.inputs]
    here = [choice.random() < 0.6 for _ in graph.inputs]
    wanted = [choice.random() < 0.5 for _ in graph.outputs]
    parts = divide(graph, here, wanted)
    if parts is None:
        wanted = [False] * len(graph.outputs)
        parts = divide(graph, here, wanted)
    for ours, theirs in zip(run(parts, inputs, wanted), evaluate(graph, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
