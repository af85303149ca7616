"""The documentation site: every page has its place, the reference has every public name, and it is built without a
warning."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_public_names import LISTED

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = runpy.run_path(str(ROOT / "docs" / "site" / "reference.py"))
CONFIG = (ROOT / "mkdocs.yml").read_text()


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return REFERENCE["pages"]()


def test_the_reference_has_every_public_name_with_what_it_is(pages: dict[str, str]) -> None:
    entries = {}
    for page in pages.values():
        entries |= dict(re.findall(r"^### .* \{ #(\S+) \}\n\n((?:(?!##).*\n)*)", page, re.MULTILINE))
    assert set(entries) == {f"{path}.{name}" for path, names in LISTED.items() for name in names}
    assert [name for name, text in entries.items() if not text.strip()] == []


def test_the_newcomers_path_has_every_block_of_the_quickstart() -> None:
    """``docs/newcomer.py`` saves each program under a name of its own, and runs it."""
    text = (ROOT / "docs" / "quickstart.md").read_text()
    steps = runpy.run_path(str(ROOT / "docs" / "newcomer.py"))["steps"](text)
    saved = [step.partition("\n")[0] for kind, step in steps if kind == "file"]
    run = [step for kind, step in steps if kind == "run"]
    assert len(set(saved)) == len(saved) == text.count("```python") > 0
    assert [command.rpartition(" ")[2] for command in run[2:]] == saved


def test_every_page_is_in_a_menu() -> None:
    menu = set(re.findall(r"[\w/-]+\.md", CONFIG.partition("\nnav:")[2]))
    assert {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")} - menu == {
        "README.md"
    }


@pytest.mark.slow
def test_it_is_built_and_can_be_searched_without_a_server(tmp_path: Path) -> None:
    """Nothing is fetched from elsewhere, and a browser that opens a page as a file finds words."""
    for name in ("mkdocs", "material"):
        pytest.importorskip(name, reason="make docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    index = (tmp_path / "search" / "search_index.js").read_text()
    assert "Kepler" in index and "tracegrad.compile_grad" in index
    loaded = re.findall(
        r'<(?:script|link|img)[^>]* (?:src|href)="(https?:[^"]*)"', (tmp_path / "index.html").read_text()
    )
    assert loaded == []
    browser = shutil.which("chromium")
    if browser is not None:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000", "--dump-dom"]
        options += [f"--user-data-dir={tmp_path / 'browser'}", f"file://{tmp_path}/index.html?q=Kepler"]
        shown = subprocess.run([browser, *options], capture_output=True, text=True).stdout
        assert re.search(r"search-result__meta\">\d+ matching document", shown)
