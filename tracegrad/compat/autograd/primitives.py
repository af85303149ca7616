"""Functions with derivatives of the user's: ``@primitive`` and ``defvjp`` (``tracer/rules/primitives.py``), with the
methods that primitives had once.

A rule may be given to a function that is no primitive.  It is kept in a table and never asked, as in HIPS autograd,
since such a function is differentiated through.  Functions of NumPy and SciPy, which are that library's primitives and
have derivatives of their own here, take no other: that would go unnoticed.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ...tracer.rules import primitives
from .vspace import vspace

__all__ = [
    "def_linear", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum", "defvjp_argnums", "primitive",
    "primitive_jvps", "primitive_vjps",
]  # fmt: skip

Function = Callable[..., Any]
primitive_vjps: dict[Any, Any] = {}
primitive_jvps: dict[Any, Any] = {}


def _of_library(fun: Any) -> bool:
    """Whether *fun* belongs to a library whose functions have derivatives here."""
    module = getattr(fun, "__module__", None) or type(fun).__module__
    return str(module).partition(".")[0] in ("numpy", "scipy", "math", "builtins", "tracegrad")


def _for_any(define: Function, table: dict[Any, Any]) -> Any:
    """*define*, which gives rules to primitives; those of a function that is none go into the *table*."""

    @functools.wraps(define)
    def defined(fun: Any, *rules: Any, **kwargs: Any) -> None:
        plain = callable(fun) and isinstance(fun, Hashable) and not hasattr(fun, "_rules")
        if plain and not _of_library(fun):
            table[fun] = rules
        else:
            define(fun, *rules, **kwargs)

    return defined


defvjp = _for_any(primitives.defvjp, primitive_vjps)
defvjp_argnum = _for_any(primitives.defvjp_argnum, primitive_vjps)
defvjp_argnums = _for_any(primitives.defvjp_argnums, primitive_vjps)
defjvp = _for_any(primitives.defjvp, primitive_jvps)
defjvp_argnum = _for_any(primitives.defjvp_argnum, primitive_jvps)
defjvp_argnums = _for_any(primitives.defjvp_argnums, primitive_jvps)
def_linear = _for_any(primitives.def_linear, primitive_jvps)


def primitive(f_raw: Function) -> Any:
    """
    Wraps a function so that its gradient can be specified and its invocation
    can be recorded. It runs on plain arrays; what it returns is an array, a
    number or a tree of them."""
    f_wrapped: Any = primitives.primitive(f_raw)
    f_wrapped.defvjp = _deprecated_defvjp(f_wrapped)
    f_wrapped.defvjp_is_zero = _deprecated_defvjp_is_zero(f_wrapped)
    f_wrapped.defgrad = _deprecated_defgrad(f_wrapped)
    return f_wrapped


def _deprecated_defvjp(fun: Any) -> Function:
    makers: dict[int, Function] = {}

    def defvjp_unstaged(vjpmaker: Function, argnum: int = 0) -> None:
        warnings.warn("fun.defvjp(...) is old: write defvjp(fun, ...)", stacklevel=2)

        def staged(ans: Any, *args: Any, **kwargs: Any) -> Function:
            return lambda g: vjpmaker(g, ans, vspace(args[argnum]), vspace(g), *args, **kwargs)

        makers[argnum] = staged
        defvjp(fun, *makers.values(), argnums=tuple(makers))

    return defvjp_unstaged


def _deprecated_defvjp_is_zero(fun: Any) -> Function:
    def defvjp_is_zero(argnums: Sequence[int] = (0,)) -> None:
        warnings.warn("fun.defvjp_is_zero(...) is old: write defvjp(fun, None)", stacklevel=2)
        defvjp(fun, *[None] * len(argnums), argnums=argnums)

    return defvjp_is_zero


def _deprecated_defgrad(fun: Any) -> Function:
    makers: dict[int, Function] = {}

    def defgrad(gradfun: Function, argnum: int = 0) -> None:
        warnings.warn("fun.defgrad(...) is old: write defvjp(fun, ...)", stacklevel=2)
        makers[argnum] = gradfun
        defvjp(fun, *makers.values(), argnums=tuple(makers))

    return defgrad
