"""Result trees: an expression over a kernel's results, from which a function is made.

A result tree is flattened; its data become results of the graph, and other leaves (None, strings, settings) stand in
the expression as they are.  An argument, or an array from outside, that is returned as it was found is the very object.
So is a list or dict that the state or an argument has, too (``Whole``): the effects give it a name.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...tracer.ir.aval import is_number
from ...tracer.ir.graph import Atom
from ...tracer.ir.trees import tree_flatten, tree_unflatten
from ...tracer.ops.complex import real_atoms
from ...tracer.record.array import TracedArray, to_atom
from ...tracer.record.integers import TracedInt
from ...tracer.record.made_arrays import MadeArray
from ..launch.result_tree import Constant, Tree, TreeNode
from .complex_data import as_result, joins_lanes, text_of
from .plain_objects import PLAIN_MAKERS
from .trees import Source, make_function, packing

_LEAF = re.compile("\0(\\d+)\0")  # which the text of no constant holds


def leaf_text(place: int) -> str:
    """The text that stands for a leaf of the call in the expression of an :class:`Output`."""
    return f"\0{place}\0"


@dataclass(slots=True)
class Output:
    """The user's result, as an expression over ``r``, the tuple of a kernel's results.  ``text`` None: the tuple as
    it is."""

    text: str | None
    names: dict[str, Any]
    single: bool  # one result, handed over bare
    statics: tuple[Any, ...]  # parts that are no data, compared with recordings
    twin: Output | None = None  # of a gradient that with the value, of both the gradient alone

    def over(self, texts: Sequence[str]) -> str:
        """The expression where *texts[k]* is leaf k of the call."""
        at = "args[{}]" if texts[:1] == ["*args"] else None
        return _LEAF.sub(lambda m: at.format(m[1]) if at else texts[int(m[1])], self.text or "r")

    def function(self) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
        """The result from those of a kernel and the leaves of a call."""
        source = Source()
        source.names = self.names
        text = _LEAF.sub(lambda m: f"leaves[{m[1]}]", self.text or "r")
        source.lines = [f"return {'r[0]' if self.single else text}"]
        return make_function("def assemble(r, leaves):", source)

    def shown(self, results: Sequence[Any], leaves: Sequence[Any], of_lanes: Callable[[Any], Any]) -> Any:
        """The user's result where *results* stand for those of a kernel, and *leaves* for those of the call.
        *of_lanes* makes what stands for a complex array, or number, from what stands for its lanes."""
        names = {name: of_lanes if joins_lanes(value) else value for name, value in self.names.items()}
        return Output(self.text, names, self.single, ()).function()(tuple(results), leaves)

    def tree(self, results: int) -> Tree:
        """The expression over *results* (a count) as a tree. ValueError where it is none: an operation, a leaf of the
        call."""
        if self.text is None:
            return 0 if self.single else TreeNode(tuple, tuple(range(results)))
        if _LEAF.search(self.text):
            raise ValueError("an argument is returned as it is")
        return _tree(ast.parse(self.text, mode="eval").body, self.names)

    def simplify(self, results: int) -> None:
        """Drop the expression where it is the tuple of all *results* (a count) of the graph, or the only one."""
        if results == 1 and self.text == "r[0]":
            self.text, self.single = None, True
        elif self.text == "(" + ", ".join([f"r[{k}]" for k in range(results)]) + ",)" and results:
            self.text = None
        if self.twin is not None:
            self.twin.simplify(results)


def _tree(text: ast.expr, names: dict[str, Any]) -> Tree:
    match text:
        case ast.Subscript(ast.Name("r"), ast.Constant(int(number))):
            return number
        case ast.Constant(value):
            return Constant(value)
        case ast.Name(name) if name in names:
            return Constant(names[name])
        case ast.Tuple([]):
            return Constant(())
        case ast.Tuple(elements) | ast.List(elements):
            return TreeNode(tuple if isinstance(text, ast.Tuple) else list, _trees(elements, names))
        case ast.Dict(keys, values):
            known = [_tree(key, names) for key in keys if key is not None]
            return TreeNode(dict, _trees(values, names), tuple([k.value for k in known if isinstance(k, Constant)]))
        case ast.Call(ast.Name(name), operands, []) if name in names:
            items, function = _trees(operands, names), names[name]
            cls = items[0] if items and function in PLAIN_MAKERS else None
            return TreeNode(function, items, cls=cls.value if isinstance(cls, Constant) else None)
    raise ValueError(f"{ast.unparse(text)} is no tree")


def _trees(texts: Sequence[ast.expr], names: dict[str, Any]) -> tuple[Tree, ...]:
    return tuple([_tree(text, names) for text in texts])


_SHARED = (list, dict, OrderedDict, defaultdict, deque)  # that are taken apart in results, and can be changed
_ALONE = tree_flatten(0, none_is_leaf=True)[1]


@dataclass(frozen=True)
class Whole:
    """A container in a result that is not taken apart, since others have it, too: the state, an argument, another place
    of the result.  *name*: the variable that has it, once the effects are done; "" where it is *value* itself."""

    value: Any = field(default=None, compare=False)
    name: str = ""


def flatten_result(out: Any) -> tuple[list[Any], Any]:
    """(leaves, structure) of a result tree."""
    return ([out], _ALONE) if type(out) is TracedArray else tree_flatten(out, none_is_leaf=True)


def whole_containers(out: Any, others: Container[int] = (), arrays: Container[int] = ()) -> set[int]:
    """The ids of the lists and dicts in a result tree that stand there in more than one place, or whose ids are among
    *others*, and of its arrays with ids among *arrays*."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = [out]
    while stack:
        value = stack.pop()
        if type(value) in _SHARED:
            if id(value) in seen or id(value) in others:
                found.add(id(value))
            if id(value) in seen:
                continue
            seen.add(id(value))
        elif type(value) in (TracedArray, MadeArray, np.ndarray) and value.shape and id(value) in arrays:
            found.add(id(value))
        if not (type(value) in _SHARED or issubclass(type(value), tuple)):
            continue
        stack += value.values() if issubclass(type(value), dict) else value
    return found


def with_whole(out: Any, ids: Container[int], whole: Callable[[Any], Whole]) -> Any:
    """A result tree with ``whole(part)`` in place of the containers with these *ids*."""
    leaves, spec = tree_flatten(out, lambda part: id(part) in ids, none_is_leaf=True)
    return tree_unflatten(spec, [whole(leaf) if id(leaf) in ids else leaf for leaf in leaves])


def returned(out: Any) -> list[Atom]:
    """The traced values in the result of a function."""
    leaves = [x.array() if type(x) is TracedInt else x for x in flatten_result(out)[0]]
    return real_atoms([leaf.atom for leaf in leaves if type(leaf) is TracedArray])


def data_of(leaf: Any) -> tuple[Atom, str] | None:
    """(the datum of a leaf, the form of its expression over a result); None where it is no data."""
    if type(leaf) is TracedInt:
        leaf = leaf.array()
    if type(leaf) is TracedArray:
        number = leaf.aval.weak and leaf.aval.dtype.kind in "ib"  # an int of Python's
        return leaf.atom, "{}.item()" if number else "{}"
    if issubclass(type(leaf), np.ndarray) and is_number(leaf.dtype):
        return to_atom(leaf), "{}"
    return None


def data_made(leaf: Any) -> tuple[Atom, str] | None:
    """As ``data_of``, where Python runs each time: a plain array is returned as it is."""
    return None if issubclass(type(leaf), np.ndarray) else data_of(leaf)


def packed(
    out: Any, source: Source, atoms: list[Atom], places: dict[int, int] | None = None,
    data: Callable[[Any], tuple[Atom | None, str] | None] = data_of, given: dict[int, str] | None = None,
) -> tuple[str, tuple[Any, ...]]:  # fmt: skip
    """The expression for a result tree, whose *data* is appended to *atoms*; and its parts that are no data.  *places*
    gets the index of each such leaf, by id.  *given*: the texts of those, by id, that the caller has already."""
    places = {} if places is None else places
    leaves, spec = flatten_result(out)
    texts, statics = [], []
    times = Counter(map(id, leaves))
    for leaf in leaves:
        known = None if given is None else given.get(id(leaf))
        if known is None and given is not None and id(leaf) in places and leaf.shape:  # one array in two places
            place = places[id(leaf)]
            known = f"c{place}" if leaf.dtype.kind == "c" else f"r[{place}]"
        if known is not None:
            texts.append(known)
            continue
        found = data(leaf)
        if found is None:
            text, static = _without_data(leaf, source, data is not data_made)
            texts.append(text)
            statics.append(static)
            continue
        atom, form = found
        if atom is None:  # it is there before the run
            texts.append(form)
            continue
        text = form.format(text_of(atom.aval, source, f"r[{len(atoms)}]"))
        named = given is not None and atom.aval.is_complex and times[id(leaf)] > 1
        texts.append(f"(c{len(atoms)} := {text})" if named else text)
        places.setdefault(id(leaf.array() if type(leaf) is TracedInt else leaf), len(atoms))
        atoms.append(as_result(atom))
    return packing(source, spec, iter(texts)), (spec, *statics)


def _without_data(leaf: Any, source: Source, is_replayed: bool) -> tuple[str, Any]:
    """The expression for a leaf that is no data, and what the expression stands for."""
    if type(leaf) is Whole:
        if not leaf.name:
            return source.constant(leaf.value), leaf
        source.names[leaf.name] = ...  # for those who show a result without its effects
        return leaf.name, leaf
    if is_replayed and isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject:
        # of texts, dates, complex numbers: each call gives an array of its own
        constant = np.array(leaf) if type(leaf) is MadeArray else leaf.copy()
        return f"{source.constant(constant)}.copy()", constant
    return source.constant(leaf), leaf
