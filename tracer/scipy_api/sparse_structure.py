"""Sparse matrices with traced entries at known places: making them, conversions, parts, sums, products of two.

What only moves entries is done by SciPy, on a matrix of the same structure whose entries are their numbers, from 1 on.
So are the functions that join matrices; those are recorded.  Where the places are those of a matrix from outside, the
run is made again over their contents.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..ir.errors import UnsupportedError
from ..numpy_api.hooks import hook, hook_class, hook_to_source, when_loaded
from ..numpy_api.shape import as_traced
from ..ops.indexing import gather
from ..record.array import is_traced, to_atom, unsupported, wrap_array
from ..record.recorder import require_recorder
from .sparse import OF_TWO, _applies, _holds_traced, _is_sparse, _over, _sums, _with_data

# ---- structures ------------------------------------------------------------------------------------------------------


def _known(places: Any) -> np.ndarray:
    """Places of entries as plain integers."""
    if not is_traced(places):
        return np.asarray(places)
    recorder, atom = require_recorder("a sparse matrix"), to_atom(as_traced(places))
    origin = recorder.origin([atom])
    if origin is None or origin.sources:
        raise recorder.refused(atom, unsupported("a sparse matrix at places that depend on an argument"))
    return np.asarray(recorder.value(atom))


def _parts(matrix: Any) -> dict[str, Any]:
    """The attributes of *matrix* besides its entries."""
    found = {}
    for name, value in vars(matrix).items():
        if name not in ("_shape", "maxprint", "data"):
            several = type(value) is tuple
            found[name] = tuple(map(_known, value)) if several else _known(value) if is_traced(value) else value
    return found


def _flat(matrix: Any) -> Any:
    return wrap_array(to_atom(matrix.data)).reshape(-1)


def _numbered(matrix: Any) -> Any:
    """A plain matrix whose entries are the numbers of those of *matrix*."""
    shape = np.shape(matrix.data)
    numbers = np.arange(1, int(np.prod(shape)) + 1).reshape(shape)
    return _over(type(matrix), matrix, data=numbers, **_parts(matrix))


def _picked(flat: Any, numbers: Any) -> Any:
    """The entries of these numbers; 0 has none."""
    at = np.asarray(numbers)
    places = np.maximum(at.reshape(-1) - 1, 0).astype(np.int64)
    found = wrap_array(gather(to_atom(flat), to_atom(places))).reshape(at.shape)
    return found if at.size and at.min() > 0 else np.where(at > 0, found, np.zeros((), flat.dtype))


def _filled(found: Any, flat: Any) -> Any:
    if not _is_sparse(found):
        return _picked(flat, found)
    parts = {k: v for k, v in vars(found).items() if k not in ("_shape", "maxprint", "data")}
    return _over(type(found), found, data=_picked(flat, found.data), **parts)


def _coordinates(matrix: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """(rows, columns, values) of the entries."""
    found = _numbered(matrix).tocoo()
    return *[np.asarray(c, np.int64) for c in found.coords], _picked(_flat(matrix), found.data)


def _at_places(like: Any, shape: tuple[int, ...], rows: Any, columns: Any, data: Any, form: str) -> Any:
    """A matrix of that format with these entries; those of one place are added."""
    keys, slots = np.unique(rows * shape[1] + columns, return_inverse=True)
    if len(keys) < len(slots):
        data = _sums((len(keys),), to_atom(slots.astype(np.int64)), wrap_array(to_atom(data)))
        rows, columns = keys // shape[1], keys % shape[1]
    made = like._coo_container((np.ones(len(rows)), (rows, columns)), shape=shape)
    return _with_data(made, data).asformat(form)


def _distinct(matrix: Any) -> Any:
    """*matrix* with one entry at a place."""
    if matrix.format not in ("csr", "csc", "coo"):
        return matrix
    rows, columns, data = _coordinates(matrix)
    if len(np.unique(rows * matrix.shape[1] + columns)) == len(rows):
        return matrix
    return _at_places(matrix, matrix.shape, rows, columns, data, matrix.format)


# ---- methods ---------------------------------------------------------------------------------------------------------


def _moved(name: str) -> Callable[..., Any]:
    """The method of this name, which only moves entries."""

    def method(matrix: Any, *args: Any, **kwargs: Any) -> Any:
        if not _holds_traced(matrix):
            raise unsupported(f"{name} of a sparse matrix with traced arguments")
        own = _distinct(matrix)
        numbered = _numbered(own)
        found = getattr(numbered, name)(*args, **kwargs)
        return own if found is numbered else _filled(found, _flat(own))

    return method


def _in_place(matrix: Any) -> None:
    """``sum_duplicates``, ``sort_indices``."""
    rows, columns, data = _coordinates(matrix)
    vars(matrix).update(vars(_at_places(matrix, matrix.shape, rows, columns, data, matrix.format)))


def _distinct_data(matrix: Any) -> Any:
    vars(matrix).update(vars(_distinct(matrix)))
    return matrix.data


def _sum_of(sign: int) -> Callable[..., Any]:
    def method(matrix: Any, other: Any) -> Any:
        (r, c, x), (s, d, y) = _coordinates(matrix), _coordinates(other)
        data = np.concatenate([x, y if sign > 0 else -y])
        form = "csc" if matrix.format == other.format == "csc" else "csr"
        return _at_places(matrix, matrix.shape, np.append(r, s), np.append(c, d), data, form)

    return method


def _product(a: Any, b: Any) -> Any:
    """The product of two sparse matrices."""
    if a.shape[1] != b.shape[0]:
        raise ValueError("dimension mismatch")
    (r, k, x), (s, c, y) = _coordinates(a), _coordinates(b)
    order = np.argsort(s, kind="stable")
    starts = np.searchsorted(s[order], np.arange(b.shape[0] + 1))
    counts = np.diff(starts)[k]
    left = np.repeat(np.arange(len(k)), counts)
    right = order[np.arange(len(left)) + np.repeat(starts[k] - np.cumsum(counts) + counts, counts)]
    form = "csc" if a.format == "csc" else "csr"
    return _at_places(a, (a.shape[0], b.shape[1]), r[left], c[right], x[left] * y[right], form)


def _elementwise(a: Any, b: Any) -> Any:
    """The elementwise product of two sparse matrices of one shape."""
    if a.shape != b.shape:
        raise ValueError("inconsistent shapes")
    a, b = _distinct(a), _distinct(b)
    (r, c, x), (s, d, y) = _coordinates(a), _coordinates(b)
    width = a.shape[1]
    _, left, right = np.intersect1d(r * width + c, s * width + d, return_indices=True)
    return _at_places(a, a.shape, r[left], c[left], x[left] * y[right], "csr")


OF_TWO.update(product=_product, multiply=_elementwise)


def _with_dense(sign: int, of_matrix: int) -> Callable[..., Any]:
    return lambda matrix, other: of_matrix * matrix.toarray() + sign * as_traced(other)


def _todense(matrix: Any, order: Any = None, out: Any = None) -> Any:
    if isinstance(matrix, sys.modules["scipy.sparse"].spmatrix):
        raise UnsupportedError.here("todense of a sparse matrix with traced entries is a np.matrix: write .toarray()")
    return matrix.toarray(order, out)


# ---- making them -----------------------------------------------------------------------------------------------------


def _init(self: Any, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False, **options: Any) -> None:
    """``__init__`` of a class, given traced entries."""
    if _is_sparse(arg1):
        made = arg1.asformat(self.format)
    elif not isinstance(arg1, tuple):
        error = UnsupportedError.here(
            f"{type(self).__name__} of a dense traced array, whose zeros are data: give (data, (i, j))"
        )
        raise require_recorder("a sparse matrix").refused(to_atom(as_traced(arg1)), error)
    else:
        data = as_traced(arg1[0])
        paired = len(arg1) == 2 and self.format != "dia"
        places: list[Any] = [tuple(map(_known, arg1[1]))] if paired else list(map(_known, arg1[1:]))
        cls = self._coo_container if paired else type(self)
        plain = cls((np.ones(data.shape), *places), shape=shape)
        made = _with_data(plain, data)
        made = made.asformat(self.format) if paired else made
    self.__dict__.update(vars(made if dtype is None else made.astype(dtype)))


def _any_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(map(_within, (*args, *kwargs.values())))


def _within(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_within, value))
    if type(value) is np.ndarray and value.dtype.hasobject:
        return any(map(_within, value.ravel().tolist()))
    return is_traced(value) or _holds_traced(value)


_MOVERS = "tocsr tocsc tocoo tobsr todia __getitem__ diagonal reshape getrow getcol _getrow _getcol".split()
_METHODS: dict[str, Callable[..., Any]] = {
    **{name: _moved(name) for name in _MOVERS},
    "sum_duplicates": _in_place, "sort_indices": _in_place, "_deduped_data": _distinct_data, "todense": _todense,
    "_add_sparse": _sum_of(1), "_sub_sparse": _sum_of(-1), "_add_dense": _with_dense(1, 1),
    "_sub_dense": _with_dense(-1, 1), "_rsub_dense": _with_dense(1, -1), "__init__": _init,
}  # fmt: skip
_JOINERS = """
    diags diags_array spdiags kron kronsum vstack hstack bmat block_array block_diag tril triu
""".split()
_PARTS_OF_JOINERS = "_block", "_compressed", "_stack"


@when_loaded("scipy.sparse", "dia_array")
def _install(sparse: Any) -> None:
    formats = "csr", "csc", "coo", "bsr", "dia"
    classes = [getattr(sparse, f"{name}_{form}") for name in formats for form in ("array", "matrix")]
    for base in dict.fromkeys([base for cls in classes for base in cls.__mro__]):
        for name, implementation in _METHODS.items():
            if type(vars(base).get(name)) is FunctionType:
                if name == "__init__" and base.__name__ in ("_spbase", "_data_matrix", "_minmax_mixin"):
                    continue
                hook(vars(base)[name], implementation, _applies)
    for module in (sparse._construct, sparse._extract):
        for name, function in list(vars(module).items()):
            if type(function) is FunctionType and (name in _JOINERS or name.startswith(_PARTS_OF_JOINERS)):
                hook_to_source(function, _any_traced)


@when_loaded("scipy.sparse.linalg", "use_solver")
def _install_operators(module: Any) -> None:
    for cls in list(vars(module._interface).values()):
        if isinstance(cls, type) and issubclass(cls, module.LinearOperator):
            hook_class(cls)
