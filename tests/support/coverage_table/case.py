"""One row of the table, and its check: values, first and second derivatives against differences along a direction."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from support import strict_evaluate
from tracing import leaves, live_call

from tracegrad.codegen.derive.adjoint import vjp
from tracegrad.tracer import numpy_api, scipy_api  # noqa: F401  (install the front end)
from tracegrad.tracer.ir.errors import MutationError
from tracegrad.tracer.ir.graph import Atom, Graph, live_nodes, structural
from tracegrad.tracer.numpy_api.hooks import hook_loaded
from tracegrad.tracer.record.array import TracedArray, to_atom
from tracegrad.tracer.record.recorder import Recorder, recording

RUNS = 5  # at most, until each array that will hold traced values is known
STENCIL = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))  # of a first derivative, of fourth order


@dataclass(frozen=True)
class Case:
    """``call(*args)``, where *args* are float arrays (numbers: 0-d), covers the function *name*, ``scipy.special.erf``.

    *order* is how many derivatives it has there (0: data only, or none by nature).  *rtol* is for values, *tol* for
    derivatives, relative to the largest entry; *step* that of the differences.
    """

    name: str
    call: Callable[..., Any]
    args: Sequence[Any] = ()
    order: int = 2
    rtol: float = 1e-10
    tol: float = 1e-6
    step: float = 1e-3
    label: str = ""  # tells two cases of one function apart

    def __str__(self) -> str:
        return f"{self.name}{self.label and '-'}{self.label}"


def _parts(result: Any) -> list[Any]:
    """The real arrays of a result: real and imaginary parts apart, bools and integers not changed."""
    parts: list[Any] = []
    for leaf in leaves(result):
        parts += [leaf.real, leaf.imag] if np.iscomplexobj(leaf) else [leaf]
    return parts


def _plain(case: Case, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [np.asarray(part) for part in _parts(case.call(*[np.array(a) for a in args]))]


def _recorded(case: Case, args: Sequence[np.ndarray], weights: Sequence[Any]) -> tuple[Graph, list[int]]:
    """The graph of *case*: its results, their derivative, and the derivative of that; and the number of each."""
    hook_loaded()
    recorder = Recorder()
    with recording(recorder):
        inputs = [recorder.add_input(a, f"argument {i}") for i, a in enumerate(args)]
        given = [TracedArray(v, recorder, owner=f"argument {i}") for i, v in enumerate(inputs)]
        found = live_call(case.call, *given)
        stages: list[list[Atom]] = [[to_atom(part) for part in _parts(found)]]
        for order in range(case.order):
            floats = [(x, w) for x, w in zip(stages[-1], weights[order], strict=True) if x.aval.is_float]
            root = to_atom(sum(np.sum(TracedArray(x, recorder) * w) for x, w in floats))
            stages.append(vjp(list(recorder.nodes), root, structural(1, root.aval.dtype), inputs))
        return recorder.finish([atom for stage in stages for atom in stage]), [len(stage) for stage in stages]


def check(case: Case) -> None:
    """*case* recorded and interpreted: values as in plain Python, derivatives as differences say.

    The first derivative is held against plain Python's values, the second against the first.
    """
    rng = np.random.default_rng(7)
    args = [np.asarray(a, dtype=np.float64) for a in case.args]
    expected = _plain(case, args)
    # the sums that are derived: of the floats of the result, then of the first derivative
    weights = [[_weights(rng, e) for e in expected], [_weights(rng, a) for a in args]]
    for left in reversed(range(RUNS)):
        try:
            graph, sizes = _recorded(case, args, weights)
            break
        except MutationError:  # the run has found an array that will hold traced values, and another one knows it
            if not left:
                raise

    def at(values: Sequence[np.ndarray], stages: int) -> list[list[np.ndarray]]:
        """The values of the first *stages*: results, first derivative, second."""
        outputs = graph.outputs[: sum(sizes[:stages])]
        part = replace(graph, nodes=live_nodes(graph.nodes, outputs), outputs=outputs)
        with np.errstate(all="ignore"):
            found = iter(strict_evaluate(part, values))
        return [[np.asarray(next(found)) for _ in range(size)] for size in sizes[:stages]]

    values = at(args, len(sizes))
    for value, wanted in zip(values[0], expected, strict=True):
        assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype), f"{case}: {value!r}, not {wanted!r}"
        np.testing.assert_allclose(value, wanted, rtol=case.rtol, atol=case.rtol, err_msg=str(case))
    direction = [_weights(rng, a) * rng.choice([-1, 1], a.shape) for a in args]
    around = [(c, [a + k * case.step * d for a, d in zip(args, direction, strict=True)]) for k, c in STENCIL]
    for order in range(case.order):
        moved = [(c, at(m, 2)[1] if order else _plain(case, m)) for c, m in around]
        wanted = sum(c * _total(stage, weights[order]) for c, stage in moved) / case.step
        grads = values[order + 1]
        along = sum(float(np.sum(g * d)) for g, d in zip(grads, direction, strict=True))
        scale = max(1.0, *[float(np.max(np.abs(g), initial=0)) for g in grads])
        assert abs(along - wanted) <= case.tol * scale, f"{case}, order {order + 1}: {along}, differences say {wanted}"


def _weights(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return np.asarray(rng.uniform(0.5, 1.5, x.shape))


def _total(stage: Sequence[np.ndarray], weights: Sequence[np.ndarray]) -> float:
    return sum(float(np.sum(x * w)) for x, w in zip(stage, weights, strict=True) if x.dtype.kind == "f")
