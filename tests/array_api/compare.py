"""The suite array-api-tests on ``tracegrad.array_api`` and on NumPy, with the same seed, compared test by test.

    python tests/array_api/compare.py path/to/array-api-tests [--examples 100] [--seed 0] [file of the suite ...]

``make test-array-api SUITE=path/to/array-api-tests`` runs it in an environment that has what it needs. The suite is not
on PyPI: clone https://github.com/data-apis/array-api-tests with its submodule. A test counts against us where it fails
on ours, passes on NumPy (with twenty times the examples, too), and does not stand in ``xfails.txt``; so does one that
NumPy passes and ours lacks or skips.
Each name in ``xfails.txt`` stands under a comment that says why (the suite's own option ``--xfails-file`` reads the
file, too).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = ("numpy", "tracegrad.array_api")
Outcomes = dict[str, str]  # by the test's name: passed, failed or skipped


def run(suite: Path, module: str, names: list[str], examples: int, seed: int, report: Path) -> subprocess.Popen[bytes]:
    """The tests *names* of the suite, begun, on *module*."""
    home = tempfile.mkdtemp(dir=report.parent)  # so that no run repeats the failures of another one
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--disable-deadline",
        "--max-examples", str(examples), f"--hypothesis-seed={seed}", f"--junitxml={report}",
        "--tb=short", "--disable-warnings", *names,
    ]  # fmt: skip
    settings = {"ARRAY_API_TESTS_MODULE": module, "ARRAY_API_TESTS_VERSION": "2024.12"}
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    places = {"HYPOTHESIS_STORAGE_DIRECTORY": home, "PYTHONPATH": path}
    with report.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(command, cwd=suite, env={**os.environ, **settings, **places}, stdout=log, stderr=log)


def outcomes(report: Path) -> Outcomes:
    """The outcome of each test in pytest's report."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        found[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return found


def reasons(text: str) -> dict[str, str]:
    """The reason of each test that is listed in *text*.

    :raises ValueError: for one that has none."""
    found, reason, listing = {}, "", True
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#"):
            reason = line[1:].strip() if listing else f"{reason} {line[1:].strip()}"
        elif line and not reason:
            raise ValueError(f"{line} is listed without a reason")
        elif line:
            found[line] = reason
        listing = not line.startswith("#")
    return found


def renamed(theirs: Outcomes, ours: Outcomes) -> Outcomes:
    """Our outcomes under the names of theirs: pytest numbers parameters that are dtypes (``dtype0``) and names those
    that are classes (``float32``), as NumPy's are."""
    found: Outcomes = {}
    for function in dict.fromkeys(name.partition("[")[0] for name in ours):
        mine, known = ([n for n in names if n.partition("[")[0] == function] for names in (ours, theirs))
        same = len(mine) == len(known) and any(n not in theirs for n in mine)
        found.update(zip(known if same else mine, [ours[n] for n in mine], strict=True))
    return found


def verdict(theirs: Outcomes, ours: Outcomes, known: dict[str, str]) -> tuple[list[str], list[str]]:
    """(tests that count against us, tests that are listed and have not failed)"""
    against = [n for n, outcome in theirs.items() if outcome == "passed" and ours.get(n, "missing") != "passed"]
    against += [n for n, outcome in ours.items() if outcome == "failed" and n not in theirs]
    return [n for n in against if n not in known], [n for n in known if ours.get(n) == "passed"]


def counted(found: Outcomes) -> str:
    return ", ".join(f"{[*found.values()].count(kind)} {kind}" for kind in ("passed", "failed", "skipped"))


def main() -> int:
    parser = argparse.ArgumentParser(description="array-api-tests on tracegrad.array_api, compared with NumPy")
    parser.add_argument("suite", type=Path)
    parser.add_argument("files", nargs="*", help="files of array_api_tests; all of them if none is given")
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_intermixed_args()
    known = reasons((HERE / "xfails.txt").read_text())
    with tempfile.TemporaryDirectory() as place:
        reports = [Path(place, f"{module}.xml") for module in MODULES]
        names = [f"array_api_tests/{name}" for name in options.files] or ["array_api_tests"]
        chosen = names, options.examples, options.seed
        for process in [run(options.suite, m, *chosen, r) for m, r in zip(MODULES, reports, strict=True)]:
            process.wait()
        for report in reports:
            if not report.exists() or not outcomes(report):
                print(report.with_suffix(".log").read_text())
                return 2
        theirs, ours = map(outcomes, reports)
        ours = renamed(theirs, ours)
        against, passed = verdict(theirs, ours, known)
        if against:  # those of special cases may need a number that NumPy's run has not drawn
            again = Path(place, "again.xml")
            run(options.suite, "numpy", against, 20 * options.examples, options.seed + 1, again).wait()
            theirs |= outcomes(again) if again.exists() else {}
            against, passed = verdict(theirs, ours, known)
        print(*[f"{m}: {counted(found)}" for m, found in zip(MODULES, (theirs, ours), strict=True)], sep="\n")
        failed = [name for name, outcome in ours.items() if outcome == "failed"]
        both = [name for name in failed if theirs.get(name) == "failed"]
        listed = [name for name in failed if name in known and name not in both]
        about = f"of those that fail on ours, {len(both)} fail on NumPy, too, {len(listed)} stand in xfails.txt"
        print(about, *listed, sep="\n  ")
        if against:
            print(reports[1].with_suffix(".log").read_text())
            print("worse than NumPy, and not in xfails.txt:", *against, sep="\n  ")
        if passed:
            print("in xfails.txt, and passed with these examples:", *passed, sep="\n  ")
    return int(bool(against))


if __name__ == "__main__":
    sys.exit(main())
