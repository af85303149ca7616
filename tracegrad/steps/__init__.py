"""``tracegrad.compile``: whole training steps over tensors, recorded once and replayed as one program.

Start reading at ``step.py``; ``record.py`` is the recording, ``replay.py`` what is generated from it.
Importing the package registers tensors with the compiler (``functions.py``, ``state.py``).
"""

from . import functions, state

__all__ = ["functions", "state"]
