"""Reverse mode over the tape: ``backward`` and ``grad``.

The nodes that matter are collected, and visited in the reverse of the order in which they ran; each turns the
cotangents of its results into cotangents of its operands.  Cotangents are Tensors, and a node's derivative is an
operation on tensors like any other, so with ``create_graph`` the backward is on the tape itself.  A tape that comes
again in the same shape is compiled (``plans.py``); hooks, custom functions and anomaly detection go node by node.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tracer.array import TracedArray
from ...tracer.site import Site, user_site
from . import plans
from . import tensor as core
from .modes import STATE
from .node import Node
from .op import aval_of
from .ops_basic import ADD
from .tensor import Tensor, apply, make, raw, set_grad

_AGAIN = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "tensors after calling backward."
)


# ---- what users call ---------------------------------------------------------------------------------------------


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    inputs: Any = None,
) -> None:  # fmt: skip
    """Accumulate the gradients of *tensors* (one or a sequence) into the ``.grad`` of leaves.

    :raises RuntimeError: where a tensor is no scalar and has no cotangent in *grad_tensors*, does not require
        gradients, or its graph has been freed by an earlier backward.
    """
    roots = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    given = (grad_tensors,) if grad_tensors is None or isinstance(grad_tensors, Tensor) else tuple(grad_tensors)
    if len(given) != len(roots):
        if grad_tensors is None:
            given = (None,) * len(roots)
        else:
            raise RuntimeError(f"got {len(roots)} tensors and {len(given)} gradients")
    if inputs is not None:
        wanted = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        if not wanted:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    else:
        wanted = None
    seeds = _seeds(roots, given, create_graph)
    retain = create_graph if retain_graph is None else retain_graph
    if wanted is None and not create_graph and STATE.capture is None and not STATE.anomaly:
        nodes = collect(roots)
        found = plans.backward(nodes, roots, seeds, retain)
        if found is not None:
            for leaf, gradient in found:
                _finish_leaf(leaf, gradient)
            return
    elif STATE.capture is None:
        plans.walked("create_graph=True" if create_graph else "anomaly detection" if wanted is None else "inputs=")
    _run(roots, seeds, retain, create_graph, wanted, accumulate=True)


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
    roots = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    wanted = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    given = (grad_outputs,) if grad_outputs is None or isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    if grad_outputs is None:
        given = (None,) * len(roots)
    if len(given) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(given)} gradients")
    for t in wanted:
        if not t.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    seeds = _seeds(roots, given, create_graph)
    retain = create_graph if retain_graph is None else retain_graph
    if STATE.capture is None:
        plans.walked("autograd.grad()")
    found = _run(roots, seeds, retain, create_graph, wanted, accumulate=False)
    for k, g in enumerate(found):
        if g is None:
            if materialize_grads:
                found[k] = make(np.zeros_like(raw(wanted[k])))
            elif not allow_unused:
                raise RuntimeError(
                    f"The differentiated Tensor at index {k} appears to not have been used in the graph. Set "
                    "allow_unused=True if this is the desired behavior."
                )
    return tuple(found)


def partial_gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor] | None, since: int
) -> list[Tensor | None]:
    """Gradients of *outputs* with respect to *inputs* through the nodes made from *since* on: what lies before, between
    one input and another, counts for neither.  The graph is kept."""
    seeds = _seeds(outputs, cotangents if cotangents is not None else [None] * len(outputs), False)
    return _run(outputs, seeds, True, False, inputs, accumulate=False, since=since)


def differentiable_gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor], since: int
) -> list[Tensor | None]:
    """As ``partial_gradients``, recorded so that they can be differentiated themselves."""
    return _run(outputs, _seeds(outputs, cotangents, True), True, True, inputs, accumulate=False, since=since)


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
            seeds.append(None)
            continue
        if not isinstance(cotangent, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(cotangent).__name__}")
        if cotangent.shape != root.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{k}] has a shape of {cotangent.shape} and output[{k}] has a shape of "
                f"{root.shape}."
            )
        if cotangent._requires and not create_graph:
            cotangent = make(raw(cotangent))
        if cotangent.dtype != root.dtype:
            cotangent = make(raw(cotangent).astype(root.dtype))
        seeds.append(cotangent)
    return seeds


def _ones(root: Tensor) -> Tensor:
    data, capture = raw(root), STATE.capture
    ones = np.ones(data.shape, data.dtype) if capture is None else capture.ones(data.shape, data.dtype)
    return make(ones)


# ---- node by node --------------------------------------------------------------------------------------------------


def collect(roots: Sequence[Tensor], since: int = 0) -> list[Node]:
    """The nodes behind *roots*, latest first; those made before *since* stay out of it."""
    seen: set[Node] = set()
    stack = [r._node for r in roots if r._node is not None and r._node.sequence >= since]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for edge in node.edges:
            if isinstance(edge, Node) and edge not in seen and edge.sequence >= since:
                stack.append(edge)
    return sorted(seen, key=_by_sequence, reverse=True)


def _by_sequence(node: Node) -> int:
    return node.sequence


def _run(
    roots: Sequence[Tensor], seeds: Sequence[Tensor | None], retain: bool, create_graph: bool,
    wanted: Sequence[Tensor] | None, *, accumulate: bool, since: int = 0,
) -> list[Tensor | None]:  # fmt: skip
    nodes = collect(roots, since)
    if STATE.capture is not None and not since:
        STATE.capture.check_history(nodes)
    leaves: dict[int, tuple[Tensor, Tensor | None]] = {}  # leaf -> its gradient so far
    targets: dict[tuple[Node, int], Tensor | None] | None = None
    leaf_targets: set[int] | None = None
    needed: set[Node] | None = None
    if wanted is not None:
        for t in wanted:
            if t._base is not None:
                core.refresh(t)
        targets = {(t._node, t._out): None for t in wanted if t._node is not None}
        leaf_targets = {id(t) for t in wanted if t._node is None}
        needed = _needed(nodes, targets, leaf_targets)
    cotangents: dict[Node, list[Tensor | None]] = {}
    careful: set[tuple[Node, int]] = set()
    grad_before = STATE.grad
    STATE.grad = create_graph
    try:
        for root, seed in zip(roots, seeds, strict=True):
            _add(root._node or root, root._out, _ones(root) if seed is None else seed, cotangents, leaves)
        for node in nodes:
            cts = cotangents.pop(node, None)
            if cts is None:
                continue
            _through_hooks(node, cts)
            if targets is not None:
                for k, ct in enumerate(cts):
                    if (node, k) in targets and ct is not None:
                        targets[(node, k)] = ct
            if needed is not None and node not in needed:
                continue
            wants = _wants(node, needed, leaf_targets)
            if not any(wants):
                continue
            grads, marks = _node_vjp(node, cts, wants, careful, create_graph)
            for k, g in enumerate(grads):
                if g is None or not wants[k]:
                    continue
                edge = node.edges[k]
                _add(edge, node.edge_outs[k], g, cotangents, leaves)
                if marks is not None and marks[k] and isinstance(edge, Node):
                    careful.add((edge, node.edge_outs[k]))
            if not retain:
                free(node)
        _finish_leaves(leaves, leaf_targets, accumulate)
        for node, k in targets or ():  # a target made before *since*: what has arrived there
            if node.sequence < since and node in cotangents:
                assert targets is not None
                targets[(node, k)] = cotangents[node][k]
        if not accumulate:
            assert wanted is not None and targets is not None
            return [
                targets[(t._node, t._out)] if t._node is not None else leaves.get(id(t), (t, None))[1] for t in wanted
            ]
        if targets:
            for t in wanted or ():
                if t._node is not None:
                    _accumulate(t, targets[(t._node, t._out)])
        return []
    finally:
        STATE.grad = grad_before


def _needed(nodes: list[Node], targets: Any, leaf_targets: set[int]) -> set[Node]:
    """The nodes that must run so that the targets get their gradients."""
    needed: set[Node] = set()
    for node in reversed(nodes):
        for edge, out in zip(node.edges, node.edge_outs, strict=True):
            if edge is None:
                continue
            if isinstance(edge, Node):
                if edge in needed or (edge, out) in targets:
                    needed.add(node)
                    break
            elif id(edge) in leaf_targets:
                needed.add(node)
                break
    return needed


def _wants(node: Node, needed: set[Node] | None, leaf_targets: set[int] | None) -> tuple[bool, ...]:
    """Which operands' cotangents are worth computing."""
    if needed is None or leaf_targets is None or not node.plain:
        return tuple([e is not None for e in node.edges])
    return tuple([
        e is not None and (isinstance(e, Node) or id(e) in leaf_targets) for e in node.edges
    ])  # fmt: skip


def _add(
    edge: Any, out: int, ct: Tensor, cotangents: dict[Node, list[Tensor | None]],
    leaves: dict[int, tuple[Tensor, Tensor | None]],
) -> None:  # fmt: skip
    if isinstance(edge, Node):
        slots = cotangents.get(edge)
        if slots is None:
            slots = cotangents[edge] = [None] * len(edge.outputs)
        known = slots[out]
        slots[out] = ct if known is None else apply(ADD, (known, ct))
    else:
        _, known = leaves.get(id(edge), (edge, None))
        leaves[id(edge)] = (edge, ct if known is None else apply(ADD, (known, ct)))


def _through_hooks(node: Node, cts: list[Tensor | None]) -> None:
    if node.tensor_hooks is not None:
        for k, hooks in node.tensor_hooks.items():
            ct = cts[k]
            if ct is not None:
                cts[k] = _call_hooks(hooks, ct)
    if node.pre_hooks:
        for hook in list(node.pre_hooks.values()):
            replaced = hook(tuple(cts))
            if replaced is not None:
                cts[:] = list(replaced)
    if node.retained is not None:
        for k, reference in node.retained.items():
            t, ct = reference(), cts[k]
            if t is not None and ct is not None:
                _accumulate(t, ct)


def _call_hooks(hooks: Any, ct: Tensor) -> Tensor:
    for hook in list(hooks.values()):
        replaced = hook(ct)
        if replaced is not None:
            if not isinstance(replaced, Tensor):
                raise TypeError(f"expected Variable, but hook returned '{type(replaced).__name__}'")
            if replaced.shape != ct.shape:
                raise RuntimeError(
                    f"hook has changed the size of value: {list(ct.shape)} became {list(replaced.shape)}"
                )
            ct = replaced
    return ct


def _node_vjp(
    node: Node, cts: list[Tensor | None], wants: tuple[bool, ...], careful: set[tuple[Node, int]], create_graph: bool
) -> tuple[Sequence[Tensor | None], Sequence[bool] | None]:
    """(a cotangent for each operand, which of them need care)"""
    if node.freed:
        raise RuntimeError(_AGAIN)
    marks: Sequence[bool] | None = None
    if node.plain:
        grads, marks = _plain_vjp(node, cts, wants, any((node, k) in careful for k in range(len(cts))), create_graph)
    else:
        grads = node.custom_vjp(cts, create_graph)  # type: ignore[attr-defined]
        marks = [True] * len(grads)  # whatever Python did may have made exact zeros
    if STATE.anomaly and STATE.check_nan:
        _check_nan(node, grads)
    if node.hooks:
        for hook in list(node.hooks.values()):
            replaced = hook(tuple(grads), tuple(cts))
            if replaced is not None:
                grads = list(replaced)
    return grads, marks


def _plain_vjp(
    node: Node, cts: list[Tensor | None], wants: tuple[bool, ...], careful: bool, create_graph: bool
) -> tuple[list[Tensor | None], list[bool]]:
    assert node.op is not None
    local = node.op.vjp(tuple([aval_of(x) for x in node.inputs]), node.statics, wants, careful)
    check_versions(node, local)
    values = [_saved(node, k, create_graph) for k in local.saved_in]
    values += [_saved_result(node, k, create_graph) for k in local.saved_out]
    for k in local.seeded:
        ct = cts[k]
        if ct is None:
            aval = local.outs[k]
            ct = make(np.zeros(aval.shape, aval.dtype))
        values.append(ct)
    grads: list[Tensor | None] = [None] * len(wants)
    marks = [False] * len(wants)
    if local.gives:
        for k, g, mark in zip(local.gives, apply(local, tuple(values)), local.careful, strict=True):
            grads[k], marks[k] = g, mark
    for k, wanted in enumerate(wants):
        if wanted and grads[k] is None:  # the operation is constant in this operand
            aval = aval_of(node.inputs[k])
            grads[k] = make(np.zeros(aval.shape, aval.dtype))
    return grads, marks


def check_versions(node: Node, local: Any) -> None:
    """Raise where a value that the derivative reads was overwritten since it was saved."""
    count = len(node.inputs)
    for k in (*local.saved_in, *[count + j for j in local.saved_out]):
        saved = node.versions[k]
        if saved is not None and saved[0][0] != saved[1]:
            shape = list((node.inputs[k] if k < count else node.outputs[k - count]).shape)
            what = f"output {k - count} of {node.label}" if k >= count else "a saved operand"
            edge = node.edges[k] if k < count else None
            if isinstance(edge, Node):
                what = f"output {node.edge_outs[k]} of {edge.label}"
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[tensor of shape {shape}], which is {what}, is at version {saved[0][0]}; expected version "
                f"{saved[1]} instead. Hint: enable anomaly detection to find the operation that failed to compute its "
                "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
            )


def _saved(node: Node, k: int, create_graph: bool) -> Any:
    """A saved operand, with its history where derivatives of derivatives want it."""
    data = node.inputs[k]
    if type(data) is float or type(data) is int:
        return data
    if not create_graph or node.edges[k] is None:
        return make(data)
    edge = node.edges[k]
    if not isinstance(edge, Node):
        return edge
    return _linked(data, edge, node.edge_outs[k])


def _saved_result(node: Node, k: int, create_graph: bool) -> Tensor:
    data = node.outputs[k]
    return _linked(data, node, k) if create_graph and data.dtype.kind == "f" else make(data)


def _linked(data: Any, node: Node, out: int) -> Tensor:
    """A tensor over saved data that continues an existing history."""
    result = make(data)
    result._node, result._out, result._requires = node, out, True
    return result


def free(node: Node) -> None:
    """Let go of what was saved.  Nodes that save nothing can run again, as in PyTorch."""
    if not node.plain:
        node.custom_free()  # type: ignore[attr-defined]
        return
    assert node.op is not None
    avals = tuple([aval_of(x) for x in node.inputs])
    local = node.op.vjp(avals, node.statics, tuple([e is not None for e in node.edges]), False)
    if local.saved_in or local.saved_out:
        node.freed = True
        node.inputs = node.outputs = (None,) * len(node.outputs)
    else:
        node.inputs = avals
        node.outputs = local.outs


def _finish_leaves(leaves: dict[int, tuple[Tensor, Tensor | None]], only: set[int] | None, accumulate: bool) -> None:
    for key, (leaf, ct) in list(leaves.items()):
        if ct is None or (only is not None and key not in only) or not leaf._requires:
            continue
        if leaf._hooks:
            ct = _call_hooks(leaf._hooks, ct)
            leaves[key] = (leaf, ct)
        if accumulate:
            accumulate_leaf(leaf, ct)


def _finish_leaf(leaf: Tensor, gradient: np.ndarray) -> None:
    """``.grad`` of a leaf takes in *gradient*, an array that nobody else holds."""
    if not leaf._requires:  # it did when the graph was made
        return
    known = leaf._grad
    if known is None and leaf._hooks is None and leaf._after is None:
        result = core._new(Tensor)
        result._data = gradient
        result._counter = [0]
        leaf._grad = result
        return
    ct = make(gradient)
    if leaf._hooks:
        ct = _call_hooks(leaf._hooks, ct)
    accumulate_leaf(leaf, ct)


def accumulate_leaf(leaf: Tensor, ct: Tensor) -> None:
    _accumulate(leaf, ct)
    if leaf._after:
        for hook in list(leaf._after.values()):
            hook(leaf)


def _accumulate(t: Tensor, ct: Tensor | None) -> None:
    """Add to ``t.grad``: in place, unless the gradients are themselves recorded."""
    if ct is None:
        return
    known = t.grad
    if known is None:
        # a copy: the same cotangent may be on its way elsewhere, or belong to the user
        set_grad(t, ct if ct._requires else make(raw(ct).copy()))
    elif ct._requires or known._requires:
        set_grad(t, apply(ADD, (known, ct)))
    else:
        data = raw(known)
        data[...] = data + raw(ct)
        known._counter[0] += 1


def retain(t: Tensor) -> None:
    node = t._node
    assert node is not None
    if node.retained is None:
        node.retained = {}
    node.retained[t._out] = weakref.ref(t)


def _check_nan(node: Node, grads: Sequence[Tensor | None]) -> None:
    for k, g in enumerate(grads):
        if g is not None and not isinstance(raw(g), TracedArray) and np.isnan(raw(g)).any():
            where = "" if node.site is None else f"\n  the forward operation was at {node.site.full()}"
            raise RuntimeError(f"Function '{node.label}' returned nan values in its {k}th output.{where}")


def _site() -> Site | None:
    return user_site()


def _tensor_backward(t: Tensor, gradient: Any, retain_graph: Any, create_graph: bool, inputs: Any) -> None:
    backward(t, gradient, retain_graph, create_graph, inputs)


core._ENGINE.update(backward=_tensor_backward, retain=retain, site=_site)
