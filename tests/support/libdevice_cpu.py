"""libdevice on the CPU: NVIDIA's own code for ``__nv_exp`` and the rest, so that device IR can run without a GPU.

libdevice is LLVM bitcode.  LLVM reads it as it is; what only a GPU has, the ``llvm.nvvm`` intrinsics and a few lines
of PTX in inline assembly, gets definitions here.  ``install`` compiles the functions that kernels call
(``symbols()``) and makes them known to the linker of CPU kernels.

The definitions give what the instructions give, with one exception: the hardware's approximations.  PTX bounds their
errors and does not say their bits.  ``ex2``, ``lg2``, ``rcp`` and ``rsqrt`` of float32 are here the correctly rounded
values (of the hardware: within 1 or 2 ulp, and exact where the value is a power of 2, on which libdevice counts);
``rcp`` and ``rsqrt`` of float64 give, as there, the upper 32 bits of the result, 20 bits of significand, which
libdevice refines.  So float64 results agree with a GPU's but for last bits, and float32 results within 2 ulp or so.
"""

from __future__ import annotations

import re
import threading

import llvmlite.binding as llvm
import llvmlite.ir as ir
from pytest import MonkeyPatch

from tracegrad.codegen.cpu import jit
from tracegrad.codegen.cpu.machine_code import MachineCode
from tracegrad.codegen.cpu.symbols import define
from tracegrad.codegen.cuda import ptx
from tracegrad.codegen.cuda.libdevice import FUNCTIONS, INTRINSICS, symbol
from tracegrad.tracer.ir.errors import DeviceError
from tracegrad.tracer.ir.settings import optimiser

# answers of __nvvm_reflect: the options of ptx.FLOAT_OPTIONS, and a Hopper (the functions that kernels call ask only
# whether it is a Kepler or older: the code is the same for all that this target is for)
_REFLECT = {"__CUDA_FTZ": 0, "__CUDA_PREC_SQRT": 1, "__CUDA_ARCH": 900}

# intrinsics of NVVM that LLVM has for every target, under the names of LLVM 20 and of later ones
_SAME = {
    "fma.rn.d": "fma.f64", "fma.rn.f": "fma.f32", "sqrt.rn.d": "sqrt.f64", "sqrt.rn.f": "sqrt.f32",
    "floor.d": "floor.f64", "floor.f": "floor.f32", "ceil.d": "ceil.f64", "ceil.f": "ceil.f32",
    "trunc.d": "trunc.f64", "trunc.f": "trunc.f32", "round.d": "roundeven.f64", "round.f": "roundeven.f32",
    "fabs.f64": "fabs.f64", "fabs.f32": "fabs.f32", "fabs.d": "fabs.f64", "fabs.f": "fabs.f32",
    "fmin.d": "minimumnum.f64", "fmin.f": "minimumnum.f32", "fmax.d": "maximumnum.f64", "fmax.f": "maximumnum.f32",
}  # fmt: skip

# a piece of each inline assembly -> the function that takes its place; the first that matches
_ASSEMBLY = {
    "rcp.approx.ftz.f32": "tg.nvvm.rcp.approx.ftz.f",
    "rsqrt.approx.ftz.f64": "tg.nvvm.rsqrt.approx.ftz.d",
    "sub.rn.f32": "tg.sub.f",
    "setp.equ.f64": "tg.choose",
    "sub.cc.u32": "tg.sub128",
    "add.cc.u32": "tg.add128",
    "{clo,chi}": "tg.mad128",
    "mul.lo.u32": "tg.mul128",
    "mad.lo.cc.u32   $0": "tg.mad64",
}

_SHIFT = r"= (shl|lshr|ashr) (?:nuw |nsw |exact )*(i32|i64) ([^,\s]+), (%[\w.]+)"

_PURE = "nounwind willreturn memory(none)"

_lock = threading.Lock()
SPECIAL = frozenset(("erfinv", "lgamma"))  # replacements of ufuncs
_installed: list[MachineCode] = []


def symbols() -> list[str]:
    """Every function of libdevice that kernels call."""
    names, kinds = INTRINSICS | FUNCTIONS | SPECIAL, (ir.DoubleType(), ir.FloatType())
    return [symbol(name, kind) for name in sorted(names) for kind in kinds]


def install() -> None:
    """Make every function of ``symbols()`` known to the linker of CPU kernels; further calls do nothing.

    Raises DeviceError where libdevice uses an instruction that has no definition here.
    """
    with _lock:
        if _installed:
            return
        with MonkeyPatch.context() as patch:
            patch.setattr(optimiser, "level", 0)  # of what is reduced already; and few threads call it
            compiled = jit.compile_text(module_text(), "libdevice").load()
        for name in symbols():
            define(name, compiled.address(name))
        _installed.append(compiled)  # kept as long as the process: kernels point into it


def module_text() -> str:
    """The functions that kernels call, and all that they call, as LLVM IR for the CPU."""
    module = llvm.parse_bitcode(ptx.libdevice())
    wanted = set(symbols())
    for function in module.functions:
        if not function.is_declaration and function.name not in wanted:
            function.linkage = "internal"
    reduced = _optimised(_plain(str(module)))
    needed = [f.name for f in reduced.functions if f.is_declaration and not f.name.startswith("llvm.")]
    text = str(reduced)
    definitions: dict[str, str] = {}
    while needed:
        name = needed.pop()
        if name in definitions:
            continue
        if name not in _DEFINITIONS:
            raise DeviceError(f"libdevice uses {name}, which has no definition for the CPU")
        definitions[name] = _DEFINITIONS[name]
        needed += re.findall(r"@(tg\.[\w.]+)", definitions[name])
    text = re.sub(r"^declare [^@]*@tg\..*$", "", text, flags=re.MULTILINE)
    return "\n".join([text, *definitions.values()])


def _plain(text: str) -> str:
    """The printed module without NVIDIA's extensions: reflection answered, assembly as calls, one address space.

    Shifts by more than the width, which LLVM leaves undefined, are spelt out: libdevice counts on what its GPUs do.
    """
    options = dict(re.findall(r'^@(\S+) = .* c"(\w+)\\00"', text, re.MULTILINE))
    text = re.sub(
        r"call i32 @__nvvm_reflect\(ptr @([^)]+)\)(?: #\d+)?", lambda m: f"add i32 {_REFLECT[options[m[1]]]}, 0", text
    )
    text = re.sub(r"^(?:target|source_filename) .*$", "", text, flags=re.MULTILINE)
    text = text.replace("llvm.nvvm.", "tg.nvvm.").replace(" addrspace(1)", "")
    shifts = set(re.findall(_SHIFT, text))
    text = re.sub(_SHIFT, r"= call \2 @tg.\1.\2(\2 \3, \2 \4)", text)
    declared = [f"declare {kind} @tg.{name}.{kind}({kind}, {kind}) {_PURE}" for name, kind in {s[:2] for s in shifts}]
    for ours, llvms in _SAME.items():
        text = re.sub(rf"@tg\.nvvm\.{re.escape(ours)}\b(?!\.)", f"@llvm.{llvms}", text)
    found: dict[str, str] = {}

    def call(m: re.Match[str]) -> str:
        name = next((n for piece, n in _ASSEMBLY.items() if piece in m["template"]), "tg.unknown")
        arguments = ", ".join(a.split()[0] for a in m["arguments"].split(","))
        found.setdefault(name, f"declare {m['result']} @{name}({arguments}) {_PURE}")
        return f"call {m['result']} @{name}({m['arguments']})"

    text = re.sub(
        r'call (?P<result>\{[^}]*\}|\w+) asm (?:sideeffect )?"(?P<template>[^"]*)", "[^"]*"\((?P<arguments>[^)]*)\)',
        call,
        text,
    )
    declared += [d for n, d in found.items() if not re.search(rf"^declare .*@{re.escape(n)}\(", text, re.MULTILINE)]
    return "\n".join([text, *declared])


def _optimised(text: str) -> llvm.ModuleRef:
    """The module *text* after constant folding and removal of functions that no kernel calls."""
    module = llvm.parse_assembly(text)
    llvm.initialize_native_target()
    machine = llvm.Target.from_default_triple().create_target_machine()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    return module


# ---- what the instructions do -----------------------------------------------------------------------------------


def _define(result: str, name: str, arguments: str, *body: str) -> tuple[str, str]:
    lines = "\n".join(f"  {line}" for line in body)
    return name, f"define internal {result} @{name}({arguments}) alwaysinline nounwind {{\n{lines}\n}}"


def _arithmetic(name: str, operation: str, kind: str) -> tuple[str, str]:
    return _define(kind, name, f"{kind} %x, {kind} %y", f"%r = {operation} {kind} %x, %y", f"ret {kind} %r")


def _approximation(name: str, function: str) -> tuple[str, str]:
    """A function of float32, rounded from its value in float64."""
    return _define(
        "float", name, "float %x",
        "%wide = fpext float %x to double", f"%value = call double @{function}(double %wide)",
        "%r = fptrunc double %value to float", "ret float %r",
    )  # fmt: skip


def _flushed(name: str, function: str) -> tuple[str, str]:
    """A function of float32 whose subnormal arguments and results are zeros (``.ftz``)."""
    return _define(
        "float", name, "float %x",
        "%a = call float @tg.flush.f(float %x)", f"%value = call float @{function}(float %a)",
        "%r = call float @tg.flush.f(float %value)", "ret float %r",
    )  # fmt: skip


def _flush(name: str, kind: str, suffix: str, smallest: str) -> tuple[str, str]:
    return _define(
        kind, name, f"{kind} %x",
        f"%size = call {kind} @llvm.fabs.{suffix}({kind} %x)",
        f"%small = fcmp olt {kind} %size, {smallest}",
        f"%zero = call {kind} @llvm.copysign.{suffix}({kind} 0.0, {kind} %x)",
        f"%r = select i1 %small, {kind} %zero, {kind} %x", f"ret {kind} %r",
    )  # fmt: skip


def _upper_half(name: str, function: str) -> tuple[str, str]:
    """A function of float64 of which the hardware sees and gives the upper 32 bits."""
    return _define(
        "double", name, "double %x",
        "%a = call double @tg.flush.d(double %x)", "%bits = bitcast double %a to i64",
        "%upper = and i64 %bits, -4294967296", "%seen = bitcast i64 %upper to double",
        "%number = fcmp ord double %x, %x",  # a NaN whose lower half is all that makes it one
        "%given = select i1 %number, double %seen, double %x",
        f"%value = call double @{function}(double %given)",
        "%flushed = call double @tg.flush.d(double %value)", "%all = bitcast double %flushed to i64",
        "%kept = and i64 %all, -4294967296", "%r = bitcast i64 %kept to double", "ret double %r",
    )  # fmt: skip


def _to_integer(name: str, kind: str, integer: str, rounding: str, of_nan: int) -> tuple[str, str]:
    """cvt: out of range gives the nearest integer there is."""
    suffix = "f64" if kind == "double" else "f32"
    return _define(
        integer, name, f"{kind} %x",
        f"%whole = call {kind} @llvm.{rounding}.{suffix}({kind} %x)",
        f"%near = call {integer} @llvm.fptosi.sat.{integer}.{suffix}({kind} %whole)",
        f"%nan = fcmp uno {kind} %x, %x",
        f"%r = select i1 %nan, {integer} {of_nan}, {integer} %near", f"ret {integer} %r",
    )  # fmt: skip


def _directed(name: str, *chosen: str) -> tuple[str, str]:
    """Fused x * y + z of float32 with directed rounding: *chosen* says when to correct (``%wrong``) and how
    (``%way``, added to the bits).

    The product is exact in float64; the sum there leaves an error, which decides where the rounded sum cannot.
    """
    return _define(
        "float", name, "float %x, float %y, float %z",
        "%xd = fpext float %x to double", "%yd = fpext float %y to double", "%zd = fpext float %z to double",
        "%product = fmul double %xd, %yd", "%sum = fadd double %product, %zd",
        # two-sum (Knuth): what the addition has lost
        "%part = fsub double %sum, %product", "%rest = fsub double %sum, %part",
        "%lost_p = fsub double %product, %rest", "%lost_z = fsub double %zd, %part",
        "%lost = fadd double %lost_p, %lost_z",
        "%near = fptrunc double %sum to float", "%back = fpext float %near to double",
        "%higher = fcmp ogt double %back, %sum", "%lower = fcmp olt double %back, %sum",
        "%tie = fcmp oeq double %back, %sum",
        "%minus = fcmp olt double %lost, 0.0", "%plus = fcmp ogt double %lost, 0.0",
        "%tie_high = and i1 %tie, %minus", "%tie_low = and i1 %tie, %plus",
        "%too_high = or i1 %higher, %tie_high", "%too_low = or i1 %lower, %tie_low",
        "%negative = fcmp olt double %sum, 0.0",
        *chosen,
        "%step = select i1 %wrong, i32 %way, i32 0",
        "%bits = bitcast float %near to i32", "%moved = add i32 %bits, %step", "%r = bitcast i32 %moved to float",
        "ret float %r",
    )  # fmt: skip


_TOWARDS_ZERO = ("%wrong = select i1 %negative, i1 %too_low, i1 %too_high", "%way = add i32 0, -1")
_DOWN = ("%wrong = or i1 %too_high, false", "%way = select i1 %negative, i32 1, i32 -1")

_PAIR64 = "%joined = call { i64, i64 } @tg.split(i128 %value)", "ret { i64, i64 } %joined"


def _join(name: str, low: str, high: str) -> tuple[str, ...]:
    return (
        f"%{name}.low = zext i64 {low} to i128", f"%{name}.high = zext i64 {high} to i128",
        f"%{name}.up = shl i128 %{name}.high, 64", f"%{name} = or i128 %{name}.up, %{name}.low",
    )  # fmt: skip


_DEFINITIONS: dict[str, str] = dict(
    [
        *[_arithmetic(f"tg.nvvm.{n}", f"f{n[:3]}", "double") for n in ("add.rn.d", "mul.rn.d")],
        *[_arithmetic(f"tg.nvvm.{n}", f"f{n[:3]}", "float") for n in ("add.rn.f", "mul.rn.f", "div.rn.f")],
        *[_arithmetic(f"tg.nvvm.div.approx{ftz}.f", "fdiv", "float") for ftz in ("", ".ftz")],
        _arithmetic("tg.sub.f", "fsub", "float"),
        _flush("tg.flush.f", "float", "f32", "0x3810000000000000"),
        _flush("tg.flush.d", "double", "f64", "0x0010000000000000"),
        _define("double", "tg.inverse", "double %x", "%r = fdiv double 1.0, %x", "ret double %r"),
        _define(
            "double", "tg.inverse_root", "double %x",
            "%root = call double @llvm.sqrt.f64(double %x)", "%r = fdiv double 1.0, %root", "ret double %r",
        ),
        _approximation("tg.rcp.f", "tg.inverse"),
        _approximation("tg.rsqrt.f", "tg.inverse_root"),
        *[_approximation(f"tg.nvvm.ex2.approx.{kind}", "llvm.exp2.f64") for kind in ("f32", "f")],  # LLVM 20's is "f"
        _approximation("tg.nvvm.lg2.approx.f", "llvm.log2.f64"),
        _flushed("tg.nvvm.rcp.approx.ftz.f", "tg.rcp.f"),
        _flushed("tg.nvvm.rsqrt.approx.ftz.f", "tg.rsqrt.f"),
        *[_flushed(f"tg.nvvm.ex2.approx.ftz.{kind}", f"tg.nvvm.ex2.approx.{kind}") for kind in ("f32", "f")],
        _flushed("tg.nvvm.lg2.approx.ftz.f", "tg.nvvm.lg2.approx.f"),
        _upper_half("tg.nvvm.rcp.approx.ftz.d", "tg.inverse"),
        _upper_half("tg.nvvm.rsqrt.approx.ftz.d", "tg.inverse_root"),
        _directed("tg.nvvm.fma.rz.f", *_TOWARDS_ZERO),
        _directed("tg.nvvm.fma.rm.f", *_DOWN),
        _define(
            "float", "tg.nvvm.add.rz.f", "float %x, float %y",
            "%r = call float @tg.nvvm.fma.rz.f(float %x, float 1.0, float %y)", "ret float %r",
        ),
        # of a NaN: zero from float32 to 32 bits, else the lowest integer
        _to_integer("tg.nvvm.d2i.rn", "double", "i32", "roundeven", -(2**31)),
        _to_integer("tg.nvvm.f2i.rn", "float", "i32", "roundeven", 0),
        _to_integer("tg.nvvm.f2i.rz", "float", "i32", "trunc", 0),
        _to_integer("tg.nvvm.d2ll.rz", "double", "i64", "trunc", -(2**63)),
        _define(
            "float", "tg.nvvm.saturate.f", "float %x",  # NaN becomes 0
            "%above = fcmp ogt float %x, 0.0", "%low = select i1 %above, float %x, float 0.0",
            "%below = fcmp olt float %low, 1.0", "%r = select i1 %below, float %low, float 1.0", "ret float %r",
        ),
        _define(
            "i32", "tg.nvvm.d2i.lo", "double %x",
            "%bits = bitcast double %x to i64", "%r = trunc i64 %bits to i32", "ret i32 %r",
        ),
        _define(
            "i32", "tg.nvvm.d2i.hi", "double %x",
            "%bits = bitcast double %x to i64", "%up = lshr i64 %bits, 32", "%r = trunc i64 %up to i32", "ret i32 %r",
        ),
        _define(
            "double", "tg.nvvm.lohi.i2d", "i32 %low, i32 %high",
            "%l = zext i32 %low to i64", "%h = zext i32 %high to i64", "%up = shl i64 %h, 32",
            "%bits = or i64 %up, %l", "%r = bitcast i64 %bits to double", "ret double %r",
        ),
        *[
            _define(
                kind, f"tg.{name}.{kind}", f"{kind} %x, {kind} %n",
                f"%far = icmp uge {kind} %n, {kind[1:]}", f"%near = and {kind} %n, {int(kind[1:]) - 1}",
                f"%shifted = {name} {kind} %x, %near",
                f"%r = select i1 %far, {kind} 0, {kind} %shifted", f"ret {kind} %r",
            )
            for name in ("shl", "lshr")
            for kind in ("i32", "i64")
        ],
        _define(
            "double", "tg.choose", "double %x, double %y, double %a, double %b",
            "%same = fcmp ueq double %x, %y", "%r = select i1 %same, double %a, double %b", "ret double %r",
        ),
        _define(
            "{ i64, i64 }", "tg.split", "i128 %value",
            "%low = trunc i128 %value to i64", "%up = lshr i128 %value, 64", "%high = trunc i128 %up to i64",
            "%one = insertvalue { i64, i64 } undef, i64 %low, 0",
            "%both = insertvalue { i64, i64 } %one, i64 %high, 1", "ret { i64, i64 } %both",
        ),
        _define(
            "{ i64, i64 }", "tg.mul128", "i64 %x, i64 %y",
            *_join("a", "%x", "0"), *_join("b", "%y", "0"), "%value = mul i128 %a, %b", *_PAIR64,
        ),
        _define(
            "{ i64, i64 }", "tg.mad128", "i64 %x, i64 %y, i64 %z",
            *_join("a", "%x", "0"), *_join("b", "%y", "0"), *_join("c", "%z", "0"),
            "%product = mul i128 %a, %b", "%value = add i128 %product, %c", *_PAIR64,
        ),
        *[
            _define(
                "{ i64, i64 }", f"tg.{operation}128", "i64 %x0, i64 %x1, i64 %y0, i64 %y1",
                *_join("a", "%x0", "%x1"), *_join("b", "%y0", "%y1"), f"%value = {operation} i128 %a, %b", *_PAIR64,
            )
            for operation in ("add", "sub")
        ],
        _define(
            "{ i32, i32 }", "tg.mad64", "i32 %x, i32 %y, i32 %z",
            "%a = zext i32 %x to i64", "%b = zext i32 %y to i64", "%c = zext i32 %z to i64",
            "%product = mul i64 %a, %b", "%value = add i64 %product, %c",
            "%low = trunc i64 %value to i32", "%up = lshr i64 %value, 32", "%high = trunc i64 %up to i32",
            "%one = insertvalue { i32, i32 } undef, i32 %low, 0",
            "%both = insertvalue { i32, i32 } %one, i32 %high, 1", "ret { i32, i32 } %both",
        ),
    ]
)  # fmt: skip
