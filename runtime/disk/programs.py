"""Compiled programs on disk: found by their signature, made where they are not found.

What is kept of a program is its object code, the names of its steps and the forms of its temporaries. All else follows
from the signature, and is worked out when somebody asks (``Program.layout``).
"""

from __future__ import annotations

import time

from ...codegen.cpu.machine_code import ObjectCode
from ...codegen.cpu.program import LayoutError, Program, compile_canonical
from ...codegen.cpu.symbols import UnknownSymbolError, in_any_process
from ...codegen.lower.canonical import Canonical
from ...codegen.schedule.memory import Temporary
from .encoding import EncodingError, decode, encode
from .generation import key_text
from .store import store

KIND = "kernel"


def program_of(canonical: Canonical, arguments: int) -> Program:
    """The program of *canonical*: read, or compiled and kept."""
    text = key_text(arguments, canonical.key)
    if text is None:
        return compile_canonical(canonical, arguments)
    clock = time.perf_counter()
    payload = store.get(KIND, text)
    if payload is not None:
        try:
            program = from_bytes(payload, canonical, arguments)
            program.seconds["read from disk"] = time.perf_counter() - clock
            program.from_disk = True
            return program
        except (EncodingError, UnknownSymbolError, LayoutError):  # SciPy, or glibc, is not what it was
            store.drop(KIND, text)
    program = compile_canonical(canonical, arguments)
    if all(map(in_any_process, program.object_code.symbols)):
        store.put(KIND, text, to_bytes(program))
    return program


def to_bytes(program: Program) -> bytes:
    temporaries = [(t.name, t.dims, t.itemsize, t.first, t.last) for t in program.temporaries]
    code = program.object_code
    return encode((code.code, code.symbols, list(program.step_names), temporaries, program.layout.summary))


def from_bytes(payload: bytes, canonical: Canonical, arguments: int) -> Program:
    """The program that :func:`to_bytes` was given, for an equal signature.

    Raises:
        EncodingError, UnknownSymbolError, LayoutError: it is none of this process.
    """
    try:
        code, symbols, steps, temporaries, summary = decode(payload)
        places = [Temporary(*t) for t in temporaries]
    except (TypeError, ValueError) as error:
        raise EncodingError(str(error)) from error
    if not (code and steps):
        raise EncodingError("no code")
    return Program(canonical, arguments, steps, places, ObjectCode(code, symbols), summary=summary)
