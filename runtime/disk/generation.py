"""The text of all that machine code depends on besides its key: who makes it, and for which processor.

That is a hash of the compiler's sources, and of those that bind and run its code, read and not imported; the versions
of numba, llvmlite, NumPy, SciPy and Python; the processor with its features, the C library, and numba's settings for
it. The hash is remembered, in the store, by names, sizes, times and numbers of the files, as Python remembers what it
has compiled.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import itertools
import os
import platform
import sys
import time
from typing import Any

import numpy as np

from ...tracer.ir.digests import blake2b
from ...tracer.ir.settings import optimiser
from .encoding import EncodingError, encode
from .location import cache_directory
from .store import store

_LOADED = time.time()
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_FOLDERS = ("tracer", "codegen", "runtime")
# packages, and their modules that say the version; they are not imported for it
_VERSIONS = (("numba", "_version"), ("llvmlite", "_version"), ("scipy", "version"))
_SETTINGS = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT")  # which codegen/cpu/jit.py reads
# lines of /proc/cpuinfo that do not change while the machine runs
_CPU_LINES = {
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
}  # fmt: skip


def key_text(*parts: Any) -> bytes | None:
    """The text under which the store keeps what is made of *parts*; None where nothing is kept, or a part is an object
    of this process."""
    if cache_directory() is None:
        store.no_directory()
        return None
    made_by = generation()
    try:
        return None if made_by is None else made_by + encode(parts)
    except (EncodingError, RecursionError):
        return None


def generation() -> bytes | None:
    """The text, of this process; None where the sources are no files (an archive), or are newer than it."""
    return _generation(optimiser.level)


@functools.cache
def _generation(level: int) -> bytes | None:
    sources = _sources()
    if sources is None:
        return None
    settings = [level, *[os.environ.get(name) for name in _SETTINGS]]
    return encode((sources, np.__version__, sys.implementation.cache_tag, settings, *_machine()))


def _sources() -> bytes | None:
    """A hash of the compiler's sources and of the versions of what it uses."""
    try:
        files = _files()
        listing = []
        for name, path in files:
            s = os.stat(path)
            if s.st_ctime > _LOADED:  # this process may be made of what stood there before
                return None
            listing.append((name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev))
        key = repr((_PACKAGE, listing)).encode("utf-8", "surrogateescape")
        known = store.get("sources", key)
        if known is None:
            digest = blake2b(digest_size=32)
            for name, path in files:
                with open(path, "rb", buffering=0) as file:
                    content = file.read()
                digest.update(encode((name, len(content))))
                digest.update(content)
            known = digest.digest()
            store.put("sources", key, known)
        return known
    except OSError:
        return None


def _files() -> list[tuple[str, str]]:
    """(name, path) of each file; raises OSError where one is missing."""
    found: list[tuple[str, str]] = []
    for folder in _FOLDERS:
        start = os.path.join(_PACKAGE, folder)
        before = len(found)
        for path, folders, names in os.walk(start):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            relative = os.path.relpath(path, _PACKAGE)
            found += [(f"{relative}/{n}", os.path.join(path, n)) for n in sorted(names) if n.endswith(".py")]
        if len(found) == before:
            raise FileNotFoundError(start)
    for package, name in _VERSIONS:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.origin:
            raise FileNotFoundError(package)
        found.append((f"{package}/{name}", os.path.join(os.path.dirname(spec.origin), f"{name}.py")))
    return found


def _machine() -> tuple[Any, ...]:
    """The processor and the C library.  An emulator (qemu-user, Intel's SDE) shows the machine's own /proc/cpuinfo to
    a program that runs on another processor, which NumPy has asked itself."""
    glibc = os.confstr("CS_GNU_LIBC_VERSION") if _has_glibc() else ""
    common = (sys.platform, platform.machine(), glibc, _numpys_features())
    if sys.platform == "linux":
        try:
            with open("/proc/cpuinfo") as file:  # the lines of the first processor
                lines = [line.partition(":") for line in itertools.takewhile(str.strip, file)]
            found = sorted((k.strip(), v.strip()) for k, _, v in lines if k.strip() in _CPU_LINES)
            if any(name in ("flags", "Features") for name, _ in found):
                return (*common, found)
        except OSError:
            pass
    llvm: Any = importlib.import_module("llvmlite.binding")
    return (*common, llvm.get_host_cpu_name(), sorted(llvm.get_host_cpu_features().items()))


def _numpys_features() -> list[str]:
    """The features of the processor that NumPy has found for itself."""
    found = getattr(sys.modules.get("numpy._core._multiarray_umath"), "__cpu_features__", {})
    return sorted(name for name, has in found.items() if has)


def _has_glibc() -> bool:
    return "CS_GNU_LIBC_VERSION" in getattr(os, "confstr_names", {})
