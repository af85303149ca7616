"""``tracegrad.compile``: whole training steps over tensors, recorded once and replayed as one program. ``step.py`` is
the first file to read: a step's part of the dispatcher; ``step_recording.py`` is the recording and its replay,
``logged_step.py`` a run whose reads are logged, ``state_visitors.py`` the outside state of tensors, modules and
optimizers where a step is analysed, ``step_autograd.py`` results that stay connected to the tape, ``functions.py``
``compile_grad`` functions of tensors, ``device_program.py`` steps on a CUDA device.

Importing the package registers tensors with the compiler (``functions.py``, ``state_visitors.py``).
"""

from . import functions, state_visitors

__all__ = ["functions", "state_visitors"]
