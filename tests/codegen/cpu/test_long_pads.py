"""Loops of known length that read through pads are written out: the columns of a table whose slices part."""

from __future__ import annotations

import re

import numpy as np

from tracegrad import compile_grad
from tracegrad.codegen.cpu import jit


def error(table, points):
    """A camera of eleven numbers for each point."""
    seen = np.sin(table[:, :3]) * (points - table[:, 3:6])
    place = seen[:, :2] / (2.0 + seen[:, 2:] ** 2)
    square = np.sum(place**2, axis=1, keepdims=True)
    distorted = place * (1.0 + table[:, 9:10] * square + table[:, 10:] * square**2)
    return np.sum((distorted * table[:, 6:7] + table[:, 7:9]) ** 2)


def test_columns_of_a_table(monkeypatch):
    texts = []
    compile_text = jit.compile_text
    monkeypatch.setattr(jit, "compile_text", lambda text, name: texts.append(text) or compile_text(text, name))
    compiled, rng = compile_grad(error), np.random.default_rng(0)
    for rows in (1, 7, 64, 100):
        table, points = rng.uniform(0.5, 1.0, (rows, 11)), rng.normal(size=(rows, 3))
        _, gradient = compiled.value_and_grad(table, points)
        move = rng.normal(size=table.shape)
        slope = (error(table + 1e-6 * move, points) - error(table - 1e-6 * move, points)) / 2e-6
        np.testing.assert_allclose(np.sum(gradient * move), slope, rtol=1e-6)
    assert texts and not any(re.search(r'icmp slt i64 %"[^"]+", 11\b', text) for text in texts)
