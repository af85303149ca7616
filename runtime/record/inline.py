"""A compiled function called while another is being recorded: its program becomes part of that one.

Gradients too: the recorder's nodes between the function's arguments and its result are differentiated in place
(``inner.py``), so derivatives of derivatives need no machinery of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...codegen.derive.adjoint import vjp
from ...tracer.ir.graph import structural
from ...tracer.ops.complex import conjugate, put_together
from ...tracer.record.array import wrap
from ...tracer.record.recorder import require_recorder
from ..mode import GRAD, VALUE, Mode
from .call_key import Call
from .differentiable import differentiated, gradient_text, leaf_names, loss_of
from .inner import run_within
from .trees import Source, make_function


def inline_call(fn: Callable[..., Any], mode: Mode, call: Call) -> Any:
    """The result of *fn* (or of its gradient) within the recording in progress."""
    recorder = require_recorder("a compiled function on traced arrays")
    if mode.kind == VALUE:
        args, kwargs = call.arguments
        return fn(*args, **kwargs)
    run = run_within(fn, call, differentiated(call, mode, leaf_names(fn, call)), recorder, has_aux=mode.has_aux)
    result, loss = loss_of(fn, run.out, mode)
    found = vjp(run.nodes, loss, structural(1, loss.aval.dtype), run.lanes)
    slopes = put_together(found, run.variables)
    tree = in_arguments(call, mode, [wrap(conjugate(x), recorder) for x in slopes])
    if mode.kind == GRAD:
        return (tree, run.aux) if mode.has_aux else tree
    value = wrap(result, recorder)
    return ((value, run.aux), tree) if mode.has_aux else (value, tree)


def in_arguments(call: Call, mode: Mode, parts: list[Any]) -> Any:
    """*parts*, one for each differentiated leaf of *call*, in the structure of the arguments that *mode* names."""
    source = Source()
    source.lines = [f"return {gradient_text(call, mode, source, iter([f'r[{k}]' for k in range(len(parts))]))}"]
    return make_function("def assemble(r):", source)(parts)
