"""Functions of these tests run as converted copies that log what they read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tracegrad.runtime.config import config


@pytest.fixture(autouse=True)
def logged() -> Iterator[None]:
    before = config.log_reads
    config.log_reads = True
    yield
    config.log_reads = before
