"""Reports as one page of HTML, which needs nothing else: ``page.html`` with the user's source on the left, the recorded
program on the right, and the other sections below, folded.
"""

from __future__ import annotations

import ast
import html
import linecache
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...codegen.cpu.assemble import listing_of
from ...codegen.cpu.program_layout import ProgramLayout
from ...tracer.ir.graph import Graph
from ...tracer.ir.primitive import LOOP
from ...tracer.ir.site import Site
from ...tracer.ir.text import print_graph
from .drawings import draw_graph, draw_memory
from .sections import placed
from .shown import ShownProgram

_ADJOINT = " (adjoint)"
MOST_LINES = 6000  # of a listing
_SITE = re.compile(r"^(?P<text>.*?) *# (?P<file>\S+):(?P<line>\d+) in (?P<function>.*)$")
_FOLDED = ("recorded program, with your lines", "summary")  # shown elsewhere


def page_of(described: Sequence[ShownProgram], heading: str, tail: Mapping[str, str]) -> str:
    """The page of a report on these programs, under a *heading* where there may be several; *tail*: last sections."""
    head = heading or described[0].head
    first, _, rest = head.partition("\n")
    bodies = [_program(k, program, bool(heading)) for k, program in enumerate(described)]
    bodies += [_folded(name, f"<pre>{html.escape(text)}</pre>") for name, text in tail.items()]
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    given = {"title": f"tracegrad: {first}", "heading": first, "under": rest.strip().replace("\n", "; ")}
    filled = {name: html.escape(text) for name, text in given.items()} | {"body": "\n".join(bodies)}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: filled[match[1]], template)


def framed(page: str) -> str:
    """*page* for a notebook's cell, which its styles do not leave."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="tracegrad" '
        'style="width:100%;height:560px;border:1px solid #8884;border-radius:8px"></iframe>'
    )


def _program(number: int, program: ShownProgram, titled: bool) -> str:
    parts = [f'<section class="program"><h2>{html.escape(program.head)}</h2>'] if titled else ["<section>"]
    parts.append(f'<div class="card"><dl>{_summary(program.sections["summary"])}</dl></div>')
    parts.append(_panes(number, program))
    parts.append(_folded("graph", f'<div class="figure">{draw_graph(program.graph, program.inputs)}</div>'))
    for name, text in program.sections.items():
        if not text or name in _FOLDED:
            continue
        body = f"<pre>{html.escape(text)}</pre>"
        if name == "memory" and program.layout is not None:
            temporaries, workspace = placed(program.layout, program.names)
            body = f'<div class="figure">{draw_memory(temporaries, workspace)}</div>{body}'
        parts.append(_folded(name, body, _lines(text), name == "decisions"))
    if isinstance(program.layout, ProgramLayout):
        for name, text in zip(("LLVM IR, as emitted", "machine code"), listing_of(program.layout), strict=True):
            parts.append(_folded(name, f"<pre>{html.escape(_shortened(text))}</pre>", _lines(text.rstrip())))
    return "\n".join([*parts, "</section>"])


def _lines(text: str) -> str:
    count = text.count("\n") + 1
    return f"{count:,} line{'s' * (count != 1)}"


def _shortened(text: str) -> str:
    lines = text.split("\n")
    rest = len(lines) - MOST_LINES
    return text if rest <= 0 else "\n".join([*lines[:MOST_LINES], f"... {rest:,} more lines"])


def _summary(text: str) -> str:
    rows = [line.partition(" ") for line in text.split("\n") if line.strip()]
    return "".join([f"<dt>{html.escape(head)}</dt><dd>{html.escape(rest.strip())}</dd>" for head, _, rest in rows])


def _folded(title: str, body: str, note: str = "", open_: bool = False) -> str:
    shown = f'<span class="soft">{html.escape(note)}</span>' if note else ""
    return f"<details{' open' * open_}><summary>{html.escape(title)}{shown}</summary>{body}</details>"


# ---- source and program --------------------------------------------------------------------------------------------


def _sites(graph: Graph) -> Iterator[Site]:
    for node in graph.nodes:
        if node.site is not None:
            yield node.site
        if node.prim.kind == LOOP:
            yield from _sites(node.params["body"])
    yield from [guard.site for guard in graph.guards if guard.site is not None]


def _panes(number: int, program: ShownProgram) -> str:
    keys: dict[tuple[str, int], str] = {}  # by file and line
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    shorts: dict[tuple[str, str, str], str] = {}  # as the text of the program has sites
    for site in _sites(program.graph):
        key = keys.setdefault((site.file, site.line), f"{number}-{len(keys)}")
        counts[key][site.function.endswith(_ADJOINT)] += 1
        shorts[Path(site.file).name, str(site.line), site.function] = key
    source = "".join(_source(keys, counts)) or "<h4>the source is not to be had</h4>"
    rows = "".join(_rows(print_graph(program.graph), shorts))
    left = _pane("your source", "operations of a line: value + derivative", source)
    right = _pane("recorded program", "the derivative in the second colour", rows)
    return f'<div class="panes">{left}{right}</div>'


def _pane(heading: str, note: str, rows: str) -> str:
    head = f'<h3>{heading} <span class="soft">{note}</span></h3>'
    return f'<div class="pane">{head}<div class="code">{rows}</div></div>'


def _source(keys: dict[tuple[str, int], str], counts: dict[str, Counter[bool]]) -> Iterator[str]:
    """The functions that have lines of the program, each in full."""
    for file in dict.fromkeys(file for file, _ in keys):
        text = linecache.getlines(file)
        if not text:
            continue
        wanted = sorted(line for known, line in keys if known == file)
        yield f"<h4>{html.escape(Path(file).name)}</h4>"
        for first, last in _stretches("".join(text), wanted):
            margin = min([len(s) - len(s.lstrip()) for s in text[first - 1 : last] if s.strip()], default=0)
            for line in range(first, min(last, len(text)) + 1):
                shown = html.escape(text[line - 1].rstrip()[margin:])
                key = keys.get((file, line))
                done = f'<span class="count">{_counted(counts[key])}</span>' if key else ""
                where = f' fwd" data-k="{key}' if key else ""
                row = f'<span class="n">{line}</span><span class="text">{shown}</span>{done}'
                yield f'<div class="row{where}">{row}</div>'
            yield '<div class="gap"></div>'


def _counted(found: Counter[bool]) -> str:
    return f"{found[False]} + {found[True]}" if found[True] else f"{found[False]}"


def _stretches(text: str, lines: list[int]) -> list[tuple[int, int]]:
    """The functions that *lines* are in, outermost ones, as (first, last); a line outside of any by itself."""
    spans: list[tuple[int, int]] = []
    try:
        body = ast.parse(text).body
    except SyntaxError:  # a cell with magic commands
        body = []
    todo: list[Any] = [*body]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            start = min([d.lineno for d in node.decorator_list], default=node.lineno)
            spans.append((start, node.end_lineno or node.lineno))
        elif isinstance(node, ast.ClassDef):
            todo += node.body
    found = [next(((a, b) for a, b in spans if a <= line <= b), (line, line)) for line in lines]
    return sorted(set(found))


def _rows(text: str, keys: dict[tuple[str, str, str], str]) -> Iterator[str]:
    for line in text.rstrip().split("\n"):
        match = _SITE.match(line)
        code, key, where, kind = line, "", "", ""
        if match:
            code = match["text"]
            key = keys.get((match["file"], match["line"], match["function"]), "")
            kind = " adj" if match["function"].endswith(_ADJOINT) else " fwd"
            where = f'<span class="where">{html.escape(match["file"])}:{match["line"]}</span>'
        depth = len(code) - len(code.lstrip())
        opens = code.rstrip().endswith("{") and depth > 0
        sign = '<span class="fold">&#9662;</span>' if opens else '<span class="nofold"></span>'
        data = f' data-k="{key}"' if key else ""
        yield (
            f'<div class="row{kind}" data-d="{depth}"{data}>{sign}<span class="text">{html.escape(code)}</span>'
            f"{where}</div>"
        )
