"""Fixed calls: a program with its constants, the structure of its arguments and of its result.

A :class:`FixedCall` has no code of the user's in it. All that the function has read from outside is as it was when the
call was recorded (``lowering.py``): arrays are copied into the program.  Here nothing records, and nothing that does is
imported: a function is loaded from a file without it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...codegen.cpu.program import LayoutError, Program
from ...codegen.cpu.symbols import UnknownSymbolError
from ...codegen.lower.canonical import Canonical, canonicalise
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


@dataclass(frozen=True)
class FixedArgument:
    """An argument that is data: an array, or a number of the *kind* float, float64 or float32."""

    name: str
    kind: str
    dtype: np.dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"an array of {self.dtype} and shape {self.shape}" if self.kind == "array" else f"a {self.kind}"

    def taken(self, value: Any) -> Any:
        """*value* as the kernel takes it; TypeError where it can't be this argument."""
        if self.kind != "array":
            if type(value) is _SCALARS[self.kind]:
                return value
        elif type(value) is np.ndarray and value.dtype == self.dtype and value.shape == self.shape:
            return value
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
        args = [
            ArrayArg(x.dtype, x.shape) if x.kind == "array" else ScalarArg(x.dtype, (_SCALARS[x.kind],))
            for x in self.operands
        ]
        return bind_graph(self.graph, self.canonical, self.program, False, args)

    @cached_property
    def _flat(self) -> bool:
        """Whether the arguments are the kernel's, which looks at them itself."""
        return self.structure == (("tuple", *[("data",)] * len(self.operands)), ("dict", ()))

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
            data: list[Any] = []
            operands = iter(self.operands)
            for part, given in zip(self.structure, (args, kwargs), strict=True):
                _take(part, given, operands, data, "the arguments")
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


def _places(tree: Any, name: str) -> Iterator[tuple[int, str]]:
    """(result, its name) for the results in a tree."""
    kind, *parts = tree
    keys: Any = range(len(parts))
    if kind == "r":
        yield parts[0], name
    elif kind == "dict":
        keys, *parts = parts
    elif kind == "sparse":
        yield from _places(parts[0], name)
    if kind in ("tuple", "list", "dict"):
        for key, part in zip(keys, parts, strict=True):
            yield from _places(part, f"{name}_{key}")


_RESERVED = frozenset((  # of C, and of Python where a name of the user's can't be: a key, "lambda"
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while lambda def "
    "bool and or not in is None True False class global import from pass raise try with yield del assert async await"
).split())  # fmt: skip


def identifier(name: str) -> str:
    """*name* as an identifier of C and of Python."""
    found = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
    return f"{found}_" if found in _RESERVED else f"x{found}" if found[0].isdigit() else found


def _take(part: Any, x: Any, operands: Iterator[FixedArgument], data: list[Any], where: str) -> None:
    """Append what is data in *x* to *data*; TypeError where *x* is not what *part* describes."""
    kind, *parts = part
    if kind == "data":
        data.append(next(operands).taken(x))
        return
    if kind == "value":
        if type(x) is type(parts[0]) and x == parts[0]:
            return
        raise TypeError(f"{x!r:.60} among the arguments was {parts[0]!r} when the function was lowered")
    if kind == "object":
        if x is not parts[0]:
            raise TypeError(f"{x!r:.60} among the arguments is not the object that the function was lowered with")
        return
    keys: Any = range(len(parts))
    if kind == "dict":
        keys, *parts = parts
    if type(x).__name__ != kind or len(x) != len(parts) or (kind == "dict" and x.keys() != set(keys)):
        wanted = f"a dict with the keys {keys}" if kind == "dict" else f"a {kind} of {len(parts)}"
        raise TypeError(f"{where} are {wanted} here, not {x!r:.60}")
    for key, inner in zip(keys, parts, strict=True):
        _take(inner, x[key], operands, data, "the items of an argument")
