"""Convolution and pooling over images, channels first.

A convolution is one matrix product over strided slices of the input, put side by side (``_columns``); pooling is a
maximum or a mean over such slices.  All are index maps to the compiler: there is no code for derivatives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...tensors.apply import apply
from ...tensors.arguments import real_argument, tensor_argument
from ...tensors.dtypes import scalar_name
from ...tensors.op import EagerOp
from ...tensors.tensor import Tensor, raw
from ...tracer.record.autocast import may_meet
from .arrays import OptionalOp

Pair = tuple[int, int]
Pairs = tuple[Pair, Pair]


def pair(value: Any) -> Pair:
    """(vertical, horizontal) of one int, or of two."""
    if isinstance(value, int):
        return value, value
    first, *rest = value
    return int(first), int(rest[0] if rest else first)


def _slices(x: Any, kernel: Pair, stride: Pair, dilation: Pair, out: Pair) -> list[Any]:
    """For each place in the kernel, the elements of x under it at every output position, shape (..., \\*out)."""
    (kh, kw), (sh, sw), (dh, dw), (oh, ow) = kernel, stride, dilation, out
    return [
        x[..., i * dh : i * dh + (oh - 1) * sh + 1 : sh, j * dw : j * dw + (ow - 1) * sw + 1 : sw]
        for i in range(kh)
        for j in range(kw)
    ]


def _around(x: Any, padding: Pairs, value: float) -> Any:
    if padding == ((0, 0), (0, 0)):
        return x
    if type(x) is not np.ndarray:
        return np.pad(x, [(0, 0)] * (len(x.shape) - 2) + list(padding), constant_values=value)
    ((above, below), (left, right)), (h, w) = padding, x.shape[-2:]  # by hand: np.pad takes longer than a small image
    result = np.full((*x.shape[:-2], above + h + below, left + w + right), value, x.dtype)
    result[..., above : above + h, left : left + w] = x
    return result


def _out_sizes(sizes: Pair, kernel: Pair, stride: Pair, dilation: Pair) -> Pair:
    """The output size (h, w) of a kernel over a (padded) image."""
    (h, w), (kh, kw), (sh, sw), (dh, dw) = sizes, kernel, stride, dilation
    return (h - dh * (kh - 1) - 1) // sh + 1, (w - dw * (kw - 1) - 1) // sw + 1


# ---- convolution ---------------------------------------------------------------------------------------------------


def _columns(x: Any, kernel: Pair, stride: Pair, dilation: Pair, out: Pair) -> Any:
    """(images, channels, h, w) to (images, channels · places in the kernel, output positions)."""
    parts = _slices(x, kernel, stride, dilation, out)
    side_by_side = np.stack(parts, axis=2)
    return side_by_side.reshape(x.shape[0], x.shape[1] * len(parts), out[0] * out[1])


def _conv2d(x: Any, w: Any, bias: Any, stride: Pair, padding: Pairs, dilation: Pair, groups: int) -> Any:
    lead = x.shape[:-3]  # (images,), or nothing
    filters, channels, kh, kw = w.shape
    x = _around(x.reshape(math.prod(lead), *x.shape[-3:]), padding, 0.0)
    images, kernel, size = x.shape[0], (kh, kw), channels * kh * kw
    out = _out_sizes(x.shape[2:], kernel, stride, dilation)
    columns = _columns(x, kernel, stride, dilation, out)
    if groups == 1:
        y = np.matmul(w.reshape(filters, size), columns)
    else:
        columns = columns.reshape(images, groups, size, out[0] * out[1])
        y = np.matmul(w.reshape(groups, filters // groups, size), columns)
    y = y.reshape(*lead, filters, *out)
    return y if bias is None else y + bias.reshape(filters, 1, 1)


CONVOLUTION = OptionalOp("Convolution", _conv2d)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of images with filters.

    :param input: shape (images, channels, h, w), or (channels, h, w).
    :param weight: shape (filters, channels / groups, kh, kw).
    :param bias: shape (filters,), or None.
    :param padding: zeros around the image, or "valid" (none) or "same" (the output is as large as the input).
    :returns: shape (images, filters, oh, ow), or (filters, oh, ow).
    """
    x, w = raw(tensor_argument("conv2d", input)), raw(tensor_argument("conv2d", weight, "weight", 2))
    _check_conv(x, w, groups)
    if bias is not None and raw(bias).shape != w.shape[:1]:
        raise RuntimeError(
            f"Given weight of size {list(w.shape)}, expected bias to be 1-dimensional with {w.shape[0]} elements, but "
            f"got bias of size {list(raw(bias).shape)} instead"
        )
    stride, dilation, kernel = pair(stride), pair(dilation), (w.shape[2], w.shape[3])
    padding = padding_of(padding, kernel, stride, dilation)
    sizes = (x.shape[-2] + sum(padding[0]), x.shape[-1] + sum(padding[1]))
    reach = (dilation[0] * (kernel[0] - 1) + 1, dilation[1] * (kernel[1] - 1) + 1)
    if sizes[0] < reach[0] or sizes[1] < reach[1]:
        raise RuntimeError(
            f"Calculated padded input size per channel: ({sizes[0]} x {sizes[1]}). Kernel size: ({reach[0]} x "
            f"{reach[1]}). Kernel size can't be greater than actual input size"
        )
    return CONVOLUTION.of((input, weight), (bias,), stride, padding, dilation, groups)


def _check_conv(x: Any, w: Any, groups: int) -> None:
    if len(x.shape) not in (3, 4):
        raise RuntimeError(
            f"Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: {list(x.shape)}"
        )
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if x.shape[-3] != w.shape[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(w.shape)}, expected input{list(x.shape)} to have "
            f"{w.shape[1] * groups} channels, but got {x.shape[-3]} channels instead"
        )
    if w.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {list(w.shape)} instead"
        )
    if not may_meet(x.dtype, w.dtype):
        raise RuntimeError(
            f"Input type ({scalar_name(x.dtype).lower()}) and weight type ({scalar_name(w.dtype).lower()}) should be "
            "the same"
        )


def padding_of(padding: Any, kernel: Pair, stride: Pair, dilation: Pair) -> Pairs:
    """((above, below), (left, right))"""
    if isinstance(padding, str):
        if padding == "valid":
            return (0, 0), (0, 0)
        if padding != "same":
            raise RuntimeError(f"Invalid padding string: '{padding}'")
        if stride != (1, 1):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        above, left = total[0] // 2, total[1] // 2
        return (above, total[0] - above), (left, total[1] - left)
    vertical, horizontal = pair(padding)
    if vertical < 0 or horizontal < 0:
        raise RuntimeError("negative padding is not supported")
    return (vertical, vertical), (horizontal, horizontal)


# ---- pooling -------------------------------------------------------------------------------------------------------


def _windows(
    name: str, x: Any, kernel: Pair, stride: Pair, pad: Pair, dilation: Pair, ceil: bool
) -> tuple[Pair, Pairs]:
    """(output sizes, padding that makes all windows whole)"""
    if len(x.shape) not in (3, 4):
        raise RuntimeError(f"{name}(): Expected 3D or 4D input, but got input of size: {list(x.shape)}")
    out: list[int] = []
    around: list[Pair] = []
    for n, k, s, p, d in zip(x.shape[-2:], kernel, stride, pad, dilation, strict=True):
        if p < 0 or p > k // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
        reach = d * (k - 1) + 1
        count = (n + 2 * p - reach + (s - 1 if ceil else 0)) // s + 1
        if ceil and (count - 1) * s >= n + p:  # a window must begin inside the image or its padding on the left
            count -= 1
        if count < 1:
            raise RuntimeError(
                f"Given input size: ({x.shape[-3]}x{x.shape[-2]}x{x.shape[-1]}). Calculated output size is too small"
            )
        out.append(count)
        around.append((p, max((count - 1) * s + reach - n - p, 0)))
    return (out[0], out[1]), (around[0], around[1])


def _max_pool(x: Any, kernel: Pair, stride: Pair, dilation: Pair, out: Pair, padding: Pairs) -> Any:
    first, *others = _slices(_around(x, padding, -np.inf), kernel, stride, dilation, out)
    highest = first
    for other in others:  # among equal elements the first one has the gradient, as in PyTorch; NaN wins
        highest = np.where((other > highest) | np.isnan(other), other, highest)
    return highest if others else first + 0


MAX_POOL = EagerOp("MaxPool2DWithIndices", _max_pool)


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:  # fmt: skip
    """The maximum in each window.

    :param input: shape (..., channels, h, w), three or four axes.
    :param stride: from one window to the next; by default the windows lie side by side.
    :returns: shape (..., channels, oh, ow).
    """
    if return_indices:
        raise NotImplementedError("max_pool2d: return_indices is not supported")
    x = raw(real_argument("max_pool2d", input))
    kernel, dilation = pair(kernel_size), pair(dilation)
    stride = kernel if stride is None or stride == [] else pair(stride)
    out, around = _windows("max_pool2d", x, kernel, stride, pair(padding), dilation, ceil_mode)
    return apply(MAX_POOL, (input,), (kernel, stride, dilation, out, around))


def _avg_pool(x: Any, kernel: Pair, stride: Pair, out: Pair, padding: Pairs, counts: Any) -> Any:
    total, *others = _slices(_around(x, padding, 0.0), kernel, stride, (1, 1), out)
    for other in others:
        total = total + other
    if not isinstance(counts, tuple):
        return total / counts
    down, across = counts
    return total / (np.array(down, x.dtype)[:, None] * np.array(across, x.dtype))


AVG_POOL = EagerOp("AvgPool2D", _avg_pool)


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window.

    :param input: shape (..., channels, h, w), three or four axes.
    :param count_include_pad: whether zeros of the padding count as elements.
    :param divisor_override: divide by this instead of the number of elements.
    :returns: shape (..., channels, oh, ow).
    """
    x = raw(tensor_argument("avg_pool2d", input))
    kernel = pair(kernel_size)
    stride = kernel if stride is None or stride == [] else pair(stride)
    pad = pair(padding)
    out, around = _windows("avg_pool2d", x, kernel, stride, pad, (1, 1), ceil_mode)
    counts: Any = float(kernel[0] * kernel[1])
    if divisor_override is not None:
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        counts = float(divisor_override)
    else:
        found = [
            _counts(n, k, s, p, o, count_include_pad)
            for n, k, s, p, o in zip(x.shape[-2:], kernel, stride, pad, out, strict=True)
        ]
        if any(c != k for per_axis, k in zip(found, kernel, strict=True) for c in per_axis):
            counts = tuple(found)
    return apply(AVG_POOL, (input,), (kernel, stride, out, around, counts))


def _counts(n: int, kernel: int, stride: int, pad: int, out: int, include_pad: bool) -> tuple[int, ...]:
    """The number of elements of each window along one axis."""
    low, high = (-pad, n + pad) if include_pad else (0, n)
    starts = [k * stride - pad for k in range(out)]
    return tuple([min(s + kernel, high) - max(s, low) for s in starts])


def _adaptive(x: Any, out: Pair) -> Any:
    h, w = x.shape[-2:]
    if h % out[0] == 0 and w % out[1] == 0:
        return x.reshape(*x.shape[:-2], out[0], h // out[0], out[1], w // out[1]).mean(axis=(-3, -1))
    down, across = _shares(h, out[0], x.dtype), _shares(w, out[1], x.dtype)
    return np.matmul(np.matmul(down, x), across.T)


def _shares(n: int, out: int, dtype: np.dtype) -> np.ndarray:
    """The matrix (out, n) of means over windows: row k takes the mean over the k-th of *out* windows of n elements."""
    result = np.zeros((out, n), dtype)
    for k in range(out):
        start, stop = k * n // out, -(-(k + 1) * n // out)
        result[k, start:stop] = 1.0 / (stop - start)
    return result


ADAPTIVE_AVG_POOL = EagerOp("AdaptiveAvgPool2D", _adaptive)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over as many windows as *output_size* says (None: as many as there are elements).

    :param input: shape (..., channels, h, w), three or four axes.
    :returns: shape (..., channels, \\*output_size).
    """
    x = raw(tensor_argument("adaptive_avg_pool2d", input))
    if len(x.shape) not in (3, 4):
        raise RuntimeError(f"adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got {list(x.shape)}")
    wanted = (output_size, output_size) if output_size is None or isinstance(output_size, int) else tuple(output_size)
    h, w = (n if o is None else int(o) for o, n in zip(wanted, x.shape[-2:], strict=True))
    return apply(ADAPTIVE_AVG_POOL, (input,), ((h, w),))


__all__ = ["adaptive_avg_pool2d", "avg_pool2d", "conv2d", "max_pool2d"]
