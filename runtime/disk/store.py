"""Files that outlive the process: bytes, kept under the full text of their key.

A file is written whole under another name and linked to its own, so nobody reads a part of one. It begins with the
version of its form and a checksum of all that follows: the text, which is compared in full when it is found, and the
payload. The checksum of a large file is that of sums over it, which are made at the speed of memory (:func:`_sums`).
What does not hold is deleted and made anew. An I/O error deletes nothing. A directory that can't be written is
done without; what another user owns, or may write, is not even read, since payloads are machine code that will run.
Both are told once, by a ``CacheWarning``.

The names are hashes; all files stand side by side, so there is one directory to be trusted. When the files are larger
than ``config.cache_size`` together, those that were used least recently go. Processes do not wait for each other: there
are no locks, which network file systems may lack.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import platform
import stat
import struct
import threading
import time
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...tracer.ir.digests import blake2b
from ..config import config
from ..memory import fresh_memory
from .location import cache_directory

_MAGIC = b"tracegrad cache 3\n"
_SUM = 32  # bytes of the checksum
_HEAD = struct.Struct(f"<{len(_MAGIC)}s{_SUM}sQQQ")  # magic, checksum, lengths of kind, text and payload
_ALIGN = 16  # bytes, of the payload's place
_LINE = 1024  # words of eight bytes
_SUMMED = 64  # lines from which a file on has sums
_NAME = 20  # bytes of the hash in a file's name
_TEMPORARY = "writing-"
_HOST = platform.node()  # for names that no other writer has
_SWEPT = "swept"  # an empty file: when the directory was looked over last
_HOUR = 3600.0
_MOST = 1 << 30  # bytes of a file that is read
# a file or directory that is not there (any more), as local and network file systems say it
_ABSENT = {errno.ENOENT, errno.ESTALE, errno.ENOTDIR}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES, errno.EINVAL}
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class CacheWarning(RuntimeWarning):
    """The cache directory can't be used, or not be written; everything works without it, and compiles anew."""


class BadFileError(Exception):
    """A file's content is not as it was written."""


class Untrusted(OSError):  # noqa: N818
    """A file or directory that another user owns, or may write."""


class Entry(NamedTuple):
    """A file of the store."""

    path: str
    size: int
    used: float  # seconds since the epoch


def packed(kind: str, text: bytes, payload: bytes) -> bytes:
    """The content of a file."""
    lengths = (len(kind.encode()), len(text), len(payload))
    head = _HEAD.pack(_MAGIC, bytes(_SUM), *lengths)
    content = b"".join((head, kind.encode(), text, bytes(_gap(*lengths[:2])), payload))
    return _HEAD.pack(_MAGIC, _checksum(memoryview(content)), *lengths) + content[_HEAD.size :]


def _gap(kind: int, text: int) -> int:
    """The bytes between a text and its payload, for these lengths."""
    return -(_HEAD.size + kind + text) % _ALIGN


def _checksum(content: memoryview) -> bytes:
    """The checksum of all that stands behind its own place."""
    digest = blake2b(digest_size=_SUM)
    lines = len(content) // (8 * _LINE) - 1  # the first is hashed as it is
    if lines < _SUMMED:
        digest.update(content[_HEAD.size - 24 :])
    else:
        begin, end = 8 * _LINE, 8 * _LINE * (lines + 1)
        digest.update(content[_HEAD.size - 24 : begin])
        digest.update(_sums(content[begin:end]))
        digest.update(content[end:])
    return digest.digest()


def _sums(content: memoryview) -> bytes:
    """Sums modulo 2**64 of the words of *content*, which is whole lines: of each line, and of each column of the lines.
    A change within one line, or within one column, is in them; so is any other, but for one of so many that a hash of
    64 bits would not see, either."""
    table = np.frombuffer(content, "<u8").reshape(-1, _LINE)
    columns, lines = np.zeros(_LINE, "<u8"), np.empty(len(table), "<u8")
    for k in range(0, len(table), 64):  # which the processor's cache holds
        part = table[k : k + 64]
        columns += np.add.reduce(part, axis=0)
        np.add.reduce(part, axis=1, out=lines[k : k + 64])
    return columns.tobytes() + lines.tobytes()


def unpacked(content: bytes | memoryview) -> tuple[str, bytes, memoryview]:
    """(kind, text, payload) of a file's *content*, which is not copied.

    Raises:
        BadFileError: it is not what :func:`packed` has made.
    """
    if len(content) < _HEAD.size:
        raise BadFileError("too short")
    magic, checksum, *lengths = _HEAD.unpack_from(content)
    if magic != _MAGIC:
        raise BadFileError("of another version, or no file of the cache")
    gap = _gap(*lengths[:2])
    if sum(lengths) + gap != len(content) - _HEAD.size:
        raise BadFileError("cut off, or too long")
    if _checksum(memoryview(content)) != checksum:
        raise BadFileError("its checksum is another")
    view = memoryview(content)[_HEAD.size :]
    first, second = lengths[0], lengths[0] + lengths[1]
    return bytes(view[:first]).decode(), bytes(view[first:second]), view[second + gap :]


def file_name(kind: str, text: bytes) -> str:
    return f"{kind}-{blake2b(kind.encode() + bytes(1) + text, digest_size=_NAME).hexdigest()}"


def _is_name(name: str) -> bool:
    kind, _, digest = name.rpartition("-")
    return bool(kind) and len(digest) == 2 * _NAME and all(c in "0123456789abcdef" for c in digest)


def _trusted(found: os.stat_result, path: str) -> None:
    """Raise :class:`Untrusted` unless this user alone may write what *found* describes."""
    if not hasattr(os, "geteuid"):  # Windows, where a user's directories are the user's
        return
    if found.st_uid != os.geteuid():
        raise Untrusted(errno.EPERM, f"is owned by user {found.st_uid}, not by this one ({os.geteuid()})", path)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Untrusted(errno.EPERM, "may be written by other users (chmod go-w)", path)


class Store:
    """The files of this user's cache directory, wherever ``config`` has it at each call."""

    def __init__(self) -> None:
        self._told: set[str] = set()  # directories that something was said of
        self._closed: set[tuple[str, bool]] = set()  # (directory, whether for writing): not tried again
        self._trusted: set[str] = set()
        self._written = 0  # bytes since the last sweep

    # ---- what callers need ---------------------------------------------------------------------------------------

    def get(self, kind: str, text: bytes) -> bytes | None:
        """The payload that was put under *text*, or None."""
        found = self.view(kind, text)
        return None if found is None else bytes(found)

    def view(self, kind: str, text: bytes) -> memoryview | None:
        """The payload that was put under *text*, or None, not copied."""
        root = self._root(writing=False)
        if root is None:
            return None
        path = os.path.join(root, file_name(kind, text))
        try:
            content, used = self._read(path)
        except OSError as error:
            self._failed(root, error, writing=False)
            return None
        try:
            *key, payload = unpacked(content)
        except (BadFileError, UnicodeDecodeError):
            _remove(path)
            return None
        if key != [kind, text]:  # two texts of one hash
            return None
        if time.time() - used > _HOUR:
            with contextlib.suppress(OSError):  # it may be read-only
                os.utime(path)
        return payload

    def put(self, kind: str, text: bytes, payload: bytes) -> None:
        """Keep *payload* under *text*, unless something is kept there already."""
        root = self._root(writing=True)
        if root is None:
            return
        content = packed(kind, text, payload)
        try:
            self._write(root, file_name(kind, text), content)
            self._written += len(content)
            self._sweep_if_due(root)
        except OSError as error:
            self._failed(root, error, writing=True)

    def drop(self, kind: str, text: bytes) -> None:
        """Forget what is kept under *text*: its payload has turned out to be of no use."""
        root = self._root(writing=True)
        if root is not None:
            _remove(os.path.join(root, file_name(kind, text)))

    # ---- what the command line needs -----------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """The files, those used least recently first; raises OSError."""
        root = self._root(writing=False)
        return [] if root is None else [entry for entry in _files(root) if _is_name(os.path.basename(entry.path))]

    def check(self, path: str) -> str | None:
        """The fault of the content of a file, which is deleted then; None if it holds. Raises OSError."""
        try:
            kind, text, _ = unpacked(self._read(path)[0])
            if file_name(kind, text) != os.path.basename(path):
                raise BadFileError("it stands under another's name")
        except (BadFileError, UnicodeDecodeError) as error:
            _remove(path)
            return str(error)
        return None

    def clear(self) -> int:
        """Delete all files; returns their number."""
        root = self._root(writing=True)
        if root is None:
            return 0
        found = [*_files(root)] if os.path.isdir(root) else []
        for entry in found:
            _remove(entry.path)
        return sum(_is_name(os.path.basename(entry.path)) for entry in found)

    # ---- the directory -------------------------------------------------------------------------------------------

    def _root(self, writing: bool) -> str | None:
        """The directory, if it may be used; for writing it is made where it is missing."""
        root = cache_directory()
        if root is None or (root, writing) in self._closed or (root, False) in self._closed:
            return None
        if root not in self._trusted:
            try:
                if writing:
                    os.makedirs(root, mode=0o700, exist_ok=True)
                found = os.stat(root)
                _trusted(found, root)
                if not stat.S_ISDIR(found.st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), root)
            except OSError as error:
                self._failed(root, error, writing, made=True)
                return None
            self._trusted.add(root)
        return root

    def _failed(self, root: str, error: OSError, writing: bool, made: bool = False) -> None:
        """Go on without the directory, or without writing there, and say so once.  *made*: it could not be made."""
        if error.errno in _ABSENT and not writing:
            return
        if error.errno == errno.ENOENT and not made:  # deleted meanwhile; the next one makes it anew
            self._trusted.discard(root)
            return
        self._closed.add((root, writing and not isinstance(error, Untrusted)))
        without = "written" if writing and not isinstance(error, Untrusted) else "used"
        self._tell(without, f"{error.filename or root}: {error.strerror}", root)

    def no_directory(self) -> None:
        """Say once why there is no directory, unless nobody wants one."""
        if config.cache:
            named = f"{config.cache_dir!r} is no absolute path" if config.cache_dir else "the user has no home ($HOME)"
            self._tell("used", named, "")

    def _tell(self, without: str, why: str, root: str) -> None:
        """Say once of a directory that it can't be written, or used."""
        if root not in self._told:
            self._told.add(root)
            warnings.warn(
                f"tracegrad's cache of compiled kernels can't be {without}, so they are compiled in each process: "
                f"{why}. TRACEGRAD_CACHE_DIR names another directory; TRACEGRAD_CACHE=0 does without one.",
                CacheWarning,
                stacklevel=3,
            )

    # ---- files ---------------------------------------------------------------------------------------------------

    def _read(self, path: str) -> tuple[bytes | memoryview, float]:
        """(content, when it was used last)"""
        handle = os.open(path, os.O_RDONLY | _FLAGS)
        try:
            found = os.fstat(handle)
            _trusted(found, path)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST:
                return b"", found.st_mtime
            content, length = fresh_memory(found.st_size).data, 0
            with io.FileIO(handle, closefd=False) as file:
                while count := file.readinto(content[length:]):
                    length += count
            return content[:length].toreadonly(), found.st_mtime
        finally:
            os.close(handle)

    def _write(self, root: str, name: str, content: bytes) -> None:
        # no random numbers: a recording that is under way would take them for the user's
        writer = f"{_HOST}-{os.getpid()}-{threading.get_ident()}-{time.time_ns()}"
        temporary = os.path.join(root, f"{_TEMPORARY}{writer}")
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
            try:
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(handle, rest) :]
            finally:
                os.close(handle)  # where network file systems tell of a full disk
            path = os.path.join(root, name)
            try:
                os.link(temporary, path)
            except FileExistsError:  # another process was faster
                pass
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                os.replace(temporary, path)
        finally:
            _remove(temporary)

    # ---- the size ------------------------------------------------------------------------------------------------

    def _sweep_if_due(self, root: str) -> None:
        """Sweep where none was for an hour, or this process has written a sixteenth of the size since."""
        if self._written <= config.cache_size // 16:
            with contextlib.suppress(FileNotFoundError):
                if abs(time.time() - os.stat(os.path.join(root, _SWEPT)).st_mtime) < _HOUR:
                    return
        self._written = 0
        os.close(os.open(os.path.join(root, _SWEPT), os.O_WRONLY | os.O_CREAT | _FLAGS, 0o600))
        os.utime(os.path.join(root, _SWEPT))
        self.sweep(root)

    def sweep(self, root: str) -> None:
        """Delete what was used least recently until the rest is nine tenths of ``config.cache_size``, if it is larger
        than that; and what a writer that was killed has left."""
        found, now = [], time.time()
        for entry in _files(root):
            if not os.path.basename(entry.path).startswith(_TEMPORARY):
                found.append(entry)
            elif now - entry.used > _HOUR:
                _remove(entry.path)
        total = sum(entry.size for entry in found)
        if total > config.cache_size:
            for entry in found:
                if total <= config.cache_size * 9 // 10:
                    break
                _remove(entry.path)
                total -= entry.size


def _files(root: str) -> Iterator[Entry]:
    """The files in the directory *root* that the store has made, those used least recently first."""
    found = []
    with os.scandir(root) as listing:
        for item in listing:
            if _is_name(item.name) or item.name.startswith(_TEMPORARY):
                with contextlib.suppress(FileNotFoundError):
                    status = item.stat(follow_symlinks=False)
                    found.append(Entry(item.path, status.st_size, status.st_mtime))
    return iter(sorted(found, key=lambda entry: entry.used))


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


store = Store()
