"""``explain()``: a golden text for the parts that are the runtime's, and the presence of the rest."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tracegrad import autograd, compile_grad, config
from tracegrad.runtime.report.sections import readable

X = np.array([0.3, -1.2, 2.0, 0.7])
data = np.array([1.0, 2.0, 3.0, 4.0])
rate = 0.5


def helper(x):
    return np.tanh(x) * rate


@compile_grad
def loss(x):
    h = helper(x * data)
    if np.sum(h) > -100:
        return np.sum(h**2)
    return np.sum(x)


GOLDEN = """\
loss (test_explain.py:+4): value_and_grad
a call like this has 1 recorded path, ready to run without Python

--- inputs
a is the argument `x`, f64[4]
b is `global data`, f64[4]

--- recorded program, with your lines
graph(a:f64[4], b:f64[4]) {
  c:f64[4] = mul a b  # test_explain.py:+6 in loss
  d:f64[4] = tanh c  # test_explain.py:+1 in helper
  e:f64[4] = mul d 0.5:f64  # test_explain.py:+1 in helper
  f:f64[] = reduce_sum[axes=(0,)] e  # test_explain.py:+7 in loss
  g:bool[] = gt f -100.0:f64  # test_explain.py:+7 in loss
  h:f64[4] = square e  # test_explain.py:+8 in loss
  i:f64[] = reduce_sum[axes=(0,)] h  # test_explain.py:+8 in loss
  j:f64[4] = mul 2.0!:f64 e  # test_explain.py:+8 in loss (adjoint)
  k:f64[4] = mul j 0.5:f64  # test_explain.py:+1 in helper (adjoint)
  l:f64[4] = mul d d  # test_explain.py:+1 in helper (adjoint)
  m:f64[4] = sub 1.0!:f64 l  # test_explain.py:+1 in helper (adjoint)
  n:f64[4] = mul k m  # test_explain.py:+1 in helper (adjoint)
  o:f64[4] = mul n b  # test_explain.py:+6 in loss (adjoint)
  guard bool g == True  # test_explain.py:+7 in loss
  return i o
}

--- guards
bool() gave True at test_explain.py:+7 in loss

--- outside state
compared by value in each call: rate
helpers, whose code is compared and whose state is part of this: helper
arrays, read again in each call: data

--- timings
<timings>

--- history
loss: 3 calls, 1 traces, 1 compiles, 0 kernel cache hits, 0 guard misses
  1 x first call with arguments of these types and shapes
  3 runs of value_and_grad where bool() gave True at test_explain.py:+7 in loss
"""


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^--- (.*)$", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def normal(text: str) -> str:
    """Columns, times and absolute lines taken out: lines count from ``def helper``."""
    first = helper.__code__.co_firstlineno
    text = re.sub(r" +#", "  #", text)
    text = re.sub(r"(?<=test_explain\.py:)\d+", lambda m: f"+{int(m[0]) - first}", text)
    return re.sub(r"(?<=--- timings\n).*\n", "<timings>\n", text)


def test_golden():
    for _ in range(3):
        loss.value_and_grad(X)
    text = loss.explain(X, level="all")
    found = sections(text)
    assert list(found) == [
        "",
        "summary",
        "inputs",
        "recorded program, with your lines",
        "loops",
        "decisions",
        "memory",
        "guards",
        "outside state",
        "timings",
        "history",
    ]
    # loops, decisions and memory belong to code generation, which goes on changing
    for name in ("summary", "loops", "decisions", "memory"):
        assert found[name].strip()
        text = text.replace(f"--- {name}{found[name]}", "")
    compiles = loss.stats.compiles  # 0 where another test of this process has compiled this very program
    golden = GOLDEN.replace("1 compiles, 0 kernel", f"{compiles} compiles, {1 - compiles} kernel")
    assert normal(text) == golden
    assert re.search(r"record [\d.]+ ms, derive [\d.]+ ms", found["timings"])
    assert re.search(r"in all: results 40 bytes, workspace \d+ bytes", found["memory"])
    assert "for i1 in n1" in found["loops"]


def test_status_before_the_first_call_and_for_other_kinds():
    f = compile_grad(lambda x: np.sum(x**2))
    assert "has not been made yet" in f.explain(X, level="all")
    for _ in range(3):
        f.value_and_grad(X)
    assert "1 recorded path, ready" in f.explain(X, level="all")
    assert "has not been made yet" in f.explain(np.ones(7), level="all")
    assert f.stats.calls == 3 and f.stats.traces == 1  # looking changes nothing


def test_functions_that_run_in_every_call_say_why():
    f = compile_grad(lambda x: np.sum(x * np.random.default_rng().random(4)))
    f.value_and_grad(X)
    text = f.explain(X, level="all")
    assert "runs Python each time" in text.split("--- inputs")[0]
    state = sections(text)["outside state"]
    assert "Python has to run in each call" in state and "default_rng" in state and "test_explain.py" in state


def test_guards_on_numbers():
    f = compile_grad(lambda x: np.sum(x) * int(x[2]))
    guards = sections(f.explain(X, level="all"))["guards"]
    assert "int() gave 2 at test_explain.py" in guards


def test_a_function_without_a_gradient():
    f = compile_grad(lambda x: (x * 2, "text"))
    text = f.explain(X, level="all")
    assert "no gradient, so this is its value alone" in text and "mul a 2.0" in text.replace(":f64", "")


def test_trees_methods_and_derivatives():
    class Model:
        k = 2.0

        @compile_grad
        def loss(self, params, n):
            return np.sum(params["w"] ** 2) * self.k / n

    model = Model()
    for _ in range(3):
        model.loss.value_and_grad({"w": X}, 3)
    text = model.loss.explain({"w": X}, 3, level="all")
    assert "a is the argument `params['w']`, f64[4]" in text and "Model.k" in text
    assert "1 recorded path, ready" in text
    second = autograd.grad(lambda x: np.sum(autograd.grad(lambda y: np.sum(y**3))(x)))
    second(X)
    assert "(adjoint)" in second.explain(X, level="all")


def test_nothing_outside():
    assert "reads nothing but its arguments" in compile_grad(lambda x: x * 2.0).explain(1.5, level="all")
    assert "none: no value decided" in compile_grad(lambda x: x * 2.0).explain(1.5, level="all")


def test_of_a_function_that_was_never_called():
    """Where a run has to be made again, it is."""

    @compile_grad
    def f(x):
        z = np.zeros(3)
        z[1:] += x[:2]
        return np.sum(z)

    assert "update" in f.explain(X, level="all")


def test_long_programs_are_folded_and_counted(monkeypatch):
    lines = [line for k in range(400) for line in (f"  a{k} = sin b{k}", f"  c{k} = add a{k} 2.5")]
    text = "\n".join(["begin", *lines, "end"])
    folded = readable(text)
    assert "... such 2 lines 399 more times" in folded and "(of 802 lines;" in folded
    assert folded.splitlines()[:3] == ["begin", "  a0 = sin b0", "  c0 = add a0 2.5"]
    names = ("sin", "cos", "tan", "exp", "log", "abs")
    unlike = "\n".join(f"x = {names[k * k * 7 % 6]}{k // 9 * 'x'}" for k in range(600))
    shown = readable(unlike)
    assert len(shown.splitlines()) <= config.explain_lines + 2 and "more lines" in shown
    monkeypatch.setattr(config, "explain_lines", 0)
    assert readable(text) == text


def test_the_summary_is_short_and_the_rest_comes_by_level():
    f = compile_grad(loss.__wrapped__)
    for _ in range(3):
        f.value_and_grad(X)
    text = f.explain(X)
    summary = sections(text)["summary"]
    assert len(text.splitlines()) < 22 and list(sections(text)) == ["", "summary"]
    heads = [line.split(" ")[0] for line in summary.splitlines() if line.strip() and not line.startswith("more:")]
    assert heads[:6] == ["reads", "gives", "program", "kernel", "memory", "Python"]
    assert heads[-2:] == ["recorded", "took"] and set(heads[6:-2]) == {"decided"}
    assert "x f64[4]" in summary and "64 bytes" in summary and "does nothing in a call" in summary
    everything = f.explain(X, level="all")
    assert everything.index("--- summary") < everything.index("--- inputs")
    assert list(sections(f.explain(X, level="memory"))) == ["", "memory"]
    assert set(sections(text.at("program"))) >= {"inputs", "guards", "outside state"}
    assert sections(text.at("kernels"))["loops"] == sections(everything)["loops"]


def test_unknown_levels_and_formats_say_which_there_are():
    with pytest.raises(ValueError, match=r"explain\(level='most'\): level is one of 'summary', 'program'"):
        loss.explain(X, level="most")
    with pytest.raises(ValueError, match=r"explain\(format='pdf'\): format is one of 'text', 'html'"):
        loss.explain(X, format="pdf")


def test_a_parameter_of_the_functions_own_is_no_option():
    @compile_grad
    def f(x, level=2.0, **format):
        return np.sum(x * level)

    text = f.explain(X, level=3.0, format=1)
    assert "`level`" in text.at("program") and list(sections(text)) == ["", "summary"]
    assert f.explain(X, 3.0).html().startswith("<!DOCTYPE html>")


def test_loops_and_memory_have_the_names_lines_and_sizes_of_this_program():
    """Though the kernel was compiled for another function, with other sizes and constants."""

    def make(scale):
        def f(x, w):
            hidden = np.exp(x @ w * scale)
            return np.sum(hidden / np.sum(hidden, axis=1, keepdims=True))

        return compile_grad(f)

    make(2.5).value_and_grad(np.ones((30, 20)), np.ones((20, 40)))
    text = make(0.125).explain(np.ones((50, 24)), np.ones((24, 70)), level="all")
    found = sections(text)
    assert "=50:" in found["loops"] and "=70:" in found["loops"] and "0.125" in found["loops"]
    assert not re.search(r"\bv\d+\b", found["loops"] + found["memory"]) and "2.5" not in found["loops"]
    defined = dict(re.findall(r"^  (\w+):\S+ = (\w+)", found["recorded program, with your lines"], re.MULTILINE))
    shown = dict(re.findall(r"^ *(\w+) = (\w+)", found["loops"], re.MULTILINE))
    assert shown and shown.items() <= defined.items()
    stored = [line for line in found["decisions"].splitlines() if "is stored" in line]
    assert stored and all("test_explain.py:" in line for line in stored)


def test_what_is_not_fused_has_its_line():
    @compile_grad
    def f(x):
        for _ in range(8):
            x = x[:-1] * x[1:]
        return np.sum(x)

    refused = [
        line for line in sections(f.explain(np.ones(40), level="all"))["decisions"].splitlines() if "fuse/" in line
    ]
    assert len(refused) > 3 and all(re.search(r"# test_explain.py:\d+ in f", line) for line in refused)


def test_names_in_a_loop_that_data_ends_are_those_of_its_text():
    """Whose body is put in another order before it is compiled."""

    @compile_grad
    def root(a):
        x = a * 0.5 + 0.5
        while np.abs(x * x - a) > 1e-9:
            x = 0.5 * (x + a / x)
        return x

    text = root.explain(7.0)
    found = sections(text.at("all"))
    body = found["recorded program, with your lines"].split("loop[body=")[1].split("consts=")[0]
    defined = dict(re.findall(r"^ +(\w+):\S+ = (\w+)", body, re.MULTILINE))
    steps = found["loops"].split("for steps")[1].split("(the kernel steps)")[0]
    shown = dict(re.findall(r"^    ([a-z]+) = (\w+)", steps, re.MULTILINE))
    assert shown and shown.items() <= defined.items()
    assert "one arm runs" not in sections(text)["summary"] and "rolled: the loop" in sections(text)["summary"]


def test_names_in_the_body_of_a_loop_are_those_of_its_text():
    @compile_grad
    def f(x, A):
        for _ in range(30):
            x = np.tanh(A @ x) + x
        return np.sum(x)

    found = sections(f.explain(np.ones(50), np.ones((50, 50)), level="all"))
    assert "for each of n" in found["loops"] and "=30 steps" in found["loops"]
    assert not re.search(r"\bv\d+\b", found["loops"])
