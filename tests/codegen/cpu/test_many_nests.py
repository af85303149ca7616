"""Programs of many similar steps: the code does not grow with their number, and each gets its own numbers."""

from __future__ import annotations

import re

import llvmlite.ir as ir
import numpy as np
import pytest
from selection import some

from tracegrad import compile_grad
from tracegrad.codegen.cpu import jit
from tracegrad.codegen.cpu.hints import hints_by_name

RNG = np.random.default_rng(5)


def sums(ws):
    return sum(np.sum(w) for w in ws)


def norms(ws):
    return sum(np.sum(w**2) * (k + 1.5) for k, w in enumerate(ws))


def rows(ws):
    return sum(np.sum(np.max(w, axis=1) * 1.25) for w in ws)


def waves(ws):
    return sum(np.sum(np.sin(w * (0.3 + k)) / len(w)) for k, w in enumerate(ws))


def halves(ws):
    return sum(np.sum((w * np.float32(k + 0.5)).astype(np.float16).astype(np.float32)) for k, w in enumerate(ws))


def differences(ws):
    return sum(np.sum(np.diff(w) ** 2) for w in ws)


def vectors(count):
    return [RNG.normal(size=3 + k % 7) for k in range(count)]


PROGRAMS = {
    "sums": (sums, vectors),
    "norms": (norms, vectors),
    "rows": (rows, lambda count: [RNG.normal(size=(2 + k % 5, 19)) for k in range(count)]),
    "waves": (waves, vectors),
    "halves": (halves, lambda count: [RNG.normal(size=3 + k % 7).astype(np.float32) for k in range(count)]),
    "differences": (differences, vectors),
}


@pytest.fixture
def functions(monkeypatch, fresh_kernels):
    """How many functions each module that is compiled has."""
    found = []
    real = jit.compile_text
    counted = re.compile(r"^define ", re.MULTILINE)
    monkeypatch.setattr(jit, "compile_text", lambda t, name: (found.append(len(counted.findall(t))), real(t, name))[1])
    return found


@pytest.mark.parametrize("name", some(PROGRAMS, quick=1))
def test_steps_that_differ_in_numbers_alone_are_one_function(name, functions):
    program, arguments = PROGRAMS[name]
    made = []
    for count in (100, 160):
        ws = arguments(count)
        functions.clear()
        value, gradients = compile_grad(program).value_and_grad(ws)
        made.append(max(functions))
        np.testing.assert_allclose(value, program(ws), rtol=3e-3 if name == "halves" else 1e-12)
        few = compile_grad(program).grad(ws[:6])
        for g, expected in zip(gradients[:6], few, strict=True):
            np.testing.assert_allclose(g, expected, rtol=3e-3 if name == "halves" else 1e-12, atol=1e-12)
        if name != "halves":
            ahead = [RNG.normal(size=w.shape) for w in ws]
            above, below = (program([w + h * d for w, d in zip(ws, ahead, strict=True)]) for h in (1e-6, -1e-6))
            slope = sum(np.sum(g * d) for g, d in zip(gradients, ahead, strict=True))
            np.testing.assert_allclose(slope, (above - below) / 2e-6, rtol=1e-5, atol=1e-6)
    assert max(made) < 4 * 20  # a nest is up to four: its own, two that divide it, one for a chunk


def test_nests_with_other_hints_are_other_functions():
    module = ir.Module("hints")
    texts = []
    for hint in ("simple", "scalar", "simple"):
        mark = module.add_metadata([ir.MetaDataString(module, f"tg.loop.{hint}.{len(texts)}")])
        texts.append(hints_by_name(f"br label %x, !llvm.loop !{mark.name}", module))
    assert texts[0] == texts[2] != texts[1]


def test_no_loop_of_a_large_module_is_unrolled(monkeypatch):
    """LLVM would take minutes over many short ones."""
    text = """define i64 @short(ptr %x) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  store volatile i32 19088743, ptr %x
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 5
  br i1 %more, label %loop, label %done
done:
  ret i64 0
}"""
    stored = (19088743).to_bytes(4, "little")
    assert jit.object_code(text, "small").count(stored) == 5
    monkeypatch.setattr(jit, "LARGE", 5)
    assert jit.object_code(text, "large").count(stored) == 1
