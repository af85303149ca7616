"""A stand-in for CuPy that computes with NumPy on the CPU, for tests of what runs on a CUDA device.

``with installed():`` puts it in the place of ``cupy`` and ``cupyx.scipy.special`` and makes tracegrad look for a
device again.  It is meant to be no easier to please than CuPy 14:

- its arrays (``array.py``) are not NumPy's, refuse to become one without being asked, and to be mixed with one;
- its functions (``functions.py``) take the parameters that CuPy's take, and no others, and give CuPy's numbers where
  they are not NumPy's: division by floor, one of several writes to a position at random (here: the first);
- its ``cuda`` part (``runtime.py``) has a memory pool with a limit, streams and events that log, and counts what
  crosses to the host and what waits for the device.

``test_cupy_facts.py`` holds it against the real CuPy where that can be imported.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

from tracegrad.runtime.cuda import availability
from tracegrad.runtime.state import trust

from . import functions, runtime, special
from .array import ndarray
from .runtime import counts, log, pool

cupy = types.ModuleType("cupy")
cupy.__dict__.update(functions.TABLE)
cupy.__dict__.update(
    ndarray=ndarray, cuda=runtime.cuda, get_default_memory_pool=lambda: pool, from_dlpack=runtime.from_dlpack,
    __version__="14.2.0",
)  # fmt: skip

_NAMES = {"cupy": cupy, "cupyx": None, "cupyx.scipy": None, "cupyx.scipy.special": special.module}


_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


@contextmanager
def _trusted() -> Iterator[None]:
    """As CuPy is where it is installed: library code, which is not looked at when a user's function calls it."""
    folders = trust._trusted_folders
    trust._trusted_folders = lambda: [*folders(), (_HERE, "cupy")]
    try:
        yield
    finally:
        trust._trusted_folders = folders


@contextmanager
def installed() -> Iterator[types.ModuleType]:
    """Within it, this is CuPy.  Counts start at zero, and memory has no limit."""
    before = {name: sys.modules.get(name) for name in _NAMES}
    sys.modules.update({name: module or types.ModuleType(name) for name, module in _NAMES.items()})
    availability.cuda_status.cache_clear()
    counts.clear()
    log.clear()
    pool.set_limit(size=0)
    try:
        with _trusted():
            yield cupy
    finally:
        pool.set_limit(size=0)
        availability.cuda_status.cache_clear()
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


__all__ = ["counts", "cupy", "installed", "log", "ndarray", "pool", "special"]
