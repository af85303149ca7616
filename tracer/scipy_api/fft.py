"""scipy.fft and scipy.fftpack: transforms over one axis or several, and cosine and sine transforms by those.

Both come to a few functions, which take a direction and a norm: these are replaced, and what is above them is SciPy's.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import COMPLEX, FLOAT, FLOAT32, HALF
from ..ir.errors import ShapeError
from ..ir.graph import Atom
from ..ir.site import at_site
from ..numpy_api.fourier import norm_factor, of_length, scaled, transformed
from ..numpy_api.hooks import hook, hook_to_source, when_loaded
from ..numpy_api.registry import atom_of, one_axis
from ..ops.complex import by_lane
from ..ops.elementwise import cast
from ..ops.shape import move_axis
from ..record.array import to_atom, wrap

# ---- arguments -----------------------------------------------------------------------------------------------------


def _numbers(x: Any, real: bool = False) -> Atom:
    """*x* in the dtype that SciPy computes in."""
    atom = atom_of(x)
    if atom.aval.is_complex and real:
        raise TypeError(at_site("x must be a real sequence"))
    if atom.aval.dtype in COMPLEX or atom.aval.dtype in (FLOAT, FLOAT32):
        return atom
    return cast(atom, FLOAT32 if atom.aval.dtype in HALF else FLOAT)


def _one(x: Atom, n: Any, axis: Any) -> tuple[int | None, int]:
    """(*n*, *axis*) as ints."""
    axis = one_axis(axis, x.aval.ndim, "scipy.fft")
    if (x.aval.shape[axis] if n is None else int(n)) < 1:
        points = x.aval.shape[axis] if n is None else n
        raise ShapeError.here(f"invalid number of data points ({points}) specified")
    return None if n is None else int(n), axis


def _several(x: Atom, s: Any, axes: Any) -> tuple[list[int], list[int]]:
    """(lengths, axes) as SciPy reads them."""
    helper = _engine(sys.modules["scipy.fft"]).helper
    lengths, found = helper._init_nd_shape_and_axes(np.broadcast_to(0.0, x.aval.shape), s, axes)
    return list(lengths), list(found)


def _engine(fft: Any) -> Any:
    """The package of SciPy's own transforms, which has another name from SciPy 1.18 on."""
    return fft._duccfft if hasattr(fft, "_duccfft") else fft._pocketfft


def _no_plan(plan: Any) -> None:
    if plan is not None:
        raise NotImplementedError("Passing a precomputed plan is not yet supported by scipy.fft functions")


# ---- Fourier transforms --------------------------------------------------------------------------------------------


def _along_one(kind: str) -> Callable[..., Any]:
    def transform(
        forward: bool, x: Any, n: Any = None, axis: Any = -1, norm: Any = None, overwrite_x: bool = False,
        workers: Any = None, *, plan: Any = None,
    ) -> Any:  # fmt: skip
        _no_plan(plan)
        atom = _numbers(x, kind == "r2c")
        length, axis = _one(atom, n, axis)
        if length is None:
            length = atom.aval.shape[axis]
            length = 2 * (length - 1) if kind == "c2r" else length
            if length < 1:
                raise ShapeError.here(f"Invalid number of data points ({length}) specified")
        return wrap(transformed(atom, length, axis, kind, forward, norm))

    return transform


def _along_several(kind: str) -> Callable[..., Any]:
    def transform(
        forward: bool, x: Any, s: Any = None, axes: Any = None, norm: Any = None, overwrite_x: bool = False,
        workers: Any = None, *, plan: Any = None,
    ) -> Any:  # fmt: skip
        _no_plan(plan)
        atom = _numbers(x, kind == "r2c")
        lengths, axes = _several(atom, s, axes)
        if not axes:
            if kind == "c2c":
                return x
            raise ValueError(at_site("at least 1 axis must be transformed"))
        if kind == "c2r" and s is None:
            lengths[-1] = 2 * (lengths[-1] - 1)
        steps = [(n, axis, "c2c") for n, axis in zip(lengths, axes, strict=True)]
        steps[-1] = (lengths[-1], axes[-1], kind)
        for n, axis, each in reversed(steps) if kind == "r2c" else steps:
            atom = transformed(atom, n, axis, each, forward, norm)
        return wrap(atom)

    return transform


# ---- cosine and sine transforms ------------------------------------------------------------------------------------


def _turned(x: Any, angles: Any) -> Any:
    """*x* times exp(i *angles*), in its precision."""
    return x * np.exp(1j * angles).astype(np.result_type(x.dtype, np.complex64))


def _cosine(x: Any, kind: int) -> Any:
    """The cosine transforms of the types 1 to 4 along the last axis, without a norm."""
    n = x.shape[-1]
    k = np.arange(n)
    if kind == 1:
        return np.fft.rfft(np.concatenate([x, x[..., -2:0:-1]], axis=-1)).real
    if kind == 2:
        half = np.fft.rfft(np.concatenate([x, x[..., ::-1]], axis=-1))[..., :n]
        return _turned(half, -np.pi * k / (2 * n)).real
    if kind == 3:
        return np.fft.irfft(_turned(x, np.pi * k / (2 * n)), 2 * n, norm="forward")[..., :n]
    inner = np.fft.fft(_turned(x, -np.pi * (2 * k + 1) / (4 * n)), 2 * n)[..., :n]
    return 2 * _turned(inner, -np.pi * k / (2 * n)).real


def _sine(x: Any, kind: int) -> Any:
    n = x.shape[-1]
    signs = (1 - 2 * (np.arange(n) % 2)).astype(x.dtype)
    if kind == 1:
        zero = np.zeros((*x.shape[:-1], 1), x.dtype)
        return -np.fft.rfft(np.concatenate([zero, x, zero, -x[..., ::-1]], axis=-1)).imag[..., 1:-1]
    if kind == 2:
        return _cosine(signs * x, 2)[..., ::-1]
    return signs * _cosine(x[..., ::-1], kind)


# numbers in and out that an orthogonal transform has with another factor than the rest
_IN = {("dct", 1): (0, -1), ("dct", 3): (0,), ("dst", 3): (-1,)}
_OUT = {("dct", 1): (0, -1), ("dct", 2): (0,), ("dst", 2): (-1,)}


def _times(factor: float, x: Any, places: tuple[int, ...]) -> Any:
    """*x* with the numbers at *places* *factor* times as large."""
    if not places:
        return x
    weights = np.ones(x.shape[-1], x.dtype)
    weights[list(places)] = factor
    return x * weights


def _real_transform(atom: Atom, name: str, kind: int, forward: bool, norm: Any, orthogonal: bool) -> Atom:
    """The cosine (``dct``) or sine transform of the type *kind* along the last axis; *orthogonal*: as a matrix, but for
    a factor."""
    x: Any = wrap(atom)
    n = x.shape[-1]
    if kind == 1 and name == "dct" and n < 2:
        raise RuntimeError(at_site("zero-length FFT requested"))
    count = 2 * (n + {"dct": -1, "dst": 1}[name] * (kind == 1))
    if orthogonal:
        x = _times(math.sqrt(2), x, _IN.get((name, kind), ()))
    found = (_cosine if name == "dct" else _sine)(x, kind)
    if orthogonal:
        found = _times(math.sqrt(0.5), found, _OUT.get((name, kind), ()))
    return scaled(to_atom(found), norm_factor(norm, count, forward))


def _applied(
    x: Atom, transform: Any, kind: Any, forward: bool, lengths: list[int], axes: list[int], norm: Any, orthogonal: Any
) -> Any:
    """The cosine or sine transform over *axes*, of both parts of complex numbers."""
    if kind not in (1, 2, 3, 4):
        raise ValueError(at_site("invalid type; must be 1, 2, 3, or 4"))
    if x.aval.is_complex or orthogonal is None:
        orthogonal = norm == "ortho"
    kind = kind if forward else {2: 3, 3: 2}.get(kind, kind)
    each = functools.partial(
        _real_transform, name=transform.__name__, kind=kind, forward=forward, norm=norm, orthogonal=orthogonal
    )
    last = x.aval.ndim - 1
    for n, axis in zip(lengths, axes, strict=True):
        moved = move_axis(of_length(x, axis, n), axis, last)
        x = move_axis(by_lane(each, moved), last, axis)
    return wrap(x)


def _r2r(
    forward: bool, transform: Any, x: Any, type: Any = 2, n: Any = None, axis: Any = -1, norm: Any = None,
    overwrite_x: bool = False, workers: Any = None, orthogonalize: Any = None,
) -> Any:  # fmt: skip
    atom = _numbers(x)
    length, axis = _one(atom, n, axis)
    length = atom.aval.shape[axis] if length is None else length
    return _applied(atom, transform, type, forward, [length], [axis], norm, orthogonalize)


def _r2rn(
    forward: bool, transform: Any, x: Any, type: Any = 2, s: Any = None, axes: Any = None, norm: Any = None,
    overwrite_x: bool = False, workers: Any = None, orthogonalize: Any = None,
) -> Any:  # fmt: skip
    atom = _numbers(x)
    lengths, axes = _several(atom, s, axes)
    return _applied(atom, transform, type, forward, lengths, axes, norm, orthogonalize)


# ---- hooks ---------------------------------------------------------------------------------------------------------


@when_loaded("scipy.fft", "fht")
def _install(fft: Any) -> None:
    basic, real = _engine(fft).basic, _engine(fft).realtransforms
    for kind in ("c2c", "r2c", "c2r"):
        hook(getattr(basic, kind), _along_one(kind))
        hook(getattr(basic, f"{kind}n"), _along_several(kind))
    hook(real._r2r, _r2r)
    hook(real._r2rn, _r2rn)
    # SciPy's choice between its own functions and those of other array libraries
    for choose in (fft._basic_backend._execute_1D, fft._basic_backend._execute_nD):
        hook(choose, lambda name, function, x, **given: function(x, **given))
    hook(fft._realtransforms_backend._execute, lambda function, x, *args, **given: function(x, *args, **given))
    for name in ("hfftn", "ihfftn"):
        hook(getattr(fft._basic_backend, name), getattr(basic, name))
    for name in ("fht", "ifht"):
        hook_to_source(getattr(fft._fftlog_backend, name))
