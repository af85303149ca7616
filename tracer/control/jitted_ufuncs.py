"""``@numba.vectorize`` and ``@numba.guvectorize`` functions of traced arrays, and ``@njit`` functions of numbers,
recorded through their Python source.

A function of numbers is recorded once for each way through its branches; the ways become elementwise operations, on
whole arrays or on one number, of which ``select`` chooses.  So a loop over such a function repeats, whatever the data.
Where the function does more than compute with numbers (a loop that data ends, an index), it runs as any other, for each
element of the arrays.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from types import CodeType
from typing import Any, NoReturn

import numpy as np

from ..ir.aval import Aval
from ..ir.errors import UnrecordableError, UnsupportedError, unrecordable
from ..ir.graph import Atom, Lit, Node, Var, live_nodes
from ..ir.primitive import ELEMENTWISE
from ..ir.site import at_site
from ..numpy_api.assemble import nested_atom
from ..numpy_api.create import filled
from ..ops.elementwise import CAST, F, broadcast, cast, promote
from ..ops.shape import reshape, zeros
from ..record.array import TracedArray, class_of, to_atom, wrap, wrap_array
from ..record.made_arrays import assign_all
from ..record.recorder import Recorder, current_recorder, recording
from .body_recorder import BodyRecorder

_MOST_WAYS = 32
_MOST_WAYS_OF_NUMBERS = 8  # more are answered by questions
_PLAIN = (float, int, bool, np.number, np.bool_, str, type(None))


class _NoElementwiseError(BaseException):
    """The source does more than compute with numbers."""  # no `except Exception` is to see it


class _OneWay(BodyRecorder):
    """The recorder of one way through the branches of a function of numbers, which gives *answers* to its first
    questions, and True to all others."""

    hoists = False

    def __init__(self, parent: Recorder, answers: Sequence[bool], count: list[int]) -> None:
        super().__init__(parent, 1, "a compiled ufunc")
        self._answers, self.count = answers, count
        self.asked: list[Atom] = []
        self.given_up = False

    def guard(self, atom: Atom, kind: str) -> Any:
        if not (isinstance(atom, Var) and atom in self.own):
            return super().guard(atom, kind)
        if kind != "bool" or len(self.asked) >= _MOST_WAYS:
            self.give_up()
        self.asked.append(atom)
        known = self._answers[len(self.asked) - 1 :]
        return np.bool_(known[0] if known else True)

    def value(self, atom: Atom) -> Any:
        if isinstance(atom, Var) and atom in self.own:
            self.give_up()
        return super().value(atom)

    def give_up(self) -> NoReturn:
        self.given_up = True  # whoever catches it
        raise _NoElementwiseError


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
        ways = _ways(recorder, function, atoms, (), [1] * _MOST_WAYS, _merged(atoms))
    except _NoElementwiseError:
        ways = None
    found: Any = _by_element(function, atoms) if ways is None else ways[0]
    found = _over(found if isinstance(found, Var | Lit) else to_atom(found), atoms)
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
    recorder: Recorder, function: Callable[..., Any], atoms: Sequence[Atom], answers: tuple[bool, ...],
    count: list[int], merge: Callable[[Atom, Any, Any], Any],
) -> list[Any] | None:  # fmt: skip
    """The results of *function* for all elements of *atoms*, where its first questions have these *answers*: atoms and
    plain values; None where it raises.  Ways join by *merge*.  *count*: a number for each way that is left."""
    if not count or any(x.aval.is_complex for x in atoms):
        raise _NoElementwiseError
    count.pop()
    way = _OneWay(recorder, answers, count)
    numbers, found = _run_way(way, function, atoms)
    whole = dict(zip(numbers, atoms, strict=True))
    _put_on_arrays(recorder, way.nodes, whole, [*way.asked, *[x for x in found or () if isinstance(x, Var)]])
    value = None if found is None else [whole.get(x, x) if isinstance(x, Var) else x for x in found]
    asked = [_over(whole.get(x, x), atoms) for x in way.asked]  # type: ignore[arg-type]
    given = [*answers, *[True] * (len(asked) - len(answers))]
    for k in range(len(asked) - 1, len(answers) - 1, -1):
        other = _ways(recorder, function, atoms, (*given[:k], False), count, merge)
        value = _joined_ways(asked[k], list(zip(asked[:k], given, strict=False)), value, other, merge)
    return value


def _run_way(
    way: _OneWay, function: Callable[..., Any], atoms: Sequence[Atom]
) -> tuple[list[Any], list[Any] | None]:  # fmt: skip
    """(variables for an element of each of *atoms*, the parts of the result of *function*, or None where it raises)."""
    found: list[Any] | None = None
    with recording(way):
        numbers = [way.fresh(Aval(x.aval.dtype, ())) for x in atoms]
        try:
            result = function(*[TracedArray(x, way) for x in numbers])
            parts = list(result) if type(result) is tuple else [result]
            found = [to_atom(x) if type(x) is TracedArray else x for x in parts]
        except _NoElementwiseError:
            raise
        except Exception as error:
            if isinstance(error, UnrecordableError):
                unrecordable.discard(error)
        if way.given_up or any(isinstance(x, Var) and x.aval.is_complex for x in found or ()):
            raise _NoElementwiseError
    return numbers, found


def _joined_ways(
    asked: Atom, before: list[tuple[Atom, bool]], value: list[Any] | None, other: list[Any] | None,
    merge: Callable[[Atom, Any, Any], Any],
) -> list[Any] | None:  # fmt: skip
    """The results where *asked* holds, and those of the *other* way; None is one that raises, which no element may go
    that the answers *before* lead to the question."""
    if value is None or other is None:
        reached = [x if answer else F.logical_not(x) for x, answer in before]
        raising = reduce(F.logical_and, reached, asked if value is None else F.logical_not(asked))
        if value is not other and bool(np.any(wrap_array(raising))):
            raise _NoElementwiseError  # so that it raises
        return other if value is None else value
    if len(value) != len(other):
        raise _NoElementwiseError
    return [merge(asked, a, b) for a, b in zip(value, other, strict=True)]


def _merged(atoms: Sequence[Atom]) -> Callable[[Atom, Any, Any], Atom]:
    """The merge of ways for all elements of *atoms*."""

    def merge(condition: Atom, a: Any, b: Any) -> Atom:
        a, b = promote(*[x if isinstance(x, Var | Lit) else to_atom(x) for x in (a, b)])
        return F.select(condition, *[_over(cast(x, x.aval.dtype), atoms) for x in (a, b)])

    return merge


def _merged_number(condition: Atom, a: Any, b: Any) -> Any:
    """The merge of ways of one number: what is no float has to be the same plain value in both."""
    if not any(isinstance(x, Var | Lit | float) for x in (a, b)):
        if type(a) is not type(b) or not (a is b or a == b):
            raise _NoElementwiseError
        return a
    if not all(isinstance(x, Var | Lit | float | int | np.number) for x in (a, b)):
        raise _NoElementwiseError
    return _merged(())(condition, a, b)


def call_of_numbers(function: Callable[..., Any], args: tuple[Any, ...], source: Any) -> Any:
    """A call of a compiled function of numbers by *source*, whose branches become choices; ``NotImplemented`` where
    they don't."""
    traced = [k for k, x in enumerate(args) if type(x) is TracedArray]
    numbers = all(args[k].aval.is_float and class_of(args[k]) is not np.ndarray for k in traced)
    plain = all(isinstance(x, _PLAIN) for k, x in enumerate(args) if k not in traced)
    if not (traced and numbers and plain and branches_ahead(source.__code__)):
        return NotImplemented
    recorder = current_recorder()
    assert recorder is not None

    def of_traced(*values: Any) -> Any:
        given = list(args)
        for k, value in zip(traced, values, strict=True):
            given[k] = value
        return function(*given)

    atoms = [cast(args[k].atom, args[k].aval.dtype) for k in traced]
    around = recorder if isinstance(recorder, _OneWay) else None  # of a function that calls this one
    count = [1] * _MOST_WAYS_OF_NUMBERS if around is None else around.count
    try:
        found = _ways(recorder, of_traced, atoms, (), count, _merged_number)
    except _NoElementwiseError:
        if around is not None:
            around.give_up()
        return NotImplemented
    if found is None:
        return NotImplemented
    found = [wrap(x) if isinstance(x, Var | Lit) else x for x in found]
    return found[0] if len(found) == 1 else tuple(found)


@lru_cache(maxsize=4096)
def branches_ahead(code: CodeType) -> bool:
    """Whether *code* has branches, and no loops."""
    jumps = [i.opname for i in dis.get_instructions(code) if "JUMP" in i.opname]
    return any("_IF_" in name for name in jumps) and not any("BACKWARD" in name for name in jumps)


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
    given_out = out if type(out) is tuple else () if out is None else (out,)
    targets = list(args[len(ins) :] or given_out)
    if kwargs or len(given) != len(ins) or len(targets) not in (0, len(outs)):
        raise UnsupportedError.here(f"{jitted.__name__} is called otherwise than by {jitted.signature}")
    arrays = list(map(_as_traced, given))
    sizes = _core_sizes(jitted.__name__, [*arrays, *targets], [*ins, *outs])
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


def _as_traced(x: Any) -> Any:
    return x if type(x) is TracedArray else wrap_array(to_atom(x))


def _core_sizes(name: str, operands: Sequence[Any], core: Sequence[list[str]]) -> dict[str, int]:
    """The sizes of the core axes, by name."""
    sizes: dict[str, int] = {}
    for x, axes in zip(operands, core, strict=False):
        if x.ndim < len(axes):
            raise ValueError(at_site(f"{name}: an operand of {x.ndim} axes, where {len(axes)} are its core"))
        for axis, size in zip(axes, x.shape[x.ndim - len(axes) :], strict=True):
            if sizes.setdefault(axis, size) != size:
                raise ValueError(at_site(f"{name}: the axis {axis} has {sizes[axis]} and {size} elements"))
    return sizes


def _axes(part: str) -> list[list[str]]:
    """The names of the core axes of each operand: "(n,k),()" -> [["n", "k"], []]."""
    return [[name.strip() for name in text.split(",") if name.strip()] for text in re.findall(r"\(([^)]*)\)", part)]
