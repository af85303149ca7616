"""The CUDA target: canonical programs to GPU kernels. ``assemble.py`` is the first file to read: a canonical program is
placed in loops (``placing.py``), each loop nest is mapped to threads and blocks (``mapping.py``) and written as a
kernel in LLVM IR (``kernels.py``); the result is a list of steps (``program.py``). ``nvvm_ir.py`` and
``ptx.py`` make machine code of it; ``tests/support/simulator.py`` runs it without a GPU. Kernels are launched in
``runtime/cuda/bound_program.py``.

Nothing here is imported with ``import tracegrad``: these modules need numba-cuda (``pip install 'tracegrad[cuda]'``).
"""
