"""``make gpu-check`` as far as it can be run without a GPU: on the stand-in for CuPy, with a made-up clock."""

from __future__ import annotations

import argparse
import sys

import fake_cupy
import numpy as np
import pytest
from device import HANDFUL, device_tier
from support import evaluate

from benchmarks import gpu_check, report
from benchmarks.gpu_peers import CuPy, GpuPeer, Ours, available
from benchmarks.gpu_static import occupancy
from benchmarks.gpu_workloads import COLUMNS, FULL, WORKLOADS
from benchmarks.peer import NotSpelledError
from benchmarks.workload import leaves

SMALL = {"softmax_f32": 2 * COLUMNS, "layer_norm_f32": 2 * COLUMNS, "logistic_f64": 40, "mlp_f32": 16}


def test_without_a_gpu_it_says_so_and_does_nothing(no_cuda, monkeypatch, capsys):
    monkeypatch.setattr(gpu_check, "outcome", lambda command: pytest.fail("something was run"))
    monkeypatch.setattr(report, "write", lambda store: pytest.fail("something was written"))
    assert gpu_check.run(argparse.Namespace(peers="", only="", quick=False)) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert "CuPy is not installed" in line


def test_every_workload_has_a_size():
    assert set(FULL) == set(WORKLOADS)


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_on_the_device(name, cupy):
    workload = WORKLOADS[name](SMALL.get(name, 100))
    peer = Ours()
    args = workload.make_args()
    call = peer.prepare(workload, args)
    value, *gradients = peer.to_numpy(call())
    assert value.shape == () and np.isfinite(value)
    wanted = [leaf for k in workload.argtuple for leaf in leaves(args[k])]
    assert [(g.shape, g.dtype) for g in gradients] == [(leaf.shape, leaf.dtype) for leaf in wanted]
    expected = gpu_check.reference(workload, args)
    assert gpu_check.deviation([value, *gradients], expected) <= workload.tolerance
    if workload.hand_gradient is not None:
        by_hand = [np.asarray(leaf) for leaf in leaves(list(workload.hand_gradient(*args)))]
        assert gpu_check.deviation(by_hand, expected) <= workload.tolerance


@pytest.mark.parametrize("name", ["black_scholes_f64", "black_scholes_f32", "softmax_f32", "small_f64"])
def test_gradients_by_hand_on_the_device(name, cupy):
    workload = WORKLOADS[name](SMALL.get(name, 100))
    peer, args = CuPy(), workload.make_args()
    found = peer.to_numpy(peer.prepare(workload, args)())
    assert gpu_check.deviation(found, gpu_check.reference(workload, args)) <= workload.tolerance


def test_peers_that_are_not_there_are_named():
    found, missing = available(["torch", "jax"])
    assert set(found) | set(missing) == {"torch", "jax"}
    assert all(": " in reason for reason in missing.values())


class Stand(GpuPeer):
    """A peer whose calls take so many ticks of the clock."""

    def __init__(self, clock, ticks, value=1.0):
        self.clock, self.ticks, self.value = clock, ticks, value

    def prepare(self, workload, args):
        if self.ticks is None:
            raise NotSpelledError("no spelling")
        if self.ticks < 0:
            raise MemoryError

        def call():
            self.clock.now += self.ticks
            return np.float64(self.value), [np.full(3, self.value)]

        return call

    def wait(self):
        pass


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_times_are_medians_and_what_is_wrong_is_not_timed(monkeypatch):
    monkeypatch.setattr(gpu_check, "reference", lambda workload, args: [np.float64(1.0), np.ones(3)])
    clock = Clock()
    peers = {
        "tracegrad": Stand(clock, 0.001), "torch": Stand(clock, 0.004), "jax": Stand(clock, 0.001, value=1.1),
        "cupy": Stand(clock, None), "torch-compile": Stand(clock, -1),
    }  # fmt: skip
    cells = gpu_check.measure(WORKLOADS["small_f64"](10), peers, rounds=3, batch=0.01, clock=clock)
    assert cells["tracegrad"] == pytest.approx(0.001) and cells["torch"] == pytest.approx(0.004)
    assert cells["jax"] == "wrong: 1.0e-01"
    assert cells["cupy"] == "–" and cells["torch-compile"] == "failed: MemoryError"


def test_a_peer_that_fails_later_is_left_out():
    clock = Clock()

    def fails():
        clock.now += 1.0
        if clock.now > 20:
            raise MemoryError

    def works():
        clock.now += 0.5

    ready = {"torch": (fails, lambda: None), "tracegrad": (works, lambda: None)}
    assert gpu_check.steady(ready, 15, 1.0, clock) == {"torch": "failed: MemoryError", "tracegrad": 0.5}


def test_the_section_of_the_results():
    workload = WORKLOADS["black_scholes_f64"](1000)
    least = gpu_check.least_bytes(workload)
    assert least == 7 * 8 * 1000
    section = gpu_check.text(
        "a device", [["pytest -m gpu", "3 passed", "yes"]], {"bytes": 2e12, "flops": 3e13},
        {"black_scholes_f64": {"tracegrad": least / 1e12, "torch": "failed: OutOfMemoryError"}},
        {"black_scholes_f64": least}, [["memory", "1 MB"]], "tracegrad 0",
    )  # fmt: skip
    assert "2000 GB/s" in section and "30.0 TFLOP/s" in section
    assert "| black_scholes_f64 | 0.06 µs | failed: OutOfMemoryError | 0.1 | 50% |" in section
    assert f"## On a GPU\n\n{section}" in report.tables(report.Store({}, {}, gpu=section))


def test_commands_are_judged_by_their_status(capsys):
    assert gpu_check.outcome([sys.executable, "-c", "print('5 passed')"]) == (True, "5 passed")
    assert gpu_check.outcome([sys.executable, "-c", "print('1 failed'); raise SystemExit(1)"]) == (False, "1 failed")


def test_memory_and_the_cost_of_a_call(cupy):
    early, late = gpu_check.held_memory(fake_cupy.cupy, 200)
    assert late <= early
    assert gpu_check.host_cost(Ours(), 3).endswith("s")


@pytest.mark.parametrize("name", HANDFUL)
def test_the_handful_on_the_stand_in(name, cupy):
    graph, inputs = HANDFUL[name]()
    for found, expected in zip(device_tier(graph, inputs), evaluate(graph, inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "registers, shared, threads, share",
    [(32, 0, 256, 1.0), (33, 0, 256, 0.75), (64, 0, 256, 0.5), (128, 0, 256, 0.25), (255, 0, 256, 0.125),
     (16, 0, 32, 0.5), (32, 113 * 1024, 256, 0.25), (32, 512, 1024, 1.0)],
)  # fmt: skip
def test_occupancy(registers, shared, threads, share):
    assert occupancy(registers, shared, threads) == share
