"""The native launcher: one C-level function in LLVM IR which carries out a cached call.

A cached call has to cost well under a microsecond, and Python cannot even look at five arguments in that time.
So the work of a call is done by one function with the C signature of a fast CPython builtin (``METH_FASTCALL``).
It is generic: it is compiled once per process, in some hundredths of a second, and is told what to do by a table.

Two data structures.  The **table** of a binding is a flat run of 64-bit words, read strictly front to back like a tape:
a header (:data:`HEADER`), one row per argument, one row per output.  The rows, with a word for each column::

    array argument or output  KIND_ARRAY                      dtype object   number of dimensions   dimension ...
    array that is written     KIND_WRITTEN                    the same; a read-only array is none of these
    large array output        KIND_LARGE                      the same; its memory is of ``result_memory.py``
    output in a kept tree     KIND_KEPT                       the same; there may be one already (``result_tree.py``)
    scalar argument           KIND_FLOAT64 or KIND_FLOAT32    accepted types (a sum of ACCEPT_*)
    constant argument         KIND_CONST                      the object itself
    scalar output             KIND_SCALAR_OUT                 dtype object

Outputs behind the first ``n_given`` are memory for this call alone, which nobody is handed.

A **member** is one kernel on these arguments and outputs: a header (:data:`MEMBER`), the addresses of its constant
arrays, the offsets of its temporaries.  Where guard k of a member fails, words 2k and 2k + 1 of its ``following`` are
the member to run in its place (0: none is known), as long as that one has not run in this call, and the steps of that
one that are done by then (``shared_prefix.py``).  The table's ``first`` leads to the member that is run first: the one
that answered last, since inputs tend to go the way of those before.

Both are written by ``bind.py``, where ``call_python`` and ``call_family`` are the same in Python.  Start reading at
:data:`LAUNCHER`, at the function ``tracegrad_launch``.  ``native.py`` compiles it.
"""

from __future__ import annotations

from ctypes import addressof

import numpy as np

from ...codegen.cpu import cpython
from . import result_tree_ir
from .native import filled
from .native_code import NativeText, compile_function
from .plan import SLOT_BYTES
from .result_memory import handler_cell

#: Words of the table's header, in order.
#: ``room``: the most constant arrays and temporaries of any member; ``first``: where the address of one stands.
#: ``space``: bytes of the workspace; ``tree``: the address of the words of the tree that results stand in, or 0.
HEADER = ("n_args", "n_outs", "n_given", "single", "room", "first", "space", "tree")

#: Words of a member's header.  ``base``: offset of the index of a guard that failed; ``bit``: the member's own.
MEMBER = ("kernel", "sizes", "consts", "n_extra", "n_temps", "counts", "base", "bit", "following")

KIND_ARRAY, KIND_FLOAT64, KIND_FLOAT32, KIND_CONST, KIND_SCALAR_OUT, KIND_WRITTEN, KIND_LARGE, KIND_KEPT = range(8)
ACCEPT_FLOAT, ACCEPT_NP_FLOAT64, ACCEPT_NP_FLOAT32 = 1, 2, 4

# `$name` is filled in by `launcher_ir`: a number, or the address of a function or object as a constant pointer.
# `load i64, ptr %row[i64 2]` loads a field, word 2 of the row, and a `store` of this form writes it (`native.filled`).
LAUNCHER = r"""
; Is `object` an ndarray as the row says?  The cheap tests that fail most often come first.
define internal i1 @is_expected_array(ptr %object, ptr %row) {
entry:
  %type = load ptr, ptr %object[i8 $ob_type]
  %exact = icmp eq ptr %type, $ndarray              ; a subclass may mean anything: not ours
  br i1 %exact, label %layout, label %no
layout:                                             ; C-contiguous, aligned, writeable if need be; the same rank
  %flags = load i32, ptr %object[i8 $array_flags]
  %kind = load i64, ptr %row
  %written = icmp eq i64 %kind, $KIND_WRITTEN
  %wanted = select i1 %written, i32 $carray_written, i32 $carray
  %carray = and i32 %flags, %wanted
  %carray.ok = icmp eq i32 %carray, %wanted
  %nd.int = load i32, ptr %object[i8 $array_nd]
  %nd = sext i32 %nd.int to i64
  %row.nd = load i64, ptr %row[i64 2]
  %nd.ok = icmp eq i64 %nd, %row.nd
  %layout.ok = and i1 %carray.ok, %nd.ok
  br i1 %layout.ok, label %dtype, label %no
dtype:                                              ; nearly always the one dtype object of its kind ...
  %descr = load ptr, ptr %object[i8 $array_descr]
  %row.descr = load ptr, ptr %row[i64 1]
  %same = icmp eq ptr %descr, %row.descr
  br i1 %same, label %shape, label %equivalent
equivalent:                                         ; ... but unpickled arrays have copies of it
  %equal = call i8 $PyArray_EquivTypes(ptr %descr, ptr %row.descr)
  %equal.ok = icmp ne i8 %equal, 0
  br i1 %equal.ok, label %shape, label %no
shape:
  %dims = load ptr, ptr %object[i8 $array_dims]
  %row.dims = getelementptr i64, ptr %row, i64 3
  br label %dim
dim:
  %d = phi i64 [ 0, %shape ], [ %d.next, %dim.body ]
  %d.done = icmp eq i64 %d, %nd
  br i1 %d.done, label %yes, label %dim.body
dim.body:
  %size = load i64, ptr %dims[i64 %d]
  %row.size = load i64, ptr %row.dims[i64 %d]
  %size.ok = icmp eq i64 %size, %row.size
  %d.next = add i64 %d, 1
  br i1 %size.ok, label %dim, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; A new array.
define internal ptr @made(ptr %descr, i32 %nd, ptr %dims) {
  call void $Py_IncRef(ptr %descr)                  ; the next call takes this reference, even if it fails
  %new = call ptr $PyArray_NewFromDescr(ptr $ndarray, ptr %descr, i32 %nd, ptr %dims, ptr null,
                                        ptr null, i32 0, ptr null)
  ret ptr %new
}

; A new large array, of memory that is kept; of that of the user's handler where there is one.
define internal ptr @large(ptr %descr, i32 %nd, ptr %dims) {
entry:
  %ours = load ptr, ptr $result_handler
  %before = call ptr $PyDataMem_SetHandler(ptr %ours)
  %failed = icmp eq ptr %before, null
  br i1 %failed, label %none, label %set
set:
  %default = load ptr, ptr $PyDataMem_DefaultHandler
  %ordinary = icmp eq ptr %before, %default
  br i1 %ordinary, label %own, label %users
own:
  %kept = call ptr @made(ptr %descr, i32 %nd, ptr %dims)
  call void @put_back(ptr %before)
  ret ptr %kept
users:
  call void @put_back(ptr %before)
  %new = call ptr @made(ptr %descr, i32 %nd, ptr %dims)
  ret ptr %new
none:
  ret ptr null
}

define internal void @put_back(ptr %handler) {
  %ours = call ptr $PyDataMem_SetHandler(ptr %handler)
  call void $Py_DecRef(ptr %ours)                   ; null where there is no memory, which it permits
  call void $Py_DecRef(ptr %handler)
  ret void
}

; Give up the first `n` outputs.  Those not made (scalars before boxing) are null, which Py_DecRef permits.
define internal void @drop(ptr %results, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %body ]
  %done = icmp eq i64 %i, %n
  br i1 %done, label %end, label %body
body:
  %result = load ptr, ptr %results[ptr %i]
  call void $Py_DecRef(ptr %result)
  %i.next = add i64 %i, 1
  br label %head
end:
  ret void
}

; The end of a call's use of its workspace: the arena, or memory of its own.
define internal void @give_back(i64 %space, ptr %own) {
  %none = icmp eq i64 %space, 0
  br i1 %none, label %end, label %some
some:
  %is.shared = icmp eq ptr %own, null
  br i1 %is.shared, label %shared, label %alone
shared:
  store i64 0, ptr $arena_busy
  br label %end
alone:
  call void $PyMem_RawFree(ptr %own)
  br label %end
end:
  ret void
}

; The builtin: self is a binding (a tuple that begins with the table, a bytes object), args are borrowed references.
define ptr @tracegrad_launch(ptr %self, ptr %args, i64 %nargs) {
entry:
  %bytes = load ptr, ptr %self[i8 $ob_item]
  %table = getelementptr i8, ptr %bytes, i64 $ob_sval
  %n_args = load i64, ptr %table[i64 $n_args]
  %arity.ok = icmp eq i64 %nargs, %n_args
  br i1 %arity.ok, label %open, label %mismatch

open:
  %n_outs = load i64, ptr %table[i64 $n_outs]
  %room = load i64, ptr %table[i64 $room]
  %first = load ptr, ptr %table[i64 $first]
  ; On the stack: the kernel's table of buffers, a slot per argument and output for scalars, the new outputs.
  %n_slots = add i64 %n_args, %n_outs
  %n_bufs = add i64 %n_slots, %room
  %bufs = alloca ptr, i64 %n_bufs
  %slots.bytes = mul i64 %n_slots, $slot
  %slots = alloca i8, i64 %slots.bytes, align 16
  %results = alloca ptr, i64 %n_outs
  %rows = getelementptr i64, ptr %table, i64 $header
  br label %arg

; ---- 1. The arguments.  `row` walks the table, `buf` the buffers.  Nothing is changed before all have matched.
arg:
  %i = phi i64 [ 0, %open ], [ %i.next, %arg.next ]
  %row = phi ptr [ %rows, %open ], [ %row.next, %arg.next ]
  %buf = phi ptr [ %bufs, %open ], [ %buf.next, %arg.next ]
  %slot.offset = mul i64 %i, $slot
  %slot = getelementptr i8, ptr %slots, i64 %slot.offset
  %i.next = add i64 %i, 1
  %args.done = icmp eq i64 %i, %n_args
  br i1 %args.done, label %trees, label %arg.body

arg.body:
  %object = load ptr, ptr %args[ptr %i]
  %kind = load i64, ptr %row
  switch i64 %kind, label %const [ i64 $KIND_ARRAY, label %array
                                   i64 $KIND_WRITTEN, label %array
                                   i64 $KIND_FLOAT64, label %scalar
                                   i64 $KIND_FLOAT32, label %scalar ]

array:
  %array.ok = call i1 @is_expected_array(ptr %object, ptr %row)
  br i1 %array.ok, label %array.take, label %mismatch
array.take:
  %data = load ptr, ptr %object[i8 $array_data]
  store ptr %data, ptr %buf
  %array.nd = load i64, ptr %row[i64 2]
  %array.words = add i64 %array.nd, 3
  br label %arg.next

scalar:                                             ; a float of an accepted type, widened, then stored as wanted
  %type = load ptr, ptr %object[i8 $ob_type]
  %is.float = icmp eq ptr %type, $float
  %is.float64 = icmp eq ptr %type, $float64
  %is.float32 = icmp eq ptr %type, $float32
  %bit.a = select i1 %is.float, i64 $ACCEPT_FLOAT, i64 0
  %bit.b = select i1 %is.float64, i64 $ACCEPT_NP_FLOAT64, i64 %bit.a
  %bit = select i1 %is.float32, i64 $ACCEPT_NP_FLOAT32, i64 %bit.b
  %accept = load i64, ptr %row[i64 1]
  %accepted = and i64 %accept, %bit
  %scalar.ok = icmp ne i64 %accepted, 0
  br i1 %scalar.ok, label %scalar.read, label %mismatch
scalar.read:
  %value.at = getelementptr i8, ptr %object, i64 $ob_fval
  br i1 %is.float32, label %scalar.read32, label %scalar.read64
scalar.read32:
  %value32 = load float, ptr %value.at
  %widened = fpext float %value32 to double
  br label %scalar.store
scalar.read64:
  %value64 = load double, ptr %value.at
  br label %scalar.store
scalar.store:
  %value = phi double [ %widened, %scalar.read32 ], [ %value64, %scalar.read64 ]
  store ptr %slot, ptr %buf
  %store.narrow = icmp eq i64 %kind, $KIND_FLOAT32
  br i1 %store.narrow, label %scalar.store32, label %scalar.store64
scalar.store32:
  %narrowed = fptrunc double %value to float
  store float %narrowed, ptr %slot
  br label %arg.next
scalar.store64:
  store double %value, ptr %slot
  br label %arg.next

const:                                              ; this very object; it has no buffer
  %constant = load ptr, ptr %row[i64 1]
  %const.ok = icmp eq ptr %object, %constant
  br i1 %const.ok, label %arg.next, label %mismatch

arg.next:
  %words = phi i64 [ %array.words, %array.take ], [ 2, %scalar.store32 ], [ 2, %scalar.store64 ], [ 2, %const ]
  %used = phi i64 [ 1, %array.take ], [ 1, %scalar.store32 ], [ 1, %scalar.store64 ], [ 0, %const ]
  %row.next = getelementptr i64, ptr %row, i64 %words
  %buf.next = getelementptr ptr, ptr %buf, i64 %used
  br label %arg

; ---- 2. The outputs.  `slot` and `row` stand behind the arguments now.  No Python code can run in here.  `again` is a
;      tree whose arrays are there, which is this call's own.
trees:
  %tree = load ptr, ptr %table[i64 $tree]
  %flat = icmp eq ptr %tree, null
  br i1 %flat, label %outs, label %take
take:
  %n_spots = mul i64 %n_outs, 2
  %spots = alloca ptr, i64 %n_spots                 ; where numbers stand in the tree
  %free = call ptr @taken(ptr %tree, ptr %buf, ptr %spots)
  br label %outs
outs:
  %again = phi ptr [ null, %trees ], [ %free, %take ]
  %places = phi ptr [ null, %trees ], [ %spots, %take ]
  %again.not = icmp eq ptr %again, null
  br label %out
out:
  %o = phi i64 [ 0, %outs ], [ %o.next, %out.next ]
  %out.row = phi ptr [ %row, %outs ], [ %out.row.next, %out.next ]
  %out.buf = phi ptr [ %buf, %outs ], [ %out.buf.next, %out.next ]
  %outs.done = icmp eq i64 %o, %n_outs
  br i1 %outs.done, label %begin, label %out.body

out.body:
  %out.kind = load i64, ptr %out.row
  %out.is_scalar = icmp eq i64 %out.kind, $KIND_SCALAR_OUT
  br i1 %out.is_scalar, label %out.scalar, label %out.array

out.array:
  %out.descr = load ptr, ptr %out.row[i64 1]
  %out.nd = load i64, ptr %out.row[i64 2]
  %out.nd.int = trunc i64 %out.nd to i32
  %out.dims = getelementptr i64, ptr %out.row, i64 3
  %out.array.words = add i64 %out.nd, 3
  switch i64 %out.kind, label %out.small [ i64 $KIND_LARGE, label %out.large i64 $KIND_KEPT, label %out.kept ]
out.kept:
  %kept.data = load ptr, ptr %out.buf
  br i1 %again.not, label %out.small, label %out.next
out.small:
  %new.small = call ptr @made(ptr %out.descr, i32 %out.nd.int, ptr %out.dims)
  br label %out.made
out.large:
  %new.large = call ptr @large(ptr %out.descr, i32 %out.nd.int, ptr %out.dims)
  br label %out.made
out.made:
  %new = phi ptr [ %new.small, %out.small ], [ %new.large, %out.large ]
  %new.failed = icmp eq ptr %new, null
  br i1 %new.failed, label %error, label %out.array.take
out.array.take:
  %new.data = load ptr, ptr %new[i8 $array_data]
  br label %out.next

out.scalar:                                         ; boxed after the kernel
  %out.slot.offset = mul i64 %o, $slot
  %out.slot = getelementptr i8, ptr %slot, i64 %out.slot.offset
  br label %out.next

out.next:
  %made = phi ptr [ %new, %out.array.take ], [ null, %out.scalar ], [ null, %out.kept ]
  %out.data = phi ptr [ %new.data, %out.array.take ], [ %out.slot, %out.scalar ], [ %kept.data, %out.kept ]
  %out.words = phi i64 [ %out.array.words, %out.array.take ], [ 2, %out.scalar ], [ %out.array.words, %out.kept ]
  store ptr %made, ptr %results[ptr %o]
  store ptr %out.data, ptr %out.buf
  %o.next = add i64 %o, 1
  %out.row.next = getelementptr i64, ptr %out.row, i64 %out.words
  %out.buf.next = getelementptr ptr, ptr %out.buf, i64 1
  br label %out

; ---- 3. The workspace: the arena, which may have moved since the last call, or memory of this call's own; a member's
;      constant arrays and temporaries.
begin:
  %begin.member = load ptr, ptr %first
  %space = load i64, ptr %table[i64 $space]
  %space.none = icmp eq i64 %space, 0
  br i1 %space.none, label %ready, label %space.ask
space.ask:
  %busy = load i64, ptr $arena_busy
  %busy.not = icmp eq i64 %busy, 0
  br i1 %busy.not, label %space.take, label %space.own
space.take:
  store i64 1, ptr $arena_busy
  %arena.shared = load ptr, ptr $arena_cell
  br label %ready
space.own:                                          ; a kernel that has let go of the GIL is at work in the arena
  %own.bytes = add i64 %space, 64
  %own.made = call ptr $PyMem_RawMalloc(i64 %own.bytes)
  %own.failed = icmp eq ptr %own.made, null
  br i1 %own.failed, label %space.failed, label %own.ok
own.ok:
  %own.number = ptrtoint ptr %own.made to i64
  %own.above = add i64 %own.number, 63
  %own.aligned = and i64 %own.above, -64
  %arena.own = inttoptr i64 %own.aligned to ptr
  br label %ready
space.failed:
  %no.memory = call ptr $PyErr_NoMemory()
  br label %error
ready:
  %arena = phi ptr [ null, %begin ], [ %arena.shared, %space.take ], [ %arena.own, %own.ok ]
  %own = phi ptr [ null, %begin ], [ null, %space.take ], [ %own.made, %own.ok ]
  br label %attempt
attempt:
  %member = phi ptr [ %begin.member, %ready ], [ %next, %hop ]
  %tried.before = phi i64 [ 0, %ready ], [ %tried, %hop ]
  %done = phi i64 [ 0, %ready ], [ %next.done, %hop ]
  %bit.mine = load i64, ptr %member[i64 $bit]
  %tried = or i64 %tried.before, %bit.mine
  %n_extra = load i64, ptr %member[i64 $n_extra]
  %n_temps = load i64, ptr %member[i64 $n_temps]
  %extra = getelementptr i64, ptr %member, i64 $member
  %extra.bytes = mul i64 %n_extra, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %out.buf, ptr %extra, i64 %extra.bytes, i1 false)
  %offsets = getelementptr i64, ptr %extra, i64 %n_extra
  %temps = getelementptr ptr, ptr %out.buf, i64 %n_extra
  br label %temp
temp:
  %t = phi i64 [ 0, %attempt ], [ %t.next, %temp.body ]
  %temps.done = icmp eq i64 %t, %n_temps
  br i1 %temps.done, label %run, label %temp.body
temp.body:
  %offset = load i64, ptr %offsets[i64 %t]
  %temporary = getelementptr i8, ptr %arena, i64 %offset
  store ptr %temporary, ptr %temps[ptr %t]
  %t.next = add i64 %t, 1
  br label %temp

; ---- 4. The kernel; where a guard of it fails, that of another member, on the same arguments and outputs.
run:
  %kernel = load ptr, ptr %member
  %sizes = load ptr, ptr %member[i64 $sizes]
  %consts = load ptr, ptr %member[i64 $consts]
  %failed = call i64 %kernel(ptr %bufs, ptr %sizes, ptr %consts, i64 %done)
  %raised = icmp slt i64 %failed, -1
  br i1 %raised, label %run.raised, label %count
run.raised:
  call void @give_back(i64 %space, ptr %own)
  br label %error
count:
  %counts = load ptr, ptr %member[i64 $counts]
  %counted = icmp ne ptr %counts, null
  br i1 %counted, label %tally, label %ran
tally:                                              ; one more run to the end (-1), or failure of this guard
  %tally.place = add i64 %failed, 1
  %tally.before = load i64, ptr %counts[i64 %tally.place]
  %tally.after = add i64 %tally.before, 1
  store i64 %tally.after, ptr %counts[i64 %tally.place]
  br label %ran
ran:
  %held = icmp slt i64 %failed, 0
  br i1 %held, label %answered, label %guard
guard:
  %following = load ptr, ptr %member[i64 $following]
  %alone = icmp eq ptr %following, null
  br i1 %alone, label %miss, label %follow
follow:
  %next.word = mul i64 %failed, 2
  %next.at = getelementptr i64, ptr %following, i64 %next.word
  %next = load ptr, ptr %next.at
  %last = icmp eq ptr %next, null
  br i1 %last, label %miss, label %hop
hop:
  %next.done = load i64, ptr %next.at[i64 1]
  %next.bit = load i64, ptr %next[i64 $bit]
  %ran.already = and i64 %tried, %next.bit
  %fresh = icmp eq i64 %ran.already, 0
  br i1 %fresh, label %attempt, label %miss
answered:
  call void @give_back(i64 %space, ptr %own)
  store ptr %member, ptr %first
  br label %box

; ---- 5. The result: box the scalars, then one object, a tuple or a tree.
box:
  %b = phi i64 [ 0, %answered ], [ %b.next, %box.next ]
  %box.row = phi ptr [ %row, %answered ], [ %box.row.next, %box.next ]
  %boxes.done = icmp eq i64 %b, %n_outs
  br i1 %boxes.done, label %boxed.all, label %box.body
box.body:
  %box.at = getelementptr ptr, ptr %results, i64 %b
  %box.kind = load i64, ptr %box.row
  %box.is_scalar = icmp eq i64 %box.kind, $KIND_SCALAR_OUT
  br i1 %box.is_scalar, label %box.scalar, label %box.array
box.array:
  %box.nd = load i64, ptr %box.row[i64 2]
  %box.words.array = add i64 %box.nd, 3
  br label %box.next
box.scalar:
  %box.slot.offset = mul i64 %b, $slot
  %box.slot = getelementptr i8, ptr %slot, i64 %box.slot.offset
  %box.descr = load ptr, ptr %box.row[i64 1]
  %boxed = call ptr $PyArray_Scalar(ptr %box.slot, ptr %box.descr, ptr null)
  store ptr %boxed, ptr %box.at
  %box.failed = icmp eq ptr %boxed, null
  br i1 %box.failed, label %error, label %box.next
box.next:
  %box.words = phi i64 [ %box.words.array, %box.array ], [ 2, %box.scalar ]
  %box.row.next = getelementptr i64, ptr %box.row, i64 %box.words
  %b.next = add i64 %b, 1
  br label %box

boxed.all:
  br i1 %flat, label %give, label %give.tree
give.tree:                                          ; may run Python code, as what follows may
  %result = call ptr @in_tree(ptr %tree, ptr %results, ptr %again, ptr %places)
  call void @drop(ptr %results, i64 %n_outs)        ; those that are not in it
  ret ptr %result
give:
  %single = load i64, ptr %table[i64 $single]
  %is.single = icmp ne i64 %single, 0
  br i1 %is.single, label %give.one, label %give.tuple
give.one:
  %only = load ptr, ptr %results
  br label %given
give.tuple:                                         ; may start a garbage collection, and so run Python code
  %n_given = load i64, ptr %table[i64 $n_given]
  %tuple = call ptr $PyTuple_New(i64 %n_given)
  %tuple.failed = icmp eq ptr %tuple, null
  br i1 %tuple.failed, label %error, label %item
item:
  %k = phi i64 [ 0, %give.tuple ], [ %k.next, %item.body ]
  %items.done = icmp eq i64 %k, %n_given
  br i1 %items.done, label %given, label %item.body
item.body:
  %item.value = load ptr, ptr %results[ptr %k]
  %ignored = call i32 $PyTuple_SetItem(ptr %tuple, i64 %k, ptr %item.value)
  %k.next = add i64 %k, 1
  br label %item
given:
  %answer = phi ptr [ %only, %give.one ], [ %tuple, %item ]
  %handed = phi i64 [ 1, %give.one ], [ %n_given, %item ]
  %rest = getelementptr ptr, ptr %results, i64 %handed
  %n_rest = sub i64 %n_outs, %handed
  call void @drop(ptr %rest, i64 %n_rest)
  ret ptr %answer

; ---- The other ways out.
mismatch:
  call void $Py_IncRef(ptr $none)
  ret ptr $none
miss:
  call void @give_back(i64 %space, ptr %own)
  call void $Py_DecRef(ptr %again)                  ; null where there is none, which it permits
  call void @drop(ptr %results, i64 %n_outs)
  %base = load i64, ptr %member[i64 $base]
  %number = add i64 %base, %failed
  %index = call ptr $PyLong_FromLongLong(i64 %number)
  ret ptr %index
error:                                              ; the exception is set
  %made.count = phi i64 [ %o, %out.made ], [ %n_outs, %run.raised ], [ %n_outs, %space.failed ],
                        [ %n_outs, %box.scalar ], [ %n_outs, %give.tuple ]
  call void $Py_DecRef(ptr %again)
  call void @drop(ptr %results, i64 %made.count)
  ret ptr null
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def launcher_ir(arena_cell: int, arena_busy: int) -> NativeText:
    """:data:`LAUNCHER` with the offsets of this process, and its addresses; the arena's base stands at *arena_cell*,
    whether a call is at work in it at *arena_busy*."""
    numbers = cpython.offsets() | {name: position for position, name in enumerate(HEADER)}
    numbers |= {name: value for name, value in globals().items() if name.startswith(("KIND_", "ACCEPT_"))}
    numbers |= {name: position for position, name in enumerate(MEMBER)}
    numbers |= {"header": len(HEADER), "member": len(MEMBER), "slot": SLOT_BYTES, "carray": cpython.CARRAY_FLAGS}
    numbers |= {"carray_written": cpython.CARRAY_FLAGS | _writeable_flag(), **result_tree_ir.numbers()}
    objects = {"none": None, "float": float, "float64": np.float64, "float32": np.float32}
    addresses = cpython.numpy_api() | {name: id(obj) for name, obj in objects.items()}
    addresses |= {"arena_cell": arena_cell, "arena_busy": arena_busy, "result_handler": addressof(handler_cell)}
    functions = (
        "Py_IncRef", "Py_DecRef", "PyTuple_New", "PyTuple_SetItem", "PyLong_FromLongLong", "PyMem_RawMalloc",
        "PyMem_RawFree", "PyErr_NoMemory", *result_tree_ir.FUNCTIONS,
    )  # fmt: skip
    return filled(result_tree_ir.LOOK + result_tree_ir.MAKE + LAUNCHER, numbers, addresses, functions)


def _writeable_flag() -> int:
    """The bit by which the flags of a writeable ndarray differ from those of a read-only one."""
    array, frozen = np.zeros(1), np.zeros(1)
    frozen.flags.writeable = False
    return array.flags.num ^ frozen.flags.num


def compile_launcher(arena_cell: int, arena_busy: int) -> int:
    """Compile the launcher for this process: the function's address."""
    return compile_function(launcher_ir(arena_cell, arena_busy), "tracegrad_launch")
