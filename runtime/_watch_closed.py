"""Closed functions: our own, which run no code of anyone else's, called without the interpreter reporting on them.

A watched run is slow even where nobody looks at the events: with a profile function the interpreter takes none of its
short cuts. Most of a recording happens in one function of ours that calls nothing of the user's
(``npapi_calls.call_plain``). :func:`closed` gives a builtin that calls such a function with events turned off, in a
thread that is watched and nowhere else: a debugger or a profiler of the user's sees what it always saw.

Start reading at :data:`CALLER`. A mark of the thread (:func:`mark`) says that it is watched by us alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..tracer import npapi_calls
from ._native import builtins_of, compile_function, filled

CALLER = r"""
define ptr @tracegrad_closed(ptr %function, ptr %args, i64 %nargs) {
entry:
  %mark = call ptr $PyThread_tss_get(ptr $key)
  %watched = icmp ne ptr %mark, null
  br i1 %watched, label %quietly, label %plainly
plainly:
  %same = call ptr $PyObject_Vectorcall(ptr %function, ptr %args, i64 %nargs, ptr null)
  ret ptr %same
quietly:
  %thread = call ptr $PyThreadState_Get()
  call void $PyThreadState_EnterTracing(ptr %thread)
  %result = call ptr $PyObject_Vectorcall(ptr %function, ptr %args, i64 %nargs, ptr null)
  call void $PyThreadState_LeaveTracing(ptr %thread)
  ret ptr %result
}
"""
_FUNCTIONS = ("PyThread_tss_get", "PyObject_Vectorcall", "PyThreadState_Get", "PyThreadState_EnterTracing",
              "PyThreadState_LeaveTracing")  # fmt: skip


def closed(function: Callable[..., Any]) -> Callable[..., Any]:
    """*function* (called by position), which must run no code but our own and NumPy's."""
    return _builtins()(function)


def mark(watched: bool) -> None:
    """Whether this thread is watched, by us alone."""
    if _ready():
        _set(_key(), int(watched))


@lru_cache(None)
def _ready() -> bool:
    """Have the recorder make its calls this way; False where that can't be done, and all events are looked at."""
    try:
        npapi_calls.call_plain_through(closed)
    except Exception:  # an interpreter without these functions, an LLVM that reads the text otherwise
        return False
    return True


_set = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(("PyThread_tss_set", ctypes.pythonapi))


@lru_cache(None)
def _key() -> int:
    """The address of the key of the mark, which lives as long as the process."""
    allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_tss_alloc", ctypes.pythonapi))
    create = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(("PyThread_tss_create", ctypes.pythonapi))
    key = allocate()
    if not key or create(key):
        raise OSError("the thread library has no key left")
    return key


@lru_cache(None)
def _builtins() -> Callable[[object], Callable[..., Any]]:
    text = filled(CALLER, {}, {"key": _key()}, _FUNCTIONS)
    engine, address = compile_function(text, "tracegrad_closed")
    _keep.append(engine)
    return builtins_of(address, b"closed", b"Call a function that runs no code of the user's.")


_keep: list[object] = []
