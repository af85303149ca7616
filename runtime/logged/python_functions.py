"""Builtins, and functions of ``operator`` and ``functools``, that ask the run: they would ask objects by themselves."""

from __future__ import annotations

import copy
import copyreg
import decimal
import enum
import functools
import inspect
import itertools
import logging
import operator
import types
import typing
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tracer.ir.class_flags import HEAP_TYPE
from ...tracer.ir.own_attributes import dict_of, slots
from ...tracer.ir.refusals import Refusal
from ...tracer.ir.site import FOR_THE_USER
from ...tracer.loops.items import length
from ...tracer.loops.iterables import RowOfLists, symbolic_range
from ...tracer.numpy_api.python_builtins import plain_like
from ...tracer.record.array import STAND_INS, TracedArray
from ...tracer.record.integers import TracedInt
from ...tracer.record.made_arrays import MadeArray
from ...tracer.record.shown_names import own_answer
from ...tracer.record.shown_text import TextOfValues
from ..record.asked import InOrder, alone, asked, float_of, judged
from ..record.kinds import EAGER, PLAIN, TRACED, has_known_text
from ..state.libraries import DECIMAL
from ..state.state_graph import LENGTH
from .attributes import found_in, load
from .in_python import Callback, added
from .reads import CONTAINERS, METACLASSES, PROTOCOLS
from .texts import format_of, has_own_text, print_, text_of, warn
from .writes import WrittenItems


def _len(run: Any, x: Any) -> Any:
    if type(x) is RowOfLists:
        return x.size
    kind = type(x)
    run.check_text(x)
    if kind is list and (node := run.reads.node_of(x)) is not None and node.kind != "argument":
        entry = run.writes.get(id(x))
        if not isinstance(entry, WrittenItems) or entry.whole is None:
            found = run.reads.read(node, LENGTH, LENGTH, len(x), f"len({node.label})")
            if entry is None:
                run.looked_at(x)
            return found + length(run.recorder, entry.tail) if isinstance(entry, WrittenItems) else found
    if kind in CONTAINERS:
        return length(run.recorder, run.now(x) if kind is list else run.current(x))
    if kind in PLAIN or run.reads.library(kind):
        return len(x)
    if found_in(kind, "__len__")[0] in (tuple, None):
        return len(x)
    found = run.special(x, "__len__")
    return found if type(found) is TracedInt else judged(len, "__len__", x, found)


def _name(run: Any, builtin: Any, name: Any) -> str:
    if type(name) is not str:
        raise run.refuse(f"{builtin.__name__}() with a name that is no text")
    return name


def _getattr(run: Any, obj: Any, name: str, *default: Any) -> Any:
    name = _name(run, getattr, name)
    try:
        if type(obj) in TRACED:
            return own_answer(getattr)(obj, name)
        plain = type(obj) in PLAIN and type(obj) not in EAGER
        return getattr(obj, name) if plain else load(run, obj, name)
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
        if type(cls) is PROTOCOLS:
            _asks_members(run, obj, cls)
        elif type(cls) not in METACLASSES:
            raise run.refuse("isinstance() of a class that answers by itself")
        run.reads.asks_registered(type(obj), cls)
        if isinstance(cls, type) and not run.reads.trust.cls(cls):
            run.reads.pin(cls)
    if type(obj) in TRACED:
        return isinstance(plain_like(obj, classes), classes)
    if not run.reads.trust.cls(type(obj)):
        run.reads.pin(type(obj))
    return isinstance(obj, classes)


def _asks_members(run: Any, obj: Any, protocol: Any) -> None:
    """Read what decides whether *obj* has all that a protocol asks for."""
    kind = type(obj)
    if kind in PLAIN and kind not in STAND_INS:
        return
    known = run.reads.library(kind)
    if kind in STAND_INS or run.writes.get(id(obj)) is not None:
        raise run.refuse("isinstance() of a class that answers by itself")
    if known and dict_of(obj) is None:
        return
    if not known:
        run.reads.pin(kind)
    for name in typing._get_protocol_attrs(protocol):  # type: ignore[attr-defined]
        run.reads.names(name)
        if found_in(kind, name)[0] is None:
            _hasattr(run, obj, name)


def _issubclass(run: Any, cls: Any, classes: Any) -> bool:
    for other in classes if type(classes) is tuple else getattr(classes, "__args__", (classes,)):
        if type(other) not in METACLASSES:
            raise run.refuse("issubclass() of a class that answers by itself")
        run.reads.asks_registered(cls, other)
    return issubclass(cls, classes)


def _type(run: Any, *args: Any) -> Any:
    if len(args) != 1:
        raise run.refuse("a class that is made")
    if type(args[0]) in TRACED:
        return own_answer(type)(*args)
    kind = type(args[0]) if type(args[0]) is not TextOfValues else str
    return kind if run.reads.trust.cls(kind) else run.seen(kind, kind.__name__)


def _of_function(builtin: Any) -> Callable[..., Any]:
    def call(run: Any, function: Any, *args: Any) -> Any:
        own = own_answer(builtin)
        if builtin is filter and (function is None or function is bool):
            return run.made(filter(run.test, run.iterable(*args)))
        return run.made((own or builtin)(_callback(run, function), *[run.iterable(x) for x in args]))

    return call


def _of_itertools(function: Any) -> Callable[..., Any]:
    """An iterator of ``itertools``: over what is outside as the run has it, with calls and questions as the run does
    them."""
    called = 0 if function in _BY_QUESTION else 1 if function is itertools.accumulate else -1  # the place of a function

    def given(run: Any, place: int | str, x: Any) -> Any:
        if type(x) in PLAIN:
            return x
        if place != called:
            return run.iterable(x)
        callback = Callback(run, x)
        return (lambda value: run.test(callback(value))) if function in _BY_QUESTION else callback

    def call(run: Any, /, *args: Any, **kwargs: Any) -> Any:
        own = own_answer(function) or function
        values = [given(run, place, x) for place, x in enumerate(args)]
        if function is itertools.accumulate and len(args) == 1 and "func" not in kwargs:
            values.append(Callback(run, operator.add))
        places = {name: called if name == "func" else name for name in kwargs if name not in ("fillvalue", "initial")}
        named = {name: given(run, places[name], x) if name in places else x for name, x in kwargs.items()}
        return run.made(own(*values, **named))

    return call


def _pairwise(run: Any, values: Any, /) -> Any:
    values = run.iterable(values)
    if type(values) in (TracedArray, np.ndarray, MadeArray) and values.ndim:
        later = values[1:]
        return run.made(zip(values, later, strict=False))  # which a loop can take apart
    return run.made(itertools.pairwise(values))


_BY_QUESTION = (itertools.takewhile, itertools.dropwhile, itertools.filterfalse)
_ITERTOOLS = (
    *_BY_QUESTION, itertools.accumulate, itertools.chain, itertools.combinations,
    itertools.combinations_with_replacement, itertools.cycle, itertools.islice, itertools.permutations,
    itertools.product, itertools.tee, itertools.zip_longest,
)  # fmt: skip


def _callback(run: Any, function: Any) -> Any:
    """*function*, to be called by C."""
    return None if function is None else Callback(run, function)


def in_order(run: Any, x: Any) -> Any:
    """*x*, to be compared with others by code in C."""
    return InOrder(run, x) if run.is_users(x) else run.handed(x, False)


def _by_order(builtin: Any) -> Callable[..., Any]:
    """``sorted``, ``min`` and ``max``: of numbers and the like, or by a key of these."""

    def call(run: Any, /, *args: Any, key: Any = None, **kwargs: Any) -> Any:
        own = own_answer(builtin) or builtin
        if key is None and len(args) == 1 and type(args[0]) in _SETS and all(type(x) is str for x in args[0]):
            args = (list(args[0]),)  # the order in which they come does not count
        values = [run.iterable(run.gathered(args[0]))] if len(args) == 1 else list(args)
        if key is not None:
            return own(*values, key=lambda x: in_order(run, run.call(key, x)), **kwargs)
        if len(args) == 1:
            values = [list(values[0])]
        if any(map(run.is_users, values[0] if len(args) == 1 else values)):
            return own(*values, key=lambda x: in_order(run, x), **kwargs)
        for x in values[0] if len(args) == 1 else values:
            run.handed(x, False)
        return own(*values, **kwargs)

    return call


_NUMBERS, _NOTHING = (int, float), object()


def _sum(run: Any, values: Any, /, *start: Any, **kwargs: Any) -> Any:
    (first,) = start or (kwargs.get("start", 0),)
    if kwargs.keys() - {"start"} or (start and kwargs) or isinstance(first, str | bytes | bytearray):
        return sum(run.iterable(values), *start, **kwargs)  # an error
    if type(values) in (list, tuple) and all(type(x) in _NUMBERS for x in run.iterable(values)):
        return sum(run.iterable(values), first)
    return run.folded(run.python(added), values, first)


def _reduce(run: Any, function: Any, values: Any, *start: Any) -> Any:
    if len(start) != 1:
        values = iter(run.iterable(run.gathered(values)))
        start = (next(values, _NOTHING),)
        if start[0] is _NOTHING:
            return functools.reduce(function, ())  # an error
    return run.folded(function, values, *start)


def _iter(run: Any, obj: Any, *sentinel: Any) -> Any:
    if sentinel:
        return iter(_callback(run, obj), *sentinel)
    return run.made(alone(iter(run.iterable(obj))))


def _next(run: Any, it: Any, *default: Any) -> Any:
    if run.is_users(it):
        return next(asked(run, it, "__next__"), *default)
    if run.reads.node_of(it) is not None or not run.reads.trust.cls(type(it)):
        raise run.refuse("next() of an iterator")
    run.changes(it)
    return next(it, *default)


def _vars(run: Any, obj: Any) -> Any:
    if isinstance(obj, type | types.ModuleType):
        raise run.refuse("vars() of a class or module", Refusal.CALLS_NAMES)
    return run.frame.attr(obj, "__dict__")


def _filter_warnings(function: Any) -> Callable[..., Any]:
    """``warnings.simplefilter`` and ``filterwarnings``, in a context that takes back what they do."""

    def call(run: Any, /, *args: Any, **kwargs: Any) -> None:
        action = args[0] if args else kwargs.get("action")
        if not run.quiet or action != "ignore":
            raise run.refuse(f"warnings.{function.__name__}()")
        run.handing(function, args, kwargs, False)

    return call


def _get_logger(run: Any, name: Any = None) -> Any:
    if not (name is None or type(name) is str):
        raise run.refuse("logging.getLogger()")
    return run.seen(logging.getLogger(name), f"logging.getLogger({'' if name is None else repr(name)})")


def _get_context(run: Any) -> Any:
    run.reads.depends(DECIMAL)
    return decimal.getcontext().copy()  # into which nothing is written


def _dict(run: Any, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 1:
        return run.made(dict(*args, **kwargs))
    (given,) = args
    kind = type(given)
    if kind in CONTAINERS and issubclass(kind, dict):
        return run.made({**run.parts_of(given), **kwargs})
    node = run.reads.node_of(given)
    if node is not None and node.kind == "known":  # the environment, which is compared as a whole
        return run.made(dict(given, **kwargs))
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


def _question(function: Any) -> Callable[..., Any]:
    """A function that answers by the class of what it gets."""
    return lambda run, x: function(x) if type(x) not in TRACED else run.handing(function, (x,), {}, False)


_OF_KINDS = (
    inspect.isfunction, inspect.ismethod, inspect.isclass, inspect.isbuiltin, inspect.ismodule,
    inspect.isgeneratorfunction,
)  # fmt: skip


def _copy(run: Any, x: Any) -> Any:
    kind = type(x)
    if kind in CONTAINERS:
        return x if kind in (tuple, frozenset) else run.made(copy.copy(run.shallow(x)))
    if _is_copied_by_parts(run, x, "__deepcopy__"):
        return _copied(run, x, None)
    if not run.reads.library(kind) and type(found_in(kind, "__copy__")[1]) is types.FunctionType:
        return run.special(x, "__copy__")
    return run.handing(copy.copy, (x,), {}, False)


def _deepcopy(run: Any, x: Any, *memo: Any) -> Any:
    return run.handing(copy.deepcopy, (x, *memo), {}, False) if memo else _deep(run, x, {})


_OF_STATES = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__")
_OF_COPIES = ("__copy__", "__deepcopy__", "__getnewargs__", "__getnewargs_ex__", "__getattr__")


def _is_copied_by_parts(run: Any, x: Any, other: str) -> bool:
    """Whether a copy of *x* is another object of its class with the same attributes; the method *other* makes copies of
    another kind."""
    kind = type(x)
    if kind in TRACED or run.reads.library(kind) or isinstance(x, type | types.FunctionType | enum.Enum):
        return False
    store = dict_of(x)
    if type(store) is not dict or not store.keys().isdisjoint((*_OF_COPIES, *_OF_STATES)):
        return False
    run.reads.pin(kind)
    for name in (*_OF_COPIES, *_OF_STATES):
        run.reads.names(name)
    own = [found_in(kind, name)[0] for name in _OF_STATES]
    hooks = [found_in(kind, name)[0] for name in _OF_COPIES if name != other]
    in_c = not all(base.__flags__ & HEAP_TYPE for base in kind.__mro__[:-1])  # and holds more than attributes
    plain = all(base in (object, types.SimpleNamespace, None) for base in own) and not any(hooks)
    plain = plain and (kind is types.SimpleNamespace or not in_c)
    return plain and kind not in copyreg.dispatch_table and not slots(kind)


def _copied(run: Any, x: Any, memo: dict[int, Any] | None) -> Any:
    """A copy of an object; with *memo* of what it holds, too."""
    kind: Any = type(x)
    made = run.made(kind() if kind is types.SimpleNamespace else object.__new__(kind))
    node = run.reads.node_of(x)
    copyreg._slotnames(type(x))  # type: ignore[attr-defined]  # which `copy` leaves in the class
    names: Any = dict_of(x) if node is None else run.frame.attr(x, "__dict__")
    if node is not None and run.writes.get(id(x)) is not None:
        raise run.refuse("a copy of an object that the run has changed")
    if memo is not None:
        memo[id(x)] = made, x
    for name, value in names.items():
        value = value if node is None else run.part(run.reads.node_of(names), "key", name, value)
        made.__dict__[name] = value if memo is None else _deep(run, value, memo)
    return made


def _deep(run: Any, x: Any, memo: dict[int, Any]) -> Any:
    kind = type(x)
    if id(x) in memo:
        return memo[id(x)][0]
    if kind in (list, dict, deque, set):
        now = run.shallow(x)
        if kind is set:
            return run.handing(copy.deepcopy, (now,), {}, False)
        made: Any = run.made(kind() if kind is not deque else deque(maxlen=x.maxlen))
        memo[id(x)] = made, x
        if kind is dict:
            made.update({_deep(run, key, memo): _deep(run, value, memo) for key, value in now.items()})
        else:
            made.extend([_deep(run, value, memo) for value in now])
        return made
    if kind is tuple:
        found = [_deep(run, value, memo) for value in run.iterable(x)]
        return x if all(map(operator.is_, found, x)) else tuple(found)
    if _is_copied_by_parts(run, x, "__copy__"):
        return _copied(run, x, memo)
    if isinstance(x, type | types.FunctionType | enum.Enum):
        return x
    return run.handing(copy.deepcopy, (x,), {}, False)


def _str(run: Any, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs and _has_text(run, args[0]):
        return text_of(run, args[0])
    return run._natively(str, args, kwargs, False)


def _repr(run: Any, x: Any) -> Any:
    return text_of(run, x, repr, "__repr__") if _has_text(run, x) else run._natively(repr, (x,), {}, False)


def _format(run: Any, x: Any, *spec: Any) -> Any:
    known = has_known_text(run, x) or not _has_text(run, x)
    return run._natively(format, (x, *spec), {}, False) if known else format_of(run, x, "", *spec or ("",))


def _has_text(run: Any, x: Any) -> bool:
    """Whether the text of *x* is made of the run's values, or by code of the user's."""
    kind = type(x)
    if kind in TRACED or kind in (TextOfValues, list, tuple, dict, np.ndarray) or has_own_text(run, kind):
        return True
    return isinstance(x, np.generic | BaseException)


def _reversed(run: Any, x: Any) -> Any:
    kind = type(x)
    if kind in _REVERSED or kind in CONTAINERS or run.reads.library(kind):
        return run.made(reversed(x if kind in _REVERSED else run.iterable(x)))
    run.reads.pin(kind)
    for name in ("__reversed__", "__len__", "__getitem__"):
        run.reads.names(name)
    homes = [found_in(kind, name)[0] for name in ("__reversed__", "__len__", "__getitem__")]
    if homes == [None, tuple, tuple]:
        return run.made(reversed(run.iterable(x)))
    return run.made(reversed(asked(run, x, "__reversed__", "__len__", "__getitem__")))


def _float(run: Any, *x: Any) -> Any:
    if len(x) == 1 and run.is_users(x[0]) and type(found_in(type(x[0]), "__float__")[1]) is types.FunctionType:
        return float_of(run, x[0])
    return run.call_own(own_answer(float), float, x, {})


_SETS = (set, frozenset)
_REVERSED = {*PLAIN, set, frozenset}  # that `reversed` may look at, or that it refuses
HANDLERS: dict[int, Callable[..., Any]] = {
    id(len): _len, id(getattr): _getattr, id(hasattr): _hasattr, id(isinstance): _isinstance,
    id(issubclass): _issubclass, id(type): _type, id(callable): lambda run, x: callable(x),
    id(bool): lambda run, x=False: run.test(x), id(vars): _vars,
    id(range): lambda run, *args: run.made(symbolic_range(run.recorder, *[run.handed(x, False) for x in args])),
    id(setattr): lambda run, obj, name, value: run.frame.set_attr(value, obj, _name(run, setattr, name)),
    id(delattr): lambda run, obj, name: run.frame.del_attr(obj, _name(run, delattr, name)),
    id(iter): _iter, id(next): _next, id(sum): _sum, id(float): _float,
    id(enumerate): lambda run, x, *start, **k: run.made(enumerate(run.iterable(x), *start, **k)),
    id(zip): lambda run, *xs, strict=False: run.made(zip(*map(run.iterable, xs), strict=strict)),
    id(map): _of_function(map), id(filter): _of_function(filter),
    id(reversed): _reversed,
    id(sorted): _by_order(sorted), id(min): _by_order(min), id(max): _by_order(max),
    **{id(f): _question(f) for f in _OF_KINDS},
    id(copy.copy): _copy, id(copy.deepcopy): _deepcopy,
    id(super): lambda run, *parts: super(*parts),
    id(any): lambda run, x: any(map(run.test, run.iterable(x))),
    id(all): lambda run, x: all(map(run.test, run.iterable(x))),
    id(print): print_, id(str): _str, id(repr): _repr, id(format): _format,
    id(dict): _dict, id(set): _set_of(set), id(frozenset): _set_of(frozenset),
    id(list): lambda run, *x: run.made(list(*[run.iterable(run.gathered(one)) for one in x])),
    id(tuple): lambda run, *x: tuple(*[run.iterable(run.gathered(one)) for one in x]),
    id(operator.is_): lambda run, a, b: run.frame.is_(a, b),
    id(operator.is_not): lambda run, a, b: not run.frame.is_(a, b),
    id(operator.contains): lambda run, a, b: run.frame.in_(b, a),
    id(operator.getitem): lambda run, a, b: run.item(a, b),
    id(operator.setitem): lambda run, a, b, value: run.frame.set_item(value, a, b),
    id(operator.delitem): lambda run, a, b: run.frame.del_item(a, b),
    id(operator.truth): lambda run, x: run.test(x), id(operator.not_): lambda run, x: not run.test(x),
    id(operator.mod): lambda run, a, b: run.frame.mod(a, b),
    id(warnings.warn): warn, id(logging.getLogger): _get_logger,
    id(decimal.getcontext): _get_context,
    id(warnings.simplefilter): _filter_warnings(warnings.simplefilter),
    id(warnings.filterwarnings): _filter_warnings(warnings.filterwarnings),
    **{id(f): _of_itertools(f) for f in _ITERTOOLS}, id(itertools.pairwise): _pairwise,
    id(itertools.starmap): lambda run, f, values: run.made(
        itertools.starmap(Callback(run, f), map(run.iterable, run.iterable(values)))
    ),
    id(itertools.compress): lambda run, values, selectors: run.made(
        itertools.compress(run.iterable(values), map(run.test, run.iterable(selectors)))
    ),
    id(functools.reduce): _reduce,
    id(functools.partial): lambda run, f, /, *args, **k: functools.partial(f, *args, **k),
}  # fmt: skip
CLASS_METHODS: dict[tuple[type, str], Callable[..., Any]] = {
    (itertools.chain, "from_iterable"): lambda run, values: run.made(
        itertools.chain.from_iterable(map(run.iterable, run.iterable(values)))
    ),
}

FOR_THE_USER.add(__file__)
