"""Results of solvers of scipy.optimize within a recorded function: those of the node, and what the user gets."""

from __future__ import annotations

import copy
import sys
import warnings
from typing import Any, NoReturn
from zlib import crc32

import numpy as np

from ..ir.aval import INT, Aval
from ..ir.data_classes import dataclass
from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, Graph
from ..ir.site import user_site
from ..ops.elementwise import F, like
from ..ops.host_call import HostFunction, host_call
from ..ops.shape import reshape
from ..record.array import wrap, wrap_array
from ..record.recorder import Recorder, nothing_recorded
from .implicit import LEAST_SQUARES, MINIMUM, ROOT, Implicit, extended, total_of
from .optimize_arguments import Path, Solve, Solver, SolverCall, at_path

_BOOL = Aval(np.dtype(bool), ())


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
class SolverResults:
    """The results of one call: those of the node, and what the user gets."""

    solver: Solver
    call: SolverCall
    solve: Solve
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
            return [*[_number(at_path(found, path)) for path in paths], np.array(solve.succeeded(found))]

        warns = not self.asked and bool(solver.warns)

        def function(*arrays: np.ndarray) -> list[np.ndarray]:
            found = solve(*arrays)
            if warns and not solve.succeeded(found):
                warnings.warn(at_path(found, solver.warns), RuntimeWarning, stacklevel=2)
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
