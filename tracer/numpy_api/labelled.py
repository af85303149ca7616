"""Libraries of labelled arrays, pandas and xarray: their operators with traced operands.

Those of pandas are sent to ``series.py`` and ``frame.py`` once it is loaded; nothing is imported here.  xarray
holds any array that knows NumPy's protocols, and so traced ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..record.array import TracedArray, wrap_array
from . import frame, series
from .hooks import hook, when_loaded
from .series import Elementwise


def _applies(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(isinstance(x, (TracedArray, Elementwise)) for x in args)


_HOOKS: dict[str, dict[str, Callable[..., Any]]] = {
    "Series": {
        "_arith_method": series.arithmetic, "_cmp_method": series.arithmetic, "_logical_method": series.arithmetic,
        "_flex_method": series.arithmetic, "dot": series.product, "__matmul__": series.product,
        "__rmatmul__": series.product_from_left,
    },
    "DataFrame": {
        "_arith_method": frame.arithmetic, "_cmp_method": frame.arithmetic, "_logical_method": frame.arithmetic,
        "_flex_arith_method": frame.flexible, "dot": frame.product, "__matmul__": frame.product,
        "__rmatmul__": frame.product_from_left,
    },
}  # fmt: skip


def _held(data: Any, *args: Any, **kwargs: Any) -> Any:
    """*data* as xarray can hold it: what has no axes is an array, too, and no number."""
    found = wrap_array(data.atom)
    found._storage.array0d = True
    return found


def _named_array(dims: Any, data: Any, attrs: Any = None) -> Any:
    return sys.modules["xarray.namedarray.core"].NamedArray(dims, _held(data), attrs)


@when_loaded("xarray.namedarray.core", "from_array")
def _install_named(core: Any) -> None:
    hook(core.from_array, _named_array)


@when_loaded("xarray.core.variable", "as_compatible_data")
def _install_variables(variable: Any) -> None:
    hook(variable.as_compatible_data, _held)


@when_loaded("pandas", "Series", "DataFrame")
def _install(pandas: Any) -> None:
    for kind, methods in _HOOKS.items():
        for name, implementation in methods.items():
            found = [vars(c)[name] for c in getattr(pandas, kind).__mro__ if name in vars(c)]
            if found:
                hook(found[0], implementation, _applies)
