"""A program as one C function that needs nothing of this process: no Python, no table of buffers, no pool of threads.

``int name(const double *x, double c, ..., double *value, double *grad_x)``: pointers to the first element of
C-contiguous arrays, numbers by value, and memory for the results.  Sizes, constants and arrays of the outside are data
beside the code.  It answers 0; k + 1 where guard k has failed; :data:`NO_MEMORY`; :data:`OVERLAP` where a result shares
memory with another parameter; or :data:`NO_SIZE`.  Where it does not answer 0, the results are not to be read.  Its
workspace is on the stack if it is small, else from malloc, so that threads may run it at once.  Start reading at
:func:`entry_text`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...tracer.ir.site import Site
from ..lower.canonical import Canonical
from ..schedule.memory import plan
from .assemble import module_text
from .program_layout import ProgramLayout

NO_MEMORY, OVERLAP, NO_SIZE = -1, -2, -3
ON_STACK = 1 << 15  # bytes of a workspace
_ALIGN = 64
_MOST_DATA = 1 << 26  # bytes of arrays in the code
_OF_PYTHON = re.compile(r'^declare [^\n@]*@"_?Py', re.MULTILINE)
_OF_TABLE = re.compile(r'^define hidden i32 @"([^"]+)"\(', re.MULTILINE)
_LLVM = {"float64": "double", "float32": "float"}


class NotNativeError(Exception):
    """Why there is no such function, in words; *site*: the user's line that is the reason, if one is."""

    def __init__(self, reason: str, site: Site | None = None) -> None:
        super().__init__(reason)
        self.site = site


class EntryText(NamedTuple):
    """LLVM IR of a function, the bytes of its workspace, and modules of *others* that it calls: each is compiled as
    it is for Python, so that bits are the same."""

    text: str
    workspace: int
    others: tuple[str, ...] = ()


class Sized(NamedTuple):
    """A program for *sizes*, with the arrays behind its arguments."""

    sizes: tuple[int, ...]
    canonical: Canonical
    consts: Sequence[np.ndarray]


class _EntryKernel(NamedTuple):
    layout: ProgramLayout
    symbol: str
    text: str


def entry_text(
    canonical: Canonical, numbers: Sequence[bool], consts: Sequence[np.ndarray], name: str, more: str = "",
    unused: Collection[int] = (),
) -> EntryText:  # fmt: skip
    """The function *name* for the sizes and constants of *canonical*.  *numbers*: which of its arguments are given by
    value; *consts*: the arrays behind them; *more*: IR of functions that call it; *unused*: results that have no
    parameter.

    Raises:
        NotNativeError: NumPy does some of its steps, or it has large arrays in it.
    """
    kernel = _kernel(canonical, len(numbers), f"{name}.kernel")
    lines, workspace = _around(kernel, Sized((), canonical, consts), numbers, name, unused)
    return EntryText("\n".join((kernel.text, *_memory(workspace, kernel.text), *lines, more)), workspace)


def table_text(table: Sequence[Sized], numbers: Sequence[bool], name: str, unused: Collection[int] = ()) -> EntryText:
    """The function *name* that is given sizes behind its arguments, and does the program for these; it answers
    :data:`NO_SIZE` where there is none.  Programs that differ in nothing but numbers share a kernel.

    Raises:
        NotNativeError: as :func:`entry_text`.
    """
    kernels: dict[Any, _EntryKernel] = {}
    modules: dict[Any, list[str]] = {}
    most = 0
    for k, row in enumerate(table):
        key = row.canonical.key
        if key not in kernels:
            kernels[key] = _kernel(row.canonical, len(numbers), f"{name}.kernel{len(kernels)}")
            modules[key] = [kernels[key].text, *_memory(ON_STACK + 1, kernels[key].text)]
        lines, workspace = _around(kernels[key], row, numbers, f"{name}.{k}", unused, "hidden ")
        modules[key] += lines
        most = max(most, workspace)
    results = len(next(iter(kernels.values())).layout.results) - len(unused)
    types = [_LLVM[x.dtype.name] if n else "ptr" for x, n in zip(table[0].canonical.inputs, numbers, strict=False)]
    others = tuple(["\n".join(lines) for lines in modules.values()])
    return EntryText("\n".join(_choice(table, types, results, name)), most, others)


def defined_in(text: str) -> list[str]:
    """Names of the functions for one row of sizes in a module of :func:`table_text`."""
    return _OF_TABLE.findall(text)


def _kernel(canonical: Canonical, arguments: int, name: str) -> _EntryKernel:
    layout, steps, text = module_text(canonical, arguments, name)
    if len(steps) != 1 or not isinstance(steps[0], str):
        op = next((layout.canonical.ops[step] for step in steps if isinstance(step, int)), None)
        step, site = (op.prim.name, op.site) if op is not None else ("one of them", None)
        raise NotNativeError(f"NumPy does one of its steps, {step}; compute it outside and pass its result", site)
    if _OF_PYTHON.search(text):
        raise NotNativeError("its code asks the interpreter")
    symbol = f'@"{steps[0]}"'
    return _EntryKernel(layout, symbol, text.replace(f"define i64 {symbol}(", f"define hidden i64 {symbol}("))


def _around(
    kernel: _EntryKernel, program: Sized, numbers: Sequence[bool], name: str, unused: Collection[int],
    linkage: str = "",
) -> tuple[list[str], int]:  # fmt: skip
    """(lines of the function *name* that calls the *kernel* for a *program* of its kind, bytes of the workspace)"""
    _, canonical, consts = program
    if sum(array.nbytes for array in consts) > _MOST_DATA:
        raise NotNativeError(f"more than {_MOST_DATA >> 20} MiB of arrays from outside are in it; make them arguments")
    offsets, workspace = plan(kernel.layout.temporaries, canonical.sizes)
    values = [*canonical.inputs[: len(numbers)], *kernel.layout.results]
    lengths = [x.dtype.itemsize * int(np.prod(canonical.sizes[list(x.dims)], dtype=np.int64)) for x in values]
    spare: dict[int, int] = {}  # unused results are behind the temporaries
    for k in unused:
        spare[k] = -(-workspace // _ALIGN) * _ALIGN
        workspace = spare[k] + lengths[len(numbers) + k]
    lines = [*_data(name, [canonical.sizes, canonical.consts, *consts])]
    lines += _function(
        canonical, numbers, lengths, len(consts), offsets, spare, workspace, name, kernel.symbol, linkage
    )
    return lines, workspace


def _memory(workspace: int, text: str) -> list[str]:
    """Declarations for a *workspace* that *text* lacks."""
    declared = ("ptr @malloc(i64)", "void @free(ptr)") if workspace > ON_STACK else ()
    return [f"declare {d}" for d in declared if f'@"{_called(d)}"(' not in text]


def _choice(table: Sequence[Sized], types: Sequence[str], results: int, name: str) -> Iterator[str]:
    """The lines of the function that calls the one for its sizes."""
    count = len(table[0].sizes)
    given = [*types, *["ptr"] * results]
    names = [f"%x{k}" for k in range(len(given))]
    operands = [f"{kind} {x}" for kind, x in zip(given, names, strict=True)]
    yield from [f'declare i32 @"{name}.{k}"({", ".join(given)})' for k in range(len(table))]
    parameters = [*operands[: len(types)], *[f"i64 %n{k}" for k in range(count)], *operands[len(types) :]]
    yield f'define i32 @"{name}"({", ".join(parameters)}) nounwind {{'
    places = {row.sizes: k for k, row in enumerate(table)}
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        known = waiting.pop(0)
        if known:
            yield f"at.{'.'.join(map(str, known))}:"
        if len(known) == count:
            yield f'  %s{places[known]} = call i32 @"{name}.{places[known]}"({", ".join(operands)})'
            yield f"  ret i32 %s{places[known]}"
            continue
        following = dict.fromkeys(s[: len(known) + 1] for s in places if s[: len(known)] == known)
        cases = " ".join([f"i64 {s[-1]}, label %at.{'.'.join(map(str, s))}" for s in following])
        yield f"  switch i64 %n{len(known)}, label %none [ {cases} ]"
        waiting += following
    yield "none:"
    yield f"  ret i32 {NO_SIZE}"
    yield "}"


def _called(declaration: str) -> str:
    return declaration.split("@")[1].split("(")[0]


def _data(name: str, arrays: Iterable[np.ndarray]) -> Iterator[str]:
    for k, array in enumerate(arrays):
        content = array.tobytes() or bytes(8)
        text = "\\" + content.hex("\\")
        yield f'@"{name}.data{k}" = internal constant [{len(content)} x i8] c"{text}", align {_ALIGN}'


def _function(
    canonical: Canonical, numbers: Sequence[bool], lengths: Sequence[int], consts: int, offsets: Sequence[int],
    spare: Mapping[int, int], workspace: int, name: str, kernel: str,
    linkage: str = "",
) -> Iterator[str]:  # fmt: skip
    """The lines of the function, which fills the table of buffers of the *kernel* and calls it.  *lengths*: bytes of
    the arguments and the results; *spare*: places of results that have no parameter."""
    results = range(len(lengths) - len(numbers))
    types = [_LLVM[x.dtype.name] if n else "ptr" for x, n in zip(canonical.inputs, numbers, strict=False)]
    given = [f"{kind} %a{k}" for k, kind in enumerate(types)] + [f"ptr %r{k}" for k in results if k not in spare]
    buffers = [f"%s{k}" if number else f"%a{k}" for k, number in enumerate(numbers)]
    buffers += [f"%r{k}" for k in results]
    buffers += [f'@"{name}.data{k + 2}"' for k in range(consts)]
    buffers += [f"%t{k}" for k in range(len(offsets))]
    in_memory = workspace > ON_STACK
    yield f'define {linkage}i32 @"{name}"({", ".join(given)}) nounwind {{'
    yield f"  %table = alloca [{len(buffers) + 1} x ptr], align 16"
    for k, number in enumerate(numbers):
        if number:
            yield f"  %s{k} = alloca [2 x i64], align 16"
            yield f"  store {types[k]} %a{k}, ptr %s{k}"
    lengths = [0 if k - len(numbers) in spare else n for k, n in enumerate(lengths)]
    shared = [*_overlaps(numbers, lengths)]
    if shared:
        yield from shared
        yield "  br i1 %shared, label %overlap, label %apart"
        yield "overlap:"
        yield f"  ret i32 {OVERLAP}"
        yield "apart:"
    if in_memory:
        yield f"  %memory = call ptr @malloc(i64 {workspace + _ALIGN})"
        yield "  %none = icmp eq ptr %memory, null"
        yield "  br i1 %none, label %no.memory, label %run"
        yield "no.memory:"
        yield f"  ret i32 {NO_MEMORY}"
        yield "run:"
        yield "  %start = ptrtoint ptr %memory to i64"
        yield f"  %up = add i64 %start, {_ALIGN - 1}"
        yield f"  %aligned = and i64 %up, {-_ALIGN}"
        yield "  %work = inttoptr i64 %aligned to ptr"
    elif offsets or spare:
        yield f"  %work = alloca [{max(workspace, 1)} x i8], align {_ALIGN}"
    for k, offset in spare.items():
        yield f"  %r{k} = getelementptr i8, ptr %work, i64 {offset}"
    for k, offset in enumerate(offsets):
        yield f"  %t{k} = getelementptr i8, ptr %work, i64 {offset}"
    for k, buffer in enumerate(buffers):
        yield f"  %p{k} = getelementptr ptr, ptr %table, i64 {k}"
        yield f"  store ptr {buffer}, ptr %p{k}"
    # as a call of its own: what is known here of sizes must not change how the kernel is compiled, and so its bits
    yield f'  %answer = call i64 {kernel}(ptr %table, ptr @"{name}.data0", ptr @"{name}.data1", i64 0) noinline'
    if in_memory:
        yield "  call void @free(ptr %memory)"
    yield "  %status = add i64 %answer, 1"
    yield "  %small = trunc i64 %status to i32"
    yield "  ret i32 %small"
    yield "}"


def _overlaps(numbers: Sequence[bool], lengths: Sequence[int]) -> Iterator[str]:
    """Lines that set ``%shared`` where a result shares memory with another parameter; none where there is but one."""
    arrays = [(f"%a{k}", n, False) for k, n in enumerate(lengths[: len(numbers)]) if not numbers[k] and n]
    arrays += [(f"%r{k}", n, True) for k, n in enumerate(lengths[len(numbers) :]) if n]
    for k, (pointer, length, _) in enumerate(arrays):
        yield f"  %from{k} = ptrtoint ptr {pointer} to i64"
        yield f"  %to{k} = add i64 %from{k}, {length}"
    found = "false"
    pairs = [(i, j) for j, (_, _, written) in enumerate(arrays) if written for i in range(j)]
    for count, (i, j) in enumerate(pairs):
        yield f"  %low{count} = icmp ult i64 %from{i}, %to{j}"
        yield f"  %high{count} = icmp ult i64 %from{j}, %to{i}"
        yield f"  %both{count} = and i1 %low{count}, %high{count}"
        here = "%shared" if count == len(pairs) - 1 else f"%any{count}"
        yield f"  {here} = or i1 {found}, %both{count}"
        found = here
    if not pairs:
        yield "  %shared = or i1 false, false"
