"""The watch over a recorded run, for Python that was not analysed before, and for impure calls.

One class, ``Watch``; start reading at ``__enter__``. A replay is right if the run was decided by guarded state alone.
The analysis guards what the *analysed* code can read; the watch shows that no other code ran. Each finding is a reason
why the function can't be replayed without its Python.

It is the thread's profile function. Where nobody else profiles, that is the native filter (``native_filter.py``), which
asks here only about what it does not know; else a callback in Python, which passes events on to the profiler that was
there before. Both come to the same methods: ``_new_code`` and ``_c_call``, whose answer says what needs no second look.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import types
import typing
import warnings
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

from ...tracer.bytecode.concretize import called_path
from ...tracer.bytecode.shown_names import nested
from ...tracer.convert.copies import original_code
from ...tracer.ir.forks import when_alone
from ...tracer.ir.interrupts import kept
from ...tracer.ir.late_modules import added_filters
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.ir.site import is_internal
from ...tracer.numpy_api import made_in_code
from ...tracer.record import constants
from ...tracer.record.recorder import current_recorder, unwatched_contexts
from ...tracer.record.reports import LOG_CODES, filters
from .code_scan import failing
from .libraries import AMBIENT, ERRORS, FILTERS, RUN_TIME, ambient, impure
from .native_filter import Filter, unavailable
from .quiet_calls import mark
from .seeded_draws import SeededDraws
from .trust import IMPURE_METHODS, RUN_TIME_BUILTINS, Trust, hidden_state, methods_impurity

_PURE_CALLS = {"fspath", "is_finalizing", "getsizeof", "intern", "_getframe", "exc_info"}
# Only where the user's code calls it directly: libraries do these things for good reasons of their own.
_DIRECT_ONLY = {"sys", "_thread", "gc", "weakref", "_weakref", "builtins", "_contextvars"}
# Codes, by id, of functions that write a log or show a warning.
_SHOWS = getattr(getattr(warnings, "_showwarnmsg", None), "__code__", None)
_REPORTS = {
    **dict.fromkeys(LOG_CODES, (Refusal.CALLS_LOG, "logging")), id(_SHOWS): (Refusal.CALLS_WARN, "warnings")
}  # fmt: skip
_AGAIN, _HERE, _ALWAYS = range(3)  # verdicts on a call of a C function
_EVERYWHERE = Trust()  # library code for every function, whatever its settings trust besides
_QUIET_LIBRARIES = ("tracegrad", "numpy", "scipy", "numba", "llvmlite", "optree", "importlib")
_MAKERS = ("dataclasses", "collections")  # modules that make code of the names of fields
_SILENT = ("tracegrad", "importlib")  # a warning of NumPy's in the user's name is the user's
_FOR_THE_USER = (constants.__name__, made_in_code.__name__)  # from which NumPy is called in the user's name

is_internal(__file__)  # the first time it asks the finders of modules, whose Python no run may call


def asks(*_: Any) -> bool:
    return False


def release() -> None:
    return None


def show(_: Any) -> None:
    return None


class Watch:
    """Context manager around a recorded run; ``reasons`` is filled while it runs."""

    def __init__(
        self, codes: dict[int, types.CodeType], trust: Trust, report: Callable[[Reason], None],
        caught: Callable[[types.CodeType, Reason], None] | None = None, no_sparing: Container[types.CodeType] = (),
        lengths: bool = False, seeds: bool = False,
    ) -> None:  # fmt: skip
        """:param lengths: whether `len` may be asked for the length of what stands for a list.
        :param seeds: whether the code may seed generators."""
        self._codes = codes
        self._trust = trust
        self._report = report
        self._caught, self._no_sparing, self._lengths = caught, no_sparing, lengths
        self._failing: tuple[types.CodeType, Reason] | None = None  # code that is about to raise
        self._below: types.FrameType | None = None  # the frame that is watched from
        self._shown: set[int] = set()  # ids of codes whose frames are shown the builtins of recorded code
        self._known: dict[int, types.CodeType] = {}  # ids of codes that need no second look; kept alive
        self._types: dict[type, Refusal | None] = {}
        self._made: set[types.CodeType] = set()  # code of named tuples and dataclasses that the run makes
        self._collector: set[types.CodeType] = set()  # code that the garbage collector may call at any time
        self._collecting = False  # in this thread
        self._prior: Any = None
        self._seeds, self.draws = seeds, SeededDraws(seeds)
        self._ambient: list[Any] = []
        self._errors: Any = None
        self._filters: Any = None  # of warnings, when this began
        self._imported = 0  # filters of warnings that late imports have added before
        self._filter: Filter | None = None
        self.reasons: list[Reason] = []

    def __enter__(self) -> Watch:
        self._below = sys._getframe(1)
        self._collector = {cb.__code__ for cb in gc.callbacks if isinstance(cb, types.FunctionType)}
        self._thread = threading.get_ident()
        gc.callbacks.append(self._collection)
        self._prior = sys.getprofile()
        self.draws, self._ambient, self._errors = SeededDraws(self._seeds), ambient(), ERRORS.read()
        self._filters, self._imported = filters(), len(added_filters)
        recorder = current_recorder()
        if recorder is not None:
            recorder.seeds = self.draws.seed_numpy
        if callable(self._prior) or unavailable():
            sys.setprofile(self._callback(self._prior if callable(self._prior) else None))
        else:
            if sys.gettrace() is None:  # a debugger sees everything
                mark(True)
            self._filter = Filter.of(self._ask)
            self._filter.install()  # the collector's callbacks may be asked about at once
        return self

    def __exit__(self, *exc: object) -> None:
        self._below = None
        gc.callbacks.remove(self._collection)
        if self._shown:
            release()
        if self._filter is not None:
            self._filter.remove()
            mark(False)
        else:
            sys.setprofile(None)
        if callable(self._prior):
            restore_profile(self._prior)
        elif hasattr(self._prior, "enable"):  # cProfile before Python 3.12 is no Python function
            self._prior.enable()
        if self._failing is not None:
            if exc[0] is None and self._caught is not None:
                self._caught(*self._failing)
            return
        if self.draws.unseeded():
            self._add(Refusal.CALLS_NUMPY_RANDOM())
        if (now := ambient()) != self._ambient:
            for setting, before, value in zip(AMBIENT, self._ambient, now, strict=True):
                restored = setting is ERRORS and ERRORS.read() == self._errors  # by np.seterr(**old)
                if setting is FILTERS:
                    value = tuple([entry for entry in value if entry not in added_filters[self._imported :]])
                if value is not before and value != before and not restored:
                    self._add(Refusal.REPLAY_CHANGES(name=setting.label))

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        """A collection begins or ends. The finalizers that it runs are of other people's garbage, sooner or later."""
        if threading.get_ident() == self._thread:
            self._collecting = phase == "start"

    def _add(self, reason: Reason, frame: types.FrameType | None = None) -> None:
        if reason not in self.reasons and not self._fails(frame):
            self.reasons.append(reason)
            self._report(reason)

    @property
    def fails(self) -> bool:
        """Whether code has run that was spared because it leads to a ``raise``."""
        return self._failing is not None

    def _fails(self, frame: types.FrameType | None) -> bool:
        """Whether all this is on the way to a ``raise``: the run ends by it, or is not kept."""
        while self._failing is None and frame is not None and frame is not self._below:
            code = frame.f_code
            users = original_code(code)
            spares = id(users) in self._codes and users not in self._no_sparing
            if spares and frame.f_lasti in failing(code):
                site = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
                self._failing = users, Refusal.REPLAY_CAUGHT(site=site)
            frame = frame.f_back
        return self._failing is not None

    def _callback(self, prior: Any) -> Callable[[types.FrameType, str, Any], None]:
        """The profile function in Python: a closure that drops known events at once, since it runs for every call."""
        known, kinds, new_code, c_call = self._known, self._types, self._new_code, self._c_call
        shown = self._shown

        def event(frame: types.FrameType, what: str, arg: Any) -> None:
            if self._collecting:
                pass
            elif what == "call":
                if id(frame.f_code) not in known:
                    new_code(frame)
                if id(frame.f_code) in shown:
                    show(frame)
                elif (why := _REPORTS.get(id(frame.f_code))) is not None:
                    self._impure(frame, why[0], why[1], frame.f_code.co_name)
            elif what == "c_call":
                owner = getattr(arg, "__self__", None)
                if kinds.get(type(owner), True):
                    c_call(frame, arg, owner)
            if prior is not None:
                prior(frame, what, arg)

        return event

    def _ask(self, frame: types.FrameType, what: str, arg: Any) -> None:
        """Callback of the native filter for pairs that it does not know; it learns those that need only one look."""
        assert self._filter is not None
        if self._collecting:
            return
        if what == "call":
            code = frame.f_code
            if id(code) not in self._known:
                self._new_code(frame)
            if id(code) in self._shown:
                show(frame)
            elif (why := _REPORTS.get(id(code))) is not None:
                self._impure(frame, why[0], why[1], code.co_name)
            else:
                self._filter.learn(code, code, _library_code(code))
        elif what == "c_call":
            owner = getattr(arg, "__self__", None)
            answer, kind = self._c_call(frame, arg, owner), type(owner)
            if answer == _HERE and _library_code(frame.f_code):
                self._filter.learn_here((kind, arg), frame.f_code)
            elif answer == _ALWAYS and kind in (types.ModuleType, type):
                self._filter.learn(owner, arg, kind is types.ModuleType or not _heap_type(owner))
            elif answer == _ALWAYS:
                self._filter.learn(kind, kind, not _heap_type(kind))

    def called(self, frame: types.FrameType, function: Any) -> None:
        """A copy whose *frame* this is calls a *function* in C, in a way that no profile function is told of."""
        self._c_call(frame, function, getattr(function, "__self__", None))

    def _new_code(self, frame: types.FrameType) -> None:
        self._known[id(frame.f_code)] = frame.f_code
        code = original_code(frame.f_code)
        users = code.co_filename == typing.__file__ or not (_library_code(code) or is_internal(code.co_filename))
        # whose code it is comes first: to look at what it calls takes long
        if users and (asks(code, frame.f_globals) or (self._lengths and "len" in code.co_names)):
            self._shown.add(id(code))
        if id(code) in self._codes or code in self._collector:
            return
        if not self._trust.file(code.co_filename) and not self._generated(frame) and not self._on_behalf(frame):
            where = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
            self._add(Refusal.CALLS_UNSEEN(what=code.co_name, site=where), frame)

    def _generated(self, frame: types.FrameType) -> bool:
        """Code that a library made (the ``__init__`` of a dataclass, a named tuple) and calls itself, or makes in this
        run."""
        if frame.f_code.co_filename != "<string>":
            return False
        if frame.f_code in self._made:
            return True
        at = frame.f_back
        if at is not None and at.f_globals.get("__name__") in _MAKERS and self._trust.file(at.f_code.co_filename):
            self._made.update(nested(frame.f_code))
            return True
        named_tuple = str(frame.f_globals.get("__name__", "")).startswith("namedtuple_")
        if named_tuple and at is not None and self._trust.file(at.f_code.co_filename):
            return True
        while at is not None and self._trust.file(at.f_code.co_filename):
            if str(at.f_globals.get("__name__", "")).startswith(_QUIET_LIBRARIES):
                return True
            at = at.f_back
        return False

    def _on_behalf(self, frame: types.FrameType) -> bool:
        """Code of the standard library, of a compiler or of an array library that our own code or an import runs."""
        at: types.FrameType | None = frame
        while at is not None and id(original_code(at.f_code)) not in self._codes:
            file = at.f_code.co_filename
            if file.startswith("<frozen importlib") or self._trust.file(file):
                return True
            if not self._trust.machinery(file):
                return False
            at = at.f_back
        return False

    def _c_call(self, frame: types.FrameType, function: Any, owner: Any) -> int:
        """Look at a call of a C function; whether it is harmless ``_ALWAYS`` (and so is any method of its owner's type,
        if that is neither module nor class), ``_HERE``, when this very code calls it, or has to be looked at again."""
        kind = type(owner)
        if kind is types.ModuleType:
            why = _impure_call(owner, function)
            return self._impure(frame, why, owner.__name__, function.__name__) if why else _ALWAYS
        if kind is type:
            if function.__name__ not in IMPURE_METHODS or all(c.__module__ != "datetime" for c in owner.__mro__):
                return _ALWAYS
            return self._impure(frame, Refusal.CALLS_CLOCK, "datetime", function.__name__)
        own = hidden_state(kind) is Refusal.STATE_ITERATOR  # iterators made inside the run are its own affair
        why = self._types[kind] = None if own else methods_impurity(kind)
        if why is None:
            return _ALWAYS
        if why is Refusal.CALLS_RANDOM and self.draws.allows(frame, owner, function.__name__):
            return _AGAIN
        return self._impure(frame, why, kind.__module__, f"{kind.__name__}.{function.__name__}")

    def _impure(self, frame: types.FrameType, why: Refusal, module: str, name: str) -> int:
        if frame.f_code in self._collector:
            return _AGAIN
        direct = not self._trust.file(frame.f_code.co_filename)
        if not direct and (module in _DIRECT_ONLY or (module in ("_io", "io") and why is Refusal.CALLS_OBJECT)):
            return _HERE
        if why is Refusal.CALLS_WARN and not direct and frame.f_code is not _SHOWS and filters() is not self._filters:
            return _AGAIN  # a library has filters of its own: it warns if something is shown
        at: types.FrameType | None = frame
        while at is not None and (self._trust.file(at.f_code.co_filename) or at.f_code in self._collector):
            if at.f_code in self._collector:
                return _AGAIN
            library = at.f_globals.get("__name__") or ""
            if library in _FOR_THE_USER:  # for the user, who is to hear of it in each call
                while at is not None and is_internal(at.f_code.co_filename):
                    at = at.f_back
                break
            quiet = _SILENT if why is Refusal.CALLS_WARN else _QUIET_LIBRARIES
            if isinstance(library, str) and library.startswith(quiet) and why is not Refusal.CALLS_RANDOM:
                return _HERE if at is frame else _AGAIN
            if at.f_code.co_filename.startswith("<frozen importlib"):
                return _AGAIN
            at = at.f_back
        if at is None:
            return _AGAIN
        where = f"{os.path.basename(at.f_code.co_filename)}:{at.f_lineno}"
        shown = name if module == "builtins" else f"{module}.{name}"
        if name == "urandom":  # for a generator without a seed
            path = called_path(at.f_code, at.f_lasti) or ()
            shown = ".".join([part for _, part in path if isinstance(part, str)]) or shown
        self._add(why(what=shown, site=where), frame)
        return _AGAIN


def _impure_call(owner: types.ModuleType, function: Any) -> Refusal | None:
    """The reason why a call of a module's C function is impure, or None."""
    name, called = owner.__name__, function.__name__
    if called in _PURE_CALLS:
        return None
    why = RUN_TIME_BUILTINS.get(called) if name == "builtins" else RUN_TIME.get(f"{name}.{called}")
    return why or impure(f"{name}.{called}")


def sees_call(trust: Trust, value: Any) -> bool:
    """Whether a watch notices that this is called: code of an installed package, as long as it has not been analysed,
    or an impure C function."""
    if type(value) is types.FunctionType:
        return bool(trust.package(value))
    owner = getattr(value, "__self__", None)
    if type(value) is not types.BuiltinFunctionType or not isinstance(owner, types.ModuleType):
        return False
    return _impure_call(owner, value) is not None


def restore_profile(profile: Any) -> None:
    """``sys.setprofile`` of a result of ``sys.getprofile``, which may be a watch."""
    if isinstance(profile, Filter):
        profile.install()
    else:
        sys.setprofile(profile)


def _watching() -> tuple[Any, list[Any]]:
    """(the profile function of this thread, the watches that the collector tells)."""
    return sys.getprofile(), [x for x in gc.callbacks if isinstance(getattr(x, "__self__", None), Watch)]


def _watch_again(before: tuple[Any, list[Any]]) -> None:
    """Leave the watches of this thread that have begun since *before*."""
    profile, known = before
    for callback in [x for x in _watching()[1] if x not in known and x.__self__._thread == threading.get_ident()]:
        gc.callbacks.remove(callback)
        release()
    now = sys.getprofile()
    if now is not profile and isinstance(getattr(now, "ask", now), types.MethodType | types.FunctionType):
        asked = getattr(now, "ask", now)
        if isinstance(now, Filter) or getattr(asked, "__qualname__", "").startswith(Watch.__name__):
            restore_profile(profile)
            mark(isinstance(profile, Filter))


kept(_watching, _watch_again)


def _others_end() -> None:
    """Leave the watches of other threads."""
    for callback in _watching()[1]:
        watch = callback.__self__
        if watch._thread != threading.get_ident():
            gc.callbacks.remove(callback)
            if watch._shown:
                release()


when_alone(_others_end)


@contextmanager
def unwatched() -> Iterator[None]:
    """A context in which this thread is not watched, for what has its own place in a recording."""
    profile = sys.getprofile()
    sys.setprofile(None)
    try:
        yield
    finally:
        restore_profile(profile)


@contextmanager
def _of_host() -> Iterator[None]:
    """A context in which code of the host's runs, so that a recording knows what it gives: it is not watched, and what
    it draws is drawn again by the call."""
    generator = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
    state = None if generator is None else generator.get_state()
    try:
        with unwatched():
            yield
    finally:
        if generator is not None:
            generator.set_state(state)


unwatched_contexts.append(_of_host)


def _library_code(code: types.CodeType) -> bool:
    """Whether no watch of this process has to look at this code: library code, and not made for one function."""
    return _EVERYWHERE.file(code.co_filename) and not code.co_filename.startswith("<tracegrad")


def _heap_type(cls: Any) -> bool:
    """Whether a class was made while running: it may go, and others come."""
    return bool(cls.__flags__ & (1 << 9))
