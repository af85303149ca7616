"""``backward`` and ``grad`` for users, with their checks.

A tape that has come before in the same shape runs compiled (``compiled_backward.py``); hooks, custom functions, anomaly
detection and gradients of gradients go node by node (``backward_pass.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tracer.ir.refusals import Refusal
from ..tracer.ir.site import user_site
from . import compiled_backward
from . import tensor as core
from .backward_pass import collect, finish_leaves, retain, run
from .modes import STATE
from .on_device import filled
from .tensor import Tensor, make, raw

# ---- what users call ---------------------------------------------------------------------------------------------


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    inputs: Any = None,
) -> None:  # fmt: skip
    """Accumulate the gradients of *tensors* (one or a sequence) into the ``.grad`` of leaves.

    :raises RuntimeError: where a tensor is no scalar and has no cotangent in *grad_tensors*, does not require
        gradients, or its graph has been freed by an earlier backward.
    """
    roots, given = _pairs(tensors, grad_tensors)
    wanted = None if inputs is None else _as_tuple(inputs)
    if wanted == ():
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    seeds = _seeds(roots, given, create_graph)
    retain = create_graph if retain_graph is None else retain_graph
    if wanted is None and not create_graph and STATE.capture is None and not STATE.anomaly:
        nodes = collect(roots)
        found = compiled_backward.backward(nodes, roots, seeds, retain)
        if found is not None:
            finish_leaves(found, nodes)
            return
    elif STATE.capture is None:
        asked = "create_graph=True" if create_graph else "anomaly detection" if wanted is None else "inputs="
        compiled_backward.walked(Refusal.BACKWARD_ASKED(what=asked))
    run(roots, seeds, retain, create_graph, wanted, accumulate=True)


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients of *outputs* with respect to *inputs*, without touching ``.grad``.

    :raises RuntimeError: where an input was not used in the graph and *allow_unused* is not set.
    """
    if is_grads_batched:
        raise NotImplementedError("is_grads_batched is not supported; call grad once for each cotangent")
    roots, given = _pairs(outputs, grad_outputs)
    wanted = _as_tuple(inputs)
    for t in wanted:
        if not t.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    seeds = _seeds(roots, given, create_graph)
    retain = create_graph if retain_graph is None else retain_graph
    if STATE.capture is None:
        compiled_backward.walked(Refusal.BACKWARD_ASKED(what="autograd.grad()"))
    found = run(roots, seeds, retain, create_graph, wanted, accumulate=False)
    for k, g in enumerate(found):
        if g is None:
            if materialize_grads:
                like = raw(wanted[k])
                found[k] = make(filled(0, like.shape, like.dtype, like))
            elif not allow_unused:
                raise RuntimeError(
                    f"The differentiated Tensor at index {k} appears to not have been used in the graph. Set "
                    "allow_unused=True if this is the desired behavior."
                )
    return tuple(found)


def partial_gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor] | None, since: int,
    create_graph: bool = False,
) -> list[Tensor | None]:  # fmt: skip
    """Gradients of *outputs* with respect to *inputs* through the nodes made from *since* on: earlier nodes, between
    one input and another, do not count.  The graph is kept."""
    seeds = _seeds(outputs, cotangents if cotangents is not None else [None] * len(outputs), create_graph)
    return run(outputs, seeds, True, create_graph, inputs, accumulate=False, since=since)


def _as_tuple(tensors: Any) -> tuple[Any, ...]:
    return (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)


def _pairs(outputs: Any, cotangents: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Outputs and their cotangents, one for each; None for those that are not given."""
    roots = _as_tuple(outputs)
    given = (None,) * len(roots) if cotangents is None else _as_tuple(cotangents)
    if len(given) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(given)} gradients")
    return roots, given


def _seeds(roots: Sequence[Tensor], given: Sequence[Any], create_graph: bool) -> list[Tensor | None]:
    """The cotangents of *roots*, checked; None for the implicit 1."""
    seeds: list[Tensor | None] = []
    for k, (root, cotangent) in enumerate(zip(roots, given, strict=True)):
        if root._base is not None:
            core.refresh(root)
        if not root._requires:
            raise RuntimeError(f"element {k} of tensors does not require grad and does not have a grad_fn")
        data = raw(root)
        if cotangent is None:
            if data.size != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if data.dtype.kind == "c":
                raise RuntimeError(
                    "grad can be implicitly created only for real scalar outputs but got "
                    f"{data.dtype}: take a real function of it (abs, real), or pass a cotangent"
                )
            seeds.append(None)
            continue
        if not isinstance(cotangent, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(cotangent).__name__}")
        if cotangent.shape != root.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{k}] has a shape of {cotangent.shape} and output[{k}] has a shape of "
                f"{root.shape}."
            )
        if (cotangent.dtype.kind == "c") != (data.dtype.kind == "c"):
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
                f"dtype: grad_output[{k}] has a dtype of {cotangent.dtype} and output[{k}] has a dtype of {root.dtype}."
            )
        if cotangent._requires and not create_graph:
            cotangent = make(raw(cotangent))
        if cotangent.dtype != root.dtype:
            cotangent = make(raw(cotangent).astype(root.dtype))
        seeds.append(cotangent)
    return seeds


core._ENGINE.update(backward=backward, retain=retain, site=user_site)
