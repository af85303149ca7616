"""One run of the user's Python: recorded, differentiated, and ready to be given a kernel.

``record`` runs the function on traced arguments and returns a ``Recording``: the simplified graph (results, then what
the guards on floats look at), its canonical form, and the text of the expression that puts the results together
(``Output``).  ``record_pieces`` stops before the derivative and returns ``Pieces``, which ``segments.py`` takes on.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optree

from ..codegen.adjoint import vjp
from ..codegen.canonical import Canonical, canonicalise
from ..codegen.loop_capacity import CAPACITY
from ..codegen.simplify import simplify
from ..codegen.storage import CUDA_PRODUCTS
from ..tracer import npapi  # noqa: F401  (fills the tables of NumPy functions)
from ..tracer.array import TracedArray, to_atom
from ..tracer.aval import FLOAT_KINDS, Aval, is_number
from ..tracer.errors import DifferentiationError, TracegradError, refusals
from ..tracer.evaluate import HOST, Env
from ..tracer.ir import Atom, Graph, Guard, Lit, Node, Var, structural
from ..tracer.ops.elementwise import F
from ..tracer.primitive import CUSTOM
from ..tracer.recorder import Recorder, recording
from ..tracer.roll import roll
from ..tracer.site import at_site
from .calls import ARRAY, DATA, FLOAT, OBJECT, SCALAR, TRACED, Call
from .collector import fewer_collections
from .cuda.availability import require_cuda
from .cuda.unwatched import Unwatched
from .settle import settle
from .state import Snapshot, StatePlan
from .trees import NAMESPACE, Source, make_function, packing

VALUE, GRAD, VALUE_AND_GRAD = "value", "grad", "value_and_grad"


@dataclass(slots=True, frozen=True)
class Mode:
    """What is asked of a function: its value, its gradient with respect to *argnums*, or both."""

    kind: str
    argnums: int | tuple[int, ...] = 0
    has_aux: bool = False

    @property
    def positions(self) -> tuple[int, ...]:
        return (self.argnums,) if isinstance(self.argnums, int) else self.argnums


@dataclass(slots=True)
class Output:
    """What the user gets, as an expression over ``r``, the tuple of a kernel's results.  ``text`` None: the tuple as
    it is."""

    text: str | None
    names: dict[str, Any]
    single: bool  # one result, handed over bare
    statics: tuple[Any, ...]  # parts that are no data, compared when a recording is verified

    def function(self) -> Callable[[Sequence[Any]], Any]:
        source = Source()
        source.names = self.names
        source.lines = [f"return {'r[0]' if self.single else self.text or 'r'}"]
        return make_function("def assemble(r):", source)


@dataclass(slots=True)
class Recording:
    graph: Graph
    canonical: Canonical
    arguments: int  # graph inputs that are arguments or captured arrays; the rest are constants
    captured: list[np.ndarray]  # the captured arrays among them, as they were; emptied when the recording has been used
    output: Output
    numbers: list[Guard]  # guards on floats, by their bits: the last results of the graph
    names: list[str]  # of the graph's inputs, as the user would write them
    changes: list[str] = field(default_factory=list)
    capacities: tuple[int, ...] = ()  # steps that there is room for in its loops
    notes: tuple[str, ...] = ()  # what was decided about its loops
    seconds: dict[str, float] = field(default_factory=dict)
    draws: int = 0  # from the default stream of random numbers, whose state is then the last of the captured arrays

    def same_program(self, other: Recording) -> bool:
        """Do two recordings denote the same computation, constants included?"""
        return (
            same_computation(self, other)
            and self.draws == other.draws
            and self.output.text == other.output.text
            and self.output.single == other.output.single
            and equal_statics(self.output.statics, other.output.statics)
            and len(self.numbers) == len(other.numbers)
        )

    @property
    def facts(self) -> list[tuple[str, bytes]]:
        """What control flow relied on, in a form that can be compared."""
        return [(g.kind, np.asarray(g.expected).tobytes()) for g in (*self.graph.guards, *self.numbers)]


@dataclass(slots=True, eq=False)
class Pieces:
    """A run of the user's Python, not yet differentiated: what ``segments.py`` cuts into pieces."""

    nodes: list[Node]
    guards: list[Guard]  # as they were asked, in order
    sources: list[Var]  # inputs and constants
    env: Env  # the values of those, and of whatever Python asked for
    results: list[Atom]
    loss: Atom | None  # of which gradients are wanted,
    wrt: list[Var]  # with respect to these;
    gradients: list[Var]  # what stands for them among the results
    output: Output

    def assembled(self, found: tuple[Any, ...]) -> Any:
        """What the user gets, of the results' values."""
        if self.output.text is None:
            return found[0] if self.output.single else found
        return self.output.function()(found)


def same_computation(one: Any, other: Any) -> bool:
    """Are the graphs of two recordings the same, sizes, constants and constant arrays included?"""
    a, b = one.canonical, other.canonical
    arrays = [(x, y) for (_, x), (_, y) in zip(one.graph.consts, other.graph.consts, strict=False)]
    return (
        a.key == b.key
        and a.sizes.tobytes() == b.sizes.tobytes()
        and a.consts.tobytes() == b.consts.tobytes()
        and len(one.graph.consts) == len(other.graph.consts)
        and all(x.tobytes() == y.tobytes() for x, y in arrays)
    )


def equal_statics(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(type(x) is type(y) and _equal(x, y) for x, y in zip(a, b, strict=True))


def _equal(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if isinstance(x, np.ndarray):
        return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()
    if isinstance(x, float):
        return np.float64(x).tobytes() == np.float64(y).tobytes()
    return isinstance(x, (int, str, bytes, bool, np.generic, optree.PyTreeSpec)) and bool(x == y)


def record(
    fn: Callable[..., Any], call: Call, mode: Mode, plan: StatePlan, snapshot: Snapshot | None,
    capacities: Sequence[int] = (),
) -> Recording:  # fmt: skip
    """Run *fn* on traced arguments.  With a *snapshot* of the outside state, captured arrays become inputs and
    branches become guards, so that the result can be replayed; without one, Python runs each time and only the kernel
    is kept.  *capacities*: of the recording that this one is to verify."""
    found = _record(fn, call, mode, plan, snapshot, capacities, in_pieces=False)
    assert isinstance(found, Recording)
    return found


def record_pieces(fn: Callable[..., Any], call: Call, mode: Mode, plan: StatePlan) -> Recording | Pieces:
    """As ``record`` without a snapshot, up to the derivative.  A whole ``Recording`` where a derivative runs Python of
    the user's (a ``Function``), which has to happen within the recording."""
    return _record(fn, call, mode, plan, None, (), in_pieces=True)


def _record(
    fn: Callable[..., Any],
    call: Call,
    mode: Mode,
    plan: StatePlan,
    snapshot: Snapshot | None,
    capacities: Sequence[int],
    *,
    in_pieces: bool,
) -> Recording | Pieces:
    clock = time.perf_counter()
    recorder = Recorder()
    if call.device is not None:
        recorder.backend = Unwatched(require_cuda("a call on the device"))
    if not in_pieces:
        recorder.follow_loops()
    recorder.known_capacities = capacities
    names = leaf_names(fn, call)
    wrt = differentiated(call, mode, names) if mode.kind != VALUE else []
    leaves, inputs = list(call.leaves), {}
    for k, (leaf, kind) in enumerate(zip(call.leaves, call.kinds, strict=True)):
        if kind in DATA:
            inputs[k] = recorder.add_input(leaf, f"the argument `{names[k]}`", weak=kind == FLOAT)
            owner = f"the argument `{names[k]}`" if kind == ARRAY else None  # `x += 1` on a scalar makes a new one
            leaves[k] = TracedArray(inputs[k], recorder, owner=owner)
    captured: list[np.ndarray] = []
    changes: list[str] = []
    refusals.last = None
    with fewer_collections(), recording(recorder), _own_words():
        if snapshot is None:
            try:
                args, kwargs = call.rebuild(leaves)
                out = fn(*args, **kwargs)
            finally:
                settle(plan, plan.snapshot(call.objects), lambda value: _plain(value, recorder))
        else:
            captured = list(snapshot.arrays)
            recorder.watch, recorder.may_draw = plan.watch, True
            out, changes = _run_frozen(call, leaves, plan, snapshot, recorder)
        if refusals.last is not None:  # caught by the function, which has not computed what NumPy would have
            refused, message = refusals.last
            raise refused(*message)
        ran = time.perf_counter()
        if not in_pieces:
            roll(recorder, _returned(out), guarded=snapshot is not None)
        if in_pieces and not any(node.prim.kind == CUSTOM for node in recorder.nodes):
            return _pieces(fn, out, mode, call, recorder, [inputs[k] for k in wrt])
        atoms, output = _outputs(fn, out, mode, call, recorder, [inputs[k] for k in wrt], len(wrt))
        changes += recorder.reasons  # an adjoint may run Python too (ops/custom.py)
        numbers = sort_guards(recorder) if snapshot is not None else []
        if snapshot is None:
            recorder.guards[:] = [g for g in recorder.guards if g.kind == CAPACITY]  # Python decides all else anew
        if recorder.stream_state is not None:
            captured.append(recorder.stream_state)
        _finish_output(output, len(atoms), len(numbers))
        atoms += [guard.atom for guard in numbers]
    graph = simplify(recorder.finish(atoms), () if recorder.backend is HOST else CUDA_PRODUCTS)
    derived = time.perf_counter()
    canonical = canonicalise(graph)
    done = time.perf_counter()
    return Recording(
        graph, canonical, len(inputs) + len(captured), captured, output, numbers, list(recorder.input_names), changes,
        tuple(recorder.capacities), tuple(recorder.notes),
        {"record": ran - clock, "derive": derived - ran, "sign": done - derived}, recorder.draws,
    )  # fmt: skip


@contextmanager
def _own_words() -> Iterator[None]:
    """Let our own refusal through where NumPy has wrapped it: ``plain[0] = traced`` raises a bare ValueError."""
    try:
        yield
    except TracegradError:
        raise
    except Exception as error:
        cause = error.__cause__ or error.__context__
        if isinstance(cause, TracegradError):
            raise cause from None
        raise


def _run_frozen(
    call: Call, leaves: list[Any], plan: StatePlan, snapshot: Snapshot, recorder: Recorder
) -> tuple[Any, list[str]]:
    """(what the function returned, what it changed outside itself): it ran with traced stand-ins for the arrays of
    the snapshot."""
    stand_ins: dict[int, TracedArray] = {}
    for array, name in zip(snapshot.arrays, snapshot.array_names, strict=True):
        owner = f"`{name}`, an array from outside the function"
        stand_in = TracedArray(recorder.add_input(array, f"`{name}`"), recorder, owner=owner)
        stand_ins[id(array)] = recorder.captured[id(array)] = stand_in
    substitution = plan.substitute(lambda array, name: stand_ins[id(array)], call.objects, snapshot)
    _replace_objects(call, leaves, substitution.objects)
    args, kwargs = call.rebuild(leaves)
    try:
        with plan.watch():
            out = substitution.fn(*args, **kwargs)
    finally:  # what it has done outside stays done, also when it raises
        changes = list(substitution.changes())
        if changes:
            substitution.writeback(lambda value: _plain(value, recorder))
        after = plan.snapshot(call.objects)
        settle(plan, after, lambda value: _plain(value, recorder))
    return out, changes or plan.changes(snapshot, after)


def _plain(value: Any, recorder: Recorder) -> Any:
    """The value that a traced array stands for, to be kept outside the recording."""
    if not isinstance(value, TracedArray):
        return value
    return np.array(recorder.value(value.atom))[()]


def _replace_objects(call: Call, leaves: list[Any], objects: Sequence[Any]) -> None:
    replaced = iter(objects)
    for k, kind in enumerate(call.kinds):
        if kind == OBJECT:
            leaves[k] = next(replaced)


def leaf_names(fn: Callable[..., Any], call: Call) -> list[str]:
    """How the user would write each leaf: ``w``, ``params['b1']``."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = []
    for accessor in optree.treespec_accessors(call.tree):
        path = list(accessor)
        if path[0].entry == 0:
            position = path[1].entry
            named = position < len(parameters) and parameters[position].kind is not inspect.Parameter.VAR_POSITIONAL
            root = parameters[position].name if named else f"argument {position}"
        else:
            root = str(path[1].entry)
        names.append(root + "".join(f".{p.entry}" if hasattr(p, "field") else f"[{p.entry!r}]" for p in path[2:]))
    return names


# ---- guards --------------------------------------------------------------------------------------------------------


def sort_guards(recorder: Recorder) -> list[Guard]:
    """Let each guard ask for no more than Python saw, and take out those on floats.

    ``if t`` saw only whether *t* is zero and ``int(t)`` only the integral part.  ``float(t)`` saw every bit; NumPy
    and a kernel may differ in the last one, so the kernel hands over its own number and is held to that (see
    ``Path.numbers``).
    """
    kept, numbers = [], []
    for guard in recorder.guards:
        dtype = guard.atom.aval.dtype
        if guard.kind == "bool" and dtype.kind != "b":
            asked = F.ne(guard.atom, structural(0, dtype))
            kept.append(Guard(asked, np.bool_(guard.expected != 0), guard.kind, guard.site, guard.position))
        elif guard.kind in ("int", "index") and dtype.kind in FLOAT_KINDS:
            whole = np.trunc(guard.expected)
            kept.append(Guard(F.trunc(guard.atom), whole, guard.kind, guard.site, guard.position))
        elif dtype.kind in FLOAT_KINDS:
            numbers.append(guard)
        else:
            kept.append(guard)
    recorder.guards[:] = [g for g in kept if not isinstance(g.atom, Lit)]
    return numbers


# ---- differentiation -----------------------------------------------------------------------------------------------


def differentiated(call: Call, mode: Mode, names: Sequence[str]) -> list[int]:
    """The leaves that gradients are taken of."""
    owners = call.owners()
    count = len(call.positional)
    result = []
    for position in mode.positions:
        actual = position + count if position < 0 else position
        if not 0 <= actual < count:
            raise DifferentiationError(
                at_site(
                    f"argnums={mode.argnums}: the call has {count} positional argument{'s' * (count != 1)}; "
                    "pass what is differentiated by position"
                )
            )
        mine = [k for k, o in enumerate(owners) if o == actual]
        for k in mine:
            leaf, kind = call.leaves[k], call.kinds[k]
            if kind in (FLOAT, SCALAR) or (kind in (ARRAY, TRACED) and leaf.dtype.kind in FLOAT_KINDS):
                continue
            what, remedy = _not_a_float(leaf, kind)
            raise DifferentiationError(
                at_site(
                    f"cannot differentiate with respect to `{names[k]}`, {what}: "
                    f"only floats have gradients; pass {remedy}, or choose other argnums"
                )
            )
        result += mine
    return result


def _not_a_float(leaf: Any, kind: str) -> tuple[str, str]:
    if kind in (ARRAY, TRACED):
        return f"an array of {leaf.dtype}", "x.astype(float)"
    if kind == OBJECT:
        return (
            f"an object of type {type(leaf).__name__}",
            "its arrays as arguments of their own (or register the class with optree)",
        )
    remedy = f"{leaf}.0" if isinstance(leaf, int) and not isinstance(leaf, bool) else "a float or a float array"
    return f"{type(leaf).__name__} {leaf!r}", remedy


def scalar_loss(fn: Any, out: Any) -> Atom:
    """*out* as the scalar that is differentiated, or a clear error."""
    if isinstance(out, (TracedArray, float, int, np.generic, np.ndarray)) and not isinstance(out, bool):
        atom = to_atom(out)
        if atom.aval.shape == () and atom.aval.dtype.kind in FLOAT_KINDS:
            return atom
        if atom.aval.shape == () and isinstance(atom, Lit) and not isinstance(out, np.bool_):
            return Lit(atom.value, np.dtype("float64"))
        if atom.aval.shape == ():
            raise DifferentiationError(
                at_site(f"{name_of(fn)} returned {atom.aval.dtype}, which has no gradient; return a float")
            )
        found = f"an array of shape {atom.aval.shape}"
    else:
        found = "None" if out is None else type(out).__name__
    hint = (
        "return (loss, aux) with has_aux=True" if isinstance(out, tuple)
        else "is a return missing?" if out is None
        else "reduce it with np.sum(...) or np.mean(...)"
    )  # fmt: skip
    raise DifferentiationError(at_site(f"a gradient needs a scalar loss, but {name_of(fn)} returned {found}: {hint}"))


def split_aux(fn: Any, out: Any) -> tuple[Any, Any]:
    """(loss, aux) of a function with ``has_aux``."""
    if not (isinstance(out, tuple) and len(out) == 2):
        raise DifferentiationError(
            at_site(
                f"has_aux=True needs a function that returns (loss, aux), "
                f"but {name_of(fn)} returned {type(out).__name__}"
            )
        )
    return out


def name_of(fn: Any) -> str:
    """The function's name, and where it is defined."""
    code = getattr(fn, "__code__", None)
    name = getattr(fn, "__qualname__", None) or repr(fn)
    return name if code is None else f"{name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"


def _returned(out: Any) -> list[Atom]:
    """The traced values in what a function has returned."""
    leaves = optree.tree_leaves(out, none_is_leaf=True, namespace=NAMESPACE)
    return [leaf.atom for leaf in leaves if isinstance(leaf, TracedArray)]


# ---- what comes out ------------------------------------------------------------------------------------------------


def _outputs(
    fn: Any, out: Any, mode: Mode, call: Call, recorder: Recorder, wrt: Sequence[Var], count: int,
    derive: Callable[..., Sequence[Atom]] = vjp,
) -> tuple[list[Atom], Output]:  # fmt: skip
    """(atoms of the graph's results, what they make up)."""
    source = Source("o")
    if mode.kind == VALUE:
        atoms: list[Atom] = []
        text, statics = _pack(out, source, atoms)
        return atoms, Output(text, source.names, False, statics)
    aux: Any = None
    if mode.has_aux:
        out, aux = split_aux(fn, out)
    loss = scalar_loss(fn, out)
    gradients = derive(list(recorder.nodes), loss, structural(1, loss.aval.dtype), wrt)
    atoms = [loss, *gradients]  # a gradient alone has its value in it too: one kernel serves both
    first = len(atoms) - count
    tree = gradient_text(call, mode, source, iter([f"r[{first + k}]" for k in range(count)]))
    extra, statics = _pack(aux, source, atoms) if mode.has_aux else ("", ())
    if mode.kind == GRAD:
        text = f"({tree}, {extra})" if mode.has_aux else tree
    else:
        text = f"((r[0], {extra}), {tree})" if mode.has_aux else f"(r[0], {tree},)"
    return atoms, Output(text, source.names, False, statics)


def _pieces(fn: Any, out: Any, mode: Mode, call: Call, recorder: Recorder, wrt: list[Var]) -> Pieces:
    gradients = [Var(Aval(v.aval.dtype, v.aval.shape)) for v in wrt]
    results, output = _outputs(fn, out, mode, call, recorder, wrt, len(wrt), derive=lambda *_: gradients)
    _finish_output(output, len(results), 0)
    loss = None if mode.kind == VALUE else results[0]
    sources = [*recorder.inputs, *[var for var, _ in recorder.consts]]
    return Pieces(recorder.nodes, recorder.guards, sources, recorder.env, results, loss, wrt, gradients, output)


def _finish_output(output: Output, results: int, hidden: int) -> None:
    """Spare the assembly where the results are what the user gets."""
    if hidden:
        return
    if results == 1 and output.text == "r[0]":
        output.text, output.single = None, True
    elif output.text == "(" + ", ".join([f"r[{k}]" for k in range(results)]) + ",)" and results:
        output.text = None


def gradient_text(call: Call, mode: Mode, source: Source, leaves: Iterator[str]) -> str:
    """The expression for gradients in the structure of the arguments."""
    specs = call.positional
    parts = [packing(source, specs[p], leaves) for p in mode.positions]
    return parts[0] if isinstance(mode.argnums, int) else f"({', '.join(parts)}{',' if parts else ''})"


def _pack(out: Any, source: Source, atoms: list[Atom]) -> tuple[str, tuple[Any, ...]]:
    """The expression for a result tree, whose data is appended to *atoms*; and its parts that are no data."""
    leaves, spec = optree.tree_flatten(out, none_is_leaf=True, namespace=NAMESPACE)
    texts, statics = [], []
    for leaf in leaves:
        if isinstance(leaf, TracedArray):
            texts.append(f"r[{len(atoms)}]")
            atoms.append(leaf.atom)
        elif isinstance(leaf, np.ndarray) and is_number(leaf.dtype):
            texts.append(f"r[{len(atoms)}]")
            atoms.append(to_atom(leaf))
        else:
            texts.append(source.constant(leaf))
            statics.append(leaf)
    return packing(source, spec, iter(texts)), (spec, *statics)
