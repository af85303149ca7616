"""From LLVM IR to PTX and machine code: the dialect, the compiler, the assembler's report.  No GPU is needed."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import llvmlite.ir as ir
import numpy as np
import pytest
from support import native

from tracegrad.codegen.cpu import jit
from tracegrad.codegen.cpu.scalar import F64, I8, I32, I64, PTR
from tracegrad.tracer.ir.errors import DeviceError

pytest.importorskip("cuda.bindings.nvvm", reason="numba-cuda is not installed")
from benchmarks.ptx_report import instruction_mix, parsed, resources
from tracegrad.codegen.cuda import nvvm_ir, ptx

VOID = ir.VoidType()
TARGETS = pytest.mark.parametrize("cc", [(8, 0), (9, 0), (10, 0)], ids=str)


def function(module: ir.Module, name: str, result: ir.Type, *args: ir.Type) -> ir.Function:
    return ir.Function(module, ir.FunctionType(result, args), name)


def thread_number(b: ir.IRBuilder) -> ir.Value:
    return b.zext(b.call(function(b.module, "llvm.nvvm.read.ptx.sreg.tid.x", I32), []), I64)


def everything() -> str:
    """A kernel with one of each thing that the two dialects spell differently."""
    module = ir.Module("everything")
    kernel = function(module, "kernel", VOID, PTR, PTR, PTR)
    kernel.args[0].add_attribute("noalias")
    kernel.attributes.add("noinline")
    shared = ir.GlobalVariable(module, ir.ArrayType(F64, 256), "shared", addrspace=3)
    shared.linkage, shared.initializer = "internal", ir.Constant(ir.ArrayType(F64, 256), ir.Undefined)
    helper = function(module, "helper", F64, F64, PTR)
    helper.linkage = "internal"
    helper.attributes.add("noinline")
    h = ir.IRBuilder(helper.append_basic_block("ptr"))  # a name that is also a type's
    h.ret(h.fadd(helper.args[0], h.load(helper.args[1], typ=F64)))

    b = ir.IRBuilder(kernel.append_basic_block("entry"))
    source, out, counts = kernel.args
    t = thread_number(b)
    slots = b.alloca(F64, 4)
    x = b.load(b.gep(source, [t], source_etype=F64, inbounds=True), typ=F64)
    x.set_metadata("invariant.load", module.add_metadata([]))
    b.store(b.fneg(x), b.gep(shared, [I64(0), t]))
    b.call(function(module, "llvm.nvvm.barrier0", VOID), [])
    anywhere = b.addrspacecast(b.gep(shared, [I64(0), b.xor(t, I64(1))]), PTR)
    y = b.load(anywhere, typ=F64)
    b.store(y, b.gep(slots, [b.and_(t, I64(3))]))
    largest = b.call(function(module, "llvm.maximum.f64", F64, F64, F64), [x, y])
    row = b.load(b.gep(out, [t], source_etype=PTR), typ=PTR)  # an array of pointers
    chosen = b.select(b.icmp_unsigned("==", row, ir.Constant(PTR, None)), source, row)
    left, right, joined = (b.append_basic_block(name) for name in ("left", "right", "joined"))
    b.cbranch(b.icmp_signed("<", t, I64(4)), left, right)
    b.position_at_end(left)
    b.atomic_rmw("add", counts, I64(1), "monotonic")
    b.atomic_rmw("fadd", row, largest, "monotonic")
    b.cmpxchg(counts, I64(1), I64(2), "monotonic", "monotonic")
    b.branch(joined)
    b.position_at_end(right)
    b.branch(joined)
    b.position_at_end(joined)
    place = b.phi(PTR)
    place.add_incoming(chosen, left)
    place.add_incoming(ir.Constant(PTR, None), right)
    again = b.inttoptr(b.ptrtoint(place, I64), PTR)
    total = b.fadd(b.call(helper, [b.load(slots, typ=F64), again]), b.fma(x, y, largest))
    b.store(total, b.gep(row, [t], source_etype=F64))
    b.ret_void()
    return str(module)


def sequential(name: str) -> str:
    """A function with loads, stores, atomics, arrays on the stack and pointers in variables, for one thread."""
    module = ir.Module("sequential")
    kernel = function(module, name, VOID, PTR, PTR, PTR)
    b = ir.IRBuilder(kernel.append_basic_block("entry"))
    source, out, counts = kernel.args
    table = ir.GlobalVariable(module, ir.ArrayType(I64, 3), f"{name}_table")
    table.linkage, table.initializer = "internal", ir.Constant(ir.ArrayType(I64, 3), [I64(k) for k in (5, 6, 7)])
    matrix = ir.ArrayType(ir.ArrayType(F64, 4), 4)
    slots, pointers, flags = b.alloca(matrix), b.alloca(PTR, 2), b.alloca(I8, 4)
    for k, pointer in enumerate((source, out)):
        b.store(pointer, b.gep(pointers, [I64(k)], source_etype=PTR))
    body, then, after, done = (b.append_basic_block(n) for n in ("body", "then", "after", "done"))
    entry = b.block
    b.branch(body)
    b.position_at_end(body)
    i, place = b.phi(I64), b.phi(PTR)
    x = b.load(place, typ=F64)
    row, column = b.udiv(i, I64(4)), b.urem(i, I64(4))
    cell = b.gep(slots, [I64(0), row, column])
    b.store(b.fneg(x), cell)
    b.store(b.zext(b.fcmp_unordered("uno", x, x), I8), b.gep(flags, [column]))
    following = b.gep(place, [I64(1)], source_etype=F64, inbounds=True)
    y = b.load(following, typ=F64)
    largest = b.call(function(module, "llvm.maximum.f64", F64, F64, F64), [x, y])
    smallest = b.call(function(module, "llvm.minimum.f64", F64, F64, F64), [x, y])
    target = b.load(b.gep(pointers, [I64(1)], source_etype=PTR), typ=PTR)
    for k, value in enumerate((largest, smallest, b.load(cell, typ=F64))):
        b.store(value, b.gep(target, [b.add(b.mul(i, I64(3)), I64(k))], source_etype=F64))
    b.cbranch(b.fcmp_ordered("<", x, y), then, after)
    b.position_at_end(then)
    b.atomic_rmw("add", counts, b.load(b.gep(table, [I64(0), b.urem(i, I64(3))]), typ=I64), "monotonic")
    b.atomic_rmw("fadd", b.gep(counts, [I64(1)], source_etype=F64), y, "monotonic")
    b.cmpxchg(b.gep(counts, [I64(2)], source_etype=I64), I64(0), i, "monotonic", "monotonic")
    b.branch(after)
    b.position_at_end(after)
    set_flag = b.load(b.gep(flags, [column]), typ=I8)
    b.atomic_rmw("add", b.gep(counts, [I64(3)], source_etype=I64), b.zext(set_flag, I64), "monotonic")
    next_place = b.select(b.icmp_unsigned("==", place, ir.Constant(PTR, None)), place, following)
    again = b.add(i, I64(1))
    i.add_incoming(I64(0), entry)
    i.add_incoming(again, b.block)
    place.add_incoming(source, entry)
    place.add_incoming(next_place, b.block)
    b.cbranch(b.icmp_signed("<", again, I64(len(NUMBERS) - 1)), body, done)
    b.position_at_end(done)
    b.ret_void()
    return str(module)


NUMBERS = np.array([1.0, 2.5, 2.5, -0.0, 0.0, -0.0, np.nan, 3.0, np.nan, np.inf, -np.inf, 5e-324, -7.0])


def test_the_translation_computes_the_same():
    results = []
    for translate in (lambda text: text, lambda text: nvvm_ir.to_nvvm(text, []).replace(nvvm_ir.HEAD, "")):
        name = "sequential"  # LLVM 22 reads the older dialect, too
        compiled = jit.compile_text(translate(sequential(name)), name).load()
        out, counts = np.zeros(3 * (NUMBERS.size - 1)), np.zeros(4, np.int64)
        run = native(compiled, name, None, *[ctypes.c_void_p] * 3)
        run(NUMBERS.ctypes.data, out.ctypes.data, counts.ctypes.data)
        results.append((np.isnan(out), np.nan_to_num(out).view(np.int64), counts))
    for plain, translated in zip(*results, strict=True):
        np.testing.assert_array_equal(plain, translated)
    assert results[0][2][0] > 0 and results[0][2][3] == 2


def called(name: str) -> str:
    """A kernel that applies the function *name* to one number."""
    module = ir.Module("called")
    kernel = function(module, "kernel", VOID, PTR)
    b = ir.IRBuilder(kernel.append_basic_block("entry"))
    x = b.load(kernel.args[0], typ=F64)
    b.store(b.call(function(module, name, F64, F64), [x]), kernel.args[0])
    b.ret_void()
    return str(module)


@TARGETS
def test_everything_is_translated(cc):
    found = ptx.compile_ptx(everything(), ["kernel"], cc)
    assert f".target sm_{cc[0]}{cc[1]}" in found and ".visible .entry kernel(" in found
    mix = instruction_mix(found)
    assert mix["load.global"] >= 1 and mix["store.shared"] >= 1 and mix["sync"] >= 4
    assert "ld.global.nc" in found, "an argument that nothing else points to is read through the read-only cache"
    cubin, log = ptx.assemble(found, cc)
    assert cubin[:4] == b"\x7fELF"
    needs = parsed(log)["kernel"]
    assert needs.shared == 256 * 8 and needs.local == 32 and 0 < needs.registers < 256
    assert not needs.spill_loads and not needs.spill_stores


def test_multiplication_and_addition_are_not_contracted():
    module = ir.Module("contraction")
    kernel = function(module, "kernel", VOID, PTR)
    b = ir.IRBuilder(kernel.append_basic_block("entry"))
    x = b.load(kernel.args[0], typ=F64)
    b.store(b.fdiv(b.fadd(b.fmul(x, x), x), x), kernel.args[0])
    b.ret_void()
    found = ptx.compile_ptx(str(module), ["kernel"])
    assert "mul.rn.f64" in found and "add.rn.f64" in found and "div.rn.f64" in found and "fma" not in found
    mix = instruction_mix(found)
    assert (mix["fp64"], mix["special"], mix["load.global"], mix["store.global"]) == (2, 1, 1, 1)


def test_the_most_threads_of_a_block_bound_the_registers():
    module = ir.Module("wide")
    kernel = function(module, "kernel", VOID, PTR, PTR)
    b = ir.IRBuilder(kernel.append_basic_block("entry"))
    at = [b.gep(kernel.args[0], [I64(k)], source_etype=F64) for k in range(100)]
    values = [b.load(place, typ=F64) for place in at]
    b.call(function(module, "llvm.nvvm.barrier0", VOID), [])
    for k, value in enumerate(values):
        b.store(value, b.gep(kernel.args[1], [I64(k)], source_etype=F64))
    b.ret_void()
    free = resources(ptx.compile_ptx(str(module), ["kernel"]))["kernel"]
    bound = resources(ptx.compile_ptx(str(module), ["kernel"], max_threads=1024))["kernel"]
    assert free.registers > 64 >= bound.registers
    assert bound.spill_stores > 0 and bound.spill_loads > 0 and bound.local > 0


def test_two_kernels_in_a_module():
    module = ir.Module("two")
    for name in ("first", "second"):
        kernel = function(module, name, VOID, PTR)
        b = ir.IRBuilder(kernel.append_basic_block("entry"))
        b.store(thread_number(b) if name == "first" else I64(1), kernel.args[0])
        b.ret_void()
    found = ptx.compile_ptx(str(module), ["first", "second"])
    assert set(resources(found)) == {"first", "second"}


def test_loop_metadata_is_kept_apart_from_that_of_kernels():
    text = """
    define void @kernel(ptr %p, i64 %n) {
    entry:
      br label %loop
    loop:
      %i = phi i64 [ 0, %entry ], [ %next, %loop ]
      %place = getelementptr [2 x float], ptr %p, i64 %i, i64 1
      store float 0x3FF8000000000000, ptr %place, align 4
      %next = add nuw nsw i64 %i, 1
      %more = icmp slt i64 %next, %n
      br i1 %more, label %loop, label %done, !llvm.loop !0
    done:
      ret void
    }
    !0 = distinct !{!0, !1}
    !1 = !{!"llvm.loop.unroll.disable"}
    """
    assert ptx.compile_ptx(text, ["kernel"]).count("st.global") == 1


def test_half_precision():
    text = """
    define void @kernel(ptr %p) {
      %x = load half, ptr %p, align 2
      %wide = fpext half %x to float
      %minus = fneg half %x
      %sum = fmul half %minus, %x
      %place = getelementptr inbounds half, ptr %p, i64 3
      store half %sum, ptr %place, align 2
      store float %wide, ptr %p, align 4
      ret void
    }
    """
    found = ptx.compile_ptx(text, ["kernel"], (8, 0))
    assert instruction_mix(found)["fp16"] == 2 and "cvt.f32.f16" in found and "st.global.b16" in found


def test_errors():
    with pytest.raises(DeviceError, match="no kernel 'other'"):
        nvvm_ir.to_nvvm(everything(), ["other"])
    with pytest.raises(DeviceError, match="no LLVM IR"):
        nvvm_ir.to_nvvm("define void @kernel( {", ["kernel"])
    with pytest.raises(DeviceError, match="no such functions on the device: betainc"):
        ptx.compile_ptx(called("betainc"), ["kernel"])
    with pytest.raises(DeviceError, match="libNVVM refuses"):
        ptx.compile_ptx(called("__nv_exp"), ["kernel"], cc=(1, 0))
    with pytest.raises(DeviceError, match="the assembler refuses"):
        ptx.assemble("no assembly")


@pytest.mark.slow
def test_numba_cudas_own_wrapper_gives_the_same_ptx(monkeypatch):
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)  # simulating, numba puts a fake in the wrapper's place
    program = (
        "import sys\n"
        "from numba.cuda.cudadrv import nvvm\n"
        "options = dict(arch='compute_90', opt=3, fma=0, prec_div=1, prec_sqrt=1, ftz=0)\n"
        "sys.stdout.write(nvvm.compile_ir(sys.stdin.read(), **options).decode())\n"
    )
    source = nvvm_ir.to_nvvm(called("__nv_exp"), ["kernel"])
    done = subprocess.run([sys.executable, "-c", program], input=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\0\n ") == ptx.compile_ptx(called("__nv_exp"), ["kernel"])


@pytest.mark.slow
def test_what_is_missing_is_named():
    program = (
        "import sys\n"
        "sys.modules['cuda.bindings'] = None\n"
        "from tracegrad import TracegradError\n"
        "try:\n"
        "    import tracegrad.codegen.cuda.ptx\n"
        "except TracegradError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'tracegrad[cuda]'" in done.stdout, done.stderr


def test_nothing_of_it_is_imported_before_it_is_used():
    program = (
        "import sys, tracegrad\n"
        "print([m for m in sys.modules if m.startswith(('tracegrad.codegen.cuda', 'cuda.', 'numba.cuda'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
