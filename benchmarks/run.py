"""One run of the suite: measure, print, save."""

from __future__ import annotations

import argparse

from . import first_call, report, timing
from .peers import DEFAULT_PEERS, DERIVATIVE_PEERS, LOOP_PEERS, PEERS, Peer, available
from .workload import Workload
from .workloads import ALL, is_loop, kind, select

#: the peers whose failures are the run's
OURS = ("tracegrad", "tracegrad-explicit")
#: seconds that a peer may take, in a process of its own, to start and to make its first two calls
TIME_LIMIT = 120.0


def _peer_names(options: argparse.Namespace) -> list[str]:
    usual = LOOP_PEERS if options.loops else [*LOOP_PEERS, *DEFAULT_PEERS]
    if _groups(options):
        usual = DERIVATIVE_PEERS
    chosen = [name for name in options.peers.split(",") if name] or usual
    unknown = [name for name in chosen if name not in PEERS]
    if unknown:
        raise SystemExit(f"no peer is named {', '.join(unknown)}; there are: {', '.join(PEERS)}")
    limit = [] if options.no_limit else ["numba"]
    return list(dict.fromkeys(["tracegrad", *chosen, *limit]))


def _groups(options: argparse.Namespace) -> tuple[str, ...]:
    """The groups that are asked for by options of their own."""
    return tuple(group for group in ("transforms", "adbench") if getattr(options, group))


def _contenders(workload: Workload, peers: dict[str, Peer], options: argparse.Namespace) -> dict[str, Peer]:
    """The peers of one row: those asked for, or the usual ones of its kind."""
    if options.peers:
        return peers
    peers_of = {"loops": LOOP_PEERS, "derivatives": DERIVATIVE_PEERS, "straight": DEFAULT_PEERS}
    usual = ["tracegrad", "numba", *peers_of[kind(workload.name)]]
    return {name: peer for name, peer in peers.items() if name in usual}


def _check(workloads: list[Workload], peers: dict[str, Peer], options: argparse.Namespace) -> int:
    """Print each peer's largest relative error; returns 1 if one is wrong or fails."""
    bad = 0
    for workload in workloads:
        _, cells = timing.check(workload, _contenders(workload, peers, options))
        for name, cell in cells.items():
            told = f"{cell['error']:.1e}" if cell["status"] == "ok" else cell.get("note", "")
            print(f"{workload.name:24} {name:14} {cell['status']:7} {told}", flush=True)
            bad += cell["status"] in ("wrong", "failed")
    return 1 if bad else 0


def _row(workload: Workload, peers: dict[str, Peer], options: argparse.Namespace) -> dict[str, timing.Cell]:
    """One row: first calls in processes of their own, then everybody side by side in this one.

    What can't end well in a process of its own is not run here: what may crash, and loops, which may take too long.
    """
    rounds = options.rounds or (5 if options.quick else 15)
    repeats = options.first_calls if options.first_calls >= 0 else (1 if options.quick else 3)
    batch_seconds = 0.005 if options.quick else 0.02
    compiled = [name for name, peer in peers.items() if peer.compiles and peer.spells(workload)]
    tried = compiled if is_loop(workload.name) else [name for name in compiled if peers[name].aborts]
    once = {name for name in tried if peers[name].eager}  # for the time limit's sake: a first call is like any other
    timeout = TIME_LIMIT if is_loop(workload.name) else 300.0
    firsts = first_call.measure(
        workload, compiled if repeats else tried, options.threads, max(repeats, 1), options.disk_cache, timeout, once
    )
    failed = {name for name in tried if "first" not in firsts[name]}
    cells = timing.measure(workload, {n: p for n, p in peers.items() if n not in failed}, rounds, batch_seconds)
    for name in failed:
        cells[name] = {"status": firsts[name].pop("outcome"), "note": firsts[name].pop("first_note")}
    for name in firsts if repeats else ():
        cells[name] |= firsts[name]
    return cells


def _miss(name: str, cell: timing.Cell) -> str:
    """The outcome of a cell that no run may end well with: a wrong result, or no time where tracegrad's should be."""
    outcome = cell.get("outcome", cell["status"])  # the first is that of a process of its own
    return outcome if outcome == "wrong" or (name in OURS and outcome in report.UNTIMED) else ""


def run(options: argparse.Namespace, cores: list[int]) -> int:
    """Measure the chosen rows; returns 1 if a peer's result was wrong, or tracegrad failed."""
    if options.list:
        for workload in ALL.values():
            print(f"{workload.name:24} {workload.group}")
        return 0
    if options.report:
        report.write(report.Store.load())
        return 0
    workloads = select(
        [word for word in options.only.split(",") if word], options.loops, options.quick, _groups(options)
    )
    peers, missing = available(_peer_names(options), options.threads)
    for name, reason in missing.items():
        print(f"{name}: skipped ({reason})")
    if "tracegrad" in missing:
        raise SystemExit("tracegrad itself cannot be imported: there is nothing to compare")
    if options.check:
        return _check(workloads, peers, options)
    for peer in peers.values():
        peer.warm()

    run_facts = report.facts(peers, options.threads, cores, options.quick)
    store = report.Store.load()
    rows = {}
    for workload in workloads:
        rows[workload.name] = cells = _row(workload, _contenders(workload, peers, options), options)
        print(report.row_text(workload.name, cells), flush=True)

    fresh = report.Store({}, {})
    fresh.add(run_facts, rows)
    print()
    print(report.tables(fresh))
    report.plot(fresh, report.OUT / ("quick.png" if options.quick else "last.png"))
    # A run with other settings than the published ones is saved on request only.
    if not options.no_save and (options.save or not (options.quick or options.threads > 1)):
        store.add(run_facts, rows)
        store.save()
        report.write(store)
    bad = [
        f"{row} ({name}: {outcome})"
        for row, cells in rows.items()
        for name, cell in cells.items()
        if (outcome := _miss(name, cell))
    ]
    if bad:
        print(f"not right: {', '.join(bad)}")
    return 1 if bad else 0
