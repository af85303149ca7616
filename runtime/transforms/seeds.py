"""Groups of inputs whose tangents a forward Jacobian pushes together.

One batch of all unit vectors pushes zeros wherever only some of the inputs are read.  That is a waste where a function
takes its unknowns apart and most of them enter late: the places of 100 points on a surface, and 26 angles that move it.
Then the inputs that are read late are pushed by themselves, through what depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...codegen.derive.activity import depends_on
from ...tracer.ir.graph import Atom, Graph, Node, Var
from ...tracer.ir.primitive import LOOP
from ...tracer.ops.shape import SLICE
from ..record.inner import InnerRun

MOST_PARTS = 64  # of the inputs
LEAST_WORK = 1 << 16  # numbers in all tangents: below it one batch is compiled faster, and fast enough
GAIN = 0.5  # the share of the work that two batches may be


@dataclass(slots=True)
class InputPart:
    """The elements from *start* to *stop* of variable number *variable*.  *reads*: the Vars as which they are read, and
    the number of the first element of each."""

    variable: int
    start: int
    stop: int
    reads: list[tuple[Var, int]]
    reached: set[int] = field(default_factory=set)  # the nodes that depend on it

    @property
    def size(self) -> int:
        return self.stop - self.start


def groups_of(run: InnerRun, outputs: Iterable[Atom]) -> list[list[InputPart]]:
    """The inputs of *run* in groups: one, or those that are read late and the others.  *outputs*: its results."""
    nodes = run.nodes
    parts = [part for k, v in enumerate(run.variables) for part in _parts(k, v, nodes, outputs)]
    size = sum(v.aval.size for v in run.variables)
    if any(v.aval.is_complex for v in run.variables) or not 2 <= len(parts) <= MOST_PARTS:
        return [parts]
    works = [_work(node) for node in nodes]
    for part in parts:
        active = depends_on(nodes, [v for v, _ in part.reads])
        part.reached = {k for k, node in enumerate(nodes) if not active.isdisjoint(node.outs)}
    parts.sort(key=lambda part: sum(works[k] for k in part.reached))

    def cost(group: Sequence[InputPart]) -> int:
        reached = set[int]().union(*[part.reached for part in group])
        return sum(part.size for part in group) * sum(works[k] for k in reached)

    least, at = min((cost(parts[:k]) + cost(parts[k:]), k) for k in range(1, len(parts)))
    whole = size * sum(works[k] for k in set[int]().union(*[part.reached for part in parts]))
    if whole < LEAST_WORK or least > GAIN * whole:
        return [parts]
    return [sorted(group, key=lambda part: (part.variable, part.start)) for group in (parts[:at], parts[at:])]


def _parts(number: int, variable: Var, nodes: Sequence[Node], outputs: Iterable[Atom]) -> Iterator[InputPart]:
    """The parts that a vector is taken apart into; else all of it."""
    readers = [node for node in nodes if any(a is variable for a in node.inputs)]
    sliced = all(node.prim is SLICE and node.params["step"] == (1,) for node in readers)
    if not (sliced and variable.aval.ndim == 1) or any(a is variable for a in outputs):
        yield InputPart(number, 0, variable.aval.size, [(variable, 0)])
        return
    part: InputPart | None = None
    for node in sorted(readers, key=lambda node: node.params["start"]):
        (start,), (length,) = node.params["start"], node.params["shape"]
        if part is None or start >= part.stop:
            if part is not None:
                yield part
            part = InputPart(number, start, start, [])
        part.stop = max(part.stop, start + length)
        part.reads.append((node.out, start))
    if part is not None:
        yield part


def _work(node: Node) -> int:
    """The numbers that *node* computes, by terms for a product."""
    if node.prim.kind == LOOP:
        body, length = node.params.get("body"), node.params.get("length")
        turn = sum(_work(inner) for inner in body.nodes) if isinstance(body, Graph) else 1
        return turn * length if isinstance(length, int) else turn
    count = sum(out.aval.size for out in node.outs)
    if node.prim.name == "matmul":
        x = node.inputs[0].aval
        return count * x.shape[-2 if node.params.get("ta") else -1]
    return count
