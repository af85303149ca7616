"""Tensors made from data or by rule: ``tensor``, ``zeros``, ``arange`` and their relatives.

Arrays come from ``tracer/numpy_api/creation.py``, so that within a recording they can be assigned into; ``wrap`` then
makes a tensor (in a function of NumPy code that is being recorded, the traced array itself is the result).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np

from ..runtime.cuda.arrays import as_device, download, on_device, upload
from ..runtime.cuda.arrays import full as device_full
from ..tracer.ir.aval import FLOAT_KINDS
from ..tracer.ir.refusals import Refusal
from ..tracer.numpy_api import creation
from ..tracer.record.array import TracedArray
from ..tracer.record.recorder import current_recorder
from . import dtypes
from .arguments import listed, named
from .device import CPU, device_of, on_cuda, wanted
from .dtypes import as_dtype
from .modes import STATE
from .ops_basic import no_complex_value, to_dtype
from .tensor import METHODS, Size, Tensor, from_data, raw, wrap

Shape = tuple[int, ...]


# ---- reading arguments --------------------------------------------------------------------------------------------


def placed(array: Any, device: Any) -> Any:
    """*array* on the device that a ``device=`` argument means (default: the default device); the array itself where it
    lies there already.  Of a traced array it is noted."""
    where = wanted(device)
    if isinstance(array, TracedArray):
        if STATE.capture is None:
            return array
        if where.type == "cuda" and STATE.capture.device.type == "cpu":
            STATE.capture.refuse(Refusal.STEP_MIXED)
        return STATE.capture.put(array, where)
    if on_cuda(array) == (where.type == "cuda"):
        return array
    return upload(array) if where.type == "cuda" else download(array)


def beside(like: Any, device: Any) -> Any:
    """The ``device=`` of a tensor that is made like another one, whose array is *like*."""
    return device_of(like) if device is None else device


def _float_or_default(dtype: Any) -> np.dtype:
    return dtypes.get_default_dtype() if dtype is None else as_dtype(dtype)


def _type_name(value: Any) -> str:
    return "Tensor" if isinstance(value, Tensor) else type(value).__name__


def _shape(name: str, sizes: tuple[Any, ...], size: Any) -> Shape:
    """The shape that ``zeros(2, 3)``, ``zeros((2, 3))`` or ``zeros(size=(2, 3))`` asks for."""
    if size is not None:
        sizes = (size,)
    elif not sizes:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    shape = []
    for position, n in enumerate(sizes, 1):
        try:
            if isinstance(n, bool):
                raise TypeError
            shape.append(index(n))
        except TypeError:
            at = f" at position {position}" if len(sizes) > 1 else ""
            raise TypeError(f"{name}(): argument 'size' must be tuple of ints, not {_type_name(n)}{at}") from None
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {shape}")
    return tuple(shape)


def _dtype_last(sizes: tuple[Any, ...], dtype: Any) -> tuple[tuple[Any, ...], Any]:
    """NumPy's order of arguments, ``zeros((2, 3), float)``, as (sizes, dtype)."""
    if dtype is None and len(sizes) == 2 and isinstance(sizes[1], np.dtype | type | str):
        return sizes[:1], sizes[1]
    return sizes, dtype


def _number(name: str, argument: str, value: Any) -> Any:
    """*value* as a Python number; within a recording, with a guard."""
    if isinstance(value, Tensor | TracedArray | np.ndarray | np.generic) and value.ndim == 0:
        return value.item()
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{name}(): argument '{argument}' must be Number, not {_type_name(value)}")


def _count(name: str, argument: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name}(): argument '{argument}' must be int, not {_type_name(value)}") from None


def _array_of(name: str, value: Any) -> Any:
    """The array of a tensor argument; arrays pass too, since functions of NumPy code have no tensors."""
    if isinstance(value, Tensor):
        return raw(value)
    if isinstance(value, np.ndarray | TracedArray):
        return value
    raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(value).__name__}")


def _made(array: Any, requires_grad: bool, device: Any) -> Any:
    if not on_cuda(array):
        array = creation.asarray(array)
    return wrap(placed(array, device), requires_grad)


def _constant(
    make: Callable[..., Any], value: float, shape: Shape, dtype: Any, requires_grad: bool, device: Any
) -> Any:
    """``make(shape, dtype)``, an array of *value*; made on the device where it is to lie there."""
    kind = _float_or_default(dtype)
    if wanted(device).type == "cuda" and current_recorder() is None:
        return wrap(device_full(shape, value, kind), requires_grad)
    return _made(make(shape, kind), requires_grad, device)


# ---- filled by one value ------------------------------------------------------------------------------------------


def _filled(name: str, make: Callable[..., Any], value: float, contents: str) -> Callable[..., Tensor]:
    def create(
        *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        sizes, dtype = _dtype_last(sizes, dtype)
        return _constant(make, value, _shape(name, sizes, size), dtype, requires_grad, device)

    return named(create, name, f"A tensor {contents}; sizes as numbers or as one tuple.")


zeros = _filled("zeros", creation.zeros, 0, "of zeros")
ones = _filled("ones", creation.ones, 1, "of ones")
empty = _filled("empty", creation.empty, 0, "with arbitrary contents")


def full(size: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor full of one number, whose dtype is that of ``tensor(fill_value)``."""
    value = raw(fill_value) if isinstance(fill_value, Tensor) and not fill_value.ndim else fill_value
    if not isinstance(value, Tensor) and on_cuda(value):
        value = download(value)
    if not isinstance(value, TracedArray | np.ndarray | complex):
        value = _number("full", "fill_value", value)
    kind = dtypes.infer(value) if dtype is None else as_dtype(dtype)
    if isinstance(value, complex) and kind.kind != "c":
        raise no_complex_value(kind)
    shape = _shape("full", (size,), None)
    return _made(_fitting(kind, lambda: creation.full(shape, value, kind)), requires_grad, device)


def _kind_of(name: str, input: Any, dtype: Any, device: Any) -> tuple[Any, dict[str, Any]]:
    """(the shape of *input*, the dtype and device of a tensor like it, unless given)"""
    like = _array_of(name, input)
    return like.shape, {"dtype": like.dtype if dtype is None else dtype, "device": beside(like, device)}


def like(make: Callable[..., Any], contents: str) -> Callable[..., Tensor]:
    """``zeros_like`` of ``zeros``, and so on."""
    name = f"{make.__name__}_like"

    def create(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        shape, kind = _kind_of(name, input, dtype, device)
        return make(shape, **kind, requires_grad=requires_grad)

    return named(create, name, f"{contents} in the shape (and dtype, unless given) of *input*.")


zeros_like = like(zeros, "Zeros")
ones_like = like(ones, "Ones")
empty_like = like(empty, "Arbitrary contents")


def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor full of one number, in the shape (and dtype, unless given) of *input*."""
    shape, kind = _kind_of("full_like", input, dtype, device)
    return full(shape, fill_value, **kind, requires_grad=requires_grad)


# ---- by rule ------------------------------------------------------------------------------------------------------


def eye(
    n: Any, m: Any = None, k: int = 0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The identity matrix of n rows and m columns (n, if left out), its ones on the k-th diagonal."""
    rows = _count("eye", "n", n)
    columns = rows if m is None else _count("eye", "m", m)
    for name, count in (("n", rows), ("m", columns)):
        if count < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {count}")
    return _made(creation.eye(rows, columns, k, _float_or_default(dtype)), requires_grad, device)


def arange(
    start: Any = None, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """start, start + step, ... before *end*; ``arange(n)`` counts from 0. int64 if all three are integers."""
    if start is None and end is None:
        raise TypeError('arange() missing 1 required positional arguments: "end"')
    start, end = (0, start) if end is None else (0 if start is None else start, end)
    first, last = _number("arange", "start", start), _number("arange", "end", end)
    by = _number("arange", "step", step)
    floats = any(isinstance(x, float) for x in (first, last, by))
    kind = as_dtype(dtype) if dtype is not None else dtypes.get_default_dtype() if floats else dtypes.int64
    if kind == dtypes.bool_ or kind.kind == "c":
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{dtypes.scalar_name(kind)}'")
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"unsupported range: {first} -> {last}")
    if kind.kind not in FLOAT_KINDS:
        first, last, by = int(first), int(last), int(by)
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if (last - first) * (1 if by > 0 else -1) < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if kind.kind not in FLOAT_KINDS:
        return _made(creation.arange(first, last, by, dtype=kind), requires_grad, device)
    points = first + by * np.arange(math.ceil((last - first) / by), dtype=np.float64)  # rounded once, also in float32
    return _made(points.astype(kind), requires_grad, device)


def linspace(
    start: Any, end: Any, steps: Any = 50, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """*steps* numbers at equal distances, from *start* to *end* inclusive."""
    return _made(_points("linspace", start, end, steps, _float_or_default(dtype)), requires_grad, device)


def logspace(
    start: Any, end: Any, steps: Any = 50, base: float = 10.0, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """*base* to the powers of ``linspace(start, end, steps)``."""
    powers = np.power(float(base), _points("logspace", start, end, steps, dtypes.float64))
    return _made(powers.astype(_float_or_default(dtype)), requires_grad, device)


def _points(name: str, start: Any, end: Any, steps: Any, dtype: np.dtype) -> Any:
    count = _count(name, "steps", steps)
    if count < 0:
        raise RuntimeError("number of steps must be non-negative")
    if dtype == dtypes.bool_:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'")
    ends = [raw(x) if isinstance(x, Tensor) else x for x in (start, end)]
    low, high = [x if isinstance(x, TracedArray) else _number(name, "start or end", x) for x in ends]
    return creation.linspace(low, high, count, dtype=dtype)


def tril_indices(row: Any, col: Any, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The indices of the lower triangle of a row × col matrix, as a 2 × N tensor (int64, unless *dtype* is given)."""
    return _triangle("tril_indices", np.tril_indices, row, col, offset, dtype, device)


def triu_indices(row: Any, col: Any, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The indices of the upper triangle of a row × col matrix, as a 2 × N tensor (int64, unless *dtype* is given)."""
    return _triangle("triu_indices", np.triu_indices, row, col, offset, dtype, device)


def _triangle(name: str, indices: Callable[..., Any], row: Any, col: Any, offset: int, dtype: Any, device: Any) -> Any:
    rows, columns = _count(name, "row", row), _count(name, "col", col)
    for argument, count in (("row", rows), ("col", columns)):
        if count < 0:
            raise RuntimeError(f"{argument} must be non-negative, got{count}")
    kind = dtypes.int64 if dtype is None else as_dtype(dtype)
    return _made(np.stack(indices(rows, offset, columns)).astype(kind), False, device)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Tensors of one shape, each of which varies along an axis of its own as one of the 1-d (or 0-d) *tensors*."""
    given = list(listed(tensors))
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for t in given:
        if t.ndim > 1:
            raise RuntimeError(f"meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}")
        if t.dtype != given[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    axes = list(range(len(given)))
    if indexing == "xy" and len(given) > 1:
        axes[0], axes[1] = 1, 0
    sizes = [math.prod(given[axes.index(axis)].shape) for axis in range(len(given))]
    return tuple(
        t.reshape([n if axis == at else 1 for at, n in enumerate(sizes)]).expand(sizes)
        for t, axis in zip(given, axes, strict=True)
    )


# ---- from data ----------------------------------------------------------------------------------------------------


def tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new leaf with a copy of *data*: a number, an array, a tensor, or nested sequences of them.

    Data on a CUDA device stays there unless *device* is another one."""
    if data.is_cuda if isinstance(data, Tensor) else on_device(data):
        array = raw(data) if isinstance(data, Tensor) else data
        array = array if isinstance(array, TracedArray) else as_device(array)
        where = wanted(beside(array, device))
        if isinstance(array, TracedArray) and where.type == "cpu":
            array = STATE.capture.moved(array, where)
        array = array.astype(array.dtype if dtype is None else as_dtype(dtype))
        return _made(array, requires_grad, where)
    if not dtypes.is_sequence(data):
        found = dtypes.infer(data)
        kind = found if dtype is None else as_dtype(dtype)
        value = raw(data) if isinstance(data, Tensor) else data
        return _made(_fitting(kind, lambda: creation.array(value, kind)), requires_grad, device)
    sizes, leaves = dtypes.flatten(data)
    found = dtypes.infer_leaves(leaves)
    kind = found if dtype is None else as_dtype(dtype)
    return _made(_fitting(kind, lambda: _array_of_leaves(sizes, leaves, kind)), requires_grad, device)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """*data* as a tensor, without a copy where it is a tensor, a NumPy array or an array on a CUDA device,
    of that dtype and in that place already."""
    kind = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        found = data if kind is None else to_dtype(data, kind)
        return found if device is None else METHODS["to"](found, device)
    if on_device(data):
        found = from_data(as_device(data))
        return as_tensor(found, kind, device)
    if wanted(device).type == "cuda":
        return tensor(data, kind, device)
    if isinstance(data, np.ndarray) and data.flags.writeable and (kind is None or kind == data.dtype):
        return from_numpy(data)
    return tensor(data, kind)


def from_numpy(array: Any) -> Tensor:
    """A tensor that shares the memory of *array*: writing into one writes into both.

    TypeError for objects that are no arrays and for dtypes that tensors cannot have, ValueError for arrays that are
    read-only or have foreign byte order.
    """
    if isinstance(array, TracedArray):
        return wrap(placed(array, CPU))
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    dtypes.supported(array.dtype)
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported; pass array.astype(array.dtype.newbyteorder('='))"
        )
    if not array.flags.writeable:
        raise ValueError("the given NumPy array is read-only, and a tensor over it could be written; pass array.copy()")
    return wrap(np.asarray(array) if STATE.capture is not None else creation.asarray(array))


def from_dlpack(data: Any, copy: bool | None = None) -> Any:
    """A tensor over the memory of an object of another library that speaks DLPack: of PyTorch, JAX, CuPy, NumPy.

    :param copy: None copies where the memory is read-only, as that of JAX is, since tensors may be written.
    :raises BufferError: where the object can't share its memory, or would have to be copied, and *copy* is False.
    """
    if on_device(data):
        found = from_data(as_device(data))
        return METHODS["clone"](found) if copy else found
    array = np.from_dlpack(data)
    if not array.flags.writeable and copy is False:
        raise BufferError("the memory is read-only, and a tensor over it could be written: it has to be copied")
    return from_numpy(array.copy() if copy or not array.flags.writeable else array)


def _array_of_leaves(sizes: Shape, leaves: list[Any], dtype: np.dtype) -> Any:
    """The array of shape *sizes* (then that of the leaves) with these elements; traced, if one of them is."""
    kinds = set(map(type, leaves))
    if any(issubclass(kind, Tensor) for kind in kinds):
        leaves = [_one_element(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        kinds = set(map(type, leaves))
    array = creation.array(leaves, dtype) if TracedArray in kinds else np.array(leaves, dtype)
    return array.reshape(*sizes, *array.shape[1:])


def _one_element(t: Tensor) -> Any:
    array = raw(t)
    if array.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return array.reshape(())


def _fitting(dtype: np.dtype, make: Callable[[], Any]) -> Any:
    """``make()``, an array of *dtype*, with NumPy's complaint about numbers that do not fit in PyTorch's words (floats
    become infinite without a word)."""
    try:
        if dtype != dtypes.float32:
            return make()
        with np.errstate(over="ignore"):
            return make()
    except (OverflowError, ValueError) as error:
        if isinstance(error, ValueError) and "NaN" not in str(error):
            raise
        if isinstance(error, OverflowError) and dtype == dtypes.int64:
            raise ValueError("Overflow when unpacking long long") from None
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow") from None


def _constructor(name: str, dtype: np.dtype) -> Callable[..., Tensor]:
    """``FloatTensor`` and its like: of sizes, or of data."""

    def construct(*args: Any, device: Any = None) -> Tensor:
        if len(args) != 1 or isinstance(args[0], Size):
            return empty(*args or (0,), dtype=dtype, device=device)
        data = args[0]
        if isinstance(data, Tensor):
            if data.dtype != dtype:
                raise TypeError(f"expected a tensor of dtype {dtype.name} (got {data.dtype.name})")
            return wrap(raw(data))
        if dtypes.is_sequence(data) or (isinstance(data, np.ndarray | TracedArray) and data.ndim):
            return tensor(data, dtype, device)
        if isinstance(data, str):
            raise TypeError("new(): invalid data type 'str'")
        if isinstance(data, float) or not hasattr(data, "__index__"):
            raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
        return empty(data, dtype=dtype, device=device)

    doc = f"A tensor of {dtype.name}: ``{name}(2, 3)`` is uninitialised, ``{name}([1, 2])`` holds data."
    return named(construct, name, doc)


FloatTensor = _constructor("FloatTensor", dtypes.float32)
DoubleTensor = _constructor("DoubleTensor", dtypes.float64)
LongTensor = _constructor("LongTensor", dtypes.int64)
IntTensor = _constructor("IntTensor", dtypes.int32)
ShortTensor = _constructor("ShortTensor", dtypes.int16)
ByteTensor = _constructor("ByteTensor", dtypes.uint8)
BoolTensor = _constructor("BoolTensor", dtypes.bool_)


__all__ = [
    "BoolTensor", "ByteTensor", "DoubleTensor", "FloatTensor", "IntTensor", "LongTensor", "ShortTensor", "arange",
    "as_tensor", "empty", "empty_like", "eye", "from_dlpack", "from_numpy", "full", "full_like", "linspace", "logspace",
    "meshgrid", "ones", "ones_like", "tensor", "tril_indices", "triu_indices", "zeros", "zeros_like",
]  # fmt: skip
