"""Reverse mode over the tape, node by node: the walk behind ``backward`` and ``grad``.

Start reading at ``run``.  Nodes are visited in the reverse of the order in which they ran; cotangents are Tensors, and
a node's derivative (``node_vjp.py``) is an operation on tensors like any other, so with ``create_graph`` the backward
is on the tape itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tracer.ir.settings import AUTOCAST_USE
from . import tensor as core
from .apply import apply, untaped
from .modes import STATE
from .node import TapeNode
from .node_vjp import free, node_vjp
from .on_device import filled
from .ops_basic import ADD
from .tensor import Tensor, make, raw, set_grad


def _ones(root: Tensor) -> Tensor:
    data = raw(root)
    return make(filled(1, data.shape, data.dtype, data))


def collect(roots: Sequence[Tensor], since: int = 0) -> list[TapeNode]:
    """The nodes behind *roots*, latest first, without those made before *since*."""
    seen: set[TapeNode] = set()
    stack = [r._node for r in roots if r._node is not None and r._node.sequence >= since]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for edge in node.edges:
            if isinstance(edge, TapeNode) and edge not in seen and edge.sequence >= since:
                stack.append(edge)
    return sorted(seen, key=_by_sequence, reverse=True)


def _by_sequence(node: TapeNode) -> int:
    return node.sequence


def run(
    roots: Sequence[Tensor], seeds: Sequence[Tensor | None], retain: bool, create_graph: bool,
    wanted: Sequence[Tensor] | None, *, accumulate: bool, since: int = 0,
) -> list[Tensor | None]:  # fmt: skip
    nodes = collect(roots, since)
    capture = STATE.capture
    if capture is not None and not since:
        capture.check_history(nodes)
    leaves: dict[int, tuple[Tensor, Tensor | None]] = {}  # leaf -> its gradient so far
    targets: dict[tuple[TapeNode, int], Tensor | None] | None = None
    leaf_targets: set[int] | None = None
    needed: set[TapeNode] | None = None
    if wanted is not None:
        for t in wanted:
            if t._base is not None:
                core.refresh(t)
        targets = {(t._node, t._out): None for t in wanted if t._node is not None}
        leaf_targets = {id(t) for t in wanted if t._node is None}
        needed = _needed(nodes, targets, leaf_targets)
    cotangents: dict[TapeNode, list[Tensor | None]] = {}
    careful: set[tuple[TapeNode, int]] = set()
    grad_before = STATE.grad
    STATE.grad = create_graph
    try:
        for root, seed in zip(roots, seeds, strict=True):
            _add(root._node or root, root._out, _ones(root) if seed is None else seed, cotangents, leaves)
        for node in nodes:
            cts = cotangents.pop(node, None)
            if cts is None:
                continue
            if node.tensor_hooks is not None or node.pre_hooks or node.retained is not None:
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
            if capture is not None:
                capture.differentiate(node)
            grads, marks = node_vjp(node, cts, wants, careful, create_graph)
            for k, g in enumerate(grads):
                if g is None or not wants[k]:
                    continue
                edge = node.edges[k]
                _add(edge, node.edge_outs[k], g, cotangents, leaves)
                if marks is not None and marks[k] and isinstance(edge, TapeNode):
                    careful.add((edge, node.edge_outs[k]))
            if not retain:
                free(node)
        if capture is not None:
            capture.differentiate(None)
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
                    _accumulate(t, targets[(t._node, t._out)], not create_graph)
        return []
    finally:
        STATE.grad = grad_before
        if capture is not None:
            capture.differentiate(None)


def _needed(nodes: list[TapeNode], targets: Any, leaf_targets: set[int]) -> set[TapeNode]:
    """The nodes that must run so that the targets get their gradients."""
    needed: set[TapeNode] = set()
    for node in reversed(nodes):
        for edge, out in zip(node.edges, node.edge_outs, strict=True):
            if edge is None:
                continue
            if isinstance(edge, TapeNode):
                if edge in needed or (edge, out) in targets:
                    needed.add(node)
                    break
            elif id(edge) in leaf_targets:
                needed.add(node)
                break
    return needed


def _wants(node: TapeNode, needed: set[TapeNode] | None, leaf_targets: set[int] | None) -> tuple[bool, ...]:
    """Flags of the operands whose cotangents are needed."""
    if needed is None or leaf_targets is None or not node.plain:
        return tuple([e is not None for e in node.edges])
    return tuple([
        e is not None and (isinstance(e, TapeNode) or id(e) in leaf_targets) for e in node.edges
    ])  # fmt: skip


def _add(
    edge: Any, out: int, ct: Tensor, cotangents: dict[TapeNode, list[Tensor | None]],
    leaves: dict[int, tuple[Tensor, Tensor | None]],
) -> None:  # fmt: skip
    if isinstance(edge, TapeNode):
        slots = cotangents.get(edge)
        if slots is None:
            slots = cotangents[edge] = [None] * len(edge.outputs)
        known = slots[out]
        slots[out] = ct if known is None else _sum(known, ct)
    else:
        _, known = leaves.get(id(edge), (edge, None))
        leaves[id(edge)] = (edge, ct if known is None else _sum(known, ct))


def _sum(known: Tensor, ct: Tensor) -> Tensor:
    if STATE.capture is None or STATE.grad or AUTOCAST_USE.begun:
        return apply(ADD, (known, ct))
    return untaped(ADD, (raw(known), raw(ct)))


def _through_hooks(node: TapeNode, cts: list[Tensor | None]) -> None:
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
                _accumulate(t, ct, False)


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


def _finish_leaves(leaves: dict[int, tuple[Tensor, Tensor | None]], only: set[int] | None, accumulate: bool) -> None:
    for key, (leaf, ct) in list(leaves.items()):
        if ct is None or (only is not None and key not in only) or not leaf._requires:
            continue
        if leaf._hooks:
            ct = _call_hooks(leaf._hooks, ct)
            leaves[key] = (leaf, ct)
        if accumulate:
            accumulate_leaf(leaf, ct, not STATE.grad)


def finish_leaf(leaf: Tensor, gradient: np.ndarray) -> None:
    """Accumulate *gradient*, an array that nobody else holds, into the ``.grad`` of a leaf."""
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
    accumulate_leaf(leaf, ct, True)


def accumulate_leaf(leaf: Tensor, ct: Tensor, in_place: bool) -> None:
    _accumulate(leaf, ct, in_place)
    if leaf._after:
        for hook in list(leaf._after.values()):
            hook(leaf)


def _accumulate(t: Tensor, ct: Tensor | None, in_place: bool) -> None:
    """Add to ``t.grad``, which others may hold: as PyTorch *in place* for a leaf, unless with ``create_graph``."""
    if ct is None:
        return
    known = t.grad
    if known is None:
        # a copy: the same cotangent may be on its way elsewhere, or belong to the user
        set_grad(t, ct if ct._requires else make(raw(ct).copy()))
    elif not in_place:
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
