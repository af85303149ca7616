"""Random numbers as functions of keys, given or taken from a default stream: the same in plain NumPy code and inside
compiled functions."""

from .tracer.random.keys import fold_in, key
from .tracer.random.stream import (
    bernoulli,
    bits,
    choice,
    exponential,
    next_key,
    normal,
    permutation,
    randint,
    seed,
    split,
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
    "next_key",
    "normal",
    "permutation",
    "randint",
    "seed",
    "split",
    "truncated_normal",
    "uniform",
]
