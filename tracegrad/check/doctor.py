"""``python -m tracegrad doctor``: versions, processor, threads, BLAS, CUDA, cache, combinations known to be bad."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import numpy as np

from ..codegen.cpu import jit
from ..runtime.config import config
from ..runtime.cuda.availability import cuda_status
from ..runtime.disk.location import cache_directory
from ..runtime.disk.report import size_text
from ..runtime.disk.store import store
from ..runtime.threads import available_cores

PACKAGES = ("tracegrad", "numpy", "scipy", "numba", "llvmlite", "optree", "ml_dtypes", "cupy-cuda13x", "numba-cuda")
LEAST = {"numpy": (2, 1, 2), "scipy": (1, 17), "numba": (0, 63), "llvmlite": (0, 46), "optree": (0, 14)}


def doctor() -> tuple[str, int]:
    """(lines for the user, exit status): 1 where something is known to be bad."""
    bad = [*_faults()]
    rows = [
        ("python", f"{platform.python_version()} ({platform.python_implementation()}), {platform.platform()}"),
        ("packages", ", ".join([f"{name} {found}" for name in PACKAGES if (found := version(name))])),
        ("processor", f"{jit.target_machine().triple}, {jit.llvm.get_host_cpu_name()}"),
        ("math", "libmvec of glibc: vectors of exp, sin, ..." if jit.HAS_LIBMVEC else "libm: no vectors of exp, sin"),
        ("threads", f"{config.num_threads} of kernels; {available_cores()} cores that this process may use"),
        ("BLAS", _blas()),
        ("CUDA", cuda_status().missing or "there is a device"),
        ("cache", _cache()),
        ("settings", ", ".join(sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("TRACEGRAD_"))) or "-"),
    ]
    lines = [f"{name:<10} {text}" for name, text in rows]
    lines += [f"{'bad':<10} {text}" for text in bad] or [f"{'bad':<10} nothing that is known"]
    return "\n".join(lines), int(bool(bad))


def version(name: str) -> str:
    """The version of an installed package; "" if there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    found = []
    for part in text.split("."):
        digits = "".join([c for c in part if c.isdigit()])
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)


def _blas() -> str:
    build: Any = np.show_config(mode="dicts")
    blas = build.get("Build Dependencies", {}).get("blas", {}) if build else {}
    text = f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
    limits = [f"{name}={os.environ[name]}" for name in _BLAS_THREADS if os.environ.get(name)]
    return f"{text}, {', '.join(limits)}" if limits else f"{text}, with threads of its own"


_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def _cache() -> str:
    root = cache_directory()
    if root is None:
        return "off"
    entries = store.entries()
    return f"{root}: {len(entries)} files, {size_text(sum(e.size for e in entries))} of {size_text(config.cache_size)}"


def _faults() -> Iterator[str]:
    """Combinations that are known to be bad, each with the way out."""
    for name, least in LEAST.items():
        found = version(name)
        if not found:
            yield f"{name} is not installed: pip install {name}"
        elif _numbers(found) < least:
            yield f"{name} {found} is older than {'.'.join(map(str, least))}: pip install -U {name}"
    if platform.python_implementation() != "CPython":
        yield "tracegrad is made for CPython"
    if version("numba") and version("llvmlite"):
        try:
            importlib.import_module("numba")
        except ImportError as error:
            yield f"numba does not go with what is installed ({error}): pip install -U numba llvmlite numpy"
    root = cache_directory()
    if root is not None and os.path.isdir(root) and not os.access(root, os.W_OK):
        yield f"{root} can't be written: set TRACEGRAD_CACHE_DIR, or TRACEGRAD_CACHE=0"
    if version("cupy-cuda13x") and version("cupy-cuda12x"):
        yield "two CuPy packages are installed: uninstall cupy-cuda12x"
    if version("cupy-cuda13x") and not version("numba-cuda"):
        yield "CuPy is installed without numba-cuda: operations run one by one; pip install 'tracegrad[cuda]'"
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        yield "NUMBA_DISABLE_JIT is set: functions compiled by numba run in Python"
    if config.check:
        yield "TRACEGRAD_CHECK=1: each call runs in the interpreter, too, and is compared"
