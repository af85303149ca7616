"""Graphs run node by node, without a kernel: by NumPy (``interpreter.py``) or by CuPy on a device."""
