"""Functions of arrays that NumPy lacks, for plain and for traced arrays alike.

Functions here are called within ``EagerOp.fn``.  Bounds of indices are checked before, outside of it (as by
``_check_targets`` in ``class_losses.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensors.apply import apply
from ...tensors.op import EagerOp
from ...tensors.tensor import Tensor, raw
from ...tracer.ir.aval import INT
from ...tracer.ops.elementwise import F, cast
from ...tracer.ops.indexing import gather
from ...tracer.ops.shape import iota
from ...tracer.record.array import TracedArray, to_atom, wrap_array

# Tensors give inf and nan without a word, as in tracegrad/tensors/op.py.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"tracegrad\.nn")


def held(x: Any) -> Any:
    """*x* as a constant to derivatives."""
    return wrap_array(F.stop_gradient(to_atom(x))) if isinstance(x, TracedArray) else x


def rows(x: Any, index: Any) -> Any:
    """``x[index]`` for an array of integers that are known to lie in [0, len(x))."""
    if isinstance(x, TracedArray) or isinstance(index, TracedArray):
        return wrap_array(gather(to_atom(x), cast(to_atom(index), INT)))
    return x[index]


def is_class(target: Any, classes: int, axis: int) -> Any:
    """``result[..., c, ...] = (target == c)``, with a new *axis* for c in [0, classes)."""
    count = wrap_array(iota(classes)) if isinstance(target, TracedArray) else np.arange(classes)
    shape = [1] * (len(target.shape) + 1)
    shape[axis] = classes
    return np.expand_dims(target, axis) == count.reshape(shape)


class OptionalOp:
    """Operations that differ in which of their last operands are None: ``fn(*operands, *statics)`` sees them all."""

    def __init__(self, name: str, fn: Callable[..., Any], *, mixed: str = ""):
        self.name, self.fn, self.mixed = name, fn, mixed
        self._known: dict[tuple[bool, ...], EagerOp] = {}  # by which operands there are
        self._bare: EagerOp | None = None  # without the optional ones

    def of(self, given: tuple[Tensor, ...], optional: tuple[Tensor | None, ...], *statics: Any) -> Any:
        """The result for these operands."""
        if optional in _ABSENT and self._bare is not None:
            return apply(self._bare, given, statics)
        operands = (*given, *optional)
        there = tuple([t is not None for t in operands])
        op = self._known.get(there)
        if op is None:
            op = self._known.setdefault(there, EagerOp(self.name, self._with(there), mixed=self.mixed))
        if optional in _ABSENT:
            self._bare = op
        return apply(op, tuple([t for t in operands if t is not None]), statics)

    def _with(self, there: tuple[bool, ...]) -> Callable[..., Any]:
        """``fn`` as a function of the operands that there are."""
        fn, absent = self.fn, [k for k, known in enumerate(there) if not known]

        def of_given(*values: Any) -> Any:
            operands = list(values)
            for k in absent:
                operands.insert(k, None)
            return fn(*operands)

        return of_given if absent else fn


_ABSENT = {(None,), (None, None)}


def reduced(loss: Any, reduction: str) -> Any:
    """The mean or the sum of *loss*, or all of it."""
    return loss.sum() / loss.size if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def softplus(x: Any) -> Any:
    """log(1 + exp(x))"""
    if type(x) is np.ndarray:  # logaddexp, vectorised
        return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return np.logaddexp(0.0, x)


def all_within(index: Tensor, size: int, besides: int | None = None) -> bool:
    """Whether all elements of *index* lie in [0, size) or equal *besides*; in a recording a guard."""
    values = raw(index)
    if besides is None and values.dtype == np.int64 and type(values) is np.ndarray:
        return not np.count_nonzero(values.view(np.uint64) >= size)  # negative numbers are large ones there
    inside = (values >= 0) & (values < size)
    if besides is not None:
        inside = inside | (values == besides)
    return bool(inside.all())
