"""Beginners' mistakes: each is told by what was found, where, and what to write; docs/errors.md shows it."""

from __future__ import annotations

import sys
import traceback

import numpy as np
import pytest
from mistakes import FILE, MISTAKES, Mistake, told
from test_readme import ROOT, TEXTS

import tracegrad
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


def test_every_error_has_a_public_name() -> None:
    """As tracebacks print them: `tracegrad.LinAlgError`, which can be caught by that name."""
    kinds, waiting = set(), [tracegrad.TracegradError, tracegrad.ArchiveError, tracegrad.GradcheckError]
    while waiting:
        kinds.add(kind := waiting.pop())
        waiting += [one for one in kind.__subclasses__() if one.__module__.startswith("tracegrad")]
    printed = {traceback.format_exception_only(kind("no"))[0] for kind in kinds if kind.__name__ != "UnrecordableError"}
    assert len(printed) > 10
    for line in printed:
        name = line.removeprefix("tracegrad.").removesuffix(": no\n")
        assert line.startswith("tracegrad.") and "." not in name
        assert getattr(tracegrad, name).__name__ == name
        assert f"`{name}`" in TEXTS["docs/errors.md"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: tracegrad.compile_grad(lambda a: np.sum(np.linalg.inv(a))).grad(np.zeros((2, 2))),
        lambda: tracegrad.compile_grad(lambda a: np.linalg.cholesky(a))(-np.eye(2)),
        lambda: tracegrad.compile_grad(lambda a: np.linalg.solve(a, a[0]))(np.zeros((2, 2))),
        lambda: tracegrad.compile_grad(lambda a: np.linalg.det(a))(np.zeros((2, 3))),
        lambda: tracegrad.compile_grad(lambda a: np.linalg.cond(a))(np.zeros((0, 0))),
    ],
)
def test_errors_of_linear_algebra_have_a_public_name(make) -> None:
    with pytest.raises(np.linalg.LinAlgError) as caught:
        make()
    assert traceback.format_exception_only(caught.value)[0].startswith("tracegrad.LinAlgError: ")
