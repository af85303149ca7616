"""LLVM IR text -> machine code, by numba's compiler below its type inference: llvmlite, with numba's target machine.

Kernels are whole loop nests emitted with ``llvmlite.ir``.  Going through ``@njit`` around an intrinsic gives the same
machine code but costs 0.12 s a kernel in inference, wrappers and linking; this way costs 0.02 s.  Nor are they modules
of numba's engine, which frees nothing: each is linked alone (``machine_code.py``).  So numba's Python is not imported,
which takes longer than all kernels of a small program; its settings for the processor count here, too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from ...tracer.ir.settings import optimiser
from .machine_code import ObjectCode, loaded

T = TypeVar("T")

LARGE = 8_000  # lines of a module with -O1 and no loop unrolled: with many it takes minutes, and the code is no faster

_SYMBOL = re.compile(r'@"([\w-]+:[^"]+)"')  # names of symbols.py
# LLVM 20 (llvmlite 0.46 and 0.47) ends the process by an assertion where its pass packs elements of a vector whose last
# part has three of them: rows of seven, among those of small_matrices.py
_FATAL_VECTOR = re.compile(r"<7 x (?:float|double)>") if llvm.llvm_version_info < (22,) else None


def _load_libmvec() -> bool:
    """Whether glibc's vector math library can be loaded into the process."""
    try:
        llvm.load_library_permanently("libmvec.so.1")
    except RuntimeError:
        return False
    return True


HAS_LIBMVEC = _load_libmvec()
target_triple = llvm.get_process_triple

#: Processors that code can be made for besides this one, and their feature that decides how wide vectors are.
CPUS = {"x86-64": "sse2", "x86-64-v2": "sse2", "x86-64-v3": "avx2", "x86-64-v4": "avx512f"}


class _MadeFor(threading.local):
    cpu: str | None = None


_made_for = _MadeFor()


@contextlib.contextmanager
def made_for(cpu: str | None) -> Iterator[None]:
    """Within it, this thread makes code for one of :data:`CPUS`; None: for the processor of this process."""
    before, _made_for.cpu = _made_for.cpu, cpu
    try:
        yield
    finally:
        _made_for.cpu = before


def cpu() -> str | None:
    """The processor that this thread makes code for, where it is not that of this process."""
    return _made_for.cpu


def data_layout() -> str:
    return str(target_machine().target_data)


def target_machine(linked: bool = False, optimised: bool = True) -> Any:
    """The processor of this process, as numba's just-in-time compiler sees it, or that of :func:`made_for`; *linked*:
    for code that a linker puts into a program or a library; not *optimised*: one instruction of IR after the other."""
    return _target_machine(linked, optimised, cpu())


@functools.cache
def _target_machine(linked: bool, optimised: bool, cpu: str | None) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    read, is_x86 = os.environ.get, llvm.Target.from_default_triple().name.startswith("x86")
    features = read("NUMBA_CPU_FEATURES") if cpu is None else ""
    if features is None:
        with contextlib.suppress(RuntimeError):  # LLVM can't ask this processor
            features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_triple(target_triple()).create_target_machine(
        cpu=cpu or read("NUMBA_CPU_NAME") or llvm.get_host_cpu_name(),
        features=features or "",
        opt=0 if not optimised else 3 if (level := read("NUMBA_OPT", "3")) == "max" else int(level),
        reloc="pic" if linked else "static" if is_x86 else "default",
        codemodel="default" if linked else "jitdefault",
        jit=not linked,
    )


def _numbas_lock() -> Any:
    """The lock under which numba compiles, where it has been imported."""
    module = sys.modules.get("numba.core.compiler_lock")
    return getattr(module, "global_compiler_lock", None) or contextlib.nullcontext()


def compile_text(text: str, name: str, linked: bool = False) -> ObjectCode:
    """Compile one module of LLVM IR, which is linked alone; *linked*: by a linker."""
    return ObjectCode(object_code(text, name, linked), tuple(dict.fromkeys(_SYMBOL.findall(text))))


def object_code(text: str, name: str, linked: bool = False) -> bytes:
    """Machine code for *text*, which is not loaded."""
    return _compiled(text, name, linked, lambda machine, module: machine.emit_object(module))


def assembly(text: str, name: str) -> str:
    """The same as assembly, to be read."""
    return _compiled(text, name, False, lambda machine, module: machine.emit_assembly(module))


def _compiled(text: str, name: str, linked: bool, emit: Callable[[Any, Any], T]) -> T:
    with loaded, _numbas_lock():
        machine = target_machine(linked, optimiser.level > 0)
        if _FATAL_VECTOR is None or not _FATAL_VECTOR.search(text):
            with contextlib.suppress(
                RuntimeError
            ):  # LLVM 22's pass may put a load behind its use; the verifier finds it
                return _emitted(text, name, machine, emit, slp_vectorization=True)
        return _emitted(text, name, machine, emit, slp_vectorization=False)


def _emitted(text: str, name: str, machine: Any, emit: Callable[[Any, Any], T], slp_vectorization: bool) -> T:
    """That which *emit* makes of *text*, optimised once. It is made in a context of its own, since a context keeps each
    constant and each hint that it has seen.

    numba's own pipeline runs three times over a module (per function, cheaply, in full) to prune reference counts
    that typed Python code has; kernels have none.
    """
    large, level = text.count("\n") > LARGE, optimiser.level
    options = llvm.create_pipeline_tuning_options(speed_level=min(level, 1) if large else level)
    options.loop_vectorization = options.loop_interleaving = level > 0
    options.loop_unrolling = level > 0 and not large
    options.slp_vectorization = slp_vectorization and level > 0
    builder = llvm.create_pass_builder(machine, options)
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        module.name, module.triple, module.data_layout = name, target_triple(), data_layout()
        passes = builder.getModulePassManager()
        passes.run(module, builder)
        NewPassManager._dispose(passes)  # llvmlite does not: a base class in front of this one does nothing
        passes.detach()
        module.verify()
        return emit(machine, module)


def features() -> list[str]:
    """The features of the processor of this process."""
    return sorted(name for name, has in llvm.get_host_cpu_features().items() if has)


def processor() -> str:
    """The name of the processor that code is compiled for."""
    return cpu() or os.environ.get("NUMBA_CPU_NAME") or str(llvm.get_host_cpu_name())
