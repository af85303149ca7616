# ruff: noqa: UP031, UP032
"""Traps: texts of traced values.  A text that is used is Python's; one that is printed or kept is made in each call."""

from __future__ import annotations

import argparse
import ast
import collections
import csv
import decimal
import fractions
import functools
import io
import json
import locale
import sys
import tomllib

import numpy as np
import pytest
from selection import some

import tracegrad as tg
from tracegrad import UnsupportedError, autograd, compile_grad, stop_gradient

pytestmark = pytest.mark.usefixtures("fresh_kernels")

POINTS = (1.5, 2.5, 1.5, 12.25, -3.0625, float("nan"))
TABLE = {"1.50": 3.0, "2.5": 7.0, "12.25": 5.0}


def with_options(x):
    with np.printoptions(precision=2):
        return len(str(x * np.ones(2) / 3))


class Shown:
    def __init__(self, x):
        self.x = x

    def __repr__(self):
        return f"<{self.x:.2f}>".center(12, "-")


def caught(x):
    try:
        raise ValueError(f"bad {x:.2f}")
    except ValueError as error:
        return len(str(error))


def in_a_variable(x):
    text = f"{x:.3f}"
    print(text)
    return len(text)


def appended_and_read(x):
    texts = []
    texts.append(f"{x}")
    return len(texts[0])


USES = {
    "length": lambda x: len(f"{x:.3f}"),
    "in": lambda x: "nan" in str(x),
    "startswith": lambda x: repr(x).startswith("-"),
    "a key": lambda x: TABLE.get(f"{x:.2f}", 2.0),
    "a key by %": lambda x: TABLE.get("%.2f" % x, 2.0),
    "a key by format": lambda x: TABLE.get("{:.1f}".format(x), 2.0),
    "equality": lambda x: 2 if format(x, ".1f") == "1.5" else 3,
    "join": lambda x: len(", ".join([str(x), f"{x:6.1f}"])),
    "map": lambda x: len(" ".join(map(str, [x, 2 * x]))),
    "a list": lambda x: len(str([x, {"x": x}])),
    "% of a list": lambda x: len("%s" % [x]),
    "sorted": lambda x: sorted([f"{x:.1f}", "2.0"]).index("2.0"),
    "bytes": lambda x: len(str(x).encode()),
    "an exception": caught,
    "a conversion": lambda x: len(f"{x!r:>12}".strip()),
    "printed, too": in_a_variable,
    "assigned in an expression": lambda x: (print(text := f"{x:.2f}"), len(text))[1],
    "kept in a list of its own": appended_and_read,
    "an integer": lambda x: int("0" + f"{x:.0f}".strip("-na")),
    "a text of the user's": lambda x: len(repr(Shown(x))),
    "an element": lambda x: len(f"{(x * np.ones(2))[0]}"),
    "an array": lambda x: len(str(x * np.arange(4.0).reshape(2, 2))),
    "NumPy's texts": lambda x: len(np.array2string(x * np.ones(2), precision=2)) + len(np.array_str(x * np.ones(2))),
    "NumPy's repr": lambda x: len(np.array_repr(x * np.ones((2, 2)))),
    "print options": lambda x: with_options(x),
    "a long array": lambda x: len(str(np.arange(300.0) * x)),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("kind", some([float, np.array, np.float64, np.float32, lambda x: np.array([x, 1.0])], quick=2))
def test_a_text_that_is_used_is_pythons(use, kind):
    def f(x):
        x = x[0] if isinstance(x, np.ndarray) and x.ndim else x
        return x * use(x), use(x)

    compiled = compile_grad(f)
    for point in map(kind, POINTS):
        np.testing.assert_allclose(compiled(point), f(point), rtol=1e-6)


def test_the_other_factor_has_its_gradient():
    g = compile_grad(lambda x: x * len(f"{x:.3f}")).value_and_grad
    for point in (1.5, 12.5, 1.25):
        assert g(point) == (point * len(f"{point:.3f}"), len(f"{point:.3f}"))


@pytest.mark.parametrize("returned", [lambda x: f"x={x:.2f}", lambda x: {"x": [str(x)]}, lambda x: ("%s" % x,)])
def test_a_text_that_is_returned_is_pythons(returned):
    f = compile_grad(lambda x: (x * 2, returned(x)))
    for point in (1.5, 2.5, 1.5):
        assert f(point) == (2 * point, returned(point))


CONVERTERS, as_float = {"x": float}, functools.partial(float)


def put(array, text):
    array[1] = text
    return array[1]


def options(text):
    parser = argparse.ArgumentParser()
    parser.add_argument("--x", type=float)
    return parser.parse_args([text])


def executed(text):
    space = {}
    exec(text, space)
    return space["found"][0]


BACK = {
    "float": lambda x: float(f"{x}"),
    "rounded": lambda x: float(f"{x:.2f}"),
    "by %": lambda x: float("%.3e" % x),
    "a part": lambda x: float(f"x = {x:.6f};".split()[2].strip(";")),
    "percent": lambda x: float(f"{x:.1%}".strip("%")) / 100,
    "cut": lambda x: float(str(x)[:5]),
    "float64": lambda x: np.float64(str(x)),
    "bytes": lambda x: float(repr(x).encode()),
    "Decimal": lambda x: float(decimal.Decimal(str(x)).quantize(decimal.Decimal("0.01"))),
    "map": lambda x: sum(map(float, f"{x} 2".split())),
    "eval": lambda x: eval(str(x)),
    "eval of more": lambda x: eval(f"3 * {x}"),
    "exec": lambda x: executed(f"found = [{x:.4f}, 2.0]"),
    "complex": lambda x: complex(str(x)).real,
    "int": lambda x: int(f"{x:.0f}") + 0.5,
    "digit by digit": lambda x: sum(int(c) for c in str(x) if c != "."),
    "its digits": lambda x: int(f"{x:.3f}".replace(".", "")) / 1000,
    "its digits, a float": lambda x: float(str(x).replace(".", "")) / 100000,
    "its fraction": lambda x: float("0." + str(x).split(".")[1]),
    "its parts": lambda x: int(str(x).split(".")[0]) + 0.25,
    "json": lambda x: json.loads(json.dumps({"x": float(x)}))["x"],
    "NumPy's reading": lambda x: np.fromstring(f"{x} {x}", sep=" ")[1],
    "a table": lambda x: np.loadtxt(io.StringIO(str(x))) * 1.0,
    "in a locale": lambda x: locale.atof(str(x)),
    "__float__": lambda x: float.__float__(float(str(x))),
    "NumPy's array": lambda x: np.array(str(x)).astype(float) * 1.0,
    "NumPy's array of rounded texts": lambda x: np.asarray([f"{x:.3f}", "2.5"], dtype=np.float64)[0],
    "NumPy's iterator": lambda x: np.fromiter((text for text in [str(x)]), dtype=np.float32)[0],
    "put into an array": lambda x: put(np.zeros(2), str(x)),
    "NumPy's reading beside a function": lambda x: np.fromstring(" ".join(sorted([f"{x}"], key=lambda v: v)), sep=" ")[
        0
    ],
    "from a table": lambda x: CONVERTERS["x"](str(x)),
    "a default": lambda x, convert=float: convert(f"{x:.4f}"),
    "a partial": lambda x: as_float(str(x)),
    "a row of CSV": lambda x: next(csv.reader([f"{x},2"], quoting=csv.QUOTE_NONNUMERIC))[0],
    "TOML": lambda x: tomllib.loads(f"x = {x}")["x"],
    "an option": lambda x: options(f"--x={x}").x,
    "a Decimal's product": lambda x: float(decimal.Decimal(str(x)) * 3),
    "a Fraction's sum": lambda x: float(fractions.Fraction(f"{x:.5f}") + fractions.Fraction(1, 3)),
    "a parser beside a comprehension": lambda x: json.loads(json.dumps([v + 0.0 for v in [float(x)]]))[0],
}


@pytest.mark.parametrize("back", BACK.values(), ids=BACK)
def test_a_text_that_becomes_a_number_again_loses_no_gradient(back):
    f = compile_grad(lambda x: back(x) * x)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"text of a traced value(.|\n)*test_texts.py"):
            f.grad(1.23456)
    with pytest.raises(UnsupportedError, match="text of a traced value"):
        compile_grad(lambda x: autograd.grad(f)(x))(1.23456)
    assert f(1.23456) == pytest.approx(back(1.23456) * 1.23456)
    constant = compile_grad(lambda x: back(stop_gradient(x)) * x)
    assert constant.grad(1.23456) == pytest.approx(back(1.23456))


def test_other_texts_become_numbers():
    def f(x):
        if "7" in f"{x:.4f}":
            return x * float("0.5")
        return x * float("2.25e-1") + float(decimal.Decimal("3.5"))

    compiled = compile_grad(f)
    for point in (1.25, 1.75, 1.25):
        assert compiled.value_and_grad(point) == (f(point), 0.5 if point == 1.75 else 0.225)


@pytest.mark.parametrize(
    "alone",
    [
        lambda x: np.fromstring(f"{x} {x}", sep=" ").sum(),
        lambda x: np.array([str(x), "2"]).astype(float).sum(),
        lambda x: CONVERTERS["x"](str(x)) * 3.0,
        lambda x: {"1.23456": 2.0}[str(x)],
    ],
)
def test_a_result_that_knows_a_text_alone_is_an_error(alone):
    f = compile_grad(alone)
    with pytest.raises(UnsupportedError, match=r"text of a traced value(.|\n)*test_texts.py"):
        f.grad(1.23456)
    assert f(1.23456) == alone(1.23456)


RATES = {"1.25": 0.75, "3.5": 1.25}


@pytest.mark.parametrize(
    "fine, factor",
    [
        (lambda x: x * RATES.get(f"{x}", 4.0), lambda x: RATES.get(str(x), 4.0)),
        (lambda x: x * 1.25 + len(str(x)) / 4, lambda x: 1.25),
        (lambda x: np.sum(np.array([0.0, 1.0, 2.0]) * x) * len(f"{x:.2f}"), lambda x: 12.0),
        (lambda x: x * 3.5 if "." in str(x) else x, lambda x: 3.5),
    ],
)
def test_texts_beside_numbers_that_stand_in_the_code(fine, factor):
    f = compile_grad(fine)
    for point in (1.25, 3.5, 1.25, 0.5):
        value, gradient = f.value_and_grad(point)
        assert value == pytest.approx(fine(point), rel=1e-12)
        assert gradient == factor(point)


class Talker:
    last_of_all = ""

    def __init__(self):
        self.messages, self.last, self.by_name, self.recent = [], "", {}, collections.deque(maxlen=2)

    def prints(self, x):
        print(f"{x:.3f}", x, 2 * x, [x], {"x": x}, sep="|")
        print("%s and %r" % (x, x), "{:8.2f}|{}".format(x, x), "x = " + str(x) + "!")

    def prints_a_variable(self, x):
        text = f"loss {x:.4f}"
        print(text)
        print(text, flush=True)

    def prints_one_of_two(self, x):
        print(f"{x:.3f}" if x > 2 else f"small {x:.1e}", "end", end=";\n")

    def prints_unpacked(self, x):
        print(*[x, 2 * x], "end", sep=";")

    def prints_joined(self, x):
        print(", ".join([f"{x:.2f}", str(x)]))

    def keeps(self, x):
        self.last = f"loss {x:.3f}"
        self.messages.append(str(x))
        self.messages.append((1, [f"{x:.1e}"]))
        self.by_name["loss"] = f"{x:8.3f}"
        self.recent.append({"text": repr(x)})

    def keeps_a_variable(self, x):
        text = f"loss {x:.4f}"
        self.messages.append(text)
        self.last = text
        print(text)

    def text_of(self, x, spec=".3f"):
        return "value " + format(x, spec)

    def log(self, text, *, level="info"):
        self.messages.append(f"{level}: {text}")
        print(level, text)

    def row(self, parts):
        print("\t".join(parts))

    def prints_by_helpers(self, x):
        print(self.text_of(x), f"[{self.text_of(2 * x, '.1e')}]", shortened(x))

    def keeps_by_helpers(self, x):
        self.log(self.text_of(x))
        self.log(f"{x:.1f}", level="debug")
        told(self, f"{x:.2f}")

    def prints_rows(self, x):
        parts = ["first"]
        parts += [f"{x:.2f}", str(2 * x)]
        parts.append("last")
        print(" ".join(parts))
        self.row([str(x), f"{x:.1f}"])

    def prints_a_comprehension(self, x):
        parts = ["first"]
        parts += [f"{v:.2f}" for v in (x, 2 * x)]
        print(" ".join(parts), ", ".join([shortened(v) for v in (x, 2 * x)]))

    def prints_what_a_generator_makes(self, x):
        print(", ".join(f"{name}={value:.3f}" for name, value in {"a": x, "b": 2 * x}.items()))

    def prints_objects(self, x):
        print(Told(x), [Told(2 * x)], f"{Told(3 * x)}|{Told(x)!r}", "%s" % Told(x), "{}".format(Told(x)), str(Told(x)))

    def keeps_by_percent(self, x):
        self.messages.append("%.4f|%8.2f|%d%%|%-9.1e|%s|%+g" % (x, 2 * x, 100 * x, x, x, x))
        self.last = "%(a)5.1f and %(b)i" % {"a": x, "b": 7 * x}
        print("%.2f" % x, "%s: %s" % ("text", f"{x:.3f}"), "{} {name}".format(f"{x:.1f}", name=str(x)))


def shortened(x):
    return f"{x:.2f}"


def told(talker, text):
    talker.by_name["told"] = text


class Told:
    def __init__(self, x):
        self.x = x

    def __str__(self):
        return f"told {self.x:.2f}"

    def __repr__(self):
        return "Told(%.3f)" % self.x


class Padder(Talker):
    """Texts that are changed after they are made."""

    def measure(self, text, limit=5):
        return len(text) > limit

    def first(self, parts):
        return sorted(parts)[0]

    def prints_what_helpers_find(self, x):
        print(self.measure(f"{x}"), self.measure("a", limit=len(f"{x:.3f}")), self.first([f"{x:.1f}", "2.0"]))

    def prints_parts_of_texts_that_helpers_make(self, x):
        text = self.text_of(x)
        print(text[-4:], len(shortened(x)), len("%.3f" % x), len("%d" % x), "2" in "%g" % x)

    def prints_parts_of_rows(self, x):
        parts = ["first"]
        parts += [f"{v:.2f}" for v in (x, 2 * x)]
        print(len(parts[1]), sorted(parts), max(f"{v:.1f}" for v in (x, 2.0)))
        self.messages.append(parts)

    def prints_parts_of_objects(self, x):
        print(len(str(Told(x))), repr(Told(x)).upper(), f"{Told(x)!s:>20}", str(Told(x)) == "told 2.00")

    def keeps_in_what_is_read(self, x):
        to = self.by_name
        text = f"{x:.2f}"
        to = self.messages
        to.append(text)
        print(len(self.messages[-1]), len(to))

    def prints_numbers_like_samples(self, x):
        print("%.0e %.0e %.4f" % (x, 1e120, 100.7190846271e120), "%.3f" % 7e155, "%.2e" % x)

    def prints_padded(self, x):
        print(f"{x:.3f}".rjust(12), str(x).ljust(9) + "|", f"{x!r:>12}", f"{f'{x:.1f}':>8}")

    def prints_a_part(self, x):
        print(f"{x}"[:3], f"{x:.2e}".upper(), f"{x}" * 2, [f"{x}"])

    def prints_by_percent(self, x):
        print("%10s|%-8r|%.3f" % (x, x, x), f"{x!r:>12}")

    def prints_the_users(self, x):
        print(Shown(x), [Shown(x)])

    def prints_elsewhere(self, x):
        print(f"{x:.3f}", x, [x], file=sys.stderr)

    def prints_by_another_name(self, x):
        p = print
        p("a")
        p(f"{x:.2f}")
        print(x)

    def prints_at_the_end(self, x):
        print("x", end=f" = {x}\n")

    def writes(self, x):
        sys.stdout.write(f"{x}\n")
        print("after")

    def keeps_and_reads(self, x):
        self.last = f"{x:.2f}"
        if "2" in self.last:
            print("two")

    def keeps_elsewhere(self, x):
        Talker.last_of_all = f"{x:.2f}"

    def keeps_under_the_text(self, x):
        self.by_name[f"{x:.1f}"] = 1


def methods(*classes):
    return [(kind, name) for kind in classes for name in vars(kind) if name.startswith(("prints", "keeps", "writes"))]


@pytest.mark.parametrize("kind, name", methods(Talker, Padder))
def test_a_text_for_the_outside_is_made_in_every_call(kind, name, capsys):
    mine, plain = kind(), kind()

    compiled, run = compile_grad(getattr(mine, name)), getattr(plain, name)
    for k, point in enumerate((1.0, 2.0, 1.0, 3.25, 0.875, 2.0)):
        assert compiled(point) == run(point)
        lines = [text.splitlines() for text in capsys.readouterr()]
        assert all(one[: len(one) // 2] == one[len(one) // 2 :] for one in lines), lines
        assert vars(mine) == vars(plain), k
    if kind is Talker:
        assert compiled.stats.traces <= 4 and not compiled.stats.live
    Talker.last_of_all = ""


def test_arguments_keep_texts():
    def f(x, log):
        log.append(f"x = {x}")
        return x * x

    compiled, log = compile_grad(f), []
    for k, point in enumerate((1.0, 2.5, 1.0, 3.5, 4.0)):
        compiled(point, log)
        assert log[k] == f"x = {point}" and len(log) == k + 1
    assert compiled.stats.traces <= 3


def test_a_list_under_two_names_is_read():
    log, talker = [], Talker()
    talker.messages = log

    def f(x):
        talker.messages.append(f"{x}")
        return x * len(log[-1])

    compiled = compile_grad(f)
    for point in (1.5, 12.25, 1.5):
        assert compiled(point) == point * len(str(point))


def test_an_exception_has_pythons_text():
    def f(x):
        if x > 2:
            raise ValueError(f"{x:.1f} is bad")
        if x <= 0:
            raise AssertionError(f"{x} is bad")
        return x * x

    compiled = compile_grad(f)
    for point in (1.0, 2.5, 1.5, 3.5, -1.0):
        if 0 < point < 2:
            assert compiled(point) == point * point
        else:
            with pytest.raises((ValueError, AssertionError), match=f"^{point} is bad"):
                compiled(point)


def test_a_text_in_the_body_of_a_loop_is_refused_where_it_is_used():

    f = compile_grad(lambda w: tg.fori_loop(0, 3, lambda i, c: c * len(f"{c:.2f}"), w))
    with pytest.raises(UnsupportedError, match="asks for"):
        f(1.5)


def test_a_print_that_someone_has_replaced(monkeypatch):
    said = []
    monkeypatch.setattr("builtins.print", lambda *values: said.append(" ".join(map(str, values))))

    def f(x):
        print("x", x)
        return x * x

    compiled = compile_grad(f)
    for point in (1.0, 2.0, 1.0):
        compiled(point)
    assert said == ["x 1.0", "x 2.0", "x 1.0"]


def test_literals_are_read_by_the_parser():
    f = compile_grad(lambda x: x * len(ast.literal_eval(str([x, x]))))
    assert [f(1.5), f(2.5)] == [3.0, 5.0]


def test_formats_that_write_numbers_alike(capsys):
    """`%g` and `%5.1e` write some numbers alike, and are told apart by what else stands in them."""

    def f(x):
        print("%5.1e|%g|%.5e|%d" % (x, x, x, x))
        print("%.5e|%g" % (x, x))
        return x * 2

    compiled = compile_grad(f)
    for x in (2.0, 7.7e307, 3.25, 1e-7, 7.8e307):
        compiled(x)
        printed = capsys.readouterr().out
        f(x)
        assert printed == capsys.readouterr().out
