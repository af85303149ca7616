"""Loops and branches that the user writes explicitly: ``scan``, ``fori_loop``, ``map``, ``while_loop``, ``cond`` and
``switch``, with JAX's argument order. Start reading at ``scan.py``, then ``loop_recording.py`` (a loop as one node)
and ``body_recorder.py`` (a recorder within the recorder, for its body). The node itself is
``../ops/control.py``.

Also functions that numba compiles (``jitted.py``), whose branches become choices (``jitted_ufuncs.py``).
"""
