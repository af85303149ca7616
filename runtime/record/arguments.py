"""The arguments of one run of the user's Python: traced stand-ins for their data, in containers that keep their
identity.

A list or dict, and any container with traced parts, is handed over as a copy, because another thread may read the
caller's own meanwhile (parameters that several threads train with); the same container in two places is one copy.  What
the run has done to the copies a replay does to the caller's containers (``effects.py``), or ``write_back`` at once.
"""

from __future__ import annotations

import gc
import inspect
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import optree

from ...tracer.ir.errors import MutationError
from ...tracer.ir.site import at_site
from ...tracer.ir.tracebacks import is_raise, last_frame
from ...tracer.ir.trees import tree_unflatten
from ..state.contents import apply_changes, contents, same_contents
from ..tensor_library import TENSORS
from .plain_objects import is_object, kept_results
from .trees import may_change, one_level

_MOST_SEEN = 100_000  # objects that are looked through for a container
_OTHER_SIGNATURES = frozenset(("__signature__", "__text_signature__", "__wrapped__"))  # from which one is taken
_OF_LISTS = re.compile("'list'|'tuple'|sequence")  # what errors call them


def positional_names(fn: Callable[..., Any] | None) -> list[str]:
    """The names of the parameters that arguments given by position go to."""
    function = fn.__func__ if type(fn) is MethodType else fn
    if type(function) is FunctionType and _OTHER_SIGNATURES.isdisjoint(function.__dict__):
        return list(function.__code__.co_varnames[: function.__code__.co_argcount][function is not fn :])
    try:
        parameters = [] if fn is None else list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return []
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [p.name for p in itertools.takewhile(lambda p: p.kind in kinds, parameters)]


def shows_memory(value: Any, array: Any) -> bool:
    """Whether *value*, an array or a tensor, shows the memory of *array*, which is no view."""
    shown = TENSORS.data(value) if isinstance(value, TENSORS.types) else value
    return shown is array or (type(shown) is np.ndarray and shown.base is array)


@dataclass(slots=True)
class Container:
    """A container of the caller's, the one that the function was given for it, and what that holds before the run."""

    name: str
    original: Any
    given: Any
    before: Any = None


def _contents(given: Any) -> Any:
    """A shallow picture of a container; what is computed from an object's attributes and kept there is none of it."""
    cls: type = type(given)
    found, kept = contents(given), kept_results(cls)
    return {name: part for name, part in found.items() if name not in kept} if kept else found


class Arguments:
    """``args`` and ``kwargs`` are *original*, an (args, kwargs) of the structure *tree*, over other *leaves*.

    *names*: of the positional arguments.  *differentiated*: the leaves that gradients are taken of; two containers of
    these stay apart, even if they are one object of the caller's.
    """

    def __init__(
        self, original: tuple[Any, Any], tree: Any, leaves: Sequence[Any], names: Sequence[str] = (),
        differentiated: Collection[int] = (),
    ) -> None:  # fmt: skip
        self.leaves, self._names, self._differentiated = leaves, names, differentiated
        self.containers: list[Container] = []  # those of the caller that the function may change
        self._given: dict[int, Any] = {}  # id of a container -> the one given for it
        self._objects: dict[int, Any] = {}  # the same for plain objects, of one argument
        self._kept: list[Any] = []  # so that the ids stay theirs
        self.originals: dict[int, Any] = {}  # id of what the function was given -> the caller's object that it replaces
        if tree.num_nodes == len(leaves) + 3 and len(leaves) == len(original[0]):  # no containers, and all by position
            self.args, self.kwargs = tuple(map(self._stands_for, leaves, original[0])), original[1]
        else:
            self.args, self.kwargs = self._build(original, tree, 0, "")
        for container in self.containers:
            container.before = _contents(container.given)
        self._at_first = [(c, contents(c.original)) for c in self.containers if c.given is not c.original]

    def _build(self, value: Any, spec: Any, start: int, name: str) -> Any:
        if spec.kind == optree.PyTreeKind.LEAF:
            return self._stands_for(self.leaves[start], value)
        if spec.kind == optree.PyTreeKind.NONE:
            return value
        known = self._given.get(id(value))
        own = any(start <= k < start + spec.num_leaves for k in self._differentiated)
        if known is not None and not own:
            return known
        if is_object(spec) and id(value) in self._objects:
            return self._objects[id(value)]
        parts, made_of = one_level(value, spec)
        new, place = [], start
        for part, inner, entry in zip(parts, spec.children(), spec.entries(), strict=True):
            if name == "*":
                self._objects.clear()
            here = self._name_of(name, entry, is_object(spec))
            new.append(self._build(part, inner, place, here))
            place += inner.num_leaves
        given = value
        if any(a is not b for a, b in zip(parts, new, strict=True)):
            given = self._stands_for(tree_unflatten(made_of, new), value)
        elif type(value) in (dict, list):  # what the run does to it is done to the caller's when the kernel has run
            given = self._stands_for(value.copy(), value)
        if is_object(spec):
            self._objects[id(value)] = given
        if name and may_change(spec, value):
            self.containers.append(Container(name, value, given))
            if not own:
                self._given[id(value)] = given
        return given

    def _stands_for(self, given: Any, value: Any) -> Any:
        if given is not value:
            self.originals[id(given)] = value
            self._kept.append(given)
        return given

    def _name_of(self, owner: str, entry: Any, as_attribute: bool) -> str:
        """The user's expression for a part; *owner* is "" for (args, kwargs), then "args" or "kwargs"."""
        if not owner:
            return "*" if entry == 0 else "**"
        if owner == "*":
            return self._names[entry] if entry < len(self._names) else f"argument {entry}"
        if owner == "**":
            return str(entry)
        return f"{owner}.{entry}" if as_attribute else f"{owner}[{entry!r}]"

    @property
    def copies(self) -> bool:
        """Whether the function was given a copy of a container."""
        return any(c.given is not c.original for c in self.containers)

    def refuse_two_ways(self, names: Iterable[Any]) -> None:
        """An error where code that has no source has changed a container that it was given a copy of, and may also find
        it by the *names* of its globals and free variables: no frame tells of what is done there."""
        copied = {id(c.original): c for c in self.containers if c.given is not c.original}
        same = all(same_contents(c.before, _contents(c.given)) for c in copied.values())
        if (same and self._untouched()) or not copied:
            return
        waiting, seen = list(names), set[int]()
        while waiting and len(seen) < _MOST_SEEN:
            value = waiting.pop()
            if id(value) in copied:
                name = copied[id(value)].name
                raise MutationError(
                    at_site(
                        f"`{name}`, of which gradients are taken, is also found from outside, and is written into by "
                        "code without a source: what is done to it by one way is not seen by the other; use the "
                        "argument alone"
                    )
                )
            if id(value) not in seen and not isinstance(value, ModuleType):
                seen.add(id(value))
                waiting += gc.get_referents(value)

    def _untouched(self) -> bool:
        """Whether the caller's own containers are as they were."""
        return all(same_contents(before, contents(c.original)) for c, before in self._at_first)

    def write_back(self, plain: Callable[[Any], Any]) -> None:
        """Make the caller's containers as the run has left them; *plain* gives values their final form."""
        for c in self.containers:
            now = _contents(c.given)
            if not same_contents(c.before, now):
                apply_changes(c.original, c.before, now, plain)


def explain_lists(error: Exception, fn: Callable[..., Any], call: Any) -> None:
    """Have an error that Python has made of a list of numbers among the arguments of *call* say what to pass."""
    text = error.args[0] if len(error.args) == 1 else None
    if type(error) not in (TypeError, AttributeError) or not isinstance(text, str) or not _OF_LISTS.search(text):
        return
    args, kwargs = call.arguments
    given = [*zip(positional_names(fn), args, strict=False), *kwargs.items()]
    lists = [(name, value) for name, value in given if type(value) in (list, tuple) and _holds_numbers(value)]
    last = last_frame(error.__traceback__)
    if lists and last is not None and not is_raise(last):
        name, value = lists[0]
        error.args = (f"{text}: the argument `{name}` is a {type(value).__name__}; pass np.array({name})",)


def _holds_numbers(value: Any) -> bool:
    numbers = int | float | complex | np.generic
    return bool(value) and all(
        isinstance(x, numbers) or (type(x) in (list, tuple) and _holds_numbers(x)) for x in value
    )
