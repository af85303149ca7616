"""``make_graph`` shows the program of a function, ``eval_shape`` the shapes of its results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from ir_parser import parse_graph

import tracegrad
from tracegrad import ShapeDtypeStruct, autograd, compile_grad, eval_shape, make_graph
from tracegrad.tracer.ir.equality import same_graph
from tracegrad.tracer.ir.evaluate import run_nodes

W = np.array([0.5, -1.0, 2.0])
SCALE = np.array([1.0, 2.0, 3.0])


class Result(NamedTuple):
    loss: Any
    parts: Any


def model(p: dict[str, Any], x: Any) -> Any:
    y = p["w"]
    for i in range(40):
        y = np.sin(y) * x + i * p["b"]
    return Result(np.sum(y * SCALE), {"y": y, "note": "done"})


def evaluated(view: Any, *values: Any) -> list[Any]:
    env = {v: np.asarray(x) for v, x in zip(view.graph.inputs, values, strict=True)} | dict(view.graph.consts)
    run_nodes(view.graph.nodes, env)
    return [env[x] for x in view.graph.outputs]


def test_the_program_of_a_plain_function() -> None:
    view = make_graph(model)({"w": W, "b": 2.0}, 0.5)
    assert view.in_names[:3] == ("p['w']", "p['b']", "x")
    assert "SCALE" in view.in_names[3]
    assert [s.shape for s in view.in_avals] == [(3,), (), (), (3,)]
    assert view.out_tree == Result(ShapeDtypeStruct((), float), {"y": ShapeDtypeStruct(3, float), "note": "done"})
    assert view.out_avals == (ShapeDtypeStruct((), float), ShapeDtypeStruct((3,), float))
    text = str(view)
    assert repr(view) == text
    assert "loop[body=graph(" in text and text.count(" sin ") == 1
    assert "test_inspection.py" in text and "# b is p['b']" in text
    assert text.splitlines()[-1].startswith("# model returns Result(loss=")
    loss, y = evaluated(view, W, 2.0, 0.5, SCALE)
    np.testing.assert_allclose(loss, model({"w": W, "b": 2.0}, 0.5).loss)
    np.testing.assert_allclose(y, model({"w": W, "b": 2.0}, 0.5).parts["y"])
    only = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert same_graph(parse_graph(only), view.graph)


def test_as_recorded() -> None:
    view = make_graph(model, simplify=False)({"w": W, "b": 2.0}, 0.5)
    assert str(view).count(" sin ") == 40 and "loop[" not in str(view)


def test_nothing_is_left_of_it() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return np.sum(x * x)

    @compile_grad
    def g(x: Any) -> Any:
        return np.sum(x * x)

    make_graph(g)(W)  # which makes what records
    before = dict(vars(g))
    make_graph(g)(W), make_graph(g.grad)(W), eval_shape(g, W)
    assert vars(g) == before
    assert (g.stats.calls, g.stats.traces, g.stats.compiles) == (0, 0, 0)
    make_graph(f)(W)
    assert calls == [] and "__tracegrad__" not in vars(f)  # what the function does outside is not done


def loss(w: Any, x: Any) -> Any:
    return np.sum(np.tanh(w * x) ** 2)


class Holder:
    k = 3.0

    @compile_grad
    def compiled(self, x: Any) -> Any:
        return self.k * np.sum(x * x)

    def plain(self, x: Any) -> Any:
        return self.k * np.sum(x * x)


@pytest.mark.parametrize(
    ("fn", "args", "expected"),
    [
        (compile_grad(loss), (W, SCALE), loss(W, SCALE)),
        (compile_grad(loss).grad, (W, SCALE), compile_grad(loss).grad(W, SCALE)),
        (compile_grad(loss).value_and_grad, (W, SCALE), compile_grad(loss).value_and_grad(W, SCALE)),
        (autograd.grad(loss, argnums=1), (W, SCALE), autograd.grad(loss, argnums=1)(W, SCALE)),
        (autograd.grad(lambda x: np.sum(autograd.grad(loss)(x, x))), (W,), None),
        (Holder().compiled, (W,), Holder().compiled(W)),
        (Holder().compiled.grad, (W,), 6 * W),
        (Holder().plain, (W,), Holder().plain(W)),
        (autograd.grad(Holder().plain), (W,), 6 * W),
        (np.linalg.norm, (W,), np.linalg.norm(W)),
    ],
    ids=["compiled", "f.grad", "both", "grad", "second", "method", "method.grad", "bound", "grad of bound", "NumPy's"],
)
def test_all_kinds_of_functions(fn: Any, args: tuple[Any, ...], expected: Any) -> None:
    view = make_graph(fn)(*args)
    if expected is None:
        expected = fn(*args)
    data = (*args, 3.0)[: len(view.graph.inputs)]
    found = evaluated(view, *data)
    structs = [ShapeDtypeStruct(x.shape, x.dtype) for x in args]
    wanted = tracegrad.tree.leaves(expected)
    assert [tracegrad.tree.leaves(s)[0].shape for s in view.out_avals] == [np.shape(x) for x in wanted]
    assert tracegrad.tree.leaves(eval_shape(fn, *structs)) == list(view.out_avals)
    for x in wanted:
        assert any(np.shape(y) == np.shape(x) and np.allclose(x, y) for y in found)


def test_structs_in_place_of_arrays() -> None:
    big = ShapeDtypeStruct((10**6, 10**5), np.float32)
    found = eval_shape(lambda a, n: {"ata": a.T @ a, "mean": np.mean(a), "n": n, "shape": a.shape}, big, 3)
    i = ShapeDtypeStruct((), int)
    assert found == {
        "ata": ShapeDtypeStruct((10**5, 10**5), np.float32), "mean": ShapeDtypeStruct((), np.float32), "n": i,
        "shape": (i, i),
    }  # fmt: skip
    z = ShapeDtypeStruct((4, 4), np.complex128)
    assert eval_shape(lambda z: (np.fft.fft(z), np.abs(z), np.linalg.inv(z)), z) == (
        z, ShapeDtypeStruct((4, 4), float), z
    )  # fmt: skip
    view = make_graph(model)({"w": ShapeDtypeStruct((3,), float), "b": 2.0}, ShapeDtypeStruct((), float))
    assert view.in_avals[0] == ShapeDtypeStruct(3, float)
    assert str(make_graph(np.linalg.cholesky)(ShapeDtypeStruct((50, 50), float))).count("cholesky") == 2


def asks(x: Any) -> Any:
    y = np.sum(x * 2)
    if y > 3:  # the line
        return x
    return y


def test_where_a_value_is_asked_for() -> None:
    assert eval_shape(asks, W) == ShapeDtypeStruct((), float)
    with pytest.raises(tracegrad.UnsupportedError, match="depends on `x`") as caught:
        eval_shape(asks, ShapeDtypeStruct((3,), float))
    assert "test_inspection.py" in str(caught.value) and "in asks" in str(caught.value)
    with pytest.raises(tracegrad.UnsupportedError, match="ShapeDtypeStruct"):
        eval_shape(lambda p: [0.0] * int(p["n"]), {"n": ShapeDtypeStruct((), int)})


def test_other_errors() -> None:
    with pytest.raises(tracegrad.ShapeError, match="do not fit"):
        eval_shape(np.matmul, ShapeDtypeStruct((2, 3), float), ShapeDtypeStruct((2, 3), float))
    with pytest.raises(TypeError, match="make_graph needs a function"):
        make_graph(3)(W)  # type: ignore[arg-type]
    with pytest.raises(tracegrad.DifferentiationError, match="scalar"):
        make_graph(autograd.grad(lambda x: x))(W)
    with pytest.raises(tracegrad.UnsupportedError, match="Tensor"):
        make_graph(lambda t: t)(tracegrad.zeros(3))
