"""Names of kernels for ``perf`` and other sampling profilers: lines of /tmp/perf-PID.map, where they look for code that
is in no file.  Written where ``config.perf_map`` is set (``TRACEGRAD_PERF_MAP=1``), one line for each function of a
kernel: its address, its size, its name.
"""

from __future__ import annotations

import os

from ...codegen.cpu.elf import UnsupportedObjectError, functions_of
from ...codegen.cpu.machine_code import MachineCode

_told: set[int] = set()  # handles of code


def path() -> str:
    """The file of this process."""
    return f"/tmp/perf-{os.getpid()}.map"


def add(name: str, object_code: bytes, code: MachineCode, symbol: str) -> None:
    """Tell the functions of a kernel, loaded as *code*, of the function *name*; *symbol* is one of them.  Once."""
    if int(code.handle) in _told:
        return
    _told.add(int(code.handle))
    try:
        functions = functions_of(object_code)
    except UnsupportedObjectError:  # not Linux on x86-64
        return
    known = {found: (section, value) for found, section, value, _ in functions}
    if symbol not in known:
        return
    section, value = known[symbol]
    start, shown = code.address(symbol) - value, name.replace(" ", "_")
    with open(path(), "a") as file:
        for found, place, at, size in functions:
            if place == section:
                file.write(f"{start + at:x} {size:x} tracegrad:{shown}:{found}\n")
