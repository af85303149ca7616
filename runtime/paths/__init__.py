"""Dispatch of calls to recorded paths. ``dispatcher.py`` is the first file to read: the slow path, when no slot knows
the call. A ``Path`` is one recording with its kernel (``paths.py``), a family the tree of paths that one launch walks
(``family.py``, ``shared_prefix.py``), a slot its generated fast path (``fast_path.py``). Calls whose Python runs each
time are in ``fallback.py``, those in pieces in ``segments.py``.
"""
