"""What a function or step writes into files is written anew by each replay, in order."""

from __future__ import annotations

import contextlib
import csv
import io
import sys

import numpy as np
import pytest

import tracegrad
from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")


class Tee:
    """A stream of the user's."""

    def __init__(self, *files):
        self.files, self.count = files, 0

    def write(self, text):
        for file in self.files:
            file.write(text)
        self.count += 1

    def flush(self):
        for file in self.files:
            file.flush()


def alternating(x, f, g):
    print("one", x[0], file=f)
    g.write(f"two {x[1]}\n")
    print("three", file=f, flush=True)
    return x[0]


def standard(x, f, g):
    out = sys.stdout
    print("a", x[0])
    out.write(f"b {x[1]}\n")
    sys.stderr.write("c\n")
    getattr(sys, "stdout").writelines(["d", "\n"])  # noqa: B009
    return x[0]


def if_small(x, f, g):
    if x[0] > 2:
        f.write("large\n")
    else:
        g.write(f"small {x[0]}\n")
    return np.sum(x)


def in_a_loop(x, f, g):
    total = 0.0
    for k, value in enumerate(x):
        total += value * k
        f.write(f"{k} {total:.3f}\n")
    return total


def by_tee(x, f, g):
    tee = Tee(f, g)
    print("x", x[0], file=tee)
    print(file=tee, flush=True)
    return x[0] * tee.count


def known_lengths(x, f, g):
    return np.sum(x) * f.write("four") + f.write("")


WRITES = [alternating, standard, if_small, in_a_loop, by_tee, known_lengths]


@pytest.mark.parametrize("function", WRITES)
@pytest.mark.parametrize("same", [False, True])
def test_what_is_written_is_what_python_writes(function, same):
    held = {}

    def program(x):
        return function(x, held["f"], held["g"])

    compiled = compile_grad(program)
    for k in (5, 3, 1, 2, 0, 6, 4):
        texts = []
        for call in (compiled, program):
            out, err = io.StringIO(), io.StringIO()
            held["f"] = out if same else io.StringIO()
            held["g"] = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                value = call(np.arange(2.0) + k)
            texts.append((value, *[one.getvalue() for one in (held["f"], held["g"], out, err)]))
        assert texts[0] == texts[1]
    assert not compiled.stats.live
    assert compiled.stats.traces < 5  # other files of the class are as good


def test_rows_of_texts_and_lines():
    f = io.StringIO()
    rows = csv.writer(f)

    def function(x):
        row = [x[0], "a,b", None]
        rows.writerow(row)
        row.append(2.0)
        rows.writerows([row, (x[1] * 2, 1)])
        f.writelines(["a\n", f"{x[1]:.2f}\n"])
        return np.sum(x)

    compiled = compile_grad(function)
    for k in range(5):
        compiled(np.arange(2.0) + k)
    found = f.getvalue()
    f.seek(0), f.truncate()
    for k in range(5):
        function(np.arange(2.0) + k)
    assert found == f.getvalue() and not compiled.stats.live


@pytest.mark.parametrize("of", [lambda n: n + 1, lambda n: 2.0 if isinstance(n, int) else 0.0, lambda n: n > 5, str])
def test_an_answer_that_is_looked_at_is_pythons(of):
    def program(x):
        return float(of(f.write(f"{x[0]}"))) + x[1]

    f = io.StringIO()
    compiled = compile_grad(program)
    assert [compiled(np.ones(2) * k) for k in (1, 10, 100)] == [program(np.ones(2) * k) for k in (1, 10, 100)]


def test_an_answer_that_is_kept_or_returned_is_pythons():
    f, kept = io.StringIO(), []

    def program(x):
        kept.append(f.write(f"{x[0]}"))
        return f.write(f"{x[1]}!")

    compiled = compile_grad(program)
    assert [compiled(np.ones(2) * k) for k in (1, 10, 100)] == [4, 5, 6] and kept == [3, 4, 5]


@pytest.mark.parametrize("ask", [lambda f: f.getvalue(), lambda f: f.tell(), lambda f: "" if f.closed else "a"])
def test_a_file_that_is_asked_is_asked_in_each_call(ask):
    f = io.StringIO()

    def program(x):
        f.write(f"{x[0]}")
        return x[0] + len(str(ask(f)))

    compiled = compile_grad(program)
    found = [compiled(np.ones(2) * k) for k in (1, 2, 3)]
    f = io.StringIO()
    assert found == [program(np.ones(2) * k) for k in (1, 2, 3)]


def test_a_file_that_is_closed_raises_after_what_was_written_before():
    f, g = io.StringIO(), io.StringIO()

    def program(x):
        g.write("before")
        f.write(f"{x[0]}")
        return x[0]

    compiled = compile_grad(program)
    compiled(np.ones(2)), compiled(np.ones(2))
    f.close()
    with pytest.raises(ValueError, match="closed file"):
        compiled(np.ones(2))
    assert g.getvalue() == "before" * 3


def test_whether_a_file_is_standard_output_is_asked_in_each_call():
    f = io.StringIO()

    def program(x):
        if f is not sys.stdout:
            f.write("no ")
        return x[0]

    compiled = compile_grad(program)
    for _ in range(3):
        compiled(np.ones(2))
    with contextlib.redirect_stdout(f):
        compiled(np.ones(2))
    assert f.getvalue() == "no " * 3


def test_steps_write_into_files(tmp_path):
    w = tracegrad.tensor(np.ones(3), requires_grad=True)
    path = tmp_path / "log.csv"

    def step(x, k, file, rows):
        loss = ((w * x) ** 2).sum()
        loss.backward()
        with tracegrad.no_grad():
            w.sub_(0.1 * w.grad)
            w.grad = None
        file.write(f"{k},{loss.item():.4f}\n")
        rows.writerow([k, loss.item()])
        sys.stdout.write("x")
        return loss

    texts = []
    for call in (tracegrad.compile(step), step):
        w.data[...] = 1.0
        out = io.StringIO()
        with open(path, "w", newline="") as file, contextlib.redirect_stdout(out):
            for k in range(6):
                call(tracegrad.tensor(np.arange(3.0) / 4), k, file, csv.writer(file))
        texts.append((path.read_text(), out.getvalue()))
        if call is not step:
            assert not call.stats.live
    assert texts[0] == texts[1]
