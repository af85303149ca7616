"""Make docs/coverage.md from the table of test domains: ``python docs/make_coverage.py``; ``--check`` compares.

A function is differentiable where a row of the table (tests/support/coverage_table) takes a derivative of it, which the
tests compare with differences.  Data only, and no derivative by nature, is what ``no_derivative.py`` there lists.
Everything else is not yet.
"""

from __future__ import annotations

import cmath
import importlib
import math
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import scipy
from numpy.testing import overrides

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "coverage.md"
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from coverage_table import all_cases, named  # noqa: E402
from coverage_table.no_derivative import BY_NATURE, DATA_ONLY  # noqa: E402

STATUSES = ("differentiable", "data only", "no derivative by nature", "not yet")
RELEASES = f"NumPy {'.'.join(np.__version__.split('.')[:2])} and SciPy {'.'.join(scipy.__version__.split('.')[:2])}"

INTRODUCTION = f"""# Coverage

Functions by name, of {RELEASES}. `docs/make_coverage.py` makes this page from the table of test domains
(`tests/support/coverage_table/`), and the tests compare them.

- **Differentiable**: rows of that table call it; value, first and second derivative are compared with NumPy's and
  SciPy's values and with differences. Forms that are not in the table are mostly supported, too.
- **Data only**: it works in recorded code, of plain data or of sizes and types; its result has no derivative.
- **No derivative by nature**: its results are integers, bools, indices, text or steps, or it reads and writes files.
  Those of floats work on traced values.
- **Not yet**: refused on traced values, by name, at your line. The share is that of the differentiable ones among
  these and those.
"""

_METHODS = "pdf logpdf pmf logpmf cdf logcdf sf logsf ppf isf mean var std entropy"  # of scipy.stats
_CONTINUOUS = "norm t gamma beta chi2 expon uniform lognorm laplace logistic cauchy pareto weibull_min"
_DISCRETE = "poisson binom bernoulli"
_SEVERAL = {
    "multinomial": "pmf logpmf",
    "dirichlet": "pdf logpdf mean var entropy",
    "multivariate_normal": "pdf logpdf cdf logcdf entropy",
}
_FFT = (
    "fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn hfft ihfft fftshift ifftshift fftfreq rfftfreq"
)
LATER = {"sumprod", "fma", "fmax", "fmin", "isnormal", "issubnormal", "signbit"}  # in math since Python 3.12
# functions of modules, of which the page lists these and what the table has besides
LISTED = {
    "numpy.fft": _FFT,
    "scipy.fft": f"{_FFT} dct idct dst idst dctn idctn dstn idstn next_fast_len",
    "scipy.signal": "convolve fftconvolve lfilter",
    "scipy.sparse": "csr_array csc_array coo_array bsr_array dia_array csr_matrix csc_matrix coo_matrix linalg.spsolve",
    "scipy.integrate": "odeint solve_ivp quad trapezoid simpson cumulative_trapezoid",
    "scipy.interpolate": "interp1d CubicSpline",
    "scipy.ndimage": "convolve",
    "scipy.optimize": "root_scalar root minimize minimize_scalar least_squares curve_fit fixed_point fsolve brentq",
    "scipy.spatial.distance": (
        "cdist pdist squareform braycurtis canberra chebyshev cityblock correlation cosine euclidean jensenshannon "
        "mahalanobis minkowski seuclidean sqeuclidean"
    ),
}


@dataclass(frozen=True)
class Section:
    """Functions of one *title*, by name; *prefix* is that of their module, which the page leaves out."""

    title: str
    prefix: str
    names: frozenset[str]


def _public(module: ModuleType, names: Iterable[str]) -> set[str]:
    """Full names of the functions among *names* of *module*; those with two names have one."""
    found = [f for name in names if not name.startswith("_") and callable(f := getattr(module, name, None))]
    return {f"{module.__name__}.{f.__name__}" for f in found if not isinstance(f, type)}


def overridable() -> frozenset[str]:
    """NumPy's functions that other libraries may override."""
    functions = (f"{f.__module__}.{f.__name__}" for f in overrides.get_overridable_numpy_array_functions())
    ufuncs = [f.__name__ for f in overrides.get_overridable_numpy_ufuncs()]
    names = {f"numpy.{name}" if hasattr(np, name) else f"numpy.strings.{name}" for name in ufuncs if name[0] != "_"}
    return frozenset(names.union(name for name in functions if "._" not in name))


def sections(rows: Iterable[str]) -> list[Section]:
    """The page's sections; each of the *rows*, names in the table, is in one of them by its prefix."""
    linalg, special = importlib.import_module("scipy.linalg"), importlib.import_module("scipy.special")
    numpys = overridable()
    ufuncs = {name for name in numpys if name.count(".") == 1 and isinstance(named(name), np.ufunc)}
    special_ufuncs = _public(special, [n for n in special.__all__ if isinstance(getattr(special, n), np.ufunc)])
    elsewhere = ("numpy.linalg.", "numpy.fft.", "numpy.lib.recfunctions.", "numpy.strings.", "numpy.char.")
    own = {name for name in numpys - ufuncs if not name.startswith(elsewhere)}
    stats = {f"scipy.stats.{d}.{m}" for d in _CONTINUOUS.split() for m in _METHODS.split() if "pmf" not in m}
    stats |= {f"scipy.stats.{d}.{m}" for d in _DISCRETE.split() for m in _METHODS.split() if "pdf" not in m}
    stats |= {f"scipy.stats.{d}.{m}" for d, methods in _SEVERAL.items() for m in methods.split()}
    listed = {module: {f"{module}.{name}" for name in names.split()} for module, names in LISTED.items()}
    found: list[tuple[str, str, Iterable[str]]] = [
        ("NumPy's functions", "numpy.", own),
        ("NumPy's ufuncs", "numpy.", ufuncs),
        ("numpy.linalg", "numpy.linalg.", [name for name in numpys if name.startswith("numpy.linalg.")]),
        ("numpy.fft", "numpy.fft.", listed["numpy.fft"]),
        ("numpy.polynomial", "numpy.polynomial.", []),
        ("Text and records of NumPy", "numpy.", [name for name in numpys if name.startswith(elsewhere[2:])]),
        ("Methods of arrays", "numpy.ndarray.", _public_methods()),
        ("math", "math.", _public(math, set(dir(math)) - LATER)),
        ("cmath", "cmath.", _public(cmath, dir(cmath))),
        ("scipy.special's functions", "scipy.special.", _public(special, special.__all__) - special_ufuncs),
        ("scipy.special's ufuncs", "scipy.special.", special_ufuncs),
        ("scipy.stats", "scipy.stats.", stats),
        ("scipy.linalg", "scipy.linalg.", _public(linalg, linalg.__all__)),
        *[(m, f"{m}.", names) for m, names in listed.items() if m != "numpy.fft"],
    ]
    members = [set(names) for _, _, names in found]
    for name in set(rows).difference(*members):
        longest = max((p for _, p, _ in found if name.startswith(p)), key=len, default="")
        if longest:
            members[next(k for k, (_, p, _) in enumerate(found) if p == longest)].add(name)
    return [Section(t, p, frozenset(names)) for (t, p, _), names in zip(found, members, strict=True)]


def _public_methods() -> set[str]:
    return {f"numpy.ndarray.{n}" for n in dir(np.ndarray) if not n.startswith("_") and callable(getattr(np.ndarray, n))}


def statuses() -> dict[str, str]:
    """The status of each function that is not "not yet"."""
    orders: defaultdict[str, int] = defaultdict(int)
    for case in all_cases():
        orders[case.name] = max(orders[case.name], case.order)
    found = {name: STATUSES[0] for name, order in orders.items() if order}
    for status, names in zip(STATUSES[1:], (DATA_ONLY, BY_NATURE), strict=False):
        found.update(dict.fromkeys(names, status))
    return found


def _share(counts: dict[str, int]) -> str:
    done, left = counts[STATUSES[0]], counts[STATUSES[3]]
    return f"{100 * done // (done + left)}% ({done} of {done + left})" if done + left else ""


def _counted(names: Iterable[str], known: dict[str, str]) -> dict[str, int]:
    counts = dict.fromkeys(STATUSES, 0)
    for name in names:
        counts[known.get(name, STATUSES[3])] += 1
    return counts


def render() -> str:
    """The page."""
    known = statuses()
    parts = sections(known)
    special = next(s.names for s in parts if s.title == "scipy.special's ufuncs")
    others = [
        name
        for s in parts
        for name in s.names
        if s.title.startswith("scipy.") and s.title not in ("scipy.special's ufuncs", "scipy.linalg")
    ]
    lines = [
        INTRODUCTION,
        f"- NumPy's differentiable overridable functions: {_share(_counted(overridable(), known))}",
        f"- scipy.special's differentiable ufuncs: {_share(_counted(special, known))}",
        f"- SciPy's other functions listed here, without scipy.linalg: {_share(_counted(others, known))}",
        "",
        f"| section | {' | '.join(STATUSES)} | share |",
        "|---|---|---|---|---|---|",
    ]
    for s in parts:
        counts = _counted(s.names, known)
        numbers = " | ".join(str(counts[status] or "") for status in STATUSES)
        lines.append(f"| {s.title} | {numbers} | {_share(counts)} |")
    for s in parts:
        lines += ["", f"## {s.title}"]
        for status in STATUSES:
            names = [name for name in s.names if known.get(name, STATUSES[3]) == status]
            if names:
                shown = _grouped(name.removeprefix(s.prefix) for name in names)
                lines += ["", *textwrap.wrap(f"**{status.capitalize()}**: {shown}", 120, break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


def _grouped(names: Iterable[str]) -> str:
    """*names* in backticks; those of one class or module together."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        head, _, tail = name.rpartition(".")
        groups[head].append(tail)
    plain = [f"`{name}`" for name in groups.pop("", [])]
    return " ".join(plain + [f"`{head}.` ({' '.join(f'`{t}`' for t in tails)})" for head, tails in groups.items()])


def main(arguments: list[str]) -> int:
    page = render()
    if arguments == ["--check"]:
        same = PAGE.exists() and PAGE.read_text() == page
        print(
            "docs/coverage.md is up to date" if same else "docs/coverage.md differs: run python docs/make_coverage.py"
        )
        return 0 if same else 1
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
