"""The text form of graphs: what is printed is parsed back exactly, and what is malformed is refused with its place."""

from __future__ import annotations

import ir_parser
import numpy as np
import pytest
from ir_parser import parse_graph, parse_scalar
from support import (
    BOOL,
    F32,
    F64,
    I64,
    failed_guard,
    grad_graph,
    make_graph,
    operand_avals,
    primitive_graph,
    prims,
    vjp_graph,
)

from tracegrad.codegen.evaluate.interpreter import evaluate
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.check import check_graph
from tracegrad.tracer.ir.errors import GraphError
from tracegrad.tracer.ir.graph import Builder, Graph, Guard, Lit, Node, Var, bind, building, structural
from tracegrad.tracer.ir.primitive import PRIMITIVES, differentiable
from tracegrad.tracer.ir.site import Site
from tracegrad.tracer.ir.text import print_graph, print_scalar
from tracegrad.tracer.ops.elementwise import F

SAMPLE = """\
graph(a:f64[5], b:f64*[]) {
  const c:f64[5]
  d:f64[5] = sin a                            # model.py:12 in loss
  e:f64[5] = mul d 2.5:f64*
  f:f64[5] = sub e 1.0!:f64
  g:f64[5] = add f c
  h:f64[] = reduce_sum[axes=(0,)] g
  i:f64[] = add h b
  j:bool[] = gt i -0.0!:f64
  guard bool j == True                        # model.py:13 in <lambda>
  return i a 7:i64*
}
"""


def roundtrip(graph: Graph) -> Graph:
    text = print_graph(graph)
    again = parse_graph(text, [array for _, array in graph.consts])
    assert print_graph(again) == text
    return again


def test_sample_is_a_fixed_point():
    graph = parse_graph(SAMPLE, [np.arange(5.0)])
    assert print_graph(graph) == SAMPLE
    check_graph(graph)
    x = np.linspace(-1, 1, 5)
    value, same, seven = evaluate(graph, [x, 2.0])
    assert value == np.sum(np.sin(x) * 2.5 - 1 + np.arange(5.0)) + 2.0
    assert np.array_equal(same, x) and seven == 7
    assert graph.nodes[0].site == Site("model.py", 12, "loss")
    assert graph.guards[0].site == Site("model.py", 13, "<lambda>")
    assert failed_guard(graph, [x, 2.0]) == -1
    assert failed_guard(graph, [x, -100.0]) == 0


def test_parsed_attributes():
    graph = parse_graph(SAMPLE)
    data, structural_one = graph.nodes[1].inputs[1], graph.nodes[2].inputs[1]
    assert data.aval == Aval(F64, (), True) and not data.structural
    assert structural_one.structural and structural_one.aval == Aval(F64, ())
    assert graph.inputs[1].aval.weak
    assert graph.nodes[4].params == {"axes": (0,)}
    assert not np.any(graph.consts[0][1])


def test_names_and_layout_are_free():
    text = "\n# a comment\ngraph(x1: f64[2],y :f64 [2]) {\n\n z_:f64[2]=add x1 y # no site\n return z_\n}\n\n"
    assert print_graph(parse_graph(text)) == "graph(a:f64[2], b:f64[2]) {\n  c:f64[2] = add a b\n  return c\n}\n"


def _bits(value: int, dtype: np.dtype) -> np.generic:
    return np.array(value, f"u{dtype.itemsize}").view(dtype)[()]


@pytest.mark.parametrize("dtype", [F64, F32], ids=str)
def test_floats_keep_every_bit(dtype):
    info = np.finfo(dtype)
    width = 8 * dtype.itemsize
    values = [0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, np.inf, -np.inf, np.nan, 2.0**24 + 1, 1e22, 123456789.0]
    values += [info.max, -info.max, info.tiny, info.smallest_subnormal]
    samples = [dtype.type(v) for v in values]
    quiet = {64: 0x7FF8000000000001, 32: 0x7FC00001}[width]
    samples += [_bits(quiet, dtype), _bits(quiet | 1 << (width - 1), dtype), -dtype.type(np.nan)]
    rng = np.random.default_rng(3)
    samples += list(rng.integers(0, 2**width - 1, 2000, dtype=f"u{dtype.itemsize}", endpoint=True).view(dtype))
    for value in samples:
        text = print_scalar(value)
        assert parse_scalar(text, dtype).tobytes() == value.tobytes(), text
    for value in samples[:40]:
        graph = Graph([], [], [Lit(value, dtype, structural=True), Lit(value, dtype, weak=True)])
        again = roundtrip(graph)
        assert [a.value.tobytes() for a in again.outputs] == [value.tobytes()] * 2


@pytest.mark.parametrize("name", ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"])
def test_other_scalars(name):
    dtype = np.dtype(name)
    extremes = [False, True] if dtype.kind == "b" else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1]
    again = roundtrip(Graph([], [], [Lit(v, dtype) for v in extremes]))
    assert [a.value for a in again.outputs] == extremes
    assert {a.aval.dtype for a in again.outputs} == {dtype}


@pytest.mark.parametrize("prim", prims(), ids=lambda p: p.name)
def test_every_primitive_and_its_derivative(prim):
    graph = primitive_graph(prim, operand_avals(prim, F64))
    roundtrip(graph)
    if differentiable(prim) and graph.outputs[0].aval.is_float:
        roundtrip(vjp_graph(graph))


def test_params_of_every_kind():
    inner = parse_graph("graph(x:f32[]) {\n y:f32[] = exp x # m.py:1 in f\n return y\n}")
    params = {
        "a": (1, -2), "b": (), "c": (3,), "d": True, "e": None, "f": "it's \"x\"\n# no", "g": F32, "h": ((1, 2), (3,)),
        "i": 0.1, "j": float("-inf"), "k": inner, "m": 5,
    }  # fmt: skip
    node = Node(PRIMITIVES["neg"], (structural(1),), params, (Var(Aval(F64, ())),), None)
    text = print_graph(Graph([], [node], [node.out]))
    parsed = ir_parser._Parser(text, ()).graph()  # without the typechecker, which would refuse these params
    assert print_graph(parsed) == text
    found = dict(parsed.nodes[0].params)
    assert print_graph(found.pop("k")) == print_graph(inner)
    del params["k"]
    assert found == params and found["d"] is True


def test_unprintable_param():
    node = Node(PRIMITIVES["neg"], (structural(1),), {"x": object()}, (Var(Aval(F64, ())),), None)
    with pytest.raises(GraphError, match="object has no text form"):
        print_graph(Graph([], [node], []))


def test_guard_of_another_dtype():
    x = Var(Aval(F64, ()))
    guards = [Guard(x, np.int64(3), "int", Site("m.py", 4, "f")), Guard(x, np.float64(0.1), "float", None)]
    graph = Graph([x], [], [], guards)
    again = roundtrip(graph)
    assert [type(g.expected) for g in again.guards] == [np.int64, np.float64]
    assert [g.kind for g in again.guards] == ["int", "float"]


def test_many_names():
    graph = make_graph([Aval(F64, ())], lambda x: [F.add(x, structural(i)) for i in range(1500)])
    text = print_graph(graph)
    names = [line.split(":")[0].strip() for line in text.splitlines()[1:-2]]
    assert len(set(names)) == 1500 and {"aa", "zz", "aaa"} <= set(names)
    roundtrip(graph)


def test_derivatives_print():
    graph = make_graph([Aval(F64, (3,))], lambda x: bind(PRIMITIVES["reduce_sum"], F.exp(F.sin(x) * x), axes=(0,)))
    roundtrip(grad_graph(graph, with_value=True))


# ---- refusals --------------------------------------------------------------------------------------------------

BAD_TEXT = {
    "undefined": ("graph(a:f64[]) {\n b:f64[] = sin c\n return b\n}", "c is not defined before its use"),
    "later": ("graph() {\n b:f64[] = sin c\n c:f64[] = sin b\n return b\n}", "c is not defined before its use"),
    "itself": ("graph() {\n b:f64[] = sin b\n return b\n}", "b is not defined before its use"),
    "twice": ("graph(a:f64[]) {\n a:f64[] = sin a\n return a\n}", "a is defined twice"),
    "twice at once": ("graph(a:f64[]) {\n b:f64[], b:f64[] = sin a\n return b\n}", "b is defined twice"),
    "primitive": ("graph(a:f64[]) {\n b:f64[] = sine a\n return b\n}", "sine is no primitive"),
    "dtype": ("graph(a:f8[]) {\n return a\n}", "'f8' is no dtype"),
    "output": ("graph(a:f64[]) {\n return b\n}", "b is not defined"),
    "wrong shape": ("graph(a:f64[3]) {\n b:f64[2] = sin a\n return b\n}", r"f64\[2\], but its operands give f64\[3\]"),
    "wrong dtype": ("graph(a:f64[3]) {\n b:f32[3] = sin a\n return b\n}", "declared f32"),
    "wrong weakness": ("graph(a:f64*[]) {\n b:f64[] = sin a\n return b\n}", r"operands give f64\*"),
    "operands": ("graph(a:f64[3]) {\n b:f64[3] = add a 1.0:f32\n return b\n}", "unequal dtypes"),
    "shapes": ("graph(a:f64[3], c:f64[2]) {\n b:f64[3] = add a c\n return b\n}", "unequal shapes"),
    "axes": ("graph(a:f64[3]) {\n b:f64[3] = reduce_sum[axes=(1,)] a\n return b\n}", "reduction"),
    "missing param": ("graph(a:f64[3]) {\n b:f64[3] = reduce_sum a\n return b\n}", "do not fit the primitive"),
    "guard shape": ("graph(a:f64[3]) {\n guard bool a == 1.0\n return a\n}", "is not 0-d"),
    "garbage": ("graph(a:f64[3]) {\n b:f64[3] = sin a ; \n return a\n}", "no token"),
    "no return": ("graph(a:f64[3]) {\n b:f64[3] = sin a\n}", "expected"),
    "after": ("graph(a:f64[3]) {\n return a\n}\ngraph() {\n return\n}", "nothing after the graph"),
    "unclosed": ("graph(a:f64[3", "expected a size"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TEXT)
def test_bad_text_is_refused(case):
    text, message = BAD_TEXT[case]
    with pytest.raises(GraphError, match=message):
        parse_graph(text)


def test_error_shows_the_line():
    with pytest.raises(GraphError, match=r"line 2 of the IR text.*\n +b:f64\[\] = sin c\n {17}\^"):
        parse_graph("graph(a:f64[]) {\n b:f64[] = sin c\n return b\n}")


def test_wrong_const_array_is_refused():
    with pytest.raises(GraphError, match="array given for this const"):
        parse_graph("graph() {\n const a:f64[2]\n return a\n}", [np.zeros(3)])


def test_checker_refuses_broken_graphs():
    x = Var(Aval(F64, (2,)))
    with building(Builder()) as builder:
        y = F.sin(x)
    node = builder.nodes[0]
    check_graph(Graph([x], [node], [y]))
    for broken, message in [
        (Graph([], [node], [y]), "not defined before its use"),
        (Graph([x, x], [node], [y]), "defined twice"),
        (Graph([x], [node, node], [y]), "defined twice"),
        (Graph([x], [], [y]), "output 0"),
        (Graph([x], [node], [y], [Guard(y, np.bool_(True), "bool", None)]), "guard 0"),
        (Graph([], [node], [y], [], [(x, np.zeros(3))]), "const 0"),
        (Graph([], [node], [y], [], [(x, np.zeros(2, np.float32))]), "const 0"),
        (Graph([x], [Node(node.prim, (x, x), {}, (y,), None)], [y]), "2 operands instead of 1"),
    ]:
        with pytest.raises(GraphError, match=message):
            check_graph(broken)


def test_checker_can_ignore_weakness():
    x, y = Var(Aval(F64, (), True)), Var(Aval(F64, ()))
    graph = Graph([x], [Node(PRIMITIVES["sin"], (x,), {}, (y,), None)], [y])
    check_graph(graph, weak=False)
    with pytest.raises(GraphError):
        check_graph(graph)


def test_dtype_names():
    avals = [Aval(d, (1,)) for d in (F64, F32, I64, BOOL)]
    graph = make_graph(avals, lambda *xs: list(xs))
    assert print_graph(graph).startswith("graph(a:f64[1], b:f32[1], c:i64[1], d:bool[1])")
