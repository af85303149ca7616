"""Functions of NumPy code as functions of other libraries, which differentiate them by our gradients.

``flat.py`` is the first file to read: the form of a function that both sides share.  Neither PyTorch nor JAX is
imported before it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["as_jax_callable", "as_torch_function"]


def as_torch_function(f: Callable[..., Any]) -> Callable[..., Any]:
    """*f* as a function of PyTorch's tensors on the CPU, a node of PyTorch's graph.

    Tensors share their memory with the arrays that *f* gets and returns.  Gradients are those of tracegrad, of any
    order (``create_graph=True``), for all float tensors among the arguments that require one.

    :param f: a function of NumPy code, compiled or plain.  Its arguments and results are trees (dicts, lists, tuples)
        of float32 or float64 tensors, tensors of other dtypes, and any other objects.
    :raises TypeError: in a call, for a tensor that NumPy has no array for (on another device, sparse, bfloat16).
    """
    return importlib.import_module(".torch_function", __package__).as_torch_function(f)


def as_jax_callable(f: Callable[..., Any]) -> Callable[..., Any]:
    """*f* as a function of JAX's arrays, also under ``jit``, ``grad`` and ``vmap``: a ``pure_callback`` with a
    ``custom_vjp``.

    Gradients are those of tracegrad, of any order in reverse mode.  JAX decides the dtypes: without ``jax_enable_x64``
    arrays are float32, and results are rounded to it.  ``vmap`` calls *f* once for each element.

    :param f: a function of NumPy code, compiled or plain, that is pure.  Its arguments and results are trees (dicts,
        lists, tuples) of arrays; arguments may be other objects, too, which JAX then takes as constants.
    """
    return importlib.import_module(".jax_callable", __package__).as_jax_callable(f)
