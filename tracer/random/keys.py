"""Keys of ``tracegrad.random``: splitting, and random bits as functions of a key.

A key is a uint32 array of shape (2,); ``blocks`` gives the 64 random bits at each position of a shape: Threefry-2x32
(``ops/threefry.py``) of the key and the position's number in C order.  Keys and bits are those of JAX
(``jax.random``, with ``jax_threefry_partitionable``, its default since 0.5): the two can be compared bit for bit.

Each function is written once, for NumPy arrays and for traced ones.  On traced keys, and wherever a function is being
recorded, the numbers become nodes of the program: they are made in the loops that read them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import Ints
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom, literal, structural
from ..ir.site import at_site
from ..numpy_api.registry import shape_of
from ..ops.elementwise import F, broadcast_to, cast
from ..ops.shape import concat, full, iota, reshape, slice_axis
from ..ops.threefry import UINT32, UINT64, threefry, threefry2x32
from ..record.array import TracedArray, to_atom, wrap, wrap_array
from ..record.recorder import current_recorder

MOST = 2**32  # numbers of one call: a position has to fit into the counter's lower word
SHORT = 16  # a row of this many elements fills vectors by itself
_LOWER_HALF = 0xFFFFFFFF


# ---- keys ----------------------------------------------------------------------------------------------------------


def key(seed: Any) -> Any:
    """The key of an integer: uint32 (2,), the upper and the lower half of its 64 bits."""
    return _halves(_integer(seed, "a seed"))


def split(key: Any, num: Any = 2) -> Any:
    """*num* new keys, uint32 (num, 2) (or (*num, 2)): independent of each other, and of the bits of *key* itself."""
    return _halves(blocks(key, as_shape(num)))


def fold_in(key: Any, data: Any) -> Any:
    """A new key from *key* and an integer, as from ``split``: one for each step, layer, worker.  uint32 (2,)."""
    upper, lower = _words(key)
    number = _integer(data, "data")
    if current_recorder() is None:
        return _halves(threefry2x32(upper, lower, UINT32.type(number >> np.uint64(32)), number.astype(UINT32)))
    whole = to_atom(number)
    counter = cast(F.right_shift(whole, structural(32, UINT64)), UINT32), cast(whole, UINT32)
    return _halves(wrap(threefry(upper, lower, *counter)))


def keys_of(upper: Any, lower: Any, number: Any) -> np.ndarray:
    """``fold_in`` of a key's halves (uint32) and a uint64 number by NumPy, whatever is being recorded: uint32 (2,)."""
    block = threefry2x32(upper, lower, UINT32.type(number >> np.uint64(32)), number.astype(UINT32))
    return np.array([block >> np.uint64(32), block & np.uint64(_LOWER_HALF)]).astype(UINT32)


def check_key(key: Any) -> Any:
    """*key*, where it is one; an error that names the user's line otherwise."""
    found = f"a {type(key).__name__}"
    if type(key) is TracedArray or isinstance(key, np.ndarray):
        if key.dtype == UINT32 and key.shape == (2,):
            return key
        found = f"an array of {key.dtype} of shape {key.shape}"
        if key.dtype == UINT32:
            hint = "; take one of them: keys[0]" if key.shape[-1:] == (2,) else ""
            raise ShapeError.here(f"a key is a uint32 array of shape (2,), not {found}{hint}")
    raise UnsupportedError.here(
        f"a key is a uint32 array of shape (2,), not {found}; make one with tracegrad.random.key(seed), or "
        "write None for the default stream"
    )


def _integer(value: Any, what: str) -> Any:
    """*value* modulo 2**64, as a uint64 scalar or 0-d traced array."""
    if type(value) is TracedArray:
        if value.dtype.kind not in "iu" or value.shape:
            raise UnsupportedError.here(f"{what} must be one integer, not {value.dtype} of shape {value.shape}")
        return value.astype(UINT64)
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise UnsupportedError.here(f"{what} must be an integer, not {value!r}") from None
    if not -(2**63) <= number < 2**64:
        raise OverflowError(at_site(f"{what} must fit into 64 bits, which {number} does not"))
    return np.uint64(number % 2**64)


def _halves(blocks: Any) -> Any:
    """uint64 (...) -> uint32 (..., 2): the upper and the lower halves; traced while a function is recorded."""
    if current_recorder() is not None:
        whole = to_atom(blocks)
        parts = [cast(F.right_shift(whole, structural(32, UINT64)), UINT32), cast(whole, UINT32)]
        shape = whole.aval.shape
        return wrap_array(concat([reshape(broadcast_to(p, shape), (*shape, 1)) for p in parts], len(shape)))
    return np.stack([blocks >> np.uint64(32), blocks & np.uint64(_LOWER_HALF)], axis=-1).astype(UINT32)


def _words(key: Any) -> tuple[Any, Any]:
    """The two halves of a key: uint32 scalars, or atoms while a function is recorded."""
    key = check_key(key)
    if isinstance(key, np.ndarray) and current_recorder() is None:
        return key[0], key[1]
    atom = to_atom(key)
    return reshape(slice_axis(atom, 0, 0, 1), ()), reshape(slice_axis(atom, 0, 1, 1), ())


# ---- bits ----------------------------------------------------------------------------------------------------------


def bits(key: Any, shape: Any = (), dtype: Any = np.uint32) -> Any:
    """Uniform random bits of *shape* as uint8, uint16, uint32 or uint64."""
    kind = np.dtype(dtype)
    if kind.kind != "u":
        raise UnsupportedError.here(f"random bits are uint8, uint16, uint32 or uint64, not {kind}")
    found = in_long_rows(as_shape(shape), lambda sizes: blocks(key, sizes))
    return found if kind == UINT64 else words(found).astype(kind)


def words(blocks: Any) -> Any:
    """The 32 random bits of 64: the halves' exclusive or, as JAX has it.  uint64 -> uint32."""
    return ((blocks >> 32) ^ blocks).astype(UINT32)


def blocks(key: Any, shape: Ints) -> Any:
    """64 random bits at each position of *shape*: uint64."""
    upper, lower = _words(key)
    if math.prod(shape) > MOST:
        raise ShapeError.here(f"{shape} are more than 2**32 random numbers: split the key, and draw them in parts")
    if isinstance(upper, np.generic):
        positions = np.arange(math.prod(shape), dtype=np.uint64).astype(UINT32).reshape(shape)
        found = threefry2x32(upper, lower, UINT32.type(0), positions)
        return found if shape else found[()]
    made = broadcast_to(threefry(upper, lower, structural(0, UINT32), _positions(shape)), shape)
    return wrap_array(made) if shape else wrap(made)


def in_long_rows(shape: Ints, draw: Callable[[Ints], Any]) -> Any:
    """``draw(shape)``; in a recording short rows are drawn as one long one and reshaped.

    A kernel unrolls loops over a few elements, and could not vectorise the work on each.
    """
    if current_recorder() is None or len(shape) < 2 or not 1 < shape[-1] < SHORT:
        return draw(shape)
    return draw((math.prod(shape),)).reshape(shape)


def _positions(shape: Ints) -> Atom:
    """The number of each position in C order: uint32, without a buffer of its own."""
    total: Atom | None = None
    stride = 1
    for axis in reversed(range(len(shape))):
        if shape[axis] != 1:
            along = reshape(iota(shape[axis], UINT32), (shape[axis], *[1] * (len(shape) - axis - 1)))
            if stride != 1:
                along = F.mul(along, literal(stride % 2**32, UINT32))
            along = broadcast_to(along, shape)
            total = along if total is None else F.add(total, along)
        stride *= shape[axis]
    return full(structural(0, UINT32), shape) if total is None else total


def as_shape(shape: Any) -> Ints:
    """A shape argument as a tuple of sizes."""
    try:
        sizes = shape_of(shape)
    except (TypeError, ValueError):
        sizes = (-1,)
    floats = [n for n in (shape if isinstance(shape, (list, tuple)) else [shape]) if isinstance(n, float)]
    if floats or any(n < 0 for n in sizes):
        raise ShapeError.here(f"a shape is an integer of at least 0, or a tuple of them, not {shape!r}")
    return sizes
