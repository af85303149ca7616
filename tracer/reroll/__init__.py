"""Rerolling: Python loops that were recorded iteration by iteration to loop nodes. ``roll.py`` is the first file to
read, the whole in one function: repeats are found (``find.py``), proven for every block (``prove.py``, in the terms of
``repeats.py``), and rewritten (``rewrite.py``, with ``loop_body.py`` for the body).
"""
