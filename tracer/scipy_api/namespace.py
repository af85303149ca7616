"""The namespace of array functions by which SciPy's own Python calls NumPy (``xp.asarray``): it is NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numpy_api.from_source import is_numpy
from ..numpy_api.hooks import hook, when_loaded
from ..numpy_api.shape import as_traced


def _asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None, **kwargs: Any) -> Any:
    found = as_traced(obj)
    return found.astype(found.dtype if dtype is None else dtype, copy=bool(copy and copy is not np._CopyMode.IF_NEEDED))


@when_loaded("scipy._lib._array_api", "np_compat")
def _install(array_api: Any) -> None:
    is_numpy(array_api.np_compat)
    hook(array_api.np_compat.asarray, _asarray)
