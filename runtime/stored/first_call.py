"""The first calls of a compiled function, before it has a dispatcher.

A :class:`First` stands in place of each endpoint. It looks for a plan on disk; where there is none, the dispatcher is
made, and the tracer imported. Each call is compared with the text in full, which takes a fraction of a millisecond; the
tracer takes hundreds. So a plan answers some calls (``config.disk_answers``, if that takes no more than
:data:`PATIENCE` seconds), and then one is recorded, and that recording has to be the one of the plan
(``keep.py``).

A function that was sent here as code is answered by what an earlier copy of it has learned (``sent_functions.py``).
"""

from __future__ import annotations

import re
import sys
import time
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ...codegen.cpu.symbols import UnknownSymbolError
from ...tracer.ir.gc_pause import imported_to_stay
from ...tracer.ir.settings import AUTOCAST
from ...tracer.ir.site import OWN_FOLDER
from ..config import config, default_dtype
from ..disk.encoding import EncodingError, encode
from ..disk.generation import generation
from ..disk.location import cache_directory
from ..disk.store import store
from ..mode import MISS, VALUE_AND_GRAD, Mode
from ..stats import FROM_DISK, Stats
from ..wrapper import came_as_code, layers
from .call_text import CallText
from .library_text import NotStoredError
from .plan_file import StoredPlan, unpacked
from .reads_text import read_again

KIND = "plan"
HOST_TARGETS = ("cpu", "auto")  # of functions whose calls with NumPy's arrays run on the host
_PLAIN_ERRORS = frozenset(("ignore", "warn"))

#: Whether nothing around a call records: asked of those who would, once they have been imported.
AROUND: list[Callable[[], bool]] = []

_SOLVERS = re.compile(r"[\\/]scipy[\\/](optimize|_lib)[\\/]")

PATIENCE = 0.05  # seconds that answers of a function may take longer than replays

#: What the recordings of plans were like that have answered calls, by their keys: answers -> program (``StoredPlan``).
Answered = dict[bytes, dict[bytes, bytes]]


class Key:
    """The key of the plan for a call of *fn*.

    A plan has with it what its run has read (``reads_text.py``), so that the key has no more of the function than which
    one it is.

    Raises:
        NotStoredError: there can be none.
    """

    def __init__(
        self, fn: Callable[..., Any], mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:  # fmt: skip
        errors = np.geterr()
        if not _PLAIN_ERRORS.issuperset(errors.values()):
            raise NotStoredError("NumPy is to raise floating-point errors")
        argnums = mode.argnums if isinstance(mode.argnums, int) else ("several", *mode.argnums)
        try:
            self.call = CallText(args, kwargs)
            self.roots = (fn, *self.call.objects)
            made_by = generation()
            self.text = encode((
                made_by, np.__version__, sys.version, (mode.kind, argnums, mode.has_aux, mode.holomorphic),
                tuple(errors.items()), repr(sorted(np.get_printoptions().items())),
                which(fn), self.call.text,
            ))  # fmt: skip
        except EncodingError as error:
            raise NotStoredError(f"it reads {error}") from None
        except RecursionError:
            raise NotStoredError("it reads values that are nested too deeply") from None
        if made_by is None:
            raise NotStoredError("the library's own sources are not there, or have changed: it rests on them")


def which(fn: Callable[..., Any]) -> Any:
    """The text of which function *fn* is: what it does is told by what it reads."""
    if isinstance(fn, types.MethodType):
        return "method", which(fn.__func__)
    if not isinstance(fn, types.FunctionType):
        return "object", str(type(fn).__module__), type(fn).__qualname__
    return "logged", str(fn.__module__), fn.__qualname__, fn.__code__.co_code


def plans_of(key: Key) -> list[StoredPlan]:
    """The plans that are kept under *key*."""
    try:
        return unpacked(store.view(KIND, key.text))
    except (EncodingError, ValueError, TypeError, KeyError):  # which this version has not written
        store.drop(KIND, key.text)
        return []


class FirstCalls:
    """The first calls of *fn*, which may be answered from disk if it is *plain*: run on the host, without settings
    among its arguments. *compiled*: its compiled form, which is referred to weakly."""

    def __init__(self, fn: Callable[..., Any], plain: bool, stats: Stats, compiled: Callable[[], Any]) -> None:
        self.answered: Answered = {}
        self._counts: Counter[bytes] = Counter()
        self._plans: dict[bytes, list[StoredPlan]] = {}
        self._spent = 0.0
        self._fn, self._plain, self.stats = fn, plain, stats
        self._compiled = compiled
        self._guest: Any = None  # False: it was not sent here

    def answer(self, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer to a call that another copy of the function, or a plan on disk knows, else ``MISS``."""
        refuse_solvers_of_numbers(mode)
        if self._guest is None:
            sent = came_as_code(layers(self._fn)[-1])
            self._guest = sent and imported_to_stay(".sent_functions", __package__).Guest(self._compiled())
        if self._guest and all(asked() for asked in AROUND):
            return self._guest.answer(mode, args, kwargs)
        if not self._plain or not answers_alone():
            return MISS
        return self._by_plans(mode, args, kwargs)

    def _by_plans(self, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer of a plan."""
        clock = time.thread_time()
        try:
            key = Key(self._fn, mode, args, kwargs)
        except NotStoredError:
            return MISS
        count = self._counts[key.text]
        if count and (count >= config.disk_answers or self._spent > PATIENCE):
            self._plans.pop(key.text, None)
            return MISS
        if not count:
            self._plans[key.text] = plans_of(key)
        self._spent += time.thread_time() - clock
        for plan in self._plans.get(key.text, ()):
            arrays = read_again(plan.reads, key.roots)
            if arrays is None:
                continue
            try:
                found = plan.answer(key.call.data, arrays)
            except UnknownSymbolError:
                continue
            if found is not None:
                self.answered.setdefault(key.text, {})[plan.answers] = plan.program
                self._counts[key.text] = count + 1
                self.stats.from_disk += 1
                if config.perf_map:
                    perf_map = imported_to_stay("..launch.perf_map", __package__)
                    perf_map.add(self.stats.name, plan.code, plan.loaded[0], plan.symbol)
                for tell in FROM_DISK:
                    tell(self.stats.name, time.thread_time() - clock)
                return found[0]
        return MISS


def refuse_solvers_of_numbers(mode: Mode) -> None:
    """Raise where a function of scipy.optimize has called a ``value_and_grad`` for a number, as ``minimize`` does
    without ``jac=True``; what it says of the pair does not tell why.  (A slot does not look: this costs a µs.)"""
    if mode.kind != VALUE_AND_GRAD or "scipy.optimize" not in sys.modules:
        return
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    code = None if frame is None else frame.f_code
    if code is None or not _SOLVERS.search(code.co_filename) or code.co_qualname.startswith("Memoize"):
        return  # (MemoizeJac and MemoizeDer take pairs apart)
    raise TypeError(
        "scipy.optimize was given f.value_and_grad where it wants a function of one number: write jac=True beside it, "
        "as in minimize(f.value_and_grad, x0, jac=True) (root_scalar: fprime=True), or pass f itself: minimize(f, x0), "
        "minimize(f, x0, jac=f.grad)"
    )


class First:
    """The stand-in for the endpoint of *mode* until there is a dispatcher."""

    __slots__ = ("_calls", "mode")

    def __init__(self, calls: FirstCalls, mode: Mode) -> None:
        self._calls, self.mode = calls, mode

    def first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer to a call, or ``MISS``."""
        return self._calls.answer(self.mode, args, kwargs)


def answers_alone() -> bool:
    """Whether plans count for a call that is made now: files are kept, nothing around the call records, and no setting
    changes what it computes."""
    if config.check or not config.cache_recordings or cache_directory() is None or default_dtype.dtype != np.float64:
        return False
    return AUTOCAST.dtype is None and all(asked() for asked in AROUND)
