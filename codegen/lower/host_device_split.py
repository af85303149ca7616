"""Split of a device program into a host part, which depends on host values alone, and a device part.

Scalars computed from scalars (Adam's step size, a counter) cost a launch each on the device, and next to nothing on
the host.  So they are a program of their own, which runs first; its values that the device reads become inputs of the
device's program.  ``divide`` returns a ``Divided``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...tracer.ir.graph import Atom, Graph, Guard, Node, Var, live_nodes, read_vars


@dataclass(frozen=True, slots=True)
class Divided:
    """*host* gives its share of the results, in order, and then *numbers*; *device* takes inputs and then *numbers*,
    and gives the other results, in order.  ``host_reads`` and ``device_reads`` are positions among the inputs of the
    whole, ``host_guards`` and ``device_guards`` among its guards."""

    host: Graph
    device: Graph
    numbers: tuple[Var, ...]
    host_reads: tuple[int, ...]
    device_reads: tuple[int, ...]
    host_guards: tuple[int, ...]
    device_guards: tuple[int, ...]


def divide(graph: Graph, inputs_on_host: Sequence[bool], results_on_host: Sequence[bool]) -> Divided | None:
    """*graph* in two parts.  None: a result that has to lie on the host depends on device values.

    Guards that the host can answer are the host's.
    """
    known = {v for v, here in zip(graph.inputs, inputs_on_host, strict=True) if here} | {v for v, _ in graph.consts}
    for node in graph.nodes:
        if _within(node.inputs, known):
            known.update(node.outs)
    kept, results = _apart(graph.outputs, results_on_host)
    if not _within(kept, known):
        return None
    guards = [_within([g.atom], known) for g in graph.guards]
    answered, asked = _apart(graph.guards, guards)
    working = [n for n in graph.nodes if not _gives_numbers(n, known)]
    working = live_nodes(working, [*results, *[g.atom for g in asked]])
    read = read_vars(working, [*results, *[g.atom for g in asked]])
    given = {*graph.inputs, *[v for v, _ in graph.consts], *[o for n in working for o in n.outs]}
    numbers = tuple([o for n in graph.nodes for o in n.outs if o in read and o not in given])
    host, host_reads = _part(graph, graph.nodes, [*kept, *numbers], answered)
    device, device_reads = _part(graph, working, results, asked, numbers)
    host_guards, device_guards = _apart(range(len(guards)), guards)
    return Divided(host, device, numbers, host_reads, device_reads, tuple(host_guards), tuple(device_guards))


def _apart(items: Sequence[Any], on_host: Sequence[bool]) -> tuple[list[Any], list[Any]]:
    """(those of *items* that are the host's, the others)."""
    pairs = list(zip(items, on_host, strict=True))
    return [x for x, here in pairs if here], [x for x, here in pairs if not here]


def _within(atoms: Sequence[Atom], known: set[Var]) -> bool:
    return all(not isinstance(a, Var) or a in known for a in atoms)


def _gives_numbers(node: Node, known: set[Var]) -> bool:
    return all(o in known and not o.aval.shape for o in node.outs)


def _part(
    graph: Graph, nodes: Sequence[Node], outputs: list[Atom], guards: list[Guard], numbers: tuple[Var, ...] = ()
) -> tuple[Graph, tuple[int, ...]]:
    """(the graph that gives *outputs*, which of the inputs it reads); *numbers* are further inputs."""
    roots = [*outputs, *[g.atom for g in guards]]
    nodes = live_nodes(nodes, roots)
    read = read_vars(nodes, roots)
    reads = tuple([k for k, v in enumerate(graph.inputs) if v in read])
    consts = [c for c in graph.consts if c[0] in read]
    return Graph([*[graph.inputs[k] for k in reads], *numbers], nodes, outputs, guards, consts), reads
