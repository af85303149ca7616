"""Trees of tangents and cotangents: those given, checked against the values that they belong to, and those found.

Derivatives are of real *lanes*: a float is one, a complex value has two.  A cotangent of a complex value w = u + iv is
paired with it as Re(ct * w), without a conjugate, as in JAX: so the lanes have the cotangents re(ct) and -im(ct).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...codegen.derive.loop_adjoint import materialise
from ...tracer.control.trees import structure_text
from ...tracer.ir.aval import FLOAT, Aval
from ...tracer.ir.errors import DifferentiationError
from ...tracer.ir.graph import Atom, Lit, Pair, lanes, structural
from ...tracer.ir.trees import tree_unflatten
from ...tracer.numpy_api.hooks import holds_traced
from ...tracer.ops.complex import conjugate, put_together, real_atoms
from ...tracer.ops.elementwise import broadcast_to, cast, whole_lanes
from ...tracer.ops.shape import zeros
from ...tracer.record.array import TracedArray, to_atom, wrap, wrap_array
from ..record.differentiable import name_of
from ..record.outputs import data_of, flatten_result

_NUMBER, _NOTHING = "number", "nothing"  # slots of a form; that of an integer is its shape


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a tree of values: a slot for each leaf, and of the floating-point numbers among them the avals, and
    whether they are arrays though they have no axes."""

    structure: Any
    slots: tuple[Any, ...]
    avals: tuple[Aval, ...]
    arrays: tuple[bool, ...]

    def tree(self, parts: Iterable[Atom]) -> Any:
        """The tree with *parts* in place of the numbers, zeros for integers, and None for what is no number."""
        given, arrays = iter(parts), iter(self.arrays)
        return tree_unflatten(self.structure, [self._leaf(slot, given, arrays) for slot in self.slots])

    def _leaf(self, slot: Any, parts: Iterator[Atom], arrays: Iterator[bool]) -> Any:
        if slot is _NOTHING:
            return None
        if slot is _NUMBER:
            return (wrap_array if next(arrays) else wrap)(next(parts))
        return wrap_array(zeros(slot, FLOAT)) if slot else wrap(Lit(0.0, FLOAT))


@dataclass(slots=True, eq=False)
class Values:
    """A tree of values: its *form*, and the *atoms* of the floating-point numbers in it."""

    leaves: list[Any]
    form: Form
    atoms: list[Atom]

    @property
    def lanes(self) -> list[Atom]:
        """The real values: the lanes of complex ones, one after the other."""
        return real_atoms(self.atoms)


def values_of(tree: Any) -> Values:
    """The values in *tree*, the result of a function."""
    leaves, structure = flatten_result(tree)
    slots: list[Any] = []
    atoms, arrays = [], []
    for leaf in leaves:
        atom = to_atom(leaf) if is_number(leaf) else None
        if atom is None or atom.aval.dtype.kind == "b":
            slots.append(_NOTHING)
        elif atom.aval.is_float or atom.aval.is_complex:
            slots.append(_NUMBER)
            atoms.append(atom)
            arrays.append(isinstance(leaf, np.ndarray) or (type(leaf) is TracedArray and leaf._storage.array0d))
        else:
            slots.append(atom.aval.shape)
    return Values(leaves, Form(structure, tuple(slots), tuple([x.aval for x in atoms]), tuple(arrays)), atoms)


def is_number(leaf: Any) -> bool:
    """Whether a leaf of a result is a number or an array of numbers, complex ones too."""
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "c":
        return True
    return isinstance(leaf, (int, float, complex, np.generic)) or data_of(leaf) is not None


def numbers_of(fn: Callable[..., Any], tree: Any, what: str) -> Values:
    """As ``values_of``, for a result that has to be made of floating-point numbers alone: *what* needs them."""
    found = values_of(tree)
    others = [x for x, slot in zip(found.leaves, found.form.slots, strict=True) if slot is not _NUMBER]
    if found.atoms and not others:
        return found
    raise DifferentiationError.here(
        f"{what} needs floating-point results, but {name_of(fn)} returned {described(others[0]) if others else 0}: "
        "return floats, or a tuple (result, aux) with has_aux=True"
    )


def tangible(fn: Callable[..., Any], tree: Any, what: str) -> Values:
    """As ``values_of``, for a result whose tangents *what* gives: none of an object that holds values."""
    found = values_of(tree)
    for leaf, slot in zip(found.leaves, found.form.slots, strict=True):
        if slot is _NOTHING and holds_traced(leaf):
            raise DifferentiationError.here(
                f"{what} gives a tangent in the structure of the value, but {name_of(fn)} returned {described(leaf)}, "
                "which holds values of its own: return them in tuples, lists and dicts, or (result, aux) with "
                "has_aux=True"
            )
    return found


def described(x: Any) -> str:
    """A value in an error."""
    if x is None:
        return "None"
    if isinstance(x, (TracedArray, np.ndarray)):
        return f"an array of {x.dtype} and shape {tuple(x.shape)}" if x.shape else f"a number of {x.dtype}"
    return f"{type(x).__name__} {x!r}" if isinstance(x, (bool, int, float, str)) else f"an object of {type(x).__name__}"


def fitting(
    given: Any, like: Sequence[Atom], structure: Any, names: Sequence[str], what: str, owner: str
) -> list[Atom]:
    """The numbers of the tree *given*, which belongs to the values *like*: of the same *structure*, shapes and dtypes
    (Python numbers and integers fit any dtype).  *what*: "tangent" or "cotangent", of the *owner*, whose leaves are
    called *names*.

    :raises DifferentiationError: where it does not fit."""
    leaves, found = flatten_result(given)
    if found != structure:
        raise DifferentiationError.here(
            f"the {what}s have to be of the structure of the {owner}, {structure_text(structure)}, but are "
            f"{structure_text(found)}"
        )
    atoms: list[Atom] = []
    for leaf, value, name in zip(leaves, like, names, strict=True):
        atoms.append(_fitting(leaf, value.aval, name, what))
    return atoms


def _fitting(leaf: Any, aval: Aval, name: str, what: str) -> Atom:
    atom = to_atom(leaf) if is_number(leaf) else None
    plain = isinstance(leaf, (int, float, complex)) and not isinstance(leaf, np.generic)
    bare = f"{aval.dtype} of shape {aval.shape}" if aval.shape else f"a number of {aval.dtype}"
    if atom is None or atom.aval.shape != aval.shape:
        raise DifferentiationError.here(
            f"the {what} of {name}, which is {bare}, has to be so too, but is {described(leaf)}"
        )
    weak = plain or atom.aval.weak or aval.weak
    same = (
        atom.aval.dtype == aval.dtype
        or atom.aval.dtype.kind in "biu"
        or (weak and (aval.is_complex or not atom.aval.is_complex))
    )
    if not same:
        raise DifferentiationError.here(
            f"the {what} of {name}, which is {bare}, has to be so too, but is {described(leaf)}: write "
            f"v.astype(np.{aval.dtype})"
        )
    return cast(atom, aval.dtype)


def lanes_like(atoms: Iterable[Atom], sign: int = 1) -> list[Atom]:
    """The real lanes of *atoms*; *sign* -1: as cotangents, of complex conjugates."""
    found: list[Atom] = []
    for x in atoms:
        if x.aval.is_complex:
            re, im = whole_lanes(x) if isinstance(x, Pair) else lanes(x)
            found += [re, im if sign > 0 else -im]
        else:
            found.append(x)
    return found


def ones_like(values: Iterable[Atom]) -> list[Atom]:
    """The real lanes of ones in the shapes and dtypes of *values*."""
    ones: list[Atom] = []
    for x in values:
        one = structural(1, lanes_like([x])[0].aval.dtype)
        ones.append(broadcast_to(one, x.aval.shape) if x.aval.shape else one)
        if x.aval.is_complex:
            ones.append(structural(0, one.aval.dtype))
    return ones


def full(found: Sequence[Atom | None], like: Sequence[Atom]) -> list[Atom]:
    """*found* in the shapes of the real values *like*, zeros where there is nothing."""
    return [
        materialise(None if x is None else broadcast_to(x, v.aval.shape) if x.aval.shape != v.aval.shape else x, v)
        for x, v in zip(found, like, strict=True)
    ]


def joined(found: Sequence[Atom | None], values: Sequence[Atom], sign: int = 1) -> list[Atom]:
    """Derivatives of *values* from those of their real lanes, zeros where there is None."""
    pairs = put_together(full(found, real_atoms(values)), values)
    return pairs if sign > 0 else [*map(conjugate, pairs)]
