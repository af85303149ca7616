"""Fixed calls: a program with its constants, the structure of its arguments and of its result.

A :class:`FixedCall` has no code of the user's in it. All that the function has read from outside is as it was when the
call was recorded (``lowering.py``): arrays are copied into the program.  Here nothing records, and nothing that does is
imported: a function is loaded from a file without it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...codegen.cpu.program import LayoutError, Program
from ...codegen.cpu.symbols import UnknownSymbolError
from ...codegen.lower.canonical import Canonical, canonicalise
from ...tracer.ir.aval import COMPLEX
from ...tracer.ir.errors import UnsupportedError
from ...tracer.ir.graph import Graph
from ..disk.encoding import EncodingError
from ..disk.programs import from_bytes
from ..launch.bind import ArrayArg, ScalarArg
from ..launch.binding import bind_graph, launched
from ..launch.kernel_cache import kernels
from ..mode import GRAD, VALUE, VALUE_AND_GRAD
from ..stored.plan_file import built

_SCALARS: dict[str, type] = {"float": float, "float64": np.float64, "float32": np.float32}
_NUMBERS = (int, float, np.float64, np.float32)
_COMPLEX = {lane: dtype for dtype, lane in COMPLEX.items()}


@dataclass(frozen=True)
class FixedArgument:
    """An argument that is data: an array, or a number of the *kind* float, float64, float32 or complex.  *dtype* and
    *shape* are the user's."""

    name: str
    kind: str
    dtype: np.dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"an array of {self.dtype} and shape {self.shape}" if self.kind == "array" else f"a {self.kind}"

    @property
    def by_value(self) -> bool:
        return self.kind in _SCALARS

    @property
    def layout(self) -> ArrayArg | ScalarArg:
        """The same as the kernel takes it, which has lanes for complex numbers."""
        if self.by_value:
            return ScalarArg(self.dtype, (_SCALARS[self.kind],))
        lane = COMPLEX.get(self.dtype)
        return ArrayArg(self.dtype, self.shape) if lane is None else ArrayArg(lane, (*self.shape, 2))

    def taken(self, value: Any) -> Any:
        """*value* as the kernel takes it; TypeError where it can't be this argument."""
        if self.by_value:
            if type(value) is _SCALARS[self.kind]:
                return value
        elif self.kind == "complex":
            if type(value) in (complex, self.dtype.type):
                return np.array((value.real, value.imag), COMPLEX[self.dtype])
        elif type(value) is np.ndarray and value.dtype == self.dtype and value.shape == self.shape:
            return value if self.dtype.kind != "c" else np.ascontiguousarray(value)[..., None].view(COMPLEX[self.dtype])
        elif not self.shape and type(value) in _NUMBERS and self.dtype.kind == "f":
            return np.array(value, self.dtype)
        is_array = isinstance(value, np.ndarray)
        found = f"an array of {value.dtype} and shape {value.shape}" if is_array else f"a {type(value).__qualname__}"
        raise TypeError(f"`{self.name}` is {self} here, since the function was lowered for that, not {found}")


@dataclass(frozen=True, eq=False)
class FixedCall:
    """A call of the function *name* for results of a kind (*mode*).  *graph*: the program; its inputs are *operands*.
    *structure*: the arguments, as ``structure_of`` describes them.  *tree*: the result over those of the program, as in
    ``StoredPlan``; None: they are the result, the only one with *single*.  *wrt*: the name of the argument that the
    gradient is taken of, or those of several; *has_aux*: the value is (loss, aux); *missed*: a message for each guard
    that may fail; *kernel*: its program on disk, as ``disk/programs.py`` writes it."""

    name: str
    mode: str
    graph: Graph
    operands: tuple[FixedArgument, ...]
    structure: Any
    tree: Any
    single: bool
    wrt: str | tuple[str, ...]
    has_aux: bool
    missed: tuple[str, ...]
    kernel: bytes | None = None

    @property
    def plain_name(self) -> str:
        """The function's own name, as an identifier."""
        return identifier(self.name.partition(" ")[0].rpartition(".")[2])

    @cached_property
    def canonical(self) -> Canonical:
        return canonicalise(self.graph)

    @cached_property
    def program(self) -> Program:
        """The program for calls from Python."""
        with contextlib.suppress(EncodingError, UnknownSymbolError, LayoutError):
            if self.kernel is not None:
                return from_bytes(self.kernel, self.canonical, len(self.operands))
        return kernels.get(self.canonical, len(self.operands))[0]

    @cached_property
    def _launch(self) -> Callable[..., Any]:
        return bind_graph(self.graph, self.canonical, self.program, False, [x.layout for x in self.operands])

    @cached_property
    def _flat(self) -> bool:
        """Whether the arguments are the kernel's, which looks at them itself."""
        arrays = not any(x.dtype.kind == "c" for x in self.operands)
        return arrays and self.structure == (("tuple", *[("data", k) for k in range(len(self.operands))]), ("dict", ()))

    def compile(self) -> None:
        """Make the kernel, unless it is there."""
        _ = self._launch

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for arguments of this structure.

        Raises:
            TypeError: the arguments are others.
            UnsupportedError: they take another way through the function's branches.
        """
        found = self._launch(*args) if self._flat and not kwargs else None
        if found is None:
            data: list[Any] = [None] * len(self.operands)
            for part, given in zip(self.structure, (args, kwargs), strict=True):
                _take(part, given, self.operands, data, "the arguments")
            found = launched(self._launch, data)
        if isinstance(found, int):
            raise UnsupportedError(self.missed[found])
        if self.tree is not None:
            return built(self.tree, found)
        return found[0] if self.single else found

    def gradient(self) -> FixedCall:
        """The call for the gradient alone, of one for the value, too, by the same program."""
        if self.mode != VALUE_AND_GRAD:
            return self
        tree: Any = self.tree or ("tuple", ("r", 0), ("r", 1))
        _, value, gradient = tree
        tree = ("tuple", gradient, value[2]) if self.has_aux else gradient
        return replace(self, mode=GRAD, tree=tree, single=False)

    @cached_property
    def result_names(self) -> dict[int, str]:
        """Names of the program's results that are in the user's: ``value``, ``grad_x``, with the places behind them."""
        tree: Any = self.tree
        if tree is None:
            tree = ("r", 0) if self.single else ("tuple", *[("r", k) for k in range(len(self.graph.outputs))])
        value, gradient = (tree, None) if self.mode == VALUE else (None, tree) if self.mode == GRAD else tree[1:]
        if self.mode == GRAD and self.has_aux:
            _, gradient, value = tree
        parts = [] if value is None else [(VALUE, value)]
        if gradient is not None:
            several = zip(self.wrt, gradient[1:], strict=True) if type(self.wrt) is tuple else [(self.wrt, gradient)]
            parts += [(f"grad_{name}", part) for name, part in several]
        found: dict[int, str] = {}
        for word, part in parts:
            for k, name in _places(part, word):
                found.setdefault(k, name)
        return dict(sorted(found.items()))

    @property
    def results(self) -> dict[int, tuple[str, np.dtype, tuple[int, ...]]]:
        """(name, dtype, shape), as users have them, of the program's results."""
        lanes = {*_complex_places(self.tree)}
        avals = {k: self.graph.outputs[k].aval for k in self.result_names}
        shapes = {k: (_COMPLEX[a.dtype], a.shape[:-1]) if k in lanes else (a.dtype, a.shape) for k, a in avals.items()}
        return {k: (name, *shapes[k]) for k, name in self.result_names.items()}


def _places(tree: Any, name: str) -> Iterator[tuple[int, str]]:
    """(result, its name) for the results in a tree."""
    kind, *parts = tree
    keys: Any = range(len(parts))
    if kind == "r":
        yield parts[0], name
    elif kind == "dict":
        keys, *parts = parts
    elif kind == "object":
        (_, keys), *parts = parts
    elif kind in ("sparse", "complex"):
        yield from _places(parts[0], name)
    if kind in ("tuple", "list", "dict", "object"):
        for key, part in zip(keys, parts, strict=True):
            yield from _places(part, f"{name}_{key}")


def _complex_places(tree: Any) -> Iterator[int]:
    """The results in a tree that are lanes of complex numbers."""
    if isinstance(tree, tuple) and tree:
        if tree[0] == "complex":
            yield from [k for k, _ in _places(tree, "")]
        elif tree[0] != "value":
            for part in tree[1:]:
                yield from _complex_places(part)


_RESERVED = frozenset((  # of C, and of Python where a name of the user's can't be: a key, "lambda"
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while lambda def "
    "bool and or not in is None True False class global import from pass raise try with yield del assert async await"
).split())  # fmt: skip


def identifier(name: str) -> str:
    """*name* as an identifier of C and of Python."""
    found = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
    return f"{found}_" if found in _RESERVED else f"x{found}" if found[0].isdigit() else found


def _take(part: Any, x: Any, operands: Sequence[FixedArgument], data: list[Any], where: str) -> None:
    """Put what is data in *x* into *data*; TypeError where *x* is not what *part* describes."""
    kind, *parts = part
    if kind == "data":
        data[parts[0]] = operands[parts[0]].taken(x)
        return
    if kind == "value":
        if type(x) is type(parts[0]) and x == parts[0]:
            return
        raise TypeError(f"{x!r:.60} among the arguments was {parts[0]!r} when the function was lowered")
    if kind == "object":
        if x is not parts[0]:
            raise TypeError(f"{x!r:.60} among the arguments is not the object that the function was lowered with")
        return
    if kind == "fields":
        name, fields, *parts = parts
        if type(x).__name__ != name or not all(hasattr(x, field) for field in fields):
            raise TypeError(f"{where} are a {name} with {', '.join(fields)} here, not {x!r:.60}")
        for field, inner in zip(fields, parts, strict=True):
            _take(inner, getattr(x, field), operands, data, "the items of an argument")
        return
    keys: Any = range(len(parts))
    if kind == "dict":
        keys, *parts = parts
    if type(x).__name__ != kind or len(x) != len(parts) or (kind == "dict" and x.keys() != set(keys)):
        wanted = f"a dict with the keys {keys}" if kind == "dict" else f"a {kind} of {len(parts)}"
        raise TypeError(f"{where} are {wanted} here, not {x!r:.60}")
    for key, inner in zip(keys, parts, strict=True):
        _take(inner, x[key], operands, data, "the items of an argument")
