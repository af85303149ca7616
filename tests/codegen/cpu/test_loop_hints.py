"""Loops tell LLVM how they are to be compiled: what it does by itself is much code for loops of unknown length."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tracegrad import compile_grad
from tracegrad.codegen.cpu import jit

LOOP = re.compile(r"^  br i1 .*label %\"loop[.\d]*\".*, !llvm\.loop !(\d+)$", re.MULTILINE)


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch, compiled_anew: None) -> list[str]:
    """The modules that are compiled from here on."""
    found: list[str] = []
    object_code = jit.object_code
    monkeypatch.setattr(jit, "object_code", lambda text, *rest: found.append(text) or object_code(text, *rest))
    return found


@pytest.mark.parametrize(
    "f", [lambda x: np.sum(x * x), lambda x: np.max(x + 1.0), lambda x: np.sum(np.sum(x * 2.0, axis=0) ** 2)]
)
def test_no_loop_of_unknown_length_is_unrolled(texts, f):
    compile_grad(f)(np.ones((30, 40)))
    numbers = [number for text in texts for number in LOOP.findall(text)]
    marks = [re.search(rf"^!{n} = (.*)$", text, re.MULTILINE) for text in texts for n in LOOP.findall(text)]
    assert numbers
    assert all(mark and "unroll." in mark[1] and "disable" in mark[1] for mark in marks)
