"""Products of matrices and vectors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..tracer.ir.tracebacks import for_users
from ..tracer.record.autocast import may_meet
from . import dtypes
from .apply import apply
from .arguments import FUNCTIONS, listed, one_dim, scalar_of, tensor_argument, unify
from .op import EagerOp
from .signature import Applied, Dim, function, method, operation
from .tensor import METHODS, Tensor, make

_NAMES = {"float64": "double", "float32": "float", "int64": "long", "int32": "int", "int16": "short", "int8": "char",
          "uint8": "unsigned char", "bool": "bool", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
          "complex128": "c10::complex<double>", "complex64": "c10::complex<float>"}  # fmt: skip

MM, MV, DOT, BMM = (EagerOp(name, np.matmul) for name in ("Mm", "Mv", "Dot", "Bmm"))
VECMAT = EagerOp("SqueezeBackward4", np.matmul)
BROADCAST = EagerOp("UnsafeView", np.matmul)


def _same_dtype(x: Tensor, y: Tensor, vectors: bool = False) -> None:
    a, b = x._data.dtype, y._data.dtype
    if not may_meet(a, b):
        first, second = _NAMES.get(a.name, a.name), _NAMES.get(b.name, b.name)
        if vectors:
            raise RuntimeError(
                f"dot : expected both vectors to have same dtype, but found {dtypes.scalar_name(a)} and "
                f"{dtypes.scalar_name(b)}"
            )
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {first} != {second}")


def _shapes(x: Tensor, y: Tensor) -> str:
    return " and ".join("x".join(map(str, v._data.shape)) for v in (x, y))


@method
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The product of vectors, matrices and batches of matrices."""
    a, b = input._data.shape, other._data.shape
    n, m = len(a), len(b)
    if n == 2 and m == 2:
        return mm(input, other)
    if not n or not m:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {n}D and {m}D")
    if n == 1 and m == 1:
        return dot(input, other)
    if n == 2 and m == 1:
        return mv(input, other)
    _same_dtype(input, other)
    if a[-1] != b[-2 if m > 1 else 0]:
        if n == 1 or n == 2 or m <= 2:
            first = f"{1 if n == 1 else int(np.prod(a[:-1]))}x{a[-1]}"
            second = f"{b[0]}x1" if m == 1 else f"{b[-2]}x{b[-1]}"
            raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({first} and {second})")
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{int(np.prod(a[:-2]))}, {a[-1]}] but "
            f"got: [{int(np.prod(b[:-2]))}, {b[-2]}]."
        )
    if n == 1 and m == 2:
        return apply(VECMAT, (input, other))
    if n > 2 and m > 2 and a[:-2] != b[:-2]:
        try:
            np.broadcast_shapes(a[:-2], b[:-2])
        except ValueError:
            d = next(k for k in range(1, 65) if a[-2 - k] != b[-2 - k] and 1 not in (a[-2 - k], b[-2 - k]))
            raise RuntimeError(
                f"The size of tensor a ({a[-2 - d]}) must match the size of tensor b ({b[-2 - d]}) at non-singleton "
                f"dimension {max(n, m) - 2 - d}"
            ) from None
    return apply(BROADCAST, (input, other))


@method
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices."""
    a, b = input._data.shape, mat2._data.shape
    if len(a) != 2:
        raise RuntimeError("self must be a matrix")
    if len(b) != 2:
        raise RuntimeError("mat2 must be a matrix")
    if a[1] != b[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({a[0]}x{a[1]} and {b[0]}x{b[1]})")
    if input._data.dtype is not mat2._data.dtype:
        _same_dtype(input, mat2)
    return apply(MM, (input, mat2))


@method
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector."""
    a, b = input._data.shape, vec._data.shape
    if len(a) != 2 or len(b) != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {len(b)}, {len(a)}, {len(b)}")
    if a[1] != b[0]:
        raise RuntimeError(f"size mismatch, got input ({a[0]}), mat ({a[0]}x{a[1]}), vec ({b[0]})")
    _same_dtype(input, vec)
    return apply(MV, (input, vec))


@method
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The product of two vectors."""
    return _of_vectors(DOT, input, tensor)


def _of_vectors(op: EagerOp, input: Tensor, tensor: Tensor) -> Tensor:
    a, b = input._data.shape, tensor._data.shape
    if len(a) != 1 or len(b) != 1:
        raise RuntimeError(f"1D tensors expected, but got {len(a)}D and {len(b)}D tensors")
    if a != b:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a[0]}] and src [{b[0]}] to have the same number of "
            f"elements, but got {a[0]} and {b[0]} elements respectively"
        )
    _same_dtype(input, tensor, vectors=True)
    return apply(op, (input, tensor))


@method
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of matrices in two batches."""
    a, b = input._data.shape, mat2._data.shape
    if len(a) != 3 or len(b) != 3:
        raise RuntimeError(f"batch{1 if len(a) != 3 else 2} must be a 3D tensor")
    if a[0] != b[0] or a[2] != b[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but got: [{b[0]}, "
            f"{b[1]}]."
        )
    _same_dtype(input, mat2)
    return apply(BMM, (input, mat2))


# ---- sums with a product -------------------------------------------------------------------------------------------


def _plus_product(x: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    product = np.matmul(a, b)
    if not _is_one(alpha):
        product = product * alpha
    return product + (x if _is_one(beta) else x * beta)


ADDMM, ADDMV, BADDBMM = (EagerOp(name, _plus_product) for name in ("Addmm", "Addmv", "Baddbmm"))
ADDR = EagerOp("Addr", lambda x, a, b, beta, alpha: x * beta + np.outer(a, b) * alpha)


def _is_one(factor: Any) -> bool:
    return type(factor) in (int, float) and factor == 1


def _with_product(name: str, op: EagerOp, *ranks: int) -> None:
    def body(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Applied:
        for k, (v, rank) in enumerate(zip((mat1, mat2), ranks, strict=True), 1):
            if v.ndim != rank:
                raise RuntimeError(f"{name}: argument {k} must be {rank}D, got {v.ndim}D")
        if mat1.shape[-1] != mat2.shape[0 if ranks[1] < 3 else 1]:
            raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({_shapes(mat1, mat2)})")
        if not may_meet(input.dtype, mat2.dtype):
            raise RuntimeError(
                f"self and mat2 must have the same dtype, but got {dtypes.scalar_name(input.dtype)} and "
                f"{dtypes.scalar_name(mat2.dtype)}"
            )
        _same_dtype(mat1, mat2)
        return op, (input, mat1, mat2, scalar_of(beta, mat1.dtype), scalar_of(alpha, mat1.dtype))

    operation(body, name, "``beta * input + alpha * (mat1 @ mat2)``.")


_with_product("addmm", ADDMM, 2, 2)
_with_product("addmv", ADDMV, 2, 1)
_with_product("baddbmm", BADDBMM, 3, 3)


@method
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``."""
    return apply(ADDR, (input, vec1, vec2, scalar_of(beta, input.dtype), scalar_of(alpha, input.dtype)))


# ---- other products ------------------------------------------------------------------------------------------------

OUTER = EagerOp("Mul", lambda x, y: x[:, None] * y)
VDOT = EagerOp("Vdot", lambda x, y: np.matmul(x.conj(), y))
INNER = EagerOp("ViewBackward0", np.inner, mixed="product")
KRON = EagerOp("UnsafeView", np.kron)
TENSORDOT = EagerOp("ViewBackward0", lambda x, y, dims: np.tensordot(x, y, dims), mixed="product")
CROSS = EagerOp("LinalgCross", lambda x, y, dim: np.cross(x, y, axis=dim))
TRACE = EagerOp("Trace", lambda x: np.trace(x))
EINSUM = EagerOp(  # may be a view of an operand
    "ViewBackward0", lambda *args: np.einsum(args[-1], *args[:-1]).copy(), mixed="product"
)
VECDOT = EagerOp("SumBackward1", lambda x, y, dim: np.add.reduce(x.conj() * y, axis=dim))


@method
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of the elements of two vectors."""
    for k, v in enumerate((input, vec2)):
        if v.ndim != 1:
            name = ("self", "vec2")[k]
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {v.ndim}-D")
    return apply(OUTER, unify(input, vec2))


@method
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The product of two vectors, of which the first is conjugated."""
    return _of_vectors(VDOT, input, other)


@method
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products along the last dimensions."""
    if input.ndim and other.ndim and input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    _same_dtype(input, other)
    return apply(INNER, (input, other))


@method
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product."""
    return apply(KRON, unify(input, other))


@function
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over so many last and first dimensions, or over the dimensions in two lists."""
    pairs: Any = int(dims)if isinstance(dims, (int, np.integer)) else tuple(
        [(int(d),) if isinstance(d, int) else tuple([int(i) for i in d]) for d in dims]
    )  # fmt: skip
    _same_dtype(a, b)
    try:
        return apply(TENSORDOT, (a, b), (pairs,))
    except ValueError as error:
        raise RuntimeError(f"tensordot: {error}") from None


@method
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Vector products along a dimension of size 3: *dim*, or the first such."""
    if dim is None:
        found = [d for d, n in enumerate(input.shape) if n == 3]
        if not found:
            raise RuntimeError("no dimension of size 3 in input")
        dim = found[0]
    return linalg_cross(input, other, dim=dim)


@function
def linalg_cross(input: Tensor, other: Tensor, *, dim: Dim = -1) -> Tensor:
    """Vector products along *dim*, of size 3."""
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[dim]} and {other.shape[dim]}"
        )
    return apply(CROSS, _broadcast(*unify(input, other)), (dim,))


def _broadcast(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return FUNCTIONS["broadcast_tensors"](x, y)


@method
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return apply(TRACE, (input,))


@function
def einsum(equation: str, *operands: Any) -> Tensor:
    """The sum of products that the *equation* describes, as in ``numpy.einsum``."""
    given = listed(operands)
    if not isinstance(equation, str):
        raise TypeError("einsum(): the first argument must be the equation, a string")
    for v in given:
        tensor_argument("einsum", v, "operands", 2)
    try:
        return apply(EINSUM, tuple(unify(*given)), (equation.replace(" ", ""),))
    except ValueError as error:
        raise RuntimeError(f"einsum(): {error}") from None


@method
def matrix_power(input: Tensor, n: int) -> Tensor:
    """A square matrix multiplied with itself, *n* times (at least 0)."""
    if n < 0:
        raise NotImplementedError("matrix_power with a negative exponent needs an inverse, which is not supported")
    if n == 0:
        shape = input.shape
        return make(np.broadcast_to(np.eye(shape[-1], dtype=input.dtype), shape).copy())
    result: Any = None
    square = input
    while n:
        if n & 1:
            result = square if result is None else matmul(result, square)
        n >>= 1
        square = matmul(square, square) if n else square
    return METHODS["clone"](result) if result is input else result


@partial(function, name="linalg_multi_dot")
def multi_dot(tensors: Any) -> Tensor:
    """The product of several matrices; the first and the last may be vectors."""
    first, *rest = tensors
    for v in rest:
        first = matmul(first, v)
    return first


@partial(function, name="linalg_vecdot")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Products of vectors along *dim*, of which the first ones are conjugated."""
    x, y = _broadcast(*unify(x, y))
    return apply(VECDOT, (x, y), (one_dim(dim, x.ndim),))


def _operator(self: Tensor, other: Any) -> Any:
    with for_users:
        if isinstance(other, Tensor):
            return matmul(self, other)
        return matmul(self, make(other)) if isinstance(other, np.ndarray) else NotImplemented


def _reflected(self: Tensor, other: Any) -> Any:
    return matmul(make(other), self) if isinstance(other, np.ndarray) else NotImplemented


METHODS["ger"] = outer
FUNCTIONS.update(linalg_matrix_power=matrix_power, chain_matmul=lambda *m: multi_dot(m))
Tensor.__matmul__ = _operator  # type: ignore[attr-defined]
Tensor.__rmatmul__ = _reflected  # type: ignore[attr-defined]
