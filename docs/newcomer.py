"""A newcomer's path: every command of docs/quickstart.md in a new virtual environment, timed.

    python docs/newcomer.py            a table; python docs/newcomer.py --keep FOLDER leaves the files there

Blocks of Python are saved under the names that the text gives them (Save this as `first.py`), blocks of `sh` are run as
they are, in a copy of the sources.  What a program prints has to be what its comments say.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("tracegrad", "runtime", "codegen", "tracer", "pyproject.toml", "README.md", "LICENSE")


def steps(text: str) -> list[tuple[str, str]]:
    """("file", name + code) and ("run", command), in the order of the page."""
    found = []
    names = re.finditer(r"[Ss]ave (?:this )?as `(\w+\.py)`|^```(sh|python)[^\n]*\n(.*?)^```$", text, re.M | re.S)
    name = ""
    for match in names:
        if match[1]:
            name = match[1]
        elif match[2] == "python":
            found.append(("file", f"{name}\n{match[3]}"))
        else:
            found += [("run", line) for line in match[3].splitlines()]
    return found


def run(folder: Path) -> list[tuple[str, float]]:
    """Go the path in *folder*: commands and seconds.  A failure, or another output than promised, ends it."""
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TRACEGRAD", "VIRTUAL_ENV"))}
    environment["TRACEGRAD_CACHE_DIR"] = str(folder / "cache")  # empty, as a newcomer's is
    table, promised = [], {}
    for kind, text in steps((ROOT / "docs" / "quickstart.md").read_text()):
        if kind == "file":
            name, _, code = text.partition("\n")
            (folder / name).write_text(code)
            promised[name] = re.findall(r"^ *print\(.*\) *# (.+)$", code, re.MULTILINE)
            continue
        began = time.perf_counter()
        done = subprocess.run(text, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
        table.append((text, time.perf_counter() - began))
        if done.returncode:
            sys.exit(f"{text}\n{done.stdout}{done.stderr}")
        script = text.rpartition(" ")[2]
        if script in promised and done.stdout.splitlines() != promised[script]:
            sys.exit(f"{text} printed\n{done.stdout}and the page says\n{promised[script]}")
    return table


def main() -> None:
    keep = Path(sys.argv[2]) if sys.argv[1:2] == ["--keep"] else None
    if keep is not None:
        keep.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        table = run(keep or Path(temporary))
    for command, seconds in [*table, ("in all", sum(seconds for _, seconds in table))]:
        print(f"{seconds:8.1f} s  {command}")


if __name__ == "__main__":
    main()
