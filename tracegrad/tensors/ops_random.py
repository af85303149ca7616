"""Filling with random numbers, drawn from the default generator or the one given."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS
from .inplace import inplace
from .on_device import put_beside
from .op import EagerOp
from .random import _floats, drawn
from .signature import method
from .tensor import METHODS, Tensor, make, raw

_OPS = {name: EagerOp(label, lambda old, new: np.where(True, new, old)) for name, label in (
    ("uniform_", "Uniform"), ("normal_", "Normal"), ("bernoulli_", "BernoulliBackward2"), ("random_", "Random"),
    ("exponential_", "Exponential"),
)}  # fmt: skip


def _fill(name: str, self: Tensor, draw: Callable[[np.random.Generator], Any], generator: Any) -> Tensor:
    dtype = self.dtype
    drawn_here = drawn(lambda stream: np.asarray(draw(stream), dtype), generator)
    return inplace(_OPS[name], self, (make(put_beside(drawn_here, self._data)),))


@method
def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Any = None, **bounds: float) -> Tensor:
    """Uniform numbers between two bounds (``from`` and ``to``); of complex tensors both lanes are such."""
    low = bounds.pop("from", from_)
    if self.is_complex():
        uniform_(METHODS["view_as_real"](self), low, to, generator=generator)
        return self
    _floats(self.dtype, "check_uniform_bounds")
    if low > to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}")
    shape = self.shape
    return _fill("uniform_", self, lambda stream: low + (to - low) * stream.random(shape), generator)


@method
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Normal numbers; of complex tensors each lane has half of the variance."""
    if self.is_complex():
        normal_(METHODS["view_as_real"](self), 0.0, std * math.sqrt(0.5), generator=generator)
        return self.add_(mean) if mean else self
    _floats(self.dtype, "normal_kernel_cpu")
    if std < 0:
        raise RuntimeError(f"normal_ expects std >= 0.0, but found std {std}")
    shape = self.shape
    return _fill("normal_", self, lambda stream: mean + std * stream.standard_normal(shape), generator)


@method
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """1 with probability *p* (a number or a tensor), 0 otherwise."""
    if not isinstance(p, Tensor) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    shape = self.shape
    uniform = drawn(lambda stream: stream.random(shape), generator)
    return inplace(
        _OPS["bernoulli_"], self, (make((uniform < (raw(p) if isinstance(p, Tensor) else p)).astype(self.dtype)),)
    )


@method
def random_(self: Tensor, from_: Any = 0, to: Any = None, *, generator: Any = None, **bounds: Any) -> Tensor:
    """Integers from ``from`` to ``to`` - 1, or below the only bound given."""
    low, high = bounds.pop("from", from_), bounds.pop("to", to)
    if high is None:
        low, high = (0, low) if low else (0, 2**24 if self.dtype.kind in FLOAT_KINDS else np.iinfo(self.dtype).max)
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    shape = self.shape
    return _fill("random_", self, lambda stream: stream.integers(low, high, shape), generator)


@method
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Exponentially distributed numbers with the rate *lambd*."""
    _floats(self.dtype, "exponential_kernel_cpu")
    shape = self.shape
    return _fill("exponential_", self, lambda stream: stream.standard_exponential(shape) / lambd, generator)
