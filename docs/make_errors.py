"""Make the mistakes of docs/errors.md from the table of tests: ``python docs/make_errors.py``.

Each program of ``tests/support/mistakes.py`` is run; what it raises is what the page shows, and a test compares them.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "errors.md"
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from mistakes import BEFORE, GROUPS, MISTAKES, Mistake, told  # noqa: E402

MARK = "<!-- from here on made by docs/make_errors.py -->\n"


def introduction() -> str:
    """The part of the page that is written by hand."""
    return PAGE.read_text().partition(MARK)[0]


def render() -> str:
    """The page."""
    parts = [introduction() + MARK, f"## {len(MISTAKES)} mistakes, and what you are told", _before()]
    for name, mistakes in GROUPS.items():
        parts += [f"### {name}", *map(_shown, mistakes)]
    return "\n\n".join(parts) + "\n"


def _before() -> str:
    return f"Each is a file of its own, `yours.py`, which begins with\n\n```text\n{BEFORE.strip()}\n```"


def _shown(mistake: Mistake) -> str:
    error = told(mistake)
    assert error is not None, mistake.title
    lines = [line.strip() for line in str(error).splitlines()]
    text = f"{type(error).__name__}: " + "\n".join(lines)
    return f"**{mistake.title}**\n\n```text\n{mistake.code}\n```\n\n```text\n{text}\n```"


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PAGE.write_text(render())
