"""Loops that are compiled: ``scan``, ``fori_loop`` and ``map``, with JAX's argument order.

While a function is recorded each is one node of the program, whatever the number of steps; otherwise each is a plain
Python loop over NumPy arrays, so the same code runs either way.  Carries, rows and results may be trees of arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import optree

from .array import TracedArray, outranks, to_atom, wrap, wrap_array
from .aval import INT, Aval
from .body import BodyRecorder
from .errors import BadIndexError, ShapeError, TracegradError, UnsupportedError
from .ir import Atom, Lit, Var, building, structural
from .ops.control import loop
from .ops.elementwise import F, cast
from .ops.shape import iota
from .recorder import Recorder, current_recorder, recording
from .site import at_site

NAMESPACE = "tracegrad"
Carry = TypeVar("Carry")


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """(the last carry, all results stacked along axis 0) of ``carry, y = f(carry, x)`` for every row x of *xs*.

    The carry keeps its structure, shapes and dtypes.  *xs* is an array or a tree of arrays of equal length, or None
    with *length*; with *reverse* the steps go from the last row to the first.
    """
    leaves, spec = _flatten(xs)
    count = _length(leaves, spec, length)
    recorder = _recorder(init, xs)
    if recorder is not None:
        return _Recording(recorder, "scan", f, init, count, reverse).run(leaves, spec)
    if not count:
        with recording(Recorder()) as recorder:
            _, ys = _Recording(recorder, "scan", f, init, count, reverse).run(leaves, spec)
            empty = [np.zeros(y.shape, y.dtype) for y in _flatten(ys)[0]]
            return _copied(init), _unflatten(_flatten(ys)[1], empty)
    carry, rows, structure = _copied(init), [], None
    for i in range(count - 1, -1, -1) if reverse else range(count):
        carry, y = _pair(f(carry, _unflatten(spec, [x[i] for x in leaves])), f)
        row, structure = _flatten(y)
        rows.append(row)
    if reverse:
        rows.reverse()
    return carry, _unflatten(structure, [np.stack(column) for column in zip(*rows, strict=True)])


def fori_loop(lower: int, upper: int, body: Callable[[Any, Carry], Carry], init: Carry) -> Carry:
    """The carry after ``carry = body(i, carry)`` for i from *lower* up to, but not including, *upper*."""
    lower, upper = int(lower), int(upper)
    recorder = _recorder(init)
    if recorder is not None:
        return _Recording(recorder, "fori_loop", body, init, max(upper - lower, 0), False).run_counted(lower)
    carry = _copied(init)
    for i in range(lower, upper):
        carry = body(i, carry)
    return carry


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """The results of *f* for every row of *xs* (an array or a tree of arrays), stacked along axis 0."""
    leaves, spec = _flatten(xs)
    count = _length(leaves, spec, None)
    recorder = _recorder(xs)
    if recorder is not None:
        return _Recording(recorder, "map", f, (), count, False).run(leaves, spec)[1]
    return scan(lambda _, x: ((), f(x)), (), xs)[1]


def _recorder(*trees: Any) -> Recorder | None:
    """The recording in progress, if it is one of arrays: eager Tensors go through the loop step by step."""
    recorder, everything = current_recorder(), list[Any](trees)
    leaves: list[Any] = optree.tree_leaves(everything, namespace=NAMESPACE)  # type: ignore[arg-type]
    return None if any(outranks(type(leaf)) for leaf in leaves) else recorder


# ---- trees ---------------------------------------------------------------------------------------------------------


def _flatten(tree: Any) -> tuple[list[Any], Any]:
    return optree.tree_flatten(tree, namespace=NAMESPACE)


def _unflatten(spec: Any, leaves: Sequence[Any]) -> Any:
    return optree.tree_unflatten(spec, leaves)


def _copied(init: Any) -> Any:
    """*init* as a recording sees it: arrays of its own, which a body may write into, and numbers with a dtype."""

    def own(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return x.copy()
        return np.asarray(x)[()] if isinstance(x, (bool, int, float)) else x

    return optree.tree_map(own, init, namespace=NAMESPACE)


def _length(leaves: Sequence[Any], spec: Any, length: Any) -> int:
    """The number of steps."""
    given = None if length is None else int(length)
    if given is not None and given < 0:
        raise ShapeError(at_site(f"a loop of length {given}: a length is not negative"))
    found: int | None = None
    for x, accessor in zip(leaves, optree.treespec_accessors(spec), strict=True):
        shape = getattr(x, "shape", None)
        if not shape:
            what = type(x).__name__ if shape is None else "an array without axes"
            raise ShapeError(
                at_site(f"{_named('xs', accessor)} has no rows to step through: it is {what}; pass np.asarray(...)")
            )
        if found is not None and shape[0] != found:
            raise ShapeError(
                at_site(f"the arrays of xs have unequal lengths: {found} and, for {_named('xs', accessor)}, {shape[0]}")
            )
        found = int(shape[0])
    if found is None and given is None:
        raise ShapeError(at_site("a scan over nothing needs to know how often: pass xs or length="))
    if given is not None and found is not None and given != found:
        raise ShapeError(at_site(f"length={given}, but xs has {found} rows"))
    return given if found is None else found  # type: ignore[return-value]


def _named(root: str, accessor: Any) -> str:
    """How the user would write a leaf: ``state['x']``."""
    return f"`{root}{''.join(f'.{p.entry}' if hasattr(p, 'field') else f'[{p.entry!r}]' for p in accessor)}`"


def _pair(result: Any, f: Any) -> tuple[Any, Any]:
    if not (isinstance(result, tuple) and len(result) == 2):
        raise TracegradError(
            at_site(
                f"scan needs a function that returns (carry, y), but {_function(f)} returned {type(result).__name__}; "
                "return (carry, None) if there is nothing to stack"
            )
        )
    return result


def _function(f: Any) -> str:
    code = getattr(f, "__code__", None)
    name = getattr(f, "__name__", None) or type(f).__name__
    return name if code is None else f"{name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"


def _shown(aval: Aval) -> str:
    return f"{aval.dtype}[{','.join(str(n) for n in aval.shape)}]"


# ---- recording -----------------------------------------------------------------------------------------------------


class _Recording:
    """One loop in the recording in progress."""

    def __init__(self, parent: Recorder, what: str, f: Callable[..., Any], init: Any, length: int, reverse: bool):
        self.parent, self.what, self.f, self.length, self.reverse = parent, what, f, length, reverse
        leaves, self.spec = _flatten(init)
        self.inits = [_strong(x) for x in leaves]
        self.body = BodyRecorder(parent, length, what)
        self.carries = [self.body.fresh(a.aval) for a in self.inits]

    def run(self, leaves: Sequence[Any], spec: Any) -> tuple[Any, Any]:
        """(carry, ys) of a scan or a map over *leaves*."""
        xs: dict[Var, Atom] = {}
        rows = []
        with recording(self.body):
            for x in leaves:
                row = self._counted(x)
                if row is None:
                    with building(self.parent):
                        atom = to_atom(x)
                    row = self.body.fresh(Aval(atom.aval.dtype, atom.aval.shape[1:]))
                    xs[row] = atom
                rows.append(TracedArray(row, self.body, owner="a row of xs"))
            x = _unflatten(spec, rows)
            if self.what == "map":
                carry, y = (), self.f(x)
            else:
                carry, y = _pair(self.f(self._carry(), x), self.f)
            ends = self._ends(carry)
            stacked, structure = _flatten(y)
            ys = [_strong(v) for v in stacked]
        found = self._loop(xs, ends, ys)
        results = [_result(v) for v in found]
        count = len(self.carries)
        return _unflatten(self.spec, results[:count]), _unflatten(structure, results[count:])

    def run_counted(self, lower: int) -> Any:
        """The last carry of a loop over a number from *lower* on."""
        with recording(self.body):
            number: Atom = self.body.row
            if lower:
                number = F.add(number, Lit(lower, INT, weak=True))
            ends = self._ends(self.f(wrap(number, self.body), self._carry()))
        return _unflatten(self.spec, [_result(v) for v in self._loop({}, ends, [])])

    def _carry(self) -> Any:
        return _unflatten(self.spec, [_result(v) for v in self.carries])

    def _counted(self, x: Any) -> Var | None:
        """The number of the row in place of an array that counts up or down by 1."""
        if not isinstance(x, np.ndarray) or x.dtype != INT or x.ndim != 1 or not self.length:
            return None
        if self.parent.captured.get(id(x)) is not None:
            return None  # an array from outside: it may change
        step = int(x[1] - x[0]) if len(x) > 1 else 1
        if step not in (1, -1) or not np.array_equal(x, np.arange(x[0], x[0] + step * self.length, step)):
            return None
        row: Atom = cast(self.body.row, INT)
        if step == -1:
            row = F.neg(row)
        found = F.add(row, Lit(int(x[0]), INT)) if x[0] or isinstance(row, Lit) else row
        assert isinstance(found, Var)
        return found

    def _ends(self, carry: Any) -> list[Atom]:
        """The carry at the end of a step, which has to be like the one at its beginning."""
        leaves, spec = _flatten(carry)
        root = self._parameter()
        if spec != self.spec:
            raise UnsupportedError(
                at_site(
                    f"the carry of {self.what} changes its structure: `{root}` starts as {_structure(self.spec)} and "
                    f"comes back from {_function(self.f)} as {_structure(spec)}"
                )
            )
        result = []
        for value, var, accessor in zip(leaves, self.carries, optree.treespec_accessors(spec), strict=True):
            atom, before = to_atom(value), var.aval
            fits = atom.aval.dtype == before.dtype or (
                atom.aval.weak and np.can_cast(atom.aval.dtype, before.dtype, "same_kind")
            )
            if atom.aval.shape != before.shape or not fits:
                raise ShapeError(
                    at_site(
                        f"the carry {_named(root, accessor)} of {self.what} starts as {_shown(before)} and comes back "
                        f"from {_function(self.f)} as {_shown(atom.aval)}: {_remedy(before, atom.aval)}"
                    )
                )
            result.append(cast(atom, before.dtype))
        return result

    def _parameter(self) -> str:
        """The name of the carry in the user's function."""
        try:
            names = list(inspect.signature(self.f).parameters)
        except (TypeError, ValueError):
            return "carry"
        position = 1 if self.what == "fori_loop" else 0
        return names[position] if position < len(names) else "carry"

    def _loop(self, xs: dict[Var, Atom], ends: list[Atom], ys: list[Atom]) -> list[Atom]:
        """The results of the loop, appended to the recording around it."""
        body, carries, inits = self.body, list(self.carries), list(self.inits)
        if body.checks:
            with building(body):
                held = body.fresh(Aval(np.dtype(bool), ()))
                end: Atom = held
                for check in body.checks:
                    end = F.logical_and(end, check)
            carries.append(held)
            inits.append(structural(True, np.dtype(bool)))
            ends = [*ends, end]
        with building(self.parent):
            finished = body.close(carries, {**xs, body.row: iota(self.length)}, [*ends, *ys])
            found = list(loop(finished.graph, finished.consts, inits, finished.xs, self.length, self.reverse))
            if body.checks:
                held = found.pop(len(self.carries))
                try:
                    inside = bool(self.parent.guard(held, "index"))
                except IndexError:  # NumPy, while it looked
                    inside = False
                if not inside:
                    raise BadIndexError(at_site(f"an index in the body of {self.what} is out of bounds in some step"))
        return list(found)


def _strong(value: Any) -> Atom:
    """*value* as an atom with a dtype of its own: a Python float is a float64."""
    atom = to_atom(value)
    return cast(atom, atom.aval.dtype)


def _result(atom: Atom) -> TracedArray:
    return wrap_array(atom) if atom.aval.shape else wrap(atom)


def _structure(spec: Any) -> str:
    return str(spec).removeprefix("PyTreeSpec(").removesuffix(f", namespace={NAMESPACE!r})").removesuffix(")")


def _remedy(before: Aval, after: Aval) -> str:
    if before.shape != after.shape:
        return "its shape has to stay the same; start with an array of the final shape"
    if before.dtype.kind in "iub" and after.is_float:
        return "start with a float, such as 0.0 or np.zeros(...)"
    return f"its dtype has to stay the same; convert it with .astype(np.{before.dtype})"


__all__ = ["fori_loop", "map", "scan"]
