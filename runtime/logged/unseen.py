"""Objects that stand in a run for what is not known before it is over: whatever is asked of them ends the run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from .reads import not_closed

_PLAIN = (
    "__new__", "__init__", "__init_subclass__", "__subclasshook__", "__doc__", "__setattr__", "__class__",
    "__array_finalize__",
)  # fmt: skip
_ASKED = {*dir(int), *dir(np.ndarray), "__call__"}


def unseen(name: str, words: str, but: Collection[str] = ()) -> Any:
    """A class of such objects, of which *words* tell; they have methods of their own of the names *but*."""

    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise not_closed(words)

    asked = sorted(n for n in _ASKED if n.startswith("__") and n not in _PLAIN and n not in but)
    return type(name, (), {**dict.fromkeys(asked, ask), "__class__": property(ask)})
