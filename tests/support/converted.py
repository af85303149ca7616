"""Functions and their converted copies side by side: results, exceptions, and the places in tracebacks."""

from __future__ import annotations

import sys
import traceback
import types
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from tracegrad.codegen.cpu.cpython import write_locals
from tracegrad.tracer.convert import patterns, transparent
from tracegrad.tracer.convert.copies import Copy, NotConverted, convert
from tracegrad.tracer.convert.transparent import Transparent

OURS = {transparent.__file__, patterns.__file__, __file__}


class Deep(Transparent):
    """A frame under which all Python functions that are called run as copies, too."""

    __slots__ = ()
    seen: ClassVar[Counter[Any]] = Counter()
    refused: ClassVar[Counter[str]] = Counter()

    def call(self, f: Any, /, *args: Any, **kwargs: Any) -> Any:
        return deeply(f, type(self))(*args, **kwargs)

    def call_method(self, a: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return deeply(getattr(a, name), type(self))(*args, **kwargs)


def deeply(f: Any, frame: Callable[[Any], Any] = Deep) -> Any:
    """*f* as a copy over a frame that converts what is called."""
    if type(f) is types.MethodType and type(f.__func__) is types.FunctionType:
        return types.MethodType(deeply(f.__func__, frame), f.__self__)
    if type(f) is type and type(f.__init__) is types.FunctionType and f.__new__ is object.__new__:
        return lambda *args, **kwargs: _made(f, frame, args, kwargs)
    if type(f) is not types.FunctionType or f.__code__.co_filename in OURS:
        return f
    copy = convert(f.__code__)
    if isinstance(copy, NotConverted):
        Deep.refused[f"{f.__module__}.{f.__qualname__}: {copy.reason}"] += 1
        return f
    Deep.seen[f.__code__] += 1
    return copy.function_of(f, frame(f))


def _made(cls: Any, frame: Any, args: Any, kwargs: Any) -> Any:
    made = object.__new__(cls)
    deeply(cls.__init__, frame)(made, *args, **kwargs)
    return made


def rebound(f: Any) -> Any:
    """*f* as a copy whose loops rebind variables."""
    return deeply(f, Rebinding)


def copied(f: Any, frame: Callable[[Any], Any] = Transparent) -> Any:
    """The copy of a function, which has to have one."""
    copy = convert(f.__code__)
    assert isinstance(copy, Copy), f"{f.__qualname__}: {copy.reason}"
    return copy.function_of(f, frame(f))


def outcome(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call, or its exception with the places that its traceback has in others' files."""
    try:
        result = f(*args, **kwargs)
        return "result", list(result) if isinstance(result, types.GeneratorType) else result
    except Exception as e:
        return raised(e)


def raised(e: BaseException | None) -> Any:
    if e is None:
        return None
    frames = [t for t in traceback.extract_tb(e.__traceback__) if t.filename not in OURS]
    names = [t.name for t in frames]
    if sys.version_info >= (3, 12):  # where comprehensions are no functions, those of copies are
        names = [t.name for t in frames if not _inlined(t)]
        frames = [t for k, t in enumerate(frames) if not any(map(_inlined, frames[k + 1 : k + 2]))]
    places = [(t.lineno, t.colno) for t in frames]
    if isinstance(e, AssertionError | UnboundLocalError):  # of which CPython says another column now and then
        places = [(line, None) for line, _ in places]
    elif not isinstance(e, AttributeError):  # whose place in a call of a method is that of the call
        places += [(t.end_lineno, t.end_colno) for t in frames]
    causes = [raised(other) for other in (e.__cause__, e.__context__)]
    return type(e), str(e), names, places, causes, getattr(e, "__notes__", None)


def _inlined(t: traceback.FrameSummary) -> bool:
    return t.name in ("<listcomp>", "<setcomp>", "<dictcomp>")


class _Forgetful:
    """An iterator that spoils the variables of its loop that do not count at the start of an iteration."""

    def __init__(self, iterator: Any, loop: Any, state: Any) -> None:
        self.iterator, self.loop, self.state = iterator, loop, state

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        value = next(self.iterator)
        spoil(sys._getframe(1), {*self.loop.assigned}.difference(self.loop.carried, self.loop.target_names))
        return value


def spoil(frame: Any, names: Any) -> None:
    """Set those of the variables of a running frame that are bound."""
    variables = frame.f_locals
    for name in names:
        if name in variables:
            variables[name] = "spoilt"
    if sys.version_info < (3, 13):
        write_locals(frame)


class _RebindingFor(transparent.PythonFor):
    """A loop that gives the variables the values that they have."""

    __slots__ = ("description",)
    rebinds = True
    unset = transparent

    def __init__(self, iterator: Any, description: Any) -> None:
        super().__init__(_Forgetful(iterator, description, self))
        self.description = description

    def values(self, names: Any, depth: int = 2) -> Any:
        variables = sys._getframe(depth).f_locals
        return [variables.get(name, transparent) for name in names]

    def symbols(self) -> Any:
        return self.values(self.description.carried)

    def results(self) -> Any:
        return self.values([name for name in self.description.assigned if name not in self.description.binds])


class _RebindingWhile(transparent.PythonWhile):
    __slots__ = ("description",)
    rebinds = True
    unset = transparent

    def __init__(self, description: Any) -> None:
        super().__init__()
        self.description = description

    def __iter__(self) -> Any:
        return _Forgetful(super().__iter__(), self.description, self)

    values = _RebindingFor.values
    symbols = _RebindingFor.symbols
    results = _RebindingFor.results


class Rebinding(Deep):
    """A frame whose loops take over the variables of the body, and spoil those that they need not take over."""

    __slots__ = ()

    def description(self, number: int) -> Any:
        copy = convert(self.fn.__code__)
        assert isinstance(copy, Copy)
        return copy.loops[number]

    def loop(self, number: int, iterable: Any, /) -> Any:
        begun = type(iterable) is transparent.Begun
        iterator = iterable.iterator if begun else iter(iterable)
        return _RebindingFor(iterator, self.description(number))

    def while_loop(self, number: int, /) -> Any:
        return _RebindingWhile(self.description(number))
