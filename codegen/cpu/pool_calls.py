"""Calls of the pool of threads (``runtime/launch/pool.py``) in kernels, as text that completes a printed module.

The pool's functions are looked up in cells when they are first called: a kernel that was read from disk, and has
little to do, needs no pool.  llvmlite cannot spell calls of addresses, so the functions that kernels declare,
:data:`RUN` and :data:`POLL`, are written here.  Symbols: ``pool:cells``, two addresses; ``pool:resolve``, which fills
them; ``pool:threads``, the number of threads.
"""

from __future__ import annotations

import re

RUN = "tg_pool_run"  # i64 (chunk, context, number of chunks, number of threads)
POLL = "tg_pool_poll"  # i64 ()

_RUN_TEXT = f"""
define internal i64 @"{RUN}"(ptr %chunk, ptr %context, i64 %n, i64 %threads) noinline nounwind optnone {{
entry:
  %known = load ptr, ptr @"pool:cells"
  %missing = icmp eq ptr %known, null
  br i1 %missing, label %resolve, label %ready
resolve:
  %done = call i64 @"pool:resolve"()
  %found = load volatile ptr, ptr @"pool:cells"
  %none = icmp eq ptr %found, null
  br i1 %none, label %alone, label %ready
ready:
  %run = phi ptr [ %known, %entry ], [ %found, %resolve ]
  %answer = call i64 %run(ptr %chunk, ptr %context, i64 %n, i64 %threads)
  ret i64 %answer
alone:                                                ; there is no pool: its code could not be made
  %k = phi i64 [ 0, %resolve ], [ %k.next, %alone ]
  call void %chunk(ptr %context, i64 %k, i64 0)
  %k.next = add i64 %k, 1
  %last = icmp eq i64 %k.next, %n
  br i1 %last, label %end, label %alone
end:
  ret i64 -1
}}
"""

# loads need not be done again after it
_POLL_TEXT = f"""
define internal i64 @"{POLL}"() noinline nounwind memory(read, inaccessiblemem: readwrite) {{
entry:
  %cell = getelementptr i8, ptr @"pool:cells", i64 8
  %known = load volatile ptr, ptr %cell
  %missing = icmp eq ptr %known, null
  br i1 %missing, label %resolve, label %ready
resolve:
  %done = call i64 @"pool:resolve"()
  %found = load volatile ptr, ptr %cell
  %none = icmp eq ptr %found, null
  br i1 %none, label %end, label %ready
ready:
  %poll = phi ptr [ %known, %entry ], [ %found, %resolve ]
  %answer = call i64 %poll()
  ret i64 %answer
end:
  ret i64 -1
}}
"""

_SHARED = '\n@"pool:cells" = external global [2 x ptr]\ndeclare i64 @"pool:resolve"()\n'
_DECLARED = re.compile(rf'^declare i64 @"({RUN}|{POLL})"\([^\n]*$', re.MULTILINE)


_RUN_ALONE = f"""
define internal i64 @"{RUN}"(ptr %chunk, ptr %context, i64 %n, i64 %threads) noinline nounwind {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  call void %chunk(ptr %context, i64 %k, i64 0)
  %k.next = add i64 %k, 1
  %last = icmp eq i64 %k.next, %n
  br i1 %last, label %end, label %next
end:
  ret i64 -1
}}
"""
_POLL_ALONE = f"""
define internal i64 @"{POLL}"() alwaysinline nounwind {{
  ret i64 -1
}}
"""
_THREADS = re.compile(r'^@"pool:threads" = [^\n]*$', re.MULTILINE)
_GIL = re.compile(r'^declare (ptr|void) @"PyEval_(Save|Restore)Thread"\([^\n]*$', re.MULTILINE)
_GIL_ALONE = {
    "Save": 'define internal ptr @"PyEval_SaveThread"() alwaysinline nounwind {\n  ret ptr null\n}',
    "Restore": 'define internal void @"PyEval_RestoreThread"(ptr %state) alwaysinline nounwind {\n  ret void\n}',
}


def complete_alone(text: str) -> str:
    """*text*, a printed module, for one thread: it needs no pool and no interpreter.  It has the same chunks, so the
    same results."""
    text = _DECLARED.sub(lambda m: _RUN_ALONE if m[1] == RUN else _POLL_ALONE, text)
    text = _GIL.sub(lambda m: _GIL_ALONE[m[2]], text)
    text = _THREADS.sub('@"pool:threads" = internal constant i64 1', text)
    return text.replace('@"pool:threads"', "@tg_one_thread")


def complete(text: str) -> str:
    """*text*, a printed module, with the functions that it declares."""
    found = _DECLARED.search(text)
    if found is None:
        return text
    text = _DECLARED.sub(lambda m: _RUN_TEXT if m[1] == RUN else _POLL_TEXT, text)
    return text + _SHARED
