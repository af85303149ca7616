"""Processes that end while compiled functions, tapes, threads and their machine code are alive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

from tracegrad.runtime.launch import bind

pytestmark = pytest.mark.slow

#: Everything that lives in machine code: a function with branches, a tape whose backward is compiled, a fused update.
EVERYTHING = """
import atexit, faulthandler, gc, os, sys, threading, time
import numpy as np
import tracegrad as tg
from tracegrad import compile_grad

tg.set_default_dtype(tg.float64)

@compile_grad
def f(w, x):
    if np.sum(w * x) > 0:
        return np.sum((x @ w) ** 2)
    return np.sum(w * x)

def fresh(k):
    return compile_grad(eval("lambda x: np.sum(np.sin(x) " + "* np.exp(x) " * k + ")"))

x = np.linspace(0.1, 1, 5)
for sign in (1, -1, 1, -1, 1):
    f.value_and_grad(sign * x, x), f(sign * x, x)

model = tg.nn.Sequential(tg.nn.Linear(5, 8), tg.nn.Tanh(), tg.nn.Linear(8, 1))
optimizer = tg.optim.AdamW(model.parameters(), lr=0.01)
losses = []
for _ in range(4):
    loss = (model(tg.tensor(x)) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)

def calls(k=0):
    assert abs(f(x, x) / np.sum((x @ x) ** 2) - 1) < 1e-12
    if k:
        assert fresh(k)(x) == fresh(k)(x)

def everything(k=0):
    calls(k)
    loss = (model(tg.tensor(x)) ** 2).sum()
    loss.backward()
    optimizer.step()

def launchers():
    found = [o for o in gc.get_objects() if type(o) is type(len) and o.__name__ in ("call", "entry")]
    return [o for o in found if type(o.__self__) is not type(sys)]

builtins = launchers()
assert builtins or not NATIVE
"""

ENDS = {
    "globals": "",
    "a cycle that outlives all modules": "sys.kept = [f, model, losses, builtins]; sys.kept.append(sys.kept)",
    "builtins in a cycle": "cycle = [builtins]; cycle.append(cycle); sys.kept = builtins[:1]",
    "sys.exit": "sys.exit(0)",
    "sys.exit in a call": """
        @compile_grad
        def leave(x):
            if np.sum(x) > 0:
                sys.exit(0)
            return np.sum(x)
        leave(-x), leave(-x), leave(-x), leave(x)
    """,
    "sys.exit in a call from Python's live code": """
        calls = set()
        @compile_grad
        def leave(x):
            calls.add(len(calls))
            if len(calls) > 6:
                sys.exit(0)
            return np.sum(x * x)
        while True:
            leave(x)
    """,
    "an exception": "sys.excepthook = lambda *error: None\nraise ValueError(f, model, optimizer)",
    "an exception in a call": """
        sys.excepthook = lambda *error: None
        @compile_grad
        def fail(x):
            raise ValueError(x)
        fail(x)
    """,
    "os._exit": "sys.stdout.flush(); os._exit(0)",
    "atexit": "atexit.register(everything); atexit.register(everything, 1)",
    "no collector": "gc.disable()",
    "a frozen heap": "gc.freeze()",
    "a collection for each object": "gc.set_threshold(1); everything()",
    "faulthandler": "faulthandler.enable(); faulthandler.dump_traceback_later(100)",
    "a thread that goes on": """
        def work():
            time.sleep(0.2)
            everything(2)
        threading.Thread(target=work).start()
    """,
    "threads that never end": """
        def work():
            while True:
                calls()
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
    """,
    "a thread that compiles for ever": """
        def work(k):
            while True:
                fresh(k := k + 1).value_and_grad(x)
        threading.Thread(target=work, args=(3,), daemon=True).start()
        time.sleep(0.5)
    """,
    "threads that take trees apart": """
        from tracegrad.tracer.ir.trees import tree_flatten
        def work():
            while True:
                tree_flatten([1.0, {"a": 2.0, "b": (3.0, 4.0)}])
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1)
    """,
    "finalisers of modules": """
        class Late:
            def __init__(self, *parts):
                self.parts = parts
            def __del__(self, everything=everything, f=f, x=x, builtins=builtins, repr=repr):
                repr(builtins), f(x, x)
                try:
                    everything()
                except (TypeError, AttributeError, NameError, ImportError):
                    pass  # modules that are empty by then
        late = Late()
        tg.late = Late()
        sys.late = Late(f, model)
        import tracegrad.runtime.launch.bind as bind, tracegrad.codegen.cpu.machine_code as code
        bind.late, code.late, tg.nn.late = Late(f), Late(model), Late()
    """,
    "a finaliser in a cycle that is taken apart": """
        source = '''
        class Part:
            def __del__(self, builtins=builtins, x=x):
                for builtin in builtins:
                    if builtin.__name__ == "call":
                        builtin(x, x)
        parts = [Part() for _ in range(50)]
        '''
        import textwrap
        for _ in range(20):
            some = [compile_grad(lambda a, b: np.sum(a * b) + 1) for _ in range(3)]
            for call in some:
                call(x, x), call(x, x), call(x, x)
            names = {"builtins": launchers(), "x": x}
            exec(textwrap.dedent(source), names)
            names["again"] = names
            del names, some, call
            tg.runtime.launch.kernel_cache.kernels.clear()
            gc.collect()
        everything(1)
    """,
    "modules that are deleted": """
        sys.late = f, model, optimizer, losses, builtins
        for name in [name for name in sys.modules if name.split(".")[0] == "tracegrad"]:
            sys.modules.pop(name).__dict__.clear()
        gc.collect()
        sys.late = builtins
    """,
    "kernels that were dropped": """
        tg.config.max_kernels = 1
        calls = [fresh(k) for k in range(6)]
        for call in calls * 3:
            call(x)
        sys.kept = calls
    """,
}
if hasattr(os, "fork"):
    ENDS["a fork"] = """
        pid = os.fork()
        everything(2)
        if pid:
            _, status = os.waitpid(pid, 0)
            assert status == 0
    """
    ENDS["a fork that leaves at once"] = """
        pid = os.fork()
        if not pid:
            everything()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        everything(2)
    """
    ENDS["forks while a thread compiles"] = """
        stop = []
        def work():
            k = 3
            while not stop:
                fresh(k := k + 1).value_and_grad(x)
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(8):
            pid = os.fork()
            if not pid:
                faulthandler.dump_traceback_later(20, exit=True)
                try:
                    everything(1)
                finally:
                    os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            time.sleep(0.05)
        stop.append(1)
        thread.join()
    """

#: Memory that is freed is overwritten at once, so that reading it crashes instead of sometimes (with glibc).
OVERWRITE = {"PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "255"}

#: One process makes everything, and ends in each way of a dict as a fork: its end is that of any process, since
#: ``exec`` stands at the bottom of the module.
FORKS = """
import json, tempfile
ways, failed = json.loads(sys.stdin.read()), {}
for way, (source, code) in ways.items():
    with tempfile.TemporaryFile() as errors:
        pid = os.fork()
        if not pid:
            os.dup2(errors.fileno(), 2)
            faulthandler.dump_traceback_later(60, exit=True)
            break
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        errors.seek(0)
        said = errors.read().decode(errors="replace")[-2000:]
        if status != code or said:
            failed[way] = f"exit code {status}: {said}"
else:
    print(json.dumps(failed))
    source = ""
exec(source)
"""

#: A process of its own: what is about forks, and threads that run before the end.
ALONE = [name for name in ENDS if "fork" in name or "thread" in name or name in ("globals", "modules that are deleted")]


def ends(program: str, *options: str, stdin: str = "", **environment: str) -> str:
    program = f"NATIVE = {bind.NATIVE}\n{EVERYTHING}\n{textwrap.dedent(program)}"
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore:This process", *options, "-c", program]
    environment = {**os.environ, **environment}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, input=stdin)
    assert found.returncode == 0, found.stderr[-2000:]
    assert not found.stderr, found.stderr[-2000:]
    return found.stdout


@pytest.mark.parametrize("name", ALONE)
def test_a_process_ends_with_everything_alive(name):
    ends(ENDS[name], **OVERWRITE)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="ways to end that are forks of one process")
def test_forks_of_one_process_end_with_everything_alive():
    ways = {name: (textwrap.dedent(ENDS[name]), int("exception" in name)) for name in ENDS if name not in ALONE}
    assert len(ways) > 10
    assert json.loads(ends(FORKS, stdin=json.dumps(ways), **OVERWRITE)) == {}


def test_a_process_in_development_mode_ends():
    ends("everything(1)", "-X", "dev", "-W", "ignore")
