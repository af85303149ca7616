"""What Python's everyday does with what lies outside is in the log: one run, and the state is read in each call."""

from __future__ import annotations

import numpy as np
import pytest
from everyday_expressions import CHANGES, EXPRESSIONS, outside
from with_source import code_of

from tracegrad import compile_grad

X = np.array([0.3, 0.7, 1.1])
OFTEN = [text for text in EXPRESSIONS if "itertools" in text or "En" in text or "IA[0]" in text]


def outcome(f):
    try:
        return f(X)
    except Exception as error:
        return type(error)


def is_same(found, wanted):
    if isinstance(wanted, type):
        return isinstance(found, type) and issubclass(found, wanted)
    return not isinstance(found, type) and np.allclose(found, wanted, rtol=1e-12)


def check(texts):
    wrong = []
    for text in texts:
        space = outside()
        exec(code_of(f"def f(x):\n    return np.sum(x * x) + ({text})\n", "everyday"), space)
        plain, f = space["f"], compile_grad(space["f"])
        for change in (None, *CHANGES):
            if change is not None:
                change(space)
            for _ in range(2):
                found, wanted = outcome(f), outcome(plain)
                if not is_same(found, wanted):
                    wrong.append((text, change, found, wanted))
            if change is None and (f.stats.traces > 1 or f.stats.live):
                wrong.append((text, f.stats.traces, f.stats.live))
    assert not wrong


def test_iterators_and_enumerations():
    check(OFTEN)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_everyday_expressions(part):
    check([text for text in EXPRESSIONS[part::8] if text not in OFTEN])
