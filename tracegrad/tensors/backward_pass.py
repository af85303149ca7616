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

from ..tracer.ir.forks import lock
from ..tracer.ir.settings import AUTOCAST_USE
from . import hooks
from . import tensor as core
from .apply import apply, untaped
from .modes import STATE, no_grad
from .node import TapeNode, not_in_a_loop
from .node_vjp import free, node_vjp
from .on_device import filled
from .ops_basic import ADD
from .tensor import Tensor, make, raw, set_grad

_accumulating = lock()  # threads may share leaves


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


def origins_of(t: Tensor, since: int) -> set[tuple[Any, int]]:
    """The origins on which *t* depends: leaves, and results of nodes; those made before *since* are the last."""
    seen: set[tuple[Any, int]] = {(t._node or t, t._out)}
    stack = [*seen]
    while stack:
        node, out = stack.pop()
        if isinstance(node, TapeNode) and node.sequence >= since:
            found = {(edge, k) for _, edge, k in node.edges_of(out)} - seen
            seen |= found
            stack += found
    return seen


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
    walk = _Backward(nodes, wanted, accumulate, create_graph)
    if capture is not None and not all(node.plain or node.logged for node in nodes):
        raise capture.log.refuse("a backward that runs derivatives of the user's own")
    grad_before = STATE.grad
    STATE.grad = create_graph
    try:
        for root, seed in zip(roots, seeds, strict=True):
            walk.add(root._node or root, root._out, _ones(root) if seed is None else seed)
        walk.finish_roots()
        for node in nodes:
            cts = walk.cotangents.pop(node, None)
            if cts is not None and walk.through(node, cts) and not retain:
                free(node)
            if walk.arrivals is not None:
                walk.finish_behind(node)
        if capture is not None:
            capture.differentiate(None)
        for key in list(walk.leaves):
            walk.finish(key)
        return walk.results(since)
    finally:
        STATE.grad = grad_before
        if capture is not None:
            capture.differentiate(None)


class _Backward:
    """One backward: the cotangents on their way, and what has arrived at leaves and targets."""

    def __init__(
        self, nodes: list[TapeNode], wanted: Sequence[Tensor] | None, accumulate: bool, create_graph: bool
    ) -> None:  # fmt: skip
        self.wanted, self.accumulate, self.create_graph = wanted, accumulate, create_graph
        self.cotangents: dict[TapeNode, list[Tensor | None]] = {}
        self.careful: set[tuple[TapeNode, int]] = set()  # results whose cotangents may hold exact zeros
        self.leaves: dict[int, tuple[Tensor, Tensor | None]] = {}  # leaf -> its gradient so far
        self.finished: set[int] = set()  # leaves
        self.targets: dict[tuple[TapeNode, int], Tensor | None] | None = None
        self.leaf_targets: set[int] | None = None
        self.needed: set[TapeNode] | None = None
        if wanted is not None:
            for t in wanted:
                if t._base is not None:
                    core.refresh(t)
            self.targets = {(t._node, t._out): None for t in wanted if t._node is not None}
            self.leaf_targets = {id(t) for t in wanted if t._node is None}
            self.needed = _needed(nodes, self.targets, self.leaf_targets)
        self.arrivals = _arrivals(nodes)

    def add(self, edge: Any, out: int, ct: Tensor) -> None:
        """Add to the cotangent of a node's result, or of a leaf."""
        if isinstance(edge, TapeNode):
            slots = self.cotangents.get(edge)
            if slots is None:
                slots = self.cotangents[edge] = [None] * len(edge.outputs)
            known = slots[out]
            slots[out] = ct if known is None else _sum(known, ct)
        else:
            _, known = self.leaves.get(id(edge), (edge, None))
            self.leaves[id(edge)] = (edge, ct if known is None else _sum(known, ct))

    def through(self, node: TapeNode, cts: list[Tensor | None]) -> bool:
        """Take the cotangents of a node's results to its operands; False where nobody needs them there."""
        needed = self.needed is None or node in self.needed
        wants = _wants(node, cts, self.needed, self.leaf_targets) if needed else ()
        runs = any(wants)
        if runs:
            self._reach_targets(node, cts)
        if node.tensor_hooks is not None or node.retained is not None:
            _through_tensor_hooks(node, cts)
        if not runs:
            self._reach_targets(node, cts)
            return False
        if node.pre_hooks:
            cts = list(hooks.before(node.pre_hooks, cts))
        if STATE.capture is not None:
            STATE.capture.differentiate(node)
        grads, marks = node_vjp(node, cts, wants, self.careful, self.create_graph)
        for k, g in enumerate(grads):
            if g is None or not wants[k]:
                continue
            edge = node.edges[k]
            self.add(edge, node.edge_outs[k], g)
            if marks is not None and marks[k] and isinstance(edge, TapeNode):
                self.careful.add((edge, node.edge_outs[k]))
        return True

    def _reach_targets(self, node: TapeNode, cts: list[Tensor | None]) -> None:
        """Note the gradients of results that the user has asked for: as PyTorch, before the hooks where the walk goes
        on from there, after them where it ends."""
        if self.targets is not None:
            for k, ct in enumerate(cts):
                if (node, k) in self.targets and ct is not None:
                    self.targets[(node, k)] = ct

    def finish_roots(self) -> None:
        """Finish the leaves that no node leads to."""
        if self.arrivals is not None:
            for key in [key for key in self.leaves if key not in self.arrivals]:
                self.finish(key)

    def finish_behind(self, node: TapeNode) -> None:
        """Finish the leaves whose last cotangent came from *node*."""
        assert self.arrivals is not None
        for edge in node.edges:
            if edge is not None and not isinstance(edge, TapeNode):
                key = id(edge)
                self.arrivals[key] -= 1
                if not self.arrivals[key] and key in self.leaves:
                    if STATE.capture is not None:
                        STATE.capture.differentiate(None)
                    self.finish(key)

    def finish(self, key: int) -> None:
        """Take the gradient of a leaf, all of which has arrived, to its ``.grad``."""
        leaf, ct = self.leaves[key]
        if ct is None or key in self.finished or (self.leaf_targets is not None and key not in self.leaf_targets):
            return
        self.finished.add(key)
        if leaf._hooks:
            ct = hooks.of_tensor(leaf._hooks, ct)
            self.leaves[key] = (leaf, ct)
        if self.accumulate:
            accumulate_leaf(leaf, ct, not STATE.grad)

    def results(self, since: int) -> list[Tensor | None]:
        """The gradients that were asked for; for ``backward``, accumulated into ``.grad`` instead."""
        for node, k in self.targets or ():  # a target made before *since*: what has arrived there
            if node.sequence < since and node in self.cotangents:
                assert self.targets is not None
                self.targets[(node, k)] = self.cotangents[node][k]
        wanted, targets = self.wanted, self.targets
        if not self.accumulate:
            assert wanted is not None and targets is not None
            return [
                targets[(t._node, t._out)] if t._node is not None else self.leaves.get(id(t), (t, None))[1]
                for t in wanted
            ]
        if targets:
            for t in wanted or ():
                if t._node is not None:
                    _accumulate(t, targets[(t._node, t._out)], not self.create_graph)
        return []


def _arrivals(nodes: list[TapeNode]) -> dict[int, int] | None:
    """How many cotangents each leaf waits for, where hooks could see which of them is finished first; else None."""
    leaves: dict[int, Tensor] = {}
    counts: dict[int, int] = {}
    hooked = False
    for node in nodes:
        hooked = hooked or bool(node.tensor_hooks or node.hooks or node.pre_hooks) or not node.plain
        for edge in node.edges:
            if edge is not None and not isinstance(edge, TapeNode):
                key = id(edge)
                counts[key] = counts.get(key, 0) + 1
                leaves[key] = edge
    return counts if hooked or any(map(hooks.at_leaf, leaves.values())) else None


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


def _wants(
    node: TapeNode, cts: Sequence[Tensor | None], needed: set[TapeNode] | None, leaf_targets: set[int] | None
) -> tuple[bool, ...]:
    """Flags of the operands whose cotangents are needed, where those of the results are *cts*."""
    if node.reaches is not None:
        given = [operands for operands, ct in zip(node.reaches, cts, strict=True) if ct is not None]
        edges = [e if any(k in operands for operands in given) else None for k, e in enumerate(node.edges)]
    else:
        edges = [*node.edges]
    if needed is None or leaf_targets is None or not node.plain:
        return tuple([e is not None for e in edges])
    return tuple([e is not None and (isinstance(e, TapeNode) or id(e) in leaf_targets) for e in edges])


def _sum(known: Tensor, ct: Tensor) -> Tensor:
    if STATE.capture is None or STATE.grad or AUTOCAST_USE.begun:
        return apply(ADD, (known, ct))
    return untaped(ADD, (raw(known), raw(ct)))


def _through_tensor_hooks(node: TapeNode, cts: list[Tensor | None]) -> None:
    """Call the hooks of a node's results, then keep the gradients that ``retain_grad`` asks for."""
    for k, found in (node.tensor_hooks or {}).items():
        ct = cts[k]
        if ct is not None:
            cts[k] = hooks.of_tensor(found, ct)
    for k, reference in (node.retained or {}).items():
        t, ct = reference(), cts[k]
        if t is not None and ct is not None:
            _accumulate(t, ct, False)


def finish_leaves(found: Sequence[tuple[Tensor, np.ndarray]], nodes: Sequence[TapeNode]) -> None:
    """Accumulate gradients, arrays that nobody else holds, into the ``.grad`` of leaves; *nodes*: of the walk in whose
    place a kernel has run."""
    if any(leaf._hooks or leaf._after or leaf._end for leaf, _ in found):
        last: dict[int, int] = {}  # leaf -> the edge by which its gradient is complete
        for node in nodes:
            for edge in node.edges:
                if edge is not None and not isinstance(edge, TapeNode):
                    last.pop(id(edge), None)
                    last[id(edge)] = 0
        order = {key: k for k, key in enumerate(last)}
        with no_grad():
            for leaf, gradient in sorted(found, key=lambda pair: order[id(pair[0])]):
                ct = make(gradient)
                accumulate_leaf(leaf, hooks.of_tensor(leaf._hooks, ct) if leaf._hooks else ct, True)
        return
    for leaf, gradient in found:
        if not leaf._requires:  # it did when the graph was made
            continue
        with _accumulating:
            if leaf._grad is None:
                result = core._new(Tensor)
                result._data = gradient
                result._counter = [0]
                leaf._grad = result
                continue
        _accumulate(leaf, make(gradient), True)


def accumulate_leaf(leaf: Tensor, ct: Tensor | None, in_place: bool) -> None:
    """The step of the ``AccumulateGrad`` of a leaf, between its hooks."""
    end = hooks.end_of(leaf)
    if end is not None and end.pre_hooks:
        (ct,) = hooks.before(end.pre_hooks, (ct,))
    if leaf._requires and ct is not None:  # it did when the graph was made
        _accumulate(leaf, ct, in_place)
    for hook in list(leaf._after.values()) if leaf._after else ():
        hooks.called(hook, leaf)
    if end is not None and end.hooks:
        hooks.after(end.hooks, (), (ct,))


def _accumulate(t: Tensor, ct: Tensor | None, in_place: bool) -> None:
    """Add to ``t.grad``, which others may hold: as PyTorch *in place* for a leaf, unless with ``create_graph``."""
    if ct is None:
        return
    with _accumulating:
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
    not_in_a_loop("a gradient is retained")
    if node.retained is None:
        node.retained = {}
    node.retained[t._out] = weakref.ref(t)
