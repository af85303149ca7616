"""One run of the suite: measure, print, save."""

from __future__ import annotations

import argparse

from . import first_call, report, timing
from .peers import DEFAULT_PEERS, PEERS, Peer, available
from .workload import Workload
from .workloads import ALL, select


def _peer_names(options: argparse.Namespace) -> list[str]:
    chosen = [name for name in options.peers.split(",") if name] or DEFAULT_PEERS
    unknown = [name for name in chosen if name not in PEERS]
    if unknown:
        raise SystemExit(f"no peer is named {', '.join(unknown)}; there are: {', '.join(PEERS)}")
    limit = [] if options.no_limit else ["numba"]
    return list(dict.fromkeys(["tracegrad", *chosen, *limit]))


def _check(workloads: list[Workload], peers: dict[str, Peer]) -> int:
    """Print each peer's largest relative error; returns 1 if one is wrong or fails."""
    bad = 0
    for workload in workloads:
        _, cells = timing.check(workload, peers)
        for name, cell in cells.items():
            told = f"{cell['error']:.1e}" if cell["status"] == "ok" else cell.get("note", "")
            print(f"{workload.name:24} {name:14} {cell['status']:7} {told}", flush=True)
            bad += cell["status"] in ("wrong", "failed")
    return 1 if bad else 0


def run(options: argparse.Namespace, cores: list[int]) -> int:
    """Measure the chosen rows; returns 1 if a peer's result was wrong."""
    if options.list:
        for workload in ALL.values():
            print(f"{workload.name:24} {workload.group}")
        return 0
    if options.report:
        report.write(report.Store.load())
        return 0
    workloads = select([word for word in options.only.split(",") if word])
    rounds = options.rounds or (5 if options.quick else 15)
    repeats = options.first_calls if options.first_calls >= 0 else (1 if options.quick else 3)
    batch_seconds = 0.005 if options.quick else 0.02

    peers, missing = available(_peer_names(options), options.threads)
    for name, reason in missing.items():
        print(f"{name}: skipped ({reason})")
    if options.check:
        return _check(workloads, peers)
    for peer in peers.values():
        peer.warm()

    run_facts = report.facts(peers, options.threads, cores, options.quick)
    store = report.Store.load()
    rows = {}
    for workload in workloads:
        compiled = [name for name, peer in peers.items() if peer.compiles and peer.spells(workload)]
        fragile = [name for name in compiled if peers[name].aborts]
        firsts = first_call.measure(
            workload, compiled if repeats else fragile, options.threads, max(repeats, 1), options.disk_cache
        )
        crashed = {name for name in fragile if "first" not in firsts[name]}
        cells = timing.measure(workload, {n: p for n, p in peers.items() if n not in crashed}, rounds, batch_seconds)
        for name in crashed:
            cells[name] = {"status": "failed", "note": firsts[name].pop("first_note")}
        for name in firsts if repeats else ():
            cells[name] |= firsts[name]
        rows[workload.name] = cells
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
    wrong = [f"{row} ({n})" for row, cells in rows.items() for n, cell in cells.items() if cell["status"] == "wrong"]
    if wrong:
        print(f"wrong: {', '.join(wrong)}")
    return 1 if wrong else 0
