"""Calls that are recorded once and for all.  Start reading at :func:`fix`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...tracer.ir.errors import DifferentiationError, TracegradError, UnsupportedError
from ...tracer.ir.graph import Graph, Guard
from ...tracer.ir.shape_struct import ShapeDtypeStruct
from ...tracer.ir.site import at_site
from ...tracer.ir.trees import tree_leaves, tree_map, tree_unflatten
from ..inspection import Seen, see
from ..mode import VALUE, VALUE_AND_GRAD
from ..record.arguments import positional_names
from ..record.call_key import ARRAY, COMPLEX_DATA, FLOAT, OBJECT, SCALAR, unwrap
from ..record.call_key import VALUE as PLAIN
from ..record.plain_objects import attributes_of
from ..record.reached import Reached
from ..state.trust import Trust
from ..stored.keep import NotKeptError, tree_of
from .fixed import FixedArgument, FixedCall
from .lowered import Compiled, CompiledForSizes, Lowered, check_mode
from .sizes import SizedCall

MOST_SIZES = 1000  # combinations, each of which is recorded
_KINDS = frozenset((ARRAY, FLOAT, SCALAR, COMPLEX_DATA, PLAIN, OBJECT))


def lower(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
    """The programs of a compiled *function* for such arguments, each an array, a number or a ShapeDtypeStruct."""
    value = fix(function, args, kwargs)
    both: FixedCall | TracegradError
    try:
        both = fix(function.value_and_grad, args, kwargs)
    except DifferentiationError as error:
        both = error
    return Lowered(value.name, {VALUE: value, VALUE_AND_GRAD: both})


def compiled_for(function: Any, mode: str, args: tuple[Any, ...]) -> Compiled:
    """As :func:`lower`, of one mode alone, and without kernels for Python."""
    check_mode(mode)
    fixed = fix(function if mode == VALUE else function.value_and_grad, args, {})
    return Compiled(fixed.name, {VALUE: fixed, VALUE_AND_GRAD: fixed})


def sized_for(function: Any, mode: str, specs: tuple[Any, ...], sizes: Mapping[str, Any]) -> CompiledForSizes:
    """A compiled *function* for every combination of *sizes*, by the names in *specs*.

    Raises:
        ValueError: the sizes are not those of the specs.
        UnsupportedError: it can't be done by a kernel alone, or the calls are of more than one kind.
    """
    check_mode(mode)
    known = dict.fromkeys(n for x in tree_leaves(specs) if isinstance(x, ShapeDtypeStruct) for n in x.names)
    if {*known} != {*sizes}:
        named = ", ".join(known) or "no name, since no shape has one"
        raise ValueError(f"sizes: the sizes of {named}, not of {', '.join(sizes) or 'none'}")
    names = tuple(known)
    lists = [dict.fromkeys(map(int, sizes[name])) for name in names]
    rows = [*itertools.product(*lists)]
    if not 0 < len(rows) <= MOST_SIZES:
        raise ValueError(f"sizes: at least one, and at most {MOST_SIZES} combinations, not {len(rows)}")
    traced = function if mode == VALUE else function.value_and_grad
    calls: dict[tuple[int, ...], FixedCall] = {}
    for row in rows:
        made = fix(traced, _with_sizes(specs, dict(zip(names, row, strict=True))), {})
        calls[row] = made.gradient() if mode == "grad" else made
    kinds = {_kind(call) for call in calls.values()}
    if len(kinds) > 1:
        raise UnsupportedError.here(f"{function!r} has other results with other sizes, not only other lengths of them")
    return CompiledForSizes(SizedCall(names, calls))


def _with_sizes(specs: tuple[Any, ...], sizes: Mapping[str, int]) -> tuple[Any, ...]:
    return tree_map(lambda x: x.at(sizes) if isinstance(x, ShapeDtypeStruct) else x, specs)  # type: ignore[no-any-return]


def _kind(call: FixedCall) -> Any:
    """All that a caller sees of a call but for lengths."""
    results = [(k, name, dtype, len(shape)) for k, (name, dtype, shape) in call.results.items()]
    given = [(x.name, x.kind, x.dtype, len(x.shape)) for x in call.operands]
    return tuple(given), tuple(results), len(call.graph.outputs)


def fix(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FixedCall:
    """The call of *fn*, a compiled function or one of its methods (``f.value_and_grad``), recorded.

    Raises:
        UnsupportedError: it can't be done by its kernel alone.
        DifferentiationError: it has no gradient.
    """
    seen = see(fn, args, kwargs, as_recorded=False, what="lower", all_ways=True)
    recording, call = seen.recording, seen.call
    name = seen.name
    for why in _hindrances(seen):
        raise UnsupportedError.here(f"{name} can't be compiled ahead of time, because {why}")
    try:
        tree = tree_of(recording, of_classes=True)
    except NotKeptError as error:
        raise UnsupportedError.here(f"{name} can't be compiled ahead of time, because {error}") from None
    graph, count = recording.graph, len(call.data)
    outside = [
        (var, np.array(value, var.aval.dtype, order="C"))
        for var, value in zip(graph.inputs[count:], recording.captured, strict=True)
    ]
    operands: list[FixedArgument] = []
    parts: list[tuple[Any, ...]] = []
    for leaf, kind in zip(call.leaves, call.kinds, strict=True):
        if kind == OBJECT:  # all that is read of it is fixed
            parts.append(("object", unwrap(leaf)))
            continue
        if kind == PLAIN:
            parts.append(("value", leaf))
            continue
        aval = graph.inputs[len(operands)].aval
        dtype, shape = aval.dtype, aval.shape
        given = "array" if kind == ARRAY else "float" if kind == FLOAT else str(np.dtype(type(leaf)))
        if kind == COMPLEX_DATA:
            given = "array" if type(leaf) is np.ndarray else "complex"
            dtype, shape = np.dtype(getattr(leaf, "dtype", complex)), shape[:-1]
        shown = recording.names[len(operands)].removeprefix("the argument ").strip("`")
        operands.append(FixedArgument(shown, given, dtype, shape))
        parts.append(("data", len(operands) - 1))
    given, named = [structure_of(x) for x in tree_unflatten(call.tree, [_StructureLeaf(part) for part in parts])]
    structure = (given[0], *given[1 + seen.is_method :]), named
    fixed = Graph(graph.inputs[:count], graph.nodes, graph.outputs, graph.guards, [*outside, *graph.consts])
    argnums, known = seen.mode.argnums, dict(enumerate(positional_names(seen.fn)))
    names = tuple([known.get(place, str(place)) for place in seen.mode.positions])
    wrt = names[0] if isinstance(argnums, int) else names
    missed = tuple([_missed(name, guard) for guard in graph.guards])
    return FixedCall(
        name, seen.mode.kind, fixed, tuple(operands), structure, tree, recording.output.single, wrt,
        seen.mode.has_aux, missed,
    )  # fmt: skip


def _missed(name: str, guard: Guard) -> str:
    return at_site(
        f"{name}: these values take another way through its branches than those that it was lowered with; lower it "
        "with such values, or write the branch with np.where or tracegrad.cond",
        guard.site,
    )


def _hindrances(seen: Seen) -> Iterator[str]:
    """Why the program alone is not the function."""
    recording, call = seen.recording, seen.call
    if recording.drawn is not None:
        yield "it draws random numbers outside: pass them as arguments"
    if recording.draws:
        yield "it draws from the random numbers of the process; give it a key (tracegrad.random.key) as an argument"
    if recording.effects or recording.transient is not None:
        yield "it changes something outside of it"
    yield from [f"its Python has to run in each call: {reason}" for reason in seen.reasons]
    if Reached(seen.fn, Trust()).asks_identity:
        yield "it asks whether values are one object"
    asked = [question for question in recording.questions if getattr(question, "in_kernel", None) is None]
    if recording.numbers or asked:
        yield "it rests on more than its arguments and what it reads"
    if call.device is not None:
        yield "its arguments are on a device"
    if not _KINDS.issuperset(call.kinds):
        yield "its arguments are tensors"
    if call.shares:
        yield "a container occurs twice among its arguments"


# ---- the structure of arguments


class _StructureLeaf:
    """A leaf of the arguments, which is *part*."""

    def __init__(self, part: Any) -> None:
        self.part = part


def structure_of(x: Any) -> Any:
    """The structure *x* over leaves: ``("data", number)``, ``("value", x)``, ``("object", x)``, and ``("tuple", ...)``,
    ``("list", ...)``, ``("dict", (key, ...), ...)``, ``("fields", class, (attribute, ...), ...)`` of such."""
    kind = type(x)
    if kind is _StructureLeaf:
        return x.part
    if x is None:
        return "value", None
    if kind is tuple or kind is list:
        return kind.__name__, *map(structure_of, x)
    if kind is dict and all(type(key) in (str, int) for key in x):
        return "dict", tuple(x), *map(structure_of, x.values())
    fields = x._fields if isinstance(x, tuple) and hasattr(x, "_fields") else attributes_of(x)
    if fields:
        return "fields", kind.__name__, tuple(fields), *[structure_of(getattr(x, name)) for name in fields]
    raise UnsupportedError.here(
        f"functions are compiled ahead of time for tuples, lists, dicts and objects of arrays, not {kind.__qualname__}"
    )
