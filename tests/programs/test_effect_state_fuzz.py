"""Random programs with effects on state of many kinds: as plain Python, call after call, and nothing traced is left.

``effect_state_programs.py`` writes and judges them, and hunts from the command line.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import effect_state_programs
import numpy as np
import pytest
from effect_state_grammar import KINDS
from effect_state_programs import Call, EffectProgram, Node, minimal, program, quietly
from effect_state_python import EVERY_KIND
from selection import seeds

from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.runtime.state.snapshot import Snapshot
from tracegrad.tracer.record.array import TracedArray

BLOCK = 10


@pytest.mark.parametrize("start", seeds(90, quick=20, block=BLOCK))
def test_effect_state_programs(start):
    for seed in range(start, start + BLOCK):
        case = program(seed)
        verdict = quietly(case)
        if verdict.failed:
            pytest.fail(f"seed {seed}: {verdict.kind}: {verdict.text}\n{case.text}", pytrace=False)
    kernels.clear()


@pytest.mark.parametrize("start", seeds(60, quick=10, block=BLOCK))
def test_effect_state_steps(start):
    for seed in range(start, start + BLOCK):
        case = program(seed, steps=True)
        verdict = quietly(case)
        if verdict.failed:
            pytest.fail(f"seed {seed}: {verdict.kind}: {verdict.text}\n{case.text}", pytrace=False)
    kernels.clear()


@pytest.mark.parametrize("start", seeds(30, quick=10, block=BLOCK))
@pytest.mark.parametrize("family", ["long", "python", "all"])
def test_effect_state_families(family, start):
    """With loops that are long enough for loop nodes, and with Python's own constructs."""
    for seed in range(start, start + BLOCK):
        case = program(seed, family=family)
        verdict = quietly(case)
        if verdict.failed:
            pytest.fail(f"seed {seed}: {verdict.kind}: {verdict.text}\n{case.text}", pytrace=False)
    kernels.clear()


# ---- the tools themselves ------------------------------------------------------------------------------------------


def test_programs_are_varied():
    cases = [program(seed) for seed in range(200)]
    assert {kind for case in cases for kind in case.kinds} == {k for k in KINDS if KINDS[k].only != "tensors"}
    assert len({case.text for case in cases}) > 195
    assert len({case.result for case in cases}) > 20


def test_a_seed_is_a_program():
    assert program(3).text == program(3).text != program(4).text


def one(kind, *statements, result="s", mode="value", changes=()):
    calls = [Call(k % 2, 1, mode, dict(changes).get(k, "")) for k in range(4)]
    return EffectProgram(0, [kind], "function", [Node(s) for s in statements], result, calls)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_statement_is_python(kind):
    """None is there that plain Python can't run, which would be judged by its exception alone."""
    for text in (*EVERY_KIND[kind].statements, *EVERY_KIND[kind].changes):
        for word, value in (("NUM", "s"), ("INT", "k"), ("ARR", "y"), ("TEST", "(s > 0)")):
            text = text.replace(word, value)
        compile(one(kind, text).source("_0"), "one.py", "exec")


class Planted:
    """A stand-in for a compiled function: plain Python, with a fault."""

    def __init__(self, f, fault):
        self.f, self.fault, self.stats = f, fault, SimpleNamespace(live="")
        self.space = sys.modules["made_main_2"].__dict__

    def __call__(self, *args):
        return self.fault(self.space, self.f(*args))

    def grad(self, *args):
        self.f(*args)
        return 2.0 * args[0] + self.fault(self.space, 0.0)


def a_wrong_value(space, value):
    return value + 1e-2


def a_store_left_out(space, value):
    space["box"].h.pop()
    return value


def another_object(space, value):
    space["box"].h = list(space["box"].h)
    return value


def an_object_of_a_recording(space, value):
    space["box"].hidden = (lambda part: lambda: part)([object.__new__(TracedArray)])
    return value


def an_int_of_numpy(space, value):
    space["box"].h[-1] = np.int64(space["box"].h[-1])
    return value


def an_attribute_of_an_exception(space, value):
    error = space["Bad"]("no")
    error.seen = True
    raise error


FAULTS = {
    "wrong": (a_wrong_value, "value", ("box.h.append(k)",)),
    "gradient": (a_wrong_value, "grad", ("box.h.append(k)",)),
    "state": (a_store_left_out, "value", ("box.h.append(k)",)),
    "state, shared": (another_object, "value", ("box.also = box.h",)),
    "state, types": (an_int_of_numpy, "value", ("box.h.append(k)",)),
    "leak": (an_object_of_a_recording, "value", ("box.h.append(k)",)),
    "error": (an_attribute_of_an_exception, "value", ("box.h.append(k)",)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name, monkeypatch):
    fault, mode, statements = FAULTS[name]
    case = one("lists", "t = s * 2.0", *statements, mode=mode)
    assert quietly(case).kind == ""
    monkeypatch.setattr(effect_state_programs, "compile_grad", lambda f: Planted(f, fault))
    assert quietly(case).kind == name.partition(",")[0]


def test_a_failing_program_is_made_minimal(monkeypatch):
    monkeypatch.setattr(effect_state_programs, "compile_grad", lambda f: Planted(f, a_store_left_out))
    block = Node("if k > 0:\n{0}", [[Node("box.h.append(k)"), Node("t = 2.0")]])
    case = one("lists", "t = s * 2.0", "box.n = 3")
    case.body.insert(1, block)
    smaller = minimal(case, "state")
    assert smaller.body_lines() == ["s = np.sum(x * x)", "box.h.append(k)", "return s"]
    assert len(smaller.calls) == 1


def test_what_the_library_does_wrong_is_found(monkeypatch):
    """With no check of the state at all, values are stale."""
    tested = Snapshot.tested

    def unchecked(self, lines, otherwise):
        return [line.replace(f": return {otherwise}", ": pass") for line in tested(self, lines, otherwise)]

    monkeypatch.setattr(Snapshot, "tested", unchecked)
    assert any(quietly(program(seed)).failed for seed in range(20))
