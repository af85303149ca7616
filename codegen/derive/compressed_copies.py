"""Copies of inputs, and what results are copies of: views are followed, by the numbers of their elements.

The Jacobian between the two may be much sparser than that of the whole program: where each observation reads one of few
cameras, the copies of their parameters are shared by no other.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from ...tracer.ir.evaluate import params_of
from ...tracer.ir.graph import Atom, Node, Var
from .sparsity import VIEWS, Known

_SPREAD = 4  # times as many elements, from which on a broadcast value is one of copies


def _numbered(node: Node, known: Known, numbers: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The view *node* of numbers in place of its operands (None: of no interest, 0); None where it is no view, or where
    positions are not known."""
    if node.prim.name not in VIEWS:
        return None
    given: list[np.ndarray] = []
    for k, (x, found) in enumerate(zip(node.inputs, numbers, strict=True)):
        if k == 1 and node.prim.name in ("gather", "scatter"):
            index = known.value(x)
            if index is None:
                return None
            found = index
        given.append(np.zeros(x.aval.shape, np.int64) if found is None else found)
    return np.asarray(node.prim.impl(*given, **params_of(node)))


def copies_of(
    nodes: Sequence[Node], outputs: Sequence[Atom], wrt: Sequence[Var], known: Known
) -> list[tuple[Var, np.ndarray]]:
    """The values that cotangents are taken of: *wrt*, or views of them in which elements stand many times, and which
    the program computes with; with the numbers of their elements among those of *wrt*, -1 for none."""
    found: dict[Var, np.ndarray] = {}
    first = 1
    for v in wrt:
        found[v] = np.arange(first, first + v.aval.size).reshape(v.aval.shape)
        first += v.aval.size
    varied = set(wrt)
    views: list[tuple[Var, list[Var], bool]] = []  # (a view, what it is of, whether elements stand in it many times)
    used = [a for a in outputs if isinstance(a, Var)]
    for node in nodes:
        given = [a for a in node.inputs if isinstance(a, Var) and a in varied and a.aval.is_float]
        if not given:
            continue
        varied.update(o for o in node.outs if o.aval.is_float)
        view = _numbered(node, known, [found.get(a) for a in node.inputs]) if all(a in found for a in given) else None  # type: ignore[arg-type]
        if view is None:
            used += given
            continue
        found[node.out] = view
        repeated = view.size > _SPREAD * sum([a.aval.size for a in given])
        if node.prim.name == "gather" and not repeated:
            repeated = bool(np.bincount(view.reshape(-1))[1:].max(initial=0) > 1)
        views.append((node.out, given, repeated))
    used = [a for a in used if a in found]
    roots = _roots(used, wrt, views, parts=False)
    if not roots <= dict.fromkeys(wrt).keys():
        roots = _roots(used, wrt, views, parts=True)
    copies = [(v, found[v].reshape(-1) - 1) for v in found if v in roots]
    return sorted(copies, key=lambda copy: int(copy[1].min(initial=first)))  # rows are mostly in order then


def _roots(
    used: Sequence[Var], wrt: Sequence[Var], views: Sequence[tuple[Var, list[Var], bool]], parts: bool
) -> Set[Var]:
    """The values that *used* are views of: *wrt*, or copies; with *parts* the first parts that are read of *wrt*, so
    that it has the length of what is computed."""
    of: dict[Var, dict[Var, None]] = {v: {v: None} for v in wrt}
    for view, given, repeated in views:
        part = parts and len(given) == 1 and view.aval.size < given[0].aval.size and given[0] in wrt
        of[view] = {view: None} if repeated or part else {root: None for a in given for root in of[a]}
    return {root for a in used for root in of[a]}


def sources_of(
    nodes: Sequence[Node], outputs: Sequence[Atom], known: Known, stop: set[Var]
) -> tuple[list[Var], np.ndarray]:
    """The values that the elements of *outputs* are copies of, and for each the element that it is a copy of, these
    values one after the other; -1 where it is a constant."""
    producers = {o: n for n in nodes for o in n.outs}
    sources: dict[Var, int] = {}
    size = 0
    found = []
    for out in outputs:
        places = np.arange(out.aval.size)
        result = np.full(out.aval.size, -1, np.int64)
        todo = [(out, places, places)]  # (value, elements of it, elements of `out` that are copies of these)
        while todo:
            value, elements, of = todo.pop()
            if not isinstance(value, Var) or not len(of):
                continue
            node = None if value in stop or value in sources else producers.get(value)
            first, numbers = 1, list[np.ndarray | None]()
            for a in node.inputs if node is not None else ():
                numbers.append(np.arange(first, first + a.aval.size).reshape(a.aval.shape))
                first += a.aval.size
            view = None if node is None else _numbered(node, known, numbers)
            if node is None or view is None:
                if value not in sources:
                    sources[value] = size
                    size += value.aval.size
                result[of] = sources[value] + elements
                continue
            moved = view.reshape(-1)[elements]
            for a, own in zip(node.inputs[::-1], numbers[::-1], strict=True):  # the first one is popped first
                assert own is not None
                if not own.size or not a.aval.is_float:
                    continue
                start = own.reshape(-1)[0]
                inside = (moved >= start) & (moved < start + own.size)
                todo.append((a, moved[inside] - start, of[inside]))
        found.append(result)
    return list(sources), np.concatenate(found) if found else np.zeros(0, np.int64)
