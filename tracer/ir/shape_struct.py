"""``ShapeDtypeStruct``: shape and dtype of an array as a value of the user's, where an array itself would be too much.

The result of ``eval_shape``, an argument of it and of ``make_graph``, and the declaration of what host code returns
(``pure_callback``).  Where ``Aval`` is of the compiler's inside, this is the face that users see; it is a leaf of
trees.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .aval import Aval, Ints, check_dtype
from .errors import ShapeError, UnsupportedError


class ShapeDtypeStruct:
    """Shape and dtype of an array, without contents; called as JAX's is: ``ShapeDtypeStruct((2, 3), np.float64)``.

    :param shape: a sequence of sizes, or one size.  A name in the place of a size stands for several, where these are
        given (``sizes`` of ``f.as_numba``).
    :param dtype: anything that ``np.dtype`` takes, of those that tracegrad computes with.
    :raises ShapeError: where a size is negative or no integer.
    :raises UnsupportedError: for dtypes of strings, objects and the like.
    """

    __slots__ = ("dtype", "shape")

    shape: Ints
    dtype: np.dtype

    def __init__(self, shape: int | str | Sequence[int | str], dtype: Any) -> None:
        sizes: Any = (shape,) if isinstance(shape, str) or not isinstance(shape, Sequence) else shape
        try:
            found = tuple([x if isinstance(x, str) and x.isidentifier() else operator.index(x) for x in sizes])
        except TypeError:
            raise ShapeError.here(f"a shape is a tuple of integers, or names of them, not {shape!r}") from None
        if any(not isinstance(size, str) and size < 0 for size in found):
            raise ShapeError.here(f"a shape has no negative sizes: {shape!r}")
        object.__setattr__(self, "shape", found)
        object.__setattr__(self, "dtype", check_dtype(np.dtype(dtype), "a ShapeDtypeStruct"))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a ShapeDtypeStruct does not change; make another one for another {name}")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.aval.nbytes

    @property
    def aval(self) -> Aval:
        """The same in the program."""
        if self.names:
            raise UnsupportedError.here(
                f"`{self.names[0]}` is the name of a size; f.as_numba, f.as_native and f.export_c take it, with "
                f'sizes={{"{self.names[0]}": (10, 20)}}'
            )
        return Aval(self.dtype, self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        """The names among the sizes."""
        shape: Any = self.shape
        return tuple([x for x in shape if isinstance(x, str)])

    def at(self, sizes: Mapping[str, int]) -> ShapeDtypeStruct:
        """The same with *sizes* in place of their names."""
        known: Any = sizes
        shape: Any = [known.get(x, x) for x in self.shape]
        return ShapeDtypeStruct(shape, self.dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype})"

    def __reduce__(self) -> Any:
        return (ShapeDtypeStruct, (self.shape, self.dtype))


def shape_struct(value: Any) -> ShapeDtypeStruct:
    """Shape and dtype of *value*: a struct, anything that has both (arrays, traced ones, avals), or a number."""
    if isinstance(value, ShapeDtypeStruct):
        return value
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        array = np.asarray(value)
        shape, dtype = array.shape, array.dtype
    return ShapeDtypeStruct(shape, dtype)
