"""Tables, the plot, and RESULTS.md, which keeps each row's last run and the notes written by hand."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from . import targets
from .peer import Peer
from .workloads import ALL, kind

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"
RESULTS = HERE / "RESULTS.md"
STORE = HERE / "results.json"
MARKER = "<!-- Below this line everything is written by hand and kept by the next run. -->"
ORDER = ["tracegrad", "tracegrad-explicit", "jax", "torch", "torch-compile", "autograd", "drjit", "numpy", "numba"]
TITLES = {"tracegrad": "tracegrad", "tracegrad-explicit": "tracegrad, explicit loops", "jax": "JAX", "torch": "PyTorch"}
TITLES |= {"torch-compile": "torch.compile", "autograd": "HIPS autograd"}
TITLES |= {"drjit": "Dr.Jit", "numpy": "NumPy by hand", "numba": "numba by hand"}

#: outcomes that stand in the tables in place of a time
UNTIMED = ("wrong", "failed", "too long")

#: parts of a ``Store`` that are texts
TEXTS = ("memory", "scaling", "training", "start", "gpu", "gpu_static")

Row = dict[str, dict[str, Any]]
Facts = dict[str, Any]


@dataclass
class Store:
    """What is known: each row with the number of the run that measured it, and the facts of those runs."""

    runs: dict[str, Facts]
    rows: dict[str, dict[str, Any]]
    #: the text of the last ``--memory``
    memory: str = ""
    #: the text of the last ``--scaling``
    scaling: str = ""
    #: the text of the last ``--training``
    training: str = ""
    #: the text of the last ``--start``
    start: str = ""
    #: the text of the last ``--gpu-static``, and of the last ``--gpu``
    gpu_static: str = ""
    gpu: str = ""

    @classmethod
    def load(cls) -> Store:
        """The stored rows, or nothing."""
        if not STORE.exists():
            return cls({}, {})
        data = json.loads(STORE.read_text())
        texts = {name: data.get(name, "") for name in TEXTS}
        return cls(data["runs"], data["rows"], **texts)

    def add(self, facts: Facts, rows: dict[str, Row]) -> None:
        """Put in the rows of a run. A row is one run's, side by side: it replaces the old one as a whole."""
        key = str(1 + max((int(name) for name in self.runs), default=0))
        self.runs[key] = facts
        for name, cells in rows.items():
            self.rows[name] = {"run": key, "cells": cells}
        self.rows = {name: self.rows[name] for name in ALL if name in self.rows}
        used = {row["run"] for row in self.rows.values()}
        self.runs = {name: run for name, run in self.runs.items() if name in used}

    def part(self, which: str) -> Store:
        """The rows of one kind."""
        return Store(self.runs, {name: row for name, row in self.rows.items() if kind(name) == which})

    def save(self) -> None:
        """Write the rows beside RESULTS.md."""
        STORE.write_text(json.dumps(self._contents(), indent=1) + "\n")

    def _contents(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in TEXTS}, "runs": self.runs, "rows": self.rows}


def facts(peers: dict[str, Peer], threads: int, cores: list[int], quick: bool) -> Facts:
    """Date, CPU and versions of a run."""
    versions = {"python": platform.python_version()}
    for name in ("numpy", "scipy"):
        versions[name] = importlib.metadata.version(name)
    for peer in peers.values():
        try:
            versions |= peer.versions()
        except importlib.metadata.PackageNotFoundError:
            versions[peer.name] = "not installed as a distribution"
    settings = f"threads: {threads}, " + (f"pinned to {len(cores)} of the CPU's cores" if cores else "not pinned")
    if "numba" in peers:
        from . import vecmath

        settings += "" if vecmath.AVAILABLE else ", no libmvec: the numba kernels call scalar functions"
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "cpu": cpu_name(),
        "system": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}".strip(", "),
        "settings": settings + (", quick run" if quick else ""),
        "versions": versions,
    }


def versions(*names: str) -> str:
    """The processor and the versions of what is installed of *names*."""
    found = []
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"{cpu_name()}, Python {platform.python_version()}, {', '.join(found)}"


def cpu_name() -> str:
    """The CPU's name and, where known, the widest vectors it has."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown CPU"
    fields = {line.split(":")[0].strip(): line.split(":", 1)[1].strip() for line in text.splitlines() if ":" in line}
    flags = fields.get("flags", "").split()
    vectors = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else ""
    family = f"family {fields['cpu family']} model {fields['model']}" if "cpu family" in fields else ""
    return ", ".join(part for part in (fields.get("model name", "unknown CPU"), family, vectors) if part)


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    unit, scale = next((pair for pair in (("s", 1.0), ("ms", 1e-3)) if seconds >= pair[1]), ("µs", 1e-6))
    value = seconds / scale
    return f"{value:.0f} {unit}" if value >= 99.5 else f"{value:.1f} {unit}" if value >= 9.95 else f"{value:.2f} {unit}"


def row_text(name: str, cells: Row) -> str:
    """One row for the terminal."""
    parts = []
    for peer in sorted(cells, key=ORDER.index):
        cell = cells[peer]
        shown = duration(cell["steady"]) if "steady" in cell else cell["status"]
        first = f" (first {duration(cell['first'])})" if "first" in cell else ""
        parts.append(f"{peer} {shown}{first}")
    return f"{name}: " + ", ".join(parts)


def table(head: list[str], body: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" + " ---: |" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in body]
    return "\n".join(lines)


def _warm_disk(store: Store) -> dict[str, Callable[[Row, str], str]]:
    """Columns of first calls that find the files which another process has left, by the peer before them."""
    return dict.fromkeys(_present(store, "first_from_disk"), _time("first_from_disk"))


def _grid(
    store: Store, show: Callable[[Row, str], str], peers: list[str],
    beside: Mapping[str, Callable[[Row, str], str]] = MappingProxyType({}),
) -> str:  # fmt: skip
    """A table of a row for each workload; *beside*: second columns of peers, of what a warm disk makes of it."""
    columns = [column for peer in peers for column in ((peer, "", show), (peer, ", warm disk", beside.get(peer)))]
    shown = [(peer, more, cell) for peer, more, cell in columns if cell is not None]
    head = ["value and gradient", *(TITLES.get(peer, peer) + more for peer, more, _ in shown)]
    several = len(store.runs) > 1
    body = []
    for name, row in store.rows.items():
        title = f"{name} [{row['run']}]" if several else name
        body.append([title, *(cell(row["cells"], peer) for peer, _, cell in shown)])
    return table(head, body)


def _time(key: str) -> Callable[[Row, str], str]:
    def show(cells: Row, peer: str) -> str:
        cell = cells.get(peer, {})
        if key in cell:
            return duration(cell[key])
        return cell["status"] if cell.get("status") in UNTIMED else "–"

    return show


def _ratio(key: str) -> Callable[[Row, str], str]:
    def show(cells: Row, peer: str) -> str:
        ours, theirs = cells.get("tracegrad", {}).get(key), cells.get(peer, {}).get(key)
        return f"{theirs / ours:.2f}" if ours and theirs else "–"

    return show


def _present(store: Store, key: str) -> list[str]:
    """The peers that have such a figure, or should have."""

    def shows(cell: dict[str, Any]) -> bool:
        return key in cell or (key in ("steady", "first") and cell.get("status") in UNTIMED)

    return [peer for peer in ORDER if any(shows(row["cells"].get(peer, {})) for row in store.rows.values())]


def tables(store: Store) -> str:
    """All tables as Markdown."""
    parts = []
    for key, run in store.runs.items():
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        label = f"Run {key}: " if len(store.runs) > 1 else ""
        parts.append(f"{label}{run['date']}, {run['cpu']}, {run['system']}, {run['settings']}.\n{versions}.")

    parts += _timings(store.part("straight"), "")
    parts += _timings(store.part("loops"), "Control flow. ")
    parts += _timings(store.part("derivatives"), "Other derivatives, ADBench. ")
    if store.start:
        parts.append("## Start-up: whole processes\n\n" + store.start)
    if store.memory:
        parts.append("## New memory of one cached call\n\n" + store.memory)
    if store.scaling:
        parts.append("## Several threads\n\n" + store.scaling)
    if store.training:
        parts.append("## A training step\n\n" + store.training)
    if store.gpu:
        parts.append("## On a GPU\n\n" + store.gpu)
    if store.gpu_static:
        parts.append("## CUDA kernels, looked at without a GPU\n\n" + store.gpu_static)
    rows = {name: row["cells"] for name, row in store.rows.items()}
    verdicts = [*targets.means(rows), *targets.limits(rows)] if len(rows) > 1 else []
    for which, judge in (
        ("straight", targets.straight),
        ("loops", targets.loops),
        ("derivatives", targets.derivatives),
    ):
        verdicts += judge({name: cells for name, cells in rows.items() if kind(name) == which})
    if verdicts:
        parts.append("## Targets\n\n" + table(["target", "needed", "measured", "met"], verdicts))
    spelled = [
        f"- {ALL[name].group}, {TITLES[peer]}: {text}."
        for name in store.rows
        if kind(name) != "straight"
        for peer, text in ALL[name].reasons.items()
    ]
    if spelled:
        parts.append("## Spellings\n\n" + "\n".join(dict.fromkeys(spelled)))
    remarks = [
        f"- {name}, {TITLES.get(peer, peer)}: {note}"
        for name, row in store.rows.items()
        for peer, cell in row["cells"].items()
        for note in (cell.get("note"), cell.get("first_note"))
        if note and cell["status"] != "none"
    ]
    if remarks:
        parts.append("## Remarks\n\n" + "\n".join(remarks))
    return "\n\n".join(parts)


def _timings(store: Store, title: str) -> list[str]:
    """The tables of time, which begin with `title`."""
    parts = []
    steady, firsts = _present(store, "steady"), _present(store, "first")
    if steady:
        parts.append(f"## {title}Steady state: median seconds a call\n\n" + _grid(store, _time("steady"), steady))
    if "tracegrad" in steady and len(steady) > 1:
        others = [peer for peer in steady if peer != "tracegrad"]
        grid = _grid(store, _ratio("steady"), others)
        parts.append(f"## {title}How many times tracegrad's time each takes\n\n{grid}")
        parts.append(
            "The same by the fastest round of each, which a busy machine disturbs least:\n\n"
            + _grid(store, _ratio("best"), others)
        )
    if firsts:
        grid = _grid(store, _time("first"), firsts, _warm_disk(store))
        parts.append(
            f"## {title}First call: median of processes that have compiled something unrelated before\n\n{grid}"
        )
        parts.append("The second call of the same processes:\n\n" + _grid(store, _time("second"), firsts))
        parts.append(f"## {title}Once per process\n\n" + _startup(store, firsts))
    return parts


def _startup(store: Store, peers: list[str]) -> str:
    body = []
    for peer in peers:
        cells = [row["cells"][peer] for row in store.rows.values() if "warm" in row["cells"].get(peer, {})]
        if not cells:
            continue
        middle = [sorted(cell[key] for cell in cells)[len(cells) // 2] for key in ("import", "warm")]
        body.append([TITLES.get(peer, peer), *(duration(seconds) for seconds in middle)])
    head = ["", "import (after NumPy and SciPy)", "first use, an unrelated function (numba's own start-up is in here)"]
    return table(head, body)


HEADER = """# Benchmark results

Written by `python -m benchmarks` (`make bench`). Each peer's value and gradients are compared with a gradient derived
by hand (relative error at most 1e-6; 2e-5 for the float32 network) before anything is timed. Times are medians over
rounds that go around the peers. Inputs lie in each peer's own arrays already, and results stay there. "NumPy by hand"
and "numba by hand" are value and gradient without any automatic derivative: the second, fused loops over vector math
with BLAS for large products, is what there is to reach. A dash: no such spelling, or not measured.
"""


def keep(part: str, text: str) -> None:
    """Store *text* as one of ``TEXTS``, and write the page anew."""
    store = Store.load()
    setattr(store, part, text)
    store.save()
    write(store)


def write(store: Store) -> None:
    """Write RESULTS.md and its plot; what stands below the marker stays."""
    notes = "\n\n## Notes\n"
    if RESULTS.exists() and MARKER in (old := RESULTS.read_text()):
        notes = old.split(MARKER, 1)[1]
    RESULTS.write_text(f"{HEADER}\n{tables(store)}\n\n{MARKER}{notes}")
    plot(store, OUT / "results.png")


def plot(store: Store, path: Path) -> None:
    """Time of each peer for each row, steady state and first call, on logarithmic axes."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(store.rows)
    panels = [
        (key, title) for key, title in (("steady", "steady state"), ("first", "first call")) if _present(store, key)
    ]
    if not panels:
        return
    size = (1.5 + 5.5 * len(panels), 1.5 + 0.42 * len(names))
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False)
    for axis, (key, title) in zip(axes[0], panels, strict=True):
        for number, peer in enumerate(ORDER):
            points = [(store.rows[name]["cells"].get(peer, {}).get(key), -i) for i, name in enumerate(names)]
            shown = [(seconds, y) for seconds, y in points if seconds]
            if shown:
                xs, ys = zip(*shown, strict=True)
                look = {"marker": "ohsDd^vPX"[number], "color": f"C{number}", "s": 60, "alpha": 0.85}
                axis.scatter(xs, ys, label=TITLES.get(peer, peer), zorder=3 if number else 4, **look)
        axis.set_xscale("log")
        axis.set_xlabel("seconds")
        axis.set_title(f"value and gradient, {title}")
        axis.set_yticks([-i for i in range(len(names))], names)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    print(f"plot: {path.parent.name}/{path.name}")
