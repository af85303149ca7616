"""Recordings of closed logs become plans on disk; and recordings are compared with the plans that have answered before
them.

With a plan stands what the run has read (:mod:`.log_text`).  What has no text is refused, with a code.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...codegen.cpu.program import Program
from ...codegen.cpu.symbols import in_any_process
from ...tracer.ir.digests import blake2b
from ...tracer.ir.primitive import LOOP
from ...tracer.ir.refusals import Refusal
from ...tracer.ir.trees import tree_unflatten
from ..disk.encoding import EncodingError, encode
from ..disk.store import store
from ..launch.binding import argument_records
from ..launch.plan import ArrayOut, ScalarOut
from ..launch.result_tree import Constant, Tree, TreeNode
from ..mode import Mode
from ..record.call_key import ARRAY, FLOAT, OBJECT, SCALAR, VALUE, Call
from ..record.complex_data import array_of, joins_lanes
from ..record.recording import Recording
from ..record.sparse_arrays import csr_array
from .first_call import KIND, Answered, Key, plans_of
from .library_text import NotStoredError
from .log_text import LogText
from .plan_file import StoredPlan, packed
from .reads_text import Reads

_KINDS = frozenset((ARRAY, FLOAT, SCALAR, VALUE, OBJECT))
_MOST_CONSTANTS = 1 << 25  # bytes


def keep(
    fn: Callable[..., Any], mode: Mode, call: Call, recording: Recording, program: Program, answered: Answered
) -> str:  # fmt: skip
    """Put a *recording* of *call* whose log is closed on disk; the reason where that can't be, else ""."""
    try:
        key = Key(fn, mode, *call.arguments)
        for why in _hindrances(call, recording, program):
            raise NotKeptError(why)
        outside = _outside(recording, key)
        answers, recorded = _hashes(recording, outside)
        if answered.get(key.text, {}).get(answers) == recorded:
            return ""
        made = _plan(call, recording, program, outside, key, (answers, recorded))
    except NotStoredError as error:
        return str(Refusal.DISK_KEY(why=error))
    except NotKeptError as error:
        return str(Refusal.DISK_RECORDING(why=error))
    others = [other for other in plans_of(key) if other.answers != made.answers]
    if others:
        store.drop(KIND, key.text)
    store.put(KIND, key.text, packed([made, *others]))
    return ""


def agrees(fn: Callable[..., Any], mode: Mode, call: Call, recording: Recording, answered: Answered) -> bool | None:
    """Whether the *recording* is the same as that of a plan which has *answered* the same call before; None where none
    has, or it has gone another way.  A plan that it differs from is removed."""
    try:
        key = Key(fn, mode, *call.arguments)
        found = answered[key.text]
        outside = _outside(recording, key)
    except (NotStoredError, NotKeptError, KeyError):
        return None
    try:
        answers, program = _hashes(recording, outside)
    except NotKeptError:
        answers, program = next(iter(found)), b""
    if answers not in found:
        return None
    if found[answers] == program:
        return True
    store.drop(KIND, key.text)
    # how much the reverse mode stores of a loop hangs on the free memory: then the program is another, not the result
    return None if any(op.prim.kind == LOOP for op in recording.canonical.ops) else False


def warn_of(name: str) -> None:
    """Warn that the first answers of the function called *name* may have been wrong."""
    warnings.warn(
        f"{name}: its first calls were answered by a recording on disk, and its Python does something else now. The "
        "file is removed. Take those answers for wrong if the function is not one that computes the same each time, "
        "and please report this; TRACEGRAD_CACHE=0 does without files",
        RuntimeWarning,
        stacklevel=2,
    )


class NotKeptError(Exception):
    """Why a recording is none for another process."""


def _plan(
    call: Call, recording: Recording, program: Program, outside: _Outside, key: Key, hashes: tuple[bytes, bytes]
) -> StoredPlan:
    for given, met in ((call.data, key.call.data), (call.objects, key.call.objects)):
        if list(map(id, given)) != list(map(id, met)):
            raise NotKeptError("its arguments are in another order")
    canonical, graph = recording.canonical, recording.graph
    inputs = graph.inputs[: recording.arguments]
    if len(inputs) != len(call.data) + len(outside.arrays):
        raise NotKeptError("it has inputs of another kind")
    kinds = [*map(type, call.data), *outside.kinds]
    args = argument_records(inputs, [None if kind is np.ndarray else kind for kind in kinds])
    shapes = [tuple([int(canonical.sizes[d]) for d in s.dims]) for s in program.results]
    offsets, total = program.plan(canonical.sizes)
    return StoredPlan(
        tuple(args),
        tuple(
            [ArrayOut(s.dtype, n) if n else ScalarOut(s.dtype) for s, n in zip(program.results, shapes, strict=True)]
        ),
        outside.arrays,
        outside.contents,
        tuple([array for _, array in graph.consts]),
        tuple(offsets),
        total,
        canonical.sizes.tobytes(),
        canonical.consts.tobytes(),
        recording.output.single,
        tree_of(recording),
        *program.object_code,
        str(program.step_names[0]),
        *hashes,
        outside.reads,
    )


def _hindrances(call: Call, recording: Recording, program: Program) -> Iterator[str]:
    """Why the recording can't be replayed by its kernel alone, with what a plan on disk knows."""
    if recording.changes or recording.transient is not None:
        yield "it can't be proven that it may be replayed"
    if recording.effects:
        yield "it has effects"
    if recording.draws or recording.drawn is not None:
        yield "it draws random numbers"
    if _positions(recording) is None or recording.derived is not None or recording.numbers:
        yield "it rests on more than its arguments and what it reads"
    if call.device is not None or call.shares or not _KINDS.issuperset(call.kinds):
        yield "arguments of such kinds"
    if not program.address:
        yield "NumPy or Python does some of its steps"
    if not all(map(in_any_process, program.object_code.symbols)):
        yield "its kernel calls what other processes can't find"
    if sum(array.nbytes for _, array in recording.graph.consts) > _MOST_CONSTANTS:
        yield "it has large constants"


def _positions(recording: Recording) -> tuple[bytes, ...] | None:
    """Hashes of what the recording has asked the outside, where guards of the kernel look at all of it; else None."""
    found = tuple([getattr(question, "in_kernel", None) for question in recording.questions])
    return None if None in found else found  # type: ignore[return-value]


# ---- the outside state


@dataclass(frozen=True, slots=True)
class _Outside:
    """The part of a plan that comes from outside: *arrays* and *contents* as in ``StoredPlan``, the *kinds* of the
    former, and what the run has read."""

    arrays: tuple[int, ...]
    kinds: tuple[type, ...]
    contents: tuple[tuple[int, bytes], ...]
    reads: Reads


def _outside(recording: Recording, key: Key) -> _Outside:
    """The outside of a run, as another process can find it again."""
    log = recording.log
    assert log is not None, "it has been used"
    text = LogText(log.graph, key.roots)
    fixed = [node for node in log.graph.nodes if node.kind == "array" and node.fixed]
    return _Outside(
        tuple([text.input(node) for node in log.inputs]),
        tuple([np.ndarray if node.kind == "array" else float for node in log.inputs]),
        tuple([(text.input(node), node.obj.tobytes()) for node in fixed]),
        text.reads,
    )


# ---- the result

_PLAIN = "its result is not made of plain containers and numbers"


def tree_of(recording: Recording, of_classes: bool = False) -> Any:
    """The tree of the user's result, as in ``StoredPlan``; *of_classes*: also of named tuples, plain objects and
    complex numbers: ``("object", (class, (name, ...)), ...)``, ``("complex", lanes, whether Python's number)``."""
    output = recording.output
    if output.text is None:
        return None
    try:
        return _part(output.tree(len(recording.graph.outputs)), of_classes)
    except ValueError:
        raise NotKeptError(_PLAIN) from None


def _part(tree: Tree, of_classes: bool) -> Any:
    if isinstance(tree, int):
        return "r", tree
    if isinstance(tree, Constant):
        return ("tuple",) if type(tree.value) is tuple else ("value", _constant(tree.value))

    def parts(items: Sequence[Tree]) -> list[Any]:
        return [_part(item, of_classes) for item in items]

    if tree.kind is dict:
        return "dict", tuple(map(_constant, tree.keys)), *parts(tree.items)
    if tree.kind in (tuple, list):
        return tree.kind.__name__, *parts(tree.items)
    if tree.kind is tree_unflatten:
        structure, leaves = tree.items
        if isinstance(structure, Constant) and isinstance(leaves, TreeNode):
            return _node(tree_unflatten(structure.value, [_Leaf(part) for part in parts(leaves.items)]))
    cls = tree.cls or (tree.kind if isinstance(tree.kind, type) else None)
    if of_classes:
        if joins_lanes(tree.kind):
            return "complex", *parts(tree.items), tree.kind is not array_of
        if isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return "object", (cls, cls._fields), *parts(tree.items)
        held = [x for x in tree.items[1:] if isinstance(x, TreeNode) and x.kind is dict]
        if tree.cls is not None and len(held) == 2:  # attributes, those in slots
            names = tuple(map(_constant, (*held[0].keys, *held[1].keys)))
            return "object", (cls, names), *parts((*held[0].items, *held[1].items))
    raise NotKeptError(_PLAIN if cls is None else f"its result is of the class {cls.__qualname__}")


class _Leaf:
    """A leaf of the result, which is *part*."""

    def __init__(self, part: Any) -> None:
        self.part = part


def _node(x: Any) -> Any:
    """The part for a node of another class, over leaves."""
    if type(x) is _Leaf:
        return x.part
    if type(x).__module__.startswith("scipy.sparse") and type(x) is csr_array() and type(x.data) is _Leaf:
        return "sparse", x.data.part, tuple(map(int, x.shape)), np.asarray(x.indices), np.asarray(x.indptr)
    raise NotKeptError(f"its result is of the class {type(x).__qualname__}")


def _constant(value: Any) -> Any:
    if not (value is None or type(value) in (bool, int, float, str)):
        raise NotKeptError(_PLAIN)
    return value


# ---- the recording


def _hashes(recording: Recording, outside: _Outside) -> tuple[bytes, bytes]:
    """(what Python was told in the run, the program), hashed: what ``Recording.same_program`` compares."""
    canonical, output = recording.canonical, recording.output
    try:
        answers = encode(
            (
                tuple([(str(kind), answer) for kind, answer in recording.facts]),
                tuple(recording.capacities),
                _positions(recording),
                outside.reads,
                outside.contents,
            )
        )
        program = encode((
            canonical.key, canonical.sizes.tobytes(), canonical.consts.tobytes(),
            tuple([array.tobytes() for _, array in recording.graph.consts]), recording.draws, len(recording.effects),
            output.single, tree_of(recording),
        ))  # fmt: skip
    except (EncodingError, RecursionError) as error:
        raise NotKeptError(f"its program has {error}") from None
    return blake2b(answers, digest_size=32).digest(), blake2b(program, digest_size=32).digest()
