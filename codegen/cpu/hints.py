"""Loop metadata for LLVM: hints to vectorise, unroll or interleave.

Metadata of a loop must refer to itself, which llvmlite cannot spell.  So ``give_hint`` marks a loop by name, and
``finish_hints`` completes the marks in the printed module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import llvmlite.ir as ir

LOOP_HINT = "tg.loop."  # marks metadata that `finish_hints` turns into LLVM's own
SIMPLE, SCALAR, UNROLLED, ROLLED = "simple", "scalar", "unrolled", "rolled"
PLAIN = "plain"  # LLVM unrolls it if it knows the number of iterations; else that is much code, and no faster
REPEATED = (
    "repeated"  # a loop that is no faster unrolled on a CPU; on a device, what is small stays in registers by that
)

_HINT = re.compile(rf'^!(\d+) = !{{ !"{LOOP_HINT}(\w+)\.\d+" }}$', re.MULTILINE)
_MARKED = re.compile(r"(?<=!llvm\.loop )!(\d+)")
_MARK = re.compile(rf'"{LOOP_HINT}(\w+)\.')
_HINTS = {
    SIMPLE: '!{!"llvm.loop.interleave.count", i32 1}, !{!"llvm.loop.unroll.disable"}',
    SCALAR: '!{!"llvm.loop.vectorize.enable", i1 false}, !{!"llvm.loop.unroll.disable"}',
    UNROLLED: '!{!"llvm.loop.vectorize.enable", i1 false}',  # forcing it would warn where LLVM has done it before
    ROLLED: '!{!"llvm.loop.unroll.disable"}',
    PLAIN: '!{!"llvm.loop.unroll.runtime.disable"}',
    REPEATED: '!{!"llvm.loop.unroll.disable"}',
}


def give_hint(back: Any, hint: str) -> None:
    """Mark the loop that the branch *back* closes."""
    module = back.parent.module
    mark = f"{LOOP_HINT}{hint}.{len(module.metadata)}"  # unlike all others of the module
    back.set_metadata("llvm.loop", module.add_metadata([ir.MetaDataString(module, mark)]))


def hints_by_name(text: str, module: ir.Module) -> str:
    """*text* of a function of *module*, with what the marks of its loops say in their place."""

    def said(m: re.Match[str]) -> str:
        found = _MARK.search(str(module.metadata[int(m[1])]))
        return found[1] if found else m[0]

    return _MARKED.sub(said, text)


def finish_hints(text: str, wanted: Sequence[str] = tuple(_HINTS)) -> str:
    """*text*, a printed module, with the self-referring metadata of the *wanted* hints; others have no effect."""

    def finished(m: re.Match[str]) -> str:
        return f"!{m[1]} = distinct !{{ !{m[1]}, {_HINTS[m[2]]} }}" if m[2] in wanted else m[0]

    return _HINT.sub(finished, text)
