"""The native filter before the watch: a profile function that drops events known to be harmless, in nanoseconds.

While a run is watched, the interpreter reports each call and return, and nearly all are those of our own code. Asked of
Python, "is this one known?" takes longer than recording the operation. So the question is answered by a function in
LLVM IR (:data:`FILTER`), installed with ``PyEval_SetProfile``; only what it does not know goes to Python, which may
teach it.

Two data structures:

* :class:`PairSet`: pairs of addresses in an open-addressed table that Python writes and the filter reads. A call of
  Python code is the pair (code object, 0). A call of a C function is (its definition, the module or class that it
  belongs to) or, for methods of other objects, (type of the object, 0); with the calling code object in second place,
  it is known for calls from there. The objects are kept alive, so no other has their address.
* :class:`Filter`: what is installed, one for each watched run. It has a set of its own next to :data:`SHARED`, that of
  the process. It is callable as a Python profiler is, so that ``sys.setprofile(sys.getprofile())`` goes on watching.

Start reading at :meth:`Filter.install`. Where it is :func:`unavailable`, the watch is its callback in Python.
"""

from __future__ import annotations

import ctypes
import math
import struct
import types
from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...codegen.cpu.machine_code import immortal
from ...tracer.ir import forks
from ..launch import object_layout as layout
from ..launch.native import filled
from ..launch.native_code import NativeText, compile_function

_WORD = 8
_M_ML = object.__basicsize__  # PyCFunctionObject: the head, then the definition, then the object it is bound to
_M_SELF = _M_ML + _WORD
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST_SIZE = 32  # slots; a power of two, like every size
_MOST_SLOTS = 1 << 16  # a process that makes code without end starts anew here

# `state` is the Filter's block of words: the address of its own table, then room for the pair that was not found.
FILTER = r"""
; Is the pair in the table whose address stands in `cell`?
define internal i1 @has(ptr %cell, i64 %a, i64 %b) {
entry:
  %table = load ptr, ptr %cell
  %mask = load i64, ptr %table
  %twice = shl i64 %b, 1
  %mixed = xor i64 %a, %twice
  %product = mul i64 %mixed, $golden
  %hash = lshr i64 %product, 40
  br label %probe
probe:
  %at = phi i64 [ %hash, %entry ], [ %following, %next ]
  %slot = and i64 %at, %mask
  %pair = shl i64 %slot, 1
  %word = add i64 %pair, 1
  %a.at = getelementptr i64, ptr %table, i64 %word
  %a.here = load i64, ptr %a.at
  %empty = icmp eq i64 %a.here, 0
  br i1 %empty, label %no, label %first
first:
  %a.same = icmp eq i64 %a.here, %a
  br i1 %a.same, label %second, label %next
second:
  %b.here = load i64, ptr %a.at[i64 1]
  %b.same = icmp eq i64 %b.here, %b
  br i1 %b.same, label %yes, label %next
next:
  %following = add i64 %slot, 1
  br label %probe
yes:
  ret i1 true
no:
  ret i1 false
}

define i32 @tracegrad_watch(ptr %filter, ptr %frame, i32 %what, ptr %arg) {
entry:
  %args = alloca [3 x ptr]
  switch i32 %what, label %quiet [ i32 0, label %call
                                   i32 4, label %c_call ]

call:                                               ; the frame keeps its code alive
  %code = call ptr $PyFrame_GetCode(ptr %frame)
  call void $Py_DecRef(ptr %code)
  %code.word = ptrtoint ptr %code to i64
  br label %look

c_call:
  %type = load ptr, ptr %arg[i8 $ob_type]
  %plain = icmp eq ptr %type, $function_type
  br i1 %plain, label %function, label %other
other:
  %defining = icmp eq ptr %type, $method_type
  br i1 %defining, label %function, label %ask
function:
  %ml = load i64, ptr %arg[i8 $m_ml]
  %self = load ptr, ptr %arg[i8 $m_self]
  %self.word = ptrtoint ptr %self to i64
  %unbound = icmp eq ptr %self, null
  br i1 %unbound, label %ask, label %bound
bound:
  %kind = load ptr, ptr %self[i8 $ob_type]
  %kind.word = ptrtoint ptr %kind to i64
  %of.module = icmp eq ptr %kind, $module_type
  %of.class = icmp eq ptr %kind, $class_type
  %named = or i1 %of.module, %of.class
  %a.c = select i1 %named, i64 %ml, i64 %kind.word
  %b.c = select i1 %named, i64 %self.word, i64 0
  br label %look

look:
  %a = phi i64 [ %code.word, %call ], [ %a.c, %bound ]
  %b = phi i64 [ 0, %call ], [ %b.c, %bound ]
  %shared = call i1 @has(ptr $shared, i64 %a, i64 %b)
  br i1 %shared, label %quiet, label %own
own:
  %state = load ptr, ptr %filter[i8 $ob_sval]
  %mine = call i1 @has(ptr %state, i64 %a, i64 %b)
  br i1 %mine, label %quiet, label %unknown
unknown:
  %is.c_call = icmp eq i32 %what, 4
  br i1 %is.c_call, label %caller, label %ask
caller:                                             ; not harmless for everyone, but where this code calls it?
  %code.c = call ptr $PyFrame_GetCode(ptr %frame)
  call void $Py_DecRef(ptr %code.c)
  %code.c.word = ptrtoint ptr %code.c to i64
  %from.here = call i1 @has(ptr $shared, i64 %a, i64 %code.c.word)
  br i1 %from.here, label %quiet, label %ask

ask:
  %a.asked = phi i64 [ 0, %other ], [ 0, %function ], [ %a, %unknown ], [ %a, %caller ]
  %b.asked = phi i64 [ 0, %other ], [ 0, %function ], [ %b, %unknown ], [ %b, %caller ]
  %state.asked = load ptr, ptr %filter[i8 $ob_sval]
  store i64 %a.asked, ptr %state.asked[i64 1]
  store i64 %b.asked, ptr %state.asked[i64 2]
  %is.call = icmp eq i32 %what, 0
  %name = select i1 %is.call, ptr $name_call, ptr $name_c_call
  store ptr %frame, ptr %args
  store ptr %name, ptr %args[ptr 1]
  store ptr %arg, ptr %args[ptr 2]
  call void $Py_IncRef(ptr %filter)                 ; the callback may take it off
  %answer = call ptr $PyObject_Vectorcall(ptr %filter, ptr %args, i64 3, ptr null)
  call void $Py_DecRef(ptr %filter)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %error, label %answered
answered:
  call void $Py_DecRef(ptr %answer)
  br label %quiet
error:                                              ; as the interpreter does with a profiler that raises
  call void $PyEval_SetProfile(ptr null, ptr null)
  %traceback = call i32 $PyTraceBack_Here(ptr %frame)
  ret i32 -1
quiet:
  ret i32 0
}
"""

_CALL, _C_CALL = "call", "c_call"  # the objects themselves are handed over
_FUNCTIONS = ("PyFrame_GetCode", "Py_IncRef", "Py_DecRef", "PyObject_Vectorcall", "PyEval_SetProfile",
              "PyTraceBack_Here")  # fmt: skip
_lock = forks.lock()


class PairSet:
    """Pairs of addresses: a word with the number of slots - 1, then two words for each slot, 0 where it is empty.

    ``cell`` (an element of an array of words) holds the address of the table. A full one is replaced as a whole, by one
    store, so that a filter in another thread always finds a complete one.
    """

    __slots__ = ("_cell", "_count", "_kept", "_size", "_words")

    def __init__(self, cell: Any) -> None:
        self._cell = cell
        self._make(_FIRST_SIZE)

    def _make(self, size: int) -> None:
        self._size, self._count = size, 0
        self._kept: dict[tuple[int, int], object] = {}
        self._words = array("q", bytes((1 + 2 * size) * _WORD))
        self._words[0] = size - 1
        self._cell[0] = self._words.buffer_info()[0]

    def add(self, a: int, b: int, keep: object) -> None:
        """Add a pair; *keep* keeps the objects at these addresses alive."""
        with _lock:
            if (a, b) in self._kept:
                return
            if 2 * self._count >= self._size:
                old, kept, grows = self._words, self._kept, self._size < _MOST_SLOTS  # old: read until it is replaced
                self._make(2 * self._size if grows else _FIRST_SIZE)
                for pair, value in kept.items() if grows else ():
                    self._put(*pair, value)
                del old
            self._put(a, b, keep)

    def _put(self, a: int, b: int, keep: object) -> None:
        at = ((a ^ b << 1) * _GOLDEN & (1 << 64) - 1) >> 40
        words, mask = self._words, self._size - 1
        while words[1 + 2 * (at & mask)]:
            at += 1
        self._kept[a, b] = keep
        self._count += 1
        words[2 + 2 * (at & mask)] = b
        words[1 + 2 * (at & mask)] = a  # last: it makes the pair seen


class Filter(bytes):
    """The object of an installed profile function: its bytes are the address of its state, see :data:`FILTER`.

    ``ask(frame, event, argument)`` is called for what is not known. It may call :meth:`learn`.
    """

    ask: Callable[[types.FrameType, str, Any], None]
    own: PairSet
    _state: Any

    @classmethod
    def of(cls, ask: Callable[[types.FrameType, str, Any], None]) -> Filter:
        """A filter that is not yet installed."""
        state = (ctypes.c_int64 * 3)()
        self = cls(struct.pack("q", ctypes.addressof(state)))
        self.ask, self.own, self._state = ask, PairSet(state), state
        return self

    def install(self) -> None:
        """Watch this thread from now on (or again, after something else was installed)."""
        _set_profile(_compiled(), id(self))

    @staticmethod
    def remove() -> None:
        """Watch this thread no longer (and have nothing else watch it); this is no event itself."""
        _set_profile(None, None)

    def __call__(self, frame: types.FrameType, event: str, argument: Any) -> None:
        try:
            self.ask(frame, event, argument)
        finally:
            self._state[1] = 0  # too late to learn this pair

    def learn(self, subject: object, keep: object, everyone: bool) -> None:
        """Add the pair that was just asked about to the set of this run, or of the process (*everyone*).

        *subject* is the object that the answer rests on: a code object, or the owner of the C function, or its type.
        It has to be the one that the filter has read, or nothing is learned.
        """
        a, b = self._state[1], self._state[2]
        if a and id(subject) == (b or a):
            (SHARED if everyone else self.own).add(a, b, keep)

    def learn_here(self, keep: object, code: types.CodeType) -> None:
        """Add the C function that was just asked about, called from this code, to the set of the process."""
        if self._state[1]:
            SHARED.add(self._state[1], id(code), (keep, code))


_shared_cell = immortal((ctypes.c_int64 * 1)())
SHARED = immortal(PairSet(_shared_cell))  # a thread may be watched while the interpreter ends
_set_profile = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(("PyEval_SetProfile", ctypes.pythonapi))


@lru_cache(None)
def unavailable() -> str | None:
    """The reason why runs can't be watched natively, or None; compiles the filter."""
    found = fault()
    if found is None:
        try:
            _compiled()
        except Exception as error:  # no such target, an LLVM that reads the text otherwise
            found = f"the filter did not compile: {error}"
    return found


def fault() -> str | None:
    """The reason why there is no native filter in this process; None if the fields of C functions are as expected."""
    found = layout.fault()
    if found is not None:
        return found
    if types.BuiltinFunctionType.__basicsize__ < _M_SELF + _WORD:
        return "C functions are smaller than expected"

    def word(function: object, at: int) -> int:
        return ctypes.c_int64.from_address(id(function) + at).value

    one: list[int] = []
    other: list[int] = []
    append, again, pop = one.append, other.append, one.pop
    if word(append, _M_SELF) != id(one) or word(math.sin, _M_SELF) != id(math):
        return "what a C function is bound to is not where it was expected"
    if word(append, _M_ML) != word(again, _M_ML) or word(append, _M_ML) == word(pop, _M_ML):
        return "the definition of a C function is not where it was expected"
    return None


@lru_cache(None)
def _compiled() -> int:
    """The address of the filter."""
    return compile_function(_filter_ir(), "tracegrad_watch", 0)


def _filter_ir() -> NativeText:
    """:data:`FILTER` with the offsets and addresses of this process."""
    numbers = {name: layout.offsets()[name] for name in ("ob_type", "ob_sval")}
    numbers |= {"m_ml": _M_ML, "m_self": _M_SELF, "golden": _GOLDEN - (1 << 64)}
    objects: dict[str, object] = {"function_type": types.BuiltinFunctionType, "module_type": types.ModuleType}
    objects |= {"class_type": type, "name_call": _CALL, "name_c_call": _C_CALL}
    addresses = {name: id(value) for name, value in objects.items()} | {"shared": ctypes.addressof(_shared_cell)}
    # methods that know their defining class begin as C functions do; their type has no name in Python
    addresses["method_type"] = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "PyCMethod_Type"))
    return filled(FILTER, numbers, addresses, _FUNCTIONS)
