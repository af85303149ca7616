"""What the tests of the NumPy front end share: record, run in the interpreter, compare with plain NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from support import strict_evaluate

from tracegrad.codegen.derive.adjoint import vjp
from tracegrad.runtime.record.live_run import LiveRun
from tracegrad.runtime.state.trust import Trust
from tracegrad.tracer import numpy_api, scipy_api  # noqa: F401  (install the front end)
from tracegrad.tracer.ir.check import check_graph
from tracegrad.tracer.ir.graph import Atom, Graph, structural
from tracegrad.tracer.numpy_api.hooks import hook_loaded
from tracegrad.tracer.record.array import TracedArray, to_atom
from tracegrad.tracer.record.recorder import Recorder, recording, require_recorder
from tracegrad.tracer.record.retry import Retry


def leaves(result: Any) -> list[Any]:
    """The arrays of a result that is an array or a tuple or list of them."""
    if isinstance(result, (tuple, list)):
        return [leaf for item in result for leaf in leaves(item)]
    return [result]


def live_call(f: Callable[..., Any], *args: Any) -> Any:
    """``f(*args)`` by a copy of *f*, as live runs call it."""
    return LiveRun(Trust(), {}, require_recorder("a live run")).call(f, *args)


class Traced:
    """One recording of *f* on *args*: its outputs, and the cotangents of the float arguments for given output
    weights."""

    def __init__(self, f: Callable[..., Any], args: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None = None):
        hook_loaded()  # what a test has imported since the last one
        before = Recorder()
        while True:
            try:
                self._record(recorder_after(before), f, args, weights)
                break
            except Retry:  # of a loop, which has learned something
                continue
        check_graph(self.graph)
        found = strict_evaluate(self.graph, args)
        self.values, self.grads = found[: len(self.outputs)], found[len(self.outputs) :]

    def _record(
        self, recorder: Recorder, f: Callable[..., Any], args: Sequence[np.ndarray],
        weights: Sequence[np.ndarray] | None,
    ) -> None:  # fmt: skip
        with recording(recorder):
            self.vars = [recorder.add_input(a, f"argument {i}") for i, a in enumerate(args)]
            given = [TracedArray(v, recorder, owner=f"argument {i}") for i, v in enumerate(self.vars)]
            self.result = live_call(f, *given)
            self.outputs = [to_atom(leaf) for leaf in leaves(self.result)]
            grads: list[Atom] = []
            if weights is not None:
                loss: Any = None
                for atom, weight in zip(self.outputs, weights, strict=True):
                    if atom.aval.is_float:
                        term = np.sum(TracedArray(atom, recorder) * weight)
                        loss = term if loss is None else loss + term
                wrt = [v for v in self.vars if v.aval.is_float]
                root = to_atom(0.0 if loss is None else loss)
                grads = vjp(list(recorder.nodes), root, structural(1, root.aval.dtype), wrt)
            self.graph: Graph = recorder.finish([*self.outputs, *grads])


def recorder_after(before: Recorder) -> Recorder:
    """A recorder of a run that goes by what runs of *before* have learned of their loops."""
    made = Recorder()
    made.taught = before.taught
    return made


def numerical(
    f: Callable[..., Any], args: Sequence[np.ndarray], weights: Sequence[np.ndarray], step: float = 1e-6
) -> list[np.ndarray]:
    """Central differences of the weighted sum of the float outputs."""

    def loss(values: Sequence[np.ndarray]) -> float:
        outs = leaves(f(*[np.array(v) for v in values]))
        return sum(
            float(np.sum(np.asarray(o) * w))
            for o, w in zip(outs, weights, strict=True)
            if np.asarray(o).dtype.kind == "f"
        )

    grads = []
    for k, arg in enumerate(args):
        if arg.dtype.kind != "f":
            continue
        grad = np.zeros(arg.shape)
        for index in np.ndindex(arg.shape):
            around = []
            for sign in (1, -1):
                moved = [np.array(a) for a in args]
                moved[k][index] += sign * step
                around.append(loss(moved))
            grad[index] = (around[0] - around[1]) / (2 * step)
        grads.append(grad)
    return grads


def check_value(f: Callable[..., Any], args: Sequence[np.ndarray], *, rtol: float | None = None) -> Traced:
    """Recorded and interpreted, *f* gives NumPy's values, shapes and dtypes."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = leaves(f(*[np.array(a) for a in args]))
    traced = Traced(f, args)
    assert len(traced.values) == len(expected)
    for found, atom, wanted in zip(traced.values, traced.outputs, expected, strict=True):
        wanted = np.asarray(wanted)
        assert atom.aval.shape == wanted.shape
        assert atom.aval.dtype == wanted.dtype
        tolerance = rtol or (1e-10 if wanted.dtype == np.float64 else 3e-5)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    return traced


def check_gradient(f: Callable[..., Any], args: Sequence[np.ndarray], *, tol: float = 2e-6) -> None:
    """The vjp agrees with central differences (float64)."""
    rng = np.random.default_rng(5)
    with np.errstate(all="ignore"):
        weights = [rng.uniform(0.5, 1.5, np.shape(o)) for o in leaves(f(*[np.array(a) for a in args]))]
    traced = Traced(f, args, weights)
    for found, wanted in zip(traced.grads, numerical(f, args, weights), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tol, atol=tol * 10)
