"""Small layers: ``Identity``, ``Linear``, ``Dropout``, ``Embedding``, ``Flatten``, ``Unflatten``."""

from __future__ import annotations

import math
from typing import Any

from ..tensors import create
from ..tensors.modes import no_grad
from ..tensors.tensor import METHODS, Tensor
from . import init
from .functional import basic
from .module import Module
from .parameter import Parameter, add_parameters


class Identity(Module):
    """The identity; arguments of the constructor have no effect."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """``input @ weight.T + bias``

    :param in_features: size of the last axis of the input, shape (..., in_features).
    :param out_features: of the output, shape (..., out_features).

    ``weight`` has shape (out_features, in_features), ``bias`` (out_features,) or is None.
    """

    _shown = ("in_features", "out_features", "bias")
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        shape = (out_features, in_features)
        add_parameters(self, dtype, device, weight=shape, bias=shape[:1] if bias else None)

    def reset_parameters(self) -> None:
        """Uniform numbers up to 1 / sqrt(in_features) in magnitude."""
        reset_uniform(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return basic.linear(input, self.weight, self.bias)


def reset_uniform(weight: Tensor, bias: Tensor | None) -> None:
    """Initial parameters of linear and convolutional layers: uniform, bounded by 1 / sqrt(fan in)."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        fan_in, _ = init._calculate_fan_in_and_fan_out(weight)
        bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
        init.uniform_(bias, -bound, bound)


class Dropout(Module):
    """In training, each element is 0 with probability *p* and divided by 1 - p otherwise.  Any shape."""

    _shown = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return basic.dropout(input, self.p, self.training, self.inplace)


class Embedding(Module):
    """Rows of a table: integers of any shape to vectors, shape (..., embedding_dim).

    ``weight`` has shape (num_embeddings, embedding_dim).  The row *padding_idx* starts at zero and has gradient zero.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        _freeze: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if max_norm is not None or scale_grad_by_freq or sparse:
            raise NotImplementedError("Embedding: max_norm, scale_grad_by_freq and sparse are not supported")
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        if _weight is None:
            table = create.empty(num_embeddings, embedding_dim, dtype=dtype, device=device)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """An embedding over the table *embeddings*, which is not trained unless *freeze* is False."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        count, size = embeddings.shape
        return cls(count, size, padding_idx, _weight=embeddings, _freeze=freeze)

    def reset_parameters(self) -> None:
        """Standard normal numbers."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                METHODS["zero_"](METHODS["select"](self.weight, 0, self.padding_idx))

    def forward(self, input: Tensor) -> Tensor:
        return basic.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class Flatten(Module):
    """The axes from *start_dim* to *end_dim* become one: (n, a, b, c) to (n, a · b · c)."""

    _shown = ("start_dim", "end_dim")

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return METHODS["flatten"](input, self.start_dim, self.end_dim)


class Unflatten(Module):
    """The axis *dim* becomes several, of sizes *unflattened_size*: (n, a · b) to (n, a, b)."""

    _shown = ("dim", "unflattened_size")

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError("Unflatten: named dimensions are not supported; dim must be an int")
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        shape = list(input.shape)
        axis = self.dim + len(shape) if self.dim < 0 else self.dim
        return METHODS["reshape"](input, (*shape[:axis], *self.unflattened_size, *shape[axis + 1 :]))


__all__ = ["Dropout", "Embedding", "Flatten", "Identity", "Linear", "Unflatten"]
