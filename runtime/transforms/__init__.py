"""Functions of functions: gradients, Jacobians, batches.

``transform.py`` is the first file to read: a transform is a rewriting of what a function has recorded.  What users call
stands in ``gradient.py`` (``grad``), ``forward.py`` and ``reverse.py`` (``jvp``, ``vjp`` and their like),
``jacobians.py``, ``sparse.py`` and ``vmap.py``; their rules in ``forward_rewrite.py`` and so on, which only recordings
import.  ``values.py`` has trees of tangents and cotangents, ``linear_map.py`` the linear functions that ``vjp`` and
``linearize`` return.
"""
