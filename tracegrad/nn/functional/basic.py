"""Functions behind the layers: linear maps, activations, dropout, embeddings, and small helpers.

Each is one operation of the eager layer, whose derivative follows from the primitives that its ``fn`` records.
Convolutions, normalisations and losses have files of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...tensors import random
from ...tensors.apply import apply
from ...tensors.arguments import named, one_dim, real_argument, tensor_argument
from ...tensors.dtypes import scalar_name
from ...tensors.inplace import inplace as write
from ...tensors.messages import only_real
from ...tensors.on_device import put_beside
from ...tensors.op import EagerOp
from ...tensors.ops_basic import MUL, floating
from ...tensors.ops_math import FLOATING, KEEPING
from ...tensors.tensor import METHODS, Tensor, make, raw
from ...tracer.ir.aval import FLOAT_KINDS, INEXACT_KINDS
from ...tracer.ir.site import warn_at_site
from ...tracer.ops import scipy_ufuncs as sp
from ...tracer.record.autocast import may_meet
from .arrays import all_within, held, rows
from .arrays import softplus as stable_softplus

Ints = tuple[int, ...]


# ---- linear maps ---------------------------------------------------------------------------------------------------


def _linear(x: Any, w: Any, *bias: Any) -> Any:
    flat = x if len(x.shape) == 2 else x.reshape(-1, x.shape[-1])
    y = np.matmul(flat, w.T)
    if bias:
        y = y + bias[0]
    return y if flat is x else y.reshape(*x.shape[:-1], w.shape[0])


LINEAR = {  # (whether the input has two axes, whether there is a bias) -> operation
    (True, True): EagerOp("Addmm", _linear), (True, False): EagerOp("Mm", _linear),
    (False, True): EagerOp("View", _linear, mixed="product"),
    (False, False): EagerOp("UnsafeView", _linear, mixed="product"),
}  # fmt: skip


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    :param input: shape (..., n).
    :param weight: shape (m, n).
    :param bias: shape (m,), or None.
    :returns: shape (..., m).
    """
    x, w = raw(tensor_argument("linear", input)), raw(weight)
    if x.shape[-1:] != w.shape[1:]:
        count = math.prod(x.shape[:-1])
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({count}x{x.shape[-1] if x.shape else 1} and "
            f"{w.shape[-1]}x{w.shape[0]})"
        )
    if not may_meet(x.dtype, w.dtype):
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {scalar_name(x.dtype)} and {scalar_name(w.dtype)}"
        )
    op = LINEAR[len(x.shape) == 2, bias is not None]
    return apply(op, (input, weight) if bias is None else (input, weight, bias))


# ---- activations ---------------------------------------------------------------------------------------------------


def _gelu(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))
    return x * (0.5 * (1.0 + sp.erf(x * math.sqrt(0.5))))


def _elu(x: Any, alpha: float, scale: float) -> Any:
    return np.where(x > 0, scale * x, scale * alpha * np.expm1(x))


def _softplus(x: Any, beta: float, threshold: float) -> Any:
    scaled = x * beta
    return np.where(scaled > threshold, x, np.log1p(np.exp(scaled)) / beta)


RELU, TANH, SIGMOID = KEEPING["relu"], FLOATING["tanh"], FLOATING["sigmoid"]
GELU = EagerOp("Gelu", _gelu)
ELU = EagerOp("Elu", _elu)
LEAKY_RELU = EagerOp("LeakyRelu", lambda x, slope: np.where(x > 0, x, slope * x))
SOFTPLUS = EagerOp("Softplus", _softplus)
HARDTANH = EagerOp("Hardtanh", lambda x, low, high: np.where(x <= low, low, np.where(x >= high, high, x)))
SOFTSIGN = EagerOp("Div", lambda x: x / (1.0 + np.abs(x)))


def _activation(name: str, op: EagerOp, input: Tensor, statics: tuple[Any, ...] = (), inplace: bool = False) -> Tensor:
    if not isinstance(input, Tensor):
        tensor_argument(name, input)
    kind = input.dtype.kind
    if kind == "c" and op not in (TANH, SIGMOID, SOFTSIGN):
        raise only_real(name)
    if kind not in FLOAT_KINDS and op is not RELU:
        if op not in (TANH, SIGMOID, SOFTSIGN):
            raise NotImplementedError(f"\"{name}\" not implemented for '{scalar_name(input.dtype)}'")
        input = floating(input)
    return write(op, input, (), statics) if inplace else apply(op, (input,), statics)


def _in_place(name: str, op: EagerOp, doc: str, *statics: Any) -> Callable[..., Tensor]:
    def activation(input: Tensor, inplace: bool = False) -> Tensor:
        return _activation(name, op, input, statics, inplace)

    return named(activation, name, doc)


def _plain(name: str, op: EagerOp, doc: str) -> Callable[..., Tensor]:
    def activation(input: Tensor) -> Tensor:
        return _activation(name, op, input)

    return named(activation, name, doc)


relu = _in_place("relu", RELU, "max(x, 0); the derivative at 0 is 0.")
relu6 = _in_place("relu6", HARDTANH, "x between 0 and 6.", 0.0, 6.0)
selu = _in_place(
    "selu", ELU, "``elu`` with the constants that keep mean and variance.", 1.6732632423543772, 1.0507009873554805
)
silu = _in_place("silu", EagerOp("Silu", lambda x: x * sp.expit(x)), "x · sigmoid(x)")
mish = _in_place("mish", EagerOp("Mish", lambda x: x * np.tanh(stable_softplus(x))), "x · tanh(softplus(x))")
tanh = _plain("tanh", TANH, "The hyperbolic tangent.")
sigmoid = _plain("sigmoid", SIGMOID, "1 / (1 + exp(-x))")
logsigmoid = _plain("logsigmoid", EagerOp("LogSigmoid", sp.log_expit), "log(sigmoid(x)), also far from 0.")
softsign = _plain("softsign", SOFTSIGN, "x / (1 + \\|x\\|)")


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x between *min_val* and *max_val*."""
    return _activation("hardtanh", HARDTANH, input, (float(min_val), float(max_val)), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, *negative_slope* · x elsewhere."""
    return _activation("leaky_relu", LEAKY_RELU, input, (float(negative_slope),), inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, *alpha* · (exp(x) - 1) elsewhere."""
    return _activation("elu", ELU, input, (float(alpha), 1.0), inplace)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x · Φ(x); with *approximate* "tanh", Φ by a tanh."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return _activation("gelu", GELU, input, (approximate,))


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta · x)) / beta; x itself where beta · x is above *threshold*."""
    return _activation("softplus", SOFTPLUS, input, (float(beta), float(threshold)))


def _normalised(name: str, input: Tensor, dim: int | None, dtype: Any) -> Tensor:
    if dim is None:
        warn_at_site(
            f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
            "argument.",
        )
        dim = 0 if len(raw(tensor_argument(name, input)).shape) in (0, 1, 3) else 1
    return METHODS[name](input, dim, dtype)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(x) along *dim*, divided by its sum there."""
    return _normalised("softmax", input, dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """The logarithm of ``softmax``."""
    return _normalised("log_softmax", input, dim, dtype)


# ---- dropout -------------------------------------------------------------------------------------------------------


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element 0 with probability *p*, otherwise divided by 1 - p; the input itself unless *training*, or
    if *p* is 0."""
    x = raw(real_argument("dropout", input))
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    shape, dtype = x.shape, x.dtype
    scale = dtype.type(1.0 / (1.0 - p) if p < 1.0 else 0.0)
    factor = make(put_beside(random.drawn(lambda stream: (stream.random(shape) >= p) * scale), x))
    return write(MUL, input, (factor,)) if inplace else apply(MUL, (input, factor))


# ---- embeddings ----------------------------------------------------------------------------------------------------


def _embedding(weight: Any, index: Any, padding: int | None) -> Any:
    found = rows(weight, index)
    if padding is None or type(found) is np.ndarray:
        return found
    return np.where((index == padding)[..., None], held(found), found)


EMBEDDING = EagerOp("Embedding", _embedding)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Rows of a table.

    :param input: integers in [0, n), of any shape.
    :param weight: shape (n, d).
    :param padding_idx: the row that no gradient reaches.
    :returns: shape (\\*input.shape, d).
    """
    index = raw(tensor_argument("embedding", input))
    if index.dtype.kind not in "iu":
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"torch.{scalar_name(index.dtype)}Tensor instead (while checking arguments for embedding)"
        )
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NotImplementedError("embedding: max_norm, scale_grad_by_freq and sparse are not supported")
    count = raw(weight).shape[0]
    if padding_idx is not None:
        if not -count <= padding_idx < count:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= count
    if not all_within(input, count):
        raise IndexError("index out of range in self")
    return apply(EMBEDDING, (weight, input), (padding_idx,))


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at each class, 0 elsewhere, on a new last axis; without *num_classes* up to the highest class there is."""
    index = raw(tensor_argument("one_hot", tensor, "tensor"))
    if index.dtype != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == 0 or num_classes < -1:
        if num_classes == 0 and index.size:
            raise RuntimeError("Class values must be smaller than num_classes.")
        raise RuntimeError("Number of classes must be positive")
    if index.size and bool((index < 0).any()):
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        if not index.size:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(index.max()) + 1
    elif index.size and not all_within(tensor, num_classes):
        raise RuntimeError("Class values must be smaller than num_classes.")
    hot = index[..., None] == put_beside(np.arange(num_classes), index)
    return make(hot.astype(np.int64))


# ---- helpers -------------------------------------------------------------------------------------------------------


def _vector_norms(x: Any, p: float, axes: Any) -> Any:
    if p == 2.0:
        return np.linalg.norm(x, axis=axes, keepdims=True)
    return np.linalg.norm(x, p, axis=axes, keepdims=True)


NORMALIZE = EagerOp("Div", lambda x, p, axes, eps: x / np.maximum(_vector_norms(x, p, axes), eps), mixed="float32")


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x divided by its *p*-norm along *dim*, or by *eps* where that is larger."""
    ndim = len(raw(tensor_argument("normalize", input)).shape)
    return apply(NORMALIZE, (input,), (float(p), one_dim(dim, ndim), float(eps)))


def _pad(x: Any, widths: tuple[tuple[int, int], ...], mode: str, value: float) -> Any:
    cut = tuple([slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, widths, strict=True)])
    if any(a < 0 or b < 0 for a, b in widths):
        x = x[cut]
    grown = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode == "constant":
        return np.pad(x, grown, constant_values=value)
    return np.pad(x, grown, mode=_PAD_MODES[mode])  # type: ignore[call-overload]


_PAD_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
PADS = {
    "constant": EagerOp("ConstantPadNd", _pad), "reflect": EagerOp("ReflectionPad2D", _pad),
    "replicate": EagerOp("ReplicationPad2D", _pad), "circular": EagerOp("CopySlicesBackward0", _pad),
}  # fmt: skip


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """More elements around the edges: ``pad`` gives (before, after) for the last axis, then for the one before it, and
    so on; negative counts cut off.  *mode* is "constant" (*value*, or 0), "reflect", "replicate", "circular"."""
    x = raw(tensor_argument("pad", input))
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * len(x.shape):
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {len(x.shape)}"
        )
    if mode not in PADS:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    pairs = [(int(a), int(b)) for a, b in zip(pad[::2], pad[1::2], strict=True)]
    widths = [(0, 0)] * (len(x.shape) - len(pairs)) + pairs[::-1]
    for axis, ((before, after), n) in enumerate(zip(widths, x.shape, strict=True)):
        if n + before + after < 0:
            raise RuntimeError(
                f"The input size {n}, plus negative padding {before} and {after} resulted in a negative output size, "
                f"which is invalid. Check dimension {axis} of your input."
            )
        if (mode == "reflect" and max(before, after) >= n) or (mode == "circular" and max(before, after) > n):
            raise RuntimeError(
                f"Padding size should be less than the corresponding input dimension, but got: padding "
                f"({before}, {after}) at dimension {axis} of input {list(x.shape)}"
            )
    fill = 0.0 if value is None else float(value)
    if x.dtype.kind not in INEXACT_KINDS:
        fill = x.dtype.type(fill).item()
    return apply(PADS[mode], (input,), (tuple(widths), mode, fill))


__all__ = [
    "dropout", "elu", "embedding", "gelu", "hardtanh", "leaky_relu", "linear", "log_softmax", "logsigmoid", "mish",
    "normalize", "one_hot", "pad", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softsign",
    "tanh",
]  # fmt: skip
