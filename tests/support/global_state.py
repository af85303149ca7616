"""The state of the process that all tests share: a test that leaves any of it other than it was fails, and is named.

``global_state``, an autouse fixture, compares each row of ``STATE`` with what it was when this module was imported,
before any test was collected; so what an import or a module-wide fixture changes is found too.  What a test changed is
put back, that one leak be one failure.

Random numbers have another rule, since tests draw: every test starts from the same seeds, whatever ran before it and
in whichever order (so ``pytest-randomly`` shuffles, but does not seed).  What must not change is which generators there
are.
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from tracegrad.runtime.config import Config, config
from tracegrad.runtime.cuda import availability
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.runtime.state import trust
from tracegrad.tensors import device, dtypes, modes, printing
from tracegrad.tensors import random as tensor_random
from tracegrad.tracer.ir.settings import AUTOCAST, loop_memory
from tracegrad.tracer.random import stream
from tracegrad.tracer.record import recorder as recorders

SEED = 0
PYTHONS_NUMBERS = random.Random(SEED).getstate()
STREAM = stream.Stream(SEED).state  # an array that is never written into


class Row(NamedTuple):
    """One piece of state: how it is read, and how it is put back (called with what was read)."""

    name: str
    read: Callable[[], Any]
    restore: Callable[[Any], object]


def attributes(name: str, owner: object, *names: str) -> Row:
    """Attributes of one object, read as a dict."""

    def read() -> dict[str, Any]:
        return {n: getattr(owner, n) for n in names}

    def restore(values: dict[str, Any]) -> None:
        for n, value in values.items():
            if getattr(owner, n) is not value:
                setattr(owner, n, value)

    return Row(name, read, restore)


# ---- PyTorch, which is never imported for this -------------------------------------------------------------------

TORCH = {
    "default dtype": "torch.float32", "grad mode": True,
    "precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None,
}  # fmt: skip


def read_torch() -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if getattr(torch, "_tensor_str", None) is None:  # not imported, not to the end, or a stand-in
        return TORCH
    return {
        "default dtype": str(torch.get_default_dtype()),
        "grad mode": torch.is_grad_enabled(),
        **vars(torch._tensor_str.PRINT_OPTS),
    }


def restore_torch(values: dict[str, Any]) -> None:
    torch = sys.modules["torch"]
    torch.set_default_dtype(getattr(torch, values["default dtype"].removeprefix("torch.")))
    torch.set_grad_enabled(values["grad mode"])
    vars(torch._tensor_str.PRINT_OPTS).update({n: values[n] for n in list(TORCH)[2:]})


# ---- modules, threads --------------------------------------------------------------------------------------------


class Modules:
    """``sys.modules``: imports may add to it.  What was there must not be replaced (looked at for the libraries below),
    and what is new must have been imported, not made by hand."""

    WATCHED = "numpy scipy.special tracegrad torch cupy cupyx cupyx.scipy cupyx.scipy.special".split()

    def __init__(self) -> None:
        self.known = dict(sys.modules)

    def imported(self, name: str) -> bool:
        """Extension modules put parts of themselves there by hand; so do Cython and, when it is imported,
        multiprocessing (``__mp_main__``)."""
        root = name.partition(".")[0]
        by_hand = "cython" in root or root == "__mp_main__"
        return by_hand or getattr(sys.modules.get(root), "__spec__", None) is not None

    def read(self) -> dict[str, str]:
        found = {}
        if len(sys.modules) != len(self.known):
            for name in [*sys.modules]:
                if name not in self.known:
                    if self.imported(name):
                        self.known[name] = sys.modules[name]
                    else:
                        found[name] = f"made by hand: {sys.modules[name]!r}"
            for name in [n for n in self.known if n not in sys.modules and n not in self.WATCHED]:
                del self.known[name]
        for name in self.WATCHED:
            if name in self.known and sys.modules.get(name) is not self.known[name]:
                found[name] = f"replaced by {sys.modules[name]!r}" if name in sys.modules else "removed"
        return found

    def restore(self, _: object) -> None:
        for name in self.read():
            if name in self.known:
                sys.modules[name] = self.known[name]
            else:
                del sys.modules[name]


class Threads:
    """Threads that a test has started and not waited for."""

    def __init__(self) -> None:
        self.known = set(threading.enumerate())

    def read(self) -> list[str]:
        new = [t for t in threading.enumerate() if t not in self.known and not isinstance(t, threading._DummyThread)]
        for thread in new:
            thread.join(0.5)
        return [t.name for t in new if t.is_alive()]

    def restore(self, _: object) -> None:
        self.known.update(threading.enumerate())


modules, threads = Modules(), Threads()


# ---- the table ---------------------------------------------------------------------------------------------------


def read_device_status() -> str | None:
    """A CUDA device that the process still believes in, though CuPy (or what stood for it) has gone."""
    if not availability.cuda_status.cache_info().currsize:
        return None
    backend = availability.cuda_status().backend
    return None if backend is None or backend.modules.xp is sys.modules.get("cupy") else "of a module that has gone"


def read_trace() -> Any:
    """The trace function, but for that of a run under coverage, which replaces itself at its first event."""
    function = sys.gettrace()
    return None if type(function).__module__.startswith("coverage") else function


VARIABLES = {name: os.environ.encodekey(name) for name in [f"TRACEGRAD_{n.upper()}" for n in Config.__annotations__]}


def read_variables() -> dict[str, Any]:
    data = os.environ._data  # not `os.environ.get`, which takes 20 µs for as many names
    return {name: data.get(key) for name, key in VARIABLES.items()}


def restore_variables(values: dict[str, Any]) -> None:
    for name, value in values.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = os.environ.decodevalue(value)


def restore_recorder(recorder: Any) -> None:
    recorders._current.recorder = recorder


def restore_kernels(names: list[str]) -> None:
    for name in set(vars(kernels)).difference(names):
        delattr(kernels, name)


STATE = [
    Row("the default dtype of tracegrad", dtypes.get_default_dtype, dtypes.set_default_dtype),
    Row("the default device", device.get_default_device, device.set_default_device),
    attributes("mode", modes.STATE, "grad", "inference", "anomaly", "check_nan", "capture"),
    attributes("autocast", AUTOCAST, "dtype"),
    Row("the recording in progress", recorders.current_recorder, restore_recorder),
    attributes("config", config, *Config.__annotations__),
    attributes("loop_memory", loop_memory, "budget"),
    # `monkeypatch` of pytest before 9.2 leaves a method of the class there, which hides what others set on the class
    Row("names in the kernel cache", lambda: sorted(vars(kernels)), restore_kernels),
    attributes("the print options of tracegrad", printing, "_options", "PACKAGE"),
    attributes("the trusted code", trust, "_trusted_folders"),
    attributes("the generator of tensors", tensor_random, "default_generator"),
    attributes("the stream of tracegrad.random", stream, "DEFAULT"),
    Row("NumPy's global generator", np.random.get_bit_generator, np.random.set_bit_generator),
    Row("np.geterr()", np.geterr, lambda values: np.seterr(**values)),
    Row("np.geterrcall()", np.geterrcall, np.seterrcall),
    Row("np.get_printoptions()", np.get_printoptions, lambda values: np.set_printoptions(**values)),
    Row("PyTorch", read_torch, restore_torch),
    Row("sys.modules", modules.read, modules.restore),
    Row("the CUDA device", read_device_status, lambda _: availability.cuda_status.cache_clear()),
    Row("threads", threads.read, threads.restore),
    Row("sys.getprofile()", sys.getprofile, sys.setprofile),
    Row("sys.gettrace()", read_trace, sys.settrace),
    Row("gc.isenabled()", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    Row("gc.get_threshold()", gc.get_threshold, lambda values: gc.set_threshold(*values)),
    Row("the environment", read_variables, restore_variables),
    Row("the working directory", os.getcwd, os.chdir),
]
if hasattr(sys, "monitoring"):
    TOOLS = range(6)
    STATE.append(Row("sys.monitoring", lambda: [sys.monitoring.get_tool(t) for t in TOOLS], lambda _: None))

gc.set_threshold(5_000, 10, 100)  # less often than ever: most of what tests make dies without the collector
EXPECTED = [row.read() for row in STATE]
AS_IT_WAS = "as it was"


def differences(name: str, before: Any, now: Any) -> list[str]:
    """One line for each difference, from what to what."""
    if isinstance(before, dict):
        keys = [k for k in before | now if before.get(k, AS_IT_WAS) != now.get(k, AS_IT_WAS)]
        return [f"{name}, {k}: {before.get(k, AS_IT_WAS)!r} -> {now.get(k, AS_IT_WAS)!r}" for k in keys]
    if isinstance(before, list):
        before, now = [v for v in before if v not in now], [v for v in now if v not in before]
    return [f"{name}: {before!r} -> {now!r}"]


def restored() -> list[str]:
    """What is not as it was, which is put back."""
    found = []
    now = [row.read() for row in STATE]
    if now != EXPECTED:
        for row, value, expected in zip(STATE, now, EXPECTED, strict=True):
            if value != expected:
                found += differences(row.name, expected, value)
                row.restore(expected)
    return found


def start_from_the_same_seeds() -> None:
    random.setstate(PYTHONS_NUMBERS)
    np.random.seed(SEED)
    tensor_random.default_generator.manual_seed(SEED)
    stream.DEFAULT.state = STREAM
    torch = sys.modules.get("torch")
    if hasattr(torch, "default_generator"):
        torch.default_generator.manual_seed(SEED)


# ---- pytest ------------------------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config.option, "randomly_reset_seed"):
        config.option.randomly_reset_seed = False


def pytest_collection() -> None:
    """Modules and tests are kept: the garbage collector would look at more and more of them in vain."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From now on the garbage collector looks at what tests make, not at the tests and modules that there are."""
    gc.enable()
    gc.freeze()


AS_MANY = 20
begun = itertools.count(1)


def pytest_runtest_logstart() -> None:
    """Nor at what earlier tests have left in caches, or have imported: it is searched again and again otherwise, since
    a run whose Python goes on asks the collector who holds its values."""
    if next(begun) % AS_MANY == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def global_state() -> Iterator[None]:
    """Every test starts from the same seeds, and fails if it leaves state other than it was (see above)."""
    start_from_the_same_seeds()
    filters, imported = warnings.filters[:], len(sys.modules)  # pytest itself sets them for each test
    yield
    found = restored()
    if warnings.filters != filters and len(sys.modules) == imported:  # else a library set them, when it was imported
        found += differences("the warnings filters", filters, warnings.filters)
        warnings.filters[:] = filters
    if found:
        listed = "\n  ".join(found)
        pytest.fail(
            f"the test, a fixture or an import leaves other than it was:\n  {listed}\n"
            "(undo it, by monkeypatch, a with statement or the end of a fixture: later tests rely on it)",
            pytrace=False,
        )


__all__ = [
    "global_state", "pytest_collection", "pytest_collection_finish", "pytest_configure", "pytest_runtest_logstart",
]  # fmt: skip
