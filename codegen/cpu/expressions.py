"""One element of a value, as LLVM IR at the current place in a loop nest.

``ValueEmitter.value`` is where to start: the element of a value at a position, which is loaded where the value is
stored and computed in place where it is not.  A position is a tuple of index expressions (``affine.py``); a *mask* is
the conditions under which it is asked for at all.  Code that does not depend on a loop goes in front of it: there is a
builder for the home of each loop, and a scope of values at hand for each home and each body.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from math import prod
from typing import Any

import llvmlite.ir as ir

from ...tracer.ir.aval import FLOAT_KINDS
from ...tracer.ir.primitive import ELEMENTWISE
from ...tracer.ops.special import UfuncOutput
from ..lower.canonical import ONE, Canonical, Const, Dim, Operand, Sym
from ..schedule.affine import Index, depends_on
from ..schedule.index_maps import Alternative, Condition, Indices, known, read
from ..schedule.loop_tree import PartWindow, ResultRun, Schedule
from ..schedule.tiles import TILE
from .scalar import I1, I8, I64, PTR, Scalars, constant, from_memory, lower, memory_type, register_type, to_memory


class Numbers:
    """This run's sizes and constants, read once in a function's entry block."""

    def __init__(self, program: Canonical, entry: ir.IRBuilder, sizes: ir.Value, consts: ir.Value):
        self.static, self.entry = program.static, entry
        self._sizes_ptr, self._consts_ptr = sizes, consts
        self._sizes: dict[Dim, ir.Value] = {}
        self._consts: dict[tuple[int, Any], ir.Value] = {}
        self._places: dict[tuple[int, Any], ir.Value] = {}  # of constants

    def size(self, dim: Dim) -> ir.Value:
        if dim in self.static:
            return I64(self.static[dim])
        found = self._sizes.get(dim)
        if found is None:
            found = self._sizes[dim] = self._read_size(dim)
        return found

    def count(self, b: ir.IRBuilder, dims: Iterable[Dim]) -> ir.Value:
        """The number of elements along all *dims*, at the position of *b*."""
        sizes = [self.size(d) for d in dims if d != ONE]
        return reduce(partial(b.mul, flags=("nsw",)), sizes) if sizes else I64(1)

    def total(self, b: ir.IRBuilder, dims: Iterable[Dim]) -> ir.Value:
        """The sum of the sizes of *dims*, at the position of *b*."""
        open_ones = [d for d in dims if d not in self.static]
        known = I64(sum(self.static[d] for d in dims if d in self.static))
        return reduce(partial(b.add, flags=("nsw",)), map(self.size, open_ones), known)

    def behind(self, begin: ir.Value, run: ResultRun) -> ir.Value:
        """The offset behind a *run* that begins at the offset *begin*."""
        b = self.entry
        if all(d in self.static for d in (*run.extents, *run.inner)) and isinstance(begin, ir.Constant):
            rows = sum(self.static[d] for d in run.extents)
            return I64(begin.constant + rows * prod(self.static[d] for d in run.inner))
        return b.add(begin, b.mul(self.total(b, run.extents), self.count(b, run.inner)))

    def _read_size(self, dim: Dim) -> ir.Value:
        place = self.entry.gep(self._sizes_ptr, [I64(dim)], inbounds=True, source_etype=I64)
        return self._invariant(self.entry.load(place, typ=I64))

    def _invariant(self, load: Any) -> Any:
        """A load of memory that the function does not write, marked as loop-invariant."""
        load.set_metadata("invariant.load", self.entry.module.add_metadata([]))
        return load

    def const(self, x: Const) -> ir.Value:
        if x.slot is None:
            return constant(x.dtype, x.value)
        found = self._consts.get((x.slot, x.dtype))
        if found is None:
            found = self._consts[(x.slot, x.dtype)] = self._read_const(x)
        return found

    def const_at(self, x: Const) -> ir.Value:
        """The address of a constant."""
        key = (x.slot or 0, x.dtype)
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = self._const_place(x)
        return found

    def _const_place(self, x: Const) -> ir.Value:
        return self.entry.gep(self._consts_ptr, [I64(8 * (x.slot or 0))], inbounds=True, source_etype=I8)

    def _read_const(self, x: Const) -> ir.Value:
        loaded = self._invariant(self.entry.load(self.const_at(x), typ=memory_type(x.dtype)))
        return from_memory(self.entry, loaded, x.dtype)


class NumberArguments(Numbers):
    """Sizes, and the addresses of constants, as arguments of a function, which gets one for each that is asked for. So
    the function does not tell which ones they are, and serves other places of the program too."""

    def __init__(self, program: Canonical, entry: ir.IRBuilder):
        self.static, self.entry = program.static, entry
        self._sizes, self._consts, self._places = {}, {}, {}
        self.asked: list[Dim | Const | Sym] = []  # the arguments

    def _read_size(self, dim: Dim) -> ir.Value:
        return self._argument(dim, I64)

    def _const_place(self, x: Const) -> ir.Value:
        return self._argument(x, PTR)

    def _argument(self, asked: Dim | Const | Sym, kind: ir.Type) -> ir.Value:
        self.asked.append(asked)
        function = self.entry.function
        function.args = (*function.args, ir.Argument(function, kind))
        function.ftype = ir.FunctionType(function.ftype.return_type, [a.type for a in function.args])
        return function.args[-1]

    def given(self, numbers: Numbers) -> list[ir.Value]:
        """The arguments, by *numbers* of the caller."""
        return given(self.asked, numbers)


class SharedArguments(NumberArguments):
    """Addresses of buffers, too, as arguments of a function."""

    def __init__(self, program: Canonical, entry: ir.IRBuilder):
        super().__init__(program, entry)
        self._pointers: dict[Sym, ir.Value] = {}

    def pointer(self, sym: Sym) -> ir.Value:
        found = self._pointers.get(sym)
        if found is None:
            found = self._pointers[sym] = self._argument(sym, PTR)
        return found


def given(
    asked: Sequence[Dim | Const | Sym], numbers: Numbers, pointer: Callable[[Sym], ir.Value] | None = None
) -> list[ir.Value]:
    """The arguments that are *asked* for, by *numbers* and *pointer* of the caller."""
    found = []
    for x in asked:
        if isinstance(x, Sym):
            assert pointer is not None
            found.append(pointer(x))
        else:
            found.append(numbers.const_at(x) if isinstance(x, Const) else numbers.size(x))
    return found


class ValueEmitter:
    """A function of the kernel, and the values in it.  ``cpu.ItemEmitter`` adds the loops."""

    scalars: type[Scalars] = Scalars  # whose functions scalar bodies call
    range: Sequence[ir.Value] = ()  # of the outermost loop, where the function is given one

    def __init__(
        self, program: Canonical, schedule: Schedule, module: ir.Module, name: str, used: list[Sym],
        inline: bool = False, tables: bool = True, ranged: bool = False,
    ):  # fmt: skip
        """*tables*: whether the function is given the tables of sizes and constants, or those numbers that it needs;
        *ranged*: whether it is given a range of its outermost loop."""
        self.program, self.schedule = program, schedule
        self.used = used
        kind = ir.FunctionType(ir.VoidType(), [PTR] * (len(used) + 2 * tables) + [I64, I64] * ranged)
        self.function = ir.Function(module, kind, name)
        self.function.linkage = "internal"
        self.function.attributes.add("alwaysinline" if inline else "noinline")
        self.function.attributes.add("nounwind")
        for arg in self.function.args[: len(used)]:
            arg.add_attribute("noalias")
        self.pointer = dict(zip(used, self.function.args, strict=False))
        entry = self.function.append_basic_block("entry")
        self.entry = ir.IRBuilder(entry)
        start = self.function.append_basic_block("start")
        self.start = start
        self.b = ir.IRBuilder(start)
        self.loops: list[ir.Value] = []  # the loop variables in force
        self.homes: list[ir.IRBuilder] = []  # where code that is invariant in loop k goes
        self.scopes: list[dict[Any, ir.Value]] = [{}]  # values at hand: whole function, then loop by loop
        self.tile_start: ir.Value | None = None  # first row of the tile, in a loop over tiles
        self.assumed: frozenset[Condition] = frozenset()  # conditions known to hold here
        self.refused: frozenset[Condition] = frozenset()  # conditions known not to hold here
        self.accumulators: dict[Sym, Any] = {}  # result -> accumulator in the current loops (reductions.py)
        self.numbers: Numbers = NumberArguments(program, self.entry)
        if tables:
            self.numbers = Numbers(program, self.entry, *self.function.args[len(used) :][:2])
        if ranged:
            self.range = self.function.args[-2:]
        self.size, self.const = self.numbers.size, self.numbers.const

    def finish(self) -> ir.Function:
        self.b.ret_void()
        self.entry.position_at_end(self.entry.block)  # others have put their allocas there
        self.entry.branch(self.start)
        return self.function

    # ---- numbers -----------------------------------------------------------------------------------------------

    def index(self, index: Index, mask: tuple[Condition, ...] = ()) -> ir.Value:
        """An index expression as an i64 at the current position."""
        b = self.b
        total: ir.Value | None = None
        for t, coefficient in sorted(index.terms, key=lambda item: repr(item[0])):
            if t[0] == "i":
                value = self.loops[t[1]]
            elif t[0] == "s":
                value = self.size(t[1])
            elif t[0] == "d":
                value = b.sdiv(self.index(t[1], mask), I64(t[2]))
            else:
                value = self._gathered(t, mask)
            if coefficient != 1:
                value = b.mul(value, I64(coefficient), flags=("nsw",))
            total = value if total is None else b.add(total, value, flags=("nsw",))
        if total is None:
            return I64(index.const)
        return b.add(total, I64(index.const), flags=("nsw",)) if index.const else total

    def _gathered(self, t: Any, mask: tuple[Condition, ...]) -> ir.Value:
        """A position computed by the program, kept in bounds: a guard on it that fails drops the result, not the
        process."""
        _, sym, at, dim = t
        value = self.value(sym, at, mask)
        if value.type != I64:
            value = self.b.sext(value, I64)
        last = self.b.sub(self.size(dim), I64(1))
        inside = self.b.icmp_unsigned("<=", value, last)
        return self.b.select(inside, value, I64(0))

    def condition(self, condition: Condition, mask: tuple[Condition, ...]) -> ir.Value:
        kind, index, bound = condition
        value = self.index(index, mask)
        if kind != "mod":
            return self.b.icmp_unsigned("<", value, self.size(bound))
        return self.b.icmp_signed("==", self.b.srem(value, I64(bound)), I64(0))

    def all_conditions(self, conditions: tuple[Condition, ...], mask: tuple[Condition, ...] = ()) -> ir.Value:
        """The conjunction of *conditions* as an i1; undefined where *mask* does not hold."""
        value: ir.Value | None = None
        for position, condition in enumerate(conditions):
            this = self.condition(condition, (*mask, *conditions[:position]))
            value = this if value is None else self.b.and_(value, this)
        return I1(1) if value is None else value

    # ---- values ------------------------------------------------------------------------------------------------

    def value(self, x: Operand, at: Indices, mask: tuple[Condition, ...] = ()) -> ir.Value:
        """The element of *x* at position *at*; where *mask* does not hold, an arbitrary value read within bounds."""
        if isinstance(x, Const):
            return self.const(x)
        if not at:
            mask = ()  # a value without axes can be evaluated anywhere
        key = (x, at, mask)
        # a value computed under fewer conditions serves too: else each of n updates of one array would double the work
        weaker = [(x, at, mask[:k]) for k in range(len(mask), -1, -1)]
        for scope in reversed(self.scopes):
            for found in map(scope.get, weaker):
                if found is not None:
                    return found
        depth = max([depends_on(i) for i in at], default=0)
        if mask or depth == len(self.loops):
            value = self._compute(x, at, mask)
            self.scopes[-1][key] = value
            return value
        with self._hoisted(depth):
            value = self._compute(x, at, mask)
            self.scopes[-1][key] = value
        return value

    @contextmanager
    def _hoisted(self, depth: int) -> Iterator[None]:
        """Emit at loop depth *depth*, before the loop below it."""
        saved = self.b, self.loops, self.scopes, self.homes
        # the scope of a loop's home is the one after the scope of its surroundings
        self.b, self.loops, self.scopes, self.homes = (
            self.homes[depth],
            self.loops[:depth],
            self.scopes[: 2 * depth + 2],
            self.homes[:depth],
        )
        try:
            yield
        finally:
            self.b, self.loops, self.scopes, self.homes = saved

    def _stored(self, x: Sym) -> bool:
        return x in self.schedule.stored or x not in self.program.producers

    def _compute(self, x: Sym, at: Indices, mask: tuple[Condition, ...], top: bool = False) -> ir.Value:
        if self._stored(x) and not top:
            return self._load(x, self._offset(x, at, mask), mask)
        op = self.program.producers[x]
        if op.prim.kind == ELEMENTWISE:
            args = [self.value(y, at if y.dims else (), mask) for y in op.ins]
            wide = bool(x.dims)
            dtypes = [y.dtype for y in op.ins]
            calls = ChainMap(*self.scopes[::-1]) if isinstance(op.prim.impl, UfuncOutput) else None
            return lower(self.b, op.prim, args, dtypes, x.dtype, wide, op.params, self.scalars, calls)
        if op.prim.name == "iota":
            value = self.index(at[0], mask)
            if x.dtype.kind in FLOAT_KINDS:
                return self.b.sitofp(value, register_type(x.dtype))
            return value if x.dtype.itemsize == 8 else self.b.trunc(value, register_type(x.dtype))
        return self._choose(x, read(op, at), mask)

    def _choose(self, x: Sym, choices: list[Alternative], mask: tuple[Condition, ...]) -> ir.Value:
        possible: list[Alternative] = []
        for choice in choices:
            unknown = self._unknown(choice.conditions, mask)
            if unknown is None:
                continue
            certain = not unknown or (choice.remains and not possible)
            possible.append(choice._replace(conditions=() if certain else unknown))
            if certain:  # the later alternatives can't be reached
                break
        result: ir.Value = constant(x.dtype, 0)
        if possible and (possible[-1].remains or not possible[-1].conditions):
            last = possible.pop()
            result = self._alternative(last, (*mask, *last.conditions))
        for choice in reversed(possible):
            value = self._alternative(choice, (*mask, *choice.conditions))
            result = self.b.select(self.all_conditions(choice.conditions, mask), value, result)
        return result

    def _unknown(self, conditions: tuple[Condition, ...], mask: tuple[Condition, ...]) -> tuple[Condition, ...] | None:
        """The *conditions* that are undecided here; None where one is known to be false."""
        unknown = []
        for c in conditions:
            held = known(c, self.program.static)
            if held is False or c in self.refused:
                return None
            if held is None and c not in self.assumed and c not in mask:
                unknown.append(c)
        return tuple(unknown)

    def _alternative(self, choice: Alternative, mask: tuple[Condition, ...]) -> ir.Value:
        if choice.indices is not None:
            return self.value(choice.operand, choice.indices, mask)
        assert isinstance(choice.operand, Sym) and choice.flat is not None
        return self._load(choice.operand, self._horner(*choice.flat, mask), mask)

    def _horner(self, dims: tuple[Dim, ...], at: Indices, mask: tuple[Condition, ...]) -> ir.Value:
        b = self.b
        offset: ir.Value | None = None
        for d, i in zip(dims, at, strict=True):
            if d == ONE:
                continue
            value = self.index(i, mask)
            offset = (
                value if offset is None else b.add(b.mul(offset, self.size(d), flags=("nsw",)), value, flags=("nsw",))
            )
        return I64(0) if offset is None else offset

    def _offset(self, x: Sym, at: Indices, mask: tuple[Condition, ...]) -> ir.Value:
        dims, scalars = x.dims, self.schedule.scalars
        if x in scalars.places:
            return I64(scalars.offset(x))
        window = self.schedule.windows.get(x)
        if window is not None:
            return self._within(window, at, mask)
        skip = self.schedule.contracted.get(x, 0)
        if x in self.schedule.turned:
            dims, at = (dims[-1], *dims[:-1]), (at[-1], *at[:-1])
        if not skip:
            return self._horner(dims, at, mask)
        wide = [a for a, d in enumerate(dims) if d != ONE][skip:]
        offset = self._horner(tuple(dims[a] for a in wide), tuple(at[a] for a in wide), mask)
        if x in self.schedule.tiled:
            assert self.tile_start is not None
            row: ir.Value = self.b.sub(self.loops[0], self.tile_start, flags=("nsw",))
            if self.apart(x):  # loops over them are unrolled: rows are vectorised
                offset = self.b.mul(offset, I64(TILE), flags=("nsw",))
            else:
                for a in wide:
                    row = self.b.mul(row, self.size(dims[a]), flags=("nsw",))
            offset = self.b.add(row, offset, flags=("nsw",))
        return offset

    def apart(self, x: Sym) -> bool:
        """Whether the elements of a row of *x* are TILE apart: those of one place stand together for all rows."""
        dims = (x.dims[-1], *x.dims[:-1]) if x in self.schedule.turned else x.dims
        wide = [d for d in dims if d != ONE][self.schedule.contracted.get(x, 0) :]
        return x in self.schedule.tiled and all(d in self.program.static for d in wide)

    def _within(self, window: PartWindow, at: Indices, mask: tuple[Condition, ...]) -> ir.Value:
        """The offset of a part's element *at* in its run."""
        b, offset = self.b, I64(0)
        for a, (d, i) in enumerate(zip(window.run.dims, at, strict=True)):
            extents = window.extents if a == window.axis else (d,)
            value = self.index(i, mask)
            if a == window.axis:
                value = b.add(value, self.numbers.total(b, extents[: window.column]), flags=("nsw",))
            offset = b.add(b.mul(offset, self.numbers.total(b, extents), flags=("nsw",)), value, flags=("nsw",))
        return offset

    def _load(self, x: Sym, offset: ir.Value, mask: tuple[Condition, ...]) -> ir.Value:
        kind = memory_type(x.dtype)
        if not mask:
            return self.get(x, offset)
        # a real branch: the vectoriser turns it into a masked load, and no address out of bounds is read
        allowed = self.all_conditions(mask)
        before = self.b.block
        inside = self.b.append_basic_block("inside")
        after = self.b.append_basic_block("after")
        self.b.cbranch(allowed, inside, after)
        self.b.position_at_end(inside)
        loaded = self.b.load(self.place(x, offset), typ=kind)
        self.b.branch(after)
        self.b.position_at_end(after)
        phi = self.b.phi(kind)
        phi.add_incoming(loaded, inside)
        phi.add_incoming(ir.Constant(kind, 0 if isinstance(kind, ir.IntType) else 0.0), before)
        return from_memory(self.b, phi, x.dtype)

    def store(self, x: Sym, at: Indices, value: ir.Value) -> None:
        self.put(x, self._offset(x, at, ()), value)

    def place(self, x: Sym, offset: ir.Value) -> ir.Value:
        """The address of element number *offset* of *x*."""
        return self.b.gep(
            self.pointer[self.schedule.buffer(x)], [offset], inbounds=True, source_etype=memory_type(x.dtype)
        )

    def put(self, x: Sym, offset: ir.Value, value: ir.Value) -> None:
        self.b.store(to_memory(self.b, value, x.dtype), self.place(x, offset))

    def get(self, x: Sym, offset: ir.Value) -> ir.Value:
        return from_memory(self.b, self.b.load(self.place(x, offset), typ=memory_type(x.dtype)), x.dtype)
