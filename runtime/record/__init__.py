"""One call recorded. ``call_key.py`` is the first file to read: a call's arguments flattened (``trees.py``), and the
key under which its recordings are kept. ``record.py`` runs the user's Python on traced values and derives; a
``Recording`` (``recording.py``) is what it gives, ``outputs.py`` how the user gets the results of it,
``differentiable.py`` what is differentiated. ``inline.py`` is for a compiled function that is called while another one
is recorded.
"""
