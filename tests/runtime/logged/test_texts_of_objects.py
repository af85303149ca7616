"""Texts that are made of the run's values by code of the user's, by formats and by ``%``: closed, and made in each call."""

# ruff: noqa: E501, UP031, UP032
from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import types

import numpy as np
import pytest

from tracegrad import compile_grad

POINTS = (np.array([1.5, -2.0]), np.array([12.25, 3.0]), np.array([1e-7, 1e9]), np.array([np.nan, 0.5]))
UNIT = "m"


class Length:
    def __init__(self, x):
        self.x = x

    def __str__(self):
        return f"{self.x:.2f} {UNIT}"

    def __repr__(self):
        return "Length(%.3f)" % self.x


class Formatted(Length):
    def __format__(self, spec):
        return f"<{format(self.x, spec or '.1e')}>"


class Represented:
    def __init__(self, x):
        self.x = x

    def __repr__(self):
        return "R" + str(self.x)


def shortened(x, spec=".3f"):
    return "value " + format(x, spec)


TEXTS = {
    "an object": lambda x: print(Length(x[0]), str(Length(x[1])), repr(Length(x[0]))),
    "an object in a text": lambda x: print(
        f"{Length(x[0])}|{Length(x[1])!r}|{Represented(x[0])}|{Represented(x[1])!s}"
    ),
    "an object in a list": lambda x: print([Length(x[0]), (Length(x[1]),)], {"x": Length(x[0]), "y": [1, x[1]]}),
    "a format of its own": lambda x: print(
        f"{Formatted(x[0])} {Formatted(x[1]):8.3f}", "{:.2f}".format(Formatted(x[0]))
    ),
    "formats": lambda x: print("{:8.2f}|{}|{b!r}|{b}".format(x[0], x[1], b=x[0]), "{1} {0} {1}".format(x[0], "a")),
    "percent": lambda x: print("%s and %r, %.3f, %8.1e, %d" % (x[0], x[1], x[0], x[1], 3), "%s" % Length(x[0])),
    "format by helpers": lambda x: print(shortened(x[0]), f"[{shortened(2 * x[1], '.1e')}]"),
    "a conversion with a width": lambda x: print(f"{x[0]!r:>42}|{x[1]!s:<30}|{Length(x[0])!s:>20}"),
    "joined": lambda x: print(
        ", ".join([f"{v:.2f}" for v in x] + [str(x[0])]), ";".join(f"{n}={v}" for n, v in {"a": x[0]}.items())
    ),
    "an object outside": lambda x: print(OUTSIDE, f"{x[0]:.1f}"),
}
OUTSIDE = Length(2.5)


@pytest.mark.parametrize("case", TEXTS)
def test_what_is_printed(case, monkeypatch):
    def f(x):
        TEXTS[case](x)
        return np.sum(x * x)

    g = compile_grad(f)
    for k, x in enumerate((*POINTS, *POINTS)):
        if k == len(POINTS):
            monkeypatch.setattr(Length, "__str__", lambda self: f"[{self.x}]")
            monkeypatch.setattr(OUTSIDE, "x", 7.5)
        if k == len(POINTS) + 2:
            monkeypatch.setattr(Represented, "__str__", lambda self: f"S{self.x}", raising=False)
        said = []
        for call in (f, g.grad):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                call(x)
            said.append(out.getvalue())
        assert said[0] == said[1]
        if k == len(POINTS) - 1 and "width" not in case:
            assert g.stats.traces == 1 and not g._dispatcher.logged.refused
    assert not g.stats.live or "width" in case


def test_texts_that_grow_in_place_are_those_of_the_values():
    shown, seen = types.SimpleNamespace(last=""), []

    def f(x):
        shown.last = "loss "
        shown.last += str(np.sum(x))
        shown.last += f" {x[0]:.1f}" * 2
        seen.append(shown.last)
        return np.sum(x) * len(shown.last)

    g = compile_grad(f)
    for k in range(4):
        x = np.ones(2) * (k + 0.5)
        value, last = g(x), shown.last
        assert value == f(x) and last == shown.last and seen[-1] == seen[-2]


@dataclasses.dataclass
class Meter:
    value: float = 0.0
    name: str = "m"
    hidden: int = dataclasses.field(default=3, repr=False)


@dataclasses.dataclass
class Labelled(Meter):
    label: str = "n"

    def __str__(self):
        return f"<{self.label} {super().__repr__()}>"


class Other(Meter):
    pass


@dataclasses.dataclass
class Both:
    one: object
    many: list


def test_dataclasses_print_themselves():
    meters = [Meter(), Other(name="o")]

    def function(x):
        meters[0].value += x[0]
        meters[1].value = float(x[1])
        both = Both(Labelled(value=x[0] * 2), [meters[0], {"a": meters[1]}, x[1]])
        print(both, meters[0])
        texts.append(f"{both.one!s}: {meters!r}")
        return np.sum(x)

    found = []
    compiled = compile_grad(function)
    for call in (compiled, function):
        meters[0].value, texts, out = 0.0, [], io.StringIO()
        for k in range(5):
            with contextlib.redirect_stdout(out):
                call(np.arange(2.0) + k)
        found.append((texts, out.getvalue()))
    assert found[0] == found[1] and not compiled.stats.live


def test_texts_of_containers_are_as_they_are_at_the_line():
    rows, table, rates, seen = [1.0], {"n": 0, "l": [2.0]}, {"a": 0.5}, []
    logger = logging.getLogger("containers")

    class Handler(logging.Handler):
        def emit(self, record):
            seen.append(record.getMessage())

    def function(x):
        print(rows, [rates], table)
        rows.append(x[0])
        table["n"] += 1
        table["l"].append(x[1])
        table["z"] = x[0] * 2
        made, values = [1, x[1]], x * 2
        print(rows, table, f"{rates} {rows[-1:]}", "{} {}".format([rows], rates), "%s %r" % (rows, table))
        logger.warning("%s %s %s %s", rows, made, values, table)
        made.append(3)
        values += 1
        rows.append(2.0)
        logger.warning("%s", made)
        return np.sum(values)

    found = []
    compiled = compile_grad(function)
    handler = Handler()
    logger.addHandler(handler)
    logger.propagate = False
    try:
        for call in (compiled, function):
            rows[:], table["n"], table["l"][:], rates["a"], out = [1.0], 0, [2.0], 0.5, io.StringIO()
            table.pop("z", None)
            for k in range(6):
                rates["a"] += k > 3
                with contextlib.redirect_stdout(out):
                    call(np.arange(2.0) + k)
            found.append((out.getvalue(), [*seen]))
            seen.clear()
    finally:
        logger.removeHandler(handler)
    assert found[0] == found[1]
