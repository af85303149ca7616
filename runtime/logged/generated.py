"""Methods that have no source, since a library has made their code of the names of fields.

Those of dataclasses: ``__init__`` fills another object, from which the attributes are set as the user's class sets
them; comparisons are those of tuples of fields.  ``__new__`` of named tuples runs as it is.
"""

from __future__ import annotations

import dataclasses
import reprlib
import types
from typing import Any

from ..state.values import is_leaf
from .attributes import found_in
from .texts import marked, text_of

GENERATED = "<string>"  # the file of code that dataclasses and named tuples make
_FROM_FACTORY = getattr(dataclasses, "_HAS_DEFAULT_FACTORY", None)
_OF_TEXTS = (id(dataclasses.__dict__), id(reprlib.__dict__))  # the globals of what makes texts of fields
_ORDER = {"__eq__": "eq", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge"}


class _Filled:
    """The object that ``__init__`` of a dataclass fills; *posted*: the arguments of ``__post_init__``."""

    posted: tuple[Any, ...] | None = None

    def __post_init__(self, *args: Any) -> None:
        self.__dict__["posted"] = args


def call_generated(run: Any, f: types.FunctionType, args: Any, kwargs: Any) -> Any:
    """``f(*args, **kwargs)`` of such a method."""
    owner: Any = type(args[0]) if args and f.__name__ != "__new__" else args[0] if args else None
    run.reads.ran(f.__code__)
    fields = getattr(owner, "__dataclass_fields__", None)
    if fields is not None and f.__name__ == "__init__":
        return _fill(run, f, owner, fields, args, kwargs)
    if fields is not None and f.__name__ in _ORDER and len(args) == 2 and not kwargs:
        return _compare(run, f, fields, *args)
    if f.__name__ == "__new__" and hasattr(owner, "_fields"):
        return f(*args, **_with_defaults(run, f, args, kwargs))
    raise run.refuse(f"{f.__qualname__}, which has no source")


def is_text_of_fields(f: types.FunctionType) -> bool:
    """Whether *f* is the ``__repr__`` of a dataclass, which is made of the texts of its fields."""
    if f.__name__ != "__repr__" or id(f.__globals__) not in _OF_TEXTS:
        return False
    made = getattr(f, "__wrapped__", None)
    return type(made) is types.FunctionType and made.__code__.co_filename == GENERATED


def text_of_fields(run: Any, f: types.FunctionType, obj: Any) -> Any:
    """``f(obj)`` of such a function."""
    base = next((cls for cls in type(obj).__mro__ if vars(cls).get("__repr__") is f), None)
    if base is None:
        raise run.refuse(f"{f.__qualname__}, which has no source")
    fields = vars(base)["__dataclass_fields__"]
    names = [name for name, field in fields.items() if field.repr and field._field_type.name == "_FIELD"]
    parts = [f"{name}={text_of(run, run.frame.attr(obj, name), repr, '__repr__')}" for name in names]
    head = run.frame.attr(run.frame.attr(obj, "__class__"), "__qualname__")
    return marked(run, f"{head}({', '.join(parts)})")


def _with_defaults(run: Any, f: types.FunctionType, args: Any, kwargs: Any) -> Any:
    """*kwargs*, and the defaults that are objects: the object that is made will hold them."""
    node, code, values = run.reads.node_of(f), f.__code__, f.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][-len(values) :] if values else ()
    found = dict(kwargs)
    given = {*code.co_varnames[: len(args)], *kwargs}
    for name, value in (*zip(names, values, strict=True), *(f.__kwdefaults__ or {}).items()):
        if name in given or is_leaf(value) or value is _FROM_FACTORY:
            continue
        if node is None or name not in names:
            raise run.refuse(f"the default `{name}` of {f.__qualname__}")
        found[name] = run.reads.read(node, "const", name, value, f"default {name}")
    return found


def _fill(run: Any, f: types.FunctionType, owner: Any, fields: dict[str, Any], args: Any, kwargs: Any) -> None:
    obj = args[0]
    factories = [field.default_factory for field in fields.values()]
    plain = all(not callable(x) or x in (list, dict, set, tuple) for x in factories if x is not dataclasses.MISSING)
    if not plain or run.reads.node_of(obj) is not None:
        raise run.refuse(f"{f.__qualname__}, which has no source")
    filled = _Filled()
    f(filled, *args[1:], **_with_defaults(run, f, args, kwargs))
    frozen = owner.__dataclass_params__.frozen
    posted = filled.__dict__.pop("posted", None)
    for name, value in filled.__dict__.items():
        run.made(value) if type(value) in (list, dict, set) and not any(value is x for x in args) else None
        if frozen:
            run.frame.set_plainly(value, obj, name)
        else:
            run.frame.set_attr(value, obj, name)
    if posted is not None:
        base, raw = found_in(owner, "__post_init__")
        if type(raw) is not types.FunctionType or base is None:
            raise run.refuse("a `__post_init__` that is no function")
        run.reads.read_class(base, "__post_init__", raw)
        run.call(raw, obj, *posted)


def _compare(run: Any, f: types.FunctionType, fields: dict[str, Any], one: Any, other: Any) -> Any:
    if type(one) is not type(other):
        return NotImplemented
    names = [name for name, field in fields.items() if field.compare and field._field_type.name == "_FIELD"]
    pairs = [tuple([run.frame.attr(obj, name) for name in names]) for obj in (one, other)]
    return getattr(run.frame, _ORDER[f.__name__])(*pairs)
