"""What PTX is made of, and what the assembler says of it: the registers and memory of each kernel."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from tracegrad.codegen.cuda.ptx import ComputeCapability, assemble
from tracegrad.tracer.ir.errors import DeviceError


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one kernel: *registers* of a thread; bytes for each thread, but *shared* for each block."""

    registers: int
    spill_stores: int
    spill_loads: int
    shared: int
    local: int  # the stack frame


def resources(ptx: str, cc: ComputeCapability = (9, 0)) -> dict[str, Resources]:
    """The resources of each kernel of *ptx* on *cc*, as the assembler reports them."""
    return parsed(assemble(ptx, cc)[1])


def parsed(log: str) -> dict[str, Resources]:
    """The resources of each kernel, from the assembler's report *log*."""
    found = {}
    for entry in re.split(r"Compiling entry function ", log)[1:]:
        name = re.match(r"'([^']+)'", entry)
        used = re.search(r"Used (\d+) registers(.*)", entry)
        frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", entry)
        if name is None or used is None or frame is None:
            raise DeviceError(f"the assembler's report has another form than expected:\n{log}")
        shared = re.search(r"(\d+) bytes smem", used[2])
        local, stores, loads = map(int, frame.groups())
        found[name[1]] = Resources(int(used[1]), stores, loads, int(shared[1]) if shared else 0, local)
    return found


# ---- what PTX is made of ---------------------------------------------------------------------------------------

_INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][a-z0-9_.:]*)\s", re.MULTILINE)
_CONTROL = {"bra", "call", "ret", "exit", "brx"}
_SPECIAL = {"sqrt", "rsqrt", "rcp", "sin", "cos", "lg2", "ex2", "tanh", "div"}
_SYNCHRONISING = {"bar", "barrier", "membar", "fence", "shfl", "vote", "atom", "red", "activemask"}
_MOVES = {"mov", "cvta", "selp", "prmt"}


def instruction_mix(ptx: str) -> dict[str, int]:
    """Static counts of the instructions of *ptx* by class (a loop's body counts once).

    Classes: loads and stores of each memory (``load.global``, ``store.shared``, ``load.param``...), ``fp64``,
    ``fp32``, ``fp16``, ``int``, ``compare``, ``convert``, ``branch``, ``special`` (division, roots, the hardware's
    approximations), ``sync`` (barriers, shuffles, atomics), ``move``, ``other``.
    """
    bodies = "\n".join(re.findall(r"^\{$(.*?)^\}$", ptx, re.MULTILINE | re.DOTALL))
    return dict(Counter(_class(name) for name in _INSTRUCTION.findall(bodies)))


def _class(name: str) -> str:
    operation, *modifiers = name.split(".")
    if operation in ("ld", "st"):
        spaces = [m for m in modifiers if m in ("global", "shared", "local", "const", "param")]
        return f"{'load' if operation == 'ld' else 'store'}.{spaces[0] if spaces else 'generic'}"
    for kind, members in (("branch", _CONTROL), ("sync", _SYNCHRONISING), ("move", _MOVES)):
        if operation in members:
            return kind
    if operation == "setp" or operation == "set":
        return "compare"
    if operation == "cvt":
        return "convert"
    form = modifiers[-1] if modifiers else ""
    if operation in _SPECIAL and form[:1] == "f":
        return "special"
    if width := re.fullmatch(r"b?f(16|32|64)(?:x2)?", form):
        return f"fp{width[1]}"
    return "int" if re.fullmatch(r"[subx]\d+|b\d+|pred", form) else "other"
