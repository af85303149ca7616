"""``autograd.functional``: Jacobians, Hessians and their products with vectors, of functions of tensors.

All are a few calls of ``grad``.  ``jvp`` and ``hvp`` differentiate a backward with respect to its cotangents, of which
it is a linear function, so their values do not matter.  Signatures, structures and messages are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..runtime.transforms import jacobians as transforms
from ..tensors.apply import apply
from ..tensors.backward import grad
from ..tensors.inplace import apply_view
from ..tensors.modes import enable_grad
from ..tensors.on_device import filled, put_beside
from ..tensors.op import EagerOp
from ..tensors.tensor import Tensor, make, raw
from ..tracer.ir.aval import INEXACT_KINDS
from .function_context import alias

Function = Callable[..., Any]
Tensors = tuple[Tensor, ...]

VIEW_AS = EagerOp("ViewAs", lambda x: x)
RESHAPE = EagerOp("Reshape", lambda x, shape: x.reshape(shape))
STACK = EagerOp("Stack", lambda *args: np.stack(args[:-1]).reshape(args[-1]))


def _tuple_of(inputs: Any) -> tuple[Any, ...]:
    return inputs if isinstance(inputs, tuple) else (inputs,)


def _arrays(inputs: Any) -> int | tuple[int, ...] | None:
    """The ``argnums`` of *inputs* that are NumPy arrays of floats; None where they are tensors, or wrong."""
    given = _tuple_of(inputs)
    if not given or any(type(x) is not np.ndarray or x.dtype.kind not in INEXACT_KINDS for x in given):
        return None
    return tuple(range(len(given))) if isinstance(inputs, tuple) else 0


# ---- what users call ---------------------------------------------------------------------------------------------


def vjp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(value, v·J) of *func* at *inputs* (a Tensor or a tuple of Tensors).

    :param v: shaped as the value; may be left out where that is one number.
    :param create_graph: make the results differentiable.
    :param strict: raise where the value does not depend on an input, instead of giving zeros.
    """
    with enable_grad():
        many, xs = _prepared(inputs, "vjp", create_graph)
        many_out, outs = _called(func, xs, "vjp", strict)
        vector = _vector(v, outs, many_out, "vjp", create_graph, "the user-provided function returns")
        found = _filled(_grad(outs, xs, vector, create_graph), xs, strict, create_graph, "back")
    return _result(outs, many_out, create_graph), _result(found, many, create_graph)


def jvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(value, J·v) of *func* at *inputs*; *v* is shaped as the inputs, and may be left out for a single number."""
    with enable_grad():
        many, xs = _prepared(inputs, "jvp", create_graph)
        vector = _vector(v, xs, many, "jvp", create_graph)
        many_out, outs = _called(func, xs, "jvp", strict)
        cotangents = tuple([_zeros(o).requires_grad_(o.dtype.kind in INEXACT_KINDS) for o in outs])
        backward = _grad(outs, xs, cotangents, True)
        if strict:
            _check_dependent(backward, _LINEAR)
        found = _filled(_grad(backward, cotangents, vector, create_graph), outs, strict, create_graph, "back_trick")
    return _result(outs, many_out, create_graph), _result(found, many_out, create_graph)


def jacobian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The Jacobian of *func* at *inputs*: shaped as the value, then as the input; a tuple where the value or the
    inputs are one, a tuple of tuples where both are.  *vectorize* and *strategy* make no difference.

    Of NumPy code, *inputs* being an array or a tuple of arrays, it is ``tracegrad.autograd.jacobian``: arrays."""
    _check_strategy(strategy)
    arrays = _arrays(inputs)
    if arrays is not None:
        return transforms.jacobian(func, arrays)(*_tuple_of(inputs))
    with enable_grad():
        many, xs = _prepared(inputs, "jacobian", create_graph)
        many_out, outs = _called(func, xs, "jacobian", strict)
        rows = [_rows(k, out, xs, create_graph, strict) for k, out in enumerate(outs)]
    parts = [_result(row, many, create_graph) for row in rows]
    return tuple(parts) if many_out else parts[0]


def hessian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The Hessian of *func*, which gives one number, at *inputs*; ``hessian[i][j]`` for a tuple of inputs.

    Of NumPy code, as for ``jacobian``, it is ``tracegrad.autograd.hessian``."""
    _check_strategy(outer_jacobian_strategy)
    arrays = _arrays(inputs)
    if arrays is not None:
        return transforms.hessian(func, arrays)(*_tuple_of(inputs))
    many, _ = _tuple(inputs, "inputs", "hessian")

    def scalar(*xs: Tensor) -> Tensor:
        return apply_view(RESHAPE, _single(func, xs, "hessian", strict), ((),))

    def gradient(*xs: Tensor) -> Any:
        found = jacobian(scalar, xs, create_graph=True)
        if strict:
            _check_dependent(found, _NO_HESSIAN)
        return found

    found = jacobian(gradient, inputs, create_graph=create_graph, strict=strict)
    return found if many else found[0]


def vhp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(value, v·H) of *func*, which gives one number."""
    with enable_grad():
        many, xs = _prepared(inputs, "vhp", create_graph)
        vector = _vector(v, xs, many, "vhp", create_graph)
        out = _single(func, xs, "vhp", strict)
        gradient = _gradient(out, xs, strict)
        found = _filled(_grad(gradient, xs, vector, create_graph), xs, strict, create_graph, "double_back")
    return _result((out,), False, create_graph), _result(found, many, create_graph)


def hvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(value, H·v) of *func*, which gives one number.  ``vhp`` is faster and the same where H is symmetric."""
    with enable_grad():
        many, xs = _prepared(inputs, "hvp", create_graph)
        vector = _vector(v, xs, many, "hvp", create_graph)
        out = _single(func, xs, "hvp", strict)
        gradient = _gradient(out, xs, strict)
        cotangents = tuple([_zeros(x).requires_grad_() for x in xs])
        twice = _grad(gradient, xs, cotangents, True)
        found = _filled(_grad(twice, cotangents, vector, create_graph), xs, strict, create_graph, "double_back_trick")
    return _result((out,), False, create_graph), _result(found, many, create_graph)


# ---- arguments ---------------------------------------------------------------------------------------------------


def _tuple(value: Any, what: str, name: str) -> tuple[bool, Tensors]:
    many = isinstance(value, tuple)
    items = value if many else (value,)
    for k, item in enumerate(items):
        if not isinstance(item, Tensor):
            which = f"value at index {k}" if many else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {which} has type "
                f"{type(item)}."
            )
    return many, items


def _prepared(inputs: Any, name: str, create_graph: bool) -> tuple[bool, Tensors]:
    """The inputs as tensors of their own, so that the same tensors captured by the function stay constants."""
    many, xs = _tuple(inputs, "inputs", name)
    fresh = [apply_view(VIEW_AS, x) if create_graph and x.requires_grad else alias(x).requires_grad_() for x in xs]
    return many, tuple(fresh)


def _vector(
    v: Any, like: Tensors, many: bool, name: str, create_graph: bool,
    single: str = "the input to the user-provided function is",
) -> Tensors:  # fmt: skip
    """*v*, shaped as *like*; 1 if it is None, and *like* a single number (*single* says so in the error)."""
    if v is None:
        if len(like) != 1 or raw(like[0]).size != 1:
            raise RuntimeError(f"The vector v can only be None if {single} a single Tensor with a single element.")
        return (make(filled(1, like[0].shape, like[0].dtype, like[0]._data)),)
    _, vs = _tuple(v, "v", name)
    if len(vs) != len(like):
        if many:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vs)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for k, (given, other) in enumerate(zip(vs, like, strict=True)):
        if given.shape != other.shape:
            entry = f"Entry {k} in " if many else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {other.shape} but got {given.shape}.")
    return tuple([apply_view(VIEW_AS, x) if create_graph and x.requires_grad else alias(x) for x in vs])


def _check_strategy(strategy: str) -> None:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')


# ---- parts -------------------------------------------------------------------------------------------------------


def _called(func: Function, xs: Tensors, name: str, strict: bool) -> tuple[bool, Tensors]:
    many, outs = _tuple(func(*xs), "outputs of the user-provided function", name)
    if strict:
        for k, out in enumerate(outs):
            if not out.requires_grad:
                raise RuntimeError(
                    f"Output {k} of the user-provided function does not require gradients. The outputs must be "
                    "computed in a differentiable manner from the input when running in strict mode."
                )
    return many, outs


def _single(func: Function, xs: Tensors, name: str, strict: bool) -> Tensor:
    many, outs = _called(func, xs, name, strict)
    if many:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if raw(outs[0]).size != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return outs[0]


def _gradient(out: Tensor, xs: Tensors, strict: bool) -> Sequence[Tensor | None]:
    found = _grad((out,), xs, None, True)
    if strict:
        _check_dependent(found, _NO_HESSIAN)
    return found


def _check_dependent(gradient: Sequence[Tensor | None], constant: str) -> None:
    """Raise where a part of *gradient* is missing, or (with the text *constant*) where it is constant."""
    for k, g in enumerate(gradient):
        if g is None or not g.requires_grad:
            raise RuntimeError((_INDEPENDENT if g is None else constant).format(k))


def _grad(
    outs: Sequence[Tensor | None], xs: Tensors, cotangents: Tensors | None, create_graph: bool,
    retain: bool | None = None,
) -> Sequence[Tensor | None]:  # fmt: skip
    """``grad``, with None for outputs and inputs that are independent."""
    kept = [k for k, out in enumerate(outs) if out is not None and out.requires_grad]
    if not kept:
        return [None] * len(xs)
    seeds = None if cotangents is None else [cotangents[k] for k in kept]
    wanted = [x for x in xs if x.requires_grad]
    found = iter(grad([outs[k] for k in kept], wanted, seeds, retain, create_graph, allow_unused=True))
    return [next(found) if x.requires_grad else None for x in xs]


def _rows(number: int, out: Tensor, xs: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """The Jacobian of one result with respect to each input: one backward for each of its elements."""
    shape, dtype = out.shape, out.dtype
    if dtype.kind == "c":
        raise RuntimeError(
            f"jacobian of a result of {dtype}: a complex derivative is two real ones; give tracegrad.view_as_real(z)"
        )
    rows: list[list[Tensor]] = [[] for _ in xs]
    for j in range(raw(out).size):
        seed = np.zeros(shape, dtype)
        seed.reshape(-1)[j] = 1
        found = _grad((out,), xs, (make(put_beside(seed, out._data)),), create_graph, True)
        for k, (g, x) in enumerate(zip(found, xs, strict=True)):
            if g is None:
                if strict:
                    raise RuntimeError(
                        f"Output {number} of the user-provided function is independent of input {k}. This is not "
                        "allowed in strict mode."
                    )
                g = _zeros(x)
            elif strict and create_graph and not g.requires_grad:
                raise RuntimeError(_JACOBIAN.format(number))
            rows[k].append(g)
    return tuple([_stacked(row, (*shape, *x.shape), x) for row, x in zip(rows, xs, strict=True)])


def _stacked(row: list[Tensor], shape: tuple[int, ...], like: Tensor) -> Tensor:
    return apply(STACK, tuple(row), (shape,)) if row else make(filled(0, shape, like.dtype, like._data))


_INDEPENDENT = (
    "The output of the user-provided function is independent of input {}. This is not allowed in strict mode."
)
_JACOBIAN = (
    "The jacobian of the user-provided function is independent of input {}. This is not allowed in strict mode when "
    "create_graph=True."
)
_HESSIAN = _JACOBIAN.replace("jacobian", "hessian")
_LINEAR = (
    "The gradient with respect to input {} is independent of the inputs of the user-provided function. This is not "
    "allowed in strict mode."
)
_NO_HESSIAN = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
    "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
    "example)."
)
_NOTHING = {  # error texts for independent tensors, by stage
    "back": _INDEPENDENT,
    "back_trick": "The gradient with respect to the input is independent of entry {} in the grad_outputs when using "
    "the double backward trick to compute forward mode gradients. This is not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {}. This is not allowed in "
    "strict mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. "
    "This is not allowed in strict mode as it prevents from using the double backward trick to replace forward mode "
    "AD.",
}


def _zeros(like: Tensor) -> Tensor:
    return make(filled(0, like.shape, like.dtype, like._data))


def _filled(found: Sequence[Tensor | None], like: Tensors, strict: bool, create_graph: bool, stage: str) -> Tensors:
    """Zeros where nothing flows; errors instead where *strict*."""
    result = []
    for k, (g, x) in enumerate(zip(found, like, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(_NOTHING[stage].format(k))
            g = _zeros(x)
        elif strict and create_graph and not g.requires_grad:
            raise RuntimeError((_HESSIAN if "double" in stage else _JACOBIAN).format(k))
        result.append(g)
    return tuple(result)


def _result(found: Tensors, many: bool, create_graph: bool) -> Any:
    kept = found if create_graph else tuple([alias(t) for t in found])
    return kept if many else kept[0]


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
