"""Loop nodes from one marked iteration of a Python loop. ``for_loop.py`` is the first file to read: it stands in the
user's ``for`` and ``while``. One iteration runs over symbols (``marked.py``, ``values.py`` for what they stand for), is
recorded as any other, and is then cut out of the recording and made the body of a loop node (``cut.py``). What is
known of positions is in ``positions.py``, what is gone over in ``iterables.py``. Where it can't be done, the loop
goes on iteration by iteration.  In a run that has effects at once, a marked iteration is made again where it would have
one (``restarted.py``).
"""
