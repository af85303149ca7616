"""Running it: compiled functions, call keys and paths, outside state, the kernel cache, the native launcher.

Start reading at ``compiled.py``.
"""
