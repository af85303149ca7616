"""Operations on outside data alone that have no recorded form: NumPy computes them.

Start reading at ``by_numpy``.  An array from outside the function is an input of the program, whose contents may change
between calls; no gradient is taken of it.  So what is computed from such inputs alone may be computed by NumPy.  Its
result is an input too, with a ``Recipe`` by which a replay computes it again when the contents of its sources have
changed.  Where the result is no array of numbers, or code needs the array itself (SciPy's, a conversion), the recording
is made again over the array as it is, whose contents are guarded then (``Retry``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optree

from ..ir.aval import REAL
from ..ir.equality import program_key
from ..ir.errors import UnsupportedError, unrecordable
from ..ir.evaluate import Producers, as_stored, demand
from ..ir.graph import Atom, Var
from ..ir.trees import tree_flatten, tree_unflatten
from .array import METHODS, TracedArray, class_of
from .made_arrays import MadeArray
from .recorder import Origin, Recorder, current_recorder

_PLAIN = (type(None), bool, int, float, complex, str, slice, type(Ellipsis), type(np._NoValue), np.generic, np.dtype)
_MAX_SOURCES = 16 << 20  # bytes that are compared in each call
_NUMBERS = (np.generic, int, float, bool)  # classes that stand for dtypes


@dataclass(slots=True, frozen=True)
class Method:
    """A method of arrays and scalars as a function."""

    name: str

    def __call__(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(array, self.name)(*args, **kwargs)


@dataclass(slots=True, frozen=True)
class _Operand:
    """A traced array among the leaves of a call, and the class of its value."""

    atom: Atom
    kind: type

    def value(self, array: Any) -> Any:
        found = as_stored(np.asarray(array), self.atom)
        if self.kind is np.ndarray:
            found = found.view()
            found.flags.writeable = False
            return found
        return found.item() if self.kind in (int, float, bool) else found[()]


@dataclass(slots=True, frozen=True)
class _Plain:
    """Any other leaf of a call; ``key`` is equal for another one of the same type and bits."""

    value: Any = field(compare=False)
    key: Hashable


@dataclass(slots=True, eq=False)
class Recipe:
    """``function`` of ``leaves`` in the structure ``spec``: ``results`` are inputs of the program, as 0-d arrays where
    they are scalars.  ``origin`` says what the operands are made of."""

    function: Callable[..., Any]
    leaves: tuple[_Operand | _Plain, ...]
    spec: optree.PyTreeSpec
    origin: Origin
    structure: optree.PyTreeSpec
    values: list[Any]  # of the results in this run
    results: list[Var]

    def compute(self, env: dict[Var, np.ndarray]) -> list[np.ndarray] | None:
        """The results over the values *env* of the sources; None where they are of other types, or there are none."""
        try:
            found, structure = tree_flatten(self.call(env), none_is_leaf=True)
        except Exception:  # Python has to see it
            return None
        arrays = [np.array(x, order="C") for x in found]
        now = [(type(x), a.dtype, a.shape) for x, a in zip(found, arrays, strict=True)]
        known = [(type(x), v.aval.dtype, v.aval.shape) for x, v in zip(self.values, self.results, strict=True)]
        return arrays if now == known and structure == self.structure else None

    def call(self, env: dict[Var, np.ndarray]) -> Any:
        env = {**self.origin.constants, **env}
        atoms = [leaf.atom for leaf in self.leaves if isinstance(leaf, _Operand)]
        operands = iter(demand(atoms, self.origin.nodes, env, Producers()))
        given = [leaf.value(next(operands)) if isinstance(leaf, _Operand) else leaf.value for leaf in self.leaves]
        args, kwargs = tree_unflatten(self.spec, given)
        return self.function(*args, **kwargs)

    def key(self, numbers: dict[Var, int]) -> Hashable:
        """A key that is equal for the same recipe in another recording; *numbers*: those of the sources."""
        origin = self.origin
        given = [*[numbers[var] for var in origin.sources], *[array.tobytes() for array in origin.constants.values()]]
        atoms = [leaf.atom for leaf in self.leaves if isinstance(leaf, _Operand)]
        program = program_key([*origin.sources, *origin.constants], origin.nodes, atoms)
        leaves = [leaf.kind if isinstance(leaf, _Operand) else leaf.key for leaf in self.leaves]
        avals = [(var.aval.dtype, var.aval.shape) for var in self.results]
        return self.function, self.spec, tuple(leaves), program, tuple(given), tuple(avals), self.structure


def by_numpy(error: UnsupportedError, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an operation that was refused with *error*, by NumPy's *function*; raises *error* where an operand
    depends on an argument (in a run that is made in each call: on one that may have a gradient)."""
    recorder = current_recorder()
    if recorder is None:
        raise error
    given: Any = (tuple(args), dict(kwargs))
    leaves, spec = tree_flatten(given, none_is_leaf=True)
    atoms = [leaf.atom for leaf in leaves if type(leaf) is TracedArray]
    origin = recorder.origin(atoms)
    if origin is None or not origin.sources:
        if not recorder.live or any(map(recorder.has_gradient, atoms)):
            raise error
        unrecordable.discard(error)
        plain = [np.array(recorder.value(x.atom))[()] if type(x) is TracedArray else x for x in leaves]
        args, kwargs = tree_unflatten(spec, plain)
        return function(*args, **kwargs)
    kept = tuple(map(_leaf, leaves))
    known = recorder.answered.derived.get((function, spec, kept))
    if known is None:
        if not recorder.derives or recorder.parent is not None or "out" in kwargs or None in kept:
            recorder.need_contents(origin, error)
        known = _derive(recorder, Recipe(function, kept, spec, origin, spec, [], []), error)  # type: ignore[arg-type]
        recorder.answered.derived[function, spec, kept] = known
    unrecordable.discard(error)
    results = [_stand_in(recorder, var, value) for var, value in zip(known.results, known.values, strict=True)]
    return tree_unflatten(known.structure, results)


def call_method(name: str, array: TracedArray, *args: Any, **kwargs: Any) -> Any:
    try:
        return METHODS[name](array, *args, **kwargs)
    except UnsupportedError as error:
        return by_numpy(error, Method(name), (array, *args), kwargs)


def _leaf(leaf: Any) -> _Operand | _Plain | None:
    """A leaf of a call as it is kept; None for what may change, or call something."""
    if type(leaf) is TracedArray:
        return _Operand(leaf.atom, class_of(leaf))
    if type(leaf) in (np.ndarray, MadeArray) and not leaf.dtype.hasobject:
        return _Plain(leaf.copy(), (leaf.dtype, leaf.shape, leaf.tobytes()))
    if isinstance(leaf, _PLAIN) or (isinstance(leaf, type) and issubclass(leaf, _NUMBERS)):
        return _Plain(leaf, (type(leaf), repr(leaf)))
    return None


def _derive(recorder: Recorder, recipe: Recipe, error: UnsupportedError) -> Recipe:
    """*recipe* with its results in this run."""
    env = {var: recorder.value(var) for var in recipe.origin.sources}
    if sum(array.nbytes for array in env.values()) > _MAX_SOURCES:
        recorder.need_contents(recipe.origin, error)
    try:
        result = recipe.call(env)
    except Exception:  # which the function may catch: nothing tells whether it is raised again
        recorder.need_contents(recipe.origin, error)
    recipe.values, recipe.structure = tree_flatten(result, none_is_leaf=True)
    if not recipe.values or not all(_is_number(x, env) for x in recipe.values):
        recorder.need_contents(recipe.origin, error)
    name = getattr(recipe.function, "__name__", "a function")
    for value in recipe.values:
        var = recorder.add_input(np.array(value, order="C"), f"a result of {name}", weak=type(value) is float)
        recorder.outside[var] = recipe.origin.captured
        recipe.results.append(var)
    return recipe


def _is_number(value: Any, env: dict[Var, np.ndarray]) -> bool:
    """Whether a result is an array of its own, or a scalar, that can be traced."""
    if type(value) is float:
        return True
    if not (isinstance(value, np.generic) or type(value) is np.ndarray):
        return False
    if value.dtype not in REAL:
        return False
    return not any(np.may_share_memory(value, source) for source in env.values())


def _stand_in(recorder: Recorder, var: Var, value: Any) -> TracedArray:
    found = TracedArray(var, recorder)
    if type(value) is np.ndarray:
        found._storage.array0d = True
        found._storage.c_order = value.flags.c_contiguous
    return found
