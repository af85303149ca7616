"""Outside state: values that a function reads besides its arguments. ``state_plan.py``, the first file to read, lists
the parts. State is found by analysis of bytecode (``code_scan.py``) and a walk over values (``walk.py``, into
``state_graph.py``), checked in each call (``checker.py``), replaced by traced stand-ins while recording
(``rebuild.py``), and watched while Python runs (``watch.py``), so that no code runs that was not analysed.
"""
