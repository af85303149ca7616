"""Imports go strictly downward: tracegrad -> runtime -> codegen -> tracer; inside a layer they form no circle."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ["tracegrad", "runtime", "codegen", "tracer"]  # from the top down
FILES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


def module_name(path: Path) -> str:
    """The installed name of a source file."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts if parts[0] == "tracegrad" else ["tracegrad", *parts])


MODULES = {module_name(path): path for path in FILES}
IDS = [str(path.relative_to(ROOT)) for path in FILES]


def layer_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else parts[0]


def typing_only(tree: ast.Module) -> set[ast.AST]:
    """Nodes under ``if TYPE_CHECKING:``, which never run."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            found.update(inner for statement in node.body for inner in ast.walk(statement))
    return found


def imported_modules(path: Path, *, run_time: bool = False) -> Iterator[tuple[str, int]]:
    """(module of ours, line) for each import in *path*; a module imported by name from a package counts as itself."""
    tree = ast.parse(path.read_text())
    skipped = typing_only(tree) if run_time else set()
    own = module_name(path)
    package = own if path.name == "__init__.py" else own.rpartition(".")[0]
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "tracegrad":
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, *([node.module] if node.module else [])])
            if base.split(".")[0] != "tracegrad":
                continue
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield (name if name in MODULES else base), node.lineno


def test_the_layers_are_there():
    assert all((ROOT / layer).is_dir() for layer in LAYERS)
    assert "tracegrad.tracer.ir.graph" in MODULES and len(MODULES) > 20


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_imports_go_downward(path):
    own = layer_of(module_name(path))
    for module, line in imported_modules(path):
        target = layer_of(module)
        assert LAYERS.index(target) >= LAYERS.index(own), f"{path.name}:{line}: {own} imports {module}, from above it"


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_imports_name_modules_that_exist(path):
    for module, line in imported_modules(path):
        assert module in MODULES, f"{path.name}:{line}: there is no {module}"


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_imports_between_layers_are_relative(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            assert name.split(".")[0] not in LAYERS, f"{path.name}:{node.lineno}: import {name} relatively"


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_no_import_inside_a_function(path):
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for node in ast.walk(function):
                inside = isinstance(node, (ast.Import, ast.ImportFrom))
                where = getattr(function, "name", "a lambda")
                assert not inside, f"{path.name}:{node.lineno}: an import inside {where}"


def test_no_circular_imports():
    graph = {
        name: {module for module, _ in imported_modules(path, run_time=True)} & set(MODULES)
        for name, path in MODULES.items()
    }
    for name, targets in graph.items():
        targets.discard(name)
        # `from .x import y` in a package's __init__ and `from . import z` in its module z's siblings are no circle
        if MODULES[name].name != "__init__.py":
            targets.discard(name.rpartition(".")[0])
    state: dict[str, int] = {}

    def visit(name: str, trail: list[str]) -> None:
        assert state.get(name) != 1, " -> ".join([*trail[trail.index(name) :], name])
        if state.get(name) == 2:
            return
        state[name] = 1
        for target in sorted(graph[name]):
            visit(target, [*trail, name])
        state[name] = 2

    for name in graph:
        visit(name, [])


@pytest.mark.parametrize("layer", [name for name in reversed(LAYERS) if name != "tracegrad"])
def test_a_layer_imports_alone(layer):
    """Importing a layer's modules brings in nothing from above it (beyond the package that holds them all)."""
    above = [f"tracegrad.{name}" for name in LAYERS[1 : LAYERS.index(layer)]]
    modules = sorted(m for m in MODULES if m.startswith(f"tracegrad.{layer}"))
    script = (
        "import sys, types, importlib, importlib.util\n"
        "spec = importlib.util.find_spec('tracegrad')\n"
        "package = types.ModuleType('tracegrad')\n"  # the package without its __init__, which is the top layer
        "package.__path__ = spec.submodule_search_locations\n"
        "sys.modules['tracegrad'] = package\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        f"print([m for m in sys.modules if m.startswith({tuple(above) or ('-',)!r})])\n"
    )
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "tests", check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"
