"""Rerolling: plain Python loops to loop nodes. ``roll.py`` is the first file to read, the whole in one function:
repeats are found (``find.py``), proven for every block (``prove.py``, in the terms of ``repeats.py``), and rewritten
(``rewrite.py``, with ``loop_body.py`` for the body). Loops that data ends are found by
``ended_loops.py``, by the questions that ``loop_monitor.py`` notes, and replaced by ``while_loops.py``, by way of
``turn_tree.py``.
"""
