"""Memory of large results, kept for the results of later calls: a memory handler of NumPy's (NEP 49), in machine code.

The C library maps a large block anew for each array and gives it back with the array, and the pages that the next call
gets are empty ones, which the system has to clear: that takes longer than many kernels take to fill them, and threads
do not help.  So the launcher (``launcher_ir.py``) makes results of :data:`LEAST` bytes or more with this handler.  What
it is given back is kept, :data:`MOST` bytes of it, the latest, and the system is told that it may take the pages
whenever it needs them (``MADV_FREE``), but for the first :data:`UNTOLD` bytes.  Only an array of exactly the same
number of bytes gets a block that is kept.

All blocks come from NumPy's own handler and go back there, so ``resize`` and the like are that one's.  NumPy calls a
handler with the GIL held.  Start reading at :data:`HANDLER`.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys

from ...codegen.cpu.cpython import default_allocator, immortal, memory_handler
from ...codegen.cpu.symbols import address_of
from .native import filled
from .native_code import compile_functions

#: From here on NumPy asks for large pages, and an array costs microseconds at least.
LEAST = 1 << 22
#: Bytes, and blocks, that are kept at most.
MOST, BLOCKS = 1 << 29, 32
#: Bytes of which the system is not told, which takes time for each page: the C library keeps as many of small blocks.
UNTOLD = 1 << 26

_FREE = {"linux": 8, "darwin": 5}.get(sys.platform)  # MADV_FREE

HANDLER = r"""
; `$kept` are rows of (address, bytes), address 0 where there is none; `$total` the sum of the bytes; `$hand` the row
; that the next block is put into, after the one that is kept there has gone: the oldest of all.

define ptr @tracegrad_result_take(ptr %context, i64 %bytes) {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %done = icmp eq i64 %k, $blocks
  br i1 %done, label %fresh, label %body
body:
  %word = mul i64 %k, 2
  %row = getelementptr i64, ptr $kept, i64 %word
  %here = load ptr, ptr %row
  %size = load i64, ptr %row[i64 1]
  %there = icmp ne ptr %here, null
  %same = icmp eq i64 %size, %bytes
  %found = and i1 %there, %same
  br i1 %found, label %again, label %next
next:
  %k.next = add i64 %k, 1
  br label %head
again:
  store ptr null, ptr %row
  %total = load i64, ptr $total
  %less = sub i64 %total, %bytes
  store i64 %less, ptr $total
  ret ptr %here
fresh:
  %made = call ptr $numpy_malloc(ptr $numpy_context, i64 %bytes)
  ret ptr %made
}

define void @tracegrad_result_give(ptr %context, ptr %block, i64 %bytes) {
entry:
  %small = icmp ult i64 %bytes, $least
  %large = icmp ugt i64 %bytes, $most
  %none = icmp eq ptr %block, null
  %not.a = or i1 %small, %large
  %not = or i1 %not.a, %none
  br i1 %not, label %free, label %ask
ask:
  %held = load i64, ptr $total
  %then = add i64 %held, %bytes
  %few = icmp ule i64 %then, $untold
  br i1 %few, label %place, label %tell
tell:                                               ; whole pages within the block may be taken
  %from = ptrtoint ptr %block to i64
  %to = add i64 %from, %bytes
  %above = add i64 %from, $page_less
  %begin = and i64 %above, $page_mask
  %end = and i64 %to, $page_mask
  %length = sub i64 %end, %begin
  %at = inttoptr i64 %begin to ptr
  %refused = call i32 $madvise(ptr %at, i64 %length, i32 $advice)
  %told = icmp eq i32 %refused, 0
  br i1 %told, label %place, label %free
place:                                              ; rounds end: when all rows are empty, `total` is 0
  %hand = load i64, ptr $hand
  %word = mul i64 %hand, 2
  %row = getelementptr i64, ptr $kept, i64 %word
  %old = load ptr, ptr %row
  %old.there = icmp ne ptr %old, null
  br i1 %old.there, label %evict, label %empty
evict:
  %old.bytes = load i64, ptr %row[i64 1]
  %before = load i64, ptr $total
  %less = sub i64 %before, %old.bytes
  store i64 %less, ptr $total
  store ptr null, ptr %row
  call void $numpy_free(ptr $numpy_context, ptr %old, i64 %old.bytes)
  br label %empty
empty:
  %next = add i64 %hand, 1
  %wrapped = urem i64 %next, $blocks
  store i64 %wrapped, ptr $hand
  %total = load i64, ptr $total
  %sum = add i64 %total, %bytes
  %fits = icmp ule i64 %sum, $most
  br i1 %fits, label %keep, label %place
keep:
  store ptr %block, ptr %row
  store i64 %bytes, ptr %row[i64 1]
  store i64 %sum, ptr $total
  ret void
free:
  call void $numpy_free(ptr $numpy_context, ptr %block, i64 %bytes)
  ret void
}
"""


#: The address of the capsule of the handler, once a result is large.
handler_cell = immortal(ctypes.c_int64(0))
kept = immortal((ctypes.c_int64 * (2 * BLOCKS))())
total = immortal(ctypes.c_int64(0))
_hand = immortal(ctypes.c_int64(0))


def is_large(nbytes: int) -> bool:
    """Whether a result of *nbytes* is made by the handler, which is there from then on."""
    if nbytes < LEAST:
        return False
    if not handler_cell.value:
        handler_cell.value = _handler()
    return handler_cell.value != 0


@functools.cache
def _handler() -> int:
    """The address of the capsule of the handler; 0 where the system has no such advice."""
    if _FREE is None:
        return 0
    context, malloc, calloc, realloc, free = default_allocator()
    addresses = {
        "kept": ctypes.addressof(kept), "total": ctypes.addressof(total), "hand": ctypes.addressof(_hand),
        "numpy_malloc": malloc, "numpy_free": free, "madvise": address_of("madvise"),
    }  # fmt: skip
    page = mmap.PAGESIZE
    numbers = {
        "least": LEAST, "most": MOST, "untold": UNTOLD, "blocks": BLOCKS, "advice": _FREE, "page_less": page - 1,
        "page_mask": -page, "numpy_context": f"inttoptr (i64 {context} to ptr)",
    }  # fmt: skip
    source = filled(HANDLER, numbers, addresses, ())

    take, give = compile_functions(source, ("tracegrad_result_take", "tracegrad_result_give"))
    return id(memory_handler(b"tracegrad_results", context, take, calloc, realloc, give))
