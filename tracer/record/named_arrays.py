"""Plain arrays whose making nothing tells, known by the names that the user's code gives them.

Traced values are written into an array of a random generator, of ``np.mgrid``, of ``make(3)`` with ``make = np.zeros``.
Where that has been refused, the run is made again line by line: before each statement of the user's, a plain array to
which nothing but a local variable (or a list or object there) refers is replaced by a ``MadeArray`` with that name as
its place.  What else refers to an array would not see what is written, so others stay as they are.  Methods of those
are called through ``bytecode/method_calls.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np

from ..bytecode.array_places import CallPlace, behind_stores, loads_pending, name_site
from ..bytecode.method_calls import exchange, exchange_value, method_calls, method_loads
from ..bytecode.records import dict_of
from ..bytecode.versions import FORM, PYTHON
from ..ir.aval import SUPPORTED
from ..ir.errors import MutationError, TracegradError
from ..ir.interrupts import kept
from ..ir.site import Site, is_internal
from .array import is_traced, to_atom, wrap_array
from .made_arrays import MadeArray, is_traced_at, made
from .recorder import current_recorder

_by_lines: WeakSet[CodeType] = WeakSet()  # functions whose runs are made line by line
_tried: WeakSet[CodeType] = WeakSet()  # functions of which one run has been, to see if that helps
_seen: WeakKeyDictionary[CodeType, set[int]] = WeakKeyDictionary()  # calls and loads of methods that runs have made
_SHARED = (
    "a traced value cannot be written into this plain NumPy array{}: something else shows its memory, too (another "
    "name of it, a view, an object, code in C), and would not see the value; write into a copy: z = z.copy()"
)
_IMPORTS = "<frozen importlib._bootstrap>"
_MOST_ITEMS = 64  # of a list or an object that is looked through
_HEAP_TYPE = 1 << 9  # the flag of a class that Python code has made


def _code_of(fn: Any) -> CodeType | None:
    """The code of the function that *fn* is, or that it is made of: by a transform, or ``functools.partial``."""
    while not hasattr(fn, "__code__"):
        inner = getattr(fn, "func", None) or getattr(fn, "__wrapped__", None)
        if inner is None or inner is fn:
            return None
        fn = inner
    return fn.__code__


def _trace_again(before: Any) -> None:
    if isinstance(getattr(sys.gettrace(), "__self__", None), ByLines):
        sys.settrace(before)


kept(sys.gettrace, _trace_again)


class ByLines:
    """A context for a run of *fn*: line by line, if that has been asked for.

    Of a function whose runs can't be made again (*once*) the first one is so, too, to see if it is needed; and later
    ones in those of its *codes* that have calls of methods of which none has been seen."""

    def __init__(self, fn: Callable[..., Any], *, once: bool = False, codes: Iterable[CodeType] = ()) -> None:
        self._code = _code_of(fn)
        asked = self._code in _by_lines or (once and self._code is not None and self._code not in _tried)
        self._unseen_alone = not asked
        self._on = PYTHON is not None and (asked or any(map(_unseen, codes))) and sys.gettrace() is None
        if once and self._code is not None:
            _tried.add(self._code)
        self._import: FrameType | None = None  # the outermost import that goes on
        self._shared: dict[int, tuple[ref[np.ndarray], Site]] = {}  # by id: arrays that are not replaced

    def __enter__(self) -> None:
        recorder = current_recorder()
        if recorder is not None:
            recorder.refused_plain, recorder.keep_lines = self._refused, self._keep
        if self._on:
            sys.settrace(self._begin)

    def __exit__(self, *exc: object) -> None:
        if self._on:
            sys.settrace(None)
            self._import = None

    def _refused(self, array: Any, error: TracegradError, writes: bool) -> TracegradError | None:
        """The plain *array* met a traced value, which was to be written into it perhaps: None if another run may know
        it, else *error* or one that says more."""
        if PYTHON is None:
            return error
        known, site = self._shared.get(id(array), (None, None))
        if known is not None and known() is array and writes:
            return MutationError.here(_SHARED.format(f" ({site})"))
        if self._on:
            return MutationError.here(_SHARED.format("")) if writes else error
        if self._code is None or sys.gettrace() is not None:
            return error
        _by_lines.add(self._code)
        return None

    def _keep(self) -> None:
        """Have further runs be made line by line."""
        if self._code is not None:
            _by_lines.add(self._code)

    def _begin(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if self._import is None and code.co_name == "_find_and_load" and code.co_filename == _IMPORTS:
            self._import, frame.f_trace_lines = frame, False
            return self._imported
        if self._import is not None or is_internal(code.co_filename) or (self._unseen_alone and not _unseen(code)):
            return None
        frame.f_trace_opcodes = bool(behind_stores(code) or method_calls(code) or method_loads(code))
        return self._step(frame, event, arg)

    def _imported(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The end of an import: modules have no traced values, and line by line one of SciPy's takes many seconds."""
        if event == "return":
            self._import = None
        return self._imported

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        code, at = frame.f_code, frame.f_lasti
        if event == "line" and frame.f_trace_opcodes:
            frame.f_trace_opcodes = True  # from Python 3.13 on it counts where the frame has its trace function
        begins = event in ("call", "line") or (event == "opcode" and at in behind_stores(code))
        if current_recorder() is None:
            return self._step
        if begins:
            self._name_arrays(frame)
        if event == "opcode":
            count = method_calls(code).get(at)
            if count is not None:
                _seen.setdefault(code, set()).add(at)
                if exchange(frame, count, is_traced):
                    self._keep()
            if at in method_loads(code):
                _seen.setdefault(code, set()).add(at)
                exchange_value(frame, self._either)
        return self._step

    def _either(self, method: Any, ours: Callable[..., Any]) -> Any:
        """The bound *method* of a plain array, which with traced arguments is *ours*."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if current_recorder() is None or not any(map(is_traced, (*args, *kwargs.values()))):
                return method(*args, **kwargs)
            self._keep()
            return ours(method.__self__, *args, **kwargs)

        return call

    def _name_arrays(self, frame: FrameType) -> None:
        """Replace the plain arrays that *frame* alone holds."""
        space = frame.f_locals
        for name in list(space):
            kind = type(space[name])
            if kind is np.ndarray or (kind is MadeArray and space[name].place != CallPlace(frame.f_code, name)):
                self._replace(space, name, _IN_FRAME, frame, name)
            elif kind is list or kind is dict or kind.__flags__ & _HEAP_TYPE:
                self._look_into(space[name], frame, name)

    def _look_into(self, value: Any, frame: FrameType, name: str) -> None:
        if type(value) is dict and "__builtins__" in value:  # the globals of a module, which others read
            return
        listed = type(value) is list
        holder: Any = value if listed or type(value) is dict else dict_of(value)
        keys: Any = range(len(holder)) if listed else list(holder) if type(holder) is dict else ()
        for key in keys[:_MOST_ITEMS]:
            if type(holder[key]) is np.ndarray:
                self._replace(holder, key, _ELSEWHERE, frame, f"{name}[]" if listed else str(key))

    def _replace(self, holder: Any, key: Any, references: int, frame: FrameType, name: str) -> None:
        alone = _references(holder, key) <= references and not (FORM.lends_locals and _is_lent(frame, holder[key]))
        array, place = holder[key], CallPlace(frame.f_code, name)
        if not alone or not _owns_memory(array):
            known = self._shared.get(id(array))
            if known is None or known[0]() is not array:
                self._shared[id(array)] = ref(array), name_site(frame, name)
        elif array.dtype in SUPPORTED and array.ndim:
            traced = is_traced_at(place, array.dtype.kind)
            if traced:
                self._keep()
            c_order = bool(array.flags.c_contiguous)
            holder[key] = wrap_array(to_atom(array), c_order=c_order) if traced else made(array, place)


def _unseen(code: CodeType) -> bool:
    """Whether *code* calls or loads methods, of plain arrays perhaps, where none has been seen yet."""
    places = method_calls(code).keys() | method_loads(code)
    return bool(places) and not places <= _seen.get(code, set())


def _owns_memory(array: np.ndarray) -> bool:
    """Whether nothing else shows the memory of *array*."""
    base = array.base
    if base is None:
        return bool(array.flags.owndata)
    return type(base) is np.ndarray and base.base is None and sys.getrefcount(base) <= _OF_BASE


def _is_lent(frame: FrameType, array: np.ndarray) -> bool:
    """Whether a local variable of *frame*, or of one that has called it, may have lent the *array* to the stack or to
    an argument, without a reference of their own."""
    code = frame.f_code
    if any(frame.f_locals.get(name) is array for name in loads_pending(code, frame.f_lasti)):
        return True
    back = frame.f_back
    while back is not None:
        if any(value is array for value in back.f_locals.values()):
            return True
        back = back.f_back
    return False


def _references(holder: Any, key: Any) -> int:
    value = holder[key]
    return sys.getrefcount(value)


def _in_frame() -> int:
    array = np.empty(1)  # noqa: F841
    return _references(sys._getframe().f_locals, "array")


def _of_base() -> int:
    view = np.empty(2)[1:]
    base = view.base
    return sys.getrefcount(base)


# the references to an array that nothing else refers to
_IN_FRAME, _ELSEWHERE, _OF_BASE = _in_frame(), _references([np.empty(1)], 0), _of_base()
