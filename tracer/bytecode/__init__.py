"""Analysis of the user's bytecode. ``control_flow.py`` is the first file to read: loops, and liveness of variables.
``purity.py`` proves that a turn of a loop is a function of its local variables, ``frame_snapshot.py`` keeps their
values, and ``concretize.py`` identifies conversions to plain values, so that ``math.sin(t)`` is refused and
``float(t)`` becomes a guard. ``shown_names.py`` shows frames of recorded code other builtins (``type``,
``hasattr``), and ``identity.py`` says which code asks whether two values are one object.  What differs between versions
of Python is in ``versions.py``.
"""
