"""The house holds: layers and rooms import strictly downward, and no two files import each other.

One parse of all files. ``TYPE_CHECKING`` imports count: a circle for a type checker is a circle for a reader. So do
imports by calls (``importlib.import_module``, ``__import__``, and our own functions over them), however they are
spelled: a module that is imported late is needed all the same.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
        "ahead", "inspection", "transforms", "compiled", "ahead_of_time", "report", "paths", "stored", "logged",
        "record",
        "cuda", "state", "launch", "profiling", "chrome_trace", "log", "disk", "declare", "tensor_library", "memo",
        "memory", "progress", "stats", "notebook", "mode", "config", "threads", "recent", "wrapper",
    ),
    "codegen": ("cuda", "cpu", "schedule", "lower", "derive", "evaluate"),
    "tracer": (
        "rules", "scipy_api", "random", "control", "loops", "numpy_api", "record", "ops", "convert", "ir",
    ),
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
def texts() -> dict[str, str]:
    return {name: path.read_text() for name, path in MODULES.items()}


@functools.cache
def trees() -> dict[str, ast.Module]:
    with fewer_collections():  # which would look at all trees again and again
        return {name: ast.parse(text) for name, text in texts().items()}


@pytest.fixture(autouse=True, scope="module")
def forgotten() -> Iterator[None]:
    """The collector would go over all trees once more."""
    yield
    trees.cache_clear()


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


# Functions that import a module whose name they are given.
IMPORTERS = {"import_module", "__import__", "imported", "imported_to_stay", "module_of_runtime", "LateModule"}
# Files in which the names come as data: those of libraries, of users' files, or of the file's own table.
NAMES_AS_DATA = {
    "tracegrad.check.example",  # users' files
    "tracegrad.compat.autograd.numpy",  # NumPy's parts
    "tracegrad.compat.autograd.scipy",  # its own parts
    "tracegrad.faces",  # statements that stand under TYPE_CHECKING, which are read as such
    "tracegrad.saving",  # safetensors; the library of tensors, below
    "tracegrad.codegen.cpu.symbols",  # SciPy's
    "tracegrad.runtime.stored.reads_text",  # those that users' functions import
    "tracegrad.runtime.ahead.lowered",  # its room's
    "tracegrad.runtime.compiled",  # rooms below it
    "tracegrad.runtime.transforms.transform",  # a rule's own rewriting, which registers itself
    "tracegrad.tracer.record.shown_names",  # what recorded code imports
    "tracegrad.tracer.ir.gc_pause",  # what it is given
    "tracegrad.tracer.ir.late_modules",
    "tracegrad.tracer.numpy_api.hooks",  # libraries
    "tracegrad.tracer.scipy_api",  # its own parts
}
# Late imports that go up: what users ask of an object begins above it.
GO_UP = {
    ("tracegrad.tensors", "tracegrad.steps"),  # whichever part is imported first, the compiler knows of tensors
    ("tracegrad.tensors.ops_standard", "tracegrad.array_api"),  # t.__array_namespace__()
}


def absolute(name: str, package: str) -> str:
    """The module that *name* is, seen from *package*."""
    dots = len(name) - len(name.lstrip("."))
    parents = package.split(".")
    return ".".join([*parents[: len(parents) - dots + 1], *([name[dots:]] if name[dots:] else [])]) if dots else name


def importers(tree: ast.Module) -> set[str]:
    """The names under which a file has functions that import: those of ``IMPORTERS``, as they were imported, and what
    they or partials of them were assigned to."""
    known, nodes = set(IMPORTERS), [*ast.walk(tree)]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            known |= {alias.asname for alias in node.names if alias.asname and alias.name in IMPORTERS}
    for _ in range(2):  # a name of a name
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(called(part) in known and not isinstance(part, ast.Call) for part in handed(node.value)):
                    known |= {target.id for target in targets if isinstance(target, ast.Name)}
    return known


def handed(value: ast.expr) -> list[ast.expr]:
    """*value* itself; of ``partial(f, ...)`` the function, of ``getattr(x, "f")`` its name."""
    if isinstance(value, ast.Call) and called(value) == "partial":
        return value.args[:1]
    if isinstance(value, ast.Call) and called(value) == "getattr" and len(value.args) > 1:
        name = value.args[1]
        return [ast.Name(str(name.value))] if isinstance(name, ast.Constant) else []
    return [value]


def called(node: ast.expr) -> str:
    """The last name of a function, or of what is called."""
    if isinstance(node, ast.Call):
        return called(node.func)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):  # vars(importlib)["import_module"]
        return str(node.slice.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def text_of(node: ast.expr, module: str, package: str) -> str | None:
    """A name of a module that stands in the source; None for any other expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return {"__package__": package, "__name__": module}.get(node.id)
    if isinstance(node, ast.JoinedStr):
        parts = [
            text_of(part.value if isinstance(part, ast.FormattedValue) else part, module, package)
            for part in node.values
        ]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [text_of(part, module, package) for part in (node.left, node.right)]
    else:
        return None
    return None if None in parts else "".join(map(str, parts))


def imports_by_call(module: str, tree: ast.Module) -> list[tuple[str | None, int]]:
    """(module, line) for each call that imports; None where the source does not say which one."""
    package = module if module in PACKAGES else module.rpartition(".")[0]
    known, found = importers(tree), []
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        partial = called(node) == "partial" and node.args and called(node.args[0]) in known
        looked_up = isinstance(node.func, ast.Call) and any(called(part) in known for part in handed(node.func))
        function = node.args[0] if partial else node.func
        if not (partial or looked_up or called(function) in known):
            continue
        if isinstance(function, ast.Name) and function.id in defined:  # a function of the file's own, by that name
            continue
        given = [*node.args[1 if partial else 0 :], *[k.value for k in node.keywords if k.arg == "name"]]
        name = text_of(given[0], module, package) if given else None
        below = "tracegrad.runtime" if called(function) == "module_of_runtime" else package
        name = f".{name}" if name is not None and called(function) == "module_of_runtime" else name
        found.append((None if name is None else absolute(name, below), node.lineno))
    return found


@functools.cache
def imports_by_call_of(module: str) -> list[tuple[str | None, int]]:
    """Those of a file of ours: without one of the names in its text, there are none."""
    named = re.search(rf"\b({'|'.join(IMPORTERS)})\b", texts()[module])
    return imports_by_call(module, trees()[module]) if named else []


def imports(module: str) -> list[tuple[str, int]]:
    """(module of ours, line) for each import; a module that is imported by name from its package counts as itself."""
    package = module if module in PACKAGES else module.rpartition(".")[0]
    found = [
        (name, line)
        for name, line in imports_by_call_of(module)
        if name is not None and name.split(".")[0] == "tracegrad" and (module, name) not in GO_UP
    ]
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


def test_each_import_by_a_call_says_what_it_imports() -> None:
    unknown = {m for m in MODULES if any(name is None for name, _ in imports_by_call_of(m))}
    assert unknown == NAMES_AS_DATA
    late = {(m, name) for m in MODULES for name, _ in imports_by_call_of(m)}
    assert late >= GO_UP


# Spellings of an import of tracegrad.tracer.ops.reduce in tracegrad/tracer/ops/shape.py.
SPELLINGS = [
    "import importlib\nimportlib.import_module('.reduce', __package__)",
    "import importlib\nimportlib.import_module('tracegrad.tracer.ops.reduce')",
    "import importlib as i\ndef late():\n    return i.import_module(name='.reduce', package=__package__)",
    "from importlib import import_module\nmodule = import_module(f'{__package__}.reduce')",
    "from importlib import import_module as later\nlater('..ops.reduce', __package__)",
    "import importlib\nfetch = importlib.import_module\nfetch('.reduce', __package__)",
    "import importlib\nfetch = again = importlib.import_module\nagain('.reduce', __package__)",
    "import importlib, functools\nwork = functools.partial(importlib.import_module, '.reduce', __package__)",
    "import importlib as i, functools\nf = functools.partial(i.import_module, package=__package__)\nf('.reduce')",
    "import importlib\ngetattr(importlib, 'import_module')('.reduce', __package__)",
    "import importlib\nfetch = getattr(importlib, 'import_module')\nfetch('.reduce', __package__)",
    "import importlib\nvars(importlib)['import_module']('.reduce', __package__)",
    "__import__('tracegrad.tracer.ops.reduce')",
    "__import__(__package__ + '.reduce', fromlist=['x'])",
    "import importlib\nimportlib.__import__('tracegrad.tracer.ops.reduce')",
    "import builtins\nbuiltins.__import__('tracegrad.tracer.ops.reduce')",
    "load = __import__\nload('tracegrad.tracer.ops.reduce')",
    "class A:\n    def f(self):\n        if (m := __import__('tracegrad.tracer.ops.reduce')):\n            return m",
    "from ..ir.late_modules import LateModule\nreduce = LateModule(f'{__package__}.reduce')",
    "from ..ir.gc_pause import imported_to_stay\nf = lambda: imported_to_stay('.reduce', __package__)",
]


@pytest.mark.parametrize("source", SPELLINGS)
def test_imports_by_calls_are_seen_in_each_spelling(source) -> None:
    found = imports_by_call("tracegrad.tracer.ops.shape", ast.parse(source))
    names = {name for name, _ in found}
    assert "tracegrad.tracer.ops.reduce" in names, found


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


# ---- objects by address ---------------------------------------------------------------------------------------------

# What reads objects at their addresses, calls CPython's C API, or has the interpreter call back for each line.
BY_ADDRESS = {
    "from_address", "pythonapi", "PyDLL", "py_object", "string_at", "wstring_at", "memmove", "memset", "settrace",
    "setprofile",
}  # fmt: skip
OF_CTYPES = {"cast", "POINTER", "pointer", "_CFuncPtr"}  # which mean something else elsewhere
CPYTHON = "tracegrad.codegen.cpu.cpython"


def by_address(tree: ast.Module) -> list[str]:
    """What a file does with objects by their addresses, however it is spelled: by names, and by offsets from ``id``."""
    found = []
    for node in ast.walk(tree):
        names: list[Any] = []
        if isinstance(node, ast.Attribute):
            names = [node.attr] + [f"ctypes.{node.attr}"] * (called(node.value) == "ctypes")
        elif isinstance(node, ast.Name):
            names = [node.id]
        elif isinstance(node, ast.Constant):
            names = [node.value]
        elif isinstance(node, ast.ImportFrom) and node.module in ("ctypes", "_ctypes"):
            names = [name for alias in node.names for name in (alias.name, f"ctypes.{alias.name}")]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            operands = [part for part in (node.left, node.right) if isinstance(part, ast.Call)]
            names = ["id"] if "id" in map(called, operands) else []
            found += [f"{node.lineno}: an offset from id(...)" for _ in names]
        known = BY_ADDRESS | {f"ctypes.{name}" for name in OF_CTYPES}
        found += [f"{node.lineno}: {name}" for name in names if isinstance(name, str) and name in known]
    return found


def test_one_file_reads_objects_by_address() -> None:
    named = re.compile(rf"\b({'|'.join(BY_ADDRESS)}|ctypes)\b|\bid\([^)]*\) *[+-]|[+-] *id\(")
    found = {module: by_address(trees()[module]) for module, text in texts().items() if named.search(text)}
    assert found.pop(CPYTHON)
    assert {module: uses for module, uses in found.items() if uses} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import ctypes\nctypes.c_int64.from_address(id(x) + 16).value",
        "import ctypes as c\nc.pythonapi.Py_IncRef(c.py_object(x))",
        "from ctypes import pythonapi as api\napi.Py_IncRef(x)",
        "import ctypes\ngetattr(ctypes, 'pythonapi').Py_IncRef(x)",
        "import ctypes\nctypes.PyDLL(None)['Py_IncRef']",
        "import ctypes\nctypes.cast(id(x), ctypes.POINTER(ctypes.c_int64))[2]",
        "from ctypes import cast as at\nat(id(x), kind)",
        "import ctypes\nctypes.string_at(id(x), 32)",
        "words = [8 + id(x), 0]",
        "words = [id(cls) + VERSION, 0]",
        "import sys\nsys.settrace(look)",
        "from sys import setprofile\nsetprofile(look)",
    ],
)  # fmt: skip
def test_what_reads_objects_by_address_is_seen_in_each_spelling(source: str) -> None:
    assert by_address(ast.parse(source))


def test_the_flags_of_classes_have_one_table() -> None:
    table = "tracegrad.tracer.ir.class_flags"
    asking = [module for module, text in texts().items() if "__flags__" in text and module != table]
    assert asking and [module for module in asking if table not in dict(every_import()[module])] == []


def test_a_name_means_one_thing() -> None:
    """No two classes of the library have the same name."""
    places: dict[str, list[str]] = {}
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_each_function_is_used() -> None:
    """Each function at the top of a file that no decorator registers has its name in another place, too: of the
    library, its tests, documents or benchmarks."""
    folders = (*LAYERS, "tests", "docs", "benchmarks", "examples")
    paths = [path for name in folders for end in ("py", "pyi", "md") for path in (ROOT / name).rglob(f"*.{end}")]
    words = Counter(word for path in paths for word in re.findall(r"[A-Za-z_]\w*", path.read_text()))
    unused = [
        f"{module}.{node.name}"
        for module, tree in trees().items()
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.decorator_list and words[node.name] < 2
        if not node.name.startswith("__")
    ]
    assert unused == []


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
