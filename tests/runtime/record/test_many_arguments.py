"""Functions of thousands of arguments: what is made for a call takes one walk over them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tracegrad import compile_grad
from tracegrad.codegen.cpu import program
from tracegrad.runtime.record import differentiable
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
