"""Uses of names in functions, by their syntax trees (``tracer/convert/uses.py``)."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from tracegrad.tracer.convert.uses import READ, argument_of, assigned, result_of, uses, written_elsewhere


def appends(xs, losses, seen, table, x):
    for x in xs:
        losses.append(x)
        seen.add(3)
    table["k"] = x
    table["row"].append(x)
    [losses.append(y) for y in range(3)]


def reads(a, b, c, d, e, f, g, h):
    a.append(a)
    b[0] += 1
    c["k"][0] += 1
    d = [1]  # noqa: F841
    del e[0]
    add = f.append
    return add, (lambda: g.append(1)), [h for _ in range(3)]


def test_parameters_that_a_function_only_adds_to():
    added = uses(appends.__code__).of
    assert {name for name, ways in added.items() if READ not in ways} >= {"losses", "seen", "table"}
    assert READ in added["xs"] and READ in added["x"]
    assert all(READ in uses(reads.__code__).of[name] for name in inspect.signature(reads).parameters)


def writes(self, n, m, out):
    z = np.zeros(n)
    u, (v, w) = np.ones(n), (np.zeros(n), np.empty(m))
    both = np.zeros(n) if n else np.ones(n)
    alias = z
    alias[0] = 1.0
    v[:] = 2.0
    np.copyto(w, u)
    both[1] += 3
    self.field[n] = 4
    np.add.at(out, [0], 1.0)
    made = maker(n)
    made[0] = 1
    plain = np.ones(n)

    def inner():
        hidden = np.zeros(3)
        hidden[0] = 1

    return plain, inner


def maker(n):
    return np.zeros(n)


def _ends_of(*texts):
    lines, start = inspect.getsourcelines(writes)
    found = set()
    for text in texts:
        [line] = [k for k, content in enumerate(lines) if text in content]
        found.add((start + line, lines[line].index(text) + len(text)))
    return found


def test_arrays_into_which_a_function_writes():
    known = uses(writes.__code__)
    assert known.written >= {"z", "alias", "v", "w", "both", "field", "out", "made"}
    assert not known.written & {"u", "plain", "hidden", "n", "m"}
    ends = assigned(writes.__code__)
    first = "z = np.zeros(n)"
    assert ends >= _ends_of(first, "np.empty(m)", "both = np.zeros(n)", "both = np.zeros(n) if n else np.ones(n)")
    assert not ends & _ends_of("plain = np.ones(n)", "hidden = np.zeros(3)")
    out = {argument_of("writes", k) for k in (0, "self", 3, "out")}
    assert written_elsewhere(writes.__code__) == {*map(result_of, ("maker", "zeros", "empty")), *out}
    assert assigned(maker.__code__) == set()
    made = maker.__code__.co_firstlineno + 1, len("    return np.zeros(n)")
    assert made in assigned(maker.__code__, frozenset([result_of("maker")]))


def loops(n, m, k):
    total = 0
    for _i in range(n):
        total += sum(j for j in range(1, m))
    return total, range(k + 1)


def test_variables_whose_value_a_range_asks_for():
    found = uses(loops.__code__).ranges
    assert found.keys() == {"n", "m"}
    assert found["n"] == loops.__code__.co_firstlineno + 2


def calls(f, g, h):
    return f(g(1)), h, [f(2) for _ in range(3)]


def test_names_that_are_only_called():
    assert uses(calls.__code__).called == {"f", "g", "range"}


@pytest.mark.parametrize("text", ["lambda x: x", "lambda x, n: [x for _ in range(n)]"])
def test_code_without_a_source_has_no_uses(text):
    known = uses(eval(compile(text, "<nowhere>", "eval")).__code__)
    assert not known.of and not known.written and not known.ranges and not known.called
