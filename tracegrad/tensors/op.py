"""One eager operation, and its derivative.

Two data structures.  ``EagerOp`` is one row: the name that ``grad_fn`` shows and a function over raw arrays.  The same
function computes (on NumPy arrays) and is recorded (on traced arrays), so each operation has the derivative that its
IR primitives have, and nothing here knows a rule.  A ``LocalVjp`` is that derivative for operands of one kind: a small
graph from (saved operands, saved results, cotangents of the results) to cotangents of the operands.  It is itself
an ``EagerOp``, which is how derivatives of derivatives come about.  Start reading at ``LocalVjp.derive``.

The graph knows the lanes of complex values (``apart``, ``joined``).  The cotangent of z = x + iy has those of x and
of y as its lanes, so it is du/dx + i du/dy, which is PyTorch's convention and the conjugate of that of NumPy code.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..codegen.derive.adjoint import vjp_seeded
from ..runtime.config import config
from ..runtime.recent import Recent
from ..runtime.record.complex_data import array_of, lanes_of
from ..tracer import numpy_api, scipy_api  # noqa: F401  (fill the tables of functions)
from ..tracer.ir.aval import COMPLEX, FLOAT, FLOAT32, HALF, INT, Aval
from ..tracer.ir.evaluate import run_nodes, stored
from ..tracer.ir.graph import Atom, Graph, Lit, Node, Pair, Var, current_builder, live_nodes, read_vars
from ..tracer.ops.complex import complex_of, put_together, real_atoms, taken_apart
from ..tracer.ops.elementwise import broadcast_to
from ..tracer.record.array import TracedArray, to_atom, wrap_array
from ..tracer.record.autocast import off
from ..tracer.record.recorder import Recorder, recording

# Tensors give inf and nan without a word, as PyTorch's do; NumPy code of the user's keeps its warnings.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"tracegrad\.(tensors|autograd|array_api)")

_Avals = tuple[Aval, ...]
_ndarray = np.ndarray
# Operations whose results lie in rows whatever the layout of the operands, as in PyTorch (so that .view works on them);
# the others keep NumPy's order, which for elementwise operations is PyTorch's too, unless an operand in C order follows
# one that is not: then NumPy's is C order, PyTorch's that of the first.
_IN_ROWS = frozenset(
    """Stack Cat Softmax LogSoftmax Cumsum Cumprod MaskedFill Index Sum Mean Prod Max Min Amax Amin Std Var Logsumexp
    NativeLayerNorm NativeBatchNorm Gather IndexSelect""".split()
)


class EagerOp:
    """One operation: ``fn(*arrays, *statics)`` gives an array or a tuple of arrays.

    ``name`` is what ``grad_fn`` shows (``Add`` becomes ``<AddBackward0>``).  Operands are arrays or Python floats,
    which are data; *statics* are hashable and part of the signature.

    Values that the derivative *reads* must not be overwritten between forward and backward.  By default it reads those
    that save work; "operands": not the result, which is computed again (so that ``y = a / b; y += c`` is no error);
    "result": the result instead of the first operand, which must make no difference (``relu``).

    *mixed* is its rule in ``autocast``, where the name does not tell: "product" or "float32".
    """

    __slots__ = ("__weakref__", "_derived", "_dtypes", "_last", "fn", "in_rows", "mixed", "name", "node_class", "reads")

    def __init__(self, name: str, fn: Callable[..., Any], *, reads: str = "", mixed: str = ""):
        self.name = name if "Backward" in name or name == "CopySlices" else f"{name}Backward0"
        self.fn = fn
        self.in_rows = self.name.partition("Backward")[0] in _IN_ROWS
        self.reads = reads
        self.mixed = mixed
        self.node_class: Any = None  # made by node.py, which knows the base class
        self._last: tuple[Any, LocalVjp] | None = None  # (key, the derivative that was asked for last)
        self._derived: Recent[Any, LocalVjp] = Recent(lambda: config.max_derivatives)
        self._dtypes: Recent[Any, list[np.dtype]] = Recent(
            lambda: config.max_derivatives
        )  # dtypes of results, where an operand has half precision

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def vjp(self, avals: _Avals, statics: tuple[Any, ...], needs: tuple[bool, ...], careful: bool) -> LocalVjp:
        """The derivative for operands of these kinds, with respect to those in *needs*."""
        key = (avals, statics, needs, careful)
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        found = self._derived.get(key)
        if found is None:
            found = self._derived.keep(key, LocalVjp.derive(self, avals, statics, needs, careful))
        self._last = key, found
        return found

    def run(self, operands: tuple[Any, ...], statics: tuple[Any, ...]) -> Any:
        """``fn`` of raw operands; those of half precision are computed with in float32."""
        if any(type(x) is _ndarray and x.dtype in HALF for x in operands):
            return self.in_float32(operands, statics)
        return self.fn(*operands, *statics)

    def in_float32(self, operands: tuple[Any, ...], statics: tuple[Any, ...]) -> Any:
        """``fn`` of raw operands, float32 in place of those of half precision, its results rounded."""
        wide = [x.astype(FLOAT32) if type(x) is _ndarray and x.dtype in HALF else x for x in operands]
        with np.errstate(all="ignore"):
            found = self.fn(*wide, *statics)
            dtypes = self._result_dtypes(tuple([aval_of(x) for x in operands]), statics)
            if type(found) is not tuple:
                return np.asarray(found).astype(dtypes[0], copy=False)
            return tuple([np.asarray(r).astype(d, copy=False) for r, d in zip(found, dtypes, strict=True)])

    def recorded(self, operands: Sequence[Var], statics: tuple[Any, ...], recorder: Recorder) -> list[Atom]:
        """The results for *operands*, by nodes of *recorder*."""
        made = self.fn(*[TracedArray(v, recorder) for v in operands], *statics)
        return [to_atom(r) for r in (made if type(made) is tuple else (made,))]

    def _result_dtypes(self, avals: _Avals, statics: tuple[Any, ...]) -> list[np.dtype]:
        """The dtypes of the results for operands of these kinds, as the operation's recording has them."""
        key = (avals, statics)
        found = self._dtypes.find(key)
        if found is None:
            recorder = Recorder()
            recorder.abstract = True
            with off(), recording(recorder):
                outs = self.recorded([variable(a) for a in avals], statics, recorder)
                found = [out.aval.dtype for out in outs]
            self._dtypes.keep(key, found)
        return found

    def saves(
        self, avals: _Avals, statics: tuple[Any, ...], needs: tuple[bool, ...]
    ) -> tuple[frozenset[int], frozenset[int]]:
        """(operands, results) that the derivative reads."""
        found = [self.vjp(avals, statics, needs, careful) for careful in (False, True)]
        return frozenset(k for v in found for k in v.saved_in), frozenset(k for v in found for k in v.saved_out)


def variable(aval: Aval) -> Var:
    """A value of *aval* that nothing defines; of a complex one both lanes are such."""
    if not aval.is_complex:
        return Var(aval)
    lane = Aval(COMPLEX[aval.dtype], aval.shape)
    return Pair(Var(lane), Var(lane), aval.dtype)


def apart(values: Sequence[Any], avals: _Avals) -> list[Any]:
    """Arrays of *avals* with both lanes of complex ones, which are views, in their place."""
    return [
        x
        for value, aval in zip(values, avals, strict=True)
        for x in ((value.real, value.imag) if aval.is_complex else (value,))
    ]


def joined(found: Sequence[Any], avals: _Avals, empty: Callable[..., Any] = np.empty) -> list[Any]:
    """The inverse of ``apart``: new complex arrays, made by *empty*, in place of two lanes each."""
    values, results = iter(found), []
    for aval in avals:
        result = next(values)
        if aval.is_complex:
            whole = empty(aval.shape, aval.dtype)
            whole.real, whole.imag = result, next(values)
            result = whole
        results.append(result)
    return results


def aval_for_kernel(aval: Aval) -> Aval:
    """The aval of an input or result of a kernel that is a value of *aval*: of a complex one, its lanes along a last
    axis."""
    return Aval(COMPLEX[aval.dtype], (*aval.shape, 2)) if aval.is_complex else aval


def value_in_kernel(held: Var, aval: Aval) -> Atom:
    """The value of *aval* that the input *held* of a kernel stands for."""
    return complex_of(held, aval.dtype) if aval.is_complex else held


def for_kernel(array: Any) -> Any:
    """*array* as a kernel takes it: the lanes of a complex one, over its memory."""
    return lanes_of(array) if array.dtype.kind == "c" else array


def from_kernel(result: Any, aval: Aval) -> Any:
    """The array of *aval* that a *result* of a kernel is."""
    if aval.is_complex:
        result = array_of(result)
    return result if type(result) is np.ndarray else np.asarray(result)


def _gradients(
    forward: list[Node], seeds: list[tuple[Any, Any]], wrt: dict[int, Var], careful: bool
) -> dict[int, tuple[Atom, bool]]:  # fmt: skip
    """The cotangents of those operands, by number, that have one; whether each may hold exact zeros or infinities."""
    found = vjp_seeded(forward, seeds, real_atoms(wrt.values()), careful=careful)  # type: ignore[arg-type]
    lanes = zip(*found, strict=True)
    made: dict[int, tuple[Atom, bool]] = {}
    for k, x in wrt.items():
        parts = [next(lanes) for _ in real_atoms([x])]
        gradient = _gradient([g for g, _ in parts], x.aval)
        if gradient is not None:
            made[k] = gradient, any(mark for _, mark in parts)
    return made


def _used_places(values: Sequence[Var], used: set[Var]) -> tuple[int, ...]:
    return tuple([k for k, v in enumerate(values) if not used.isdisjoint(real_atoms([v]))])


def _kept_results(
    op: EagerOp, outs: list[Atom], forward: list[Node], of_reals: bool
) -> tuple[dict[Var, Any], list[Var]]:  # fmt: skip
    """(what stands for values of *forward* that a derivative reads, inputs for the results)

    Results of the operation are read, not computed again; but not real ones of complex operands, since NumPy's sizes
    differ from ours in the last bit, and a maximum is looked for by its value."""
    produced = {o for n in forward for o in n.outs}
    read = [variable(o.aval) for o in outs]
    known: dict[Var, Any] = {
        o: v
        for out, var in zip(outs, read, strict=True)
        if op.reads != "operands" and (of_reals or out.aval.is_complex)
        for o, v in zip(real_atoms([out]), real_atoms([var]), strict=True)
        if isinstance(o, Var) and o in produced
    }
    return known, read


_WEAK_FLOAT = Aval(FLOAT, (), True)
_WEAK_INT = Aval(INT, (), True)


def aval_of(value: Any) -> Aval:
    """The abstract value of an operand: an array, a traced array, a Python number, or an aval."""
    if type(value) is float:
        return _WEAK_FLOAT
    if type(value) is Aval:
        return value
    if type(value) is int:
        return _WEAK_INT
    return _aval(value.dtype, value.shape)


_aval = lru_cache(1 << 14)(Aval)


class LocalVjp(EagerOp):
    """The derivative of one operation.  Its operands as an ``EagerOp`` are the saved operands (at ``saved_in``), the
    saved results (``saved_out``), then a cotangent for each result in ``seeded``; it gives a tuple, one cotangent for
    each operand in ``gives``."""

    __slots__ = ("careful", "given", "gives", "graph", "outs", "saved_in", "saved_out", "seeded", "takes")

    def __init__(
        self, name: str, graph: Graph, outs: _Avals, saved_in: tuple[int, ...], saved_out: tuple[int, ...],
        seeded: tuple[int, ...], gives: tuple[int, ...], careful: tuple[bool, ...], takes: _Avals, given: _Avals,
    ):  # fmt: skip
        super().__init__(name, self._run)
        self.graph = graph  # from and to lanes of complex values
        self.outs = outs  # avals of the operation's results
        self.takes, self.given = takes, given  # avals of its own operands and results
        self.saved_in, self.saved_out, self.seeded = saved_in, saved_out, seeded
        self.gives = gives
        self.careful = careful  # whether each given cotangent may hold exact zeros or infinities

    @classmethod
    def derive(
        cls, op: EagerOp, avals: _Avals, statics: tuple[Any, ...], needs: tuple[bool, ...], careful: bool
    ) -> Any:
        recorder = Recorder()
        recorder.abstract = True
        operands = [variable(a) for a in avals]
        with off(), recording(recorder):
            outs = op.recorded(operands, statics, recorder)
            forward = list(recorder.nodes)
            seeded = tuple([k for k, o in enumerate(outs) if o.aval.is_inexact])
            cotangents = [variable(Aval(outs[k].aval.dtype, outs[k].aval.shape)) for k in seeded]
            seeds = zip(real_atoms([outs[k] for k in seeded]), real_atoms(cotangents), strict=True)
            wrt = {k: v for k, (v, need) in enumerate(zip(operands, needs, strict=True)) if need}
            gradients = _gradients(forward, list(seeds), wrt, careful)
            results = taken_apart([g for g, _ in gradients.values()])
        known, read = _kept_results(op, outs, forward, of_reals=not any(a.is_complex for a in avals))
        nodes = [_renamed(n, known) for n in recorder.nodes]
        if op.reads == "result":
            nodes = [_renamed(n, {operands[0]: known[outs[0]]}) for n in nodes]  # type: ignore[index, dict-item]
        results = [known.get(r, r) if isinstance(r, Var) else r for r in results]
        nodes = live_nodes(nodes, results)
        used = read_vars(nodes, results)
        saved_in, saved_out = _used_places(operands, used), _used_places(read, used)
        takes = [operands[k] for k in saved_in] + [read[k] for k in saved_out] + cotangents
        consts = [c for c in recorder.consts if c[0] in used]
        graph = Graph(real_atoms(takes), nodes, results, [], consts)  # type: ignore[arg-type]
        return cls(
            op.name, graph, tuple([o.aval for o in outs]), saved_in, saved_out, seeded, tuple(gradients),
            tuple([mark for _, mark in gradients.values()]), tuple([v.aval for v in takes]),
            tuple([avals[k] for k in gradients]),
        )  # fmt: skip

    def _run(self, *values: Any) -> tuple[Any, ...]:
        """The cotangents: by NumPy, or recorded where a value is traced."""
        if any(isinstance(v, TracedArray) for v in values):
            atoms = self.splice([to_atom(v) for v in values])
            return tuple([wrap_array(a, c_order=False) for a in atoms])  # it may be a view of a cotangent
        graph = self.graph
        env: dict[Var, Any] = dict(zip(graph.inputs, apart(values, self.takes), strict=True))
        env.update(graph.consts)
        run_nodes(graph.nodes, env)
        return tuple(joined([stored(env, out) for out in graph.outputs], self.given))

    def splice(self, atoms: Sequence[Atom]) -> list[Atom]:
        """The cotangents, by nodes that are appended to the builder in force, from *atoms*."""
        return put_together(splice(self.graph, taken_apart(atoms)), [variable(a) for a in self.given])


def _gradient(parts: Sequence[Atom | None], aval: Aval) -> Atom | None:
    """The cotangent of an operand of *aval* from those of its lanes, of which one or both may be None: 0."""
    if all(part is None for part in parts):
        return None
    if not aval.is_complex:
        return _of_shape(parts[0], aval)  # type: ignore[arg-type]
    zero = Lit(0, COMPLEX[aval.dtype], structural=True)
    re, im = [_of_shape(zero if part is None else part, aval) for part in parts]
    return Pair(re, im, aval.dtype)


def _of_shape(grad: Atom, aval: Aval) -> Atom:
    if isinstance(grad, Lit) and aval.shape:
        return broadcast_to(grad, aval.shape)
    return grad


def _renamed(node: Node, names: dict[Var, Var]) -> Node:
    if not any(a in names for a in node.inputs if isinstance(a, Var)):
        return node
    inputs = tuple([names.get(a, a) if isinstance(a, Var) else a for a in node.inputs])
    return Node(node.prim, inputs, node.params, node.outs, node.site)


def splice(graph: Graph, inputs: Sequence[Atom]) -> list[Atom]:
    """The outputs of *graph* over other *inputs*, its nodes appended to the builder in force."""
    builder = current_builder()
    env: dict[Var, Atom] = dict(zip(graph.inputs, inputs, strict=True))
    for var, array in graph.consts:
        assert isinstance(builder, Recorder)
        env[var] = builder.const(array)
    for node in graph.nodes:
        operands = tuple([env[a] if isinstance(a, Var) else a for a in node.inputs])
        env.update(zip(node.outs, builder.emit(node.prim, operands, node.params), strict=True))
    return [env[o] if isinstance(o, Var) else o for o in graph.outputs]
