"""Graphs run on a CUDA device through CuPy, as users' programs are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from tracing import Traced

from tracegrad.codegen.lower.canonical import canonicalise
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.runtime.cuda.arrays import download
from tracegrad.runtime.cuda.run import program_of
from tracegrad.tracer.ir.graph import Graph

rng = np.random.default_rng(13)


def device_tier(graph: Graph, inputs: Sequence[Any]) -> list[np.ndarray]:
    """The outputs of *graph*, as ``support.TIERS`` have them."""
    arrays = [
        np.ascontiguousarray(x, v.aval.dtype).reshape(v.aval.shape) for x, v in zip(inputs, graph.inputs, strict=True)
    ]
    arguments, graph = len(graph.inputs), simplify(graph)
    _, results = program_of(graph, canonicalise(graph), arguments).execute(arrays)
    return [np.asarray(download(r)) for r in results]


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _graph(f: Callable[..., Any], *shape: int) -> tuple[Graph, list[np.ndarray]]:
    """*f* with the gradient of a weighted sum of its results, and an input."""
    x = rng.normal(size=shape).astype(np.float32)
    outputs = Traced(f, [x]).outputs
    weights = [rng.normal(size=o.aval.shape).astype(np.float32) for o in outputs]
    return Traced(f, [x], weights).graph, [x]


# one of each kind of kernel, to be run under compute-sanitizer
HANDFUL: dict[str, Callable[[], tuple[Graph, list[np.ndarray]]]] = {
    "vectors with a tail": partial(_graph, lambda x: x * x + 1, 1003),
    "a sum in two stages": partial(_graph, lambda x: np.sum(np.sin(x)), 5000),
    "rows by blocks": partial(_graph, softmax, 37, 500),
    "columns": partial(_graph, lambda x: np.sum(x * x, axis=0), 700, 33),
    "a running sum": partial(_graph, lambda x: np.cumsum(x, axis=-1), 5, 3000),
    "gathers and scatters": partial(_graph, lambda x: x[np.array([0, 3, 3, 1])] ** 2, 9, 21),
    "the largest": partial(_graph, lambda x: (np.argmax(x, axis=1), x.max()), 20, 300),
    "a stencil": partial(_graph, lambda x: np.sum((x[1:] - x[:-1]) ** 2), 2000),
}
