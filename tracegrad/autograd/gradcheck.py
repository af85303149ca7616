"""``gradcheck`` and ``gradgradcheck``: derivatives against finite differences, as in PyTorch.

Inputs are perturbed in place, one element at a time, so the function is called with the user's own tensors.  Complex
tensors count as real ones of their lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..tensors.backward import grad
from ..tensors.dtypes import lane_of
from ..tensors.on_device import filled, put_beside
from ..tensors.op import for_kernel
from ..tensors.tensor import Tensor, from_data, make, raw, seen
from ..tracer.ir.aval import INEXACT_KINDS
from ..tracer.ir.site import warn_at_site


class GradcheckError(RuntimeError):
    """A derivative differs from finite differences."""

    __module__ = "tracegrad"


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:  # fmt: skip
    """Compare the gradients of *func* with respect to the *inputs* that require them with finite differences.

    The inputs should be of double precision.  The arguments from *check_undefined_grad* on, other than
    *check_grad_dtypes*, make no difference.

    :raises GradcheckError: on a mismatch; with ``raise_exception=False`` the result is False instead.
    """
    args = _as_tuple(inputs)
    _check_inputs(args)
    try:
        _check(func, args, eps, atol, rtol, nondet_tol, check_grad_dtypes)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
    fast_mode: bool = False, masked: bool = False,
) -> bool:  # fmt: skip
    """As ``gradcheck``, of the gradients: second derivatives, with respect to the inputs and *grad_outputs* (random
    by default)."""
    args = _as_tuple(inputs)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        outputs = _differentiable(func(*args))
        drawn = [put_beside(rng.uniform(-1, 1, o.shape).astype(o.dtype), o._data) for o in outputs]
        cotangents = tuple([from_data(data, True) for data in drawn])
    else:
        cotangents = _as_tuple(grad_outputs)
    count = len(args)
    wanted = [k for k, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]

    def gradients(*values: Any) -> tuple[Tensor, ...]:
        outputs = _differentiable(func(*values[:count]))
        found = grad(outputs, [values[k] for k in wanted], values[count:], create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    return gradcheck(
        gradients, (*args, *cotangents), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_grad_dtypes=check_grad_dtypes,
    )  # fmt: skip


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _floats(result: Any) -> list[Tensor]:
    return [o for o in _as_tuple(result) if isinstance(o, Tensor) and o.dtype.kind in INEXACT_KINDS]


def _differentiable(result: Any) -> list[Tensor]:
    return [o for o in _as_tuple(result) if isinstance(o, Tensor) and o.requires_grad]


def _check_inputs(args: tuple[Any, ...]) -> None:
    wanted = [(k, x) for k, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]
    for k, x in wanted:
        if x.dtype not in (np.float64, np.complex128):
            warn_at_site(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
            )
        if any(s == 0 and n > 1 for s, n in zip(raw(x).strides, x.shape, strict=True)):
            raise RuntimeError(
                f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )


def _check(
    func: Callable[..., Any], args: tuple[Any, ...], eps: float, atol: float, rtol: float, nondet_tol: float,
    check_dtypes: bool,
) -> None:  # fmt: skip
    xs = [x for x in args if isinstance(x, Tensor) and x.requires_grad]
    result = func(*args)
    outputs = _differentiable(result)
    if not outputs:
        for row in _numerical(func, args, xs, eps, len(_floats(result)), _floats):
            if any((part != 0).any() for part in row):
                raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    numerical = _numerical(func, args, xs, eps, len(outputs), _differentiable)
    for i, out in enumerate(outputs):
        analytical = _analytical(xs, out, nondet_tol, check_dtypes)
        for j, a in enumerate(analytical):
            n = numerical[j][i]
            if not np.allclose(a, n, rtol, atol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {i} with respect to input {j},\n"
                    f"numerical:{make(n)}\nanalytical:{make(a)}\n"
                )
    zeros = [make(filled(0, o.shape, o.dtype, o._data)) for o in outputs]
    for g in grad(outputs, xs, zeros, retain_graph=True, allow_unused=True):
        if g is not None and raw(g).any():
            raise GradcheckError("backward not multiplied by grad_output")


def _numerical(
    func: Callable[..., Any], args: tuple[Any, ...], xs: Sequence[Tensor], eps: float, count: int,
    kept: Callable[[Any], Sequence[Tensor]],
) -> list[list[np.ndarray]]:  # fmt: skip
    """The Jacobian by finite differences for each input and each result that is *kept*: a row for each element of the
    input."""

    def values() -> list[np.ndarray]:
        return [np.array(for_kernel(seen(raw(o), "looks at a result"))) for o in kept(func(*args))]

    found = []
    sizes = [v.size for v in values()]
    for x in xs:
        data = for_kernel(raw(x))
        rows: list[list[np.ndarray]] = [[] for _ in range(count)]
        for index in np.ndindex(data.shape):
            before = data[index].copy()
            try:
                data[index] = before - eps
                low = values()
                data[index] = before + eps
                high = values()
            finally:
                data[index] = before
            for row, a, b in zip(rows, low, high, strict=True):
                row.append(((b - a) / (2 * eps)).reshape(-1))
        found.append([np.array(row) if row else np.zeros((0, n)) for row, n in zip(rows, sizes, strict=True)])
    return found


def _analytical(xs: Sequence[Tensor], out: Tensor, nondet_tol: float, check_dtypes: bool) -> list[np.ndarray]:
    """The same Jacobians by a backward for each element of the output, twice, to see that it is deterministic."""
    count = for_kernel(raw(out)).size
    found = [np.zeros((for_kernel(raw(x)).size, count), lane_of(x.dtype)) for x in xs]
    for j in range(count):
        seed = np.zeros(out.shape, out.dtype)
        for_kernel(seed).reshape(-1)[j] = 1
        first, second = (
            grad(out, xs, make(put_beside(seed, out._data)), retain_graph=True, allow_unused=True) for _ in range(2)
        )
        for jacobian, x, a, b in zip(found, xs, first, second, strict=True):
            if a is None or b is None:
                continue
            if a.shape != x.shape:
                raise GradcheckError("Analytical gradient has incorrect size")
            if check_dtypes and a.dtype != x.dtype:
                raise GradcheckError("Gradient has dtype mismatch")
            if np.abs(_numbers(a) - _numbers(b)).max(initial=0) > nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                    "gives different values, although analytical gradient matches numerical gradient.The tolerance "
                    f"for nondeterminism was {nondet_tol}."
                )
            jacobian[:, j] = for_kernel(_numbers(a)).reshape(-1)
    return found


def _numbers(t: Tensor) -> np.ndarray:
    return seen(raw(t), "looks at a gradient")
