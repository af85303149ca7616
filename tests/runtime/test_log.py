"""The log: why functions are recorded, what was compiled, what was not fused; bad settings name their variable."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import compile_grad, config

X = np.array([0.5, -1.0, 2.0])


def branchy(x):
    return np.sum(x * x) if np.sum(x) > 0 else np.sum(x * 5.0)


def test_recordings_are_logged_with_their_reasons(caplog):
    f = compile_grad(branchy)
    with caplog.at_level(logging.INFO, logger="tracegrad"):
        for x in (X, X, X, -X):
            f.value_and_grad(x)
    told = [record.getMessage() for record in caplog.records if record.name == "tracegrad.recompiles"]
    assert len(told) == 2 and all("branchy is recorded for the call at test_log.py" in text for text in told)
    assert "first call" in told[0]
    assert "guard missed: bool() gave another value than True at test_log.py" in told[1]
    assert {record.levelno for record in caplog.records} == {logging.INFO}


def test_nothing_is_logged_unasked(caplog, capsys):
    compile_grad(branchy).value_and_grad(X)
    assert not caplog.records and capsys.readouterr().err == ""


def test_topics_are_printed(capsys, monkeypatch):
    monkeypatch.setattr(config, "log", "recompiles, fusion,compiles")
    assert config.log == "recompiles,fusion,compiles"
    f = compile_grad(lambda x: np.sum(np.exp(np.sum(np.sinh(x)) * x)) * 0.123)
    f.value_and_grad(X)
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("tracegrad recompiles: ") for line in lines)
    assert any(line.startswith("tracegrad fusion: ") for line in lines)


def test_steps_are_logged_too(caplog):
    w = tg.tensor(X, requires_grad=True)
    step = tg.compile(lambda x: (w * x).sum() * 0.321)
    with caplog.at_level(logging.INFO, logger="tracegrad"):
        for _ in range(4):
            step(tg.tensor(X))
    names = [record.name for record in caplog.records]
    assert names.count("tracegrad.recompiles") == 1 and "<lambda> is recorded for the call at test_log" in caplog.text


def test_a_topic_that_there_is_not_is_an_error(monkeypatch):
    with pytest.raises(ValueError, match=r"config\.log='fuse': there is no topic 'fuse'; topics are recompiles, "):
        config.log = "fuse"
    assert config.log == ""


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("LOG", "recompiles,x", "TRACEGRAD_LOG='recompiles,x': there is no topic 'x'; topics are recompiles, compiles"),
        ("MAX_PATHS", "many", "TRACEGRAD_MAX_PATHS='many' in the environment: a whole number, 0 or more, is needed"),
        ("NUM_THREADS", "-1", "TRACEGRAD_NUM_THREADS='-1' in the environment: a whole number, 0 or more, is needed"),
    ],
)
def test_bad_settings_in_the_environment_name_their_variable(monkeypatch, name, value, message):
    monkeypatch.setenv(f"TRACEGRAD_{name}", value)
    with pytest.raises(ValueError, match=re.escape(message)):
        type(config)()
