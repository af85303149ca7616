"""``as_torch_function``: a function of NumPy code as a node of PyTorch's graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..tracer.ir.trees import tree_flatten
from .flat import FlatCall, Flattened, pulled, put_together, taken_apart


def as_torch_function(f: Callable[..., Any]) -> Callable[..., Any]:
    """See :func:`tracegrad.interop.as_torch_function`."""
    flattened = Flattened(f)
    pulls: dict[Any, Callable[..., Any]] = {}

    @functools.wraps(f, updated=())
    def function(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree_flatten((args, kwargs))
        needed = torch.is_grad_enabled()
        which = [needed and isinstance(x, torch.Tensor) and x.requires_grad for x in leaves]
        if any(m and x.is_complex() for x, m in zip(leaves, which, strict=True)):
            raise TypeError(
                "as_torch_function: gradients of complex tensors are not supported; pass torch.view_as_real(t)"
            )
        call = taken_apart(leaves, structure, which)
        if not call.moved:
            given = _arrays(call.fixed)
            floats, rest = flattened.form(call)((), given)
            return put_together(_tensors(floats, given), rest, _tensor)
        outcome: list[Any] = []  # of what is no tensor of the graph
        return put_together(_Node.apply(flattened, pulls, call, outcome, *call.moved), outcome[0], _tensor)

    return function


class _Node(torch.autograd.Function):
    """A call.  What it returns are the float results, in order."""

    @staticmethod
    def forward(ctx: Any, flattened: Flattened, pulls: Any, call: FlatCall, outcome: list[Any], *moved: Any) -> Any:
        plain = call._replace(moved=_arrays(moved), fixed=_arrays(call.fixed))
        floats, pull, rest = flattened.vjp(plain)
        outcome.append(rest)
        found = _tensors(floats, (*plain.moved, *plain.fixed))
        # PyTorch refuses the backward pass where one of these was written since
        ctx.save_for_backward(*moved, *[x for x in call.fixed if isinstance(x, torch.Tensor)])
        ctx.call, ctx.pull, ctx.of_function = call._replace(moved=()), pull, (flattened, pulls)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        moved = ctx.saved_tensors[: sum(ctx.call.which)]
        if torch.is_grad_enabled():  # create_graph=True: the gradient is a node, too
            flattened, pulls = ctx.of_function
            key = ctx.call.structure, ctx.call.which
            if key not in pulls:
                pulls[key] = as_torch_function(pulled(flattened.f, ctx.call))
            found = pulls[key](moved, ctx.call.fixed, cotangents)
        else:
            found = [_tensor(x) for x in ctx.pull(_arrays(cotangents))[0]]
        return None, None, None, None, *found


def _arrays(leaves: Any) -> tuple[Any, ...]:
    return tuple([x.detach().numpy() if isinstance(x, torch.Tensor) else x for x in leaves])


def _tensors(results: Any, arguments: Sequence[Any]) -> list[Any]:
    """*results* as tensors; those that are *arguments* as copies, as PyTorch's graph has to have them."""
    given = set(map(id, arguments))
    return [_tensor(x.copy() if id(x) in given else x) for x in results]


def _tensor(x: Any) -> Any:
    """An array or a number of NumPy as a tensor over its memory."""
    if not isinstance(x, np.ndarray | np.generic):
        return torch.tensor(x) if isinstance(x, float) else x
    array = np.asarray(x)
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array)
