"""Copies of Python functions in which every construct goes through one object, which sees the run and takes part in it.

Read ``transparent.py`` first: it is what a copy asks, answered as Python would.  Then ``copies.py``.
"""
