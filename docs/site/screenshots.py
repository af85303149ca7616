"""Screenshots of the site, made by a headless chromium: ``make docs``, then ``python docs/site/screenshots.py``.

They are there to be looked at: the first page in docs/screenshots/, every page in FOLDER with --all FOLDER.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"


def take(page: str, place: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
    """A picture of a *page* of the site as a PNG at *place*."""
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000"]
        options += [f"--window-size={width},{height}", f"--user-data-dir={profile}", f"--screenshot={place}"]
        options += ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
        subprocess.run(["chromium", *options, f"file://{SITE / page}"], check=True, capture_output=True)


def main() -> None:
    (ROOT / "docs" / "screenshots").mkdir(exist_ok=True)
    take("index.html", ROOT / "docs" / "screenshots" / "site.png")
    if sys.argv[1:2] == ["--all"]:
        for page in sorted(SITE.rglob("*.html")):
            name = page.relative_to(SITE).as_posix().replace("/", "-").removesuffix(".html")
            take(page.relative_to(SITE).as_posix(), Path(sys.argv[2]) / f"{name}.png")


if __name__ == "__main__":
    main()
