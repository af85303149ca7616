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


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.roll(x, 1) * np.roll(x, -1) + np.sin(x)),
        lambda x: np.sum(np.sin(np.concatenate([x[:1], x, x[-1:]])[1:]) ** 2),
    ],
)
def test_the_ends_of_rolls_share_one_loop(texts, f):
    """The middle has a loop of its own, and all that is at the ends one more."""
    x = np.linspace(0.1, 2.0, 50)
    value, gradient = compile_grad(f).value_and_grad(x)
    assert value == pytest.approx(f(x))
    step = 1e-6 * np.eye(50)
    assert gradient == pytest.approx(np.array([(f(x + e) - f(x - e)) / 2e-6 for e in step]), abs=1e-7)
    pieces = [re.findall(r"^held[.\d]*:", part, re.MULTILINE) for text in texts for part in text.split("\ndefine ")]
    assert max(map(len, pieces)) == 2


def test_a_nest_that_comes_again_in_another_loop_is_written_once(texts):
    def smooth(p, times):
        for _ in range(times):
            p = (np.roll(p, 1) + np.roll(p, -1) + 2.0 * p) * 0.25 + np.tanh(p) * np.sin(p) / 9.0
        return p

    def twice(x):
        return np.sum(smooth(np.cos(smooth(x, 30)), 40))

    x = np.linspace(0.1, 2.0, 50)
    value, _ = compile_grad(twice).value_and_grad(x)
    assert value == pytest.approx(twice(x))
    bodies = [re.sub(r"\d+", "", part) for text in texts for part in text.split("\ndefine ") if part.count("\n") > 150]
    assert len(bodies) == len(set(bodies))
