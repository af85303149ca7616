"""The rule of ``vmap`` (``vmap.py``): a function of one row becomes a function of many rows at once.

No loop goes over the rows: the axis of the batch is one more axis of each operation that depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...tracer.control.trees import structure_text
from ...tracer.ir.errors import ShapeError, UnsupportedError
from ...tracer.ir.trees import tree_unflatten
from ...tracer.ops.shape import move_axis
from ...tracer.record.array import to_atom, wrap_array
from ...tracer.record.recorder import Recorder
from ..record.call_key import ARRAY, COMPLEX_DATA, TRACED, Call
from ..record.differentiable import leaf_names, name_of
from ..record.inner import run_within
from ..record.outputs import flatten_result
from ..record.rows import all_rows, by_lane, repeated_rows, rows_of
from ..record.trees import one_level
from .inner_run import call_of
from .transform import Function, rewrites
from .values import described, is_number
from .vmap import Vmap


@rewrites(Vmap)
def _vmap(rule: Vmap, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    call = call_of("vmap", fn, args, kwargs, ())
    names = leaf_names(fn, call)
    axes = [*_axes_in(rule, call), *[0] * len(call.owners)][: len(call.owners)]
    stacked, wrt = [], []
    size = rule.axis_size
    first = ""
    for k, (leaf, kind, axis, name) in enumerate(zip(call.leaves, call.kinds, axes, names, strict=True)):
        if axis is None:
            continue
        atom = to_atom(leaf) if kind in (ARRAY, TRACED, COMPLEX_DATA) else None
        if atom is None or not -atom.aval.ndim <= axis < atom.aval.ndim:
            what = described(leaf)
            raise ShapeError.here(
                f"vmap maps `{name}` over axis {axis}, which {what} has not: give it in_axes=None, if it is the "
                "same in all rows"
            )
        length = atom.aval.shape[axis]
        if size is None:
            size, first = length, name
        if length != size:
            before = f"`{first}` has {size}" if first else f"axis_size={size} was given"
            raise ShapeError.here(
                f"the axes that vmap maps over have different lengths: {before}, and `{name}` has {length} (axis "
                f"{axis} of shape {atom.aval.shape})"
            )
        wrt.append(k)
        stacked.append(by_lane(move_axis, atom, axis % atom.aval.ndim, 0))
    if size is None:
        raise ShapeError.here("vmap has nothing to map over: in_axes is None for all arguments; give axis_size=n")
    recorder.settle_premise()
    group = len(recorder.row_inputs)
    run = run_within(fn, call, wrt, recorder, stacked=stacked)
    leaves, structure = flatten_result(run.out)
    found = all_rows(recorder, run.nodes, run.first_guard, recorder.row_inputs[group], size)
    out_axes = list(_spread(rule.out_axes.tree, structure, "out_axes", "the result"))
    outs = [_out(fn, x, axis, found, size, k) for k, (x, axis) in enumerate(zip(leaves, out_axes, strict=True))]
    return tree_unflatten(structure, outs)


def _axes_in(rule: Vmap, call: Call) -> Iterator[int | None]:
    prefix = rule.in_axes.tree
    if isinstance(prefix, (tuple, list)) and len(prefix) != len(call.positional):
        raise ShapeError.here(
            f"in_axes={prefix!r} is for {len(prefix)} arguments, but {len(call.positional)} were given by position"
        )
    for k, spec in enumerate(call.positional):
        own = prefix[k] if isinstance(prefix, (tuple, list)) else prefix
        yield from _spread(own, spec, "in_axes", f"argument {k}")


def _out(fn: Any, leaf: Any, axis: int | None, found: Any, size: int, k: int) -> Any:
    if not is_number(leaf):
        if leaf is None or axis is None:
            return leaf
        raise UnsupportedError.here(
            f"the function given to vmap, {name_of(fn)}, returned {described(leaf)}, which has no rows: return "
            "arrays, or give it out_axes=None"
        )
    atom = to_atom(leaf)
    if axis is None:
        if rows_of(atom, found, size) is None:
            return leaf
        raise ShapeError.here(
            f"out_axes is None for result {k} of {name_of(fn)}, but it differs from row to row: give it an axis"
        )
    rank = atom.aval.ndim + 1
    if not -rank <= axis < rank:
        raise ShapeError.here(f"out_axes={axis}: result {k} of {name_of(fn)} has {rank} axes with that of the batch")
    return wrap_array(by_lane(move_axis, repeated_rows(atom, found, size), 0, axis % rank))


def _spread(prefix: Any, spec: Any, what: str, where: str) -> Iterator[int | None]:
    """The axis of each leaf of *spec*, of which *prefix* is a tree that may end before the leaves."""
    if prefix is None or (isinstance(prefix, int) and not isinstance(prefix, bool)):
        yield from [prefix] * spec.num_leaves
        return
    try:
        parts, structure = one_level(prefix, spec)
    except Exception:
        parts, structure = [], None
    children = spec.children()
    if structure is None or not children or len(parts) != len(children) or structure.entries() != spec.entries():
        raise ShapeError.here(
            f"{what} does not fit {where}: {prefix!r} stands for a value of structure {structure_text(spec)}"
        )
    for part, child in zip(parts, children, strict=True):
        yield from _spread(part, child, what, where)
