"""Traps: what ``while`` asks of an object from outside.  It is read, and what the run has done to it counts.

Each program is run compiled in one namespace and as it is in another; between calls others change what it asks for.
"""

from __future__ import annotations

import numpy as np
import pytest
from with_source import code_of

from tracegrad import compile_grad

HEAD = """
from collections import deque

class Filled:
    def __init__(self): self.items = [0.5, 2.0]
    def __len__(self): return len(self.items)

class Left:
    def __init__(self): self.n = 3
    def __bool__(self): self.n -= 1; return self.n > 0

class Link:
    def __init__(self, v, after=None): self.v, self.after = v, after

tasks, more, undone, queue, table = [0.5, 2.0], [], [], deque([0.25, 0.5]), {"a": 0.5}
filled, left, chain = Filled(), Left(), Link(1.0, Link(2.0))
array, value = np.array([0.5]), [0.0]

def restoring(old):
    def restore(): value[0] = old
    return restore
"""
PROGRAMS = {
    "a list that is emptied": "while tasks: v = v * 0.5 + tasks.pop()\n tasks.append(0.25)",
    "a list that is looked at": "while tasks: v = v * 2; break",
    "a list that is not there": "while not tasks: v = v * 3; break",
    "a list that the run fills": "more.append(0.5)\n while more: v = v * more.pop()",
    "functions that the run keeps":
        "undone.append(restoring(value[0])); value[0] = v; v = v * 2\n while undone: undone.pop()()\n v += value[0]",
    "a deque": "queue.append(v)\n while queue: v = v * 0.5 + queue.popleft()",
    "a dict": "while table: v = v * table.popitem()[1]\n table['b'] = 0.5",
    "an object with a length": "while filled: v = v + filled.items.pop()\n filled.items += [0.5, 0.25]",
    "an object that is asked": "while left: v = v * 2\n left.n = 3",
    "links": "n = chain\n while n: v = v * n.v; n = n.after",
    "a name": "n = 0\n while (m := tasks) and n < 2: v = v * 2; n += len(m)",
    "an array": "n = 0\n while array and n < 2: v = v * 2; n += 1",
}  # fmt: skip
CHANGES = {
    2: "tasks.clear(); table['c'] = 3.0; left.n = 5; chain.after = None; array[0] = 0.0",
    4: "tasks.append(4.0); queue.extend([0.5, 0.75]); filled.items.clear(); undone.append(restoring(2.0))",
    5: "tasks.clear(); table.clear(); left.n = 0; chain.after = Link(3.0); array[0] = 2.0; undone.clear()",
}


def namespace(name):
    space = {"np": np}
    exec(code_of(f"{HEAD}\ndef f(x):\n v = np.sum(x * x)\n {PROGRAMS[name]}\n return v\n", name), space)
    return space


def held(space):
    numbers = [*space["tasks"], *space["queue"], *space["filled"].items, *space["value"], *space["table"].values()]
    return [*map(float, numbers), space["left"].n, len(space["undone"]), len(space["more"])]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_condition_is_asked_of_what_is_there(name):
    mine, plain = namespace(name), namespace(name)
    compiled = compile_grad(mine["f"])
    for k in range(7):
        for space in (mine, plain):
            exec(CHANGES.get(k, ""), space)
        x = np.array([0.5, 0.25 + k])
        np.testing.assert_allclose(compiled.value_and_grad(x)[0], plain["f"](x), rtol=1e-12)
        assert held(mine) == pytest.approx(held(plain)), k
