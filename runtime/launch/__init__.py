"""From arrays to a running kernel: binding a program to sizes and constants (``bind.py``), the native launcher in LLVM
IR (``launcher_ir.py``), and the cache of kernels (``kernel_cache.py``)."""
