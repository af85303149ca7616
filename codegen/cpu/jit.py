"""LLVM IR text -> machine code, through numba's CPU code library.

Kernels are whole loop nests emitted with ``llvmlite.ir``; they enter numba below its type inference, as a
module of a numba ``CodeLibrary``.  Numba's engine, target machine and pass pipeline do the rest.  Going through
``@njit`` around an intrinsic gives the same machine code but costs 0.12 s a kernel in inference, wrappers and
linking; this way costs 0.02 s.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

SPEED_LEVEL = 2  # LLVM's -O2

_lock = threading.RLock()
_serial = itertools.count()


def has_libmvec() -> bool:
    """True where glibc's vector math library can be loaded into the process."""
    return _HAS_LIBMVEC


def _load_libmvec() -> bool:
    try:
        llvm.load_library_permanently("libmvec.so.1")
    except RuntimeError:
        return False
    return True


_HAS_LIBMVEC = _load_libmvec()


def target_triple() -> str:
    return llvm.get_process_triple()


def data_layout() -> str:
    return str(cpu_target.target_context.codegen().target_data)


def add_symbol(name: str, address: int) -> None:
    """Make *address* known to the linker of compiled kernels under *name*."""
    llvm.add_symbol(name, address)


class KernelLibrary(JITCodeLibrary):
    """A code library that is optimised once.

    numba's own pipeline runs three times over a module (per function, cheaply, in full) to prune reference counts
    that typed Python code has; kernels have none.
    """

    def _optimize_functions(self, ll_module: object) -> None:
        pass

    slp_vectorization = True  # of straight-line code

    def _optimize_final_module(self) -> None:
        codegen = self._codegen
        options = llvm.create_pipeline_tuning_options(speed_level=SPEED_LEVEL)
        options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = SPEED_LEVEL > 0
        options.slp_vectorization = self.slp_vectorization and SPEED_LEVEL > 0
        builder = llvm.create_pass_builder(codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


@dataclass(slots=True)
class CompiledModule:
    """A finalized code library.  Keep it alive as long as a pointer into it is used."""

    library: object
    name: str
    _addresses: dict[str, int] = field(default_factory=dict)

    def address(self, function: str) -> int:
        """Entry point of *function* as an integer."""
        found = self._addresses.get(function)
        if found is None:
            found = self._addresses[function] = self.library.get_pointer_to_function(function)  # type: ignore[attr-defined]
        return found

    def function(self, function: str, restype: type | None, *argtypes: type) -> Callable[..., object]:
        """A ctypes callable for *function* that holds the GIL while it runs."""
        return ctypes.PYFUNCTYPE(restype, *argtypes)(self.address(function))

    def assembly(self) -> str:
        return self.library.get_asm_str()  # type: ignore[attr-defined]


def unique_name(stem: str) -> str:
    """A symbol name not used before in this process (the engine is shared by all kernels)."""
    return f"{stem}_{next(_serial)}"


def compile_text(text: str, name: str) -> CompiledModule:
    """Compile one module of LLVM IR; its external functions must have names from :func:`unique_name`."""
    with _lock, global_compiler_lock:
        try:
            library = _library(text, name, slp_vectorization=True)
        except RuntimeError:  # LLVM 22's pass may put a load behind its use; the verifier finds that
            library = _library(text, name, slp_vectorization=False)
    return CompiledModule(library, name)


def _library(text: str, name: str, slp_vectorization: bool) -> KernelLibrary:
    library = KernelLibrary(cpu_target.target_context.codegen(), name)
    library.slp_vectorization = slp_vectorization
    module = llvm.parse_assembly(text)
    module.name = name
    library.add_llvm_module(module)
    library.finalize()
    return library
