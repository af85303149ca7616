"""The primitives: one row is one operation, with its NumPy implementation, shape rule, derivative, scalar lowering and
test domain. ``elementwise.py`` is the first file to read, and where an elementwise operation is added; the columns of
a row are explained in ``../ir/primitive.py``. The other tables are by kind: ``shape.py`` (views and assemblies),
``reduce.py``, ``product.py``, ``linalg.py`` (LAPACK), ``indexing.py``, ``threefry.py`` (random bits), ``control.py``
(the loop node), ``custom.py`` (user-defined derivatives), ``host_call.py`` (functions of Python's on arrays).
``complex.py`` takes operations on complex values apart (``complex_formulas.py``).
``closure_conversion.py`` and ``loop_pruning.py`` rewrite the bodies of loops.

Importing the package fills the registry, but for functions of scipy.special: their tables need it, and importing it
takes longer than all else, so they come when something asks for one (``special_tables.py``).
"""

from . import (  # noqa: F401
    complex,
    control,
    custom,
    elementwise,
    filters,
    fourier,
    host_call,
    indexing,
    linalg,
    linalg_banded,
    linalg_cholesky,
    linalg_complex,
    linalg_det_complex,
    linalg_eig,
    linalg_eig_complex,
    linalg_eigen,
    linalg_functions,
    linalg_lu,
    linalg_numbers,
    linalg_phases,
    linalg_pinv,
    linalg_qr,
    linalg_svd,
    linalg_unused,
    product,
    reduce,
    shape,
    threefry,
)
