"""Dispatch of calls to recorded paths. ``dispatcher.py`` is the first file to read: the slow path, when no slot knows
the call. A ``Path`` is one recording with its kernel (``paths.py``), a slot the generated fast path (``fast_path.py``),
a family the paths that one launch tries in turn (``family.py``, ``siblings.py``, ``shared_prefix.py``). Calls whose
Python runs each time are in ``fallback.py``, those in pieces in ``segments.py``.
"""
