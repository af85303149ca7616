"""LLVM IR to PTX by libNVVM; PTX to machine code by nvJitLink, with the resources of each kernel.

numba-cuda brings both libraries, their bindings (``cuda.bindings``) and libdevice, NVIDIA's math library as bitcode.
The bindings are called here the way that numba-cuda's own wrapper does it (``numba.cuda.cudadrv.nvvm.compile_ir``),
but directly: numba puts a fake in the wrapper's place when it simulates a GPU, and to make PTX no GPU is needed.
A test compares the PTX with that of the wrapper.

Multiplications and additions are not contracted, division and square root are rounded correctly, subnormal numbers
are kept: so ``+ - * /`` and ``sqrt`` give the same bits as on the CPU.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...tracer.ir.errors import DeviceError
from . import nvvm_ir

try:
    from cuda.bindings import nvjitlink, nvvm
    from numba.cuda.cuda_paths import get_cuda_paths
except ImportError as error:
    raise DeviceError(
        f"kernels for CUDA need numba-cuda ({error}): install it with pip install 'tracegrad[cuda]'"
    ) from error

FLOAT_OPTIONS = ("-fma=0", "-prec-div=1", "-prec-sqrt=1", "-ftz=0")

ComputeCapability = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one kernel: *registers* of a thread; bytes for each thread, but *shared* for each block."""

    registers: int
    spill_stores: int
    spill_loads: int
    shared: int
    local: int  # the stack frame


@dataclass(frozen=True, slots=True)
class Assembled:
    cubin: bytes
    resources: dict[str, Resources]


@cache
def libdevice() -> bytes:
    """The bitcode of NVIDIA's math library."""
    found = get_cuda_paths()["libdevice"].info
    if not found:
        raise DeviceError("libdevice is not installed: pip install 'tracegrad[cuda]'")
    return Path(found).read_bytes()


def compile_ptx(
    text: str, kernels: Sequence[str], cc: ComputeCapability = (9, 0), max_threads: int | None = None
) -> str:
    """PTX for compute capability *cc* of the printed module *text*, whose functions *kernels* are entry points.

    *max_threads*: the most threads of a block with which they will be launched.  Raises DeviceError where libNVVM
    refuses the module, or a function is called that is neither in it nor in libdevice.
    """
    source = nvvm_ir.to_nvvm(text, kernels, max_threads).encode()
    options = [f"-arch=compute_{cc[0]}{cc[1]}", "-opt=3", *FLOAT_OPTIONS]
    program = nvvm.create_program()
    try:
        nvvm.add_module_to_program(program, source, len(source), "tracegrad")
        nvvm.verify_program(program, len(options), options)
        # after the verification, which libdevice would not pass
        nvvm.lazy_add_module_to_program(program, libdevice(), len(libdevice()), "libdevice")
        nvvm.compile_program(program, len(options), options)
        found = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, found)
    except nvvm.nvvmError as error:
        log = bytearray(nvvm.get_program_log_size(program))
        nvvm.get_program_log(program, log)
        raise DeviceError(f"libNVVM refuses the module: {error}\n{_text(log)}") from None
    finally:
        nvvm.destroy_program(program)
    ptx = _text(found)
    if unknown := re.findall(r"^\.extern \.func .*?(\w+)\s*$", ptx, re.MULTILINE):
        raise DeviceError(f"no such functions on the device: {', '.join(unknown)}")
    return ptx


def assemble(ptx: str, cc: ComputeCapability = (9, 0)) -> Assembled:
    """Machine code for *cc*, and the resources of each kernel."""
    source = ptx.encode()
    options = [f"-arch=sm_{cc[0]}{cc[1]}", "-Xptxas=-v"]
    linker = nvjitlink.create(len(options), options)
    try:
        nvjitlink.add_data(linker, nvjitlink.InputType.PTX, source, len(source), "tracegrad")
        nvjitlink.complete(linker)
        code = bytearray(nvjitlink.get_linked_cubin_size(linker))
        nvjitlink.get_linked_cubin(linker, code)
        log = bytearray(nvjitlink.get_info_log_size(linker))
        nvjitlink.get_info_log(linker, log)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(linker))
        nvjitlink.get_error_log(linker, log)
        raise DeviceError(f"the assembler refuses the PTX: {error}\n{_text(log)}") from None
    finally:
        nvjitlink.destroy(linker)
    return Assembled(bytes(code), _resources(_text(log)))


def cubin(ptx: str, cc: ComputeCapability = (9, 0)) -> bytes:
    """Machine code for *cc*."""
    return assemble(ptx, cc).cubin


def resources(ptx: str, cc: ComputeCapability = (9, 0)) -> dict[str, Resources]:
    """The resources of each kernel of *ptx* on *cc*, as the assembler reports them."""
    return assemble(ptx, cc).resources


def _text(buffer: bytearray) -> str:
    return bytes(buffer).decode().rstrip("\0\n ")


def _resources(log: str) -> dict[str, Resources]:
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
