"""Values of Python's own numbers while a function is recorded, computed as Python does: in a fraction of the time that
NumPy takes for one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..ir.aval import FLOAT, Aval
from ..ir.graph import Atom, Lit, Node, Var
from ..ir.primitive import Primitive

Number = float | bool
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "ne": operator.ne, "eq": operator.eq, "logical_and": operator.and_, "isfinite": math.isfinite, "abs": abs,
}  # fmt: skip


def function_of(prim: Primitive, params: dict[str, Any], aval: Aval) -> Callable[..., Any] | None:
    """The function from Python numbers to the result, of this *aval*; None where that is no number, or another one."""
    if params or aval.shape or not ((aval.weak and aval.dtype is FLOAT) or aval.dtype.kind == "b"):
        return None
    return _FUNCTIONS.get(prim.name) or partial(_by_numpy, prim)


def note_number(
    numbers: dict[Var, Number], prim: Primitive, inputs: Sequence[Atom], params: dict[str, Any], out: Var
) -> None:
    """Add the value of *out* to *numbers*, if it is a Python number that follows from them."""
    function = function_of(prim, params, out.aval)
    if function is not None:
        try:  # noqa: SIM105 - quicker than suppress()
            numbers[out] = function(*[x.value.item() if isinstance(x, Lit) else numbers[x] for x in inputs])
        except (ArithmeticError, ValueError, TypeError, KeyError):
            pass


def numbers_of(nodes: Sequence[Node], inputs: dict[Var, Number]) -> dict[Var, Number]:
    """The values of *inputs*, and of what *nodes* compute of them."""
    numbers = dict(inputs)
    for node in nodes:
        if len(node.outs) == 1:
            note_number(numbers, node.prim, node.inputs, node.params, node.out)
    return numbers


def _by_numpy(prim: Primitive, *values: Number) -> Number:
    with np.errstate(all="ignore"):
        return np.asarray(prim.impl(*values)).item()
