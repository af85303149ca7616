"""``vmap``, as users call it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Never

from ...tracer.ir.errors import UnsupportedError
from ...tracer.ir.tracebacks import for_users
from ..declare import refuse_arguments
from ..wrapper import P
from .transform import Transform, TransformRule, rule_of, transformed


@dataclass(frozen=True)
class RowAxes:
    """A tree of axes that can be hashed: a prefix of the tree of values that they belong to.  *form* is an axis, None,
    or (the name of a container, its parts)."""

    form: Any

    @property
    def tree(self) -> Any:
        return _tree(self.form)

    def _tracegrad_text(self) -> tuple[Any, ...]:
        """The parts that recordings on disk know of it."""
        return (self.tree,)


@dataclass(frozen=True, eq=False)
class Vmap(TransformRule):
    """The function for all rows at once."""

    in_axes: RowAxes
    out_axes: RowAxes
    axis_size: int | None = None
    name = "vmap"


def row_axes(tree: Any, what: str) -> RowAxes:
    try:
        return RowAxes(_form(tree))
    except _NoAxisError:
        raise TypeError(f"{what} is an axis, None, or a tree of these, not {tree!r}") from None


class _NoAxisError(Exception):
    """A leaf is no axis."""


def _form(tree: Any) -> Any:
    kind = type(tree)
    if tree is None or (isinstance(tree, int) and kind is not bool):
        return tree
    if kind is tuple or kind is list:
        return kind.__name__, tuple([_form(part) for part in tree])
    if kind is dict:
        return "dict", tuple([(key, _form(part)) for key, part in tree.items()])
    leaves, structure = _trees().tree_flatten(tree, none_is_leaf=True)
    if len(leaves) == 1 and leaves[0] is tree:
        raise _NoAxisError
    return "node", tuple(map(_form, leaves)), structure


def _tree(form: Any) -> Any:
    if type(form) is not tuple:
        return form
    kind, parts, *structure = form
    if kind == "dict":
        return {key: _tree(part) for key, part in parts}
    if kind == "node":
        return _trees().tree_unflatten(structure[0], map(_tree, parts))
    return tuple(map(_tree, parts)) if kind == "tuple" else list(map(_tree, parts))


def _trees() -> Any:
    """Trees of other containers, which need optree."""
    return importlib.import_module("...tracer.ir.trees", __package__)


def vmap(
    fn: Callable[P, Any], in_axes: Any = 0, out_axes: Any = 0, axis_name: Any = None, axis_size: int | None = None,
    spmd_axis_name: Any = None, **unknown: Never,
) -> Transform[P, Any]:  # fmt: skip
    """*fn*, a function of one row, for many rows at once.

        vmap(lambda w, x: w @ x, in_axes=(None, 0))(np.ones((4, 3)), np.ones((5, 3)))             # of shape (5, 4)
        vmap(grad(loss), in_axes=(None, 0, 0))(params, inputs, labels)                      # gradients of each example

    :param in_axes: the axis of each argument along which its rows lie: an int for all, None for an argument that is the
        same in all rows, or a tuple with one for each argument by position, whose entries may be trees of axes like the
        argument.  Arguments by name are mapped over axis 0.
    :param out_axes: the axis of the rows in the results: an int, or a tree of axes like the result; None for a result
        that is the same in all rows.
    :param axis_size: the number of rows, where no argument is mapped.
    :param axis_name: JAX's, as *spmd_axis_name*, for collectives, which are not there: anything but None is refused.
    :returns: a compiled function.
    :raises ShapeError: where axes do not fit, or have different lengths.
    :raises UnsupportedError: where Python asks for a value that differs from row to row, as an ``if`` does.
    """
    if unknown:
        with for_users:
            refuse_arguments("vmap", unknown, fn)
    if axis_name is not None or spmd_axis_name is not None:
        raise UnsupportedError.here(
            "vmap has no collectives, which axis_name is for: what all rows are needed for stands outside of it, as in "
            "np.mean(vmap(f)(x), axis=0)"
        )
    return transformed(rule_of(Vmap, row_axes(in_axes, "in_axes"), row_axes(out_axes, "out_axes"), axis_size), fn)
