"""Argument and result trees: flattening by optree, and generated code that does the same for one known structure.

A call that is answered from the cache cannot afford to discover its structure anew.  ``unpacking`` gives the
statements that take a value of one known structure apart (and give up where it has another), ``packing`` the
expression that puts one together.  (The statements are a slot's, in which MISS stands for no answer.)
"""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

import optree

from ...codegen.cpu.cpython import fault, slot_offsets
from ...tracer.ir.own_attributes import dict_of
from ...tracer.ir.trees import NAMESPACE, tree_flatten, tree_unflatten
from ..launch import tree_reader
from ..launch.tree_reader import ReaderNode
from .plain_objects import is_object, kept_results, maker, slots_of

_SEQUENCES = {optree.PyTreeKind.TUPLE: tuple, optree.PyTreeKind.LIST: list}
_MAPPINGS = {optree.PyTreeKind.DICT: dict, optree.PyTreeKind.ORDEREDDICT: OrderedDict}
_NATIVE = 6  # nodes from which on it does
# Containers that a function may change; the order of items and keys is in their structure.
MUTABLE = frozenset((
    optree.PyTreeKind.LIST, optree.PyTreeKind.DICT, optree.PyTreeKind.ORDEREDDICT, optree.PyTreeKind.DEFAULTDICT,
    optree.PyTreeKind.DEQUE,
))  # fmt: skip


def flatten_tree(tree: Any, opaque: Collection[int] = (), namespace: str = NAMESPACE) -> tuple[list[Any], Any]:
    """(leaves, structure) of *tree*; an object whose id is in *opaque* is a leaf."""
    is_leaf = (lambda value: id(value) in opaque) if opaque else None
    return tree_flatten(tree, is_leaf, namespace=namespace)


def mutable_containers(spec: Any, value: Any) -> tuple[Any, ...]:
    """The lists, dicts and registered objects in *value*, an (args, kwargs) of structure *spec*, in order."""
    if spec.num_nodes == spec.num_leaves + 3:  # (args, kwargs) over leaves only
        return ()
    return tuple([part for inner, part, _ in _nodes(spec, value) if part is not value[1] and may_change(inner, part)])


def may_change(spec: Any, value: Any) -> bool:
    """Whether *value*, a container of structure *spec*, can be changed in place, so that it matters which it is."""
    return spec.kind in MUTABLE or dict_of(value) is not None or is_object(spec)


def _nodes(spec: Any, value: Any, start: int = 0) -> Iterator[tuple[Any, Any, int]]:
    """(structure, value, number of the first leaf) of *value* and of what is in it, but for leaves."""
    if spec.kind == optree.PyTreeKind.LEAF:
        return
    yield spec, value, start
    if spec.num_nodes > spec.num_leaves + 1:
        for inner, part in zip(spec.children(), one_level(value, spec)[0], strict=True):
            yield from _nodes(inner, part, start)
            start += inner.num_leaves


def repeated_leaves(spec: Any, value: Any) -> dict[int, int]:
    """For each leaf of a plain object that has occurred in *value*, of structure *spec*, before: the leaf there."""
    seen: dict[int, int] = {}
    found: dict[int, int] = {}
    for inner, part, start in _nodes(spec, value):
        if is_object(inner) and (first := seen.setdefault(id(part), start)) != start:
            found.update({start + k: found.get(first + k, first + k) for k in range(inner.num_leaves)})
    return found


def one_level(value: Any, spec: Any) -> tuple[list[Any], Any]:
    """(the parts of a container or object that *spec* takes apart, its structure over them)."""
    return tree_flatten(value, lambda part: part is not value, namespace=spec.namespace or NAMESPACE)


class Source:
    """Python text under construction, with the objects that it mentions by name; *letter* begins those names, and
    *otherwise* is what it returns where it gives up."""

    def __init__(self, letter: str = "k", otherwise: str = "None") -> None:
        self._letter = letter
        self._otherwise = otherwise
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.objects: list[str] = []  # plain objects that were taken apart, in order
        self.results: Sequence[int] = ()  # what effects call their results is at these places of the kernel's
        self._count = 0

    def fresh(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def constant(self, value: Any) -> str:
        """The text by which *value* is known in the code."""
        if value is None or type(value) in (bool, str) or (type(value) is int and -5 <= value <= 256):
            return repr(value)
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{self._letter}{len(self.names)}"
        self.names[name] = value
        return name

    def give_up_if(self, condition: str) -> None:
        self.lines.append(f"if {condition}: return {self._otherwise}")


def made_once(source: Source, name: str, made: str) -> str:
    """The *name* of a value, which one line of the *source* makes, whoever asks for it."""
    line = f"{name} = {made}"
    if line not in source.lines:
        source.lines.append(line)
    return name


def unpacking(source: Source, spec: Any, value: str) -> Iterator[str]:
    """Append statements that take *value* apart as *spec* says; yields the text of each leaf."""
    kind = spec.kind
    if spec.num_nodes >= _NATIVE and (read := _reader(spec)) is not None:
        native, inner = read
        leaves = source.fresh()
        source.lines.append(f"{leaves} = {source.constant(native)}({value})")
        source.give_up_if(f"{leaves} is None")
        parts = _items(source, len(inner), leaves)
        for part, child in zip(parts, inner, strict=True):
            if child is None:
                source.objects.append(part)
            else:
                yield from unpacking(source, child, part)
        return
    if kind == optree.PyTreeKind.LEAF:
        yield value
    elif kind == optree.PyTreeKind.NONE:
        source.give_up_if(f"{value} is not None")
    elif kind in _SEQUENCES or kind == optree.PyTreeKind.NAMEDTUPLE:
        children = spec.children()
        kind_of, length = source.constant(type), source.constant(len)
        source.give_up_if(
            f"{kind_of}({value}) is not {source.constant(spec.type)} or {length}({value}) != {len(children)}"
        )
        yield from unpacking_sequence(source, children, value)
    elif kind in _MAPPINGS:
        keys = tuple(spec.entries())
        source.give_up_if(
            f"{source.constant(type)}({value}) is not {source.constant(spec.type)}"
            f" or (*{value},) != {source.constant(keys)}"
        )
        for key, child in zip(keys, spec.children(), strict=True):
            part = source.fresh()
            source.lines.append(f"{part} = {value}[{source.constant(key)}]")
            yield from unpacking(source, child, part)
    elif is_object(spec):
        yield from _unpacking_object(source, spec, value)
    else:
        leaves, found = source.fresh(), source.fresh()
        space = f", namespace={spec.namespace!r}" if spec.namespace else ""
        source.lines.append(f"{leaves}, {found} = {source.constant(flatten_tree)}({value}{space})")
        source.give_up_if(f"{found} != {source.constant(spec)}")
        yield from _items(source, spec.num_leaves, leaves)


@lru_cache(maxsize=256)
def _reader(spec: Any) -> tuple[Callable[[object], tuple[Any, ...] | None], list[Any]] | None:
    """(a native reader of trees of this structure, the structures of what it leaves alone, None for each plain object);
    None where it is of no use."""
    structure: list[ReaderNode] = []
    inner: list[Any] = []
    if fault() is not None:
        return None
    _describe(spec, structure, inner)
    if len(structure) - len(inner) < 2 and len(inner) < _NATIVE:
        return None
    found = tree_reader.reader(structure, len(inner))
    return None if found is None else (found, inner)


def _describe(spec: Any, structure: list[ReaderNode], inner: list[Any]) -> None:
    part = _part(spec)
    structure.append(part)
    if part.kind == tree_reader.LEAF:
        inner.append(spec)
        return
    if part.kind == tree_reader.OBJECT:
        inner.append(None)
    for child in spec.children():
        _describe(child, structure, inner)


def _part(spec: Any) -> ReaderNode:
    """The node for a reader at the top of *spec*."""
    kind, cls = spec.kind, spec.type
    if kind == optree.PyTreeKind.NONE:
        return ReaderNode(tree_reader.NONE)
    if kind in _SEQUENCES or kind == optree.PyTreeKind.NAMEDTUPLE:
        return ReaderNode(tree_reader.LIST if cls is list else tree_reader.TUPLE, cls, spec.num_children)
    if kind == optree.PyTreeKind.DICT and all(type(key) is str for key in spec.entries()):
        return ReaderNode(tree_reader.DICT, dict, keys=tuple(spec.entries()))
    if is_object(spec) and not kept_results(cls):
        names, in_slots = tuple(spec.entries()), slots_of(cls)
        stored, slots = [tuple([n for n in names if (n in in_slots) is there]) for there in (False, True)]
        empty = tuple([name for name in in_slots if name not in names])
        if names == stored + slots and slot_offsets(cls).keys() >= set(in_slots):
            return ReaderNode(tree_reader.OBJECT, cls, 0, stored if cls.__dictoffset__ else None, slots, empty)
    return ReaderNode(tree_reader.LEAF)


def _unpacking_object(source: Source, spec: Any, value: str) -> Iterator[str]:
    """The text of each leaf of a plain object."""
    source.give_up_if(f"{source.constant(type)}({value}) is not {source.constant(spec.type)}")
    names, in_slots, store = spec.entries(), slots_of(spec.type), source.fresh()
    source.objects.append(value)
    if spec.type.__dictoffset__:
        source.lines.append(f"{store} = {value}.__dict__")
        stored = tuple([name for name in names if name not in in_slots])
        kept = kept_results(spec.type)
        found = f"*[n for n in {store} if n not in {source.constant(kept)}]" if kept else f"*{store}"
        source.give_up_if(f"({found},) != {source.constant(stored)}")
    for name in in_slots:
        if name not in names:
            source.give_up_if(f"{source.constant(hasattr)}({value}, {name!r})")
    for name, child in zip(names, spec.children(), strict=True):
        part = source.fresh()
        slot = f"{source.constant(getattr)}({value}, {name!r}, MISS)"
        source.lines.append(f"{part} = " + (slot if name in in_slots else f"{store}[{name!r}]"))
        yield from unpacking(source, child, part)


def _packing_object(source: Source, spec: Any, leaves: Iterator[str]) -> str:
    in_slots = slots_of(spec.type)
    pairs = zip(spec.entries(), spec.children(), strict=True)
    parts = [(name, f"{name!r}: {packing(source, child, leaves)}") for name, child in pairs]
    stored = ", ".join([text for name, text in parts if name not in in_slots])
    others = ", ".join([text for name, text in parts if name in in_slots])
    return f"{source.constant(maker(spec.type))}({source.constant(spec.type)}, {{{stored}}}, {{{others}}})"


def unpacking_sequence(source: Source, children: Sequence[Any], value: str) -> Iterator[str]:
    """The text of each leaf of the sequence *value*, which has as many items as there are *children*, their
    structures."""
    for part, child in zip(_items(source, len(children), value), children, strict=True):
        yield from unpacking(source, child, part)


def _items(source: Source, count: int, value: str) -> list[str]:
    """The texts of so many items, all of a sequence."""
    parts = [source.fresh() for _ in range(count)]
    if parts:
        source.lines.append(f"({', '.join(parts)},) = {value}")
    return parts


def packing(source: Source, spec: Any, leaves: Iterator[str]) -> str:
    """The expression for a tree of structure *spec* over the texts *leaves*."""
    kind = spec.kind
    if kind == optree.PyTreeKind.LEAF:
        return next(leaves)
    if kind == optree.PyTreeKind.NONE:
        return "None"
    if kind in _SEQUENCES:
        inner = ", ".join(packing(source, child, leaves) for child in spec.children())
        return f"[{inner}]" if spec.type is list else f"({inner}{',' if inner else ''})"
    if kind == optree.PyTreeKind.DICT:
        pairs = zip(spec.entries(), spec.children(), strict=True)
        return (
            "{" + ", ".join(f"{source.constant(key)}: {packing(source, child, leaves)}" for key, child in pairs) + "}"
        )
    if is_object(spec):
        return _packing_object(source, spec, leaves)
    if kind == optree.PyTreeKind.NAMEDTUPLE:
        return f"{source.constant(spec.type)}({', '.join(packing(source, c, leaves) for c in spec.children())})"
    inner = "".join(f"{next(leaves)}, " for _ in range(spec.num_leaves))
    return f"{source.constant(tree_unflatten)}({source.constant(spec)}, ({inner}))"


_codes: dict[str, types.CodeType] = {}
_CODE_LIMIT = 1024


def make_function(header: str, source: Source) -> Callable[..., Any]:
    """The function with *header* and the statements of *source*; equal texts are compiled once."""
    text = header + "\n" + "".join(f"    {line}\n" for line in source.lines)
    code = _codes.get(text)
    if code is None:
        if len(_codes) >= _CODE_LIMIT:
            _codes.clear()
        module = compile(text, "<tracegrad call>", "exec")
        code = _codes[text] = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    return types.FunctionType(code, {**source.names, "__builtins__": __builtins__})
