"""docs/coverage.md is what its script makes, and its lists are true."""

from __future__ import annotations

import sys

import pytest
from coverage_table import all_cases
from coverage_table.no_derivative import BY_NATURE, DATA_ONLY, UNCALLED
from test_readme import ROOT, TEXTS

from tracegrad.tracer.record.array import FUNCTIONS, METHODS, UFUNCS, public_name
from tracegrad.tracer.scipy_api.linalg import HOOKED

sys.path.append(str(ROOT / "docs"))
import make_coverage as coverage

PAGE = TEXTS["docs/coverage.md"]
needs_its_releases = pytest.mark.skipif(coverage.RELEASES not in PAGE, reason="the page is of other releases")


@needs_its_releases
def test_the_page_is_what_the_script_makes() -> None:
    assert coverage.render() == PAGE, "run python docs/make_coverage.py"


@needs_its_releases
def test_every_name_is_that_of_something() -> None:
    names = {case.name for case in all_cases(installed=False)} | BY_NATURE | DATA_ONLY
    names |= {name for section in coverage.sections(names) for name in section.names}
    assert [name for name in sorted(names) if coverage.named(name) is None] == []


def test_what_has_no_derivative_can_be_called() -> None:
    assert not BY_NATURE & DATA_ONLY
    called = {case.name for case in all_cases()}
    listed = {name for name in BY_NATURE | DATA_ONLY if coverage.named(name) is not None}
    assert sorted(listed - UNCALLED - called) == []


@needs_its_releases
def test_what_is_implemented_is_on_the_page() -> None:
    """Each function with an implementation of its own has rows in the table, or a reason not to have any."""
    known = coverage.statuses()
    listed = {id(coverage.named(name)) for name in known}
    functions = {public_name(f): id(f) for f in [*FUNCTIONS, *UFUNCS]}
    of_numpy = {name: key for name, key in functions.items() if name.startswith("np.")}
    assert sorted(name for name, key in of_numpy.items() if key not in listed) == []
    assert sorted({f"scipy.linalg.{name}" for name in HOOKED} - set(known)) == []
    methods = {f"numpy.ndarray.{name}" for name in METHODS if not name.startswith("__")}
    assert sorted(methods - set(known)) == []
