"""Functions with some arguments fixed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ....runtime.compiled import CompiledFunction


def const_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """*fun* with these arguments, compiled: what does not depend on the others is computed beforehand where it can be.

    HIPS autograd replays the first call whatever the arguments are; here the branches that they take are looked at."""
    return CompiledFunction(partial(fun, *args, **kwargs), target="auto")
