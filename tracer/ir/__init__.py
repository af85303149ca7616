"""The program, a flat and typed graph in SSA form. ``graph.py`` is the first file to read: graphs, nodes, Vars, and
the builder that appends nodes. A node applies a primitive (``primitive.py``: the columns of a row, and the registry);
dtype and shape of a value are its aval (``aval.py``).

``text.py`` prints a graph, ``check.py`` typechecks it, ``equality.py`` compares two whatever their Vars are called,
``evaluate.py`` runs one with NumPy or another backend. ``errors.py`` has the exceptions that users meet, ``site.py``
the user's line of each node.
"""
