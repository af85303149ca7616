"""What is shipped: metadata, public names, a complete wheel that works."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import tracegrad

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LAYERS = ("tracegrad", "runtime", "codegen", "tracer")
SOURCES = sorted(
    str(p.relative_to(ROOT))
    for layer in LAYERS
    for end in ("py", "pyi", "html")
    for p in (ROOT / layer).rglob(f"*.{end}")
)


def installed_name(source: str) -> str:
    """Where a source file of the repository lies in the installed package."""
    return source if source.startswith("tracegrad/") else f"tracegrad/{source}"


#: what is installed of the repository
INSTALLED = sorted([*map(installed_name, SOURCES), "tracegrad/py.typed"])


def build(kind: str, source: Path, place: Path) -> Path:
    """The "wheel" or "sdist" that setuptools makes of a folder with a pyproject.toml, written into *place*."""
    place.mkdir()
    program = f"import setuptools.build_meta as backend; backend.build_{kind}({str(place)!r})"
    done = subprocess.run([sys.executable, "-c", program], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,) = place.iterdir()
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, so that no earlier build can leave anything in what is built."""
    copy = tmp_path_factory.mktemp("built") / "source"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for folder in (*LAYERS, "tests"):
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    return build("wheel", source, source.parent / "wheel")


def test_metadata() -> None:
    about = metadata.metadata("tracegrad")
    assert about["Name"] == "tracegrad"
    assert about["Version"] == tracegrad.__version__
    assert PROJECT["project"]["dynamic"] == ["version"]  # which the build reads from the package
    assert about["Requires-Python"] == ">=3.11"
    assert about["License-Expression"] == "Apache-2.0"
    assert set(about.get_all("Provides-Extra") or ()) >= {"test", "bench", "cuda", "examples"}


def test_runtime_requirements_are_the_agreed_ones() -> None:
    names = {re.split(r"[<>=!~ ]", r)[0] for r in PROJECT["project"]["dependencies"]}
    assert names == {"numpy", "scipy", "numba", "llvmlite", "optree", "ml_dtypes", "platformdirs"}


def test_every_requirement_of_use_and_test_has_a_lower_bound_that_can_be_installed() -> None:
    """``make test-oldest`` installs what this prints."""
    done = subprocess.run([sys.executable, ".ci/oldest.py", "test"], cwd=ROOT, capture_output=True, text=True)
    required = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["test"]
    assert len(done.stdout.split()) == len(required) == done.stdout.count("=="), done.stderr
    assert not re.search(r"[\[\]<>]", done.stdout)


@pytest.mark.parametrize("module", ["tracegrad", "tracegrad.autograd"])
def test_public_names_exist(module: str) -> None:
    face = importlib.import_module(module)
    assert sorted(face.__all__) == list(face.__all__)
    for name in face.__all__:
        assert getattr(face, name) is not None


def test_every_folder_of_code_is_a_package() -> None:
    for folder in {Path(source).parent for source in SOURCES}:
        assert (ROOT / folder / "__init__.py").is_file(), folder


@pytest.mark.slow
def test_a_bare_checkout_can_be_imported() -> None:
    program = "import tracegrad; print(tracegrad.__file__, tracegrad.tracer.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {program}"],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert done.stdout.split() == [f"{ROOT}/tracegrad/__init__.py", f"{ROOT}/tracegrad/tracer/__init__.py"], done.stderr


def test_wheel_holds_every_file_once(wheel: Path) -> None:
    contents = zipfile.ZipFile(wheel).namelist()
    about = f"tracegrad-{tracegrad.__version__}.dist-info/"
    assert sorted(name for name in contents if not name.startswith(about)) == INSTALLED
    assert any(name.endswith("licenses/LICENSE") for name in contents)


@pytest.mark.slow
def test_sdist_holds_every_file_once_and_makes_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", source, tmp_path / "sdist")) as archive:
        members = [member for member in archive.getmembers() if not member.isdir()]
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("tracegrad-*")
    names = sorted(member.name.removeprefix(f"{unpacked.name}/") for member in members)
    about = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
    assert all(member.isfile() for member in members)
    assert [name for name in names if name not in about and ".egg-info/" not in name] == INSTALLED
    again = build("wheel", unpacked, tmp_path / "wheel")
    first, second = ({i.filename: i.CRC for i in zipfile.ZipFile(w).infolist()} for w in (wheel, again))
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_is_installed_and_works(kind: str, source: Path, wheel: Path, tmp_path: Path) -> None:
    """By pip, without its requirements, which this environment has; from the sdist without fetching a build backend."""
    file = wheel if kind == "wheel" else build("sdist", source, tmp_path / "sdist")
    place = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    done = subprocess.run([*pip, "--target", str(place), str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    program = (
        "import tracegrad, numpy as np\n"
        f"assert tracegrad.__file__.startswith({str(place)!r}), tracegrad.__file__\n"
        "from importlib.metadata import version; assert version('tracegrad') == tracegrad.__version__\n"
        "value, g = tracegrad.compile_grad(lambda x: np.sum(x * np.sin(x))).value_and_grad(np.arange(3.0))\n"
        "assert np.allclose(g, np.sin(np.arange(3.0)) + np.arange(3.0) * np.cos(np.arange(3.0)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(place)}
    for command in ([sys.executable, "-c", program], [sys.executable, str(place / "bin" / "tracegrad"), "--help"]):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "check" in done.stdout and done.stdout.startswith("usage: tracegrad ")


def test_ci_runs_the_tests_and_the_linters() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    steps = [line.partition(" PYTEST_ARGS=")[0] for line in script.read_text().splitlines() if line.startswith("make ")]
    assert steps == ["make oracle", "make test-all", "make lint", "make docs"]
