"""Checks of ``compile_grad``'s own arguments, when a function is decorated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..tracer.ir.errors import TracegradError, UnsupportedError, need_function
from ..tracer.ir.site import at_site

TARGETS = ("cpu", "cuda", "auto")


# An argument of other libraries, or nearly one of ours -> what to write.
_ARGUMENTS = {
    **dict.fromkeys(
        ("argnum", "arg_num", "argnames", "wrt", "arg", "args"),
        "write argnums=0, the position of the argument, or argnums=(0, 1)",
    ),
    **dict.fromkeys(
        ("static_argnums", "static_args", "static", "nondiff_argnums"),
        "name the settings: static_argnames=({names},)",
    ),
    **dict.fromkeys(("backend", "device"), 'write target="cpu", "cuda" or "auto"'),
    **dict.fromkeys(("jit", "nopython", "cache", "parallel", "fastmath", "donate_argnums", "inline"), "leave it out"),
    **dict.fromkeys(("in_dims", "in_axis", "axis"), "write in_axes=0"),
    **dict.fromkeys(("out_dims", "out_axis"), "write out_axes=0"),
    **dict.fromkeys(("aux", "return_aux"), "write has_aux=True"),
    "allow_int": "pass x.astype(float)",
}


def refuse_arguments(what: str, unknown: Mapping[str, Any], fn: Any = None) -> None:
    """Raise for arguments of *what* that it does not have, given for the function *fn*."""
    for name, value in unknown.items():
        names = ", ".join(map(repr, _names_at(fn, value)))
        hint = _ARGUMENTS.get(name, "").format(names=names)
        raise TypeError(at_site(f"{what} has no argument `{name}`{hint and ': '}{hint}"))


def _names_at(fn: Any, places: Any) -> list[str]:
    """The names of the parameters of *fn* at these places."""
    try:
        names = list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        names = []
    wanted = (places,) if isinstance(places, int) else places if isinstance(places, (tuple, list)) else ()
    return [names[k] for k in wanted if isinstance(k, int) and -len(names) <= k < len(names)] or ["name"]


def check_function(fn: Any, target: str) -> None:
    """Raise for objects that are no functions with a value, and for unknown targets.  Devices are looked for when the
    function is called: one that is only defined needs none."""
    need_function("compile_grad", fn)
    if inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise UnsupportedError.here(
            f"{fn.__qualname__} is a generator or coroutine, which has no value to compile; "
            "return a list, a tuple or an array"
        )
    if target not in TARGETS:
        raise TracegradError.here(f'there is no target={target!r}; use target="cpu", target="cuda" or target="auto"')


def positions(argnums: int | Sequence[int]) -> int | tuple[int, ...]:
    """*argnums* as given: a position, or several as a tuple."""
    if type(argnums) is int:
        return argnums
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if any(not isinstance(a, int) or isinstance(a, bool) for a in wanted):
        raise TypeError(
            at_site(
                f"argnums is a position or a tuple of positions, not {argnums!r}; "
                "for arguments by name pass their positions"
            )
        )
    return int(argnums) if isinstance(argnums, int) else wanted


def shifted_positions(argnums: int | tuple[int, ...], by: int = 1) -> int | tuple[int, ...]:
    """The same arguments where *by* others stand before them."""
    if isinstance(argnums, int):
        return argnums + by if argnums >= 0 else argnums
    return tuple([a + by if a >= 0 else a for a in argnums])


def static_positions(fn: Callable[..., Any], wanted: tuple[str, ...]) -> frozenset[int | str]:
    """The static arguments, by name and by position."""
    if not wanted:
        return frozenset()
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return frozenset(wanted)
    kinds = {p.kind for p in parameters.values()}
    unknown = [n for n in wanted if n not in parameters]
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise TypeError(
            at_site(
                f"static_argnames={unknown[0]!r}: the function has no such argument; it has {', '.join(parameters)}"
            )
        )
    positional = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return frozenset(wanted) | {positional.index(n) for n in wanted if n in positional}
