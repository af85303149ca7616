"""A call recorded to be looked at: the function and its caches stay as they are."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...tracer.ir.errors import DifferentiationError
from ...tracer.ir.interrupts import put_back, state
from ...tracer.ir.refusals import Reason
from ...tracer.record.retry import MAX_RUNS, Options, Retry
from ..mode import VALUE, Mode
from ..paths.dispatcher import FunctionDispatcher
from ..record.call_key import Call
from ..record.record import record
from ..record.recording import Look, Recording
from ..state.snapshot import Snapshot


class Looked(NamedTuple):
    """A call's program, recorded anew: in the mode that was asked for, or, as the *note* says, of the value alone.
    *reasons*: why Python has to run in each call, if it has to."""

    call: Call
    mode: Mode
    snapshot: Snapshot | None
    recording: Recording
    note: str
    reasons: list[Reason]


def recorded(
    dispatcher: FunctionDispatcher, call: Call, mode: Mode, how: Look | None = None, paths: int = 0
) -> tuple[Snapshot | None, Recording, list[Reason]]:
    """(what the run has read outside, a new recording of the *call*, why Python has to run in each such call);
    *how* it is looked at, and how many *paths* are taken to be known."""
    found = dispatcher.run_of_copy(call, mode, paths=paths, look=how)
    learned = dispatcher.learned
    if found is not None and type(found) is not Options:
        if found.recording.drawn is not None:
            found.recording.drawn.undo()
        return found.snapshot, found.recording, []
    for _ in range(MAX_RUNS + 1):
        try:
            recording = record(dispatcher.fn, call, mode, learned, how)
        except Retry as retry:
            learned.follow(retry.options)
            continue
        return None, recording, dispatcher.unseen(call) or recording.changes
    raise AssertionError


def look(dispatcher: FunctionDispatcher, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Looked:
    """Record the call: its Python runs once more."""
    before = state()
    try:
        return _look(dispatcher, mode, args, kwargs)
    except BaseException as error:
        put_back(before, error)
        raise


def _look(dispatcher: FunctionDispatcher, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Looked:
    call = dispatcher.flatten(args, kwargs, mode)
    note = ""
    try:
        snapshot, recording, reasons = recorded(dispatcher, call, mode)
    except DifferentiationError as error:
        note = f"\nno gradient, so this is its value alone: {str(error).splitlines()[0]}"
        mode = Mode(VALUE, mode.argnums, mode.has_aux)
        snapshot, recording, reasons = recorded(dispatcher, call, mode)
    return Looked(call, mode, snapshot, recording, note, reasons)
