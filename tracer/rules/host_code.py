"""Code that runs on the host as it is, in each call: Fortran, solvers, anything that cannot be traced.

``pure_callback`` declares what the code returns.  ``primitive`` (primitives.py) does not: the recording runs the code
once, which tells; what it returns later is held to that.

The code is none of a recording's business.  It reads what it likes when it runs, so it is called over the user's own
arrays, where a recording has replaced those that a function closes over (``as_outside``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np

from ..control.trees import function_name, structure_text
from ..convert.transparent import original
from ..ir.aval import Aval, check_dtype
from ..ir.errors import ShapeError, UnsupportedError, unrecordable
from ..ir.graph import Atom
from ..ir.own_attributes import is_empty
from ..ir.site import user_site
from ..ir.trees import tree_flatten, tree_unflatten
from ..ops.host_call import HostFunction, host_call
from ..record.array import STAND_INS, TracedArray, class_of, to_atom, wrap, wrap_array
from ..record.recorder import Recorder, current_recorder, host_code
from .arguments import function_key, is_data, setting_key

VMAP_METHODS = (None, "sequential", "expand_dims", "broadcast_all")


class HostCode:
    """A function of the user's that is not looked into: to a recording it is a constant."""

    def __init__(self, function: Callable[..., Any]) -> None:
        function = original(function)  # which runs when the recording is over, too
        if type(function) is functools.partial and original(function.func) is not function.func:
            raise UnsupportedError.here("a partial of a function that is converted, as host code")
        self.function, self.name = function, getattr(function, "__name__", type(function).__name__)
        self.known: dict[Any, tuple[Any, list[Aval]]] = {}  # (structure, avals) of results by call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of a plain call."""
        return self.function(*args, **kwargs)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> HostRun:
        """A call in a recording."""
        return HostRun(self, args, kwargs)


class HostRun:
    """A call of host code with arguments of which some are traced."""

    def __init__(self, code: HostCode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.code = code
        leaves, self.structure = tree_flatten((args, kwargs))
        self.leaves: list[Any] = [*map(original, leaves)]
        self.places = [k for k, leaf in enumerate(self.leaves) if is_data(leaf)]
        self.data = [self.leaves[k] for k in self.places]
        self.classes = [class_of(x) if type(x) is TracedArray else type(x) for x in self.data]
        self.results: Any = None  # the structure of the result, once it is known
        self.avals: list[Aval] = []

    @property
    def traced(self) -> bool:
        return any(type(x) is TracedArray for x in self.data)

    def plain(self, *arrays: np.ndarray) -> tuple[list[Any], Any]:
        """(leaves, structure) of the result for plain arrays."""
        leaves = list(self.leaves)
        for k, cls, x in zip(self.places, self.classes, arrays, strict=True):
            leaves[k] = _as(cls, x)
        args, kwargs = tree_unflatten(self.structure, leaves)
        return tree_flatten(self.code.function(*args, **kwargs))

    def declare(self, structure: Any, avals: Sequence[Aval]) -> None:
        """Say what the call returns."""
        self.results, self.avals = structure, list(avals)

    def run_once(self, recorder: Recorder, operands: Sequence[Atom]) -> None:
        """Find out what the call returns: by an earlier one, or by the values in this run."""
        key = (self._key(), tuple([(x.aval.dtype, x.aval.shape) for x in operands]))
        values = _values(recorder, operands)
        if values is None and key not in self.code.known:
            raise UnsupportedError.here(
                f"{self.code.name}, a primitive, in the body of a loop of tracegrad's, where nobody knows yet what it "
                "returns: write a Python loop, or declare that by tracegrad.pure_callback"
            )
        if values is not None:
            with host_code():
                leaves, structure = self.plain(*map(np.asarray, values))
            for leaf in leaves:
                if not is_data(leaf) and not isinstance(leaf, (bool, int, np.bool_, np.integer)):
                    raise UnsupportedError.here(
                        f"{self.code.name}, a primitive, returned {type(leaf).__name__}: return arrays and numbers"
                    )
            self.code.known[key] = structure, [Aval(x.dtype, x.shape) for x in map(np.asarray, leaves)]
        self.declare(*self.code.known[key])

    def recorded(self, operands: Sequence[Atom], vmap_method: str | None = "sequential") -> Any:
        """The result as a node of the recording in progress."""
        code = self.code
        function = HostFunction(self._host, self.avals, code.name, key=(self._key(), vmap_method), site=user_site())
        function.vmap_method = vmap_method
        return tree_unflatten(self.results, [_shown(out) for out in host_call(function, operands)])

    def _host(self, *arrays: np.ndarray) -> Any:
        found, structure = self.plain(*arrays)
        if structure != self.results:
            raise ShapeError.here(
                f"{self.code.name} returned the structure {structure_text(structure)}, but "
                f"{structure_text(self.results)} was expected"
            )
        found = [_plain(x, aval.dtype) for x, aval in zip(found, self.avals, strict=True)]
        return found[0] if len(found) == 1 else found

    def _key(self) -> Any:
        """Equal for calls that do the same."""
        static = [setting_key(leaf) for k, leaf in enumerate(self.leaves) if k not in self.places]
        function = function_key(self.code.function)
        return (function, self.structure, tuple(static), tuple(self.places), tuple(self.classes))


def _values(recorder: Recorder, operands: Sequence[Atom]) -> list[Any] | None:
    """The values of *operands* in this run, those of one row of a batch; None where they differ from step to step."""
    with ExitStack() as asked:
        around: Recorder | None = recorder
        while around is not None:
            asked.enter_context(around.stand_ins.asking())
            around = around.parent
        try:
            return [recorder.value(x) for x in operands]
        except UnsupportedError as error:
            unrecordable.discard(error)
            return None


def as_outside(value: Any, originals: Mapping[int, Any], made: dict[int, Any] | None = None) -> Any:
    """*value*, a function that host code is to call, over what those objects of the run stand for whose ids are in
    *originals*: the original, or one like it that the run has made.

    Raises UnsupportedError where a function that the run has made closes over a traced value: also one that stands for
    an array from outside may stand for another one in the next call."""
    made = {} if made is None else made
    if type(value) is TracedArray or type(value) in STAND_INS:
        raise UnsupportedError.here(
            "code that runs on the host closes over a traced value, which has no contents yet: pass it as an argument"
        )
    if id(value) in originals:
        return originals[id(value)]
    if id(value) in made:
        return made[id(value)]

    def outside(part: Any) -> Any:
        return as_outside(part, originals, made)

    if isinstance(value, functools.partial):
        return functools.partial(outside(value.func), *map(outside, value.args), **{
            name: outside(x) for name, x in value.keywords.items()
        })  # fmt: skip
    if isinstance(value, MethodType):
        return MethodType(outside(value.__func__), outside(value.__self__))
    if type(value) is tuple:
        return tuple(map(outside, value))
    if not isinstance(value, FunctionType):
        return value
    cells = value.__closure__ or ()
    copies = tuple([CellType() for _ in cells])
    found = FunctionType(value.__code__, value.__globals__, value.__name__, None, copies or None)
    made[id(value)] = found
    for cell, copy in zip(cells, copies, strict=True):
        if not is_empty(cell):
            copy.cell_contents = outside(cell.cell_contents)
    found.__defaults__ = outside(value.__defaults__)
    found.__kwdefaults__ = value.__kwdefaults__ and {k: outside(x) for k, x in value.__kwdefaults__.items()}
    found.__qualname__, found.__module__, found.__doc__ = value.__qualname__, value.__module__, value.__doc__
    found.__dict__.update(value.__dict__)
    return found


def _as(cls: type, array: np.ndarray) -> Any:
    """A plain array as the class of value that the caller gave; a batch of them is an array."""
    if array.ndim and not issubclass(cls, np.ndarray):
        return np.array(array)
    if cls in (float, int, bool, complex):
        return array.item()
    return array[()] if issubclass(cls, np.generic) else np.array(array)


def _plain(value: Any, dtype: np.dtype) -> np.ndarray:
    """A value of the host's; Python numbers have the dtype that is expected."""
    return np.asarray(value, dtype if isinstance(value, (bool, int, float, complex)) else None)


def _shown(atom: Atom) -> Any:
    return wrap_array(atom) if atom.aval.shape else wrap(atom)


# ---- pure_callback -------------------------------------------------------------------------------------------------


def pure_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, vmap_method: str | None = None, **kwargs: Any
) -> Any:
    """``callback(*args, **kwargs)``, which runs on the host in each call, as ``jax.pure_callback``.

    The callback gets NumPy arrays and may do anything; it should be a function of its arguments, since equal calls may
    be made once, and calls whose results nobody reads not at all.

    :param result_shape_dtypes: shapes and dtypes of the result, as a tree of ``tracegrad.ShapeDtypeStruct`` or of
    arrays.
    :param vmap_method: how ``vmap`` calls it: ``"sequential"`` once for each example, ``"expand_dims"`` once with
    arrays that have a batch axis, of size 1 where an argument is not batched, ``"broadcast_all"`` with a full one; by
    default ``vmap`` of it is an error.
    :raises ShapeError: it returns something else than declared.
    :raises DifferentiationError: a derivative; give the function around it a rule by ``custom_vjp`` or ``custom_jvp``.
    """
    if vmap_method not in VMAP_METHODS:
        raise ValueError(f"vmap_method is one of {VMAP_METHODS}, not {vmap_method!r}")
    declared, structure = tree_flatten(result_shape_dtypes)
    avals = [_declared(x) for x in declared]
    recorder = current_recorder()
    if recorder is not None:
        callback = as_outside(callback, recorder.outermost().caller.originals)
    run = HostCode(callback).call(args, kwargs)
    run.declare(structure, avals)
    if recorder is not None and run.traced:
        return run.recorded([to_atom(x) for x in run.data], vmap_method)
    leaves, found = run.plain(*map(np.asarray, run.data))
    if found != structure:
        raise ShapeError.here(
            f"{function_name(callback)} returned the structure {structure_text(found)}, but {structure_text(structure)}"
            " was declared"
        )
    return tree_unflatten(structure, [_checked(callback, x, a) for x, a in zip(leaves, avals, strict=True)])


def _declared(leaf: Any) -> Aval:
    if isinstance(leaf, (bool, int, float, complex)):
        leaf = np.asarray(leaf)
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise TypeError(
            f"result_shape_dtypes holds a {type(leaf).__name__}: give tracegrad.ShapeDtypeStruct(shape, dtype)"
        )
    dtype = np.dtype(leaf.dtype)
    return Aval(check_dtype(dtype, "result_shape_dtypes"), tuple(leaf.shape))


def _checked(callback: Any, value: Any, aval: Aval) -> Any:
    found = _plain(value, aval.dtype)
    if (found.dtype, found.shape) != (aval.dtype, aval.shape):
        raise ShapeError.here(
            f"{function_name(callback)} returned {found.dtype}{[*found.shape]}, but {aval.dtype}{[*aval.shape]} was "
            "declared"
        )
    return found[()]
