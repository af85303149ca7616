"""HIPS autograd's operators: ``grad``, ``jacobian`` and the rest, each made into kernels.

``grad`` and its relatives are tracegrad's own ``grad`` of the function.  The others are functions over ``make_vjp``,
compiled as a whole.
"""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime.compiled import CompiledFunction
from ...runtime.declare import shifted_positions
from ...runtime.memo import kept
from ...runtime.transforms.gradient import grad as function_grad
from ...runtime.transforms.gradient import value_and_grad as function_value_and_grad
from ...runtime.transforms.jacobians import jacobian as function_jacobian
from ...tracer.ir.errors import DifferentiationError, UnsupportedError, unrecordable
from ...tracer.ir.trees import tree_leaves, tree_map
from ...tracer.record.array import TracedArray
from ...tracer.record.recorder import current_recorder, require_recorder
from . import core
from .core import Function, pulled, vjp_of_call
from .util import subvals
from .vspace import vspace
from .wrap_util import at_argnum, wrap_nary_f, wraps

__all__ = [
    "checkpoint", "deriv", "elementwise_grad", "grad", "grad_and_aux", "grad_named", "hessian",
    "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "jacobian", "make_ggnvp",
    "make_hvp", "make_jvp", "make_jvp_reversemode", "make_vjp", "multigrad_dict", "tensor_jacobian_product",
    "value_and_grad", "vector_jacobian_product",
]  # fmt: skip


def _kept(fun: Any, key: Any, make: Callable[[], Any]) -> Any:
    """``make()``, once for a function: kept on itself, so that it lives as long."""
    return kept(fun, ("compat", key), make) if type(fun) is types.FunctionType else make()


def _unbound(fun: Any, argnum: Any) -> tuple[Any, tuple[Any, ...], Any]:
    """(the function, its first arguments, *argnum* among all) of a function or a method: instances share kernels."""
    place = _position(argnum)
    if type(fun) is types.MethodType and type(fun.__func__) is types.FunctionType:
        return fun.__func__, (fun.__self__,), shifted_positions(place)
    return fun, (), place


def _position(argnum: Any) -> Any:
    if isinstance(argnum, (int, np.integer)) and not isinstance(argnum, bool):
        return int(argnum)
    if isinstance(argnum, (tuple, list)):
        return tuple(argnum)
    raise TypeError(f"argnum is a position or several, not {argnum!r}")


# ---- gradients of one number -------------------------------------------------------------------------------------


def _gradient(
    operator: Any, transform: Any, reduce: Any, fun: Any, argnum: Any, has_aux: bool = False, direct: Any = None
) -> Any:
    """``operator(fun, argnum)``: *transform*, of tracegrad's own, of what *reduce* makes of the value; but *direct* of
    the function itself for as long as its values are such as tracegrad takes."""
    base, first, place = _unbound(fun, argnum)

    def make() -> Any:
        def loss(*args: Any, **kwargs: Any) -> Any:
            return reduce(base(*args, **kwargs))

        functools.update_wrapper(loss, base, updated=())
        reduced = transform(loss, place, has_aux)
        return [reduced] if direct is None else [direct(base, place), reduced]

    derivatives = _kept(base, (operator, place), make)  # of which the first is in use

    @wrap_nary_f(fun, operator, argnum)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        given = (*first, *args)
        while True:
            try:
                return derivatives[0](*given, **kwargs)
            except DifferentiationError:
                floating = _floating(given, place)
                if floating is not None:
                    given = floating
                elif len(derivatives) > 1:
                    del derivatives[0]
                else:
                    raise

    return gradient


def _floating(args: tuple[Any, ...], place: Any) -> tuple[Any, ...] | None:
    """*args* with floats in the arrays of integers that are differentiated; None where there are none."""
    wanted = {i % len(args) for i in ((place,) if isinstance(place, int) else place)} if args else set()
    whole = [x for i in wanted for x in tree_leaves(args[i]) if _is_whole(x)]
    if not whole:
        return None
    return subvals(args, [(i, tree_map(lambda x: x.astype(float) if _is_whole(x) else x, args[i])) for i in wanted])


def _is_whole(x: Any) -> bool:
    return isinstance(x, (np.ndarray, TracedArray)) and x.dtype.kind in "iu"


def _one_number(name: str, out: Any) -> Any:
    """The value of a function as a scalar."""
    if isinstance(out, (TracedArray, np.ndarray, np.generic, complex)):
        if np.iscomplexobj(out) or np.size(out) != 1:
            raise DifferentiationError.here(
                f"{name} only applies to real scalar-output functions. Try jacobian, elementwise_grad or "
                f"holomorphic_grad. (The value is {np.result_type(out)}{list(np.shape(out))})"
            )
        return np.reshape(out, ()) if np.ndim(out) else out
    return out


def grad(fun: Function, argnum: Any = 0) -> Function:
    """
    Returns a function which computes the gradient of `fun` with respect to
    positional argument number `argnum`. The returned function takes the same
    arguments as `fun`, but returns the gradient instead. The function `fun`
    should be scalar-valued. The gradient has the same type as the argument."""
    return _gradient(grad, function_grad, functools.partial(_one_number, "Grad"), fun, argnum, direct=function_grad)


def value_and_grad(fun: Function, argnum: Any = 0) -> Function:
    """Returns a function that returns both value and gradient. Suitable for use
    in scipy.optimize"""
    both = function_value_and_grad
    return _gradient(value_and_grad, _value_and_grad, _loss_and_value, fun, argnum, True, both)


def _loss_and_value(out: Any) -> Any:
    return _one_number("value_and_grad", out), out


def _value_and_grad(loss: Any, place: Any, has_aux: bool) -> Any:
    both = function_value_and_grad(loss, place, has_aux)

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        (_, value), gradient = both(*args, **kwargs)
        return value, gradient

    return value_and_gradient


def elementwise_grad(fun: Function, argnum: Any = 0) -> Function:
    """
    Returns a function that computes the sum of each column of the Jacobian of
    `fun`, in one pass. If the Jacobian is diagonal, then this is the diagonal
    of the Jacobian.
    """
    return _gradient(elementwise_grad, function_grad, _total, fun, argnum)


def _total(out: Any) -> Any:
    leaves = tree_leaves(out)
    if any(np.iscomplexobj(leaf) for leaf in leaves):
        raise DifferentiationError.here("Elementwise_grad only applies to real-output functions.")
    return sum(np.sum(leaf) for leaf in leaves)


def holomorphic_grad(fun: Function, argnum: Any = 0) -> Function:
    """The derivative of a holomorphic function."""

    def real_part(out: Any) -> Any:
        return _one_number("holomorphic_grad", np.real(out))

    gradient = _gradient(holomorphic_grad, function_grad, real_part, fun, argnum)

    @wrap_nary_f(fun, holomorphic_grad, argnum)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        if not vspace(at_argnum(fun, _position(argnum), args, kwargs)[1]).iscomplex:
            warnings.warn("Input to holomorphic_grad is not complex", stacklevel=2)
        return gradient(*args, **kwargs)

    return derivative


def grad_and_aux(fun: Function, argnum: Any = 0) -> Function:
    """Builds a function that returns the gradient of the first output and the
    (unmodified) second output of a function that returns two outputs."""

    def reduce(out: Any) -> Any:
        ans, aux = out
        return _one_number("grad_and_aux", ans), aux

    return _gradient(grad_and_aux, function_grad, reduce, fun, argnum, True)


def grad_named(fun: Function, argname: str) -> Function:
    """Takes gradients with respect to a named argument.
    Doesn't work on *args or **kwargs."""
    return grad(fun, inspect.getfullargspec(fun).args.index(argname))


def multigrad_dict(fun: Function) -> Function:
    """Takes gradients wrt all arguments simultaneously,
    returns a dict mapping 'argname' to 'gradval'"""
    signature = inspect.signature(fun)

    def of_dict(arguments: Any) -> Any:
        bound = inspect.BoundArguments(signature, OrderedDict(arguments))
        return fun(*bound.args, **bound.kwargs)

    gradient = grad(of_dict)

    def gradfun(*args: Any, **kwargs: Any) -> OrderedDict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return OrderedDict(gradient(dict(bound.arguments)))

    return gradfun


# ---- functions over make_vjp -------------------------------------------------------------------------------------


def _operator(unary: Callable[..., Any]) -> Callable[..., Function]:
    """``operator(fun, argnum=0)`` of ``unary(fun, x)``: a compiled function of the arguments of *fun*."""

    @wraps(unary)
    def operator(fun: Function, argnum: Any = 0) -> Function:
        base, first, place = _unbound(fun, argnum)

        def body(*args: Any, **kwargs: Any) -> Any:
            return unary(*at_argnum(base, place, args, kwargs))

        compiled = _kept(base, (operator, place), lambda: CompiledFunction(body, target="auto"))

        @wrap_nary_f(fun, unary, argnum)
        def function(*args: Any, **kwargs: Any) -> Any:
            return compiled(*first, *args, **kwargs)

        return function

    return operator


def _jacobian(fun: Function, x: Any) -> Any:
    x = tree_map(core.floating, x)
    columns = vspace(x)
    if len(columns.parts) == 1 and not columns.iscomplex:
        try:
            found = function_jacobian(lambda y: _one_array(fun(y)))(x)
            return np.reshape(found, found.shape[: found.ndim - columns.ndim] + columns.shape)
        except UnsupportedError as error:  # of a rule of the user's that asks for values
            unrecordable.discard(error)
    run = core.Linearized(lambda y: _one_array(fun(y)), x, require_recorder("jacobian"))
    rows = vspace(run.ans)
    if len(columns.parts) != 1:
        raise DifferentiationError.here(_ONE_ARRAY)
    basis = np.eye(rows.size, dtype=rows.dtype).reshape(rows.size, *rows.shape)
    return np.reshape(np.stack([run.vjp(row) for row in basis]), rows.shape + columns.shape)


def _one_array(value: Any) -> Any:
    """The value of a function that has a Jacobian."""
    space = vspace(value)
    if len(space.parts) != 1 or space.iscomplex:
        raise DifferentiationError.here(_ONE_ARRAY)
    return value


_ONE_ARRAY = (
    "jacobian takes functions of one array that return one real array; of several arguments or a complex result take "
    "the jacobian of np.concatenate([...]), np.real(...) and np.imag(...)"
)


@_operator
def jacobian(fun: Function, x: Any) -> Any:
    """
    Returns a function which computes the Jacobian of `fun` with respect to
    positional argument number `argnum`, which must be a scalar or array. Unlike
    `grad` it is not restricted to scalar-output functions, but also it cannot
    take derivatives with respect to some argument types (like lists or dicts).
    If the input to `fun` has shape (in1, in2, ...) and the output has shape
    (out1, out2, ...) then the Jacobian has shape (out1, out2, ..., in1, in2, ...).
    """
    return _jacobian(fun, x)


@_operator
def hessian(fun: Function, x: Any) -> Any:
    "Returns a function that computes the exact Hessian."
    return _jacobian(lambda y: _jacobian(fun, y), x)


@_operator
def deriv(fun: Function, x: Any) -> Any:
    """The derivative with respect to a scalar."""
    return core.make_jvp(fun, x)(vspace(x).ones())[1]


def make_vjp(fun: Function, argnum: Any = 0) -> Function:
    """Builds (vjp, value) at a point: `vjp(g)` is the product of `g` and the Jacobian."""
    base, first, place = _unbound(fun, argnum)

    def at(f: Function, *args: Any, **kwargs: Any) -> Any:
        return core.make_vjp(*at_argnum(f, place, args, kwargs))

    pull = _kept(base, (make_vjp, place), lambda: pulled(base, at))

    @wrap_nary_f(fun, make_vjp, argnum)
    def maker(*args: Any, **kwargs: Any) -> Any:
        if current_recorder() is not None:
            return at(base, *first, *args, **kwargs)
        return vjp_of_call(pull, base, (*first, *args), kwargs)

    return maker


def _along(operator: Any, unary: Callable[..., Any], fun: Function, argnum: Any) -> Function:
    """A maker of functions of v over ``unary(fun, x)(v)``, which is compiled."""
    base, first, place = _unbound(fun, argnum)

    def body(v: Any, *args: Any, **kwargs: Any) -> Any:
        return unary(*at_argnum(base, place, args, kwargs))(v)

    compiled = _kept(base, (operator, place), lambda: CompiledFunction(body, target="auto"))

    @wrap_nary_f(fun, operator, argnum)
    def maker(*args: Any, **kwargs: Any) -> Any:
        return lambda v: compiled(v, *first, *args, **kwargs)

    return maker


def make_jvp(fun: Function, argnum: Any = 0) -> Function:
    """Builds a function of a vector that gives (value, the product of the Jacobian and the vector) at a point."""
    return _along(make_jvp, core.make_jvp, fun, argnum)


def make_jvp_reversemode(fun: Function, argnum: Any = 0) -> Function:
    """Builds a function for evaluating the Jacobian-vector product at a point."""
    return _along(make_jvp_reversemode, core.make_jvp_reversemode, fun, argnum)


def make_hvp(fun: Function, argnum: Any = 0) -> Function:
    """Builds a function for evaluating the Hessian-vector product at a point,
    which may be useful when evaluating many Hessian-vector products at the same
    point: (hvp, gradient)."""
    base, first, place = _unbound(fun, argnum)
    made = make_vjp(_kept(base, (make_hvp, place), lambda: grad(base, place)), place)
    return functools.partial(made, *first)


def _half_of_squares(x: Any) -> Any:
    return 1.0 / 2 * np.sum(x**2, axis=-1)


def make_ggnvp(f: Function, g: Function = _half_of_squares, f_argnum: Any = 0) -> Function:
    """Builds a function for evaluating generalized-Gauss-Newton-vector products
    at a point."""

    def ggnvp(f: Function, x: Any) -> Any:
        run = core.Linearized(f, x, require_recorder("make_ggnvp"))
        hessian_product = core.make_jvp(grad(g), run.ans)
        return lambda v: run.vjp(hessian_product(run.jvp(v))[1])

    return _along((make_ggnvp, g), ggnvp, f, f_argnum)


def hessian_tensor_product(fun: Function, argnum: Any = 0) -> Function:
    """Builds a function that returns the exact Hessian-tensor product.
    The returned function has arguments (*args, tensor, **kwargs)."""
    base, first, place = _unbound(fun, argnum)

    def product(*args: Any, **kwargs: Any) -> Any:
        *rest, vector = args
        return core.make_jvp(*at_argnum(grad(base, place), place, tuple(rest), kwargs))(vector)[1]

    made = _kept(base, (hessian_tensor_product, place), lambda: CompiledFunction(product, target="auto"))
    return functools.partial(made, *first)


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Function, argnum: Any = 0) -> Function:
    """Builds a function that returns the exact tensor-Jacobian product, that
    is the Jacobian matrix left-multiplied by tensor. The returned function
    has arguments (*args, tensor, **kwargs)."""

    base, first, place = _unbound(fun, argnum)

    def vector_dot_fun(*args: Any, **kwargs: Any) -> Any:
        *rest, vector = args
        return np.tensordot(vector, base(*rest, **kwargs), axes=np.ndim(vector))

    made = _kept(base, (tensor_jacobian_product, place), lambda: jacobian(vector_dot_fun, place))
    return functools.partial(made, *first)


vector_jacobian_product = tensor_jacobian_product


def checkpoint(fun: Function) -> Function:
    """*fun* as it is: tracegrad chooses by itself which values it keeps and which it computes again."""
    return fun
