"""Bayesian survival analysis of a trial: Weibull times, some of them censored, counts of visits, and a biomarker with
outliers; scipy.stats for every distribution, priors frozen once, likelihoods where their parameters are known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import stats
from scipy.special import logsumexp


@dataclass
class Patients:
    """Patients of a trial: *x* (patients, covariates), *site* of each, *time* of the event or, where there is none, of
    the last visit, *visits* and a *marker* measured twice."""

    x: np.ndarray
    site: np.ndarray
    time: np.ndarray
    event: np.ndarray
    visits: np.ndarray
    marker: np.ndarray

    def sites(self):
        return [np.flatnonzero(self.site == s) for s in range(self.site.max() + 1)]


def trial(patients=40, sites=3, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(patients, 2))
    site = rng.integers(sites, size=patients)
    scale = np.exp(1.0 + x @ np.array([0.5, -0.3]) + 0.2 * (site - 1))
    time = stats.weibull_min(1.4, scale=scale).rvs(random_state=rng)
    censored = np.minimum(time, rng.uniform(1.0, 8.0, patients))
    marker = np.where(rng.uniform(size=(patients, 2)) < 0.1, 5.0, 0.5) * rng.normal(size=(patients, 2)) + x[:, :1]
    return Patients(x, site, censored, time <= censored, rng.poisson(2.0 * censored), marker)


@dataclass
class Model:
    """log p(theta | data); theta: coefficients, offsets of sites, log shape, log rate, log noise, logit of outliers."""

    data: Patients
    coefficients: object = field(default_factory=lambda: stats.norm(0.0, 2.5))
    shape: object = field(default_factory=lambda: stats.gamma(2.0, scale=1.0))
    noise: object = field(default_factory=lambda: stats.lognorm(0.7, scale=0.5))
    outliers: object = field(default_factory=lambda: stats.beta(1.0, 9.0))

    def unpack(self, theta):
        sites = len(self.data.sites())
        beta, offsets, (log_shape, log_rate, log_noise, logit) = np.split(theta, [2, 2 + sites])
        return beta, offsets, np.exp(log_shape), np.exp(log_rate), np.exp(log_noise), stats.logistic.cdf(logit)

    def log_prior(self, beta, offsets, shape, rate, noise, share):
        spread = np.std(offsets, ddof=1)
        total = self.coefficients.logpdf(beta).sum() + self.shape.logpdf(shape) + self.outliers.logpdf(share)
        return total + self.noise.logpdf(noise) + stats.halfnorm.logpdf(spread, scale=0.5) + stats.expon.logpdf(rate)

    def log_survival(self, beta, offsets, shape):
        d, total = self.data, 0.0
        for offset, rows in zip(offsets, d.sites()):
            times = stats.weibull_min(shape, scale=np.exp(1.0 + d.x[rows] @ beta + offset))
            seen = d.event[rows]
            total += np.sum(np.where(seen, times.logpdf(d.time[rows]), times.logsf(d.time[rows])))
        return total

    def log_marker(self, noise, share):
        residuals = self.data.marker - self.data.x[:, :1]
        usual, outlier = stats.norm(scale=noise), stats.cauchy(scale=5.0 * noise)
        parts = [np.log1p(-share) + usual.logpdf(residuals), np.log(share) + outlier.logpdf(residuals)]
        return logsumexp(parts, axis=0).sum()

    def log_posterior(self, theta):
        beta, offsets, shape, rate, noise, share = self.unpack(theta)
        prior = self.log_prior(beta, offsets, shape, rate, noise, share)
        visits = stats.poisson(rate * self.data.time).logpmf(self.data.visits).sum()
        return prior + visits + self.log_survival(beta, offsets, shape) + self.log_marker(noise, share)


def median_survival(theta, model, x):
    """Median time of patients with the covariates *x*, and the share of them that live longer than five years."""
    beta, offsets, shape, *_ = model.unpack(theta)
    times = stats.weibull_min(shape, scale=np.exp(1.0 + x @ beta + offsets.mean()))
    return np.sum(times.median()) + np.mean(times.sf(5.0))
