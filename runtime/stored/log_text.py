"""The reads of a log as places and texts (``reads_text.py``), for the recording's file.

An edge of the log's graph becomes a place as soon as its owner has a number: a global is a name of a function that has
these globals, a cell one of a function that has it in its closure, an entry of a class a part of a class that some
object has led to.  What can be reached on no such way is not kept, nor is what holds in this process alone.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...tracer.convert.source import parts_of
from ...tracer.record.integers import limit_of
from ..disk.encoding import EncodingError, decode
from ..state.libraries import PRINT_OPTIONS
from ..state.pins import can_change
from ..state.state_graph import LENGTH, Edge, Leaf, StateGraph, StateNode
from ..state.values import unchanged
from .library_text import NotStoredError, class_text, code_of, described, is_library, library_of
from .reads_text import ABSENT, Place, Reading, Reads, default_of

_MOST = 4096  # places
_KINDS = frozenset((
    "function", "array", "library", "module", "list", "tuple", "dict", "set", "instance", "class", "method", "const",
    "member", "number", "partial", "compiled",
))  # fmt: skip
_BY_KEY = (str, int, bool, bytes, type(None))
_PARTS = {
    "const": ("fget", "fset", "__func__"), "partial": ("func", "args", "keywords"), "compiled": ("__wrapped__",),
}  # fmt: skip


class LogText:
    """The places of a log and their texts.

    Raises:
        NotStoredError: another process can't read what the run has read.
    """

    def __init__(self, graph: StateGraph, roots: Sequence[Any]) -> None:
        """:param roots: the function, and the objects among the arguments."""
        for why in _hindrances(graph):
            raise NotStoredError(why)
        self._graph = graph
        self._reading = Reading(graph.attrs, roots)
        self._steps: list[tuple[Place, bytes]] = []
        self._inputs: dict[int, int] = {}  # id of the node of an array or number -> its place among the inputs
        for k, root in enumerate(graph.roots):
            self._step(("root", k, None), root)
        self._follow()
        self._check()

    @property
    def reads(self) -> Reads:
        """The names that count in classes, and the places with their texts."""
        return tuple(sorted(self._reading.names)), tuple(self._steps)

    def input(self, node: StateNode) -> int:
        """The place of an array or number among the inputs that another process finds."""
        return self._inputs[id(node)]

    # ---- places

    def _follow(self) -> None:
        """Write all edges, each once its owner has been met."""
        left = [(node, edge) for node in self._graph.nodes for edge in node.parts()]
        while left:
            later = []
            for node, edge in left:
                places = list(self._places(node, edge))
                for place in places:
                    self._step(place, None if edge.how in ("noitems", "noattr") else edge.child)
                if not places:
                    later.append((node, edge))
            if len(later) == len(left):
                break
            left = later
        for node, edge in left:
            child = edge.child.obj if isinstance(edge.child, StateNode) else edge.child.value
            reached = edge.how == "const" and self._reading.number(child) is not None  # the class of an object
            counted = edge.how == LENGTH and node.kind == "list"
            if not (reached or counted or edge.how == "element"):
                raise NotStoredError(f"it reads {_shown(node, edge)}, which another process can't find")
        for node in self._graph.nodes:
            for name in frozenset().union(*node.extra[:2]) if node.kind == "instance" else ():
                self._step(("own", self._number(node), name), None)
        for owner, names in self._graph.pins.absences:
            number = self._reading.number(owner)
            if number is None:
                raise NotStoredError(f"it reads {described(owner)}")
            for name in names:
                self._step(("own", number, name), None)

    def _number(self, node: StateNode) -> int:
        number = self._reading.number(node.obj)
        if number is None:
            raise NotStoredError(f"it reads {node.label}, which another process can't find")
        return number

    def _step(self, place: Place, child: Leaf | StateNode | None) -> None:
        """Write what stands in a *place*: *child*, or nothing at all."""
        expected = ABSENT if child is None else child.obj if isinstance(child, StateNode) else child.value
        if isinstance(child, StateNode) and child.kind == "number":
            place = "number", limit_of(expected) if type(expected) is int else 0, place
        if len(self._steps) >= _MOST:
            raise NotStoredError(f"it reads more than {_MOST} values")
        try:
            count = len(self._reading.inputs)
            found, text = self._reading.read(place)
            same = found is expected or (_by_value(child) and unchanged(found, expected))
            if type(found) is types.MethodType and found == expected:  # one that is made each time
                same = self._reading.stands_for(expected, found)
        except EncodingError as error:
            raise NotStoredError(f"it reads {error}") from None
        if not same:
            raise NotStoredError("what it reads has changed")
        if isinstance(child, Leaf) and not child.by_value and _is_of_attributes(text):
            raise NotStoredError(f"it reads {described(found)}")
        if isinstance(child, StateNode) and child.kind in ("number", "array"):
            self._inputs.setdefault(id(child), count)
        self._steps.append((place, text))

    def _places(self, node: StateNode, edge: Edge) -> Iterator[Place]:
        """The places of an edge; none where they can't be told yet."""
        how, key = edge.how, edge.arg
        owner = self._reading.number(node.obj)
        if how in ("global", "builtin"):
            yield from self._of_function("name", node, lambda fn: fn.__globals__ is key[0], lambda fn: key[-1])
        elif how == "cell":
            yield from self._of_function("cell", node, lambda fn: _free(fn, key) is not None, lambda fn: _free(fn, key))
        elif how == "import":
            yield "import", 0, key
        elif how == "class":
            if (number := self._reading.number(key[0])) is not None:
                yield "entry", number, key[1]
        elif owner is None:
            return
        elif how == "attr" or how == "noattr":
            yield "attribute", owner, key
        elif how == "noitems":
            for name in sorted(key):
                yield "attribute", owner, name
        elif how == "item":
            yield "item", owner, key
        elif how == "key":
            plain = type(key) in _BY_KEY
            yield ("key", owner, key) if plain else ("nth", owner, list(node.obj).index(key))
        elif how == "const":
            yield from self._constant(node, owner, key, edge.child)

    def _constant(self, node: StateNode, owner: int, key: Any, child: Leaf | StateNode) -> Iterator[Place]:
        """The place of a part that can't change: a default, a function in a descriptor, a member of an enumeration."""
        part = child.obj if isinstance(child, StateNode) else child.value
        if key in _PARTS.get(node.kind, ()):
            yield "part", owner, key
        elif node.kind == "function" and default_of(node.obj, key) is part:
            yield "default", owner, key
        elif isinstance(child, StateNode) and child.kind == "member":
            number = self._reading.number(type(part))
            names = [name for name, member in type(part)._member_map_.items() if member is part]
            if number is not None and names:
                yield "member", number, names[0]

    def _of_function(
        self, how: str, node: StateNode, has: Callable[[Any], bool], key: Callable[[Any], Any]
    ) -> Iterator[Place]:  # fmt: skip
        """The place in the function of *node*, or in another one that has it."""
        for fn in (node.obj, *self._reading.objects):
            number = self._reading.number(fn)
            if type(fn) is types.FunctionType and number is not None and has(fn):
                yield how, number, key(fn)
                return

    # ---- what has to be among them

    def _check(self) -> None:
        graph, reading = self._graph, self._reading
        trust = graph.pins.trust
        for node in graph.nodes:
            if node.kind not in _KINDS:
                raise NotStoredError(f"it reads {node.label} ({node.kind})")
            if node.kind != "number":
                self._number(node)
        for cls in graph.pins.classes:
            if reading.number(cls) is None and class_text(cls) is None and any(map(can_change, cls.__mro__)):
                raise NotStoredError(f"it reads objects of the class {cls.__qualname__}, which can change")
        for x in reading.objects:
            if isinstance(x, types.FunctionType):
                unknown = trust.owns(x) and library_of(code_of(x).co_filename) is None
            elif isinstance(x, type):
                unknown = trust.cls(x) and class_text(x) is None and can_change(x)
            else:
                unknown = isinstance(x, types.ModuleType) and trust.module(x) and not is_library(x)
            if unknown:
                raise NotStoredError(f"it reads {described(x)}, of a package whose version is not known")
        known: set[int] = set()
        for x in reading.objects:
            if isinstance(x, types.FunctionType):
                known.update(map(id, parts_of(x.__code__)))
        for code in graph.codes.values():
            if id(code) not in known:
                raise NotStoredError(f"it runs `{code.co_qualname}`, which no read leads to")


def _hindrances(graph: StateGraph) -> Iterator[str]:
    """Why what the log says is not all that counts in another process."""
    for setting in graph.settings.values():
        if setting is not PRINT_OPTIONS:  # which stand in the key
            yield f"it reads {setting.label}"
    if graph.here:
        yield graph.here
    if graph.tensors or graph.pins.abstract:
        yield "it reads tensors, or asks what a class is registered with"


def _by_value(child: Leaf | StateNode | None) -> bool:
    return child.by_value if isinstance(child, Leaf) else child is not None and child.kind == "number"


def _is_of_attributes(text: bytes) -> bool:
    """Whether a text is that of an object which has been met here, and is no more than its class and its parts."""
    found = decode(text)
    return found[0] == "new" and found[1][0] == "instance"


def _free(fn: types.FunctionType, cell: types.CellType) -> str | None:
    """The name of a *cell* in the closure of a function."""
    for name, known in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        if known is cell:
            return name
    return None


def _shown(node: StateNode, edge: Edge) -> str:
    return edge.child.label if isinstance(edge.child, StateNode) else f"{edge.how} {edge.arg!r:.60} of {node.label}"
