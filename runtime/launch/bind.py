"""Binding a kernel to an exact layout of arguments, as a callable that costs a fraction of a microsecond.

A kernel has the C signature ``int64 kernel(void **bufs, int64 *sizes, void *consts, int64 done)``.  It answers -1 when
all of its guards held, else the index of the first that failed (-2: Python code has raised); steps whose bits are set
in *done* are left out.  Its
buffers are, in this order: inputs, outputs, captured arrays, temporaries.  A scalar's buffer is a slot of eight bytes
that holds the value.

Three data structures:

* The **argument and output records** (``plan.py``): what a call must look like, and what it gives back.
* The :class:`LaunchPlan` (``plan.py``): everything that one binding knows, kept alive with it.
* The **arena**: the one workspace of the process.  Temporaries are offsets into it.  A kernel that lets go of the GIL
  (``pool.py``) is at work in it meanwhile, and a flag says so: calls that find it set take memory of their own.

Start reading at :func:`bind`.  Its result is a builtin whose C function is generic and driven by a table
(``launcher_ir.py``); :func:`call_python` does the same work in Python, more legibly and some fifty times slower, where
:data:`NATIVE` is False.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...codegen.cpu.cpython import builtins_of, fault, immortal
from ...tracer.ir import forks
from ...tracer.ir.aval import is_number
from ..memory import address_of, fresh_memory
from . import launcher_ir as ir
from .plan import Arg, ArrayArg, ArrayOut, ConstArg, LaunchPlan, Out, ScalarArg, run
from .plan import ScalarOut as ScalarOut
from .result_memory import is_large
from .result_tree import Described, Tree, describe
from .tape import Place, Tape, runner


@dataclass(slots=True)
class SharedSteps:
    """Workspace layout of the members of a family, and the steps that are done when another member takes over.

    ``offsets[k]``: of the temporaries of member k, in a workspace of ``nbytes``.  ``done[k][g]``: the bits of the steps
    of the member that follows guard g of member k.
    """

    offsets: list[list[int]]
    nbytes: int
    done: list[list[int]]


class Binding(NamedTuple):
    """The ``__self__`` of a native binding: the launcher's table; *words*, with the address of the member to run first,
    then the members, one for each of *plans*; the *tree* that results are put in, if any.

    It keeps all that these point to alive, by nothing but tuples. The garbage collector never empties a tuple, and a
    finaliser may call a builtin of a cycle that is being taken apart.
    """

    table: bytes
    words: np.ndarray
    plans: tuple[LaunchPlan, ...]
    tree: Described | None = None


# ----------------------------------------------------------------------------------------------------- arena

_ARENA_ALIGN = 64
_ARENA_STEP = 1 << 16

_lock = forks.lock()
_arena: list[np.ndarray] = immortal([])  # one, or none yet
_arena_bytes = 0
_arena_cell = immortal(ctypes.c_int64(0))  # the arena's base address, which every call reads
_arena_busy = immortal(ctypes.c_int64(0))  # whether a call is at work in it


def ensure_arena(nbytes: int) -> int:
    """Make the workspace at least *nbytes* long and return its address (0 while none was ever needed).

    It grows and never shrinks.  The old one is let go, unless a kernel is in the middle of a run.
    """
    global _arena_bytes
    with _lock:
        if nbytes > _arena_bytes:
            size = -(-nbytes // _ARENA_STEP) * _ARENA_STEP
            block = fresh_memory(size + _ARENA_ALIGN)
            start = address_of(block)
            _arena_cell.value = start + -start % _ARENA_ALIGN
            _arena[:] = [*_arena, block] if _arena_busy.value else [block]
            _arena_bytes = size
        return _arena_cell.value


def _fresh_arena() -> None:
    """A forked child does not have the thread that may be at work in the arena."""
    global _arena_bytes
    if _arena_busy.value:
        size, _arena_bytes = _arena_bytes, 0
        ensure_arena(size)
        _arena_busy.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_arena)


# ------------------------------------------------------------------------------------------------------ bind

#: Buffers of one kernel whose table still fits on any thread's stack; :func:`call_python` has no such limit.
MAX_BUFFERS = 1 << 14

_BYTE = np.dtype(np.uint8)
_FAULT = fault()
#: Whether :func:`bind` gives native callables in this process, and why not.
NATIVE: bool = _FAULT is None
NATIVE_REASON: str = _FAULT or "native"

_ACCEPT: dict[type, int] = {float: ir.ACCEPT_FLOAT, np.float64: ir.ACCEPT_NP_FLOAT64, np.float32: ir.ACCEPT_NP_FLOAT32}
_FLOAT_KIND = {np.dtype(np.float64): ir.KIND_FLOAT64, np.dtype(np.float32): ir.KIND_FLOAT32}


def bind(
    kernel_address: int, args: Sequence[Arg], outs: Sequence[Out], extra: Sequence[int] = (),
    temp_offsets: Sequence[int] = (), sizes: np.ndarray | None = None, consts: bytes | np.ndarray = b"",
    keep_alive: Sequence[object] = (), single: bool = False, arena_bytes: int = 0, native: bool = True,
    counts: np.ndarray | None = None, scratch: int = 0,
) -> Callable[..., object]:  # fmt: skip
    """A callable that runs the kernel on arguments of exactly this layout.

    Called (by position only), it returns

    * None when the arguments do not match in number, type, dtype, shape or contiguity: nothing was done;
    * a Python int, the index of the guard that failed: the outputs were dropped;
    * else the tuple of the outputs, or with *single* the only output itself.

    *extra* are addresses of captured arrays, *temp_offsets* bytes into the arena, which is made *arena_bytes* long.
    *sizes* (int64) and *consts* are read where they stand at each call, so an ndarray may be changed in place.
    *keep_alive* is whatever the kernel's code and *extra* live in: objects that the garbage collector does not empty,
    such as ``MachineCode`` and ndarrays, and tuples of them.  *native* is False to get the Python fallback.
    *counts* (int64) has a place for runs in which all guards held, then one for failures of each guard.
    *scratch* bytes of the call's own are a buffer behind the outputs, if there are any.
    """
    owned = (tuple(keep_alive), sizes, consts, counts, *map(_object_of, args), *map(_object_of, outs))
    plan = LaunchPlan(
        kernel_address, tuple(args), tuple(outs), tuple(extra), tuple(temp_offsets), sizes, consts, owned, single,
        counts, scratch, max(arena_bytes, 1) if temp_offsets else 0,
    )  # fmt: skip
    _check(plan, arena_bytes)
    if plan.temp_offsets:
        ensure_arena(max(arena_bytes, 1))
    bound = functools.partial(call_python, plan)
    return natively(bound) if native else bound


def launcher_is_made() -> bool:
    """Whether :func:`bind` gives a native callable at once.  To make the launcher takes longer than many launches do
    without."""
    return _builtin is not None


def natively(bound: Callable[..., object]) -> Callable[..., object]:
    """The native callable for *bound*, which :func:`bind` has given; *bound* itself where there can be none."""
    if not (isinstance(bound, functools.partial) and bound.func is call_python):
        return bound
    (plan,) = bound.args
    builtin = _native_builtin() if NATIVE else None
    buffers = len(plan.args) + len(plan.outs) + len(plan.extra) + len(plan.temp_offsets) + bool(plan.scratch)
    return bound if builtin is None or buffers > MAX_BUFFERS else builtin(_binding((plan,), ()))


#: Members of a family: the launcher notes which of them it has run in the bits of a word.
MAX_FAMILY = 62


def with_tree(call: Callable[..., object], tree: Tree) -> Callable[..., object] | None:
    """The native callable *call* with its results in *tree*; None where it gains nothing by that."""
    binding = getattr(call, "__self__", None)
    builtin = _native_builtin() if NATIVE else None
    if builtin is None or not isinstance(binding, Binding):
        return None
    plan = binding.plans[0]
    if (described := describe(tree, plan.outs)) is None:
        return None
    room = max(len(plan.extra) + len(plan.temp_offsets) for plan in binding.plans)
    return builtin(binding._replace(table=_table(plan, room, address_of(binding.words), described), tree=described))


def bind_family(
    members: Sequence[Callable[..., object]], following: Sequence[Sequence[int]], merged: SharedSteps | None = None
) -> Callable[..., object]:
    """One callable for several that :func:`bind` gave, of the same arguments and results, with the protocol of those.

    The member that answered last runs first. Where guard *g* of member *k* fails, ``following[k][g]`` runs in its
    place, unless it has run in this call or is -1: then the answer is *g*, plus the number of guards (the length of
    ``following``) of all members before *k*.
    """
    tables = [getattr(member, "__self__", None) for member in members]
    builtin = _native_builtin() if NATIVE else None
    plans = [plan for table in tables if isinstance(table, Binding) for plan in table.plans]
    if any((plan.args, plan.outs, plan.single) != (plans[0].args, plans[0].outs, plans[0].single) for plan in plans):
        raise ValueError("the members of a family must have the same arguments and results")
    if len(members) > MAX_FAMILY:
        raise ValueError(f"a family has at most {MAX_FAMILY} members, not {len(members)}")
    if builtin is None or len(plans) != len(members) or len({bool(plan.scratch) for plan in plans}) > 1:
        return functools.partial(call_family, tuple(members), following, [0])
    scratch, space = max(p.scratch for p in plans), max(p.space for p in plans)
    plans = [plan._replace(scratch=scratch, space=space) for plan in plans]
    if merged is None:
        return builtin(_binding(plans, following))
    space = max(merged.nbytes, 1)
    plans = [p._replace(temp_offsets=tuple(o), space=space) for p, o in zip(plans, merged.offsets, strict=True)]
    for plan in plans:
        _check(plan, merged.nbytes)
    ensure_arena(merged.nbytes)
    return builtin(_binding(plans, following, merged.done))


def _check(plan: LaunchPlan, arena_bytes: int) -> None:
    """Raise for arguments that would crash the process, or read memory that is not the kernel's."""
    if not plan.kernel_address:
        raise ValueError("the address of the kernel is null")
    if plan.single and len(plan.outs) != 1:
        raise ValueError(f"single=True is for one output, not {len(plan.outs)}")
    for row in (*plan.args, *plan.outs):
        if not isinstance(row, ConstArg) and not (isinstance(row.dtype, np.dtype) and row.dtype.isnative):
            raise TypeError(f"dtype must be a np.dtype in native byte order, not {row.dtype!r}")
    for arg in plan.args:
        if isinstance(arg, ScalarArg) and (arg.dtype not in _FLOAT_KIND or not _ACCEPT.keys() >= set(arg.accept)):
            raise TypeError(f"a scalar argument is float64 or float32 and accepts {list(_ACCEPT)}, not {arg}")
    for out in plan.outs:
        if not (is_number(out.dtype) or out.dtype.kind == "c"):
            raise TypeError(f"an output of dtype {out.dtype} is not supported")
    for name, numbers in (("counts", plan.counts), ("sizes", plan.sizes)):
        if numbers is not None and (numbers.dtype != np.int64 or not numbers.flags.c_contiguous):
            raise TypeError(f"{name} must be a contiguous array of int64")
    consts = plan.consts
    if isinstance(consts, np.ndarray) and not (consts.dtype.itemsize == 8 and consts.flags.c_contiguous):
        raise TypeError("consts must be bytes or a contiguous array of eight-byte numbers")
    if plan.temp_offsets and not 0 <= min(plan.temp_offsets) <= max(plan.temp_offsets) <= arena_bytes:
        raise ValueError("a temporary lies outside the arena")


# ------------------------------------------------------------------------------------- results in place of arguments


def bind_tape(
    tape: Tape, args: Sequence[Arg], outs: Sequence[Out] = (), extra: Sequence[int] = (),
    keep_alive: Sequence[object] = (), single: bool = False, space: int = 0, native: bool = True,
    counts: np.ndarray | None = None,
) -> Callable[..., object]:  # fmt: skip
    """A callable that carries out *tape* on arguments of exactly this layout, with the protocol of :func:`bind`.

    The tape counts buffers as kernels do: *args* (constants have none), *outs*, *extra*, and last its workspace of
    *space* bytes; if it calls Python, the workspace stands before *extra*.  A failed guard ends it, and then its number
    is the result.  What the tape writes must be marked as ``ArrayArg.written``.
    """
    room = _aligned(space)
    words, total = tape.finish(room), room + tape.largest * 8
    if tape.hosts:
        held, scratch = (*keep_alive, *tape.hosts), total + _ARENA_ALIGN
        return bind(runner(), args, outs, extra, (), None, words, held, single, 0, native, counts, scratch)
    return bind(runner(), args, outs, extra, (0,), None, words, keep_alive, single, total, native, counts)


def bind_steps(
    steps: Sequence[int | Callable[[int], None]], args: Sequence[Arg], outs: Sequence[Out], donated: Mapping[int, int],
    extra: Sequence[int] = (), temp_offsets: Sequence[int] = (), sizes: np.ndarray | None = None,
    consts: bytes | np.ndarray = b"", keep_alive: Sequence[object] = (), single: bool = False, arena_bytes: int = 0,
    native: bool = True, counts: np.ndarray | None = None,
) -> Callable[..., object]:  # fmt: skip
    """As :func:`bind`, but for several *steps* on the same buffers, and result *k* is written into argument
    ``donated[k]`` once all guards have held.

    A step is the address of a kernel, or a callable, which is given the address of the table of buffers.
    What a call returns are the other results.  A donated argument must be an array of the result's dtype and shape;
    where a call is given a read-only one it answers None, as for any argument that does not match.  Donated arguments
    must not overlap each other; what is only read may overlap with them.
    """
    targets = set(donated.values())
    if len(targets) != len(donated):
        raise ValueError(f"two results are donated to one argument: {dict(donated)}")
    rows = [a._replace(written=True) if k in targets and isinstance(a, ArrayArg) else a for k, a in enumerate(args)]
    for k, target in donated.items():
        row = rows[target]
        if not isinstance(row, ArrayArg) or (row.dtype, row.shape) != (outs[k].dtype, getattr(outs[k], "shape", ())):
            raise TypeError(f"result {k}, {outs[k]}, cannot take the place of argument {target}, {args[target]}")
    buffer_of = list(itertools.accumulate((not isinstance(a, ConstArg) for a in rows), initial=0))
    kept = [out for k, out in enumerate(outs) if k not in donated]
    first_out = buffer_of[-1]
    calls_python = any(callable(step) for step in steps)
    first_extra = first_out + len(kept) + calls_python
    workspace = first_out + len(kept) + (0 if calls_python else len(extra))
    places: list[Place] = [(k, 0) for k in range(first_out)]
    copies: list[tuple[Place, Place, int]] = []
    returned, space = itertools.count(first_out), arena_bytes
    for k, out in enumerate(outs):
        if k not in donated:
            places.append((next(returned), 0))
            continue
        nbytes = out.dtype.itemsize * math.prod(rows[donated[k]].shape)  # type: ignore[union-attr]
        places.append((workspace, _aligned(space)))
        space = _aligned(space) + max(nbytes, 8)
        copies.append((places[-1], (buffer_of[donated[k]], 0), nbytes))
    places += [(first_extra + k, 0) for k in range(len(extra))]
    places += [(workspace, offset) for offset in temp_offsets]
    tape = Tape(workspace)
    for step in steps:
        if callable(step):
            tape.host(step, places)
        else:
            tape.call(step, 0 if sizes is None else address_of(sizes), address_of(consts) if len(consts) else 0, places)
    for staged, into, nbytes in copies:
        tape.copy(staged, into, nbytes)
    return bind_tape(tape, rows, kept, extra, (*keep_alive, sizes, consts), single, space, native, counts)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ARENA_ALIGN) * _ARENA_ALIGN


# --------------------------------------------------------------------------------------------- native binding


def _binding(
    plans: Sequence[LaunchPlan], following: Sequence[Sequence[int]], done: Sequence[Sequence[int]] | None = None
) -> Binding:
    """The words that the launcher reads (see ``launcher_ir.py``).  The *plans* differ in their kernels at most."""
    starts = list(itertools.accumulate((_member_words(plan) for plan in plans), initial=1))
    words = np.zeros(starts[-1] + 2 * sum(map(len, following)), np.int64)
    address = {k: address_of(words) + 8 * start for k, start in enumerate(starts[:-1])}
    words[0] = address[0]
    links, base = starts[-1], 0
    for k, plan in enumerate(plans):
        linked = 0
        if following:
            linked = address_of(words) + 8 * links
            end = links + 2 * len(following[k])
            words[links:end:2] = [address.get(target, 0) for target in following[k]]
            words[links + 1 : end : 2] = 0 if done is None else done[k]
            links = end
        sizes, consts, counts = plan.addresses
        words[starts[k] : starts[k + 1]] = (
            plan.kernel_address, sizes, consts, len(plan.extra), len(plan.temp_offsets), counts, base, 1 << k, linked,
            *plan.extra, *plan.temp_offsets,
        )  # fmt: skip
        base += len(following[k]) if following else 0
    room = max(len(plan.extra) + len(plan.temp_offsets) for plan in plans)
    return Binding(_table(plans[0], room, address_of(words)), words, tuple(plans))


def _member_words(plan: LaunchPlan) -> int:
    return len(ir.MEMBER) + len(plan.extra) + len(plan.temp_offsets)


def _object_of(row: Arg | Out) -> object:
    """The object of *row* whose address stands in the table."""
    return row.value if isinstance(row, ConstArg) else row.dtype


def _table(plan: LaunchPlan, room: int, first: int, tree: Described | None = None) -> bytes:
    given, made = len(plan.outs), len(plan.outs) + bool(plan.scratch)
    at, kept = (0, frozenset()) if tree is None else (tree.address, tree.results)
    words = array("q", (len(plan.args), made, given, plan.single, room, first, plan.space, at))
    for arg in plan.args:
        if isinstance(arg, ArrayArg):
            kind = ir.KIND_WRITTEN if arg.written else ir.KIND_ARRAY
            words.extend((kind, id(arg.dtype), len(arg.shape), *arg.shape))
        elif isinstance(arg, ScalarArg):
            words.extend((_FLOAT_KIND[arg.dtype], sum({_ACCEPT[accepted] for accepted in arg.accept})))
        else:
            words.extend((ir.KIND_CONST, id(arg.value)))
    for k, out in enumerate(plan.outs):
        if isinstance(out, ArrayOut):
            large = is_large(math.prod(out.shape) * out.dtype.itemsize)
            kind = ir.KIND_KEPT if k in kept else ir.KIND_LARGE if large else ir.KIND_ARRAY
            words.extend((kind, id(out.dtype), len(out.shape), *out.shape))
        else:
            words.extend((ir.KIND_SCALAR_OUT, id(out.dtype)))
    if plan.scratch:
        words.extend((ir.KIND_ARRAY, id(_BYTE), 1, plan.scratch))
    return words.tobytes()


_builtin: Callable[[Binding], Callable[..., object]] | None = None


def _native_builtin() -> Callable[[Binding], Callable[..., object]] | None:
    """Table -> builtin.  Compiles the launcher at the first call; None where that fails."""
    global _builtin, NATIVE, NATIVE_REASON
    if _builtin is None:
        with _lock:
            if _builtin is None and NATIVE:
                try:
                    address = ir.compile_launcher(ctypes.addressof(_arena_cell), ctypes.addressof(_arena_busy))
                except Exception as error:  # no such target, an LLVM that reads the text otherwise: not worth a crash
                    NATIVE, NATIVE_REASON = False, f"the launcher did not compile: {error}"
                    return None
                doc = b"Run a compiled kernel: outputs, or the index of a failed guard, or None for other arguments."
                _builtin = builtins_of(address, b"call", doc)
    return _builtin


# --------------------------------------------------------------------------------------------- Python binding


def call_family(
    members: Sequence[Callable[..., object]], following: Sequence[Sequence[int]], first: list[int], *values: object
) -> object:
    """One call of a family, as the native launcher does it; ``first[0]`` is the member that answered last."""
    k, tried = first[0], set()
    while True:
        found = members[k](*values)
        if type(found) is not int:
            if found is not None:
                first[0] = k
            return found
        tried.add(k)
        after = following[k][found]
        if after < 0 or after in tried:
            return found + sum(map(len, following[:k]))
        k = after


def call_python(plan: LaunchPlan, *values: object) -> object:
    """One call of a binding, step by step as the native launcher does it."""
    with _lock:  # without a GIL, this keeps the arena to one kernel at a time
        if _arena_busy.value:  # of a kernel that a signal handler has interrupted
            own = fresh_memory(plan.space + _ARENA_ALIGN)
            start = address_of(own)
            return run(plan, values, start + -start % _ARENA_ALIGN)
        _arena_busy.value = 1
        try:
            return run(plan, values, _arena_cell.value)
        finally:
            _arena_busy.value = 0
