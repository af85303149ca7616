"""Drawings of a report as SVG: the memory plan and the graph of a program."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Sequence

from ...tracer.ir.graph import Graph, Lit, Node, Var
from ...tracer.ir.text import printed_names
from .sections import Placed

WIDTH = 960
ROW = 26  # pixels of an item of the schedule
MOST_NODES = 160  # of a graph that is drawn


def draw_memory(temporaries: Sequence[Placed], workspace: int) -> str:
    """The workspace: bytes to the right, items of the schedule downward; each temporary where and while it lives."""
    if not temporaries or not workspace:
        return '<span class="soft">no workspace: every value is a result, or is never stored</span>'
    last = max(t.last for t in temporaries) + 1
    left, top = 60, 22
    height = top + last * ROW + 6
    scale = (WIDTH - left - 10) / workspace
    parts = [f'<svg width="{WIDTH}" height="{height}" role="img" aria-label="memory plan">']
    parts.append(f'<text class="soft" x="{left}" y="14">0</text>')
    parts.append(f'<text class="soft" x="{WIDTH - 10}" y="14" text-anchor="end">{workspace:,} bytes</text>')
    parts += [f'<text class="soft" x="0" y="{top + k * ROW + 17}">item {k}</text>' for k in range(last)]
    for t in temporaries:
        x, width = left + t.offset * scale, max(t.nbytes * scale, 1.5)
        y, tall = top + t.first * ROW, (t.last - t.first + 1) * ROW
        label = f"{t.name}: {t.nbytes:,} bytes at {t.offset:,}, items {t.first} to {t.last}"
        parts.append(
            f'<rect class="t" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{tall}" rx="2">'
            f"<title>{html.escape(label)}</title></rect>"
        )
        short = t.name.partition(" ")[0]
        if width > 9 * len(short):
            parts.append(f'<text x="{x + width / 2:.1f}" y="{y + tall / 2 + 4}" text-anchor="middle">{short}</text>')
    return "".join([*parts, "</svg>"])


def draw_graph(graph: Graph, names: Sequence[str]) -> str:
    """The program as a graph, its inputs on top; a loop is one node."""
    if len(graph.nodes) > MOST_NODES:
        return f'<span class="soft">{len(graph.nodes):,} operations: too many to draw; the text has all</span>'
    letters, _ = printed_names(graph)
    makers: dict[Var, int] = {}  # place in `labels`
    labels: list[tuple[str, str, str]] = []  # text, class, tooltip
    ranks: list[int] = []
    edges: list[tuple[int, int]] = []
    for k, var in enumerate([*graph.inputs, *[v for v, _ in graph.consts]]):
        shown = names[k].removeprefix("the argument ").strip("`") if k < len(names) else "const"
        makers[var] = len(labels)
        labels.append((f"{letters[var]} = {_cut(shown)}", "io", f"{shown}, {var.aval}"))
        ranks.append(0)
    for node in graph.nodes:
        mine = len(labels)
        sources = list(dict.fromkeys(makers[a] for a in node.inputs if not isinstance(a, Lit) and a in makers))
        edges += [(source, mine) for source in sources]
        ranks.append(1 + max([ranks[s] for s in sources], default=0))
        adjoint = node.site is not None and node.site.function.endswith("(adjoint)")
        labels.append((_label(node, letters), "adj" if adjoint else "", _tip(node)))
        makers.update(dict.fromkeys(node.outs, mine))
    used = {end for edge in edges for end in edge}
    levels: dict[int, list[int]] = defaultdict(list)
    for k, rank in enumerate(ranks):
        if k in used or labels[k][1] != "io":
            levels[rank].append(k)
    return _drawn(labels, levels, edges)


def _label(node: Node, letters: dict[Var, str]) -> str:
    outs = ",".join([letters[v] for v in node.outs[:3]]) + ("," if len(node.outs) > 3 else "")
    return f"{outs} = {node.prim.name}"


def _tip(node: Node) -> str:
    return f"{', '.join(str(v.aval) for v in node.outs)}{f'  {node.site}' if node.site else ''}"


def _cut(text: str) -> str:
    return text if len(text) <= 22 else text[:21] + "…"


def _drawn(labels: list[tuple[str, str, str]], levels: dict[int, list[int]], edges: list[tuple[int, int]]) -> str:
    above: dict[int, list[int]] = defaultdict(list)
    for source, end in edges:
        above[end].append(source)
    places: dict[int, tuple[float, float, float]] = {}  # left, top, width
    widest = 0.0
    for rank in sorted(levels):
        wanted = {k: _mean([places[s][0] + places[s][2] / 2 for s in above[k] if s in places]) for k in levels[rank]}
        x = 8.0
        for k in sorted(levels[rank], key=lambda k: wanted[k]):
            width = 16 + 6.6 * len(labels[k][0])
            x = max(x, wanted[k] - width / 2)
            places[k] = x, 10 + 54.0 * rank, width
            x += width + 12
        widest = max(widest, x)
    height = 54 * (max(levels, default=0) + 1) + 10
    parts = [f'<svg width="{max(widest, 40):.0f}" height="{height}" role="img" aria-label="graph of the program">']
    for source, end in edges:
        if source in places and end in places:
            x0, y0, w0 = places[source]
            x1, y1, w1 = places[end]
            a, b = x0 + w0 / 2, x1 + w1 / 2
            middle = (y0 + 28 + y1) / 2
            parts.append(f'<path d="M{a:.1f} {y0 + 28} C{a:.1f} {middle} {b:.1f} {middle} {b:.1f} {y1}"/>')
    for k, (x, y, width) in places.items():
        text, kind, tip = labels[k]
        parts.append(
            f'<g><rect class="node {kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="28" rx="6"/>'
            f'<text x="{x + width / 2:.1f}" y="{y + 18}" text-anchor="middle">{html.escape(text)}</text>'
            f"<title>{html.escape(tip)}</title></g>"
        )
    return "".join([*parts, "</svg>"])


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
