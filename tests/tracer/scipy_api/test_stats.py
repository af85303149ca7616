"""scipy.stats on traced values: what lies outside of the support, frozen distributions, distributions of one's own.

Values and derivatives inside of the support: ``tests/support/coverage_table/stats.py``."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient
from coverage_table import Case, check
from scipy import stats

from tracegrad import UnsupportedError, compile_grad

X = np.array([-np.inf, -1.0, 0.0, 0.4, 1.0, 1.7, 40.0, np.inf, np.nan])
Q = np.array([-0.1, 0.0, 0.3, 1.0, 1.1, np.nan])
K = np.array([-np.inf, -1.0, 0.0, 0.5, 1.0, 3.0, 4.0, 60.0, np.inf, np.nan])
OF_X = "pdf logpdf cdf logcdf sf logsf".split()
OF_K = "pmf logpmf cdf logcdf sf logsf".split()
SHAPES = {
    "norm": (), "t": (3.5,), "gamma": (0.8,), "beta": (2.0, 1.0), "chi2": (2.0,), "expon": (), "uniform": (),
    "lognorm": (0.7,), "laplace": (), "logistic": (), "cauchy": (), "pareto": (2.2,), "weibull_min": (1.7,),
}  # fmt: skip


def _agree(call, *args):
    """*call* recorded and not: the same values, NaN and infinities included."""
    check(Case("values", call, args, order=0, rtol=1e-12))


def test_outside_of_the_support_values_are_those_of_scipy():
    def call(x, q, scale):
        found = []
        for name, shapes in SHAPES.items():
            distribution, parameters = getattr(stats, name), (*shapes, 0.0, scale)
            found += [getattr(distribution, method)(x, *parameters) for method in OF_X]
            found += [getattr(distribution, method)(q, *parameters) for method in ("ppf", "isf")]
            found += [distribution.mean(*parameters), *distribution.support(*parameters)]
        return found

    for scale in (1.3, -1.0, np.nan):
        _agree(call, X, Q, scale)


def test_discrete_values_outside_of_the_support_are_those_of_scipy():
    """At infinities, NaN and between the integers, and with p and n that are none."""

    def call(k, p):
        found = []
        for method in OF_K:
            found += [getattr(stats.binom, method)(k, n, p, 1) for n in (4, -1)]
            found += [getattr(stats.bernoulli, method)(k, p), getattr(stats.nbinom, method)(k, 3, p)]
        return [*found, stats.poisson.pmf(k, p), stats.poisson.logpmf(k, p), stats.poisson(p).logpmf([0, 1, 7])]

    for p in (0.3, 1.0, 1.5, np.nan):
        _agree(call, K, p)


def test_derivatives_by_shapes_that_scipy_has_no_function_for_are_refused_where_they_are_asked_for():
    f = compile_grad(lambda x, a: stats.gamma.cdf(x, a))
    assert f.value_and_grad(1.3, 2.0)[1] == pytest.approx(stats.gamma.pdf(1.3, 2.0))
    with pytest.raises(UnsupportedError, match=r"derivative with respect to its argument a(.|\n)*test_stats.py"):
        compile_grad(lambda a, x: stats.gamma.cdf(x, a)).grad(2.0, 1.3)


def test_wrong_parameters_give_nan_for_those_elements_alone():
    scales = np.array([1.0, 0.0, -2.0, np.nan])
    call = lambda s, c: [stats.weibull_min.logpdf(0.7, c, scale=s), stats.pareto(c, scale=s).sf([[0.7], [3.0]])]  # noqa: E731
    _agree(call, scales, np.array([1.5, 1.5, 1.5, 1.5]))
    _agree(call, np.ones(3), np.array([1.5, -1.0, np.nan]))


def test_gradients_are_exactly_zero_outside_of_the_support():
    def total(x, scale):
        inside = stats.expon.pdf(x, 0.0, scale) + stats.weibull_min.pdf(x, 0.5, scale=scale)
        logs = stats.pareto.logpdf(x, 2.0, scale=scale)
        return np.sum(inside) + np.sum(np.where(np.isfinite(logs), logs, 0.0))

    f, x = compile_grad(total, argnums=(0, 1)), np.array([-3.0, -0.2, 0.4, 2.5])
    value, gradients = f.value_and_grad(x, 1.3)
    assert np.array_equal(gradients[0][:2], [0.0, 0.0])
    assert np.isfinite(value) and np.isfinite(gradients[1])
    np.testing.assert_allclose(gradients[0][2:], numerical_gradient(lambda y: total(y, 1.3), (x,))[2:], rtol=1e-6)


def test_frozen_distributions_are_read_again_where_they_have_changed():
    prior, held = stats.norm(0.5, 2.0), {"noise": stats.laplace(scale=0.7)}
    f = compile_grad(lambda a: prior.logpdf(a) + held["noise"].logpdf(2 * a))
    plain = lambda a: prior.logpdf(a) + held["noise"].logpdf(2 * a)  # noqa: E731

    def same():
        for _ in range(3):
            value, gradient = f.value_and_grad(1.3)
            assert value == pytest.approx(plain(1.3)) and gradient == pytest.approx(numerical_gradient(plain, (1.3,)))

    same()
    assert "Python runs in every call" not in f.explain(1.3, level="all")
    mean = np.array(0.2)
    prior.args = (mean,)
    same()
    mean[...] = 3.0
    same()
    held["noise"].kwds["scale"] = 5.0
    same()
    prior.dist = stats.logistic
    same()
    held["noise"] = stats.cauchy(1.0)
    same()


def test_what_draws_samples_runs_python():
    prior = stats.norm(0.5, 2.0)
    f = compile_grad(lambda a: prior.logpdf(a) + a * prior.rvs())
    assert len({float(f(1.0)) for _ in range(4)}) == 4


class _Steep(stats.rv_continuous):
    """A distribution of the user's own, with an attribute that its formula reads."""

    rate = 2.0

    def _pdf(self, x, a):
        return self.rate * a * np.exp(-a * self.rate * x)


def test_distributions_of_ones_own_are_recorded():
    steep = _Steep(a=0.0, name="steep")
    f, x = compile_grad(lambda a: np.sum(steep.logpdf(x, a))), np.array([0.3, 1.2])
    for rate in (2.0, 2.0, 3.0, 3.0):
        steep.rate = rate
        value, gradient = f.value_and_grad(1.3)
        assert value == pytest.approx(np.sum(steep.logpdf(x, 1.3)))
        assert gradient == pytest.approx(2 / 1.3 - rate * x.sum())
    assert "Python runs in every call" not in f.explain(1.3, level="all")


def test_covariances_are_refused_as_scipy_refuses_them():
    f = compile_grad(lambda c: stats.multivariate_normal.logpdf(np.zeros(2), cov=c))
    assert f(np.eye(2)) == pytest.approx(-np.log(2 * np.pi))
    for c in (np.ones((2, 2)), np.array([[1.0, 1.0], [1.0, 1.0 + 1e-11]])):  # that has a Cholesky factor
        with pytest.raises(np.linalg.LinAlgError, match="must be symmetric positive definite"):
            f(c)
    for c in (np.diag([1.0, -1.0]), np.diag([1.0, np.nan])):
        with pytest.raises(ValueError, match=r"positive semidefinite|infs or NaNs"):
            f(c)
    with pytest.raises(ValueError, match="greater than 0"):
        compile_grad(lambda a: stats.dirichlet.entropy(a))(np.array([1.0, -1.0]))


@pytest.mark.slow
def test_singular_covariances_have_a_density_on_their_support():
    def total(t):
        points = np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 2.0]]) * t
        return stats.multivariate_normal.logpdf(points, cov=t * np.ones((2, 2)), allow_singular=True)

    _agree(total, 1.3)
    value, gradient = compile_grad(lambda t: np.sum(total(t)[:2])).value_and_grad(1.3)
    assert value == pytest.approx(np.sum(total(1.3)[:2]))
    assert gradient == pytest.approx(numerical_gradient(lambda t: np.sum(total(t)[:2]), (1.3,)))


def test_frozen_multivariate_distributions_are_read_again_where_they_have_changed():
    normal = stats.multivariate_normal(np.array([0.1, 0.2]), np.array([[2.0, 0.3], [0.3, 1.0]]))
    plain = lambda a: normal.logpdf(a * np.array([1.0, -0.5]))  # noqa: E731
    f = compile_grad(plain)

    def same():
        for _ in range(2):
            value, gradient = f.value_and_grad(1.1)
            assert value == pytest.approx(plain(1.1)) and gradient == pytest.approx(numerical_gradient(plain, (1.1,)))

    same()
    normal.mean[0] = 4.0
    same()
    normal.cov_object = stats.Covariance.from_diagonal([1.0, 9.0])
    same()
    assert "Python runs in every call" not in f.explain(1.1, level="all")


REFUSED = {
    r"scipy\.stats\.norm\(mu, sigma\)": lambda x: np.sum(stats.Normal(mu=0.3, sigma=1.2).logpdf(x)),
    "nan_policy='omit'": lambda x: stats.skew(x, nan_policy="omit"),
    "without lmbda is a search": lambda x: np.sum(stats.boxcox(x)[0]),
    "an integral that SciPy estimates": lambda x: stats.multivariate_normal.cdf(x, np.zeros(3)),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refusals_teach(words):
    with pytest.raises(UnsupportedError, match=rf"{words}(.|\n)*test_stats.py"):
        compile_grad(REFUSED[words])(np.array([0.3, 1.2, 2.0]))
