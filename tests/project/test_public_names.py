"""The names that users import are those of public_names.txt: none is lost, and none is added unseen."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

SECTIONS = Path(__file__).with_name("public_names.txt").read_text().split("\n\n")
LISTED = {(lines := section.split("\n", 1))[0].strip("[]"): set(lines[1].split()) for section in SECTIONS}


def names_of(path: str) -> set[str]:
    """``__all__`` of a module, each of which is there; the public attributes of a class."""
    parent, _, last = path.rpartition(".")
    if last[0].isupper():
        found = getattr(importlib.import_module(parent), last)
        return {name for name in dir(found) if not name.startswith("_") and hasattr(found, name)}
    module = importlib.import_module(path)
    return {name for name in module.__all__ if getattr(module, name) is not None}


@pytest.mark.parametrize("path", LISTED)
def test_public_names(path: str) -> None:
    assert names_of(path) == LISTED[path]
