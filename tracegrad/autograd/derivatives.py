"""``grad``: of functions, as in JAX and HIPS autograd, and of tensors, as in PyTorch."""

from __future__ import annotations

from typing import Any

from ..runtime.transforms import grad as function_grad
from ..tensors.backward import grad as tensor_grad
from ..tensors.tensor import Tensor


def grad(fn: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The gradient of a function, or of tensors.

    ``grad(fn, argnums=0, has_aux=False, holomorphic=False)`` is the gradient of *fn*, which returns a real scalar, as a
    function; with *holomorphic* the derivative of one of complex numbers.  *fn* may be decorated with ``compile_grad``
    or not; a decorated one shares its kernels.

    ``grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=False)`` gives the
    gradients of the tensors *outputs* with respect to the tensors *inputs*, as a tuple, as in PyTorch.
    """
    if fn is None and "outputs" in kwargs:
        return tensor_grad(*args, **kwargs)
    if fn is None:
        raise TypeError("grad() missing 1 required positional argument: 'fn' or 'outputs'")
    if callable(fn) and not isinstance(fn, Tensor):
        return function_grad(fn, *args, **kwargs)
    return tensor_grad(fn, *args, **kwargs)
