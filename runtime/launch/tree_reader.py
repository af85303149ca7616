"""Reading a tree of one known structure: a builtin that takes nested tuples, lists, dicts and plain objects apart, in
machine code.

In Python it takes some 80 ns a leaf to look at types, lengths and keys, and 200 for those of objects; here it takes 7
to 13.  The structure is a flat run of 64-bit words, in the order in which the tree is walked (parents before children,
first children first)::

    leaf, or what is taken apart elsewhere   LEAF
    None                                     NONE
    tuple, named tuple                       TUPLE    type    number of items
    list                                     LIST     type    number of items
    dict                                     DICT     type    number of items    0    0    key ...
    plain object                             OBJECT   type    number of items    slots    empty slots    key ...
                                                      offset of a slot ...    offset of an empty slot ...

The number of items of an object is that of its dict, -1 where it has none; the object itself is among the leaves,
before what is in it.  Keys are compared by identity, strings also by their contents.  Start reading at :data:`READER`,
and at :func:`reader`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from ...codegen.cpu.cpython import builtins_of, fault, offsets, slot_offsets
from .native import filled
from .native_code import compile_function

LEAF, NONE, TUPLE, LIST, DICT, OBJECT = range(6)

READER = r"""
; self is a tuple that begins with the words: leaves, most objects that wait, structure; args[0] is the tree.
define ptr @tracegrad_leaves(ptr %self, ptr %args, i64 %nargs) {
entry:
  %pos = alloca i64
  %key = alloca ptr
  %value = alloca ptr
  %bytes = load ptr, ptr %self[i8 $ob_item]
  %table = getelementptr i8, ptr %bytes, i64 $ob_sval
  %n.leaves = load i64, ptr %table
  %room = load i64, ptr %table[i64 1]
  %stack = alloca ptr, i64 %room
  %first = getelementptr i64, ptr %table, i64 2
  %tree = load ptr, ptr %args
  store ptr %tree, ptr %stack
  %single = icmp eq i64 %nargs, 1
  br i1 %single, label %open, label %other
open:
  %leaves = call ptr $PyTuple_New(i64 %n.leaves)
  %failed = icmp eq ptr %leaves, null
  br i1 %failed, label %error, label %begin
begin:
  %items = getelementptr i8, ptr %leaves, i64 $ob_item
  br label %head

head:
  %top = phi i64 [ 1, %begin ], [ %under, %leaf ], [ %under, %none ], [ %top.items, %item.head ],
                 [ %top.dict, %empty.head ]
  %op = phi ptr [ %first, %begin ], [ %op.leaf, %leaf ], [ %op.none, %none ], [ %op.items, %item.head ],
              [ %op.dict, %empty.head ]
  %o = phi i64 [ 0, %begin ], [ %o.next, %leaf ], [ %o, %none ], [ %o, %item.head ], [ %o.dict, %empty.head ]
  %done = icmp eq i64 %top, 0
  br i1 %done, label %answer, label %one
one:
  %under = sub i64 %top, 1
  %object = load ptr, ptr %stack[ptr %under]
  %type = load ptr, ptr %object[i8 $ob_type]
  %kind = load i64, ptr %op
  switch i64 %kind, label %leaf [ i64 $NONE, label %is.none i64 $TUPLE, label %typed i64 $LIST, label %typed
                                  i64 $DICT, label %typed i64 $OBJECT, label %typed ]

leaf:
  call void $Py_IncRef(ptr %object)
  store ptr %object, ptr %items[ptr %o]
  %o.next = add i64 %o, 1
  %op.leaf = getelementptr i64, ptr %op, i64 1
  br label %head

is.none:
  %nothing = icmp eq ptr %object, $none
  br i1 %nothing, label %none, label %miss
none:
  %op.none = getelementptr i64, ptr %op, i64 1
  br label %head

typed:
  %type.known = load ptr, ptr %op[i64 1]
  %size.known = load i64, ptr %op[i64 2]
  %exact = icmp eq ptr %type, %type.known
  br i1 %exact, label %parts, label %miss
parts:
  switch i64 %kind, label %is.tuple [ i64 $LIST, label %is.list i64 $DICT, label %dict.size
                                      i64 $OBJECT, label %is.object ]

is.tuple:
  %inline = getelementptr i8, ptr %object, i64 $ob_item
  br label %sequence
is.list:
  %apart = load ptr, ptr %object[i8 $list_items]
  br label %sequence
sequence:
  %from = phi ptr [ %inline, %is.tuple ], [ %apart, %is.list ]
  %size = load i64, ptr %object[i8 $list_size]        ; a tuple has its size there, too
  %size.same = icmp eq i64 %size, %size.known
  br i1 %size.same, label %item.begin, label %miss
item.begin:
  %top.items = add i64 %under, %size
  %op.items = getelementptr i64, ptr %op, i64 3
  br label %item.head
item.head:                                            ; the first item is on top
  %i = phi i64 [ 0, %item.begin ], [ %i.next, %item ]
  %i.done = icmp eq i64 %i, %size
  br i1 %i.done, label %head, label %item
item:
  %part = load ptr, ptr %from[ptr %i]
  %i.next = add i64 %i, 1
  %at = sub i64 %top.items, %i.next
  store ptr %part, ptr %stack[ptr %at]
  br label %item.head

is.object:
  call void $Py_IncRef(ptr %object)
  store ptr %object, ptr %items[ptr %o]
  %o.object = add i64 %o, 1
  %dict.none = icmp slt i64 %size.known, 0
  br i1 %dict.none, label %dict.begin, label %object.dict
object.dict:
  %held = call ptr $PyObject_GenericGetDict(ptr %object, ptr null)
  %held.none = icmp eq ptr %held, null
  br i1 %held.none, label %object.failed, label %object.held
object.failed:
  call void $PyErr_Clear()
  br label %miss
object.held:
  call void $Py_DecRef(ptr %held)                     ; the object holds it
  br label %dict.size

dict.size:
  %dict = phi ptr [ %object, %parts ], [ %held, %object.held ]
  %o.size = phi i64 [ %o, %parts ], [ %o.object, %object.held ]
  %count = call i64 $PyDict_Size(ptr %dict)
  %count.same = icmp eq i64 %count, %size.known
  br i1 %count.same, label %dict.begin, label %miss
dict.begin:
  %dict.now = phi ptr [ %dict, %dict.size ], [ null, %is.object ]
  %o.dict = phi i64 [ %o.size, %dict.size ], [ %o.object, %is.object ]
  %entries = phi i64 [ %count, %dict.size ], [ 0, %is.object ]
  %slots = load i64, ptr %op[i64 3]
  %empty = load i64, ptr %op[i64 4]
  %under.slots = add i64 %under, %slots
  %top.dict = add i64 %under.slots, %entries
  %keys = getelementptr i64, ptr %op, i64 5
  %offsets = getelementptr i64, ptr %keys, i64 %entries
  store i64 0, ptr %pos
  br label %entry.head
entry.head:
  %k = phi i64 [ 0, %dict.begin ], [ %k.next, %entry.same ]
  %entries.done = icmp eq i64 %k, %entries
  br i1 %entries.done, label %slot.head, label %entry.next
entry.next:
  %more = call i32 $PyDict_Next(ptr %dict.now, ptr %pos, ptr %key, ptr %value)
  %no.more = icmp eq i32 %more, 0
  br i1 %no.more, label %miss, label %entry.one
entry.one:
  %key.now = load ptr, ptr %key
  %key.known = load ptr, ptr %keys[ptr %k]
  %key.same = icmp eq ptr %key.now, %key.known
  br i1 %key.same, label %entry.same, label %key.type
key.type:                                             ; two strings may be equal, which runs no code of the user's
  %now.type = load ptr, ptr %key.now[i8 $ob_type]
  %known.type = load ptr, ptr %key.known[i8 $ob_type]
  %now.str = icmp eq ptr %now.type, $str
  %known.str = icmp eq ptr %known.type, $str
  %strings = and i1 %now.str, %known.str
  br i1 %strings, label %key.equal, label %miss
key.equal:
  %equal = call i32 $PyObject_RichCompareBool(ptr %key.now, ptr %key.known, i32 2)
  %is.equal = icmp eq i32 %equal, 1
  br i1 %is.equal, label %entry.same, label %miss
entry.same:
  %found = load ptr, ptr %value
  %k.next = add i64 %k, 1
  %entry.at = sub i64 %top.dict, %k.next
  store ptr %found, ptr %stack[ptr %entry.at]
  br label %entry.head
slot.head:
  %s = phi i64 [ 0, %entry.head ], [ %s.next, %slot.same ]
  %slots.done = icmp eq i64 %s, %slots
  br i1 %slots.done, label %empty.head, label %slot
slot:
  %slot.offset = load i64, ptr %offsets[i64 %s]
  %slot.at = getelementptr i8, ptr %object, i64 %slot.offset
  %slot.value = load ptr, ptr %slot.at
  %slot.empty = icmp eq ptr %slot.value, null
  br i1 %slot.empty, label %miss, label %slot.same
slot.same:
  %s.next = add i64 %s, 1
  %place = sub i64 %under.slots, %s.next
  store ptr %slot.value, ptr %stack[ptr %place]
  br label %slot.head
empty.head:
  %e = phi i64 [ 0, %slot.head ], [ %e.next, %empty.same ]
  %e.place = add i64 %slots, %e
  %op.dict = getelementptr i64, ptr %offsets, i64 %e.place
  %empty.done = icmp eq i64 %e, %empty
  br i1 %empty.done, label %head, label %empty.one
empty.one:
  %empty.offset = load i64, ptr %op.dict
  %empty.at = getelementptr i8, ptr %object, i64 %empty.offset
  %empty.value = load ptr, ptr %empty.at
  %is.empty = icmp eq ptr %empty.value, null
  br i1 %is.empty, label %empty.same, label %miss
empty.same:
  %e.next = add i64 %e, 1
  br label %empty.head

answer:
  ret ptr %leaves
miss:
  call void $Py_DecRef(ptr %leaves)
  br label %other
other:
  call void $Py_IncRef(ptr $none)
  ret ptr $none
error:
  ret ptr null
}
"""
_FUNCTIONS = (
    "Py_IncRef", "Py_DecRef", "PyTuple_New", "PyDict_Size", "PyDict_Next", "PyObject_RichCompareBool",
    "PyObject_GenericGetDict", "PyErr_Clear",
)  # fmt: skip


class ReaderNode(NamedTuple):
    """A node of a structure.  *items*: the number of items of a tuple or list; *keys*: of a dict, or of that of an
    object, None where it has none; *slots*: those of an object that hold something, and those that must not."""

    kind: int
    type: type = object
    items: int = 0
    keys: tuple[str, ...] | None = None
    slots: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


def reader(structure: list[ReaderNode], leaves: int) -> Callable[[object], tuple[Any, ...] | None] | None:
    """A callable that gives the *leaves* of a tree, and the objects in it, or None where it is of another structure;
    None where there is no native one.  *structure*: the nodes in order; *leaves*: their number, with the objects."""
    if fault() is not None:
        return None
    words, waiting, most = array("q"), 1, 1
    for part in structure:
        words.append(part.kind)
        keys, count = part.keys or (), part.items
        if part.kind in (DICT, OBJECT):
            count = len(keys) + len(part.slots)
            places = slot_offsets(part.type) if part.kind == OBJECT else {}
            size = -1 if part.keys is None else len(keys)
            words.extend((id(part.type), size, len(part.slots), len(part.empty), *map(id, keys)))
            words.extend([places[name] for name in (*part.slots, *part.empty)])
        elif part.kind in (TUPLE, LIST):
            words.extend((id(part.type), count))
        waiting += count - 1
        most = max(most, waiting)
    table = array("q", (leaves, most)) + words
    made: Callable[..., Any] = _builtin()((table.tobytes(), tuple(structure)))
    return made


@lru_cache(None)
def _builtin() -> Callable[[object], Callable[..., Any]]:
    objects = {"none": None, "str": str}
    kinds = {"NONE": NONE, "TUPLE": TUPLE, "LIST": LIST, "DICT": DICT, "OBJECT": OBJECT}
    text = filled(READER, offsets() | kinds, {name: id(obj) for name, obj in objects.items()}, _FUNCTIONS)
    address = compile_function(text, "tracegrad_leaves")
    return builtins_of(address, b"leaves", b"The leaves of a tree, or None where it is of another structure.")
