"""Functions that keep their results (``functools.lru_cache``), as converted code calls them.

A call of plain values is made on the cache itself, and each replay makes it again (``Cached``): what the recording
rests on is what it gives, whatever the function in it reads.  A call of traced values goes past the cache, to the copy
of the function in it, once for the same values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tracer.ir.refusals import Refusal
from ...tracer.record.array import TracedArray, class_of, is_traced
from ...tracer.record.recorder import Recorder, nothing_recorded
from ..record.kinds import TRACED
from ..state.kept_cache import Cached, _arrays
from ..state.values import is_leaf, token
from .containers import Containers
from .reads import ReadLog
from .writes import Written


class AskedWrites(dict[int, Written]):
    """The writes of a run, and whether any of them was ``found``."""

    found = False

    def get(self, key: Any, default: Any = None) -> Any:
        value = super().get(key, default)
        self.found |= value is not None
        return value

    def setdefault(self, key: int, default: Any = None) -> Any:
        self.found |= key in self
        return super().setdefault(key, default)


class KeptResults(Containers):
    """The part of a run that calls functions with caches."""

    def __init__(self, reads: ReadLog, recorder: Recorder) -> None:
        super().__init__(reads, recorder)
        self._results: dict[Any, tuple[Any, Any]] = {}  # calls of traced values: (the values, the result)

    def through_cache(self, f: Any, args: Any, kwargs: Any) -> Any:
        """``f(*args, **kwargs)`` of a function with a cache."""
        values = [*args, *kwargs.values()]
        if any(type(x) in TRACED for x in values):
            return self._past(f, args, kwargs, values)
        node = self.reads.node_of(f)
        known = [is_leaf(x) or self._is_outside(x) for x in values]
        if node is None or not all(known) or self.loops or self.recorder.arms or is_traced(values):
            raise self.refuse(f"`{f.__name__}`, which keeps its results")
        asked = self.writes = AskedWrites(self.writes)
        result = self._computed(
            self.reads.read(node, "const", "__wrapped__", f.__wrapped__, f.__name__), args, kwargs
        )  # fmt: skip
        self.writes = dict(asked)
        if asked.found or self._of_tensors(result):
            raise self.refuse(f.__name__, Refusal.LOG_KEPT)
        with nothing_recorded():
            answer = f(*args, **kwargs)
        if _arrays(answer) is None:
            raise self.refuse(f"`{f.__name__}`, which keeps objects")
        found = Cached(f, args, kwargs, answer, self.reads.ids())
        if found not in self.recorder.answered.questions:
            self.recorder.answered.questions.append(found)
        return _fixed(answer)

    def _computed(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The result of the function in a cache, which must do nothing else: the cache decides in which calls it
        runs."""
        printed, draws, written = len(self.texts.printed), self.recorder.drawn.calls, len(self.writes)
        result = self.call(function, *args, **kwargs)
        if len(self.writes) > written or len(self.texts.printed) > printed or self.recorder.drawn.calls != draws:
            raise self.refuse(f"`{function.__name__}`, which keeps its results, and does more than compute")
        return result

    def _of_tensors(self, result: Any) -> bool:
        """Whether a result may come from a tensor, whose memory the run may have written to."""
        return self.reads.writes_arrays and is_traced([result])

    def _is_outside(self, value: Any) -> bool:
        node = self.reads.node_of(value)
        return node is not None and node.kind not in ("argument", "array")

    def _past(self, f: Any, args: Any, kwargs: Any, values: list[Any]) -> Any:
        """A call of traced values, of which those that are numbers may be keys of the cache."""
        numbers = all(is_leaf(x) or (type(x) is TracedArray and class_of(x) is not np.ndarray) for x in values)
        if not numbers or self.loops or self.recorder.arms:
            raise self.refuse(f"`{f.__name__}`, which keeps its results, of a traced value")
        key = id(f), *map(_key, args), *[(name, _key(x)) for name, x in kwargs.items()]
        if key not in self._results:
            function = self.reads.read(self._cache_node(f), "const", "__wrapped__", f.__wrapped__, f.__name__)
            self._results[key] = (f, values), self._computed(function, args, kwargs)
        return self._results[key][1]

    def _cache_node(self, f: Any) -> Any:
        node = self.reads.node_of(f)
        if node is None:
            raise self.refuse(f"`{f.__name__}`, which keeps its results")
        return node


def _key(value: Any) -> Any:
    return token(value) if is_leaf(value) else id(value)


def _fixed(answer: Any) -> Any:
    """An answer whose arrays can't be written to."""
    if type(answer) is tuple:
        return tuple(map(_fixed, answer))
    if type(answer) is np.ndarray:
        answer = answer.view()
        answer.flags.writeable = False
    return answer
