"""Faces: modules of users' names, which are imported when they are asked for.

A face has its import statements under ``if TYPE_CHECKING:``, where editors and type checkers read them, and nothing
else says what it holds. :func:`face` runs the statement of a name at the name's first use. So ``import tracegrad``
imports what a first call from disk needs, and no more. ``__all__`` and ``dir()`` are true, and run all of them.
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from .tracer.ir.tracebacks import for_users


def face(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of *module*."""
    made = _Face(module)
    return made.find, made.names


class _Face:
    def __init__(self, module: str) -> None:
        self._module = module
        self._space = vars(sys.modules[module])

    @functools.cached_property
    def _block(self) -> list[ast.stmt]:
        """The statements under ``if TYPE_CHECKING:``."""
        source = self._space["__spec__"].loader.get_source(self._module)
        if source is None:
            raise ImportError(f"{self._module} needs its source file")
        tests = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
        return [node for test in tests if ast.unparse(test.test) == "TYPE_CHECKING" for node in test.body]

    def find(self, name: str) -> Any:
        """The object called *name*, from now on one of the module's globals."""
        found: dict[str, Any] = {}
        if name == "__all__":
            self._run(self._block, found)
        elif not name.startswith("_"):
            imports = [node for node in self._block if isinstance(node, ast.ImportFrom)]
            self._run([node for node in imports if name in map(_given, node.names)], found, name)
            for node in imports:  # the first one that has the name, among those that import all names of a module
                if name not in found and node.names[0].name == "*":
                    self._run([node], found)
        found = found if name in found else self._space
        if name in found:
            return found[name]
        with for_users:
            raise AttributeError(f"module {self._module!r} has no attribute {name!r}{self._elsewhere(name)}")

    def _elsewhere(self, name: str) -> str:
        """The place of what has that *name* in another module, or another name, for an error."""
        if name == "jit":
            return ": tracegrad.compile_grad compiles functions"
        place = sys.modules.get(f"{self._module}.autograd")
        found = None if place is None or name.startswith("_") else getattr(place, name, None)
        return "" if found is None else f": it is {self._module}.autograd.{name}"

    def names(self) -> list[str]:
        """All names, as ``dir()`` gives them."""
        return sorted({*self._space, *self.find("__all__")})

    def _run(self, block: list[ast.stmt], found: dict[str, Any], name: str = "") -> None:
        """Run statements, whose names are *found*; of one that imports submodules, for which Python would ask the
        module first, only *name*.

        Names are the module's once all of the package that they come from has been imported: until then this thread is
        at it, and others wait for it here (Python itself waits for the part that has the name alone)."""
        package = self._space["__package__"]
        for node in block:
            known: dict[str, Any] = {}
            relative = isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
            source = importlib.import_module(f".{str(relative).partition('.')[0]}", package) if relative else None
            if isinstance(node, ast.ImportFrom) and node.module is None:
                for alias in [alias for alias in node.names if name in ("", _given(alias))]:
                    known[_given(alias)] = importlib.import_module(f".{alias.name}", package)
            else:
                exec(compile(ast.Module([node], []), self._space["__file__"], "exec"), {**self._space, **found}, known)
            found.update(known)
            if not getattr(getattr(source, "__spec__", None), "_initializing", False):
                self._space.update(known)


def _given(alias: ast.alias) -> str:
    return alias.asname or alias.name
