"""Execution on a CUDA device. ``run.py`` is the first file to read: recorded programs behind the protocol of a native
launch. ``bound_program.py`` launches kernels, ``graphs.py`` replays a sequence of launches as one CUDA graph,
``load.py`` caches programs. ``availability.py`` finds devices, ``arrays.py`` takes device arrays of other libraries.

CuPy is imported when a device is first asked for, never by ``import tracegrad``.
"""
