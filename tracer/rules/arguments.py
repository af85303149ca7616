"""Arguments and results of functions with own rules: which leaves have derivatives, and what a rule may give for them.

The leaves of the arguments that are floats or arrays are the *operands*.  Settings (ints, strings, functions), and
the arguments in ``nondiff_argnums``, reach the function and its rules as they are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin as _Operators

from ..control.trees import function_name, shown, structure_text
from ..ir.aval import Aval, is_number
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom
from ..ir.own_attributes import is_empty
from ..ir.trees import tree_flatten, tree_map, tree_unflatten
from ..ops.elementwise import cast
from ..record.array import TracedArray, class_of, outranks, to_atom, wrap, wrap_array

P = ParamSpec("P")  # the parameters of a function
R = TypeVar("R")  # its result
FLOAT0 = np.dtype([("float0", "V")])  # of the tangents of integers, as in JAX: they hold nothing


class SymbolicZero(_Operators):
    """A tangent or cotangent that is known to be zero, as rules with ``symbolic_zeros=True`` get it, and may give it:
    of this shape and dtype.  Operators, functions and methods take it for an array of zeros, or a number where its
    argument is one."""

    def __init__(self, aval: Aval) -> None:
        self.shape, self.ndim = aval.shape, len(aval.shape)
        self.dtype = aval.dtype if aval.is_inexact else FLOAT0
        self._number = aval.weak and not aval.shape

    def _zeros(self) -> Any:
        zeros = np.zeros(self.shape, self.dtype)
        return zeros.item() if self._number else zeros

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self._zeros(), dtype=dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*_materialised(inputs), **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*_materialised(args), **_materialised(kwargs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self._zeros()), name)

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self._zeros())[index]

    def __len__(self) -> int:
        return len(np.asarray(self._zeros()))

    def __bool__(self) -> bool:
        return bool(self._zeros())

    def __float__(self) -> float:
        return float(self._zeros())

    def __complex__(self) -> complex:
        return complex(self._zeros())

    __hash__ = object.__hash__
    __iadd__, __isub__, __imul__ = _Operators.__add__, _Operators.__sub__, _Operators.__mul__  # type: ignore[assignment]
    __itruediv__, __ipow__ = _Operators.__truediv__, _Operators.__pow__  # type: ignore[assignment]
    __imatmul__ = _Operators.__matmul__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SymbolicZero({self.dtype}{[*self.shape]})"


def _materialised(tree: Any) -> Any:
    """*tree* with arrays of zeros in place of symbolic ones."""
    return tree_map(lambda leaf: leaf._zeros() if type(leaf) is SymbolicZero else leaf, tree)


def positional(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call by position, with the defaults of those that are not given."""
    try:
        signature = None if isinstance(function, np.ufunc) else inspect.signature(function)  # theirs has `out`
    except ValueError:  # a function in C that has none
        signature = None
    if signature is None:
        if kwargs:
            raise TypeError(f"{function_name(function)} has no signature: pass its arguments by position")
        return args
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"{function_name(function)} has a rule of its own, so its arguments have positions; "
            f"{', '.join(bound.kwargs)} can be given by name only"
        )
    return bound.args


def positions_of(function: Callable[..., Any], argnums: Any, argnames: Any) -> frozenset[int]:
    """The positions of the arguments *argnums* (counted from the end where negative) and *argnames*."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    parameters = list(inspect.signature(function).parameters) if names or any(n < 0 for n in numbers) else []
    unknown = [n for n in names if n not in parameters]
    if unknown:
        raise ValueError(f"{function_name(function)} has no argument {unknown[0]!r}")
    return frozenset([*[n + len(parameters) if n < 0 else n for n in numbers], *map(parameters.index, names)])


def strong(aval: Aval) -> Aval:
    """The aval of an array with this one's dtype and shape, also where this one is a weak number's."""
    return Aval(aval.dtype, aval.shape)


def is_data(leaf: Any) -> bool:
    """Whether *leaf* is an operand: a float, or an array of numbers."""
    if isinstance(leaf, (float, complex, TracedArray)):
        return True
    return isinstance(leaf, (np.ndarray, np.generic)) and (is_number(leaf.dtype) or leaf.dtype.kind == "c")


class RuleArguments:
    """The arguments of a call: ``nondiff`` are the positions of settings."""

    def __init__(self, label: str, args: Sequence[Any], nondiff: frozenset[int]) -> None:
        self.args = args
        self.moving = [k for k in range(len(args)) if k not in nondiff]
        self.nondiff = [args[k] for k in sorted(nondiff) if k < len(args)]
        self.leaves, self.structure = tree_flatten(tuple([args[k] for k in self.moving]))
        refuse_tensors(label, self.leaves)
        self.places = [k for k, leaf in enumerate(self.leaves) if is_data(leaf)]

    def key(self) -> tuple[Any, ...]:
        """The parts of the arguments besides the operands that rules may see, by value or identity."""
        static = [setting_key(x) for k, x in enumerate(self.leaves) if k not in self.places]
        return (self.structure, tuple(self.places), tuple(static), tuple(map(setting_key, self.nondiff)))

    @property
    def operands(self) -> list[Any]:
        return [self.leaves[k] for k in self.places]

    def trees(self, values: Sequence[Any], other: Callable[[Any], Any] = lambda leaf: leaf) -> tuple[Any, ...]:
        """The differentiated arguments with *values* in place of the operands, and *other* of the other leaves."""
        given = dict(zip(self.places, values, strict=True))
        leaves = [given[k] if k in given else other(leaf) for k, leaf in enumerate(self.leaves)]
        return tree_unflatten(self.structure, leaves)

    def over(self, values: Sequence[Any], other: Callable[[Any], Any] = lambda leaf: leaf) -> list[Any]:
        """All arguments with *values* in place of the operands, and *other* of the other leaves of those that are
        differentiated."""
        args = list(self.args)
        for k, tree in zip(self.moving, self.trees(values, other), strict=True):
            args[k] = tree
        return args

    def tangents(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The tangents of the differentiated arguments, of which *values* are those of the operands."""
        return self.trees(values, lambda leaf: np.zeros((), FLOAT0) if isinstance(leaf, (int, np.integer)) else None)


def setting_key(value: Any) -> Any:
    """A setting as part of a key: constants of Python's by value, else by identity."""
    if isinstance(value, (str, int, float, bool, complex, bytes, type(None))):
        return (type(value), repr(value))
    return id(value)


def function_key(function: Any, above: tuple[int, ...] = ()) -> Any:
    """The identity of *function*, or of the code and the constants of one that is made anew in each run; *above*: ids
    of the functions that close over it."""
    if isinstance(function, functools.partial):
        named = [(name, setting_key(x)) for name, x in function.keywords.items()]
        return (function_key(function.func, above), tuple(map(setting_key, function.args)), tuple(named))
    if not isinstance(function, FunctionType):
        return setting_key(function)
    if id(function) in above:
        return above.index(id(function))
    above = (*above, id(function))
    cells = [None if is_empty(cell) else function_key(cell.cell_contents, above) for cell in function.__closure__ or ()]
    defaults = map(setting_key, [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()])
    return (function.__code__, id(function.__globals__), tuple(cells), tuple(defaults))


def refuse_tensors(label: str, leaves: Sequence[Any], plain: bool = False) -> None:
    """Raise UnsupportedError where one of *leaves* is a tensor; in a *plain* call, where its gradient is wanted."""
    for leaf in leaves:
        if outranks(type(leaf)) and (not plain or getattr(leaf, "requires_grad", False)):
            raise UnsupportedError.here(
                f"{label} has a rule of its own for arrays, and was called with a {type(leaf).__name__}: "
                "write a tracegrad.autograd.Function for tensors"
            )


class Results:
    """The tree of a function's result; ``atoms`` are those of its leaves that are floating, at ``places``."""

    def __init__(self, label: str, result: Any) -> None:
        self.leaves, self.structure = tree_flatten(result)
        self.atoms: list[Atom] = []
        self.places: list[int] = []
        for k, leaf in enumerate(self.leaves):
            if outranks(type(leaf)):
                raise UnsupportedError.here(f"{label}, which has a rule of its own for arrays, returned a tensor")
            atom = to_atom(leaf) if is_data(leaf) else None
            if atom is not None and atom.aval.is_inexact:
                self.places.append(k)
                self.atoms.append(atom)

    @property
    def avals(self) -> list[Aval]:
        return [atom.aval for atom in self.atoms]

    def tree(self, atoms: Sequence[Atom], *, others: bool = True) -> Any:
        """The result with *atoms* in place of its floating leaves; not *others*: None in place of the rest."""
        leaves = list(self.leaves) if others else [None] * len(self.leaves)
        for k, atom in zip(self.places, atoms, strict=True):
            leaf = self.leaves[k]
            array = bool(atom.aval.shape) or (class_of(leaf) if type(leaf) is TracedArray else type(leaf)) is np.ndarray
            leaves[k] = wrap_array(atom) if array else wrap(atom)
        return tree_unflatten(self.structure, leaves)

    def cotangents(self, atoms: Sequence[Atom], only: int | None = None) -> Any:
        """The tree of cotangents of the result; those of integers hold nothing.  With *only* that of one floating leaf,
        where the others are zero."""
        if only is None:
            return self.tree(atoms, others=False)
        tree = self.tree(atoms)
        leaves: list[Any] = [SymbolicZero(to_atom(x).aval) if is_data(x) else None for x in self.leaves]
        leaves[self.places[only]] = tree_flatten(tree)[0][self.places[only]]
        return tree_unflatten(self.structure, leaves)


# ---- what a rule gives ---------------------------------------------------------------------------------------------


def leaves_like(value: Any, structure: Any, what: str) -> list[Any]:
    """The leaves of *value*, which *what* returned, for a tree of *structure*; None stands for a tree of Nones."""
    if value is None:
        return [None] * structure.num_leaves
    try:
        return list(structure.flatten_up_to(value))
    except ValueError:
        found = tree_flatten(value, none_is_leaf=True)[1]
        raise ShapeError.here(
            f"{what} has the structure {structure_text(found)}, but {structure_text(structure)} was expected"
        ) from None


def fitted(value: Any, aval: Aval, what: str) -> Atom | None:
    """*value*, which a rule gives as *what*, as an atom of *aval*; None is zero."""
    if value is None or type(value) is SymbolicZero or (isinstance(value, np.ndarray) and value.dtype == FLOAT0):
        return None
    if not is_data(value) and not isinstance(value, (int, np.integer)):
        raise ShapeError.here(f"{what} is a {type(value).__name__}, but {shown(aval)} was expected")
    atom = to_atom(value)
    found = atom.aval
    weak = found.weak and not found.shape and (aval.is_complex or not found.is_complex)
    if found.shape != aval.shape or not (found.dtype == aval.dtype or weak):
        raise ShapeError.here(f"{what} is {shown(found)}, but {shown(aval)} was expected{_advice(found, aval)}")
    return cast(atom, aval.dtype)


def _advice(found: Aval, aval: Aval) -> str:
    if found.shape != aval.shape:
        return ": sum over the axes that were broadcast" if found.size > aval.size else ""
    if aval.is_complex != found.is_complex:
        return ""
    return f": convert it with .astype(np.{aval.dtype})"
