"""Plain Python loops become loop nodes.

``roll.py`` is the whole of it: repeats are found (``find.py``), proven for every block (``prove.py``), and rewritten
(``rewrite.py``). Loops that data ends are ``while_loops.py`` and, with branches, ``branchy_loops.py``. A loop that goes
on for long is checked against the previous turn instead of recorded (``loop_monitor.py``, ``inline_cache.py``).
"""
