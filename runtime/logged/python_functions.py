"""Builtins, and functions of ``operator`` and ``functools``, that ask the run: they would ask objects by themselves."""

from __future__ import annotations

import functools
import operator
import types
import warnings
from collections.abc import Callable
from typing import Any

from ...tracer.ir.site import FOR_THE_USER
from ...tracer.loops.items import length
from ...tracer.loops.iterables import symbolic_range
from ..state.kept_list import LENGTH
from .attributes import found_in, load
from .callees import own_answer
from .kinds import PLAIN, TRACED
from .reads import CONTAINERS, METACLASSES
from .writes import WrittenItems


def _len(run: Any, x: Any) -> int:
    kind = type(x)
    if kind is list and (node := run.reads.node_of(x)) is not None and node.kind != "argument":
        entry = run.writes.get(id(x))
        if not isinstance(entry, WrittenItems) or entry.whole is None:
            found = run.reads.read(node, LENGTH, LENGTH, len(x), f"len({node.label})")
            return found + length(run.recorder, entry.tail) if isinstance(entry, WrittenItems) else found
    if kind in CONTAINERS:
        return length(run.recorder, run.current(x))
    if kind in PLAIN or run.reads.library(kind):
        return len(x)
    if found_in(kind, "__len__")[0] in (tuple, None):
        return len(x)
    return operator.index(run.special(x, "__len__"))


def _getattr(run: Any, obj: Any, name: str, *default: Any) -> Any:
    if type(name) is not str:
        raise run.refuse("getattr() with a name that is no text")
    try:
        if type(obj) in TRACED:
            return own_answer(getattr)(obj, name)
        return getattr(obj, name) if type(obj) in PLAIN else load(run, obj, name)
    except AttributeError:
        if not default:
            raise
        return default[0]


def _hasattr(run: Any, obj: Any, name: str) -> bool:
    if type(obj) in TRACED:
        return bool(own_answer(hasattr)(obj, name))
    missing = object()
    return _getattr(run, obj, name, missing) is not missing


def _isinstance(run: Any, obj: Any, classes: Any) -> bool:
    for cls in classes if type(classes) is tuple else getattr(classes, "__args__", (classes,)):
        if type(cls) not in METACLASSES:
            raise run.refuse("isinstance() of a class that answers by itself")
        if isinstance(cls, type) and not run.reads.trust.cls(cls):
            run.reads.pin(cls)
    if type(obj) in TRACED:
        return isinstance(obj, classes)
    if not run.reads.trust.cls(type(obj)):
        run.reads.pin(type(obj))
    return isinstance(obj, classes)


def _type(run: Any, *args: Any) -> Any:
    if len(args) != 1:
        raise run.refuse("a class that is made")
    if type(args[0]) in TRACED:
        return own_answer(type)(*args)
    kind = type(args[0])
    return kind if run.reads.trust.cls(kind) else run.seen(kind, kind.__name__)


def _of_iterables(builtin: Any) -> Callable[..., Any]:
    def call(run: Any, *args: Any, **kwargs: Any) -> Any:
        return run.made(builtin(*[run.iterable(x) for x in args], **kwargs))

    return call


def _of_function(builtin: Any) -> Callable[..., Any]:
    def call(run: Any, function: Any, *args: Any) -> Any:
        own = own_answer(builtin)
        if builtin is filter and (function is None or function is bool):
            return run.made(filter(run.test, run.iterable(*args)))
        return run.made((own or builtin)(_callback(run, function), *[run.iterable(x) for x in args]))

    return call


def _callback(run: Any, function: Any) -> Any:
    """*function*, to be called by C."""
    if function is None:
        return None
    return lambda *args, **kwargs: run.call(function, *args, **kwargs)


def _by_order(builtin: Any) -> Callable[..., Any]:
    """``sorted``, ``min`` and ``max``: of numbers and the like, or by a key of these."""

    def call(run: Any, *args: Any, key: Any = None, **kwargs: Any) -> Any:
        own = own_answer(builtin) or builtin
        values = [run.iterable(args[0])] if len(args) == 1 else list(args)
        if key is not None:
            return own(*values, key=lambda x: run.handed(run.call(key, x), False), **kwargs)
        if len(args) == 1:
            values = [list(values[0])]
        for x in values[0] if len(args) == 1 else values:
            run.handed(x, False)
        return own(*values, **kwargs)

    return call


def _sum(run: Any, values: Any, *start: Any, **kwargs: Any) -> Any:
    values = list(run.iterable(values))
    for x in values:
        run.handed(x, False)
    return (own_answer(sum) or sum)(values, *start, **kwargs)


def _reduce(run: Any, function: Any, values: Any, *start: Any) -> Any:
    return functools.reduce(_callback(run, function), run.iterable(values), *start)


def _partial(run: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    return functools.partial(function, *args, **kwargs)


def _iter(run: Any, obj: Any, *sentinel: Any) -> Any:
    if sentinel:
        return iter(_callback(run, obj), *sentinel)
    return run.made(iter(run.iterable(obj)))


def _next(run: Any, it: Any, *default: Any) -> Any:
    if run.reads.node_of(it) is not None or not run.reads.trust.cls(type(it)):
        raise run.refuse("next() of an iterator")
    run.changes(it)
    return next(it, *default)


def _callable(run: Any, obj: Any) -> bool:
    return callable(obj)


def _bool(run: Any, x: Any = False) -> bool:
    return run.test(x)


def _range(run: Any, *bounds: Any) -> Any:
    return run.made(symbolic_range(run.recorder, *[run.handed(x, False) for x in bounds]))


def _setattr(run: Any, obj: Any, name: str, value: Any) -> None:
    if type(name) is not str:
        raise run.refuse("setattr() with a name that is no text")
    run.frame.set_attr(value, obj, name)


def _delattr(run: Any, obj: Any, name: str) -> None:
    if type(name) is not str:
        raise run.refuse("delattr() with a name that is no text")
    run.frame.del_attr(obj, name)


def _vars(run: Any, obj: Any) -> Any:
    if isinstance(obj, type | types.ModuleType):
        raise run.refuse("vars() of a class or module")
    return run.frame.attr(obj, "__dict__")


def _filter_warnings(function: Any) -> Callable[..., Any]:
    """``warnings.simplefilter`` and ``filterwarnings``, in a context that takes back what they do."""

    def call(run: Any, *args: Any, **kwargs: Any) -> None:
        action = args[0] if args else kwargs.get("action")
        if not run.quiet or action != "ignore":
            raise run.refuse(f"warnings.{function.__name__}()")
        run.handing(function, args, kwargs, False)

    return call


def _dict(run: Any, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 1:
        return run.made(dict(*args, **kwargs))
    (given,) = args
    kind = type(given)
    if kind in CONTAINERS and issubclass(kind, dict):
        return run.made({**run.parts_of(given), **kwargs})
    if kind not in CONTAINERS and kind not in PLAIN and not hasattr(kind, "__next__") and hasattr(given, "keys"):
        raise run.refuse(f"a dict of an object of the class {kind.__qualname__}")
    pairs: Any = [x if type(x) is str else tuple(run.iterable(x)) for x in run.iterable(given)]
    for pair in pairs:
        run.check_key(pair[0] if pair else None)
    return run.made(dict(pairs, **kwargs))


def _set_of(kind: Any) -> Callable[..., Any]:
    def call(run: Any, *args: Any) -> Any:
        values = [list(run.iterable(x)) for x in args]
        for x in values[0] if values else ():
            run.check_key(x)
        return run.made(kind(*values))

    return call


_REVERSED = {*PLAIN, dict, set, frozenset}  # that `reversed` may look at, or that it refuses
HANDLERS: dict[int, Callable[..., Any]] = {
    id(len): _len, id(getattr): _getattr, id(hasattr): _hasattr, id(isinstance): _isinstance,
    id(issubclass): lambda run, *args: issubclass(*args), id(type): _type, id(callable): _callable,
    id(bool): _bool, id(range): _range, id(setattr): _setattr, id(delattr): _delattr, id(vars): _vars,
    id(iter): _iter, id(next): _next, id(sum): _sum,
    id(enumerate): lambda run, x, *start, **k: run.made(enumerate(run.iterable(x), *start, **k)),
    id(zip): _of_iterables(zip), id(map): _of_function(map), id(filter): _of_function(filter),
    id(reversed): lambda run, x: run.made(reversed(x if type(x) in _REVERSED else run.iterable(x))),
    id(sorted): _by_order(sorted), id(min): _by_order(min), id(max): _by_order(max),
    id(super): lambda run, *parts: super(*parts),
    id(any): lambda run, x: any(map(run.test, run.iterable(x))),
    id(all): lambda run, x: all(map(run.test, run.iterable(x))),
    id(dict): _dict, id(set): _set_of(set), id(frozenset): _set_of(frozenset),
    id(list): lambda run, *x: run.made(list(*map(run.iterable, x))),
    id(tuple): lambda run, *x: tuple(*map(run.iterable, x)),
    id(operator.is_): lambda run, a, b: run.frame.is_(a, b),
    id(operator.is_not): lambda run, a, b: not run.frame.is_(a, b),
    id(operator.contains): lambda run, a, b: run.frame.in_(b, a),
    id(operator.getitem): lambda run, a, b: run.item(a, b),
    id(operator.truth): lambda run, x: run.test(x), id(operator.not_): lambda run, x: not run.test(x),
    id(operator.mod): lambda run, a, b: run.frame.mod(a, b),
    id(warnings.simplefilter): _filter_warnings(warnings.simplefilter),
    id(warnings.filterwarnings): _filter_warnings(warnings.filterwarnings),
    id(functools.reduce): _reduce, id(functools.partial): _partial,
}  # fmt: skip

FOR_THE_USER.add(__file__)
