"""The frame of one function in a run: what its converted copy goes through."""

from __future__ import annotations

import sys
import types
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tracer.convert.transparent import Begun
from ...tracer.ir.site import FOR_THE_USER
from ...tracer.loops.for_loop import begin
from ...tracer.loops.items import set_item
from ...tracer.loops.while_loop import begin_while
from ...tracer.record.array import TracedArray, is_traced
from ...tracer.record.made_arrays import MadeArray
from ..state.pins import MISSING
from ..state.state_graph import StateNode
from .attributes import found_in, load
from .callees import own_answer
from .choices import FrameChoices, set_in_arm
from .kinds import BUILT, PLAIN, TRACED, has_known_text
from .reads import CONTAINERS


class LoggedFrame(FrameChoices):
    """The object that the copy of one function goes through."""

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
        if name in space:
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
        run.write_name(cell, "", value, f"closure {name}", run.reads.was_read(self._owner, "cell", id(cell)))
        return value

    def del_free(self, name: str) -> None:
        if id(self.cells[name]) in self.run.reads.cells:
            raise self.run.refuse(f"`del {name}`")
        super().del_free(name)

    def globals(self) -> Any:
        raise self.run.refuse("globals()")

    def locals(self, values: Any) -> Any:
        raise self.run.refuse("locals()")

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
        if kind in PLAIN and kind is not np.ndarray:
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
        node = reads.node_of(obj)
        if isinstance(obj, types.ModuleType) and node is not None and node.kind == "module":
            self.run.write_global(obj.__dict__, name, value)
            return
        foreign = node is not None and node.kind not in ("instance", "argument")
        if foreign or isinstance(obj, types.ModuleType | type | types.FunctionType):
            raise self.run.refuse(f"an assignment of `.{name}` of an object from outside")
        if reads.trust.cls(kind) and kind is not types.SimpleNamespace:
            raise self.run.refuse(f"an assignment of `.{name}` of an object from outside")
        if not reads.trust.cls(kind):
            base, raw = found_in(kind, "__setattr__")
            if base is not object:
                raise self.run.refuse(f"an assignment of `.{name}` by a `__setattr__`")
            base, raw = found_in(kind, name)
            reads.names(name)
            reads.pin(kind)
            if isinstance(raw, property):
                assert base is not None
                reads.read_class(base, name, raw)
                if raw.fset is not None:
                    self.call(raw.fset, obj, value)
                    return
            elif base is not None and hasattr(type(raw), "__set__") and type(raw) is not types.MemberDescriptorType:
                raise self.run.refuse(f"an assignment of `.{name}` by a descriptor")
        if node is None:
            self.run.wrote(obj, name)
        if node is not None:
            if not hasattr(obj, "__dict__") and (base is None or type(raw) is not types.MemberDescriptorType):
                setattr(obj, name, value)  # raises
            self.run.write_name(obj, name, value, f"{node.label}.{name}", reads.was_read(node, "attr", name))
            return
        setattr(obj, name, value)

    def del_attr(self, obj: Any, name: str) -> None:
        if self.run.reads.node_of(obj) is not None or not self._plainly_set(type(obj)):
            raise self.run.refuse(f"`del` of `.{name}`")
        self.run.changes(obj)
        delattr(obj, name)

    def made(self, x: Any) -> Any:
        if type(x) is not list:
            for key in x:
                self.run.check_key(key)
        return self.run.made(x)

    def _plainly_set(self, kind: type) -> bool:
        return found_in(kind, "__delattr__")[0] is object

    def set_item(self, value: Any, obj: Any, index: Any) -> None:
        kind = type(obj)
        if kind in (TracedArray, MadeArray, np.ndarray):
            value = self.run.handed(value, False)
        if type(index) not in PLAIN or type(index) is slice:
            index = self.run.index(kind, index)
        if kind is TracedArray or kind is MadeArray:
            set_item(self.run.recorder, value, obj, index)
            return
        outside = self.run.reads.node_of(obj) is not None
        if outside and kind is dict:
            self.run.set_key(obj, index, value)
            return
        if outside and kind in (list, deque):
            self.run.whole_list(obj)[index] = value
            return
        if outside and kind not in BUILT and not self.run.reads.trust.cls(kind):
            self.run.special(obj, "__setitem__", index, value)
            return
        if outside or (kind is np.ndarray and not obj.flags.writeable):
            raise self.run.refuse("an assignment of an item of an object from outside")
        if kind is np.ndarray and (is_traced(value) or is_traced(index)):
            raise self.run.refuse("an assignment of a traced value in a plain array")
        if kind in CONTAINERS or kind is np.ndarray or self.run.reads.trust.cls(kind):
            if self.run.recorder.arms:
                set_in_arm(self.run, value, obj, index)
            elif kind in (list, dict) and type(index) in (int, str):
                self.run.wrote(obj, index)
                obj[index] = value
            else:
                self.run.changes(obj)
                obj[index] = value
            return
        self.run.special(obj, "__setitem__", index, value)

    def del_item(self, obj: Any, index: Any) -> None:
        if type(index) not in PLAIN or type(index) is slice:
            index = self.run.index(type(obj), index)
        if self.run.reads.node_of(obj) is not None:
            if type(obj) is dict:
                del self.run.whole_dict(obj)[index]
                return
            if type(obj) in (list, deque):
                del self.run.whole_list(obj)[index]
                return
            raise self.run.refuse("`del` of an item of an object from outside")
        if type(obj) not in CONTAINERS:
            self.run.special(obj, "__delitem__", index)
            return
        self.run.changes(obj)
        del obj[index]

    # ---- iteration, and the rest

    def iter(self, obj: Any) -> Any:
        return self.run.iterable(obj)

    def splat(self, obj: Any) -> Any:
        return self.run.iterable(obj)

    def mapping(self, obj: Any) -> Any:
        if type(obj) is not dict:
            raise self.run.refuse("`**` of what is no dict")
        return obj if self.run.reads.node_of(obj) is None else self.run.parts_of(obj)

    def unpack(self, obj: Any, count: int) -> Any:
        return obj if type(obj) is tuple and self.run.reads.node_of(obj) is None else self.run.iterable(obj)

    def unpack_star(self, obj: Any, before: int, after: int) -> Any:
        return self.run.iterable(obj)

    def first_iterable(self, xs: Any) -> Any:
        return Begun(self.run.iterable(xs))

    def loop(self, number: int, iterable: Any) -> Any:
        over = iterable.iterator if type(iterable) is Begun else self.run.iterable(iterable)
        return begin(self.run.recorder, over, self.loops[number])

    def while_loop(self, number: int) -> Any:
        return begin_while(self.run.recorder, self.loops[number])

    def context(self, manager: Any) -> Any:
        module = type(manager).__module__
        if module != "contextlib":
            raise self.run.refuse(f"`with` an object of the class {type(manager).__qualname__}")
        return manager

    def format(self, value: Any, conversion: Any, spec: Any) -> str:
        if not has_known_text(value) or spec.endswith("n"):
            raise self.run.refuse("a text that is made of values")
        return super().format(value, conversion, spec)

    def imported(self, module: str, name: str | None, value: Any) -> Any:
        reads = self.run.reads
        found = sys.modules.get(module)
        if found is None or self._owner is None:
            raise self.run.refuse(f"the import of {module}")
        shown = reads.read(self._owner, "import", module, found, module)
        if name is None:
            if isinstance(value, types.ModuleType) and value is not found:  # `import a.b` binds `a`
                return reads.read(self._owner, "import", value.__name__, value, value.__name__)
            return shown
        return self.attr(shown, name)


FOR_THE_USER.add(__file__)
