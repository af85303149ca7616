"""The function that is to be checked, and an example of a call.

The file is imported (as a module of its package, if it is in one), never run as a program.  Of the example, which is a
doctest or code from the command line, all is run up to the first call of the function, whose arguments are taken.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import math
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..tracer.ir.data_classes import NamedTuple, dataclass

_SPARE_NAMES = {"np": np, "numpy": np, "math": math}  # for examples of modules that have them not


class UsageError(Exception):
    """There is no function or no example to check."""


@dataclass
class Example:
    """A call ``fn(*args, **kwargs)``; *origin*: the place it is from.  *owned*: its first argument is ``self``."""

    fn: Any  # a function or a CompiledFunction
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    origin: str
    owned: bool


class _ReachedError(BaseException):
    """The example has come to the call."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.call = args, kwargs


class _Place(NamedTuple):
    """Where a function stands: in the attribute *name* of *owner*."""

    owner: Any
    name: str

    @property
    def raw(self) -> Any:
        return inspect.getattr_static(self.owner, self.name)

    @property
    def is_method(self) -> bool:
        return inspect.isclass(self.owner) and not isinstance(self.raw, (staticmethod, classmethod))


def find_example(target: str, code: str | None) -> Example:
    """The function that *target*, ``FILE.py:name``, names, and a call of it: that in *code*, or the first one in a
    doctest, or one without arguments.

    :raises UsageError: there is none; the text says what to write.
    """
    file, _, name = target.rpartition(":")
    if not file:
        file, name = name, ""
    path = Path(file).resolve()
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(f"there is no file {file or target!r}; write FILE.py:function")
    module = _imported(path)
    place = _place(module, name, path)
    fn = getattr(place.owner, place.name)
    call, origin = _call(module, place, fn, name, code)
    return Example(fn, name, call[0], call[1], origin, place.is_method)


# ---- the module and the function -------------------------------------------------------------------------------------


def _imported(path: Path) -> types.ModuleType:
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    if parts[-1] == "__init__":
        parts.pop()
    sys.path.insert(0, str(root))
    before, sys.argv = sys.argv, [str(path)]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return importlib.import_module(".".join(parts)) if len(parts) > 1 else _alone(path)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path.name} can't be imported: {described(error, path)}") from error
    finally:
        sys.argv = before


def _alone(path: Path) -> types.ModuleType:
    """A file that is in no package, whatever else has its name."""
    name = path.stem if path.stem not in sys.modules else f"checked_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _place(module: types.ModuleType, name: str, path: Path) -> _Place:
    owner: Any = module
    rest = name.split(".")
    for part in rest[:-1]:
        owner = getattr(owner, part, None)
    if not callable(getattr(owner, rest[-1], None)):
        there = ", ".join(_functions(module)) or "none"
        lack = f"{path.name} has no function {name!r}" if name else "which function?"
        raise UsageError(f"{lack}; write {path.name}:NAME, where NAME is one of its functions: {there}")
    return _Place(owner, rest[-1])


def _functions(module: types.ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            yield from (f"{name}.{k}" for k, v in vars(value).items() if inspect.isfunction(v) and k[:2] != "__")
        elif callable(value):
            yield name


# ---- the call --------------------------------------------------------------------------------------------------------


def _call(module: types.ModuleType, place: _Place, fn: Any, name: str, code: str | None) -> tuple[Any, str]:
    """((args, kwargs), where they are from)"""
    if code is not None:
        try:
            call = _reached(place, module, [code])
        except (Exception, SystemExit) as error:
            raise UsageError(f"--call {code!r} fails: {described(error)}") from error
        if call is None:
            raise UsageError(f"--call {code!r} does not call {name}")
        return call, "--call"
    failed = ""
    for documented in dict.fromkeys([fn, place.owner, module]):
        examples = doctest.DocTestParser().get_examples(inspect.getdoc(documented) or "")
        try:
            call = _reached(place, module, [e.source for e in examples if e.exc_msg is None])
        except (Exception, SystemExit) as error:
            failed = f" (the doctest fails: {described(error)})"
            continue
        if call is not None:
            return call, "its doctest"
    try:
        parameters = list(inspect.signature(fn).parameters.values())[place.is_method :]
    except (TypeError, ValueError):
        parameters = []
    given = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    missing = [p.name for p in given if p.default is p.empty]
    if missing or place.is_method or not parameters:
        made = f"{name.rpartition('.')[0]}(...).{place.name}" if place.is_method else name
        raise UsageError(
            f"which arguments?{failed}\n{name} has no doctest that calls it; write an example of a call:\n"
            f'  --call "{made}({", ".join(missing)})"    with values, such as np.ones(3) and 2.0; imports and '
            "assignments may stand before it, with semicolons"
        )
    return (tuple([p.default for p in given]), {}), "its defaults"


def _reached(place: _Place, module: types.ModuleType, sources: list[str]) -> tuple[Any, Any] | None:
    """The arguments of the first call that *sources* make."""

    def arrive(*args: Any, **kwargs: Any) -> Any:
        raise _ReachedError(args, kwargs)

    raw = place.raw
    own = place.name in vars(place.owner)
    stand_in: Any = arrive if place.is_method or not inspect.isclass(place.owner) else staticmethod(arrive)
    setattr(place.owner, place.name, stand_in)
    names = {**_SPARE_NAMES, **vars(module)}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for source in sources:
                exec(compile(source, "<example>", "exec"), names)
    except _ReachedError as reached:
        return reached.call
    finally:
        if own:
            setattr(place.owner, place.name, raw)
        else:
            delattr(place.owner, place.name)
    return None


def described(error: BaseException, path: Path | None = None) -> str:
    """An exception in one line, with that of *path* in which it was raised."""
    text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(": ")
    frame, line = error.__traceback__, 0
    while frame is not None:
        if path is not None and frame.tb_frame.f_code.co_filename == str(path):
            line = frame.tb_lineno
        frame = frame.tb_next
    return f"{text} (line {line})" if line else text
