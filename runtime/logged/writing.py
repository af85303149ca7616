"""Writes of a run, and its reads of places that it has written.

Nothing is written before the run is over: ``writes`` has it, and a read of such a place is answered from there."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection
from typing import Any

from ...tracer.ir.own_attributes import dict_of
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.loops.python_ints import in_plain_iterations
from ...tracer.record.recorder import Recorder, current_recorder
from ...tracer.record.reports import filters
from ...tracer.record.retry import Retry
from ...tracer.record.shown_text import Texts
from ..record.kinds import EAGER, PLAIN, is_held, is_number, item_key
from ..state.pins import MISSING
from ..state.state_graph import LENGTH, StateNode
from .choices import changes_in_arm
from .reads import CONTAINERS, KEYED, NUMBERS, NotClosedError, ReadLog, not_closed
from .writes import Varies, Written, WrittenElements, WrittenItems, WrittenKeys, WrittenNames

_STANDS_IN = (
    "a container is changed that a loop makes anew: the run is made again, with that loop iteration by iteration"
)


def like(obj: Any, contents: Any) -> Any:
    """A new container with *contents*, of the kind that *obj* is."""
    if type(obj) is deque:
        return deque(contents, obj.maxlen)
    return defaultdict(obj.default_factory, contents) if type(obj) is defaultdict else type(obj)(contents)


class Writing:
    """The part of a run that knows what it has written.

    ``contexts``: modules whose context managers undo what they change.  ``over_symbols``: whether loops run an
    iteration over symbols.  ``returns_texts``: whether a text of values may be part of the result."""

    contexts = frozenset(("contextlib", "tracegrad.tensors.modes", "tracegrad.tensors.autocast"))
    over_symbols = True
    returns_texts = False
    # of the parts that stand on this one
    call: Any
    copy_of: Any
    handed: Any
    iterable: Any
    check_key: Any

    def __init__(self, reads: ReadLog, recorder: Recorder) -> None:
        self.reads, self.recorder = reads, recorder
        self.loops = recorder.open_loops  # iterations over symbols that are under way
        self.spaces: dict[int, dict[str, Any]] = {}  # id of the globals of a module -> names that are known
        self.refused: NotClosedError | None = None
        recorder.ends = self.refuse_for
        self.texts = recorder.texts = Texts(filters=filters())
        self.quiet = 0  # contexts of `warnings.catch_warnings` that are entered
        self.writes: dict[int, Written] = {}  # what the run has written outside, by id of the owner
        self.class_names: set[str] = set()  # names of classes that it has written
        self.touched: set[int] = set()  # ids of containers outside that the run has read
        self.begun: dict[int, tuple[Any, ...]] = {}  # by id: generators of copies, as of ``Transparent.generator``
        self._shown: dict[int, Any] = {}  # id of a list or dict outside -> what iterations over it go over
        self._keys: dict[int, dict[Any, Any]] = {}  # id of a dict outside -> its keys, as iterations go over them

    def varies(self, found: Any, value: Any) -> bool:
        """Whether a place in which *found* was read is to be an input, since the run puts *value* there."""
        return type(found) in NUMBERS and is_number(value)

    def is_fixed(self, module: Any) -> bool:
        """Whether the names of the module of this name, a library's, never change."""
        return False

    def sets(self, obj: Any, name: str, value: Any) -> bool:
        """Whether the library that has made the class of *obj* has seen to ``obj.name = value``."""
        return False

    def of_tensor(self, t: Any, name: str) -> Any:
        """``t.name`` of an eager tensor, which the run has made."""
        return getattr(t, name)

    def method_of_tensor(self, t: Any, name: str, args: Any, kwargs: Any) -> Any:
        """``t.name(*args, **kwargs)`` of an eager tensor."""
        return self.call(self.of_tensor(t, name), *args, **kwargs)

    def is_users(self, x: Any) -> bool:
        """Whether *x* is an object of a class of the user's."""
        kind = type(x)
        return not (kind in PLAIN or kind in CONTAINERS or isinstance(x, type) or self.reads.library(kind))

    def refuse(self, what: str, why: Refusal = Refusal.LOG_UNSEEN) -> NotClosedError:
        """The error for something that is not closed, whatever becomes of it in the function; *why*: the refusal."""
        return self.refuse_for(not_closed(what, why).reason)

    def refuse_for(self, reason: Reason) -> NotClosedError:
        """The same, in the words of another part."""
        self.refused = NotClosedError(reason)
        return self.refused

    def again(self, error: Retry) -> Retry:
        """End the run, which is made again, whatever becomes of *error* in the function."""
        recorder = current_recorder()
        if recorder is not None and recorder.needed is None:
            recorder.needed = error
        return error

    def seen(self, value: Any, label: str) -> Any:
        """The value that the run gets for *value*, which stands outside in a place that can't change."""
        assert self.reads.root is not None
        return self.reads.read(self.reads.root, "const", label, value, label)

    def part(self, node: StateNode, how: str, key: Any, value: Any) -> Any:
        """The value that the run gets for an item of a container outside."""
        return self.reads.read(node, how, key, value, self.label_of(node, key))

    def label_of(self, node: StateNode, key: Any) -> str:
        """The name of an item of a container outside."""
        if type(key) not in EAGER:
            return f"{node.label}[{key!r}]"
        known = self.reads.node_of(key)
        return f"{node.label}[{'...' if known is None else known.label}]"

    def written(self, owner: Any, name: str) -> Any:
        """The value that the run has written there; MISSING where it has not."""
        found = self.writes.get(id(owner)) if self.writes else None
        return found.values.get(name, MISSING) if isinstance(found, WrittenNames) else MISSING

    def write_name(self, owner: Any, name: str, value: Any, label: str, found: Any) -> None:
        """Write an attribute, a global or an outer variable; *found*: what the run has read there, or MISSING."""
        if value is found and not self.loops and self.written(owner, name) is MISSING:
            return
        if self.reads.may_vary(label) and self.varies(found, value):
            raise self.again(Varies(label))
        found = self.writes.setdefault(id(owner), WrittenNames(owner))
        assert isinstance(found, WrittenNames)
        self.wrote(found.values, name)
        found.values[name] = value

    def write_class(self, cls: type, name: str, value: Any, label: str, found: Any) -> None:
        """Write an attribute of a class; as ``write_name``."""
        self.write_name(cls, name, value, label, found)
        self.class_names.add(name)

    def write_global(self, space: dict[str, Any], name: str, value: Any) -> None:
        """Write a global variable of a module."""
        owner = self.reads.root
        assert owner is not None
        known = self.spaces.get(id(space), {})
        found = known.get(name, MISSING) if self.written(space, name) is MISSING else MISSING
        self.write_name(space, name, value, f"global {name}", found)
        self.spaces.setdefault(id(space), {}).pop(name, None)  # it is found among what was written

    def current(self, obj: Any) -> Any:
        """A container outside as the run has it: itself where nothing was written into it."""
        found = self.now(obj)
        self.looked_at(found)
        return found

    def now(self, obj: Any) -> Any:
        """The same, for a part of it to be read, or changed."""
        node = self.reads.node_of(obj)
        if node is None:
            return obj
        self.touched.add(id(obj))
        found = self.writes.get(id(obj)) if self.writes else None
        if found is None:
            return obj
        assert not isinstance(found, WrittenNames)
        if isinstance(found, WrittenKeys) and found.whole is None:
            for key in found.values:
                self.is_this(key)
        if isinstance(found, WrittenItems) and found.whole is None:
            for loop in self.loops:
                if id(found.tail) in loop.appends:  # what the iteration has appended is in another list from now on
                    loop.refuse_seen("a list is read and appended to")
        return found.read(lambda: self.contents(obj, node))

    def only_grows(self, obj: Any) -> bool:
        """Whether *obj* is a list outside of which the run has read no more than its length and some items, so far, and
        to which it has only appended."""
        node = self.reads.node_of(obj) if type(obj) is list else None
        if node is None or node.kind != "list" or self.loops or self.recorder.arms or id(obj) in self.touched:
            return False
        written = self.writes.get(id(obj))
        return not isinstance(written, WrittenItems) or written.whole is None

    def contents(self, obj: Any, node: StateNode) -> Any:
        """The contents of a list or dict outside before the run writes there: one object, which its writes change, so
        that iterations and views that are under way see them."""
        if id(obj) not in self._shown:
            made: Any = obj.copy() if type(obj) is set else self.read_parts(obj, node)
            self._shown[id(obj)] = like(obj, made) if type(obj) in (deque, OrderedDict) else made
        return self._shown[id(obj)]

    def keys_of(self, obj: Any) -> dict[Any, Any]:
        """The keys of a dict outside, to be iterated over."""
        return self._keys.setdefault(id(obj), dict.fromkeys(obj))

    def shallow(self, obj: Any) -> Any:
        """A container outside as a new one with what is in it; anything else as it is."""
        kind, node = type(obj), self.reads.node_of(obj)
        if kind not in CONTAINERS or node is None:
            self.looked_at(obj)
            return obj
        if kind is frozenset:
            return obj.copy()
        now: Any = self.current(obj)
        self.check_order(obj, now)
        found: Any = self.contents(obj, node) if now is obj else now
        return like(obj, found)

    def parts_of(self, obj: Any) -> Any:
        """The contents of a container outside as the run has them: a copy."""
        now = self.current(obj)
        node = self.reads.node_of(obj)
        return now.copy() if now is not obj or node is None else self.read_parts(obj, node)

    def read_parts(self, obj: Any, node: StateNode) -> Any:
        """The items of a list, tuple or dict outside, as the run gets them: a list or dict."""
        if isinstance(obj, dict):
            return {key: self.part(node, "key", key, item) for key, item in obj.items()}
        if self.reads.read_values(node, obj):
            return list(obj)
        return [self.part(node, "item", k, item) for k, item in enumerate(obj)]

    def append(self, obj: Any, value: Any) -> None:
        """Append to a list outside."""
        found = self.writes.setdefault(id(obj), WrittenItems(obj))
        assert isinstance(found, WrittenItems)
        if id(obj) in self._shown:  # it may be iterated over
            self.now(obj)
            self.changes(obj)
        target = found.tail if found.whole is None else found.whole
        for loop in self.loops:
            if id(obj) in loop.read:
                loop.read[id(target)] = target
        self.append_to(target, value)

    def set_key(self, obj: Any, key: Any, value: Any) -> None:
        """Set an item of a dict outside."""
        node = self.reads.node_of(obj)
        if type(obj) not in KEYED:
            raise self.refuse(f"an assignment of an item of an object of the class {type(obj).__qualname__}")
        self.check_key(key)
        found = self.writes.setdefault(id(obj), WrittenKeys(obj))
        assert isinstance(found, WrittenKeys)
        label = self.label_of(node, key) if node is not None else ""
        before = self.reads.shown_in(node, "key", item_key(key)) if node is not None else MISSING
        if self.reads.may_vary(label) and self.varies(before, value):
            raise self.again(Varies(label))
        if id(obj) in self._shown:
            self.current(obj)
        if found.whole is not None:
            self.is_this(key)
        if id(obj) in self._keys:
            self._keys[id(obj)][key] = None
        target = found.values if found.whole is None else found.whole
        self.wrote(target, key)
        target[key] = value

    def change_set(self, obj: Any, name: str, args: tuple[Any, ...]) -> None:
        """``obj.name(*args)`` of a set outside, by a method that gives nothing."""
        given = args if name in ("add", "discard", "remove") else tuple(map(self._elements, args))
        for element in args if given is args else [x for part in given for x in part]:
            self.check_key(element)
        self.no_carry(obj, "a set outside is changed")
        entry = self.writes.setdefault(id(obj), WrittenElements(obj))
        assert isinstance(entry, WrittenElements)
        if name == "remove":  # which asks whether there is one
            self.current(obj)
        entry.do(name, *given)

    def is_this(self, key: Any) -> None:
        """It counts which object *key* is, if it is one: it may be among the keys of a dict outside."""
        for part in key if type(key) is tuple else ():
            self.is_this(part)
        node = self.reads.node_of(key)
        if node is not None and node.kind == "argument":
            raise self.refuse("an argument that is looked for among the keys of a dict from outside")
        if node is not None and node.kind == "instance":
            self.reads.is_this(node)

    def _elements(self, obj: Any) -> Any:
        """The elements that change a set, in a form that leaves it in the same order."""
        self.check_order(obj, self.current(obj))
        if type(obj) is frozenset or (type(obj) is set and self.reads.node_of(obj) is not None):
            return obj
        if type(obj) is set or isinstance(obj, dict):
            raise self.refuse("a set from outside that is changed by a set or dict of the run's")
        return (*self.iterable(obj),)

    def check_order(self, obj: Any, now: Any) -> None:
        """An error where the order of a set outside counts that the run has changed: what it has is a copy."""
        if type(obj) is set and now is not obj:
            raise self.refuse("the order of a set from outside that the run has changed")

    def whole_list(self, obj: Any) -> Any:
        """A list outside, to be changed in any way: as the run has it."""
        self.writes.setdefault(id(obj), WrittenItems(obj))
        self.no_carry(obj, "a list outside is changed")
        return self.current(obj)

    def whole_dict(self, obj: Any) -> Any:
        """A dict outside, to be changed in any way."""
        self.writes.setdefault(id(obj), WrittenKeys(obj))
        self.no_carry(obj, "a dict outside is changed")
        if id(obj) in self._keys:
            keys = [(self._keys.pop(id(obj)), ())]
            if is_held(keys):
                raise self.refuse("a dict outside that is changed while its keys are iterated over")
        return self.current(obj)

    # ---- loops over symbols, and arms of choices

    def one_object(self, obj: Any) -> None:
        """*obj* is about to be changed, or to be told from others: where another one stands for it in a loop the run is
        made again without that."""
        if id(obj) in self.recorder.loops.made_anew:
            in_plain_iterations(self.recorder, self.recorder.loops.made_anew[id(obj)][1], _STANDS_IN)

    def wrote(self, owner: Any, key: Any) -> None:
        """A place of *owner* is written."""
        self.one_object(owner)
        if self.recorder.arms:
            changes_in_arm(self.recorder, owner)
        if self.loops:
            self.loops[-1].wrote(owner, key)

    def append_to(self, obj: Any, value: Any) -> None:
        """Append to a list or deque that the run has."""
        self.one_object(obj)
        if self.recorder.arms:
            changes_in_arm(self.recorder, obj)
        if self.loops and type(obj) is list:
            self.loops[-1].append(obj, value)
        else:
            self.changes(obj)
            obj.append(value)

    def changes(self, obj: Any) -> None:
        """A container is changed in a way that is no carry of a loop."""
        self.one_object(obj)
        if self.recorder.arms:
            changes_in_arm(self.recorder, obj)
        if not all(id(obj) in loop.made for loop in self.loops):
            self.no_carry(obj, "a container is changed")

    def no_carry(self, obj: Any, what: str) -> None:
        """*what* becomes of *obj* can be no carry of a loop, nor done in one arm of two."""
        self.one_object(obj)
        if self.recorder.arms:
            changes_in_arm(self.recorder, obj, False)
        if self.loops:
            self.loops[-1].changes(obj)
            self.loops[-1].refuse_seen(what)

    def made(self, obj: Any) -> Any:
        """*obj* was made by the run."""
        if self.recorder.arms:
            self.recorder.arms[-1].made.append(obj)
        if self.loops:
            self.loops[-1].made_here(obj)
        return obj

    def looked_at(self, obj: Any) -> None:
        """A list or deque is read."""
        if self.loops and type(obj) in (list, deque):
            self.loops[-1].reads(obj)

    # ---- when the run is over

    def end(self) -> None:
        """Nothing is known any more: what is still called is no part of the run, and is refused."""
        self.reads.end()
        for known in self.spaces.values():
            known.clear()

    def outside(self) -> set[int]:
        """The ids of the objects that the run has found outside."""
        return self.reads.ids()

    def untouched(self) -> set[int]:
        """The ids of the containers outside that the run has only written to, or asked for their lengths, or of lists
        for some items near an end; an error where such a length or item is to be a number of the run.  A length that
        has to be known as it is counts like the items."""
        only = {
            key for key, entry in self.writes.items() if not isinstance(entry, WrittenNames) and key not in self.touched
        }
        for key in sorted(only):
            node = self.reads.node_of(self.writes[key].owner)
            if node is None:
                continue
            places: list[tuple[str, Any, str]] = [(LENGTH, LENGTH, f"len({node.label})")]
            places += [("item", k, self.label_of(node, k)) for k in self.reads.from_end(node)]
            for how, at, label in places:
                if self.reads.was_read(node, how, at):
                    if self.reads.may_vary(label):
                        raise self.again(Varies(label))
                    if how == LENGTH:
                        only.discard(key)
        return only

    def places(self) -> dict[int, Collection[Any] | None]:
        """The names or keys that the run has written, by the id of the owner; None: any."""
        found: dict[int, Collection[Any] | None] = {}
        for key, entry in self.writes.items():
            by_name = isinstance(entry, WrittenNames) or (isinstance(entry, WrittenKeys) and entry.whole is None)
            found[key] = {*entry.values} if by_name else None  # type: ignore[union-attr]
        return found

    def check_ways(self) -> None:
        """An error where a place was written that is reached by its name and by a dict of names, too."""
        if not self.writes:
            return
        stores = self.reads.stores()
        for key, entry in self.writes.items():
            if isinstance(entry, WrittenKeys) and key in stores:
                raise self.refuse("an assignment in a dict that has the names of an object")
            store = (
                dict_of(entry.owner)
                if isinstance(entry, WrittenNames) and type(entry.owner) is not dict
                else entry.owner
            )
            if isinstance(entry, WrittenNames) and self.reads.node_of(store) is not None:
                raise self.refuse("an assignment of an attribute, which is found in a dict, too")
            if isinstance(entry, WrittenNames) and store is not entry.owner and stores[id(store)] > 1:
                raise self.refuse("an assignment of an attribute, which another object has, too")
