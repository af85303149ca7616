"""Copies of Python functions in which every construct goes through one object, which sees the run and takes part in it.

Read ``transparent.py`` first: it is what a copy asks, answered as Python would.  Then ``copies.py``; ``source.py``
finds and proves the syntax tree, ``statements.py``, ``loops.py``, ``comprehensions.py``, ``targets.py`` and
``expressions.py`` rewrite it.
"""
