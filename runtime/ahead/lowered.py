"""``f.lower(*specs)`` and ``.compile()``: a function for one kind of call, without its Python."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ...tracer.ir.errors import TracegradError
from ...tracer.ir.gc_pause import imported_to_stay
from ...tracer.ir.text import print_graph
from ..mode import GRAD, VALUE, VALUE_AND_GRAD
from .fixed import FixedCall
from .sizes import SizedCall

Calls = dict[str, "FixedCall | TracegradError"]


class MemoryAnalysis(NamedTuple):
    """Bytes of the arguments that are data, of the results, of the workspace, of constants, of machine code."""

    arguments: int
    results: int
    workspace: int
    constants: int
    code: int


class Lowered:
    """A function's programs for one kind of call.  Made by ``f.lower(*specs)``."""

    def __init__(self, name: str, calls: Calls) -> None:
        self._name, self._calls = name, calls

    def compile(self) -> Compiled:
        """Make the kernels."""
        made = Compiled(self._name, self._calls)
        for fixed in self._calls.values():
            if isinstance(fixed, FixedCall):
                fixed.compile()
        return made

    def as_text(self, mode: str = VALUE) -> str:
        """The program, for ``"value"``, or ``"value_and_grad"`` with its adjoint."""
        return print_graph(_call(self._calls, mode).graph)

    def __repr__(self) -> str:
        return f"<{self._name} lowered for {_kind(self._calls)}>"


class Compiled:
    """A function compiled for one kind of call: its shapes, dtypes and settings are fixed, what it read from outside is
    as it was, and its Python does not run.  Made by ``f.lower(*specs).compile()`` and ``tracegrad.load(path)``.

    Calls take arguments of these shapes and raise TypeError for others, UnsupportedError where the values take another
    way through the function's branches.
    """

    def __init__(self, name: str, calls: Calls) -> None:
        self.name, self.calls = name, calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's value."""
        return self.call(VALUE)(args, kwargs)

    def value_and_grad(self, *args: Any, **kwargs: Any) -> Any:
        """(value, gradient), as ``f.value_and_grad``."""
        return self.call(VALUE_AND_GRAD)(args, kwargs)

    def grad(self, *args: Any, **kwargs: Any) -> Any:
        """The gradient, as ``f.grad``."""
        both = self.call(VALUE_AND_GRAD)
        value, gradient = both(args, kwargs)
        return (gradient, value[1]) if both.has_aux else gradient

    def call(self, mode: str) -> FixedCall:
        """The call for ``"value"``, ``"grad"`` or ``"value_and_grad"``; raises where there is no gradient."""
        return _call(self.calls, mode)

    def as_text(self, mode: str = VALUE) -> str:
        """The LLVM IR of its C function (``export_c``)."""
        return str(_native().native_text(self.call(mode), self.call(mode).plain_name).text)

    def memory_analysis(self, mode: str = VALUE) -> MemoryAnalysis:
        """The bytes of a call."""
        fixed = self.call(mode)
        program, graph = fixed.program, fixed.graph
        return MemoryAnalysis(
            sum(v.aval.nbytes for v in graph.inputs),
            sum(x.aval.nbytes for x in graph.outputs),
            program.plan(fixed.canonical.sizes)[1],
            sum(array.nbytes for _, array in graph.consts),
            len(program.object_code.code),
        )

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write a file that ``tracegrad.load`` reads, in any process, without the function's source."""
        _module("archive").save(self, path)

    def export_c(
        self, directory: str | os.PathLike[str], name: str | None = None, mode: str | None = None, cpu: str = "native"
    ) -> Any:
        """Write ``name.h`` and ``name.o`` for C into *directory*; see ``f.export_c``."""
        return _module("c_files").write_c_files(self.call(mode or self._most), directory, name, cpu)

    def as_native(self, mode: str | None = None) -> Any:
        """A C function in this process; see ``f.as_native``."""
        return _native().NativeFunction(self.call(mode or self._most))

    def as_numba(self, mode: str | None = None) -> Any:
        """A function for ``@njit`` code; see ``f.as_numba``."""
        return _module("in_numba").numba_function(self.call(mode or self._most))

    def as_low_level_callable(self, signature: str | None = None, *, mode: str = VALUE, user_data: Any = None) -> Any:
        """``scipy.LowLevelCallable``; see ``f.as_low_level_callable``."""
        return _module("callbacks").low_level_callable(self.call(mode), signature, user_data)

    @property
    def _most(self) -> str:
        return VALUE_AND_GRAD if isinstance(self.calls[VALUE_AND_GRAD], FixedCall) else VALUE

    def __reduce__(self) -> Any:
        archive = _module("archive")
        return archive.unpacked, (archive.packed(self),)

    def __repr__(self) -> str:
        return f"<{self.name} compiled for {_kind(self.calls)}>"


class CompiledForSizes:
    """A function compiled for several sizes, without kernels for Python."""

    def __init__(self, call: SizedCall) -> None:
        self.call = call

    def as_native(self) -> Any:
        return _native().NativeFunction(self.call)

    def as_numba(self) -> Any:
        return _module("in_numba").numba_function(self.call)

    def export_c(self, directory: str | os.PathLike[str], name: str | None, cpu: str) -> Any:
        return _module("c_files").write_c_files(self.call, directory, name, cpu)


def check_mode(mode: str) -> None:
    if mode not in (VALUE, GRAD, VALUE_AND_GRAD):
        raise ValueError(f'mode: "value", "grad" or "value_and_grad", not {mode!r}')


def _call(calls: Calls, mode: str) -> FixedCall:
    check_mode(mode)
    found = calls[VALUE if mode == VALUE else VALUE_AND_GRAD]
    if not isinstance(found, FixedCall):
        raise found
    return found.gradient() if mode == GRAD else found


def _kind(calls: Calls) -> str:
    fixed = next(x for x in calls.values() if isinstance(x, FixedCall))
    return ", ".join([f"{x.name}: {x}" for x in fixed.operands]) or "no data"


def _module(name: str) -> Any:
    """A module of this room, imported when it is asked for: each needs LLVM, or a library that may be missing."""
    return imported_to_stay(f".{name}", __package__)


def _native() -> Any:
    return _module("entry")
