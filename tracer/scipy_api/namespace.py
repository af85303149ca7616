"""The namespace of array functions by which SciPy's own Python calls NumPy (``xp.asarray``): it is NumPy's; and its
additions to that, ``apply_where`` and ``at``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..numpy_api.from_source import is_numpy
from ..numpy_api.hooks import hook, when_loaded
from ..numpy_api.shape import as_traced
from ..record.array import is_traced


def _asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None, **kwargs: Any) -> Any:
    found = as_traced(obj)
    return found.astype(found.dtype if dtype is None else dtype, copy=bool(copy and copy is not np._CopyMode.IF_NEEDED))


@when_loaded("scipy._lib._array_api", "np_compat")
def _install(array_api: Any) -> None:
    is_numpy(array_api.np_compat)
    hook(array_api.np_compat.asarray, _asarray)


def _apply_where(
    cond: Any, args: Any, f1: Callable[..., Any], f2: Any = None, /, *, fill_value: Any = None, xp: Any = None,
    kwargs: Any = None,
) -> Any:  # fmt: skip
    values = args if isinstance(args, tuple) else (args,)
    return np.where(cond, f1(*values), f2(*values) if f2 is not None else fill_value)


def _at_set(self: Any, y: Any, /, copy: Any = None, xp: Any = None) -> Any:
    """``xpx.at(x, index).set(y)``"""
    mask = None if isinstance(self._idx, tuple) else self._idx
    if mask is not None and np.ndim(y) == 0 and mask.dtype == bool and mask.shape == self._x.shape:
        return np.where(mask, y, self._x)
    found = as_traced(self._x).copy()
    found[self._idx] = y
    return found


@when_loaded("scipy._external.array_api_extra", "apply_where", "at")  # from SciPy 1.18 on
@when_loaded("scipy._lib.array_api_extra", "apply_where", "at")
def _install_extra(extra: Any) -> None:
    hook(extra.apply_where, _apply_where)
    hook(vars(extra.at)["set"], _at_set, lambda args, kwargs: is_traced([args[0]._x, args[0]._idx, *args[1:]]))
