"""Graphs run node by node, without a kernel: with NumPy (``interpreter.py``, the first file to read, and the oracle of
the tests), or with CuPy on a device (``cupy_backend.py``). ``cupy_exceptions.py`` has the primitives that CuPy
computes otherwise than NumPy.
"""
