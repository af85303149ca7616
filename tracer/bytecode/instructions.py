"""The instructions of a code object in one form, that of CPython 3.11, for the later versions too (``versions.py``).

Two loads or stores in one instruction are two; a constant that is loaded by another instruction than LOAD_CONST, or
returned, is loaded by that one; the names of keyword arguments stand in a KW_NAMES before the call.  The second part
of an instruction has the odd offset behind its own, to which nothing jumps.  ``opcode`` has the effect on the stack
that the part has, and is the real one otherwise.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from .versions import FORM

NULL_ABOVE = int(FORM.null_above)  # entries of the stack between the arguments and the callable


@lru_cache(maxsize=256)
def plain_instructions(code: CodeType) -> Sequence[dis.Instruction]:
    """The instructions of *code*, without those nested in it and without caches; several questions read them."""
    return tuple(_plain_instructions(code))


def _plain_instructions(code: CodeType) -> Iterator[dis.Instruction]:
    held: dis.Instruction | None = None  # a constant, which may be the names of keyword arguments
    for ins in dis.get_instructions(code):
        if ins.opname == "CACHE":
            continue
        if ins.opname == "CALL_KW" and held is not None:
            yield _part(held, "KW_NAMES", held.argval, opcode="NOP")
            yield _part(ins, "CALL", ins.argval)
            held = None
            continue
        if held is not None:
            yield held
            held = None
        if ins.opname in FORM.pairs:
            values = (ins.argval, None) if ins.opname == "RETURN_CONST" else ins.argval
            for k, (name, value) in enumerate(zip(FORM.pairs[ins.opname], values, strict=True)):
                yield _part(ins, name, value, later=k)
            continue
        if ins.opname == "KW_NAMES":  # which dis doesn't look up in 3.11
            ins = ins._replace(argval=code.co_consts[ins.arg or 0])
        elif ins.opname in FORM.same:
            ins = ins._replace(opname=FORM.same[ins.opname])
        elif ins.opname == "BINARY_OP" and ins.argrepr == "[]":
            ins = ins._replace(opname="BINARY_SUBSCR")
        if ins.opname == "LOAD_CONST":
            held = ins
        else:
            yield ins
    if held is not None:
        yield held


def pushes_null(ins: dis.Instruction) -> bool:
    """Whether a load pushes a NULL, or self, beside its value: that is to be called."""
    return ins.opname == "LOAD_METHOD" or (ins.opname in ("LOAD_GLOBAL", "LOAD_ATTR") and "NULL" in ins.argrepr)


def _part(ins: dis.Instruction, name: str, value: Any, *, opcode: str = "", later: int = 0) -> dis.Instruction:
    number = dis.opmap[opcode or name]
    arg = ins.arg if number >= dis.HAVE_ARGUMENT else None
    text = str(value) if name.endswith("_FAST") else repr(value)
    return ins._replace(opname=name, opcode=number, arg=arg, argval=value, argrepr=text, offset=ins.offset + later)
