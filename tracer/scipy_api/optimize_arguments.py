"""Arguments of solvers of scipy.optimize within a recorded function: the rows' class, one call, and the solver as a
function of arrays (``optimize_calls.py`` says how a call goes).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from ..control.sub_program import SubProgram, record_function
from ..ir.aval import FLOAT, Aval
from ..ir.data_classes import dataclass
from ..ir.errors import UnsupportedError
from ..ir.graph import Atom
from ..numpy_api.assemble import nested_atom
from ..ops.elementwise import broadcast_to, cast
from ..record.array import is_traced, to_atom
from ..record.recorder import Recorder

Path = tuple[Any, ...]  # keys that lead to a part of a solver's result


@dataclass(frozen=True, slots=True)
class Operand:
    """Stands for operand number *k* among the arguments of a solver."""

    k: int


@dataclass(slots=True)
class SolverCall:
    """The *arguments* of one call, by name: plain values, ``Operand`` and ``SubProgram``; and the *operands*.

    ``reads``: the operands that each program reads, ``equation`` among them, where it is none that SciPy calls."""

    recorder: Recorder
    name: str
    arguments: dict[str, Any]
    variable: Aval = field(default_factory=lambda: Aval(FLOAT, (), True))
    operands: list[Atom] = field(default_factory=list)
    reads: dict[str, list[int]] = field(default_factory=dict)
    equation: SubProgram | None = None
    bounds: tuple[int, int] | None = None

    def record(self, key: str, function: Callable[..., Any], variables: int = 1) -> SubProgram:
        """*function* of the variable as a program."""
        program, given = record_function(self.recorder, self.name, function, [self.variable] * variables)
        self.reads[key] = [self.operand(x) for x in given]
        return program

    def operand(self, atom: Atom) -> int:
        self.operands.append(atom)
        return len(self.operands) - 1

    def set_bounds(self, lower: Any, upper: Any) -> None:
        """Let the variable be bounded, by arrays of its shape or what is broadcast to it."""
        atoms = [cast(nested_atom(b) if is_traced(b) else to_atom(np.asarray(b)), FLOAT) for b in (lower, upper)]
        first, last = [self.operand(broadcast_to(x, self.variable.shape)) for x in atoms]
        self.bounds = first, last

    def refuse(self, what: str, instead: str) -> NoReturn:
        raise UnsupportedError.here(f"{what} of {self.name} is not supported in a compiled function: {instead}")


@dataclass(frozen=True, slots=True, eq=False)
class Solver:
    """A row of the table.  *functions*: names of the parameters with the user's functions, first that which is solved;
    *start*: of that with the start (none: the variable is a Python float); *flat*: the start becomes a vector.

    *solution*, *success*: where they stand in the result of a call with all output (*full*: the parameter that asks for
    it), or a function of it; *values*: results that are the function's "value" or "total" (what is minimised) at the
    solution.  *adapted* makes of a function of the variable one as SciPy calls it.
    """

    kind: str
    functions: tuple[str, ...]
    start: str = ""
    flat: bool | Callable[[dict[str, Any]], bool] = True
    solution: Path = ("x",)
    success: Path | Callable[[Any], Any] = ("success",)
    values: tuple[tuple[Path, str], ...] = ()
    full: str = ""
    shown: Callable[[Any], Any] = lambda found: found[0]  # where not all output is asked for
    warns: Path = ()  # the text of a warning where not all output is asked for
    apart: bool = False  # the equation is elementwise
    prepare: Callable[[SolverCall], None] | None = None
    adapted: Callable[[Callable[..., Any], int], Callable[..., Any]] = lambda function, size: function


def parts_of(value: Any) -> Any:
    """The parts of an argument, by key: of a container, or an object of SciPy's (``Bounds``)."""
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if isinstance(value, dict):
        return value
    return vars(value) if type(value).__module__.startswith("scipy.") and hasattr(value, "__dict__") else {}


def holds(value: Any, of: Callable[[Any], bool]) -> bool:
    return of(value) or any(holds(part, of) for part in parts_of(value).values())


def replaced(value: Any, of: Callable[[Any], bool], new: Callable[[Any], Any]) -> Any:
    """*value* with others in place of the parts *of* which that is true."""
    if of(value):
        return new(value)
    if not holds(value, of):
        return value
    parts = {k: replaced(part, of, new) for k, part in parts_of(value).items()}
    if isinstance(value, (list, tuple)):
        return type(value)(parts.values())
    if isinstance(value, dict):
        return parts
    made = copy.copy(value)
    vars(made).update(parts)
    return made


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """An object that is equal to itself alone."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return type(other) is _Same and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _key_of(value: Any) -> Any:
    """*value* as something hashable: equal ones are equal arguments."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, (float, complex, np.generic)):
        return (type(value), repr(value))
    if isinstance(value, (int, str, type(None), SubProgram, Operand)):
        return (type(value), value)
    parts = parts_of(value)
    known = isinstance(value, (list, tuple, dict)) or parts
    return (type(value), *[(k, _key_of(part)) for k, part in parts.items()]) if known else _Same(value)


def at_path(found: Any, path: Path) -> Any:
    for key in path:
        found = found[key]
    return found


class Solve:
    """A solver with its arguments: a function of the operands."""

    def __init__(self, solver: Solver, original: FunctionType, call: SolverCall) -> None:
        self.solver, self._original = solver, original
        self.key = (call.name, _key_of(call.arguments), _key_of(call.reads))
        self._fixed: dict[str, Any] = {}
        self._filled: list[tuple[str, Callable[[Sequence[np.ndarray]], Any]]] = []  # arguments made of operands
        for key, value in call.arguments.items():
            if isinstance(value, SubProgram):
                self._filled.append((key, partial(_function, solver, value, call.reads[key])))
            elif isinstance(value, np.ndarray):
                self._filled.append((key, partial(_copy, value)))
            elif holds(value, _is_operand):
                self._filled.append((key, partial(_argument, value)))
            else:
                self._fixed[key] = value
        self._fixed.update(self._fixed.pop("kwargs", {}))

    def __call__(self, *arrays: np.ndarray) -> Any:
        return self._original(**self._fixed, **{key: made(arrays) for key, made in self._filled})

    def succeeded(self, found: Any) -> bool:
        success = self.solver.success
        held = success(found) if callable(success) else at_path(found, success)
        return bool(np.all(held)) if isinstance(held, np.ndarray) else bool(held)


def _is_operand(value: Any) -> bool:
    return isinstance(value, Operand)


def _function(solver: Solver, program: SubProgram, reads: Sequence[int], arrays: Sequence[np.ndarray]) -> Any:
    return solver.adapted(program.over([arrays[k] for k in reads]), program.size)


def _copy(value: np.ndarray, arrays: Sequence[np.ndarray]) -> Any:
    return value.copy()


def _argument(value: Any, arrays: Sequence[np.ndarray]) -> Any:
    return replaced(value, _is_operand, lambda v: np.array(arrays[v.k])[()])
