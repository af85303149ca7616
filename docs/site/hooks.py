"""Hooks of the documentation site: pages that lie elsewhere in the repository, the pages of the reference, and links.

The reference has a page for each section of tests/project/public_names.txt, with every name in it; that a name is
missing from what was built is a warning, which fails the build.
"""

from __future__ import annotations

import logging
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from reference import page_of, pages, sections  # noqa: E402

REFERENCE = pages()
# colours of the pictures, and what they are in the dark
DARK = {
    "#1d2733": "#dbe3ec", "#5b6b7f": "#9fb0c3", "#ffffff": "#232d3b", "#8795a8": "#6d7d92",
    "#e6effa": "#1d3350", "#3f77b5": "#6ea3dd", "#fdeedd": "#4a3017", "#d9722b": "#f0994f",
}  # fmt: skip
LOG = logging.getLogger("mkdocs.hooks")

# pages of the site that lie elsewhere in the repository
ELSEWHERE = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "docs/README.md": "index.md",
    "README.md": "index.md",
}
_LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Fill in the reference, and leave out what is not there."""
    there = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    there |= {*ELSEWHERE.values(), *REFERENCE}
    config["nav"] = _present(config["nav"], there)
    return config


def _present(nav: list[Any], there: set[str]) -> list[Any]:
    found: list[Any] = []
    for entry in nav:
        title, place = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if place == "reference":
            names = [page for page in REFERENCE if page != "reference/index.md"]
            place = ["reference/index.md", *names]
        elif isinstance(place, list):
            place = _present(place, there)
        elif place not in there:
            continue
        if place:
            found.append(place if title is None else {title: place})
    return found


def on_files(files: Files, config: Any) -> Files:
    for source, page in ELSEWHERE.items():
        if files.get_file_from_path(page) is None:
            files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for picture in (ROOT / "docs" / "site" / "pictures").glob("*.svg"):
        text = re.sub("#[0-9a-f]{6}", lambda found: DARK.get(found[0], found[0]), picture.read_text())
        files.append(File.generated(config, f"site/pictures/dark/{picture.name}", content=text))
    for page, text in REFERENCE.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to files of the repository as links within the site, where they are pages of it."""
    here = page.file.src_uri
    source = next((source for source, name in ELSEWHERE.items() if name == here), f"docs/{here}")

    def link(found: re.Match[str]) -> str:
        mark, text, target = found.groups()
        path, hash_, anchor = target.partition("#")
        if "://" in target or not path or mark:
            return found[0]
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        name = ELSEWHERE.get(whole) or whole.removeprefix("docs/")
        if files.get_file_from_path(name) is not None and (whole.startswith("docs/") or whole in ELSEWHERE):
            return f"[{text}]({posixpath.relpath(name, posixpath.dirname(here) or '.')}{hash_}{anchor})"
        if (ROOT / whole).exists():  # a file that is no page
            return text
        return found[0]

    picture = r"!\[([^\]]*)\]\((\S*pictures/)([\w-]+\.svg)\)"
    markdown = re.sub(picture, r"![\1](\2\3#only-light)![\1](\2dark/\3#only-dark)", markdown)
    blocks = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    blocks[::2] = [_LINK.sub(link, block) for block in blocks[::2]]
    return re.sub(r"^```python .*$", "```python", "".join(blocks), flags=re.MULTILINE)


def on_post_build(config: Any) -> None:
    """Every public name has its place in the reference."""
    for path, names in sections().items():
        page = Path(config["site_dir"]) / page_of(path).replace(".md", ".html")
        there = set(re.findall(r'id="([\w.]+)"', page.read_text()))
        missing = [name for name in names if f"{path}.{name}" not in there]
        if missing:
            LOG.warning("%s: the reference has no %s", path, ", ".join(missing))
