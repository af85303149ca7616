"""Calls of solvers of scipy.optimize within a recorded function (the solvers themselves: ``optimize.py``).

What the user's functions compute is recorded once (``control/sub_program.py``); the solver runs in each call, on arrays
(``ops/host_call.py``), so solutions, messages and exceptions are SciPy's.  The rule of the derivative is the implicit
function theorem (``implicit.py``).

A call in which nothing is traced is SciPy's own: it goes there first, and turns round where a function of the user's
gives a traced value.  In a recording that has values the solver runs once, which tells what its result holds: every
number and array of it is a result of the node.  In the body of a loop only the solution, its value and the success are.
"""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from types import FunctionType
from typing import Any, NoReturn
from zlib import crc32

import numpy as np

from ..control.sub_program import SubProgram, record_function
from ..ir.aval import FLOAT, FLOAT32, INT, Aval
from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, Graph
from ..ir.site import user_site
from ..numpy_api.assemble import nested_atom
from ..ops.elementwise import F, broadcast_to, cast, like
from ..ops.host_call import HostFunction, host_call
from ..ops.shape import reshape
from ..record.array import is_traced, to_atom, wrap, wrap_array
from ..record.recorder import Recorder, nothing_recorded, require_recorder
from .implicit import LEAST_SQUARES, MINIMUM, ROOT, Implicit, extended, total_of

Path = tuple[Any, ...]  # keys that lead to a part of a solver's result
_BOOL = Aval(np.dtype(bool), ())


class TracedValueError(BaseException):
    """A function that was called with plain numbers has given a traced value."""


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


# ---- arguments ----------------------------------------------------------------------------------------------------


def _watched(function: Any) -> Any:
    """*function*, which ends the call where it gives a traced value."""
    if not callable(function):
        return function

    @wraps(function, updated=())
    def watched(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if is_traced(found):
            raise TracedValueError
        return found

    return watched


def _parts(value: Any) -> Any:
    """The parts of an argument, by key: of a container, or an object of SciPy's (``Bounds``)."""
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if isinstance(value, dict):
        return value
    return vars(value) if type(value).__module__.startswith("scipy.") and hasattr(value, "__dict__") else {}


def _holds(value: Any, of: Callable[[Any], bool]) -> bool:
    return of(value) or any(_holds(part, of) for part in _parts(value).values())


def _replaced(value: Any, of: Callable[[Any], bool], new: Callable[[Any], Any]) -> Any:
    """*value* with others in place of the parts *of* which that is true."""
    if of(value):
        return new(value)
    if not _holds(value, of):
        return value
    parts = {k: _replaced(part, of, new) for k, part in _parts(value).items()}
    if isinstance(value, (list, tuple)):
        return type(value)(parts.values())
    if isinstance(value, dict):
        return parts
    made = copy.copy(value)
    vars(made).update(parts)
    return made


def solve_recorded(
    solver: Solver, original: FunctionType, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a call of *original* in a recording."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return original(*args, **kwargs)  # which raises the error
    if not any(_holds(value, is_traced) for value in bound.arguments.values()):
        plain = {k: _watched(v) if k in solver.functions else v for k, v in bound.arguments.items()}
        bound_plain = inspect.BoundArguments(signature, plain)  # type: ignore[arg-type]
        try:
            return original(*bound_plain.args, **bound_plain.kwargs)
        except TracedValueError:
            pass
    passed = {*bound.arguments, solver.full}  # a default may be deprecated
    bound.apply_defaults()
    call = SolverCall(require_recorder(original.__name__), original.__name__, dict(bound.arguments))
    arguments = call.arguments
    if arguments.get("callback") is not None:
        call.refuse("callback=", "it would run Python in each step of the solver")
    if arguments.get("jac") == "cs":
        call.refuse('jac="cs"', "it calls the function with complex numbers; leave it out")
    asked = bool(arguments[solver.full]) if solver.full else True
    if solver.full:
        arguments[solver.full] = True
    if solver.start:
        start = arguments[solver.start]
        like = nested_atom(start).aval if is_traced(start) else np.asarray(start)
        flat = solver.flat(arguments) if callable(solver.flat) else solver.flat
        shape = (int(np.prod(like.shape)),) if flat else like.shape
        call.variable = Aval(FLOAT32 if like.dtype == FLOAT32 else FLOAT, shape)
    if solver.prepare is not None:
        solver.prepare(call)
    extra, named = arguments.pop("args", ()), arguments.pop("kwargs", None) if "workers" in arguments else None
    extra, named = extra if isinstance(extra, tuple) else (extra,), named or {}
    for key in solver.functions:
        function = arguments.get(key)
        if callable(function) and not isinstance(function, SubProgram):
            applied = partial(_apply, function, extra, named)
            arguments[key] = call.record(key, applied, 2 if key == "hessp" else 1)

    def as_operand(value: Any) -> Operand:
        return Operand(call.operand(nested_atom(value)))

    call.arguments = {k: _replaced(v, is_traced, as_operand) for k, v in arguments.items() if k in passed}
    return _Results(solver, call, _Solve(solver, original, call), asked).emit()


def _apply(function: Callable[..., Any], extra: tuple[Any, ...], named: dict[str, Any], *variables: Any) -> Any:
    return function(*variables, *extra, **named)


# ---- the call of a solver -----------------------------------------------------------------------------------------


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
    parts = _parts(value)
    known = isinstance(value, (list, tuple, dict)) or parts
    return (type(value), *[(k, _key_of(part)) for k, part in parts.items()]) if known else _Same(value)


def _at(found: Any, path: Path) -> Any:
    for key in path:
        found = found[key]
    return found


class _Solve:
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
            elif _holds(value, _is_operand):
                self._filled.append((key, partial(_argument, value)))
            else:
                self._fixed[key] = value
        self._fixed.update(self._fixed.pop("kwargs", {}))

    def __call__(self, *arrays: np.ndarray) -> Any:
        return self._original(**self._fixed, **{key: made(arrays) for key, made in self._filled})

    def succeeded(self, found: Any) -> bool:
        success = self.solver.success
        held = success(found) if callable(success) else _at(found, success)
        return bool(np.all(held)) if isinstance(held, np.ndarray) else bool(held)


def _is_operand(value: Any) -> bool:
    return isinstance(value, Operand)


def _function(solver: Solver, program: SubProgram, reads: Sequence[int], arrays: Sequence[np.ndarray]) -> Any:
    return solver.adapted(program.over([arrays[k] for k in reads]), program.size)


def _copy(value: np.ndarray, arrays: Sequence[np.ndarray]) -> Any:
    return value.copy()


def _argument(value: Any, arrays: Sequence[np.ndarray]) -> Any:
    return _replaced(value, _is_operand, lambda v: np.array(arrays[v.k])[()])


# ---- results ------------------------------------------------------------------------------------------------------


def _leaves(found: Any, path: Path = ()) -> list[tuple[Path, Any, Aval]]:
    """The numbers, arrays and texts of a solver's result, with the paths to them and their avals as results."""
    if isinstance(found, (dict, tuple, list)):
        parts = found.items() if isinstance(found, dict) else enumerate(found)
        return [leaf for k, v in parts for leaf in _leaves(v, (*path, k))]
    if isinstance(found, str):
        return [(path, found, Aval(INT, ()))]
    if isinstance(found, (bool, int, float, np.generic, np.ndarray)) and np.asarray(found).dtype.kind in "biuf":
        return [(path, found, Aval(np.asarray(found).dtype, np.shape(found), type(found) is float))]
    return []


def _number(leaf: Any) -> np.ndarray:
    """A leaf as an array: of a text, a number that tells it from others."""
    return np.array(crc32(leaf.encode())) if isinstance(leaf, str) else np.array(leaf)


class LateText:
    """A text of a solver's (``sol.message``), which becomes a condition of the run when it is read."""

    def __init__(self, text: str, atom: Atom, recorder: Recorder) -> None:
        self._text, self._atom, self._recorder = text, atom, recorder

    def __str__(self) -> str:
        if self._recorder.active:  # else an exception of this run is shown
            bool(wrap(self._atom) == int(_number(self._text)))
        return self._text

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        return str(self) == other

    def __hash__(self) -> int:
        return hash(str(self))

    def __contains__(self, part: str) -> bool:
        return part in str(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(str(self), name)


class MissingResult:
    """A part of a solver's result that a compiled function can't have."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _refuse(self, *_: Any) -> NoReturn:
        raise UnsupportedError.here(self._text)

    __call__ = __iter__ = __len__ = __array__ = __float__ = __bool__ = __getitem__ = __getattr__ = _refuse


@dataclass(slots=True)
class _Results:
    """The results of one call: those of the node, and what the user gets."""

    solver: Solver
    call: SolverCall
    solve: _Solve
    asked: bool

    def emit(self) -> Any:
        solver, call, solve = self.solver, self.call, self.solve
        graphs = self._graphs()
        template, known = self._template(graphs)
        leaves = _leaves(template)
        if not self.asked:
            seen = {id(leaf) for _, leaf, _ in _leaves(solver.shown(template))}
            leaves = [leaf for leaf in leaves if id(leaf[1]) in seen or leaf[0] == solver.solution]
        paths = [path for path, *_ in leaves]

        def numbers(found: Any) -> list[np.ndarray]:
            return [*[_number(_at(found, path)) for path in paths], np.array(solve.succeeded(found))]

        warns = not self.asked and bool(solver.warns)

        def function(*arrays: np.ndarray) -> list[np.ndarray]:
            found = solve(*arrays)
            if warns and not solve.succeeded(found):
                warnings.warn(_at(found, solver.warns), RuntimeWarning, stacklevel=2)
            return numbers(found)

        site = user_site()
        values = {paths.index(path): graphs[what] for path, what in solver.values if path in paths}
        reads = call.reads["equation" if call.equation else solver.functions[0]]
        names = [".".join(map(str, path)) for path in paths]
        rule = Implicit(
            call.name, self._kind(graphs), graphs["equation"], reads, paths.index(solver.solution), len(paths), values,
            names, call.bounds, solver.apart, site,
        )  # fmt: skip
        avals = [*[aval for *_, aval in leaves], _BOOL]
        node = HostFunction(function, avals, call.name, rule=rule, key=(solve.key, tuple(paths)), site=site)
        outs = host_call(node, call.operands, known=numbers(template) if known is True else known)
        shown = {path: self._shown(leaf, atom) for (path, leaf, _), atom in zip(leaves, outs, strict=False)}
        found = _rebuilt(template, shown, (), call.name)
        return found if self.asked else solver.shown(found)

    def _kind(self, graphs: dict[str, Graph]) -> str:
        more = graphs["value"].outputs[0].aval.size != self.call.variable.size  # equations than unknowns
        return LEAST_SQUARES if self.solver.kind == ROOT and more else self.solver.kind

    def _graphs(self) -> dict[str, Graph]:
        """The function's value, what is minimised, and the equation that ``Implicit`` gets."""
        arguments = self.call.arguments
        program = self.call.equation or arguments[self.solver.functions[0]]
        graph = program.values
        value = Graph(graph.inputs, graph.nodes, graph.outputs[:1])
        found = {"value": value, "equation": value}
        kind = self._kind(found)
        if kind == MINIMUM:
            found["equation"] = extended(value, lambda outs: [reshape(outs[0], ())])
        elif kind == LEAST_SQUARES:
            options = {**arguments, **arguments.get("kwargs", {})}
            loss, scale = options.get("loss", "linear"), options.get("f_scale", 1.0)
            if not isinstance(loss, str) or not isinstance(scale, (int, float)):
                self.call.refuse("a loss= or f_scale= that is no name and number", "give residuals of your own")
            found["equation"] = extended(value, lambda outs: [total_of(outs[0], loss, float(scale))])
        found["total"] = found["equation"]
        found["norm"] = extended(value, lambda outs: [F.sqrt(F.mul(like(2, outs[0]), total_of(outs[0])))])
        return found

    def _template(self, graphs: dict[str, Graph]) -> tuple[Any, Any]:
        """(a result of the solver; True, or the exception that it raises): for the values of this run, where it has
        any."""
        raised, recorder = None, self.call.recorder
        values = None if recorder.abstract else recorder.values(self.call.operands)
        if values is not None:
            try:
                with nothing_recorded():
                    return self.solve(*values), True
            except Exception as error:
                raised = error
        success, variable = self.solver.success, self.call.variable
        parts: dict[Path, Any] = {
            self.solver.solution: np.zeros(variable.shape, variable.dtype) if variable.shape else 0.0
        }
        for path, what in self.solver.values:
            parts[path] = np.zeros(graphs[what].outputs[0].aval.shape)[()]
        if isinstance(self.solver.solution[0], int):
            return (parts[self.solver.solution], *[None] * 7), raised
        if not callable(success):
            parts[success] = True
        made = sys.modules["scipy.optimize"].OptimizeResult()
        made.update({path[0]: part for path, part in parts.items()})
        return made, raised

    def _shown(self, leaf: Any, atom: Atom) -> Any:
        if isinstance(leaf, str):
            return leaf if self.call.recorder.live else LateText(leaf, atom, self.call.recorder)
        return wrap_array(atom) if isinstance(leaf, np.ndarray) else wrap(atom)


def _rebuilt(found: Any, shown: dict[Path, Any], path: Path, name: str) -> Any:
    """*found* with the *shown* parts in place of its own."""
    if path in shown:
        return shown[path]
    if not isinstance(found, (dict, tuple, list)):
        return MissingResult(f"{'.'.join(map(str, path))} of {name} can't be used in a compiled function")
    parts = found.items() if isinstance(found, dict) else enumerate(found)
    new = {k: _rebuilt(part, shown, (*path, k), name) for k, part in parts}
    if isinstance(found, dict):
        made = copy.copy(found)
        made.update(new)
        return made
    return type(found)(*new.values()) if hasattr(found, "_fields") else type(found)(new.values())
