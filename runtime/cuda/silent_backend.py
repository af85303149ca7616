"""The device's backend during a recording that is watched (``watch.py``).

Python that CuPy runs to read a value for control flow (it may compile a kernel) is not the user's function.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...codegen.evaluate.cupy_backend import CupyBackend
from ...tracer.ir.evaluate import Env
from ...tracer.ir.graph import Node
from ..state.watch import unwatched


class Unwatched:
    """A ``tracer.ir.evaluate.Backend`` that delegates to *backend* with the watch suspended."""

    def __init__(self, backend: CupyBackend) -> None:
        self._backend = backend

    def asarray(self, value: Any) -> Any:
        with unwatched():
            return self._backend.asarray(value)

    def run_nodes(self, nodes: Iterable[Node], env: Env) -> None:
        with unwatched():
            self._backend.run_nodes(nodes, env)

    def download(self, value: Any) -> np.ndarray:
        with unwatched():
            return self._backend.download(value)
