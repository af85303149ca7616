"""Normalising layers: over the last axes, over the batch, over groups of channels."""

from __future__ import annotations

from typing import Any

from ..tensors import create
from ..tensors.modes import no_grad
from ..tensors.ops_basic import add_
from ..tensors.tensor import Tensor
from . import init
from .functional import normalization
from .module import Module
from .parameter import Parameter, add_parameters


class _Affine(Module):
    """A normalisation with a ``weight`` and perhaps a ``bias``, each of which may be None."""

    weight: Parameter | None
    bias: Parameter | None

    def reset_parameters(self) -> None:
        """Weight 1 and bias 0."""
        weight, bias = self._parameters["weight"], self._parameters.get("bias")
        if weight is not None:
            init.ones_(weight)
        if bias is not None:
            init.zeros_(bias)


class LayerNorm(_Affine):
    """(x - mean) / sqrt(variance + eps) over the last axes, times ``weight`` plus ``bias``.

    :param normalized_shape: sizes of these axes; the input has shape (..., \\*normalized_shape), the parameters have
        shape normalized_shape.
    """

    _shown = (":normalized_shape", "eps", "elementwise_affine", "bias")

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        parameters = shape if elementwise_affine else None
        add_parameters(self, dtype, device, weight=parameters, bias=parameters if bias else None)

    def forward(self, input: Tensor) -> Tensor:
        return normalization.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(_Affine):
    """x / sqrt(mean of squares + eps) over the last axes, times ``weight``; shapes as in ``LayerNorm``."""

    _shown = (":normalized_shape", "eps", "elementwise_affine")

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        add_parameters(self, dtype, device, weight=shape if elementwise_affine else None)

    def forward(self, input: Tensor) -> Tensor:
        return normalization.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class _BatchNorm(_Affine):
    """Each channel with mean 0 and variance 1 over the batch, times ``weight`` plus ``bias``, shape (num_features,).

    In training ``running_mean`` and ``running_var`` follow the batches: by the share *momentum*, or where that is None
    as plain averages.  In evaluation they are used, unless *track_running_stats* is False.
    """

    _shown = (":num_features", "eps", "momentum", "affine", "bias", "track_running_stats")
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _ndims: tuple[int, ...] = ()

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        options = {"dtype": dtype, "device": device}
        tracked = track_running_stats
        self.register_buffer("running_mean", create.zeros(num_features, **options) if tracked else None)
        self.register_buffer("running_var", create.ones(num_features, **options) if tracked else None)
        count = create.tensor(0, dtype="int64", device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        shape = num_features if affine else None
        add_parameters(self, dtype, device, weight=shape, bias=shape if bias else None)

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and ``reset_running_stats``."""
        self.reset_running_stats()
        super().reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self._ndims:
            raise ValueError(f"expected {' or '.join(f'{n}D' for n in self._ndims)} input (got {input.ndim}D input)")
        share = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            with no_grad():
                add_(self.num_batches_tracked, 1)
            if self.momentum is None:
                share = 1.0 / float(self.num_batches_tracked)
        moving = self.training or not self.track_running_stats
        return normalization.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            moving or self.running_mean is None, share, self.eps,
        )  # fmt: skip


class BatchNorm1d(_BatchNorm):
    __doc__ = f"Inputs of shape (n, num_features) or (n, num_features, length).\n\n    {_BatchNorm.__doc__}"
    _ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = f"Inputs of shape (n, num_features, h, w).\n\n    {_BatchNorm.__doc__}"
    _ndims = (4,)


class GroupNorm(_Affine):
    """Each of *num_groups* groups of channels of each image with mean 0 and variance 1, times ``weight`` plus ``bias``.

    Inputs have shape (n, num_channels, ...), the parameters (num_channels,).
    """

    _shown = (":num_groups", ":num_channels", "eps", "affine", "bias")

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        shape = num_channels if affine else None
        add_parameters(self, dtype, device, weight=shape, bias=shape if bias else None)

    def forward(self, input: Tensor) -> Tensor:
        return normalization.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


__all__ = ["BatchNorm1d", "BatchNorm2d", "GroupNorm", "LayerNorm", "RMSNorm"]
