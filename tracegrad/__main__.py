"""``python -m tracegrad check FILE.py:function``: whether a function records, before anything is changed in it;
``python -m tracegrad cache info``, ``clear`` or ``verify``: the kernels on disk; ``python -m tracegrad doctor``: what
is installed and found here."""

from __future__ import annotations

import argparse
import os
import sys

from .check.doctor import doctor
from .check.example import UsageError, find_example
from .check.report import check
from .runtime.disk.report import REPORTS


def command_name() -> str:
    """The command as it was written: ``tracegrad``, or ``python -m tracegrad``."""
    return "python -m tracegrad" if os.path.basename(sys.argv[0]) == "__main__.py" else "tracegrad"


def main(words: list[str] | None = None) -> int:
    """Runs the command; returns 0 where the function records and is right, or all files hold, else 1; 2 on wrong
    usage."""
    parser = argparse.ArgumentParser(prog=command_name(), description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    sub = commands.add_parser("check", help="whether a function records, what of it, and at which line it does not")
    sub.add_argument("target", metavar="FILE.py:function", help="or FILE.py:Class.method")
    sub.add_argument(
        "--call", metavar="CODE", help='an example, as in --call "f(np.ones(3), 2.0)"; else the first one in a doctest'
    )
    sub.add_argument("--explain", action="store_true", help="the recorded program, its loops and memory besides")
    cache = commands.add_parser("cache", help="kernels on disk: what there is, delete all, delete what is damaged")
    cache.add_argument("action", choices=sorted(REPORTS))
    commands.add_parser("doctor", help="versions, vector math, threads, BLAS, CUDA, cache, what is known to be bad")
    options = parser.parse_args(words)
    if options.command == "doctor":
        text, status = doctor()
        print(text)
        return status
    if options.command == "cache":
        text, status = REPORTS[options.action]()
        print(text)
        return status
    try:
        example = find_example(options.target, options.call)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    text, status = check(example, options.explain)
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
