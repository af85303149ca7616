"""Functions of ``functools.singledispatch``: which function is called depends on the class of the first argument.

The registry is read, as a dict of the user's, and of it the function that is chosen."""

from __future__ import annotations

import functools
import types
from typing import Any

_PLACES = ("registry", "dispatch", "register", "_clear_cache")


def is_by_class(f: types.FunctionType) -> bool:
    """Whether ``singledispatch`` has made *f*."""
    return f.__globals__ is functools.__dict__ and all(hasattr(f, name) for name in _PLACES)


def call_by_class(run: Any, f: Any, kind: type, args: Any, kwargs: Any) -> Any:
    """``f(*args, **kwargs)``, where the first argument is of the class *kind*."""
    reads, node = run.reads, run.reads.node_of(f)
    cells = dict(zip(f.dispatch.__code__.co_freevars, f.dispatch.__closure__, strict=True))
    registry, chosen = cells["registry"].cell_contents, f.dispatch(kind)
    for cls in registry:
        reads.asks_registered(kind, cls)
    if not reads.trust.cls(kind):
        reads.pin(kind)
    if node is not None:
        label = f"the functions of {node.label}"
        reads.read(node, "cell", cells["registry"], registry, label)
        key = next(cls for cls, function in registry.items() if function is chosen)
        chosen = run.part(reads.node_of(registry), "key", key, chosen)
    return run.call(chosen, *args, **kwargs)
