"""Comparisons by identity, in Python and in machine code: of objects with each other, of the items of a list, and of
what stands in memory with a table of what stood there (``runtime/state/pins.py``)."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Collection
from functools import lru_cache
from types import CellType
from typing import Any

from ...codegen.cpu.cpython import builtins_of, offsets
from ...tracer.record.float_errors import VARIABLE
from .native import filled
from .native_code import compile_functions

# `self` is a bytes object, which lives as long as a call, with these words: the address of the settings of
# floating-point errors; the number of words in memory, then (address, what stands there) for each, in an order in which
# what has been found the same says that the next address can be read; the number of dicts, then (owner or 0, its type,
# dict, length, then each key and value, or 0 for any value) for each.
_TEXT = r"""
define ptr @tracegrad_same(ptr %self, ptr %args, i64 %nargs) {
entry:
  %pos = alloca i64
  %key = alloca ptr
  %value = alloca ptr
  %table = getelementptr i8, ptr %self, i64 $ob_sval
  %failed = call i32 $PyContextVar_Get(ptr $errors, ptr $none, ptr %value)
  %no.errors = icmp ne i32 %failed, 0
  br i1 %no.errors, label %error, label %errors
errors:
  %errors.now = load ptr, ptr %value
  call void $Py_DecRef(ptr %errors.now)              ; its context holds it
  %errors.at = load ptr, ptr %table
  %errors.known = load ptr, ptr %errors.at
  %same.errors = icmp eq ptr %errors.known, %errors.now
  br i1 %same.errors, label %words, label %other
words:
  %word.count = load i64, ptr %table[i64 1]
  %word.first = getelementptr i64, ptr %table, i64 2
  br label %word.head

word.head:
  %w = phi ptr [ %word.first, %words ], [ %w.next, %word.same ]
  %w.left = phi i64 [ %word.count, %words ], [ %w.left.next, %word.same ]
  %no.word = icmp eq i64 %w.left, 0
  br i1 %no.word, label %dicts, label %word
word:
  %word.at = load ptr, ptr %w
  %word.now = load i64, ptr %word.at
  %word.known = load i64, ptr %w[i64 1]
  %same.word = icmp eq i64 %word.known, %word.now
  br i1 %same.word, label %word.same, label %other
word.same:
  %w.next = getelementptr i64, ptr %w, i64 2
  %w.left.next = sub i64 %w.left, 1
  br label %word.head

dicts:
  %dict.count = load i64, ptr %w
  %dict.first = getelementptr i64, ptr %w, i64 1
  br label %dict.head
dict.head:
  %d = phi ptr [ %dict.first, %dicts ], [ %d.next, %dict.same ]
  %d.left = phi i64 [ %dict.count, %dicts ], [ %d.left.next, %dict.same ]
  %no.dict = icmp eq i64 %d.left, 0
  br i1 %no.dict, label %same, label %dict
dict:
  %owner = load ptr, ptr %d
  %dict.word = load ptr, ptr %d[i64 2]
  %size = load i64, ptr %d[i64 3]
  %unowned = icmp eq ptr %owner, null
  br i1 %unowned, label %dict.size, label %owned
owned:
  %owner.kind = load ptr, ptr %d[i64 1]
  %owner.now = load ptr, ptr %owner[i8 $ob_type]
  %same.owner = icmp eq ptr %owner.kind, %owner.now
  br i1 %same.owner, label %owner.store, label %other
owner.store:
  %store = call ptr $PyObject_GenericGetDict(ptr %owner, ptr null)
  %no.store = icmp eq ptr %store, null
  br i1 %no.store, label %error, label %compare.store
compare.store:
  call void $Py_DecRef(ptr %store)                   ; its owner holds it
  %same.store = icmp eq ptr %store, %dict.word
  br i1 %same.store, label %dict.size, label %other
dict.size:
  %size.now = call i64 $PyDict_Size(ptr %dict.word)
  %same.size = icmp eq i64 %size.now, %size
  br i1 %same.size, label %entries, label %other
entries:
  %entry.first = getelementptr i64, ptr %d, i64 4
  store i64 0, ptr %pos
  br label %entry.head
entry.head:
  %e = phi ptr [ %entry.first, %entries ], [ %e.next, %entry.same ]
  %more = call i32 $PyDict_Next(ptr %dict.word, ptr %pos, ptr %key, ptr %value)
  %no.entry = icmp eq i32 %more, 0
  br i1 %no.entry, label %dict.same, label %compare.entry
compare.entry:
  %key.known = load ptr, ptr %e
  %value.known = load ptr, ptr %e[i64 1]
  %key.now = load ptr, ptr %key
  %value.now = load ptr, ptr %value
  %same.key = icmp eq ptr %key.known, %key.now
  %is.known = icmp eq ptr %value.known, %value.now
  %loose = icmp eq ptr %value.known, null
  %same.value = or i1 %is.known, %loose
  %same.entry = and i1 %same.key, %same.value
  br i1 %same.entry, label %entry.same, label %other
entry.same:
  %e.next = getelementptr i64, ptr %e, i64 2
  br label %entry.head
dict.same:
  %entry.words = shl i64 %size, 1
  %stride = add i64 %entry.words, 4
  %d.next = getelementptr i64, ptr %d, i64 %stride
  %d.left.next = sub i64 %d.left, 1
  br label %dict.head

error:
  call void $PyErr_Clear()
  br label %other
$answers

define ptr @tracegrad_distinct(ptr %self, ptr %args, i64 %n) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %inner ]
  %i.done = icmp eq i64 %i, %n
  br i1 %i.done, label %same, label %one
one:
  %i.next = add i64 %i, 1
  %object = load ptr, ptr %args[ptr %i]
  br label %inner
inner:
  %j = phi i64 [ 0, %one ], [ %j.next, %pair ]
  %j.done = icmp eq i64 %j, %i
  br i1 %j.done, label %next, label %pair
pair:
  %before = load ptr, ptr %args[ptr %j]
  %j.next = add i64 %j, 1
  %again = icmp eq ptr %before, %object
  br i1 %again, label %other, label %inner
$answers

; of a list or tuple, and a tuple
define ptr @tracegrad_items(ptr %self, ptr %args, i64 %n) {
entry:
  %now = load ptr, ptr %args
  %known = load ptr, ptr %args[ptr 1]
  %size = load i64, ptr %known[i8 $list_size]
  %size.now = load i64, ptr %now[i8 $list_size]
  %same.size = icmp eq i64 %size, %size.now
  br i1 %same.size, label %sized, label %other
sized:
  %of.known = getelementptr i8, ptr %known, i64 $ob_item
  %kind = load ptr, ptr %now[i8 $ob_type]
  %is.tuple = icmp eq ptr %kind, $tuple
  br i1 %is.tuple, label %in.tuple, label %in.list
in.tuple:
  %of.tuple = getelementptr i8, ptr %now, i64 $ob_item
  br label %head
in.list:
  %of.list = load ptr, ptr %now[i8 $list_items]
  br label %head
head:
  %of.now = phi ptr [ %of.tuple, %in.tuple ], [ %of.list, %in.list ]
  br label %next
next:
  %k = phi i64 [ 0, %head ], [ %k.next, %one ]
  %done = icmp eq i64 %k, %size
  br i1 %done, label %same, label %one
one:
  %k.next = add i64 %k, 1
  %item.now = load ptr, ptr %of.now[ptr %k]
  %item.known = load ptr, ptr %of.known[ptr %k]
  %same.item = icmp eq ptr %item.now, %item.known
  br i1 %same.item, label %next, label %other
$answers
"""
# how each of them ends
_ANSWERS = """other:
  call void $Py_IncRef(ptr $false)
  ret ptr $false
same:
  $hold_true
  ret ptr $true
}"""
_FUNCTIONS = ("PyObject_GenericGetDict", "Py_DecRef", "Py_IncRef", "PyDict_Size", "PyDict_Next", "PyErr_Clear",
              "PyContextVar_Get")  # fmt: skip


def distinct(*objects: object) -> bool:
    """Whether no two are one object."""
    return len(set(map(id, objects))) == len(objects)


def same_items(now: Collection[Any], known: tuple[Any, ...]) -> bool:
    """Whether a list or tuple holds the very objects *known*."""
    return len(now) == len(known) and all(map(operator.is_, now, known))


#: Objects from which on a set takes less time than to compare each with each.
_MANY = 100
_few_distinct, _all_distinct = CellType(distinct), CellType(distinct)  # the first in machine code, once there is any
SAME_ITEMS = CellType(same_items)  # in machine code, once there is any


def distinct_of(count: int) -> CellType:
    """The cell of ``distinct`` for so many objects."""
    return _few_distinct if count < _MANY else _all_distinct


@lru_cache(None)
def comparer() -> Callable[[object], Callable[..., Any]]:
    """The maker of a function that compares what stands in memory with the words of a table, as above."""
    fields = ("ob_type", "ob_sval", "ob_item", "list_size", "list_items")
    numbers = {name: offsets()[name] for name in fields}
    objects = {"true": True, "false": False, "none": None, "errors": VARIABLE, "tuple": tuple}
    counted = "%count = load i64, ptr $true\n  %counted = add i64 %count, 1\n  store i64 %counted, ptr $true"
    hold = counted if sys.version_info < (3, 12) else ""  # a call would be a tenth of the time that there is
    addresses = {name: id(value) for name, value in objects.items()}
    text = filled(_TEXT.replace("$answers", _ANSWERS.replace("$hold_true", hold)), numbers, addresses, _FUNCTIONS)
    same, each, items = compile_functions(text, ("tracegrad_same", "tracegrad_distinct", "tracegrad_items"))
    SAME_ITEMS.cell_contents = builtins_of(items, b"same_items", b"Whether a list holds the very objects.")(None)
    _few_distinct.cell_contents = builtins_of(each, b"distinct", b"Whether no two are one object.")(None)
    return builtins_of(same, b"same", b"Whether all that is pinned is as it was.")
