"""LLVM IR to PTX by libNVVM; PTX to machine code by nvJitLink.

numba-cuda brings both libraries, their bindings (``cuda.bindings``) and libdevice, NVIDIA's math library as bitcode.
The bindings are called here the way that numba-cuda's own wrapper does it (``numba.cuda.cudadrv.nvvm.compile_ir``),
but directly: numba puts a fake in the wrapper's place when it simulates a GPU, and to make PTX no GPU is needed.
A test compares the PTX with that of the wrapper.

Multiplications and additions are not contracted, division and square root are rounded correctly, subnormal numbers
are kept: so ``+ - * /`` and ``sqrt`` give the same bits as on the CPU.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

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


@cache
def libdevice() -> bytes:
    """The bitcode of NVIDIA's math library."""
    found = get_cuda_paths()["libdevice"].info
    if not found:
        raise DeviceError("libdevice is not installed: pip install 'tracegrad[cuda]'")
    return Path(found).read_bytes()


@cache
def versions() -> tuple[str, ...]:
    """Of all that makes machine code here."""
    bitcode = hashlib.sha256(libdevice()).hexdigest()
    return str(tuple(nvvm.version())), str(tuple(nvjitlink.version())), bitcode


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
        ptx = _text(_fetched(nvvm.get_compiled_result_size, nvvm.get_compiled_result, program))
    except nvvm.nvvmError as error:
        log = _fetched(nvvm.get_program_log_size, nvvm.get_program_log, program)
        raise DeviceError(f"libNVVM refuses the module: {error}\n{_text(log)}") from None
    finally:
        nvvm.destroy_program(program)
    if unknown := re.findall(r"^\.extern \.func .*?(\w+)\s*$", ptx, re.MULTILINE):
        raise DeviceError(f"no such functions on the device: {', '.join(unknown)}")
    return ptx


def assemble(ptx: str, cc: ComputeCapability = (9, 0)) -> tuple[bytes, str]:
    """(machine code for *cc*, the assembler's report on each kernel)"""
    source = ptx.encode()
    options = [f"-arch=sm_{cc[0]}{cc[1]}", "-Xptxas=-v"]
    linker = nvjitlink.create(len(options), options)
    try:
        nvjitlink.add_data(linker, nvjitlink.InputType.PTX, source, len(source), "tracegrad")
        nvjitlink.complete(linker)
        code = _fetched(nvjitlink.get_linked_cubin_size, nvjitlink.get_linked_cubin, linker)
        log = _fetched(nvjitlink.get_info_log_size, nvjitlink.get_info_log, linker)
    except nvjitlink.nvJitLinkError as error:
        log = _fetched(nvjitlink.get_error_log_size, nvjitlink.get_error_log, linker)
        raise DeviceError(f"the assembler refuses the PTX: {error}\n{_text(log)}") from None
    finally:
        nvjitlink.destroy(linker)
    return bytes(code), _text(log)


def _fetched(size: Callable[[Any], int], fill: Callable[[Any, bytearray], object], handle: Any) -> bytearray:
    """A text or code of the library's, by the functions that give its size and fill a buffer."""
    buffer = bytearray(size(handle))
    fill(handle, buffer)
    return buffer


def _text(buffer: bytearray) -> str:
    return bytes(buffer).decode().rstrip("\0\n ")
