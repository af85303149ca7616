"""Running on a CUDA device. ``run.py`` is the first file to read: how a recorded program takes the place of a native
launch. ``bound_program.py`` is where kernels are launched, ``graphs.py`` where a sequence of launches is replayed as
one, ``load.py`` where programs are kept. ``availability.py`` says what is there, ``arrays.py`` takes arrays of other
libraries that lie there.

CuPy is imported when a device is first asked for, never by ``import tracegrad``.
"""
