"""Signatures of tensors' methods, and of the functions of their names. Made by docs/make_method_types.py."""

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from .tensor import Size, Tensor

Dim = builtins.int
Dims = builtins.int | Sequence[builtins.int]
Dtype = Any

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addr",
    "adjoint",
    "all",
    "allclose",
    "amax",
    "amin",
    "aminmax",
    "angle",
    "any",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "baddbmm",
    "bincount",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bmm",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "cat",
    "ceil",
    "chain_matmul",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "clone",
    "column_stack",
    "complex",
    "concat",
    "concatenate",
    "conj",
    "conj_physical",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cross",
    "cumprod",
    "cumsum",
    "deg2rad",
    "detach",
    "diag",
    "diag_embed",
    "diagonal",
    "diff",
    "digamma",
    "dist",
    "div",
    "divide",
    "dot",
    "dstack",
    "einsum",
    "eq",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expit",
    "expm1",
    "fix",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "gather",
    "ge",
    "ger",
    "gt",
    "heaviside",
    "histc",
    "hstack",
    "hypot",
    "imag",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_select",
    "inner",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_same_size",
    "is_signed",
    "is_tensor",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isreal",
    "kron",
    "kthvalue",
    "le",
    "lerp",
    "lgamma",
    "linalg_cross",
    "linalg_matrix_norm",
    "linalg_matrix_power",
    "linalg_multi_dot",
    "linalg_norm",
    "linalg_vecdot",
    "linalg_vector_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logsumexp",
    "lt",
    "masked_fill",
    "masked_select",
    "matmul",
    "matrix_power",
    "max",
    "maximum",
    "mean",
    "median",
    "min",
    "minimum",
    "mm",
    "moveaxis",
    "movedim",
    "mul",
    "multiply",
    "mv",
    "nan_to_num",
    "nanmean",
    "nansum",
    "narrow",
    "ne",
    "neg",
    "negative",
    "nonzero",
    "norm",
    "numel",
    "outer",
    "permute",
    "polar",
    "positive",
    "pow",
    "prod",
    "quantile",
    "rad2deg",
    "ravel",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "repeat_interleave",
    "reshape",
    "resolve_conj",
    "result_type",
    "roll",
    "rot90",
    "round",
    "row_stack",
    "rsqrt",
    "rsub",
    "scatter",
    "scatter_add",
    "searchsorted",
    "select",
    "sgn",
    "sigmoid",
    "sign",
    "sin",
    "sinc",
    "sinh",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "std_mean",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swapdims",
    "t",
    "take",
    "take_along_axis",
    "take_along_dim",
    "tan",
    "tanh",
    "tensor_split",
    "tensordot",
    "tile",
    "topk",
    "trace",
    "transpose",
    "trapezoid",
    "trapz",
    "tril",
    "triu",
    "true_divide",
    "trunc",
    "unbind",
    "unflatten",
    "unique",
    "unsqueeze",
    "var",
    "var_mean",
    "vdot",
    "view_as_complex",
    "view_as_real",
    "vstack",
    "where",
    "xlog1py",
    "xlogy",
]

class Methods:
    def abs(input) -> Tensor:
        """``abs`` of each element; of integers an integer."""
    def abs_(self) -> Tensor:
        """``abs`` of each element, in place."""
    def absolute(input) -> Tensor:
        """``abs`` of each element; of integers an integer."""
    def acos(input) -> Tensor:
        """``acos`` of each element."""
    def acos_(self) -> Tensor:
        """``acos`` of each element, in place."""
    def acosh(input) -> Tensor:
        """``acosh`` of each element."""
    def acosh_(self) -> Tensor:
        """``acosh`` of each element, in place."""
    def add(input, other: Any, *, alpha: builtins.float = 1) -> Tensor:
        """``input + alpha * other``."""
    def add_(self, other: Any, *, alpha: builtins.float = 1) -> Tensor:
        """``self += alpha * other``."""
    def addcdiv(input, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
        """``input + value * tensor1 / tensor2``."""
    def addcdiv_(input, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
        """``addcdiv`` in place."""
    def addcmul(input, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
        """``input + value * tensor1 * tensor2``."""
    def addcmul_(input, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
        """``addcmul`` in place."""
    def addmm(input, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * input + alpha * (mat1 @ mat2)``."""
    def addmm_(input, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``addmm`` in place."""
    def addmv(input, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * input + alpha * (mat1 @ mat2)``."""
    def addmv_(input, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``addmv`` in place."""
    def addr(input, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * input + alpha * outer(vec1, vec2)``."""
    def adjoint(input) -> Tensor:
        """Matrices transposed, and conjugated."""
    def all(input, dim: Dims | None = None, keepdim: builtins.bool = False, *, axis: Dims | None = None, keepdims: builtins.bool = False) -> Tensor:
        """Whether all of the elements are true, of everything or along *dim*."""
    def allclose(input, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
        """Whether all elements are close."""
    def amax(input, dim: Dims = (), keepdim: builtins.bool = False, *, axis: Dims | None = None, keepdims: builtins.bool = False) -> Tensor:
        """The maximum along one or several dimensions; equal elements share the gradient."""
    def amin(input, dim: Dims = (), keepdim: builtins.bool = False, *, axis: Dims | None = None, keepdims: builtins.bool = False) -> Tensor:
        """The minimum along one or several dimensions; equal elements share the gradient."""
    def aminmax(input, *, dim: Any = (), keepdim: builtins.bool = False, axis: Any = None, keepdims: builtins.bool = False) -> Any:
        """The smallest and the largest element, of everything or along *dim*."""
    def angle(input) -> Tensor:
        """The angles of complex numbers, between -pi and pi; of real ones 0 or pi."""
    def any(input, dim: Dims | None = None, keepdim: builtins.bool = False, *, axis: Dims | None = None, keepdims: builtins.bool = False) -> Tensor:
        """Whether any of the elements are true, of everything or along *dim*."""
    def arccos(input) -> Tensor:
        """``acos`` of each element."""
    def arccosh(input) -> Tensor:
        """``acosh`` of each element."""
    def arcsin(input) -> Tensor:
        """``asin`` of each element."""
    def arcsinh(input) -> Tensor:
        """``asinh`` of each element."""
    def arctan(input) -> Tensor:
        """``atan`` of each element."""
    def arctan2(input, other: Any) -> Tensor:
        """``atan2`` element by element, with broadcasting."""
    def arctanh(input) -> Tensor:
        """``atanh`` of each element."""
    def argmax(input, dim: Dim | None = None, keepdim: builtins.bool = False, *, axis: Dim | None = None, keepdims: builtins.bool = False) -> Tensor:
        """Where the maximum is: in the flattened tensor, or along *dim*."""
    def argmin(input, dim: Dim | None = None, keepdim: builtins.bool = False, *, axis: Dim | None = None, keepdims: builtins.bool = False) -> Tensor:
        """Where the minimum is: in the flattened tensor, or along *dim*."""
    def argsort(input, dim: Dim = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, axis: Dim | None = None) -> Tensor:
        """The indices that sort along *dim*."""
    def argwhere(input) -> Tensor:
        """``nonzero`` as rows."""
    def asin(input) -> Tensor:
        """``asin`` of each element."""
    def asin_(self) -> Tensor:
        """``asin`` of each element, in place."""
    def asinh(input) -> Tensor:
        """``asinh`` of each element."""
    def asinh_(self) -> Tensor:
        """``asinh`` of each element, in place."""
    def atan(input) -> Tensor:
        """``atan`` of each element."""
    def atan2(input, other: Any) -> Tensor:
        """``atan2`` element by element, with broadcasting."""
    def atan_(self) -> Tensor:
        """``atan`` of each element, in place."""
    def atanh(input) -> Tensor:
        """``atanh`` of each element."""
    def atanh_(self) -> Tensor:
        """``atanh`` of each element, in place."""
    def baddbmm(input, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * input + alpha * (mat1 @ mat2)``."""
    def baddbmm_(input, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``baddbmm`` in place."""
    def bernoulli_(self, p: Any = 0.5, *, generator: Any = None) -> Tensor:
        """1 with probability *p* (a number or a tensor), 0 otherwise."""
    def bfloat16(self, memory_format: Any = None) -> Tensor:
        """In bfloat16."""
    def bincount(input, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
        """The count of each integer, or the sum of its *weights*."""
    def bitwise_and(self, other: Any) -> Any:
        ...
    def bitwise_left_shift(self, other: Any) -> Any:
        ...
    def bitwise_not(self) -> Tensor:
        ...
    def bitwise_or(self, other: Any) -> Any:
        ...
    def bitwise_right_shift(self, other: Any) -> Any:
        ...
    def bitwise_xor(self, other: Any) -> Any:
        ...
    def bmm(input, mat2: Tensor) -> Tensor:
        """The products of matrices in two batches."""
    def bool(self, memory_format: Any = None) -> Tensor:
        """In bool."""
    def broadcast_to(input, *size: Any) -> Tensor:
        """``expand`` to *size*."""
    def cdouble(self, memory_format: Any = None) -> Tensor:
        """In complex128."""
    def ceil(input) -> Tensor:
        """``ceil`` of each element; of integers an integer."""
    def ceil_(self) -> Tensor:
        """``ceil`` of each element, in place."""
    def cfloat(self, memory_format: Any = None) -> Tensor:
        """In complex64."""
    def chunk(input, chunks: builtins.int, dim: Dim = 0, *, axis: Dim | None = None) -> builtins.tuple[Tensor, ...]:
        """At most so many parts of equal size along *dim* (the last may be smaller)."""
    def clamp(input, min: Any = None, max: Any = None) -> Tensor:
        """*input* limited to [min, max], which are numbers or tensors; either may be left out."""
    def clamp_(input, min: Any = None, max: Any = None) -> Tensor:
        """``clamp`` in place."""
    def clamp_max(input, max: Any) -> Tensor:
        """*input*, at most *max*."""
    def clamp_max_(input, max: Any) -> Tensor:
        """``clamp_max`` in place."""
    def clamp_min(input, min: Any) -> Tensor:
        """*input*, at least *min*."""
    def clamp_min_(input, min: Any) -> Tensor:
        """``clamp_min`` in place."""
    def clip(input, min: Any = None, max: Any = None) -> Tensor:
        """*input* limited to [min, max], which are numbers or tensors; either may be left out."""
    def clip_(input, min: Any = None, max: Any = None) -> Tensor:
        """``clamp`` in place."""
    def clone(input, *, memory_format: Any = None) -> Tensor:
        """A copy with the same history."""
    def conj(input) -> Tensor:
        """The complex conjugates, a copy; of real tensors the tensor itself."""
    def conj_physical(input) -> Tensor:
        """The complex conjugates, a copy; of real tensors the tensor itself."""
    def contiguous(self, memory_format: Any = None) -> Tensor:
        """The tensor itself where it lies in memory in C order, otherwise a copy that does."""
    def copy_(self, src: Any, non_blocking: builtins.bool = False) -> Tensor:
        """Every element becomes that of *src*, broadcast and cast."""
    def copysign(input, other: Any) -> Tensor:
        """``copysign`` element by element, with broadcasting."""
    def cos(input) -> Tensor:
        """``cos`` of each element."""
    def cos_(self) -> Tensor:
        """``cos`` of each element, in place."""
    def cosh(input) -> Tensor:
        """``cosh`` of each element."""
    def cosh_(self) -> Tensor:
        """``cosh`` of each element, in place."""
    def count_nonzero(input, dim: Dims | None = None, *, axis: Dims | None = None) -> Tensor:
        """The number of elements that are not 0, of all or along *dim*."""
    def cov(input, *, correction: builtins.int = 1) -> Tensor:
        """The covariances of the rows."""
    def cpu(self, memory_format: Any = None) -> Tensor:
        """On the CPU: the tensor itself, or a copy, which waits for the device."""
    def cross(input, other: Tensor, dim: builtins.int | None = None, *, axis: builtins.int | None = None) -> Tensor:
        """Vector products along a dimension of size 3: *dim*, or the first such."""
    def cuda(self, device: Any = None, non_blocking: builtins.bool = False, memory_format: Any = None) -> Tensor:
        """On a CUDA device: the tensor itself if it is there, else a copy. DeviceError, saying what is missing, where there is none."""
    def cumprod(input, dim: Dim | None = None, *, dtype: Dtype = None, axis: Dim | None = None) -> Tensor:
        """Running totals along *dim* (cumprod)."""
    def cumsum(input, dim: Dim | None = None, *, dtype: Dtype = None, axis: Dim | None = None) -> Tensor:
        """Running totals along *dim* (cumsum)."""
    def data_ptr(self) -> builtins.int:
        """The address of the first element."""
    def deg2rad(input) -> Tensor:
        """``deg2rad`` of each element."""
    def deg2rad_(self) -> Tensor:
        """``deg2rad`` of each element, in place."""
    def detach(t) -> Tensor:
        """The same memory without history; writes are counted for both."""
    def detach_(t) -> Tensor:
        """Cut this tensor off its history."""
    def diag(input, diagonal: builtins.int = 0) -> Tensor:
        """The diagonal of a matrix (a copy), or the matrix with a vector on its diagonal."""
    def diag_embed(input, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """Matrices with the vectors along the last dimension on their diagonals."""
    def diagonal(input, offset: builtins.int = 0, dim1: Dim = 0, dim2: Dim = 1) -> Tensor:
        """The diagonal between two dimensions, which becomes the last one."""
    def diff(input, n: builtins.int = 1, dim: Dim = -1, prepend: Any = None, append: Any = None, *, axis: Dim | None = None) -> Tensor:
        """Differences between neighbours along *dim*, *n* times over."""
    def digamma(input) -> Tensor:
        """``digamma`` of each element."""
    def digamma_(self) -> Tensor:
        """``digamma`` of each element, in place."""
    def dim(self) -> builtins.int:
        """The number of dimensions."""
    def dist(input, other: Tensor, p: builtins.float = 2) -> Tensor:
        """The *p*-norm of the difference."""
    def div(input, other: Any, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """True division; with *rounding_mode* "floor" or "trunc" rounded."""
    def div_(self, other: Any) -> Tensor:
        ...
    def divide(input, other: Any, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """True division; with *rounding_mode* "floor" or "trunc" rounded."""
    def dot(input, tensor: Tensor) -> Tensor:
        """The product of two vectors."""
    def double(self, memory_format: Any = None) -> Tensor:
        """In float64."""
    def element_size(self) -> builtins.int:
        """The number of bytes of one element."""
    def eq(self, other: Any) -> Any:
        ...
    def equal(input, other: Tensor) -> builtins.bool:
        """Whether both have the same shape and the same elements."""
    def erf(input) -> Tensor:
        """``erf`` of each element."""
    def erf_(self) -> Tensor:
        """``erf`` of each element, in place."""
    def erfc(input) -> Tensor:
        """``erfc`` of each element."""
    def erfc_(self) -> Tensor:
        """``erfc`` of each element, in place."""
    def erfinv(input) -> Tensor:
        """``erfinv`` of each element."""
    def erfinv_(self) -> Tensor:
        """``erfinv`` of each element, in place."""
    def exp(input) -> Tensor:
        """``exp`` of each element."""
    def exp2(input) -> Tensor:
        """``exp2`` of each element."""
    def exp2_(self) -> Tensor:
        """``exp2`` of each element, in place."""
    def exp_(self) -> Tensor:
        """``exp`` of each element, in place."""
    def expand(self, *sizes: Any, size: Any = None) -> Tensor:
        """Dimensions of size 1 (and new ones in front) in the sizes given, without a copy; -1 keeps a size."""
    def expand_as(self, other: Tensor) -> Tensor:
        """``expand`` to the shape of *other*."""
    def expit(input) -> Tensor:
        """``sigmoid`` of each element."""
    def expm1(input) -> Tensor:
        """``expm1`` of each element."""
    def expm1_(self) -> Tensor:
        """``expm1`` of each element, in place."""
    def exponential_(self, lambd: builtins.float = 1.0, *, generator: Any = None) -> Tensor:
        """Exponentially distributed numbers with the rate *lambd*."""
    def fill_(self, value: Any) -> Tensor:
        """Every element becomes *value*."""
    def fix(input) -> Tensor:
        """``trunc`` of each element; of integers an integer."""
    def flatten(input, start_dim: Dim = 0, end_dim: Dim = -1) -> Tensor:
        """The dimensions from *start_dim* to *end_dim* as one."""
    def flip(input, *dims: Any) -> Tensor:
        """Reversed along the dimensions given."""
    def fliplr(input) -> Tensor:
        """Reversed along dimension 1."""
    def flipud(input) -> Tensor:
        """Reversed along dimension 0."""
    def float(self, memory_format: Any = None) -> Tensor:
        """In float32."""
    def float_power(input, exponent: Any) -> Tensor:
        """``input ** exponent`` in float64, of complex numbers in complex128."""
    def floor(input) -> Tensor:
        """``floor`` of each element; of integers an integer."""
    def floor_(self) -> Tensor:
        """``floor`` of each element, in place."""
    def floor_divide(input, other: Any) -> Any:
        ...
    def fmax(input, other: Any) -> Tensor:
        """``fmax`` element by element, with broadcasting."""
    def fmin(input, other: Any) -> Tensor:
        """``fmin`` element by element, with broadcasting."""
    def fmod(input, other: Any) -> Tensor:
        """The remainder of a division, with the sign of *input*."""
    def frac(input) -> Tensor:
        """``frac`` of each element; of integers an integer."""
    def frac_(self) -> Tensor:
        """``frac`` of each element, in place."""
    def gather(input, dim: Dim, index: Tensor, *, sparse_grad: builtins.bool = False) -> Tensor:
        """``out[i][j] = input[index[i][j]][j]`` for *dim* 0, and so on."""
    def ge(self, other: Any) -> Any:
        ...
    def ger(input, vec2: Tensor) -> Tensor:
        """All products of the elements of two vectors."""
    def gt(self, other: Any) -> Any:
        ...
    def half(self, memory_format: Any = None) -> Tensor:
        """In float16."""
    def heaviside(input, other: Any) -> Tensor:
        """``heaviside`` element by element, with broadcasting."""
    def histc(input, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0) -> Tensor:
        """Counts of elements in *bins* equal intervals from *min* to *max* (where equal, of the elements)."""
    def hypot(input, other: Any) -> Tensor:
        """``hypot`` element by element, with broadcasting."""
    def index_add(input, dim: Dim, index: Tensor, source: Tensor, *, alpha: builtins.float = 1) -> Tensor:
        """A copy of *input* with ``alpha * source`` added to the entries at *index*; repeated positions add up."""
    def index_add_(input, dim: Dim, index: Tensor, source: Tensor, *, alpha: builtins.float = 1) -> Tensor:
        """``index_add`` in place."""
    def index_copy(input, dim: Dim, index: Tensor, source: Tensor) -> Tensor:
        """A copy of *input* with the entries at *index* replaced by *source*."""
    def index_copy_(input, dim: Dim, index: Tensor, source: Tensor) -> Tensor:
        """``index_copy`` in place."""
    def index_fill(input, dim: Dim, index: Tensor, value: Any) -> Tensor:
        """A copy of *input* with the entries at *index* replaced by the number *value*."""
    def index_fill_(input, dim: Dim, index: Tensor, value: Any) -> Tensor:
        """``index_fill`` in place."""
    def index_put(input, indices: Any, values: Any, accumulate: builtins.bool = False) -> Tensor:
        """A copy of *input* with *values* written (or added) at *indices*."""
    def index_put_(self, indices: Any, values: Any, accumulate: builtins.bool = False) -> Tensor:
        """Write (or add) *values* at *indices*, a tuple of tensors."""
    def index_select(input, dim: Dim, index: Tensor) -> Tensor:
        """The entries of *input* along *dim* at the positions in the vector *index*."""
    def inner(input, other: Tensor) -> Tensor:
        """Products along the last dimensions."""
    def int(self, memory_format: Any = None) -> Tensor:
        """In int32."""
    def is_complex(input) -> builtins.bool:
        """Whether the elements are complex numbers."""
    def is_conj(input) -> builtins.bool:
        """False: conjugates are copies."""
    def is_contiguous(self, memory_format: Any = None) -> builtins.bool:
        """Whether the elements lie in memory in C order without gaps."""
    def is_floating_point(input) -> builtins.bool:
        """Whether the elements are floats."""
    def is_same_size(input, other: Tensor) -> builtins.bool:
        """Whether both have the same shape."""
    def is_signed(input) -> builtins.bool:
        """Whether the dtype has negative numbers."""
    def isclose(input, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
        """Elementwise ``|input - other| <= atol + rtol * |other|``, as bools."""
    def isfinite(input) -> Tensor:
        """``isfinite`` of each element, as bools."""
    def isin(elements, test_elements: Tensor, *, invert: builtins.bool = False) -> Tensor:
        """Whether each of *elements* is among *test_elements*, as bools."""
    def isinf(input) -> Tensor:
        """``isinf`` of each element, as bools."""
    def isnan(input) -> Tensor:
        """``isnan`` of each element, as bools."""
    def isreal(input) -> Tensor:
        """Whether each element has no imaginary part, as bools."""
    def kron(input, other: Tensor) -> Tensor:
        """The Kronecker product."""
    def kthvalue(input, k: builtins.int, dim: Dim = -1, keepdim: builtins.bool = False, *, axis: Dim | None = None, keepdims: builtins.bool = False) -> Any:
        """(value, index) of the *k*-th smallest element along *dim*, counted from 1."""
    def le(self, other: Any) -> Any:
        ...
    def lerp(input, end: Tensor, weight: Any) -> Tensor:
        """``input + weight * (end - input)``."""
    def lerp_(input, end: Tensor, weight: Any) -> Tensor:
        """``lerp`` in place."""
    def lgamma(input) -> Tensor:
        """``lgamma`` of each element."""
    def lgamma_(self) -> Tensor:
        """``lgamma`` of each element, in place."""
    def log(input) -> Tensor:
        """``log`` of each element."""
    def log10(input) -> Tensor:
        """``log10`` of each element."""
    def log10_(self) -> Tensor:
        """``log10`` of each element, in place."""
    def log1p(input) -> Tensor:
        """``log1p`` of each element."""
    def log1p_(self) -> Tensor:
        """``log1p`` of each element, in place."""
    def log2(input) -> Tensor:
        """``log2`` of each element."""
    def log2_(self) -> Tensor:
        """``log2`` of each element, in place."""
    def log_(self) -> Tensor:
        """``log`` of each element, in place."""
    def log_softmax(input, dim: Dim | None = None, dtype: Dtype = None, *, axis: Dim | None = None) -> Tensor:
        """``log_softmax`` along *dim*."""
    def logaddexp(input, other: Any) -> Tensor:
        """``logaddexp`` element by element, with broadcasting."""
    def logaddexp2(input, other: Any) -> Tensor:
        """``logaddexp2`` element by element, with broadcasting."""
    def logical_and(self, other: Any) -> Any:
        ...
    def logical_not(self) -> Any:
        ...
    def logical_or(self, other: Any) -> Any:
        ...
    def logical_xor(self, other: Any) -> Any:
        ...
    def logit(input, eps: builtins.float | None = None) -> Tensor:
        """log(x / (1 - x)); with *eps*, of x clamped to [eps, 1 - eps]."""
    def logsumexp(input, dim: Dims | None = None, keepdim: builtins.bool = False, *, axis: Dims | None = None, keepdims: builtins.bool = False) -> Tensor:
        """log(sum(exp(input))) along *dim* (an int or several), without overflow."""
    def long(self, memory_format: Any = None) -> Tensor:
        """In int64."""
    def lt(self, other: Any) -> Any:
        ...
    def masked_fill(input, mask: Tensor, value: Any) -> Tensor:
        """*input* with *value* (a number or a tensor without axes) where the *mask* holds."""
    def masked_fill_(input, mask: Tensor, value: Any) -> Tensor:
        """``masked_fill`` in place."""
    def masked_select(input, mask: Tensor) -> Tensor:
        """The elements where the *mask* holds, as a vector."""
    def matmul(input, other: Tensor) -> Tensor:
        """The product of vectors, matrices and batches of matrices."""
    def matrix_power(input, n: builtins.int) -> Tensor:
        """A square matrix multiplied with itself, *n* times (at least 0)."""
    def max(input, dim: Any = None, keepdim: builtins.bool = False, *, other: Any = None, axis: Any = None, keepdims: builtins.bool = False) -> Any:
        """The maximum of all elements; along *dim* the values and their indices; of two tensors ``maximum``."""
    def maximum(input, other: Any) -> Tensor:
        """``maximum`` element by element, with broadcasting."""
    def mean(input, dim: Dims | None = None, keepdim: builtins.bool = False, *, dtype: Dtype = None, axis: Dims | None = None, keepdims: builtins.bool = False) -> Tensor:
        """The mean of all elements, or along *dim*; of floats only."""
    def median(input, dim: Dim | None = None, keepdim: builtins.bool = False, *, axis: Dim | None = None, keepdims: builtins.bool = False) -> Any:
        """The lower of the middle elements; along *dim* with its index."""
    def min(input, dim: Any = None, keepdim: builtins.bool = False, *, other: Any = None, axis: Any = None, keepdims: builtins.bool = False) -> Any:
        """The minimum of all elements; along *dim* the values and their indices; of two tensors ``minimum``."""
    def minimum(input, other: Any) -> Tensor:
        """``minimum`` element by element, with broadcasting."""
    def mm(input, mat2: Tensor) -> Tensor:
        """The product of two matrices."""
    def moveaxis(input, source: Any, destination: Any) -> Tensor:
        """With the dimensions *source* moved to the places *destination*."""
    def movedim(input, source: Any, destination: Any) -> Tensor:
        """With the dimensions *source* moved to the places *destination*."""
    def mul(input, other: Any) -> Any:
        ...
    def mul_(self, other: Any) -> Tensor:
        ...
    def multiply(input, other: Any) -> Any:
        ...
    def mv(input, vec: Tensor) -> Tensor:
        """The product of a matrix and a vector."""
    def nan_to_num(input, nan: builtins.float | None = None, posinf: Any = None, neginf: Any = None) -> Tensor:
        """NaN replaced by *nan* (0), infinities by the largest numbers of the dtype unless given."""
    def nanmean(input, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Dtype = None, axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
        """``mean`` of the elements that are not NaN."""
    def nansum(input, dim: Dims | None = None, keepdim: builtins.bool = False, *, dtype: Dtype = None, axis: Dims | None = None, keepdims: builtins.bool = False) -> Tensor:
        """``sum`` that takes NaN for 0."""
    def narrow(input, dim: Dim, start: Any, length: builtins.int) -> Tensor:
        """*length* entries along *dim*, from *start*."""
    def ndimension(self) -> builtins.int:
        """The number of dimensions."""
    def ne(self, other: Any) -> Any:
        ...
    def neg(input) -> Tensor:
        ...
    def neg_(self) -> Tensor:
        """``neg`` of each element, in place."""
    def negative(input) -> Tensor:
        ...
    def negative_(self) -> Tensor:
        """``neg`` of each element, in place."""
    def nelement(input) -> builtins.int:
        """The number of elements."""
    def new_empty(self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        """``empty`` in the dtype of this tensor."""
    def new_full(self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        """``full`` in the dtype of this tensor."""
    def new_ones(self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        """``ones`` in the dtype of this tensor."""
    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        """``tensor(data)`` in the dtype of this tensor."""
    def new_zeros(self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        """``zeros`` in the dtype of this tensor."""
    def nonzero(input, *, as_tuple: builtins.bool = False) -> Any:
        """The indices of the elements that are not 0: a row for each, or (*as_tuple*) a vector for each dimension."""
    def norm(input, p: Any = 'fro', dim: Any = None, keepdim: builtins.bool = False, dtype: Any = None, *, axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
        """The *p*-norm of all elements, or along *dim*."""
    def normal_(self, mean: builtins.float = 0.0, std: builtins.float = 1.0, *, generator: Any = None) -> Tensor:
        """Normal numbers; of complex tensors each lane has half of the variance."""
    def numel(input) -> builtins.int:
        """The number of elements."""
    def numpy(self, *, force: builtins.bool = False) -> Any:
        """The array behind the tensor, which shares its memory; with *force*, a copy where that is on a CUDA device."""
    def outer(input, vec2: Tensor) -> Tensor:
        """All products of the elements of two vectors."""
    def permute(input, *dims: Any) -> Tensor:
        """With the dimensions in the order given."""
    def positive(input) -> Tensor:
        """*input* itself."""
    def pow(input, exponent: Any) -> Tensor:
        """``input ** exponent``; a number as exponent is part of the program (``x ** 2`` is a product)."""
    def pow_(self, exponent: Any) -> Tensor:
        ...
    def prod(input, dim: Dim | None = None, keepdim: builtins.bool = False, *, dtype: Dtype = None, axis: Dim | None = None, keepdims: builtins.bool = False) -> Tensor:
        """The product of all elements, or along *dim*."""
    def quantile(input, q: Any, dim: Dim | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear', axis: Dim | None = None, keepdims: builtins.bool = False) -> Tensor:
        """The elements below which the shares *q* (a number or a vector of them) of all lie, interpolated."""
    def rad2deg(input) -> Tensor:
        """``rad2deg`` of each element."""
    def rad2deg_(self) -> Tensor:
        """``rad2deg`` of each element, in place."""
    def random_(self, from_: Any = 0, to: Any = None, *, generator: Any = None, **bounds: Any) -> Tensor:
        """Integers from ``from`` to ``to`` - 1, or below the only bound given."""
    def ravel(input) -> Tensor:
        """All elements as a vector."""
    def reciprocal(input) -> Tensor:
        """``reciprocal`` of each element."""
    def reciprocal_(self) -> Tensor:
        """``reciprocal`` of each element, in place."""
    def relu(input) -> Tensor:
        """``relu`` of each element; of integers an integer."""
    def relu_(self) -> Tensor:
        """``relu`` of each element, in place."""
    def remainder(input, other: Any) -> Any:
        ...
    def repeat(self, *repeats: Any) -> Tensor:
        """The whole tensor so many times along each dimension; new dimensions come in front."""
    def repeat_interleave(input, repeats: Any, dim: Dim | None = None, *, output_size: Any = None, axis: Dim | None = None) -> Tensor:
        """Each element (or entry along *dim*) so many times; *repeats* may be a tensor with a count for each."""
    def reshape(input, *shape: Any) -> Tensor:
        """The elements in another shape: a view where possible, otherwise a copy."""
    def reshape_as(self, other: Tensor) -> Tensor:
        """``reshape`` to the shape of *other*."""
    def resolve_conj(input) -> Tensor:
        """The tensor itself: conjugates are copies."""
    def roll(input, shifts: Any, dims: Any = None) -> Tensor:
        """Shifted around along *dims*; without *dims* as one long vector."""
    def rot90(input, k: builtins.int = 1, dims: Any = (0, 1)) -> Tensor:
        """Turned by 90 degrees, *k* times, in the plane of two dimensions."""
    def round(input, *, decimals: builtins.int = 0) -> Tensor:
        """To the nearest integer (halves to even), or to so many *decimals*."""
    def round_(input, *, decimals: builtins.int = 0) -> Tensor:
        """``round`` in place."""
    def rsqrt(input) -> Tensor:
        """``rsqrt`` of each element."""
    def rsqrt_(self) -> Tensor:
        """``rsqrt`` of each element, in place."""
    def rsub(input, other: Any, *, alpha: builtins.float = 1) -> Tensor:
        ...
    def scatter(input, dim: Dim, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None) -> Tensor:
        """A copy of *input* with *src* (a tensor or a number) written where ``gather`` would read."""
    def scatter_(input, dim: Dim, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None) -> Tensor:
        """``scatter`` in place."""
    def scatter_add(input, dim: Dim, index: Tensor, src: Tensor) -> Tensor:
        """A copy of *input* with *src* added where ``gather`` would read."""
    def scatter_add_(input, dim: Dim, index: Tensor, src: Tensor) -> Tensor:
        """``scatter_add`` in place."""
    def select(input, dim: Dim, index: Any) -> Tensor:
        """The entry *index* along *dim*."""
    def sgn(input) -> Tensor:
        """``sgn`` of each element; of integers an integer."""
    def sgn_(self) -> Tensor:
        """``sgn`` of each element, in place."""
    def short(self, memory_format: Any = None) -> Tensor:
        """In int16."""
    def sigmoid(input) -> Tensor:
        """``sigmoid`` of each element."""
    def sigmoid_(self) -> Tensor:
        """``sigmoid`` of each element, in place."""
    def sign(input) -> Tensor:
        """``sign`` of each element; of integers an integer."""
    def sign_(self) -> Tensor:
        """``sign`` of each element, in place."""
    def sin(input) -> Tensor:
        """``sin`` of each element."""
    def sin_(self) -> Tensor:
        """``sin`` of each element, in place."""
    def sinc(input) -> Tensor:
        """``sinc`` of each element."""
    def sinc_(self) -> Tensor:
        """``sinc`` of each element, in place."""
    def sinh(input) -> Tensor:
        """``sinh`` of each element."""
    def sinh_(self) -> Tensor:
        """``sinh`` of each element, in place."""
    def size(self, dim: builtins.int | None = None) -> Any:
        """The shape, or the size of one dimension."""
    def softmax(input, dim: Dim | None = None, dtype: Dtype = None, *, axis: Dim | None = None) -> Tensor:
        """``softmax`` along *dim*."""
    def sort(input, dim: Dim = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, axis: Dim | None = None) -> Any:
        """(values, indices) in order along *dim*; always stable."""
    def split(tensor, split_size_or_sections: Any, dim: Dim = 0, *, axis: Dim | None = None) -> builtins.tuple[Tensor, ...]:
        """Parts along *dim*: of one size (the last may be smaller), or of the sizes listed."""
    def sqrt(input) -> Tensor:
        """``sqrt`` of each element."""
    def sqrt_(self) -> Tensor:
        """``sqrt`` of each element, in place."""
    def square(input) -> Tensor:
        """``square`` of each element; of integers an integer."""
    def square_(self) -> Tensor:
        """``square`` of each element, in place."""
    def squeeze(input, dim: Any = None, *, axis: Any = None) -> Tensor:
        """Without the dimensions of size 1; only *dim* (one or several) if given."""
    def std(input, dim: Any = None, unbiased: Any = None, keepdim: builtins.bool = False, *, correction: Any = None, axis: Any = None, keepdims: builtins.bool = False) -> Any:
        """``std`` of everything or along *dim*, with a divisor of count - *correction* (1)."""
    def stride(self, dim: builtins.int | None = None) -> Any:
        """The distance in elements between neighbours along each dimension."""
    def sub(input, other: Any, *, alpha: builtins.float = 1) -> Tensor:
        """``input - alpha * other``."""
    def sub_(self, other: Any, *, alpha: builtins.float = 1) -> Tensor:
        """``self -= alpha * other``."""
    def subtract(input, other: Any, *, alpha: builtins.float = 1) -> Tensor:
        """``input - alpha * other``."""
    def sum(input, dim: Dims | None = None, keepdim: builtins.bool = False, *, dtype: Dtype = None, axis: Dims | None = None, keepdims: builtins.bool = False) -> Tensor:
        """The sum of all elements, or along *dim* (an int or several)."""
    def swapaxes(input, dim0: Dim, dim1: Dim) -> Tensor:
        """With two dimensions exchanged."""
    def swapdims(input, dim0: Dim, dim1: Dim) -> Tensor:
        """With two dimensions exchanged."""
    def t(input) -> Tensor:
        """A matrix transposed; vectors and scalars as they are."""
    def take(input, index: Tensor) -> Tensor:
        """The elements of the flattened *input* at the positions in *index*."""
    def take_along_dim(input, indices: Tensor, dim: Dim | None = None, *, axis: Dim | None = None) -> Tensor:
        """As ``numpy.take_along_axis``; dimensions other than *dim* are broadcast."""
    def tan(input) -> Tensor:
        """``tan`` of each element."""
    def tan_(self) -> Tensor:
        """``tan`` of each element, in place."""
    def tanh(input) -> Tensor:
        """``tanh`` of each element."""
    def tanh_(self) -> Tensor:
        """``tanh`` of each element, in place."""
    def tensor_split(input, indices_or_sections: Any, dim: Dim = 0, *, axis: Dim | None = None) -> builtins.tuple[Tensor, ...]:
        """Parts along *dim*: so many of nearly equal size, or between the indices listed."""
    def tile(input, *dims: Any) -> Tensor:
        """As ``repeat``; missing counts in front are 1."""
    def to(self, *args: Any, **options: Any) -> Tensor:
        """In another dtype or on another device: ``to(dtype)``, ``to(device, dtype)``, ``to(other)``; the tensor itself where nothing changes. *copy* makes a copy in any case."""
    def tolist(self) -> Any:
        """The elements as (nested lists of) Python numbers."""
    def topk(input, k: builtins.int, dim: Dim = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, axis: Dim | None = None) -> Any:
        """(values, indices) of the *k* largest (or smallest) elements along *dim*, in order."""
    def trace(input) -> Tensor:
        """The sum of the diagonal of a matrix."""
    def transpose(input, dim0: Dim, dim1: Dim) -> Tensor:
        """With two dimensions exchanged."""
    def tril(input, diagonal: builtins.int = 0) -> Tensor:
        """The lower triangle of matrices, zeros elsewhere."""
    def triu(input, diagonal: builtins.int = 0) -> Tensor:
        """The upper triangle of matrices, zeros elsewhere."""
    def true_divide(input, other: Any, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """True division; with *rounding_mode* "floor" or "trunc" rounded."""
    def trunc(input) -> Tensor:
        """``trunc`` of each element; of integers an integer."""
    def trunc_(self) -> Tensor:
        """``trunc`` of each element, in place."""
    def type(self, dtype: Any = None, non_blocking: builtins.bool = False) -> Any:
        """The name of the kind of tensor, or the tensor in another dtype."""
    def type_as(self, other: Tensor) -> Tensor:
        """In the dtype of *other*."""
    def unbind(input, dim: Dim = 0, *, axis: Dim | None = None) -> builtins.tuple[Tensor, ...]:
        """The entries along *dim*."""
    def unflatten(input, dim: Dim, sizes: Sequence[builtins.int]) -> Tensor:
        """The dimension *dim* as several of the given *sizes*."""
    def unfold(input, dimension: Dim, size: builtins.int, step: builtins.int) -> Tensor:
        """All windows of *size* along *dimension*, so many *step*s apart, in a new last dimension (not to be written)."""
    def uniform_(self, from_: builtins.float = 0.0, to: builtins.float = 1.0, *, generator: Any = None, **bounds: builtins.float) -> Tensor:
        """Uniform numbers between two bounds (``from`` and ``to``); of complex tensors both lanes are such."""
    def unique(input, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: Dim | None = None, *, axis: Dim | None = None) -> Any:
        """The distinct elements in order; with their places in *input* and their counts where asked for."""
    def unsqueeze(input, dim: builtins.int | None = None, *, axis: builtins.int | None = None) -> Tensor:
        """With a new dimension of size 1 at *dim*."""
    def var(input, dim: Any = None, unbiased: Any = None, keepdim: builtins.bool = False, *, correction: Any = None, axis: Any = None, keepdims: builtins.bool = False) -> Any:
        """``var`` of everything or along *dim*, with a divisor of count - *correction* (1)."""
    def vdot(input, other: Tensor) -> Tensor:
        """The product of two vectors, of which the first is conjugated."""
    def view(self, *size: Any) -> Tensor:
        """The same memory in another shape; an error where the strides do not allow it."""
    def view_as(self, other: Tensor) -> Tensor:
        """``view`` in the shape of *other*."""
    def view_as_complex(input) -> Tensor:
        """The complex numbers whose parts lie along the last dimension, of size 2: a view."""
    def view_as_real(input) -> Tensor:
        """The real and imaginary parts along a new last dimension of size 2: a view."""
    def where(self, condition: Tensor, other: Any) -> Tensor:
        """*self* where the *condition* holds, *other* elsewhere."""
    def xlog1py(input, other: Any) -> Tensor:
        """``xlog1py`` element by element, with broadcasting."""
    def xlogy(input, other: Any) -> Tensor:
        """``xlogy`` element by element, with broadcasting."""
    def zero_(self) -> Tensor:
        """Every element becomes 0."""
    @property
    def H(self) -> Tensor: ...
    @property
    def T(self) -> Tensor: ...
    @property
    def imag(self) -> Tensor: ...
    @imag.setter
    def imag(self, value: Any) -> None: ...
    @property
    def mH(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    @property
    def real(self) -> Tensor: ...
    @real.setter
    def real(self, value: Any) -> None: ...

abs = Methods.abs
absolute = Methods.absolute
acos = Methods.acos
acosh = Methods.acosh
add = Methods.add
addcdiv = Methods.addcdiv
addcmul = Methods.addcmul
addmm = Methods.addmm
addmv = Methods.addmv
addr = Methods.addr
adjoint = Methods.adjoint
all = Methods.all
allclose = Methods.allclose
amax = Methods.amax
amin = Methods.amin
aminmax = Methods.aminmax
angle = Methods.angle
any = Methods.any
arccos = Methods.arccos
arccosh = Methods.arccosh
arcsin = Methods.arcsin
arcsinh = Methods.arcsinh
arctan = Methods.arctan
arctan2 = Methods.arctan2
arctanh = Methods.arctanh
argmax = Methods.argmax
argmin = Methods.argmin
argsort = Methods.argsort
argwhere = Methods.argwhere
asin = Methods.asin
asinh = Methods.asinh
atan = Methods.atan
atan2 = Methods.atan2
atanh = Methods.atanh
def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension."""
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions; a vector becomes a row."""
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions; new ones come last, for a vector on both sides."""
baddbmm = Methods.baddbmm
bincount = Methods.bincount
bitwise_and = Methods.bitwise_and
bitwise_left_shift = Methods.bitwise_left_shift
bitwise_not = Methods.bitwise_not
bitwise_or = Methods.bitwise_or
bitwise_right_shift = Methods.bitwise_right_shift
bitwise_xor = Methods.bitwise_xor
bmm = Methods.bmm
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape to which all *shapes* broadcast."""
def broadcast_tensors(*tensors: Any) -> builtins.tuple[Tensor, ...]:
    """All tensors in their common shape."""
broadcast_to = Methods.broadcast_to
def bucketize(input: Any, boundaries: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False) -> Tensor:
    """The numbers of the intervals between sorted *boundaries* in which elements lie."""
def cat(tensors: Any, dim: Any = 0, *, axis: Any = None) -> Tensor:
    """The tensors one after the other along *dim*."""
ceil = Methods.ceil
def chain_matmul(*m: Any) -> Any:
    ...
chunk = Methods.chunk
clamp = Methods.clamp
clamp_max = Methods.clamp_max
clamp_min = Methods.clamp_min
clip = Methods.clip
clone = Methods.clone
def column_stack(tensors: Any) -> Tensor:
    """The tensors as columns: vectors become such."""
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """The complex numbers of these real and imaginary parts, of one floating dtype, with broadcasting."""
def concat(tensors: Any, dim: Any = 0, *, axis: Any = None) -> Tensor:
    """The tensors one after the other along *dim*."""
def concatenate(tensors: Any, dim: Any = 0, *, axis: Any = None) -> Tensor:
    """The tensors one after the other along *dim*."""
conj = Methods.conj
conj_physical = Methods.conj_physical
copysign = Methods.copysign
cos = Methods.cos
cosh = Methods.cosh
count_nonzero = Methods.count_nonzero
cov = Methods.cov
cross = Methods.cross
cumprod = Methods.cumprod
cumsum = Methods.cumsum
deg2rad = Methods.deg2rad
detach = Methods.detach
diag = Methods.diag
diag_embed = Methods.diag_embed
diagonal = Methods.diagonal
diff = Methods.diff
digamma = Methods.digamma
dist = Methods.dist
div = Methods.div
divide = Methods.divide
dot = Methods.dot
def dstack(tensors: Any) -> Tensor:
    """The tensors one behind the other, along dimension 2."""
def einsum(equation: builtins.str, *operands: Any) -> Tensor:
    """The sum of products that the *equation* describes, as in ``numpy.einsum``."""
eq = Methods.eq
equal = Methods.equal
erf = Methods.erf
erfc = Methods.erfc
erfinv = Methods.erfinv
exp = Methods.exp
exp2 = Methods.exp2
expit = Methods.expit
expm1 = Methods.expm1
fix = Methods.fix
flatten = Methods.flatten
flip = Methods.flip
fliplr = Methods.fliplr
flipud = Methods.flipud
float_power = Methods.float_power
floor = Methods.floor
floor_divide = Methods.floor_divide
fmax = Methods.fmax
fmin = Methods.fmin
fmod = Methods.fmod
frac = Methods.frac
gather = Methods.gather
ge = Methods.ge
ger = Methods.ger
gt = Methods.gt
heaviside = Methods.heaviside
histc = Methods.histc
def hstack(tensors: Any) -> Tensor:
    """The tensors side by side: along dimension 1, vectors along 0."""
hypot = Methods.hypot
def imag(input: Tensor) -> Tensor:
    """The imaginary parts: a view. RuntimeError for real tensors."""
index_add = Methods.index_add
index_copy = Methods.index_copy
index_fill = Methods.index_fill
index_put = Methods.index_put
index_select = Methods.index_select
inner = Methods.inner
is_complex = Methods.is_complex
is_conj = Methods.is_conj
is_floating_point = Methods.is_floating_point
is_same_size = Methods.is_same_size
is_signed = Methods.is_signed
def is_tensor(obj: Any) -> Any:
    ...
isclose = Methods.isclose
isfinite = Methods.isfinite
isin = Methods.isin
isinf = Methods.isinf
isnan = Methods.isnan
isreal = Methods.isreal
kron = Methods.kron
kthvalue = Methods.kthvalue
le = Methods.le
lerp = Methods.lerp
lgamma = Methods.lgamma
def linalg_cross(input: Tensor, other: Tensor, *, dim: Dim = -1, axis: Dim | None = None) -> Tensor:
    """Vector products along *dim*, of size 3."""
def linalg_matrix_norm(A: Tensor, ord: Any = 'fro', dim: Any = (-2, -1), keepdim: builtins.bool = False, *, dtype: Any = None, axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """The norm of matrices: "fro", 1, -1, inf or -inf."""
def linalg_matrix_power(input: Tensor, n: builtins.int) -> Tensor:
    """A square matrix multiplied with itself, *n* times (at least 0)."""
def linalg_multi_dot(tensors: Any) -> Tensor:
    """The product of several matrices; the first and the last may be vectors."""
def linalg_norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None, axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """As ``numpy.linalg.norm``: of vectors, or of matrices where *ord* and two dimensions say so."""
def linalg_vecdot(x: Tensor, y: Tensor, *, dim: builtins.int = -1, axis: builtins.int | None = None) -> Tensor:
    """Products of vectors along *dim*, of which the first ones are conjugated."""
def linalg_vector_norm(x: Tensor, ord: Any = 2, dim: Dims | None = None, keepdim: builtins.bool = False, *, dtype: Dtype = None, axis: Dims | None = None, keepdims: builtins.bool = False) -> Tensor:
    """The norm of order *ord* of all elements, or along *dim*."""
log = Methods.log
log10 = Methods.log10
log1p = Methods.log1p
log2 = Methods.log2
log_softmax = Methods.log_softmax
logaddexp = Methods.logaddexp
logaddexp2 = Methods.logaddexp2
logical_and = Methods.logical_and
logical_not = Methods.logical_not
logical_or = Methods.logical_or
logical_xor = Methods.logical_xor
logit = Methods.logit
logsumexp = Methods.logsumexp
lt = Methods.lt
masked_fill = Methods.masked_fill
masked_select = Methods.masked_select
matmul = Methods.matmul
matrix_power = Methods.matrix_power
max = Methods.max
maximum = Methods.maximum
mean = Methods.mean
median = Methods.median
min = Methods.min
minimum = Methods.minimum
mm = Methods.mm
moveaxis = Methods.moveaxis
movedim = Methods.movedim
mul = Methods.mul
multiply = Methods.multiply
mv = Methods.mv
nan_to_num = Methods.nan_to_num
nanmean = Methods.nanmean
nansum = Methods.nansum
narrow = Methods.narrow
ne = Methods.ne
neg = Methods.neg
negative = Methods.negative
nonzero = Methods.nonzero
norm = Methods.norm
numel = Methods.numel
outer = Methods.outer
permute = Methods.permute
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """The complex numbers of these sizes and angles, of one floating dtype, with broadcasting."""
positive = Methods.positive
pow = Methods.pow
prod = Methods.prod
quantile = Methods.quantile
rad2deg = Methods.rad2deg
ravel = Methods.ravel
def real(input: Tensor) -> Tensor:
    """The real parts: a view, of real tensors the tensor itself."""
reciprocal = Methods.reciprocal
relu = Methods.relu
remainder = Methods.remainder
repeat_interleave = Methods.repeat_interleave
reshape = Methods.reshape
resolve_conj = Methods.resolve_conj
def result_type(tensor1: Any, tensor2: Any) -> np.dtype:
    """The dtype in which two tensors or numbers meet."""
roll = Methods.roll
rot90 = Methods.rot90
round = Methods.round
def row_stack(tensors: Any) -> Tensor:
    """The tensors one below the other; vectors are rows."""
rsqrt = Methods.rsqrt
rsub = Methods.rsub
scatter = Methods.scatter
scatter_add = Methods.scatter_add
def searchsorted(sorted_sequence: Tensor, input: Any, *, out_int32: builtins.bool = False, right: builtins.bool = False, side: builtins.str | None = None) -> Tensor:
    """The positions at which elements would be inserted into a sorted vector to keep it sorted."""
select = Methods.select
sgn = Methods.sgn
sigmoid = Methods.sigmoid
sign = Methods.sign
sin = Methods.sin
sinc = Methods.sinc
sinh = Methods.sinh
softmax = Methods.softmax
sort = Methods.sort
split = Methods.split
sqrt = Methods.sqrt
square = Methods.square
squeeze = Methods.squeeze
def stack(tensors: Any, dim: Any = 0, *, axis: Any = None) -> Tensor:
    """The tensors, of one shape, along a new dimension at *dim*."""
std = Methods.std
def std_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: builtins.bool = False, *, correction: Any = None, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """``std_mean`` of everything or along *dim*, with a divisor of count - *correction* (1)."""
sub = Methods.sub
subtract = Methods.subtract
sum = Methods.sum
swapaxes = Methods.swapaxes
swapdims = Methods.swapdims
t = Methods.t
take = Methods.take
def take_along_axis(input: Tensor, indices: Tensor, dim: Dim | None = None, *, axis: Dim | None = None) -> Tensor:
    """As ``numpy.take_along_axis``; dimensions other than *dim* are broadcast."""
take_along_dim = Methods.take_along_dim
tan = Methods.tan
tanh = Methods.tanh
tensor_split = Methods.tensor_split
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over so many last and first dimensions, or over the dimensions in two lists."""
tile = Methods.tile
topk = Methods.topk
trace = Methods.trace
transpose = Methods.transpose
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1.0, dim: Dim = -1, axis: Dim | None = None) -> Tensor:
    """The area under *y* along *dim* by the trapezoidal rule, at the points *x* or in steps of *dx*."""
def trapz(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1.0, dim: Dim = -1, axis: Dim | None = None) -> Tensor:
    """The area under *y* along *dim* by the trapezoidal rule, at the points *x* or in steps of *dx*."""
tril = Methods.tril
triu = Methods.triu
true_divide = Methods.true_divide
trunc = Methods.trunc
unbind = Methods.unbind
unflatten = Methods.unflatten
unique = Methods.unique
unsqueeze = Methods.unsqueeze
var = Methods.var
def var_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: builtins.bool = False, *, correction: Any = None, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """``var_mean`` of everything or along *dim*, with a divisor of count - *correction* (1)."""
vdot = Methods.vdot
view_as_complex = Methods.view_as_complex
view_as_real = Methods.view_as_real
def vstack(tensors: Any) -> Tensor:
    """The tensors one below the other; vectors are rows."""
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """*input* where the *condition* holds, *other* elsewhere; of a condition alone the indices where it holds."""
xlog1py = Methods.xlog1py
xlogy = Methods.xlogy
