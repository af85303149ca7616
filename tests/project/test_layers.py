"""The house holds: layers and rooms import strictly downward, and no two files import each other.

One parse of all files. ``TYPE_CHECKING`` imports count: a circle for a type checker is a circle for a reader.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracegrad.tracer.ir.gc_pause import fewer_collections

ROOT = Path(__file__).resolve().parents[2]
# Rooms from the top down. A room is a folder; a file that stands in a layer's own folder is a room by itself.
ROOMS = {
    "tracegrad": (
        "__main__", "check", "compat.autograd.scipy", "compat.autograd.misc", "compat.autograd", "compat", "", "amp",
        "array_api",
        "dask", "interop", "saving", "cuda", "fft", "linalg", "random", "tree", "autograd", "steps", "optim", "nn",
        "nn.functional", "tensors", "faces",
    ),
    "runtime": (
        "ahead", "inspection", "transforms", "compiled", "ahead_of_time", "report", "paths", "stored", "record",
        "cuda", "state", "launch", "chrome_trace", "profiling", "log", "disk", "declare", "tensor_library", "memo",
        "memory", "progress", "stats", "mode", "config", "threads", "recent", "wrapper",
    ),
    "codegen": ("cuda", "cpu", "schedule", "lower", "derive", "evaluate"),
    "tracer": ("rules", "scipy_api", "random", "control", "numpy_api", "reroll", "record", "ops", "bytecode", "ir"),
}  # fmt: skip
LAYERS = list(ROOMS)


def module_name(path: Path) -> str:
    """The installed name of a source file."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts if parts[0] == "tracegrad" else ["tracegrad", *parts])


FILES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))  # rglob follows no links
MODULES = {module_name(path): path for path in FILES}
PACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py"}
# Not files of code: signatures of what tables make, which belong to the modules that have the tables.
STUBS = {module_name(path) for layer in LAYERS for path in (ROOT / layer).rglob("*.pyi")}


@functools.cache  # not while tests are collected, which each worker does
def trees() -> dict[str, ast.Module]:
    with fewer_collections():  # which would look at all trees again and again
        return {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def statements(node: ast.AST, function: str = "") -> Iterator[tuple[ast.stmt, str]]:
    """Each statement in *node*, with the name of the outermost function around it; expressions, which are most of a
    tree, are not looked into."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child, function
            inner = child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else ""
            yield from statements(child, function or inner)
        elif isinstance(child, (ast.excepthandler, ast.match_case)):
            yield from statements(child, function)


def place(module: str) -> tuple[int, int]:
    """(layer, room) of a module as positions in ``ROOMS``; a package's ``__init__`` belongs to the package's room."""
    parts = module.split(".")[1:]
    layer = parts.pop(0) if parts and parts[0] in LAYERS else "tracegrad"
    if module not in PACKAGES and len(parts) > 1:
        parts.pop()
    room = ".".join(parts)
    return LAYERS.index(layer), ROOMS[layer].index(room) if room or layer == "tracegrad" else -1


def imports(module: str) -> list[tuple[str, int]]:
    """(module of ours, line) for each import; a module that is imported by name from its package counts as itself."""
    package = module if module in PACKAGES else module.rpartition(".")[0]
    found = []
    for node, _ in statements(trees()[module]):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names if alias.name.split(".")[0] == "tracegrad"]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *([node.module] if node.module else [])])
            if base.split(".")[0] == "tracegrad":
                for alias in node.names if base not in STUBS else ():
                    name = f"{base}.{alias.name}"
                    found.append((name if name in MODULES else base, node.lineno))
    return found


@functools.cache
def every_import() -> dict[str, list[tuple[str, int]]]:
    return {module: imports(module) for module in MODULES}


def test_every_file_is_in_a_room_that_is_known() -> None:
    assert len(MODULES) > 250
    for module in MODULES:
        place(module)  # ValueError: a room that is not in ROOMS
    known = {"", *(room for rooms in ROOMS.values() for room in rooms)}
    used = {ROOMS[LAYERS[layer]][room] for layer, room in map(place, MODULES) if room >= 0}
    assert known - used == set(), "rooms that do not exist any more"


def test_imports_go_down_the_rooms() -> None:
    wrong = []
    for module, targets in every_import().items():
        for target, line in targets:
            assert target in MODULES, f"{module}:{line}: there is no {target}"
            inside = module in PACKAGES and target.startswith(f"{module}.")  # a package brings in its own parts
            if not inside and place(target) < place(module):
                wrong.append(f"{module}:{line} imports {target}, from above it")
    assert wrong == []


def test_no_circles() -> None:
    """Between files; the ``__init__`` of a package is left out, since importing a part of it runs it anyway."""
    graph = {m: {t for t, _ in found if t != m and t not in PACKAGES} for m, found in every_import().items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for target in sorted(graph[name]):
                visit(target, (*trail, name))
            done.add(name)

    for name in graph:
        if name not in PACKAGES:
            visit(name, ())


def test_imports_are_relative_and_at_the_top() -> None:
    wrong = []
    for module, tree in trees().items():
        for node, function in statements(tree):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            wrong += [f"{module}:{node.lineno}: import {n} relatively" for n in names if n.split(".")[0] in LAYERS]
            if function and isinstance(node, (ast.Import, ast.ImportFrom)):
                wrong.append(f"{module}:{node.lineno}: an import inside {function}")
    assert wrong == []


def test_a_name_means_one_thing() -> None:
    """No two classes of the library have the same name."""
    places: dict[str, list[str]] = {}
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


# quick: the lowest layer, which nothing else is imported for; that imports go down is read from the files
ALONE = [*(pytest.param(layer, marks=pytest.mark.slow) for layer in LAYERS[1:-1]), LAYERS[-1]]


@pytest.mark.parametrize("layer", ALONE)
def test_a_layer_can_be_imported_alone(layer: str) -> None:
    """Importing a layer's modules brings in nothing from above it; so the compiler runs without a tensor."""
    below = tuple(f"tracegrad.{name}" for name in LAYERS[LAYERS.index(layer) :])
    modules = sorted(m for m in MODULES if m.startswith(f"tracegrad.{layer}"))
    script = (
        "import sys, types, importlib, importlib.util\n"
        "spec = importlib.util.find_spec('tracegrad')\n"
        "package = types.ModuleType('tracegrad')\n"  # the package without its __init__, which is the top layer
        "package.__path__ = spec.submodule_search_locations\n"
        "sys.modules['tracegrad'] = package\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        f"print([m for m in sys.modules if m.startswith('tracegrad.') and not m.startswith({below!r})])\n"
    )
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"
