"""The benchmarks' control flow: gradients by hand are right, explicit loops agree with them, misses are told."""

from __future__ import annotations

import pytest
from selection import some

import tracegrad
from benchmarks import against, report, run, start_up, targets
from benchmarks.__main__ import parse
from benchmarks.peers import PEERS, Numba, Peer, TraceGradExplicit
from benchmarks.timing import deviation, reference
from benchmarks.workloads import DERIVATIVES, LOOPS, SMALL_LOOPS, STRAIGHT, select

EXPLICIT = [name for name, workload in SMALL_LOOPS.items() if workload.spellings.get("tracegrad-explicit")]


@pytest.mark.parametrize("name", SMALL_LOOPS)
def test_gradient_by_hand_is_that_of_the_plain_loop(name):
    value, gradients = reference(SMALL_LOOPS[name])  # raises where a central difference says otherwise
    assert value != 0.0 and all(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("name", some(EXPLICIT, quick=2))
def test_explicit_loops_compute_the_same(name):
    workload = SMALL_LOOPS[name]
    if workload.group in ("newton", "branches", "rk45") and not hasattr(tracegrad, "while_loop"):
        pytest.skip("spelled by while_loop and cond")
    prepared = TraceGradExplicit(1).prepare(workload)
    expected = reference(workload)
    for _ in range(3):
        assert deviation(prepared.to_numpy(prepared.call()), expected) < workload.tolerance


def test_quick_runs_take_the_small_sizes():
    assert {w.name for w in select([], loops=True)} == set(LOOPS)
    assert {w.name for w in select([], quick=True)} == set(STRAIGHT) | set(SMALL_LOOPS) | set(DERIVATIVES)
    assert [w.name for w in select(["rk4_200"], loops=True, quick=True)] == ["rk4_200"]
    assert [w.name for w in select(["lstm"], loops=True)] == ["lstm_128", "lstm_1024"]


def test_what_takes_too_long_misses_its_target():
    cells = {"tracegrad": {"status": "too long"}, "jax": {"status": "ok", "steady": 1.0}}
    verdicts = targets.loops({"rk4_1000": cells})
    assert ["rk4_1000, JAX / tracegrad", "≥ 3", "too long", "**no**"] in verdicts
    assert all(verdict[-1] == "**no**" for verdict in verdicts)


def test_targets_are_judged_by_what_was_measured():
    def row(ours, first):
        times = {"tracegrad": ours, "jax": 4.0, "torch": 90.0, "numba": 0.75}
        return {name: {"status": "ok", "steady": time, "first": first} for name, time in times.items()}

    rows = {"rk4_50": row(1.0, 2.0), "rk4_1000": row(1.0, 5.0), "hmm_1000": row(1.0, 1.0)}
    verdicts = [*targets.means(rows), *targets.limits(rows), *targets.loops(rows)]
    met = {text: verdict for text, *_, verdict in verdicts}
    assert met["geometric mean of 3 rows, JAX / tracegrad"] == "**no**"
    assert met["rk4_50, JAX / tracegrad"] == "yes"
    assert met["rk4_50, PyTorch eager / tracegrad"] == "**no**"
    assert met["rk4_50, tracegrad / numba by hand"] == "**no**"
    assert met["hmm_1000, tracegrad / numba by hand"] == "yes"
    assert len(met) == len(verdicts)
    assert met["first call of rk4_1000 / of rk4_50"] == "**no**"


def test_groups_of_derivatives_are_chosen_by_options():
    words = ["--adbench", "--transforms"]
    assert {w.name for w in select([], groups=run._groups(parse(words)))} == set(DERIVATIVES)
    assert all(w.group == "adbench" for w in select([], groups=run._groups(parse(words[:1]))))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, workload in DERIVATIVES.items() if "numba" in workload.prepared])
def test_derivative_by_hand_is_the_expected_one(name):
    prepared = Numba(1).prepare(DERIVATIVES[name])
    assert deviation(prepared.to_numpy(prepared.call()), reference(DERIVATIVES[name])) < 1e-9


def test_targets_of_derivatives_are_judged():
    times = {"tracegrad": 1.0, "jax": 4.0, "numba": 0.4}
    cells = {name: {"status": "ok", "steady": time, "first": time} for name, time in times.items()}
    rows = dict.fromkeys(["hvp_rosenbrock_1e3", "hand_simple_100", "ba_n100_m10000_p40000"], cells)
    met = {text: verdict for text, *_, verdict in targets.derivatives(rows)}
    assert met["hvp_rosenbrock_1e3, JAX / tracegrad"] == "yes"
    assert met["hvp_rosenbrock_1e3, tracegrad / numba by hand"] == "**no**"
    assert met["first call of hand_simple_100, s"] == "yes"
    assert met["ba_n100_m10000_p40000, JAX / tracegrad"] == "**no**"


class Broken(Peer):
    """A peer that can be imported and does nothing."""

    def warm(self):
        pass


class Missing(Peer):
    def __init__(self, threads):
        raise ModuleNotFoundError("No module named 'tracegrad.tracer'")


def small_run(monkeypatch, peer):
    """The exit status of a run of one row, of which *peer* is tracegrad."""
    monkeypatch.setitem(PEERS, "tracegrad", peer)
    monkeypatch.setattr(report, "plot", lambda *args: None)
    words = "--peers numpy --only dispatch_scalar --quick --no-limit --first-calls 0"
    return run.run(parse(words.split()), [])


def test_a_run_without_tracegrad_ends_with_a_message(monkeypatch):
    with pytest.raises(SystemExit, match="tracegrad itself cannot be imported"):
        small_run(monkeypatch, Missing)


@pytest.mark.slow
def test_a_run_in_which_tracegrad_fails_says_so(monkeypatch, capsys):
    assert small_run(monkeypatch, Broken) == 1
    assert "not right: dispatch_scalar (tracegrad: failed)" in capsys.readouterr().out
    assert small_run(monkeypatch, PEERS["numpy"]) == 0


def test_a_failing_peer_is_not_the_runs_failure_and_a_wrong_one_is():
    assert run._miss("jax", {"status": "failed"}) == ""
    assert run._miss("jax", {"status": "wrong"}) == "wrong"
    assert run._miss("tracegrad", {"status": "ok", "outcome": "failed"}) == "failed"
    assert run._miss("tracegrad-explicit", {"status": "none"}) == ""


@pytest.mark.slow
def test_two_checkouts_are_timed_side_by_side(tmp_path):
    (tmp_path / "tracegrad").symlink_to(against.HERE / "tracegrad")
    figures, versions = against.pair([against.HERE, tmp_path], ["dispatch_scalar", "training_compiled"], 1, 1e-5)
    rows = {"dispatch_scalar", "training_compiled"}
    assert set(figures) == {"import", *rows, *(f"{row}, first call" for row in rows)}
    assert all(min(seconds[path] for path in versions) > 0.0 for seconds in figures.values())
    assert figures["dispatch_scalar"][tmp_path] < figures["dispatch_scalar, first call"][tmp_path]


def test_a_checkout_whose_tracegrad_is_another_ones_is_refused(tmp_path, capfd):
    with pytest.raises(SystemExit, match="its process ended"):
        against.pair([tmp_path], [], 1, 1e-5)
    assert "tracegrad" in capfd.readouterr().err


@pytest.mark.parametrize(("seconds", "status"), [(1.02, 0), (1.2, 1)])
def test_a_worse_figure_ends_the_run_with_a_status(monkeypatch, capsys, seconds, status):
    def pair(paths, *_):
        return {"import": {path: seconds if path == against.HERE else 1.0 for path in paths}}, dict.fromkeys(paths, "")

    monkeypatch.setattr(against, "pair", pair)
    assert against.run(parse(["--against", "/other"])) == status
    assert f"| import | {seconds:.2f} s | 1.00 s | {seconds:.3f} |" in capsys.readouterr().out


def test_first_calls_with_a_warm_disk_have_a_column_of_their_own():
    cells = {
        "tracegrad": {"status": "ok", "first": 0.05, "first_from_disk": 0.004},
        "jax": {"status": "ok", "first": 0.2},
    }
    for cell in cells.values():
        cell.update(second=0.001, warm=0.1)
        cell["import"] = 0.3
    store = report.Store({"1": {}}, {"rosenbrock_10": {"run": "1", "cells": cells}})
    (first, *_) = [part for part in report._timings(store, "") if "First call" in part]
    head, _, row = first.splitlines()[-3:]
    assert [cell.strip() for cell in head.split("|")[2:-1]] == ["tracegrad", "tracegrad, warm disk", "JAX"]
    assert [cell.strip() for cell in row.split("|")[2:-1]] == ["50.0 ms", "4.00 ms", "200 ms"]


def test_scripts_of_start_up_run():
    for script in start_up.SCRIPTS["the first gradient of Rosenbrock, n = 10"], start_up.SCRIPTS["nothing"]:
        exec(compile(script["tracegrad"], "script.py", "exec"), {})
    assert all(compile(text, row, "exec") for row, texts in start_up.SCRIPTS.items() for text in texts.values())
