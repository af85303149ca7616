"""NumPy on traced arrays. Start reading at ``dispatch.py``, the entries of
the user's operations; each function is in the file for its subject, registered by ``implements`` (``registry.py``).

Importing the package fills the tables (``record/array.py``) in which NumPy's protocols look functions up:

===============  =======================================================================
dispatch.py      entries of the user's operations
protocols.py     NumPy's protocols, ``+ - * @ == +=``
registry.py      registration of the functions of the files below
ufuncs.py        ufuncs; row_ufuncs.py: every elementwise primitive whose implementation is one
reduce.py        sums, extremes, cumulative sums
norms.py         norms
statistics.py    mean, var, std, average, cov; reductions that pass over NaN
shape.py         views: reshape, transpose, split, flip, diagonal
assemble.py      arrays from arrays: concatenate, stack, pad, tile, where
create.py        arrays by rule: zeros_like, linspace, meshgrid, diag, tril
creation.py      arrays made inside recorded code that can be assigned into
made_in_code.py  np.zeros, np.array and others, as recorded code sees them
generators.py    np.random, as recorded code sees it
index.py         reading by an index
assign.py        assignment
index_plan.py    an index taken apart: a view, and flat positions to read or write
bounds.py        indices and masks as positions that are in bounds
sort.py          sorting, searching, taking
selection.py     choose, place, unique, lexsort, unravel_index
ufunc_methods.py np.maximum.accumulate, np.multiply.at, reduceat; np.frompyfunc
product.py       matmul, dot, tensordot, kron, cross
einsum.py        einsum
fourier.py       np.fft
linalg.py        solve, inv, det, slogdet, cholesky, matrix_power, multi_dot
linalg_factors   qr, eigh, eig, svd, pinv, lstsq, cond, matrix_rank
strides.py       sliding windows, as_strided
iterators.py     np.ndenumerate, np.nditer
testing.py       np.testing.assert_allclose and the like
misc.py          differences, interpolation, convolution, comparison of whole arrays, facts
python_builtins  type, hasattr, getattr
python_math      math.sin, math.hypot; python_statistics: statistics.mean
labelled         pandas and xarray (series.py, frame.py)
python_numbers   errors of Python's own floats: 1.0 / a
unsupported.py   hints for unsupported functions
===============  =======================================================================
"""

from . import (  # noqa: F401  (each fills the tables)
    assemble,
    assign,
    create,
    dispatch,
    einsum,
    fourier,
    generators,
    hooks,
    index,
    iterators,
    labelled,
    linalg,
    linalg_factors,
    made_in_code,
    misc,
    norms,
    product,
    protocols,
    python_builtins,
    python_math,
    python_statistics,
    reduce,
    selection,
    shape,
    sort,
    statistics,
    strides,
    testing,
    ufunc_methods,
    ufuncs,
    unsupported,
)

dispatch.install()
made_in_code.show_takers_of_lists()
