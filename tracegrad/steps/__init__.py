"""``tracegrad.compile``: whole training steps over tensors, recorded once and replayed as one program. ``step.py`` is
the first file to read: a step's part of the dispatcher; ``logged_step.py`` is a run whose reads are logged,
``step_finished.py`` makes a recording of it, whose replay stands in ``step_recording.py``; ``step_autograd.py`` has
results that stay connected to the tape, ``functions.py`` ``compile_grad`` functions of tensors, ``device_program.py``
steps on a CUDA device.

Importing the package registers tensors with the compiler (``functions.py``).
"""

from . import functions

__all__ = ["functions"]
