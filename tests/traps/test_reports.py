# ruff: noqa: B028  (the default of stacklevel is a case)
"""Log records and warnings of compiled functions: those of plain Python, in every call, from the user's line."""

from __future__ import annotations

import logging
import warnings
from warnings import warn

import numpy as np
import pytest

from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.3, 0.5])
log = logging.getLogger("tracegrad.tests.reports")
REPLAYED, LIVE = {}, {}


def case(table):
    def add(make):
        table[make.__name__.replace("_", " ").strip()] = make
        return make

    return add


replayed, live = case(REPLAYED), case(LIVE)


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        place = record.filename, record.lineno, record.funcName, record.module
        extra = getattr(record, "step", None)
        self.seen.append((record.name, record.levelname, record.getMessage(), extra, record.exc_info, *place))


@pytest.fixture(autouse=True)
def records():
    handler, root = Records(), logging.getLogger()
    level = root.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    root.addHandler(handler)
    yield handler
    for logger in (log, root):
        logger.removeHandler(handler)
    root.setLevel(level)
    log.setLevel(logging.NOTSET)
    log.propagate = True


@replayed
def arguments_of_a_record(x):
    loss = np.sum(x * x)
    log.info("loss %.4f at %s", loss, x)
    return loss


@replayed
def formatted_text(x):
    loss = np.sum(x * x)
    log.info(f"loss {loss:.3f}")
    log.debug(f"that is {loss}")
    log.warning("or " + str(loss))
    return loss


@replayed
def a_level_that_is_asked_for(x):
    loss = np.sum(x * x)
    if log.isEnabledFor(logging.DEBUG):
        log.debug("details %s", [loss, 2.0 * loss])
    return loss


@replayed
def a_logger_that_is_looked_up(x):
    loss = np.sum(x * x)
    logging.getLogger("tracegrad.tests.reports").log(logging.ERROR, "loss %s", loss)
    return loss


@replayed
def the_root_logger(x):
    loss = np.sum(x * x)
    logging.warning("loss %s", loss)
    return loss


@replayed
def more_attributes(x):
    loss = np.sum(x * x)
    log.error("loss", extra={"step": loss})
    return loss


@replayed
def of_a_helper(x):
    def tell(value):
        log.critical("value %s", value)

    tell(np.sum(x))
    return np.sum(x * x)


@replayed
def in_a_branch(x):
    loss = np.sum(x * x)
    if loss > 3.0:
        log.warning("large: %g", loss)
    return loss


@replayed
def a_warning(x):
    warnings.warn("about x")
    return np.sum(x * x)


@replayed
def a_warning_with_a_value(x):
    loss = np.sum(x * x)
    warn(f"loss {loss:.3f}", RuntimeWarning)
    return loss


@replayed
def a_warning_for_the_caller(x):
    warnings.warn("of the caller", DeprecationWarning, stacklevel=2)
    return np.sum(x * x)


def _helper(text):
    warnings.warn(text, stacklevel=2)


@replayed
def a_warning_of_a_helper(x):
    _helper("of a helper")
    return np.sum(x * x)


@live
def an_exception_in_the_record(x):
    try:
        raise ValueError("lost")
    except ValueError:
        log.info("caught", exc_info=True)
    return np.sum(x * x)


@live
def the_place_of_a_caller(x):
    def tell(text):
        log.info(text, stacklevel=2)

    tell("from here")
    return np.sum(x * x)


@live
def a_logger_that_changes(x):
    log.setLevel(logging.INFO)
    log.info("level set")
    return np.sum(x * x)


@replayed
def a_function_of_logging_under_another_name(x):
    tell = logging.warning
    tell("loss %s", 1.0)
    return np.sum(x * x)


@live
def a_warning_within_catch_warnings(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("unheard")
    return np.sum(x * x)


@live
def a_warning_object(x):
    warnings.warn(UserWarning("an object", 2))
    return np.sum(x * x)


def runs(run, records, calls=8):
    """(results, records, warnings) of some calls, between which levels and filters change."""
    values = []
    records.seen.clear()
    log.setLevel(logging.INFO)
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for k in range(calls):
            if k == 4:
                log.setLevel(logging.DEBUG)
            if k == 5:
                warnings.simplefilter("default")
            if k == 7:
                log.setLevel(logging.CRITICAL)
                warnings.simplefilter("ignore")
            values.append(float(run(X * (1 + k % 3))))
    found = [(str(w.message), w.category, w.lineno, w.filename) for w in given if "tracegrad" not in str(w.message)]
    globals().pop("__warningregistry__", None)
    return values, list(records.seen), found


@pytest.mark.parametrize("name", [*REPLAYED, *LIVE])
def test_reports_are_those_of_plain_python(name, records):
    f = (REPLAYED | LIVE)[name]
    compiled = compile_grad(f)
    want, found = runs(f, records), runs(compiled, records)
    assert found[0] == pytest.approx(want[0], rel=1e-12)
    assert found[2] == want[2]
    if name not in ("an exception in the record", "the place of a caller"):
        assert found[1] == want[1]
    assert len(found[1]) == len(want[1])
    assert (compiled.stats.live == "") == (name in REPLAYED), compiled.stats.live
    assert name in LIVE or compiled.stats.traces <= 4


def test_a_logger_is_an_attribute(records):
    class Model:
        def __init__(self):
            self.logger, self.calls = log, 0

        def loss(self, x):
            self.calls += 1
            self.logger.info("call %d: %s", self.calls, np.sum(x))
            return np.sum(x * x)

    compiled = compile_grad(Model().loss)
    for k in range(5):
        compiled.value_and_grad(X)
        assert records.seen[-1][2] == f"call {k + 1}: {np.sum(X)}"
    assert len(records.seen) == 5 and compiled.stats.live == ""
    assert (compiled.stats.traces, compiled.stats.retries) == (1, 1)


def test_reports_and_prints_keep_their_order(capsys):
    class Prints(logging.Handler):
        def emit(self, record):
            print("log", record.getMessage())

    handler = Prints()
    log.addHandler(handler)

    def f(x):
        print("first", np.sum(x))
        log.info("second %s", np.sum(x))
        print("third")
        return np.sum(x * x)

    compiled = compile_grad(f)
    try:
        for _ in range(4):
            compiled(X)
            assert capsys.readouterr().out == f"first {np.sum(X)}\nlog second {np.sum(X)}\nthird\n"
    finally:
        log.removeHandler(handler)
    assert compiled.stats.live == ""


def test_a_warning_that_is_an_error_is_raised():
    def f(x):
        try:
            warnings.warn("may be an error")
        except UserWarning:
            return np.sum(x)
        return np.sum(x * x)

    compiled = compile_grad(f)
    for action in ("ignore", "ignore", "ignore", "error", "error", "ignore", "error"):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            assert compiled(X) == pytest.approx(f(X))


def test_a_logger_of_a_class_is_left_to_python(records):
    class Model:
        logger = log

        def loss(self, x):
            self.logger.info("loss %s", np.sum(x))
            return np.sum(x * x)

    compiled = compile_grad(Model().loss)
    for k in range(4):
        compiled(X)
        assert [seen[2] for seen in records.seen] == [f"loss {np.sum(X)}"] * (k + 1)


@pytest.mark.parametrize(
    "change", [lambda: log.setLevel(logging.DEBUG), lambda: logging.disable(logging.CRITICAL), lambda: log.handlers[:1]]
)
@pytest.mark.parametrize("level", [logging.DEBUG, logging.CRITICAL])
def test_a_level_that_is_asked_for_counts(change, level):
    def f(x):
        again = logging.getLogger("tracegrad.tests.reports").isEnabledFor(level)
        return np.sum(x) * (2.0 if log.isEnabledFor(level) and again else 1.0)

    compiled = compile_grad(f)
    try:
        for _ in range(3):
            assert compiled(X) == pytest.approx(f(X))
        assert compiled.stats.live == ""
        change()
        for _ in range(3):
            assert compiled(X) == pytest.approx(f(X))
        assert compiled.stats.live == ""
    finally:
        logging.disable(logging.NOTSET)
