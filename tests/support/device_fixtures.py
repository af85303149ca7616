"""Fixtures of tests on the stand-in for CuPy."""

from __future__ import annotations

import fake_cupy
import pytest

from tracegrad.runtime.cuda import graphs
from tracegrad.runtime.cuda import run as run_on_device
from tracegrad.steps.logged_step import LoggedStep


@pytest.fixture(params=["operations", "kernels"])
def way(request, monkeypatch):
    """The stand-in for CuPy, and what runs a recorded program there: CuPy's operations, or kernels in the simulator."""
    if request.param == "operations":
        monkeypatch.setattr(run_on_device, "compiler", lambda: "not in this test")
    else:
        pytest.importorskip("numba_cuda", reason="libdevice comes with numba-cuda")
        from simulated import simulated_load

        from tracegrad.runtime.cuda.load import programs

        monkeypatch.setattr(programs, "make", simulated_load)
        programs.clear()
        request.addfinalizer(programs.clear)
    graphs.forget_graphs()
    with fake_cupy.installed():
        yield request.param


@pytest.fixture
def no_recording(monkeypatch):
    """Recordings are an error from when this is called."""

    def forbid():
        def refuse(*args):
            raise AssertionError("recorded")

        monkeypatch.setattr(LoggedStep, "record", refuse)

    return forbid
