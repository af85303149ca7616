"""One live run of the user's Python: recorded, differentiated, and ready to be given a kernel for this call.

``record`` runs the function on traced arguments and returns a ``Recording`` (``recording.py``), which ``derive.py``
makes: the simplified graph (results, then the floats that guards compare), its canonical form, and the text of the
expression that puts the results together (``outputs.py``).  Where it is to be run in pieces, it stops before the
derivative and returns ``Pieces``, which ``segments.py`` takes on.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...tracer import numpy_api, scipy_api  # noqa: F401  (fill the tables of functions)
from ...tracer.control.arms import Choices
from ...tracer.control.jitted import recorded_calls
from ...tracer.ir.aval import Aval
from ...tracer.ir.errors import TracegradError, UnsupportedError, unrecordable
from ...tracer.ir.gc_pause import fewer_collections
from ...tracer.ir.graph import Node, Var, building
from ...tracer.ir.interrupts import surely
from ...tracer.ir.primitive import CUSTOM
from ...tracer.ir.refusals import Refusal
from ...tracer.ir.trees import tree_unflatten
from ...tracer.ir.working import Working
from ...tracer.loops.loop_node import note_loops
from ...tracer.numpy_api.hooks import hook_loaded
from ...tracer.numpy_api.python_builtins import refuse_numbers_of_text
from ...tracer.ops.complex import complex_of
from ...tracer.record.array import STAND_INS, WIDE, TracedArray
from ...tracer.record.float_errors import UNWATCHED, quiet_settings
from ...tracer.record.integers import Integers, TracedInt, by_value
from ...tracer.record.made_arrays import check_parts, take_back_guesses
from ...tracer.record.recorder import Recorder, recording
from ...tracer.record.retry import Retry, chosen_anew
from ...tracer.record.undecided import Undecided
from ..cuda.availability import require_cuda
from ..launch import long_loops  # noqa: F401  (runs those that NumPy would take long for)
from ..mode import VALUE, Mode
from ..state.state_graph import StateNode
from .arguments import explain_lists, positional_names
from .call_key import ARRAY, COMPLEX_DATA, DATA, FLOAT, INTEGER, Call
from .complex_data import lanes_of
from .derive import outputs_of, recording_of
from .differentiable import differentiated, leaf_names, loss_of, name_of, split_aux, unlabelled
from .effects import Effects
from .held_values import HeldError, refuse_held, refuse_kept
from .known_programs import constants_as_inputs, key_of
from .learned import Learned
from .live_run import LiveRun
from .outputs import flatten_result, leaf_text
from .reached import Reached
from .recording import Look, Pieces, Recording, UserRun
from .unwrap_tracers import (
    Holders,
    Settled,
    held_elsewhere,
    is_raised_by_python,
)

InPieces = Callable[[Sequence[Node]], bool]  # whether a run with these nodes is wanted in pieces


def record(fn: Callable[..., Any], call: Call, mode: Mode, learned: Learned, look: Look | None = None) -> Recording:
    """Run *fn* on traced arguments, for this call alone: nothing but its kernel is kept.  *look*: the recording is to
    be looked at, and not to be run.

    Raises:
        Retry: the run is to be made again; nothing has been done outside."""
    found = record_pieces(fn, call, mode, learned, lambda nodes: False, look)
    assert isinstance(found, Recording)
    return found


def record_pieces(
    fn: Callable[..., Any], call: Call, mode: Mode, learned: Learned, in_pieces: InPieces, look: Look | None = None
) -> Recording | Pieces:  # fmt: skip
    """As ``record``, up to the derivative where it is wanted *in_pieces*.  A whole ``Recording`` where a derivative
    runs Python of the user's (a ``Function``), which has to happen within the recording.

    Raises:
        Retry: the run is to be made again; nothing has been done outside."""
    if INTEGER in call.kinds:
        raise Retry(by_value({}))
    try:
        return _record(fn, call, mode, learned, in_pieces, look)
    except HeldError as error:
        if error.done or mode.kind == VALUE:
            raise
        unrecordable.discard(error)
        found = _record(fn, call, mode, learned, in_pieces, look)
        found.changes = [Refusal.REPLAY_RETURNS(what=error.what), *found.changes]
        return found
    except Exception as error:
        if isinstance(error, UnsupportedError | TypeError) and hook_loaded():  # what the function itself has imported
            return record_pieces(fn, call, mode, learned, in_pieces, look)
        explain_lists(error, fn, call)
        raise


@dataclass(slots=True)
class Beginning:
    """A run that is about to begin: *inputs* of its recorder for the *leaves* of the call that are data, their *names*,
    and those that it is differentiated by (*wrt*)."""

    recorder: Recorder
    integers: Integers
    inputs: dict[int, Var]
    leaves: list[Any]
    names: Sequence[str]
    wrt: list[int]


def begin(fn: Callable[..., Any], call: Call, mode: Mode, learned: Learned, look: Look | None) -> Beginning:
    """The beginning of a run of *fn* for *call*."""
    hook_loaded()
    recorder = Recorder()
    integers = Integers(recorder)
    if call.device is not None:
        recorder.backend = require_cuda("a call on the device")
    recorder.float_settings, recorder.trusts = quiet_settings(), learned.trusts
    names = integers.names = leaf_names(fn, call)
    wrt = differentiated(call, mode, names) if mode.kind != VALUE else []
    recorder.differentiates = bool(wrt)
    leaves, inputs = list(call.leaves), dict[int, Var]()
    for k, (leaf, kind) in enumerate(zip(call.leaves, call.kinds, strict=True)):
        if kind in DATA:
            inputs[k], traced = traced_argument(integers, leaf, kind, names[k], k)
            leaves[k] = traced if k not in call.repeated else leaves[call.repeated[k]]
    if look is not None and look.abstract:
        recorder.without_values({inputs[k]: names[k] for k in look.abstract})
    recorder.caller.given = {id(leaves[k]): leaf_text(k) for k in reversed(inputs) if type(leaves[k]) is TracedArray}
    return Beginning(recorder, integers, inputs, leaves, names, wrt)


def _record(
    fn: Callable[..., Any], call: Call, mode: Mode, learned: Learned, in_pieces: InPieces, look: Look | None
) -> Recording | Pieces:
    clock = time.perf_counter()
    begun, as_recorded = begin(fn, call, mode, learned, look), look is not None and look.as_recorded
    recorder, inputs, wrt = begun.recorder, begun.inputs, begun.wrt
    recorder.taught = learned.taught
    recorder.code = code = Reached(fn, learned.trust, call.objects)
    unrecordable.clear()
    at_work = Working(f"recording {name_of(fn)}", lambda: len(recorder.nodes))
    with at_work, fewer_collections(), recording(recorder), recorded_calls(), _own_words():
        out = _ran(fn, call, learned, begun, code)
        refused = unrecordable.last()
        if refused is not None:  # caught by the function, which has not computed what NumPy would have
            raise refused
        check_parts(recorder)
        recorder.settle_premise()
        refuse_numbers_of_text(recorder, out)
        recorder.float_settings = UNWATCHED  # derivatives are none of the user's operations
        ran = time.perf_counter()
        run = UserRun(inputs)
        note_loops(recorder)
        begun.integers.rolled(recorder)
        wanted = call.device is None and in_pieces(recorder.nodes)
        if wanted and not any(node.prim.kind == CUSTOM for node in recorder.nodes):
            return _pieces(fn, out, mode, call, begun)
        recorder.drop_guards()
        alike = None if as_recorded else _alike(fn, out, mode, call, begun)
        values = [] if alike is None else constants_as_inputs(recorder)
        known = None if alike is None else learned.programs.find(alike, values)
        if known is not None:
            return known
        found = recording_of(
            run, out, Effects(), recorder, fn, learned, call, mode, wrt, begun.names, values, guarded=False,
            simplified=not as_recorded,
        )  # fmt: skip
    found.changes = list(recorder.reasons)  # an adjoint may run Python too (ops/custom.py)
    found.seconds = {"record": ran - clock, **found.seconds}
    if alike is not None and found.holds_alike:
        learned.programs.keep(alike, found)
    return found


def _alike(fn: Callable[..., Any], out: Any, mode: Mode, call: Call, begun: Beginning) -> Hashable | None:
    """The key that this run shares with others that have the same program; None where that is not known, as of results
    that are more than a loss."""
    if call.device is not None or mode.kind == VALUE or mode.has_aux:
        return None
    consts = [var for var, _ in begun.recorder.consts]
    return key_of(begun.recorder, consts, loss_of(fn, out, mode), call.key, mode)


def _ran(fn: Callable[..., Any], call: Call, learned: Learned, begun: Beginning, code: Reached) -> Any:
    """The result of the run, after which no place of the user's holds a traced value."""
    recorder, wrt = begun.recorder, begun.wrt
    given = call.arguments_over(begun.leaves, positional_names(fn), wrt)
    plain = Settled(lambda value: _number(value, recorder), given.originals)
    plain.run, plain.own_code = recorder.outermost(), True
    recorder.caller.originals = given.originals
    holders, left, out, ended = Holders(recorder, given), True, None, False
    kept: Any = None
    live = LiveRun(learned.trust, given.originals, recorder)  # whose copies live until all is settled
    live.given = {id(c.original): c.given for c in given.containers if c.given is not c.original}
    plain.copies, recorder.prepares = live.stands_for, live.prepares

    def settle_written() -> None:
        plain(tuple(recorder.handed))
        live.written.settle(plain)

    holders.begin()
    try:
        out = live.call(fn, *given.args, **given.kwargs)
        recorder.loops.forget_values()
        if live.unseen:
            given.refuse_two_ways(code.found)
        out = _classified(out, recorder, bool(wrt))
        held = any(array() is not None for array in recorder.made)
        left = given.copies or held or live.has_given or bool(live.written) or not holders.only([out])
        if recorder.left.hashed:
            plain.keys_in(out)
        if left:
            others = held_elsewhere([out], not wrt)
            out = plain.result(out, others)
            if plain.held:
                raise refuse_held(name_of(fn), plain.held[0])
        ended = True
    except BaseException as error:
        plain(error)
        plain.failed = True
        if isinstance(error, UnsupportedError):  # the next call is made without
            take_back_guesses(recorder, error)
        raise
    finally:  # (no cell has the result in it: that would be taken for one of the user's)
        try:
            _whatever_comes(partial(given.write_back, plain))
        finally:
            if left:
                try:
                    _whatever_comes(settle_written)
                finally:
                    lost = ended or live.has_given
                    for again in (False, True):  # it was garbage, perhaps
                        if lost and (not again or gc.collect(1)):
                            lost = not holders.only([out], plain.arrays) or holders.of_made(plain)
                    if lost:
                        with _without_values():
                            holders.settle(plain, out)
                    kept = refuse_kept(name_of(fn), plain.unsettled)
            live.end()
            plain.end()
    if kept is not None and ended:
        raise kept
    return out


def _classified(out: Any, recorder: Recorder, differentiated: bool) -> Any:
    """The result, in which each number has a class, and no table has labels where it is *differentiated*."""
    out = decided(out, differentiated) if recorder.chosen.undecided or recorder.chosen.defers else out
    return unlabelled(out) if differentiated else out


def _whatever_comes(function: Callable[[], None]) -> None:
    """Call *function* to its end, also where an interrupt comes before it has begun."""
    try:
        surely(function)
    except BaseException:
        surely(function)
        raise


@contextmanager
def _without_values() -> Iterator[None]:
    """Let those traced values be that have no value: rows of a batch, and what a run that raises has begun, which code
    around it holds, too."""
    try:
        yield
    except TracegradError as error:
        unrecordable.discard(error)


@contextmanager
def _own_words() -> Iterator[None]:
    """Re-raise our own error where NumPy has wrapped it: ``plain[0] = traced`` raises a bare ValueError."""
    try:
        yield
    except TracegradError:
        raise
    except (Exception, SystemExit) as error:
        cause = error.__cause__ or error.__context__
        if isinstance(cause, TracegradError):
            raise cause from None
        refused = unrecordable.last()
        if refused is not None:  # C code has said something else instead
            raise refused from error
        raise


def traced_argument(
    integers: Integers, leaf: Any, kind: str, name: str, place: int, add_input: Callable[..., Var] | None = None
) -> tuple[Var, Any]:  # fmt: skip
    """(the input of the recording for an argument *leaf* of this *kind*, which is data; what the run gets for it: a
    traced array or int).  *add_input*: as of the recorder, which does it otherwise."""
    text, recorder = f"the argument `{name}`", integers.recorder
    add_input = add_input or recorder.add_input
    if kind == INTEGER:
        made = add_input(float(leaf), text, weak=True)  # as the launcher takes an int
        return made, integers.stand_in(made, leaf, place)
    if kind == COMPLEX_DATA:
        made = add_input(lanes_of(leaf), text)
        with building(recorder):
            whole = complex_of(made, getattr(leaf, "dtype", WIDE), weak=type(leaf) is complex)
        return made, TracedArray(whole, recorder, owner=None if isinstance(leaf, (complex, np.generic)) else text)
    made = add_input(leaf, text, weak=kind == FLOAT)
    # `x += 1` on a scalar makes a new one
    return made, TracedArray(made, recorder, owner=text if kind == ARRAY else None)


def stand_in_of(node: StateNode, integers: Integers, add_input: Callable[..., Var]) -> TracedArray | TracedInt:
    """The stand-in for an array or a number of the outside state, of which *add_input* (value, name, weak) makes an
    input."""
    name, kind = f"`{node.label}`", type(node.obj)
    recorder = integers.recorder
    # the launcher takes an int as a float
    var = add_input(float(node.obj) if kind is int else node.obj, name, weak=kind in (int, float))
    recorder.outside[var] = frozenset((var,))
    if kind is int:
        return integers.stand_in(var, node.obj, node.label)
    owner = None if node.kind == "number" else f"{name}, an array from outside the function"
    return TracedArray(var, recorder, owner=owner)


def needed(recorder: Recorder, choices: Choices | None, raised: BaseException | None) -> Retry | None:
    """Why a run that has *raised* this is to be made again: what it has said itself, whatever became of it, or how it
    has ended."""
    with suppress(Retry):
        if recorder.guessed and (refused := unrecordable.last()) is not None:
            take_back_guesses(recorder, refused)
        if recorder.needed is None and (written := recorder.written_choice()) is not None:
            recorder.refuse_choice(written, Refusal.CHOICE_WRITTEN())
        if recorder.needed is None and recorder.arms:  # one has raised
            recorder.arms[0].give_up(Refusal.CHOICE_RAISES())
    if choices and recorder.chosen.undecided and isinstance(raised, Exception) and not is_raised_by_python(raised):
        undecided = recorder.chosen.undecided  # it takes numbers alone
        choices.refused.update(dict.fromkeys(undecided, Refusal.CHOICE_CLASS()))
        with suppress(Retry):
            recorder.again(chosen_anew())
    return recorder.needed


def decided(out: Any, differentiated: bool) -> Any:
    """A result in which each number has a class, where that shows: a float is as good as another, and so is a loss."""
    leaves, spec = flatten_result(out)
    if not any(type(x) in STAND_INS for x in leaves):
        return out

    def settled(x: Any, k: int) -> Any:
        if type(x) is Undecided and (x.number.ranks <= {1, 2} or (differentiated and k == 0)):
            return x.of_rank(2)
        return x.decided() if type(x) in STAND_INS else x

    return tree_unflatten(spec, [settled(x, k) for k, x in enumerate(leaves)])


def _number(value: TracedArray, recorder: Recorder) -> Any:
    """The value that a traced array stands for, to be kept outside the recording."""
    found = np.array(recorder.value(value.atom))[()]
    return found.item() if value.aval.weak else found


# ---- what comes out ------------------------------------------------------------------------------------------------


def _pieces(fn: Any, out: Any, mode: Mode, call: Call, begun: Beginning) -> Pieces:
    recorder, leaves, wrt = begun.recorder, begun.wrt, [begun.inputs[k] for k in begun.wrt]
    gradients = [Var(Aval(v.aval.dtype, v.aval.shape)) for v in wrt]
    results, output = outputs_of(
        fn, out, mode, call, recorder, leaves, wrt, derivative=lambda *_: gradients, conjugate=True
    )
    output.simplify(len(results))
    loss = None
    if mode.kind != VALUE:
        loss = loss_of(fn, split_aux(fn, out)[0] if mode.has_aux else out, mode)[1] if mode.holomorphic else results[0]
    sources = [*recorder.inputs, *[var for var, _ in recorder.consts]]
    return Pieces(
        recorder.nodes, recorder.guards, sources, recorder.env, results, loss, wrt, gradients, output,
        list(recorder.reasons),
    )  # fmt: skip
