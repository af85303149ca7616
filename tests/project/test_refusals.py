"""Refusals: the page lists the enum, and the library uses each of its members."""

from __future__ import annotations

import re
from pathlib import Path

from tracegrad.tracer.ir.refusals import Refusal

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())
PAGE = (ROOT / "docs/internals/refusals.md").read_text()
FILES = [path for layer in ("tracer", "codegen", "runtime", "tracegrad") for path in (ROOT / layer).rglob("*.py")]


def test_the_page_lists_the_enum() -> None:
    assert re.findall(r"^\| `([\w/-]+)` \| (.+) \|$", PAGE, re.MULTILINE) == [(str(r), r.value) for r in Refusal]


def test_the_page_has_a_heading_for_each_question() -> None:
    questions = list(dict.fromkeys(str(r).partition("/")[0] for r in Refusal))
    assert re.findall(r"^## (\w+)$", PAGE, re.MULTILINE) == questions
    shown = PAGE.partition("\n## ")[0]
    assert sorted(re.findall(r"`(\w+)`(?=,| \|$)", shown, re.MULTILINE)) == sorted(questions)


def test_every_member_is_used() -> None:
    used = {name for path in FILES for name in re.findall(r"\bRefusal\.([A-Z_]+)\b", path.read_text())}
    assert used == set(Refusal.__members__)


def test_a_reason_prints_its_text_and_its_code() -> None:
    reason = Refusal.LOOP_KIND(name="{here}")
    text = "`{here}` is of another kind after an iteration"
    assert (reason.code, reason.text) == (Refusal.LOOP_KIND, text)
    assert str(reason.within("<", ">")) == f"<{text}> (loop/kind)"
