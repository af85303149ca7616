"""Ways out of loops and of runs: ``break`` frees what was iterated over, ``return`` in a ``finally`` hides no refusal,
and loops that stop at questions count their iterations."""

from __future__ import annotations

import numpy as np
import pytest
from small_worlds import as_in_python

from tracegrad import compile_grad
from tracegrad.tracer.ir.errors import UnsupportedError

GENERATORS = """
def guarded():
    try:
        yield 1.0
        yield 2.0
    finally:
        log.append('closed')
def averager():
    total = 0.5
    while True:
        v = yield total
        total = total * 0.5 + v
av = averager()
next(av)
"""


@pytest.mark.parametrize("way", ["break", "if s > 0:\n        break", "s = s + t"])
def test_a_generator_ends_with_its_loop(way):
    body = f"for t in guarded():\n    {way}\nlog.append('after')\ns = s + t"
    as_in_python(body, GENERATORS)


def test_a_generator_ends_with_an_exception():
    body = "try:\n    for t in guarded():\n        raise KeyError\nexcept KeyError:\n    log.append('caught')"
    as_in_python(body, GENERATORS)


def test_a_return_in_finally_hides_no_refusal():
    as_in_python("try:\n    s = s + av.send(0.5)\nfinally:\n    return [s]", GENERATORS)
    as_in_python("while True:\n    try:\n        s = s + av.send(0.5)\n    finally:\n        break", GENERATORS)


STOPPING = {
    "continued": ("    if j % 3 == 1:\n        continue\n    n += 1\n    if box.v > 1.0:\n        return [s]"),
    "continued, a number outside": (
        "    if j % 3 == 1:\n        continue\n    box.n += 1\n    if box.v > 1.0:\n        break"
    ),
    "continued, a sum": (
        "    if j % 3 == 1:\n        continue\n    s = s + 0.5\n    n += 1\n    if s > 1e9:\n        break"
    ),
    "at an answer": (
        "    if j % 4 == 2:\n        n += 2\n    if j % 5 == 3:\n        s = s * 0.5\n    if j == 30:\n        break"
    ),
}


@pytest.mark.parametrize("name", STOPPING)
def test_iterations_of_a_loop_that_stops(name):
    as_in_python(f"for j in range(18):\n{STOPPING[name]}")


@pytest.mark.parametrize("called", ["vars(box)", "locals()"])
def test_all_names_are_read_in_a_loop(called):
    """So each is live, and the loop binds its target itself."""
    as_in_python(f"for j in range(18):\n    if j == 2:\n        n = n + len({called})\n    s = s + 0.5 * j")


def of_its_own(x):
    found = {"n": x[0]}
    found["found"] = found
    return [found]


def of_the_outside(x, tree={"a": {"n": 0.5}, "rows": [[1.0], [2.0]]}):  # noqa: B006
    tree["a"]["again"] = tree["a"]
    tree["rows"][0][0] = x[0]
    return tree


@pytest.mark.parametrize("f", [of_its_own, of_the_outside])
def test_a_result_that_is_in_itself_is_refused(f):
    compiled = compile_grad(f)
    with pytest.raises(UnsupportedError, match="to be read later"):
        for k in range(2):
            compiled(np.ones(3) * k)
