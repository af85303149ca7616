"""A compiled function called on traced values: its program becomes part of the one being recorded.

Gradients too: the recorder's nodes between the function's arguments and its result are differentiated in place, so derivatives of
derivatives need no machinery of their own.  Each differentiated argument is renamed first (``alias``), so that a closure over the
same value stays constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..codegen.adjoint import vjp
from ..tracer.array import TracedArray, to_atom, wrap
from ..tracer.errors import DifferentiationError
from ..tracer.ir import Lit, Var, structural
from ..tracer.ops.elementwise import F
from ..tracer.recorder import require_recorder
from ..tracer.site import at_site
from .calls import Call
from .recording import GRAD, VALUE, Mode, gradient_builder, positions_of, scalar_loss


def inline_call(fn: Callable[..., Any], mode: Mode, call: Call) -> Any:
    """The result of *fn* (or of its gradient) on arguments some of which are traced."""
    recorder = require_recorder("a compiled function on traced arrays")
    if mode.kind == VALUE:
        args, kwargs = call.rebuild(call.leaves)
        return fn(*args, **kwargs)
    leaves, wrt = list(call.leaves), _wrt(call, mode)
    renamed: list[Var] = []
    for k in wrt:
        atom = to_atom(leaves[k])
        if not atom.aval.is_float:
            raise DifferentiationError(at_site(f"cannot differentiate with respect to {atom.aval.dtype} values: only floats have gradients"))
        if isinstance(atom, Lit):
            atom = recorder.const(np.asarray(atom.value))
        alias = F.alias(atom)
        renamed.append(alias)
        leaves[k] = TracedArray(alias, recorder, owner="an argument of the inner function")
    args, kwargs = call.rebuild(leaves)
    out = fn(*args, **kwargs)
    aux: Any = None
    if mode.has_aux:
        out, aux = out
    loss = scalar_loss(fn, out)
    gradients = [wrap(g, recorder) for g in vjp(list(recorder.nodes), loss, structural(1, loss.aval.dtype), renamed)]
    build = gradient_builder(call, mode, wrt)
    tree = build(gradients) if build else gradients[0]
    if mode.kind == GRAD:
        return (tree, aux) if mode.has_aux else tree
    value = wrap(loss, recorder)
    return ((value, aux), tree) if mode.has_aux else (value, tree)


def _wrt(call: Call, mode: Mode) -> Sequence[int]:
    owners = positions_of(call)
    count = max(owners, default=-1) + 1
    wanted = {p + count if p < 0 else p for p in mode.positions}
    return [k for k, o in enumerate(owners) if o in wanted]
