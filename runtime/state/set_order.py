"""Sets whose order is another one in each process: hashes of texts are drawn for each, those of objects are places in
memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_BY_VALUE = (bool, int, float, complex)


def hashes_here(values: Iterable[object]) -> bool:
    """Whether the order of a set of *values* is one of this process."""
    return not all((type(x) in _BY_VALUE or isinstance(x, np.number)) and x == x for x in values)
