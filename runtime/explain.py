"""``f.explain(*args)``: what the system did with a call, in text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..codegen.canonical import ONE, Canonical, Const, Sym
from ..codegen.program import Program
from ..codegen.schedule import Call as LibraryCall
from ..codegen.schedule import Loop, Statement
from ..tracer.irtext import print_graph
from .calls import flatten
from .kernels import kernels
from .recording import Mode, Recording, record

if TYPE_CHECKING:
    from .compiled import CompiledFunction


def explain_call(function: CompiledFunction, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Records the call (its Python runs once more) and describes the program, its kernel and the function's history."""
    call = flatten(args, kwargs, function._static)
    plan = function._plan(call)
    snapshot = plan.snapshot(call.objects)
    recording = record(function._fn, call, mode, plan, snapshot if plan.provable else None)
    known_before = kernels.compiles
    program, _ = kernels.get(recording.canonical, recording.arguments)
    parts = [
        f"{function.stats.name}: {mode.kind}",
        _section("recorded program (yours, then the adjoint)", print_graph(recording.graph)),
        _section("loops", describe_schedule(program)),
        _section("decisions", "\n".join(dict.fromkeys(program.schedule.notes)) or "everything that could be fused was"),
        _section("memory", describe_memory(program, recording.canonical)),
        _section("guards", describe_guards(recording)),
        _section(
            "outside state",
            "\n".join(plan.reasons)
            or "every value that the function reads is checked; arrays are read again in each call",
        ),
        _section("timings", describe_timings(recording, program, kernels.compiles > known_before)),
        _section("history", str(function.stats)),
    ]
    return "\n\n".join(parts)


def _section(title: str, body: str) -> str:
    return f"--- {title}\n{body.rstrip()}"


def describe_schedule(program: Program) -> str:
    """The loop tree, one line for each loop and stored value."""
    lines: list[str] = []
    kernel = 0
    for item in program.schedule.body:
        if isinstance(item, LibraryCall):
            where = "NumPy, between kernels" if item.op.prim.kind == "host" else "library"
            lines.append(f"{item.op.out} = {item.op.prim.name} {_operands(item.op)}   ({where})")
        else:
            if isinstance(item, Loop):
                kernel += 1
                lines.append(f"loop nest {kernel}:")
            _describe(program, item, 1 if isinstance(item, Loop) else 0, lines)
    return "\n".join(lines) or "nothing to compute"


def _describe(program: Program, item: Loop | Statement | LibraryCall, depth: int, lines: list[str]) -> None:
    pad = "  " * depth
    if isinstance(item, Loop):
        static = program.canonical.static.get(item.dim)
        lines.append(f"{pad}for i{depth} in {f'{static} (unrolled)' if static else f'n{item.dim}'}:")
        for inner in item.body:
            _describe(program, inner, depth + 1, lines)
    elif isinstance(item, Statement):
        where = "result" if item.out in program.results else "guard" if item.out in program.guards else "temporary"
        site = f"   # {item.op.site}" if item.op.site else ""
        lines.append(f"{pad}{item.out} = {item.op.prim.name} {_operands(item.op)}   ({where}){site}")


def _operands(op: Any) -> str:
    return " ".join(repr(x) for x in op.ins if isinstance(x, (Sym, Const)))


def describe_memory(program: Program, canonical: Canonical) -> str:
    sizes = canonical.sizes
    lines = []
    total = 0
    for sym in program.results:
        nbytes = sym.dtype.itemsize
        for d in sym.dims:
            nbytes *= int(sizes[d]) if d != ONE else 1
        total += nbytes
        lines.append(f"result {sym}: {nbytes} bytes")
    offsets, workspace = program.plan(sizes)
    for temporary, offset in zip(program.temporaries, offsets, strict=True):
        nbytes, needed = temporary.nbytes(sizes), f"items {temporary.first} to {temporary.last}"
        lines.append(f"temporary {temporary.name}: {nbytes} bytes at {offset}, {needed}")
    separate = sum(t.nbytes(sizes) for t in program.temporaries)
    lines.append(f"in all: results {total} bytes, workspace {workspace} bytes (pooled; {separate} without reuse)")
    return "\n".join(lines)


def describe_guards(recording: Recording) -> str:
    lines = [f"{guard.kind}() == {guard.expected!r} at {guard.site}" for guard in recording.graph.guards]
    return "\n".join(lines) or "none: no value decided the control flow"


def describe_timings(recording: Recording, program: Program, compiled_now: bool) -> str:
    steps = {**recording.seconds, **program.seconds}
    text = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in steps.items())
    return text + ("" if compiled_now else "  (the kernel was compiled before)")
