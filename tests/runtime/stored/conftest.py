"""Recordings on disk, in a directory of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracegrad.runtime.config import config


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory, which is in use; a recording answers one call before another verifies it."""
    monkeypatch.setattr(config, "cache", True)
    monkeypatch.setattr(config, "cache_recordings", True)
    monkeypatch.setattr(config, "disk_answers", 1)
    monkeypatch.setattr(config, "cache_dir", str(tmp_path / "cache"))
    return tmp_path / "cache"
