"""``python -m benchmarks --gpu-static``: what can be known of the CUDA kernels without a GPU.

For each workload: launches, what the assembler says that its kernels take, how many warps then fit on a multiprocessor,
what they are made of, and the bytes that they move against the least that would do.
"""

from __future__ import annotations

import argparse
import datetime
import math
import re
from dataclasses import dataclass
from typing import Any

from . import report
from .gpu_workloads import COLUMNS, WORKLOADS
from .recorded import recorded
from .workload import Workload

CC = (9, 0)
SIZE = 2**20  # elements; of the matrices with rows 2**22
SIZES = {"softmax_f32": 2**22, "layer_norm_f32": 2**22, "logistic_f64": 10_000, "mlp_f32": 4096, "small_f64": 1000}

# one multiprocessor of compute capability 9.0
REGISTERS, WARPS, BLOCKS, SHARED, QUARTERS = 65536, 64, 32, 228 * 1024, 4


def occupancy(registers: int, shared: int, threads: int) -> float:
    """The share of a multiprocessor's warps that are there at once, in blocks of *threads*.

    Registers go to warps 256 at a time, each quarter of a multiprocessor has its own; a block takes 1 KiB of shared
    memory besides its own.
    """
    warps = -(-threads // 32)
    of_a_warp = -(-max(registers, 1) * 32 // 256) * 256
    by_registers = REGISTERS // QUARTERS // of_a_warp * QUARTERS // warps
    return min(by_registers, BLOCKS, WARPS // warps, SHARED // (shared + 1024)) * warps / WARPS


@dataclass(frozen=True)
class KernelFigures:
    """One launch: *moved* bytes count each buffer that it reads or writes once."""

    name: str
    by: str
    blocks: int
    threads: int
    registers: int
    spilled: int
    shared: int
    occupancy: float
    moved: int
    mix: dict[str, int]
    vectors: int  # loads and stores of more than one element


@dataclass(frozen=True)
class Figures:
    workload: str
    calls: list[str]  # what a library does
    kernels: list[KernelFigures]
    moved: int  # by all steps
    least: int  # inputs read once, results written once
    work: int  # bytes of temporaries


def figures(workload: Workload) -> Figures:
    """What the kernels for value and gradient of *workload* are like.  Raises DeviceError without numba-cuda."""
    from tracegrad.codegen.cuda import ptx
    from tracegrad.codegen.cuda.assemble import assemble
    from tracegrad.codegen.cuda.intrinsics import device_text
    from tracegrad.codegen.cuda.mapping import product
    from tracegrad.codegen.cuda.program import Kernel

    from .ptx_report import instruction_mix, resources

    recording, _ = recorded(workload.fn, workload.make_args(), workload.argnums)
    canonical = recording.canonical
    program = assemble(canonical, recording.arguments)
    text = ptx.compile_ptx(device_text(program), program.kernels, CC, program.geometry.threads)
    needs, bodies = resources(text, CC), _entries(text)
    sizes = canonical.sizes

    known: dict[Any, int] = {}  # bytes of a partial result: one number for each block, or for each part of a unit

    def nbytes(sym: Any) -> int:
        return known.get(sym) or sym.dtype.itemsize * math.prod(int(sizes[d]) for d in sym.dims)

    outside = {*program.inputs, *program.results}
    used: set[Any] = set()
    moved = 0
    kernels: list[KernelFigures] = []
    calls: list[str] = []
    for step in program.steps:
        if not isinstance(step, Kernel):
            op = program.canonical.ops[step.position]
            mine = {x for x in (*op.ins, *op.outs) if hasattr(x, "number")}
            used |= mine
            moved += sum(map(nbytes, mine))
            calls.append(op.prim.name)
            continue
        if not step.launched(sizes):
            continue
        blocks, threads = step.grid(sizes, program.geometry)
        if step.extent.mapping.partial:
            units = product(step.extent.units, sizes) * step.extent.parts(sizes)
            for s in step.buffers:
                if s.number < 0:
                    known.setdefault(s, s.dtype.itemsize * (units if step.extent.cut else blocks))
        traffic = sum(map(nbytes, step.buffers))
        used |= set(step.buffers)
        moved += traffic
        need, body = needs[step.name], bodies[step.name]
        spilled = need.spill_stores + need.spill_loads
        kernels.append(
            KernelFigures(
                step.name, step.extent.mapping.by, blocks, threads, need.registers, spilled,
                need.shared, occupancy(need.registers, need.shared, threads), traffic, instruction_mix(body),
                len(re.findall(r"(?:ld|st)\.global\S*\.v[24]", body)),
            )
        )  # fmt: skip
    least = sum(nbytes(s) for s in used & outside)
    return Figures(workload.name, calls, kernels, moved, least, program.plan(sizes)[1])


def _entries(text: str) -> dict[str, str]:
    """The PTX of each kernel."""
    parts = re.split(r"^\.visible \.entry (\w+)", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


LEGEND = f"""No GPU was at hand: nothing in this section was timed. It is what the compiler and the assembler say for
compute capability 9.0 (Hopper), and what follows from sizes. Launches are of one call of value and gradient. Bytes
moved count every buffer that a kernel reads or writes once; a row that a block reads again comes from its cache. The
least is every input read once and every result written once. Occupancy is the least of the kernels that move at least a
tenth of the bytes. Sizes: 2^20 elements, matrices of 2^22 in rows of {COLUMNS}, logistic regression 10,000 × 100, MLP
784-256-256-10 with a batch of 4,096."""


def tables(found: list[Figures]) -> str:
    rows = []
    for f in found:
        large = [k for k in f.kernels if 10 * k.moved >= f.moved] or f.kernels
        rows.append([
            f.workload, str(len(f.kernels)), str(len(f.calls)), str(max(k.registers for k in f.kernels)),
            str(sum(k.spilled for k in f.kernels)), f"{min(k.occupancy for k in large):.0%}", f"{f.moved / 1e6:.2f}",
            f"{f.least / 1e6:.2f}", f"{f.moved / f.least:.2f}", f"{f.work / 1e6:.2f}",
        ])  # fmt: skip
    head = [
        "value and gradient", "kernels", "library calls", "registers", "bytes spilled", "occupancy", "MB moved",
        "MB at least", "ratio", "MB of temporaries",
    ]  # fmt: skip
    kinds = ["load.global", "store.global", "fp64", "fp32", "special", "int", "branch", "sync"]
    details = []
    for f in found:
        for k in f.kernels:
            if 10 * k.moved >= f.moved:
                details.append([
                    f"{f.workload} {k.name[3:]}", k.by, f"{k.blocks} × {k.threads}", str(k.registers), str(k.shared),
                    f"{k.occupancy:.0%}", f"{k.moved / 1e6:.2f}", str(k.vectors),
                    *[str(k.mix.get(kind, 0)) for kind in kinds],
                ])  # fmt: skip
    detail_head = [
        "kernel", "unit done by", "blocks × threads", "registers", "shared bytes", "occupancy", "MB", "vector", *kinds,
    ]  # fmt: skip
    text = (
        "Kernels that move at least a tenth of the bytes: instructions in their text, where a loop's body counts once."
    )
    return f"{report.table(head, rows)}\n\n{text}\n\n{report.table(detail_head, details)}"


def run(options: argparse.Namespace) -> int:
    """Print the tables; save them unless asked not to."""
    wanted = [word for word in options.only.split(",") if word]
    chosen = {n: make for n, make in WORKLOADS.items() if not wanted or any(n.startswith(w) for w in wanted)}
    found = [figures(make(SIZES.get(name, SIZE))) for name, make in chosen.items()]
    made = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {report.versions('tracegrad', 'numba-cuda', 'llvmlite')}."
    text = f"{LEGEND}\n\n{made}\n\n{tables(found)}"
    print(text)
    if not options.no_save and not wanted:
        report.keep("gpu_static", text)
    return 0
