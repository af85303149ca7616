"""Traps: libraries, modules and contexts that a function reads change between calls.

Each case is a function, a change, and whether the function is replayed before the change: a replay that notices, or
Python in each call.  After the change the answer is plain Python's.
"""

from __future__ import annotations

import calendar
import colorsys
import contextvars
import csv
import datetime
import decimal
import fractions
import functools
import json
import locale
import logging
import math
import operator
import os
import re
import statistics
import string
import sys
import threading
import time
import types
import warnings
from collections import Counter, OrderedDict

import numpy as np
import optree
import pytest
import scipy.constants
import scipy.fft
import scipy.interpolate
import scipy.special
import scipy.stats
from packaging import version as versions
from with_source import code_of

from tracegrad import compile_grad
from tracegrad.runtime.logged import reads
from tracegrad.runtime.state import libraries

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.3, 1.2, 2.0])


def follows(plain, change, *, live=None, undo=None):
    """The compiled function agrees with *plain* before and after *change*, and was live for that reason, or not."""
    f = compile_grad(plain)
    try:
        for _ in range(3):
            np.testing.assert_allclose(f(X), plain(X), rtol=1e-12)
        if live is None:
            assert not f.stats.live
            before = f.stats.traces
            f(X)
            assert f.stats.traces == before
        else:
            assert live in f.stats.live
        change()
        for _ in range(3):
            np.testing.assert_allclose(f(X), plain(X), rtol=1e-12)
    finally:
        if undo is not None:
            undo()


# ---- a package of the user's that is installed -------------------------------------------------------------------


PACKAGE = """
import numpy as np
rate, table, W, names = 1.0, {"rate": 1.0}, np.ones(3), ["a"]
class Model:
    scale = 1.0
    def __init__(self):
        self.bias = 1.0
    def __call__(self, x):
        return np.sum(x) * self.scale + self.bias
model = Model()
def helper(x, power=1.0):
    return np.sum(x * W) * rate * table["rate"] * len(names) ** power
def default(x, weights=[1.0]):
    return np.sum(x) * weights[0]
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A module in a folder of installed packages."""
    folder = tmp_path / "site-packages" / "installed_model"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(folder.parent))
    import installed_model

    yield installed_model
    del sys.modules["installed_model"]


CHANGES = {
    "global": lambda p: setattr(p, "rate", 2.0), "dict": lambda p: p.table.update(rate=3.0),
    "array": lambda p: p.W.__setitem__(0, 5.0), "array replaced": lambda p: setattr(p, "W", np.zeros(3)),
    "list": lambda p: p.names.append("b"), "default": lambda p: setattr(p.helper, "__defaults__", (2.0,)),
    "item of a default": lambda p: p.default.__defaults__[0].__setitem__(0, 4.0),
    "attribute of an instance": lambda p: setattr(p.model, "bias", 7.0),
    "attribute of a class": lambda p: setattr(p.Model, "scale", 7.0),
    "method": lambda p: setattr(p.Model, "__call__", lambda self, x: np.sum(x) * 9.0),
    "function": lambda p: setattr(p, "helper", lambda x: np.sum(x) * 9.0),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_an_installed_package_is_the_users_own(package, change):
    package.names.append("c")  # so that the power counts

    def plain(x):
        return package.helper(x) + package.default(x) + package.model(x)

    follows(plain, lambda: CHANGES[change](package))


def test_compiled_functions_of_an_installed_package(package):
    f = compile_grad(package.helper)
    for package.rate in (1.0, 1.0, 1.0, 2.0, 1.0):
        assert f(X) == pytest.approx(package.helper(X))
    assert not f.stats.live


def test_objects_that_an_installed_package_makes(package):
    import installed_model as imported  # calls through a module that was imported have another bytecode

    def plain(x):
        import installed_model

        return np.sum(x) * imported.Model().bias * installed_model.Model()(x)

    def change(self):
        self.bias = 5.0

    follows(plain, lambda: setattr(package.Model, "__init__", change))
    f = types.FunctionType(code_of("f = lambda x: package.Model()(x)", "own.py").co_consts[0], {"package": package})
    follows(f, lambda: setattr(package.Model, "scale", 3.0))


def test_compiled_parts_of_an_installed_package_are_not_trusted():
    torch = pytest.importorskip("torch")
    before = torch.get_default_dtype()
    follows(
        lambda x: np.sum(x) * (2.0 if torch.get_default_dtype() == torch.float32 else 1.0),
        lambda: torch.set_default_dtype(torch.float64 if before == torch.float32 else torch.float32),
        live="which is compiled", undo=lambda: torch.set_default_dtype(before),
    )  # fmt: skip


# ---- what stands under the names of a library's modules -----------------------------------------------------------


def doubled(x, *rest):
    return np.sum(x) * 2.0


pi, number = math.pi, scipy.constants.c
READERS = {
    "np.tanh": (lambda x: np.sum(np.tanh(x)), np, "tanh", np.sin),
    "a function of the user's": (lambda x: np.tanh(x) + 0 * x[0], np, "tanh", doubled),
    "math.pi": (lambda x: np.sum(x) * math.pi, math, "pi", 3.0),
    "np.pi": (lambda x: np.sum(x) * np.pi, np, "pi", 3.0),
    "scipy.special": (lambda x: np.sum(scipy.special.expit(x)), scipy.special, "expit", np.cos),
    "scipy.constants": (lambda x: np.sum(x) * scipy.constants.c, scipy.constants, "c", 3.0),
    "np.linalg": (lambda x: np.linalg.norm(x), np.linalg, "norm", doubled),
    "a module": (lambda x: np.linalg.norm(x), np, "linalg", types.SimpleNamespace(norm=doubled)),
    "an alias": (lambda x: (lambda xp: xp.sum(xp.tanh(x)))(np), np, "tanh", np.sin),
    "a computed name": (lambda x: np.sum(getattr(np, "".join(("ta", "nh")))(x)), np, "tanh", np.sin),
    "the import in the body": (lambda x: __import_in_body(x), math, "tau", 1.0),
    "string.digits": (lambda x: np.sum(x) * len(string.digits), string, "digits", "01"),
    "json.loads": (lambda x: np.sum(x) * json.loads("3"), json, "loads", len),
    "an absent name": (lambda x: np.sum(x) * getattr(math, "no_such", 1.0), math, "no_such", 5.0),
}  # fmt: skip


def __import_in_body(x):
    import math as mathematics

    return np.sum(x) * mathematics.tau


@pytest.mark.parametrize("case", READERS)
def test_a_replaced_attribute_of_a_librarys_module(case, monkeypatch):
    plain, module, name, value = READERS[case]
    follows(plain, lambda: monkeypatch.setattr(module, name, value, raising=False))


def test_data_of_a_library(monkeypatch):
    constants = scipy.constants.physical_constants
    follows(
        lambda x: np.sum(x) * scipy.constants.value("Rydberg constant"),
        lambda: monkeypatch.setitem(constants, "Rydberg constant", (2.0, "", 0.0)),
    )
    follows(
        lambda x: np.sum(x) * constants["Bohr radius"][0],
        lambda: monkeypatch.setitem(constants, "Bohr radius", (2.0, "", 0.0)),
    )


def test_a_replaced_attribute_of_a_librarys_class(monkeypatch):
    half = fractions.Fraction(1, 2)
    follows(
        lambda x: np.sum(x) * float(fractions.Fraction.from_float(0.5)),
        lambda: monkeypatch.setattr(fractions.Fraction, "from_float", classmethod(lambda cls, v: 3.0)),
    )
    follows(
        lambda x: np.sum(x) * float(half.limit_denominator(10)),
        lambda: monkeypatch.setattr(fractions.Fraction, "limit_denominator", lambda self, n: 3.0),
    )
    normal = statistics.NormalDist(1.0, 2.0)
    follows(
        lambda x: np.sum(x) * normal.pdf(1.0),
        lambda: monkeypatch.setattr(statistics.NormalDist, "pdf", lambda self, v: 3.0),
    )


def test_a_replaced_method_of_a_librarys_object(monkeypatch):
    follows(
        lambda x: np.sum(x) * scipy.stats.norm.pdf(0.5),
        # in the object's dict, from which it is taken again: pytest before 9.2 would leave the class's method there
        lambda: monkeypatch.setitem(vars(scipy.stats.norm), "pdf", lambda v: 3.0),
    )
    follows(
        lambda x: np.sum(x) * scipy.stats.gamma.cdf(0.5, 2.0),
        lambda: monkeypatch.setattr(type(scipy.stats.gamma), "cdf", lambda self, *v: 3.0, raising=False),
    )


def test_constants_that_a_librarys_functions_read(monkeypatch):
    follows(
        lambda x: np.sum(x) * colorsys.hls_to_rgb(0.1, 0.2, 0.3)[1],
        lambda: monkeypatch.setattr(colorsys, "ONE_THIRD", 0.5),
    )
    follows(
        lambda x: np.sum(x) * colorsys.rgb_to_hsv(0.1, 0.2, 0.3)[1],
        lambda: monkeypatch.setattr(colorsys, "rgb_to_hsv", lambda *v: (1.0, 5.0)),
    )


# ---- settings of libraries that are read again --------------------------------------------------------------------


context = decimal.getcontext()
third = decimal.Decimal(1) / 3
DEFAULT = {"prec": context.prec, "rounding": context.rounding}


def restore_decimal():
    decimal.getcontext().prec, decimal.getcontext().rounding = DEFAULT.values()


@pytest.mark.parametrize(
    "plain",
    [
        lambda x: np.sum(x) * float(decimal.Decimal(1) / 7), lambda x: np.sum(x) * float(third * 3),
        lambda x: np.sum(x) * decimal.getcontext().prec, lambda x: np.sum(x) * float((third, 1)[0] + 1),
        lambda x: np.sum(x) * float(third.exp()), lambda x: np.sum(x) * float(sum([third, third])),
    ],
)  # fmt: skip
def test_the_decimal_context(plain):
    follows(plain, lambda: setattr(decimal.getcontext(), "prec", 3), undo=restore_decimal)


def test_the_rounding_of_decimals():
    follows(
        lambda x: np.sum(x) * float((decimal.Decimal(2) / 3).scaleb(28) % 10),
        lambda: setattr(decimal.getcontext(), "rounding", decimal.ROUND_DOWN), undo=restore_decimal,
    )  # fmt: skip


def test_a_decimal_argument():
    plain = lambda x, d: np.sum(x) * float(d / 7)  # noqa: E731
    f = compile_grad(plain)
    try:
        for decimal.getcontext().prec in (28, 28, 28, 3, 3, 28):
            assert f(X, decimal.Decimal(1)) == pytest.approx(plain(X, decimal.Decimal(1)), rel=1e-12)
        assert not f.stats.live
    finally:
        restore_decimal()


def when(condition):
    return 2.0 if condition else 1.0


def zone(name):
    if name is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = name
    time.tzset()


SETTINGS = {
    "geterr": (
        lambda x: np.sum(x) * when(np.geterr()["divide"] == "ignore"),
        lambda: np.seterr(divide="ignore"), lambda: np.seterr(divide="warn"),
    ),
    "geterr imported": (
        lambda x, get=np.geterr: np.sum(x) * when(get()["over"] == "ignore"),
        lambda: np.seterr(over="ignore"), lambda: np.seterr(over="warn"),
    ),
    "geterrcall": (
        lambda x: np.sum(x) * when(np.geterrcall() is None), lambda: np.seterrcall(print), lambda: np.seterrcall(None),
    ),
    "print options": (
        lambda x: np.sum(x) * np.get_printoptions()["precision"],
        lambda: np.set_printoptions(precision=3), lambda: np.set_printoptions(precision=8),
    ),
    "text of an array": (
        lambda x: np.sum(x) * len(str(np.array([1 / 3]))),
        lambda: np.set_printoptions(precision=3), lambda: np.set_printoptions(precision=8),
    ),
    "f-string of an array": (
        lambda x: np.sum(x) * len(f"{np.array([1 / 3])}"),
        lambda: np.set_printoptions(precision=3), lambda: np.set_printoptions(precision=8),
    ),
    "array2string": (
        lambda x: np.sum(x) * len(np.array2string(np.array([1 / 3]))),
        lambda: np.set_printoptions(precision=3), lambda: np.set_printoptions(precision=8),
    ),
    "% of an array": (
        lambda x: np.sum(x) * len("%s" % np.array([1 / 3])),  # noqa: UP031
        lambda: np.set_printoptions(precision=3), lambda: np.set_printoptions(precision=8),
    ),
    "buffer size": (
        lambda x: np.sum(x) * np.getbufsize(), lambda: np.setbufsize(16384), lambda: np.setbufsize(8192),
    ),
    "special functions": (
        lambda x: np.sum(x) * when(scipy.special.geterr()["domain"] == "raise"),
        lambda: scipy.special.seterr(domain="raise"), lambda: scipy.special.seterr(domain="ignore"),
    ),
    "calendar": (
        lambda x: np.sum(x) * (1 + calendar.firstweekday()),
        lambda: calendar.setfirstweekday(4), lambda: calendar.setfirstweekday(0),
    ),
    "calendar's weeks": (
        lambda x: np.sum(x) * len(calendar.monthcalendar(2020, 3)),
        lambda: calendar.setfirstweekday(6), lambda: calendar.setfirstweekday(0),
    ),
    "recursion limit": (
        lambda x: np.sum(x) * sys.getrecursionlimit(),
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 7),
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() - 7),
    ),
    "time zone": (
        lambda x: np.sum(x) * (1 + datetime.datetime.fromtimestamp(0).hour), lambda: zone("UTC+5"), lambda: zone(None),
    ),
    "time zone of an instance": (
        lambda x, day=datetime.datetime(2020, 1, 1): np.sum(x) * day.timestamp(),
        lambda: zone("UTC+5"), lambda: zone(None),
    ),
    "digits": (
        lambda x: np.sum(x) * sys.get_int_max_str_digits(),
        lambda: sys.set_int_max_str_digits(5000), lambda: sys.set_int_max_str_digits(4300),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting_is_read_again(case):
    plain, change, undo = SETTINGS[case]
    follows(plain, change, undo=undo)


@pytest.mark.parametrize(
    "plain",
    [
        lambda x: np.sum(x) * len(f"{1234567:n}"), lambda x: np.sum(x) * len("{:>12n}".format(1.5)),  # noqa: UP032
        lambda x: np.sum(x) * len(format(1234567, "n")), lambda x: np.sum(x) * len("{v:.3n}".format_map({"v": 1.5})),
    ],
)  # fmt: skip
def test_numbers_as_they_are_written_in_the_locale(plain, monkeypatch):
    places = []
    monkeypatch.setattr(reads, "LOCALE", libraries.LibrarySetting("the locale", lambda: len(places)))
    f = compile_grad(plain)
    for _ in range(4):
        f(X)
    before = f.stats.traces
    places.append("somewhere else")
    f(X)
    assert not f.stats.live and f.stats.traces == before + 1


def test_a_setting_of_an_installed_package():
    numba = pytest.importorskip("numba")
    before = numba.config.BOUNDSCHECK, numba.config.DEBUG
    follows(
        lambda x: np.sum(x) * (1 + numba.config.DEBUG), lambda: setattr(numba.config, "DEBUG", 1),
        undo=lambda: setattr(numba.config, "DEBUG", before[1]),
    )  # fmt: skip
    sklearn = pytest.importorskip("sklearn")
    follows(
        lambda x: np.sum(x) * when(sklearn.get_config()["assume_finite"]),
        lambda: sklearn.set_config(assume_finite=True), live="_threadlocal",
        undo=lambda: sklearn.set_config(assume_finite=False),
    )  # fmt: skip


def test_a_setting_that_the_function_leaves_changed():
    def plain(x):
        np.seterr(divide="ignore")
        return np.sum(x)

    def filters(x):
        warnings.simplefilter("ignore", ResourceWarning)
        return np.sum(x)

    def precision(x):
        decimal.getcontext().prec = 5
        return np.sum(x)

    try:
        for function in (plain, filters, precision):
            f = compile_grad(function)
            with warnings.catch_warnings():
                for _ in range(3):
                    f(X)
                assert "log/unseen" in f.stats.live
    finally:
        np.seterr(divide="warn")
        restore_decimal()


# ---- state that can't be compared: Python runs ---------------------------------------------------------------------


variable = contextvars.ContextVar("variable", default=1.0)
local = threading.local()
local.rate = 1.0
logger = logging.getLogger("tracegrad.tests.traps")


def delete_environment():
    os.environ.pop("TRACEGRAD_TEST_TRAP", None)


HIDDEN = {
    "a context variable": (
        lambda x: np.sum(x) * variable.get(), lambda: variable.set(3.0), lambda: variable.set(1.0), None,
    ),
    "a thread's attributes": (
        lambda x: np.sum(x) * local.rate,
        lambda: setattr(local, "rate", 2.0), lambda: setattr(local, "rate", 1.0), "local",
    ),
    "the environment": (
        lambda x: np.sum(x) * float(os.environ.get("TRACEGRAD_TEST_TRAP", "1")),
        lambda: os.environ.update(TRACEGRAD_TEST_TRAP="3"), delete_environment, None,
    ),
    "os.getenv": (
        lambda x: np.sum(x) * float(os.getenv("TRACEGRAD_TEST_TRAP", "1")),
        lambda: os.environ.update(TRACEGRAD_TEST_TRAP="3"), delete_environment, None,
    ),
    "the locale": (
        lambda x: np.sum(x) * len(locale.localeconv()["decimal_point"]), lambda: None, None, "locale.localeconv",
    ),
    "a compiled module that no one knows": (
        lambda x: np.sum(x) * csv.field_size_limit(),
        lambda: csv.field_size_limit(1000), lambda: csv.field_size_limit(131072), "which is compiled",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HIDDEN)
def test_hidden_state_makes_python_run(case):
    plain, change, undo, live = HIDDEN[case]
    follows(plain, change, live=live, undo=undo)


START = np.datetime64("2020-01-01")
today = "today"


@pytest.mark.parametrize(
    "plain",
    [
        lambda x: np.sum(x) * float(np.datetime64("now") > START),
        lambda x: np.sum(x) * (np.datetime64("today") > START),
        lambda x: np.sum(x) * float(np.array("NOW", dtype="M8[s]") > START),
        lambda x: np.sum(x) * float(np.array(["today"]).astype("datetime64[D]")[0] > START),
        lambda x: np.sum(x) * float(np.datetime64(today) > START), lambda x: np.sum(x) * np.is_busday("today"),
    ],
)  # fmt: skip
def test_the_present_as_text_is_a_clock(plain):
    f = compile_grad(plain)
    for _ in range(3):
        f(X)
    assert "(calls/clock)" in f.stats.live


def test_the_present_as_an_argument():
    f = compile_grad(lambda x, day: np.sum(x) * float(np.datetime64(day) > START))
    for _ in range(3):
        f(X, "2021-05-05")
    assert not f.stats.live
    for _ in range(3):
        f(X, "today")
    assert "(calls/clock)" in f.stats.live


# ---- warnings -------------------------------------------------------------------------------------------------------


def warn_in_helper(x):
    warnings.warn("positive", RuntimeWarning, stacklevel=2)
    return np.sum(x)


def warn_itself(x):
    if x[0] > 0:
        warnings.warn("positive", UserWarning, stacklevel=1)
    return np.sum(x)


def warn_explicitly(x):
    warnings.warn_explicit("positive", FutureWarning, "somewhere.py", 1)
    return np.sum(x)


def warn_by_numpy(x):
    return np.sum(x) * np.polyfit([1.0, 1.0], [1.0, 1.0], 3)[0] * 0.0 + np.sum(x)


@pytest.mark.parametrize("plain", [lambda x: warn_in_helper(x), warn_itself, warn_explicitly, warn_by_numpy])
def test_a_warning_is_given_in_each_call(plain):
    f = compile_grad(plain)
    for _ in range(4):
        with pytest.warns(Warning):
            f(X)
    assert bool(f.stats.live) == (plain in (warn_explicitly, warn_by_numpy))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Warning):
            f(X)


def test_a_warning_that_is_not_given_costs_nothing():
    f = compile_grad(warn_itself)
    for _ in range(3):
        f(-X)
    assert not f.stats.live
    with pytest.warns(UserWarning):
        f(X)


def test_filters_of_warnings():
    with warnings.catch_warnings():
        follows(lambda x: np.sum(x) * len(warnings.filters), lambda: warnings.simplefilter("ignore", ResourceWarning))


# ---- what stays quick -----------------------------------------------------------------------------------------------


@functools.wraps(doubled)
def wrapped(x):
    return doubled(x)


def quietly(x):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.sum(np.log(x))


REPLAYED = [
    lambda x: np.sum(x) * float(fractions.Fraction(1, 3)), lambda x: np.sum(x) * statistics.fmean([1.0, 2.0]),
    lambda x: np.sum(x) * json.loads("[1, 2]")[1], lambda x: np.sum(x) * len(re.findall("a", "aba")),
    lambda x: functools.reduce(operator.add, [x.sum(), x.mean()]), wrapped, quietly,
    lambda x: np.sum(x) * Counter("aab")["a"], lambda x: np.sum(x) * OrderedDict(a=2.0)["a"],
    lambda x: np.sum(x) * len(os.path.join("a", "b")), lambda x: np.linalg.norm(x) * sys.maxsize,
    lambda x: scipy.stats.norm.pdf(0.5) * np.sum(x), lambda x: np.sum(x) * np.finfo(np.float64).eps,
    lambda x: np.sum(x) * float((np.datetime64("2020-01-02") - START) / np.timedelta64(1, "D")),
    lambda x: sum(optree.tree_leaves(optree.tree_map(np.sum, {"a": x, "b": [x]}))),
    lambda x: np.sum(x) * float(scipy.interpolate.interp1d([0.0, 1.0], [0.0, 2.0])(0.5)),
    lambda x: np.sum(x) * len(versions.Version("1.2").release),
    lambda x: np.sum(x) * (1 + sys.flags.optimize), lambda x: np.sum(x) * sys.float_info.max_exp,
]  # fmt: skip


@pytest.mark.parametrize("plain", REPLAYED)
def test_pure_libraries_are_replayed(plain):
    follows(plain, lambda: None)
