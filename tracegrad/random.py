"""Random numbers as functions of explicit keys: the same in plain NumPy code and inside compiled functions."""

from .tracer.random import bits, fold_in, key, split
from .tracer.random_distributions import (
    bernoulli,
    choice,
    exponential,
    normal,
    permutation,
    randint,
    truncated_normal,
    uniform,
)

__all__ = [
    "bernoulli",
    "bits",
    "choice",
    "exponential",
    "fold_in",
    "key",
    "normal",
    "permutation",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]
