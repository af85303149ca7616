"""Functions of functions: gradients, Jacobians, batches.

``transform.py`` is the first file to read: a transform is a rewriting of what a function has recorded.  The rules are
in ``gradient.py`` (``grad``), ``forward.py`` and ``reverse.py`` (``jvp``, ``vjp`` and their like).  ``values.py`` has
trees of tangents and cotangents, ``linear_map.py`` the linear functions that ``vjp`` and ``linearize`` return.
"""

from .forward import derivative, jvp, linearize, make_jvp
from .gradient import Derivative, grad, value_and_grad
from .jacobians import hessian, hvp, jacfwd, jacobian, jacrev, vhp
from .reverse import elementwise_grad, make_vjp, vjp
from .sparse import sparse_hessian, sparse_jacobian
from .transform import Transform
from .vectorize import vectorize
from .vmap import vmap

__all__ = [
    "Derivative", "Transform", "derivative", "elementwise_grad", "grad", "hessian", "hvp", "jacfwd", "jacobian",
    "jacrev", "jvp", "linearize", "make_jvp", "make_vjp", "sparse_hessian", "sparse_jacobian", "value_and_grad",
    "vectorize", "vhp", "vjp", "vmap",
]  # fmt: skip
