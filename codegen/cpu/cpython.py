"""Objects of CPython's and NumPy's by address: the one file that reads their memory, and calls the C API from Python.
It stands below the launcher since kernels want addresses, too: of the functions in capsules and of loops of ufuncs.

Native code reads a few fields of objects at fixed byte offsets, as any C extension does after its compiler has read the
headers.  There is no compiler here, so the offsets come from ``__basicsize__`` where Python tells, else from the ABI
that NumPy keeps stable, or are looked for in objects; and :func:`fault` compares every one with live objects.  Where
anything differs (another interpreter, a free-threaded or reference-tracing build) no native code reads an object.

Start reading at :func:`offsets`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import struct
import sys
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
Field = tuple[int, int]  # the address of a word in an object, and what stands there

_WORD = 8

# ---- memory ---------------------------------------------------------------------------------------------------------


def word_at(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def memory_at(address: int, nbytes: int) -> Any:
    """The *nbytes* from *address* on, as a buffer; nothing keeps them alive."""
    return (ctypes.c_char * nbytes).from_address(address)


def _words_of(obj: object, size: int) -> tuple[int, ...]:
    """The words of an object of *size* bytes."""
    return struct.unpack(f"{size // _WORD}q", ctypes.string_at(id(obj), size // _WORD * _WORD))


# ---- CPython's C API ------------------------------------------------------------------------------------------------


def function_address(function: Any) -> int:
    """The address of a C function that ``ctypes`` has found or made."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def python_api(name: str) -> int:
    """The address of a function of CPython's C API."""
    return function_address(ctypes.pythonapi[name])


@functools.cache
def _callable(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of the C API, which others that use ``ctypes.pythonapi`` do not share."""
    function = ctypes.pythonapi[name]
    function.restype, function.argtypes = result, arguments
    return function


def immortal(value: T) -> T:
    """*value*, which is never freed, and never emptied by the garbage collector: a reference to it is given away."""
    _callable("Py_IncRef", None, ctypes.py_object)(value)
    return value


def _immortal_bytes(data: bytes) -> int:
    """The address of a copy of *data*, with a NUL behind it, that is never freed."""
    return ctypes.addressof(immortal(ctypes.create_string_buffer(data)))


def object_cell(value: Any) -> Any:
    """An array of one object, whose memory is the object's address; ``cell[0]`` may be assigned."""
    return (ctypes.py_object * 1)(value)


def write_locals(frame: types.FrameType) -> None:
    """Give the variables of a *frame* the values in its ``f_locals``: up to Python 3.12 that is a dict beside them."""
    _callable("PyFrame_LocalsToFast", None, ctypes.py_object, ctypes.c_int)(frame, 0)


def replace_pointers(owner: Any, old: object, new: object, count: int) -> bool:
    """Have *owner*, an object in C, hold *new* wherever it holds *old*; False, with nothing changed, unless there are
    *count* such words in its memory."""
    kind = type(owner)
    size = kind.__basicsize__ + kind.__itemsize__ * (len(owner) if kind.__itemsize__ else 0)
    words = (ctypes.c_int64 * (size // _WORD)).from_address(id(owner))
    places = [k for k, word in enumerate(words) if word == id(old)]
    if len(places) != count:
        return False
    increment, decrement = [_callable(name, None, ctypes.py_object) for name in ("Py_IncRef", "Py_DecRef")]
    for k in places:
        increment(new)
        words[k] = id(new)
        decrement(old)
    return True


def capsule_signature(capsule: Any) -> str:
    """The C signature of the function in a *capsule* of Cython's, which is the capsule's name."""
    return _capsule_name(capsule).decode()


def capsule_address(capsule: Any) -> int:
    """The address in a *capsule*."""
    return _callable("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        capsule, _capsule_name(capsule)
    )


def _capsule_name(capsule: Any) -> bytes:
    return _callable("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)(capsule)


def new_capsule(address: int, name: bytes) -> Any:
    """A capsule of *address*, which is never freed, nor is its *name*."""
    new = _callable("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return immortal(new(address, _immortal_bytes(name), None))


_METH_KEYWORDS, _METH_FASTCALL = 0x0002, 0x0080


def builtins_of(
    address: int, name: bytes, doc: bytes, *, keywords: bool = False
) -> Callable[[object], Callable[..., Any]]:
    """``self -> builtin``: builtins of the C function ``f(self, args, nargs)`` at *address*; with *keywords*, it takes
    their names as well."""
    flags = _METH_FASTCALL | (_METH_KEYWORDS if keywords else 0)
    method = _immortal_bytes(struct.pack("PPiP", _immortal_bytes(name), address, flags, _immortal_bytes(doc)))
    new = _callable("PyCFunction_NewEx", ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return lambda self: new(method, self, None)  # the method is a PyMethodDef


# ---- NumPy's C API --------------------------------------------------------------------------------------------------

# Positions in NumPy's C function table.  They never change: compiled extensions rely on them.
_API = {
    "ndarray": 2, "dtype": 3, "PyArray_Scalar": 60, "PyArray_NewFromDescr": 94, "PyArray_EquivTypes": 182,
    "PyDataMem_SetHandler": 304, "PyDataMem_DefaultHandler": 306,
}  # fmt: skip


def numpy_api() -> dict[str, int]:
    """Addresses of NumPy's C functions for the launcher, through the capsule which extension modules use too."""
    core = np._core._multiarray_umath  # type: ignore[attr-defined]
    table = capsule_address(core._ARRAY_API)
    return {name: word_at(table + _WORD * position) for name, position in _API.items()}


def ufunc_loop(function: Any, signature: str) -> tuple[int, int]:
    """(address, data) of the inner loop of *function* for *signature* such as ``"d->d"``."""
    position = _WORD * function.types.index(signature)
    # the stable head of PyUFuncObject: its header, nin, nout, nargs, identity, functions, data, ntypes
    form = "16x4iPPi"
    nin, _, _, _, loops, data, ntypes = struct.unpack(form, ctypes.string_at(id(function), struct.calcsize(form)))
    if (nin, ntypes) != (function.nin, function.ntypes):
        raise RuntimeError(f"the layout of ufunc objects is not the expected one (NumPy {np.__version__})")
    return word_at(loops + position), word_at(data + position) if data else 0


_HANDLER = "127sB5P"  # PyDataMem_Handler: name, version, and its allocator's context, malloc, calloc, realloc, free


def default_allocator() -> tuple[int, int, int, int, int]:
    """The context, malloc, calloc, realloc and free of NumPy's own memory handler."""
    default = ctypes.py_object.from_address(numpy_api()["PyDataMem_DefaultHandler"]).value
    found = ctypes.string_at(capsule_address(default), struct.calcsize(_HANDLER))
    return struct.unpack(_HANDLER, found)[2:]  # type: ignore[return-value]


def memory_handler(name: bytes, *allocator: int) -> Any:
    """A memory handler (NEP 49) as NumPy takes it, which is never freed."""
    return new_capsule(_immortal_bytes(struct.pack(_HANDLER, name, 1, *allocator)), b"mem_handler")


# ---- fields of objects ----------------------------------------------------------------------------------------------

#: NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED.  (The byte order is part of the dtype.)
CARRAY_FLAGS = 0x0001 | 0x0100


@functools.cache
def offsets() -> dict[str, int]:
    """Byte offsets of the fields that the launcher and other native code read."""
    head = object.__basicsize__  # PyObject_HEAD: reference count, type
    return {
        "ob_refcnt": head - 2 * _WORD,
        "ob_type": head - _WORD,
        "ob_sval": bytes.__basicsize__ - 1,  # bytes end in one counted NUL
        "ob_item": tuple.__basicsize__,
        "list_size": head,
        "list_items": head + _WORD,  # followed by the number of items that there is room for
        "ob_fval": float.__basicsize__ - _WORD,  # also where np.float64 and np.float32 have their value
        # PyArrayObject_fields: data, nd, dimensions, strides, base, descr, flags, weakreflist
        "array_data": head,
        "array_nd": head + 1 * _WORD,
        "array_dims": head + 2 * _WORD,
        "array_base": head + 4 * _WORD,
        "array_descr": head + 5 * _WORD,
        "array_flags": head + 6 * _WORD,
        "array_weakrefs": np.ndarray.__weakrefoffset__,
    }


@functools.lru_cache(maxsize=1024)
def slot_offsets(cls: type) -> dict[str, int]:
    """Where an object of *cls* has its slots, but for those that hold no object."""
    members = [n for c in cls.__mro__ for n, v in vars(c).items() if type(v) is types.MemberDescriptorType]
    names = [name for name in members if name != "__dict__"]
    made = object.__new__(cls) if names else None
    found: dict[str, int] = {}
    for name in names:
        with contextlib.suppress(AttributeError, TypeError):  # a read-only member
            object.__setattr__(made, name, mark := object())
            words = _words_of(made, cls.__basicsize__)
            if id(mark) in words:
                found[name] = _WORD * words.index(id(mark))
    return found


def type_field(obj: object) -> Field:
    return id(obj) + offsets()["ob_type"], id(type(obj))


def list_fields(items: list[Any], known: Sequence[object]) -> list[Field]:
    """The fields of a list that has the items *known*."""
    at = offsets()
    first = word_at(id(items) + at["list_items"])
    fields = [(id(items) + at["list_size"], len(known)), (id(items) + at["list_items"], first)]
    return fields + [(first + _WORD * k, id(item)) for k, item in enumerate(known)]


def entry_fields(store: dict[str, Any], known: Mapping[str, object]) -> list[Field]:
    """The fields of a dict whose entries of the names in *known*, which are interned, have these values; where they are
    not found, one that is never so."""
    at, size = id(store) + _keys_offset(), dict.__sizeof__(store) - dict.__basicsize__
    table, head = word_at(at), offsets()["ob_type"]
    never = [(id(store) + head, 0)]
    if word_at(at + _WORD) or size <= 0:  # the values are elsewhere
        return never
    entries = ctypes.string_at(table, size)
    # the table, none of values, and its size and version, which say that the entries can be read
    fields = [(at, table), (at + _WORD, 0), (table + _WORD, word_at(table + _WORD))]
    for name, value in known.items():
        place = _place_of(struct.pack("2q", id(name), id(value)), entries)
        if place < 0:
            return never
        fields += [(table + place, id(name)), (table + place + _WORD, id(value))]
    return fields


def _place_of(words: bytes, data: bytes) -> int:
    """The offset of *words* in *data*; -1 where they are not."""
    place = data.find(words)
    while place >= 0 and place % _WORD:
        place = data.find(words, place + 1)
    return place


def function_fields(fn: types.FunctionType, parts: Mapping[str, object]) -> list[Field]:
    """The fields of a function that has these *parts* (``__code__``, ``__defaults__``, ``__kwdefaults__``)."""
    return [(id(fn) + _function_offsets()[name], id(part)) for name, part in parts.items()]


def bases_field(cls: type) -> Field:
    """The order of the bases of a class."""
    return id(cls) + _bases_offset(), id(cls.__mro__)


def version_field(cls: type) -> Field:
    """The version of a class, another one after any change of it or of its bases; 0 where it has none."""
    getattr(cls, "__no_such_name__", None)  # a lookup gives it one
    at = id(cls) + _VERSION
    return at, word_at(at)


_VERSION = 384  # bytes before PyTypeObject.tp_version_tag, behind which nothing fills the word


@functools.lru_cache(None)
def _bases_offset() -> int:
    """The offset of the order of its bases in a class; 0 where it is not found."""

    def places(cls: type) -> list[int]:
        return [_WORD * k for k, word in enumerate(_words_of(cls, size)) if word == id(cls.__mro__)]

    size: int = type.__basicsize__  # type: ignore[assignment]
    base = type("one", (), {})
    one, other = places(base), places(type("other", (base,), {}))
    return one[0] if one == other and len(one) == 1 else 0


def _keys_offset() -> int:
    """The offset of the table of keys in a dict, behind which a word is 0 where the values are in that table, too."""
    return dict.__basicsize__ - 2 * _WORD


@functools.lru_cache(None)
def has_entries() -> bool:
    """Whether the entries of dicts, too, are where they are expected."""
    if not has_versions():
        return False
    one, other = object(), object()
    name, more = sys.intern("tracegrad_entry"), {f"tracegrad_{k}": k for k in range(20)}
    store: dict[str, object] = {name: one}
    table = word_at(id(store) + _keys_offset())
    if table % _WORD or not 0 < abs(table - id(store)) < 1 << 46 or word_at(id(store) + _keys_offset() + _WORD):
        return False

    def so(fields: list[Field]) -> bool:
        return all(word_at(at) == word for at, word in fields)

    first = entry_fields(store, {name: one})
    found = [len(first), so(first), so(entry_fields(store, {name: other}))]
    store[name] = other
    found.append(so(first))
    second = entry_fields(store, {name: other})
    found.append(so(second))
    del store[name]
    found.append(so(second))
    store[name] = other
    found.append(so(second))
    third = entry_fields(store, {name: other})
    found.append(so(third))
    store.update(more)
    return found == [5, True, False, False, True, False, False, True] and not so(third[:1])


@functools.lru_cache(None)
def _function_offsets() -> dict[str, int]:
    """The offsets of a function's attributes in its object; empty where they are not found."""

    def probe(a: object = object(), *, b: object = object()) -> None:
        """Nothing."""

    def other() -> None:
        return None

    names = ("__code__", "__defaults__", "__kwdefaults__")
    places = []
    for values in ([getattr(probe, name) for name in names], [other.__code__, (1,), {"b": 2}]):
        for name, value in zip(names, values, strict=True):
            setattr(probe, name, value)
        now = _words_of(probe, types.FunctionType.__basicsize__)
        places.append([[k for k, word in enumerate(now) if word == id(value)] for value in values])
    if places[0] != places[1] or any(len(found) != 1 for found in places[0]):
        return {}
    return {name: _WORD * found[0] for name, found in zip(names, places[0], strict=True)}


# ---- whether they are where they were expected ----------------------------------------------------------------------


def fault() -> str | None:
    """The reason why native code can't read objects in this process; None if every field is at its offset."""
    if (reason := importlib.import_module("...tracer.ir.python_version", __package__).doubt()) is not None:
        return reason
    if struct.calcsize("P") != _WORD:
        return "pointers are not 64 bits wide"
    if sys.platform == "win32":
        return "the stack probes that Windows wants of JIT-compiled code are not handled"
    if object.__basicsize__ != 2 * _WORD:
        return f"objects have a header of {object.__basicsize__} bytes (a free-threaded or reference-tracing build)"
    return _scalar_fault() or _array_fault() or _api_fault()


@functools.lru_cache(None)
def has_versions() -> bool:
    """Whether the fields of classes and functions, too, are where they are expected."""
    found = _function_offsets() and _bases_offset()
    if fault() is not None or sys.getsizeof(object) < _VERSION + _WORD or not found:
        return False

    def versions() -> list[int]:
        return [version_field(cls)[1] for cls in classes]

    base = type("base", (), {})
    classes = [base, type("derived", (base,), {}), type("other", (), {})]
    first, second = versions(), versions()
    base.attribute = None  # type: ignore[attr-defined]
    third = versions()
    ready = first == second and all(first) and len(set(first)) == 3
    return ready and third[2] == first[2] and all(third) and not {*third[:2]} & {*first}


def _field(obj: object, name: str, code: str) -> object:
    """The field where :func:`offsets` has it; None outside the object, so that a wrong guess reads nothing foreign."""
    size = obj.__sizeof__() if isinstance(obj, (bytes, tuple)) else type(obj).__basicsize__
    at = offsets()[name]
    if at + struct.calcsize(code) > size:
        return None
    return struct.unpack_from(code, ctypes.string_at(id(obj), size), at)[0]


def _scalar_fault() -> str | None:
    for value in (b"tracegrad", 1.25, np.float64(-2.5), np.float32(0.75)):
        if _field(value, "ob_type", "q") != id(type(value)):
            return f"the type of a {type(value).__name__} is not where it was expected"
    if _field(object(), "ob_refcnt", "q") != 1:
        return "the number of references to an object is not where it was expected"
    if _field(b"tracegrad", "ob_sval", "9s") != b"tracegrad":
        return "the data of a bytes object is not where it was expected"
    if _field((one := object(), 2), "ob_item", "q") != id(one):
        return "the items of a tuple are not where they were expected"
    items = [one, one]
    room = (items.__sizeof__() - list.__basicsize__) // _WORD
    if (_field(items, "list_size", "q"), _field(items, "list_items", f"{_WORD}xq")) != (2, room):
        return "the items of a list are not where they were expected"
    for value, code in ((1.25, "d"), (np.float64(-2.5), "d"), (np.float32(0.75), "f")):
        if _field(value, "ob_fval", code) != value:
            return f"the value of a {type(value).__name__} is not where it was expected"
    return None


def _array_fault() -> str | None:
    plain = np.zeros((3, 5), np.float32)
    unaligned = np.zeros(17, np.uint8)[1:].view(np.int64)
    for a in (plain, plain.T, plain[:, ::2], np.zeros(()), unaligned):
        expected = {"array_nd": ("i", a.ndim), "array_descr": ("q", id(a.dtype)), "array_flags": ("i", a.flags.num)}
        expected["array_data"] = ("q", a.__array_interface__["data"][0])
        expected["array_base"] = ("q", 0 if a.base is None else id(a.base))
        for name, (code, value) in expected.items():
            if _field(a, name, code) != value:
                return f"{name} is not where it was expected"
        if bool(a.flags.num & CARRAY_FLAGS == CARRAY_FLAGS) != bool(a.flags.c_contiguous and a.flags.aligned):
            return "the flag bits of an ndarray have another meaning"
        dims = _field(a, "array_dims", "q")
        # Dimensions and strides stand in one block.  Only an address that the strides confirm is followed.
        strides = _words_of(a, offsets()["array_dims"] + 2 * _WORD)[-1]
        if a.ndim and (not isinstance(dims, int) or strides != dims + a.ndim * _WORD):
            return "array_dims is not where it was expected"
        if a.ndim and tuple((ctypes.c_int64 * a.ndim).from_address(dims)) != a.shape:  # type: ignore[arg-type]
            return "array_dims is not where it was expected"
    weak = weakref.ref(plain)
    if (_field(plain, "array_weakrefs", "q"), _field(plain.T, "array_weakrefs", "q")) != (id(weak), 0):
        return "array_weakrefs is not where it was expected"
    return None


def _api_fault() -> str | None:
    api = numpy_api()
    if api["ndarray"] != id(np.ndarray) or api["dtype"] != id(np.dtype):
        return "NumPy's C function table is not laid out as expected"
    return None
