"""The stand-in for a local variable that has no value yet, in a marked iteration."""

from __future__ import annotations

from typing import Any, NoReturn


class Unset:
    """In the place of the name that is not set: whoever uses it gets Python's error."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def _raise(self, *_: Any) -> NoReturn:
        name = object.__getattribute__(self, "_name")
        raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")


for _method in (
    "getattr setattr call bool iter next len getitem setitem contains int float index str repr format hash "
    "add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv floordiv rfloordiv mod rmod pow rpow matmul "
    "rmatmul and rand or ror xor rxor neg pos invert abs eq ne lt le gt ge"
).split():
    setattr(Unset, f"__{_method}__", Unset._raise)

UNSET = Unset("")
