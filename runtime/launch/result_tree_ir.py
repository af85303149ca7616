"""Results in a tree, in LLVM IR: how one is made, and whether one that is kept can be written again.

Both follow the words that ``result_tree.py`` writes.  The launcher (``launcher_ir.py``) calls ``@taken`` before the
kernel runs and ``@in_tree`` after it.
"""

from __future__ import annotations

from .result_tree import HEADER, KEPT, KINDS

MAKE = r"""
; The object that `words` tell to make of `results`, from which those that it holds are taken; null if that fails.
define internal ptr @built(ptr %words, ptr %results) {
entry:
  %room = load i64, ptr %words
  %stack = alloca ptr, i64 %room
  %first = getelementptr i64, ptr %words, i64 1
  br label %head
head:
  %op = phi ptr [ %first, %entry ], [ %op.two, %push ], [ %op.items, %put.done ], [ %op.keys, %entry.done ],
              [ %op.call, %called ]
  %top = phi i64 [ 0, %entry ], [ %top.push, %push ], [ %top.items, %put.done ], [ %top.dict, %entry.done ],
               [ %top.call, %called ]
  %kind = load i64, ptr %op
  %n = load i64, ptr %op[i64 1]
  %base = sub i64 %top, %n
  %parts = getelementptr ptr, ptr %stack, i64 %base
  switch i64 %kind, label %answer [ i64 $RESULT, label %result i64 $CONST, label %constant
                                    i64 $TUPLE, label %tuple i64 $LIST, label %list i64 $DICT, label %dict
                                    i64 $CALL, label %call ]

result:
  %result.at = getelementptr ptr, ptr %results, i64 %n
  %result.object = load ptr, ptr %result.at
  store ptr null, ptr %result.at
  br label %push
constant:
  %constant.object = load ptr, ptr %op[i64 1]
  call void $Py_IncRef(ptr %constant.object)
  br label %push
push:
  %object = phi ptr [ %result.object, %result ], [ %constant.object, %constant ]
  store ptr %object, ptr %stack[ptr %top]
  %top.push = add i64 %top, 1
  %op.two = getelementptr i64, ptr %op, i64 2
  br label %head

tuple:
  %tuple.new = call ptr $PyTuple_New(i64 %n)
  br label %sequence
list:
  %list.new = call ptr $PyList_New(i64 %n)
  br label %sequence
sequence:
  %sequence.new = phi ptr [ %tuple.new, %tuple ], [ %list.new, %list ]
  %sequence.failed = icmp eq ptr %sequence.new, null
  br i1 %sequence.failed, label %failed, label %put
put:                                                ; nothing else can run before all items are there
  %i = phi i64 [ 0, %sequence ], [ %i.next, %put.next ]
  %put.all = icmp eq i64 %i, %n
  br i1 %put.all, label %put.done, label %put.one
put.one:
  %part = load ptr, ptr %parts[ptr %i]
  %is.tuple = icmp eq i64 %kind, $TUPLE
  br i1 %is.tuple, label %put.tuple, label %put.list
put.tuple:
  %tuple.ignored = call i32 $PyTuple_SetItem(ptr %sequence.new, i64 %i, ptr %part)
  br label %put.next
put.list:
  %list.ignored = call i32 $PyList_SetItem(ptr %sequence.new, i64 %i, ptr %part)
  br label %put.next
put.next:
  %i.next = add i64 %i, 1
  br label %put
put.done:
  store ptr %sequence.new, ptr %stack[ptr %base]
  %top.items = add i64 %base, 1
  %op.items = getelementptr i64, ptr %op, i64 2
  br label %head

dict:
  %dict.new = call ptr $PyDict_New()
  %dict.failed = icmp eq ptr %dict.new, null
  %keys = getelementptr i64, ptr %op, i64 2
  br i1 %dict.failed, label %failed, label %fill
fill:
  %k = phi i64 [ 0, %dict ], [ %k.next, %fill.next ]
  %filled = icmp eq i64 %k, %n
  br i1 %filled, label %entry.done, label %fill.one
fill.one:
  %key = load ptr, ptr %keys[ptr %k]
  %item = load ptr, ptr %parts[ptr %k]
  %refused = call i32 $PyDict_SetItem(ptr %dict.new, ptr %key, ptr %item)
  %refused.so = icmp ne i32 %refused, 0
  br i1 %refused.so, label %fill.failed, label %fill.next
fill.next:
  call void $Py_DecRef(ptr %item)                   ; the dict has its own reference
  store ptr null, ptr %parts[ptr %k]
  %k.next = add i64 %k, 1
  br label %fill
fill.failed:
  call void $Py_DecRef(ptr %dict.new)
  br label %failed
entry.done:
  store ptr %dict.new, ptr %stack[ptr %base]
  %top.dict = add i64 %base, 1
  %op.keys = getelementptr i64, ptr %keys, i64 %n
  br label %head

call:                                               ; any Python code may run in here
  %function = load ptr, ptr %op[i64 2]
  %call.new = call ptr $PyObject_Vectorcall(ptr %function, ptr %parts, i64 %n, ptr null)
  %call.failed = icmp eq ptr %call.new, null
  br i1 %call.failed, label %failed, label %called
called:
  call void @drop(ptr %parts, i64 %n)
  store ptr %call.new, ptr %stack[ptr %base]
  %top.call = add i64 %base, 1
  %op.call = getelementptr i64, ptr %op, i64 3
  br label %head

answer:
  %made = load ptr, ptr %stack
  ret ptr %made
failed:
  call void @drop(ptr %stack, i64 %top)
  ret ptr null
}

; The result in its tree, null if it can't be made. `again` is the tree that is kept, into whose arrays the kernel has
; written, or null: then it is made of `results`.  `spots` are the places of its numbers.
define internal ptr @in_tree(ptr %tree, ptr %results, ptr %again, ptr %spots) {
entry:
  %there = icmp ne ptr %again, null
  br i1 %there, label %fill, label %make
fill:
  %counted = load i64, ptr %tree[i64 $counted]
  %numbers = load ptr, ptr %tree[i64 $numbered]
  br label %number
number:
  %k = phi i64 [ 0, %fill ], [ %k.next, %number.one ]
  %numbers.done = icmp eq i64 %k, %counted
  br i1 %numbers.done, label %keep, label %number.put
number.put:
  %result = load i64, ptr %numbers[i64 %k]
  %number.at = getelementptr ptr, ptr %results, i64 %result
  %number.new = load ptr, ptr %number.at
  %spot.place = mul i64 %result, 2
  %spot = getelementptr ptr, ptr %spots, i64 %spot.place
  %holder = load ptr, ptr %spot
  %key = load ptr, ptr %spot[ptr 1]
  %is.item = icmp eq ptr %key, null
  br i1 %is.item, label %number.item, label %number.dict
number.item:
  %number.old = load ptr, ptr %holder
  store ptr %number.new, ptr %holder
  store ptr %number.old, ptr %number.at             ; dropped with what is left of the results
  br label %number.one
number.dict:
  %refused = call i32 $PyDict_SetItem(ptr %holder, ptr %key, ptr %number.new)
  %refused.not = icmp eq i32 %refused, 0
  br i1 %refused.not, label %number.one, label %number.failed
number.failed:
  call void $Py_DecRef(ptr %again)
  br label %none
number.one:
  %k.next = add i64 %k, 1
  br label %number
make:
  %words = load ptr, ptr %tree[i64 $make]
  %new = call ptr @built(ptr %words, ptr %results)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %none, label %keep
keep:
  %object = phi ptr [ %again, %number ], [ %new, %make ]
  %place = load i64, ptr %tree[i64 $place]
  %at = getelementptr ptr, ptr %results, i64 %place
  store ptr %object, ptr %at
  %list = load ptr, ptr %tree
  %size = load i64, ptr %list[i8 $list_size]
  %whole = icmp eq i64 %size, $kept_trees             ; the collector may have emptied it
  br i1 %whole, label %move, label %outer
move:
  call void $Py_IncRef(ptr %object)
  %items = load ptr, ptr %list[i8 $list_items]
  br label %shift
shift:
  %i = phi i64 [ 0, %move ], [ %i.next, %shift.one ]
  %moving = phi ptr [ %object, %move ], [ %moved, %shift.one ]
  %done = icmp eq i64 %i, $kept_trees
  br i1 %done, label %evict, label %shift.one
shift.one:
  %item.at = getelementptr ptr, ptr %items, i64 %i
  %moved = load ptr, ptr %item.at
  store ptr %moving, ptr %item.at
  %i.next = add i64 %i, 1
  br label %shift
evict:                                              ; which may run Python code: all is as it should be by now
  call void $Py_DecRef(ptr %moving)
  br label %outer
outer:
  %outer.words = load ptr, ptr %tree[i64 $outer]
  %answer = call ptr @built(ptr %outer.words, ptr %results)
  ret ptr %answer
none:
  ret ptr null
}
"""

LOOK = r"""
; Is the tree `object` as it was made, and has nobody but its owner any object of it? The word behind those of its own,
; or null. The addresses of its arrays' data are put into `bufs`; the places of its numbers into `spots`, in pairs.
; `holder` and `key.at` say where `object` stands: the address of the reference and null, or the dict and its key.
define internal ptr @intact(ptr %object, ptr %op, ptr %bufs, ptr %spots, ptr %holder, ptr %key.at) {
entry:
  %pos = alloca i64
  %key = alloca ptr
  %value = alloca ptr
  %kind = load i64, ptr %op
  %known = load ptr, ptr %op[i64 1]
  switch i64 %kind, label %owned [ i64 $CONST, label %constant i64 $NUMBER, label %number ]
number:                                             ; which nobody can change: it does not matter who has it
  %place = load i64, ptr %op[i64 1]
  %spot.place = mul i64 %place, 2
  %spot = getelementptr ptr, ptr %spots, i64 %spot.place
  store ptr %holder, ptr %spot
  store ptr %key.at, ptr %spot[ptr 1]
  %op.number = getelementptr i64, ptr %op, i64 2
  br label %yes
constant:
  %same = icmp eq ptr %object, %known
  %op.const = getelementptr i64, ptr %op, i64 2
  br i1 %same, label %yes, label %no
owned:
  %count = load i64, ptr %object[i8 $ob_refcnt]
  %type = load ptr, ptr %object[i8 $ob_type]
  %alone = icmp eq i64 %count, 1
  %exact = icmp eq ptr %type, %known
  %so = and i1 %alone, %exact
  %n = load i64, ptr %op[i64 2]
  br i1 %so, label %kinds, label %no
kinds:
  switch i64 %kind, label %array [ i64 $TUPLE, label %tuple i64 $LIST, label %list i64 $DICT, label %dict
                                   i64 $OBJECT, label %object.weak ]

array:
  %descr = load ptr, ptr %object[i8 $array_descr]
  %descr.known = load ptr, ptr %op[i64 3]
  %descr.ok = icmp eq ptr %descr, %descr.known
  %flags = load i32, ptr %object[i8 $array_flags]
  %flags.known = load i32, ptr %op[i64 4]
  %flags.ok = icmp eq i32 %flags, %flags.known
  %nd = load i32, ptr %object[i8 $array_nd]
  %nd.known = load i64, ptr %op[i64 5]
  %nd.long = sext i32 %nd to i64
  %nd.ok = icmp eq i64 %nd.long, %nd.known
  %array.base = load ptr, ptr %object[i8 $array_base]
  %base.ok = icmp eq ptr %array.base, null
  %weak = load ptr, ptr %object[i8 $array_weakrefs]
  %weak.ok = icmp eq ptr %weak, null
  %ok.a = and i1 %descr.ok, %flags.ok
  %ok.b = and i1 %nd.ok, %base.ok
  %ok.c = and i1 %ok.a, %ok.b
  %ok = and i1 %ok.c, %weak.ok
  %sizes.known = getelementptr i64, ptr %op, i64 6
  %dims = load ptr, ptr %object[i8 $array_dims]
  %n.sizes = mul i64 %nd.known, 2                     ; the strides stand behind the dimensions, in one block
  br i1 %ok, label %size, label %no
size:
  %d = phi i64 [ 0, %array ], [ %d.next, %size.one ]
  %sized = icmp eq i64 %d, %n.sizes
  br i1 %sized, label %array.yes, label %size.one
size.one:
  %size.now = load i64, ptr %dims[i64 %d]
  %size.known = load i64, ptr %sizes.known[i64 %d]
  %size.ok = icmp eq i64 %size.now, %size.known
  %d.next = add i64 %d, 1
  br i1 %size.ok, label %size, label %no
array.yes:
  %data = load ptr, ptr %object[i8 $array_data]
  store ptr %data, ptr %bufs[ptr %n]
  %op.array = getelementptr i64, ptr %sizes.known, i64 %n.sizes
  br label %yes

tuple:
  %inline = getelementptr i8, ptr %object, i64 $ob_item
  br label %sequence
list:
  %apart = load ptr, ptr %object[i8 $list_items]
  br label %sequence
sequence:
  %items = phi ptr [ %inline, %tuple ], [ %apart, %list ]
  %length = load i64, ptr %object[i8 $list_size]      ; a tuple has its size there, too
  %length.ok = icmp eq i64 %length, %n
  %op.first = getelementptr i64, ptr %op, i64 3
  br i1 %length.ok, label %item, label %no
item:
  %i = phi i64 [ 0, %sequence ], [ %i.next, %item.one ]
  %op.item = phi ptr [ %op.first, %sequence ], [ %op.item.next, %item.one ]
  %items.done = icmp eq i64 %i, %n
  br i1 %items.done, label %yes, label %item.look
item.look:
  %part.at = getelementptr ptr, ptr %items, i64 %i
  %part = load ptr, ptr %part.at
  %op.item.next = call ptr @intact(ptr %part, ptr %op.item, ptr %bufs, ptr %spots, ptr %part.at, ptr null)
  %item.ok = icmp ne ptr %op.item.next, null
  br i1 %item.ok, label %item.one, label %no
item.one:
  %i.next = add i64 %i, 1
  br label %item

dict:
  %entries = call i64 $PyDict_Size(ptr %object)
  %entries.ok = icmp eq i64 %entries, %n
  %keys = getelementptr i64, ptr %op, i64 3
  %op.value = getelementptr i64, ptr %keys, i64 %n
  store i64 0, ptr %pos
  br i1 %entries.ok, label %pair, label %no
pair:
  %k = phi i64 [ 0, %dict ], [ %k.next, %pair.one ]
  %op.pair = phi ptr [ %op.value, %dict ], [ %op.pair.next, %pair.one ]
  %pairs.done = icmp eq i64 %k, %n
  br i1 %pairs.done, label %yes, label %pair.look
pair.look:
  %more = call i32 $PyDict_Next(ptr %object, ptr %pos, ptr %key, ptr %value)
  %more.ok = icmp ne i32 %more, 0
  br i1 %more.ok, label %pair.key, label %no
pair.key:
  %key.now = load ptr, ptr %key
  %key.known = load ptr, ptr %keys[ptr %k]
  %key.ok = icmp eq ptr %key.now, %key.known
  br i1 %key.ok, label %pair.value, label %no
pair.value:
  %value.now = load ptr, ptr %value
  %op.pair.next = call ptr @intact(ptr %value.now, ptr %op.pair, ptr %bufs, ptr %spots, ptr %object, ptr %key.now)
  %pair.ok = icmp ne ptr %op.pair.next, null
  br i1 %pair.ok, label %pair.one, label %no
pair.one:
  %k.next = add i64 %k, 1
  br label %pair

object.weak:                                        ; n is the number of slots
  %weak.offset = load i64, ptr %op[i64 3]
  %weak.none = icmp eq i64 %weak.offset, 0
  br i1 %weak.none, label %object.dict, label %object.weak.look
object.weak.look:
  %object.weak.at = getelementptr i8, ptr %object, i64 %weak.offset
  %object.weak.list = load ptr, ptr %object.weak.at
  %object.weak.ok = icmp eq ptr %object.weak.list, null
  br i1 %object.weak.ok, label %object.dict, label %no
object.dict:
  %offsets = getelementptr i64, ptr %op, i64 5
  %op.behind = getelementptr i64, ptr %offsets, i64 %n
  %has.dict = load i64, ptr %op[i64 4]
  %dict.none = icmp eq i64 %has.dict, 0
  br i1 %dict.none, label %slot, label %object.dict.look
object.dict.look:
  %held = call ptr $PyObject_GenericGetDict(ptr %object, ptr null)
  %held.not = icmp eq ptr %held, null
  br i1 %held.not, label %object.failed, label %object.dict.held
object.failed:
  call void $PyErr_Clear()
  br label %no
object.dict.held:
  call void $Py_DecRef(ptr %held)                   ; the object holds it
  %op.dict = call ptr @intact(ptr %held, ptr %op.behind, ptr %bufs, ptr %spots, ptr null, ptr null)
  %object.dict.ok = icmp ne ptr %op.dict, null
  br i1 %object.dict.ok, label %slot, label %no
slot:
  %s = phi i64 [ 0, %object.dict ], [ 0, %object.dict.held ], [ %s.next, %slot.one ]
  %op.slot = phi ptr [ %op.behind, %object.dict ], [ %op.dict, %object.dict.held ], [ %op.slot.next, %slot.one ]
  %slots.done = icmp eq i64 %s, %n
  br i1 %slots.done, label %yes, label %slot.look
slot.look:
  %slot.offset = load i64, ptr %offsets[i64 %s]
  %slot.at = getelementptr i8, ptr %object, i64 %slot.offset
  %slot.value = load ptr, ptr %slot.at
  %slot.empty = icmp eq ptr %slot.value, null
  br i1 %slot.empty, label %no, label %slot.value.look
slot.value.look:
  %op.slot.next = call ptr @intact(ptr %slot.value, ptr %op.slot, ptr %bufs, ptr %spots, ptr %slot.at, ptr null)
  %slot.ok = icmp ne ptr %op.slot.next, null
  br i1 %slot.ok, label %slot.one, label %no
slot.one:
  %s.next = add i64 %s, 1
  br label %slot

yes:
  %behind = phi ptr [ %op.const, %constant ], [ %op.array, %array.yes ], [ %op.item, %item ], [ %op.pair, %pair ],
                  [ %op.slot, %slot ], [ %op.number, %number ]
  ret ptr %behind
no:
  ret ptr null
}

; The oldest tree that is kept, if it can be written again: then it is its keeper's no more. Else null.
define internal ptr @taken(ptr %tree, ptr %bufs, ptr %spots) {
entry:
  %list = load ptr, ptr %tree
  %size = load i64, ptr %list[i8 $list_size]
  %whole = icmp eq i64 %size, $kept_trees
  br i1 %whole, label %look, label %none
look:
  %items = load ptr, ptr %list[i8 $list_items]
  %at = getelementptr ptr, ptr %items, i64 $oldest
  %object = load ptr, ptr %at
  %words = load ptr, ptr %tree[i64 $look]
  %behind = call ptr @intact(ptr %object, ptr %words, ptr %bufs, ptr %spots, ptr null, ptr null)
  %free = icmp ne ptr %behind, null
  br i1 %free, label %take, label %none
take:
  call void $Py_IncRef(ptr $none)
  store ptr $none, ptr %at
  ret ptr %object
none:
  ret ptr null
}
"""


def numbers() -> dict[str, int]:
    """The numbers in :data:`MAKE` and :data:`LOOK`, but for offsets."""
    names = {name: k for names in (KINDS, HEADER) for k, name in enumerate(names)}
    return names | {"kept_trees": KEPT, "oldest": KEPT - 1}


FUNCTIONS = (
    "PyTuple_New", "PyTuple_SetItem", "PyList_New", "PyList_SetItem", "PyDict_New", "PyDict_SetItem", "PyDict_Size",
    "PyDict_Next", "PyObject_Vectorcall", "PyObject_GenericGetDict", "PyErr_Clear", "Py_IncRef", "Py_DecRef",
)  # fmt: skip
