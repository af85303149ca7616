"""LLVM IR text -> machine code, through numba's CPU code generator.

Kernels are whole loop nests emitted with ``llvmlite.ir``; they enter numba below its type inference, as modules for its
target machine.  Going through ``@njit`` around an intrinsic gives the same machine code but costs 0.12 s a kernel in
inference, wrappers and linking; this way costs 0.02 s.  Nor are they modules of numba's engine, which frees nothing:
each is linked alone (``machine_code.py``).
"""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from .machine_code import ObjectCode, loaded

SPEED_LEVEL = 2  # LLVM's -O2
LARGE = 8_000  # lines of a module with -O1 and no loop unrolled: with many it takes minutes, and the code is no faster

_SYMBOL = re.compile(r'@"([\w-]+:[^"]+)"')  # names of symbols.py


def _load_libmvec() -> bool:
    """Whether glibc's vector math library can be loaded into the process."""
    try:
        llvm.load_library_permanently("libmvec.so.1")
    except RuntimeError:
        return False
    return True


HAS_LIBMVEC = _load_libmvec()
target_triple = llvm.get_process_triple


def data_layout() -> str:
    return str(_codegen().target_data)


def compile_text(text: str, name: str) -> ObjectCode:
    """Compile one module of LLVM IR, which is linked alone."""
    with loaded, global_compiler_lock:
        try:
            code = _object_code(text, name, slp_vectorization=True)
        except RuntimeError:  # LLVM 22's pass may put a load behind its use; the verifier finds that
            code = _object_code(text, name, slp_vectorization=False)
    return ObjectCode(code, tuple(dict.fromkeys(_SYMBOL.findall(text))))


def _object_code(text: str, name: str, slp_vectorization: bool) -> bytes:
    """Machine code for *text*, optimised once. It is made in a context of its own, since a context keeps each constant
    and each hint that it has seen.

    numba's own pipeline runs three times over a module (per function, cheaply, in full) to prune reference counts
    that typed Python code has; kernels have none.
    """
    codegen = _codegen()
    codegen._check_llvm_bugs()
    large = text.count("\n") > LARGE
    options = llvm.create_pipeline_tuning_options(speed_level=min(SPEED_LEVEL, 1) if large else SPEED_LEVEL)
    options.loop_vectorization = options.loop_interleaving = SPEED_LEVEL > 0
    options.loop_unrolling = SPEED_LEVEL > 0 and not large
    options.slp_vectorization = slp_vectorization and SPEED_LEVEL > 0
    builder = llvm.create_pass_builder(codegen._tm, options)
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        module.name, module.triple, module.data_layout = name, target_triple(), data_layout()
        passes = builder.getModulePassManager()
        passes.run(module, builder)
        NewPassManager._dispose(passes)  # llvmlite does not: a base class in front of this one does nothing
        passes.detach()
        module.verify()
        return codegen._tm.emit_object(module)


def _codegen() -> Any:
    return cpu_target.target_context.codegen()
