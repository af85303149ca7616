"""Names of derived functions, and operators on functions of one argument made into such of any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .util import subvals


def get_name(f: Any) -> str:
    return getattr(f, "__name__", "[unknown name]")


def get_doc(f: Any) -> str:
    return getattr(f, "__doc__", None) or ""


def wraps(fun: Any, namestr: str = "{fun}", docstr: str = "{doc}", **kwargs: Any) -> Callable[[Any], Any]:
    """A decorator that names a function after *fun*."""

    def name(f: Any) -> Any:
        f.__name__ = namestr.format(fun=get_name(fun), **kwargs)
        f.__doc__ = docstr.format(fun=get_name(fun), doc=get_doc(fun), **kwargs)
        return f

    return name


def wrap_nary_f(fun: Any, op: Any, argnum: Any) -> Callable[[Any], Any]:
    """``wraps`` for ``op(fun, argnum)``."""
    return wraps(
        fun,
        "{op}_of_{fun}_wrt_argnum_{argnum}",
        "    {op} of function {fun} with respect to argument number {argnum}. Takes the\n"
        "    same arguments as {fun} but returns the {op}.\n    ",
        op=get_name(op),
        argnum=argnum,
    )


def at_argnum(fun: Callable[..., Any], argnum: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """(*fun* as a function of the argument or the tuple of arguments at *argnum*, their value)."""

    @wraps(fun)
    def unary_f(x: Any) -> Any:
        pairs = [(argnum, x)] if isinstance(argnum, int) else zip(argnum, x, strict=True)
        return fun(*subvals(args, pairs), **kwargs)

    return unary_f, args[argnum] if isinstance(argnum, int) else tuple([args[i] for i in argnum])


def unary_to_nary(unary_operator: Callable[..., Any]) -> Callable[..., Any]:
    """``operator(fun, argnum=0)`` of ``unary_operator(fun, x)``: gives a function of the arguments of *fun*."""

    @wraps(unary_operator)
    def nary_operator(fun: Any, argnum: Any = 0, *nary_op_args: Any, **nary_op_kwargs: Any) -> Any:
        assert type(argnum) in (int, tuple, list), argnum

        @wrap_nary_f(fun, unary_operator, argnum)
        def nary_f(*args: Any, **kwargs: Any) -> Any:
            return unary_operator(*at_argnum(fun, argnum, args, kwargs), *nary_op_args, **nary_op_kwargs)

        return nary_f

    return nary_operator
