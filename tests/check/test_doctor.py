"""``python -m tracegrad doctor``."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np

from tracegrad import config
from tracegrad.__main__ import main
from tracegrad.check import doctor

ROOT = Path(__file__).resolve().parents[2]


def test_it_says_what_is_here(capsys):
    status = main(["doctor"])
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert list(lines)[:8] == ["python", "packages", "processor", "math", "threads", "BLAS", "CUDA", "cache"]
    assert f"numpy {np.__version__}" in lines["packages"] and str(config.num_threads) in lines["threads"]
    assert status == (lines["bad"] != "nothing that is known")


def test_the_oldest_versions_are_those_that_the_package_asks_for():
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    least = dict(text.split(";")[0].split(">=") for text in asked)
    assert {name: ".".join(map(str, found)) for name, found in doctor.LEAST.items()}.items() <= least.items()


def test_bad_combinations_are_named_with_the_way_out(monkeypatch):
    real = doctor.version
    monkeypatch.setattr(doctor, "version", lambda name: {"numpy": "1.26.4", "optree": ""}.get(name, real(name)))
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    text, status = doctor.doctor()
    assert status == 1
    assert "numpy 1.26.4 is older than 2.1.2: pip install -U numpy" in text
    assert "optree is not installed: pip install optree" in text and "NUMBA_DISABLE_JIT is set" in text
