"""The array of the stand-in: a NumPy array inside, which nobody gets without asking."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import runtime
from .runtime import counts

SCALARS = (bool, int, float, np.generic)
_BASIC = (int, np.integer, slice, type(None), type(...))


def unwrap(x: Any) -> Any:
    """The NumPy array or number of an operand, as CuPy takes operands: its own arrays, and numbers."""
    if isinstance(x, ndarray):
        return x._a
    if isinstance(x, SCALARS):
        return x
    raise TypeError(f"Unsupported type {type(x)}")


class ndarray:  # noqa: N801
    """``ndarray(shape, dtype, memptr, strides)``, as CuPy's."""

    __slots__ = ("__weakref__", "_a", "base")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"):
        self.base: Any = None
        if memptr is None:
            self._a = np.zeros(shape, dtype, order)
            runtime.pool.allocate(self, self._a.nbytes)
            return
        memory = (ctypes.c_char * memptr.mem.size).from_address(memptr.mem.ptr)
        flat = np.frombuffer(memory, np.uint8)
        self._a = np.ndarray(shape, dtype, flat, memptr.offset, strides)
        self.base = memptr.mem

    @classmethod
    def new(cls, a: Any) -> ndarray:
        """An array of its own memory with the contents of *a*: what every function gives."""
        made = cls.__new__(cls)
        made._a, made.base = np.array(a, order="K"), None
        counts["kernel"] += 1
        runtime.pool.allocate(made, made._a.nbytes)
        return made

    def over(self, a: np.ndarray) -> ndarray:
        """A view: *a* shares this array's memory."""
        made = ndarray.__new__(ndarray)
        made._a, made.base = a, self if self.base is None else self.base
        return made

    def _derived(self, a: np.ndarray) -> ndarray:
        return self.over(a) if np.may_share_memory(a, self._a) and a.size else ndarray.new(a)

    # ---- facts ---------------------------------------------------------------------------------------------------

    shape = property(lambda self: self._a.shape)
    dtype = property(lambda self: self._a.dtype)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    nbytes = property(lambda self: self._a.nbytes)
    itemsize = property(lambda self: self._a.itemsize)
    strides = property(lambda self: self._a.strides)
    flags = property(lambda self: Flags(self._a.flags))
    data = property(lambda self: runtime.MemoryPointer(runtime.UnownedMemory(self._address, self.nbytes, self, 0), 0))
    _address = property(  # of an array without elements it is null
        lambda self: self._a.ctypes.data if self._a.size else 0
    )
    device = property(lambda self: runtime.Device(0))
    T = property(lambda self: self._derived(self._a.T))

    real = property(lambda self: self._derived(self._a.real), lambda self, x: self.real.__setitem__(..., x))
    imag = property(lambda self: self._derived(self._a.imag), lambda self, x: self.imag.__setitem__(..., x))

    def __len__(self) -> int:
        return len(self._a)

    # ---- to and from the host --------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
            "explicitly."
        )

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        counts["download"] += 1
        counts["wait"] += 1
        return np.array(self._a, order=order)

    def item(self) -> Any:
        return self.get().item()

    def __bool__(self) -> bool:
        return bool(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __repr__(self) -> str:
        return repr(self.get())

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        described = dict(self._a.__array_interface__)
        return {k: described[k] for k in ("shape", "typestr", "descr", "data", "strides")} | {
            "version": 3, "stream": runtime.current.ptr or 1,
        }  # fmt: skip

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        runtime.log.append(("dlpack", stream))
        return _Capsule(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    # ---- NumPy's protocols -----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        return ndarray.new(ufunc(*map(unwrap, inputs)))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        function = functions.TABLE.get(func.__name__)
        if function is None:
            return NotImplemented
        return function(*args, **kwargs)

    # ---- views and copies ------------------------------------------------------------------------------------------

    def reshape(self, *shape: Any, order: str = "C") -> ndarray:
        return self._derived(self._a.reshape(*shape, order=order))

    def transpose(self, *axes: Any) -> ndarray:
        return self._derived(self._a.transpose(*axes))

    def swapaxes(self, axis1: int, axis2: int) -> ndarray:
        return self._derived(self._a.swapaxes(axis1, axis2))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> ndarray:
        found = self._a.diagonal(offset, axis1, axis2)
        found.flags.writeable = True
        return self._derived(found)

    def squeeze(self, axis: Any = None) -> ndarray:
        return self._derived(self._a.squeeze(axis))

    def nonzero(self) -> tuple[ndarray, ...]:
        counts["wait"] += 1
        return tuple([ndarray.new(found) for found in self._a.nonzero()])

    def tolist(self) -> Any:
        return self.get().tolist()

    def ravel(self, order: str = "C") -> ndarray:
        return self._derived(self._a.ravel(order))

    def view(self, dtype: Any = None) -> ndarray:
        return self.over(self._a.view(dtype or self._a.dtype))

    def copy(self, order: str = "C") -> ndarray:
        counts["copy"] += 1
        return ndarray.new(self._a.copy(order))

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> ndarray:
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        with np.errstate(all="ignore"):
            return ndarray.new(self._a.astype(dtype, order))

    def fill(self, value: Any) -> None:
        self._a.fill(unwrap(value))

    def __getitem__(self, index: Any) -> ndarray:
        found = self._a[_index(index)]
        return self.over(found) if _is_basic(index) and isinstance(found, np.ndarray) else self._element(found, index)

    def _element(self, found: Any, index: Any) -> ndarray:
        if not _is_basic(index):
            return ndarray.new(found)
        return self.over(self._a[(*(index if isinstance(index, tuple) else (index,)), ...)])

    def __setitem__(self, index: Any, value: Any) -> None:
        value, where = unwrap(value), _index(index)
        if _is_basic(index):
            self._a[where] = value
            return
        # of several writes to one position CuPy lets any win: here the first
        places = np.arange(self._a.size).reshape(self.shape)[where]
        flat, values = places.reshape(-1), np.broadcast_to(value, places.shape).reshape(-1)
        _, first = np.unique(flat, return_index=True)
        self._a.reshape(-1)[flat[first]] = values[first]


class _Capsule:
    """What ``__dlpack__`` gives."""

    def __init__(self, array: ndarray) -> None:
        self._array = array

    def view(self) -> ndarray:
        return self._array.view()


def _is_basic(index: Any) -> bool:
    return all(
        isinstance(i, _BASIC) and not isinstance(i, bool) for i in (index if isinstance(index, tuple) else (index,))
    )


def _index(index: Any) -> Any:
    items = index if isinstance(index, tuple) else (index,)
    for item in items:
        if not isinstance(item, (*_BASIC, ndarray)):
            raise IndexError(f"the stand-in takes no index of type {type(item)}")
    plain = tuple([i._a if isinstance(i, ndarray) else i for i in items])
    return plain if isinstance(index, tuple) else plain[0]


class Flags:
    """What CuPy's arrays say of how they lie: nothing about being writeable."""

    def __init__(self, flags: Any) -> None:
        self.c_contiguous, self.f_contiguous, self.owndata = flags.c_contiguous, flags.f_contiguous, flags.owndata


def _reduction(name: str) -> Any:
    def apply(self: ndarray, axis: Any = None, **options: Any) -> ndarray:
        return ndarray.new(getattr(self._a, name)(axis=axis, **options))

    return apply


for _name in "min max any all sum".split():
    setattr(ndarray, _name, _reduction(_name))


def _operator(name: str) -> Any:
    def apply(self: ndarray, *others: Any) -> Any:
        plain = [unwrap(x) if isinstance(x, (ndarray, *SCALARS)) else None for x in others]
        if any(x is None for x in plain):
            if any(isinstance(x, np.ndarray) for x in others):
                raise TypeError(f"Unsupported type {np.ndarray}")
            return NotImplemented
        with np.errstate(all="ignore"):
            found = getattr(self._a, name)(*plain)
        return found if found is NotImplemented else ndarray.new(found)

    return apply


def _in_place(name: str) -> Any:
    def apply(self: ndarray, other: Any) -> ndarray:
        with np.errstate(all="ignore"):
            getattr(self._a, name)(unwrap(other))
        return self

    return apply


for _name in "add sub mul truediv pow and or xor lshift rshift".split():
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))
    setattr(ndarray, f"__r{_name}__", _operator(f"__r{_name}__"))
    setattr(ndarray, f"__i{_name}__", _in_place(f"__i{_name}__"))
for _name in "neg invert abs eq ne lt le gt ge".split():
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))

from . import functions  # noqa: E402  (which needs the array)
