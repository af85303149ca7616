"""Functions of thousands of arguments: what is made for a call takes one walk over them."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np

from tracegrad import compile_grad
from tracegrad.codegen.cpu import program
from tracegrad.runtime.record import call_key, differentiable
from tracegrad.tracer.ir import gc_pause


class Counted(list):
    seen = 0

    def __iter__(self):
        for x in super().__iter__():
            Counted.seen += 1
            yield x


def test_each_owner_is_looked_at_once(monkeypatch):
    monkeypatch.setattr(differentiable, "packing", lambda source, spec, leaves: "".join(leaves))
    monkeypatch.setattr(differentiable, "_has_gradient", lambda leaf, kind: True)
    count = 300
    call = SimpleNamespace(
        positional=[None] * count, owners=Counted(range(count)), leaves=[None] * count, kinds=[None] * count,
        repeated={},
    )  # fmt: skip
    mode = SimpleNamespace(positions=range(count), argnums=tuple(range(count)))
    text = differentiable.gradient_text(call, mode, None, iter([f"g{k}" for k in range(count)]))
    assert text == f"({', '.join(f'g{k}' for k in range(count))},)"
    assert Counted.seen == count


def test_the_structure_of_the_arguments_is_looked_up_a_few_times(monkeypatch, fresh_kernels):
    """All of them are hashed for it."""
    asked = []
    real = call_key._positional
    monkeypatch.setattr(call_key, "_positional", lambda tree: asked.append(tree) or real(tree))
    counts = []
    for n in (10, 60):
        asked.clear()
        compile_grad(lambda *p: sum(p) * p[0], argnums=tuple(range(n))).value_and_grad(*np.linspace(1, 2, n).tolist())
        counts.append(len(asked))
    assert counts[0] == counts[1]


def line_after_line(count):
    names = {"np": np}
    lines = [f"x = np.sin(x * 0.9) + np.cos({k} + x)" for k in range(count)]
    exec("def f(x):\n    " + "\n    ".join(lines) + "\n    return x\n", names)
    return names["f"]


def test_the_collector_runs_seldom_in_a_first_call(fresh_kernels):
    f, passes = line_after_line(300), []
    compile_grad(line_after_line(1)).value_and_grad(0.5)  # what is imported then
    count = lambda phase, info: passes.append(info) if phase == "start" else None  # noqa: E731
    gc.collect()
    gc.callbacks.append(count)
    try:
        compile_grad(f).value_and_grad(0.5)
    finally:
        gc.callbacks.remove(count)
    assert len(passes) < 10  # a pass for 700 objects would be fifty


def test_full_collections_are_not_due_earlier(monkeypatch):
    """For what has been counted before a recording began."""
    monkeypatch.setattr(gc_pause.gc, "get_count", lambda: (5, 3, 8))
    before = gc.get_threshold()
    with gc_pause.fewer_collections():
        assert gc.get_threshold() == (gc_pause.OBJECTS, before[1], before[2] + 8)
    assert gc.get_threshold() == before


def test_the_collector_runs_less_often_while_a_kernel_is_made(monkeypatch, fresh_kernels):
    thresholds = []
    assemble = program._assemble()
    real = assemble.assembled

    def assembled(*args):
        thresholds.append(gc_pause.gc.get_threshold()[0])
        return real(*args)

    monkeypatch.setattr(assemble, "assembled", assembled)
    compile_grad(lambda x: np.sum(np.sin(x) * 1.5 + x**3)).value_and_grad(np.ones(3))
    assert thresholds
    assert min(thresholds) >= gc_pause.OBJECTS
