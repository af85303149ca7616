"""Definitions of the kernels' ``INTRINSICS`` by NVVM intrinsics: the other half of a program's text."""

from __future__ import annotations

import re

from ..cpu.hints import ROLLED, finish_hints
from .program import CudaProgram
from .threads import INTRINSICS

_REGISTERS = {"tg_thread": "tid.x", "tg_threads": "ntid.x", "tg_block": "ctaid.x", "tg_blocks": "nctaid.x"}
_DEFINITIONS = """
@tg_memory = internal addrspace(3) global [64 x i64] undef, align 8

define internal ptr @tg_shared() alwaysinline nounwind {
  ret ptr addrspacecast (ptr addrspace(3) @tg_memory to ptr)
}

declare void @llvm.nvvm.barrier0() convergent nounwind

define internal void @tg_barrier() alwaysinline convergent nounwind {
  call void @llvm.nvvm.barrier0()
  ret void
}

declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32) convergent nounwind

define internal i32 @tg_shuffle(i32 %value, i32 %mask) alwaysinline convergent nounwind {
  %found = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %value, i32 %mask, i32 31)
  ret i32 %found
}
""" + "".join(
    f"""
declare i32 @llvm.nvvm.read.ptx.sreg.{register}() nounwind

define internal i32 @{name}() alwaysinline nounwind {{
  %found = call i32 @llvm.nvvm.read.ptx.sreg.{register}()
  ret i32 %found
}}
"""
    for name, register in _REGISTERS.items()
)
_DECLARED = re.compile(rf'^declare [^\n]*@"?(?:{"|".join(INTRINSICS)})"?\(.*\n', re.MULTILINE)


def device_text(program: CudaProgram) -> str:
    """The LLVM IR of *program*'s kernels for a GPU, with opaque pointers."""
    # hints for the CPU's vectoriser would only keep libNVVM from unrolling
    return _DECLARED.sub("", finish_hints(program.text, [ROLLED])) + _DEFINITIONS
