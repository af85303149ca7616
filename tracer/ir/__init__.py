"""The program: a flat, typed graph in SSA form (``graph.py``) of primitives (``primitive.py``) and avals (``aval.py``).

``text.py`` prints a graph, ``check.py`` typechecks it, ``equality.py`` compares two whatever their Vars are called,
``evaluate.py`` runs one with NumPy or another backend.
"""
