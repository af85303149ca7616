"""The documents tell the truth: their code runs and prints what it says, their tables are those of the program, and
what they name is there.  The files that comments name are there, too."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import linecache
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tracegrad
from tracegrad.runtime.config import Config
from tracegrad.tensors.random import default_generator
from tracegrad.tracer.random.stream import DEFAULT

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())
PLACES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")]
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(PLACES)}
LAYERS = [ROOT / name for name in ("tracer", "codegen", "runtime", "tracegrad")]
SOURCES = [path for folder in (*LAYERS, ROOT / "benchmarks") for path in sorted(folder.rglob("*.py"))]
FILE_NAMES = {path.name for path in [*SOURCES, *ROOT.glob("tests/**/*.py"), *ROOT.glob("examples/*.py")]}
FILE = re.compile(r"(?<![\w./*-])((?:[\w.-]+/)*\w+\.py)\b")
OF_A_USER = set(
    "yours.py model.py m.py FILE.py first.py mistake.py plot.py parallel.py".split()
)  # files in examples of recorded lines and of commands
# blocks marked ``python no-run``, since they need a device, or a variable at start
NOT_RUN = {"docs/array_api.md": 1, "docs/cuda.md": 1, "docs/tutorials/gpu.md": 1}


class Block(NamedTuple):
    code: str
    line: int  # lines in front of it
    runs: bool


def blocks_of(text: str) -> list[Block]:
    """The blocks of Python in a document."""
    found = re.finditer(r"^```python(.*)\n((?:(?!```).*\n)*)```$", text, re.MULTILINE)
    return [Block(m[2], text.count("\n", 0, m.start(2)), can_run(m[1].strip())) for m in found]


def can_run(said: str) -> bool:
    """Does a block run here?  ``python if NAME`` needs a package that may be missing."""
    needed = re.fullmatch(r"if (\w+)", said)
    return said != "no-run" if needed is None else importlib.util.find_spec(needed[1]) is not None


BLOCKS = {name: blocks for name, text in TEXTS.items() if (blocks := blocks_of(text))}
every_document = pytest.mark.parametrize("document", TEXTS)


# ---- code ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def streams_kept() -> Iterator[None]:
    """Random numbers go on afterwards as if the documents had drawn none."""
    of_numpy, of_keys, of_tensors = np.random.get_state(), DEFAULT.state, vars(default_generator).copy()
    stream = default_generator._stream.bit_generator
    position = stream.state
    yield
    np.random.set_state(of_numpy)
    DEFAULT.state = of_keys
    vars(default_generator).update(of_tensors)
    stream.state = position


LONG = ("docs/tutorials/", "docs/recipes.md")  # seconds each


@pytest.mark.parametrize(
    "document", [pytest.param(name, marks=[pytest.mark.slow] * name.startswith(LONG)) for name in BLOCKS]
)
@pytest.mark.usefixtures("fresh_kernels", "streams_kept")
def test_code_runs_and_prints_what_it_says(document: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The blocks run in order in one module; ``print(...)  # text`` promises that line of output."""
    monkeypatch.chdir(tmp_path)  # some write files
    module = types.ModuleType("example_of_a_document")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    lines: list[str] = []  # of the blocks so far: functions of earlier ones are looked up, too
    for block in BLOCKS[document]:
        text, name = "\n" * block.line + block.code, str(ROOT / document)
        lines += text.splitlines(keepends=True)[len(lines) :]
        monkeypatch.setitem(linecache.cache, name, (sum(map(len, lines)), None, [*lines], name))
        code = compile(text, name, "exec")
        if not block.runs:
            continue
        promised = re.findall(r"^ *print\(.*\) *# (.+)$", block.code, re.MULTILINE)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, module.__dict__)
        assert output.getvalue().splitlines() == promised


def test_every_block_of_code_is_run_but_for_those_that_say_so() -> None:
    for name, text in TEXTS.items():
        for said in re.findall(r"^ *```(py.*)$", text, re.MULTILINE):
            assert re.fullmatch(r"python( no-run| if \w+)?", said), name
        assert text.count("```python") == len(BLOCKS.get(name, [])), name
    left_out = {name: text.count("```python no-run") for name, text in TEXTS.items()}
    assert {name: count for name, count in left_out.items() if count} == NOT_RUN


# ---- length and names ----------------------------------------------------------------------------------------------


def test_the_first_pages_are_short() -> None:
    assert len(TEXTS["README.md"].splitlines()) <= 150
    assert len(BLOCKS["README.md"][0].code.splitlines()) <= 20
    assert len(TEXTS["ARCHITECTURE.md"].encode()) <= 10_000


def anchors_of(text: str) -> set[str]:
    """What links to a heading of the document call it."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


@every_document
def test_links_lead_somewhere(document: str) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", TEXTS[document]):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        place = (ROOT / document).parent / target if target else ROOT / document
        assert place.exists() or target.startswith("reference/"), f"{document} links to {target}"  # made by the site
        assert not anchor or anchor in anchors_of(place.read_text()), f"{document} links to {link}"


def is_known(name: str, *folders: Path) -> bool:
    """Is *name* a file?  With a folder: from the root of the repository, or from *folders*.  Without: anywhere."""
    return any((folder / name).is_file() for folder in (ROOT, *folders)) if "/" in name else name in FILE_NAMES


@every_document
def test_files_that_are_named_exist(document: str) -> None:
    for name in set(FILE.findall(TEXTS[document])) - OF_A_USER:
        assert is_known(name, (ROOT / document).parent), f"{document} names {name}"


def test_files_that_comments_name_exist() -> None:
    for path in SOURCES:
        for name in set(FILE.findall(path.read_text())) - OF_A_USER:
            assert is_known(name, path.parent, *LAYERS), f"{path.relative_to(ROOT)} names {name}"


@every_document
def test_folders_that_are_named_exist(document: str) -> None:
    made = (ROOT / ".gitignore").read_text().split()
    for name in re.findall(r"`((?:[\w.-]+/)+)`", TEXTS[document]):
        beside = (ROOT / document).parent / name
        assert (ROOT / name).is_dir() or beside.is_dir() or name in made, f"{document} names {name}"


@every_document
def test_what_is_said_to_stand_in_a_file_does(document: str) -> None:
    """``name`` in ``file.py``, and ``file.py``: ``name``."""
    text = re.sub(r"\s+", " ", TEXTS[document])
    found = re.findall(r"`([\w.]+)` in `([\w./]+\.py)`", text)
    found += [(name, file) for file, name in re.findall(r"`([\w./]+\.py)`: `([\w.]+)`", text)]
    for name, file in found:
        source = (ROOT / file).read_text()
        for part in name.split("."):
            assert re.search(rf"^\s*(def |class )?{part}\b", source, re.MULTILINE), f"{document}: {name} in {file}"


def test_the_index_lists_every_page() -> None:
    pages = {name.removeprefix("docs/") for name in TEXTS if name.startswith("docs/")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([^)#]+)\)", TEXTS["docs/README.md"]))


# ---- tables --------------------------------------------------------------------------------------------------------


def test_settings_are_documented() -> None:
    text = TEXTS["docs/settings.md"]
    rows = dict(re.findall(r"^\| `(\w+)` \| `(TRACEGRAD_\w+)` \|", text, re.MULTILINE))
    assert rows == {name: f"TRACEGRAD_{name.upper()}" for name in Config.__annotations__}
    for name, default in re.findall(r"^\| `(\w+)` \| `TRACEGRAD_\w+` \| (\d+) \|", text, re.MULTILINE):
        assert int(getattr(Config(), name)) == int(default)


def test_errors_are_documented() -> None:
    for name in tracegrad.__all__:
        if isinstance(getattr(tracegrad, name), type) and issubclass(getattr(tracegrad, name), Exception):
            assert f"`{name}`" in TEXTS["docs/errors.md"] or f"`{name}`s" in TEXTS["docs/errors.md"]


def test_errors_are_the_built_in_ones_that_the_table_says() -> None:
    rows = re.findall(r"^\| `(?:cuda\.)?(\w+)` \| (.+?) \|", TEXTS["docs/errors.md"], re.MULTILINE)
    assert len(rows) > 5
    for name, bases in rows:
        error = getattr(tracegrad.cuda if name == "OutOfMemoryError" else tracegrad, name)
        for base in re.findall(r"`(\w+)`", bases):
            assert base in [parent.__name__ for parent in error.__mro__], name
