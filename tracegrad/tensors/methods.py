"""The tables put together: importing this module gives ``Tensor`` its methods; ``PUBLIC`` holds the functions of the
public face, which are names of this module, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import (  # noqa: F401  (each fills the tables)
    ops_basic,
    ops_choose,
    ops_complex,
    ops_facts,
    ops_index,
    ops_join,
    ops_linear,
    ops_math,
    ops_norm,
    ops_numeric,
    ops_parts,
    ops_random,
    ops_reduce,
    ops_scatter,
    ops_shape,
    ops_sort,
    ops_standard,
    protocol,
)
from .arguments import FUNCTIONS
from .tensor import METHODS, Tensor

_NO_FUNCTIONS = frozenset(
    """size dim stride element_size data_ptr tolist to half type type_as cpu cuda view view_as reshape_as expand
    expand_as float double int long short bool numpy new_zeros new_ones new_full new_empty new_tensor nelement
    bfloat16 cfloat cdouble ndimension contiguous is_contiguous repeat unfold detach_ copy_ fill_ zero_ _like""".split()
)  # only methods in PyTorch; some names are dtypes there

PUBLIC: dict[str, Callable[..., Any]] = {}


for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
    if _name not in _NO_FUNCTIONS and not _name.endswith("_"):
        PUBLIC[_name] = _method
PUBLIC.update(FUNCTIONS)
globals().update(PUBLIC)

__all__ = [*PUBLIC]
