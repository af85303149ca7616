"""``np.ndenumerate`` and ``np.nditer`` over traced arrays, as recorded code finds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..bytecode.shown_names import show_functions
from ..record.array import TracedArray, in_c_order, is_traced, unsupported
from ..record.made_arrays import MadeArray
from .shape import as_traced


class _Iterator:
    """``np.nditer`` over *op*, one array or several that are broadcast: each element is a view, a 0-d array."""

    def __init__(self, op: Any, flags: Any = (), op_flags: Any = None, *args: Any, **kwargs: Any) -> None:
        listed = list(op) if isinstance(op, (list, tuple)) else [op]
        order = kwargs.pop("order", "K")
        if (
            args
            or kwargs
            or None in listed
            or not {"multi_index", "c_index", "refs_ok", "zerosize_ok"}.issuperset(flags)
        ):
            raise unsupported("np.nditer with other arguments than order=, op_flags=, multi_index and c_index")
        if order not in ("C", "K") or not (order == "C" or all(map(in_c_order, listed))):
            raise unsupported("np.nditer over arrays in another order than C")
        self.operands = tuple([x if type(x) in (TracedArray, MadeArray) else np.asarray(x) for x in listed])
        self.shape = np.broadcast_shapes(*[x.shape for x in self.operands])
        self.nop, self.ndim, self.itersize = len(listed), len(self.shape), int(np.prod(self.shape))
        self._all = [x if x.shape == self.shape else np.broadcast_to(x, self.shape) for x in self.operands]
        self.reset()

    def reset(self) -> None:
        self.index, self.finished = 0, self.itersize == 0

    @property
    def multi_index(self) -> tuple[int, ...]:
        return tuple([int(i) for i in np.unravel_index(self.index, self.shape)])

    def __getitem__(self, k: int) -> Any:
        index: Any = (*self.multi_index, ...)
        return self._all[k][index]

    @property
    def value(self) -> Any:
        found = tuple([self[k] for k in range(self.nop)])
        return found[0] if self.nop == 1 else found

    def iternext(self) -> bool:
        self.index += 1
        self.finished = self.index >= self.itersize
        return not self.finished

    def __iter__(self) -> Iterator[Any]:
        while not self.finished:
            yield self.value
            self.iternext()

    def __len__(self) -> int:
        return self.itersize

    def __enter__(self) -> _Iterator:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def _nditer(op: Any, *args: Any, **kwargs: Any) -> Any:
    ours = is_traced(op) or type(op) is MadeArray
    return (_Iterator if ours else np.nditer)(op, *args, **kwargs)


def _ndenumerate(arr: Any) -> Any:
    array = as_traced(arr) if is_traced(arr) else None
    return np.ndenumerate(arr) if array is None else ((index, array[index]) for index in np.ndindex(array.shape))


show_functions(np, {"ndenumerate": _ndenumerate, "nditer": _nditer})
