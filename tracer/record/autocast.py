"""Mixed precision: casts of operands inside ``with autocast(...)``.

``AUTOCAST`` (``ir/settings.py``) is the one data structure: the current dtype of products in this thread, or None.
Recorded programs depend on it, so it is part of every call key (``runtime/record/call_key.py``).  The lists of
operations are PyTorch's, as far as NumPy has them; tensors have theirs in ``tracegrad/tensors/autocast.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from ..ir.aval import FLOAT32, HALF
from ..ir.graph import Atom
from ..ir.settings import AUTOCAST
from ..ops.elementwise import cast


@contextmanager
def off() -> Iterator[None]:
    """A context without the setting, for recordings that are kept for later users."""
    before, AUTOCAST.dtype = AUTOCAST.dtype, None
    try:
        yield
    finally:
        AUTOCAST.dtype = before


def may_meet(a: np.dtype, b: np.dtype) -> bool:
    """Whether operands of a product can have these dtypes; within autocast half precision and float32 go together."""
    return a == b or (AUTOCAST.dtype is not None and all(d in HALF or d == FLOAT32 for d in (a, b)))


# Besides sums, means, variances, norms, cumulative sums, logsumexp and softmax.
IN_FLOAT32 = (
    np.power, np.float_power, np.reciprocal, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p,
    np.logaddexp, np.logaddexp2, np.arccos, np.arcsin, np.cosh, np.sinh, np.tan,
)  # fmt: skip


def lowered(atoms: Iterable[Atom]) -> tuple[Atom, ...]:
    """The operands of a product, cast from float32 to the setting's dtype, unless some are float64 or integers."""
    given = tuple(atoms)
    to = AUTOCAST.dtype
    if to is None or any(a.aval.dtype not in HALF and a.aval.dtype != FLOAT32 for a in given):
        return given
    return tuple([cast(a, to) for a in given])


def widened(x: Atom) -> Atom:
    """An operand of a numerically delicate operation, cast from half precision to float32."""
    return x if AUTOCAST.dtype is None or x.aval.dtype not in HALF else cast(x, FLOAT32)


def on_wide(function: Callable[..., Atom]) -> Callable[..., Atom]:
    """*function* of atoms, with its operands widened."""
    return lambda *atoms: function(*[widened(a) for a in atoms])
