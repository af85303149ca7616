"""The comparison with NumPy (``compare.py``), and the list of known failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from compare import HERE, outcomes, reasons, renamed, verdict

REPORT = """<testsuites><testsuite>
<testcase classname="array_api_tests.test_a" name="test_x[add]"/>
<testcase classname="array_api_tests.test_a" name="test_y"><failure message="no"/></testcase>
<testcase classname="array_api_tests.test_b" name="test_z"><skipped/></testcase>
<testcase classname="" name="array_api_tests.test_c"><error/></testcase>
</testsuite></testsuites>"""


def test_outcomes(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    found = outcomes(report)
    assert found["array_api_tests/test_a.py::test_x[add]"] == "passed"
    assert found["array_api_tests/test_a.py::test_y"] == "failed"
    assert found["array_api_tests/test_b.py::test_z"] == "skipped"
    assert [*found.values()].count("failed") == 2


def test_what_counts_against_us() -> None:
    theirs = {"a": "passed", "b": "passed", "c": "failed", "d": "passed", "e": "skipped", "f": "passed", "g": "passed"}
    ours = {"a": "passed", "b": "failed", "c": "failed", "d": "failed", "e": "passed", "f": "skipped", "h": "failed"}
    assert verdict(theirs, ours, {"d": "a reason", "a": "another"}) == (["b", "f", "g", "h"], ["a"])


def test_parameters_that_are_dtypes_have_their_names() -> None:
    theirs = {"f[float32]": "passed", "f[float64]": "failed", "g[a]": "passed", "h": "passed"}
    ours = {"f[dtype0]": "failed", "f[dtype1]": "passed", "g[b]": "passed", "g[a]": "failed", "h": "passed"}
    assert renamed(theirs, ours) == {
        "f[float32]": "failed", "f[float64]": "passed", "g[b]": "passed", "g[a]": "failed", "h": "passed"
    }  # fmt: skip


def test_every_known_failure_has_a_reason() -> None:
    assert reasons("# one\n# reason\nx\n\n# another\ny\nz\n") == {"x": "one reason", "y": "another", "z": "another"}
    with pytest.raises(ValueError, match="x is listed without a reason"):
        reasons("x\n# late\n")
    known = reasons((HERE / "xfails.txt").read_text())
    assert all(name.startswith("array_api_tests/test_") and "::" in name for name in known)
    assert all(len(reason) > 20 for reason in known.values())
