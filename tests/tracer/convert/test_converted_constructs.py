"""Copies of functions do what the functions do, construct by construct."""

from __future__ import annotations

import construct_cases
import pytest
from construct_cases import CASES, LOG
from converted import copied, deeply, outcome, rebound


@pytest.mark.parametrize(("f", "calls"), [pytest.param(f, calls, id=f.__qualname__) for f, calls in CASES])
@pytest.mark.parametrize("form", [copied, deeply, rebound])
def test_copy_does_the_same(f, calls, form):
    if form is rebound and f.__name__.startswith("temporaries"):
        pytest.skip("a look at the variables of a frame keeps them alive")
    for args in calls:
        LOG.clear()
        want, want_log = outcome(f, *args), [*LOG]
        LOG.clear()
        got, got_log = outcome(form(f), *args), [*LOG]
        assert repr(got) == repr(want)
        assert repr(got_log) == repr(want_log)
        construct_cases.counter = 0
