"""What CPython will do next, read from the user's bytecode. ``control_flow.py`` is the first file to read: loops, and
which variables are live. ``purity.py`` proves that a turn of a loop is a function of its local variables,
``frame_snapshot.py`` keeps what they were, and ``concretize.py`` finds out who asks for a plain value, so that
``math.sin(t)`` is refused and ``float(t)`` becomes a guard.
"""
