"""Elements at regular positions: which stretches are found, and that the elements are those that were asked for."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad
from tracegrad.codegen.derive.elements import FEW, elements, stretches
from tracegrad.codegen.evaluate.interpreter import evaluate
from tracegrad.tracer.record.recorder import Recorder, recording

RNG = np.random.default_rng(0)


def repeated(base, turns, step):
    return (np.asarray(base) + step * np.arange(turns)[:, None]).reshape(-1)


PLACES = {
    "in order": (np.arange(300), ["slice"]),
    "every third": (np.arange(0, 300, 3), ["slice"]),
    "rows of two arrays": (repeated([0, 200, 1, 201], 90, 2), ["slice"]),
    "a band": (np.concatenate([[0, 1], repeated([0, 1, 2], 198, 1), [198, 199]]), ["slice"]),
    "two stretches": (np.concatenate([repeated([5, 3], 80, 2), repeated([200, 7, 9], 60, 1)]), ["slice"]),
    "over the border of arrays": (np.arange(150, 250), ["slice"]),
    "over the border at two places": (repeated([150, 180, 140], 60, 1), ["slice"]),
    "backwards": (np.arange(300)[::-1], ["gather"]),
    "one place": (np.full(100, 7), ["gather"]),
    "in no order": (RNG.integers(0, 400, 200), ["gather"]),
    "few": (np.array([7, 3, 350]), ["slice"]),
    "none": (np.zeros(0, np.int64), ["gather"]),
}


@pytest.mark.parametrize("name", PLACES)
def test_elements(name):
    places, expected = PLACES[name]
    arrays = [RNG.standard_normal(200), RNG.standard_normal(200)]
    recorder = Recorder()
    with recording(recorder):
        inputs = [recorder.add_input(a, f"a{k}") for k, a in enumerate(arrays)]
        graph = recorder.finish([elements(inputs, places, recorder.const)])
    (found,) = evaluate(graph, arrays)
    np.testing.assert_array_equal(found, np.concatenate(arrays)[places])
    if name != "few":
        assert [x for x in ("slice", "gather") if any(n.prim.name == x for n in graph.nodes)] == expected


@pytest.mark.parametrize("seed", range(20))
def test_stretches_are_all_positions_in_order(seed):
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(rng.integers(1, 5)):
        if rng.random() < 0.4:
            parts.append(rng.integers(0, 50, rng.integers(1, 20)))
        else:
            base = rng.integers(0, 100, rng.integers(1, 12))
            parts.append(repeated(base, rng.integers(1, 60), rng.integers(-2, 5)))
    places = np.concatenate(parts)
    found = list(stretches(places))
    assert found[0].start == 0
    assert [s.stop for s in found] == [*[s.start for s in found[1:]], len(places)]
    for s in found:
        if s.turns > 1:
            expected = repeated(places[s.start : s.start + s.period], s.turns, s.step)
            np.testing.assert_array_equal(places[s.start : s.stop], expected)


def test_a_long_stretch_between_others():
    places = np.concatenate([np.arange(9)[::-1], repeated([4, 2, 9], 500, 3), [0, 0, 1]])
    assert max(s.turns for s in stretches(places)) >= 499
    assert sum(s.period for s in stretches(places) if s.turns == 1) <= FEW


def test_what_only_moves_is_not_rolled():
    """Many slices of a few arrays, side by side, are no loop over copies of these arrays."""

    def f(x):
        a, b, c = np.sin(x), np.cos(x), np.exp(x)
        parts = [v[k::20] for k in range(10) for v in (a, b, c)]
        return np.stack(parts, axis=1)

    compiled = compile_grad(f)
    x = RNG.standard_normal(2000)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-14)
    assert "rolled: " not in compiled.explain(x, level="all")
