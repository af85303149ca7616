"""Layers over images, channels first: ``Conv2d`` and pooling."""

from __future__ import annotations

from typing import Any

from ..tensors.tensor import Tensor
from .function_module import FunctionModule
from .functional import basic, convolution
from .functional.convolution import pair
from .layers import reset_uniform
from .module import Module
from .parameter import Parameter, add_parameters


class Conv2d(Module):
    """Cross-correlation with learned filters: (n, in_channels, h, w) to (n, out_channels, oh, ow); the first axis may
    be missing.

    :param padding: zeros around the image, or "valid", or "same"; with another *padding_mode* ("reflect", "replicate",
        "circular") what stands there instead of zeros.

    ``weight`` has shape (out_channels, in_channels / groups, kh, kw), ``bias`` (out_channels,) or is None.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
        if padding == "same" and pair(stride) != (1, 1):
            raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                "padding_mode must be one of {'zeros', 'reflect', 'replicate', 'circular'}, but got "
                f"padding_mode='{padding_mode}'"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = pair(kernel_size), pair(stride), pair(dilation)
        self.padding = padding if isinstance(padding, str) else pair(padding)
        self.padding_mode = padding_mode
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        add_parameters(self, dtype, device, weight=shape, bias=(out_channels,) if bias else None)

    def reset_parameters(self) -> None:
        """Uniform numbers, bounded by 1 / sqrt(in_channels / groups · kh · kw)."""
        reset_uniform(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            (above, below), (left, right) = convolution.padding_of(
                padding, self.kernel_size, self.stride, self.dilation
            )
            input = basic.pad(input, (left, right, above, below), self.padding_mode)
            padding = 0
        return convolution.conv2d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0, 0):
            text += f", padding={self.padding}"
        if self.dilation != (1, 1):
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class MaxPool2d(Module):
    """The maximum in each window: (..., h, w) to (..., oh, ow)."""

    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if return_indices:
            raise NotImplementedError("MaxPool2d: return_indices is not supported")
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.ceil_mode = padding, dilation, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return convolution.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)


class AvgPool2d(FunctionModule, function=convolution.avg_pool2d):
    """The mean of each window: (..., h, w) to (..., oh, ow)."""

    _shown = ("kernel_size", "stride", "padding")

    def _settle(self, **settings: Any) -> None:
        if settings["stride"] is None:
            settings["stride"] = settings["kernel_size"]
        super()._settle(**settings)


class AdaptiveAvgPool2d(FunctionModule, function=convolution.adaptive_avg_pool2d):
    """Means over as many windows as *output_size* says: (..., h, w) to (..., \\*output_size)."""


__all__ = ["AdaptiveAvgPool2d", "AvgPool2d", "Conv2d", "MaxPool2d"]
