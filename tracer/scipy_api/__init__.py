"""SciPy on traced arrays, one file for each subject. Start reading at ``special.py``.

SciPy's functions are plain Python, which no protocol of NumPy's sees: calls of theirs are hooked
(``numpy_api/hooks.py``).  Its files are imported by the first recording after the module has been.

==================  =====================================================================
special.py          functions of scipy.special that are no ufuncs: logsumexp, softmax
special_harmonics   its Legendre functions and spherical harmonics
linalg.py           scipy.linalg: decompositions, Sylvester's equation
linalg_functions    its functions of matrices
linalg_spaces       its pseudo-inverses and spaces of columns
linalg_matrices     its matrices of a structure
linalg_banded       its banded matrices
linalg_schur        its Schur form
linalg_solvers.py   its equations and factors: solve, lu, cho_factor
fft.py              scipy.fft and scipy.fftpack
reads.py             what a call of SciPy may read
ode_steps.py         initial value problems: adaptive steps as one loop
ode_runge_kutta.py   their explicit methods
ode_events.py        their events
ode_result.py        what solve_ivp gives
integrate.py         scipy.integrate: solve_ivp, odeint
quadrature.py        its integrals of functions: quad, dblquad
namespace.py        NumPy, as its Python calls it
signal.py           scipy.signal, through its source
spatial.py          scipy.spatial: distances
optimize.py         scipy.optimize: a table of solvers; ``optimize_calls.py`` is the way of a call
implicit.py         the derivative of a solution
sparse.py           products with sparse matrices
sparse_structure.py matrices with traced entries
sparse_solvers.py   equations with sparse matrices
interpolate.py      scipy.interpolate: piecewise polynomials
interpolate_splines its splines of B-splines, grids, radial functions
ndimage.py          scipy.ndimage: filters, images at coordinates
stats_distributions methods that the distributions of scipy.stats share
stats_formulas.py   formulas of theirs that are not recorded as SciPy writes them
stats_multivariate  its distributions of vectors and matrices
stats_summaries.py  its functions of samples: moments, correlations, densities
==================  =====================================================================
"""

from importlib import import_module
from types import ModuleType

from ..numpy_api.hooks import when_loaded
from . import namespace  # noqa: F401  (fills the tables)

_FILES = {
    "fft": "fft", "integrate": "integrate quadrature", "interpolate": "interpolate interpolate_splines",
    "linalg": "linalg linalg_banded linalg_functions linalg_matrices linalg_schur linalg_solvers linalg_spaces",
    "ndimage": "ndimage", "optimize": "optimize", "signal": "signal",
    "sparse": "sparse sparse_solvers sparse_structure", "spatial": "spatial", "special": "special special_harmonics",
    "stats": "stats_distributions stats_formulas stats_multivariate stats_summaries",
}  # fmt: skip


def _fill(library: ModuleType) -> None:
    for name in _FILES[library.__name__.removeprefix("scipy.")].split():
        import_module(f".{name}", __name__)


for _name in _FILES:
    when_loaded(f"scipy.{_name}")(_fill)
