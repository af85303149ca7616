"""Here each way through the branches is a path."""

from __future__ import annotations

import pytest

from tracegrad import config


@pytest.fixture(autouse=True)
def _questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "select_branches", False)
