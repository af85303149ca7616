"""``logsumexp``, where old versions of SciPy had it."""

from scipy.special import logsumexp

__all__ = ["logsumexp"]
