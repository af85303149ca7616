"""The frame of one function in a run: what its converted copy goes through."""

from __future__ import annotations

import sys
import types
import warnings
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tracer.convert.transparent import OWN, AskedWhile, Begun, PythonFor
from ...tracer.ir.own_attributes import dict_of, is_data_descriptor, is_empty
from ...tracer.ir.site import FOR_THE_USER
from ...tracer.loops.for_loop import begin
from ...tracer.loops.items import fill_item, set_item
from ...tracer.loops.while_loop import begin_while
from ...tracer.numpy_api.hooks import hook_loaded
from ...tracer.numpy_api.iterators import ArrayIterator
from ...tracer.record.array import TracedArray, is_traced
from ...tracer.record.made_arrays import MadeArray
from ...tracer.record.shown_names import own_answer
from ..record.asked import asked
from ..record.kinds import BUILT, EAGER, NAMESPACES, PLAIN, TRACED
from ..state.pins import MISSING
from ..state.state_graph import StateNode
from .attributes import found_in, load, pin_entry
from .choices import FrameChoices, set_in_arm
from .entered import QuietWarnings
from .reads import CONTAINERS, KEYED, is_generic
from .shared import set_in_class, set_of_function
from .subclasses import is_of_items, items_of
from .texts import format_of, marked
from .writes import DELETED
from .written_arrays import ArraySink, becomes_sink, write_into

_ARRAYS = (TracedArray, MadeArray, np.ndarray)


class LoggedFrame(FrameChoices):
    """The object that the copy of one function goes through."""

    handed = False  # whether code that is not seen gets what the copy returns

    def __init__(
        self, run: Any, fn: types.FunctionType, node: StateNode | None, loops: Sequence[Any] = (),
        choices: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        super().__init__(fn)
        self.loops, self.choices = loops, tuple(choices)
        self.run, self.fn = run, fn
        self._owner = node if node is not None else run.reads.root
        self._known: dict[str, Any] = run.spaces.setdefault(id(fn.__globals__), {})
        self.call, self.call_method = run.call, run.call_method  # type: ignore[method-assign]
        self.item, self.test = run.item, run.test  # type: ignore[method-assign]

    def _is_fixed(self) -> bool:
        """Whether the function is of a library whose names never change."""
        return self.run.is_fixed(self.globals_.get("__name__"))

    # ---- names

    def load_global(self, name: str) -> Any:
        known = self._known.get(name, MISSING)
        if known is not MISSING:
            return known
        written = self.run.written(self.globals_, name)
        if written is not MISSING:
            return written
        space, provided, reads = self.globals_, self.builtins_, self.run.reads
        assert self._owner is not None
        if self._is_fixed():
            found = space[name] if name in space else provided[name]
        elif name in space:
            found = reads.read(self._owner, "global", (space, name), space[name], f"global {name}")
        elif name in provided:
            found = reads.read(self._owner, "builtin", (space, provided, name), provided[name], name)
        else:
            raise self.run.refuse(f"the name `{name}`, which is not there")
        self._known[name] = found
        return found

    def load_free(self, name: str) -> Any:
        cell = self.cells[name]
        if id(cell) not in self.run.reads.cells:
            return super().load_free(name)
        written = self.run.written(cell, "")
        if written is not MISSING:
            return written
        try:
            value = cell.cell_contents
        except ValueError:
            raise self.run.refuse(f"the variable `{name}`, which has no value yet") from None
        assert self._owner is not None
        return self.run.reads.read(self._owner, "cell", cell, value, f"closure {name}")

    def store_global(self, name: str, value: Any) -> Any:
        self.run.write_global(self.globals_, name, value)
        return value

    def del_global(self, name: str) -> None:
        raise self.run.refuse(f"`del {name}`")

    def store_free(self, name: str, value: Any) -> Any:
        cell, run = self.cells[name], self.run
        if id(cell) not in run.reads.cells:
            run.wrote(cell, name)
            return super().store_free(name, value)
        assert self._owner is not None
        run.write_name(cell, "", value, f"closure {name}", run.reads.shown_in(self._owner, "cell", id(cell)))
        return value

    def del_free(self, name: str) -> None:
        if id(self.cells[name]) in self.run.reads.cells:
            raise self.run.refuse(f"`del {name}`")
        super().del_free(name)

    def globals(self) -> Any:
        raise self.run.refuse("globals()")

    def locals(self, values: Any) -> Any:
        for name in [name for name in values if name.startswith(OWN)]:
            del values[name]
        for name, cell in self.cells.items():
            values.pop(name, None)
            if not is_empty(cell):
                values[name] = self.load_free(name)
        return self.run.made(dict(values))

    def super(self, cls: Any, first: Any) -> Any:
        if self.load_global("super") is not super:
            raise self.run.refuse("super(), which is not Python's")
        return super(cls, first)

    def dir(self, found: Any) -> Any:
        raise self.run.refuse("dir()")

    # ---- attributes and items

    def attr(self, obj: Any, name: str) -> Any:
        kind = type(obj)
        if name == "__class__" and kind in TRACED:
            return own_answer(type)(obj)
        if kind is TracedArray and obj._atom.aval.weak:
            return own_answer(getattr)(obj, name)
        if kind in PLAIN and kind is not np.ndarray and kind not in EAGER:
            return getattr(obj, name)
        if kind is np.ndarray:
            if name in ("base", "data", "ctypes", "__array_interface__"):
                raise self.run.refuse(f"`.{name}` of an array")
            return getattr(obj, name)
        return load(self.run, obj, name)

    def set_attr(self, value: Any, obj: Any, name: str) -> None:
        kind, reads = type(obj), self.run.reads
        if kind is TracedArray:
            setattr(obj, name, value)
            return
        if self.run.sets(obj, name, value):
            return
        if kind in (np.ndarray, MadeArray) and name == "shape" and obj.flags.writeable:
            self.run.no_carry(obj, "an array gets another shape")
            obj.shape = value
            return
        if kind is MadeArray and name in ("real", "imag") and obj.dtype.kind == "c":
            self.set_item(value, getattr(obj, name), ...)
            return
        if isinstance(obj, types.ModuleType) and (node := reads.node_of(obj)) is not None and node.kind == "module":
            self.run.write_global(obj.__dict__, name, value)
            return
        if isinstance(obj, type):
            set_in_class(self.run, value, obj, name)
            return
        if kind is types.FunctionType and not reads.trust.owns(obj):
            set_of_function(self.run, value, obj, name)
            return
        if self._is_library(obj):
            raise self.run.refuse(f"an assignment of `.{name}` of an object from outside")
        if is_generic(found_in(kind, "__setattr__")[1]):
            self.set_plainly(value, obj, name)
        else:
            self.run.by_hook(obj, "__setattr__", name, value)

    def set_plainly(self, value: Any, obj: Any, name: str) -> None:
        """``object.__setattr__(obj, name, value)``."""
        kind, reads = type(obj), self.run.reads
        node = reads.node_of(obj)
        if self._is_library(obj):
            raise self.run.refuse(f"an assignment of `.{name}` of an object from outside")
        base, raw = found_in(kind, name)
        reads.names(name)
        reads.pin(kind)
        slot = type(raw) is types.MemberDescriptorType
        if base is not None:
            pin_entry(reads, raw)
        if base is not None and is_data_descriptor(raw) and not slot:
            self._set_by_descriptor(value, obj, name, base, raw)
            return
        if node is None:
            self.run.wrote(obj, name)
        if node is None or not (dict_of(obj) is not None or slot):
            object.__setattr__(obj, name, value)
            return
        self.run.write_name(obj, name, value, f"{node.label}.{name}", reads.shown_in(node, "attr", name))

    def _set_by_descriptor(self, value: Any, obj: Any, name: str, base: type, raw: Any) -> None:
        """Set the attribute by a property, or a descriptor of the user's."""
        reads = self.run.reads
        if isinstance(raw, property):
            reads.read_class(base, name, raw)
            if raw.fset is None:
                setattr(obj, name, value)  # raises
            self.call(raw.fset, obj, value)
            return
        if reads.library(type(raw)) or type(found_in(type(raw), "__set__")[1]) is not types.FunctionType:
            raise self.run.refuse(f"an assignment of `.{name}` by a descriptor")
        reads.read_class(base, name, raw)
        self.run.special(raw, "__set__", obj, value)

    def _is_library(self, obj: Any) -> bool:
        """Whether attributes of *obj* are not written by a run."""
        node = self.run.reads.node_of(obj)
        known = node is None or node.kind in ("instance", "pinned", "argument")
        if not known or isinstance(obj, types.ModuleType | type | types.FunctionType):
            return True
        if node is None and isinstance(obj, BaseException):
            return False
        own = type(obj) in self.run.reads.own_classes and id(obj) not in self.run.twins
        return not own and type(obj) not in NAMESPACES and self.run.reads.library(type(obj))

    def del_attr(self, obj: Any, name: str) -> None:
        if is_generic(found_in(type(obj), "__delattr__")[1]):
            self.del_plainly(obj, name)
        else:
            self.run.by_hook(obj, "__delattr__", name)

    def del_plainly(self, obj: Any, name: str) -> None:
        """``object.__delattr__(obj, name)``."""
        run, node = self.run, self.run.reads.node_of(obj)
        if self._is_library(obj) or found_in(type(obj), name)[0] is not None:
            raise run.refuse(f"`del` of `.{name}`")
        run.no_carry(obj, "an attribute is deleted")
        if node is None:
            delattr(obj, name)
            return
        if node.kind != "instance":
            raise run.refuse(f"`del` of `.{name}`")
        load(run, obj, name)  # raises where there is none
        if name in obj.__dict__:
            run.reads.read(node, "attr", name, obj.__dict__[name], f"{node.label}.{name}")
        else:
            run.reads.note_absent(node, name)
        run.write_name(obj, name, DELETED, f"{node.label}.{name}", MISSING)

    def made(self, x: Any) -> Any:
        if type(x) is not list:
            for key in x:
                self.run.check_key(key)
        return self.run.made(x)

    def set_item(self, value: Any, obj: Any, index: Any) -> None:
        run, kind = self.run, type(obj)
        if kind is ArraySink:
            write_into(run, obj, run.index(np.ndarray, index), value)
            return
        if kind is TracedArray and obj._storage.owner is not None:
            becomes_sink(run, obj)
        by_library = kind not in CONTAINERS and (kind in _ARRAYS or kind in EAGER or run.reads.library(kind))
        if by_library:
            value = run.handed(value, False)
        if type(index) not in PLAIN or type(index) is slice:
            index = run.index(kind, index)
        if type(index) is slice and kind is list:
            value = list(run.iterable(value))  # as the run has it
        if kind in EAGER:
            obj[index] = value
        elif kind in _ARRAYS:
            self._set_in_array(value, obj, kind, index)
        elif run.reads.node_of(obj) is not None:
            self._set_outside(value, obj, kind, index)
        elif not (kind in CONTAINERS or by_library):
            run.special(obj, "__setitem__", index, value)
        elif run.recorder.arms:
            set_in_arm(run, value, obj, index)
        elif not (kind is list and run.loops and fill_item(run.recorder, value, obj, index)):
            if kind in (list, dict) and type(index) in (int, str):
                run.wrote(obj, index)
            else:
                run.changes(obj)
            obj[index] = value

    def _set_in_array(self, value: Any, array: Any, kind: type, index: Any) -> None:
        traced = kind is TracedArray or is_traced(value) or is_traced(index)
        if kind is np.ndarray:
            if self.run.reads.node_of(array) is not None or not array.flags.writeable:
                raise self.run.refuse("an assignment of an item of an object from outside")
            if traced:
                raise self.run.refuse("an assignment of a traced value in a plain array")
        if not traced:
            self.run.array_changed(array)
        if kind is np.ndarray:
            array[index] = value
        else:
            set_item(self.run.recorder, value, array, index)

    def _set_outside(self, value: Any, obj: Any, kind: type, index: Any) -> None:
        if kind in KEYED:
            self.run.set_key(obj, index, value)
        elif kind in (list, deque):
            self.run.whole_list(obj)[index] = value
        elif kind in BUILT or self.run.reads.library(kind):
            raise self.run.refuse("an assignment of an item of an object from outside")
        else:
            self.run.special(obj, "__setitem__", index, value)

    def del_item(self, obj: Any, index: Any) -> None:
        if type(index) not in PLAIN or type(index) is slice:
            index = self.run.index(type(obj), index)
        if self.run.reads.node_of(obj) is not None:
            if type(obj) in KEYED:
                self.run.is_this(index)
                del self.run.whole_dict(obj)[index]
                return
            if type(obj) in (list, deque):
                del self.run.whole_list(obj)[index]
                return
            if type(obj) in CONTAINERS or self.run.reads.library(type(obj)):
                raise self.run.refuse("`del` of an item of an object from outside")
            self.run.special(obj, "__delitem__", index)
            return
        if type(obj) not in CONTAINERS:
            self.run.special(obj, "__delitem__", index)
            return
        self.run.changes(obj)
        del obj[index]

    # ---- iteration, and the rest

    def mapping(self, obj: Any) -> Any:
        if isinstance(obj, dict) and is_of_items(found_in(type(obj), "keys")[1]):
            items = items_of(self.run, obj)
            obj = obj if items is None else items
        if not isinstance(obj, dict) or type(obj) not in CONTAINERS:
            raise self.run.refuse("`**` of what is no dict")
        return obj if self.run.reads.node_of(obj) is None else self.run.parts_of(obj)

    def unpack(self, obj: Any, *counts: int) -> Any:
        return obj if type(obj) is tuple and self.run.reads.node_of(obj) is None else self.run.iterable(obj)

    def generator(self, lazily: Any, at_once: Any, folded: Any, xs: Any) -> Any:
        made = lazily(xs)
        if self.run.over_symbols:
            self.run.begun[id(made)] = made, at_once, folded, xs
        return made

    def item_gone_over(self, a: Any, index: Any, /) -> Any:
        row = self.run.row_gone_over(a, index)
        return self.item(a, index) if row is None else row

    def item_measured(self, a: Any, index: Any, /) -> Any:
        return self.item_gone_over(a, index) if self.load_global("len") is len else self.item(a, index)

    def loop(self, number: int, iterable: Any) -> Any:
        over = iterable.iterator if type(iterable) is Begun else self.run.iterable(iterable)
        if not self.run.over_symbols:
            return PythonFor(iter(over))
        return begin(self.run.recorder, over, self.loops[number])

    def while_loop(self, number: int) -> Any:
        if not self.run.over_symbols:
            return AskedWhile(self.test)
        return begin_while(self.run.recorder, self.loops[number], self.test)

    def is_of(self, x: Any, abstract: type) -> bool:
        self.run.reads.asks_registered(type(x), abstract)
        return super().is_of(x, abstract)

    def context(self, manager: Any) -> Any:
        kind, run = type(manager), self.run
        if kind.__module__ == "contextlib" and (kind.__name__.startswith("redirect") or kind.__name__ == "chdir"):
            raise run.refuse(f"`with` an object of the class {kind.__qualname__}")
        if kind.__module__ in run.contexts or issubclass(kind, np.errstate):
            return manager
        if kind is warnings.catch_warnings and not manager._record:
            return QuietWarnings(run, manager)
        if kind is ArrayIterator:
            return manager
        if run.reads.library(kind):
            raise run.refuse(f"`with` an object of the class {kind.__qualname__}")
        return asked(run, manager, "__enter__", "__exit__")

    def format(self, value: Any, conversion: Any, spec: Any) -> str:
        return str(format_of(self.run, value, conversion, spec))

    def text(self, x: str) -> str:
        return marked(self.run, x)

    def returned(self, value: Any) -> Any:
        return self.run.handed_back(value) if self.handed and type(value) not in PLAIN else value

    def imported(self, module: str, name: str | None, value: Any) -> Any:
        reads = self.run.reads
        found = sys.modules.get(module)
        if found is None or self._owner is None:
            raise self.run.refuse(f"the import of {module}")
        hook_loaded()  # it may be loaded by this
        shown = reads.read(self._owner, "import", module, found, module)
        if name is None:
            if isinstance(value, types.ModuleType) and value is not found:  # `import a.b` binds `a`
                return reads.read(self._owner, "import", value.__name__, value, value.__name__)
            return shown
        return self.attr(shown, name)


FOR_THE_USER.add(__file__)
