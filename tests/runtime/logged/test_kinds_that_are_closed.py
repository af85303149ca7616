"""Kinds of things that a run may meet and stay closed: generators that are sent values, texts of errors, warnings."""

from __future__ import annotations

import decimal
import enum
import functools
import json
import logging
import sys
import warnings
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse.linalg
from agreement import numerical_gradient

from tracegrad import MutationError, compile_grad

X = np.array([0.5, 1.5, 2.5])
LOG = logging.getLogger("tracegrad.tests.closed")


def running_means(x):
    total, count = 0.0, 0
    while True:
        total, count = total + (yield total / max(count, 1)), count + 1


def sends(x):
    means = running_means(x)
    next(means)
    found = [means.send(v) for v in x]
    means.close()
    return sum(found)


def throws(x):
    def parts():
        try:
            yield x[0]
        except ValueError as error:
            yield x[1] * len(str(error))

    it = parts()
    return next(it) * it.throw(ValueError("four"))


def says_why(x):
    try:
        raise KeyError("left")
    except LookupError as error:
        return np.sum(x) * len(f"{error}") + len(str(ValueError("a", 1))) + len(str(TypeError()))


def shows_an_array(x):
    return np.sum(x) * len(str(np.array([1 / 3]))) + len(str(np.float64(0.1)))


def reads_the_system(x):
    return np.sum(x) / sys.maxsize


@pytest.mark.parametrize("plain", [sends, throws, says_why, shows_an_array, reads_the_system])
def test_a_run_stays_closed(plain):
    f = compile_grad(plain)
    for k in range(3):
        np.testing.assert_allclose(f(X + k), plain(X + k), rtol=1e-12)
    assert f.stats.traces == 1 and not f.stats.live


def test_settings_of_texts_are_read_again():
    f = compile_grad(shows_an_array)
    assert f(X) == f(X) == shows_an_array(X)
    with np.printoptions(precision=3):
        assert f(X) == shows_an_array(X)


def test_a_default_factory_is_read_as_it_is_now():
    kept = defaultdict(lambda: 2.0)

    def called(x):
        return np.sum(x) * kept.default_factory()

    def taken(x):
        make = kept.default_factory
        return np.sum(x) * make()

    for plain in (called, taken):
        f = compile_grad(plain)
        kept.default_factory = lambda: 2.0
        assert [f(X), f(X)] == [plain(X)] * 2
        kept.default_factory = lambda: 3.0
        assert f(X) == plain(X) == 3.0 * X.sum() and not f.stats.live


def warn_below(depth):
    warnings.warn("from below", DeprecationWarning, stacklevel=depth)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_warning_is_of_the_line_that_it_would_be_of(depth):
    def middle(x):
        warn_below(depth)
        return np.sum(x)

    def plain(x):
        return middle(x) * 2.0

    f, seen = compile_grad(plain), []
    for run in (plain, f, f, f):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            run(X)
        seen.append([(w.category, str(w.message), w.filename, w.lineno) for w in given])
    assert seen == [seen[0]] * 4 and len(seen[0]) == 1 and f.stats.traces == 1 and not f.stats.live
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning):
            f(X)


def test_a_warning_with_values_of_the_run():
    def plain(x):
        warnings.warn(f"loss {np.sum(x):.2f}", RuntimeWarning, stacklevel=1)
        return np.sum(x)

    f = compile_grad(plain)
    for k in range(3):
        with pytest.warns(RuntimeWarning, match=f"loss {np.sum(X + k):.2f}"):
            f(X + k)
    assert f.stats.traces == 1 and not f.stats.live


def test_a_level_of_a_log_is_asked_for_again(caplog):
    def plain(x):
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug("sum %.2f", np.sum(x), extra={"size": x.size, "first": x[0]})
        return np.sum(x)

    f = compile_grad(plain)
    with caplog.at_level(logging.INFO, LOG.name):
        assert f(X) == f(X) == plain(X)
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, LOG.name):
        assert f(X) == f(X) == plain(X)
    assert [(r.getMessage(), r.size, float(r.first)) for r in caplog.records] == [("sum 4.50", 3, 0.5)] * 3
    assert not f.stats.live


def test_a_refused_write_has_done_nothing():
    kept, table = SimpleNamespace(last=None, seen=[]), np.zeros(3)

    def plain(x):
        kept.last = x[0]
        kept.seen.append(x[1])
        table[:2] = x[:2]
        return np.sum(x * table)

    f = compile_grad(plain)
    for _ in range(3):
        with pytest.raises(MutationError):
            f(X)
    assert kept.last is None and not kept.seen and not table.any()


class Side(enum.IntEnum):
    LEFT = 0
    RIGHT = 2


class Rate(float, enum.Enum):
    SLOW = 0.5


class Odd(enum.IntEnum):
    ONE = 1

    def __mul__(self, other):
        return other * 10


def by_members(x):
    table = [1.0, 2.0, 3.0]
    return x[Side.RIGHT] * Side.RIGHT + x[0] * Rate.SLOW + table[Side.RIGHT] + x[1] ** Side.RIGHT + np.sum(x) / Odd.ONE


def by_methods(x):
    return Odd.ONE * x[0] + (Side.LEFT or 3.0) + float(Side.RIGHT) + (1.0 if Side.RIGHT > 1 else 2.0)


class Scored:
    def __init__(self, name, score):
        self.name, self.score = name, score

    def __lt__(self, other):
        return self.score < other.score


def in_order(x):
    found = [Scored("a", x[0]), Scored("b", 2.0), Scored("c", x[2])]
    first, *_, last = sorted(found)
    return first.score * 2.0 + last.score + min(found).score * len(max(found, key=lambda one: one).name)


OUTER = np.array([2.0, 3.0, 4.0])
scaled = OUTER.dot


def by_a_bound_method(x):
    return scaled(x) ** 2


@pytest.mark.parametrize("plain", [by_members, by_methods, in_order, by_a_bound_method])
def test_numbers_that_are_members_and_objects_in_order(plain):
    f = compile_grad(plain)
    for x in (X, 2 * X, X[::-1].copy()):
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, plain(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), rtol=1e-5)
    assert not f.stats.live


def test_an_array_of_a_bound_method_is_an_input():
    f = compile_grad(by_a_bound_method)
    assert f(X) == f(X) == pytest.approx(by_a_bound_method(X))
    OUTER[0] += 1.0
    assert f(X) == pytest.approx(by_a_bound_method(X)) and f.stats.traces == 1


def test_a_count_that_is_looked_for_among_keys():
    kept = SimpleNamespace(count=0, rates={2: 0.5, 4: 0.25})
    seen = {1, 3}

    def plain(x):
        kept.count += 1
        rate = kept.rates[kept.count] if kept.count in kept.rates else kept.rates.get(kept.count, 1.0)
        return np.sum(x) * rate + (kept.count in seen)

    f = compile_grad(plain)
    found = []
    for run in (plain, f):
        kept.count = 0
        found.append([float(run(X)) for _ in range(9)])
    assert found[0] == found[1] and not f.stats.live and f.stats.traces <= 6


def test_factors_from_outside():
    factors = scipy.sparse.linalg.splu(scipy.sparse.diags([1.0, 4.0, -1.5], [-1, 0, 1], shape=(3, 3), format="csc"))
    solve = factors.solve

    def plain(x):
        return np.sum(factors.solve(x) ** 2) + np.sum(solve(np.sin(x)))

    f = compile_grad(plain)
    for k in range(3):
        value, gradient = f.value_and_grad(X + k)
        np.testing.assert_allclose(value, plain(X + k), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (X + k,)), rtol=1e-5)
    assert f.stats.traces == 1 and not f.stats.live


class Parts(enum.Flag):
    LEFT = 1
    RIGHT = 2


class Kind(enum.Enum):
    FLAT = 1.5


class Place:
    def __init__(self, at):
        self.at = at

    def __index__(self):
        return self.at


BOTH, AT = Parts.LEFT | Parts.RIGHT, Place(1)


def by_flags(x):
    return np.sum(x) * (2.0 if Parts.LEFT in BOTH else 3.0) * Kind(1.5).value * (1.0 if BOTH & Parts.RIGHT else 2.0)


def by_places(x):
    return x[AT] * np.sum(x[:AT]) + np.stack([x, x])[AT, AT]


def by_attributes(x):
    try:
        return x[0] * by_attributes.missing
    except AttributeError:
        return x[1] * helped.rate * halved.rate


def helped(x):
    return x


halved = functools.partial(helped)
helped.rate, halved.rate = 2.0, 3.0


def by_fields(x):
    return np.sum(x) * len("{.at:>5} {[k]}".format(AT, {"k": "v"}))


def by_a_context(x):
    return np.sum(x) * decimal.getcontext().prec + float(decimal.Decimal(1) / 3)


def into_arrays(x):
    d = np.diag([1.0, 2.0, 3.0]) * 2.0
    d[0] = x
    r = np.repeat([1.0, 2.0], 2)
    r[0] *= x[0]
    return np.sum(d @ d) + np.sum(r)


def into_a_log(x):
    logging.getLogger("tracegrad.tests.closed").error("loss %s", [np.sum(x), 2.0])
    return np.sum(x)


@pytest.mark.parametrize(
    "plain", [by_flags, by_places, by_attributes, by_fields, by_a_context, into_arrays, into_a_log]
)  # fmt: skip
def test_more_runs_stay_closed(plain):
    f = compile_grad(plain)
    for x in (X, 2 * X, X[::-1].copy()):
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, plain(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), rtol=1e-5, atol=1e-7)
    assert not f.stats.live and f._dispatcher.logged.refused == {}


def test_numbers_that_vary_are_taken_as_they_are_where_that_closes_the_log():
    kept = SimpleNamespace(rate=0.5)

    def plain(x):
        return np.sum(x) * len(json.dumps([kept.rate]))

    f = compile_grad(plain)
    for kept.rate in (0.5, 0.25, 0.125, 0.25, 1.0):
        assert f(X) == plain(X)
    assert not f.stats.live and f._dispatcher.logged.refused == {}


def test_the_context_and_the_attributes_are_read_again(monkeypatch):
    f, g = compile_grad(by_a_context), compile_grad(by_attributes)
    assert (f(X), g(X)) == (by_a_context(X), by_attributes(X))
    monkeypatch.setattr(halved, "rate", 5.0)
    with decimal.localcontext() as context:
        context.prec = 5
        assert f(X) == by_a_context(X)
    assert g(X) == by_attributes(X) and f(X) == by_a_context(X)
    monkeypatch.setattr(by_attributes, "missing", 4.0, raising=False)
    assert g(X) == by_attributes(X) == 4.0 * X[0]
