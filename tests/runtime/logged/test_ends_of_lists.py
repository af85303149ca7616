"""A list outside that a run appends to, and of which it reads the first or the last items: a call that finds it longer
is replayed, and one that finds it otherwise is as in plain Python."""

# ruff: noqa: E501  (a row of a table is a line)
from __future__ import annotations

import random

import pytest
from closed_kinds import HEAD, check
from worlds import disagreement

CHANGES = ["rows.append(7.0)", "rows.clear()", "rows.append(3.0)", "hist = rows", "rows[:] = [1.0, 2.0, 5.0, 4.0]",
           "hist = [2.0]", "rows.insert(0, 9.0)", "rows = [8.0, 6.0]", "rows.append(1)", "rows[-1:] = [0.25]"]  # fmt: skip
READS = [
    "s = s + (rows[-1] if rows else 1.0)", "s = s - rows[-2] if len(rows) > 1 else s", "s = s + sum(rows[-3:])",
    "s = s * len(rows[-2:])", "s = s + sum(rows[-3:-1])", "s = s + rows[0] if rows else s",
    "s = s * 2.0 if len(rows) > 2 and rows[-1] < rows[-2] else s", "s = s + 0.5 * hist[-1] if hist else s", "s = s + sum(hist[-2:])",
    "s = s + (hist[0] if hist else 2.0)", "s = s * 3.0 if rows is hist else s",
    "if s > 8.03 and rows: s = 0.5 * s - 0.1 * rows[-1]", "try: s = s + rows[1]\nexcept IndexError: s = s * 0.5",
    "last = rows[-1:]\ns = s + last[0] if last else s - 1.0", "s = s + len(rows)", "s = s + sum(rows)",
]  # fmt: skip
WRITES = ["rows.append(s)", "rows.append(0.5 * s)", "hist.append(s)", "rows += [s, 1.0]", "rows.extend([s])", "pass"]


def agree(seed):
    """A random program is as in plain Python, call after call, with changes between the calls."""
    draw = random.Random(seed)
    lines = [draw.choice(READS if draw.random() < 0.6 else WRITES) for _ in range(draw.randrange(3, 7))]
    body = "\n".join(lines).replace("\n", "\n    ")
    source = (
        f"{HEAD}rows, hist = [1.5], [2.5]\ndef f(x):\n    global rows\n    s = np.sum(x)\n    {body}\n    return s\n"
    )
    changes = dict(zip((2, 4, 6, 8, 10), draw.sample(CHANGES, 5), strict=True))
    found = disagreement(source, calls=12, changes=changes)
    assert found is None, f"{source}\n{found}"


READ = {
    "the one before": ("v = s - rows[-1] if rows else s\nrows.append(v)\ns = v", 4),
    "two, once one is appended": ("rows.append(s)\nif len(rows) > 1 and rows[-1] < rows[-2]: s = 2.0 * s", 5),
    "the last three": ("rows.append(s)\ns = s + sum(rows[-3:]) / len(rows[-3:])", 5),
    "the first": ("rows.append(s)\ns = s + rows[0]", 3),
    "an array": ("m = rows[-1] if rows else x\nrows.append(0.9 * m + 0.1 * x)\ns = np.sum(m)", 3),
}


@pytest.mark.parametrize("name", READ)
def test_a_longer_list_is_no_other_one(name):
    body, most = READ[name]
    check("rows = []", body, [], calls=10, most=most)


@pytest.mark.parametrize("seed", range(4))
def test_programs(seed):
    agree(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 40))
def test_more_programs(seed):
    agree(seed)
