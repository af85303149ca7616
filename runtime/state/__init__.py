"""Outside state: what a function reads that is no argument, found by analysis (``code_scan.py``, ``walk.py``), checked
in each call (``checker.py``), read again (``rebuild.py``), and watched while Python runs (``watch.py``)."""
