"""Greedy colouring in machine code: the two loops of ``codegen/derive/coloring.py``, for up to 64 colours.

A set of colours is a word.  The Python of that file, which has integers of any length, says what each step is for.
"""

from __future__ import annotations

import ctypes
import functools
import re
from typing import Any

import numpy as np

from ...tracer.ir.late_modules import LateModule
from ..derive.coloring import compiled
from .cpython import immortal
from .machine_code import load

llvm: Any = LateModule("llvmlite.binding")

# One kernel but for the *sets* of colours that it keeps: what a vertex reads of itself (*vertex*), the colours that its
# neighbour (or row) %a tells it of, %a.taken (*ask*), and what it tells its neighbour %w of its own, %bit (*tell*).
_KERNEL = """
define i64 @{name}(i64 %count, ptr %starts, ptr %others, ptr %order, ptr %mine, {sets}) {{
entry:
  br label %next
next:
  %k = phi i64 [0, %entry], [%k1, %done]
  %last = icmp eq i64 %k, %count
  br i1 %last, label %exit, label %vertex
vertex:
  %v = load %order[%k]
  %v1 = add i64 %v, 1
  %from = load %starts[%v]
  %to = load %starts[%v1]
{vertex}
  br label %ask
ask:
  %e = phi i64 [%from, %vertex], [%e1, %asked]
  %taken = phi i64 [0, %vertex], [%taken1, %asked]
  %all = icmp eq i64 %e, %to
  br i1 %all, label %choose, label %asked
asked:
  %a = load %others[%e]
{ask}
  %taken1 = or i64 %taken, %a.taken
  %e1 = add i64 %e, 1
  br label %ask
choose:
  %full = icmp eq i64 %taken, -1
  br i1 %full, label %fail, label %chosen
chosen:
  %free = xor i64 %taken, -1
  %more = add i64 %taken, 1
  %bit = and i64 %free, %more
  store %bit to %mine[%v]
  br label %tell
tell:
  %f = phi i64 [%from, %chosen], [%f1, %told]
  %told.all = icmp eq i64 %f, %to
  br i1 %told.all, label %done, label %telling
telling:
  %w = load %others[%f]
{tell}
  %f1 = add i64 %f, 1
  br label %tell
done:
  %k1 = add i64 %k, 1
  br label %next
exit:
  ret i64 0
fail:
  ret i64 1
}}
"""
_COLUMNS = {
    "sets": "ptr %seen", "vertex": "",
    "ask": """
  %a.taken = load %seen[%a]
""",
    "tell": """
  br label %told
told:
  %t = load %seen[%w]
  %t1 = or i64 %t, %bit
  store %t1 to %seen[%w]
""",
}  # fmt: skip
_STARS = {
    "sets": "ptr %once, ptr %twice, ptr %hubs", "vertex": """
  %several = load %twice[%v]
""",
    "ask": """
  %a.color = load %mine[%a]
  %a.once = load %once[%a]
  %a.hubs = load %hubs[%a]
  %none = icmp eq i64 %a.color, 0
  %shared = and i64 %a.color, %several
  %inner = icmp ne i64 %shared, 0
  %whole = or i1 %none, %inner
  %seen = select i1 %whole, i64 %a.once, i64 %a.hubs
  %a.taken = or i64 %a.color, %seen
""",
    "tell": """
  %color = load %mine[%w]
  %w.once = load %once[%w]
  %before = and i64 %w.once, %bit
  %again = icmp ne i64 %before, 0
  br i1 %again, label %second, label %first
first:
  %w.once1 = or i64 %w.once, %bit
  store %w.once1 to %once[%w]
  br label %told
second:
  %w.twice = load %twice[%w]
  %was = and i64 %w.twice, %bit
  %fresh = icmp eq i64 %was, 0
  %colored = icmp ne i64 %color, 0
  %becomes = and i1 %fresh, %colored
  %w1 = add i64 %w, 1
  %w.from = load %starts[%w]
  %w.to = load %starts[%w1]
  br i1 %becomes, label %spread, label %counted
spread:
  %g = phi i64 [%w.from, %second], [%g1, %leaf]
  %g.all = icmp eq i64 %g, %w.to
  br i1 %g.all, label %counted, label %leaf
leaf:
  %y = load %others[%g]
  %y.color = load %mine[%y]
  %y.hubs = load %hubs[%y]
  %same = icmp eq i64 %y.color, %bit
  %y.more = or i64 %y.hubs, %color
  %y.new = select i1 %same, i64 %y.more, i64 %y.hubs
  store %y.new to %hubs[%y]
  %g1 = add i64 %g, 1
  br label %spread
counted:
  %w.twice1 = or i64 %w.twice, %bit
  store %w.twice1 to %twice[%w]
  %v.hubs = load %hubs[%v]
  %v.hubs1 = or i64 %v.hubs, %color
  store %v.hubs1 to %hubs[%v]
  br label %told
told:
  %w.shared = and i64 %color, %several
  %w.leaf = icmp ne i64 %w.shared, 0
  %w.hubs = load %hubs[%w]
  %w.more = or i64 %w.hubs, %bit
  %w.new = select i1 %w.leaf, i64 %w.more, i64 %w.hubs
  store %w.new to %hubs[%w]
""",
}  # fmt: skip
_LOAD = re.compile(r"^  (%[\w.]+) = load (%\w+)\[(%[\w.]+)\]$", re.MULTILINE)
_STORE = re.compile(r"^  store (%[\w.]+) to (%\w+)\[(%[\w.]+)\]$", re.MULTILINE)


def _in_full(text: str) -> str:
    """*text* with elements of arrays of words, ``%x = load %array[%i]``, as instructions of LLVM."""
    text = _LOAD.sub(r"  \1.at = getelementptr i64, ptr \2, i64 \3\n  \1 = load i64, ptr \1.at", text)
    return _STORE.sub(r"  \1.to = getelementptr i64, ptr \2, i64 \3\n  store i64 \1, ptr \1.to", text)


@functools.cache
def _functions() -> tuple[Any, Any]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=2, jit=True)
    kernels = _KERNEL.format(name="columns", **_COLUMNS) + _KERNEL.format(name="stars", **_STARS)
    module = llvm.parse_assembly(_in_full(kernels))
    module.verify()
    code = immortal(load(machine.emit_object(module)))
    word, pointer = ctypes.c_int64, ctypes.c_void_p
    columns = ctypes.CFUNCTYPE(word, word, *[pointer] * 5)(code.address("columns"))
    stars = ctypes.CFUNCTYPE(word, word, *[pointer] * 7)(code.address("stars"))
    return columns, stars


def _run(function: Any, given: tuple[np.ndarray, ...], sizes: list[int]) -> list[np.ndarray] | None:
    """The sets of colours, of these *sizes*, that *function* finds: starts, others, order are *given*."""
    words = [np.ascontiguousarray(a, np.int64) for a in given]
    sets = [np.zeros(size, np.int64) for size in sizes]
    return None if function(len(words[2]), *[a.ctypes.data for a in (*words, *sets)]) else sets


def columns(starts: np.ndarray, rows: np.ndarray, order: np.ndarray, count: int) -> np.ndarray | None:
    """The colour of each column, as a bit; None where 64 are too few."""
    found = _run(_functions()[0], (starts, rows, order), [len(order), count])
    return None if found is None else found[0]


def stars(starts: np.ndarray, neighbours: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(the colour of each vertex, those that two or more of its neighbours have), as bits; None: 64 are too few."""
    found = _run(_functions()[1], (starts, neighbours, order), [len(order)] * 4)
    return None if found is None else (found[0], found[2])


compiled[:] = [(columns, stars)]
