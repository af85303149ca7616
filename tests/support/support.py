"""What the tests of graphs share: tiers that run them, derivatives as graphs, finite differences, comparisons."""

from __future__ import annotations

import ctypes
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import fake_cupy
import numpy as np
from compiled_graph import execute

from tracegrad.codegen.cpu.machine_code import MachineCode
from tracegrad.codegen.cpu.program import compile_canonical
from tracegrad.codegen.derive.adjoint import jvp, vjp
from tracegrad.codegen.evaluate.cupy_backend import CupyBackend
from tracegrad.codegen.evaluate.cupy_exceptions import Modules
from tracegrad.codegen.evaluate.interpreter import evaluate
from tracegrad.codegen.lower.canonical import canonicalise
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.tracer import ops as _ops  # noqa: F401  (fills the registry)
from tracegrad.tracer.ir.aval import FLOAT_KINDS, HALF, Aval, finfo, held_dtype
from tracegrad.tracer.ir.check import check_graph
from tracegrad.tracer.ir.evaluate import operand, params_of, stored
from tracegrad.tracer.ir.graph import Atom, Builder, Graph, Var, bind, building, current_builder, structural
from tracegrad.tracer.ir.primitive import LOOP, PRIMITIVES, Primitive
from tracegrad.tracer.ir.settings import optimiser
from tracegrad.tracer.ir.text import print_graph
from tracegrad.tracer.ops import special_tables  # noqa: F401  (the registry in full)
from tracegrad.tracer.ops.elementwise import F
from tracegrad.tracer.ops.linalg import factors_of
from tracegrad.tracer.ops.reduce import reduce

F64, F32, I64, BOOL = (np.dtype(name) for name in ("float64", "float32", "int64", "bool"))

# ---- tiers -----------------------------------------------------------------------------------------------------

_programs: dict[Any, Any] = {}


def failed_guard(graph: Graph, inputs: Sequence[Any]) -> int:
    """Index of the first guard of *graph* that *inputs* violate, or -1."""
    found = evaluate(replace(graph, outputs=[guard.atom for guard in graph.guards]), inputs)
    held = [x.tobytes() == np.asarray(g.expected).tobytes() for x, g in zip(found, graph.guards, strict=True)]
    return -1 if all(held) else held.index(False)


def _run_kernel(graph: Graph, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Compile and run; graphs with one signature share one program here as they do for users."""
    graph = simplify(graph)
    canonical = canonicalise(graph)
    key = (optimiser.level, canonical.key, len(graph.inputs))
    program = _programs.get(key)
    if program is None:
        program = _programs[key] = compile_canonical(canonical, len(graph.inputs))
    pairs = zip(inputs, graph.inputs, strict=True)
    arrays = [np.ascontiguousarray(x, v.aval.dtype).reshape(v.aval.shape) for x, v in pairs]
    return execute(program, graph, canonical, arrays)[1]


_cupy = CupyBackend(Modules(fake_cupy.cupy, fake_cupy.special.module))


def _run_cupy(graph: Graph, inputs: Sequence[Any]) -> list[np.ndarray]:
    """What CuPy would do on a device, on the stand-in."""
    pairs = zip(inputs, graph.inputs, strict=True)
    failed, results = _cupy.execute(graph, [np.asarray(x, v.aval.dtype).reshape(v.aval.shape) for x, v in pairs])
    assert failed < 0 or graph.guards
    return [_cupy.download(x) for x in results]


TIERS: dict[str, Callable[[Graph, Sequence[Any]], list[np.ndarray]]] = {
    "interpreter": evaluate,
    "kernel": _run_kernel,
    "cupy": _run_cupy,
}


# ---- graphs ----------------------------------------------------------------------------------------------------


def make_graph(avals: Sequence[Aval], program: Callable[..., Any]) -> Graph:
    """The graph of *program* (Vars -> atom or sequence of atoms), typechecked."""
    inputs = [Var(aval) for aval in avals]
    with building(Builder()) as builder:
        result = program(*inputs)
    graph = Graph(inputs, builder.nodes, list(result) if isinstance(result, (tuple, list)) else [result])
    check_graph(graph)
    return graph


def replay(graph: Graph, inputs: Sequence[Atom]) -> list[Atom]:
    """The nodes of *graph* appended to the builder in force, on other inputs."""
    env: dict[Var, Atom] = dict(zip(graph.inputs, inputs, strict=True))

    def get(atom: Atom) -> Atom:
        return env[atom] if isinstance(atom, Var) else atom

    for node in graph.nodes:
        outs = current_builder().emit(node.prim, tuple([get(a) for a in node.inputs]), node.params)
        env.update(zip(node.outs, outs, strict=True))
    return [get(a) for a in graph.outputs]


def float_inputs(graph: Graph) -> list[int]:
    return [i for i, v in enumerate(graph.inputs) if v.aval.is_float]


def differentiated(graph: Graph, transform: Callable[..., Any], extra: Sequence[Aval]) -> Graph:
    inputs = [Var(v.aval) for v in graph.inputs]
    more = [Var(a) for a in extra]
    with building(Builder()) as builder:
        outputs = transform(builder, inputs, replay(graph, inputs), more)
    result = Graph([*inputs, *more], builder.nodes, list(outputs))
    check_graph(result)
    return result


def vjp_graph(graph: Graph, output: int = 0) -> Graph:
    """(inputs..., cotangent of one output) -> cotangents of the float inputs."""

    def transform(builder: Builder, inputs: list[Var], outs: list[Atom], more: list[Var]) -> list[Atom]:
        return vjp(list(builder.nodes), outs[output], more[0], [inputs[i] for i in float_inputs(graph)])

    return differentiated(graph, transform, [graph.outputs[output].aval])


def jvp_graph(graph: Graph, output: int = 0) -> Graph:
    """(inputs..., tangents of the float inputs...) -> tangent of one output."""
    which = float_inputs(graph)

    def transform(builder: Builder, inputs: list[Var], outs: list[Atom], more: list[Var]) -> list[Atom]:
        tangents: dict[Var, Atom] = {inputs[i]: t for i, t in zip(which, more, strict=True)}
        return [jvp(list(builder.nodes), tangents, outs[output])]

    return differentiated(graph, transform, [graph.inputs[i].aval for i in which])


def grad_graph(graph: Graph, *, with_value: bool = False) -> Graph:
    """inputs -> gradient of a scalar output with respect to the float inputs (after the outputs, if asked for)."""

    def transform(builder: Builder, inputs: list[Var], outs: list[Atom], more: list[Var]) -> list[Atom]:
        seed = structural(1, outs[0].aval.dtype)
        grads = vjp(list(builder.nodes), outs[0], seed, [inputs[i] for i in float_inputs(graph)])
        return [*outs, *grads] if with_value else grads

    return differentiated(graph, transform, [])


def dot_graph(graph: Graph, weights: Sequence[int] | None = None) -> Graph:
    """(inputs..., one weight array per float output) -> the sum of all weighted float outputs, a scalar."""
    which = [i for i, o in enumerate(graph.outputs) if o.aval.is_float] if weights is None else list(weights)

    def transform(builder: Builder, inputs: list[Var], outs: list[Atom], more: list[Var]) -> list[Atom]:
        total: Atom | None = None
        for i, w in zip(which, more, strict=True):
            product = F.mulz(w, outs[i])
            term = reduce("sum", product, tuple(range(product.ndim)))
            total = term if total is None else F.add(total, term)
        assert total is not None
        return [total]

    return differentiated(graph, transform, [graph.outputs[i].aval for i in which])


def strict_evaluate(graph: Graph, inputs: Sequence[Any]) -> list[np.ndarray]:
    """As ``evaluate``, but every implementation must give the very shape that was inferred, and the dtype: of half
    precision only a cast gives that, and all else float32."""
    env: dict[Var, Any] = {v: np.asarray(x, dtype=v.aval.dtype) for v, x in zip(graph.inputs, inputs, strict=True)}
    env.update(graph.consts)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            params = params_of(node)
            values = node.prim.impl(*[operand(env, a) for a in node.inputs], **params)
            rounds = params.get("dtype") in HALF
            for out, value in zip(node.outs, values if len(node.outs) > 1 else [values], strict=True):
                array, declared = np.asarray(value), out.aval.dtype
                assert array.shape == out.aval.shape, f"{node} gives shape {array.shape}"
                found, held = array.dtype, held_dtype(declared)
                expected = declared if rounds else held
                assert found == expected or node.prim.kind == LOOP, f"{node} gives {found}\n{print_graph(graph)}"
                env[out] = array if found == held else np.asarray(value, held)
    return [stored(env, out) for out in graph.outputs]


# ---- test inputs of a primitive --------------------------------------------------------------------------------

_KIND_DTYPES = {"b": BOOL, "i": I64, "u": np.dtype("uint32")}


def operand_avals(prim: Primitive, dtype: np.dtype, shapes: Sequence[tuple[int, ...]] | None = None) -> list[Aval]:
    """Avals of the operands in the tests: ``test["kinds"]`` has one letter each, f (the dtype at hand), b, i or u."""
    spec = prim.test
    shapes = shapes or spec.get("shapes", ((3, 4),) * len(prim.domain))
    kinds = spec.get("kinds", "f" * len(shapes))
    if spec.get("bool"):
        kinds = "b" * len(shapes)
    if "index" in spec:
        kinds = "fi" + "f" * (len(shapes) - 2)
    return [Aval(_KIND_DTYPES.get(k, dtype), tuple(s)) for k, s in zip(kinds, shapes, strict=True)]


def operand_values(prim: Primitive, avals: Sequence[Aval], rng: np.random.Generator) -> list[np.ndarray]:
    """Random operands inside the row's domain."""
    values = []
    for position, aval in enumerate(avals):
        if aval.dtype == BOOL:
            value: Any = rng.random(aval.shape) < 0.5
        elif aval.dtype.kind not in FLOAT_KINDS:
            value = rng.integers(0, prim.test.get("index", 9), aval.shape)
        else:
            spans = prim.domain or ((-3.0, 3.0),)
            low, high = spans[min(position, len(spans) - 1)]
            value = rng.uniform(low, high, aval.shape)
        values.append(np.asarray(value).astype(aval.dtype))
    if prim.test.get("of", {}).get(0) is factors_of:  # no rows interchanged twice
        values[0][..., -1, :] = np.minimum(np.arange(1, avals[0].shape[-1] + 1), avals[0].shape[-1] - 1)
    if prim.test.get("bool"):  # exactly so many are True
        flat = np.zeros(avals[0].size, bool)
        flat[: prim.test["params"]["count"]] = True
        values[0] = rng.permutation(flat).reshape(avals[0].shape)
    return values


def primitive_graph(prim: Primitive, avals: Sequence[Aval], **params: Any) -> Graph:
    """One application of *prim*.  ``test["of"]`` makes an operand, by position, that has to be of a certain form;
    ``test["then"]`` a result that is not opaque."""
    params = {**prim.test.get("params", {}), **params}
    made, then = prim.test.get("of", {}), prim.test.get("then", lambda out: out)

    def program(*inputs: Var) -> Any:
        return then(bind(prim, *[made[k](x) if k in made else x for k, x in enumerate(inputs)], **params))

    return make_graph(avals, program)


def rng_for(name: str) -> np.random.Generator:
    """A generator that depends on nothing but *name*."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def random_like(avals: Sequence[Any], rng: np.random.Generator) -> list[np.ndarray]:
    """Standard normal arrays of the shapes and dtypes of *avals* (Avals, Vars or arrays)."""
    return [np.asarray(rng.standard_normal(a.shape)).astype(a.dtype) for a in avals]


def prims(test: Callable[[Primitive], bool] = lambda p: True) -> list[Primitive]:
    """The rows that a test of one operation can draw operands for: a loop has a body instead (tests/tracer/control), a
    call of Python's a function (test_host_call.py).

    Rows of a table, many and alike, have a kernel for all of them (tests/tracer/ops/test_special.py)."""
    return [p for p in PRIMITIVES.values() if p.kind != LOOP and not p.joint and "table" not in p.test and test(p)]


def of_linear_algebra(prim: Primitive) -> bool:
    """Whether *prim* is a row of factors, or of their parts: of float32 and float64, and on a GPU done by NumPy."""
    return "linalg" in str(getattr(getattr(prim.impl, "func", prim.impl), "__module__", ""))


# ---- finite differences ----------------------------------------------------------------------------------------


def directional(
    function: Callable[..., Any], point: Sequence[Any], direction: Sequence[Any], step: float = 3e-4
) -> np.ndarray:
    """The derivative of *function* along *direction* by a central difference of fourth order, in float64."""

    def at(distance: float) -> Any:
        moved = [x if t is None else np.asarray(x) + distance * t for x, t in zip(point, direction, strict=True)]
        return np.asarray(function(*moved), dtype=np.float64)

    return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)


# ---- comparisons -----------------------------------------------------------------------------------------------


def assert_close(actual: Any, expected: Any, rtol: float, atol: float = 0.0, what: str = "") -> None:
    """Equal up to rounding, with NaN in the same places and infinities equal."""
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=atol, err_msg=what)


def assert_agree(
    actual: Any,
    expected: Any,
    *,
    ulps: float = 4,
    atol: float | np.ndarray = 0.0,
    signed_zeros: bool = True,
    what: str = "",
) -> None:
    """The same dtype, shape, NaN positions, infinities and signs of zero; finite values within *ulps* (or *atol*)."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    if expected.dtype.kind not in FLOAT_KINDS:
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return

    def complain(bad: Any, how: str) -> None:
        if np.any(bad):
            at = np.unravel_index(int(np.argmax(bad)), bad.shape) if bad.ndim else ()
            shown = ", ".join(map(str, at))
            raise AssertionError(
                f"{what}: {how} at {int(np.sum(bad))} of {bad.size} elements, first [{shown}]: "
                f"{actual[at]!r}, expected {expected[at]!r}\nactual   {actual!r}\nexpected {expected!r}"
            )

    complain(np.isnan(actual) != np.isnan(expected), "NaN differs")
    finite = np.isfinite(expected)
    complain(~finite & ~np.isnan(expected) & (actual != expected), "an infinity differs")
    if signed_zeros:
        zero = (expected == 0) & (actual == 0)
        complain(zero & (np.signbit(expected) != np.signbit(actual)), "the sign of a zero differs")
    with np.errstate(all="ignore"):
        error = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
        allowed = np.maximum(ulps * spacing(expected), atol)
    complain(finite & ~(error <= allowed), f"more than {ulps} ulp (or {atol}) off")


def spacing(x: np.ndarray) -> np.ndarray:
    """The distance from |x| to the next number of its dtype, as float64: to the next larger one but for the largest."""
    if x.dtype not in HALF:
        return np.spacing(np.minimum(np.abs(x), np.nextafter(np.finfo(x.dtype).max, x.dtype.type(0)))).astype(F64)
    limits = finfo(x.dtype)
    size = np.clip(np.abs(x.astype(F64)), float(limits.tiny), float(limits.max))
    return 2.0 ** np.floor(np.log2(size)) * float(limits.eps)


def assert_same_bits(actual: Any, expected: Any, what: str = "") -> None:
    assert_agree(actual, expected, ulps=0, what=what)


def layouts(x: np.ndarray) -> dict[str, np.ndarray]:
    """The same values as *x* in memory laid out otherwise."""
    result = {"contiguous": np.ascontiguousarray(x), "fortran": np.asfortranarray(x)}
    if x.ndim:
        gaps = np.zeros([2 * n for n in x.shape], x.dtype)
        view = gaps[tuple(slice(None, None, 2) for _ in x.shape)]
        view[...] = x
        result["every second"] = view
        backward = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
        result["backward"] = backward
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape) if x.size else x
    if x.size:
        odd[...] = x
    result["unaligned"] = odd
    return result


def condition(*arrays: Any) -> float:
    """The largest finite magnitude in *arrays*, at least 1: the scale of an absolute tolerance."""
    finite = [np.abs(a[np.isfinite(a)]) for a in map(np.asarray, arrays) if a.dtype.kind in FLOAT_KINDS and a.size]
    return max([1.0, *[float(np.max(a)) for a in finite if a.size]])


def size_of(shape: Sequence[int]) -> int:
    return math.prod(shape)


def native(code: MachineCode, function: str, result: type | None, *args: type) -> Callable[..., Any]:
    """A ctypes callable for *function* that holds the GIL while it runs, and keeps its *code*."""
    found = ctypes.PYFUNCTYPE(result, *args)(code.address(function))
    found.code = code  # type: ignore[attr-defined]
    return found
