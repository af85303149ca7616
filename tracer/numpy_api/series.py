"""Columns of pandas with traced values: what an operation of a ``Series`` and a traced value gives.

A ``TracedSeries`` is a traced array with the index of the Series.  Operations are elementwise between equal indexes;
where pandas would align others, or for what it does beyond that, an error says to take ``.to_numpy()``.  Its reductions
are those of pandas: they leave NaN out, and ``std`` and ``var`` divide by n - 1.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..ir.errors import UnsupportedError
from ..record.array import TracedArray, to_atom, wrap_array

REDUCTIONS = {
    "sum": np.nansum, "mean": np.nanmean, "prod": np.nanprod, "product": np.nanprod, "min": np.nanmin, "max": np.nanmax,
}  # fmt: skip
_SPREADS = ("var", "std")
OPERATORS = "add sub mul truediv floordiv mod pow and or xor".split()
COMPARISONS = "eq ne lt le gt ge".split()
_FLEXIBLE = {"div": "truediv", "divide": "truediv", "multiply": "mul", "subtract": "sub"}


def refuse(what: str) -> NoReturn:
    raise UnsupportedError.here(f"{what} is not supported: take .to_numpy() of the columns, and use NumPy on these")


def is_pandas(value: Any, kind: str) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, getattr(pandas, kind))


def _values(series: Any) -> np.ndarray:
    """The numbers of a plain Series."""
    found = series.to_numpy()
    if found.dtype != object:
        return found
    try:
        return series.to_numpy(dtype=float)
    except (TypeError, ValueError):
        refuse(f"the column {series.name!r} of {series.dtype}, which holds no numbers, with traced values")


class Elementwise:
    """An object of pandas with traced values; its operators go by ``apply``, elementwise."""

    __slots__ = ()
    __array_priority__ = 3000.0
    kind: str
    array: TracedArray
    __hash__ = None  # type: ignore[assignment]

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """*function* of *operands*, of which this is one, elementwise."""
        raise NotImplementedError

    def settled(self, plain: Callable[[Any], Any]) -> Any:
        """The object of pandas over the values that *plain* gives."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        refuse(f"np.asarray by code of a library, of a {self.kind} with traced values")

    @property
    def values(self) -> TracedArray:
        return self.array

    def to_numpy(self, dtype: Any = None, copy: bool = False, **kwargs: Any) -> TracedArray:
        return self.array if dtype is None else self.array.astype(dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    def __len__(self) -> int:
        return len(self.array)

    def __neg__(self) -> Any:
        return self.apply(np.negative, self)

    def __abs__(self) -> Any:
        return self.apply(np.absolute, self)

    abs = __abs__


class TracedSeries(Elementwise):
    """*array*, of one axis, with an *index* and a *name* as a Series has them."""

    __slots__ = ("array", "index", "name")
    kind = "Series"

    def __init__(self, array: TracedArray, index: Any, name: Any = None) -> None:
        self.array, self.index, self.name = array, index, name

    # ---- operations

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """*function* of *operands*, of which this is one, elementwise."""
        names = {self.name}
        given = []
        for x in operands:
            if getattr(x, "ndim", 1) == 2 and hasattr(x, "columns"):
                refuse("an operation of a Series and a DataFrame, with traced values,")
            if isinstance(x, TracedSeries) or is_pandas(x, "Series"):
                names.add(x.name)
                if not self.index.equals(x.index):
                    refuse("an operation of Series with other indexes, which pandas would align,")
            given.append(x.array if isinstance(x, TracedSeries) else _values(x) if is_pandas(x, "Series") else x)
        found = function(*given)
        name = self.name if len(names) == 1 else None
        parts = found if isinstance(found, tuple) else (found,)
        results = [TracedSeries(part, self.index, name) if np.shape(part) == self.shape else part for part in parts]
        return tuple(results) if isinstance(found, tuple) else results[0]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") is not None:
            refuse(f"np.{ufunc.__name__} with out= of a Series with traced values")
        if method != "__call__":
            return getattr(ufunc, method)(*[array_of(x) for x in inputs], **kwargs)
        return self.apply(lambda *given: ufunc(*given, **kwargs), *inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = func.__name__.removeprefix("a") if func.__name__ in ("amin", "amax") else func.__name__
        if args and args[0] is self and (name in REDUCTIONS or name in _SPREADS):
            given = {"ddof": 0, **kwargs} if name in _SPREADS else kwargs
            return getattr(self, name)(*args[1:], **given)
        return func(*[array_of(x) for x in args], **{key: array_of(x) for key, x in kwargs.items()})

    def dot(self, other: Any) -> Any:
        return self.apply(lambda *given: np.dot(given[0], array_of(given[1])), self, other)

    def __matmul__(self, other: Any) -> Any:
        return self.dot(other)

    def __rmatmul__(self, other: Any) -> Any:
        return self.apply(lambda *given: np.matmul(array_of(given[0]), given[1]), other, self)

    # ---- reductions

    def _spread(self, ddof: int) -> Any:
        away = self.array - np.nanmean(self.array)
        counted = np.sum(~np.isnan(self.array))
        return np.nansum(away * away) / (counted - ddof)

    def var(self, axis: Any = None, skipna: bool = True, ddof: int = 1, **kwargs: Any) -> Any:
        return self._spread(ddof) if skipna else np.var(self.array, ddof=ddof)

    def std(self, axis: Any = None, skipna: bool = True, ddof: int = 1, **kwargs: Any) -> Any:
        return np.sqrt(self.var(skipna=skipna, ddof=ddof))

    # ---- what a Series is

    @property
    def T(self) -> TracedSeries:  # noqa: N802
        return self

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    def __iter__(self) -> Any:
        return iter(self.array)

    def __getitem__(self, key: Any) -> Any:
        return self._picked(lambda places: places[key])

    @property
    def iloc(self) -> _Indexer:
        return _Indexer(self, "iloc")

    @property
    def loc(self) -> _Indexer:
        return _Indexer(self, "loc")

    def head(self, n: int = 5) -> Any:
        return self._picked(lambda places: places.head(n))

    def tail(self, n: int = 5) -> Any:
        return self._picked(lambda places: places.tail(n))

    def _picked(self, pick: Callable[[Any], Any]) -> Any:
        """The part that *pick* takes of a Series, which is given one of positions."""
        places = sys.modules["pandas"].Series(np.arange(len(self)), index=self.index, name=self.name)
        found = pick(places)
        if is_pandas(found, "Series"):
            return TracedSeries(self.array[found.to_numpy()], found.index, found.name)
        return self.array[int(found)]

    def settled(self, plain: Callable[[Any], Any]) -> Any:
        """The Series over the values that *plain* gives."""
        return sys.modules["pandas"].Series(plain(self.array), index=self.index, name=self.name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        refuse(f"`.{name}` of a Series with traced values")

    def __repr__(self) -> str:
        return f"TracedSeries({self.array!r})"


class _Indexer:
    """``series.loc`` and ``series.iloc``."""

    def __init__(self, series: TracedSeries, name: str) -> None:
        self._series, self._name = series, name

    def __getitem__(self, key: Any) -> Any:
        return self._series._picked(lambda places: getattr(places, self._name)[key])


def array_of(value: Any) -> Any:
    """*value* without its index, in lists and tuples, too."""
    if isinstance(value, (list, tuple)):
        return type(value)([array_of(x) for x in value])
    return value.array if isinstance(value, Elementwise) else _values(value) if is_pandas(value, "Series") else value


def _reduction(function: Any) -> Callable[..., Any]:
    def reduce(self: TracedSeries, axis: Any = None, skipna: bool = True, **kwargs: Any) -> Any:
        array = self.array
        if not skipna:
            return getattr(np, function.__name__.removeprefix("nan"))(array)
        return function(array) if array.aval.is_float else getattr(np, function.__name__.removeprefix("nan"))(array)

    return reduce


def _operation(name: str, reflected: bool) -> Callable[..., Any]:
    function = getattr(operator, name + "_" if name in ("and", "or") else name)

    def apply(self: Elementwise, other: Any, *args: Any, **kwargs: Any) -> Any:
        if any(value is not None for value in (*args, *[v for k, v in kwargs.items() if k != "axis"])):
            refuse(f"{name} of a Series with traced values with more arguments")
        return self.apply(function, *((other, self) if reflected else (self, other)))

    return apply


for _name in OPERATORS + COMPARISONS:
    setattr(Elementwise, f"__{_name}__", _operation(_name, False))
    setattr(TracedSeries, _name, _operation(_name, False))
    if _name in OPERATORS:
        setattr(Elementwise, f"__r{_name}__", _operation(_name, True))
        setattr(TracedSeries, f"r{_name}", _operation(_name, True))
for _name, _same in _FLEXIBLE.items():
    setattr(TracedSeries, _name, _operation(_same, False))
for _name, _function in REDUCTIONS.items():
    setattr(TracedSeries, _name, _reduction(_function))


# ---- pandas' own methods, with a traced operand ----------------------------------------------------------------------


def _of_plain(series: Any) -> TracedSeries:
    return TracedSeries(wrap_array(to_atom(_values(series))), series.index, series.name)


def arithmetic(self: Any, other: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    if any(value is not None for value in (*args, *[v for k, v in kwargs.items() if k != "axis"])):
        refuse(f"{op.__name__} of a Series with traced values with more arguments")
    return operated(_of_plain(self), other, op)


def operated(mine: Elementwise, other: Any, op: Any) -> Any:
    """``mine <op> other``, by an operator of pandas."""
    name = op.__name__
    reflected = name.startswith("r") and hasattr(operator, name[1:])  # pandas' `radd` calls the other way round
    return mine.apply(
        getattr(operator, name[1:]) if reflected else op, *((other, mine) if reflected else (mine, other))
    )


def product(self: Any, other: Any) -> Any:
    return _of_plain(self).dot(other)


def product_from_left(self: Any, other: Any) -> Any:
    return other @ _of_plain(self)
