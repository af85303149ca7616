"""What the garbage collector is told."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tracegrad.tracer.ir.gc_pause import _live_on


@pytest.fixture
def without_passes() -> Iterator[None]:
    enabled, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.disable()
    yield
    if not frozen:
        gc.unfreeze()
    if enabled:
        gc.enable()


def is_old(value: object) -> bool:
    return any(value is other for other in gc.get_objects(generation=2))


@pytest.mark.usefixtures("without_passes")
def test_what__live_on_is_old_and_not_frozen() -> None:
    made: list[object] = [[]]
    assert not is_old(made)
    frozen = gc.get_freeze_count()
    _live_on()
    assert gc.get_freeze_count() <= frozen  # of what was frozen some may have ended, as other threads do
    assert frozen or is_old(made)


@pytest.mark.usefixtures("without_passes")
@pytest.mark.slow
def test_what_the_user_has_frozen_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    _live_on()
    assert frozen - 1000 < gc.get_freeze_count() <= frozen
