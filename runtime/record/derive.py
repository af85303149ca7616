"""The recording of a run of the user's Python for one mode: its derivative, its results, its canonical form.

``record.py`` keeps a run that may be replayed as it was before its derivative (``UserRun``), so that the recordings of
other modes are derived from it without running Python again.
"""

from __future__ import annotations

import operator
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...codegen.derive.adjoint import vjp
from ...codegen.derive.loop_adjoint import fresh
from ...codegen.lower.canonical import canonicalise
from ...codegen.lower.half_precision import CUDA_PRODUCTS
from ...codegen.lower.simplify import simplify
from ...codegen.lower.strips import in_strips
from ...tracer.ir.aval import FLOAT_KINDS, is_number
from ...tracer.ir.errors import TracegradError
from ...tracer.ir.evaluate import HOST, Backend
from ...tracer.ir.gc_pause import fewer_collections
from ...tracer.ir.graph import Atom, Guard, Lit, Node, Var, structural
from ...tracer.ir.site import user_site
from ...tracer.ir.trees import tree_unflatten
from ...tracer.ir.working import Working
from ...tracer.ops.custom import runs_python
from ...tracer.record.array import TracedArray, to_atom
from ...tracer.record.integers import TracedInt
from ...tracer.record.recorder import Recorder, recording
from ...tracer.record.retry import Retry
from ..cuda.availability import require_cuda
from ..mode import GRAD, VALUE, Mode
from .call_key import COMPLEX_DATA, Call
from .complex_data import as_result, conjugated, gradient_text_of, text_of
from .derived import DerivedInputs
from .differentiable import (
    differentiated,
    gradient_text,
    leaf_names,
    loss_of,
    split_aux,
    unconnected,
    unconnected_text,
)
from .effects import Effects
from .learned import Learned
from .outputs import Output, data_made, data_of, flatten_result, packed
from .recording import Held, Recording, UserRun, are_twins
from .rows import weakened
from .trees import Source


def derived(
    known: Recording, own: Mode, mode: Mode, fn: Callable[..., Any], learned: Learned, call: Call, captured: list[Any]
) -> Recording | None:  # fmt: skip
    """The recording for *mode* that is derived from the *known* one for its *own*, as that of a *call* which goes the
    same way; *captured*: its inputs after the arguments.  None where Python has to run for it, or to raise an error."""
    if are_twins(own, mode):
        found = known.twin(captured)
    else:
        found = None if known.run is None else _derive(known.run, fn, learned, call, mode, captured)
    return None if found is None else replace(found, origin=own)


def _derive(
    run: UserRun, fn: Callable[..., Any], learned: Learned, call: Call, mode: Mode, captured: list[Any]
) -> Recording | None:  # fmt: skip
    if mode.kind != VALUE and not run.differentiable:
        return None
    names = leaf_names(fn, call)
    try:
        wrt = differentiated(call, mode, names) if mode.kind != VALUE else []
        recorder = _recorder(run, HOST if call.device is None else require_cuda("a call on the device"))
        values = map(recorder.backend.asarray, [*call.operands, *captured])
        recorder.env.update(zip(recorder.inputs, values, strict=True))
        with fewer_collections(), recording(recorder):
            out, effects = _restated(run, recorder)
            found = recording_of(run, out, effects, recorder, fn, learned, call, mode, wrt, names, captured)
    except TracegradError:
        return None
    return None if recorder.reasons else replace(found, run=run)


def recording_of(
    run: UserRun, out: Any, effects: Effects, recorder: Recorder, fn: Callable[..., Any], learned: Learned, call: Call,
    mode: Mode, wrt: Sequence[int], names: Sequence[str], captured: list[Any], guarded: bool = True,
    simplified: bool = True,
) -> Recording:  # fmt: skip
    """The recording of *run*, whose program *recorder* holds and which returned *out*; the derivative with respect to
    the leaves *wrt* becomes part of that program.  *captured*: values of the inputs after the arguments.  Where it is
    not *guarded*, Python decides in each call."""
    began = time.perf_counter()
    returned = dict[int, int]()
    variables = {names[k]: run.arguments[k] for k in wrt}
    lanes = [place for place, k in enumerate(wrt) if call.kinds[k] == COMPLEX_DATA]

    def derivative(nodes: Sequence[Node], loss: Atom, cotangent: Atom, wrt: Sequence[Var]) -> Sequence[Atom]:
        _tell_unconnected(fn, learned, recorder, nodes, loss, variables)
        with Working("derivative", len(nodes)):
            found = vjp(nodes, loss, cotangent, wrt)
        try:
            recorder.settle_premise()  # what the rules of derivation rely on
        except Retry as unmet:
            raise unmet.error or unmet from None
        return [conjugated(g) if k in lanes else g for k, g in enumerate(found)]

    atoms, output = outputs_of(
        fn, out, mode, call, recorder, wrt, list(variables.values()), derivative, returned=returned, live=not guarded
    )
    numbers = sort_guards(recorder) if guarded else []
    alike = not guarded and not recorder.guards
    if not guarded:
        recorder.drop_guards()  # Python decides all else anew
    if run.inputs is None:
        run.derived = _derived(recorder, captured, len(run.arguments))
        if run.derived is not None:
            captured += run.derived.results
        if run.drawn is not None:
            captured += run.drawn.first
        if recorder.drawn.state is not None:
            captured.append(recorder.drawn.state)
        run.inputs, run.names = recorder.inputs, recorder.input_names
        run.draws, run.questions = operator.index(recorder.drawn.count), tuple(recorder.answered.questions)
    if not numbers and not effects.arrays:
        output.simplify(len(atoms))
    effects.place(atoms, returned)
    atoms += [guard.atom for guard in numbers]
    graph = recorder.finish(atoms)
    with Working("simplification", len(graph.nodes)):
        if simplified:
            graph = simplify(graph, () if recorder.backend is HOST else CUDA_PRODUCTS)
        if recorder.backend is HOST:
            graph, decisions = in_strips(graph)
            recorder.notes += decisions
        derived = time.perf_counter()
        canonical = canonicalise(graph)
    seconds = {"derive": derived - began, "sign": time.perf_counter() - derived}
    return Recording(
        graph, canonical, len(run.arguments) + len(captured), captured, output, numbers, run.names,
        capacities=tuple(recorder.capacities), notes=tuple(recorder.notes), seconds=seconds, draws=run.draws,
        effects=effects.effects, derived=run.derived, drawn=run.drawn,
        questions=run.questions, holds_alike=alike,
    )  # fmt: skip


# ---- runs that are kept --------------------------------------------------------------------------------------------


def keep(run: UserRun, recorder: Recorder, out: Any, effects: Effects) -> bool:
    """Keep in *run* what another recording can be derived from; False where there is none."""
    if any(map(runs_python, recorder.nodes)):
        return False
    leaves, run.structure = flatten_result(out)
    held: dict[int, Held] = {}

    def hold(value: Any) -> Any:
        if type(value) is TracedInt:
            value = value.array()
        if type(value) is TracedArray or (isinstance(value, np.ndarray) and is_number(value.dtype)):
            return held.setdefault(id(value), Held(to_atom(value), recorder.caller.given.get(id(value))))
        return value

    run.leaves, run.arrays = [*map(hold, leaves)], [*map(hold, effects.arrays)]
    run.effects = effects.effects
    run.nodes = fresh(recorder.nodes)
    run.guards, run.consts, run.notes = list(recorder.guards), list(recorder.consts), list(recorder.notes)
    run.capacities = list(recorder.capacities)
    run.differentiable = recorder.left.checked
    return True


def _recorder(run: UserRun, backend: Backend) -> Recorder:
    """A recorder in the state in which the first one was before the derivative."""
    recorder = Recorder()
    recorder.backend, recorder.inputs, recorder.input_names = backend, run.inputs or [], run.names
    recorder.guards, recorder.consts, recorder.notes = list(run.guards), list(run.consts), list(run.notes)
    recorder.capacities = list(run.capacities)
    recorder.env.update(run.consts)
    recorder.adopt(fresh(run.nodes))
    return recorder


def _restated(run: UserRun, recorder: Recorder) -> tuple[Any, Effects]:
    """(the result of the run, its effects) over traced arrays of *recorder*."""
    stand_ins: dict[int, TracedArray] = {}

    def restate(leaf: Any) -> Any:
        if type(leaf) is not Held:
            return leaf
        if id(leaf) not in stand_ins:
            stand_ins[id(leaf)] = made = TracedArray(leaf.atom, recorder)
            if leaf.given is not None:
                recorder.caller.given[id(made)] = leaf.given
        return stand_ins[id(leaf)]

    out = tree_unflatten(run.structure, map(restate, run.leaves))
    effects = Effects(list(run.effects), [*map(restate, run.arrays)])
    return out, effects


# ---- guards --------------------------------------------------------------------------------------------------------


def sort_guards(recorder: Recorder) -> list[Guard]:
    """Weaken each guard to what Python saw (``weakened``), and take out those on floats.

    ``float(t)`` saw every bit; NumPy and a kernel may differ in the last one, so the kernel hands over its own number
    and is held to that (see ``Path.numbers``).
    """
    kept: list[Guard] = []
    numbers: list[Guard] = []
    for guard in map(weakened, recorder.guards):
        seen_whole = guard.kind in ("int", "index")
        (numbers if guard.atom.aval.dtype.kind in FLOAT_KINDS and not seen_whole else kept).append(guard)
    recorder.guards[:] = [g for g in kept if not isinstance(g.atom, Lit)]
    return numbers


def outputs_of(
    fn: Any, out: Any, mode: Mode, call: Call, recorder: Recorder, wrt: Sequence[int], variables: Sequence[Var],
    derivative: Callable[..., Sequence[Atom]], returned: dict[int, int] | None = None, live: bool = False,
    conjugate: bool = False,
) -> tuple[list[Atom], Output]:  # fmt: skip
    """(atoms of the graph's results, the ``Output`` over them).  *wrt*: the leaves to differentiate, which *variables*
    stand for.  *returned* gets the places of traced arrays among the results, by id.  *live*: Python runs in each call.
    *conjugate*: complex gradients are still to be conjugated."""
    source = Source("o")
    given, data = (recorder.caller.given, data_made if live else data_of) if call.device is None else (None, data_of)
    if mode.kind == VALUE:
        atoms: list[Atom] = []
        text, statics = packed(out, source, atoms, returned, data, given)
        return atoms, Output(text, source.names, False, statics)
    aux: Any = None
    if mode.has_aux:
        out, aux = split_aux(fn, out)
    value, loss = loss_of(fn, out, mode)
    gradients = derivative(list(recorder.nodes), loss, structural(1, loss.aval.dtype), variables)
    atoms = [as_result(value), *gradients]  # a gradient alone has its value in it too: one kernel serves both
    texts = []
    for k, leaf in enumerate(wrt):
        text, given_for = f"r[{1 + k}]", call.leaves[leaf]
        texts.append(gradient_text_of(given_for, source, text, conjugate) if call.kinds[leaf] == COMPLEX_DATA else text)
    tree = gradient_text(call, mode, source, iter(texts))
    if returned is not None and isinstance(out, TracedArray) and out.atom is loss:
        returned[id(out)] = 0
    extra, statics = packed(aux, source, atoms, returned, data, given) if mode.has_aux else ("", ())
    alone = f"({tree}, {extra})" if mode.has_aux else tree
    shown = text_of(value.aval, source, "r[0]")
    both = f"(({shown}, {extra}), {tree})" if mode.has_aux else f"({shown}, {tree},)"
    text, other = (alone, both) if mode.kind == GRAD else (both, alone)
    return atoms, Output(text, source.names, False, statics, Output(other, source.names, False, statics))


def _tell_unconnected(
    fn: Any, learned: Learned, recorder: Recorder, nodes: Sequence[Node], loss: Atom, wrt: dict[str, Var]
) -> None:
    """Note which of *wrt* (by name) the loss does not depend on; where that is all, warn once, at the user's call."""
    apart = unconnected(nodes, loss, list(wrt.values()))
    if not apart:
        return
    text = unconnected_text(fn, [list(wrt)[k] for k in apart])
    recorder.notes.append(text)
    site = user_site()
    if len(apart) == len(wrt) and text not in learned.told and site is not None:
        learned.told.add(text)
        warnings.warn_explicit(text, UserWarning, site.file, site.line)


def _derived(recorder: Recorder, captured: Sequence[Any], arguments: int) -> DerivedInputs | None:
    """The derived inputs, which come after those that are *captured*."""
    if not recorder.answered.derived:
        return None
    if recorder.drawn.stream is not None:  # the last
        at = recorder.inputs.index(recorder.drawn.stream)
        recorder.inputs.append(recorder.inputs.pop(at))
        recorder.input_names.append(recorder.input_names.pop(at))
    return DerivedInputs(
        list(recorder.answered.derived.values()), recorder.inputs[arguments:][: len(captured)], captured
    )
