"""Watching a recorded run: was all the Python that ran analysed before, and did anything impure run?

One class, ``Watch``; start reading at ``_event``. A replay is right if the run was decided by guarded state alone.
The analysis guards what the *analysed* code can read; the watch shows that no other code ran. What it finds becomes a
reason why the function can't be replayed without its Python. It uses ``sys.setprofile`` and passes events on to a
profiler that was there before.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from .state_trust import DRAW_ELSEWHERE, IMPURE_METHODS, RUN_TIME_BUILTINS, Trust, hidden_state, module_impurity

_PURE_CALLS = {"fspath", "is_finalizing", "getsizeof", "intern", "_getframe", "exc_info"}
# Only where the user's code calls it directly: libraries do these things for good reasons of their own.
_DIRECT_ONLY = {"sys", "_thread", "gc", "weakref", "_weakref", "builtins", "_contextvars"}
_QUIET_LIBRARIES = ("tracegrad", "numpy", "scipy", "numba", "llvmlite", "optree", "importlib")


class Watch:
    """Context manager around a recorded run; ``reasons`` is filled while it runs."""

    def __init__(
        self, codes: dict[int, types.CodeType], trust: Trust, report: Callable[[str], None], may_print: bool = False
    ) -> None:
        self._codes = codes
        self._trust = trust
        self._report = report
        self._may_print = may_print
        self._known: dict[int, types.CodeType] = dict(codes)  # ids of codes that need no second look; kept alive
        self._types: dict[type, str | None] = {}
        self._collector: set[types.CodeType] = set()  # what the garbage collector calls, whenever it happens to run
        self._prior: Any = None
        self._random: Any = None
        self.reasons: list[str] = []

    def __enter__(self) -> Watch:
        self._collector = {cb.__code__ for cb in gc.callbacks if isinstance(cb, types.FunctionType)}
        self._known.update((id(code), code) for code in self._collector)
        self._prior = sys.getprofile()
        self._random = _numpy_random_state()
        sys.setprofile(self._callback(self._prior if callable(self._prior) else None))
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)
        if callable(self._prior):
            sys.setprofile(self._prior)
        elif hasattr(self._prior, "enable"):  # cProfile before Python 3.12 is no Python function
            self._prior.enable()
        if self._random != _numpy_random_state():
            self._add(f"draws random numbers from np.random; {DRAW_ELSEWHERE}")

    def _add(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)
            self._report(reason)

    def _callback(self, prior: Any) -> Callable[[types.FrameType, str, Any], None]:
        """The profile function: a closure that drops what is known at once, since it runs for every call."""
        known, kinds, new_code, c_call = self._known, self._types, self._new_code, self._c_call
        may_print = self._may_print
        printing: types.FrameType | None = None  # in there a notebook's stdout may use threads, clocks, anything

        def event(frame: types.FrameType, what: str, arg: Any) -> None:
            nonlocal printing
            if printing is not None:
                if frame is printing and arg is print and what != "c_call":
                    printing = None
            elif may_print and arg is print and what == "c_call":
                printing = frame
            elif what == "call":
                if id(frame.f_code) not in known:
                    new_code(frame)
            elif what == "c_call":
                owner = getattr(arg, "__self__", None)
                if kinds.get(type(owner), True):
                    c_call(frame, arg, owner)
            if prior is not None:
                prior(frame, what, arg)

        return event

    def _new_code(self, frame: types.FrameType) -> None:
        code = frame.f_code
        self._known[id(code)] = code
        if not self._trust.file(code.co_filename) and not self._generated(frame):
            where = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
            self._add(f"calls helper `{code.co_name}` at {where} that was found only while running")

    def _generated(self, frame: types.FrameType) -> bool:
        """Code that a library made (the ``__init__`` of a dataclass) and calls itself."""
        if frame.f_code.co_filename != "<string>":
            return False
        at = frame.f_back
        while at is not None and self._trust.file(at.f_code.co_filename):
            if str(at.f_globals.get("__name__", "")).startswith(_QUIET_LIBRARIES):
                return True
            at = at.f_back
        return False

    def _c_call(self, frame: types.FrameType, function: Any, owner: Any) -> None:
        kind = type(owner)
        if kind is types.ModuleType:
            name = owner.__name__
            why = RUN_TIME_BUILTINS.get(function.__name__) if name == "builtins" else module_impurity(name)
            if why and function.__name__ not in _PURE_CALLS:
                self._impure(frame, why, name, function.__name__)
        elif kind is type:
            if owner.__module__ == "datetime" and function.__name__ in IMPURE_METHODS:
                self._impure(frame, "reads the clock", "datetime", function.__name__)
        else:
            why = self._types[kind] = self._hidden(kind)
            if why:
                self._impure(frame, why, kind.__module__, f"{kind.__name__}.{function.__name__}")

    @staticmethod
    def _hidden(kind: type) -> str | None:
        why = hidden_state(kind)
        if why is None or "iterator" in why:  # iterators made inside the run are its own affair
            return None
        return "draws random numbers" if "random" in why else f"calls an object that {why.partition(';')[0]}"

    def _impure(self, frame: types.FrameType, why: str, module: str, name: str) -> None:
        if frame.f_code in self._collector:
            return
        direct = not self._trust.file(frame.f_code.co_filename)
        if not direct and (module in _DIRECT_ONLY or (module in ("_io", "io") and why.startswith("calls"))):
            return
        at: types.FrameType | None = frame
        while at is not None and (self._trust.file(at.f_code.co_filename) or at.f_code in self._collector):
            if at.f_code in self._collector:
                return
            library = at.f_globals.get("__name__") or ""
            if isinstance(library, str) and library.startswith(_QUIET_LIBRARIES) and "random numbers" not in why:
                return
            if at.f_code.co_filename.startswith("<frozen importlib"):
                return
            at = at.f_back
        if at is None:
            return
        where = f"{os.path.basename(at.f_code.co_filename)}:{at.f_lineno}"
        shown = name if module == "builtins" else f"{module}.{name}"
        self._add(f"{why}: {shown} at {where}")


def _numpy_random_state() -> Any:
    """The state of NumPy's global generator, which draws unseen (it is Cython); None where it isn't loaded."""
    module = sys.modules.get("numpy.random.mtrand")
    if module is None:
        return None
    try:
        generator = module._rand._bit_generator
        if type(generator).__name__ == "MT19937":
            return ctypes.string_at(generator.ctypes.state_address, 2500)  # 624 words and a position
        return repr(generator.state)
    except Exception:
        return None
