"""Screenshots for the documentation, by a headless browser: ``make docs``, then ``python docs/site/screenshots.py``.

The site's first page, ``explain(format="html")``, and cells of a notebook that nbconvert runs; every page of the site
in FOLDER with ``--all FOLDER``. Needs Chromium, and ``pip install nbconvert ipykernel pillow``. Look at the files in
docs/screenshots/ before committing.
"""

from __future__ import annotations

import linecache
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"
FOLDER = ROOT / "docs" / "screenshots"
CODE = """\
import numpy as np
from tracegrad import compile_grad

def layer(p, h):
    W, b = p
    return np.tanh(h @ W + b)

@compile_grad
def loss(params, X, y):
    h = X
    for p in params:
        h = layer(p, h)
    return np.mean((h[:, 0] - y) ** 2)

rng = np.random.default_rng(0)
sizes = [10, 32, 16, 1]
params = [(0.3 * rng.normal(size=(m, n)), np.zeros(n)) for m, n in zip(sizes, sizes[1:])]
X, y = rng.normal(size=(1000, 10)), rng.normal(size=1000)
for _ in range(3):
    value, gradient = loss.value_and_grad(params, X, y)
"""


def shoot(page: Path, file: Path, size: tuple[int, int] = (1280, 900), dark: bool = False) -> None:
    """Write what a browser shows of a *page* of HTML to a PNG *file*, in few colours."""
    browser = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit("there is no chromium here: apt-get install chromium")
    file.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--virtual-time-budget=4000", f"--user-data-dir={profile}", f"--screenshot={file}"]
        command += [f"--window-size={size[0]},{size[1]}", *["--blink-settings=preferredColorScheme=0"] * dark]
        subprocess.run([*command, page.as_uri()], check=True, capture_output=True, timeout=120)
    from PIL import Image

    Image.open(file).convert("RGB").quantize(96).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size // 1024} KiB")


def shoot_text(text: str, file: Path, size: tuple[int, int], dark: bool = False) -> None:
    """``shoot`` of the *text* of a page."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        page.write_text(text, encoding="utf-8")
        shoot(page, file, size, dark)


def site_pages(folder: Path) -> None:
    """Every page of the site."""
    for page in sorted(SITE.rglob("*.html")):
        name = page.relative_to(SITE).as_posix().replace("/", "-").removesuffix(".html")
        shoot(page, folder / f"{name}.png")


def explain_page(folder: Path = FOLDER) -> None:
    """``explain(format="html")`` of a network of three layers, light and dark."""
    name = "network.py"
    linecache.cache[name] = (len(CODE), None, CODE.splitlines(keepends=True), name)
    space: dict[str, object] = {"__name__": "network"}
    exec(compile(CODE, name, "exec"), space)
    page = space["loss"].explain(space["params"], space["X"], space["y"], format="html")  # type: ignore[attr-defined]
    shoot_text(page, folder / "explain.png", (1320, 900))
    shoot_text(page, folder / "explain-dark.png", (1320, 900), dark=True)


def notebook_cell(folder: Path = FOLDER) -> None:
    """A notebook in which a compiled function, its counters and a Tensor are results of cells."""
    import nbformat
    from nbconvert import HTMLExporter
    from nbconvert.preprocessors import ExecutePreprocessor

    cells = [
        "from network import loss, params, X, y\nimport tracegrad as tg", "loss", "tg.tensor(params[0][0])",
        "loss.explain(params, X, y)",
    ]  # fmt: skip
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    with tempfile.TemporaryDirectory() as work:
        Path(work, "network.py").write_text(CODE)
        ExecutePreprocessor(timeout=120).preprocess(book, {"metadata": {"path": work}})
    page, _ = HTMLExporter().from_notebook_node(book)
    shoot_text(page, folder / "notebook.png", (1120, 1190))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--all"]:
        site_pages(Path(sys.argv[2]))
    else:
        shoot(SITE / "index.html", FOLDER / "site.png")
        explain_page()
        notebook_cell()
