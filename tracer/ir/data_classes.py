"""Data classes and named tuples of our own: those of the standard library, made in a fraction of the time.

A first call imports a hundred data classes, for each of which the standard library compiles four functions one by one
and reads signatures. Here they are one text. ``dataclasses.field``, ``fields``, ``replace`` and ``astuple`` know these
classes. What none of ours asks for is left out: ``order``, ``unsafe_hash``, ``InitVar``, defaults that are descriptors.
``typing.NamedTuple`` compiles each annotation; here they stay texts.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from typing import NamedTuple as NamedTuple
else:

    def dataclass(cls=None, /, *, eq=True, frozen=False, slots=False, kw_only=False):
        """As ``dataclasses.dataclass``."""
        if cls is None:
            return lambda cls: _made(cls, eq, frozen, slots, kw_only)
        return _made(cls, eq, frozen, slots, kw_only)

    class _MakesTuples(type):
        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, bases, space)
            fields = space.pop("__annotations__", {})
            defaults = [space.pop(field) for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])
            made.__annotations__ = fields
            for key, value in space.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_MakesTuples):
        """As ``typing.NamedTuple``."""


_MISSING = dataclasses.MISSING
_FIELD: Any = dataclasses._FIELD  # type: ignore[attr-defined]
_FIELDS = "__dataclass_fields__"


def _made(cls: Any, eq: bool, frozen: bool, slots: bool, kw_only: bool) -> Any:
    fields: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        fields |= vars(base).get(_FIELDS, {})
    own = _own_fields(cls, kw_only)
    fields |= own
    new: dict[str, Any] = {"__repr__": _repr}
    if frozen:
        new |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if frozen and slots:
        new |= {"__getstate__": _state, "__setstate__": _set_state}
    new |= _functions(cls, list(fields.values()), eq, frozen)
    new = {name: value for name, value in new.items() if name not in vars(cls) or name == "__hash__"}
    new[_FIELDS] = fields
    new["__match_args__"] = tuple([f.name for f in fields.values() if f.init and not f.kw_only])
    if slots:
        return _with_slots(cls, own, new)
    for name, value in new.items():
        setattr(cls, name, value)
    return cls


def _own_fields(cls: Any, kw_only: bool) -> dict[str, Any]:
    """The fields that *cls* adds; its attributes are their default values."""
    found: dict[str, Any] = {}
    for name, annotation in cls.__annotations__.items():
        if annotation.startswith("ClassVar"):
            continue
        default = vars(cls).get(name, _MISSING)
        field: Any = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
        field.name, field.type, field._field_type = name, annotation, _FIELD
        if field.kw_only is _MISSING:
            field.kw_only = kw_only
        if field is default:
            if field.default is _MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, field.default)
        found[name] = field
    return found


def _functions(cls: Any, fields: list[Any], eq: bool, frozen: bool) -> dict[str, Any]:
    """``__init__``, ``__eq__`` and ``__hash__``, which are compiled together."""
    made: dict[str, Any] = {}
    names = {"__name__": cls.__module__, "_set": object.__setattr__, "_missing": _MISSING, "_unequal": NotImplemented}
    texts = {"__init__": _init(fields, frozen, hasattr(cls, "__post_init__"), names)}
    if eq:
        mine, others = ("".join([f"{x}.{f.name}, " for f in fields if f.compare]) for x in ("self", "other"))
        same = f"({mine}) == ({others}) if self.__class__ is other.__class__ else _unequal"
        texts["__eq__"] = f"(self, other):\n return {same}"
        if "__hash__" not in vars(cls) or (vars(cls)["__hash__"] is None and "__eq__" in vars(cls)):
            made["__hash__"] = None
            if frozen:
                texts["__hash__"] = f"(self):\n return hash(({mine}))"
    exec(compile("\n".join([f"def {name}{text}" for name, text in texts.items()]), __file__, "exec"), names)
    for name in texts:
        made[name] = names[name]
        made[name].__qualname__ = f"{cls.__qualname__}.{name}"
    return made


def _init(fields: list[Any], frozen: bool, post_init: bool, names: dict[str, Any]) -> str:
    """The text of ``__init__`` from its parameters on; defaults are added to *names*."""
    parameters, lines = ["self"], []
    keywords: list[str] = []
    for f in fields:
        name = value = f.name
        default = ""
        if f.default is not _MISSING:
            names[f"_{name}_default"], default = f.default, f"=_{name}_default"
        elif f.default_factory is not _MISSING:
            names[f"_{name}_made"], default = f.default_factory, "=_missing"
            value = f"_{name}_made()" + (f" if {name} is _missing else {name}" if f.init else "")
        elif not f.init:
            continue
        if f.init:
            (keywords if f.kw_only else parameters).append(name + default)
        elif f.default is not _MISSING:
            value = f"_{name}_default"
        lines.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if post_init:
        lines.append(" self.__post_init__()")
    if keywords:
        parameters += ["*", *keywords]
    return f"({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass")


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    fields = [f"{f.name}={getattr(self, f.name)!r}" for f in self.__dataclass_fields__.values() if f.repr]
    return f"{type(self).__qualname__}({', '.join(fields)})"


def _refuse_set(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


def _with_slots(cls: Any, own: dict[str, Any], new: dict[str, Any]) -> Any:
    """*cls* once more, with slots for its own fields, since slots are made with a class."""
    taken = {name for base in cls.__mro__[1:-1] for name in vars(base).get("__slots__", ())}
    space = {name: value for name, value in vars(cls).items() if name not in own}
    space |= new | {"__slots__": tuple([name for name in own if name not in taken])}
    space.pop("__dict__", None)
    space.pop("__weakref__", None)
    made = type(cls)(cls.__name__, cls.__bases__, space)
    made.__qualname__ = cls.__qualname__
    return made
