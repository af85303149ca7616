"""Each call of the table of test domains (``tests/support/coverage_table``): values, first and second derivatives."""

from __future__ import annotations

import pytest
from coverage_table import Case, all_cases, check


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_case(case: Case) -> None:
    check(case)
