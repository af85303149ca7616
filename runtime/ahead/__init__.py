"""Functions compiled ahead of time, for one kind of call: ``f.lower(*specs).compile()``, and what is made of that.

``fixed.py`` is the first file to read: a program for one kind of call. ``lowering.py`` records it, ``lowered.py`` has
what users get of it. ``entry.py`` makes machine code with a C signature, which needs no Python: functions for numba
(``in_numba.py``), callbacks for SciPy (``callbacks.py``) and object files for C (``c_files.py``) stand on it.
``archive.py`` writes and reads files, in which programs stand as ``graph_bytes.py`` has them.
"""
