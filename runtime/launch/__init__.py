"""Launching of kernels on the CPU. ``bind.py`` is the first file to read: a kernel bound to an exact layout of
arguments, as a callable that costs a fraction of a microsecond. Behind it stands the native launcher in LLVM IR
(``launcher_ir.py``, with the offsets of ``codegen/cpu/cpython.py``); ``tape.py`` puts several kernels in one launch;
``tree_reader.py`` takes trees of arguments apart, ``result_tree.py`` puts those of results together;
``comparisons.py`` compares what a state rests on; ``binding.py`` binds a compiled program to one graph's numbers.
``kernel_cache.py`` keeps programs by signature.
"""
