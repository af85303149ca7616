"""Installed packages that a function reaches: how far they are looked into, and what is only called before a raise.

The asserts here are as users write them (PYTEST_DONT_REWRITE): where one fails, the session of pytest, which holds all
tests that there are, is no part of what the function reaches.
"""

import contextlib
import sys
import time

import numpy as np
import pytest

from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.3, 1.2, 2.0])
tools = None  # the module that PACKAGE is the text of
PACKAGE = """
rate, text = 2.0, "a"

def factor():
    return rate

def message(x):
    return text + str(len(x))

def fail(x):
    raise ValueError(rate)

def make(scale):
    def scaled():
        return scale[0]
    return scaled

scales = [2.0], [3.0]
first, second = map(make, scales)
factor_again = factor
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A module in a folder of installed packages, with 2,000 functions that reach each other in two chains."""
    folder = tmp_path / "site-packages" / "installed_tools"
    folder.mkdir(parents=True)
    chains = [("short", 100), ("long", 1900)]
    steps = [f"def {n}{k}(x): return ({n}{k + 1}, x * rate)[1]\n" for n, m in chains for k in range(m)]
    ends = [f"def {n}{m}(x): return x\n" for n, m in chains]
    (folder / "__init__.py").write_text(PACKAGE + "".join(steps + ends))
    monkeypatch.syspath_prepend(str(folder.parent))
    import installed_tools

    monkeypatch.setattr(sys.modules[__name__], "tools", installed_tools)
    yield installed_tools
    del sys.modules["installed_tools"]


# ---- what is only called on ways that end in a raise


def asserts(x):
    assert np.all(x > -100)
    return np.sum(x**2)


def asserts_with_a_message(x):
    assert np.all(x > -100) and len(x) == 3, f"too small, or of the wrong length: {x.shape}"
    return np.sum(x**2)


def asserts_in_a_helper(x):
    def check(y):
        for k in range(3):
            assert -100 < y[k] < 1e6, k
        return y

    return np.sum(check(x) ** 2)


def raises_what_a_package_says(x):
    if np.any(x < -100):
        raise AssertionError(tools.message(x))
    return np.sum(x**2)


def raises_with_the_time(x):
    if np.any(x < -100):
        raise AssertionError(f"at {time.time()}")
    return np.sum(x**2)


@pytest.mark.parametrize(
    "plain",
    [asserts, asserts_with_a_message, asserts_in_a_helper, raises_what_a_package_says, raises_with_the_time],
)
def test_what_a_failure_says_is_no_reason_to_run_python(plain, package):
    f = compile_grad(plain)
    for _ in range(3):
        np.testing.assert_allclose(f(X), np.sum(X**2))
        with pytest.raises(AssertionError):
            f(X - 1000)
    assert not f.stats.live
    before = f.stats.traces
    np.testing.assert_allclose(f(X + 1), np.sum((X + 1) ** 2))
    assert f.stats.traces == before


class FoundError(Exception):
    pass


def caught_where_it_is_raised(x):
    try:
        if x[0] > 0:
            raise ValueError(tools.factor())
    except ValueError as error:
        return np.sum(x) * error.args[0]


def caught_by_the_caller(x):
    def inner():
        for k in range(5):
            if x[k] > 1:
                raise FoundError(tools.message(x) * k)

    try:
        inner()
    except FoundError as found:
        return np.sum(x) * len(found.args[0])


def caught_by_a_context_manager(x):
    class Keep:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            self.kept = error.args[0]
            return True

    with Keep() as keep:
        raise FoundError(tools.factor())
    return np.sum(x) * keep.kept


def caught_with_what_a_list_holds(x):
    try:
        if x[0] > 0:
            raise FoundError(tools.factor(), [tools.factor() for _ in range(2)])
    except FoundError as found:
        return np.sum(x) * sum(found.args[1])


def suppressed(x):
    found = []
    with contextlib.suppress(FoundError):
        if x[0] > 0:
            raise FoundError(found.append(tools.factor()))
    return np.sum(x) * found[0]


def raised_within_the_package(x):
    try:
        if x[0] > 0:
            raise FoundError(tools.fail(x))
    except ValueError as error:
        return np.sum(x) * error.args[0]


def called_elsewhere_under_another_name(x):
    y = x * tools.factor_again()
    try:
        if x[0] > 0:
            raise FoundError(tools.factor())
    except FoundError as found:
        return np.sum(y) * found.args[0]


def of_one_code_with_what_is_called_elsewhere(x):
    y = x * tools.first()
    try:
        if x[0] > 0:
            raise FoundError(tools.second())
    except FoundError as found:
        return np.sum(y) * found.args[0]


@pytest.mark.parametrize(
    "plain",
    [
        caught_where_it_is_raised, caught_by_the_caller, caught_by_a_context_manager,
        caught_with_what_a_list_holds, suppressed, raised_within_the_package, called_elsewhere_under_another_name,
        of_one_code_with_what_is_called_elsewhere,
    ],
)  # fmt: skip
def test_an_exception_that_is_caught_counts_with_all_that_it_says(plain, package):
    f = compile_grad(plain)
    for change in ("nothing", "state", "nothing", "function"):
        if change == "state":
            tools.rate, tools.text = 3.0, "abc"
            tools.scales[1][0] = 4.0
        elif change == "function":
            tools.factor, tools.message = lambda: 5.0, lambda x: "abcdef"
            tools.fail = lambda x: (_ for _ in ()).throw(ValueError(6.0))
        for _ in range(4):
            np.testing.assert_allclose(f(X), plain(X))
    if plain is caught_by_a_context_manager:  # of a class that the function makes
        assert "has a class" in f.stats.live
        return
    assert not f.stats.live
    before = f.stats.traces
    f(X)
    assert f.stats.traces == before


def test_a_failure_leaves_effects_as_python_does(package):
    class Fit:
        calls = 0

        def loss(self, x):
            self.calls += 1
            assert np.all(x > -100), "too small"
            return np.sum(x**2)

    fit = Fit()
    f = compile_grad(fit.loss)
    for k in range(3):
        f(X)
        with pytest.raises(AssertionError, match="too small"):
            f(X - 1000)
        assert fit.calls == 2 * k + 2
    assert not f.stats.live


# ---- how far packages are looked into


def test_a_package_is_looked_into(package):
    f = compile_grad(lambda x: np.sum(package.short0(x)))
    for rate in (2.0, 3.0, 4.0):
        package.rate = rate
        for _ in range(3):
            np.testing.assert_allclose(f(X), np.sum(X) * rate)
    assert not f.stats.live


@pytest.mark.parametrize("way", ["function", "instance", "default"])
def test_how_much_a_package_reaches_counts_nothing(way, package):

    class Model:
        step = staticmethod(package.long0)

    model = Model()
    plain = {
        "function": lambda x: np.sum(package.long0(x)),
        "instance": lambda x: np.sum(model.step(x)),
        "default": lambda x, step=package.long0: np.sum(step(x)),
    }[way]
    f = compile_grad(plain)
    for rate in (2.0, 3.0, 4.0):
        package.rate = rate
        for _ in range(3):
            np.testing.assert_allclose(f(X), np.sum(X) * rate)
    assert not f.stats.live and f.stats.traces == 2  # the rate, once it varies, is a number of the run


def test_functions_with_more_defaults_than_parameters_are_recorded():
    """Decorators of installed packages leave such functions behind."""

    def scaled(x):
        return x * 2.0

    scaled.__defaults__ = (1.0, 2.0, 3.0)
    f = compile_grad(lambda x: np.sum(scaled(x)) if x is not None else 0.0)
    for _ in range(2):
        assert f(np.ones(3)) == 6.0
