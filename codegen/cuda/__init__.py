"""CUDA: the same programs as kernels for a GPU.

Start reading at ``program.py``.  A canonical program is placed in loops (``placing.py``), each loop nest is mapped to
threads and blocks (``mapping.py``) and written as a kernel in LLVM IR (``kernels.py``).  ``nvvm_ir.py`` and ``ptx.py``
make machine code of that; ``simulator.py`` runs it without a GPU.

Nothing here is imported with ``import tracegrad``: these modules need numba-cuda (``pip install 'tracegrad[cuda]'``).
"""
