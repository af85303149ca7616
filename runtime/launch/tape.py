"""A program as a list of steps, which one native function carries out: kernels, steps of NumPy's, copies.

A *tape* is a run of 64-bit words that a generic native function (:data:`RUNNER`) carries out, front to back.  To the
launcher that function is a kernel like any other, ``int64 run(void **bufs, int64 *sizes, void *tape, int64 done)``;
it needs neither sizes nor what is done.  The words::

    the position, among the launcher's buffers, of the workspace; the offset there of room for the largest table of
    pointers; then any number of
    CALL  kernel    sizes  consts  count  (buffer, offset in bytes) * count
    HOST  callable  0      0       count  (buffer, offset in bytes) * count
    COPY  buffer  offset  into buffer  offset  bytes
    END

``CALL`` calls a kernel on these places of the launcher's buffers.  Where its answer is not -1 (a guard has failed, or a
signal handler raised) the tape ends with that answer, so what has not been copied yet never will be.  ``HOST`` calls a
Python object with the address of the same table; an exception ends the tape with -2.  ``COPY`` moves a result from the
workspace to where it belongs: LLVM was told that the buffers of a kernel do not overlap, so none writes into its
arguments itself.  A tape allocates nothing on the stack.

:class:`Tape` writes the words.  Start reading at :data:`RUNNER`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

from ...tracer.ir import forks
from .native import filled
from .native_code import compile_function

CALL, COPY, HOST, END = range(4)

Place = tuple[int, int]  # (position among the launcher's buffers, offset in bytes)

RUNNER = """
define i64 @tracegrad_tape(ptr %bufs, ptr %unused, ptr %tape, i64 %none) {
entry:
  %space = load i64, ptr %tape
  %space.at = getelementptr ptr, ptr %bufs, i64 %space
  %space.given = load i64, ptr %space.at
  %space.above = add i64 %space.given, 63
  %space.aligned = and i64 %space.above, -64
  store i64 %space.aligned, ptr %space.at
  %workspace = inttoptr i64 %space.aligned to ptr
  %room = load i64, ptr %tape[i64 1]
  %table = getelementptr i8, ptr %workspace, i64 %room
  %first = getelementptr i64, ptr %tape, i64 2
  br label %step

step:
  %word = phi ptr [ %first, %entry ], [ %after.call, %call.done ], [ %after.copy, %copy ]
  %kind = load i64, ptr %word
  %places = getelementptr i64, ptr %word, i64 5
  switch i64 %kind, label %end [ i64 0, label %call
                                 i64 2, label %call
                                 i64 1, label %copy ]

call:
  %kernel = load ptr, ptr %word[i64 1]
  %sizes = load ptr, ptr %word[i64 2]
  %consts = load ptr, ptr %word[i64 3]
  %count = load i64, ptr %word[i64 4]
  br label %place
place:                                              ; the kernel's table of buffers
  %i = phi i64 [ 0, %call ], [ %i.next, %place.body ]
  %pair = phi ptr [ %places, %call ], [ %pair.next, %place.body ]
  %placed = icmp eq i64 %i, %count
  br i1 %placed, label %run, label %place.body
place.body:
  %index = load i64, ptr %pair
  %base = load ptr, ptr %bufs[ptr %index]
  %offset = load i64, ptr %pair[i64 1]
  %address = getelementptr i8, ptr %base, i64 %offset
  %entry.at = getelementptr ptr, ptr %table, i64 %i
  store ptr %address, ptr %entry.at
  %i.next = add i64 %i, 1
  %pair.next = getelementptr i64, ptr %pair, i64 2
  br label %place
run:
  %is.host = icmp eq i64 %kind, 2
  br i1 %is.host, label %host, label %native

host:                                               ; any Python code may run in here, and other launches
  %number = call ptr $PyLong_FromVoidPtr(ptr %table)
  %no.number = icmp eq ptr %number, null
  br i1 %no.number, label %raised, label %host.call
host.call:
  %found = call ptr $PyObject_CallOneArg(ptr %kernel, ptr %number)
  call void $Py_DecRef(ptr %number)
  %failing = icmp eq ptr %found, null
  br i1 %failing, label %raised, label %host.done
host.done:
  call void $Py_DecRef(ptr %found)
  br label %call.done
raised:
  ret i64 -2

native:
  %answer = call i64 %kernel(ptr %table, ptr %sizes, ptr %consts, i64 0)
  %held = icmp eq i64 %answer, -1
  br i1 %held, label %call.done, label %failed
failed:
  ret i64 %answer
call.done:
  %pairs = mul i64 %count, 2
  %after.call = getelementptr i64, ptr %places, i64 %pairs
  br label %step

copy:
  %from = load i64, ptr %word[i64 1]
  %from.base = load ptr, ptr %bufs[ptr %from]
  %from.offset = load i64, ptr %word[i64 2]
  %source = getelementptr i8, ptr %from.base, i64 %from.offset
  %into = load i64, ptr %word[i64 3]
  %into.base = load ptr, ptr %bufs[ptr %into]
  %into.offset = load i64, ptr %word[i64 4]
  %target = getelementptr i8, ptr %into.base, i64 %into.offset
  %bytes = load i64, ptr %places
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  %after.copy = getelementptr i64, ptr %word, i64 6
  br label %step

end:
  ret i64 -1
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


class Tape:
    """The words of one tape, as they are written, for launchers whose buffer number *workspace* is just that.

    ``largest`` is the length of its largest table of pointers; ``hosts`` are the Python objects that it calls, while
    which other launches may begin: it needs a workspace of its own then, not the arena."""

    def __init__(self, workspace: int) -> None:
        self._workspace = workspace
        self._words = array("q")
        self.largest = 1
        self.hosts: list[Callable[[int], None]] = []

    def call(self, kernel: int, sizes: int, consts: int, places: Iterable[Place], kind: int = CALL) -> None:
        """Call *kernel* (an address, like *sizes* and *consts*) on *places*."""
        places = list(places)
        self._words.extend((kind, kernel, sizes, consts, len(places)))
        for place in places:
            self._words.extend(place)
        self.largest = max(self.largest, len(places))

    def host(self, step: Callable[[int], None], places: Iterable[Place]) -> None:
        """Call *step* with the address of the table of *places*."""
        self.hosts.append(step)
        self.call(id(step), 0, 0, places, HOST)

    def copy(self, source: Place, target: Place, nbytes: int) -> None:
        """Copy *nbytes* from *source* to *target*."""
        self._words.extend((COPY, *source, *target, nbytes))

    def finish(self, room: int) -> bytes:
        """The tape, with its table of pointers at the offset *room* of the workspace."""
        return array("q", (self._workspace, room, *self._words, END)).tobytes()


_lock = forks.lock()
_runner = 0


def runner() -> int:
    """The address of the compiled :data:`RUNNER`; compiles it at the first call."""
    global _runner
    with _lock:
        if not _runner:
            text = filled(RUNNER, {}, {}, ("PyLong_FromVoidPtr", "PyObject_CallOneArg", "Py_DecRef"))
            _runner = compile_function(text, "tracegrad_tape")
        return _runner
