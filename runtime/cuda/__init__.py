"""Running on a CUDA device: what is there (``availability.py``), arrays that lie there (``arrays.py``), and how a
recorded program runs there (``run.py``).

CuPy is imported when a device is first asked for, never by ``import tracegrad``.
"""
