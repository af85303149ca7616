"""Objects outside of the user's subclasses of ``list`` and ``dict``: attributes and methods of their own, and items.

The items are a plain list or dict of the run's, which stands for those outside: it is read and written as a list or
dict outside is.  Methods of the user's are converted; those of the builtin class are asked of these items.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any

from ..state.own_items import CONTENTS, base_of_items, plain_items
from ..state.pins import MISSING
from .attributes import found_in

IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType)


def is_of_items(raw: Any) -> bool:
    """Whether *raw* is a method of ``list`` or ``dict``."""
    return isinstance(raw, IN_C) and raw.__objclass__ in (list, dict)


def items_of(run: Any, obj: Any) -> Any:
    """The items of such an object, as the run has them; None for anything else."""
    node = run.reads.node_of(obj)
    base = None if node is None or node.kind != "instance" else base_of_items(type(obj), run.reads.trust)
    if base is None:
        return None
    known = run.reads.shown_in(node, CONTENTS, base)
    return known if known is not MISSING else run.reads.read(node, CONTENTS, base, plain_items(obj), node.label)


def _item(run: Any, obj: Any, items: Any, key: Any) -> Any:
    if type(items) is dict and not run.has_key(items, key):
        run.reads.names("__missing__")
        if found_in(type(obj), "__missing__")[0] is not None:
            return run.special(obj, "__missing__", key)
    return run.item(items, key)


def _extended(name: str) -> Callable[..., Any]:
    def extend(run: Any, obj: Any, items: Any, values: Any) -> Any:
        run.call_method(items, name, values)
        return obj

    return extend


_SPECIAL: dict[str, Callable[..., Any]] = {
    "__getitem__": _item, "__iadd__": _extended("extend"), "__ior__": _extended("update"),
}  # fmt: skip
#: methods that statements and operators call, and what does the same: (it, the number of its arguments)
BY_STATEMENT: dict[str, tuple[Any, int]] = {
    "__setitem__": (operator.setitem, 2), "__delitem__": (operator.delitem, 1), "__getitem__": (operator.getitem, 1),
    "__contains__": (operator.contains, 1), "__len__": (len, 0), "__iter__": (iter, 0), "__reversed__": (reversed, 0),
    "__repr__": (repr, 0),
}  # fmt: skip


def method_of_items(run: Any, obj: Any, items: Any, name: str, args: Any, kwargs: Any) -> Any:
    """``list.name(obj, *args, **kwargs)``, or that of ``dict``."""
    run.reads.names(name)
    if name in _SPECIAL and not kwargs:
        return _SPECIAL[name](run, obj, items, *args)
    if name.startswith("__") and name not in BY_STATEMENT:
        raise run.refuse(f"{name} of an object of the class {type(obj).__qualname__}")
    return run.call_method(items, name, *args, **kwargs)
