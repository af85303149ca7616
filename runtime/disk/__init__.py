"""Kernels that outlive the process. ``store.py`` keeps bytes under the full text of their key, in files that many
processes share; ``programs.py`` is how compiled programs get there and back, ``generation.py`` the text of what made
them. Object code is loaded without LLVM by ``codegen/cpu/elf.py``, with addresses by the names of
``codegen/cpu/symbols.py``.
"""
