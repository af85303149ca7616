"""Modules around one function: their settings are the function's parameters.

``class ELU(FunctionModule, function=elu)`` takes what ``elu`` takes beside its input, keeps it in attributes of these
names, and calls ``elu`` with them.  Constructor and ``forward`` are Python source, compiled once for each class.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .module import Module

_FILE = str(Path(__file__).with_name("<function module {}>"))  # in this folder, so that no error is laid at its door
_SOURCE = """
def __init__(self, {parameters}):
    Module.__init__(self)
    self._settle({settings})

def forward(self, {inputs}):
    return function({inputs}, {attributes})
"""


class FunctionModule(Module):
    """A module that calls *function*, whose first parameters are as many *inputs*; the others, but those in *without*,
    are settings.  ``_settle`` decides what becomes of them."""

    _folded: tuple[str, ...] = ()  # settings that are no attributes: they say what another one is

    def __init_subclass__(
        cls, function: Callable[..., Any] | None = None, inputs: int = 1, without: tuple[str, ...] = (), **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        if function is None:
            return
        whole = signature(function)
        given = list(whole.parameters.values())[:inputs]
        settings = [p for p in list(whole.parameters.values())[inputs:] if p.name not in without]
        if "_shown" not in cls.__dict__:
            cls._shown = tuple([p.name for p in settings if p.name != "inplace"])
        source = _SOURCE.format(
            parameters=", ".join([f"{p.name}={p.default!r}" if p.default is not p.empty else p.name for p in settings]),
            settings=", ".join([f"{p.name}={p.name}" for p in settings]),
            inputs=", ".join([p.name for p in given]),
            attributes=", ".join([f"{p.name}=self.{p.name}" for p in settings if p.name not in cls._folded]),
        )
        made: dict[str, Any] = {}
        file = _FILE.format(cls.__qualname__)
        linecache.cache[file] = len(source), None, source.splitlines(True), file  # for recordings, and tracebacks
        space = {"Module": Module, "function": function, "__name__": cls.__module__}
        exec(compile(source, file, "exec"), space, made)
        for name, parameters, result in (("__init__", settings, "None"), ("forward", given, whole.return_annotation)):
            method = made[name]
            method.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": result}
            method.__module__, method.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)

    if TYPE_CHECKING:

        def __init__(self, *settings: Any, **named: Any) -> None: ...

    def _settle(self, **settings: Any) -> None:
        """Keep the settings."""
        for name, value in settings.items():
            setattr(self, name, value)

    def extra_repr(self) -> str:
        return ", ".join(filter(None, (super().extra_repr(), "inplace=True" * getattr(self, "inplace", False))))
