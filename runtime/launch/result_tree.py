"""Results in a tree, put together in machine code; and trees whose arrays are written again once nobody has them.

NumPy takes longer to make and free a small array than the launcher takes for all else that it does for one. So the
launcher keeps what it hands out: of the largest part of a result that consists of small arrays and numbers, in tuples,
lists, dicts and plain objects, the latest :data:`KEPT`.  In a loop ``v, g = f.value_and_grad(p)`` the caller has let go
of the oldest; the launcher writes into its arrays, and puts new numbers in the place of the old ones.

It does so only where nobody can tell: where each object of the tree has one reference, that of the object it stands in
or, the outermost, of the keeper; and where all that can be changed in place is as it was made: items and keys; of
arrays dtype, shape, strides and flags, that memory is their own, and that no weak reference leads to them.  Who has any
object of it, a view or a buffer, has a reference.  The kernel may let go of the GIL, or call Python: so the keeper
gives up a tree before it is written into.  Where anything differs, the whole tree is made anew.

Two forms of one structure, runs of 64-bit words.  One that is compared (:data:`LOOK`), parents before children::

    array          RESULT  ndarray  number of the result  dtype  flags  dimensions  each dimension ...  each stride ...
    number         NUMBER  number of the result
    constant       CONST   object
    tuple, list    TUPLE or LIST  type  number of items                        (named tuples, too)
    dict           DICT    type  number of items  key ...
    plain object   OBJECT  type  number of slots  offset of weak references or 0  whether it has a dict  offset ...

and one that is built (:data:`MAKE`), children before parents, for a machine with a stack; first the most objects that
wait on it::

    result         RESULT  its number
    constant       CONST   object
    tuple, list    TUPLE or LIST  number of items
    dict           DICT    number of items  key ...
    another class  CALL    number of items  function
    the end        END     0

What follows the words is in ``result_tree_ir.py``.  Start reading at :func:`describe`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...codegen.cpu.cpython import slot_offsets
from ..memory import address_of
from .plan import ArrayOut, Out, ScalarOut

KINDS = ("RESULT", "NUMBER", "CONST", "TUPLE", "LIST", "DICT", "OBJECT", "CALL", "END")
RESULT, NUMBER, CONST, TUPLE, LIST, DICT, OBJECT, CALL, END = range(len(KINDS))

#: Trees that are kept: with the one before, and the one before that, the caller has let go of the next.
KEPT = 3
#: Arrays in a tree that is kept, at least, and their bytes at most.
FEWEST, MOST_BYTES = 4, 1 << 16

#: Whether a tuple, of numbers alone, may know its hash: from Python 3.14 on.
HASHES = tuple.__basicsize__ > object.__basicsize__ + 8

#: Words in front: the address of the list of trees that are kept, how such a tree looks, how it is made, how the result
#: is made, the place among the kernel's results at which the tree stands then; and the count and the addresses of the
#: places of those that are numbers in the tree.
HEADER = ("kept", "look", "make", "outer", "place", "counted", "numbered")


class Constant(NamedTuple):
    """An object that stands in every result."""

    value: Any


class TreeNode(NamedTuple):
    """A tuple, a list, or a dict with these *keys*; or the result of the function *kind* of the items.

    *cls*: that is an object of this class, which is nothing but attributes: the last two items, dicts, are those in its
    ``__dict__`` and those in slots."""

    kind: Callable[..., Any]
    items: tuple[Tree, ...]
    keys: tuple[Any, ...] = ()
    cls: type | None = None


Tree = int | Constant | TreeNode  # an int is the number of a kernel's result

_KINDS: dict[Callable[..., Any], int] = {tuple: TUPLE, list: LIST, dict: DICT}


class Described(NamedTuple):
    """The *words* of a result, from :data:`HEADER` on, the *results* whose arrays are kept, and the *objects* whose
    addresses stand among the words."""

    words: np.ndarray
    results: frozenset[int]
    objects: tuple[object, ...]

    @property
    def address(self) -> int:
        return address_of(self.words)


def describe(tree: Tree, outs: Sequence[Out]) -> Described | None:
    """*tree* over *outs*; None where no part of it is kept."""
    found = list(_results(tree))
    parts = [(part, results) for part, results in _parts(tree, outs) if _is_small([outs[k] for k in results])]
    if len(set(found)) < len(found) or not parts:
        return None
    kept, results = max(parts, key=lambda part: len(part[1]))
    arrays, others = [[k for k in results if isinstance(outs[k], ArrayOut) is there] for there in (True, False)]
    trees = [None] * KEPT
    runs = [list(_looks(kept, outs)), _makes(kept), _makes(_over(tree, kept, arrays[0])), others]
    words = np.array([*[0] * len(HEADER), *itertools.chain(*runs)], np.int64)
    starts = list(itertools.accumulate(map(len, runs[:-1]), initial=len(HEADER)))
    look, make, outer, numbered = [address_of(words) + 8 * start for start in starts]
    words[: len(HEADER)] = (id(trees), look, make, outer, arrays[0], len(others), numbered)
    return Described(words, frozenset(arrays), (trees, tree))


def _results(tree: Tree) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    elif isinstance(tree, TreeNode):
        for item in tree.items:
            yield from _results(item)


def _parts(tree: Tree, outs: Sequence[Out]) -> Iterator[tuple[TreeNode, list[int]]]:
    """The parts of *tree* that can be compared, and the results in each."""
    if isinstance(tree, TreeNode):
        if _is_known(tree, outs):
            yield tree, list(_results(tree))
        parts = tree.items if tree.cls is None else itertools.chain(*[dict_.items for dict_ in _attributes(tree)])
        for part in parts:
            yield from _parts(part, outs)


def _attributes(tree: TreeNode) -> tuple[TreeNode, ...]:
    """The two dicts of the attributes of an object."""
    return tuple([item for item in tree.items[-2:] if isinstance(item, TreeNode)])


def _is_known(tree: Tree, outs: Sequence[Out]) -> bool:
    """Whether *tree* is made of what can be compared."""
    if not isinstance(tree, TreeNode):
        return True
    kind = tree.kind
    if kind is dict:
        known = all(type(key) is str for key in tree.keys)
    elif tree.cls is not None:
        known = _is_plain(tree)
    elif kind is list:
        known = True
    else:
        results = [outs[k] for k in _results(tree)]
        hashed = HASHES and bool(results) and not any(isinstance(out, ArrayOut) for out in results)
        known = not hashed and (kind is tuple or _is_named_tuple(kind))
    return known and all(_is_known(item, outs) for item in tree.items)


def _is_named_tuple(kind: Any) -> bool:
    """Whether *kind* is a class of named tuples that are nothing but their items."""
    if not (isinstance(kind, type) and issubclass(kind, tuple)) or kind.__dictoffset__ or kind.__weakrefoffset__:
        return False
    makes = getattr(kind.__new__, "__globals__", {}).get("_tuple_new") is tuple.__new__
    return makes and type(kind) is type and kind.__init__ is object.__init__ and not hasattr(kind, "__del__")


def _is_plain(tree: TreeNode) -> bool:
    """Whether an object is nothing but the attributes that *tree* has."""
    cls, (stored, in_slots) = tree.cls, _attributes(tree)
    if cls is None or hasattr(cls, "__del__") or (issubclass(cls, SimpleNamespace) and cls is not SimpleNamespace):
        return False
    return bool(cls.__dictoffset__ or not stored.items) and slot_offsets(cls).keys() == set(in_slots.keys)


def _is_small(outs: Sequence[Out]) -> bool:
    """Whether a tree of *outs* is kept."""
    sizes = [math.prod(out.shape) * out.dtype.itemsize for out in outs if isinstance(out, ArrayOut)]
    return len(sizes) >= FEWEST and sum(sizes) <= MOST_BYTES


def _over(tree: Tree, part: Tree, result: int) -> Tree:
    """*tree* with the *result* in the place of *part*."""
    if tree is part:
        return result
    if isinstance(tree, TreeNode):
        return tree._replace(items=tuple([_over(item, part, result) for item in tree.items]))
    return tree


def _looks(tree: Tree, outs: Sequence[Out]) -> Iterator[int]:
    items: Sequence[Tree] = tree.items if isinstance(tree, TreeNode) else ()
    if isinstance(tree, int) and isinstance(outs[tree], ScalarOut):
        yield from (NUMBER, tree)
    elif isinstance(tree, int):
        out = outs[tree]
        like = np.empty(out.shape, out.dtype)  # type: ignore[union-attr]
        yield from (RESULT, id(np.ndarray), tree, id(out.dtype), like.flags.num, like.ndim, *like.shape, *like.strides)
    elif isinstance(tree, Constant):
        yield from (CONST, id(tree.value))
    elif tree.cls is None:
        yield from (_KINDS.get(tree.kind, TUPLE), id(tree.kind), len(items), *map(id, tree.keys))
    else:
        stored, in_slots = _attributes(tree)
        offsets, has_dict = slot_offsets(tree.cls), bool(tree.cls.__dictoffset__)
        yield from (OBJECT, id(tree.cls), len(offsets), tree.cls.__weakrefoffset__, has_dict)
        yield from [offsets[name] for name in in_slots.keys]
        items = (*[stored] * has_dict, *in_slots.items)
    for item in items:
        yield from _looks(item, outs)


def _makes(tree: Tree) -> list[int]:
    words: list[int] = []
    most = _make(tree, words)
    return [most, *words, END, 0]


def _make(tree: Tree, words: list[int]) -> int:
    """Append the words of *tree*; the most objects that wait while it is made."""
    if isinstance(tree, TreeNode):
        most = max([k + _make(item, words) for k, item in enumerate(tree.items)], default=1)
        words += (_KINDS.get(tree.kind, CALL), len(tree.items), *map(id, tree.keys))
        words += [] if tree.kind in _KINDS else [id(tree.kind)]
        return most
    words += (RESULT, tree) if isinstance(tree, int) else (CONST, id(tree.value))
    return 1
