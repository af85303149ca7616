"""Outside state: values that a function reads besides its arguments, compared in each call. ``state_graph.py`` is the
first file to read: what a run has read, as a graph (the log of ``runtime/logged`` makes it). ``checker.py`` makes a key
and a checker of it, ``snapshot.py`` has them, ``pins.py`` compares classes and dicts natively.  ``libraries.py`` and
``trust.py`` say what is known of libraries.
"""
