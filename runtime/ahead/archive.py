"""Compiled functions as files: a ``.tgz`` of programs, kernels and the structure of arguments.

``manifest.json`` says the format, the version of tracegrad and the checksum of each part; for each kind of result (the
value; the value with its gradient) ``program`` is what ``graph_bytes.py`` makes of the program, with constants and the
trees of arguments and result, and ``kernel`` its object code, with the text of what has made it and for which processor
(``disk/generation.py``).  Where that text is another, the kernel is compiled from the program.  Nothing is pickled, and
nothing of a file but such a kernel is run.  Start reading at :func:`save`.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import gzip
import io
import json
import os
import sys
import tarfile
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...tracer.ir.digests import blake2b
from ...tracer.ir.errors import UnsupportedError
from ..disk.encoding import EncodingError, decode, encode
from ..disk.generation import generation
from ..disk.location import existing_folder
from ..disk.programs import to_bytes
from ..mode import VALUE, VALUE_AND_GRAD
from .fixed import FixedArgument, FixedCall
from .graph_bytes import graph_of, graph_to_parts
from .lowered import Compiled

FORMAT = 1
_MANIFEST = "manifest.json"
_CONTAINERS = frozenset(("tuple", "list", "dict", "fields"))
_MOST = 1 << 32  # bytes of a part
_BAD = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, EncodingError, KeyError, TypeError, ValueError)


class ArchiveError(ValueError):
    """A file that is no compiled function, or one of another version, or damaged."""


def _version() -> str:
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def save(compiled: Compiled, path: str | os.PathLike[str]) -> None:
    """Write *compiled* to a file, which is replaced as a whole or not at all.

    Raises:
        UnsupportedError: it runs Python of the user's.
        ValueError: the path does not end in ``.tgz``, by which ``tracegrad.load`` knows such files.
    """
    if not os.fspath(path).endswith(".tgz"):
        raise ValueError(f"{os.fspath(path)!r} does not end in .tgz, by which tracegrad.load knows exported functions")
    content = packed(compiled)
    folder, name = os.path.split(os.path.abspath(path))
    existing_folder(folder, "export")
    beside = os.path.join(folder, f".{name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with open(beside, "xb") as file:
            file.write(content)
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> Compiled:
    """The function that ``f.export(path)`` has written, without its source; its kernels are compiled anew where they
    were made for another processor, or by other versions.  Trust a file as you trust code: its kernels are run.

    :raises ValueError: where the file is damaged, of another version of tracegrad, or none of these.
    """
    with open(path, "rb") as file:
        return unpacked(file.read(), repr(os.fspath(path)))


def packed(compiled: Compiled) -> bytes:
    """The content of a file."""
    parts: dict[str, bytes] = {}
    for mode, fixed in compiled.calls.items():
        if isinstance(fixed, FixedCall):
            try:
                parts[f"{mode}/program"] = encode(_parts(fixed))
            except EncodingError as error:
                raise UnsupportedError(f"{fixed.name} can't be exported: it has {error}") from None
            made_by = generation()
            if made_by is not None:
                parts[f"{mode}/kernel"] = encode((made_by, to_bytes(fixed.program)))
        else:
            parts[f"{mode}/error"] = str(fixed).encode()
    sums = {name: _checksum(content) for name, content in parts.items()}
    manifest = {"format": FORMAT, "tracegrad": _version(), "function": compiled.name, "parts": sums}
    raw = io.BytesIO()
    with gzip.GzipFile("", "wb", 6, raw, mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as file:
        for name, content in ((_MANIFEST, json.dumps(manifest, indent=1).encode()), *parts.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def unpacked(content: bytes, shown: str = "this") -> Compiled:
    """The function in the *content* of a file, which is *shown* in errors.

    Raises:
        ArchiveError: there is none.
    """
    try:
        parts = _read(content)
        manifest = json.loads(parts.pop(_MANIFEST))
        if (manifest["format"], manifest["tracegrad"]) != (FORMAT, _version()):
            raise ArchiveError(
                f"{shown} was exported by tracegrad {manifest['tracegrad']} (format {manifest['format']}), and this "
                f"is {_version()} (format {FORMAT}); export the function again"
            )
        if {name: _checksum(part) for name, part in parts.items()} != manifest["parts"]:
            raise ArchiveError(f"{shown} is damaged: a checksum is another")
        calls: dict[str, Any] = {}
        for mode in (VALUE, VALUE_AND_GRAD):
            if f"{mode}/error" in parts:
                calls[mode] = UnsupportedError(parts[f"{mode}/error"].decode())
                continue
            fixed = _fixed(decode(parts[f"{mode}/program"]))
            if f"{mode}/kernel" in parts:
                made_by, kernel = decode(parts[f"{mode}/kernel"])
                fixed = replace(fixed, kernel=kernel) if made_by == generation() else fixed
            calls[mode] = fixed
        return Compiled(manifest["function"], calls)
    except ArchiveError:
        raise
    except _BAD as error:
        raise ArchiveError(f"{shown} is no file of f.export, or damaged ({error})") from error


def _read(archive: bytes) -> dict[str, bytes]:
    parts: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as file:
        for entry in file:
            content = file.extractfile(entry) if entry.isreg() and entry.size < _MOST else None
            if content is None or entry.name in parts:
                raise ArchiveError(f"{entry.name!r} is in it, which f.export does not write")
            parts[entry.name] = content.read()
    return parts


def _checksum(content: bytes) -> str:
    return blake2b(content, digest_size=32).hexdigest()


def _parts(fixed: FixedCall) -> tuple[Any, ...]:
    operands = tuple([(x.name, x.kind, x.dtype, x.shape) for x in fixed.operands])
    structure = tuple(map(_without_objects, fixed.structure))
    return (
        fixed.name, fixed.mode, graph_to_parts(fixed.graph), operands, structure, _with(fixed.tree, _described),
        fixed.single, fixed.wrt, fixed.has_aux, fixed.missed,
    )  # fmt: skip


def _without_objects(part: Any) -> Any:
    """The structure of arguments in which None stands for each object."""
    kind, *parts = part
    if kind == "object":
        return "value", None
    start = {"dict": 1, "fields": 2}.get(kind, 0)
    return (kind, *parts[:start], *map(_without_objects, parts[start:])) if kind in _CONTAINERS else part


def _fixed(parts: Any) -> FixedCall:
    name, mode, graph, operands, structure, tree, *rest = parts
    given = tuple([FixedArgument(*x) for x in operands])
    return FixedCall(name, mode, graph_of(graph), given, structure, _with(tree, _class_of), *rest)


def _with(tree: Any, function: Callable[[Any, tuple[str, ...]], Any]) -> Any:
    """The tree of a result with *function* of each class in it, and of its names, in the place of the class."""
    if tree is None or tree[0] in ("r", "value", "sparse"):
        return tree
    kind, *parts = tree
    head: list[Any] = []
    if kind in ("dict", "object"):
        head.append(parts.pop(0) if kind == "dict" else (function(parts[0][0], parts[0][1]), parts.pop(0)[1]))
    return (kind, *head, *[_with(part, function) if isinstance(part, tuple) else part for part in parts])


def _described(cls: type, names: tuple[str, ...]) -> tuple[str, bool]:
    return cls.__name__, issubclass(cls, tuple)


@functools.cache
def _class_of(described: tuple[str, bool], names: tuple[str, ...]) -> type:
    """A class of that name, where the user's own is not at hand."""
    name, is_tuple = described
    return collections.namedtuple(name, names) if is_tuple else dataclasses.make_dataclass(name, names)
