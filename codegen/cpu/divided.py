"""Work of a kernel that several threads do, chunk by chunk: loop nests, batches of matrices, loops without carries.

What can be divided is a function of a range: rows of a nest's outermost loop (``schedule/division.py``), matrices of a
batch, steps of a loop.  Where there is little work, which sizes decide, the kernel's entry calls it once.  Else it
hands the pool (``pool_calls.py``) a function of the number of a chunk, which calls it
with the chunk's range: what is added up goes to a place of the chunk's own, temporaries to one of the thread's.  Then
the entry puts the totals together, chunk by chunk.  Start reading at ``DividedWork.emit``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import llvmlite.ir as ir
import numpy as np

from ...tracer.ir.aval import FLOAT_KINDS
from ..lower.canonical import Dim, Sym
from ..schedule.division import Division, kept_dims
from ..schedule.loop_tree import Statement
from ..schedule.memory import ALIGN
from ..schedule.tiles import TILE
from .buffer_table import BufferTable
from .hints import SCALAR, SIMPLE
from .loop_values import Frame
from .pool_calls import RUN
from .reductions import CHUNK, combined, compensated, corrected
from .scalar import (
    I8,
    I64,
    PTR,
    cell,
    constant,
    counting,
    declare,
    from_memory,
    least,
    memory_type,
    outside,
    ranging,
    register_type,
    to_memory,
    unique_name,
)

CHUNK_WORK = 2_000_000  # flops, about, of a chunk: 20 to 60 us
FEWEST_CHUNKS = 4  # a thread that sleeps may take 100 us until it runs
MOST_CHUNKS = 64
PARTS = 16  # flops of a chunk for each element that it adds up in memory


@dataclass(frozen=True, slots=True)
class Own:
    """A buffer of which each chunk or thread has its own: an array of these dims; *sym*: whose it is."""

    sym: Sym
    dims: Sequence[Dim]
    itemsize: int


class DividedWork:
    """Work on the range of ``n`` items, by ``function``."""

    n: ir.Value
    function: ir.Function
    totals: Sequence[Own] = ()  # one of them for each chunk
    private: Sequence[Own] = ()  # for each thread

    def __init__(self, b: ir.IRBuilder, entry: ir.IRBuilder, known: dict[str, ir.Function]):
        """*known*: the functions of one chunk so far, by what they are like."""
        self.b, self.entry, self.known = b, entry, known

    def count(self, dims: Sequence[Dim]) -> ir.Value:
        """The number of elements along *dims*."""
        raise NotImplementedError

    def work(self) -> ir.Value:
        """Flops, about, of all of it."""
        raise NotImplementedError

    def least_work(self) -> ir.Value:
        """The work that is worth a chunk."""
        return I64(CHUNK_WORK)

    def call(self, b: ir.IRBuilder, low: ir.Value, high: ir.Value) -> None:
        """Call the function on a range."""
        raise NotImplementedError

    def words(self, totals: dict[Sym, ir.Value], private: dict[Sym, ir.Value]) -> list[ir.Value]:
        """The words that a chunk is told, given the places of the first chunk's *totals* and the first thread's
        *private* buffers."""
        raise NotImplementedError

    def chunk(
        self, b: ir.IRBuilder, words: list[ir.Value], low: ir.Value, high: ir.Value, total: ir.Value, own: ir.Value
    ) -> None:
        """Call the function on a chunk's range, for these *words*; places of totals are *total* bytes further, those of
        private buffers *own* bytes."""
        raise NotImplementedError

    def likeness(self) -> str:
        """Two with the same text here have the same function of one chunk."""
        raise NotImplementedError

    def put_together(self, parts: dict[Sym, ir.Value], chunks: ir.Value, stride: ir.Value) -> None:
        """Store the totals of *parts*, which are *stride* bytes from one chunk to the next."""

    def emit(self, apart: Callable[[], None] | None = None) -> None:
        """Write the work here. *apart* writes what :meth:`several` does as a function of its own, and calls it."""
        b = self.b
        with b.if_else(b.icmp_signed(">=", self._wanted(), I64(FEWEST_CHUNKS)), likely=False) as (several, one):
            with several:
                (apart or self.several)()
            with one:
                self.call(b, I64(0), self.n)

    def _wanted(self) -> ir.Value:
        """About how many chunks there are to be, by the sizes."""
        b = self.b
        return least(b, least(b, b.udiv(self.work(), self.least_work()), I64(MOST_CHUNKS)), self.n)

    def several(self) -> None:
        """Run chunks of equal length, but for the last, and put their totals together."""
        b = self.b
        rows = self._quotient(self.n, self._wanted())
        rows = b.select(b.icmp_signed(">=", rows, I64(CHUNK)), self._multiple(rows, CHUNK), rows)
        chunks = self._quotient(self.n, rows)
        threads = b.load(outside(b.module, "pool:threads"), typ=I64)
        stride, places = self._places(self.totals)
        own, own_places = self._places(self.private)
        if not (places or own_places):
            self._run(self.words({}, {}), rows, chunks, threads, stride, own)
            return
        parts = b.mul(chunks, stride)
        nbytes = b.add(b.add(parts, b.mul(threads, own)), I64(ALIGN))
        memory = b.call(declare(b.module, "malloc", PTR, I64), [nbytes])
        with b.if_else(b.icmp_unsigned("==", memory, ir.Constant(PTR, None)), likely=False) as (none, some):
            with none:
                self.call(b, I64(0), self.n)
            with some:
                start = self._multiple(b.ptrtoint(memory, I64), ALIGN)
                own_start = b.add(start, parts)
                totals = {x: b.inttoptr(b.add(start, place), PTR) for x, place in places.items()}
                private = {x: b.inttoptr(b.add(own_start, place), PTR) for x, place in own_places.items()}
                self._run(self.words(totals, private), rows, chunks, threads, stride, own, memory)
                self.put_together(totals, chunks, stride)
                self._free(memory)

    def _quotient(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """x / y, rounded up."""
        b = self.b
        return b.udiv(b.sub(b.add(x, y), I64(1)), y)

    def _multiple(self, x: ir.Value, of: int) -> ir.Value:
        """x, rounded up to a multiple of a power of two."""
        return self.b.and_(self.b.add(x, I64(of - 1)), I64(-of))

    def _places(self, buffers: Sequence[Own]) -> tuple[ir.Value, dict[Sym, ir.Value]]:
        """(bytes of all, the offset of each)"""
        b, offset = self.b, I64(0)
        places: dict[Sym, ir.Value] = {}
        for x in buffers:
            places[x.sym] = offset
            nbytes = b.mul(self.count(x.dims), I64(x.itemsize))
            offset = b.add(offset, self._multiple(nbytes, ALIGN))
        return offset, places

    def _run(
        self, words: list[ir.Value], rows: ir.Value, chunks: ir.Value, threads: ir.Value, stride: ir.Value,
        own: ir.Value, memory: ir.Value | None = None,
    ) -> None:  # fmt: skip
        """Let the pool run the chunks; return from the kernel where a signal handler has raised."""
        b = self.b
        words = [self.n, rows, stride, own, *words]
        context = self.entry.alloca(I64, len(words))
        context.type = PTR
        for k, word in enumerate(words):
            b.store(word, b.gep(context, [I64(k)], inbounds=True, source_etype=I64))
        run = declare(b.module, RUN, I64, PTR, PTR, I64, I64)
        answer = b.call(run, [self._chunk_function([word.type for word in words]), context, chunks, threads])
        with b.if_then(b.icmp_signed("!=", answer, I64(-1)), likely=False):
            if memory is not None:
                self._free(memory)
            b.ret(answer)

    def _free(self, memory: ir.Value) -> None:
        self.b.call(declare(self.b.module, "free", ir.VoidType(), PTR), [memory])

    def _chunk_function(self, words: list[ir.Type]) -> ir.Function:
        """``chunk(context, number of the chunk, number of the thread)``"""
        module, key = self.b.module, self.likeness()
        if key in self.known:
            return self.known[key]
        name = unique_name(module, f"{self.function.name}_chunk")
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, I64, I64]), name)
        function.linkage = "internal"
        once_in_a_chunk(function)
        context, number, thread = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        n, rows, stride, own, *rest = [
            b.load(b.gep(context, [I64(k)], inbounds=True, source_etype=I64), typ=kind) for k, kind in enumerate(words)
        ]
        low = b.mul(number, rows)
        self.chunk(b, rest, low, least(b, b.add(low, rows), n), b.mul(number, stride), b.mul(thread, own))
        b.ret_void()
        self.known[key] = function
        return function


class _InFrame(DividedWork):
    """Work at the builder of a *frame*."""

    def __init__(self, frame: Frame, known: dict[str, ir.Function]):
        super().__init__(frame.b, frame.entry, known)
        self.numbers = frame.numbers

    def count(self, dims: Sequence[Dim]) -> ir.Value:
        return self.numbers.count(self.b, dims)


class DividedNest(_InFrame):
    """The call of a nest: *function* takes *pointers* of the buffers *used*, a range, and the *given* numbers."""

    def __init__(
        self, frame: Frame, known: dict[str, ir.Function], division: Division, function: ir.Function, used: list[Sym],
        pointers: list[ir.Value], given: list[ir.Value],
    ):  # fmt: skip
        super().__init__(frame, known)
        self.division, self.function = division, function
        self.used, self.pointers, self.given = used, pointers, given
        self.n = self.numbers.size(division.loop.dim)
        schedule = frame.schedule
        self.totals = [Own(s.out, kept_dims(s), s.out.dtype.itemsize) for s in division.totals]
        self.private = [
            Own(x, schedule.kept_axes(x), x.dtype.itemsize * (TILE if x in schedule.tiled else 1))
            for x in division.private
        ]

    def work(self) -> ir.Value:
        b, found = self.b, self.division.work
        terms = [b.mul(I64(cost), self.numbers.count(b, dims), flags=("nsw",)) for dims, cost in found.items()]
        return reduce(b.add, terms)

    def least_work(self) -> ir.Value:
        b = self.b
        in_memory = [b.mul(I64(PARTS), self.count(x.dims)) for x in self.totals if x.dims]
        return reduce(b.add, in_memory, I64(CHUNK_WORK))

    def call(self, b: ir.IRBuilder, low: ir.Value, high: ir.Value) -> None:
        b.call(self.function, [*self.pointers, low, high, *self.given])

    def words(self, totals: dict[Sym, ir.Value], private: dict[Sym, ir.Value]) -> list[ir.Value]:
        places = {**totals, **private}
        return [*[places.get(x, p) for x, p in zip(self.used, self.pointers, strict=True)], *self.given]

    def chunk(
        self, b: ir.IRBuilder, words: list[ir.Value], low: ir.Value, high: ir.Value, total: ir.Value, own: ir.Value
    ) -> None:
        pointers, given = words[: len(self.used)], words[len(self.used) :]
        for k, role in enumerate(self._roles()):
            if role:
                pointers[k] = b.gep(pointers[k], [total if role == "t" else own], source_etype=I8)
        b.call(self.function, [*pointers, low, high, *given])

    def likeness(self) -> str:
        return f"{self.function.name}:{self._roles()}"

    def _roles(self) -> list[str]:
        """For each buffer: t, each chunk has its own; p, each thread has."""
        totals, private = [x.sym for x in self.totals], [x.sym for x in self.private]
        return ["t" if x in totals else "p" if x in private else "" for x in self.used]

    def put_together(self, parts: dict[Sym, ir.Value], chunks: ir.Value, stride: ir.Value) -> None:
        for s in self.division.totals:
            self._total(s, parts[s.out], chunks, stride)

    def _total(self, s: Statement, parts: ir.Value, chunks: ir.Value, stride: ir.Value) -> None:
        """Store the total of the *parts*, in the order of the chunks."""
        function = total_function(self.b.module, s.op.prim.name, s.out.dtype, bool(kept_dims(s)))
        out, count = self.pointers[self.used.index(s.out)], self.numbers.count(self.b, kept_dims(s))
        self.b.call(function, [parts, stride, chunks, out, count])


class DividedPart(_InFrame):
    """A part of the kernel as a function of its table of buffers, sizes, constants, and a range."""

    def __init__(
        self, frame: Frame, known: dict[str, ir.Function], bufs: ir.Value, positions: Mapping[Sym, int],
        function: ir.Function, n: ir.Value, work: ir.Value, private: Sequence[Own] = (),
    ):  # fmt: skip
        """*bufs*: the kernel's table of buffers, in which a value's *position* is known."""
        super().__init__(frame, known)
        self.positions, self.function, self.n, self._work, self.private = positions, function, n, work, private
        self._args = [bufs, frame.sizes, frame.consts]

    def work(self) -> ir.Value:
        return self._work

    def call(self, b: ir.IRBuilder, low: ir.Value, high: ir.Value) -> None:
        b.call(self.function, [*self._args, low, high])

    def words(self, totals: dict[Sym, ir.Value], private: dict[Sym, ir.Value]) -> list[ir.Value]:
        return [*self._args, *[private[x.sym] for x in self.private]]

    def chunk(
        self, b: ir.IRBuilder, words: list[ir.Value], low: ir.Value, high: ir.Value, total: ir.Value, own: ir.Value
    ) -> None:
        bufs, sizes, consts, *places = words
        if places:  # a table with buffers of the thread's own
            count = len(self.positions)
            table = b.alloca(PTR, count)
            table.type = PTR
            for k in range(count):
                source = b.gep(bufs, [I64(k)], source_etype=PTR)
                b.store(b.load(source, typ=PTR), b.gep(table, [I64(k)], source_etype=PTR))
            for x, place in zip(self.private, places, strict=True):
                mine = b.gep(place, [own], source_etype=I8)
                b.store(mine, b.gep(table, [I64(self.positions[x.sym])], source_etype=PTR))
            bufs = table
        b.call(self.function, [bufs, sizes, consts, low, high])

    def likeness(self) -> str:
        return self.function.name


@dataclass(frozen=True, slots=True)
class KernelTable:
    """The kernel's table of buffers in its entry function; *frame*: that of another function with the same first three
    arguments, and what ends it."""

    buffers: BufferTable
    frame: Callable[[ir.Function], tuple[Frame, Callable[[], None]]]

    def part(self, module: ir.Module, name: str, emit: Callable[[Frame, ir.Value, ir.Value], None]) -> ir.Function:
        """A function of a range, whose body *emit* writes."""
        kind = ir.FunctionType(ir.VoidType(), [PTR, PTR, PTR, I64, I64])
        function = ir.Function(module, kind, unique_name(module, name))
        function.linkage = "internal"
        function.attributes.add("nounwind")
        function.attributes.add("noinline")
        frame, end = self.frame(function)
        emit(frame, *function.args[3:])
        frame.b.ret_void()
        end()
        return function


def once_in_a_chunk(function: ir.Function) -> None:
    """Let LLVM spend no time on *function*, which runs once in a chunk's 20 us."""
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    function.attributes.add("optnone")


def total_function(module: ir.Module, name: str, dtype: np.dtype, many: bool) -> ir.Function:
    """``(parts, stride, chunks, out, count)``: the reduction called *name* of *count* elements of *dtype* in each
    chunk, which are *stride* bytes from one to the next; not *many*: of one element, where what rounding takes from
    sums is added up.

    One element of at most 64 chunks is not worth LLVM's time, which once took 40 ms to make vectors of it.
    """
    symbol = f"tg_total_{name}_{dtype.char}_{int(many)}"
    function = declare(module, symbol, ir.VoidType(), PTR, I64, I64, PTR, I64)
    if not function.is_declaration:
        return function
    function.linkage = "internal"
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    if not many:
        once_in_a_chunk(function)
    parts, stride, chunks, out, count = function.args
    parts.add_attribute("noalias")
    out.add_attribute("noalias")
    entry, b = ir.IRBuilder(function.append_basic_block("entry")), ir.IRBuilder(function.append_basic_block("start"))
    kind = memory_type(dtype)

    def part(chunk: ir.Value, place: ir.Value) -> ir.Value:
        base = b.gep(parts, [b.mul(chunk, stride)], source_etype=I8)
        return from_memory(b, b.load(b.gep(base, [place], source_etype=kind), typ=kind), dtype)

    if not many:
        value = _total_of_one(entry, b, name, dtype, chunks, lambda chunk: part(chunk, I64(0)))
        b.store(to_memory(b, value, dtype), out)
    else:
        with counting(b, count, SIMPLE) as e:
            b.store(to_memory(b, part(I64(0), e), dtype), b.gep(out, [e], source_etype=kind))
        with ranging(b, I64(1), chunks, I64(1)) as chunk, counting(b, count, SIMPLE) as e:
            at = b.gep(out, [e], source_etype=kind)
            before = from_memory(b, b.load(at, typ=kind), dtype)
            b.store(to_memory(b, combined(b, name, dtype, before, part(chunk, e)), dtype), at)
    b.ret_void()
    entry.branch(b.function.blocks[1])
    return function


def _total_of_one(
    entry: ir.IRBuilder, b: ir.IRBuilder, name: str, dtype: np.dtype, chunks: ir.Value,
    part: Callable[[ir.Value], ir.Value],
) -> ir.Value:  # fmt: skip
    """The total of one element of each chunk."""
    held = register_type(dtype)
    if name != "reduce_sum" or dtype.kind not in FLOAT_KINDS:
        total = cell(entry, b, part(I64(0)))
        with ranging(b, I64(1), chunks, I64(1)) as chunk:
            b.store(combined(b, name, dtype, b.load(total, typ=held), part(chunk)), total)
        return b.load(total, typ=held)
    total, lost = [cell(entry, b, constant(dtype, 0)) for _ in range(2)]
    with counting(b, chunks, SCALAR) as chunk:
        after = compensated(b, b.load(total, typ=held), part(chunk), b.load(lost, typ=held))
        b.store(after[0], total)
        b.store(after[1], lost)
    return corrected(b, dtype, b.load(total, typ=held), b.load(lost, typ=held))
