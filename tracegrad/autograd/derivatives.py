"""``grad``: of functions, as in JAX and HIPS autograd, and of tensors, as in PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, overload

from ..runtime.declare import refuse_arguments
from ..runtime.tensor_library import TENSORS
from ..runtime.transforms.gradient import Derivative
from ..runtime.transforms.gradient import grad as function_grad
from ..runtime.wrapper import P
from ..tracer.ir.tracebacks import for_users

_ARGUMENTS = frozenset(("argnums", "has_aux", "holomorphic"))
_OF_A_VALUE = (
    "grad(fn) takes a function and gives its gradient as a function, but got {}: write grad(f)(x), not grad(f(x))"
)


@overload
def grad(
    fn: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Derivative[P, Any]: ...


@overload
def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]: ...  # fmt: skip


def grad(fn: Any = None, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]  # outputs are among kwargs, too
    """The gradient of a function, or of tensors.

    ``grad(fn, argnums=0, has_aux=False, holomorphic=False)`` is the gradient of *fn*, which returns a real scalar, as a
    function; with *holomorphic* the derivative of one of complex numbers.  *fn* may be decorated with ``compile_grad``
    or not; a decorated one shares its kernels.

    ``grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=False)`` gives the
    gradients of the tensors *outputs* with respect to the tensors *inputs*, as a tuple, as in PyTorch.
    """
    with for_users:
        if callable(fn) and not isinstance(fn, TENSORS.types):
            if kwargs and not kwargs.keys() <= _ARGUMENTS:
                refuse_arguments("grad", {name: x for name, x in kwargs.items() if name not in _ARGUMENTS}, fn)
            return function_grad(fn, *args, **kwargs)
        if fn is not None:
            args = fn, *args
        elif "outputs" not in kwargs:
            raise TypeError("grad() missing 1 required positional argument: 'fn' or 'outputs'")
        if not (isinstance(fn, TENSORS.types) or len(args) > 1 or "inputs" in kwargs):
            raise TypeError(_OF_A_VALUE.format(type(fn).__name__))
        return importlib.import_module("..tensors.backward", __package__).grad(*args, **kwargs)
