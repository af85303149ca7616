"""Steps whose log is not closed: their code is analysed (``runtime/state``), and they are recorded twice."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from ..runtime.mode import MISS
from ..runtime.paths.dispatcher import Dispatcher
from ..runtime.paths.entry import MAX_TRANSIENT, Endpoint
from ..runtime.paths.fallback import Live
from ..runtime.paths.family import Variant
from ..runtime.paths.int_arguments import now_numbers
from ..runtime.paths.paths import Path
from ..runtime.record.call_key import Call
from ..runtime.record.recording import Recording
from ..runtime.state.state_plan import Snapshot, StatePlan, floats_compared, numbers_elsewhere
from ..runtime.state.values import partition
from ..tracer.ir.errors import OnlyPythonError
from ..tracer.ir.gc_pause import fewer_collections
from ..tracer.ir.refusals import Refusal
from ..tracer.record.integers import by_value
from ..tracer.record.retry import Options, Retry


class AnalysedSteps(Dispatcher):
    """The part of the ladder below the logged runs."""

    def _by_python(
        self, endpoint: Endpoint, call: Call, known: Sequence[Variant], variant: Variant | None, arrays: Sequence[Any],
        snapshot: Snapshot | None, reason: str, pause: ExitStack,
    ) -> Any:  # fmt: skip
        if call.by_value is not None and not self._analysed_with_numbers(call):
            return by_value({})
        if snapshot is None:
            plan, snapshot = self.plans.state(call, None if variant is None else variant.snapshot, arrays)
        else:
            plan = self.plans.get(call)
        if variant is None and known and call.device is None:
            before, snapshot = snapshot, plan.vary([v.snapshot for v in known], snapshot, call.objects)
            if snapshot is not before:
                varying = [f"`{node.label}`" for node in snapshot.inputs if node.kind == "number" and node.extra]
                reason = now_numbers(varying)
        answer = self._elsewhere(endpoint, call, plan, snapshot)
        if answer is not MISS:
            return answer
        if plan.asks_identity and plan.keep_contents(numbers_elsewhere(snapshot)):
            snapshot.release()
            return Options()
        pause.enter_context(fewer_collections())
        new = _new_variant(call, plan, snapshot)
        paths = () if variant is None else [p for p in variant.paths if not (p.verified and p.numbers)]
        recording = self._run_recorded(endpoint, call, plan, snapshot, paths)
        if isinstance(recording, Live):
            pause.close()
            return self._plainly(endpoint, call, recording)
        if isinstance(recording, Options):
            return recording
        return self._settle(endpoint, call, plan, recording, variant, new, paths, reason)

    def _run_recorded(
        self, endpoint: Endpoint, call: Call, plan: StatePlan, snapshot: Snapshot, paths: Sequence[Path]
    ) -> Recording | Options | Live:
        """A recorded run, the options of another one, or how plain Python answers.  (An answer is not found here: what
        the function raises would have an exception for its context.)"""
        self.stats.traces += 1
        try:
            first = [p for p in paths if not p.verified]
            capacities = first[0].recording.capacities if first else ()
            recording = self._record(endpoint, call, plan, snapshot, capacities)
            recording.known_of_code = plan.known_of_code
            return recording
        except Retry as retry:  # its effects have gone to copies
            return retry.options
        except OnlyPythonError as error:
            return self._without_recording(endpoint, call, error)
        finally:
            snapshot.release()

    def _settle(
        self, endpoint: Endpoint, call: Call, plan: StatePlan, recording: Recording, variant: Variant | None,
        new: Variant, paths: Sequence[Path], reason: str,
    ) -> Any:  # fmt: skip
        """The answer to a recorded call: the *recording*, made in the state of *new* for this *reason*, verifies one of
        the *paths* of *variant*, becomes another path, or is not kept."""
        match = next((p for p in paths if recording.same_program(p.recording)), None)
        keeps = plan.provable and not recording.changes
        verified = match is not None
        if verified and not (match is not None and match.verified):
            reason = "second call: verifies that the recording can be replayed"
        self.stats.note(reason or endpoint.integers.reason(call))
        if not keeps:
            return self._not_kept(endpoint, call, recording, plan)
        # else another thread has made numbers vary meanwhile
        alike = variant is not None and new.of_same_state(variant)
        if match is None and alike and any(not p.verified and _differs(p.recording, recording) for p in paths):
            return self._go_live(endpoint, call, recording, Live(str(Refusal.REPLAY_DIFFERS())))
        if recording.transient is not None and not verified:
            seen = endpoint.transient.keep(call.key, endpoint.transient.get(call.key, 0) + 1)
            if seen > MAX_TRANSIENT:  # another state in each call, as it seems
                return self._go_live(endpoint, call, recording, Live(str(recording.transient)))
        if variant is None or not alike:
            variant = self._variant(endpoint, call, new)
        return self._keep(endpoint, call, variant, recording, match, verified)

    def _analysed_with_numbers(self, call: Call) -> bool:
        """Whether a run of *call* whose code is analysed may have ints as numbers of the run."""
        plan = self.plans.get(call)
        return call.device is None and plan.provable and not (plan.asks_identity or plan.asks_int_identity)

    def _record(
        self, endpoint: Endpoint, call: Call, plan: StatePlan, snapshot: Snapshot, capacities: Sequence[int]
    ) -> Recording:
        raise NotImplementedError


def _new_variant(call: Call, plan: StatePlan, snapshot: Snapshot) -> Variant:
    """The variant of *call* in the state of *snapshot*, without paths."""
    if not plan.asks_identity:
        return Variant(snapshot)
    floats = floats_compared(snapshot)
    data = [*call.data, *snapshot.arrays, *floats]
    return Variant(snapshot, partition(data) if len(data) > 1 and call.device is None else None, floats)


def _differs(known: Recording, recording: Recording) -> bool:
    """Whether a run with the answers of one that is *known* has recorded another program, though nothing more was known
    of the code: another thread may have found a choice meanwhile."""
    return known.known_of_code is recording.known_of_code and (known.answers, known.premises, known.capacities) == (
        recording.answers,
        recording.premises,
        recording.capacities,
    )
