"""Reading a tree of one known structure: a builtin that takes nested tuples, lists and dicts apart, in machine code.

In Python it takes some 80 ns a leaf to look at types, lengths and keys; here it takes 17.  The structure is a flat run
of 64-bit words, in the order in which the tree is walked (parents before children, first children first)::

    leaf, or what is taken apart elsewhere   LEAF
    None                                     NONE
    tuple                                    TUPLE    number of items
    list                                     LIST     number of items
    dict                                     DICT     number of items    key ...

Keys are compared by identity, strings also by their contents.  Start reading at :data:`READER`, and at :func:`reader`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from . import object_layout as layout
from .native import builtins_of, filled
from .native_code import compile_function

LEAF, NONE, TUPLE, LIST, DICT = range(5)

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
                 [ %top.dict, %dict.end ]
  %op = phi ptr [ %first, %begin ], [ %op.leaf, %leaf ], [ %op.none, %none ], [ %op.items, %item.head ],
              [ %op.dict, %dict.end ]
  %o = phi i64 [ 0, %begin ], [ %o.next, %leaf ], [ %o, %none ], [ %o, %item.head ], [ %o, %dict.end ]
  %done = icmp eq i64 %top, 0
  br i1 %done, label %answer, label %one
one:
  %under = sub i64 %top, 1
  %object = load ptr, ptr %stack[ptr %under]
  %type = load ptr, ptr %object[i8 $ob_type]
  %kind = load i64, ptr %op
  switch i64 %kind, label %leaf [ i64 $NONE, label %is.none i64 $TUPLE, label %is.tuple i64 $LIST, label %is.list
                                  i64 $DICT, label %is.dict ]

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

is.tuple:
  %tuple = icmp eq ptr %type, $tuple
  br i1 %tuple, label %tuple.items, label %miss
tuple.items:
  %inline = getelementptr i8, ptr %object, i64 $ob_item
  br label %sequence
is.list:
  %list = icmp eq ptr %type, $list
  br i1 %list, label %list.items, label %miss
list.items:
  %apart = load ptr, ptr %object[i8 $list_items]
  br label %sequence
sequence:
  %from = phi ptr [ %inline, %tuple.items ], [ %apart, %list.items ]
  %size = load i64, ptr %object[i8 $list_size]        ; a tuple has its size there, too
  %size.known = load i64, ptr %op[i64 1]
  %size.same = icmp eq i64 %size, %size.known
  br i1 %size.same, label %item.begin, label %miss
item.begin:
  %top.items = add i64 %under, %size
  %op.items = getelementptr i64, ptr %op, i64 2
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

is.dict:
  %dict = icmp eq ptr %type, $dict
  br i1 %dict, label %dict.size, label %miss
dict.size:
  %count = call i64 $PyDict_Size(ptr %object)
  %count.known = load i64, ptr %op[i64 1]
  %count.same = icmp eq i64 %count, %count.known
  br i1 %count.same, label %dict.begin, label %miss
dict.begin:
  %top.dict = add i64 %under, %count
  %keys = getelementptr i64, ptr %op, i64 2
  store i64 0, ptr %pos
  br label %entry.head
entry.head:
  %k = phi i64 [ 0, %dict.begin ], [ %k.next, %entry.same ]
  %more = call i32 $PyDict_Next(ptr %object, ptr %pos, ptr %key, ptr %value)
  %no.more = icmp eq i32 %more, 0
  br i1 %no.more, label %dict.end, label %entry.one
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
dict.end:
  %op.dict = getelementptr i64, ptr %keys, i64 %count
  br label %head

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
_FUNCTIONS = ("Py_IncRef", "Py_DecRef", "PyTuple_New", "PyDict_Size", "PyDict_Next", "PyObject_RichCompareBool")


def reader(structure: list[tuple[int, Any]], leaves: int) -> Callable[[object], tuple[Any, ...] | None] | None:
    """A callable that gives the *leaves* of a tree, or None where it is of another structure; None where there is no
    native one.  *structure*: for each node in order its kind, and the number of its items, or the keys of a dict."""
    if layout.fault() is not None:
        return None
    words, keys, waiting, most = array("q"), [], 1, 1
    for kind, parts in structure:
        words.append(kind)
        waiting -= 1
        if kind == DICT:
            words.extend((len(parts), *map(id, parts)))
            keys.extend(parts)
            waiting += len(parts)
        elif kind in (TUPLE, LIST):
            words.append(parts)
            waiting += parts
        most = max(most, waiting)
    table = array("q", (leaves, most)) + words
    made: Callable[..., Any] = _builtin()((table.tobytes(), tuple(keys)))
    return made


@lru_cache(None)
def _builtin() -> Callable[[object], Callable[..., Any]]:
    objects = {"none": None, "tuple": tuple, "list": list, "dict": dict, "str": str}
    numbers = layout.offsets() | {"NONE": NONE, "TUPLE": TUPLE, "LIST": LIST, "DICT": DICT}
    text = filled(READER, numbers, {name: id(obj) for name, obj in objects.items()}, _FUNCTIONS)
    address = compile_function(text, "tracegrad_leaves")
    return builtins_of(address, b"leaves", b"The leaves of a tree, or None where it is of another structure.")
