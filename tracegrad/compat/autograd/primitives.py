"""Functions with derivatives of the user's: ``@primitive`` and ``defvjp`` (``tracer/rules/primitives.py``), with the
methods that primitives had once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ...tracer.rules import primitives
from ...tracer.rules.primitives import def_linear, defjvp, defjvp_argnum, defjvp_argnums, defvjp, defvjp_argnum
from .vspace import vspace

__all__ = [
    "def_linear", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum", "defvjp_argnums", "primitive",
    "primitive_jvps", "primitive_vjps",
]  # fmt: skip

Function = Callable[..., Any]
primitive_vjps: dict[Any, Function] = {}
primitive_jvps: dict[Any, Function] = {}
defvjp_argnums = primitives.defvjp_argnums


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
