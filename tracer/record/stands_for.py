"""Objects that stand for ones of the caller's while a function is recorded."""

from __future__ import annotations

from typing import Any


class StandsFor:
    """Stands for *real*, of whose class it is for code that asks (``isinstance``).  ``_what`` it is, for errors."""

    _what = "an object"

    def __init__(self, real: Any) -> None:
        self._real = real

    @property
    def __class__(self) -> Any:
        return type(self._real)

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise AttributeError(f"the class of {self._what} cannot be changed")
