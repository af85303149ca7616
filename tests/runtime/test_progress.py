"""The line on the terminal that says what is recorded and compiled (runtime/progress.py)."""

from __future__ import annotations

import os
import sys
import threading
import time
import types

import numpy as np
import pytest

from tests.support.terminal import Terminal
from tracegrad import compile_grad, config
from tracegrad.runtime import progress
from tracegrad.tracer.ir.interrupts import put_back, state
from tracegrad.tracer.ir.working import Working, at_work

pytestmark = pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")


@pytest.fixture
def terminal(monkeypatch):
    """Standard error is a terminal, and the line is shown at once."""
    monkeypatch.setattr(progress, "AFTER", 0.01)
    monkeypatch.setattr(progress, "PAUSE", 0.01)
    monkeypatch.setattr(progress, "IDLE", 0.2)
    for name in ("rich", "rich.console", "rich.live"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.setattr(progress.line, "thread", None)
    with Terminal() as found:
        # pytest puts its own sys.stderr back between fixtures and the test
        monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stderr=found.stream))
        yield found
        if progress.line.thread is not None:
            progress.line.thread.join()


def until(condition):
    end = time.monotonic() + 30.0
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_line_tells_phase_and_operations_and_disappears(terminal):
    with Working("compiling f", 1_200):
        until(lambda: "tracegrad: compiling f, 1,200 operations" in terminal.text())
        with Working("machine code", 3_400):
            until(lambda: "compiling f: machine code, 3,400 operations" in terminal.text())
        until(lambda: terminal.screen().startswith("tracegrad: compiling f, 1,200"))
    assert terminal.screen() == ""
    assert not at_work()


def test_work_in_other_threads_belongs_to_who_waits(terminal):
    from tracegrad.tracer.ir.foreign_code import uninterrupted

    def phase():
        with Working("LLVM"):
            until(lambda: "compiling g: LLVM" in terminal.text())

    with Working("compiling g"):
        uninterrupted(phase)
    assert terminal.screen() == ""


def test_exceptions_and_interrupts_take_the_line_away(terminal):
    with pytest.raises(KeyError), Working("recording f"):
        until(lambda: "recording f" in terminal.text())
        raise KeyError
    assert terminal.screen() == "" and not at_work()
    before = state()
    Working("recording h").__enter__()  # torn before it is left
    until(lambda: "recording h" in terminal.text())
    put_back(before, KeyboardInterrupt())
    assert terminal.screen() == "" and not at_work()


def test_several_threads_at_work_have_one_line(terminal):
    go, errors = threading.Event(), []

    def work(k):
        try:
            with Working(f"compiling f{k}"):
                go.wait(30)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: "compiling f" in terminal.screen())
    assert "\n" not in terminal.text()
    go.set()
    for thread in threads:
        thread.join()
    assert not errors and terminal.screen() == ""


def test_a_call_is_told_of(terminal):
    def slow(x):
        until(lambda: "recording" in terminal.text() and "slow" in terminal.text())
        return np.sum(np.sin(x))

    value, _ = compile_grad(slow).value_and_grad(np.ones(3))
    assert value == pytest.approx(3 * np.sin(1.0))
    assert terminal.screen() == ""


def test_setting_turns_it_off(terminal, monkeypatch):
    monkeypatch.setattr(config, "progress", False)
    with Working("compiling f"):
        assert progress.line.thread is None
        time.sleep(0.05)
    assert terminal.text() == ""


def test_nothing_where_standard_error_is_no_terminal(monkeypatch):
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress.line, "thread", None)
    with open(os.devnull, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with Working("compiling f"):
            assert progress.line.thread is None
    monkeypatch.setattr(sys, "stderr", None)
    with Working("compiling f"):
        assert progress.line.thread is None


def test_rich_shows_it_where_it_is_installed(terminal, monkeypatch):
    shown = []

    class Live:
        def __init__(self, **options):
            assert options["transient"] and not options["auto_refresh"]

        def start(self):
            shown.append("start")

        def update(self, text, refresh):
            shown.append(str(text))

        def stop(self):
            shown.append("stop")

    console = types.ModuleType("rich.console")
    console.Console = lambda **options: None
    live = types.ModuleType("rich.live")
    live.Live = Live
    for name, module in (("rich", types.ModuleType("rich")), ("rich.console", console), ("rich.live", live)):
        monkeypatch.setitem(sys.modules, name, module)
    with Working("compiling f"):
        until(lambda: any("compiling f" in text for text in shown))
    assert shown[0] == "start" and shown[-1] == "stop"
    assert terminal.text() == ""


def test_terminal_that_is_gone_does_not_matter(terminal, monkeypatch):
    with Working("compiling f"):
        until(lambda: "compiling f" in terminal.text())
        terminal.stream.close()
        time.sleep(0.05)
    assert not at_work()
