"""Outside state: what a function reads that is no argument, found by analysis (``scan.py``, ``walk.py``), checked in
each call (``check.py``), read again (``rebuild.py``), and watched while Python runs (``watch.py``)."""
