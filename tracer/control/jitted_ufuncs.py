"""``@numba.vectorize`` and ``@numba.guvectorize`` functions of traced arrays, recorded through their Python source.

The source of the first kind is a function of numbers.  It is recorded once for each way through its branches, on
numbers that stand for all elements; the ways become elementwise operations on the whole arrays, of which ``select``
chooses.  Where it does more than compute with numbers (a loop that data ends, an index), it runs for each element.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.errors import UnrecordableError, UnsupportedError, unrecordable
from ..ir.graph import Atom, Node, Var, live_nodes
from ..ir.primitive import ELEMENTWISE
from ..ir.site import at_site
from ..numpy_api.assemble import nested_atom
from ..numpy_api.create import filled
from ..ops.elementwise import CAST, F, broadcast, cast, promote
from ..ops.shape import reshape, zeros
from ..record.array import TracedArray, to_atom, wrap, wrap_array
from ..record.made_arrays import assign_all
from ..record.recorder import Recorder, current_recorder, recording
from .body_recorder import BodyRecorder

_MOST_WAYS = 32


class _NoElementwiseError(Exception):
    """The source does more than compute with numbers."""


class _OneWay(BodyRecorder):
    """The recorder of one way through the branches of a function of numbers, which gives *answers* to its first
    questions, and True to all others."""

    hoists = False

    def __init__(self, parent: Recorder, answers: Sequence[bool]) -> None:
        super().__init__(parent, 1, "a compiled ufunc")
        self._answers = answers
        self.asked: list[Atom] = []

    def guard(self, atom: Atom, kind: str) -> Any:
        if not (isinstance(atom, Var) and atom in self.own):
            return super().guard(atom, kind)
        if kind != "bool" or len(self.asked) >= _MOST_WAYS:
            raise _NoElementwiseError
        self.asked.append(atom)
        known = self._answers[len(self.asked) - 1 :]
        return np.bool_(known[0] if known else True)

    def value(self, atom: Atom) -> Any:
        if isinstance(atom, Var) and atom in self.own:
            raise _NoElementwiseError
        return super().value(atom)


def call_vectorized(jitted: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a ``@vectorize`` function through its source."""
    out = kwargs.pop("out", None)
    if len(args) == jitted.nin + 1:
        *args, out = args  # type: ignore[assignment]
    if kwargs:
        raise TypeError(f"unexpected keyword arguments to ufunc: {', '.join(map(repr, kwargs))}")
    recorder = current_recorder()
    assert recorder is not None
    atoms = [to_atom(x) for x in args]
    dtypes, result = _declared(jitted, atoms)
    atoms = [cast(x, d) for x, d in zip(atoms, dtypes, strict=True)]
    atoms = list(broadcast(*atoms))
    try:
        found = _ways(recorder, function, atoms, (), [])
    except _NoElementwiseError:
        found = None
    if found is None:
        found = _by_element(function, atoms)
    found = cast(found, found.aval.dtype if result is None else result)
    value = wrap_array(found) if found.aval.shape else wrap(found)
    target = out[0] if type(out) is tuple else out
    return value if target is None else assign_all(target, value)


def _declared(jitted: Any, atoms: Sequence[Atom]) -> tuple[list[np.dtype], np.dtype | None]:
    """(dtypes of the operands, that of the result) by the signatures that were declared; else those of the operands."""
    if not jitted._frozen:
        return [x.aval.dtype for x in atoms], None
    for types in jitted.types:
        ins, _, outs = types.partition("->")
        if len(ins) == len(atoms) and all(_takes(np.dtype(c), x.aval) for c, x in zip(ins, atoms, strict=True)):
            return [np.dtype(c) for c in ins], np.dtype(outs)
    found = ", ".join([str(x.aval.dtype) for x in atoms])
    declared = ", ".join(jitted.types)
    raise TypeError(at_site(f"{jitted.__name__} is declared for {declared} alone, and is called with ({found})"))


def _takes(dtype: np.dtype, aval: Aval) -> bool:
    if aval.weak:
        return dtype.kind in ("fc" if aval.is_float else "iufc")
    return bool(np.can_cast(aval.dtype, dtype, "safe"))


def _ways(
    recorder: Recorder, function: Callable[..., Any], atoms: Sequence[Atom], answers: tuple[bool, ...], count: list[int]
) -> Atom | None:
    """The result of *function* for all elements of *atoms*, where its first questions have these *answers*; None where
    it raises."""
    count.append(1)
    if len(count) > _MOST_WAYS:
        raise _NoElementwiseError
    way, value = _OneWay(recorder, answers), None
    with recording(way):
        numbers = [way.fresh(Aval(x.aval.dtype, ())) for x in atoms]
        try:
            value = to_atom(function(*[TracedArray(x, way) for x in numbers]))
        except _NoElementwiseError:
            raise
        except Exception as error:
            if isinstance(error, UnrecordableError):
                unrecordable.discard(error)
    whole = dict(zip(numbers, atoms, strict=True))
    _put_on_arrays(recorder, way.nodes, whole, [*way.asked, *([] if value is None else [value])])
    value = whole.get(value, value)  # type: ignore[arg-type]
    asked = [_over(whole.get(x, x), atoms) for x in way.asked]  # type: ignore[arg-type]
    given = [*answers, *[True] * (len(asked) - len(answers))]
    for k in range(len(asked) - 1, len(answers) - 1, -1):
        other = _ways(recorder, function, atoms, (*given[:k], False), count)
        if value is None or other is None:
            reached = [x if answer else F.logical_not(x) for x, answer in zip(asked[:k], given, strict=False)]
            raising = reduce(F.logical_and, reached, asked[k] if value is None else F.logical_not(asked[k]))
            if value is not other and bool(np.any(wrap_array(raising))):
                raise _NoElementwiseError  # so that it raises
            value = other if value is None else value
        else:
            a, b = [_over(cast(x, x.aval.dtype), atoms) for x in promote(value, other)]
            value = F.select(asked[k], a, b)
    return value


def _over(x: Atom, atoms: Sequence[Atom]) -> Atom:
    return broadcast(x, *atoms)[0]


def _put_on_arrays(recorder: Recorder, nodes: Sequence[Node], known: dict[Any, Atom], roots: Sequence[Atom]) -> None:
    """Add to *known* what the *roots* of *nodes*, numbers, are for whole arrays: those that are known in place of
    numbers."""
    for node in live_nodes(nodes, roots):
        operands = broadcast(*[known.get(x, x) if isinstance(x, Var) else x for x in node.inputs])
        if node.prim is CAST:
            known[node.out] = cast(operands[0], node.params["dtype"])
        elif node.prim.kind == ELEMENTWISE:
            (known[node.out],) = recorder.emit(node.prim, operands, node.params)
        else:
            raise _NoElementwiseError


def _by_element(function: Callable[..., Any], atoms: Sequence[Atom]) -> Atom:
    arrays = [wrap_array(x) for x in atoms]
    shape = next((x.shape for x in arrays if x.shape), ())
    found = []
    for index in np.ndindex(shape):
        found.append(function(*[array[index] if array.shape else wrap(array.atom) for array in arrays]))
    return reshape(nested_atom(found), shape) if found else zeros(shape, np.dtype(float))


# ---- functions of parts of arrays


def call_generalized(jitted: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a ``@guvectorize`` function through its source, which writes into its last arguments."""
    out = kwargs.pop("out", None)
    ins, outs = [_axes(part) for part in jitted.gufunc_builder.signature.split("->")]
    given = list(args[: len(ins)])
    targets = list(args[len(ins) :]) or ([] if out is None else list(out) if type(out) is tuple else [out])
    if kwargs or len(given) != len(ins) or len(targets) not in (0, len(outs)):
        raise UnsupportedError.here(f"{jitted.__name__} is called otherwise than by {jitted.signature}")
    arrays = [x if type(x) is TracedArray else wrap_array(to_atom(x)) for x in given]
    sizes: dict[str, int] = {}
    for x, axes in zip([*arrays, *targets], [*ins, *outs], strict=False):
        if x.ndim < len(axes):
            raise ValueError(at_site(f"{jitted.__name__}: an operand of {x.ndim} axes, where {len(axes)} are its core"))
        for name, size in zip(axes, x.shape[x.ndim - len(axes) :], strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(at_site(f"{jitted.__name__}: the axis {name} has {sizes[name]} and {size} elements"))
    loop = np.broadcast_shapes(*[x.shape[: x.ndim - len(axes)] for x, axes in zip(arrays, ins, strict=True)])
    dtype = np.result_type(*[x.dtype for x in arrays], *[x.dtype for x in targets])
    results = [filled(0.0, (*loop, *([sizes[n] for n in axes] or [1])), dtype) for axes in outs]
    wide: list[Any] = [
        np.broadcast_to(x, (*loop, *x.shape[x.ndim - len(axes) :])) for x, axes in zip(arrays, ins, strict=True)
    ]
    for index in np.ndindex(*loop):
        parts = [x[index] if axes else wrap(x[index].atom) for x, axes in zip(wide, ins, strict=True)]
        function(*parts, *[x[(*index, ...)] for x in results])
    found = [x if axes else x.reshape(loop) for x, axes in zip(results, outs, strict=True)]
    if targets:
        found = [assign_all(target, x) for target, x in zip(targets, found, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _axes(part: str) -> list[list[str]]:
    """The names of the core axes of each operand: "(n,k),()" -> [["n", "k"], []]."""
    return [[name.strip() for name in text.split(",") if name.strip()] for text in re.findall(r"\(([^)]*)\)", part)]
