"""Beginners' mistakes: each is told by what was found, where, and what to write; docs/errors.md shows it."""

from __future__ import annotations

import sys
import traceback

import pytest
from mistakes import FILE, MISTAKES, Mistake, told
from test_readme import ROOT, TEXTS

from tracegrad.tracer.ir.site import OWN_FOLDER
from tracegrad.tracer.ir.tracebacks import VARIABLE

sys.path.append(str(ROOT / "docs"))
import make_errors as page

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.title)
def test_a_mistake_is_told(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    if "import pandas" in mistake.code:
        pytest.importorskip("pandas")
    monkeypatch.delenv(VARIABLE, raising=False)
    error = told(mistake)
    assert error is not None
    assert mistake.error in [kind.__name__ for kind in type(error).__mro__]
    text = str(error)
    assert [word for word in mistake.words if word not in text] == []
    if mistake.line:
        assert f'File "{FILE}", line {mistake.line}, in ' in text
    frames = traceback.extract_tb(error.__traceback__)
    assert [frame for frame in frames if frame.filename.startswith(OWN_FOLDER)] == []
    if mistake.line and not mistake.title.startswith("A class of SciPy in C"):  # whose frames are Cython's
        assert frames[-1].filename == FILE and (frames[-1].lineno == mistake.line or "return" in text)


def test_the_page_is_what_the_script_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    assert len(MISTAKES) >= 40 and len({m.title for m in MISTAKES}) == len(MISTAKES)
    assert page.render() == TEXTS["docs/errors.md"], "run python docs/make_errors.py"
