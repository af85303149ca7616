"""Trees of values, by optree in the namespace "tracegrad".

Dicts count with the order of their keys, because the user's code may iterate over them.  Own node classes are
registered with optree, globally or in our namespace.  ``None`` is a node without leaves unless *none_is_leaf*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import optree

from .foreign_code import foreign_code

NAMESPACE = "tracegrad"
OBJECTS = "tracegrad.objects"  # in which plain objects are nodes, too
# Ends with the process: the order of keys is part of every structure in our namespaces.
_ordered = [optree.dict_insertion_ordered(True, namespace=name) for name in (NAMESPACE, OBJECTS)]
for _order in _ordered:
    _order.__enter__()


def node_functions(cls: type) -> tuple[Callable[..., Any], ...]:
    """The functions that take objects of a registered class apart and put them together; none of another class."""
    known = optree.register_pytree_node.get(cls, namespace=NAMESPACE)
    if known is None or known.kind is not optree.PyTreeKind.CUSTOM:  # a named tuple
        return ()
    return known.flatten_func, known.unflatten_func


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None, *, none_is_leaf: bool = False, namespace: str = NAMESPACE
) -> tuple[list[Any], Any]:
    """(leaves, structure) of *tree*."""
    with foreign_code:
        return optree.tree_flatten(tree, is_leaf, none_is_leaf=none_is_leaf, namespace=namespace)


def tree_unflatten(structure: Any, leaves: Iterable[Any]) -> Any:
    return optree.tree_unflatten(structure, leaves)


def tree_leaves(tree: Any, *, none_is_leaf: bool = False) -> list[Any]:
    return tree_flatten(tree, none_is_leaf=none_is_leaf)[0]


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """*tree* with ``function(leaf)`` in place of each leaf."""
    leaves, structure = tree_flatten(tree)
    return tree_unflatten(structure, map(function, leaves))
