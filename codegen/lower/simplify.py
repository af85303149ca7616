"""Small rewrites of a graph before it gets its signature.

Each rule is a function of one node; ``RULES`` says which it looks at.  Numbers may be looked at freely here: the
rewritten graph is what gets the signature.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator
from dataclasses import replace

import numpy as np

from ...tracer.ir.aval import FLOAT_KINDS, HALF, Aval
from ...tracer.ir.graph import (
    Atom,
    Builder,
    Graph,
    Lit,
    Node,
    Var,
    bind,
    building,
    identity,
    live_graph,
)
from ...tracer.ir.primitive import CUSTOM, VIEW
from ...tracer.ops.loop_pruning import prune_loops
from ...tracer.ops.shape import full, reshape, take_slice, transpose
from .canonical import STATIC_LIMIT
from .carry_shapes import carries_as_written
from .covered_loops import merge_covered_loops
from .equal_axes import is_edge_pad
from .half_precision import in_float32
from .joined_pads import join_pads
from .long_concats import in_levels
from .ruled_constants import with_rules

Producers = dict[Var, Node]
Rule = Callable[[Node, Producers], Atom | None]
_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod")
SHORT = 4  # elements of an axis that are unrolled rather in the innermost loop than around all others
FEW = 4  # an array has at least as many times as many elements as are added to it one by one


def _swapped(x: Atom, producers: Producers) -> Atom | None:
    """The array whose matrix transpose is *x* (batch axes untouched), or None."""
    node = producers.get(x) if isinstance(x, Var) else None
    if node is None or node.prim.name != "transpose":
        return None
    perm = node.params["perm"]
    n = len(perm)
    return node.inputs[0] if n >= 2 and perm == (*range(n - 2), n - 1, n - 2) else None


def _matmul(node: Node, producers: Producers) -> Atom | None:
    """Turn transposed operands into flags of the product."""
    x, y = node.inputs
    ta, tb = node.params["ta"], node.params["tb"]
    x2, y2 = _swapped(x, producers), _swapped(y, producers)
    if x2 is None and y2 is None:
        return None
    return bind(
        node.prim,
        x if x2 is None else x2,
        y if y2 is None else y2,
        ta=ta != (x2 is not None),
        tb=tb != (y2 is not None),
    )


def _argument(node: Node, producers: Producers) -> Atom | None:
    """Move the axis of argmax or argmin to the end."""
    (axis,) = node.params["axes"]
    x = node.inputs[0]
    last = x.aval.ndim - 1
    if axis == last:
        return None
    perm = (*(a for a in range(last + 1) if a != axis), axis)
    return bind(node.prim, transpose(x, perm), axes=(last,))


def _product(node: Node, producers: Producers) -> Atom | None:
    """Drop a factor that is the constant 1 of the program."""
    for one, other in (node.inputs, reversed(node.inputs)):
        source = producers.get(one) if isinstance(one, Var) else None
        constant = source.inputs[0] if source is not None and source.prim.name == "broadcast" else one
        if (
            isinstance(constant, Lit)
            and constant.is_structural(1)
            and other.aval.shape == node.out.aval.shape
            and isinstance(other, Var)
        ):
            return other
    return None


def _sum(node: Node, producers: Producers) -> Atom | None:
    """Add a few elements to an array where they belong, in place of an array of zeros with these elements."""
    for part, total in (node.inputs, reversed(node.inputs)):
        made = _added(part, producers)
        if any(n.prim.name == "scatter_add" for n in made) and total.aval.shape == part.aval.shape:
            for n in made:  # back to where the elements are added
                total = _undone(n, total, producers)
            for n in reversed(made):
                total = bind(n.prim, total, *n.inputs[1:], **n.params)
            return total
    return None


def _undone(view: Node, x: Atom, producers: Producers) -> Atom:
    """*x* as the operand of *view*, whose result has the shape of *x*."""
    node = producers.get(x) if isinstance(x, Var) else None
    if view.prim.name == "transpose":
        perm = view.params["perm"]
        if node is not None and node.prim is view.prim and node.params["perm"] == perm:
            return node.inputs[0]
        return transpose(x, tuple([perm.index(a) for a in range(len(perm))]))
    shape = view.inputs[0].aval.shape
    if node is not None and node.prim.name == "reshape" and node.inputs[0].aval.shape == shape:
        return node.inputs[0]
    return reshape(x, shape)


def _added(x: Atom, producers: Producers) -> list[Node]:
    """The indexed sums and views, last first, that make *x* of zeros; none where it is made otherwise, or of many
    elements."""
    found: list[Node] = []
    count = 0
    while (node := producers.get(x) if isinstance(x, Var) else None) is not None:
        if node.prim.name == "broadcast":
            value = node.inputs[0]
            few = FEW * count <= node.out.aval.size
            return found if isinstance(value, Lit) and value.value == 0 and few else []
        if node.prim.name == "scatter_add":
            count += node.inputs[2].aval.size
        elif node.prim.name not in ("reshape", "transpose"):
            break
        found.append(node)
        x = node.inputs[0]
    return []


def _transposed(node: Node, producers: Producers) -> Atom | None:
    """One transpose of another, or of what is the same along the axes."""
    x, perm = node.inputs[0], node.params["perm"]
    source = producers.get(x) if isinstance(x, Var) else None
    if source is not None and source.prim.name == "transpose":
        return transpose(source.inputs[0], tuple([source.params["perm"][a] for a in perm]))
    if source is not None and source.prim.name == "broadcast":
        dims = tuple([perm.index(d) for d in source.params["dims"]])
        if list(dims) == sorted(dims):
            return bind(source.prim, source.inputs[0], shape=node.out.shape, dims=dims)
    return None


def _reshaped(node: Node, producers: Producers) -> Atom | None:
    """One reshape of another, or of a number that is repeated."""
    x, shape = node.inputs[0], node.out.shape
    source = producers.get(x) if isinstance(x, Var) else None
    if source is not None and source.prim.name == "reshape":
        return reshape(source.inputs[0], shape)
    if source is not None and source.prim.name == "broadcast" and not source.inputs[0].aval.shape:
        return reshape(source.inputs[0], shape) if not shape else full(source.inputs[0], shape)
    return None


def _repeated(node: Node, producers: Producers) -> Atom | None:
    """One broadcast of another."""
    x = node.inputs[0]
    source = producers.get(x) if isinstance(x, Var) else None
    if source is None or source.prim is not node.prim:
        return None
    dims = tuple([node.params["dims"][d] for d in source.params["dims"]])
    return bind(node.prim, source.inputs[0], shape=node.out.shape, dims=dims)


def _scattered(node: Node, producers: Producers) -> Atom | None:
    """Add no zeros that only fill up the elements which are added."""
    whole, index, values = node.inputs
    pad = producers.get(values) if isinstance(values, Var) else None
    if pad is None or pad.prim.name != "pad":
        return None
    added, rank = pad.inputs[0], index.aval.ndim
    start, step = pad.params["start"], pad.params["step"]
    if added.aval.shape[rank:] != values.aval.shape[rank:] or {*start[rank:]} - {0} or {*step[rank:]} - {1}:
        return None
    return bind(node.prim, whole, take_slice(index, start[:rank], step[:rank], added.aval.shape[:rank]), added)


def _cast(node: Node, producers: Producers) -> Atom | None:
    """Drop a cast that changes nothing but whose number it is, Python's or NumPy's: kernels know only dtypes."""
    x = node.inputs[0]
    return x if isinstance(x, Var) and x.aval.dtype == node.out.aval.dtype and x.aval.dtype not in HALF else None


def _part(node: Node, producers: Producers) -> Atom | None:
    """A part of a packed value as a plain view."""
    return node.prim.lower(*node.inputs, **node.params)


def _search(node: Node, producers: Producers) -> Atom | None:
    """Search numbers in the kernel, where the points are computed, and in each turn of a loop."""
    a, v = node.inputs
    return node.prim.lower(a, v, **node.params) if a.aval.dtype.kind in "iuf" and a.aval.size else None


OF_FORMULAS = frozenset((0.5, *range(-4, 5)))  # numbers that are rather part of a formula than data
RULES: dict[str, Rule] = {
    "add": _sum,
    "broadcast": _repeated,
    "cast": _cast,
    "matmul": _matmul,
    "matmulz": _matmul,
    "argmax": _argument,
    "argmin": _argument,
    "mul": _product,
    "mulz": _product,
    "reshape": _reshaped,
    "scatter_add": _scattered,
    "searchsorted": _search,
    "transpose": _transposed,
}


def widen_sums(graph: Graph) -> Graph:
    """Turn a sum over a slice into one over the whole array with zeros, where the adjoint pads to that shape anyway.

    Value and gradient of a stencil then share one loop, and one pass over the input.
    """
    wholes: dict[tuple[int, ...], Node] = {}
    for node in graph.nodes:
        if node.prim.name != "pad" or set(node.params["step"]) != {1}:
            continue
        inner = node.inputs[0].aval.shape
        if is_edge_pad(inner, node.params["shape"]):
            wholes.setdefault(inner, node)
    nodes: list[Node] = []
    for node in graph.nodes:
        x = node.inputs[0] if node.inputs else None
        if node.prim.name == "reduce_sum" and isinstance(x, Var) and len(node.params["axes"]) == x.ndim:
            pad = wholes.get(x.shape)
            if pad is not None and x.dtype.kind in FLOAT_KINDS:
                wide = Var(Aval(x.dtype, pad.params["shape"]))
                nodes.append(Node(pad.prim, (x,), pad.params, (wide,), node.site))
                node = Node(node.prim, (wide,), node.params, node.outs, node.site)
        nodes.append(node)
    return Graph(graph.inputs, nodes, graph.outputs, graph.guards, graph.consts)


def short_axes_last(graph: Graph) -> Graph:
    """Move a short first axis behind the others where a reduction sums over it (coordinates, say, of many points), and
    in other reductions of arrays of that shape: its few elements are at hand in the innermost loop then."""
    shapes = {x.shape for node, x in _reductions(graph) if 0 in node.params["axes"]}
    turned = [node.out for node, x in _reductions(graph) if x.shape in shapes]
    if not turned:
        return graph
    builder, renamed = Builder(), dict[Var, Atom]()
    with building(builder):
        for node in graph.nodes:
            node = node.on(tuple([renamed.get(x, x) if isinstance(x, Var) else x for x in node.inputs]))
            if node.out not in turned:
                builder.nodes.append(node)
                continue
            x, axes = node.inputs[0], node.params["axes"]
            builder.site_override = node.site
            last = x.aval.ndim - 1
            moved = tuple(sorted([(a or last + 1) - 1 for a in axes]))
            total = bind(node.prim, transpose(x, (*range(1, last + 1), 0)), axes=moved)
            kept = total.ndim - 1
            renamed[node.out] = total if 0 in axes else transpose(total, (kept, *range(kept)))
    return live_graph(graph, builder.nodes, lambda x: renamed.get(x, x) if isinstance(x, Var) else x)


def _reductions(graph: Graph) -> Iterator[tuple[Node, Var]]:
    """The reductions over some axes of arrays whose first axis is short, and another one long, with these arrays."""
    for node in graph.nodes:
        x = node.inputs[0] if node.inputs else None
        if node.prim.name not in _REDUCTIONS or not isinstance(x, Var) or len(node.params["axes"]) == x.ndim:
            continue
        if x.ndim > 1 and 1 < x.shape[0] <= SHORT and max(x.shape[1:]) > STATIC_LIMIT:
            yield node, x


def simplify(graph: Graph, half_products: Container[np.dtype] = ()) -> Graph:
    """*graph* with constants by their rules, loops merged that others cover, unread parts of loops removed, sums
    widened, short axes last, the rules applied, and arithmetic on float16 and bfloat16 in float32.

    *half_products*: the target has matrix products of these dtypes.
    """
    return _without_aliases(in_float32(_reduced(with_rules(graph)), half_products))


def _without_aliases(graph: Graph) -> Graph:
    """*graph* with the values themselves in place of other names for them, which have kept apart until now what is to
    be computed twice."""
    sources: dict[Var, Atom] = {}

    def current(atom: Atom) -> Atom:
        return sources.get(atom, atom) if isinstance(atom, Var) else atom

    nodes: list[Node] = []
    for node in graph.nodes:
        inputs = tuple(map(current, node.inputs))
        if node.prim.name == "alias":
            sources[node.out] = inputs[0]
        else:
            nodes.append(node.on(inputs))
    if not sources:
        return graph
    guards = [replace(g, atom=current(g.atom)) for g in graph.guards]
    return Graph(graph.inputs, nodes, [*map(current, graph.outputs)], guards, graph.consts)


def _reduced(graph: Graph) -> Graph:
    pruned = prune_loops(merge_covered_loops(graph), _reduced)
    ruled = apply_rules(carries_as_written(values_alone(short_axes_last(widen_sums(pruned))), apply_rules))
    return in_levels(join_pads(ruled))


_VALUES = {
    f"{prefix}{name}": f"{prefix}{values}"
    for name, values in (("eigh", "eigenvalues"), ("svd", "singular_values"))
    for prefix in ("", "complex_")
}


def values_alone(graph: Graph) -> Graph:
    """*graph* in which decompositions of which nothing but the values is read make no vectors."""
    packed = {node.outs[0]: _decomposed(node) for node in graph.nodes if node.prim.name in _VALUES}
    if not packed:
        return graph
    read = {packed[x] for x in graph.outputs if x in packed}
    for node in graph.nodes:
        read |= {packed[x] for x in node.inputs if x in packed and _VALUES[packed[x][0]] != node.prim.name}
    nodes = [
        Node(node.prim, node.inputs, {**node.params, "vectors": False}, node.outs, node.site)
        if node.prim.name in _VALUES and _decomposed(node) not in read
        else node
        for node in graph.nodes
    ]
    return Graph(graph.inputs, nodes, graph.outputs, graph.guards, graph.consts)


def _decomposed(node: Node) -> tuple[str, Hashable]:
    """The kind and the matrix of a decomposition: equal ones become one."""
    return node.prim.name, identity(node.inputs[0])


def _key(atom: Atom) -> Hashable:
    """The key of an operand for nodes that compute the same.  Numbers of formulas (the 1 of ``1 - x``) are told apart
    by value, whether they are the program's or the rules'; other numbers are data: where two are equal now, a later
    program may find them different."""
    if isinstance(atom, Lit) and atom.value in OF_FORMULAS:
        return atom.aval.dtype, atom.value.tobytes()
    return identity(atom)


def apply_rules(graph: Graph) -> Graph:
    """*graph* with the rules applied and nodes that compute the same as earlier ones removed, or itself where there is
    nothing to do."""
    producers: Producers = {}
    seen: dict[Hashable, Node] = {}
    renamed: dict[Var, Atom] = {}
    builder = Builder()
    changed = False

    def current(atom: Atom) -> Atom:
        return renamed.get(atom, atom) if isinstance(atom, Var) else atom

    with building(builder):
        for node in graph.nodes:
            inputs = tuple(current(a) for a in node.inputs)
            # derivatives have been taken, or nobody asked
            if node.prim.kind == CUSTOM or node.prim.name == "stop_gradient":
                changed = True
                renamed.update(zip(node.outs, inputs, strict=False))
                continue
            moved = node.on(inputs)
            builder.site_override = node.site
            rule = RULES.get(node.prim.name)
            if node.prim.kind == VIEW and node.prim.lower is not None:
                rule = _part
            count = len(builder.nodes)
            result = rule(moved, producers) if rule is not None else None
            if result is None:
                key = (node.prim, tuple(map(_key, inputs)), tuple(node.params.values()))
                first = seen.setdefault(key, moved)
                if first is not moved:
                    changed = True
                    renamed.update(zip(node.outs, first.outs, strict=True))
                    continue
                builder.nodes.append(moved)
                producers[node.out] = moved
                continue
            changed = True
            renamed[node.out] = result
            for new in builder.nodes[count:]:
                producers.setdefault(new.out, new)
    if not changed:
        return graph
    return live_graph(graph, builder.nodes, current)
