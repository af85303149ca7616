"""Copies of functions: one for each code object, made when it is asked for first.

``convert`` gives the copy of a code object, ``Copy.function_of`` the function that runs it for one frame.  A copy has
the file, lines, names and cells of the function; functions that are made in it have the user's own code objects.
"""

from __future__ import annotations

import ast
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import CellType, CodeType, FunctionType
from typing import Any

from .arms import RESULTS, ChoiceStatement, by_arms
from .loops import LoopStatement
from .matches import without_matches
from .nodes import NotConvertibleError
from .scopes import bindings_of
from .source import PLACE_FLAGS, found, nested
from .statements import Converter
from .transparent import OWN


@dataclass(frozen=True, slots=True, eq=False)
class NotConverted:
    """The *reason* why a function has no copy."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """The copy of a code object, and the loops and choices in it by their numbers."""

    code: CodeType
    loops: tuple[LoopStatement, ...]
    closure: tuple[int, ...]  # for each free variable the place in the function's closure; -1: the frame
    choices: tuple[ChoiceStatement, ...] = ()  # where it is made by arms

    def function_of(self, fn: FunctionType, frame: Any) -> FunctionType:
        """The function that does what *fn* does, and asks *frame*."""
        cells = fn.__closure__ or ()
        closure = tuple([CellType(frame) if k < 0 else cells[k] for k in self.closure])
        made = remade(fn, fn.__globals__, closure, self.code)
        made.__dict__ = fn.__dict__
        return made


def remade(fn: FunctionType, space: dict[str, Any], closure: Any, code: CodeType | None = None) -> FunctionType:
    """A function like *fn* over other globals and cells, and of another *code*."""
    made = FunctionType(code or fn.__code__, space, fn.__name__, fn.__defaults__, closure)
    made.__kwdefaults__, made.__qualname__, made.__module__ = fn.__kwdefaults__, fn.__qualname__, fn.__module__
    made.__doc__ = fn.__doc__
    made.__dict__.update(fn.__dict__)
    return made


# by the id of the code, and how it is made; equal code objects have functions of their own
_known: dict[tuple[int, bool, bool], tuple[weakref.ref[CodeType], Copy | NotConverted]] = {}
_originals: dict[int, tuple[CodeType, weakref.ref[CodeType]]] = {}  # by the id of the code of a copy
_lock = threading.RLock()


def convert(code: CodeType, arms: bool = False, direct: bool = False) -> Copy | NotConverted:
    """The copy of *code*, or the reason why there is none; by *arms*: both arms of an ``if`` can run (``arms.py``);
    *direct*: ``call`` gives what the copy calls itself, so that no frame stands between it and what it calls."""
    key = id(code), arms, direct
    entry = _known.get(key)
    if entry is not None and entry[0]() is code:
        return entry[1]
    with _lock:
        entry = _known.get(key)
        if entry is not None and entry[0]() is code:
            return entry[1]
        made = _converted(code, arms, direct)
        _known[key] = weakref.ref(code, lambda ref: _forget(key, ref)), made
        if isinstance(made, Copy):
            _originals.update({id(part): (part, weakref.ref(code)) for part in own_parts(made.code)})
    return made


def own_parts(code: CodeType) -> Iterator[CodeType]:
    """The *code* of a copy, and those of the comprehensions in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType) and OWN in const.co_freevars:
            yield from own_parts(const)


def original_code(code: CodeType) -> CodeType:
    """The user's code of which *code* is the copy, or a part of it; *code* itself where it is none."""
    if OWN not in code.co_freevars:
        return code
    known = _originals.get(id(code))
    return code if known is None else known[1]() or code


def _forget(key: tuple[int, bool, bool], ref: Any) -> None:
    entry = _known.get(key)
    if entry is not None and entry[0] is ref:
        del _known[key]
        for part in own_parts(entry[1].code) if isinstance(entry[1], Copy) else ():
            _originals.pop(id(part), None)


def _converted(code: CodeType, arms: bool, direct: bool) -> Copy | NotConverted:
    try:
        source = found(code)
        if isinstance(source, str):
            return NotConverted(source)
        source = replace(source, node=without_matches(source.node))
        bindings = bindings_of(source.node)
        if arms and not isinstance(source.node, ast.Lambda):
            source = replace(source, node=by_arms(source.node))
            bindings.bound[RESULTS] = None
        converter = Converter(code, source, bindings)
        converter.by_arms, converter.direct = arms, direct
        made = source.around.compiled(converter.function())
        originals = [*nested(code)]
        made = _settled(made, code.co_name, code.co_qualname, converter.names, originals)
        made = made.replace(co_flags=made.co_flags & ~PLACE_FLAGS | code.co_flags & PLACE_FLAGS)
    except NotConvertibleError as e:
        return NotConverted(str(e))
    except RecursionError:
        return NotConverted("it is nested too deeply")
    places = {text: k for k, text in enumerate(code.co_freevars)}
    if not places.keys() >= {text for text in made.co_freevars if text != OWN}:
        return NotConverted("a variable of the copy is not one of the function")
    closure = tuple([places.get(text, -1) for text in made.co_freevars])
    return Copy(made, tuple(converter.loops), closure, tuple(converter.arms))


def _settled(code: CodeType, name: str, qualname: str, names: dict[str, str], originals: list[Any]) -> CodeType:
    """The code of the copy, or of a comprehension in it, under the user's name and with the user's functions."""
    consts = []
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if const.co_name in names:
                inner = names[const.co_name]
                const = _settled(const, inner, f"{qualname}.<locals>.{inner}", names, originals)
            else:
                const = _original(const, originals)
        consts.append(const)
    return code.replace(co_consts=tuple(consts), co_name=name, co_qualname=qualname)


def _original(code: CodeType, originals: list[Any]) -> CodeType:
    """The user's code object that *code* is compiled like, the next one of several."""
    for k, other in enumerate(originals):
        if other == code:
            originals.append(originals.pop(k))
            return originals[-1]
    if not any((o.co_name, o.co_firstlineno) == (code.co_name, code.co_firstlineno) for o in originals):
        return code  # of statements that the compiler has found to be unreachable
    raise NotConvertibleError(f"the function {code.co_name} in it gives other code")
