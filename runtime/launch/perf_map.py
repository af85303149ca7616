"""Names of kernels for ``perf`` and other sampling profilers: lines of /tmp/perf-PID.map, where they look for code that
is in no file.  Written where ``config.perf_map`` is set (``TRACEGRAD_PERF_MAP=1``), one line for each function of a
kernel: its address, its size, its name.
"""

from __future__ import annotations

import os
import weakref

from ...codegen.cpu.elf import UnsupportedObjectError, functions_of
from ...codegen.cpu.program import Program

_told: weakref.WeakSet[Program] = weakref.WeakSet()


def path() -> str:
    """The file of this process."""
    return f"/tmp/perf-{os.getpid()}.map"


def add(program: Program, name: str) -> None:
    """Tell the functions of *program*, compiled for the function *name*, unless they have been told."""
    if program in _told:
        return
    _told.add(program)
    try:
        functions = functions_of(program.object_code.code)
    except UnsupportedObjectError:  # not Linux on x86-64
        return
    known = {symbol: (section, value) for symbol, section, value, _ in functions}
    first = next((step for step in program.step_names if isinstance(step, str)), None)
    if first is None or first not in known:
        return
    address, (section, value) = program.code.address(first), known[first]
    lines = [
        f"{address + at - value:x} {size:x} tracegrad:{name.replace(' ', '_')}:{symbol}\n"
        for symbol, place, at, size in functions
        if place == section
    ]
    with open(path(), "a") as file:
        file.writelines(lines)
