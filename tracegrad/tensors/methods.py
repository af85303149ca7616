"""The tables put together: importing this module gives ``Tensor`` its methods; ``PUBLIC`` holds the functions of the
public face, which are names of this module, too.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..tracer.ir.tracebacks import shortened
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
from .tensor import METHODS, PROPERTIES, Tensor

if TYPE_CHECKING:
    from .method_types import *  # noqa: F403
    from .method_types import __all__ as __all__

_NO_FUNCTIONS = frozenset(
    """size dim stride element_size data_ptr tolist to half type type_as cpu cuda view view_as reshape_as expand
    expand_as float double int long short bool numpy new_zeros new_ones new_full new_empty new_tensor nelement
    bfloat16 cfloat cdouble ndimension contiguous is_contiguous repeat unfold detach_ copy_ fill_ zero_ _like""".split()
)  # only methods in PyTorch; some names are dtypes there

PUBLIC: dict[str, Callable[..., Any]] = {}


for _name, _method in METHODS.items():
    METHODS[_name] = _method = shortened(_method)
    setattr(Tensor, _name, _method)
    if _name not in _NO_FUNCTIONS and not _name.endswith("_"):
        PUBLIC[_name] = _method
FUNCTIONS.update({name: shortened(function) for name, function in FUNCTIONS.items()})
PUBLIC.update(FUNCTIONS)
for _name, _found in PROPERTIES.items():
    _read, _write = [None if f is None else shortened(f) for f in (_found.fget, _found.fset)]
    setattr(Tensor, _name, property(_read, _write, doc=_found.__doc__))
for _name, _method in [*vars(Tensor).items()]:  # operators, and what the class defines itself
    if isinstance(_method, FunctionType):
        setattr(Tensor, _name, shortened(_method))
globals().update(PUBLIC)

if not TYPE_CHECKING:
    __all__ = [*PUBLIC]
