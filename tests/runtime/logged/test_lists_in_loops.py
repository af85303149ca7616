"""Lists in loops that become loop nodes: their lengths, their values, and which arrays in them are one."""

from __future__ import annotations

import numpy as np
import pytest
from along_one_way import check
from small_worlds import as_in_python
from with_source import code_of

from tracegrad import compile_grad
from tracegrad.runtime.logged.record import Logged

LOOP = "for j in range(18):\n"


@pytest.fixture
def closed(monkeypatch):
    record, found = Logged.record, []
    monkeypatch.setattr(Logged, "record", lambda *a, **k: found.append(record(*a, **k)) or found[-1])
    return found


ONE_OR_MORE = {
    "each is new": "h.append(np.tanh(x))",
    "each is new, and one is named": "y = np.tanh(x)\nh.append(y)",
    "all are one": "h.append(z)",
    "of the argument": "h.append(x)",
    "of the outside": "h.append(box.array)",
    "twice": "y = np.tanh(y)\nh.append(y)\nh.append(y)",
    "in two lists": "y = np.tanh(y)\nh.append(y)\nh2.append(y)",
    "and in a place": "box.now = np.tanh(x)\nh.append(box.now)",
    "before it is bound anew": "q.append(y)\ny = np.tanh(y)",
    "before and after": "q.append(y)\ny = np.tanh(y)\np.append(y)",
    "after and before": "z = y\ny = np.tanh(y)\np.append(y)\nq.append(z)",
    "exchanged": "q.append(y)\ny, z = z, y",
    "of two before": "y, z = z, y + 0.1 * z\nq.append(y)",
    "in turn": "y = y * 0.5\nz = z + y\nq.append(y)\nq.append(z)",
    "of an inner loop": "z = np.tanh(x)\nfor i in range(17):\n    h.append(z)",
    "of a short inner loop": "z = np.tanh(x)\nfor i in range(2):\n    h.append(z)",
    "views": "q.append(np.tanh(x)[:2])",
    "one number in two lists": "q.append(0)\nq.append(s * j)\np.append(0)",
    "one that is equal each time, and the one before": "q.append(y)\ny = np.tanh(x)\np.append(y)\nq.append(s * j)",
    "numbers": "q.append(2 * j + 1)\nq.append(s * j)",
}
READ = {
    "its length": "s = s + len(h)\nh.append(s * 0.01)",
    "its length is appended": "h.append(len(h))",
    "at its length": "h.append(x[len(h) % 3])",
    "the last": "h2.append(h2[-1] * 0.5 + s)",
    "the last but one": "h2.append(h2[-2] * 0.5 + s)",
    "by its length": "t = h2[len(h2) - 1]\nh2.append(0.5 * t + s)",
    "whether it is empty": "if not h:\n    s = s + 1\nh.append(j)",
    "another one's last": "h.append(h2[-1])\nh2.append(s)",
}
WRITTEN = {
    "the last": ("y = np.tanh(y)\nq.append(y)", "y[0] = 3.0"),
    "the first": ("q.append(z)\nz = np.tanh(z)", "q[0][0] = 3.0\nh.append(q[0])"),
    "in two lists": ("y = np.tanh(y)\nq.append(y)\np.append(y)", "q[3][0] = 3.0"),
    "one of many": ("q.append(np.tanh(x))", "q[3][0] = 3.0"),
    "one of two names": ("z = y\ny = np.tanh(y)\nq.append(z)", "z[0] = 5.0"),
    "what a view is of": ("z = np.tanh(x * j)\nq.append(z[:2])", "z[0] = 3.0"),
}


def in_loop(text):
    return LOOP + "\n".join(f"    {line}" for line in text.split("\n"))


@pytest.mark.parametrize("name", ONE_OR_MORE)
def test_arrays_that_are_appended(name, closed):
    as_in_python(in_loop(ONE_OR_MORE[name]))
    assert closed[0] is not None


@pytest.mark.parametrize("name", READ)
def test_lists_outside_that_are_read_before_they_grow(name, closed):
    as_in_python(in_loop(READ[name]))
    assert closed[0] is not None


@pytest.mark.parametrize("name", WRITTEN)
def test_arrays_that_are_written_after_they_were_appended(name):
    body, after = WRITTEN[name]
    as_in_python(f"{in_loop(body)}\n{after}")


DEQUES = ("box.last.append(box.last[-1] * 0.5 + s)", "s = s + len(box.last) * 0.1\nbox.last.append(s)")


@pytest.mark.parametrize("text", DEQUES)
def test_deques_that_are_read_before_they_grow(text):
    as_in_python(in_loop(text))


@pytest.mark.parametrize("start", ["x[0] * 0.1 * k", "x * k", "np.tanh(x[k % 3])"])
def test_lists_of_rows_that_each_iteration_makes_anew(start):
    text = f"""
def f(x):
    rows = [{start} for k in range(20)]
    for j in range(19):
        rows = [v * 0.9 + x[1] * 0.1 for v in rows]
    return sum([np.sum(v * (k + 1)) for k, v in enumerate(rows)])
"""
    space = {"np": np}
    exec(code_of(text, f"rows {start}"), space)
    check(space["f"], compile_grad(space["f"]), rtol=1e-10, atol=1e-6)
