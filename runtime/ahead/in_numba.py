"""Native functions inside of numba's ``@njit`` code: a jitted function around the call of an address.

The address is one of this process, so numba keeps no file of code that calls it (``add_dynamic_addr``); and as numba
never frees what it has compiled, the code behind the address is not freed, either.
"""

from __future__ import annotations

import importlib
from typing import Any

from ...codegen.cpu.cpython import immortal
from ...codegen.cpu.native_entry import NO_MEMORY, NO_SIZE, OVERLAP
from .entry import CParameter, loaded, native_text, parameters
from .fixed import FixedCall
from .sizes import SizedCall


def numba_function(fixed: FixedCall | SizedCall) -> Any:
    """A function jitted by numba: the arguments of *fixed* that are data, then an array for each result that is one;
    it returns the results that are numbers."""
    numba: Any = importlib.import_module("numba")
    shown = parameters(fixed)
    address = immortal(loaded(native_text(fixed, "tg_entry"))).address("tg_entry")
    operands = [p for p in shown if p.shape or not p.written]
    arrays = [p for p in operands if not p.is_size]
    names, passed = [p.name for p in arrays], [p.name for p in operands]
    lines = [f"def {fixed.plain_name}({', '.join(names)}):"]
    if isinstance(fixed, SizedCall):
        lines += [f"    {name} = {_size_of(k, fixed, arrays)}" for k, name in enumerate(fixed.names)]
    for p in arrays:
        if p.shape:
            wanted = f"({', '.join(map(str, p.shape))}{',' * (len(p.shape) == 1)})"
            text = f"`{p.name}` must have the shape {wanted}, for which {fixed.plain_name} was compiled"
            lines += [f"    if {p.name}.shape != {wanted}:", f"        raise ValueError({text!r})"]
    numbers = [f"tg_{k}" for k, p in enumerate(shown) if p.written and not p.shape]
    lines += [
        f"    {', '.join(['tg_status', *numbers])}{',' if not numbers else ''} = tg_call(({', '.join(passed)},))",
        "    if tg_status != 0:",
        f"        if tg_status == {OVERLAP}:",
        "            raise ValueError('an array for a result shares memory with another argument')",
        f"        if tg_status == {NO_MEMORY}:",
        "            raise MemoryError('no memory for the workspace')",
    ]
    if isinstance(fixed, SizedCall):
        text = f"{fixed.plain_name} was compiled for the sizes {fixed.listing}"
        lines += [f"        if tg_status == {NO_SIZE}:", f"            raise ValueError({text!r})"]
    for guard, missed in enumerate(fixed.missed):
        lines += [f"        if tg_status == {guard + 1}:", f"            raise RuntimeError({missed!r})"]
    if not fixed.missed:
        lines += ["        raise RuntimeError('a failed guard')"]
    lines.append(f"    return {', '.join(numbers) or None}")
    space = {"tg_call": _intrinsic(shown, address)}
    exec("\n".join(lines), space)
    made = space[fixed.plain_name]
    made.__doc__ = f"{fixed.name}, compiled by tracegrad."
    return numba.njit(nogil=True)(made)


def _size_of(k: int, fixed: SizedCall, arrays: list[CParameter]) -> str:
    """The size number *k* in Python, of the arrays that are given."""
    name = fixed.names[k]
    axes = [(p.name, p.shape.index(name)) for p in arrays if name in p.shape and not p.written]
    return "{}.shape[{}]".format(*axes[0]) if axes else str(next(iter(fixed.calls))[k])  # there is but one


def _intrinsic(shown: list[CParameter], address: int) -> Any:
    """``call((arrays and numbers ...,))`` as numba compiles it: (status, numbers ...)."""
    numba: Any = importlib.import_module("numba")
    core: Any = importlib.import_module("numba.core")
    errors: Any = importlib.import_module("numba.core.errors")
    cgutils: Any = importlib.import_module("numba.core.cgutils")
    ir: Any = importlib.import_module("llvmlite.ir")
    types, given = core.types, [p for p in shown if p.shape or not p.written]
    numbers = [p for p in shown if p.written and not p.shape]

    def check(p: CParameter, kind: Any) -> None:
        wanted = numba.from_dtype(p.dtype)
        if p.is_size or p.kind != "array":
            others = (types.Complex,) if p.kind == "complex" else ()
            if not isinstance(kind, (types.Float, types.Integer, *others)):
                raise errors.TypingError(f"`{p.name}` must be a number, not {kind}")
            return
        right = (
            isinstance(kind, types.Array)
            and kind.aligned
            and (kind.dtype, kind.ndim, kind.layout)
            == (
                wanted,
                len(p.shape),
                "C",
            )
        )
        if not right or (p.written and not kind.mutable):
            shown = f"{'a writable' if p.written else 'an'} array of {wanted} with {len(p.shape)} axes"
            raise errors.TypingError(f"`{p.name}` must be {shown}, C-contiguous (np.ascontiguousarray), not {kind}")

    def call(typing: Any, values: Any) -> Any:
        for p, kind in zip(given, values.types, strict=True):
            check(p, kind)
        returned = types.Tuple([types.int32, *[numba.from_dtype(p.dtype) for p in numbers]])

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            parts = iter(zip(cgutils.unpack_tuple(builder, arguments[0], len(given)), values.types, strict=True))
            operands, slots = [], []
            for p in shown:
                kind = numba.from_dtype(p.dtype)
                if p.written and not p.shape:
                    slots.append((kind, cgutils.alloca_once(builder, context.get_data_type(kind))))
                    operands.append(builder.bitcast(slots[-1][1], cgutils.voidptr_t))
                    continue
                value, found = next(parts)
                if p.by_value:
                    operands.append(context.cast(builder, value, found, kind))
                elif p.kind == "complex":
                    number = cgutils.alloca_once_value(builder, context.cast(builder, value, found, kind))
                    operands.append(builder.bitcast(number, cgutils.voidptr_t))
                else:
                    data = context.make_array(found)(context, builder, value).data
                    operands.append(builder.bitcast(data, cgutils.voidptr_t))
            type_ = ir.FunctionType(ir.IntType(32), [x.type for x in operands])
            function = context.add_dynamic_addr(builder, address, info="tracegrad")
            status = builder.call(builder.bitcast(function, type_.as_pointer()), operands)
            found = [context.data_model_manager[kind].from_data(builder, builder.load(slot)) for kind, slot in slots]
            return context.make_tuple(builder, returned, [status, *found])

        return returned(values), generate

    return numba.extending.intrinsic(call)
