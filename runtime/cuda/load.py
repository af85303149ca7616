"""Compiled programs for the device, kept by signature: kernels are assembled once for each and loaded.

``programs.get`` gives a ``Loaded``: the program and the launchers of its kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...codegen.cuda import ptx
from ...codegen.cuda.assemble import assemble
from ...codegen.cuda.intrinsics import device_text
from ...codegen.cuda.program import CudaProgram
from ...codegen.lower.canonical import Canonical
from ..disk.generation import key_text
from ..disk.store import store
from ..launch.kernel_cache import KernelCache

KIND = "cubin"
WAVES = 4  # how often the device is filled by the blocks of a launch, where their number is free

# (grid, block, arguments) -> None, asynchronous
Launch = Callable[[tuple[int, ...], tuple[int, ...], tuple[int, ...]], None]


@dataclass(slots=True, eq=False)
class Loaded:
    """*launches* by kernel; *most*: blocks of it that keep the device busy."""

    program: CudaProgram
    launches: dict[str, Launch]
    most: dict[str, int]


def load(program: CudaProgram, xp: Any) -> Loaded:
    """Assemble *program* for the current device and load it there; *xp* is CuPy."""
    device = xp.cuda.Device()
    capability = int(device.compute_capability[:-1]), int(device.compute_capability[-1])
    launches: dict[str, Launch] = {}
    most: dict[str, int] = {}
    if program.kernels:
        module = xp.cuda.function.Module()
        threads = program.geometry.threads
        module.load(machine_code(device_text(program), program.kernels, capability, threads))
        for name in program.kernels:
            function = launches[name] = module.get_function(name)
            resident = xp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, threads, 0)
            most[name] = max(resident, 1) * device.attributes["MultiProcessorCount"] * WAVES
    return Loaded(program, launches, most)


def machine_code(text: str, kernels: Sequence[str], capability: ptx.ComputeCapability, threads: int) -> bytes:
    """The code of *kernels* for the device, by NVIDIA's compiler and assembler, or found on disk."""
    key = key_text(ptx.versions(), text, tuple(kernels), capability, threads)
    found = None if key is None else store.get(KIND, key)
    if found is None:
        found, _ = ptx.assemble(ptx.compile_ptx(text, kernels, capability, threads), capability)
        if key is not None:
            store.put(KIND, key, found)
    return found


def make(canonical: Canonical, arguments: int, xp: Any) -> Loaded:
    return load(assemble(canonical, arguments), xp)


class LoadedPrograms:
    """The cache of a process, for each device."""

    def __init__(self) -> None:
        self.make = make
        self._caches: dict[int, KernelCache[Loaded]] = {}

    def get(self, canonical: Canonical, arguments: int, xp: Any) -> tuple[Loaded, bool]:
        """(the program of *canonical* on the current device, was it there already)"""
        device = int(xp.cuda.Device().id)
        cache = self._caches.get(device)
        if cache is None:
            cache = self._caches[device] = KernelCache(lambda c, n: self.make(c, n, xp))
        found, known = cache.get(canonical, arguments)
        return found, bool(known)

    def clear(self) -> None:
        self._caches.clear()


programs = LoadedPrograms()
