"""Programs in segments, for calls whose Python has to run each time and takes ever new ways through its branches.

The recorded program (``Pieces``) is cut where control flow asked for a value.  Each *segment* between two cuts has a
forward kernel, from what it reads of other segments to what they or the result read of it, and a backward kernel,
from what it reads and the cotangents of what it gives to the cotangents of what it reads.  So ten ``if`` statements
need kernels for twenty pieces, not for a thousand programs.  It is also cut between the iterations of its loops, which
share their kernels.

Where to cut decides nothing but speed: any cut of a list in execution order gives the same numbers.  ``cuts`` is
that heuristic.  A backward kernel computes again what it needs of its segment's forward.  The segment that makes the
loss has one kernel for both.  What NumPy has already computed for Python's questions is not computed again.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...codegen.derive.activity import depends_on, reached
from ...codegen.derive.adjoint import vjp, vjp_seeded
from ...codegen.derive.loop_adjoint import fresh, materialise
from ...codegen.evaluate.interpreter import evaluate
from ...tracer.ir.aval import Aval
from ...tracer.ir.equality import program_key
from ...tracer.ir.evaluate import Env
from ...tracer.ir.graph import Atom, Builder, Graph, Guard, Lit, Node, Var, building, live_nodes, structural
from ...tracer.ir.primitive import LOOP
from ...tracer.ir.refusals import Refusal
from ...tracer.ir.site import Site
from ...tracer.ops.host_call import calls_python
from ..config import config
from ..launch.binding import array_records, compiled, launched
from ..launch.kernel_cache import KNOWN
from ..recent import Recent
from ..record.recording import Pieces, Recording
from .paths import compare_result

PIECE = 60  # operations of a piece of a loop, at least
FEW = 4  # iterations of a loop, at least
LONG_ITERATION = 240  # operations from which on an iteration with loops in it is cut

# ---- where to cut --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Answers:
    """The answers to each guard of the control flow so far, by kind and line."""

    first: dict[tuple[str, Site | None], bytes] = field(default_factory=dict)
    varied: set[tuple[str, Site | None]] = field(default_factory=set)
    iterations: int = 0  # of loops that ran one after another, at which the last program was cut

    def learn(self, guards: Sequence[Guard]) -> None:
        for guard in guards:
            question = (guard.kind, guard.site)
            if question not in self.varied and self.first.setdefault(question, _answer(guard)) != _answer(guard):
                self.varied.add(question)

    def cuts(self, guards: Sequence[Guard]) -> list[int]:
        """The positions at which to cut.  An assertion that always holds is no reason to take kernels apart: only a
        question that has had several answers is."""
        return sorted({g.position for g in guards if (g.kind, g.site) in self.varied})

    def last(self, guards: Sequence[Guard]) -> Guard | None:
        """The last of *guards* at which the program is cut."""
        return next((g for g in reversed(guards) if (g.kind, g.site) in self.varied), None)

    def describe(self) -> str:
        """The guards that cut the program and those that don't, for ``explain()``."""
        lines = [f"cut at {kind}() at {site}: it has had several answers" for kind, site in self.varied]
        lines += [
            str(Refusal.SEGMENT_NEVER_VARIED(kind=kind, site=site))
            for kind, site in self.first
            if (kind, site) not in self.varied
        ]
        if self.iterations:
            lines.append(f"cut at {self.iterations} iterations of loops that ran one after another")
        return "\n".join(sorted(lines)) or "no value decided the control flow: one segment"


def at_iterations(nodes: Sequence[Node]) -> list[int]:
    """The positions at which to cut *nodes* of loops that ran iteration by iteration, so that the pieces of one loop
    are alike: between iterations, several short ones in a piece, and within long ones at those of the loops in them.
    An iteration begins where the line of the first operation comes again."""
    sites = [node.site for node in nodes]
    entries = [k for k, site in enumerate(sites) if not k or site != sites[k - 1]]
    found: set[int] = set()
    _cut_loops(sites, entries, found)
    return sorted(found - {0})


def _cut_loops(sites: Sequence[Site | None], entries: Sequence[int], found: set[int]) -> None:
    """Add the cuts of the loops among the *entries*, positions at which other lines begin, to *found*."""
    counts = Counter([sites[k] for k in entries])
    after = -1
    for place, first in enumerate(entries):
        if first < after or counts[sites[first]] < FEW:
            continue
        begins = [k for k in entries[place:] if sites[k] == sites[first]]
        cut, after = first, begins[-1] + 1
        found.add(first)
        for begin, end in itertools.pairwise(begins):
            inner = entries[bisect_right(entries, begin) : bisect_left(entries, end)]
            if end - begin > LONG_ITERATION and len(inner) > FEW:
                found.update((begin, end))
                _cut_loops(sites, inner, found)
                cut = end
            elif end - cut >= PIECE:
                found.add(end)
                cut = end
        counts[sites[first]] = 0


def _answer(guard: Guard) -> bytes:
    """As much of a guard's value as Python saw."""
    value = np.asarray(guard.expected)
    if guard.kind == "bool":
        return bytes([bool(value)])
    return (np.trunc(value) if guard.kind in ("int", "index") else value).tobytes()


# ---- segments ------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Segment:
    """Nodes in order, with the values that they read from outside and those that are read outside."""

    nodes: list[Node]
    reads: list[Var]
    gives: list[Var]


def split(nodes: Sequence[Node], roots: Sequence[Atom], cuts: Sequence[int]) -> list[Segment]:
    """The *nodes* that *roots* depend on, cut at the positions *cuts*."""
    live = set(live_nodes(nodes, roots))
    bounds = [0, *cuts, len(nodes)]
    parts = [[n for n in nodes[a:b] if n in live] for a, b in itertools.pairwise(bounds)]
    parts = [part for part in parts if part]
    wanted = {r for r in roots if isinstance(r, Var)}
    reads = []
    for part in parts:
        own = {out for n in part for out in n.outs}
        reads.append(list(dict.fromkeys(a for n in part for a in n.inputs if isinstance(a, Var) and a not in own)))
        wanted.update(reads[-1])
    return [
        Segment(part, read, [out for n in part for out in n.outs if out in wanted])
        for part, read in zip(parts, reads, strict=True)
    ]


@dataclass(slots=True, eq=False)
class BoundSegment:
    """A kernel of a segment, bound to sizes and constants."""

    run: Callable[..., Any]
    flows: list[bool] = field(default_factory=list)  # whether each requested cotangent exists
    delicate: list[bool] = field(default_factory=list)  # whether each that exists may hold exact zeros or infinities


class Segments:
    """Segments and bound kernels of one call key.  ``run`` is safe to call from several threads.

    *recordings*: earlier runs, whose guards are learnt."""

    def __init__(self, recordings: Iterable[Recording] = ()) -> None:
        self.answers = Answers()
        for known in recordings:
            self.answers.learn([*known.graph.guards, *known.numbers])
        self.bound: Recent[Hashable, BoundSegment] = Recent(lambda: config.max_segments)

    def run(self, pieces: Pieces) -> tuple[tuple[Any, ...], list[int]]:
        """(the results, how kernels that were not in the process were come by)"""
        self.answers.learn(pieces.guards)
        run = _SegmentRun(self, pieces)
        found = run.results()
        if config.check:
            _compare(pieces, found)
        return found, run.made

    def keep(self, key: Hashable | None, bound: BoundSegment) -> None:
        if key is not None:
            self.bound.keep(key, bound)


class _SegmentRun:
    """The state of one call: ``values`` and ``cotangents`` grow as kernels run."""

    def __init__(self, owner: Segments, pieces: Pieces):
        self.owner, self.pieces = owner, pieces
        self.values: Env = dict(pieces.env)
        self.cotangents: dict[Var, np.ndarray] = {}
        self.delicate: set[Var] = set()
        self.made: list[int] = []

    def results(self) -> tuple[Any, ...]:
        pieces, loss = self.pieces, self.pieces.loss
        roots = [r for r in pieces.results if r not in set(pieces.gradients)]
        answers, between = self.owner.answers, at_iterations(pieces.nodes)
        answers.iterations = len(between)
        cuts = {*answers.cuts(pieces.guards), *between}
        segments = split(pieces.nodes, roots, sorted(cuts))
        nodes = [n for segment in segments for n in segment.nodes]
        flows: set[Var] = set()
        if loss is not None and pieces.wrt:
            flows = reached(nodes, [loss], depends_on(nodes, pieces.wrt))
        if isinstance(loss, Var) and loss in pieces.wrt:
            self.cotangents[loss] = np.ones((), loss.aval.dtype)
        turn = next((k for k, s in enumerate(segments) if loss in flows and loss in s.gives), -1)
        for k, segment in enumerate(segments):
            if k == turn:
                self.backward(segment, flows, [g for g in segment.gives if g not in self.values])
            else:
                self.forward(segment)
        for segment in reversed(segments[: max(turn, 0)]):
            self.backward(segment, flows, [])
        for var, stands in zip(pieces.wrt, pieces.gradients, strict=True):
            found = self.cotangents.get(var)
            self.values[stands] = np.zeros(var.aval.shape, var.aval.dtype) if found is None else found
        return tuple([_given(self.values, r) for r in pieces.results])

    def forward(self, segment: Segment) -> None:
        """Compute the values of *segment* that others read, unless NumPy has done so."""
        wanted = [g for g in segment.gives if g not in self.values]
        if not wanted:
            return
        key = _key(segment, "forward", wanted)
        bound = self.owner.bound.find(key)
        if bound is None:
            graph = Graph(list(segment.reads), live_nodes(segment.nodes, wanted), list(wanted))
            bound = BoundSegment(self.bind(graph))
            self.owner.keep(key, bound)
        found = launched(bound.run, [self.values[v] for v in segment.reads])
        self.values.update(zip(wanted, map(np.asarray, found), strict=True))

    def backward(self, segment: Segment, flows: set[Var], also: list[Var]) -> None:
        """Compute the cotangents of the values that *segment* reads, and the values *also*."""
        loss = self.pieces.loss
        seeds = [g for g in segment.gives if g is loss or g in self.cotangents]
        wants = [v for v in segment.reads if v in flows]
        if not (seeds and wants) and not also:
            return
        careful = any(seed in self.delicate for seed in seeds)
        given = [seed for seed in seeds if seed is not loss]
        key = _key(segment, "backward", also, given, seeds, wants, careful)
        bound = self.owner.bound.find(key)
        if bound is None:
            bound = self._derive(segment, seeds, given, wants, careful, also)
            self.owner.keep(key, bound)
        arguments = [self.values[v] for v in segment.reads] + [self.cotangents[v] for v in given]
        found = iter(launched(bound.run, arguments))
        self.values.update((v, np.asarray(next(found))) for v in also)
        for var, flowing, delicate in zip(wants, bound.flows, bound.delicate, strict=True):
            if flowing:
                share = np.asarray(next(found))
                known = self.cotangents.get(var)
                self.cotangents[var] = share if known is None else np.asarray(known + share)
            if delicate:
                self.delicate.add(var)

    def _derive(
        self, segment: Segment, seeds: list[Var], given: list[Var], wants: list[Var], careful: bool, also: list[Var]
    ) -> BoundSegment:
        builder = Builder()
        nodes = fresh(segment.nodes)  # a loop gets further results while its adjoint is made: not the recorded one
        builder.adopt(nodes)
        places = {v: Var(Aval(v.aval.dtype, v.aval.shape)) for v in given}
        pairs: list[tuple[Atom, Atom]] = [(s, places.get(s, structural(1, s.aval.dtype))) for s in seeds]
        with building(builder):
            cts, delicate = vjp_seeded(nodes, pairs, wants, careful=careful)
            outputs = [*also, *[materialise(ct, v) for ct, v in zip(cts, wants, strict=True) if ct is not None]]
        graph = Graph([*segment.reads, *places.values()], live_nodes(builder.nodes, outputs), outputs)
        return BoundSegment(self.bind(graph), [ct is not None for ct in cts], delicate)

    def bind(self, graph: Graph) -> Callable[..., Any]:
        launch, found = compiled(graph, array_records(graph.inputs))
        self.made += [found] * (found != KNOWN)
        return launch


def _given(values: Env, atom: Atom) -> Any:
    """A result, in memory of its own, as a kernel would give it."""
    value = np.array(atom.value if isinstance(atom, Lit) else values[atom], dtype=atom.aval.dtype, order="C")
    return value if value.ndim else value[()]


def _key(segment: Segment, *rest: Any) -> Hashable | None:
    """The cache key of a kernel of *segment*, known before it is derived; None where there is none.

    It holds everything that the derivation depends on.
    """
    if any(node.prim.kind == LOOP for node in segment.nodes):
        return None
    program = program_key(segment.reads, segment.nodes, *[item for item in rest if isinstance(item, list)])
    return program, *[item for item in rest if not isinstance(item, list)]


# ---- TRACEGRAD_CHECK -----------------------------------------------------------------------------------------------


def _compare(pieces: Pieces, found: Sequence[Any]) -> None:
    """The results of the segments against those of the program as a whole, by the interpreter."""
    builder = Builder()
    builder.adopt(pieces.nodes)
    derived: dict[Var, Atom] = {}
    if pieces.loss is not None:
        with building(builder):
            adjoint = vjp(pieces.nodes, pieces.loss, structural(1, pieces.loss.aval.dtype), pieces.wrt)
        derived = dict(zip(pieces.gradients, adjoint, strict=True))
    outputs = [derived.get(r, r) if isinstance(r, Var) else r for r in pieces.results]
    sources = [v for v in pieces.sources if v in pieces.env]
    graph = Graph(sources, live_nodes(builder.nodes, outputs), outputs)
    for ours, theirs in zip(found, evaluate(graph, [pieces.env[v] for v in sources]), strict=True):
        compare_result(ours, theirs, solves=calls_python(pieces.nodes))
