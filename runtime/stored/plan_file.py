"""Plans on disk: a recording's kernel, bound, as bytes, and how the first call of a process runs it.

A plan has the kernel's object code and all that ``launch/plan.py`` needs to call it: what the operands must look like,
which arrays of the outside are operands, constants, sizes, places of temporaries, and the tree of the user's result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from types import MemberDescriptorType
from typing import Any

import numpy as np

from ...codegen.cpu.machine_code import MachineCode, ObjectCode
from ..disk.encoding import decode, encode
from ..launch.plan import Arg, ArrayArg, ArrayOut, LaunchPlan, Out, ScalarArg, ScalarOut, run
from ..memory import address_of, fresh_memory
from ..record.sparse_arrays import csr_array, over

_SCALARS: dict[str, type] = {"float": float, "float64": np.float64, "float32": np.float32}
_SCALAR_NAMES = {kind: name for name, kind in _SCALARS.items()}
_RECORDS: dict[str, Any] = {kind.__name__: kind for kind in (ArrayArg, ScalarArg, ArrayOut, ScalarOut)}
_ALIGN = 64
MOST_PLANS = 16  # in one file


def packed(plans: Sequence[StoredPlan]) -> bytes:
    """The content of a file: the plans of one kind of call, for several ways through its branches."""
    return encode(tuple([plan.parts() for plan in plans[:MOST_PLANS]]))


def unpacked(content: bytes | memoryview | None) -> list[StoredPlan]:
    """The plans in a file.

    Raises:
        EncodingError, ValueError, TypeError, KeyError: it was not made by :func:`packed`.
    """
    return [] if content is None else [StoredPlan.of(*parts) for parts in decode(content)]


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """*arrays*: the operands after the arguments, as positions among those outside; *contents*: bytes of such
    arrays that have to be there.  *symbol*: the kernel in its *code*, which wants addresses for *symbols*.  *tree* is
    the user's result over those of the kernel: ``("r", k)``, ``("value", x)``,
    or ``("tuple", ...)``, ``("list", ...)``, ``("dict", (key, ...), ...)`` of such, or ``("sparse", entries, shape,
    indices, indptr)``; None: they are the result.
    *reads*: what a logged run has read (``reads_text.py``).
    *answers* and *program* are hashes of what a recording that is the same has to have (``keep.py``).  *loaded*: the
    code in memory."""

    args: tuple[Arg, ...]
    outs: tuple[Out, ...]
    arrays: tuple[int, ...]
    contents: tuple[tuple[int, bytes], ...]
    constants: tuple[np.ndarray, ...]  # buffers of the kernel's
    temp_offsets: tuple[int, ...]
    arena_bytes: int
    sizes: bytes
    consts: bytes
    single: bool
    tree: Any
    code: bytes
    symbols: tuple[str, ...]
    symbol: str
    answers: bytes
    program: bytes
    reads: Any = None
    loaded: list[MachineCode] = field(default_factory=list, init=False)

    def parts(self) -> tuple[Any, ...]:
        """The plan as plain values."""
        others = [getattr(self, part.name) for part in fields(self)[2:] if part.init]
        return (*[tuple(map(_text_of, records)) for records in (self.args, self.outs)], *others)

    @staticmethod
    def of(args: Any, outs: Any, *rest: Any) -> StoredPlan:
        """The plan that has these :meth:`parts`.

        Raises:
            ValueError, TypeError, KeyError: there is none.
        """
        return StoredPlan(tuple([_record_of(*a) for a in args]), tuple([_record_of(*o) for o in outs]), *rest)

    def answer(self, data: list[Any], found: list[np.ndarray]) -> tuple[Any, ...] | None:
        """The user's result, as the only element of a tuple, for the *data* among a call's arguments and the arrays
        *found* outside; None where a guard fails: Python has to run.

        Raises UnknownSymbolError where this process lacks something that the kernel calls."""
        if any(found[k].tobytes() != content for k, content in self.contents):
            return None
        values = [_normal(x) for x in (*data, *[found[k] for k in self.arrays])]
        if not self.loaded:
            self.loaded.append(ObjectCode(self.code, self.symbols).load())
        code = self.loaded[0]
        address = code.address(self.symbol)
        if not address:
            return None
        sizes = np.frombuffer(self.sizes, np.int64)
        workspace = _workspace(self.arena_bytes + _ALIGN)
        start = address_of(workspace)
        extra = tuple([address_of(a) for a in self.constants])
        plan = LaunchPlan(
            address, self.args, self.outs, extra, self.temp_offsets, sizes, self.consts, (code,),
            False, None, 0,
        )  # fmt: skip
        results = run(plan, values, start + -start % _ALIGN)
        _spare[:] = [workspace]
        if type(results) is not tuple:
            return None
        if self.tree is None:
            return (results[0] if self.single else results,)
        return (built(self.tree, results),)


_spare: list[np.ndarray] = []  # a workspace that no call is using


def _workspace(nbytes: int) -> np.ndarray:
    try:
        found = _spare.pop()
    except IndexError:
        return fresh_memory(nbytes)
    return found if found.nbytes >= nbytes else fresh_memory(nbytes)


def _normal(x: Any) -> Any:
    """*x* as a kernel takes it: an array C-contiguous and aligned."""
    if type(x) is np.ndarray and not (x.flags.c_contiguous and x.flags.aligned):
        return np.array(x, order="C")
    return x


def built(tree: Any, results: tuple[Any, ...]) -> Any:
    kind, *parts = tree
    if kind == "r":
        return results[parts[0]]
    if kind == "value":
        return parts[0]
    if kind == "dict":
        keys, *parts = parts
        return dict(zip(keys, [built(part, results) for part in parts], strict=True))
    if kind == "sparse":
        data, shape, indices, indptr = parts
        return over(csr_array(), shape, indices, indptr, built(data, results))
    if kind == "complex":
        lanes, is_number = built(parts[0], results), parts[1]
        if is_number:
            return complex(*lanes.tolist())
        return lanes.view(np.complex128 if lanes.dtype.itemsize == 8 else np.complex64)[..., 0][()]
    if kind == "object":
        (cls, names), *parts = parts
        return _object(cls, names, [built(part, results) for part in parts])
    made = [built(part, results) for part in parts]
    return made if kind == "list" else tuple(made)


def _object(cls: Any, names: tuple[str, ...], values: list[Any]) -> Any:
    """A named tuple, or a plain object with these attributes."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, values)
    made = object.__new__(cls)
    for name, value in zip(names, values, strict=True):
        if isinstance(getattr(cls, name, None), MemberDescriptorType):
            object.__setattr__(made, name, value)
        else:
            made.__dict__[name] = value
    return made


def _text_of(record: Arg | Out) -> tuple[Any, ...]:
    """The record of an operand or a result as plain values."""
    if isinstance(record, ScalarArg):
        return "ScalarArg", record.dtype, tuple([_SCALAR_NAMES[kind] for kind in record.accept])
    return type(record).__name__, *record


def _record_of(name: str, *values: Any) -> Any:
    """The record that is these values."""
    found = _RECORDS[name](*values)
    return ScalarArg(found.dtype, tuple([_SCALARS[kind] for kind in found.accept])) if name == "ScalarArg" else found
