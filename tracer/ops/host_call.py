"""A function of Python's on NumPy arrays as one node: it runs between kernels, in each call, with the arrays of that
call.

    found = host_call(HostFunction(solver, results, "brentq"), operands)

What it gives is held to the avals that were declared.  That it raises nothing is what the recorded run relies on, as on
the condition of a matrix (``Recorder.rely``): the node has one more result, which says so.  Where it is False Python
runs again, and meets the exception at the user's line, where an ``except`` clause may catch it.

Two functions are the same for a signature, and where two recordings are compared, if their ``key`` is equal: by default
that is the identity of the function (and of its rule), which stays alive with the node.  A solver that is made anew in
each recording has a key of its contents, from which its rule follows, too.  Equal functions of the same operands are
called once.

The derivative is a ``rule`` at the level of atoms, joint over the results: (cotangents of the results or None, the
results, the operands) -> cotangents of the operands or None.  It is called whenever an adjoint is derived, also in the
body of a loop, and appends to the builder in force, so it can be derived again.  A rule that runs Python of the user's
needs a recording: that is ``custom_vjp`` (custom.py) around the results.  Without a rule a derivative is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import MethodType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..convert.transparent import original
from ..ir.aval import HALF, INEXACT_KINDS, Aval
from ..ir.axes import unrelated
from ..ir.errors import DifferentiationError, TracegradError, UnsupportedError
from ..ir.graph import Atom, Graph, Node, Var, current_builder
from ..ir.primitive import HOST, Primitive, register
from ..ir.site import Site
from .complex import put_together, taken_apart
from .custom import Rule

# runs a function as it runs outside of a recording, which may be what asks for its value (record/recorder.py)
unrecorded: list[Callable[[Callable[..., Any], Sequence[Any]], Any]] = []


class GraphDerivatives(NamedTuple):
    """Derivatives of graphs, for rules that are made of graphs (codegen/derive/pullback.py)."""

    pullback: Callable[[Graph, Sequence[int]], Graph]
    pushforward: Callable[[Graph, Sequence[int]], Graph]
    limited: Callable[[Graph, Sequence[Atom]], Graph]


derivatives: list[GraphDerivatives] = []
_BOOL = Aval(np.dtype(bool), ())


class HostFunction:
    """``function(*arrays)`` gives arrays of the avals *results*: one by itself, several as a tuple or list.

    The arrays are read-only, 0-d ones among them, and have the dtypes of the operands.  *name* is for ``explain()`` and
    errors, *site* the user's line.  ``raised`` is the text of the exception that was caught last.
    """

    __slots__ = ("_dtypes", "function", "key", "name", "raised", "results", "rule", "site", "vmap_method")

    def __init__(
        self, function: Callable[..., Any], results: Sequence[Aval], name: str, *, rule: Rule | None = None,
        key: Hashable = None, site: Site | None = None,
    ) -> None:  # fmt: skip
        function = original(function)  # which runs when the recording is over, too
        self.function, self.results, self.name, self.rule, self.site = function, tuple(results), name, rule, site
        own = function if isinstance(function, MethodType) else id(function)  # a method is another object each time
        self.key: Hashable = (key or (own, id(rule)), self.results, name)
        self.raised = ""
        self.vmap_method: str | None = "sequential"  # how a batch of calls is made (rules/host_code.py); None: not
        self._dtypes: tuple[np.dtype, ...] = ()

    def of(self, operands: Sequence[Atom]) -> HostFunction:
        """The same function for *operands*, whose dtypes are known."""
        dtypes = tuple([x.aval.dtype for x in operands])
        known = [*dtypes, *[a.dtype for a in self.results]]
        if any(d in HALF for d in known):
            raise UnsupportedError.here(f"{self.name} of float16 or bfloat16: use float32 or float64")
        if self.rule is not None and any(d.kind == "c" for d in known):
            raise UnsupportedError.here(f"{self.name} has no derivative for complex numbers")
        made = HostFunction(self.function, self.results, self.name, rule=self.rule, site=self.site)
        made.key, made._dtypes = (self.key, dtypes), dtypes
        made.vmap_method = self.vmap_method
        return made

    def for_rows(self, size: int, differ: Sequence[bool], masked: bool, rule: Rule | None) -> HostFunction:
        """The function of *size* rows, called for one after the other.

        *differ*: for each operand whether it has rows, or is the same in all.  *masked*: a further operand, bool
        (size,), says for which rows it is called; the results of others are 0."""
        if self.vmap_method is None:
            raise UnsupportedError.here(
                f'vmap of {self.name}, which does not say how: give pure_callback vmap_method="sequential", '
                '"expand_dims" or "broadcast_all"'
            )
        kind = _RowByRow if self.vmap_method == "sequential" else _AllRows
        rows = kind(self, size, tuple(differ), masked)
        results = [Aval(a.dtype, (size, *a.shape)) for a in self.results]
        made = HostFunction(rows, results, self.name, rule=None if self.rule is None else rule, site=self.site)
        made.key, made._dtypes = (self.key, size, rows.differ, masked), (*self._dtypes, *[_BOOL.dtype] * masked)
        return made

    def by_operand(self, lanes: Sequence[bool]) -> list[bool]:
        """Flags of operands, from those of their lanes: whether any has it."""
        found: list[bool] = []
        for dtype in self._dtypes:
            count = 1 + (dtype.kind == "c")
            found.append(any(lanes[:count]))
            lanes = lanes[count:]
        return found

    def by_lane(self, operands: Sequence[bool]) -> list[bool]:
        """Flags of lanes, from those of their operands."""
        return [x for x, d in zip(operands, self._dtypes, strict=True) for _ in range(1 + (d.kind == "c"))]

    def __eq__(self, other: object) -> bool:
        return type(other) is HostFunction and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.name

    def __call__(self, *values: Any) -> list[np.ndarray]:
        """The results of *values*; of both the lanes of complex ones are apart."""
        given = iter(values)
        arrays = []
        for dtype in self._dtypes:
            array = np.asarray(next(given), _lane(dtype))
            array = np.asarray(array + 1j * np.asarray(next(given)), dtype) if dtype.kind == "c" else array.view()
            array.flags.writeable = False
            arrays.append(array)
        return _lanes(self.checked(unrecorded[0](self.function, arrays)))

    def checked(self, found: Any) -> list[np.ndarray]:
        """The results *found*, which have to be what was declared."""
        if len(self.results) == 1:
            found = (found,)
        if not isinstance(found, (tuple, list)) or len(found) != len(self.results):
            self._refuse(_shown(found), f"{len(self.results)} results were declared")
        return [self._checked(np.array(x), aval) for x, aval in zip(found, self.results, strict=True)]

    def caught(self, *values: Any) -> list[np.ndarray]:
        """As a call, and whether it raised nothing; where it did, the results are NaN, or 0."""
        try:
            return [*self(*values), np.array(True)]
        except Exception as error:
            self.raised = f"{type(error).__name__}: {error}"
            nothing = [np.full(a.shape, np.nan if a.dtype.kind in INEXACT_KINDS else 0, a.dtype) for a in self.results]
            return [*_lanes(nothing), np.array(False)]

    def error(self, values: Sequence[Any] | None) -> Exception:
        """The exception that a call with *values* raises; None: in some step of a loop, which nobody can say."""
        if values is None:
            return TracegradError.here(f"{self.name} raised {self.raised}", self.site)
        try:
            self(*values)
        except Exception as error:
            return error
        return TracegradError.here(f"{self.name} raised an exception, and did not when it was called again", self.site)

    def _checked(self, found: np.ndarray, aval: Aval) -> np.ndarray:
        if (found.dtype, found.shape) != (aval.dtype, aval.shape):
            self._refuse(
                _shown(found),
                f"{_shown(aval)} was declared: the shapes and dtypes of its results may depend on those of its "
                "operands alone",
            )
        return found

    def _refuse(self, found: str, declared: str) -> NoReturn:
        raise TracegradError.here(f"{self.name} returned {found}, but {declared}", self.site)


class _RowByRow:
    """A host function called for each row of a batch."""

    def __init__(self, row: HostFunction, size: int, differ: tuple[bool, ...], masked: bool) -> None:
        self.row, self.size, self.differ, self.masked = row, size, differ, masked

    def __call__(self, *arrays: np.ndarray) -> Any:
        row, alive = self.row, arrays[-1] if self.masked else np.ones(self.size, bool)
        found = [np.zeros((self.size, *a.shape), a.dtype) for a in row.results]
        for k in np.flatnonzero(alive):
            given = [x[k, ...] if differs else x for x, differs in zip(arrays, self.differ, strict=False)]
            for y, x in zip(found, row.checked(row.function(*given)), strict=True):
                y[k] = x
        return found[0] if len(found) == 1 else found


class _AllRows(_RowByRow):
    """A host function called once for a batch, of which it knows."""

    def __call__(self, *arrays: np.ndarray) -> Any:
        row, alive = self.row, np.flatnonzero(arrays[-1]) if self.masked else np.arange(self.size)
        found = [np.zeros((self.size, *a.shape), a.dtype) for a in row.results]
        if not len(alive):
            return found[0] if len(found) == 1 else found
        given = []
        for x, differs in zip(arrays, self.differ, strict=False):
            if differs:
                given.append(x[alive] if self.masked else x)
            else:
                given.append(
                    x[None] if row.vmap_method == "expand_dims" else np.broadcast_to(x, (len(alive), *x.shape))
                )
        results = row.function(*given)
        for y, x in zip(found, (results,) if len(found) == 1 else results, strict=True):
            y[alive] = self._checked(np.asarray(x), (len(alive), *y.shape[1:]), y.dtype)
        return found[0] if len(found) == 1 else found

    def _checked(self, x: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if x.shape != shape or x.dtype != dtype:
            self.row._refuse(_shown(x), f"{dtype}[{','.join(map(str, shape))}] was expected of a batch")
        return x


def _lane(dtype: np.dtype) -> np.dtype:
    return np.empty(0, dtype).real.dtype


def _lanes(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [part for x in arrays for part in ((x.real, x.imag) if x.dtype.kind == "c" else (x,))]


def _shown(x: Any) -> str:
    if isinstance(x, (tuple, list)):
        return f"{len(x)} results"
    return f"{x.dtype}[{','.join(map(str, x.shape))}]" if isinstance(x, (np.ndarray, Aval)) else type(x).__name__


def _impl(*values: Any, function: HostFunction, caught: bool) -> Any:
    found = function.caught(*values) if caught else function(*values)
    return found[0] if len(found) == 1 else found


def _infer(*avals: Aval, function: HostFunction, caught: bool) -> Aval | tuple[Aval, ...]:
    lanes = [Aval(_lane(a.dtype), a.shape, a.weak) for a in function.results for _ in range(1 + a.is_complex)]
    return lanes[0] if len(lanes) == 1 and not caught else (*lanes, *[_BOOL] * caught)


def _vjp(
    cotangents: Sequence[Atom | None], outs: Sequence[Var], *operands: Atom, function: HostFunction, caught: bool
) -> Sequence[Atom | None]:
    if function.rule is None:
        raise DifferentiationError.here(
            f"{function.name} has no derivative: write tracegrad.stop_gradient(x) where none is wanted, or a rule for "
            "the function that calls it, by tracegrad.custom_vjp or custom_jvp",
            function.site,
        )
    count = len(function.results)
    return function.rule(cotangents[:count], outs[:count], operands)


# masking: a rule may send exact zeros to some elements, and nobody can tell
HOST_CALL = register(Primitive("host_call", HOST, _impl, _infer, vjp=_vjp, axes=unrelated, joint=True, masking=True))


def calls_python(nodes: Sequence[Node]) -> bool:
    """Whether *nodes* hold such a call, in the body of a loop, too."""
    return any(n.prim is HOST_CALL or ("body" in n.params and calls_python(n.params["body"].nodes)) for n in nodes)


def host_call(
    function: HostFunction, operands: Sequence[Atom], *, relied: bool = True,
    known: Sequence[np.ndarray] | Exception | None = None,
) -> list[Atom]:  # fmt: skip
    """The results of *function* of *operands*.

    Where it is not *relied* on that it raises nothing, as in a rule, an exception of its own ends the call that runs
    it.  *known*: the real results in this run, or the exception, where the recording has called it."""
    function, operands = function.of(operands), taken_apart(operands)
    builder: Any = current_builder()
    found = [*builder.emit(HOST_CALL, tuple(operands), {"function": function, "caught": relied})]
    if isinstance(known, Exception):
        builder.guard(found[-1], "linalg")
        raise known
    if known is not None:
        builder.env.update(zip(found, [*known, np.array(True)], strict=True))
    if relied:
        builder.rely(found.pop(), lambda: function.error(builder.values(operands)))
    return put_together(found, [Var(aval) for aval in function.results])
