"""First calls that plans on disk answer: right, once each, verified by the next call; and never by a stale plan.

Another process is a function made anew, from source, in a module of its own: plans know of no object.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import subprocess
import sys
import textwrap
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from with_source import code_of

from tracegrad import compile_grad, profile
from tracegrad.autograd import grad
from tracegrad.runtime.config import config
from tracegrad.runtime.disk.encoding import encode
from tracegrad.runtime.disk.store import store, unpacked
from tracegrad.runtime.stored import first_call, plan_file

HELPER = """
import numpy as np
RATE = 0.5
def squash(z, k=1.5):
    return np.tanh(z) * k
"""

MODEL = """
import math
import numpy as np
import helper
SCALE = 2.0
CFG = {"power": 2, "names": ("a", "b")}
SHIFTS = [np.arange(3.0), np.ones(3)]
def penalty(w, rate=0.25):
    return rate * np.sum(w * w)
def make(A, c):
    def loss(w, X, b=0.5):
        z = helper.squash(X @ w) * c + math.pi
        for s in SHIFTS:
            z = z + s
        if np.sum(w) > 100.0:
            z = z + 1.0
        return np.mean((z * SCALE - b) ** CFG["power"]) + penalty(w) * helper.RATE + np.sum(np.sin(A * w))
    return loss
loss = make(np.array([1.0, 2.0]), 3.0)
"""
W, X = np.array([0.3, -0.2]), np.arange(6.0).reshape(3, 2)


def process(helper: str = HELPER, model: str = MODEL) -> types.ModuleType:
    """The *model*'s module, as another process has it."""
    made = []
    for name, text in (("helper", helper), ("model", model)):
        spec = importlib.util.spec_from_loader(name, None)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        if made:
            sys.modules["helper"] = made[0]
        try:
            exec(code_of(textwrap.dedent(text), f"{name}.py"), module.__dict__)
        finally:
            sys.modules.pop("helper", None)
        made.append(module)
    return made[1]


def plans(cache: Path) -> list[str]:
    return sorted(name for name in os.listdir(cache) if name.startswith("plan-")) if cache.exists() else []


def numeric(f: Any, w: np.ndarray, *rest: Any) -> np.ndarray:
    h = 1e-6
    return np.array([(f(w + h * e, *rest) - f(w - h * e, *rest)) / (2 * h) for e in np.eye(len(w))])


def check(f: Any, fn: Any, *args: Any) -> None:
    value, gradient = f.value_and_grad(*args)
    np.testing.assert_allclose(value, fn(*args), rtol=1e-12)
    np.testing.assert_allclose(gradient, numeric(fn, *args), rtol=1e-6, atol=1e-7)


def test_some_calls_are_answered_before_one_verifies(cache, monkeypatch) -> None:
    monkeypatch.setattr(config, "disk_answers", 3)
    f = compile_grad(process().loss)
    for _ in range(2):
        check(f, process().loss, W, X)
    module = process()
    f = compile_grad(module.loss)
    for turn in range(5):
        check(f, module.loss, W + turn, X)
        assert (f.stats.from_disk, f.stats.traces) == (min(turn + 1, 3), int(turn > 2))
    assert len(plans(cache)) == 1


@pytest.mark.parametrize("edit", ["CFG['power'] = 3", "SCALE = 3.0", "helper.RATE = 0.7", "SHIFTS.append(np.ones(3))"])
def test_a_change_between_such_calls_is_seen(edit, cache, monkeypatch) -> None:
    monkeypatch.setattr(config, "disk_answers", 10)
    f = compile_grad(process().loss)
    for _ in range(2):
        check(f, process().loss, W, X)
    module = process()
    f = compile_grad(module.loss)
    for _ in range(2):
        check(f, module.loss, W, X)
    assert (f.stats.from_disk, f.stats.traces) == (2, 0)
    exec(edit, module.__dict__)
    check(f, module.loss, W, X)
    assert (f.stats.from_disk, f.stats.traces) == (2, 1)
    module.SHIFTS[0][:] = 9.0  # data of an array, which is an input
    check(f, module.loss, W, X)


@pytest.mark.parametrize(
    "asked", ["n in VALUES", "VALUES.count(n)", "VALUES == OTHERS", "(n, 1) in PAIRS", "TABLE == {'k': n}"]
)
def test_which_nan_a_container_holds_is_part_of_the_plan(asked, cache) -> None:
    source = f"""
    import numpy as np
    n = float("nan")
    VALUES, OTHERS, PAIRS, TABLE = [1.0, n], [1.0, n], [(n, 1)], {{"k": n}}
    def loss(w):
        return np.sum(w * w) * (2.0 if {asked} else 3.0)
    """
    for turn, edit in enumerate(("", "", "n = float('nan'); OTHERS = [1.0, n]")):
        module = process(model=source)
        exec(edit, module.__dict__)
        f = compile_grad(module.loss)
        for _ in range(2):
            check(f, module.loss, W)
        assert f.stats.from_disk == (turn == 1), f.stats.not_kept


def test_the_comparing_has_a_limit(cache, monkeypatch) -> None:
    monkeypatch.setattr(config, "disk_answers", 10)
    monkeypatch.setattr(first_call, "PATIENCE", 0.0)
    for turn in range(2):
        f = compile_grad(process().loss)
        for _ in range(3):
            check(f, process().loss, W, X)
        assert (f.stats.from_disk, f.stats.traces) == (turn, 1)


def test_the_first_call_is_answered_and_the_second_verifies(cache) -> None:
    first = process()
    f = compile_grad(first.loss)
    check(f, first.loss, W, X)
    assert len(plans(cache)) == 1
    check(f, first.loss, W, X)
    assert len(plans(cache)) == 1 and not f.stats.not_kept

    second = process()
    second.SHIFTS[0] += 1.0  # contents of arrays are read anew
    g = compile_grad(second.loss)
    with profile() as p:
        check(g, second.loss, W + 0.1, X)
    assert (g.stats.from_disk, g.stats.traces) == (1, 0)
    assert [(line.calls, line.from_disk, line.recordings) for line in p.lines.values()] == [(1, 1, 0)]
    check(g, second.loss, W, X)
    assert (g.stats.from_disk, g.stats.traces) == (1, 1)
    check(g, second.loss, W - 0.1, X)
    assert (g.stats.from_disk, g.stats.traces) == (1, 1) and "1 x answered by a recording on disk" in str(g.stats)
    assert "answered by a recording on disk" in g.explain(W, X, level="all")
    assert len(plans(cache)) == 1

    other = compile_grad(process().loss)
    for _ in range(2):
        check(other, other.__wrapped__, W + 60.0, X)  # a guard fails: Python decides
    assert (other.stats.from_disk, other.stats.traces) == (0, 1)
    for w in (W, W + 60.0):  # both ways are known
        last = compile_grad(process().loss)
        check(last, last.__wrapped__, w, X)
        assert (last.stats.from_disk, last.stats.traces) == (1, 0)
    assert len(plans(cache)) == 1


EDITS = {
    "a name that hides a builtin's": (None, ("SCALE = 2.0", "SCALE = 2.0\nhelper.np.sin, kept = np.sin, 1")),
    "a helper in another module": (("np.tanh(z) * k", "np.arctan(z) * k"), None),
    "a default of it": (("k=1.5", "k=1.25"), None),
    "a constant in it": (("RATE = 0.5", "RATE = 0.75"), None),
    "a constant": (None, ("+ math.pi", "+ math.e")),
    "a literal": (None, ("z + 1.0", "z + 2.0")),
    "a global": (None, ("SCALE = 2.0", "SCALE = 2.5")),
    "a global of another type": (None, ("SCALE = 2.0", "SCALE = 2")),
    "a global array in place of a number": (None, ("SCALE = 2.0", "SCALE = np.full(3, 2.0)")),
    "an item of a dict": (None, ('"power": 2', '"power": 3')),
    "a list of other length": (None, ("np.ones(3)]", "np.ones(3), np.ones(3)]")),
    "an array of another shape": (None, ("np.ones(3)]", "np.ones(1)]")),
    "an array of another dtype": (None, ("np.ones(3)]", "np.ones(3, np.float32)]")),
    "a default": (None, ("rate=0.25", "rate=0.5")),
    "a default of its own": (None, ("b=0.5", "b=0.75")),
    "a number in the closure": (None, ("2.0]), 3.0)", "2.0]), 4.0)")),
    "an array in the closure": (None, ("np.array([1.0, 2.0])", "np.array([1.0])")),
    "one array in two places": (None, ("SHIFTS = [np.arange(3.0), np.ones(3)]", "SHIFTS = [np.ones(3)] * 2")),
    "a method of NumPy": (None, ("np.sum(w * w)", "np.prod(w * w)")),
    "another function of that name": (None, ("def penalty(w, rate=0.25):", "def penalty(w, rate=0.25, more=1):")),
}


def test_no_edit_between_two_processes_gives_a_stale_answer(cache) -> None:
    known = compile_grad(process().loss)
    for _ in range(2):
        known.value_and_grad(W, X)
    assert len(plans(cache)) == 1
    for name, (in_helper, in_model) in EDITS.items():
        texts = [HELPER, MODEL]
        for k, edit in enumerate((in_helper, in_model)):
            if edit is not None:
                assert edit[0] in texts[k], name
                texts[k] = texts[k].replace(*edit)
        module = process(*texts)
        f = compile_grad(module.loss)
        check(f, module.loss, W, X)
        harmless = name == "a name that hides a builtin's"
        assert (f.stats.from_disk == 1) == harmless, name


def test_no_change_of_what_libraries_have_gives_a_stale_answer(cache, monkeypatch) -> None:
    known = compile_grad(process().loss)
    for _ in range(2):
        known.value_and_grad(W, X)
    again = compile_grad(process().loss)
    again.value_and_grad(W, X)
    assert again.stats.from_disk == 1

    def sine(x: Any) -> Any:
        return 2.0 * x

    def vectorised(x: float) -> float:
        return 2.0 * x

    vectorised.__name__ = "sin"
    from_python = np.frompyfunc(vectorised, 1, 1)
    for place, name, value in (
        (np, "sin", sine), (np, "sin", np.cos), (np, "sin", from_python), (np, "mean", np.sum),
        (np, "__version__", "9.9.9"),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            f = compile_grad(process().loss)
            if name == "__version__" or value is from_python:
                f.value_and_grad(W, X)
            else:
                check(f, f.__wrapped__, W, X)
            assert f.stats.from_disk == 0, (name, value)


def test_what_is_not_kept_says_so(cache) -> None:
    source = """
    import enum
    import numpy as np
    class Settings(enum.Enum):
        rate = 2.0
    chosen = Settings.rate
    class Items(dict):
        rate = 2.0
    items = Items()
    def by_identity(x):
        return np.sum(x * (2.0 if chosen is Settings.rate else 3.0))
    def by_instance(x):
        return np.sum(x * items.rate)
    def by_set(x):
        return sum([np.sum(x) * len(name) for name in {"a", *"bc"}])
    def by_import(x):
        import math
        return np.sum(x) * math.pi
    def by_print(x):
        print("x")
        return np.sum(x)
    def by_argument(x):
        return x
    def by_hash(x):
        return np.sum(x) * float(hash("x") % 3 + 1)
    """
    module = process(model=source)
    reasons = {
        "by_argument": "its result",
        "by_set": "goes over a set",
        "by_hash": "asks for a hash",
        "by_print": "effects",
    }
    for name, why in reasons.items():
        f = compile_grad(getattr(module, name))
        f(W), f(W)
        assert why in f.stats.not_kept and "(disk/" in f.stats.not_kept and why in str(f.stats), name
    assert plans(cache) == []
    module.Items.rate = 3.0
    assert compile_grad(module.by_instance)(W) == pytest.approx(3.0 * W.sum())


def test_two_lambdas_on_one_line_are_two(cache) -> None:
    source = "f, g = (lambda x: (x * x).sum()), (lambda x: (x * x * x).sum())\n"
    module = process(model=source)
    for fn in (module.f, module.g):
        for _ in range(2):
            compiled = compile_grad(fn)
            compiled.grad(W), compiled.grad(W)
    again = process(model=source)
    for fn, expected in ((again.f, 2 * W), (again.g, 3 * W * W)):
        compiled = compile_grad(fn)
        np.testing.assert_allclose(compiled.grad(W), expected)
        assert compiled.stats.from_disk == 1


def test_modes_structures_and_layouts_have_plans_of_their_own(cache) -> None:
    def fn(p: Any, s: Any) -> Any:
        return np.sum(np.tanh(p["w"] * s + p["b"][0])) if isinstance(s, float) else np.sum(p["w"] ** s)

    w = np.arange(6.0).reshape(2, 3) / 10
    calls = [
        ({"w": w, "b": [np.ones(3)]}, 0.5), ({"w": w.T, "b": [np.ones(2)]}, 0.5), ({"w": w, "b": [0.25]}, 0.5),
        ({"w": w, "b": (0.25,)}, np.float64(0.5)), ({"w": w, "b": [w[0]]}, 2),
    ]  # fmt: skip
    kept = compile_grad(fn)
    for call in calls:
        kept.value_and_grad(*call), kept.value_and_grad(*call)
    found = compile_grad(fn)
    for call in calls:
        value, gradient = found.value_and_grad(*call)
        expected, known = kept.value_and_grad(*call)
        assert type(value) is type(expected) and value == expected
        assert list(gradient) == list(known) and type(gradient["b"]) is type(known["b"])
        np.testing.assert_array_equal(gradient["w"], known["w"])
        np.testing.assert_array_equal(gradient["b"][0], known["b"][0])
        assert type(gradient["b"][0]) is type(known["b"][0])
    assert (found.stats.from_disk, found.stats.traces) == (len(calls), 0)


def test_gradients_as_functions_have_plans_too(cache) -> None:
    for from_disk in (0, 1):
        module = process()
        gradient = grad(module.loss)
        for _ in range(3):
            np.testing.assert_allclose(gradient(W, X), numeric(module.loss, W, X), rtol=1e-6, atol=1e-7)
        assert (gradient.stats.traces, gradient.stats.from_disk) == (1, from_disk)


def test_what_holds_functions_is_described_by_them(cache) -> None:
    source = """
    import functools
    import numpy as np
    from tracegrad import compile_grad, vmap
    from tracegrad.autograd import grad, hessian
    RATE = 2.0
    @compile_grad
    def inner(x):
        return np.tanh(x) * RATE
    def outer(x):
        return np.sum(inner(x) ** 2)
    def cube(s, x):
        return np.sum(x**3 * s) * RATE
    scaled = functools.partial(cube, 0.5)
    def second(x):
        return np.sum(slope(x) ** 2)
    slope = grad(scaled)
    curved = hessian(scaled)
    def row(s, x):
        return np.sum(x**2 * s) * RATE
    rows = vmap(grad(row, argnums=1), in_axes=(None, 0))
    doubled = lambda x: rows(0.5, np.array([1.0, 2.0])[:, None] * x)[1]
    """
    for turn, edit in enumerate(("RATE = 2.0", "RATE = 3.0", "RATE = 2.0")):
        module = process(model=source.replace("RATE = 2.0", edit))
        rate = module.RATE
        t = np.tanh(W)
        for f, expected in (
            (compile_grad(module.outer).grad, 2 * rate**2 * t * (1 - t * t)),
            (grad(module.scaled), 1.5 * W**2 * rate),
            (compile_grad(module.second).grad, 9 * W**3 * rate**2),
            (module.curved, np.diag(3 * W * rate)),
            (compile_grad(module.doubled), 2 * W * rate),
        ):
            for _ in range(2):
                np.testing.assert_allclose(f(W), expected, rtol=1e-12)
            stats = (f.__self__ if hasattr(f, "__self__") else f).stats
            assert stats.not_kept == "", stats.not_kept
            assert stats.from_disk == (turn == 2), (edit, expected)
    files = [plan_file.unpacked(unpacked((cache / name).read_bytes())[2]) for name in plans(cache)]
    assert sum(map(len, files)) == 10


def test_a_plan_that_its_recording_does_not_confirm_is_removed(cache) -> None:
    source = "import numpy as np\ndef fn(x):\n    return np.sum(np.exp(x) * 2.0)\n"
    found = []
    for text in (source.replace("2.0", "3.0"), source):
        f = compile_grad(process(model=text).fn)
        f(W), f(W)
        (name,) = plans(cache)
        _, key, payload = unpacked((cache / name).read_bytes())
        found += plan_file.unpacked(payload)
        store.drop("plan", key)
    theirs, mine = found
    wrong = dataclasses.replace(theirs, answers=mine.answers, reads=mine.reads)
    store.put("plan", key, plan_file.packed([wrong]))  # as if the key did not say enough
    g = compile_grad(process(model=source).fn)
    assert g(W) == pytest.approx(3.0 * np.exp(W).sum())
    with pytest.warns(RuntimeWarning, match="answered by a recording on disk"):
        assert g(W) == pytest.approx(2.0 * np.exp(W).sum())
    kept = [plan for file in plans(cache) for plan in plan_file.unpacked(unpacked((cache / file).read_bytes())[2])]
    assert [plan.program for plan in kept] == [mine.program]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert g(W) == pytest.approx(2.0 * np.exp(W).sum())


def test_bytes_that_are_no_plan_and_kernels_that_cannot_run_here_leave_it_to_python(cache) -> None:
    source = "import numpy as np\ndef fn(x):\n    return np.sum(np.exp(x) * 2.0)\n"
    f = compile_grad(process(model=source).fn)
    f(W), f(W)
    (name,) = plans(cache)
    _, text, payload = unpacked((cache / name).read_bytes())
    (plan,) = plan_file.unpacked(payload)
    strange = dataclasses.replace(plan, code=b"", symbols=("capsule:scipy.linalg.cython_blas:no_such",))
    nameless = dataclasses.replace(plan, symbol="no_such")
    bad = [plan_file.packed([p]) for p in (strange, nameless)]
    for content in (b"", payload[:-1], encode((1, 2)), *bad):
        store.drop("plan", text)
        store.put("plan", text, content)
        g = compile_grad(process(model=source).fn)
        assert g(W) == pytest.approx(2.0 * np.exp(W).sum())
        assert (g.stats.from_disk, g.stats.traces) == (0, 1)
        assert plans(cache)
    store.drop("plan", text)
    store.put("plan", text, plan_file.packed([*[strange] * 3, plan]))
    g = compile_grad(process(model=source).fn)
    assert g(W) == pytest.approx(2.0 * np.exp(W).sum()) and g.stats.from_disk == 1


def test_settings_and_what_is_around_a_call_do_without_plans(cache, monkeypatch) -> None:
    source = "import numpy as np\ndef fn(x):\n    return np.sum(np.exp(x) * 2.0)\n"
    f = compile_grad(process(model=source).fn)
    f(W), f(W)

    def answered() -> int:
        g = compile_grad(process(model=source).fn)
        assert g(W) == pytest.approx(2.0 * np.exp(W).sum())
        return g.stats.from_disk

    assert answered() == 1
    for name, value in (("cache", False), ("cache_recordings", False), ("check", True)):
        with monkeypatch.context() as patch:
            patch.setattr(config, name, value)
            assert answered() == 0, name
    for errors in ({"over": "raise"}, {"over": "ignore"}):
        with np.errstate(**errors):
            assert answered() == 0
    inner = compile_grad(process(model=source).fn)
    outer = compile_grad(lambda x: inner(x) ** 2)
    assert outer(W) == pytest.approx((2.0 * np.exp(W).sum()) ** 2) and inner.stats.from_disk == 0
    assert answered() == 1


@pytest.mark.slow
def test_processes_answer_each_other(cache, tmp_path) -> None:
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        import sys
        import numpy as np
        from tracegrad import compile_grad
        X = np.arange(12.0).reshape(4, 3)
        @compile_grad
        def loss(w):
            return np.mean(np.log1p(np.exp(-X @ w)))
        before = set(sys.modules)
        for _ in range(int(sys.argv[1])):
            value, gradient = loss.value_and_grad(np.ones(3))
        if loss.stats.traces == 0:  # neither tracer nor compiler is needed
            assert not [m for m in set(sys.modules) - before if m.split(".")[0] in ("numba", "llvmlite", "scipy")]
            assert not [m for m in set(sys.modules) - before if m.startswith(("tracegrad.tracer", "tracegrad.runtime"))]
        print(value.hex(), [x.hex() for x in gradient.tolist()], loss.stats.from_disk, loss.stats.traces)
        """)
    )
    root = Path(__file__).resolve().parents[3]
    env = os.environ | {"TRACEGRAD_CACHE_DIR": str(cache), "PYTHONPATH": str(root), "TRACEGRAD_DISK_ANSWERS": "1"}
    out = [
        subprocess.run(
            [sys.executable, str(tmp_path / "script.py"), n], env=env, capture_output=True, text=True, check=True
        ).stdout.strip()
        for n in ("2", "1", "2")
    ]
    numbers = [line.rsplit(" ", 2) for line in out]
    assert numbers[0][0] == numbers[1][0] == numbers[2][0]
    assert [line[1:] for line in numbers] == [["0", "1"], ["1", "0"], ["1", "1"]]


def test_threads_are_answered_at_once(cache, monkeypatch) -> None:
    """Workspaces are handed on, and no two calls have one."""
    monkeypatch.setattr(config, "disk_answers", 10_000)
    monkeypatch.setattr(first_call, "PATIENCE", 60.0)
    source = """
    import numpy as np
    def fn(x, A):
        h = np.tanh(A @ x)
        return np.sum(np.cumsum(h) * h * np.exp(A.T @ h))
    """
    sizes = (40, 200, 700)
    operands = [(np.linspace(-1.0, 1.0, n), np.cos(np.arange(n * n).reshape(n, n))) for n in sizes]
    kept = compile_grad(process(model=source).fn)
    for x, A in operands:
        kept.value_and_grad(x, A), kept.value_and_grad(x, A)
    assert kept.stats.not_kept == ""
    f = compile_grad(process(model=source).fn)
    expected = [f.value_and_grad(x, A) for x, A in operands]

    def calls(k: int) -> bool:
        found = [(f.value_and_grad(*operands[(k + i) % 3]), expected[(k + i) % 3]) for i in range(12)]
        return all(a[0] == b[0] and (a[1] == b[1]).all() for a, b in found)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(calls, range(8)))
    assert f.stats.traces == 0
