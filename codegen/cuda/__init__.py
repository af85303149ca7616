"""CUDA: the same programs as kernels for a GPU.

Start reading at ``program.py``.  A canonical program is placed in loops (``placing.py``), each loop nest is mapped to
threads and blocks (``mapping.py``) and written as a kernel in LLVM IR (``kernels.py``).
"""
