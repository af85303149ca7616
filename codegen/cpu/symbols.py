"""Functions outside of a kernel, under names by which any process finds their addresses.

Machine code is kept on disk, so it has no address in it: what it calls, or hands to what it calls, is a symbol. A name
without a colon is one of the C library's, of libm's or of libmvec's. The others say where an address stands:

=================================  ====================================================================================
``capsule:MODULE:NAME``            a C function in ``MODULE.__pyx_capi__``, by which Cython modules share them
``blas:NAME:``                     a function of the BLAS that NumPy has, or else of SciPy's; its integers are 64 bits
``ufunc:MODULE:NAME:dd_d``         the inner loop of a ufunc for these types
``ufunc-data:MODULE:NAME:dd_d``    the last argument of that loop
``process:...``                    defined by :func:`define`: of no other process
``pool:...``                       provided by a layer above (:func:`provide`)
=================================  ====================================================================================

Neither LLVM nor a module of SciPy's is imported before a name asks for it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

from .cpython import capsule_address, function_address, ufunc_loop

#: Modules of ufuncs that kernels call; the one of Fourier transforms has names of NumPy's own making.
UFUNC_MODULES = ("numpy", "scipy.special", "numpy.fft._pocketfft_umath")
# C functions of these modules stand alone: nothing else of their package, which takes 0.1 s to import, is needed
_ALONE = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")
_CAPSULES = (*_ALONE, "scipy.special.cython_special")
# names in what NumPy is linked with: OpenBLAS of its wheels, now and before, others of 64 bits, all others
_BLAS_NAMES = ("scipy_{}_64_", "{}64_", "{}_64_", "{}_")
_LIBRARIES = (None, "libm.so.6", "libmvec.so.1")  # the process, then what it may not have loaded

PROCESS = "process:"

_defined: dict[str, int] = {}
_provided: dict[str, Callable[[], int]] = {}


class UnknownSymbolError(LookupError):
    """No address has this name in this process."""


def capsule_symbol(module: str, name: str) -> str:
    return f"capsule:{module}:{name}"


def ufunc_symbols(function: Any, loop: str) -> tuple[str, str | None]:
    """(inner loop, its data or None) of the ufunc *function* for types such as ``"dd->d"``."""
    home = next((m for m in UFUNC_MODULES if getattr(sys.modules.get(m), function.__name__, None) is function), None)
    place = f"{home}:{function.__name__}:{loop.replace('->', '_')}"
    address, data = ufunc_loop(function, loop)
    if home is None:
        place = f"{id(function)}:{place}"
        define(f"{PROCESS}{place}", address)
        define(f"{PROCESS}data:{place}", data)
        return f"{PROCESS}{place}", f"{PROCESS}data:{place}" if data else None
    return f"ufunc:{place}", f"ufunc-data:{place}" if data else None


def define(name: str, address: int) -> None:
    """Make *name* a symbol of this process alone."""
    _defined[name] = address
    address_of.cache_clear()


def provide(name: str, address: Callable[[], int]) -> None:
    """Let *name* have an address in each process, for which *address* is asked when it is wanted."""
    _provided[name] = address


@functools.cache
def address_of(name: str) -> int:
    """The address of *name*.

    Raises:
        UnknownSymbolError: there is none in this process.
    """
    found = _defined.get(name)
    if not found:
        found = _provided[name]() if name in _provided else _named(name) if ":" in name else _exported(name)
    if not found:
        raise UnknownSymbolError(name)
    return found


def in_any_process(name: str) -> bool:
    """Whether another process may find an address by *name*."""
    return name not in _defined and not name.startswith(PROCESS)


def blas_symbol(name: str) -> str:
    return f"blas:{name}:"


@functools.cache
def _numpys_blas() -> ctypes.CDLL | None:
    """NumPy's extension module: a name is looked up in the libraries that it is linked with, too."""
    module = sys.modules.get("numpy._core._multiarray_umath")
    return _library(module.__file__) if module is not None else None


def _blas(name: str) -> int:
    """The Fortran function *name* of a BLAS.

    Its integers are handed over as 64 bits in memory: where it has those of 32 it reads the lower half, which is the
    number (on machines whose lower half comes first, as on all of docs/platforms.md).
    """
    for form in _BLAS_NAMES:
        if address := _in_library(_numpys_blas(), form.format(name)):
            return address
    return capsule_address(capsules(_ALONE[0])[name])


def _named(name: str) -> int:
    kind, module, attribute, *rest = name.split(":")
    try:
        if kind == "blas":
            return _blas(module)
        if kind == "capsule" and module in _CAPSULES:
            return capsule_address(capsules(module)[attribute])
        if module in UFUNC_MODULES:
            place = ufunc_loop(getattr(importlib.import_module(module), attribute), rest[0].replace("_", "->"))
            return place[("ufunc", "ufunc-data").index(kind)]
    except (ImportError, LookupError, AttributeError, ValueError):
        pass
    return 0


@functools.cache
def _library(name: str | None) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _exported(name: str) -> int:
    return next(filter(None, (_in_library(library, name) for library in map(_library, _LIBRARIES))), 0)


def _in_library(library: ctypes.CDLL | None, name: str) -> int:
    """The address of *name* in the *library*, or 0."""
    try:
        return function_address(library[name])  # type: ignore[index]
    except (AttributeError, TypeError):
        return 0


# ---- capsules of Cython's -------------------------------------------------------------------------------------------


def capsules(module: str) -> dict[str, Any]:
    """The C functions that a Cython *module* shares."""
    if module in _ALONE and module not in sys.modules:
        found = _extension_alone(module)
        if found is not None:
            return found.__pyx_capi__
    return importlib.import_module(module).__pyx_capi__


def _extension_alone(name: str) -> Any:
    """An extension module without its package, which Cython finds again when that is imported; None: it has no file."""
    package, *folders = name.split(".")
    for root in importlib.import_module(package).__path__:  # imported for what it does for its libraries
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = os.path.join(root, *folders) + suffix
            if os.path.isfile(path):
                found = importlib.util.spec_from_file_location(name, path)
                assert found is not None and found.loader is not None
                module = importlib.util.module_from_spec(found)
                found.loader.exec_module(module)
                return module
    return None
