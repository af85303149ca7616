"""The files of the cache: what is read is what was written, or nothing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from tracegrad.runtime.config import config
from tracegrad.runtime.disk import store as store_module
from tracegrad.runtime.disk.generation import key_text
from tracegrad.runtime.disk.location import cache_directory
from tracegrad.runtime.disk.store import BadFileError, CacheWarning, Store, file_name, packed, unpacked

TEXT, PAYLOAD = b"the key of a kernel", bytes(range(256))
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes of files are those of POSIX")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store of its own directory, which is not there yet."""
    for name, value in (("cache", True), ("cache_dir", str(tmp_path / "cache")), ("cache_size", 1 << 30)):
        monkeypatch.setattr(config, name, value)
    return Store()


@pytest.fixture
def path(store, tmp_path):
    """The only file of the store."""
    store.put("kernel", TEXT, PAYLOAD)
    return tmp_path / "cache" / file_name("kernel", TEXT)


def one_warning(caught):
    assert [w.category for w in caught] == [CacheWarning]
    return str(caught[0].message)


def test_what_is_put_is_found_by_another_store(store):
    assert store.get("kernel", TEXT) is None
    store.put("kernel", TEXT, PAYLOAD)
    store.put("kernel", b"", b"")
    assert Store().get("kernel", TEXT) == PAYLOAD
    assert Store().get("kernel", b"") == b""
    assert store.get("plan", TEXT) is None
    assert store.get("kernel", TEXT + b"x") is None
    assert sorted(os.listdir(config.cache_dir)) == sorted(
        [file_name("kernel", TEXT), file_name("kernel", b""), "swept"]
    )


def test_the_first_payload_stays_until_it_is_dropped(store):
    store.put("kernel", TEXT, PAYLOAD)
    store.put("kernel", TEXT, b"another")
    assert store.get("kernel", TEXT) == PAYLOAD
    store.drop("kernel", TEXT)
    assert store.get("kernel", TEXT) is None
    store.put("kernel", TEXT, b"another")
    assert store.get("kernel", TEXT) == b"another"


def test_each_byte_counts():
    """Every bit that is turned, and every length at which the file is cut off, is noticed."""
    content = packed("kernel", TEXT, PAYLOAD)
    assert unpacked(content) == ("kernel", TEXT, PAYLOAD)
    for k in range(len(content)):
        for bit in (1, 128):
            with pytest.raises(BadFileError):
                unpacked(content[:k] + bytes([content[k] ^ bit]) + content[k + 1 :])
        with pytest.raises(BadFileError):
            unpacked(content[:k])
    with pytest.raises(BadFileError):
        unpacked(content + b"\0")


LINE = 8192  # bytes that have a sum


def large() -> bytes:
    """The content of a file that is summed up line by line: 70 of them, two of which are equal, and a rest."""
    rng = np.random.default_rng(0)
    lines = rng.integers(0, 256, (70, LINE), np.uint8)
    lines[30] = lines[20]
    content = packed("plan", TEXT, lines.tobytes() + rng.bytes(777))
    assert unpacked(content) == ("plan", TEXT, content[-len(lines.tobytes()) - 777 :])
    return content


def refused(content: bytes | bytearray) -> bool:
    try:
        unpacked(bytes(content))
    except BadFileError:
        return True
    return False


def test_each_byte_of_a_large_file_counts():
    content = bytearray(large())
    edges = {k + d for k in (0, 80, LINE, 2 * LINE, 70 * LINE, len(content) - 8) for d in range(-8, 8)}
    for k in sorted({*range(0, len(content), 397), *edges} & {*range(len(content))}):
        for bit in (1, 128):
            content[k] ^= bit
            assert refused(content)
            content[k] ^= bit
        assert refused(content[:k])
    assert not refused(content)


@pytest.mark.parametrize("size", [8, 512, 4096, LINE])
def test_parts_of_a_large_file_that_are_zero_or_changed_places(size):
    content = large()
    rng = np.random.default_rng(1)
    for _ in range(100):
        a, b = (int(k) * size for k in rng.choice(len(content) // size, 2, replace=False))
        first, second = content[a : a + size], content[b : b + size]
        for one, two in ((bytes(size), second), (bytes(size), bytes(size)), (second, first), (second, second)):
            changed = bytearray(content)
            changed[a : a + size], changed[b : b + size] = one, two
            assert changed == content or refused(changed)


@pytest.mark.parametrize("step", [8, 80, LINE, 3 * LINE])
def test_changes_of_a_large_file_that_cancel_each_other(step):
    """Of two words in one line, or one column, as whose sum nothing has changed."""
    content = bytearray(large())
    words = np.frombuffer(content, "<u8", len(content) // 8)
    for k in range(LINE // 8, len(words) - step // 8, 4999):
        for change in (1, 1 << 63, 12345):
            words[k] += change
            words[k + step // 8] -= change
            assert refused(content)
            words[k] -= change
            words[k + step // 8] += change
    assert not refused(content)


def test_a_large_file_is_read_at_an_aligned_place(store):
    payload = np.random.default_rng(0).bytes(3 << 20)
    store.put("plan", TEXT, payload)
    found = store.view("plan", TEXT)
    assert found == payload and found.readonly
    assert np.frombuffer(found, np.uint8).ctypes.data % 16 == 0


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b[:40] + b"?" + b[41:], lambda b: b"", lambda b: b * 2])
def test_bad_content_is_deleted_and_made_anew(store, path, change):
    path.write_bytes(change(path.read_bytes()))
    assert store.get("kernel", TEXT) is None
    assert not path.exists()
    store.put("kernel", TEXT, PAYLOAD)
    assert store.get("kernel", TEXT) == PAYLOAD


def test_the_text_is_compared_in_full(store, path):
    """A file of another text under this name (two texts of one hash) is left alone, and nothing is put in its place."""
    path.write_bytes(other := packed("kernel", b"another text", b"other code"))
    assert store.get("kernel", TEXT) is None
    store.put("kernel", TEXT, PAYLOAD)
    assert path.read_bytes() == other


def test_an_io_error_deletes_nothing(store, path, monkeypatch):
    def broken(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = path.read_bytes()
    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patch.setattr(store_module.io, "FileIO", broken)
        assert store.get("kernel", TEXT) is None
        assert store.get("kernel", TEXT) is None
    assert "TRACEGRAD_CACHE_DIR" in one_warning(caught)
    assert path.read_bytes() == before
    assert Store().get("kernel", TEXT) == PAYLOAD


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES])
@pytest.mark.parametrize("function", ["open", "write"])
def test_where_nothing_can_be_written(store, path, monkeypatch, code, function):
    """Files are read as before, writing is not tried again, and one warning says so."""
    real = getattr(os, function)

    def refuse(*args):
        if function == "write" or args[1] & os.O_CREAT:
            raise OSError(code, os.strerror(code))
        return real(*args)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with monkeypatch.context() as patch:
            patch.setattr(store_module.os, function, refuse)
            store.put("kernel", b"new", b"code")
        store.put("kernel", b"newer", b"code")
        assert store.get("kernel", TEXT) == PAYLOAD
    assert os.strerror(code) in one_warning(caught)
    assert sorted(os.listdir(config.cache_dir)) == sorted([path.name, "swept"])


def test_a_file_system_without_links(store, path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(store_module.os, "link", refuse)
    store.put("kernel", b"new", b"code")
    assert store.get("kernel", b"new") == b"code"


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_that_others_may_write_is_refused(store, path, mode):
    os.chmod(config.cache_dir, mode)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fresh = Store()
        assert fresh.get("kernel", TEXT) is None
        fresh.put("kernel", b"new", b"code")
    assert "may be written by other users" in one_warning(caught)
    assert not os.path.exists(os.path.join(config.cache_dir, file_name("kernel", b"new")))


@posix
def test_a_directory_of_another_user_is_refused(store, path, monkeypatch):
    mine = os.geteuid()
    monkeypatch.setattr(store_module.os, "geteuid", lambda: mine + 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fresh = Store()
        assert fresh.get("kernel", TEXT) is None
        fresh.put("kernel", b"new", b"code")
    assert "is owned by user" in one_warning(caught)
    assert path.exists()


@posix
def test_files_that_others_may_write_and_links_are_refused(store, path):
    os.chmod(path, 0o666)
    with pytest.warns(CacheWarning, match="may be written by other users"):
        assert Store().get("kernel", TEXT) is None
    os.chmod(path, 0o600)
    path.rename(moved := path.with_name("moved"))
    path.symlink_to(moved)
    with pytest.warns(CacheWarning):
        assert Store().get("kernel", TEXT) is None
    assert path.is_symlink()


@posix
def test_the_directory_is_the_users_alone(store, path):
    assert os.stat(config.cache_dir).st_mode & 0o777 == 0o700
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_directory_that_is_a_file(store, tmp_path):
    (tmp_path / "cache").write_text("")
    assert store.get("kernel", TEXT) is None
    with pytest.warns(CacheWarning):
        store.put("kernel", TEXT, PAYLOAD)


def told(store):
    """What is said of ten programs and recordings that the *store* is given."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(5):
            for kind in ("kernel", "plan"):
                assert store.get(kind, b"%d" % k) is None
                store.put(kind, b"%d" % k, PAYLOAD)
    return one_warning(caught)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR])
def test_a_directory_that_cannot_be_made_is_told_of_once(store, monkeypatch, number):
    def fails(path, *args, **kwargs):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(store_module.os, "makedirs", fails)
    text = told(store)
    assert f"{config.cache_dir}: {os.strerror(number)}" in text and "TRACEGRAD_CACHE_DIR" in text


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_files_that_cannot_be_made_are_told_of_once(store, monkeypatch, number):
    real = os.open

    def fails(path, flags, *args, **kwargs):
        if flags & os.O_CREAT:
            raise OSError(number, os.strerror(number), path)
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(store_module.os, "open", fails)
    assert os.strerror(number) in told(store)


@pytest.mark.skipif(sys.platform != "linux", reason="what /proc answers")
@pytest.mark.parametrize("place", ["/proc/nowhere", "/proc/self/a/b"])
def test_a_file_system_without_directories_of_users(store, monkeypatch, place):
    monkeypatch.setattr(config, "cache_dir", place)
    assert "can't be written" in told(store)


@pytest.mark.parametrize("below", ["", "sub", "sub/sub"])
def test_a_file_where_the_directory_should_be(store, monkeypatch, tmp_path, below):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(config, "cache_dir", os.path.join(tmp_path, "file", below).rstrip("/"))
    assert "writing-" not in told(store)
    assert (tmp_path / "file").read_text() == ""


def test_a_link_that_leads_nowhere(store, monkeypatch, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "gone")
    monkeypatch.setattr(config, "cache_dir", str(tmp_path / "link"))
    assert str(tmp_path / "link") in told(store)


@pytest.mark.skipif(sys.platform != "linux", reason="platformdirs finds the home")
@pytest.mark.parametrize("directory", ["", "relative/place"])
def test_no_absolute_directory(monkeypatch, directory):
    for name, value in (("cache", True), ("cache_dir", directory)):
        monkeypatch.setattr(config, name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as where there is no home
    monkeypatch.setattr(store_module.store, "_told", set())
    with pytest.warns(CacheWarning, match="is no absolute path" if directory else "no home") as caught:
        assert key_text(1) is None and key_text(2) is None
    assert len(caught) == 1
    monkeypatch.setattr(config, "cache", False)
    monkeypatch.setattr(store_module.store, "_told", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert key_text(1) is None


def test_a_directory_that_is_deleted_meanwhile(store, path):
    path.unlink()
    os.unlink(os.path.join(config.cache_dir, "swept"))
    os.rmdir(config.cache_dir)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.get("kernel", TEXT) is None
        store.put("kernel", TEXT, PAYLOAD)
        store.put("kernel", TEXT, PAYLOAD)
    assert store.get("kernel", TEXT) == PAYLOAD


def test_what_is_used_least_recently_goes_first(store):
    for k in range(10):
        store.put("kernel", bytes([k]), bytes(1000))
        at = time.time() - 10_000 + k
        os.utime(os.path.join(config.cache_dir, file_name("kernel", bytes([k]))), (at, at))
    assert store.get("kernel", bytes([0])) is not None  # used now
    config.cache_size = 6 * os.path.getsize(os.path.join(config.cache_dir, file_name("kernel", bytes([0]))))
    store.sweep(config.cache_dir)
    left = [k for k in range(10) if store.get("kernel", bytes([k])) is not None]
    assert left == [0, 6, 7, 8, 9]


def test_the_size_is_kept_below_the_limit_while_files_are_written(store):
    config.cache_size = 50_000
    for k in range(300):
        store.put("kernel", k.to_bytes(2), bytes(1000))
    assert 30_000 < sum(entry.size for entry in store.entries()) < 55_000


def test_what_killed_writers_left_is_cleared_away(store, path):
    old, new = path.with_name("writing-1-old"), path.with_name("writing-2-new")
    for left in (old, new):
        left.write_bytes(b"part")
    os.utime(old, (0, 0))
    store.sweep(config.cache_dir)
    assert (old.exists(), new.exists(), path.exists()) == (False, True, True)


def test_clear_and_check(store, path):
    assert [entry.path for entry in store.entries()] == [str(path)]
    assert store.check(str(path)) is None
    path.write_bytes(path.read_bytes()[:-1])
    assert "cut off" in (store.check(str(path)) or "")
    store.put("kernel", TEXT, PAYLOAD)
    (foreign := path.with_name("notes.txt")).write_text("not ours")
    assert store.clear() == 1
    assert (path.exists(), foreign.exists()) == (False, True)


def test_the_cache_is_off(store, path, monkeypatch):
    monkeypatch.setattr(config, "cache", False)
    store.put("kernel", b"new", b"code")
    assert store.get("kernel", TEXT) is None
    assert cache_directory() is None


def test_the_default_directory(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "cache", True)
    monkeypatch.setattr(config, "cache_dir", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert cache_directory() == str(tmp_path / "tracegrad")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        assert cache_directory() == str(tmp_path / "home" / ".cache" / "tracegrad")
    platformdirs = pytest.importorskip("platformdirs")
    assert cache_directory() == platformdirs.user_cache_dir("tracegrad", appauthor=False)


WRITERS = """
import os, random, signal, sys, time
from tracegrad.runtime.disk.store import store

processes, turns = map(int, sys.argv[1:])

def write(seed):
    rng = random.Random(seed)
    for turn in range(turns):
        k = rng.randrange(20)
        text, payload = b"key %d" % k, bytes([k]) * 50_000
        found = store.get("kernel", text)
        assert found in (None, payload)
        if found is None:
            store.put("kernel", text, payload)
        elif rng.random() < 0.3:
            store.drop("kernel", text)

children = []
for seed in range(processes):
    child = os.fork()
    if not child:
        try:
            write(seed)
            os._exit(0)
        finally:
            os._exit(1)
    children.append(child)
rng = random.Random(0)
half = processes // 2
for child in children[:half]:
    time.sleep(rng.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children[half:]])
"""


@posix
@pytest.mark.parametrize(("processes", "turns"), [(6, 40), pytest.param(16, 300, marks=pytest.mark.slow)])
def test_many_processes_write_and_are_killed(store, processes, turns):
    """At once on an empty cache; half are killed at some point. What is found is right, always."""
    environment = {**os.environ, "TRACEGRAD_CACHE": "1", "TRACEGRAD_CACHE_DIR": config.cache_dir}
    command = [sys.executable, "-c", WRITERS, str(processes), str(turns)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{[0] * (processes // 2)}\n", "")
    assert [store.check(entry.path) for entry in store.entries()] == [None] * len(store.entries())
