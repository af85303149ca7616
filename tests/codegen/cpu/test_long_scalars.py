"""Long programs of scalars: functions of a bounded size, and in memory what several of them read."""

from __future__ import annotations

import re

import llvmlite.ir as ir
import numpy as np
import pytest
from one_by_one import reduced

from tracegrad import compile_grad
from tracegrad.codegen.cpu import assemble, jit, loop_node
from tracegrad.codegen.schedule import functions, schedule
from tracegrad.runtime.launch.kernel_cache import kernels

LINES = ("{a} = {a}*{b} + np.sin({c})", "{b} = 0.5*{b} - {c}*np.tanh({a})", "{c} = np.cos({c} - {a}*{b})")


def function_of(lines, arguments="a, b, c", result="a + b*c"):
    names = {"np": np}
    exec(f"def f({arguments}):\n    " + "\n    ".join(lines) + f"\n    return {result}\n", names)
    return names["f"]


def straight_line(n):
    lines = [LINES[k % 3].format(a="abc"[k % 3], b="abc"[(k + 1) % 3], c="abc"[(k + 2) % 3]) for k in range(n)]
    return function_of(lines), (0.3, 0.4, 0.5), (0, 1, 2)


def parameters(n):
    lines = ["s = 0.0", *[f"s = s + p{k}*np.sin(p{(7 * k + 1) % n})" for k in range(n)]]
    f = function_of(lines, ", ".join(f"p{k}" for k in range(n)), "s")
    return f, tuple(np.linspace(0.1, 0.9, n).tolist()), tuple(range(n))


def numbers(n):
    def f(values):
        return reduced(lambda total, x: total + x * np.sin(x), values, 0.0)

    return f, (np.linspace(0.1, 0.9, n).tolist(),), 0


def rows(n):
    def f(values):
        total = 0.0
        for x in values:
            total = total + x * np.sin(x)
        return total

    return f, (np.linspace(0.1, 0.9, n).tolist(),), 0


def arrays(n):
    def f(values):
        total = 0.0
        for x in values:
            total = total + np.sum(x * np.sin(x))
        return total

    return f, ([np.linspace(0.1, 0.9, 3) * k for k in range(n)],), 0


PROGRAMS = {
    "lines": (straight_line, 300), "parameters": (parameters, 400), "numbers": (numbers, 400), "arrays": (arrays, 200),
}  # fmt: skip


@pytest.fixture
def sizes(monkeypatch, fresh_kernels):
    """The lines of each function that is compiled, without LLVM's optimiser."""
    found = []
    real = jit.compile_text

    def compile_text(text, name):
        found.extend(part.count("\n") for part in re.split(r"^define ", text, flags=re.MULTILINE)[1:])
        return real(text, name)

    monkeypatch.setattr(jit, "compile_text", compile_text)
    monkeypatch.setattr(jit.optimiser, "level", 0)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_do_not_grow_with_the_program(name, sizes):
    make, n = PROGRAMS[name]
    largest, all_lines = [], []
    for count in (2 * n, 4 * n):
        sizes.clear()
        f, args, argnums = make(count)
        value, _ = compile_grad(f, argnums=argnums).value_and_grad(*args)
        np.testing.assert_allclose(value, f(*args), rtol=1e-10)
        largest.append(max(sizes))
        all_lines.append(sum(sizes))
    assert largest[1] < 1.2 * largest[0] < 8_000
    assert all_lines[1] < 2.4 * all_lines[0]  # the first function reads nothing that others made


@pytest.mark.slow
def test_numbers_are_stacked_piece_by_piece(sizes):
    largest = []
    for count in (1600, 3200):
        sizes.clear()
        f, args, argnums = rows(count)
        value, _ = compile_grad(f, argnums=argnums).value_and_grad(*args)
        np.testing.assert_allclose(value, f(*args), rtol=1e-10)
        largest.append(max(sizes))
    assert largest[0] == largest[1]


def test_functions_of_many_values_are_not_shared(sizes, monkeypatch):
    """Two like ones with a thousand buffers would be one of a thousand arguments."""
    texts = []
    real = jit.compile_text
    monkeypatch.setattr(jit, "compile_text", lambda text, name: texts.append(text) or real(text, name))
    monkeypatch.setattr(functions, "MAX_VALUES", 60)
    most = []
    for alike in (10, 1000):
        kernels.clear()
        monkeypatch.setattr(loop_node, "MOST_ALIKE", alike)
        f, args, argnums = parameters(100)
        value, _ = compile_grad(f, argnums=argnums).value_and_grad(*args)
        np.testing.assert_allclose(value, f(*args), rtol=1e-10)
        most.append(max(line.count("noalias") for line in texts[-1].splitlines() if line.startswith("define ")))
    assert most[0] < 5 < 20 < most[1]


def test_what_is_written_is_text(monkeypatch, fresh_kernels):
    """Instructions refer to each other in circles, and the garbage collector goes over all that are left."""
    left = []
    real = assemble._CpuAssembler.emit

    def emit(self):
        steps = real(self)
        functions = [f for f in self.module.globals.values() if isinstance(f, ir.Function)]
        left.append(sum(len(block.instructions) for f in functions for block in f.blocks))
        return steps

    monkeypatch.setattr(assemble._CpuAssembler, "emit", emit)
    monkeypatch.setattr(jit.optimiser, "level", 0)
    f, args, argnums = straight_line(300)
    value, _ = compile_grad(f, argnums=argnums).value_and_grad(*args)
    np.testing.assert_allclose(value, f(*args), rtol=1e-10)
    assert left
    assert left[0] < 300


def branching(x, y):
    """Scalars of several dtypes, sums of arrays between them, and branches on both."""
    total = 0.0
    for k in range(30):
        a = x[k % 5] * (0.1 + k) + np.float32(0.25)
        if a > 1.3 + 0.1 * k:
            total = total + np.sum(y * a) * x[1]
        b = np.where(a > total, np.sin(a), np.cos(total) * a)
        total = total * 0.5 + b * b - a / (1.0 + total * total)
    return total + np.sum(np.tanh(y * total))


def looped(x, y):
    total = np.sum(x)
    for k in range(40):
        total = total + np.sin(total * x[k % 5]) * y[k % 3]
    scale = total
    for _ in range(25):
        scale = np.tanh(scale * total) + x[0]
    return scale * np.sum(x * total) + np.sum(y) * scale


def checked_early(x, y):
    """A scalar that lies in front of a check and is read behind it, where statements in a row go on."""
    a = np.sin(x[0]) * x[1] + np.cos(x[2])
    b = a * a + x[3]
    if b > 0.1:
        c = np.tanh(a) * b + np.exp(-b)
        for k in range(12):
            c = c * a + np.sin(b * (k + 1)) if (k * k) % 5 < 2 else np.cos(c) - b
        return np.sum(np.sin(y * c)) * a + b
    return np.sum(y) * a


@pytest.mark.parametrize("f", [branching, looped, checked_early], ids=lambda f: f.__name__)
@pytest.mark.parametrize("most", [1, 7, 40])
def test_functions_of_any_size_give_the_same(f, most, monkeypatch, fresh_kernels):
    args = np.linspace(0.1, 0.9, 5), np.linspace(-0.4, 0.6, 3)
    whole = compile_grad(f, argnums=(0, 1)).value_and_grad(*args)
    kernels.clear()
    monkeypatch.setattr(functions, "MAX_VALUES", most)
    monkeypatch.setattr(assemble, "MAX_NAMED", 3 * most)
    monkeypatch.setattr(schedule.Placer, "most_scalars", 2)
    pieces = compile_grad(f, argnums=(0, 1)).value_and_grad(*args)
    np.testing.assert_allclose(pieces[0], whole[0], rtol=1e-13)
    for x, y in zip(pieces[1], whole[1], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)
    np.testing.assert_allclose(whole[0], f(*args), rtol=1e-13)


def test_scalars_of_one_function_have_no_memory(monkeypatch, fresh_kernels):
    found = []
    real = assemble.place_scalars
    monkeypatch.setattr(jit.optimiser, "level", 0)
    monkeypatch.setattr(assemble, "place_scalars", lambda *args: found.append(real(*args)) or found[-1])
    f, args, argnums = straight_line(40)
    compile_grad(f, argnums=argnums).value_and_grad(*args)
    assert not found[-1].places
    f, args, argnums = straight_line(600)
    compile_grad(f, argnums=argnums).value_and_grad(*args)
    assert found[-1].places
    assert found[-1].at_hand
