"""``python -m tracegrad cache``."""

from __future__ import annotations

import os

import pytest

from tracegrad.__main__ import main
from tracegrad.runtime.config import config
from tracegrad.runtime.disk import report
from tracegrad.runtime.disk.store import Store


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache", True)
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    monkeypatch.setattr(report, "store", found := Store())
    for k in range(3):
        found.put("kernel", bytes([k]), bytes(1000))
    found.put("native", b"", bytes(1000))
    return found


def run(capsys, action):
    status = main(["cache", action])
    return status, capsys.readouterr().out


def test_info(store, capsys, tmp_path):
    status, text = run(capsys, "info")
    assert status == 0
    assert str(tmp_path) in text
    assert "files      4, kernel: 3, native: 1" in text
    assert "KiB of 1 GiB" in text


def test_verify_deletes_what_is_damaged(store, capsys):
    assert run(capsys, "verify") == (0, "4 files read, 0 bad\n")
    entry = store.entries()[0]
    with open(entry.path, "r+b") as file:
        file.truncate(entry.size - 1)
    status, text = run(capsys, "verify")
    assert status == 1
    assert text.splitlines() == [
        f"{os.path.basename(entry.path)}: cut off, or too long", "4 files read, 1 bad and deleted",
    ]  # fmt: skip
    assert run(capsys, "verify") == (0, "3 files read, 0 bad\n")


def test_clear(store, capsys):
    status, text = run(capsys, "clear")
    assert status == 0 and text.startswith("4 files deleted")
    assert store.entries() == []
    assert "files      0\n" in run(capsys, "info")[1]


def test_off(store, capsys, monkeypatch):
    monkeypatch.setattr(config, "cache", False)
    for action in ("info", "clear", "verify"):
        status, text = run(capsys, action)
        assert status == 0 and "TRACEGRAD_CACHE=0" in text
