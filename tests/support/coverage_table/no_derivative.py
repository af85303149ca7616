"""Functions without a derivative, by name: those whose results are data, and those that have none by nature.

Where one can be called with numbers, it has a row of order 0, here or in the file for its subject.
"""

from __future__ import annotations

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.special
import scipy.stats
from numpy.lib import recfunctions

from .case import Case

X = np.array(0.7)
RECORDS = np.array([(1.0, 2.0), (3.0, 4.0)], dtype=[("a", float), ("b", float)])


def _named(**names: str) -> frozenset[str]:
    """Full names; the keywords are modules, with two underscores for a point."""
    return frozenset(f"{m.replace('__', '.')}.{name}" for m, listed in names.items() for name in listed.split())


_RECORDS = (
    "append_fields apply_along_fields assign_fields_by_name drop_fields find_duplicates join_by merge_arrays "
    "rec_append_fields rec_drop_fields rec_join recursive_fill_fields rename_fields repack_fields require_fields "
    "stack_arrays unstructured_to_structured"
)
_OF_ONE = (  # functions of scipy.special of one integer
    "ai_zeros bei_zeros beip_zeros ber_zeros berp_zeros bi_zeros erf_zeros fresnel_zeros fresnelc_zeros fresnels_zeros "
    "jnjnp_zeros kei_zeros keip_zeros kelvin_zeros ker_zeros kerp_zeros y0_zeros y1_zeros y1p_zeros bernoulli euler "
    "factorial2 legendre chebyt chebyu chebyc chebys laguerre hermite hermitenorm sh_legendre sh_chebyt sh_chebyu "
    "roots_legendre roots_chebyt roots_chebyu roots_chebyc roots_chebys roots_laguerre roots_hermite roots_hermitenorm "
    "roots_sh_legendre roots_sh_chebyt roots_sh_chebyu"
)
_OF_TWO = "jn_zeros jnp_zeros yn_zeros ynp_zeros jnyn_zeros factorialk stirling2"
_MATRICES = "dft hadamard helmert hilbert invhilbert invpascal pascal"
# the result depends on no number, or on plain data only
DATA_ONLY = _named(
    numpy="zeros ones empty eye identity tri zeros_like ones_like empty_like ix_",
    numpy__fft="fftfreq rfftfreq",
    numpy__lib__recfunctions=f"{_RECORDS} structured_to_unstructured",
    scipy__fft="fftfreq rfftfreq next_fast_len prev_fast_len",
    scipy__linalg=_MATRICES,
    scipy__special=f"{_OF_ONE} {_OF_TWO} geterr seterr",
)

_FILES = "save savetxt savez savez_compressed loadtxt genfromtxt fromfile frombuffer fromstring"
_DATES = "isnat busday_count busday_offset is_busday datetime_as_string"
_TEXT = (
    "add capitalize center count decode encode endswith expandtabs find index isalnum isalpha isdecimal isdigit "
    "islower isnumeric isspace istitle isupper ljust lower lstrip mod multiply partition replace rfind rindex rjust "
    "rpartition rstrip startswith str_len strip swapcase title translate upper zfill"
)
UNCALLED = _named(  # with numbers
    numpy=f"{_FILES} {_DATES}",
    numpy__lib__recfunctions=_RECORDS,
    scipy__special="geterr seterr",
    numpy__strings=_TEXT,
    numpy__char="equal not_equal greater greater_equal less less_equal",
    numpy__ndarray="dump dumps tobytes tofile to_device setflags",
    scipy__linalg="find_best_blas_type get_blas_funcs get_lapack_funcs",
)
BY_NATURE = (UNCALLED - DATA_ONLY) | _named(
    numpy=(
        "floor ceil rint trunc fix round around sign signbit heaviside floor_divide spacing isfinite isinf isnan "
        "isposinf isneginf logical_and logical_or logical_xor logical_not equal not_equal less less_equal greater "
        "greater_equal bitwise_and bitwise_or bitwise_xor bitwise_count invert left_shift right_shift gcd lcm all "
        "any allclose isclose array_equal array_equiv isin iscomplex isreal iscomplexobj isrealobj argmax argmin "
        "nanargmax nanargmin argsort argpartition argwhere nonzero flatnonzero count_nonzero lexsort searchsorted "
        "digitize unravel_index ravel_multi_index diag_indices_from tril_indices_from triu_indices_from ndim shape "
        "size result_type common_type can_cast min_scalar_type may_share_memory shares_memory array_repr array_str "
        "array2string packbits unpackbits einsum_path"
    ),
    numpy__linalg="matrix_rank",
    numpy__ndarray="all any argmax argmin argpartition argsort nonzero searchsorted round",
    math="isnan isinf isfinite isclose floor ceil trunc factorial comb perm gcd lcm isqrt ulp",
    cmath="isnan isinf isfinite isclose",
    scipy__linalg="bandwidth ishermitian issymmetric",
    scipy__special="gammasgn round",
    scipy__stats=(  # steps, integers, and what is no number
        "bernoulli.ppf bernoulli.isf bernoulli.support binom.ppf binom.isf binom.support nbinom.support poisson.ppf "
        "poisson.isf poisson.support cauchy.mean cauchy.std cauchy.var"
    ),
)


def _used(names: str, arguments: str) -> list[Case]:
    """The sizes of the results that functions give for plain *arguments*, in recorded code."""
    calls = {name: f"np.size({name}({arguments}))" for name in names.split()}
    space = {"np": np, "numpy": np, "scipy": scipy}
    return [Case(name, eval(f"lambda x: x * {call}", space), [X], 0) for name, call in calls.items()]


def _of(module: str, names: str) -> str:
    return " ".join([f"{module}.{name}" for name in names.split()])


CASES = [
    *_used("numpy.fft.fftfreq numpy.fft.rfftfreq scipy.fft.fftfreq scipy.fft.rfftfreq", "4"),
    *_used(f"{_of('scipy.linalg', _MATRICES)} {_of('scipy.special', _OF_ONE)}", "2"),
    *_used(_of("scipy.special", _OF_TWO), "3, 2"),
    *_used("scipy.stats.bernoulli.ppf scipy.stats.bernoulli.isf", "[0.3], 0.4"),
    *_used("scipy.stats.poisson.ppf scipy.stats.poisson.isf", "[0.3], 2.4"),
    *_used("scipy.stats.binom.ppf scipy.stats.binom.isf", "[0.3], 5, 0.4"),
    *_used("scipy.stats.cauchy.mean scipy.stats.cauchy.std scipy.stats.cauchy.var", ""),
    Case("numpy.ix_", lambda x: x * np.ix_([1, 2])[0], [X], 0),
    Case(
        "numpy.lib.recfunctions.structured_to_unstructured",
        lambda x: x * recfunctions.structured_to_unstructured(RECORDS),
        [X],
        0,
    ),
    *[Case(f"numpy.{f.__name__}", lambda x, f=f: x * f([4, 6], 8), [X], 0) for f in (np.gcd, np.lcm)],
    Case("numpy.bitwise_count", lambda x: x * np.bitwise_count([4, 7]), [X], 0),
    Case("numpy.packbits", lambda x: x * np.packbits([1, 0, 1]), [X], 0),
    Case("numpy.unpackbits", lambda x: x * np.unpackbits(np.array([5], np.uint8)), [X], 0),
    Case("scipy.fft.next_fast_len", lambda x: x * scipy.fft.next_fast_len(7), [X], 0),
    Case("scipy.fft.prev_fast_len", lambda x: x * scipy.fft.prev_fast_len(7), [X], 0),
    Case("scipy.linalg.bandwidth", lambda x: x * scipy.linalg.bandwidth(np.eye(2))[0], [X], 0),
    Case("scipy.linalg.ishermitian", lambda x: x * scipy.linalg.ishermitian(np.eye(2)), [X], 0),
    Case("scipy.linalg.issymmetric", lambda x: x * scipy.linalg.issymmetric(np.eye(2)), [X], 0),
    Case("scipy.special.gammasgn", lambda x: x * scipy.special.gammasgn([-0.5, 2.0]), [X], 0),
    Case("scipy.special.round", lambda x: x * scipy.special.round([-0.7, 2.0]), [X], 0),
]
