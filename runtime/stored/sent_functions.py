"""Functions that were sent to this process as code: each copy is answered by what an earlier copy has learned.

``cloudpickle`` (joblib, Dask, Ray, Spark) sends the functions of a script by their code, anew with each task, and each
arrives as another function, in a namespace of its own. So one *home* is kept for a code: a function of that code in a
namespace that nobody else has, and its compiled form. A copy that is called moves in: what it would read under a
global name or from its closure is put there, and its call is one of the home's. All that is proven of the home's state
counts as ever, since the objects are those of the copy, its arrays too. What the copy reads under its names is
compared in each call; who has moved in since, and whether a call is under way in another thread, is seen then, too.

Helpers that were sent as code have a place in the home, where code does nothing but call them: which object a function
is can be seen in no other way. Code that writes global names, looks at namespaces or frames, or makes functions, which
may outlive the call, stays with its copy.
"""

from __future__ import annotations

import dis
import functools
import weakref
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from ...tracer.convert.source import parts_of
from ...tracer.convert.uses import uses
from ...tracer.ir import forks
from ...tracer.ir.own_attributes import is_empty
from ..memo import MEMO
from ..mode import MISS, Mode
from ..recent import Recent
from ..state.values import unchanged
from ..wrapper import Wrapper, came_as_code, layers

_CODES = 128  # codes that have homes
_HOMES = 4  # of one code: copies that are called by turns, or in several threads
_PLACES = 32  # of functions under the names of one
_MISSING: Any = object()
# small, or nobody's data
_LASTING = (bool, int, float, complex, str, bytes, type(None), ModuleType, FunctionType, type)
_WRITES = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL"))
_CELL_WRITES = frozenset(("STORE_DEREF", "DELETE_DEREF"))
_CELL_READS = frozenset(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"))
_NAME_READS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))
_STAYS = frozenset(("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"))  # inner code that ends with the call
_SEES_NAMES = frozenset(
    "globals locals vars eval exec compile dir modules _getframe currentframe stack __globals__ __closure__".split()
)


class _Reads(NamedTuple):
    """The names that code reads outside, and for each whether it does nothing but call what it finds there."""

    names: dict[str, bool]
    cells: dict[str, bool]


@functools.lru_cache(maxsize=1024)
def _reads(code: CodeType) -> _Reads | None:
    """The reads of *code* and of the functions in it; None where it can't be in a home."""
    found, called = _Reads({}, {}), uses(code).called
    for part in parts_of(code):
        if part is not code and part.co_name not in _STAYS:
            return None  # a function that may be returned, and read names later
        if not _SEES_NAMES.isdisjoint(part.co_names):
            return None
        outside = set(code.co_freevars).intersection(part.co_freevars)
        for step in dis.get_instructions(part):
            name, reads = step.argval, None
            if step.opname in _WRITES or (step.opname in _CELL_WRITES and name in outside):
                return None
            if step.opname in _NAME_READS:
                reads = found.names
            elif step.opname in _CELL_READS and name in outside:
                reads = found.cells
            if reads is not None:
                reads[name] = name in called
    return found


def _same(a: Any, b: Any) -> bool:
    """Whether *b* may stay in the place of *a*: nothing tells them apart."""
    if type(a) is type(b) is tuple:
        return len(a) == len(b) and all(map(_same, a, b))
    return unchanged(a, b)


class _FunctionPlace:
    """The function of a home that stands for a sent one, and the places of those that it calls."""

    def __init__(self, fn: FunctionType) -> None:
        space = {name: value for name, value in fn.__globals__.items() if name.startswith("__")}
        cells = tuple([CellType() for _ in fn.__code__.co_freevars])
        # `__spec__`: as a module has it, since this one is not sent from here
        self.fn = FunctionType(fn.__code__, space | {"__spec__": None}, fn.__name__, None, cells)
        self.fn.__qualname__, self.fn.__module__, self.fn.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
        self.fn.__annotations__ = fn.__annotations__
        self.places: dict[tuple[str, CodeType], _FunctionPlace] = {}
        self.wrappers: dict[Any, Wrapper] = {}

    def fits(self, fn: FunctionType) -> bool:
        own = self.fn
        return (own.__code__, own.__code__.co_filename, own.__qualname__, own.__module__) == (
            fn.__code__, fn.__code__.co_filename, fn.__qualname__, fn.__module__
        )  # fmt: skip

    def forget(self) -> None:
        """Let go of data: its copy is gone."""
        space = self.fn.__globals__
        for name, value in list(space.items()):
            if not issubclass(type(value), (*_LASTING, Wrapper)) and not name.startswith("__"):
                space[name] = None
        for cell in self.fn.__closure__ or ():
            cell.cell_contents = None
        self.fn.__defaults__ = self.fn.__kwdefaults__ = None
        for place in self.places.values():
            place.forget()


class _Home:
    """The function of one code that is compiled for all copies. *guest*: the one that has moved in last."""

    def __init__(self, root: _FunctionPlace, compiled: Any) -> None:
        self.root, self.compiled = root, compiled
        self.lock = forks.lock()
        self.busy = False  # within a call
        self.kept = False  # for its guest, as long as that lives
        self.guest: object = None  # the token of a :class:`Guest`, which does not hold its data
        self.source: Any = None  # the guest's function

    def is_free(self, new: bool) -> bool:
        """Whether another guest may move in; *new*: one that has had no home yet, before which the last one goes."""
        gone = self.source is None or self.source() is None
        return not self.busy and (gone or (new and not self.kept))

    def left(self, source: Any) -> None:
        """The function of a guest is gone, and its data should be."""
        if self.lock.acquire(blocking=False):
            try:
                if self.source is source and not self.busy:
                    self.guest = None
                    self.root.forget()
            finally:
                self.lock.release()


_homes: Recent[Any, list[_Home]] = Recent(lambda: _CODES)


class _Move:
    """A copy's move into a *home*: what it reads is put there, and known of."""

    def __init__(self, home: _Home) -> None:
        self.home = home
        self._names: list[tuple[dict[str, Any], str, Any]] = []
        self._cells: list[tuple[CellType, Any]] = []
        self._functions: list[tuple[FunctionType, CodeType, Any, Any]] = []
        self._placed: dict[FunctionType, _FunctionPlace] = {}

    def holds(self) -> bool:
        """Whether the copy reads what it did when it was moved."""
        for space, name, value in self._names:
            if space.get(name, _MISSING) is not value:
                return False
        for cell, value in self._cells:
            if _content(cell) is not value:
                return False
        for fn, code, defaults, keywords in self._functions:
            if fn.__code__ is not code or fn.__defaults__ is not defaults or fn.__kwdefaults__ is not keywords:
                return False
        return True

    def fill(self, place: _FunctionPlace, fn: FunctionType) -> None:
        """Put what *fn* reads into its *place*."""
        self._placed[fn] = place
        reads = _reads(fn.__code__)
        assert reads is not None
        own, space = place.fn, place.fn.__globals__
        self._functions.append((fn, fn.__code__, fn.__defaults__, fn.__kwdefaults__))
        if not _same(own.__defaults__, fn.__defaults__):
            own.__defaults__ = fn.__defaults__
        if own.__kwdefaults__ is not fn.__kwdefaults__:
            own.__kwdefaults__ = fn.__kwdefaults__
        attributes = {name: value for name, value in fn.__dict__.items() if name != MEMO}
        for name in own.__dict__.keys() - attributes.keys() - {MEMO}:
            del own.__dict__[name]
        own.__dict__.update(attributes)
        for name, called in reads.names.items():
            value = fn.__globals__.get(name, _MISSING)
            self._names.append((fn.__globals__, name, value))
            if value is _MISSING:
                space.pop(name, None)
                continue
            value = self._stand_in(place, name, value) if called else value
            if not _same(space.get(name, _MISSING), value):
                space[name] = value
        for name, cell, here in zip(fn.__code__.co_freevars, fn.__closure__ or (), own.__closure__ or (), strict=True):
            value = _content(cell)
            self._cells.append((cell, value))
            value = self._stand_in(place, f"{name} (closure)", value) if reads.cells.get(name) else value
            if value is _MISSING:
                del here.cell_contents
            elif not _same(_content(here), value):
                here.cell_contents = value

    def _stand_in(self, place: _FunctionPlace, name: str, value: Any) -> Any:
        """The stand-in in the home for a *value* that is only called there: itself, or the function of its place."""
        if isinstance(value, Wrapper):
            inner = value.__wrapped__
            found = self._stand_in(place, name, inner)
            if found is inner:
                return value
            key = (type(value), value._tracegrad_settings(), found)
            if not _hashable(key):
                return value
            return place.wrappers.get(key) or _kept(place.wrappers, key, value._tracegrad_rebuild(found))
        if type(value) is not FunctionType or not came_as_code(value) or _reads(value.__code__) is None:
            return value
        known = self._placed.get(value)
        if known is None:
            under = (name, value.__code__)
            known = place.places.get(under)
            if known is None or not known.fits(value) or known in self._placed.values():
                known = _kept(place.places, under, _FunctionPlace(value))
            self.fill(known, value)
        return known.fn


class Guest:
    """A copy of a function, which was sent here: how its calls are answered by a home."""

    def __init__(self, compiled: Any) -> None:
        *wrappers, self._fn = layers(compiled)
        self._wrappers = [weakref.ref(wrapper) for wrapper in wrappers]
        self._token = object()
        self._home: _Home | None = None
        self._moved: _Move | None = None

    def answer(self, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer to a call, or ``MISS`` where there is no home for it."""
        home = self._home
        if home is None or home.guest is not self._token or not home.lock.acquire(blocking=False):
            home = self._another()
        elif not home.busy and not (self._moved and self._moved.home is home and self._moved.holds()):
            home.guest = None
            if not home.root.fits(self._fn):  # its code was replaced
                home.lock.release()
                self._home, home = None, self._another()
        if home is None:
            return MISS
        if home.busy:
            home.lock.release()
            return MISS
        home.busy = True
        try:
            if home.guest is not self._token:
                home.source = weakref.ref(self._fn, home.left)
                moved = _Move(home)
                moved.fill(home.root, self._fn)
                home.compiled.count_for(self._outermost.stats)
                self._moved, home.guest = moved, self._token
            compiled = home.compiled
            endpoint = compiled.endpoint(mode)
            found = endpoint.first(args, kwargs)
            return found if found is not MISS else compiled._dispatcher.others(endpoint, args, kwargs)
        finally:
            home.busy = False
            home.lock.release()

    @property
    def _outermost(self) -> Any:
        return self._wrappers[0]()  # which is being called, and holds the others

    def _another(self) -> _Home | None:
        """A home in which this copy can move, whose lock is held; None if there is none."""
        fn = self._fn
        wrappers = [wrapper for wrapper in (reference() for reference in self._wrappers) if wrapper is not None]
        settings = [(type(wrapper), wrapper._tracegrad_settings()) for wrapper in wrappers]
        key = (fn.__code__, fn.__code__.co_filename, fn.__module__, fn.__qualname__, *settings)
        if not _hashable(key):
            return None
        with _homes.lock:
            homes = _homes.find(key)
            if homes is None:
                if _reads(self._fn.__code__) is None:
                    return None
                homes = _homes.keep(key, [])
            back = self._home is not None  # another has moved in meanwhile: they are called by turns
            for home in homes:
                if home.lock.acquire(blocking=False):
                    if home.is_free(new=not back):
                        break
                    home.lock.release()
            else:
                if len(homes) >= _HOMES:
                    return None
                root = _FunctionPlace(self._fn)
                home = _Home(root, self._wrapped(root.fn))
                home.lock.acquire()
                homes.append(home)
            home.kept, home.guest = back, None
            self._home = home
            return home

    def _wrapped(self, fn: Any) -> Any:
        """*fn* with the wrappers of this copy's function."""
        for reference in reversed(self._wrappers):
            wrapper = reference()
            assert wrapper is not None
            fn = wrapper._tracegrad_rebuild(fn)
        return fn


def _kept(places: dict[Any, Any], key: Any, made: Any) -> Any:
    """*made*, which is the entry of *key* from now on, among a few."""
    if len(places) >= _PLACES:
        places.clear()
    places[key] = made
    return made


def _hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def _content(cell: CellType) -> Any:
    return _MISSING if is_empty(cell) else cell.cell_contents
