"""The form of bytecode that all readers of it see, whatever the version of CPython."""

from __future__ import annotations

import numpy as np

from tracegrad.tracer.bytecode.instructions import plain_instructions


def program(x, y):
    a, b = x, y
    while a < b:
        a = np.add(a, y, out=None) if a > 3 else a * 2
    return "done"


def test_instructions_are_those_of_every_version():
    code = list(plain_instructions(program.__code__))
    names = {i.opname for i in code}
    assert {"LOAD_FAST", "STORE_FAST", "LOAD_CONST", "KW_NAMES", "CALL", "RETURN_VALUE"} <= names
    assert not any(name.count("_FAST") > 1 or name in ("RETURN_CONST", "CALL_KW") for name in names)
    assert len({i.offset for i in code}) == len(code)
    assert [i.argval for i in code if i.opname == "KW_NAMES"] == [("out",)]
