"""The pool of threads that run chunks of loop nests, in machine code.

It is ours because its place is below Python: numba's pools want numba imported, which takes longer than most first
calls, and its workqueue ends the process where two threads of Python use it at once; OpenMP's runtime is no part of
NumPy's or SciPy's packages.  Threads are begun by the first nest that is large enough (``pthread_create``, with all
signals blocked), wait for a short time in a loop and then on a futex, and never touch Python.

``run(chunk, context, n, threads)`` calls ``chunk(context, k, number of the thread)`` for all k < n, and gives -1, or -2
where a signal handler has raised.  The GIL is released meanwhile.  One nest at a time has the pool: one that comes from
another thread of Python is run by that thread alone, as all are where there is one thread, or a platform without
futexes.  ``poll()`` is for loops that may take long in one thread, which holds the GIL: it lets signal handlers run, a
few times a second, with the same answers.  Start reading at :data:`POOL`.

=============  ===================================================================================================
word           meaning
=============  ===================================================================================================
``lock``       1 while a nest has the pool
``ticket``     number of the nest (32 bits), its threads (16), chunks that nobody has taken yet (16): whoever counts
               it down by one has a chunk, and may rely on the words below until the chunk is done
``done``       chunks that are done; ``waiting``: whether the thread that began the nest sleeps until all are
``begun``      threads of the pool
``polled``     when a long loop of some kernel last looked after signals
``bell``       one for each thread, in a cache line of its own: counts the nests that it was called to; behind it,
               whether the thread sleeps
=============  ===================================================================================================
"""

from __future__ import annotations

import functools
import importlib
import os
import platform
import sys

import numpy as np

from ...codegen.cpu.cpython import immortal, python_api
from ...codegen.cpu.symbols import address_of
from ..threads import MOST
from .native_code import known_function

_LINE = 8  # words of a cache line
_WORDS = ("lock", "ticket", "done", "waiting", "chunk", "context", "chunks", "begun", "polled")
_PLACES = {name: position * _LINE for position, name in enumerate(_WORDS)}
_BELLS = len(_WORDS) * _LINE
_FUTEX = {"x86_64": 202, "aarch64": 98}  # the number of the system call
_PAUSE = {
    "x86_64": {"pause": "@llvm.x86.sse2.pause()", "declared_pause": "@llvm.x86.sse2.pause()"},
    "aarch64": {"pause": "@llvm.aarch64.hint(i32 1)", "declared_pause": "@llvm.aarch64.hint(i32)"},
}
_NO_PAUSE = {"pause": "@llvm.donothing()", "declared_pause": "@llvm.donothing()"}

NOW = r"""
define internal i64 @now() {                          ; nanoseconds of the monotonic clock
  %time = alloca [2 x i64]
  %failed = call i32 $clock_gettime(i32 $clock, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
  ret i64 %all
}
"""

POLL = r"""
define i64 @tracegrad_poll() {
entry:
  %now = call i64 @now()
  %asked = getelementptr i64, ptr $state, i64 $polled
  %before = load i64, ptr %asked
  %since = sub i64 %now, %before
  %due = icmp sgt i64 %since, 50000000
  br i1 %due, label %ask, label %no
ask:                                                  ; other threads of Python have a turn, too
  store i64 %now, ptr %asked
  %saved = call ptr $PyEval_SaveThread()
  call void $PyEval_RestoreThread(ptr %saved)
  %answer = call i32 $PyErr_CheckSignals()
  %raised = icmp ne i32 %answer, 0
  %code = select i1 %raised, i64 -2, i64 -1
  ret i64 %code
no:
  ret i64 -1
}
"""

POOL = r"""
define internal void @sleep_while(ptr %word, i64 %value, ptr %limit) {
  %value.32 = trunc i64 %value to i32
  %answer = call i64 (i64, ...) $syscall(i64 $futex, ptr %word, i32 128, i32 %value.32, ptr %limit, ptr null, i32 0)
  ret void
}

define internal void @wake(ptr %word) {
  %answer = call i64 (i64, ...) $syscall(i64 $futex, ptr %word, i32 129, i32 1, ptr null, ptr null, i32 0)
  ret void
}

; Take chunks for as long as there are some; thread number `me` does so only where the nest is for that many threads.
define internal i64 @work(ptr %pool, i64 %me) {
entry:
  %ticket.at = getelementptr i64, ptr %pool, i64 $ticket
  %done.at = getelementptr i64, ptr %pool, i64 $done
  %waiting.at = getelementptr i64, ptr %pool, i64 $waiting
  br label %look
look:
  %ticket = load atomic i64, ptr %ticket.at seq_cst, align 8
  %left = and i64 %ticket, 65535
  %threads.high = lshr i64 %ticket, 16
  %threads = and i64 %threads.high, 65535
  %some = icmp ne i64 %left, 0
  %mine = icmp ult i64 %me, %threads
  %go = and i1 %some, %mine
  br i1 %go, label %take, label %end
take:
  %less = sub i64 %ticket, 1
  %pair = cmpxchg ptr %ticket.at, i64 %ticket, i64 %less seq_cst seq_cst, align 8
  %taken = extractvalue { i64, i1 } %pair, 1
  br i1 %taken, label %run, label %look
run:
  %chunks = load i64, ptr %pool[i64 $chunks]
  %chunk = load ptr, ptr %pool[i64 $chunk]
  %context = load ptr, ptr %pool[i64 $context]
  %number = sub i64 %chunks, %left
  call void %chunk(ptr %context, i64 %number, i64 %me)
  %before = atomicrmw add ptr %done.at, i64 1 seq_cst, align 8
  %after = add i64 %before, 1
  %last = icmp eq i64 %after, %chunks
  br i1 %last, label %tell, label %ran
tell:
  %waiting = load atomic i64, ptr %waiting.at seq_cst, align 8
  %asleep = icmp ne i64 %waiting, 0
  br i1 %asleep, label %ring, label %ran
ring:
  call void @wake(ptr %done.at)
  br label %ran
ran:                                                  ; the first thread looks after signals between two chunks
  %first = icmp eq i64 %me, 0
  br i1 %first, label %end, label %look
end:
  %found = phi i64 [ 0, %look ], [ 1, %ran ]
  ret i64 %found
}

define internal ptr @worker(ptr %given) {
entry:
  %me = ptrtoint ptr %given to i64
  %pool = getelementptr i8, ptr $state, i64 0
  %line = mul i64 %me, 8
  %offset = add i64 %line, $bells
  %bell = getelementptr i64, ptr %pool, i64 %offset
  %sleeps = getelementptr i64, ptr %bell, i64 1
  br label %round
round:
  %seen = phi i64 [ 0, %entry ], [ %rung, %called ]
  br label %spin
spin:
  %turn = phi i64 [ 0, %round ], [ %turn.next, %pause ], [ 0, %slept ]
  %rung = load atomic i64, ptr %bell seq_cst, align 8
  %new = icmp ne i64 %rung, %seen
  br i1 %new, label %called, label %still
still:
  %tired = icmp uge i64 %turn, $spins
  br i1 %tired, label %sleep, label %pause
pause:
  call void $pause
  %turn.next = add i64 %turn, 1
  br label %spin
sleep:
  store atomic i64 1, ptr %sleeps seq_cst, align 8
  call void @sleep_while(ptr %bell, i64 %seen, ptr null)
  store atomic i64 0, ptr %sleeps seq_cst, align 8
  br label %slept
slept:
  br label %spin
called:
  %found = call i64 @work(ptr %pool, i64 %me)
  br label %round
}

; Begin the threads that are still missing of `threads`, the caller among them.
define internal void @begin(ptr %pool, i64 %threads) {
entry:
  %every = alloca [128 x i8], align 8
  %before = alloca [128 x i8], align 8
  %id = alloca i64
  call void @llvm.memset.p0.i64(ptr %every, i8 -1, i64 128, i1 false)
  %blocked = call i32 $pthread_sigmask(i32 2, ptr %every, ptr %before)
  br label %next
next:
  %begun = load i64, ptr %pool[i64 $begun]
  %number = add i64 %begun, 1
  %missing = icmp slt i64 %number, %threads
  br i1 %missing, label %create, label %end
create:
  %argument = inttoptr i64 %number to ptr
  %failed = call i32 $pthread_create(ptr %id, ptr null, ptr @worker, ptr %argument)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %made.one, label %end
made.one:
  %thread = load i64, ptr %id
  %detached = call i32 $pthread_detach(i64 %thread)
  store i64 %number, ptr %pool[i64 $begun]
  br label %next
end:
  %restored = call i32 $pthread_sigmask(i32 2, ptr %before, ptr null)
  ret void
}

; Whether a signal handler raises, asked a few times a second; the GIL is taken for it. `state` is the thread's.
define internal i1 @raised(ptr %state, ptr %asked) {
entry:
  %now = call i64 @now()
  %before = load i64, ptr %asked
  %since = sub i64 %now, %before
  %due = icmp sgt i64 %since, 50000000
  br i1 %due, label %ask, label %no
ask:
  %held = load ptr, ptr %state
  call void $PyEval_RestoreThread(ptr %held)
  %answer = call i32 $PyErr_CheckSignals()
  %again = call ptr $PyEval_SaveThread()
  store ptr %again, ptr %state
  %then = call i64 @now()
  store i64 %then, ptr %asked
  %raised = icmp ne i32 %answer, 0
  ret i1 %raised
no:
  ret i1 false
}

define i64 @tracegrad_run(ptr %chunk, ptr %context, i64 %n, i64 %threads) {
entry:
  %state = alloca ptr
  %asked = alloca i64
  %limit = alloca [2 x i64]
  store i64 0, ptr %limit
  %limit.rest = getelementptr i64, ptr %limit, i64 1
  store i64 50000000, ptr %limit.rest
  %pool = getelementptr i8, ptr $state, i64 0
  %saved = call ptr $PyEval_SaveThread()
  store ptr %saved, ptr %state
  %start = call i64 @now()
  store i64 %start, ptr %asked
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %try, label %alone
try:
  %lock.at = getelementptr i64, ptr %pool, i64 $lock
  %locked = cmpxchg ptr %lock.at, i64 0, i64 1 seq_cst seq_cst, align 8
  %got = extractvalue { i64, i1 } %locked, 1
  br i1 %got, label %share, label %alone

; ---- 1. In this thread alone.
alone:
  br label %single
single:
  %k = phi i64 [ 0, %alone ], [ %k.next, %single.next ]
  call void %chunk(ptr %context, i64 %k, i64 0)
  %k.next = add i64 %k, 1
  %single.raised = call i1 @raised(ptr %state, ptr %asked)
  br i1 %single.raised, label %finish, label %single.next
single.next:
  %single.done = icmp eq i64 %k.next, %n
  br i1 %single.done, label %finish, label %single

; ---- 2. With the pool: set the words, ring the bells, take chunks, wait for those of others.
share:
  call void @begin(ptr %pool, i64 %threads)
  %ticket.at = getelementptr i64, ptr %pool, i64 $ticket
  %done.at = getelementptr i64, ptr %pool, i64 $done
  %waiting.at = getelementptr i64, ptr %pool, i64 $waiting
  store ptr %chunk, ptr %pool[i64 $chunk]
  store ptr %context, ptr %pool[i64 $context]
  store i64 %n, ptr %pool[i64 $chunks]
  store atomic i64 0, ptr %done.at seq_cst, align 8
  store atomic i64 0, ptr %waiting.at seq_cst, align 8
  %ticket.old = load atomic i64, ptr %ticket.at seq_cst, align 8
  %number.old = lshr i64 %ticket.old, 32
  %number = add i64 %number.old, 1
  %number.high = shl i64 %number, 32                   ; of which 32 bits are left
  %threads.high = shl i64 %threads, 16
  %ticket.threads = or i64 %number.high, %threads.high
  %ticket.new = or i64 %ticket.threads, %n
  store atomic i64 %ticket.new, ptr %ticket.at seq_cst, align 8
  %wanted.all = icmp slt i64 %threads, %n
  %wanted.end = select i1 %wanted.all, i64 %threads, i64 %n
  %begun = load i64, ptr %pool[i64 $begun]
  %begun.end = add i64 %begun, 1
  %enough = icmp slt i64 %wanted.end, %begun.end
  %called.end = select i1 %enough, i64 %wanted.end, i64 %begun.end
  br label %bell
bell:
  %t = phi i64 [ 1, %share ], [ %t.next, %bell.next ]
  %bells.done = icmp sge i64 %t, %called.end
  br i1 %bells.done, label %mine, label %bell.body
bell.body:
  %line = mul i64 %t, 8
  %offset = add i64 %line, $bells
  %bell.at = getelementptr i64, ptr %pool, i64 %offset
  %rung = atomicrmw add ptr %bell.at, i64 1 seq_cst, align 8
  %sleeps.at = getelementptr i64, ptr %bell.at, i64 1
  %sleeps = load atomic i64, ptr %sleeps.at seq_cst, align 8
  %asleep = icmp ne i64 %sleeps, 0
  br i1 %asleep, label %ring, label %bell.next
ring:
  call void @wake(ptr %bell.at)
  br label %bell.next
bell.next:
  %t.next = add i64 %t, 1
  br label %bell
mine:
  %found = call i64 @work(ptr %pool, i64 0)
  %more = icmp ne i64 %found, 0
  br i1 %more, label %mine.asked, label %wait
mine.asked:
  %mine.raised = call i1 @raised(ptr %state, ptr %asked)
  br i1 %mine.raised, label %drop, label %mine
drop:                                                 ; nobody takes what is left; those that are under way end
  %drop.ticket = load atomic i64, ptr %ticket.at seq_cst, align 8
  %drop.left = and i64 %drop.ticket, 65535
  %drop.none = and i64 %drop.ticket, -65536
  %drop.pair = cmpxchg ptr %ticket.at, i64 %drop.ticket, i64 %drop.none seq_cst seq_cst, align 8
  %dropped = extractvalue { i64, i1 } %drop.pair, 1
  br i1 %dropped, label %drop.count, label %drop
drop.count:
  %drop.before = atomicrmw add ptr %done.at, i64 %drop.left seq_cst, align 8
  br label %wait
wait:
  %interrupted = phi i1 [ false, %mine ], [ true, %drop.count ], [ %interrupted, %wait.pause ],
                        [ %interrupted.now, %wait.asked ]
  %turn = phi i64 [ 0, %mine ], [ 0, %drop.count ], [ %turn.next, %wait.pause ], [ 0, %wait.asked ]
  %done = load atomic i64, ptr %done.at seq_cst, align 8
  %all = icmp eq i64 %done, %n
  br i1 %all, label %unlock, label %wait.more
wait.more:
  %tired = icmp uge i64 %turn, $spins
  br i1 %tired, label %wait.sleep, label %wait.pause
wait.pause:
  call void $pause
  %turn.next = add i64 %turn, 1
  br label %wait
wait.sleep:
  store atomic i64 1, ptr %waiting.at seq_cst, align 8
  %done.now = load atomic i64, ptr %done.at seq_cst, align 8
  %all.now = icmp eq i64 %done.now, %n
  br i1 %all.now, label %unlock, label %wait.futex
wait.futex:
  call void @sleep_while(ptr %done.at, i64 %done.now, ptr %limit)
  br label %wait.asked
wait.asked:
  %wait.raised = call i1 @raised(ptr %state, ptr %asked)
  %interrupted.now = or i1 %interrupted, %wait.raised
  %ticket.last = load atomic i64, ptr %ticket.at seq_cst, align 8
  %number.last = lshr i64 %ticket.last, 32
  %ours = icmp eq i64 %number.last, %number
  br i1 %ours, label %wait, label %finish               ; else a signal handler has forked: this is the child
unlock:
  %shared.raised = phi i1 [ %interrupted, %wait ], [ %interrupted, %wait.sleep ]
  store atomic i64 0, ptr %lock.at seq_cst, align 8
  br label %finish

finish:
  %raised = phi i1 [ %shared.raised, %unlock ], [ true, %wait.asked ], [ true, %single ], [ false, %single.next ]
  %last = load ptr, ptr %state
  call void $PyEval_RestoreThread(ptr %last)
  %answer = select i1 %raised, i64 -2, i64 -1
  ret i64 %answer
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void $declared_pause
"""

_LIBC = ("clock_gettime", "syscall", "pthread_create", "pthread_detach", "pthread_sigmask")
_PYTHON = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals")
SPINS = 400  # pauses, of some 50 ns, before a thread sleeps

_state = immortal(np.zeros(_BELLS + (MOST + 1) * _LINE + _LINE, np.int64))  # its threads are there to the very end


def _state_address() -> int:
    start = _state.__array_interface__["data"][0]
    return start + -start % (8 * _LINE)


def function(name: str) -> int:
    """The address of the function ``run`` or ``poll``."""
    addresses = {name: address_of(name) for name in _LIBC} | {name: python_api(name) for name in _PYTHON}
    addresses["state"] = _state_address()
    symbols = {f"here:{name}": address for name, address in addresses.items()}
    return known_function(("pool", name), f"tracegrad_{name}", symbols, functools.partial(_text, name, addresses))


def _text(name: str, addresses: dict[str, int]) -> str:
    numbers = {
        **_PLACES, "bells": _BELLS, "futex": _FUTEX.get(platform.machine(), 0), "spins": SPINS,
        "clock": 6 if sys.platform == "darwin" else 1,  # CLOCK_MONOTONIC
        **_PAUSE.get(platform.machine(), _NO_PAUSE),
    }  # fmt: skip
    native = importlib.import_module(".native", __package__)
    return native.filled(NOW + {"run": POOL, "poll": POLL}[name], numbers, addresses, ()).text


def _alone() -> None:
    """A forked child has none of the threads; they are begun anew."""
    _state[:] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone)
