"""Random programs that draw random numbers of generators outside (``tests/support/draw_programs.py``)."""

from __future__ import annotations

import draw_programs

from tracegrad.tracer.ir.settings import optimiser


def test_values_and_generators_are_pythons(monkeypatch):
    monkeypatch.setattr(optimiser, "level", 0)
    found = {seed: draw_programs.failure(seed) for seed in range(15)}
    assert not any(found.values()), {seed: said for seed, said in found.items() if said}


def test_a_program_that_is_answered_otherwise_is_seen(monkeypatch):
    """The comparison itself: a draw too many is found."""
    real = draw_programs.World.run

    def run(self):
        found = real(self)
        if self.call is not self.plain:
            found[1][0] = "another state"
        return found

    monkeypatch.setattr(draw_programs.World, "run", run)
    assert "left otherwise" in draw_programs.failure(0)
