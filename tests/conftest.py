"""Fixtures.  ``run`` executes a graph in each tier that is installed: a test that takes it runs once per tier."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile

if not os.environ.get("TRACEGRAD_CACHE_DIR"):  # before the library reads it; workers and scripts of tests have the same
    os.environ["TRACEGRAD_CACHE_DIR"] = tempfile.mkdtemp(prefix="tracegrad-cache-")
    atexit.register(shutil.rmtree, os.environ["TRACEGRAD_CACHE_DIR"], ignore_errors=True)

os.environ.setdefault("TRACEGRAD_FULL_TRACEBACK", "1")  # a test that fails shows where

import fake_cupy
import pytest
from support import TIERS

from tracegrad.runtime.config import config
from tracegrad.runtime.cuda import availability
from tracegrad.runtime.cuda import run as run_on_device
from tracegrad.runtime.launch.kernel_cache import kernels

pytest_plugins = ["selection", "compiled_once", "device_fixtures", "global_state"]
config.cache_recordings = False  # which tests count


@pytest.fixture(params=TIERS)
def run(request):
    """``run(graph, inputs) -> list of arrays`` in one tier."""
    return TIERS[request.param]


@pytest.fixture
def runs():
    """The ``run`` of every tier, for tests in which recording and deriving costs more than running."""
    return list(TIERS.values())


@pytest.fixture
def kernel():
    """The compiled tier, for tests that compare it with the interpreter."""
    return TIERS["kernel"]


@pytest.fixture
def fresh_kernels():
    """An empty kernel cache: for tests that count compiles, whatever ran before in this process (see compiled_once)."""
    kernels.clear()


@pytest.fixture
def cupy(monkeypatch):
    """The stand-in for CuPy, in its place: with it there is a CUDA device, on which nothing is compiled."""
    monkeypatch.setattr(run_on_device, "compiler", lambda: "not in this test")
    with fake_cupy.installed() as module:
        yield module


@pytest.fixture
def no_cuda(monkeypatch):
    """Without CuPy, whether it is installed or not."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    availability.cuda_status.cache_clear()
    yield
    availability.cuda_status.cache_clear()
