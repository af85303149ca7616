"""The frame that a converted copy asks, as Python itself would answer: the reference of what each method means.

A copy over a ``Transparent`` frame does what the function does.  A frame that records is a subclass; whatever it does
not override stays Python's.  There is one frame for each run of a function.

What the methods are called for, where their names do not say it:

- ``method(a, name)`` is the ``a.name`` of ``a.name(...)`` whose arguments may run code or fail: Python looks the method
  up before it evaluates them.  Then ``call`` gets its result.  Only where the arguments are constants and local names
  it is ``call_method(a, name, ...)``.
- ``result(to_call(f, *args)())`` is a call that the copy itself makes (``copies.convert``), ``to_call_ex`` one with
  ``*`` or ``**``.
- ``first_iterable(xs)`` is evaluated where a comprehension or generator expression stands; ``loop`` within its function
  gets the result, so a ``Begun`` has to be taken apart there.
- ``decorator(d)`` gives the callable that gets the new function: ``call(d, function)``.
- ``store_global`` and ``store_free`` give the value, since they stand for walruses, too.
- ``call_ex(f, args, parts)`` are the calls with ``*`` or ``**``; it calls ``call`` with what they give.
- ``splat`` and ``mapping`` are for displays as well as for calls.
- ``super(cls, first)`` is ``super()``.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat
from types import CellType, FunctionType, MethodType
from typing import Any

from ..ir.site import OWN
from .patterns import Patterns

#: operators, each of which is a method of the frame, as the module ``operator`` has it
ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift",
)  # fmt: skip
COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")
UNARY = ("neg", "pos", "invert")
_UNBOUND = "cannot access free variable '%s' where it is not associated with a value in enclosing scope"


def _text_of(f: Any) -> str:
    """The words for a callable in errors of calls."""
    try:
        name, module = f.__qualname__, f.__module__
    except AttributeError:
        return str(f)
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


class Begun:
    """The first iterable of a comprehension, whose iterator was asked for where the comprehension stands."""

    __slots__ = ("iterable", "iterator")

    def __init__(self, iterable: Any) -> None:
        self.iterable, self.iterator = iterable, iter(iterable)


class PythonFor:
    """A ``for`` statement that runs: ``rebinds`` is whether the copy takes its variables from here.

    ``unset`` is then in the place of a value that is not there."""

    __slots__ = ("iterator",)
    rebinds = False
    interrupted = ()  # exceptions that may have ended an iteration which is made again

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator

    def __iter__(self) -> Iterator[Any]:
        iterator, self.iterator = self.iterator, None  # which ends with the statement, as Python's does
        return iterator

    def symbols(self) -> Any:
        """The values of ``LoopStatement.carried`` at the start of a turn."""
        raise NotImplementedError

    def results(self) -> Any:
        """The values of ``LoopStatement.assigned`` after the last turn."""
        raise NotImplementedError

    def leave(self) -> None:
        """``break`` or ``return`` comes next."""

    def again(self) -> bool:
        """Whether the iteration that an exception has ended is made again."""
        return False


class PythonWhile:
    """A ``while`` statement that runs; *ended* by its condition, not by ``break``."""

    __slots__ = ("ended",)
    rebinds = False

    def __init__(self) -> None:
        self.ended = False

    def __iter__(self) -> Iterator[Any]:
        return repeat(None)

    def test(self, x: Any, /) -> bool:
        """The condition of a turn."""
        if x:
            return True
        self.ended = True
        return False

    symbols = PythonFor.symbols
    results = PythonFor.results
    leave = PythonFor.leave


class AskedWhile(PythonWhile):
    """A ``while`` statement that runs, and whose condition *truth* is asked for."""

    __slots__ = ("_truth",)

    def __init__(self, truth: Callable[[Any], bool]) -> None:
        super().__init__()
        self._truth = truth

    def test(self, x: Any, /) -> bool:
        return super().test(self._truth(x))


class PythonIf:
    """A choice of which one arm runs: ``merges`` is whether the copy takes its variables from here."""

    __slots__ = ("_taken",)
    merges = False

    def __init__(self, taken: bool) -> None:
        self._taken = taken

    def body(self) -> bool:
        return self._taken

    def orelse(self) -> bool:
        return not self._taken

    def swap(self) -> Any:
        """The values of ``ChoiceStatement.resets`` before the first arm, which is over."""
        raise NotImplementedError

    def merge(self) -> Any:
        """The values of ``ChoiceStatement.merges`` when both arms are over."""
        raise NotImplementedError


TAKEN, PASSED = PythonIf(True), PythonIf(False)


class Transparent(Patterns):
    """The object that a copy of *fn* asks in one run."""

    __slots__ = ("builtins_", "cells", "fn", "globals_")

    def __init__(self, fn: FunctionType) -> None:
        self.fn = fn
        self.globals_: dict[str, Any] = fn.__globals__
        self.builtins_: Mapping[str, Any] = fn.__builtins__  # type: ignore[attr-defined]
        self.cells: dict[str, CellType] = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))

    # ---- names

    def load_global(self, name: str, /) -> Any:
        for names in (self.globals_, self.builtins_):
            try:
                return names[name]
            except KeyError:
                pass
        raise NameError(f"name '{name}' is not defined", name=name)  # whose context is the user's

    def store_global(self, name: str, value: Any, /) -> Any:
        self.globals_[name] = value
        return value

    def del_global(self, name: str, /) -> None:
        if name not in self.globals_:
            raise NameError(f"name '{name}' is not defined", name=name)
        del self.globals_[name]

    def load_free(self, name: str, /) -> Any:
        try:
            return self.cells[name].cell_contents
        except ValueError:
            pass
        raise NameError(_UNBOUND % name, name=name)

    def store_free(self, name: str, value: Any, /) -> Any:
        self.cells[name].cell_contents = value
        return value

    def del_free(self, name: str, /) -> None:
        self.load_free(name)
        del self.cells[name].cell_contents

    def locals(self, found: dict[str, Any], /) -> dict[str, Any]:
        """``locals()``, of which *found* are those of the copy."""
        for name in [name for name in found if name.startswith(OWN)]:
            del found[name]
        for name, cell in self.cells.items():
            try:
                found[name] = cell.cell_contents
            except ValueError:
                found.pop(name, None)
        return found

    def dir(self, found: dict[str, Any], /) -> list[str]:
        """``dir()`` without arguments."""
        return sorted(found)

    def globals(self) -> dict[str, Any]:
        return self.globals_

    # ---- attributes and items

    def attr(self, a: Any, name: str, /) -> Any:
        return getattr(a, name)

    def set_attr(self, value: Any, a: Any, name: str, /) -> None:
        setattr(a, name, value)

    def del_attr(self, a: Any, name: str, /) -> None:
        delattr(a, name)

    def item(self, a: Any, index: Any, /) -> Any:
        return a[index]

    def item_gone_over(self, a: Any, index: Any, /) -> Any:
        """``a[index]``, which nothing but a loop gets."""
        return self.item(a, index)

    def item_measured(self, a: Any, index: Any, /) -> Any:
        """``a[index]``, which nothing but ``len`` gets, a name that is no variable of the function."""
        return self.item(a, index)

    def set_item(self, value: Any, a: Any, index: Any, /) -> None:
        a[index] = value

    def del_item(self, a: Any, index: Any, /) -> None:
        del a[index]

    def slice(self, start: Any, stop: Any, step: Any, /) -> Any:
        return slice(start, stop, step)

    # ---- calls

    def call(self, f: Any, /, *args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    def to_call(self, f: Any, /, *args: Any, **kwargs: Any) -> Callable[[], Any]:
        """The callable that the copy calls for ``f(*args, **kwargs)``."""
        return partial(f, *args, **kwargs)

    def to_call_ex(self, f: Any, args: Any, parts: tuple[Any, ...], /) -> Callable[[], Any]:
        args, kwargs = self.expanded(f, args, parts)
        if not all(isinstance(key, str) for key in kwargs):  # which functions in C may take
            return lambda: f(*args, **kwargs)
        return self.to_call(f, *args, **kwargs)

    def result(self, x: Any, /) -> Any:
        """The result of a call that the copy itself has made."""
        return x

    def call_method(self, a: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(a, name)(*args, **kwargs)

    def call_ex(self, f: Any, args: Any, parts: tuple[Any, ...], /) -> Any:
        """``f(*args, **part ...)``: *args* are a tuple, or what stands behind the only ``*``; of *parts* those that are
        no keywords of the call come from ``mapping``."""
        args, kwargs = self.expanded(f, args, parts)
        return self.call(f, *args, **kwargs)

    def expanded(self, f: Any, args: Any, parts: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
        """The arguments of such a call, and its keywords."""
        if type(args) is not tuple:
            if not hasattr(type(args), "__iter__") and not hasattr(type(args), "__getitem__"):
                raise TypeError(f"{_text_of(f)} argument after * must be an iterable, not {type(args).__name__}")
            args = self.splat(args)
        kwargs: dict[str, Any] = {}
        for part in parts:
            if not hasattr(part, "keys"):
                raise TypeError(f"{_text_of(f)} argument after ** must be a mapping, not {type(part).__name__}")
            for key in part.keys():  # noqa: SIM118
                if key in kwargs:
                    raise TypeError(f"{_text_of(f)} got multiple values for keyword argument '{key}'")
                kwargs[key] = part[key]
        return args, kwargs

    def method(self, a: Any, name: str, /) -> Any:
        """The method that ``call`` gets, after its arguments."""
        return self.attr(a, name)

    def splat(self, xs: Any, /) -> Iterable[Any]:
        """The ``xs`` of ``*xs``."""
        return xs

    def mapping(self, kwargs: Any, /) -> Any:
        """The ``kwargs`` of ``**kwargs``."""
        return kwargs

    def super(self, cls: Any, first: Any, /) -> Any:
        """``super()`` in a method of *cls* whose first argument is *first*."""
        f = self.load_global("super")
        return super(cls, first) if f is builtins.super else f()

    def decorator(self, d: Any, /) -> Callable[[Any], Any]:
        """The callable that gets the function that *d* decorates."""
        return partial(self.call, d)

    # ---- questions

    def test(self, x: Any, /) -> bool:
        return bool(x)

    def branch(self, k: int, test: Any, /) -> Any:
        """The choice number *k*, by the truth of *test*."""
        return TAKEN if test else PASSED

    def pick(self, first: Any, second: Any, branch: Any, /) -> Any:
        """The value of a conditional expression; of an arm that has not run it is None."""
        return first if branch is TAKEN else second

    def both(self, second: Any, branch: Any, /) -> Any:
        """The truth of ``a and b``, whose first is that of *branch*."""
        return second if branch is TAKEN else False

    def either(self, second: Any, branch: Any, /) -> Any:
        """The truth of ``a or b``."""
        return True if branch is TAKEN else second

    def no(self, k: int, value: Any, /) -> Any:
        """``not value``, which is the choice number *k*."""
        return not value

    def is_(self, a: Any, b: Any, /) -> bool:
        return a is b

    def is_not(self, a: Any, b: Any, /) -> bool:
        return not self.is_(a, b)

    def in_(self, a: Any, b: Any, /) -> bool:
        return a in b

    def not_in(self, a: Any, b: Any, /) -> bool:
        return not self.in_(a, b)

    # ---- other expressions

    def format(self, value: Any, conversion: str, spec: str, /) -> str:
        """A value in an f-string: *conversion* is ``""``, ``"s"``, ``"r"`` or ``"a"``."""
        if conversion:
            value = str(value) if conversion == "s" else repr(value) if conversion == "r" else ascii(value)
        return format(value, spec)

    def text(self, x: str, /) -> str:
        """An f-string that was joined."""
        return x

    def made(self, x: Any, /) -> Any:
        """A list, dict or set that the copy has just made."""
        return x

    def iter(self, xs: Any, /) -> Any:
        """The iterable of ``yield from``."""
        return xs

    def first_iterable(self, xs: Any, /) -> Any:
        """The iterable of a comprehension; ``loop`` gets the result."""
        return Begun(xs)

    def generator(self, lazily: Any, at_once: Any, folded: Any, xs: Any, /) -> Any:
        """A generator expression.

        *lazily* makes the generator, *at_once* a list of its elements, *folded* one value of them:
        ``value = step(value, element)``."""
        return lazily(xs)

    # ---- statements

    def unpack(self, xs: Any, n: int, /) -> Any:
        """The iterable that *n* targets are assigned from."""
        return xs

    def unpack_star(self, xs: Any, before: int, after: int, /) -> Any:
        """The iterable of targets with a starred one among them."""
        return xs

    def context(self, c: Any, /) -> Any:
        """The context manager of a ``with`` statement."""
        return c

    def imported(self, module: str, name: str | None, value: Any, /) -> Any:
        """The value that an ``import`` has bound: a module, or *name* in it."""
        return value

    def returned(self, value: Any, /) -> Any:
        """The result of the function."""
        return value

    def loop(self, number: int, iterable: Any, /) -> Any:
        """``for``: *number* is the loop's in ``Copy.loops``."""
        return PythonFor(iterable.iterator if type(iterable) is Begun else iter(iterable))

    def while_loop(self, number: int, /) -> Any:
        return PythonWhile()


for _name in (*ARITHMETIC, *[f"i{name.rstrip('_')}" for name in ARITHMETIC], *COMPARED, *UNARY):
    setattr(Transparent, _name, staticmethod(getattr(operator, _name)))


def original(fn: Any) -> Any:
    """The user's function of which *fn* is the copy, or a method of it; *fn* itself where it is no copy."""
    if type(fn) is MethodType:
        return MethodType(original(fn.__func__), fn.__self__)
    if type(fn) is not FunctionType or OWN not in fn.__code__.co_freevars:
        return fn
    return (fn.__closure__ or ())[fn.__code__.co_freevars.index(OWN)].cell_contents.fn
