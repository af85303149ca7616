"""``make_graph`` and ``eval_shape``: the program of a function, the shapes of its results, without a kernel.

Both record the function as its first call would, in a dispatcher of their own, so that the function keeps no trace of
it.  An argument may be a ``ShapeDtypeStruct``: then no value of it can be asked for.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..tracer.control.arms import MANY_PATHS
from ..tracer.ir.aval import COMPLEX, Aval
from ..tracer.ir.errors import UnsupportedError, need_function
from ..tracer.ir.graph import Graph
from ..tracer.ir.refusals import Reason
from ..tracer.ir.shape_struct import ShapeDtypeStruct, shape_struct
from ..tracer.ir.text import print_with_names
from ..tracer.ir.trees import tree_flatten, tree_map
from .compiled import BoundFunction, CompiledFunction
from .declare import check_function, static_positions
from .mode import VALUE, Mode
from .paths.dispatcher import FunctionDispatcher
from .record.call_key import ARRAY, COMPLEX_DATA, DATA, TENSOR, Call
from .record.differentiable import name_of
from .record.recording import Look, Recording
from .report.look import recorded
from .stats import Stats
from .transforms.gradient import Derivative


@dataclass(frozen=True)
class GraphView:
    """The program of one call of a function; ``print`` shows it.  Made by ``make_graph(f)(*args)``.

    ``graph`` is the program: its inputs are the arguments that are data, then arrays and numbers from outside of the
    function.  ``in_avals`` are their shapes and dtypes, ``in_names`` the user's names for them.  ``out_tree`` is the
    result of the function with a ``ShapeDtypeStruct`` in place of each array and number that is computed, ``out_avals``
    are these in order.
    """

    graph: Graph
    in_names: tuple[str, ...]
    out_tree: Any
    text: str

    @property
    def in_avals(self) -> tuple[ShapeDtypeStruct, ...]:
        return tuple([shape_struct(var.aval) for var in self.graph.inputs])

    @property
    def out_avals(self) -> tuple[ShapeDtypeStruct, ...]:
        return tuple([x for x in tree_flatten(self.out_tree)[0] if isinstance(x, ShapeDtypeStruct)])

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


class _NamedResult:
    """A stand-in for a result of a graph: its name in the text, its shape and dtype."""

    def __init__(self, name: str, aval: Aval) -> None:
        self.name, self.aval = name, aval

    def item(self) -> _NamedResult:
        return self

    def __repr__(self) -> str:
        return self.name


def _complex(lanes: _NamedResult) -> _NamedResult:
    dtype = next(dtype for dtype, lane in COMPLEX.items() if lane == lanes.aval.dtype)
    return _NamedResult(f"complex({lanes.name})", Aval(dtype, lanes.aval.shape[:-1]))


@dataclass(frozen=True)
class Seen:
    """A call that was recorded to be looked at."""

    name: str
    fn: Callable[..., Any]
    call: Call
    mode: Mode
    recording: Recording
    is_method: bool  # of an object that is its first argument
    reasons: list[Reason]  # why Python has to run in each call

    def result(self, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
        """The result of the function, with these names of the program's inputs and outputs in it."""
        graph, data = self.recording.graph, iter(zip(inputs, self.recording.graph.inputs, strict=True))
        leaves: list[Any] = []
        for leaf, kind in zip(self.call.leaves, self.call.kinds, strict=True):
            if kind in DATA:
                name, var = next(data)
                shown = _NamedResult(name, var.aval)
                leaves.append(_complex(shown) if kind == COMPLEX_DATA else shown)
            else:
                leaves.append(leaf)
        results = [_NamedResult(name, x.aval) for name, x in zip(outputs, graph.outputs, strict=True)]
        return self.recording.output.shown(results[: len(results) - len(self.recording.numbers)], leaves, _complex)


def see(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, as_recorded: bool, what: str, all_ways: bool = False
) -> Seen:
    """Record a call of *fn*, which stays as it is.  *all_ways*: both arms of its `if`s run, where they can."""
    fn, mode, first, static, target = _parts(fn, what)
    args = first + args
    dispatcher = FunctionDispatcher(fn, static, target, Stats(name_of(fn)))
    call = dispatcher.flatten(args, kwargs, mode)
    if TENSOR in call.kinds:
        raise UnsupportedError.here(
            f"{what} is for functions of arrays, and was given a Tensor; pass x.numpy(), or look at a step by "
            "step.explain(...)"
        )
    abstract = frozenset([k for k, leaf in enumerate(call.leaves) if type(leaf) is ShapeDtypeStruct])
    kinds = list(call.kinds)
    for k in abstract:
        struct: ShapeDtypeStruct = call.leaves[k]
        kinds[k] = COMPLEX_DATA if struct.dtype in COMPLEX else ARRAY
        call.leaves[k] = np.broadcast_to(
            np.zeros(struct.dtype.itemsize, np.uint8).view(struct.dtype)[0], struct.aval.shape
        )
    call.kinds = tuple(kinds)
    paths = MANY_PATHS if all_ways else 0
    _, recording, reasons = recorded(dispatcher, call, mode, Look(abstract, as_recorded), paths)
    return Seen(dispatcher.stats.name, fn, call, mode, recording, bool(first), reasons)


def _parts(fn: Any, what: str) -> tuple[Callable[..., Any], Mode, tuple[Any, ...], frozenset[int | str], str]:
    """(the Python function, the mode in which it is called, arguments before the user's, static arguments, target)."""
    if isinstance(fn, Derivative):
        return (fn._function._fn, fn._endpoint.mode, fn._first, *_settings(fn._function))
    if isinstance(fn, CompiledFunction):
        return (fn._fn, Mode(VALUE), (), *_settings(fn))
    if isinstance(fn, BoundFunction):
        return (fn.__func__._fn, Mode(VALUE), (fn.__self__,), *_settings(fn.__func__))
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, CompiledFunction | BoundFunction) and isinstance(fn, types.MethodType):
        function = owner.__func__ if isinstance(owner, BoundFunction) else owner
        endpoints = function._bound if function is not owner else (function._value, function._grad, function._both)
        for endpoint in endpoints:
            if endpoint.mode.kind == fn.__func__.__name__:  # f.grad, f.value_and_grad
                python, _, first, static, target = _parts(owner, what)
                return python, endpoint.mode, first, static, target
    need_function(what, fn)
    check_function(fn, "auto")
    return fn, Mode(VALUE), (), static_positions(fn, ()), "auto"


def _settings(function: CompiledFunction) -> tuple[frozenset[int | str], str]:
    """(static arguments, target)"""
    return function._dispatcher.static, function._dispatcher.target


# ---- what users call -------------------------------------------------------------------------------------------------


def make_graph(fn: Callable[..., Any], *, simplify: bool = True) -> Callable[..., GraphView]:
    """The program that tracegrad records of *fn*, as a function of its arguments: ``print(make_graph(f)(x, y))``.

    :param fn: any function of arrays and numbers: plain or compiled, a method, a derivative (``autograd.grad(f)``,
        ``f.value_and_grad``) or another transform.
    :param simplify: Python loops are loops of the program, and it is simplified, as it is compiled; False: each
        operation as it was recorded.
    :returns: a function that takes the arguments of *fn* and gives a :class:`GraphView`.  Arguments may be
        ``ShapeDtypeStruct`` where no value of them is asked for.  The function's Python runs once; nothing is compiled,
        and no call of *fn* is replayed by it.
    :raises UnsupportedError: at the user's line, where Python asks for a value of a ``ShapeDtypeStruct``.
    """
    name = getattr(fn, "__name__", type(fn).__name__)

    def graph_maker(*args: Any, **kwargs: Any) -> GraphView:
        return _view(see(fn, args, kwargs, as_recorded=not simplify, what="make_graph"), name)

    graph_maker.__name__ = graph_maker.__qualname__ = f"make_graph({name})"
    return graph_maker


def _view(seen: Seen, name: str) -> GraphView:
    recording = seen.recording
    text, inputs, outputs = print_with_names(recording.graph)
    result = seen.result(inputs, outputs)
    names = tuple([named.removeprefix("the argument ").strip("`") for named in recording.names])
    lines = [f"# {letter} is {shown}" for letter, shown in zip(inputs, names, strict=True)]
    kind = "" if seen.mode.kind == VALUE else f"{seen.mode.kind} of "
    lines += [text, f"# {kind}{name} returns {result!r}"]
    return GraphView(recording.graph, names, tree_map(_struct, result), "\n".join(lines))


def _struct(leaf: Any) -> Any:
    if isinstance(leaf, _NamedResult):
        return shape_struct(leaf.aval)
    if isinstance(leaf, (bool, int, float, complex, np.ndarray, np.generic)):
        return shape_struct(leaf)
    return leaf


def eval_shape(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of ``fn(*args, **kwargs)``, without computing it: its result with a ``ShapeDtypeStruct`` in
    place of each array and number.

    :param args: trees of arrays, numbers and ``ShapeDtypeStruct``.
    :raises ShapeError: where the shapes of the function's operations do not fit, at the user's line.
    :raises UnsupportedError: at the user's line, where Python asks for a value of a ``ShapeDtypeStruct``.
    """
    seen = see(fn, args, kwargs, as_recorded=False, what="eval_shape")
    graph = seen.recording.graph
    return tree_map(_struct, seen.result([""] * len(graph.inputs), [""] * len(graph.outputs)))
