"""Normalisations: over the last axes, over the batch, over groups of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tensors.arguments import real_argument
from ...tensors.inplace import inplace
from ...tensors.modes import no_grad
from ...tensors.op import EagerOp
from ...tensors.ops_reduce import mean_of, variance_of
from ...tensors.tensor import Tensor, raw
from .arrays import OptionalOp

Ints = tuple[int, ...]


def _standardised(x: Any, axes: Ints, eps: float) -> Any:
    """*x* with mean 0 and variance 1 along *axes*."""
    centred = x - mean_of(x, axes, True)
    return centred / np.sqrt(mean_of(centred * centred, axes, True) + eps)


def _affine(y: Any, shape: Ints, weight: Any, bias: Any) -> Any:
    """y · weight + bias, where there are such"""
    if weight is not None:
        y = y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def _with_affine(name: str, compute: Any) -> OptionalOp:
    """The operation of x, weight and bias that maps the result of ``compute(x, *statics)``, (y, shape of both)."""

    def fn(x: Any, weight: Any, bias: Any, *statics: Any) -> Any:
        y, shape = compute(x, *statics)
        return _affine(y, shape, weight, bias)

    return OptionalOp(name, fn)


# ---- over the last axes --------------------------------------------------------------------------------------------


def _layer_norm(x: Any, count: int, eps: float) -> Any:
    axes = tuple(range(len(x.shape) - count, len(x.shape)))
    return _standardised(x, axes, eps), x.shape[len(x.shape) - count :]


def _rms_norm(x: Any, count: int, eps: float) -> Any:
    axes = tuple(range(len(x.shape) - count, len(x.shape)))
    return x / np.sqrt(mean_of(x * x, axes, True) + eps), x.shape[len(x.shape) - count :]


LAYER_NORM = _with_affine("NativeLayerNorm", _layer_norm)
RMS_NORM = _with_affine("FusedRmsNorm", _rms_norm)


def _check_last(x: Any, normalized_shape: Ints, weight: Tensor | None, bias: Tensor | None) -> None:
    count = len(normalized_shape)
    if not count:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element"
        )
    if x.shape[len(x.shape) - count :] != normalized_shape or len(x.shape) < count:
        wanted = list(normalized_shape)
        raise RuntimeError(
            f"Given normalized_shape={wanted}, expected input with shape [*, {str(wanted)[1:-1]}], but got input of "
            f"size{list(x.shape)}"
        )
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and raw(t).shape != normalized_shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(raw(t).shape)} and normalized_shape = {list(normalized_shape)}"
            )


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) over the last axes, times *weight* plus *bias*.

    :param input: shape (..., \\*normalized_shape).
    :param weight: shape normalized_shape, or None; *bias* as well.
    """
    x = raw(real_argument("layer_norm", input))
    shape = tuple(normalized_shape)
    _check_last(x, shape, weight, bias)
    return LAYER_NORM.of((input,), (weight, bias), len(shape), float(eps))


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean of squares + eps) over the last axes, times *weight*.

    :param input: shape (..., \\*normalized_shape).
    :param eps: by default the distance from 1 to the next number of the dtype.
    """
    x = raw(real_argument("rms_norm", input))
    shape = tuple(normalized_shape)
    _check_last(x, shape, weight, None)
    return RMS_NORM.of((input,), (weight, None), len(shape), float(np.finfo(x.dtype).eps if eps is None else eps))


# ---- over the batch ------------------------------------------------------------------------------------------------


def _but_channels(x: Any) -> tuple[Ints, Ints]:
    """(all axes but the channels', shape in which a vector over channels broadcasts with x)"""
    return tuple([k for k in range(len(x.shape)) if k != 1]), (-1, *(1,) * (len(x.shape) - 2))


def _batch_norm(x: Any, eps: float) -> Any:
    axes, shape = _but_channels(x)
    return _standardised(x, axes, eps), shape


def _scaled(x: Any, centre: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    _, shape = _but_channels(x)
    return _affine((x - centre.reshape(shape)) / np.sqrt(variance.reshape(shape) + eps), shape, weight, bias)


def _toward_mean(old: Any, x: Any, share: float) -> Any:
    return (1.0 - share) * old + share * x.mean(axis=_but_channels(x)[0])


def _toward_variance(old: Any, x: Any, share: float) -> Any:
    return (1.0 - share) * old + share * variance_of(x, _but_channels(x)[0], 1, False)


BATCH_NORM = _with_affine("NativeBatchNorm", _batch_norm)
BATCH_NORM_FIXED = OptionalOp("NativeBatchNorm", _scaled)
TOWARD_MEAN = EagerOp("Lerp", _toward_mean)
TOWARD_VARIANCE = EagerOp("Lerp", _toward_variance)


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel with mean 0 and variance 1 over the batch, times *weight* plus *bias*.

    :param input: shape (n, channels, ...).
    :param running_mean: shape (channels,), as *running_var*: used unless *training*, and then moved by the share
        *momentum* toward the mean and the (unbiased) variance of this batch.
    :param weight: shape (channels,), or None; *bias* as well.
    """
    x = raw(real_argument("batch_norm", input))
    if len(x.shape) < 2:
        raise RuntimeError(f"batch_norm(): expected an input of at least 2 dimensions, but got {list(x.shape)}")
    for name, t in (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)):
        if t is not None and raw(t).shape != (x.shape[1],):
            raise RuntimeError(f"{name} should contain {x.shape[1]} elements not {raw(t).size}")
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when training=False")
        return BATCH_NORM_FIXED.of((input, running_mean, running_var), (weight, bias), float(eps))
    if x.size == x.shape[1]:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size torch.{input.shape}")
    y = BATCH_NORM.of((input,), (weight, bias), float(eps))
    with no_grad():
        if running_mean is not None:
            inplace(TOWARD_MEAN, running_mean, (input,), (float(momentum),))
        if running_var is not None:
            inplace(TOWARD_VARIANCE, running_var, (input,), (float(momentum),))
    return y


# ---- over groups of channels ---------------------------------------------------------------------------------------


def _group_norm(x: Any, groups: int, eps: float) -> Any:
    n, channels, *rest = x.shape
    together = x.reshape(n, groups, channels // groups, *rest)
    y = _standardised(together, tuple(range(2, len(together.shape))), eps)
    return y.reshape(*x.shape), (channels, *(1,) * len(rest))


GROUP_NORM = _with_affine("NativeGroupNorm", _group_norm)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Each group of channels of each element of the batch with mean 0 and variance 1, times *weight* plus *bias*.

    :param input: shape (n, channels, ...).
    :param weight: shape (channels,), or None; *bias* as well.
    """
    x = raw(real_argument("group_norm", input))
    if len(x.shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(x.shape)}")
    if x.shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(x.shape)} and num_groups={num_groups}"
        )
    return GROUP_NORM.of((input,), (weight, bias), int(num_groups), float(eps))


__all__ = ["batch_norm", "group_norm", "layer_norm", "rms_norm"]
