"""Trees of values: dicts, lists, tuples, named tuples, registered classes, under JAX's names.

``tree.map``, ``tree.leaves`` … are those of ``jax.tree``; with ``tree_`` in front they are those of ``jax.tree_util``.
They are optree's, in the namespace in which compiled functions take their arguments apart (``tracer/ir/trees.py``), and
work on traced leaves as on others: an array, a number, and an object of a class that is not registered is a leaf; None
is a node without leaves.  Keys of dicts stay in their own order, where JAX sorts them.

A class that is registered here is a node of arguments and results of compiled functions, too.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import optree

from .tracer.ir import trees as _trees
from .tracer.ir.data_classes import dataclass
from .tracer.ir.errors import ShapeError
from .tracer.ir.foreign_code import foreign_code

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "Partial", "SequenceKey", "all", "all_leaves", "flatten",
    "flatten_with_path", "keystr", "leaves", "leaves_with_path", "map", "map_with_path", "ravel_pytree", "reduce",
    "register_dataclass", "register_pytree_node", "register_pytree_node_class", "register_static", "structure",
    "transpose", "tree_all", "tree_flatten", "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path",
    "tree_map", "tree_map_with_path", "tree_reduce", "tree_structure", "tree_transpose", "tree_unflatten",
    "treedef_children", "treedef_is_leaf", "treedef_tuple", "unflatten",
]  # fmt: skip

IsLeaf = Callable[[Any], builtins.bool] | None
Cls = TypeVar("Cls", bound=type)


# ---- taking apart and putting together ------------------------------------------------------------------------------


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Any]:
    """(leaves, structure) of *tree*.

    :param is_leaf: a function of a part, true where that is to be a leaf.
    :returns: the leaves in order, and a structure (optree's ``PyTreeSpec``), which has ``unflatten`` and ``==``.
    """
    return _trees.tree_flatten(tree, is_leaf)


def unflatten(treedef: Any, leaves: Iterable[Any]) -> Any:
    """The tree of structure *treedef* over *leaves*.  ValueError where there are too many of them or too few."""
    return _trees.tree_unflatten(treedef, leaves)


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of *tree* in order."""
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The structure of *tree*, without its leaves."""
    return flatten(tree, is_leaf)[1]


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """*tree* with ``f(leaf, *others)`` in place of each leaf, where *others* are the parts of the trees *rest* there.
    ValueError where one of *rest* has not the structure of *tree* as a prefix."""
    found, treedef = flatten(tree, is_leaf)
    others = [treedef.flatten_up_to(other) for other in rest]
    return unflatten(treedef, [f(*parts) for parts in zip(found, *others, strict=True)])


_NONE: Any = object()


def reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NONE, is_leaf: IsLeaf = None
) -> Any:  # fmt: skip
    """``functools.reduce`` over the leaves of *tree*.  TypeError for a tree without leaves and no *initializer*."""
    start = () if initializer is _NONE else (initializer,)
    return functools.reduce(function, leaves(tree, is_leaf), *start)


def all(tree: Any, *, is_leaf: IsLeaf = None) -> builtins.bool:
    """Whether all leaves of *tree* are true."""
    return builtins.all(leaves(tree, is_leaf))


def all_leaves(values: Iterable[Any], is_leaf: IsLeaf = None) -> builtins.bool:
    """Whether each of *values* is a leaf."""
    return builtins.all(treedef_is_leaf(structure(value, is_leaf)) for value in values)


def transpose(outer_treedef: Any, inner_treedef: Any | None, pytree_to_transpose: Any) -> Any:
    """A tree of structure *inner_treedef* over trees of *outer_treedef*, from one that is the other way round.  With
    None the inner structure is that of the first part.  TypeError where the tree is none of these."""
    with foreign_code:
        if inner_treedef is None:
            inner_treedef = structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
        return optree.tree_transpose(outer_treedef, inner_treedef, pytree_to_transpose)


def treedef_is_leaf(treedef: Any) -> builtins.bool:
    """Whether *treedef* is the structure of a leaf."""
    return bool(treedef.is_leaf())


def treedef_children(treedef: Any) -> list[Any]:
    """The structures of the parts."""
    return list(treedef.children())


def treedef_tuple(treedefs: Iterable[Any]) -> Any:
    """The structure of a tuple of trees."""
    with foreign_code:
        return optree.treespec_tuple(treedefs, namespace=_trees.NAMESPACE)


# ---- paths -----------------------------------------------------------------------------------------------------------


class _Key:
    """A step of a path, with one field."""

    text: ClassVar[str]

    @property
    def value(self) -> Any:
        return next(iter(vars(self).values()))

    def __str__(self) -> str:
        return self.text.format(self.value)


@dataclass(frozen=True)
class DictKey(_Key):
    """A step of a path: the value at *key* of a dict."""

    key: Any
    text = "[{!r}]"


@dataclass(frozen=True)
class SequenceKey(_Key):
    """A step of a path: the item *idx* of a list or tuple."""

    idx: int
    text = "[{}]"


@dataclass(frozen=True)
class GetAttrKey(_Key):
    """A step of a path: the attribute *name*, of a named tuple or a registered dataclass."""

    name: str
    text = ".{}"


@dataclass(frozen=True)
class FlattenedIndexKey(_Key):
    """A step of a path: the part *key* of an object of a registered class."""

    key: Any
    text = "[<flat index {}>]"


def _step(entry: Any) -> Any:
    if isinstance(entry, optree.MappingEntry):
        return DictKey(entry.entry)
    if isinstance(entry, optree.NamedTupleEntry):
        return GetAttrKey(entry.field)
    if isinstance(entry, optree.GetAttrEntry):  # DataclassEntry is one
        return GetAttrKey(entry.name)
    return SequenceKey(entry.entry) if isinstance(entry, optree.SequenceEntry) else FlattenedIndexKey(entry.entry)


def flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[tuple[Any, ...], Any]], Any]:
    """([(path, leaf), …], structure) of *tree*; a path is a tuple of steps (:class:`DictKey` …)."""
    found, treedef = flatten(tree, is_leaf)
    with foreign_code:
        paths = [tuple([_step(entry) for entry in accessor]) for accessor in treedef.accessors()]
    return list(zip(paths, found, strict=True)), treedef


def leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    """[(path, leaf), …] of *tree*."""
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """As :func:`map` with ``f(path, leaf, *others)``."""
    found, treedef = flatten_with_path(tree, is_leaf)
    others = [treedef.flatten_up_to(other) for other in rest]
    parts = zip(found, *others, strict=True)
    return unflatten(treedef, [f(path, leaf, *more) for (path, leaf), *more in parts])


def keystr(path: Sequence[Any], *, simple: builtins.bool = False, separator: str = "") -> str:
    """A path as text: ``"['layers'][0].w"``; *simple*: the bare keys, with the *separator* between them."""
    if not simple:
        return separator.join(builtins.map(str, path))
    return separator.join([str(step.value) for step in path])


# ---- vectors ---------------------------------------------------------------------------------------------------------


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """(the leaves of *pytree* as one vector, the function that makes such a tree of a vector).

    The vector has the promoted dtype of the leaves, each leaf its own again.  ShapeError for a vector of another size.
    """
    found, treedef = flatten(pytree)
    shapes = [np.shape(leaf) for leaf in found]
    dtypes = [leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype for leaf in found]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes], dtype=int).tolist()
    flat = np.concatenate([np.ravel(leaf) for leaf in found]) if found else np.zeros(0)

    def unravel(vector: Any) -> Any:
        total = ends[-1] if ends else 0
        if np.shape(vector) != (total,):
            raise ShapeError.here(f"the tree has {total} numbers, the vector has shape {np.shape(vector)}")
        starts = [0, *ends[:-1]]
        parts = [np.reshape(vector[a:b], shape) for a, b, shape in zip(starts, ends, shapes, strict=True)]
        cast = [x if x.dtype == dtype else x.astype(dtype) for x, dtype in zip(parts, dtypes, strict=True)]
        return unflatten(treedef, cast)

    return flat, unravel


# ---- own classes -----------------------------------------------------------------------------------------------------


def register_pytree_node(
    nodetype: Cls, flatten_func: Callable[[Any], Any], unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], Any] | None = None,
) -> Cls:  # fmt: skip
    """Make the objects of *nodetype* nodes of trees.

    :param flatten_func: object -> (children, aux_data); aux_data is hashable, and part of the structure.
    :param unflatten_func: (aux_data, children) -> object; children may be anything, not only arrays.
    :param flatten_with_keys_func: accepted as JAX has it; paths have the indices of the children.
    :raises ValueError: where the class is registered already.
    """
    with foreign_code:
        optree.register_pytree_node(nodetype, flatten_func, unflatten_func, namespace=_trees.NAMESPACE)
    return nodetype


def register_pytree_node_class(cls: Cls) -> Cls:
    """Class decorator: :func:`register_pytree_node` by the methods ``tree_flatten(self)`` and, a class method,
    ``tree_unflatten(cls, aux_data, children)``."""
    methods: Any = cls
    return register_pytree_node(cls, methods.tree_flatten, methods.tree_unflatten)


def register_dataclass(
    nodetype: Cls, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Cls:  # fmt: skip
    """Make the objects of a dataclass nodes of trees, their *data_fields* children, their *meta_fields* part of the
    structure.  Also a class decorator: then fields with ``metadata={"static": True}`` are meta fields.

    :raises TypeError: where only one of the two is given, a field is in neither, or the class is no dataclass.
    """
    if not dataclasses.is_dataclass(nodetype) and (data_fields is None or meta_fields is None):
        raise TypeError(f"{nodetype.__name__} is no dataclass: name its data_fields and meta_fields")
    if (data_fields is None) != (meta_fields is None):
        raise TypeError("register_dataclass takes both data_fields and meta_fields, or none of them")
    if dataclasses.is_dataclass(nodetype):
        own = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        static = [f.name for f in own if f.metadata.get("static", False)]
        if data_fields is None or meta_fields is None:
            data_fields, meta_fields = [f.name for f in own if f.name not in static], static
        if {f.name for f in own} != {*data_fields, *meta_fields}:
            raise TypeError(
                f"the fields of {nodetype.__name__} are {[f.name for f in own]}; each has to be one of data_fields or "
                "meta_fields"
            )
    data, meta = tuple(data_fields or ()), tuple(meta_fields or ())

    def parts(value: Any) -> Any:
        return [getattr(value, name) for name in data], tuple([getattr(value, name) for name in meta]), data

    def whole(aux: Any, children: Any) -> Any:
        return nodetype(**dict(zip(data, children, strict=True)), **dict(zip(meta, aux, strict=True)))

    with foreign_code:
        optree.register_pytree_node(
            nodetype, parts, whole, path_entry_type=optree.GetAttrEntry, namespace=_trees.NAMESPACE
        )
    return nodetype


def register_static(cls: Cls) -> Cls:
    """Class decorator: objects are part of the structure, without leaves; they have to be hashable, with ``==``."""
    return register_pytree_node(cls, lambda value: ((), value), lambda aux, _: aux)


class Partial(functools.partial):  # type: ignore[type-arg]
    """``functools.partial`` as a node of trees: its arguments are children, its function is part of the structure."""


register_pytree_node(
    Partial,
    lambda value: ((value.args, value.keywords), value.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)

tree_all, tree_flatten, tree_flatten_with_path, tree_leaves = all, flatten, flatten_with_path, leaves
tree_leaves_with_path, tree_map, tree_map_with_path, tree_reduce = leaves_with_path, map, map_with_path, reduce
tree_structure, tree_transpose, tree_unflatten = structure, transpose, unflatten
