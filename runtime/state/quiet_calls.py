"""The quick parts of the user's operations, called without the interpreter reporting on them.

A watched run is slow even where nobody looks at the events: with a profile function the interpreter takes none of its
short cuts. Most of a recording happens in functions of ours that call nothing of the user's, the quick parts of
``dispatch.py``. :func:`entry` gives a builtin that calls such a function with events turned off, in a thread that
is watched and nowhere else: a debugger or a profiler of the user's sees what it always saw. Where it gives None, the
open part is called in its place, with events.

Start reading at :data:`CALLER`. A mark of the thread (:func:`mark`) says that it is watched by us alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...tracer.numpy_api import dispatch
from ..launch.native import builtins_of, filled
from ..launch.native_code import compile_function

CALLER = r"""
define ptr @tracegrad_entry(ptr %parts, ptr %args, i64 %nargs, ptr %names) {
entry:
  %quick = call ptr $PyTuple_GetItem(ptr %parts, i64 0)
  %mark = call ptr $PyThread_tss_get(ptr $key)
  %watched = icmp ne ptr %mark, null
  br i1 %watched, label %quietly, label %plainly
plainly:
  %same = call ptr $PyObject_Vectorcall(ptr %quick, ptr %args, i64 %nargs, ptr %names)
  br label %called
quietly:
  %thread = call ptr $PyThreadState_Get()
  call void $PyThreadState_EnterTracing(ptr %thread)
  %result = call ptr $PyObject_Vectorcall(ptr %quick, ptr %args, i64 %nargs, ptr %names)
  call void $PyThreadState_LeaveTracing(ptr %thread)
  br label %called
called:
  %found = phi ptr [ %same, %plainly ], [ %result, %quietly ]
  %nothing = icmp eq ptr %found, $none
  br i1 %nothing, label %openly, label %done
openly:
  call void $Py_DecRef(ptr %found)
  %open = call ptr $PyTuple_GetItem(ptr %parts, i64 1)
  %other = call ptr $PyObject_Vectorcall(ptr %open, ptr %args, i64 %nargs, ptr %names)
  ret ptr %other
done:
  ret ptr %found
}
"""
_FUNCTIONS = ("PyTuple_GetItem", "PyThread_tss_get", "PyObject_Vectorcall", "PyThreadState_Get",
              "PyThreadState_EnterTracing", "PyThreadState_LeaveTracing", "Py_DecRef")  # fmt: skip


def entry(quick: Callable[..., Any], then: Callable[..., Any]) -> Any:
    """A method: *quick*, which must run no code but our own and NumPy's, and *then* where that gives None."""
    return _method(_builtins()((quick, then)))


_method = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(("PyInstanceMethod_New", ctypes.pythonapi))


def mark(watched: bool) -> None:
    """Whether this thread is watched, by us alone."""
    if _ready():
        _set(_key(), int(watched))


@lru_cache(None)
def _ready() -> bool:
    """Have the recorder make its calls this way; False where that can't be done, and all events are looked at."""
    try:
        dispatch.install(entry)
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
    text = filled(CALLER, {}, {"key": _key(), "none": id(None)}, _FUNCTIONS)
    address = compile_function(text, "tracegrad_entry", 0)
    return builtins_of(address, b"entry", b"Do what the user asks of a traced array.", keywords=True)
