"""Mixed precision: what an operation does to the dtypes of its operands inside ``with autocast(...)``.

``SETTING`` is the one data structure: the dtype that products have at present in this thread, or None.  Whoever reads
it makes a program that depends on it, so it is part of every call key (``runtime/record/call_key.py``).  The lists of
operations are PyTorch's, as far as NumPy has them; tensors have theirs in ``tracegrad/tensors/autocast.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import scipy.special as sp

from ..ir.aval import FLOAT32, HALF
from ..ir.graph import Atom
from ..ops.elementwise import cast


class _Setting(threading.local):
    dtype: np.dtype | None = None


SETTING = _Setting()


class _Use:
    """Has the setting ever been on in this process?  Until then, what answers calls need not look at it."""

    def __init__(self) -> None:
        self.begun = False
        self._callbacks: list[Callable[[], None]] = []

    def begin(self) -> None:
        """It is about to be."""
        self.begun = True
        for callback in self._callbacks:
            callback()

    def on_begin(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)


USE = _Use()


@contextmanager
def off() -> Iterator[None]:
    """Without the setting: what is recorded here is kept for whoever comes next."""
    before, SETTING.dtype = SETTING.dtype, None
    try:
        yield
    finally:
        SETTING.dtype = before


def may_meet(a: np.dtype, b: np.dtype) -> bool:
    """Can operands of a product have these dtypes?  Within autocast half precision and float32 go together."""
    return a == b or (SETTING.dtype is not None and all(d in HALF or d == FLOAT32 for d in (a, b)))


# Besides sums, means, variances, norms, cumulative sums, logsumexp and softmax.
IN_FLOAT32 = (
    np.power, np.float_power, np.reciprocal, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p,
    np.logaddexp, np.logaddexp2, np.arccos, np.arcsin, np.cosh, np.sinh, np.tan,
    sp.erfinv, sp.logit, sp.log_expit, sp.xlogy, sp.xlog1py, sp.gammaln, sp.psi,
)  # fmt: skip


def lowered(atoms: Iterable[Atom]) -> tuple[Atom, ...]:
    """The operands of a product: float32 becomes the dtype of the setting; with float64 or integers nothing happens."""
    given = tuple(atoms)
    to = SETTING.dtype
    if to is None or any(a.aval.dtype not in HALF and a.aval.dtype != FLOAT32 for a in given):
        return given
    return tuple([cast(a, to) for a in given])


def widened(x: Atom) -> Atom:
    """An operand of what is numerically delicate: half precision becomes float32."""
    return x if SETTING.dtype is None or x.aval.dtype not in HALF else cast(x, FLOAT32)


def on_wide(function: Callable[..., Atom]) -> Callable[..., Atom]:
    """*function* of atoms, which are widened."""
    return lambda *atoms: function(*[widened(a) for a in atoms])


__all__ = ["IN_FLOAT32", "SETTING", "USE", "lowered", "may_meet", "off", "on_wide", "widened"]
