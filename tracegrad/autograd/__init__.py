"""Gradients of functions (``grad(f)``, ``jacobian(f)``, ``vmap(f)``: ``runtime/transforms``) and of tensors
(``backward``, ``grad(outputs, inputs)``), and PyTorch's other functions of ``autograd``. ``function.py`` is the first
file to read: operations with a backward of the user's, with ``function_context.py`` (their ``ctx``) and
``function_traced.py`` (the same in recorded NumPy code). ``functional.py`` has Jacobians and Hessians of functions of
tensors, ``gradcheck.py`` finite differences.
"""

from typing import TYPE_CHECKING

from ..faces import face
from ..runtime.transforms.gradient import value_and_grad
from .derivatives import grad

if TYPE_CHECKING:
    from ..runtime.transforms.forward import derivative, jvp, linearize, make_jvp
    from ..runtime.transforms.jacobians import hessian, hvp, jacfwd, jacobian, jacrev, vhp
    from ..runtime.transforms.reverse import elementwise_grad, make_vjp, vjp
    from ..runtime.transforms.sparse import sparse_hessian, sparse_jacobian
    from ..runtime.transforms.vmap import vmap
    from ..tensors.backward import backward
    from ..tensors.compiled_backward import tapes
    from ..tensors.modes import (
        detect_anomaly,
        enable_grad,
        inference_mode,
        no_grad,
        set_detect_anomaly,
        set_grad_enabled,
    )
    from ..tensors.tensor import Tensor as Variable
    from ..tracer import rules as _rules
    from ..tracer.numpy_api.creation import stop_gradient
    from ..tracer.rules import *
    from ..tracer.rules import primitives as _primitives
    from ..tracer.rules.primitives import *
    from . import function, functional
    from .function import Function
    from .gradcheck import GradcheckError, gradcheck, gradgradcheck

    __all__ = [
        "Function", "GradcheckError", "Variable", "backward", "derivative", "detect_anomaly", "elementwise_grad",
        "enable_grad", "function", "functional", "grad", "gradcheck", "gradgradcheck", "hessian", "hvp",
        "inference_mode", "jacfwd", "jacobian", "jacrev", "jvp", "linearize", "make_jvp", "make_vjp", "no_grad",
        "set_detect_anomaly", "set_grad_enabled", "sparse_hessian", "sparse_jacobian", "stop_gradient", "tapes",
        "value_and_grad", "vhp", "vjp", "vmap",
    ]  # fmt: skip
    __all__ += _primitives.__all__
    __all__ += _rules.__all__
    __all__.sort()
else:
    __getattr__, __dir__ = face(__name__)
