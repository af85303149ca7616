"""``as_jax_callable``: a function of NumPy code as one of JAX's arrays, by ``pure_callback`` and ``custom_vjp``.

Where JAX traces, it is told shapes and dtypes of the results before anything is computed (``eval_shape``); in each run
of the callback they are compared with what the function returned.  Where it has arrays at hand, outside of its
transformations or in the passes of a gradient, the function is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..runtime.inspection import eval_shape
from ..tracer.ir.errors import ShapeError, UnsupportedError
from ..tracer.ir.shape_struct import ShapeDtypeStruct
from ..tracer.ir.trees import tree_flatten
from .flat import FlatCall, Flattened, pulled, put_together, taken_apart


def as_jax_callable(f: Callable[..., Any]) -> Callable[..., Any]:
    """See :func:`tracegrad.interop.as_jax_callable`."""
    flattened = Flattened(f)
    pulls: dict[Any, Callable[..., Any]] = {}

    @functools.wraps(f, updated=())
    def function(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree_flatten((args, kwargs))
        call = taken_apart(leaves, structure, [_is_array(x) and _kind(x) == "f" for x in leaves])
        form = flattened.form(call)
        rest: list[Any] = []  # what the function returned, once it is known: structs and arrays stand for arrays

        @jax.custom_vjp
        def node(moved: Any, inputs: Any) -> Any:
            if not any(isinstance(x, jax.core.Tracer) for x in (*moved, *inputs)):  # outside of jit and vmap
                floats, found = form(_on_host(moved), _with_inputs(call, _on_host(inputs)))
                rest[:] = [found]
                others = [x for x in tree_flatten(found)[0] if _is_result(x)]
                return tuple(map(_in_jax, floats)), tuple(map(_in_jax, others))
            floats, of_first = _shown(form, call)
            rest[:] = [of_first]
            shapes, of_rest = tree_flatten(of_first)
            results = _declared(floats), _declared([x for x in shapes if _is_result(x)])

            def host(moved: Any, inputs: Any) -> Any:
                floats, found = form(_on_host(moved), _with_inputs(call, _on_host(inputs)))
                leaves, structure = tree_flatten(found)
                if structure != of_rest or not all(map(_is_like, leaves, shapes)):
                    raise UnsupportedError.here(_OTHER.format(f"returned {found}", of_first))
                others = [x for x, s in zip(leaves, shapes, strict=True) if _is_result(s)]
                return _as_declared(floats, results[0]), _as_declared(others, results[1])

            return jax.pure_callback(host, results, moved, inputs, vmap_method="sequential")

        def pull(kept: Any, cotangents: Any) -> Any:
            key = call.structure, call.which
            if key not in pulls:
                pulls[key] = as_jax_callable(pulled(f, call))
            return pulls[key](kept[0], _with_inputs(call, kept[1]), cotangents[0]), None

        node.defvjp(lambda moved, inputs: (node(moved, inputs), (moved, inputs)), pull)
        floats, others = node(call.moved, tuple([x for x in call.fixed if _is_array(x)]))
        remaining = iter(others)
        return put_together(floats, rest[0], lambda x: next(remaining) if _is_result(x) else x)

    return function


_OTHER = (
    "a function in JAX {}, and JAX was told {}: shapes of results, and results that are no arrays, may not depend on "
    "values"
)


def _shown(form: Callable[..., Any], call: FlatCall) -> Any:
    """The results of the function with a ``ShapeDtypeStruct`` in place of each array.  Where it asks for values that
    are not there, they are zero: the results are of the same form, or the callback says that they are not."""
    try:
        return eval_shape(form, *[tuple([_spec(x) for x in part]) for part in (call.moved, call.fixed)])
    except UnsupportedError:
        return eval_shape(form, *[tuple([_example(x) for x in part]) for part in (call.moved, call.fixed)])


def _example(x: Any) -> Any:
    if isinstance(x, jax.core.Tracer):
        return np.zeros(x.shape, x.dtype)
    return np.asarray(x, jax.numpy.result_type(x)) if _is_array(x) else x


def _is_like(x: Any, first: Any) -> bool:
    """Whether a result is one that JAX was told of."""
    return type(first) is ShapeDtypeStruct or x is first or (type(x) is type(first) and bool(x == first))


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray | np.generic)


def _is_result(x: Any) -> bool:
    """Whether a part of a result is an array in JAX: an array, or what stands for one."""
    return type(x) is ShapeDtypeStruct or isinstance(x, np.ndarray | np.generic)


def _in_jax(x: Any) -> jax.Array:
    """A result of NumPy's as an array of JAX's, which shares no memory with it."""
    return jax.numpy.array(x, jax.dtypes.canonicalize_dtype(getattr(x, "dtype", np.float64)))


def _kind(x: Any) -> str:
    dtype = jax.numpy.result_type(x)
    if dtype.kind not in "fiub":
        raise TypeError(
            f"as_jax_callable takes arrays of real floats, integers and bools, and was given one of {dtype}"
        )
    return dtype.kind


def _spec(x: Any) -> Any:
    """Shape and dtype of an array as JAX passes it on, for ``eval_shape``."""
    return ShapeDtypeStruct(np.shape(x), jax.numpy.result_type(x)) if _is_array(x) else x


def _declared(structs: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:
    shapes = [(np.shape(x), getattr(x, "dtype", np.float64)) for x in structs]
    return tuple([jax.ShapeDtypeStruct(s, jax.dtypes.canonicalize_dtype(dtype)) for s, dtype in shapes])


def _as_declared(results: Sequence[Any], declared: Sequence[jax.ShapeDtypeStruct]) -> tuple[np.ndarray, ...]:
    shapes = [np.shape(x) for x in results]
    if shapes != [d.shape for d in declared]:
        raise ShapeError(_OTHER.format(f"returned arrays of shapes {shapes}", [d.shape for d in declared]))
    return tuple([np.asarray(x, d.dtype) for x, d in zip(results, declared, strict=True)])


def _on_host(arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
    return tuple([np.asarray(x) for x in arrays])


def _with_inputs(call: FlatCall, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """``call.fixed`` with *inputs* in place of its arrays."""
    given = iter(inputs)
    return tuple([next(given) if _is_array(x) else x for x in call.fixed])
