"""Functions that arrive as code, anew with each task: an earlier copy has recorded for them, and each answers as plain
Python does, whatever the copies have under their names."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import textwrap
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from with_source import code_of

import tracegrad
from tracegrad import compile_grad
from tracegrad.runtime.stored import sent_functions

cloudpickle = pytest.importorskip("cloudpickle")

_count = itertools.count()


class Script:
    """A module whose functions are sent by their code: :meth:`copy` is what a task gets."""

    def __init__(self, source: str, compiled: bool = True) -> None:
        self.name = f"a_script_{next(_count)}"
        module = types.ModuleType(self.name)
        decorator = compile_grad if compiled else (lambda f: f)
        names = {"np": np, "tracegrad": tracegrad, "compile_grad": decorator, "__name__": self.name}
        vars(module).update(names)
        sys.modules[self.name] = module
        try:
            exec(code_of(textwrap.dedent(source), f"{self.name}.py"), vars(module))
            cloudpickle.register_pickle_by_value(module)
            self.sent = cloudpickle.dumps(module.task)
            cloudpickle.unregister_pickle_by_value(module)
        finally:
            del sys.modules[self.name]

    def copy(self) -> Any:
        return cloudpickle.loads(self.sent)


@pytest.fixture(autouse=True)
def _no_homes() -> Iterator[None]:
    sent_functions._homes.clear()
    yield
    sent_functions._homes.clear()


# what a task does with its copy: called with 0, 1, 2, ... it returns numbers; `f` is compiled
PROGRAMS: dict[str, str] = {
    "data": """
        data = np.arange(4.0)
        @compile_grad
        def f(p): return np.sum((p - data) ** 2)
        def task(k): return [f(np.full(4, k + 0.5 * j)) for j in range(4)]
        """,
    "data of the task": """
        data = np.arange(4.0)
        @compile_grad
        def f(p): return np.sum((p - data) ** 2)
        def task(k):
            global data
            data = np.full(4, k * 1.0)
            return [f(np.arange(4.0)) for j in range(3)]
        """,
    "another dtype in each task": """
        data = np.arange(4.0)
        @compile_grad
        def f(p): return np.sum((p - data) ** 2)
        def task(k):
            global data
            data = np.arange(4 + k % 2).astype([np.float64, np.int64][k % 2])[:4]
            return [f(np.arange(4.0)) for j in range(3)]
        """,
    "number rebound between calls": """
        scale = 1.0
        @compile_grad
        def f(p): return np.sum(p) * scale
        def task(k):
            global scale
            found = []
            for j in range(5):
                scale = k + 10.0 * j
                found.append(f(np.ones(3)))
            return found
        """,
    "another nan, which a container is asked for": """
        nan = float("nan")
        values, pair = [1.0, nan], (1, nan)
        @compile_grad
        def f(p): return np.sum(p) * (2.0 if nan in values else 3.0) * (5.0 if [pair] == pairs else 7.0)
        def task(k):
            global nan, pair, pairs
            pairs, found = [pair], []
            for j in range(5):
                if j == 2: nan = float("nan")
                if j == 3: pair = (1, nan)
                found.append(f(np.ones(3)))
            return found
        """,
    "branch on a text": """
        kind = "sum"
        @compile_grad
        def f(p): return np.sum(p) if kind == "sum" else np.prod(p)
        def task(k):
            global kind
            found = []
            for j in range(4):
                kind = "sum" if (j + k) % 2 else "prod"
                found.append(f(np.arange(1.0, 5.0)))
            return found
        """,
    "array written in place": """
        data = np.arange(4.0)
        @compile_grad
        def f(p): return np.sum(p * data)
        def task(k):
            found = []
            for j in range(4):
                data[j] += k + 1
                found.append(f(np.ones(4)))
            return found
        """,
    "closures called by turns": """
        def make(a):
            @compile_grad
            def f(p): return a * np.sum(p)
            return f
        fs = [make(a) for a in range(1, 8)]
        def task(k): return [f(np.ones(3) * k) for _ in range(3) for f in fs]
        """,
    "arrays in closures": """
        def make(a):
            w = np.arange(3.0) * a
            @compile_grad
            def f(p): return np.sum(w * p)
            return f, w
        def task(k):
            f, w = make(k + 1.0)
            first = [f(np.ones(3)) for _ in range(3)]
            w[0] = 100.0
            return first + [f(np.ones(3)) for _ in range(3)]
        """,
    "helpers": """
        c = 3.0
        def inner(x): return c * np.sin(x)
        def helper(x): return inner(x) + 1
        @compile_grad
        def f(p): return np.sum(helper(p) * inner(p))
        def task(k):
            global c
            found = [f(np.ones(3)) for _ in range(2)]
            c = k
            return found + [f(np.ones(3)) for _ in range(2)]
        """,
    "helper replaced": """
        def plus(x): return x + 1
        def minus(x): return x - 1
        helper = plus
        @compile_grad
        def f(p): return np.sum(helper(p) ** 2)
        def task(k):
            global helper
            found = []
            for j in range(5):
                helper = plus if (j + k) % 2 else minus
                found.append(f(np.ones(3)))
            return found
        """,
    "helpers of one code": """
        def make(a):
            def g(x): return a * x
            return g
        g1, g2 = make(2.0), make(5.0)
        @compile_grad
        def f(p): return np.sum(g1(p) - 3 * g2(p))
        def task(k):
            global g1, g2
            found = [f(np.ones(3)) for _ in range(2)]
            g1, g2 = g2, g1
            found += [f(np.ones(3)) for _ in range(2)]
            g2 = g1
            return found + [f(np.ones(3)) for _ in range(2)]
        """,
    "helper given and compared": """
        def one(x): return x
        def two(x): return 2 * x
        @compile_grad
        def f(p, g=two): return np.sum(g(p)) * (10 if g is one else 1) + one(np.float64(0))
        def task(k): return [f(np.ones(3), one), f(np.ones(3), two), f(np.ones(3)), f(np.ones(3), one)]
        """,
    "helpers in a dict": """
        def one(x): return x
        def two(x): return 2 * x
        table = {"one": one, "two": two}
        @compile_grad
        def f(p, name="one"): return np.sum(table[name](p))
        def task(k): return [f(np.ones(3), name) for name in ("one", "two", "one", "two")]
        """,
    "attribute of a helper": """
        def helper(x): return x * helper.scale
        helper.scale = 2.0
        @compile_grad
        def f(p): return np.sum(helper(p))
        def task(k):
            found = [f(np.ones(3)) for _ in range(3)]
            helper.scale = k
            return found + [f(np.ones(3)) for _ in range(3)]
        """,
    "functions in an attribute of a helper": """
        def one(x): return x
        def two(x): return 2 * x
        def helper(x): return x
        helper.fns = [one]
        @compile_grad
        def f(p): return np.sum(helper.fns[0](p) + helper(p))
        def task(k):
            found = [f(np.ones(3)) for _ in range(3)]
            helper.fns = [two]
            return found + [f(np.ones(3)) for _ in range(3)]
        """,
    "helper handed on": """
        def one(x): return x
        def two(x): return 2 * x
        def apply(g, x): return g(x) * (3 if g is one else 1)
        @compile_grad
        def f(p, g=one): return np.sum(apply(one, p) + apply(g, p) + g(one(p)))
        def task(k): return [f(np.ones(3), g) for g in (one, two, one, two)]
        """,
    "helpers by conditions": """
        def one(x): return x
        def two(x): return 2 * x
        first, on = None, True
        @compile_grad
        def f(p): return np.sum((first or two)(p) + (one if on else two)(one(p) if on else p))
        def task(k):
            global first, on
            found = [f(np.ones(3)) for _ in range(3)]
            first, on = one, False
            return found + [f(np.ones(3)) for _ in range(3)]
        """,
    "decorated helpers": """
        import functools
        def twice(g):
            @functools.wraps(g)
            def wrapped(x): return g(g(x))
            return wrapped
        rate = 2.0
        @twice
        def helper(x): return rate * x
        @compile_grad
        @twice
        def f(p): return np.sum(helper(p)) * np.ones(3)
        def task(k):
            global rate
            found = [f(np.ones(3))[0] for _ in range(3)]
            rate = k
            return found + [f(np.ones(3))[0] for _ in range(3)]
        """,
    "two functions and a helper": """
        rate = 2.0
        def helper(x): return rate * x
        @compile_grad
        def f(p): return np.sum(helper(p))
        @compile_grad
        def g(p): return f(helper(p)) + np.sum(p)
        def task(k):
            global rate
            found = []
            for j in range(4):
                rate = k + j
                found += [f(np.ones(3)), g(np.ones(3)), f(np.ones(3))]
            return found
        """,
    "a function handed in that calls back": """
        @compile_grad
        def f(p, g): return np.sum(g(p))
        def task(k):
            def inner(p): return p * k + (f(p, lambda q: q) if k else 0)
            return [f(np.ones(3), inner) for _ in range(3)]
        """,
    "gradients": """
        data = np.arange(3.0)
        def loss(p): return np.sum((p - data) ** 2) * scale
        scale = 1.0
        @compile_grad
        def f(p): return np.sum(p * data) * scale
        def task(k):
            global scale, data
            found = []
            for j in range(3):
                scale, data = k + j, np.arange(3.0) * j
                found += [f(np.ones(3)), loss(np.ones(3))]
            return found
        """,
    "own attribute": """
        def raw(p): return np.sum(p) * raw.scale
        raw.scale = 2.0
        f = compile_grad(raw)
        def task(k):
            found = [f(np.ones(3)) for _ in range(3)]
            raw.scale = k
            return found + [f(np.ones(3)) for _ in range(3)]
        """,
    "defaults replaced": """
        def helper(x, a=2.0, *, b=1.0): return a * x + b
        def raw(p, c=1.0): return np.sum(helper(p)) * c
        f = compile_grad(raw)
        def task(k):
            found = [f(np.ones(3)) for _ in range(3)]
            helper.__defaults__ = (k * 1.0,)
            found += [f(np.ones(3)) for _ in range(3)]
            helper.__kwdefaults__ = {"b": 7.0}
            return found + [f(np.ones(3)) for _ in range(3)]
        """,
    "code replaced": """
        def helper(x): return 2 * x
        def other(x): return 3 * x
        @compile_grad
        def f(p): return np.sum(helper(p))
        def task(k):
            found = [f(np.ones(3)) for _ in range(3)]
            helper.__code__ = other.__code__
            return found + [f(np.ones(3)) for _ in range(3)]
        """,
    "own code replaced": """
        def other(p): return np.sum(p) * 7
        def raw(p): return np.sum(p)
        f = compile_grad(raw)
        def task(k):
            found = [f(np.ones(3)) for _ in range(3)]
            raw.__code__ = other.__code__
            return found + [f(np.ones(3)) for _ in range(3)]
        """,
    "global written": """
        count = 0
        @compile_grad
        def f(p):
            global count
            count += 1
            return np.sum(p) * count
        def task(k): return [float(f(np.ones(3))) for _ in range(4)] + [count]
        """,
    "closure written": """
        def make():
            count = 0
            @compile_grad
            def f(p):
                nonlocal count
                count += 1
                return np.sum(p) * count
            return f, lambda: count
        def task(k):
            f, now = make()
            return [float(f(np.ones(3))) for _ in range(4)] + [now()]
        """,
    "list appended": """
        history = []
        @compile_grad
        def f(p):
            history.append(float(p[0]))
            return np.sum(p)
        def task(k): return [f(np.ones(3) * (k + j)) for j in range(4)] + history
        """,
    "objects": """
        class Model:
            def __init__(self): self.w, self.on = np.ones(3), True
            @compile_grad
            def loss(self, p): return np.sum(self.w * p) if self.on else np.sum(p)
        model = Model()
        @compile_grad
        def f(p): return np.sum(model.w * p) * (2 if model.on else 1)
        def task(k):
            found = [f(np.ones(3)) for _ in range(2)] + [model.loss(np.ones(3)) for _ in range(2)]
            model.w, model.on = np.arange(3.0) * k, False
            return found + [f(np.ones(3)) for _ in range(2)] + [model.loss(np.ones(3)) for _ in range(2)]
        """,
    "recursion": """
        @compile_grad
        def f(x, n=3): return x if n == 0 else x * f(x, n - 1) + depth
        depth = 1.0
        def task(k):
            global depth
            found = [f(2.0) for _ in range(3)]
            depth = k * 1.0
            return found + [f(2.0) for _ in range(3)]
        """,
    "names looked up by text": """
        scale = 2.0
        @compile_grad
        def f(p): return np.sum(p) * globals()["scale"]
        def task(k):
            global scale
            found = [f(np.ones(3)) for _ in range(3)]
            scale = k
            return found + [f(np.ones(3)) for _ in range(3)]
        """,
    "a name that comes and goes": """
        @compile_grad
        def f(p):
            try: return np.sum(p) * extra
            except NameError: return np.sum(p)
        def task(k):
            global extra
            found = [f(np.ones(3)) for _ in range(3)]
            extra = k + 2.0
            found += [f(np.ones(3)) for _ in range(3)]
            del extra
            return found + [f(np.ones(3)) for _ in range(3)]
        """,
    "a builtin hidden": """
        @compile_grad
        def f(p): return max(np.sum(p), 2.0)
        def task(k):
            global max
            found = [f(np.ones(3)) for _ in range(3)]
            max = min
            found += [f(np.ones(3)) for _ in range(3)]
            del max
            return found + [f(np.ones(3)) for _ in range(3)]
        """,
    "a comprehension and a lambda": """
        weights = [1.0, 2.0, 3.0]
        def g(x): return x * x
        @compile_grad
        def f(p): return sum(w * g(v) for w, v in zip(weights, p)) + max([g(v) for v in p], key=lambda v: -g(v))
        def task(k):
            found = [f(np.arange(3.0)) for _ in range(3)]
            weights[0] = k * 1.0
            return found + [f(np.arange(3.0)) for _ in range(3)]
        """,
    "an error": """
        limit = 5.0
        @compile_grad
        def f(p):
            if p[0] > limit: raise ValueError(f"over {limit}")
            return np.sum(p)
        def task(k):
            global limit
            found = []
            for j in range(6):
                limit = 3.0 if j > 3 else 5.0
                try: found.append(f(np.ones(3) * 2 * j))
                except ValueError as error: found.append(str(error))
            return found
        """,
}


def same(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(
        x == y if isinstance(y, str) else np.allclose(x, y) for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_copy_answers_as_plain_python(name):
    sent, plain = Script(PROGRAMS[name]), Script(PROGRAMS[name], compiled=False)
    for k in (0, 1, 2, 0):
        assert same(sent.copy()(k), plain.copy()(k)), k
    copies = [(sent.copy(), plain.copy()) for _ in range(3)]
    for k, (ours, theirs) in itertools.product(range(2), copies):
        assert same(ours(k), theirs(k)), k


ONCE = {
    "data": PROGRAMS["data"],
    "helpers": PROGRAMS["helpers"].replace("c = k", "c = c"),
    "closure": """
        def make(a, w):
            def g(x): return w * x
            @compile_grad
            def f(p): return a * np.sum(g(p))
            return f
        f = make(2.0, np.arange(3.0))
        def task(k): return [f(np.ones(3)) for _ in range(3)]
        """,
    "called from another": """
        @compile_grad
        def g(p): return np.sum(p * p)
        @compile_grad
        def f(p): return g(p) + g(2 * p)
        def task(k): return [f(np.ones(3)) for _ in range(3)]
        """,
    "default": """
        @compile_grad
        def f(p, scale=2.0, *, on=True): return np.sum(p) * scale if on else p[0]
        def task(k): return [f(np.ones(3)) for _ in range(3)]
        """,
    "static": """
        from tracegrad import compile_grad as decorate
        @decorate(static_argnames="n")
        def f(p, n): return sum(p[i] for i in range(n))
        def task(k): return [f(np.ones(3), 2) for _ in range(3)]
        """,
    "helpers that take turns": """
        def plus(x): return x + 1
        def minus(x): return x - 1
        helper = plus
        @compile_grad
        def f(p): return np.sum(helper(p) ** 2)
        def task(k):
            global helper
            for j in range(6):
                helper = plus if j % 2 else minus
                f(np.ones(3))
        """,
    "gradient": """
        data = np.arange(3.0)
        @compile_grad
        def f(p): return np.sum((p - data) ** 2)
        def task(k): return [f.value_and_grad(np.ones(3) * k)[1] for _ in range(3)]
        """,
    "transform": """
        data = np.arange(3.0)
        def loss(p): return np.sum((p - data) ** 2 * p)
        f = tracegrad.autograd.hessian(loss)
        def task(k): return [f(np.ones(3) * k) for _ in range(3)]
        """,
    "vmap": """
        data = np.arange(3.0)
        f = tracegrad.autograd.vmap(lambda p: np.sum((p - data) ** 2 * p))
        def task(k): return [f(np.ones((2, 3)) * k) for _ in range(3)]
        """,
}


@pytest.mark.parametrize("name", ONCE)
def test_the_first_copy_has_recorded_for_all(name):
    sent = Script(ONCE[name])
    traces = []
    for _ in range(4):
        task = sent.copy()
        task(1)
        traces.append(task.__globals__["f"].stats.traces)
    assert traces == [traces[0], 0, 0, 0] and traces[0] <= 4


def test_functions_that_nobody_compiles_before_they_are_sent():
    """Nothing is sent with them, so that they have no source: their Python runs in each call, and they say so."""
    sent = Script("""
        data = np.arange(3.0)
        def loss(p): return np.sum((p - data) ** 2)
        def task(k):
            global f
            f = tracegrad.autograd.grad(loss)
            return [f(np.ones(3) * k) for _ in range(3)]
        """)
    for k in range(2):
        task = sent.copy()
        np.testing.assert_allclose(task(k), 3 * [2 * (k - np.arange(3.0))])
        assert "there is no source" in task.__globals__["f"].stats.live


def test_lines_of_other_functions_are_none_of_theirs():
    """Two that have the name and the place of each other in different files; what came first is not what is run."""
    source = """
        data = np.arange(3.0)
        @compile_grad
        def f(p):
            return np.sum(p * data) * NUMBER
        def task(k): return f(np.ones(3))
        """
    for number in (2, 3, 4, 2):
        task = Script(source.replace("NUMBER", str(number))).copy()
        assert task(0) == 3.0 * number and not task.__globals__["f"].stats.live


def test_functions_that_are_sent_on():
    """A worker has no file of a function that came there, but its lines."""
    task = Script(PROGRAMS["helpers"]).copy()
    for _ in range(2):
        task = cloudpickle.loads(cloudpickle.dumps(task))
    assert same(task(1), Script(PROGRAMS["helpers"], compiled=False).copy()(1))
    assert task.__globals__["f"].stats.live == ""


def test_copies_in_threads_have_their_own_data():
    sent = Script("""
        data = np.zeros(3)
        @compile_grad
        def f(p): return np.sum(p * data)
        def task(k):
            global data
            found = []
            for j in range(200):
                data = np.full(3, 1.0 * k + j)
                found.append(float(f(np.ones(3))))
            return found
        """)
    sent.copy()(0)
    found: dict[int, list[float]] = {}
    tasks = [sent.copy() for _ in range(6)]
    threads = [threading.Thread(target=lambda k=k: found.update({k: tasks[k](k)})) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {k: [3.0 * (k + j) for j in range(200)] for k in range(6)}


def test_one_copy_in_threads():
    task = Script(PROGRAMS["data"]).copy()
    expected = Script(PROGRAMS["data"], compiled=False).copy()(1)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(task(1))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(same(x, expected) for x in found)


def test_data_of_copies_that_are_gone_is_freed():
    sent = Script("""
        data = np.zeros(3)
        def make(w):
            @compile_grad
            def f(p): return np.sum(p * data * w)
            return f
        f = make(np.ones(3))
        def task(k): return f(np.ones(3))
        """)
    kept = []
    for _ in range(6):
        task = sent.copy()
        task(0)
        task(0)
        f = task.__globals__["f"].__wrapped__
        kept += [weakref.ref(task.__globals__["data"]), weakref.ref(f.__closure__[0].cell_contents)]
    del task, f
    gc.collect()
    assert [reference() for reference in kept if reference() is not None] == []


def test_homes_are_bounded():
    for k in range(20):
        Script(f"""
            @compile_grad
            def f(p): return np.sum(p) + {k}
            def task(k): return f(np.ones(3))
            """).copy()(0)
    assert len(sent_functions._homes) == 20 <= sent_functions._homes._limit()
    sent = Script(PROGRAMS["data"])
    copies = [sent.copy() for _ in range(12)]
    for _ in range(3):
        for task in copies:
            task(1)
    assert max(len(homes) for homes in sent_functions._homes.values()) <= 4


def test_functions_of_modules_and_of_exec_stay_as_they_are():
    space: dict[str, Any] = {"np": np, "compile_grad": compile_grad}
    exec("@compile_grad\ndef f(p): return np.sum(p)", space)
    space["f"](np.ones(3))
    compile_grad(lambda p: np.sum(p))(np.ones(3))
    assert not sent_functions._homes


@pytest.mark.slow
@pytest.mark.parametrize("tasks", ["delayed(task)(k) for k in range(24)", "delayed(of_its_own)(k) for k in range(24)"])
def test_workers_of_joblib_record_once(tmp_path, tasks):
    pytest.importorskip("joblib")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import os
        import numpy as np
        from joblib import Parallel, delayed
        from tracegrad import autograd, compile_grad

        data = np.arange(5.0)

        def loss(p):
            return np.sum((p[0] - data) ** 2 * np.exp(-p[1]))

        f = compile_grad(loss)
        autograd.grad(loss)  # which is sent with its lines from now on

        def task(k):
            values = [f(np.array([0.1 * k, 0.2])) for _ in range(4)]
            return os.getpid(), f.stats.traces, values[-1] - loss(np.array([0.1 * k, 0.2]))

        def of_its_own(k):
            g = autograd.grad(loss)
            values = [g(np.array([0.1 * k, 0.2])) for _ in range(4)]
            return os.getpid(), g.stats.traces, 0.0

        if __name__ == "__main__":
            found = Parallel(2, batch_size=1)(TASKS)
            assert all(abs(difference) < 1e-12 for *_, difference in found)
            traces = {}
            for pid, n, _ in found:
                traces[pid] = traces.get(pid, 0) + n
            assert set(traces.values()) == {1}, traces
        """).replace("TASKS", tasks)
    )
    environment = {**os.environ, "TRACEGRAD_CACHE": "0"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
