"""``tracegrad.compile``: whole training steps over tensors, recorded once and replayed as one program.

Start reading at ``step.py``; ``step_recording.py`` is the recording, ``replay.py`` what is generated from it.
Importing the package registers tensors with the compiler (``functions.py``, ``state_visitors.py``).
"""

from . import functions, state_visitors

__all__ = ["functions", "state_visitors"]
