"""A compiled function called while another is being recorded: its program becomes part of that one.

Gradients too: the recorder's nodes between the function's arguments and its result are differentiated in place, so
derivatives of derivatives need no machinery of their own.  Each differentiated argument is renamed first (``alias``),
so that a closure over the same value stays constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...codegen.derive.adjoint import vjp
from ...tracer.ir.graph import Atom, Lit, Node, Pair, Var, structural
from ...tracer.ir.primitive import PRIMITIVES
from ...tracer.numpy_api.python_builtins import refuse_numbers_of_text
from ...tracer.ops.complex import real_atoms
from ...tracer.ops.elementwise import whole_lanes
from ...tracer.record.array import TracedArray, to_atom, wrap
from ...tracer.record.recorder import Recorder, require_recorder
from .arguments import positional_names
from .call_key import Call
from .differentiable import differentiated, gradient_text, leaf_names, loss_of, split_aux, unlabelled
from .recording import GRAD, VALUE, Mode
from .trees import Source, make_function
from .unwrap_tracers import Settled


def inline_call(fn: Callable[..., Any], mode: Mode, call: Call) -> Any:
    """The result of *fn* (or of its gradient) within the recording in progress."""
    recorder = require_recorder("a compiled function on traced arrays")
    if mode.kind == VALUE:
        args, kwargs = call.arguments
        return fn(*args, **kwargs)
    with recorder.in_full():
        return _gradient(fn, mode, call, recorder)


def _gradient(fn: Callable[..., Any], mode: Mode, call: Call, recorder: Recorder) -> Any:
    leaves, wrt = list(call.leaves), differentiated(call, mode, leaf_names(fn, call))
    start = len(recorder.nodes)
    variables: list[Var] = []
    for k in wrt:
        variables.append(renamed(to_atom(leaves[k]), recorder))
        leaves[k] = TracedArray(variables[-1], recorder, owner="an argument of the inner function")
    for k, first in call.repeated.items():
        leaves[k] = leaves[first]
    given = call.arguments_over(leaves, positional_names(fn), wrt)
    wanted: Any = real_atoms(variables)
    with recorder.differentiating(wanted):
        try:
            out = unlabelled(fn(*given.args, **given.kwargs))
        finally:
            given.write_back(Settled(lambda value: value, given.originals))
        aux: Any = None
        if mode.has_aux:
            out, aux = split_aux(fn, out)
        refuse_numbers_of_text(recorder, out, start)
        result, loss = loss_of(fn, out, mode)
    found = vjp(recorder.nodes[start:], loss, structural(1, loss.aval.dtype), wanted)
    tree = _tree(call, mode, [wrap(g, recorder) for g in gradients_of(variables, found)])
    if mode.kind == GRAD:
        return (tree, aux) if mode.has_aux else tree
    value = wrap(result, recorder)
    return ((value, aux), tree) if mode.has_aux else (value, tree)


def renamed(atom: Atom, recorder: Recorder) -> Var:
    """*atom* under a name that nothing else has: equal nodes would be shared, and two arguments with one value
    confused."""
    if atom.aval.is_complex:
        re, im = [renamed(lane, recorder) for lane in whole_lanes(atom)]
        return Pair(re, im, atom.aval.dtype)
    if isinstance(atom, Lit):
        atom = recorder.const(np.asarray(atom.value))
    alias = Var(atom.aval)
    recorder.append(Node(PRIMITIVES["alias"], (atom,), {}, (alias,), recorder.site()))
    return alias


def gradients_of(variables: Sequence[Var], cotangents: Iterable[Atom]) -> list[Atom]:
    """The gradients of *variables* from the cotangents of them, or of the lanes of complex ones."""
    found = iter(cotangents)
    return [Pair(next(found), -next(found), v.aval.dtype) if v.aval.is_complex else next(found) for v in variables]


def _tree(call: Call, mode: Mode, gradients: list[Any]) -> Any:
    source = Source()
    source.lines = [f"return {gradient_text(call, mode, source, iter([f'r[{k}]' for k in range(len(gradients))]))}"]
    return make_function("def assemble(r):", source)(gradients)
