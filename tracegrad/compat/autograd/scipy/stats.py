"""SciPy's own ``scipy.stats``.  Its distributions can be imported as modules, too, as HIPS autograd has them."""

import sys

import scipy.stats

for _name in ("beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"):
    sys.modules[f"{__name__}.{_name}"] = getattr(scipy.stats, _name)
sys.modules[__name__] = scipy.stats
