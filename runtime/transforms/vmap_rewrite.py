"""The rule of ``vmap`` (``vmap.py``): a function of one row becomes a function of many rows at once.

No loop goes over the rows: the axis of the batch is one more axis of each operation that depends on it.
"""

from __future__ import annotations

import ast
import functools
import linecache
import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from ...tracer.control.trees import structure_text
from ...tracer.ir.errors import ShapeError, UnsupportedError
from ...tracer.ir.graph import Atom, Guard
from ...tracer.ir.trees import tree_unflatten
from ...tracer.ops.complex import by_lane
from ...tracer.ops.shape import move_axis, reshape, slice_axis
from ...tracer.record.array import FUNCTIONS, TracedArray, to_atom, wrap_array
from ...tracer.record.recorder import Recorder
from ...tracer.record.retry import Options, Retry
from ..record.arguments import positional_names
from ..record.call_key import ARRAY, COMPLEX_DATA, TRACED, Call
from ..record.differentiable import leaf_names, name_of, unlabelled
from ..record.inner import run_within
from ..record.outputs import flatten_result
from ..record.rows import all_rows, repeated_rows, rows_of
from ..record.trees import one_level
from ..record.unwrap_tracers import Settled
from .inner_run import call_of
from .transform import Function, rewrites
from .values import described, is_number
from .vmap import Vmap

MAX_APART = 64  # rows that are run one by one, where Python takes other branches in other rows


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
    code = _code_of(fn)
    if code in recorder.outermost().taught.rows_apart:
        return _row_by_row(rule, fn, recorder, call, wrt, stacked, size)
    group, around = len(recorder.stand_ins.rows), recorder.stand_ins.batches

    def apart(guard: Guard, error: UnsupportedError) -> None:
        sizes = [size, *[n for _, n in around]]
        if guard.site is None or not _ends_a_loop(guard.site.file, guard.site.line) or recorder.parent is not None:
            return
        if guard.kind == "bool" and math.prod(sizes) <= MAX_APART:
            note = "a loop ends elsewhere in other rows of a batch: the run is made again row by row"
            recorder.again(Retry(Options(note, apart=frozenset([code, *[c for c, _ in around]])), error))

    recorder.stand_ins.batches = [*around, (code, size)]
    try:
        run = run_within(fn, call, wrt, recorder, stacked=stacked)
    finally:
        recorder.stand_ins.batches = around
    leaves, structure = flatten_result(run.out)
    found = all_rows(recorder, run.nodes, run.first_guard, recorder.stand_ins.rows[group], size, apart=apart)
    out_axes = list(_spread(rule.out_axes.tree, structure, "out_axes", "the result"))
    outs = [_out(fn, x, axis, found, size, k) for k, (x, axis) in enumerate(zip(leaves, out_axes, strict=True))]
    return tree_unflatten(structure, outs)


def _ends_a_loop(filename: str, line: int) -> bool:
    """Whether the test on this *line* is that of a ``while``, or of an ``if`` that leaves a loop: rows may take other
    numbers of turns.  Other branches are an error, which says how to choose in one batch."""
    return line in _loop_ends(filename, tuple(linecache.getlines(filename)))


@functools.lru_cache(maxsize=64)
def _loop_ends(filename: str, text: tuple[str, ...]) -> frozenset[int]:
    try:
        tree = ast.parse("".join(text))
    except SyntaxError:
        return frozenset()
    tests: list[ast.expr] = []
    for loop in ast.walk(tree):
        if isinstance(loop, ast.While):
            tests.append(loop.test)
        if isinstance(loop, ast.While | ast.For):
            inside = [x for statement in loop.body for x in ast.walk(statement) if isinstance(x, ast.If)]
            tests += [x.test for x in inside if any(isinstance(y, ast.Break | ast.Return) for y in ast.walk(x))]
    return frozenset(line for test in tests for line in range(test.lineno, (test.end_lineno or test.lineno) + 1))


def _code_of(fn: Any) -> tuple[Any, ...]:
    """The code of *fn*, behind the transforms around it, and these: the same in each run."""
    around = []
    while hasattr(fn, "__wrapped__"):
        around.append(type(fn).__name__ + repr(getattr(fn, "rule", "")))
        fn = fn.__wrapped__
    called = fn if hasattr(fn, "__code__") else type(fn).__call__  # (an object may have no hash)
    return (getattr(called, "__code__", type(fn)), *around)


def _row_by_row(
    rule: Vmap, fn: Function, recorder: Recorder, call: Call, wrt: Sequence[int], stacked: Sequence[Atom], size: int
) -> Any:  # fmt: skip
    """The rows one after the other, each with its own way through the branches of Python's."""
    rows: list[list[Any]] = []
    structure: Any = None
    for k in range(size):
        leaves = list(call.leaves)
        for place, rows_in in zip(wrt, stacked, strict=True):
            row = by_lane(lambda x, k=k: reshape(slice_axis(x, 0, k, 1), x.aval.shape[1:]), rows_in)
            leaves[place] = TracedArray(row, recorder, owner="an argument of the inner function")
        given = call.arguments_over(leaves, positional_names(fn), wrt)
        try:
            found = flatten_result(unlabelled(fn(*given.args, **given.kwargs)))
        finally:
            given.write_back(Settled(lambda value: value, given.originals))
        if structure is not None and found[1] != structure:
            raise UnsupportedError.here(
                f"the function given to vmap, {name_of(fn)}, returned {structure_text(found[1])} for one row and "
                f"{structure_text(structure)} for another"
            )
        rows.append(found[0])
        structure = found[1]
    out_axes = _spread(rule.out_axes.tree, structure, "out_axes", "the result")
    outs = [
        _joined(fn, [*column], axis, k)
        for k, (column, axis) in enumerate(zip(zip(*rows, strict=True), out_axes, strict=True))
    ]
    return tree_unflatten(structure, outs)


def _joined(fn: Any, rows: Sequence[Any], axis: int | None, k: int) -> Any:
    """The results of all rows along their axis; of one that has none, what all are."""
    if axis is None or not all(map(is_number, rows)):
        if axis is None and all(x is rows[0] for x in rows):
            return rows[0]
        return _out(fn, rows[0], axis, {}, len(rows), k) if axis is not None else _refuse_rows(fn, k)
    atoms = [to_atom(x) for x in rows]
    if len({(x.aval.dtype, x.aval.shape) for x in atoms}) > 1:
        raise ShapeError.here(f"result {k} of {name_of(fn)} has another shape or dtype in another row")
    return FUNCTIONS[np.stack]([wrap_array(x) for x in atoms], axis=axis)


def _refuse_rows(fn: Any, k: int) -> NoReturn:
    raise ShapeError.here(
        f"out_axes is None for result {k} of {name_of(fn)}, but it differs from row to row: give it an axis"
    )


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
