"""Rerolling: plain Python loops to loop nodes. ``roll.py`` is the first file to read, the whole in one function:
repeats are found (``find.py``), proven for every block (``prove.py``, in the terms of ``repeats.py``), and rewritten
(``rewrite.py``, with ``loop_body.py`` for the body). Loops that data ends are found by
``ended_loops.py`` and replaced by ``while_loops.py``, by way of ``turn_tree.py``. A loop that goes on for
long is checked against the previous turn instead of recorded (``loop_monitor.py``, ``inline_cache.py``).
"""
