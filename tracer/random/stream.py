"""The default stream of ``tracegrad.random``: keys for calls without one.

Draw number k of the stream uses the key ``fold_in(key(seed), k)``.  The state is an array, [the seed's key, k]: the
draws of a compiled function depend on it, and it is an input of the program like any array from outside.  A call
reads it once, and moves it on by the number of its draws when it has succeeded; so compiled functions and plain
NumPy code take the same numbers from the stream, in the order of the calls.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..ir import forks
from ..ir.errors import UnsupportedError
from ..ir.refusals import Refusal
from ..record.array import TracedArray
from ..record.recorder import Recorder, current_recorder
from . import distributions, keys
from .keys import UINT64, fold_in, key, keys_of

Function = TypeVar("Function", bound=Callable[..., Any])


@functools.lru_cache(maxsize=1024)
def _step(draws: int) -> np.ndarray:
    return np.array([0, draws], UINT64)


class Stream:
    """``state``: uint64 (2,), never written into.  Thread-safe: two draws never get one number."""

    def __init__(self, seed: int) -> None:
        self._lock = forks.lock()
        self.seed(seed)

    def seed(self, seed: Any) -> None:
        upper, lower = (int(half) for half in key(seed))
        self.state = np.array([upper << 32 | lower, 0], UINT64)

    def advance(self, start: np.ndarray, draws: int) -> bool:
        """Move on by *draws* from *start*; False where somebody else has drawn since: then those numbers are taken."""
        with self._lock:
            if self.state is not start:
                return False
            self.state = start + _step(draws)
            return True

    def take(self) -> Any:
        """The key of the next draw, outside the program of a recording."""
        while True:
            start = self.state
            if self.advance(start, 1):
                return keys_of(np.uint32(start[0] >> np.uint64(32)), start[0].astype(np.uint32), start[1])


DEFAULT = Stream(int.from_bytes(os.urandom(7), "little"))


def seed(seed: Any) -> None:
    """Start the default stream anew: draws without a key are a function of *seed* from now on."""
    if current_recorder() is not None:
        raise UnsupportedError.here(
            "tracegrad.random.seed() is called in a function that is being recorded, whose replays would not call "
            "it: call it before, or draw with a key of your own, tracegrad.random.key(seed)"
        )
    DEFAULT.seed(seed)


def next_key() -> Any:
    """The key of the stream's next draw: uint32 (2,)."""
    recorder = current_recorder()
    if recorder is None:
        return DEFAULT.take()
    if recorder.parent is not None:
        raise UnsupportedError.here(
            "random numbers without a key in the body of a loop, which is recorded once: every step would get the "
            "same ones; split a key before, and loop over the keys: keys = tracegrad.random.split(key, n)"
        )
    if not recorder.may_draw:
        recorder.unrepeatable(Refusal.REPLAY_STREAM)
        return DEFAULT.take()
    return _recorded(recorder)


def _recorded(recorder: Recorder) -> Any:
    """As ``next_key``, as a node of the recording."""
    drawn = recorder.drawn
    if drawn.outside:  # which stand before the stream's state among the inputs
        recorder.unrepeatable(Refusal.REPLAY_STREAM)
    if drawn.stream is None:
        drawn.state = DEFAULT.state
        drawn.stream = recorder.add_input(drawn.state, "the default stream of tracegrad.random")
    state = TracedArray(drawn.stream, recorder, owner="the default stream")
    number = state[1] + (UINT64.type(drawn.count) if type(drawn.count) is int else drawn.count)
    if recorder.open_loops:
        recorder.open_loops[-1].wrote(drawn, "count")
    drawn.count, drawn.calls = drawn.count + 1, drawn.calls + 1
    upper, lower = state[0] >> 32, state[0]
    return fold_in(np.stack([upper, lower]).astype(np.uint32), number)


def implicit(function: Function) -> Function:
    """*function*, which takes a key first, for calls without one too."""

    @functools.wraps(function)
    def draw(key: Any = None, *args: Any, **kwargs: Any) -> Any:
        return function(next_key() if key is None else key, *args, **kwargs)

    return draw  # type: ignore[return-value]


bits, split = implicit(keys.bits), implicit(keys.split)
uniform, normal = implicit(distributions.uniform), implicit(distributions.normal)
truncated_normal = implicit(distributions.truncated_normal)
exponential, bernoulli = implicit(distributions.exponential), implicit(distributions.bernoulli)
randint, permutation = implicit(distributions.randint), implicit(distributions.permutation)
choice = implicit(distributions.choice)

__all__ = [
    "bernoulli", "bits", "choice", "exponential", "next_key", "normal", "permutation", "randint", "seed", "split",
    "truncated_normal", "uniform",
]  # fmt: skip
